// A training batch of a scaled-L1 model, from rows to scores and from the scores' gradients to the rows' gradients:
// gather, normalise, query, distances in one go. Nothing of size (B, k) is written but the query panels, which the forward
// pass leaves for the backward pass.
//
// Backward goes by groups of columns, and so looks for one cache line of every row at a time. Rows lie k floats apart; where
// k is a power of two, all those lines fall into a few sets of the cache and throw each other out. So the forward pass also
// leaves the entities in blocks, (groups, U, column_group), and gradients are summed in blocks of the same shape.
#pragma once

#include "scaled_l1.h"

namespace {

using transher::Batch;
using transher::Buffer;

constexpr float smallest_norm = 1e-12f;  // as in torch.nn.functional.normalize
constexpr long row_chunk = 8;  // rows that go in and out of blocks together, so that each visit to a block is worth it

// What lies in the buffer between forward and backward.
struct Kept {
    float *inverse, *seen, *query_panels;  // seen: entities as the score sees them, in blocks, zeros beyond k
    CandidatePanels candidates;

    Kept(const Batch& batch, Buffer& buffer) {
        long steps = ceil_divide(batch.k, lanes), panels = ceil_divide(batch.batch, query_block);
        long for_inverse = ceil_divide(batch.entity_count, 16) * 16;
        long for_seen = ceil_divide(steps, group_steps) * batch.entity_count * column_group;
        long for_queries = ceil_divide(panels * steps * query_step, 16) * 16;
        long pool_panels = ceil_divide(batch.pool, candidate_block);
        long for_candidates = CandidatePanels::floats(batch.pools * pool_panels * candidate_block, batch.k);
        buffer.reserve((for_inverse + for_seen + for_queries + for_candidates + 16) * sizeof(float));
        inverse = static_cast<float*>(buffer.data);
        seen = inverse + for_inverse;
        query_panels = seen + for_seen;
        candidates = {query_panels + for_queries, batch.pools * pool_panels, steps};
    }
};

inline Vector row_sums(const float* a, const float* b, long k) {
    Vector sum[4] = {Vector::zero(), Vector::zero(), Vector::zero(), Vector::zero()};
    long column = 0;
    for (; column + 4 * lanes <= k; column += 4 * lanes)
        for (long j = 0; j < 4; ++j)
            sum[j] = Vector::multiply_add(Vector::load(a + column + j * lanes), Vector::load(b + column + j * lanes), sum[j]);
    for (; column < k; column += lanes)
        sum[0] = Vector::multiply_add(load_from(a, column, k), load_from(b, column, k), sum[0]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

inline float inverse_norm(const float* row, long k) {
    float norm = __builtin_sqrtf(row_sums(row, row, k).sum());
    return 1.0f / (norm > smallest_norm || norm != norm ? norm : smallest_norm);
}

void batch_forward(int threads, const Batch& batch, Buffer& buffer, float* positive, float* negative) {
    Kept kept(batch, buffer);
    long k = batch.k, U = batch.entity_count, run = transher::run_length(batch.batch, batch.pools);
    const float* inverse = batch.normalised ? kept.inverse : nullptr;
    parallel(threads, ceil_divide(U, row_chunk), [&](long task, int) {
        long first = task * row_chunk, last = least(first + row_chunk, U);
        for (long u = first; u < last; ++u) kept.inverse[u] = inverse ? inverse_norm(batch.entity_rows + u * k, k) : 1.0f;
        for (long column = 0; column < k; column += column_group)
            for (long u = first; u < last; ++u) {
                Vector scale = Vector::all(kept.inverse[u]);
                float* block = kept.seen + column * U + u * column_group;
                for (long i = 0; i < column_group; i += lanes)
                    (column + i < k ? load_from(batch.entity_rows + u * k, column + i, k) * scale : Vector::zero())
                        .store(block + i);
            }
    });
    long pool_panels = ceil_divide(batch.pool, candidate_block);
    parallel(threads, kept.candidates.panels, [&](long panel, int) {
        long pool = panel / pool_panels;  // each begins with a panel of its own
        Candidates members{batch.entity_rows, batch.negatives + pool * batch.pool, inverse, batch.pool, k};
        pack_candidate_panel(members, -pool * pool_panels * candidate_block, panel, kept.candidates);
    });
    Candidates answers{batch.entity_rows, batch.answers, inverse, batch.batch, k};
    Candidates anchors{batch.entity_rows, batch.anchors, inverse, batch.batch, k};
    Vector sign = Vector::all(batch.translation_sign);
    forward_panels(
        threads, batch.batch, k, kept.candidates, batch.pool, run, kept.query_panels, negative, batch.pool, true,
        batch.gamma,
        [&](long b, const float*& q, const float*& s, float* row) {
            const float* relation = batch.relation_rows + batch.relations[b] * batch.relation_width;
            const float* anchor = anchors.row(b);
            const float* keep = batch.keep ? batch.keep + b * k : nullptr;
            float *q_row = row, *s_row = row + k + lanes;
            Vector scale = Vector::all(anchors.scale(b));
            for (long column = 0; column < k; column += lanes) {
                Vector seen = load_from(anchor, column, k) * scale;
                if (batch.multiplier >= 0) seen = seen * load_from(relation + batch.multiplier, column, k);
                if (batch.translation >= 0)
                    seen = Vector::multiply_add(sign, load_from(relation + batch.translation, column, k), seen);
                Vector stretch = batch.scale >= 0 ? load_from(relation + batch.scale, column, k) : Vector::all(1.0f);
                if (keep) {
                    Vector weight = load_from(keep, column, k);
                    seen = seen * weight, stretch = stretch * weight;
                }
                store_to(seen, q_row, column, k);
                store_to(stretch, s_row, column, k);
            }
            q = q_row, s = s_row;
        },
        [&](long b, const float* q, const float* s) {
            positive[b] = batch.gamma - pair_distance(q, s, answers.row(b), answers.scale(b), k, no_limit);
        });
}

// One column group of the batch: what the score sees, and sums of gradients, which stay in the cache until all queries
// have added to them.
struct ColumnSums {
    const float* seen;            // (U, column_group)
    float *entities, *relations;  // (U, column_group), (V, 3, column_group): multiplier, scale, translation
};

// Adds to one step of columns of a small array of sums.
inline void add_to(float* place, Vector value) { (Vector::load(place) + value).store(place); }

// What one query's Σ m and Σ m·e, and its answer, add to the gradients of the rows that it was made of. Scores are
// γ − distance, so all signs are turned: Σ m enters dq with −1.
struct QueryGradient {
    const float *anchor, *answer, *multiplier, *keep;
    float *d_anchor, *d_answer, *d_multiplier, *d_scale, *d_translation;  // null where the model has no such part
    float upstream, sign;
    long k;

    QueryGradient(const Batch& batch, const ColumnSums& sums, float d_positive, long b)
        : anchor(sums.seen + batch.anchors[b] * column_group), answer(sums.seen + batch.answers[b] * column_group),
          keep(batch.keep ? batch.keep + b * batch.k : nullptr), upstream(d_positive), sign(batch.translation_sign),
          k(batch.k) {
        float* d_relation = sums.relations + batch.relations[b] * 3 * column_group;
        multiplier = batch.multiplier >= 0
                         ? batch.relation_rows + batch.relations[b] * batch.relation_width + batch.multiplier
                         : nullptr;
        d_anchor = sums.entities + batch.anchors[b] * column_group;
        d_answer = sums.entities + batch.answers[b] * column_group;
        d_multiplier = batch.multiplier >= 0 ? d_relation : nullptr;
        d_scale = batch.scale >= 0 ? d_relation + column_group : nullptr;
        d_translation = batch.translation >= 0 ? d_relation + 2 * column_group : nullptr;
    }

    void operator()(long column, Vector q, Vector s, Vector sum_m, Vector sum_me) const {
        long inner = column % column_group;
        Vector seen = Vector::load(answer + inner);
        Vector m = Vector::merge_sign(difference(q, s, seen), Vector::all(upstream));
        add_to(d_answer + inner, m * s);
        Vector dq = Vector::spoil(Vector::zero() - (sum_m + m), q, s), ds = Vector::multiply_add(m, seen, sum_me);
        if (keep) {
            Vector weight = load_from(keep, column, k);
            dq = dq * weight, ds = ds * weight;
        }
        if (d_scale) add_to(d_scale + inner, ds);
        if (d_translation) add_to(d_translation + inner, dq * Vector::all(sign));
        if (d_multiplier) {
            add_to(d_multiplier + inner, dq * Vector::load(anchor + inner));
            dq = dq * load_from(multiplier, column, k);
        }
        add_to(d_anchor + inner, dq);
    }
};

void batch_backward(int threads, const Batch& batch, Buffer& buffer, const float* d_positive, const float* d_negative,
                    float* d_entity_rows, float* d_relation_rows) {
    Kept kept(batch, buffer);
    long k = batch.k, U = batch.entity_count, V = batch.relation_count;
    long groups = ceil_divide(kept.candidates.steps, group_steps);
    long entity_floats = U * column_group, relation_floats = 3 * V * column_group;
    float* d_seen = static_cast<float*>(scratch(transher::slot_entities, groups * entity_floats * sizeof(float) + 64));
    float* d_relations = static_cast<float*>(scratch(transher::slot_relations, groups * relation_floats * sizeof(float) + 64));
    long stride = ceil_divide(batch.pool, candidate_block) * candidate_block;  // from one packed pool to the next
    backward_columns(
        threads, batch.batch, batch.pools > 1 ? batch.pools * stride : batch.pool, kept.query_panels, kept.candidates,
        d_negative, Sparse(threads, d_negative, nullptr, batch.batch, batch.pool, transher::run_length(batch.batch, batch.pools), stride),
        [&](long group) {
            ColumnSums sums{kept.seen + group * entity_floats, d_seen + group * entity_floats,
                            d_relations + group * relation_floats};
            for (long i = 0; i < entity_floats; i += lanes) Vector::zero().store(sums.entities + i);
            for (long i = 0; i < relation_floats; i += lanes) Vector::zero().store(sums.relations + i);
            return sums;
        },
        [&](const ColumnSums& sums, long b) { return QueryGradient(batch, sums, d_positive[b], b); },
        [&](const ColumnSums& sums, long n, long column, Vector, Vector sum_ms) {
            long pool = n / stride, member = n % stride;
            if (member < batch.pool)
                add_to(sums.entities + batch.negatives[pool * batch.pool + member] * column_group + column % column_group,
                       sum_ms);
        });
    // Back from blocks to rows. The gradient of e is (dê − ê(ê·dê))/‖e‖.
    parallel(threads, ceil_divide(U, row_chunk), [&](long task, int) {
        long first = task * row_chunk, last = least(first + row_chunk, U);
        Vector products[row_chunk];
        for (long i = 0; i < row_chunk; ++i) products[i] = Vector::zero();
        if (batch.normalised)
            for (long group = 0; group < groups; ++group)
                for (long u = first; u < last; ++u)
                    for (long i = 0; i < column_group; i += lanes) {
                        long place = group * entity_floats + u * column_group + i;
                        products[u - first] = Vector::multiply_add(Vector::load(d_seen + place),
                                                                   Vector::load(kept.seen + place), products[u - first]);
                    }
        Vector along[row_chunk];
        for (long u = first; u < last; ++u)  // below the smallest norm the length counts as constant, and nothing is projected
            along[u - first] = Vector::all(kept.inverse[u] >= 1.0f / smallest_norm ? 0.0f : products[u - first].sum());
        for (long column = 0; column < k; column += lanes)
            for (long u = first; u < last; ++u) {
                long place = column / column_group * entity_floats + u * column_group + column % column_group;
                Vector d = difference(Vector::load(d_seen + place), along[u - first], Vector::load(kept.seen + place));
                store_to(d * Vector::all(kept.inverse[u]), d_entity_rows + u * k, column, k);
            }
    });
    const long parts[3] = {batch.multiplier, batch.scale, batch.translation};
    parallel(threads, V, [&](long v, int) {
        for (long part = 0; part < 3; ++part)
            for (long column = 0; parts[part] >= 0 && column < k; column += lanes)
                store_to(Vector::load(d_relations + column / column_group * relation_floats + (v * 3 + part) * column_group +
                                      column % column_group),
                         d_relation_rows + v * batch.relation_width + parts[part], column, k);
    });
}

}  // namespace
