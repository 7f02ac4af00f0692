"""Variance components of clients' messages: how much clients differ, and what sampling and privacy add; with errors.

Model: message_i = centre + p_i + e_i + l_i in each of d coordinates, with a client's deviation p_i ~ N(0, tau2), its
sampling error e_i ~ N(0, sigma2 / n_i) or of known variance, and privacy noise l_i of known variance or of one unknown
variance for each level of privacy.  The centre is any vector; variances are common to the coordinates, which are pooled.

Belongs here: estimates of variances from what a server sees.  What is done with them is in ``strengths`` and
``aggregation``; noise variances of single clients from one round of long updates are in ``robust_pca``; a prior for scalar
estimates of known variance is in ``gaussian``.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import count, finite, nonnegative, paired, positive, real

__all__ = ["Components", "RoundVariances", "round_variances", "variance_components"]

MAX_ITER = 200


class Components(NamedTuple):
    """Estimates by name, with standard errors, the covariance of the estimates (in order), and the state of the search."""

    estimates: dict
    standard_errors: dict
    covariance: np.ndarray
    centre: np.ndarray
    variances: np.ndarray
    log_likelihood: float
    converged: bool
    n_iter: int


class RoundVariances(NamedTuple):
    """Variance of each client's message from round to round (can be negative by chance) and its standard error."""

    variances: np.ndarray
    standard_errors: np.ndarray


def read_messages(messages: ArrayLike) -> Floats:
    """Return messages as a matrix with one row per client, named by the client where they are bad."""
    matrix = real("messages", messages)
    if matrix.ndim not in (1, 2) or 0 in matrix.shape:
        raise ValueError(f"messages must have one row per client (or one number per client), got shape {matrix.shape}")
    matrix = matrix.reshape(len(matrix), -1)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if bad.size:
        shown = ", ".join(map(str, bad[:10])) + (", ..." if bad.size > 10 else "")
        raise ValueError(f"messages holds NaN or an infinity in row {shown} of {len(matrix)}; leave these clients out")
    return matrix


def per_client(name: str, values: np.ndarray, m: int) -> Floats:
    """Return a number or one per client as one per client."""
    if values.shape not in ((), (m,)):
        raise ValueError(f"{name} must be one number or one for each of the {m} clients, got shape {values.shape}")
    return np.broadcast_to(values, (m,))


def read_design(
    m: int, known: ArrayLike, n_samples: ArrayLike | None, level: ArrayLike | None
) -> tuple[list[str], Floats, Floats]:
    """Return the names and the matrix of the unknown components, and the known variances."""
    known = per_client("known", nonnegative("known", known), m)
    names, columns = ["tau2"], [np.ones(m)]
    if n_samples is not None:
        names.append("sigma2")
        columns.append(1 / per_client("n_samples", positive("n_samples", n_samples), m))
    if level is not None:
        level = count("level", level, 0).astype(int)
        if level.shape != (m,):
            raise ValueError(f"level must hold a whole number >= 0 for each of the {m} clients")
        for unknown in np.unique(level[level > 0]):
            names.append(f"gamma2[{unknown}]")
            columns.append((level == unknown).astype(float))
    design = np.column_stack(columns)
    scaled = design / design.max(axis=0)
    if np.linalg.matrix_rank(scaled, tol=1e-6 * np.sqrt(m)) < len(names):
        raise ValueError(
            f"the components {', '.join(names)} cannot be told apart: sigma2 needs n_samples that differ, and unknown "
            "levels need clients of level 0, whose noise is known; otherwise give the sampling variances in known"
        )
    if m <= len(names):
        raise ValueError(f"messages of {m} clients cannot tell {len(names)} components; {len(names) + 1} are needed")
    return names, design, known


