"""Whether probabilities come true: a run's judge tried on its test triples, and on facts that came later.

`python -m benchmarks.probabilities RUN` writes `results/probabilities-GRAPH.json`. With `--later FACTS` it also writes
`results/backtest-GRAPH.json`: what the run said of facts that came later, and what it says after its judge was fitted
on half of them and tried on the other half. `--implied-by RELATION` names relations along which facts follow from known
ones, where the later facts lack those: further trials are then made without them. `--numbered` says that only entities
with even numbers in their names were followed, as in the graph of genes: the judge is then fitted on those whose number
is divisible by four. The tables of docs/probabilities.md are made of these files, by this command.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import transher
from transher.files import write_json, write_text
from transher.runs.run import Run

RESULTS, DOCUMENT = Path("results"), Path("docs", "probabilities.md")
GRAPHS = ("world", "fb15k-237", "db100k", "genes")
_MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def described(run: Run) -> dict[str, Any]:
    """Which run this is."""
    assert run.manifest is not None
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    return {
        "graph": run.graph.name,
        "commit": commit,
        "recipe": run.recipe.model_dump(),
        "training_seconds": run.manifest["cost"]["seconds"],
        "rules": 0 if run.answering.rules is None else len(run.answering.rules.rows),
        "machine": "two cores of a busy machine",
    }


def probabilities(run: Run) -> dict[str, Any]:
    assert run.manifest is not None
    _ = run.judge
    started = time.perf_counter()
    report = run.calibration_report().to_dict()
    return {
        **described(run),
        "fitting_seconds": run.manifest["cost"].get("fitting_seconds"),  # with mining rules, where it had none
        "trial_seconds": round(time.perf_counter() - started, 1),
        **report,
    }


def backtests(run: Run, later: Path, numbered: bool, implied_by: Sequence[str]) -> dict[str, Any]:
    """By the judge of the run, by one that does not learn from what follows, and by two that were fitted on a part of
    the later facts."""
    followed = [name for name in run.graph.entities.identifiers.to_pylist() if (_number(name) or 1) % 2 == 0]
    fitted_on = [name for name in followed if (_number(name) or 1) % 4 == 0]
    tried_on = [name for name in followed if (_number(name) or 1) % 4]
    found = {
        **described(run),
        "hidden_facts": run.backtest(later, about=followed if numbered else None).to_dict(),
        "hidden_facts_on_the_other_half": run.backtest(later, about=tried_on).to_dict() if numbered else None,
    }
    with tempfile.TemporaryDirectory() as folder:
        again = run.save(Path(folder) / "run")
        if implied_by:
            found["implied_by"] = list(implied_by)
            judged = again.calibrate(implied_by=implied_by)
            everybody = followed if numbered else None
            found["hidden_news"] = judged.backtest(later, about=everybody, implied_by=implied_by).to_dict()
        if numbered:
            judged = again.calibrate(later, about=fitted_on)
            found["later_facts_on_the_other_half"] = judged.backtest(later, about=tried_on).to_dict()
        if numbered and implied_by:
            judged = again.calibrate(later, about=fitted_on, implied_by=implied_by)
            found["later_news_on_the_other_half"] = judged.backtest(
                later, about=tried_on, implied_by=implied_by
            ).to_dict()
    return found


def calibration_table(results: Path) -> str:
    rows = []
    for graph in GRAPHS:
        path = results / f"probabilities-{graph}.json"
        if path.is_file():
            found = json.loads(path.read_text("utf-8"))
            shares = [*found["best"], found["first_answers"]]
            cells = [f"{each['probability']:.3f} / {each['holds']:.3f}" for each in shares]
            briers = [f"{found[part]['brier']:.4f}" for part in ("shown", "former")]
            rows.append([graph, f"{found['hidden']:,}", *cells, *briers])
    headers = [
        "graph",
        "hidden",
        "best 100",
        "best 1,000",
        "best 10,000",
        "first three answers",
        "Brier",
        "Brier, Platt",
    ]
    return markdown(headers, rows)


def backtest_table(results: Path, part: str) -> str:
    found = json.loads((results / "backtest-genes.json").read_text("utf-8"))
    rows = []
    for name, which in (
        ("all even genes", "hidden_facts"),
        ("half of them", "hidden_facts_on_the_other_half"),
        ("half of them, judge fitted on later facts", "later_facts_on_the_other_half"),
        ("all even genes, without what follows", "hidden_news"),
        ("half of them, fitted on later facts, without what follows", "later_news_on_the_other_half"),
    ):
        for came in found[which][part] if which in found else ():
            shares = [f"{came[way]:.4f}" for way in ("probability", "judge", "popularity")]
            rows.append([name, f"{came['facts']:,}", *shares, f"{came['chance']:.5f}"])
    return markdown(["facts about", "best", "mean probability", "judge", "popularity", "chance"], rows)


def asking_table(results: Path) -> str:
    rows = []
    for graph in GRAPHS:
        path = results / f"asking-{graph}.json"
        if path.is_file():
            found = json.loads(path.read_text("utf-8"))
            for side, way in product(("tails", "heads"), ("single", "batch")):
                own = found[side][way]
                asked = "one" if way == "single" else f"{found['questions']} at once"
                cells = [f"{own[name]:.2f}" for name in ("scorer_ms", "predict_ms", "ratio")]
                rows.append([graph, side, asked, *cells])
    return markdown(["graph", "asked for", "questions", "scorer, ms", "`predict`, ms", "ratio"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "calibration": calibration_table,
    "asking": asking_table,
    "later": lambda results: backtest_table(results, "best"),
    "later-rare": lambda results: backtest_table(results, "rare"),
}


def with_tables(text: str, results: Path, tables: Mapping[str, Callable[[Path], str]] = TABLES) -> str:
    """The text with every marked table as the results say."""
    return _MARKED.sub(lambda match: f"{match[1]}{tables[match[2]](results)}{match[3]}", text)


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *(["---:"] * (len(headers) - 1))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (headers, rule, *rows))


def _number(name: str) -> int | None:
    """The number at the end of the name of a gene, such as gene:1017."""
    match = re.fullmatch(r"\D*(\d+)", name) if name.lower().startswith("gene") else None
    return None if match is None else int(match[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--later", type=Path)
    parser.add_argument("--numbered", action="store_true", help="only entities with even numbers were followed")
    parser.add_argument("--implied-by", action="append", default=[], metavar="RELATION")
    arguments = parser.parse_args()
    run = transher.load(arguments.run)
    tried = probabilities(run)
    write_json(RESULTS / f"probabilities-{run.graph.name}.json", tried)
    print(json.dumps({"best": tried["best"], "first_answers": tried["first_answers"]}))
    if arguments.later is not None:
        tried = backtests(run, arguments.later, arguments.numbered, arguments.implied_by)
        write_json(RESULTS / f"backtest-{run.graph.name}.json", tried)
    if (RESULTS / "backtest-genes.json").is_file():
        write_text(DOCUMENT, with_tables(DOCUMENT.read_text("utf-8"), RESULTS))


if __name__ == "__main__":
    main()
