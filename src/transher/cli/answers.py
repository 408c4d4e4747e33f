"""The commands that make answers usable: complete, explain, update, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transher.cli.options import (
    as_json,
    base_rate_option,
    load_run,
    print_json,
    run_argument,
    threads_option,
    use_threads,
)


@click.command()
@run_argument
@click.option("--head", required=True, help="Name or identifier of the head.")
@click.option("--relation", required=True, help="Name or identifier of the relation.")
@click.option("--tail", required=True, help="Name or identifier of the tail.")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="Entries of each kind.")
@base_rate_option
@threads_option
@as_json
def explain(
    run_folder: Path,
    head: str,
    relation: str,
    tail: str,
    limit: int,
    base_rate: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Show what in the graph speaks for a triple and what against it."""
    from transher.cli.display_answers import print_evidence

    use_threads(threads)
    evidence = load_run(run_folder).explain(head, relation, tail, limit=limit, base_rate=base_rate)
    if as_json:
        print_json(evidence.to_dict())
    else:
        print_evidence(evidence)


@click.command()
@run_argument
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write: .tsv, .csv, .parquet, .nt.")
@click.option("--relation", "relations", multiple=True, help="Only facts of this relation; may be given many times.")
@click.option("--entity", help="Only facts about this entity.")
@click.option("--above", type=click.FloatRange(0, 1, min_open=True, max_open=True), help="Least probability.")
@click.option("--best", type=click.IntRange(min=1), help="How many facts; 1,000, or with --above all.")
@click.option("--any-entity", is_flag=True, help="Also entities that the relation has never had on that side.")
@click.option("--evidence", is_flag=True, help="Add the strongest reason for each fact.")
@base_rate_option
@threads_option
@as_json
def complete(
    run_folder: Path,
    out: Path,
    relations: tuple[str, ...],
    entity: str | None,
    above: float | None,
    best: int | None,
    any_entity: bool,
    evidence: bool,
    base_rate: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Find the most probable facts that the graph lacks.

    Ctrl-C saves where the search stands; the same command resumes it.
    """
    from transher.answering.missing import wanted_facts
    from transher.cli.display import progress_bar
    from transher.cli.display_answers import print_completion

    use_threads(threads)
    run = load_run(run_folder)
    wanted = wanted_facts(run.graph, relations, best, above, any_entity, base_rate, entity)
    with progress_bar("completing", "of all pairs") as update:
        summary = run.complete_to_file(out, wanted, evidence=evidence, progress=update)
    if as_json:
        print_json(summary.to_dict())
    else:
        print_completion(summary)


@click.command()
@run_argument
@click.argument("triples_file", metavar="NEW_TRIPLES", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the new run; new or empty.")
@click.option("--steps", type=click.IntRange(min=1), help="Steps of training; by default a tenth of the run's.")
@threads_option
@as_json
def update(
    run_folder: Path, triples_file: Path, out: Path, steps: int | None, threads: int | None, as_json: bool
) -> None:
    """Let new triples, entities and relations join a trained run, and say how old answers moved."""
    from transher.cli.display import TrainingDisplay
    from transher.cli.display_answers import print_update
    from transher.graph import read_triples
    from transher.runs.update import update as update_run

    use_threads(threads)
    run, triples = load_run(run_folder), read_triples(triples_file)
    with TrainingDisplay() as display:
        _, report = update_run(run, triples, out, steps=steps, watcher=display)
    if as_json:
        print_json({"run": str(out), **report.to_dict()})
    else:
        print_update(str(out), report)


@click.command()
@run_argument
@click.option("--to", required=True, type=click.Choice(["parquet", "numpy", "word2vec", "tensorboard", "safetensors"]),
              help="Parquet also has the triples and the graph's statistics.")  # fmt: skip
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write; new or empty.")
@click.option("--answers", type=click.IntRange(min=1), help="Also this many answers to each test query, as Parquet.")
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


COMMANDS = (complete, explain, export, update)
