"""Counts of clients about whom something is known beforehand: priors whose mean follows covariates.

Belongs here: `BetaBinomialRegression` (log-odds linear in covariates) and `GammaPoissonRegression` (logarithm of the rate).
The same priors without covariates, averaged over what is unknown about them, are in ``beta_binomial`` and
``gamma_poisson``.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np

from estimators.counts import averaged_regression, beta_binomial, gamma_poisson
from estimators.counts.conjugate import from_zero
from estimators.model import ClientModel
from estimators.normal_means.meta_regression import Design, left_out, read_covariates
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.inversion import quantiles
from estimators.numerics.limits import ratio
from estimators.numerics.spread_law import log_density
from estimators.numerics.validation import choice, finite, fraction, nonnegative, paired, probability, single

__all__ = ["BetaBinomialRegression", "GammaPoissonRegression"]

CONCENTRATED = 16.0  # log of the concentration from which on clients of equal covariates are equal
UNITS = 1e140  # the largest pooled rate, and one over the least, whose square a variance can hold


class CountRegression(ClientModel):
    """What both models share: the search for the likeliest prior, and posteriors of its conjugate laws.

    A subclass has `value(eta, log_phi)`, the log-likelihood of each client with its slopes in both, and `shapes()`, the two
    parameters of each client's prior.
    """

    mu_: float
    beta_: Floats
    concentration_: float
    prior_mean_: Floats
    weights_: Floats
    link: str
    stated_concentration_: float
    _spread_seen = True  # whether counts can tell how far clients of equal covariates differ
    laws_: tuple[Floats, Floats, Floats] | None

    def __init__(self, prior: Literal["bayes", "marginal-likelihood"] = "bayes") -> None:
        self.prior = prior

    def search(self, covariates: ArrayLike | None, heard: Bools, guess: float) -> None:
        """Set the likeliest coefficients and concentration."""
        from scipy.optimize import minimize

        choice("prior", self.prior, ("bayes", "marginal-likelihood"))
        m = heard.size
        self.covariates_ = None if covariates is None else read_covariates(covariates, m)
        Z = np.zeros((m, 0)) if self.covariates_ is None else self.covariates_
        self._design = design = Design.read(Z, heard, True)
        p = design.basis.shape[1]
        if heard.sum() < p + 1:
            raise ValueError(
                f"covariates leave {p} coefficients to learn, the intercept included, which needs {p + 1} clients with data "
                f"or more, and there are {heard.sum()}; give fewer covariates, or more clients"
            )
        if not design.kept.all():
            warnings.warn(
                f"{left_out(design.kept)} left out: constant, or a combination of the covariates before and the intercept; "
                "estimates are the same without, the slope is unknown",
                stacklevel=4,
            )
        basis = design.basis * np.sqrt(heard.sum())  # columns of mean square 1
        if separated(basis[heard], *(side[heard] for side in self.extremes())):
            raise ValueError(
                "covariates separate clients with nothing but zeros (or nothing but successes) from the others, so that no "
                "slope is most likely; leave out the covariate that does, or pool clients"
            )

        def loss(t):
            value, by_eta, by_log = self.value(basis @ t[:-1], t[-1])
            return -np.sum(value[heard]), -np.append(basis[heard].T @ by_eta[heard], np.sum(by_log[heard]))

        start = np.linalg.lstsq(basis[heard], np.full(heard.sum(), guess), rcond=None)[0]
        bounds = [(None, None)] * p + [(-12.0, CONCENTRATED)]
        options = {"maxiter": 2000, "maxfun": 5000, "gtol": 1e-9, "ftol": 0.0, "maxcor": 30}
        tries = [
            minimize(loss, np.append(start, log_phi), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            for log_phi in (2.0, 12.0)
        ]
        best = min(tries, key=lambda found: found.fun)
        eta = basis @ best.x[:-1]
        hessian = np.array([
            (loss(best.x + step)[1] - loss(best.x - step)[1]) / 2e-5 for step in 1e-5 * np.eye(p + 1)
        ])  # fmt: skip
        free = np.arange(p + 1) < p + (best.x[-1] < CONCENTRATED and self._spread_seen)
        slope = np.where(free, loss(best.x)[1], 0.0)
        self.converged_, self.n_iter_ = bool(np.abs(slope).max() < 1e-4 * max(1, m) ** 0.5), int(best.nit)
        if not self.converged_:
            warnings.warn("the search for the prior did not converge; do not use the fit", RuntimeWarning, stacklevel=4)
        self.concentration_ = float("inf") if best.x[-1] >= CONCENTRATED else float(np.exp(best.x[-1]))
        if not self._spread_seen:
            self.concentration_ = float("nan")
        self._basis_scale = np.sqrt(heard.sum())
        self._coefficients = best.x[:-1]
        self._covariance = np.linalg.inv((hessian + hessian.T)[np.ix_(free, free)] / 2)[:p, :p]
        slopes = design.slopes * self._basis_scale
        found = slopes @ best.x[:-1]
        errors = np.sqrt(np.einsum("jp,pq,jq->j", slopes, self._covariance, slopes))
        errors[1:][~design.kept] = np.inf
        self.mu_, self.beta_ = float(found[0]), found[1:]
        self.mu_sd_, self.beta_sd_ = float(errors[0]), errors[1:]
        self.log_likelihood_ = -float(best.fun)
        self._eta = eta
        self.prior_mean_ = self.inverse(eta)

    def value(self, eta: Floats, log_phi: float) -> tuple[Floats, Floats, Floats]:
        """Return each client's log-likelihood and its slopes in eta and in log_phi."""
        raise NotImplementedError

    def extremes(self) -> tuple[Bools, Bools]:
        """Return whose counts are the likelier the lower their prior's mean is, and whose the higher it is."""
        raise NotImplementedError

    def inverse(self, eta: Floats) -> Floats:
        """Return the prior's mean from its linear predictor."""
        raise NotImplementedError

    def prior_variance(self) -> Floats:
        """Return the variance of each client's prior."""
        raise NotImplementedError

    def centre_over(self, nodes: averaged_regression.Nodes, rows: Floats) -> Floats:
        """Return new clients' mean over what is left open about the prior, for rows of linear predictors."""
        return averaged_regression.mean_over(nodes, rows, self.inverse)

    def prior_shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return both parameters of the conjugate prior of this mean and concentration."""
        raise NotImplementedError

    def shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return both parameters of clients' conjugate posteriors, of a prior's means and concentration."""
        raise NotImplementedError

    def moments(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of the conjugate law of these parameters."""
        raise NotImplementedError

    def alike(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the parameters of the conjugate law of this mean and variance."""
        raise NotImplementedError

    def own_weights(self, phi: float | Floats) -> Floats:
        """Return the weights of own estimates in posterior means, of a concentration."""
        raise NotImplementedError

    def log_location(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return the log density of a client's linear predictor before counts are seen, and its slope."""
        return np.zeros(eta.shape), np.zeros(eta.shape)

    def set_posterior(self, size: float, heard: Bools) -> None:
        """Set posterior means, sds and own weights, averaged over priors unless the likeliest is taken for true.

        `size` : what rho = 1 / concentration is times, to be the variance between clients over that of own estimates.
        """
        self.laws_ = self._nodes = None
        self.stated_concentration_ = self.concentration_
        if self.prior == "bayes":
            self.average(size, heard)
            return
        self.weights_ = self.own_weights(self.concentration_)
        if np.isinf(self.concentration_):
            warnings.warn(
                "clients of equal covariates differ by no more than noise, and prior='marginal-likelihood' takes that for "
                "true: their intervals have no width; prior='bayes' counts what they leave open",
                stacklevel=4,
            )
            self.posterior_mean_, self.posterior_sd_ = self.prior_mean_.copy(), np.zeros(self.prior_mean_.size)
        else:
            first, second = self.shapes(self.prior_mean_, self.concentration_)
            self.laws_ = np.ones(1), first[None], second[None]
            self.posterior_mean_, variance = self.moments(first, second)
            self.posterior_sd_ = np.sqrt(variance)

    def average(self, size: float, heard: Bools) -> None:
        """Set `laws_`, weights (k,) and parameters (k, m) of the conjugate laws whose average each client's posterior is."""
        basis = self._design.basis * self._basis_scale
        self._size, own = size, heard / heard.sum()

        def at(eta, log_rho):
            value, slope, _ = self.value(eta, -log_rho)
            before, by_eta = self.log_location(eta)
            return np.where(heard, value, 0.0) + own * before, np.where(heard, slope, 0.0) + own * by_eta

        def shapes(eta, log_rho):
            return self.shapes(self.inverse(eta), np.exp(-log_rho))

        # The law of sqrt(rho) is that of `BetaBinomial` and `GammaPoisson`; rho of its density makes it one of log rho.
        self._nodes = nodes = averaged_regression.average(
            at, lambda log_rho: log_rho + float(log_density(size * np.exp(log_rho))), basis, self._coefficients, size
        )
        self.prior_mean_ = self.centre_over(nodes, basis)
        self.laws_ = averaged_regression.spread_over(nodes, basis, size, shapes, self.moments, self.alike)
        mean, variance = self.moments(*self.laws_[1:])
        self.posterior_mean_ = self.laws_[0] @ mean
        self.posterior_sd_ = np.sqrt(self.laws_[0] @ (variance + (mean - self.posterior_mean_) ** 2))
        self.weights_ = np.einsum("k,km->m", nodes.weights, [self.own_weights(phi) for phi in np.exp(-nodes.log_rho)])
        share = float(nodes.weights @ (size / (size + np.exp(-nodes.log_rho))))
        self.stated_concentration_ = size * (1 / share - 1)

    def law_cdf(self, first: Floats, second: Floats, t: Floats | float) -> Floats:
        """Return the distribution function of the conjugate law."""
        raise NotImplementedError

    def law_density(self, first: Floats, second: Floats, t: Floats) -> Floats:
        """Return the density of the conjugate law."""
        raise NotImplementedError

    def law_quantile(self, first: Floats, second: Floats, q: float) -> Floats:
        """Return the quantile of the conjugate law."""
        raise NotImplementedError

    def law_draws(self, first: Floats, second: Floats, generator: np.random.Generator) -> Floats:
        """Return draws from the conjugate law."""
        raise NotImplementedError

    def posterior_cdf(self, t: float, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        self.require_fit()
        t = finite("t", t)  # pyright: ignore[reportAssignmentType]
        if self.laws_ is None:
            return np.where(self.prior_mean_ < t if strict else self.prior_mean_ <= t, 1.0, 0.0)
        weights, first, second = self.laws_
        return weights @ self.law_cdf(first, second, t)

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client; q in [0, 1]."""
        self.require_fit()
        q = single(probability, "q", q)
        if self.laws_ is None:
            return self.prior_mean_.copy()
        return self.mixture_quantile(self.laws_, q)

    def mixture_quantile(self, laws: tuple[Floats, Floats, Floats], q: float) -> Floats:
        """Return quantiles (m,) of averages of conjugate laws, given as `laws_` is."""
        weights, first, second = laws
        each = self.law_quantile(first, second, q)
        if weights.size == 1 or q in (0.0, 1.0):
            return from_zero(each[0])
        found = quantiles(
            lambda t, rows: weights @ self.law_cdf(first[:, rows], second[:, rows], t),
            lambda t, rows: [weights @ self.law_density(first[:, rows], second[:, rows], t)],
            q, from_zero(each.min(axis=0)), each.max(axis=0), weights @ each,
        )  # fmt: skip
        return from_zero(found)

    @property
    def independent(self) -> bool:
        """Whether the prior is taken for true."""
        self.require_fit()
        return self._nodes is None

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true values given the data, of one prior each."""
        self.require_fit()
        shape = size, self.prior_mean_.size
        if self.laws_ is None:
            return np.broadcast_to(self.prior_mean_, shape).copy()
        if self._nodes is None:
            _, first, second = self.laws_
            return self.law_draws(np.broadcast_to(first[0], shape), np.broadcast_to(second[0], shape), generator)
        basis = self._design.basis * self._basis_scale
        log_rho, weights, means, roots = self._nodes
        which = np.sort(generator.choice(weights.size, size, p=weights))
        b = means[which] + np.einsum("spq,sq->sp", roots[which], generator.standard_normal((size, basis.shape[1])))
        mean = self.inverse(np.einsum("mp,sp->sm", basis, b))
        return self.law_draws(*self.shapes(mean, np.exp(-log_rho[which])[:, None]), generator)

    def atoms(self) -> Floats:
        """Return the prior's means if it is taken for true that clients of equal covariates do not differ."""
        self.require_fit()
        return np.unique(self.prior_mean_) if self.laws_ is None else np.zeros(0)

    def new_rows(self, covariates: ArrayLike | None) -> tuple[Floats, Bools]:
        """Return rows (k, p) of new clients' linear predictors, and whose covariates break a rule of the fitted ones."""
        if (self.covariates_ is None) != (covariates is None):
            raise ValueError("covariates must be given if the model was fitted with covariates, and only then")
        Z = np.zeros((1, 0)) if covariates is None else read_covariates(covariates, None, self._design.kept.size)
        rows, blind = self._design.rows(Z)
        return rows * self._basis_scale, blind

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, covariates: ArrayLike | None = None
    ) -> float | Floats:
        """Return the mean of a new client's true value: for covariates (k, q) an array (k,), a number if the fit had none.

        For "bayes" it is averaged over what all clients leave open about the prior; of rates, whose average is infinite
        since no data exclude the widest priors, it is the median of what the mean may be.
        """
        self.require_fit()
        rows, _ = self.new_rows(covariates)
        found = self.inverse(rows @ self._coefficients) if self._nodes is None else self.centre_over(self._nodes, rows)
        return float(found[0]) if covariates is None else found

    def new_client_interval(self, covariates: ArrayLike | None = None, level: float = 0.95) -> Floats:
        """Return the ends of intervals for the true values of new clients, array (k, 2), or (2,) without covariates.

        For "bayes" they count what all clients leave open about the prior; else the likeliest prior is taken for true.
        Covariates that break a rule which held for all clients of the fit (of columns left out) tell nothing: such an
        interval is all of the parameter's range.
        """
        self.require_fit()
        level = single(fraction, "level", level)
        tails = (1 - level) / 2, (1 + level) / 2
        rows, blind = self.new_rows(covariates)
        if self._nodes is None:
            mean, phi = self.inverse(rows @ self._coefficients), self.concentration_
            if np.isinf(phi):
                ends = np.column_stack([mean, mean])
            else:
                first, second = self.prior_shapes(mean, phi)
                laws = np.ones(1), first[None], second[None]
                ends = np.column_stack([self.mixture_quantile(laws, q) for q in tails])
        else:
            ends = self.averaged_ends(self._nodes, rows, tails)
        ends[blind] = self.law_quantile(np.ones(1), np.ones(1), 0.0)[0], self.law_quantile(np.ones(1), np.ones(1), 1.0)[0]
        return ends[0] if covariates is None else ends

    def averaged_ends(self, nodes: averaged_regression.Nodes, rows: Floats, tails: tuple[float, float]) -> Floats:
        """Return quantiles (k, 2) of new clients' true values, averaged over the prior, for rows of linear predictors."""

        def shapes(eta, log_rho):
            return self.prior_shapes(self.inverse(np.clip(eta, *self.reach())), np.exp(-log_rho))

        ends = np.empty((len(rows), 2))
        far = averaged_regression.coefficient_laws(nodes, rows)[2].max(axis=1) > averaged_regression.FAR
        if not far.all():
            laws = averaged_regression.spread_over(nodes, rows[~far], self._size, shapes, self.moments, self.alike)
            ends[~far] = np.column_stack([self.mixture_quantile(laws, q) for q in tails])
        for i in np.flatnonzero(far):
            laws = averaged_regression.new_laws(nodes, rows[i], shapes)
            ends[i] = [self.wide_quantile(laws, q) for q in tails]
        return ends

    def wide_quantile(self, laws: tuple[Floats, Floats, Floats], q: float) -> float:
        """Return a quantile of an average of conjugate laws, (k, 1) each, that may be hundreds of powers of ten apart."""
        weights, first, second = laws
        logs = np.log(np.clip(self.law_quantile(first, second, q), 1e-300, 1e300))

        def density(u, rows):
            return [weights @ (self.law_density(first, second, np.exp(u)) * np.exp(u))]

        with np.errstate(over="ignore"):  # far beyond a law's end
            found = quantiles(
                lambda u, rows: weights @ self.law_cdf(first, second, np.exp(u)),
                density, q, logs.min(axis=0), logs.max(axis=0), weights @ logs,
            )  # fmt: skip
        return float(np.exp(found[0])) if found[0] > -690.0 else 0.0

    def reach(self) -> tuple[float, float]:
        """Return the least and the largest linear predictor whose mean is told from none and from all."""
        return -36.0, 36.0

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values; "sd" is that of clients of equal covariates, on average.

        For "bayes" all is averaged over what clients leave open about the prior: the mean of new clients with these
        covariates, intercept and slopes with their posterior sds as standard errors; concentration and sd are those of the
        prior that borrows as much as the average does.  The likeliest values are in the attributes.
        """
        self.require_fit()
        centres, errors = self.coefficients()
        return {
            "family": self.family,
            "link": self.link,
            "found_by": self.prior,
            "mean": float(self.prior_mean_.mean()),
            "sd": float(np.sqrt(self.prior_variance().mean())),
            "concentration": self.stated_concentration_,
            "intercept": float(centres[0]),
            "intercept_standard_error": float(errors[0]),
            "slopes": centres[1:].tolist(),
            "slope_standard_errors": errors[1:].tolist(),
        }

    def coefficients(self) -> tuple[Floats, Floats]:
        """Return intercept and slopes, and their standard errors, as the prior of `prior_summary` has them."""
        if self._nodes is None:
            return np.array([self.mu_, *self.beta_]), np.array([self.mu_sd_, *self.beta_sd_])
        weights, means, sds = averaged_regression.coefficient_laws(self._nodes, self._design.slopes * self._basis_scale)
        centres = means @ weights
        errors = np.sqrt((sds**2 + (means - centres[:, None]) ** 2) @ weights)
        errors[1:][~self._design.kept] = np.inf
        return centres, errors

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" (the intercept) and "slopes", on the scale of the link, and for a "new client".

        For "bayes" they are of the averages' posterior, else Wald's.  "new client" is where the true value of a client
        without data lies, on its own scale; with covariates see `new_client_interval`.
        """
        from scipy.special import ndtri

        self.require_fit()
        level = single(fraction, "level", level)
        q = np.array([(1 - level) / 2, (1 + level) / 2])
        if self._nodes is None:
            centres, errors = self.coefficients()
            ends = centres[:, None] + errors[:, None] * ndtri(q)
        else:
            told = np.append(True, self._design.kept)
            laws = averaged_regression.coefficient_laws(self._nodes, self._design.slopes[told] * self._basis_scale)
            ends = np.tile([-np.inf, np.inf], (told.size, 1))
            ends[told] = np.column_stack([normal_mixture.quantile(tail, *laws) for tail in q])
        pairs = [(float(low), float(high)) for low, high in ends]
        found: dict[str, tuple[float, float] | list[tuple[float, float]]] = {"mean": pairs[0], "slopes": pairs[1:]}
        if self.covariates_ is None:
            low, high = self.new_client_interval(None, level)
            found["new client"] = float(low), float(high)
        return found

    family = ""


class BetaBinomialRegression(CountRegression):
    """Counts out of trials with covariates: each client's probability is Beta around what its covariates predict.

    Model: x_i ~ Binomial(n_i, p_i), p_i ~ Beta(m_i phi, (1 - m_i) phi), logit m_i = mu + z_i beta.  The marginal likelihood
    is exact, as glmmTMB's ``betabinomial``.

    Parameters
    ----------
    prior : "bayes" averages posteriors over what all clients leave open about phi and the coefficients: the law of phi is
        that of ``BetaBinomial``, coefficients are normal about their mode for each phi (``averaged_regression``).
        `predict`, `prior_summary`, intervals and prior_mean_ are of that average;
        "marginal-likelihood" takes the likeliest prior for true: with few clients intervals are too short, and of no width
        where clients of equal covariates happen to differ by no more than noise.

    Attributes
    ----------
    mu_, mu_sd_, beta_, beta_sd_ : likeliest intercept and slopes of the log-odds, with standard errors; those that
        posteriors use are in `prior_summary`.
    concentration_ : phi, inf where clients of equal covariates do not differ beyond binomial noise, NaN where one trial
        each cannot tell.
    stated_concentration_ : phi of the prior that borrows as much as posteriors do.
    prior_mean_ : array (m,) of m_i, averaged.  posterior_mean_, posterior_sd_, weights_ = n_i / (n_i + phi), averaged;
        log_likelihood_, converged_, n_iter_ : as in ``BetaBinomial``.

    >>> model = BetaBinomialRegression().fit([0, 2, 5, 9, 9], 10, covariates=[0.0, 1.0, 2.0, 3.0, 4.0])
    >>> model.beta_.round(2).tolist(), model.posterior_mean_.round(2).tolist()
    ([1.59], [0.04, 0.2, 0.49, 0.84, 0.91])
    """

    family, link = "beta", "logit"

    @paired
    def fit(self, x: ArrayLike, n: ArrayLike, covariates: ArrayLike | None = None) -> Self:
        """Fit to counts x (m,) out of n (m,) or one number, and covariates (m, q) or (m,); return self.

        Raises
        ------
        ValueError
            Naming the argument; where all counts are 0 or all are successes; where covariates separate such clients.
        """
        x, n = beta_binomial.read_counts(x, n)
        self._x, self._n = x.astype(float), n.astype(float)
        heard = n > 0
        total = self._x.sum() / max(self._n.sum(), 1.0)
        if not 0 < total < 1:
            what = "successes" if total else "zeros"
            raise ValueError(
                f"x holds {what} only, so that no intercept is most likely; "
                "without covariates BetaBinomial('marginal-likelihood') fits"
            )
        self._spread_seen = bool(n.max() > 1)
        if not self._spread_seen:
            one = "n is 1 for all clients, and one trial each cannot tell how far clients of equal covariates differ"
            if self.prior == "marginal-likelihood":
                raise ValueError(f"{one}: no spread is likeliest; use prior='bayes', or pool clients of equal covariates")
            warnings.warn(f"{one}: what is said of it is the hyperprior's", stacklevel=3)
        self.search(covariates, heard, float(np.log(total / (1 - total))))
        self.set_posterior(float(self._n[heard].mean()), heard)
        return self

    def value(self, eta: Floats, log_phi: float) -> tuple[Floats, Floats, Floats]:
        """Return each client's log-likelihood and its slopes in eta and in log_phi."""
        from scipy.special import digamma, expit, gammaln

        x, n, phi = self._x, self._n, np.exp(log_phi)
        mean = np.clip(expit(eta), 1e-15, 1 - 1e-15)
        a, b = mean * phi, np.maximum(expit(-eta), 1e-15) * phi
        value = rise(a, x) + rise(b, n - x) - rise(np.full(n.shape, phi), n)
        value += gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
        A, B = digamma(a + x) - digamma(a), digamma(b + (n - x)) - digamma(b)
        by_phi = mean * A + (1 - mean) * B - digamma(phi + n) + digamma(phi)
        return value, phi * (A - B) * mean * (1 - mean), phi * by_phi

    def extremes(self) -> tuple[Bools, Bools]:
        """Return who has failures only, and who successes only."""
        return self._x == 0, self._x == self._n

    def inverse(self, eta: Floats) -> Floats:
        """Return the prior's mean from its linear predictor."""
        from scipy.special import expit

        return expit(eta)

    def prior_variance(self) -> Floats:
        """Return the variance of each client's prior."""
        return self.prior_mean_ * (1 - self.prior_mean_) / (1 + self.stated_concentration_)

    def log_location(self, eta: Floats) -> tuple[Floats, Floats]:
        """Return the log density of log-odds of a uniform mean, and its slope."""
        from scipy.special import expit

        return -np.logaddexp(0, eta) - np.logaddexp(0, -eta), 1 - 2 * expit(eta)

    def prior_shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return alpha and beta of the prior."""
        mean = np.clip(mean, 1e-300, 1 - 1e-16)
        return mean * phi, (1 - mean) * phi

    def shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return alpha and beta of clients' posteriors."""
        alpha, beta = self.prior_shapes(mean, phi)
        return alpha + self._x, beta + (self._n - self._x)

    def moments(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of Beta(first, second)."""
        mean, rest = first / (first + second), second / (first + second)
        return mean, mean * rest / (first + second + 1)

    def alike(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return alpha and beta of the Beta law of this mean and variance."""
        total = np.maximum(mean * (1 - mean) / variance - 1, 1e-300)
        return mean * total, (1 - mean) * total

    def own_weights(self, phi: float | Floats) -> Floats:
        """Return n / (n + phi)."""
        return self._n / (self._n + phi)

    def law_cdf(self, first: Floats, second: Floats, t: Floats | float) -> Floats:
        """Return the distribution function of Beta(first, second)."""
        from scipy.special import betainc

        return betainc(first, second, np.clip(t, 0.0, 1.0))

    def law_density(self, first: Floats, second: Floats, t: Floats) -> Floats:
        """Return the density of Beta(first, second)."""
        from scipy.special import betaln, xlog1py, xlogy

        with np.errstate(over="ignore", invalid="ignore"):  # at the ends, where a density may be infinite
            return np.exp(xlogy(first - 1, t) + xlog1py(second - 1, -t) - betaln(first, second))

    def law_quantile(self, first: Floats, second: Floats, q: float) -> Floats:
        """Return the quantile of Beta(first, second)."""
        from scipy.special import betaincinv

        return betaincinv(first, second, q)

    def law_draws(self, first: Floats, second: Floats, generator: np.random.Generator) -> Floats:
        """Return draws from Beta(first, second)."""
        return generator.beta(first, second)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own shares, NaN for those without trials."""
        self.require_fit()
        x = self._x if arguments is None else np.asarray(arguments[0])
        return ratio(x, self._n)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Any, ...]]:
        """Return (truth, (x, n[, covariates])) from the fitted prior."""
        self.require_fit()
        mean, phi = self.prior_mean_, self.stated_concentration_
        if truth is None:
            truth = generator.beta(mean * phi, (1 - mean) * phi) if np.isfinite(phi) else mean
        truth = probability("truth", self.read_truth(truth, mean.shape))
        data = generator.binomial(self._n.astype(int), truth), self._n
        return truth, data if self.covariates_ is None else (*data, self.covariates_)


class GammaPoissonRegression(CountRegression):
    """Numbers of events with covariates: each client's rate is Gamma around what its covariates predict.

    Model: x_i ~ Poisson(e_i theta_i), theta_i ~ Gamma(shape, mean m_i), log m_i = mu + z_i beta, so that x_i is negative
    binomial (glmmTMB's ``nbinom2``, MASS' ``glm.nb``).  The marginal likelihood is exact.

    Parameters
    ----------
    prior : "bayes" or "marginal-likelihood", as for `BetaBinomialRegression`; the law of the shape is that of
        ``GammaPoisson``.

    Attributes
    ----------
    As for `BetaBinomialRegression`, of the logarithm of the rate; concentration_ is the shape, weights_ are
    e_i m_i / (e_i m_i + shape).  With "bayes" prior_mean_ is the median of what m_i may be, since its mean is infinite.

    >>> model = GammaPoissonRegression().fit([0, 2, 5, 9, 30], 1.0, covariates=[0.0, 1.0, 2.0, 3.0, 4.0])
    >>> model.beta_.round(2).tolist(), model.posterior_mean_.round(1).tolist()
    ([1.01], [0.5, 1.6, 4.3, 9.7, 29.9])
    """

    family, link = "gamma", "log"
    _log_rate = 0.0  # of all clients together

    @paired
    def fit(self, x: ArrayLike, exposure: ArrayLike = 1.0, covariates: ArrayLike | None = None) -> Self:
        """Fit to counts x (m,) over exposures (m,) or one number, and covariates (m, q) or (m,); return self.

        Raises
        ------
        ValueError
            Naming the argument; where all counts are 0; where covariates separate such clients from the others; where fewer
            clients have events than there are coefficients, over which "bayes" has nothing to average.
        """
        x, e = gamma_poisson.read_counts(x, exposure)
        self._x, self._e = x.astype(float), np.broadcast_to(e, x.shape).astype(float)
        heard = self._e > 0
        if x.sum() == 0:
            raise ValueError(
                "x holds zeros only, so that no intercept is most likely; "
                "without covariates GammaPoisson('marginal-likelihood') fits"
            )
        rate = x.sum() / self._e.sum()
        if not 1 / UNITS < rate < UNITS:
            raise ValueError(f"exposure is in a unit of which all clients have {rate:.1g} events each; change its unit")
        self._log_rate = float(np.log(rate))
        self.search(covariates, heard, self._log_rate)
        some, p = int(np.count_nonzero(self._x)), self._coefficients.size
        if self.prior == "bayes" and some < p:  # the wider the prior, the more coefficients do: without end
            raise ValueError(
                f"x holds events of {some} client{'s' * (some != 1)} only, and prior='bayes' needs as many as there are "
                f"coefficients to learn, {p} with the intercept; leave out covariates, pool clients, or use "
                "'marginal-likelihood'"
            )
        self.set_posterior(float(self._x[heard].mean()), heard)
        if self._nodes is not None:
            self.posterior_mean_[~heard] = self.posterior_sd_[~heard] = np.inf  # as of `GammaPoisson`: see `centre_over`
        return self

    def value(self, eta: Floats, log_phi: float) -> tuple[Floats, Floats, Floats]:
        """Return each client's log-likelihood and its slopes in eta and in log_phi."""
        from scipy.special import digamma, gammaln, xlogy

        x, k = self._x, np.exp(log_phi)
        m = self._e * np.exp(np.clip(eta, self._log_rate - 50.0, self._log_rate + 50.0))  # whatever the exposures' unit
        value = rise(np.full(x.shape, k), x) - x * np.log(k) - gammaln(x + 1) + xlogy(x, m) - (k + x) * np.log1p(m / k)
        by_k = digamma(k + x) - digamma(k) - np.log1p(m / k) + (m - x) / (k + m)
        return value, k * (x - m) / (k + m), k * by_k

    def centre_over(self, nodes: averaged_regression.Nodes, rows: Floats) -> Floats:
        """Return the median of new clients' mean: the mean over all priors is infinite, however many clients there are."""
        return np.exp(normal_mixture.quantile(0.5, *averaged_regression.coefficient_laws(nodes, rows)))

    def reach(self) -> tuple[float, float]:
        """Return logarithms of the least and of the largest rate that are told from 0 and from infinity."""
        return -650.0, 650.0

    def extremes(self) -> tuple[Bools, Bools]:
        """Return who has no events, and nobody: no number of events is the largest."""
        return self._x == 0, np.zeros(self._x.shape, bool)

    def inverse(self, eta: Floats) -> Floats:
        """Return the prior's mean from its linear predictor."""
        return np.exp(np.minimum(eta, 700.0))  # of wide priors some nodes lie beyond all numbers

    def prior_variance(self) -> Floats:
        """Return the variance of each client's prior."""
        return self.prior_mean_**2 / self.stated_concentration_

    def prior_shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return shape and rate of the prior."""
        rate = phi / np.maximum(mean, 1e-300)
        return np.broadcast_to(phi, rate.shape), rate

    def shapes(self, mean: Floats, phi: float | Floats) -> tuple[Floats, Floats]:
        """Return shape and rate of clients' posteriors."""
        shape, rate = self.prior_shapes(mean, phi)
        return shape + self._x, rate + self._e

    def moments(self, first: Floats, second: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of Gamma(shape first, rate second)."""
        return first / second, first / second / second

    def alike(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return shape and rate of the Gamma law of this mean and variance."""
        return mean**2 / variance, mean / variance

    def own_weights(self, phi: float | Floats) -> Floats:
        """Return e m / (e m + phi)."""
        expected = self._e * self.prior_mean_
        return expected / (expected + phi)

    def law_cdf(self, first: Floats, second: Floats, t: Floats | float) -> Floats:
        """Return the distribution function of Gamma(shape first, rate second)."""
        from scipy.special import gammainc

        return gammainc(first, second * np.maximum(t, 0.0))

    def law_density(self, first: Floats, second: Floats, t: Floats) -> Floats:
        """Return the density of Gamma(shape first, rate second)."""
        from scipy.special import gammaln, xlogy

        with np.errstate(over="ignore"):  # at 0, where a density may be infinite
            return second * np.exp(xlogy(first - 1, second * t) - second * t - gammaln(first))

    def law_quantile(self, first: Floats, second: Floats, q: float) -> Floats:
        """Return the quantile of Gamma(shape first, rate second)."""
        from scipy.special import gammaincinv

        return gammaincinv(first, q) / second

    def law_draws(self, first: Floats, second: Floats, generator: np.random.Generator) -> Floats:
        """Return draws from Gamma(shape first, rate second)."""
        return generator.gamma(first) / second

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own rates, NaN for those without exposure."""
        self.require_fit()
        x = self._x if arguments is None else np.asarray(arguments[0])
        return ratio(x, self._e)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Any, ...]]:
        """Return (truth, (x, exposure[, covariates])) from the fitted prior."""
        self.require_fit()
        mean, k = self.prior_mean_, self.stated_concentration_
        if truth is None:
            truth = mean * generator.gamma(k, 1 / k, mean.size) if np.isfinite(k) else mean
        truth = nonnegative("truth", self.read_truth(truth, mean.shape))
        data = generator.poisson(self._e * truth), self._e
        return truth, data if self.covariates_ is None else (*data, self.covariates_)


def separated(basis: Floats, lowest: Bools, highest: Bools) -> bool:
    """Return whether some coefficients lower the means of `lowest` clients, raise those of `highest`, and move no others.

    Exactly then the likelihood has no maximum (Albert and Anderson 1984, Biometrika 71:1); by linear programming.

    >>> basis = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    >>> separated(basis, np.array([False, False, True]), np.zeros(3, bool)), separated(basis, *np.zeros((2, 3), bool))
    (True, False)
    """
    from scipy.optimize import linprog

    one_sided = lowest | highest
    # What moves nobody in between is left to try: nothing, where covariates of those between are of full rank.
    _, lengths, rows = np.linalg.svd(np.linalg.qr(basis[~one_sided], mode="r"))
    basis = basis @ rows[np.sum(lengths > 1e-9 * np.sqrt(len(basis))) :].T
    if not basis.shape[1]:
        return False
    signed = (np.where(highest, 1.0, -1.0)[:, None] * basis)[one_sided]
    best = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    return best.status == 0 and -best.fun > 1e-9 * len(basis)


def rise(a: Floats, x: Floats) -> Floats:
    """Return log(a (a + 1) ... (a + x - 1)), without cancellation where a is much larger than x.

    >>> rise(np.array([1e12, 2.0]), np.array([2.0, 3.0])).round(9).tolist()
    [55.262042232, 3.17805383]
    """
    from scipy.special import gammaln

    # Stirling's series about a + (x - 1) / 2 is beyond digits where a is this large.
    large = a > 1e3 * (1 + x)
    safe = np.where(large, 1.0, a)
    middle = np.where(large, a + (x - 1) / 2, 1.0)
    series = x * np.log(middle) - x * (x**2 - 1) / (24 * middle**2)
    return np.where(large, series, gammaln(safe + x) - gammaln(safe))
