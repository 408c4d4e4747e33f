"""How much memory and traffic a training takes on so many workers: arithmetic, and nothing measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

_FLOAT = _ID = 4  # bytes
_STATE = {"sparse-adam": 2.0, "adam": 2.0, "adagrad": 1.0, "row-adagrad": 0.0}  # numbers per weight
_TRIPLE = 2 * (12 + 4 + 8) + 2 * 12  # bytes: held by head and by tail with weights and ranges, and both indexes
_BASE = 0.5e9  # bytes of Python, torch and buffers


@dataclass(frozen=True)
class Plan:
    """Per worker. `sent`: bytes to other workers per step, of which `rows_sent` are rows and gradients."""

    entities: int
    k: int
    workers: int
    optimizer: str
    batch: int
    negatives: int
    table_bytes: float
    state_bytes: float
    triple_bytes: float
    total_bytes: float
    rows_sent: float
    sent: float

    def milliseconds(self, gigabits: float) -> float:
        """How long a step's bytes take on a link of so many Gbit/s, in one direction."""
        return 1e3 * 8 * self.sent / (gigabits * 1e9)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {
            "ms_per_step": {f"{speed} Gbit/s": self.milliseconds(speed) for speed in (1, 10, 25, 100)}
        }


def plan(
    entities: int,
    k: int,
    workers: int,
    *,
    triples: int = 0,
    relations: int = 1000,
    relation_width: int | None = None,
    batch: int = 1024,
    negatives: int = 256,
    optimizer: str = "sparse-adam",
) -> Plan:
    """`batch`: positives per worker. Anchors are at hand; of the answers and the negatives, and of the relations of the
    batch, a share of (workers − 1)/workers lives elsewhere. Answers and relations are taken to be drawn evenly, which
    has the most distinct ones: a real graph sends less. A step pulls rows and pushes gradients, each once."""
    width = relation_width or 3 * k
    table = _FLOAT * (entities * k + relations * width) / workers
    per_row = _FLOAT * entities / workers if optimizer == "row-adagrad" else 0.0
    state = _STATE[optimizer] * table + per_row
    held = _TRIPLE * triples / workers
    away = (workers - 1) / workers
    # Answers that are distinct, and none of the negatives.
    answers = _distinct(batch, entities) * (1 - negatives / max(entities, negatives))
    rows = away * (answers + min(negatives, entities)) * k + away * _distinct(batch, relations) * width
    ids = away * (answers + min(negatives, entities) + _distinct(batch, relations))
    rows_sent = 2 * _FLOAT * rows
    return Plan(
        entities, k, workers, optimizer, batch, negatives,
        table, state, held, table + state + held + _BASE, rows_sent, rows_sent + _ID * ids,
    )  # fmt: skip


def _distinct(draws: int, of: int) -> float:
    """How many distinct ones `draws` even draws find."""
    return float(of * (1 - (1 - 1 / of) ** draws)) if of else 0.0
