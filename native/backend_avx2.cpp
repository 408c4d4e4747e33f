#include "backend.h"

#if defined(__x86_64__)

#include "vector_avx2.h"

#include "table.h"

const transher::Backend* transher::avx2_backend() {
    static constexpr Backend backend = backend_table("avx2");
    return &backend;
}

#else

const transher::Backend* transher::avx2_backend() { return nullptr; }

#endif
