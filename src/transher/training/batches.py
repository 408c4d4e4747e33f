"""What a step works on: positives of one side, negatives, and the distinct rows that both need.

Every draw depends on (seed, purpose, step) alone, by a counter-based generator: there is no state to save, and a
resumed training sees the same batches as an uninterrupted one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher import kernels
from transher.errors import TransherError
from transher.graph.graph import SIDES, Graph, Side
from transher.models.embeddings import asked_as
from transher.training.held import Holder, WholeGraph
from transher.training.settings import TrainingSettings

# What a draw is for. ORDER takes two, one per side.
ORDER, NEGATIVES, _DROPOUT, _THINNING = 0, 2, 3, 4
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Batch:
    """B positives of one side. Positions are those in `entity_ids` (U,) and `relation_ids` (V,), both distinct."""

    side: Side  # as the model is asked
    entity_ids: Tensor
    relation_ids: Tensor
    anchors: Tensor  # (B,)
    relations: Tensor  # (B,)
    answers: Tensor  # (B,)
    groups: list[tuple[slice, Tensor]]  # positives with their pools of negatives (P, N), as models take them
    valid: Tensor | None  # (B, N), False where a negative does not count
    weights: Tensor  # (B,)

    @property
    def triples(self) -> int:
        return len(self.anchors)

    @classmethod
    def nothing(cls, side: Side) -> Batch:
        """Of a part that has no triple to show in a step."""
        none = torch.empty(0, dtype=torch.int64)
        return cls(side, none, none, none, none, none, [], None, torch.empty(0))


class Needs(NamedTuple):
    """What others must know of a batch before it is computed: its rows of either table, and what its positives weigh.
    On the CPU."""

    entity_ids: Tensor  # (U,)
    relation_ids: Tensor  # (V,)
    weight: Tensor  # float64 ()

    @classmethod
    def of(cls, batch: Batch) -> Needs:
        return cls(batch.entity_ids.cpu(), batch.relation_ids.cpu(), batch.weights.double().sum().cpu())


AnyBatch = TypeVar("AnyBatch")


class BatchSource(ABC, Generic[AnyBatch]):
    """The batches of a training, by step."""

    steps_per_epoch: int  # in which every triple is asked for on both sides

    def __init__(self, settings: TrainingSettings, reciprocal: bool, device: torch.device = CPU) -> None:
        self.settings = settings
        self.reciprocal = reciprocal
        self.device = device
        self._maker = ThreadPoolExecutor(1, "batches")
        self._next: tuple[int, Future[AnyBatch] | None] = (0, None)

    def at(self, step: int) -> AnyBatch:
        """The batch of a step. The next one is made meanwhile, on a thread of its own: a step spends its time in native
        code, which leaves Python free, and a batch depends on its step alone, not on when it is made."""
        expected, ready = self._next
        batch = ready.result() if ready is not None and expected == step else self._made(step)
        self._next = step + 1, self._maker.submit(self._made, step + 1)
        return batch

    def settle(self) -> None:
        """Wait for the batch that is being made."""
        if self._next[1] is not None:
            self._next[1].result()

    def _made(self, step: int) -> AnyBatch:
        """The batch of a step, on the device that computes."""
        return on_device(self.make(step), self.device)

    @abstractmethod
    def make(self, step: int) -> AnyBatch:
        """The batch of a step, made now."""

    def _generator(self, purpose: int, counter: int, part: int = 0) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[self.settings.seed, purpose], counter=[0, 0, part, counter]))


def refuse_empty(name: str, triples: int) -> None:
    if not triples:
        raise TransherError(f"{name} has no training triples: there is nothing to learn from.")


class Batches(BatchSource[Batch]):
    """Batches with drawn negatives. Sides alternate; each side goes through all triples before any repeats."""

    def __init__(
        self, graph: Graph | Holder, settings: TrainingSettings, reciprocal: bool, device: torch.device = CPU
    ) -> None:
        super().__init__(settings, reciprocal, device)
        self._graph = holder = WholeGraph.of(graph, settings) if isinstance(graph, Graph) else graph
        refuse_empty(holder.name, holder.triple_count)
        self.per_epoch = -(-holder.triple_count // settings.batch)
        self.steps_per_epoch = 2 * self.per_epoch
        assert settings.negatives != "all"
        self.negative_count = min(settings.negatives, holder.entity_count)
        self.stands_for = holder.entity_count / self.negative_count if settings.sampled_softmax else 1.0
        self._types = _TypedEntities(holder) if settings.typed else None
        self._orders: dict[Side, tuple[int, NDArray[np.int32]]] = {}

    def make(self, step: int) -> Batch:
        side = SIDES[1 - step % 2]
        held = self._graph.held[side]
        chosen = self._positives(side, step // 2)
        if not len(chosen):
            return Batch.nothing(side)
        triples = held.triples[chosen]
        # Queries of one relation follow each other, so that its row stays in the cache; where negatives have types,
        # positives that share a pool lie side by side.
        order = np.argsort(triples[:, 1], kind="stable")
        if self._types is not None:
            order = order[np.argsort(self._types.of[self._answers(triples[order], side)], kind="stable")]
        chosen, triples = chosen[order], triples[order]
        answers, anchors = self._answers(triples, side), self._answers(triples, "head" if side == "tail" else "tail")
        pools, valid = self._negatives(chosen, anchors, triples[:, 1], answers, side, step)

        all_ids = np.concatenate([anchors, answers, *(pool.reshape(-1) for _, pool in pools)])
        entity_ids, positions = kernels.distinct(torch.from_numpy(all_ids), self._graph.entity_count)
        count, taken = len(triples), 2 * len(triples)
        groups = []
        for rows, pool in pools:
            groups.append((rows, positions[taken : taken + pool.size].view(pool.shape)))
            taken += pool.size
        relation_rows, asked = asked_as(
            torch.from_numpy(triples[:, 1].astype(np.int64)), side, self._graph.relation_count, self.reciprocal
        )
        relation_ids, relations = kernels.distinct(
            relation_rows, self._graph.relation_count * (2 if self.reciprocal else 1)
        )
        return Batch(
            side=asked,
            entity_ids=entity_ids,
            relation_ids=relation_ids,
            anchors=positions[:count],
            relations=relations,
            answers=positions[count : 2 * count],
            groups=groups,
            valid=valid,
            weights=torch.from_numpy(held.weights[chosen]),
        )

    def with_needs(self, step: int) -> tuple[Batch, Needs]:
        """The batch of a step on the device that computes, and what it needs."""
        batch = self.make(step)
        return on_device(batch, self.device), Needs.of(batch)

    def dropout_mask(self, step: int, rows: int, k: int) -> Tensor:
        """(rows, k): 0 with the recipe's probability, else what keeps the mean at 1."""
        keep = 1 - self.settings.dropout
        draws = self._generator(_DROPOUT, step, self._graph.part).random((rows, k), dtype=np.float32)
        return torch.from_numpy((draws < keep).astype(np.float32) / np.float32(keep))

    def thinning_key(self, step: int) -> int:
        """What decides which gradients of a step survive thinning: 32 bits."""
        return int(self._generator(_THINNING, step, self._graph.part).integers(1 << 32))

    def _positives(self, side: Side, turn: int) -> NDArray[np.int32]:
        """Positions in the side's triples, of its turn 0, 1, … A part takes its share of all, as far as whole numbers
        can be shares."""
        epoch, within = divmod(turn, self.per_epoch)
        total = len(self._graph.held[side].triples)
        cached = self._orders.get(side)
        if cached is None or cached[0] != epoch:
            generator = self._generator(ORDER + SIDES.index(side), epoch, self._graph.part)
            order = generator.permutation(np.arange(total, dtype=np.int32))
            cached = self._orders[side] = (epoch, order)
        return cached[1][within * total // self.per_epoch : (within + 1) * total // self.per_epoch]

    @staticmethod
    def _answers(triples: NDArray[np.int32], side: Side) -> NDArray[np.int32]:
        return triples[:, 2 if side == "tail" else 0]

    def _negatives(
        self,
        chosen: NDArray[np.int32],
        anchors: NDArray[np.int32],
        relations: NDArray[np.int32],
        answers: NDArray[np.int32],
        side: Side,
        step: int,
    ) -> tuple[list[tuple[slice, NDArray[np.int64]]], Tensor | None]:
        """Groups of positives with their negatives' ids, and which of them count (B, N). Pools that are open to every
        positive are the same in all parts, so that their rows travel once."""
        shared = self._types is None and self.settings.pools != "each"
        generator = self._generator(NEGATIVES, step, 0 if shared else self._graph.part)
        count = self.negative_count
        held, entity_count = self._graph.held[side], self._graph.entity_count
        known = held.known if self.settings.filter_known else None
        if self.settings.pools == "each":
            shape = (len(answers), count)
            if self._types is None:
                own = generator.integers(entity_count, size=shape)
            else:
                own = self._types.draw(answers, generator.random(shape))
            valid = None if known is None else self._mask_own(own, *known.of(anchors, relations))
            return [(slice(0, len(answers)), own)], valid
        if self._types is None:
            drawn = [
                generator.choice(entity_count, count, replace=False, shuffle=False)
                for _ in range(kernels.pool_count(len(answers), self.settings.pools))
            ]
            groups = [(slice(0, len(answers)), np.stack(drawn))]
            valid = None if known is None else torch.ones(len(answers), count, dtype=torch.bool)
        else:
            groups, valid = self._typed_pools(answers, generator)
        if known is not None and valid is not None and held.ranges is not None:
            starts, ends = (torch.from_numpy(bounds[chosen].astype(np.int64)) for bounds in held.ranges)
            flat = torch.from_numpy(known.answers)
            for rows, pools in groups:
                run = kernels.run_length(rows.stop - rows.start, len(pools))
                for first, pool in zip(range(rows.start, rows.stop, run), pools, strict=True):
                    part = slice(first, min(first + run, rows.stop))
                    kernels.mask_known(
                        valid[part], torch.from_numpy(pool), kernels.Known(starts[part], ends[part], flat)
                    )
        return groups, valid

    def _typed_pools(
        self, answers: NDArray[np.int32], generator: np.random.Generator
    ) -> tuple[list[tuple[slice, NDArray[np.int64]]], Tensor]:
        """A pool of its own for each run of answers of one type. A type with too few entities fills its pool up with
        repetitions, which do not count."""
        assert self._types is not None
        groups = []
        valid = torch.zeros(len(answers), self.negative_count, dtype=torch.bool)
        for rows, members in self._types.groups(answers):
            distinct = min(self.negative_count, len(members))
            drawn = generator.choice(members, distinct, replace=False, shuffle=False).astype(np.int64)
            groups.append((rows, np.resize(drawn, (1, self.negative_count))))
            valid[rows, :distinct] = True
        return groups, valid

    def _mask_own(self, own: NDArray[np.int64], offsets: NDArray[np.int64], answers: NDArray[np.int32]) -> Tensor:
        """Which of the negatives (B, N) are no known answers of their own positive."""
        entity_count = self._graph.entity_count
        row = np.repeat(np.arange(len(own)), np.diff(offsets))
        keys = row * entity_count + answers  # ascending: rows are in order, and so are each row's answers
        asked = own + np.arange(len(own))[:, None] * entity_count
        place = np.minimum(np.searchsorted(keys, asked), max(0, len(keys) - 1))
        return torch.from_numpy(keys[place] != asked) if len(keys) else torch.ones(own.shape, dtype=torch.bool)


def on_device(batch: AnyBatch, device: torch.device) -> AnyBatch:
    """A batch with all of its tensors on a device."""
    if device == CPU:
        return batch
    moved = {field.name: _moved(getattr(batch, field.name), device) for field in fields(batch)}  # type: ignore[arg-type]
    return replace(batch, **moved)  # type: ignore[type-var]


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, list):  # groups of a batch
        return [(rows, pools.to(device, non_blocking=True)) for rows, pools in value]
    return value


