from __future__ import annotations

import math

import pytest
import torch

from transher.errors import UsageError
from transher.kernels.reference import self_adversarial
from transher.training.loss import batch_loss, cross_entropy, find_loss, margin_ranking
from transher.training.settings import TrainingSettings

POSITIVE = torch.tensor([1.0, -2.0])
NEGATIVE = torch.tensor([[0.5, -1.0, 3.0], [2.0, 0.0, -4.0]])
VALID = torch.tensor([[True, False, True], [True, True, True]])
WEIGHTS = torch.tensor([0.3, 0.7])
SETTINGS = TrainingSettings(margin=1.0)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x))


def by_hand(alpha: float) -> float:
    total = 0.0
    for i in range(2):
        columns = [j for j in range(3) if VALID[i, j]]
        exponentials = {j: math.exp(alpha * NEGATIVE[i, j].item()) for j in columns}
        negative = sum(
            exponentials[j] / sum(exponentials.values()) * log_sigmoid(-NEGATIVE[i, j].item()) for j in columns
        )
        total -= WEIGHTS[i].item() * (log_sigmoid(POSITIVE[i].item()) + negative)
    return total / WEIGHTS.sum().item() / 2


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_self_adversarial_loss_is_the_specs_formula(alpha: float) -> None:
    assert self_adversarial(POSITIVE, NEGATIVE, VALID, WEIGHTS, alpha).item() == pytest.approx(by_hand(alpha), rel=1e-6)


def test_false_triples_are_pushed_down_and_true_ones_up() -> None:
    positive, negative = POSITIVE.clone().requires_grad_(), NEGATIVE.clone().requires_grad_()
    self_adversarial(positive, negative, VALID, WEIGHTS, 1.0).backward()
    assert positive.grad is not None
    assert negative.grad is not None
    assert (positive.grad < 0).all()
    assert (negative.grad[VALID] > 0).all()
    assert (negative.grad[~VALID] == 0).all()


def test_the_adversarial_weights_take_no_gradient() -> None:
    negative = NEGATIVE.clone().requires_grad_()
    self_adversarial(POSITIVE, negative, None, torch.ones(2), 1.0).backward()
    p = NEGATIVE.softmax(1)
    torch.testing.assert_close(negative.grad, p * NEGATIVE.sigmoid() / 4)


def test_a_positive_without_any_negative_left_still_counts_as_positive() -> None:
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    negative = NEGATIVE.clone().requires_grad_()
    loss = self_adversarial(POSITIVE, negative, nothing, WEIGHTS, 1.0)
    loss.backward()
    expected = -(WEIGHTS * torch.nn.functional.logsigmoid(POSITIVE)).sum() / 2
    torch.testing.assert_close(loss, expected)
    assert negative.grad is not None
    assert (negative.grad == 0).all()


def test_cross_entropy_is_that_of_the_positive_among_its_valid_negatives() -> None:
    scores = [[1.0, 0.5, 3.0]], [[-2.0, 2.0, 0.0, -4.0]]
    expected = torch.stack([torch.nn.functional.cross_entropy(torch.tensor(row), torch.tensor([0])) for row in scores])
    torch.testing.assert_close(cross_entropy(POSITIVE, NEGATIVE, VALID, WEIGHTS, SETTINGS), (WEIGHTS * expected).sum())


def test_a_negative_that_stands_for_three_counts_three_times() -> None:
    thrice = cross_entropy(POSITIVE, NEGATIVE, VALID, WEIGHTS, SETTINGS, stands_for=3.0)
    repeated = cross_entropy(POSITIVE, NEGATIVE.repeat(1, 3), VALID.repeat(1, 3), WEIGHTS, SETTINGS)
    torch.testing.assert_close(thrice, repeated)


def test_margin_ranking_asks_for_the_margin_only() -> None:
    negative, valid = torch.tensor([[3.9, 4.5, 9.0]]), torch.tensor([[True, True, False]])
    loss = margin_ranking(torch.tensor([5.0]), negative, valid, torch.ones(1), SETTINGS)
    assert loss.item() == pytest.approx(0.5 / 3)


def test_the_recipe_names_the_loss() -> None:
    for name, alpha in (("self-adversarial", 0.5), ("margin", 1.0), ("cross-entropy", 1.0)):
        settings = TrainingSettings(loss=name, alpha=alpha)
        own = find_loss(name)(POSITIVE, NEGATIVE, VALID, WEIGHTS, settings)
        assert torch.equal(batch_loss(settings, POSITIVE, NEGATIVE, VALID, WEIGHTS), own)


def test_a_loss_that_is_no_single_number_is_refused() -> None:
    settings = TrainingSettings(loss=f"{__name__}:each_positive")
    with pytest.raises(UsageError, match="one number"):
        batch_loss(settings, POSITIVE, NEGATIVE, VALID, WEIGHTS)


def each_positive(positive: torch.Tensor, *_: object) -> torch.Tensor:
    return positive
