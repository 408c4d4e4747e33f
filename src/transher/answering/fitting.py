"""Fitting a judge: which pairs it learns from, and how far its trees may grow.

It learns from all pairs that are not known, of which the hidden facts hold and the others do not: all that are among
the best candidates of their head or of their tail. Queries of hidden facts all have an answer, other queries mostly
have none, so to learn from the former alone would promise far too much. Of pairs that are hopeless at a first look a
sample is taken, with weights; none of the promising ones is left out, since a few of them make all the difference at
the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from transher.answering.features import OF_ENTITIES, Describer
from transher.answering.judge import Curve, Judge, Verdicts, raw_scores
from transher.answering.levels import PLACES, Levels, from_best
from transher.answering.likelihood import HALF, derivatives, losses
from transher.answering.recent import FOLDS, Recent, fold_of
from transher.deadline import slices
from transher.evaluation.ranks import Progress
from transher.graph.encoding import triple_keys
from transher.graph.ends import Ends
from transher.graph.graph import SIDES, Graph, Side, Triples
from transher.graph.implied import Implied
from transher.graph.known import KnownTriples
from transher.rules import Rules, rules_of
from transher.scorer import Scorer, as_known

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

_BEST = 10  # candidates of a query that are looked at
_CANDIDATES = 4_000_000  # of all queries
_ROWS = 20_000, 150_000  # pairs that do not hold, for the trees: at least and at most,
_ROWS_PER_FACT = 60  # and for each hidden fact
_FIRST_ROWS = 60_000  # for the first look
_QUERIES = 1_500  # of each kind and side that are drawn
_BLOCK = 1 << 18  # pairs described at a time
_HEAVIEST = 50.0  # weight of a pair that was drawn, for the trees: more would shake them; the curve makes up for it
_ROUNDS, _PATIENCE, _QUICK_ROUNDS = 400, 20, 30
_FACTS_OF_DOUBT = 30  # hidden facts for each unit of what holds a leaf's value near nought
_KNOTS, _LEANING = 8, 0.3  # of the curve that calibrates; how much it leans on slope 1, in units of the loss
_TOP, _FEWEST = 0.02, 25  # share of the hidden facts that lie above those knots; the fewest above a further one
_FREE = 0.01  # the same of its height, and of the step down to pairs that do not fit
_SEED = 0

Numbers = NDArray[np.float64]


def fit_judge(
    scorer: Scorer,
    graph: Graph,
    *,
    rules: Rules | None = None,
    later: Triples | None = None,
    about: NDArray[np.integer] | None = None,
    implied_by: Sequence[int] = (),
    progress: Progress | None = None,
) -> Judge | None:
    """The judge of a scorer, with `rules` beside it, fitted on the validation triples, or on facts that came later;
    None where there are none.

    about: entities whose later facts are all given. Pairs and facts without any of them are left out.
    implied_by: relations along which facts follow from known ones. These pairs and facts are left out.
    """
    hidden = graph.valid if later is None else later[~graph.known.has(later)]
    if later is not None and about is not None:  # facts about others must not be seen: a trial may be on them
        hidden = hidden[np.isin(hidden[:, 0], about) | np.isin(hidden[:, 2], about)]
    known = graph.trained if later is None else graph.known
    implied = Implied(known, implied_by) if implied_by else None
    if implied is not None:
        hidden = hidden[~implied.has(hidden)]
    if not len(hidden):
        return None
    describer = describe(scorer, graph, rules, None if later is None else Recent.of(hidden, len(graph.relations)))
    pairs = _candidates(scorer, describer, graph, known, hidden, progress)
    if about is not None:
        pairs = pairs.take(np.isin(pairs.triples[:, 0], about) | np.isin(pairs.triples[:, 2], about))
    if implied is not None:
        pairs = pairs.take(~implied.has(pairs.triples))
    if not len(pairs.holds):  # whatever could be a fact is known
        return None
    trained = _trees(describer, pairs, known, HALF if later is None else 1.0)
    verdicts = Verdicts(describer.names, *trained, hidden=len(hidden), known=len(graph.known), later=later is not None)
    return Judge(verdicts, describer, graph.known)


def describe(scorer: Scorer, graph: Graph, rules: Rules | None, recent: Recent | None = None) -> Describer:
    """How triples of a graph are described for the judge of a scorer. recent: facts that came later, which it is
    fitted on."""
    ends = graph.trained_ends
    dense = scorer.dense_part
    levels = None if dense is None else Levels(dense, graph.trained, ends)
    blend = None if dense is None or scorer.dense else scorer
    return Describer(levels, rules_of(scorer) or rules, blend, graph.trained, ends, recent)


class Pairs(NamedTuple):
    """Triples (n, 3), whether each holds (n,), for how many like it each stands (n,), and its score (n,) by the dense
    part of the scorer, where it is at hand."""

    triples: Triples
    holds: NDArray[np.bool_]
    weights: Numbers
    scores: NDArray[np.float32] | None

    def take(self, chosen: NDArray[Any]) -> Pairs:
        return Pairs(*(None if column is None else column[chosen] for column in self))  # type: ignore[arg-type]


def _candidates(
    scorer: Scorer,
    describer: Describer,
    graph: Graph,
    known: KnownTriples,
    hidden: Triples,
    progress: Progress | None,
) -> Pairs:
    """The pairs that are not known among the best candidates of their head or of their tail: all of those that fit, and
    some of the others. Where facts that came later are learned from, also any head with their frequent tails."""
    levels, scores = describer.levels, None
    triples, weights = _drawn(scorer, describer, known, hidden, _QUERIES if scorer.dense else _QUERIES // 4)
    found = [] if describer.recent is None else _frequent(describer, describer.recent)
    if levels is not None and levels.all_fit:
        surveyed, scores = _survey(levels, describer, progress)
        fit = describer.ends.fits(triples)
        triples, weights, found = triples[~fit], weights[~fit], [surveyed, *found]
    triples = np.concatenate([*found, triples])
    weights = np.concatenate([np.ones(len(triples) - len(weights)), weights])
    if levels is not None and scores is not None:
        scores = np.concatenate([scores, levels.score(triples[len(scores) :])])
    keys, first = np.unique(_keys(graph, triples), return_index=True)
    holds = np.isin(keys, _keys(graph, hidden))
    pairs = Pairs(triples[first], holds, weights[first], None if scores is None else scores[first])
    plausible = describer.ends.plausible(pairs.triples)
    return pairs.take(plausible & ~known.has(pairs.triples))


def _frequent(describer: Describer, recent: Recent) -> list[Triples]:
    """Every head that fits with the tails that came most often: triples (n, 3) of each relation."""
    found = []
    for relation in range(describer.trained.relation_count):
        heads, tails = describer.ends.fitting(relation), recent.frequent(relation).astype(np.int32)
        pairs = np.repeat(heads, len(tails)), np.tile(tails, len(heads))
        found.append(np.stack([pairs[0], np.full(len(pairs[0]), relation, np.int32), pairs[1]], 1))
    return found


def _keys(graph: Graph, triples: Triples) -> NDArray[np.int64]:
    return triple_keys(triples, len(graph.entities), len(graph.relations))


def _survey(levels: Levels, describer: Describer, progress: Progress | None) -> tuple[Triples, NDArray[np.float32]]:
    """Go through all pairs that fit: keep the levels of every query, and give the best pairs (n, 3) with their scores
    (n,)."""
    count, ends = describer.trained.relation_count, describer.ends
    best = max(1, min(_BEST, _CANDIDATES // max(1, len(ends.entities))))
    kept: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}
    found: list[tuple[Triples, NDArray[np.float32]]] = []
    seen, total = 0, levels.pairs
    for relation in range(count):
        of_tails, of_heads = _Top(), []
        for block in levels.crossed(np.array([relation])):
            top = _Top().add(block.scores, 0)
            of_heads.append(from_best(top.best))
            found.append(_pairs(relation, block.heads, block.tails, top, best))
            of_tails.add(block.scores.T.contiguous(), len(block.heads))
            seen += block.scores.numel()
            if progress is not None:
                progress(seen, total)
        if not of_heads:
            continue
        heads, tails = ends.fitting(relation), ends.fitting(relation + count)
        turned, scores = _pairs(relation, tails, heads, of_tails, best)
        found.append((turned[:, [2, 1, 0]], scores))
        sides = (np.concatenate(of_heads), from_best(of_tails.best))
        for end, entities, values in zip((relation, relation + count), (heads, tails), sides, strict=True):
            values[:, -1] = levels.trained_means(end, entities)
            kept[end] = entities, values
    levels.keep(kept)
    if not found:
        return np.empty((0, 3), np.int32), np.empty(0, np.float32)
    return np.concatenate([triples for triples, _ in found]), np.concatenate([scores for _, scores in found])


class _Top:
    """The best candidates of n queries, of which some come by at a time: scores and positions (n, the last place)."""

    def __init__(self) -> None:
        self.best = self.places = torch.empty(0)
        self._seen = 0

    def add(self, scores: torch.Tensor, step: int) -> _Top:
        """Further candidates' scores (n, m); positions count on by `step`."""
        size = int(PLACES[-1])
        count = min(size, scores.shape[1])
        best, places = scores.topk(count, dim=1)
        places = places + self._seen
        if not len(self.best):
            self.best = torch.full((len(scores), size), -torch.inf)
            self.places = torch.zeros((len(scores), size), dtype=torch.int64)
        both = torch.cat([self.best, best], 1)
        self.best, order = both.topk(size, dim=1)
        self.places = torch.cat([self.places, places], 1).gather(1, order)
        self._seen += step
        return self


