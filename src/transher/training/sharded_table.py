"""Tables that are cut into parts, which lie with the workers: rows and gradients go by all_to_all.

What a step asks of all tables travels together. A collective costs a worker some hundred microseconds of CPU time,
however little it carries, so a step has two: rows and gradients. The ids that several steps ask for travel together,
ahead of the first of them. Rows and gradients travel from device to device, wherever the tables lie. Ids are on the
CPU, which has to know how much is to come; what a step needs of them on the device is copied there ahead of it.
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

    def ask(
        self, wanted: Sequence[Sequence[Wanted]], told: NDArray[np.float64]
    ) -> tuple[list[list[Wanted]], NDArray[np.float64]]:
        """wanted: for each of some steps, what this worker wants of each table; told: what it tells to all, (steps, n).
        Gives what is asked of it likewise, by worker and then by its node, and what all told, (steps, workers, n). On
        the channel that is ahead of the step."""
        workers, me = self.workers, self.workers.index
        leaving = [
            [] if owner == me else [ids for step in wanted for of_table in step for ids in of_table[owner]]
            for owner in range(workers.count)
        ]
        said = told.reshape(-1).view(np.int64)
        numbers = [np.concatenate([np.array([len(ids) for ids in to], dtype=np.int64), said]) for to in leaving]
        nodes = [len(self.layout.nodes(worker)) for worker in range(workers.count)]
        lengths = [len(wanted) * len(self.tables) * count + len(said) for count in nodes]
        heard = [came.numpy() for came in workers.exchange(list(map(torch.from_numpy, numbers)), lengths, ahead=True)]
        counts = [words[: -len(said)] for words in heard]
        pieces = [np.empty(0, dtype=np.int64), *(ids for to in leaving for ids in to)]
        flat = torch.from_numpy(np.concatenate(pieces).astype(np.int32))
        sizes = [sum(map(len, to)) for to in leaving]
        came = workers.swap(flat, sizes, [int(count.sum()) for count in counts], ahead=True)
        parts = iter(np.split(came.numpy().astype(np.int64), np.cumsum(np.concatenate(counts))))
        asked: list[list[Wanted]] = [[[[]] * workers.count for _ in step] for step in wanted]
        for worker, count in enumerate(nodes):
            for number, step in enumerate(wanted):
                for table, mine in enumerate(step):
                    theirs = mine[me] if worker == me else [next(parts) for _ in range(count)]
                    asked[number][table][worker] = theirs
        told_by = [words[-len(said) :].view(np.float64).reshape(told.shape) for words in heard]
        return asked, np.stack(told_by, 1)

    def requests(self, wanted: Sequence[Wanted], asked: Sequence[Wanted]) -> list[Request]:
        """Of each table, the request of a step."""
        nodes = [node for worker in range(self.workers.count) for node in self.layout.nodes(worker)]
        return [
            table.request(mine, theirs, nodes) for table, mine, theirs in zip(self.tables, wanted, asked, strict=True)
        ]

    def pull(self, requests: Sequence[Request]) -> list[list[Tensor]]:
        """Of each table, the rows of each of this worker's nodes, (U, width), in the order of their ids."""
        me, everybody = self.workers.index, range(self.workers.count)
        widths = [table.width for table in self.tables]
        asked = [[[sum(of.asked[worker])] for of in requests] if worker != me else [] for worker in everybody]
        wanted = [[of.wanted[owner] for of in requests] if owner != me else [] for owner in everybody]
        sizes = _sizes(asked, widths)
        leaving = torch.empty(sum(sizes), device=self.device)
        for worker, to_worker in enumerate(_cut(leaving, asked, widths)):
            for table, request, (rows,) in zip(self.tables, requests, to_worker, strict=False):
                table.take(request.gathered[worker], rows)
        came = _cut(self.workers.swap(leaving, sizes, _sizes(wanted, widths)), wanted, widths)
        found: list[list[Tensor]] = [[] for _ in self.tables]
        for number, (table, request) in enumerate(zip(self.tables, requests, strict=True)):
            for node, own in enumerate(request.own):
                counts = [of_owner[node] for of_owner in request.wanted]
                rows = torch.empty(sum(counts), table.width, device=self.device)
                for owner, place in enumerate(rows.split(counts)):
                    if owner == me:
                        table.take(own, place)
                    else:
                        place.copy_(came[owner][number][node])
                found[number].append(rows)
        return found

    def collect(
        self, requests: Sequence[Request], gradients: Sequence[Sequence[Tensor]], told: Tensor
    ) -> tuple[list[list[Moving]], Tensor]:
        """Of each table, the gradients (U, width) of this worker's nodes go to the owners of their rows; gives, for
        each part that this worker owns, the rows that move and their gradient, summed over all parts. And told: (n,) on
        the device, of one length everywhere → (workers, n)."""
        me, everybody = self.workers.index, range(self.workers.count)
        widths = [*(table.width for table in self.tables), 1]
        wanted, asked = (
            [[*side, [len(told)]] if worker != me else [] for worker, side in enumerate(zip(*sides, strict=True))]
            for sides in ([of.wanted for of in requests], [of.asked for of in requests])
        )
        own = [
            [gradient.split([counts[node] for counts in request.wanted]) for node, gradient in enumerate(of_table)]
            for request, of_table in zip(requests, gradients, strict=True)
        ]  # by table, node and owner
        pieces = [told[:0]]
        for owner in everybody:
            if owner != me:
                pieces += [*(rows[owner].reshape(-1) for nodes in own for rows in nodes), told]
        came = self.workers.swap(torch.cat(pieces), _sizes(wanted, widths), _sizes(asked, widths))
        arrived = _cut(came, asked, widths)
        moving = []
        for number, (table, request) in enumerate(zip(self.tables, requests, strict=True)):
            arrived_here = [arrived[w][number] if w != me else [rows[me] for rows in own[number]] for w in everybody]
            moving.append(table.moving(request, [rows for of_worker in arrived_here for rows in of_worker]))
        return moving, torch.stack([arrived[w][-1][0][:, 0] if w != me else told for w in everybody])


# How many rows a message has: by worker, then by table, then piece by piece. Nothing goes to oneself.
Counts = Sequence[Sequence[Sequence[int]]]


def _sizes(counts: Counts, widths: Sequence[int]) -> list[int]:
    """How many numbers go to each worker, or come from it."""
    return [sum(sum(rows) * width for rows, width in zip(of_worker, widths, strict=False)) for of_worker in counts]


def _cut(message: Tensor, counts: Counts, widths: Sequence[int]) -> list[list[list[Tensor]]]:
    """The pieces (n, width) of a message, which has them one after the other."""
    sizes = [
        count * width for of_worker in counts for rows, width in zip(of_worker, widths, strict=False) for count in rows
    ]
    pieces = iter(message.split(sizes))
    return [
        [[next(pieces).view(-1, width) for _ in rows] for rows, width in zip(of_worker, widths, strict=False)]
        for of_worker in counts
    ]


def _joined(parts: Sequence[Ids]) -> Ids:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=np.int64), *parts])
