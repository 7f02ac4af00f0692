"""The likelihood of a mixture prior of few points or Gaussians, and its best maximum from several starts.

Model: theta_i ~ sum_l p_l N(mu_l, tau2_l I), estimate_i ~ N(theta_i, variance_i I); points have tau2_l = 0.

Belongs here: passes over clients, the climb to a maximum, starts and their choice, for a given number of components.  Does
not belong here: the choice of that number, and clients' posteriors (``mixture_means``).
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from estimators.numerics.arrays import Floats

__all__ = ["Data", "Prior", "learn"]

SAMPLE = 2000  # starts are compared on as many clients, the best go on with all
EM_STEPS, KEPT = 20, 4  # short runs from every start, and how many of them go on
SMALLEST = 1e-12  # probability of a component below which it counts as empty and stays where it is


class Prior(NamedTuple):
    """Probabilities (k,), centres (k, d), variances (k,) of the components, and the log-likelihood."""

    p: np.ndarray
    mus: np.ndarray
    tau2s: np.ndarray
    value: float


class Data:
    """Estimates (m, d) and variances (m,) with the passes over them; arrays have components first, clients next."""

    def __init__(self, y: Floats, v: Floats, components: str) -> None:
        self.y, self.v, self.components = y, v, components
        self.d = y.shape[1]
        self.centre = np.average(y, axis=0, weights=1 / v)
        square = ((y - self.centre) ** 2).mean(axis=1)
        self.total = float(np.sqrt(square.mean())) or 1.0  # a scale for centres
        between = np.average(square - v, weights=1 / v)
        self.tau2 = float(max(between, 1e-3 * self.total**2))

    def sample(self, generator: np.random.Generator) -> Self:
        """Return these data or, of many, a sample without replacement."""
        if len(self.y) <= 2 * SAMPLE:
            return self
        rows = np.sort(generator.choice(len(self.y), SAMPLE, replace=False))
        return type(self)(self.y[rows], self.v[rows], self.components)

    def weigh(self, p: Floats, mus: Floats, tau2s: Floats) -> tuple[float, Floats, Floats, Floats, Floats]:
        """Return the log-likelihood, responsibilities, precisions (both (k, m)) and gaps (k, m, d)."""
        precision = 1 / (tau2s[:, None] + self.v)
        gaps = self.y - mus[:, None, :]
        squares = np.einsum("kmd,kmd->km", gaps, gaps)
        logs = -0.5 * squares * precision + 0.5 * self.d * np.log(precision) + np.log(np.maximum(p, 1e-300))[:, None]
        top = logs.max(axis=0)
        weights = np.exp(logs - top)
        sums = weights.sum(axis=0)
        value = (top + np.log(sums)).sum() - 0.5 * self.y.size * np.log(2 * np.pi)
        return float(value), weights / sums, precision, gaps, squares

    def em(self, p: Floats, mus: Floats, tau2s: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return the prior after one step, and the log-likelihood before it.

        Probabilities and centres maximise their part given the responsibilities; variances take an EM step at the new
        centres.  None of the three lets the likelihood fall.
        """
        value, weights, precision, *_ = self.weigh(p, mus, tau2s)
        share = weights.sum(axis=1)
        full = share > SMALLEST * len(self.y)
        precise = weights * precision
        mass = np.where(full, precise.sum(axis=1), 1.0)
        mus = np.where(full[:, None], np.einsum("km,md->kd", precise, self.y) / mass[:, None], mus)
        if self.components == "gaussian":
            gaps = self.y - mus[:, None, :]
            squares = np.einsum("kmd,kmd->km", gaps, gaps) / self.d
            kept = tau2s[:, None] * precision
            found = (weights * (kept**2 * squares + kept * self.v)).sum(axis=1) / np.where(full, share, 1.0)
            tau2s = np.where(full, found, tau2s)
        return share / len(self.y), mus, tau2s, value

    def pack(self, prior: Prior) -> Floats:
        """Return the standardised parameters: logarithms of p, centres, and (for Gaussians) variances."""
        parts = [np.log(np.maximum(prior.p, SMALLEST)), ((prior.mus - self.centre) / self.total).ravel()]
        return np.concatenate([*parts, prior.tau2s / self.total**2] if self.components == "gaussian" else parts)

    def unpack(self, x: Floats, k: int) -> tuple[Floats, Floats, Floats]:
        """Return p, mus and tau2s."""
        p = np.exp(x[:k] - x[:k].max())
        tau2s = x[k + k * self.d :] * self.total**2 if self.components == "gaussian" else np.zeros(k)
        return p / p.sum(), self.centre + self.total * x[k : k + k * self.d].reshape(k, self.d), tau2s

    def derivatives(self, x: Floats, k: int) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian of the log-likelihood per client in the standardised parameters."""
        d, m = self.d, len(self.y)
        p, mus, tau2s = self.unpack(x, k)
        _, weights, precision, gaps, squares = self.weigh(p, mus, tau2s)
        own = [self.total * precision[:, None] * gaps.transpose(0, 2, 1)]  # derivatives of the log density of a component
        if self.components == "gaussian":
            own.append(0.5 * self.total**2 * (precision * (precision * squares - d))[:, None])
        own = np.concatenate(own, axis=1)  # (k, d or d + 1, m)
        weighted = weights[:, None] * own
        # Positions of a component's own parameters: its centre, then its variance.
        at = np.concatenate([k + np.arange(k * d).reshape(k, d), k + k * d + np.arange(k)[:, None]], axis=1)[
            :, : own.shape[1]
        ]
        size = k + at.size
        terms = np.empty((size, m))
        terms[:k], terms[at.ravel()] = weights, weighted.reshape(at.size, m)
        gradient = terms.sum(axis=1) / m
        hessian = -np.einsum("am,bm->ab", terms, terms) / m
        hessian[:k, :k] += np.diag(gradient[:k]) - np.diag(p) + np.outer(p, p)
        for component, place in enumerate(at):
            block = np.einsum("am,bm->ab", weighted[component], own[component])
            precise = weights[component] * precision[component]
            block[range(d), range(d)] -= self.total**2 * precise.sum()
            if len(place) > d:
                mixed = self.total**3 * np.einsum("m,md->d", precise * precision[component], gaps[component])
                block[:d, d] -= mixed
                block[d, :d] -= mixed
                block[d, d] += self.total**4 * np.sum(
                    precise * precision[component] * (0.5 * d - precision[component] * squares[component])
                )
            hessian[np.ix_(place, place)] += block / m
            hessian[component, place] += gradient[place]
            hessian[place, component] += gradient[place]
        gradient[:k] -= p
        return gradient, hessian

    def climb(self, prior: Prior, longest: int, tol: float) -> tuple[Prior, Floats, bool]:
        """Return the Prior at a local maximum, the trace of log-likelihoods and whether it settled.

        Newton's method with as much damping as makes the likelihood rise, variances kept at or above 0.
        """
        k, m = len(prior.p), len(self.y)
        x, value, damping, trace = self.pack(prior), prior.value, 1e-3, [prior.value]
        bounded = np.zeros(x.size, bool)
        bounded[k + k * self.d :] = True
        gradient, hessian = self.derivatives(x, k)
        while len(trace) <= longest:
            free = ~(bounded & (x <= 0) & (gradient <= 0))
            scale = np.maximum(1.0, np.abs(np.diag(hessian)))
            largest = np.max(np.abs(gradient[free]) / np.sqrt(scale[free]))
            if largest <= tol:
                return Prior(*self.unpack(x, k), value), np.array(trace), True
            system = np.diag(damping * scale[free]) - hessian[np.ix_(free, free)]
            step = np.zeros(x.size)
            try:
                np.linalg.cholesky(system)
                step[free] = np.linalg.solve(system, gradient[free])
            except np.linalg.LinAlgError:
                damping *= 8
                continue
            trial = np.where(bounded, np.maximum(x + step, 0.0), x + step)
            reached = self.weigh(*self.unpack(trial, k))[0]
            if reached > value:
                x, value, damping = trial, reached, max(damping / 8, 1e-12)
                trace.append(value)
                gradient, hessian = self.derivatives(x, k)
            elif damping > 1e8 or m * abs(gradient @ step) <= 1e-14 * abs(value):
                # What is left to gain is below rounding.
                return Prior(*self.unpack(x, k), value), np.array(trace), bool(largest <= 1e3 * tol)
            else:
                damping *= 8
        return Prior(*self.unpack(x, k), value), np.array(trace), False


def learn(
    data: Data,
    few: Data,
    k: int,
    starts: int,
    longest: int,
    tol: float,
    generator: np.random.Generator,
    previous: Prior | None,
) -> tuple[Prior, Floats, bool]:
    """Return the best Prior with k components, its trace and whether it settled.

    `previous`, a Prior with k - 1 components, starts a run too, so that the likelihood does not fall as k grows.
    """
    short = []
    for i in range(starts):
        prior = begin(few, k, i, generator)
        for _ in range(EM_STEPS):
            prior = few.em(*prior)[:3]
        short.append(Prior(*prior, few.weigh(*prior)[0]))
    short.sort(key=lambda prior: -prior.value)
    del short[KEPT:]
    if previous is not None:
        splits = [split(few, previous, component) for component in range(k - 1)]
        short += [prior._replace(value=few.weigh(*prior[:3])[0]) for prior in splits]
    ahead = [few.climb(prior, longest if few is data else min(longest, 100), tol) for prior in short]
    ahead.sort(key=lambda run: -run[0].value)
    if few is data:
        best = ahead[0]
    else:
        priors = [run[0]._replace(value=data.weigh(*run[0][:3])[0]) for run in ahead[:3]]
        best = data.climb(max(priors, key=lambda prior: prior.value), longest, tol)
    if previous is not None and best[0].value < previous.value:
        p, mus, tau2s = (np.concatenate((part, part[:1])) for part in previous[:3])
        p[[0, -1]] = p[0] / 2
        return Prior(p, mus, tau2s, previous.value), np.array([previous.value]), best[2]
    return best


def begin(data: Data, k: int, i: int, generator: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Return the i-th start: spread-out centres, one centre with variances of all sizes, and then random ones."""
    root = np.sqrt(data.tau2)
    p = np.full(k, 1 / k)
    if data.components == "points" or i != 1:
        if i == 0:
            levels = (np.arange(k) + 0.5) / k
            shrink = min(1.0, root / data.total)
            mus = data.centre + shrink * (np.quantile(data.y, levels, axis=0) - data.centre)
        else:
            rows = generator.choice(len(data.y), k, replace=False)
            mus = data.centre + (data.y[rows] - data.centre) * generator.uniform(0.3, 1.0)
        tau2s = data.tau2 * (1 / k**2 if i == 0 else 2.0 ** generator.uniform(-8, 0.5, k))
        return p, mus, np.zeros(k) if data.components == "points" else np.broadcast_to(tau2s, (k,)).copy()
    return p, np.tile(data.centre, (k, 1)), data.tau2 * np.float64(4.0) ** (np.arange(k) - (k - 1) / 2)


def split(data: Data, previous: Prior, component: int) -> Prior:
    """Return a Prior with one component of `previous` in two, apart by a little."""
    p, mus, tau2s = (np.append(part, part[component : component + 1], axis=0) for part in previous[:3])
    p[[component, -1]] = p[component] / 2
    step = 0.5 * np.sqrt(tau2s[component]) + 0.05 * data.total
    mus[component], mus[-1] = mus[component] - step, mus[-1] + step
    tau2s[component] /= 2
    return Prior(p, mus, tau2s, -np.inf)
