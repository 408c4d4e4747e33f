// A first pass in bytes for queries that share s, which all queries of one relation and side do.
//
// The candidates s∘e and the queries q are rounded to multiples of one step, and a distance becomes a sum of absolute
// differences of bytes: one instruction for 32 coordinates, where floats take twelve. Each row's rounding Σ|x − rounded x|
// is added up as it is made, so the true distance is known to within ± the two roundings. That settles nearly all
// candidates as surely better or surely worse than the answer; the rest are computed in float. Exact therefore, and
// measured at two to three times the speed of floats alone (FB15k-237 models, k 512 and 1500).
//
// Coordinates differ in spread by the size of s_i. One that spans more than a byte gets more bytes: with
// v = 0 … 255·m, |v − w| = Σ_j |digit_j(v) − digit_j(w)| where digit_j(v) = min(max(v − 255 j, 0), 255). What lies outside
// of its coordinate's range is cut and its excess added to the distance, which is right unless query and candidate lie
// outside on the same side; then too much was added, by at most twice the smaller of the two excesses.
#pragma once

#include "near.h"

namespace {

constexpr long least_group = 16;       // queries that pay for rounding all the candidates
constexpr long byte_block = 64;        // candidates that stay in the cache while the group's queries go by
constexpr float range_deviations = 2.5f;  // a coordinate's range, on either side of its mean
constexpr float byte_share = 1.0f;     // a byte spans this much of the mean range

inline bool same_row(const float* a, const float* b, long k) { return __builtin_memcmp(a, b, k * sizeof(float)) == 0; }

// Mean and standard deviation of each coordinate, from some of the candidates. They steer the speed, not the result.
struct Spread {
    float *mean, *deviation;
    bool usable = true;

    Spread(const float* candidates, long count, long k) {
        mean = static_cast<float*>(scratch(transher::slot_entities, 2 * (k + lanes) * sizeof(float)));
        deviation = mean + k + lanes;
        long stride = ceil_divide(count, 512), used = ceil_divide(count, stride);
        for (long i = 0; i < k; ++i) mean[i] = deviation[i] = 0.0f;
        for (long n = 0; n < count; n += stride)
            for (long i = 0; i < k; ++i) {
                float x = candidates[n * k + i];
                mean[i] += x, deviation[i] += x * x;
            }
        for (long i = 0; i < k; ++i) {
            mean[i] /= static_cast<float>(used);
            float variance = deviation[i] / static_cast<float>(used) - mean[i] * mean[i];
            deviation[i] = __builtin_sqrtf(variance > 0.0f ? variance : 0.0f);
            usable = usable && deviation[i] < 1e15f && mean[i] < 1e15f && mean[i] > -1e15f;
        }
    }
};

// How rows of one group become bytes: v = x·inverse_step + offset, cut to 0 … top.
struct Rounding {
    float step, inverse_step, total_top;
    float *offset, *top;
    int *extra_column, *extra_digit;  // the bytes after the first k
    long extra, width;                // width: bytes of a row, a multiple of the vector's

