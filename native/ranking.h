// Counting the candidates that beat an answer, and finding the best ones: exact, and without computing most distances to
// the end. Partial sums of |·| only grow, in floating point as well (adding a number that is not negative never lowers a
// rounded sum), so a candidate whose partial sum has passed the limit is out.
#pragma once

#include "batch.h"

namespace {

constexpr long check_every = 128;  // coordinates between two looks at the partial sums

// Distances of one query to four candidates, to the bit as pair_distance gives them; where all four have passed the limit,
// partial sums above it.
inline void four_distances(const float* q, const float* s, const float* const* e, long k, float limit, float* out) {
    float before[4] = {0, 0, 0, 0};
    for (long start = 0; start < k; start += block_steps * lanes) {
        long end = least(k, start + block_steps * lanes);
        Vector sum[4] = {Vector::zero(), Vector::zero(), Vector::zero(), Vector::zero()};
        for (long column = start; column < end;) {
            long stop = least(end, column + check_every);
            for (; column + lanes <= stop; column += lanes) {
                Vector q_ = Vector::load(q + column), s_ = Vector::load(s + column);
                for (int c = 0; c < 4; ++c)
                    sum[c] = sum[c] + Vector::absolute(difference(q_, s_, Vector::load(e[c] + column)));
            }
            if (column < stop) {
                Vector q_ = load_from(q, column, k), s_ = load_from(s, column, k);
                for (int c = 0; c < 4; ++c)
                    sum[c] = sum[c] + Vector::absolute(difference(q_, s_, load_from(e[c], column, k)));
                column = stop;
            }
            Vector::sum_four(sum[0], sum[1], sum[2], sum[3], out);
            if (start)
                for (int c = 0; c < 4; ++c) out[c] = before[c] + out[c];
            if (out[0] > limit && out[1] > limit && out[2] > limit && out[3] > limit) return;
        }
        for (int c = 0; c < 4; ++c) before[c] = out[c];
    }
    if (k == 0) out[0] = out[1] = out[2] = out[3] = 0.0f;
}

// Calls found(n, distance) for the candidates first … last−1 whose distance does not exceed limit(), which may shrink.
template <class Limit, class Found>
inline void within_limit(const float* q, const float* s, const float* candidates, long first, long last, long k,
                         Limit&& limit, Found&& found) {
    for (long n = first; n < last; n += 4) {
        const float* e[4];
        for (long c = 0; c < 4; ++c) e[c] = candidates + least(n + c, last - 1) * k;
        float distance[4], bound = limit();
        four_distances(q, s, e, k, bound, distance);
        for (long c = 0; c < 4 && n + c < last; ++c)
            if (distance[c] <= bound) found(n + c, distance[c]);
    }
}

struct Counts {
    std::int64_t better = 0, tied = 0;
    void add(float distance, float limit, std::int64_t one) {
        if (distance < limit) better += one;
        else if (distance == limit) tied += one;
    }
};

// Candidates of one query that are known answers do not count: take back what they added.
inline void take_back_known(int threads, const float* q, const float* s, const float* limits, long B, long k,
                            const float* candidates, long count, std::int64_t first_id, const std::int64_t* starts,
                            const std::int64_t* ends, const std::int32_t* known, std::int64_t* better, std::int64_t* tied) {
    constexpr long chunk = 8;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b) {
            Counts counts;
            for (std::int64_t i = starts[b]; i < ends[b]; ++i) {
                long n = known[i] - first_id;
                if (n >= 0 && n < count)
                    counts.add(pair_distance(q + b * k, s + b * k, candidates + n * k, 1.0f, k, limits[b]), limits[b], 1);
            }
            better[b] -= counts.better, tied[b] -= counts.tied;
        }
    });
}

constexpr long ranking_block = 64;  // candidates that stay in the cache while every query goes by

void scaled_l1_count(int threads, const float* q, const float* s, const float* limits, long B, long k,
                     const float* candidates, long count, std::int64_t first_id, const std::int64_t* starts,
                     const std::int64_t* ends, const std::int32_t* known, std::int64_t* better, std::int64_t* tied) {
    if (k == 0 || B == 0 || count == 0) return;
    Counts* sums = static_cast<Counts*>(scratch(transher::slot_shared, threads * B * sizeof(Counts)));
    for (long i = 0; i < threads * B; ++i) sums[i] = Counts();
    parallel(threads, ceil_divide(count, ranking_block), [&](long task, int worker) {
        long first = task * ranking_block, last = least(first + ranking_block, count);
        for (long b = 0; b < B; ++b) {
            float limit = limits[b];
            Counts& mine = sums[worker * B + b];
            within_limit(
                q + b * k, s + b * k, candidates, first, last, k, [&] { return limit; },
                [&](long, float distance) { mine.add(distance, limit, 1); });
        }
    });
    for (long worker = 0; worker < threads; ++worker)
        for (long b = 0; b < B; ++b) better[b] += sums[worker * B + b].better, tied[b] += sums[worker * B + b].tied;
    take_back_known(threads, q, s, limits, B, k, candidates, count, first_id, starts, ends, known, better, tied);
}

