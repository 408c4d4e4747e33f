"""Imports point one way: who reads a package need not know those that stand on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "transher"

# From the ground up. What stands on one line does not import its neighbours, but for the ground itself.
LEVELS = (
    {"errors", "files", "deadline", "devices", "versions", "extensions", "visible"},
    {"graph", "kernels"},
    {"scorer", "workers"},
    {"models", "rules"},
    {"evaluation", "blending"},  # a training validates, so that it stands on the evaluation
    {"training"},
    {"recipes"},
    {"answering"},
    {"runs"},
    {"analysis", "serving"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")  # it names all, lazily


def room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the module of every import, inside functions and for the type checker too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module="transher", level=0, names=names):
                yield from ((node.lineno, f"transher.{alias.name}") for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module
            case ast.ImportFrom(level=level) if level:
                yield node.lineno, "." * level
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield node.lineno, module


def points_down(importer: str, module: str) -> bool:
    """Whether a module of the room `importer` may import `module`."""
    package, _, rest = module.partition(".")
    if package != "transher":
        return not module.startswith(".")  # full names only, so that this test reads them
    target = rest.partition(".")[0]
    if target not in LEVEL:
        return False  # `import transher`, or a name that the package gives lazily
    return target == importer or LEVEL[target] < LEVEL[importer] or LEVEL[target] == LEVEL[importer] == 0


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_module_imports_only_what_it_stands_on(path: Path) -> None:
    assert room(path) in LEVEL, "a new package needs its place in LEVELS"
    wrong = [f"line {line}: {module}" for line, module in imported(path) if not points_down(room(path), module)]
    assert not wrong


@pytest.mark.parametrize(
    ("importer", "module"),
    [
        ("graph", "transher.kernels.native"),
        ("kernels", "transher.graph.graph"),
        ("models", "transher.training.recipe"),
        ("evaluation", "transher.training.trainer"),
        ("answering", "transher.runs.run"),
        ("analysis", "transher.serving.api"),
        ("serving", "transher.cli.display"),
        ("runs", "transher.load"),
        ("runs", "..answering"),
    ],
)
def test_an_import_that_points_up_would_be_found(importer: str, module: str) -> None:
    assert not points_down(importer, module)
