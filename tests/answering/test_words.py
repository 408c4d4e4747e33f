"""The judge's reasons as sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_graph

from transher.answering.features import OF_BLEND, OF_GRAPH, OF_LATER, OF_RULES, OF_SCORER
from transher.answering.judge import Reason
from transher.answering.words import Asked, Because, effect_in_words, in_words, sentences

ASKED = Asked("Germany", "uses_currency", "Euro", {"tail": 240, "head": 30}, {"tail": "Mark", "head": "Austria"})
FEATURES = (*OF_SCORER, *OF_RULES, *OF_BLEND, *OF_GRAPH, *OF_LATER)
USUAL = dict.fromkeys(FEATURES, 0.0) | {"head fits": 1.0, "tail fits": 1.0}


def told(values: dict[str, float], effects: dict[str, float]) -> list[Because]:
    """The sentences for some values, where only some features have effects."""
    return sentences(ASKED, [Reason(name, (USUAL | values)[name], effects.get(name, 0.0)) for name in FEATURES])


@pytest.mark.parametrize(
    ("values", "feature", "effect", "sentence"),
    [
        ({"heads that have it": 0.9}, "known tails", 2,
         "Training saw no tail of uses_currency for Germany, and 90% of the entities like it have one."),
        ({"heads that have it": 0.1}, "known tails", -2,
         "Training saw no tail of uses_currency for Germany, and only 10% of the entities like it have one."),
        ({"heads that have it": 0.1}, "known tails", 2, "Training saw no tail of uses_currency for Germany."),
        ({"known tails": 1, "heads with one tail": 0.97}, "known tails", -3,
         "Germany already has Mark as tail of uses_currency, and 97% of the heads of this relation have only one."),
        ({"known heads": 20, "heads per tail": 1.6, "tails with one head": 0.9}, "frequency of tail", 1,
         "Euro has 20 known heads of uses_currency; on average there are 1.6."),
        ({"known heads": 1, "heads per tail": 4.25}, "known heads", -1,
         "Euro has 1 known head of uses_currency; on average there are 4.2."),
        ({"place among tails": 0.0}, "place among tails", 1, "It is the best of 240 candidates for the tail."),
        ({"place among heads": -math.log2(7.5)}, "lead among heads", 1,
         "It is among the ten best of 30 candidates for the head."),
        ({"place among tails": -math.log2(60)}, "place among tails", -1,
         "It is not among the thirty best of 240 candidates for the tail."),
        ({"place among tails": -math.log2(60)}, "above 30th tail", 1,
         "Among the 240 candidates for the tail its score speaks for it, though it is not one of the thirty best."),
        ({}, "blended score", 1, "Its score is high for a fact of uses_currency."),
        ({"place among tails": 0.0, "above known tails": -1.0}, "above known tails", -1,
         "It is the best of 240 candidates for the tail, but scores lower than the known tails of Germany."),
        ({"place among tails": math.nan}, "place among tails", -1,
         "There are no other candidates for the tail to compare it with."),
        ({}, "score", 1, "Its score is high for a fact of uses_currency."),
        ({}, "score", -1, "Its score is low for a fact of uses_currency."),
        ({"strongest rule": 0.62}, "rules", 1, "Rules support it, the strongest with 62%."),
        ({"strongest rule": 0.004}, "strongest rule", -1, "The strongest rule for it has less than 1%."),
        ({}, "rules", -1, "No rule supports it."),
        ({"head fits": 0}, "head fits", -1, "Nothing like Germany stands at the head of uses_currency."),
        ({"tail fits": 0}, "tail fits", -1, "Nothing like Euro stands at the tail of uses_currency."),
        ({"head alike": 0.1, "tail alike": 1}, "head alike", -1,
         "Hardly anything like Germany stands at the head of uses_currency."),
        ({"head alike": 1, "tail alike": 1}, "tail alike", -1,
         "Entities like Germany and Euro stand at these ends of uses_currency."),
        ({"loop": 1}, "loop", -1, "It joins an entity with itself, and no known fact of uses_currency does."),
        ({"degree of head": 1200, "degree of tail": 1}, "degree of tail", -1,
         "Germany occurs in 1,200 training facts, and Euro in 1 training fact."),
    ],
)  # fmt: skip
def test_values_and_sign_choose_the_sentence(
    values: dict[str, float], feature: str, effect: float, sentence: str
) -> None:
    (reason,) = told(values, {feature: effect})
    assert reason.sentence == sentence
    assert reason.factor == pytest.approx(math.exp(effect))


def test_an_answer_that_was_held_out_is_not_called_unknown() -> None:
    reasons = [Reason(name, USUAL[name], 2.0 if name == "known tails" else 0.0) for name in FEATURES]
    unknown = replace(ASKED, others={})
    assert sentences(ASKED, reasons)[0].sentence == "Training saw no tail of uses_currency for Germany."
    assert sentences(unknown, reasons)[0].sentence == "No tail of uses_currency is known for Germany."


def test_of_a_known_fact_only_other_answers_are_counted() -> None:
    known = replace(ASKED, others={}, known=True)
    reasons = [Reason(name, USUAL[name], 2.0 if name == "known tails" else 0.0) for name in FEATURES]
    assert sentences(known, reasons)[0].sentence == "No other tail of uses_currency is known for Germany."
    values = USUAL | {"known heads": 1, "heads per tail": 4.25}
    reasons = [Reason(name, values[name], -1.0 if name == "known heads" else 0.0) for name in FEATURES]
    wanted = "Euro has 1 other known head of uses_currency; on average there are 4.2."
    assert sentences(known, reasons)[0].sentence == wanted
    graph = make_graph([(0, 0, 5), (1, 0, 6)])
    effects = [Reason(name, USUAL[name], 2.0 if name == "known tails" else 0.0) for name in FEATURES]
    assert in_words(graph, (0, 0, 5), effects)[0].sentence == "No other tail of r0 is known for e000."


def test_features_that_say_the_same_are_one_reason_with_their_effects_added_up() -> None:
    (reason,) = told({}, {"rules": 1.0, "strongest rule": 0.5})
    assert reason.factor == pytest.approx(math.exp(1.5))


@given(st.lists(st.floats(-9, 9), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_the_strongest_reason_comes_first_and_hardly_any_effect_is_left_out(effects: list[float]) -> None:
    found = told({}, dict(zip(FEATURES, effects, strict=True)))
    sizes = [abs(math.log(reason.factor)) for reason in found]
    assert sizes == sorted(sizes, reverse=True)
    assert all(size >= math.log(1.1) - 1e-9 for size in sizes)
    left_out = sum(effects) - sum(math.log(reason.factor) for reason in found)
    assert abs(left_out) <= 10 * math.log(1.1) + 1e-6
    assert len({reason.sentence for reason in found}) == len(found)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (12.4, "multiplies the odds by 12"),
        (1.25, "multiplies the odds by 1.2"),
        (1 / 4, "divides the odds by 4.0"),
        (1234.5, "multiplies the odds by 1,200"),
    ],
)
def test_an_effect_is_told_as_a_factor_of_two_digits(factor: float, words: str) -> None:
    assert effect_in_words(Because("", factor)) == words


def test_names_and_numbers_are_those_of_the_graph() -> None:
    graph = make_graph([(0, 0, 5), (1, 0, 6), (2, 0, 5), (3, 1, 4)])
    values = USUAL | {"known tails": 1, "heads with one tail": 1.0, "place among heads": 0.0}
    effects = {"known tails": -2.0, "place among heads": 1.0}
    reasons = [Reason(name, values[name], effects.get(name, 0.0)) for name in FEATURES]
    assert [because.sentence for because in in_words(graph, (0, 0, 6), reasons)] == [
        "e000 already has e005 as tail of r0, and 100% of the heads of this relation have only one.",
        f"It is the best of {len(np.unique(graph.train[:3, 0]))} candidates for the head.",
    ]
