from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_expit

from transher.answering.likelihood import derivatives, losses

values = st.floats(-20, 20)
shares = st.floats(0.05, 1.0)


@given(values, st.booleans(), shares)
def test_the_gradient_is_the_derivative_of_the_loss(z: float, hidden: bool, share: float) -> None:
    step, mask = 1e-5, np.array([hidden])
    after, before = (losses(np.array([z + way * step]), mask, share)[0] for way in (1, -1))
    assert derivatives(np.array([z]), mask, share)[0][0] == pytest.approx((after - before) / (2 * step), abs=1e-5)


@given(values, shares)
def test_at_the_truth_the_gradient_is_nil_on_average_and_the_curvature_is_its_variance(z: float, share: float) -> None:
    chance = share / (1 + np.exp(-z))
    of_hidden, of_others = (
        float(derivatives(np.array([z]), np.array([hidden]), share)[0][0]) for hidden in (True, False)
    )
    assert chance * of_hidden + (1 - chance) * of_others == pytest.approx(0, abs=1e-9)
    variance = chance * of_hidden**2 + (1 - chance) * of_others**2
    assert derivatives(np.array([z]), np.array([True]), share)[1][0] == pytest.approx(variance, abs=1e-9)


@given(values, st.booleans())
def test_where_all_that_holds_was_hidden_it_is_the_log_loss(z: float, hidden: bool) -> None:
    expected = -log_expit(z if hidden else -z)
    assert losses(np.array([z]), np.array([hidden]), 1.0)[0] == pytest.approx(expected, rel=1e-6, abs=1e-6)
