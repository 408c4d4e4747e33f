// Scaled L1: distance[b, n] = Σ_i |q[b, i] − s[b, i]·e[n, i]|, forward and backward, for B queries and N candidates.
//
// Forward is shaped like a matrix product: queries and candidates are packed into panels, padded with zeros (which add
// nothing), and a micro kernel holds query_block × 4 sums in registers. Coordinates go by in blocks of 512 so that the
// panels stay in the caches. The order of additions for one (b, n) depends on k alone: lanes within a block, a sum over
// the lanes, then block after block. `pair_distance` keeps to the same order, so both give the same bits.
//
// Backward goes column by column: a thread owns some columns of q, s, e and their gradients, so nothing is shared, nothing
// reduced over threads, and the result does not depend on their number.
#pragma once

#include "backend.h"

namespace {

using transher::scratch;

constexpr long lanes = Vector::width;
constexpr long query_block = Vector::query_block;
constexpr long candidate_block = 4;
constexpr long block_steps = 512 / lanes;
constexpr long column_group = 16;  // one cache line of floats
constexpr long group_steps = column_group / lanes;
constexpr long candidate_chunk = 128;

inline long ceil_divide(long a, long b) { return (a + b - 1) / b; }
inline long least(long a, long b) { return a < b ? a : b; }

template <class Body>
void parallel(int threads, long count, Body&& body) {
    transher::run_tasks(
        threads, count, [](void* context, long task, int worker) { (*static_cast<Body*>(context))(task, worker); }, &body);
}

inline Vector load_from(const float* row, long column, long k) {
    return column + lanes <= k ? Vector::load(row + column) : Vector::load_first(row + column, static_cast<int>(k - column));
}

inline void store_to(Vector value, float* row, long column, long k) {
    if (column + lanes <= k) value.store(row + column);
    else value.store_first(row + column, static_cast<int>(k - column));
}

inline Vector difference(Vector q, Vector s, Vector e) { return Vector::subtract_product(q, s, e); }

// ---- Packing

// Candidate n is `rows[ids[n]] · inverse[ids[n]]`; without ids it is row n, without inverse it is not scaled.
struct Candidates {
    const float* rows;
    const std::int64_t* ids;
    const float* inverse;
    long count, k;

    const float* row(long n) const { return rows + (ids ? ids[n] : n) * k; }
    float scale(long n) const { return inverse ? inverse[ids ? ids[n] : n] : 1.0f; }
};

// Where a panel of four candidates lies: block of coordinates, panel, step, candidate, lane.
struct CandidatePanels {
    float* data;
    long panels, steps;

