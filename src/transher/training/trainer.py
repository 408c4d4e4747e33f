"""A training session: steps, reports, validations and checkpoints, until the steps are done, patience ends or the user
stops it."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transher import devices, kernels
from transher.errors import Diverged, InputError, Interrupted, UsageError
from transher.evaluation import evaluate
from transher.evaluation.ranks import Ranks
from transher.graph.graph import Graph
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.models.initialisation import initial_tables, put_at_margin
from transher.models.model import Model
from transher.training.batches import BatchSource
from transher.training.checkpoints import (
    MODEL_FILE,
    STATE_FILE,
    TrainingState,
    load_state,
    read_tensors,
    refuse_not_finite,
    save_model,
    save_state,
)
from transher.training.device_batches import source_on
from transher.training.history import History
from transher.training.queries import QueryBatches
from transher.training.recipe import Recipe
from transher.training.schedule import DROPS, drop_is_due, learning_rate
from transher.training.softmax import SoftmaxStep, step_bytes
from transher.training.step import Step, TrainingStep
from transher.training.stopping import stops_on_signals
from transher.training.table import TABLES
from transher.training.watcher import Report, Watcher

_CHANCE = 2.0  # times the MRR of guessing: below it, a model has not learned
_GAIN = 0.002  # relative: what a validation MRR must gain to count as an improvement


class Trainer:
    """Trains `recipe` on `graph` and keeps `folder` such that a kill at any time loses little and breaks nothing."""

    def __init__(self, graph: Graph, recipe: Recipe, folder: Path, *, resume: bool = False) -> None:
        self.graph = graph
        self.recipe = recipe
        self.folder = folder
        self.model = build_model(recipe.model)
        all_entities = recipe.training.negatives == "all"
        device = devices.find(recipe.training.device)
        source = QueryBatches if all_entities else source_on(device)
        self.batches: BatchSource[Any] = source(graph, recipe.training, recipe.model.reciprocal, device)
        self.progress = TrainingState()
        settings = recipe.training
        rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
        if resume:
            tensors, self.progress = load_state(folder)
            self._refuse_unfit(tensors, rows)
            entities, relations = tensors["entities"], tensors["relations"]
        else:
            _refuse_beyond_memory(self.model, len(graph.entities), rows, recipe)
            entities, relations = initial_tables(
                self.model, len(graph.entities), rows, recipe.model.init, recipe.model.xavier, settings.seed
            )
            if recipe.model.start_at_margin:
                put_at_margin(self.model, entities, relations, settings.seed)
            if settings.unit_entities:
                kernels.unit_rows(entities, torch.arange(len(entities)))
        kind, averaged = TABLES[settings.optimizer], settings.averaging > 0
        needed = table_bytes(self.model, len(entities), len(relations), recipe)
        if all_entities:
            needed += step_bytes(self.model, len(entities), settings)
        self.place = devices.place(device, needed)
        home = self.place.home
        self.entities = kind(entities.to(home), averaged, settings.unit_entities, device)
        self.relations = kind(relations.to(home), averaged, device=device)
        if resume:
            self._restore(tensors)
        taken: type[Step[Any]] = SoftmaxStep if all_entities else TrainingStep
        self.train_step: Callable[..., float] = taken(self.model, settings, self.batches, self.entities, self.relations)
        self._stopping = threading.Event()

    @property
    def scorer(self) -> Embeddings:
        tables = self.entities.learned, self.relations.learned
        return Embeddings(self.model, *tables, self.recipe.model.reciprocal).on(self.place)

    def run(self, watcher: Watcher | None = None, until: int | None = None) -> None:
        """Train to the end, or pause after step `until`, which changes nothing of what comes after it. Raises
        `Interrupted` on Ctrl-C or SIGTERM, with everything saved."""
        watcher = watcher or Watcher()
        on_cpu = self.place.device.type == "cpu"
        why = devices.unused(self.recipe.training.device) if on_cpu else f"{self.place.why}."
        if why:
            watcher.noticed(why)
        settings, validation = self.recipe.training, self.recipe.validation
        history = self._open_history()
        started, before = time.monotonic(), self.progress.seconds
        saved = mark = started
        losses: list[float] = []  # and triples since the last report, or since the training was resumed
        triples = 0
        try:
            with stops_on_signals(self.stop):
                while not self.done and (until is None or self.progress.step < until):
                    batch = self.batches.at(self.progress.step)
                    spread: dict[str, float] | None = {} if self._starts_epoch(self.progress.step) else None
                    losses.append(self.train_step(batch, self.progress.step, spread, self.progress.drops))
                    triples += batch.triples
                    self.progress.step += 1
                    step, now = self.progress.step, time.monotonic()
                    self.progress.seconds = before + now - started
                    if spread is not None:
                        history.add("gradients", step, **spread)
                    last = self.done
                    if step % validation.report_every == 0 or last:
                        self._report(history, watcher, sum(losses) / len(losses), triples / (now - mark))
                        losses, triples, mark = [], 0, now
                    if step % validation.every == 0 or last:
                        self._validate(history, watcher)
                        self._look_after(watcher)
                        mark = time.monotonic()
                    if self._asked_to_stop():
                        break
                    if step % validation.every == 0 or self._is_due(now - saved):
                        self.save()
                        saved = time.monotonic()
        except Diverged:
            self._keep_last_good()
            raise
        finally:
            history.close()
        self.save()
        if self._asked_to_stop() and not self.done:
            raise Interrupted(f"stopped at step {self.progress.step} of {settings.steps}; everything is saved.")

    def _open_history(self) -> History:
        return History(self.folder, self.progress.step)

    def _asked_to_stop(self) -> bool:
        return self._stopping.is_set()

    def _is_due(self, seconds: float) -> bool:
        """Whether it is time for a checkpoint, so many seconds after the last."""
        return seconds > 60 * self.recipe.validation.checkpoint_minutes

    def _starts_epoch(self, step: int) -> bool:
        """Whether gradients are recorded at this step: the first of an epoch, which shows either side every triple."""
        return self.recipe.validation.record_gradients and step % self.batches.steps_per_epoch == 0

    def _report(self, history: History, watcher: Watcher, loss: float, speed: float) -> None:
        progress = self.progress
        steps = self.recipe.training.steps
        left = progress.seconds / progress.step * (steps - progress.step)
        rate = learning_rate(self.recipe.training, progress.step - 1, progress.drops)
        history.add("report", progress.step, loss=loss, lr=rate, triples_per_second=speed, seconds=progress.seconds)
        watcher.report(Report(progress.step, steps, loss, speed, left, bool(self.recipe.validation.patience)))

    def _validate(self, history: History, watcher: Watcher) -> None:
        """Rank validation triples; keep the weights if they are the best so far. Without validation triples the
        latest weights are the ones to keep."""
        progress = self.progress
        if not self._has_validation:
            self._save_model(None)
            return
        mrr = float((1 / self._validation_ranks().realistic).mean())
        best = progress.best_mrr is None or mrr > progress.best_mrr
        if best:
            progress.best_mrr, progress.best_step = mrr, progress.step
            self._save_model(mrr)
        # Any gain is worth keeping; only a clear one is worth waiting for the next.
        clear = progress.mark is None or mrr > progress.mark * (1 + _GAIN)
        progress.stale = 0 if clear else progress.stale + 1
        progress.mark = mrr if clear else progress.mark
        history.add("validation", progress.step, mrr=mrr, seconds=progress.seconds)
        watcher.validated(progress.step, mrr, best)

    @property
    def _has_validation(self) -> bool:
        return len(self.graph.valid) > 0

    def _validation_ranks(self) -> Ranks:
        return evaluate(self.scorer, self.graph, "valid", sample=self.recipe.validation.sample or None).ranks

    def _save_model(self, mrr: float | None) -> None:
        """Keep the weights as they are to answer from."""
        save_model(self.folder, self.entities.learned, self.relations.learned, self.progress.step, mrr)

    def _out_of_patience(self) -> bool:
        patience = self.recipe.validation.patience
        return bool(patience) and self.progress.stale >= patience

    @property
    def done(self) -> bool:
        """Whether the steps are done, or patience has ended for good."""
        waits = self.recipe.training.schedule == "plateau" and self.progress.drops < DROPS
        return self.progress.step >= self.recipe.training.steps or (self._out_of_patience() and not waits)

    def _look_after(self, watcher: Watcher) -> None:
        """After a validation: drop the learning rate when it is time, and tell the user why a training ends early."""
        progress, settings, validation = self.progress, self.recipe.training, self.recipe.validation
        message = trouble(progress, self.scorer.entity_count, ends_itself=bool(validation.patience))
        if message:
            watcher.noticed(message)
        if self.done:
            if self._out_of_patience():
                watcher.noticed(
                    f"Validation MRR has not improved in {validation.patience} validations: the training ends with the "
                    f"weights of step {progress.best_step:,}."
                )
        elif settings.schedule == "plateau" and (
            self._out_of_patience() or drop_is_due(settings, progress.step, progress.drops)
        ):
            reason = "has stopped improving" if self._out_of_patience() else "still improves, and the steps end soon"
            progress.drops += 1
            progress.stale = 0
            self._return_to_best()
            watcher.noticed(
                f"Validation MRR {reason}: from the weights of step {progress.best_step or progress.step:,} on, "
                f"the learning rate is {learning_rate(settings, progress.step, progress.drops):.2g}."
            )

    def _return_to_best(self) -> None:
        """Take the weights with the best validation MRR so far; the optimiser keeps what it knows."""
        if self.progress.best_step in (0, self.progress.step):
            return
        best, _ = read_tensors(self.folder / MODEL_FILE)
        for name, table in (("entities", self.entities), ("relations", self.relations)):
            table.weight.copy_(best[name])
            if table.average is not None:
                table.average.copy_(best[name])

    def stop(self) -> None:
        """Ask `run` to save and end after the step at hand."""
        self._stopping.set()

    def save(self) -> None:
        """A checkpoint to resume from; before the first validation also weights to answer from."""
        tensors = {"entities": self.entities.weight, "relations": self.relations.weight}
        for name, table in (("entities", self.entities), ("relations", self.relations)):
            tensors |= {f"{name}.{key}": tensor for key, tensor in table.state.items()}
            if table.average is not None:
                tensors[f"{name}.average"] = table.average
        self.progress.updates = self.entities.updates
        if self.progress.best_mrr is None:
            self._save_model(None)
        save_state(self.folder, tensors, self.progress)

    def _keep_last_good(self) -> None:
        """After a loss that is not finite: these weights, unless better ones are on disk or these are not finite."""
        if self.progress.best_mrr is None and bool(self.entities.learned.isfinite().all()):
            self._save_model(None)

    def _refuse_unfit(self, tensors: dict[str, Tensor], relations: int) -> None:
        """A checkpoint must have a table, and the optimiser's state, of every row that graph and recipe say."""
        path, kind = self.folder / STATE_FILE, TABLES[self.recipe.training.optimizer]
        sizes = {
            "entities": (len(self.graph.entities), self.model.entity_width),
            "relations": (relations, self.model.relation_width),
        }
        for table, (rows, width) in sizes.items():
            shapes = dict.fromkeys({table} | ({f"{table}.average"} & tensors.keys()), (rows, width))
            shapes |= {f"{table}.{key}": (rows, kind.state_width(width)) for key in kind.state_names}
            for name, shape in shapes.items():
                found = tensors.get(name)
                if found is None or tuple(found.shape) != shape or found.dtype != torch.float32:
                    told = "nothing" if found is None else f"{tuple(found.shape)} of {found.dtype}"
                    raise InputError(f"has {told} for {name}, where recipe and graph say {shape}.", file=path)
        refuse_not_finite(tensors, path)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        for name, table in (("entities", self.entities), ("relations", self.relations)):
            table.updates = self.progress.updates
            home = table.weight.device
            table.state = {key: tensors[f"{name}.{key}"].to(home) for key in table.state_names}
            if table.average is not None:
                table.average = tensors.get(f"{name}.average", table.average).to(home)