def _pairs(
    relation: int, anchors: NDArray[np.int32], answers: NDArray[np.int32], top: _Top, most: int
) -> tuple[Triples, NDArray[np.float32]]:
    """The best answers of each anchor as triples (n, 3), the anchor first, with their scores (n,)."""
    best = top.best[:, :most].numpy()
    rows, columns = np.nonzero(np.isfinite(best))
    chosen = top.places.numpy()[rows, columns]
    triples = np.stack([anchors[rows], np.full(len(rows), relation, np.int32), answers[chosen]], 1)
    return triples, best[rows, columns]


def _drawn(
    scorer: Scorer, describer: Describer, known: KnownTriples, hidden: Triples, most: int
) -> tuple[Triples, Numbers]:
    """The best candidates (n, 3), among all entities, of some queries, with weights (n,) for those that were not drawn.
    Of either side three kinds of queries are drawn apart, `most` of each: those with a hidden answer, others of an
    entity that fits, and all others, which are many and nearly hopeless."""
    generator, count = np.random.default_rng(_SEED), describer.trained.relation_count
    triples, weights = [np.empty((0, 3), np.int32)], [np.empty(0)]
    for side in SIDES:
        answered = np.unique(hidden[:, 0 if side == "tail" else 2].astype(np.int64) * count + hidden[:, 1])
        fitting = np.setdiff1d(_fitting_queries(describer.ends, count, side), answered)
        anything = generator.integers(0, describer.trained.entity_count * count, 4 * most)
        others = np.setdiff1d(anything, np.concatenate([answered, fitting]))
        left = describer.trained.entity_count * count - len(answered) - len(fitting)
        for queries, total in ((answered, len(answered)), (fitting, len(fitting)), (others, left)):
            chosen = np.sort(generator.permutation(queries)[:most])
            if not len(chosen):
                continue
            anchors, relations = np.divmod(chosen, count)
            ids = np.full((len(chosen), min(_BEST, scorer.entity_count)), -1)
            for part in slices(len(chosen), scorer.queries_at_a_time):
                excluded = as_known(known.answers(side), anchors[part], relations[part])
                given = torch.from_numpy(anchors[part]), torch.from_numpy(relations[part])
                ids[part] = scorer.best(*given, side, ids.shape[1], excluded)[1].numpy()
            rows, columns = np.nonzero(ids >= 0)
            pair = (anchors[rows], ids[rows, columns])
            heads, tails = pair if side == "tail" else pair[::-1]
            triples.append(np.stack([heads, relations[rows], tails], 1).astype(np.int32))
            weights.append(np.full(len(rows), total / len(chosen)))
    return np.concatenate(triples), np.concatenate(weights)