    static long floats(long count, long k) {
        return ceil_divide(count, candidate_block) * candidate_block * ceil_divide(k, lanes) * lanes;
    }
    long steps_in(long block) const { return least(block_steps, steps - block * block_steps); }
    float* at(long block, long panel) const {
        return data + (block * block_steps * panels + panel * steps_in(block)) * candidate_block * lanes;
    }
    const float* vector(long n, long step) const {
        long block = step / block_steps, panel = n / candidate_block;
        return at(block, panel) + ((step % block_steps) * candidate_block + n % candidate_block) * lanes;
    }
};

inline void pack_candidate_panel(const Candidates& from, long first, long panel, const CandidatePanels& to) {
    for (long c = 0; c < candidate_block; ++c) {
        long n = first + panel * candidate_block + c;
        const float* row = n < from.count ? from.row(n) : nullptr;
        Vector scale = Vector::all(row ? from.scale(n) : 0.0f);
        for (long step = 0; step < to.steps; ++step) {
            float* place = to.at(step / block_steps, panel) + ((step % block_steps) * candidate_block + c) * lanes;
            (row ? load_from(row, step * lanes, from.k) * scale : Vector::zero()).store(place);
        }
    }
}

// A panel of query_block queries: step, query, then the lanes of q and of s.
constexpr long query_step = query_block * 2 * lanes;

inline void pack_query(const float* q, const float* s, long k, long slot, float* panel) {
    float* place = panel + slot * 2 * lanes;
    for (long column = 0; column < k; column += lanes, place += query_step) {
        (q ? load_from(q, column, k) : Vector::zero()).store(place);
        (q ? load_from(s, column, k) : Vector::zero()).store(place + lanes);
    }
}

// ---- Micro kernels

// sums[query][candidate] over `steps` steps of one panel each.
inline void forward_micro(const float* qs, const float* e, long steps, float* sums) {
    Vector sum[query_block][candidate_block];
#pragma GCC unroll 8
    for (long a = 0; a < query_block; ++a)
#pragma GCC unroll 8
        for (long c = 0; c < candidate_block; ++c) sum[a][c] = Vector::zero();
    for (long step = 0; step < steps; ++step, qs += query_step, e += candidate_block * lanes) {
#pragma GCC unroll 8
        for (long a = 0; a < query_block; ++a) {
            Vector q = Vector::load(qs + 2 * a * lanes), s = Vector::load(qs + (2 * a + 1) * lanes);
#pragma GCC unroll 8
            for (long c = 0; c < candidate_block; ++c)
                sum[a][c] = sum[a][c] + Vector::absolute(difference(q, s, Vector::load(e + c * lanes)));
        }
    }
#pragma GCC unroll 8
    for (long a = 0; a < query_block; ++a)
        Vector::sum_four(sum[a][0], sum[a][1], sum[a][2], sum[a][3], sums + a * candidate_block);
}

// One step (`lanes` columns) of one query panel against all candidates: adds to de, returns Σ m and Σ m·e per query, where
// m is g with the sign of the difference. At a difference of exactly zero m is ±g: any value between is a subgradient.
inline void backward_micro(const float* qs, const float* const* g, const float* e, float* de, long N, Vector* sum_m,
                           Vector* sum_me) {
    Vector q[query_block], s[query_block], dq[query_block], ds[query_block];
#pragma GCC unroll 8
    for (long a = 0; a < query_block; ++a) {
        q[a] = Vector::load(qs + 2 * a * lanes), s[a] = Vector::load(qs + (2 * a + 1) * lanes);
        dq[a] = ds[a] = Vector::zero();
    }
    for (long n = 0; n < N; ++n) {
        Vector candidate = Vector::load(e + n * lanes), d_candidate = Vector::load(de + n * lanes);
#pragma GCC unroll 8
        for (long a = 0; a < query_block; ++a) {
            Vector m = Vector::merge_sign(difference(q[a], s[a], candidate), Vector::broadcast(g[a] + n));
            dq[a] = dq[a] + m;
            ds[a] = Vector::multiply_add(m, candidate, ds[a]);
            d_candidate = Vector::multiply_add(m, s[a], d_candidate);
        }
        d_candidate.store(de + n * lanes);
    }
#pragma GCC unroll 8
    for (long a = 0; a < query_block; ++a) sum_m[a] = dq[a], sum_me[a] = ds[a];
}

// The entries of g (B, N) that are not zero, query by query. A gradient that was thinned has few of them, and going over
// those alone costs in proportion; where most entries count, the dense kernel is faster, and nothing is listed. With `ids`
// (B, N) every query has candidates of its own, ids[b, n] among many, and all that is not zero is listed.
struct Sparse {
    const long* offsets = nullptr;  // (B + 1,), null where nothing is listed
    const std::int32_t* candidates = nullptr;
    const float* values = nullptr;

    Sparse(int threads, const float* g, const std::int64_t* ids, long B, long N) : Sparse(threads, g, ids, B, N, B, N) {}

    // Gradients (B, N) of candidates ids[b, n]; without ids, of candidate n of pool b / run, and pools lie `stride` apart.
    // Those of one pool are listed only where that pays.
    Sparse(int threads, const float* g, const std::int64_t* ids, long B, long N, long run, long stride) {
        constexpr long chunk = 16;
        long* ends = static_cast<long*>(scratch(transher::slot_offsets, (B + 1) * sizeof(long)));
        parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
            for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b) {
                long count = 0;
                for (long n = 0; n < N; ++n) count += g[b * N + n] != 0.0f;
                ends[b + 1] = count;
            }
        });
        ends[0] = 0;
        for (long b = 0; b < B; ++b) ends[b + 1] += ends[b];
        if (!ids && run >= B && ends[B] > B * N / 2) return;
        auto* list = static_cast<std::int32_t*>(scratch(transher::slot_listed, 2 * (ends[B] + 1) * sizeof(std::int32_t)));
        auto* kept = reinterpret_cast<float*>(list + ends[B] + 1);
        parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
            for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b)
                for (long n = 0, place = ends[b], first = ids ? 0 : b / run * stride; n < N; ++n)
                    if (g[b * N + n] != 0.0f) {
                        list[place] = static_cast<std::int32_t>(ids ? ids[b * N + n] : first + n);
                        kept[place++] = g[b * N + n];
                    }
        });
        offsets = ends, candidates = list, values = kept;
    }
};

