"""The likelihood of the variance of a normal prior, its maximum, and the average over it.

Belongs here: sums over clients as functions of tau2, where they are largest, and the quadrature over tau2 given all
clients.  Does not belong here: what clients get from it (``normal_posteriors``), how the prior's mean depends on covariates
(``meta_regression``), and compiled sums (``normal_kernels``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

import numpy as np

from estimators.normal_means.meta_regression import Regression
from estimators.numerics.arrays import Floats
from estimators.numerics.blocks import dot, parts
from estimators.numerics.quadrature import deviation, gauss
from estimators.numerics.spread_law import EDGE, POWER

__all__ = ["BLOCK", "MANY", "MarginalLikelihood", "RegressionLikelihood"]

BLOCK = 16384  # numbers in a work array
MANY = 8192  # clients from whom on compiled kernels are worth the time to load them
NARROW = 0.8  # half a range of log tau2 over which a polynomial has the log density of many clients
DEPTH = 22.0  # values of tau2 less than exp(-DEPTH) times as likely as the likeliest are left out


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
        return EDGE * float(self.v[0] if self.equal else self.v.size / np.sum(1 / self.v)) if self.power == POWER else 0.0

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
        sums = self.sums(tau2s, density=False)
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
        seen = dict(zip(grid, scores, strict=True))  # so that brackets are not looked at again
        found, converged = ([low] if scores[0] <= 0 else []), True
        options = {"xtol": 1e-300, "rtol": rtol, "maxiter": 500, "full_output": True, "disp": False}
        for k in np.flatnonzero((scores[:-1] > 0) & (scores[1:] <= 0)):
            root, details = brentq(
                lambda tau2: seen[tau2] if tau2 in seen else score(np.array([tau2]))[0], grid[k], grid[k + 1], **options
            )
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
        bends = slope(1.01 * modes) / (2 * np.log(1.01))  # as it is 0 at the modes
        heights = height(np.log(modes))
        top, mode = heights.max(), np.log(modes[np.argmax(heights)])
        domain = []
        for k, side in ((0, -1), (-1, 1)):
            start, step = np.log(modes[k]), 1.1 * np.sqrt(-2 * DEPTH / min(bends[k], -0.01))
            beyond = float(self.bounded and side > 0)  # the mean of tau2 counts, too, where there is one
            while height(np.array([start + side * step]))[0] + beyond * (start + step - mode) > top - DEPTH:
                step *= 1.2
            domain.append(start + side * step)
        ends, half = 4 * np.arcsinh((np.array(domain) - mode) / 4), float(domain[1] - domain[0]) / 2
        if self.size >= MANY and half < NARROW:
            # Fewer looks; singularities are pi away, so that each degree divides what is left by 2 pi / half: to 1e-10.
            height = np.polynomial.Chebyshev.interpolate(  # pyright: ignore[reportAssignmentType]
                height, int(np.ceil(26 / np.log(2 * np.pi / half))), domain
            )
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

    def alike(self, y: Floats, basis: Floats, prior: str) -> Self:
        """Return the likelihood of other estimates of the same clients, in the order of `v`, from the origin 0."""
        return type(self)(y, self.v, basis, 0.0, prior, 0.0)

    def maximise(self) -> tuple[float, bool]:
        """Return the maximiser tau2 >= 0 and whether the search converged; equal variances have a closed form."""
        if not self.equal:
            return super().maximise()
        freedom = self.size - (self.prior != "marginal-likelihood") * self.coefficients
        return max(0.0, self.within / freedom - float(self.v[0])), True


def summary(w: Floats, mass: Floats) -> tuple[float, float, float]:
    """Return the total of `mass`, and the mean and standard deviation of `w` under it."""
    total = mass.sum()
    mean = dot(mass, w) / total
    return total, mean, np.sqrt(dot(mass, (w - mean) ** 2) / total)


def fewer(w: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Return places and probabilities that serve for those given: fewer, by Gauss' rule, if `w` is spread little.

    What is averaged are smooth functions of
    w whose nearest singularities are pi away, so 3 + 20 sd places are plenty as long as the sd of w is below 1/2.
    """
    sd = deviation(w, mass)
    places = int(np.ceil(3 + 20 * sd))
    if sd > 0.5 or places >= w.size:
        return w, mass
    return gauss(w, mass, places)
