// The Python module. Tensors come as addresses: torch hands out `data_ptr()` in a fraction of the time that any exchange
// protocol takes. Shapes, types and contiguity are checked on the Python side, in transher/kernels/native.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend.h"
#include "rows.h"

namespace nb = nanobind;
using transher::Backend;
using transher::Batch;

namespace {

using Address = std::uintptr_t;

template <class T = float>
T* at(Address address) {
    return reinterpret_cast<T*>(address);
}

std::vector<const Backend*> usable() {
    std::vector<const Backend*> found{transher::portable_backend()};
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (transher::avx2_backend() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found.push_back(transher::avx2_backend());
    if (transher::avx512_backend() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        found.push_back(transher::avx512_backend());
#endif
    return found;
}

const Backend* chosen = nullptr;

const Backend& backend() { return *chosen; }

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const Backend* each : usable()) all.emplace_back(each->name);
    return all;
}

void choose(const std::string& name) {
    for (const Backend* each : usable())
        if (name == each->name) {
            chosen = each;
            return;
        }
    throw std::invalid_argument("no such back end on this processor: " + name);
}

void check(const std::int64_t* ids, std::int64_t count, std::int64_t bound) {
    for (std::int64_t i = 0; i < count; ++i)
        if (ids[i] < 0 || ids[i] >= bound)
            throw std::out_of_range("index " + std::to_string(ids[i]) + " into a table of " + std::to_string(bound) + " rows");
}

struct PyBatch : Batch {
    PyBatch(const std::vector<Address>& tables, const std::vector<std::int64_t>& sizes,
            const std::vector<std::int64_t>& columns, float sign, float margin, bool normalise) {
        entity_rows = at(tables.at(0)), relation_rows = at(tables.at(1));
        anchors = at<std::int64_t>(tables.at(2)), relations = at<std::int64_t>(tables.at(3));
        answers = at<std::int64_t>(tables.at(4)), negatives = at<std::int64_t>(tables.at(5));
        keep = at(tables.at(6));
        entity_count = sizes.at(0), relation_count = sizes.at(1), batch = sizes.at(2), pools = sizes.at(3);
        pool = sizes.at(4), k = sizes.at(5), relation_width = sizes.at(6);
        multiplier = columns.at(0), scale = columns.at(1), translation = columns.at(2);
        translation_sign = sign, gamma = margin, normalised = normalise;
        check(anchors, batch, entity_count), check(relations, batch, relation_count);
        check(answers, batch, entity_count), check(negatives, pools * pool, entity_count);
    }
};

}  // namespace

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);  // the workspaces on the shelf live until the end, and that is no leak
    chosen = usable().back();
    module.def("backends", &names);
    module.def("choose", &choose, nb::arg("name"));
    module.def("chosen", [] { return std::string(backend().name); });

    nb::class_<transher::Buffer>(module, "Workspace").def(nb::init<>());
    nb::class_<PyBatch>(module, "Batch")
        .def(nb::init<const std::vector<Address>&, const std::vector<std::int64_t>&, const std::vector<std::int64_t>&, float,
                      float, bool>());

    using release = nb::call_guard<nb::gil_scoped_release>;
    module.def(
        "scaled_l1_cross",
        [](int threads, Address q, Address s, Address e, long B, long N, long k, Address out) {
            backend().scaled_l1_cross(threads, at(q), at(s), at(e), B, N, k, at(out));
        },
        release());
    module.def(
        "scaled_l1_pairs",
        [](int threads, Address q, Address s, Address e, long B, long k, Address out) {
            backend().scaled_l1_pairs(threads, at(q), at(s), at(e), B, k, at(out));
        },
        release());
    module.def(
        "scaled_l1_backward",
        [](int threads, Address q, Address s, Address e, Address g, long B, long N, long k, Address dq, Address ds,
           Address de) {
            backend().scaled_l1_backward(threads, at(q), at(s), at(e), at(g), B, N, k, at(dq), at(ds), at(de));
        },
        release());
    module.def(
        "scaled_l1_pairs_backward",
        [](int threads, Address q, Address s, Address e, Address g, long B, long k, Address dq, Address ds, Address de) {
            backend().scaled_l1_pairs_backward(threads, at(q), at(s), at(e), at(g), B, k, at(dq), at(ds), at(de));
        },
        release());
    module.def(
        "scaled_l1_listed",
        [](int threads, Address q, Address s, Address e, Address ids, long B, long N, long rows, long k, Address out) {
            check(at<std::int64_t>(ids), B * N, rows);
            backend().scaled_l1_listed(threads, at(q), at(s), at(e), at<std::int64_t>(ids), B, N, k, at(out));
        },
        release());
    module.def(
        "scaled_l1_listed_backward",
        [](int threads, Address q, Address s, Address e, Address ids, Address g, long B, long N, long rows, long k,
           Address dq, Address ds, Address de) {
            backend().scaled_l1_listed_backward(threads, at(q), at(s), at(e), at<std::int64_t>(ids), at(g), B, N, rows, k,
                                                at(dq), at(ds), at(de));
        },
        release());
    module.def(
        "batch_forward",
        [](int threads, const PyBatch& batch, transher::Buffer& kept, Address positive, Address negative) {
            backend().batch_forward(threads, batch, kept, at(positive), at(negative));
        },
        release());
    module.def(
        "batch_backward",
        [](int threads, const PyBatch& batch, transher::Buffer& kept, Address d_positive, Address d_negative,
           Address d_entity_rows, Address d_relation_rows) {
            backend().batch_backward(threads, batch, kept, at(d_positive), at(d_negative), at(d_entity_rows),
                                     at(d_relation_rows));
        },
        release());
    module.def(
        "self_adversarial",
        [](int threads, Address positive, Address negative, Address valid, Address weights, float alpha, long B, long N,
           Address d_positive, Address d_negative) {
            return backend().self_adversarial(threads, at(positive), at(negative), at<unsigned char>(valid), at(weights),
                                              alpha, B, N, at(d_positive), at(d_negative));
        },
        release());
    module.def(
        "thin",
        [](int threads, Address g, long B, long N, float share, std::uint32_t key) {
            backend().thin(threads, at(g), B, N, share, key);
        },
        release());
    module.def(
        "adam_rows",
        [](int threads, Address weight, Address m, Address v, Address ids, Address gradient, long rows, long count, long k,
           double rate, double beta1, double beta2, double epsilon, double root_correction) {
            check(at<std::int64_t>(ids), count, rows);
            auto single = [](double x) { return static_cast<float>(x); };
            backend().adam_rows(threads, at(weight), at(m), at(v), at<std::int64_t>(ids), at(gradient), count, k,
                                single(rate), single(beta1), single(beta2), single(1.0 - beta1), single(1.0 - beta2),
                                single(epsilon), single(root_correction));
        },
        release());
    module.def(
        "gather_rows",
        [](int threads, Address table, Address ids, long rows, long count, long bytes, Address out) {
            check(at<std::int64_t>(ids), count, rows);
            transher::gather_rows(threads, at<char>(table), at<std::int64_t>(ids), count, bytes, at<char>(out));
        },
        release());
    module.def(
        "mask_known",
        [](int threads, Address valid, Address negatives, long B, long N, Address starts, Address ends, Address answers,
           long known) {
            check(at<std::int64_t>(starts), B, known + 1), check(at<std::int64_t>(ends), B, known + 1);
            transher::mask_known(threads, at<unsigned char>(valid), at<std::int64_t>(negatives), B, N,
                                 at<std::int64_t>(starts), at<std::int64_t>(ends), at<std::int32_t>(answers));
        },
        release());
    module.def(
        "scaled_l1_count",
        [](int threads, Address q, Address s, Address limits, long B, long k, Address candidates, long count,
           std::int64_t first_id, Address starts, Address ends, Address known, long known_count, Address better,
           Address tied) {
            check(at<std::int64_t>(starts), B, known_count + 1), check(at<std::int64_t>(ends), B, known_count + 1);
            backend().scaled_l1_count(threads, at(q), at(s), at(limits), B, k, at(candidates), count, first_id,
                                      at<std::int64_t>(starts), at<std::int64_t>(ends), at<std::int32_t>(known),
                                      at<std::int64_t>(better), at<std::int64_t>(tied));
        },
        release());
    module.def(
        "scaled_l1_top",
        [](int threads, Address q, Address s, long B, long k, Address candidates, long count, std::int64_t first_id,
           Address starts, Address ends, Address excluded, long excluded_count, long size, Address distances, Address ids) {
            check(at<std::int64_t>(starts), B, excluded_count + 1), check(at<std::int64_t>(ends), B, excluded_count + 1);
            backend().scaled_l1_top(threads, at(q), at(s), B, k, at(candidates), count, first_id, at<std::int64_t>(starts),
                                    at<std::int64_t>(ends), at<std::int32_t>(excluded), size, at(distances),
                                    at<std::int64_t>(ids));
        },
        release());
    module.def(
        "normalise_rows",
        [](int threads, Address rows, long count, long k, Address out) {
            backend().normalise_rows(threads, at(rows), nullptr, count, k, at(out));
        },
        release());
    module.def(
        "unit_rows",
        [](int threads, Address table, Address ids, long rows, long count, long k) {
            check(at<std::int64_t>(ids), count, rows);
            backend().normalise_rows(threads, at(table), at<std::int64_t>(ids), count, k, at(table));
        },
        release());
    module.def("lanes", [] { return backend().lanes; });
    module.def("peak", [](int threads, int kind, long rounds) { return backend().peak(threads, kind, rounds); }, release());
    module.def(
        "read_all", [](int threads, Address data, long count) { return backend().read_all(threads, at(data), count); },
        release());
    module.def(
        "complex_modulus_cross",
        [](int threads, Address q, Address e, long U, Address ids, long B, long P, long N, long k, Address out) {
            if (ids) check(at<std::int64_t>(ids), P * N, U);
            backend().complex_modulus_cross(threads, at(q), at(e), at<std::int64_t>(ids), B, P, N, k, at(out));
        },
        release());
    module.def(
        "complex_modulus_pairs",
        [](int threads, Address q, Address e, long B, long k, Address out) {
            backend().complex_modulus_pairs(threads, at(q), at(e), B, k, at(out));
        },
        release());
    module.def(
        "complex_modulus_backward",
        [](int threads, Address q, Address e, Address ids, Address g, long B, long P, long N, long k, Address dq, Address de) {
            backend().complex_modulus_backward(threads, at(q), at(e), at<std::int64_t>(ids), at(g), B, P, N, k, at(dq), at(de));
        },
        release());
    module.def(
        "complex_modulus_pairs_backward",
        [](int threads, Address q, Address e, Address g, long B, long k, Address dq, Address de) {
            backend().complex_modulus_pairs_backward(threads, at(q), at(e), at(g), B, k, at(dq), at(de));
        },
        release());
}
