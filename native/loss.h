// The self-adversarial loss and its gradient in one pass, and row-sparse Adam: the rest of a training step.
#pragma once

#include "scaled_l1.h"

namespace {

// c[0]·x^(n−1) + … + c[n−1].
template <int n>
inline Vector polynomial(Vector x, const float (&c)[n]) {
    Vector sum = Vector::all(c[0]);
    for (int i = 1; i < n; ++i) sum = Vector::multiply_add(sum, x, Vector::all(c[i]));
    return sum;
}

// e^x with a relative error below 2e-7; 0 … 1e-38 below −87, NaN stays NaN.
inline Vector exponential(Vector x) {
    x = Vector::smaller(Vector::all(88.0f), Vector::larger(Vector::all(-87.0f), x));
    Vector n = Vector::nearest(x * Vector::all(1.44269504f));
    Vector r = Vector::subtract_product(x, n, Vector::all(0.693359375f));
    r = Vector::subtract_product(r, n, Vector::all(-2.12194440e-4f));
    Vector p = polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                              5.0000001201e-1f});
    p = Vector::multiply_add(p, r * r, r) + Vector::all(1.0f);
    // The conversion to a whole number would turn NaN into something finite: put it back.
    return Vector::spoil(p * Vector::power_of_two(n), x, x);
}

// softplus(x) = log(1 + e^x) and σ(x), without overflow at either end.
inline void softplus_and_sigmoid(Vector x, Vector& softplus, Vector& sigmoid) {
    Vector one = Vector::all(1.0f), zero = Vector::zero(), u = exponential(zero - Vector::absolute(x));
    // log(1 + u) = 2 artanh(z), z = u / (2 + u) ≤ 1/3: an odd series, exact also for tiny u.
    Vector z = u / (Vector::all(2.0f) + u), 
           series = polynomial(z * z, {2.0f / 15, 2.0f / 13, 2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3, 2.0f});
    softplus = Vector::multiply_add(series, z, Vector::larger(zero, x));
    Vector at_absolute = one / (one + u);
    sigmoid = Vector::where_positive(x, at_absolute, u * at_absolute);
}

// 1 for the members of a row that count.
inline Vector counted(const unsigned char* valid, long column, long N) {
    if (valid && column + lanes <= N) return Vector::flags(valid + column);
    unsigned char bytes[lanes] = {};
    for (long i = 0; i < lanes && column + i < N; ++i) bytes[i] = valid ? valid[column + i] : 1;
    return Vector::flags(bytes);
}

// Loss of one row's negatives; leaves its gradient, times `factor`, in d.
inline float negative_row(const float* f, const unsigned char* valid, long N, float alpha, float factor, float* d) {
    Vector sharpness = Vector::all(alpha), lowest = Vector::all(-__builtin_inff()), highest = lowest;
    for (long n = 0; n < N; n += lanes)
        highest = Vector::larger(
            Vector::where_positive(counted(valid, n, N), load_from(f, n, N) * sharpness, lowest), highest);
    Vector top = Vector::all(highest.greatest()), total = Vector::zero();
    for (long n = 0; n < N; n += lanes) {
        Vector p = exponential(load_from(f, n, N) * sharpness - top);
        p = Vector::where_positive(counted(valid, n, N), p, Vector::zero());
        total = total + p;
        store_to(p, d, n, N);
    }
    float sum = total.sum();
    if (sum == 0.0f) return 0.0f;  // nothing counts here: d is all zero already
    Vector loss = Vector::zero(), share = Vector::all(1.0f / sum), scale = Vector::all(factor / sum);
    for (long n = 0; n < N; n += lanes) {
        Vector p = load_from(d, n, N), softplus, sigmoid;
        softplus_and_sigmoid(load_from(f, n, N), softplus, sigmoid);
        Vector flag = counted(valid, n, N);
        loss = loss + Vector::where_positive(flag, p * share * softplus, Vector::zero());
        store_to(Vector::where_positive(flag, p * scale * sigmoid, Vector::zero()), d, n, N);
    }
    return loss.sum();
}

