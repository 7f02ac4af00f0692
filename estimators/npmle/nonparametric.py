"""Empirical Bayes with a prior of any shape: means, binomial rates and Poisson rates of many clients.

Belongs here: the fitted models, their posteriors, and Robbins' formula for comparison.  Does not belong here: how the
mixing distribution is found and certified, which is in ``npmle``; whether intervals cover, which is in ``coverage``.

The maximum likelihood prior is discrete, with few atoms.  Posterior means and likelihoods are as good as those of a smooth
prior; posterior distributions are discrete too, and close to a client's own true value only as far as atoms are: taken
for true, over 20 to 1000 clients with a normal prior they held 47 to 77 % of the truths at 95 %.  Intervals therefore mix
posteriors under many priors, drawn from what all clients leave open about it (``dirichlet``).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from estimators import npmle
from estimators.model import ClientModel
from estimators.npmle import dirichlet
from estimators.npmle.clients import shapes
from estimators.npmle.solver import loops_for, read_grid
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.blocks import parts
from estimators.numerics.mixture_draws import drawn_parts
from estimators.numerics.validation import count, finite, nonnegative, paired, probability, single

if TYPE_CHECKING:
    from estimators.npmle.clients import Clients


__all__ = ["NonparametricCounts", "NonparametricMeans", "NonparametricRates", "robbins"]

BLOCK = 8192  # clients at a time
CELLS = 1 << 20  # clients times cells at a time
MIXED = 1 << 23  # clients times cells times drawn priors
THINNED = 5  # sweeps from one prior to the next where there would be more
LEARNERS = 1000  # clients whom priors are drawn from, if there are more


class Nonparametric(ClientModel):
    """What the three models share: the discrete prior and the posteriors it gives.

    Parameters
    ----------
    grid : array of candidates for the support in the units of theta, or None for all of the parameter space.
    tolerance : number > 0, of the log-likelihood: the fit stops within this of the best of all priors (on the grid).
    max_iter : whole number >= 1 of rounds.
    threads : whole number >= 1 or None for all processors; results do not depend on it.

    Attributes
    ----------
    support_, masses_ : arrays, atoms of the prior in ascending order and their probabilities.
    log_likelihood_ : float, constants included.  gap_ : float, upper bound on what any other prior could add to it, on the
    grid or not.  grid_gap_ : the same for priors on the grid, or None.  n_iter_, converged_ : rounds, and whether gap_ (or
    grid_gap_) is within the tolerance.  posterior_mean_, posterior_sd_ : arrays (n,).
    """

    support_: Floats
    masses_: Floats
    gap_: float
    grid_gap_: float | None
    family_: str
    first_: Floats
    second_: Floats
    t_: Floats
    _clients: Clients
    _row: Ints  # of each client among those that differ, as `_clients` has them
    _parameters: tuple[Floats, Floats]  # of those rows, and of one more, who knows nothing

    default_interval = "integrated"
    _drawn: tuple[dirichlet.Lattice, Floats] | None = None  # cells, and priors on them that are averaged over

    def __init__(
        self, grid: ArrayLike | None = None, tolerance: float = 1e-4, max_iter: int = 200, threads: int | None = None
    ) -> None:
        self.grid = grid
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.threads = threads

    def finish(self, make: Callable[[Floats, Floats], Clients], first: Floats, second: Floats) -> Self:
        """Fit the prior to the informed clients and compute all posterior moments."""
        informed = self.informed(second)
        if not informed.any():
            raise ValueError("no client carries information; give at least one with a finite variance, trials or exposure")
        clients = make(first[informed], second[informed])
        mixing = npmle.maximise(clients, self.grid, self.tolerance, self.max_iter, self.threads)
        if not mixing.converged:
            import warnings

            left = mixing.gap if mixing.grid_gap is None else mixing.grid_gap
            warnings.warn(
                f"{type(self).__name__} stopped with a gap of {left:.3g} in the log-likelihood, more than tolerance="
                f"{self.tolerance}; raise max_iter or tolerance",
                RuntimeWarning,
                stacklevel=4,
            )
        self.support_, self.masses_ = mixing.support, mixing.masses
        self.log_likelihood_, self.gap_, self.grid_gap_ = mixing.log_likelihood, mixing.gap, mixing.grid_gap
        self.n_iter_, self.converged_ = mixing.n_iter, mixing.converged
        self.family_, self.first_, self.second_ = clients.family, first, second
        self.t_, self._clients = clients.coordinate(self.support_), clients
        self._row = np.full(first.size, clients.t.size)
        self._row[informed] = clients.row
        self._parameters = np.append(clients.p1, 0.0), np.append(clients.p2, 0.0)
        moments = [(np.einsum("ik,k->i", w, self.support_), w) for w in self.blocks()]
        self.posterior_mean_ = np.concatenate([mean for mean, _ in moments])[self._row]
        self.posterior_sd_ = np.concatenate(
            [np.sqrt((w * (self.support_ - mean[:, None]) ** 2).sum(axis=1)) for mean, w in moments]
        )[self._row]
        return self

    def log_likelihoods(self, t: Floats, rows: slice | Ints) -> Floats:
        """Return log-likelihoods of those rows at places t of the coordinate, rows by places, but for constants."""
        p1, p2 = (parameter[rows, None] for parameter in self._parameters)
        with np.errstate(over="ignore"):
            if self.family_ == "gaussian":
                return -0.5 * np.square((t - p1) * p2)
            alpha, beta = shapes(t, self.family_)[:2]
            return p1 * alpha + p2 * beta

    def weights(self, rows: slice | Ints) -> Floats:
        """Return posterior probabilities under the fitted prior, rows by atoms."""
        weights = self.log_likelihoods(self.t_, rows)
        with np.errstate(divide="ignore"):
            weights += np.log(self.masses_)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def blocks(self) -> Iterator[Floats]:
        """Yield posterior probabilities under the fitted prior, for blocks of rows."""
        return (self.weights(some) for some in parts(self._clients.t.size + 1, BLOCK))

    def posterior_weights(self) -> Floats:
        """Return the posterior probability of each atom, array (clients, atoms); rows add up to one."""
        self.require_fit()
        return np.concatenate(list(self.blocks()))[self._row]

    def posterior_cdf(self, t: float, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        self.require_fit()
        t = single(finite, "t", t)
        if self._drawn is None:
            below = self.support_ < t if strict else self.support_ <= t
            return np.concatenate([np.minimum(w[:, below].sum(axis=1), 1.0) for w in self.blocks()])[self._row]
        low, high = (self._clients.parameter(end) for end in self._drawn[0][:2])
        inside, width = self._clients.coordinate(np.clip(t, low[0], high[-1])), self._drawn[0].high - self._drawn[0].low
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip((inside - self._drawn[0].low) / width, 0.0, 1.0)
        part = np.where(width > 0, part, low < t if strict else low <= t)
        return np.concatenate([np.minimum(np.einsum("ik,k->i", w, part), 1.0) for w in self.averages()])[self._row]

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        self.require_fit()
        q = single(probability, "q", q)
        if self._drawn is not None:
            return self.averaged_quantiles([q])[0]
        # Sums of probabilities are exact to rounding only; a shortfall of that size counts as reached.
        found = [self.support_[np.argmax(np.cumsum(w, axis=1) >= q - 1e-12, axis=1)] for w in self.blocks()]
        return np.concatenate(found)[self._row]

    def integrated_interval(self, level: float, seed: int) -> tuple[Floats, Floats]:
        """Return quantiles of the average of each client's posteriors under priors drawn given all clients."""
        low, high = self.averaged(seed).averaged_quantiles([(1 - level) / 2, (1 + level) / 2])
        return low, high

    def averaged(self, seed: int = 0) -> Self:
        """Return a model with the average of posteriors under priors drawn given all clients; its prior is the same.

        Of more than 1000 clients they are drawn given 1000, so that the prior is believed a little less than it could be.
        If there is a `grid`, all is on its points.
        """
        self.require_fit()
        generator, clients = np.random.default_rng(seed), self._clients
        cells = dirichlet.lattice(clients) if self.grid is None else dirichlet.points(read_grid(clients, self.grid))
        learners = np.flatnonzero(self.informed(self.second_))
        if learners.size > LEARNERS:
            learners = np.sort(generator.choice(learners, LEARNERS, replace=False))
        likelihoods = cells.heard(self.likelihoods(cells.places, self._row[learners]))
        every = 1 if self.first_.size * cells.low.size * dirichlet.SWEEPS <= MIXED else THINNED
        start = np.abs(cells.centres[:, None] - self.t_).argmin(axis=0), self.masses_
        loops = loops_for(clients.t.size)
        priors = dirichlet.chain(generator, np.log(np.maximum(likelihoods, 1e-300)), cells.base, start, loops, every)
        found = copy.copy(self)
        found._drawn = cells, cells.spread(priors)
        return found

    def likelihoods(self, t: Floats, rows: slice | Ints) -> Floats:
        """Return likelihoods of those rows at places t, rows by places, relative to the largest of each row."""
        found = self.log_likelihoods(t, rows)
        found -= found.max(axis=1, keepdims=True)
        return np.exp(found, out=found)

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true."""
        return self._drawn is None

    def averages(self) -> Iterator[Floats]:
        """Yield averages of posterior probabilities under the drawn priors, rows by cells, for blocks of rows."""
        assert self._drawn is not None
        cells, priors = self._drawn
        for rows in parts(self._clients.t.size + 1, CELLS // cells.low.size):
            heard = self.likelihoods(cells.places, rows)
            whole = np.einsum("ik,bk->ib", heard, priors)
            heard *= np.einsum("ib,bk->ik", 1 / np.maximum(whole, 1e-300), priors)
            heard /= heard.sum(axis=1, keepdims=True)
            yield heard

    def averaged_quantiles(self, levels: list[float]) -> Floats:
        """Return quantiles of the averages, array (levels, m); within a cell probability is even."""
        assert self._drawn is not None
        (low, high, *_), ends = self._drawn[0], []
        for weights in self.averages():
            below = np.cumsum(weights, axis=1)
            rows, found = np.arange(len(below)), []
            for q in levels:
                cell = np.argmax(below >= q - 1e-12, axis=1)
                share = 1 - (below[rows, cell] - q) / np.maximum(weights[rows, cell], 1e-300)
                found.append(low[cell] + (high - low)[cell] * np.clip(share, 0.0, 1.0))
            ends.append(found)
        return self._clients.parameter(np.concatenate(ends, axis=1))[:, self._row]

    def atoms(self) -> Floats:
        """Return the support of the prior, or where an average has points."""
        self.require_fit()
        if self._drawn is None:
            return self.support_
        low, high = self._drawn[0][:2]
        return self._clients.parameter(low[low == high])

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return draws (size, m) of all true values given the data, under the fitted prior or, each of them, one drawn."""
        self.require_fit()
        if self._drawn is None:
            blocks = (self._row[some] for some in parts(self._row.size, BLOCK))
            found = [self.support_[drawn_parts(self.weights(rows), generator.random((size, rows.size)))] for rows in blocks]
            return np.concatenate(found, axis=1)
        cells, priors = self._drawn
        drawn = np.bincount(generator.integers(len(priors), size=size), minlength=len(priors))
        values = np.empty((size, self.first_.size))
        for some in parts(self._row.size, CELLS // cells.low.size):
            heard, ends = self.likelihoods(cells.places, self._row[some]), np.cumsum(drawn)
            for prior, begin, end in zip(priors, ends - drawn, ends, strict=True):
                if end > begin:
                    cell = drawn_parts(heard * prior, generator.random((end - begin, len(heard))))
                    values[begin:end, some] = cells.low[cell] + (cells.high - cells.low)[cell] * generator.random(cell.shape)
        return self._clients.parameter(values)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own estimates, shares or rates; NaN for those who know nothing."""
        self.require_fit()
        first = self.first_ if arguments is None else np.asarray(arguments[0], float)
        known = self.informed(self.second_)
        return np.where(known, first / (1.0 if self.family_ == "gaussian" else np.where(known, self.second_, 1.0)), np.nan)

    @staticmethod
    def informed(second: Floats) -> Bools:
        """Return which clients carry information: trials, or an exposure."""
        return second > 0

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior and its certificate as plain Python values."""
        self.require_fit()
        mean = float(self.masses_ @ self.support_)
        return {
            "family": "points",
            "found_by": "nonparametric maximum likelihood",
            "mean": mean,
            "sd": float(np.sqrt(self.masses_ @ (self.support_ - mean) ** 2)),
            "probabilities": self.masses_.tolist(),
            "means": self.support_.tolist(),
            "sds": [0.0] * self.support_.size,
            "gap": self.gap_,
        }

    def truths(self, generator: np.random.Generator, given: ArrayLike | None = None) -> Floats:
        """Return one new truth per client from the fitted prior, or those given, checked."""
        self.require_fit()
        if given is not None:
            return self.read_truth(given, self.first_.shape)
        return generator.choice(self.support_, self.first_.size, p=self.masses_)


def pair(name: str, first: Floats, other: str, second: Floats) -> tuple[Floats, Floats]:
    """Return two checked columns of equal length; a number in the second stands for all clients."""
    if first.ndim != 1 or not first.size:
        raise ValueError(f"{name} must be a one-dimensional array with at least one client, got shape {first.shape}")
    if second.ndim == 0:
        second = np.full(first.shape, float(second))
    if second.shape != first.shape:
        raise ValueError(f"{other} must have one entry per client, shape {first.shape}, got {second.shape}")
    return first, second


class NonparametricMeans(Nonparametric):
    """Gaussian means of clients with unequal variances under a prior of any shape, by maximum likelihood.

    Model: estimates_i ~ N(theta_i, variances_i), theta_i ~ G; G by maximum likelihood over all distributions (Kiefer &
    Wolfowitz 1956; Jiang & Zhang 2009, Ann. Statist. 37:1647).  Posterior under a discrete prior: generative:thm5.
    Parameters and attributes as in the base class.  A client with infinite variance tells nothing: it is left out of the
    likelihood and its posterior is the prior.  One client, or equal estimates, give a single atom and posterior_sd_ 0.

    >>> model = NonparametricMeans().fit([-3.0, -3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0])
    >>> model.support_.round(2).tolist(), model.posterior_mean_.round(2).tolist()
    ([-3.0, 3.0], [-3.0, -3.0, 3.0, 3.0])
    """

    @paired
    def fit(self, estimates: ArrayLike, variances: ArrayLike) -> Self:
        """Fit to estimates, array (n,), with known variances, array (n,) or a number, > 0 or inf.  Returns self.

        Raises
        ------
        ValueError naming the argument outside its domain.  A variance of 0 makes the likelihood unbounded.
        """
        variances = nonnegative("variances", variances, infinite=True)
        if (variances == 0).any():
            raise ValueError("variances must be > 0: at a known mean the likelihood of a free prior is unbounded")
        estimates, variances = pair("estimates", finite("estimates", estimates), "variances", variances)
        return self.finish(npmle.gaussian_clients, estimates, variances)

    @staticmethod
    def informed(second: Floats) -> Bools:
        """Return which clients carry information: a finite variance."""
        return np.isfinite(second)

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Return the estimates and their variances."""
        self.require_fit()
        return self.first_, self.second_

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Floats, Floats]]:
        """Return (truth, (estimates, variances)): new truths from the fitted prior and new estimates of them."""
        truth = self.truths(generator, truth)
        noise = np.sqrt(np.where(np.isfinite(self.second_), self.second_, 0.0))
        return truth, (truth + noise * generator.standard_normal(truth.size), self.second_)


class NonparametricRates(Nonparametric):
    """Success probabilities of clients with unequal numbers of trials under a prior of any shape, by maximum likelihood.

    Model: x_i ~ Binomial(n_i, theta_i), theta_i ~ G on [0, 1].  With few trials the data fix only a few moments of G, and
    many priors reach the same likelihood (Lord & Cressie 1975); the one returned is one of them.  A client without trials
    has the prior as its posterior.  Posterior under a discrete prior: generative:thm5.

    >>> model = NonparametricRates().fit([1, 1, 9, 9], [10, 10, 10, 10])
    >>> model.support_.round(3).tolist(), model.posterior_mean_.round(3).tolist()
    ([0.1, 0.9], [0.1, 0.1, 0.9, 0.9])
    """

    @paired
    def fit(self, x: ArrayLike, n: ArrayLike) -> Self:
        """Fit to successes x, array of whole numbers, in n trials, array or a number.  Returns self.

        Raises
        ------
        ValueError naming the argument outside its domain.
        """
        x, n = pair("x", count("x", x, 0), "n", count("n", n, 0))
        if (x > n).any():
            raise ValueError(f"x must not exceed n; client {int(np.argmax(x > n))} has more successes than trials")
        return self.finish(npmle.binomial_clients, x, n)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Ints, Floats]]:
        """Return (truth, (x, n)): new truths from the fitted prior and new successes."""
        truth = probability("truth", self.truths(generator, truth))
        return truth, (generator.binomial(self.second_.astype(np.int64), truth), self.second_)


class NonparametricCounts(Nonparametric):
    """Poisson rates of clients with unequal exposure under a prior of any shape, by maximum likelihood.

    Model: x_i ~ Poisson(exposure_i theta_i), theta_i ~ G on [0, inf) (Simar 1976, Ann. Statist. 4:1200).  A client without
    exposure has the prior as its posterior.  Posterior under a discrete prior: generative:thm5.

    >>> model = NonparametricCounts().fit([0, 0, 20, 20])
    >>> model.support_.round(3).tolist(), model.posterior_mean_.round(3).tolist()
    ([0.0, 20.0], [0.0, 0.0, 20.0, 20.0])
    """

    @paired
    def fit(self, x: ArrayLike, exposure: ArrayLike = 1.0) -> Self:
        """Fit to counts x, array of whole numbers, with exposures, array or a number, >= 0.  Returns self.

        Raises
        ------
        ValueError naming the argument outside its domain.
        """
        x, exposure = pair("x", count("x", x, 0), "exposure", nonnegative("exposure", exposure))
        if ((exposure == 0) & (x > 0)).any():
            raise ValueError("x must be 0 where exposure is 0")
        return self.finish(npmle.poisson_clients, x, exposure)

    def predictive_mean(self, exposure: ArrayLike = 1.0) -> Floats:
        """Return the expected count of each client over a new exposure, array (n,): its posterior mean times that."""
        self.require_fit()
        return self.posterior_mean_ * nonnegative("exposure", exposure)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Ints, Floats]]:
        """Return (truth, (x, exposure)): new truths from the fitted prior and new counts."""
        truth = nonnegative("truth", self.truths(generator, truth))
        return truth, (generator.poisson(truth * self.second_), self.second_)


def robbins(x: ArrayLike) -> Floats:
    """Robbins' estimates of the posterior means of Poisson rates with equal exposure; estimate.

    (k + 1) times the share of clients with count k + 1 over the share with k (Robbins 1956).  Unbiased in its parts, but not
    monotone in k, and 0 for the largest count.

    Parameters
    ----------
    x : array of whole numbers >= 0, one count per client.

    Returns
    -------
    array like x.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> robbins([0, 0, 1, 2]).tolist()
    [0.5, 0.5, 2.0, 0.0]
    """
    x = count("x", x, 0).astype(np.int64)
    if x.ndim != 1:
        raise ValueError(f"x must be a list with one count per client, got shape {x.shape}")
    _, place, tally = np.unique(x, return_inverse=True, return_counts=True)
    seen = dict(zip(x.tolist(), tally[place].tolist(), strict=True))
    return np.array([(k + 1) * seen.get(k + 1, 0) / seen[k] for k in x.tolist()])
