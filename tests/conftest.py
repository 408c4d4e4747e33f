"""Small graphs that many tests share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import settings
from numpy.typing import NDArray

import transher.kernels  # noqa: F401 (an editable install compiles changed C++ as it is imported)
from transher.graph.graph import Graph
from transher.graph.vocabulary import Vocabulary

# The processes that tests start import the C++ that was compiled just now, and do not look for changes again.
os.environ["SKBUILD_EDITABLE_SKIP"] = str(Path(__file__).parents[1] / "build" / "editable")
# Tests run side by side: one core each, instead of all of them for everyone, and for the processes that they start.
# Threads that wait for each other crawl on a busy machine. `make sanitize` looks for races.
THREADS = os.environ.get("TRANSHER_TEST_THREADS", "1")
torch.set_num_threads(int(THREADS))
os.environ["OMP_NUM_THREADS"] = THREADS
# A machine with other work takes its time: how long an example takes says nothing about whether it is right.
settings.register_profile("patient", deadline=None)
settings.register_profile("nightly", deadline=None, max_examples=3000)
settings.load_profile("patient")

# A test that takes its device from this list also runs on a real GPU, where there is one: `pytest -m cuda`.
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU_AND_GPU = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, needs_gpu])]


def make_graph(
    train: Sequence[tuple[int, int, int]] | NDArray[Any],
    valid: Sequence[tuple[int, int, int]] | NDArray[Any] = (),
    test: Sequence[tuple[int, int, int]] | NDArray[Any] = (),
    *,
    entities: int | None = None,
    relations: int | None = None,
    **more: Any,
) -> Graph:
    """A graph of given ids, whose entities are called e000, e001, … and relations r0, r1, …"""
    splits = [np.array(part, dtype=np.int32).reshape(-1, 3) for part in (train, valid, test)]
    everything = np.concatenate(splits)
    entities = entities or int(everything[:, ::2].max()) + 1
    relations = relations or int(everything[:, 1].max()) + 1
    return Graph(
        "small",
        Vocabulary("entity", pa.array([f"e{i:03}" for i in range(entities)])),
        Vocabulary("relation", pa.array([f"r{i}" for i in range(relations)])),
        splits[0],
        splits[1],
        splits[2],
        **more,
    )


@pytest.fixture(scope="session")
def ring() -> Graph:
    """60 entities in a ring: r0 leads to the next, r1 back, r2 two on. Learnable, with something held out."""
    count = 60
    triples = [(i, 0, (i + 1) % count) for i in range(count)]
    triples += [(i, 1, (i - 1) % count) for i in range(count)]
    triples += [(i, 2, (i + 2) % count) for i in range(count)]
    held_out = triples[2::15]
    return make_graph([t for t in triples if t not in held_out], held_out[::2], held_out[1::2])