// The best few of one query: a heap whose top is the worst of them. Equal distances: the lower id is better.
struct Best {
    float* distances;
    std::int64_t* ids;
    long size;

    static bool worse(float d, std::int64_t id, float other, std::int64_t other_id) {
        return d > other || (d == other && id > other_id);
    }
    float limit() const { return distances[0]; }
    void swap(long a, long b) {
        float d = distances[a];
        std::int64_t id = ids[a];
        distances[a] = distances[b], ids[a] = ids[b], distances[b] = d, ids[b] = id;
    }
    void sink(long i, long end) {
        for (long child; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && worse(distances[child + 1], ids[child + 1], distances[child], ids[child])) ++child;
            if (!worse(distances[child], ids[child], distances[i], ids[i])) return;
            swap(i, child);
        }
    }
    bool takes(float d, std::int64_t id) const { return worse(distances[0], ids[0], d, id); }
    void put(float d, std::int64_t id) {
        distances[0] = d, ids[0] = id;
        sink(0, size);
    }
    void clear() {
        for (long i = 0; i < size; ++i) distances[i] = __builtin_inff(), ids[i] = INT64_MAX;
    }
    void heapify() {
        for (long i = size / 2; i-- > 0;) sink(i, size);
    }
    void sort() {
        for (long end = size; end-- > 1;) {
            swap(0, end);
            sink(0, end);
        }
    }
};

// Merges a chunk of candidates into the best `size` of each query so far (distances ascending, ids; unused places hold
// infinity and the largest id).
void scaled_l1_top(int threads, const float* q, const float* s, long B, long k, const float* candidates, long count,
                   std::int64_t first_id, const std::int64_t* starts, const std::int64_t* ends, const std::int32_t* excluded,
                   long size, float* distances, std::int64_t* ids) {
    if (B == 0 || count == 0 || size == 0) return;
    long each = B * size;
    char* memory = static_cast<char*>(
        scratch(transher::slot_shared, threads * each * (sizeof(float) + sizeof(std::int64_t))));
    std::int64_t* all_ids = reinterpret_cast<std::int64_t*>(memory);
    float* all_distances = reinterpret_cast<float*>(memory + threads * each * sizeof(std::int64_t));
    auto heap = [&](long worker, long b) {
        return Best{all_distances + worker * each + b * size, all_ids + worker * each + b * size, size};
    };
    for (long worker = 0; worker < threads; ++worker)
        for (long b = 0; b < B; ++b) {
            Best mine = heap(worker, b);
            mine.clear();
            if (worker == 0) {  // what earlier chunks found
                for (long i = 0; i < size; ++i) mine.distances[i] = distances[b * size + i], mine.ids[i] = ids[b * size + i];
                mine.heapify();
            }
        }
    constexpr long block = 256;
    parallel(threads, ceil_divide(count, block), [&](long task, int worker) {
        long first = task * block, last = least(first + block, count);
        for (long b = 0; b < B; ++b) {
            Best mine = heap(worker, b);
            within_limit(
                q + b * k, s + b * k, candidates, first, last, k, [&] { return mine.limit(); },
                [&](long n, float distance) {
                    std::int64_t id = first_id + n;
                    if (!mine.takes(distance, id)) return;
                    for (std::int64_t i = starts[b]; i < ends[b]; ++i)
                        if (excluded[i] == id) return;
                    mine.put(distance, id);
                });
        }
    });
    for (long b = 0; b < B; ++b) {
        Best best = heap(0, b);
        for (long worker = 1; worker < threads; ++worker) {
            Best other = heap(worker, b);
            for (long i = 0; i < size; ++i)
                if (best.takes(other.distances[i], other.ids[i])) best.put(other.distances[i], other.ids[i]);
        }
        best.sort();
        for (long i = 0; i < size; ++i) distances[b * size + i] = best.distances[i], ids[b * size + i] = best.ids[i];
    }
}

// out = ê of each row; one row's result does not depend on the others.
void normalise_rows(int threads, const float* rows, long count, long k, float* out) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(count, chunk), [&](long task, int) {
        for (long n = task * chunk; n < least((task + 1) * chunk, count); ++n) {
            Vector scale = Vector::all(inverse_norm(rows + n * k, k));
            for (long column = 0; column < k; column += lanes)
                store_to(load_from(rows + n * k, column, k) * scale, out + n * k, column, k);
        }
    });
}

}  // namespace
