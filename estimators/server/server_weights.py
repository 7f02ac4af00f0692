"""Weights of clients' noisy updates at the server: every scheme in use, what each loses, and the weighted average itself.

Belongs here: the choice between schemes, for a server that holds one update per client.  Formulas by privacy level are in
``aggregation``, noise variances that nobody tells the server in ``robust_pca``, what a client does with the average in
``strengths``, all of it in one fitted object in ``federated_means``.

Updates are a p x n matrix as in ``robust_pca``: one row per parameter, one column per client.  Variances are those of an
element of a client's update around what the server wants to know, noise of privacy and of sampling together.

Schemes and what they need:

- "uniform": equal weights.
- "dpfedavg": proportional to the numbers of samples (Noble, Bellet and Dieuleveut 2022).  The baseline "minimum eps" has the
  same weights, on updates that all carry the noise of the smallest eps.
- "weiavg": proportional to eps (Liu, Lou, Xiong, Liu and Meng 2021).  PFA of the same authors takes these weights after
  `project_private`.
- "precision": inversely proportional to known variances, the best there is (FedHDP's weights for any mix of levels).
- "robust-hdp": inversely proportional to variances estimated by robust PCA (Malekmohammadi, Yu and Cao 2024).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from estimators.closed_forms.aggregation import aggregate_variance, eps_weights, precision_weights, relative_excess
from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.units import exponents
from estimators.numerics.validation import choice, finite, flags, index, listing, paired, positive
from estimators.server import robust_pca

__all__ = [
    "SCHEMES",
    "ServerWeights",
    "aggregate",
    "compare_schemes",
    "project_private",
    "public_clients",
    "sample_weights",
    "server_weights",
    "stack_updates",
]

SCHEMES = {"uniform": None, "dpfedavg": "n_samples", "weiavg": "eps", "precision": "variances", "robust-hdp": "updates"}
BLOCK_ROWS = 200_000  # of the sub-matrices whose noise Robust-HDP estimates one by one (its section 3.5)


class ServerWeights(NamedTuple):
    """Weights of the clients, the variance per element of the average, and its excess over the least one, relative to it.

    The last two are None where no variances are known.
    """

    weights: np.ndarray
    variance: float | None
    excess: float | None


def per_client(name: str, values: ArrayLike) -> Floats:
    """Return numbers > 0, one per client."""
    values = positive(name, values)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"{name} must be a list with one number per client, got shape {values.shape}")
    return values


@paired
def sample_weights(n_samples: ArrayLike) -> Floats:
    """Weights proportional to the clients' numbers of samples, n_i / sum_j n_j.

    Claim: robusthdp:eq8:loss gives what they lose.

    >>> sample_weights([10, 30]).tolist()
    [0.25, 0.75]
    """
    return eps_weights(per_client("n_samples", n_samples))


@paired
def server_weights(
    scheme: Literal["uniform", "dpfedavg", "weiavg", "precision", "robust-hdp"],
    *,
    variances: ArrayLike | None = None,
    n_samples: ArrayLike | None = None,
    eps: ArrayLike | None = None,
    updates: ArrayLike | None = None,
) -> ServerWeights:
    """Weights of the clients by the named scheme, and the variance of the average that they give.

    The weights add to one.  Claims: robusthdp:eq8:weights, robusthdp:eq8:minvar, robusthdp:eq8:loss,
    robusthdp:eq8:eps-weights, fedhdp:eq64, robusthdp:alg1.

    Parameters
    ----------
    scheme : one of `SCHEMES`; see the module for what each is and needs.
    variances : array (n,) of variances > 0 of the elements of an update.  If given, `variance` and `excess` are exact;
        "robust-hdp" puts its estimates in their place where they are missing.  With levels of privacy they are
        ``aggregation.message_variances(...)[level]``, where ``level`` holds each client's.
    n_samples : array (n,) of numbers > 0 of samples.
    eps : array (n,) of privacy parameters > 0, all for the same delta.
    updates : array (p, n), needed by "robust-hdp"; matrices of many parameters are treated in blocks of 200,000 rows.
        For other settings give ``robust_pca.noise_variances(updates, ...)`` as `variances` to "precision".

    Returns
    -------
    ServerWeights

    Raises
    ------
    ValueError
        Naming the argument that is missing, out of its domain, or of another length than the others.

    >>> server_weights("weiavg", eps=[1.0, 3.0], variances=[9.0, 1.0])
    ServerWeights(weights=array([0.25, 0.75]), variance=1.125, excess=0.25)
    """
    choice("scheme", scheme, SCHEMES)
    given = {"variances": variances, "n_samples": n_samples, "eps": eps}
    given = {name: per_client(name, values) for name, values in given.items() if values is not None}
    if updates is not None:
        given["updates"] = robust_pca.read_updates(updates)
    lengths = {name: values.shape[-1] for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{', '.join(lengths)} must speak of the same clients, got {lengths} of them")
    needed = SCHEMES[scheme]
    if needed is not None and needed not in given:
        raise ValueError(f"{needed} must be given for the scheme {scheme!r}")
    if not given:
        raise ValueError("variances, n_samples, eps or updates must be given to say how many clients there are")
    variances = given.get("variances")
    if scheme == "robust-hdp":
        estimate = robust_pca.noise_variances(given["updates"], block_rows=BLOCK_ROWS)
        if not estimate.converged:
            warnings.warn(
                f"robust PCA has not converged (gap {estimate.gap:.1g}), so the weights may be far from the best; "
                "see robust_pca.noise_variances, whose max_iter can be raised",
                RuntimeWarning,
                stacklevel=3,
            )
        found = estimate.variances
        weights = precision_weights(found)
        variances = found if variances is None and (found > 0).all() else variances
    elif scheme == "uniform":
        count = next(iter(lengths.values()))
        weights = np.full(count, 1 / count)
    else:
        rule = {"dpfedavg": sample_weights, "weiavg": eps_weights, "precision": precision_weights}[scheme]
        assert needed is not None  # of all schemes but "uniform"
        weights = rule(given[needed])
    if variances is None:
        return ServerWeights(weights, None, None)
    return ServerWeights(weights, float(aggregate_variance(weights, variances)), float(relative_excess(weights, variances)))


@paired
def compare_schemes(
    variances: ArrayLike,
    *,
    n_samples: ArrayLike | None = None,
    eps: ArrayLike | None = None,
    updates: ArrayLike | None = None,
) -> dict[str, ServerWeights]:
    """Every scheme whose needs are met, with its excess over the least variance: a dict from scheme to `ServerWeights`.

    Exact for the given variances; "precision" has no excess.  Claims: robusthdp:eq8:loss, robusthdp:eq8:eps-loss.

    Parameters
    ----------
    variances, n_samples, eps, updates : as in `server_weights`.

    >>> table = compare_schemes([9.0, 1.0], eps=[1.0, 3.0])
    >>> {scheme: round(found.excess, 12) for scheme, found in table.items()}
    {'uniform': 1.777777777778, 'weiavg': 0.25, 'precision': 0.0}
    """
    given = {"variances": variances, "n_samples": n_samples, "eps": eps, "updates": updates}
    possible: list[Any] = [scheme for scheme, needed in SCHEMES.items() if needed is None or given[needed] is not None]
    return {scheme: server_weights(scheme, **given) for scheme in possible}


@paired
def stack_updates(vectors: Sequence[ArrayLike]) -> Floats:
    """Matrix with one column per client from a list of the clients' vectors.

    Raises
    ------
    ValueError
        Naming the client whose vector is empty, not finite, or of another length than the first.

    >>> stack_updates([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    columns = [finite(f"vectors[{i}]", vector) for i, vector in enumerate(listing("vectors", vectors))]
    if not columns:
        raise ValueError("vectors is empty; give one vector per client")
    for i, column in enumerate(columns):
        if column.ndim != 1 or column.size == 0 or column.size != columns[0].size:
            raise ValueError(
                f"vectors[{i}] has shape {column.shape}, vectors[0] {columns[0].shape}; "
                "every client's update must be a vector of the same parameters"
            )
    return np.column_stack(columns)


@paired
def aggregate(updates: ArrayLike, weights: ArrayLike) -> Floats:
    """Weighted average of the clients' updates, sum_i w_i update_i; claim: robusthdp:alg1.

    Parameters
    ----------
    updates : array (p, n), one column per client.
    weights : array (n,) of real numbers that add to one (to 1e-6).

    Returns
    -------
    array (p,)

    >>> aggregate([[1.0, 3.0], [2.0, 4.0]], [0.25, 0.75]).tolist()
    [2.5, 3.5]
    """
    matrix, weights = robust_pca.read_updates(updates), finite("weights", weights)
    if weights.shape != matrix.shape[1:]:
        raise ValueError(f"weights must have one entry for each of the {matrix.shape[1]} clients, got shape {weights.shape}")
    if abs(weights.sum() - 1) > 1e-6:
        raise ValueError(f"weights must add to one, got {weights.sum()}; divide them by their sum")
    return np.einsum("ij,j->i", matrix, weights)


@paired
def public_clients(eps: ArrayLike) -> Bools:
    """Which clients have the large privacy parameters, by the split of eps into two groups of least squared distances.

    PFA calls them public and the others private.  Its authors (2021) and the code of Robust-HDP cluster eps by mixtures or
    k-means with random starts; on a line the best split is found by trying all of them.

    Parameters
    ----------
    eps : array (n,) of numbers > 0.

    Returns
    -------
    array (n,) of bool; all True if all eps are equal.

    >>> public_clients([0.5, 8.0, 1.0, 10.0]).tolist()
    [False, True, False, True]
    """
    eps = per_client("eps", eps)
    eps = np.ldexp(eps, -exponents(eps.max()))  # only ratios count, and squares stay in range
    ordered = np.sort(eps)
    low = np.arange(1, eps.size)
    below = np.cumsum(ordered)[:-1]
    # Between-group sum of squares; splitting equal values cannot be the best way.
    gain = low * (eps.size - low) * (below / low - (ordered.sum() - below) / (eps.size - low)) ** 2
    if ordered[0] == ordered[-1]:
        return np.ones(eps.size, bool)
    return eps > ordered[np.argmax(gain)]


@paired
def project_private(updates: ArrayLike, public: ArrayLike, components: int = 1) -> Floats:
    """Updates in which those of private clients are projected on what varies most among the public ones (PFA).

    A private update becomes mean + U U' (update - mean), with the mean of the public updates and U their leading principal
    directions.  This takes away most of the private noise and, with it, whatever private clients do not share with public
    ones: a bias that averaging does not reduce.  With ``aggregation.eps_weights`` it is projected federated averaging.

    Source: Liu, Lou, Xiong, Liu and Meng 2021 (Projected Federated Averaging with Heterogeneous Differential Privacy); the
    paper was not at hand, the formula is that of two public implementations, of which that of Robust-HDP's authors also
    scales every parameter to unit variance among the public clients.

    Parameters
    ----------
    updates : array (p, n), one column per client.
    public : array (n,) of bool, at least one of them True; see `public_clients`.
    components : int in 0..(number of public clients - 1), how many directions to keep.

    Returns
    -------
    array (p, n), a copy; public columns are unchanged.

    >>> moves = np.array([[0.0, 2.0, 1.0], [1.0, 1.0, 7.0]])
    >>> project_private(moves, [True, True, False]).tolist()
    [[0.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """
    matrix = robust_pca.read_updates(updates)
    unit = exponents(np.abs(matrix).max(initial=0.0))  # in which no square leaves the range of numbers
    matrix = np.ldexp(matrix, -unit)
    public = flags("public", public)
    if public.shape != matrix.shape[1:]:
        raise ValueError(f"public must hold True or False for each of the {matrix.shape[1]} clients, got {public.shape}")
    if not public.any():
        raise ValueError("public must be True for at least one client, else there is nothing to project on")
    kept = index("components", components, 0, int(public.sum()) - 1)
    mean = matrix[:, public].mean(axis=1, keepdims=True)
    spread, others = matrix[:, public] - mean, matrix[:, ~public] - mean
    squares, right = np.linalg.eigh(np.einsum("ij,ik->jk", spread, spread))
    lead = (squares > robust_pca.GRAM_DIGITS**2 * squares[-1]) & (np.arange(len(squares)) >= len(squares) - kept)
    right = right[:, lead] / np.sqrt(squares[lead])
    coordinates = right.T @ np.einsum("ij,ik->jk", spread, others)
    projected = matrix.copy()
    projected[:, ~public] = mean + spread @ (right @ coordinates)
    return np.ldexp(projected, unit)
