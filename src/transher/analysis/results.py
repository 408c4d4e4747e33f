"""Results: one JSON file per finished run, with all that a reader needs to check a figure or make it again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from transher.errors import InputError, UsageError
from transher.evaluation.significance import Comparison
from transher.files import write_text
from transher.models import build_model
from transher.models.model import Model
from transher.runs.run import Run, load
from transher.training.history import read_history
from transher.training.recipe import Recipe

KINDS = ("run", "comparison")
DIGITS = 6  # more is noise, and makes files differ from machine to machine
_OF_THEN = ("validation_mrr", "machine", "commit")  # known when a run is first recorded, and not made again
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
    evaluation = run.kept_metrics()
    if run.manifest is None or evaluation is None:
        raise UsageError(f"{run_folder} has no result to record: its training is not finished, or had no test triples.")
    (embeddings, recipe), cost = run.trained("a result of the paper's tables"), run.manifest["cost"]
    benchmark = benchmark or run.graph.name
    experiment = {"benchmark": benchmark, "model": recipe.model.name, "variant": variant, "seed": recipe.training.seed}
    result = {
        "kind": "run",
        "experiment": experiment,
        "metrics": {part: evaluation[part] for part in ("overall", "by_side", "by_type", "by_relation")},
        "protocol": evaluation["protocol"],
        "validation_mrr": None,
        "cost": {
            "training_seconds": cost["seconds"],
            "steps": cost["steps"],
            "best_step": cost["best_step"],
            "elements": _elements_in_all(run),
            "evaluation_seconds": evaluation["seconds"],
            "evaluation_elements": evaluation["overall"]["count"]
            * len(run.graph.entities)
            * embeddings.model.entity_width,
        },
        "recipe": recipe.model_dump(),
        **({"members": run.manifest["members"]} if "members" in run.manifest else {}),
        "versions": run.manifest["versions"],
        "machine": {},
        "graph_sha256": run.graph.sha256,
        "commit": None,
    }
    path = results_folder / f"{name or '_'.join(str(part) for part in experiment.values())}.json"
    result = _rounded(result)
    before = _recorded(path)
    if before and _is_of(before, result):
        result |= {part: before[part] for part in _OF_THEN}  # this very run: its machine and commit were those of then
    else:
        threads = run.manifest["machine"]["threads"]
        result |= _rounded({"validation_mrr": _validation(run), "machine": {**machine(), "threads": threads}})
        result["commit"] = commit()
    write_text(path, _dump(result) + "\n")
    return path


def _is_of(before: dict[str, Any], result: dict[str, Any]) -> bool:
    """Whether a file tells of this very run; an earlier version may have written its recipe."""
    parts = ("experiment", "metrics", "cost", "graph_sha256")
    same = all(before.get(part) == result[part] for part in parts)
    return same and Recipe.parse(before["recipe"]) == Recipe.parse(result["recipe"])


def _recorded(path: Path) -> dict[str, Any]:
    """What a file of results says; nothing if it is not there or damaged, for then it is written anew."""
    try:
        before = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return before if isinstance(before, dict) and before.keys() >= set(_OF_THEN) else {}


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
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            result = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            remedy = "It was cut short or changed: take it from version control, or remove it and reproduce it."
            raise InputError(f"is not JSON ({error}).", file=path, remedy=remedy) from None
        if isinstance(result, dict) and "experiment" in result and result.get("kind") in KINDS:
            found.append(result)
    return found


def _elements_in_all(run: Run) -> int:
    """Those of the training, or of every training that was joined."""
    assert run.manifest is not None
    joined = [(Recipe.parse(member["recipe"]), member["cost"]) for member in run.manifest.get("members", ())]
    trainings = joined or [(run.trained("a result")[1], run.manifest["cost"])]
    entities = len(run.graph.entities)
    return sum(elements(recipe, build_model(recipe.model), int(cost["steps"]), entities) for recipe, cost in trainings)


def elements(recipe: Recipe, model: Model, steps: int, entity_count: int) -> int:
    """How many |q − s∘e| or q·e a training computes: steps · positives · (negatives + 1) · width, twice, since the
    gradient passes over each again. With all entities as negatives it is an upper bound, since the positives of a
    query share them."""
    training = recipe.training
    negatives = entity_count if training.negatives == "all" else training.negatives
    return 2 * steps * training.batch * (negatives + 1) * model.entity_width


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


def _validation(run: Run) -> float | None:
    """The best MRR that the training saw; of all validation triples where there are supplied candidates, since that is
    what OGB's leaderboard has, and a training looks at a sample."""
    if "valid" in run.graph.candidates:
        return float(run.evaluate("valid").overall.mrr)
    values = [line["mrr"] for line in read_history(run.folder) if line["kind"] == "validation" and "mrr" in line]
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
