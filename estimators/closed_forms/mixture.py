"""Clients whose parameters take a few values only: posterior means, their exact risk, and learning the values.

Model: theta_i is one of mus[0], ..., mus[k-1] with probabilities p, and client i knows mean_i ~ N(theta_i, variance_i I)
with a known variance (sigma2_x / n for n samples).

Belongs here: discrete priors.  Gaussian priors are in ``gaussian``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.units import LOG2, exponents, gaussian_unit
from estimators.numerics.validation import count, finite, paired, positive, single

__all__ = [
    "Alternation",
    "DiscretePrior",
    "alternate_clusters",
    "log_likelihood",
    "posterior_mean",
    "posterior_weights",
    "risk",
]

GRID_LIMIT = 4_000_000  # quadrature nodes; beyond, the risk is far below what float64 or patience resolve


def points(name: str, value: ArrayLike) -> tuple[Floats, bool]:
    """Return `value` as an (m, d) array and whether it came as (m,)."""
    array = finite(name, value)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must be an array (m,) or (m, d) with at least one row, got shape {array.shape}")
    return (array[:, None], True) if array.ndim == 1 else (array, False)


def shares(p: ArrayLike, k: int) -> Floats:
    """Return k positive numbers scaled to add up to one."""
    p = positive("p", p)
    if p.shape != (k,):
        raise ValueError(f"p must hold one probability for each of the {k} values in mus, got shape {p.shape}")
    return p / p.sum()


def spread(variances: ArrayLike, m: int) -> Floats:
    """Return a variance per client from one number or one per client."""
    variances = positive("variances", variances)
    if variances.shape not in ((), (m,)):
        raise ValueError(f"variances must be one number or one per client ({m}), got shape {variances.shape}")
    return np.broadcast_to(variances, (m,))


def prepared(
    means: ArrayLike, p: ArrayLike, mus: ArrayLike, variances: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, bool]:
    """Return checked (m, d) means, (k,) p, (k, d) mus, (m,) variances and whether the data are one-dimensional."""
    means, flat = points("means", means)
    mus, _ = points("mus", mus)
    if mus.shape[1] != means.shape[1]:
        raise ValueError(f"mus has {mus.shape[1]} coordinates per value and means has {means.shape[1]}")
    return means, shares(p, len(mus)), mus, spread(variances, len(means)), flat


def log_joint(means: Floats, p: Floats, mus: Floats, variances: Floats) -> Floats:
    """Return log p_l + log density of each mean given value l, shape (m, k)."""
    k = int(exponents(variances.min())) // 2  # in whose unit no square leaves the range of numbers
    squares = (np.ldexp(means[:, None, :] - mus, -k) ** 2).sum(axis=2)
    scale = variances[:, None]
    return np.log(p) - squares / (2 * np.ldexp(scale, -2 * k)) - 0.5 * means.shape[1] * np.log(2 * np.pi * scale)


def normalised(log_terms: Floats) -> tuple[Floats, Floats]:
    """Return rows of probabilities proportional to exp(log_terms), and the log of each row's sum."""
    top = log_terms.max(axis=1, keepdims=True)
    terms = np.exp(log_terms - top)
    total = terms.sum(axis=1, keepdims=True)
    return terms / total, (top + np.log(total))[:, 0]


@paired
def posterior_weights(means: ArrayLike, p: ArrayLike, mus: ArrayLike, variances: ArrayLike) -> Floats:
    """Posterior probability of each value for each client; exact.  Claim: generative:thm5.

    Parameters
    ----------
    means : array (m,) or (m, d) of the clients' sample means.
    p : array (k,) of positive numbers, scaled to add up to one.
    mus : array (k,) or (k, d) of the possible values, in the units of the means.
    variances : number > 0, or array (m,): sampling variance of a coordinate of each mean.

    Returns
    -------
    array (m, k); rows add up to one.

    Raises
    ------
    ValueError naming the argument outside its domain.

    >>> posterior_weights([0.0, 1.0], [0.5, 0.5], [-1.0, 1.0], 1.0).round(6).tolist()
    [[0.5, 0.5], [0.119203, 0.880797]]
    """
    means, p, mus, variances, _ = prepared(means, p, mus, variances)
    return normalised(log_joint(means, p, mus, variances))[0]


