"""Some damaged files of a run, and all that were once found to end in a traceback. `make fuzz` tries thousands."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from tests.fuzz.inputs import RESUME, call, commands_of, complaint, copied, files_of, told_of, try_one
from tests.fuzz.runs import make_others, make_runs

CORPUS = Path(__file__).parent / "corpus"
SEEDS = 2  # of each file; those that have failed are in `found`
FOUND: list[tuple[str, str, int]] = [tuple(line.split()) for line in (CORPUS / "found.txt").read_text().splitlines()]  # type: ignore[misc]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    found = make_runs(folder)
    return found | make_others(folder, found["vectors"])


def test_a_run_with_a_damaged_file_answers_or_says_what_is_wrong(runs: dict[str, Path], tmp_path: Path) -> None:
    found = {}
    for kind, whole in runs.items():
        for name in files_of(whole):
            for seed in range(SEEDS):
                found[kind, str(name), seed] = try_one(kind, runs, tmp_path, name, seed)
    assert not {case: told for case, told in found.items() if told}
    assert len(found) > 150
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20


def test_what_is_not_damaged_is_read(runs: dict[str, Path], tmp_path: Path) -> None:
    """Else a reader that is behind another error would never be reached."""
    asked = {
        (kind, command)
        for kind, whole in runs.items()
        for name in files_of(whole)
        for command in commands_of(whole, name)
    }
    for kind, command in sorted(asked):
        run = copied(runs[kind], tmp_path)
        if command == RESUME:
            (run / "manifest.json").unlink()
        told = told_of(command, run, runs)
        if (kind, command[0]) != ("updated", "compare"):  # its graph is another
            assert told.exit_code == 0, (kind, command, told.output)


@pytest.mark.parametrize(("kind", "name", "seed"), FOUND)
def test_what_was_found_once_stays_mended(
    runs: dict[str, Path], tmp_path: Path, kind: str, name: str, seed: str
) -> None:
    assert not try_one(kind, runs, tmp_path, Path(name), int(seed))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("graph*")), ids=lambda path: path.name)
def test_a_graph_of_the_corpus_is_read_or_told_in_a_line(path: Path) -> None:
    assert not complaint(call("stats", path))
