// The Python module. Functions take torch tensors, results to be filled among them; arguments.h checks every one. The
// types that Python code is checked against stand in transher/kernels/interface.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.h"
#include "backend.h"
#include "rows.h"
#include "rules.h"

namespace nb = nanobind;
using transher::Backend;
using transher::Buffer;
using transher::Call;

namespace {

using transher::Given;
using transher::Maybe;
using Ids = const std::int64_t*;
using release = nb::gil_scoped_release;

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

// A workspace is returned for the next batch: fresh memory costs page faults. Only ever touched with the interpreter's lock.
std::vector<std::unique_ptr<Buffer>>& shelf() {
    static auto* buffers = new std::vector<std::unique_ptr<Buffer>>;  // never freed: batches may outlive the module
    return *buffers;
}

// A batch between its forward and its backward pass. It holds on to its tensors, whose indices have been checked.
class PyBatch {
  public:
    PyBatch(nb::object entity_rows, nb::object relation_rows, nb::object anchors, nb::object relations, nb::object answers,
            nb::object negatives, std::optional<nb::object> keep, std::optional<long> multiplier, std::optional<long> scale,
            std::optional<long> translation, float sign, float gamma, bool normalised)
        : call_("Batch"), tensors_{entity_rows, relation_rows, anchors, relations, answers, negatives, keep.value_or(nb::none())} {
        batch_.entity_rows = call_.tensor("entity_rows", entity_rows, "Uk");
        batch_.relation_rows = call_.tensor("relation_rows", relation_rows, "Vw");
        batch_.anchors = call_.rows("anchors", Given(anchors), "B", call_['U']);
        batch_.relations = call_.rows("relations", Given(relations), "B", call_['V']);
        batch_.answers = call_.rows("answers", Given(answers), "B", call_['U']);
        batch_.negatives = call_.rows("negatives", Given(negatives), "PN", call_['U']);
        call_.within("the number of pools", call_['P'], 1);
        batch_.keep = call_.optional("keep", keep ? Maybe(*keep) : std::nullopt, "Bk");
        batch_.entity_count = call_['U'], batch_.relation_count = call_['V'], batch_.batch = call_['B'];
        batch_.pools = call_['P'], batch_.pool = call_['N'], batch_.k = call_['k'], batch_.relation_width = call_['w'];
        batch_.multiplier = column("multiplier", multiplier), batch_.scale = column("scale", scale);
        batch_.translation = column("translation", translation);
        batch_.translation_sign = sign, batch_.gamma = gamma, batch_.normalised = normalised;
        if (shelf().empty()) shelf().push_back(std::make_unique<Buffer>());
        workspace_ = std::move(shelf().back());
        shelf().pop_back();
    }
    PyBatch(const PyBatch&) = delete;
    PyBatch& operator=(const PyBatch&) = delete;
    ~PyBatch() { shelf().push_back(std::move(workspace_)); }

    void forward(long threads, Given positive, Given negative) {
        const int count = call_.threads(threads);
        float *positives = call_.tensor("positive", positive, "B"), *negatives = call_.tensor("negative", negative, "BN");
        release free;
        backend().batch_forward(count, batch_, *workspace_, positives, negatives);
        computed_ = true;
    }

    void backward(long threads, Given d_positive, Given d_negative, Given d_entity_rows, Given d_relation_rows) {
        if (!computed_) call_.value_error("the backward pass needs what the forward pass leaves");
        const int count = call_.threads(threads);
        const float *positives = call_.tensor("d_positive", d_positive, "B"),
                    *negatives = call_.tensor("d_negative", d_negative, "BN");
        float *entities = call_.tensor("d_entity_rows", d_entity_rows, "Uk"),
              *relations = call_.tensor("d_relation_rows", d_relation_rows, "Vw");
        const long parts = (batch_.multiplier >= 0) + (batch_.scale >= 0) + (batch_.translation >= 0);
        release free;
        if (parts * batch_.k < batch_.relation_width)  // columns that no part fills
            std::memset(relations, 0, batch_.relation_count * batch_.relation_width * sizeof(float));
        backend().batch_backward(count, batch_, *workspace_, positives, negatives, entities, relations);
    }

