"""Joining: several trained models as one, whose score is the mean of theirs.

A sum over coordinates does not mind who trained which: side by side, the tables of two TranSHER of k₁ and k₂ are those
of one TranSHER of k₁ + k₂. Trainings err in different places, so that the mean is better than each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from transher.errors import UsageError
from transher.evaluation import evaluate
from transher.graph.graph import Graph
from transher.models import Model, build_model
from transher.models.catalogue import model_class
from transher.models.embeddings import Embeddings
from transher.runs.folder import new_folder, write_start
from transher.runs.run import Run, load
from transher.runs.train import conclude
from transher.training.checkpoints import save_model
from transher.training.history import History
from transher.training.recipe import Recipe


def join(runs: Sequence[Run], out: str | Path) -> Run:
    """One run, in the folder `out`, of several finished ones of one model on one graph; their k may differ."""
    _refuse_unlike(runs)
    scorers, recipes = zip(*(run.trained("a join") for run in runs), strict=True)
    graph, recipe = runs[0].graph, joined_recipe(recipes)
    model = build_model(recipe.model)
    entities, relations = joined_tables(model, scorers)
    members = [
        {"recipe": run.recipe.model_dump(), "cost": run.manifest["cost"], "threads": run.manifest["machine"]["threads"]}
        for run in runs
        if run.manifest is not None
    ]
    seconds, steps = (sum(member["cost"][part] for member in members) for part in ("seconds", "steps"))
    with new_folder(Path(out)) as filling:
        write_start(filling, graph, recipe)
        scorer = Embeddings(model, entities, relations, recipe.model.reciprocal)
        mrr = _validate(scorer, graph, recipe)
        save_model(filling, entities, relations, steps, mrr)
        history = History(filling, 0)
        if mrr is not None:
            history.add("validation", steps, mrr=mrr, seconds=seconds)
        history.close()
        conclude(filling, recipe, graph, {"seconds": seconds, "steps": steps, "best_step": steps}, members)
    return load(out)


def joined_recipe(recipes: Sequence[Recipe]) -> Recipe:
    """The first recipe, with the k of all together and the mean of their γ."""
    k, gamma = sum(one.model.k for one in recipes), sum(one.model.gamma for one in recipes) / len(recipes)
    return recipes[0].with_settings([f"model.k={k}", f"model.gamma={gamma}"])


def joined_tables(joined: Model, scorers: Sequence[Embeddings]) -> tuple[Tensor, Tensor]:
    """The tables of `joined`, of k = Σ k_i and the mean of the γ_i, whose score is the mean of the scorers'."""
    share, widths = 1 / len(scorers), [one.model.k for one in scorers]
    rows = [one.model.joined_rows(one.entity_weights, one.relation_weights, joined, share) for one in scorers]
    entities, relations = zip(*rows, strict=True)
    return _side_by_side(entities, widths), _side_by_side(relations, widths)


def _side_by_side(tables: Sequence[Tensor], widths: Sequence[int]) -> Tensor:
    blocks = zip(*(table.split(width, dim=1) for table, width in zip(tables, widths, strict=True)), strict=True)
    return torch.cat([part for block in blocks for part in block], dim=1)


def _validate(scorer: Embeddings, graph: Graph, recipe: Recipe) -> float | None:
    """MRR on the validation triples that a training of this recipe is judged by."""
    if not len(graph.valid):
        return None
    ranks = evaluate(scorer, graph, "valid", sample=recipe.validation.sample or None).ranks
    return float((1 / ranks.realistic).mean())


def _refuse_unlike(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise UsageError("it takes two runs or more to join.")
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise UsageError("a run is named twice: joined with itself it is what it was, and twice as large.")
    first, kind = runs[0], runs[0].trained("a join")[1].model
    if not model_class(kind.name).can_join():
        raise UsageError(f"{kind.name} cannot be joined: its score is not a sum over coordinates.")
    for run in runs:
        if run.manifest is None:
            raise UsageError(f"{run.folder} is not finished: train it to its end before it is joined.")
        other = run.trained("a join")[1].model
        if (other.name, other.reciprocal, other.own) != (kind.name, kind.reciprocal, kind.own):
            raise UsageError(f"{run.folder} has another model than {first.folder}: only like can be joined.")
        # Split by split: what one was trained on must not be what the other is tested on.
        if not run.graph.equals(first.graph):
            raise UsageError(f"{run.folder} was trained on another graph than {first.folder}.")
