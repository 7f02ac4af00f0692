"""Server weights: schemes against their definitions and each other, what they lose by simulation, PFA, bad input."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.closed_forms import aggregation
from estimators.server import robust_pca, server_weights
from estimators.server.server_weights import aggregate, compare_schemes, project_private, public_clients, stack_updates

positive = st.floats(0.01, 100.0)
clients = st.lists(st.tuples(positive, positive, positive), min_size=1, max_size=8)


def pairs(weights, variances):
    """What weights lose, as the sum over pairs of the claim, in quadratic time."""
    w, s = np.asarray(weights) / np.sum(weights), np.asarray(variances)
    return sum((w[i] * s[i] - w[j] * s[j]) ** 2 / (s[i] * s[j]) for i in range(len(w)) for j in range(i))


@given(clients)
def test_every_scheme_adds_to_one_and_loses_what_the_claim_says(table):
    variances, n_samples, eps = np.array(table).T
    found = compare_schemes(variances, n_samples=n_samples, eps=eps)
    assert list(found) == ["uniform", "dpfedavg", "weiavg", "precision"]
    least = aggregation.least_variance(variances)
    for scheme, result in found.items():
        assert result.variance is not None
        assert result.excess is not None
        assert result.weights.sum() == pytest.approx(1, rel=1e-12)
        assert result.variance == pytest.approx(np.sum(result.weights**2 * variances), rel=1e-12)
        assert result.excess == pytest.approx(pairs(result.weights, variances), rel=1e-9, abs=1e-24)
        assert result.variance == pytest.approx(least * (1 + result.excess), rel=1e-9)
        assert result.excess >= 0
        assert scheme != "precision" or result.excess < 1e-25
    np.testing.assert_allclose(found["dpfedavg"].weights, n_samples / n_samples.sum(), rtol=1e-12)
    np.testing.assert_allclose(found["weiavg"].weights, eps / eps.sum(), rtol=1e-12)


def test_precision_weights_are_those_of_fedhdp_for_any_mix_of_levels():
    sizes, gamma2s, alpha2, tau2 = [2, 3, 1], [0.0, 1.0, 4.0], 1.0, 0.5
    level = np.array([1, 0, 1, 2, 0, 1])
    variances = aggregation.message_variances(sizes, gamma2s, alpha2, tau2)[level]
    found = server_weights.server_weights("precision", variances=variances)
    np.testing.assert_allclose(found.weights, aggregation.level_weights(sizes, gamma2s, alpha2, tau2)[level], rtol=1e-14)
    assert found.variance == pytest.approx(aggregation.server_mse(sizes, gamma2s, alpha2, tau2), rel=1e-14)


def test_the_loss_of_many_clients_takes_no_quadratic_memory():
    variances = 1 + 8 * (np.arange(200_000) + 0.5) / 200_000
    uniform = server_weights.server_weights("uniform", variances=variances)
    # Uniform weights lose the arithmetic over the harmonic mean, less one; the integral of 1/s from 1 to 9 is log 9.
    assert uniform.excess == pytest.approx(5 * np.log(9) / 8 - 1, rel=1e-8)


def test_a_small_loss_keeps_its_digits():
    small = server_weights.server_weights("weiavg", eps=[1.0, 1.0 + 1e-9], variances=[1.0, 1.0]).excess
    assert small == pytest.approx(0.25e-18, rel=1e-6)


def test_the_loss_keeps_its_digits_at_extreme_variances():
    variances, weights = [1e12, 1.0, 2.0, 1e-12, 3e-12], [0.5, 0.25, 0.125, 0.0625, 0.0625]
    s, w = [Fraction(x) for x in variances], [Fraction(x) for x in weights]
    exact = sum((w[i] * s[i] - w[j] * s[j]) ** 2 / (s[i] * s[j]) for i in range(5) for j in range(i))
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [3, 4, 2, 1, 0]):
        found = aggregation.relative_excess(np.take(weights, order), np.take(variances, order))
        assert found == pytest.approx(float(exact), rel=1e-14)
    small = aggregation.relative_excess([0.5, 0.25, 0.25], [1e12, 2e12 * (1 + 1e-6), 2e12])
    assert small == pytest.approx(pairs([0.5, 0.25, 0.25], [1e12, 2e12 * (1 + 1e-6), 2e12]), rel=1e-9)


def test_the_loss_of_weights_whose_variances_are_hundreds_of_powers_apart():
    weights, variances = [0.5, 0.375, 0.125], [3.0, 2.0**500, 5 * 2.0**470]
    w, s = [Fraction(x) for x in weights], [Fraction(x) for x in variances]
    exact = sum((w[i] * s[i] - w[j] * s[j]) ** 2 / (s[i] * s[j]) for i in range(3) for j in range(i))
    assert aggregation.relative_excess(weights, variances) == pytest.approx(float(exact), rel=1e-14)


def test_predicted_variances_are_those_of_simulated_aggregates():
    gen = np.random.default_rng(11)
    variances, eps, n_samples = np.array([1.0, 4.0, 9.0, 0.25]), [1.0, 1.0, 0.3, 5.0], [5, 50, 10, 10]
    noise = np.sqrt(variances) * gen.normal(size=(200_000, 4))
    for result in compare_schemes(variances, n_samples=n_samples, eps=eps).values():
        assert result.variance is not None
        observed = np.mean(aggregate(noise, result.weights) ** 2)
        assert abs(observed / result.variance - 1) < 5 * np.sqrt(2 / 200_000)  # 5 standard errors


def test_robust_hdp_needs_no_variances_and_is_close_to_the_best():
    gen = np.random.default_rng(12)
    variances = gen.uniform(1, 4, 12) * gen.choice([1.0, 16.0, 128.0], 12)
    updates = 0.3 * gen.normal(size=(8_000, 1)) + np.sqrt(variances) * gen.normal(size=(8_000, 12))
    blind = server_weights.server_weights("robust-hdp", updates=updates)
    assert blind.weights.tolist() == robust_pca.aggregation_weights(updates).tolist()
    assert blind.variance is not None
    judged = compare_schemes(variances, updates=updates)["robust-hdp"]
    assert judged.weights.tolist() == blind.weights.tolist()
    assert judged.excess is not None
    assert judged.variance is not None
    assert judged.excess < 0.01
    assert 0.5 < blind.variance / judged.variance < 1.1


def test_weights_without_variances_predict_nothing():
    found = server_weights.server_weights("uniform", eps=[1.0, 2.0])
    assert (found.weights.tolist(), found.variance, found.excess) == ([0.5, 0.5], None, None)
    zero = server_weights.server_weights("robust-hdp", updates=np.zeros((5, 2)))
    assert (zero.weights.tolist(), zero.variance) == ([0.5, 0.5], None)


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=3), st.lists(positive, min_size=3, max_size=3))
def test_the_average_of_identical_updates_is_that_update(update, variances):
    weights = server_weights.server_weights("precision", variances=variances).weights
    np.testing.assert_allclose(aggregate(np.outer(update, np.ones(3)), weights), update, rtol=1e-12)


def test_one_client_gets_all_the_weight():
    table = compare_schemes([2.0], n_samples=[3], eps=[1.0], updates=[[1.0], [2.0]])
    assert {scheme: (found.weights.tolist(), found.excess) for scheme, found in table.items()} == dict.fromkeys(
        server_weights.SCHEMES, ([1.0], 0.0)
    )


def test_a_robust_pca_that_has_not_converged_warns(monkeypatch):
    estimate = robust_pca.noise_variances
    monkeypatch.setattr(robust_pca, "noise_variances", lambda *given, **options: estimate(*given, **options, max_iter=2))
    with pytest.warns(RuntimeWarning, match="robust PCA has not converged"):
        server_weights.server_weights("robust-hdp", updates=np.random.default_rng(13).normal(size=(50, 4)))


# --- real data ------------------------------------------------------------------------------------------------------------


def landmine_updates(path, parameters=2_000):
    """One private gradient step of a regression in random features for each of the 29 landmine fields, records below 1.5.

    Returns the noise-free updates, the numbers of rows, and a function from eps to noisy updates and noise variances (the
    classical Gaussian scale at delta = 1e-5; only its dependence on eps matters here).
    """
    from scipy.io import loadmat

    table = loadmat(path)
    features, labels = table["feature"][0], [label.ravel() for label in table["label"][0]]
    gen = np.random.default_rng(0)
    directions, phases = 0.3 * gen.normal(size=(9, parameters)), gen.uniform(0, 2 * np.pi, parameters)
    base = np.concatenate(labels).mean()
    updates = []
    for rows, label in zip(features, labels, strict=True):
        gradients = (label - base)[:, None] * np.sqrt(2 / parameters) * np.cos(rows @ directions + phases)
        updates.append(gradients.mean(axis=0))
        assert np.linalg.norm(gradients, axis=1).max() <= 1.5
    n_samples = np.array([label.size for label in labels])

    def noisy(eps, seed):
        variances = 2 * np.log(1.25e5) / (eps * n_samples) ** 2
        noise = np.random.default_rng(seed).normal(size=(parameters, n_samples.size))
        return stack_updates(updates) + np.sqrt(variances) * noise, variances

    return stack_updates(updates), n_samples, noisy


def test_schemes_on_landmine_fields(shared_data):
    """Squared error of each scheme's average to the noise-free precision-weighted one, over that of precision weights."""
    truth, n_samples, noisy = landmine_updates(shared_data("landmine/LandmineData.mat"))
    ratios = {}
    for seed in range(4):
        eps = np.random.default_rng(100 + seed).choice([0.5, 1.0, 2.0, 5.0, 10.0], n_samples.size)
        updates, variances = noisy(eps, seed)
        table = compare_schemes(variances, n_samples=n_samples, eps=eps, updates=updates)
        target = aggregate(truth, table["precision"].weights)
        found = {scheme: aggregate(updates, result.weights) for scheme, result in table.items()}
        found["pfa"] = aggregate(project_private(updates, public_clients(eps)), table["weiavg"].weights)
        found["minimum eps"] = aggregate(noisy(np.full(29, eps.min()), seed)[0], table["dpfedavg"].weights)
        error = {scheme: np.mean((average - target) ** 2) for scheme, average in found.items()}
        for scheme in error:
            ratios.setdefault(scheme, []).append(error[scheme] / error["precision"])
        # Noise dominates here, so what a scheme loses is what its weights lose (2,000 squares: 5 standard errors are 16 %).
        for scheme, result in table.items():
            assert error[scheme] / error["precision"] == pytest.approx(1 + result.excess, rel=0.16)
    means = {scheme: float(np.mean(values)) for scheme, values in ratios.items()}
    print({scheme: f"{mean:.3f} ({min(ratios[scheme]):.3f}..{max(ratios[scheme]):.3f})" for scheme, mean in means.items()})
    assert means["robust-hdp"] < 1.02
    assert 1.5 < means["weiavg"] < 3
    assert 20 < means["uniform"] < 40
    assert 1 < means["pfa"] < means["weiavg"]
    assert means["dpfedavg"] < means["minimum eps"]


