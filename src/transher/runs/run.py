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
from numpy.typing import NDArray

from transher.answering.answers import Answering, Question, WhatIsKnown
from transher.answering.completion import CompletionSummary, complete_to_file
from transher.answering.evidence import Evidence, explain, reasons
from transher.answering.missing import Progress, Search, Wanted, wanted_facts
from transher.answering.predicted import in_names
from transher.errors import UsageError
from transher.evaluation import Evaluation, evaluate
from transher.evaluation.calibration import CALIBRATION_FILE, Calibration, calibrate
from transher.evaluation.ranks import Ranks
from transher.evaluation.reliability import CalibrationReport, report_calibration
from transher.files import sha256
from transher.graph.graph import Graph, Split
from transher.graph.storage import load_graph_folder
from transher.graph.vocabulary import Vocabulary
from transher.models.embeddings import Embeddings
from transher.runs.folder import EVALUATION_FILE, GRAPH_FOLDER, RANKS_FILE, new_folder, read_recipe, read_scorer
from transher.runs.manifest import read_manifest
from transher.training.checkpoints import MODEL_FILE
from transher.training.recipe import Recipe

COLUMNS = ["head", "relation", "tail"]


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

    @cached_property
    def answering(self) -> Answering:
        """What answers every question about the run; made once, since a server asks often."""
        return Answering(self.scorer, self.graph, self.calibration)

    def predict(
        self,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: WhatIsKnown = "mark",
        base_rate: float | None = None,
    ) -> pd.DataFrame:
        """The best answers for the one of head, relation and tail that is not given: a table as of `in_names`, with the
        answer's own identifier."""
        given = {"head": head, "relation": relation, "tail": tail}
        asked = [column for column, name in given.items() if name is None]
        if len(asked) != 1:
            raise UsageError("give two of head, relation and tail; the third is what is asked for.")
        ids = (None if name is None else self._words(column).find(name) for column, name in given.items())
        head_id, relation_id, tail_id = ids
        (answers,) = self.answering.answer([Question(head_id, relation_id, tail_id, top, known, base_rate)])
        table = in_names(self.graph, answers)
        table.insert(4, "identifier", table[f"{asked[0]}_id"])
        return table

    def score(
        self, triples: Sequence[tuple[str, str, str]] | pa.Table | pd.DataFrame, base_rate: float | None = None
    ) -> pd.DataFrame:
        """Scores and probabilities of single triples, given in names or identifiers; a table has the columns head,
        relation and tail."""
        if isinstance(triples, pd.DataFrame):
            triples = pa.Table.from_pandas(triples[COLUMNS].astype("str"), preserve_index=False)
        elif not isinstance(triples, pa.Table):
            columns = zip(*triples, strict=True) if triples else ((), (), ())
            triples = pa.table({name: pa.array(part, pa.string()) for name, part in zip(COLUMNS, columns, strict=True)})
        ids = np.stack([self._words(column).find_all(triples[column]) for column in COLUMNS], 1)
        table: pd.DataFrame = triples.select(COLUMNS).to_pandas().astype("str")
        judged = self.answering.judged(ids, base_rate)
        table["score"] = judged.scores
        if judged.probabilities is not None:
            table["probability"] = judged.probabilities
        return table

    def _words(self, column: str) -> Vocabulary:
        return self.graph.relations if column == "relation" else self.graph.entities

    def probabilities(
        self, triples: Sequence[tuple[str, str, str]] | pa.Table | pd.DataFrame, base_rate: float | None = None
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

    def explain(
        self, head: str, relation: str, tail: str, *, limit: int = 5, base_rate: float | None = None
    ) -> Evidence:
        """What in the graph speaks for a triple and what against it."""
        graph = self.graph
        asked = graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)
        return explain(self.answering, asked, limit=limit, base_rate=base_rate)

    def complete(
        self,
        *,
        relations: Sequence[str] | None = None,
        entity: str | None = None,
        best: int | None = None,
        above: float | None = None,
        any_entity: bool = False,
        base_rate: float | None = None,
        evidence: bool = False,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """The most probable facts that the graph lacks, of some relations or about an entity if they are named: a table
        as of `in_names`, with the strongest reason for each fact on request."""
        wanted = wanted_facts(self.graph, relations, best, above, any_entity, base_rate, entity)
        facts = Search(self.answering, wanted).facts(progress)
        table = in_names(self.graph, facts).drop(columns="known")  # none of them is
        if evidence:
            table["evidence"] = reasons(self.answering, facts)
        return table

    def complete_to_file(
        self,
        out: str | Path,
        wanted: Wanted,
        *,
        evidence: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> CompletionSummary:
        """As `complete`, to a new file (.tsv, .csv, .parquet, .nt), or with `overwrite` in place of the one there. What
        was stopped is resumed by the same request."""
        return complete_to_file(
            self.answering,
            Path(out),
            wanted,
            scorer_hash=sha256(self.folder / MODEL_FILE),
            evidence=evidence,
            overwrite=overwrite,
            progress=progress,
        )

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
