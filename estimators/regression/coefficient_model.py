"""What the regressions of many clients share: normal posteriors of coefficient vectors, and shapes of their covariance.

Belongs here: intervals, sign rates and predictions from posterior means and covariances, and posteriors as sums of normal
terms.  How unknown covariances are searched for is in ``covariances``, the likelihoods are in ``linear_clients`` and
``logistic_clients``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.limits import times
from estimators.numerics.validation import finite, index, number
from estimators.regression.client_rows import Groups

__all__ = ["CoefficientModel"]


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
    clients of one unit share its k standard normal numbers.
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
    _groups: Groups | None = None
    _group_covariances: Floats

    def set_posterior(self, mean: Floats, terms: Sequence[tuple[Ints, Floats]], unseen: Floats) -> None:
        """Set the posteriors from their means (m, d) and the terms that add up to them."""
        self.posterior_mean_, self.terms_, self.unseen_ = mean, terms, unseen
        self.posterior_covariance_ = added(terms)
        self.posterior_sd_ = np.where(self.blind_, np.inf, np.sqrt(np.einsum("mii->mi", self.posterior_covariance_)))

    def set_groups(self, groups: Groups | None, covariance: Floats, mean: Floats, terms: Sequence[Floats]) -> None:
        """Set what is known of groups: covariance (d, d) between them, means (g, d), loadings (g, d, k) of their terms."""
        self._groups, self.groups_ = groups, () if groups is None else groups.labels
        self.group_covariance_, self.group_mean_ = covariance, mean
        units = np.arange(len(mean))
        self._group_covariances = (
            added([(units, loading) for loading in terms]) if terms else np.zeros((0, *covariance.shape))
        )
        sd = np.sqrt(np.einsum("gii->gi", self._group_covariances))
        self.group_sd_ = np.where(self.blind_, np.inf, sd)

    @property
    def independent(self) -> bool:
        """Whether clients are independent given the data: not where posteriors count mu_ or groups, which they share."""
        self.require_fit()
        return len(self.terms_) == 1

    @property
    def blind_(self) -> Bools:
        """Coefficients (d,) that an unseen direction touches."""
        return np.linalg.norm(self.unseen_, axis=1) > 1e-9

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, array (m, d)."""
        from scipy.special import ndtr

        self.require_fit()
        gap, sd = number("t", t) - self.posterior_mean_, self.posterior_sd_
        step = gap > 0 if strict else gap >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(sd == 0, step, ndtr(np.where(sd == 0, 0.0, gap / sd)))

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, array (m, d)."""
        from scipy.special import ndtri

        self.require_fit()
        return self.posterior_mean_ + times(self.posterior_sd_, ndtri(q))

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m, d) of all coefficients given the data; NaN for `blind_` ones."""
        self.require_fit()
        theta = np.broadcast_to(self.posterior_mean_, (size, *self.posterior_mean_.shape)).copy()
        for units, loadings in self.terms_:
            noise = generator.standard_normal((size, units.max() + 1, loadings.shape[2]))
            theta += np.einsum("mij,smj->smi", loadings, noise[:, units])
        return np.where(self.blind_, np.nan, theta)

    def exceedances(self, rows: slice) -> Floats | None:
        """Return P(theta_i > theta_j) of those clients i and all j, array (rows, m, d), of ties half."""
        from scipy.special import ndtr

        self.require_fit()
        mean = self.posterior_mean_
        m = len(mean)
        gap, variance = mean[rows, None] - mean, np.zeros((len(mean[rows]), *mean.shape))
        for units, loadings in self.terms_:
            own = np.einsum("mij,mij->mi", loadings, loadings)
            apart = own[rows, None] + own
            if units.max() + 1 < m:  # some clients share theirs
                both = np.sum((loadings[rows, None] - loadings) ** 2, axis=3)
                apart = np.where((units[rows, None] == units)[..., None], both, apart)
            variance += apart
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(variance > 0, ndtr(gap / np.sqrt(variance)), 0.5 + 0.5 * np.sign(gap))
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
            return self.group_mean_[g], self.covariance_ + self._group_covariances[g]
        return self.mu_, self.covariance_ + self.group_covariance_ + (self.mu_covariance_ if self.mu_counts_ else 0.0)

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


def added(terms: Sequence[tuple[Ints, Floats]]) -> Floats:
    """Return the covariances (m, d, d) of sums of independent terms."""
    return np.sum([loadings @ np.swapaxes(loadings, 1, 2) for _, loadings in terms], axis=0)
