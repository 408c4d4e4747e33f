"""Each model against its formula written out coordinate by coordinate, and its views of a triple against each other."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transher.graph.graph import SIDES
from transher.kernels import Positions
from transher.models import MODELS, Model
from transher.models.embeddings import Embeddings
from transher.models.seek import SEEK

GAMMA = 6.0
Vector = list[float]


def unit(v: Vector) -> Vector:
    length = math.sqrt(sum(x * x for x in v))
    return [x / length for x in v]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def norm(v: Vector) -> float:
    return math.sqrt(dot(v, v))


def numbers(v: Vector) -> list[complex]:
    half = len(v) // 2
    return [complex(re, im) for re, im in zip(v[:half], v[half:], strict=True)]


def transher(h: Vector, r: Vector, t: Vector, k: int) -> float:
    h, t = unit(h), unit(t)
    return GAMMA - sum(abs(r[i] * h[i] + r[2 * k + i] - r[k + i] * t[i]) for i in range(k))


def pairre(h: Vector, r: Vector, t: Vector, k: int) -> float:
    h, t = unit(h), unit(t)
    return GAMMA - sum(abs(r[i] * h[i] - r[k + i] * t[i]) for i in range(k))


def transe(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return GAMMA - sum(abs(h[i] + r[i] - t[i]) for i in range(k))


def transe_l2(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return GAMMA - norm([h[i] + r[i] - t[i] for i in range(k)])


def transh(h: Vector, r: Vector, t: Vector, k: int) -> float:
    w, d = unit(r[:k]), r[k:]
    h_in, t_in = ([v[i] - dot(w, v) * w[i] for i in range(k)] for v in (h, t))
    return GAMMA - norm([h_in[i] + d[i] - t_in[i] for i in range(k)])


def transr(h: Vector, r: Vector, t: Vector, k: int) -> float:
    M, d = [r[i * k : (i + 1) * k] for i in range(k)], r[k * k :]
    return GAMMA - norm([dot(M[i], h) + d[i] - dot(M[i], t) for i in range(k)])


def manifolde(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return GAMMA - abs(norm([h[i] + r[i] - t[i] for i in range(k)]) ** 2 - r[k] ** 2)


def rescal(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return sum(h[i] * r[i * k + j] * t[j] for i in range(k) for j in range(k))


def distmult(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return sum(h[i] * r[i] * t[i] for i in range(k))


def hole(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return sum(r[i] * h[j] * t[(i + j) % k] for i in range(k) for j in range(k))


def complex_(h: Vector, r: Vector, t: Vector, k: int) -> float:
    return sum((a * b * c.conjugate()).real for a, b, c in zip(numbers(h), numbers(r), numbers(t), strict=True))


def rotate(h: Vector, r: Vector, t: Vector, k: int) -> float:
    angles = [x * math.pi * k / (GAMMA + 2) for x in r]
    turned = [a * cmath.exp(1j * angle) for a, angle in zip(numbers(h), angles, strict=True)]
    return GAMMA - sum(abs(a - b) for a, b in zip(turned, numbers(t), strict=True))


def seek(h: Vector, r: Vector, t: Vector, k: int) -> float:
    d, n = 4, k // 4
    total = 0.0
    for x in range(d):
        for y in range(d):
            w = y if x % 2 == 0 else (x + y) % d
            sign = -1 if x % 2 == 1 and x + y >= d else 1
            total += sign * sum(r[x * n + i] * h[y * n + i] * t[w * n + i] for i in range(n))
    return total


FORMULAS: dict[str, Callable[[Vector, Vector, Vector, int], float]] = {
    "transher": transher,
    "pairre": pairre,
    "transe": transe,
    "transe-l2": transe_l2,
    "transh": transh,
    "transr": transr,
    "manifolde": manifolde,
    "rescal": rescal,
    "distmult": distmult,
    "hole": hole,
    "complex": complex_,
    "rotate": rotate,
    "seek": seek,
}


def scorer_of(name: str, k: int, entities: int, relations: int, seed: int) -> Embeddings:
    model = MODELS[name](k, GAMMA)
    generator = torch.Generator().manual_seed(seed)
    return Embeddings(
        model,
        torch.randn(entities, model.entity_width, generator=generator),
        torch.randn(relations, model.relation_width, generator=generator),
    )


def test_every_model_has_a_formula_here() -> None:
    assert set(FORMULAS) == set(MODELS)


@pytest.mark.parametrize("name", FORMULAS)
@given(quarter=st.integers(1, 4), seed=st.integers(0, 1000))
@settings(max_examples=10)
def test_scores_of_triples_heads_and_tails_equal_the_formula(name: str, quarter: int, seed: int) -> None:
    k, entities, relations = 4 * quarter, 5, 3
    scorer = scorer_of(name, k, entities, relations, seed)
    triples = torch.cartesian_prod(torch.arange(entities), torch.arange(relations), torch.arange(entities))
    expected = torch.tensor(
        [
            FORMULAS[name](
                scorer.entity_weights[h].tolist(),
                scorer.relation_weights[r].tolist(),
                scorer.entity_weights[t].tolist(),
                k,
            )
            for h, r, t in triples.tolist()
        ]
    )
    assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
    assert_close(scorer.score_triples(triples), expected)
    assert_close(scorer.score_triples(triples, "head"), expected)
    cube = expected.view(entities, relations, entities)
    anchors, asked_relations = torch.cartesian_prod(torch.arange(entities), torch.arange(relations)).unbind(1)
    tails = scorer.scores(anchors, asked_relations, "tail").view(entities, relations, entities)
    assert_close(tails, cube)
    heads = scorer.scores(anchors, asked_relations, "head").view(entities, relations, entities)
    assert_close(heads, cube.permute(2, 1, 0))


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("side", SIDES)
def test_gradients_of_cross_and_pairs_are_right(name: str, side: str) -> None:
    model = MODELS[name](4, GAMMA)
    torch.manual_seed(0)
    anchors, candidates = (torch.randn(n, model.entity_width, dtype=torch.float64) for n in (3, 3))
    relations = torch.randn(3, model.relation_width, dtype=torch.float64)

    def both(anchors: Tensor, relations: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        query = model.query(model.entities(anchors), relations, side)  # type: ignore[arg-type]
        seen = model.entities(candidates)
        return model.cross(query, seen), model.pairs(query, seen)

    inputs = [tensor.requires_grad_() for tensor in (anchors, relations, candidates)]
    assert torch.autograd.gradcheck(both, inputs)


@pytest.mark.parametrize("name", ["transher", "distmult", "rotate", "transr"])
def test_many_pools_and_own_negatives_score_as_a_shared_pool_does(name: str) -> None:
    model = MODELS[name](8, GAMMA)
    torch.manual_seed(0)
    rows, relations = torch.randn(20, model.entity_width), torch.randn(2, model.relation_width)
    rows.requires_grad_()
    index = torch.arange(6)
    pool = torch.tensor([[7, 9, 9, 11]])
    shared = model.batch_scores(rows, relations, Positions(index, index % 2, index + 6, pool), "tail")
    (gradient,) = torch.autograd.grad(shared[0].square().sum() + shared[1].square().sum(), rows)
    for pools in (2, 3, 6):  # the last: each positive's own
        parted = model.batch_scores(
            rows, relations, Positions(index, index % 2, index + 6, pool.expand(pools, 4)), "tail"
        )
        (its_gradient,) = torch.autograd.grad(parted[0].square().sum() + parted[1].square().sum(), rows)
        for mine, theirs in zip([*parted, its_gradient], [*shared, gradient], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_reciprocal_relations_ask_for_heads_as_tails() -> None:
    model = MODELS["transher"](4, GAMMA)
    torch.manual_seed(0)
    weights = torch.randn(5, 4), torch.randn(4, model.relation_width)
    scorer = Embeddings(model, *weights, reciprocal=True)
    plain = Embeddings(model, *weights)
    ids, relations = torch.tensor([0, 1]), torch.tensor([0, 1])
    torch.testing.assert_close(scorer.scores(ids, relations, "head"), plain.scores(ids, relations + 2, "tail"))
    torch.testing.assert_close(scorer.scores(ids, relations, "tail"), plain.scores(ids, relations, "tail"))


def test_dropped_coordinates_leave_the_distance() -> None:
    model = MODELS["transher"](6, GAMMA)
    torch.manual_seed(0)
    rows, relations = torch.randn(4, 6), torch.randn(1, 18)
    index = torch.tensor([0, 1])
    keep = torch.tensor([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    positive, negative = model.batch_scores(
        rows, relations, Positions(index, torch.zeros(2, dtype=torch.int64), index + 2, index[None]), "tail", keep
    )
    seen = model.entities(rows)
    first = (relations[0, 0] * seen[0, 0] + relations[0, 12] - relations[0, 6] * seen[2, 0]).abs()
    torch.testing.assert_close(positive, torch.stack([GAMMA - first, torch.tensor(GAMMA)]))
    assert negative[1].tolist() == [GAMMA, GAMMA]


def test_seek_refuses_segments_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        SEEK(6, GAMMA)


@pytest.mark.parametrize("name", MODELS)
def test_translation_is_the_part_called_b(name: str) -> None:
    model: Model = MODELS[name](4, GAMMA)
    rows = torch.randn(3, model.relation_width)
    translation = model.translation(rows)
    if name == "transher":
        torch.testing.assert_close(translation, rows[:, 8:])
    else:
        assert translation is None


@pytest.mark.parametrize("name", ["transher", "distmult"])
def test_a_prepared_scorer_gives_the_same_scores(name: str) -> None:
    scorer = scorer_of(name, 8, 20, 3, seed=0)
    prepared = scorer.prepared()
    ids, relations = torch.arange(5), torch.tensor([0, 1, 2, 0, 1])
    for side in SIDES:
        assert torch.equal(prepared.scores(ids, relations, side), scorer.scores(ids, relations, side))
    assert prepared.prepared() is prepared
