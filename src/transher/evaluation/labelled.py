"""Triples that hold and triples that do not, to learn and to judge probabilities on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transher.graph.encoding import triple_keys
from transher.graph.graph import SIDES, Graph, Side, Split, Triples
from transher.graph.places import Places
from transher.scorer import Scorer

NEGATIVES = 10  # for each side of each triple that holds
_SAMPLE = 20_000  # triples of a split, at most: more would not change two parameters a relation
_ROUNDS = 8  # of drawing again what turned out to be known


@dataclass(frozen=True)
class Labelled:
    """n triples (n, 3), the side that was asked (n,) as positions in SIDES, and whether each holds (n,)."""

    triples: Triples
    side: NDArray[np.int8]
    holds: NDArray[np.bool_]

    @property
    def base_rate(self) -> float:
        return float(self.holds.mean())

    def scores(self, scorer: Scorer) -> NDArray[np.float64]:
        """What the model gives each triple on the side that was asked: (n,)."""
        scores = np.empty(len(self.triples), dtype=np.float64)
        for code, side in enumerate(SIDES):
            asked = np.flatnonzero(self.side == code)
            scores[asked] = scorer.score_triples(torch.from_numpy(self.triples[asked].astype(np.int64)), side).numpy()
        return scores


def labelled_triples(graph: Graph, split: Split, negatives: int = NEGATIVES, seed: int = 0) -> Labelled:
    """The triples of a split, each once a side, with `negatives` corruptions a side.

    A corruption replaces the asked end by an entity that fits there (see `Places`; or by any, where only one does):
    "Berlin speaks Rome" would be too easy to be worth a probability. No corruption is a known triple of any split. What
    cannot be drawn, since everything that fits is known, is left out.
    """
    generator = np.random.default_rng(seed)
    positives = graph.split(split)
    if len(positives) > _SAMPLE:
        positives = positives[np.sort(generator.choice(len(positives), _SAMPLE, replace=False))]
    known = np.unique(_keys(graph, graph.all_triples))
    places = Places(graph)
    triples, sides, holds = [], [], []
    for code, side in enumerate(SIDES):
        corrupted = _corrupt(graph, np.repeat(positives, negatives, axis=0), side, places, known, generator)
        triples += [positives, corrupted]
        sides += [np.full(len(positives) + len(corrupted), code, dtype=np.int8)]
        holds += [np.ones(len(positives), dtype=np.bool_), np.zeros(len(corrupted), dtype=np.bool_)]
    return Labelled(np.concatenate(triples), np.concatenate(sides), np.concatenate(holds))


def _corrupt(
    graph: Graph,
    triples: Triples,
    side: Side,
    places: Places,
    known: NDArray[np.int64],
    generator: np.random.Generator,
) -> Triples:
    column, first = (2, len(graph.relations)) if side == "tail" else (0, 0)
    corrupted = triples.copy()
    counts = np.diff(places.starts)
    undecided = np.arange(len(corrupted))
    for _ in range(_ROUNDS):
        place = first + corrupted[undecided, 1]
        draws = generator.random(len(undecided))
        fitting = places.entities[places.starts[place] + (draws * counts[place]).astype(np.int64)]
        anything = (draws * len(graph.entities)).astype(np.int32)
        corrupted[undecided, column] = np.where(counts[place] > 1, fitting, anything)
        undecided = undecided[_among(known, _keys(graph, corrupted[undecided]))]
        if not len(undecided):
            break
    return np.delete(corrupted, undecided, axis=0)


def _keys(graph: Graph, triples: Triples) -> NDArray[np.int64]:
    return triple_keys(triples, len(graph.entities), len(graph.relations))


def _among(ordered: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.asarray(ordered[places] == wanted, dtype=np.bool_)
