"""How good the runs are: metrics with intervals, paired tests between runs, and the table by relation type."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from transher.analysis.page import COLOURS, MARKERS, Cells, Section, Subject, canvas
from transher.errors import UsageError
from transher.evaluation.significance import compare
from transher.graph.graph import SIDES
from transher.graph.statistics import RELATION_TYPES

METRICS = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}


def results_section(subjects: Sequence[Subject]) -> Section:
    """Metrics on the test triples, with 95 % intervals."""
    figure, (axes,) = canvas(8, 0.9 + 0.24 * len(METRICS) * (len(subjects) + 1))
    rows = []
    for place, subject in enumerate(subjects):
        figures = subject.evaluation.overall.to_dict()
        rows.append([subject.label, *(_with_interval(figures, name) for name in METRICS), f"{figures['mr']:.0f}"])
        for line, name in enumerate(METRICS):
            low, high = figures["intervals"][name]
            y = line * (len(subjects) + 1) + place
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            axes.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot(figures[name], y, marker, color=colour, label=subject.drawn if line == 0 else None)
            axes.annotate(f"{figures[name]:.3f}", (high, y), xytext=(6, 0), textcoords="offset points", va="center",
                          fontsize=8, color="#444444")  # fmt: skip
    middle = (len(subjects) - 1) / 2
    axes.set_yticks([line * (len(subjects) + 1) + middle for line in range(len(METRICS))], list(METRICS.values()))
    axes.invert_yaxis()
    axes.set(xlim=(0, None), title="Test triples, filtered, both sides")
    axes.grid(axis="y", visible=False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    tables = [Cells(["", *METRICS.values(), "mean rank"], rows, title="With 95 % bootstrap intervals over triples")]
    if len(subjects) > 1:
        tables.append(_significance(subjects))
    return Section(
        "results",
        "How good the answers are",
        "A bar is the 95 % interval over test triples. Two runs whose bars overlap may still differ: the paired test "
        "below compares them query by query. It is about these trainings. To show that one method is better than "
        "another, train several seeds of each.",
        figure,
        tables,
    )


def _significance(subjects: Sequence[Subject]) -> Cells:
    rows = []
    for first, second in combinations(subjects, 2):
        try:
            c = compare(first.evaluation.ranks, second.evaluation.ranks)
        except UsageError:
            rows.append([f"{first.label} − {second.label}", "other queries", "", "", "", ""])
            continue
        rows.append(
            [
                f"{first.label} − {second.label}",
                f"{c.difference:+.4f}",
                f"{c.interval[0]:+.4f} to {c.interval[1]:+.4f}",
                f"{c.bootstrap_p:.2g}",
                f"{c.wilcoxon_p:.2g}",
                f"{c.better:.1%} / {c.worse:.1%} / {c.equal:.1%}",
            ]
        )
    headers = ["MRR", "difference", "95 % interval", "p, bootstrap", "p, Wilcoxon", "better / worse / equal"]
    return Cells(headers, rows, title="The same queries under two runs")


def types_section(subjects: Sequence[Subject]) -> Section:
    """MRR by side and relation type: the paper's table, with intervals."""
    figure, axes = canvas(10, 3.6, 2)
    rows: list[list[str]] = [[subject.label] for subject in subjects]
    for axis, side in zip(axes, SIDES, strict=True):
        for place, subject in enumerate(subjects):
            by_type = subject.evaluation.by_type.get(side, {})
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            for line, kind in enumerate(RELATION_TYPES):
                metrics = by_type.get(kind)
                rows[place].append("–" if metrics is None else f"{metrics.mrr:.3f}")
                if metrics is None:
                    continue
                x = line + (place - (len(subjects) - 1) / 2) * min(0.22, 0.7 / len(subjects))
                axis.plot([x, x], metrics.intervals["mrr"], color=colour, linewidth=2, solid_capstyle="butt")
                axis.plot(x, metrics.mrr, marker, color=colour, markersize=6)
        counts = {kind: metrics.count for kind, metrics in subjects[0].evaluation.by_type.get(side, {}).items()}
        axis.set_xticks(range(4), [f"{kind}\n({counts.get(kind, 0):,})" for kind in RELATION_TYPES])
        axis.set(title=f"Asked for the {side}", ylim=(0, 1), xlim=(-0.5, 3.5), xlabel="relation type (queries)")
        axis.grid(axis="x", visible=False)
    axes[0].set_ylabel("MRR")
    for place, subject in enumerate(subjects):
        axes[1].plot([], [], MARKERS[place % len(MARKERS)], color=COLOURS[place % len(COLOURS)], label=subject.drawn)
    axes[1].legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    best = frozenset(
        (max(range(len(rows)), key=lambda row: rows[row][column]), column)
        for column in range(1, 9)
        if len(rows) > 1 and rows[0][column] != "–"
    )
    headers = ["MRR", *(f"{side} {kind}" for side in SIDES for kind in RELATION_TYPES)]
    return Section(
        "types",
        "By relation type",
        "1-to-N tails and N-to-1 heads are hard for every model, since many answers are right and only one is asked "
        "for. Long bars are types with few test triples; differences there mean little.",
        figure,
        [Cells(headers, rows, best)],
    )


def _with_interval(figures: dict[str, object], name: str) -> str:
    low, high = figures["intervals"][name]  # type: ignore[index]
    return f"{figures[name]:.3f} ({low:.3f}–{high:.3f})"
