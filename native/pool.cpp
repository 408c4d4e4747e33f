#include "pool.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#if defined(__linux__)
#include <pthread.h>
#include <sys/mman.h>
#elif defined(__APPLE__)
#include <pthread.h>
#endif

namespace transher {
namespace {

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

struct Pool {
    std::mutex entrance;  // one parallel region at a time
    std::mutex mutex;
    std::condition_variable wake;
    std::atomic<unsigned long> generation{0};
    int helpers = 0;  // threads started so far

    // The region that is running.
    std::atomic<long> next{0};
    std::atomic<int> seats{0};    // helpers that may still join
    std::atomic<int> inside{0};   // helpers that have joined and not left
    long count = 0;
    Task task = nullptr;
    void* context = nullptr;

    void work(int worker) {
        for (long t; (t = next.fetch_add(1, std::memory_order_relaxed)) < count;) task(context, t, worker);
    }

    void help() {
        unsigned long seen = 0;
        for (;;) {
            // A training step enters many regions in a row: spinning for some microseconds saves most sleeps, and is
            // short enough not to take the core from torch's threads.
            for (int i = 0; i < 2000 && generation.load(std::memory_order_acquire) == seen; ++i) pause_briefly();
            if (generation.load(std::memory_order_acquire) == seen) {
                std::unique_lock<std::mutex> lock(mutex);
                wake.wait(lock, [&] { return generation.load(std::memory_order_acquire) != seen; });
            }
            seen = generation.load(std::memory_order_acquire);
            inside.fetch_add(1, std::memory_order_acq_rel);
            int seat = seats.fetch_sub(1, std::memory_order_acq_rel);
            if (seat > 0) work(seat);
            inside.fetch_sub(1, std::memory_order_acq_rel);
        }
    }

    void run(int threads, long tasks, Task what, void* with) {
        while (helpers < threads - 1) {
            std::thread([this] { help(); }).detach();
            ++helpers;
        }
        task = what, context = with, count = tasks;
        next.store(0, std::memory_order_relaxed);
        seats.store(threads - 1, std::memory_order_release);
        {
            std::lock_guard<std::mutex> lock(mutex);
            generation.fetch_add(1, std::memory_order_acq_rel);
        }
        wake.notify_all();
        work(0);
        seats.exchange(0, std::memory_order_acq_rel);  // a helper that wakes only now finds nothing to do
        while (inside.load(std::memory_order_acquire) != 0) pause_briefly();
    }
};

// Never destroyed: helpers sleep in it until the process ends, and a fork leaves it behind in the child, where its threads
// do not exist and its locks may be held.
std::atomic<Pool*> pool{nullptr};

Pool& current_pool() {
    Pool* existing = pool.load(std::memory_order_acquire);
    if (existing) return *existing;
    static std::atomic<bool> registered{false};
#if defined(__linux__) || defined(__APPLE__)
    if (!registered.exchange(true)) pthread_atfork(nullptr, nullptr, [] { pool.store(nullptr); });
#endif
    Pool* fresh = new Pool;
    if (!pool.compare_exchange_strong(existing, fresh)) {
        delete fresh;
        return *existing;
    }
    return *fresh;
}

void* take(std::size_t bytes) {
    constexpr std::size_t huge = std::size_t(2) << 20;
    std::size_t alignment = bytes >= huge ? huge : 64;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
#if defined(__linux__)
    if (alignment == huge) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

}  // namespace

void run_tasks(int threads, long count, Task task, void* context) {
    if (threads > 1 && count > 1) {
        Pool& shared = current_pool();
        std::unique_lock<std::mutex> lock(shared.entrance, std::try_to_lock);
        if (lock.owns_lock()) {
            shared.run(threads < count ? threads : static_cast<int>(count), count, task, context);
            return;
        }
    }
    for (long t = 0; t < count; ++t) task(context, t, 0);
}

Buffer::~Buffer() { std::free(data); }

void Buffer::reserve(std::size_t wanted) {
    if (wanted <= bytes) return;
    std::free(data);
    data = nullptr, bytes = 0;
    data = take(wanted);
    bytes = wanted;
}

void* scratch(Slot slot, std::size_t bytes) {
    static thread_local Buffer buffers[slot_count];
    buffers[slot].reserve(bytes);
    return buffers[slot].data;
}

}  // namespace transher
