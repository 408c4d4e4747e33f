// Eight floats in an AVX2 register. Every back end's vector has the same members, so the kernels are written once.
#pragma once
#include <immintrin.h>

namespace {

struct Vector {
    static constexpr int width = 8;
    static constexpr int query_block = 3;      // forward: 3 × 4 sums, the loads stay below the arithmetic
    __m256 v;

    static Vector zero() { return {_mm256_setzero_ps()}; }
    static Vector all(float x) { return {_mm256_set1_ps(x)}; }
    static Vector load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static Vector broadcast(const float* p) { return {_mm256_broadcast_ss(p)}; }
    void store(float* p) const { _mm256_storeu_ps(p, v); }

    static __m256i first(int n) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    static Vector load_first(const float* p, int n) { return {_mm256_maskload_ps(p, first(n))}; }
    void store_first(float* p, int n) const { _mm256_maskstore_ps(p, first(n), v); }

    friend Vector operator+(Vector a, Vector b) { return {_mm256_add_ps(a.v, b.v)}; }
    friend Vector operator-(Vector a, Vector b) { return {_mm256_sub_ps(a.v, b.v)}; }
    friend Vector operator*(Vector a, Vector b) { return {_mm256_mul_ps(a.v, b.v)}; }
    friend Vector operator/(Vector a, Vector b) { return {_mm256_div_ps(a.v, b.v)}; }
    static Vector multiply_add(Vector a, Vector b, Vector c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
    static Vector subtract_product(Vector c, Vector a, Vector b) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }

    static Vector absolute(Vector a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
    static Vector root(Vector a) { return {_mm256_sqrt_ps(a.v)}; }
    // 1/√a for normal a: the hardware's twelve bits and one step of Newton's, to 2e-7.
    static Vector inverse_root(Vector a) {
        Vector y{_mm256_rsqrt_ps(a.v)};
        return y * subtract_product(all(1.5f), all(0.5f) * a * y, y);
    }
    static Vector larger(Vector a, Vector b) { return {_mm256_max_ps(a.v, b.v)}; }    // b where a is NaN
    static Vector smaller(Vector a, Vector b) { return {_mm256_min_ps(a.v, b.v)}; }   // b where a is NaN
    static Vector nearest(Vector a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

    // g with its sign flipped where t is negative.
    static Vector merge_sign(Vector t, Vector g) {
        return {_mm256_xor_ps(_mm256_and_ps(t.v, _mm256_set1_ps(-0.0f)), g.v)};
    }
    // a, or NaN where x or y is NaN.
    static Vector spoil(Vector a, Vector x, Vector y) {
        return {_mm256_or_ps(a.v, _mm256_cmp_ps(x.v, y.v, _CMP_UNORD_Q))};
    }
    static Vector where_positive(Vector x, Vector yes, Vector no) {
        return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_GT_OQ))};
    }
    // 2^n for whole n in −126 … 127.
    static Vector power_of_two(Vector n) {
        return {_mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127)), 23))};
    }
    // 1 where the byte is not zero, else 0; reads `width` bytes.
    static Vector flags(const unsigned char* p) {
        __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
        return {_mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256())),
                              _mm256_set1_ps(1.0f))};
    }

    // One bit per lane where a < b.
    static unsigned less(Vector a, Vector b) {
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)));
    }

    // Sums of four vectors. The order of additions is the same for each, whichever place it takes.
    static void sum_four(Vector a, Vector b, Vector c, Vector d, float* out) {
        __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a.v, b.v), _mm256_hadd_ps(c.v, d.v));
        _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
    }
    float sum() const {
        __m256 pairs = _mm256_hadd_ps(v, v);
        pairs = _mm256_hadd_ps(pairs, pairs);
        return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
    }
    float greatest() const {
        __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        a = _mm_max_ps(a, _mm_movehl_ps(a, a));
        return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
    }

    // Whole numbers 0 … 255 as bytes.
    void store_bytes(unsigned char* p) const {
        __m256i whole = _mm256_cvtps_epi32(v);
        __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
    }
};

// Sums of absolute differences of bytes, 32 at a time.
struct ByteSums {
    static constexpr int width = 32;
    __m256i v;
    static ByteSums zero() { return {_mm256_setzero_si256()}; }
    void add(const unsigned char* a, const unsigned char* b) {
        __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(a));
        __m256i y = _mm256_load_si256(reinterpret_cast<const __m256i*>(b));
        v = _mm256_add_epi64(v, _mm256_sad_epu8(x, y));
    }
    unsigned sum() const {
        __m128i a = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        return static_cast<unsigned>(_mm_cvtsi128_si32(a)) + static_cast<unsigned>(_mm_extract_epi32(a, 2));
    }
};

}  // namespace
