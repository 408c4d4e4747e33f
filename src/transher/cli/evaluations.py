"""The commands that measure runs: evaluate, compare, backtest, calibrate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transher.cli.options import (
    as_json,
    implied_by_option,
    load_run,
    print_json,
    run_argument,
    split_option,
    threads_option,
    use_threads,
)
from transher.errors import InputError, UsageError


@click.command()
@run_argument
@split_option
@click.option(
    "--by", type=click.Choice(["side", "type", "relation"]), help="Also print metrics by side, type or relation."
)
@click.option("--calibration", is_flag=True, help="Try the probabilities on the test triples instead of ranking them.")
@threads_option
@as_json
def evaluate(
    run_folder: Path, split: Any, by: str | None, calibration: bool, threads: int | None, as_json: bool
) -> None:
    """Rank the triples of a split and print the metrics.

    Each answer is ranked among all entities or, where a benchmark supplies them, among its candidates.
    """
    from transher.cli.display import print_calibration, print_evaluation
    from transher.cli.progress import progress_bar

    use_threads(threads)
    run = load_run(run_folder)
    if calibration:
        if split != "test":
            raise UsageError("probabilities are fitted on valid and tried on test: leave out --split.")
        with progress_bar("completing", "of all pairs") as update:
            report = run.calibration_report(update)
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
    """Test whether one run ranks better than another.

    Both rank the same queries: paired bootstrap, and Wilcoxon's signed-rank test.
    """
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


later_argument = click.argument("later_facts", metavar="LATER_FACTS")
about_option = click.option(
    "--about",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Entities whose later facts are all given, one per line; by default all entities.",
)


@click.command()
@run_argument
@later_argument
@about_option
@implied_by_option
@threads_option
@as_json
def backtest(
    run_folder: Path,
    later_facts: str,
    about: Path | None,
    implied_by: tuple[str, ...],
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare what a run predicted with facts that came later.

    Prints how many of the best 100, 1,000 and 10,000 predictions came true, against popularity and chance; the ranks of
    the later facts; and whether probabilities were in proportion.
    """
    from transher.cli.display import print_backtest
    from transher.cli.progress import progress_bar

    use_threads(threads)
    run = load_run(run_folder)
    with progress_bar("completing", "of all pairs") as update:
        report = run.backtest(later_facts, about=_lines(about), implied_by=implied_by, progress=update)
    if as_json:
        print_json(report.to_dict())
    else:
        print_backtest(report)


@click.command()
@run_argument
@click.option("--later", metavar="FACTS", help="Facts that were added since; by default the validation triples.")
@about_option
@implied_by_option
@threads_option
@as_json
def calibrate(
    run_folder: Path,
    later: str | None,
    about: Path | None,
    implied_by: tuple[str, ...],
    threads: int | None,
    as_json: bool,
) -> None:
    """Fit the probabilities of a run anew.

    With facts that were added to the graph since, a probability says how likely a fact is to be added next. Facts that
    are added later are not drawn at random, as validation triples are, so this is the better judge of what is missing.
    """
    from transher.cli.display import note
    from transher.cli.progress import TrainingDisplay

    use_threads(threads)
    run = load_run(run_folder)
    with TrainingDisplay() as display:
        judge = run.calibrate(later, about=_lines(about), implied_by=implied_by, watcher=display).judge
    assert judge is not None  # it was fitted just now
    if as_json:
        print_json({"run": str(run_folder), "hidden": judge.verdicts.hidden, "later": judge.verdicts.later})
        return
    note(f"The probabilities of {run_folder} are fitted anew. Try them: transher evaluate {run_folder} --calibration")


def _lines(path: Path | None) -> list[str] | None:
    """The names in a file, one per line; None without a file."""
    if path is None:
        return None
    try:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({error}).", file=path, remedy="Give a text file in UTF-8.") from None


COMMANDS = (evaluate, compare, backtest, calibrate)