@paired
def posterior_mean(means: ArrayLike, p: ArrayLike, mus: ArrayLike, variances: ArrayLike) -> Floats:
    """Posterior mean of each client's parameter, the estimate of least mean squared error; exact.

    Claim: generative:thm5.  Parameters as in `posterior_weights`.  Returns an array like `means`.

    >>> posterior_mean([0.0, 1.0], [0.5, 0.5], [-1.0, 1.0], 1.0).round(6).tolist()
    [0.0, 0.761594]
    """
    means, p, mus, variances, flat = prepared(means, p, mus, variances)
    estimate = normalised(log_joint(means, p, mus, variances))[0] @ mus
    return estimate[:, 0] if flat else estimate


@paired
def log_likelihood(means: ArrayLike, p: ArrayLike, mus: ArrayLike, variances: ArrayLike) -> float:
    """Log density of the clients' means under a discrete prior; exact.  Parameters as in `posterior_weights`.

    >>> round(float(log_likelihood([0.0], [1.0], [0.0], 1.0)), 6)
    -0.918939
    """
    means, p, mus, variances, _ = prepared(means, p, mus, variances)
    return normalised(log_joint(means, p, mus, variances))[1].sum()


@paired
def risk(p: ArrayLike, mus: ArrayLike, sigma2_x: ArrayLike, n: ArrayLike) -> float:
    """Mean squared error of the posterior mean under the true prior, summed over coordinates; exact to rounding.

    By quadrature over the line or plane that the values span; two values need one integral in any dimension.
    Claim: generative:thm5:mse.

    Parameters
    ----------
    p : array (k,) of positive numbers, scaled to add up to one; mus : array (k,) or (k, d).
    sigma2_x : number > 0, variance of a coordinate of one sample; n : whole number >= 1 of samples per client.

    Raises
    ------
    ValueError naming the argument outside its domain; also for values that span three dimensions or more, where
    simulation is the way.

    >>> round(float(risk([0.5, 0.5], [-1.0, 1.0], 1.0, 1)), 9)
    0.449599509
    """
    mus, _ = points("mus", mus)
    p = shares(p, len(mus))
    variance = float(positive("sigma2_x", sigma2_x) / count("n", n))
    if len(mus) == 2:
        squared = float(((mus[1] - mus[0]) ** 2).sum())
        return squared * two_value_risk(float(p[0]), float(p[1]), squared / variance)
    offsets = mus - mus[0]
    _, sizes, axes = np.linalg.svd(offsets, full_matrices=False)
    rank = int((sizes > 1e-13 * max(1e-300, sizes.max())).sum()) if sizes.max() > 0 else 0
    if rank == 0:
        return 0.0
    if rank > 2:
        raise ValueError("mus spans three dimensions or more; quadrature is offered for values on a line or in a plane")
    coordinates = offsets @ axes[:rank].T / np.sqrt(variance)
    return variance * grid_risk(p, coordinates)


def two_value_risk(p: float, q: float, w: float) -> float:
    """Return the risk for two values in units of their squared distance, w = that over the variance of a mean.

    sqrt(p q)/2 exp(-w/8) E[sech((sqrt(w) z - log(p/q))/2)] over a standard normal z, by the trapezoidal rule, which
    converges geometrically for this analytic integrand.
    """
    root, shift = np.sqrt(w), np.log(p / q)
    if w == 0:
        return p * q
    step = min(0.4, 0.55 / root)
    # The integrand is largest near where both factors are; it is log-concave, and no wider than either.
    centre = np.sign(shift) * min(abs(shift) / root, root / 2)
    reach = min(9.0, 150 / root) if abs(shift) <= w / 4 else 9.0
    z = centre + step * np.arange(-int(reach / step) - 1, int(reach / step) + 2)
    half = np.abs(root * z - shift) / 2
    log_terms = -w / 8 - z**2 / 2 - half - np.log1p(np.exp(-2 * half)) + 0.5 * np.log(p * q)
    return float(np.exp(log_terms).sum() * step / np.sqrt(2 * np.pi))


def grid_risk(p: Floats, mus: Floats) -> float:
    """Return the risk for values (k, 1 or 2) and unit noise, by the trapezoidal rule."""
    width = np.sqrt(((mus[:, None] - mus) ** 2).sum(axis=2).max())
    step = min(0.4, 0.27 / width)  # no zero of the density has an imaginary part below pi/(2 width)
    lengths = np.ptp(mus, axis=0) + 18
    if np.prod(lengths / step) > GRID_LIMIT:
        raise ValueError("mus are too far apart for their variance; the grid of the quadrature would be too large")
    sides = [
        low - 9 + step * np.arange(int(length / step) + 2) for low, length in zip(mus.min(axis=0), lengths, strict=True)
    ]
    total = 0.0
    for first in sides[0]:
        rest = [np.full(1, first)] if len(sides) == 1 else [np.full(sides[1].size, first), sides[1]]
        weights, log_density = normalised(log_joint(np.column_stack(rest), p, mus, np.ones(rest[0].size)))
        means = weights @ mus
        variance = (weights * ((mus - means[:, None, :]) ** 2).sum(axis=2)).sum(axis=1)
        total += (np.exp(log_density) * variance).sum()
    return float(total * step ** len(sides))