  private:
    Call call_;
    nb::object tensors_[7];
    transher::Batch batch_;
    std::unique_ptr<Buffer> workspace_;
    bool computed_ = false;

    long column(const char* name, std::optional<long> first) const {
        if (!first) return -1;
        if (*first < 0 || *first > call_['w'] - call_['k'])
            call_.value_error("relation rows of width " + std::to_string(call_['w']) + " are too short for a " + name + " of " +
                              std::to_string(call_['k']) + " columns from column " + std::to_string(*first));
        return *first;
    }
};

// Known answers of B queries: those of query b are ids[starts[b] … ends[b] − 1].
struct Known {
    const std::int32_t* ids;
    Ids starts, ends;

    Known(Call& call, Given starts_, Given ends_, Given ids_)
        : ids(call.tensor<std::int32_t>("known ids", ids_, "K")), starts(call.rows("starts", starts_, "B", call['K'] + 1)),
          ends(call.rows("ends", ends_, "B", call['K'] + 1)) {}
};

// Candidates first … first + N − 1 of all entities; the last id must be a number.
std::int64_t first_of(const Call& call, std::int64_t first) {
    return call.within("the first candidate's id", first, 0, INT64_MAX - call['N']);
}

// Of a distance kernel: the parts of the queries, then the candidates. Without ids, candidates are rows 0 … U − 1 of e for
// all queries; with them, the shape of ids says which queries they are for.
struct ScaledL1 {
    const float *q, *s, *e;
    Ids ids;      // null also where there are ids, but none of them
    bool listed;  // whether ids are given

    ScaledL1(Call& call, Given query, Given e_, Maybe ids_)
        : q(call.tensor("q", call.member("query", query, 2, 0), "Bk")),
          s(call.tensor("s", call.member("query", query, 2, 1), "Bk")), e(call.tensor("e", e_, "Uk")),
          ids(call.rows("ids", ids_, "BN", call['U'])), listed(ids_.has_value()) {
        if (!listed) call.set('N', call['U']);
    }
};

struct ComplexModulus {
    const float *q, *e;
    Ids ids;