// As backward_micro, for one query and its listed candidates, over all the steps of a column group: a pair's place and
// gradient are read once for all of them. Two pairs at a time, since sums wait for each other.
template <long here>
inline void backward_listed(const float* qs, const std::int32_t* list, const float* g, long count, float* columns,
                            Vector (*sum_m)[query_block], Vector (*sum_me)[query_block], long a) {
    Vector q[here], s[here], dq[2][here], ds[2][here];
#pragma GCC unroll 8
    for (long j = 0; j < here; ++j) {
        const float* place = qs + j * query_step + 2 * a * lanes;
        q[j] = Vector::load(place), s[j] = Vector::load(place + lanes);
        dq[0][j] = dq[1][j] = ds[0][j] = ds[1][j] = Vector::zero();
    }
    auto add = [&](long i, long which) __attribute__((always_inline)) {
        float* e = columns + list[i] * 2 * column_group;
        Vector upstream = Vector::broadcast(g + i);
#pragma GCC unroll 8
        for (long j = 0; j < here; ++j) {
            Vector candidate = Vector::load(e + j * lanes);
            Vector m = Vector::merge_sign(difference(q[j], s[j], candidate), upstream);
            dq[which][j] = dq[which][j] + m;
            ds[which][j] = Vector::multiply_add(m, candidate, ds[which][j]);
            float* de = e + column_group + j * lanes;
            Vector::multiply_add(m, s[j], Vector::load(de)).store(de);
        }
    };
    long i = 0;
    for (; i + 1 < count; i += 2) add(i, 0), add(i + 1, 1);
    if (i < count) add(i, 0);
#pragma GCC unroll 8
    for (long j = 0; j < here; ++j) sum_m[j][a] = dq[0][j] + dq[1][j], sum_me[j][a] = ds[0][j] + ds[1][j];
}

// ---- One query, one candidate

// The distance in the order of additions that the panels use; once it passes `limit` any larger number may be returned.
inline float pair_distance(const float* q, const float* s, const float* e, float scale, long k, float limit) {
    Vector factor = Vector::all(scale);
    float distance = 0.0f;
    for (long start = 0; start < k; start += block_steps * lanes) {
        long end = least(k, start + block_steps * lanes), column = start;
        Vector sum = Vector::zero();
        for (; column + lanes <= end; column += lanes) {
            Vector t = difference(Vector::load(q + column), Vector::load(s + column), Vector::load(e + column) * factor);
            sum = sum + Vector::absolute(t);
        }
        if (column < end) {
            Vector t = difference(load_from(q, column, k), load_from(s, column, k), load_from(e, column, k) * factor);
            sum = sum + Vector::absolute(t);
        }
        distance = start ? distance + sum.sum() : sum.sum();
        if (distance > limit) break;
    }
    return distance;
}

constexpr float no_limit = __builtin_inff();

// ---- Forward

inline __attribute__((always_inline)) void finish_sums(float* place, const float* sum, long wide, bool adds, bool as_score,
                                                       float gamma) {
    if (adds && as_score)
        for (long c = 0; c < wide; ++c) place[c] = gamma - (place[c] + sum[c]);
    else if (adds)
        for (long c = 0; c < wide; ++c) place[c] = place[c] + sum[c];
    else if (as_score)
        for (long c = 0; c < wide; ++c) place[c] = gamma - sum[c];
    else
        for (long c = 0; c < wide; ++c) place[c] = sum[c];
}