def table_bytes(model: Model, entities: int, relations: int, recipe: Recipe) -> int:
    """Of both tables, with what the optimiser and an average take."""
    kind, averaged = TABLES[recipe.training.optimizer], recipe.training.averaging > 0
    sizes = (entities, model.entity_width), (relations, model.relation_width)
    return 4 * sum(rows * kind.numbers(width, averaged) for rows, width in sizes)


def _refuse_beyond_memory(model: Model, entities: int, relations: int, recipe: Recipe) -> None:
    """Tables and batches that cannot fit whatever is freed: a system that promises memory which it does not have ends
    the process later, without a word."""
    settings = recipe.training
    batch = settings.batch * (model.entity_width + model.relation_width)
    if settings.negatives != "all":
        pools = settings.batch if settings.pools == "each" else settings.pools
        batch += settings.batch * settings.negatives + pools * settings.negatives
    if not hasattr(os, "sysconf"):  # Windows refuses what it cannot give
        return
    needed, there = (
        table_bytes(model, entities, relations, recipe) + 4 * batch,
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )
    if needed > there:
        raise UsageError(
            f"this training needs {needed / 1e9:,.0f} GB of memory, and the machine has {there / 1e9:,.0f}: take a "
            "smaller model.k, training.batch or training.negatives."
        )


def trouble(progress: TrainingState, entity_count: int, ends_itself: bool) -> str:
    """What the validations so far say is wrong, and what to do; nothing if all is well. Each is said once."""
    if progress.best_mrr is None or progress.stale != 2 or progress.drops:
        return ""
    chance = (math.log(max(entity_count, 2)) + 0.577) / max(entity_count, 2)  # MRR of a random order of all entities
    if progress.best_mrr < _CHANCE * chance:
        return (
            f"Validation MRR is {progress.best_mrr:.4f}, and guessing gives {chance:.4f}: the model does not learn. "
            "Try the default settings, another learning rate (training.lr), or another model."
        )
    if ends_itself:
        return ""
    return (
        f"Validation MRR has not improved since step {progress.best_step:,}, whose weights are kept: the model "
        "overfits. Stop it, or set training.schedule=plateau and validation.patience=2: then training ends by itself."
    )
