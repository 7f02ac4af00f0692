"""Laws of the closed forms and estimators, and an exact rational oracle that knows the model only."""

import csv
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from estimators.closed_forms import aggregation, gaussian, mean_regularized, personalization, regression
from estimators.closed_forms.gaussian import from_samples, james_stein
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.numerics.limits import harmonic, quotient, share, split, times
from estimators.tables.datasets import efron_morris

TIGHT = 1e-12

magnitudes = st.floats(-12, 12).map(lambda exponent: 10.0**exponent)
variances = magnitudes | st.just(0.0)
sizes = st.integers(1, 5)
strengths = magnitudes | st.sampled_from([0.0, np.inf])
owns = st.booleans()


@st.composite
def level_lists(draw, gammas=variances, max_levels=3):
    count = draw(st.integers(1, max_levels))
    return draw(st.lists(sizes, min_size=count, max_size=count)), draw(st.lists(gammas, min_size=count, max_size=count))


def close(value, exact, rtol=TIGHT):
    np.testing.assert_allclose(np.asarray(value, float), np.asarray(exact, float), rtol=rtol, atol=0)


# --- the oracle: errors as combinations of independent noises, in exact arithmetic -------------------------


def expand(level_sizes, gamma2s):
    """Return the exact message noise of every single client, level after level."""
    return [Fraction(g) * N for N, g in zip(level_sizes, gamma2s, strict=True) for _ in range(N)]


def combination_mse(weights_on_y, weights_on_l, target, alpha2s, tau2, noises):
    """MSE of sum a_i y_i + b_i l_i as an estimate of phi_target (None: of the centre), where sum a_i = 1."""
    total = Fraction(0)
    for i, (a, b) in enumerate(zip(weights_on_y, weights_on_l, strict=True)):
        total += (a - (i == target)) ** 2 * Fraction(tau2) + a**2 * Fraction(alpha2s[i]) + b**2 * noises[i]
    return total


def personalised_mse(lam, own, weights, alpha2s, tau2, noises, own_noise):
    """Exact MSE of (y_own + lam theta) / (1 + lam)."""
    pull = Fraction(1) if lam == np.inf else Fraction(lam) / (1 + Fraction(lam))
    on_y = [pull * w for w in weights]
    on_l = list(on_y)
    on_y[own] += 1 - pull
    if not own_noise:
        on_l[own] = Fraction(0)
    return combination_mse(on_y, on_l, own, alpha2s, tau2, noises)


def best_weights(covariance):
    """Exact weights adding to one with the smallest variance, for an invertible covariance of Fractions."""
    n = len(covariance)
    rows = [[*row, Fraction(1)] for row in covariance]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    total = sum(row[-1] for row in rows)
    return [row[-1] / total for row in rows], 1 / total


def bayes_oracle(own, alpha2s, tau2, noises):
    """Exact posterior variance of phi_own given y_own and all other messages, under a flat prior."""
    covariance = []
    for i, (alpha2, noise) in enumerate(zip(alpha2s, noises, strict=True)):
        row = [Fraction(0) if own in (i, k) else Fraction(tau2) for k in range(len(noises))]
        row[i] = Fraction(alpha2) if i == own else 2 * Fraction(tau2) + Fraction(alpha2) + noise
        covariance.append(row)
    return best_weights(covariance)[1]


# --- arithmetic at the limits ------------------------------------------------------------------------------


@given(variances | st.just(np.inf), variances | st.just(np.inf))
def test_harmonic_and_share_are_one_law(x, y):
    assert 0 <= harmonic(x, y) <= min(x, y)
    assert harmonic(x, y) == harmonic(y, x)
    assert 0 <= share(x, y) <= 1
    if x + y > 0:
        close(share(x, y) + share(y, x), 1)
    if np.isfinite(x + y):
        close(harmonic(x, y), times(x, share(y, x)), rtol=1e-15)


def test_zero_beats_infinity():
    assert times(0, np.inf) == 0
    assert quotient(0, 0) == 0
    assert quotient(1, -0.0) == np.inf
    assert quotient(1, np.inf) == 0
    assert [float(weight) for weight in split(-np.inf)] == [0, 1]


# --- aggregation -------------------------------------------------------------------------------------------


