"""The commands that answer: predict, score, explain, complete."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from transher.cli.options import (
    as_json,
    implied_by_option,
    load_run,
    missing_share_option,
    out_option,
    overwrite_option,
    print_json,
    run_argument,
    table_options,
    table_reading_options,
    threads_option,
    use_threads,
)
from transher.errors import UsageError

if TYPE_CHECKING:
    from transher.runs.scoring import Unknown


@click.command()
@run_argument
@click.option("--head", help="Name or identifier of the head.")
@click.option("--relation", help="Name or identifier of the relation.")
@click.option("--tail", help="Name or identifier of the tail.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many answers.")
@click.option(
    "--known",
    type=click.Choice(["hide", "mark"]),
    default="mark",
    show_default=True,
    help="Mark or hide answers that the graph already has.",
)
@click.option(
    "--with",
    "facts_file",
    type=click.Path(path_type=Path),
    metavar="FACTS",
    help="File of facts about entities that the run does not know, to answer about them.",
)
@missing_share_option
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
    missing_share: float | None,
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
    answers = run.predict(head=head, relation=relation, tail=tail, top=top, known=known, missing_share=missing_share)
    if as_json:
        print_json(answers.to_dict("records"))
    else:
        print_answers(answers, "tail" if tail is None else "head" if head is None else "relation")


@click.command()
@run_argument
@click.argument("triples_file", metavar="TRIPLES_FILE")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write: .tsv, .csv or .parquet. Without it, TSV on standard output.",
)
@overwrite_option
@click.option(
    "--unknown",
    type=click.Choice(["error", "skip", "null"]),
    default="error",
    show_default=True,
    help="What to do with a row with a name that the graph lacks or has twice: stop, leave it out, or leave its score "
    "empty.",
)
@table_reading_options
@missing_share_option
@threads_option
@as_json
def score(
    run_folder: Path,
    triples_file: str,
    out: Path | None,
    overwrite: bool,
    unknown: Unknown,
    missing_share: float | None,
    threads: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Score the triples of a file, given in names or identifiers.

    Other columns of the file are kept. The file is read and written in blocks, so that its size does not matter. In
    .csv, text that a spreadsheet would take for a formula gets an apostrophe in front; .tsv and .parquet have all names
    as they are.
    """
    from transher.answering.writing import TABLE_ENDINGS, refuse_existing, refuse_unknown_ending, write_blocks
    from transher.cli.display import note
    from transher.cli.scoring import Scoring, local_file, print_records, shown_in_terminal
    from transher.files import replacing, writing

    if out is not None and as_json:
        raise UsageError("--json is for standard output: give --json or --out, not both.")
    if out is not None:
        refuse_unknown_ending(out, TABLE_ENDINGS)
        refuse_existing(out, overwrite)
    options = table_options(reading)
    use_threads(threads)
    run = load_run(run_folder)
    with local_file(triples_file, options) as path:
        scoring = Scoring(run, path, options, unknown, missing_share)
        if as_json:
            print_records(scoring.blocks())
        elif out is None:
            write_blocks(sys.stdout.buffer, ".tsv", shown_in_terminal(scoring.blocks()))
        else:
            with writing(out), replacing(out) as file:
                write_blocks(file, out.suffix.lower(), scoring.blocks())
    for line in scoring.told(out):
        note(line)


@click.command()
@run_argument
@click.option("--head", required=True, help="Name or identifier of the head.")
@click.option("--relation", required=True, help="Name or identifier of the relation.")
@click.option("--tail", required=True, help="Name or identifier of the tail.")
@click.option("--limit", type=click.IntRange(min=1), default=5, show_default=True, help="Entries of each kind.")
@missing_share_option
@threads_option
@as_json
def explain(
    run_folder: Path,
    head: str,
    relation: str,
    tail: str,
    limit: int,
    missing_share: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Show the evidence for and against a triple."""
    from transher.cli.display import print_evidence

    use_threads(threads)
    evidence = load_run(run_folder).explain(head, relation, tail, limit=limit, missing_share=missing_share)
    if as_json:
        print_json(evidence.to_dict())
    else:
        print_evidence(evidence)


@click.command()
@run_argument
@out_option("File to write: .tsv, .csv, .parquet, .nt.")
@click.option("--relation", "relations", multiple=True, help="Only facts of this relation; may be given many times.")
@click.option("--entity", help="Only facts about this entity.")
@click.option(
    "--above",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Only facts that are at least this probable.",
)
@click.option("--best", type=click.IntRange(min=1), help="Number of facts; by default 1,000, or all with --above.")
@click.option("--any-entity", is_flag=True, help="Include entities that never occur at that end of the relation.")
@click.option(
    "--since",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FACTS_FILE",
    help="The file of an earlier completion: give only facts that are not in it.",
)
@implied_by_option
@click.option("--evidence", is_flag=True, help="Add the strongest reason for each fact.")
@overwrite_option
@missing_share_option
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
    since: Path | None,
    implied_by: tuple[str, ...],
    evidence: bool,
    overwrite: bool,
    missing_share: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Find the most probable facts that the graph lacks.

    Ctrl-C saves where the search stands; the same command resumes it. A file that is there already is replaced only
    with --overwrite. In .csv, text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    from transher.answering.missing import wanted_facts
    from transher.answering.writing import refuse_existing, refuse_unknown_ending
    from transher.cli.display import print_completion
    from transher.cli.progress import progress_bar

    refuse_unknown_ending(out)
    refuse_existing(out, overwrite)
    use_threads(threads)
    run = load_run(run_folder)
    wanted = wanted_facts(run.graph, relations, best, above, any_entity, missing_share, entity, implied_by)
    with progress_bar("completing", "of all pairs") as update:
        summary = run.complete_to_file(
            out, wanted, since=since, evidence=evidence, overwrite=overwrite, progress=update
        )
    if as_json:
        print_json(summary.to_dict())
    else:
        print_completion(summary)


COMMANDS = (predict, score, explain, complete)
