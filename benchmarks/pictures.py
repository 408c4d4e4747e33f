"""The pictures of docs/performance.md, drawn from `results/`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

OURS, OTHERS, LIMIT = "#0b6e4f", "#9aa5b1", "#c2410c"
LABELS = {
    "kernels": "transher, kernels",
    "whole": "transher, whole step",
    "compiled kernels": "torch.compile, kernels",
    "compiled": "torch.compile, whole step",
    "eager kernels": "eager torch, kernels",
    "eager": "eager torch, whole step",
    "authors": "authors' formulation",
    "pykeen": "PyKEEN's PairRE",
}


def draw(results: dict[str, Any], folder: Path) -> list[Path]:
    """Every picture that there are results for, as SVG that is the same for the same results."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "transher", "font.size": 10, "axes.spines.top": False,
                            "axes.spines.right": False, "svg.fonttype": "none"}  # fmt: skip
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawn = [folder / "performance-blocks.svg"]
    figure = _blocks(plt)
    figure.savefig(drawn[0], metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    for part, draw_part in PICTURES.items():
        if part not in results or "failed" in results[part]:
            continue
        figure = draw_part(results[part], plt)
        path = folder / f"performance-{part}.svg"
        figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        drawn.append(path)
    return drawn


def _blocks(plt: Any) -> Any:
    """How the two kernels go through their work; needs no measurement."""
    from matplotlib.patches import Rectangle

    figure, (forward, backward) = plt.subplots(1, 2, figsize=(10, 3.4))
    for axis, title in ((forward, "forward: a block of sums in registers"), (backward, "backward: a slice of k")):
        axis.set_xlim(-1.5, 13)
        axis.set_ylim(9.6, -1.6)
        axis.set_aspect("equal")
        axis.axis("off")
        axis.set_title(title)
    for row in range(9):
        for column in range(12):
            inside = 3 <= row < 6 and 4 <= column < 8
            forward.add_patch(
                Rectangle((column, row), 1, 1, facecolor=OURS if inside else "#eef1f4", edgecolor="white")
            )
    forward.text(6, -0.4, "N candidates, 4 at a time", ha="center")
    forward.text(-0.5, 4.5, "B queries, 3 or more at a time", va="center", ha="center", rotation=90)
    for column in range(12):
        inside = column == 4
        backward.add_patch(Rectangle((column, 0), 0.96, 4, facecolor=OURS if inside else "#eef1f4"))
        backward.add_patch(Rectangle((column, 5), 0.96, 3, facecolor=OURS if inside else "#eef1f4"))
    backward.text(6, -0.4, "k in slices of 16, each owned by one thread", ha="center")
    backward.text(-0.5, 2, "q, s, dq, ds", va="center", ha="center", rotation=90)
    backward.text(-0.5, 6.5, "e, de", va="center", ha="center", rotation=90)
    return figure


def _step(step: dict[str, Any], plt: Any) -> Any:
    shapes = step["shapes"]
    figure, axes = plt.subplots(1, len(shapes), figsize=(5.2 * len(shapes), 3.4), sharey=True, squeeze=False)
    for axis, shape in zip(axes[0], shapes, strict=True):
        sides = [name for name in LABELS if "best" in shape["sides"].get(name, {})][::-1]
        values = [shape["sides"][name]["best"] * 1e3 for name in sides]
        colours = [OURS if name in ("kernels", "whole") else OTHERS for name in sides]
        axis.barh([LABELS[name] for name in sides], values, color=colours)
        axis.set_xscale("log")
        axis.set_xlim(right=max(values) * 6)
        for place, value in enumerate(values):
            axis.text(value * 1.15, place, f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms", va="center")
        axis.set_title(f"training step, {step['batch']} × {step['negatives']} × k {shape['k']}")
        axis.set_xlabel("milliseconds, logarithmic")
    return figure


def _peak(peak: dict[str, Any], plt: Any) -> Any:
    figure, axis = plt.subplots(figsize=(6, 3.2))
    speed, lanes = peak["elements_per_second"], peak["lanes"]
    for place, way in enumerate(("forward", "backward")):
        axis.bar(place, speed[f"{way} kernel"] / 1e9, width=0.5, color=OURS, label="kernel" if not place else None)
        bound = lanes * peak["multiply_adds_per_second"] / peak["operations"][way] / 1e9
        axis.hlines(bound, place - 0.32, place + 0.32, color=LIMIT, label="multiply-add peak" if not place else None)
        axis.hlines(speed[way] / 1e9, place - 0.32, place + 0.32, color=LIMIT, linestyles="dashed",
                    label="its own operations, nothing to load" if not place else None)  # fmt: skip
    axis.set_xticks([0, 1], ["forward", "backward"])
    axis.set_ylabel("G elements a second")
    axis.set_title(f"kernels against the machine, {peak['backend']}, {peak['threads']} threads")
    axis.legend(frameon=False)
    return figure


def _growth(growth: dict[str, Any], plt: Any) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.2))
    rows = growth["rows"]
    axes[0].plot([row["entities"] for row in rows], [row["step"]["median"] * 1e3 for row in rows], "o-", color=OURS)
    axes[0].set_xscale("log")
    axes[0].set_xlabel("entities")
    for axis, sweep, label in ((axes[1], "dimensions", "k"), (axes[2], "negatives", "negatives")):
        points = growth.get("sweeps", {}).get(sweep, [])
        axis.plot([p["value"] for p in points], [p["step"]["median"] * 1e3 for p in points], "o-", color=OURS)
        axis.set_xlabel(label)
    axes[0].set_ylabel("milliseconds a step")
    for axis in axes:
        axis.set_ylim(bottom=0)
    settings = growth["settings"]
    figure.suptitle(f"a training step of {settings['batch']} positives; k {settings['k']}, "
                    f"{settings['negatives']} negatives where not said otherwise")  # fmt: skip
    figure.tight_layout()
    return figure


PICTURES: dict[str, Callable[[dict[str, Any], Any], Any]] = {"step": _step, "peak": _peak, "growth": _growth}
