"""What a server computes, piece by piece: exact covariances, projections, thresholds, and strengths in rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from estimators.closed_forms.aggregation import precision_weights
from estimators.numerics.blocks import over_others
from estimators.server import robust_pca, robust_pca_kernels, strengths
from estimators.server.federated_means import FederatedMeans
from estimators.server.server_weights import aggregate, project_private, public_clients, server_weights
from estimators.server.strengths import exact_slacks, personalization_strengths, personalized_mse, read_clients
from estimators.server.variance_components import Restricted, read_design, round_variances, variance_components

RNG = np.random.default_rng

# --- variances from round to round -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rounds", "coordinates", "s"), [(3, 2, [1.0, 4.0, 0.5]), (2, 1, [2.0, 2.0, 2.0, 9.0, 0.1])])
def test_errors_of_round_variances_are_those_of_a_quadratic_form(rounds, coordinates, s):
    """The estimates are quadratic in the noise, so for Gaussian noise their covariance is 2 tr(A S B S), entry by entry."""
    n = len(s)
    centring = np.kron(np.eye(rounds) - 1 / rounds, np.eye(n) - 1 / n)

    def squares(i):  # of client i's residuals, over the degrees of freedom
        return centring @ np.kron(np.eye(rounds), np.diag(np.eye(n)[i])) @ centring / (rounds - 1)

    forms = np.array([squares(i) for i in range(n)])
    whole = forms.sum(axis=0)
    estimates = [(form - whole / (n * (n - 1))) * n / (n - 2) for form in forms]
    noise = np.kron(np.eye(rounds), np.diag(s))
    exact = [np.sqrt(2 * np.trace(a @ noise @ a @ noise) / coordinates) for a in estimates]
    for a, truth in zip(estimates, s, strict=True):
        assert np.trace(a @ noise) == pytest.approx(truth)  # unbiased
    # a table of which the estimates are s itself, found by scaling: residual squares are linear in the estimates
    table = RNG(1).normal(size=(rounds, n, coordinates))
    found = round_variances(table)
    flat = [
        np.sum([table[..., c].ravel() @ a @ table[..., c].ravel() for c in range(coordinates)]) / coordinates
        for a in estimates
    ]
    np.testing.assert_allclose(found.variances, flat, rtol=1e-9, atol=1e-12)
    noise = np.kron(np.eye(rounds), np.diag(np.maximum(found.variances, 0)))
    at_estimates = [np.sqrt(2 * np.trace(a @ noise @ a @ noise) / coordinates) for a in estimates]
    np.testing.assert_allclose(found.standard_errors, at_estimates, rtol=1e-9)
    assert min(exact) > 0


# --- components ------------------------------------------------------------------------------------------------------------


def test_scores_and_informations_are_derivatives_of_the_restricted_likelihood():
    rng = RNG(2)
    n_samples, level = np.array([3.0, 9.0, 20.0, 4.0, 50.0, 7.0, 2.0]), np.array([0, 1, 0, 1, 0, 1, 0])
    names, design, known = read_design(7, [0.1, 0.0, 0.3, 0.2, 0.1, 0.0, 0.2], n_samples, level)
    assert names == ["tau2", "sigma2", "gamma2[1]"]
    np.testing.assert_allclose(design, np.column_stack([np.ones(7), 1 / n_samples, level]))
    y = rng.normal(size=(7, 3)) * 1.5
    model = Restricted(y, design, known)
    theta = np.array([0.7, 2.0, 0.4])

    def objective(point):
        covariance = np.diag(known + design @ point)
        inverse = np.linalg.inv(covariance)
        ones = np.ones((7, 1))
        info = float(np.sum(inverse))
        residual = y - ones @ (ones.T @ inverse @ y) / info
        size = np.linalg.slogdet(covariance)[1] + np.log(info)
        return -0.5 * (3 * size + np.sum(residual * (inverse @ residual)))

    variances, centre, squares, value = model.at(theta)
    assert value == pytest.approx(objective(theta), rel=1e-12)
    np.testing.assert_allclose(variances, known + design @ theta)
    np.testing.assert_allclose(model.origin + centre, np.average(y, axis=0, weights=1 / variances))
    score, expected, average = model.score(variances, squares)
    h, eye = 1e-4, np.eye(3)
    slope = [(objective(theta + h * e) - objective(theta - h * e)) / (2 * h) for e in eye]
    np.testing.assert_allclose(score, slope, rtol=1e-6)
    bend = np.array([
        [
            (objective(theta + h * (e + f)) - objective(theta + h * (e - f)) - objective(theta - h * (e - f))
             + objective(theta - h * (e + f))) / (4 * h * h)
            for f in eye
        ]
        for e in eye
    ])  # fmt: skip
    inverse = np.diag(1 / variances)
    project = inverse - np.outer(1 / variances, 1 / variances) / np.sum(1 / variances)
    parts = [project @ np.diag(column) for column in design.T]
    exact = 1.5 * np.array([[np.trace(a @ b) for a in parts] for b in parts])
    np.testing.assert_allclose(expected, exact, rtol=1e-9)
    np.testing.assert_allclose(2 * average - expected, -bend, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_search_for_components_begins_at_mean_squares(unit):
    """Least squares of what is beyond equal known variances: the mean of one level, and how far the other's is above it."""
    level = np.repeat([0, 1], [4, 6])
    y = unit * np.where(level, 3.0, 1.5)[:, None] * RNG(2).normal(size=(10, 40))
    found = Restricted(y, np.column_stack([np.ones(10), level]), np.full(10, unit**2)).start()
    beyond = np.mean((y - y.mean(axis=0)) ** 2, axis=1) - unit**2
    first, second = (beyond[level == k].mean() for k in (0, 1))
    np.testing.assert_allclose(found, [first, second - first], rtol=1e-9)


