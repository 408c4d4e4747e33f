from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import click
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


def test_every_option_says_what_it_means() -> None:
    options = [(name, option) for name, command in main.commands.items() for option in command.params]
    assert not [(name, option.opts) for name, option in options if isinstance(option, click.Option) and not option.help]


def test_the_list_of_commands_cuts_no_sentence_short() -> None:
    listed = call("--help").output.partition("Commands:")[2]
    assert len(listed.strip().splitlines()) == len(main.commands)
    assert "..." not in listed


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


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (RuntimeError("boom\nand \x1b[31mmore"), r"RuntimeError: boom and \x1b[31mmore. TRANSHER_DEBUG=1"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "not enough memory"),
        (RecursionError(), "nested too deeply"),
        (type("PanicException", (BaseException,), {})("index out of bounds"), "PanicException: index out of bounds"),
    ],
)
def test_what_nobody_foresaw_is_one_line_and_a_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException, told: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr("transher.graph.load_graph", fails)
    result = call("stats", "world")
    assert result.exit_code == 1
    assert result.stderr.strip().startswith("Error: ")
    assert result.stderr.strip().count("\n") == 0
    assert told in result.stderr
    monkeypatch.setenv("TRANSHER_DEBUG", "1")
    with pytest.raises(type(failure)) as raised:
        main(["stats", "world"])
    assert raised.value is failure


@pytest.mark.parametrize(
    "setting", ["model.k=1000000000", "training.batch=100000000000", "training.negatives=99999999999"]
)
def test_a_size_that_no_machine_has_is_refused_before_anything_is_made(tmp_path: Path, setting: str) -> None:
    result = call("train", "world", "--out", tmp_path / "run", "--set", setting)
    assert result.exit_code == 2
    assert "GB of memory" in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("setting", ["model.gamma=inf", "model.gamma=nan", "training.lr=1e400", "training.n3=inf"])
def test_a_setting_that_is_not_finite_is_refused(tmp_path: Path, setting: str) -> None:
    result = call("train", "world", "--out", tmp_path / "run", "--model", "transher", "--set", setting)
    assert result.exit_code == 2
    assert setting.partition("=")[0] in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_recipe_is_read_whatever_the_case_of_its_ending(tmp_path: Path) -> None:
    (tmp_path / "RECIPE.TOML").write_text("[model]\nk = -3\n")
    result = call("train", "world", "--out", tmp_path / "run", "--recipe", tmp_path / "RECIPE.TOML")
    assert "RECIPE.TOML" in result.stderr
    assert "model.k = -3" in result.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe[model]\n", "not UTF-8"),
        (b"[model]\nk = " + b"[" * 100_000, "nested too deeply"),
        (b".".join([b"a"] * 50_000) + b" = 1\n", "dots"),
        (b"[model]\n" + b"\n".join(b"k%d = 1" % number for number in range(50_000)), "49,99"),
        (b"[model]\nk = " + b"9" * 2_000_000, "larger than"),
        (b'[model]\nname = "' + b"x" * 100_000 + b'"\n', "no model"),
        (b"model = 3\n", "model = 3"),
    ],
)
def test_a_recipe_that_is_none_is_told_in_a_line(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "recipe.toml").write_bytes(content)
    result = call("train", "world", "--out", tmp_path / "run", "--recipe", tmp_path / "recipe.toml")
    assert result.exit_code in (1, 2)
    assert told in result.stderr
    assert result.stderr.strip().count("\n") == 0
