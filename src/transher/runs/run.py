"""A run: the folder that a training leaves, and everything that can be asked of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray

from transher.answering.answers import Answering, WhatIsKnown
from transher.answering.backtest import Backtest, backtest
from transher.answering.completion import CompletionSummary, complete_to_file
from transher.answering.evidence import Evidence, explain, reasons
from transher.answering.judge import Judge
from transher.answering.missing import Search, Wanted, relation_ids, wanted_facts
from transher.answering.predicted import in_names
from transher.answering.reading import Earlier
from transher.answering.trials import CalibrationReport, report_calibration
from transher.errors import UsageError
from transher.evaluation import Comparison, Evaluation, evaluate
from transher.evaluation.protocol import KEPT_METRICS
from transher.evaluation.ranks import Progress, Ranks
from transher.files import alone, read_json, sha256, writing
from transher.graph.graph import Graph, Split
from transher.graph.notebook import html_summary
from transher.graph.options import ChosenColumns
from transher.graph.storage import load_graph_folder
from transher.graph.vocabulary import Vocabulary
from transher.models.embeddings import Embeddings, embeddings_of
from transher.models.sharded import Lead, ShardedEmbeddings
from transher.rules import rules_of
from transher.runs.arguments import AnyTriples, ids_of
from transher.runs.compare import compare
from transher.runs.dataframes import By, embedding_frame, history_frame, metrics_frame
from transher.runs.export import Format, export
from transher.runs.folder import (
    EVALUATION_FILE,
    GRAPH_FOLDER,
    LOCK_FILE,
    RANKS_FILE,
    first_trained,
    new_folder,
    read_recipe,
    read_scorer,
    scorer_file,
)
from transher.runs.judging import fitted_judge, kept_judge
from transher.runs.manifest import read_manifest
from transher.runs.movement import UpdateReport, read_movement
from transher.runs.pictures import plot_history
from transher.runs.questions import answer_ids, answer_table
from transher.runs.scoring import Unknown, as_frame, score_blocks, score_frame
from transher.runs.verdicts import VERDICTS, Verdict, mark, marked, read_verdicts, verdict_frame
from transher.scorer import Scorer
from transher.training.blend_recipe import BlendRecipe
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe
from transher.training.watcher import Watcher

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Vectors = Embeddings | ShardedEmbeddings | Lead  # scorers by a model's vectors


@dataclass(frozen=True, repr=False)
class Run:
    """A trained model with its graph and its recipe, in the folder where they lie."""

    folder: Path
    graph: Graph
    recipe: AnyRecipe
    scorer: Scorer
    manifest: dict[str, Any] | None  # None while the training has not come to its end
    _temporary: TemporaryDirectory[str] | None = None  # removed with the last reference to the run
    _judge: Judge | None = None  # of a run that is not as its folder has it

    def __repr__(self) -> str:
        graph, state = self.graph, "unfinished" if self.manifest is None else "finished"
        metrics = self.kept_metrics() if self.manifest is not None else None
        quality = "" if metrics is None else f", test MRR {metrics['overall']['mrr']:.4f}"
        return (
            f"<Run {str(self.folder)!r}: {self._made_of}, {state}{quality}\n"
            f" on {graph.name}: {len(graph.entities):,} entities, {len(graph.relations):,} relations>"
        )

    def _repr_html_(self) -> str:
        """For notebooks."""
        graph, recipe = self.graph, self.recipe
        rows = {
            "folder": str(self.folder),
            "graph": f"{graph.name}: {len(graph.entities):,} entities, {len(graph.relations):,} relations",
            "model": self._made_of,
            "training": f"{_length(recipe)}, {'unfinished' if self.manifest is None else 'finished'}",
        }
        metrics = self.kept_metrics() if self.manifest is not None else None
        if metrics is not None:
            overall = metrics["overall"]
            rows["test triples"] = (
                f"MRR {overall['mrr']:.4f}, Hits@1 {overall['hits@1']:.4f}, Hits@10 {overall['hits@10']:.4f}"
            )
        asked = "head=…, relation=…"
        if len(graph.train):
            head, relation, _ = graph.train[0].tolist()
            asked = f"head={graph.entities.label(head)!r}, relation={graph.relations.label(relation)!r}"
        return html_summary("Run", rows, f"run.predict({asked})")

    @property
    def title(self) -> str:
        """What it answers by, as tables and pictures call it."""
        names = [part.model.title if isinstance(part, _Vectors) else type(part).__name__ for part in self.scorer.parts]
        return " + ".join(dict.fromkeys(names))

    @property
    def device(self) -> torch.device:
        """What computes the scores of its embeddings; the CPU where it has none."""
        found = (part.device for part in self.scorer.parts if isinstance(part, _Vectors))
        return next(found, torch.device("cpu"))

    @property
    def _made_of(self) -> str:
        if isinstance(self.recipe, BlendRecipe):
            return f"a blend of {self.title}"
        rules, embeddings = rules_of(self.scorer), embeddings_of(self.scorer)
        if embeddings is not None:
            return f"{self.title}, k = {embeddings.model.k}"
        return self.title if rules is None else f"{len(rules.rows):,} rules"

    def trained(self, what: str) -> tuple[Embeddings, Recipe]:
        """The embeddings that the run is and the recipe of their training; a `UsageError` where it is anything else."""
        if isinstance(self.recipe, BlendRecipe):
            raise UsageError(f"{self.folder} is a blend: {what} needs a run of one model. Its members are such runs.")
        return self.vectors(what)

    def vectors(self, what: str) -> tuple[Embeddings, Recipe]:
        """The embeddings that the run is, or the first that it blends, and the recipe of their training; a `UsageError`
        where there are none."""
        found, recipe = embeddings_of(self.scorer), first_trained(self.folder, self.recipe)
        if found is None or recipe is None:
            raise UsageError(
                f"{self.folder} has rules and no embeddings: {what} needs a run of a model with embeddings."
            )
        return found, recipe

    def evaluate(self, split: Split = "test", progress: Callable[[int, int], None] | None = None) -> Evaluation:
        """Rank every triple of the split, now; `kept_evaluation` is what the training left."""
        return evaluate(self.scorer, self.graph, split, progress=progress)

    def kept_metrics(self) -> dict[str, Any] | None:
        """The metrics that the training measured on the test triples at its end, as `Evaluation.to_dict` gives them;
        None if there were no test triples, or no end yet."""
        path = self.folder / EVALUATION_FILE
        if not path.is_file():
            return None
        remedy = "Delete it to do without: `transher evaluate` measures again."
        kept = read_json(path, KEPT_METRICS, "an evaluation", remedy)
        return {**kept}

    def kept_evaluation(self) -> Evaluation | None:
        """The evaluation of the test triples from the ranks that the training kept at its end; None if it kept none."""
        metrics, path = self.kept_metrics(), self.folder / RANKS_FILE
        if self.manifest is None or metrics is None or not path.is_file():
            return None
        ranks = Ranks.load(path, self.graph)
        return Evaluation(self.graph, "test", metrics["protocol"], ranks, metrics["seconds"])

    @cached_property
    def answering(self) -> Answering:
        """What answers every question about the run; made once, since a server asks often."""
        return Answering(self.scorer, self.graph, self.judge)

    def predict(
        self,
        questions: pd.DataFrame | pa.Table | Sequence[Mapping[str, object]] | None = None,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: WhatIsKnown = "mark",
        missing_share: float | None = None,
    ) -> pd.DataFrame:
        """The best answers for the one of head, relation and tail that is not given: a table as of `in_names`, with the
        answer's own identifier.

        questions: many questions at once, in place of head, relation and tail: a DataFrame or a list of mappings with
            these columns, of which one is empty (None or NaN) in each row. The answers have the row's index in the
            column `question`, and are in the order of the rows.
        top: how many answers to each question.
        known: whether answers that the graph has are marked or left out.
        missing_share: which share of all that holds the graph lacks; by default as much as was held out for
            validation.
        """
        given = {"head": head, "relation": relation, "tail": tail}
        if questions is not None:
            if any(name is not None for name in given.values()):
                raise UsageError("give questions, or else head, relation and tail, not both.")
            return answer_table(self.answering, questions, top, known, missing_share)
        if sum(name is None for name in given.values()) != 1:
            raise UsageError("give two of head, relation and tail; the third is what is asked for.")
        ids = [-1 if name is None else self._words(column).find(name) for column, name in given.items()]
        return answer_ids(self.answering, np.array([ids]), top, known, missing_share)[0]

    def score(
        self,
        x: pd.DataFrame | pa.Table | Iterable[Sequence[object]],
        missing_share: float | None = None,
        *,
        unknown: Unknown = "error",
        columns: ChosenColumns | None = None,
    ) -> pd.DataFrame:
        """Scores and probabilities of single triples, given in names or identifiers.

        x: a DataFrame or an Arrow table, whose other columns and index stay as they are, or triples (head, relation,
            tail).
        unknown: what happens to a row with a name that means nothing in the graph, or several things: "error", "skip"
            leaves it out, and "null" gives it NaN.
        columns: which columns hold head, relation and tail, where their names do not say so.
        """
        return score_frame(self.answering, as_frame(x), columns, unknown, missing_share)

    def score_blocks(
        self,
        blocks: pa.Table | Iterable[pa.Table | pa.RecordBatch],
        *,
        missing_share: float | None = None,
        unknown: Unknown = "error",
        columns: ChosenColumns | None = None,
    ) -> Iterator[pa.Table]:
        """As `score`, for more triples than fit into memory: each block comes back with the columns `score` and
        `probability`, null where a name is unknown. A pyarrow RecordBatchReader gives such blocks. An error counts rows
        over all blocks, from 1."""
        return score_blocks(self.answering, blocks, columns, unknown, missing_share)

    def _words(self, column: str) -> Vocabulary:
        return self.graph.relations if column == "relation" else self.graph.entities

    def probabilities(
        self, x: pd.DataFrame | pa.Table | Iterable[Sequence[object]], missing_share: float | None = None
    ) -> NDArray[np.float64]:
        """How likely each of n triples is to hold: (n,)."""
        if self.judge is None:
            raise UsageError(f"The graph '{self.graph.name}' has no validation triples to learn probabilities from.")
        return self.score(x, missing_share)["probability"].to_numpy()

    def embeddings(self) -> pd.DataFrame:
        """The entities' rows: indexed by identifier, with columns 0 to d − 1. They are the raw ones of the table, as in
        an export; what the score makes of them, as TranSHER divides an entity by its length, is left to the reader."""
        return embedding_frame(self.graph.entities, self.vectors("a table of embeddings")[0].entity_weights)

    def relation_embeddings(self) -> pd.DataFrame:
        """The relations' rows: indexed by identifier, with columns 0 to w − 1. With reciprocal relations the rows of
        r⁻¹ follow."""
        return embedding_frame(self.graph.relations, self.vectors("a table of embeddings")[0].relation_weights)

    def history(self) -> pd.DataFrame:
        """How the training went, a row per line of its history. `kind` is "report" (loss, lr, triples_per_second,
        seconds), "validation" (mrr, seconds) or "gradients"; what a kind does not have is NaN."""
        return history_frame(self.folder)

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Draw the training's loss and validation MRR by step, on new axes unless some are given. Needs matplotlib."""
        return plot_history(self.history(), f"{self.title} on {self.graph.name}", axes)

    def metrics(self, by: By | None = None, split: Split = "test") -> pd.DataFrame:
        """MRR, MR, Hits@k and the 95 % interval of the MRR: one row, or a row per side, per side and relation type, or
        per relation. From the ranks that the training kept where it did; else the triples are ranked now."""
        kept = self.kept_evaluation() if split == "test" else None
        return metrics_frame(kept or self.evaluate(split), by)

    def compare(self, other: Run, split: Split = "test") -> Comparison:
        """Whether this run ranks the triples of a split better than another: paired bootstrap and Wilcoxon."""
        return compare(self, other, split)

    def update(
        self, x: AnyTriples | None, out: str | Path, *, steps: int | None = None, watcher: Watcher | None = None
    ) -> Run:
        """A new run in the folder `out`, of this one trained a little further with the triples x, which may have new
        entities and relations, and with what was said of facts: see `mark`. With verdicts, x may be None.
        `update_report` of the new run says how old answers moved. See `transher.update`."""
        from transher.runs.update import update  # which trains, and so needs this module

        return update(self, x, out, steps=steps, watcher=watcher)[0]

    def update_report(self) -> UpdateReport | None:
        """What an update added, and how answers to the old test queries moved; None for a run that is no update."""
        return read_movement(self.folder)

    def export(self, format: Format, out: str | Path, *, answers: int = 0) -> list[Path]:
        """Write embeddings and vocabulary for other tools into the folder `out`: "parquet", "numpy", "word2vec",
        "tensorboard" or "safetensors". With `answers`, also so many answers to each test query. Gives the files."""
        return export(self, format, out, answers=answers)

    @cached_property
    def judge(self) -> Judge | None:
        """What gives triples their probabilities; None without validation triples. A run that has not stored it, being
        unfinished or of an earlier version, gets it here, which may take a minute."""
        kept = self._judge or kept_judge(self.folder, self.scorer, self.graph)
        if kept is not None:
            return kept
        finished = self.manifest is not None
        seconds = float(self.manifest["cost"].get("seconds", 0.0)) if self.manifest is not None else 0.0
        return fitted_judge(self.folder, self.scorer, self.graph, keep=finished, lenient=True, training=seconds)

    def explain(
        self, head: str, relation: str, tail: str, *, limit: int = 5, missing_share: float | None = None
    ) -> Evidence:
        """What in the graph speaks for a triple and what against it."""
        graph = self.graph
        asked = graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)
        return explain(self.answering, asked, limit=limit, missing_share=missing_share)

    def complete(
        self,
        *,
        relations: Sequence[str] | None = None,
        entity: str | None = None,
        best: int | None = None,
        above: float | None = None,
        any_entity: bool = False,
        missing_share: float | None = None,
        implied_by: Sequence[str] = (),
        since: str | Path | None = None,
        evidence: bool = False,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """The most probable facts that the graph lacks, of some relations or about an entity if they are named: a table
        as of `in_names`, with the strongest reason for each fact on request.

        implied_by: relations such as *is a* or *part of*. What follows from known facts along them is left out: it
            holds, but it is no news.
        since: the file of an earlier completion; only facts that are not in it are given.

        Facts that were called wrong are left out: see `mark`.
        """
        wanted = wanted_facts(self.graph, relations, best, above, any_entity, missing_share, entity, implied_by)
        facts = Search(self.answering, wanted, self._unwanted(since)).facts(progress)
        table = in_names(self.graph, facts).drop(columns="known")  # none of them is
        if evidence:
            table["evidence"] = reasons(self.answering, facts)
        return table

    def complete_to_file(
        self,
        out: str | Path,
        wanted: Wanted,
        *,
        since: str | Path | None = None,
        evidence: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> CompletionSummary:
        """As `complete`, to a new file (.tsv, .csv, .parquet, .nt), or with `overwrite` in place of the one there. What
        was stopped is resumed by the same request."""
        with writing(Path(out)):
            return complete_to_file(
                self.answering,
                Path(out),
                wanted,
                scorer_hash=sha256(scorer_file(self.folder, self.recipe)),
                earlier=self._unwanted(since),
                evidence=evidence,
                overwrite=overwrite,
                progress=progress,
            )

    def _unwanted(self, since: str | Path | None) -> Earlier | None:
        """What a completion leaves out."""
        wrong = marked(self.graph, read_verdicts(self.folder), "wrong")
        if since is None and not len(wrong):
            return None
        return Earlier(None if since is None else Path(since), self.graph, wrong)

    def mark(self, head: str, relation: str, tail: str, verdict: Verdict | None) -> None:
        """Say of a fact that it is "right" or "wrong"; None takes it back. It is kept in the run's folder. A completion
        leaves out what is wrong; an update adds what is right to the graph, and takes out what is wrong."""
        if verdict is not None and verdict not in VERDICTS:
            raise UsageError(f"a verdict is one of {', '.join(VERDICTS)}, or None, and not {verdict!r}.")
        entities, relations = self.graph.entities, self.graph.relations
        ids = entities.find(head), relations.find(relation), entities.find(tail)
        names = entities.identifiers[ids[0]], relations.identifiers[ids[1]], entities.identifiers[ids[2]]
        mark(self.folder, {(names[0].as_py(), names[1].as_py(), names[2].as_py()): verdict})

    def verdicts(self) -> pd.DataFrame:
        """What was said of facts: labels, identifiers, verdict and date."""
        return verdict_frame(self.graph, read_verdicts(self.folder))

    def calibration_report(self, progress: Progress | None = None) -> CalibrationReport:
        """How far probabilities can be trusted, tried on the test triples."""
        return report_calibration(self.answering, progress)

    def backtest(
        self,
        later: AnyTriples,
        *,
        about: Sequence[str] | None = None,
        implied_by: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Backtest:
        """What this run said of facts that came true later, in any form that `train` takes. about: the entities whose
        later facts are all given, where these are not all. implied_by: as of `complete`, where the later facts lack
        what follows from known ones."""
        triples, left_out = ids_of(self.graph, later)
        return backtest(
            self.answering,
            triples,
            left_out=left_out,
            about=self._entities(about),
            implied_by=implied_by,
            progress=progress,
        )

    def calibrate(
        self,
        later: AnyTriples | None = None,
        *,
        about: Sequence[str] | None = None,
        implied_by: Sequence[str] = (),
        watcher: Watcher | None = None,
    ) -> Run:
        """This run with its judge fitted anew: on its validation triples, or on facts that came `later`, in which case
        a probability says how likely a fact is to be added next. It is kept in the run's folder. about: the entities
        whose later facts are all given, where these are not all. implied_by: as of `complete`; what follows from known
        facts is not learned from, so that probabilities are of news."""
        triples = None if later is None else ids_of(self.graph, later)[0]
        with alone(self.folder / LOCK_FILE, str(self.folder)):
            judge = fitted_judge(
                self.folder, self.scorer, self.graph,
                keep=self.manifest is not None, later=triples, about=self._entities(about),
                implied_by=relation_ids(self.graph, implied_by), watcher=watcher,
            )  # fmt: skip
        if judge is None:
            raise UsageError("There are no facts to fit probabilities on: no validation triples, and no later facts.")
        return replace(self)

    def _entities(self, names: Sequence[str] | None) -> NDArray[np.int64] | None:
        return None if names is None else np.unique(self.graph.entities.meant(pa.array(list(names), pa.string())))

    def save(self, folder: str | Path) -> Run:
        """Copy the run to a folder of its own; the folder appears only once it is whole."""
        with new_folder(Path(folder)) as filling:
            shutil.copytree(self.folder, filling, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True)
        return load(folder)


def _length(recipe: AnyRecipe) -> str:
    if isinstance(recipe, BlendRecipe):
        return f"{recipe.blend.members} runs, blended"
    if isinstance(recipe, Recipe):
        return f"at most {recipe.training.steps:,} steps"
    minutes = recipe.mining.minutes if isinstance(recipe, RuleRecipe) else recipe.choice.minutes
    return f"at most {minutes:g} minutes"


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