def test_log_likelihoods_and_designs_are_as_they_are_said_to_be():
    y = RNG(3).normal(size=(9, 2)) * 2
    found = variance_components(y, known=np.linspace(0.1, 1, 9))
    law = stats.norm(found.centre, np.sqrt(found.variances)[:, None])
    assert found.log_likelihood == pytest.approx(law.logpdf(y).sum())
    np.testing.assert_allclose(found.variances, found.estimates["tau2"] + np.linspace(0.1, 1, 9))
    given = FederatedMeans(tau2=0.5).fit(y, variances=0.3, noises=np.linspace(0.1, 1, 9))
    spread = 0.5 + 0.3 + np.linspace(0.1, 1, 9)
    centre = np.average(y, axis=0, weights=1 / spread)
    assert given.log_likelihood_ == pytest.approx(stats.norm.logpdf(y, centre, np.sqrt(spread)[:, None]).sum())
    assert (given.tau2_sd_, given.converged_, given.n_iter_) == (0.0, True, 1)
    assert given.server_sd_ == pytest.approx(np.sqrt(1 / np.sum(1 / spread)))
    np.testing.assert_allclose(given.server_estimate_, centre)
    one = variance_components(y[:2], known=1.0)  # two clients for one component
    assert one.estimates["tau2"] == pytest.approx(max(y[:2].var(axis=0, ddof=1).mean() - 1, 0.0))


# --- strengths -------------------------------------------------------------------------------------------------------------


def risks(lam, own, noises, tau2, weights):
    """Every client's error in rational numbers, from the coefficients of all raw noises."""
    found = []
    for i in range(len(own)):
        keep, pull = 1 / (1 + lam[i]), lam[i] / (1 + lam[i])
        total = Fraction(0)
        for j in range(len(own)):
            here = Fraction(int(i == j))
            total += (pull * weights[j] - pull * here) ** 2 * tau2 if i == j else (pull * weights[j]) ** 2 * tau2
            total += (keep * here + pull * weights[j]) ** 2 * own[j] + (pull * weights[j]) ** 2 * noises[j]
        found.append(total)
    return found


def test_errors_and_strengths_in_rational_numbers():
    own, noises = (
        [Fraction(1, 2), Fraction(3), Fraction(5, 4), Fraction(2)],
        [Fraction(0), Fraction(1), Fraction(4), Fraction(1, 3)],
    )
    tau2, lam = Fraction(7, 5), [Fraction(0), Fraction(1, 3), Fraction(2), Fraction(9)]
    total = [a + g + tau2 for a, g in zip(own, noises, strict=True)]
    best = [1 / v / sum(1 / u for u in total) for v in total]
    mixed = [Fraction(1, 8), Fraction(1, 2), Fraction(1, 8), Fraction(1, 4)]
    floats = {"noises": list(map(float, noises))}
    for weights, said in ((best, "precision"), ([Fraction(1, 4)] * 4, "uniform"), (mixed, list(map(float, mixed)))):
        exact = list(map(float, risks(lam, own, noises, tau2, weights)))
        found = personalized_mse(list(map(float, lam)), list(map(float, own)), float(tau2), weights=said, **floats)
        np.testing.assert_allclose(found, exact, rtol=1e-12)
        described = personalization_strengths(list(map(float, own)), float(tau2), weights=said, **floats)
        # the minimiser: error is quadratic in the pull, whose three values tell its lowest point
        for i in range(4):
            zero, half, one = (
                risks([at] * 4, own, noises, tau2, weights)[i] for at in (Fraction(0), Fraction(1), Fraction(10**9))
            )
            del one
            third = risks([Fraction(1, 2)] * 4, own, noises, tau2, weights)[i]  # a pull of a third
            slope, bend = 9 * third - 4 * half - 5 * zero, 6 * (zero - 3 * third + 2 * half)
            pull = -slope / (2 * bend) if bend else Fraction(0)
            assert described.lam[i] == pytest.approx(float(pull / (1 - pull)), rel=1e-9)


