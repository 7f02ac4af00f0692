"""Variance components: against the scalar model, a general optimiser and balanced layouts; calibrated errors; limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from estimators import GaussianMeans
from estimators.server import variance_components as components
from estimators.server.strengths import personalization_strengths, personalized_mse
from estimators.server.variance_components import Restricted, read_design, round_variances, variance_components


def messages(gen, variances, coordinates):
    return gen.normal(size=coordinates) + np.sqrt(variances)[:, None] * gen.normal(size=(len(variances), coordinates))


def test_one_coordinate_is_the_scalar_model_by_reml():
    """GaussianMeans compares all local maxima on a grid; few clients of very unequal variance have several."""
    gen = np.random.default_rng(1)
    for _ in range(150):
        variances = gen.lognormal(0, 2, gen.integers(3, 12))
        y = gen.normal(size=variances.size) * np.sqrt(variances + gen.choice([0, 0.3, 3]))
        scalar = GaussianMeans(prior="reml").fit(y, variances)
        found = variance_components(y, known=variances)
        assert found.converged
        assert found.estimates["tau2"] == pytest.approx(scalar.tau2_, rel=1e-5, abs=1e-6)
        assert found.centre == pytest.approx([scalar.mu_], rel=1e-5, abs=1e-6)
        assert found.log_likelihood == pytest.approx(scalar.log_likelihood_, abs=1e-5)


def restricted(theta, y, design, known):
    """Minus the restricted log likelihood, from the determinants of its definition."""
    covariance = np.diag(known + design @ theta)
    inverse = np.linalg.inv(covariance)
    ones = np.ones((len(y), 1))
    information = ones.T @ inverse @ ones
    residual = y - ones @ np.linalg.solve(information, ones.T @ inverse @ y)
    sizes = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1]
    return 0.5 * (y.shape[1] * sizes + np.sum(residual * (inverse @ residual)))


def test_all_components_maximise_the_restricted_likelihood():
    gen = np.random.default_rng(2)
    n_samples, level = gen.integers(2, 60, 24), np.arange(24) % 3
    known = np.where(level == 0, 0.2, 0.0)
    y = messages(gen, 0.5 + 4 / n_samples + np.array([0.2, 1.0, 3.0])[level], 6)
    found = variance_components(y, known=known, n_samples=n_samples, level=level)
    design = np.column_stack([np.ones(24), 1 / n_samples, level == 1, level == 2]).astype(float)
    oracle = minimize(
        restricted, [1.0, 1.0, 1.0, 1.0], (y, design, known), "Nelder-Mead", bounds=[(0, None)] * 4,
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},
    )  # fmt: skip
    assert list(found.estimates) == ["tau2", "sigma2", "gamma2[1]", "gamma2[2]"]
    np.testing.assert_allclose(list(found.estimates.values()), oracle.x, rtol=1e-5, atol=1e-6)
    # Errors are the root of the inverse of the expected information, tr(P Z_k P Z_l) / 2 per coordinate.
    inverse = np.diag(1 / found.variances)
    outer = inverse @ np.ones((24, 1))
    projection = inverse - outer @ outer.T / np.trace(inverse)
    products = [projection @ np.diag(column) for column in design.T]
    information = 3 * np.array([[np.trace(a @ b) for a in products] for b in products])
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-6)
    np.testing.assert_allclose(list(found.standard_errors.values()), np.sqrt(np.diag(found.covariance)))


def test_equal_variances_have_the_classical_answer():
    y = np.random.default_rng(3).normal(size=(12, 5)) * 2
    found = variance_components(y, known=1.0)
    assert found.estimates["tau2"] == pytest.approx(y.var(axis=0, ddof=1).mean() - 1, rel=1e-9)
    assert found.standard_errors["tau2"] == pytest.approx(y.var(axis=0, ddof=1).mean() * np.sqrt(2 / 55), rel=1e-9)
    np.testing.assert_allclose(found.centre, y.mean(axis=0), atol=1e-12)


@settings(max_examples=25)
@given(st.floats(1e-6, 1e6), st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), st.permutations(range(6)))
def test_units_origins_and_order(unit, origin, order):
    gen = np.random.default_rng(4)
    variances = gen.lognormal(size=6)
    y = messages(gen, variances + 1, 3)
    base = variance_components(y, known=variances)
    moved = variance_components(unit * (y + origin)[order], known=unit**2 * variances[order])
    assert moved.estimates["tau2"] == pytest.approx(unit**2 * base.estimates["tau2"], rel=1e-5)
    assert moved.standard_errors["tau2"] == pytest.approx(unit**2 * base.standard_errors["tau2"], rel=1e-4)
    np.testing.assert_allclose(moved.centre, unit * (base.centre + origin), atol=1e-5 * unit * (1 + np.abs(origin).max()))


@pytest.mark.parametrize(("clients", "reps"), [(10, 400), (100, 200)])
def test_estimates_are_unbiased_and_their_errors_true(clients, reps):
    gen = np.random.default_rng(5)
    noise = gen.choice([0.2, 1.0, 3.0], clients)
    truth, found = 2.0, []
    for _ in range(reps):
        result = variance_components(messages(gen, truth + noise, 8), known=noise)
        found.append((result.estimates["tau2"], result.standard_errors["tau2"]))
    estimates, errors = np.array(found).T
    assert abs(estimates.mean() - truth) < 4 * estimates.std() / np.sqrt(reps)  # 4 standard errors
    assert abs(errors.mean() / estimates.std() - 1) < 4 / np.sqrt(2 * reps) + 0.05


@pytest.mark.parametrize(
    ("clients", "tau2", "usual"),
    [(10, 0.05, 1.063), (100, 0.05, 1.038), (1000, 0.05, 1.0062), (10, 0.5, 1.052), (100, 0.5, 1.0068), (1000, 0.5, 1.0006)],
)
def test_estimated_strengths_lose_little(clients, tau2, usual):
    """Mean error at strengths and weights from an estimated tau2 over that at the true one; 10 coordinates, 60 data sets.

    `usual` is the mean ratio over at least 100 other data sets; its loss may double here.
    """
    gen = np.random.default_rng(6)
    own, noises = gen.choice([0.5, 1.0, 2.0], clients), gen.choice([0.0, 1.0, 4.0], clients)
    best = personalization_strengths(own, tau2, noises=noises).mse.mean()
    ratios = []
    for _ in range(60):
        found = variance_components(messages(gen, tau2 + own + noises, 10), known=own + noises).estimates["tau2"]
        used = personalization_strengths(own, found, noises=noises).lam
        weights = 1 / (found + own + noises)
        risk = personalized_mse(used, own, tau2, noises=noises, weights=weights / weights.sum())
        ratios.append(risk.mean() / best)
    # Weights that are best for theta are not quite best for clients in whose theta their own noise comes back.
    assert min(ratios) > 1 - 1e-4
    assert np.mean(ratios) - 1 < 2 * (usual - 1)


def test_a_component_at_zero():
    gen = np.random.default_rng(7)
    y = 0.5 * gen.normal(size=(50, 4))  # less than the noise said to be in it
    found = variance_components(y, known=1.0)
    assert (found.estimates["tau2"], found.converged) == (0.0, True)
    assert found.standard_errors["tau2"] > 0
    assert personalization_strengths(np.ones(50), found.estimates["tau2"]).lam.tolist() == [np.inf] * 50


def test_identical_messages():
    found = variance_components(np.ones((5, 3)))
    assert (found.estimates, found.converged, found.log_likelihood) == ({"tau2": 0.0}, True, np.inf)
    assert (found.standard_errors, found.covariance.tolist(), found.n_iter) == ({"tau2": 0.0}, [[0.0]], 0)
    assert (found.centre.tolist(), found.variances.tolist()) == ([1.0] * 3, [0.0] * 5)
    noisy = variance_components(np.ones((5, 3)), known=2.0)
    assert noisy.estimates == {"tau2": 0.0}
    assert noisy.log_likelihood == pytest.approx(-7.5 * np.log(4 * np.pi))
    np.testing.assert_array_equal(variance_components(np.full(4, 7.0), known=2.0).centre, [7.0])


def test_huge_and_tiny_noise_together():
    gen = np.random.default_rng(8)
    known = np.repeat([1e-6, 1.0, 1e8], 30)
    found = variance_components(messages(gen, 1 + known, 20), known=known)
    assert found.converged
    assert abs(found.estimates["tau2"] - 1) < 5 * found.standard_errors["tau2"]
    # Clients of huge noise say nothing: the same without them.
    few = variance_components(messages(np.random.default_rng(8), 1 + known, 20)[:60], known=known[:60])
    assert few.estimates["tau2"] == pytest.approx(found.estimates["tau2"], rel=1e-3)


# --- repeated rounds ------------------------------------------------------------------------------------------------------


def test_round_variances_are_unbiased_and_their_errors_true():
    gen, reps, clients = np.random.default_rng(9), 3000, 6
    variances = np.array([0.1, 1.0, 2.0, 3.0, 9.0, 30.0])
    drift = 5 * gen.normal(size=(reps, 4, 1, 3)) + 3 * gen.normal(size=(reps, 1, clients, 3))
    found = np.array(
        [round_variances(table) for table in drift + np.sqrt(variances)[:, None] * gen.normal(size=drift.shape)]
    )
    estimates, errors = found[:, 0], found[:, 1]
    spread = estimates.std(axis=0)
    assert (np.abs(estimates.mean(axis=0) - variances) < 4.5 * spread / np.sqrt(reps)).all()  # 4.5 standard errors
    # The errors come from estimated variances, so their mean square is a little too large (by 2 of 9 degrees of freedom).
    assert (np.abs(np.sqrt(np.mean(errors**2, axis=0)) / spread - 1.1) < 0.15).all()


def test_round_variances_see_no_drift_and_no_deviation():
    gen = np.random.default_rng(10)
    table = gen.normal(size=(3, 5, 2))
    moved = table + 100 * gen.normal(size=(3, 1, 2)) + 100 * gen.normal(size=(1, 5, 2))
    np.testing.assert_allclose(round_variances(moved).variances, round_variances(table).variances, atol=1e-9)
    np.testing.assert_allclose(
        round_variances(table[..., 0]).variances, round_variances(table[..., :1]).variances, atol=1e-15
    )
    assert not round_variances(np.zeros((2, 3, 1))).variances.any()


def test_rounds_feed_the_components():
    """Noise nobody knows: from round to round it is estimated, and what is left between clients is tau2."""
    gen, tau2 = np.random.default_rng(11), 0.8
    noise = gen.choice([0.5, 4.0], 60)
    truth = np.sqrt(tau2) * gen.normal(size=(60, 25))
    rounds = truth + gen.normal(size=(6, 1, 25)) + np.sqrt(noise)[:, None] * gen.normal(size=(6, 60, 25))
    found = round_variances(rounds)
    assert np.abs(found.variances / noise - 1).max() < 5 * np.sqrt(2 / 125)
    means = variance_components(rounds.mean(axis=0), known=np.maximum(found.variances, 0) / 6)
    assert abs(means.estimates["tau2"] - tau2) < 4 * means.standard_errors["tau2"]


def test_far_less_spread_than_was_said_is_fitted_to_the_end_beside_noise_that_is_not_known():
    """One client far out among very many that agree better than their noise, where curvatures differ most.

    The restricted likelihood is written out for one coordinate and maximised by SciPy.
    """
    y = np.concatenate([[7.0], np.zeros(3000), 2 * np.sqrt(3) * np.linspace(-1, 1, 40)])
    known, level = np.repeat([0.0, 100.0, 0.0], [1, 3000, 40]), np.repeat([0, 1], [3001, 40])

    def loss(theta):
        v = known + theta[0] + theta[1] * level
        centre = np.sum(y / v) / np.sum(1 / v)
        return 0.5 * (np.log(v).sum() + np.log(np.sum(1 / v)) + np.sum((y - centre) ** 2 / v))

    options = {"xatol": 1e-7, "fatol": 1e-9}
    oracle = minimize(loss, [1.0, 1.0], method="Nelder-Mead", bounds=[(1e-9, None)] * 2, options=options)
    found = variance_components(y, known=known, level=level)
    assert found.converged
    assert list(found.estimates.values()) == pytest.approx(oracle.x, rel=1e-4)


def unequal_clients(seed):
    """Few clients, whose noise, numbers of samples and sizes differ by orders of magnitude."""
    generator = np.random.default_rng(seed)
    m, d = int(generator.integers(5, 12)), int(generator.integers(1, 6))
    level = np.where(generator.random(m) < 0.5, 0, generator.integers(1, 3, m))
    level[:2], n_samples = (0, 1), np.exp(generator.uniform(0, 6, m))
    known = np.where(level == 0, np.exp(generator.uniform(-8, 3, m)), 0.0)
    given = generator.normal(size=(m, d)) * np.exp(generator.uniform(-3, 1.5, m))[:, None]
    return given, {"known": known, "n_samples": n_samples, "level": level}


@pytest.mark.parametrize("seed", range(25, 90))
def test_very_unequal_clients_have_their_best_components(seed):
    """No search of another kind, from many places, does better; clients whose variance ends at 0 are no error."""
    given, design = unequal_clients(seed)
    found = variance_components(given, **design)
    names, columns, known = read_design(len(given), design["known"], design["n_samples"], design["level"])
    known = known + 1e-15 * (np.mean((given - given.mean(axis=0)) ** 2) + known.max())
    best = -restricted(np.array([found.estimates[name] for name in names]), given, columns, known)

    def below(logs):
        return restricted(np.exp(logs), given, columns, known)

    generator = np.random.default_rng(seed)
    for _ in range(4):
        start = generator.uniform(-8, 4, len(names))
        other = minimize(below, start, method="Nelder-Mead", options={"maxiter": 250})
        assert -other.fun <= best + 1e-3
    assert all(np.isfinite(list(found.standard_errors.values())))


def test_a_search_that_starts_at_its_end_takes_one_step():
    messages = np.random.default_rng(4).normal(0, 2, (9, 3))
    end, objective, found, iterations = Restricted(messages, np.ones((9, 1)), np.zeros(9)).climb(np.array([5.0]))
    assert found
    assert iterations > 1
    again = Restricted(messages, np.ones((9, 1)), np.zeros(9)).climb(end)
    assert again[2:] == (True, 1)
    assert again[1] >= objective - 1e-9


def test_searches_start_with_all_components_with_little_and_with_little_of_all_but_one(monkeypatch):
    starts, climb = [], Restricted.climb
    monkeypatch.setattr(Restricted, "climb", lambda self, theta: starts.append(theta) or climb(self, theta))
    y = np.random.default_rng(4).normal(0, 2, (9, 3))
    one = variance_components(y)
    assert [len(start) for start in starts] == [1, 1]
    assert starts[1] < starts[0] / 100
    assert one.n_iter == sum(climb(Restricted(y, np.ones((9, 1)), np.zeros(9)), start)[3] for start in starts)
    for levels in ([0, 0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 2, 2, 2]):
        starts.clear()
        variance_components(y, level=levels)
        whole, little, *others = starts
        assert (little < whole / 100).all()
        assert np.array_equal(others, np.where(np.eye(max(levels) + 1, dtype=bool), whole, little))


def test_the_highest_of_the_maxima_is_taken(monkeypatch):
    ends = iter([(np.array([1.0]), -3.0, True, 4), (np.array([2.0]), -2.0, False, 9)])
    monkeypatch.setattr(Restricted, "climb", lambda self, theta: next(ends))
    theta, converged, iterations = Restricted(np.arange(6.0).reshape(3, 2), np.ones((3, 1)), np.zeros(3)).maximise()
    assert (theta.tolist(), converged, iterations) == ([2.0], False, 13)


def test_steps_are_newtons_where_the_likelihood_is_curved_and_halved_until_it_does_not_fall(monkeypatch):
    """k / 2 times -log v - t / v, its curvature k (t / v - 1/2) / v^2, has its maximum at the mean square t."""
    monkeypatch.setattr(components, "MAX_ITER", 1)
    y = 1e-3 * np.random.default_rng(4).normal(0, 2, (9, 3))
    model, t = Restricted(y, np.ones((9, 1)), np.zeros(9)), y.var(axis=0, ddof=1).mean()
    v = 1.2 * t
    assert model.climb(np.array([v]))[0] == pytest.approx([v + (t / v - 1) / 2 * v / (t / v - 0.5)], rel=1e-7, abs=0)
    v = 1.95 * t  # hardly curved: the average with the expected one, k / 2 / v^2, leads too far, to 0.05 v
    assert model.climb(np.array([v]))[0] == pytest.approx([v - 0.5 * 0.95 * v], rel=1e-7, abs=0)


def test_a_search_that_comes_to_rest_in_its_last_step_has_done_so(monkeypatch):
    model = Restricted(np.random.default_rng(4).normal(0, 2, (9, 3)), np.ones((9, 1)), np.zeros(9))
    iterations = model.climb(np.array([5.0]))[3]
    for most, found in ((iterations, True), (iterations - 1, False)):
        monkeypatch.setattr(components, "MAX_ITER", most)
        assert model.climb(np.array([5.0]))[2:] == (found, most)


def test_a_search_that_is_cut_off_says_so(monkeypatch):
    monkeypatch.setattr(components, "MAX_ITER", 1)
    with pytest.warns(RuntimeWarning, match="no convergence in 1 steps") as caught:
        found = variance_components(np.random.default_rng(4).normal(0, 2, (9, 3)))
    assert [w.filename for w in caught] == [__file__]
    assert (found.converged, found.n_iter) == (False, 2)


@pytest.mark.parametrize("m", [6, 600])
def test_whether_samples_tell_their_variance_does_not_depend_on_how_many_clients_there_are(m):
    """A relative difference of 1e-7 of their numbers does not, and one of 1e-5 does."""
    y = np.random.default_rng(4).normal(size=m)
    for less in (1e-8, 1e-7):
        with pytest.raises(ValueError, match="tau2, sigma2 cannot be told apart"):
            variance_components(y, n_samples=1 + less * (np.arange(m) % 2))
    found = variance_components(y, n_samples=1 + 1e-5 * (np.arange(m) % 2))
    assert found.converged
    # Of two groups with nearly one variance V: that of a difference of their variances, over 1e-5.
    spread = np.sqrt(2 * 2 * 2 / m) * found.variances.mean() / 1e-5
    assert found.standard_errors["sigma2"] == pytest.approx(spread, rel=0.3 if m < 10 else 0.01)


@pytest.mark.parametrize("unit", [1e-7, 1e7])
def test_samples_may_be_counted_in_any_unit(unit):
    n = np.array([3.0, 9.0, 20.0, 4.0, 50.0, 7.0, 2.0])
    y = messages(np.random.default_rng(4), 0.5 + 4 / n, 6)
    one, other = variance_components(y, n_samples=n), variance_components(y, n_samples=unit * n)
    assert other.estimates["tau2"] == pytest.approx(one.estimates["tau2"], rel=1e-5)
    assert other.estimates["sigma2"] == pytest.approx(unit * one.estimates["sigma2"], rel=1e-5, abs=0)
    assert other.standard_errors["sigma2"] == pytest.approx(unit * one.standard_errors["sigma2"], rel=1e-5, abs=0)


@pytest.mark.parametrize(("bad", "says"), [(10, "7, 8, 9 of 12;"), (11, r"7, 8, 9, \.\.\. of 12;")])
def test_ten_clients_with_bad_messages_are_named(bad, says):
    with pytest.raises(ValueError, match="in row 0, 1, 2, 3, 4, 5, 6, " + says):
        variance_components(np.where(np.arange(12)[:, None] < bad, np.nan, np.ones((12, 2))))


# --- bad input ------------------------------------------------------------------------------------------------------------

Y = np.random.default_rng(12).normal(size=(4, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[1.0, np.nan], [1.0, 2.0]],), {}, "row 0 of 2; leave"),
        (([[1.0, 2.0], [1.0]],), {}, "messages has entries of different shapes"),
        (([],), {}, "one row per client"),
        (([["a"]],), {}, r"messages\[0\]\[0\] must be a number"),
        ((np.ones((2, 2, 2)),), {}, "one row per client"),
        (([[1.0, 2.0]],), {}, "2 are needed"),
        ((Y,), {"known": -1.0}, "known must be >= 0"),
        ((Y,), {"known": np.inf}, "known must be finite"),
        ((Y,), {"known": [1.0]}, "known must be one number or one for each of the 4 clients"),
        ((Y,), {"n_samples": [1, 2, 3, 0]}, "n_samples must be > 0"),
        ((Y,), {"n_samples": 5}, "tau2, sigma2 cannot be told apart"),
        ((Y,), {"level": [1, 1, 2, 2]}, r"gamma2\[2\] cannot be told apart"),
        ((Y,), {"level": [0, 1, -1, 0]}, "level must be a whole number >= 0"),
        ((Y,), {"level": [0, 1, 0.5, 0]}, "level must be a whole number >= 0"),
        ((Y[:3],), {"level": [0, 1, 2]}, "4 are needed"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        variance_components(*arguments, **options)


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (np.ones((1, 4, 2)), "at least 2 rounds"),
        (np.ones((3, 2, 2)), "at least 3 clients"),
        (np.ones(4), "rounds must have shape"),
        ([[1.0, np.nan, 2.0], [1.0, 2.0, 3.0]], "rounds holds NaN"),
    ],
)
def test_bad_rounds_are_named(rounds, message):
    with pytest.raises(ValueError, match=message):
        round_variances(rounds)
