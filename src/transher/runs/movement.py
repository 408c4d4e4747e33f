"""How an update moves the answers to old test queries: what it keeps of the run before, and the report at its end."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError

from transher.errors import InputError
from transher.evaluation.ranking import rank
from transher.files import first_fault, read_json, write_json
from transher.graph.graph import Graph
from transher.graph.growing import Growth
from transher.models.embeddings import embeddings_of
from transher.runs.folder import BEFORE_FILE, UPDATE_FILE
from transher.scorer import Scorer
from transher.training.checkpoints import read_tensors, write_tensors


@dataclass(frozen=True)
class UpdateReport:
    """What joined, and how answers to the old test queries moved. Figures of ranks are None without test triples."""

    added: int
    already_known: int
    new_entities: int
    new_relations: int
    examples: list[str]  # identifiers of some new entities
    steps: int
    row_similarity: float | None  # mean cosine between an old entity's row before and after; None without rows
    queries: int
    mrr_before: float | None
    mrr_after: float | None
    better: float | None  # shares of queries
    worse: float | None
    equal: float | None
    median_shift: float | None  # of |log₂(rank after / rank before)|

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


_REPORT = TypeAdapter(UpdateReport)
_REMEDY = "It was changed after it was written: start the update again, into a new folder."


def keep_before(folder: Path, graph: Graph, scorer: Scorer, growth: Growth) -> None:
    """Write what the report will need of the run before, so that an update that is killed needs nothing else."""
    embeddings = embeddings_of(scorer)
    tensors = {} if embeddings is None else {"rows": embeddings.rows()}  # (old entities, d)
    if len(graph.test):
        tensors["ranks"] = torch.from_numpy(rank(scorer, graph.test, graph.known).realistic)
    joined = {
        "added": len(growth.added),
        "already_known": growth.already_known,
        "new_entities": growth.new_entities,
        "new_relations": growth.new_relations,
        "examples": growth.examples(),
    }
    write_tensors(folder / BEFORE_FILE, tensors, joined)


def report_movement(folder: Path, graph: Graph, scorer: Scorer, steps: int) -> None:
    """Write the report of an update, if the folder is one that has none yet. `graph` and `scorer` are those after."""
    path = folder / BEFORE_FILE
    if not path.is_file():
        return
    before, joined = read_tensors(path)
    rows, embeddings, similarity = before.get("rows"), embeddings_of(scorer), None
    if rows is not None and embeddings is not None:
        similarity = float(torch.cosine_similarity(rows, embeddings.rows(slice(0, len(rows))), dim=1).mean())
    moved: dict[str, Any] = dict.fromkeys(("mrr_before", "mrr_after", "better", "worse", "equal", "median_shift"))
    if "ranks" in before:
        old = before["ranks"].numpy()
        new = rank(scorer, graph.test, graph.known).realistic
        if old.shape != new.shape:
            raise InputError(f"has {old.shape} ranks, and {new.shape} are asked for.", file=path, remedy=_REMEDY)
        moved = {
            "mrr_before": float((1 / old).mean()),
            "mrr_after": float((1 / new).mean()),
            "better": float((new < old).mean()),
            "worse": float((new > old).mean()),
            "equal": float((new == old).mean()),
            "median_shift": float(np.median(np.abs(np.log2(new / old)))),
        }
    said = {**joined, "steps": steps, "row_similarity": similarity, "queries": 2 * len(graph.test), **moved}
    try:
        report = _REPORT.validate_python(said)
    except ValidationError as error:
        raise InputError(f"does not say what joined ({first_fault(error)}).", file=path, remedy=_REMEDY) from None
    write_json(folder / UPDATE_FILE, report.to_dict())
    path.unlink()


def read_movement(folder: Path) -> UpdateReport | None:
    """The report of a finished update; None for a run that is none."""
    path = folder / UPDATE_FILE
    remedy = "Delete it to do without: nothing is answered from it."
    return read_json(path, _REPORT, "the report of an update", remedy) if path.is_file() else None
