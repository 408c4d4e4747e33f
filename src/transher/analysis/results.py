"""Results: one JSON file per finished run, with all that a reader needs to check a figure or make it again."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from transher.errors import UsageError
from transher.evaluation.significance import Comparison
from transher.files import write_text
from transher.graph.graph import SPLITS, Graph
from transher.models import build_model
from transher.models.model import Model
from transher.run import Run, load
from transher.training.recipe import Recipe

KINDS = ("run", "comparison")
DIGITS = 6  # more is noise, and makes files differ from machine to machine
_INLINE_FROM = 3  # from this depth on, a value stands on one line


def record(
    run_folder: Path,
    results_folder: Path,
    *,
    benchmark: str | None = None,
    variant: str = "main",
    name: str | None = None,
) -> Path:
    """Write the result of a finished run into `results_folder`, and give the file's path."""
    run = load(run_folder)
    evaluation = run.saved_evaluation()
    if run.manifest is None or evaluation is None:
        raise UsageError(f"{run_folder} has no result to record: its training is not finished, or had no test triples.")
    recipe, cost = run.recipe, run.manifest["cost"]
    benchmark = benchmark or run.graph.name
    experiment = {"benchmark": benchmark, "model": recipe.model.name, "variant": variant, "seed": recipe.training.seed}
    result = {
        "kind": "run",
        "experiment": experiment,
        "metrics": {part: evaluation[part] for part in ("overall", "by_side", "by_type", "by_relation")},
        "protocol": evaluation["protocol"],
        "validation_mrr": _best_validation(run),
        "cost": {
            "training_seconds": cost["seconds"],
            "steps": cost["steps"],
            "best_step": cost["best_step"],
            "elements": _elements_in_all(run),
            "evaluation_seconds": evaluation["seconds"],
            "evaluation_elements": evaluation["overall"]["count"]
            * len(run.graph.entities)
            * run.scorer.model.entity_width,
        },
        "recipe": recipe.model_dump(),
        **({"members": run.manifest["members"]} if "members" in run.manifest else {}),
        "versions": run.manifest["versions"],
        "machine": {**machine(), "threads": run.manifest["machine"]["threads"]},
        "graph_sha256": graph_hash(run.graph),
        "commit": commit(),
    }
    path = results_folder / f"{name or '_'.join(str(part) for part in experiment.values())}.json"
    write_text(path, _dump(_rounded(result)) + "\n")
    return path


def record_comparison(
    results_folder: Path, benchmark: str, first: str, second: str, variant: str, seed: int, comparison: Comparison
) -> Path:
    """Write the paired test of two runs on the same queries."""
    experiment = {"benchmark": benchmark, "first": first, "second": second, "variant": variant, "seed": seed}
    path = results_folder / f"{benchmark}_{first}_against_{second}_{variant}_{seed}.json"
    write_text(
        path,
        _dump(_rounded({"kind": "comparison", "experiment": experiment, "comparison": comparison.to_dict()})) + "\n",
    )
    return path


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Every run and comparison in a folder, by file name; other measurements lie there too."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
    return [result for result in found if "experiment" in result]


def _elements_in_all(run: Run) -> int:
    """Those of the training, or of every training that was joined."""
    assert run.manifest is not None
    joined = [(Recipe.parse(member["recipe"]), member["cost"]) for member in run.manifest.get("members", ())]
    trainings = joined or [(run.recipe, run.manifest["cost"])]
    return sum(elements(recipe, build_model(recipe.model), int(cost["steps"])) for recipe, cost in trainings)


def elements(recipe: Recipe, model: Model, steps: int) -> int:
    """How many |q − s∘e| or q·e a training computes: steps · positives · (negatives + 1) · width, twice, since the
    gradient passes over each again."""
    training = recipe.training
    return 2 * steps * training.batch * (training.negatives + 1) * model.entity_width


def graph_hash(graph: Graph) -> str:
    """SHA-256 of identifiers and triples: the same for the same graph, whatever files it came from."""
    digest = hashlib.sha256()
    for vocabulary in (graph.entities, graph.relations):
        digest.update("\n".join(vocabulary.identifiers.to_pylist()).encode())
        digest.update(b"\n\n")
    for split in SPLITS:
        digest.update(np.ascontiguousarray(graph.split(split), dtype="<i4").tobytes())
    return digest.hexdigest()


def machine() -> dict[str, Any]:
    """The processor and its cores; nothing that names the machine."""
    name = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.is_file():
        models = [line for line in information.read_text("utf-8").splitlines() if line.startswith("model name")]
        if models:
            name = models[0].partition(":")[2].strip()
    return {"processor": name, "cores": os.cpu_count(), "system": platform.system()}


def commit() -> str | None:
    """The commit of the checkout that this package lies in; None where there is none, or with changes in the code."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        tracked = git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "..")
        return git("rev-parse", "HEAD") if tracked and not changed else None
    except (OSError, subprocess.SubprocessError):
        return None


def _best_validation(run: Run) -> float | None:
    from transher.training.history import read_history

    values = [line["mrr"] for line in read_history(run.folder) if line["kind"] == "validation"]
    return max(values) if values else None


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _dump(value: Any, depth: int = 0) -> str:
    """JSON with a line per relation and not one per figure."""
    if not isinstance(value, dict) or depth == _INLINE_FROM or not value:
        return json.dumps(value, ensure_ascii=False)
    space = "  " * depth
    lines = [f"{space}  {json.dumps(key, ensure_ascii=False)}: {_dump(part, depth + 1)}" for key, part in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{space}}}"
