"""Trainings in parts, on one worker or many, and the runs that they leave: whole, or sharded where they do not fit."""

from __future__ import annotations

import atexit
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

from transher import devices
from transher.errors import Diverged, InputError, Interrupted, TransherError
from transher.files import alone, sweep, write_safetensors
from transher.models import build_model
from transher.models.sharded import Lead, Pieces, ShardedEmbeddings, follow
from transher.scorer import Scorer
from transher.training.checkpoints import FORMAT, MODEL_FILE, STATE_FILE, refuse_not_finite
from transher.training.part_trainer import PartTrainer
from transher.training.parts import Layout, bounds
from transher.training.recipe import Recipe
from transher.training.shard import read_shard
from transher.training.shard_files import (
    MODEL_POINTER,
    STATE_POINTER,
    mapped_parts,
    part_files,
    parts_in_memory,
    read_pointer,
    sweep_parts,
)
from transher.training.watcher import Watcher
from transher.workers import Workers, joined

_LOCK_FILE, _GRAPH_FOLDER = ".lock", "graph"
SHARDED_FILE = "sharded"  # empty: a run that stays in parts even if it would fit
_leads: dict[Path, Scorer] = {}


def first_does(workers: Workers, begin: Callable[[], None]) -> None:
    """The first worker does what one must do; if it fails, all end, and one error is told."""
    problem: TransherError | None = None
    if workers.first:
        try:
            begin()
        except TransherError as error:
            problem = error
    failed = workers.told(problem is not None)
    if problem is not None:
        raise problem
    if failed:
        raise SystemExit(1)


def train_parts(folder: Path, recipe: Recipe, watcher: Watcher | None, workers: Workers) -> dict[str, float]:
    """Train what lies in a folder, from its last checkpoint if it has one; gives the cost. Afterwards the folder has
    weights to answer from, whole where they fit."""
    with alone(folder / _LOCK_FILE, str(folder)) if workers.first else nullcontext():
        if workers.first:
            sweep(folder)
            _sweep_all_parts(folder)
        workers.meet()
        shard = read_shard(folder / _GRAPH_FOLDER, recipe.training, workers)
        resumed = (folder / STATE_POINTER).is_file()
        trainer = PartTrainer(shard, recipe, folder, workers, resume=resumed)
        try:
            trainer.run(watcher if workers.first else None)
        except (Diverged, Interrupted) as error:  # of which all workers know, and one tells
            if workers.first:
                raise
            raise SystemExit(130 if isinstance(error, Interrupted) else 1) from None
        progress = trainer.progress
        workers.meet()
        if workers.first:
            _sweep_all_parts(folder)  # what could not be removed when it was replaced
        if workers.first and not (folder / SHARDED_FILE).exists() and _fits(folder):
            make_whole(folder)
        workers.meet()
    return {"seconds": progress.seconds, "steps": progress.step, "best_step": progress.best_step}


def _sweep_all_parts(folder: Path) -> None:
    for pointer in (MODEL_POINTER, STATE_POINTER):
        sweep_parts(folder, pointer)


def is_sharded(folder: Path) -> bool:
    """Whether a run's weights lie in parts."""
    return (folder / MODEL_POINTER).is_file() and not (folder / MODEL_FILE).is_file()


def make_whole(folder: Path) -> None:
    """An ordinary run folder out of one in parts. Its rows are read from disk as they are written."""
    for pointer, name in ((STATE_POINTER, STATE_FILE), (MODEL_POINTER, MODEL_FILE)):
        if not (folder / pointer).is_file():
            continue
        parts, said = mapped_parts(folder, pointer), read_pointer(folder, pointer)
        arrays = {key: [part[key].numpy() for part in parts] for key in parts[0]}
        write_safetensors(folder / name, arrays, {"format": FORMAT, "state": json.dumps(said["state"])})
    remove_parts(folder)


