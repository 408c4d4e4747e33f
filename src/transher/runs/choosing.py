"""A choice from where it stands in its folder to a blend: rules are mined, models are tried on the graph, the best of
them are trained to their end, and those that help each other are blended.

Every part leaves its result in the folder before the next begins, so a choice can be resumed at any point. Measured
speeds decide how long trainings may be. Where the machine turns out to be slower than that, because other work came,
the trainings that are left become shorter. The record has the steps that each came to.

    choice.json        what was planned and what came of it; it stays in the finished run
    candidates/NAME/   a training each, until the best of them become members
    members/1 …        the runs that are blended
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from transher.blending.fitting import helpful
from transher.blending.tallies import WAYS, Tallies
from transher.blending.trials import ask
from transher.errors import InputError
from transher.files import sweep, write_text
from transher.graph.graph import Graph
from transher.runs.folder import (
    MANIFEST_FILE,
    RECIPE_FILE,
    member_folders,
    new_folder,
    read_recipe,
    read_scorer,
    write_start,
)
from transher.runs.manifest import write_manifest
from transher.runs.mining import mine_to_end
from transher.training.blend_recipe import BlendRecipe, BlendSettings
from transher.training.candidates import SMALL, Candidate, Family, closer, plan, wider
from transher.training.checkpoints import STATE_FILE
from transher.training.choice_recipe import ChoiceRecipe
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, MiningSettings, RuleRecipe
from transher.training.trainer import Trainer
from transher.training.watcher import Report, Watcher

CHOICE_FILE, CANDIDATES_FOLDER = "choice.json", "candidates"
_RULES = "rules"
_RULES_SHARE, _RULES_LEAST, _RULES_MOST = 0.1, 2.0, 120.0  # of all seconds; longer mining adds next to nothing
_END_SHARE, _END_ENOUGH, _END_SLOW = 0.2, 240.0, 0.05  # of all seconds, or seconds and a share, whichever is less
_PROBE_STEPS, _PROBE_SECONDS = 12, 1.5  # of a speed
_ASKED = 2_500  # validation facts that members are compared by
_LOOKS = 4  # times during a training that its length is compared with the time that is left
_LATE = 1.1  # times the time that is left: a training that takes longer is shortened
_LEAST_SHARE = 0.1  # of all seconds, for the trainings that are left, however late it is


class Tried(BaseModel):
    """A candidate, and how it did."""

    model_config = ConfigDict(extra="forbid")
    label: str
    title: str
    family: Family
    recipe: dict[str, Any]
    first: int
    compared_mrr: float | None = None  # at step `first`, on validation triples
    mrr: float | None = None  # at its end
    steps: int = 0  # so far
    seconds: float = 0.0

    @classmethod
    def of(cls, candidate: Candidate) -> Tried:
        return cls(
            label=candidate.label,
            title=candidate.title,
            family=candidate.family,
            recipe=candidate.recipe.model_dump(),
            first=candidate.first,
        )

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.label, self.title, self.family, Recipe.parse(self.recipe, CHOICE_FILE), self.first)


class Choice(BaseModel):
    """What was planned, and what came of it."""

    model_config = ConfigDict(extra="forbid")
    minutes: float
    rules_seconds: float
    tried: list[Tried] = []
    searches: int = 0  # around the best candidates, where trainings are short
    finalists: list[str] | None = None
    members: list[str] | None = None  # those that are blended, in the order of their folders
    seconds: float = 0.0  # of everything so far, all sessions together

    def save(self, folder: Path) -> None:
        write_text(folder / CHOICE_FILE, self.model_dump_json(indent=1))


def read_choice(folder: Path) -> Choice | None:
    """What the choice in a folder has come to; None without one."""
    path = folder / CHOICE_FILE
    if not path.is_file():
        return None
    try:
        return Choice.model_validate_json(path.read_bytes())
    except (ValidationError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        remedy = "Train again into a new folder."
        raise InputError(f"is not the record of a choice ({reason}).", file=path, remedy=remedy) from None


def choose_to_end(folder: Path, graph: Graph, recipe: ChoiceRecipe, watcher: Watcher | None) -> BlendRecipe:
    """Leave the members of a blend in the folder, and its recipe. Raises `Interrupted` on Ctrl-C or SIGTERM, with
    everything saved."""
    return _Choosing(folder, graph, recipe, watcher or Watcher()).run()


class _Choosing:
    def __init__(self, folder: Path, graph: Graph, recipe: ChoiceRecipe, watcher: Watcher) -> None:
        self.folder, self.graph, self.recipe, self.watcher = folder, graph, recipe, watcher
        seconds = 60 * recipe.choice.minutes
        rules = min(max(_RULES_SHARE * seconds, _RULES_LEAST), _RULES_MOST)
        self.choice = read_choice(folder) or Choice(minutes=recipe.choice.minutes, rules_seconds=rules)
        self.started, self.before = time.monotonic(), self.choice.seconds
        self.small = len(graph.train) < SMALL

    def run(self) -> BlendRecipe:
        if self.choice.members is None:
            self._mine()
            self._plan()
            self._compare()
            for near in (closer, self._wider)[self.choice.searches :] if self.small else ():
                self._search(near)
                self._compare()
            self._train_finalists()
            self._keep_helpful()
        return self._settle()

    def _mine(self) -> None:
        place = self._place(_RULES)
        if (place / MANIFEST_FILE).exists():
            return
        self.watcher.began(f"Mining rules for {self.choice.rules_seconds:.0f} seconds", self._left())
        mining = MiningSettings(minutes=self.choice.rules_seconds / 60, seed=self.recipe.choice.seed)
        rules = RuleRecipe(mining=mining)
        self._begin(place, rules)
        write_manifest(place, rules, mine_to_end(place, self.graph, rules, _Quiet(self.watcher)))

    def _plan(self) -> None:
        if self.choice.tried:
            return
        all_seconds = 60 * self.choice.minutes
        seconds = max(all_seconds - self._end_seconds - self.choice.rules_seconds, 0.3 * all_seconds)
        found = plan(self.graph, seconds, self.recipe.choice.seed, self._speed)
        self.choice.tried = [Tried.of(candidate) for candidate in found]
        self._save()

    def _speed(self, recipe: Recipe) -> float:
        """Seconds of a step on this machine: the best quarter of some, since other work comes and goes."""
        trainer, took = Trainer(self.graph, recipe, self.folder), []
        for step in range(_PROBE_STEPS):
            start = time.perf_counter()
            trainer.train_step(trainer.batches.at(step), step, None, 0)
            took.append(time.perf_counter() - start)
            if step >= 2 and sum(took) > _PROBE_SECONDS:
                break
        return sorted(took)[len(took) // 4]

    def _compare(self) -> None:
        """Train every candidate up to the step at which its family is compared."""
        waiting = [tried for tried in self.choice.tried if tried.compared_mrr is None]
        for number, tried in enumerate(waiting, 1):
            self.watcher.began(f"Trying {tried.title}, {number} of {len(waiting)}", self._left())
            self._train(tried, tried.first)
            tried.compared_mrr = tried.mrr
            self._save()
            self.watcher.noticed(f"{tried.title}: validation MRR {tried.mrr or 0:.4f} in {tried.seconds:.0f} s.")

    def _search(self, near: Callable[[Candidate], list[Candidate]]) -> None:
        """Add candidates near the best one of each dot-product model."""
        found: dict[str, Candidate] = {}
        for tried in self._ranked():
            if tried.family == "dot":
                found.setdefault(tried.candidate.recipe.model.name, tried.candidate)
        self.choice.tried += [Tried.of(candidate) for best in found.values() for candidate in near(best)]
        self.choice.searches += 1
        self._save()

    def _wider(self, best: Candidate) -> list[Candidate]:
        """Within the time that the best of each model has for its training."""
        models = {tried.candidate.recipe.model.name for tried in self.choice.tried}
        return wider(best, self._training_left() / len(models), self._speed)

    def _ranked(self) -> list[Tried]:
        return sorted(self.choice.tried, key=lambda tried: -(tried.compared_mrr or 0.0))

    def _train_finalists(self) -> None:
        """Train the best of each family to its end, and others while there is time; in a small graph the best of each
        model and width, since wide vectors may be behind at first."""
        if self.choice.finalists is None:
            best: dict[object, str] = {}
            for tried in self._ranked():
                model = tried.candidate.recipe.model
                best.setdefault((model.name, model.k) if self.small else tried.family, tried.label)
            self.choice.finalists = list(best.values())
            self._save()
        done = 0
        while done < len(self.choice.finalists):
            self._train_to_end(done)
            done += 1
            if done == len(self.choice.finalists):
                self.choice.finalists += self._another()
                self._save()
        for tried in self.choice.tried:
            if tried.label not in self.choice.finalists:
                shutil.rmtree(self._place(tried.label), ignore_errors=True)

    def _another(self) -> list[str]:
        """The next best candidate, if there is time for it: trainings end when they stop helping, and one that is worse
        alone may know something else. Those of a small graph are too much alike."""
        assert self.choice.finalists is not None
        for tried in () if self.small else self._ranked():
            steps = tried.candidate.recipe.training.steps - tried.steps
            needed = steps * tried.seconds / max(1, tried.steps)
            if tried.label not in self.choice.finalists and needed <= self._training_left():
                return [tried.label]
        return []

    def _train_to_end(self, number: int) -> None:
        """Train a finalist by its number."""
        assert self.choice.finalists is not None
        waiting = self.choice.finalists[number:]
        tried = self._tried(waiting[0])
        if (self._place(tried.label) / MANIFEST_FILE).exists():
            return
        self.watcher.began(f"Training {tried.title}, {number + 1} of {len(self.choice.finalists)}", self._left())
        stretch = max(1, (tried.candidate.recipe.training.steps - tried.steps) // _LOOKS)
        cost = None
        while cost is None:
            self._shorten([self._tried(left) for left in waiting])
            cost = self._train(tried, tried.steps + stretch)
        write_manifest(self._place(tried.label), tried.candidate.recipe, cost)
        self._save()
        self.watcher.noticed(
            f"{tried.title}: validation MRR {tried.mrr or 0:.4f} at its end, after {tried.seconds:.0f} s."
        )

    def _shorten(self, waiting: list[Tried]) -> None:
        """Make trainings shorter that would take longer than there is time, all in the same proportion."""
        left = max(self._training_left(), _LEAST_SHARE * 60 * self.choice.minutes)
        rest = [tried.candidate.recipe.training.steps - tried.steps for tried in waiting]
        needed = sum(steps * tried.seconds / max(1, tried.steps) for steps, tried in zip(rest, waiting, strict=True))
        if needed <= _LATE * left:
            return
        for steps, tried in zip(rest, waiting, strict=True):
            recipe, every = tried.candidate.recipe, tried.candidate.recipe.validation.every
            shorter = tried.steps + max(every, int(steps * left / needed) // every * every)
            tried.recipe = recipe.with_settings({"training.steps": min(shorter, recipe.training.steps)}).model_dump()
        self._save()
        self.watcher.noticed(f"The machine is slower than planned: trainings are cut to {left / needed:.0%}.")

    def _keep_helpful(self) -> None:
        """Decide which finalists the blend is made of."""
        assert self.choice.finalists is not None
        labels = [*self.choice.finalists, _RULES]
        self.watcher.began(f"Comparing blends of {len(labels)} scorers", self._left())
        scorers = [read_scorer(self._place(label), read_recipe(self._place(label)), self.graph) for label in labels]
        trials = ask(scorers, self.graph, Tallies.of(self.graph), facts=_ASKED)
        plain = [*(scorer.dense_part is not None for scorer in scorers), *[True] * WAYS]
        kept, worth = helpful(trials, plain, beside=range(len(scorers), len(plain)))
        self.choice.members = [labels[number] for number in kept]
        self._save()
        names = [_RULES if label == _RULES else self._tried(label).title for label in self.choice.members]
        left_out = len(labels) - len(kept)
        said = f"; {left_out} more did not help" if left_out else ""
        self.watcher.noticed(f"Blending {' + '.join(names)}: validation MRR {worth:.4f} on facts left out{said}.")

    def _settle(self) -> BlendRecipe:
        """Put the members where a blend has them. Doing it twice does no harm."""
        assert self.choice.members is not None
        recipe = BlendRecipe(blend=BlendSettings(members=len(self.choice.members)))
        for label, place in zip(self.choice.members, member_folders(self.folder, recipe), strict=True):
            if self._place(label).is_dir():
                place.parent.mkdir(exist_ok=True)
                self._place(label).rename(place)
        return recipe

    def _train(self, tried: Tried, until: int) -> dict[str, float] | None:
        """Train a candidate from where it stands up to a step; gives what it cost once it has come to its end."""
        place, recipe = self._place(tried.label), tried.candidate.recipe
        self._begin(place, recipe)
        if read_recipe(place) != recipe:
            recipe.save(place / RECIPE_FILE)
        trainer = Trainer(self.graph, recipe, place, resume=(place / STATE_FILE).is_file())
        trainer.run(_Quiet(self.watcher), until)
        progress = trainer.progress
        tried.mrr, tried.steps, tried.seconds = progress.best_mrr, progress.step, progress.seconds
        cost = {"seconds": progress.seconds, "steps": progress.step, "best_step": progress.best_step}
        return cost if trainer.done else None

    def _begin(self, place: Path, recipe: AnyRecipe) -> None:
        if place.is_dir():
            sweep(place)
            return
        place.parent.mkdir(exist_ok=True)
        with new_folder(place) as filling:
            write_start(filling, self.graph, recipe)

    def _place(self, label: str) -> Path:
        return self.folder / CANDIDATES_FOLDER / label

    def _tried(self, label: str) -> Tried:
        return next(tried for tried in self.choice.tried if tried.label == label)

    def _save(self) -> None:
        self.choice.seconds = self._spent()
        self.choice.save(self.folder)

    def _left(self) -> float | None:
        """Seconds until everything but the test should be done; None where it takes longer than that."""
        left = 60 * self.choice.minutes - self._spent()
        return left if left > 0 else None

    def _training_left(self) -> float:
        """Seconds that are left for trainings."""
        return 60 * self.choice.minutes - self._end_seconds - self._spent()

    @property
    def _end_seconds(self) -> float:
        """What the weights of the blend and the probabilities may take. They grow with the graph, which has more time
        if it is large; where somebody gives a small graph hours, they are for trainings."""
        seconds = 60 * self.choice.minutes
        return min(_END_SHARE * seconds, _END_ENOUGH + _END_SLOW * seconds)

    def _spent(self) -> float:
        return self.before + time.monotonic() - self.started


class _Quiet(Watcher):
    """Passes on how a part advances, and no more: a choice has many trainings."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def report(self, report: Report) -> None:
        self._watcher.report(report)


def without_candidates(folder: Path) -> None:
    """Remove what was tried and not kept."""
    shutil.rmtree(folder / CANDIDATES_FOLDER, ignore_errors=True)
