"""What the server makes of reports about rates: noisy numbers of ones, or one random bit per client.

Belongs here: moments of the prior from noisy counts, and the fitted model.  The exact likelihood, the prior and a client's
law given one prior are in ``rate_posterior``, what a client sends in ``client``; noise-free counts in ``bernoulli``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from estimators.closed_forms.bernoulli import moments_from_reports
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import choice, count, finite, fraction, nonnegative, paired, probability, single
from estimators.private.noise_laws import noisy_value
from estimators.private.posterior import GridLaws, Hyperposterior, Nodes, distinct, fit, node_intervals
from estimators.private.prior import BetaPrior, cut_mean
from estimators.private.rate_posterior import Betas, RateClients, check, rate_posteriors
from estimators.private.reports import RateReport
from estimators.private.server import PrivateModel, enough, guarantee_lines, read

if TYPE_CHECKING:
    from estimators.private.rate_posterior import BetaMixtures

__all__ = ["PrivateRates", "noisy_rate_moments"]


@paired
def noisy_rate_moments(
    values: ArrayLike, trials: ArrayLike, noise_variances: ArrayLike, weights: ArrayLike | None = None
) -> tuple[float, float, float]:
    """Estimates of the mean and the variance of the clients' rates from noisy counts; unbiased for fixed weights.

    With y = value / trials and w = weights / their sum: mu = sum of w y, and the weighted sum of squares about it less
    what sampling and noise put there, where the mean of p (1 - p) is estimated from y (1 - y) + noise / trials^2.  For any
    prior on [0, 1], any trials and any noise of mean 0 and known variance; the variance can come out negative.  Without
    noise, with equal trials and weights, the same as ``bernoulli.moments`` (generative:bern:moments:unbiased).

    Parameters
    ----------
    values : array (m,) of noisy numbers of ones; trials : array (m,) of whole numbers >= 1; noise_variances : array (m,).
    weights : array (m,) of numbers >= 0 that say nothing about the values, or None: those that are best for a uniform
        prior, and then once more those for the estimates so found (consistent, no longer exactly unbiased).

    Returns
    -------
    (mu, sigma2, within) : within estimates the mean of p (1 - p).

    Raises
    ------
    ValueError
        For fewer than two clients, and if no client has two trials (one trial shows the prior's mean only).

    >>> mu, sigma2, within = noisy_rate_moments([0, 1, 2], [2, 2, 2], [0, 0, 0], weights=[1, 1, 1])
    >>> round(mu, 12), round(sigma2, 12)
    (0.5, 0.166666666667)
    """
    values, trials, noise = np.broadcast_arrays(
        finite("values", values), count("trials", trials), nonnegative("noise_variances", noise_variances)
    )
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"values must come from at least two clients, got shape {values.shape}")
    several = trials >= 2
    if not several.any():
        raise ValueError("trials must be >= 2 for some client: one answer per client shows the prior's mean only")
    y, v = values / trials, noise / trials**2
    spread = (y * (1 - y) + v)[several] * trials[several] / (trials[several] - 1)

    def at(weights):
        w = weights / weights.sum()
        mu = np.sum(w * y)
        c = w[several] if w[several].sum() > 0 else np.ones(several.sum())
        within = np.sum(c * spread) / np.sum(c)
        left = w * (1 - w)
        sigma2 = (np.sum(w * (y - mu) ** 2) - np.sum(left * (within / trials + v))) / np.sum(left)
        return float(mu), float(sigma2), float(within)

    if weights is not None:
        weights = np.broadcast_to(nonnegative("weights", weights), y.shape)
        if np.count_nonzero(weights) < 2:
            raise ValueError("weights must be positive for at least two clients")
        return at(weights)
    mu, sigma2, within = at(1 / (1 / 12 + 1 / (6 * trials) + v))
    total = max(sigma2, 0.0) + np.clip(within, 0.0, 0.25) / trials + v
    return (mu, sigma2, within) if (total == 0).any() else at(total.min() / total)


class PrivateRates(PrivateModel):
    """Bayes for the clients' rates (probabilities) from private reports, with the exact law of each report.

    Model: p_i ~ Beta(alpha, beta); a report is Binomial(trials_i, p_i) behind the known noise of its mechanism.  By default
    the prior's mean and its spread (alpha + beta + 1)^(-1/2) are uniform on (0, 1), and everything is averaged over what all
    reports leave open about them (``rate_posterior``).  Noise of a mechanism that ``RateClient`` does not have is taken as
    normal.

    With prior="moments" one prior is taken for true, from moments (`noisy_rate_moments`; ``bernoulli.moments_from_reports``
    if some clients report "pairs", generative:thm4:protocol), and a client's posterior is exact for that prior: with noise
    the mixture of Beta laws over the numbers of ones that the report leaves open, without noise a single one
    (generative:bern:posterior).  Moments that noise moves out of their domain, or near its end, are no truth to take at
    face value: mu is the mean of the normal law of its estimate and error cut off at 0 and 1, sigma2 likewise at 0 and
    mu (1 - mu).  Hence no interval has width 0.  Where the estimate itself is outside there is a warning, and `boundary_`
    says which end it is beyond.

    Parameters
    ----------
    prior : "exact" or "moments".

    Attributes
    ----------
    mu_, sigma2_ : mean and variance of the prior (averaged, for "exact"); prior_ : the `BetaPrior` to broadcast.
    alpha_, beta_ : of the Beta law with these.
    nodes_ : centres and spreads with their weights, for "exact"; log_likelihood_ is averaged over them.
    moments_ : for "moments", as estimated, perhaps outside of their domain; moment_errors_ : their approximate standard
        errors.
    boundary_ : None, "no differences" (estimated variance <= 0) or "only zeros and ones" (not
        below mu (1 - mu)).
    weights_ : weights of the clients' own reports in the best linear estimates, 0 for "pairs".
    posterior_mean_, posterior_sd_ ; converged_ (False with a warning), n_iter_ (1), log_likelihood_ : log probability (for
        continuous noise: density, up to constants of the noise) of the reports at the fitted prior.
    guarantees_, guarantee_, clients_ : see ``PrivateModel``.

    >>> import numpy as np
    >>> from estimators.private import RateClient
    >>> rng = np.random.default_rng(0)
    >>> reports = [RateClient(eps=1.0).report(rng.random(100) < rng.beta(3, 7), rng) for _ in range(200)]
    >>> model = PrivateRates().fit(reports)
    >>> round(model.mu_, 2), round(model.alpha_, 0), round(model.beta_, 0)
    (0.31, 3.0, 7.0)
    """

    reports_: Sequence[RateReport]
    moments_: tuple[float, float]
    moment_errors_: tuple[float, float]
    mu_: float
    sigma2_: float
    alpha_: float
    beta_: float
    boundary_: str | None
    prior_: BetaPrior
    posteriors_: BetaMixtures | GridLaws
    nodes_: Nodes
    hyperposterior_: Hyperposterior

    def __init__(self, prior: Literal["exact", "moments"] = "exact") -> None:
        self.prior = prior

    def fit(self, reports: Sequence[RateReport]) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        reports : list of RateReport, at least two.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a report without noise whose value is no number of ones; with prior="moments" also for reports that do not
            show the prior's variance.
        """
        reports = read(reports, RateReport)
        self.check_settings(len(reports))
        for report in reports:
            check(report)
        (self.fit_exactly if self.prior == "exact" else self.fit_moments)(reports)
        mu, sigma2 = self.mu_, self.sigma2_
        trials, noise = (np.array([getattr(r, name) for r in reports], float) for name in ("trials", "noise_variance"))
        sampling = (mu * (1 - mu) - sigma2) / trials + noise / trials**2
        self.weights_ = np.where([r.statistic == "pairs" for r in reports], 0.0, sigma2 / (sigma2 + sampling))
        self.posterior_mean_, self.posterior_sd_ = self.posteriors_.mean(), self.posteriors_.sd()
        self.n_iter_ = 1
        self.prior_ = BetaPrior(mu, sigma2)
        self.keep(reports)
        return self

    def check_settings(self, clients: int) -> None:
        """Raise ValueError for settings, or a number of clients, with which no reports can be fitted; before any is made."""
        choice("prior", self.prior, ("exact", "moments"))
        enough(clients, 2)

    def fit_exactly(self, reports: Sequence[RateReport]) -> None:
        """Set the prior, the posteriors and the log likelihood of prior="exact"."""
        first, whose, count = distinct([(r.statistic, r.trials, r.guarantee, r.noise_variance, r.value) for r in reports])
        found = fit(RateClients([reports[i] for i in first], count), Betas(), whose)
        self.nodes_, self.posteriors_, self.log_likelihood_ = found.nodes, found.laws, found.evidence
        self.hyperposterior_, self.converged_ = found.hyperposterior, found.hyperposterior.settled
        mean, variance = Betas.moments(found.nodes.centre, found.nodes.spread)
        self.mu_, self.sigma2_ = float(found.nodes.weight @ mean), float(found.nodes.weight @ variance)
        size = self.mu_ * (1 - self.mu_) / self.sigma2_ - 1
        self.alpha_, self.beta_ = self.mu_ * size, (1 - self.mu_) * size
        self.boundary_ = None

    def fit_moments(self, reports: Sequence[RateReport]) -> None:
        """Set the prior, the posteriors and the log likelihood of prior="moments"."""
        self.converged_ = True
        values, trials, noise = (
            np.array([getattr(r, name) for r in reports], float) for name in ("value", "trials", "noise_variance")
        )
        pairs = np.array([r.statistic == "pairs" for r in reports])
        y = values / trials
        if pairs.any():
            if (trials[~pairs] > 1).any() or (~pairs).sum() < 2:
                raise ValueError('reports with statistic="pairs" go with at least two one-bit reports of "ones" (two-point)')
            mu, sigma2 = moments_from_reports(y[~pairs], y[pairs])
            self.moments_ = mu, sigma2
            self.moment_errors_ = pair_errors(*self.moments_, noise[~pairs], noise[pairs])
        else:
            mu, sigma2, within = noisy_rate_moments(values, trials, noise)
            self.moments_ = mu, sigma2
            self.moment_errors_ = rate_errors(y, trials, noise, *self.moments_, within)
        self.settle()
        self.posteriors_, self.log_likelihood_ = rate_posteriors(reports, self.alpha_, self.beta_)

    def settle(self) -> None:
        """Set the prior from the estimated moments and their errors, inside the domain."""
        (mu, sigma2), (mu_error, sigma2_error) = self.moments_, self.moment_errors_
        if not 0 <= mu <= 1:
            warnings.warn(f"the reports average to {mu:.3g}, outside [0, 1]: the noise is too large", stacklevel=4)
        self.mu_ = cut_mean(mu, mu_error, 1.0)
        largest = self.mu_ * (1 - self.mu_)
        self.boundary_ = None
        if sigma2 <= 0:
            self.boundary_ = "no differences"
            warnings.warn(
                f"the estimated variance between clients is {sigma2:.3g} <= 0, with standard error {sigma2_error:.3g}: no "
                "differences between clients are seen above sampling and privacy noise; what the error leaves open is used",
                stacklevel=4,
            )
        elif sigma2 >= largest:
            self.boundary_ = "only zeros and ones"
            warnings.warn(
                f"the estimated variance between clients, {sigma2:.3g}, is not below mu (1 - mu) = {largest:.3g}, that of "
                "rates 0 and 1 only; what its error leaves open is used",
                stacklevel=4,
            )
        self.sigma2_ = cut_mean(sigma2, sigma2_error, largest)
        size = largest / self.sigma2_ - 1
        self.alpha_, self.beta_ = self.mu_ * size, (1 - self.mu_) * size

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain values."""
        self.require_fit()
        return {
            "family": "beta",
            "found_by": self.prior,
            "mean": self.mu_,
            "sd": float(np.sqrt(self.sigma2_)),
            "alpha": self.alpha_,
            "beta": self.beta_,
            "boundary": self.boundary_,
            "guarantees": guarantee_lines(self.guarantees_),
        }

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(p_i <= t) given the reports, one entry per client; P(p_i < t) is the same, as no rate has an atom."""
        self.require_fit()
        return self.posteriors_.cdf(single(finite, "t", t))

    def posterior_quantile(self, q: float) -> Floats:
        """Return the q-quantile of each client's posterior."""
        self.require_fit()
        return self.posteriors_.quantile(q)

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" and "sd" of the clients' true rates, if they were averaged over."""
        self.require_fit()
        level = single(fraction, "level", level)
        if self.prior != "exact":
            return {}
        return node_intervals(Betas(), self.hyperposterior_, level)

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true."""
        self.require_fit()
        return self.prior != "exact"

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return draws (size, m) of all rates given the reports."""
        self.require_fit()
        return self.posteriors_.draw(generator, size)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the shares that the reports say, noise included."""
        self.require_fit()
        return np.array([r.value / r.trials for r in (self.reports_ if arguments is None else arguments[0])])

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[list[RateReport]]]:
        """Return new rates from the fitted prior and new reports of the same design, with their mechanisms' noise."""
        self.require_fit()
        if truth is None:
            alpha, beta = self.alpha_, self.beta_
            if self.prior == "exact":
                one = generator.choice(self.nodes_.weight.size, p=self.nodes_.weight)
                alpha, beta = Betas.shapes(self.nodes_.centre[one], self.nodes_.spread[one])
            truth = generator.beta(alpha, beta, len(self.reports_))
        truth = probability("truth", self.read_truth(truth, (len(self.reports_),)))
        drawn = [replace(r, value=noisy_value(r, p, generator)) for p, r in zip(truth, self.reports_, strict=True)]
        return truth, (drawn,)


def rate_errors(y: Floats, trials: Floats, noise: Floats, mu: float, sigma2: float, within: float) -> tuple[float, float]:
    """Return approximate standard errors of the estimates of `noisy_rate_moments`.

    The larger of what normal reports would give and what the squares themselves scatter.  Sampling variance is never taken
    as 0: mu is smoothed by one success and one failure, as all clients may have answered alike by chance.
    """
    answers = trials.sum()
    smooth = (answers * min(max(mu, 0.0), 1.0) + 1) / (answers + 2)
    least = smooth * (1 - smooth) / (answers + 2)
    variances = max(sigma2, 0.0) + np.clip(within, least, 0.25) / trials + noise / trials**2
    w = 1 / variances
    w /= w.sum()
    scatter = max(np.sum(w**2 * 2 * variances**2), np.sum(w**2 * ((y - mu) ** 2 - variances) ** 2))
    return float(np.sqrt(np.sum(w**2 * variances))), float(np.sqrt(scatter) / np.sum(w * (1 - w)))


def pair_errors(mu: float, sigma2: float, ones_noise: Floats, pairs_noise: Floats) -> tuple[float, float]:
    """Return approximate standard errors of ``moments_from_reports``, at the nearest moments that can be.

    generative:thm4:protocol:variance, with noise that may differ between clients.
    """
    mu = min(max(mu, 0.0), 1.0)
    second = min(max(sigma2 + mu**2, 0.0), 1.0)
    m1, m2 = len(ones_noise), len(pairs_noise)
    one, two = ones_noise.mean() + mu * (1 - mu), pairs_noise.mean() + second * (1 - second)
    return float(np.sqrt(one / m1)), float(np.sqrt(two / m2 + 4 * mu**2 * one / m1 + 2 * one**2 / (m1 * (m1 - 1))))
