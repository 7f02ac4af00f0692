"""Strengths of many clients: against the closed forms by level and by silo, as minimisers, at the limits, by simulation."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.closed_forms import aggregation, mean_regularized, personalization
from estimators.server.strengths import personalization_strengths, personalized_mse

variance = st.floats(0.01, 100.0)
clients = st.lists(st.tuples(variance, st.floats(0.0, 100.0), st.floats(0.01, 1.0)), min_size=2, max_size=7)


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0.0, 50.0)), min_size=1, max_size=3), variance, st.floats(0.0, 10.0))
def test_levels_of_privacy_are_a_special_case(levels, alpha2, tau2):
    sizes, gamma2s = [size for size, _ in levels], [gamma2 for _, gamma2 in levels]
    level = np.repeat(np.arange(len(sizes)), sizes)
    noises = np.array([size * gamma2 for size, gamma2 in levels])[level]
    found = personalization_strengths(np.full(level.size, alpha2), tau2, noises=noises)
    for client, own in enumerate(level):
        described = (own + 1, sizes, gamma2s, alpha2, tau2)
        if level.size > 1:
            expected = personalization.personalization_strength(*described, own_noise=True)
            assert found.lam[client] == pytest.approx(float(expected), rel=1e-12)
        assert found.mse[client] == pytest.approx(personalization.local_mse(found.lam[client], *described, own_noise=True))


@given(st.lists(variance, min_size=2, max_size=7), st.floats(0.0, 10.0))
def test_unequal_silos_are_a_special_case(sigma2_locs, tau2):
    found = personalization_strengths(sigma2_locs, tau2, weights="uniform")
    for k in range(len(sigma2_locs)):
        lam = float(mean_regularized.silo_strength(k, sigma2_locs, tau2))
        if lam < 0 or lam > 1e10:  # the best of the strengths >= 0 is then inf
            assert found.lam[k] > 1e9
        else:
            assert found.lam[k] == pytest.approx(lam, rel=1e-7, abs=1e-12)
        assert found.mse[k] == pytest.approx(mean_regularized.silo_mse(found.lam[k], k, sigma2_locs, tau2), rel=1e-12)
    best = personalization_strengths(sigma2_locs, tau2)
    for k in range(len(sigma2_locs)):
        assert best.mse[k] == pytest.approx(mean_regularized.silo_mmse(k, sigma2_locs, tau2), rel=1e-9)
    if tau2 > 1e-300:
        np.testing.assert_allclose(best.lam, np.array(sigma2_locs) / tau2, rtol=1e-12)


def test_a_common_strength_of_silos_is_that_of_their_mean_variance():
    equal = personalization_strengths([0.5] * 4, 0.25, weights="uniform")
    assert equal.lam.tolist() == [mean_regularized.strength(0.5, 0.25)] * 4
    assert equal.mse == pytest.approx([mean_regularized.optimal_mse(0.5, 0.25, 4)] * 4)
    unequal = personalization_strengths([0.2, 0.4, 0.9], 0.25, weights="uniform", common=True)
    assert unequal.lam == pytest.approx([2.0] * 3)


@given(clients, st.floats(0.0, 10.0), st.sampled_from(["precision", "uniform", "own"]), st.booleans())
def test_no_other_strength_does_better(table, tau2, weights, common):
    own, noises, shares = np.array(table).T
    described = {"noises": noises, "weights": shares / shares.sum() if weights == "own" else weights}
    best = personalization_strengths(own, tau2, common=common, **described)
    assert (best.lam >= 0).all()
    for lam in (0.0, 0.01, 1.0, 30.0, np.inf, *(best.lam[:1] * [0.97, 1.03])):
        other = personalized_mse(lam, own, tau2, **described)
        excess = (other.mean() / best.mse.mean() if common else other / best.mse) - 1
        assert (excess >= -1e-9).all()
    np.testing.assert_allclose(personalized_mse(best.lam, own, tau2, **described), best.mse, rtol=1e-12)


def test_predicted_errors_are_those_of_a_simulation():
    gen, reps = np.random.default_rng(21), 100_000
    own, noises, tau2 = np.array([0.5, 1.0, 2.0, 0.1]), np.array([0.0, 3.0, 1.0, 0.5]), 0.7
    truth = np.sqrt(tau2) * gen.normal(size=(reps, 4))
    estimates = truth + np.sqrt(own) * gen.normal(size=(reps, 4))
    messages = estimates + np.sqrt(noises) * gen.normal(size=(reps, 4))
    for weights in ("precision", "uniform", np.array([0.1, 0.2, 0.3, 0.4])):
        found = personalization_strengths(own, tau2, noises=noises, weights=weights)
        w = {"precision": aggregation.precision_weights(own + noises + tau2), "uniform": np.full(4, 0.25)}
        theta = messages @ (w[weights] if isinstance(weights, str) else weights)
        reported = (estimates + found.lam * theta[:, None]) / (1 + found.lam)
        observed = np.mean((reported - truth) ** 2, axis=0)
        assert np.abs(observed / found.mse - 1).max() < 5 * np.sqrt(2 / reps)  # 5 standard errors


def test_limits():
    lone = personalization_strengths([2.0], 1.0, noises=3.0)
    assert (lone.lam.tolist(), lone.mse.tolist()) == ([0.0], [2.0])
    assert personalization_strengths([1.0, 2.0], 0.0).lam.tolist() == [np.inf] * 2  # identical clients share fully
    # ... but a client that keeps its noise-free estimate does not trust the average with its own noise in it fully.
    private = personalization_strengths([1.0, 2.0], 0.0, noises=[0.0, 5.0])
    assert private.lam[0] == np.inf
    assert private.lam[1] < np.inf
    assert personalization_strengths([0.0, 1.0], 1.0).lam.tolist() == [0.0, 1.0]
    mute = personalization_strengths([1.0, 1.0, 1.0], 0.5, noises=[0.0, 1.0, np.inf])
    pair = aggregation.least_variance([1.5, 2.5])
    assert mute.mse[2] == pytest.approx(1 / (1 / 1.0 + 1 / (0.5 + pair)))
    only = personalization_strengths([1.0, 1.0], 0.5, noises=[2.0, np.inf])
    assert only.lam.tolist() == pytest.approx([0.0, 1.0 / (0.5 + 3.5)])
    # A silo far noisier than K tau2 + the others: no strength >= 0 is large enough.
    assert personalization_strengths([4.0, 1.0, 1.0], 0.5, weights="uniform").lam[0] == np.inf


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_no_digits_are_lost_where_terms_cancel(unit):
    """A silo so noisy that hardly any strength is large enough: what is left of the terms is 1e-9 of each."""
    own, tau2, w = [0.0, 0.37 * unit, np.sqrt(0.66) * unit], np.sqrt(0.5) * unit, Fraction(1, 3)
    most = (1 - w) ** 2 * Fraction(tau2) + sum(w**2 * (Fraction(tau2) + Fraction(a)) for a in own[1:])
    own[0] = float(most / (w * (1 - w)) * (1 - Fraction(1, 10**9)))
    exact = (1 - w) * Fraction(own[0]) / (most - w * (1 - w) * Fraction(own[0]))
    assert personalization_strengths(own, tau2, weights="uniform").lam[0] == pytest.approx(float(exact), rel=1e-14)


def test_the_claim_that_a_strength_is_an_instance_of():
    def claim(*arguments, **options):
        return personalization_strengths(*arguments, **options).claim

    assert claim([1.0, 1.0], 1.0, weights="uniform") == "mrmtl:thm6.3"
    assert claim([1.0, 2.0], 1.0, weights="uniform", common=True) == "mrmtl:thm6.3"
    assert claim([1.0, 2.0], 1.0, weights="uniform") == "mrmtl:thmE.5"
    assert claim([1.0, 2.0], 1.0) == "mrmtl:mmse"
    assert claim([1.0, 1.0], 1.0, noises=[0.0, 1.0]) == "fedhdp:levels:lambda"


@given(clients, st.floats(0.01, 10.0), st.floats(1e-6, 1e6))
def test_strengths_have_no_unit(table, tau2, unit):
    own, noises, shares = np.array(table).T
    for weights in ("precision", shares / shares.sum()):
        base = personalization_strengths(own, tau2, noises=noises, weights=weights)
        other = personalization_strengths(unit * own, unit * tau2, noises=unit * noises, weights=weights)
        sound = base.lam < 1e6
        np.testing.assert_allclose(other.lam[sound], base.lam[sound], rtol=1e-6)
        np.testing.assert_allclose(other.mse, unit * base.mse, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], 1.0), {}, "own_variances must be a list"),
        (([1.0, np.nan], 1.0), {}, "own_variances holds NaN"),
        (([1.0, -1.0], 1.0), {}, "own_variances must be >= 0"),
        (([1.0, np.inf], 1.0), {}, "own_variances must be finite"),
        (([1.0, 1.0], -1.0), {}, "tau2 must be >= 0"),
        (([1.0, 1.0], [1.0, 1.0]), {}, "tau2 must be a single number"),
        (([1.0, 1.0], 1.0), {"noises": [1.0]}, "noises must be one number or one"),
        (([1.0, 1.0], 1.0), {"noises": np.inf}, "noises are all infinite"),
        (([1.0, 1.0], 1.0), {"noises": np.inf, "weights": "uniform"}, "noises must be finite"),
        (([1.0, 1.0], 1.0), {"weights": "eps"}, "weights must be 'precision'"),
        (([1.0, 1.0], 1.0), {"weights": [1.0]}, "weights must have one entry"),
        (([1.0, 1.0], 1.0), {"weights": [1.0, 1.0]}, "weights must add to one"),
        (([1.0, 1.0], 1.0), {"weights": [2.0, -1.0]}, "weights must be >= 0"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        personalization_strengths(*arguments, **options)


def test_bad_strengths_are_named():
    with pytest.raises(ValueError, match="lam must be >= 0"):
        personalized_mse(-0.5, [1.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="lam must be one number or one"):
        personalized_mse([1.0, 1.0, 1.0], [1.0, 1.0], 1.0)


def test_clients_whose_variances_are_as_far_apart_as_may_be_have_strengths():
    """Of others as good as one of variance 2e-300 a client whose own is 1e-300 takes half; from deaf ones nothing."""
    found = personalization_strengths([1e-300] * 3, 0.0, noises=[1e-300, 1e300, 1e300])
    assert found.lam[1:] == pytest.approx(0.5, rel=1e-12)
    assert found.lam[0] == 0.0
