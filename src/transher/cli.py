"""The command line: one thin function per command. Heavy modules are imported where they are needed, so that
`transher --help` answers at once."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transher.errors import TransherError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from transher.run import Run
    from transher.training.recipe import Recipe


class Commands(click.Group):
    """Turns the package's errors into a line on standard error: exit code 2 for usage, 1 for what went wrong, 130 for
    a training that was asked to stop."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TransherError as error:
            failure = click.ClickException(str(error))
            stopped = type(error).__name__ == "Interrupted"
            failure.exit_code = 130 if stopped else 2 if isinstance(error, UsageError) else 1
            raise failure from error
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise click.ClickException(f"{error.filename or 'the system says'}: {error.strerror or error}") from error


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables for people.")
run_argument = click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path))
threads_option = click.option("--threads", type=click.IntRange(min=1), help="How many cores to use; all by default.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="transher")
def main() -> None:
    """Find the missing facts of a knowledge graph.

    GRAPH is the name of a benchmark (see `transher datasets`), or the path of a file or folder of triples.
    RUN is the folder that a training leaves.
    """


@main.command()
@as_json
def datasets(as_json: bool) -> None:
    """List the named benchmarks, their sizes, and where each is."""
    from transher.display import print_table
    from transher.graph import list_benchmarks

    rows = list_benchmarks()
    if as_json:
        return _print_json(rows)
    columns = ["name", "entities", "relations", "train", "valid", "test", "where"]
    return print_table("", columns, ([row[column] for column in columns] for row in rows))


@main.command()
@click.argument("graph_name", metavar="GRAPH")
@as_json
def stats(graph_name: str, as_json: bool) -> None:
    """Show what a graph is made of: sizes, degrees, relation types and patterns, duplicates, leakage."""
    from transher.display import note
    from transher.graph import graph_statistics

    graph = _load_graph(graph_name)
    statistics = graph_statistics(graph)
    if as_json:
        return _print_json(statistics.to_dict())
    return note(str(statistics))


@main.command()
@click.argument("graph_name", metavar="GRAPH")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the run; new or empty.")
@click.option("--model", help="Name of the model; TranSHER by default.")
@click.option("--recipe", "recipe_name", help="A shipped recipe's name, or a TOML file.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, as training.steps=20000.")
@click.option("--resume", is_flag=True, help="Go on with the training that was stopped in this folder.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of everything random.")
@threads_option
@as_json
def train(
    graph_name: str,
    out: Path,
    model: str | None,
    recipe_name: str | None,
    settings: tuple[str, ...],
    resume: bool,
    seed: int | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Train a model on a graph and leave a run folder.

    With no recipe, the settings are chosen from the graph's size and printed. Ctrl-C saves; --resume goes on.
    """
    from transher import run as runs
    from transher.display import TrainingDisplay, note, print_metrics, print_recipe
    from transher.graph import load_graph

    _use_threads(threads)
    if resume:
        if model or recipe_name or settings or seed is not None:
            raise UsageError("a training that goes on keeps its recipe: give --resume without --model, --recipe, --set, --seed.")
        graph = recipe = None
    else:
        graph = _load_graph(graph_name)
        recipe, reason = _choose_recipe(graph, model, recipe_name, settings, seed)
        print_recipe(recipe, reason)
    with TrainingDisplay() as display:
        run = runs.train(graph, out, recipe=recipe, resume=resume, watcher=display)
    evaluation = run.saved_evaluation()
    if as_json:
        return _print_json({"run": str(out), "manifest": run.manifest, "evaluation": evaluation})
    ...


def _choose_recipe() -> None: ...
