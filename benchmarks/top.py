"""The ten best answers out of millions of entities, one query and many at once, against faiss and memory bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.settings import Settings, say
from benchmarks.timing import in_turns
from transher.kernels import native
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.training.settings import ModelSettings

TOP, MANY, RELATIONS = 10, 64, 535


def measure(settings: Settings) -> dict[str, Any]:
    entities, k = (250_000 if settings.quick else 2_500_000), 200
    say(f"top {TOP} of {entities:,} entities at k {k}")
    table, anchors, relations, scorers = queries(entities, k)
    sides = ours(scorers, anchors, relations)
    sides["read"] = lambda: native.loaded().read_all(native.threads(), table.view(-1))
    faiss_sides, agrees = _faiss(table, scorers["transe"], anchors, relations)
    times = in_turns(sides | faiss_sides, settings, settings.left, rounds=4)
    return settings.record(result(entities, k, times, agrees))


def result(entities: int, k: int, times: dict[str, Any], agrees: bool | None) -> dict[str, Any]:
    """What was measured. `agrees`: whether the answers are those of faiss, if it was asked."""
    return {
        "entities": entities,
        "k": k,
        "top": TOP,
        "many": MANY,
        "table_bytes": 4 * entities * k,
        "weights": "random",
        "sides": times,
        "same_answers_as_faiss": agrees,
    }


def queries(entities: int, k: int) -> tuple[Tensor, Tensor, Tensor, dict[str, Embeddings]]:
    """A table of random weights, anchors and relations (MANY,), and a scorer of each model on the table."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(entities, k, generator=generator)
    anchors = torch.randint(entities, (MANY,), generator=generator)
    relations = torch.randint(RELATIONS, (MANY,), generator=generator)
    return table, anchors, relations, {name: _scorer(name, table, generator) for name in ("transe", "transher")}


def ours(scorers: dict[str, Embeddings], anchors: Tensor, relations: Tensor) -> dict[str, Callable[[], Any]]:
    """One query and many at once, of each scorer."""
    return {
        f"{name}, {count}": partial(scorer.best, anchors[:count], relations[:count], "tail", TOP)
        for name, scorer in scorers.items()
        for count in (1, MANY)
    }


def _scorer(name: str, table: Tensor, generator: torch.Generator) -> Embeddings:
    model = build_model(ModelSettings(name=name, k=table.shape[1]))
    relations = 0.1 * torch.randn(RELATIONS, model.relation_width, generator=generator)
    return Embeddings(model, table, relations).prepared()


def _faiss(
    table: Tensor, scorer: Embeddings, anchors: Tensor, relations: Tensor
) -> tuple[dict[str, Callable[[], Any]], bool | None]:
    """faiss's exact index for L1, which TransE's distance is: the same queries, the same answers."""
    try:
        import faiss
    except ImportError:
        say("faiss is not installed: left out")
        return {}, None
    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlat(table.shape[1], faiss.METRIC_L1)
    index.add(table.numpy())
    queries = scorer.query(anchors, relations, "tail")[0].numpy()
    _, found = index.search(queries[:4], TOP)
    _, own = scorer.best(anchors[:4], relations[:4], "tail", TOP)
    sides: dict[str, Callable[[], Any]] = {
        f"faiss, {count}": partial(index.search, queries[:count], TOP) for count in (1, MANY)
    }
    return sides, bool((np.sort(found) == np.sort(own.numpy())).all())
