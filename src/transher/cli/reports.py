"""The commands that report on runs: reproduce the paper's tables, analyze runs."""

from __future__ import annotations

from pathlib import Path

import click

from transher.cli.options import (
    as_json,
    load_run,
    print_json,
    refuse_run_folder,
    require,
    threads_option,
    use_threads,
)
from transher.errors import UsageError

_PAGE_START = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>'  # as `html_page` starts one


@click.command()
@click.argument("benchmark", required=False)
@click.option(
    "--model", "models", multiple=True, help="Train only this model, for the tables results and types; may be repeated."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=click.Choice(["results", "types", "significance", "joined", "init", "ablations"]),
    help="Table to train for; results by default.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Seeds per model of the main tables; at least 3 for significance.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="A small experiment: short trainings, a minute or two for all models.",
)
@click.option(
    "--runs",
    "runs_folder",
    type=click.Path(path_type=Path),
    default=Path("runs/reproduce"),
    show_default=True,
    help="Folder for the runs.",
)
@click.option(
    "--results",
    "results_folder",
    type=click.Path(path_type=Path),
    help="Folder for the results: results, or beside the runs with --quick.",
)
@click.option("--render", is_flag=True, help="Train nothing: only rewrite the tables in README and docs.")
@threads_option
@as_json
def reproduce(
    benchmark: str | None,
    models: tuple[str, ...],
    tables: tuple[str, ...],
    seeds: int,
    quick: bool,
    runs_folder: Path,
    results_folder: Path | None,
    render: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Train what the paper's tables need, and rewrite the tables.

    Finished runs are not trained again, and interrupted ones are resumed. Without --quick or --results, results are
    written to results/, and the tables in README.md and docs/results.md are rendered from them.
    """
    from transher.analysis import experiments
    from transher.analysis.tables import rewrite
    from transher.cli.display import note
    from transher.cli.progress import TrainingDisplay

    if render:
        _tell_rewritten(rewrite(Path.cwd(), results_folder or Path("results")))
        return
    if benchmark is None:
        raise UsageError(f"name a benchmark: {', '.join(experiments.BENCHMARKS)}.")
    wanted = experiments.experiments(benchmark, models=models, tables=tables, seeds=seeds, quick=quick)
    from transher.analysis.reproduce import reproduce as bring_about

    use_threads(threads)
    if quick:
        runs_folder = runs_folder / "quick"
    target = results_folder or (runs_folder / "results" if quick else Path("results"))

    if quick:
        note(f"A small experiment on {benchmark}: {experiments.quick_in_words()}")

    def started(experiment: experiments.Experiment, state: str) -> None:
        words = {
            "start": "joining" if experiment.members else "training",
            "resume": "resuming its training",
            "done": "finished before",
        }
        note(f"{wanted.index(experiment) + 1}/{len(wanted)} {experiment.name}: {words[state]}")

    with TrainingDisplay() as display:
        written = bring_about(wanted, runs_folder, target, watcher=display, started=started)
    if as_json:
        print_json({"results": [str(path) for path in written]})
    else:
        _print_tables(benchmark, tables or ("results",), target, quick)
    if target.resolve() == Path("results").resolve():  # results elsewhere are not all that the tables are made of
        _tell_rewritten(rewrite(Path.cwd(), target))


def _print_tables(benchmark: str, tables: tuple[str, ...], results_folder: Path, quick: bool) -> None:
    from transher.analysis.results import read_results
    from transher.analysis.tables import render

    results = read_results(results_folder)
    for table in tables:
        click.echo(render(f"{table}-{benchmark}", results, quick))


def _tell_rewritten(paths: list[Path]) -> None:
    from transher.cli.display import note

    for path in paths:
        note(f"rewrote the tables of {path}")
    if not paths:
        note("the tables in README.md and docs/results.md are up to date, or there are none")


@click.command()
@click.argument("run_folders", metavar="RUN [RUN]...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("report"),
    show_default=True,
    help="Folder for the page and its pictures; new, empty, or with an earlier report, which is replaced.",
)
@threads_option
@as_json
def analyze(run_folders: tuple[Path, ...], out: Path, threads: int | None, as_json: bool) -> None:
    """Write a report on runs of one graph.

    It is one page that opens offline. Each picture is written as PNG and SVG, too.
    """
    from transher.cli.display import note
    from transher.cli.progress import progress_bar

    require("matplotlib", "report", "a report")
    from transher.analysis.report import write_report

    use_threads(threads)
    refuse_run_folder(out, "a report")
    _refuse_other_files(out)
    runs = [load_run(folder) for folder in run_folders]
    with progress_bar("analysing") as update:
        page, pictures = write_report(runs, out, progress=update)
    if as_json:
        print_json({"page": str(page), "pictures": pictures})
    else:
        note(f"The report is {page}; beside it, {len(pictures)} pictures as PNG and SVG.")


def _refuse_other_files(folder: Path) -> None:
    """A report replaces an earlier one, and nothing else."""
    from transher.analysis.report import PAGE

    if not folder.is_dir():
        return
    page = folder / PAGE
    is_report = page.is_file() and page.read_text("utf-8", "replace").startswith(_PAGE_START)
    if page.exists() and not is_report:
        raise UsageError(f"{page} is there, and is no report of this command: name another folder with --out.")
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if others and not is_report:
        raise UsageError(
            f"{folder} has files, such as {others[0]}, and no report: empty it, or name a new folder with --out."
        )


COMMANDS = (reproduce, analyze)