def seeds(means: Floats, k: int, generator: np.random.Generator) -> Floats:
    """Return k of the means as first values, each new one drawn with probability proportional to its squared distance."""
    chosen = [means[generator.integers(len(means))]]
    while len(chosen) < k:
        squares = ((means[:, None, :] - np.array(chosen)) ** 2).sum(axis=2).min(axis=1)
        total = squares.sum()
        chosen.append(means[generator.choice(len(means), p=squares / total if total > 0 else None)])
    return np.array(chosen)


def values_wanted(k: int, m: int) -> int:
    """Return k as an int in 1..m."""
    k = int(single(count, "k", k))
    if k > m:
        raise ValueError(f"k = {k} values cannot be learned from {m} clients; give at least k clients")
    return k


class DiscretePrior:
    """Learn a discrete prior with k values from all clients by EM, then shrink each client towards the values.

    The log likelihood never falls from one iteration to the next, and at the truth the population's iteration stands
    still (claim generative:alg1:em), so the maximum likelihood estimate is consistent.  A run may end in a local maximum:
    the best of several random starts is kept.

    Parameters
    ----------
    k : whole number >= 1 of values.
    restarts : whole number >= 1 of random starts.
    max_iter : whole number >= 1 of iterations per start.
    tol : number > 0; a run has converged when the log likelihood per client grows by no more.
    seed : whole number, seed of the starts.

    Attributes
    ----------
    p_, mus_ : the prior; values in the order of their first coordinate.
    log_likelihood_ : at (p_, mus_); log_likelihoods_ : its trace over the iterations of the best start.
    restart_log_likelihoods_ : what each start reached.
    converged_ : bool; n_iter_ : iterations of the best start.
    weights_ : array (m, k) of posterior probabilities; posterior_mean_ : array like the means.

    >>> model = DiscretePrior(k=2).fit([-2.1, -1.9, 1.8, 2.0, 2.2], variances=0.01)
    >>> model.p_.round(3).tolist(), model.mus_.round(3).tolist(), model.converged_
    ([0.4, 0.6], [-2.0, 2.0], True)
    """

    p_: Floats
    mus_: Floats
    weights_: Floats
    posterior_mean_: Floats
    log_likelihood_: float
    log_likelihoods_: Floats
    restart_log_likelihoods_: Floats
    n_iter_: int
    converged_: bool

    def __init__(self, k: int = 2, restarts: int = 10, max_iter: int = 10_000, tol: float = 1e-11, seed: int = 0) -> None:
        self.k = k
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor; `deep` is scikit-learn's and changes nothing here."""
        return {name: getattr(self, name) for name in ("k", "restarts", "max_iter", "tol", "seed")}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor and return self."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(f"{name} is no parameter of DiscretePrior; it has {list(self.get_params())}")
            setattr(self, name, value)
        return self

    @paired
    def fit(self, means: ArrayLike, variances: ArrayLike) -> Self:
        """Fit the prior and the posterior of every client.

        Parameters
        ----------
        means : array (m,) or (m, d) of the clients' sample means, m >= k.
        variances : number > 0 or array (m,), known sampling variance of a coordinate of each mean; may differ.

        Returns
        -------
        self

        Raises
        ------
        ValueError naming the argument outside its domain.
        """
        means, flat = points("means", means)
        variances = spread(variances, len(means))
        k = values_wanted(self.k, len(means))
        exponent, means, variances = gaussian_unit(means, variances)
        restarts, longest = int(single(count, "restarts", self.restarts)), int(single(count, "max_iter", self.max_iter))
        enough = single(positive, "tol", self.tol) * len(means)
        generator = np.random.default_rng(self.seed)
        runs = [run_em(means, variances, seeds(means, k, generator), longest, enough) for _ in range(restarts)]
        p, mus, trace, converged = max(runs, key=lambda found: found[2][-1])
        order = np.lexsort(mus.T[::-1])
        self.p_, mus = p[order], mus[order]
        self.mus_ = np.ldexp(mus[:, 0] if flat else mus, exponent)
        shift = means.size * exponent * LOG2  # of densities in the unit of the fit
        self.log_likelihoods_ = np.array(trace) - shift
        self.log_likelihood_ = float(self.log_likelihoods_[-1])
        self.restart_log_likelihoods_ = np.array([found[2][-1] for found in runs]) - shift
        self.n_iter_, self.converged_ = len(trace) - 1, converged
        self.weights_ = normalised(log_joint(means, np.maximum(self.p_, 1e-300), mus, variances))[0]
        estimate = self.weights_ @ mus
        self.posterior_mean_ = np.ldexp(estimate[:, 0] if flat else estimate, exponent)
        return self


