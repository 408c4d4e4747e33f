"""How text that others wrote reaches a terminal or a page: a name in a graph may hold what these would obey."""

from __future__ import annotations

import re
import unicodedata
from html import escape

# Control characters (a terminal obeys them), format characters (they turn the direction of a line, or take no place),
# separators of lines and paragraphs, halves of characters. The joiners are part of words in Persian and Hindi.
_HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
_JOINERS = "\u200c\u200d"
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_NOT_PLAIN = re.compile(r"[^\n -~]")


def shown(text: str) -> str:
    """`text` on one line, with every character that a terminal would obey or hide written out: `\\x1b`, `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(_written_out(character) if _is_obeyed(character) else character for character in text)


def shown_lines(text: str) -> str:
    """A message of several lines, each as `shown` writes it."""
    return "\n".join(shown(line) for line in text.split("\n"))


def shown_html(text: str) -> str:
    """`text` as `shown` writes it, within HTML: it is no markup, and turns the direction of nothing else."""
    return escape(shown(text))


def shown_json(text: str) -> str:
    """JSON of the same values in which such characters are escapes. The line ends stand between values."""
    return _NOT_PLAIN.sub(lambda found: _json_escape(found[0]) if _is_obeyed(found[0]) else found[0], text)


def _is_obeyed(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def _written_out(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(character: str) -> str:
    halves = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{halves[place]:02x}{halves[place + 1]:02x}" for place in range(0, len(halves), 2))
