"""A made-up graph whose truth is known: people live in one town, belong to clubs, and speak languages.

A scorer with noise stands for a trained model. Of the facts some are hidden, and some are missing: nobody but the tests
knows them.
"""

from __future__ import annotations

import numpy as np
import torch
from tests.conftest import make_graph
from torch import Tensor

from transher.graph.graph import Graph, Side, Triples
from transher.scorer import Scorer

PEOPLE, TOWNS, CLUBS = 600, 15, 40
ENTITIES = PEOPLE + TOWNS + CLUBS
LIVES_IN, MEMBER_OF, LIES_IN = range(3)


class Noisy(Scorer):
    """What holds scores 2 more than what does not, with normal noise that never changes."""

    def __init__(self, truth: Triples, seed: int = 0) -> None:
        noise = np.random.default_rng(seed).normal(size=(3, ENTITIES, ENTITIES))
        np.add.at(noise, (truth[:, 1], truth[:, 0], truth[:, 2]), 2.0)
        self.table = torch.from_numpy(noise.astype(np.float32))

    entity_count = property(lambda self: ENTITIES)
    relation_count = property(lambda self: 3)

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        found = self.table[relations, anchors] if side == "tail" else self.table[relations, :, anchors]
        return found.clone() if candidates is None else found[:, candidates]


def towns(seed: int = 0) -> tuple[Graph, Noisy, Triples]:
    """The graph with validation and test triples, a scorer, and the facts that are missing, as many as were hidden."""
    generator = np.random.default_rng(seed)
    clubs = np.arange(PEOPLE + TOWNS, ENTITIES)
    town_of_club = generator.integers(PEOPLE, PEOPLE + TOWNS, CLUBS)
    home = generator.integers(PEOPLE, PEOPLE + TOWNS, PEOPLE)
    facts = [(person, LIVES_IN, home[person]) for person in range(PEOPLE)]
    for person in range(PEOPLE):
        near = clubs[town_of_club == home[person]]
        chosen = generator.choice(near if len(near) else clubs, min(2, len(near) or 1), replace=False)
        facts += [(person, MEMBER_OF, club) for club in chosen]
    facts += [(club, LIES_IN, town) for club, town in zip(clubs.tolist(), town_of_club, strict=True)]
    truth = np.array(facts, np.int32)
    truth = truth[generator.permutation(len(truth))]
    hidden = len(truth) // 8
    missing, test, valid, train = np.split(truth, [hidden, 2 * hidden, 3 * hidden])
    return make_graph(train, valid, test, entities=ENTITIES, relations=3), Noisy(truth), missing
