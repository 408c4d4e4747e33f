"""The command for what people said of facts: verdicts."""

from __future__ import annotations

from pathlib import Path

import click

from transher.cli.options import as_json, load_run, print_json, run_argument
from transher.errors import UsageError


@click.command()
@run_argument
@click.option("--head", help="Head of a fact to mark.")
@click.option("--relation", help="Its relation.")
@click.option("--tail", help="Its tail.")
@click.option(
    "--mark",
    "verdict",
    type=click.Choice(["right", "wrong", "nothing"]),
    help="How to mark it; 'nothing' removes the mark.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write all verdicts to a new file: .tsv, .csv or .parquet."
)
@click.option("--overwrite", is_flag=True, help="Replace the file that is there.")
@as_json
def verdicts(
    run_folder: Path,
    head: str | None,
    relation: str | None,
    tail: str | None,
    verdict: str | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Show, add or export what people said of a run's facts.

    The page has buttons for the same. `transher complete` leaves out facts that were called wrong. `transher update`
    adds those that were called right to the graph, and takes out those that were called wrong.
    """
    from transher.cli.display import note, print_table

    run = load_run(run_folder)
    if verdict is not None:
        if head is None or relation is None or tail is None:
            raise UsageError("a fact to mark has a --head, a --relation and a --tail.")
        run.mark(head, relation, tail, None if verdict == "nothing" else verdict)  # type: ignore[arg-type]
    elif head or relation or tail:
        raise UsageError("say what the fact is: --mark right, --mark wrong, or --mark nothing to take it back.")
    found = run.verdicts()
    if out is not None:
        from transher.answering.writing import write_table

        write_table(out, found, overwrite)
    if as_json:
        print_json(found.to_dict("records"))
    elif out is not None:
        note(f"{len(found):,} verdicts are in {out}.")
    elif len(found):
        rows = found[["head", "relation", "tail", "verdict", "date"]].itertuples(index=False)
        title = "1 fact marked" if len(found) == 1 else f"{len(found):,} facts marked"
        print_table(title, ["head", "relation", "tail", "verdict", "date"], rows)
    else:
        note("Nothing is marked yet: transher verdicts RUN --head … --relation … --tail … --mark right")


COMMANDS = (verdicts,)
