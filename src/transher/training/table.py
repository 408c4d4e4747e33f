"""A table of rows with the optimiser that owns them: a step pulls the rows that it needs and pushes their gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from transher import kernels

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


class Table(ABC):
    """weight: (rows, width). `ids` are distinct. `state` holds tensors of the optimiser, `updates` counts pushes.
    `average`, where one is kept, follows the weight and is what answers come from. With `unit`, rows that were pushed
    are brought back to length 1: a gradient that only turns a row also makes it longer, and a longer row turns less.
    The table lies where its weight lies; `device`, where it is another one, is what computes with rows: they are copied
    there, and their gradients come back."""

    state_names: tuple[str, ...]

    def __init__(
        self, weight: Tensor, averaged: bool = False, unit: bool = False, device: torch.device | None = None
    ) -> None:
        self.weight = weight
        self.device = device or weight.device
        self.unit = unit
        self.updates = 0
        width = self.state_width(weight.shape[1])
        self.state = {name: weight.new_zeros(len(weight), width) for name in self.state_names}
        self.average = weight.clone() if averaged else None

    @classmethod
    def state_width(cls, width: int) -> int:
        """Columns of each tensor of the optimiser, of a table with so many."""
        return width

    @classmethod
    def numbers(cls, width: int, averaged: bool) -> int:
        """How many a row takes in all: weight, state and average."""
        return width * (1 + averaged) + len(cls.state_names) * cls.state_width(width)

    @property
    def learned(self) -> Tensor:
        """The weights to judge and to keep."""
        return self.weight if self.average is None else self.average

    def follow(self, share: float) -> None:
        """Let the average take up `share` of the weights as they are."""
        if self.average is not None:
            self.average.lerp_(self.weight, share)

    def pull(self, ids: Tensor) -> Tensor:
        """The rows `ids`, (U, width), ready to collect a gradient."""
        rows = kernels.gather_rows(self.weight, ids.to(self.weight.device))
        return rows.to(self.device).requires_grad_()

    def push(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None:
        """Apply the gradient (U, width) of the rows `ids`, or of all rows."""
        self.updates += 1
        home = self.weight.device
        ids, gradient = None if ids is None else ids.to(home), gradient.to(home)
        self._update(ids, gradient, lr)
        if self.unit:
            kernels.unit_rows(self.weight, self._listed(ids))

    def _listed(self, ids: Tensor | None) -> Tensor:
        return torch.arange(len(self.weight), device=self.weight.device) if ids is None else ids

    def reset(self) -> None:
        """Forget the optimiser's state."""
        self.updates = 0
        for tensor in self.state.values():
            tensor.zero_()

    @abstractmethod
    def _update(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None: ...


class SparseAdamTable(Table):
    """Adam that touches only the rows of the step: cost does not grow with the table."""

    state_names = ("m", "v")

    def _update(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None:
        adam = kernels.Adam(lr, BETA1, BETA2, EPSILON, self.updates)
        kernels.adam_rows(self.weight, self.state["m"], self.state["v"], self._listed(ids), gradient, adam)


class AdamTable(Table):
    """Adam over the whole table, as the authors use it: rows without a gradient keep moving by their momentum."""

    state_names = ("m", "v")

    def _update(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None:
        m, v, ids = self.state["m"], self.state["v"], self._listed(ids)
        m.mul_(BETA1).index_add_(0, ids, gradient, alpha=1 - BETA1)
        v.mul_(BETA2).index_add_(0, ids, gradient.square(), alpha=1 - BETA2)
        scale = (1 - BETA2**self.updates) ** 0.5
        self.weight.addcdiv_(m, v.sqrt().add_(EPSILON * scale), value=-lr * scale / (1 - BETA1**self.updates))


class AdagradTable(Table):
    """Adagrad on the rows of the step."""

    state_names = ("sum",)

    def _update(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None:
        kernels.adagrad_rows(self.weight, self.state["sum"], ids, gradient, lr, EPSILON)


class RowAdagradTable(Table):
    """Adagrad with one number per row, the sum over steps of the mean squared gradient: for the largest graphs, where
    Adam's two moments would take twice the memory of the weights."""

    state_names = ("sum",)

    @classmethod
    def state_width(cls, width: int) -> int:
        """As in Table."""
        return 1

    def _update(self, ids: Tensor | None, gradient: Tensor, lr: float) -> None:
        total, ids = self.state["sum"], self._listed(ids)
        total.index_add_(0, ids, gradient.square().mean(1, keepdim=True))
        step = gradient / total.index_select(0, ids).sqrt_().add_(EPSILON)
        self.weight.index_add_(0, ids, step, alpha=-lr)


TABLES: dict[str, type[Table]] = {
    "sparse-adam": SparseAdamTable,
    "adam": AdamTable,
    "adagrad": AdagradTable,
    "row-adagrad": RowAdagradTable,
}
