from __future__ import annotations

from pathlib import Path

import pytest
from tests.runs.conftest import QUICK

import transher
from transher.errors import UsageError
from transher.graph.graph import Graph


@pytest.fixture(scope="module")
def shorter(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    recipe = QUICK.with_settings(["training.steps=20"])
    return transher.train(ring, tmp_path_factory.mktemp("runs") / "shorter", recipe=recipe)


def test_the_ranks_that_trainings_kept_are_compared(
    run: transher.Run, shorter: transher.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run.evaluate().overall.mrr, shorter.evaluate().overall.mrr
    monkeypatch.setattr("transher.runs.run.evaluate", lambda *_, **__: pytest.fail("ranked again"))
    comparison = transher.compare(run, shorter)
    assert (comparison.first_mrr, comparison.second_mrr) == pytest.approx(expected)
    assert comparison.queries == 2 * len(run.graph.test)


def test_another_split_is_ranked(run: transher.Run, shorter: transher.Run) -> None:
    comparison = transher.compare(run, shorter, "valid")
    assert comparison.first_mrr == pytest.approx(run.evaluate("valid").overall.mrr)


def test_runs_of_other_graphs_are_refused(run: transher.Run, tmp_path: Path) -> None:
    world = transher.train(transher.load_graph("world"), tmp_path / "world", recipe=QUICK)
    with pytest.raises(UsageError, match=r"another graph.*its entities are others"):
        transher.compare(run, world)
