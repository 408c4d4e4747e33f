"""A table that is cut into parts, which lie with the workers: rows and gradients go by all_to_all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from transher import kernels
from transher.training.parts import Layout, Node, TreeSum, bounds
from transher.training.table import Table
from transher.workers import Workers


@dataclass(frozen=True)
class Request:
    """The rows that the workers need of a table in a step, as one of them sees it. Made ahead of the step."""

    wanted: list[list[Tensor]]  # by owner, then by node of mine: ids, as positions in the owner's rows
    asked: list[list[Tensor]]  # by worker, then by its node: my rows, as positions in them
    gradients: TreeSum  # over all that is asked of me

    @property
    def incoming(self) -> list[int]:
        """How many of my rows each worker needs."""
        return [sum(map(len, ids)) for ids in self.asked]

    @property
    def outgoing(self) -> list[int]:
        """How many rows I need of each worker."""
        return [sum(map(len, ids)) for ids in self.wanted]


class ShardedTable:
    """`rows` rows in all. `parts` are the tables of this worker's own parts, views of `weight`, with an optimiser each,
    whose every operation has the shape of a part: its bits do not depend on what else the worker has."""

    def __init__(
        self, weight: Tensor, rows: int, layout: Layout, workers: Workers, make: Callable[[Tensor], Table]
    ) -> None:
        self.rows, self.layout, self.workers = rows, layout, workers
        self.weight = weight
        starts = bounds(rows, layout.parts)
        self.starts = [starts[layout.of(worker).start] for worker in range(layout.workers)] + [rows]
        own = layout.of(workers.index)
        self._cuts = [start - starts[own.start] for start in starts[own.start : own.stop + 1]]
        self.parts = [make(weight[first:last]) for first, last in pairwise(self._cuts)]
        self._nodes = [layout.nodes(worker) for worker in range(layout.workers)]

    def request(self, nodes: Sequence[Tensor]) -> Request:
        """What this worker needs, for each of its nodes: distinct ascending ids. All workers ask at the same time."""
        cuts = torch.tensor(self.starts[1:-1])
        wanted: list[list[Tensor]] = [[] for _ in range(self.workers.count)]
        for ids in nodes:
            places = torch.searchsorted(ids, cuts).tolist() if len(cuts) else []
            for owner, (first, last) in enumerate(pairwise([0, *places, len(ids)])):
                wanted[owner].append(ids[first:last] - self.starts[owner])
        asked = self._asked(wanted)
        everyone = [(node, ids) for worker, lists in enumerate(asked) for node, ids in self._of(worker, lists)]
        total = TreeSum(
            self.layout.parts, [node for node, _ in everyone], [ids for _, ids in everyone], max(1, len(self.weight))
        )
        return Request(wanted, asked, total)

    def _of(self, worker: int, lists: list[Tensor]) -> list[tuple[Node, Tensor]]:
        return list(zip(self._nodes[worker], lists, strict=True))

    def _asked(self, wanted: list[list[Tensor]]) -> list[list[Tensor]]:
        if self.workers.count == 1:
            return wanted
        numbers = [torch.tensor([len(ids) for ids in lists], dtype=torch.int64) for lists in wanted]
        counts = self.workers.exchange(numbers, [len(nodes) for nodes in self._nodes], ahead=True)
        flat = [torch.cat(lists) if lists else torch.empty(0, dtype=torch.int64) for lists in wanted]
        ids = self.workers.exchange([part.to(torch.int32) for part in flat], [int(c.sum()) for c in counts], ahead=True)
        return [list(part.long().split(c.tolist())) for part, c in zip(ids, counts, strict=True)]

    def pull(self, request: Request) -> list[Tensor]:
        """The rows of each of this worker's nodes, (U, width), in the order of their ids."""
        asked = [kernels.gather_rows(self.weight, torch.cat(ids)) if ids else self.weight[:0] for ids in request.asked]
        found = self.workers.exchange(asked, request.outgoing)
        by_owner = [rows.split([len(ids) for ids in lists]) for rows, lists in zip(found, request.wanted, strict=True)]
        own = len(self._nodes[self.workers.index])
        return [_joined([rows[node] for rows in by_owner]) for node in range(own)]

    def collect(self, request: Request, gradients: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """The gradients (U, width) of this worker's nodes go to the owners of their rows; gives, for each part that
        this worker owns, the rows that move and their gradient, summed over all parts."""
        by_node = [
            gradient.split([len(lists[node]) for lists in request.wanted]) for node, gradient in enumerate(gradients)
        ]
        outgoing = [
            _joined([rows[owner] for rows in by_node]) if by_node else self.weight[:0]
            for owner in range(self.workers.count)
        ]
        came = self.workers.exchange(outgoing, request.incoming)
        parts = [
            part
            for rows, lists in zip(came, request.asked, strict=True)
            for part in rows.split([len(ids) for ids in lists])
        ]
        (ids,), (total,) = request.gradients.ids, request.gradients(parts)
        places = torch.searchsorted(ids, torch.tensor(self._cuts)).tolist()
        return [
            (ids[first:last] - start, total[first:last])
            for start, (first, last) in zip(self._cuts, pairwise(places), strict=False)
        ]

    def rows_of(self, ids: Tensor) -> Tensor:
        """Rows by id (n,), the same on every worker, which all ask for the same ones. For some, not for a step."""
        first = self.starts[self.workers.index]
        return gathered(ids, first, self.weight, self.workers)


def gathered(ids: Tensor, first: int, rows: Tensor, workers: Workers) -> Tensor:
    """Rows by id (n,) from workers that each have those from `first` on. A sum with zeros is exact."""
    mine = (ids >= first) & (ids < first + len(rows))
    found = rows.new_zeros(len(ids), rows.shape[1])
    found[mine] = rows[ids[mine] - first]
    return workers.total(found)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