    ComplexModulus(Call& call, Given query, Given e_, Maybe ids_)
        : q(call.tensor("q", call.member("query", query, 1, 0), "Bw")), e(call.tensor("e", e_, "Uw")),
          ids(call.rows("ids", ids_, "PN", call['U'])) {
        if (call['w'] % 2) call.value_error("rows of width " + std::to_string(call['w']) + " have no two halves");
        call.set('k', call['w'] / 2);
        if (!ids_) call.set('P', 1), call.set('N', call['U']);
        call.within("the number of pools", call['P'], 1);
    }
};

// Pairs: as many candidates as queries, candidate b for query b.
void check_pairs(const Call& call, Maybe ids) {
    if (ids || call['U'] != call['B'])
        call.value_error("e has " + std::to_string(call['U']) + " rows for " + std::to_string(call['B']) + " queries, or ids");
}

void define_distances(nb::module_& module) {
    module.def("scaled_l1_cross", [](long threads, Given query, Given e, Maybe ids, Given out) {
        Call call("scaled_l1_cross");
        const ScaledL1 of(call, query, e, ids);
        float* distances = call.tensor("out", out, "BN");
        const int count = call.threads(threads);
        release free;
        if (of.listed) backend().scaled_l1_listed(count, of.q, of.s, of.e, of.ids, call['B'], call['N'], call['k'], distances);
        else backend().scaled_l1_cross(count, of.q, of.s, of.e, call['B'], call['N'], call['k'], distances);
    });
    module.def("scaled_l1_backward", [](long threads, Given query, Given e, Maybe ids, Given g, Given d_query, Given de) {
        Call call("scaled_l1_backward");
        const ScaledL1 of(call, query, e, ids);
        const float* upstream = call.tensor("g", g, "BN");
        float *dq = call.tensor("dq", call.member("d_query", d_query, 2, 0), "Bk"),
              *ds = call.tensor("ds", call.member("d_query", d_query, 2, 1), "Bk"), *d_e = call.tensor("de", de, "Uk");
        const int count = call.threads(threads);
        release free;
        if (of.listed)
            backend().scaled_l1_listed_backward(count, of.q, of.s, of.e, of.ids, upstream, call['B'], call['N'], call['U'],
                                                call['k'], dq, ds, d_e);
        else
            backend().scaled_l1_backward(count, of.q, of.s, of.e, upstream, call['B'], call['N'], call['k'], dq, ds, d_e);
    });
    module.def("scaled_l1_pairs", [](long threads, Given query, Given e, Maybe ids, Given out) {
        Call call("scaled_l1_pairs");
        const ScaledL1 of(call, query, e, ids);
        check_pairs(call, ids);
        float* distances = call.tensor("out", out, "B");
        const int count = call.threads(threads);
        release free;
        backend().scaled_l1_pairs(count, of.q, of.s, of.e, call['B'], call['k'], distances);
    });
    module.def("scaled_l1_pairs_backward", [](long threads, Given query, Given e, Maybe ids, Given g, Given d_query, Given de) {
        Call call("scaled_l1_pairs_backward");
        const ScaledL1 of(call, query, e, ids);
        check_pairs(call, ids);
        const float* upstream = call.tensor("g", g, "B");
        float *dq = call.tensor("dq", call.member("d_query", d_query, 2, 0), "Bk"),
              *ds = call.tensor("ds", call.member("d_query", d_query, 2, 1), "Bk"), *d_e = call.tensor("de", de, "Bk");
        const int count = call.threads(threads);
        release free;
        backend().scaled_l1_pairs_backward(count, of.q, of.s, of.e, upstream, call['B'], call['k'], dq, ds, d_e);
    });
    module.def("complex_modulus_cross", [](long threads, Given query, Given e, Maybe ids, Given out) {
        Call call("complex_modulus_cross");
        const ComplexModulus of(call, query, e, ids);
        float* distances = call.tensor("out", out, "BN");
        const int count = call.threads(threads);
        release free;
        backend().complex_modulus_cross(count, of.q, of.e, of.ids, call['B'], call['P'], call['N'], call['k'], distances);
    });
    module.def("complex_modulus_backward", [](long threads, Given query, Given e, Maybe ids, Given g, Given d_query, Given de) {
        Call call("complex_modulus_backward");
        const ComplexModulus of(call, query, e, ids);
        const float* upstream = call.tensor("g", g, "BN");
        float *dq = call.tensor("dq", call.member("d_query", d_query, 1, 0), "Bw"), *d_e = call.tensor("de", de, "Uw");
        const int count = call.threads(threads);
        release free;
        if (call['U'] > 0 && call['w'] > 0)
            std::memset(d_e, 0, call['U'] * call['w'] * sizeof(float));  // the kernel adds to it
        backend().complex_modulus_backward(count, of.q, of.e, of.ids, upstream, call['B'], call['P'], call['N'], call['k'], dq,
                                           d_e);
    });
    module.def("complex_modulus_pairs", [](long threads, Given query, Given e, Maybe ids, Given out) {
        Call call("complex_modulus_pairs");
        const ComplexModulus of(call, query, e, ids);
        check_pairs(call, ids);
        float* distances = call.tensor("out", out, "B");
        const int count = call.threads(threads);
        release free;
        backend().complex_modulus_pairs(count, of.q, of.e, call['B'], call['k'], distances);
    });
    module.def("complex_modulus_pairs_backward",
               [](long threads, Given query, Given e, Maybe ids, Given g, Given d_query, Given de) {
                   Call call("complex_modulus_pairs_backward");
                              const ComplexModulus of(call, query, e, ids);
                              check_pairs(call, ids);
                   const float* upstream = call.tensor("g", g, "B");
                   float *dq = call.tensor("dq", call.member("d_query", d_query, 1, 0), "Bw"),
                         *d_e = call.tensor("de", de, "Bw");
                   const int count = call.threads(threads);
                   release free;
                   backend().complex_modulus_pairs_backward(count, of.q, of.e, upstream, call['B'], call['k'], dq, d_e);
               });
}

void define_training(nb::module_& module) {
    nb::class_<PyBatch>(module, "Batch")
        .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object, nb::object, std::optional<nb::object>,
                      std::optional<long>, std::optional<long>, std::optional<long>, float, float, bool>())
        .def("forward", &PyBatch::forward)
        .def("backward", &PyBatch::backward);
    module.def("self_adversarial", [](long threads, Given positive, Given negative, Maybe valid, Given weights, float alpha,
                                      Given d_positive, Given d_negative) {
        Call call("self_adversarial");
        const float *positives = call.tensor("positive", positive, "B"), *negatives = call.tensor("negative", negative, "BN");
        const unsigned char* counted = call.optional<unsigned char>("valid", valid, "BN");
        const float* weight = call.tensor("weights", weights, "B");
        float *dp = call.tensor("d_positive", d_positive, "B"), *dn = call.tensor("d_negative", d_negative, "BN");
        const int count = call.threads(threads);
        release free;
        return backend().self_adversarial(count, positives, negatives, counted, weight, alpha, call['B'], call['N'], dp, dn);
    });
    module.def("thin", [](long threads, Given g, float share, std::uint32_t key) {
        Call call("thin");
        float* gradient = call.tensor("g", g, "BN");
        const int count = call.threads(threads);
        release free;
        backend().thin(count, gradient, call['B'], call['N'], share, key);
    });
    module.def("adam_rows", [](long threads, Given weight, Given m, Given v, Given ids, Given gradient, double rate,
                               double beta1, double beta2, double epsilon, double root_correction) {
        Call call("adam_rows");
        float *weights = call.tensor("weight", weight, "nk"), *first = call.tensor("m", m, "nk"),
              *second = call.tensor("v", v, "nk");
        Ids rows = call.rows("ids", ids, "U", call['n']);
        const float* g = call.tensor("gradient", gradient, "Uk");
        const int count = call.threads(threads);
        release free;
        auto single = [](double x) { return static_cast<float>(x); };
        backend().adam_rows(count, weights, first, second, rows, g, call['U'], call['k'], single(rate), single(beta1),
                            single(beta2), single(1.0 - beta1), single(1.0 - beta2), single(epsilon), single(root_correction));
    });
    module.def("gather_rows", [](long threads, Given table, Given ids, Given out) {
        Call call("gather_rows");
        const float* from = call.tensor("table", table, "nk");
        Ids rows = call.rows("ids", ids, "U", call['n']);
        float* to = call.tensor("out", out, "Uk");
        const int count = call.threads(threads);
        release free;
        transher::gather_rows(count, from, rows, call['U'], call['k'], to);
    });
    module.def("add_rows", [](long threads, Given first, Given first_places, Given second, Given second_places, Given total) {
        Call call("add_rows");
        float* sum = call.tensor("total", total, "Uk");
        const float *a = call.tensor("first", first, "nk"), *b = call.tensor("second", second, "mk");
        Ids a_places = call.rows("first_places", first_places, "n", call['U']),
            b_places = call.rows("second_places", second_places, "m", call['U']);
        const int count = call.threads(threads);
        release free;
        transher::add_rows(count, a, a_places, call['n'], b, b_places, call['m'], call['U'], call['k'], sum);
    });
    module.def("unit_rows", [](long threads, Given table, Given ids) {
        Call call("unit_rows");
        float* rows = call.tensor("table", table, "nk");
        Ids chosen_rows = call.rows("ids", ids, "U", call['n']);
        const int count = call.threads(threads);
        release free;
        backend().normalise_rows(count, rows, chosen_rows, call['U'], call['k'], rows);
    });
    module.def("distinct", [](Given ids, std::int64_t bound, Given found, Given places) {
        Call call("distinct");
        Ids all = call.rows("ids", ids, "n", call.within("bound", bound, 0));
        auto *into = call.tensor<std::int64_t>("found", found, "n"), *place = call.tensor<std::int64_t>("places", places, "n");
        release free;
        return transher::distinct(all, call['n'], bound, into, place);
    });
    module.def("mask_known", [](Given valid, Given negatives, Given starts, Given ends, Given ids) {
        Call call("mask_known");
        unsigned char* counted = call.tensor<unsigned char>("valid", valid, "BN");
        Ids pool = call.tensor<std::int64_t>("negatives", negatives, "N");
        const Known known(call, starts, ends, ids);
        release free;
        transher::mask_known(counted, pool, call['B'], call['N'], known.starts, known.ends, known.ids);
    });
}

