from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import call

from transher.cli.main import main


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_answers_at_once_and_without_torch() -> None:
    best = 10.0
    for _ in range(3):
        began = processor_seconds()  # and not the clock's: other tests run beside this one
        subprocess.run([sys.executable, "-m", "transher", "--help"], check=True, capture_output=True)
        best = min(best, processor_seconds() - began)
    assert best < 0.3
    code = "import sys; from transher.cli.main import main; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_command_has_help() -> None:
    for name in main.commands:
        result = call(name, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "{run}", "--head", "France"], 2, "two of --head"),
        (["predict", "{run}", "--head", "Frence", "--relation", "borders"], 2, "France"),
        (["predict", "{run}", "--head", "France", "--relation", "border"], 2, "borders"),
        (["predict", "nowhere", "--head", "a", "--relation", "b"], 2, "not a run"),
        (["train", "wrld", "--out", "x"], 2, "world"),
        (["train", "world", "--out", "{run}"], 2, "already there"),
        (["train", "world", "--out", "x", "--set", "training.stps=3"], 2, "training.steps"),
        (["train", "world", "--out", "x", "--recipe", "nonsense"], 2, "no recipe"),
        (["train", "world", "--out", "x", "--model", "transr2"], 2, "transr"),
        (["train", "--out", "nowhere", "--resume"], 1, "not a run"),
        (["train", "--out", "nowhere"], 2, "name a graph"),
        (["train", "world", "--out", "{run}", "--resume", "--seed", "1"], 2, "keeps its recipe"),
        (["score", "{run}", "absent.tsv"], 1, "absent.tsv"),
        (["evaluate", "{run}", "--split", "tset"], 2, "tset"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_are_told_with_the_right_exit_code(
    runs: tuple[Path, Path], arguments: list[str], code: int, message: str
) -> None:
    result = call(*(argument.format(run=runs[0]) for argument in arguments))
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
