"""Which versions are installed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def version_of(package: str) -> str:
    """The installed version of a package; of none, as of a checkout that is only on the path, "unknown"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
