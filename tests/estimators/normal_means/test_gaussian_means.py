"""Normal prior: averages over its spread against quadrature, other priors against metafor, limits, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from estimators.normal_means import normal_posteriors
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.prior_inference import heterogeneity

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments")


def some_clients(m, seed=0, tau=1.0):
    generator = np.random.default_rng(seed)
    variances = np.exp(generator.uniform(-2, 2, m))
    return generator.normal(3.0, np.sqrt(tau**2 + variances)), variances


# R 4.2 (Debian), metafor 3.8-1:
#   dat <- escalc(measure="RR", ai=tpos, bi=tneg, ci=cpos, di=cneg, data=dat.bcg)
#   r <- rma(yi, vi, data=dat, method=M, control=list(threshold=1e-14, tol=1e-14, stepadj=.5, maxiter=10000))
#   coef(r); r$tau2; r$se; logLik(rma(yi, vi, data=dat, method="ML", tau2=r$tau2)); blup(r)$pred; blup(r)$se
BCG = (
    [-0.88931133392020545, -1.5853886572014306, -1.3480731482996933, -1.4415511900213054, -0.21754732221129558,
     -0.78611558581886398, -1.6208982235983918, 0.011952333523840508, -0.4694176487381494, -1.3713448034727844,
     -0.33935882833839059, 0.44591340057137874, -0.017313948216879815],
    [0.32558476500396133, 0.19458112139814385, 0.41536796536796539, 0.020010031902247573, 0.051210172169630863,
     0.0069056184559087574, 0.22301724757231517, 0.0039615792978177295, 0.056434210463248966, 0.07302479361302891,
     0.01241221397155972, 0.53250584520015276, 0.071404659683986293],
)  # fmt: skip
METAFOR = {
    "marginal-likelihood": (
        -0.711199135474, 0.280028137269, 0.171896808777, -12.665076348277,
        [-0.7935560783, -1.2269869313, -0.9676610898, -1.3928428275, -0.2938669798, -0.7843125758, -1.2175974621,
         0.0018645672, -0.5099712126, -1.2348015349, -0.3551410603, -0.3124169613, -0.1582986147],
        [0.3988568612, 0.3460824761, 0.4216708662, 0.1371384537, 0.2097599357, 0.0821981530, 0.3604908928,
         0.0625465134, 0.2186318474, 0.2432789123, 0.1092640179, 0.4429578219, 0.2410734204],
    ),
    "reml": (
        -0.714532342158, 0.313243258136, 0.179781516105, -12.687771662670,
        [-0.8002335620, -1.2517059803, -0.9869030934, -1.3978976965, -0.2873798065, -0.7845715336, -1.2439634652,
         0.0028792479, -0.5068363593, -1.2471730160, -0.3536584005, -0.2847337129, -0.1467430699],
        [0.4099304475, 0.3532273016, 0.4348315764, 0.1375684157, 0.2113117584, 0.0822903527, 0.3685919599,
         0.0625870944, 0.2203912683, 0.2457122117, 0.1094809657, 0.4583004760, 0.2434402974],
    ),
    "moments": (
        -0.714968153493, 0.318068452205, 0.180892191538, -12.694336916216,
        [-0.8011217904, -1.2550121068, -0.9895260033, -1.3985465316, -0.2865277742, -0.7846037205, -1.2475044510,
         0.0030098348, -0.5064199193, -1.2487863857, -0.3534659874, -0.2808616913, -0.1452194687],
        [0.4114170996, 0.3541752103, 0.4366085924, 0.1376238277, 0.2115131619, 0.0823021959, 0.3696700082,
         0.0625923031, 0.2206198602, 0.2460293814, 0.1095088725, 0.4603839379, 0.2437487151],
    ),
}  # fmt: skip


@pytest.mark.parametrize("prior", METAFOR)
def test_metafor_golden_numbers(prior):
    mu, tau2, mu_sd, log_likelihood, means, sds = METAFOR[prior]
    model = GaussianMeans(prior).fit(*BCG)
    # metafor's own searches stop at about 1e-10 in tau2.
    np.testing.assert_allclose([model.mu_, model.tau2_, model.mu_sd_], [mu, tau2, mu_sd], rtol=2e-9)
    np.testing.assert_allclose(model.posterior_mean_, means, rtol=0, atol=2e-9)
    np.testing.assert_allclose(model.posterior_sd_, sds, rtol=0, atol=2e-9)
    if prior == "marginal-likelihood":  # metafor's ML at a given tau2 is the profile likelihood for all three
        assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-9)


def log_density(tau2, y, v, mu=None):
    """Log density of y with mu given, or integrated out under a flat prior (density of contrasts), by dense algebra."""
    s = np.diag(tau2 + v)
    if mu is None:
        contrasts = np.diff(np.eye(y.size), axis=0)
        s, y = contrasts @ s @ contrasts.T, contrasts @ y
    else:
        y = y - mu
    return -0.5 * (y.size * np.log(2 * np.pi) + np.linalg.slogdet(s)[1] + y @ np.linalg.solve(s, y))


@pytest.mark.parametrize("seed", range(2))
def test_likelihood_priors_agree_with_direct_optimisation(seed):
    y, v = some_clients(8, seed)
    for prior, loss in {
        "marginal-likelihood": lambda t: -stats.norm(t[1], np.sqrt(np.exp(t[0]) + v)).logpdf(y).sum(),
        "reml": lambda t: -log_density(np.exp(t[0]), y, v),
    }.items():
        options = {"xatol": 1e-7, "fatol": 1e-12, "maxiter": 5000, "maxfev": 5000}
        direct = optimize.minimize(loss, [0.0, y.mean()], method="Nelder-Mead", options=options)
        model = GaussianMeans(prior).fit(y, v)
        assert model.tau2_ == pytest.approx(np.exp(direct.x[0]), rel=1e-5)
        if prior == "marginal-likelihood":
            assert model.log_likelihood_ == pytest.approx(-direct.fun, abs=1e-10)


class Oracle:
    """The average over tau (density tau where tau2 is flat) by adaptive quadrature, the rest by dense matrices."""

    def __init__(self, y, v, mu=None, hyperprior="strawderman"):
        self.y, self.v, self.mu = y, v, mu
        edge = 4 * stats.hmean(v)
        self.hyperprior = {
            "strawderman": lambda tau: tau * (edge + tau**2) ** -1.5,
            "flat-tau": lambda tau: 1.0,
            "flat-tau2": lambda tau: tau,
        }[hyperprior]
        self.peak = max(log_density(t**2, y, v, mu) for t in np.geomspace(1e-3, 100, 200))
        self.total = self.integral(lambda tau: 1.0)

    def integral(self, f):
        def integrand(tau):
            return f(tau) * self.hyperprior(tau) * np.exp(log_density(tau**2, self.y, self.v, self.mu) - self.peak)

        pieces = ((0, 1e-3), (1e-3, 0.01), (0.01, 0.1), (0.1, 1), (1, 3), (3, 10), (10, 100), (100, np.inf))
        return sum(integrate.quad(integrand, *ends, epsabs=1e-11, epsrel=1e-9, limit=200)[0] for ends in pieces)

    def given(self, tau, i):
        """Mean and sd of theta_i given tau."""
        w = 1 / (tau**2 + self.v)
        mu = self.mu if self.mu is not None else w @ self.y / w.sum()
        own = tau**2 * w[i]
        variance = self.v[i] * own + (0 if self.mu is not None else (1 - own) ** 2 / w.sum())
        return mu + own * (self.y[i] - mu), np.sqrt(variance)

    def average(self, f):
        return self.integral(f) / self.total


@pytest.mark.parametrize(
    ("m", "tau", "mu", "hyperprior"),
    [
        (2, 1.0, None, "strawderman"),
        (3, 1.0, None, "strawderman"),
        (6, 0.0, None, "strawderman"),
        (2, 1.0, 3.0, "strawderman"),
        (20, 0.7, 2.9, "strawderman"),
        (3, 1.0, None, "flat-tau"),
        (6, 2.0, None, "flat-tau"),
        (4, 1.0, None, "flat-tau2"),
        (6, 2.0, None, "flat-tau2"),
        (3, 1.0, 3.0, "flat-tau2"),
    ],
)
def test_averages_over_the_spread_agree_with_quadrature(m, tau, mu, hyperprior):
    y, v = some_clients(m, m, tau)
    model, oracle = GaussianMeans(mu=mu, hyperprior=hyperprior).fit(y, v), Oracle(y, v, mu, hyperprior)
    assert model.converged_
    i = m // 2
    mean = oracle.average(lambda tau: oracle.given(tau, i)[0])
    square = oracle.average(lambda tau: (oracle.given(tau, i)[0] - mean) ** 2 + oracle.given(tau, i)[1] ** 2)
    assert model.posterior_mean_[i] == pytest.approx(mean, abs=1e-8)
    assert model.posterior_sd_[i] == pytest.approx(np.sqrt(square), abs=1e-8)
    assert model.weights_[i] == pytest.approx(oracle.average(lambda tau: tau**2 / (tau**2 + v[i])), abs=1e-8)
    for t in (y[i], 2.0):
        cdf = oracle.average(lambda tau, t=t: stats.norm.cdf(t, *oracle.given(tau, i)))
        assert model.posterior_cdf(t)[i] == pytest.approx(cdf, abs=1e-7)
    low, high = model.interval(0.9)
    for end, share in ((low[i], 0.05), (high[i], 0.95)):
        cdf = oracle.average(lambda tau, end=end: stats.norm.cdf(end, *oracle.given(tau, i)))
        assert cdf == pytest.approx(share, abs=1e-7)


def test_three_clients_bound_the_centre():
    """Under the proper hyperprior mu has a second moment from three clients on: against adaptive quadrature."""
    y, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.2, 3.0])
    oracle = Oracle(y, v)

    def centre(tau):
        w = 1 / (tau**2 + v)
        return w @ y / w.sum(), 1 / w.sum()

    mean = oracle.average(lambda tau: centre(tau)[0])
    square = oracle.average(lambda tau: (centre(tau)[0] - mean) ** 2 + centre(tau)[1])
    model = GaussianMeans().fit(y, v)
    assert model.mu_ == pytest.approx(mean, rel=1e-9)
    assert model.mu_sd_ == pytest.approx(np.sqrt(square), rel=1e-6)
    assert GaussianMeans().fit(y[:2], v[:2]).mu_sd_ == np.inf
    for hyperprior, enough in (("flat-tau", 5), ("flat-tau2", 6)):
        for m in (enough - 1, enough):
            assert (GaussianMeans(hyperprior=hyperprior).fit(*some_clients(m)).mu_sd_ < np.inf) == (m == enough)


def test_a_centre_that_is_known_is_certain_however_little_bounds_the_spread():
    """Of a few clients the spread between them has no mean, and nobody can tell a new one: the centre stays what it is."""
    model = GaussianMeans(mu=0.5, hyperprior="flat-tau2").fit(*some_clients(3))
    assert (model.mu_, model.mu_sd_) == (0.5, 0.0)
    assert model.predict(return_sd=True) == (0.5, np.inf)


def test_intervals_hold_on_average_over_the_hyperprior():
    """What makes it a law: with tau2 drawn from it, 95 % intervals of three clients hold 95 % of the truths."""
    generator, held, v = np.random.default_rng(5), [], np.array([0.3, 1.0, 5.0])
    for _ in range(1500):
        tau2 = 4 * stats.hmean(v) * (generator.random() ** -2 - 1)
        truth = np.sqrt(tau2) * generator.standard_normal(3)
        low, high = GaussianMeans().fit(truth + np.sqrt(v) * generator.standard_normal(3), v).interval()
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert abs(np.mean(held) - 0.95) < 5 * np.std(held) / np.sqrt(len(held)) < 0.025


def test_two_modes_are_both_counted():
    """Four precise clients agree and two noisy ones do not: tau is either near 1e-3 or near 3."""
    y, v = np.array([0.0, 1e-3, -1e-3, 2e-3, 3.0, -3.0]), np.array([1e-6, 1e-6, 1e-6, 1e-6, 1.0, 1.0])
    model, oracle = GaussianMeans(hyperprior="flat-tau2").fit(y, v), Oracle(y, v, hyperprior="flat-tau2")
    tau2s, *_, shares = model.nodes_
    assert 0.05 < shares[tau2s < 0.05].sum() < 0.95
    mean = oracle.average(lambda tau: oracle.given(tau, 4)[0])
    square = oracle.average(lambda tau: (oracle.given(tau, 4)[0] - mean) ** 2 + oracle.given(tau, 4)[1] ** 2)
    assert model.posterior_mean_[4] == pytest.approx(mean, abs=1e-8)
    assert model.posterior_sd_[4] == pytest.approx(np.sqrt(square), abs=1e-8)


def test_eight_schools():
    """Rubin (1981), where the restricted likelihood is largest without any spread: the average is not fooled."""
    y, s = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18.0])
    model = GaussianMeans().fit(y, s**2)
    oracle = Oracle(y, s**2)
    for i in (0, 2):
        mean = oracle.average(lambda tau, i=i: oracle.given(tau, i)[0])
        assert model.posterior_mean_[i] == pytest.approx(mean, abs=1e-7)
    assert GaussianMeans("reml").fit(y, s**2).tau2_ == 0
    assert model.tau2_ > 10


@given(st.integers(4, 30), st.integers(0, 1000), st.floats(-6, 6), st.floats(-100, 100))
def test_bayes_is_equivariant(m, seed, exponent, shift):
    y, v = some_clients(m, seed)
    unit = 10.0**exponent
    one, two = GaussianMeans().fit(y, v), GaussianMeans().fit((y[::-1] + shift) * unit, v[::-1] * unit**2)
    np.testing.assert_allclose(two.posterior_mean_ / unit - shift, one.posterior_mean_[::-1], atol=1e-8 * (1 + abs(shift)))
    np.testing.assert_allclose(two.posterior_sd_ / unit, one.posterior_sd_[::-1], rtol=1e-7)
    np.testing.assert_allclose(two.tau2_ / unit**2, one.tau2_, rtol=1e-6)
    np.testing.assert_allclose(two.interval()[1] / unit - shift, one.interval()[1][::-1], atol=1e-6 * (1 + abs(shift)))


@given(st.integers(4, 30), st.integers(0, 1000))
def test_equal_variances_are_the_limit_of_unequal_ones(m, seed):
    y, _ = some_clients(m, seed)
    nearly = np.full(m, 2.0)
    nearly[0] *= 1 + 1e-12
    one, two = GaussianMeans().fit(y, 2.0), GaussianMeans().fit(y, nearly)
    np.testing.assert_allclose(one.posterior_mean_, two.posterior_mean_, atol=1e-8)
    np.testing.assert_allclose(one.posterior_sd_, two.posterior_sd_, atol=1e-8)
    np.testing.assert_allclose(one.log_likelihood_, two.log_likelihood_, rtol=1e-7)


def test_many_clients_agree_with_reml():
    """The average over tau and the best tau differ by one over the number of clients."""
    y, v = some_clients(20_000, 1)
    one, two = GaussianMeans().fit(y, v), GaussianMeans("reml").fit(y, v)
    assert one.tau2_ == pytest.approx(two.tau2_, rel=1e-3)
    np.testing.assert_allclose(one.posterior_mean_, two.posterior_mean_, atol=1e-3)
    np.testing.assert_allclose(one.posterior_sd_, two.posterior_sd_, rtol=2e-3)


def test_intervals_count_the_unknown_spread():
    y, v = some_clients(8, 3, 0.5)
    narrow, wide = (GaussianMeans(prior).fit(y, v).interval() for prior in ("reml", "bayes"))
    assert np.mean(wide[1] - wide[0]) > np.mean(narrow[1] - narrow[0])


@pytest.mark.parametrize("prior", PRIORS)
def test_infinite_variance_is_the_limit(prior):
    """Such a client changes nothing for the others and gets the prior, with the uncertainty of its centre."""
    y, v = some_clients(7, 5)
    alone = GaussianMeans(prior).fit(y, v)
    with_one = GaussianMeans(prior).fit(np.append(y, 1e6), np.append(v, np.inf))
    for name in ("posterior_mean_", "posterior_sd_", "weights_"):
        np.testing.assert_allclose(getattr(with_one, name)[:-1], getattr(alone, name), rtol=1e-12)
    assert with_one.log_likelihood_ == alone.log_likelihood_
    assert with_one.weights_[-1] < 1e-200
    assert with_one.posterior_mean_[-1] == pytest.approx(alone.mu_, rel=1e-12)
    if prior != "bayes":
        assert with_one.posterior_sd_[-1] == pytest.approx(np.hypot(alone.mu_sd_, np.sqrt(alone.tau2_)), rel=1e-12)
    truth, (estimates, variances) = with_one.draw(np.random.default_rng(0))
    assert estimates[-1] == truth[-1]
    assert GaussianMeans(prior).fit(estimates, variances).converged_


@pytest.mark.parametrize("prior", PRIORS)
def test_equal_values(prior):
    """Equal estimates: no spread is the best guess; the average still counts what spread could have gone unseen."""
    model = GaussianMeans(prior).fit(np.full(6, 2.0), np.arange(1.0, 7.0))
    np.testing.assert_allclose(model.posterior_mean_, 2.0, rtol=1e-14)
    assert (model.tau2_ == 0) == (prior != "bayes")
    if prior != "bayes":
        np.testing.assert_allclose(model.posterior_sd_, model.mu_sd_)
    else:
        certain = GaussianMeans("reml").fit(model.estimates_, model.variances_)
        assert (model.posterior_sd_ > certain.posterior_sd_).all()


def test_no_prior_at_all_for_one_client():
    """With everything given, one client is enough, even one of infinite variance."""
    model = GaussianMeans("fixed", mu=1.0, tau2=3.0).fit([5.0, 9.0], [1.0, np.inf])
    np.testing.assert_allclose(model.posterior_mean_, [4.0, 1.0])
    np.testing.assert_allclose(model.posterior_sd_, [np.sqrt(0.75), np.sqrt(3.0)])
    np.testing.assert_allclose(GaussianMeans("fixed", mu=1.0, tau2=3.0).fit([9.0], np.inf).posterior_mean_, [1.0])


def test_point_mass_posterior_steps_at_mu():
    model = GaussianMeans("fixed", mu=1.0, tau2=0.0).fit([5.0, 9.0], 1.0)
    assert model.posterior_cdf(1.0).tolist() == [1, 1]
    assert model.posterior_cdf(1.0, strict=True).tolist() == [0, 0]
    assert model.local_false_sign_rate(1.0).tolist() == [1, 1]
    assert [end.tolist() for end in model.interval()] == [[1, 1], [1, 1]]


@given(st.integers(4, 12), st.integers(0, 500), st.floats(0.01, 0.99), st.sampled_from(PRIORS))
def test_quantiles_invert_the_distribution_function(m, seed, q, prior):
    y, v = some_clients(m, seed, 0.5)
    model = GaussianMeans(prior).fit(y, v)
    for i, t in enumerate(model.posterior_quantile(q)):
        assert model.posterior_cdf(t)[i] == pytest.approx(q, abs=1e-9)


@pytest.mark.parametrize("clients", [normal_posteriors.ALIKE + 1, 9000])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("tau", [0.0, 0.1, 10.0])
def test_interpolated_quantiles_are_those_of_each_client(monkeypatch, tau, spread, clients):
    """Also beside outliers, clients that say nothing, clients that know nearly all, and with a centre away from 0."""
    generator = np.random.default_rng(2)
    v = np.exp(spread * generator.standard_normal(clients))
    y = 20 + generator.normal(0, np.sqrt(tau**2 + v))
    y[:3], v[3:5] = (70.0, -50.0, 1e3), (np.inf, 1e-6)
    model = GaussianMeans().fit(y, v)
    ends = model.interval()
    monkeypatch.setattr(normal_posteriors, "ALIKE", 10**9)
    for one, other in zip(ends, model.interval(), strict=True):
        assert np.max(np.abs(one - other) / model.posterior_sd_) < 1e-9


def test_far_units_and_ratios():
    """Variances over 24 decades, and estimates far from 0."""
    v = np.geomspace(1e-12, 1e12, 25)
    y = 1e3 + np.random.default_rng(2).standard_normal(25) * np.sqrt(v + 1)
    for prior in PRIORS:
        model = GaussianMeans(prior).fit(y, v)
        assert model.converged_
        assert np.isfinite([model.posterior_mean_, model.posterior_sd_]).all()
        if prior != "bayes":  # where tau2 is uncertain an outlier may be less certain than alone
            assert (model.posterior_sd_ <= np.sqrt(v) * (1 + 1e-9)).all()


def test_views_and_scalars_are_the_same_as_arrays():
    """Columns of a table, reversed views, whole numbers, one variance for all; few clients and many."""
    for m in (6, 9000):
        table = np.stack(some_clients(m, 8), axis=1)
        one = GaussianMeans().fit(table[:, 0], table[:, 1])
        two = GaussianMeans().fit(list(table[:, 0]), list(table[:, 1]))
        back = GaussianMeans().fit(table[::-1, 0], table[::-1, 1])
        np.testing.assert_array_equal(one.posterior_mean_, two.posterior_mean_)
        np.testing.assert_allclose(back.posterior_mean_[::-1], one.posterior_mean_, rtol=1e-9)
        equal = [GaussianMeans().fit(table[:, 0], v).posterior_sd_ for v in (2, np.full(m, 2.0))]
        np.testing.assert_array_equal(*equal)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (GaussianMeans(hyperprior="flat-tau2"), ([1.0, 2.0, 4.0], 1.0), "hold at least four clients of finite variance"),
        (GaussianMeans(hyperprior="flat-tau"), ([1.0, 2.0], 1.0), "hold at least three clients of finite variance"),
        (GaussianMeans(mu=0.0, hyperprior="flat-tau2"), ([1.0, 3.0], 1.0), "estimates must hold at least three clients"),
        (GaussianMeans(), ([1.0], 1.0), "estimates must hold at least two clients"),
        (GaussianMeans(hyperprior="flat"), ([1.0, 2.0, 4.0], 1.0), "hyperprior must be one of"),
        (GaussianMeans("reml"), ([1.0, 2.0], [1.0, np.inf]), "at least two clients .* variances leave 1"),
        (GaussianMeans(), ([1.0, 2.0, 3.0], [1.0, 1.0, 0.0]), "variances must be > 0, got 0.0; what is known exactly"),
        (GaussianMeans(), ([1.0, np.nan, 3.0], 1.0), "estimates holds NaN"),
        (GaussianMeans(), ([], 1.0), "estimates must be 1-d with one entry per client"),
        (GaussianMeans(), ([1.0, 2.0, 3.0], [[1.0, 1.0, 1.0]]), "variances must be one number or match estimates"),
        (GaussianMeans("fixed"), ([1.0, 2.0], 1.0), "tau2 must be given"),
        (GaussianMeans("fixed", tau2=np.inf), ([1.0, 2.0], 1.0), "tau2 must be finite"),
        (GaussianMeans("bayes", tau2=1.0), ([1.0, 2.0], 1.0), "left out otherwise"),
        (GaussianMeans("flat"), ([1.0, 2.0], 1.0), "prior must be one of"),
    ],
)
def test_bad_input(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*data)


def test_before_fit():
    for call in (GaussianMeans().interval, GaussianMeans().prior_summary, lambda: GaussianMeans().posterior_cdf(0.0)):
        with pytest.raises(ValueError, match="has not been fitted"):
            call()


def test_summary_is_plain():
    summary = GaussianMeans().fit(*BCG).prior_summary()
    assert {type(value) for value in summary.values()} == {str, float}
    assert summary["sd"] ** 2 == pytest.approx(summary["variance"])


def test_read_only_input_is_untouched_and_copied():
    y, v = some_clients(5)
    model = GaussianMeans().fit(y, v)
    before = model.interval()[0]
    y[:] = 0
    v[:] = 1
    np.testing.assert_array_equal(model.interval()[0], before)


@pytest.mark.parametrize("given", [{"mu": [1.0, 2.0]}, {"prior": "fixed", "mu": 0.0, "tau2": [1.0, 2.0]}])
def test_a_list_for_one_number_is_named(given):
    with pytest.raises(ValueError, match=f"{list(given)[-1]} must be one number, got shape"):
        GaussianMeans(**given).fit([1.0, 2.0, 3.0], 1.0)


def test_the_variance_of_the_summary_borrows_as_much_as_the_average():
    """Of a client of the harmonic mean's variance, whatever the largest is: by hand from the nodes."""
    v = np.array([0.2, 1.0, 3.0, 0.5, np.inf])
    model = GaussianMeans().fit([0.0, 2.0, 1.0, -1.5, 0.3], v)
    tau2s, _, _, shares = model.nodes_
    middle = 4 / np.sum(1 / v[:4])
    weight = shares @ (tau2s / (tau2s + middle))
    summary = model.prior_summary()
    assert summary["variance"] / (summary["variance"] + middle) == pytest.approx(weight, rel=1e-12)


def test_a_prior_that_is_given_needs_nobody_who_is_heard():
    model = GaussianMeans("fixed", mu=0.5, tau2=4.0).fit([1.0, 2.0], np.inf)
    found = model.prior_interval()
    assert found["mean"] == (0.5, 0.5)
    np.testing.assert_allclose(found["new client"], stats.norm(0.5, 2.0).interval(0.95), rtol=1e-12)
    np.testing.assert_allclose(
        model.interval(), np.repeat(np.array(stats.norm(0.5, 2.0).interval(0.95))[:, None], 2, axis=1)
    )
    assert "mean [0.5, 0.5]" in str(model.summary())
    with pytest.raises(ValueError, match="model must have more clients than coefficients"):
        heterogeneity(model)
    assert model.coefficient_slopes.shape == (1, 0)
