"""Relation patterns: how near learned parameters are to the conditions for symmetry, inversion and composition, against
what the data shows.

With a = r^H, c = r^T and b = B_r, per dimension: r2 inverts r1 if (a2, c2, b2) = μ (c1, a1, −b1) for some μ ≠ 0, a
relation is symmetric if it inverts itself (that is a = −c, or a = c with b = 0), and r3 is r1 then r2 if
(a3, c3, b3) = μ (a1 a2, c1 c2, a2 b1 + c1 b2). Since μ is free, nearness is a matter of angles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transher.analysis.page import COLOURS, GREY, PALE, Cells, Section, Subject, canvas
from transher.graph.compositions import composed_relations
from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph, Triples
from transher.graph.patterns import inverse_relations

SHOWN = 4  # best and worst examples of a pattern
_COMPARED = 2000  # random pairs and triples of relations to compare with
Vectors = NDArray[np.float64]  # (…, k, 3): a/√k, c/√k and b, which are of one size in the score


@dataclass(frozen=True)
class Example:
    """A pattern that the data shows, and how near the parameters are to its condition."""

    kind: str
    relations: tuple[int, ...]
    confidence: float  # of the rule in the data
    nearness: float


def parameters(subject: Subject) -> Vectors | None:
    """(relations, k, 3); None for models without r^H and r^T, or with reciprocal relations, where a head is asked for
    through another row."""
    scorer, _ = subject.run.vectors("a report")
    rows = scorer.relation_weights.double()
    scales, translation = scorer.model.scales(rows), scorer.model.translation(rows)
    if scales is None or scorer.reciprocal:
        return None
    a, c = (part.numpy() for part in scales)
    b = np.zeros_like(a) if translation is None else translation.numpy()
    return np.stack([a / np.sqrt(a.shape[1]), c / np.sqrt(a.shape[1]), b], axis=-1)


def inverted(r: Vectors) -> Vectors:
    """Up to a factor: c, a and −b."""
    return np.stack([r[..., 1], r[..., 0], -r[..., 2]], axis=-1)


def composed(first: Vectors, second: Vectors) -> Vectors:
    """Up to a factor: a1 a2, c1 c2 and a2 b1 + c1 b2."""
    translation = second[..., 0] * first[..., 2] + first[..., 1] * second[..., 2]
    return np.stack([first[..., 0] * second[..., 0], first[..., 1] * second[..., 1], translation], axis=-1)


def nearness(found: Vectors, wanted: Vectors) -> NDArray[np.float64]:
    """1 where every dimension of `found` is a multiple of that of `wanted`, 0 where all are at right angles; dimensions
    count by their length. Some 0.2 for random vectors; higher where both leave b near 0."""
    length = np.linalg.norm(found, axis=-1)
    across = np.linalg.norm(np.cross(found, wanted), axis=-1)
    sine = across / np.maximum(length * np.linalg.norm(wanted, axis=-1), 1e-30)
    return np.asarray(1 - (length * sine).sum(-1) / np.maximum(length.sum(-1), 1e-30))


def symmetric_shares(graph: Graph, triples: Triples) -> NDArray[np.float64]:
    """Of each relation's triples (h, t), the share with (t, h) in the graph too; (relations,). A loop is its own mirror
    image."""
    sizes = len(graph.entities), len(graph.relations)
    turned = np.isin(triple_keys(triples[:, ::-1], *sizes), triple_keys(triples, *sizes))
    count = np.bincount(triples[:, 1], minlength=sizes[1])
    share = np.bincount(triples[:, 1], weights=turned, minlength=sizes[1]) / np.maximum(count, 1)
    return np.asarray(share)


def examples(graph: Graph, r: Vectors) -> list[Example]:
    """Every inversion and composition that the data shows, and every symmetric relation."""
    triples = np.unique(graph.all_triples, axis=0)
    sizes = len(graph.entities), len(graph.relations)
    found = []
    rules = inverse_relations(triples, *sizes)
    for premise, conclusion, confidence in zip(
        rules.premises.tolist(), rules.conclusions.tolist(), rules.confidence.tolist(), strict=True
    ):
        near = float(nearness(r[conclusion], inverted(r[premise])))
        kind, members = ("symmetry", (premise,)) if premise == conclusion else ("inversion", (premise, conclusion))
        found.append(Example(kind, members, confidence, near))
    for first, second, conclusion, _, confidence in zip(
        *(column.tolist() for column in composed_relations(triples, *sizes)), strict=True
    ):
        near = float(nearness(r[conclusion], composed(r[first], r[second])))
        found.append(Example("composition", (first, second, conclusion), confidence, near))
    return found


def chance(r: Vectors) -> dict[str, NDArray[np.float64]]:
    """Nearness of relations that were picked at random, by pattern."""
    one, two, three = np.random.default_rng(0).integers(0, len(r), (3, _COMPARED))
    apart = (one != two) & (two != three) & (one != three)
    chosen = [part[apart] for part in (one, two, three)] if apart.any() else [one, two, three]
    near = [
        (nearness(r[second], inverted(r[first])), nearness(r[third], composed(r[first], r[second])))
        for first, second, third in zip(*chosen, strict=True)
    ]
    inversion, composition = np.array(near).T
    return {"symmetry": nearness(r, inverted(r)), "inversion": inversion, "composition": composition}


def patterns_section(subjects: Sequence[Subject]) -> Section | None:
    """Of the first run with r^H and r^T: nearness against the data, with the best and the worst examples."""
    chosen = next(((subject, r) for subject in subjects if (r := parameters(subject)) is not None), None)
    if chosen is None:
        return None
    subject, r = chosen
    graph = subject.run.graph
    found, random = examples(graph, r), chance(r)
    shares = symmetric_shares(graph, np.unique(graph.all_triples, axis=0))
    figure, axes = canvas(11, 3.5, 3)
    axes[0].scatter(shares, random["symmetry"], s=16, color=COLOURS[0], alpha=0.7, linewidths=0)
    axes[0].set(title="Symmetry", xlabel="share of triples with their mirror image", ylabel="nearness to the condition")
    for axis, kind in zip(axes[1:], ("inversion", "composition"), strict=True):
        real = [example.nearness for example in found if example.kind == kind]
        bins = np.linspace(0, 1, 41).tolist()
        axis.hist(random[kind], bins=bins, color=PALE, density=True, label="relations at random")
        if real:
            axis.hist(real, bins=bins, color=COLOURS[1], alpha=0.75, density=True, label=f"{len(real)} in the data")
        else:
            axis.annotate("the data shows none", (0.5, 0.5), xycoords="axes fraction", ha="center", color=GREY)
        axis.set(title=kind.capitalize(), xlabel="nearness to the condition", xlim=(0, 1), yticks=[])
        axis.set_ylim(0, 1.25 * axis.get_ylim()[1])
        axis.legend(fontsize=9, loc="upper right")
    axes[0].set(xlim=(-0.05, 1.05), ylim=(0, 1.03))
    return Section(
        "patterns",
        f"Patterns that {subject.label} has learned",
        "Nearness is 1 where the parameters of a relation meet the condition in every dimension. On the left each dot "
        "is a relation: symmetric ones, towards the right, should lie high. In the other two, rules that the data "
        "shows (orange) should lie to the right of relations picked at random (grey).",
        figure,
        [_example_table(graph, found, kind) for kind in ("symmetry", "inversion", "composition")],
    )


def _example_table(graph: Graph, found: Sequence[Example], kind: str) -> Cells:
    own = sorted((example for example in found if example.kind == kind), key=lambda example: -example.nearness)
    shown = own if len(own) <= 2 * SHOWN else own[:SHOWN] + own[-SHOWN:]
    joined = {"symmetry": "{0}", "inversion": "{0} ⟷ {1}", "composition": "{0} ∘ {1} ⟶ {2}"}[kind]
    rows = [
        [
            "best" if place < (len(shown) + 1) // 2 else "worst",
            joined.format(*graph.relations.labels(list(example.relations))),
            f"{example.confidence:.0%}",
            f"{example.nearness:.2f}",
        ]
        for place, example in enumerate(shown)
    ]
    headers = ["", "relations", "holds in the data", "nearness"]
    return Cells(headers, rows or [["", "the data shows none", "", ""]], title=kind.capitalize())
