"""A training without a model: what it tries, what it keeps, and how it goes on after a stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.runs.kinds import KINDS

import transher
from transher.cli.main import main
from transher.errors import InputError, Interrupted, TransherError, UsageError
from transher.graph.graph import Graph
from transher.runs import choosing
from transher.runs.choosing import CANDIDATES_FOLDER, CHOICE_FILE, Choice, read_choice
from transher.runs.folder import member_folders
from transher.training.blend_recipe import BlendRecipe
from transher.training.candidates import wider
from transher.training.recipe import Recipe
from transher.training.watcher import Watcher

MINUTES = 0.05


@pytest.fixture(scope="module", autouse=True)
def same_speed() -> Iterator[None]:
    """Trainings are as long on every machine, and there is no time for wide vectors."""

    def speed(self: object, recipe: Recipe) -> float:
        return 6e-3 if recipe.training.negatives == "all" else 4e-4

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing._Choosing, "_speed", speed)
        patch.setattr(choosing._Choosing, "_training_left", lambda self: float("inf"))
        patch.setattr(choosing, "wider", lambda best, seconds, speed: [])
        yield


@pytest.fixture(scope="module")
def grid() -> Graph:
    return KINDS["grid"]()


@pytest.fixture(scope="module")
def runs(same_speed: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, transher.Run]:
    """A choice on a graph of every kind."""
    folder = tmp_path_factory.mktemp("chosen")
    return {kind: transher.train(graph(), folder / kind, minutes=MINUTES) for kind, graph in KINDS.items()}


def chosen(run: transher.Run) -> Choice:
    found = read_choice(run.folder)
    assert found is not None
    return found


def test_the_choice_leaves_a_blend_and_says_how_it_came_about(runs: dict[str, transher.Run]) -> None:
    run = runs["grid"]
    assert isinstance(run.recipe, BlendRecipe)
    assert run.manifest is not None
    record = chosen(run)
    assert record.members is not None
    assert len(record.members) == run.recipe.blend.members >= 2
    assert all(tried.compared_mrr is not None for tried in record.tried)
    assert set(record.finalists or ()) <= {tried.label for tried in record.tried}
    assert not (run.folder / CANDIDATES_FOLDER).exists()
    for folder in member_folders(run.folder, run.recipe):
        assert transher.load(folder).manifest is not None  # each is a run of its own
    assert run.judge is not None
    assert len(run.predict(head="e003", relation="r0", top=3)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_blend_is_no_worse_than_its_members_on_graphs_of_every_kind(
    kind: str, runs: dict[str, transher.Run]
) -> None:
    run = runs[kind]
    whole = run.evaluate("test").overall.mrr
    assert isinstance(run.recipe, BlendRecipe)
    alone = [transher.load(folder).evaluate("test").overall.mrr for folder in member_folders(run.folder, run.recipe)]
    assert whole > max(alone) - 0.05, (whole, alone)


def best_of_families(run: transher.Run) -> dict[str, float]:
    found: dict[str, float] = {}
    for tried in chosen(run).tried:
        found[tried.family] = max(found.get(tried.family, 0.0), tried.mrr or 0.0)
    return found


def test_rules_are_kept_where_only_a_rule_tells_the_answer(runs: dict[str, transher.Run]) -> None:
    run = runs["planted rules"]
    assert "rules" in (chosen(run).members or ())
    assert run.evaluate("test").overall.mrr > 0.1 + max(best_of_families(run).values())


def test_a_dot_product_wins_where_it_should_and_a_distance_where_it_should(runs: dict[str, transher.Run]) -> None:
    bilinear, grid = (best_of_families(runs[kind]) for kind in ("bilinear", "grid"))
    assert bilinear["dot"] > bilinear["distance"]
    assert grid["distance"] > grid["dot"]


class Stopper(Watcher):
    """Stops at the beginning of a part, by its number."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.parts = 0

    def began(self, what: str, seconds_left: float | None = None) -> None:
        self.parts += 1
        if self.parts > self.left:
            raise Interrupted("stopped by a test.")


def test_a_choice_that_is_stopped_in_any_part_is_resumed_and_keeps_its_plan(
    grid: Graph, runs: dict[str, transher.Run], tmp_path: Path
) -> None:
    planned = [tried.label for tried in chosen(runs["grid"]).tried[:8]]
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        transher.train(grid, folder, minutes=MINUTES, watcher=Stopper(0))
    for parts in (1, 5, 9, 3):  # mining; trying; coming closer; training
        with pytest.raises(TransherError, match="--resume"):
            transher.load(folder)
        with pytest.raises(Interrupted):
            transher.resume(folder, watcher=Stopper(parts))
    finished = transher.resume(folder)
    assert finished.manifest is not None
    assert [tried.label for tried in chosen(finished).tried[:8]] == planned
    with pytest.raises(UsageError, match="nothing to resume"):
        transher.resume(folder)