@given(level_lists(), magnitudes, variances, st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_server_mse_is_the_models(levels, alpha2, tau2, ratios):
    noises = expand(*levels)
    per_client = [Fraction(r) for N, r in zip(levels[0], ratios, strict=False) for _ in range(N)]
    weights = [r / sum(per_client) for r in per_client]
    exact = combination_mse(weights, weights, None, [alpha2] * len(noises), tau2, noises)
    ratios = ratios[: len(levels[0])]
    close(aggregation.server_mse(*levels, alpha2, tau2, ratios), exact)
    close(aggregation.level_weights(*levels, alpha2, tau2, ratios)[0], weights[0])
    # No weights do better than the optimal ones, which are the oracle's.
    diagonal = [
        [Fraction(alpha2) + Fraction(tau2) + g if i == k else Fraction(0) for k in range(len(noises))]
        for i, g in enumerate(noises)
    ]
    best, smallest = best_weights(diagonal)
    close(aggregation.server_mse(*levels, alpha2, tau2), smallest)
    close(aggregation.level_weights(*levels, alpha2, tau2)[0], best[0])
    close(
        aggregation.server_mse(*levels, alpha2, tau2, aggregation.level_ratios(*levels, alpha2, tau2)),
        smallest,
    )


@given(level_lists(variances | st.just(np.inf)), variances, variances)
def test_weights_of_all_clients_add_to_one(levels, alpha2, tau2):
    weights = aggregation.level_weights(*levels, alpha2, tau2)
    assert (weights >= 0).all()
    close(np.dot(levels[0], weights), 1)


@given(level_lists(max_levels=4), magnitudes, variances, st.randoms())
def test_order_of_levels_does_not_matter(levels, alpha2, tau2, random):
    order = list(range(len(levels[0])))
    random.shuffle(order)
    shuffled = [[entries[i] for i in order] for entries in levels]
    close(aggregation.server_mse(*shuffled, alpha2, tau2), aggregation.server_mse(*levels, alpha2, tau2))
    weights = aggregation.level_weights(*levels, alpha2, tau2)
    close(aggregation.level_weights(*shuffled, alpha2, tau2), weights[order])
    for own_noise in (False, True):
        close(
            personalization.personalization_strength(1, *shuffled, alpha2, tau2, own_noise=own_noise),
            personalization.personalization_strength(order[0] + 1, *levels, alpha2, tau2, own_noise=own_noise),
        )


@given(sizes, sizes, sizes, magnitudes, variances, magnitudes, variances, strengths, owns)
def test_levels_of_equal_noise_merge(N1, N2, N3, noise, other, alpha2, tau2, lam, own_noise):
    apart = [N1, N2, N3], [noise / N1, noise / N2, other]
    merged = [N1 + N2, N3], [noise / (N1 + N2), other]
    rest = alpha2, tau2
    close(aggregation.server_mse(*apart, *rest), aggregation.server_mse(*merged, *rest))
    close(personalization.bayes_mse(2, *apart, *rest), personalization.bayes_mse(1, *merged, *rest))
    for function in (
        lambda *args: personalization.personalization_strength(*args, own_noise=own_noise),
        lambda *args: personalization.local_mse(lam, *args, own_noise=own_noise),
    ):
        close(function(2, *apart, *rest), function(1, *merged, *rest))


@given(level_lists(), magnitudes, variances, magnitudes)
def test_units_of_variance_do_not_matter(levels, alpha2, tau2, unit):
    scaled = levels[0], [g * unit for g in levels[1]]
    mse = aggregation.server_mse(*levels, alpha2, tau2)
    close(aggregation.server_mse(*scaled, alpha2 * unit, tau2 * unit), mse * unit)
    strength = personalization.personalization_strength(1, *levels, alpha2, tau2, own_noise=True)
    again = personalization.personalization_strength(1, *scaled, alpha2 * unit, tau2 * unit, own_noise=True)
    close(again, strength)


@given(level_lists(), sizes, magnitudes, variances, owns)
def test_infinite_noise_is_like_absence(levels, N, alpha2, tau2, own_noise):
    more = [*levels[0], N], [*levels[1], np.inf]
    assert aggregation.server_mse(*more, alpha2, tau2) == aggregation.server_mse(*levels, alpha2, tau2)
    assert aggregation.level_weights(*more, alpha2, tau2)[-1] == 0
    for function in (
        personalization.bayes_mse,
        lambda *args: personalization.personalization_strength(*args, own_noise=own_noise),
        lambda *args: personalization.local_mse(0.7, *args, own_noise=own_noise),
    ):
        close(function(1, *more, alpha2, tau2), function(1, *levels, alpha2, tau2))


def test_infinite_noise_is_the_limit_of_large_noise():
    for own_noise in (False, True):
        for function in (
            lambda g, own=own_noise: personalization.personalization_strength(2, [3, 4], [0.2, g], 1.0, 0.5, own_noise=own),
            lambda g, own=own_noise: personalization.local_mse(0.7, 2, [3, 4], [0.2, g], 1.0, 0.5, own_noise=own),
        ):
            close(function(1e15), function(np.inf), rtol=1e-13)


@given(st.integers(1, 9), st.integers(0, 9), magnitudes, magnitudes, variances)
def test_gaps_are_differences_of_server_errors(np_tenths, extra, alpha2, gamma2, tau2):
    N_np, N_p = np_tenths, 1 + extra
    N, sigma2_c = N_np + N_p, Fraction(alpha2) + Fraction(tau2)
    private = sigma2_c + N_p * Fraction(gamma2)
    optimum = 1 / (N_np / sigma2_c + N_p / private)
    hdp = (N_np * sigma2_c + N_p * private) / N**2
    dp = private / N
    close(aggregation.gap_to_uniform(N_np, N_p, alpha2, tau2, gamma2), hdp - optimum)
    close(aggregation.gap_dp_fedavg(N_np, N_p, alpha2, tau2, gamma2), dp - optimum)
    close(aggregation.gap_dp_to_uniform(N_np, N_p, gamma2), dp - hdp)
    close(aggregation.server_mse([N_np, N_p], [0, gamma2], alpha2, tau2), optimum)
    close(aggregation.optimal_ratio(N_np, N_p, alpha2, tau2, 0, gamma2), sigma2_c / private)


def test_a_level_of_endless_noise_has_no_weight_beside_another():
    for noise, ratio in ((np.inf, 0.0), (1e15, 3.5 / (1.5 + 3e15)), (1.0, 3.5 / 4.5)):
        close(aggregation.optimal_ratio(2, 3, 1.0, 0.5, 1.0, noise), ratio)
    assert aggregation.optimal_ratio(2, 3, 1.0, 0.5, np.inf, 1.0) == np.inf
    assert aggregation.optimal_ratio(2, 3, 1.0, 0.5, np.inf, np.inf) == 1.0  # no information on either side


def test_gap_limits():
    N_np = np.array([0, 5, 10])
    for gap in (aggregation.gap_to_uniform, aggregation.gap_dp_fedavg):
        assert gap(N_np, 10 - N_np, 1, 1, np.inf).tolist() == [0, np.inf, 0]
        assert (gap(N_np, 10 - N_np, 1, 1, 0) == 0).all()
    close(aggregation.gap_to_uniform(0.25e15, 0.75e15, 1, 1, 2), 0.75**2 * 2, rtol=1e-12)
    close(aggregation.gap_dp_fedavg(0.25e15, 0.75e15, 1, 1, 2), 0.75 * 2, rtol=1e-12)


def test_ratios_without_information():
    assert aggregation.level_ratios([1, 1], [np.inf, np.inf], 1, 1).tolist() == [1, 1]
    assert aggregation.level_ratios([1, 1], [np.inf, 0], 1, 1).tolist() == [1, np.inf]
    assert aggregation.server_mse([1, 1], [np.inf, np.inf], 1, 1) == np.inf
    assert aggregation.precision_weights([0.0, 0.0, 1.0]).tolist() == [0.5, 0.5, 0]
    assert aggregation.precision_weights([np.inf, np.inf]).tolist() == [0.5, 0.5]


def test_closed_forms_broadcast():
    alpha2, tau2 = np.array([0.5, 1.0, 2.0]), np.array([[0.0], [1.0]])
    gammas = [0.0, np.array([0.3, 0.6, 0.9])]
    ratios = [1.0, np.array([[0.2], [0.4]])]
    lam = 0.8
    for ratio in (None, ratios):
        weights = aggregation.level_weights([2, 3], gammas, alpha2, tau2, ratio)
        mse = aggregation.server_mse([2, 3], gammas, alpha2, tau2, ratio)
        local = personalization.local_mse(lam, 2, [2, 3], gammas, alpha2, tau2, ratio, own_noise=True)
        best = personalization.personalization_strength(2, [2, 3], gammas, alpha2, tau2, ratio, own_noise=True)
        assert mse.shape == local.shape == best.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            one = [2, 3], [0.0, gammas[1][j]], alpha2[j], tau2[i, 0], ratio and [1.0, ratio[1][i, 0]]
            close(np.broadcast_to(weights, (2, 2, 3))[:, i, j], aggregation.level_weights(*one))
            close(mse[i, j], aggregation.server_mse(*one))
            close(local[i, j], personalization.local_mse(lam, 2, *one, own_noise=True))
            close(best[i, j], personalization.personalization_strength(2, *one, own_noise=True))


def test_entries_of_levels_may_have_more_axes_than_the_variances():
    gammas = [0.0, np.array([[0.3, 0.6, 0.9], [0.1, 0.2, 0.4]])]
    for ratios in (None, [1.0, 0.4], [np.ones(3), np.array([0.2, 0.4, 0.5])]):
        weights = aggregation.level_weights([2, 3], gammas, 0.5, 1.0, ratios)
        assert aggregation.message_variances([2, 3], gammas, 0.5, 1.0).shape == (2, 2, 3)
        for i, j in np.ndindex(2, 3):
            ratio = ratios and [np.broadcast_to(entry, 3)[j] for entry in ratios]
            one = aggregation.level_weights([2, 3], [0.0, gammas[1][i, j]], 0.5, 1.0, ratio)
            close(np.broadcast_to(weights, (2, 2, 3))[:, i, j], one)


# --- personalization ---------------------------------------------------------------------------------------


def per_client_weights(levels, alpha2, tau2, ratios):
    if ratios is None:
        relative = [1 / (Fraction(alpha2) + Fraction(tau2) + g) for g in expand(*levels)]
    else:
        relative = [Fraction(r) for N, r in zip(levels[0], ratios, strict=True) for _ in range(N)]
    return [r / sum(relative) for r in relative]


ratio_lists = st.none() | st.lists(st.integers(1, 50), min_size=3, max_size=3)


@given(level_lists(), st.data(), strengths, magnitudes, variances, ratio_lists, owns)
def test_local_mse_is_the_models(levels, data, lam, alpha2, tau2, ratios, own_noise):
    level = data.draw(st.integers(1, len(levels[0])))
    ratios = ratios and ratios[: len(levels[0])]
    noises = expand(*levels)
    own = sum(levels[0][: level - 1])
    weights = per_client_weights(levels, alpha2, tau2, ratios)
    alpha2s = [alpha2] * len(noises)
    exact = personalised_mse(lam, own, weights, alpha2s, tau2, noises, own_noise)
    close(personalization.local_mse(lam, level, *levels, alpha2, tau2, ratios, own_noise=own_noise), exact)


@given(level_lists(), st.data(), magnitudes, variances, ratio_lists, owns)
def test_strength_is_where_the_exact_error_is_least(levels, data, alpha2, tau2, ratios, own_noise):
    level = data.draw(st.integers(1, len(levels[0])))
    ratios = ratios and ratios[: len(levels[0])]
    noises = expand(*levels)
    assume(len(noises) > 1)
    own = sum(levels[0][: level - 1])
    args = (
        own,
        per_client_weights(levels, alpha2, tau2, ratios),
        [alpha2] * len(noises),
        tau2,
        noises,
        own_noise,
    )
    strength = personalization.personalization_strength(level, *levels, alpha2, tau2, ratios, own_noise=own_noise)
    # The error is a parabola in the pull u = lam / (1 + lam): three exact values give its exact vertex.
    at_0, at_half, at_1 = (personalised_mse(lam, *args) for lam in (0, 1, np.inf))
    slope, curvature = 4 * at_half - 3 * at_0 - at_1, 2 * (at_0 + at_1 - 2 * at_half)
    vertex = -slope / (2 * curvature)
    pull = Fraction(1) if strength == np.inf else Fraction(float(strength)) / (1 + Fraction(float(strength)))
    excess = curvature * (pull - vertex) ** 2
    assert 0 <= excess <= Fraction(1, 10**20) * (at_0 + slope * vertex + curvature * vertex**2)
    if ratios is None:
        close(strength, np.inf if vertex == 1 else vertex / (1 - vertex))


@given(level_lists(), st.data(), strengths, magnitudes, variances, owns)
def test_bayes_bounds_the_best_strength_bounds_any(levels, data, lam, alpha2, tau2, own_noise):
    level = data.draw(st.integers(1, len(levels[0])))
    setting = level, *levels, alpha2, tau2
    best = personalization.personalization_strength(*setting, own_noise=own_noise)
    bayes = personalization.bayes_mse(*setting)
    at_best = personalization.local_mse(best, *setting, own_noise=own_noise)
    assert bayes <= at_best * (1 + TIGHT)
    assert at_best <= personalization.local_mse(lam, *setting, own_noise=own_noise) * (1 + TIGHT)
    if not own_noise:
        close(at_best, bayes)  # the paper's Lemma 3, for any number of levels
    else:
        lower = personalization.local_mse(lam, *setting, own_noise=False)
        assert lower <= personalization.local_mse(lam, *setting, own_noise=True) * (1 + TIGHT)


@given(level_lists(), st.data(), magnitudes, magnitudes)
def test_bayes_mse_is_the_posterior_variance(levels, data, alpha2, tau2):
    level = data.draw(st.integers(1, len(levels[0])))
    noises = expand(*levels)
    exact = bayes_oracle(sum(levels[0][: level - 1]), [alpha2] * len(noises), tau2, noises)
    close(personalization.bayes_mse(level, *levels, alpha2, tau2), exact)


@given(level_lists(magnitudes), magnitudes, magnitudes, owns, st.floats(1, 1e6))
def test_strength_falls_with_own_noise_and_with_heterogeneity(levels, alpha2, tau2, own_noise, factor):
    def strength(gamma2, tau2):
        gammas = [gamma2, *levels[1][1:]]
        return personalization.personalization_strength(1, levels[0], gammas, alpha2, tau2, own_noise=own_noise) / (
            1 + TIGHT
        )

    assert strength(levels[1][0] * factor, tau2) <= strength(levels[1][0], tau2) * (1 + 2 * TIGHT)
    # With its own noise in its message, little heterogeneity leaves the server's average mostly that message (when it is the
    # quieter one), and strength rises at first: 0.1857 to 0.1890 for tau2 = 0.01 to 0.02 at alpha2 = 0.1, noises 0.1 and 1.
    if not own_noise:
        assert strength(levels[1][0], tau2 * factor) <= strength(levels[1][0], tau2) * (1 + 2 * TIGHT)


@given(sizes, magnitudes, magnitudes, ratio_lists)
def test_without_noise_nobody_minds_whose_noise(N, alpha2, tau2, ratios):
    setting = 1, [N, 2], [0.0, 1.0], alpha2, tau2, ratios and ratios[:2]
    true, false = (personalization.personalization_strength(*setting, own_noise=own) for own in (True, False))
    assert true == false


def test_a_client_alone():
    for ratios in (None, [1]):
        setting = 1, [1], [2.0], 1.0, 0.5, ratios
        assert personalization.personalization_strength(*setting, own_noise=True) == 0
        assert personalization.local_mse(1.0, *setting, own_noise=True) == 1.5
        assert personalization.local_mse(1.0, *setting, own_noise=False) == 1
    assert personalization.bayes_mse(1, [1], [2.0], 1.0, 0.5) == 1


def test_an_overrated_client_has_a_negative_strength():
    setting = 1, [1, 9], [0.0, 0.0], 4.0, 0.01, [5.0, 1.0]
    best = personalization.personalization_strength(*setting, own_noise=True)
    assert best < -1
    errors = personalization.local_mse(np.array([0.0, 1.0, 10.0, 1e3, np.inf]), *setting, own_noise=True)
    assert (np.diff(errors) < 0).all()
    assert personalization.local_mse(best, *setting, own_noise=True) < errors[-1]


# --- mean regularisation -----------------------------------------------------------------------------------


@given(strengths, magnitudes, variances, st.integers(1, 9))
def test_plain_averaging_is_one_noiseless_level(lam, sigma2_loc, tau2, K):
    mse = mean_regularized.mse(lam, sigma2_loc, tau2, K)
    close(mse, personalization.local_mse(lam, 1, [K], [0.0], sigma2_loc, tau2, own_noise=True))
    best = mean_regularized.strength(sigma2_loc, tau2)
    close(best, personalization.personalization_strength(1, [K], [0.0], sigma2_loc, tau2, own_noise=True))
    optimum = mean_regularized.optimal_mse(sigma2_loc, tau2, K)
    close(optimum, mean_regularized.mse(best, sigma2_loc, tau2, K))
    close(optimum, personalization.bayes_mse(1, [K], [0.0], sigma2_loc, tau2))
    assert optimum <= mse * (1 + TIGHT)
    close(mean_regularized.mse(0, sigma2_loc, tau2, K), sigma2_loc)


@given(magnitudes, magnitudes, st.integers(2, 9))
def test_gaps_to_both_ends(sigma2_loc, tau2, K):
    s, t = Fraction(sigma2_loc), Fraction(tau2)
    at = {u: (1 - Fraction(1, K)) * ((1 - u) ** 2 * s + u**2 * t) + s / K for u in (0, 1, s / (s + t))}
    close(mean_regularized.gap_to_local(sigma2_loc, tau2, K), at[0] - at[s / (s + t)])
    close(mean_regularized.gap_to_fedavg(sigma2_loc, tau2, K), at[1] - at[s / (s + t)])


@given(magnitudes, magnitudes, magnitudes, magnitudes)
def test_error_falls_and_then_rises_in_lam(sigma2_loc, tau2, lam, factor):
    assume(factor > 1)
    best = mean_regularized.strength(sigma2_loc, tau2)
    low, high = sorted([lam, lam * factor])
    near, far = (low, high) if low >= best else (high, low)
    assume((low - best) * (high - best) >= 0)
    errors = [mean_regularized.mse(x, sigma2_loc, tau2, 7) for x in (near, far)]
    assert errors[0] <= errors[1] * (1 + TIGHT)


@given(strengths, st.integers(1, 50), st.integers(1, 1000), variances, variances, magnitudes)
def test_privacy_gap_is_the_difference_of_two_errors(lam, K, n, sigma2, tau2, sigma2_dp):
    gap = mean_regularized.privacy_gap(lam, K, n, sigma2_dp)
    close(gap, mean_regularized.mse(lam, mean_regularized.local_variance(0.0, n, sigma2_dp), 0.0, K))
    noisy = mean_regularized.mse(lam, mean_regularized.local_variance(sigma2, n, sigma2_dp), tau2, K)
    close(mean_regularized.mse(lam, sigma2 / n, tau2, K) + gap, noisy)
    at_0, at_inf = (mean_regularized.privacy_gap(end, K, n, sigma2_dp) for end in (0, np.inf))
    close(at_0 / at_inf, K)


@given(strengths, st.integers(2, 9))
def test_own_weight_runs_from_one_to_its_share(lam, K):
    weight = mean_regularized.own_weight(lam, K)
    assert weight * (1 + TIGHT) >= 1 / K
    assert weight <= 1
    assert mean_regularized.own_weight(np.inf, K) == 1 / K


def test_training_error_needs_regularisation_only_against_noise():
    assert mean_regularized.train_strength(1.0, 10, 0.0, 0.5) == 0
    assert mean_regularized.train_strength(1.0, 10, 3.0, 0.5) > 0
    # To the empirical mean, sampling variance is heterogeneity: the same as tau2 + sigma2 / n between silos.
    close(mean_regularized.train_strength(1.0, 10, 3.0, 0.5), mean_regularized.strength(0.03, 0.6))


silo_lists = st.lists(magnitudes, min_size=2, max_size=6)


@given(silo_lists, st.data(), strengths, variances)
def test_silo_mse_is_the_models(silos, data, lam, tau2):
    k = data.draw(st.integers(0, len(silos) - 1))
    K = len(silos)
    exact = personalised_mse(lam, k, [Fraction(1, K)] * K, silos, tau2, [Fraction(0)] * K, True)
    close(mean_regularized.silo_mse(lam, k, silos, tau2), exact)


@given(silo_lists, st.data(), strengths, magnitudes)
def test_silo_strength_attains_its_posterior_variance(silos, data, lam, tau2):
    k = data.draw(st.integers(0, len(silos) - 1))
    posterior = mean_regularized.silo_posterior_variance(k, silos, tau2)
    mmse = mean_regularized.silo_mmse(k, silos, tau2)
    best = mean_regularized.silo_strength(k, silos, tau2)
    close(mean_regularized.silo_mse(best, k, silos, tau2), posterior, rtol=1e-9)
    assert mmse <= posterior * (1 + TIGHT)
    assert posterior <= mean_regularized.silo_mse(lam, k, silos, tau2) * (1 + TIGHT)
    close(mmse, bayes_oracle(k, silos, tau2, [Fraction(0)] * len(silos)))
    weights = mean_regularized.silo_mmse_weights(k, silos, tau2)
    close(weights.sum(), 1)
    exact_weights = [Fraction(float(w)) for w in weights]
    exact_weights[k] += 1 - sum(exact_weights)
    close(combination_mse(exact_weights, exact_weights, k, silos, tau2, [Fraction(0)] * len(silos)), mmse, 1e-9)


@given(magnitudes, magnitudes, variances, st.integers(2, 6))
def test_equal_other_silos_lose_nothing_in_a_plain_average(own, other, tau2, K):
    silos = [own, *[other] * (K - 1)]
    close(mean_regularized.silo_mmse(0, silos, tau2), mean_regularized.silo_posterior_variance(0, silos, tau2))
    equal = [own] * K
    close(mean_regularized.silo_strength(1, equal, tau2), mean_regularized.strength(own, tau2))
    close(mean_regularized.silo_mse(0.3, 1, equal, tau2), mean_regularized.mse(0.3, own, tau2, K))


def test_a_very_noisy_silo_does_best_with_the_plain_average():
    silos = [4.0, 1.0, 1.0]
    assert mean_regularized.silo_strength(0, silos, 0.5) < -3
    errors = mean_regularized.silo_mse(np.array([0, 1, 10, 1e6, np.inf]), 0, silos, 0.5)
    assert (np.diff(errors) < 0).all()
    assert mean_regularized.silo_strength(0, [2.5, 1.0, 1.0], 0.5) == np.inf


@pytest.mark.parametrize(("sigma2_loc", "tau2", "lam"), [(0, 0, 0), (0, 1, 0), (1, 0, np.inf), (1, np.inf, 0)])
def test_mean_regularised_limits(sigma2_loc, tau2, lam):
    assert mean_regularized.strength(sigma2_loc, tau2) == lam
    close(mean_regularized.mse(lam, sigma2_loc, tau2, 4), mean_regularized.optimal_mse(sigma2_loc, tau2, 4))


# --- Gaussian means: risks ---------------------------------------------------------------------------------


@given(variances, magnitudes, st.integers(1, 99), st.integers(2, 99), variances)
def test_risk_lies_between_full_sharing_and_no_sharing(sigma2_theta, sigma2_x, n, m, sigma2_q):
    value = gaussian.risk(sigma2_theta, sigma2_x, n, m, sigma2_q)
    local = gaussian.local_risk(sigma2_x, n)
    assert local / m <= value * (1 + TIGHT)
    assert value <= local * (1 + TIGHT)
    a = gaussian.shrinkage_factor(sigma2_theta, sigma2_x, n, sigma2_q, m)
    assert 0 <= a <= 1
    assert gaussian.shrinkage_factor(sigma2_theta, sigma2_x, n) <= a * (1 + TIGHT)
    close(gaussian.risk(sigma2_theta, sigma2_x, n, m, sigma2_q, d=3), 3 * value)
    close(
        gaussian.risk(sigma2_theta, sigma2_x, n, m),
        mean_regularized.optimal_mse(sigma2_x / n, sigma2_theta, m),
    )


@given(magnitudes, magnitudes, st.integers(1, 9), st.integers(2, 7), st.integers(1, 3))
def test_conditional_risk_averages_to_the_risk(sigma2_theta, sigma2_x, n, m, d):
    def at(theta):
        return gaussian.conditional_risk(theta, 1, sigma2_theta, sigma2_x, n)

    # A quadratic in theta: its mean is its value at 0 plus the variance times that along each axis.
    origin = np.zeros((m, d))
    average = at(origin)
    for i in range(m):
        for j in range(d):
            theta = origin.copy()
            theta[i, j] = np.sqrt(sigma2_theta)
            average += np.sum(gaussian.conditional_bias(theta, 1, sigma2_theta, sigma2_x, n) ** 2)
    close(average, gaussian.risk(sigma2_theta, sigma2_x, n, m, d=d))


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=6), magnitudes, magnitudes)
def test_bias_points_to_the_mean_and_cancels_over_clients(theta, sigma2_theta, sigma2_x):
    biases = [gaussian.conditional_bias(theta, i, sigma2_theta, sigma2_x, 1) for i in range(len(theta))]
    assert abs(sum(biases)) <= 1e-12 * len(theta) * 100
    for i, bias in enumerate(biases):
        assert bias * (np.mean(theta) - theta[i]) >= -1e-20


