// The functions of one back end, after one of the vector headers.
#pragma once

#include "batch.h"
#include "loss.h"
#include "modulus.h"
#include "peak.h"
#include "ranking.h"
#include "scaled_l1.h"

namespace {

constexpr transher::Backend backend_table(const char* name) {
    return {
        name,
        scaled_l1_cross,
        scaled_l1_pairs,
        scaled_l1_backward,
        scaled_l1_pairs_backward,
        scaled_l1_listed,
        scaled_l1_listed_backward,
        batch_forward,
        batch_backward,
        self_adversarial,
        thin,
        adam_rows,
        scaled_l1_count,
        scaled_l1_top,
        complex_modulus_cross,
        complex_modulus_pairs,
        complex_modulus_backward,
        complex_modulus_pairs_backward,
        normalise_rows,
        peak,
        read_all,
        lanes,
    };
}

}  // namespace
