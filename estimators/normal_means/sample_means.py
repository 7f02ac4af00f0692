"""Clients with a few rows each, from which their means and their variances are estimated: honest intervals for both.

Belongs here: the normal prior of ``gaussian_means`` for means of rows whose variances differ between clients and are known
no better than their rows tell.  The law of the variances is in ``variances``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, Self

import numpy as np
from scipy import special

from estimators.model import ClientModel
from estimators.normal_means.gaussian_means import HYPERPRIORS, GaussianMeans
from estimators.normal_means.meta_regression import Design
from estimators.normal_means.tau2_likelihood import BLOCK, MarginalLikelihood, RegressionLikelihood
from estimators.normal_means.variances import moderated_variances
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.blocks import dots, parts
from estimators.numerics.units import shifted
from estimators.numerics.validation import choice, count, finite, fraction, nonnegative, paired, single

__all__ = ["SampleMeans"]

DEEP = 20.0  # variances less than exp(-DEEP) times as likely as the likeliest are left out
WORK = 2**15  # numbers in an array of all that clients' posteriors mix
MOST = 1000  # variances of a client
ALIKE = 8  # kinds of grids, by their numbers of variances, in each doubling of these
EXCESS = 10.0  # times its moderated variance is the most that a client's expected one counts: with 2 degrees it is infinite
CURVED = 4.0  # grids of log variances count laws of chi-square as so much narrower than normal ones: all to about 1e-6


class SampleMeans(GaussianMeans):
    """Empirical Bayes for means of a few rows each: means and variances both come from all clients.

    Model: the n_i rows of client i are N(theta_i, sigma2_i), theta_i ~ N(mu + z_i beta, tau2), and sigma2_i ~ s0^2 d0 /
    chi-square(d0).  The law of the variances is Smyth's (2004; limma), found by moments and then taken for true; each
    client's variance is integrated out given its rows.  Where sample variances do not differ beyond chance, this is
    ``GaussianMeans`` with the pooled variance.

    What the means say of noise is not asked, neither for clients' posteriors nor for the prior: a client's variance is
    judged by its rows alone (a cut posterior: Plummer 2015, Statistics and Computing 25:37), and the likelihood of the prior
    is a normal one with the variances that are expected given the rows, so that mu, beta and tau2 are learnt from means and
    squares that are right whatever the shape of the prior and of the noise (a pseudo-likelihood: Gourieroux, Monfort and
    Trognon 1984, Econometrica 52:681).  Estimates are linear in the means, given mu, tau2 and what the rows tell of the
    noise, and their risk is one of the prior's two moments.  A normal prior that judged variances too would call clients
    that differ noisy ones: tests/bench/ARENA.md has what that costs.

    Parameters
    ----------
    prior : "bayes", "reml", "marginal-likelihood" or "fixed"; mu, tau2, hyperprior : as for ``GaussianMeans``.
    noise : how the likelihood of the prior counts it: "expected", as above; or "t", integrated out, which makes that
        likelihood a product of t laws (of sums of a t and a normal) with d0 + n_i - 1 degrees of freedom.  "t" is a little
        better where true values are surely normal, and much worse where a few lie far from the others.

    Attributes
    ----------
    As for ``GaussianMeans``; ``variances_`` are the moderated variances of the means, ``degrees_`` (m,) their degrees of
    freedom, ``expected_variances_`` their means given the rows (inf for 2 degrees of freedom or fewer, where the likelihood
    takes ten times the moderated ones); ``log_likelihood_`` is that of the prior, as `noise` says; ``prior_variance_``
    s0^2 and ``prior_degrees_`` d0, inf where variances do not differ; ``residual_df`` of the pooled variance, else None.
    ``weights_`` are averages over variances too.

    >>> samples = [[1.0, 3.0, 2.0], [0.0, 1.0, -1.0], [9.0, 1.0, 5.0], [3.0, 3.5, 2.5]]
    >>> means, variances = [np.mean(s) for s in samples], [np.var(s, ddof=1) for s in samples]
    >>> model = SampleMeans().fit(means, variances, 3)
    >>> model.posterior_mean_.round(2).tolist(), model.posterior_sd_.round(2).tolist()
    ([2.01, 0.46, 3.45, 2.82], [0.75, 0.86, 1.64, 0.69])
    """

    degrees_: Floats
    counts_: Floats
    expected_variances_: Floats
    prior_variance_: float
    prior_degrees_: float

    def __init__(
        self,
        prior: Literal["bayes", "marginal-likelihood", "reml", "fixed"] = "bayes",
        mu: float | None = None,
        tau2: float | None = None,
        hyperprior: Literal["strawderman", "flat-tau", "flat-tau2"] = "strawderman",
        noise: Literal["expected", "t"] = "expected",
    ) -> None:
        super().__init__(prior, mu, tau2, hyperprior)
        self.noise = noise

    @paired
    def fit(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, means: ArrayLike, variances: ArrayLike, counts: ArrayLike, covariates: ArrayLike | None = None
    ) -> Self:
        """Fit both priors and the posterior of every client.

        Parameters
        ----------
        means : array (m,) of the means of the clients' rows.
        variances : array (m,) >= 0, sample variances of their rows, with divisor n_i - 1; not looked at where n_i = 1.
        counts : array (m,) or number, the numbers n_i >= 1 of rows; some client must have two that differ.
        covariates : as for ``GaussianMeans``.

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain.
        """
        choice("prior", self.prior, ("bayes", "marginal-likelihood", "reml", "fixed"))
        choice("noise", self.noise, ("expected", "t"))
        y, n = finite("means", means), count("counts", counts)
        s2 = nonnegative("variances", variances)
        if y.ndim != 1 or y.size == 0 or s2.shape != y.shape or n.shape not in ((), y.shape):
            raise ValueError(
                f"means, variances and counts must be 1-d with one entry per client, got shapes {y.shape}, {s2.shape} and "
                f"{n.shape}"
            )
        n = np.broadcast_to(n, y.shape)
        found = moderated_variances(s2, n - 1)
        self.counts_, self.degrees_ = n.astype(float), found.degrees
        self.prior_variance_, self.prior_degrees_ = found.prior_variance, found.prior_degrees
        self.expected_variances_ = found.variances / n * excess(found.degrees)
        return super().fit(y, found.variances / n, covariates)

    def design(self, heard: Bools) -> Design:
        """Return the design of the covariates, or of the intercept alone."""
        Z = np.zeros((heard.size, 0)) if self.covariates_ is None else self.covariates_
        return Design.read(Z, heard, self.mu is None)

    @property
    def known_variances(self) -> bool:
        """Whether the likelihood takes the variances for true: where they do not differ beyond chance."""
        return bool(np.isinf(self.prior_degrees_))

    @property
    def residual_df(self) -> int | None:
        """Degrees of freedom of the pooled variance; None where variances differ."""
        return int(np.sum(self.counts_ - 1)) if self.known_variances else None

    def likelihood(self, plain: bool = False) -> MarginalLikelihood:
        """Return the likelihood of tau2, in units of `unit2`."""
        if self.known_variances:
            return super().likelihood()
        y, v = self._scaled
        mu = 0.0 if self.mu is None else float(np.ldexp(self.mu, -self._exponent))
        basis = self.design(np.isfinite(v)).basis if self._design is None else self._design.basis
        kind = TLikelihood if self.noise == "t" else SampleLikelihood
        return kind(y, v, self.degrees_, basis, mu, self.prior, HYPERPRIORS[self.hyperprior])

    def laws(self) -> Iterator[tuple[Ints, Floats, Floats, Floats, Floats]]:
        """Yield places of clients with probabilities, own weights, means and variances of what their posteriors mix.

        One for each pair of a tau2 and a variance of the client, in the units of the fit.  Clients whose variances need as
        fine a grid come together, so that few far ones cost nothing to the others.
        """
        tau2s, _, _, shares = self._nodes
        y, v = self._scaled
        width = np.concatenate([self.widths(rows) for rows in parts(y.size, WORK // shares.size)])
        spans = variance_spans(self.degrees_, width=width)
        kinds = np.ceil(ALIKE * np.log2(spans[-1]))
        order = np.argsort(kinds, kind="stable")
        for alike in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
            for some in parts(alike.size, int(WORK / (shares.size * 2 ** (kinds[alike[0]] / ALIKE)))):
                rows = alike[some]
                grid, logs = variance_grid(v[rows], self.degrees_[rows], *(span[rows] for span in spans))
                mus, spread = (part[:, :, None] for part in self.centres(rows))
                noise = grid[:, None, :]
                precision = 1 / (noise + tau2s[:, None])
                weight = np.exp(logs[:, None, :]) * shares[:, None]
                own, rest = tau2s[:, None] * precision, noise * precision
                centre, variance = mus + own * (y[rows, None, None] - mus), tau2s[:, None] * rest + spread * rest**2
                weight, own, centre, variance = (a.reshape(len(a), -1) for a in (weight, own, centre, variance))
                yield rows, weight, own, centre, variance

    def widths(self, rows: slice) -> Floats:
        """Return over which change of its log variance a client's posterior mean moves by its sd at most, at any tau2.

        It moves by |gap| own rest, and the sd is at least sqrt(tau2 rest), with rest = 1 - own.
        """
        tau2s, (y, v) = self._nodes[0], (part[rows] for part in self._scaled)
        least, most = (1 / (1 + tau2s / (v * np.exp(-u))[:, None]) for u in ends(self.degrees_[rows])[::-1])
        rest = np.clip(1 / 3, least, most)  # where (1 - rest) sqrt(rest) is largest
        with np.errstate(divide="ignore", invalid="ignore"):
            width = np.sqrt(tau2s) / (np.abs(y[:, None] - self.centres(rows)[0]) * (1 - rest) * np.sqrt(rest))
        return np.where(np.isnan(width), np.inf, width).min(axis=1)

    def set_averages(self, shares: Floats) -> None:
        """Set posterior means, sds and own weights, in the units of the fit."""
        for rows, weights, own, means, variances in self.laws():
            self.weights_[rows] = dots(weights, own)
            mean = dots(weights, means)
            self.posterior_mean_[rows] = mean
            self.posterior_sd_[rows] = np.sqrt(dots(weights, variances + (means - mean[:, None]) ** 2))

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        self.require_fit()
        t, found = np.ldexp(finite("t", t), -self._exponent), np.empty(self.estimates_.size)
        for rows, weights, _, means, variances in self.laws():
            found[rows] = normal_mixture.cdf(t[rows] if t.ndim else t, weights, means, np.sqrt(variances), strict)
        return found

    def posterior_quantile(self, q: float) -> Floats:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        return self.posterior_quantiles(q)[0]

    def posterior_quantiles(self, *levels: float) -> Floats:
        """Return quantiles of several levels, array (levels, m), from laws that are set up once."""
        self.require_fit()
        levels = tuple(single(fraction, "q", q) for q in levels)
        found = np.empty((len(levels), self.estimates_.size))
        for rows, weights, _, means, variances in self.laws():
            law, compiled = (weights, means, np.sqrt(variances)), found.shape[1] >= normal_mixture.MANY
            found[:, rows] = normal_mixture.quantile(np.array(levels)[:, None], *law, compiled=compiled)
        return shifted(found, self._exponent)

    @property
    def independent(self) -> bool:
        """Whether the prior is taken for true."""
        self.require_fit()
        _, _, variances, shares = self._nodes
        return shares.size == 1 and not np.any(variances)

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true values: a tau2, a centre, the clients' variances, then the clients."""
        self.require_fit()
        tau2s, _, _, shares = self._nodes
        nodes = np.sort(generator.choice(shares.size, size, p=shares / shares.sum()))
        y, v = self._scaled
        centre, known = self.prior_means(generator, nodes), np.isinf(self.degrees_)
        degrees = np.where(known, 1.0, self.degrees_)
        noise = np.where(known, v, v * degrees / generator.chisquare(degrees, (size, y.size)))
        own = tau2s[nodes, None] / (noise + tau2s[nodes, None])
        theta = centre + own * (y - centre) + np.sqrt(own * noise) * generator.standard_normal(noise.shape)
        return np.ldexp(theta, self._exponent)

    def exceedances(self, rows: slice) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return None: with variances that are estimated there is no closed form."""
        return

    def predictive_ranks(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return None: with variances that are estimated there is no exact prediction without a client."""
        return

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Raise ValueError: the variances are not known."""
        return ClientModel.normal_estimates(self)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Floats, ...]]:
        """Return (truth, (means, variances, counts[, covariates])): all drawn anew, from both priors."""
        self.require_fit()
        m, n, d0 = self.counts_.size, self.counts_, self.prior_degrees_
        if truth is None:
            truth = self.prior_mean_ + self.prior_summary()["sd"] * generator.standard_normal(m)
        truth = self.read_truth(truth, n.shape)
        sigma2 = np.full(m, self.prior_variance_) if np.isinf(d0) else self.prior_variance_ * d0 / generator.chisquare(d0, m)
        means = truth + np.sqrt(sigma2 / n) * generator.standard_normal(m)
        variances = sigma2 * np.where(n > 1, generator.chisquare(np.maximum(n - 1, 1)) / np.maximum(n - 1, 1), 0.0)
        data = means, variances, n
        return truth, data if self.covariates_ is None else (*data, self.covariates_)


def ends(df: Floats, reach: Floats | float = 0.0) -> tuple[Floats, Floats]:
    """Return between which logs chi-square(df) / df lies, but for what is too rare, and with a residual of `reach` v."""
    x = 2 * DEEP / df
    return -np.minimum(1 + x, np.sqrt(2 * x) + x / 1.5) - np.log1p(reach / df), np.log1p(x + np.sqrt(2 * x))


def variance_spans(df: Floats, reach: Floats | float = 0.0, width: Floats | float = np.inf) -> tuple[Floats, Floats, Floats]:
    """Return for each client the `ends` of a grid of its variance, and of how many values, at most `MOST`.

    Far enough towards large variances for a residual whose square is `reach` times v.  Sums with a step h are wrong by the
    least value of exp(-2 pi y / h) / cos(y)^(df / 2), by what chi-square(df)'s log density is at imaginary parts y: less
    than 1e-6 for h^-2 = df / 2 + `CURVED`.  What changes within `width` of the log adds its own.
    """
    low, high = ends(df, reach)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = (high - low) * np.sqrt(df / 2 + CURVED + 1 / np.square(width))
    return low, high, 1 + np.ceil(np.minimum(np.where(np.isinf(df), 0.0, needed), MOST))


def variance_grid(v: Floats, df: Floats, low: Floats, high: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return values of sigma2 ~ v df / chi-square(df), array (m, J), evenly spaced in log, and their log probabilities.

    All have as many as the one of `variance_spans` with most.
    """
    if np.isinf(df).all():
        return v[:, None], np.zeros((v.size, 1))
    u = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, int(sizes.max()))  # log of chi-square(df) / df
    logs = df[:, None] / 2 * (u - np.expm1(u))
    logs -= logs.max(axis=1, keepdims=True)
    return v[:, None] * np.exp(-u), logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))


