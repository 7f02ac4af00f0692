"""Counts out of known numbers of trials: a Beta prior learnt from all clients, and every client's posterior.

Model: p_i ~ Beta(alpha, beta), x_i ~ Binomial(n_i, p_i), i = 1..m.

Belongs here: the Beta-binomial fit and its tallies, which batches of clients can be reduced to and merged.  Does not
belong here: closed forms of risks and private reports (``bernoulli``), priors without a shape (the nonparametric ones), and
the search that this shares with ``gamma_poisson`` (``conjugate``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from estimators.closed_forms.bernoulli import Moments
from estimators.counts.conjugate import ConjugateModel, Maximum, Priors, average, maximise
from estimators.counts.tallies import (
    LARGEST,
    NARROW,
    CountTally,
    Frequencies,
    ascending,
    exact_squares,
    grouped,
    log_rises_over_factorials,
    square_sums,
)
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.limits import ratio, times
from estimators.numerics.spread_law import log_density
from estimators.numerics.validation import choice, count, finite, paired, positive, probability, single

__all__ = ["BetaBinomial", "BetaBinomialTally"]


def read_counts(x: ArrayLike, n: ArrayLike) -> tuple[Ints, Ints]:
    """Return checked counts and trials as integer arrays, one entry per client."""
    x, n = count("x", x, 0), count("n", n, 0)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"x must be a list with one count per client, got shape {x.shape}")
    if n.shape not in ((), x.shape):
        raise ValueError(f"n must be one number or one per client {x.shape}, got shape {n.shape}")
    if n.size and n.max() > LARGEST:
        raise ValueError(f"n must be at most {LARGEST}, got {n.max():.0f}")
    x, n = x.astype(np.int64), np.broadcast_to(n.astype(np.int64), x.shape)
    above = np.flatnonzero(x > n)
    if above.size:
        i = above[0]
        raise ValueError(f"x must not exceed n, the number of trials; client {i} has x = {x[i]} of n = {n[i]}")
    return x, n


@dataclass(frozen=True, eq=False)
class BetaBinomialTally(CountTally):
    """All that the fit of a Beta prior needs to know of any number of clients: integers that add up exactly.

    Tallies of batches merge with ``+``, in any order to the same bits.  Their size is that of the distinct numbers of
    trials and counts, not of the clients.

    Parameters
    ----------
    ones, zeros : Frequencies of x and of n - x.
    trials : array of the distinct n, ascending; clients, sums, squares : arrays with the number of clients that have this
        n, and the sums of their x and of their x^2, the latter in two columns (`tallies.exact_squares`).

    >>> tally = BetaBinomialTally.of([1, 3], 4) + BetaBinomialTally.of([0], 2)
    >>> tally.trials.tolist(), tally.clients.tolist(), tally.sums.tolist(), tally.squares.tolist()
    ([2, 4], [1, 2], [0, 4], [[0, 0], [0, 10]])
    """

    ones: Frequencies
    zeros: Frequencies
    trials: np.ndarray
    clients: np.ndarray
    sums: np.ndarray
    squares: np.ndarray

    @classmethod
    @paired
    def of(cls, x: ArrayLike, n: ArrayLike) -> Self:
        """Tally clients with counts x out of n; x array (m,), n array (m,) or number, whole and >= 0."""
        return cls.of_integers(*read_counts(x, n))

    @classmethod
    def of_integers(cls, x: Ints, n: Ints) -> Self:
        """Tally checked integer arrays."""
        width = int(x.max()) + 1
        if (int(n.max()) + 1) * width <= 8 * x.size:  # few pairs (x, n), each many times
            counts = np.bincount(n * width + x)
            pairs = np.flatnonzero(counts)
            counts, (n, x) = counts[pairs], np.divmod(pairs, width)
            ones, zeros = (Frequencies(*grouped(values, counts)) for values in (x, n - x))
        else:
            counts, ones, zeros = np.ones_like(x), Frequencies.of(x), Frequencies.of(n - x)
        return cls(ones, zeros, *grouped(n, counts, counts * x, counts[:, None] * exact_squares(x)))

    @cached_property
    def totals(self) -> Frequencies:
        """Frequencies of n."""
        return Frequencies(self.trials, self.clients)

    def __add__(self, other):
        keys = np.concatenate((self.trials, other.trials))
        pairs = ((self.clients, other.clients), (self.sums, other.sums), (self.squares, other.squares))
        by_n = grouped(keys, *(np.concatenate(pair) for pair in pairs))
        return type(self)(self.ones + other.ones, self.zeros + other.zeros, *by_n)

    def check(self) -> None:
        """Raise ValueError where the parts contradict each other."""
        ascending("trials", self.trials)
        m = self.clients.sum()
        if not self.trials.shape == self.clients.shape == self.sums.shape == self.squares.shape[:1]:
            raise ValueError("clients, sums and squares must have one entry for each number of trials")
        if not self.ones.total == self.zeros.total == m or self.ones.sum != self.sums.sum():
            raise ValueError("the numbers of clients or of ones contradict each other")
        if self.ones.sum + self.zeros.sum != (self.trials * self.clients).sum():
            raise ValueError("ones and zeros do not add up to the trials")

    def moments(self, method: Literal["unbiased", "naive"] = "unbiased") -> Moments:
        """Mean and variance of the clients' probabilities, for any prior, as in ``bernoulli.moments``.

        Clients without trials are left out.  Claim: generative:bern:moments:unbiased.
        """
        choice("method", method, ("unbiased", "naive"))
        some = self.trials > 0
        n, clients, sums = (column[some].astype(float) for column in (self.trials, self.clients, self.sums))
        squares = square_sums(self.squares[some])
        m = clients.sum()
        if m < 2:
            raise ValueError("x must hold at least two clients with trials to learn a prior from")
        mu = (sums / n).sum() / m
        spread = max(0.0, ((squares / n - 2 * mu * sums) / n + clients * mu**2).sum() / (m - 1))
        if method == "naive":
            return Moments(float(mu), float(spread))
        several = n >= 2
        if not several.any():
            raise ValueError("n must be >= 2 for some client: one trial per client shows the prior's mean only")
        both = ((squares - sums) / (n * np.maximum(n - 1, 1)))[several].sum() / clients[several].sum()
        return Moments(float(mu), float(both - (mu**2 - spread / m)))


class Surface:
    """Marginal log-likelihood, without constants, over the log-odds of the prior's mean and rho = 1/(alpha + beta)."""

    highest = 1e3

    def __init__(self, tally: BetaBinomialTally) -> None:
        ones, zeros = tally.ones.sum, tally.zeros.sum
        some = tally.trials > 0
        self.size = (ones + zeros) / float(tally.clients[some].sum())  # trials of a client
        self.guess = np.log(ones / zeros)
        self.lowest = 1e-3 * min(ones, zeros) / (ones + zeros) / max(1, int(tally.trials[-1]))
        self.ones, self.zeros, self.trials = tally.ones.nodes, tally.zeros.nodes, tally.totals.nodes
        some_one = tally.ones.counts[tally.ones.values > 0].sum()
        some_zero = tally.zeros.counts[tally.zeros.values > 0].sum()
        self.ends = np.log(some_one / zeros), np.log(ones / some_zero)

    def bracket(self, rho: Floats) -> tuple[Floats, Floats]:
        """Return bounds of the best location: sum over ones of 1/(mu + j rho) is at least that of j = 0, and so on."""
        return np.full(rho.shape, self.ends[0]) - 1e-9, np.full(rho.shape, self.ends[1]) + 1e-9

    def at(self, t: Floats, rho: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return value, derivative by t, curvature and derivative by rho; t and rho arrays of the same shape."""
        from scipy.special import expit

        mu, rest = expit(t), expit(-t)
        value, slope, curvature, by_rho = np.zeros((4, *t.shape))
        for nodes, a, sign in ((self.ones, mu, 1), (self.zeros, rest, -1), (self.trials, np.ones_like(mu), 0)):
            terms = a[:, None] + rho[:, None] * nodes.positions
            inverse = nodes.weights / terms
            outer = 1 if sign else -1
            value += outer * np.einsum("q,gq->g", nodes.weights, np.log(terms))
            by_rho += outer * np.einsum("q,gq->g", nodes.positions, inverse)
            if sign:
                slope += sign * inverse.sum(axis=1)
                curvature += (inverse / terms).sum(axis=1)
        scale = mu * rest
        return value, scale * slope, scale**2 * curvature, by_rho

    def log_hyperprior(self, t: Floats, rho: Floats) -> Floats:
        """Return the log density of t and sqrt(rho): uniform means, and the law of the variance over that of own shares."""
        return 0.5 * np.log(rho) + log_density(self.size * rho) - np.logaddexp(0, t) - np.logaddexp(0, -t)


class BetaBinomial(ConjugateModel):
    """Empirical Bayes for counts: learn Beta(alpha, beta) from all clients, then shrink each client's share of ones.

    Model: p_i ~ Beta(alpha, beta), x_i ~ Binomial(n_i, p_i) with known n_i >= 0, which may differ but say nothing about
    p_i.  Claims: generative:bern:posterior, generative:bern:moments:unbiased.

    Parameters
    ----------
    prior : how alpha and beta are found.
        "bayes" averages the posteriors over alpha and beta given all counts, so that intervals keep their promise with few
        clients too.  Before the counts are seen the mean is uniform, and sqrt(4 / (4 + n / (alpha + beta))), n the trials of
        a client on average, is uniform on (0, 1): that is a law of the variance between shares over that of own ones, after
        Strawderman (1971, Ann. Math. Statist. 42:385), as for normal means; (alpha + beta)^(-1/2) <= 100.  For 3 to 50
        simulated clients (``tests/bench/DEFAULTS.md``) its intervals held the truth at least 94.3 % of the time wherever
        shares were Beta and 93.9 % where they took two values; under a law uniform in (alpha + beta)^(-1/2) (Gelman et
        al., Bayesian Data Analysis, 3rd ed. 2013, section 5.3) 93.3 and 93.7 %, for one per cent less risk on
        average.  It needs a client
        with both ones and zeros.  Below, the four numbers of the prior are then the most likely ones, which posteriors do
        not use; `prior_summary` describes what they use;
        "marginal-likelihood" maximises the probability of the counts, exactly and globally along the overdispersion, and
        takes the maximum for true: with few clients its intervals are too short;
        "moments" matches the unbiased estimates of the prior's mean and variance (``bernoulli.moments``);
        "naive-moments" takes the sample variance of x/n for the prior's, as Section 2.2 of the generative paper prints
        it; it keeps the sampling noise (generative:bern:variance-estimate) and is here for comparison;
        "fixed" takes `alpha` and `beta` as given.
    alpha, beta : numbers > 0 for prior="fixed", else None.

    Attributes
    ----------
    alpha_, beta_, mean_, concentration_ : the prior, its mean and alpha + beta.
        No more spread than binomial: concentration_ = inf, every client gets the pooled share.  No ones at all (or only
        ones): mean_ = 0 (or 1), every client gets that.  Every client with several trials has all zeros or all ones:
        marginal likelihood ends at concentration_ = 0, each p_i is 0 or 1.
    posterior_mean_, posterior_sd_ : of each p_i.  A client with n_i = 0 gets the prior's.
    weights_ : weight of each client's own x_i / n_i in its posterior mean, n_i / (n_i + alpha + beta); for "bayes" its
        posterior mean.
    log_likelihood_ : log probability of the counts under the fitted prior, binomial coefficients included.
    converged_ : bool; n_iter_ : passes over the tallies.

    >>> model = BetaBinomial("marginal-likelihood").fit([0, 2, 5, 9], 10)
    >>> round(model.alpha_, 4), round(model.beta_, 4), model.posterior_mean_.round(3).tolist()
    (0.5607, 0.8849, [0.049, 0.224, 0.486, 0.835])
    >>> [end.round(3).tolist() for end in model.interval(0.9)]
    [[0.0, 0.06, 0.254, 0.633], [0.176, 0.444, 0.721, 0.969]]
    """

    alpha_: float
    beta_: float
    concentration_: float

    _support = (0.0, 1.0)

    def __init__(
        self,
        prior: Literal["bayes", "marginal-likelihood", "moments", "naive-moments", "fixed"] = "bayes",
        alpha: float | None = None,
        beta: float | None = None,
    ) -> None:
        self.prior = prior
        self.alpha = alpha
        self.beta = beta

    @paired
    def fit(self, x: ArrayLike, n: ArrayLike) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        x : array (m,) of whole numbers 0..n_i; n : array (m,) or number, whole, >= 0.  At least two clients with trials,
            one of them with two (none of this for prior="fixed").

        Returns
        -------
        self

        Raises
        ------
        ValueError naming the argument that is out of its domain.
        """
        clients = read_counts(x, n)
        self.fit_tally(BetaBinomialTally.of_integers(*clients))
        return self._take(clients)

    def fit_tally(self, tally: BetaBinomialTally) -> Self:
        """Fit the prior to a BetaBinomialTally; `posterior` then serves clients in batches.  Returns self."""
        choice("prior", self.prior, ("bayes", "marginal-likelihood", "moments", "naive-moments", "fixed"))
        if (self.prior == "fixed") != (self.alpha is not None) or (self.prior == "fixed") != (self.beta is not None):
            raise ValueError("alpha and beta must be given for prior='fixed' and left out otherwise, where they are learnt")
        self.converged_, self.n_iter_, given = True, 0, None
        if self.prior == "fixed":
            alpha, beta = single(positive, "alpha", self.alpha), single(positive, "beta", self.beta)
            mean, rho = alpha / (alpha + beta), 1 / (alpha + beta)
            given = alpha, beta, alpha + beta  # of mean and rho alone, a beta far below alpha would be lost
        elif self.prior in ("bayes", "marginal-likelihood"):
            mean, rho = self._maximise(tally)
        else:
            mean, sigma2 = tally.moments("naive" if self.prior == "naive-moments" else "unbiased")
            most = mean * (1 - mean)
            rho = 0.0 if sigma2 <= 0 else np.inf if sigma2 >= most else sigma2 / (most - sigma2)
        self.mean_, self._rho = float(mean), float(rho)
        self.alpha_, self.beta_, self.concentration_ = given or shapes(self.mean_, self._rho)
        self.log_likelihood_ = log_chance(tally, self.mean_, self.alpha_, self.beta_)
        self.components_, self._stated = Priors(*np.array([[self.mean_], [self._rho], [1.0]])), (self.mean_, self._rho)
        if self.prior == "bayes":
            self._average(tally)
        return self

    def _maximise(self, tally):
        """Return mean and rho of largest likelihood, in closed form where it is at a corner."""
        if tally.clients[tally.trials > 0].sum() < 2:
            raise ValueError("x must hold at least two clients with trials to learn a prior from")
        if tally.trials[-1] < 2:
            raise ValueError("n must be >= 2 for some client: one trial per client shows the prior's mean only")
        if tally.ones.sum == 0 or tally.zeros.sum == 0:
            return float(tally.zeros.sum == 0), 0.0
        if both_kinds(tally) == 0:
            some = tally.trials > 0
            return tally.ones.counts[tally.ones.values > 0].sum() / tally.clients[some].sum(), np.inf
        best = maximise(Surface(tally))
        self.converged_, self.n_iter_ = best.converged, best.passes
        return 1 / (1 + np.exp(-best.location)), best.rho

    def _average(self, tally):
        """Set the components to priors that stand for the posterior law of alpha and beta."""
        from scipy.special import expit

        if both_kinds(tally) == 0:
            raise ValueError(
                "x holds no client with both successes and failures: prior='bayes' needs a client with both ones and zeros; "
                "use 'marginal-likelihood' or 'fixed'"
            )
        best = Maximum(np.log(self.mean_ / (1 - self.mean_)), self._rho, 0.0, 0, True)
        self._learnt = Surface(tally), best
        priors = average(*self._learnt)
        self.components_ = priors._replace(locations=expit(priors.locations))
        self._stated = self._alike((tally.ones.sum + tally.zeros.sum) / tally.clients[tally.trials > 0].sum())

    def posterior(self, x: ArrayLike, n: ArrayLike) -> Self:
        """Return a model with the same prior and the posteriors of these clients; arguments as in `fit`, any m >= 1."""
        return self._serving(read_counts(x, n))

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: ArrayLike | None = None, n: ArrayLike | None = None
    ) -> Any:
        """Return the posterior means of clients with these counts under the fitted prior; without, the prior's mean."""
        if x is None or n is None:
            if x is not None or n is not None:
                raise ValueError("x and n must be given together, or neither for a client without data")
            return super().predict()
        return self.posterior(x, n).posterior_mean_

    def prior_summary(self) -> dict[str, Any]:
        """Return the prior that posteriors use, as plain Python values.

        For "bayes" that is an average of Beta laws.  It is described by the Beta law that borrows as much: under it a client
        with the average number of trials n has the same posterior mean, whatever its x, and so the same weight
        n / (n + concentration).  The most likely Beta law is in alpha_, beta_, mean_ and concentration_.

        >>> model = BetaBinomial().fit([3, 5, 4, 6], 10)
        >>> model.concentration_, round(model.prior_summary()["concentration"], 1), model.weights_.round(2).tolist()
        (inf, 12.0, [0.45, 0.45, 0.45, 0.45])
        """
        self._require_prior()
        mean, rho = self._stated
        alpha, beta, concentration = shapes(mean, rho)
        return {
            "family": "beta",
            "found_by": self.prior,
            "alpha": alpha,
            "beta": beta,
            "mean": mean,
            "sd": float(np.sqrt(mean * (1 - mean) * (rho / (1 + rho) if np.isfinite(rho) else 1.0))),
            "concentration": concentration,
        }

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Ints, Ints]]:
        """Draw new probabilities from the prior of `prior_summary` and new counts of as many trials: (truth, (x, n))."""
        self.require_fit()
        _, n = self.clients_
        mean, rho = self._stated
        if truth is not None:
            truth = probability("truth", self.read_truth(truth, n.shape))
        elif rho == 0 or mean in (0, 1):
            truth = np.full(n.shape, mean)
        elif np.isinf(rho):
            truth = (generator.random(n.shape) < mean).astype(float)
        else:
            truth = generator.beta(*shapes(mean, rho)[:2], n.shape)
        return truth, (generator.binomial(n, truth), n)

    def local_false_sign_rate(self, at: float | None = None) -> Floats:
        """Return min(P(p_i <= at), P(p_i >= at)) given the data; at=None is the prior's mean in `prior_summary`.

        >>> BetaBinomial(prior="fixed", alpha=1, beta=1).fit([0, 5, 10], 10).local_false_sign_rate().round(4).tolist()
        [0.0005, 0.5, 0.0005]
        """
        self.require_fit()
        return super().local_false_sign_rate(self._stated[0] if at is None else single(finite, "at", at))

    def _keys(self):
        x, n = self.clients_
        return x * (int(n.max()) + 1) + n

    def _first(self):
        mean, rho = self._stated
        return mean / rho, (1 - mean) / rho

    @staticmethod
    def _added(x, n):
        return x, n - x

    @staticmethod
    def _given(ones, zeros):
        return ones, ones + zeros

    @staticmethod
    def _strength(mu, rho, rows):
        return times(rho, rows[1]) if np.ndim(rho) == 0 else rho * rows[1]

    @staticmethod
    def _moments(mu, rho, rows):
        x, n = rows
        if np.ndim(rho) == 0 and np.isinf(rho):
            mean = np.where(n == 0, mu, x / np.maximum(n, 1))
            return np.array([mean, mean * (1 - mean) / (n + 1)])
        scale = 1 + rho * n
        mean, rest = (mu + rho * x) / scale, (1 - mu + rho * (n - x)) / scale
        return np.array([mean, mean * rest * (rho / (scale + rho))])

    @staticmethod
    def _shapes(mu, rho, rows):
        """Return both parameters of each client's Beta posterior; one of 0 stands for a point at 0 or 1."""
        x, n = rows
        return mu / rho + x, (1 - mu) / rho + (n - x)

    def _cdf(self, mu, rho, rows, t, strict):
        from scipy.special import betainc

        if is_point(mu, rho):
            return np.broadcast_to(t > mu if strict else t >= mu, rows[0].shape).astype(float)
        a, b = self._shapes(mu, rho, rows)
        if (np.minimum(a, b) > 0).all():
            return betainc(a, b, np.clip(t, 0.0, 1.0))
        at_0, at_1 = np.where(b == 0, 1 - mu, 1.0) * (a == 0), b == 0
        inside = betainc(a, b, np.clip(t, 0.0, 1.0))
        inside = np.where((a > 0) & (b > 0), inside, np.where((t > 0) if strict else (t >= 0), at_0, 0.0))
        return np.where(at_1 & ((t > 1) if strict else (t >= 1)), 1.0, inside)

    def _densities(self, mu, rho, rows, t):
        from scipy.special import betaln, xlog1py, xlogy

        a, b = self._shapes(mu, rho, rows)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            density = np.exp(xlogy(a - 1, t) + xlog1py(b - 1, -t) - betaln(a, b))
            slope = (a - 1) / t - (b - 1) / (1 - t)  # of its logarithm
            bend = (a - 1) / (t * t) + (b - 1) / ((1 - t) * (1 - t))
            return np.array([density, density * slope, density * (slope * slope - bend)])

    def _quantile(self, mu, rho, rows, q):
        from scipy.special import betaincinv

        if is_point(mu, rho):
            return np.full(rows[0].shape, mu)
        a, b = self._shapes(mu, rho, rows)
        inside = betaincinv(a, b, q)
        at_ends = np.where(a > 0, 1.0, np.where(b > 0, 0.0, float(q > 1 - mu)))
        return np.where((a > 0) & (b > 0), inside, at_ends)

    @staticmethod
    def _alike_quantile(mean, sd, q):
        from scipy.special import betaincinv

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size = (mean / sd) * ((1 - mean) / sd) - 1
            return betaincinv(mean * size, (1 - mean) * size, q)

    @staticmethod
    def _prior_moments(location, rho):
        from scipy.special import expit

        return expit(location), np.sqrt(expit(location) * expit(-location) * rho / (1 + rho))

    def _draws(self, mu, rho, rows, generator):
        if is_point(mu, rho):
            return np.full(rows[0].shape, mu)
        a, b = self._shapes(mu, rho, rows)
        inside = generator.beta(np.where(a > 0, a, 1.0), np.where(b > 0, b, 1.0))
        ends = np.where(a > 0, 1.0, np.where(b > 0, 0.0, generator.random(a.shape) < mu))
        return np.where((a > 0) & (b > 0), inside, ends)

    def atoms(self) -> Floats:
        """Return where clients may be exactly equal: at a prior without spread, and at 0 and 1 for the widest."""
        self.require_fit()
        mean, rho = float(self.components_.locations[0]), float(self.components_.rhos[0])
        if self.components_.weights.size > 1:
            return np.zeros(0)
        return np.array([mean]) if is_point(mean, rho) else np.array([0.0, 1.0] if np.isinf(rho) else [])

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' shares of ones, NaN for those without trials."""
        self.require_fit()
        return ratio(self.clients_[0] if arguments is None else np.asarray(arguments[0]), self.clients_[1])


