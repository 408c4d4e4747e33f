"""Parts: ranges of ids into which a training is cut, so that its result does not depend on who computes what.

Each part has a batch of its own, and its own call of the kernels. Gradients of parts are added in a fixed binary tree:
a worker adds as far up as it has both halves, and the owner of a row adds the rest. So the order of additions, and with
it every bit, is the same on any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from transher import kernels
from transher.graph.prepared import bounds
from transher.training.batches import CPU

__all__ = ["Layout", "Node", "TreeSum", "bounds"]

Node = tuple[int, int]  # level and place in the tree: parts place · 2^level up to, not with, (place + 1) · 2^level


class Layout(NamedTuple):
    """Which worker has which parts."""

    parts: int
    workers: int

    def of(self, worker: int) -> range:
        """The parts of a worker, one after the other."""
        return range(self.parts * worker // self.workers, self.parts * (worker + 1) // self.workers)

    @property
    def most(self) -> int:
        """Parts that any worker has."""
        return max(len(self.of(worker)) for worker in range(self.workers))

    def nodes(self, worker: int) -> list[Node]:
        """What is left when a worker has added up its parts as far as it can."""
        return [node for node, _ in _climb(self.parts, tuple((0, part) for part in self.of(worker)))]


class _Addition(NamedTuple):
    """Of two operands to one with `rows` rows, in which the rows of each have these places."""

    operands: tuple[int, int]
    rows: int
    places: tuple[Tensor, Tensor]


class TreeSum:
    """Sums of row-sparse gradients, as far as both halves of the tree are there. `ids`: distinct and ascending, of each
    node's rows, all below `bound`. After it is made, `nodes` and `ids` are what is left. Ids are on the CPU, and
    gradients on the `device`."""

    def __init__(
        self, parts: int, nodes: Sequence[Node], ids: Sequence[Tensor], bound: int, device: torch.device = CPU
    ) -> None:
        self._device = device
        self._additions: list[_Addition] = []
        slots = list(ids)
        left = _climb(parts, tuple(nodes))
        self.nodes = [node for node, _ in left]
        self._results = [self._add(operands, slots, bound) for _, operands in left]
        self.ids = [slots[slot] for slot in self._results]

    def _add(self, operands: _Operands, slots: list[Tensor], bound: int) -> int:
        """The slot of a sum; the sums that it is made of come first."""
        if isinstance(operands, int):
            return operands
        left, right = (self._add(operand, slots, bound) for operand in operands)
        found, places = kernels.distinct(torch.cat([slots[left], slots[right]]), bound)
        cut = len(slots[left])
        both = places.to(self._device)
        self._additions.append(_Addition((left, right), len(found), (both[:cut], both[cut:])))
        slots.append(found)
        return len(slots) - 1

    def __call__(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradients (n, width) of each node that was given → of each that is left."""
        slots = list(gradients)
        for (left, right), rows, (first, second) in self._additions:
            # Every row has one summand or two: −0 becomes 0 either way, wherever it is added.
            slots.append(kernels.add_rows(slots[left], first, slots[right], second, rows))
        return [slots[slot] for slot in self._results]


_Operands = int | tuple["_Operands", "_Operands"]


@cache  # every step asks for the same few
def _climb(parts: int, nodes: tuple[Node, ...]) -> tuple[tuple[Node, _Operands], ...]:
    """What is left of nodes, each with what has to be added for it: positions in `nodes`, or pairs of such."""
    left: dict[Node, _Operands] = {node: place for place, node in enumerate(nodes)}
    for level in range((parts - 1).bit_length()):
        for place in sorted(place for at, place in left if at == level and place % 2 == 0):
            other = level, place + 1
            if other[1] << level >= parts:  # there is no other half
                left[level + 1, place // 2] = left.pop((level, place))
            elif other in left:
                left[level + 1, place // 2] = left.pop((level, place)), left.pop(other)
    return tuple(sorted(left.items(), key=lambda item: item[0][1] << item[0][0]))
