"""Tables that are cut into parts, which lie with the workers: rows and gradients go by all_to_all.

What a step asks of all tables travels together. A collective costs a worker some hundred microseconds of CPU time,
however little it carries, so a step has three: the ids that it asks for, ahead of it; rows; gradients. Rows and
gradients travel from device to device, wherever the tables lie. Ids are on the CPU, which has to know how much is to
come; what a step needs of them on the device is copied there ahead of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher import kernels
from transher.training.parts import Layout, Node, TreeSum, bounds
from transher.training.table import Table
from transher.workers import Workers

Ids = NDArray[np.int64]  # in numpy, whose every operation on a few of them costs a fraction of what torch's does
Words = NDArray[np.int64]  # numbers of rows, and what is told to all as the bits of float64
Wanted = list[list[Ids]]  # by owner, then by node of mine: ids, as positions in the owner's rows
Moving = tuple[Tensor, Tensor]  # rows of a part (n,), where it lies, and their gradient (n, width) on the device


@dataclass(frozen=True)
class Request:
    """The rows that the workers need of a table in a step, as one of them sees it. Made ahead of the step. Rows are
    positions in those of their owner, and lie where the table does."""

    wanted: list[list[int]]  # by owner, then by node of mine: how many rows
    asked: list[list[int]]  # by worker, then by its node: how many of mine
    own: list[Tensor]  # by node of mine: what it needs of my rows
    gathered: list[Tensor]  # by worker: all that it asks, if it is another one
    gradients: TreeSum  # over all that is asked of me
    moving: list[tuple[Tensor, slice]]  # by part of mine: its rows that move, and where the sum has them

    def outgoing(self, owner: int) -> int:
        """How many rows I need of a worker."""
        return sum(self.wanted[owner])

    def incoming(self, worker: int) -> int:
        """How many of my rows a worker needs."""
        return sum(self.asked[worker])


class ShardedTable:
    """`rows` rows in all. `parts` are the tables of this worker's own parts, views of `weight`, with an optimiser each,
    whose every operation has the shape of a part: its bits do not depend on what else the worker has. `device` computes
    with rows, as in Table."""

    def __init__(
        self,
        weight: Tensor,
        rows: int,
        layout: Layout,
        workers: Workers,
        make: Callable[[Tensor], Table],
        device: torch.device,
    ) -> None:
        self.rows, self.layout = rows, layout
        self.weight, self.device = weight, device
        self.width = weight.shape[1]
        starts = bounds(rows, layout.parts)
        self._starts = [starts[layout.of(worker).start] for worker in range(layout.workers)]
        self._me = workers.index
        own = layout.of(workers.index)
        self._cuts = [start - starts[own.start] for start in starts[own.start : own.stop + 1]]
        self.parts = [make(weight[first:last]) for first, last in pairwise(self._cuts)]

    def wanted(self, nodes: Sequence[Tensor]) -> Wanted:
        """What this worker needs, for each of its nodes distinct ascending ids, by owner and as it is asked there."""
        wanted: Wanted = [[] for _ in range(self.layout.workers)]
        for ids in map(Tensor.numpy, nodes):
            places = np.searchsorted(ids, self._starts[1:]).tolist()
            for owner, (first, last) in enumerate(pairwise([0, *places, len(ids)])):
                wanted[owner].append(ids[first:last] - self._starts[owner])
        return wanted

    def request(self, wanted: Wanted, asked: Wanted, nodes: Sequence[Node]) -> Request:
        """asked: by worker, then by its node, rows of mine. nodes: of all that is asked, worker by worker."""
        home, bound = self.weight.device, max(1, len(self.weight))
        ids = [torch.from_numpy(part) for lists in asked for part in lists]
        total = TreeSum(self.layout.parts, nodes, ids, bound, self.device)
        moving = total.ids[0].numpy()
        places = np.searchsorted(moving, self._cuts).tolist()
        return Request(
            wanted=[[len(part) for part in lists] for lists in wanted],
            asked=[[len(part) for part in lists] for lists in asked],
            own=[torch.from_numpy(part).to(home) for part in wanted[self._me]],
            gathered=[
                torch.from_numpy(_joined(lists) if worker != self._me else _joined([])).to(home)
                for worker, lists in enumerate(asked)
            ],
            gradients=total,
            moving=[
                (torch.from_numpy(moving[first:last] - start).to(home), slice(first, last))
                for start, (first, last) in zip(self._cuts, pairwise(places), strict=False)
            ],
        )

    def take(self, ids: Tensor, into: Tensor) -> None:
        """Rows of this worker's, ids (n,), into a tensor (n, width) of the device."""
        if into.device == self.weight.device:
            kernels.gather_rows(self.weight, ids, into)
        else:
            into.copy_(kernels.gather_rows(self.weight, ids))

    def moving(self, request: Request, gradients: Sequence[Tensor]) -> list[Moving]:
        """The gradients (n, width) of all that is asked, summed over all parts: for each part that this worker owns."""
        (total,) = request.gradients(gradients)
        return [(ids, total[rows]) for ids, rows in request.moving]


