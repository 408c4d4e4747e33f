// The kernels' own threads and scratch memory. Nothing here is a template or inline, so that code compiled for a newer
// processor can never become the copy that an older one runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace transher {

using Task = void (*)(void* context, long task, int worker);

// Runs tasks 0 … count−1 on at most `threads` threads, the caller among them; tasks are handed out one by one, so a core
// that is taken away for a while costs little. Which worker gets which task is not defined: tasks must not care.
// When another thread is inside already, the caller works alone.
void run_tasks(int threads, long count, Task task, void* context);

// Memory of the calling thread, kept between calls and aligned to 64 bytes; each `slot` is one growing buffer.
enum Slot { slot_candidates, slot_queries, slot_rows, slot_columns, slot_entities, slot_relations, slot_shared, slot_bytes,
            slot_extra, slot_panels, slot_offsets, slot_listed, slot_count };
void* scratch(Slot slot, std::size_t bytes);

// A buffer that outlives a call: what a training step's forward pass leaves for its backward pass.
struct Buffer {
    void* data = nullptr;
    std::size_t bytes = 0;
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer();
    void reserve(std::size_t wanted);
};

}  // namespace transher
