"""What a measurement is told: how large, how long, from which run, and where to put what it has so far."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Settings:
    """`seconds` is the time that a part may take; what does not fit is left out, and the result says so."""

    quick: bool
    seconds: float
    out: Path | None = None  # where `record` writes
    run: Path | None = None  # a finished training, for weights as they are in practice
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.started)

    def record(self, result: dict[str, Any]) -> dict[str, Any]:
        """Keep what is measured so far: a part that is cut short leaves at least this."""
        if self.out is not None:
            self.out.write_text(json.dumps(result))
        return result


def say(text: str) -> None:
    print(f"  {text}", flush=True)
