"""How often the intervals of a fitted model hold the truth, measured on new data drawn from that model or a prior given.

Belongs here: the measurement for any ``ClientModel``.  The intervals are the models' own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.validation import count, index, shown, single
from estimators.system.processes import worker_pool

__all__ = ["Coverage", "coverage"]


class Coverage(NamedTuple):
    """Frequencies with which intervals held the truth, with standard errors.

    ``average`` is over clients.  ``worst`` is the frequency of the client (on axis 0 of the estimates) that did worst in
    the first half of the replicates, counted in the second half, so that it is no victim of chance alone.
    """

    average: float
    average_se: float
    worst: float
    worst_se: float
    worst_client: int
    by_client: np.ndarray
    mean_width: float
    not_converged: int


def coverage(
    model: ClientModel,
    *,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    workers: int = 1,
    method: str | None = None,
    prior: Callable[[np.random.Generator, tuple[int, ...]], ArrayLike] | None = None,
) -> Coverage:
    """Frequency with which intervals of a fresh fit hold the truth, by parametric bootstrap; an estimate with its error.

    Each replicate draws a truth for all clients and new data of the same design, fits a fresh copy of the model, and looks
    whether its intervals hold that truth.  This is coverage on average over the law that truths are drawn from; the prior
    is learnt anew each time, so intervals that take it for known are found out.  The fitted prior is a guess of that law,
    and can be far from one under which intervals fail: a spike that few clients hide is not in it.  Give the `prior` that
    you fear.

    Parameters
    ----------
    model : fitted ``ClientModel``.
    level : number in (0, 1), see ``ClientModel.interval``.
    replicates : whole number >= 4.
    seed : whole number >= 0.  Replicates have streams of their own: the same bits for any number of `workers`.
    workers : whole number >= 1 of processes.  With more than one a script needs ``if __name__ == "__main__"``, and `prior`
        must be a function of a module.
    method : how intervals are made, see ``ClientModel.interval``; None for the model's own way.
    prior : function of a generator and a shape that returns so many true values; None for the fitted prior.

    Returns
    -------
    Coverage
        Standard errors are those over replicates (average) and binomial ones (worst).  Fits that do not converge are
        counted in `not_converged` and otherwise treated like the others, their warnings silenced.

    Raises
    ------
    ValueError
        If the model is not fitted or an argument is out of its domain.

    >>> from estimators.normal_means.gaussian_means import GaussianMeans
    >>> found = coverage(GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([0.0] * 20, 1.0), replicates=500, seed=1)
    >>> abs(found.average - 0.95) < 4 * found.average_se < 0.01
    True
    >>> spike = lambda generator, shape: generator.standard_normal(shape) * 3 * (generator.random(shape) < 0.1)
    >>> from estimators.normal_means.point_normal import PointNormalMeans
    >>> believing = PointNormalMeans(prior="marginal-likelihood").fit([0.0, 0.5, -1.0, 4.0] * 5, 1.0)
    >>> coverage(believing, replicates=50, prior=spike).average < 0.6
    True
    """
    if not isinstance(model, ClientModel):
        raise ValueError(f"model must be a fitted ClientModel, got {shown(model)}")
    model.require_fit()
    model.interval(level, method)  # an improper level is refused before any work
    if prior is not None and not callable(prior):
        raise ValueError(f"prior must be a function of a generator and a shape that returns true values, got {shown(prior)}")
    replicates = int(single(count, "replicates", replicates, 4))
    seed = index("seed", seed, 0, 2**63)
    workers = min(int(single(count, "workers", workers)), replicates)
    jobs = [(model, level, seed, method, prior, part) for part in np.array_split(np.arange(replicates), workers)]
    if workers == 1:
        results = [measure(*jobs[0])]
    else:
        with worker_pool(workers) as pool:
            results = list(pool.map(measure, *zip(*jobs, strict=True)))
    held, widths, converged = (np.concatenate(parts) for parts in zip(*results, strict=True))
    shares = held.reshape(replicates, -1).mean(axis=1)
    by_client = held.mean(axis=0)
    half = replicates // 2
    halves = [part.reshape(len(part), held.shape[1], -1).mean(axis=(0, 2)) for part in (held[:half], held[half:])]
    worst_client = int(np.argmin(halves[0]))
    worst = float(halves[1][worst_client])
    return Coverage(
        average=float(shares.mean()),
        average_se=float(shares.std(ddof=1) / math.sqrt(replicates)),
        worst=worst,
        worst_se=math.sqrt(worst * (1 - worst) / (replicates - half)),
        worst_client=worst_client,
        by_client=by_client,
        mean_width=float(widths.mean()),
        not_converged=int(np.sum(~converged)),
    )


def measure(
    model: ClientModel,
    level: float,
    seed: int,
    method: str | None,
    prior: Callable[[np.random.Generator, tuple[int, ...]], ArrayLike] | None,
    replicates: Ints,
) -> tuple[Bools, Floats, Bools]:
    """Return whether intervals held the truth (replicates, clients, ...), their mean widths, and whether fits converged."""
    held, widths, converged = [], [], []
    for replicate in replicates:
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(replicate),)))
        given = () if prior is None else (prior(generator, np.shape(model.posterior_mean_)),)
        truth, arguments = model.draw(generator, *given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            fresh = type(model)(**model.get_params()).fit(*arguments)
            low, high = fresh.interval(level, method)
        held.append((low <= truth) & (truth <= high))
        widths.append(np.mean(high - low))
        converged.append(bool(fresh.converged_))
    return np.array(held), np.array(widths), np.array(converged)
