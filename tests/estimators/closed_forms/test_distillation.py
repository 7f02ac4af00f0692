"""The distillation prior's normaliser: quadrature, limits, refusals."""

import numpy as np
import pytest
from scipy import integrate, stats

from estimators.closed_forms import distillation


@pytest.mark.parametrize(("psi", "p"), [(0.3, 0.5), (2.0, 0.1), (7.0, 1.0), (5.0, 0.0), (40.0, 0.7)])
def test_density_integrates_to_one(psi, p):
    def density(q):
        divergence = sum(a * np.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)
        return np.exp(distillation.log_normalizer(psi, p) - psi * divergence)

    assert integrate.quad(density, 0, 1, epsabs=1e-12)[0] == pytest.approx(1.0, rel=1e-9)
    # it is a Beta density
    assert density(0.4) == pytest.approx(stats.beta(1 + psi * p, 1 + psi * (1 - p)).pdf(0.4))


def test_inputs_are_independent():
    p, shares = np.array([0.2, 0.7]), np.array([0.25, 0.75])
    parts = sum(distillation.log_normalizer(3.0 * s, q) for q, s in zip(p, shares, strict=True))
    assert distillation.log_normalizer(3.0, p, shares) == pytest.approx(parts)


@pytest.mark.parametrize("inputs", [1, 2, 5])
def test_stand_in_has_the_right_slope_for_one_input_only(inputs):
    """generative:kd:regulariser."""
    _, slope = distillation.variance_penalty(1e-6, np.full(inputs, 0.4))
    assert 2e-6 * slope == pytest.approx(inputs, rel=1e-3)


def test_penalty_slope_and_limits():
    p = [0.2, 0.9]
    high, low = (distillation.variance_penalty(0.5 + h, p)[0] for h in (1e-6, -1e-6))
    assert distillation.variance_penalty(0.5, p)[1] == pytest.approx((high - low) / 2e-6, rel=1e-6)
    assert distillation.variance_penalty(1e8, p)[0] == pytest.approx(0.0, abs=1e-7)  # a flat prior
    assert distillation.variance_penalty(1e-8, p)[0] < -10


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: distillation.log_normalizer(0.0, 0.5), "psi"),
        (lambda: distillation.log_normalizer([1.0], 0.5), "psi"),
        (lambda: distillation.log_normalizer(1.0, 1.5), "p_mu"),
        (lambda: distillation.log_normalizer(1.0, []), "p_mu"),
        (lambda: distillation.log_normalizer(1.0, np.nan), "p_mu"),
        (lambda: distillation.log_normalizer(1.0, [0.5, 0.5], [0.5, 0.6]), "p_x"),
        (lambda: distillation.variance_penalty(-1.0, 0.5), "psi"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
