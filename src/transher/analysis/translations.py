"""What the translations B_r have become: by relation type, beside how often the relations occur, and against γ."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from transher.analysis.learned_patterns import symmetric_shares
from transher.analysis.page import TYPE_COLOURS, TYPE_MARKERS, Section, Subject, canvas
from transher.graph.statistics import RELATION_TYPES, relation_types

BLOCKS = 25
SYMMETRIC = 0.5  # a relation is, from this share of triples with their mirror image on


def translation_rows(subject: Subject) -> NDArray[np.float32] | None:
    """B_r of each relation (relations, k); None where the model has none. Reciprocal rows are left out."""
    scorer, _ = subject.run.vectors("a report")
    rows = scorer.model.translation(scorer.relation_weights[: scorer.relation_count])
    return None if rows is None else rows.numpy()


def heat_section(subjects: Sequence[Subject]) -> Section | None:
    """|B_r| in blocks of k/25 dimensions, mean over the relations of a type, beside relation frequency."""
    subject, rows = _first_with_translations(subjects)
    if subject is None or rows is None:
        return None
    graph = subject.run.graph
    types = relation_types(graph)
    frequency = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    pooled = pool(np.abs(rows))
    present = [code for code in range(len(RELATION_TYPES)) if (types == code).any()]
    heat = np.stack([pooled[types == code].mean(0) for code in present])
    figure, (left, right) = canvas(10, 2.9, 2, width_ratios=[3, 1])
    image = left.imshow(heat, aspect="auto", cmap="cividis", vmin=0)
    counts = [int((types == code).sum()) for code in present]
    labels = [
        f"{RELATION_TYPES[code]}\n{count} relation{'s' if count > 1 else ''}"
        for code, count in zip(present, counts, strict=True)
    ]
    left.set_yticks(range(len(present)), labels)
    left.set(title=f"Mean $|B_r|$, {subject.drawn}", xlabel=f"dimensions, in {heat.shape[1]} blocks")
    left.grid(visible=False)
    left.spines[:].set_visible(False)
    figure.colorbar(image, ax=left, pad=0.01)
    for place, code in enumerate(present):
        own = np.maximum(frequency[types == code], 0.5)
        low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
        right.barh(place, middle, color=TYPE_COLOURS[RELATION_TYPES[code]], height=0.6)
        right.plot([low, high], [place, place], color="black", linewidth=1)
        right.annotate(
            f"{middle:,.0f}", (high, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9
        )
    right.set_ylim(left.get_ylim())
    right.set_yticks([])
    right.set(xscale="log", title="How often they occur", xlabel="training triples of a relation")
    right.margins(x=0.3)
    return Section(
        "translations",
        "Which relations are translated",
        "Brighter rows move their entities farther. The bars on the right show the median number of training triples "
        "(line: the middle half). λ pulls every B_r towards 0 in each step, and the data acts only on the relations of "
        "the batch. So a row of rare relations may be dark only because they are rare.",
        figure,
    )


def norm_section(subjects: Sequence[Subject]) -> Section | None:
    """‖B_r‖₁ with γ drawn in, and against how often a relation occurs."""
    subject, rows = _first_with_translations(subjects)
    if subject is None or rows is None:
        return None
    graph, gamma = subject.run.graph, subject.run.vectors("a report")[1].model.gamma
    norms = np.abs(rows).sum(1)
    types = relation_types(graph)
    frequency = np.bincount(graph.train[:, 1], minlength=len(graph.relations))
    figure, (left, right) = canvas(9.5, 3.6, 2)
    bins = np.linspace(0, max(float(norms.max()), gamma) * 1.05, min(30, 5 + len(norms)) + 1)
    left.hist(norms, bins=bins.tolist(), color="#0072B2", alpha=0.85)
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    left.axvline(gamma, color="#D55E00", linewidth=2)
    left.annotate(
        f"γ = {gamma:g}",
        (gamma, 1),
        xycoords=("data", "axes fraction"),
        xytext=(4, -10),
        textcoords="offset points",
        color="#D55E00",
    )
    left.set(title=rf"$\Vert B_r\Vert_1$, {subject.drawn}", xlabel=r"$\Vert B_r\Vert_1$", ylabel="relations")
    for code, kind in enumerate(RELATION_TYPES):
        own = types == code
        if own.any():
            right.scatter(
                np.maximum(frequency[own], 0.5),
                norms[own],
                s=18,
                alpha=0.75,
                linewidths=0,
                color=TYPE_COLOURS[kind],
                marker=TYPE_MARKERS[kind],
                label=kind,
            )
    symmetric = symmetric_shares(graph, np.unique(graph.all_triples, axis=0)) >= SYMMETRIC
    right.scatter(
        np.maximum(frequency[symmetric], 0.5),
        norms[symmetric],
        s=60,
        facecolors="none",
        edgecolors="black",
        linewidths=0.9,
        label="symmetric",
    )
    right.axhline(gamma, color="#D55E00", linewidth=1.5)
    right.set_ylim(0, None)
    right.set(
        xscale="log",
        title="The same by frequency",
        xlabel="training triples of the relation",
        ylabel=r"$\Vert B_r\Vert_1$",
    )
    right.legend(loc="upper left", bbox_to_anchor=(1.02, 1))
    above = float((norms > gamma).mean())
    return Section(
        "translation-norms",
        "How far the translations reach",
        f"{above:.0%} of the relations have a translation longer than the margin γ, so that it decides scores by "
        "itself. On the right: does the length depend on the type, or on how often a relation occurs? Symmetric "
        "relations (ringed) have another reason to be short: with r^H = r^T, symmetry needs B_r = 0.",
        figure,
    )


def pool(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Means of blocks of k/25 dimensions: (relations, k) → (relations, at most 25). A last, shorter block counts."""
    edges = np.linspace(0, rows.shape[1], min(BLOCKS, rows.shape[1]) + 1).astype(int)
    return np.stack([rows[:, low:high].mean(1) for low, high in pairwise(edges.tolist())], axis=1)


def _first_with_translations(subjects: Sequence[Subject]) -> tuple[Subject | None, NDArray[np.float32] | None]:
    for subject in subjects:
        if (rows := translation_rows(subject)) is not None:
            return subject, rows
    return None, None
