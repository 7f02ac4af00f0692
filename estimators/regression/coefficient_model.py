"""What the regressions of many clients share: normal posteriors of coefficient vectors, and shapes of their covariance.

Belongs here: intervals, sign rates and predictions from posterior means and covariances, and posteriors as sums of normal
terms.  How unknown covariances are searched for is in ``covariances``, the likelihoods are in ``linear_clients`` and
``logistic_clients``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from estimators.model import ClientModel
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.inversion import lattice_quantile
from estimators.numerics.limits import times
from estimators.numerics.validation import finite, fraction, index, number, single
from estimators.regression.client_rows import Groups
from estimators.regression.covariance_average import even

__all__ = ["CoefficientModel", "Posterior"]

PAIRS, LEAST = 4_000_000, 32  # pairs of clients times nodes of an average from which on nodes are fewer, and how few


class Posterior(NamedTuple):
    """What the data say under one prior.

    mu (d,) and its covariance (d, d); covariances (d, d) of clients, `within` groups if there are any, and `between` groups;
    means (m, d) of clients and the terms that add up to their posteriors; means (g, d) of groups, loadings of their terms.
    """

    mu: Floats
    mu_covariance: Floats
    within: Floats
    between: Floats
    mean: Floats
    terms: Sequence[tuple[Ints, Floats]]
    group_mean: Floats
    group_terms: Sequence[Floats]

    @classmethod
    def alone(
        cls, mu: Floats, mu_covariance: Floats, within: Floats, mean: Floats, terms: Sequence[tuple[Ints, Floats]]
    ) -> Self:
        """Return that of clients without groups."""
        d = len(mu)
        return cls(mu, mu_covariance, within, np.zeros((d, d)), mean, terms, np.zeros((0, d)), [np.zeros((0, d, d))])


class Parts:
    """Sums over priors of means (..., d) and covariances (..., d, d) of the same things, about an `origin` near them."""

    def __init__(self, origin: Floats) -> None:
        self.origin = origin
        self.first: Floats = np.zeros(origin.shape)
        self.second: Floats = np.zeros((*origin.shape, origin.shape[-1]))
        self.means: list[Floats] = []
        self.sds: list[Floats] = []

    def add(self, weight: float, mean: Floats, covariance: Floats) -> None:
        """Count what holds under one prior."""
        away = mean - self.origin
        self.first += weight * away
        self.second += weight * (covariance + away[..., :, None] * away[..., None, :])
        self.means.append(mean)
        self.sds.append(np.sqrt(np.einsum("...ii->...i", covariance)))

    def moments(self) -> tuple[Floats, Floats]:
        """Return means and covariances of the average, whose weights add up to 1."""
        return self.origin + self.first, self.second - self.first[..., :, None] * self.first[..., None, :]

    def mixtures(self) -> tuple[Floats, Floats]:
        """Return means and sds (..., d, K) under each prior."""
        return np.stack(self.means, axis=-1), np.stack(self.sds, axis=-1)


@dataclass(frozen=True)
class Average:
    """An average over K priors: weights (K,), means and sds (m, d, K) of clients and (d, K) of mu.

    within, between : covariances (K, d, d) of clients, within groups if there are any, and of groups, for each prior.
    terms : under each prior, as of `Posterior`.
    """

    weights: Floats
    clients: tuple[Floats, Floats]
    centre: tuple[Floats, Floats]
    within: Floats
    between: Floats
    terms: Sequence[Sequence[tuple[Ints, Floats]]]


class CoefficientModel(ClientModel):
    """Base of models whose client i has a vector of coefficients with the posterior N(posterior_mean_[i], ...).

    After `fit`: ``posterior_mean_`` (m, d), ``posterior_covariance_`` (m, d, d), ``posterior_sd_`` (m, d); ``mu_`` (d,),
    ``covariance_`` (d, d) of the prior; ``borrowed_`` (m,), the share of a client's estimate that comes from the others:
    1 less the slope of a coefficient's posterior mean in the client's own estimate of it, averaged over the coefficients
    that vary;
    ``unseen_`` (d, u), directions in which no client's features vary.  Along those the data say nothing about a learnt
    prior: the mean there is 0, the covariance matrices leave the direction out, and the standard deviation of every
    coefficient that such a direction touches is inf.

    With groups of clients theta_i = mu + effect of its group + effect of its own: ``covariance_`` is then that of clients of
    one group, ``group_covariance_`` (d, d) that of groups, ``groups_`` the labels of the groups, ``group_mean_`` (g, d) and
    ``group_sd_`` (g, d) the posteriors of mu + effect.

    ``terms_`` are independent normal parts that add up to the posteriors: pairs of units (m,) and loadings (m, d, k), where
    clients of one unit share its k standard normal numbers.  Where posteriors are an average over priors, ``average_``,
    those are the terms at ``covariance_``.
    """

    mu: ArrayLike | None
    covariance: Any  # a name of a shape, or an array
    prior: Any
    mu_: Floats
    covariance_: Floats
    posterior_covariance_: Floats
    unseen_: Floats
    borrowed_: Floats
    group_covariance_: Floats
    group_mean_: Floats
    group_sd_: Floats
    groups_: tuple[Hashable, ...] = ()
    terms_: Sequence[tuple[Ints, Floats]]
    mu_counts_ = False  # whether posteriors count how far off mu_ may be
    mu_covariance_: Floats
    average_: Average | None = None
    _groups: Groups | None = None
    _group_covariances: Floats

    def set_posterior(self, found: Posterior, groups: Groups | None, unseen: Floats) -> None:
        """Set the prior and the posteriors under it."""
        self.average_, self.unseen_, self.terms_ = None, unseen, found.terms
        self._groups, self.groups_ = groups, () if groups is None else groups.labels
        self.mu_, self.mu_covariance_ = np.array(found.mu), found.mu_covariance
        self.covariance_, self.group_covariance_ = found.within, found.between
        self.set_moments(found.mean, added(loadings for _, loadings in found.terms))
        self.set_group_moments(found.group_mean, added(found.group_terms))

    def set_average(self, weights: Floats, priors: Iterable[Posterior]) -> None:
        """Replace posteriors, and what is known of mu, by averages over priors with these weights (K,)."""
        within, between, terms = [], [], []
        mu, own, groups = Parts(self.mu_), Parts(self.posterior_mean_), Parts(self.group_mean_)
        for weight, found in zip(weights.tolist(), priors, strict=True):
            mu.add(weight, found.mu, found.mu_covariance)
            own.add(weight, found.mean, added(loadings for _, loadings in found.terms))
            groups.add(weight, found.group_mean, added(found.group_terms))
            within.append(found.within)
            between.append(found.between)
            terms.append(found.terms)
        self.average_ = Average(weights, own.mixtures(), mu.mixtures(), np.array(within), np.array(between), terms)
        self.mu_, self.mu_covariance_ = mu.moments()
        self.set_moments(*own.moments())
        self.set_group_moments(*groups.moments())

    def set_moments(self, mean: Floats, covariance: Floats) -> None:
        """Set means (m, d), covariances (m, d, d) and standard deviations of the posteriors."""
        self.posterior_mean_, self.posterior_covariance_ = mean, covariance
        self.posterior_sd_ = np.where(self.blind_, np.inf, np.sqrt(np.einsum("mii->mi", covariance)))

    def set_group_moments(self, mean: Floats, covariances: Floats) -> None:
        """Set means (g, d), covariances (g, d, d) and standard deviations of what is known of groups."""
        self.group_mean_, self._group_covariances = mean, covariances
        self.group_sd_ = np.where(self.blind_, np.inf, np.sqrt(np.einsum("gii->gi", covariances)))

    def priors(self, most: int) -> Iterator[tuple[float, Floats, Sequence[tuple[Ints, Floats]]]]:
        """Yield weights, posterior means and terms under the fitted prior, or at most so many priors of an average."""
        if self.average_ is None:
            yield 1.0, self.posterior_mean_, self.terms_
        else:
            for k, weight in zip(*even(self.average_.weights, most), strict=True):
                yield float(weight), self.average_.clients[0][..., k], self.average_.terms[k]

    @property
    def independent(self) -> bool:
        """Whether clients are independent given the data: not where they share mu_, groups or an unknown covariance."""
        self.require_fit()
        return len(self.terms_) == 1 and self.average_ is None

    @property
    def blind_(self) -> Bools:
        """Coefficients (d,) that an unseen direction touches."""
        return np.linalg.norm(self.unseen_, axis=1) > 1e-9

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, array (m, d)."""
        from scipy.special import ndtr

        self.require_fit()
        if self.average_ is not None:
            t = np.broadcast_to(number("t", t), self.posterior_mean_.shape)
            return np.where(self.blind_, 0.5, normal_mixture.cdf(t, self.average_.weights, *self.average_.clients, strict))
        gap, sd = number("t", t) - self.posterior_mean_, self.posterior_sd_
        step = gap > 0 if strict else gap >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sd == 0, step, ndtr(gap / sd))

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, array (m, d)."""
        from scipy.special import ndtri

        self.require_fit()
        q = single(fraction, "q", q)
        if self.average_ is not None:
            found = normal_mixture.quantile(q, self.average_.weights, *self.average_.clients)
            return np.where(self.blind_, times(np.inf, ndtri(q)), found)
        return self.posterior_mean_ + times(self.posterior_sd_, ndtri(q))

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m, d) of all coefficients given the data; NaN for `blind_` ones."""
        self.require_fit()
        if self.average_ is None:
            return self.drawn(generator, size, self.posterior_mean_, self.terms_)
        nodes = generator.choice(len(self.average_.weights), size, p=self.average_.weights)
        theta = np.empty((size, *self.posterior_mean_.shape))
        for k in np.unique(nodes).tolist():
            mean, terms = self.average_.clients[0][..., k], self.average_.terms[k]
            theta[nodes == k] = self.drawn(generator, int(np.sum(nodes == k)), mean, terms)
        return theta

    def drawn(self, generator: np.random.Generator, size: int, mean: Floats, terms: Sequence[tuple[Ints, Floats]]) -> Floats:
        """Return draws (size, m, d) of sums of terms about a mean; NaN for `blind_` coefficients."""
        theta = np.broadcast_to(mean, (size, *mean.shape)).copy()
        for units, loadings in terms:
            noise = generator.standard_normal((size, units.max() + 1, loadings.shape[2]))
            theta += np.einsum("mij,smj->smi", loadings, noise[:, units])
        return np.where(self.blind_, np.nan, theta)

    def exceedances(self, rows: slice) -> Floats | None:
        """Return P(theta_i > theta_j) of those clients i and all j, array (rows, m, d), of ties half."""
        from scipy.special import ndtr

        self.require_fit()
        found = 0.0
        m = len(self.posterior_mean_)
        for weight, mean, terms in self.priors(max(LEAST, PAIRS // m**2)):
            gap, variance = mean[rows, None] - mean, np.zeros((len(mean[rows]), *mean.shape))
            for units, loadings in terms:
                own = np.einsum("mij,mij->mi", loadings, loadings)
                apart = own[rows, None] + own
                if units.max() + 1 < m:  # some clients share theirs
                    both = np.sum((loadings[rows, None] - loadings) ** 2, axis=3)
                    apart = np.where((units[rows, None] == units)[..., None], both, apart)
                variance += apart
            with np.errstate(divide="ignore", invalid="ignore"):
                found += weight * np.where(variance > 0, ndtr(gap / np.sqrt(variance)), 0.5)  # they differ or are the same
        found = np.asarray(found)
        found[np.arange(m)[rows] - np.arange(m)[rows][0], np.arange(m)[rows]] = 0.5
        return np.where(self.blind_, np.nan, found)

    def atoms(self) -> Floats:
        """Return the means of coefficients that do not differ between clients."""
        self.require_fit()
        return self.posterior_mean_[self.posterior_sd_ == 0]

    def expected(self, i: int | None, group: Hashable | None = None) -> Floats:
        """Return the expected coefficients (d,) of client i, or of a client without data, of that group if given."""
        mean, _ = self.law(i, group)
        return mean.copy()

    def law(self, i: int | None, group: Hashable | None) -> tuple[Floats, Floats]:
        """Return mean (d,) and covariance (d, d) of the coefficients of client i, or of one without data."""
        self.require_fit()
        if i is not None:
            if group is not None:
                raise ValueError("group is for a client without data; leave it out where i is given")
            i = index("i", i, 0, len(self.posterior_mean_) - 1)
            return self.posterior_mean_[i], self.posterior_covariance_[i]
        if group is not None:
            if group not in self.groups_:
                raise ValueError(f"group must be one of the groups of the fit, got {group!r}; leave it out for a new one")
            g = self.groups_.index(group)
            return self.group_mean_[g], self.spread()[0] + self._group_covariances[g]
        within, between = self.spread()
        return self.mu_, within + between + (self.mu_covariance_ if self.mu_counts_ else 0.0)

    def spread(self) -> tuple[Floats, Floats]:
        """Return covariances (d, d) of clients about their group and of groups, expected ones of an average of priors."""
        if self.average_ is None:
            return self.covariance_, self.group_covariance_
        weights = self.average_.weights
        return np.tensordot(weights, self.average_.within, 1), np.tensordot(weights, self.average_.between, 1)

    def linear_predictor(self, i: int | None, X: ArrayLike, group: Hashable | None = None) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of X theta_i given the data; i=None is a client without data, of that group."""
        self.require_fit()
        X = finite("X", X)
        if X.ndim != 2 or X.shape[1] != len(self.mu_):
            raise ValueError(f"X must have shape (samples, {len(self.mu_)}), got {X.shape}")
        mean, covariance = self.law(i, group)
        variance = np.maximum(np.einsum("nj,jk,nk->n", X, covariance, X), 0.0)
        blind = np.linalg.norm(X @ self.unseen_, axis=1) > 1e-9 * np.abs(X).max(axis=1, initial=0.0)
        return X @ mean, np.where(blind, np.inf, np.sqrt(variance))

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values; "sd" is inf for coefficients that `unseen_` directions touch.

        With groups "sd", "correlation" and "covariance" are of all clients, "sd_within_groups" of clients of one group and
        "sd_between_groups" of groups.
        """
        self.require_fit()
        total = self.covariance_ + self.group_covariance_
        sd = np.sqrt(np.diag(total))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = np.where(np.outer(sd, sd) > 0, total / np.outer(sd, sd), 0.0)
        given = self.mu is not None and not isinstance(self.covariance, str)
        found = {
            "family": "normal",
            "found_by": "fixed" if given else self.prior,
            "mean": self.mu_.tolist(),
            "sd": np.where(self.blind_, np.inf, sd).tolist(),
            "correlation": correlation.tolist(),
            "covariance": total.tolist(),
        }
        if self.groups_:
            for name, covariance in (("within", self.covariance_), ("between", self.group_covariance_)):
                found[f"sd_{name}_groups"] = np.where(self.blind_, np.inf, np.sqrt(np.diag(covariance))).tolist()
        return found

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" and "sd" of coefficients and for those of a "new client", if priors are averaged over.

        Pairs in the order of the coefficients; with groups, of all clients, and a client of a new group; nothing where one
        prior is taken for true.  Ends are infinite for coefficients that `unseen_` directions touch.  Those of "sd" lie
        between nodes: with four clients the upper one may be an eighth off.
        """
        self.require_fit()
        level = single(fraction, "level", level)
        if self.average_ is None:
            return {}
        weights, (means, errors) = self.average_.weights, self.average_.centre
        variances = np.einsum("kii->ik", self.average_.within + self.average_.between)
        found, tails = {}, ((1 - level) / 2, (1 + level) / 2)
        for name, sds in (("mean", errors), ("new client", np.sqrt(errors**2 + variances))):
            ends = [normal_mixture.quantile(q, weights, means, sds) for q in tails]
            found[name] = np.where(self.blind_, [[-np.inf], [np.inf]], ends).T
        spread = [np.array([lattice_quantile(v, weights, q) for v in np.sqrt(variances)]) for q in tails]
        found["sd"] = np.where(self.blind_, [[0.0], [np.inf]], spread).T
        return {name: [(float(low), float(high)) for low, high in found[name]] for name in ("mean", "sd", "new client")}

    def draw_truth(self, generator: np.random.Generator, truth: ArrayLike | None) -> Floats:
        """Return coefficients (m, d) drawn from the fitted prior, or the `truth` given; the same draws either way."""
        shape = self.posterior_mean_.shape
        levels = [(np.arange(shape[0]), self.covariance_)]
        if self._groups is not None:
            levels.append((self._groups.codes, self.group_covariance_))
        drawn = np.broadcast_to(self.mu_, shape)
        for units, covariance in levels:
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            drawn = drawn + (generator.standard_normal((units.max() + 1, shape[1])) @ root.T)[units]
        return drawn if truth is None else self.read_truth(truth, shape)


def added(loadings: Iterable[Floats]) -> Floats:
    """Return the covariances (m, d, d) of sums of independent terms with loadings (m, d, k)."""
    return np.sum([loading @ np.swapaxes(loading, 1, 2) for loading in loadings], axis=0)
