"""A map of the entities: the two directions in which they differ most, coloured by type or by what they do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from transher.analysis.page import COLOURS, PALE, Section, Subject, as_drawn, canvas
from transher.graph.graph import Graph

GROUPS = 6
_POINTS = 20_000
_PREFIXES = 30  # identifiers with more different beginnings are no types


def map_section(subjects: Sequence[Subject]) -> Section:
    """The first run's entities by their first two principal components."""
    subject = subjects[0]
    graph = subject.run.graph
    groups, names, what = communities(graph)
    chosen = np.random.default_rng(0).permutation(len(groups))[:_POINTS]
    points, share = principal_components(subject.run.scorer.rows().numpy())
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
        "Nobody told the model of these groups: where a colour keeps together, it was found from the triples alone. "
        "Two of many directions are drawn, so groups that overlap here may well be apart. "
        "A name stands in the middle of its group.",
        figure,
    )


def principal_components(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first two of rows (n, d): coordinates (n, 2), and their shares of the variance (2,)."""
    centred = torch.from_numpy(rows) - torch.from_numpy(rows).mean(0)
    covariance = (centred.T @ centred).double() / max(1, len(rows) - 1)
    values, vectors = torch.linalg.eigh(covariance)
    points = centred @ vectors[:, [-1, -2]].float()
    share = values[[-1, -2]] / values.clamp_min(0).sum().clamp_min(1e-30)
    return points.double().numpy(), share.numpy()


def communities(graph: Graph) -> tuple[NDArray[np.int64], list[str], str]:
    """A group of each entity (entities,), −1 for the rest; the names of the largest groups; what a group is.

    Types where the graph has them, or where identifiers begin with a few words, as in city/2988507. Else what an entity
    does most often: the domain of relations like /film/film/genre,
    or an end of a relation.
    """
    if graph.entity_types is not None:
        return (*_largest(graph.entity_types.astype(np.int64), list(graph.type_names)), "type")
    prefixes = [name.partition("/")[0] if "/" in name else "" for name in graph.entities.identifiers.to_pylist()]
    if all(prefixes) and 1 < len(set(prefixes)) <= _PREFIXES:
        names, kinds = np.unique(prefixes, return_inverse=True)
        return (*_largest(kinds, names.tolist()), "kind, from its identifier")
    identifiers = graph.relations.identifiers.to_pylist()
    count = len(graph.relations)
    if all(name.startswith("/") for name in identifiers):
        words = [name.split("/")[1] for name in identifiers] * 2
        what = "domain of most of its relations"
    else:
        labels = graph.relations.labels(range(count))
        words = [f"{label}: head" for label in labels] + [f"{label}: tail" for label in labels]
        what = "most frequent role"
    names, word_of = np.unique(words, return_inverse=True)
    heads, relations, tails = graph.train.astype(np.int64).T
    words_used = np.concatenate([word_of[relations], word_of[count + relations]])
    # Pairs of entity and word that occur: a table of all pairs would take 10 GB for ogbl-wikikg2.
    pairs, times = np.unique(np.concatenate([heads, tails]) * len(names) + words_used, return_counts=True)
    entities, kinds = np.divmod(pairs, len(names))
    order = np.lexsort((kinds, -times, entities))
    seen, first = np.unique(entities[order], return_index=True)
    most = np.full(len(graph.entities), -1)  # of those that training lacks, nothing is known
    most[seen] = kinds[order][first]
    return (*_largest(most, names.tolist()), what)


def _largest(kinds: NDArray[np.int64], names: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    largest = np.argsort(-np.bincount(kinds[kinds >= 0], minlength=len(names)), kind="stable")[:GROUPS]
    groups = np.full(len(kinds), -1)
    for group, kind in enumerate(largest.tolist()):
        groups[kinds == kind] = group
    return groups, [names[kind] for kind in largest.tolist()]


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
