from __future__ import annotations

import os
from pathlib import Path

import pytest

from transher.errors import UsageError
from transher.files import AlreadyThere, replacing, sweep, whole_folder, writing


def fill(folder: Path, content: str = "content") -> None:
    with whole_folder(folder) as filling:
        (filling / "inside").mkdir()
        (filling / "inside" / "file").write_text(content)
        assert not folder.exists() or not any(folder.iterdir())


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_once_it_is_whole(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "new").mkdir()
    fill(tmp_path / "new")
    assert (tmp_path / "new" / "inside" / "file").read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_its_permissions_are_those_of_any_folder(tmp_path: Path) -> None:
    fill(tmp_path / "new")
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail_midway() -> None:
        with whole_folder(tmp_path / "new") as filling:
            (filling / "file").write_text("half of the c")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert not list(tmp_path.iterdir())


def test_the_first_of_two_stays(tmp_path: Path) -> None:
    with pytest.raises(AlreadyThere), whole_folder(tmp_path / "new"):
        fill(tmp_path / "new", "the first")
    assert (tmp_path / "new" / "inside" / "file").read_text() == "the first"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_link_to_an_empty_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    fill(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "inside" / "file").is_file()


def test_the_working_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="that you are in"):
        fill(Path("."))
    with pytest.raises(UsageError, match="mount point"):
        fill(Path("/"))


@pytest.mark.skipif(os.name != "posix", reason="there are no locks")
def test_a_second_writer_is_told(tmp_path: Path) -> None:
    with writing(tmp_path / "new"):
        with pytest.raises(UsageError, match="another process is at"), writing(tmp_path / "new"):
            pytest.fail("both write")
        with writing(tmp_path / "other"):
            pass
    assert not list(tmp_path.iterdir())


def test_a_writer_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".new.0123abcd.part").mkdir()
    (tmp_path / ".new.0123abcd.part" / "file").touch()
    (tmp_path / ".new.89abcdef.part").touch()
    others = {".new.er.0123abcd.part", ".newer.0123abcd.part", "new.part"}
    for name in others:
        (tmp_path / name).touch()
    with writing(tmp_path / "new"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == others


def test_all_that_was_being_written_into_a_folder_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".a.part").touch()
    (tmp_path / ".b.0123abcd.part").mkdir()
    (tmp_path / "kept").touch()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as one, replacing(tmp_path / "file") as other:
        one.write(b"one")
        other.write(b"other")
    assert (tmp_path / "file").read_bytes() == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
