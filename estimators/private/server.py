"""What the server makes of reports: the prior of all clients and, as far as the noise allows, each client's value.

The noise of each report has a known variance, which goes into the estimates; everything here is computed from reports
and so costs no further privacy (post-processing).  The server's posterior of a client uses the client's noisy report;
the client itself does better at home with its exact rows and the broadcast `Prior` (``MeanClient.at_home``).

Belongs here: Gaussian means and what all private models share.  Rates are in ``rates``, regressions in ``regression``, a
trusted server with raw means in ``central``.
"""

import json
import warnings
from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np

from estimators.model import ClientModel
from estimators.private.reports import MeanReport
from estimators.validation import choice, finite, nonnegative, probability

__all__ = ["Prior", "PrivateGaussianMeans", "PrivateModel", "guarantee_lines", "read"]


@dataclass(frozen=True)
class Prior:
    """What the server broadcasts to clients: the prior's mean and its standard error, its variance, that of one row.

    >>> Prior.from_json(Prior(mu=1.0, mu_sd=0.1, tau2=2.0, sigma2=None).to_json())
    Prior(mu=1.0, mu_sd=0.1, tau2=2.0, sigma2=None)
    """

    mu: float
    mu_sd: float
    tau2: float
    sigma2: float | None = None

    def __post_init__(self):
        finite("mu", self.mu)
        nonnegative("mu_sd", self.mu_sd)
        nonnegative("tau2", self.tau2)
        if self.sigma2 is not None:
            nonnegative("sigma2", self.sigma2)

    def to_json(self):
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text):
        """Return the prior that `to_json` wrote."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ValueError(f"prior is not complete JSON: {error}") from None


def read(reports, kind):
    """Return the reports as a list, checked to be of one kind and from different clients."""
    reports = list(reports)
    wrong = next((r for r in reports if not isinstance(r, kind)), None)
    if wrong is not None:
        raise ValueError(f"reports must be {kind.__name__}s (see read_reports), got {type(wrong).__name__}")
    if len(reports) < 2:
        raise ValueError(f"reports must come from at least two clients to learn from, got {len(reports)}")
    names = Counter(r.client for r in reports if r.client)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise ValueError(f"reports hold two from the client {twice[0]!r}; keep one")
    return reports


def guarantee_lines(guarantees):
    """Describe the guarantees of many clients, one line for each kind with the number of clients.

    >>> from estimators.accounting import Guarantee
    >>> guarantee_lines([Guarantee(1.0, 0.0, "row", "client", "answers")] * 3)
    ['3 clients: eps=1, delta=0 (answers): one row of a client takes any other value; the numbers of rows are public']
    """
    return [f"{times} client{'s' if times > 1 else ''}: {g}" for g, times in Counter(guarantees).most_common()]


class PrivateModel(ClientModel):
    """What private models share: the guarantees of the reports they were fitted to.

    Attributes
    ----------
    guarantees_ : tuple of Guarantee, one per client; guarantee_ : Counter of them, kinds and numbers of clients.
    clients_ : tuple of the clients' names.
    """

    def keep(self, reports):
        """Keep the reports' public parts."""
        self.clients_ = tuple(r.client for r in reports)
        self.guarantees_ = tuple(r.guarantee for r in reports)
        self.guarantee_ = Counter(self.guarantees_)
        self.reports_ = reports


