"""How long questions take against the scorer alone: `predict` also judges candidates and puts answers in words.

`python -m benchmarks.asking RUN` writes `results/asking-GRAPH.json`. The two sides take turns, question by question and
batch by batch, so that noise from elsewhere hits both alike. Time is the processor's, of one thread: a busy machine
changes it less than time by the clock. The table of docs/probabilities.md is made of these files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transher
from benchmarks.probabilities import DOCUMENT, RESULTS, with_tables
from transher.files import write_json, write_text
from transher.graph.graph import SIDES, Side, Triples
from transher.runs.run import Run

_QUESTIONS, _BATCHES = 200, 5  # of validation triples; rounds of all of them at once
_CANDIDATES = 64  # that the scorer is asked for when ten answers are wanted


def asking(run: Run) -> dict[str, Any]:
    """Milliseconds a question for tails and for heads, singly and in a batch: by the scorer, and by `predict`. The
    median of what each took, and of their ratios."""
    run.answering.prepare()
    facts = run.graph.valid[np.random.default_rng(0).permutation(len(run.graph.valid))[:_QUESTIONS]]
    found: dict[str, Any] = {"questions": len(facts), "threads": torch.get_num_threads()}
    for side in SIDES:
        asked = _Asked(run, facts, side)
        single = [asked.took(slice(place, place + 1)) for place in range(len(facts))]
        batch = [asked.took(slice(None)) for _ in range(_BATCHES)]
        found[f"{side}s"] = {
            "single": _compared(single, 1),
            "batch": _compared(batch[1:], len(facts)),  # the first meets entities that nobody asked about before
        }
    return found


class _Asked:
    """Questions for one side of some facts (n, 3), by ids and in words."""

    def __init__(self, run: Run, facts: Triples, side: Side) -> None:
        self.run, self.side = run, side
        given, column = ("head", 0) if side == "tail" else ("tail", 2)
        self.anchors, self.relations = (torch.from_numpy(facts[:, place].astype(np.int64)) for place in (column, 1))
        entities, relations = (names.identifiers for names in (run.graph.entities, run.graph.relations))
        self.words = [
            {given: entities[anchor].as_py(), "relation": relations[relation].as_py()}
            for anchor, relation in zip(self.anchors.tolist(), self.relations.tolist(), strict=True)
        ]

    def took(self, part: slice) -> tuple[float, float]:
        """Seconds of some questions: by the scorer, and by `predict`."""
        started = time.thread_time()
        self.run.scorer.best(self.anchors[part], self.relations[part], self.side, _CANDIDATES)
        scored = time.thread_time()
        self.run.predict(self.words[part])
        return scored - started, time.thread_time() - scored


def _compared(took: list[tuple[float, float]], questions: int) -> dict[str, float]:
    scorer, predict = (1000 * statistics.median(column) / questions for column in zip(*took, strict=True))
    ratio = statistics.median(predict / scorer for scorer, predict in took)
    return {"scorer_ms": round(scorer, 2), "predict_ms": round(predict, 2), "ratio": round(ratio, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    torch.set_num_threads(1)
    run = transher.load(parser.parse_args().run)
    found = {"graph": run.graph.name, "rules": 0 if run.answering.rules is None else len(run.answering.rules.rows)}
    found |= asking(run)
    write_json(RESULTS / f"asking-{run.graph.name}.json", found)
    write_text(DOCUMENT, with_tables(DOCUMENT.read_text("utf-8"), RESULTS))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