class Restricted:
    """Restricted likelihood of messages whose variances are known + design @ theta, in `coordinates` pooled coordinates."""

    def __init__(self, matrix: Floats, design: Floats, known: Floats) -> None:
        self.origin = matrix.mean(axis=0)
        self.matrix, self.design, self.known = matrix - self.origin, design, known
        self.coordinates = matrix.shape[1]
        self.scale = np.einsum("ij,ij->", self.matrix, self.matrix) / self.matrix.size + known.max()
        self.work = np.empty_like(self.matrix)

    def at(self, theta: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Return variances, centre, squared residuals of each client and the objective at `theta`."""
        variances = np.maximum(self.known + self.design @ theta, 1e-15 * self.scale)
        precision = 1 / variances
        centre = np.einsum("i,ij->j", precision, self.matrix) / precision.sum()
        np.subtract(self.matrix, centre, out=self.work)
        squares = np.einsum("ij,ij->i", self.work, self.work)
        size = np.log(variances).sum() + np.log(precision.sum())
        return variances, centre, squares, -0.5 * (self.coordinates * size + np.sum(squares * precision))

    def score(self, variances: Floats, squares: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the derivative of the objective, its expected information, and its average with the observed one."""
        precision = 1 / variances
        total = precision.sum()
        hat = self.design * precision[:, None]
        weighted = hat * precision[:, None]
        part = weighted.sum(axis=0) / total
        score = np.einsum("i,ij->j", squares, weighted) - self.coordinates * (hat.sum(axis=0) - part)
        expected = np.einsum("ij,ik->jk", hat, hat) - 2 * np.einsum("ij,ik->jk", hat, weighted) / total
        shifts = np.einsum("ij,ik->jk", weighted, self.work)
        average = np.einsum("i,ij,ik->jk", squares * precision, hat, hat) - np.einsum("ij,kj->ik", shifts, shifts) / total
        expected += np.outer(part, part)
        diagonal = np.einsum("jj->j", expected)  # of a variance that ends at 0 with the centre at its client nothing is left
        diagonal[:] = np.maximum(diagonal, 1e-10 * np.einsum("ij,ij->j", hat, hat))
        return score / 2, self.coordinates / 2 * expected, average / 2

    def start(self) -> Floats:
        """Return least squares estimates of the components from the squared deviations, kept off zero."""
        from scipy.optimize import nnls

        excess = np.einsum("ij,ij->i", self.matrix, self.matrix) / self.coordinates - self.known
        weight = 1 / (self.known + self.scale)
        theta = nnls(self.design * weight[:, None], excess * weight)[0]
        return np.maximum(theta, 0.01 * self.scale / self.design.max(axis=0))

    def maximise(self) -> tuple[Floats, bool, int]:
        """Return the components >= 0, whether the search converged, and its iterations.

        There can be several maxima if clients are few and their variances very unequal, so the search starts with all
        components, with little of all, and with little of all but one.
        """
        start = self.start()
        starts = [start, 1e-3 * start]
        if start.size > 1:
            starts += [np.where(np.arange(start.size) == one, start, 1e-3 * start) for one in range(start.size)]
        found = [self.climb(theta) for theta in starts]
        theta, _, converged = max(found, key=lambda end: end[1])[:3]
        return theta, converged, sum(end[3] for end in found)

    def climb(self, theta: Floats) -> tuple[Floats, float, bool, int]:
        """Return components, objective, whether they are a maximum, and the iterations of a search from `theta`.

        Each step maximises a quadratic over components >= 0, and is halved until the objective does not fall.  Its
        curvature is the observed one where that is positive, else its average with the expected one, which always is.
        """
        from scipy.optimize import nnls

        variances, _, squares, objective = self.at(theta)
        for iteration in range(1, MAX_ITER + 1):
            score, expected, average = self.score(variances, squares)
            unit = 1 / np.sqrt(np.diag(expected))
            average = average * np.outer(unit, unit)
            average += (1e-9 + 2 * max(0.0, -np.linalg.eigvalsh(average)[0])) * np.eye(len(unit))
            observed = 2 * average - expected * np.outer(unit, unit)
            values = np.linalg.eigvalsh(observed)
            root = np.linalg.cholesky(observed if values[0] > 0.1 else average).T
            target = root @ (theta / unit) + np.linalg.solve(root.T, score * unit)
            aim = unit * nnls(root, target)[0]
            length = 1.0
            while True:
                new = theta + length * (aim - theta)
                variances, _, squares, value = self.at(new)
                if value >= objective - 1e-12 * abs(objective) or length < 1e-9:
                    break
                length /= 2
            moved = np.abs(new - theta) / unit  # in standard errors
            theta, objective = new, value
            if moved.max() <= 1e-7:
                return theta, objective, True, iteration
        return theta, objective, False, MAX_ITER


@paired
def variance_components(
    messages: ArrayLike, *, known: ArrayLike = 0.0, n_samples: ArrayLike | None = None, level: ArrayLike | None = None
) -> Components:
    """Variance components of clients' messages by restricted maximum likelihood; estimates with standard errors.

    The variance of message i around the centre is tau2 + known_i, plus sigma2 / n_i if `n_samples` is given, plus
    gamma2[k] if `level` is given and the client's level is k > 0.  The centre is estimated with the weights that follow.
    Claims: fedhdp:eq61, fedhdp:eq64 (the variances that the weights need), mrmtl:eq5.

    Parameters
    ----------
    messages : array (clients, coordinates), or (clients,) for one coordinate; at least one client more than components.
    known : number or array (clients,) of variances >= 0 of a coordinate: what is known of sampling and privacy noise.
    n_samples : None, or array (clients,) of numbers > 0 that are not all equal; then sigma2, the variance of one sample,
        is estimated.  Without it and without sampling variances in `known`, tau2 includes the sampling variance.
    level : None, or array (clients,) of whole numbers: 0 for clients whose noise is in `known`, k > 0 for the k-th unknown
        level of noise, whose variance in a message is estimated as "gamma2[k]".

    Returns
    -------
    Components
        estimates, standard_errors : dicts; an estimate of 0 is at the edge, where its standard error (from the expected
        information for Gaussian data) says only how large it could well be.  covariance : of the estimates, in order.
        centre : array (coordinates,).  variances : fitted variance of every client's message around the centre.
        log_likelihood : log density of the messages at the estimates.  converged, n_iter : of the search.
        Identical messages without any known noise give estimates of 0 and an infinite log likelihood.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain, or the components that these messages cannot tell apart.

    Notes
    -----
    Restricted maximum likelihood (Patterson and Thompson 1971), Newton steps over components >= 0.

    >>> found = variance_components([[1.0, 2.0], [3.0, -2.0], [5.0, 0.0]], known=1.0)
    >>> {name: round(value, 6) for name, value in found.estimates.items()}
    {'tau2': 3.0}
    """
    matrix = read_messages(messages)
    names, design, known = read_design(len(matrix), known, n_samples, level)
    model = Restricted(matrix, design, known)
    if model.scale == 0:
        zeros = dict.fromkeys(names, 0.0)
        loose = np.zeros((len(names), len(names)))
        return Components(zeros, dict(zeros), loose, matrix[0].copy(), np.array(known), np.inf, True, 0)
    theta, converged, iterations = model.maximise()
    variances, centre, squares, _ = model.at(theta)
    if not converged:
        warnings.warn(
            f"variance_components: no convergence in {MAX_ITER} steps; the likelihood is flat or has its maximum at the "
            "edge of a component that these messages hardly determine",
            RuntimeWarning,
            stacklevel=3,
        )
    covariance = np.linalg.inv(model.score(variances, squares)[1])
    density = -0.5 * (model.coordinates * np.log(2 * np.pi * variances).sum() + np.sum(squares / variances))
    return Components(
        dict(zip(names, map(float, theta), strict=True)),
        dict(zip(names, map(float, np.sqrt(np.diag(covariance))), strict=True)),
        covariance,
        model.origin + centre,
        variances,
        float(density),
        converged,
        iterations,
    )


@paired
def round_variances(rounds: ArrayLike) -> RoundVariances:
    """Variance of each client's message from round to round, around what is common to the round; unbiased, with errors.

    Model: message_ri = deviation_i + common_r + noise_ri, where the noise of client i has variance s_i, independent over
    rounds and coordinates, and common_r (the moving centre) and deviation_i are any vectors.  What is new in every round,
    privacy noise and the sampling of batches, is in s_i; what a client keeps, tau2 and the error of its fixed sample, is
    not.  The residuals' squares q_i of the two-way layout have mean (1 - 2/n) s_i + sum_j s_j / n^2, which is solved for
    s_i (Grubbs 1948; Ehrenberg 1950).  Claim: robusthdp:eq7 says what s_i is made of.

    Parameters
    ----------
    rounds : array (rounds, clients, coordinates), or (rounds, clients); at least 2 rounds and 3 clients.

    Returns
    -------
    RoundVariances
        variances : array (clients,), unbiased, so below 0 by chance when a client's noise is far less than others';
        standard_errors : array (clients,), exact for Gaussian noise with the estimates in place of the variances.

    >>> round_variances([[0.0, 1.0, 2.0], [1.0, 2.0, 6.0]]).variances.round(6).tolist()
    [0.0, 0.0, 4.5]
    """
    table = finite("rounds", rounds)
    if table.ndim not in (2, 3) or 0 in table.shape:
        raise ValueError(f"rounds must have shape (rounds, clients, coordinates) or (rounds, clients), got {table.shape}")
    count = table.shape[1]
    if table.shape[0] < 2 or count < 3:
        raise ValueError(f"rounds must hold at least 2 rounds of at least 3 clients, got shape {table.shape}")
    table = table.reshape(table.shape[0], count, -1)
    freedom = (table.shape[0] - 1) * table.shape[2]
    table = table - table.mean(axis=0)
    table = table - table.mean(axis=1, keepdims=True)
    squares = np.einsum("rij,rij->i", table, table) / freedom
    total = squares.sum() * count / (count - 1)
    variances = (squares - total / count**2) * count / (count - 2)
    # Covariance C of the residuals of one coordinate in one round; the squares have covariance 2 C_ij^2 / freedom.
    s = np.maximum(variances, 0.0)
    apart = s.sum() / count**2 - s / count
    own = apart - s / count + s
    cross = count * apart**2 - 2 * apart * s.sum() / count + np.sum(s**2) / count**2 - (apart - s / count) ** 2
    with_total = (own**2 + cross) / (count * (count - 1))
    spread = own**2 - 2 * with_total + np.sum(own**2 + cross) / (count * (count - 1)) ** 2
    return RoundVariances(variances, np.sqrt(2 / freedom * np.maximum(spread, 0.0)) * count / (count - 2))
