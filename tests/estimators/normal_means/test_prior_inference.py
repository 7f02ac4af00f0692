"""Inference on the prior of means against metafor, by laws, by quadrature and by simulation; bad input."""

import numpy as np
import pytest
from scipy import integrate, stats

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
    for end, goal in zip(variance_interval(model, 0.9), (0.05, 0.95), strict=True):
        assert average(lambda t: 1.0, 0, np.sqrt(end)) / total == pytest.approx(goal, abs=2e-5)

    def centre(tau):
        w = 1 / (tau**2 + v)
        return np.sum(w * y) / np.sum(w), 1 / np.sum(w)

    for end, goal in zip(coefficient_intervals(model, 0.9)[0], (0.05, 0.95), strict=True):
        below = average(lambda t, end=end: stats.norm.cdf((end - centre(t)[0]) / np.sqrt(centre(t)[1])), 0, np.inf)
        assert below / total == pytest.approx(goal, abs=2e-6)
    for end, goal in zip(new_client_interval(model, level=0.9), (0.05, 0.95), strict=True):
        below = average(lambda t, end=end: stats.norm.cdf((end - centre(t)[0]) / np.sqrt(t**2 + centre(t)[1])), 0, np.inf)
        assert below / total == pytest.approx(goal, abs=2e-6)


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


def test_covariates_without_content():
    with pytest.warns(UserWarning, match="left out"):
        model = GaussianMeans("reml").fit(Y, V, np.column_stack([LATITUDE, 2 * LATITUDE + 1]))
    ends = coefficient_intervals(model)
    np.testing.assert_allclose(ends[:2], coefficient_intervals(GaussianMeans("reml").fit(Y, V, LATITUDE)), rtol=1e-9)
    assert ends[2].tolist() == [-np.inf, np.inf]
    assert covariate_test(model).df == 1
    assert new_client_interval(model, [[10.0, 5.0]]).tolist() == [[-np.inf, np.inf]]
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
