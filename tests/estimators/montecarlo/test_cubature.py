"""Cubature: the design's moments, the kernels on it, what is refused."""

import numpy as np
import pytest

from estimators import montecarlo as mc
from estimators.montecarlo import kernels
from estimators.montecarlo.cubature import Design, NotQuadratic, integrate
from estimators.montecarlo.kernels import LANES


def points(draws):
    """The design as the kernels see it."""
    design, blocks = Design(np.zeros(1, np.int64)), []
    for _ in range(-(-2 * draws // LANES)):
        blocks.append(np.empty((draws, LANES)))
        kernels._design_block(design, blocks[-1])
    return np.concatenate(blocks, axis=1)[:, : 2 * draws]


@pytest.mark.parametrize("draws", [1, 7, 40])
def test_moments_up_to_degree_three_are_those_of_normals(draws):
    z = points(draws)
    np.testing.assert_allclose(z.mean(axis=1), 0, atol=1e-14)
    np.testing.assert_allclose(z @ z.T / z.shape[1], np.eye(draws), atol=1e-14)
    np.testing.assert_allclose(np.einsum("ik,jk,lk->ijl", z, z, z), 0, atol=1e-10)


@pytest.mark.parametrize("clients", [3, 60])
def test_risks_of_clients_are_exact(clients):
    rng = np.random.default_rng(clients)
    tau2, alpha2, nu2, weights = rng.random((4, clients))
    form = rng.standard_normal(4)
    own = np.arange(clients) == 1
    parts = [form[3] * weights + form[k] * own for k in range(3)]
    exact = sum(np.sum(part**2 * variance) for part, variance in zip(parts, (tau2, alpha2, nu2), strict=True))
    experiment = mc.ClientsExperiment(tau2, alpha2, nu2, 1, weights, form, form)
    assert integrate(experiment).mean[0] == pytest.approx(exact, rel=1e-13)


def test_risks_of_regression_are_exact():
    rng = np.random.default_rng(2)
    design, gain = rng.standard_normal((9, 3)), rng.standard_normal((3, 9))
    centre, offset, prior, noise = rng.random(3), rng.random(3), rng.random(3), rng.random(9)
    experiment = mc.RegressionExperiment(design, centre, prior, noise, gain, offset)
    away = gain @ design - np.eye(3)
    exact = (away @ centre + offset) ** 2 + away**2 @ prior + gain**2 @ noise
    np.testing.assert_allclose(integrate(experiment).mean, [exact.sum(), *exact], rtol=1e-13)


def test_a_wrong_variance_shows_in_the_last_digits():
    form = [-1.0, 0.0, 0.0, 1.0]
    one, other = (
        integrate(mc.ClientsExperiment(v, 1.0, 1.0, 0, np.full(4, 0.25), form, form)).mean[0] for v in (1, 1 + 1e-9)
    )
    assert other - one == pytest.approx(0.75e-9, rel=1e-5)


@pytest.mark.parametrize(
    "experiment",
    [mc.JamesSteinExperiment(7, 2.0, 0.6, 1.0, 0.4), mc.SampledExperiment(lambda gen, n: gen.random((n, 1)), 1)],
)
def test_what_is_not_known_to_be_quadratic_is_refused(experiment):
    with pytest.raises(NotQuadratic, match=type(experiment).__name__):
        integrate(experiment)