def test_in_a_large_graph_others_go_on_too_while_there_is_time(
    grid: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "SMALL", 0)
    times = iter([float("inf")] * 3)  # after that, no time is left
    monkeypatch.setattr(choosing._Choosing, "_training_left", lambda self: next(times, 0.0))
    monkeypatch.setattr(choosing._Choosing, "_shorten", lambda self, waiting: None)
    monkeypatch.setattr(choosing, "helpful", lambda trials, plain, beside: (list(range(min(beside))), 0.0))
    run = transher.train(grid, tmp_path / "run", minutes=MINUTES)
    record = chosen(run)
    assert record.finalists is not None
    first, second, *others = record.finalists
    of = {tried.label: tried for tried in record.tried}
    assert {of[first].family, of[second].family} == {"distance", "dot"}
    assert len(others) == 3
    left = [of[label].compared_mrr or 0 for label in of if label not in (first, second)]
    assert max(left) == of[others[0]].compared_mrr
    assert record.members == [first, second, *others, "rules"]


def test_where_there_is_time_wide_vectors_are_trained_beside_narrow_ones(
    grid: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing, "wider", wider)
    record = chosen(transher.train(grid, tmp_path / "run", minutes=MINUTES))
    of = {tried.label: tried for tried in record.tried}
    widths = [(of[label].recipe["model"]["name"], of[label].recipe["model"]["k"]) for label in record.finalists or ()]
    assert {("complex", 200), ("complex", 1024), ("distmult", 200), ("distmult", 1024)} < set(widths)
    assert len(widths) == len(set(widths))


def test_a_choice_on_a_machine_that_has_become_slower_has_shorter_trainings(
    grid: Graph, runs: dict[str, transher.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choosing._Choosing, "_training_left", lambda self: 0.0)
    monkeypatch.setattr(choosing, "_LEAST_SHARE", 1e-6)
    run = transher.train(grid, tmp_path / "run", minutes=MINUTES)
    finalists = [tried for tried in chosen(run).tried if tried.label in (chosen(run).finalists or ())]
    planned = {tried.label: tried for tried in chosen(runs["grid"]).tried}
    assert all(tried.steps <= tried.recipe["training"]["steps"] for tried in finalists)
    assert any(
        tried.recipe["training"]["steps"] < planned[tried.label].recipe["training"]["steps"] for tried in finalists
    )
    for folder in member_folders(run.folder, BlendRecipe.model_validate(run.recipe.model_dump())):
        member = transher.load(folder)
        if isinstance(member.recipe, Recipe):
            assert member.recipe.training.steps in {tried.recipe["training"]["steps"] for tried in finalists}


def test_settings_a_model_and_a_recipe_train_one_model(grid: Graph, tmp_path: Path) -> None:
    few = {"training.steps": 20}
    for number, given in enumerate(({"settings": few}, {"settings": few, "model": "pairre"})):
        run = transher.train(grid, tmp_path / str(number), **given)  # type: ignore[arg-type]
        assert isinstance(run.recipe, Recipe)
    with pytest.raises(UsageError, match=r"training\.steps"):
        transher.train(grid, tmp_path / "never", model="pairre", minutes=1)
    assert not (tmp_path / "never").exists()


def test_a_graph_without_validation_triples_gets_the_model_of_the_paper(ring: Graph, tmp_path: Path) -> None:
    from transher.runs.arguments import recipe_from

    assert recipe_from(ring).model.name == "transher"  # six validation triples are too few to choose by


def test_a_record_that_is_broken_is_told_in_a_line(tmp_path: Path) -> None:
    for text in ("{", "[]", json.dumps({"minutes": "many"}), '{"minutes": 1, "rules_seconds": 2, "tried": 3}'):
        (tmp_path / CHOICE_FILE).write_text(text)
        with pytest.raises(InputError, match=r"choice\.json") as told:
            read_choice(tmp_path)
        assert len(str(told.value).splitlines()) == 1


def test_the_command_says_what_it_does(tmp_path: Path) -> None:
    rows = [f"e{h}\tr{r}\te{t}" for h, r, t in KINDS["grid"]().train.tolist()]
    (tmp_path / "graph.tsv").write_text("\n".join(rows))
    told = CliRunner().invoke(
        main, ["train", str(tmp_path / "graph.tsv"), "--minutes", str(MINUTES), "--out", str(tmp_path / "run")]
    )
    assert told.exit_code == 0, told.output
    for said in ("Mining rules", "Trying TranSHER", "validation MRR", "Blending", "The run is in"):
        assert said in told.output
