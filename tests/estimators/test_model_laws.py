"""What every model says of a client is one law: distribution, quantiles, moments, draws and new data fit each other."""

import warnings

import numpy as np
import pytest
from scipy.integrate import simpson

import estimators
from estimators import private

RNG = np.random.default_rng


def means(**options):
    sent = {"bounds": (-4.0, 6.0), "eps": 4.0, **options}
    generator = RNG(0)
    clients = [private.MeanClient(**sent) for _ in range(6)]
    return ([c.report(generator.normal(i / 2, 1.0, 30), generator) for i, c in enumerate(clients)],)


def rates(**options):
    generator = RNG(0)
    return (
        [private.RateClient(eps=2.0, **options).report(generator.random(40) < 0.1 + i / 10, generator) for i in range(6)],
    )


Y, V = np.array([2.0, 1.2, -0.5, 3.0, 0.8, 5.1]), np.array([1.0, 0.25, 0.25, 4.0, 0.1, 1.0])
X, N = np.array([2, 0, 5, 9, 4, 30]), np.array([12, 10, 10, 14, 40, 50])
Z = np.array([0.3, -1.0, 0.4, 0.9, -0.2, 1.1])

MODELS = {
    "normal": (estimators.GaussianMeans(), (Y, V)),
    "normal, best prior": (estimators.GaussianMeans("marginal-likelihood"), (Y, V)),
    "normal, covariates": (estimators.GaussianMeans(), (Y, V, Z)),
    "normal, known spread": (estimators.GaussianMeans("fixed", tau2=1.5), (Y, V)),
    "variances from samples": (estimators.SampleMeans(), (Y, 4 * V, 5)),
    "spike and slab": (estimators.PointNormalMeans(), (Y, V)),
    "spike and slab, best prior": (estimators.PointNormalMeans(mode=1.0, prior="marginal-likelihood"), (Y, V)),
    "mixture": (estimators.MixtureMeans(k=2), (Y, V)),
    "any law of means": (estimators.NonparametricMeans(), (Y, V)),
    "rates": (estimators.BetaBinomial(), (X, N)),
    "rates, known prior": (estimators.BetaBinomial("fixed", alpha=1.3, beta=0.7), (X, N)),
    "rates, best prior": (estimators.BetaBinomial("marginal-likelihood"), (X, N)),
    "rates, moments": (estimators.BetaBinomial("moments"), (X, N)),
    "rates, covariates": (estimators.BetaBinomialRegression(), (X, N, Z)),
    "any law of rates": (estimators.NonparametricRates(), (X, N)),
    "counts": (estimators.GammaPoisson(), (X, N / 4)),
    "counts, known prior": (estimators.GammaPoisson("fixed", shape=1.7, rate=0.4), (X, N / 4)),
    "counts, moments": (estimators.GammaPoisson("moments"), (X, N / 4)),
    "counts, covariates": (estimators.GammaPoissonRegression(), (X, N / 4, Z)),
    "any law of counts": (estimators.NonparametricCounts(), (X, N / 4)),
    "private means": (private.PrivateGaussianMeans(sigma2=1.0), means()),
    "private means, staircase": (private.PrivateGaussianMeans(sigma2=1.0), means(mechanism="staircase", adjacency="client")),
    "private means, normal": (
        private.PrivateGaussianMeans("integrated", sigma2=1.0),
        means(delta=1e-5, mechanism="gaussian"),
    ),
    "private rates": (private.PrivateRates(), rates()),
    "private rates, moments": (private.PrivateRates("moments"), rates()),
}


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    found, data = MODELS[request.param]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found.fit(*data)


def has_covariates(model):
    return getattr(model, "covariates_", None) is not None


def below(model, at):
    """The distribution functions at an array of points, array (points, clients)."""
    return np.array([model.posterior_cdf(float(t)) for t in at])


