"""The commands that make answers usable: complete, explain, update, export."""

from __future__ import annotations

from pathlib import Path

import click

from transher.command_line import (
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
    from transher.display_answers import print_evidence

    use_threads(threads)
    evidence = load_run(run_folder).explain(head, relation, tail, limit=limit, base_rate=base_rate)
    if as_json:
        print_json(evidence.to_dict())
    else:
        print_evidence(evidence)