def excess(df: Floats) -> Floats:
    """Return the mean of df / chi-square(df), inf for 2 degrees of freedom or fewer."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(df), 1.0, df / np.maximum(df - 2, 0.0))


class SampleLikelihood(RegressionLikelihood):
    """Normal likelihood of tau2 with the expected variances of y_i ~ (origin + basis_i gamma, tau2 + sigma2_i).

    Given the rows sigma2_i ~ v_i df_i / chi-square(df_i).
    """

    def __init__(self, y: Floats, v: Floats, df: Floats, basis: Floats, origin: float, prior: str, power: float) -> None:
        noise = self.noise(v, df)
        super().__init__(y, noise, basis, origin, prior, power)
        order = np.argsort(noise, kind="stable")
        self.moderated, self.df = v[order], df[order]

    def noise(self, v: Floats, df: Floats) -> Floats:
        """Return the variances of y for a given true value: their means, of which `EXCESS` v_i counts at most."""
        return v * np.minimum(excess(df), EXCESS)

    @cached_property
    def grid(self) -> tuple[Floats, Floats]:
        """Values of the clients' variances and their log probabilities."""
        return variance_grid(self.moderated, self.df, *variance_spans(self.df, self.y**2 / self.moderated))

    def alike(self, y: Floats, basis: Floats, prior: str) -> Self:
        """Return the likelihood of other estimates of the same clients, in the order of `v`, from the origin 0."""
        return type(self)(y, self.moderated, self.df, basis, 0.0, prior, 0.0)

    def residuals(self, tau2: float) -> Floats:
        """Return what the best gamma leaves of y."""
        _, w, _, _, e = next(iter(self.solve(np.array([tau2]))))
        return e / np.sqrt(w)

    def squares(self, tau2s: Floats) -> Floats:
        """Return the sum of squared residuals at each of `tau2s`, each turned into a normal one of as small a tail first."""
        found, (grid, logs) = np.zeros(tau2s.size), self.grid
        for k, tau2 in enumerate(tau2s):
            size = np.abs(self.residuals(tau2))
            for rows in parts(self.size, BLOCK // grid.shape[1]):
                beyond = special.log_ndtr(-size[rows, None] / np.sqrt(grid[rows] + tau2))
                found[k] += np.sum(special.ndtri_exp(special.logsumexp(logs[rows] + beyond, axis=1)) ** 2)
        return found


class TLikelihood(SampleLikelihood):
    """Likelihood of tau2 where y_i ~ N(origin + basis_i gamma, tau2 + sigma2_i), and sigma2_i ~ v_i df_i / chi-square(df_i).

    gamma is at its best, or integrated out with the curvature there.  `traces` take v_i for true.
    """

    def __init__(self, y: Floats, v: Floats, df: Floats, basis: Floats, origin: float, prior: str, power: float) -> None:
        super().__init__(y, v, df, basis, origin, prior, power)
        self.equal = False  # equal v_i are no equal variances, and have no closed form
        self.gamma = np.zeros(self.coefficients)

    def noise(self, v: Floats, df: Floats) -> Floats:
        """Return v: where sums go by size it stands for a variance that is integrated out."""
        return v

    def residuals(self, tau2: float) -> Floats:
        """Return what the best gamma leaves of y."""
        self.best(tau2)
        return self.y - np.einsum("ip,p->i", self.basis, self.gamma)

    def look(self, tau2: float, residual: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density, and the weights of residuals in its slope and in its curvature."""
        self.passes += 1
        value, slope, curvature = 0.0, np.empty(self.size), np.empty(self.size)
        grid, logs = self.grid
        for rows in parts(self.size, BLOCK // grid.shape[1]):
            e, a = residual[rows, None], 1 / (grid[rows] + tau2)
            chance = logs[rows] + (np.log(a) - a * e**2) / 2
            top = chance.max(axis=1, keepdims=True)
            chance = np.exp(chance - top)
            total = chance.sum(axis=1)
            value += float(np.sum(top[:, 0] + np.log(total)))
            slope[rows] = np.einsum("ij,ij->i", chance, a) / total
            squares = np.einsum("ij,ij,ij->i", chance, a, a) / total
            curvature[rows] = slope[rows] - (squares - slope[rows] ** 2) * e[:, 0] ** 2
        return value - self.size * np.log(2 * np.pi) / 2, slope, curvature

    def best(self, tau2: float) -> tuple[float, Floats]:
        """Return the log density at the best gamma, kept in `gamma`, and the information about gamma there."""
        value, before, last = 0.0, -np.inf, self.gamma
        information = np.zeros((self.coefficients, self.coefficients))
        for _ in range(200):
            residual = self.y - np.einsum("ip,p->i", self.basis, self.gamma)
            value, w, k = self.look(tau2, residual)
            if value < before - 1e-12 * abs(before):  # Newton's step went too far
                self.gamma = (self.gamma + last) / 2
                continue
            information = np.einsum("ip,i,iq->pq", self.basis, k, self.basis)
            if self.coefficients and np.linalg.eigvalsh(information)[0] <= 0:  # an EM step: residuals by expected precision
                information = np.einsum("ip,i,iq->pq", self.basis, w, self.basis)
            slope = np.einsum("ip,i->p", self.basis, w * residual)
            step = np.linalg.solve(information, slope)
            before, last = value, self.gamma
            self.gamma = self.gamma + step
            if step @ slope < 1e-16:
                break
        return value, information

    def centre(self, tau2s: Floats) -> tuple[Floats, Floats]:
        """Return the best gamma (k, p) at each of `tau2s`, and its covariance (k, p, p)."""
        p = self.coefficients
        found, covariance = np.empty((tau2s.size, p)), np.empty((tau2s.size, p, p))
        for k, tau2 in enumerate(tau2s):
            covariance[k] = np.linalg.inv(self.best(tau2)[1])
            found[k] = self.start + self.gamma
        return found, covariance

    def objective(self, tau2s: Floats, mu: Floats | float | None = None, restricted: bool | None = None) -> Floats:
        """Return the log density of y, at the best gamma or the one given; for REML and averages the restricted one."""
        found = np.empty(tau2s.size)
        for k, tau2 in enumerate(tau2s):
            if mu is not None:
                found[k] = self.look(tau2, self.y - np.einsum("ip,p->i", self.basis, mu - self.start))[0]
                continue
            found[k], information = self.best(tau2)
            if self.restricted if restricted is None else restricted:
                found[k] -= np.linalg.slogdet(information)[1] / 2
        return found

    def score(self, tau2s: Floats) -> Floats:
        """Return what falls through 0 at the estimate: twice a derivative, by differences."""
        step = 1e-4 * (tau2s + self.v_range[0] / 4)
        ends = np.maximum(tau2s - step, 0.0), tau2s + step
        return 2 * (self.objective(ends[1]) - self.objective(ends[0])) / (ends[1] - ends[0])
