"""What a rule is worth to a candidate, beside the other rules that predict it: fitted on validation triples.

A confidence is measured for each rule alone, and says little about how far to trust kinds of rules against each other:
a constant that is right in half of all cases may say more than a path of three steps that is. So the worth of a kind
has a weight and a power, and a decay says how much the second rule, the third and so on add. These few numbers are
those that make the answers of validation queries most likely, by the softmax over the answer and its strongest rivals.
They lean on values that are reasonable everywhere, so that few validation triples do little harm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit, logsumexp

from transher.deadline import slices
from transher.graph.graph import SIDES, Side
from transher.graph.known import KnownTriples
from transher.kernels.rules import COUNTED, KINDS, NONE, Column, Rows, RuleIndex, Steps, Worth, kinds
from transher.scorer import SCORES, as_known, asked_columns

Numbers = NDArray[np.float64]

USUAL = Worth((1.0,) * KINDS, (0.5,) * KINDS, 0.8)
_RIVALS = 40  # best candidates of a query
_TURNS = 2  # in each, the rivals that the worth so far puts first join those before
# How far numbers lean on the usual ones: standard deviations of their logarithms, and of the log odds of the decay. All
# weights together may be anything: they say how sure rules are.
_OF_WEIGHTS, _OF_POWERS, _OF_DECAY = 1.0, 0.5, 1.0
_BOUNDS = [(-6.0, 4.0)] * KINDS + [(-3.0, 1.5)] * KINDS + [(-4.0, 6.0)]
_ROUNDS = 60
_WORK, _FEWEST = 300_000_000, 60  # rules tried on candidates in a turn; triples, however much work that is


class _Trials(NamedTuple):
    """q queries with c candidates, the answer first, and every rule that predicts one of them."""

    absent: NDArray[np.bool_]  # (q, c): places without a candidate
    candidate: NDArray[np.int64]  # of each rule that fires: the candidate, counted through; (n,) each
    kind: NDArray[np.int64]
    log_strength: Numbers
    place: NDArray[np.int64]  # 0 for the strongest rule of a candidate


def fit_worth(steps: Steps, rows: Rows, validation: NDArray[np.integer], known: KnownTriples, sample: int) -> Worth:
    """What rules are worth, by validation triples (n, 3) or a sample of them."""
    chosen = _within_reach(steps, rows, validation, np.random.default_rng(0).permutation(len(validation))[:sample])
    triples = torch.from_numpy(np.ascontiguousarray(validation[chosen], dtype=np.int64))
    own, worth, parts = kinds(rows), USUAL, list[_Trials]()
    for _ in range(_TURNS):
        index = RuleIndex(steps, rows, worth)
        for part in slices(len(triples), max(1, SCORES // max(1, steps.entity_count))):
            parts += [_trials(index, own, triples[part], side, known) for side in SIDES]
        worth = _fitted(_joined(parts))
    return worth


def _within_reach(
    steps: Steps, rows: Rows, validation: NDArray[np.integer], chosen: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The first of the chosen triples: small, dense graphs have ten thousands of closed rules for each relation, all of
    which are tried on every candidate."""
    closed = np.bincount(rows[rows[:, Column.ANSWER] == NONE, Column.END], minlength=steps.relation_count)
    candidates = len(SIDES) * (1 + min(_RIVALS, steps.entity_count))
    work = np.cumsum(closed[validation[chosen, 1]] * candidates)
    return chosen[: max(_FEWEST, int(np.searchsorted(work, _WORK)))]


def _trials(
    index: RuleIndex, own: NDArray[np.int64], triples: torch.Tensor, side: Side, known: KnownTriples
) -> _Trials:
    """What rules say of triples (n, 3) and their rivals, as answers for a side. own: the kind of each rule."""
    anchors, relations, answers = asked_columns(triples, side)
    scores = index.score(anchors, relations, side == "tail")
    scores[as_known(known.answers(side), anchors.numpy(), relations.numpy()).pairs()] = -torch.inf
    best, rivals = scores.topk(min(_RIVALS, scores.shape[1]), dim=1)
    absent = ~torch.isfinite(best) | (rivals == answers[:, None])
    candidates = torch.cat([answers[:, None], rivals], 1)
    asked = triples[:, None].expand(-1, candidates.shape[1], -1).clone()
    asked[:, :, 2 if side == "tail" else 0] = candidates
    _, numbers, confidences = (found.numpy() for found in index.explain(asked.reshape(-1, 3), COUNTED))
    candidate, place = np.nonzero((numbers >= 0) & (confidences > 0))
    return _Trials(
        np.concatenate([np.zeros((len(absent), 1), np.bool_), absent.numpy()], 1),
        candidate,
        own[numbers[candidate, place]],
        np.log(-np.log1p(-confidences[candidate, place].astype(np.float64))),
        place,
    )


def _joined(parts: list[_Trials]) -> _Trials:
    sizes = np.cumsum([0, *(part.absent.size for part in parts)])
    moved = [part._replace(candidate=part.candidate + start) for part, start in zip(parts, sizes[:-1], strict=True)]
    return _Trials(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def _fitted(trials: _Trials) -> Worth:
    """The most likely worth, by the logarithms of weights and powers and the log odds of the decay."""
    from scipy.optimize import minimize

    usual = np.array([*np.log(USUAL.weights), *np.log(USUAL.powers), logit(USUAL.decay)])
    candidate, kind, place = trials.candidate, trials.kind, trials.place

    def loss(numbers: Numbers) -> tuple[float, Numbers]:
        weights, powers, decay = numbers[:KINDS], np.exp(numbers[KINDS:-1]), numbers[-1]
        bent = powers[kind] * trials.log_strength
        worth = np.exp(weights[kind] + bent - place * np.logaddexp(0, -decay))
        scores = np.bincount(candidate, worth, trials.absent.size).reshape(trials.absent.shape)
        scores = np.where(trials.absent, -np.inf, scores)
        normaliser = logsumexp(scores, axis=1, keepdims=True)
        errors = np.exp(scores - normaliser)
        errors[:, 0] -= 1
        moved = errors.reshape(-1)[candidate] * worth
        slope = np.concatenate(
            [
                np.bincount(kind, moved, KINDS),
                np.bincount(kind, moved * bent, KINDS),
                [(moved * place).sum() * expit(-decay)],
            ]
        )
        away = numbers - usual
        away[:KINDS] -= away[:KINDS].mean()
        pull = away / np.square([_OF_WEIGHTS] * KINDS + [_OF_POWERS] * KINDS + [_OF_DECAY])
        return float((normaliser[:, 0] - scores[:, 0]).sum() + away @ pull / 2), slope + pull

    found = minimize(loss, usual, jac=True, method="L-BFGS-B", bounds=_BOUNDS, options={"maxiter": _ROUNDS}).x
    weights, powers = np.exp(found[:KINDS]), np.exp(found[KINDS:-1])
    return Worth(tuple(weights.tolist()), tuple(powers.tolist()), float(expit(found[-1])))
