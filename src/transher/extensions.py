"""Models and losses of other packages: found by entry point or as `package.module:name`. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any

from transher.errors import UsageError, nearest

# A folder with a recipe and what it answers from is a run. Runs are data, and may come from anybody: no code is taken
# from them.
_RECIPE, _ANSWERS = "recipe.toml", ("model.safetensors", "rules.parquet", "blend.safetensors")


class Extensions:
    """What can be named in a recipe as a `kind`: built in, published under the entry point `group`, or by its path."""

    def __init__(self, kind: str, group: str, built_in: Mapping[str, str]) -> None:
        self.kind, self.group, self.built_in = kind, group, built_in  # built_in: names to `module:name`

    def names(self) -> list[str]:
        """Built in first, then those that installed packages publish."""
        return [*self.built_in, *sorted(self._published().keys() - self.built_in.keys())]

    def find(self, name: str) -> Any:
        """The thing itself; a `UsageError` where there is none."""
        module_name, _, attribute = self._path(name).partition(":")
        _refuse_run_folder(module_name)
        try:
            module = import_module(module_name)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the {self.kind} '{name}' is not here, since there is no module '{error.name}'. Install the package "
                f"that has it, or put its folder on PYTHONPATH."
            ) from error
        except Exception as error:  # their code: whatever it raises is about this one name
            raise UsageError(
                f"the {self.kind} '{name}' cannot be imported ({type(error).__name__}: {error})."
            ) from error
        if not hasattr(module, attribute):
            raise UsageError(
                f"the module '{module_name}' has no {self.kind} '{attribute}'. {_like(attribute, vars(module))}"
            )
        return getattr(module, attribute)

    def provenance(self, name: str) -> dict[str, str]:
        """Where a name comes from: module, name in it, and the distribution with its version where one is installed."""
        module_name, _, attribute = self._path(name).partition(":")
        found = {"name": name, "module": module_name, self.kind: attribute}
        published = None if name in self.built_in else self._published().get(name)
        if published is not None and published.dist is not None:
            return found | {"distribution": published.dist.name, "version": published.dist.version}
        for distribution in _distributions().get(module_name.partition(".")[0], [])[:1]:
            found |= {"distribution": distribution, "version": version(distribution)}
        return found

    def _published(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}

    def _path(self, name: str) -> str:
        """`module:name` of a name."""
        if name in self.built_in:
            return self.built_in[name]
        if (published := self._published().get(name)) is not None:
            return published.value
        module, colon, attribute = name.partition(":")
        if colon and all(part.isidentifier() for part in (*module.split("."), attribute)):
            return name
        known = f"Known: {', '.join(self.names())}; or name one of your own as package.module:name."
        raise UsageError(f"there is no {self.kind} '{name}'. {nearest(name, self.names()) or known}")


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Which distributions have each package. It reads the metadata of all that is installed, which takes a second."""
    return packages_distributions()


def _like(attribute: str, names: Iterable[str]) -> str:
    return nearest(attribute, [name for name in names if not name.startswith("_")])


def _refuse_run_folder(module: str) -> None:
    """`python -m` has the working folder on its path, and that may be a run, or have runs in it."""
    inside: list[str] | None = None
    for part in module.split("."):
        spec = PathFinder.find_spec(part, inside)  # looks, and executes nothing
        if spec is None:
            return
        inside = list(spec.submodule_search_locations or ())
        for place in filter(None, (spec.origin, *inside)):
            for folder in (Path(place).resolve(), *Path(place).resolve().parents):
                if (folder / _RECIPE).is_file() and any((folder / name).is_file() for name in _ANSWERS):
                    raise UsageError(f"the module '{module}' is in the run {folder}: nothing is imported from a run.")
