"""What following fewer gradients costs and gains: `python -m benchmarks.thinning`, or `make thinning`.

The same short training on FB15k-237 with shares of the negatives' gradients, everything else equal, one after another.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.__main__ import publish
from benchmarks.settings import say
from transher.graph import load_graph
from transher.graph.graph import Graph
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer

ROOT = Path(__file__).parent.parent
SHARES = (1.0, 0.3, 0.1, 0.03)
SETTINGS = {"k": 256, "batch": 1024, "negatives": 512, "steps": 4_000, "validation_triples": 5_000}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thinning", description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=SETTINGS["steps"])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "thinning.json")
    arguments = parser.parse_args()
    started = machine.moment()
    graph = load_graph("fb15k-237")
    rows = [measure(graph, share, arguments.steps) for share in SHARES]
    measured = {**started, "load_after": [round(value, 2) for value in os.getloadavg()], "machine": machine.describe()}
    result = {"settings": {**SETTINGS, "steps": arguments.steps}, "rows": rows, "measured": measured}
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    publish(arguments.out.parent, quick=False)


def measure(graph: Graph, share: float, steps: int) -> dict[str, Any]:
    """One training, to the validation MRR at its end and the seconds that its steps took."""
    recipe = Recipe().with_settings(
        [
            f"model.k={SETTINGS['k']}",
            f"training.batch={SETTINGS['batch']}",
            f"training.negatives={SETTINGS['negatives']}",
            f"training.steps={steps}",
            f"training.gradient_share={share}",
            f"validation.every={steps}",
            f"validation.sample={SETTINGS['validation_triples']}",
        ]
    )
    with tempfile.TemporaryDirectory(prefix="transher-thinning-") as folder:
        trainer = Trainer(graph, recipe, Path(folder))
        trainer.run()
    say(f"share {share}: validation MRR {trainer.progress.best_mrr:.4f}, {trainer.progress.seconds:.1f} s of steps")
    return {"share": share, "mrr": trainer.progress.best_mrr, "seconds": trainer.progress.seconds}


if __name__ == "__main__":
    main()
