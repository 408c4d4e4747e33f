from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any, get_type_hints

import pytest
from matplotlib.axes import Axes

import transher


@pytest.mark.parametrize("name", transher.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(transher, name).__name__ == name


@pytest.mark.parametrize(
    "name", ["load_graph", "train", "resume", "load", "join", "update", "export", "compare", "search"]
)
def test_what_it_offers_says_what_it_takes_and_gives(name: str) -> None:
    signature = inspect.signature(getattr(transher, name))
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(part.annotation is not inspect.Parameter.empty for part in signature.parameters.values())


def test_a_runs_methods_name_their_arguments() -> None:
    for name, method in inspect.getmembers(transher.Run, inspect.isfunction):
        if not name.startswith("_"):
            assert Any not in get_type_hints(method, localns={"Axes": Axes}).values(), name
            assert not [part for part in inspect.signature(method).parameters.values() if part.kind == part.VAR_KEYWORD]


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        transher.trian  # noqa: B018


def test_importing_it_is_cheap() -> None:
    code = "import sys, transher; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
