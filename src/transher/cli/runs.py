"""The commands that make something of graphs and runs: train, join, blend, update, export, search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transher.cli.options import (
    as_json,
    choose_any_recipe,
    choose_recipe,
    load_run,
    open_graph,
    out_option,
    print_json,
    reading_options,
    recipe_options,
    refuse_run_folder,
    require,
    run_argument,
    threads_option,
    use_threads,
)
from transher.errors import UsageError

if TYPE_CHECKING:
    from transher.runs.run import Run


@click.command()
@click.argument("graph_name", metavar="GRAPH", required=False)
@out_option("Folder for the run; new or empty.")
@click.option("--resume", is_flag=True, help="Resume the training or update that was stopped in this folder.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Time to compare and train models (by default, it depends on the size of the graph), or to mine rules.",
)
@click.option(
    "--later",
    metavar="FACTS",
    help="Facts that were added since, to fit probabilities on.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Processes on this machine that share the training of one model: transher, or --model.",
)
@click.option("--sharded", is_flag=True, help="Leave the weights in parts even where one file could hold them.")
@recipe_options
@reading_options
@threads_option
@as_json
def train(
    graph_name: str | None,
    out: Path,
    later: str | None,
    model: str | None,
    recipe_name: str | None,
    settings: tuple[str, ...],
    resume: bool,
    minutes: float | None,
    workers: int | None,
    sharded: bool,
    seed: int | None,
    threads: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Train on a graph and leave a run folder.

    Without a model and settings, models are tried on the graph for a part of the --minutes, the best of them are
    trained, rules are mined, and what helps is blended. Ctrl-C saves; --resume continues in the folder.

    With --model, one model is trained, with settings chosen from the graph; `transher settings` says what each means.
    The model `rules` is mined: logical rules that say why.

    With --workers, and on several machines, where torchrun starts the same command on each, one model is trained:
    transher, unless --model names another. A choice is for one process. See the docs, Beyond one machine.
    """
    from transher.cli.display import note, print_recipe
    from transher.cli.launching import begun, resume_with, shown_by_first
    from transher.runs.folder import refuse_to_overwrite
    from transher.runs.sharded import first_does
    from transher.runs.train import began_with, begin
    from transher.runs.train import resume as resume_run
    from transher.runs.train import train as train_run
    from transher.training.choice_recipe import ChoiceRecipe
    from transher.workers import joined, launched

    use_threads(threads)
    given = model or recipe_name or settings or seed is not None or minutes is not None or later
    chosen: dict[str, Any] = {}
    run: Run | None = None

    def choose() -> None:
        assert graph_name is not None
        refuse_to_overwrite(out)
        chosen["graph"] = open_graph(graph_name, reading)
        alone = workers is None and not launched()
        named = chosen["graph"], model, recipe_name, settings, seed, minutes
        recipe, reason = choose_any_recipe(*named, alone=alone)
        if isinstance(recipe, ChoiceRecipe):
            note(reason)
        else:
            print_recipe(recipe, reason)
        chosen["recipe"] = recipe

    with shown_by_first() as display:
        if begun(out):
            run = resume_run(out, watcher=display)
        elif resume:
            if given:
                raise UsageError(
                    "a training that is resumed keeps its recipe: leave out --model, --recipe, --set and so on."
                )
            if graph_name is not None and not began_with(out, open_graph(graph_name, reading)):
                raise UsageError(
                    f"{graph_name} is not the graph that the training in {out} began with: leave it out to resume."
                )
            run = resume_run(out, watcher=display) if workers is None else None
        else:
            if graph_name is None:
                raise UsageError(
                    f"there is nothing to train on: name a graph, as in `transher train world --out {out}`."
                )
            first_does(joined(), choose)
            graph, recipe = chosen.pop("graph", graph_name), chosen.pop("recipe", None)
            if workers is None:
                run = train_run(graph, out, recipe=recipe, later=later, sharded=sharded, watcher=display)
            else:
                begin(out, graph, recipe, later, workers=workers, sharded=sharded)
                del graph  # the workers need the memory
    if run is None:
        assert workers is not None
        resume_with(workers, out, threads, as_json)  # the first of them tells what came out
    else:
        _tell_trained(run, out, as_json)


def _tell_trained(run: Run, out: Path, as_json: bool) -> None:
    from transher.cli.display import note, print_evaluation, print_update
    from transher.runs.movement import read_movement

    metrics, movement = run.kept_metrics(), read_movement(run.folder)
    if as_json:
        told = {"run": str(out), "manifest": run.manifest, "evaluation": metrics}
        print_json(told if movement is None else told | {"update": movement.to_dict()})
        return
    if metrics is not None:
        print_evaluation(f"{run.graph.name}, test, {metrics['protocol']}", metrics)
    if movement is not None:
        print_update(str(out), movement)
    note(f"The run is in {out}. Ask it: transher predict {out} --head … --relation …")


