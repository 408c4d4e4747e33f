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

// Queries (B, 2k) against P pools of N candidates each.
struct Pools {
    const std::int64_t* ids;  // (P, N), rows of the candidates; null where candidate i lies in row i
    long pools, count, B, k;

    long run() const { return transher::run_length(B, pools); }
    // Where a candidate's row begins.
    long row(long pool, long n) const { return (ids ? ids[pool * count + n] : pool * count + n) * 2 * k; }
};

void complex_modulus_cross(int threads, const float* q, const float* e, const std::int64_t* ids, long B, long P, long N,
                           long k, float* out) {
    constexpr long chunk = 32;  // candidates that stay in the cache while the queries go by
    const Pools pools{ids, P, N, B, k};
    const long chunks = ceil_divide(N, chunk), run = pools.run();
    parallel(threads, P * chunks, [&](long task, int) {
        const long pool = task / chunks, first = task % chunks * chunk;
        for (long b = pool * run; b < least((pool + 1) * run, B); ++b)
            for (long n = first; n < least(first + chunk, N); ++n)
                out[b * N + n] = pair_modulus(q + b * 2 * k, e + pools.row(pool, n), k);
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

// A group of columns of one row, real and imaginary; zeros beyond k.
constexpr long modulus_steps = 4;

inline void load_columns(const float* row, long column, long k, Vector* real, Vector* imaginary) {
#pragma GCC unroll 4
    for (long j = 0; j < modulus_steps; ++j) {
        const long here = column + j * lanes;
        real[j] = here < k ? load_from(row, here, k) : Vector::zero();
        imaginary[j] = here < k ? load_from(row + k, here, k) : Vector::zero();
    }
}

// Gradients where few pairs are left of a pool: straight into their rows, as wide a piece of columns at a time as makes the
// way to a row worth it. A thread owns its columns, so that no two add to one place.
void sparse_modulus_backward(int threads, const Pools& pools, const Sparse& sparse, const float* q, const float* e, float* dq,
                             float* de) {
    constexpr long piece = 16 * lanes;
    const long k = pools.k, run = pools.run();
    parallel(threads, ceil_divide(k, piece), [&](long task, int) {
        const long first = task * piece, last = least(first + piece, k);
        for (long b = 0; b < pools.B; ++b) {
            const float* q_row = q + b * 2 * k;
            Vector sums[2][piece / lanes];
            for (auto& half : sums)
                for (Vector& sum : half) sum = Vector::zero();
            for (long i = sparse.offsets[b]; i < sparse.offsets[b + 1]; ++i) {
                const long row = pools.row(b / run, sparse.candidates[i]);
                const Vector gradient = Vector::broadcast(sparse.values + i);
                for (long column = first, j = 0; column < last; column += lanes, ++j) {
                    Vector x = load_from(q_row, column, k) - load_from(e + row, column, k);
                    Vector y = load_from(q_row + k, column, k) - load_from(e + row + k, column, k);
                    direction(x, y, gradient);
                    sums[0][j] = sums[0][j] + x, sums[1][j] = sums[1][j] + y;
                    store_to(load_from(de + row, column, k) - x, de + row, column, k);
                    store_to(load_from(de + row + k, column, k) - y, de + row + k, column, k);
                }
            }
            for (long column = first, j = 0; column < last; column += lanes, ++j) {
                store_to(sums[0][j], dq + b * 2 * k, column, k);
                store_to(sums[1][j], dq + b * 2 * k + k, column, k);
            }
        }
    });
}

// By groups of columns, as for scaled L1: a thread owns its columns of every gradient, `de` of which must be zeros. A pool's
// columns and their gradients lie side by side while its queries go by. Of a thinned g only what is left counts.
void complex_modulus_backward(int threads, const float* q, const float* e, const std::int64_t* ids, const float* g, long B,
                              long P, long N, long k, float* dq, float* de) {
    constexpr long group = modulus_steps * lanes;
    const Pools pools{ids, P, N, B, k};
    const long run = pools.run();
    const Sparse sparse(threads, g, nullptr, B, N, run, 0);
    if (sparse.offsets && sparse.offsets[B] < 3 * P * N) return sparse_modulus_backward(threads, pools, sparse, q, e, dq, de);
    parallel(threads, ceil_divide(k, group), [&](long task, int) {
        const long column = task * group;
        float* columns = static_cast<float*>(scratch(transher::slot_columns, (4 * N * group + 1) * sizeof(float)));
        Vector real[modulus_steps], imaginary[modulus_steps];
        for (long pool = 0; pool < P; ++pool) {
            for (long n = 0; n < N; ++n) {
                float* place = columns + n * 4 * group;  // of each step: real, imaginary, and their gradients
                load_columns(e + pools.row(pool, n), column, k, real, imaginary);
                for (long j = 0; j < modulus_steps; ++j, place += 4 * lanes) {
                    real[j].store(place), imaginary[j].store(place + lanes);
                    Vector::zero().store(place + 2 * lanes), Vector::zero().store(place + 3 * lanes);
                }
            }
            for (long b = pool * run; b < least((pool + 1) * run, B); ++b) {
                load_columns(q + b * 2 * k, column, k, real, imaginary);
                Vector d_real[modulus_steps], d_imaginary[modulus_steps];
                for (long j = 0; j < modulus_steps; ++j) d_real[j] = d_imaginary[j] = Vector::zero();
                const bool listed = sparse.offsets != nullptr;
                const long begin = listed ? sparse.offsets[b] : b * N, count = listed ? sparse.offsets[b + 1] - begin : N;
                const float* gradients = (listed ? sparse.values : g) + begin;
                for (long i = 0; i < count; ++i) {
                    float* place = columns + (listed ? sparse.candidates[begin + i] : i) * 4 * group;
                    const Vector gradient = Vector::broadcast(gradients + i);
#pragma GCC unroll 4
                    for (long j = 0; j < modulus_steps; ++j, place += 4 * lanes) {
                        Vector x = real[j] - Vector::load(place), y = imaginary[j] - Vector::load(place + lanes);
                        direction(x, y, gradient);
                        d_real[j] = d_real[j] + x, d_imaginary[j] = d_imaginary[j] + y;
                        (Vector::load(place + 2 * lanes) - x).store(place + 2 * lanes);
                        (Vector::load(place + 3 * lanes) - y).store(place + 3 * lanes);
                    }
                }
                for (long j = 0, here = column; j < modulus_steps && here < k; ++j, here += lanes) {
                    store_to(d_real[j], dq + b * 2 * k, here, k);
                    store_to(d_imaginary[j], dq + b * 2 * k + k, here, k);
                }
            }
            for (long n = 0; n < N; ++n) {
                const float* place = columns + n * 4 * group + 2 * lanes;
                float* row = de + pools.row(pool, n);
                for (long j = 0, here = column; j < modulus_steps && here < k; ++j, here += lanes, place += 4 * lanes) {
                    store_to(load_from(row, here, k) + Vector::load(place), row, here, k);
                    store_to(load_from(row + k, here, k) + Vector::load(place + lanes), row + k, here, k);
                }
            }
        }
    });
}

}  // namespace
