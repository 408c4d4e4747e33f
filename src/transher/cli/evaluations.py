"""The commands that measure runs: evaluate, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transher.cli.options import as_json, load_run, print_json, run_argument, split_option, threads_option, use_threads


@click.command()
@run_argument
@split_option
@click.option(
    "--by", type=click.Choice(["side", "type", "relation"]), help="Also print metrics by side, type or relation."
)
@click.option("--calibration", is_flag=True, help="Evaluate the calibration of the probabilities instead of the ranks.")
@threads_option
@as_json
def evaluate(
    run_folder: Path, split: Any, by: str | None, calibration: bool, threads: int | None, as_json: bool
) -> None:
    """Rank the triples of a split among all entities (or among supplied candidates) and print the metrics."""
    from transher.cli.display import print_calibration, print_evaluation
    from transher.cli.progress import progress_bar

    use_threads(threads)
    run = load_run(run_folder)
    if calibration:
        report = run.calibration_report(split)
        if as_json:
            print_json(report.to_dict())
        else:
            print_calibration(report)
        return
    with progress_bar("ranking") as update:
        evaluation = run.evaluate(split, progress=update).to_dict()
    if as_json:
        print_json(evaluation)
    else:
        print_evaluation(f"{run.graph.name}, {split}, {evaluation['protocol']}", evaluation, by)


@click.command()
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B", type=click.Path(path_type=Path))
@split_option
@threads_option
@as_json
def compare(first: Path, second: Path, split: Any, threads: int | None, as_json: bool) -> None:
    """Test whether one run ranks the same queries better than another: paired bootstrap and Wilcoxon."""
    from transher.cli.display import print_comparison
    from transher.cli.progress import progress_bar
    from transher.runs.compare import compare as compare_runs

    use_threads(threads)
    runs = load_run(first), load_run(second)
    with progress_bar("ranking") as update:
        comparison = compare_runs(*runs, split, progress=update)
    if as_json:
        print_json({"first": str(first), "second": str(second), "split": split, **comparison.to_dict()})
    else:
        print_comparison(str(first), str(second), comparison)


COMMANDS = (evaluate, compare)
