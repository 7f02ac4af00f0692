"""Inference on the prior of means against metafor, by laws, by quadrature and by simulation; bad input."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.point_normal import PointNormalMeans
from estimators.normal_means.prior_inference import (
    coefficient_intervals,
    covariate_test,
    heterogeneity,
    likelihood_ratio_test,
    new_client_interval,
    spread_test,
    variance_interval,
)

# The 13 trials of BCG vaccine (dat.bcg of metafor): log relative risks, their variances, latitudes and years.
Y = np.array(
    [-0.88931133392020545, -1.5853886572014306, -1.3480731482996933, -1.4415511900213054, -0.21754732221129558,
     -0.78611558581886398, -1.6208982235983918, 0.011952333523840508, -0.4694176487381494, -1.3713448034727844,
     -0.33935882833839059, 0.44591340057137874, -0.017313948216879815]
)  # fmt: skip
V = np.array(
    [0.32558476500396133, 0.19458112139814385, 0.41536796536796539, 0.020010031902247573, 0.051210172169630863,
     0.0069056184559087574, 0.22301724757231517, 0.0039615792978177295, 0.056434210463248966, 0.07302479361302891,
     0.01241221397155972, 0.53250584520015276, 0.071404659683986293]
)  # fmt: skip
LATITUDE = np.array([44, 55, 42, 52, 13, 44, 19, 13, 27, 42, 18, 33, 33.0])
YEAR = np.array([1948, 1949, 1960, 1977, 1973, 1953, 1973, 1980, 1968, 1961, 1974, 1969, 1976.0])
# R 4.2 (Debian), metafor 3.8-1, with dat and control as in test_meta_regression, c0 = list(tol=1e-13, maxiter=10000):
#   r <- rma(yi, vi[, mods=~ablat], method=M, test=T); confint(r, control=c0[, type="PL"])$random[1,]
#   r$QE, r$QEp, r$I2, r$H2; r$ci.lb, r$ci.ub; predict(r[, newmods=c(10, 55)]): pi.lb, pi.ub; r$QM, r$QMp; anova(r1, r0)
Q_PROFILE = ((0.1197183611, 1.1114790841), (0.0166800683, 0.7848352546))
PROFILE = {
    "reml": ((0.1152661057, 0.9646953265), (0.0058066347, 0.4432159651)),
    "marginal-likelihood": ((0.1050773808, 0.8339124768), (0.0, 0.2450458172)),
}
CENTRE = {  # REML: intercept without, intercept and slope with latitude
    "normal": ((-1.0668976388, -0.3621670455), (-0.236749796, 0.739686216), (-0.0432043072, -0.0149991427)),
    "knapp-hartung": (
        (-1.1084437137, -0.3206209706),
        (-0.373447126087, 0.876383546101),
        (-0.0471529230251, -0.0110505269982),
    ),
}
AHEAD = {  # REML, without
    "normal": (-1.8666922179, 0.4376275336),
    "knapp-hartung": (-1.9960168342, 0.5669521499),
}
SCHOOLS = np.array([28, 8, -3, 7, -1, 1, 18, 12.0]), np.array([15, 10, 16, 11, 9, 11, 10, 18.0]) ** 2
SCHOOLS_METAFOR = {  # tau2 = 0, where Knapp and Hartung's variance is smaller than the usual one
    "normal": (-0.2951981735, 15.6664316234, -0.2951981735, 15.6664316234),
    "knapp-hartung": (-0.2100353719, 15.5812688218, -0.2100353719, 15.5812688218),
    "knapp-hartung-or-wider": (-1.9429420675, 17.3141755174, -1.9429420675, 17.3141755174),
}


@pytest.mark.parametrize("which", [0, 1])
def test_metafor_tau2(which):
    Z = (None, LATITUDE)[which]
    for prior, ends in PROFILE.items():
        model = GaussianMeans(prior).fit(Y, V, Z)
        np.testing.assert_allclose(variance_interval(model), Q_PROFILE[which], rtol=0, atol=2e-10)
        np.testing.assert_allclose(variance_interval(model, method="profile"), ends[which], rtol=0, atol=2e-10)
    model = GaussianMeans("moments").fit(Y, V, Z)  # has no likelihood of its own: the restricted one is profiled
    np.testing.assert_allclose(variance_interval(model, method="profile"), PROFILE["reml"][which], rtol=0, atol=2e-10)


def test_metafor_heterogeneity():
    found = heterogeneity(GaussianMeans("reml").fit(Y, V))
    np.testing.assert_allclose(found[:5], [152.233008082, 12, 1.99676459085e-26, 0.922213845213, 12.8557582353], rtol=1e-10)
    found = heterogeneity(GaussianMeans("reml").fit(Y, V, LATITUDE))
    np.testing.assert_allclose(found[:5], [30.7330900107, 11, 0.00121429098742, 0.683912248382, 3.16367842436], rtol=1e-8)


@pytest.mark.parametrize("method", CENTRE)
def test_metafor_centre(method):
    plain, model = GaussianMeans("reml").fit(Y, V), GaussianMeans("reml").fit(Y, V, LATITUDE)
    np.testing.assert_allclose(coefficient_intervals(plain, method=method), CENTRE[method][:1], rtol=0, atol=1e-9)
    np.testing.assert_allclose(coefficient_intervals(model, method=method), CENTRE[method][1:], rtol=0, atol=1e-8)
    np.testing.assert_allclose(new_client_interval(plain, method=method), AHEAD[method], rtol=0, atol=1e-9)
    schools = GaussianMeans("reml").fit(*SCHOOLS)
    for name, ends in SCHOOLS_METAFOR.items():
        np.testing.assert_allclose(coefficient_intervals(schools, method=name)[0], ends[:2], rtol=0, atol=1e-9)
        np.testing.assert_allclose(new_client_interval(schools, method=name), ends[2:], rtol=0, atol=1e-9)


def test_metafor_prediction_and_moderators():
    model = GaussianMeans("reml").fit(Y, V, LATITUDE)
    ends = new_client_interval(model, [10.0, 55.0], method="normal")
    np.testing.assert_allclose(ends.T, [[-0.693043512136, -2.01893105087], [0.613945431917, -0.679322280393]], atol=2e-8)
    assert covariate_test(model, "normal")[::3] == pytest.approx((16.3582321472, 5.24279397382e-05), rel=1e-7)
    assert covariate_test(model)[::3] == pytest.approx((12.5909828844, 0.00456505154154), rel=1e-7)
    model = GaussianMeans("reml").fit(Y, V, np.column_stack([LATITUDE, YEAR]))
    assert covariate_test(model, "normal")[::3] == pytest.approx((12.2044868792, 0.0022378416), rel=1e-7)
    assert covariate_test(model)[::3] == pytest.approx((4.9649475559, 0.0318035013), rel=1e-7)
    one = GaussianMeans("marginal-likelihood").fit(Y, V, LATITUDE)
    test = likelihood_ratio_test(one, GaussianMeans("marginal-likelihood").fit(Y, V))
    assert (round(test.statistic, 4), test.df, round(test.p_value, 4)) == (9.9588, 1, 0.0016)
    assert round(spread_test(GaussianMeans("reml").fit(Y, V)).statistic, 4) == 118.0525


def test_profile_interval_is_where_the_likelihood_falls():
    """The ends of the intercept's and the slope's profile: fits with that coefficient given, offset by hand."""
    model = GaussianMeans("marginal-likelihood").fit(Y, V, LATITUDE)
    ends = coefficient_intervals(model, method="profile")
    for end in ends[0]:
        given = GaussianMeans("marginal-likelihood", mu=end).fit(Y, V, LATITUDE)
        assert 2 * (model.log_likelihood_ - given.log_likelihood_) == pytest.approx(stats.chi2(1).ppf(0.95), abs=1e-8)
    for end in ends[1]:
        given = GaussianMeans("marginal-likelihood").fit(Y - end * LATITUDE, V)
        assert 2 * (model.log_likelihood_ - given.log_likelihood_) == pytest.approx(stats.chi2(1).ppf(0.95), abs=1e-8)


def test_profile_of_a_slope_beside_a_mean_that_is_given():
    """Both ends, in any unit, are where fits of the estimates less that slope have lost half a chi-square quantile."""
    model = GaussianMeans("marginal-likelihood", mu=0.5).fit(Y, V, LATITUDE)
    mean, (low, high) = coefficient_intervals(model, method="profile")
    assert mean.tolist() == [0.5, 0.5]
    assert low < model.beta_[0] < high
    for end in (low, high):
        given = GaussianMeans("marginal-likelihood", mu=0.5).fit(Y - end * LATITUDE, V)
        assert 2 * (model.log_likelihood_ - given.log_likelihood_) == pytest.approx(stats.chi2(1).ppf(0.95), abs=1e-8)
    small = GaussianMeans("marginal-likelihood", mu=0.5e-7).fit(1e-7 * Y, 1e-14 * V, LATITUDE)
    np.testing.assert_allclose(coefficient_intervals(small, method="profile")[1], [1e-7 * low, 1e-7 * high], rtol=1e-9)


def test_methods_that_are_not_named_are_normal_for_a_known_tau2_and_knapp_and_hartungs_for_others():
    for model, name in ((GaussianMeans("fixed", tau2=0.3), "normal"), (GaussianMeans("reml"), "knapp-hartung")):
        plain = model.fit(Y, V)
        np.testing.assert_array_equal(coefficient_intervals(plain), coefficient_intervals(plain, method=name))
        np.testing.assert_array_equal(new_client_interval(plain), new_client_interval(plain, method=name))
        model.fit(Y, V, LATITUDE)
        assert covariate_test(model) == covariate_test(model, name)


@pytest.mark.parametrize("prior", ["bayes", "reml", "marginal-likelihood"])
def test_a_mean_that_is_given_is_its_own_interval(prior):
    model = GaussianMeans(prior, mu=0.5).fit(Y, V)
    for method in (None,) if prior == "bayes" else (*CENTRE, "knapp-hartung-or-wider", "profile"):
        assert coefficient_intervals(model, method=method).tolist() == [[0.5, 0.5]]


def test_two_clients_are_enough_to_compare():
    y, v = np.array([1.0, 4.0]), np.array([0.5, 1.5])
    found = heterogeneity(GaussianMeans("moments").fit(100 * y, 1e4 * v))
    w = 1 / v
    Q, typical = 9 / v.sum(), w.sum() / (w.sum() ** 2 - np.sum(w**2))
    tau2 = (Q - 1) * typical
    exact = (Q, 1, stats.chi2(1).sf(Q), tau2 / (tau2 + typical), 1 + tau2 / typical, 1e4 * typical)
    np.testing.assert_allclose(found[:6], exact, rtol=1e-12)
    assert found.residual_df is None


def test_the_mean_of_two_clients_has_quantiles_where_its_law_has_no_variance():
    """Of equal variances 1: given tau2 it is normal about theirs, of variance (1 + tau2) / 2; edge 4, power 3/2."""
    model = GaussianMeans().fit([1.0, 2.0], 1.0)
    assert np.isinf(model.coefficient_covariance_[0, 0])

    def weight(t):
        return np.exp(-0.25 / (1 + t)) / np.sqrt(1 + t) * (4 + t) ** -1.5

    ((low, high),) = coefficient_intervals(model, 0.9)
    assert low + high == pytest.approx(3.0, abs=1e-9)
    above = integrate.quad(lambda t: weight(t) * stats.norm.sf((high - 1.5) / np.sqrt((1 + t) / 2)), 0, np.inf)[0]
    assert above / integrate.quad(weight, 0, np.inf)[0] == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("hyperprior", ["strawderman", "flat-tau2"])
def test_averaged_intervals_against_quadrature(hyperprior):
    """The posterior of tau2, of the centre and of a new client, by adaptive quadrature over tau."""
    y, v = SCHOOLS
    model = GaussianMeans(hyperprior=hyperprior).fit(y, v)
    likelihood = model.likelihood()
    edge = likelihood.edge * model.unit2

    def density(tau):
        w = 1 / (tau**2 + v)
        mu = np.sum(w * y) / np.sum(w)
        height = 0.5 * np.sum(np.log(w)) - 0.5 * np.log(w.sum()) - 0.5 * np.sum(w * (y - mu) ** 2)
        return tau * np.exp(height + 40) * (edge + tau**2) ** (-1.5 if hyperprior == "strawderman" else 0)

    def average(f, *ends):
        pieces = np.concatenate([[ends[0]], [p for p in (1, 5, 20, 100, 1000) if ends[0] < p < ends[1]], [ends[1]]])
        return sum(
            integrate.quad(lambda t: f(t) * density(t), *piece, epsabs=0, epsrel=1e-9, limit=200)[0]
            for piece in np.column_stack([pieces[:-1], pieces[1:]])
        )

    total = average(lambda t: 1.0, 0, np.inf)
    for tail in (0.05, 5e-5):
        for end, goal in zip(variance_interval(model, 1 - 2 * tail), (tail, 1 - tail), strict=True):
            assert average(lambda t: 1.0, 0, np.sqrt(end)) / total == pytest.approx(goal, abs=4e-4 * tail)

    def centre(tau):
        w = 1 / (tau**2 + v)
        return np.sum(w * y) / np.sum(w), 1 / np.sum(w)

    for end, goal in zip(coefficient_intervals(model, 0.9)[0], (0.05, 0.95), strict=True):
        below = average(lambda t, end=end: stats.norm.cdf((end - centre(t)[0]) / np.sqrt(centre(t)[1])), 0, np.inf)
        assert below / total == pytest.approx(goal, abs=2e-6)
    for end, goal in zip(new_client_interval(model, level=0.9), (0.05, 0.95), strict=True):
        below = average(lambda t, end=end: stats.norm.cdf((end - centre(t)[0]) / np.sqrt(t**2 + centre(t)[1])), 0, np.inf)
        assert below / total == pytest.approx(goal, abs=2e-6)


@pytest.mark.parametrize(("m", "tau2"), [(300, 1.0), (3000, 1.0), (1700, 30.0), (2400, 30.0)])
def test_variance_of_many_clients_is_between_quantiles_of_its_narrow_law(m, tau2):
    v = np.exp(np.linspace(-1, 1, m))
    y = np.sqrt(tau2 + v) * stats.norm.ppf((np.arange(m) * 7 % m + 0.5) / m)
    w = np.log(tau2) + np.linspace(-1, 1, 4001)
    heights = np.empty(w.size)
    for i, t in enumerate(np.exp(w)):
        u = 1 / (v + t)
        squares = u @ (y - u @ y / u.sum()) ** 2
        heights[i] = w[i] - 1.5 * np.log(4 / np.mean(1 / v) + t) + 0.5 * (np.log(u).sum() - np.log(u.sum()) - squares)
    below = integrate.cumulative_trapezoid(np.exp(heights - heights.max()), w, initial=0.0)
    ends = variance_interval(GaussianMeans().fit(y, v), 0.9)
    np.testing.assert_allclose(np.interp(np.log(ends), w, below / below[-1]), [0.05, 0.95], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("prior", "method"), [("bayes", "averaged"), ("reml", "q-profile"), ("reml", "profile")])
def test_variance_between_clients_beside_variances_of_other_sizes(prior, method):
    """A client of hardly any information says nothing; of noise far below the differences only the differences count."""
    y, v = np.array([0.0, 1.0, 3.0, 7.0, 2.0]), np.array([1.0, 1.1, 0.9, 1.0, 1.2])

    def ends(y, *v):
        return variance_interval(GaussianMeans(prior, hyperprior="flat-tau2").fit(y, v), method=method)

    more = np.append(y, 3.0)
    np.testing.assert_allclose(ends(more, *v, 1e20), ends(more, *v, 1e9), rtol=5e-5)
    if method != "q-profile":  # which counts clients, whatever they know
        np.testing.assert_allclose(ends(more, *v, 1e20), ends(y, *v), rtol=5e-5)
    np.testing.assert_allclose(ends(1e20 * y, *v), np.multiply(ends(y, *1e-12 * v), 1e40), rtol=5e-5)


@pytest.mark.parametrize("prior", ["bayes", "reml", "marginal-likelihood"])
def test_units_say_nothing(prior):
    model = GaussianMeans(prior).fit(Y, V, LATITUDE)
    large = GaussianMeans(prior).fit(1e90 * Y, 1e180 * V, LATITUDE / 1e9)
    np.testing.assert_allclose(coefficient_intervals(large), coefficient_intervals(model) * [[1e90], [1e99]], rtol=1e-7)
    np.testing.assert_allclose(variance_interval(large), np.multiply(variance_interval(model), 1e180), rtol=1e-6)
    np.testing.assert_allclose(new_client_interval(large, [2e-8]), 1e90 * new_client_interval(model, [20.0]), rtol=1e-7)


def test_prior_interval_holds_what_its_parts_say():
    model = GaussianMeans("reml").fit(Y, V, LATITUDE)
    found = model.prior_interval(0.9)
    assert [found["mean"], *found["slopes"]] == [tuple(ends) for ends in coefficient_intervals(model, 0.9).tolist()]
    np.testing.assert_allclose(np.square(found["sd"]), variance_interval(model, 0.9))
    plain = GaussianMeans().fit(Y, V).prior_interval()
    assert list(plain) == ["mean", "sd", "new client"]
    assert plain["mean"][0] < GaussianMeans().fit(Y, V).mu_ < plain["mean"][1]
    assert "sd" not in GaussianMeans("fixed", tau2=1.0).fit(Y, V).prior_interval()
    assert GaussianMeans("reml", mu=0.5).fit(Y, V).prior_interval()["mean"] == (0.5, 0.5)


def test_intervals_hold():
    """Ten clients of unequal variances: how often 95 % intervals hold centre, variance and a new client's value."""
    generator, held = np.random.default_rng(4), np.zeros((2, 3))
    v, runs = np.exp(generator.uniform(-1, 1, 10)), 600
    for _ in range(runs):
        y = generator.normal(2.0, np.sqrt(1 + v))
        new = generator.normal(2.0, 1.0)
        for k, prior in enumerate(("reml", "bayes")):
            model = GaussianMeans(prior).fit(y, v)
            ends = [coefficient_intervals(model)[0], variance_interval(model), new_client_interval(model)]
            held[k] += [low <= x <= high for (low, high), x in zip(ends, (2.0, 1.0, new), strict=True)]
    # Q-profile is exact, the others nearly: 4 standard errors are .036.  New clients by reml take tau2 for known.
    np.testing.assert_allclose(held[0, :2] / runs, 0.95, atol=0.036)
    np.testing.assert_allclose(held[1] / runs, 0.95, atol=0.036)
    assert 0.8 < held[0, 2] / runs < held[1, 2] / runs - 0.05


