"""The command line: one thin function per command, in the modules beside this one. Heavy modules are imported where
they are needed, so that `transher --help` answers at once."""

from __future__ import annotations

import click

from transher.cli import answers, evaluations, graphs, reports, rules, runs, serving, settings, verdicts
from transher.cli.options import Commands


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

    GRAPH is the name of a benchmark (see `transher datasets`), the path of a file or folder of triples, a URL, or -
    for standard input.
    RUN is the folder that a training leaves.
    """


for module in (graphs, runs, settings, evaluations, answers, verdicts, rules, reports, serving):
    for command in module.COMMANDS:
        main.add_command(command)
