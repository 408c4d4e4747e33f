from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from scripts.release import ReleaseError, changed_files, checked_version, released_changes

ROOT = Path(__file__).parents[2]
DAY = date(2030, 1, 2)


@pytest.mark.parametrize("version", ["0.1.1", "0.2.0", "1.0.0"])
def test_the_next_versions_are_allowed(version: str) -> None:
    assert checked_version(version, "0.1.0") == version


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.3.0", "0.2.1", "2.0.0", "0.2", "0.2.0rc1"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(ReleaseError):
        checked_version(version, "0.1.0")


def test_what_is_unreleased_gets_the_version_and_the_day() -> None:
    text = "# Changes\n\n## Unreleased\n\n- New.\n\n## 0.1.0\n\n- Old.\n"
    wanted = "# Changes\n\n## Unreleased\n\n## 0.2.0 (2030-01-02)\n\n- New.\n\n## 0.1.0\n\n- Old.\n"
    assert released_changes(text, "0.2.0", DAY) == wanted


def test_a_release_without_changes_is_refused() -> None:
    with pytest.raises(ReleaseError, match="nothing under"):
        released_changes("# Changes\n\n## Unreleased\n\n## 0.1.0\n\n- Old.\n", "0.2.0", DAY)


def test_the_repository_as_it_is_could_be_released() -> None:
    files = changed_files(ROOT, "1.0.0", DAY)
    assert {path.name for path in files} == {"pyproject.toml", "CHANGELOG.md", "CITATION.cff"}
    assert all("1.0.0" in text for text in files.values())
