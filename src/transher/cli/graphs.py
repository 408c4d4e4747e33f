"""The commands that show graphs: datasets, stats."""

from __future__ import annotations

from typing import Any

import click

from transher.cli.options import as_json, open_graph, print_json, reading_options


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
    """Show what a graph is made of: sizes, degrees, relation types and patterns, duplicates, leakage."""
    from transher.cli.display import print_statistics
    from transher.graph import graph_statistics

    statistics = graph_statistics(open_graph(graph_name, reading))
    if as_json:
        print_json(statistics.to_dict())
    else:
        print_statistics(statistics)


COMMANDS = (datasets, stats)
