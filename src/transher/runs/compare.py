"""Comparing two runs on the same queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from transher.errors import UsageError
from transher.evaluation.ranks import Ranks
from transher.evaluation.significance import Comparison
from transher.evaluation.significance import compare as compare_ranks
from transher.graph.graph import Split

if TYPE_CHECKING:
    from transher.runs.run import Run


def compare(
    first: Run, second: Run, split: Split = "test", progress: Callable[[int, int], None] | None = None
) -> Comparison:
    """Whether one run ranks the triples of a split better than the other: paired bootstrap and Wilcoxon."""
    for kind in ("entities", "relations"):  # their ids would mean different things
        if not getattr(first.graph, kind).identifiers.equals(getattr(second.graph, kind).identifiers):
            raise UsageError(
                f"{second.folder} was trained on another graph than {first.folder}: its {kind} are others."
            )

    def ranks(run: Run) -> Ranks:
        kept = run.kept_evaluation() if split == "test" else None
        return (kept or run.evaluate(split, progress)).ranks

    return compare_ranks(ranks(first), ranks(second))
