"""What the server makes of reports: the prior of all clients and, as far as the noise allows, each client's value.

The noise of each report has a known variance, which goes into the estimates; everything here is computed from reports
and so costs no further privacy (post-processing).  The server's posterior of a client uses the client's noisy report;
the client itself does better at home with its exact rows and the broadcast `Prior` (``MeanClient.at_home``).

Belongs here: Gaussian means and what all private models share.  Rates are in ``rates``, regressions in ``regression``, a
trusted server with raw means in ``central``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from estimators.accounting.budget import Guarantee
from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.blocks import dot
from estimators.numerics.inversion import lattice_quantile
from estimators.numerics.validation import choice, finite, fraction, instance, listing, nonnegative, single
from estimators.private.mean_posterior import MeanClients, TruncatedNormals, new_estimates
from estimators.private.posterior import GridLaws, Hyperposterior, Nodes, distinct, fit, node_intervals
from estimators.private.prior import Prior, grid_posterior, log_normal
from estimators.private.reports import MeanReport

if TYPE_CHECKING:
    from estimators.private.prior import NormalMixtures
    from estimators.private.reports import Report


__all__ = ["PrivateGaussianMeans", "PrivateModel", "enough", "guarantee_lines", "read"]

AnyReport = TypeVar("AnyReport", bound="Report")


def read(reports: Iterable[Any], kind: type[AnyReport]) -> list[AnyReport]:
    """Return the reports as a list, checked to be of one kind and from different clients."""
    reports = list(listing("reports", reports))
    wrong = next((r for r in reports if not isinstance(r, kind)), None)
    if wrong is not None:
        raise ValueError(f"reports must be {kind.__name__}s (see read_reports), got {type(wrong).__name__}")
    enough(len(reports), 2)
    names = Counter(r.client for r in reports if r.client)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise ValueError(f"reports hold two from the client {twice[0]!r}; keep one")
    return reports


def enough(clients: int, fewest: int) -> None:
    """Raise ValueError unless reports come from at least so many clients."""
    if clients < fewest:
        raise ValueError(f"reports must come from at least {fewest} clients to learn from, got {clients}")


def guarantee_lines(guarantees: Iterable[Guarantee], together: int | None = None) -> list[str]:
    """Describe the guarantees of many clients, one line for each kind with the number of clients.

    Parameters
    ----------
    guarantees : list of Guarantee, one per client; or one per release, each about all clients together.
    together : whole number >= 1, of those clients; None if each guarantee is of one client.

    >>> from estimators.accounting.budget import Guarantee
    >>> guarantee_lines([Guarantee(1.0, 0.0, "row", "client", "answers")] * 3)
    ['3 clients: eps=1, delta=0 (answers): one row of a client takes any other value; the numbers of rows are public']
    """
    listed = [instance(f"guarantees[{i}]", g, Guarantee) for i, g in enumerate(listing("guarantees", guarantees))]
    if together is not None:
        return [f"one release about all {together} clients: {g}" for g in listed]
    return [f"{times} client{'s' if times > 1 else ''}: {g}" for g, times in Counter(listed).most_common()]


class PrivateModel(ClientModel):
    """What private models share: the guarantees of the reports they were fitted to.

    Attributes
    ----------
    guarantees_ : tuple of Guarantee, one per client; guarantee_ : Counter of them, kinds and numbers of clients.
    clients_ : tuple of the clients' names.
    """

    clients_: tuple[str, ...]
    guarantees_: tuple[Guarantee, ...]
    guarantee_: Counter[Guarantee]
    weights_: Floats

    def keep(self, reports: Sequence[Report]) -> None:
        """Keep the reports' public parts."""
        self.clients_ = tuple(r.client for r in reports)
        self.guarantees_ = tuple(r.guarantee for r in reports)
        self.guarantee_ = Counter(self.guarantees_)
        self.reports_ = reports