# --- PFA ------------------------------------------------------------------------------------------------------------------


def test_public_clients_are_the_best_split_in_two():
    gen = np.random.default_rng(3)
    for eps in gen.lognormal(size=(40, 7)):
        public = public_clients(eps)

        def spread(mask, eps=eps):
            return sum(np.sum((eps[part] - eps[part].mean()) ** 2) for part in (mask, ~mask))

        assert eps[public].min() > eps[~public].max()
        assert spread(public) <= min(spread(eps > cut) for cut in np.sort(eps)[:-1]) * (1 + 1e-12)
    assert public_clients([2.0, 2.0]).all()
    assert public_clients([2.0]).all()


def test_projection_is_the_affine_least_squares_fit_and_idempotent():
    gen = np.random.default_rng(4)
    updates, public = gen.normal(size=(40, 7)), np.array([True, False, True, True, False, True, True])
    mean = updates[:, public].mean(axis=1, keepdims=True)
    for components in range(5):
        left = np.linalg.svd(updates[:, public] - mean, full_matrices=False)[0][:, :components]
        projected = project_private(updates, public, components)
        np.testing.assert_allclose(projected[:, ~public], mean + left @ left.T @ (updates[:, ~public] - mean), atol=1e-12)
        assert (projected[:, public] == updates[:, public]).all()
        np.testing.assert_allclose(project_private(projected, public, components), projected, atol=1e-12)


