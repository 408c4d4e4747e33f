"""A training that is cut into parts, on one worker or on many, on one machine or on several."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from transher import devices, kernels
from transher.errors import UsageError
from transher.evaluation.protocol import rank_split
from transher.evaluation.ranks import Ranks
from transher.models import build_model
from transher.models.initialisation import fill_tables, margin_factor, probes, scale_multipliers
from transher.models.sharded import Pieces, ShardedEmbeddings
from transher.training.checkpoints import TrainingState, checked_state
from transher.training.history import History, NoHistory
from transher.training.part_batches import PartBatches, part_sources
from transher.training.part_step import PartStep
from transher.training.parts import Layout, bounds
from transher.training.recipe import Recipe
from transher.training.shard import GraphShard
from transher.training.shard_files import MODEL_POINTER, STATE_POINTER, Parts, load_parts, read_pointer, save_parts
from transher.training.sharded_table import ShardedTable, ShardedTables
from transher.training.table import TABLES, Table
from transher.training.trainer import Trainer, table_bytes
from transher.training.watcher import Watcher
from transher.workers import Workers


class PartTrainer(Trainer):
    """As `Trainer`, with tables and graph in parts. Every worker has one, and all do the same at the same time; the
    first of them writes the history. Weights depend on the number of parts, and not on that of workers."""

    def __init__(
        self, shard: GraphShard, recipe: Recipe, folder: Path, workers: Workers, *, resume: bool = False
    ) -> None:
        if recipe.validation.record_gradients:
            raise UsageError("validation.record_gradients works with training.parts = 1.")
        self.shard, self.recipe, self.folder, self.workers = shard, recipe, folder, workers
        self.model = build_model(recipe.model)
        settings = recipe.training
        self.layout = Layout(settings.parts, workers.count)
        self.progress = TrainingState()
        counts = shard.entity_count, shard.relation_count * (2 if recipe.model.reciprocal else 1)
        kind, averaged = TABLES[settings.optimizer], settings.averaging > 0
        device = workers.device(settings.device)
        sources = part_sources(shard, settings, recipe.model.reciprocal, device)
        self.place = self._agreed_place(device, counts)
        weights = self._empty(counts)
        if not resume:
            self._initialise(weights, counts)
        makers: tuple[Callable[[Tensor], Table], ...] = (
            lambda weight: kind(weight, averaged, settings.unit_entities, device),
            lambda weight: kind(weight, averaged, device=device),
        )
        self.sharded = tuple(
            ShardedTable(weight, count, self.layout, workers, make, device)
            for weight, count, make in zip(weights, counts, makers, strict=True)
        )
        if resume:
            self.progress = checked_state(read_pointer(folder, STATE_POINTER)["state"], folder / STATE_POINTER)
            load_parts(folder, STATE_POINTER, self._state())
            for table in self._tables():
                table.updates = self.progress.updates
        elif recipe.model.start_at_margin:
            self._put_at_margin()
        tables = ShardedTables((self.sharded[0], self.sharded[1]), self.layout, workers)
        self.batches = batches = PartBatches(sources, shard.triple_count, settings, recipe.model.reciprocal, tables)
        self._step = PartStep(self.model, settings, batches, tables, self._wishes)
        self.train_step = self._step
        self._stopping = threading.Event()
        self._saved = time.monotonic()

    def _agreed_place(self, device: torch.device, counts: tuple[int, int]) -> devices.Place:
        """Where every worker's tables lie: on the devices if those of each worker fit there, so that it is the same for
        all, and told by one."""
        if device.type != "cuda":
            return devices.place(device, 0)
        room = torch.tensor([table_bytes(self.model, *self._own_rows(counts), self.recipe), devices.free_bytes(device)])
        needed, free = self.workers.gather(room).unbind(1)
        return devices.place(device, int(needed.max()), int(free.min()))

    def _own_rows(self, counts: tuple[int, int]) -> tuple[int, int]:
        """How many of so many entities and relations this worker has."""
        own = self.shard.own
        entities, relations = (
            start[own.stop] - start[own.start] for start in (bounds(count, self.layout.parts) for count in counts)
        )
        return entities, relations

    def _empty(self, counts: tuple[int, int]) -> tuple[Tensor, Tensor]:
        rows, widths = self._own_rows(counts), (self.model.entity_width, self.model.relation_width)
        entities, relations = (
            torch.empty(count, width, device=self.place.home) for count, width in zip(rows, widths, strict=True)
        )
        return entities, relations

    def _initialise(self, weights: tuple[Tensor, Tensor], counts: tuple[int, int]) -> None:
        """Each part is drawn by itself, from the seed and its number: by the CPU, so that it is the same everywhere."""
        model, seed = self.recipe.model, self.recipe.training.seed
        cuts = [bounds(count, self.layout.parts) for count in counts]
        own = self.shard.own
        for part in own:
            entities, relations = (
                weight[cut[part] - cut[own.start] : cut[part + 1] - cut[own.start]]
                for weight, cut in zip(weights, cuts, strict=True)
            )
            drawn = int(np.random.SeedSequence([seed, part]).generate_state(1, np.uint64)[0] >> 1)
            with devices.from_host(entities) as own_entities, devices.from_host(relations) as own_relations:
                fill_tables(self.model, (own_entities, own_relations), counts, model.init, model.xavier, drawn)
                if self.recipe.training.unit_entities:
                    kernels.unit_rows(own_entities, torch.arange(len(own_entities)))

    def _put_at_margin(self) -> None:
        entities, relations = (self._pieces(place, learned=False) for place in (0, 1))
        heads, ids, tails = probes(entities.count, relations.count, self.recipe.training.seed)
        rows = entities.of(heads).cpu(), relations.of(ids).cpu(), entities.of(tails).cpu()  # as one process has them
        factor = self.workers.told(margin_factor(self.model, *rows))
        for table in self.sharded[1].parts:
            scale_multipliers(self.model, table.weight, factor)
            if table.average is not None:
                table.average.copy_(table.weight)

    def _pieces(self, place: int, learned: bool = True) -> Pieces:
        table = self.sharded[place]
        starts = bounds(table.rows, self.layout.parts)[self.shard.own.start :]
        parts = [
            (first, part.learned if learned else part.weight) for first, part in zip(starts, table.parts, strict=False)
        ]
        return Pieces(table.rows, table.width, parts, self.layout.most, self.workers, self.place.device)

    @property
    def scorer(self) -> ShardedEmbeddings:  # type: ignore[override]
        return ShardedEmbeddings(self.model, self._pieces(0), self._pieces(1), self.recipe.model.reciprocal)

    def run(self, watcher: Watcher | None = None, until: int | None = None) -> None:
        """As in Trainer."""
        super().run(watcher, until)
        self.batches.settle()  # workers exchange ids for it: nothing else may come in between

    def _tables(self) -> list[Table]:
        return [part for table in self.sharded for part in table.parts]

    def _state(self) -> Parts:
        """All that it takes to resume, of each of this worker's parts."""
        found: Parts = {part: {} for part in self.shard.own}
        for name, sharded in zip(("entities", "relations"), self.sharded, strict=True):
            for part, table in zip(self.shard.own, sharded.parts, strict=True):
                found[part][name] = table.weight
                found[part] |= {f"{name}.{key}": tensor for key, tensor in table.state.items()}
                if table.average is not None:
                    found[part][f"{name}.average"] = table.average
        return found

    def _learned(self) -> Parts:
        entities, relations = self.sharded
        return {
            part: {"entities": mine.learned, "relations": others.learned}
            for part, mine, others in zip(self.shard.own, entities.parts, relations.parts, strict=True)
        }

    def _open_history(self) -> History:
        return History(self.folder, self.progress.step) if self.workers.first else NoHistory()

    def _wishes(self) -> tuple[bool, bool]:
        """To stop, on any worker's wish, and to save, when the first worker's clock says so."""
        due = super()._is_due(time.monotonic() - self._saved)
        return self._stopping.is_set(), self.workers.first and due

    def _asked_to_stop(self) -> bool:
        return self._step.wished[0]

    def _is_due(self, seconds: float) -> bool:
        return self._step.wished[1]

    @property
    def _has_validation(self) -> bool:
        return len(self.shard.valid) > 0

    def _validation_ranks(self) -> Ranks:
        return rank_split(self.scorer, self.shard, "valid", sample=self.recipe.validation.sample or None)[1]

    def _save_model(self, mrr: float | None) -> None:
        state = {"step": self.progress.step, "mrr": mrr}
        save_parts(self.folder, MODEL_POINTER, self._learned(), state, self.workers)

    def save(self) -> None:
        """As in Trainer; each worker writes its own parts."""
        self.progress.updates = self._tables()[0].updates if self._tables() else self.progress.step
        if self.progress.best_mrr is None:
            self._save_model(None)
        said = {name: value for name, value in asdict(self.progress).items() if value is not None}
        save_parts(self.folder, STATE_POINTER, self._state(), said, self.workers)
        self._saved = time.monotonic()

    def _return_to_best(self) -> None:
        if self.progress.best_step in (0, self.progress.step):
            return
        best: Parts = {part: {} for part in self.shard.own}
        for name, sharded in zip(("entities", "relations"), self.sharded, strict=True):
            for part, table in zip(self.shard.own, sharded.parts, strict=True):
                best[part][name] = table.weight
        load_parts(self.folder, MODEL_POINTER, best)
        for table in self._tables():
            if table.average is not None:
                table.average.copy_(table.weight)

    def _keep_last_good(self) -> None:
        finite = all(bool(table.learned.isfinite().all()) for table in self.sharded[0].parts)
        everywhere = bool(self.workers.gather(torch.tensor([float(finite)])).all())
        if self.progress.best_mrr is None and everywhere:
            self._save_model(None)
