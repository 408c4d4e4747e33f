"""Triples that hold and triples that do not, to learn and to judge probabilities on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transher.graph.graph import SIDES, Graph, Side, Split, Triples
from transher.scorer import Scorer

NEGATIVES = 10  # for each side of each triple that holds
_SAMPLE = 20_000  # triples of a split, at most: more would not change two parameters a relation
_ROUNDS = 8  # of drawing again what turned out to be known


@dataclass(frozen=True)
class Labelled:
    """n triples (n, 3) and whether each holds (n,)."""

    triples: Triples
    holds: NDArray[np.bool_]

    @property
    def base_rate(self) -> float:
        return float(self.holds.mean())

    def scores(self, scorer: Scorer) -> NDArray[np.float64]:
        """What the scorer gives each triple: (n,)."""
        return scorer.score(torch.from_numpy(self.triples)).double().numpy()


def labelled_triples(graph: Graph, split: Split, negatives: int = NEGATIVES, seed: int = 0) -> Labelled:
    """The triples of a split, each once a side, with `negatives` corruptions a side.

    A corruption replaces the asked end by an entity that fits there (see `Ends`; or by any, where only one does):
    "Berlin speaks Rome" would be too easy to be worth a probability. No corruption is a known triple of any split. What
    cannot be drawn, since everything that fits is known, is left out.
    """
    generator = np.random.default_rng(seed)
    positives = graph.split(split)
    if len(positives) > _SAMPLE:
        positives = positives[np.sort(generator.choice(len(positives), _SAMPLE, replace=False))]
    triples, holds = [], []
    for side in SIDES:
        corrupted = _corrupt(graph, np.repeat(positives, negatives, axis=0), side, generator)
        triples += [positives, corrupted]
        holds += [np.ones(len(positives), dtype=np.bool_), np.zeros(len(corrupted), dtype=np.bool_)]
    return Labelled(np.concatenate(triples), np.concatenate(holds))


def _corrupt(graph: Graph, triples: Triples, side: Side, generator: np.random.Generator) -> Triples:
    column, ends = 2 if side == "tail" else 0, graph.ends
    corrupted = triples.copy()
    counts = np.diff(ends.starts)
    undecided = np.arange(len(corrupted))
    for _ in range(_ROUNDS):
        end = graph.known.end(corrupted[undecided, 1], side)
        draws = generator.random(len(undecided))
        fitting = ends.entities[ends.starts[end] + (draws * counts[end]).astype(np.int64)]
        anything = (draws * len(graph.entities)).astype(np.int32)
        corrupted[undecided, column] = np.where(counts[end] > 1, fitting, anything)
        undecided = undecided[graph.known.has(corrupted[undecided])]
        if not len(undecided):
            break
    return np.delete(corrupted, undecided, axis=0)
