"""A process that is killed, or whose disk is full or broken, at an operation on the disk: what it was making is absent,
resumable to identical bits, or finished. Some of the operations of each work; `make faults` goes through all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.disk import FAULTS, Fault
from tests.faults.works import WORKS, Given, count_operations, quickly, try_fault

SAMPLED = 6  # operations of each work and fault


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return Given(tmp_path_factory.mktemp("given"))


@pytest.mark.parametrize("name", WORKS)
def test_whatever_fails_it_is_absent_resumable_or_finished(name: str, given: Given, tmp_path: Path) -> None:
    work = WORKS[name]
    with quickly():
        count = count_operations(work, given, tmp_path)
        assert count > 5
        for place, fault in enumerate(FAULTS):
            for number in sampled(count, place):
                try_fault(work, given, tmp_path, fault, number)


def sampled(count: int, shift: int) -> list[int]:
    """The first and the last operation, and some between, others for each fault."""
    step = max(1, count // SAMPLED)
    return sorted({0, count - 1, *range(shift % step, count, step)})


def test_a_fault_is_met_at_the_operation_that_it_is_at(tmp_path: Path) -> None:
    from tests.faults.disk import Killed, disk

    def work() -> None:
        with (tmp_path / "a").open("wb") as file:
            file.write(b"12345678")
        (tmp_path / "a").unlink()

    left: dict[Fault, list[bytes | None]] = {}
    for fault in FAULTS:
        left[fault] = []
        for number in range(3):
            (tmp_path / "a").unlink(missing_ok=True)
            with pytest.raises((Killed, OSError)), disk(tmp_path, fault, number):
                work()
            left[fault].append((tmp_path / "a").read_bytes() if (tmp_path / "a").exists() else None)
    assert left["kill"] == [None, b"", b"12345678"]
    assert left["half"] == [None, b"1234", b"12345678"]
    assert left["full"] == left["broken"] == [None, b"1234", b"12345678"]
