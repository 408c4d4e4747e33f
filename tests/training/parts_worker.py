"""Trains and ranks in parts, and writes what came out: `python parts_worker.py FOLDER DEVICE`, alone or by torchrun."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.conftest import make_graph

from transher.evaluation.protocol import rank_split
from transher.graph.graph import Candidates, Graph
from transher.kernels import Known
from transher.models.sharded import Pieces
from transher.training.part_trainer import PartTrainer
from transher.training.parts import Layout
from transher.training.recipe import Recipe
from transher.training.shard import read_shard, shard_of
from transher.training.shard_files import STATE_POINTER, mapped_parts
from transher.workers import Workers, together

QUICK = ["model.k=12", "training.steps=20", "training.batch=60", "training.negatives=16", "validation.every=10"]
CASES = {
    "plain": ["training.parts=4"],
    "odd": ["training.parts=3", "training.gradient_share=0.3", "model.start_at_margin=true", "training.dropout=0.1"],
    "dot": ["training.parts=4", "model.name=complex", "training.optimizer=row-adagrad", "training.n3=0.01"],
    "dense": ["training.parts=5", "training.optimizer=adam", "training.schedule=step", "training.pools=each"],
    "average": ["training.parts=2", "training.averaging=0.2", "training.unit_entities=true", "model.reciprocal=true"],
}


def random_graph() -> Graph:
    generator = np.random.default_rng(0)
    triples = np.stack([generator.integers(0, size, 900) for size in (101, 7, 101)], 1)
    triples = generator.permutation(np.unique(triples, axis=0))
    return make_graph(triples[:-60], triples[-60:-30], triples[-30:], entities=101, relations=7)


def alike(pieces: Pieces) -> Pieces:
    """With the signs of three numbers of each row only: eight kinds of entities, of which many tie."""
    return replace(
        pieces, parts=[(first, torch.cat([rows[:, :3].sign(), 0 * rows[:, 3:]], 1)) for first, rows in pieces.parts]
    )


def outcome(trainer: PartTrainer, folder: Path, workers: Workers) -> dict[str, Any]:
    trainer.run()
    digest = hashlib.sha256()
    for part in mapped_parts(folder, STATE_POINTER):
        for key in sorted(part):
            digest.update(part[key].numpy().tobytes())
    anchors, relations = torch.arange(10), torch.arange(10) % 7
    excluded = Known(torch.zeros(10, dtype=torch.int64), torch.full((10,), 3), torch.tensor([1, 40, 99]).int())
    scores, ids = trainer.scorer.best(anchors, relations, "tail", 5, excluded)
    ranks = trainer._validation_ranks()
    coarse = replace(trainer.scorer, entity_pieces=alike(trainer.scorer.entity_pieces))
    tied = rank_split(coarse, trainer.shard, "valid")[1]
    assert tied.tied.mean() > 0.5
    return {
        "weights": digest.hexdigest(),
        "mrr": trainer.progress.best_mrr,
        "best": [scores.tolist(), ids.tolist()],
        "ranks": ranks.realistic.tolist(),
        "ties": [tied.optimistic.tolist(), tied.pessimistic.tolist()],
        "best of ties": [part.tolist() for part in coarse.best(anchors, relations, "tail", 5, excluded)],
        "pairs": trainer.scorer.scores(anchors, relations, "head")[:, ::10].tolist(),
    }


def main(folder: Path, device: str) -> None:
    graph = random_graph()
    generator = np.random.default_rng(1)
    supplied = Candidates(*(generator.integers(0, 101, (30, 20)).astype(np.int32) for _ in range(2)))
    found: dict[str, Any] = {}
    with together() as workers:
        for name, settings in CASES.items():
            recipe = Recipe().with_settings([*QUICK, *settings, f"training.device={device}"])
            run = folder / f"{name}-{workers.count}"
            shard = shard_of(graph, recipe.training, Layout(recipe.training.parts, workers.count).of(workers.index))
            if name == "odd":
                shard.candidates["valid"] = supplied
            run.mkdir(exist_ok=True)
            found[name] = outcome(PartTrainer(shard, recipe, run, workers), run, workers)
        recipe = Recipe().with_settings([*QUICK, "training.parts=4", f"training.device={device}"])
        run = folder / f"prepared-{workers.count}"
        run.mkdir(exist_ok=True)
        shard = read_shard(folder / "prepared", recipe.training, workers)
        found["prepared"] = outcome(PartTrainer(shard, recipe, run, workers), run, workers)
        if workers.first:
            (folder / f"found-{workers.count}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2])
