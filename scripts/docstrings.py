"""Arguments of our docstrings as a list: an extension of griffe, which reads the code for the site's Python reference.

A docstring says `top: how many answers.`, a line per argument with its continuation indented. Markdown would run such
lines together into one paragraph.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ARGUMENT = re.compile(r"^((?:\w+)(?:, \w+)*): (?=\S)")


class ArgumentLists(griffe.Extension):
    """Rewrites the docstrings of functions."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        if func.docstring is not None:
            names = {parameter.name for parameter in func.parameters}
            func.docstring.value = as_list(func.docstring.value, names)


def as_list(text: str, names: set[str]) -> str:
    """The docstring with its lines about arguments as Markdown's list items."""
    lines: list[str] = []
    for line in text.splitlines():
        found = _ARGUMENT.match(line)
        if found and set(found[1].split(", ")) <= names:
            if lines and lines[-1] and not lines[-1].startswith(("- ", "    ")):
                lines.append("")
            described = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines.append(f"- {described}: {line[found.end() :]}")
        else:
            lines.append(line)
    return "\n".join(lines)