// Scores of the queries that `fill(b, q, s, row)` gives against packed candidates, `count` of them a pool; query b goes with
// pool b / run. Panels of queries go to `kept` when it is not null. `each_query(b, q, s)` sees every query while its row is at
// hand.
template <class Fill, class EachQuery>
void forward_panels(int threads, long B, long k, const CandidatePanels& candidates, long count, long run, float* kept,
                    float* out, long out_stride, bool as_score, float gamma, Fill&& fill, EachQuery&& each_query) {
    long pool_panels = ceil_divide(count, candidate_block);
    long steps = candidates.steps, query_panels = ceil_divide(B, query_block), panel_floats = steps * query_step;
    long per_task = query_panels / (threads * 8L);
    per_task = per_task < 1 ? 1 : least(per_task, 8);
    parallel(threads, ceil_divide(query_panels, per_task), [&](long task, int) {
        long first = task * per_task, last = least(first + per_task, query_panels);
        float* panels = kept ? kept + first * panel_floats
                             : static_cast<float*>(scratch(transher::slot_queries, per_task * panel_floats * sizeof(float)));
        float* row = static_cast<float*>(scratch(transher::slot_rows, 2 * (k + lanes) * sizeof(float)));
        for (long p = first; p < last; ++p)
            for (long slot = 0; slot < query_block; ++slot) {
                long b = p * query_block + slot;
                const float *q = nullptr, *s = nullptr;
                if (b < B) fill(b, q, s, row);
                pack_query(q, s, k, slot, panels + (p - first) * panel_floats);
                if (b < B) each_query(b, q, s);
            }
        for (long chunk = 0; chunk < pool_panels; chunk += candidate_chunk / candidate_block) {
            long chunk_end = least(chunk + candidate_chunk / candidate_block, pool_panels);
            for (long block = 0; block * block_steps < steps; ++block) {
                bool last_block = (block + 1) * block_steps >= steps;
                for (long p = first; p < last; ++p) {
                    const float* qs = panels + (p - first) * panel_floats + block * block_steps * query_step;
                    long panel_end = least((p + 1) * query_block, B);
                    for (long begin = p * query_block; begin < panel_end;) {  // where one pool ends and the next begins
                        long pool = begin / run, end = least((pool + 1) * run, panel_end);
                        for (long n4 = chunk; n4 < chunk_end; ++n4) {
                            float sums[query_block * candidate_block];
                            forward_micro(qs, candidates.at(block, pool * pool_panels + n4), candidates.steps_in(block), sums);
                            long n = n4 * candidate_block, wide = least(candidate_block, count - n);
                            for (long b = begin; b < end; ++b) {
                                float *place = out + b * out_stride + n, *sum = sums + (b - p * query_block) * candidate_block;
                                if (wide == candidate_block)
                                    finish_sums(place, sum, candidate_block, block > 0, last_block && as_score, gamma);
                                else
                                    finish_sums(place, sum, wide, block > 0, last_block && as_score, gamma);
                            }
                        }
                        begin = end;
                    }
                }
            }
        }
    });
}

inline void pack_candidates(int threads, const Candidates& from, long first, const CandidatePanels& to) {
    parallel(threads, to.panels, [&](long panel, int) { pack_candidate_panel(from, first, panel, to); });
}

void scaled_l1_cross(int threads, const float* q, const float* s, const float* e, long B, long N, long k, float* out) {
    if (B < query_block || k == 0) {  // packing would cost more than it saves
        constexpr long chunk = 64;
        parallel(threads, B * ceil_divide(N, chunk), [&](long task, int) {
            long b = task % B, first = task / B * chunk, last = least(first + chunk, N);
            for (long n = first; n < last; ++n)
                out[b * N + n] = pair_distance(q + b * k, s + b * k, e + n * k, 1.0f, k, no_limit);
        });
        return;
    }
    constexpr long at_once = 1024;  // bounds the packed copy of the candidates
    Candidates all{e, nullptr, nullptr, N, k};
    float* memory = static_cast<float*>(
        scratch(transher::slot_candidates, CandidatePanels::floats(least(N, at_once), k) * sizeof(float)));
    for (long first = 0; first < N; first += at_once) {
        long count = least(at_once, N - first);
        CandidatePanels panels{memory, ceil_divide(count, candidate_block), ceil_divide(k, lanes)};
        pack_candidates(threads, all, first, panels);
        forward_panels(
            threads, B, k, panels, count, B, nullptr, out + first, N, false, 0.0f,
            [&](long b, const float*& q_row, const float*& s_row, float*) { q_row = q + b * k, s_row = s + b * k; },
            [](long, const float*, const float*) {});
    }
}