double self_adversarial(int threads, const float* positive, const float* negative, const unsigned char* valid,
                        const float* weights, float alpha, long B, long N, float* d_positive, float* d_negative) {
    double total = 0.0;
    for (long b = 0; b < B; ++b) total += weights[b];
    double* losses = static_cast<double*>(scratch(transher::slot_shared, (B + 1) * sizeof(double)));
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b) {
            float factor = static_cast<float>(weights[b] / (2.0 * total));
            float lanes_out[lanes], sigmoid_out[lanes];
            Vector softplus, sigmoid;
            softplus_and_sigmoid(Vector::all(-positive[b]), softplus, sigmoid);
            softplus.store(lanes_out), sigmoid.store(sigmoid_out);
            d_positive[b] = -factor * sigmoid_out[0];
            float row = negative_row(negative + b * N, valid ? valid + b * N : nullptr, N, alpha, factor, d_negative + b * N);
            losses[b] = weights[b] * (static_cast<double>(lanes_out[0]) + row);
        }
    });
    double loss = 0.0;  // in the order of the rows, whoever computed them
    for (long b = 0; b < B; ++b) loss += losses[b];
    return loss / (2.0 * total);
}

// A fair coin from a counter: the same for a key wherever and by whomever it is drawn.
inline float uniform(std::uint32_t key, std::uint32_t counter) {
    std::uint32_t x = key ^ (counter * 0x9E3779B1u);
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return static_cast<float>((x ^ (x >> 16)) >> 8) * 0x1p-24f;
}

// Keeps about `wanted` of N gradients, without bias: those of at least a threshold t as they are, the others with
// probability |g|/t, and then as ±t. The threshold is where the expected number is as wanted; a few rounds find it.
inline void thin_row(float* g, long N, float wanted, std::uint32_t key, std::uint32_t counter) {
    Vector total = Vector::zero(), one = Vector::all(1.0f), none = Vector::zero();
    for (long n = 0; n < N; n += lanes) total = total + Vector::absolute(load_from(g, n, N));
    float threshold = total.sum() / wanted;
    for (int round = 0; round < 4; ++round) {
        Vector rest = none, heavy = none, bound = Vector::all(threshold);
        for (long n = 0; n < N; n += lanes) {
            Vector size = Vector::absolute(load_from(g, n, N));
            rest = rest + Vector::where_positive(bound - size, size, none);
            heavy = heavy + Vector::where_positive(bound - size, none, one);
        }
        float places = wanted - heavy.sum();
        if (!(places >= 1.0f)) break;
        threshold = rest.sum() / places;
    }
    for (long n = 0; n < N; ++n) {  // without branches, for the compiler to make vectors of
        float size = __builtin_fabsf(g[n]), drawn = uniform(key, counter + static_cast<std::uint32_t>(n)) * threshold;
        float kept = drawn < size ? __builtin_copysignf(threshold, g[n]) : 0.0f;
        g[n] = size < threshold ? kept : g[n];
    }
}

void thin(int threads, float* g, long B, long N, float share, std::uint32_t key) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b)
            thin_row(g + b * N, N, share * static_cast<float>(N), key, static_cast<std::uint32_t>(b * N));
    });
}

// For each row: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², w ← w − rate·m / (√v·root_correction + ε).
void adam_rows(int threads, float* weight, float* m, float* v, const std::int64_t* ids, const float* gradient, long count,
               long k, float rate, float beta1, float beta2, float one_less_beta1, float one_less_beta2, float epsilon,
               float root_correction) {
    constexpr long chunk = 8;
    parallel(threads, ceil_divide(count, chunk), [&](long task, int) {
        Vector decay1 = Vector::all(beta1), decay2 = Vector::all(beta2), new1 = Vector::all(one_less_beta1);
        Vector new2 = Vector::all(one_less_beta2), step = Vector::all(rate), tiny = Vector::all(epsilon);
        Vector correction = Vector::all(root_correction);
        for (long i = task * chunk; i < least((task + 1) * chunk, count); ++i) {
            float *weight_row = weight + ids[i] * k, *m_row = m + ids[i] * k, *v_row = v + ids[i] * k;
            const float* g_row = gradient + i * k;
            for (long column = 0; column < k; column += lanes) {
                Vector g = load_from(g_row, column, k);
                Vector first = Vector::multiply_add(load_from(m_row, column, k), decay1, g * new1);
                Vector second = Vector::multiply_add(load_from(v_row, column, k), decay2, g * g * new2);
                Vector below = Vector::multiply_add(Vector::root(second), correction, tiny);
                store_to(first, m_row, column, k);
                store_to(second, v_row, column, k);
                store_to(Vector::subtract_product(load_from(weight_row, column, k), step, first / below), weight_row, column,
                         k);
            }
        }
    });
}

}  // namespace