def test_slacks_are_exact_for_whom_they_are_wanted():
    clients, _ = read_clients([1.0, 2.0, 0.5], 0.3, [0.0, 1.0, 2.0], [0.2, 0.5, 0.3])
    found = exact_slacks(np.array([True, False, True]), clients)
    w, a, g = clients.weights, clients.own, clients.noises
    for i in (0, 2):
        others = sum(w[j] ** 2 * (0.3 + a[j] + g[j]) for j in range(3) if j != i)
        assert found[i] == pytest.approx((1 - w[i]) ** 2 * 0.3 - w[i] * (1 - w[i]) * a[i] + w[i] ** 2 * g[i] + others)
    assert found[1] == 0.0
    assert over_others(np.array([1.0, 10.0, 100.0])).tolist() == [110.0, 101.0, 11.0]
    assert over_others(np.array([3.0])).tolist() == [0.0]


def test_exact_sums_are_for_clients_whose_terms_cancel_and_for_nobody_else(monkeypatch):
    """They take a thousand times as long: of two clients of weights w and 1 - w the slack vanishes where w a = (1 - w) V."""
    asked = []
    monkeypatch.setattr(
        strengths, "exact_slacks", lambda wanted, c: asked.append(wanted.tolist()) or exact_slacks(wanted, c)
    )
    plain = personalization_strengths([1.0, 2.0, 0.5, 3.0], 0.7, noises=[0.0, 1.0, 0.2, 0.1], weights=[0.1, 0.4, 0.2, 0.3])
    assert asked == [[False] * 4]
    assert (plain.lam > 0).all()
    w, tau2, second = 0.75, 0.25, 0.5
    first = (
        (1 - w) * tau2 + (1 - w) * (tau2 + second)
    ) / w  # at which (1 - w)^2 tau2 - w (1 - w) a + (1 - w)^2 (tau2 + b) is 0
    for part, near in ((0.0, True), (0.99 / 16, True), (-0.99 / 16, True), (1.01 / 16, False), (-1.01 / 16, False)):
        # the slack is then the part of (1 - w) ((1 - w) tau2 + w a), which the exact sums are for below a sixteenth
        own = (first - part * (1 - w) * tau2 / w) / (1 + part)
        found = personalization_strengths([own, second], tau2, weights=[w, 1 - w])
        assert asked[-1][0] == near
        slack = (1 - w) ** 2 * (2 * tau2 + second) - w * (1 - w) * own
        if part > 0:
            assert found.lam[0] == pytest.approx((1 - w) * own / slack)
        elif part < 0:
            assert found.lam[0] == np.inf


def test_weights_that_add_to_one_nearly_are_taken():
    own = [1.0, 1.0]
    for off, taken in ((0.9e-6, True), (-0.9e-6, True), (1.1e-6, False), (-1.1e-6, False)):
        for call in (lambda w: personalized_mse(1.0, own, 1.0, weights=w), lambda w: aggregate([[1.0, 2.0]], w)):
            if taken:
                call([0.5, 0.5 + off])
            else:
                with pytest.raises(ValueError, match="weights must add to one"):
                    call([0.5, 0.5 + off])
    found = personalized_mse(1.0, own, 1.0, weights=[0.5, 0.5 + 0.9e-6])
    np.testing.assert_allclose(found, personalized_mse(1.0, own, 1.0, weights="uniform"), rtol=1e-6)


def test_claims_of_strengths_by_their_cases():
    def claim(*arguments, **options):
        return personalization_strengths(*arguments, **options).claim

    two = [1.0, 2.0]
    assert claim(two, 1.0, common=True) == "fedhdp:levels:lambda"
    assert claim(two, 1.0, weights=[0.4, 0.6]) == "fedhdp:levels:lambda"
    assert claim(two, 1.0, weights="uniform", noises=1.0) == "fedhdp:levels:lambda"
    assert claim(two, 1.0, weights="uniform", noises=1.0, common=True) == "fedhdp:levels:lambda"
    assert claim([1.0, 1.0], 1.0) == "mrmtl:thm6.3"  # whose weights come out equal
    assert claim([1.0, 1.0], 1.0, weights=[0.4, 0.6]) == "fedhdp:levels:lambda"


