"""A map of the entities: the two directions in which they differ most, coloured by type or by what they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from transher.analysis.page import COLOURS, PALE, Section, Subject, as_drawn, canvas
from transher.graph.groups import entity_groups
from transher.models.components import PrincipalComponents

GROUPS = 6
_POINTS = 20_000


def map_section(subjects: Sequence[Subject]) -> Section:
    """The first run's entities by their first two principal components."""
    subject = subjects[0]
    graph = subject.run.graph
    components = PrincipalComponents(subject.run.vectors("a report")[0])
    groups, names, what = entity_groups(graph).largest(GROUPS)
    chosen = np.random.default_rng(0).permutation(len(groups))[:_POINTS]
    points, share = components.place(np.arange(len(groups))), components.shares
    figure, (axes,) = canvas(9, 6.2)
    size = float(np.clip(60_000 / len(chosen), 4, 40))
    other = chosen[groups[chosen] < 0]
    axes.scatter(
        points[other, 0],
        points[other, 1],
        s=size,
        color=PALE,
        linewidths=0,
        rasterized=True,
        label="others",
    )
    shown = [f"others ({(groups < 0).sum():,})"]
    for group, name in enumerate(names):
        own = chosen[groups[chosen] == group]
        axes.scatter(points[own, 0], points[own, 1], s=size, color=COLOURS[group], alpha=0.55, linewidths=0,
                     rasterized=True, label=f"group {group}")  # fmt: skip
        shown.append(f"{as_drawn(name)} ({(groups == group).sum():,})")
    _name_groups(axes, points, groups, names)
    axes.set(title=as_drawn(f"{subject.label}, {graph.name}"), xticks=[], yticks=[],
             xlabel=f"first component, {share[0]:.1%} of the variance",
             ylabel=f"second component, {share[1]:.1%}")  # fmt: skip
    legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title=what, alignment="left", fontsize=9,
                         markerscale=(40 / size) ** 0.5)  # fmt: skip
    for text, words in zip(legend.get_texts(), shown, strict=True):
        text.set_text(words)  # only now: a legend leaves out what begins with an underscore, as WN18RR's relations do
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)
    return Section(
        "entity-map",
        "A map of the entities",
        "The model was not given these groups: where a colour stays together, training found it in the triples. "
        "Only two of many directions are drawn, so groups that overlap here may be apart. "
        "A name is in the middle of its group.",
        figure,
    )


def _name_groups(axes: Axes, points: NDArray[np.float64], groups: NDArray[np.int64], names: Sequence[str]) -> None:
    """Each group's name where the middle of it lies, or a little above one that is there already."""
    width, height = 0.16 * np.ptp(points[:, 0]), 0.035 * np.ptp(points[:, 1])
    middles = [np.median(points[groups == group], axis=0) for group in range(len(names))]
    taken: list[NDArray[np.float64]] = []
    for group in sorted(range(len(names)), key=lambda group: float(middles[group][1])):
        name, middle = names[group], middles[group]
        for other in taken:
            if abs(middle[0] - other[0]) < width and abs(middle[1] - other[1]) < height:
                middle = np.array([middle[0], other[1] + height])
        taken.append(middle)
        text = axes.annotate(
            as_drawn(name), tuple(middle), color=COLOURS[group], weight="bold", ha="center", va="center"
        )
        text.set_path_effects([Stroke(linewidth=3, foreground="white"), Normal()])
