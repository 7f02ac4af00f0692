"""Posteriors of counts with covariates, averaged over what all clients leave open about the prior.

Belongs here: the quadrature over the overdispersion rho with the coefficients about their best values for each rho, and the
clients' laws that follow.  Does not belong here: likelihoods and links, which are in ``count_regression``; the same without
covariates, exactly, in ``conjugate``.

Given rho, coefficients are taken as normal about the mode of their density with the curvature there (Laplace), so that each
client's linear predictor is, and Gauss-Hermite nodes stand for it.  Where priors are wide, own data smooth the sum over
them; where priors are narrow, one law of the conjugate family with the mean and the variance of that sum stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.quadrature import normal_grid

__all__ = ["FAR", "Nodes", "average", "coefficient_laws", "mean_over", "new_laws", "spread_over"]

COARSE, FINE = 15, 19  # values of log rho, for the range that counts and for the average
COUNTS = 14.0  # natural logarithms below the top beyond which a rho does not count
SLIGHT, WIDEST = 1e-4, 1e4  # rho of a spread that is lost in own noise, over 1 / size, and the largest rho
POINTS = 7  # Gauss-Hermite nodes of a linear predictor
WIDE, UNSURE = 0.25, 0.1  # size times rho, and sd of a linear predictor, above which its nodes are summed as they are
CLOSE, CLOSE_ENDS, FAR = 81, 4.0, 0.5  # nodes of new clients and how many sds they reach, where the sd is above FAR
STEP = 1e-4  # of differences of slopes


class Nodes(NamedTuple):
    """Values of log rho (k,) with weights (k,), and for each the coefficients' mean (k, p) and a root (k, p, p) of their
    covariance."""

    log_rho: Floats
    weights: Floats
    means: Floats
    roots: Floats


def best(slopes: Callable[[Floats], tuple[Floats, Floats]], basis: Floats, start: Floats) -> tuple[Floats, float, Floats]:
    """Return the coefficients of largest density, its logarithm, and minus its curvature, positive definite.

    `slopes` returns each client's term of the log density and its slope at linear predictors (m,).
    """
    b = start
    terms, slope = slopes(basis @ b)
    value = float(terms.sum())
    while True:
        eta = basis @ b
        bend = (slopes(eta - STEP)[1] - slopes(eta + STEP)[1]) / (2 * STEP)
        bend = np.maximum(bend, 1e-3 * np.abs(bend) + 1e-12)  # a client's own term need not be concave
        curvature = np.einsum("mp,m,mq->pq", basis, bend, basis)
        move = np.linalg.solve(curvature, np.einsum("mp,m->p", basis, slope))
        gain = float(np.einsum("mp,m,p->", basis, slope, move))
        if gain < 1e-10:
            return b, value, curvature
        share = 1.0
        while share > 1e-4:
            terms, ahead = slopes(basis @ (b + share * move))
            if float(terms.sum()) > value:
                break
            share /= 2
        else:
            return b, value, curvature
        b, value, slope = b + share * move, float(terms.sum()), ahead


def lean(slope: Callable[[Floats], Floats], basis: Floats, b: Floats, root: Floats) -> Floats:
    """Return how far the mean of the coefficients lies from their mode b, in units of their `root`, by third derivatives.

    It is the first term that Laplace's method leaves out; where it is larger than one it is no small correction, and cut.
    """
    eta, step = basis @ b, 10 * STEP
    third = (slope(eta + step) - 2 * slope(eta) + slope(eta - step)) / step**2
    leant = 0.5 * np.einsum("m,m,mp->p", third, np.sum((basis @ root) ** 2, axis=1), basis @ root)
    return leant / max(1.0, float(np.sqrt(leant @ leant)))


def average(
    at: Callable[[Floats, float], tuple[Floats, Floats]],
    log_hyperprior: Callable[[float], float],
    basis: Floats,
    start: Floats,
    size: float,
) -> Nodes:
    """Return the `Nodes` that stand for the posterior law of overdispersion and coefficients.

    `at` returns clients' terms of the log density and slopes, at linear predictors and a log rho; `log_hyperprior` is that
    of log rho; `size` is the overdispersion's unit: 1 / size is where prior and own noise are alike.
    """

    def weigh(log_rhos):
        b, found = start, []
        for log_rho in log_rhos[::-1]:  # from the widest prior, whose density has no sharp ridges
            b, value, curvature = best(lambda eta, s=log_rho: at(eta, s), basis, b)
            root = np.asarray(np.linalg.inv(np.linalg.cholesky(curvature)).T, float)
            mean = b + root @ lean(lambda eta, s=log_rho: at(eta, s)[1], basis, b, root)
            found.append((value + log_hyperprior(log_rho) + np.linalg.slogdet(root)[1], mean, root))
        logs, means, roots = (np.array(part[::-1]) for part in zip(*found, strict=True))
        return logs, means, roots

    low, high = np.log(SLIGHT / size), np.log(WIDEST)
    while True:
        log_rhos = np.linspace(low, high, COARSE)
        logs, *_ = weigh(log_rhos)
        near = np.flatnonzero(logs > logs.max() - COUNTS)
        lower, upper = log_rhos[max(near[0] - 1, 0)], log_rhos[min(near[-1] + 1, COARSE - 1)]
        if upper - lower > 0.6 * (high - low):
            break
        low, high = lower, upper
    log_rhos = np.linspace(lower, upper, FINE)
    logs, means, roots = weigh(log_rhos)
    weights = np.exp(logs - logs.max())
    return Nodes(log_rhos, weights / weights.sum(), means, roots)


def predictors(nodes: Nodes, rows: Floats) -> Iterator[tuple[float, float, Floats, Floats]]:
    """Yield log rho, weight, linear predictors (points, m) and their sds (m,) at Gauss-Hermite points, for rows (m, p)."""
    x, _ = normal_grid(1, POINTS)
    for log_rho, weight, b, root in zip(*nodes, strict=True):
        sd = np.sqrt(np.sum((rows @ root) ** 2, axis=1))
        yield log_rho, weight, rows @ b + x * sd, sd


def mean_over(nodes: Nodes, rows: Floats, inverse: Callable[[Floats], Floats]) -> Floats:
    """Return the mean (m,) over overdispersion and coefficients of what `inverse` makes of linear predictors, for rows."""
    _, w = normal_grid(1, POINTS)
    total = np.zeros(len(rows))
    for _, weight, eta, _ in predictors(nodes, rows):
        total += weight * (w @ inverse(eta))
    return total


def new_laws(
    nodes: Nodes, row: Floats, shapes: Callable[[Floats, float], tuple[Floats, Floats]]
) -> tuple[Floats, Floats, Floats]:
    """Return weights (k,) and both parameters (k, 1) of the laws whose average a new client follows, for one row (p,).

    No own data smooth it, so that where its linear predictor is unsure there are many nodes of it, close together.
    """
    x = np.linspace(-CLOSE_ENDS, CLOSE_ENDS, CLOSE)[:, None]
    w = np.exp(-0.5 * x[:, 0] ** 2)
    weights, means, sds = coefficient_laws(nodes, row[None])
    parts = [shapes(b + sd * x, log_rho) for b, sd, log_rho in zip(means[0], sds[0], nodes.log_rho, strict=True)]
    first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return (weights[:, None] * (w / w.sum())).ravel(), first, second


def coefficient_laws(nodes: Nodes, slopes: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weights (k,), means (q, k) and sds (q, k) of the mixtures of normals that linear forms (q, p) follow."""
    means = np.einsum("qp,kp->qk", slopes, nodes.means)
    return nodes.weights, means, np.sqrt(np.sum(np.einsum("qp,kpr->qkr", slopes, nodes.roots) ** 2, axis=2))


def spread_over(
    nodes: Nodes,
    basis: Floats,
    size: float,
    shapes: Callable[[Floats, float], tuple[Floats, Floats]],
    moments: Callable[[Floats, Floats], tuple[Floats, Floats]],
    alike: Callable[[Floats, Floats], tuple[Floats, Floats]],
) -> tuple[Floats, Floats, Floats]:
    """Return weights (k,) and both parameters (k, m) of the conjugate laws whose average each client's posterior is.

    `shapes` returns clients' parameters at linear predictors (points, m) and a log rho, `moments` the mean and the variance
    of laws, `alike` the law that has them.
    """
    _, w = normal_grid(1, POINTS)
    parts = []
    for log_rho, weight, eta, sd in predictors(nodes, basis):
        laws = shapes(eta, log_rho)
        if size * np.exp(log_rho) > WIDE and sd.max() > UNSURE:
            parts.append((weight * w, *laws))
            continue
        means, variances = moments(*laws)
        mean = w @ means
        first, second = alike(mean, w @ (variances + (means - mean) ** 2))
        parts.append((np.array([weight]), first[None], second[None]))
    weights, first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return weights, first, second