def test_shrinkage_limits():
    assert gaussian.shrinkage_factor(np.inf, 1.0, 1) == 1
    assert gaussian.shrinkage_factor(0.0, 1.0, 1) == 0
    close(gaussian.risk(np.inf, 3.0, 2, 5), 1.5)
    close(gaussian.risk(0.0, 3.0, 2, 5), 0.3)
    close(gaussian.james_stein_risk(6, np.inf, 3.0, 2), 1.5)
    close(gaussian.james_stein_risk(6, 0.0, 3.0, 2), 0.75)


# --- James-Stein -------------------------------------------------------------------------------------------

observations = st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=12).map(np.array)


@given(observations, magnitudes, st.floats(0.01, 100), st.floats(-1e3, 1e3), owns)
def test_james_stein_is_equivariant(x, variance, unit, shift, positive):
    assume(np.ptp(x) > 1e-3)
    base = james_stein(x, variance, positive_part=positive)
    scale = np.abs(base).max() + np.abs(x).max() + abs(shift)
    moved = james_stein(x * unit + shift, variance * unit**2, positive_part=positive)
    np.testing.assert_allclose(moved, base * unit + shift, rtol=0, atol=1e-6 * scale * max(unit, 1))
    np.testing.assert_allclose(james_stein(x[::-1], variance, positive_part=positive), base[::-1], rtol=1e-7)
    np.testing.assert_allclose(james_stein(x, 0.0, positive_part=positive), x, atol=1e-12 * scale)