void scaled_l1_pairs(int threads, const float* q, const float* s, const float* e, long B, long k, float* out) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b)
            out[b] = pair_distance(q + b * k, s + b * k, e + b * k, 1.0f, k, no_limit);
    });
}

void scaled_l1_pairs_backward(int threads, const float* q, const float* s, const float* e, const float* g, long B, long k,
                              float* dq, float* ds, float* de) {
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(B, chunk), [&](long task, int) {
        for (long b = task * chunk; b < least((task + 1) * chunk, B); ++b) {
            Vector upstream = Vector::all(g[b]);
            for (long column = 0; column < k; column += lanes) {
                Vector q_ = load_from(q + b * k, column, k), s_ = load_from(s + b * k, column, k);
                Vector e_ = load_from(e + b * k, column, k), t = difference(q_, s_, e_);
                Vector m = Vector::spoil(Vector::merge_sign(t, upstream), t, t), minus = Vector::zero() - m;
                store_to(m, dq + b * k, column, k);
                store_to(minus * e_, ds + b * k, column, k);
                store_to(minus * s_, de + b * k, column, k);
            }
        }
    });
}

// ---- Backward

// Gradients g (B, N), or those in `sparse` where it lists them. For every column group: `each_query(state, b)(column, q, s, Σ m, Σ m·e)` for each query and each step of columns, then
// `each_candidate(state, n, column, e, Σ m·s)`, where `state` is what `start(group)` gave.
template <class Start, class EachQuery, class EachCandidate>
void backward_columns(int threads, long B, long N, const float* query_panels, const CandidatePanels& candidates,
                      const float* g, const Sparse& sparse, Start&& start, EachQuery&& each_query,
                      EachCandidate&& each_candidate) {
    long steps = candidates.steps, panel_floats = steps * query_step, panels = ceil_divide(B, query_block);
    const bool listed = sparse.offsets != nullptr;
    parallel(threads, ceil_divide(steps, group_steps), [&](long group, int) {
        auto state = start(group);
        // The candidates' columns and their gradients. The dense kernel streams over one step of columns at a time; the
        // listed one jumps about, and finds all that it needs of a candidate in two neighbouring cache lines.
        long apart = listed ? 2 * column_group : lanes, to_next_step = listed ? lanes : 2 * N * lanes;
        long to_gradient = listed ? column_group : N * lanes;
        float* columns =
            static_cast<float*>(scratch(transher::slot_columns, (2 * N * column_group + N + lanes) * sizeof(float)));
        float* no_gradient = columns + 2 * N * column_group;  // for the empty places of the last panel
        long first_step = group * group_steps, here = least(group_steps, steps - first_step);
        for (long j = 0; j < here; ++j)
            for (long n = 0; n < N; ++n) {
                float* place = columns + n * apart + j * to_next_step;
                Vector::load(candidates.vector(n, first_step + j)).store(place);
                Vector::zero().store(place + to_gradient);
            }
        for (long n = 0; n < N; ++n) no_gradient[n] = 0.0f;
        for (long p = 0; p < panels; ++p) {
            const float* qs = query_panels + p * panel_floats + first_step * query_step;
            if (p + 1 < panels)
                for (long line = 0; line < here * query_step; line += 16) __builtin_prefetch(qs + panel_floats + line);
            Vector sum_m[group_steps][query_block], sum_me[group_steps][query_block];
            if (!listed) {
                const float* rows[query_block];
                for (long a = 0; a < query_block; ++a)
                    rows[a] = p * query_block + a < B ? g + (p * query_block + a) * N : no_gradient;
                for (long j = 0; j < here; ++j)
                    backward_micro(qs + j * query_step, rows, columns + j * to_next_step,
                                   columns + j * to_next_step + to_gradient, N, sum_m[j], sum_me[j]);
            } else
                for (long a = 0; a < query_block && p * query_block + a < B; ++a) {
                    long begin = sparse.offsets[p * query_block + a], count = sparse.offsets[p * query_block + a + 1] - begin;
                    const std::int32_t* list = sparse.candidates + begin;
                    if (here == group_steps)
                        backward_listed<group_steps>(qs, list, sparse.values + begin, count, columns, sum_m, sum_me, a);
                    else  // the last group of columns, one step at a time
                        for (long j = 0; j < here; ++j)
                            backward_listed<1>(qs + j * query_step, list, sparse.values + begin, count, columns + j * lanes,
                                               sum_m + j, sum_me + j, a);
                }
            for (long a = 0; a < query_block && p * query_block + a < B; ++a) {
                auto each_step = each_query(state, p * query_block + a);
                for (long j = 0; j < here; ++j) {
                    const float* place = qs + j * query_step + 2 * a * lanes;
                    each_step((first_step + j) * lanes, Vector::load(place), Vector::load(place + lanes), sum_m[j][a],
                              sum_me[j][a]);
                }
            }
        }
        for (long n = 0; n < N; ++n)
            for (long j = 0; j < here; ++j) {
                const float* place = columns + n * apart + j * to_next_step;
                each_candidate(state, n, (first_step + j) * lanes, Vector::load(place), Vector::load(place + to_gradient));
            }
    });
}

