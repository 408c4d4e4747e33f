"""The command line: one thin function per command. Heavy modules are imported where they are needed, so that
`transher --help` answers at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transher.cli import answers, research, serving
from transher.cli.options import (
    Commands,
    as_json,
    base_rate_option,
    choose_recipe,
    load_run,
    open_graph,
    print_json,
    reading_options,
    run_argument,
    threads_option,
    use_threads,
)
from transher.errors import UsageError

if TYPE_CHECKING:
    from transher.evaluation import Ranks
    from transher.runs.run import Run


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from transher.versions import version_of

        click.echo(f"transher {version_of('transher')}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Find the missing facts of a knowledge graph.

    GRAPH is the name of a benchmark (see `transher datasets`), or the path of a file or folder of triples.
    RUN is the folder that a training leaves.
    """


@main.command()
@as_json
def datasets(as_json: bool) -> None:
    """List the named benchmarks, their sizes, and where each is."""
    from transher.cli.display import print_table
    from transher.graph import list_benchmarks

    listings = list_benchmarks()
    if as_json:
        print_json([listing.to_dict() for listing in listings])
        return
    columns = ["name", "entities", "relations", "train", "valid", "test", "where"]
    print_table("", columns, ([listing.to_dict()[column] for column in columns] for listing in listings))


@main.command()
@click.argument("graph_name", metavar="GRAPH")
@reading_options
@as_json
def stats(graph_name: str, as_json: bool, **reading: Any) -> None:
    """Show what a graph is made of: sizes, degrees, relation types and patterns, duplicates, leakage."""
    from transher.cli.display import print_statistics
    from transher.graph import graph_statistics

    statistics = graph_statistics(open_graph(graph_name, reading))
    if as_json:
        print_json(statistics.to_dict())
    else:
        print_statistics(statistics)