def test_distribution_functions_have_the_stated_moments(model):
    """Mean and variance as integrals of the distribution function; a step within a cell moves them by its width at most."""
    low, high = model.posterior_quantile(1e-7).min(), model.posterior_quantile(1 - 1e-7).max()
    at = low + (high - low) * np.linspace(0, 1, 301) ** 2  # closer together at 0, where rates may be likeliest
    rest = 1 - below(model, at)
    mean = low + simpson(rest, x=at, axis=0)
    square = simpson(2 * (at - low)[:, None] * rest, x=at, axis=0) - (mean - low) ** 2
    steps = model.atoms().size or type(model).__name__.startswith("Nonparametric")
    close = 1e-3 * model.posterior_sd_ + (at[-1] - at[-2] if steps else 0)
    assert (np.abs(mean - model.posterior_mean_) < close).all()
    assert (np.abs(np.sqrt(np.maximum(square, 0)) - model.posterior_sd_) < 10 * close).all()


@pytest.mark.parametrize("q", [0.03, 0.4, 0.9])
def test_quantiles_are_the_smallest_points_with_so_much_below(model, q):
    at = model.posterior_quantile(q)
    upto = np.diag(below(model, at))
    less = np.diag([model.posterior_cdf(float(t), strict=True) for t in at])
    assert (less <= q + 1e-7).all()
    assert (upto >= q - 1e-7).all()
    low, high = model.interval(abs(2 * q - 1), method="posterior")
    np.testing.assert_allclose(low if q < 0.5 else high, at, rtol=1e-10)


@pytest.mark.parametrize("q", [-0.1, 1.5, np.nan, [0.2, 0.4]])
def test_a_quantile_of_no_share_is_refused(model, q):
    with pytest.raises(ValueError, match=r"^q "):
        model.posterior_quantile(q)


def test_draws_have_the_distribution_function(model):
    """1000 draws: a share is within 5 standard errors at each of five points; an atom is hit as often as it weighs."""
    draws = model.sample_posterior(RNG(1), 1000)
    for q in (0.02, 0.25, 0.5, 0.75, 0.98):
        at = model.posterior_quantile(q)
        upto = np.diag(below(model, at))
        less = np.diag([model.posterior_cdf(float(t), strict=True) for t in at])
        for drawn, chance in (((draws <= at).mean(axis=0), upto), ((draws < at).mean(axis=0), less)):
            assert (np.abs(drawn - chance) <= 5 * np.sqrt(chance * (1 - chance) / 1000) + 1e-6).all()


def test_new_clients_have_the_stated_prior_and_their_data_follow_them(model):
    """300 times new clients, and new data about these: means within 5 standard errors, of clients apart and together."""
    generator = RNG(2)
    drawn = [model.draw(generator) for _ in range(300)]
    truths = np.array([truth for truth, _ in drawn])
    errors = np.array([model.own_numbers(arguments) for _, arguments in drawn]) - truths
    assert (np.abs(errors.mean(axis=0)) <= 5 / np.sqrt(300) * errors.std(axis=0) + 1e-12).all()
    if not has_covariates(model):
        summary = model.prior_summary()
        for found, stated in ((truths.mean(axis=1), summary["mean"]), (truths.var(axis=1, ddof=1), summary["sd"] ** 2)):
            assert abs(found.mean() - stated) <= 5 * found.std() / np.sqrt(300) + 1e-12
    truth, arguments = model.draw(RNG(3), truths[0])
    assert np.array_equal(truth, truths[0])
    assert len(arguments) == len(drawn[0][1])


def test_one_prior_and_own_numbers_make_posterior_means(model):
    if not model.independent or not hasattr(model, "weights_") or hasattr(model, "reports_") or has_covariates(model):
        pytest.skip("of one prior without covariates only; private weights are those of linear estimates")
    mean = model.weights_ * model.own_numbers() + (1 - model.weights_) * model.prior_summary()["mean"]
    np.testing.assert_allclose(mean, model.posterior_mean_, rtol=1e-9)


def test_atoms_are_where_clients_may_be_and_under_one_prior_the_only_places_where_two_are_equal(model):
    atoms = model.atoms()
    for t in atoms.tolist():
        assert (model.posterior_cdf(t) > model.posterior_cdf(t, strict=True)).any()
    if model.independent:  # of several priors each may have a point of its own
        draws = np.sort(model.sample_posterior(RNG(4), 200), axis=1)
        equal = np.unique(draws[:, 1:][np.diff(draws) == 0])
        assert all(np.isclose(t, atoms, rtol=1e-12).any() for t in equal.tolist())
