"""Gaussian means with unequal known variances: a normal prior learnt from all clients, honest intervals for each.

Belongs here: the normal prior, whose variance is given, estimated, or integrated out.  Closed forms of risk and
James-Stein for equal variances are in ``gaussian``, a prior with a spike is in ``point_normal``, and how often
intervals hold the truth is measured in ``coverage``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Literal, NoReturn, Self

import numpy as np

from estimators.model import ClientModel
from estimators.normal_means.meta_regression import Design, Regression, left_out, read_covariates
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.quadrature import deviation, gauss
from estimators.numerics.units import LOG2, gaussian_unit, represented
from estimators.numerics.validation import choice, finite, nonnegative, paired, single

__all__ = ["GaussianMeans", "read_estimates"]

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments", "fixed")
BLOCK = 16384  # numbers in a work array; small ones stay in the processor's cache and cost no fresh memory
WIDE = 1 << 20  # numbers in a work array for compiled quantiles, which want many clients at a time
MANY = 8192  # clients from whom on compiled kernels are worth the time to load them
HUGE = 1e300  # stands for an infinite variance where the limit is the same
MANY_PAIRS = 2000  # clients from whom on what is unknown of the prior, of order one over their number, moves no pair
DEPTH = 22.0  # values of tau2 less than exp(-DEPTH) times as likely as the likeliest are left out
HYPERPRIORS = {"strawderman": 1.5, "flat-tau": 0.5, "flat-tau2": 0.0}
"""Laws of tau2 that "bayes" averages over, and the power a with which their density falls: as tau2^-a for large tau2."""


def read_estimates(estimates: ArrayLike, variances: ArrayLike) -> tuple[Floats, Floats]:
    """Return the estimates and their variances in (0, inf], one for each or one for all, checked."""
    y = finite("estimates", estimates)
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"estimates must be 1-d with one entry per client, got shape {y.shape}")
    v = nonnegative("variances", variances, infinite=True)
    if v.shape not in ((), y.shape):
        raise ValueError(f"variances must be one number or match estimates {y.shape}, got shape {v.shape}")
    if v.min() == 0:
        raise ValueError(
            "variances must be > 0, got 0.0; what is known exactly needs no estimate: leave such clients out, "
            "or pool the variance if it is 0 because few values happened to agree"
        )
    return y, v


class GaussianMeans(ClientModel):
    """Empirical Bayes for Gaussian means: learn N(mu, tau2) from all clients, then shrink each towards mu.

    Model: theta_i ~ N(mu, tau2) and estimate_i ~ N(theta_i, variance_i) with known variances, which may differ.  A
    client of infinite variance says nothing and gets what the others say.  Exact given the prior.  With equal
    variances the weights are those of generative:thm1:estimator.

    With covariates z_i, what is known of every client beforehand, theta_i ~ N(mu + z_i beta, tau2): the model of Fay and
    Herriot (1979, JASA 74:269), in medicine meta-regression (metafor's ``rma(mods=)``).  Each client is then shrunk
    towards what clients of the same covariates have on average, and tau2 is the variance that covariates do not explain.

    Parameters
    ----------
    prior : how tau2 is found.
        "bayes" does not settle on one tau2 but averages over all, under `hyperprior`, so that posteriors count what few
        clients leave unknown about it.  Use it unless you need one of the others; with many clients they agree;
        "marginal-likelihood" maximises the likelihood of the estimates (R ``ebnm``'s "normal" with mode estimated,
        metafor's "ML");
        "reml" the restricted likelihood, which accounts for mu being estimated;
        "moments" solves sum of (estimate - mu)^2 / (tau2 + variance) = degrees of freedom (Paule and Mandel 1982);
        "fixed" takes `tau2` as given.
        All but "bayes" take the tau2 found for true, so with few clients their intervals are too short: over 10 clients
        of variances around 1 = tau2, 95 % intervals held the truth 82 (marginal-likelihood), 86 (reml) and 95 % (bayes)
        of the time; over 100 clients 94, 94 and 95 % (see ``coverage``).
    mu : number, or None to estimate it (then posteriors count its uncertainty, under a flat prior).
    tau2 : number >= 0 for prior="fixed", else None.
    hyperprior : for prior="bayes", what is thought of tau2 before the estimates are seen.
        "strawderman": with s2 the harmonic mean of the finite variances, sqrt(4 s2 / (4 s2 + tau2)) is uniform on (0, 1),
        of density proportional to (4 s2 + tau2)^(-3/2) (after Strawderman 1971, Ann. Math. Statist. 42:385).  It is a law,
        under which 95 % intervals hold the truth 95 % of the time for any number of clients, two or more; with three (two
        if mu is given) mu_sd_ is finite.  A compromise, chosen among a dozen laws by simulation (normal true values, 3 to
        100 clients, tau2 from .03 to 10 times the variances, equal or not): less squared error than "flat-tau2" where there
        are few clients, and no coverage below 93.8 %, where "flat-tau" came down to 92.9 %;
        "flat-tau", uniform in tau >= 0 (Gelman 2006), for three clients or more (two if mu is given);
        "flat-tau2", uniform in tau2 >= 0 (Morris 1983, JASA 78:47), for four or more (three): of five clients who differ
        little it leaves .6 of the squared error where "strawderman" leaves .46 and "flat-tau" .41.

    Attributes
    ----------
    mu_, tau2_ : the prior's mean and variance; for "bayes" the posterior mean of mu and geometric mean of tau2.
    beta_, beta_sd_ : arrays (q,), slopes of the covariates with their standard errors, likewise; empty without covariates.
        A covariate that says nothing beside the others (constant, or a combination of them) has slope 0 and error inf.
    coefficient_covariance_ : array (1 + q, 1 + q), how far off (mu_, beta_) may be.
    prior_mean_ : array (m,), mu_ + z_i beta_.
    mu_sd_ : standard error of mu_ (0 if mu was given; inf for "bayes" where clients do not bound it: with fewer than 3, for
        "flat-tau" 5 and for "flat-tau2" 6).
    posterior_mean_, posterior_sd_ : of each theta_i; for "bayes" with fewer clients than that (one less if mu was given),
        who do not bound the prior's variance, the sd of a client of infinite variance is inf.
    weights_ : weight of each client's own estimate in its posterior mean, tau2 / (tau2 + variance_i); for "bayes" its
        posterior mean.
    log_likelihood_ : log density of the estimates of finite variance at (mu_, tau2_), whatever the `prior`.
    converged_ : bool; n_iter_ : number of passes over the data.

    >>> model = GaussianMeans("marginal-likelihood").fit([1.0, 2.0, 3.0, 6.0], variances=1.0)
    >>> round(float(model.mu_), 6), round(float(model.tau2_), 6), model.converged_
    (3.0, 2.5, True)
    >>> model.posterior_mean_.round(3).tolist()
    [1.571, 2.286, 3.0, 5.143]
    >>> [ends.round(2).tolist() for ends in GaussianMeans().fit([1.0, 2.0, 3.0, 6.0], variances=1.0).interval()]
    [[-0.51, 0.36, 1.2, 3.36], [3.28, 4.01, 4.8, 7.39]]
    >>> model = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0, 9.0], 1.0, covariates=[0.0, 1.0, 2.0, 3.0, 4.0])
    >>> round(model.mu_, 3), model.beta_.round(3).tolist(), round(model.tau2_, 3), float(model.predict([5.0])[0].round(3))
    (0.2, [2.0], 0.0, 10.2)
    """

    estimates_: Floats
    covariates_: Floats | None
    prior_mean_: Floats
    beta_: Floats
    beta_sd_: Floats
    coefficient_covariance_: Floats
    variances_: Floats
    mu_: float
    mu_sd_: float
    tau2_: float
    nodes_: tuple[Floats, Floats, Floats, Floats]
    weights_: Floats

    def __init__(
        self,
        prior: Literal["bayes", "marginal-likelihood", "reml", "moments", "fixed"] = "bayes",
        mu: float | None = None,
        tau2: float | None = None,
        hyperprior: Literal["strawderman", "flat-tau", "flat-tau2"] = "strawderman",
    ) -> None:
        self.prior = prior
        self.mu = mu
        self.tau2 = tau2
        self.hyperprior = hyperprior

    @paired
    def fit(self, estimates: ArrayLike, variances: ArrayLike, covariates: ArrayLike | None = None) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        estimates : array (m,) of the clients' own estimates, finite.
        variances : array (m,) or number, their sampling variances in squared units, > 0 or inf.
        covariates : array (m, q), or (m,) of one, finite: what is known of every client beforehand.  A column of ones is
            not needed: mu is the intercept, and mu=0 leaves it out.  Covariates that say nothing beside the others
            (constant, or a combination of them) are left out with a warning, which changes no client's estimate.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain.
        """
        choice("prior", self.prior, PRIORS)
        choice("hyperprior", self.hyperprior, tuple(HYPERPRIORS))
        if (self.prior == "fixed") != (self.tau2 is not None):
            raise ValueError("tau2 must be given for prior='fixed' and left out otherwise, where it is estimated")
        y, v = read_estimates(estimates, variances)
        self.estimates_, self.variances_ = y.copy(), np.full(y.shape, v) if v.ndim == 0 else v.copy()
        mu = None if self.mu is None else single(finite, "mu", self.mu)
        self._exponent, *self._scaled = gaussian_unit(self.estimates_, self.variances_, mu)
        self.covariates_ = None if covariates is None else read_covariates(covariates, y.size)
        heard, unknown = np.isfinite(self.variances_), self.mu is None
        self._design = self.design(heard)
        learnt = int(unknown) if self._design is None else self._design.basis.shape[1]
        # The smallest number with a finite integral over tau2.
        averaged = max(2, learnt + 1, int(3 - 2 * HYPERPRIORS[self.hyperprior]) + learnt)
        needed = {"fixed": learnt, "bayes": averaged}.get(self.prior, max(2, learnt + 1))
        if heard.sum() < needed:
            self.refuse(needed, int(heard.sum()), learnt)
        if not self.kept_covariates.all():
            warnings.warn(
                f"{left_out(self.kept_covariates)} left out: constant, or a combination of the covariates before and the "
                "intercept; estimates are the same without, the slope is unknown",
                stacklevel=3,
            )
        self._heard, self._heard_size = slice(None) if heard.all() else heard, int(heard.sum())
        likelihood = self.likelihood(plain=self._design is None)
        shares = np.ones(1)
        if self.prior == "fixed":
            tau2s, self.converged_ = np.ldexp([single(nonnegative, "tau2", self.tau2)], -2 * self._exponent), True
        elif self.prior == "bayes":
            tau2s, shares, self.converged_ = likelihood.integrate()
        else:
            tau2, self.converged_ = likelihood.maximise()
            tau2s = np.array([tau2])
        if not self.converged_:
            warnings.warn("the search for tau2 did not converge; do not use the fit", RuntimeWarning, stacklevel=3)
        self.set_posterior(likelihood, tau2s, shares)
        return self

    def design(self, heard: Bools) -> Design | None:
        """Return the design of the covariates, or None without."""
        return None if self.covariates_ is None else Design.read(self.covariates_, heard, self.mu is None)

    def refuse(self, needed: int, left: int, learnt: int) -> NoReturn:
        """Raise ValueError for too few clients."""
        if self.covariates_ is None:
            raise ValueError(
                f"estimates must hold at least {('', 'one', 'two', 'three', 'four')[needed]} clients of finite variance for "
                f"prior={self.prior!r}, and variances leave {left}; use another prior, or give mu or tau2 if known"
            )
        raise ValueError(
            f"covariates leave {learnt} coefficients to learn, the intercept included, for which prior={self.prior!r} needs "
            f"{needed} clients of finite variance or more, and there are {left}; give fewer covariates, or more clients"
        )

    def likelihood(self, plain: bool = False) -> MarginalLikelihood:
        """Return the likelihood of tau2, in units of `unit2`: with one centre for all if `plain`, else as a regression."""
        y, v = (column[self._heard] for column in self._scaled)
        mu = None if self.mu is None else float(np.ldexp(self.mu, -self._exponent))
        power = HYPERPRIORS[self.hyperprior]
        if plain:
            return MarginalLikelihood(y, v, mu, self.prior, power)
        columns = np.full((y.size, int(mu is None)), y.size**-0.5)
        basis = columns if self._design is None else self._design.basis[self._heard]
        return RegressionLikelihood(y, v, basis, mu or 0.0, self.prior, power)

    @property
    def kept_covariates(self) -> Bools:
        """Which covariates are no combination of others (q,)."""
        return np.zeros(0, bool) if self._design is None else self._design.kept

    @property
    def coefficient_slopes(self) -> Floats:
        """The coefficients (mu, beta) from those of the basis of `likelihood`, array (1 + q, p)."""
        if self._design is not None:
            return self._design.slopes
        return np.full((1, int(self.mu is None)), self._heard_size**-0.5)

    def coefficient_nodes(self) -> tuple[Floats, Floats, Floats]:
        """Return means and variances of (mu, beta) at every node of tau2, arrays (nodes, 1 + q), and the nodes' shares."""
        _, mus, variances, shares = self.nodes_
        if self._design is None:
            return mus[:, None], variances[:, None], shares
        slopes = self._design.slopes
        means = np.einsum("jp,kp->kj", slopes, mus)
        means[:, 0] += np.ldexp(self._origin, self._exponent)
        return means, np.einsum("jp,kpq,jq->kj", slopes, variances, slopes), shares

    @property
    def unit2(self) -> float:
        """The unit of variances in which `likelihood` is."""
        return float(np.ldexp(1.0, 2 * self._exponent))

    def set_posterior(self, likelihood: MarginalLikelihood, tau2s: Floats, shares: Floats) -> None:
        """Set the attributes that follow from prior variances `tau2s` of posterior probabilities `shares`."""
        k = self._exponent
        mus, mu_variances = likelihood.centre(tau2s)
        self._nodes = tau2s, mus if self._design else likelihood.origin + mus, mu_variances, shares
        self._origin = likelihood.origin
        with np.errstate(over="ignore"):
            self.nodes_ = np.ldexp(tau2s, 2 * k), np.ldexp(self._nodes[1], k), np.ldexp(mu_variances, 2 * k), shares
        averaged = shares.size > 1
        tau2 = float(np.exp(dot(shares, np.log(tau2s))) if averaged else tau2s[0])
        mu = np.einsum("k,k...->...", shares, mus)
        self.tau2_ = represented("estimates", tau2, 2 * k)
        bounded = not averaged or likelihood.bounded
        self._bounded = bounded
        self.set_centre(mus, mu_variances, shares, bounded)
        self.posterior_mean_, self.posterior_sd_, self.weights_ = np.empty((3, self.estimates_.size))
        self.set_averages(shares)
        for found in (self.posterior_mean_, self.posterior_sd_):
            np.ldexp(found, k, out=found)
        if not bounded:
            self.posterior_sd_[np.isinf(self.variances_)] = np.inf
        log_likelihood = likelihood.objective(np.array([tau2]), mu, restricted=False)[0]
        self.log_likelihood_ = float(log_likelihood) - likelihood.size * k * LOG2
        self.n_iter_ = likelihood.passes

    def set_centre(self, mus: Floats, variances: Floats, shares: Floats, bounded: bool) -> None:
        """Set mu_, the slopes and their covariance from their means and variances at every node."""
        k, design = self._exponent, self._design
        slopes = np.ones((1, 1))
        if design is None:
            mus, variances = mus[:, None], variances[:, None, None]
        else:
            slopes = design.slopes
        mean = np.einsum("k,kp->p", shares, mus)
        apart = mus - mean
        covariance = np.einsum("k,kpq->pq", shares, variances + apart[:, :, None] * apart[:, None, :])
        found = np.einsum("jp,p->j", slopes, mean)
        with np.errstate(over="ignore"):
            covariance = np.ldexp(np.einsum("ip,pq,jq->ij", slopes, covariance, slopes), 2 * k)
        if not bounded:
            covariance = np.where(covariance == 0, 0.0, np.inf)
        if design is not None:
            unknown = np.flatnonzero(~design.kept) + 1
            covariance[unknown, unknown] = np.inf
        self.mu_, self.beta_ = float(np.ldexp(self._origin + found[0], k)), np.ldexp(found[1:], k)
        self.coefficient_covariance_ = covariance
        self.mu_sd_, self.beta_sd_ = float(np.sqrt(covariance[0, 0])), np.sqrt(np.diag(covariance)[1:])
        self.prior_mean_ = np.full(self.estimates_.size, self.mu_)
        if design is not None:
            self.prior_mean_ = np.ldexp(self._origin + np.einsum("ip,p->i", design.basis, mean), k)

    def centres(self, basis: Floats | slice) -> tuple[Floats, Floats]:
        """Return means and variances of the prior mean at every node, for those rows of the design or such a basis."""
        _, mus, variances, _ = self._nodes
        if self._design is None:
            return mus, variances
        basis = self._design.basis[basis] if isinstance(basis, slice) else basis
        return self._origin + np.einsum("ip,kp->ik", basis, mus), np.einsum("ip,kpq,iq->ik", basis, variances, basis)

    def predict(
        self, covariates: ArrayLike | None = None, return_sd: bool = False
    ) -> float | Floats | tuple[float | Floats, float | Floats]:
        """Return the mean of a new client's true value: a number, or one for each row of `covariates` (k, q).

        With `return_sd` also its standard deviation, which counts how clients differ and how uncertain the prior is.  It is
        inf for covariates that break a rule which all fitted clients obeyed, such as a constant column.

        >>> model = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0)
        >>> [round(float(value), 3) for value in model.predict(return_sd=True)]
        [3.0, 2.198]
        """
        means, variances, blind = self.new_clients(covariates)
        shares, k = self._nodes[-1], self._exponent
        mean = np.einsum("ik,k->i", means, shares)
        variance = np.einsum("ik,k->i", variances + (means - mean[:, None]) ** 2, shares)
        sd = np.where(blind | (not self._bounded), np.inf, np.ldexp(np.sqrt(variance), k))
        mean = np.ldexp(mean, k)
        if covariates is None:
            mean, sd = float(mean[0]), float(sd[0])
        return (mean, sd) if return_sd else mean

    def new_clients(self, covariates: ArrayLike | None) -> tuple[Floats, Floats, Bools]:
        """Return, for new clients, means and variances of true values at every node, and whose covariates break a rule.

        Arrays (k, nodes), in units of `unit2`, and (k,).
        """
        self.require_fit()
        if (covariates is None) != (self.covariates_ is None):
            raise ValueError("covariates must be given if the model was fitted with covariates, and only then")
        basis, blind = np.ones((1, 1)), np.zeros(1, bool)
        if self._design is not None:
            rows = np.zeros((1, 0)) if covariates is None else read_covariates(covariates, None, self._design.kept.size)
            basis, blind = self._design.rows(rows)
        means, variances = np.broadcast_arrays(*np.atleast_2d(*self.centres(basis)))
        return means, variances + self._nodes[0], blind

    def set_averages(self, shares: Floats) -> None:
        """Set posterior means, sds and own weights, in the units of the fit."""
        y, v = self._scaled
        if y.size >= MANY and self._design is None:
            from estimators.normal_means.normal_kernels import averages

            return averages(y, np.minimum(v, HUGE), *self._nodes, self.weights_, self.posterior_mean_, self.posterior_sd_)
        for rows, weights, means, variances in self.mixtures():
            np.einsum("ik,k->i", weights, shares, out=self.weights_[rows])
            np.einsum("ik,k->i", means, shares, out=self.posterior_mean_[rows])
            variances += (means - self.posterior_mean_[rows, None]) ** 2
            np.sqrt(np.einsum("ik,k->i", variances, shares), out=self.posterior_sd_[rows])

    def prior_summary(self) -> dict[str, Any]:
        """Return the prior that posteriors use, as plain Python values.

        For "bayes" that is an average of normal laws, described by mu_ and the variance between clients that borrows as
        much: with it a client of the average precision, of variance v, has the same weight variance / (variance + v).

        >>> model = GaussianMeans().fit([1.0, 2.0, 3.0, 6.0], variances=1.0)
        >>> round(model.prior_summary()["variance"], 2), model.weights_.round(3).tolist()
        (3.76, [0.79, 0.79, 0.79, 0.79])
        """
        self.require_fit()
        tau2s, _, _, shares = self.nodes_
        variance = self.tau2_
        if shares.size > 1:
            finite_ones = self.variances_[np.isfinite(self.variances_)]
            v = finite_ones.min() / np.mean(finite_ones.min() / finite_ones)
            variance = v * dot(shares, tau2s / (tau2s + v)) / dot(shares, v / (tau2s + v))
        mean, error = self.mu_, self.mu_sd_
        if self._design is not None:  # of the average client
            mean = float(self.prior_mean_.mean())
            means, variances = self.centres(self._design.basis.mean(axis=0)[None])
            apart = means - dot(shares, means[0])
            error = (
                float(np.ldexp(np.sqrt(dot(shares, (variances + apart**2)[0])), self._exponent)) if self._bounded else np.inf
            )
        summary = {
            "family": "normal",
            "found_by": self.prior,
            "mean": mean,
            "mean_standard_error": error,
            "sd": float(np.sqrt(variance)),
            "variance": float(variance),
        }
        if self.covariates_ is not None:
            summary |= {
                "intercept": self.mu_,
                "intercept_standard_error": self.mu_sd_,
                "slopes": self.beta_.tolist(),
                "slope_standard_errors": self.beta_sd_.tolist(),
            }
        return summary

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" (with covariates the intercept), "slopes", "sd" and, without covariates, "new client".

        For "bayes" all are averaged over tau2; for the others Knapp and Hartung's and Q-profile intervals: see
        ``prior_inference``, which has more of both.  A fixed tau2 has no interval.

        >>> found = GaussianMeans("reml").fit([1.0, 2.0, 3.0, 6.0], 1.0).prior_interval()
        >>> {name: [round(end, 2) for end in ends] for name, ends in found.items()}
        {'mean': [-0.44, 6.44], 'sd': [0.71, 7.99], 'new client': [-4.0, 10.0]}
        """
        from estimators.normal_means.prior_inference import coefficient_intervals, new_client_interval, variance_interval

        mean, *slopes = [(float(low), float(high)) for low, high in coefficient_intervals(self, level)]
        found: dict[str, Any] = {"mean": mean}
        if slopes:
            found["slopes"] = slopes
        if self.prior != "fixed":
            low, high = variance_interval(self, level)
            found["sd"] = (float(np.sqrt(low)), float(np.sqrt(high)))
        if not slopes:
            low, high = new_client_interval(self, None, level)
            found["new client"] = (float(low), float(high))
        return found

    def mixtures(self, block: int = BLOCK) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Yield slices of clients with own weights, means and variances of their posteriors at each node of tau2.

        Means are in units of 2^`_exponent`, as are the nodes; `block` is how many numbers are in an array.
        """
        tau2s, _, _, shares = self._nodes
        estimates, variances = self._scaled
        for rows in parts(estimates.size, max(1, block // shares.size)):
            v = np.minimum(variances[rows, None], HUGE)
            precision = 1 / (v + tau2s)
            own, rest = tau2s * precision, v * precision
            mus, mu_variances = self.centres(rows)
            mean = mus + own * (estimates[rows, None] - mus)
            yield rows, own, mean, rest * (tau2s + mu_variances * rest)

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        self.require_fit()
        t, found = np.ldexp(finite("t", t), -self._exponent), []
        for rows, _, means, variances in self.mixtures():
            found.append(normal_mixture.cdf(t[rows] if t.ndim else t, self._nodes[-1], means, np.sqrt(variances), strict))
        return np.concatenate(found)

    def posterior_quantile(self, q: ArrayLike) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        self.require_fit()
        found = []
        for _, _, means, variances in self.mixtures(WIDE):
            found.append(normal_mixture.quantile(q, self._nodes[-1], means, np.sqrt(variances)))
        return np.ldexp(np.concatenate(found), self._exponent)

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true, or clients are so many that what is unknown of it moves no pair of them."""
        self.require_fit()
        _, _, variances, shares = self._nodes
        return self.estimates_.size > MANY_PAIRS or (shares.size == 1 and not np.any(variances))

    def prior_means(self, generator: np.random.Generator, nodes: Ints) -> Floats:
        """Return draws of the clients' prior means, one for each of the `nodes`, arrays (size, m) or (size, 1)."""
        _, mus, variances, _ = self._nodes
        if self._design is None:
            return (mus[nodes] + np.sqrt(variances[nodes]) * generator.standard_normal(nodes.size))[:, None]
        roots = covariance_root(variances)
        gamma = mus[nodes] + np.einsum("spq,sq->sp", roots[nodes], generator.standard_normal((nodes.size, mus.shape[1])))
        return self._origin + np.einsum("ip,sp->si", self._design.basis, gamma)

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true values given the data: a tau2, then a centre, then the clients."""
        self.require_fit()
        tau2s, _, _, shares = self._nodes
        nodes = generator.choice(shares.size, size, p=shares / shares.sum())
        y, v = self._scaled
        precision = 1 / (np.minimum(v, HUGE) + tau2s[nodes, None])
        own = tau2s[nodes, None] * precision
        centre = self.prior_means(generator, nodes)
        theta = centre + own * (y - centre)
        theta += np.sqrt(own * np.minimum(v, HUGE)) * generator.standard_normal(theta.shape)
        return np.ldexp(theta, self._exponent)

    def exceedances(self, rows: slice) -> Floats | None:
        """Return P(theta_i > theta_j) of those clients i and all j, array (rows, m): normal laws at every tau2.

        The centre is common to both, so what is unknown of it counts by how much less one client takes of it than the other.
        """
        from scipy.special import ndtr

        self.require_fit()
        tau2s, _, spreads, shares = self._nodes
        y, v = self._scaled
        v, found = np.minimum(v, HUGE), 0.0
        means = np.broadcast_to(self.centres(slice(None))[0], (y.size, shares.size))
        for k, (tau2, share) in enumerate(zip(tau2s, shares, strict=True)):
            own, rest = tau2 / (v + tau2), v / (v + tau2)
            if self._design is None:
                taken = (rest * np.sqrt(spreads[k]))[:, None]
            else:
                taken = np.einsum("i,ip,pq->iq", rest, self._design.basis, covariance_root(spreads[k]))
            theta, variance = means[:, k] + own * (y - means[:, k]), tau2 * rest
            gap, total = theta[rows, None] - theta, variance[rows, None] + variance
            for column in taken.T:
                total += (column[rows, None] - column) ** 2
            with np.errstate(divide="ignore", invalid="ignore"):
                found += share * np.where(total > 0, ndtr(gap / np.sqrt(total)), 0.5 + 0.5 * np.sign(gap))
        return np.asarray(found)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own estimates, NaN for those of infinite variance."""
        self.require_fit()
        return np.where(np.isinf(self.variances_), np.nan, self.estimates_ if arguments is None else arguments[0])

    def predictive_ranks(self) -> Floats:
        """Return P(less than was seen) for each client given all others, exact at every tau2 of the average.

        A client's own data are taken out of the centre, and out of the probability of each tau2; the hyperprior's scale, and
        a single tau2 that was estimated, stay as they are.
        """
        from scipy.special import ndtr

        self.require_fit()
        tau2s, _, _, shares = self._nodes
        y, found = self._scaled[0], []
        for rows in parts(y.size, max(1, BLOCK // shares.size)):
            total = np.minimum(self._scaled[1][rows, None], HUGE) + tau2s
            mean, error = self.centres(rows)
            rest = np.maximum(1 - error / total, 1e-12)  # of the information about the centre, without this client
            residual = (y[rows, None] - mean) / rest
            variance = total + error / rest
            logs = np.log(np.maximum(shares, 1e-300)) + (np.log(variance) + residual**2 / variance) / 2
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            found.append(np.einsum("ik,ik->i", weights, ndtr(residual / np.sqrt(variance))))
        return np.concatenate(found)

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Return the estimates and their variances."""
        self.require_fit()
        return self.estimates_, self.variances_

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Floats, ...]]:
        """Return (truth, (estimates, variances[, covariates])) from `prior_summary` with the design that was fitted.

        A client of infinite variance gets its truth as estimate, which `fit` does not look at.
        """
        self.require_fit()
        noise = np.sqrt(np.where(np.isinf(self.variances_), 0.0, self.variances_))
        if truth is None:
            truth = self.prior_mean_ + self.prior_summary()["sd"] * generator.standard_normal(noise.size)
        truth = self.read_truth(truth, noise.shape)
        data = truth + noise * generator.standard_normal(noise.size), self.variances_
        return truth, data if self.covariates_ is None else (*data, self.covariates_)


def parts(size: int, length: int) -> list[slice]:
    """Return slices of at most `length` that cover 0..size-1."""
    return [slice(start, start + length) for start in range(0, size, length)]


def dot(x: Floats, y: Floats) -> float:
    """Return the inner product without BLAS, whose threads stall on a busy machine and change bits."""
    return float(np.einsum("i,i->", x, y))


class MarginalLikelihood:
    """Likelihood of y_i ~ N(mu, tau2 + v_i) as a function of tau2, with mu given or (None) profiled out.

    Methods take arrays of values tau2.  With w = 1 / (tau2 + v) all follows from sums over clients of w, w y, ..., of y
    from an `origin`: mu, or its best value at tau2 = 0, from which sums of squares lose no more digits than the number
    of clients has.  Clients of equal variance are one client, `copies` times, and their sum of squares `within`.
    """

    def __init__(self, y: Floats, v: Floats, mu: float | None, prior: str, power: float = 0.0) -> None:
        self.size, self.known, self.prior, self.power = y.size, mu is not None, prior, power
        self.bounded = power + (y.size - (mu is None)) / 2 > 2  # whether the tail of tau2 has a mean
        self.restricted = prior in ("reml", "bayes") and mu is None
        self.copies, self.within, self.passes = 1, 0.0, 0
        self.v_range = (v.min(), v.max()) if v.size else (1.0, 1.0)
        self.equal = self.v_range[0] == self.v_range[1] and y.size > 0
        if self.equal:
            self.origin = mean = float(y.mean())
            self.spread = np.ptp(y) if mu is None else np.abs(y - mu).max()
            self.copies, self.within = y.size, sum(float(np.sum((y[part] - mean) ** 2)) for part in parts(y.size, BLOCK))
            y, v = np.array([mean]), v[:1]
        elif mu is None:
            sums = np.sum([(np.sum(1 / v[part]), dot(1 / v[part], y[part])) for part in parts(y.size, BLOCK)], axis=0)
            self.origin = float(sums[1] / sums[0])
        if mu is not None:
            self.origin = mu
        self.y, self.v = y - self.origin, v
        if not self.equal and y.size:
            self.spread = self.y.max() - self.y.min() if mu is None else max(self.y.max(), -self.y.min())
        # As many variances relative to the largest as have a product without underflow: one logarithm for all of them.
        self.group = int(min(1024, 280 / max(np.log10(self.v_range[1] / self.v_range[0]), 1e-9)))
        self.compiled = self.y.size >= MANY and self.group > 0
        self.length = min(max(y.size, 1), BLOCK)
        self.work = np.empty((2, max(1, BLOCK // self.length), self.length))

    @cached_property
    def edge(self) -> float:
        """The tau2 from which the density of the hyperprior falls: 0 for those that fall everywhere alike."""
        return 4 * float(self.v[0] if self.equal else self.v.size / np.sum(1 / self.v)) if self.power > 1 else 0.0

    def sums(self, tau2s: Floats, density: bool) -> Floats:
        """Return sums of w, w y, and of w y^2, log w if `density` or else of w^2 y^2, w^2 y, w^2, one column per tau2."""
        self.passes += tau2s.size
        found = np.zeros((5, tau2s.size))
        if self.compiled:
            from estimators.normal_means.normal_kernels import density_sums, score_sums

            if density:
                density_sums(self.y, self.v, tau2s, self.v_range[1], self.group, found)
            else:
                score_sums(self.y, self.v, tau2s, found)
            return found
        for some in parts(tau2s.size, self.work.shape[1]):
            t, out = tau2s[some, None], found[:, some]
            for rows in parts(self.y.size, self.length):
                y, v = self.y[rows], self.v[rows]
                w, wy = self.work[:, : t.size, : y.size]
                np.reciprocal(np.add(v, t, out=w), out=w)
                np.multiply(w, y, out=wy)
                out[0] += w.sum(axis=1)
                out[1] += wy.sum(axis=1)
                if density:
                    out[2] += np.einsum("ki,i->k", wy, y) + self.within / self.copies * (w[:, 0] if self.equal else 0.0)
                    out[3] += np.log(w, out=w).sum(axis=1)
                else:
                    first = w[:, 0] ** 2 if self.equal else 0.0
                    out[2] += np.einsum("ki,ki->k", wy, wy) + self.within / self.copies * first
                    out[3] += np.einsum("ki,ki->k", wy, w)
                    out[4] += np.einsum("ki,ki->k", w, w)
        return self.copies * found

    def best_mu(self, sums: Floats) -> Floats:
        """Return the best mu, from the origin."""
        return np.zeros(sums.shape[1]) if self.known else sums[1] / sums[0]

    def centre(self, tau2s: Floats) -> tuple[Floats, Floats]:
        """Return the best mu, from the origin, at each of `tau2s`, and its variance."""
        sums = self.sums(tau2s, density=True)
        return self.best_mu(sums), np.zeros(tau2s.size) if self.known else 1 / sums[0]

    def score(self, tau2s: Floats) -> Floats:
        """Return what falls through 0 at the estimate: twice a derivative, or the moment condition."""
        sums = self.sums(tau2s, density=self.prior == "moments")
        mu = self.best_mu(sums)
        if self.prior == "moments":
            return sums[2] - mu * sums[1] - (self.size - (not self.known))
        score = sums[2] - 2 * mu * sums[3] + mu**2 * sums[4] - sums[0]
        return score + sums[4] / sums[0] if self.restricted else score

    def objective(self, tau2s: Floats, mu: Floats | float | None = None, restricted: bool | None = None) -> Floats:
        """Return the log density of y, at the best mu or the one given; for REML and averages the restricted one."""
        sums = self.sums(tau2s, density=True)
        centre = self.best_mu(sums) if mu is None else mu
        squares = sums[2] - 2 * centre * sums[1] + centre**2 * sums[0]
        density = -0.5 * (self.size * np.log(2 * np.pi) - sums[3] + squares)
        return density - 0.5 * np.log(sums[0]) if (self.restricted if restricted is None else restricted) else density

    def maximise(self) -> tuple[float, bool]:
        """Return the maximiser tau2 >= 0 and whether the search converged; equal variances have a closed form."""
        if self.equal:
            squares = self.within + self.copies * float(self.y[0]) ** 2
            freedom = self.size - (self.prior != "marginal-likelihood" and not self.known)
            return max(0.0, squares / freedom - float(self.v[0])), True
        candidates, converged = self.roots(self.score, 0.0)
        best = np.argmax(self.objective(candidates)) if candidates.size > 1 else 0
        return float(candidates[best]), converged

    def roots(self, score: Callable[[Floats], Floats], low: float, rtol: float = 1e-13) -> tuple[Floats, bool]:
        """Return where `score` falls through 0 (and `low` if it starts below), and whether they were all found.

        They are bracketed on a geometric grid from `low` to where the score is negative for good.  A term of the score
        changes over more than a decade of tau2, so steps of a factor 4 separate several maxima.
        """
        from scipy.optimize import brentq

        highest = max(self.spread**2, self.v_range[1])
        step = self.v_range[0] / 4
        steps = int(np.ceil(np.log(highest / step) / np.log(4))) + 1
        grid = np.concatenate([[low], step * 4.0 ** np.arange(steps)])
        scores = score(grid)
        while scores[-1] > 0:
            grid = np.append(grid, 4 * grid[-1])
            scores = np.append(scores, score(grid[-1:]))
        found, converged = ([low] if scores[0] <= 0 else []), True
        options = {"xtol": 1e-300, "rtol": rtol, "maxiter": 500, "full_output": True, "disp": False}
        for k in np.flatnonzero((scores[:-1] > 0) & (scores[1:] <= 0)):
            root, details = brentq(lambda tau2: score(np.array([tau2]))[0], grid[k], grid[k + 1], **options)
            found.append(root)
            converged = converged and details.converged
        return np.array(found), converged

    def integrate(self) -> tuple[Floats, Floats, bool]:
        """Return values of tau2 and their posterior probabilities for averages over it, and whether they are enough.

        Trapezoids in u, where log tau2 = mode + 4 sinh(u / 4): points are evenly spaced near the mode and thin out in
        the tails.  Such sums converge exponentially fast for smooth integrands, so when every other point gives the
        same up to 3e-5, all of them are exact to 1e-9; until then their number is doubled.
        """

        edge, power = self.edge, self.power

        def slope(tau2s):
            return tau2s * (self.score(tau2s) - 2 * power / (edge + tau2s)) + 2  # twice the derivative of `height`

        def height(w):  # log density of w = log tau2, whose prior is that of tau2, (edge + tau2)^-power, times tau2
            return self.objective(np.exp(w)) - power * np.log(edge + np.exp(w)) + w

        # At `low` the slope is positive, whatever the estimates are.
        low = min(1.0, 1 / (2 * self.size)) * self.v_range[0] / 4
        modes, converged = self.roots(slope, low, rtol=1e-4)
        bends = (slope(1.01 * modes) - slope(modes)) / (2 * np.log(1.01))
        heights = height(np.log(modes))
        top, mode = heights.max(), np.log(modes[np.argmax(heights)])
        ends = []
        for k, side in ((0, -1), (-1, 1)):
            start, step = np.log(modes[k]), np.sqrt(-2 * DEPTH / min(bends[k], -0.01))
            beyond = float(self.bounded and side > 0)  # the mean of tau2 counts, too, where there is one
            while height(np.array([start + side * step]))[0] + beyond * (start + step - mode) > top - DEPTH:
                step *= 1.2
            ends.append(4 * np.arcsinh((start + side * step - mode) / 4))
        pieces = 24
        u = np.linspace(ends[0], ends[1], pieces + 1)
        heights = height(mode + 4 * np.sinh(u / 4))
        while True:
            w = mode + 4 * np.sinh(u / 4)
            mass = np.exp(heights - top) * np.cosh(u / 4)
            total, mean, sd = summary(w, mass)
            half, mean_of_half, _ = summary(w[::2], mass[::2])
            enough = abs(2 * half / total - 1) < 3e-5 and abs(mean_of_half - mean) < 3e-5 * sd
            if enough or pieces > 5000:
                break
            pieces *= 2
            u = np.linspace(ends[0], ends[1], pieces + 1)
            heights = np.insert(height(mode + 4 * np.sinh(u[1::2] / 4)), np.arange(heights.size), heights)
        kept = mass * np.maximum(1.0, np.exp(w - mode) * self.bounded) > 1e-12 * total
        w, mass = fewer(w[kept], mass[kept] / mass[kept].sum())
        return np.exp(w), mass, bool(converged and enough)


class RegressionLikelihood(Regression, MarginalLikelihood):
    """As `MarginalLikelihood`, with a prior mean that is linear in the columns of a basis."""

    def __init__(self, y: Floats, v: Floats, basis: Floats, origin: float, prior: str, power: float) -> None:
        Regression.__init__(self, y, v, basis, origin)
        self.prior, self.power, self.known = prior, power, False
        self.restricted = prior in ("reml", "bayes")
        self.bounded = power + (self.size - self.coefficients) / 2 > 2

    def maximise(self) -> tuple[float, bool]:
        """Return the maximiser tau2 >= 0 and whether the search converged; equal variances have a closed form."""
        if not self.equal:
            return super().maximise()
        freedom = self.size - (self.prior != "marginal-likelihood") * self.coefficients
        return max(0.0, self.within / freedom - float(self.v[0])), True


def covariance_root(covariances: Floats) -> Floats:
    """Return roots R of covariance matrices (..., p, p), each R R' up to rounding: rounding may leave no Cholesky factor."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def summary(w: Floats, mass: Floats) -> tuple[float, float, float]:
    """Return the total of `mass`, and the mean and standard deviation of `w` under it."""
    total = mass.sum()
    mean = dot(mass, w) / total
    return total, mean, np.sqrt(dot(mass, (w - mean) ** 2) / total)


def fewer(w: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Return places and probabilities that serve for those given: fewer, by Gauss' rule, if `w` is spread little.

    What is averaged are smooth functions of
    w whose nearest singularities are pi away, so 4 + 20 sd places are plenty as long as the sd of w is below 1/2.
    """
    sd = deviation(w, mass)
    places = int(np.ceil(4 + 20 * sd))
    if sd > 0.5 or places >= w.size:
        return w, mass
    return gauss(w, mass, places)
