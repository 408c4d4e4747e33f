"""The judge: from a triple to the probability that it holds, the same for everybody who asks.

**What a probability is.** Of all pairs of entities that could be facts of a relation, that are not known, and that look
like this one, the share that holds. Facts that were hidden from training say what holds: the validation split, or facts
that somebody knows to have been added later. So a probability assumes that the graph lacks as many facts as were
hidden; `missing share` says otherwise. Facts that nobody has written down count as false, so it is a lower bound.

**From hidden to missing.** Of the facts that training did not see, v were hidden and m are missing; which, is chance.
So a pair that holds with probability q is a hidden fact with probability c·q, where c = v / (v + m), and that is how q
is learned. Once the hidden facts are known, the pair is one of those that are missing, with probability

    P(missing | features) = (1 − c)·q / (1 − c·q)

At the top it matters: half of the cities whose country was not trained on have it among the hidden facts; of those that
do not, nearly all lack it.

**The model.** Gradient boosting over the features of `transher.answering.features`. There are several boosters, each
fitted without some of the heads. What each says of those heads calibrates it, and it alone judges them: an average of
boosters tells facts apart better than each of them, so a calibration of each would be too timid for the average. The
probability never falls when a score rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from transher.answering.features import Describer
from transher.answering.recent import fold_of
from transher.errors import UsageError
from transher.graph.known import KnownTriples
from transher.scorer import Scored

if TYPE_CHECKING:
    from lightgbm import Booster

Numbers = NDArray[np.float64]

_CERTAIN = 0.9  # from here on a probability comes nearer to 1 ever more slowly, where more is missing than fits
_LARGE = 700.0  # exp of more would overflow
_ROWS = 1 << 17  # described at a time


class Curve(NamedTuple):
    """A rising line of pieces from what the boosters say to log odds: through `levels` at `knots`, with slope 1 before
    the first and after the last. `misfit` is added where such entities do not stand: of these pairs, which are most of
    all, boosters see a sample that does not weigh what it stands for."""

    knots: tuple[float, ...]
    levels: tuple[float, ...]
    misfit: float = 0.0

    def __call__(self, raw: Numbers, fits: NDArray[np.bool_]) -> Numbers:
        """raw, fits: (n,)."""
        beyond = raw - np.clip(raw, self.knots[0], self.knots[-1])
        line = np.interp(raw, self.knots, self.levels) + beyond
        return np.asarray(np.where(fits, line, line + self.misfit), np.float64)


class Reason(NamedTuple):
    """A feature of a triple, its value, and by how much it moved the log odds against the average pair."""

    feature: str
    value: float
    effect: float


@dataclass(frozen=True)
class Verdicts:
    """What a judge has learned, as it is stored."""

    features: tuple[str, ...]
    boosters: tuple[str, ...]  # LightGBM's text format
    quick: str  # a booster of the features that take no rules
    start: float  # log odds that the boosters begin with
    curve: Curve
    hidden: int  # facts that it was fitted on
    known: int  # facts of the graph then
    later: bool  # whether they came later, and are not part of the graph


class Judge:
    """Log odds are what is compared: they are finer than probabilities that are almost 1."""

    def __init__(self, verdicts: Verdicts, describer: Describer, known: KnownTriples) -> None:
        """known: all that may be known when somebody asks."""
        self.verdicts, self.describer, self._known = verdicts, describer, known

    def log_odds(
        self, triples: NDArray[np.integer], missing_share: float | None = None, scored: Scored | None = None
    ) -> Numbers:
        """log(p / (1 − p)) of triples (n, 3): (n,). scored: what the scorer says of them, where that is at hand."""
        ratio = self._ratio(missing_share)
        found = np.empty(len(triples))
        for first in range(0, len(triples), _ROWS):
            part = slice(first, first + _ROWS)
            own = None if scored is None else scored.take(part)
            dense = None if own is None or own.dense is None else own.dense.numpy()
            rows = self.describer.first(triples[part], self._known, dense)
            found[part] = self._holding(triples[part], rows, own)
        return self._missing(found, ratio)

    def promising(
        self, triples: NDArray[np.integer], scores: NDArray[np.float32], least: float, most: int
    ) -> NDArray[np.int64]:
        """Which of triples (n, 3), by position, have log odds of at least `least`, but for rounding; the `most` best of
        them if they are more. scores: (n,), but for rules. A quick look that leaves out rules comes first."""
        found = np.full(len(triples), -np.inf)
        for first in range(0, len(triples), _ROWS):
            part = slice(first, first + _ROWS)
            rows = self.describer.first(triples[part], self._known, scores[part])
            quick = raw_scores(self._quick, rows) + self.verdicts.start
            kept = np.flatnonzero(quick >= least - _QUICK)
            found[first + kept] = self._missing(self._holding(triples[part][kept], rows[kept]), 1.0)
        chosen = np.flatnonzero(found >= least - _ROUNDING)
        if len(chosen) > most:
            chosen = np.sort(chosen[np.argpartition(-found[chosen], most - 1)[:most]])
        return chosen

    def reasons(self, triple: NDArray[np.integer]) -> list[Reason]:
        """What made the probability of a triple (3,) what it is, by Shapley values over the trees: the largest effects
        first. They add up to how far its log odds, of being a hidden fact, are from those of the average pair."""
        rows = triple[None]
        features = self.describer.whole(rows, self.describer.first(rows, self._known))
        own = self._boosters[int(fold_of(rows[:, 0], len(self._boosters))[0])]
        *effects, average = np.asarray(own.predict(features, pred_contrib=True))[0].tolist()
        raw = average + sum(effects)
        before, after = self.verdicts.curve(np.array([average, raw]), np.ones(2, np.bool_))
        slope = (after - before) / (raw - average) if raw != average else 1.0  # of the curve that calibrates
        values = zip(self.verdicts.features, features[0].tolist(), (slope * np.array(effects)).tolist(), strict=True)
        return sorted((Reason(*each) for each in values), key=lambda reason: -abs(reason.effect))

    @cached_property
    def _boosters(self) -> list[Booster]:
        return [read_booster(text) for text in self.verdicts.boosters]

    @cached_property
    def _quick(self) -> Booster:
        return read_booster(self.verdicts.quick)

    def _holding(
        self, triples: NDArray[np.integer], first: NDArray[np.float32], scored: Scored | None = None
    ) -> Numbers:
        """Log odds that a triple holds, before it is known which facts were hidden."""
        features = self.describer.whole(triples, first, scored)
        folds = fold_of(triples[:, 0], len(self._boosters))
        raw = np.full(len(triples), self.verdicts.start)
        for number, booster in enumerate(self._boosters):
            own = np.flatnonzero(folds == number)
            if len(own):
                raw[own] += raw_scores(booster, features[own])
        return self.verdicts.curve(raw, self.describer.fitting(features))

    def _missing(self, log_odds: Numbers, ratio: float) -> Numbers:
        """From the log odds that a triple holds to those that it is missing, where `ratio` facts are missing for each
        that was hidden; the judge was fitted as if it were one, c = ½."""
        if self.verdicts.later:  # the hidden facts still are missing
            return np.asarray(log_odds + np.log(ratio), np.float64)
        if ratio <= 1:  # P = ratio · q / (2 − q)
            rest = 2 + (1 - ratio) * np.exp(np.minimum(log_odds, _LARGE))
            return np.asarray(np.log(ratio) + log_odds - np.log(rest), np.float64)
        share = ratio * expit(log_odds) / (2 - expit(log_odds))
        over = np.maximum(share - _CERTAIN, 0) / (1 - _CERTAIN)
        # More is missing than fits: from here on 1 − P falls as an exponential, so that the order stays.
        beyond = np.log1p(-(1 - _CERTAIN) * np.exp(-over)) - (np.log1p(-_CERTAIN) - over)
        within = np.minimum(share, _CERTAIN)
        with np.errstate(divide="ignore"):
            return np.where(over > 0, beyond, np.log(within) - np.log1p(-within))

    def _ratio(self, missing_share: float | None) -> float:
        """How many facts are missing for each that was hidden."""
        if missing_share is None:
            return 1.0
        if not 0 < missing_share < 1:
            raise UsageError(
                "The missing share is how much of what holds the graph lacks, between 0 and 1, and not "
                f"{missing_share}."
            )
        return missing_share / (1 - missing_share) * self.verdicts.known / max(1, self.verdicts.hidden)


_QUICK = 4.0  # log odds by which the quick look may be too low: rules can be that much of a surprise
_ROUNDING = 0.05  # of log odds: scores that were computed in another way may fall on the other side of a split


def raw_scores(booster: Booster, features: NDArray[np.float32]) -> Numbers:
    """What a booster says of features (n, m), before it becomes a probability: (n,)."""
    return np.asarray(booster.predict(features, raw_score=True), np.float64)


def read_booster(text: str) -> Booster:
    """A booster from LightGBM's text format. One thread: a question asks about some hundred pairs."""
    from lightgbm import Booster

    booster = Booster(model_str=text)
    booster.params["num_threads"] = 1
    return booster
