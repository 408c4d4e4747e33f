"""Joining: several trained models as one, whose score is the mean of theirs.

A sum over coordinates does not mind who trained which: side by side, the tables of two TranSHER of k₁ and k₂ are those
of one TranSHER of k₁ + k₂. Trainings err in different places, so that the mean is better than each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from transher.errors import UsageError
from transher.evaluation import evaluate
from transher.graph.graph import Graph
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.runs.folder import new_folder, write_start
from transher.runs.run import Run, load
from transher.runs.train import conclude
from transher.training.checkpoints import save_model
from transher.training.history import History
from transher.training.recipe import DIRECTIONS, Recipe

JOINABLE = (*DIRECTIONS, "transe", "distmult", "complex", "rotate")


def join(runs: Sequence[Run], out: str | Path) -> Run:
    """One run, in the folder `out`, of several finished ones of one model on one graph; their k may differ."""
    _refuse_unlike(runs)
    graph, recipe = runs[0].graph, joined_recipe([run.recipe for run in runs])
    entities, relations = joined_tables([run.scorer for run in runs])
    members = [
        {"recipe": run.recipe.model_dump(), "cost": run.manifest["cost"], "threads": run.manifest["machine"]["threads"]}
        for run in runs
        if run.manifest is not None
    ]
    seconds, steps = (sum(member["cost"][part] for member in members) for part in ("seconds", "steps"))
    with new_folder(Path(out)) as filling:
        write_start(filling, graph, recipe)
        scorer = Embeddings(build_model(recipe.model), entities, relations, recipe.model.reciprocal)
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


def joined_tables(scorers: Sequence[Embeddings]) -> tuple[Tensor, Tensor]:
    """The tables of a model of k = Σ k_i whose score is the mean of the scorers', with the mean of their γ.

    Rows are blocks of k columns: each block of the joined row has that block of every member, one after the other. A
    mean of M wants every distance divided by M. Where entities count by direction, M unit rows side by side are √M
    long, which divides by √M already, and the relations do the rest; a translation is not multiplied by an entity.
    Angles stay what they are; RotatE's table holds them as shares of the range of a uniform start, which γ and k set.
    """
    models, share = [one.model for one in scorers], 1 / len(scorers)
    model = type(models[0])(sum(one.k for one in models), sum(one.gamma for one in models) * share)
    directed = model.name in DIRECTIONS
    entity_rows = [normalize(one.entity_weights) if directed else one.entity_weights for one in scorers]
    relation_rows = [one.relation_weights for one in scorers]
    if model.name == "rotate":
        relation_rows = [one.relation_weights * (model.initial_range / one.model.initial_range) for one in scorers]
    widths = [one.k for one in models]
    entities, relations = _side_by_side(entity_rows, widths), _side_by_side(relation_rows, widths)
    if model.name == "rotate":
        return entities * share, relations
    if model.name == "transe":
        return entities * share, relations * share
    scaled = relations * (share**0.5 if directed else share)
    translation = model.translation(scaled)
    if translation is not None:
        translation.mul_(share**0.5)
    return entities, scaled


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
    first, kind = runs[0], runs[0].recipe.model
    if kind.name not in JOINABLE:
        raise UsageError(f"{kind.name} cannot be joined; {', '.join(JOINABLE)} can.")
    for run in runs:
        if run.manifest is None:
            raise UsageError(f"{run.folder} is not finished: train it to its end before it is joined.")
        if (run.recipe.model.name, run.recipe.model.reciprocal) != (kind.name, kind.reciprocal):
            raise UsageError(f"{run.folder} has another model than {first.folder}: only like can be joined.")
        # Split by split: what one was trained on must not be what the other is tested on.
        if not run.graph.equals(first.graph):
            raise UsageError(f"{run.folder} was trained on another graph than {first.folder}.")
