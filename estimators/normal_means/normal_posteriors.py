"""Clients' posteriors under normal priors that are averaged over: mixtures of normal laws, one for each value of tau2.

Belongs here: what follows for clients from such an average, whatever it was learnt from.  Learning it is in
``gaussian_means``, the arithmetic of given mixtures in ``numerics.normal_mixture``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from estimators.model import ClientModel
from estimators.normal_means.meta_regression import Design
from estimators.normal_means.tau2_likelihood import BLOCK, MANY
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.blocks import dot, dots, parts
from estimators.numerics.surfaces import from_cells
from estimators.numerics.validation import finite, fraction, single

__all__ = ["HUGE", "NormalPosteriors"]

ALIKE = 1000  # clients from whom on quantiles are interpolated between few of them
DEGREE = 16  # of the polynomials for that: few cells, as functions are cheap
HUGE = 1e300  # stands for an infinite variance where the limit is the same
MANY_PAIRS = 2000  # clients from whom on what is unknown of the prior, of order one over their number, moves no pair


class NormalPosteriors(ClientModel):
    """Base of models whose clients' true values are N(prior mean, tau2), averaged over nodes of tau2.

    A subclass sets ``_scaled`` (estimates and their variances, arrays (m,)), ``_nodes`` (values of tau2, means and variances
    of the centre there, or of the coefficients of the ``_design``, and their probabilities) and ``_origin`` of these
    coefficients, all in units of 2^``_exponent``, and ``_bounded``, whether the average has second moments.
    """

    estimates_: Floats
    variances_: Floats
    weights_: Floats
    _scaled: list[Floats]
    _nodes: tuple[Floats, Floats, Floats, Floats]
    _design: Design | None
    _origin: float
    _exponent: int
    _bounded: bool

    def centres(self, rows: Ints | slice = slice(None)) -> tuple[Floats, Floats]:
        """Return means and variances of the prior mean at every node, for clients of those rows."""
        _, mus, variances, _ = self._nodes
        return (mus, variances) if self._design is None else self.centres_at(self._design.basis[rows])

    def centres_at(self, basis: Floats) -> tuple[Floats, Floats]:
        """Return means and variances of the prior mean at every node, for rows of the design's basis."""
        _, mus, variances, _ = self._nodes
        return self._origin + np.einsum("ip,kp->ik", basis, mus), np.einsum("ip,kpq,iq->ik", basis, variances, basis)

    def set_averages(self, shares: Floats) -> None:
        """Set posterior means, sds and own weights, in the units of the fit."""
        y, v = self._scaled
        if y.size >= MANY and self._design is None:
            from estimators.normal_means.normal_kernels import averages

            return averages(y, v, HUGE, *self._nodes, self.weights_, self.posterior_mean_, self.posterior_sd_)
        for rows, weights, means, variances in self.mixtures():
            np.einsum("ik,k->i", weights, shares, out=self.weights_[rows])
            np.einsum("ik,k->i", means, shares, out=self.posterior_mean_[rows])
            variances += (means - self.posterior_mean_[rows, None]) ** 2
            np.sqrt(np.einsum("ik,k->i", variances, shares), out=self.posterior_sd_[rows])

    def mixtures(self) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        """Yield slices of clients with own weights, means and variances of their posteriors at each node of tau2.

        Means are in units of 2^`_exponent`, as are the nodes.
        """
        tau2s, _, _, shares = self._nodes
        estimates, variances = self._scaled
        for rows in parts(estimates.size, BLOCK // shares.size):
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

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        from scipy.special import ndtri

        self.require_fit()
        q, shares, m = single(fraction, "q", q), self._nodes[-1], self.estimates_.size
        if shares.size == 1:
            return self.posterior_mean_ + ndtri(q) * self.posterior_sd_
        if self._design is None and self._bounded and m > ALIKE:
            return self._interpolated_quantile(q)
        found, compiled = np.empty(m), m >= normal_mixture.MANY
        for rows, _, means, variances in self.mixtures():
            found[rows] = normal_mixture.quantile(q, shares, means, np.sqrt(variances), compiled=compiled)
        return np.ldexp(found, self._exponent)

    def _interpolated_quantile(self, q):
        """Return quantiles of all clients from those of few: smooth functions of two numbers, which are a client's data.

        They are the angle with tan^2 = v / tau2, in which nothing is singular for v = 0 or infinity, and the estimate's
        distance from the centre in standard deviations, as of a middle tau2.
        """
        tau2s, mus, mu_variances, shares = self._nodes
        y, v = self._scaled
        tau2, mu = float(np.exp(dot(shares, np.log(tau2s)))), dot(shares, mus)
        root, away = np.sqrt(tau2), mus - mu

        def departure(angle, z):  # of the quantile from the posterior mean, in posterior sds
            c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
            whole, z = tau2s * c**2 + tau2 * s**2, root * z[:, None]  # all below in units of s
            rest = tau2 * s / whole
            with np.errstate(divide="ignore", invalid="ignore"):  # means from the estimate or from mu, to lose no digits
                means = np.where(c > s, rest * (away - z / c), rest * away + tau2s * c * z / (whole * s))
            variances = tau2 / whole * (tau2s + mu_variances * rest * s)
            mean = np.einsum("ik,k->i", means, shares)
            sd = np.sqrt(np.einsum("ik,k->i", variances + (means - mean[:, None]) ** 2, shares))
            return (normal_mixture.quantile(q, shares, means, np.sqrt(variances)) - mean) / sd

        z = np.where(np.isfinite(v), (y - mu) / np.sqrt(tau2 + v), 0.0)
        found = from_cells(departure, np.arctan(np.sqrt(v / tau2)), z, DEGREE)
        return self.posterior_mean_ + self.posterior_sd_ * found

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
        means = np.broadcast_to(self.centres()[0], (y.size, shares.size))
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

    def predictive_ranks(self) -> Floats:
        """Return P(less than was seen) for each client given all others, exact at every tau2 of the average.

        A client's own data are taken out of the centre, and out of the probability of each tau2; the hyperprior's scale, and
        a single tau2 that was estimated, stay as they are.
        """
        from scipy.special import ndtr

        self.require_fit()
        tau2s, _, _, shares = self._nodes
        y, found = self._scaled[0], []
        for rows in parts(y.size, BLOCK // shares.size):
            total = np.minimum(self._scaled[1][rows, None], HUGE) + tau2s
            mean, error = self.centres(rows)
            rest = np.maximum(1 - error / total, 1e-12)  # of the information about the centre, without this client
            residual = (y[rows, None] - mean) / rest
            variance = total + error / rest
            logs = np.log(np.maximum(shares, 1e-300)) + (np.log(variance) + residual**2 / variance) / 2
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            found.append(dots(weights, ndtr(residual / np.sqrt(variance))))
        return np.concatenate(found)


def covariance_root(covariances: Floats) -> Floats:
    """Return roots R of covariance matrices (..., p, p), each R R' up to rounding: rounding may leave no Cholesky factor."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