void define_ranking(nb::module_& module) {
    module.def("scaled_l1_count", [](long threads, Given q, Given s, Given limits, Given candidates, std::int64_t first_id,
                                     Given starts, Given ends, Given known_ids, Given better, Given tied) {
        Call call("scaled_l1_count");
        const float *q_ = call.tensor("q", q, "Bk"), *s_ = call.tensor("s", s, "Bk"), *limit = call.tensor("limits", limits, "B");
        const float* e = call.tensor("candidates", candidates, "Nk");
        const Known known(call, starts, ends, known_ids);
        auto *nearer = call.tensor<std::int64_t>("better", better, "B"), *equal = call.tensor<std::int64_t>("tied", tied, "B");
        const std::int64_t first = first_of(call, first_id);
        const int count = call.threads(threads);
        release free;
        backend().scaled_l1_count(count, q_, s_, limit, call['B'], call['k'], e, call['N'], first, known.starts, known.ends,
                                  known.ids, nearer, equal);
    });
    module.def("scaled_l1_top", [](long threads, Given q, Given s, Given candidates, std::int64_t first_id, Given starts,
                                   Given ends, Given excluded_ids, Given distances, Given ids) {
        Call call("scaled_l1_top");
        const float *q_ = call.tensor("q", q, "Bk"), *s_ = call.tensor("s", s, "Bk");
        const float* e = call.tensor("candidates", candidates, "Nk");
        const Known excluded(call, starts, ends, excluded_ids);
        float* nearest = call.tensor("distances", distances, "Bt");
        auto* found = call.tensor<std::int64_t>("ids", ids, "Bt");
        const std::int64_t first = first_of(call, first_id);
        const int count = call.threads(threads);
        release free;
        backend().scaled_l1_top(count, q_, s_, call['B'], call['k'], e, call['N'], first, excluded.starts, excluded.ends,
                                excluded.ids, call['t'], nearest, found);
    });
    module.def("normalise_rows", [](long threads, Given rows, Given out) {
        Call call("normalise_rows");
        const float* from = call.tensor("rows", rows, "nk");
        float* to = call.tensor("out", out, "nk");
        const int count = call.threads(threads);
        release free;
        backend().normalise_rows(count, from, nullptr, call['n'], call['k'], to);
    });
}

