// Complex modulus: distance[b, n] = Σ_i |q[b, i] − e[n, i]| over k complex coordinates, rows stored as [real | imaginary].
//
// The square root costs more than all the rest, so rows are read as they lie. Squares are formed in float32: coordinates
// beyond 1e19 overflow. The order of additions is that of `pair_modulus` everywhere, so cross and pairs agree to the bit.
#pragma once

#include "scaled_l1.h"

namespace {

constexpr float smallest_square = 1.17549435e-38f;

inline Vector squared_modulus(Vector real, Vector imaginary) {
    return Vector::multiply_add(real, real, imaginary * imaginary);
}

inline float pair_modulus(const float* q, const float* e, long k) {
    Vector sum = Vector::zero();
    for (long column = 0; column < k; column += lanes) {
        Vector real = load_from(q, column, k) - load_from(e, column, k);
        Vector imaginary = load_from(q + k, column, k) - load_from(e + k, column, k);
        sum = sum + Vector::root(squared_modulus(real, imaginary));
    }
    return sum.sum();
}

void complex_modulus_cross(int threads, const float* q, const float* e, long B, long N, long k, float* out) {
    constexpr long chunk = 32;  // candidates that stay in the cache while the queries go by
    parallel(threads, ceil_divide(N, chunk), [&](long task, int) {
        for (long b = 0; b < B; ++b)
            for (long n = task * chunk; n < least((task + 1) * chunk, N); ++n)
                out[b * N + n] = pair_modulus(q + b * 2 * k, e + n * 2 * k, k);
    });
}

void complex_modulus_pairs(int threads, const float* q, const float* e, long B, long k, float* out) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b)
            out[b] = pair_modulus(q + b * 2 * k, e + b * 2 * k, k);
    });
}

// g / |z|, times z: at z = 0 the direction is undefined and zero is a subgradient, which this gives.
inline void direction(Vector& real, Vector& imaginary, Vector g) {
    Vector square = Vector::larger(Vector::all(smallest_square), squared_modulus(real, imaginary));
    Vector factor = g * Vector::inverse_root(square);
    real = real * factor, imaginary = imaginary * factor;
}

void complex_modulus_pairs_backward(int threads, const float* q, const float* e, const float* g, long B, long k, float* dq,
                                    float* de) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b)
            for (long column = 0; column < k; column += lanes) {
                const float *q_row = q + b * 2 * k, *e_row = e + b * 2 * k;
                Vector real = load_from(q_row, column, k) - load_from(e_row, column, k);
                Vector imaginary = load_from(q_row + k, column, k) - load_from(e_row + k, column, k);
                direction(real, imaginary, Vector::all(g[b]));
                store_to(real, dq + b * 2 * k, column, k);
                store_to(imaginary, dq + b * 2 * k + k, column, k);
                store_to(Vector::zero() - real, de + b * 2 * k, column, k);
                store_to(Vector::zero() - imaginary, de + b * 2 * k + k, column, k);
            }
    });
}

// Column by column, as for scaled L1: a thread owns its columns of every gradient. Of a thinned g only what is left counts.
void complex_modulus_backward(int threads, const float* q, const float* e, const float* g, long B, long N, long k, float* dq,
                              float* de) {
    const Sparse sparse(threads, g, nullptr, B, N);
    parallel(threads, ceil_divide(k, lanes), [&](long step, int) {
        long column = step * lanes;
        float* columns = static_cast<float*>(scratch(transher::slot_columns, (4 * N * lanes + 1) * sizeof(float)));
        for (long n = 0; n < N; ++n) {
            float* place = columns + n * 4 * lanes;  // real, imaginary, and their gradients
            load_from(e + n * 2 * k, column, k).store(place);
            load_from(e + n * 2 * k + k, column, k).store(place + lanes);
            Vector::zero().store(place + 2 * lanes), Vector::zero().store(place + 3 * lanes);
        }
        for (long b = 0; b < B; ++b) {
            Vector q_real = load_from(q + b * 2 * k, column, k), q_imaginary = load_from(q + b * 2 * k + k, column, k);
            Vector d_real = Vector::zero(), d_imaginary = Vector::zero();
            const bool listed = sparse.offsets != nullptr;
            const long begin = listed ? sparse.offsets[b] : b * N, count = listed ? sparse.offsets[b + 1] - begin : N;
            const float* gradients = (listed ? sparse.values : g) + begin;
            for (long i = 0; i < count; ++i) {
                float* place = columns + (listed ? sparse.candidates[begin + i] : i) * 4 * lanes;
                Vector real = q_real - Vector::load(place), imaginary = q_imaginary - Vector::load(place + lanes);
                direction(real, imaginary, Vector::broadcast(gradients + i));
                d_real = d_real + real, d_imaginary = d_imaginary + imaginary;
                (Vector::load(place + 2 * lanes) - real).store(place + 2 * lanes);
                (Vector::load(place + 3 * lanes) - imaginary).store(place + 3 * lanes);
            }
            store_to(d_real, dq + b * 2 * k, column, k);
            store_to(d_imaginary, dq + b * 2 * k + k, column, k);
        }
        for (long n = 0; n < N; ++n) {
            store_to(Vector::load(columns + n * 4 * lanes + 2 * lanes), de + n * 2 * k, column, k);
            store_to(Vector::load(columns + n * 4 * lanes + 3 * lanes), de + n * 2 * k + k, column, k);
        }
    });
}

}  // namespace
