from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from transher.analysis import experiments, reproduce, results, tables
from transher.cli.main import main
from transher.errors import InputError, UsageError
from transher.files import alone
from transher.models.initialisation import STRATEGIES
from transher.training.watcher import Watcher

ROOT = Path(__file__).parents[2]


SMALL = experiments.QUICK
TINY = (
    "model.k=16",
    "training.steps=60",
    "training.batch=128",
    "training.negatives=16",
    "training.gradient_share=1",
    "validation.every=30",
    "validation.sample=50",
    "validation.report_every=10",
)


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[None]:
    """Most tests are about what is trained, recorded and resumed, not about how good it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "QUICK", TINY)
        yield


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole path on the embedded graph, of two models."""
    folder = tmp_path_factory.mktemp("reproduced")
    arguments = ["reproduce", "world", "--quick", "--model", "transher", "--model", "pairre", "--runs", str(folder)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "| TranSHER |" in result.stdout
    assert "Of a small experiment, made by `transher reproduce world" in result.stdout
    assert "Its figures are not those of the paper" in result.stderr
    return folder / "quick"


def test_a_result_has_all_that_a_reader_needs_to_check_it(reproduced: Path) -> None:
    result = json.loads((reproduced / "results" / "world_transher_main_0.json").read_text("utf-8"))
    assert result["experiment"] == {"benchmark": "world", "model": "transher", "variant": "main", "seed": 0}
    assert {"overall", "by_side", "by_type", "by_relation"} == set(result["metrics"])
    assert len(result["metrics"]["overall"]["intervals"]["mrr"]) == 2
    assert "borders" in result["metrics"]["by_relation"]
    assert result["recipe"]["model"]["k"] == 16
    assert result["cost"]["elements"] == 2 * 60 * 128 * 17 * 16
    assert {"processor", "cores", "system", "threads"} == set(result["machine"])
    assert len(result["graph_sha256"]) == 64
    assert {"python", "torch", "transher"} <= set(result["versions"])
    assert "commit" in result


@pytest.mark.parametrize("model", experiments.MODELS)
def test_a_small_experiment_reaches_far_more_than_chance(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "QUICK", SMALL)
    wanted = experiments.experiments("world", models=[model], quick=True)
    (written,) = reproduce.reproduce(wanted, tmp_path, tmp_path / "results")
    assert json.loads(written.read_text("utf-8"))["metrics"]["overall"]["mrr"] > 0.2  # by chance .003


def test_two_models_of_the_same_seed_are_compared_query_by_query(reproduced: Path) -> None:
    result = json.loads((reproduced / "results" / "world_transher_against_pairre_main_0.json").read_text("utf-8"))
    assert result["comparison"]["better"] + result["comparison"]["worse"] + result["comparison"][
        "equal"
    ] == pytest.approx(1)
    table = tables.render("significance-world", results.read_results(reproduced / "results"))
    assert "| TranSHER − PairRE, main | 0 |" in table


def test_two_trainings_are_joined(reproduced: Path, tmp_path: Path) -> None:
    wanted = experiments.experiments("world", tables=["joined"], quick=True)
    assert [one.variant for one in wanted] == ["main", "margin", "joined"]
    written = reproduce.reproduce(wanted, reproduced, tmp_path)
    main, margin, joined = (json.loads(path.read_text("utf-8")) for path in written)
    assert joined["recipe"]["model"]["k"] == 32
    assert margin["recipe"]["model"]["start_at_margin"]
    for part in ("training_seconds", "steps", "elements"):
        assert joined["cost"][part] == pytest.approx(main["cost"][part] + margin["cost"][part], rel=1e-4)
    assert [member["recipe"] for member in joined["members"]] == [main["recipe"], margin["recipe"]]
    assert joined["validation_mrr"] is not None
    table = tables.render("joined-world", results.read_results(tmp_path))
    assert "| both, joined | 32 |" in table
    states = []
    reproduce.reproduce(wanted, reproduced, tmp_path, started=lambda _, state: states.append(state))
    assert states == ["done"] * 3


def test_what_is_finished_is_not_trained_again(reproduced: Path, tmp_path: Path) -> None:
    wanted = experiments.experiments("world", models=["transher"], quick=True)
    states = []
    written = reproduce.reproduce(wanted, reproduced, tmp_path, started=lambda _, state: states.append(state))
    assert states == ["done"]
    before = (reproduced / "results" / written[0].name).read_text("utf-8")
    assert json.loads(written[0].read_text("utf-8"))["metrics"] == json.loads(before)["metrics"]


def test_what_was_interrupted_is_resumed(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    class Killer(Watcher):
        def validated(self, step: int, mrr: float, best: bool) -> None:
            if step == 60:
                raise Killed

    wanted = experiments.experiments("world", models=["pairre"], quick=True)
    with pytest.raises(Killed):
        reproduce.reproduce(wanted, tmp_path, tmp_path / "results", watcher=Killer())
    states = []
    reproduce.reproduce(wanted, tmp_path, tmp_path / "results", started=lambda _, state: states.append(state))
    assert states == ["resume"]


def test_a_folder_with_another_recipe_is_not_taken_for_this_one(reproduced: Path, tmp_path: Path) -> None:
    (other,) = experiments.experiments("world", models=["transher"])
    with pytest.raises(UsageError, match="another recipe"):
        reproduce.reproduce([other], reproduced, tmp_path)


def test_every_table_has_its_experiments() -> None:
    assert len(experiments.experiments("fb15k-237", seeds=3)) == 3 * len(experiments.MODELS)
    starts = experiments.experiments("db100k", tables=["init"])
    assert {one.recipe.model.init for one in starts} == set(STRATEGIES)
    compared = experiments.experiments("fb15k-237", tables=["significance"])
    assert {(one.model, one.seed) for one in compared} == {(m, s) for m in experiments.COMPARED for s in range(3)}
    for variant in (experiments.MAIN, experiments.SHORT):  # within each, the budgets are the same
        budgets = {(one.recipe.model.k, one.recipe.training.steps) for one in compared if one.variant == variant}
        assert len(budgets) == 1
    ablations = experiments.experiments("fb15k-237", tables=["ablations"])
    assert len({one.recipe.to_toml() for one in ablations}) == len(experiments.ABLATIONS)
    with pytest.raises(UsageError, match="Did you mean 'pairre'"):
        experiments.experiments("world", models=["pairr"])


def test_unfinished_runs_have_no_result(tmp_path: Path, reproduced: Path) -> None:
    import shutil

    shutil.copytree(reproduced / "world_transher_main_0", tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="not finished"):
        results.record(tmp_path / "run", tmp_path)


@pytest.mark.parametrize("name", tables.FILES)
def test_tables_in_the_repository_are_what_the_results_say(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert tables.with_tables(text, results.read_results(ROOT / "results")) == text


def test_rendering_replaces_only_what_is_between_the_markers(reproduced: Path, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    page.write_text("before\n<!-- table: results-world -->\nold\n<!-- end -->\nafter\n")
    assert tables.rewrite(tmp_path, reproduced / "results") == [page]
    text = page.read_text("utf-8")
    assert text.startswith("before\n<!-- table: results-world -->\n| ours")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert tables.rewrite(tmp_path, reproduced / "results") == []


def test_other_measurements_in_the_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "speed.json").write_text('{"steps_per_second": 60}')
    assert results.read_results(tmp_path) == []


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(InputError, match="no table"):
        tables.render("nonsense-world", [])


def test_figures_below_the_papers_are_called_not_reached() -> None:
    metrics = {"mrr": 0.3413, "hits@1": 0.25, "hits@3": 0.37, "hits@10": 0.5}
    run = {
        "kind": "run",
        "experiment": {"benchmark": "fb15k-237", "model": "transher", "variant": "main", "seed": 0},
        "metrics": {"overall": metrics, "by_type": {}},
        "cost": {"training_seconds": 60.0},
    }
    table = tables.render("results-fb15k-237", [run])
    published = tables.paper()["results"]["fb15k-237"]["transher"]["mrr"]
    assert f"not reached: {0.3413 - published:+.3f}" in table
    assert "| TranSHER | .341 (.360)" in table
    assert "| PairRE | not run (.351)" in table
    assert "| PairRE | not run (.5208)" in tables.render("results-ogbl-wikikg2", [])


def test_a_run_that_was_recorded_keeps_its_machine_and_commit(reproduced: Path, tmp_path: Path) -> None:
    path = results.record(reproduced / "world_transher_main_0", tmp_path)
    first = json.loads(path.read_text("utf-8"))
    then = first | {"commit": "then", "machine": {"processor": "of then"}}
    path.write_text(json.dumps(then))
    results.record(reproduced / "world_transher_main_0", tmp_path)
    assert json.loads(path.read_text("utf-8")) == then
    path.write_text(json.dumps(then | {"cost": {}}))  # of another training
    results.record(reproduced / "world_transher_main_0", tmp_path)
    assert json.loads(path.read_text("utf-8")) == first


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "run", "exper')
    with pytest.raises(InputError, match=r"run\.json: is not JSON"):
        results.read_results(tmp_path)


def test_tables_are_not_emptied_for_want_of_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "README.md"
    page.write_text("<!-- table: results-world -->\nold\n<!-- end -->\n")
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(main, ["reproduce", "--render", "--results", "misspelt"])
    assert told.exit_code == 2
    assert "old" in page.read_text("utf-8")


def test_what_is_no_killed_training_is_not_removed(reproduced: Path, tmp_path: Path) -> None:
    import shutil

    wanted = experiments.experiments("world", models=["transher"], quick=True)
    folder = tmp_path / wanted[0].name
    shutil.copytree(reproduced / wanted[0].name, folder)
    (folder / "recipe.toml").unlink()
    with pytest.raises(UsageError, match="already there"):
        reproduce.reproduce(wanted, tmp_path, tmp_path / "results")
    assert (folder / "model.safetensors").is_file()


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    wanted = experiments.experiments("world", models=["transher"], quick=True)
    with alone(tmp_path / f".{wanted[0].name}.lock", "it"), pytest.raises(UsageError, match="another process"):
        reproduce.reproduce(wanted, tmp_path, tmp_path / "results")