@pytest.mark.parametrize(("small", "kept"), [(0.1, 1.0), (1e-5, 1.0), (1e-7, 0.0)])
def test_directions_are_kept_down_to_a_millionth_of_the_largest(small, kept):
    """Which is what a Gram matrix has digits for."""
    updates = np.array([[1.0, -1.0, 0.0, 0.0, 0.25], [0.0, 0.0, small, -small, 1.0]])
    projected = project_private(updates, [True, True, True, True, False], 2)
    assert projected[:, 4] == pytest.approx([0.25, kept], abs=1e-9)


def test_projection_removes_private_noise_and_keeps_shared_directions():
    gen = np.random.default_rng(5)
    p, public = 4_000, np.arange(10) < 5
    direction = gen.normal(size=p)
    truth = np.outer(direction, gen.uniform(1, 3, 10))
    noisy = truth + np.where(public, 0.05, 5.0) * gen.normal(size=(p, 10))
    before = np.mean((noisy - truth)[:, ~public] ** 2)
    assert np.mean((project_private(noisy, public) - truth)[:, ~public] ** 2) < before / 500
    # Negative control: what public clients do not have is lost, however many private clients share it.
    truth[:, ~public] += gen.normal(size=(p, 1))
    lost = project_private(truth + 0.0, public) - truth
    assert np.mean(lost[:, ~public] ** 2) > 0.9