// Rows of int32 that a search has found, to be copied into a tensor of their size.
class PyRows {
  public:
    template <class Row>
    explicit PyRows(const std::vector<Row>& rows) : width_(sizeof(Row) / sizeof(std::int32_t)), values_(rows.size() * width_) {
        if (!rows.empty()) std::memcpy(values_.data(), rows.data(), rows.size() * sizeof(Row));
    }
    long count() const { return static_cast<long>(values_.size()) / width_; }
    void copy_to(Given out) const {
        Call call("copy_to");
        std::int32_t* to = call.tensor<std::int32_t>("out", out, "nw");
        if (call['n'] != count() || call['w'] != width_)
            call.value_error("out must be (" + std::to_string(count()) + ", " + std::to_string(width_) + ")");
        if (!values_.empty()) std::memcpy(to, values_.data(), values_.size() * sizeof(std::int32_t));
    }

  private:
    long width_;
    std::vector<std::int32_t> values_;
};

namespace rules = transher::rules;

// Heads, relations and tails (n, 3), each within its bounds.
Ids checked_triples(Call& call, Given given, const char* shape, long entities, long relations) {
    Ids triples = call.tensor<std::int64_t>("triples", given, shape);
    if (call[shape[1]] != 3) call.value_error("triples must have 3 columns");
    for (long i = 0; i < 3 * call[shape[0]]; ++i) {
        const long bound = i % 3 == 1 ? relations : entities;
        if (triples[i] < 0 || triples[i] >= bound)
            throw nb::index_error(("triples have id " + std::to_string(triples[i]) + " of " + std::to_string(bound)).c_str());
    }
    return triples;
}

class PySteps {
  public:
    PySteps(Given triples, long entities, long relations) {
        Call call("Steps");
        call.within("entities", entities, 0, INT32_MAX - 1), call.within("relations", relations, 0, rules::MOST_RELATIONS);
        Ids rows = checked_triples(call, triples, "nc", entities, relations);
        release free;
        steps_ = std::make_unique<rules::Steps>(rows, call['n'], entities, relations);
    }
    const rules::Steps& get() const { return *steps_; }