@given(observations, magnitudes)
def test_positive_part_stays_between_observation_and_target(x, variance):
    for target in ("mean", 0.0):
        shrunk = james_stein(x, variance, toward=target)
        centre = x.mean() if target == "mean" else target
        assert (np.abs(shrunk - centre) <= np.abs(x - centre) * (1 + 1e-9) + 1e-9).all()
        assert ((shrunk - centre) * (x - centre) >= -1e-12).all()


def test_james_stein_of_equal_observations_and_of_many_rows():
    assert james_stein([2.0] * 4, 1.0, positive_part=False).tolist() == [2.0] * 4
    rows = np.arange(10.0).reshape(2, 5) ** 2
    np.testing.assert_array_equal(james_stein(rows, 1.0)[1], james_stein(rows[1], 1.0))


def test_james_stein_has_its_risk():
    """Check the simulated error to 5 standard errors: a false alarm with probability 6e-7."""
    rng = np.random.default_rng([1, 2])
    m, sigma2_theta, sigma2_x, n, reps = 6, 0.5, 2.0, 3, 200_000
    theta = rng.normal(size=(reps, m)) * np.sqrt(sigma2_theta)
    x = theta + rng.normal(size=(reps, m)) * np.sqrt(sigma2_x / n)
    errors = np.mean((james_stein(x, sigma2_x / n, positive_part=False) - theta) ** 2, axis=1)
    expected = gaussian.james_stein_risk(m, sigma2_theta, sigma2_x, n)
    standard_error = errors.std() / np.sqrt(reps)
    assert abs(errors.mean() - expected) < 5 * standard_error
    assert 5 * standard_error < 0.01 * expected  # so that an error of 1 % is seen
    assert gaussian.risk(sigma2_theta, sigma2_x, n, m) < expected < gaussian.local_risk(sigma2_x, n)


