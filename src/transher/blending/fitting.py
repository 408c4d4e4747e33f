"""Fitting a blend's weights on validation facts.

The weights of a relation and side are those that make the answers most likely: the softmax of the blended scores over
the strongest candidates. First one vector of weights for all queries, then one for each relation and side whose
logarithm leans on the common one (a normal prior), so that few facts cannot move it far. How much it leans, and how
rules' scores are bent, is chosen by cross-validation: the MRR on facts that were left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import numpy as np
import torch
from torch import Tensor

from transher.blending.blend import Blend, Weights
from transher.blending.tallies import WAYS, Tallies
from transher.blending.trials import Trials, ask
from transher.deadline import slices
from transher.errors import UsageError
from transher.graph.graph import SIDES, Graph
from transher.scorer import Scorer

_BENDS = (0.0, 3.0, 30.0, 300.0)  # of members that are nothing but rules
_LEANINGS = (None, 30.0, 10.0, 3.0, 1.0, 0.3)  # precision of the prior; None is one vector for all
_WEAK = 1e-2  # precision of the common weights' own prior around 1 / members
_FOLDS = 4
_TRIALS = 4_000  # queries that bends are chosen by
_SEED = 0
_ROUNDS = 25
_LARGEST_STEP = 2.0  # of the logarithm of a weight
_BLOCK = 1 << 22  # scores at a time: 16 MB
_NOTHING = -2e-4  # of MRR, that a member must be worth
_ENOUGH = 1e-3  # what a step must promise in log likelihood to be worth it


def fit_blend(members: Sequence[Scorer], graph: Graph) -> Blend:
    """The blend of some scorers of a graph with the weights that suit its validation facts best."""
    if not len(graph.valid):
        raise UsageError(f"The graph '{graph.name}' has no validation triples to fit the weights of a blend on.")
    tallies = Tallies.of(graph)
    ways, count = tallies.ways(), len(members)
    plain = [*(member.dense_part is not None for member in members), *[True] * WAYS]
    fitted = fit_weights(ask(members, graph, tallies), plain)
    worth = torch.zeros(ways.shape[1:])
    for number, side in enumerate(SIDES):
        ends = graph.trained.end(np.arange(len(graph.relations)), side)
        worth[ends] = torch.einsum("wr,wrl->rl", fitted.values[count:, number], ways[:, ends])
    weights = Weights(fitted.values[:count].contiguous(), fitted.bends[:count], worth)
    return Blend(members, weights, tallies)


def fit_weights(trials: Trials, plain: Sequence[bool]) -> Weights:
    """The weights of members from what they say in trials. plain: (m,), whose scores are not bent: a bend is for scores
    that are never negative, those of rules."""
    with _one_thread():
        bends = _bends(trials, plain)
        above, spread = trials.compared(bends)
        leaning = _LEANINGS[int(np.argmax(_tried(trials, above, _LEANINGS)))]
        fitted = _fit(trials, above, _common(trials, above), leaning).exp() / spread
    return Weights(fitted.T.reshape(len(plain), 2, trials.relations).float().contiguous(), bends)


def helpful(
    trials: Trials, plain: Sequence[bool], least: int = 2, beside: Sequence[int] = ()
) -> tuple[list[int], float]:
    """The members, by their numbers, without those that the others do as well without, and the MRR of their blend on
    facts that common weights were fitted without. plain: (m,), as in `fit_weights`. beside: numbers that stay in every
    blend and are no members."""
    with _one_thread():
        above, _ = trials.compared(_bends(trials, plain))
        kept = [number for number in range(len(plain)) if number not in beside]
        worth = _worth(trials, above, [*kept, *beside])
        while len(kept) > least:
            fewer = [[number for number in kept if number != out] for out in kept]
            worths = [_worth(trials, above, [*numbers, *beside]) for numbers in fewer]
            best = int(np.argmax(worths))
            if worths[best] < worth + _NOTHING:
                break
            kept, worth = fewer[best], worths[best]
    return kept, worth


def _bends(trials: Trials, plain: Sequence[bool]) -> tuple[float, ...]:
    """How the members' scores are best bent, by some of the trials: few numbers are chosen."""
    choices = list(product(*((0.0,) if as_it_is else _BENDS for as_it_is in plain)))
    if len(choices) == 1:
        return choices[0]
    some = trials.take(torch.randperm(len(trials.facts), generator=torch.Generator().manual_seed(_SEED))[:_TRIALS])
    return choices[int(np.argmax([_tried(some, some.compared(bends)[0], (None,))[0] for bends in choices]))]


def _worth(trials: Trials, above: Tensor, numbers: list[int]) -> float:
    """MRR of a blend of some members, with common weights, on facts that these were fitted without."""
    return _tried(trials, above[:, numbers], (None,))[0]


