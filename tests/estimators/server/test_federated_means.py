"""The fitted object: its parts, its posterior against brute force and simulation, private clients, limits, bad input."""

import numpy as np
import pytest

from estimators import FederatedMeans, GaussianMeans
from estimators.closed_forms import mean_regularized
from estimators.server.server_weights import server_weights
from estimators.server.strengths import personalization_strengths


def private_clients(seed, clients=60, coordinates=8, tau2=0.6):
    gen = np.random.default_rng(seed)
    variances, noises = gen.choice([0.2, 0.5, 1.0], clients), gen.choice([0.0, 1.0, 4.0], clients)
    truth = gen.normal(size=coordinates) + np.sqrt(tau2) * gen.normal(size=(clients, coordinates))
    own = truth + np.sqrt(variances)[:, None] * gen.normal(size=truth.shape)
    return truth, own, own + np.sqrt(noises)[:, None] * gen.normal(size=truth.shape), variances, noises


def test_the_fit_is_the_posterior_under_a_flat_prior_on_the_centre():
    _, _, messages, variances, noises = private_clients(1, clients=7, coordinates=2)
    model = FederatedMeans(tau2=0.6).fit(messages, variances, noises)
    # Brute force: the precision matrix of the truths under a flat centre, plus that of the messages.
    noise = variances + noises
    posterior = np.linalg.inv((np.eye(7) - 1 / 7) / 0.6 + np.diag(1 / noise))
    np.testing.assert_allclose(model.posterior_mean_, posterior @ (messages / noise[:, None]), rtol=1e-10)
    np.testing.assert_allclose(model.posterior_sd_**2, np.diag(posterior)[:, None] + np.zeros(2), rtol=1e-10)
    np.testing.assert_allclose(model.strength_, (variances + noises) / 0.6)
    assert model.claim_ == "mrmtl:mmse"
    weights = 1 / (0.6 + variances + noises)
    np.testing.assert_allclose(model.weights_, weights / weights.sum())
    np.testing.assert_allclose(model.server_estimate_, model.weights_ @ messages)
    assert model.server_sd_ == pytest.approx(1 / np.sqrt(weights.sum()))
    np.testing.assert_allclose(
        model.posterior_mean_,
        model.own_weight_[:, None] * messages
        + (1 - model.own_weight_)[:, None]
        * [np.delete(model.weights_, i) @ np.delete(messages, i, 0) / (1 - model.weights_[i]) for i in range(7)],
    )
    density = -0.5 * np.sum(
        np.log(2 * np.pi / weights)[:, None] + weights[:, None] * (messages - model.server_estimate_) ** 2
    )
    assert model.log_likelihood_ == pytest.approx(density)


def test_one_number_per_client_is_the_gaussian_model():
    _, _, messages, variances, noises = private_clients(2, coordinates=1)
    scalar = GaussianMeans(prior="reml").fit(messages[:, 0], variances + noises)
    model = FederatedMeans().fit(messages[:, 0], variances, noises)
    assert model.converged_
    assert model.tau2_ == pytest.approx(scalar.tau2_, rel=1e-5)
    assert model.server_estimate_ == pytest.approx(scalar.mu_, rel=1e-5)
    np.testing.assert_allclose(model.posterior_mean_, scalar.posterior_mean_, atol=1e-5)
    np.testing.assert_allclose(model.posterior_sd_, scalar.posterior_sd_, rtol=1e-5)
    np.testing.assert_allclose(model.interval(0.9)[1], scalar.posterior_mean_ + 1.6448536 * scalar.posterior_sd_, rtol=1e-4)
    assert model.log_likelihood_ == pytest.approx(scalar.log_likelihood_)


@pytest.mark.parametrize("weights", ["precision", "uniform"])
@pytest.mark.parametrize("strength", ["client", "common", 1.5, np.inf, 0.0])
def test_risks_and_intervals_keep_their_promise(weights, strength):
    covered, squares, risks, home, home_risks = [], [], [], [], []
    for seed in range(40):
        truth, own, messages, variances, noises = private_clients(seed)
        model = FederatedMeans(weights, strength).fit(messages, variances, noises)
        low, high = model.interval()
        covered.append(np.mean((low <= truth) & (truth <= high)))
        squares.append(np.mean((model.posterior_mean_ - truth) ** 2))
        home.append(np.mean((model.personalize(own) - truth) ** 2))
        risks.append(model.risk_.mean())
        home_risks.append(model.home_risk_.mean())
    # 40 data sets of 480 truths: 4 standard errors, and 1 % for a tau2 that is estimated.
    assert abs(np.mean(covered) - 0.95) < 0.01
    for observed, predicted in ((squares, risks), (home, home_risks)):
        gap = np.array(observed) - predicted
        assert abs(gap.mean()) < 4 * gap.std() / np.sqrt(40) + 0.01 * np.mean(predicted)


