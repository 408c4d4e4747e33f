"""A run: the folder that a training leaves, and everything that can be asked of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from transher.answering.answers import KnownAnswers, predict
from transher.answering.completion import complete
from transher.answering.evidence import Evidence, explain
from transher.answering.paths import Neighbourhood
from transher.errors import UsageError
from transher.evaluation import Evaluation, evaluate
from transher.evaluation.calibration import CALIBRATION_FILE, Calibration, calibrate
from transher.evaluation.ranks import Ranks
from transher.evaluation.reliability import CalibrationReport, report_calibration
from transher.graph.graph import Graph, Split
from transher.graph.storage import load_graph_folder
from transher.models.embeddings import Embeddings
from transher.runs.folder import EVALUATION_FILE, GRAPH_FOLDER, RANKS_FILE, new_folder, read_recipe, read_scorer
from transher.runs.manifest import read_manifest
from transher.training.recipe import Recipe

ENDS = ["head", "relation", "tail"]


@dataclass(frozen=True, repr=False)
class Run:
    """A trained model with its graph and its recipe, in the folder where they lie."""

    folder: Path
    graph: Graph
    recipe: Recipe
    scorer: Embeddings
    manifest: dict[str, Any] | None  # None while the training has not come to its end
    _temporary: TemporaryDirectory[str] | None = None  # removed with the last reference to the run

    def __repr__(self) -> str:
        graph, state = self.graph, "unfinished" if self.manifest is None else "finished"
        metrics = self.kept_metrics() if self.manifest is not None else None
        quality = "" if metrics is None else f", test MRR {metrics['overall']['mrr']:.4f}"
        return (
            f"<Run {str(self.folder)!r}: {self.scorer.model.title}, k={self.recipe.model.k}, {state}{quality}\n"
            f" on {graph.name}: {len(graph.entities):,} entities, {len(graph.relations):,} relations>"
        )

    def evaluate(self, split: Split = "test", progress: Callable[[int, int], None] | None = None) -> Evaluation:
        """Rank every triple of the split, now; `kept_evaluation` is what the training left."""
        return evaluate(self.scorer, self.graph, split, progress=progress)

    def kept_metrics(self) -> dict[str, Any] | None:
        """The metrics that the training measured on the test triples at its end, as `Evaluation.to_dict` gives them;
        None if there were no test triples, or no end yet."""
        path = self.folder / EVALUATION_FILE
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

    def kept_evaluation(self) -> Evaluation | None:
        """The evaluation of the test triples from the ranks that the training kept at its end; None if it kept none."""
        metrics, path = self.kept_metrics(), self.folder / RANKS_FILE
        if self.manifest is None or metrics is None or not path.is_file():
            return None
        return Evaluation(self.graph, "test", metrics["protocol"], Ranks.load(path), metrics["seconds"])

    def predict(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: KnownAnswers = "mark",
        base_rate: float | None = None,
    ) -> pd.DataFrame:
        """The best answers for the one of head, relation and tail that is not given, in names, with probabilities."""
        return predict(
            self.scorer, self.graph, head=head, relation=relation, tail=tail, top=top, known=known,
            calibration=self.calibration, base_rate=base_rate,
        )  # fmt: skip

    def score(self, triples: Sequence[tuple[str, str, str]] | pa.Table, base_rate: float | None = None) -> pd.DataFrame:
        """Scores and probabilities of single triples, given in names or identifiers; a table has the columns head,
        relation and tail."""
        if not isinstance(triples, pa.Table):
            columns = zip(*triples, strict=True) if triples else ((), (), ())
            triples = pa.table({end: pa.array(part, pa.string()) for end, part in zip(ENDS, columns, strict=True)})
        vocabularies = (self.graph.entities, self.graph.relations, self.graph.entities)
        ids = [words.find_all(triples[end]) for words, end in zip(vocabularies, ENDS, strict=True)]
        table: pd.DataFrame = triples.select(ENDS).to_pandas().astype("str")
        table["score"] = self.scorer.score_triples(torch.from_numpy(np.stack(ids, 1))).numpy()
        if self.calibration is not None:
            table["probability"] = self.calibration.probabilities(table["score"], ids[1], base_rate=base_rate)
        return table

    def probabilities(
        self, triples: Sequence[tuple[str, str, str]] | pa.Table, base_rate: float | None = None
    ) -> NDArray[np.float64]:
        """How likely each of n triples is to hold: (n,)."""
        if self.calibration is None:
            raise UsageError(f"The graph '{self.graph.name}' has no validation triples to calibrate scores on.")
        return self.score(triples, base_rate)["probability"].to_numpy()

    @cached_property
    def calibration(self) -> Calibration | None:
        """How scores become probabilities; None without validation triples. A run that has not stored it, being
        unfinished or of an earlier version, is calibrated here, which takes seconds."""
        if (self.folder / CALIBRATION_FILE).is_file():
            return Calibration.load(self.folder, self.graph)
        calibration = calibrate(self.scorer, self.graph)
        # An unfinished run has other weights tomorrow. A run that cannot be written to answers all the same.
        if calibration is not None and self.manifest is not None:
            with suppress(OSError):
                calibration.save(self.folder, self.graph)
        return calibration

    @cached_property
    def neighbourhood(self) -> Neighbourhood:
        """The graph's triples as steps, for paths and known answers; made once, since a server asks often."""
        return Neighbourhood(self.graph)

    def explain(
        self, head: str, relation: str, tail: str, *, limit: int = 5, base_rate: float | None = None
    ) -> Evidence:
        """What in the graph speaks for a triple and what against it."""
        return explain(self, head, relation, tail, limit=limit, base_rate=base_rate)

    def complete(self, **wanted: Any) -> pd.DataFrame:
        """The most probable facts that the graph lacks: see `transher.answering.completion.complete`."""
        return complete(self, **wanted)

    def calibration_report(self, split: Split = "test") -> CalibrationReport:
        """How far the probabilities of a split's triples can be trusted."""
        return report_calibration(self.scorer, self.graph, self.calibration, split)

    def save(self, folder: str | Path) -> Run:
        """Copy the run to a folder of its own; the folder appears only once it is whole."""
        with new_folder(Path(folder)) as filling:
            shutil.copytree(self.folder, filling, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        return load(folder)


def load(folder: str | Path) -> Run:
    """A run from its folder. What the manifest lists must still have its hash; a run whose training has not ended
    answers from the best weights so far, and has no manifest."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a run: there is no such folder.")
    manifest = read_manifest(folder)
    recipe = read_recipe(folder)
    graph = load_graph_folder(folder / GRAPH_FOLDER)
    return Run(folder, graph, recipe, read_scorer(folder, recipe, graph), manifest)
