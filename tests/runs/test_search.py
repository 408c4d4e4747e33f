from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner
from tests.conftest import make_graph

from transher.cli.main import main
from transher.errors import InputError, UsageError
from transher.files import alone
from transher.graph.graph import Graph
from transher.runs.search import BEST_FILE, Range, default_space, outcome, search
from transher.training.recipe import Recipe
from transher.training.watcher import SearchWatcher

BASE = Recipe().with_settings(
    [
        "model.k=8",
        "training.steps=40",
        "training.batch=32",
        "training.negatives=8",
        "validation.every=10",
        "validation.report_every=5",
    ]
)
SPACE = [Range.parse(text, Recipe()) for text in ("training.lr=log:1e-4:1e-1", "model.init=U_N_N,N_U_N")]


class Counting(SearchWatcher):
    def __init__(self) -> None:
        self.ends: list[str] = []

    def ended(self, number: int, mrr: float | None, how: str) -> None:
        self.ends.append(how)


def test_the_best_recipe_is_written_and_can_be_trained(ring: Graph, tmp_path: Path) -> None:
    found = search(ring, tmp_path, recipe=BASE, space=SPACE, trials=3)
    assert Recipe.load(tmp_path / BEST_FILE) == found.recipe
    assert found.finished == 3
    assert found.recipe.training.steps == 40
    assert 0 < found.mrr <= 1
    assert not list(tmp_path.glob("trial-*"))


def test_a_search_goes_on_and_keeps_its_trials(ring: Graph, tmp_path: Path) -> None:
    first = search(ring, tmp_path, recipe=BASE, space=SPACE, trials=3)
    second = search(ring, tmp_path, recipe=BASE, space=SPACE, trials=3)
    assert second.finished + second.pruned == 6
    assert second.mrr >= first.mrr
    assert set(second.importance) <= {"training.lr", "model.init"}
    assert sum(second.importance.values()) == pytest.approx(1) or not second.importance


def test_what_a_killed_search_was_at_is_tried_again(ring: Graph, tmp_path: Path) -> None:
    class Kill(SearchWatcher):
        def progressed(self, number: int, step: int, steps: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1, watcher=Kill())
    search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'search.db'}")
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE"]
    assert study.trials[0].params == study.trials[1].params


def test_hopeless_trials_end_early(ring: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number > 0)
    watcher = Counting()
    found = search(ring, tmp_path, recipe=BASE, space=SPACE, trials=2, watcher=watcher)
    assert watcher.ends == ["finished", "pruned"]
    assert found.pruned == 1


def test_time_ends_a_search_in_the_middle_of_a_trial(ring: Graph, tmp_path: Path) -> None:
    long = BASE.with_settings(["training.steps=1000000"])
    watcher = Counting()
    found = search(ring, tmp_path, recipe=long, space=SPACE, minutes=0.02, watcher=watcher)
    assert watcher.ends == ["out of time"]
    assert found.mrr > 0  # of the validations that there was time for


def test_another_search_in_the_same_folder_is_refused(ring: Graph, tmp_path: Path) -> None:
    search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)
    with pytest.raises(UsageError, match="another space"):
        search(ring, tmp_path, recipe=BASE, space=SPACE[:1], trials=1)
    with pytest.raises(UsageError, match="another recipe"):
        search(ring, tmp_path, recipe=BASE.with_settings(["model.k=4"]), space=SPACE, trials=1)
    with pytest.raises(UsageError, match="another graph"):
        search(replace(ring, train=ring.train[1:]), tmp_path, recipe=BASE, space=SPACE, trials=1)
    with alone(tmp_path / ".lock", "it"), pytest.raises(UsageError, match="another process"):
        search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)


def test_a_search_that_goes_on_does_not_begin_again(ring: Graph, tmp_path: Path) -> None:
    for _ in range(3):
        search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'search.db'}")
    assert len({trial.params["training.lr"] for trial in study.trials}) == 3


def test_a_training_that_failed_is_not_the_best(ring: Graph, tmp_path: Path) -> None:
    found = search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path / 'search.db'}")
    trial = study.ask()
    for part in SPACE:
        part.suggest(trial)
    trial.report(1.0, 10)
    study.tell(trial, state=optuna.trial.TrialState.FAIL)
    assert outcome(study, BASE) == replace(found, failed=1)


def test_a_damaged_database_is_named(ring: Graph, tmp_path: Path) -> None:
    (tmp_path / "search.db").write_text("no database")
    with pytest.raises(InputError, match=r"search\.db: cannot be used"):
        search(ring, tmp_path, recipe=BASE, space=SPACE, trials=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.lrr=1,2", "^space.*training.lr"),
        ("training.lr=log:1", "KEY=a,b,c"),
        ("training.lr=2:1", "below the second"),
        ("training.lr=log:0:1", "above 0"),
        ("training.lr=1e-3:inf", "finite"),
        ("training.lr=-2:-1", "greater than 0"),
        ("training.negatives=log:0.5:9", "whole numbers"),
        ("model.init=U_N_N,X", "model.init"),
    ],
)
def test_a_wrong_space_is_an_error_that_helps(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Range.parse(text, Recipe())


def test_spaces_are_read_with_the_types_of_the_settings() -> None:
    assert Range.parse("training.negatives=64,128", Recipe()).choices == (64, 128)
    assert Range.parse("model.k=8:64", Recipe()).whole
    assert not Range.parse("model.gamma=4:16", Recipe()).whole
    keys = {Range.parse(text, Recipe()).key for text in default_space(Recipe())}
    assert keys == {"model.gamma", "training.lr", "model.init", "training.translation_l2"}


def test_a_space_is_checked_with_the_recipe_that_the_search_begins_with() -> None:
    text = "training.sampled_softmax=true,false"
    with pytest.raises(UsageError, match="cross-entropy"):
        Range.parse(text, Recipe())
    assert Range.parse(text, Recipe().with_settings(["training.loss=cross-entropy"])).choices == (True, False)


def test_a_search_needs_an_end_and_validation_triples(ring: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="some trials"):
        search(ring, tmp_path, recipe=BASE, space=SPACE)
    with pytest.raises(UsageError, match="no validation triples"):
        search(make_graph([(0, 0, 1)]), tmp_path, recipe=BASE, space=SPACE, trials=1)


def test_the_command_tells_the_best_and_what_mattered(tmp_path: Path) -> None:
    command = ["search", "world", "--out", str(tmp_path), "--trials", "1", "--space", "training.lr=1e-2,1e-3"]
    for setting in ("model.k=8", "training.steps=20", "validation.sample=20", "training.batch=64"):
        command += ["--set", setting]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    assert "training.lr" in shown.stdout
    assert "transher train world --recipe" in shown.stderr
    found = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert found["finished"] == 2
