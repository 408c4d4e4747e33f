"""Commands called in this process, and two short trainings to ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from transher.cli.main import main

QUICK = [
    "--set",
    "model.k=16",
    "--set",
    "training.steps=40",
    "--set",
    "training.batch=64",
    "--set",
    "training.negatives=16",
    "--set",
    "validation.every=20",
    "--set",
    "validation.sample=50",
]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in (("a", "transher"), ("b", "pairre")):
        result = call("train", "world", "--out", folder / name, "--model", model, *QUICK)
        assert result.exit_code == 0, result.output
    return folder / "a", folder / "b"
