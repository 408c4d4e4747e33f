// Counting the candidates that beat an answer, and finding the best ones: exact, over chunks of candidates.
#pragma once

#include "byte_ranking.h"

namespace {

// Candidates of one query that are known answers do not count: take back what they added.
inline void take_back_known(int threads, const float* q, const float* s, const float* limits, long B, long k,
                            const float* candidates, long count, std::int64_t first_id, const std::int64_t* starts,
                            const std::int64_t* ends, const std::int32_t* known, std::int64_t* better, std::int64_t* tied) {
    constexpr long chunk = 8;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b) {
            Counts counts;
            const float* rows[4];
            long held = 0;
            auto settle_held = [&] {
                for (long c = held; c < 4; ++c) rows[c] = rows[0];
                float distances[4];
                four_distances(q + b * k, s + b * k, rows, k, limits[b], distances);
                for (long c = 0; c < held; ++c) counts.add(distances[c], limits[b], 1);
                held = 0;
            };
            for (std::int64_t i = starts[b]; i < ends[b]; ++i) {
                long n = known[i] - first_id;
                if (i + 8 < ends[b]) {  // rows all over the table: ask for them ahead
                    long ahead = known[i + 8] - first_id;
                    if (ahead >= 0 && ahead < count)
                        for (long column = 0; column < least(k, 256); column += 16)
                            __builtin_prefetch(candidates + ahead * k + column);
                }
                if (n < 0 || n >= count) continue;
                rows[held++] = candidates + n * k;
                if (held == 4) settle_held();
            }
            if (held) settle_held();
            better[b] -= counts.better, tied[b] -= counts.tied;
        }
    });
}

// Distances of all queries in full, by the same panels as in training: what is fastest when there are several queries with
// different s. (Dropping candidates by their partial sums, query by query, was measured at under half of its speed: half of
// the coordinates are saved, but a register block of 3 × 4 is lost.) Calls each(b, first, distances, count, worker) for
// every query and run of candidates; calls for one query may come from several workers at once.
constexpr long least_for_panels = 8;
constexpr long most_for_candidates = 128;  // queries whose panels stay in the cache while candidates go by

template <class Each>
inline void each_distance(int threads, const float* q, const float* s, long B, long k, const float* candidates, long count,
                          Each&& each) {
    if (B > most_for_candidates) {
        constexpr long at_once = 1024;
        float* distances = static_cast<float*>(scratch(transher::slot_bytes, B * least(count, at_once) * sizeof(float)));
        for (long first = 0; first < count; first += at_once) {
            long here = least(at_once, count - first);
            scaled_l1_cross(threads, q, s, candidates + first * k, B, here, k, distances);
            parallel(threads, B, [&](long b, int worker) { each(b, first, distances + b * here, here, worker); });
        }
        return;
    }
    constexpr long run = 64;
    long steps = ceil_divide(k, lanes), query_panels = ceil_divide(B, query_block), panel_floats = steps * query_step;
    float* packed = static_cast<float*>(scratch(transher::slot_panels, query_panels * panel_floats * sizeof(float)));
    for (long b = 0; b < query_panels * query_block; ++b)
        pack_query(b < B ? q + b * k : nullptr, s + least(b, B - 1) * k, k, b % query_block,
                   packed + b / query_block * panel_floats);
    Candidates all{candidates, nullptr, nullptr, count, k};
    parallel(threads, ceil_divide(count, run), [&](long task, int worker) {
        long first = task * run, here = least(run, count - first);
        float* memory =
            static_cast<float*>(scratch(transher::slot_candidates, CandidatePanels::floats(run, k) * sizeof(float)));
        CandidatePanels panels{memory, ceil_divide(here, candidate_block), steps};
        for (long panel = 0; panel < panels.panels; ++panel) pack_candidate_panel(all, first, panel, panels);
        for (long p = 0; p < query_panels; ++p) {
            float distances[query_block][run];
            for (long block = 0; block * block_steps < steps; ++block)
                for (long n4 = 0; n4 < panels.panels; ++n4) {
                    float sums[query_block * candidate_block];
                    forward_micro(packed + p * panel_floats + block * block_steps * query_step, panels.at(block, n4),
                                  panels.steps_in(block), sums);
                    for (long a = 0; a < query_block; ++a)
                        finish_sums(distances[a] + n4 * candidate_block, sums + a * candidate_block, candidate_block,
                                    block > 0, false, 0.0f);
                }
            for (long a = 0; a < query_block && p * query_block + a < B; ++a)
                each(p * query_block + a, first, distances[a], here, worker);
        }
    });
}

