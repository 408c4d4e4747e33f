"""The judge's reasons in plain sentences.

Features that say the same thing are one reason: their effects are added up, and their values choose the sentence. A
reason that hardly moves the odds is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from transher.answering.judge import Reason
from transher.graph.graph import Graph, Side

_LEAST = math.log(1.1)  # effect on the log odds from which on a reason is told
_USUAL = 0.5  # share of entities from which on something is usual
_PLACES = (
    "the best",
    "the second best",
    "the third best",
    "among the five best",
    "among the ten best",
    "among the thirty best",
)
_NOT_BEST = "not among the thirty best"

Values = Mapping[str, float]


@dataclass(frozen=True)
class Because:
    """A reason for the probability of a triple, and by how much it multiplies the odds: above 1 it speaks for the
    triple, below 1 against it."""

    sentence: str
    factor: float


@dataclass(frozen=True)
class Asked:
    """A triple, and what its sentences name: labels, and how many entities fit each side."""

    head: str
    relation: str
    tail: str
    candidates: Mapping[Side, int]
    others: Mapping[Side, str]  # a known answer for the side that is another one, where there is one
    known: bool = False  # the judge leaves the triple itself out of what is known


def in_words(graph: Graph, triple: tuple[int, int, int], reasons: Sequence[Reason]) -> list[Because]:
    """The reasons for the probability of a triple in sentences, the strongest first."""
    return sentences(_asked(graph, triple), reasons)


def sentences(asked: Asked, reasons: Sequence[Reason]) -> list[Because]:
    """As `in_words`, of a triple in names."""
    values = {reason.feature: reason.value for reason in reasons}
    effects: dict[str, float] = {}
    for reason in reasons:
        topic = _TOPIC_OF[reason.feature]
        effects[topic] = effects.get(topic, 0.0) + reason.effect
    told = sorted((topic for topic in effects if abs(effects[topic]) >= _LEAST), key=lambda one: -abs(effects[one]))
    return [
        Because(_TOPICS[topic].sentence(asked, values, effects[topic] > 0), math.exp(effects[topic])) for topic in told
    ]


def effect_in_words(because: Because) -> str:
    """What a reason does to the odds: "multiplies the odds by 12"."""
    verb, factor = ("multiplies", because.factor) if because.factor >= 1 else ("divides", 1 / because.factor)
    return f"{verb} the odds by {_rounded(factor)}"


def _rounded(factor: float) -> str:
    """Two digits are all that an effect is good for."""
    if factor < 10:
        return f"{factor:.1f}"
    return f"{round(factor, 1 - math.floor(math.log10(factor))):,.0f}"


def _asked(graph: Graph, triple: tuple[int, int, int]) -> Asked:
    head, relation, tail = triple
    others = {}
    sides: tuple[tuple[Side, int, int], ...] = (("tail", head, tail), ("head", tail, head))
    for side, anchor, answer in sides:
        _, known = graph.known.answers(side).of(np.array([anchor]), np.array([relation]))
        known = known[known != answer]
        if len(known):
            others[side] = graph.entities.label(int(known[0]))
    one, other = graph.entities.labels([head, tail])
    fitting = {side: len(graph.ends.fitting(graph.known.end(relation, side))) for side, _, _ in sides}
    listed = bool(graph.known.has(np.array([triple]))[0])
    return Asked(one, graph.relations.label(relation), other, fitting, others, listed)


def _among(asked: Asked, values: Values, side: Side, speaks_for: bool) -> str:
    """How its score compares with those of the other candidates for a side."""
    place, above = values[f"place among {side}s"], values[f"above known {side}s"]
    if math.isnan(place):
        return f"There are no other candidates for the {side} to compare it with."
    rank = 2.0**-place
    bounds = (1.0, 1.5, 2.5, 4.0, 7.5, 20.0)
    words = next((word for word, bound in zip(_PLACES, bounds, strict=True) if rank <= bound + 0.01), _NOT_BEST)
    of = f"It is {words} of {asked.candidates[side]:,} candidates for the {side}"
    anchor = asked.head if side == "tail" else asked.tail
    if speaks_for and words == _NOT_BEST:
        others = f"the {asked.candidates[side]:,} candidates for the {side}"
        return f"Among {others} its score speaks for it, though it is not one of the thirty best."
    if speaks_for or words == _NOT_BEST:
        return f"{of}."
    if above < 0:
        return f"{of}, but scores lower than the known {side}s of {anchor}."
    return f"{of}, but such candidates mostly do not hold."


def _score(asked: Asked, values: Values, speaks_for: bool) -> str:
    return f"Its score is {'high' if speaks_for else 'low'} for a fact of {asked.relation}."


def _known(asked: Asked, values: Values, side: Side, speaks_for: bool) -> str:
    """How many answers for a side are known, and how many there usually are."""
    anchor, end = (asked.head, "head") if side == "tail" else (asked.tail, "tail")
    known, usual = values[f"known {side}s"], values[f"{side}s per {end}"]
    single, filled = values[f"{end}s with one {side}"], values[f"{end}s that have it"]
    if not known:
        # A known answer may have been held out: the judge goes by what was trained on, and the page shows both.
        held_out = side in asked.others
        start = (
            f"Training saw no {side} of {asked.relation} for {anchor}"
            if held_out
            else f"No {'other ' if asked.known else ''}{side} of {asked.relation} is known for {anchor}"
        )
        if speaks_for and filled >= _USUAL:
            return f"{start}, and {filled:.0%} of the entities like it have one."
        if not speaks_for and filled < _USUAL:
            return f"{start}, and only {filled:.0%} of the entities like it have one."
        return f"{start}."
    if single >= _USUAL and not speaks_for:
        there = asked.others.get(side, f"a {side}")
        return (
            f"{anchor} already has {there} as {side} of {asked.relation}, and {single:.0%} of the {end}s of this "
            "relation have only one."
        )
    noun = side if known == 1 else f"{side}s"
    other = "other " if asked.known else ""
    return f"{anchor} has {known:,.0f} {other}known {noun} of {asked.relation}; on average there are {usual:.1f}."


def _rules(asked: Asked, values: Values, speaks_for: bool) -> str:
    strongest = values["strongest rule"]
    if not strongest > 0:
        return "No rule supports it."
    sure = f"{strongest:.0%}" if strongest >= 0.01 else "less than 1%"
    return f"Rules support it, the strongest with {sure}." if speaks_for else f"The strongest rule for it has {sure}."


def _fit(asked: Asked, values: Values, speaks_for: bool) -> str:
    head, tail = (values[f"{side} fits"] > 0 for side in ("head", "tail"))
    if head and tail and not speaks_for and min(values["head alike"], values["tail alike"]) < _USUAL:
        side = min(("head", "tail"), key=lambda one: values[f"{one} alike"])
        name = asked.head if side == "head" else asked.tail
        return f"Hardly anything like {name} stands at the {side} of {asked.relation}."
    if head and tail:
        return f"Entities like {asked.head} and {asked.tail} stand at these ends of {asked.relation}."
    if head:
        return f"Nothing like {asked.tail} stands at the tail of {asked.relation}."
    start = f"Nothing like {asked.head} stands at the head of {asked.relation}"
    return f"{start}." if tail else f"{start}, and nothing like {asked.tail} at its tail."


def _loop(asked: Asked, values: Values, speaks_for: bool) -> str:
    if values["loop"]:
        return f"It joins an entity with itself, and no known fact of {asked.relation} does."
    return "It joins two different entities."


def _degrees(asked: Asked, values: Values, speaks_for: bool) -> str:
    def facts(side: str) -> str:
        count = values[f"degree of {side}"]
        return f"{count:,.0f} training fact{'' if count == 1 else 's'}"

    return f"{asked.head} occurs in {facts('head')}, and {asked.tail} in {facts('tail')}."


def _recent(asked: Asked, values: Values, speaks_for: bool) -> str:
    count = values["recent facts of tail"]
    facts = f"{count:,.0f} later fact{' has' if count == 1 else 's have'}"
    return f"{facts} {asked.tail} as tail of {asked.relation}." if count else f"No later fact has {asked.tail} there."


def _relation(asked: Asked, values: Values, speaks_for: bool) -> str:
    return f"Pairs like this are facts of {asked.relation} {'more' if speaks_for else 'less'} often than of others."


@dataclass(frozen=True)
class _Topic:
    """Features that say the same thing, and the sentence that their values make, for or against."""

    features: tuple[str, ...]
    sentence: Callable[[Asked, Values, bool], str]


def _side_topics(side: Side) -> dict[str, _Topic]:
    end = "head" if side == "tail" else "tail"
    return {
        f"candidates for the {side}": _Topic(
            (f"lead among {side}s", f"place among {side}s", f"above 30th {side}", f"above known {side}s"),
            lambda asked, values, speaks_for: _among(asked, values, side, speaks_for),
        ),
        f"known {side}s": _Topic(
            (
                f"known {side}s",
                f"known {side}s to usual",
                f"frequency of {end}",
                f"{side}s per {end}",
                f"{end}s with one {side}",
                f"{end}s that have it",
            ),
            lambda asked, values, speaks_for: _known(asked, values, side, speaks_for),
        ),
    }


_TOPICS = {
    **_side_topics("tail"),
    **_side_topics("head"),
    "score": _Topic(("score", "blended score"), _score),
    "rules": _Topic(("rules", "strongest rule"), _rules),
    "fit": _Topic(("head fits", "tail fits", "head alike", "tail alike"), _fit),
    "loop": _Topic(("loop",), _loop),
    "degrees": _Topic(("degree of head", "degree of tail"), _degrees),
    "relation": _Topic(("facts of relation", "relation"), _relation),
    "recent": _Topic(("recent facts of tail",), _recent),
}
_TOPIC_OF = {feature: name for name, topic in _TOPICS.items() for feature in topic.features}
