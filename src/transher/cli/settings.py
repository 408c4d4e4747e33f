"""The command that tells what can be set: in the terminal, as JSON, and as the page docs/settings.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from transher.cli.options import as_json, print_json
from transher.errors import UsageError

if TYPE_CHECKING:
    from transher.training.described import Setting

PAGE = "docs/settings.md"
_INTRODUCTION = """\
Every setting of a training. Give one on the command line with `--set training.steps=20000`, in Python with
`settings={"training.steps": 20000}`, or in a recipe's TOML file. The default is the value in a recipe that does not
name the setting; some models have another one in their default recipe. Without a recipe, a training chooses further
settings from the graph, and prints all of them. `transher settings` prints this list, and `transher settings
training.lr` one setting."""


@click.command()
@click.argument("wanted", metavar="[SECTION|NAME]", required=False)
@click.option("--markdown", is_flag=True, help=f"Print the page {PAGE}, which has every setting.")
@as_json
def settings(wanted: str | None, markdown: bool, as_json: bool) -> None:
    """Show every setting with its meaning, default and range.

    SECTION is model, training or validation; NAME is one setting, such as training.lr. Change a setting with
    `transher train --set NAME=VALUE`, or in a recipe's TOML file.
    """
    from transher.training.described import describe_settings

    if markdown and (wanted or as_json):
        raise UsageError("--markdown prints the whole page: give neither a name nor --json with it.")
    found = describe_settings(wanted)
    if as_json:
        print_json([setting.to_dict() for setting in found])
    elif markdown:
        click.echo(settings_page(found), nl=False)
    else:
        _print(found)


def _print(found: Sequence[Setting]) -> None:
    from transher.cli.display import print_table, say
    from transher.training.described import section_titles

    for section, title in section_titles().items():
        part = [setting for setting in found if setting.section == section]
        if part:
            print_table(
                f"[{section}] {title}",
                ["setting", "default", "allowed", "meaning"],
                ((one.name.partition(".")[2], _defaults(one), one.allowed, _meaning(one)) for one in part),
            )
    say(
        "Without a recipe, a training chooses some of these from the graph and the model, and prints them. "
        f"Change one: transher train GRAPH --out RUN --set {found[0].name}={_value(found[0].default)}"
    )


def settings_page(found: Sequence[Setting]) -> str:
    """The page of the documentation."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Sequence[Setting]) -> Iterator[str]:
    from transher.training.described import section_titles

    yield "# Settings"
    yield ""
    yield "<!-- Generated: transher settings --markdown > docs/settings.md -->"
    yield ""
    yield _INTRODUCTION
    for section, title in section_titles().items():
        yield ""
        yield f"## {section}"
        yield ""
        yield title
        yield ""
        yield "| setting | default | allowed | meaning |"
        yield "|---|---|---|---|"
        for one in (setting for setting in found if setting.section == section):
            cells = (f"`{one.name}`", _defaults(one), one.allowed, _meaning(one))
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _defaults(setting: Setting) -> str:
    """The default, and that of models which differ; models with the same value are named together."""
    by_value: dict[str, list[str]] = {}
    for model, value in setting.model_defaults.items():
        by_value.setdefault(_value(value), []).append(model)
    differing = [f"{value} for {', '.join(models)}" for value, models in by_value.items()]
    return "; ".join([_value(setting.default), *differing])


def _meaning(setting: Setting) -> str:
    return f"{', '.join(setting.models)} only: {setting.meaning}" if setting.models else setting.meaning


def _value(value: Any) -> str:
    if value is None:
        return "must be given"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


COMMANDS = (settings,)
