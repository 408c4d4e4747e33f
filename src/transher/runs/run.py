"""A run: the folder that a training leaves, and everything that can be asked of it."""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from transher.answering.answers import Answering, Question, WhatIsKnown
from transher.answering.completion import CompletionSummary, complete_to_file
from transher.answering.evidence import Evidence, explain, reasons
from transher.answering.missing import Progress, Search, Wanted, wanted_facts
from transher.answering.predicted import in_names
from transher.errors import InputError, TransherError, UsageError
from transher.evaluation import Evaluation, evaluate
from transher.evaluation.calibration import CALIBRATION_FILE, Calibration, calibrate
from transher.evaluation.ranks import Ranks
from transher.evaluation.reliability import CalibrationReport, report_calibration
from transher.files import alone, sha256, sweep, write_json
from transher.graph.graph import Graph, Split
from transher.graph.storage import load_graph_folder, save_graph
from transher.graph.vocabulary import Vocabulary
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.training.checkpoints import MODEL_FILE, STATE_FILE, read_tensors
from transher.training.defaults import default_recipe
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer
from transher.training.watcher import Watcher
from transher.versions import version_of

FORMAT = 1
COLUMNS = ["head", "relation", "tail"]
RECIPE_FILE, GRAPH_FOLDER, MANIFEST_FILE = "recipe.toml", "graph", "manifest.json"
LOCK_FILE = ".lock"  # empty; held by the process that trains
EVALUATION_FILE, RANKS_FILE = "evaluation.json", "ranks.parquet"  # of the test triples


@dataclass(frozen=True)
class Run:
    """A trained model with its graph and its recipe, in the folder where they lie."""

    folder: Path
    graph: Graph
    recipe: Recipe
    scorer: Embeddings
    manifest: dict[str, Any] | None  # None while the training has not come to its end
    _temporary: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    def evaluate(self, split: Split = "test", progress: Callable[[int, int], None] | None = None) -> Evaluation:
        """Rank every triple of the split."""
        return evaluate(self.scorer, self.graph, split, progress=progress)

    def evaluation(self, split: Split = "test", progress: Callable[[int, int], None] | None = None) -> Evaluation:
        """As `evaluate`, but from the ranks that the training left of the test triples, if it did."""
        saved, path = self.saved_evaluation(), self.folder / RANKS_FILE
        if split != "test" or self.manifest is None or saved is None or not path.is_file():
            return self.evaluate(split, progress)
        return Evaluation(self.graph, split, saved["protocol"], Ranks.load(path), saved["seconds"])

    def saved_evaluation(self) -> dict[str, Any] | None:
        """What the training measured on the test triples at its end; None if there were none, or no end yet."""
        path = self.folder / EVALUATION_FILE
        return json.loads(path.read_text("utf-8")) if path.is_file() else None

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
        progress: Progress | None = None,
    ) -> CompletionSummary:
        """As `complete`, to a file (.tsv, .csv, .parquet, .nt). What was stopped is resumed by the same request."""
        scorer_hash = sha256(self.folder / MODEL_FILE)
        return complete_to_file(
            self.answering, Path(out), wanted, scorer_hash=scorer_hash, evidence=evidence, progress=progress
        )

    def calibration_report(self, split: Split = "test") -> CalibrationReport:
        """How far the probabilities of a split's triples can be trusted."""
        return report_calibration(self.scorer, self.graph, self.calibration, split)

    def save(self, folder: str | Path) -> Run:
        """Copy the run to a folder of its own; the folder appears only once it is whole."""
        target = Path(folder)
        refuse_to_overwrite(target)
        beside = beside_place(target)
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(self.folder, beside)
        beside.rename(target)
        return load(target)


def train(
    graph: Graph, out: str | Path | None = None, *, recipe: Recipe | None = None, watcher: Watcher | None = None
) -> Run:
    """Train on a graph and leave a run folder at `out` (or in a temporary place, for `Run.save` to keep).

    Without a recipe the settings come from the graph's size.
    """
    temporary = tempfile.TemporaryDirectory(prefix="transher-") if out is None else None
    folder = Path(temporary.name if temporary is not None else str(out))
    refuse_to_overwrite(folder)
    recipe = recipe or default_recipe(graph)
    with alone(folder / LOCK_FILE, str(folder)):
        save_graph(graph, folder / GRAPH_FOLDER)
        recipe.save(folder / RECIPE_FILE)
        run = finish(folder, Trainer(graph, recipe, folder), watcher)
    return replace(run, _temporary=temporary)


