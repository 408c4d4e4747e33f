#include "rules.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <numeric>

#include "pool.h"

namespace transher::rules {
namespace {

constexpr int BITS = 21;                      // of an end in a packed body; 0 is none
constexpr long WIDEST = 5000;                 // entities that a walk which only counts may hold
constexpr long MOST_HITS = 1 << 25;           // predictions of one query that are looked at
constexpr std::size_t MOST_BODIES = 1 << 21;  // of one relation, before the rare ones are dropped
constexpr long MOST_CONDITIONS = 1 << 22;     // that entities with one answer fulfil, before only some entities are asked
constexpr long MOST_OF_ONE = 2000;            // conditions of one entity
constexpr long MOST_FOUND = 1 << 22;          // bodies of all relations
constexpr double SURE = 0.9999;

std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// An exception must not leave a thread of the pool: it is raised again here, as the only one that can come.
template <class Work>
void in_parallel(int threads, long count, Work work) {
    struct Shared {
        Work& work;
        std::atomic<bool> failed{false};
    } shared{work};
    auto task = [](void* context, long number, int) {
        Shared& shared = *static_cast<Shared*>(context);
        if (shared.failed) return;
        try {
            shared.work(number);
        } catch (...) {
            shared.failed = true;
        }
    };
    run_tasks(threads, count, task, &shared);
    if (shared.failed) throw std::bad_alloc();
}

template <class Row>
std::vector<Row> joined(std::vector<std::vector<Row>>& parts) {
    std::size_t size = 0;
    for (auto& part : parts) size += part.size();
    std::vector<Row> all;
    all.reserve(size);
    for (auto& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
        std::vector<Row>().swap(part);
    }
    return all;
}

// Which entities were met, forgotten at once.
struct Marks {
    std::vector<std::uint32_t> seen;
    std::uint32_t now = 0;
    void fresh(long size) {
        if (static_cast<long>(seen.size()) < size) seen.assign(size, 0), now = 0;
        if (++now == 0) std::fill(seen.begin(), seen.end(), 0), now = 1;
    }
    bool add(Id entity) {
        if (seen[entity] == now) return false;
        seen[entity] = now;
        return true;
    }
    bool has(Id entity) const { return seen[entity] == now; }
};

// How often each body was seen, once a triple.
class Counter {
  public:
    Counter() { resize(1 << 12); }
    void add(std::uint64_t body, std::int32_t triple) {
        std::size_t place = mixed(body) & (keys_.size() - 1);
        while (keys_[place] && keys_[place] != body) place = (place + 1) & (keys_.size() - 1);
        if (!keys_[place]) {
            if (used_ * 2 > keys_.size()) {
                grow();
                add(body, triple);
                return;
            }
            keys_[place] = body, last_[place] = -1, counts_[place] = 0, ++used_;
        }
        if (last_[place] != triple) last_[place] = triple, ++counts_[place];
    }
    template <class Visit>
    void each(Visit visit) const {
        for (std::size_t i = 0; i < keys_.size(); ++i)
            if (keys_[i]) visit(keys_[i], counts_[i]);
    }

