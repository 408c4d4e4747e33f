"""What the commands share: errors as exit codes, common options, loading a run, printing JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from errno import ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transher.errors import Interrupted, TransherError, UsageError
from transher.visible import shown, shown_json, shown_lines

if TYPE_CHECKING:
    from transher.graph import Graph
    from transher.graph.options import ReadingOptions
    from transher.runs.run import Run
    from transher.training.recipe import Recipe
    from transher.training.rule_recipe import AnyRecipe


class Failure(click.ClickException):
    """An error of the package as click tells it: exit code 2 for usage, 130 for a training that was asked to stop, and
    1 for all else."""

    def __init__(self, error: TransherError) -> None:
        super().__init__(shown_lines(str(error)))
        self.code = 130 if isinstance(error, Interrupted) else 2 if isinstance(error, UsageError) else 1

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.format_message()}", file=file, err=file is None)

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.code


class Commands(click.Group):
    """Turns the package's errors into a line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TransherError as error:
            raise Failure(error) from error
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            remedy = " What was saved before is whole: free some space and resume." if error.errno == ENOSPC else ""
            where = f"{shown(str(error.filename))}: " if error.filename else ""
            raise click.ClickException(f"{where}{shown(error.strerror or str(error))}.{remedy}") from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library in Rust is no `Exception`
            if os.environ.get("TRANSHER_DEBUG") == "1":
                raise
            raise click.ClickException(_unforeseen(error)) from error


# What torch says when it cannot have the memory that it asks for: a RuntimeError.
_NO_MEMORY = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed", "out of memory")


def _unforeseen(error: BaseException) -> str:
    """One line for what no other part of the package has foreseen."""
    told = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(said in told for said in _NO_MEMORY):
        return "there is not enough memory for this: take a smaller model (model.k) or batch, or a larger machine."
    if isinstance(error, RecursionError):
        return "something that was given is nested too deeply to be read."
    said = f"{type(error).__name__}: {told}" if told else type(error).__name__
    return f"transher failed and should not have: {shown(said)[:500]}. TRANSHER_DEBUG=1 shows where; please report it."


TABLE_OPTIONS = (
    click.option("--columns", metavar="HEAD,RELATION,TAIL[,WEIGHT]", help="Columns of a table, by name or from 0."),
    click.option("--header", type=click.Choice(["auto", "yes", "no"]), help="Whether a table has a header line."),
    click.option("--format", "format", metavar="FORMAT", help="tsv, csv, jsonl, parquet, nt, nq, ttl, trig or rdf."),
    click.option("--delimiter", metavar="CHARACTER", help="Column separator of a table, such as ';' or tab."),
    click.option("--encoding", help="Encoding of a text file; utf-8 by default."),
    click.option("--skip-bad-rows", is_flag=True, default=None, help="Leave out rows that cannot be read."),
)
GRAPH_OPTIONS = (
    click.option("--unseen", type=click.Choice(["keep", "drop"]), help="Test triples whose entities training lacks."),
    click.option(
        "--literals", type=click.Choice(["keep", "drop"]), help="Whether to keep the literals of an RDF file."
    ),
    click.option("--entity-names", metavar="FILE", help="File with an identifier, a name and a description per line."),
    click.option("--relation-names", metavar="FILE", help="The same for relations."),
)


RECIPE_OPTIONS = (
    click.option("--model", help="Name of the model. By default train compares some, and search takes TranSHER."),
    click.option("--recipe", "recipe_name", help="A shipped recipe's name, or a TOML file."),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="One setting, such as training.steps=20000; `transher settings` lists them.",
    ),
    click.option("--seed", type=click.IntRange(min=0), help="Seed of everything random."),
)


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a graph of one's own may need to be read; benchmarks need none of it."""
    return _with((*TABLE_OPTIONS, *GRAPH_OPTIONS), command)


def table_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """What a file of triples may need to be read."""
    return _with(TABLE_OPTIONS, command)


def recipe_options(command: Callable[..., None]) -> Callable[..., None]:
    """What `choose_recipe` takes."""
    return _with(RECIPE_OPTIONS, command)


def _with(options: Sequence[Callable[..., Any]], command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


def out_option(help: str) -> Callable[..., Any]:
    """Where a command writes."""
    return click.option("--out", required=True, type=click.Path(path_type=Path), help=help)


overwrite_option = click.option("--overwrite", is_flag=True, help="Replace the file if it is there already.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables for people.")
run_argument = click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path))
split_option = click.option(
    "--split",
    type=click.Choice(["test", "valid", "train"]),
    default="test",
    show_default=True,
    help="Which triples are ranked.",
)


def _use_device(context: click.Context, option: click.Parameter, name: Any) -> None:
    if name is not None:
        from transher import devices

        devices.use(name)


MACHINE_OPTIONS = (
    click.option("--threads", type=click.IntRange(min=1), help="How many cores to use; all by default."),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda", "mps"]),
        expose_value=False,
        callback=_use_device,
        help="What computes; by default the recipe decides, which takes a GPU if there is one.",
    ),
)


def threads_option(command: Callable[..., None]) -> Callable[..., None]:
    """What of the machine a command uses: its threads, as an argument, and its device, for all that it does."""
    return _with(MACHINE_OPTIONS, command)


