"""Robust PCA of the matrix of client updates, and the noise of each client that it leaves over (Robust-HDP).

The updates of n clients are the columns of a p x n matrix M with p >> n, thought of as L + S with L of low rank
(what the clients have in common) and S the noise.  Principal component pursuit minimises ||L||_* + lam ||S||_1
subject to L + S = M by the alternating direction method (Candes, Li, Ma and Wright 2011, algorithm 1).  Every
singular value decomposition goes through the n x n Gram matrix, so a step costs O(p n^2); its one pass over the matrix is
compiled in ``robust_pca_kernels``.  Weights from known variances are in ``aggregation``, all schemes side by side in
``server_weights``; privacy of the updates is in ``privacy``.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np

from estimators.closed_forms.aggregation import precision_weights
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import relative_precisions
from estimators.numerics.validation import choice, count, index, nonnegative, paired, positive, real, single

__all__ = [
    "Decomposition",
    "NoiseEstimate",
    "aggregation_weights",
    "estimate_tail",
    "excess_noise",
    "noise_variances",
    "robust_pca",
]

GRAM_DIGITS = 1e-6  # singular values below this part of the largest one are lost in a Gram matrix of doubles


class Decomposition(NamedTuple):
    """L + S = M up to `residual`, and what is known about its quality."""

    low_rank: np.ndarray
    sparse: np.ndarray
    rank: int
    converged: bool
    iterations: int
    residual: float
    gap: float


class NoiseEstimate(NamedTuple):
    """Noise variance per element of each client's update, and the state of the decompositions behind it."""

    variances: np.ndarray
    converged: bool
    iterations: int
    gap: float
    blocks: int


def read_updates(updates: ArrayLike) -> Floats:
    """Check a matrix of updates, parameters in rows and clients in columns."""
    matrix = real("updates", updates)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"updates must be a matrix with one row per parameter and one column per client, got shape {matrix.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=0))
    if bad.size:
        shown = ", ".join(map(str, bad[:10])) + (", ..." if bad.size > 10 else "")
        raise ValueError(f"updates holds NaN or an infinity in column {shown} of {matrix.shape[1]}; leave these clients out")
    return matrix


def step_parameter(matrix: Floats, variant: str) -> float:
    """The published p n / (4 sum |M|), a fifth of it, or the reference code's, with the largest column sum of |M|."""
    sums = np.abs(matrix).sum(axis=0)
    if variant == "reference":
        return matrix.size / (4 * sums.max())
    return matrix.size / ((4 if variant == "published" else 20) * sums.sum())


def shrinkage(gram: Floats, threshold: float) -> tuple[Floats | None, Floats]:
    """The n x n matrix that soft-thresholds the singular values of what has this Gram matrix, and these values.

    None for the matrix if the threshold is lost in the rounding of the Gram matrix.
    """
    squares, right = np.linalg.eigh(gram)
    singular = np.sqrt(np.maximum(squares, 0.0))
    if threshold <= GRAM_DIGITS * singular[-1]:
        return None, singular
    kept = singular > threshold
    right = right[:, kept]
    return (right * (1 - threshold / singular[kept])) @ right.T, singular[kept] - threshold


def shrink_singular_values(matrix: Floats, threshold: float, method: str) -> tuple[Floats, Floats]:
    """Soft-threshold the singular values; returns the matrix and its singular values."""
    if method != "svd":
        factor, singular = shrinkage(matrix.T @ matrix, threshold)
        if factor is not None:
            return matrix @ factor, singular
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    kept = singular > threshold
    return (left[:, kept] * (singular[kept] - threshold)) @ right[kept], singular[kept] - threshold


