from __future__ import annotations

import math

import pytest
import torch

from transher.kernels.reference import self_adversarial
from transher.training.loss import cross_entropy, margin_ranking

POSITIVE = torch.tensor([1.0, -2.0])
NEGATIVE = torch.tensor([[0.5, -1.0, 3.0], [2.0, 0.0, -4.0]])
VALID = torch.tensor([[True, False, True], [True, True, True]])
WEIGHTS = torch.tensor([0.3, 0.7])


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
    assert (positive.grad < 0).all()  # type: ignore[operator]
    assert (negative.grad[VALID] > 0).all()  # type: ignore[index]
    assert (negative.grad[~VALID] == 0).all()  # type: ignore[index]


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
    assert (negative.grad == 0).all()


def test_cross_entropy_is_that_of_the_positive_among_its_valid_negatives() -> None:
    expected = torch.stack([
        torch.nn.functional.cross_entropy(torch.tensor([[1.0, 0.5, 3.0]]), torch.tensor([0])),
        torch.nn.functional.cross_entropy(torch.tensor([[-2.0, 2.0, 0.0, -4.0]]), torch.tensor([0])),
    ])  # fmt: skip
    torch.testing.assert_close(cross_entropy(POSITIVE, NEGATIVE, VALID, WEIGHTS), (WEIGHTS * expected).sum())


def test_a_negative_that_stands_for_three_counts_three_times() -> None:
    thrice = cross_entropy(POSITIVE, NEGATIVE, VALID, WEIGHTS, stands_for=3.0)
    repeated = cross_entropy(POSITIVE, NEGATIVE.repeat(1, 3), VALID.repeat(1, 3), WEIGHTS)
    torch.testing.assert_close(thrice, repeated)


def test_margin_ranking_asks_for_the_margin_only() -> None:
    loss = margin_ranking(torch.tensor([5.0]), torch.tensor([[3.9, 4.5, 9.0]]), torch.tensor([[True, True, False]]),
                          torch.ones(1), 1.0)  # fmt: skip
    assert loss.item() == pytest.approx(0.5 / 3)
