"""The commands of research: reproduce the paper's tables, analyze runs, search for a recipe. As in `cli`, heavy modules
are imported where they are needed."""

from __future__ import annotations

from pathlib import Path

import click

from transher.errors import UsageError

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables for people.")
_threads = click.option("--threads", type=click.IntRange(min=1), help="How many cores to use; all by default.")


@click.command()
@click.argument("benchmark", required=False)
@click.option("--model", "models", multiple=True, help="Only this model; may be given several times.")
@click.option("--table", "tables", multiple=True, type=click.Choice(["results", "types", "init", "ablations"]),
              help="What to train for; the results by default.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Trainings of each main model.")
@click.option("--quick", is_flag=True, help="A few steps of a tiny model, to try the whole path.")
@click.option("--runs", "runs_folder", type=click.Path(path_type=Path), default=Path("runs/reproduce"),
              show_default=True, help="Folder for the runs.")  # fmt: skip
@click.option("--results", "results_folder", type=click.Path(path_type=Path),
              help="Folder for the results: results, or beside the runs with --quick.")  # fmt: skip
@click.option("--render", is_flag=True, help="Train nothing: only rewrite the tables in README and docs.")
@_threads
@_as_json
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
    """Train what the paper's tables need and is missing, record it, and rewrite the tables.

    Interrupted, it goes on when it is called again. Without --quick, results are written to results/, and the tables
    in README.md and docs/results.md are rendered from them.
    """
    from transher.analysis import experiments
    from transher.analysis.tables import rewrite
    from transher.command_line import print_json, use_threads
    from transher.display import TrainingDisplay, note

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

    def started(experiment: experiments.Experiment, state: str) -> None:
        words = {"start": "training", "go on": "going on with its training", "done": "is there"}
        note(f"{wanted.index(experiment) + 1}/{len(wanted)} {experiment.name}: {words[state]}")

    with TrainingDisplay() as display:
        written = bring_about(wanted, runs_folder, target, watcher=display, started=started)
    if as_json:
        print_json({"results": [str(path) for path in written]})
    else:
        _print_tables(benchmark, tables or ("results",), target)
    if not quick:
        _tell_rewritten(rewrite(Path.cwd(), target))


def _print_tables(benchmark: str, tables: tuple[str, ...], results_folder: Path) -> None:
    from transher.analysis.results import read_results
    from transher.analysis.tables import render

    results = read_results(results_folder)
    for table in tables:
        click.echo(render(f"{table}-{benchmark}", results))


def _tell_rewritten(paths: list[Path]) -> None:
    from transher.display import note

    for path in paths:
        note(f"rewrote the tables of {path}")
    if not paths:
        note("the tables are as the results say")


COMMANDS = (reproduce,)
