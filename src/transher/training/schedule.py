"""The learning rate of a step."""

from __future__ import annotations

import math

from transher.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, step: int) -> float:
    """The rate of step 0, 1, …; linear and cosine fall to 0 at the last step."""
    rate = settings.lr
    if step < settings.warmup:
        return rate * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    match settings.schedule:
        case "constant":
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