@main.command()
@click.argument("graph_name", metavar="GRAPH", required=False)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the run; new or empty.")
@click.option("--model", help="Name of the model; TranSHER by default.")
@click.option("--recipe", "recipe_name", help="A shipped recipe's name, or a TOML file.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting, as training.steps=20000.")
@click.option("--resume", is_flag=True, help="Go on with the training that was stopped in this folder.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of everything random.")
@reading_options
@threads_option
@as_json
def train(
    graph_name: str | None,
    out: Path,
    model: str | None,
    recipe_name: str | None,
    settings: tuple[str, ...],
    resume: bool,
    seed: int | None,
    threads: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Train a model on a graph and leave a run folder.

    With no recipe, the settings are chosen from the graph's size and printed. Ctrl-C saves; --resume goes on, with the
    graph and the recipe that lie in the folder.
    """
    from transher.cli.display import TrainingDisplay, print_recipe
    from transher.runs import run as runs

    use_threads(threads)
    with TrainingDisplay() as display:
        if resume:
            if model or recipe_name or settings or seed is not None:
                raise UsageError(
                    "a training that goes on keeps its recipe: leave --model, --recipe, --set, --seed out."
                )
            if graph_name is not None and not runs.began_with(out, open_graph(graph_name, reading)):
                raise UsageError(
                    f"{graph_name} is not the graph that the training in {out} began with: leave it out to go on."
                )
            run = runs.resume(out, watcher=display)
        else:
            if graph_name is None:
                raise UsageError(
                    f"there is nothing to train on: name a graph, as in `transher train world --out {out}`."
                )
            runs.refuse_to_overwrite(out)
            graph = open_graph(graph_name, reading)
            recipe, reason = choose_recipe(graph, model, recipe_name, settings, seed)
            print_recipe(recipe, reason)
            run = runs.train(graph, out, recipe=recipe, watcher=display)
    _tell_trained(run, out, as_json)


def _tell_trained(run: Run, out: Path, as_json: bool) -> None:
    from transher.cli.display import note

    if as_json:
        print_json({"run": str(out), "manifest": run.manifest, "evaluation": run.saved_evaluation()})
        return
    evaluation = run.saved_evaluation()
    if evaluation is not None:
        _show_metrics(f"{run.graph.name}, test, {evaluation['protocol']}", evaluation)
    note(f"The run is in {out}. Ask it: transher predict {out} --head … --relation …")


@main.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the joined run; new or empty.")
@threads_option
@as_json
def join(run_folders: tuple[Path, ...], out: Path, threads: int | None, as_json: bool) -> None:
    """Join finished runs of one model on one graph into one run, whose score is the mean of theirs.

    Trainings that differ in their seed or their start err in different places: the mean is usually better than each.
    """
    from transher.cli.display import note
    from transher.runs.joining import join as join_runs

    use_threads(threads)
    run = join_runs([load_run(folder) for folder in run_folders], out)
    _tell_trained(run, out, as_json)
    if not as_json:
        note(f"It has k = {run.recipe.model.k:,}, of {len(run_folders)} runs.")


@main.command()
@run_argument
@click.option("--split", type=click.Choice(["test", "valid", "train"]), default="test", show_default=True)
@click.option(
    "--by", type=click.Choice(["side", "type", "relation"]), help="Also apart: by side, relation type, relation."
)
@click.option("--calibration", is_flag=True, help="Judge the probabilities instead of the ranks.")
@threads_option
@as_json
def evaluate(
    run_folder: Path, split: Any, by: str | None, calibration: bool, threads: int | None, as_json: bool
) -> None:
    """Rank the triples of a split among all entities (or among supplied candidates) and print the metrics."""
    from transher.cli.display import print_calibration, progress_bar

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
        _show_metrics(f"{run.graph.name}, {split}, {evaluation['protocol']}", evaluation, by)


@main.command()
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B", type=click.Path(path_type=Path))
@click.option("--split", type=click.Choice(["test", "valid", "train"]), default="test", show_default=True)
@threads_option
@as_json
def compare(first: Path, second: Path, split: Any, threads: int | None, as_json: bool) -> None:
    """Test whether one run ranks the same queries better than another: paired bootstrap and Wilcoxon."""
    from transher.cli.display import print_comparison, progress_bar
    from transher.evaluation.significance import compare as compare_ranks

    use_threads(threads)

    def ranks_of(run: Run) -> Ranks:
        with progress_bar(f"ranking {run.folder}") as update:
            return run.evaluation(split, progress=update).ranks

    runs = [load_run(folder) for folder in (first, second)]
    graphs = [run.graph for run in runs]
    for kind in ("entities", "relations"):  # their ids would mean different things
        if not getattr(graphs[0], kind).identifiers.equals(getattr(graphs[1], kind).identifiers):
            raise UsageError(f"{second} was trained on another graph than {first}: its {kind} are others.")
    comparison = compare_ranks(ranks_of(runs[0]), ranks_of(runs[1]))
    if as_json:
        print_json({"first": str(first), "second": str(second), "split": split, **comparison.to_dict()})
    else:
        print_comparison(str(first), str(second), comparison)


@main.command()
@run_argument
@click.option("--head", help="Name or identifier of the head.")
@click.option("--relation", help="Name or identifier of the relation.")
@click.option("--tail", help="Name or identifier of the tail.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many answers.")
@click.option("--known", type=click.Choice(["hide", "mark"]), default="mark", show_default=True,
              help="What to do with answers that the graph has already.")  # fmt: skip
@click.option("--with", "facts_file", type=click.Path(path_type=Path), metavar="FACTS",
              help="Triples to take into account: entities that the run does not know are placed by them.")  # fmt: skip
@base_rate_option
@threads_option
@as_json
def predict(
    run_folder: Path,
    head: str | None,
    relation: str | None,
    tail: str | None,
    top: int,
    known: Any,
    facts_file: Path | None,
    base_rate: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Answer a query: give two of --head, --relation and --tail."""
    from transher.cli.display import note, print_answers

    if sum(part is not None for part in (head, relation, tail)) != 2:
        raise UsageError("give two of --head, --relation and --tail; the third is what is asked for.")
    use_threads(threads)
    run = load_run(run_folder)
    if facts_file is not None:
        from transher.graph import read_triples
        from transher.runs.update import with_facts

        known_entities = len(run.graph.entities)
        run = with_facts(run, read_triples(facts_file))
        placed = run.graph.entities.identifiers[known_entities:].to_pylist()
        note(f"Placed by the facts given: {', '.join(placed) or 'nothing, since the run knows all of their entities'}.")
    answers = run.predict(head=head, relation=relation, tail=tail, top=top, known=known, base_rate=base_rate)
    if as_json:
        print_json(answers.to_dict("records"))
    else:
        print_answers(answers, "tail" if tail is None else "head" if head is None else "relation")


@main.command()
@run_argument
@click.argument("triples_file", metavar="TRIPLES_FILE", type=click.Path(path_type=Path))
@base_rate_option
@threads_option
@as_json
def score(run_folder: Path, triples_file: Path, base_rate: float | None, threads: int | None, as_json: bool) -> None:
    """Score triples from a file, given in names or identifiers: tab-separated on standard output."""
    from transher.graph import read_triples

    use_threads(threads)
    scores = load_run(run_folder).score(read_triples(triples_file), base_rate)
    if as_json:
        print_json(scores.to_dict("records"))
    else:
        scores.to_csv(sys.stdout, sep="\t", index=False)


for module in (answers, serving, research):
    for command in module.COMMANDS:
        main.add_command(command)


def _show_metrics(title: str, evaluation: dict[str, Any], by: str | None = None) -> None:
    from transher.cli.display import print_metrics

    rows = {"both sides": evaluation["overall"]}
    match by:
        case "type":
            rows |= {
                f"{side} {kind}": metrics
                for side, types in evaluation["by_type"].items()
                for kind, metrics in types.items()
            }
        case "relation":
            rows |= evaluation["by_relation"]
        case _:
            rows |= evaluation["by_side"]
    print_metrics(title, rows)