def is_whole(folder: Path) -> bool:
    """Whether the weights and the checkpoint of a training in parts are in one file each. The parts may still be there,
    if the process was killed before it removed them."""
    return (folder / MODEL_FILE).is_file() and (folder / STATE_FILE).is_file()


def remove_parts(folder: Path) -> None:
    """The pointers first: what they point to is no longer whole afterwards."""
    for pointer in (STATE_POINTER, MODEL_POINTER):
        (folder / pointer).unlink(missing_ok=True)
        shutil.rmtree(folder / pointer.removesuffix(".json"), ignore_errors=True)


def _fits(folder: Path, chosen: Sequence[int] | None = None, together: int = 1) -> bool:
    """Whether weights can be answered from in memory: all parts, or those chosen by each of so many workers on this
    machine, take less than half of its memory."""
    paths = [path for path, _ in part_files(folder, MODEL_POINTER, chosen)]
    size = sum(path.stat().st_size for path in paths if path.is_file())  # one that is missing is told by its reader
    return bool(2 * together * size < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _own_parts(
    folder: Path, own: Sequence[int], expected: Sequence[Mapping[str, tuple[int, int]]], workers: Workers
) -> list[dict[str, Tensor]]:
    """The weights of this worker's parts, whole, of the expected shapes and finite. If those of any worker are not, all
    end, and those that know what is wrong tell it."""
    problem: TransherError | None = None
    try:
        fits = _fits(folder, own, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        parts = (parts_in_memory if fits else mapped_parts)(folder, MODEL_POINTER, own)
        for number, part, shapes in zip(own, parts, expected, strict=True):
            _refuse_misfit(part, shapes, number, folder / MODEL_POINTER)
    except TransherError as error:
        problem = error
    failed = bool(workers.total(torch.tensor(float(problem is not None))))
    if problem is not None:
        raise problem
    if failed:
        raise SystemExit(1)
    return parts


def _refuse_misfit(part: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, int]], number: int, file: Path) -> None:
    for name, shape in shapes.items():
        found = tuple(part[name].shape) if name in part else "nothing"
        if found != shape:
            raise InputError(f"part {number} has {found} for {name}, where recipe and graph say {shape}.", file=file)
        if part[name].dtype != torch.float32:
            raise InputError(f"part {number} has {part[name].dtype} for {name}, and not float32.", file=file)
    refuse_not_finite(part, file)


def sharded_scorer(folder: Path, recipe: Recipe, counts: Mapping[str, int]) -> Scorer:
    """What a sharded run answers by. Started by torchrun, each worker has its parts, the first one asks and the others
    answer it until it ends; a process alone has all parts. They are in memory, or mapped if they do not fit."""
    folder = folder.resolve()
    if folder in _leads:
        return _leads[folder]
    workers, model = joined(), build_model(recipe.model)
    count = len(read_pointer(folder, MODEL_POINTER)["files"])
    layout = Layout(count, workers.count)
    own = layout.of(workers.index)
    widths = {"entities": model.entity_width, "relations": model.relation_width}
    starts = {name: bounds(counts[name], count) for name in widths}
    expected = [
        {name: (starts[name][number + 1] - starts[name][number], width) for name, width in widths.items()}
        for number in own
    ]
    parts = _own_parts(folder, own, expected, workers)
    pieces = {}
    for name, width in widths.items():
        mine = [(starts[name][number], part[name]) for number, part in zip(own, parts, strict=True)]
        pieces[name] = Pieces(counts[name], width, mine, layout.most, workers)
    needed = sum(part.nbytes for part in pieces.values())
    place = devices.place(workers.device(recipe.training.device), needed)
    pieces = {name: part.on(place) for name, part in pieces.items()}
    scorer = ShardedEmbeddings(model, pieces["entities"], pieces["relations"], recipe.model.reciprocal)
    if workers.count == 1:
        return scorer
    if not workers.first:
        follow(scorer)
        raise SystemExit(0)
    lead = _leads[folder] = Lead(scorer)
    atexit.register(lead.dismiss)
    return lead