def run_em(
    means: Floats, variances: Floats, mus: Floats, longest: int, enough: float
) -> tuple[Floats, Floats, list[float], bool]:
    """Return p, mus, the trace of log likelihoods and whether it settled, from a start with equal probabilities."""
    p = np.full(len(mus), 1 / len(mus))
    weights, log_density = normalised(log_joint(means, p, mus, variances))
    trace = [log_density.sum()]
    for _ in range(longest):
        precise = weights / variances[:, None]
        mass = precise.sum(axis=0)
        kept = mass > 0  # a value that no client has any weight on stays where it is
        mus = np.where(kept[:, None], (precise.T @ means) / np.where(kept, mass, 1.0)[:, None], mus)
        p = np.maximum(weights.mean(axis=0), 1e-300)
        weights, log_density = normalised(log_joint(means, p, mus, variances))
        trace.append(log_density.sum())
        if trace[-1] - trace[-2] <= enough:
            return p, mus, trace, True
    return p, mus, trace, False


class Alternation(NamedTuple):
    """What the paper's Algorithm 1 leaves: personalised models, p, mus, and the largest distance of values per round."""

    models: np.ndarray
    p: np.ndarray
    mus: np.ndarray
    spreads: np.ndarray


@paired
def alternate_clusters(means: ArrayLike, variances: ArrayLike, k: int, rounds: int, seed: int = 0) -> Alternation:
    """Algorithm 1 of the paper as printed, for comparison with `DiscretePrior`; not a consistent estimate of the prior.

    Cluster the clients' models, give every client its posterior mean under the clusters, and cluster those.  A centre of
    posterior means lies inside the hull of the previous centres, so the values draw together round by round and in the
    end coincide (claim generative:alg1:collapse); `spreads` shows it.

    Parameters
    ----------
    means, variances : as in `DiscretePrior.fit`; k : whole number >= 1; rounds : whole number >= 1; seed : whole number.

    Returns
    -------
    Alternation

    >>> found = alternate_clusters([-2.0, -1.0, 1.0, 2.0], 1.0, k=2, rounds=3)
    >>> found.spreads.round(3).tolist()
    [3.0, 2.85, 2.685, 2.501]
    """
    means, flat = points("means", means)
    variances = spread(variances, len(means))
    k = values_wanted(k, len(means))
    generator = np.random.default_rng(seed)
    models, spreads = means, []
    p, mus = lloyd(models, k, generator)
    for _ in range(int(single(count, "rounds", rounds))):
        spreads.append(widest(mus))
        models = normalised(log_joint(means, p, mus, variances))[0] @ mus
        p, mus = lloyd(models, k, generator)
    spreads.append(widest(mus))
    if flat:
        models, mus = models[:, 0], mus[:, 0]
    return Alternation(models, p, mus, np.array(spreads))


def widest(mus: Floats) -> float:
    """Return the largest distance between two values."""
    return float(np.sqrt(((mus[:, None] - mus) ** 2).sum(axis=2).max()))


def lloyd(
    models: Floats, k: int, generator: np.random.Generator, starts: int = 5, longest: int = 300
) -> tuple[Floats, Floats]:
    """Return shares and centres of k clusters by Lloyd's algorithm, the best of several starts."""
    runs = [lloyd_run(models, seeds(models, k, generator), longest) for _ in range(starts)]
    _, counts, mus = min(runs, key=lambda run: run[0])
    return np.maximum(counts, 1e-300) / len(models), mus


def lloyd_run(models: Floats, mus: Floats, longest: int) -> tuple[float, Ints, Floats]:
    """Return cost, sizes and centres of the clusters that Lloyd's algorithm reaches from the centres `mus`."""
    k = len(mus)
    for _ in range(longest):
        nearest = ((models[:, None, :] - mus) ** 2).sum(axis=2).argmin(axis=1)
        moved = np.array([models[nearest == j].mean(axis=0) if (nearest == j).any() else mus[j] for j in range(k)])
        settled = (moved == mus).all()
        mus = moved
        if settled:
            break
    squares = ((models[:, None, :] - mus) ** 2).sum(axis=2)
    return squares.min(axis=1).sum(), np.bincount(squares.argmin(axis=1), minlength=k), mus