// Queries side by side with the same s go through bytes first (see byte_ranking.h), the others in full.
void scaled_l1_count(int threads, const float* q, const float* s, const float* limits, long B, long k,
                     const float* candidates, long count, std::int64_t first_id, const std::int64_t* starts,
                     const std::int64_t* ends, const std::int32_t* known, std::int64_t* better, std::int64_t* tied) {
    if (k == 0 || B == 0 || count == 0) return;
    Spread spread(candidates, count, k);
    long pending = 0;  // the first query that has not been counted yet
    auto count_pending = [&](long end) {
        if (pending == end) return;
        const float *q_here = q + pending * k, *s_here = s + pending * k;
        each_distance(threads, q_here, s_here, end - pending, k, candidates, count,
                      [&](long b, long, const float* distances, long here, int) {
                          Counts counts;
                          for (long n = 0; n < here; ++n) counts.add(distances[n], limits[pending + b], 1);
                          __atomic_fetch_add(better + pending + b, counts.better, __ATOMIC_RELAXED);
                          __atomic_fetch_add(tied + pending + b, counts.tied, __ATOMIC_RELAXED);
                      });
    };
    for (long b = 0, end; b < B; b = end) {
        for (end = b + 1; end < B && same_row(s + b * k, s + end * k, k); ++end) {
        }
        Rounding how;
        if (end - b < least_group || !spread.usable || !how.plan(spread, s + b * k, k)) continue;
        count_pending(b);
        count_by_bytes(threads, how, q + b * k, s + b * k, limits + b, end - b, k, candidates, count, better + b, tied + b);
        pending = end;
    }
    count_pending(B);
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
    auto offer = [&](Best mine, long b, long n, float distance) {
        std::int64_t id = first_id + n;
        if (!mine.takes(distance, id)) return;
        for (std::int64_t i = starts[b]; i < ends[b]; ++i)
            if (excluded[i] == id) return;
        mine.put(distance, id);
    };
    if (B < least_for_panels || k == 0) {
        constexpr long block = 256;
        parallel(threads, ceil_divide(count, block), [&](long task, int worker) {
            long first = task * block, last = least(first + block, count);
            for (long b = 0; b < B; ++b) {
                Best mine = heap(worker, b);
                within_limit(
                    q + b * k, s + b * k, candidates, first, last, k, b == 0, [&] { return mine.limit(); },
                    [&](long n, float distance) { offer(mine, b, n, distance); });
            }
        });
    } else {
        each_distance(threads, q, s, B, k, candidates, count,
                      [&](long b, long first, const float* found, long here, int worker) {
                          Best mine = heap(worker, b);
                          for (long n = 0; n < here; ++n)
                              if (found[n] <= mine.limit()) offer(mine, b, first + n, found[n]);
                      });
    }
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

// out = ê of each row, or of the rows `ids` if these are not null, each to its own place; one row's result does not depend on
// the others. `out` may be `rows`.
void normalise_rows(int threads, const float* rows, const std::int64_t* ids, long count, long k, float* out) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(count, chunk), [&](long task, int) {
        for (long n = task * chunk; n < least((task + 1) * chunk, count); ++n) {
            long start = (ids ? ids[n] : n) * k;
            Vector scale = Vector::all(inverse_norm(rows + start, k));
            for (long column = 0; column < k; column += lanes)
                store_to(load_from(rows + start, column, k) * scale, out + start, column, k);
        }
    });
}

}  // namespace