def _fitting_queries(ends: Ends, count: int, side: Side) -> NDArray[np.int64]:
    """The queries for `side` of entities that fit the other end, as anchor · relations + relation."""
    first = 0 if side == "tail" else count
    own = slice(ends.starts[first], ends.starts[first + count])
    relations = np.repeat(np.arange(count), np.diff(ends.starts[first : first + count + 1]))
    return ends.entities[own].astype(np.int64) * count + relations


def _trees(
    describer: Describer, pairs: Pairs, known: KnownTriples, share: float
) -> tuple[tuple[str, ...], str, float, Curve]:
    """Boosters, the quick one, what they begin with, and the curve that calibrates them. share: of what training did
    not see, how much was hidden."""
    generator = np.random.default_rng(_SEED)
    # As the trees weigh them: from farther down, the few trees of the first look would not reach the top.
    rate = float(pairs.holds.sum() / np.minimum(pairs.weights, _HEAVIEST).sum())
    start = float(logit(min(max(rate, 1e-9), 0.5 * share) / share))
    first = _in_blocks(len(pairs.holds), lambda part: _first(describer, pairs, part, known))
    even, weights = _chosen(pairs, np.ones(len(pairs.holds)), _FIRST_ROWS, generator)
    learning = _Learning(describer.rising_of(describer.first_names), start, share)
    quick = learning.booster(_Rows(first[even], pairs.holds[even], weights[0]))
    most = int(np.clip(_ROWS_PER_FACT * pairs.holds.sum(), *_ROWS))
    chosen, weights = _chosen(pairs, expit(start + raw_scores(quick, first)), most, generator)
    learned, first = pairs.take(chosen), first[chosen]
    features = _in_blocks(len(chosen), lambda part: describer.whole(learned.triples[part], first[part]))
    rows = _Rows(_coarse(features, describer.names), learned.holds, weights[0])
    learning = learning._replace(rising=describer.rising_of(describer.names))
    folds, said = list(_folds(learned)), np.empty(len(chosen))
    with ThreadPoolExecutor(max(1, min(len(folds), torch.get_num_threads()))) as threads:
        boosters = list(threads.map(lambda fold: learning.booster(*(rows.take(part) for part in fold)), folds))
    for booster, (_, others) in zip(boosters, folds, strict=True):
        said[others] = start + raw_scores(booster, features[others])
    curve = _fit_curve(said, describer.fitting(features), learned.holds, weights[1], share)
    return tuple(booster.model_to_string() for booster in boosters), quick.model_to_string(), start, curve


