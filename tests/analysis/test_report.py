from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from matplotlib.font_manager import fontManager

import transher
from transher.analysis import cases, ellipse, entity_map, page, probabilities, scores, translations
from transher.analysis import report as report_module
from transher.analysis.learned_patterns import patterns_section
from transher.analysis.page import subjects
from transher.analysis.report import write_report
from transher.analysis.tables import paper
from transher.cli.main import main
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.graph.vocabulary import Vocabulary
from transher.runs.run import Run

QUICK = [
    "model.k=30",
    "training.steps=80",
    "training.batch=256",
    "training.negatives=32",
    "training.lr=2e-2",
    "validation.every=40",
    "validation.sample=50",
    "validation.record_gradients=true",
    "validation.report_every=20",
]
PICTURES = {
    "results",
    "types",
    "reliability",
    "curves",
    "gradients",
    "translations",
    "translation-norms",
    "patterns",
    "entity-map",
    "ellipse",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("runs")
    graph = transher.load_graph("world")
    return [
        transher.train(graph, folder / model, recipe=transher.Recipe().with_settings([*QUICK, f"model.name={model}"]))
        for model in ("transher", "pairre", "distmult")
    ]


@pytest.fixture(scope="module", autouse=True)
def short_ellipse() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ellipse, "STEPS", 20)
        patch.setattr(ellipse, "SEEDS", 1)
        yield