def resume(folder: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Go on with a training that was stopped, from its last checkpoint, or from the beginning if it had come to none,
    with the recipe and the graph in its folder. It ends in the very weights that it would have had without the stop."""
    folder = Path(folder)
    recipe = _saved_recipe(folder)
    if (folder / MANIFEST_FILE).exists():
        raise UsageError(f"{folder} is finished: there is nothing to go on with.")
    with alone(folder / LOCK_FILE, str(folder)):  # before the sweep, which would take what another is writing
        sweep(folder)
        graph = load_graph_folder(folder / GRAPH_FOLDER)
        begun = (folder / STATE_FILE).is_file()
        return finish(folder, Trainer(graph, recipe, folder, resume=begun), watcher)


def began_with(folder: Path, graph: Graph) -> bool:
    """Whether this is the graph that lies in the folder of a training."""
    return not (folder / GRAPH_FOLDER).is_dir() or load_graph_folder(folder / GRAPH_FOLDER).equals(graph)


def finish(
    folder: Path, trainer: Trainer, watcher: Watcher | None, report: Callable[[Embeddings], None] | None = None
) -> Run:
    """Train to the end, evaluate and calibrate the best weights, and write the manifest; before it, a report of the
    weights if there is one to make."""
    trainer.run(watcher)
    graph, recipe, progress = trainer.graph, trainer.recipe, trainer.progress
    del trainer  # its tables must go before the best weights come
    return conclude(
        folder, recipe, graph, report, seconds=progress.seconds, steps=progress.step, best_step=progress.best_step
    )


def conclude(
    folder: Path,
    recipe: Recipe,
    graph: Graph,
    report: Callable[[Embeddings], None] | None = None,
    members: Sequence[dict[str, Any]] = (),
    **cost: float,
) -> Run:
    """Evaluate and calibrate the weights in a folder, and write the manifest: the folder is a finished run."""
    scorer = _load_scorer(folder, recipe, graph)
    if len(graph.test):
        evaluation = evaluate(scorer, graph, "test")
        evaluation.ranks.save(folder / RANKS_FILE)
        write_json(folder / EVALUATION_FILE, evaluation.to_dict())
    calibration = calibrate(scorer, graph)
    if calibration is not None:
        calibration.save(folder, graph)
    if report is not None:
        report(scorer)
    write_manifest(folder, recipe, members, **cost)
    return load(folder)


def load(folder: str | Path) -> Run:
    """A run from its folder. What the manifest lists must still have its hash; a run whose training has not ended
    answers from the best weights so far, and has no manifest."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a run: there is no such folder.")
    manifest = None
    if (folder / MANIFEST_FILE).exists():
        manifest = _checked_manifest(folder)
    recipe = _saved_recipe(folder)
    graph = load_graph_folder(folder / GRAPH_FOLDER)
    return Run(folder, graph, recipe, _load_scorer(folder, recipe, graph), manifest)


def write_manifest(folder: Path, recipe: Recipe, members: Sequence[dict[str, Any]] = (), **cost: float) -> None:
    """The last file of a run: with it, the run is finished. `members` are what a joined run was made of."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_listed(path.relative_to(folder))]
    write_json(
        folder / MANIFEST_FILE,
        {
            "format": FORMAT,
            "versions": {name: version_of(name) for name in ("transher", "torch", "numpy", "pyarrow")}
            | {"python": platform.python_version()},
            "machine": {
                "processor": platform.machine(),
                "system": platform.system(),
                "threads": torch.get_num_threads(),
            },
            "seed": recipe.training.seed,
            "cost": cost,
            **({"members": list(members)} if members else {}),
            "files": {str(path.relative_to(folder)): sha256(path) for path in files},
        },
    )


def _is_listed(path: Path) -> bool:
    return path.parts[0] not in ("tensorboard", MANIFEST_FILE) and not path.name.startswith(".")


def _checked_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
        found, files = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"is not a manifest ({error}).", file=path, remedy="Take a copy of the run, or train again."
        ) from None
    if found != FORMAT:
        raise InputError(f"has format {found}, and this version of transher reads {FORMAT}.", file=path)
    for name, digest in files.items():
        if not (folder / name).is_file():
            raise InputError(
                "is missing, though the manifest lists it.", file=folder / name, remedy="Copy the whole run."
            )
        # The checkpoint is large, nothing is answered from it, and it carries a hash of its own for whoever goes on.
        if name != "optimizer.safetensors" and sha256(folder / name) != digest:
            raise InputError(
                "does not have the hash that the manifest says.",
                file=folder / name,
                remedy="It was cut short or changed after the training: take a copy of the run, or train again.",
            )
    return manifest


def _saved_recipe(folder: Path) -> Recipe:
    path = folder / RECIPE_FILE
    if not path.is_file():
        raise TransherError(
            f"{folder} is not a run: it has no {RECIPE_FILE}. Name a folder that `transher train` has left."
        )
    return Recipe.load(path)


def _load_scorer(folder: Path, recipe: Recipe, graph: Graph) -> Embeddings:
    tensors, _ = read_tensors(folder / MODEL_FILE)
    model = build_model(recipe.model)
    relation_rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
    expected = {
        "entities": (len(graph.entities), model.entity_width),
        "relations": (relation_rows, model.relation_width),
    }
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "nothing"
            raise InputError(f"has {found} for {name}, where recipe and graph say {shape}.", file=folder / MODEL_FILE)
    return Embeddings(model, tensors["entities"], tensors["relations"], recipe.model.reciprocal)


def refuse_to_overwrite(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Choose a folder that is new or empty.")
    if folder.exists() and any(folder.iterdir()):
        unfinished = (folder / RECIPE_FILE).is_file() and not (folder / MANIFEST_FILE).exists()
        going_on = f", or go on with the training in it: transher train --out {folder} --resume" if unfinished else ""
        raise UsageError(f"{folder} is already there and not empty. Choose a folder that is new or empty{going_on}.")


def beside_place(folder: Path) -> Path:
    """Where a folder is made that takes its place only once it is whole."""
    if folder.resolve() == Path.cwd():
        raise UsageError("the run would take the place of the folder that you are in: name a new one.")
    return folder.with_name(f".{folder.name}.part")