  private:
    std::vector<std::uint64_t> keys_;
    std::vector<std::int32_t> counts_, last_;
    std::size_t used_ = 0;
    void resize(std::size_t size) { keys_.assign(size, 0), counts_.assign(size, 0), last_.assign(size, -1), used_ = 0; }
    void grow() {
        std::vector<std::uint64_t> keys(std::move(keys_));
        std::vector<std::int32_t> counts(std::move(counts_)), last(std::move(last_));
        const bool full = used_ >= MOST_BODIES;
        // Then the rarer half goes: at most half of the bodies were seen as often as this.
        std::int32_t least = 0;
        if (full) {
            std::vector<std::int32_t> sorted;
            for (std::size_t i = 0; i < keys.size(); ++i)
                if (keys[i]) sorted.push_back(counts[i]);
            std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
            least = sorted[sorted.size() / 2] + 1;
        }
        resize(full ? keys.size() : 2 * keys.size());
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if (!keys[i] || counts[i] < least) continue;
            std::size_t place = mixed(keys[i]) & (keys_.size() - 1);
            while (keys_[place]) place = (place + 1) & (keys_.size() - 1);
            keys_[place] = keys[i], counts_[place] = counts[i], last_[place] = last[i], ++used_;
        }
    }
};

std::uint64_t packed(const Id* body, int length) {
    std::uint64_t key = 0;
    for (int i = 0; i < length; ++i) key = key << BITS | static_cast<std::uint64_t>(body[i] + 1);
    return key;
}

int unpacked(std::uint64_t body, Id* ends) {
    int length = 0;
    Id reversed[LONGEST];
    for (; body; body >>= BITS) reversed[length++] = static_cast<Id>(body & ((1u << BITS) - 1)) - 1;
    for (int i = 0; i < LONGEST; ++i) ends[i] = i < length ? reversed[length - 1 - i] : NONE;
    return length;
}

int length_of(const Id* body) {
    int length = 1;
    while (length < LONGEST && body[length] != NONE) ++length;
    return length;
}

int kind_of(const Rule& rule) { return rule.answer == NONE ? length_of(rule.body) - 1 : rule.value == NONE ? 4 : 3; }

void turn(const Steps& steps, const Id* body, int length, Id* turned) {
    for (int i = 0; i < LONGEST; ++i) turned[i] = i < length ? steps.turned(body[length - 1 - i]) : NONE;
}

// The steps from an entity, or so many of them, chosen by a hash.
template <class Visit>
void some_steps(const Steps& steps, Id entity, long most, std::uint64_t key, Visit visit) {
    const Span ends = steps.ends(entity), targets = steps.targets(entity);
    const long degree = ends.size();
    if (degree <= most) {
        for (long i = 0; i < degree; ++i) visit(ends.first[i], targets.first[i]);
        return;
    }
    for (long i = 0; i < most; ++i) {
        const long place = static_cast<long>(mixed(key + static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(degree));
        visit(ends.first[place], targets.first[place]);
    }
}

// Where a body leads from an entity.
struct Walk {
    Marks marks;  // of what `reached` holds
    std::vector<Id> reached, before, only;
    bool cut = false;

    void follow(const Steps& steps, Id origin, const Id* body, int length, long widest) {
        cut = false;
        marks.fresh(steps.entities());
        const Span first = steps.targets(origin, body[0]);
        reached.assign(first.first, first.last);
        if (length == 1) {
            for (Id each : reached) marks.add(each);
            return;
        }
        only.resize(steps.entities());
        before.swap(reached);
        reached.clear();
        for (Id x : before) {
            if (too_wide(widest)) break;
            for (Id y : steps.targets(x, body[1])) {
                if (y == origin) continue;
                if (marks.add(y)) reached.push_back(y), only[y] = x;
                else if (only[y] != x) only[y] = NONE;
            }
        }
        if (length == 2 || reached.empty()) return;
        before.swap(reached);
        reached.clear();
        marks.fresh(steps.entities());
        for (Id y : before) {
            if (too_wide(widest)) break;
            // Where y was reached over one entity only, a path back to that entity would not be simple.
            const Id x = only[y];
            for (Id z : steps.targets(y, body[2]))
                if (z != origin && z != x && marks.add(z)) reached.push_back(z);
        }
    }

  private:
    bool too_wide(long widest) { return cut = cut || static_cast<long>(reached.size()) > widest; }
};

double confidence(const Rule& rule, double caution) { return rule.support / (rule.pairs + caution); }

// Keeps the best of some rules, in an order that does not depend on the one they came in.
void trim(std::vector<Rule>& rules, long most, double caution) {
    if (static_cast<long>(rules.size()) <= most) return;
    auto better = [&](const Rule& a, const Rule& b) {
        const double x = confidence(a, caution), y = confidence(b, caution);
        if (x != y) return x > y;
        return std::lexicographical_compare(&a.end, &a.end + RULE_WIDTH, &b.end, &b.end + RULE_WIDTH);
    };
    std::nth_element(rules.begin(), rules.begin() + most, rules.end(), better);
    rules.resize(most);
}

}  // namespace

Steps::Steps(const std::int64_t* triples, long count, long entities, long relations)
    : entities_(entities), relations_(relations) {
    struct Row {
        Id source, end, target;
        bool operator<(const Row& o) const {
            return source != o.source ? source < o.source : end != o.end ? end < o.end : target < o.target;
        }
        bool operator==(const Row& o) const { return source == o.source && end == o.end && target == o.target; }
    };
    std::vector<Row> rows;
    rows.reserve(2 * count);
    for (long i = 0; i < count; ++i) {
        const Id h = static_cast<Id>(triples[3 * i]), r = static_cast<Id>(triples[3 * i + 1]),
                 t = static_cast<Id>(triples[3 * i + 2]);
        if (h == t) continue;
        rows.push_back({h, r, t}), rows.push_back({t, turned(r), h});
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    starts_.assign(entities + 1, 0);
    ends_.reserve(rows.size()), targets_.reserve(rows.size());
    source_starts_.assign(2 * relations + 1, 0);
    auto is_first = [&](std::size_t i) {
        return !i || rows[i - 1].source != rows[i].source || rows[i - 1].end != rows[i].end;
    };
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ++starts_[rows[i].source + 1];
        ends_.push_back(rows[i].end), targets_.push_back(rows[i].target);
        if (is_first(i)) ++source_starts_[rows[i].end + 1];
    }
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    group_starts_.assign(entities + 1, 0);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (is_first(i)) {
            ++group_starts_[rows[i].source + 1];
            group_ends_.push_back(rows[i].end), group_offsets_.push_back(static_cast<long>(i));
        }
    group_offsets_.push_back(static_cast<long>(rows.size()));
    std::partial_sum(group_starts_.begin(), group_starts_.end(), group_starts_.begin());
    std::partial_sum(source_starts_.begin(), source_starts_.end(), source_starts_.begin());
    sources_.resize(source_starts_.back());
    std::vector<long> next(source_starts_.begin(), source_starts_.end() - 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (is_first(i)) sources_[next[rows[i].end]++] = rows[i].source;
}

Span Steps::ends(Id entity) const { return {ends_.data() + starts_[entity], ends_.data() + starts_[entity + 1]}; }
Span Steps::targets(Id entity) const { return {targets_.data() + starts_[entity], targets_.data() + starts_[entity + 1]}; }
Span Steps::targets(Id entity, Id end) const {
    const auto first = group_ends_.begin() + group_starts_[entity], last = group_ends_.begin() + group_starts_[entity + 1];
    const auto place = std::lower_bound(first, last, end);
    if (place == last || *place != end) return {nullptr, nullptr};
    const long* offset = group_offsets_.data() + (place - group_ends_.begin());
    return {targets_.data() + offset[0], targets_.data() + offset[1]};
}
Span Steps::sources(Id end) const { return {sources_.data() + source_starts_[end], sources_.data() + source_starts_[end + 1]}; }
bool Steps::has(Id entity, Id end, Id target) const {
    const Span span = targets(entity, end);
    return std::binary_search(span.first, span.last, target);
}

std::vector<Body> find_bodies(const Steps& steps, const std::int64_t* triples, long count, const Limits& limits, int threads,
                              std::uint64_t seed) {
    std::vector<long> order(count);
    std::iota(order.begin(), order.end(), 0);
    auto column = [&](long i, int which) { return static_cast<Id>(triples[3 * i + which]); };
    std::sort(order.begin(), order.end(), [&](long a, long b) {
        if (column(a, 1) != column(b, 1)) return column(a, 1) < column(b, 1);
        if (column(a, 2) != column(b, 2)) return column(a, 2) < column(b, 2);
        return a < b;
    });
    std::vector<long> starts;
    for (long i = 0; i < count; ++i)
        if (!i || column(order[i], 1) != column(order[i - 1], 1)) starts.push_back(i);
    const long tasks = static_cast<long>(starts.size());
    starts.push_back(count);
    std::vector<std::vector<Body>> found(tasks);
    const long most = MOST_FOUND / std::max(1L, tasks) + 100;
    in_parallel(threads, tasks, [&](long task) {
        thread_local Marks marks;
        thread_local std::vector<long> first, next;
        first.resize(steps.entities());
        Counter counter;
        const Id relation = column(order[starts[task]], 1);
        Id last_tail = NONE;
        for (long i = starts[task]; i < starts[task + 1]; ++i) {
            const Id h = column(order[i], 0), t = column(order[i], 2);
            if (h == t) continue;
            const Span last_ends = steps.ends(t), last = steps.targets(t);
            if (t != last_tail) {  // steps from the tail by where they lead
                marks.fresh(steps.entities());
                next.assign(last.size(), -1);
                for (long j = 0; j < last.size(); ++j) {
                    if (!marks.add(last.first[j])) next[j] = first[last.first[j]];
                    first[last.first[j]] = j;
                }
                last_tail = t;
            }
            Id body[LONGEST];
            auto close = [&](int length, Id place) {
                if (!marks.has(place)) return;
                for (long j = first[place]; j >= 0; j = next[j]) {
                    body[length] = steps.turned(last_ends.first[j]);
                    if (length || body[0] != relation) counter.add(packed(body, length + 1), static_cast<std::int32_t>(i));
                }
            };
            close(0, h);
            const std::uint64_t key = mixed(seed ^ mixed(static_cast<std::uint64_t>(order[i])));
            some_steps(steps, h, 4L * limits.fan_out, key, [&](Id end, Id middle) {
                if (middle == t) return;
                body[0] = end;
                close(1, middle);
            });
            some_steps(steps, h, limits.fan_out, key + 1, [&](Id end, Id one) {
                if (one == t) return;
                body[0] = end;
                some_steps(steps, one, limits.fan_out, mixed(key + static_cast<std::uint64_t>(one)), [&](Id second, Id two) {
                    if (two == h || two == t) return;
                    body[1] = second;
                    close(2, two);
                });
            });
        }
        auto& bodies = found[task];
        counter.each([&](std::uint64_t key, std::int32_t seen) {
            if (seen < limits.least_support) return;
            Body one{{}, relation, seen}, other{{}, relation, seen};
            const int length = unpacked(key, one.body);
            turn(steps, one.body, length, other.body);
            // Counted from the end with more entities, which has fewer answers for each.
            const long here = steps.sources(one.body[0]).size(), there = steps.sources(other.body[0]).size();
            const bool turned = here != there ? here < there : packed(other.body, length) < packed(one.body, length);
            bodies.push_back(turned ? other : one);
        });
        if (static_cast<long>(bodies.size()) > most) {
            auto better = [](const Body& a, const Body& b) {
                if (a.seen != b.seen) return a.seen > b.seen;
                return std::lexicographical_compare(a.body, a.body + LONGEST, b.body, b.body + LONGEST);
            };
            std::nth_element(bodies.begin(), bodies.begin() + most, bodies.end(), better);
            bodies.resize(most);
        }
    });
    return joined(found);
}

std::vector<Rule> count_bodies(const Steps& steps, const Id* bodies, long count, const Limits& limits, int threads,
                               std::uint64_t seed) {
    constexpr long BLOCK = 64;
    const long blocks = (count + BLOCK - 1) / BLOCK;
    std::vector<std::vector<Rule>> found(blocks);
    in_parallel(threads, blocks, [&](long block) {
        thread_local Walk walk;
        std::vector<std::int32_t> hits(2 * steps.relations());
        std::vector<Id> hit;
        for (long i = block * BLOCK; i < std::min(count, (block + 1) * BLOCK); ++i) {
            const Id* body = bodies + LONGEST * i;
            const int length = length_of(body);
            Id turned[LONGEST];
            turn(steps, body, length, turned);
            const Span origins = steps.sources(body[0]);
            const long wanted = std::min<long>(origins.size(), limits.origins);
            const std::uint64_t key = mixed(seed ^ packed(body, length));
            bool sampled = wanted < origins.size();
            long pairs = 0;
            for (long j = 0; j < wanted; ++j) {
                if (pairs >= limits.pairs) {
                    sampled = true;
                    break;
                }
                // One of each of as many equal parts, so that none comes twice. The parts are taken in a jumbled order,
                // since not all may be: neighbours in id are often alike.
                const long part = static_cast<long>((static_cast<std::uint64_t>(j) * 7919 + key % 7919) % wanted);
                const long place = wanted % 7919 ? part : j;
                const long low = place * origins.size() / wanted, high = (place + 1) * origins.size() / wanted;
                const std::uint64_t drawn = mixed(key ^ static_cast<std::uint64_t>(place));
                const Id x = origins.first[low + static_cast<long>(drawn % static_cast<std::uint64_t>(high - low))];
                walk.follow(steps, x, body, length, WIDEST);
                sampled |= walk.cut;
                pairs += static_cast<long>(walk.reached.size());
                if (walk.reached.empty()) continue;
                const Span ends = steps.ends(x), targets = steps.targets(x);
                for (long s = 0; s < ends.size(); ++s)
                    if (walk.marks.has(targets.first[s]) && !hits[ends.first[s]]++) hit.push_back(ends.first[s]);
            }
            std::sort(hit.begin(), hit.end());
            const bool same = std::equal(body, body + LONGEST, turned);  // both ways: then both directions say the same
            for (Id end : hit) {
                const std::int32_t support = hits[end];
                hits[end] = 0;
                const bool forwards = end < steps.relations();
                if (support < limits.least_support || (length == 1 && body[0] == end) || (same && !forwards)) continue;
                const Id* ends = forwards ? body : turned;
                const Rule rule{forwards ? end : steps.turned(end), NONE, {ends[0], ends[1], ends[2]}, NONE, support,
                                static_cast<std::int32_t>(pairs), sampled};
                if (confidence(rule, limits.caution) >= limits.least_confidence) found[block].push_back(rule);
            }
            hit.clear();
        }
    });
    return joined(found);
}

std::vector<Rule> find_constants(const Steps& steps, Id first_end, Id last_end, const Limits& limits, int threads) {
    constexpr long BLOCK = 64;
    struct Task {
        Id end;
        long first, last;  // of the end's answers
    };
    std::vector<Task> tasks;
    for (Id end = first_end; end < last_end; ++end) {
        const long answers = steps.sources(steps.turned(end)).size();
        for (long i = 0; i < answers; i += BLOCK) tasks.push_back({end, i, std::min(answers, i + BLOCK)});
    }
    std::vector<std::vector<Rule>> found(tasks.size());
    const long most_of_task = std::max<long>(1000, 4 * limits.most / std::max<long>(1, static_cast<long>(tasks.size())));
    in_parallel(threads, static_cast<long>(tasks.size()), [&](long task) {
        const Id end = tasks[task].end, back = steps.turned(end);
        const Span answers = steps.sources(back);
        std::vector<Rule>& rules = found[task];
        std::vector<std::uint64_t> conditions;
        for (long a = tasks[task].first; a < tasks[task].last; ++a) {
            const Id answer = answers.first[a];
            const Span holders = steps.targets(answer, back);
            if (holders.size() < limits.least_support) continue;
            long expected = 0;
            for (Id x : holders) expected += std::min(steps.ends(x).size(), MOST_OF_ONE);
            const long every = 1 + expected / MOST_CONDITIONS;  // of a hub with millions of holders, every so many
            conditions.clear();
            for (long place = 0; place < holders.size(); place += every) {
                const Id x = holders.first[place];
                const Span own = steps.ends(x), values = steps.targets(x);
                const bool known_values = own.size() <= MOST_OF_ONE;
                for (long s = 0; s < own.size(); ++s) {
                    const std::uint64_t step = static_cast<std::uint64_t>(own.first[s] + 1) << 32;
                    if ((!s || own.first[s] != own.first[s - 1]) && own.first[s] != end) conditions.push_back(step);
                    if (known_values && (own.first[s] != end || values.first[s] != answer))
                        conditions.push_back(step | static_cast<std::uint64_t>(values.first[s] + 1));
                }
            }
            std::sort(conditions.begin(), conditions.end());
            for (std::size_t i = 0, j = 0; i < conditions.size(); i = j) {
                while (j < conditions.size() && conditions[j] == conditions[i]) ++j;
                if (static_cast<long>(j - i) < limits.least_support) continue;
                const Id step = static_cast<Id>(conditions[i] >> 32) - 1,
                         value = static_cast<Id>(conditions[i] & 0xFFFFFFFFu) - 1;
                const long bodies = value == NONE ? steps.sources(step).size() - (steps.targets(answer, step).size() > 0)
                                                  : steps.targets(value, steps.turned(step)).size() - steps.has(answer, step, value);
                const long support = std::min<long>(bodies, static_cast<long>(j - i) * every);
                const Rule rule{end, answer, {step, NONE, NONE}, value, static_cast<std::int32_t>(support),
                                static_cast<std::int32_t>(bodies), every > 1};
                if (confidence(rule, limits.caution) >= limits.least_confidence) rules.push_back(rule);
            }
            if (static_cast<long>(rules.size()) > 2 * most_of_task) trim(rules, most_of_task, limits.caution);
        }
    });
    std::vector<Rule> all = joined(found);
    trim(all, limits.most, limits.caution);
    return all;
}

Index::Index(const Steps& steps, const Rule* rules, long count, double caution, const Worth& worth)
    : steps_(steps), rules_(rules, rules + count), decay_(worth.decay) {
    auto says = [&](const Rule& rule, double support) {
        const double strength = -std::log1p(-std::clamp(support / (rule.pairs + caution), 0.0, SURE));
        const int kind = kind_of(rule);
        return Says{static_cast<float>(strength), static_cast<float>(worth.weights[kind] * std::pow(strength, worth.powers[kind]))};
    };
    closed_starts_.assign(steps.relations() + 1, 0), constant_starts_.assign(2 * steps.relations() + 1, 0);
    for (long i = 0; i < count; ++i) {
        const Rule& rule = rules_[i];
        says_.push_back(says(rule, rule.support));
        says_without_.push_back(rule.sampled ? says_[i] : says(rule, rule.support - 1.0));
        if (rule.answer == NONE) closed_.push_back(static_cast<std::int32_t>(i)), ++closed_starts_[rule.end + 1];
        else by_value_.push_back(static_cast<std::int32_t>(i)), ++constant_starts_[rule.end + 1];
    }
    std::partial_sum(closed_starts_.begin(), closed_starts_.end(), closed_starts_.begin());
    std::partial_sum(constant_starts_.begin(), constant_starts_.end(), constant_starts_.begin());
    std::sort(closed_.begin(), closed_.end(), [&](std::int32_t a, std::int32_t b) {
        if (rules_[a].end != rules_[b].end) return rules_[a].end < rules_[b].end;
        return says_[a].strength != says_[b].strength ? says_[a].strength > says_[b].strength : a < b;
    });
    for (bool tails : {false, true}) {
        for (std::int32_t number : closed_) {
            Branch branch{{}, number};
            const Rule& rule = rules_[number];
            if (tails) std::copy(rule.body, rule.body + LONGEST, branch.body);
            else turn(steps, rule.body, length_of(rule.body), branch.body);
            branches_[tails].push_back(branch);
        }
        std::sort(branches_[tails].begin(), branches_[tails].end(), [&](const Branch& a, const Branch& b) {
            if (rules_[a.number].end != rules_[b.number].end) return rules_[a.number].end < rules_[b.number].end;
            if (!std::equal(a.body, a.body + LONGEST, b.body))
                return std::lexicographical_compare(a.body, a.body + LONGEST, b.body, b.body + LONGEST);
            return a.number < b.number;
        });
    }
    by_answer_ = by_value_;
    std::sort(by_value_.begin(), by_value_.end(), [&](std::int32_t a, std::int32_t b) {
        const Rule &x = rules_[a], &y = rules_[b];
        if (x.end != y.end) return x.end < y.end;
        if (x.body[0] != y.body[0]) return x.body[0] < y.body[0];
        return x.value != y.value ? x.value < y.value : a < b;
    });
    std::sort(by_answer_.begin(), by_answer_.end(), [&](std::int32_t a, std::int32_t b) {
        const Rule &x = rules_[a], &y = rules_[b];
        if (x.end != y.end) return x.end < y.end;
        if (x.answer != y.answer) return x.answer < y.answer;
        if (x.body[0] != y.body[0]) return x.body[0] < y.body[0];
        return x.value != y.value ? x.value < y.value : a < b;
    });
}

// Constant rules that conclude this answer, by step and value.
Span Index::answered(Id end, Id answer) const {
    const Id *first = by_answer_.data() + constant_starts_[end], *last = by_answer_.data() + constant_starts_[end + 1];
    const Id* low = std::partition_point(first, last, [&](Id number) { return rules_[number].answer < answer; });
    return {low, std::partition_point(low, last, [&](Id number) { return rules_[number].answer == answer; })};
}

namespace {

// The steps from many entities by the end at which they start, of the ends that are asked for.
class Fan {
  public:
    struct Bundle {
        Id source;
        Span targets;
    };
    // ends: in any order, none twice.
    void spread(const Steps& steps, const std::vector<Id>& sources, const std::vector<Id>& ends) {
        constexpr std::size_t FEW = 4;
        if (by_end_.size() < ends.size()) by_end_.resize(ends.size());
        for (std::size_t i = 0; i < ends.size(); ++i) by_end_[i].clear();
        if (ends.size() < FEW) {
            for (std::size_t i = 0; i < ends.size(); ++i)
                for (Id source : sources) {
                    const Span targets = steps.targets(source, ends[i]);
                    if (targets.size()) by_end_[i].push_back({source, targets});
                }
            return;
        }
        place_.resize(2 * steps.relations(), NONE);
        for (std::size_t i = 0; i < ends.size(); ++i) place_[ends[i]] = static_cast<Id>(i);
        for (Id source : sources)
            steps.each_end(source, [&](Id end, Span targets) {
                if (place_[end] != NONE) by_end_[place_[end]].push_back({source, targets});
            });
        for (Id end : ends) place_[end] = NONE;
    }
    const std::vector<Bundle>& of(std::size_t place) const { return by_end_[place]; }

  private:
    std::vector<std::vector<Bundle>> by_end_;
    std::vector<Id> place_;
};

// Runs of branches with the same end at one place of their bodies; those without one come first and are left out.
template <class Branches>
void split(const Branches& branches, long first, long last, int place, std::vector<Id>& ends, std::vector<long>& starts) {
    ends.clear(), starts.clear();
    for (long i = first; i < last; ++i) {
        const Id end = branches[i].body[place];
        if (end != NONE && (ends.empty() || ends.back() != end)) ends.push_back(end), starts.push_back(i);
    }
    starts.push_back(last);
}

}  // namespace

// Closed rules that begin alike are followed together: the rules of a relation are a tree of steps.
template <class Hit>
void Index::fire_closed(Id anchor, Id relation, bool tails, long& hits, Hit hit) const {
    thread_local Fan first_fan, second_fan;
    thread_local Marks marks;
    thread_local std::vector<Id> first_ends, second_ends, third_ends, near, middle, only;
    thread_local std::vector<long> first_starts, second_starts, third_starts;
    const std::vector<Branch>& branches = branches_[tails];
    only.resize(steps_.entities());
    split(branches, closed_starts_[relation], closed_starts_[relation + 1], 0, first_ends, first_starts);
    for (std::size_t a = 0; a < first_ends.size() && hits < MOST_HITS; ++a) {
        const Span first = steps_.targets(anchor, first_ends[a]);
        if (!first.size()) continue;
        for (long i = first_starts[a]; i < first_starts[a + 1] && branches[i].body[1] == NONE; ++i)
            for (Id x : first) hit(x, branches[i].number), ++hits;
        near.assign(first.first, first.last);
        split(branches, first_starts[a], first_starts[a + 1], 1, second_ends, second_starts);
        first_fan.spread(steps_, near, second_ends);
        for (std::size_t b = 0; b < second_ends.size(); ++b) {
            if (first_fan.of(b).empty()) continue;
            middle.clear();
            marks.fresh(steps_.entities());
            for (const auto& [x, targets] : first_fan.of(b))
                for (Id y : targets) {
                    if (y == anchor) continue;
                    if (marks.add(y)) middle.push_back(y), only[y] = x;
                    else if (only[y] != x) only[y] = NONE;
                }
            for (long i = second_starts[b]; i < second_starts[b + 1] && branches[i].body[2] == NONE; ++i)
                for (Id y : middle) hit(y, branches[i].number), ++hits;
            split(branches, second_starts[b], second_starts[b + 1], 2, third_ends, third_starts);
            second_fan.spread(steps_, middle, third_ends);
            for (std::size_t c = 0; c < third_ends.size(); ++c) {
                marks.fresh(steps_.entities());
                for (const auto& [y, targets] : second_fan.of(c)) {
                    // Where y was reached over one entity only, a path back to that entity would not be simple.
                    const Id x = only[y];
                    for (Id z : targets) {
                        if (z == anchor || z == x || !marks.add(z)) continue;
                        for (long i = third_starts[c]; i < third_starts[c + 1]; ++i) hit(z, branches[i].number), ++hits;
                    }
                }
            }
        }
    }
}

// Every rule that predicts an answer of (anchor, relation).
template <class Hit>
void Index::fire(Id anchor, Id relation, bool tails, Hit hit) const {
    const Span own = steps_.ends(anchor), values = steps_.targets(anchor);
    long hits = 0;
    fire_closed(anchor, relation, tails, hits, hit);
    // What the anchor's own steps say of its answers.
    const Id end = tails ? relation : steps_.turned(relation);
    const auto first = by_value_.begin() + constant_starts_[end], last = by_value_.begin() + constant_starts_[end + 1];
    auto fired_by = [&](Id step, Id value) {
        auto low = std::partition_point(first, last, [&](Id number) {
            const Rule& rule = rules_[number];
            return rule.body[0] != step ? rule.body[0] < step : rule.value < value;
        });
        for (; low != last && rules_[*low].body[0] == step && rules_[*low].value == value; ++low)
            if (rules_[*low].answer != anchor) hit(rules_[*low].answer, *low), ++hits;
    };
    if (first != last)
        for (long s = 0; s < own.size() && hits < MOST_HITS; ++s) {
            if (!s || own.first[s] != own.first[s - 1]) fired_by(own.first[s], NONE);
            // The triple itself says nothing of its answer: such a rule is not made.
            fired_by(own.first[s], values.first[s]);
        }
    // Whose answer the anchor is, by their own steps.
    for (Id number : answered(steps_.turned(end), anchor)) {
        if (hits >= MOST_HITS) break;
        const Rule& rule = rules_[number];
        const Span holders = rule.value == NONE ? steps_.sources(rule.body[0])
                                                : steps_.targets(rule.value, steps_.turned(rule.body[0]));
        hits += holders.size();
        for (Id x : holders)
            if (x != anchor) hit(x, number);
    }
}

struct Index::Gathered {
    struct Best {
        Says top[TOP];
    };
    std::vector<Best> best;
    std::vector<Id> touched;
    Marks met, known;

    static float combined(const Says* top, long count, double decay) {
        double score = 0, share = 1;
        for (long i = 0; i < count; ++i, share *= decay) score += share * top[i].worth;
        return static_cast<float>(score);
    }
    static void insert(Says* top, const Says& says) {
        if (!(says > top[TOP - 1])) return;
        int place = TOP - 1;
        for (; place > 0 && says > top[place - 1]; --place) top[place] = top[place - 1];
        top[place] = says;
    }
};

void Index::gather(Id anchor, Id relation, bool tails, Gathered& into) const {
    into.best.resize(steps_.entities());
    into.met.fresh(steps_.entities()), into.known.fresh(steps_.entities());
    into.touched.clear();
    for (Id answer : steps_.targets(anchor, tails ? relation : steps_.turned(relation))) into.known.add(answer);
    fire(anchor, relation, tails, [&](Id candidate, Id number) {
        Says* top = into.best[candidate].top;
        if (into.met.add(candidate)) into.touched.push_back(candidate), std::fill(top, top + TOP, Says{0.0f, 0.0f});
        if (!(says_[number] > top[TOP - 1])) return;
        Gathered::insert(top, into.known.has(candidate) ? says_without_[number] : says_[number]);
    });
}

void Index::score(const std::int64_t* anchors, const std::int64_t* relations, bool tails, long count, int threads,
                  float* scores) const {
    in_parallel(threads, count, [&](long b) {
        thread_local Gathered gathered;
        gather(static_cast<Id>(anchors[b]), static_cast<Id>(relations[b]), tails, gathered);
        float* row = scores + b * steps_.entities();
        std::fill(row, row + steps_.entities(), 0.0f);
        for (Id candidate : gathered.touched) row[candidate] = Gathered::combined(gathered.best[candidate].top, TOP, decay_);
    });
}

// Constant rules that conclude end(x, answer).
template <class Hit>
void Index::constants_of(Id x, Id end, Id answer, Hit hit) const {
    const Span rules = answered(end, answer);
    const Span own = steps_.ends(x), values = steps_.targets(x);
    if (rules.size() <= own.size()) {  // ask of each rule whether x has its step
        for (Id number : rules) {
            const Rule& rule = rules_[number];
            if (rule.value == NONE ? steps_.targets(x, rule.body[0]).size() > 0 : steps_.has(x, rule.body[0], rule.value))
                hit(number);
        }
        return;
    }
    auto fired_by = [&](Id step, Id value) {
        const Id* low = std::partition_point(rules.first, rules.last, [&](Id number) {
            const Rule& rule = rules_[number];
            return rule.body[0] != step ? rule.body[0] < step : rule.value < value;
        });
        for (; low != rules.last && rules_[*low].body[0] == step && rules_[*low].value == value; ++low) hit(*low);
    };
    for (long s = 0; s < own.size(); ++s) {
        if (!s || own.first[s] != own.first[s - 1]) fired_by(own.first[s], NONE);
        fired_by(own.first[s], values.first[s]);
    }
}

namespace {

// Whether two ascending lists have an entity in common, other than this one.
bool meet(Span a, Span b, Id except) {
    if (a.size() > b.size()) std::swap(a, b);
    if (!a.size()) return false;
    if (b.size() > 16 * a.size()) {
        for (Id each : a)
            if (each != except && std::binary_search(b.first, b.last, each)) return true;
        return false;
    }
    while (a.first != a.last && b.first != b.last) {
        if (*a.first < *b.first) ++a.first;
        else if (*b.first < *a.first) ++b.first;
        else if (*a.first != except) return true;
        else ++a.first, ++b.first;
    }
    return false;
}

}  // namespace

// Whether a closed rule's body leads from head to tail, from whichever end has fewer steps.
bool Index::joins(const Rule& rule, Id head, Id tail) const {
    const int length = length_of(rule.body);
    if (length == 1) return steps_.has(head, rule.body[0], tail);
    const Span first = steps_.targets(head, rule.body[0]), last = steps_.targets(tail, steps_.turned(rule.body[length - 1]));
    if (length == 2) return meet(first, last, NONE);
    if (first.size() <= last.size()) {
        for (Id x : first)
            if (x != tail && meet(steps_.targets(x, rule.body[1]), last, head)) return true;
    } else {
        const Id back = steps_.turned(rule.body[1]);
        for (Id y : last)
            if (y != head && meet(steps_.targets(y, back), first, tail)) return true;
    }
    return false;
}

void Index::explain(const std::int64_t* triples, long count, long most, int threads, float* scores, std::int64_t* numbers,
                    float* confidences) const {
    constexpr long BLOCK = 64;
    struct Entry {
        Says says;
        Id number;
        bool operator<(const Entry& o) const { return says > o.says || (!(o.says > says) && number < o.number); }
    };
    const std::size_t kept = static_cast<std::size_t>(std::max<long>(most, TOP));
    in_parallel(threads, (count + BLOCK - 1) / BLOCK, [&](long block) {
        thread_local Marks head_ends, tail_ends;
        std::vector<Entry> found;
        for (long i = block * BLOCK; i < std::min(count, (block + 1) * BLOCK); ++i) {
            const Id head = static_cast<Id>(triples[3 * i]), relation = static_cast<Id>(triples[3 * i + 1]),
                     tail = static_cast<Id>(triples[3 * i + 2]);
            found.clear();
            if (head != tail) {
                const std::vector<Says>& says = steps_.has(head, relation, tail) ? says_without_ : says_;
                auto hit = [&](Id number) { found.push_back({says[number], number}); };
                constants_of(head, relation, tail, hit);
                constants_of(tail, steps_.turned(relation), head, hit);
                std::sort(found.begin(), found.end());
                if (found.size() > kept) found.resize(kept);
                head_ends.fresh(2 * steps_.relations()), tail_ends.fresh(2 * steps_.relations());
                for (Id end : steps_.ends(head)) head_ends.add(end);
                for (Id end : steps_.ends(tail)) tail_ends.add(end);
                for (long j = closed_starts_[relation]; j < closed_starts_[relation + 1]; ++j) {
                    const Id number = closed_[j];
                    // Later ones are weaker still, with or without the triple itself.
                    if (found.size() == kept && says_[number].strength < found.back().says.strength) break;
                    const Rule& rule = rules_[number];
                    if (!head_ends.has(rule.body[0]) || !tail_ends.has(steps_.turned(rule.body[length_of(rule.body) - 1])))
                        continue;
                    if (!joins(rule, head, tail)) continue;
                    const Entry entry{says[number], number};
                    found.insert(std::lower_bound(found.begin(), found.end(), entry), entry);
                    if (found.size() > kept) found.pop_back();
                }
            }
            Says top[TOP] = {};
            for (std::size_t j = 0; j < found.size() && j < TOP; ++j) top[j] = found[j].says;
            scores[i] = Gathered::combined(top, TOP, decay_);
            for (long j = 0; j < most; ++j) {
                const bool there = j < static_cast<long>(found.size());
                numbers[i * most + j] = there ? found[j].number : -1;
                confidences[i * most + j] = there ? static_cast<float>(-std::expm1(-static_cast<double>(found[j].says.strength))) : 0;
            }
        }
    });
}

}  // namespace transher::rules