@click.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@out_option("Folder for the joined run; new or empty.")
@threads_option
@as_json
def join(run_folders: tuple[Path, ...], out: Path, threads: int | None, as_json: bool) -> None:
    """Join finished runs of one model into one run.

    All are of one graph, and the score is the mean of theirs. Trainings that differ in their seed or their
    initialisation make different errors: the mean is usually better than each.
    """
    from transher.cli.display import note
    from transher.runs.joining import join as join_runs

    use_threads(threads)
    run = join_runs([load_run(folder) for folder in run_folders], out)
    _tell_trained(run, out, as_json)
    if not as_json:
        note(f"It has k = {run.trained('a join')[1].model.k:,}, of {len(run_folders)} runs.")


@click.command()
@click.argument("run_folders", metavar="RUN RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@out_option("Folder for the blend; new or empty.")
@threads_option
@as_json
def blend(run_folders: tuple[Path, ...], out: Path, threads: int | None, as_json: bool) -> None:
    """Blend finished runs of any kind on one graph into one run.

    Its score is a weighted sum of theirs. The weights are fitted on validation triples, for each relation and side:
    where rules are sure they decide, elsewhere the vectors do.
    """
    from transher.cli.display import print_table
    from transher.cli.progress import TrainingDisplay
    from transher.runs.blending import blend as blend_runs

    use_threads(threads)
    members = [load_run(folder) for folder in run_folders]
    with TrainingDisplay() as display:
        run = blend_runs(members, out, watcher=display)
    alone = [(str(member.folder), member.title, member.kept_metrics()) for member in members]
    rows = [(folder, title, f"{metrics['overall']['mrr']:.4f}") for folder, title, metrics in alone if metrics]
    if rows and not as_json:
        print_table("Each run alone", ["run", "model", "test MRR"], rows)
    _tell_trained(run, out, as_json)


@click.command()
@run_argument
@click.argument("triples_file", metavar="[NEW_TRIPLES]", required=False, type=click.Path(path_type=Path))
@out_option("Folder for the new run; new or empty.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps of training; by default a tenth of the run's.")
@threads_option
@as_json
def update(
    run_folder: Path, triples_file: Path | None, out: Path, steps: int | None, threads: int | None, as_json: bool
) -> None:
    """Add new triples, entities and relations to a trained run.

    A report says how old answers changed. Facts that were called right on the page or by `transher verdicts` join
    the graph too, and those that were called wrong leave it. With such facts, NEW_TRIPLES may be left out.
    """
    from transher.cli.display import print_update
    from transher.cli.progress import TrainingDisplay
    from transher.graph import read_triples
    from transher.runs.update import update as update_run

    use_threads(threads)
    run, triples = load_run(run_folder), None if triples_file is None else read_triples(triples_file)
    with TrainingDisplay() as display:
        _, report = update_run(run, triples, out, steps=steps, watcher=display)
    if as_json:
        print_json({"run": str(out), **report.to_dict()})
    else:
        print_update(str(out), report)


@click.command()
@run_argument
@click.option(
    "--to",
    required=True,
    type=click.Choice(["parquet", "numpy", "word2vec", "tensorboard", "safetensors"]),
    help="Parquet also has the triples and the graph's statistics.",
)
@out_option("Folder to write; new or empty.")
@click.option("--answers", type=click.IntRange(min=1), help="Also write this many answers per test query (Parquet).")
@threads_option
@as_json
def export(run_folder: Path, to: Any, out: Path, answers: int | None, threads: int | None, as_json: bool) -> None:
    """Write a run's embeddings and vocabulary for other tools."""
    from transher.cli.display import note
    from transher.runs.export import export as export_run

    use_threads(threads)
    files = export_run(load_run(run_folder), to, out, answers=answers or 0)
    if as_json:
        print_json([str(file) for file in files])
    else:
        note(f"Written to {out}: {', '.join(file.name for file in files)}.")


@click.command()
@click.argument("graph_name", metavar="GRAPH")
@out_option("Folder for the search; a stopped search in it is resumed.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Stop after this many minutes.")
@click.option("--trials", type=click.IntRange(min=1), help="Stop after this many more trials.")
@click.option(
    "--space",
    "ranges",
    multiple=True,
    metavar="KEY=a,b,c|lo:hi|log:lo:hi",
    help="What to search; initialisation, γ, λ and learning rate by default.",
)
@recipe_options
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
    """Search for the recipe with the best validation MRR.

    Test triples are not used. The same command resumes a search that was stopped. The best recipe so far is in
    OUT/best.toml.
    """
    from transher.cli.display import note, print_recipe, print_search
    from transher.cli.progress import SearchDisplay

    require("optuna", "search", "a search")
    from transher.runs import search as searching

    use_threads(threads)
    refuse_run_folder(out, "a search")
    graph = open_graph(graph_name, reading)
    base, reason = choose_recipe(graph, model, recipe_name, settings, seed)
    space = [searching.Range.parse(text, base) for text in ranges or searching.default_space(base)]
    print_recipe(base, reason)
    with SearchDisplay(minutes) as display:
        found = searching.search(graph, out, recipe=base, space=space, trials=trials, minutes=minutes, watcher=display)
    if as_json:
        print_json(found.to_dict())
        return
    print_search(found, space)
    note(f"Train it: transher train {graph_name} --recipe {out / searching.BEST_FILE} --out RUN")


COMMANDS = (train, join, blend, update, export, search)