    PyRows find_bodies(long threads, Given triples, long least_support, long fan_out, std::uint64_t seed) const {
        Call call("find_bodies");
        rules::Limits limits;
        limits.least_support = static_cast<int>(call.within("least_support", least_support, 1, INT32_MAX));
        limits.fan_out = static_cast<int>(call.within("fan_out", fan_out, 1, 1000000));
        Ids rows = checked_triples(call, triples, "nc", steps_->entities(), steps_->relations());
        const int count = call.threads(threads);
        release free;
        return PyRows(rules::find_bodies(*steps_, rows, call['n'], limits, count, seed));
    }
    PyRows count_bodies(long threads, Given bodies, long least_support, double least_confidence, double caution, long origins,
                        long pairs, std::uint64_t seed) const {
        Call call("count_bodies");
        rules::Limits limits;
        limits.least_support = static_cast<int>(call.within("least_support", least_support, 1, INT32_MAX));
        limits.least_confidence = least_confidence, limits.caution = caution;
        limits.origins = static_cast<int>(call.within("origins", origins, 1, INT32_MAX));
        limits.pairs = call.within("pairs", pairs, 1, 1 << 30);  // and those of one more origin: less than an int32 holds
        const auto* ends = call.tensor<std::int32_t>("bodies", bodies, "nl");
        if (call['l'] != rules::LONGEST) call.value_error("bodies must have 3 columns");
        for (long i = 0; i < call['n']; ++i) check_body(call, ends + rules::LONGEST * i);
        const int count = call.threads(threads);
        release free;
        return PyRows(rules::count_bodies(*steps_, ends, call['n'], limits, count, seed));
    }
    PyRows find_constants(long threads, long first, long last, long least_support, double least_confidence, double caution,
                          long most) const {
        Call call("find_constants");
        rules::Limits limits;
        limits.least_support = static_cast<int>(call.within("least_support", least_support, 1, INT32_MAX));
        limits.least_confidence = least_confidence, limits.caution = caution;
        limits.most = call.within("most", most, 0, 1L << 28);
        call.within("last", last, 0, 2 * steps_->relations()), call.within("first", first, 0, last);
        const int count = call.threads(threads);
        release free;
        return PyRows(rules::find_constants(*steps_, static_cast<rules::Id>(first), static_cast<rules::Id>(last), limits, count));
    }
    void check_body(const Call& call, const std::int32_t* body) const {
        call.within("an end of a body", body[0], 0, 2 * steps_->relations() - 1);
        for (int i = 1; i < rules::LONGEST; ++i) {
            call.within("an end of a body", body[i], rules::NONE, 2 * steps_->relations() - 1);
            if (body[i - 1] == rules::NONE && body[i] != rules::NONE) call.value_error("a body has a gap");
        }
    }

  private:
    std::unique_ptr<rules::Steps> steps_;
};

class PyRuleIndex {
  public:
    PyRuleIndex(nb::object steps, Given table, double caution, Given weights, Given powers, double decay)
        : owner_(steps), steps_(nb::cast<const PySteps&>(steps)) {
        Call call("RuleIndex");
        const auto* rows = call.tensor<std::int32_t>("rules", table, "nw");
        if (call['w'] != rules::RULE_WIDTH) call.value_error("rules must have " + std::to_string(rules::RULE_WIDTH) + " columns");
        call.within("the number of rules", call['n'], 0, INT32_MAX - 1);
        if (!(caution > 0)) call.value_error("caution must be above 0");
        const auto worth = checked_worth(call, weights, powers, decay);
        const auto* all = reinterpret_cast<const rules::Rule*>(rows);
        for (long i = 0; i < call['n']; ++i) check(call, all[i]);
        release free;
        index_ = std::make_unique<rules::Index>(steps_.get(), all, call['n'], caution, worth);
    }
    void score(long threads, Given anchors, Given relations, bool tails, Given scores) const {
        Call call("score");
        Ids of = call.rows("anchors", anchors, "B", entities()), by = call.rows("relations", relations, "B", relation_count());
        float* out = call.tensor("scores", scores, "BN");
        if (call['N'] != entities()) call.value_error("scores must have a column for each entity");
        const int count = call.threads(threads);
        release free;
        index_->score(of, by, tails, call['B'], count, out);
    }
    void explain(long threads, Given triples, Given scores, Given numbers, Given confidences) const {
        Call call("explain");
        Ids rows = checked_triples(call, triples, "nc", entities(), relation_count());
        float *score = call.tensor("scores", scores, "n"), *sure = call.tensor("confidences", confidences, "nm");
        auto* which = call.tensor<std::int64_t>("numbers", numbers, "nm");
        const int count = call.threads(threads);
        release free;
        index_->explain(rows, call['n'], call['m'], count, score, which, sure);
    }