class PrivateGaussianMeans(PrivateModel):
    """Empirical Bayes for the clients' means from private reports, with the noise of each report taken into account.

    Model: theta_i ~ N(mu, tau2); report_i has mean theta_i and variance sigma2 / n_i + noise_i + rounding_i, of which the
    last two are known; the noise is treated as normal.  With equal reports this is the noise of Theorem 2
    (generative:thm2:a, generative:thm2:mse).  Clipping bias is not corrected: choose bounds with `a_priori_bounds`.

    Parameters
    ----------
    prior : "marginal-likelihood", "reml" or "moments", as in ``GaussianMeans``.
    sigma2 : variance >= 0 of one row, the same for all clients, or None to take it from the clients' reported variances.

    Attributes
    ----------
    mu_, mu_sd_, tau2_, sigma2_ : the fitted parameters; prior_ : the `Prior` to broadcast.
    variances_ : variance of each report about its client's mean; noise_variances_ : of it, the privacy noise.
    posterior_mean_, posterior_sd_, weights_, log_likelihood_, converged_, n_iter_ : as in ``GaussianMeans``.
    guarantees_, guarantee_, clients_ : see ``PrivateModel``.

    >>> import numpy as np
    >>> from estimators.private import MeanClient
    >>> rng = np.random.default_rng(0)
    >>> client = lambda: MeanClient(bounds=(-6.0, 6.0), eps=1.0, delta=1e-5)
    >>> reports = [client().report(rng.normal(rng.normal(), 1.0, 50), rng) for _ in range(100)]
    >>> model = PrivateGaussianMeans(sigma2=1.0).fit(reports)
    >>> round(model.mu_, 1), round(model.tau2_, 1), round(float(model.noise_variances_[0]), 2)
    (-0.0, 0.5, 0.8)
    """

    def __init__(self, prior="marginal-likelihood", sigma2=None):
        self.prior = prior
        self.sigma2 = sigma2

    def fit(self, reports):
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        reports : list of MeanReport, at least two; they may differ in n, noise, bounds and guarantee.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument, also if sigma2 is neither given nor reported by any client.
        """
        from estimators import GaussianMeans

        choice("prior", self.prior, ("marginal-likelihood", "reml", "moments"))
        reports = read(reports, MeanReport)
        self.sigma2_ = pooled_sigma2(reports) if self.sigma2 is None else float(nonnegative("sigma2", self.sigma2))
        n = np.array([r.n for r in reports], float)
        self.noise_variances_ = np.array([r.noise_variance for r in reports])
        self.variances_ = self.sigma2_ / n + self.noise_variances_ + np.array([r.rounding_variance for r in reports])
        inner = GaussianMeans(prior=self.prior).fit([r.estimate for r in reports], self.variances_)
        for name in ("posterior_mean_", "posterior_sd_", "weights_"):
            setattr(self, name, getattr(inner, name))
        self.mu_, self.mu_sd_, self.tau2_ = float(inner.mu_), float(inner.mu_sd_), float(inner.tau2_)
        self.log_likelihood_, self.converged_, self.n_iter_ = inner.log_likelihood_, inner.converged_, inner.n_iter_
        self.prior_ = Prior(self.mu_, self.mu_sd_, self.tau2_, self.sigma2_)
        self.keep(reports)
        return self

    def prior_summary(self):
        """Return the fitted prior as plain values."""
        self.require_fit()
        return {"family": "normal", **asdict(self.prior_), "guarantees": guarantee_lines(self.guarantees_)}

    def posterior_cdf(self, t, strict=False):
        """Return P(theta_i <= t) given the reports, one entry per client; `strict` makes no difference to a normal law."""
        from scipy.special import ndtr

        self.require_fit()
        away = finite("t", t) - self.posterior_mean_
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(self.posterior_sd_ > 0, away / self.posterior_sd_, np.where(away >= 0, np.inf, -np.inf))
        return ndtr(z)

    def posterior_quantile(self, q):
        """Return the q-quantile of each client's posterior."""
        from scipy.special import ndtri

        self.require_fit()
        return self.posterior_mean_ + self.posterior_sd_ * ndtri(probability("q", q))

    def draw(self, generator):
        """Return new true means from the fitted prior and new reports of the same design, with normal noise."""
        from dataclasses import replace

        self.require_fit()
        size = len(self.reports_)
        truth = self.mu_ + np.sqrt(self.tau2_) * generator.standard_normal(size)
        estimates = truth + np.sqrt(self.variances_) * generator.standard_normal(size)
        drawn = [replace(r, estimate=float(e)) for r, e in zip(self.reports_, estimates, strict=True)]
        return truth, (drawn,)


def pooled_sigma2(reports):
    """Return the variance of one row from the clients' noisy variances, weighted by what is known of their errors."""
    told = [r for r in reports if r.variance is not None]
    if not told:
        raise ValueError("sigma2 must be given, or reported by clients with variance_share > 0")
    values = np.array([r.variance for r in told])
    noise = np.array([r.variance_noise for r in told])
    freedom = np.array([r.n - 1.0 for r in told])
    pilot = np.median(values)
    spread = noise + 2 * max(pilot, 0.0) ** 2 / freedom
    weights = np.ones(len(told)) if (spread == 0).any() else spread.min() / spread
    pooled = float(np.sum(weights * values) / np.sum(weights))
    if pooled < 0:
        warnings.warn(
            "the reported variances average to less than 0, so their noise hides sigma2: 0 is used; give sigma2, or report "
            "variances with a larger eps",
            stacklevel=3,
        )
    return max(pooled, 0.0)
