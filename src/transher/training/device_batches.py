"""Batches that are made where they are used: on a GPU, ordering, distinct rows and known answers are its work.

The draws are those of the CPU, so that a seed gives the same batches on every device. What is drawn one after the
other, an epoch's order and a shared pool, comes from the CPU: it is small. Negatives of their own, which are many, are
drawn on the GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher import kernels
from transher.graph.graph import SIDES, Graph, Side
from transher.kernels.draws import Stream
from transher.models.embeddings import asked_as
from transher.training.batches import CPU, NEGATIVES, Batch, Batches, Needs, on_device
from transher.training.held import Holder
from transher.training.settings import TrainingSettings


def source_on(device: torch.device) -> type[Batches]:
    """What makes batches with drawn negatives for a device. Where there is no Triton the CPU makes them: there are too
    many small operations for what is left."""
    return DeviceBatches if device.type == "cuda" else Batches


class DeviceBatches(Batches):
    """As Batches, to the last id, with the triples and their known answers on the device. Typed negatives are drawn
    type by type, and come from the CPU."""

    def __init__(
        self, graph: Graph | Holder, settings: TrainingSettings, reciprocal: bool, device: torch.device = CPU
    ) -> None:
        super().__init__(graph, settings, reciprocal, device)
        held = self._graph.held
        self._triples = self._there({side: held[side].triples for side in SIDES})
        self._weights = self._there({side: held[side].weights for side in SIDES})
        self._known: dict[Side, kernels.Known] = {}
        for side in SIDES:
            known, ranges = held[side].known, held[side].ranges
            if settings.filter_known and known is not None and ranges is not None:
                starts, ends = (torch.from_numpy(bound).to(device).long() for bound in ranges)
                # Of the answers that a worker knows, those of this part.
                first, last = int(ranges[0].min(initial=len(known))), int(ranges[1].max(initial=0))
                answers = torch.from_numpy(known.answers[first : max(first, last)]).to(device)
                self._known[side] = kernels.Known(starts - first, ends - first, answers)

    def _there(self, arrays: dict[Side, NDArray[Any]]) -> dict[Side, Tensor]:
        """Arrays on the device, once where both sides have the same."""
        tail, head = arrays["tail"], arrays["head"]
        moved = torch.from_numpy(tail).to(self.device)
        return {"tail": moved, "head": moved if head is tail else torch.from_numpy(head).to(self.device)}

    def _made(self, step: int) -> Batch:
        return super()._made(step) if self._types is not None else self._make_there(step)

    def with_needs(self, step: int) -> tuple[Batch, Needs]:
        if self._types is not None:
            return super().with_needs(step)
        batch = self._make_there(step)
        return batch, Needs.of(batch)

    def _make_there(self, step: int) -> Batch:
        """As `make`."""
        side = SIDES[1 - step % 2]
        chosen = torch.from_numpy(self._positives(side, step // 2)).to(self.device)
        if not len(chosen):
            return on_device(Batch.nothing(side), self.device)
        triples = self._triples[side]
        order = torch.sort(triples[chosen, 1], stable=True).indices
        chosen = chosen[order]
        heads, related, tails = triples[chosen].long().unbind(1)
        anchors, answers = (heads, tails) if side == "tail" else (tails, heads)
        pools, valid = self._negatives_there(chosen, side, step)

        ids = torch.cat([anchors, answers, pools.reshape(-1)])
        entity_ids, positions = kernels.distinct(ids, self._graph.entity_count)
        count = len(chosen)
        rows, asked = asked_as(related, side, self._graph.relation_count, self.reciprocal)
        relation_ids, relations = rows.unique(return_inverse=True)
        return Batch(
            side=asked,
            entity_ids=entity_ids,
            relation_ids=relation_ids,
            anchors=positions[:count],
            relations=relations,
            answers=positions[count : 2 * count],
            groups=[(slice(0, count), positions[2 * count :].view(pools.shape))],
            valid=valid,
            weights=self._weights[side][chosen],
        )

    def _negatives_there(self, chosen: Tensor, side: Side, step: int) -> tuple[Tensor, Tensor | None]:
        """Ids of the negatives (P, N), and which of them count (B, N)."""
        count, wanted = self.negative_count, self.settings.pools
        known = self._known.get(side)
        if known is not None:
            known = kernels.Known(known.starts[chosen], known.ends[chosen], known.ids)
        if wanted == "each":
            stream = Stream((self.settings.seed, NEGATIVES), step, self._graph.part)
            own = stream.integers(self._graph.entity_count, len(chosen) * count, self.device).view(len(chosen), count)
            return own, None if known is None else self._mask_own_there(own, known)
        generator = self._generator(NEGATIVES, step)
        drawn = [
            generator.choice(self._graph.entity_count, count, replace=False, shuffle=False)
            for _ in range(kernels.pool_count(len(chosen), wanted))
        ]
        pools = torch.from_numpy(np.stack(drawn)).to(self.device)
        if known is None:
            return pools, None
        valid = torch.ones(len(chosen), count, dtype=torch.bool, device=self.device)
        run = kernels.run_length(len(chosen), len(pools))
        parts = zip(valid.split(run), pools, known.starts.split(run), known.ends.split(run), strict=True)
        for part, pool, starts, ends in parts:
            kernels.mask_known(part, pool, kernels.Known(starts, ends, known.ids))
        return pools, valid

    def _mask_own_there(self, own: Tensor, known: kernels.Known) -> Tensor:
        """As `_mask_own`."""
        entity_count = self._graph.entity_count
        row, answers = known.pairs()
        keys = row * entity_count + answers  # ascending: rows are in order, and so are each row's answers
        asked = own + torch.arange(len(own), device=own.device)[:, None] * entity_count
        if not len(keys):
            return torch.ones_like(own, dtype=torch.bool)
        place = torch.searchsorted(keys, asked).clamp_max_(len(keys) - 1)
        return keys[place] != asked
