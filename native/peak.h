// What this processor can do at best, for the benchmarks: loops that keep all sums in registers and read at most the first
// cache. They are measured against, and nothing else uses them.
#pragma once

#include "scaled_l1.h"

namespace {

constexpr long peak_sums = 12;  // independent sums, enough to hide the latency of two pipes
constexpr long peak_rows = 8;   // the candidates of eight rounds, 3 KB in AVX2, stay in the first cache

// One multiply-add for each of the sums.
inline float multiply_add_rounds(long rounds, const float* data) {
    Vector sum[peak_sums], a = Vector::load(data), b = Vector::load(data + lanes);
    for (long i = 0; i < peak_sums; ++i) sum[i] = Vector::load(data + i * lanes);
    for (long round = 0; round < rounds; ++round)
#pragma GCC unroll 12
        for (long i = 0; i < peak_sums; ++i) sum[i] = Vector::multiply_add(sum[i], a, b);
    for (long i = 1; i < peak_sums; ++i) sum[0] = sum[0] + sum[i];
    return sum[0].sum();
}

// The operations of the forward kernel, for one query whose coordinates do not change.
inline float forward_rounds(long rounds, const float* data) {
    Vector sum[peak_sums], q = Vector::load(data), s = Vector::load(data + lanes);
    for (long i = 0; i < peak_sums; ++i) sum[i] = Vector::zero();
    for (long round = 0; round < rounds; ++round) {
        const float* e = data + round % peak_rows * peak_sums * lanes;
#pragma GCC unroll 12
        for (long i = 0; i < peak_sums; ++i)
            sum[i] = sum[i] + Vector::absolute(difference(q, s, Vector::load(e + i * lanes)));
    }
    for (long i = 1; i < peak_sums; ++i) sum[0] = sum[0] + sum[i];
    return sum[0].sum();
}

// The operations of the backward kernel, with sums that stay where they are.
inline float backward_rounds(long rounds, const float* data) {
    constexpr long chains = 3;
    Vector dq[chains], ds[chains], de[chains];
    Vector q = Vector::load(data), s = Vector::load(data + lanes), g = Vector::load(data + 2 * lanes);
    for (long i = 0; i < chains; ++i) dq[i] = ds[i] = de[i] = Vector::zero();
    for (long round = 0; round < rounds; ++round) {
        const float* e = data + round % peak_rows * peak_sums * lanes;
#pragma GCC unroll 12
        for (long i = 0; i < peak_sums; ++i) {
            Vector candidate = Vector::load(e + i * lanes);
            Vector m = Vector::merge_sign(difference(q, s, candidate), g);
            dq[i % chains] = dq[i % chains] + m;
            ds[i % chains] = Vector::multiply_add(m, candidate, ds[i % chains]);
            de[i % chains] = Vector::multiply_add(m, s, de[i % chains]);
        }
    }
    for (long i = 0; i < chains; ++i) dq[0] = dq[0] + ds[i] + de[i];
    return dq[0].sum();
}

// Runs a loop on every thread and gives how many vectors went through it, all threads together.
double peak(int threads, int kind, long rounds) {
    constexpr long values = peak_rows * peak_sums * lanes, tasks_each = 16;
    parallel(threads, threads * tasks_each, [&](long, int) {
        float* data = static_cast<float*>(scratch(transher::slot_rows, values * sizeof(float)));
        for (long i = 0; i < values; ++i) data[i] = 0.25f + static_cast<float>(i % 7) * 0.0625f;
        volatile float kept = kind == 0   ? multiply_add_rounds(rounds, data)
                              : kind == 1 ? forward_rounds(rounds, data)
                                          : backward_rounds(rounds, data);
        static_cast<void>(kept);
    });
    return static_cast<double>(threads) * tasks_each * static_cast<double>(rounds) * peak_sums;
}

// Reads an array once, in order: the bandwidth of whatever memory it lies in.
double read_all(int threads, const float* data, long count) {
    constexpr long chunk = 1 << 20;
    parallel(threads, ceil_divide(count, chunk), [&](long task, int) {
        const float* place = data + task * chunk;
        long here = least(chunk, count - task * chunk) / (8 * lanes);
        Vector sum[8];
        for (long i = 0; i < 8; ++i) sum[i] = Vector::zero();
        for (long step = 0; step < here; ++step, place += 8 * lanes)
#pragma GCC unroll 8
            for (long i = 0; i < 8; ++i) sum[i] = sum[i] + Vector::load(place + i * lanes);
        for (long i = 1; i < 8; ++i) sum[0] = sum[0] + sum[i];
        volatile float kept = sum[0].sum();
        static_cast<void>(kept);
    });
    return 4.0 * static_cast<double>(count);
}

}  // namespace
