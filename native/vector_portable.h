// Four floats through the compiler's vector extension: SSE2 on any x86-64, NEON on ARM. Members as in vector_avx2.h.
#pragma once
#include <cmath>
#include <cstring>

namespace {

struct Vector {
    static constexpr int width = 4;
    static constexpr int query_block = 2;
    typedef float Floats __attribute__((vector_size(16)));
    typedef int Ints __attribute__((vector_size(16)));
    Floats v;

    static Vector zero() { return {Floats{0, 0, 0, 0}}; }
    static Vector all(float x) { return {Floats{x, x, x, x}}; }
    static Vector load(const float* p) {
        Vector a;
        std::memcpy(&a.v, p, sizeof a.v);
        return a;
    }
    static Vector broadcast(const float* p) { return all(*p); }
    void store(float* p) const { std::memcpy(p, &v, sizeof v); }

    static Vector load_first(const float* p, int n) {
        Vector a = zero();
        for (int i = 0; i < n; ++i) a.v[i] = p[i];
        return a;
    }
    void store_first(float* p, int n) const {
        for (int i = 0; i < n; ++i) p[i] = v[i];
    }

    friend Vector operator+(Vector a, Vector b) { return {a.v + b.v}; }
    friend Vector operator-(Vector a, Vector b) { return {a.v - b.v}; }
    friend Vector operator*(Vector a, Vector b) { return {a.v * b.v}; }
    friend Vector operator/(Vector a, Vector b) { return {a.v / b.v}; }
    static Vector multiply_add(Vector a, Vector b, Vector c) { return {a.v * b.v + c.v}; }
    static Vector subtract_product(Vector c, Vector a, Vector b) { return {c.v - a.v * b.v}; }

    static Vector pick(Ints mask, Vector yes, Vector no) {
        return {(Floats)((mask & (Ints)yes.v) | (~mask & (Ints)no.v))};
    }
    static Vector absolute(Vector a) { return {(Floats)((Ints)a.v & 0x7fffffff)}; }
    static Vector root(Vector a) {
        for (int i = 0; i < width; ++i) a.v[i] = std::sqrt(a.v[i]);
        return a;
    }
    static Vector inverse_root(Vector a) { return all(1.0f) / root(a); }
    static Vector larger(Vector a, Vector b) { return pick(a.v > b.v, a, b); }
    static Vector smaller(Vector a, Vector b) { return pick(a.v < b.v, a, b); }
    static Vector nearest(Vector a) {
        for (int i = 0; i < width; ++i) a.v[i] = std::nearbyint(a.v[i]);
        return a;
    }

    static Vector merge_sign(Vector t, Vector g) {
        return {(Floats)(((Ints)t.v & static_cast<int>(0x80000000u)) ^ (Ints)g.v)};
    }
    static Vector spoil(Vector a, Vector x, Vector y) {
        return {(Floats)((Ints)a.v | (x.v != x.v) | (y.v != y.v))};
    }
    static Vector where_positive(Vector x, Vector yes, Vector no) { return pick(x.v > zero().v, yes, no); }
    static Vector power_of_two(Vector n) {
        return {(Floats)((__builtin_convertvector(n.v, Ints) + 127) << 23)};
    }
    static Vector flags(const unsigned char* p) {
        return {Floats{p[0] ? 1.f : 0.f, p[1] ? 1.f : 0.f, p[2] ? 1.f : 0.f, p[3] ? 1.f : 0.f}};
    }

    static unsigned less(Vector a, Vector b) {
        Ints mask = a.v < b.v;
        return (mask[0] & 1u) | (mask[1] & 2u) | (mask[2] & 4u) | (mask[3] & 8u);
    }

    static void sum_four(Vector a, Vector b, Vector c, Vector d, float* out) {
        out[0] = a.sum(), out[1] = b.sum(), out[2] = c.sum(), out[3] = d.sum();
    }
    float sum() const { return (v[0] + v[1]) + (v[2] + v[3]); }
    float greatest() const {
        float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
        return a > b ? a : b;
    }

    void store_bytes(unsigned char* p) const {
        for (int i = 0; i < width; ++i) p[i] = static_cast<unsigned char>(v[i]);
    }
};

struct ByteSums {
    static constexpr int width = 16;
    unsigned v;
    static ByteSums zero() { return {0}; }
    void add(const unsigned char* a, const unsigned char* b) {
        for (int i = 0; i < width; ++i) v += static_cast<unsigned>(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
    }
    unsigned sum() const { return v; }
};

}  // namespace
