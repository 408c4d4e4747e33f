"""A judge on disk: its trees as text in JSON, and the levels that it compares scores with in safetensors. The first
file has a hash of both: two of different fits do not make a judge, and LightGBM's reader trusts what it is given."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from transher.answering.fitting import describe
from transher.answering.judge import Curve, Judge, Verdicts
from transher.answering.levels import WIDTH, Levels
from transher.answering.recent import FOLDS, Recent
from transher.errors import InputError
from transher.files import (
    first_fault,
    read_safetensors,
    read_safetensors_metadata,
    replacing,
    write_safetensors,
)
from transher.graph.graph import Graph
from transher.rules import Rules
from transher.scorer import Scorer

JUDGE_FILE, LEVELS_FILE = "judge.json", "judge.safetensors"
_FORMAT = 3
_LEVELS = ("starts", "entities", "values", "centre", "spread")
_RECENT = ("recent.keys", "recent.counts")
_REMEDY = "It was cut short or changed after it was written: delete it, and it is made anew when it is needed."
_LATER = "Update TranSHER; or delete it, and this version makes its own when it is needed."


class _Versioned(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    format: int


class _Stored(_Versioned):
    features: list[str]
    boosters: list[str]
    quick: str
    start: float
    knots: list[float]
    levels: list[float]  # at the knots
    misfit: float = 0.0
    hidden: int
    known: int
    later: bool
    hash: str = ""

    def hashed(self, levels: str) -> str:
        """levels: the hash of the other file."""
        text = json.dumps(self.model_dump(exclude={"hash"}), sort_keys=True)
        return xxhash.xxh3_128(f"{levels} {text}".encode()).hexdigest()


def save_judge(folder: Path, judge: Judge) -> None:
    """Write a judge into a run's folder. What goes wrong while it is written leaves the one that was there; a kill
    between the two renames leaves none, which is fitted anew when it is needed."""
    verdicts, levels = judge.verdicts, judge.describer.levels
    arrays: dict[str, NDArray[Any]] = {}
    if levels is not None:
        arrays |= {name: getattr(levels, name) for name in _LEVELS}
    recent = judge.describer.recent
    if recent is not None:
        arrays |= {name: getattr(recent, name.removeprefix("recent.")) for name in _RECENT}
    stored = _Stored(
        format=_FORMAT,
        features=list(verdicts.features),
        boosters=list(verdicts.boosters),
        quick=verdicts.quick,
        start=verdicts.start,
        knots=list(verdicts.curve.knots),
        levels=list(verdicts.curve.levels),
        misfit=verdicts.curve.misfit,
        hidden=verdicts.hidden,
        known=verdicts.known,
        later=verdicts.later,
    )
    fresh = folder / f".{LEVELS_FILE}.part"
    try:
        write_safetensors(fresh, arrays, {})
        stored.hash = stored.hashed(read_safetensors_metadata(fresh)["xxh3_128"])
        with replacing(folder / JUDGE_FILE) as file:
            file.write(json.dumps(stored.model_dump(), indent=2).encode())
            file.flush()
            (folder / JUDGE_FILE).unlink(missing_ok=True)  # it would be of other levels
            os.replace(fresh, folder / LEVELS_FILE)
    finally:
        fresh.unlink(missing_ok=True)


def load_judge(folder: Path, scorer: Scorer, graph: Graph, rules: Rules | None) -> Judge | None:
    """The judge of a run's folder; None where it has an earlier format, and is to be fitted anew."""
    path = folder / JUDGE_FILE
    try:
        text = path.read_text("utf-8")
        if _Versioned.model_validate_json(text).format > _FORMAT:
            raise InputError("was written by a later version of TranSHER.", file=path, remedy=_LATER)
        stored = _Stored.model_validate_json(text)
        if stored.format < _FORMAT:
            return None
        arrays, metadata = read_safetensors(folder / LEVELS_FILE)
        if stored.hash != stored.hashed(metadata["xxh3_128"]):
            raise ValueError("it does not have the hash that it was written with")
        describer = describe(scorer, graph, rules, _recent(arrays, len(graph.relations)) if stored.later else None)
        if describer.names != tuple(stored.features):
            raise ValueError("it is of another kind of run")
        if describer.levels is not None:
            _take(describer.levels, arrays)
        verdicts = Verdicts(
            tuple(stored.features),
            tuple(stored.boosters),
            stored.quick,
            stored.start,
            Curve(tuple(stored.knots), tuple(stored.levels), stored.misfit),
            stored.hidden,
            stored.known,
            stored.later,
        )
        return Judge(verdicts, describer, graph.known)
    except (ValueError, KeyError, TypeError, OSError) as error:
        told = first_fault(error) if isinstance(error, ValidationError) else str(error).splitlines()[0]
        raise InputError(f"is not a judge of this run ({told}).", file=path, remedy=_REMEDY) from None


def _recent(arrays: Mapping[str, NDArray[Any]], relations: int) -> Recent | None:
    """The later facts of a judge, checked; None of one that was fitted before these were looked at."""
    if not set(_RECENT) <= arrays.keys():
        return None
    keys, counts = (arrays[name] for name in _RECENT)
    if counts.shape != (len(keys), FOLDS) or not len(keys) or (np.diff(keys) <= 0).any():
        raise ValueError(f"{LEVELS_FILE} has later facts out of order")
    return Recent(keys, counts, relations)


def _take(levels: Levels, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Levels from a file, checked: a look-up trusts that they are sorted and of one length."""
    starts, entities, values, centre, spread = (arrays[name] for name in _LEVELS)
    relations = (len(starts) - 1) // 2
    whole = values.shape == (len(entities), WIDTH) and len(centre) == len(spread) == relations
    if not whole or len(starts) != len(levels.starts) or starts[0] != 0 or starts[-1] != len(entities):
        raise ValueError(f"{LEVELS_FILE} does not fit the graph")
    if (np.diff(starts) < 0).any():
        raise ValueError(f"{LEVELS_FILE} is out of order")
    levels.starts, levels.entities, levels.values, levels.scale = starts, entities, values, (centre, spread)