class _TypedEntities:
    """Entities by type: `of` (entities,) gives each one's type."""

    def __init__(self, graph: Holder) -> None:
        if graph.entity_types is None:
            raise TransherError(
                f"training.typed needs a graph whose entities have types, and {graph.name} has none: set it to false."
            )
        self.of = graph.entity_types
        self._order = np.argsort(self.of, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(self.of[self._order], np.arange(self.of.max() + 2))

    def groups(self, answers: NDArray[np.int32]) -> list[tuple[slice, NDArray[np.int32]]]:
        """Runs of answers (sorted by type) with one type, each with all entities of that type."""
        types = self.of[answers]
        bounds = np.flatnonzero(np.diff(types, prepend=-1, append=-1))
        return [(slice(int(start), int(stop)), self._members(int(types[start]))) for start, stop in pairwise(bounds)]

    def draw(self, answers: NDArray[np.int32], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """uniform: (B, N) in [0, 1) → ids (B, N), each of the type of its row's answer."""
        types = self.of[answers]
        start, stop = self._starts[types][:, None], self._starts[types + 1][:, None]
        return self._order[(start + (stop - start) * uniform).astype(np.int64)].astype(np.int64)

    def _members(self, kind: int) -> NDArray[np.int32]:
        return self._order[self._starts[kind] : self._starts[kind + 1]]
