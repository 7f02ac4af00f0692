"""What one client's rows say by themselves: laws of a client's own regression."""

import numpy as np
import pytest
from scipy import special
from scipy.optimize import linprog, minimize

from estimators.fit.regressions import least_squares, own_logistic


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize("scale", [[1.0, 1e8, 1e-9], [1e-12, 1.0, 1e12]])
def test_units_of_features_do_not_matter(own, scale):
    rng = np.random.default_rng(0)
    X, scale = np.column_stack([np.ones(60), rng.normal(size=(60, 2))]), np.array(scale)
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [0.5, 1.0, -0.5]))) * 1.0
    plain, scaled = own(X, y), own(X * scale, y)
    assert np.isfinite(plain).all()
    for one, two in zip(plain, scaled, strict=True):
        assert two * scale == pytest.approx(one, rel=1e-10)


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize(
    "X", [np.ones((5, 2)), np.column_stack([np.ones(5), np.zeros(5)]), np.ones((0, 2)), np.ones((1, 2))]
)
def test_rows_that_determine_nothing_have_no_estimate(own, X):
    assert np.isnan(own(X, (np.arange(len(X)) % 2) * 1.0)).all()


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize(
    ("X", "y"), [(np.ones((4, 2)), np.ones(3)), (np.ones(4), np.ones(4)), (np.ones((4, 2, 1)), np.ones(4))]
)
def test_shapes_that_do_not_fit_are_named(own, X, y):
    with pytest.raises(ValueError, match="X must be"):
        own(X, y)


def rows_of_two_classes(n=80, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return X, (rng.random(n) < 1 / (1 + np.exp(-X @ [0.3, 1.0, -2.0]))) * 1.0


def test_own_coefficients_are_the_most_likely_with_errors_from_the_curvature_there():
    X, y = rows_of_two_classes()
    found, error = own_logistic(X, y)

    def loss(b):
        return np.logaddexp(0, X @ b).sum() - y @ X @ b

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000})
    assert found == pytest.approx(best.x, abs=1e-6)
    steps = 1e-4 * np.eye(3)
    curvature = [[sum(s * t * loss(found + s * a + t * b) for s in (1, -1) for t in (1, -1)) / 4e-8 for a in steps]
                 for b in steps]  # fmt: skip
    assert error == pytest.approx(np.sqrt(np.diag(np.linalg.inv(curvature))), rel=1e-5)


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_separated_classes_have_no_estimate(gap):
    """By a plane, with or without a gap; or but for rows that lie on it."""
    X, _ = rows_of_two_classes()
    X = X[np.abs(X[:, 1]) > gap]
    y = (X[:, 1] > 0) * 1.0
    assert np.isnan(own_logistic(X, y)).all()
    on_it, both = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]), [0.0, 1.0, 0.0, 1.0]
    assert np.isnan(own_logistic(np.vstack((X, on_it)), np.append(y, both))).all()


@pytest.mark.parametrize(("ones", "rows"), [((3, 5), (9, 7)), ((1, 2), (30_000, 40_000)), ((29_999, 1), (30_000, 20_000))])
def test_rows_of_two_kinds_have_the_log_odds_of_each_however_rare_a_class_is(ones, rows):
    X = np.repeat([[1.0, 0.0], [1.0, 1.0]], rows, axis=0)
    y = np.concatenate([np.arange(n) < k for k, n in zip(ones, rows, strict=True)]) * 1.0
    (first, second), (k, n) = np.log(np.divide(ones, np.subtract(rows, ones))), (np.array(ones), np.array(rows))
    variance = 1 / k + 1 / (n - k)
    found, error = own_logistic(X, y)
    assert found == pytest.approx([first, second - first], rel=1e-7)
    assert error == pytest.approx(np.sqrt([variance[0], variance.sum()]), rel=1e-7)


