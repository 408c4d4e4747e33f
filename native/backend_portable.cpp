#include "vector_portable.h"

#include "table.h"

const transher::Backend* transher::portable_backend() {
    static constexpr Backend backend = backend_table("portable");
    return &backend;
}
