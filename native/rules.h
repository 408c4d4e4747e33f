// Logical rules over a graph: finding them, counting how often they hold, and what they predict.
//
// A triple can be walked either way. A step is named by its end: end r leads from a head of relation r to its tails, end
// r + R from a tail to its heads, where R is the number of relations.
//
//   closed rule      relation(x, y) <- a path of one to three steps leads from x to y
//   constant rule    end(x, answer) <- step(x, value), or <- step(x, anything) where the value is NONE
//
// A constant rule's conclusion is an end too: relation(answer, y) is written as seen from y.
//
// All paths are simple: no entity comes twice, and triples that join an entity with itself are no steps. So no path that
// speaks for a triple goes over that triple.
#pragma once

#include <cstdint>
#include <vector>

namespace transher::rules {

using Id = std::int32_t;
constexpr Id NONE = -1;
constexpr int LONGEST = 3;
constexpr int TOP = 16;                  // strongest rules of a candidate that count
constexpr int KINDS = 5;                 // closed rules of one, two and three steps; rules with a value, and with any value
constexpr long MOST_RELATIONS = 1000000; // an end has 21 bits in a packed body

struct Span {
    const Id* first;
    const Id* last;
    long size() const { return last - first; }
    const Id* begin() const { return first; }
    const Id* end() const { return last; }
};

// The distinct triples as steps from every entity, sorted by end and target.
class Steps {
  public:
    Steps(const std::int64_t* triples, long count, long entities, long relations);

    long entities() const { return entities_; }
    long relations() const { return relations_; }
    Id turned(Id end) const { return static_cast<Id>(end < relations_ ? end + relations_ : end - relations_); }

    Span ends(Id entity) const;             // of each step from an entity
    Span targets(Id entity) const;          // of each step, in the same order
    Span targets(Id entity, Id end) const;  // of its steps of one end, ascending
    Span sources(Id end) const;             // entities with a step of this end, ascending
    bool has(Id entity, Id end, Id target) const;
    // visit(end, targets) for each end at which steps of an entity start, ascending.
    template <class Visit>
    void each_end(Id entity, Visit visit) const {
        for (long i = group_starts_[entity]; i < group_starts_[entity + 1]; ++i)
            visit(group_ends_[i], Span{targets_.data() + group_offsets_[i], targets_.data() + group_offsets_[i + 1]});
    }

  private:
    long entities_, relations_;
    std::vector<long> starts_;         // (entities + 1,)
    std::vector<Id> ends_, targets_;   // (2 n,)
    std::vector<long> group_starts_;   // (entities + 1,), of the runs of steps from an entity at one end
    std::vector<Id> group_ends_;
    std::vector<long> group_offsets_;  // in targets_, and their end
    std::vector<long> source_starts_;  // (2 R + 1,)
    std::vector<Id> sources_;
};

// One row of a table of rules, as Python has it.
struct Rule {
    Id end, answer;    // the answer is NONE in a closed rule, whose end is a relation
    Id body[LONGEST];  // ends; unused ones are NONE
    Id value;          // where a constant rule's step leads; NONE for anywhere, and in closed rules
    std::int32_t support, pairs;
    std::int32_t sampled;  // whether the counts are of a sample of the pairs
};
constexpr int RULE_WIDTH = sizeof(Rule) / sizeof(Id);

// A body that joins `seen` of the given triples of a relation, in the direction in which it is counted.
struct Body {
    Id body[LONGEST];
    Id relation;
    std::int32_t seen;
};
constexpr int BODY_WIDTH = sizeof(Body) / sizeof(Id);

struct Limits {
    int least_support = 2;
    double least_confidence = 0.01;
    double caution = 5;    // pairs added to those of a rule: one hit out of one is no 100 %
    int fan_out = 48;      // steps looked at from one entity when paths between two entities are sought
    int origins = 300;     // entities from which a body is followed to count how often it holds
    long pairs = 20000;    // pairs of a body that are counted at most
    long most = 4000000;   // rules that one call returns at most
};

// Paths of one to three steps between head and tail of the given triples, and how many triples of a relation each joins.
std::vector<Body> find_bodies(const Steps& steps, const std::int64_t* triples, long count, const Limits& limits, int threads,
                              std::uint64_t seed);
// The closed rules of these bodies, each body followed once for all relations.
std::vector<Rule> count_bodies(const Steps& steps, const Id* bodies, long count, const Limits& limits, int threads,
                               std::uint64_t seed);
// The constant rules that conclude one of the ends first … last − 1.
std::vector<Rule> find_constants(const Steps& steps, Id first, Id last, const Limits& limits, int threads);

// What a rule is worth to a candidate. The strength of a rule is −log(1 − confidence). Alone, a rule of kind k is worth
// weights[k] · strength ^ powers[k]; the second strongest of a candidate counts `decay` times that, the third decay² times.
struct Worth {
    double weights[KINDS], powers[KINDS], decay;
};

// Rules in the form in which queries are answered. A rule that speaks for a known triple is
// as confident as if that triple were not known.
class Index {
  public:
    Index(const Steps& steps, const Rule* rules, long count, double caution, const Worth& worth);

    // scores[b, e] of every entity e for query b: what its TOP strongest rules are worth; 0 where no rule predicts it.
    void score(const std::int64_t* anchors, const std::int64_t* relations, bool tails, long count, int threads,
               float* scores) const;
    // Scores of triples, and the strongest rules that predict each: numbers and confidences (count, most), −1 and 0
    // where there are fewer.
    void explain(const std::int64_t* triples, long count, long most, int threads, float* scores, std::int64_t* numbers,
                 float* confidences) const;

  private:
    const Steps& steps_;
    std::vector<Rule> rules_;
    // Of a rule for a candidate: the stronger comes first, and of two that are as strong the one that is worth more.
    struct Says {
        float strength, worth;
        bool operator>(const Says& o) const { return strength != o.strength ? strength > o.strength : worth > o.worth; }
    };
    std::vector<Says> says_, says_without_;            // by rule, and that without the triple itself
    double decay_;
    std::vector<std::int32_t> closed_;                 // by relation, strongest first
    struct Branch {
        Id body[LONGEST];
        Id number;
    };
    std::vector<Branch> branches_[2];  // closed rules by relation and body as walked from a tail, and from a head
    std::vector<std::int32_t> by_value_, by_answer_;   // constant rules by end, step, value; by end, answer, step, value
    std::vector<long> closed_starts_, constant_starts_;

    struct Gathered;
    template <class Hit>
    void fire_closed(Id anchor, Id relation, bool tails, long& hits, Hit hit) const;
    template <class Hit>
    void fire(Id anchor, Id relation, bool tails, Hit hit) const;
    void gather(Id anchor, Id relation, bool tails, Gathered& into) const;
    Span answered(Id end, Id answer) const;
    template <class Hit>
    void constants_of(Id x, Id end, Id answer, Hit hit) const;
    bool joins(const Rule& rule, Id head, Id tail) const;
};

}  // namespace transher::rules
