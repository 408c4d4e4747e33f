"""A worker of a training that is really killed: torchrun replaces it, and the training reaches the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

import transher
from transher.training.recipe import Recipe
from transher.training.shard_files import STATE_POINTER, mapped_parts

TOO_LONG = 1800  # seconds, of a program that takes some fifteen
SETTINGS = (
    "model.k=8",
    "training.steps=12",
    "training.batch=64",
    "training.negatives=8",
    "training.parts=2",
    "validation.every=3",
    "validation.patience=0",
)
MOMENTS = [(0, "before the pointer is in its place", 2)]


def test_a_worker_that_is_killed_is_replaced_and_the_training_reaches_the_same_bits(tmp_path: Path) -> None:
    moments, killed, graph, recipe = (tmp_path / name for name in ("moments.json", "killed", "graph", "recipe.toml"))
    moments.write_text(json.dumps(MOMENTS))
    graph.mkdir()
    lines = [f"e{i % 50}\tr{i % 3}\te{i * 7 % 50}\n" for i in range(300)]
    (graph / "train.tsv").write_text("".join(lines))
    Recipe().with_settings(SETTINGS).save(recipe)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--monitor-interval", "0.1", "--nproc-per-node", "2"]
    worker = ["--max-restarts", str(len(MOMENTS)), str(Path(__file__).with_name("killed_worker.py")), str(moments)]
    train = ["train", str(graph), "--out", str(killed), "--recipe", str(recipe), "--sharded", "--threads", "1"]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with subprocess.Popen([sys.executable, *torchrun, *worker, *train], env=environment) as process:
        try:
            assert process.wait(timeout=TOO_LONG) == 0
        except BaseException:
            process.terminate()  # it then ends its workers, which a kill would leave behind
            process.wait(timeout=60)
            raise
    for attempt in range(len(MOMENTS)):
        assert (tmp_path / f"killed-{attempt}").is_file()
        assert (tmp_path / f"resumed-{attempt + 1}").is_file()
    whole = transher.train(graph, tmp_path / "whole", recipe=recipe, sharded=True)
    parts = [mapped_parts(folder, STATE_POINTER) for folder in (killed, whole.folder)]
    for mine, theirs in zip(*parts, strict=True):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