@dataclass(frozen=True)
class ShardedTables:
    """The tables of a model, of the same layout. All workers call the same methods at the same time."""

    tables: tuple[ShardedTable, ShardedTable]  # entities and relations
    layout: Layout
    workers: Workers

    @property
    def device(self) -> torch.device:
        """What computes with rows."""
        return self.tables[0].device

    @property
    def parts(self) -> list[Table]:
        """The tables of this worker's parts."""
        return [part for table in self.tables for part in table.parts]

    def announced(self, wanted: Sequence[Wanted], told: NDArray[np.float64]) -> list[Words]:
        """For each worker, how many rows of each table are wanted of it, and what all are told, (n,)."""
        counts = [[len(ids) for of_table in wanted for ids in of_table[owner]] for owner in range(self.workers.count)]
        return [np.concatenate([np.array(count, dtype=np.int64), told.view(np.int64)]) for count in counts]

    def hear(self, announced: Sequence[Words], told: int) -> list[Words]:
        """What every worker announces to this one, of which `told` is the length of what it tells to all."""
        lengths = [self._counts(worker) + told for worker in range(self.workers.count)]
        came = self.workers.exchange([torch.from_numpy(words) for words in announced], lengths, ahead=True)
        return [words.numpy() for words in came]

    def told(self, heard: Sequence[Words]) -> NDArray[np.float64]:
        """What all workers told, (workers, n)."""
        return np.stack([words[self._counts(worker) :].view(np.float64) for worker, words in enumerate(heard)])

    def request(
        self, wanted: Sequence[Wanted], heard: Sequence[Words], following: Sequence[Words], told: int
    ) -> tuple[list[Request], list[Words]]:
        """The requests of a step, of which the numbers were heard. With its ids travels what is announced for the
        `following` step; gives what was heard of that too. On the channel that is ahead of the step."""
        workers, me = self.workers, self.workers.index
        others = [worker for worker in range(workers.count) if worker != me]
        leaving: list[list[NDArray[np.integer]]] = [[] for _ in range(workers.count)]
        for owner in others:
            leaving[owner] += [ids for of_table in wanted for ids in of_table[owner]]
            leaving[owner].append(following[owner].view(np.int32))
        counts = [words[: self._counts(worker)].tolist() for worker, words in enumerate(heard)]
        lengths = [2 * (self._counts(worker) + told) for worker in range(workers.count)]
        coming = [0 if worker == me else sum(count) + lengths[worker] for worker, count in enumerate(counts)]
        came = self._swapped(leaving, coming)
        asked = [[of_table[me] if worker == me else [] for worker in range(workers.count)] for of_table in wanted]
        later = list(following)
        place = 0
        for worker in others:
            for number, count in enumerate(counts[worker]):
                asked[number * len(asked) // len(counts[worker])][worker].append(
                    came[place : place + count].astype(np.int64)
                )
                place += count
            later[worker] = came[place : place + lengths[worker]].copy().view(np.int64)
            place += lengths[worker]
        order = [node for worker in range(workers.count) for node in self.layout.nodes(worker)]
        requests = [
            table.request(mine, others_ask, order)
            for table, mine, others_ask in zip(self.tables, wanted, asked, strict=True)
        ]
        return requests, later

    def _swapped(self, leaving: Sequence[Sequence[NDArray[np.integer]]], coming: Sequence[int]) -> NDArray[np.int32]:
        """Ids and words for each worker → what came from all, in their order. On the channel ahead of the step."""
        pieces = [piece for to_worker in leaving for piece in to_worker]
        if not pieces:
            return np.empty(0, dtype=np.int32)
        flat = torch.from_numpy(np.concatenate(pieces, dtype=np.int32, casting="same_kind"))
        sizes = [sum(map(len, to_worker)) for to_worker in leaving]
        came: NDArray[np.int32] = self.workers.swap(flat, sizes, coming, ahead=True).numpy()
        return came

    def _counts(self, worker: int) -> int:
        """How many numbers a worker announces of the rows that it wants."""
        return len(self.tables) * len(self.layout.nodes(worker))

    def pull(self, requests: Sequence[Request]) -> list[list[Tensor]]:
        """Of each table, the rows of each of this worker's nodes, (U, width), in the order of their ids."""
        me = self.workers.index
        both = list(zip(self.tables, requests, strict=True))
        sizes = [
            0 if worker == me else sum(request.incoming(worker) * table.width for table, request in both)
            for worker in range(self.workers.count)
        ]
        leaving, place = torch.empty(sum(sizes), device=self.device), 0
        for worker in range(self.workers.count):
            for table, request in both if worker != me else ():
                ids = request.gathered[worker]
                rows = leaving[place : place + len(ids) * table.width].view(len(ids), table.width)
                table.take(ids, rows)
                place += rows.numel()
        coming = [
            0 if owner == me else sum(request.outgoing(owner) * table.width for table, request in both)
            for owner in range(self.workers.count)
        ]
        came = self.workers.swap(leaving, sizes, coming)
        found = [
            [
                torch.empty(sum(counts[node] for counts in request.wanted), table.width, device=self.device)
                for node in range(len(request.own))
            ]
            for table, request in both
        ]
        filled = [[0] * len(nodes) for nodes in found]
        place = 0
        for owner in range(self.workers.count):
            for number, (table, request) in enumerate(both):
                for node, count in enumerate(request.wanted[owner]):
                    first = filled[number][node]
                    filled[number][node] += count
                    rows = found[number][node][first : first + count]
                    if owner == me:
                        table.take(request.own[node], rows)
                    else:
                        rows.copy_(came[place : place + rows.numel()].view(rows.shape))
                        place += rows.numel()
        return found

    def collect(
        self, requests: Sequence[Request], gradients: Sequence[Sequence[Tensor]], told: Tensor
    ) -> tuple[list[list[Moving]], Tensor]:
        """Of each table, the gradients (U, width) of this worker's nodes go to the owners of their rows; gives, for
        each part that this worker owns, the rows that move and their gradient, summed over all parts. And told:
        float64 (n,) on the device, of one length everywhere → (workers, n)."""
        workers, me = self.workers, self.workers.index
        by_node = [
            [gradient.split([counts[node] for counts in request.wanted]) for node, gradient in enumerate(of_table)]
            for request, of_table in zip(requests, gradients, strict=True)
        ]
        words = told.view(torch.float32)  # bits: they are only copied
        by_owner = [
            [rows[owner].reshape(-1) for nodes in by_node for rows in nodes] + [words] if owner != me else []
            for owner in range(workers.count)
        ]
        sizes = [sum(map(len, pieces)) for pieces in by_owner]
        coming = [
            0
            if worker == me
            else len(words)
            + sum(request.incoming(worker) * table.width for table, request in zip(self.tables, requests, strict=True))
            for worker in range(workers.count)
        ]
        pieces = [piece for pieces in by_owner for piece in pieces]
        came = workers.swap(torch.cat(pieces) if pieces else words[:0], sizes, coming)
        parts: list[list[Tensor]] = [[] for _ in self.tables]
        everything = told.expand(workers.count, -1).clone()
        for worker, message in enumerate(came.split(coming)):
            place = 0
            for number, (table, request) in enumerate(zip(self.tables, requests, strict=True)):
                if worker == me:
                    parts[number] += [rows[me] for rows in by_node[number]]
                    continue
                for count in request.asked[worker]:
                    end = place + count * table.width
                    parts[number].append(message[place:end].view(count, table.width))
                    place = end
            if worker != me:
                everything[worker].view(torch.float32).copy_(message[place:])
        moving = [table.moving(request, own) for table, request, own in zip(self.tables, requests, parts, strict=True)]
        return moving, everything


def _joined(parts: Sequence[Ids]) -> Ids:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])