# --- Efron and Morris --------------------------------------------------------------------------------------


def test_efron_morris_totals():
    data = efron_morris()
    early, rest, k = data.hits / data.at_bats, data.average_rest, 45
    np.testing.assert_array_equal(early.round(3), data.average_45)
    mean = early.mean()
    variance = mean * (1 - mean) / k
    factor = 1 - 15 * variance / np.sum((early - mean) ** 2)
    assert round(factor, 3) == 0.212  # as printed in Efron and Morris (1977)
    shrunk = james_stein(early, variance)
    np.testing.assert_allclose(shrunk, mean + factor * (early - mean), rtol=1e-13)
    assert round(np.sum((early - rest) ** 2), 4) == 0.0753
    assert round(np.sum((shrunk - rest) ** 2), 4) == 0.0213
    # On the scale where the variance is 1.
    x, truth = (np.sqrt(k) * np.arcsin(2 * average - 1) for average in (early, rest))
    estimate = james_stein(x, 1.0)
    totals = [np.sum((e - truth) ** 2) for e in (x, estimate)]
    assert [round(total, 1) for total in totals] == [17.6, 5.0]
    assert round(totals[0] / totals[1], 1) == 3.5
    back = (1 + np.sin(estimate / np.sqrt(k))) / 2
    assert round(np.sum((back - rest) ** 2), 3) == 0.022


def test_efron_morris_agrees_with_both_copies(shared_data):
    data = efron_morris()
    with open(shared_data("efron_eb/efron_morris_1975_pscl.csv"), newline="") as file:
        pscl = {row["name"].split()[-1]: row for row in csv.DictReader(file)}
    with open(shared_data("efron_eb/efron_morris_1975_stan.tsv"), newline="") as file:
        stan = {row["LastName"].replace("Swaboda", "Swoboda"): row for row in csv.DictReader(file, delimiter="\t")}
    assert set(pscl) == set(stan) == set(data.clients)
    for i, name in enumerate(data.clients):
        assert data.hits[i] == int(pscl[name]["r"]) == int(stan[name]["Hits"])
        assert data.at_bats[i] == int(stan[name]["At-Bats"])
        assert data.average_45[i] == float(pscl[name]["y"]) == float(stan[name]["BattingAverage"])
        assert data.average_rest[i] == float(pscl[name]["p"])
        assert data.rest_at_bats[i] == int(pscl[name]["n"])
        if name != "Williams":  # the copies hold two different men of that name
            assert data.rest_at_bats[i] == int(stan[name]["RemainingAt-Bats"])
            slip = 0.0015 if name == "Kessinger" else 0.0005  # the paper prints .263 for 155 hits in 586
            assert abs(data.average_rest[i] - float(stan[name]["RemainingAverage"])) <= slip + 1e-9


# --- empirical Bayes ---------------------------------------------------------------------------------------

PRIORS = ("marginal-likelihood", "reml", "moments")


@st.composite
def clients(draw, min_size=3):
    m = draw(st.integers(min_size, 12))
    estimates = draw(st.lists(st.floats(-10, 10), min_size=m, max_size=m))
    sampling = draw(st.lists(st.floats(-3, 3).map(lambda x: 10.0**x), min_size=m, max_size=m))
    return np.array(estimates), np.array(sampling)


@given(clients(), st.floats(-6, 6).map(lambda x: 10.0**x), st.sampled_from(["marginal-likelihood", "reml"]))
def test_no_other_prior_variance_is_more_likely(data, tau2, prior):
    def objective(model):
        if prior == "marginal-likelihood":
            return model.log_likelihood_
        return model.log_likelihood_ + np.log(model.mu_sd_)  # mu integrated out, up to a constant

    best = GaussianMeans(prior).fit(*data)
    assert best.converged_
    for other in (tau2, best.tau2_ * 1.01, best.tau2_ * 0.99, 0.0):
        fixed = GaussianMeans("fixed", tau2=other).fit(*data)
        assert objective(fixed) <= objective(best) + 1e-9 * (1 + abs(objective(best)))
    shifted = GaussianMeans("fixed", mu=best.mu_ + 0.1, tau2=best.tau2_).fit(*data)
    assert shifted.log_likelihood_ <= best.log_likelihood_


