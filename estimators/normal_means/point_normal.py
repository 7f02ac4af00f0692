"""Gaussian means of which some may be exactly equal: a prior with a spike and a normal slab around the same mode.

Belongs here: that prior, its likelihood and where it is largest, and posteriors.  The average over what few clients leave
open about it is in ``spike_average``, a normal prior without spike in ``gaussian_means``, one of any shape in ``npmle``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from estimators.model import ClientModel
from estimators.normal_means.gaussian_means import GaussianMeans, read_estimates
from estimators.normal_means.normal_posteriors import HUGE, MANY_PAIRS
from estimators.normal_means.tau2_likelihood import MANY
from estimators.numerics import normal_mixture
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.blocks import dot, dots, parts
from estimators.numerics.inversion import lattice_quantile
from estimators.numerics.units import LOG2, gaussian_unit, represented
from estimators.numerics.validation import choice, finite, fraction, paired, single

if TYPE_CHECKING:
    from estimators.normal_means import spike_average

__all__ = ["PointNormalMeans"]

PRIORS = ("bayes", "marginal-likelihood")
BLOCK = 1 << 20  # clients times nodes at a time
SAMPLE = 2048  # clients on whom starts are tried out
CHUNK = 8192  # clients whose terms are held in memory at once


class PointNormalMeans(ClientModel):
    """Empirical Bayes for means of which a share is exactly equal: learn a spike at the mode and a normal slab around it.

    Model: theta_i = mode with probability spike_weight, else theta_i ~ N(mode, tau2); estimate_i ~ N(theta_i, variance_i)
    with known variances, which may differ.  A client of infinite variance gets the prior.

    Parameters
    ----------
    mode : number, or None to estimate it.
    prior : how the rest of the prior is learnt.
        "bayes" averages the posteriors over all modes (uniform), weights of the spike (0 with chance 1/2, else uniform) and
        variances of the slab (the law "strawderman" of ``GaussianMeans``) given all estimates, so that no interval has
        width 0 at a mode that is only estimated, and few clients are not believed more than they know;
        "marginal-likelihood" takes the most likely ones (R ``ebnm``'s "point_normal") for known: with 90 % of the clients in
        the spike and the mode unknown, 95 % intervals then held the truth 45 % of the time over 20 clients and 41 over 1000.

    Attributes
    ----------
    mode_, spike_weight_, tau2_ : the most likely prior, which "bayes" does not use: `prior_summary` describes what it uses.
        If nothing differs from the mode, spike_weight_ is 1 and tau2_ is 0.
    posterior_mean_, posterior_sd_ : of each theta_i; for "bayes" the sd of a client of infinite variance is inf, as nothing
        bounds the variance of a slab that may have no clients.
    slab_probability_ : posterior probability that theta_i is not exactly the mode.
    weights_ : weight w of each client's own estimate y in its posterior mean, mode_ + w (y - mode_); it depends on y too.
        For "bayes" the centre in place of mode_ is the mean of the modes with what each prior takes of them.
    log_likelihood_ : log density of the estimates of finite variance at the most likely prior.  Not below that of a normal
        prior, which is the limit spike_weight_ = 0.
    converged_ : bool; n_iter_ : number of passes over the data.

    Notes
    -----
    Newton's method in (logit of the slab's weight, log tau2, mode) with exact derivatives, from several starts tried on
    at most 2048 clients, then compared with the normal prior.  The likelihood can have several local maxima; the best one
    found is kept.

    >>> estimates = [0.1, -0.2, 0.3, -0.1, 0.0, 6.0, -7.0, 0.2]
    >>> model = PointNormalMeans(mode=0.0, prior="marginal-likelihood").fit(estimates, variances=0.04)
    >>> round(model.spike_weight_, 3), round(model.tau2_, 1), model.slab_probability_.round(2).tolist()
    (0.737, 40.3, [0.01, 0.02, 0.03, 0.01, 0.01, 1.0, 1.0, 0.02])
    >>> PointNormalMeans().fit(estimates, variances=0.04).slab_probability_.round(2).tolist()
    [0.02, 0.05, 0.05, 0.03, 0.02, 1.0, 1.0, 0.03]
    """

    estimates_: Floats
    variances_: Floats
    mode_: float
    tau2_: float
    spike_weight_: float
    slab_probability_: Floats
    slab_mean_: Floats
    slab_sd_: Floats
    weights_: Floats
    _nodes: spike_average.Nodes | None

    def __init__(self, mode: float | None = None, prior: Literal["bayes", "marginal-likelihood"] = "bayes") -> None:
        self.mode = mode
        self.prior = prior

    @paired
    def fit(self, estimates: ArrayLike, variances: ArrayLike) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        estimates : array (m,) of the clients' own estimates, finite; at least two of finite variance.
        variances : array (m,) or number, their sampling variances in squared units, > 0 or inf.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument that is out of its domain.
        """
        choice("prior", self.prior, PRIORS)
        y, v = read_estimates(estimates, variances)
        self.estimates_, self.variances_ = y.copy(), np.broadcast_to(v, y.shape).copy()
        mode = None if self.mode is None else single(finite, "mode", self.mode)
        k, y, v = gaussian_unit(self.estimates_, self.variances_, mode)
        normal = GaussianMeans("marginal-likelihood", mu=None if mode is None else float(np.ldexp(mode, -k))).fit(y, v)
        used = np.isfinite(v)
        unit = 1 / np.sqrt(np.mean(1 / v[used]))
        origin = normal.mu_
        likelihood = Likelihood((y[used] - origin) / unit, v[used] / unit**2, mode_known=mode is not None)
        point, self.converged_ = likelihood.maximise(normal.tau2_ / unit**2)
        height = likelihood.at(point)[0] - used.sum() * np.log(unit)
        self.n_iter_ = normal.n_iter_ + likelihood.passes
        if height > normal.log_likelihood_ + 1e-9 * abs(normal.log_likelihood_):
            self.spike_weight_ = float(1 / (1 + np.exp(point[0])))
            prior = float(origin + unit * point[2]), float(np.exp(point[1]) * unit**2)
        else:
            self.spike_weight_, prior = float(normal.tau2_ == 0), (normal.mu_, normal.tau2_)
            height, self.converged_ = normal.log_likelihood_, normal.converged_
        nodes = None
        if self.prior == "bayes":
            from estimators.normal_means import spike_average

            nodes, enough = spike_average.average(likelihood, point)
            self.converged_ = self.converged_ and enough
        if not self.converged_:
            warnings.warn("the search for the prior did not converge; do not use the fit", RuntimeWarning, stacklevel=3)
        self.log_likelihood_ = float(height) - int(used.sum()) * k * LOG2
        self.mode_, self.tau2_ = float(np.ldexp(prior[0], k)), represented("estimates", prior[1], 2 * k)
        if nodes is None:
            self._nodes = None
            self.set_posterior(y, v, *prior, k)
        else:
            self._nodes, self._scale = nodes, (k, origin, unit)
            self._scaled = (y - origin) / unit, np.minimum(v / unit**2, HUGE)
            self.set_averages(nodes, k, origin, unit)
        return self

    def set_averages(self, nodes: spike_average.Nodes, exponent: int, origin: float, unit: float) -> None:
        """Set what follows for each client from the average over `nodes`, in units of 2^exponent `unit` from `origin`."""
        found = np.empty((6, self.estimates_.size))
        modes, sds = nodes.modes[nodes.laws], nodes.mode_sds[nodes.laws]
        for rows, p, rest, own, means, variances in self.mixtures():
            whole = np.maximum(p.sum(axis=1), 1e-300)
            inside = dots(p, means)
            mean = inside + np.einsum("ik,k->i", rest, modes)
            spread = dots(p, variances + (means - mean[:, None]) ** 2)
            spread += dots(rest, sds**2 + (modes - mean[:, None]) ** 2)
            centre = inside / whole
            slab_spread = dots(p, variances + (means - centre[:, None]) ** 2) / whole
            weight = dots(p, own)
            found[:, rows] = whole, weight, centre, np.sqrt(slab_spread), mean, np.sqrt(spread)
        found[[3, 5]] = np.where(np.isinf(self.variances_), np.inf, found[[3, 5]])  # the law of tau2 has no mean
        found[[2, 4]] = origin + unit * found[[2, 4]]
        found[[3, 5]] *= unit
        np.ldexp(found[2:], exponent, out=found[2:])
        self.slab_probability_, self.weights_, self.slab_mean_, self.slab_sd_, self.posterior_mean_, self.posterior_sd_ = (
            found
        )

    def mixtures(self) -> Iterator[tuple[slice, Floats, Floats, Floats, Floats, Floats]]:
        """Yield slices of clients with what ``spike_average.posterior_terms`` returns; standardised."""
        from estimators.normal_means import spike_average

        assert self._nodes is not None
        y, v = self._scaled
        for rows in parts(y.size, BLOCK // self._nodes.shares.size):
            yield rows, *spike_average.posterior_terms(self._nodes, y[rows], v[rows])

    def set_posterior(self, estimates: Floats, variances: Floats, mode: float, tau2: float, exponent: int) -> None:
        """Set what follows for each client from data and prior in units of 2^exponent."""
        found = np.empty((6, estimates.size))
        for rows in parts(estimates.size, CHUNK):
            v, residual = np.minimum(variances[rows], HUGE), estimates[rows] - mode
            precision = 1 / (v + tau2)
            own, rest = tau2 * precision, v * precision
            density = (1 - self.spike_weight_) * np.sqrt(rest)
            slab = density / (density + self.spike_weight_ * np.exp(-0.5 * own * residual**2 / v))
            shift, variance = own * residual, tau2 * rest
            mean, spread = slab * shift, np.sqrt(slab * variance + slab * (1 - slab) * shift**2)
            found[:, rows] = slab, slab * own, mode + shift, np.sqrt(variance), mode + mean, spread
        np.ldexp(found[2:], exponent, out=found[2:])
        self.slab_probability_, self.weights_, self.slab_mean_, self.slab_sd_, self.posterior_mean_, self.posterior_sd_ = (
            found
        )

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain Python values."""
        self.require_fit()
        mode, spike_weight, tau2 = self.mode_, self.spike_weight_, self.tau2_
        if self._nodes is not None:  # means, of tau2 the geometric one among slabs
            slabs, tau2s, modes, _, shares, _ = self._nodes
            k, origin, unit = self._scale
            mode = float(np.ldexp(origin + unit * dot(shares, modes), k))
            slab = dot(shares, slabs)
            spike_weight = 1 - slab
            tau2 = float(np.ldexp(unit**2 * np.exp(dot(shares, slabs * np.log(tau2s)) / slab), 2 * k))
        return {
            "family": "point-normal",
            "found_by": self.prior,
            "mean": mode,
            "sd": float(np.sqrt((1 - spike_weight) * tau2)),
            "spike_weight": spike_weight,
            "slab_sd": float(np.sqrt(tau2)),
            "slab_variance": tau2,
        }

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or P(theta_i < t) if `strict`, given the data, one entry per client."""
        self.require_fit()
        if self._nodes is not None:
            at = self._standardised(finite("t", t))
            return np.concatenate(
                [
                    normal_mixture.cdf(at[rows] if at.ndim else at, *self._components(*terms), strict=strict)
                    for rows, *terms in self.mixtures()
                ]
            )
        weights = np.stack([1 - self.slab_probability_, self.slab_probability_], axis=-1)
        means = np.stack([np.full(self.slab_mean_.shape, self.mode_), self.slab_mean_], axis=-1)
        sds = np.stack([np.zeros(self.slab_sd_.shape), self.slab_sd_], axis=-1)
        return normal_mixture.cdf(finite("t", t), weights, means, sds, strict)

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client."""
        return self.posterior_quantiles(q)[0]

    def posterior_quantiles(self, *levels: float) -> Floats:
        """Return quantiles of several levels, array (levels, m), from laws that are set up once."""
        self.require_fit()
        levels, nodes = tuple(single(fraction, "q", q) for q in levels), self._nodes
        if nodes is None:
            return np.stack([self._two_part_quantile(q, 0.0) for q in levels])
        k, origin, unit = self._scale
        found, near = np.empty((len(levels), self.estimates_.size)), []
        if free := bool(nodes.mode_sds[0]):  # whether the mode is not known
            width = np.ldexp(unit * np.sqrt(dot(nodes.shares, nodes.mode_sds**2)), k)
            near = [self._standardised(self._two_part_quantile(q, width)) for q in levels]
        compiled = found.shape[1] >= normal_mixture.MANY
        for rows, *terms in self.mixtures():
            if free:
                law = self._components(*terms)
                places = zip(levels, near, strict=True)
                found[:, rows] = [normal_mixture.quantile(q, *law, start=t[rows], compiled=compiled) for q, t in places]
            else:
                found[:, rows] = [self._quantile_beside(q, compiled, *terms) for q in levels]
        return np.ldexp(origin + unit * found, k)

    def _two_part_quantile(self, q, width):
        """Return quantiles as if each client's slab were one normal law, and its spike within `width` of the mode."""
        from scipy.special import ndtr, ndtri

        slab, sd = self.slab_probability_, np.where(self.slab_sd_ > 0, self.slab_sd_, 1.0)
        below = slab * np.where(self.slab_sd_ > 0, ndtr((self.mode_ - self.slab_mean_) / sd), 0.0)
        at_mode = (q > below) & (q <= below + (1 - slab)) | (self.slab_sd_ == 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            rank = np.where(q <= below, q, q - (1 - slab)) / slab
            t = self.slab_mean_ + ndtri(np.clip(rank, 0.0, 1.0)) * sd
            mode = self.mode_ + width * ndtri(np.clip((q - below) / (1 - slab), 0.01, 0.99))
        return np.where(at_mode, mode, t)

    def _standardised(self, t):
        k, origin, unit = self._scale
        return (np.ldexp(t, -k) - origin) / unit

    def _components(self, slab, spike, _, means, variances):
        """Return weights, means and sds of the normal laws whose mixture is each client's posterior."""
        assert self._nodes is not None
        first = self._nodes.laws
        modes, sds = (np.broadcast_to(a[first], slab.shape) for a in (self._nodes.modes, self._nodes.mode_sds))
        if not self._nodes.mode_sds[0]:  # one atom
            atom = 1 - slab.sum(axis=1, keepdims=True), modes[:, :1], sds[:, :1]
        else:
            atom = spike, modes, sds
        return tuple(np.concatenate(pair, axis=1) for pair in zip(atom, (slab, means, np.sqrt(variances)), strict=True))

    def _quantile_beside(self, q, compiled, p, _, __, means, variances):
        """Return quantiles of posteriors with an atom at the mode, which is known."""
        assert self._nodes is not None
        mode, sds = self._nodes.modes[0], np.sqrt(variances)
        whole = np.maximum(p.sum(axis=1), 1e-300)
        weights = p / whole[:, None]
        below = whole * normal_mixture.cdf(mode, weights, means, sds)
        at_atom = (q > below) & (q <= below + 1 - whole)
        rank = np.where(at_atom, 0.5, np.clip(np.where(q <= below, q, q - (1 - whole)) / whole, 1e-300, 1 - 1e-16))
        return np.where(at_atom, mode, normal_mixture.quantile(rank, weights, means, sds, compiled=compiled))

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" (the mode) and "sd" of the clients' true values, if the prior is averaged over.

        Posterior quantiles from the nodes of the average, good to a few percent of their distance.  A mode that is given has
        none, and with thousands of clients, where four nodes stand for a normal law, there is none for "sd".
        """
        self.require_fit()
        level, found = single(fraction, "level", level), {}
        if self._nodes is None:
            return {}
        slabs, tau2s, modes, mode_sds, shares, _ = self._nodes
        k, origin, unit = self._scale
        tails = (1 - level) / 2, (1 + level) / 2
        if mode_sds[0]:
            ends = [float(normal_mixture.quantile(q, shares, modes, mode_sds)) for q in tails]
            found["mean"] = tuple(float(np.ldexp(origin + unit * end, k)) for end in ends)
        if shares.size > 4:
            ends = [lattice_quantile(np.sqrt(slabs * tau2s), shares, q) for q in tails]
            found["sd"] = tuple(float(np.ldexp(unit * end, k)) for end in ends)
        return found

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true, or clients are so many that what is unknown of it moves no pair of them."""
        self.require_fit()
        return self._nodes is None or self.estimates_.size > MANY_PAIRS

    def atoms(self) -> Floats:
        """Return the mode, unless it is averaged over."""
        self.require_fit()
        if self._nodes is None:
            return np.array([self.mode_])
        k, origin, unit = self._scale
        return np.zeros(0) if self._nodes.mode_sds[0] else np.ldexp(origin + unit * self._nodes.modes[:1], k)

    def local_false_discovery_rate(self, at: float | None = None) -> Floats:
        """Return the probability that a client is at the mode, whichever that is, or P(theta_i = at | data)."""
        self.require_fit()
        return 1 - self.slab_probability_ if at is None else super().local_false_discovery_rate(at)

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true values: a prior, then each client in its spike or its slab."""
        from estimators.normal_means import spike_average

        self.require_fit()
        noise = generator.standard_normal((size, self.estimates_.size))
        slab = generator.random(noise.shape)
        if self._nodes is None:
            return np.where(slab < self.slab_probability_, self.slab_mean_ + self.slab_sd_ * noise, self.mode_)
        nodes = self._nodes
        drawn = generator.choice(nodes.shares.size, size, p=nodes.shares / nodes.shares.sum())
        here = spike_average.Nodes(*(column[drawn] for column in nodes[:4]), shares=np.ones(size), laws=np.arange(size))
        moved = here.mode_sds * generator.standard_normal(size)
        y, v = self._scaled
        # Given the mode the slab's law is narrower, by what the mode's own law puts into `posterior_terms`.
        chance, _, _, means, variances = (part.T for part in spike_average.posterior_terms(here, y, v))
        rest = v / (v + here.tau2s[:, None])
        own = np.sqrt(np.maximum(variances - (rest * here.mode_sds[:, None]) ** 2, 0.0))
        value = np.where(slab < chance, means + rest * moved[:, None] + own * noise, (here.modes + moved)[:, None])
        k, origin, unit = self._scale
        return np.ldexp(origin + unit * value, k)

    def own_numbers(self, arguments: tuple[Any, ...] | None = None) -> Floats:
        """Return the clients' own estimates, NaN for those of infinite variance."""
        self.require_fit()
        return np.where(np.isinf(self.variances_), np.nan, self.estimates_ if arguments is None else arguments[0])

    def normal_estimates(self) -> tuple[Floats, Floats]:
        """Return the estimates and their variances."""
        self.require_fit()
        return self.estimates_, self.variances_

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Floats, Floats]]:
        """Return (truth, (estimates, variances)) from the fitted prior with the design that was fitted.

        A client of infinite variance gets its truth as estimate, which `fit` does not look at.
        """
        self.require_fit()
        noise = np.sqrt(np.where(np.isinf(self.variances_), 0.0, self.variances_))
        prior = self.prior_summary()
        if truth is None:
            slab = generator.random(noise.size) >= prior["spike_weight"]
            truth = prior["mean"] + np.where(slab, prior["slab_sd"] * generator.standard_normal(noise.size), 0.0)
        truth = self.read_truth(truth, noise.shape)
        return truth, (truth + noise * generator.standard_normal(noise.size), self.variances_)


