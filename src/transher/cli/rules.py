"""The command that shows a run's rules."""

from __future__ import annotations

from pathlib import Path

import click

from transher.cli.options import as_json, load_run, print_json, run_argument
from transher.errors import UsageError


@click.command()
@run_argument
@click.option("--relation", help="Only rules that conclude this relation.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many rules.")
@as_json
def rules(run_folder: Path, relation: str | None, top: int, as_json: bool) -> None:
    """Show the rules of a run, the most confident first.

    A rule x speaks y ⇐ x lies in z, y is spoken in z holds for `support` of the `pairs` that its right side joins;
    its confidence is support / (pairs + 5).
    """
    from transher.cli.display import print_table
    from transher.rules import rules_of
    from transher.rules.words import told_rules

    run = load_run(run_folder)
    found = rules_of(run.scorer)
    if found is None:
        raise UsageError(f"{run_folder} has no rules: mine some with transher train GRAPH --model rules --out RUN.")
    told = told_rules(run.graph, found, None if relation is None else run.graph.relations.find(relation), top)
    if as_json:
        print_json([one._asdict() for one in told])
        return
    print_table(
        f"The most confident of {len(found.rows):,} rules",
        ["confidence", "support", "pairs", "rule"],
        ((f"{one.confidence:.3f}", f"{one.support:,}", f"{one.pairs:,}", one.rule) for one in told),
    )


COMMANDS = (rules,)