@given(clients())
def test_moments_condition_holds_or_the_prior_variance_is_zero(data):
    model = GaussianMeans("moments").fit(*data)
    total = np.sum((data[0] - model.mu_) ** 2 / (model.tau2_ + data[1]))
    if model.tau2_ > 0:
        close(total, len(data[0]) - 1, rtol=1e-9)
    else:
        assert total <= (len(data[0]) - 1) * (1 + 1e-9)


@given(
    clients(),
    st.floats(-8, 8).map(lambda x: 10.0**x),
    st.floats(-10, 10),
    st.sampled_from(PRIORS),
    st.randoms(),
)
def test_fit_is_equivariant(data, unit, shift, prior, random):
    estimates, sampling = data
    order = list(range(len(estimates)))
    random.shuffle(order)
    one = GaussianMeans(prior).fit(estimates, sampling)
    two = GaussianMeans(prior).fit((estimates[order] + shift) * unit, sampling[order] * unit**2)
    spread = np.ptp(estimates) + np.abs(estimates).max() + abs(shift)
    # Near a flat top (or at the boundary) tau2 is only as good as the square root of the roundoff.
    np.testing.assert_allclose(two.tau2_ / unit**2, one.tau2_, rtol=1e-5, atol=1e-6 * sampling.min())
    tolerance = 1e-4 * spread
    np.testing.assert_allclose(two.posterior_mean_ / unit - shift, one.posterior_mean_[order], atol=tolerance)
    np.testing.assert_allclose(two.posterior_sd_ / unit, one.posterior_sd_[order], rtol=1e-4)
    likelihood = one.log_likelihood_ - len(order) * np.log(unit)
    assert two.log_likelihood_ == pytest.approx(likelihood, rel=1e-9, abs=1e-9)


@given(clients(), st.sampled_from(PRIORS))
def test_equal_variances_have_a_closed_form_that_the_search_finds(data, prior):
    estimates, variance = data[0], data[1][0]
    m = len(estimates)
    exact = GaussianMeans(prior).fit(estimates, variance)
    freedom = m if prior == "marginal-likelihood" else m - 1
    close(exact.tau2_, max(0.0, np.var(estimates) * m / freedom - variance), rtol=1e-9)
    nearly = np.full(m, variance)
    nearly[0] *= 1 + 1e-12
    searched = GaussianMeans(prior).fit(estimates, nearly)
    assert searched.n_iter_ > exact.n_iter_
    np.testing.assert_allclose(searched.tau2_, exact.tau2_, rtol=1e-9, atol=1e-9 * variance)


@given(clients(), st.sampled_from(PRIORS))
def test_posterior_lies_between_own_estimate_and_mu(data, prior):
    model = GaussianMeans(prior).fit(*data)
    low, high = np.minimum(data[0], model.mu_), np.maximum(data[0], model.mu_)
    assert (low - 1e-9 <= model.posterior_mean_).all()
    assert (model.posterior_mean_ <= high + 1e-9).all()
    assert (model.posterior_sd_ <= np.sqrt(data[1]) * (1 + 1e-9)).all()  # others never hurt
    assert ((model.weights_ >= 0) & (model.weights_ <= 1)).all()
    if prior != "marginal-likelihood" and model.tau2_ == 0:
        np.testing.assert_allclose(model.posterior_mean_, model.mu_, rtol=1e-12, atol=1e-12)


@given(clients(), magnitudes)
def test_posterior_sd_is_that_of_the_joint_model_with_a_flat_prior_on_mu(data, tau2):
    tau2 = min(max(tau2, 1e-4), 1e4)
    estimates, sampling = data
    model = GaussianMeans("fixed", tau2=tau2).fit(estimates, sampling)
    m = len(estimates)
    # The precision matrix of (theta_1..theta_m, mu) given the estimates.
    precision = np.diag([*(1 / sampling + 1 / tau2), m / tau2])
    precision[:m, m] = precision[m, :m] = -1 / tau2
    covariance = np.linalg.inv(precision)
    mean = covariance @ [*(estimates / sampling), 0.0]
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(np.diag(covariance)[:m]), rtol=1e-6)
    np.testing.assert_allclose(model.mu_sd_, np.sqrt(covariance[m, m]), rtol=1e-6)
    np.testing.assert_allclose(model.posterior_mean_, mean[:m], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.mu_, mean[m], rtol=1e-6, atol=1e-6)


def test_fixed_limits():
    estimates = np.array([1.0, 2.0, 6.0])
    apart = GaussianMeans("fixed", tau2=1e15).fit(estimates, 1.0)
    np.testing.assert_allclose(apart.posterior_mean_, estimates)
    together = GaussianMeans("fixed", tau2=0.0).fit(estimates, 1.0)
    np.testing.assert_allclose(together.posterior_mean_, 3.0)
    np.testing.assert_allclose(together.posterior_sd_, np.sqrt(1 / 3))
    known = GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([2.0], 1.0)
    assert known.posterior_mean_.tolist() == [1.0]
    assert known.mu_sd_ == 0
    assert GaussianMeans("reml", mu=0.0).fit(estimates, 1.0).tau2_ == pytest.approx(41 / 3 - 1)


@pytest.mark.parametrize(("far", "heterogeneous"), [(5.0, False), (6.0, True)])
def test_the_higher_of_two_maxima_is_found(far, heterogeneous):
    """Four precise clients agree and two noisy ones do not: tau2 has two local maxima, and either may win."""
    data = np.array([0.0, 1e-3, -1e-3, 2e-3, far, -far]), np.array([1e-6, 1e-6, 1e-6, 1e-6, 1.0, 1.0])
    grid = 10.0 ** np.linspace(-9, 5, 600)
    profile = np.array([GaussianMeans("fixed", tau2=t).fit(*data).log_likelihood_ for t in grid])
    assert np.sum((profile[1:-1] > profile[:-2]) & (profile[1:-1] > profile[2:])) == 2
    best = GaussianMeans("marginal-likelihood").fit(*data)
    assert (best.tau2_ > 1) == heterogeneous
    assert best.log_likelihood_ >= profile.max()