missing_share_option = click.option(
    "--missing-share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of all true facts that the graph lacks; by default as many as were held out for validation.",
)

implied_by_option = click.option(
    "--implied-by",
    multiple=True,
    metavar="RELATION",
    help="A relation such as 'is a' or 'part of': leave out what follows from known facts along it; may be given many "
    "times.",
)


def load_run(folder: Path) -> Run:
    from transher.answering.storage import JUDGE_FILE
    from transher.cli.display import note
    from transher.runs.run import load

    run = load(folder)
    if run.device.type != "cpu":
        note(f"Scores are computed on {run.device}.")
    if len(run.graph.valid) and not (folder / JUDGE_FILE).is_file():
        note("This run has no probabilities yet: they are fitted now, which may take a minute.")
    if run.manifest is None:
        note(
            f"{folder} is not finished: these are its best weights so far. "
            f"Resume with: transher train --out {folder} --resume"
        )
    return run


def open_graph(name: str, reading: dict[str, Any]) -> Graph:
    """The graph that an argument names, with `reading` options for one of the user's own."""
    from transher.cli.display import note
    from transher.cli.progress import download_bar
    from transher.graph import load_graph

    with download_bar() as update:
        graph = load_graph(name, progress=update, **_given(reading))
    for line in graph.load_report.lines() if graph.load_report else ():
        note(line)
    return graph


def table_options(reading: dict[str, Any]) -> ReadingOptions:
    """The options of `table_reading_options` as the readers take them."""
    from transher.graph.options import ReadingOptions

    return ReadingOptions(literals="keep", **_given(reading))


def _given(reading: dict[str, Any]) -> dict[str, Any]:
    """Those reading options that were given."""
    given = {key: value for key, value in reading.items() if value is not None}
    if "columns" in given:
        parts = [part.strip() for part in given["columns"].split(",")]
        given["columns"] = [int(part) for part in parts] if all(part.isdecimal() for part in parts) else parts
    return given


def choose_recipe(
    graph: Graph, model: str | None, recipe_name: str | None, settings: tuple[str, ...], seed: int | None
) -> tuple[Recipe, str]:
    """The recipe of a training that the flags ask for, and a sentence on where it comes from."""
    from transher.training.defaults import default_recipe
    from transher.training.recipe import Recipe

    if recipe_name is not None:
        if model is not None:
            settings = (f"model.name={model}", *settings)
        recipe, reason = Recipe.load(recipe_name), f"Recipe {recipe_name}:"
    else:
        recipe = default_recipe(graph, model or "transher")
        reason = (
            f"Settings for {graph.name}, chosen from its size ({len(graph.entities):,} entities, "
            f"{len(graph.train):,} training triples); change any with --set:"
        )
    if seed is not None:
        settings = (*settings, f"training.seed={seed}")
    return recipe.with_settings(settings), reason


def choose_any_recipe(
    graph: Graph,
    model: str | None,
    recipe_name: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    minutes: float | None,
    *,
    alone: bool,
) -> tuple[AnyRecipe, str]:
    """As `choose_recipe`, of rules too, and of choices where one process is `alone`."""
    from transher.runs.arguments import recipe_from
    from transher.training.blend_recipe import BlendRecipe
    from transher.training.choice_recipe import ChoiceRecipe
    from transher.training.rule_recipe import RuleRecipe, load_recipe

    given = None if recipe_name is None else load_recipe(recipe_name)
    if isinstance(given, BlendRecipe):
        raise UsageError(
            f"{recipe_name} is of a blend, which is made of finished runs: transher blend RUN RUN --out NEW."
        )
    chosen = recipe_from(graph, model, (), given, minutes, alone=alone) if given or not settings else None
    if isinstance(chosen, ChoiceRecipe):
        seeded = settings if seed is None else (*settings, f"choice.seed={seed}")
        return chosen.with_settings(seeded), (
            f"Choosing models for {graph.name} ({len(graph.entities):,} entities, {len(graph.train):,} training "
            "triples) by validation triples. --minutes gives it more time, --model trains one model."
        )
    if isinstance(chosen, RuleRecipe):
        seeded = settings if seed is None else (*settings, f"mining.seed={seed}")
        return chosen.with_settings(seeded), "Mining of rules; change any of these with --set:"
    return choose_recipe(graph, model, recipe_name, settings, seed)


def use_threads(count: int | None) -> None:
    if count is not None:
        import pyarrow
        import torch

        torch.set_num_threads(count)
        pyarrow.set_cpu_count(count)


def refuse_run_folder(folder: Path, what: str) -> None:
    from transher.runs.folder import RECIPE_FILE

    if (folder / RECIPE_FILE).is_file():
        raise UsageError(f"{folder} holds a run: name another folder for {what}.")


def require(module: str, extra: str, what: str) -> None:
    """Refuse what needs a package that is not installed."""
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise UsageError(f"{what} needs {module}, which is not installed: pip install 'transher[{extra}]'")


def print_json(value: Any) -> None:
    click.echo(as_json_text(value, indent=2))


def as_json_text(value: Any, indent: int | None = None) -> str:
    return shown_json(json.dumps(value, indent=indent, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    """NumPy's numbers as JSON has them."""
    return value.item() if hasattr(value, "item") else str(value)