def _coarse(features: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float32]:
    """Features (n, m) to learn from, with the counts of entities' facts rounded to powers of two. By exact counts trees
    would tell a frequent entity from all others, and remember how many of its facts were hidden."""
    found, counts = features.copy(), [names.index(name) for name in OF_ENTITIES]
    with np.errstate(divide="ignore"):  # 0 stays 0
        found[:, counts] = np.exp2(np.round(np.log2(features[:, counts])))
    return found


def _first(describer: Describer, pairs: Pairs, part: slice, known: KnownTriples) -> NDArray[np.float32]:
    return describer.first(pairs.triples[part], known, None if pairs.scores is None else pairs.scores[part])


def _in_blocks(count: int, describe: Callable[[slice], NDArray[np.float32]]) -> NDArray[np.float32]:
    """What `describe` makes of consecutive slices of 0…count, one below the other."""
    return np.concatenate([describe(slice(first, first + _BLOCK)) for first in range(0, max(1, count), _BLOCK)])


def _chosen(
    pairs: Pairs, looked: Numbers, most: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], tuple[Numbers, Numbers]]:
    """All pairs that hold and some `most` of the others, the promising ones at a first look before all: positions,
    and weights for trees and for the curve."""
    others = np.flatnonzero(~pairs.holds)
    weights = np.minimum(pairs.weights[others], _HEAVIEST)
    hopes = looked[others] * weights
    # Half by the first look and half evenly: a pair that was misjudged at first must not stand for a million others.
    worth = hopes / max(float(hopes.sum()), 1e-12) + weights / max(float(weights.sum()), 1e-12)
    chance, factor = np.minimum(1.0, worth), 1.0
    for _ in range(40):  # so that the chances add up
        chance = np.minimum(1.0, factor * worth)
        factor *= min(most, len(others)) / max(float(chance.sum()), 1e-12)
    drawn = generator.random(len(others)) < chance
    holds = np.flatnonzero(pairs.holds)
    chosen = np.concatenate([holds, others[drawn]])
    factors = np.concatenate([np.ones(len(holds)), 1 / chance[drawn]])
    # Facts that hold are all there, whichever query found them.
    weights = np.where(pairs.holds[chosen], 1.0, pairs.weights[chosen])
    return chosen, (np.minimum(weights, _HEAVIEST) * factors, weights * factors)