def test_ebnm_golden_numbers(shared_data):
    """R ebnm 1.1-42, ebnm(x, s, prior_family="normal", mode="estimate") on its wOBA data of 688 hitters."""
    with open(shared_data("baseball/woba_2022.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    x, s = (np.array([float(row[name]) for row in rows]) for name in ("x", "s"))
    model = GaussianMeans("marginal-likelihood").fit(x, s**2)
    assert round(model.mu_, 8) == 0.30141900
    assert round(np.sqrt(model.tau2_), 8) == 0.02874037
    assert round(model.log_likelihood_, 6) == 989.635658
    assert model.converged_


def test_from_samples_pools_the_variance():
    rng = np.random.default_rng(5)
    samples = [rng.normal(i, 2.0, size) for i, size in enumerate([2, 1, 7, 30])]
    estimates, sampling = from_samples(samples)
    np.testing.assert_allclose(estimates, [sample.mean() for sample in samples])
    np.testing.assert_allclose(sampling * [2, 1, 7, 30], sampling[1])
    residuals = np.concatenate([sample - sample.mean() for sample in samples])
    assert sampling[1] * 36 == pytest.approx(residuals @ residuals)


def test_scikit_learn_conventions():
    model = GaussianMeans("fixed", mu=1.0, tau2=2.0)
    clone = GaussianMeans(**model.get_params())
    assert clone.get_params() == {"prior": "fixed", "mu": 1.0, "tau2": 2.0, "hyperprior": "strawderman"}
    assert model.set_params(tau2=3.0) is model
    assert model.tau2 == 3.0
    assert model.fit([1.0], 1.0) is model
    with pytest.raises(ValueError, match="tau3 is no parameter"):
        model.set_params(tau3=1.0)


# --- regression --------------------------------------------------------------------------------------------


@st.composite
def designs(draw):
    n, d = draw(st.integers(0, 6)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d))
    if n and draw(st.booleans()):
        X[:, -1] = X[:, 0]  # rank-deficient when d > 1
    return X, rng.normal(size=n), rng.normal(size=d)


moderate = st.floats(-3, 3).map(lambda x: 10.0**x)


@given(designs(), moderate, moderate)
def test_posterior_solves_the_normal_equations(design, sigma2_theta, sigma2_x):
    X, Y, mu = design
    mean, covariance = regression.posterior(X, Y, mu, sigma2_theta, sigma2_x)
    precision = np.eye(X.shape[1]) / sigma2_theta + X.T @ X / sigma2_x
    np.testing.assert_allclose(covariance @ precision, np.eye(X.shape[1]), atol=1e-8)
    np.testing.assert_allclose(precision @ mean, X.T @ Y / sigma2_x + mu / sigma2_theta, rtol=1e-6, atol=1e-6)
    mse = regression.posterior_mse(X, sigma2_theta, sigma2_x)
    close(mse, np.trace(covariance))
    assert mse <= regression.local_mse(X, sigma2_x, sigma2_theta, mu) * (1 + TIGHT)
    assert mse <= X.shape[1] * sigma2_theta * (1 + TIGHT)
    assert mse <= regression.posterior_mse(X, 2 * sigma2_theta, sigma2_x)
    assert mse <= regression.posterior_mse(X, sigma2_theta, 2 * sigma2_x) * (1 + TIGHT)
    more = np.vstack([X, np.ones(X.shape[1])])
    assert regression.posterior_mse(more, sigma2_theta, sigma2_x) <= mse * (1 + 1e-9)


@pytest.mark.parametrize("function", [regression.posterior_mse, regression.posterior_mse_parts])
def test_only_the_prior_of_a_regression_may_be_flat(function):
    X = np.array([[3.0, 0.0], [0.0, 2.0]])
    assert np.sum(function(X, np.inf, 1.0)) == pytest.approx(1 / 9 + 1 / 4)
    for sigma2_x in (np.inf, -1.0):
        with pytest.raises(ValueError, match="sigma2_x"):
            function(X, 1.0, sigma2_x)


@given(designs(), moderate, moderate)
def test_regression_limits(design, sigma2_theta, sigma2_x):
    X, Y, mu = design
    n, d = X.shape
    assert regression.posterior(X, Y, mu, 0.0, sigma2_x)[0].tolist() == mu.tolist()
    assert regression.posterior_mse(X, 0.0, sigma2_x) == 0
    rank = np.linalg.matrix_rank(X) if n else 0
    close(regression.posterior_mse(X, sigma2_theta, 0.0), (d - rank) * sigma2_theta)
    if rank == d:
        mean, covariance = regression.posterior(X, Y, mu, np.inf, sigma2_x)
        scale = 1 / np.linalg.svd(X)[1].min()
        least_squares = np.linalg.lstsq(X, Y)[0]
        np.testing.assert_allclose(mean, least_squares, atol=1e-9 * max(scale**2, 1))
        close(regression.posterior_mse(X, np.inf, sigma2_x), regression.local_mse(X, sigma2_x))
        close(np.trace(covariance), regression.local_mse(X, sigma2_x), rtol=1e-9)
    else:
        with pytest.raises(ValueError, match="sigma2_theta=inf needs X of full column rank"):
            regression.posterior_mse(X, np.inf, sigma2_x)
        with pytest.raises(ValueError, match="X is rank-deficient"):
            regression.local_mse(X, sigma2_x)
        assert regression.local_mse(X, sigma2_x, np.inf, mu) == np.inf


@pytest.mark.parametrize("known", [{"sigma2_theta": 2.0}, {"mu": [5.0, 3.0]}])
def test_half_of_a_prior_does_not_say_what_is_lost_outside_the_rows(known):
    with pytest.raises(ValueError, match="X is rank-deficient, so the error depends on the prior: give sigma2_theta and mu"):
        regression.local_mse([[1.0, 0.0], [1.0, 0.0]], 1.0, **known)


@pytest.mark.parametrize("unit", [1e-170, 1e-100, 1e170])
def test_designs_whose_squares_are_no_numbers_have_errors_that_are(unit):
    variance = 1e-40 * min(unit, 1.0) * unit  # sigma2_x (X'X)^-1 is 1e-40 / 4, or less by that unit
    assert regression.local_mse([[2 * unit]], variance) == pytest.approx(1e-40 / 4 * min(1.0, 1 / unit), rel=1e-12)


def test_one_feature_of_ones_is_a_gaussian_mean():
    X, Y = np.ones((5, 1)), np.array([1.0, 2.0, 4.0, 0.0, 3.0])
    mean, covariance = regression.posterior(X, Y, 0.5, 2.0, 3.0)
    model = GaussianMeans("fixed", mu=0.5, tau2=2.0).fit([Y.mean()], 3.0 / 5)
    close(mean, model.posterior_mean_)
    close(covariance[0, 0], model.posterior_sd_[0] ** 2)


def test_many_clients_are_fitted_one_by_one():
    rng = np.random.default_rng(0)
    Xs = [rng.normal(size=(n, 2)) for n in (1, 3, 8)]
    Ys = [rng.normal(size=len(X)) for X in Xs]
    means, covariances = regression.posterior_all(Xs, Ys, [0.1, 0.2], 1.0, 2.0)
    assert means.shape == (3, 2)
    for i in range(3):
        mean, covariance = regression.posterior(Xs[i], Ys[i], [0.1, 0.2], 1.0, 2.0)
        np.testing.assert_array_equal(means[i], mean)
        np.testing.assert_array_equal(covariances[i], covariance)


# --- bad input ---------------------------------------------------------------------------------------------

GOOD = {
    aggregation.server_mse: {
        "sizes": [2, 3],
        "gamma2s": [0.0, 1.0],
        "alpha2": 1.0,
        "tau2": 0.5,
        "ratios": [1, 1],
    },
    aggregation.gap_to_uniform: {"N_np": 5, "N_p": 5, "alpha2": 1.0, "tau2": 0.5, "gamma2": 1.0},
    mean_regularized.mse: {"lam": 1.0, "sigma2_loc": 1.0, "tau2": 0.5, "K": 5},
    mean_regularized.privacy_gap: {"lam": 1.0, "K": 5, "n": 10, "sigma2_dp": 1.0},
    mean_regularized.silo_mmse: {"k": 0, "sigma2_locs": [1.0, 2.0], "tau2": 0.5},
    gaussian.risk: {"sigma2_theta": 1.0, "sigma2_x": 1.0, "n": 2, "m": 5, "sigma2_q": 1.0, "d": 1},
    gaussian.conditional_risk: {"theta": [0.0, 1.0], "i": 0, "sigma2_theta": 1.0, "sigma2_x": 1.0, "n": 2},
    gaussian.james_stein: {"x": [1.0, 2.0, 3.0, 5.0], "variance": 1.0},
    GaussianMeans("marginal-likelihood").fit: {"estimates": [1.0, 2.0, 4.0], "variances": [1.0, 1.0, 2.0]},
    regression.posterior: {"X": [[1.0]], "Y": [1.0], "mu": 0.0, "sigma2_theta": 1.0, "sigma2_x": 1.0},
}
RAGGED = [[1.0], [1.0, 2.0]]
BAD_EVERYWHERE = [np.nan, "three", None, 1j, RAGGED]
BAD = {
    "sizes": [3, [], [0, 1], [1.5, 2], [1]],
    "gamma2s": [1.0, [], [-1.0, 0.0], [np.nan, 0.0], [1, 2, 3]],
    "ratios": [[0, 0], [-1, 2], [np.inf, 1], [1]],
    "rho_np": [-0.1, 1.1],
    "N": [0, np.inf],
    "K": [0, 2.5, np.inf],
    "n": [0, 2.5],
    "m": [1, 2.5],
    "d": [0],
    "k": [-1, 2, 0.5],
    "i": [-1, 2, 0.5],
    "lam": [-1],
    "sigma2_locs": [[1.0], [1.0, np.inf], 2.0],
    "theta": [[np.inf, 0.0], 1.0],
    "x": [[1.0, 2.0, 3.0], [np.inf] * 4, 1.0],
    "estimates": [[1.0], [[1.0, 2.0]], [np.inf, 1.0, 2.0]],
    "variances": [0.0, -1.0, [1.0, 1.0], np.inf],
    "X": [[1.0], [[]], [[np.inf]]],
    "Y": [[1.0, 2.0], 1.0],
    "mu": [[1.0, 2.0], np.inf],
}
CASES = [
    pytest.param(function, name, value, id=f"{function.__name__}-{name}-{value}")
    for function, good in GOOD.items()
    for name in good
    for value in BAD_EVERYWHERE + BAD.get(name, [-1.0])
    if not (name == "ratios" and value is None)  # None asks for the optimal ratios
    if not (name in ("sizes", "gamma2s", "ratios", "sigma2_locs") and value == RAGGED)  # entries broadcast
]


@pytest.mark.parametrize("function", GOOD, ids=lambda function: function.__name__)
def test_good_input_is_good(function):
    assert function(**GOOD[function]) is not None


@pytest.mark.parametrize(("function", "name", "value"), CASES)
def test_bad_input_is_named(function, name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        function(**{**GOOD[function], name: value})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianMeans("flat").fit([1.0, 2.0], 1.0), "prior must be one of"),
        (lambda: GaussianMeans("fixed").fit([1.0, 2.0], 1.0), "tau2 must be given for prior='fixed'"),
        (lambda: GaussianMeans("reml", tau2=1.0).fit([1.0, 2.0], 1.0), "tau2 must be given for prior='fixed'"),
        (lambda: GaussianMeans("fixed", tau2=-1.0).fit([1.0, 2.0], 1.0), "tau2 must be >= 0"),
        (lambda: gaussian.shrinkage_factor(1.0, 1.0, 1, sigma2_q=1.0), "m, the number of clients, is needed"),
        (lambda: james_stein([1.0, 2.0, 4.0, 5.0], 1.0, toward="median"), "toward must be one of 'mean'"),
        (lambda: gaussian.james_stein_risk(3, 1.0, 1.0, 1), "m must be a whole number >= 4"),
        (lambda: from_samples([]), "samples is empty"),
        (lambda: from_samples([[1.0], [2.0]]), "one value per client"),
        (lambda: from_samples([[1.0, 2.0], []]), r"samples\[1\] must be a 1-d array with at least one value"),
        (lambda: regression.posterior_all([], [], 0, 1, 1), "Xs and Ys need one entry per client"),
        (lambda: regression.posterior_all([[[1.0]], [[1.0, 2.0]]], [[1.0], [1.0]], 0, 1, 1), "Xs must agree"),
        (lambda: personalization.bayes_mse(3, [1, 1], [0, 0], 1, 1), "level must be in 1..2"),
        (lambda: aggregation.server_mse([[1, 2], [1, 2, 3]], [0, 0], 1, 1), "sizes has entries whose shapes"),
        (lambda: aggregation.precision_weights([]), "variances must hold at least one"),
    ],
)
def test_other_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- the package -------------------------------------------------------------------------------------------