@paired
def robust_pca(
    updates: ArrayLike,
    *,
    lam: float | None = None,
    mu: float | None = None,
    variant: Literal["published", "reference", "dense"] = "published",
    method: Literal["fused", "gram", "svd"] = "fused",
    tol: float = 1e-7,
    max_iter: int = 3000,
) -> Decomposition:
    """Split a matrix into a low-rank and a sparse part by principal component pursuit; an estimate, not exact.

    Minimises ||L||_* + lam ||S||_1 subject to L + S = M.  Claims: robusthdp:tab2, robusthdp:alg1.

    Parameters
    ----------
    updates : array of shape (p, n), one row per parameter and one column per client, in units of the update.
    lam : number > 0, weight of the sparse part; default 1 / sqrt(max(p, n)) (Candes et al. 2011, theorem 1.1).
    mu : number > 0, penalty of the augmented Lagrangian, 1 over units of the update; it moves the speed, not the limit.
    variant : "published" takes mu = p n / (4 sum |M|) (Candes et al. 2011, section 5); "reference" what a widely copied
        Python code computes instead, with the largest column sum of |M| in place of the sum; "dense" a fifth of the
        published value, with which the split is far closer to optimal when it stops if the noise fills the matrix.
    method : "fused" decomposes through the n x n Gram matrix and does the rest in one compiled pass over the matrix;
        "gram" is the same in plain NumPy; "svd" decomposes the p x n matrix itself.  The last two are slower and for checks.
    tol : number > 0; iteration stops when ||M - L - S|| <= tol ||M|| (Frobenius norms).
    max_iter : whole number >= 1.

    Returns
    -------
    Decomposition
        low_rank, sparse : arrays of shape (p, n); rank : of low_rank; iterations;
        residual : ||M - L - S|| / ||M||; gap : relative excess of the objective over a lower bound from the dual problem,
        so an upper bound on how far from optimal the split is (up to the residual);
        converged : whether residual <= tol and gap <= sqrt(tol).  A large mu brings the residual down long before the
        split is optimal, which the published stopping rule, residual <= tol, does not see.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> import numpy as np
    >>> common = np.outer(np.cos(np.arange(200.0)), [1.0, 2.0, 1.0, 2.0])
    >>> spikes = np.zeros((200, 4))
    >>> spikes[17, 2] = spikes[101, 0] = 5.0
    >>> split = robust_pca(common + spikes)
    >>> split.rank, split.converged, bool(np.allclose(split.sparse, spikes, atol=1e-4))
    (1, True, True)
    """
    matrix = read_updates(updates)
    choice("variant", variant, ("published", "reference", "dense"))
    choice("method", method, ("fused", "gram", "svd"))
    lam = 1 / float(np.sqrt(max(matrix.shape))) if lam is None else single(positive, "lam", lam)
    tol = single(positive, "tol", tol)
    max_iter = index("max_iter", max_iter, 1, np.iinfo(np.int64).max)
    size = np.sqrt(np.einsum("ij,ij->", matrix, matrix))
    if mu is not None:
        mu = single(positive, "mu", mu)
    if size == 0:
        return Decomposition(np.zeros_like(matrix), np.zeros_like(matrix), 0, True, 0, 0.0, 0.0)
    mu = step_parameter(matrix, variant) if mu is None else mu
    if method == "fused":
        found = pursue_tiles(matrix, lam, mu, tol * size, max_iter, size)
        if found is not None:
            return found
    return pursue(matrix, lam, mu, method, tol * size, max_iter, size)


def pursue(matrix: Floats, lam: float, mu: float, method: str, target: float, max_iter: int, size: float) -> Decomposition:
    """Iterate until the residual is at most `target`.

    The scaled multiplier is what the shrinkage of the sparse part cuts off: with T = M - L + Z the next Z is T clipped
    to +-lam/mu, the next S is T - Z, and M - L - S is the change of Z.  So S itself is only formed at the end.
    """
    multiplier = np.zeros_like(matrix)
    argument = matrix.copy()
    total, clipped = np.empty_like(matrix), np.empty_like(matrix)
    residual, iterations = np.inf, 0
    low_rank, singular = matrix, np.empty(0)
    while residual > target and iterations < max_iter:
        iterations += 1
        low_rank, singular = shrink_singular_values(argument, 1 / mu, method)
        np.subtract(matrix, low_rank, out=total)
        total += multiplier
        np.clip(total, -lam / mu, lam / mu, out=clipped)
        np.subtract(clipped, multiplier, out=argument)
        residual = np.sqrt(np.vdot(argument, argument))
        multiplier, clipped = clipped, multiplier
        argument += low_rank
        argument += multiplier
    sparse = total - multiplier
    products = multiplier.T @ multiplier, float(np.vdot(multiplier, matrix)), float(np.abs(sparse).sum())
    return assess(low_rank, sparse, singular, products, lam, mu, iterations, residual, target, size)


