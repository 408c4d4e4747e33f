"""The report: every section of a run or several, in one HTML page that opens offline, and its pictures as files."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from transher.analysis.cases import cases_section
from transher.analysis.curves import gradient_section, training_section
from transher.analysis.ellipse import ellipse_section
from transher.analysis.entity_map import map_section
from transher.analysis.learned_patterns import patterns_section
from transher.analysis.page import Cells, Section, Subject, look, save_picture, subjects
from transher.analysis.probabilities import reliability_section
from transher.analysis.scores import results_section, types_section
from transher.analysis.translations import heat_section, norm_section
from transher.errors import UsageError
from transher.files import write_text
from transher.runs.run import Run
from transher.visible import shown_html

SECTIONS: tuple[Callable[[Sequence[Subject]], Section | None], ...] = (
    results_section,
    types_section,
    reliability_section,
    training_section,
    gradient_section,
    heat_section,
    norm_section,
    patterns_section,
    cases_section,
    map_section,
    ellipse_section,
)
PAGE = "report.html"


def write_report(
    runs: Sequence[Run], folder: Path, progress: Callable[[int, int], None] | None = None
) -> tuple[Path, list[str]]:
    """Write report.html and the pictures into `folder`; gives the page's path and the names of the PNG files."""
    if not runs:
        raise UsageError("a report is of one run or several.")
    for run in runs[1:]:
        if not run.graph.equals(runs[0].graph):
            raise UsageError(f"a report is of one graph, and {run.folder} is of another than {runs[0].folder}.")
    if not len(runs[0].graph.test):
        raise UsageError(f"a report tells of test triples, and {runs[0].graph.name} has none.")
    folder.mkdir(parents=True, exist_ok=True)  # if that cannot be, it is known before the work
    subjects_ = subjects(runs)
    sections: list[tuple[Section, bytes | None]] = []
    for done, make in enumerate(SECTIONS):
        if progress:
            progress(done, len(SECTIONS))
        with look():
            section = make(subjects_)
        if section is not None:
            drawn = None if section.figure is None else save_picture(section.figure, folder, section.name)
            sections.append((section, drawn))
    path = folder / PAGE
    write_text(path, html_page(subjects_, sections))
    return path, [f"{section.name}.png" for section, drawn in sections if drawn is not None]


def html_page(subjects_: Sequence[Subject], sections: Sequence[tuple[Section, bytes | None]]) -> str:
    """One page with everything in it; sections come with their pictures as SVG."""
    graph = subjects_[0].run.graph
    title = f"{' and '.join(subject.label for subject in subjects_)} on {graph.name}"
    links = "".join(f'<a href="#{section.name}">{shown_html(section.title)}</a>' for section, _ in sections)
    lead = (
        f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, {len(graph.train):,} training and "
        f"{len(graph.test):,} test triples."
    )
    body = "".join("".join(_section(*part)) for part in sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{shown_html(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_CSS}</style></head>\n'
        f"<body><main><h1>{shown_html(title)}</h1><p>{lead}</p>{_settings(subjects_)}<nav>{links}</nav>\n{body}"
        "</main></body></html>\n"
    )


def _section(section: Section, drawn: bytes | None) -> Iterator[str]:
    yield f'<section id="{section.name}"><h2>{shown_html(section.title)}</h2>'
    yield f'<p class="caption">{shown_html(section.caption)}</p>'
    if drawn is not None:
        data = base64.b64encode(drawn).decode()
        yield f'<img alt="{shown_html(section.title)}" src="data:image/svg+xml;base64,{data}">'
    yield f'<div class="tables">{"".join(_table(table) for table in section.tables)}</div></section>\n'


def _table(cells: Cells) -> str:
    head = "".join(f"<th>{shown_html(header)}</th>" for header in cells.headers)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=marked' if (row, column) in cells.marked else ''}>{shown_html(text)}</td>"
            for column, text in enumerate(line)
        )
        + "</tr>"
        for row, line in enumerate(cells.rows)
    )
    caption = f"<caption>{shown_html(cells.title)}</caption>" if cells.title else ""
    return f'<div class="scroll"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _settings(subjects_: Sequence[Subject]) -> str:
    """What each run was trained with, folded away."""
    parts = []
    for subject in subjects_:
        seconds = (subject.run.manifest or {}).get("cost", {}).get("seconds")
        cost = f", {seconds / 60:.1f} minutes of training" if seconds else ""
        parts.append(
            f"<details><summary>{shown_html(subject.label)}: recipe{cost}</summary>"
            f"<pre>{escape(subject.run.recipe.to_toml())}</pre></details>"
        )
    return "".join(parts)


_CSS = """
body{margin:0;background:#fff;color:#1b1b1b;font:16px/1.55 system-ui,sans-serif}
main{max-width:68rem;margin:0 auto;padding:2rem 1.25rem 5rem}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 .3rem}h2{font-size:1.25rem;margin:3rem 0 .4rem}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1.2rem 0;padding:.7rem 0;border-block:1px solid #ddd}
a{color:#0059a0}.caption{max-width:46rem;color:#3c3c3c;margin:.2rem 0 1rem}
img{max-width:100%;height:auto;display:block;margin:.5rem 0 1rem}
.tables{display:flex;flex-wrap:wrap;gap:.4rem 3.5rem}.scroll{overflow-x:auto;margin:.8rem 0;max-width:100%}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;white-space:nowrap;font-weight:600;padding:.35rem 0}
th,td{padding:.28rem .8rem .28rem 0;text-align:left;
border-bottom:1px solid #e6e6e6;vertical-align:top;overflow-wrap:anywhere}th{color:#555;font-weight:600}
th,td:first-child{white-space:nowrap}
td.marked{font-weight:700;color:#00614a}td.marked::before{content:"● "}
details{margin:.2rem 0}summary{cursor:pointer;color:#444}
pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;font-size:.8rem}
@media print{nav,details{display:none}section{break-inside:avoid}}
"""