// The gradients of q and s (B, k) and of the candidates e (N, k).
void backward_rows(int threads, const float* q, const float* s, const float* e, const float* g, const Sparse& sparse, long B,
                   long N, long k, float* dq, float* ds, float* de) {
    long steps = ceil_divide(k, lanes), panels = ceil_divide(B, query_block), panel_floats = steps * query_step;
    float* query_panels = static_cast<float*>(scratch(transher::slot_shared, panels * panel_floats * sizeof(float)));
    float* memory =
        static_cast<float*>(scratch(transher::slot_candidates, CandidatePanels::floats(N, k) * sizeof(float)));
    CandidatePanels candidates{memory, ceil_divide(N, candidate_block), steps};
    pack_candidates(threads, Candidates{e, nullptr, nullptr, N, k}, 0, candidates);
    parallel(threads, panels, [&](long p, int) {
        for (long slot = 0; slot < query_block; ++slot) {
            long b = p * query_block + slot;
            pack_query(b < B ? q + b * k : nullptr, s + b * k, k, slot, query_panels + p * panel_floats);
        }
    });
    backward_columns(
        threads, B, N, query_panels, candidates, g, sparse, [](long) { return 0; },
        [=](int, long b) {
            return [=, dq = dq + b * k, ds = ds + b * k](long column, Vector q_, Vector s_, Vector sum_m, Vector sum_me) {
                store_to(Vector::spoil(sum_m, q_, s_), dq, column, k);
                store_to(Vector::spoil(Vector::zero() - sum_me, q_, s_), ds, column, k);
            };
        },
        [&](int, long n, long column, Vector e_, Vector sum_ms) {
            store_to(Vector::spoil(Vector::zero() - sum_ms, e_, e_), de + n * k, column, k);
        });
}

void scaled_l1_backward(int threads, const float* q, const float* s, const float* e, const float* g, long B, long N, long k,
                        float* dq, float* ds, float* de) {
    backward_rows(threads, q, s, e, g, Sparse(threads, g, nullptr, B, N), B, N, k, dq, ds, de);
}

// ---- Candidates of its own for every query: distance[b, n] to row ids[b, n] of e

void scaled_l1_listed(int threads, const float* q, const float* s, const float* e, const std::int64_t* ids, long B, long N,
                      long k, float* out) {
    parallel(threads, B, [&](long b, int) {
        for (long n = 0; n < N; ++n) {
            if (n + 1 < N)
                for (long i = 0; i < least(k, 64); i += 16) __builtin_prefetch(e + ids[b * N + n + 1] * k + i);
            out[b * N + n] = pair_distance(q + b * k, s + b * k, e + ids[b * N + n] * k, 1.0f, k, no_limit);
        }
    });
}

void scaled_l1_listed_backward(int threads, const float* q, const float* s, const float* e, const std::int64_t* ids,
                               const float* g, long B, long N, long rows, long k, float* dq, float* ds, float* de) {
    backward_rows(threads, q, s, e, g, Sparse(threads, g, ids, B, N), B, rows, k, dq, ds, de);
}

}  // namespace