def test_features_that_are_nearly_one_have_no_coefficients_of_their_own():
    """At a distance of 1e-7 half of the digits of a coefficient would be noise; at 1e-3 there is an estimate."""
    X, y = rows_of_two_classes()
    for apart, known in ((1e-3, True), (1e-7, False)):
        twins = np.column_stack([X, X[:, 1] + apart * np.sin(np.arange(len(X)))])
        assert np.isfinite(own_logistic(twins, y)).all() == known


@pytest.mark.parametrize(("n", "d"), [(3, 3), (4, 3), (9, 3), (2, 1), (1, 1), (30, 5)])
def test_least_squares_solve_the_normal_equations_with_the_errors_of_textbooks(n, d):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, d)) * np.geomspace(1, 1000, d), rng.normal(size=n)
    found, error = least_squares(X, y)
    inverse = np.linalg.inv(X.T @ X)
    assert found == pytest.approx(inverse @ (X.T @ y), rel=1e-8)
    if n > d:
        variance = np.sum((y - X @ found) ** 2) / (n - d)
        assert error == pytest.approx(np.sqrt(variance * np.diag(inverse)), rel=1e-8)
    else:
        assert np.isnan(error).all()  # no row is left to tell it


def test_one_coefficient_is_the_log_odds_and_none_is_nothing():
    y = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    found, error = own_logistic(np.full((7, 1), 4.0), y)
    assert 4 * found[0] == pytest.approx(np.log(2 / 5), rel=1e-12)
    assert 4 * error[0] == pytest.approx(np.sqrt(1 / 2 + 1 / 5), rel=1e-12)
    assert [part.shape for part in own_logistic(np.ones((7, 0)), y)] == [(0,), (0,)]


@pytest.mark.parametrize(("n", "far"), [(12, 20), (12, 60), (13, 60), (24, 200), (12, 200), (12, 1e4)])
def test_rows_far_away_on_the_sides_of_their_classes_leave_the_score_at_zero(n, far):
    """The first step of Newton leads far beyond the most likely coefficients, where the curvature is lost."""
    x = np.concatenate([np.linspace(-1, 1, n), [far, -far]])
    y = np.concatenate([np.arange(n) % 2, [1.0, 0.0]])
    y[1] = 0.0
    assert_most_likely(np.column_stack([np.ones(n + 2), x]), y)


def assert_most_likely(X, y):
    found, error = own_logistic(X, y)
    p = special.expit(X @ found)
    assert X.T @ (y - p) == pytest.approx(0, abs=1e-7)
    assert error == pytest.approx(np.sqrt(np.diag(np.linalg.inv((X.T * (p * (1 - p))) @ X))), rel=1e-6)


def test_rounding_of_the_loss_does_not_stop_a_search_short():
    """The last steps of Newton lower a loss of 4 by less than its last digit, which may as well rise."""
    X = [[0.836, -0.575], [0.962, -2.002], [-2.687, -0.531], [5.498, 0.469], [-1.398, 163.558], [3.534, -0.825],
         [-3.4, -1.648], [-5.098, 2.135], [5.355, 2.145]]  # fmt: skip
    assert_most_likely(np.array(X), np.array([1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize("seed", range(3))
def test_features_with_heavy_tails_have_coefficients_wherever_no_plane_parts_the_classes(seed):
    """Whether one does is a linear programme: some direction puts every row on its class's side, one of them strictly."""
    rng, overlapping = np.random.default_rng(seed), 0
    for _ in range(40):
        n, d = rng.integers(5, 14), rng.integers(1, 4)
        X = rng.standard_t(0.7, size=(n, d)).clip(-1e3, 1e3)
        y = (rng.random(n) < 0.5) * 1.0
        signed = (2 * y - 1)[:, None] * X
        parted = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(n), bounds=(-1, 1)).fun < -1e-9
        assert np.isnan(own_logistic(X, y)[0]).all() == parted
        overlapping += not parted
    assert overlapping > 5
