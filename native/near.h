// Distances up to a limit. Partial sums of |·| only grow, in floating point as well (adding a number that is not negative
// never lowers a rounded sum), so a candidate whose partial sum has passed the limit is out, exactly.
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
                         bool from_memory, Limit&& limit, Found&& found) {
    for (long n = first; n < last; n += 4) {
        const float* e[4];
        for (long c = 0; c < 4; ++c) e[c] = candidates + least(n + c, last - 1) * k;
        if (from_memory && n + 20 <= last)  // a drop breaks the pattern that the hardware would follow: ask ahead
            for (long i = 0; i < 4 * k; i += 16) __builtin_prefetch(candidates + (n + 16) * k + i);
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

}  // namespace
