"""The learning rate of a step."""

from __future__ import annotations

import math

from transher.training.settings import TrainingSettings

_DROP = 3.0  # by which the learning rate is divided when validation stops improving, with the schedule plateau
DROPS = 3  # after which the training ends


def learning_rate(settings: TrainingSettings, step: int, drops: int = 0) -> float:
    """The rate of step 0, 1, …; linear and cosine fall to 0 at the last step. `drops`: those of plateau so far."""
    rate = settings.lr
    if step < settings.warmup:
        return rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    match settings.schedule:
        case "constant":
            return rate
        case "plateau":
            return rate / _DROP**drops
        case "step":
            return rate if step < settings.steps // 2 else rate / 10
        case "linear":
            return rate * (1 - done)
        case "cosine":
            return rate * (1 + math.cos(math.pi * done)) / 2


def resets_moments(settings: TrainingSettings, step: int) -> bool:
    """Whether the optimiser is reset before this step: the authors make a new one when the learning rate drops."""
    return settings.schedule == "step" and 0 < step == settings.steps // 2


def drop_is_due(settings: TrainingSettings, step: int, drops: int) -> bool:
    """Whether the rate must drop now, improving or not, for all drops to find room within the recipe's steps: the last
    half of them is shared by the phases after a drop."""
    return drops < DROPS and step >= settings.steps * (DROPS + 1 + drops) / (2 * DROPS + 1)
