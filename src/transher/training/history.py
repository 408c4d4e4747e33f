"""The story of a training, a JSON line per report and validation; in TensorBoard too where that is installed."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from transher.errors import InputError
from transher.files import first_fault, write_text

HISTORY_FILE = "history.jsonl"


class _Line(BaseModel):
    """A line of a history: what it tells of, after how many steps, and figures by their names."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    kind: str
    step: NonNegativeInt


class History:
    """Appends to a run's history. `after` is the step that a training resumes from: later lines, written by a session
    that was killed before its next checkpoint, are taken back, since those steps will be done again."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        path = folder / HISTORY_FILE
        kept = [line for line in read_history(folder) if line["step"] <= after] if after else []
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = path.open("a", encoding="utf-8")
        self._board: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=after)

    def add(self, kind: str, step: int, **values: float) -> None:
        """A line of `kind` "report", "validation" or "gradients"."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


class NoHistory(History):
    """Of a worker that leaves the telling to the first."""

    def __init__(self) -> None:
        pass

    def add(self, kind: str, step: int, **values: float) -> None:
        pass

    def close(self) -> None:
        pass


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's history; a last line that a kill cut short is left out."""
    path = folder / HISTORY_FILE
    if not path.is_file():
        return []
    lines: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append(_Line.model_validate_json(line).model_dump())
        except ValidationError as error:
            if error.errors()[0]["type"] == "json_invalid":
                break
            remedy = "It was changed after it was written: take a copy, or delete the line."
            raise InputError(
                f"is not a line of a history ({first_fault(error)}).", file=path, line=number, remedy=remedy
            ) from None
    return lines
