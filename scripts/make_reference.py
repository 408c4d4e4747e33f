"""Write the pages of the site that are made from the code: commands and the HTTP API.

    python -m scripts.make_reference [DOCS_FOLDER]

They are made whenever the site is built and are not kept in the repository, so that they cannot be out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

DOCS = Path(__file__).parents[1] / "docs"


def commands_page() -> str:
    """Every command with its arguments and options, from the command line's own help."""
    from transher.cli.main import main

    lines = [
        "# Commands",
        "",
        "Generated from the command line's own help. `transher COMMAND --help` prints the same.",
        "",
        _plain(main.help or ""),
    ]
    for name, command in main.commands.items():
        lines += ["", f"## {name}", "", *_command(name, command)]
    return "\n".join(lines) + "\n"


def _command(name: str, command: click.Command) -> Iterator[str]:
    arguments = [
        part.make_metavar(click.Context(command)) for part in command.params if isinstance(part, click.Argument)
    ]
    yield from ("```text", " ".join(["transher", name, "[OPTIONS]", *arguments]), "```", "")
    yield _plain(command.help or "")
    options = [part for part in command.params if isinstance(part, click.Option)]
    if options:
        yield from ("", "| option | meaning |", "|---|---|")
    for option in options:
        record = option.get_help_record(click.Context(command))
        if record is not None:
            yield f"| `{_cell(record[0])}` | {_cell(record[1])} |"


def http_page() -> str:
    """Every path of the HTTP API with its parameters and what it answers, from the OpenAPI document."""
    from transher.serving.api import create_app

    document = create_app({}).openapi()
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    lines = [
        "# HTTP API",
        "",
        "Generated from the OpenAPI document, which a server has at `/api/openapi.json`. A request that is not",
        "answered gets a `Problem` with a reason. [Server and page](../serving.md) says how to start a server.",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += ["", f"## {method.upper()} {path}", "", *_operation(operation)]
    lines += ["", "## Objects"]
    for name, schema in sorted(schemas.items()):
        if "properties" in schema and "Validation" not in name:
            lines += ["", f"### {name}", "", *_object(schema)]
    return "\n".join(lines) + "\n"


def _operation(operation: Mapping[str, Any]) -> Iterator[str]:
    yield _plain(operation.get("description", operation.get("summary", "")))
    parameters = operation.get("parameters", [])
    if parameters:
        yield from ("", "| parameter | type | meaning |", "|---|---|---|")
    for parameter in parameters:
        needed = " (required)" if parameter.get("required") else ""
        told = parameter.get("description") or parameter["schema"].get("description", "")
        yield f"| `{parameter['name']}`{needed} | {_type(parameter['schema'])} | {_cell(told)} |"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        yield from ("", f"Body: {_type(body['schema'])}.")
    content = operation["responses"].get("200", {}).get("content", {})
    answers = [
        _type(part["schema"]) if "json" in kind else f"`{kind}`" for kind, part in content.items() if part.get("schema")
    ]
    if answers:
        yield from ("", f"Answers {', '.join(answers)}.")


def _object(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("description"):
        yield from (_plain(schema["description"]), "")
    yield from ("| field | type | meaning |", "|---|---|---|")
    for name, field in schema["properties"].items():
        yield f"| `{name}` | {_type(field)} | {_cell(field.get('description', ''))} |"


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in words, with its bounds and a link to the object that it is."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    told = [f"{sign} {schema[name]:g}" for name, sign in bounds.items() if name in schema]
    return f"{kind} {' and '.join(told)}" if told else kind


def _plain(text: str) -> str:
    """Click's paragraphs as Markdown's: a line break within one means nothing."""
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n") if part.strip())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write_pages(docs: Path = DOCS) -> list[Path]:
    """Write the pages below the folder of the documentation."""
    pages = {"commands": commands_page(), "http": http_page()}
    for name, text in pages.items():
        path = docs / "reference" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return [docs / "reference" / f"{name}.md" for name in pages]


if __name__ == "__main__":
    for written in write_pages(*map(Path, sys.argv[1:2])):
        print(written)
