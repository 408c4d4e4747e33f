"""Make a release: check, set the version, build, commit and tag. Pushing is left to you.

    python -m scripts.release 0.2.0 [--dry-run]

The part *Unreleased* of CHANGELOG.md becomes the release's own. The version is written to pyproject.toml and
CITATION.cff. Wheel and sdist go to dist/.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
_NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class ReleaseError(Exception):
    """Why there can be no release."""


def checked_version(new: str, old: str) -> str:
    """The new version, if it is a next one by the rules of semantic versioning."""
    found, before = _NUMBER.fullmatch(new), _NUMBER.fullmatch(old)
    if not found or not before:
        raise ReleaseError(f"{new} is no version: three numbers are, such as 0.2.0.")
    major, minor, patch = (int(part) for part in before.groups())
    following = [f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0", f"{major + 1}.0.0"]
    if new not in following:
        raise ReleaseError(f"After {old} comes {', '.join(following[:2])} or {following[2]}, and not {new}.")
    return new


def released_changes(text: str, version: str, day: date) -> str:
    """The changelog with its part *Unreleased* under the version."""
    found = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    if found is None or not found[1].strip():
        raise ReleaseError("CHANGELOG.md has nothing under 'Unreleased': what is the release for?")
    if f"## {version}" in text:
        raise ReleaseError(f"CHANGELOG.md has a part {version} already.")
    return text.replace("## Unreleased\n", f"## Unreleased\n\n## {version} ({day.isoformat()})\n", 1)


def with_version(text: str, pattern: str, version: str) -> str:
    """A file's text with its one version line set."""
    changed, count = re.subn(pattern, lambda match: f"{match[1]}{version}{match[2]}", text, count=2, flags=re.M)
    if count != 1:
        raise ReleaseError(f"{count} lines look like {pattern}: one should.")
    return changed


def current_version(pyproject: str) -> str:
    found = re.search(r'^version = "(.*)"$', pyproject, re.M)
    if found is None:
        raise ReleaseError("pyproject.toml has no version.")
    return found[1]


def changed_files(root: Path, new: str, day: date) -> dict[Path, str]:
    """The texts of a release, by file."""
    pyproject, changelog, citation = root / "pyproject.toml", root / "CHANGELOG.md", root / "CITATION.cff"
    text = pyproject.read_text("utf-8")
    version = checked_version(new, current_version(text))
    return {
        pyproject: with_version(text, r'^(version = ").*(")$', version),
        changelog: released_changes(changelog.read_text("utf-8"), version, day),
        citation: with_version(citation.read_text("utf-8"), r"^(version: )\S+()$", version),
    }


def _git(*arguments: str) -> str:
    return _run(["git", *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def release(version: str, dry_run: bool) -> None:
    if _git("status", "--porcelain").strip():
        raise ReleaseError("The working tree has changes: commit them first.")
    if f"v{version}" in _git("tag", "--list").split():
        raise ReleaseError(f"There is a tag v{version} already.")
    files = changed_files(ROOT, version, datetime.now(UTC).date())
    if dry_run:
        print(f"Version {version} can be released; nothing was changed.")
        return
    for path, text in files.items():
        path.write_text(text, "utf-8")
    try:
        _run([sys.executable, "-m", "build", "--outdir", "dist"])
    except ReleaseError:
        _git("checkout", "--", *(str(path) for path in files))
        raise
    _git("add", *(str(path) for path in files))
    _git("commit", "--message", f"Version {version}")
    _git("tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print(f"Built, committed and tagged. To publish: git push && git push origin v{version}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="check only")
    arguments = parser.parse_args()
    try:
        release(arguments.version, arguments.dry_run)
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
