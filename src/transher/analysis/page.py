"""What a report is made of: sections of a picture or a table with a caption, and one look for all pictures."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from transher.evaluation import Evaluation
from transher.files import replacing
from transher.runs.run import Run

# Okabe and Ito's colours, which people with any colour vision tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, PALE = "#767676", "#d9d9d9"
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
TYPE_COLOURS = dict(zip(("1-to-1", "1-to-N", "N-to-1", "N-to-N"), COLOURS, strict=False))
TYPE_MARKERS = dict(zip(("1-to-1", "1-to-N", "N-to-1", "N-to-N"), MARKERS, strict=False))

# For letters that matplotlib's own font lacks, such as Chinese or Japanese: those of these that are installed.
_WIDE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Droid Sans Fallback",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans",
    "Microsoft YaHei",
    "Arial Unicode MS",
    "Noto Sans Devanagari",
    "Nirmala UI",
)

_LOOK: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ececec",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text: small, and can be searched
    "svg.hashsalt": "transher",  # the same figure gives the same file
}


@dataclass(frozen=True)
class Subject:
    """A run under analysis, with what it is called in the report; evaluated once at most."""

    label: str
    run: Run

    @property
    def drawn(self) -> str:
        """The label as text of a picture."""
        return as_drawn(self.label)

    @property
    def model(self) -> str:
        return self.run.recipe.model.name

    @cached_property
    def evaluation(self) -> Evaluation:
        return self.run.kept_evaluation() or self.run.evaluate()


@dataclass(frozen=True)
class Cells:
    """A table. `marked` holds (row, column) of the cells that matter most."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    marked: frozenset[tuple[int, int]] = frozenset()
    title: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the report. `name` is that of its picture's files."""

    name: str
    title: str
    caption: str  # what to see
    figure: Figure | None = None
    tables: Sequence[Cells] = field(default=())


def subjects(runs: Sequence[Run]) -> list[Subject]:
    """Runs by the name of their model, and of their folder where several have the same model: as much of its path as
    tells it from the others."""
    titles = [run.title for run in runs]
    folders = [run.folder.resolve() for run in runs]
    labels = []
    for title, folder in zip(titles, folders, strict=True):
        others = [other for its, other in zip(titles, folders, strict=True) if its == title and other != folder]
        depth = 1
        while any(other.parts[-depth:] == folder.parts[-depth:] for other in others):
            depth += 1
        labels.append(title if titles.count(title) == 1 else f"{title} ({'/'.join(folder.parts[-depth:])})")
    return [Subject(label, run) for label, run in zip(labels, runs, strict=True)]


def as_drawn(text: str) -> str:
    """A name as matplotlib draws it letter by letter: what is between two $ would be read as a formula."""
    return text.replace("$", r"\$")


@contextmanager
def look() -> Iterator[None]:
    """Pictures that are drawn or saved inside have the report's look."""
    with matplotlib.rc_context(_LOOK | {"font.family": _fonts()}):  # type: ignore[arg-type]  # its type lists every key
        yield


@cache
def _fonts() -> list[str]:
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it would tell of fonts that have no bold
    installed = {font.name for font in fontManager.ttflist}
    return ["DejaVu Sans", *(name for name in _WIDE_FONTS if name in installed)]


def canvas(width: float, height: float, columns: int = 1, rows: int = 1, **grid: Any) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, left to right and top to bottom."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw=grid or None)
    return figure, list(axes.flat)


def save_picture(figure: Figure, folder: Path, name: str) -> bytes:
    """The picture as PNG and SVG; gives the SVG."""
    pictures = {kind: _picture(figure, kind) for kind in ("png", "svg")}
    for kind, data in pictures.items():
        with replacing(folder / f"{name}.{kind}") as file:
            file.write(data)
    return pictures["svg"]


def _picture(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with look():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