# --- weights and projections -----------------------------------------------------------------------------------------------


def test_eps_are_split_where_squared_distances_are_least():
    for eps in (
        [0.5, 8.0, 1.0, 10.0],
        [1.0, 2.0, 3.0, 10.0, 11.0, 12.5],
        [0.1, 5.0],
        [3.0, 1.0, 1.0, 1.0],
        [1e-200, 2e-200, 9e-200],
    ):
        ordered = np.sort(eps) / max(eps)
        within = [np.sum((ordered[:k] - ordered[:k].mean()) ** 2) + np.sum((ordered[k:] - ordered[k:].mean()) ** 2)
                  for k in range(1, len(eps))]  # fmt: skip
        best = np.sort(eps)[int(np.argmin(within))]
        assert public_clients(eps).tolist() == [e > best for e in eps]
    assert public_clients([2.0, 2.0]).tolist() == [True, True]
    assert public_clients([2.0]).tolist() == [True]


@pytest.mark.parametrize("components", [0, 1, 2])
@pytest.mark.parametrize("unit", [1.0, 1e160, 1e-170])
def test_private_updates_are_projected_on_leading_directions(components, unit):
    rng = RNG(4)
    updates = rng.normal(size=(7, 5)) * np.arange(1.0, 8.0)[:, None]
    public = np.array([True, False, True, True, False])
    mean = updates[:, public].mean(axis=1, keepdims=True)
    left = np.linalg.svd(updates[:, public] - mean)[0][:, :components]
    exact = updates.copy()
    exact[:, ~public] = mean + left @ (left.T @ (updates[:, ~public] - mean))
    np.testing.assert_allclose(project_private(updates * unit, public, components) / unit, exact, rtol=1e-9, atol=1e-12)
    if components == 1:
        np.testing.assert_allclose(project_private(updates, public), exact, rtol=1e-9)
    with pytest.raises(ValueError, match=r"components must be in 0\.\.2"):
        project_private(updates, public, 3)


def test_schemes_tell_the_variance_that_they_are_given():
    found = server_weights("uniform", n_samples=[1, 2, 3])
    assert (found.weights.tolist(), found.variance, found.excess) == ([1 / 3] * 3, None, None)
    found = server_weights("dpfedavg", n_samples=[1, 3], variances=[4.0, 8.0])
    assert found.variance == pytest.approx(4 / 16 + 9 * 8 / 16)
    assert found.excess == pytest.approx(found.variance * (1 / 4 + 1 / 8) - 1)
    updates = RNG(5).normal(size=(400, 3)) * [1.0, 2.0, 3.0]
    blind = server_weights("robust-hdp", updates=updates)
    told = server_weights("robust-hdp", updates=updates, variances=[1.0, 4.0, 9.0])
    estimates = robust_pca.noise_variances(updates).variances
    assert blind.variance == pytest.approx(np.sum(blind.weights**2 * estimates))
    assert blind.excess == pytest.approx(0.0, abs=1e-12)
    assert told.variance == pytest.approx(np.sum(blind.weights**2 * [1.0, 4.0, 9.0]))
    np.testing.assert_allclose(blind.weights, precision_weights(estimates))


# --- robust PCA ------------------------------------------------------------------------------------------------------------


def test_penalties_and_weights_are_the_published_ones():
    matrix = np.array([[1.0, -2.0], [3.0, 4.0], [0.0, 5.0]])
    assert robust_pca.step_parameter(matrix, "published") == pytest.approx(6 / (4 * 15))
    assert robust_pca.step_parameter(matrix, "dense") == pytest.approx(6 / (20 * 15))
    assert robust_pca.step_parameter(matrix, "reference") == pytest.approx(6 / (4 * 11))
    rng = RNG(6)
    updates = rng.normal(size=(40, 4))
    penalty = robust_pca.step_parameter(updates, "published")
    for said in ({"lam": 1 / np.sqrt(40)}, {"variant": "published"}, {"method": "fused"}, {"tol": 1e-7}, {"mu": penalty}):
        one, other = (robust_pca.robust_pca(updates, max_iter=60, **more) for more in ({}, said))
        np.testing.assert_array_equal(one.sparse, other.sparse)
        assert one.iterations == other.iterations
    one, other = robust_pca.noise_variances(updates), robust_pca.noise_variances(updates, variant="dense", tol=1e-5)
    assert one.variances.tolist() == other.variances.tolist()


