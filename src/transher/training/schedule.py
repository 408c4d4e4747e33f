"""The learning rate of a step."""

from __future__ import annotations

import math

from transher.training.settings import TrainingSettings

_FALL = 0.25  # of the steps before it: how long the learning rate falls with the schedule plateau

Fall = tuple[int, int]  # the steps at which the learning rate begins to fall, and at which it reaches 0


def learning_rate(settings: TrainingSettings, step: int, fall: Fall | None = None) -> float:
    """The rate of step 0, 1, …; linear and cosine fall to 0 at the last step, plateau during its `fall`."""
    rate = settings.lr
    if step < settings.warmup:
        return rate * (step + 1) / settings.warmup
    if fall is not None:
        return rate * (fall[1] - step) / (fall[1] - fall[0])
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    match settings.schedule:
        case "constant" | "plateau":
            return rate
        case "step":
            return rate if step < settings.steps // 2 else rate / 10
        case "linear":
            return rate * (1 - done)
        case "cosine":
            return rate * (1 + math.cos(math.pi * done)) / 2


def resets_moments(settings: TrainingSettings, step: int) -> bool:
    """Whether the optimiser is reset before this step: the authors make a new one when the learning rate drops."""
    return settings.schedule == "step" and 0 < step == settings.steps // 2


def planned_fall(settings: TrainingSettings, step: int, least: int) -> Fall:
    """The fall that begins after `step` steps: a quarter of them, at least `least`, within the recipe's steps."""
    length = max(least, round(_FALL * step))
    return step, max(step + 1, min(step + length, settings.steps))


def latest_fall(settings: TrainingSettings) -> int:
    """The step at which the learning rate must begin to fall to reach 0 within the recipe's steps."""
    return max(1, round(settings.steps / (1 + _FALL)))
