#include "backend.h"

#if defined(__x86_64__)

#include "vector_avx512.h"

#include "table.h"

const transher::Backend* transher::avx512_backend() {
    static constexpr Backend backend = backend_table("avx512");
    return &backend;
}

#else

const transher::Backend* transher::avx512_backend() { return nullptr; }

#endif
