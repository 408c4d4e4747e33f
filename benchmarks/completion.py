"""How many of the facts that completion proposes are right: hide a tenth of a graph, complete it, count.

`python benchmarks/completion.py --graph world` trains on what is left and writes `results/completion-world.json`;
`--run RUN` takes a finished training instead, from which its own test triples were hidden.
A proposed fact counts as right only if it is one of those hidden: true facts that the graph never had count as wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import transher
from transher.answering.missing import Search, wanted_facts
from transher.files import write_json
from transher.graph import load_graph
from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph
from transher.graph.splits import split_triples
from transher.runs.run import Run
from transher.training.defaults import default_recipe

BEST = (100, 300, 1000)


def hide_a_tenth(graph: Graph, seed: int) -> tuple[Graph, np.ndarray]:
    """The graph with new train and valid splits and nothing else, and the triples that it no longer has."""
    triples = np.unique(graph.all_triples, axis=0)
    parts = split_triples(triples, len(graph.entities), len(graph.relations), seed=seed)
    left = replace(
        graph, train=triples[parts["train"]], valid=triples[parts["valid"]], test=triples[:0], train_weights=None
    )
    return left, triples[parts["test"]]


def measure(run: Run, hidden: np.ndarray) -> dict[str, object]:
    search = Search(run.answering, wanted_facts(run.graph, best=max(BEST)))
    started = time.perf_counter()
    facts = search.facts()
    sizes = len(run.graph.entities), len(run.graph.relations)
    hits = np.isin(triple_keys(facts.triples, *sizes), triple_keys(hidden, *sizes))
    probabilities = facts.probabilities
    assert probabilities is not None
    edges = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    places = np.digitize(probabilities, edges[1:-1])
    return {
        "pairs": search.pairs,
        "seconds": round(time.perf_counter() - started, 2),
        "precision": {str(count): float(hits[:count].mean()) for count in BEST},
        "mean_probability": {str(count): float(probabilities[:count].mean()) for count in BEST},
        "found_of_hidden": int(hits.sum()),
        "by_probability": [
            {
                "from": edges[place],
                "to": edges[place + 1],
                "facts": int((places == place).sum()),
                "precision": float(hits[places == place].mean()),
            }
            for place in np.unique(places).tolist()
        ],
    }


def trained_for_this(name: str, seed: int, settings: list[str], folder: Path) -> tuple[Run, np.ndarray]:
    graph, hidden = hide_a_tenth(load_graph(name), seed)
    return transher.train(graph, folder, recipe=default_recipe(graph).with_settings(settings)), hidden


def without_its_test_triples(folder: Path) -> tuple[Run, np.ndarray]:
    run = transher.load(folder)
    hidden = run.graph.test
    return replace(run, graph=replace(run.graph, test=hidden[:0])), hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", default="world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--run", type=Path, help="a finished training; its test triples are the hidden ones")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.run:
            run, hidden = without_its_test_triples(arguments.run)
        else:
            run, hidden = trained_for_this(arguments.graph, arguments.seed, arguments.settings, Path(folder) / "run")
        figures = {
            "graph": run.graph.name,
            "left": len(run.graph.train) + len(run.graph.valid),
            "hidden": len(hidden),
            "seed": run.recipe.training.seed if arguments.run else arguments.seed,
            "commit": subprocess.run(
                ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
            ).stdout.strip(),
            "recipe": run.recipe.model_dump(),
            "training_seconds": (run.manifest or {})["cost"]["seconds"],
            **measure(run, hidden),
        }
    write_json(Path("results") / f"completion-{run.graph.name}.json", figures)
    print(json.dumps({key: figures[key] for key in ("hidden", "precision", "mean_probability", "found_of_hidden")}))


if __name__ == "__main__":
    main()
