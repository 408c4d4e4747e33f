// Sixteen floats in an AVX-512 register; the members are those of vector_avx2.h.
#pragma once
#include <immintrin.h>

namespace {

struct Vector {
    static constexpr int width = 16;
    static constexpr int query_block = 4;
    __m512 v;

    static Vector zero() { return {_mm512_setzero_ps()}; }
    static Vector all(float x) { return {_mm512_set1_ps(x)}; }
    static Vector load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static Vector broadcast(const float* p) { return {_mm512_set1_ps(*p)}; }
    void store(float* p) const { _mm512_storeu_ps(p, v); }

    static __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
    static Vector load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
    void store_first(float* p, int n) const { _mm512_mask_storeu_ps(p, first(n), v); }

    friend Vector operator+(Vector a, Vector b) { return {_mm512_add_ps(a.v, b.v)}; }
    friend Vector operator-(Vector a, Vector b) { return {_mm512_sub_ps(a.v, b.v)}; }
    friend Vector operator*(Vector a, Vector b) { return {_mm512_mul_ps(a.v, b.v)}; }
    friend Vector operator/(Vector a, Vector b) { return {_mm512_div_ps(a.v, b.v)}; }
    static Vector multiply_add(Vector a, Vector b, Vector c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
    static Vector subtract_product(Vector c, Vector a, Vector b) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }

    static Vector absolute(Vector a) { return {_mm512_abs_ps(a.v)}; }
    static Vector root(Vector a) { return {_mm512_sqrt_ps(a.v)}; }
    static Vector inverse_root(Vector a) {
        Vector y{_mm512_rsqrt14_ps(a.v)};
        return y * subtract_product(all(1.5f), all(0.5f) * a * y, y);
    }
    static Vector larger(Vector a, Vector b) { return {_mm512_max_ps(a.v, b.v)}; }
    static Vector smaller(Vector a, Vector b) { return {_mm512_min_ps(a.v, b.v)}; }
    static Vector nearest(Vector a) {
        return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
    }

    static Vector merge_sign(Vector t, Vector g) {
        // One instruction: (t & sign) ^ g; 0x78 is its truth table over (g, t, sign).
        return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(g.v), _mm512_castps_si512(t.v),
                                                              _mm512_set1_epi32(static_cast<int>(0x80000000u)), 0x78))};
    }
    static Vector spoil(Vector a, Vector x, Vector y) {
        __mmask16 unordered = _mm512_cmp_ps_mask(x.v, y.v, _CMP_UNORD_Q);
        return {_mm512_castsi512_ps(_mm512_mask_set1_epi32(_mm512_castps_si512(a.v), unordered, -1))};
    }
    static Vector where_positive(Vector x, Vector yes, Vector no) {
        return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GT_OQ), no.v, yes.v)};
    }
    static Vector power_of_two(Vector n) {
        return {_mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
    }
    static Vector flags(const unsigned char* p) {
        __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        return {_mm512_maskz_mov_ps(_mm512_test_epi32_mask(wide, wide), _mm512_set1_ps(1.0f))};
    }

    static unsigned less(Vector a, Vector b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }

    static void sum_four(Vector a, Vector b, Vector c, Vector d, float* out) {
        out[0] = a.sum(), out[1] = b.sum(), out[2] = c.sum(), out[3] = d.sum();
    }
    float sum() const { return _mm512_reduce_add_ps(v); }
    float greatest() const { return _mm512_reduce_max_ps(v); }

    void store_bytes(unsigned char* p) const {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(v)));
    }
};

struct ByteSums {
    static constexpr int width = 64;
    __m512i v;
    static ByteSums zero() { return {_mm512_setzero_si512()}; }
    void add(const unsigned char* a, const unsigned char* b) {
        v = _mm512_add_epi64(v, _mm512_sad_epu8(_mm512_load_si512(a), _mm512_load_si512(b)));
    }
    unsigned sum() const { return static_cast<unsigned>(_mm512_reduce_add_epi64(v)); }
};

}  // namespace