def assess(
    low_rank: Floats,
    sparse: Floats,
    singular: Floats,
    products: tuple[Floats, float, float],
    lam: float,
    mu: float,
    iterations: int,
    residual: float,
    target: float,
    size: float,
) -> Decomposition:
    """Return the decomposition with its gap, from Z'Z, <Z, M> and the sum of |S|."""
    gram, product, absolute = products
    # mu Z is feasible for the dual problem once its largest singular value is at most one.
    bound = mu * product / max(1.0, mu * np.sqrt(max(0.0, np.linalg.eigvalsh(gram)[-1])))
    objective = singular.sum() + lam * absolute
    excess = float(objective - bound)
    gap = excess / float(objective) if excess > 0 else 0.0  # a first split may be nothing at all
    converged = bool(residual <= target and gap <= np.sqrt(target / size))
    return Decomposition(low_rank, sparse, len(singular), converged, iterations, float(residual / size), gap)


def pursue_tiles(matrix: Floats, lam: float, mu: float, target: float, max_iter: int, size: float) -> Decomposition | None:
    """Do what `pursue` does by the Gram matrix with compiled passes; None where that needs the direct decomposition."""
    from estimators.server import robust_pca_kernels as kernels

    rows = len(matrix)
    tiles = kernels.pack(matrix)
    argument, multiplier, spare = tiles.copy(), np.zeros_like(tiles), np.empty_like(tiles)
    gram, singular = kernels.gram_matrix(argument), np.empty(0)
    residual, iterations = np.inf, 0
    while residual > target and iterations < max_iter:
        iterations += 1
        factor, singular = shrinkage(gram, 1 / mu)
        if factor is None:
            return None
        gram, squares = kernels.step(tiles, factor, lam / mu, argument, multiplier, spare)
        residual = np.sqrt(squares)
        multiplier, spare = spare, multiplier
    kernels.finish(tiles, lam / mu, argument, spare, multiplier)
    absolute = np.abs(spare).sum()
    products = kernels.gram_matrix(multiplier), np.einsum("ijk,ijk->", multiplier, tiles), absolute
    low_rank, sparse = kernels.unpack(argument, rows), kernels.unpack(spare, rows)
    return assess(low_rank, sparse, singular, products, lam, mu, iterations, residual, target, size)


@paired
def noise_variances(
    updates: ArrayLike,
    *,
    block_rows: int | None = None,
    lam: float | None = None,
    variant: Literal["published", "reference", "dense"] = "dense",
    method: Literal["fused", "gram", "svd"] = "fused",
    tol: float = 1e-5,
    max_iter: int = 3000,
    workers: int | None = None,
) -> NoiseEstimate:
    """Noise variance per element of each client's update, ||S_i||^2 / p with S from robust PCA; an estimate.

    It includes whatever of an update is not shared with others, so it is right up to a common factor where the shared
    part is of low rank and the noise of many clients is independent; with few clients, few parameters or several shared
    directions it is biased.  Claims: robusthdp:lem1:mean, robusthdp:tab2.

    Parameters
    ----------
    updates : array of shape (p, n), one row per parameter and one column per client.
    block_rows : None, or a whole number >= 1: robust PCA of consecutive sub-matrices of so many rows, whose estimates
        are averaged in proportion to their rows (Robust-HDP, section 3.5).  Memory and time per block stay bounded, and
        lam = 1 / sqrt(rows of the block).
    lam, variant, method, tol, max_iter : as in `robust_pca`.
    workers : None for as many threads as there are processors, or a whole number >= 1.  Blocks run in parallel, and each
        thread needs five times the memory of a block.  Results are the same bits for any number.

    Returns
    -------
    NoiseEstimate
        variances : array of n numbers >= 0 in squared units of the update; converged : whether every block did;
        iterations and gap : the largest of any block; blocks : how many there were.

    >>> import numpy as np
    >>> gen = np.random.default_rng(1)
    >>> scale = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    >>> updates = gen.normal(size=(3000, 1)) + scale * gen.normal(size=(3000, 6))
    >>> found = noise_variances(updates)
    >>> found.converged, bool(np.all(np.diff(found.variances) > 0))
    (True, True)
    """
    matrix = read_updates(updates)
    rows = len(matrix) if block_rows is None else index("block_rows", block_rows, 1, np.iinfo(np.int64).max)
    workers = os.cpu_count() or 1 if workers is None else index("workers", workers, 1, np.iinfo(np.int64).max)

    def power(start):
        part = robust_pca(matrix[start : start + rows], lam=lam, variant=variant, method=method, tol=tol, max_iter=max_iter)
        return np.einsum("ij,ij->j", part.sparse, part.sparse), part.converged, part.iterations, part.gap

    starts = range(0, len(matrix), rows)
    with ThreadPoolExecutor(min(workers, len(starts))) as pool:
        sums, converged, iterations, gaps = zip(*pool.map(power, starts), strict=True)
    return NoiseEstimate(sum(sums, np.zeros(())) / len(matrix), all(converged), max(iterations), max(gaps), len(starts))


