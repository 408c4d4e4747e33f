"""New triples join a trained run without starting over, and the report says how old answers moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from transher.errors import UsageError
from transher.evaluation.ranking import known_answers, rank
from transher.files import write_json
from transher.graph.growing import Growth, grow
from transher.graph.storage import save_graph
from transher.models.embeddings import Embeddings
from transher.training.checkpoints import TrainingState, load_state, save_state
from transher.training.placement import place, widened
from transher.training.recipe import Recipe
from transher.training.table import TABLES
from transher.training.trainer import Trainer
from transher.training.watcher import Watcher

if TYPE_CHECKING:
    from transher.runs.run import Run

UPDATE_FILE = "update.json"
_SHARE = 10  # a tenth of the steps that the run was trained for
_RATE = 0.3  # of its learning rate: enough to fit, too little to forget


@dataclass(frozen=True)
class UpdateReport:
    """What joined, and how answers to the old test queries moved. Figures of ranks are None without test triples."""

    added: int
    already_known: int
    new_entities: int
    new_relations: int
    examples: list[str]  # identifiers of some new entities
    steps: int
    row_similarity: float  # mean cosine between an old entity's row before and after
    queries: int
    mrr_before: float | None
    mrr_after: float | None
    better: float | None  # shares of queries
    worse: float | None
    equal: float | None
    median_shift: float | None  # of |log₂(rank after / rank before)|

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def update(
    run: Run, triples: pa.Table, out: str | Path, *, steps: int | None = None, watcher: Watcher | None = None
) -> tuple[Run, UpdateReport]:
    """Train the run a little further on its graph with `triples` (columns head, relation, tail), into the folder `out`.

    Old rows and their optimiser state stay where they are and go on from there; new rows are placed first, with the
    rest held still, and then all train together for a tenth of the run's steps (or `steps`) at a third of its rate.
    """
    from transher.runs.run import GRAPH_FOLDER, RECIPE_FILE, finish, refuse_to_overwrite

    folder = Path(out)
    refuse_to_overwrite(folder)
    if run.manifest is not None and "members" in run.manifest:
        raise UsageError(f"{run.folder} was joined of other runs: update each of these, and join them again.")
    growth = grow(run.graph, triples)
    if not len(growth.added):
        raise UsageError("The graph has all of these triples already: there is nothing to update.")
    tensors, progress = load_state(run.folder)
    steps = steps or max(1, run.recipe.training.steps // _SHARE)
    recipe = _short_recipe(run.recipe, steps)
    placed = place(run.scorer, run.graph, growth, run.recipe)
    save_graph(growth.graph, folder / GRAPH_FOLDER)
    recipe.save(folder / RECIPE_FILE)
    save_state(folder, _state(placed, tensors, growth, recipe), TrainingState(updates=progress.updates))
    reports: list[UpdateReport] = []

    def report(scorer: Embeddings) -> None:
        reports.append(_report(run, growth, scorer, steps))
        write_json(folder / UPDATE_FILE, reports[0].to_dict())

    updated = finish(folder, Trainer(growth.graph, recipe, folder, resume=True), watcher, report)
    return updated, reports[0]


def _short_recipe(recipe: Recipe, steps: int) -> Recipe:
    values = recipe.model_dump()
    values["training"] |= {"steps": steps, "lr": recipe.training.lr * _RATE, "warmup": 0, "schedule": "linear"}
    values["validation"] |= {"every": max(1, steps // 2), "patience": 0}
    return Recipe.parse(values)


def _state(placed: Embeddings, tensors: dict[str, Tensor], growth: Growth, recipe: Recipe) -> dict[str, Tensor]:
    """A checkpoint of the grown tables: the optimiser knows of old rows what it knew, and nothing of new ones."""
    state = {"entities": placed.entity_weights, "relations": placed.relation_weights}
    for name in TABLES[recipe.training.optimizer].state_names:
        rows = tensors[f"entities.{name}"]
        state[f"entities.{name}"] = torch.cat([rows, torch.zeros(growth.new_entities, rows.shape[1])])
        rows = tensors[f"relations.{name}"]
        fresh = torch.zeros(len(placed.relation_weights) - len(rows), rows.shape[1])
        state[f"relations.{name}"] = widened(rows, growth, fresh)
    return state


def _report(run: Run, growth: Growth, scorer: Embeddings, steps: int) -> UpdateReport:
    before = run.scorer.rows()
    similarity = torch.cosine_similarity(before, scorer.rows(slice(0, growth.old_entities)), dim=1)
    ranks: dict[str, Any] = dict.fromkeys(("mrr_before", "mrr_after", "better", "worse", "equal", "median_shift"))
    test = run.graph.test
    if len(test):
        old = rank(run.scorer, test, known_answers(run.graph)).realistic
        new = rank(scorer, test, known_answers(growth.graph)).realistic
        ranks = {
            "mrr_before": float((1 / old).mean()),
            "mrr_after": float((1 / new).mean()),
            "better": float((new < old).mean()),
            "worse": float((new > old).mean()),
            "equal": float((new == old).mean()),
            "median_shift": float(np.median(np.abs(np.log2(new / old)))),
        }
    return UpdateReport(
        added=len(growth.added),
        already_known=growth.already_known,
        new_entities=growth.new_entities,
        new_relations=growth.new_relations,
        examples=growth.examples(),
        steps=steps,
        row_similarity=float(similarity.mean()),
        queries=2 * len(test),
        **ranks,
    )


def with_facts(run: Run, triples: pa.Table) -> Run:
    """The run as if its graph had these triples too, in memory: entities that it does not know are placed by them, and
    nothing else moves. For an answer on the spot; `update` is for keeps."""
    growth = grow(run.graph, triples)
    if growth.new_relations:
        names = growth.graph.relations.identifiers[growth.old_relations :].to_pylist()
        raise UsageError(f"The run has no relation {names[0]!r}: facts on the spot can only use those that it knows.")
    return replace(run, graph=growth.graph, scorer=place(run.scorer, run.graph, growth, run.recipe))
