// A training batch of a scaled-L1 model, from rows to scores and from the scores' gradients to the rows' gradients:
// gather, normalise, query, distances in one go. Nothing of size (B, k) is written but the query panels, which the forward
// pass leaves for the backward pass.
#pragma once

#include "scaled_l1.h"

namespace {

using transher::Batch;
using transher::Buffer;

constexpr float smallest_norm = 1e-12f;  // as in torch.nn.functional.normalize

// What lies in the buffer between forward and backward.
struct Kept {
    float *inverse, *query_panels;
    CandidatePanels candidates;

    Kept(const Batch& batch, Buffer& buffer) {
        long steps = ceil_divide(batch.k, lanes), panels = ceil_divide(batch.batch, query_block);
        long for_inverse = ceil_divide(batch.entity_count, 16) * 16;
        long for_queries = ceil_divide(panels * steps * query_step, 16) * 16;
        long for_candidates = CandidatePanels::floats(batch.pool, batch.k);
        buffer.reserve((for_inverse + for_queries + for_candidates + 16) * sizeof(float));
        inverse = static_cast<float*>(buffer.data);
        query_panels = inverse + for_inverse;
        candidates = {query_panels + for_queries, ceil_divide(batch.pool, candidate_block), steps};
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
    long k = batch.k;
    const float* inverse = batch.normalised ? kept.inverse : nullptr;
    constexpr long chunk = 16;
    if (inverse)
        parallel(threads, ceil_divide(batch.entity_count, chunk), [&](long task, int) {
            for (long u = task * chunk; u < least((task + 1) * chunk, batch.entity_count); ++u)
                kept.inverse[u] = inverse_norm(batch.entity_rows + u * k, k);
        });
    pack_candidates(threads, Candidates{batch.entity_rows, batch.negatives, inverse, batch.pool, k}, 0, kept.candidates);
    Candidates answers{batch.entity_rows, batch.answers, inverse, batch.batch, k};
    Candidates anchors{batch.entity_rows, batch.anchors, inverse, batch.batch, k};
    Vector sign = Vector::all(batch.translation_sign);
    forward_panels(
        threads, batch.batch, k, kept.candidates, batch.pool, kept.query_panels, negative, batch.pool, true, batch.gamma,
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

// Gradients of one column group, in the cache until all queries have added to them.
struct ColumnSums {
    float *entities, *relations;  // (U, column_group), (V, 3, column_group): multiplier, scale, translation
    long first_column;

    ColumnSums(long U, long V, long group)
        : entities(static_cast<float*>(scratch(transher::slot_entities, (U + 1) * column_group * sizeof(float)))),
          relations(static_cast<float*>(scratch(transher::slot_relations, (3 * V + 1) * column_group * sizeof(float)))),
          first_column(group * column_group) {
        for (long i = 0; i < U * column_group; i += lanes) Vector::zero().store(entities + i);
        for (long i = 0; i < V * 3 * column_group; i += lanes) Vector::zero().store(relations + i);
    }
};

// Adds to one step of columns of a small array of sums.
inline void add_to(float* place, Vector value) { (Vector::load(place) + value).store(place); }

// What one query's Σ m and Σ m·e, and its answer, add to the gradients of the rows that it was made of. Scores are
// γ − distance, so all signs are turned: Σ m enters dq with −1.
struct QueryGradient {
    const float *anchor, *answer, *multiplier, *keep;
    float *d_anchor, *d_answer, *d_multiplier, *d_scale, *d_translation;  // null where the model has no such part
    float anchor_scale, answer_scale, upstream, sign;
    long k;

    QueryGradient(const Batch& batch, const ColumnSums& sums, const Candidates& anchors, const Candidates& answers,
                  float d_positive, long b)
        : anchor(anchors.row(b)), answer(answers.row(b)), keep(batch.keep ? batch.keep + b * batch.k : nullptr),
          anchor_scale(anchors.scale(b)), answer_scale(answers.scale(b)), upstream(d_positive),
          sign(batch.translation_sign), k(batch.k) {
        const float* relation = batch.relation_rows + batch.relations[b] * batch.relation_width;
        float* d_relation = sums.relations + batch.relations[b] * 3 * column_group;
        multiplier = batch.multiplier >= 0 ? relation + batch.multiplier : nullptr;
        d_anchor = sums.entities + batch.anchors[b] * column_group;
        d_answer = sums.entities + batch.answers[b] * column_group;
        d_multiplier = batch.multiplier >= 0 ? d_relation : nullptr;
        d_scale = batch.scale >= 0 ? d_relation + column_group : nullptr;
        d_translation = batch.translation >= 0 ? d_relation + 2 * column_group : nullptr;
    }

    void prefetch(long column) const {
        for (long i = 0; i < column_group + 15; i += 15) {  // rows do not begin with a cache line
            __builtin_prefetch(anchor + column + i);
            __builtin_prefetch(answer + column + i);
            if (multiplier) __builtin_prefetch(multiplier + column + i);
            if (keep) __builtin_prefetch(keep + column + i);
        }
        for (long i = 0; i < column_group; i += 16) {
            __builtin_prefetch(d_anchor + i);
            __builtin_prefetch(d_answer + i);
        }
    }

    void operator()(long column, Vector q, Vector s, Vector sum_m, Vector sum_me) const {
        long inner = column % column_group;
        Vector seen = load_from(answer, column, k) * Vector::all(answer_scale);
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
            add_to(d_multiplier + inner, dq * load_from(anchor, column, k) * Vector::all(anchor_scale));
            dq = dq * load_from(multiplier, column, k);
        }
        add_to(d_anchor + inner, dq);
    }
};

void batch_backward(int threads, const Batch& batch, Buffer& buffer, const float* d_positive, const float* d_negative,
                    float* d_entity_rows, float* d_relation_rows) {
    Kept kept(batch, buffer);
    long k = batch.k, U = batch.entity_count, V = batch.relation_count;
    const float* inverse = batch.normalised ? kept.inverse : nullptr;
    Candidates answers{batch.entity_rows, batch.answers, inverse, batch.batch, k};
    Candidates anchors{batch.entity_rows, batch.anchors, inverse, batch.batch, k};
    long groups = ceil_divide(kept.candidates.steps, group_steps);
    // The gradient of ê = e/‖e‖ needs ê·dê over all columns: one number per row and column group, added up in order.
    float* products = static_cast<float*>(scratch(transher::slot_shared, (groups + 1) * U * sizeof(float)));
    backward_columns(
        threads, batch.batch, batch.pool, kept.query_panels, kept.candidates, d_negative,
        [&](long group) { return ColumnSums(U, V, group); },
        [&](const ColumnSums& sums, long b) {
            // The same query of the next panel: pieces of rows all over the place, which arrive while this panel is done.
            if (b + query_block < batch.batch)
                QueryGradient(batch, sums, anchors, answers, 0.0f, b + query_block).prefetch(sums.first_column);
            return QueryGradient(batch, sums, anchors, answers, d_positive[b], b);
        },
        [&](const ColumnSums& sums, long n, long column, Vector, Vector sum_ms) {
            add_to(sums.entities + batch.negatives[n] * column_group + column % column_group, sum_ms);
        },
        [&](const ColumnSums& sums, long group) {
            const float *entities = sums.entities, *relations = sums.relations;
            long first = group * column_group, last = least(first + column_group, k);
            for (long u = 0; u < U; ++u) {
                const float* row = batch.entity_rows + u * k;
                if (u + 8 < U)
                    for (long i = 0; i < column_group + 15; i += 15) {
                        __builtin_prefetch(row + 8 * k + first + i);
                        __builtin_prefetch(d_entity_rows + (u + 8) * k + first + i, 1);
                    }
                Vector product = Vector::zero();
                for (long column = first; column < last; column += lanes) {
                    Vector d = Vector::load(entities + u * column_group + column - first);
                    store_to(d, d_entity_rows + u * k, column, k);
                    if (inverse) product = Vector::multiply_add(d, load_from(row, column, k), product);
                }
                if (inverse) products[group * U + u] = product.sum();
            }
            const long parts[3] = {batch.multiplier, batch.scale, batch.translation};
            for (long v = 0; v < V; ++v)
                for (long part = 0; part < 3; ++part)
                    for (long column = first; parts[part] >= 0 && column < last; column += lanes)
                        store_to(Vector::load(relations + (v * 3 + part) * column_group + column - first),
                                 d_relation_rows + v * batch.relation_width + parts[part], column, k);
        });
    if (!inverse) return;
    constexpr long chunk = 16;
    parallel(threads, ceil_divide(U, chunk), [&](long task, int) {
        for (long u = task * chunk; u < least((task + 1) * chunk, U); ++u) {
            float product = 0.0f;
            for (long group = 0; group < groups; ++group) product += products[group * U + u];
            // Below the smallest norm the length counts as constant, and nothing is projected out.
            float length = inverse[u], along = length >= 1.0f / smallest_norm ? 0.0f : product * length * length;
            Vector scale = Vector::all(length), back = Vector::all(along);
            float* d = d_entity_rows + u * k;
            const float* row = batch.entity_rows + u * k;
            for (long column = 0; column < k; column += lanes)
                store_to(difference(load_from(d, column, k), back, load_from(row, column, k)) * scale, d, column, k);
        }
    });
}

}  // namespace
