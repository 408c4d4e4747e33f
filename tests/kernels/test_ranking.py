"""Ranks and best candidates against brute force: ties, known answers, chunks, and embeddings that strain the bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.conftest import EXAMPLES, INTERPRETED
from torch import Tensor

from transher import kernels
from transher.kernels import Chunk, Known
from transher.models import MODELS
from transher.models.families import ScaledL1Model
from transher.models.model import Asked

relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)


def chunks_of(candidates: Tensor, size: int) -> Iterator[Chunk]:
    for first in range(0, len(candidates), size):
        yield first, candidates[first : first + size]


def random_known(B: int, N: int) -> Known:
    counts = torch.randint(0, 6, (B,))
    ends = counts.cumsum(0)
    return Known(ends - counts, ends, torch.cat([torch.randperm(N)[:c].int() for c in counts] + [torch.zeros(0).int()]))


def without(distances: Tensor, known: Known) -> Tensor:
    rows, ids = known.pairs()
    distances = distances.clone()
    distances[rows, ids] = torch.nan
    return distances


def embeddings(kind: str, B: int, N: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    q, s, e = torch.randn(B, k), torch.randn(3, k)[torch.arange(B) * 3 // max(B, 1)], torch.randn(N, k)
    if kind == "coarse":  # many exact ties
        return q.round(), s.round(), e.round()
    if kind == "skewed":  # some coordinates dwarf the others, some candidates lie far out, queries further still
        return q * 5, s * torch.logspace(-4, 2, k), e * torch.logspace(0, 2, N)[:, None]
    if kind == "equal":
        return q, s, e[:1].expand(N, k).clone()
    if kind == "broken":
        e[N // 2, 0], e[N // 3, k - 1], s[0] = torch.nan, torch.inf, 1e30
    return q, s, e


@relaxed
@given(
    kind=st.sampled_from(["plain", "coarse", "skewed", "equal", "broken"]),
    B=st.integers(1, 70),
    N=st.sampled_from([6, 7, 64, 65, 150]),
    k=st.sampled_from([1, 2, 8, 31, 65, 140]),
    chunk=st.sampled_from([1, 40, 1000]),
    seed=st.integers(0, 99),
)
def test_counts_are_those_of_brute_force(
    backend: str, kind: str, B: int, N: int, k: int, chunk: int, seed: int
) -> None:
    torch.manual_seed(seed)
    q, s, e = embeddings(kind, B, N, k)
    limits = kernels.scaled_l1_pairs(q, s, e[torch.randint(N, (B,))])
    known = random_known(B, N)
    better, tied = kernels.scaled_l1_count(q, s, limits, chunks_of(e, chunk), known)
    distances = without(kernels.scaled_l1_cross(q, s, e), known)
    if backend == "torch" and kind != "coarse":
        pytest.skip("without the native module, pairs and cross agree to rounding only")
    assert better.tolist() == (distances < limits[:, None]).sum(1).tolist()
    assert tied.tolist() == (distances == limits[:, None]).sum(1).tolist()


def test_a_large_group_with_near_ties_is_counted_exactly(backend: str) -> None:
    torch.manual_seed(0)
    B, N, k = (40, 70, 52) if INTERPRETED else (40, 700, 520)
    q, s = torch.randn(B, k), torch.randn(1, k).expand(B, k).contiguous()
    e = torch.randn(1, k) + 1e-6 * torch.randn(N, k)
    limits = kernels.scaled_l1_pairs(q, s, e[:B])
    better, tied = kernels.scaled_l1_count(q, s, limits, chunks_of(e, 3 * N // 7), Known.none(B))
    distances = kernels.scaled_l1_cross(q, s, e)
    if backend != "torch":
        assert better.tolist() == (distances < limits[:, None]).sum(1).tolist()
        assert tied.tolist() == (distances == limits[:, None]).sum(1).tolist()


@relaxed
@given(
    kind=st.sampled_from(["plain", "coarse", "equal"]),
    B=st.integers(1, 9),
    N=st.integers(6, 90),
    k=st.sampled_from([1, 9, 40 if INTERPRETED else 300]),
    size=st.sampled_from([1, 3, 10, 100]),
    chunk=st.sampled_from([7, 1000]),
    seed=st.integers(0, 99),
)
def test_the_best_are_those_of_a_full_sort(
    backend: str, kind: str, B: int, N: int, k: int, size: int, chunk: int, seed: int
) -> None:
    torch.manual_seed(seed)
    q, s, e = embeddings(kind, B, N, k)
    excluded = random_known(B, N)
    distances, ids = kernels.scaled_l1_top(q, s, chunks_of(e, chunk), size, excluded)
    full = without(kernels.scaled_l1_cross(q, s, e), excluded).nan_to_num(torch.inf)
    wanted, order = full.sort(dim=1, stable=True)
    order = order.masked_fill(wanted == torch.inf, -1)[:, :size]
    places = order.shape[1]
    assert torch.equal(distances[:, :places], wanted[:, :size])
    assert ids[:, :places].tolist() == order.tolist()
    assert (ids[:, places:] == -1).all()


@pytest.mark.parametrize("name", ["transher", "transe", "distmult", "rotate"])
def test_models_count_and_answer_alike(backend: str, name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name](12, 6.0)
    weights = torch.randn(50, model.entity_width)
    seen = model.entities(weights)
    query = model.query(seen[:20], torch.randn(20, model.relation_width), "tail")
    answers, known = torch.arange(20) + 7, random_known(20, 50)
    scores = model.cross(query, seen)
    if isinstance(model, ScaledL1Model):
        itself = Known(torch.arange(20), torch.arange(20) + 1, answers.int())
        asked = Asked(torch.arange(20), answers, seen[answers])
        better, tied = model.count_better(query, asked, chunks_of(seen, 17), itself)
        assert better.tolist() == (scores > scores.gather(1, answers[:, None])).sum(1).tolist()
        assert (tied == 0).all()
    best, ids = model.best(query, chunks_of(seen, 17), 8, known)
    assert torch.allclose(best, scores.gather(1, ids), atol=1e-5)
    for start, end, row in zip(known.starts, known.ends, ids.tolist(), strict=True):
        assert not set(row) & set(known.ids[start:end].tolist())


def test_normalised_rows_do_not_depend_on_their_neighbours(backend: str) -> None:
    rows = torch.randn(40, 77)
    together = kernels.normalise(rows)
    assert torch.allclose(together, torch.nn.functional.normalize(rows, dim=-1), atol=1e-6)
    if backend != "torch":
        assert torch.equal(together[11], kernels.normalise(rows[11:12])[0])
    assert (kernels.normalise(torch.zeros(2, 5)) == 0).all()


@pytest.mark.parametrize("B", [2, 20, 150])
def test_queries_of_many_relations_are_counted_and_answered_exactly(backend: str, B: int) -> None:
    torch.manual_seed(B)
    N, k = (160, 33) if INTERPRETED else (1100, 530)
    q, s, e = torch.randn(B, k), torch.randn(B, k), torch.randn(N, k)
    limits = kernels.scaled_l1_pairs(q, s, e[:B])
    better, tied = kernels.scaled_l1_count(q, s, limits, chunks_of(e, 2000), Known.none(B))
    distances = kernels.scaled_l1_cross(q, s, e)
    if backend != "torch":
        assert better.tolist() == (distances < limits[:, None]).sum(1).tolist()
        assert tied.tolist() == [1] * B
    nearest, ids = kernels.scaled_l1_top(q, s, chunks_of(e, 700), 5, Known.none(B))
    wanted, order = distances.sort(dim=1, stable=True)
    assert torch.equal(nearest, wanted[:, :5])
    assert torch.equal(ids, order[:, :5])
