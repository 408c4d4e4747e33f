"""The commands of research: reproduce the paper's tables, analyze runs, search for a recipe. As in `cli`, heavy modules
are imported where they are needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transher.cli.options import (
    as_json,
    choose_recipe,
    load_run,
    open_graph,
    print_json,
    reading_options,
    threads_option,
    use_threads,
)
from transher.errors import UsageError


@click.command()
@click.argument("benchmark", required=False)
@click.option(
    "--model", "models", multiple=True, help="Only this one of the models of results and types; may be repeated."
)
@click.option("--table", "tables", multiple=True,
              type=click.Choice(["results", "types", "significance", "joined", "init", "ablations"]),
              help="What to train for; the results by default.")  # fmt: skip
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Trainings of each main model; at least 3 for significance.",
)
@click.option("--quick", is_flag=True, help="A few steps of a tiny model, to try the whole path.")
@click.option("--runs", "runs_folder", type=click.Path(path_type=Path), default=Path("runs/reproduce"),
              show_default=True, help="Folder for the runs.")  # fmt: skip
@click.option("--results", "results_folder", type=click.Path(path_type=Path),
              help="Folder for the results: results, or beside the runs with --quick.")  # fmt: skip
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
    """Train what the paper's tables need and is missing, record it, and rewrite the tables.

    Interrupted, it goes on when it is called again. Without --quick or --results, results are written to results/, and
    the tables in README.md and docs/results.md are rendered from them.
    """
    from transher.analysis import experiments
    from transher.analysis.tables import rewrite
    from transher.cli.display import TrainingDisplay, note

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
        words = {
            "start": "joining" if experiment.members else "training",
            "go on": "going on with its training",
            "done": "is there",
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
        note("there is no table to rewrite in README.md and docs/results.md, or all are as the results say")


@click.command()
@click.argument("run_folders", metavar="RUN [RUN]...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("report"), show_default=True,
              help="Folder for the page and its pictures.")  # fmt: skip
@threads_option
@as_json
def analyze(run_folders: tuple[Path, ...], out: Path, threads: int | None, as_json: bool) -> None:
    """Make a report of runs on one graph: a page that opens offline, and each picture as PNG and SVG."""
    from transher.cli.display import note, progress_bar

    _require("matplotlib", "report", "a report")
    from transher.analysis.report import write_report

    use_threads(threads)
    _refuse_run_folder(out, "a report")
    runs = [load_run(folder) for folder in run_folders]
    with progress_bar("analysing") as update:
        page, pictures = write_report(runs, out, progress=update)
    if as_json:
        print_json({"page": str(page), "pictures": pictures})
    else:
        note(f"The report is {page}; beside it, {len(pictures)} pictures as PNG and SVG.")


@click.command()
@click.argument("graph_name", metavar="GRAPH")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the search; goes on with one.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after so long.")
@click.option("--trials", type=click.IntRange(min=1), help="Stop after so many more trials.")
@click.option("--model", help="Name of the model; TranSHER by default.")
@click.option("--recipe", "recipe_name", help="Recipe to start from: a shipped one's name, or a TOML file.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="One fixed setting, as training.steps=5000."
)
@click.option("--space", "ranges", multiple=True, metavar="KEY=a,b,c|lo:hi|log:lo:hi",
              help="What to search; start, γ, λ and learning rate by default.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the trainings and of the search.")
@reading_options
@threads_option
@as_json
def search(
    graph_name: str,
    out: Path,
    minutes: float | None,
    trials: int | None,
    model: str | None,
    recipe_name: str | None,
    settings: tuple[str, ...],
    ranges: tuple[str, ...],
    seed: int | None,
    threads: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Search for the recipe with the best validation MRR; test triples are not looked at.

    The same command goes on with a search that was stopped. The best recipe so far is in OUT/best.toml.
    """
    from transher.cli.display import SearchDisplay, note, print_recipe, print_table

    _require("optuna", "search", "a search")
    from transher.runs import search as searching

    use_threads(threads)
    _refuse_run_folder(out, "a search")
    graph = open_graph(graph_name, reading)
    base, reason = choose_recipe(graph, model, recipe_name, settings, seed)
    space = [searching.Range.parse(text, base) for text in ranges or searching.default_space(base)]
    print_recipe(base, reason)
    with SearchDisplay(minutes) as display:
        found = searching.search(graph, out, base=base, space=space, trials=trials, minutes=minutes, watcher=display)
    if as_json:
        print_json(found.to_dict())
        return
    rows = []
    for part in space:
        value, importance = part.value_in(found.recipe), found.importance.get(part.key)
        rows.append((part.key, str(value) if isinstance(value, str) else f"{value:.4g}",
                     "" if importance is None else f"{importance:.0%}"))  # fmt: skip
    print_table(
        f"Best of {found.finished} finished and {found.pruned} pruned trials: validation MRR {found.mrr:.4f}",
        ["setting", "best", "importance"],
        rows,
    )
    note(f"Train it: transher train {graph_name} --recipe {out / searching.BEST_FILE} --out RUN")


def _refuse_run_folder(folder: Path, what: str) -> None:
    from transher.runs.run import RECIPE_FILE

    if (folder / RECIPE_FILE).is_file():
        raise UsageError(f"{folder} holds a run, and {what} would be strewn among its files: name another folder.")


def _require(module: str, extra: str, what: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UsageError(
            f"{what} needs {module}, which is not installed: pip install '.[{extra}]' in the project's folder."
        )


COMMANDS = (reproduce, analyze, search)
