// Rows and ids without arithmetic: gathering rows, and finding known answers in a pool of negatives.
#pragma once

#include <cstdint>

namespace transher {

// out[i] = table[ids[i]], rows of `bytes` bytes.
void gather_rows(int threads, const char* table, const std::int64_t* ids, long count, long bytes, char* out);

// valid[b, n] = 0 where negatives[n] is among answers[starts[b] … ends[b]−1]; the other entries stay.
void mask_known(int threads, unsigned char* valid, const std::int64_t* negatives, long B, long N, const std::int64_t* starts,
                const std::int64_t* ends, const std::int32_t* answers);

}  // namespace transher
