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

void mask_known(unsigned char* valid, const std::int64_t* negatives, long B, long N, const std::int64_t* starts,
                const std::int64_t* ends, const std::int32_t* answers) {
    const Places places(negatives, N);
    for (long b = 0; b < B; ++b)
        for (std::int64_t i = starts[b]; i < ends[b]; ++i)
            if (places.may_have(answers[i]))
                for (long n = places.first(answers[i]); n >= 0; n = places.next(n)) valid[b * N + n] = 0;
}

}  // namespace transher
