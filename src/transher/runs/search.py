"""Searching for a recipe: Optuna proposes settings, trials are trained and judged by validation MRR, and hopeless ones
end early. All is in one SQLite file, so that a search can be stopped and resumed. Test triples are not looked at.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState
from sqlalchemy import URL
from sqlalchemy.exc import DatabaseError

from transher.errors import Diverged, InputError, Interrupted, TransherError, UsageError
from transher.files import alone, sweep, write_text
from transher.graph.graph import Graph
from transher.models import Model, model_class
from transher.models.initialisation import STRATEGIES
from transher.runs.arguments import AnyTriples, Settings, graph_from, recipe_from
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer
from transher.training.watcher import Report, SearchWatcher, Watcher

DATABASE, BEST_FILE = "search.db", "best.toml"


@dataclass(frozen=True)
class Range:
    """What a setting may be: some values, or anything between two bounds, evenly by magnitude if `log`."""

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False

    @classmethod
    def parse(cls, text: str, base: Recipe) -> Range:
        """`KEY=a,b,c`, `KEY=lo:hi` or `KEY=log:lo:hi`; every value must fit the recipe that the search begins with."""
        key, equals, values = text.partition("=")
        if not equals or key not in base.setting_names():
            try:
                base.with_settings([text])  # tells what is wrong with the key
            except UsageError as error:
                raise UsageError(f"space {text}: {error}") from None
        parts = values.split(":")
        if len(parts) == 1:
            return cls(key, tuple(_plain(base, key, value) for value in values.split(",")))
        bounds = parts[1:] if parts[0] == "log" else parts
        try:
            low, high = (float(bound) for bound in bounds)
        except ValueError:
            raise UsageError(f"space {text}: it is KEY=a,b,c or KEY=lo:hi or KEY=log:lo:hi.") from None
        if not low < high or (parts[0] == "log" and low <= 0):
            raise UsageError(f"space {text}: the first bound must be below the second, and above 0 with log.")
        whole = isinstance(_current(base, key), int)
        if not (math.isfinite(low) and math.isfinite(high)) or (whole and not (low.is_integer() and high.is_integer())):
            raise UsageError(f"space {text}: the bounds must be finite, and whole numbers where the setting is one.")
        for bound in (low, high):
            _plain(base, key, str(int(bound) if whole else bound))  # tells what is wrong with it
        return cls(key, (), low, high, parts[0] == "log", whole)

    def suggest(self, trial: optuna.Trial) -> Any:
        if self.choices:
            return trial.suggest_categorical(self.key, self.choices)
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)

    def value_in(self, recipe: Recipe) -> Any:
        return _current(recipe, self.key)


def default_space(base: Recipe) -> list[str]:
    """γ, learning rate, and where there are translations also initialisation and λ: what the paper searches."""
    space = ["model.gamma=4:16", f"training.lr=log:{base.training.lr / 5:g}:{base.training.lr * 5:g}"]
    if model_class(base.model.name).translation is not Model.translation:
        space += [f"model.init={','.join(STRATEGIES)}", "training.translation_l2=log:1e-6:1e-3"]
    return space


@dataclass(frozen=True)
class Outcome:
    """What a search has found so far."""

    recipe: Recipe
    mrr: float
    finished: int
    pruned: int
    failed: int
    importance: dict[str, float]  # of each setting, summing to 1; empty with too few trials

    def __repr__(self) -> str:
        counts = f"{self.finished} finished, {self.pruned} pruned, {self.failed} failed"
        return f"<Outcome: validation MRR {self.mrr:.4f} with {self.recipe.model.name}; trials: {counts}>"

    def to_dict(self) -> dict[str, Any]:
        return {
            "mrr": self.mrr,
            "finished": self.finished,
            "pruned": self.pruned,
            "failed": self.failed,
            "importance": self.importance,
            "recipe": self.recipe.model_dump(),
        }


def search(
    x: Graph | AnyTriples,
    out: str | Path,
    *,
    model: str | None = None,
    settings: Settings | None = None,
    recipe: Recipe | str | Path | None = None,
    space: Sequence[str | Range] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    watcher: SearchWatcher | None = None,
) -> Outcome:
    """Resume the search in the folder `out`, or begin one there, for so many more trials or minutes.

    x, model, settings, recipe: as `train` takes them. They give the settings that are not searched.
    space: what is searched, as `Range.parse` reads it: `["training.lr=log:1e-4:1e-2"]`; by default what the paper
        searches.
    """
    folder, graph = Path(out), graph_from(x)
    base = recipe_from(graph, model, settings, recipe)
    if not isinstance(base, Recipe):
        raise UsageError("a search is for models with embeddings: rules have no settings to search.")
    ranges = [Range.parse(part, base) if isinstance(part, str) else part for part in space or default_space(base)]
    if not len(graph.valid):
        raise UsageError(f"{graph.name} has no validation triples, and a search judges by them: split some off.")
    if trials is None and minutes is None:
        raise UsageError("a search ends after some trials or some minutes: give one of them, or both.")
    if len({part.key for part in ranges}) < len(ranges):
        raise UsageError("space names a setting twice.")
    watcher = watcher or SearchWatcher()
    with alone(folder / ".lock", f"the search in {folder}"), _database(folder):
        sweep(folder)
        study = _open_study(graph, folder, base, ranges)
        watcher.opened(max(_best_by_trial(study).values(), default=None))
        deadline = None if minutes is None else time.monotonic() + 60 * minutes
        done = 0
        while (trials is None or done < trials) and (deadline is None or time.monotonic() < deadline):
            _try(study, graph, folder, base, ranges, deadline, watcher)
            done += 1
            if _best_by_trial(study):
                outcome(study, base).recipe.save(folder / BEST_FILE)
        _remove_trials(folder)
        return outcome(study, base)


def outcome(study: optuna.Study, base: Recipe) -> Outcome:
    """The best recipe by what each trial reached, pruned ones too: a search that ran out of time has something."""
    reached = _best_by_trial(study)
    if not reached:
        raise TransherError("no trial has come as far as a validation: give the search more time, or validate sooner.")
    best = study.trials[max(reached, key=lambda number: reached[number])]
    states = [trial.state for trial in study.trials]
    return Outcome(
        base.with_settings([f"{key}={value}" for key, value in best.params.items()]),
        reached[best.number],
        states.count(TrialState.COMPLETE),
        states.count(TrialState.PRUNED),
        states.count(TrialState.FAIL),
        _importance(study),
    )


class _Pruner(Watcher):
    """Tells Optuna of each validation, and ends a trial that is hopeless or out of time."""

    def __init__(self, trial: optuna.Trial, deadline: float | None, watcher: SearchWatcher) -> None:
        self.trial, self.deadline, self.watcher = trial, deadline, watcher

    def report(self, report: Report) -> None:
        self.watcher.progressed(self.trial.number, report.step, report.steps)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise optuna.TrialPruned("out of time")

    def validated(self, step: int, mrr: float, best: bool) -> None:
        self.trial.report(mrr, step)
        if self.trial.should_prune():
            raise optuna.TrialPruned("pruned")


def _try(
    study: optuna.Study,
    graph: Graph,
    folder: Path,
    base: Recipe,
    space: Sequence[Range],
    deadline: float | None,
    watcher: SearchWatcher,
) -> None:
    """One trial. Ctrl-C ends the search, and the trial is repeated when the search is resumed."""
    trial = study.ask()
    settings = {part.key: part.suggest(trial) for part in space}
    watcher.started(trial.number, settings)
    place = folder / f"trial-{trial.number}"
    mrr, how, state = None, "diverged", TrialState.FAIL
    try:
        recipe = base.with_settings([f"{key}={value}" for key, value in settings.items()])
        trainer = Trainer(graph, recipe, place)
        trainer.run(_Pruner(trial, deadline, watcher))
        mrr, how, state = trainer.progress.best_mrr, "finished", TrialState.COMPLETE
    except optuna.TrialPruned as pruned:
        how, state = str(pruned), TrialState.PRUNED
    except (Interrupted, KeyboardInterrupt) as stopped:
        study.enqueue_trial(settings, skip_if_exists=False)
        how = "stopped"
        if isinstance(stopped, KeyboardInterrupt):  # a second Ctrl-C, or one before the training began
            raise
        raise Interrupted(
            f"stopped in trial {trial.number}, which begins again when the same command resumes the search; those "
            "before are saved."
        ) from None
    except (Diverged, UsageError) as error:
        how = str(error)
    finally:
        study.tell(trial, mrr if state == TrialState.COMPLETE else None, state=state)
        shutil.rmtree(place, ignore_errors=True)
        counts = state != TrialState.FAIL
        watcher.ended(trial.number, _reached(study.trials[trial.number]) if counts else None, how)


@contextmanager
def _database(folder: Path) -> Iterator[None]:
    """What SQLite says of a file that is damaged, or of a disk that is full, in a line."""
    try:
        yield
    except (DatabaseError, optuna.exceptions.StorageInternalError) as error:
        cause = error if isinstance(error, DatabaseError) else error.__cause__
        told = cause.orig if isinstance(cause, DatabaseError) else cause or error
        raise InputError(
            f"cannot be used as a search ({told}).",
            file=folder / DATABASE,
            remedy="If the disk is full, free some space and resume; else take a copy, or remove it.",
        ) from None


def _open_study(graph: Graph, folder: Path, base: Recipe, space: Sequence[Range]) -> optuna.Study:
    """The study in `folder`. One of another graph, recipe or space is refused: its trials would mean nothing here."""
    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        storage=URL.create("sqlite", database=str(folder / DATABASE)).render_as_string(),
        study_name="search",
        direction="maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=base.validation.every),
        load_if_exists=True,
    )
    # Another seed when the search is resumed: with the first one it would propose its first trials again.
    study.sampler = optuna.samplers.TPESampler(seed=base.training.seed + len(study.trials))
    asked = {
        "graph": graph.name,
        "recipe": base.to_toml(),
        "space": json.dumps([vars(part) for part in space]),
        "graph_sha256": graph.sha256,
    }
    before = study.user_attrs
    for key, value in asked.items():
        if key in before and not _same(key, before[key], value):
            what = key.removesuffix("_sha256")
            raise UsageError(f"{folder} holds a search with another {what}: choose another folder.")
    for key, value in asked.items():
        study.set_user_attr(key, value)
    write_text(folder / "base.toml", base.to_toml())
    for trial in study.get_trials(states=(TrialState.RUNNING,)):  # of a search that was killed
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)
    _remove_trials(folder)
    return study


def _remove_trials(folder: Path) -> None:
    """What trials left that were killed, or could not be removed at their end."""
    for place in folder.glob("trial-*"):
        shutil.rmtree(place, ignore_errors=True)


def _same(key: str, before: str, now: str) -> bool:
    """An earlier version wrote the same recipe in other words."""
    return before == now or (key == "recipe" and Recipe.from_toml(before) == Recipe.from_toml(now))


def _best_by_trial(study: optuna.Study) -> dict[int, float]:
    """What each trial has reached, but for those that failed: a training that diverges is no recipe, and one that was
    stopped is tried again."""
    return {
        trial.number: value
        for trial in study.trials
        if trial.state != TrialState.FAIL and (value := _reached(trial)) is not None
    }


def _reached(trial: optuna.trial.FrozenTrial) -> float | None:
    values = [*trial.intermediate_values.values(), *([trial.value] if trial.value is not None else [])]
    return max(values) if values else None


def _importance(study: optuna.Study) -> dict[str, float]:
    """How much of the variance each setting explains (PED-ANOVA), over finished trials."""
    finished = study.get_trials(states=(TrialState.COMPLETE,))
    if len(finished) < 4 or len({trial.value for trial in finished}) == 1:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


def _current(recipe: Recipe, key: str) -> Any:
    section, _, field = key.partition(".")
    return getattr(getattr(recipe, section), field)


def _plain(recipe: Recipe, key: str, value: str) -> Any:
    """The value as the recipe reads it, so that a choice is checked before the first trial."""
    return _current(recipe.with_settings([f"{key}={value}"]), key)
