// What each back end offers: the same functions, compiled three times for three kinds of processor. Addresses come from
// module.cpp, which has checked them.
#pragma once

#include <cstdint>

#include "pool.h"

namespace transher {

// How many queries, one after the other, share a pool of negatives: query b goes with pool b / run_length(B, P), P ≥ 1.
// Static, so that each back end has its own: see pool.h.
static inline std::int64_t run_length(std::int64_t queries, std::int64_t pools) { return (queries + pools - 1) / pools; }

// A batch of training queries against their answers and their pools of negatives, by rows of two small tables. A column
// of −1 means that the model has no such part: the multiplier and the scale are then 1, the translation 0.
struct Batch {
    const float* entity_rows;    // (U, k)
    const float* relation_rows;  // (V, relation_width)
    const std::int64_t* anchors;    // (B,) into entity_rows
    const std::int64_t* relations;  // (B,) into relation_rows
    const std::int64_t* answers;    // (B,) into entity_rows
    const std::int64_t* negatives;  // (pools, pool) into entity_rows
    const float* keep;              // (B, k) or null
    std::int64_t entity_count, relation_count, batch, pools, pool, k, relation_width;
    std::int64_t multiplier, scale, translation;  // columns of relation_rows
    float translation_sign, gamma;
    bool normalised;
};

struct Backend {
    const char* name;
    void (*scaled_l1_cross)(int threads, const float* q, const float* s, const float* e, long B, long N, long k, float* out);
    void (*scaled_l1_pairs)(int threads, const float* q, const float* s, const float* e, long B, long k, float* out);
    void (*scaled_l1_backward)(int threads, const float* q, const float* s, const float* e, const float* g, long B, long N,
                               long k, float* dq, float* ds, float* de);
    void (*scaled_l1_pairs_backward)(int threads, const float* q, const float* s, const float* e, const float* g, long B,
                                     long k, float* dq, float* ds, float* de);
    void (*scaled_l1_listed)(int threads, const float* q, const float* s, const float* e, const std::int64_t* ids, long B,
                             long N, long k, float* out);
    void (*scaled_l1_listed_backward)(int threads, const float* q, const float* s, const float* e, const std::int64_t* ids,
                                      const float* g, long B, long N, long rows, long k, float* dq, float* ds, float* de);
    void (*batch_forward)(int threads, const Batch& batch, Buffer& kept, float* positive, float* negative);
    void (*batch_backward)(int threads, const Batch& batch, Buffer& kept, const float* d_positive, const float* d_negative,
                           float* d_entity_rows, float* d_relation_rows);
    double (*self_adversarial)(int threads, const float* positive, const float* negative, const unsigned char* valid,
                               const float* weights, float alpha, long B, long N, float* d_positive, float* d_negative);
    void (*thin)(int threads, float* g, long B, long N, float share, std::uint32_t key);
    void (*adam_rows)(int threads, float* weight, float* m, float* v, const std::int64_t* ids, const float* gradient,
                      long count, long k, float rate, float beta1, float beta2, float one_less_beta1, float one_less_beta2,
                      float epsilon, float root_correction);
    void (*scaled_l1_count)(int threads, const float* q, const float* s, const float* limits, long B, long k,
                            const float* candidates, long count, std::int64_t first_id, const std::int64_t* starts,
                            const std::int64_t* ends, const std::int32_t* known, std::int64_t* better, std::int64_t* tied);
    void (*scaled_l1_top)(int threads, const float* q, const float* s, long B, long k, const float* candidates, long count,
                          std::int64_t first_id, const std::int64_t* starts, const std::int64_t* ends,
                          const std::int32_t* excluded, long size, float* distances, std::int64_t* ids);
    void (*complex_modulus_cross)(int threads, const float* q, const float* e, const std::int64_t* ids, long B, long P,
                                  long N, long k, float* out);
    void (*complex_modulus_pairs)(int threads, const float* q, const float* e, long B, long k, float* out);
    void (*complex_modulus_backward)(int threads, const float* q, const float* e, const std::int64_t* ids, const float* g,
                                     long B, long P, long N, long k, float* dq, float* de);
    void (*complex_modulus_pairs_backward)(int threads, const float* q, const float* e, const float* g, long B, long k,
                                           float* dq, float* de);
    void (*normalise_rows)(int threads, const float* rows, const std::int64_t* ids, long count, long k, float* out);
    // For the benchmarks: vectors through a loop of multiply-adds (kind 0), of the forward kernel's operations (1) or of the
    // backward kernel's (2); bytes read from an array; floats in a vector.
    double (*peak)(int threads, int kind, long rounds);
    double (*read_all)(int threads, const float* data, long count);
    long lanes;
};

const Backend* portable_backend();
const Backend* avx2_backend();    // null where it was not compiled
const Backend* avx512_backend();  // likewise

}  // namespace transher