def shapes(mean: float, rho: float) -> tuple[float, float, float]:
    """Return alpha, beta and alpha + beta of the Beta law with this mean and rho = 1 / (alpha + beta)."""
    concentration = np.inf if rho == 0 else 1 / rho
    alpha, beta = (0.0 if part == 0 else part * concentration for part in (mean, 1 - mean))
    return alpha, beta, concentration


def is_point(mu: float, rho: float) -> bool:
    """Return whether one prior is a point, at its mean, or too narrow for the inverse of the incomplete Beta function."""
    return np.ndim(mu) == 0 and rho < NARROW


def both_kinds(tally: BetaBinomialTally) -> int:
    """Return how many clients have both ones and zeros."""
    clients = tally.clients.sum()
    no_one = tally.ones.counts[tally.ones.values == 0].sum()
    no_zero = tally.zeros.counts[tally.zeros.values == 0].sum()
    return int(clients + tally.clients[tally.trials == 0].sum() - no_one - no_zero)


def log_chance(tally: BetaBinomialTally, mean: float, alpha: float, beta: float) -> float:
    """Return the log-likelihood, binomial coefficients included, also at the ends of all parameters."""
    tables = tally.totals, tally.ones, tally.zeros
    if 0 < alpha < np.inf and 0 < beta < np.inf:
        total, ones, zeros = map(log_rises_over_factorials, tables, (alpha + beta, alpha, beta))
        return ones + zeros - total
    apart, ones, zeros = alpha == beta == 0, tally.ones.sum, tally.zeros.sum
    if apart and both_kinds(tally) == 0:  # every client is one draw of 0 or 1
        ones, zeros = (int(table.counts[table.values > 0].sum()) for table in (tally.ones, tally.zeros))
    elif apart or (mean == 0 and ones) or (mean == 1 and zeros):
        return -np.inf
    total, *own = (float(np.einsum("q,q->", w, np.log1p(j))) for j, w in (table.nodes for table in tables))  # of v!
    ways = 0.0 if apart else total - sum(own)
    return float(ways + (ones * np.log(mean) if ones else 0.0) + (zeros * np.log1p(-mean) if zeros else 0.0))