def test_q_profile_without_any_tau2():
    """Estimates that agree far better than their variances: no tau2 is in the interval, which is said."""
    model = GaussianMeans("reml").fit([1.0, 1.001, 0.999, 1.0, 1.0], 1.0)
    with pytest.warns(UserWarning, match="agree better"):
        assert variance_interval(model) == (0.0, 0.0)


@pytest.mark.parametrize("beyond", [-0.5, 0.5, 1.5])
@pytest.mark.parametrize("tail", [0.025, 0.975])
def test_ends_of_the_q_profile_near_0(tail, beyond):
    """Cochran's Q half a unit and more on either side of the quantiles at which the ends leave 0."""
    goal = stats.chi2(12).ppf(tail)

    def Q(tau2, y):
        w = 1 / (V + tau2)
        return np.sum(w * (y - np.sum(w * y) / w.sum()) ** 2)

    y = Y * np.sqrt((goal + beyond) / Q(0.0, Y))
    if beyond < 0 and tail < 0.5:
        with pytest.warns(UserWarning, match="agree better"):
            assert variance_interval(GaussianMeans("reml").fit(y, V)) == (0.0, 0.0)
        return
    ends = variance_interval(GaussianMeans("reml").fit(y, V))
    for end, quantile in zip(ends, stats.chi2(12).ppf([0.975, 0.025]), strict=True):
        exact = optimize.brentq(lambda t: Q(t, y) - quantile, 0.0, 100.0, xtol=1e-15) if Q(0.0, y) > quantile else 0.0  # noqa: B023
        assert end == pytest.approx(exact, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize(("m", "tau2"), [(200, 0.5), (200, 0.0), (30, 0.5)])
@pytest.mark.parametrize("prior", ["reml", "marginal-likelihood"])
def test_profile_of_the_variance_by_its_formula(m, tau2, prior):
    v = np.exp(np.linspace(0, 1, m))
    y = np.sqrt(tau2 + v) * stats.norm.ppf((np.arange(m) * 7 % m + 0.5) / m)

    def height(t):
        w = 1 / (v + t)
        found = np.sum(np.log(w)) - np.sum(w * (y - np.sum(w * y) / w.sum()) ** 2)
        return found - np.log(w.sum()) if prior == "reml" else found

    best = optimize.minimize_scalar(lambda t: -height(t), bounds=(0.0, 5.0), options={"xatol": 1e-12}).x
    goal = max(height(best), height(0.0)) - stats.chi2(1).ppf(0.95)
    low, high = variance_interval(GaussianMeans(prior).fit(y, v), method="profile")
    assert height(high) == pytest.approx(goal, abs=1e-9)
    assert high > best
    assert (low == 0.0) == (height(0.0) >= goal) == (m == 30 or tau2 == 0.0)
    if low > 0:
        assert low < best
        assert height(low) == pytest.approx(goal, abs=1e-9)


@pytest.mark.parametrize("prior", ["reml", "marginal-likelihood"])
@pytest.mark.parametrize("scale", [0.1, 0.22, 1.0])
def test_of_the_gain_in_the_likelihood_half_a_chi_square_tail_is_left(prior, scale):
    """Where nothing is gained the test says 1; gains below and above 1 have half of the tail."""
    model = GaussianMeans(prior).fit(scale * Y, V)
    known = [GaussianMeans("fixed", tau2=t).fit(scale * Y, V) for t in (model.tau2_, 0.0)]
    gain = 2 * np.subtract(*(one.likelihood().objective(np.array([one.tau2_ / one.unit2]), restricted=prior == "reml")[0]
                             for one in known))  # fmt: skip
    found = spread_test(model)
    assert found[:3] == (pytest.approx(gain, rel=1e-9), 1, None)
    assert found.p_value == (pytest.approx(stats.chi2(1).sf(gain) / 2, rel=1e-7) if scale > 0.1 else 1.0)
    assert (gain > 0) == (scale > 0.1)


def test_of_two_models_one_must_be_a_part_of_the_other():
    def fit(*columns, mu=None, y=Y):
        return GaussianMeans("marginal-likelihood", mu=mu).fit(y, V, np.column_stack(columns) if columns else None)

    other = np.cos(YEAR)
    for larger, smaller, df in (
        (fit(), fit(mu=0.5), 1), (fit(LATITUDE, mu=0.5), fit(mu=0.5), 1), (fit(LATITUDE), fit(mu=0.5), 2),
        (fit(LATITUDE, YEAR, other), fit(3 * YEAR - LATITUDE), 2), (fit(other), fit(), 1),
    ):  # fmt: skip
        gain = 2 * (larger.log_likelihood_ - smaller.log_likelihood_)
        assert likelihood_ratio_test(larger, smaller) == (
            pytest.approx(gain),
            df,
            None,
            pytest.approx(stats.chi2(df).sf(gain)),
        )
    assert 0 < gain < 1
    for larger, smaller in (
        (fit(mu=0.5), fit()), (fit(LATITUDE, mu=0.5), fit()), (fit(LATITUDE, mu=0.5), fit(mu=0.4)),
        (fit(LATITUDE, YEAR), fit(other)), (fit(LATITUDE), fit(y=Y + 0.1)), (fit(LATITUDE), fit(YEAR)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="smaller must be fitted"):
            likelihood_ratio_test(larger, smaller)


def test_covariates_without_content():
    with pytest.warns(UserWarning, match="left out"):
        model = GaussianMeans("reml").fit(Y, V, np.column_stack([LATITUDE, 2 * LATITUDE + 1]))
    with pytest.raises(ValueError, match="method must be one of"):
        covariate_test(model, "profile")
    with pytest.warns(UserWarning, match="left out"):
        alone = GaussianMeans("reml").fit(Y, V, np.ones(13))
    with pytest.raises(ValueError, match="none to test"):
        covariate_test(alone)
    ends = coefficient_intervals(model)
    np.testing.assert_allclose(ends[:2], coefficient_intervals(GaussianMeans("reml").fit(Y, V, LATITUDE)), rtol=1e-9)
    assert ends[2].tolist() == [-np.inf, np.inf]
    assert covariate_test(model).df == 1
    with pytest.warns(UserWarning, match="left out"):
        averaged = GaussianMeans().fit(Y, V, np.column_stack([LATITUDE, 2 * LATITUDE + 1]))
    for one in (model, averaged):
        assert new_client_interval(one, [[10.0, 5.0]]).tolist() == [[-np.inf, np.inf]]
    assert np.isfinite(new_client_interval(model, [[10.0, 21.0]])).all()


def test_what_does_not_go_together_is_named():
    model, averaged = GaussianMeans("reml").fit(Y, V), GaussianMeans().fit(Y, V)
    for call, words in (
        (lambda: heterogeneity(PointNormalMeans().fit(Y, V)), "must be a GaussianMeans"),
        (lambda: heterogeneity(GaussianMeans()), "has not been fitted"),
        (lambda: coefficient_intervals(model, method="averaged"), "needs a model of prior='bayes'"),
        (lambda: coefficient_intervals(averaged, method="normal"), "needs a model not of prior='bayes'"),
        (lambda: coefficient_intervals(model, method="score"), "method"),
        (lambda: coefficient_intervals(model, 1.0), "strictly between"),
        (lambda: variance_interval(GaussianMeans("fixed", tau2=1.0).fit(Y, V)), "must have learnt tau2"),
        (lambda: covariate_test(model), "none to test"),
        (lambda: spread_test(averaged), "prior='reml'"),
        (lambda: likelihood_ratio_test(model, model), "larger must have prior='marginal-likelihood'"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    one = GaussianMeans("marginal-likelihood").fit(Y, V, LATITUDE)
    other = GaussianMeans("marginal-likelihood").fit(Y, V, YEAR)
    with pytest.raises(ValueError, match="smaller must be fitted"):
        likelihood_ratio_test(one, other)
