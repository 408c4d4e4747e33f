from __future__ import annotations

import pytest

from transher.training.schedule import DROPS, drop_is_due, learning_rate, resets_moments
from transher.training.settings import TrainingSettings


def rates(schedule: str, **more: int) -> list[float]:
    settings = TrainingSettings(steps=10, lr=1.0, schedule=schedule, **more)
    return [learning_rate(settings, step) for step in range(10)]


def test_constant_stays() -> None:
    assert rates("constant") == [1.0] * 10


def test_the_authors_step_drops_to_a_tenth_at_half_with_fresh_moments() -> None:
    assert rates("step") == [1.0] * 5 + [0.1] * 5
    settings = TrainingSettings(steps=10, schedule="step")
    assert [step for step in range(10) if resets_moments(settings, step)] == [5]
    assert not any(resets_moments(TrainingSettings(steps=10, schedule="linear"), step) for step in range(10))


def test_linear_falls_evenly_towards_zero() -> None:
    assert rates("linear") == pytest.approx([1 - i / 10 for i in range(10)])


def test_cosine_starts_and_ends_flat() -> None:
    values = rates("cosine")
    assert values[0] == 1.0
    assert values[5] == pytest.approx(0.5)
    assert values[0] - values[1] < values[4] - values[5] > values[8] - values[9]


def test_warm_up_rises_to_the_full_rate() -> None:
    assert rates("constant", warmup=4)[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_a_plateau_drops_to_a_third_each_time() -> None:
    settings = TrainingSettings(schedule="plateau", lr=0.9, steps=700)
    assert [learning_rate(settings, 10, drops) for drops in range(3)] == pytest.approx([0.9, 0.3, 0.1])


def test_all_drops_find_room_within_the_steps() -> None:
    settings = TrainingSettings(schedule="plateau", steps=700)
    due = [next(step for step in range(701) if drop_is_due(settings, step, drops)) for drops in range(DROPS)]
    assert due == [400, 500, 600]
    assert not drop_is_due(settings, 700, DROPS)
