from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.runs.conftest import QUICK

import transher
from transher.errors import UsageError
from transher.graph.graph import Graph


def test_a_loaded_run_answers_as_the_trained_one(run: transher.Run) -> None:
    again = transher.load(run.folder)
    assert torch.equal(again.trained("a test")[0].entity_weights, run.trained("a test")[0].entity_weights)
    pd.testing.assert_frame_equal(again.predict(head="e010", relation="r0"), run.predict(head="e010", relation="r0"))
    assert again.recipe == QUICK
    assert again.evaluate().overall.mrr == run.evaluate().overall.mrr == run.kept_metrics()["overall"]["mrr"]  # type: ignore[index]


def test_test_ranks_are_kept(run: transher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    anew = run.evaluate()
    monkeypatch.setattr("transher.runs.run.evaluate", lambda *_, **__: pytest.fail("ranked again"))
    kept = run.kept_evaluation()
    assert kept is not None
    assert np.array_equal(kept.ranks.realistic, anew.ranks.realistic)
    assert np.array_equal(kept.ranks.triples, anew.ranks.triples)
    assert kept.overall == anew.overall
    assert kept.to_dict() == run.kept_metrics()


def test_a_run_that_kept_no_ranks_says_so(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    (copy / "ranks.parquet").unlink()
    assert transher.load(copy).kept_evaluation() is None
    assert transher.load(copy).evaluate("valid").split == "valid"


def test_a_run_is_shown_on_two_lines(run: transher.Run, copy: Path) -> None:
    lines = repr(run).splitlines()
    assert len(lines) == 2
    assert str(run.folder) in lines[0]
    assert "TranSHER, k = 16, finished, test MRR" in lines[0]
    assert "small: 60 entities, 3 relations" in lines[1]
    (copy / "manifest.json").unlink()
    assert "unfinished" in repr(transher.load(copy))


def test_a_notebook_shows_what_a_run_is_and_how_to_ask_it(run: transher.Run, copy: Path) -> None:
    page = run._repr_html_()
    assert "60 entities, 3 relations" in page
    assert f"MRR {run.kept_metrics()['overall']['mrr']:.4f}" in page  # type: ignore[index]
    assert "run.predict(head=&#x27;e000&#x27;, relation=&#x27;r0&#x27;)" in page
    (copy / "manifest.json").unlink()
    assert "MRR" not in transher.load(copy)._repr_html_()


def test_what_a_run_gives_is_shown_in_two_lines_at_most(run: transher.Run) -> None:
    for shown in (
        run.evaluate(),
        run.evaluate().overall,
        run.evaluate().ranks,
        run.scorer,
        run.compare(run),
        run.explain("e010", "r0", "e011"),
    ):
        assert len(repr(shown).splitlines()) <= 2
        assert len(repr(shown)) < 300


def test_a_run_compares_itself(run: transher.Run) -> None:
    assert run.compare(run, "valid") == transher.compare(run, run, "valid")


def test_a_run_is_updated_from_a_dataframe(run: transher.Run, tmp_path: Path) -> None:
    new = pd.DataFrame({"subject": ["e010", "new"], "predicate": "r2", "object": ["new", "e013"]})
    newer = run.update(new, tmp_path / "newer", steps=5)
    assert newer.graph.entities.identifiers[-1].as_py() == "new"
    report = newer.update_report()
    assert report is not None
    assert (report.added, report.steps) == (2, 5)
    assert run.update_report() is None


def test_a_run_exports_itself(run: transher.Run, tmp_path: Path) -> None:
    files = run.export("numpy", tmp_path / "numpy", answers=2)
    assert {file.name for file in files} >= {"entities.npy", "answers.parquet"}
    with pytest.raises(UsageError, match="Did you mean 'numpy'"):
        run.export("numpi", tmp_path / "other")  # type: ignore[arg-type]


def test_a_run_without_a_place_can_be_saved(ring: Graph, tmp_path: Path) -> None:
    run = transher.train(ring, recipe=QUICK.with_settings(["training.steps=20"]))
    saved = run.save(tmp_path / "kept")
    assert torch.equal(
        transher.load(tmp_path / "kept").trained("a test")[0].entity_weights, run.trained("a test")[0].entity_weights
    )
    assert saved.folder == tmp_path / "kept"
    with pytest.raises(UsageError, match="already there"):
        run.save(tmp_path / "kept")


def test_a_copy_leaves_out_what_a_process_is_writing(run: transher.Run, copy: Path, tmp_path: Path) -> None:
    (copy / ".lock").touch()
    (copy / ".model.safetensors.0123abcd.part").touch()
    saved = transher.load(copy).save(tmp_path / "another")
    assert {path.name for path in saved.folder.iterdir()} == {path.name for path in run.folder.iterdir()}


def test_an_unfinished_run_answers_from_its_best_weights(copy: Path, run: transher.Run) -> None:
    (copy / "manifest.json").unlink()
    unfinished = transher.load(copy)
    assert unfinished.manifest is None
    assert torch.equal(unfinished.trained("a test")[0].entity_weights, run.trained("a test")[0].entity_weights)


JUDGE_FILES = ("judge.json", "judge.safetensors", "rules.parquet")


@pytest.fixture
def of_an_earlier_version(copy: Path) -> Path:
    """A finished run from before judges were stored."""
    manifest = json.loads((copy / "manifest.json").read_text())
    for name in JUDGE_FILES:
        manifest["files"].pop(name, None)
        (copy / name).unlink()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return copy


def test_a_run_of_an_earlier_version_gets_a_judge_once(
    of_an_earlier_version: Path, run: transher.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = transher.load(of_an_earlier_version).predict(head="e010", relation="r0")
    assert (of_an_earlier_version / "judge.json").read_bytes() == (run.folder / "judge.json").read_bytes()
    monkeypatch.delattr("transher.runs.run.fitted_judge")
    pd.testing.assert_frame_equal(transher.load(of_an_earlier_version).predict(head="e010", relation="r0"), first)


def test_a_run_that_cannot_be_written_to_has_probabilities_all_the_same(
    of_an_earlier_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("transher.files.os.replace", refuse)
    assert "probability" in transher.load(of_an_earlier_version).predict(head="e010", relation="r0")
    assert not [path for path in of_an_earlier_version.rglob("*") if path.name in JUDGE_FILES]


def test_the_judge_of_an_unfinished_run_is_not_kept(of_an_earlier_version: Path) -> None:
    (of_an_earlier_version / "manifest.json").unlink()
    assert transher.load(of_an_earlier_version).judge is not None
    assert not [path for path in of_an_earlier_version.iterdir() if path.name in JUDGE_FILES]


def test_answers_are_best_first_and_marked_or_hidden_when_known(run: transher.Run) -> None:
    marked = run.predict(head="e010", relation="r0", top=60)
    assert list(marked["probability"]) == sorted(marked["probability"], reverse=True)
    assert marked["tail"][marked["known"]].tolist() == ["e011"]
    hidden = run.predict(head="e010", relation="r0", top=60, known="hide")
    assert hidden["tail"].tolist() == [tail for tail in marked["tail"] if tail != "e011"]


def test_heads_and_relations_can_be_asked_for(run: transher.Run) -> None:
    heads = run.predict(relation="r0", tail="e011", top=3)
    assert heads["head"].tolist() == run.predict(relation="r0", tail="e011", top=60)["head"].tolist()[:3]
    assert (heads["tail"] == "e011").all()
    relations = run.predict(head="e010", tail="e011", top=5)
    assert sorted(relations["relation"]) == ["r0", "r1", "r2"]
    assert relations["known"].tolist() == [relation == "r0" for relation in relations["relation"]]
    assert "r0" not in run.predict(head="e010", tail="e011", known="hide")["relation"].tolist()


def test_scores_of_single_triples_are_those_of_the_answers(run: transher.Run) -> None:
    answers = run.predict(head="e010", relation="r0", top=5)
    scores = run.score([("e010", "r0", tail) for tail in answers["tail"]])
    assert scores["score"].tolist() == pytest.approx(answers["score"].tolist(), abs=1e-4)


@pytest.mark.parametrize("given", [{"head": "e001"}, {"head": "e001", "relation": "r0", "tail": "e002"}, {}])
def test_a_question_needs_exactly_two_parts(run: transher.Run, given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="two of head, relation and tail"):
        run.predict(**given)  # type: ignore[arg-type]


def test_an_unknown_name_gets_the_nearest(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="e010"):
        run.predict(head="e010x", relation="r0")
