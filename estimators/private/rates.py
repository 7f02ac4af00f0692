"""What the server makes of reports about rates: noisy numbers of ones, or one random bit per client.

Belongs here: moments of the prior from noisy counts, and the fitted model.  What a client sends is in ``client``;
noise-free counts are in ``bernoulli``.
"""

import warnings
from dataclasses import replace

import numpy as np

from estimators.bernoulli import moments_from_reports
from estimators.limits import quotient
from estimators.private.prior import BetaPrior
from estimators.private.reports import RateReport
from estimators.private.server import PrivateModel, guarantee_lines, read
from estimators.validation import finite, nonnegative, paired, probability, single

__all__ = ["PrivateRates", "noisy_rate_moments"]


@paired
def noisy_rate_moments(values, trials, noise_variances, weights=None):
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
        finite("values", values), finite("trials", trials), nonnegative("noise_variances", noise_variances)
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
    """Empirical Bayes for the clients' rates (probabilities) from private reports.

    Model: p_i ~ Beta(alpha, beta); a report is Binomial(trials_i, p_i) plus noise of mean 0 and known variance.  The
    prior comes from moments (`noisy_rate_moments`; ``bernoulli.moments_from_reports`` if some clients report "pairs",
    generative:thm4:protocol).  A client's posterior mean is the best linear one, mu + a (y_i - mu), and its posterior the
    Beta law with that mean and as many trials as a noise-free client would need for the weight a: exact without noise
    (generative:bern:posterior), an approximation with it.

    Boundaries, never passed silently: an estimated variance <= 0 becomes a common rate for all (`boundary_` is
    "no differences"), one >= mu (1 - mu) becomes rates 0 and 1 ("only zeros and ones"); mu is kept in [0, 1]; in each case
    there is a warning.

    Parameters
    ----------
    None.

    Attributes
    ----------
    mu_, sigma2_ : mean and variance of the prior as used; prior_ : the `BetaPrior` to broadcast.
    moments_ : as estimated, before the boundaries.
    alpha_, beta_ : of the prior, inf or 0 at a boundary; boundary_ : str or None.
    weights_ : a_i; posterior_mean_, posterior_sd_ ; converged_ (True), n_iter_ (1), log_likelihood_ : log density of
        the reports at the fitted prior's mean and variance, in the normal approximation.
    guarantees_, guarantee_, clients_ : see ``PrivateModel``.

    >>> import numpy as np
    >>> from estimators.private import RateClient
    >>> rng = np.random.default_rng(0)
    >>> reports = [RateClient(eps=1.0).report(rng.random(100) < rng.beta(3, 7), rng) for _ in range(200)]
    >>> model = PrivateRates().fit(reports)
    >>> round(model.mu_, 2), round(model.alpha_, 0), round(model.beta_, 0)
    (0.31, 3.0, 7.0)
    """

    def __init__(self):
        pass

    def fit(self, reports):
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        reports : list of RateReport, at least two.

        Returns
        -------
        self
        """
        reports = read(reports, RateReport)
        values, trials, noise = (
            np.array([getattr(r, name) for r in reports], float) for name in ("value", "trials", "noise_variance")
        )
        pairs = np.array([r.statistic == "pairs" for r in reports])
        y = values / trials
        if pairs.any():
            if (trials[~pairs] > 1).any() or (~pairs).sum() < 2:
                raise ValueError('reports with statistic="pairs" go with at least two one-bit reports of "ones" (two-point)')
            mu, sigma2 = moments_from_reports(y[~pairs], y[pairs])
        else:
            mu, sigma2, _ = noisy_rate_moments(values, trials, noise)
        self.moments_ = (mu, sigma2)
        self.settle(mu, sigma2)
        mu, sigma2 = self.mu_, self.sigma2_
        sampling = (mu * (1 - mu) - sigma2) / trials + noise / trials**2
        total = sigma2 + sampling
        self.weights_ = np.where(pairs, 0.0, quotient(np.full(len(y), sigma2), total))
        size = self.alpha_ + self.beta_
        self.posterior_mean_ = np.clip(mu + self.weights_ * (y - mu), 0.0, 1.0)
        self.sizes_ = np.full(len(y), size) if size in (0.0, np.inf) else quotient(size, 1 - self.weights_)
        self.posterior_sd_ = np.sqrt(self.posterior_mean_ * (1 - self.posterior_mean_) / (self.sizes_ + 1))
        ones = ~pairs & (total > 0)
        with np.errstate(divide="ignore"):
            density = np.log(2 * np.pi * total[ones]) + (y[ones] - mu) ** 2 / total[ones]
        self.log_likelihood_ = float(-0.5 * density.sum())
        self.converged_, self.n_iter_ = True, 1
        self.prior_ = BetaPrior(mu, sigma2)
        self.keep(reports)
        return self

    def settle(self, mu, sigma2):
        """Set the prior from its moments, moved to the boundary where they are beyond it."""
        self.boundary_ = None
        if not 0 <= mu <= 1:
            warnings.warn(f"the reports average to {mu:.3g}, outside [0, 1]: the noise is too large", stacklevel=3)
            mu = min(max(mu, 0.0), 1.0)
        largest = mu * (1 - mu)
        if sigma2 <= 0 or largest == 0:
            self.boundary_ = "no differences"
            warnings.warn(
                f"the estimated variance between clients is {sigma2:.3g} <= 0: every client gets the common rate "
                "(no differences between clients are seen above sampling and privacy noise)",
                stacklevel=3,
            )
            sigma2 = 0.0
        elif sigma2 >= largest:
            self.boundary_ = "only zeros and ones"
            warnings.warn(
                f"the estimated variance between clients, {sigma2:.3g}, is not below mu (1 - mu) = {largest:.3g}: the prior "
                "has only the rates 0 and 1",
                stacklevel=3,
            )
            sigma2 = largest
        size = np.inf if sigma2 == 0 else largest / sigma2 - 1
        self.mu_, self.sigma2_ = float(mu), float(sigma2)
        with np.errstate(invalid="ignore"):
            self.alpha_, self.beta_ = (float(np.nan_to_num(size * p, nan=0.0, posinf=np.inf)) for p in (mu, 1 - mu))

    def prior_summary(self):
        """Return the fitted prior as plain values."""
        self.require_fit()
        return {
            "family": "beta",
            "mean": self.mu_,
            "sd": float(np.sqrt(self.sigma2_)),
            "alpha": self.alpha_,
            "beta": self.beta_,
            "boundary": self.boundary_,
            "guarantees": guarantee_lines(self.guarantees_),
        }

    def shapes(self):
        """Return the two Beta parameters of each posterior."""
        return self.posterior_mean_ * self.sizes_, (1 - self.posterior_mean_) * self.sizes_

    def posterior_cdf(self, t, strict=False):
        """Return P(p_i <= t), or P(p_i < t) if `strict`, given the reports, one entry per client."""
        from scipy.special import betainc

        self.require_fit()
        t = single(finite, "t", t)
        mean = self.posterior_mean_
        regular = np.isfinite(self.sizes_) & (self.sizes_ > 0) & (mean > 0) & (mean < 1)
        a, b = np.where(regular, self.shapes(), 1.0) if regular.all() else self.safe_shapes(regular)
        smooth = betainc(a, b, min(max(t, 0.0), 1.0))
        at_point = np.where(mean < t, 1.0, np.where(mean == t, 0.0 if strict else 1.0, 0.0))
        zero_one = np.where(t > 0 if strict else t >= 0, 1 - mean, 0.0) + np.where(t > 1 if strict else t >= 1, mean, 0.0)
        return np.where(regular, smooth, np.where(self.sizes_ == 0, zero_one, at_point))

    def safe_shapes(self, regular):
        """Return Beta parameters with 1 where the posterior is no Beta law."""
        size = np.where(regular, self.sizes_, 2.0)
        mean = np.where(regular, self.posterior_mean_, 0.5)
        return mean * size, (1 - mean) * size

    def posterior_quantile(self, q):
        """Return the smallest t with P(p_i <= t) >= q given the reports, one entry per client."""
        from scipy.special import betaincinv

        self.require_fit()
        q = single(probability, "q", q)
        mean = self.posterior_mean_
        regular = np.isfinite(self.sizes_) & (self.sizes_ > 0) & (mean > 0) & (mean < 1)
        smooth = betaincinv(*self.safe_shapes(regular), q)
        zero_one = np.where(q <= 1 - mean, 0.0, 1.0)
        return np.where(regular, smooth, np.where(self.sizes_ == 0, zero_one, mean))

    def draw(self, generator):
        """Return new rates from the fitted prior and new reports of the same design, with normal noise."""
        self.require_fit()
        size = len(self.reports_)
        if self.boundary_ == "no differences":
            truth = np.full(size, self.mu_)
        elif self.boundary_:
            truth = (generator.random(size) < self.mu_).astype(float)
        else:
            truth = generator.beta(self.alpha_, self.beta_, size)
        drawn = []
        for p, r in zip(truth, self.reports_, strict=True):
            hits = generator.binomial(r.trials, p**2 if r.statistic == "pairs" else p)
            drawn.append(replace(r, value=float(hits + np.sqrt(r.noise_variance) * generator.standard_normal())))
        return truth, (drawn,)
