"""A completion: the missing facts of a graph in a file, by a search that can be stopped and resumed."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transher.answering.answers import Answering
from transher.answering.evidence import reasons
from transher.answering.missing import Search, Standing, Wanted
from transher.answering.predicted import Predicted
from transher.answering.reading import Earlier
from transher.answering.writing import refuse_existing, refuse_unknown_ending, write_facts
from transher.errors import InputError, Interrupted
from transher.evaluation.ranks import Progress
from transher.files import read_safetensors, read_safetensors_metadata, write_safetensors

_SAVE_EVERY = 30.0  # seconds
_ARRAYS = ("triples", "scores", "log_odds", "known")


@dataclass(frozen=True)
class CompletionSummary:
    """What a completion did."""

    out: str
    facts: int
    pairs: int  # that were looked at
    relations: int
    expected: float | None  # how many of the facts are expected to hold: the sum of their probabilities
    highest_probability: float | None
    lowest_probability: float | None
    seconds: float  # of this session
    resumed: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def complete_to_file(
    answering: Answering,
    out: Path,
    wanted: Wanted,
    *,
    scorer_hash: str,
    earlier: Earlier | None = None,
    evidence: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> CompletionSummary:
    """Write the facts that are wanted to `out`, which is a new file unless `overwrite` is given. Ctrl-C leaves a state
    file beside it, from which the same request of the same scorer, told by its hash, is resumed; a kill loses at most
    half a minute. The state of another request is set aside.

    earlier: facts that are left out.
    """
    refuse_unknown_ending(out)
    refuse_existing(out, overwrite)
    started = saved = time.monotonic()
    state = out.with_name(f".{out.name}.state")
    request = {"model": scorer_hash, "since": None if earlier is None else earlier.hash, **asdict(wanted)}
    fingerprint = json.dumps(request, sort_keys=True)
    search = Search(answering, wanted, earlier)
    before = standing = _load(state, fingerprint)
    try:
        for standing in search.standings(before):
            if progress is not None:
                progress(standing.pairs, search.pairs)
            if time.monotonic() - saved > _SAVE_EVERY:
                _save(state, standing, fingerprint)
                saved = time.monotonic()
    except KeyboardInterrupt:
        if standing is not None:
            _save(state, standing, fingerprint)
        done = 0 if standing is None else standing.pairs
        raise Interrupted(
            f"stopped after {done:,} of {search.pairs:,} pairs; the same command resumes there."
        ) from None
    assert standing is not None  # the last one comes after all units, even of no pairs
    facts = standing.facts
    write_facts(out, answering.graph, facts, reasons(answering, facts, progress) if evidence else None)
    with suppress(OSError):  # the facts are there, whatever becomes of it
        state.unlink(missing_ok=True)
    probabilities = facts.probabilities
    spread = (None, None) if probabilities is None or not len(facts) else tuple(probabilities[[0, -1]].tolist())
    return CompletionSummary(
        out=str(out),
        facts=len(facts),
        pairs=search.pairs,
        relations=len(wanted.relations),
        expected=None if probabilities is None else float(probabilities.sum()),
        highest_probability=spread[0],
        lowest_probability=spread[1],
        seconds=time.monotonic() - started,
        resumed=before is not None,
    )


def _save(path: Path, standing: Standing, fingerprint: str) -> None:
    arrays = {name: getattr(standing.facts, name) for name in _ARRAYS}
    metadata = {"request": fingerprint, "units": str(standing.units), "pairs": str(standing.pairs)}
    write_safetensors(path, arrays, metadata)


def _load(path: Path, fingerprint: str) -> Standing | None:
    if not path.is_file():
        return None
    try:
        if read_safetensors_metadata(path).get("request") != fingerprint:
            return None
        arrays, metadata = read_safetensors(path)
        facts = Predicted(*(arrays[name] for name in _ARRAYS))
        if facts.triples.shape != (len(facts), 3) or {len(array) for array in arrays.values()} != {len(facts)}:
            raise ValueError("its columns are not of one length")
        return Standing(int(metadata["units"]), int(metadata["pairs"]), facts)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(
            f"is not the state of a completion ({error}).", file=path, remedy="Delete it to start over."
        ) from None
