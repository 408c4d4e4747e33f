"""What a notebook shows for an object: a small HTML table, with all text escaped, since names come from files."""

from __future__ import annotations

from collections.abc import Mapping

from transher.visible import shown_html


def html_summary(title: str, rows: Mapping[str, str], code: str) -> str:
    """A table of two columns below a title, and a line of code to try next."""
    left = 'style="text-align:left"'
    cells = "".join(
        f"<tr><th {left}>{shown_html(name)}</th><td {left}>{shown_html(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<div><b>{shown_html(title)}</b><table>{cells}</table><code>{shown_html(code)}</code></div>"
