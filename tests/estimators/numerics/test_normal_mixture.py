"""Mixtures of normals: distribution function against its definition, quantiles as its inverse, atoms."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from estimators.numerics import normal_mixture


def some_mixtures(seed, clients, k):
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.full(k, 0.3), clients)
    return weights, generator.normal(0, 10, (clients, k)), np.exp(generator.uniform(-6, 3, (clients, k)))


@given(st.integers(0, 1000), st.integers(1, 6), st.floats(-20, 20))
def test_cdf_is_the_weighted_sum(seed, k, t):
    weights, means, sds = some_mixtures(seed, 4, k)
    expected = (weights * stats.norm.cdf(t, means, sds)).sum(axis=1)
    np.testing.assert_allclose(normal_mixture.cdf(t, weights, means, sds), expected, rtol=1e-13, atol=1e-300)


@given(st.integers(0, 1000), st.integers(1, 6), st.sampled_from([1e-12, 1e-3, 0.025, 0.3, 0.5, 0.975, 1 - 1e-9]))
def test_quantile_inverts_cdf(seed, k, q):
    """Far apart narrow components make the distribution function nearly flat between them; the step is found."""
    weights, means, sds = some_mixtures(seed, 4, k)
    width, side = 1e-8 * sds.max(axis=1), 1 if q < 0.5 else -1  # an upper tail is judged in the mirror, unrounded
    tail = q if q < 0.5 else 1 - q
    for t in (normal_mixture.quantile(q, weights, means, sds), compiled(q, weights, means, sds)):
        assert (normal_mixture.cdf(side * t - width, weights, side * means, sds) <= tail).all()
        assert (normal_mixture.cdf(side * t + width, weights, side * means, sds) >= tail).all()


def compiled(q, weights, means, sds):
    """Quantiles by the loop for very many mixtures, of which the first ones are these."""
    copies = -(-normal_mixture.MANY // len(means))
    many = (np.tile(a, (copies, 1)) for a in (weights, means, sds))
    return normal_mixture.quantile(q, *many)[: len(means)]


def test_compiled_quantiles_are_the_same_for_posteriors():
    """Components that nearly agree, as posteriors under several priors do: both ways to rounding, each level by itself."""
    generator = np.random.default_rng(3)
    weights, means = generator.dirichlet(np.ones(5), 9000), generator.normal(0, 0.1, (9000, 5))
    sds = np.exp(generator.uniform(-0.2, 0.2, (9000, 5)))
    q = generator.uniform(0.001, 0.999, 9000)
    found = normal_mixture.quantile(q, weights, means, sds)
    few = slice(0, 300)
    np.testing.assert_allclose(found[few], normal_mixture.quantile(q[few], weights[few], means[few], sds[few]), atol=1e-12)
    np.testing.assert_allclose(normal_mixture.cdf(found, weights, means, sds), q, rtol=1e-11)


def test_the_median_of_a_symmetric_mixture_is_its_centre():
    """By both loops, also of components that agree: there is no skewness, and the level has the normal quantile 0."""
    centres = np.array([[-3.0], [0.0], [2.0], [1e6]])
    for aside, sds in ((1.5, [0.5, 2.0, 0.5]), (0.0, [1.0, 2.0, 3.0]), (9.0, [1.0, 1.0, 1.0])):
        laws = np.tile([0.25, 0.5, 0.25], (4, 1)), centres + aside * np.array([-1, 0, 1]), np.tile(sds, (4, 1))
        for way in (normal_mixture.quantile, compiled):
            np.testing.assert_allclose(way(0.5, *laws), centres[:, 0], rtol=1e-15, atol=1e-12)


def test_atoms():
    mixture = [0.25, 0.75], [1.0, 1.0], [0.0, 2.0]
    assert normal_mixture.cdf(1.0, *mixture) == 0.25 + 0.375
    assert normal_mixture.cdf(1.0, *mixture, strict=True) == 0.375
    assert normal_mixture.quantile(0.3, [1.0], [5.0], [0.0]) == 5.0


def test_shapes():
    weights, means, sds = some_mixtures(0, 6, 3)
    grid = normal_mixture.quantile(0.2, weights.reshape(2, 3, 3), means.reshape(2, 3, 3), sds.reshape(2, 3, 3))
    np.testing.assert_array_equal(grid.ravel(), normal_mixture.quantile(0.2, weights, means, sds))
    common = normal_mixture.cdf(0.0, weights[0], means, sds)
    np.testing.assert_allclose(common, normal_mixture.cdf(0.0, np.tile(weights[0], (6, 1)), means, sds))