@contextmanager
def _one_thread() -> Iterator[None]:
    """The tensors are small, and threads that wait for each other crawl on a busy machine: a fit took eight times as
    long with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tried(trials: Trials, above: Tensor, leanings: Sequence[float | None]) -> list[float]:
    """MRR on facts that weights were fitted without, for each leaning."""
    reciprocal = torch.zeros(len(leanings), len(above))
    # Dealt at random: facts often lie in the order of their relations. Both queries of a fact are in one fold.
    numbers, number_of = torch.unique(trials.facts, return_inverse=True)
    dealt = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(_SEED))[number_of] % _FOLDS
    for fold in range(_FOLDS):
        out = dealt == fold
        inside, outside = torch.nonzero(~out)[:, 0], torch.nonzero(out)[:, 0]
        seen, own = trials.take(inside), above[inside]
        common = _common(seen, own)
        for number, leaning in enumerate(leanings):
            weights = _fit(seen, own, common, leaning).exp()[trials.groups[outside]]
            reciprocal[number, outside] = 1 / _ranks(above[outside], trials.absent[outside], weights)
    found: list[float] = reciprocal.mean(1).tolist()
    return found


def _ranks(above: Tensor, absent: Tensor, weights: Tensor) -> Tensor:
    """Ranks (q,) of the answers, ties in the middle, by weights (q, m)."""
    ahead = _blended(above, absent, weights)[:, 1:]
    return 1 + (ahead > 0).sum(1) + (ahead == 0).sum(1) / 2


def _blended(above: Tensor, absent: Tensor, weights: Tensor) -> Tensor:
    return torch.bmm(weights[:, None], above)[:, 0].masked_fill(absent, -torch.inf)


def _common(trials: Trials, above: Tensor) -> Tensor:
    """Logarithms of the weights (1, m) that suit all queries together."""
    members = above.shape[1]
    first = torch.full((1, members), 1 / members).log()
    return _climbed(above, trials.absent, torch.zeros_like(trials.groups), first, _WEAK)


def _fit(trials: Trials, above: Tensor, common: Tensor, leaning: float | None) -> Tensor:
    """Logarithms of the weights (2 · relations, m) of every relation and side; without a leaning, the common ones."""
    everywhere = common.expand(2 * trials.relations, -1)
    return everywhere if leaning is None else _climbed(above, trials.absent, trials.groups, everywhere, leaning)


def _climbed(above: Tensor, absent: Tensor, groups: Tensor, prior: Tensor, precision: float) -> Tensor:
    """The most likely logarithms of weights (g, m) of g groups under a normal prior around `prior` (g, m), by steps of
    Levenberg and Marquardt that all groups take side by side."""
    place = prior.clone()
    damping = torch.full((len(prior),), 1e-3)
    loss, gradient, curvature = _loss(above, absent, groups, place, prior, precision)
    for _ in range(_ROUNDS):
        step = torch.linalg.solve(curvature + torch.diag_embed(damping[:, None].expand_as(place)), -gradient)
        step = step.clamp(-_LARGEST_STEP, _LARGEST_STEP)
        if float((gradient * step).sum(1).min()) > -_ENOUGH:
            break
        tried = _loss(above, absent, groups, place + step, prior, precision)
        better = tried[0] < loss
        place = torch.where(better[:, None], place + step, place)
        gradient = torch.where(better[:, None], tried[1], gradient)
        curvature = torch.where(better[:, None, None], tried[2], curvature)
        loss = torch.where(better, tried[0], loss)
        damping = torch.where(better, damping / 4, damping.clamp_min(1e-2) * 10)
    return place


def _loss(
    above: Tensor, absent: Tensor, groups: Tensor, place: Tensor, prior: Tensor, precision: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each of g groups the negative log posterior (g,), its gradient (g, m) and the expected curvature (g, m, m)."""
    count, members = place.shape
    away = place - prior
    loss, gradient = precision / 2 * away.square().sum(1), precision * away
    curvature = precision * torch.eye(members).repeat(count, 1, 1)
    weights = place.exp()
    for part in slices(len(above), max(1, _BLOCK // max(1, above.shape[2] * members))):
        own, group = weights[groups[part]], groups[part]
        blended = _blended(above[part], absent[part], own)
        seen = above[part] * own[:, :, None]  # how the blended score moves with the logarithm of a weight
        shared = seen * blended.softmax(1)[:, None]
        mean = shared.sum(2)
        square = torch.bmm(shared, seen.transpose(1, 2)) - mean[:, :, None] * mean[:, None]
        loss = loss.index_add(0, group, blended.logsumexp(1))
        gradient = gradient.index_add(0, group, mean)
        curvature = curvature.index_add(0, group, square)
    return loss, gradient, curvature
