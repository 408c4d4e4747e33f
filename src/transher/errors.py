"""What went wrong, where, and what to do about it: the errors that people are meant to read."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class TransherError(Exception):
    """Something in the work went wrong. The command line prints the message alone and exits with 1."""


class UsageError(TransherError):
    """What was asked for makes no sense, whatever the data. The command line exits with 2."""


class UnknownNameError(UsageError):
    """A name that nothing has, or that several have. Over HTTP it is a 404."""

    def __init__(self, reason: str, suggestions: list[str]) -> None:
        super().__init__(reason)
        self.suggestions = suggestions


class InputError(TransherError):
    """A file that was given does not say what it should."""

    def __init__(self, what: str, *, file: Path | str | None = None, line: int | None = None, remedy: str = "") -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}, line {line}: "
        super().__init__(f"{where}{what}{f' {remedy}' if remedy else ''}")


class Diverged(TransherError):
    """The loss of a training is no longer a number."""


class Interrupted(TransherError):
    """The user asked for a stop, and everything is saved. The command line exits with 130."""


def nearest(word: str, choices: Iterable[str], count: int = 3) -> str:
    """« Did you mean 'a' or 'b'? » for the choices that look most like `word`, or an empty string."""
    by_lower: dict[str, str] = {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)
    close = get_close_matches(word.lower(), by_lower, n=count, cutoff=0.6)
    if not close:
        return ""
    return f"Did you mean {' or '.join(repr(by_lower[match]) for match in close)}?"
