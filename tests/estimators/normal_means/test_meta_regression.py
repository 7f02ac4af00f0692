"""Covariates in the prior of means: metafor's and sae's numbers, laws, dense algebra, bad input."""

import csv
import warnings

import numpy as np
import pytest

from estimators.coverage import coverage
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.prior_inference import mean_squared_error

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments")

# R 4.2 (Debian), metafor 3.8-1:
#   dat <- escalc(measure="RR", ai=tpos, bi=tneg, ci=cpos, di=cneg, data=dat.bcg)
#   r <- rma(yi, vi, mods=~ablat, data=dat, method=M, control=list(threshold=1e-14, tol=1e-14, stepadj=.5, maxiter=10000))
#   r$tau2; coef(r); r$se; predict(r, newmods=c(10,55)): pred, se; blup(r)$pred[1:4]; blup(r)$se[1:4]; logLik(ML)
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
METAFOR = {
    "reml": (
        0.0763479639552, (0.251468210007, -0.0291017250116), (0.249095396617, 0.00719532722091),
        (-0.0395490401091, -1.34912666563), (0.186606667906, 0.201098130801),
        (-1.00247207489, -1.41570542366, -1.02938219425, -1.40422790421),
        (0.273449950853, 0.275123022152, 0.277171392802, 0.131533918066),
    ),
    "marginal-likelihood": (
        0.0343514424813, (0.282107173896, -0.0295093353885), (0.187184556334, 0.00548773630754),
        (-0.0129861799884, -1.34090627247), (0.1400464461, 0.157275301564),
        (-1.00418375016, -1.37759097313, -0.987134946402, -1.37191812209),
        (0.202662367507, 0.216947649202, 0.202185578306, 0.124239929009),
    ),
    "moments": (
        0.142131941473, (0.221915964507, -0.0285645258944), (0.317473696547, 0.00907018887118),
        (-0.0637292944367, -1.34913295968), (0.238099339997, 0.248723275217),
        (-0.990673967226, -1.44886024881, -1.07219499398, -1.41957031187),
        (0.336742419351, 0.320616635371, 0.347000909801, 0.135350087468),
    ),
}  # fmt: skip


@pytest.mark.parametrize("prior", METAFOR)
def test_metafor_golden_numbers(prior):
    tau2, coefficients, errors, ahead, ahead_sd, means, sds = METAFOR[prior]
    model = GaussianMeans(prior).fit(Y, V, covariates=LATITUDE)
    # metafor's own searches stop at about 1e-10 in tau2.
    np.testing.assert_allclose([model.tau2_, model.mu_, *model.beta_], [tau2, *coefficients], rtol=3e-8)
    np.testing.assert_allclose([model.mu_sd_, *model.beta_sd_], errors, rtol=3e-8)
    np.testing.assert_allclose(model.posterior_mean_[:4], means, rtol=0, atol=2e-8)
    np.testing.assert_allclose(model.posterior_sd_[:4], sds, rtol=0, atol=2e-8)
    mean, sd = model.predict([10.0, 55.0], return_sd=True)
    np.testing.assert_allclose(mean, ahead, rtol=0, atol=2e-8)
    np.testing.assert_allclose(np.sqrt(sd**2 - model.tau2_), ahead_sd, rtol=0, atol=2e-8)
    if prior == "marginal-likelihood":
        assert model.log_likelihood_ == pytest.approx(-7.68566552841, abs=1e-9)


def test_two_moderators_of_metafor():
    """rma(yi, vi, mods=~ablat+year, method="REML"): tau2 .110784696947, and estimates and errors of a year near 2000."""
    model = GaussianMeans("reml").fit(Y, V, covariates=np.column_stack([LATITUDE, YEAR]))
    assert model.tau2_ == pytest.approx(0.110784696947, rel=1e-8)
    found = [model.mu_, model.mu_sd_, *model.beta_, *model.beta_sd_]
    stated = [-3.54535301990, 29.0956222326, -0.02801132944, 0.00190748044749, 0.010233943231, 0.0146836858920]
    np.testing.assert_allclose(found, stated, rtol=1e-8)