class PrivateGaussianMeans(PrivateModel):
    """Bayes for the clients' means from private reports, with the law of each report taken into account.

    Model: report_i has mean theta_i and variance sigma2 / n_i + noise_i + rounding_i.  By default the law of the noise is
    that of its mechanism, clipping included, true means lie within the public bounds, and centre and spread of all clients
    are averaged over (``mean_posterior`` says how); noise of no known mechanism is taken as normal.

    The other priors take the report as normal and true means as unbounded: with equal reports this is the noise of Theorem 2
    (generative:thm2:a, generative:thm2:mse).  There clipping bias is not corrected: choose bounds with `a_priori_bounds`.
    The rounding variance is an upper bound, which hides differences between clients smaller than a step between levels;
    means rounded to one bit ("two-point") reveal mu but nothing about tau2.

    Parameters
    ----------
    prior : "exact", for reports of equal bounds: mu uniform between the bounds, tau uniform up to half of their width;
        "integrated" averages normal laws over what the reports leave open about tau (flat prior for tau from 0 to half the
        width of the bounds), for unequal bounds; or "marginal-likelihood", "reml", "moments": one value of tau2, as in
        ``GaussianMeans``.
    sigma2 : variance >= 0 of one row, the same for all clients, or None to take it from the clients' reported variances.

    Attributes
    ----------
    mu_, mu_sd_, tau2_, sigma2_ : the parameters (means over the grid for "integrated"; for "exact" mean and variance of the
        clients' true means); prior_ : the `Prior` to broadcast.
    nodes_ : for "exact", centres and spreads with their weights; log_likelihood_ is averaged over them.
    variances_ : variance of each report about its client's mean; noise_variances_ : of it, the privacy noise.
    posterior_mean_, posterior_sd_, weights_, log_likelihood_, converged_, n_iter_ : as in ``GaussianMeans``.
    guarantees_, guarantee_, clients_ : see ``PrivateModel``.

    >>> import numpy as np
    >>> from estimators.private import MeanClient
    >>> rng = np.random.default_rng(0)
    >>> client = lambda: MeanClient(bounds=(-6.0, 6.0), eps=1.0, delta=1e-5, mechanism="gaussian")
    >>> reports = [client().report(rng.normal(rng.normal(), 1.0, 50), rng) for _ in range(400)]
    >>> model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    >>> round(model.mu_, 1), round(model.tau2_, 1), round(float(model.noise_variances_[0]), 2)
    (0.0, 1.4, 0.8)
    """

    prior: Literal["exact", "integrated", "marginal-likelihood", "reml", "moments"]
    reports_: Sequence[MeanReport]
    sigma2_: float
    variances_: Floats
    noise_variances_: Floats
    prior_: Prior
    mu_: float
    mu_sd_: float
    tau2_: float
    posteriors_: NormalMixtures | GridLaws
    nodes_: Nodes
    hyperposterior_: Hyperposterior
    family_: TruncatedNormals

    def __init__(
        self,
        prior: Literal["exact", "integrated", "marginal-likelihood", "reml", "moments"] = "exact",
        sigma2: float | None = None,
    ) -> None:
        self.prior = prior
        self.sigma2 = sigma2

    def fit(self, reports: Sequence[MeanReport]) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        reports : list of MeanReport, at least two (three for prior="exact" and "integrated"); they may differ in n, noise
            and guarantee, and in bounds except for "exact".

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument, also if sigma2 is neither given nor reported by any client.
        """
        from estimators.normal_means.gaussian_means import GaussianMeans

        reports = read(reports, MeanReport)
        self.check_settings(len(reports))
        known = self.sigma2 is not None
        self.sigma2_, error = (single(nonnegative, "sigma2", self.sigma2), 0.0) if known else pooled_sigma2(reports)
        x = np.array([r.estimate for r in reports])
        self.noise_variances_ = np.array([r.noise_variance for r in reports])
        self.variances_ = np.array([report_variance(r, self.sigma2_) for r in reports])
        if (self.variances_ <= 0).any():
            raise ValueError("sigma2 must be > 0 for reports without noise")
        if self.prior == "exact":
            self.fit_exactly(reports)
        elif self.prior == "integrated":
            self.prior_ = integrated(x, self.variances_, reports, self.sigma2_)
            self.converged_, self.n_iter_ = True, len(self.prior_.tau)
        else:
            if not tau_information(reports).all():
                raise ValueError("prior must be 'integrated' for reports of one bit, which do not reveal tau2")
            inner = GaussianMeans(prior=self.prior).fit(x, self.variances_)
            self.prior_ = Prior.known(mu=inner.mu_, tau2=inner.tau2_, sigma2=self.sigma2_, mu_sd=inner.mu_sd_)
            self.converged_, self.n_iter_ = inner.converged_, inner.n_iter_
        self.prior_ = replace(self.prior_, sigma2_sd=error)
        self.mu_, self.mu_sd_, self.tau2_ = self.prior_.mean, self.prior_.mean_sd, self.prior_.variance
        if self.prior != "exact":
            self.posteriors_ = self.prior_.posteriors(x, self.variances_)
            density = log_normal(x - self.mu_, self.tau2_ + self.variances_) - np.log(2 * np.pi) / 2
            self.log_likelihood_ = float(np.sum(density))
        self.posterior_mean_, self.posterior_sd_ = self.posteriors_.mean(), self.posteriors_.sd()
        tau2, weight, *_ = self.prior_.columns()
        self.weights_ = np.sum(weight * tau2 / (tau2 + self.variances_), axis=0)
        self.keep(reports)
        return self

    def check_settings(self, clients: int) -> None:
        """Raise ValueError for settings, or a number of clients, with which no reports can be fitted.

        It looks at nothing else, so that it can be asked before anybody spends a budget.

        >>> PrivateGaussianMeans(prior="Exact").check_settings(10)
        Traceback (most recent call last):
        ...
        ValueError: prior must be one of 'exact', 'integrated', 'marginal-likelihood', 'reml', 'moments', got 'Exact'
        """
        choice("prior", self.prior, ("exact", "integrated", "marginal-likelihood", "reml", "moments"))
        enough(clients, 3 if self.prior in ("exact", "integrated") else 2)
        if self.sigma2 is not None:
            single(nonnegative, "sigma2", self.sigma2)

    def fit_exactly(self, reports: Sequence[MeanReport]) -> None:
        """Set the prior, the posteriors and the log likelihood of prior="exact"."""
        bounds = {r.bounds for r in reports}
        if len(bounds) > 1:
            some = sorted(bounds)[:2]
            raise ValueError(
                f"reports must have equal bounds, between which all true means lie, got {some[0]} and {some[1]}; agree on "
                "one pair, or give prior='integrated'"
            )
        self.family_ = TruncatedNormals(*reports[0].bounds)
        first, whose, count = distinct(
            [(r.estimate, r.n, r.noise_variance, r.rounding_variance, r.guarantee) for r in reports]
        )
        found = fit(MeanClients([reports[i] for i in first], self.sigma2_, count), self.family_, whose)
        self.nodes_, self.posteriors_, self.log_likelihood_ = found.nodes, found.laws, found.evidence
        self.hyperposterior_ = found.hyperposterior
        mean, variance = self.family_.moments(found.nodes.centre, found.nodes.spread)
        spreads, row = np.unique(found.nodes.spread, return_inverse=True)
        weight, first, second, within = (
            np.bincount(row, found.nodes.weight * x, spreads.size) for x in (np.ones_like(mean), mean, mean**2, variance)
        )
        mu = first / weight
        self.prior_ = Prior(
            tuple(np.sqrt(within / weight)), tuple(weight / weight.sum()), tuple(mu),
            tuple(np.sqrt(np.maximum(second / weight - mu**2, 0.0))), self.sigma2_,
        )  # fmt: skip
        self.converged_, self.n_iter_ = found.hyperposterior.settled, found.nodes.weight.size

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain values."""
        self.require_fit()
        return {
            "family": "normal within the bounds" if self.prior == "exact" else "normal",
            "found_by": self.prior,
            "mean": self.mu_,
            "mean_standard_error": self.mu_sd_,
            "sd": float(np.sqrt(self.tau2_)),
            "sigma2": self.sigma2_,
            "guarantees": guarantee_lines(self.guarantees_),
        }

    def posterior_cdf(self, t: float, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or < t if `strict`, given the reports, one entry per client."""
        self.require_fit()
        if isinstance(self.posteriors_, GridLaws):
            return self.posteriors_.cdf(t)
        return self.posteriors_.cdf(single(finite, "t", t), strict)

    def posterior_quantile(self, q: float) -> Floats:
        """Return the q-quantile of each client's posterior."""
        self.require_fit()
        return self.posteriors_.quantile(q)

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" and, if tau was averaged over, "sd" of the clients' true means, from the reports."""
        from estimators.numerics import normal_mixture

        self.require_fit()
        level, prior = single(fraction, "level", level), self.prior_
        tails = (1 - level) / 2, (1 + level) / 2
        if self.prior == "exact":
            return node_intervals(self.family_, self.hyperposterior_, level)
        tau, weight, mu, mu_sd = (np.array(column) for column in (prior.tau, prior.weight, prior.mu, prior.mu_sd))
        low, high = (float(normal_mixture.quantile(q, weight, mu, mu_sd)) for q in tails)
        found: dict[str, Any] = {"mean": (low, high)}
        if tau.size > 1:
            found["sd"] = tuple(lattice_quantile(tau, weight, q) for q in tails)
        return found

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true: never, as all clients share the error of the centre."""
        self.require_fit()
        return False

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true means given the reports: a tau, a centre, then the clients."""
        self.require_fit()
        if isinstance(self.posteriors_, GridLaws):
            return self.posteriors_.draw(generator, size)
        tau2, weight, mu, mu_sd2 = (column[:, 0] for column in self.prior_.columns())
        nodes = generator.choice(weight.size, size, p=weight / weight.sum())
        centre = (mu[nodes] + np.sqrt(mu_sd2[nodes]) * generator.standard_normal(size))[:, None]
        own = tau2[nodes, None] / (tau2[nodes, None] + self.variances_)
        noise = generator.standard_normal((size, self.variances_.size))
        return centre + own * (self.own_numbers() - centre) + np.sqrt(own * self.variances_) * noise

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return what the reports say, noise included."""
        self.require_fit()
        return np.array([r.estimate for r in (self.reports_ if arguments is None else arguments[0])])

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[list[MeanReport]]]:
        """Return new true means from the fitted prior (one tau of its grid) and new reports of the same design."""
        self.require_fit()
        size = len(self.reports_)
        if self.prior == "exact":
            if truth is None:
                one = int(generator.choice(self.nodes_.weight.size, p=self.nodes_.weight))
                truth = self.family_.draw(float(self.nodes_.centre[one]), float(self.nodes_.spread[one]), size, generator)
            truth = self.read_truth(truth, (size,))
            low, high = self.reports_[0].bounds
            if ((truth < low) | (truth > high)).any():
                raise ValueError(f"truth must lie within the bounds {low:g} to {high:g} of prior='exact'")
            estimates = new_estimates(self.reports_, self.sigma2_, truth, generator)
            return truth, ([replace(r, estimate=float(e)) for r, e in zip(self.reports_, estimates, strict=True)],)
        node = int(generator.choice(len(self.prior_.tau), p=self.prior_.weight))
        if truth is None:
            truth = self.prior_.mu[node] + self.prior_.tau[node] * generator.standard_normal(size)
        truth = self.read_truth(truth, (size,))
        estimates = truth + np.sqrt(self.variances_) * generator.standard_normal(size)
        drawn = [replace(r, estimate=float(e)) for r, e in zip(self.reports_, estimates, strict=True)]
        return truth, (drawn,)


def report_variance(report: MeanReport, sigma2: float) -> float:
    """Return the variance of a report about its client's mean."""
    return sigma2 / report.n + report.noise_variance + report.rounding_variance


def integrated(x: Floats, variances: Floats, reports: Sequence[MeanReport], sigma2: float) -> Prior:
    """Return the Prior on a grid of tau given reports x.

    A squared deviation whose noise is Laplace (excess kurtosis 3, in the share f of the variance) tells 1 + 3 f^2 / 2 times
    less about its variance than a normal one; its log likelihood counts by that much less.  f is taken at a pilot estimate.
    """
    origin = x.mean()
    y = x - origin
    counts = tau_information(reports)

    def given_tau(tau):
        precision = 1 / (tau**2 + variances)
        total = precision.sum()
        mu = dot(precision, y) / total
        terms = np.log(precision) - precision * (y - mu) ** 2
        log_likelihood = (dot(counts, terms) - counts.mean() * np.log(total)) / 2
        return log_likelihood, origin + mu, 1 / np.sqrt(total)

    low, high = min(r.bounds[0] for r in reports), max(r.bounds[1] for r in reports)
    laplace = np.array([r.noise_variance if r.guarantee.mechanism == "discrete-laplace" else 0.0 for r in reports])
    if (laplace > 0).any():
        pilot = grid_posterior(given_tau, (high - low) / 2).variance
        counts = counts / (1 + 1.5 * (laplace / (pilot + variances)) ** 2)
    return grid_posterior(given_tau, (high - low) / 2, sigma2)


def tau_information(reports: Sequence[MeanReport]) -> Floats:
    """Return 0 for means rounded to one bit, which tell nothing about tau (generative:thm4:identifiable), else 1."""
    widths = np.array([r.bounds[1] - r.bounds[0] for r in reports])
    rounding = np.array([r.rounding_variance for r in reports])
    return np.where(rounding > 0.249 * widths**2, 0.0, 1.0)


def pooled_sigma2(reports: Sequence[MeanReport]) -> tuple[float, float]:
    """Return the variance of one row from the clients' noisy variances, and its standard error.

    The mean of the normal law of the estimate and its error, cut off at 0: the estimate itself unless noise hides sigma2.
    """
    from scipy.special import log_ndtr

    told = [r for r in reports if r.variance is not None]
    if not told:
        raise ValueError("sigma2 must be given, or reported by clients with variance_share > 0")
    values = np.array([r.variance for r in told])
    noise = np.array([r.variance_noise for r in told])
    freedom = np.array([r.n - 1.0 for r in told])
    spread = noise + 2 * max(float(np.median(values)), 0.0) ** 2 / freedom
    if (spread == 0).any():
        return float(np.mean(values)), 0.0
    weights = spread.min() / spread
    pooled = float(np.sum(weights * values) / np.sum(weights))
    error = float(np.sqrt(1 / np.sum(1 / spread)))
    if pooled < error:
        warnings.warn(
            f"the reported variances average to {pooled:.3g} with standard error {error:.3g}: their noise hides sigma2; "
            "give sigma2, or report variances with a larger eps",
            stacklevel=3,
        )
    z = pooled / error
    lift = np.exp(-(z**2) / 2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return pooled + error * float(lift), error
