"""What a run holds, as DataFrames: embeddings, history and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from torch import Tensor

from transher.errors import UsageError
from transher.evaluation import Evaluation, Metrics
from transher.graph.vocabulary import Vocabulary
from transher.training.history import read_history

By = Literal["side", "type", "relation"]


def row_identifiers(vocabulary: Vocabulary, rows: int) -> list[str]:
    """The identifier of each row of a table. With reciprocal relations the rows of r⁻¹ lie behind those of r."""
    words = list(vocabulary.identifiers.to_pylist())
    return words + [f"{word}⁻¹" for word in words] if rows > len(words) else words


def embedding_frame(vocabulary: Vocabulary, weights: Tensor) -> pd.DataFrame:
    """A copy of the rows (n, d) by identifier: writing into it must not change the model."""
    index = pd.Index(row_identifiers(vocabulary, len(weights)), name=vocabulary.kind)
    return pd.DataFrame(np.array(weights.detach().numpy()), index=index)


def history_frame(folder: Path) -> pd.DataFrame:
    lines = read_history(folder)
    return pd.DataFrame(lines) if lines else pd.DataFrame(columns=["kind", "step"])


def metrics_frame(evaluation: Evaluation, by: By | None) -> pd.DataFrame:
    """A row of metrics for each part of the queries, with the bounds of the MRR's 95 % interval."""
    keys: Sequence[tuple[str, ...]]
    match by:
        case None:
            names, keys, parts = ["queries"], [("all",)], [evaluation.overall]
        case "side":
            names, keys, parts = ["side"], [(side,) for side in evaluation.by_side], list(evaluation.by_side.values())
        case "type":
            names = ["side", "type"]
            keys = [(side, kind) for side, row in evaluation.by_type.items() for kind in row]
            parts = [part for row in evaluation.by_type.values() for part in row.values()]
        case "relation":
            identifiers, by_relation = evaluation.graph.relations.identifiers, evaluation.by_relation
            names, keys, parts = (
                ["relation"],
                [(identifiers[id].as_py(),) for id in by_relation],
                list(by_relation.values()),
            )
        case _:
            raise UsageError(f"by={by!r}: it is None, 'side', 'type' or 'relation'.")
    frame = pd.DataFrame([_figures(part) for part in parts])
    levels = [pd.Index(level, name=name) for name, level in zip(names, zip(*keys, strict=True), strict=True)]
    frame.index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
    return frame


def _figures(metrics: Metrics) -> dict[str, float]:
    figures = metrics.to_dict()
    low, high = figures.pop("intervals")["mrr"]
    return figures | {"mrr_low": low, "mrr_high": high}