def test_every_way_to_share_beats_none_and_the_best_beats_all():
    errors = {}
    for seed in range(30):
        truth, own, messages, variances, noises = private_clients(seed)
        for weights in ("precision", "uniform"):
            for strength in ("client", "common", 0.0, np.inf):
                model = FederatedMeans(weights, strength).fit(messages, variances, noises)
                errors.setdefault((weights, strength), []).append(np.mean((model.posterior_mean_ - truth) ** 2))
                errors.setdefault((weights, strength, "home"), []).append(np.mean((model.personalize(own) - truth) ** 2))
    means = {how: np.mean(values) for how, values in errors.items()}
    assert min(means, key=means.__getitem__) == ("precision", "client", "home")
    served = {how: mean for how, mean in means.items() if len(how) == 2}
    assert min(served, key=served.__getitem__) == ("precision", "client")
    assert means["precision", "client"] < 0.4 * means["precision", 0.0]


def test_sampling_variances_from_the_numbers_of_samples():
    gen = np.random.default_rng(3)
    n_samples = gen.integers(3, 80, 200)
    truth = np.sqrt(0.5) * gen.normal(size=(200, 10))
    messages = truth + np.sqrt(6 / n_samples + 1)[:, None] * gen.normal(size=truth.shape)
    model = FederatedMeans().fit(messages, noises=1.0, n_samples=n_samples)
    assert abs(model.sigma2_ - 6) < 4 * model.sigma2_sd_
    assert abs(model.tau2_ - 0.5) < 4 * model.tau2_sd_
    np.testing.assert_allclose(model.variances_, model.sigma2_ / n_samples)
    assert set(model.prior_summary()) == {
        "family", "sd", "coordinates", "tau2", "tau2_standard_error", "mean", "sigma2", "sigma2_standard_error",
    }  # fmt: skip
    again = FederatedMeans().fit(*model.draw(gen)[1])
    assert abs(again.tau2_ - model.tau2_) < 6 * model.tau2_sd_


def test_a_draw_is_a_replicate():
    _, _, messages, variances, noises = private_clients(4, clients=400, coordinates=20)
    model = FederatedMeans().fit(messages, variances, noises)
    truth, arguments = model.draw(np.random.default_rng(5))
    assert truth.tolist() == model.draw(np.random.default_rng(5))[0].tolist()
    assert abs(np.var(truth - model.server_estimate_) / model.tau2_ - 1) < 5 * np.sqrt(2 / truth.size)
    again = FederatedMeans().fit(*arguments)
    assert abs(again.tau2_ - model.tau2_) < 6 * model.tau2_sd_
    assert "mean" in model.prior_summary()
    samples = FederatedMeans().fit([1.0, 2.0, 4.0, 9.0], n_samples=[5, 9, 20, 50])
    assert "sigma2" in samples.prior_summary()
    assert "sigma2" not in samples.fit([1.0, 2.0, 4.0, 9.0], 1.0).prior_summary()  # of the fit before
    assert "mean" not in FederatedMeans(tau2=1.0).fit(np.ones((3, 21)), 1.0).prior_summary()
    assert FederatedMeans(tau2=1.0).fit(np.ones((3, 20)), 1.0).prior_summary()["mean"] == [1.0] * 20


def test_weights_from_anywhere():
    _, _, messages, variances, noises = private_clients(6, coordinates=3000, clients=12)
    eps = np.linspace(1, 3, 12)
    weights = server_weights("weiavg", eps=eps).weights
    model = FederatedMeans(weights).fit(messages, variances, noises)
    np.testing.assert_allclose(model.server_estimate_, weights @ messages)
    expected = personalization_strengths(variances + noises, model.tau2_, weights=weights)
    np.testing.assert_array_equal(model.strength_, expected.lam)
    robust = FederatedMeans("robust-hdp").fit(messages, variances, noises)
    best = FederatedMeans().fit(messages, variances, noises)
    assert 1 <= robust.server_sd_**2 / best.server_sd_**2 < 1.02
    uniform = FederatedMeans("uniform", "common").fit(messages, variances, noises)
    assert uniform.strength_ == pytest.approx(mean_regularized.strength(np.mean(variances + noises), uniform.tau2_))
    assert uniform.claim_ == "mrmtl:thm6.3"


def test_limits():
    gen = np.random.default_rng(7)
    same = FederatedMeans().fit(0.3 * gen.normal(size=(20, 4)), variances=1.0)  # clients less apart than their noise
    assert (same.tau2_, same.strength_.tolist()) == (0.0, [np.inf] * 20)
    np.testing.assert_allclose(same.posterior_mean_, np.tile(same.server_estimate_, (20, 1)))
    np.testing.assert_allclose(same.posterior_sd_, same.server_sd_)
    exact = FederatedMeans().fit([[1.0], [2.0], [4.0]])
    np.testing.assert_allclose(exact.posterior_mean_, [[1.0], [2.0], [4.0]])
    assert not exact.posterior_sd_.any()
    assert exact.posterior_cdf(2.0).tolist() == [[1.0], [1.0], [0.0]]
    assert exact.posterior_cdf(2.0, strict=True).tolist() == [[1.0], [0.0], [0.0]]
    lone = FederatedMeans(tau2=1.0).fit([[3.0, 4.0]], 2.0)
    assert lone.posterior_mean_.tolist() == [[3.0, 4.0]]
    assert lone.risk_.tolist() == [2.0]
    zero = FederatedMeans().fit(np.zeros((4, 2)), 1.0)
    assert not zero.posterior_mean_.any()
    assert zero.local_false_sign_rate().tolist() == [[0.5] * 2] * 4


