"""What a notebook shows for an object: a small HTML table, with all text escaped, since names come from files."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def html_summary(title: str, rows: Mapping[str, str], code: str) -> str:
    """A table of two columns below a title, and a line of code to try next."""
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<div><b>{escape(title)}</b><table>{cells}</table><code>{escape(code)}</code></div>"