def test_sae_golden_numbers(shared_data):
    """R package sae 1.3: eblupFH(yi ~ as.factor(MajorArea), SD^2) and mseFH of `milk`; tau2 with a tight tolerance."""
    with open(shared_data("small_area/milk.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    y, sd = (np.array([float(row[name]) for row in rows]) for name in ("yi", "SD"))
    areas = np.array([[row["MajorArea"] == str(k) for k in (2, 3, 4)] for row in rows]).astype(float)
    for prior, tau2 in (("reml", 0.01855033), ("marginal-likelihood", 0.01551751), ("moments", 0.01642026)):
        assert GaussianMeans(prior).fit(y, sd**2, areas).tau2_ == pytest.approx(tau2, abs=6e-9)
    model = GaussianMeans("reml").fit(y, sd**2, areas)
    np.testing.assert_allclose([model.mu_, *model.beta_], [0.968189, 0.132780, 0.226946, -0.241301], atol=6e-7)
    np.testing.assert_allclose(model.posterior_mean_[:3], [1.02197054, 1.04760195, 1.06795143], atol=6e-9)
    np.testing.assert_allclose(mean_squared_error(model)[:3], [0.01346026, 0.00537288, 0.00570199], atol=6e-9)


def some_clients(m, q, seed=0):
    generator = np.random.default_rng(seed)
    Z = generator.normal(size=(m, q))
    v = np.exp(generator.uniform(-2, 2, m))
    return 1 + Z @ np.arange(1.0, q + 1) + generator.normal(size=m) * np.sqrt(1 + v), v, Z


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("equal", [False, True])
def test_a_constant_covariate_changes_nothing(prior, equal):
    y, v, _ = some_clients(9, 1)
    v = np.ones(9) if equal else v
    plain = GaussianMeans(prior).fit(y, v)
    with pytest.warns(UserWarning, match=r"covariates\[:, 0\] left out: constant"):
        model = GaussianMeans(prior).fit(y, v, covariates=np.full(9, 7.3))
    for name in ("mu_", "tau2_", "mu_sd_", "posterior_mean_", "posterior_sd_", "log_likelihood_", "weights_"):
        np.testing.assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(model.interval(), plain.interval(), rtol=1e-7)
    assert (model.beta_.tolist(), model.beta_sd_.tolist()) == ([0.0], [np.inf])
    mean, sd = model.predict([[7.3], [7.4]], return_sd=True)  # of other clients of the same covariate, and of a new one
    np.testing.assert_allclose([mean[0], sd[0]], plain.predict(return_sd=True), rtol=1e-7)
    assert np.isinf(sd[1])


@pytest.mark.parametrize("prior", PRIORS)
def test_dense_algebra_agrees(prior):
    """Posterior means and covariances from the joint normal law of estimates and truths, a nearly flat prior on slopes."""
    y, v, Z = some_clients(8, 2)
    model = GaussianMeans(prior).fit(y, v, covariates=Z)
    tau2s, *_, shares = model.nodes_
    X = np.column_stack([np.ones(8), Z])
    means, squares = np.zeros(8), np.zeros(8)
    for tau2, share in zip(tau2s, shares, strict=True):
        marginal = np.linalg.inv(np.diag(tau2 + v))
        of_beta = np.linalg.inv(X.T @ marginal @ X)
        project = X @ of_beta @ X.T @ marginal
        keep = tau2 / (tau2 + v)
        mean = project @ y + keep * (y - project @ y)
        variance = keep * v + (1 - keep) ** 2 * np.diag(X @ of_beta @ X.T)
        means += share * mean
        squares += share * (variance + mean**2)
    np.testing.assert_allclose(model.posterior_mean_, means, rtol=1e-9)
    np.testing.assert_allclose(model.posterior_sd_, np.sqrt(squares - means**2), rtol=1e-7)


def test_clusters_by_dummies_have_their_own_centres():
    """With tau2 fixed, a dummy for each cluster and no intercept is a fit of each cluster alone."""
    y, v, _ = some_clients(12, 1)
    cluster = np.repeat([0, 1, 2], 4)
    both = GaussianMeans("fixed", mu=0.0, tau2=0.7).fit(y, v, covariates=np.eye(3)[cluster])
    for k in range(3):
        own = GaussianMeans("fixed", tau2=0.7).fit(y[cluster == k], v[cluster == k])
        np.testing.assert_allclose(both.posterior_mean_[cluster == k], own.posterior_mean_, rtol=1e-12)
        np.testing.assert_allclose(both.posterior_sd_[cluster == k], own.posterior_sd_, rtol=1e-12)
        assert (both.beta_[k], both.beta_sd_[k]) == pytest.approx((own.mu_, own.mu_sd_), rel=1e-12)


@pytest.mark.parametrize("prior", PRIORS)
def test_units_and_coordinates_say_nothing(prior):
    """Estimates follow y -> a y + Z b; the covariates' units, origins and mixtures change the slopes alone."""
    y, v, Z = some_clients(10, 2, seed=3)
    model = GaussianMeans(prior).fit(y, v, covariates=Z)
    moved = GaussianMeans(prior).fit(1e30 * (y + Z @ [2.0, -5.0] + 4), 1e60 * v, covariates=Z)
    np.testing.assert_allclose(moved.posterior_mean_ / 1e30, model.posterior_mean_ + Z @ [2.0, -5.0] + 4, rtol=1e-9)
    np.testing.assert_allclose(moved.posterior_sd_ / 1e30, model.posterior_sd_, rtol=1e-9)
    np.testing.assert_allclose(moved.beta_ / 1e30, np.add(model.beta_, [2.0, -5.0]), rtol=1e-9)
    mixed = GaussianMeans(prior).fit(y, v, covariates=np.column_stack([1e6 + 1e-3 * Z[:, 0], Z @ [1e200, 1e200]]))
    np.testing.assert_allclose(mixed.posterior_mean_, model.posterior_mean_, rtol=1e-5)  # 1e6 + 1e-3 z has 7 digits of z
    np.testing.assert_allclose(mixed.tau2_, model.tau2_, rtol=1e-5)


def test_variances_of_all_sizes():
    """Clients as good as exact beside noisy ones: the line goes through the exact ones."""
    y, v, Z = some_clients(9, 1, seed=2)
    v[:2] = 1e-26
    model = GaussianMeans("fixed", tau2=0.0).fit(y, v, covariates=Z)
    slope = (y[1] - y[0]) / (Z[1, 0] - Z[0, 0])
    assert model.beta_[0] == pytest.approx(slope, rel=1e-9)
    for prior in PRIORS:
        assert GaussianMeans(prior).fit(y, v, covariates=Z).converged_


def test_a_client_who_says_nothing_gets_the_prediction():
    y, v, Z = some_clients(10, 2)
    v[4] = np.inf
    for prior in PRIORS:
        model = GaussianMeans(prior).fit(y, v, covariates=Z)
        mean, sd = model.predict(Z[4:5], return_sd=True)
        assert (model.posterior_mean_[4], model.posterior_sd_[4]) == pytest.approx((mean[0], sd[0]), rel=1e-12)
        rest = np.arange(10) != 4
        again = GaussianMeans(prior).fit(y[rest], v[rest], covariates=Z[rest])
        np.testing.assert_allclose(model.posterior_mean_[rest], again.posterior_mean_, rtol=1e-8)
        np.testing.assert_allclose(model.prior_mean_[4], mean[0], rtol=1e-12)


def test_covariates_are_worth_what_they_explain():
    """60 clients whose true values are a line in a covariate, up to .1: the squared error falls to a tenth or less."""
    generator, loss = np.random.default_rng(5), np.zeros(2)
    for _ in range(20):
        z = generator.normal(size=60)
        truth = 2 * z + 0.1 * generator.normal(size=60)
        y = truth + generator.normal(size=60)
        plain, model = GaussianMeans().fit(y, 1.0), GaussianMeans().fit(y, 1.0, covariates=z)
        loss += [np.mean((m.posterior_mean_ - truth) ** 2) for m in (plain, model)]
    assert loss[1] < 0.15 * loss[0]


def test_intervals_hold_under_the_fitted_model():
    y, v, Z = some_clients(12, 2, seed=1)
    found = coverage(GaussianMeans().fit(y, v, Z), replicates=400, seed=3)
    assert abs(found.average - 0.95) < 4 * found.average_se + 0.01 < 0.04


def test_more_clients_than_a_block():
    y, v, Z = some_clients(20_000, 2)
    model = GaussianMeans().fit(y, v, Z)
    np.testing.assert_allclose([model.mu_, *model.beta_, model.tau2_], [1, 1, 2, 1], atol=0.1)
    part = GaussianMeans("fixed", tau2=model.tau2_, mu=0.0).fit(
        (y - model.prior_mean_)[:50], v[:50]
    )  # with so many clients nothing about the prior is left unknown
    np.testing.assert_allclose(model.posterior_mean_[:50] - model.prior_mean_[:50], part.posterior_mean_, atol=2e-3)


def test_quantiles_of_many_clients_around_a_plane_are_where_their_posteriors_have_them():
    model = GaussianMeans().fit(*some_clients(1001, 2))
    for q in (0.01, 0.7):
        np.testing.assert_allclose(model.posterior_cdf(model.posterior_quantile(q)), q, rtol=1e-9)


@pytest.mark.parametrize("prior", ["bayes", "reml"])
def test_draws_around_a_plane_through_a_given_point_are_of_their_posteriors(prior):
    y, v, Z = some_clients(30, 2)
    plain, moved = GaussianMeans(prior, mu=1.0).fit(y, v, Z), GaussianMeans(prior, mu=5.0).fit(y + 4, v, Z)
    draws, others = (model.sample_posterior(np.random.default_rng(3), 4000) for model in (plain, moved))
    np.testing.assert_allclose(others, draws + 4, rtol=1e-7)
    assert (np.abs(draws.mean(axis=0) - plain.posterior_mean_) < 5 * plain.posterior_sd_ / np.sqrt(4000)).all()
    np.testing.assert_allclose(draws.std(axis=0), plain.posterior_sd_, rtol=0.08)
    np.testing.assert_allclose(moved.posterior_mean_, plain.posterior_mean_ + 4, rtol=1e-9)
    assert np.unique(moved.coefficient_nodes()[0][:, 0]).tolist() == pytest.approx([5.0])
    np.testing.assert_allclose(moved.coefficient_nodes()[0][:, 1:], plain.coefficient_nodes()[0][:, 1:], rtol=1e-7)


def test_of_covariates_that_are_left_out_alone_the_slope_is_unknown():
    y, v, Z = some_clients(30, 2)
    with pytest.warns(UserWarning, match="left out"):
        model = GaussianMeans().fit(y, v, np.column_stack([Z[:, 0], np.ones(30), Z[:, 1]]))
    assert np.isfinite([model.mu_sd_, *model.beta_sd_]).tolist() == [True, True, False, True]
    assert model.beta_[1] == 0.0
    np.testing.assert_allclose(model.beta_sd_[[0, 2]], GaussianMeans().fit(y, v, Z).beta_sd_, rtol=1e-9)


@pytest.mark.parametrize("prior", ["bayes", "reml"])
def test_the_average_client_s_prior_mean_is_as_uncertain_as_a_new_client_s_there(prior):
    y, v, Z = some_clients(12, 2)
    model = GaussianMeans(prior).fit(y, v, Z + 3)
    mean, sd = model.predict((Z + 3).mean(axis=0)[None], return_sd=True)
    tau2s, _, _, shares = model.nodes_
    summary = model.prior_summary()
    assert summary["mean"] == pytest.approx(mean[0], rel=1e-9)
    assert summary["mean_standard_error"] ** 2 == pytest.approx(sd[0] ** 2 - shares @ tau2s, rel=1e-7)


@pytest.mark.parametrize(("q", "wide"), [(1, "1 column"), (2, "2 columns")])
def test_new_clients_with_other_covariates_are_refused_with_the_number_that_was_fitted(q, wide):
    y, v, Z = some_clients(12, 2)
    model = GaussianMeans().fit(y, v, Z[:, :q])
    with pytest.raises(ValueError, match=rf"one row per client and {wide}, got shape \(1, 3\)"):
        model.predict(np.zeros((1, 3)))


def test_new_clients_may_keep_the_rule_that_all_clients_kept_but_not_break_it():
    """One covariate is twice another, and one more: it is left out, and nobody knows what comes without the rule."""
    y, v, Z = some_clients(12, 2)
    with pytest.warns(UserWarning, match=r"covariates\[:, 1\] left out"):
        model = GaussianMeans().fit(y, v, np.column_stack([Z[:, 0], 2 * Z[:, 0] + 1]))
    plain = GaussianMeans().fit(y, v, Z[:, 0])
    middle = Z[:, 0].mean()
    for z in (0.3, -40.0, middle):
        size = abs(2 * z + 1) + abs(2 * middle + 1)
        for off, known in ((0.0, True), (2e-7 * size, True), (5e-6 * size, False)):
            mean, sd = (part[0] for part in model.predict([[z, 2 * z + 1 + off]], return_sd=True))
            exact = [part[0] for part in plain.predict([z], return_sd=True)]
            assert (mean, sd) == (pytest.approx(exact[0], rel=1e-6), pytest.approx(exact[1], rel=1e-6) if known else np.inf)
    law = plain.likelihood()
    assert law.passes == 0
    law.score(np.array([0.1, 1.0, 2.0]))
    assert law.passes == 3


def test_prasad_rao_at_equal_variances():
    """Equal variances, no covariates: g1 + g2 + 2 g3 in closed form."""
    y = np.array([1.0, 2.0, 3.0, 6.0, 8.0])
    model = GaussianMeans("reml").fit(y, 2.0)
    B = 2.0 / (2.0 + model.tau2_)
    total = 2.0 + model.tau2_
    expected = 2.0 * (1 - B) + B**2 * total / 5 + 2 * B**2 * 2 * total / 5
    np.testing.assert_allclose(mean_squared_error(model), expected, rtol=1e-12)
    ml = GaussianMeans("marginal-likelihood").fit(1e80 * y, 2e160)
    B, total = 2.0 / (2.0 + ml.tau2_ / 1e160), 2.0 + ml.tau2_ / 1e160
    expected = 2.0 * (1 - B) + B**2 * total / 5 + 4 * B**2 * total / 5 + B**2 * total / 5
    np.testing.assert_allclose(mean_squared_error(ml) / 1e160, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="prior='reml'"):
        mean_squared_error(GaussianMeans().fit(y, 2.0))


def test_bad_covariates_are_named():
    y, v, Z = some_clients(6, 1)
    for bad, words in (
        (Z[:5], "one row per client, 6"),
        (np.zeros((6, 0)), "one column per covariate"),
        (np.array([0, 1, 2, 3, np.nan, 5.0]), "covariates holds NaN at position 4"),
        (["a"] * 6, "text"),
    ):
        with pytest.raises(ValueError, match=words):
            GaussianMeans().fit(y, v, covariates=bad)
    with pytest.raises(ValueError, match="fewer covariates, or more clients"):
        GaussianMeans().fit(y, v, covariates=np.random.default_rng(0).normal(size=(6, 7)))
    with pytest.raises(ValueError, match="only then"):
        GaussianMeans().fit(y, v).predict([1.0])
    with pytest.raises(ValueError, match="only then"):
        GaussianMeans().fit(y, v, Z).predict()
    with pytest.raises(ValueError, match="1 column"):
        GaussianMeans().fit(y, v, Z).predict([[1.0, 2.0]])


@pytest.mark.parametrize("prior", PRIORS)
def test_as_many_coefficients_as_clients_leave_nothing_to_learn_tau2_from(prior):
    y, v, Z = some_clients(4, 3)
    with pytest.raises(ValueError, match=r"leave 4 coefficients to learn.*there are 4"):
        GaussianMeans(prior).fit(y, v, covariates=Z)
    with pytest.raises(ValueError, match=r"leave 3 coefficients to learn.*there are 3"):
        GaussianMeans(prior, mu=0.0).fit(y[:3], v[:3], covariates=Z[:3])
    if prior != "bayes":  # which needs one more
        assert GaussianMeans(prior, mu=0.0).fit(y, v, covariates=Z).converged_


@pytest.mark.parametrize(("prior", "lost"), [("reml", 1), ("marginal-likelihood", 0)])
@pytest.mark.parametrize("q", [1, 3])
def test_regressions_of_equal_variances_in_closed_form(prior, lost, q):
    """tau2 + v is the mean square of least squares' residuals, by their degrees of freedom with REML."""
    y, _, Z = some_clients(12, q, seed=4)
    X = np.column_stack([np.ones(12), Z])
    for columns, mu in ((X, None), (Z, 0.0)):
        coefficients = np.linalg.lstsq(columns, y, rcond=None)[0]
        mean_square = np.sum((y - columns @ coefficients) ** 2) / (12 - lost * columns.shape[1])
        model = GaussianMeans(prior, mu=mu).fit(y, mean_square / 3, covariates=Z)
        assert model.tau2_ == pytest.approx(mean_square * 2 / 3, rel=1e-9)
        np.testing.assert_allclose(model.beta_, coefficients[-q:], rtol=1e-9)


def test_three_clients_and_one_covariate():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GaussianMeans().fit([1.0, 2.0, 4.0], 1.0, covariates=[0.0, 1.0, 2.0])
    assert np.isfinite(model.posterior_sd_).all()
    assert model.converged_
    assert np.isinf(model.predict([3.0], return_sd=True)[1]).all()  # nobody bounds the variance of a fourth


def test_new_clients_with_none_of_what_no_client_had_are_like_the_others():
    """A covariate that is 0 for all is left out; a new client with 0 breaks nothing, and any other number does."""
    with pytest.warns(UserWarning, match="left out"):
        model = GaussianMeans().fit([0.0, 1.0, 2.0, 1.5], 1.0, covariates=[[0, 1], [0, 2], [0, 3], [0, 5]])
    _, _, blind = model.new_clients([[0.0, 2.0], [1e-9, 2.0]])
    assert blind.tolist() == [False, True]
