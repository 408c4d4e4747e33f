#include "rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pool.h"

namespace transher {
namespace {

// From an id to its places in the pool: one bit that says no for most ids, open addressing to the first place, then a chain
// for ids drawn twice.
class Places {
  public:
    Places(const std::int64_t* pool, long count) : pool_(pool), next_(count, -1) {
        std::size_t size = 16;
        while (size < 4 * static_cast<std::size_t>(count)) size *= 2;
        first_.assign(size, -1);
        mask_ = size - 1;
        bits_.assign(size, 0);  // 64 bits for every slot
        for (long n = count; n-- > 0;) {
            std::size_t slot = find(pool[n]);
            next_[n] = first_[slot];
            first_[slot] = static_cast<std::int32_t>(n);
            bits_[word(pool[n])] |= bit(pool[n]);
        }
    }
    bool may_have(std::int64_t id) const { return bits_[word(id)] & bit(id); }
    long first(std::int64_t id) const { return first_[find(id)]; }
    long next(long place) const { return next_[place]; }

  private:
    std::size_t word(std::int64_t id) const { return static_cast<std::uint64_t>(id) >> 6 & mask_; }
    static std::uint64_t bit(std::int64_t id) { return std::uint64_t(1) << (id & 63); }
    std::size_t find(std::int64_t id) const {
        std::size_t slot = (static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ull >> 20) & mask_;
        while (first_[slot] >= 0 && pool_[first_[slot]] != id) slot = (slot + 1) & mask_;
        return slot;
    }
    const std::int64_t* pool_;
    std::vector<std::int32_t> first_, next_;
    std::vector<std::uint64_t> bits_;
    std::size_t mask_;
};

}  // namespace

void gather_rows(int threads, const float* table, const std::int64_t* ids, long count, long k, float* out) {
    if (!k) return;
    constexpr long chunk = 16;
    struct Context {
        const float* table;
        const std::int64_t* ids;
        long count, k;
        float* out;
    } context{table, ids, count, k, out};
    run_tasks(
        threads, (count + chunk - 1) / chunk,
        [](void* given, long task, int) {
            const auto& c = *static_cast<Context*>(given);
            for (long i = task * chunk; i < std::min((task + 1) * chunk, c.count); ++i)
                std::memcpy(c.out + i * c.k, c.table + c.ids[i] * c.k, c.k * sizeof(float));
        },
        &context);
}

void add_rows(int threads, const float* first, const std::int64_t* first_places, long n, const float* second,
              const std::int64_t* second_places, long m, long U, long k, float* out) {
    if (!k) return;
    constexpr long chunk = 16;
    std::vector<const float*> summands(2 * U, nullptr);  // of each row of the sum
    for (long i = 0; i < n; ++i) summands[2 * first_places[i]] = first + i * k;
    for (long i = 0; i < m; ++i) summands[2 * second_places[i] + 1] = second + i * k;
    struct Context {
        const float* const* summands;
        long count, k;
        float* out;
    } context{summands.data(), U, k, out};
    run_tasks(
        threads, (U + chunk - 1) / chunk,
        [](void* given, long task, int) {
            const auto& c = *static_cast<Context*>(given);
            for (long u = task * chunk; u < std::min((task + 1) * chunk, c.count); ++u) {
                const float *a = c.summands[2 * u], *b = c.summands[2 * u + 1];
                float* total = c.out + u * c.k;
                if (a && b) {
                    for (long i = 0; i < c.k; ++i) total[i] = (a[i] + b[i]) + 0.0f;
                } else if (const float* one = a ? a : b) {
                    for (long i = 0; i < c.k; ++i) total[i] = one[i] + 0.0f;
                } else {
                    std::memset(total, 0, c.k * sizeof(float));
                }
            }
        },
        &context);
}

long distinct(const std::int64_t* ids, long count, long bound, std::int64_t* found, std::int64_t* places) {
    const long words = bound / 64 + 1;
    auto* bits = static_cast<std::uint64_t*>(scratch(slot_bytes, words * (sizeof(std::uint64_t) + sizeof(std::int64_t))));
    auto* before = reinterpret_cast<std::int64_t*>(bits + words);  // how many distinct ids lie in earlier words
    std::memset(bits, 0, words * sizeof(std::uint64_t));
    for (long i = 0; i < count; ++i) bits[ids[i] >> 6] |= std::uint64_t(1) << (ids[i] & 63);
    long total = 0;
    for (long word = 0; word < words; ++word) {
        before[word] = total;
        for (std::uint64_t left = bits[word]; left; left &= left - 1) found[total++] = word * 64 + __builtin_ctzll(left);
    }
    for (long i = 0; i < count; ++i) {
        const std::uint64_t lower = (std::uint64_t(1) << (ids[i] & 63)) - 1;
        places[i] = before[ids[i] >> 6] + __builtin_popcountll(bits[ids[i] >> 6] & lower);
    }
    return total;
}

void mask_known(unsigned char* valid, const std::int64_t* negatives, long B, long N, const std::int64_t* starts,
                const std::int64_t* ends, const std::int32_t* answers) {
    const Places places(negatives, N);
    // A query with many answers is likely to stand in a batch several times: what it masks is remembered by its start.
    struct Masked {
        std::int64_t start = -1, end = 0;
        std::size_t first = 0, last = 0;  // of `members`
    };
    constexpr std::int64_t many = 32;
    std::size_t size = 16;
    while (size < 2 * static_cast<std::size_t>(B)) size *= 2;
    std::vector<Masked> remembered(size);
    std::vector<std::int32_t> members;
    for (long b = 0; b < B; ++b) {
        std::size_t slot = static_cast<std::uint64_t>(starts[b]) * 0x9E3779B97F4A7C15ull >> 20 & (size - 1);
        while (remembered[slot].start >= 0 && (remembered[slot].start != starts[b] || remembered[slot].end != ends[b]))
            slot = (slot + 1) & (size - 1);
        Masked& known = remembered[slot];
        if (known.start < 0) {
            const std::size_t first = members.size();
            for (std::int64_t i = starts[b]; i < ends[b]; ++i)
                if (places.may_have(answers[i]))
                    for (long n = places.first(answers[i]); n >= 0; n = places.next(n))
                        members.push_back(static_cast<std::int32_t>(n));
            if (ends[b] - starts[b] < many) {
                for (std::size_t i = first; i < members.size(); ++i) valid[b * N + members[i]] = 0;
                members.resize(first);
                continue;
            }
            known = {starts[b], ends[b], first, members.size()};
        }
        for (std::size_t i = known.first; i < known.last; ++i) valid[b * N + members[i]] = 0;
    }
}

}  // namespace transher