@pytest.fixture(scope="module")
def report(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(runs[:2], folder)[0]


def test_the_page_holds_everything_and_opens_offline(report: Path) -> None:
    page = report.read_text("utf-8")
    assert len(page) < 6_000_000
    assert not re.search(r'(src|href)="https?:', page)
    assert page.count("data:image/svg+xml") == len(PICTURES)
    assert "TranSHER − PairRE" in page
    assert "Patterns that TranSHER has learned" in page
    assert "class=marked" in page


def test_every_picture_is_there_as_png_and_svg(report: Path) -> None:
    assert {path.stem for path in report.parent.glob("*.png")} == PICTURES
    assert {path.stem for path in report.parent.glob("*.svg")} == PICTURES


def test_a_run_without_translations_has_the_sections_that_apply(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = (scores.results_section, translations.heat_section, translations.norm_section, patterns_section)
    monkeypatch.setattr(report_module, "SECTIONS", sections)
    page = write_report(runs[2:], tmp_path)[0].read_text("utf-8")
    assert "How good the answers are" in page
    assert "Which relations are translated" not in page
    assert "Patterns" not in page
    assert "The same queries under two runs" not in page


def test_the_reliability_section_has_what_evaluate_says_of_every_run(runs: list[Run]) -> None:
    section = probabilities.reliability_section(subjects(runs[:2]))
    assert section is not None
    assert section.figure is not None
    for row, axes, run in zip(section.tables[0].rows, section.figure.axes, runs, strict=False):
        report = run.calibration_report()
        assert row[1] == f"{report.best[0].probability:.3f} / {report.best[0].holds:.3f}"
        assert row[-2:] == [f"{report.shown.brier:.4f}", f"{report.former.brier:.4f}"]
        drawn = axes.collections[1].get_offsets()
        assert np.allclose(drawn, [(bin.probability, bin.holds) for bin in report.shown.bins])


def test_runs_without_probabilities_have_no_reliability(ring: Graph, tmp_path: Path) -> None:
    graph = replace(ring, valid=ring.valid[:0])
    run = transher.train(graph, tmp_path / "ring", recipe=transher.Recipe().with_settings([*QUICK, "model.k=8"]))
    assert probabilities.reliability_section(subjects([run])) is None


def test_runs_of_different_graphs_have_no_common_report(runs: list[Run], ring: Graph, tmp_path: Path) -> None:
    other = transher.train(ring, tmp_path / "ring", recipe=transher.Recipe().with_settings([*QUICK, "model.k=8"]))
    with pytest.raises(UsageError, match="one graph"):
        write_report([runs[0], other], tmp_path / "report")
    namesake = replace(runs[0], graph=replace(runs[0].graph, test=runs[0].graph.test[1:]))
    with pytest.raises(UsageError, match="one graph"):
        write_report([runs[0], namesake], tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_the_command_says_where_the_page_is(runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "SECTIONS", (cases.cases_section,))
    command = ["analyze", str(runs[1].folder), "--out", str(tmp_path), "--json"]
    for _ in range(2):  # the second report takes the place of the first, and of nothing else
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        assert Path(json.loads(result.stdout)["page"]).is_file()
        assert json.loads(result.stdout)["pictures"] == []
        (tmp_path / "holiday.png").touch()
    assert (tmp_path / "holiday.png").is_file()


def test_two_runs_of_one_model_are_told_apart_by_their_folders(runs: list[Run]) -> None:
    assert [subject.label for subject in subjects(runs[:2])] == ["TranSHER", "PairRE"]
    assert [subject.label for subject in subjects([runs[0], runs[0]])] == ["TranSHER (transher)"] * 2
    namesakes = [replace(runs[0], folder=Path(folder)) for folder in ("/a/run", "/b/run", "/b/other")]
    labels = [subject.label for subject in subjects(namesakes)]
    assert labels == ["TranSHER (a/run)", "TranSHER (b/run)", "TranSHER (other)"]


def test_names_are_drawn_as_they_are(runs: list[Run]) -> None:
    graph = runs[0].graph
    words = tuple(f"_{number} $\\no_formula{{$" for number in range(entity_map.GROUPS))
    types = np.arange(len(graph.entities), dtype=np.int32) % len(words)
    odd = replace(graph, name="$x$", entity_types=types, type_names=words)
    section = entity_map.map_section(subjects([replace(runs[0], graph=odd)]))
    assert section.figure is not None
    with io.BytesIO() as drawn:
        section.figure.savefig(drawn, format="svg")
    legend = section.figure.axes[0].get_legend()
    assert legend is not None
    shown = [text.get_text() for text in legend.get_texts()]
    assert len(shown) == 1 + entity_map.GROUPS
    assert all(text.startswith("_") for text in shown[1:])


def test_letters_that_the_font_lacks_come_from_fonts_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [SimpleNamespace(name=name) for name in ("Comic Sans", "Droid Sans Fallback", "DejaVu Sans")]
    monkeypatch.setattr(fontManager, "ttflist", installed)
    assert page._fonts.__wrapped__() == ["DejaVu Sans", "Droid Sans Fallback"]


def test_the_top_of_a_case_leaves_out_other_known_answers(runs: list[Run]) -> None:
    (subject,) = subjects(runs[:1])
    graph = runs[0].graph
    head, relation, tail = graph.test[0].tolist()
    top = cases.filtered_top(subject, cases.Case(head, relation, tail, "tail"))
    known = graph.all_triples[(graph.all_triples[:, 0] == head) & (graph.all_triples[:, 1] == relation), 2]
    assert not set(top.tolist()) & (set(known.tolist()) - {tail})
    assert len(top) == cases.TOP
    unknown, _ = runs[0].answering.best(np.array([head]), np.array([relation]), "tail", cases.TOP, "hide")
    for place, answer in enumerate(unknown.triples[:, 2].tolist(), 1):
        assert cases.answer_rank(subject, cases.Case(head, relation, answer, "tail")) == place


def test_the_papers_queries_are_asked_where_the_graph_has_them(runs: list[Run]) -> None:
    assert cases.paper_cases(runs[0].graph) == []
    asked = paper()["cases"][0]

    names, empty = [asked["head"], asked["answer"]], np.zeros((0, 3), dtype=np.int32)
    graph = Graph(
        "film",
        Vocabulary("entity", pa.array(names)),
        Vocabulary("relation", pa.array([asked["relation"]])),
        empty,
        empty,
        empty,
    )
    assert cases.paper_cases(graph) == [cases.Case(0, 0, 1, "tail")]


def test_translations_are_pooled_in_blocks_along_the_dimensions() -> None:
    rows = np.arange(100, dtype=np.float32).reshape(2, 50)
    pooled = translations.pool(rows)
    assert pooled.shape == (2, 25)
    assert pooled[0, :2].tolist() == [0.5, 2.5]
    assert translations.pool(rows[:, :4]).shape == (2, 4)


def test_the_small_graph_of_the_ellipse_trains_in_two_dimensions() -> None:
    relation = ellipse.train_relation(ellipse.small_graph(), "transher", 0)
    assert relation.heads.shape[1] == relation.translation.shape[0] == 2
    assert np.linalg.norm(relation.heads, axis=1) == pytest.approx(1, abs=1e-5)