def test_identical_public_clients_span_no_direction():
    updates = np.array([[1.0, 1.0, 5.0], [2.0, 2.0, -5.0]])
    assert project_private(updates, [True, True, False], 1)[:, 2].tolist() == [1.0, 2.0]
    assert project_private(updates, [True, False, False], 0).tolist() == [[1.0] * 3, [2.0] * 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: server_weights.server_weights("fedavg", eps=[1.0]), "scheme must be one of"),
        (lambda: server_weights.server_weights("weiavg", variances=[1.0]), "eps must be given"),
        (lambda: server_weights.server_weights("weiavg", eps=[1.0, 0.0]), "eps must be > 0"),
        (lambda: server_weights.server_weights("weiavg", eps=[1.0, -1.0]), "eps must be > 0"),
        (lambda: server_weights.server_weights("weiavg", eps=3.0), "eps must be a list"),
        (lambda: server_weights.server_weights("dpfedavg", n_samples=[1, 0]), "n_samples must be > 0"),
        (lambda: server_weights.server_weights("precision", variances=[1.0, np.nan]), "variances holds NaN"),
        (lambda: server_weights.server_weights("precision", variances=[1.0, 0.0]), "variances must be > 0"),
        (lambda: server_weights.server_weights("precision", variances=[1.0, np.inf]), "variances must be finite"),
        (lambda: server_weights.server_weights("weiavg", eps=[1.0], variances=[1.0, 2.0]), "same clients"),
        (lambda: server_weights.server_weights("uniform"), "how many clients"),
        (lambda: compare_schemes([1.0, 2.0], updates=np.ones((4, 3))), "same clients"),
        (lambda: aggregate([[1.0, np.nan, 2.0]], [0.5, 0.2, 0.3]), "column 1 of 3"),
        (lambda: aggregate([[1.0, 2.0], [1.0]], [0.5, 0.5]), "updates has entries of different shapes"),
        (lambda: aggregate(np.ones((3, 2)), [1.0]), "one entry for each of the 2 clients"),
        (lambda: aggregate(np.ones((3, 2)), [1.0, 1.0]), "add to one"),
        (lambda: stack_updates([[1.0, 2.0], [1.0]]), r"vectors\[1\] has shape \(1,\)"),
        (lambda: stack_updates([[1.0, 2.0], [1.0, np.nan]]), r"vectors\[1\] holds NaN"),
        (lambda: stack_updates([]), "vectors is empty"),
        (lambda: stack_updates([[]]), r"vectors\[0\] has shape"),
        (lambda: public_clients([1.0, 0.0]), "eps must be > 0"),
        (lambda: project_private(np.ones((3, 2)), [False, False]), "at least one client"),
        (lambda: project_private(np.ones((3, 2)), [True, False], 1), "components must be in 0..0"),
        (lambda: project_private(np.ones((3, 2)), [1, 0]), "public must hold True or False"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