  private:
    nb::object owner_;
    const PySteps& steps_;
    std::unique_ptr<rules::Index> index_;

    long entities() const { return steps_.get().entities(); }
    long relation_count() const { return steps_.get().relations(); }
    void check(const Call& call, const rules::Rule& rule) const {
        const bool closed = rule.answer == rules::NONE;
        call.within("a rule's end", rule.end, 0, (closed ? 1 : 2) * relation_count() - 1);
        call.within("a rule's answer", rule.answer, rules::NONE, entities() - 1);
        call.within("a rule's value", rule.value, rules::NONE, closed ? rules::NONE : entities() - 1);
        steps_.check_body(call, rule.body);
        if (!closed && rule.body[1] != rules::NONE) call.value_error("a rule with an answer has one step");
        call.within("a rule's pairs", rule.pairs, 1), call.within("a rule's support", rule.support, 0, rule.pairs);
    }
    static rules::Worth checked_worth(Call& call, Given weights, Given powers, double decay) {
        const float *by_kind = call.tensor("weights", weights, "k"), *bent = call.tensor("powers", powers, "k");
        if (call['k'] != rules::KINDS) call.value_error("weights must be " + std::to_string(rules::KINDS));
        rules::Worth worth{{}, {}, decay};
        for (int kind = 0; kind < rules::KINDS; ++kind) {
            worth.weights[kind] = by_kind[kind], worth.powers[kind] = bent[kind];
            if (!(by_kind[kind] > 0 && by_kind[kind] < 1e6)) call.value_error("weights must be above 0 and below a million");
            if (!(bent[kind] > 0 && bent[kind] < 100)) call.value_error("powers must be above 0 and below 100");
        }
        if (!(decay > 0 && decay <= 1)) call.value_error("decay must be above 0 and at most 1");
        return worth;
    }
};

void define_rules(nb::module_& module) {
    nb::class_<PyRows>(module, "_Rows").def("count", &PyRows::count).def("copy_to", &PyRows::copy_to);
    nb::class_<PySteps>(module, "Steps")
        .def(nb::init<Given, long, long>())
        .def("find_bodies", &PySteps::find_bodies)
        .def("count_bodies", &PySteps::count_bodies)
        .def("find_constants", &PySteps::find_constants);
    nb::class_<PyRuleIndex>(module, "RuleIndex")
        .def(nb::init<nb::object, Given, double, Given, Given, double>())
        .def("score", &PyRuleIndex::score)
        .def("explain", &PyRuleIndex::explain);
}

// What the processor can do at best, for the benchmarks.
void define_peak(nb::module_& module) {
    module.def("lanes", [] { return backend().lanes; });
    module.def("peak", [](long threads, int kind, long rounds) {
        const int count = Call("peak").threads(threads);
        release free;
        return backend().peak(count, kind, rounds);
    });
    module.def("read_all", [](long threads, Given data) {
        Call call("read_all");
        const float* from = call.tensor("data", data, "n");
        const int count = call.threads(threads);
        release free;
        return backend().read_all(count, from, call['n']);
    });
}

}  // namespace

NB_MODULE(_native, module) {
    transher::Torch::get();
    chosen = usable().back();
    module.def("backends", &names);
    module.def("choose", &choose, nb::arg("name"));
    module.def("chosen", [] { return std::string(backend().name); });
    define_distances(module);
    define_training(module);
    define_ranking(module);
    define_rules(module);
    define_peak(module);
}
