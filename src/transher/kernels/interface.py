"""What the compiled module `_native` offers, as types: every call of it is checked against these.

Tensors are contiguous and on the CPU, float32 unless a line says otherwise; results (`out`, `d_…`) are filled in place.
The module checks type, device, layout, shape and indices of all of them (native/arguments.h), and raises
TypeError, ValueError or IndexError. A letter stands for one size within a call.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

Tensors = tuple[Tensor, ...]


class Forward(Protocol):
    """query: parts (B, k), e: candidates (U, k) or, for pairs, (B, k), ids: rows of e or None → distances in out."""

    def __call__(self, threads: int, query: Tensors, e: Tensor, ids: Tensor | None, out: Tensor, /) -> None: ...


class Backward(Protocol):
    """g: gradient of the distances → gradients of the parts and of e, in tensors of their shapes."""

    def __call__(
        self,
        threads: int,
        query: Tensors,
        e: Tensor,
        ids: Tensor | None,
        g: Tensor,
        d_query: Tensors,
        de: Tensor,
        /,
    ) -> None: ...


class NativeBatch(Protocol):
    """A training batch between its two passes; it keeps its tensors and the memory that the passes share."""

    def forward(self, threads: int, positive: Tensor, negative: Tensor, /) -> None:
        """positive: (B,), negative: (B, N)."""

    def backward(
        self,
        threads: int,
        d_positive: Tensor,
        d_negative: Tensor,
        d_entity_rows: Tensor,
        d_relation_rows: Tensor,
        /,
    ) -> None:
        """(B,), (B, N) → (U, k), (V, w)."""


class NativeRows(Protocol):
    """Rows of int32 that a search has found."""

    def count(self) -> int: ...
    def copy_to(self, out: Tensor, /) -> None:
        """out: int32, of as many rows and columns as were found."""


class NativeSteps(Protocol):
    """The steps of a graph, in which rules are looked for. A rule is a row of 9 columns and a body one of 3: see
    `transher.kernels.rules`."""

    def find_bodies(self, threads: int, triples: Tensor, least_support: int, fan_out: int, seed: int, /) -> NativeRows:
        """int64 (n, 3) → 3 ends, relation, and how many of the triples the body joins."""

    def count_bodies(
        self,
        threads: int,
        bodies: Tensor,
        least_support: int,
        least_confidence: float,
        caution: float,
        origins: int,
        pairs: int,
        seed: int,
        /,
    ) -> NativeRows:
        """int32 (n, 3) → rules."""

    def find_constants(
        self,
        threads: int,
        first: int,
        last: int,
        least_support: int,
        least_confidence: float,
        caution: float,
        most: int,
        /,
    ) -> NativeRows:
        """Rules of the ends first … last − 1, at most so many."""


class NativeRuleIndex(Protocol):
    """Rules in the form in which queries are answered."""

    def score(self, threads: int, anchors: Tensor, relations: Tensor, tails: bool, scores: Tensor, /) -> None:
        """int64 (B,), (B,) → (B, entities)."""

    def explain(self, threads: int, triples: Tensor, scores: Tensor, numbers: Tensor, confidences: Tensor, /) -> None:
        """int64 (n, 3) → (n,), int64 (n, m), (n, m)."""


class Kernels(Protocol):
    """What every back end has: the module on the CPU, Triton on GPUs. There tensors are on the GPU."""

    # query: (q, s) of shape (B, k); ids: int64 (B, N), candidates of each query's own
    scaled_l1_cross: Forward
    scaled_l1_backward: Backward
    scaled_l1_pairs: Forward
    scaled_l1_pairs_backward: Backward
    # query: (q,) of shape (B, 2k); ids: int64 (P, N), pools as in kernels/pools.py
    complex_modulus_cross: Forward
    complex_modulus_backward: Backward
    complex_modulus_pairs: Forward
    complex_modulus_pairs_backward: Backward

    def adam_rows(
        self,
        threads: int,
        weight: Tensor,
        m: Tensor,
        v: Tensor,
        ids: Tensor,
        gradient: Tensor,
        rate: float,
        beta1: float,
        beta2: float,
        epsilon: float,
        root_correction: float,
        /,
    ) -> None:
        """weight, m, v: (n, k), in place; ids: int64 (U,), distinct; gradient: (U, k)."""

    def gather_rows(self, threads: int, table: Tensor, ids: Tensor, out: Tensor, /) -> None:
        """(n, k), int64 (U,) → (U, k)."""

    def add_rows(
        self, threads: int, first: Tensor, first_places: Tensor, second: Tensor, second_places: Tensor, total: Tensor, /
    ) -> None:
        """(n, k), int64 (n,), distinct; (m, k), int64 (m,), distinct → (U, k)."""

    def unit_rows(self, threads: int, table: Tensor, ids: Tensor, /) -> None:
        """(n, k), in place; int64 (U,), distinct."""

    def mask_known(self, valid: Tensor, negatives: Tensor, starts: Tensor, ends: Tensor, ids: Tensor, /) -> None:
        """valid: bool (B, N), in place; negatives: int64 (N,); starts, ends: int64 (B,); ids: int32."""

    def scaled_l1_count(
        self,
        threads: int,
        q: Tensor,
        s: Tensor,
        limits: Tensor,
        candidates: Tensor,
        first_id: int,
        starts: Tensor,
        ends: Tensor,
        known: Tensor,
        better: Tensor,
        tied: Tensor,
        /,
    ) -> None:
        """(B, k), (B, k), (B,), (N, k); known answers as in mask_known; adds to int64 (B,), (B,)."""

    def scaled_l1_top(
        self,
        threads: int,
        q: Tensor,
        s: Tensor,
        candidates: Tensor,
        first_id: int,
        starts: Tensor,
        ends: Tensor,
        excluded: Tensor,
        distances: Tensor,
        ids: Tensor,
        /,
    ) -> None:
        """(B, k), (B, k), (N, k); merges into distances (B, size), nearest first, and int64 ids (B, size)."""

    def normalise_rows(self, threads: int, rows: Tensor, out: Tensor, /) -> None:
        """(n, k) → (n, k)."""


class GpuKernels(Kernels, Protocol):
    """Triton's."""

    def sum_rows(self, rows: Tensor, ids: Tensor, out: Tensor, /) -> None:
        """(n, k), int64 (n,) → (U, k)."""

    def philox(self, key: tuple[int, int], counter: tuple[int, int], out: Tensor, /) -> None:
        """Fills int64 (n,) with the words of NumPy's generator, of which `counter` is the upper half."""


