"""What clients' estimates say about the prior: intervals for its centre, slopes and variance, for a new client; tests.

Belongs here: what is inferred about the prior of a fitted ``GaussianMeans``, with covariates or without, as in metafor,
and the mean squared error of estimates.  Fitting and clients' own intervals are in ``gaussian_means``.

Formulas use W = diag(1 / (tau2 + v)), the design X (ones and covariates, p columns), m clients of finite variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from estimators.model import ClientModel
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.validation import choice, fraction, shown, single

__all__ = [
    "Heterogeneity",
    "Test",
    "coefficient_intervals",
    "covariate_test",
    "heterogeneity",
    "likelihood_ratio_test",
    "mean_squared_error",
    "new_client_interval",
    "spread_test",
    "variance_interval",
]

CENTRE = ("averaged", "knapp-hartung", "knapp-hartung-or-wider", "normal", "profile")
NEW = ("averaged", "knapp-hartung", "knapp-hartung-or-wider", "normal")
VARIANCE = ("averaged", "q-profile", "profile")


class NormalModel(Protocol):
    """What is used of a fitted ``GaussianMeans``, which knows this module and so cannot be known here."""

    prior: str
    mu: float | None
    mu_: float
    beta_: Floats
    tau2_: float
    coefficient_covariance_: Floats
    posterior_sd_: Floats
    variances_: Floats
    estimates_: Floats
    covariates_: Floats | None
    log_likelihood_: float
    nodes_: tuple[Floats, Floats, Floats, Floats]

    @property
    def known_variances(self) -> bool: ...
    @property
    def residual_df(self) -> int | None: ...
    @property
    def unit2(self) -> float: ...
    @property
    def kept_covariates(self) -> Bools: ...
    @property
    def coefficient_slopes(self) -> Floats: ...
    def likelihood(self, plain: bool = False) -> Any: ...
    def coefficient_nodes(self) -> tuple[Floats, Floats, Floats]: ...
    def new_clients(self, covariates: ArrayLike | None) -> tuple[Floats, Floats, Bools]: ...
    def predict(self, covariates: ArrayLike | None = None, return_sd: bool = False) -> Any: ...


class Heterogeneity(NamedTuple):
    """How much estimates differ beyond their noise.

    ``Q`` sum of (estimate - fit)^2 / variance about the fit of tau2 = 0, which without differences between clients is
    chi-square with ``df`` = m - p degrees of freedom, and ``p_value`` its probability to be larger (Cochran 1954).  With
    one variance that rows of all clients estimate, Q / df has the F law of an analysis of variance, with ``residual_df``
    degrees of freedom below (else None); where each has an estimated one of its own, residuals are t and are first turned
    into normal ones of as small a tail, and the law is chi-square up to O(1/m).
    ``I2``, the share of tau2 in the variance of an estimate of typical variance (m - p) / tr P, and ``H2`` = 1 / (1 - I2)
    (Higgins and Thompson 2002, Stat. Med. 21:1539), at the model's tau2.
    """

    Q: float
    df: int
    p_value: float
    I2: float
    H2: float
    typical_variance: float
    residual_df: int | None = None


class Test(NamedTuple):
    """A test: its statistic, its degrees of freedom (and those of an F test's divisor, else None), its p-value."""

    __test__ = False  # nothing for pytest
    statistic: float
    df: int
    residual_df: int | None
    p_value: float


def fitted(model: NormalModel, name: str = "model") -> NormalModel:
    """Return the model after checking that it is a fitted GaussianMeans."""
    if isinstance(model, ClientModel):
        model.require_fit()
    if not hasattr(model, "coefficient_covariance_"):
        raise ValueError(f"{name} must be a GaussianMeans, got {shown(model)}; fit one to the same estimates")
    return model


def tail(level: float) -> float:
    """Return the probability above the upper end."""
    return (1 - single(fraction, "level", level)) / 2


def method_of(model: NormalModel, method: str | None, methods: tuple[str, ...], default: str) -> Any:
    """Return the method: averages for averaged models, and never for others."""
    if method is None:
        return "averaged" if model.prior == "bayes" else default
    choice("method", method, methods)
    if (method == "averaged") != (model.prior == "bayes"):
        one = "" if method == "averaged" else "not "
        raise ValueError(f"method={method!r} needs a model {one}of prior='bayes', got {model.prior!r}; leave method out")
    return method


def heterogeneity(model: NormalModel) -> Heterogeneity:
    """Return Cochran's Q with its test, I2 and H2 of a fitted model.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> found = heterogeneity(GaussianMeans("moments").fit([1.0, 2.0, 3.0, 6.0], 1.0))
    >>> round(found.Q, 3), found.df, round(found.p_value, 4), round(found.I2, 4), round(found.H2, 3)
    (14.0, 3, 0.0029, 0.7857, 4.667)
    """
    from scipy.special import chdtrc, fdtrc

    likelihood = fitted(model).likelihood()
    df = likelihood.size - likelihood.coefficients
    if df < 1:
        raise ValueError("model must have more clients than coefficients: their estimates leave nothing to compare")
    Q = float(likelihood.squares(np.zeros(1))[0])
    total, _, taken = likelihood.traces(0.0)
    typical = df / (total - taken)
    H2 = 1 + model.tau2_ / model.unit2 / typical
    below = model.residual_df
    p_value = float(chdtrc(df, Q) if below is None else fdtrc(df, below, Q / df))
    return Heterogeneity(Q, df, p_value, 1 - 1 / H2, H2, typical * model.unit2, below)


def inflation(likelihood: Any, tau2: float, method: Any) -> float:
    """Return what Knapp and Hartung multiply variances of coefficients by."""
    df = likelihood.size - likelihood.coefficients
    if df < 1:
        raise ValueError("method='knapp-hartung' needs more clients than coefficients; use method='normal'")
    q = float(likelihood.squares(np.array([tau2]))[0]) / df
    return max(1.0, q) if method.endswith("wider") else q


def coefficient_intervals(
    model: NormalModel,
    level: float = 0.95,
    method: Literal["averaged", "knapp-hartung", "knapp-hartung-or-wider", "normal", "profile"] | None = None,
) -> Floats:
    """Return the ends of intervals for mu and the slopes of the covariates, array (1 + q, 2).

    Parameters
    ----------
    model : fitted ``GaussianMeans``.
    level : number in (0, 1).
    method : "averaged", the posterior averaged over tau2, for prior="bayes" and its only one; for others
        "knapp-hartung", their default, t intervals with m - p degrees of freedom and variances times the mean weighted
        square of residuals (Hartung and Knapp 2001, Stat. Med. 20:1771; Knapp and Hartung 2003, 22:2693; metafor's "knha");
        "knapp-hartung-or-wider", never with less than (X'W X)^-1, for clients who agree by chance (metafor's "adhoc");
        "normal", which takes tau2 for known and is too short with few clients; "profile", of the likelihood, whatever the
        model's prior.

    A mu that was given is its own interval; a slope about which nothing is known has infinite ends.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> model = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0)
    >>> coefficient_intervals(model).round(3).tolist(), coefficient_intervals(model, method="normal").round(3).tolist()
    ([[-0.437, 6.437]], [[0.883, 5.117]])
    """
    from scipy.special import ndtri, stdtrit

    above = tail(level)
    method = method_of(fitted(model), method, CENTRE, "normal" if model.prior == "fixed" else "knapp-hartung")
    estimates = np.append(model.mu_, model.beta_)
    sds = np.sqrt(np.diag(model.coefficient_covariance_))
    known = np.isfinite(sds) & (sds > 0)
    ends = np.where(np.isfinite(sds), estimates, np.inf)[:, None] * [1, 1]
    ends[np.isinf(sds), 0] = -np.inf
    if method == "averaged":
        # The quantiles exist where the mean does not.
        known = known | (np.isinf(sds) & np.append(True, model.kept_covariates))
        means, variances, shares = model.coefficient_nodes()
        for j in np.flatnonzero(known):
            laws = shares, means[:, j], np.sqrt(variances[:, j])
            ends[j] = [float(normal_mixture.quantile(q, *laws)) for q in (above, 1 - above)]
        return ends
    likelihood = model.likelihood()
    tau2 = model.tau2_ / model.unit2
    if method == "profile":
        for j in np.flatnonzero(known):
            ends[j] = profile_ends(model, int(j), estimates[j], sds[j], above)
        return ends
    reach = -ndtri(above)
    if method != "normal":
        sds = sds * np.sqrt(inflation(likelihood, tau2, method))
        reach = -stdtrit(likelihood.size - likelihood.coefficients, above)
    ends[known] = (estimates[:, None] + reach * sds[:, None] * [-1, 1])[known]
    return ends


def profile_ends(model: NormalModel, j: int, estimate: float, sd: float, above: float) -> tuple[float, float]:
    """Return where the likelihood, maximised over all but coefficient j, has fallen by half a chi-square quantile."""
    from scipy.optimize import brentq
    from scipy.special import chdtri

    whole = model.likelihood()
    slopes = model.coefficient_slopes[j]
    unit = np.sqrt(model.unit2)
    length2 = np.einsum("p,p->", slopes, slopes)
    rest = np.linalg.svd(slopes[None])[2][1:].T  # what leaves coefficient j as it is
    direction, others = whole.basis @ (slopes / length2), whole.basis @ rest
    y = whole.y + whole.basis @ whole.start
    origin = 0.0 if model.mu is None else model.mu

    def best(columns: Floats, shift: Floats | float) -> float:
        likelihood = whole.alike(y - shift, columns, "marginal-likelihood")
        return float(likelihood.objective(np.array([likelihood.maximise()[0]]))[0])

    top, fall = best(whole.basis, 0.0), chdtri(1, 2 * above) / 2

    def height(value: float) -> float:
        return best(others, direction * ((value - origin * (j == 0)) / unit)) - top + fall

    return tuple(edge(height, estimate, side * sd, brentq) for side in (-1, 1))  # pyright: ignore[reportReturnType]


def edge(height: Callable[[float], float], start: float, step: float, brentq: Callable) -> float:
    """Return where `height` falls through 0 beyond `start`, in steps that double."""
    inside = start
    while height(start + step) > 0:
        inside, step = start + step, 2 * step
    return float(brentq(height, inside, start + step, xtol=1e-12 * abs(step), rtol=1e-13))


def variance_interval(
    model: NormalModel, level: float = 0.95, method: Literal["averaged", "q-profile", "profile"] | None = None
) -> tuple[float, float]:
    """Return the ends of an interval for tau2, the variance between clients (that covariates do not explain).

    Parameters
    ----------
    model : fitted ``GaussianMeans``, not with prior="fixed".
    level : number in (0, 1).
    method : "averaged", the posterior of tau2, for prior="bayes" and its only one; for others "q-profile", the default,
        where the weighted sum of squared residuals is a quantile of chi-square (Viechtbauer 2007, Stat. Med. 26:37), exact
        for normal clients of known variances; "profile", of the restricted likelihood, or for prior="marginal-likelihood"
        of the likelihood.

    Warns
    -----
    UserWarning
        If estimates agree better than their variances let expect, so that no tau2 is in the Q-profile interval: both ends 0.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> model = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0)
    >>> [[round(end, 3) for end in variance_interval(model, method=name)] for name in ("q-profile", "profile")]
    [[0.498, 63.876], [0.316, 39.702]]
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri

    above = tail(level)
    if fitted(model).prior == "fixed":
        raise ValueError("model must have learnt tau2, and prior='fixed' has not; fit with prior='reml' or 'bayes'")
    method = method_of(model, method, VARIANCE, "q-profile")
    likelihood, unit2 = model.likelihood(), model.unit2
    if method == "averaged":
        w, below = posterior_of_log_variance(model)
        return tuple(float(np.exp(np.interp(q, below, w))) * unit2 for q in (above, 1 - above))  # pyright: ignore
    df, first = likelihood.size - likelihood.coefficients, float(likelihood.v_range[0])
    if method == "q-profile":

        def height(goal):
            return lambda tau2: float(likelihood.squares(np.array([tau2]))[0]) - goal

        heights = [height(chdtri(df, above)), height(chdtri(df, 1 - above))]
        if heights[1](0.0) <= 0:
            warnings.warn(
                "estimates agree better than their variances let expect, so the interval is tau2 = 0", stacklevel=2
            )
        return tuple(edge(h, 0.0, first, brentq) * unit2 if h(0.0) > 0 else 0.0 for h in heights)  # pyright: ignore
    restricted = model.prior != "marginal-likelihood"
    best = model.tau2_ / unit2
    if model.prior == "moments":
        best = likelihood.alike(likelihood.y, likelihood.basis, "reml").maximise()[0]
    top = float(likelihood.objective(np.array([best]), restricted=restricted)[0]) - chdtri(1, 2 * above) / 2

    def fallen(tau2):
        return float(likelihood.objective(np.array([tau2]), restricted=restricted)[0]) - top

    found: Any = brentq(fallen, 0.0, best, xtol=1e-14 * first, rtol=np.float64(1e-13)) if best and fallen(0.0) < 0 else 0.0
    low = float(found)
    return low * unit2, edge(fallen, best, first, brentq) * unit2


def posterior_of_log_variance(model: NormalModel) -> tuple[Floats, Floats]:
    """Return values of log tau2, in units of `unit2`, and the posterior probability of a smaller one."""
    from scipy.interpolate import CubicSpline

    likelihood = model.likelihood(plain=model.covariates_ is None)

    def height(w):
        tau2s = np.exp(w)
        return likelihood.objective(tau2s) - likelihood.power * np.log(likelihood.edge + tau2s) + w

    low, high = np.log(likelihood.v_range[0]) - 30, np.log(max(likelihood.spread**2, likelihood.v_range[1])) + 40
    w, heights = np.zeros(0), np.zeros(0)
    for _ in range(2):  # where the mass is, and then its shape
        w = np.linspace(low, high, 161)
        heights = height(w)
        near = np.flatnonzero(heights > heights.max() - 30)
        low, high = w[max(near[0] - 1, 0)], w[min(near[-1] + 1, w.size - 1)]
    fine = np.linspace(low, high, 8001)
    mass = np.exp(CubicSpline(w, heights)(fine) - heights.max())
    below = np.concatenate([[0.0], np.cumsum(mass[1:] + mass[:-1])])
    return fine, below / below[-1]


def new_client_interval(
    model: NormalModel,
    covariates: ArrayLike | None = None,
    level: float = 0.95,
    method: Literal["averaged", "knapp-hartung", "knapp-hartung-or-wider", "normal"] | None = None,
) -> Floats:
    """Return the ends of intervals for the true values of new clients, array (k, 2), or (2,) without covariates.

    Parameters
    ----------
    model : fitted ``GaussianMeans``.
    covariates : array (k, q) of the new clients, where the model was fitted with covariates.
    level : number in (0, 1).
    method : as for `coefficient_intervals`: "averaged" for prior="bayes"; else "knapp-hartung" (default),
        "knapp-hartung-or-wider" or "normal", the variance of the prior mean with tau2 added (metafor's ``predict``).
        All but "averaged" take tau2 for known.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> new_client_interval(GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0)).round(3).tolist()
    [-3.997, 9.997]
    """
    from scipy.special import ndtri, stdtrit

    above = tail(level)
    method = method_of(fitted(model), method, NEW, "normal" if model.prior == "fixed" else "knapp-hartung")
    if method == "averaged":
        means, variances, blind = model.new_clients(covariates)
        laws = model.nodes_[-1], means, np.sqrt(variances)
        ends = np.sqrt(model.unit2) * np.column_stack([normal_mixture.quantile(q, *laws) for q in (above, 1 - above)])
        ends[blind] = [-np.inf, np.inf]
    else:
        mean, sd = np.atleast_1d(*model.predict(covariates, return_sd=True))  # pyright: ignore[reportArgumentType]
        reach = -ndtri(above)
        if method != "normal":
            likelihood = model.likelihood()
            factor = inflation(likelihood, model.tau2_ / model.unit2, method)
            sd = np.sqrt(np.maximum(sd**2 - model.tau2_, 0.0) * factor + model.tau2_)
            reach = -stdtrit(likelihood.size - likelihood.coefficients, above)
        ends = mean[:, None] + reach * sd[:, None] * [-1, 1]
    return ends[0] if covariates is None else ends


def covariate_test(
    model: NormalModel, method: Literal["knapp-hartung", "knapp-hartung-or-wider", "normal"] | None = None
) -> Test:
    """Return the test that no covariate says anything about the true values (metafor's QM).

    Parameters
    ----------
    model : ``GaussianMeans`` fitted with covariates, not with prior="bayes".
    method : "knapp-hartung" (default), an F test with m - p degrees of freedom in its divisor, or
        "knapp-hartung-or-wider"; "normal", the chi-square test, which takes tau2 for known.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> model = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0, 9.0], 1.0, covariates=[0.0, 1.0, 2.0, 3.0, 4.0])
    >>> test = covariate_test(model, "normal")
    >>> round(test.statistic, 3), test.df, round(test.p_value, 7)
    (40.0, 1, 0.0)
    """
    from scipy.special import chdtrc, fdtrc

    if fitted(model).covariates_ is None or not model.kept_covariates.any():
        raise ValueError("model must be fitted with covariates that say something; there are none to test")
    method = method_of(model, method or ("normal" if model.prior == "fixed" else "knapp-hartung"), CENTRE[1:4], "")
    kept = model.kept_covariates
    df = int(kept.sum())
    covariance = model.coefficient_covariance_[1:, 1:][np.ix_(kept, kept)]
    size = np.sqrt(np.diag(covariance))
    slopes = model.beta_[kept] / size
    statistic = float(slopes @ np.linalg.solve(covariance / np.outer(size, size), slopes))
    if method == "normal":
        return Test(statistic, df, None, float(chdtrc(df, statistic)))
    likelihood = model.likelihood()
    residual = likelihood.size - likelihood.coefficients
    statistic /= df * inflation(likelihood, model.tau2_ / model.unit2, method)
    return Test(statistic, df, residual, float(fdtrc(df, residual, statistic)))


def spread_test(model: NormalModel) -> Test:
    """Return the likelihood-ratio test that clients do not differ (beyond what covariates explain), tau2 = 0.

    Twice the gain in the likelihood, for prior="reml" in the restricted one.  Under tau2 = 0 that is 0 half of the time and
    else chi-square (Self and Liang 1987, JASA 82:605), up to O(1/sqrt(m)); the p-value is of this law, half of what
    metafor's ``anova`` prints.  `heterogeneity` has Cochran's Q, which is exact for known variances.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> test = spread_test(GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0))
    >>> round(test.statistic, 3), round(test.p_value, 5)
    (6.379, 0.00578)
    """
    from scipy.special import chdtrc

    if fitted(model).prior not in ("reml", "marginal-likelihood"):
        raise ValueError(f"model must have prior='reml' or 'marginal-likelihood', got {model.prior!r}; fit with one of them")
    heights = model.likelihood().objective(np.array([model.tau2_ / model.unit2, 0.0]))
    statistic = max(0.0, 2 * float(heights[0] - heights[1]))
    return Test(statistic, 1, None, float(chdtrc(1, statistic)) / 2 if statistic > 0 else 1.0)


def likelihood_ratio_test(larger: NormalModel, smaller: NormalModel) -> Test:
    """Return the likelihood-ratio test of a model of fewer covariates within one of more, both with "marginal-likelihood".

    Restricted likelihoods of different covariates are of different data and cannot be compared.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> y, z = [1.0, 2.0, 3.0, 6.0, 9.0], [0.0, 1.0, 2.0, 3.0, 4.0]
    >>> models = [GaussianMeans("marginal-likelihood").fit(y, 1.0, covariates=Z) for Z in (z, None)]
    >>> test = likelihood_ratio_test(*models)
    >>> round(test.statistic, 3), test.df, round(test.p_value, 4)
    (12.936, 1, 0.0003)
    """
    from scipy.special import chdtrc

    for name, model in (("larger", larger), ("smaller", smaller)):
        if fitted(model, name).prior != "marginal-likelihood":
            raise ValueError(f"{name} must have prior='marginal-likelihood', got {model.prior!r}; fit it so")
    same = all(np.array_equal(getattr(larger, part), getattr(smaller, part)) for part in ("estimates_", "variances_"))
    same = same and (larger.mu is None or larger.mu == smaller.mu)
    whole, part = larger.likelihood().basis, smaller.likelihood().basis
    df = whole.shape[1] - part.shape[1]
    if not same or df < 1 or np.abs(part - whole @ (whole.T @ part)).max(initial=0.0) > 1e-8:
        raise ValueError(
            "smaller must be fitted to the same estimates, with some of larger's covariates and not all of them"
        )
    statistic = max(0.0, 2 * (larger.log_likelihood_ - smaller.log_likelihood_))
    return Test(statistic, df, None, float(chdtrc(df, statistic)))


def mean_squared_error(model: NormalModel) -> Floats:
    """Return how far posterior means are from true values over repetitions, squared and on average; up to O(1/m^2).

    For prior="reml" or "marginal-likelihood" and known variances: g1 + g2 + 2 g3, what is left with the prior known, what
    its coefficients and what tau2_ leave unknown (Prasad and Rao 1990, JASA 85:163; for the likelihood less its bias, Datta
    and Lahiri 2000, Stat. Sinica 10:613).  Squares of posterior_sd_ are g1 + g2: posteriors of these priors take tau2_ for
    true.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> mean_squared_error(GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0)).round(3).tolist()
    [1.054, 1.054, 1.054, 1.054]
    """
    if fitted(model).prior not in ("reml", "marginal-likelihood"):
        raise ValueError(f"model must have prior='reml' or 'marginal-likelihood', got {model.prior!r}; give that, or use "
                         "posterior_sd_, which counts for 'bayes' what tau2 leaves unknown")  # fmt: skip
    if not model.known_variances:
        raise ValueError("model must have variances that are known, and its own are estimated; use posterior_sd_ of "
                         "prior='bayes', which counts what they and tau2 leave unknown")  # fmt: skip
    v, unit = model.variances_, model.unit2
    rest = 1 / (1 + model.tau2_ / v)
    _, squares, taken = model.likelihood().traces(model.tau2_ / unit)
    g3 = rest**2 / ((model.tau2_ + v) / unit) * (2 * unit / squares)
    bias = -unit * taken / squares if model.prior == "marginal-likelihood" else 0.0
    return model.posterior_sd_**2 + 2 * g3 - bias * rest**2
