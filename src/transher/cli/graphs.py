"""The commands that show and prepare graphs: datasets, stats, prepare, plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from transher.cli.options import as_json, open_graph, out_option, print_json, reading_options, require
from transher.errors import UsageError


@click.command()
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


@click.command()
@click.argument("graph_name", metavar="GRAPH")
@reading_options
@as_json
def stats(graph_name: str, as_json: bool, **reading: Any) -> None:
    """Show what a graph is made of, and what looks wrong in it.

    It prints sizes, degrees, relation types and patterns, duplicates, and leakage between splits.
    """
    from transher.cli.display import print_statistics
    from transher.graph import graph_statistics

    statistics = graph_statistics(open_graph(graph_name, reading))
    if as_json:
        print_json(statistics.to_dict())
    else:
        print_statistics(statistics)


@click.command()
@click.argument("files", metavar="FILES...", nargs=-1, required=True, type=click.Path(path_type=Path))
@out_option("Folder to prepare; new or empty, or one that was begun.")
@click.option("--memory", default="4GB", show_default=True, help="How much memory to take.")
@click.option(
    "--held-out",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="Triples of valid and of test, if no file is theirs.",
)
@as_json
def prepare(files: tuple[Path, ...], out: Path, memory: str, held_out: int, as_json: bool) -> None:
    """Prepare a graph that is larger than memory for training.

    Ids, parts and sorted indexes are written to disk. FILES are TSV, CSV, Parquet or N-Triples, or folders of them.
    `transher train OUT` takes the folder; with several workers, each reads its part of it. Stopped, it is resumed
    by the same command.
    """
    from dataclasses import asdict

    from transher.cli.display import note
    from transher.cli.progress import progress_bar
    from transher.visible import shown

    require("duckdb", "scale", "preparing a graph")
    from transher.graph.preparing import prepare as prepare_graph

    with progress_bar("preparing") as update:
        found = prepare_graph(files, out, memory=memory, held_out=held_out, progress=update)
    if as_json:
        print_json(asdict(found))
        return
    if found.ignored:
        note(f"Left out: {', '.join(map(shown, found.ignored))}. Give a file by its path to take it.")
    note(
        f"{found.entities:,} entities, {found.relations:,} relations, {found.train:,} training triples, "
        f"{found.valid:,} valid, {found.test:,} test, in {found.parts} parts. Train: transher train {out} --out RUN"
    )


@click.command()
@click.option("--entities", required=True, metavar="N", help="How many, such as 100M.")
@click.option("--k", type=click.IntRange(min=1), default=200, show_default=True, help="Dimension.")
@click.option("--workers", type=click.IntRange(min=1), help="How many; by default a row for each of 1 to 64.")
@click.option("--triples", default="0", metavar="N", help="Training triples, such as 500M.")
@click.option("--relations", default="1000", metavar="N", show_default=True, help="Relations.")
@click.option("--batch", type=click.IntRange(min=1), default=1024, show_default=True, help="Positives per worker.")
@click.option("--negatives", type=click.IntRange(min=1), default=256, show_default=True, help="Negatives per step.")
@click.option(
    "--optimizer",
    type=click.Choice(["sparse-adam", "adagrad", "row-adagrad"]),
    default="sparse-adam",
    show_default=True,
    help="Optimiser, which decides how much is kept for each row.",
)
@as_json
def plan(
    entities: str,
    k: int,
    workers: int | None,
    triples: str,
    relations: str,
    batch: int,
    negatives: int,
    optimizer: str,
    as_json: bool,
) -> None:
    """Compute how much memory and traffic a training takes."""
    from transher.cli.display import print_table
    from transher.training.plan import plan as plan_of

    sizes = {"triples": _number(triples), "relations": _number(relations)}
    plans = [
        plan_of(_number(entities), k, count, batch=batch, negatives=negatives, optimizer=optimizer, **sizes)
        for count in ([workers] if workers else [1, 2, 4, 8, 16, 32, 64])
    ]
    if as_json:
        print_json([one.to_dict() for one in plans])
        return
    print_table(
        f"{_number(entities):,} entities, k = {k}, {optimizer}, {batch} positives per worker. Per worker: GB of "
        "memory, MB sent per step, and the ms that these take at 1, 10 and 100 Gbit/s",
        ["workers", "table", "optimiser", "triples", "memory", "sent", "at 1", "at 10", "at 100"],
        (
            [
                one.workers,
                *(
                    f"{size / 1e9:.2f}"
                    for size in (one.table_bytes, one.state_bytes, one.triple_bytes, one.total_bytes)
                ),
                f"{one.sent / 1e6:.2f}",
                *(f"{one.milliseconds(speed):.2f}" for speed in (1, 10, 100)),
            ]
            for one in plans
        ),
    )


def _number(text: str) -> int:
    """A whole number, perhaps with k, M or B behind it."""
    factors = {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
    digits, factor = (text[:-1], factors[text[-1].lower()]) if text[-1:].lower() in factors else (text, 1)
    try:
        number = int(float(digits.replace(",", "").replace("_", "")) * factor)
    except ValueError:
        number = -1
    if number < 0:
        raise UsageError(f"'{text}' is not a number: write it as 100M or 100,000,000.")
    return number


COMMANDS = (datasets, stats, prepare, plan)