    bool plan(const Spread& spread, const float* s, long k) {
        float mean_range = 0.0f;
        for (long i = 0; i < k; ++i) mean_range += 2 * range_deviations * spread.deviation[i] * __builtin_fabsf(s[i]);
        mean_range /= static_cast<float>(k);
        step = byte_share * mean_range / 255, inverse_step = 1.0f / step;
        if (!(mean_range > 1e-20f && mean_range < 1e20f)) return false;
        float* floats = static_cast<float*>(scratch(transher::slot_relations, 2 * (k + lanes) * sizeof(float)));
        offset = floats, top = floats + k + lanes;
        extra = 0, total_top = 0;
        for (long i = 0; i < k; ++i) {
            float range = 2 * range_deviations * spread.deviation[i] * __builtin_fabsf(s[i]) * inverse_step;
            float bytes = __builtin_ceilf(range / 255);
            bytes = bytes < 1 ? 1 : bytes > 8 ? 8 : bytes;
            top[i] = bytes * 255;
            offset[i] = top[i] / 2 - spread.mean[i] * s[i] * inverse_step;
            total_top += top[i] + __builtin_fabsf(offset[i]);
            extra += static_cast<long>(bytes) - 1;
        }
        int* ints = static_cast<int*>(scratch(transher::slot_extra, 2 * (extra + 1) * sizeof(int)));
        extra_column = ints, extra_digit = ints + extra + 1;
        for (long i = 0, next = 0; i < k; ++i)
            for (int digit = 1; digit * 255 < top[i]; ++digit, ++next)
                extra_column[next] = static_cast<int>(i), extra_digit[next] = digit;
        width = ceil_divide(k + extra, ByteSums::width) * ByteSums::width;
        return total_top < 1e9f;
    }
};

struct Rounded {
    float error, excess;  // in steps
};

// x is `row`, or row∘s.
inline Rounded round_row(const Rounding& how, const float* row, const float* s, long k, float* whole, unsigned char* bytes) {
    Vector error = Vector::zero(), excess = Vector::zero(), scale = Vector::all(how.inverse_step), byte = Vector::all(255.0f);
    for (long column = 0; column < k; column += lanes) {
        Vector x = load_from(row, column, k);
        if (s) x = x * load_from(s, column, k);
        Vector v = Vector::multiply_add(x, scale, load_from(how.offset, column, k));
        Vector cut = Vector::larger(Vector::zero(), Vector::smaller(load_from(how.top, column, k), v));
        Vector rounded = Vector::nearest(cut);
        error = error + Vector::absolute(cut - rounded);
        excess = excess + Vector::absolute(v - cut);  // NaN stays NaN, and leaves everything undecided
        rounded.store(whole + column);
        Vector first = Vector::smaller(byte, rounded);
        if (column + lanes <= k) {
            first.store_bytes(bytes + column);
        } else {
            unsigned char last[lanes];
            first.store_bytes(last);
            for (long i = column; i < k; ++i) bytes[i] = last[i - column];
        }
    }
    for (long i = 0; i < how.extra; ++i) {
        int digit = static_cast<int>(whole[how.extra_column[i]]) - 255 * how.extra_digit[i];
        bytes[k + i] = static_cast<unsigned char>(digit < 0 ? 0 : digit > 255 ? 255 : digit);
    }
    for (long i = k + how.extra; i < how.width; ++i) bytes[i] = 0;
    return {error.sum(), excess.sum()};
}

constexpr long byte_queries = 4, byte_candidates = 2;

// out[query · byte_block + candidate] = Σ |query byte − candidate byte|, for four queries and two candidates.
inline void byte_micro(const unsigned char* queries, const unsigned char* candidates, long width, float* out) {
    ByteSums sums[byte_queries][byte_candidates];
#pragma GCC unroll 8
    for (long a = 0; a < byte_queries; ++a)
#pragma GCC unroll 8
        for (long c = 0; c < byte_candidates; ++c) sums[a][c] = ByteSums::zero();
    for (long i = 0; i < width; i += ByteSums::width)
#pragma GCC unroll 8
        for (long a = 0; a < byte_queries; ++a)
#pragma GCC unroll 8
            for (long c = 0; c < byte_candidates; ++c) sums[a][c].add(queries + a * width + i, candidates + c * width + i);
#pragma GCC unroll 8
    for (long a = 0; a < byte_queries; ++a)
#pragma GCC unroll 8
        for (long c = 0; c < byte_candidates; ++c) out[a * byte_block + c] = static_cast<float>(sums[a][c].sum());
}

// Counts for one query the block's candidates that are surely nearer than its limit, and lists those that are not settled.
inline long settle(const float* estimates, const float* errors, const float* excesses, long count, Rounded query, float limit,
                   float slack, std::int64_t* better, unsigned char* undecided) {
    Vector target = Vector::all(limit), own_error = Vector::all(query.error), own_excess = Vector::all(query.excess);
    long left = 0;
    for (long n = 0; n < count; n += lanes) {
        Vector excess = Vector::load(excesses + n), both = Vector::smaller(excess, own_excess);
        Vector sum = excess + own_excess, middle = Vector::load(estimates + n) + sum;
        // The factors and the slack cover the rounding of float32, here and in the distance itself.
        Vector error = (Vector::load(errors + n) + own_error) * Vector::all(1.0001f);
        Vector room = Vector::multiply_add(sum, Vector::all(1e-6f), Vector::all(slack));
        Vector most = Vector::multiply_add(middle + error, Vector::all(1.00002f), room);
        Vector fewest = (middle - error - (both + both)) * Vector::all(0.99998f) - room;
        unsigned real = count - n >= lanes ? (1u << lanes) - 1u : (1u << (count - n)) - 1u;
        unsigned nearer = Vector::less(most, target) & real, farther = Vector::less(target, fewest);
        *better += __builtin_popcount(nearer);
        for (unsigned open = real & ~(nearer | farther); open; open &= open - 1)
            undecided[left++] = static_cast<unsigned char>(n + __builtin_ctz(open));
    }
    return left;
}

// Adds to better and tied how many candidates are nearer and as near, for B queries that share s.
inline void count_by_bytes(int threads, const Rounding& how, const float* q, const float* s, const float* limits, long B,
                           long k, const float* candidates, long count, std::int64_t* better, std::int64_t* tied) {
    long padded = ceil_divide(B, byte_queries) * byte_queries;
    char* memory = static_cast<char*>(scratch(
        transher::slot_shared, padded * (how.width + sizeof(Rounded)) + threads * B * sizeof(Counts) + 128));
    unsigned char* query_bytes = reinterpret_cast<unsigned char*>(memory);
    Counts* sums = reinterpret_cast<Counts*>(memory + ceil_divide(padded * how.width, 64) * 64);
    Rounded* query_rounded = reinterpret_cast<Rounded*>(sums + threads * B);
    for (long i = 0; i < threads * B; ++i) sums[i] = Counts();
    auto whole = [&] { return static_cast<float*>(scratch(transher::slot_rows, (k + lanes) * sizeof(float))); };
    parallel(threads, padded, [&](long b, int) {
        long row = least(b, B - 1);  // the empty places of the last four repeat a query
        query_rounded[b] = round_row(how, q + row * k, nullptr, k, whole(), query_bytes + b * how.width);
    });
    float slack = 1e-6f * how.total_top;
    parallel(threads, ceil_divide(count, byte_block), [&](long task, int worker) {
        long first = task * byte_block, here = least(byte_block, count - first);
        unsigned char* bytes = static_cast<unsigned char*>(scratch(transher::slot_bytes, byte_block * how.width));
        float errors[byte_block], excesses[byte_block], estimates[byte_queries * byte_block];
        for (long n = 0; n < byte_block; ++n) {
            Rounded row = round_row(how, candidates + (first + least(n, here - 1)) * k, s, k, whole(), bytes + n * how.width);
            errors[n] = row.error, excesses[n] = row.excess;
        }
        for (long b4 = 0; b4 < B; b4 += byte_queries) {
            for (long n = 0; n < here; n += byte_candidates)
                byte_micro(query_bytes + b4 * how.width, bytes + n * how.width, how.width, estimates + n);
            for (long b = b4; b < least(b4 + byte_queries, B); ++b) {
                unsigned char undecided[byte_block];
                Counts& mine = sums[worker * B + b];
                long left = settle(estimates + (b - b4) * byte_block, errors, excesses, here, query_rounded[b],
                                   limits[b] * how.inverse_step, slack, &mine.better, undecided);
                for (long i = 0; i < left; i += 4) {
                    const float* rows[4];
                    for (long c = 0; c < 4; ++c) rows[c] = candidates + (first + undecided[least(i + c, left - 1)]) * k;
                    float distances[4];
                    four_distances(q + b * k, s, rows, k, limits[b], distances);
                    for (long c = 0; c < 4 && i + c < left; ++c) mine.add(distances[c], limits[b], 1);
                }
            }
        }
    });
    for (long worker = 0; worker < threads; ++worker)
        for (long b = 0; b < B; ++b) better[b] += sums[worker * B + b].better, tied[b] += sums[worker * B + b].tied;
}

}  // namespace
