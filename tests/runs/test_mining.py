"""A run of rules: mined, resumed, asked, and what it cannot do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from transher.answering.evidence import reasons
from transher.cli.main import main
from transher.errors import Interrupted, UsageError
from transher.graph.graph import Graph
from transher.runs.folder import MANIFEST_FILE
from transher.runs.joining import join
from transher.runs.run import Run, load
from transher.runs.train import resume, train
from transher.training.rule_recipe import RuleRecipe
from transher.training.watcher import Mined, Watcher


@pytest.fixture(scope="module")
def run(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(ring, tmp_path_factory.mktemp("runs") / "mined", model="rules")


def test_a_run_of_rules_answers_as_any_run(run: Run) -> None:
    again = load(run.folder)
    assert isinstance(again.recipe, RuleRecipe)
    assert again.manifest is not None
    metrics = again.kept_metrics()
    assert metrics is not None
    assert metrics["overall"]["mrr"] > 0.9
    answers = again.predict(head="e005", relation="r0", top=3)
    assert answers.iloc[0]["tail"] == "e006"
    assert len(again.score([("e005", "r0", "e006")]))
    evidence = again.explain("e005", "r0", "e006")
    assert evidence.rules[0].rule in ("x r0 y ⇐ y r1 x", "x r0 y ⇐ x r2 z, z r1 y", "x r0 y ⇐ x r2 z, y r0 z")
    assert evidence.rules[0].examples
    assert len(again.complete(best=5)) <= 5
    assert "rules" in repr(again)
    assert "rules" in again._repr_html_()
    assert list(again.history()["kind"].unique()) == ["report"]


def test_what_needs_embeddings_says_so_in_a_line(run: Run, tmp_path: Path) -> None:
    for ask in (
        lambda: run.embeddings(),
        lambda: run.export("numpy", tmp_path / "export"),
        lambda: join([run, load(run.folder)], tmp_path / "joined"),
        lambda: run.update([("e000", "r0", "e002")], tmp_path / "updated"),
    ):
        with pytest.raises(UsageError) as told:
            ask()
        assert len(str(told.value).splitlines()) == 1


class Stopper(Watcher):
    """Stops a mining after so many blocks, as a kill would."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def mined(self, mined: Mined) -> None:
        if mined.blocks == self.blocks:
            raise Interrupted("stopped")


def test_a_mining_that_was_stopped_is_resumed(ring: Graph, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        train(ring, folder, model="rules", watcher=Stopper(3))
    assert not (folder / MANIFEST_FILE).exists()
    resumed = resume(folder)
    triples = torch.from_numpy(ring.all_triples).long()
    assert torch.equal(resumed.scorer.score(triples), run.scorer.score(triples))


def test_the_command_shows_rules_in_words(run: Run) -> None:
    shown = CliRunner().invoke(main, ["rules", str(run.folder), "--relation", "r2", "--top", "3"])
    assert shown.exit_code == 0
    assert "x r2 y ⇐" in shown.output
    told = CliRunner().invoke(main, ["rules", str(run.folder), "--json", "--top", "1"])
    assert '"support"' in told.output


def test_minutes_are_for_rules_and_for_choices(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        main, ["train", "world", "--model", "pairre", "--minutes", "1", "--out", str(tmp_path / "run")]
    )
    assert told.exit_code != 0
    assert not (tmp_path / "run").exists()


def test_the_rule_behind_each_fact_is_told_in_a_sentence(run: Run, ring: Graph) -> None:
    facts = run.answering.judged(ring.test.astype(np.int64))
    told = reasons(run.answering, facts)
    assert len(told) == len(ring.test)
    assert all(" ⇐ " in sentence and " holds for " in sentence for sentence in told)