class Likelihood:
    """Log density of y under the spike and slab as a function of (logit of the slab's weight, log tau2, mode)."""

    def __init__(self, y: Floats, v: Floats, mode_known: bool) -> None:
        self.y, self.v, self.size = y, v, 2 if mode_known else 3
        self.passes = 0

    def at(self, point: Floats) -> tuple[float, Floats, Floats]:
        """Return the log density, its gradient and its Hessian in the first `size` letters of `point`."""
        self.passes += 1
        slab, spike, tau2 = 1 / (1 + np.exp(-point[0])), 1 / (1 + np.exp(point[0])), np.exp(point[1])
        if self.y.size >= MANY:
            from estimators.normal_means.normal_kernels import spike_slab_sums

            terms = np.empty(10)
            spike_slab_sums(self.y, self.v, tau2, slab, spike, point[2], terms)
        else:
            terms = self.sums(self.y, self.v, tau2, slab, spike, point[2])
        density, e, a, c, ee, ea, ec, aa, ac, cc = terms
        m = self.y.size
        gradient = np.array([e - m * slab, a, c])
        hessian = np.array([[ee - m * slab * (1 - slab), ea, ec], [ea, aa, ac], [ec, ac, cc]])
        return density - 0.5 * m * np.log(2 * np.pi), gradient[: self.size], hessian[: self.size, : self.size]

    @staticmethod
    def sums(y: Floats, v: Floats, tau2: float, slab: float, spike: float, mode: float) -> Floats:
        """Return the log density without its constant, and its derivatives, summed over the clients given."""
        r, u, inverse = y - mode, 1 / (v + tau2), 1 / v
        w = tau2 * u
        b = -r * w * inverse  # derivative of the log ratio of slab to spike in the mode; g and h: in log tau2
        scaled = r * r * u
        g = 0.5 * w * (scaled - 1)
        h = (1 - w) * g - 0.5 * w * w * scaled
        # Both densities relative to the larger exponential, the slab's.
        density = slab * np.sqrt(v * u)
        whole = density + spike * np.exp(0.5 * r * b)
        share = density / whole  # of the slab
        both = share * (1 - share)
        density = np.log(whole * np.sqrt(inverse)).sum() - 0.5 * scaled.sum()
        bg, bb = both * g, both * b
        return np.array([
            density,
            share.sum(),
            dot(share, g),
            dot(r, inverse) + dot(share, b),
            both.sum(),
            bg.sum(),
            bb.sum(),
            dot(bg, g) + dot(share, h),
            dot(bg, b) + dot(share, b * (1 - w)),
            dot(bb, b) - inverse.sum() + dot(share, w * inverse),
        ])  # fmt: skip

    def maximise(self, tau2: float) -> tuple[Floats, bool]:
        """Return the best point found and whether Newton's method converged there; `tau2` fits a prior without spike."""
        if self.y.size > SAMPLE:
            places = np.linspace(0, self.y.size - 1, SAMPLE).astype(int)
            sample = Likelihood(self.y[places], self.v[places], self.size == 2)
        else:
            sample = self
        # A slab of weight p with the variance of a normal prior, tau2 / p, and one that reaches the farthest estimate.
        total = max(tau2, 0.1)
        far = max(float(np.max(self.y**2 - self.v)), 0.1)
        modes = (0.0,) if self.size == 2 else (0.0, weighted_median(self.y, 1 / self.v))
        starts = [np.array([np.log(p / (1 - p)), np.log(t), c]) for p, t in starting_points(total, far) for c in modes]
        heights = [sample.at(start)[0] for start in starts]
        found = [sample.climb(starts[k]) for k in np.argsort(heights)[-3:]]
        if sample is not self:
            # The first starts have a slab too rare to be met in the sample.
            candidates = [max(found, key=lambda one: one[1])[0], *starts[: 2 * len(modes)]]
            found = [self.climb(max(candidates, key=lambda point: self.at(point)[0]))]
        point, _, converged = max(found, key=lambda one: one[1])
        return point, converged

    def climb(self, point: Floats) -> tuple[Floats, float, bool]:
        """Return the end of Newton's method from `point`, the height there, and whether it converged.

        Where the Hessian is not negative definite its eigenvalues count by their size, so that every step is uphill.
        Far out in a flat direction (a slab of all the weight, or of none) it stops as soon as steps gain nothing.
        """
        height, gradient, hessian = self.at(point)
        for _ in range(200):
            values, vectors = np.linalg.eigh(hessian)
            values = np.maximum(np.abs(values), 1e-9 * self.y.size)
            step = vectors @ ((vectors.T @ gradient) / values)
            gain = float(gradient @ step)
            if gain < 1e-12 * max(1.0, abs(height)):
                return point, height, True
            reach = np.array([3.0, 3.0, 3.0 * np.sqrt(1 + np.exp(point[1]))])[: self.size]
            step *= min(1.0, 1 / np.max(np.abs(step) / reach))
            for _ in range(60):
                new = point.copy()
                new[: self.size] += step
                reached = self.at(new)
                if reached[0] >= height:
                    break
                step *= 0.25
            else:
                return point, height, gain < 1e-8 * max(1.0, abs(height))
            point = new
            height, gradient, hessian = reached
        return point, height, False


def starting_points(total: float, far: float) -> list[tuple[float, float]]:
    """Return pairs of a slab's weight and variance to start from."""
    return [(p, t) for p in (0.02, 0.2, 0.5, 0.9) for t in dict.fromkeys((total / p, far))]


def weighted_median(y: Floats, weights: Floats) -> float:
    """Return the value up to which lies half of the weight."""
    order = np.argsort(y)
    below = np.cumsum(weights[order])
    return float(y[order[np.searchsorted(below, 0.5 * below[-1])]])
