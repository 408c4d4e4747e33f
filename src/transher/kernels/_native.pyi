"""The native module; every tensor comes as the address of its first element, contiguous, float32 mostly."""

def backends() -> list[str]: ...
def choose(name: str) -> None: ...
def chosen() -> str: ...

class Workspace:
    def __init__(self) -> None: ...

class Batch:
    def __init__(
        self, tables: list[int], sizes: list[int], columns: list[int], sign: float, margin: float, normalise: bool
    ) -> None: ...

def scaled_l1_cross(threads: int, q: int, s: int, e: int, B: int, N: int, k: int, out: int) -> None: ...
def scaled_l1_pairs(threads: int, q: int, s: int, e: int, B: int, k: int, out: int) -> None: ...
def scaled_l1_backward(
    threads: int, q: int, s: int, e: int, g: int, B: int, N: int, k: int, dq: int, ds: int, de: int
) -> None: ...
def scaled_l1_pairs_backward(
    threads: int, q: int, s: int, e: int, g: int, B: int, k: int, dq: int, ds: int, de: int
) -> None: ...
def batch_forward(threads: int, batch: Batch, kept: Workspace, positive: int, negative: int) -> None: ...
def batch_backward(
    threads: int, batch: Batch, kept: Workspace, d_positive: int, d_negative: int, d_entity_rows: int,
    d_relation_rows: int,
) -> None: ...  # fmt: skip
def self_adversarial(
    threads: int, positive: int, negative: int, valid: int, weights: int, alpha: float, B: int, N: int, d_positive: int,
    d_negative: int,
) -> float: ...  # fmt: skip
def adam_rows(
    threads: int, weight: int, m: int, v: int, ids: int, gradient: int, rows: int, count: int, k: int, rate: float,
    beta1: float, beta2: float, epsilon: float, root_correction: float,
) -> None: ...  # fmt: skip
def gather_rows(threads: int, table: int, ids: int, rows: int, count: int, bytes: int, out: int) -> None: ...
def mask_known(
    threads: int, valid: int, negatives: int, B: int, N: int, starts: int, ends: int, ids: int, id_count: int
) -> None: ...
def scaled_l1_count(
    threads: int, q: int, s: int, limits: int, B: int, k: int, candidates: int, count: int, first_id: int, starts: int,
    ends: int, known: int, known_count: int, better: int, tied: int,
) -> None: ...  # fmt: skip
def scaled_l1_top(
    threads: int, q: int, s: int, B: int, k: int, candidates: int, count: int, first_id: int, starts: int, ends: int,
    excluded: int, excluded_count: int, size: int, distances: int, ids: int,
) -> None: ...  # fmt: skip
def normalise_rows(threads: int, rows: int, count: int, k: int, out: int) -> None: ...
