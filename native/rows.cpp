#include "rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pool.h"

namespace transher {
namespace {

template <class Body>
void parallel_chunks(int threads, long count, long chunk, Body&& body) {
    struct Context {
        Body& body;
        long count, chunk;
    } context{body, count, chunk};
    run_tasks(
        threads, (count + chunk - 1) / chunk,
        [](void* given, long task, int) {
            auto& c = *static_cast<Context*>(given);
            for (long i = task * c.chunk; i < std::min((task + 1) * c.chunk, c.count); ++i) c.body(i);
        },
        &context);
}

// From an id to its places in the pool: open addressing to the first place, then a chain for ids drawn twice.
class Places {
  public:
    Places(const std::int64_t* pool, long count) : pool_(pool), next_(count, -1) {
        std::size_t size = 16;
        while (size < 4 * static_cast<std::size_t>(count)) size *= 2;
        first_.assign(size, -1);
        mask_ = size - 1;
        for (long n = count; n-- > 0;) {
            std::size_t slot = find(pool[n]);
            next_[n] = first_[slot];
            first_[slot] = static_cast<std::int32_t>(n);
        }
    }
    long first(std::int64_t id) const { return first_[find(id)]; }
    long next(long place) const { return next_[place]; }

  private:
    std::size_t find(std::int64_t id) const {
        std::size_t slot = (static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15ull >> 20) & mask_;
        while (first_[slot] >= 0 && pool_[first_[slot]] != id) slot = (slot + 1) & mask_;
        return slot;
    }
    const std::int64_t* pool_;
    std::vector<std::int32_t> first_, next_;
    std::size_t mask_;
};

}  // namespace

void gather_rows(int threads, const char* table, const std::int64_t* ids, long count, long bytes, char* out) {
    parallel_chunks(threads, count, 16, [&](long i) { std::memcpy(out + i * bytes, table + ids[i] * bytes, bytes); });
}

void mask_known(int threads, unsigned char* valid, const std::int64_t* negatives, long B, long N, const std::int64_t* starts,
                const std::int64_t* ends, const std::int32_t* answers) {
    Places places(negatives, N);
    parallel_chunks(threads, B, 32, [&](long b) {
        for (std::int64_t i = starts[b]; i < ends[b]; ++i)
            for (long n = places.first(answers[i]); n >= 0; n = places.next(n)) valid[b * N + n] = 0;
    });
}

}  // namespace transher