class Native(Kernels, Protocol):
    """The module."""

    def backends(self) -> list[str]: ...
    def choose(self, name: str) -> None: ...
    def chosen(self) -> str: ...

    def Batch(
        self,
        entity_rows: Tensor,
        relation_rows: Tensor,
        anchors: Tensor,
        relations: Tensor,
        answers: Tensor,
        negatives: Tensor,
        keep: Tensor | None,
        multiplier: int | None,
        scale: int | None,
        translation: int | None,
        sign: float,
        gamma: float,
        normalised: bool,
        /,
    ) -> NativeBatch:
        """(U, k), (V, w); int64 (B,), (B,), (B,), (P, N); (B, k); first columns of the parts of a relation's row."""

    def self_adversarial(
        self,
        threads: int,
        positive: Tensor,
        negative: Tensor,
        valid: Tensor | None,
        weights: Tensor,
        alpha: float,
        d_positive: Tensor,
        d_negative: Tensor,
        /,
    ) -> float:
        """(B,), (B, N), bool (B, N), (B,) → the loss; its gradients in (B,), (B, N)."""

    def thin(self, threads: int, g: Tensor, share: float, key: int, /) -> None:
        """g: (B, N), in place."""

    def distinct(self, ids: Tensor, bound: int, found: Tensor, places: Tensor, /) -> int:
        """All int64 (n,); found is filled to the number that is returned."""

    def Steps(self, triples: Tensor, entities: int, relations: int, /) -> NativeSteps:
        """triples: int64 (n, 3)."""

    def RuleIndex(
        self, steps: NativeSteps, rules: Tensor, caution: float, weights: Tensor, powers: Tensor, decay: float, /
    ) -> NativeRuleIndex:
        """rules: int32 (n, 9)."""

    # For the benchmarks.
    def lanes(self) -> int: ...
    def peak(self, threads: int, kind: int, rounds: int, /) -> float: ...
    def read_all(self, threads: int, data: Tensor, /) -> float:
        """data: (n,)."""