@pytest.mark.parametrize("method", ["gram", "svd"])
def test_singular_values_are_cut_by_the_threshold(method):
    rng = RNG(7)
    left, right = np.linalg.qr(rng.normal(size=(9, 3)))[0], np.linalg.qr(rng.normal(size=(3, 3)))[0]
    matrix = left @ np.diag([5.0, 2.0, 0.5]) @ right.T
    found, singular = robust_pca.shrink_singular_values(matrix, 0.7, method)
    np.testing.assert_allclose(np.sort(singular), [1.3, 4.3])
    np.testing.assert_allclose(found, left @ np.diag([4.3, 1.3, 0.0]) @ right.T, atol=1e-12)


@pytest.mark.parametrize(("p", "n"), [(1, 1), (127, 2), (128, 3), (129, 4), (300, 5), (260, 7), (140, 8), (130, 9)])
def test_compiled_steps_are_those_of_numpy(p, n):
    rng = RNG(p)
    matrix, argument, multiplier = rng.normal(size=(3, p, n))
    factor, bound = rng.normal(size=(n, n)) / n, 0.4
    factor = factor + factor.T
    tiles = robust_pca_kernels.pack(matrix)
    assert tiles.shape == (-(-p // 128), n, 128)
    np.testing.assert_array_equal(robust_pca_kernels.unpack(tiles, p), matrix)
    np.testing.assert_allclose(robust_pca_kernels.gram_matrix(tiles), matrix.T @ matrix, rtol=1e-10, atol=1e-10)
    a, z, new = (robust_pca_kernels.pack(x) for x in (argument, multiplier, 0 * matrix))
    gram, residual = robust_pca_kernels.step(tiles, factor, bound, a, z, new)
    low = argument @ factor
    clipped = np.clip(matrix - low + multiplier, -bound, bound)
    after = low + 2 * clipped - multiplier
    np.testing.assert_allclose(robust_pca_kernels.unpack(new, p), clipped, atol=1e-12)
    np.testing.assert_allclose(robust_pca_kernels.unpack(a, p), after, atol=1e-12)
    np.testing.assert_allclose(gram, after.T @ after, rtol=1e-10, atol=1e-10)
    assert residual == pytest.approx(np.sum((clipped - multiplier) ** 2))
    robust_pca_kernels.finish(tiles, bound, a, z, new)
    np.testing.assert_allclose(robust_pca_kernels.unpack(a, p), low, atol=1e-12)
    np.testing.assert_allclose(robust_pca_kernels.unpack(z, p), matrix - low + multiplier - clipped, atol=1e-12)


def test_the_gap_is_that_of_the_dual_problem():
    updates = RNG(8).normal(size=(50, 4))
    lam = 1 / np.sqrt(50)
    split = robust_pca.robust_pca(updates, max_iter=40, method="svd")
    objective = np.linalg.svd(split.low_rank, compute_uv=False).sum() + lam * np.abs(split.sparse).sum()
    assert split.residual == pytest.approx(np.linalg.norm(updates - split.low_rank - split.sparse) / np.linalg.norm(updates))
    fine = robust_pca.robust_pca(updates, tol=1e-10, max_iter=30_000, variant="dense")
    best = np.linalg.svd(fine.low_rank, compute_uv=False).sum() + lam * np.abs(fine.sparse).sum()
    assert objective * (1 - split.gap) <= best * (1 + 1e-3)
    assert fine.gap < 1e-6
    assert fine.rank == np.linalg.matrix_rank(fine.low_rank, tol=1e-6)


def test_excess_noise_and_tails_by_their_definitions():
    s, alpha2, r = np.array([1.0, 3.0, 0.2]), 0.7, 1.6
    w = 1 / (r**2 * s + alpha2)
    w /= w.sum()
    assert robust_pca.excess_noise(s, alpha2, r) == pytest.approx(np.sum(w**2 * s) * np.sum(1 / s) - 1)
    assert robust_pca.excess_noise(s, alpha2) == robust_pca.excess_noise(s, alpha2, 1.0)
    for p, x in ((7, 0.3), (40, 0.9), (3, 1.5)):
        exact = stats.chi2.sf(p * (1 + x), p) + stats.chi2.cdf(p * (1 - x), p)
        assert robust_pca.estimate_tail(p, x) == pytest.approx(exact)
