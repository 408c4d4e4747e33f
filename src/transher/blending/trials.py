"""What weights are fitted on: validation facts, each asked twice, with what every member says of the answer and of its
strongest rivals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.blending.blend import bent
from transher.blending.tallies import Tallies
from transher.deadline import slices
from transher.graph.graph import SIDES, Graph, Side
from transher.kernels import Known
from transher.scorer import SCORES, Scorer, as_known, asked_columns

_RIVALS = 100  # best candidates of each member
_NUMBERS = 1 << 26  # scores that are held: 256 MB
_FACTS = 12_000  # that are asked: rules take some milliseconds each
_SEED = 0


class Trials(NamedTuple):
    """q queries with c candidates each, the answer first, as m members score them."""

    scores: Tensor  # float32 (q, m, c)
    absent: Tensor  # bool (q, c): places without a candidate
    groups: Tensor  # int64 (q,): relation + side · relations
    facts: Tensor  # int64 (q,): both queries of a fact have its number
    relations: int

    def take(self, chosen: Tensor) -> Trials:
        return Trials(self.scores[chosen], self.absent[chosen], self.groups[chosen], self.facts[chosen], self.relations)

    def compared(self, bends: Sequence[float]) -> tuple[Tensor, Tensor]:
        """How far each candidate is above the answer by each member, (q, m, c), in units of the member's spread (m,):
        the standard deviation of its scores within a query."""
        values = torch.stack([bent(self.scores[:, number], bend) for number, bend in enumerate(bends)], 1)
        values = values.masked_fill(self.absent[:, None], torch.nan)
        within = values - values.nanmean(2, keepdim=True)
        spread = within.square().nanmean((0, 2)).sqrt().clamp_min(1e-6)
        return ((values - values[:, :, :1]) / spread[:, None]).nan_to_num_(0.0), spread


def ask(
    members: Sequence[Scorer], graph: Graph, tallies: Tallies | None = None, most: int = _NUMBERS, facts: int = _FACTS
) -> Trials:
    """The trials of a graph's validation facts, or of so many, or of as many as fit into `most` scores. What tallies
    say comes after the members. Only members name rivals."""
    width = 1 + len(members) * min(_RIVALS, len(graph.entities))
    facts = min(facts, max(1, most // (2 * width * len(members))))
    chosen = np.sort(np.random.default_rng(_SEED).permutation(len(graph.valid))[:facts])
    parts = [_of_side(members, graph, tallies, chosen, side) for side in SIDES]
    scores, absent, groups, numbers = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return Trials(scores, absent, groups, numbers, len(graph.relations))


def _of_side(
    members: Sequence[Scorer], graph: Graph, tallies: Tallies | None, chosen: NDArray[np.int64], side: Side
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, absent places, groups and facts, as in `Trials`, of the queries for `side` of the chosen facts. Facts
    with the same query come together, and it is asked once: rules take some milliseconds."""
    anchor = 0 if side == "tail" else 2
    chosen = chosen[np.lexsort(graph.valid[chosen][:, [1, anchor]].T)]
    triples = torch.from_numpy(graph.valid[chosen].astype(np.int64))
    anchors, relations, answers = asked_columns(triples, side)
    # The scores of all members against all entities are held at a time.
    size = min(SCORES // max(1, len(graph.entities) * len(members)), *(member.queries_at_a_time for member in members))
    found, ways = [], () if tallies is None else tallies.ways()
    for part in slices(len(chosen), max(1, size)):
        known = as_known(graph.known.answers(side), anchors[part].numpy(), relations[part].numpy())
        asked, query_of = torch.unique(torch.stack([anchors[part], relations[part]], 1), dim=0, return_inverse=True)
        everything = [member.scores(asked[:, 0], asked[:, 1], side)[query_of] for member in members]
        candidates, absent = _candidates(everything, known, answers[part])
        said = [scores.gather(1, candidates) for scores in everything]
        if tallies is not None:
            width = candidates.shape[1]
            given, by = (ids[part].repeat_interleave(width) for ids in (anchors, relations))
            counted = [tallies.pairs(way, given, by, side, candidates.reshape(-1)) for way in ways]
            said += [column.reshape(-1, width) for column in counted]
        found.append((torch.stack(said, 1), absent))
    scores, absent = (torch.cat(column) for column in zip(*found, strict=True))
    groups = relations + SIDES.index(side) * len(graph.relations)
    return scores, absent, groups, torch.from_numpy(chosen)


def _candidates(everything: Sequence[Tensor], known: Known, answers: Tensor) -> tuple[Tensor, Tensor]:
    """The answer and the best by each of several scores (B, entities), known answers aside, each once: ids (B, c), and
    the places (B, c) that stay empty, whose ids are those of the answer."""
    count = min(_RIVALS, everything[0].shape[1])
    aside = torch.zeros(everything[0].shape, dtype=torch.bool)
    aside[known.pairs()] = True
    rivals = torch.cat([scores.masked_fill(aside, -torch.inf).topk(count, 1).indices for scores in everything], 1)
    rivals = rivals.sort(1).values
    first = torch.zeros(len(rivals), 1, dtype=torch.bool)
    again = torch.cat([first, rivals[:, 1:] == rivals[:, :-1]], 1)
    absent = again | aside.gather(1, rivals) | (rivals == answers[:, None])
    candidates = torch.where(absent, answers[:, None], rivals)
    return torch.cat([answers[:, None], candidates], 1), torch.cat([first, absent], 1)
