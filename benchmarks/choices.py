"""What a choice came to: each scorer of a chosen run alone, every pair of them, and all, ranked on the test triples.

`python -m benchmarks.choices RUN` writes `results/choice-GRAPH.json` and the table of docs/choosing.md. RUN is what
`transher train GRAPH --out RUN` leaves. Weights are fitted on validation triples each time, as in the run.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import transher
from benchmarks.probabilities import described, markdown, with_tables
from transher.blending import Blend, fit_blend
from transher.evaluation import evaluate
from transher.files import write_json, write_text
from transher.models.embeddings import Embeddings
from transher.runs.choosing import read_choice
from transher.runs.run import Run
from transher.scorer import Scorer

RESULTS, DOCUMENT = Path("results"), Path("docs", "choosing.md")


def ablation(run: Run) -> list[dict[str, Any]]:
    """Test MRR and Hits@10 of every set of members."""
    assert isinstance(run.scorer, Blend)
    members = run.scorer.members
    rows = []
    for size in range(1, len(members) + 1):
        for chosen in combinations(range(len(members)), size):
            own = [members[number] for number in chosen]
            scorer: Scorer = own[0] if size == 1 else run.scorer if size == len(members) else fit_blend(own, run.graph)
            found = evaluate(scorer, run.graph, "test").overall
            rows.append({"members": [title(one) for one in own], "mrr": found.mrr, "hits@10": found.hits_at_10})
    return rows


def title(scorer: Scorer) -> str:
    return scorer.model.title if isinstance(scorer, Embeddings) else type(scorer).__name__.lower()


def measured(run: Run) -> dict[str, Any]:
    choice = read_choice(run.folder)
    assert choice is not None
    assert run.manifest is not None
    return {
        **described(run),
        "minutes": choice.minutes,
        "choosing_seconds": round(choice.seconds),
        "threads": run.manifest["machine"]["threads"],
        "tried": [
            {"title": tried.title, "compared_mrr": tried.compared_mrr, "mrr": tried.mrr, "seconds": tried.seconds}
            for tried in choice.tried
        ],
        "scorers": ablation(run),
    }


def choice_table(results: Path) -> str:
    rows = []
    for path in sorted(results.glob("choice-*.json")):
        found = json.loads(path.read_text("utf-8"))
        for row in found["scorers"]:
            figures = [f"{row[name]:.3f}" for name in ("mrr", "hits@10")]
            rows.append([found["graph"], " + ".join(row["members"]), *figures])
    return markdown(["graph", "scorers", "test MRR", "Hits@10"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = transher.load(parser.parse_args().run)
    write_json(RESULTS / f"choice-{run.graph.name}.json", measured(run))
    write_text(DOCUMENT, with_tables(DOCUMENT.read_text("utf-8"), RESULTS, {"choice": choice_table}))


if __name__ == "__main__":
    main()
