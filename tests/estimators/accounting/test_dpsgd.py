"""Noise of DP-SGD and of weighted updates: limits, laws, brute force, outside accountants, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.accounting import dpsgd, privacy
from estimators.closed_forms import aggregation

variances = st.lists(st.floats(-6, 6).map(lambda x: 10.0**x), min_size=1, max_size=6)
sizes = st.integers(1, 500)
positives = st.floats(-3, 3).map(lambda x: 10.0**x)
COMMON = {"b": 4, "c": 2.0, "z": 1.5, "p": 10}


# --- variances of gradients and updates ----------------------------------------------------------------------------


def test_batch_gradient_by_hand():
    assert dpsgd.batch_gradient_variance(**COMMON) == pytest.approx(10 * 9 / 16, rel=1e-14)
    assert dpsgd.batch_gradient_variance(**COMMON, alignment=0.0) == pytest.approx(1 + 10 * 9 / 16, rel=1e-14)
    assert dpsgd.unclipped_gradient_variance(sigma2_g=1.0, **COMMON) == pytest.approx(1 + 10 * 9 / 16, rel=1e-14)


@given(sizes, positives, positives, sizes, st.floats(0, 1), sizes)
def test_sampling_without_replacement_lies_between_no_and_independent_sampling(b, c, z, p, alignment, others):
    def variance(**options):
        return dpsgd.batch_gradient_variance(b=b, c=c, z=z, p=p, alignment=alignment, **options) * (1 + 1e-12)

    noise = dpsgd.batch_gradient_variance(b=b, c=c, z=z, p=p)
    drawn = variance(others=others, sampling="without replacement")
    assert noise <= drawn <= variance() * (1 + 1e-12)
    assert variance(others=0, sampling="without replacement") == pytest.approx(noise, rel=1e-11)
    assert variance(others=0, sampling="poisson") == pytest.approx(noise, rel=1e-11)


def test_a_mean_of_real_batches_has_the_variance_without_replacement():
    """Every batch of three of five gradients of norm 1 in the plane, enumerated."""
    from itertools import combinations

    angles = np.array([0.1, 0.9, 2.0, 3.5, 5.0])
    gradients = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    means = np.array([gradients[list(rows)].mean(axis=0) for rows in combinations(range(5), 3)])
    centre = gradients.mean(axis=0)
    spread = ((means - centre) ** 2).sum(axis=1).mean()
    claimed = dpsgd.batch_gradient_variance(
        b=3, c=1.0, z=0.0, p=2, alignment=np.linalg.norm(centre), others=2, sampling="without replacement"
    )
    assert claimed == pytest.approx(spread, rel=1e-12)


def test_model_update_limits():
    options = {**COMMON, "N": 10, "eta": 0.5, "alignment": 0.5}
    one = 0.25 * dpsgd.batch_gradient_variance(**COMMON, alignment=0.5)
    assert dpsgd.model_update_variance(K=2, **options) == pytest.approx(6 * one, rel=1e-14)

    def curved(a, K=2):
        return dpsgd.model_update_variance(K=K, contraction=a, path="curved", **options)

    assert curved(0.0) == pytest.approx(6 * one, rel=1e-14)
    assert curved(1e-9) == pytest.approx(6 * one, rel=1e-7)
    assert curved(1.0) == pytest.approx(one, rel=1e-14)  # each step forgets the one before
    assert curved(1.5) == pytest.approx(one * sum(0.25**k for k in range(6)), rel=1e-12)
    assert curved(0.5, K=1000) == pytest.approx(one / 0.75, rel=1e-12)  # a stationary state
    shuffled = dpsgd.model_update_variance(K=2, path="shuffled", **options)
    assert shuffled == pytest.approx(6 * 0.25 * dpsgd.batch_gradient_variance(**COMMON), rel=1e-14)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"b": 0}, "b"),
        ({"b": 1.5}, "b"),
        ({"c": 0.0}, "c"),
        ({"z": -1.0}, "z"),
        ({"z": np.nan}, "z"),
        ({"p": 0}, "p"),
        ({"alignment": 1.5}, "alignment"),
        ({"others": -1}, "others"),
        ({"sampling": "some"}, "sampling"),
    ],
)
def test_bad_gradients_are_named(change, name):
    with pytest.raises(ValueError, match=name):
        dpsgd.batch_gradient_variance(**{**COMMON, **change})


@pytest.mark.parametrize(
    ("change", "name"),
    [({"K": 0}, "K"), ({"N": 0}, "N"), ({"eta": -1}, "eta"), ({"contraction": 2.0}, "contraction"), ({"path": "x"}, "path")],
)
def test_bad_updates_are_named(change, name):
    arguments = {**COMMON, "K": 1, "N": 8, "eta": 0.1, "path": "curved", **change}
    with pytest.raises(ValueError, match=name):
        dpsgd.model_update_variance(**arguments)


# --- noise for a budget ------------------------------------------------------------------------------------------------


@given(positives, st.floats(-12, -0.01).map(lambda x: 10.0**x), st.integers(1, 10_000))
def test_the_closed_form_is_private_on_the_exact_curve(eps, delta, steps):
    z = dpsgd.closed_form_noise_multiplier(eps=eps, delta=delta, steps=steps)
    assert privacy.gaussian_delta(eps=eps, sensitivity=1.0, sigma=z / np.sqrt(steps)) <= delta


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, np.nan])
def test_a_bad_delta_is_named(delta):
    with pytest.raises(ValueError, match="delta"):
        dpsgd.closed_form_noise_multiplier(eps=1.0, delta=delta, steps=1)


# --- weights of noisy updates -------------------------------------------------------------------------------------------


@given(variances, st.data())
def test_no_weights_beat_the_best_ones(sigma2s, data):
    weights = data.draw(st.lists(st.floats(0.01, 10), min_size=len(sigma2s), max_size=len(sigma2s)))
    least = aggregation.least_variance(sigma2s)
    best = aggregation.precision_weights(sigma2s)
    assert aggregation.aggregate_variance(best, sigma2s) == pytest.approx(least, rel=1e-12)
    excess = aggregation.excess_variance(weights, sigma2s)
    assert excess >= 0
    assert aggregation.aggregate_variance(weights, sigma2s) == pytest.approx(least + excess, rel=1e-9)
    assert aggregation.relative_excess(weights, sigma2s) * least == pytest.approx(excess, rel=1e-12)


def test_eps_weights_add_to_one_along_any_axis():
    eps = np.array([[1.0, 3.0, 4.0], [2.0, 2.0, 12.0]])
    np.testing.assert_allclose(aggregation.eps_weights(eps), eps / np.array([[8.0], [16.0]]), rtol=1e-15)
    np.testing.assert_allclose(aggregation.eps_weights(eps, axis=0), eps / np.array([3.0, 5.0, 16.0]), rtol=1e-15)


def test_eps_weights_lose_the_squared_variation_of_eps_when_only_eps_differs():
    eps = np.array([0.5, 1.0, 4.0, 9.0])
    loss = aggregation.relative_excess(aggregation.eps_weights(eps), 1 / eps**2)
    assert loss == pytest.approx(eps.var() / eps.mean() ** 2, rel=1e-13)
    assert aggregation.relative_excess(np.ones(4), [3.0] * 4) == 0
    uniform = aggregation.relative_excess(np.ones(4), eps)
    assert uniform == pytest.approx(eps.mean() * (1 / eps).mean() - 1, rel=1e-13)


def test_weights_broadcast_along_an_axis():
    table = np.array([[1.0, 2.0], [4.0, 3.0]])
    assert aggregation.least_variance(table, axis=0).tolist() == pytest.approx([0.8, 1.2])
    assert aggregation.relative_excess(np.ones((2, 2)), table, axis=0).shape == (2,)
    assert aggregation.excess_variance([[1.0], [1.0]], table, axis=0).tolist() == pytest.approx([0.45, 0.05])
    assert aggregation.eps_weights([[1.0, 3.0]]).tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("weights", "sigma2s", "name"),
    [
        ([1.0, -1.0], [1.0, 1.0], "weights"),
        ([np.nan, 1.0], [1.0, 1.0], "weights"),
        ([1.0, 1.0], [0.0, 1.0], "variances"),
        ([1.0, 1.0], [1.0, np.inf], "variances"),
        ([], [], "weights"),
        (1.0, 1.0, "weights"),
    ],
)
def test_bad_weights_are_named(weights, sigma2s, name):
    with pytest.raises(ValueError, match=name):
        aggregation.relative_excess(weights, sigma2s)


def test_bad_eps_and_empty_variances_are_named():
    for bad in ([], 1.0, [0.0, 1.0], [-1.0, 2.0], [np.nan]):
        with pytest.raises(ValueError, match="eps"):
            aggregation.eps_weights(bad)
    with pytest.raises(ValueError, match="variances"):
        aggregation.least_variance([])


def test_left_out_numbers_stand_for_nothing_beside_the_batch_and_no_curvature():
    known = {"b": 3, "c": 2.0, "z": 0.0, "p": 1, "alignment": 0.5}
    for sampling in ("without replacement", "poisson"):  # nobody is outside of the batch
        assert dpsgd.batch_gradient_variance(**known, sampling=sampling) == 0
    straight = dpsgd.model_update_variance(K=2, N=10, eta=0.5, path="fixed mean", **known)
    assert dpsgd.model_update_variance(K=2, N=10, eta=0.5, path="curved", **known) == straight > 0


def test_noise_is_a_number_where_the_square_of_the_norm_is_none():
    assert dpsgd.batch_gradient_variance(b=1, c=1e200, z=1e-100, p=3) == pytest.approx(3e200, rel=1e-14)
