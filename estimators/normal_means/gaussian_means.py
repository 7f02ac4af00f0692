"""Gaussian means with unequal known variances: a normal prior learnt from all clients, honest intervals for each.

Belongs here: the normal prior, whose variance is given, estimated, or integrated out, and what is said of it.  The search
for its variance is in ``tau2_likelihood``, clients' posteriors are in ``normal_posteriors``, closed forms of risk and
James-Stein for equal variances in ``gaussian``, a prior with a spike in ``point_normal``, and how often intervals hold the
truth is measured in ``coverage``.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NoReturn, Self

import numpy as np

from estimators.normal_means.meta_regression import Design, left_out, read_covariates
from estimators.normal_means.normal_posteriors import NormalPosteriors
from estimators.normal_means.tau2_likelihood import MarginalLikelihood, RegressionLikelihood
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.blocks import dot
from estimators.numerics.spread_law import POWER
from estimators.numerics.units import LOG2, gaussian_unit, represented, shifted
from estimators.numerics.validation import choice, finite, nonnegative, paired, single

__all__ = ["GaussianMeans", "read_estimates"]

PRIORS = ("bayes", "marginal-likelihood", "reml", "moments", "fixed")
HYPERPRIORS = {"strawderman": POWER, "flat-tau": 0.5, "flat-tau2": 0.0}
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


class GaussianMeans(NormalPosteriors):
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
        if mu is given) mu_sd_ is finite.  A compromise, chosen by simulation (``tests/bench/DEFAULTS.md``: 3 to 50 clients,
        tau2 from .03 to 10 times the variances): of the laws tried the one of least squared error whose 95 % intervals
        held the truth 94.3 % of the time or more wherever true values were normal; "flat-tau" came down to 93.5 %;
        "flat-tau", uniform in tau >= 0 (Gelman 2006), for three clients or more (two if mu is given);
        "flat-tau2", uniform in tau2 >= 0 (Morris 1983, JASA 78:47), for four or more (three): of five clients who differ
        little (tau2 a tenth of the variances) it leaves .53 of the squared error where "strawderman" leaves .36 and
        "flat-tau" .34.

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

    covariates_: Floats | None
    prior_mean_: Floats
    beta_: Floats
    beta_sd_: Floats
    coefficient_covariance_: Floats
    mu_: float
    mu_sd_: float
    tau2_: float
    nodes_: tuple[Floats, Floats, Floats, Floats]

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
        self._heard = slice(None) if heard.all() else heard
        self._level = max(int(heard.sum()), 1) ** -0.5  # a column of it has length one; of a given prior nobody may be heard
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
        columns = np.full((y.size, int(mu is None)), self._level)
        basis = columns if self._design is None else self._design.basis[self._heard]
        return RegressionLikelihood(y, v, basis, mu or 0.0, self.prior, power)

    @property
    def known_variances(self) -> bool:
        """Whether the likelihood takes the variances for true."""
        return True

    @property
    def residual_df(self) -> int | None:
        """Degrees of freedom of one variance that rows of all clients estimate; None where there is none."""
        return None

    @property
    def kept_covariates(self) -> Bools:
        """Which covariates are no combination of others (q,)."""
        return np.zeros(0, bool) if self._design is None else self._design.kept

    @property
    def coefficient_slopes(self) -> Floats:
        """The coefficients (mu, beta) from those of the basis of `likelihood`, array (1 + q, p)."""
        if self._design is not None:
            return self._design.slopes
        return np.full((1, int(self.mu is None)), self._level)

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
            found[:] = shifted(found, k)
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
        mean = means[:, 0] + np.einsum("ik,k->i", means - means[:, :1], shares)  # a centre that is known stays what it is
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
        if self._design is None:
            (means, variances), blind = self.centres(), np.zeros(1, bool)
        else:
            rows = np.zeros((1, 0)) if covariates is None else read_covariates(covariates, None, self._design.kept.size)
            basis, blind = self._design.rows(rows)
            means, variances = self.centres_at(basis)
        means, variances = np.broadcast_arrays(*np.atleast_2d(means, variances))
        return means, variances + self._nodes[0], blind

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
            means, variances = self.centres_at(self._design.basis.mean(axis=0)[None])
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

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own estimates, NaN for those of infinite variance."""
        self.require_fit()
        return np.where(np.isinf(self.variances_), np.nan, self.estimates_ if arguments is None else arguments[0])

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
