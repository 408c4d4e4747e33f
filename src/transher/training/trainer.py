"""The training loop: batches in, better rows out, until the steps are done, patience ends or somebody says stop."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor

from transher import kernels
from transher.errors import Diverged, Interrupted
from transher.evaluation import evaluate
from transher.graph.graph import Graph
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.models.initialisation import initial_tables, put_at_margin
from transher.training.batches import Batch, Batches
from transher.training.checkpoints import Progress, load_state, save_model, save_state
from transher.training.history import History
from transher.training.loss import batch_loss
from transher.training.recipe import Recipe
from transher.training.schedule import learning_rate, resets_moments
from transher.training.table import TABLES, Table
from transher.training.watcher import Report, Watcher

_AVERAGE_EVERY = 16  # steps: an average passes over whole tables


class Trainer:
    """Trains `recipe` on `graph` and keeps `folder` such that a kill at any time loses little and breaks nothing."""

    def __init__(self, graph: Graph, recipe: Recipe, folder: Path, *, resume: bool = False) -> None:
        self.graph = graph
        self.recipe = recipe
        self.folder = folder
        self.model = build_model(recipe.model)
        self.batches = Batches(graph, recipe.training, recipe.model.reciprocal)
        self.progress = Progress()
        settings = recipe.training
        if resume:
            tensors, self.progress = load_state(folder)
            entities, relations = tensors["entities"], tensors["relations"]
        else:
            rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
            entities, relations = initial_tables(
                self.model, len(graph.entities), rows, recipe.model.init, recipe.model.xavier, settings.seed
            )
            if recipe.model.start_at_margin:
                put_at_margin(self.model, entities, relations, settings.seed)
            if settings.unit_entities:
                kernels.unit_rows(entities, torch.arange(len(entities)))
        kind, averaged = TABLES[settings.optimizer], settings.averaging > 0
        self.entities, self.relations = kind(entities, averaged, settings.unit_entities), kind(relations, averaged)
        if resume:
            self._restore(tensors)
        self._gradients: dict[str, float] = {}
        self._stopping = threading.Event()

    @property
    def scorer(self) -> Embeddings:
        return Embeddings(self.model, self.entities.learned, self.relations.learned, self.recipe.model.reciprocal)

    def run(self, watcher: Watcher | None = None) -> None:
        """Train to the end. Raises `Interrupted` on Ctrl-C or SIGTERM, with everything saved."""
        watcher = watcher or Watcher()
        settings, validation = self.recipe.training, self.recipe.validation
        history = History(self.folder, self.progress.step)
        started, before = time.monotonic(), self.progress.seconds
        saved = mark = started
        losses: list[float] = []  # and triples since the last report, or since the training went on
        triples = 0
        try:
            with self._stops_on_signals():
                while self.progress.step < settings.steps and not self._out_of_patience():
                    batch = self.batches.at(self.progress.step)
                    losses.append(self.train_step(batch, self.progress.step))
                    triples += len(batch.anchors)
                    self.progress.step += 1
                    step, now = self.progress.step, time.monotonic()
                    self.progress.seconds = before + now - started
                    if self._starts_epoch(step - 1):
                        history.add("gradients", step, **self._gradients)
                    if step % validation.report_every == 0 or step == settings.steps:
                        self._report(history, watcher, sum(losses) / len(losses), triples / (now - mark))
                        losses, triples, mark = [], 0, now
                    if step % validation.every == 0 or step == settings.steps:
                        self._validate(history, watcher)
                        mark = time.monotonic()
                    if self._stopping.is_set():
                        break
                    if step % validation.every == 0 or now - saved > 60 * validation.checkpoint_minutes:
                        self.save()
                        saved = time.monotonic()
        except Diverged:
            self._keep_last_good()
            raise
        finally:
            history.close()
        self.save()
        if self._stopping.is_set() and self.progress.step < settings.steps and not self._out_of_patience():
            raise Interrupted(f"stopped at step {self.progress.step} of {settings.steps}; everything is saved.")

    def train_step(self, batch: Batch, step: int) -> float:
        """One step of gradient descent; gives the loss."""
        settings = self.recipe.training
        if resets_moments(settings, step):
            self.entities.reset()
            self.relations.reset()
        entity_rows = self.entities.pull(batch.entity_ids)
        relation_rows = self.relations.pull(batch.relation_ids)
        positive, negative = self._scores(batch, entity_rows, relation_rows, step)
        if settings.gradient_share < 1:
            negative = kernels.thin(negative, settings.gradient_share, self.batches.thinning_key(step))
        loss = batch_loss(settings, positive, negative, batch.valid, batch.weights, self.batches.stands_for)
        if settings.n3:
            loss = loss + settings.n3 * self._cubes(batch, entity_rows, relation_rows)
        value = float(loss.detach()) + self._translation_penalty(relation_rows)
        if not math.isfinite(value):
            raise Diverged(
                f"the loss became {value} at step {step}: the learning rate is likely too high. The last good weights "
                f"are kept; try --set training.lr={settings.lr / 10:g}, or a warm-up with --set training.warmup=1000."
            )
        loss.backward()
        self._pull_translations(relation_rows)
        if self._starts_epoch(step):
            spreads = (("entities", entity_rows), ("relations", relation_rows))
            self._gradients = {name: float(rows.grad.std()) for name, rows in spreads if rows.grad is not None}
        rate = learning_rate(settings, step)
        _push(self.entities, batch.entity_ids, entity_rows, rate)
        _push(self.relations, batch.relation_ids, relation_rows, rate * settings.relation_rate)
        if settings.averaging and (step + 1) % _AVERAGE_EVERY == 0:
            share = 1 - math.exp(-_AVERAGE_EVERY / (settings.averaging * (step + 1)))
            self.entities.follow(share)
            self.relations.follow(share)
        return value

    def _starts_epoch(self, step: int) -> bool:
        """Whether gradients are recorded at this step: the first of an epoch, which shows either side every triple."""
        return self.recipe.validation.record_gradients and step % (2 * self.batches.per_epoch) == 0

    def _scores(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        keep = None
        if self.recipe.training.dropout:
            keep = self.batches.dropout_mask(step, len(batch.anchors), self.model.entity_width)
        scores = [
            self.model.batch_scores(
                entity_rows,
                relation_rows,
                batch.anchors[rows],
                batch.relations[rows],
                batch.answers[rows],
                negatives,
                batch.side,
                None if keep is None else keep[rows],
            )
            for rows, negatives in batch.groups
        ]
        if len(scores) == 1:
            return scores[0]
        return torch.cat([positive for positive, _ in scores]), torch.cat([negative for _, negative in scores])

    def _cubes(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """N3: the mean over the batch of ‖h‖³₃ + ‖r‖³₃ + ‖t‖³₃."""
        entity_cubes = self.model.moduli(entity_rows).pow(3).sum(1)
        relation_cubes = self.model.moduli(relation_rows).pow(3).sum(1)
        return (entity_cubes[batch.anchors] + entity_cubes[batch.answers] + relation_cubes[batch.relations]).mean()

    def _translation_penalty(self, relation_rows: Tensor) -> float:
        """λ‖B‖²_F over every relation."""
        weight, translation = self.recipe.training.translation_l2, self.model.translation(relation_rows.detach())
        return 0.0 if not weight or translation is None else weight * float(torch.linalg.vector_norm(translation)) ** 2

    def _pull_translations(self, relation_rows: Tensor) -> None:
        """Adds 2λB to the gradient of B: autograd would first fill a gradient of the whole rows with zeros."""
        weight, translation = self.recipe.training.translation_l2, self.model.translation(relation_rows.detach())
        if weight and translation is not None and relation_rows.grad is not None:
            gradient = self.model.translation(relation_rows.grad)
            assert gradient is not None
            gradient.add_(translation, alpha=2 * weight)

    def _report(self, history: History, watcher: Watcher, loss: float, speed: float) -> None:
        progress, steps = self.progress, self.recipe.training.steps
        left = progress.seconds / progress.step * (steps - progress.step)
        rate = learning_rate(self.recipe.training, progress.step - 1)
        history.add("report", progress.step, loss=loss, lr=rate, triples_per_second=speed, seconds=progress.seconds)
        watcher.report(Report(progress.step, steps, loss, speed, left))

    def _validate(self, history: History, watcher: Watcher) -> None:
        """Rank validation triples; keep the weights if they are the best so far. Without validation triples the
        latest weights are the ones to keep."""
        progress = self.progress
        if not len(self.graph.valid):
            save_model(self.folder, self.entities.learned, self.relations.learned, progress.step, None)
            return
        sample = self.recipe.validation.sample or None
        ranks = evaluate(self.scorer, self.graph, "valid", sample=sample).ranks
        mrr = float((1 / ranks.realistic).mean())
        best = progress.best_mrr is None or mrr > progress.best_mrr
        if best:
            progress.best_mrr, progress.best_step, progress.stale = mrr, progress.step, 0
            save_model(self.folder, self.entities.learned, self.relations.learned, progress.step, mrr)
        else:
            progress.stale += 1
        history.add("validation", progress.step, mrr=mrr, seconds=progress.seconds)
        watcher.validated(progress.step, mrr, best)

    def _out_of_patience(self) -> bool:
        patience = self.recipe.validation.patience
        return bool(patience) and self.progress.stale >= patience

    def stop(self) -> None:
        """Ask `run` to save and end after the step at hand."""
        self._stopping.set()

    def save(self) -> None:
        """A checkpoint to go on from; before the first validation also weights to answer from."""
        tensors = {"entities": self.entities.weight, "relations": self.relations.weight}
        for name, table in (("entities", self.entities), ("relations", self.relations)):
            tensors |= {f"{name}.{key}": tensor for key, tensor in table.state.items()}
            if table.average is not None:
                tensors[f"{name}.average"] = table.average
        self.progress.updates = self.entities.updates
        if self.progress.best_mrr is None:
            save_model(self.folder, self.entities.learned, self.relations.learned, self.progress.step, None)
        save_state(self.folder, tensors, self.progress)

    def _keep_last_good(self) -> None:
        """After a loss that is no number: these weights, unless better ones are on disk or these are spoilt too."""
        if self.progress.best_mrr is None and bool(self.entities.learned.isfinite().all()):
            save_model(self.folder, self.entities.learned, self.relations.learned, self.progress.step, None)

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        for name, table in (("entities", self.entities), ("relations", self.relations)):
            table.updates = self.progress.updates
            table.state = {key: tensors[f"{name}.{key}"] for key in table.state_names}
            if table.average is not None:
                table.average = tensors.get(f"{name}.average", table.average)

    @contextmanager
    def _stops_on_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the loop after the step at hand; a second Ctrl-C is as abrupt as ever."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            self.stop()
            signal.signal(signal.SIGINT, signal.default_int_handler)

        previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _push(table: Table, ids: Tensor, rows: Tensor, rate: float) -> None:
    if rows.grad is not None:
        with torch.no_grad():
            table.push(ids, rows.grad, rate)