@paired
def aggregation_weights(updates: ArrayLike, **options: Any) -> Floats:
    """Robust-HDP's weights of the clients, inversely proportional to `noise_variances`; they add to one.

    Claim: robusthdp:alg1.  Clients without any estimated noise share all the weight.

    Parameters
    ----------
    updates, options : as in `noise_variances`.

    >>> import numpy as np
    >>> gen = np.random.default_rng(1)
    >>> updates = gen.normal(size=(3000, 1)) + np.array([1.0, 1.0, 1.0, 4.0]) * gen.normal(size=(3000, 4))
    >>> weights = aggregation_weights(updates)
    >>> round(float(weights.sum()), 12), int(weights.argmin())
    (1.0, 3)
    """
    return precision_weights(noise_variances(updates, **options).variances)


@paired
def excess_noise(sigma2s: ArrayLike, alpha2: float, r: ArrayLike = 1.0) -> float:
    """Noise of the aggregate above the least possible, as a fraction of it, with a common error in the variances; exact.

    Weights proportional to 1 / (r^2 sigma2_j + alpha2) in place of 1 / sigma2_j: the squared coefficient of variation,
    under the optimal weights, of sigma2_j / (r^2 sigma2_j + alpha2).  Claim: robusthdp:small-alpha:excess.

    Parameters
    ----------
    sigma2s : array of variances > 0, one per client (per element of the update).
    alpha2 : variance >= 0 that is added to every estimate; r : factor > 0 common to the estimated noise.

    >>> round(float(excess_noise([1.0, 3.0], alpha2=1.0)), 12)
    0.037037037037
    """
    variances = positive("sigma2s", sigma2s)
    if variances.ndim != 1 or len(variances) == 0:
        raise ValueError("sigma2s must be a list with one variance per client")
    added = single(nonnegative, "alpha2", alpha2) / single(positive, "r", r) ** 2
    best = relative_precisions(variances)
    best = best / best.sum()
    kept = 1 / (1 + added / variances)
    # Differences of the shares kept, from differences of the variances, keep the digits of a small excess.
    apart = (variances[:, None] - variances) * np.outer(kept, kept) * (added / variances[:, None] / variances)
    return float(np.sum(np.outer(best, best) * apart**2) / 2 / np.sum(best * kept) ** 2)


@paired
def estimate_tail(p: ArrayLike, x: ArrayLike) -> Floats:
    """Probability that a Gaussian noise variance, estimated from p elements, is off by more than the fraction x; exact.

    sigma_hat^2 / E sigma_hat^2 is chi-square with p degrees of freedom over p.  Claim: robusthdp:lem1:tail:chi2.

    >>> round(float(estimate_tail(1000, 0.1)), 4)
    0.0253
    """
    from scipy.stats import chi2

    p, x = count("p", p), nonnegative("x", x)
    return (chi2.sf(p * (1 + x), p) + chi2.cdf(p * (1 - x), p))[()]