def test_school_means_with_unequal_privacy(shared_data):
    """Private mean scores of half of each of 139 schools' pupils, judged by the other half; 40 splits and noises."""
    from scipy.io import loadmat

    scores = [y.ravel().astype(float) for y in loadmat(shared_data("school/school.mat"))["Y"][0]]
    sizes = np.array([y.size for y in scores])
    sigma2 = sum(np.sum((y - y.mean()) ** 2) for y in scores) / np.sum(sizes - 1)
    errors, predicted = {}, []
    for seed in range(40):
        gen = np.random.default_rng(seed)
        shuffled = [gen.permutation(y) for y in scores]
        own = np.array([y[: y.size // 2].mean() for y in shuffled])
        judge = np.array([y[y.size // 2 :].mean() for y in shuffled])
        n = sizes // 2
        noises = 2 * np.log(1.25e5) * (70 / (gen.choice([1.0, 3.0, 10.0], 139) * n)) ** 2
        messages = own + np.sqrt(noises) * gen.normal(size=139)
        found = {"raw": messages, "own": own}
        for weights in ("uniform", "precision"):
            for strength in ("common", "client", np.inf):
                model = FederatedMeans(weights, strength).fit(messages, sigma2 / n, noises)
                found[f"{weights}, {strength}"] = model.posterior_mean_
        predicted.append((model := FederatedMeans().fit(messages, sigma2 / n, noises)).risk_.mean())
        found["home"] = model.personalize(own)
        for how, estimates in found.items():
            # The judges' own sampling noise is taken off.
            errors.setdefault(how, []).append(np.mean((estimates - judge) ** 2 - sigma2 / (sizes - n)))
    means = {how: float(np.mean(values)) for how, values in errors.items()}
    print({how: f"{mean:.2f} +- {np.std(errors[how]) / np.sqrt(40):.2f}" for how, mean in means.items()}, np.mean(predicted))
    served = {how: mean for how, mean in means.items() if how not in ("own", "home")}
    assert min(served, key=served.__getitem__) == "precision, client"
    assert means["home"] < means["own"]
    assert means["precision, client"] == pytest.approx(np.mean(predicted), rel=0.2)


def test_parameters_are_kept_as_they_are():
    weights = [0.5, 0.5]
    model = FederatedMeans(weights, tau2=1.0)
    assert model.get_params()["weights"] is weights
    assert repr(model) == "FederatedMeans(weights=[0.5, 0.5], tau2=1.0)"
    model.fit([[1.0], [2.0]], 1.0)
    assert model.weights is weights


Y = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        (FederatedMeans(), ([[1.0, np.nan], [1.0, 1.0]],), "row 0 of 2"),
        (FederatedMeans(), ([[1.0, 2.0], [1.0]],), "messages has entries of different shapes"),
        (FederatedMeans(), ([[1.0, 2.0]], 1.0), "2 are needed"),
        (FederatedMeans(), (Y, -1.0), "variances must be >= 0"),
        (FederatedMeans(), (Y, [1.0, 2.0]), "variances must be one number or one for each of the 4"),
        (FederatedMeans(), (Y, 1.0, np.inf), "noises must be finite"),
        (FederatedMeans(), (Y, 1.0, 0.0, [1, 2, 3, 4]), "leave out variances"),
        (FederatedMeans(tau2=1.0), (Y, 0.0, 0.0, [1, 2, 3, 4]), "leave out variances"),
        (FederatedMeans(), (Y, 0.0, 0.0, [2, 2, 2, 2]), "cannot be told apart"),
        (FederatedMeans(tau2=-1.0), (Y, 1.0), "tau2 must be >= 0"),
        (FederatedMeans(tau2=[1.0, 1.0]), (Y, 1.0), "tau2 must be a single number"),
        (FederatedMeans(tau2=0.0), (Y,), "must be > 0 for every client"),
        (FederatedMeans(weights="eps"), (Y, 1.0), "weights must be one of"),
        (FederatedMeans(weights=[1.0, 1.0]), (Y, 1.0), "weights must have one entry for each of the 4"),
        (FederatedMeans(strength="best"), (Y, 1.0), "strength must be one of"),
        (FederatedMeans(strength=-1.0), (Y, 1.0), "strength must be >= 0"),
        (FederatedMeans(strength=[1.0, 1.0]), (Y, 1.0), "strength must be a single number"),
    ],
)
def test_bad_input_is_named(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*arguments)


def test_use_before_fit_and_wrong_shapes_are_named():
    model = FederatedMeans()
    for use in (model.prior_summary, lambda: model.interval(), lambda: model.personalize(Y), lambda: model.draw(None)):
        with pytest.raises(ValueError, match="has not been fitted"):
            use()
    with pytest.raises(ValueError, match="own_estimates must have the messages' shape"):
        model.fit(Y, 1.0).personalize(Y[:2])
