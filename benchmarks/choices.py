"""What a choice came to: each scorer of a chosen run alone, every pair of them, and all, ranked on the test triples.
All together also rank a sample of them, in the order of scores and in that of the judge.

`python -m benchmarks.choices RUN` writes `results/choice-GRAPH-MINUTES.json` and the tables of docs/choosing.md. RUN
is what `transher train GRAPH --out RUN` leaves. Weights are fitted on validation triples each time, as in the run.
"""

from __future__ import annotations

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transher
from benchmarks.probabilities import described, markdown, with_tables
from transher.answering.trials import without_test
from transher.blending import Blend, fit_blend
from transher.blending.fitting import fit_weights
from transher.blending.trials import ask
from transher.evaluation import evaluate
from transher.files import write_json, write_text
from transher.graph.graph import SIDES
from transher.models.embeddings import Embeddings
from transher.runs.choosing import read_choice
from transher.runs.run import Run
from transher.scorer import Scorer, as_known, asked_columns

RESULTS, DOCUMENT = Path("results"), Path("docs", "choosing.md")
_SAMPLE = 5_000  # test triples that sets of members are compared on
_FACTS, _RERANKED = 1_000, 50  # test triples, and the candidates of a query, that the judge puts in order


def ablation(run: Run) -> list[dict[str, Any]]:
    """Test MRR and Hits@10 of every set of members, on a sample of the test triples where there are many; at the end of
    all without tallies."""
    assert isinstance(run.scorer, Blend)
    members = run.scorer.members
    rows = []
    for size in range(1, len(members) + 1):
        for chosen in combinations(range(len(members)), size):
            own = [members[number] for number in chosen]
            scorer: Scorer = own[0] if size == 1 else run.scorer if size == len(members) else fit_blend(own, run.graph)
            found = evaluate(scorer, run.graph, "test", sample=_SAMPLE).overall
            rows.append({"members": [title(one) for one in own], "mrr": found.mrr, "hits@10": found.hits_at_10})
    plain = fit_weights(ask(members, run.graph), [member.dense_part is not None for member in members])
    found = evaluate(Blend(members, plain), run.graph, "test", sample=_SAMPLE).overall
    whole = " + ".join(title(one) for one in members)
    return [*rows, {"members": [f"{whole}, without tallies"], "mrr": found.mrr, "hits@10": found.hits_at_10}]


def judged(run: Run) -> dict[str, float]:
    """MRR on some test triples, both sides: by score, and with the best candidates in the order of the judge. It knows
    the validation triples it was fitted on, and none of the test triples."""
    blind = without_test(run.answering)
    chosen = np.random.default_rng(0).permutation(len(run.graph.test))[:_FACTS]
    triples = torch.from_numpy(run.graph.test[np.sort(chosen)].astype(np.int64))
    by_score, by_judge = [], []
    for side in SIDES:
        for part in triples.split(min(run.scorer.queries_at_a_time, 256)):
            anchors, relations, answers = asked_columns(part, side)
            known = as_known(run.graph.known.answers(side), anchors.numpy(), relations.numpy())
            better, tied = run.scorer.count_better(anchors, relations, answers, side, known)
            ranks = (1 + better + tied / 2).numpy()
            _, others = run.scorer.best(anchors, relations, side, _RERANKED, known)
            rows, columns = torch.nonzero(others >= 0, as_tuple=True)
            rivals = part[rows].clone()
            rivals[:, 2 if side == "tail" else 0] = others[rows, columns]
            ahead = blind.judged(rivals.numpy()).worth > blind.judged(part.numpy()).worth[rows.numpy()]
            reranked = 1 + np.bincount(rows.numpy()[ahead], minlength=len(part))
            by_score.append(1 / ranks)
            by_judge.append(1 / np.where(ranks <= _RERANKED, reranked, ranks))
    found = {"score": float(np.concatenate(by_score).mean()), "judge": float(np.concatenate(by_judge).mean())}
    return {"facts": len(triples), "reranked": _RERANKED, **found}


def title(scorer: Scorer) -> str:
    return scorer.model.title if isinstance(scorer, Embeddings) else type(scorer).__name__.lower()


def measured(run: Run) -> dict[str, Any]:
    choice = read_choice(run.folder)
    kept = run.kept_metrics()
    assert choice is not None
    assert kept is not None
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
        "test": kept["overall"],
        "sample": min(_SAMPLE, len(run.graph.test)),
        "scorers": ablation(run),
        "order": judged(run),
    }


def _found(results: Path) -> list[dict[str, Any]]:
    found = [json.loads(path.read_text("utf-8")) for path in results.glob("choice-*.json")]
    return sorted(found, key=lambda one: (one["graph"], one["minutes"]))


def choice_table(results: Path) -> str:
    rows = []
    for found in _found(results):
        for row in found["scorers"]:
            figures = [f"{row[name]:.3f}" for name in ("mrr", "hits@10")]
            rows.append([found["graph"], f"{found['minutes']:g}", " + ".join(row["members"]), *figures])
    return markdown(["graph", "minutes given", "scorers", "test MRR", "Hits@10"], rows)


def default_table(results: Path) -> str:
    """The run as it is, on all test triples."""
    rows = []
    for found in _found(results):
        test, order = found["test"], found["order"]
        figures = [f"{test[name]:.3f}" for name in ("mrr", "hits@10")]
        times = [f"{found['minutes']:g}", f"{found['choosing_seconds'] / 60:.1f}"]
        rows.append([found["graph"], *times, *figures, f"{order['score']:.3f}", f"{order['judge']:.3f}"])
    columns = ["minutes given", "choosing took", "test MRR", "Hits@10", "by score", "by probability"]
    return markdown(["graph", *columns], rows)


TABLES = {"choice": choice_table, "default": default_table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = transher.load(parser.parse_args().run)
    found = measured(run)
    write_json(RESULTS / f"choice-{run.graph.name}-{found['minutes']:g}.json", found)
    write_text(DOCUMENT, with_tables(DOCUMENT.read_text("utf-8"), RESULTS, TABLES))


if __name__ == "__main__":
    main()