def test_import_is_lazy():
    script = (
        "import sys, estimators; "
        "heavy = {'numba', 'scipy', 'sympy', 'matplotlib'} & set(sys.modules); assert not heavy, heavy; "
        "import estimators.closed_forms.aggregation, estimators.normal_means.gaussian_means, "
        "estimators.tables.client_table, estimators.accounting.privacy; "
        "heavy = {'numba', 'scipy', 'sympy', 'matplotlib'} & set(sys.modules); assert not heavy, heavy; "
        "assert estimators.GaussianMeans is estimators.normal_means.gaussian_means.GaussianMeans; "
        "assert set(estimators.__all__) <= set(dir(estimators))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).resolve().parents[3])


def test_unknown_name_is_an_attribute_error():
    import estimators

    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = estimators.nonsense


# --- Algorithm A1 among unequal silos -----------------------------------------------------------------------


def rounds_of_a1(estimates, lam, shares, rounds=4000):
    """Algorithm A1 as printed, with small full gradient steps from models that start apart."""
    models = np.arange(len(estimates), dtype=float)
    mean = shares @ models
    step = 0.9 / (1 + np.max(lam))
    for _ in range(rounds):
        updates = -step * ((models - estimates) + lam * (models - mean))
        models, mean = models + updates, mean + shares @ updates
    return models


@pytest.mark.parametrize("counts", [None, [1.0, 5.0, 2.0, 10.0]])
def test_iterated_weights_are_where_algorithm_a1_ends(counts):
    lam, estimates = np.array([0.0, 0.5, 2.0, 9.0]), np.array([3.0, -1.0, 0.5, 7.0])
    shares = np.full(4, 0.25) if counts is None else np.array(counts) / sum(counts)
    weights = mean_regularized.iterated_weights(lam, counts)
    close(weights @ estimates, rounds_of_a1(estimates, lam, shares), 1e-9)
    close(weights.sum(axis=1), 1)


@given(st.lists(magnitudes, min_size=2, max_size=6), magnitudes)
def test_own_variance_over_tau2_makes_algorithm_a1_best_in_every_silo(silos, tau2):
    assume(max(silos) < 1e12 * tau2)
    weights = mean_regularized.iterated_weights([s / tau2 for s in silos])
    for k in range(len(silos)):
        close(weights[k], mean_regularized.silo_mmse_weights(k, silos, tau2), 1e-9)


@given(st.lists(st.floats(0, 50), min_size=2, max_size=5))
def test_joint_weights_minimise_the_mean_objective(lam):
    K, lam = len(lam), np.array(lam)
    centred = np.eye(K) - 1 / K
    # gradient of sum_k (w_k - e_k)^2/2 + lam_k (w_k - mean w)^2/2
    system = np.eye(K) + centred @ np.diag(lam) @ centred
    np.testing.assert_allclose(mean_regularized.joint_weights(lam), np.linalg.inv(system), atol=1e-9)


def test_equal_strengths_make_the_algorithm_and_the_joint_objective_one():
    for lam in (0.0, 0.7, 30.0):
        even = np.full((4, 4), lam / (1 + lam) / 4) + np.eye(4) / (1 + lam)
        close(mean_regularized.iterated_weights([lam] * 4), even)
        np.testing.assert_allclose(mean_regularized.joint_weights([lam] * 4), even, atol=1e-15)


def test_strengths_of_silos_are_checked():
    for wrong, words in [
        ({"lam": [np.inf, np.inf]}, "finite for at least one silo"),
        ({"lam": [1.0]}, "at least two silos"),
        ({"lam": [1.0, -1.0]}, r"lam"),
        ({"lam": [1.0, 2.0], "counts": [1.0]}, "one number for each of the 2 silos"),
        ({"lam": [1.0, 2.0], "counts": [1.0, 0.0]}, "counts"),
    ]:
        with pytest.raises(ValueError, match=words):
            mean_regularized.iterated_weights(**wrong)
