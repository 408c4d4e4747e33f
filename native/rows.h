// Rows and ids: gathering and adding rows, distinct ids, and known answers in a pool of negatives.
#pragma once

#include <cstdint>

namespace transher {

// out[i] = table[ids[i]], rows of k floats.
void gather_rows(int threads, const float* table, const std::int64_t* ids, long count, long k, float* out);

// out (U, k): each row of `first` (n, k) and of `second` (m, k) at its place, places being distinct in either, and the sum
// of both where two meet. Whatever meets, −0 becomes 0; a row that nothing comes to is 0.
void add_rows(int threads, const float* first, const std::int64_t* first_places, long n, const float* second,
              const std::int64_t* second_places, long m, long U, long k, float* out);

// The distinct among ids 0 … bound − 1, in ascending order, and the place of every id among them; gives how many there are.
// One bit for each possible id: for the ids of a batch that is faster than sorting up to some four million entities.
long distinct(const std::int64_t* ids, long count, long bound, std::int64_t* found, std::int64_t* places);

// valid[b, n] = 0 where negatives[n] is among answers[starts[b] … ends[b]−1]; the other entries stay. On the caller's thread
// alone: batches are made while a step computes, and the step would lose the other threads for as long.
void mask_known(unsigned char* valid, const std::int64_t* negatives, long B, long N, const std::int64_t* starts,
                const std::int64_t* ends, const std::int32_t* answers);

}  // namespace transher