def _folds(rows: Pairs) -> Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Positions to learn from and to try on, by head. Trees can tell an entity by its degree, and would remember its
    answers: they are tried on heads that are new to them."""
    for count in range(FOLDS, 1, -1):
        folds = fold_of(rows.triples[:, 0], count)
        found = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(count)]
        if all(len(inside) and len(outside) for inside, outside in found):
            return found
    everything = np.arange(len(rows.triples))  # of a graph with a single head or two
    return [(everything, everything)]


class _Rows(NamedTuple):
    """Features (n, m) of pairs, whether each is a hidden fact (n,), and weights (n,)."""

    features: NDArray[np.float32]
    holds: NDArray[np.bool_]
    weights: Numbers

    def take(self, chosen: NDArray[np.int64]) -> _Rows:
        return _Rows(self.features[chosen], self.holds[chosen], self.weights[chosen])


class _Learning(NamedTuple):
    """How boosters learn: with which features the probability may only rise, the log odds that all begin with, and how
    much of what training did not see was hidden."""

    rising: tuple[bool, ...]
    start: float
    share: float

    def booster(self, rows: _Rows, trial: _Rows | None = None) -> Booster:
        """A booster that ends when it no longer helps the trial; without one, a quick one of few trees."""
        import lightgbm

        settings = self._settings(rows) | {"learning_rate": 0.2 if trial is None else 0.12}
        data = self._data(rows, settings)
        if trial is None:
            return lightgbm.train(settings, data, _QUICK_ROUNDS)
        stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
        return lightgbm.train(
            settings,
            data,
            _ROUNDS,
            valid_sets=[self._data(trial, settings, data)],
            feval=self._loss,
            callbacks=[stop],
        )

    def _data(self, rows: _Rows, settings: dict[str, Any], reference: Dataset | None = None) -> Dataset:
        import lightgbm

        start = np.full(len(rows.holds), self.start)
        binning = {name: settings[name] for name in ("max_bin", "min_data_in_leaf", "verbose")}
        return lightgbm.Dataset(
            rows.features, rows.holds.astype(np.float32), reference, rows.weights, init_score=start, params=binning
        )

    def _settings(self, rows: _Rows) -> dict[str, Any]:
        """A leaf stands for enough facts not to be a memory."""
        share = self.share

        def push(z: Numbers, data: Dataset) -> tuple[Numbers, Numbers]:
            holds, weights = _labels(data)
            slope, curvature = derivatives(z, holds, share)
            return weights * slope, weights * curvature

        return {
            "objective": push,
            "metric": "none",
            "num_leaves": 16,
            "max_bin": 63,
            "min_data_in_leaf": int(np.clip(len(rows.holds) // 400, 5, 300)),
            "min_sum_hessian_in_leaf": float(np.clip(rows.holds.sum() / 40, 1, 20)),
            # A pair that surely holds tells next to nothing: without this, a leaf of such pairs jumps to any height.
            "lambda_l2": max(3.0, float(rows.holds.sum()) / _FACTS_OF_DOUBT),
            "feature_fraction": 0.7,
            "monotone_constraints": [int(rises) for rises in self.rising],
            "num_threads": 1,  # threads that wait for each other crawl on a busy machine
            "deterministic": True,
            "seed": _SEED,
            "verbose": -1,
        }

    def _loss(self, z: Numbers, data: Dataset) -> tuple[str, float, bool]:
        holds, weights = _labels(data)
        return "loss", float((weights * losses(z, holds, self.share)).sum() / weights.sum()), False


def _labels(data: Dataset) -> tuple[NDArray[np.bool_], Numbers]:
    """Whether each row is a hidden fact, and weights, which LightGBM forgets where all are 1."""
    weights = data.get_weight()
    holds = np.asarray(data.get_label()) > 0.5
    return holds, np.ones(len(holds)) if weights is None else np.asarray(weights, np.float64)


def _knots(raw: Numbers, holds: NDArray[np.bool_]) -> Numbers:
    """Ends of pieces with as many hidden facts in each; the top is halved down to a few of them and reaches to the
    highest, since the facts that are shown first lie there, and trees are surest of them."""
    if not holds.any():
        return np.zeros(1)
    few = _TOP / np.exp2(np.arange(1, 10))
    few = few[few * holds.sum() >= _FEWEST]
    shares = np.concatenate([np.linspace(_TOP, 1 - _TOP, _KNOTS), 1 - few])
    return np.unique(np.append(np.quantile(raw[holds], shares), raw.max()))


def _fit_curve(
    raw: Numbers, fits: NDArray[np.bool_], holds: NDArray[np.bool_], weights: Numbers, share: float
) -> Curve:
    """The most likely rising line of pieces, leaning on slope 1, and the step down to pairs that do not fit."""
    knots = _knots(raw, holds)
    steps = np.diff(knots)
    # How far each value reaches into each piece: (n, pieces).
    reach = np.clip(raw[:, None] - knots[:-1], 0, steps) if len(steps) else np.zeros((len(raw), 0))
    beyond = raw - np.clip(raw, knots[0], knots[-1])

    leaning = np.append(np.full(len(steps), _LEANING), [_FREE, _FREE])

    def loss(line: Numbers) -> tuple[float, Numbers]:
        slopes, offset, misfit = np.exp(line[:-2]), line[-2], line[-1]
        z = knots[0] + offset + beyond + reach @ slopes + np.where(fits, 0.0, misfit)
        errors = weights * derivatives(z, holds, share)[0]
        total = float((weights * losses(z, holds, share)).sum()) + float(leaning @ np.square(line))
        moved = np.append((reach.T @ errors) * slopes, [errors.sum(), errors[~fits].sum()])
        return total, moved + 2 * leaning * line

    bounds = [(-3.0, 3.0)] * len(steps) + [(-10.0, 10.0), (-20.0, 0.0)]
    line = minimize(loss, np.zeros(len(steps) + 2), jac=True, bounds=bounds).x
    levels = knots[0] + line[-2] + np.concatenate([[0.0], np.cumsum(steps * np.exp(line[:-2]))])
    return Curve(tuple(knots.tolist()), tuple(levels.tolist()), float(line[-1]))
