"""Clients' means around a line or plane: a prior mean that is linear in what is known of every client beforehand.

Belongs here: reading covariates, and what a likelihood of tau2 needs to know of them (Fay and Herriot 1979, JASA 74:269; in
medicine: meta-regression).  The model is ``gaussian_means``, intervals for its coefficients and tau2 are in
``prior_inference``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats
from estimators.numerics.blocks import dot
from estimators.numerics.validation import finite

__all__ = ["Design", "Regression", "left_out", "read_covariates"]

SAME = 1e-10  # part of a column's length that must be left beside the columns before it


def read_covariates(covariates: ArrayLike, rows: int | None, columns: int | None = None) -> Floats:
    """Return covariates as an array (rows, columns), of one column if they are a list of numbers, checked."""
    Z = finite("covariates", covariates)
    if Z.ndim == 1 and columns in (None, 1):
        Z = Z[:, None]
    if Z.ndim != 2 or Z.shape[1] == 0 or (rows is not None and Z.shape[0] != rows) or columns not in (None, Z.shape[1]):
        each = "" if rows is None else f", {rows},"
        wide = "one column per covariate" if columns is None else f"{columns} column" + "s" * (columns > 1)
        raise ValueError(f"covariates must have one row per client{each} and {wide}, got shape {Z.shape}")
    return Z


@dataclass(frozen=True, eq=False)
class Design:
    """The columns 1 (if there is an `intercept`) and covariates Z, in coordinates in which they are orthonormal.

    Attributes
    ----------
    basis : array (m, p), whose columns are orthonormal over the clients that are heard.
    slopes : array (1 + q, p): coefficients of 1 and the q covariates from those of the basis; zeros for no intercept.
    kept : bools (q,), covariates that are no combination of those before them and the intercept.
    shift, scale : what is taken off the columns, and what covariates are divided by before that.
    triangle, mixed : arrays (p, p) and (p, 1 + q): the columns kept, and all of them, from the basis.
    """

    basis: Floats
    slopes: Floats
    kept: Bools
    shift: Floats
    scale: Floats
    triangle: Floats
    mixed: Floats

    @classmethod
    def read(cls, Z: Floats, heard: Bools, intercept: bool) -> Self:
        """Make the design of checked covariates Z (m, q), of which those of clients that are `heard` count."""
        m, q = Z[heard].shape
        scale = np.ldexp(1.0, np.frexp(np.abs(Z).max(axis=0))[1])
        columns = np.column_stack([np.ones(m), Z[heard] / scale])
        length = np.linalg.norm(columns, axis=0)
        shift = columns.mean(axis=0) if intercept and m else np.zeros(1 + q)
        shift[0] = 0.0
        columns -= shift
        Q, R, used = np.zeros((m, 0)), np.zeros((1 + q, 1 + q)), []
        for j in range(1 + q) if intercept else range(1, 1 + q):
            rest = columns[:, j].copy()
            for _ in range(2):  # Gram-Schmidt twice is enough
                shares = np.einsum("ij,i->j", Q, rest)
                R[: len(used), j] += shares
                rest -= np.einsum("ij,j->i", Q, shares)
            size = np.sqrt(dot(rest, rest))
            if size > SAME * length[j]:
                R[len(used), j] = size
                Q, used = np.column_stack([Q, rest / size]), [*used, j]
        p = len(used)
        triangle = R[:p, used]
        inverse = np.linalg.inv(triangle)
        slopes = np.zeros((1 + q, p))
        slopes[used] = inverse / np.append(1.0, scale)[used, None]
        slopes[0] -= np.einsum("j,jp->p", shift[used], inverse)
        kept = np.isin(np.arange(1, 1 + q), used)
        found = cls(np.zeros((0, p)), slopes, kept, shift, scale, triangle, R[:p])
        basis = np.empty((len(Z), p))
        basis[heard], basis[~heard] = Q, found.rows(Z[~heard])[0]
        return cls(basis, slopes, kept, shift, scale, triangle, R[:p])

    def rows(self, Z: Floats) -> tuple[Floats, Bools]:
        """Return the basis for covariates Z of other clients, and for whom these break what those left out obeyed."""
        intercept = len(self.triangle) > self.kept.sum()
        columns = np.column_stack([np.full(len(Z), float(intercept)), Z / self.scale]) - self.shift
        basis: Any = np.linalg.solve(self.triangle.T, columns[:, np.append(intercept, self.kept)].T).T
        gap = np.abs(columns - np.einsum("ip,pj->ij", basis, self.mixed))[:, 1:][:, ~self.kept]
        size = (np.abs(Z / self.scale) + np.abs(self.shift[1:]) + 1e-300)[:, ~self.kept]
        return basis, (gap > 1e-6 * size).any(axis=1)


def left_out(kept: Bools) -> str:
    """Return the names of covariates that say nothing beside the others."""
    return " and ".join(f"covariates[:, {j}]" for j in np.flatnonzero(~kept))


class Regression:
    """What follows for y_i ~ N(origin + basis_i gamma, tau2 + v_i) at values of tau2, with gamma (p,) profiled out.

    It serves ``tau2_likelihood.MarginalLikelihood`` as the part that knows how the prior's mean is made.  At every tau2 the
    weighted basis is made orthonormal, in order of growing variances, which keeps digits where these differ by many orders
    of magnitude.
    """

    prior: str
    restricted: bool

    def __init__(self, y: Floats, v: Floats, basis: Floats, origin: float) -> None:
        order = np.argsort(v, kind="stable")
        self.v, self.basis, self.origin = v[order], basis[order], origin
        y = y[order] - origin
        self.start = np.einsum("ip,i->p", self.basis, y)
        self.y = y - np.einsum("ip,p->i", self.basis, self.start)
        self.size, self.coefficients = basis.shape
        self.passes = 0
        self.v_range = (v.min(), v.max()) if v.size else (1.0, 1.0)
        self.equal = self.v_range[0] == self.v_range[1] and v.size > 0
        self.within = dot(self.y, self.y) if self.equal else 0.0
        self.spread = float(np.ptp(self.y)) if v.size else 0.0

    def solve(self, tau2s: Floats) -> Iterable[tuple[int, Floats, Floats, Floats, Floats]]:
        """Yield, at each of `tau2s`: its place, weights, orthonormal basis, its triangle, and residuals over their sds."""
        self.passes += tau2s.size
        for k, tau2 in enumerate(tau2s):
            w = 1 / (self.v + tau2)
            root = np.sqrt(w)
            Q, R = np.linalg.qr(root[:, None] * self.basis)
            z = root * self.y
            yield k, w, Q, R, z - np.einsum("ip,p->i", Q, np.einsum("ip,i->p", Q, z))

    def centre(self, tau2s: Floats) -> tuple[Floats, Floats]:
        """Return the best gamma (k, p) at each of `tau2s`, and its covariance (k, p, p)."""
        p = self.coefficients
        found, covariance = np.empty((tau2s.size, p)), np.empty((tau2s.size, p, p))
        for k, w, Q, R, _ in self.solve(tau2s):
            inverse = np.linalg.inv(R)
            found[k] = self.start + inverse @ np.einsum("ip,i->p", Q, np.sqrt(w) * self.y)
            covariance[k] = inverse @ inverse.T
        return found, covariance

    def squares(self, tau2s: Floats) -> Floats:
        """Return the sum of squared residuals over their variances at each of `tau2s`."""
        return np.array([dot(e, e) for *_, e in self.solve(tau2s)])

    def traces(self, tau2: float) -> tuple[float, float, float]:
        """Return the sums of w and of w^2, and the trace of (X'W X)^-1 X'W^2 X."""
        _, w, Q, _, _ = next(iter(self.solve(np.array([tau2]))))
        return float(np.sum(w)), float(np.sum(w**2)), float(np.einsum("ip,ip,i->", Q, Q, w))

    def score(self, tau2s: Floats) -> Floats:
        """Return what falls through 0 at the estimate: twice a derivative, or the moment condition."""
        if self.prior == "moments":
            return self.squares(tau2s) - (self.size - self.coefficients)
        found = np.empty(tau2s.size)
        for k, w, Q, _, e in self.solve(tau2s):
            taken = np.einsum("ip,ip->i", Q, Q) if self.restricted else 0.0
            found[k] = np.sum(w * (e**2 - 1 + taken))
        return found

    def objective(self, tau2s: Floats, mu: Floats | float | None = None, restricted: bool | None = None) -> Floats:
        """Return the log density of y, at the best gamma or the one given; for REML and averages the restricted one."""
        found = np.empty(tau2s.size)
        for k, w, _, R, e in self.solve(tau2s):
            if mu is not None:
                e = np.sqrt(w) * (self.y - np.einsum("ip,p->i", self.basis, mu - self.start))
            found[k] = np.sum(np.log(w)) - self.size * np.log(2 * np.pi) - dot(e, e)
            if self.restricted if restricted is None else restricted:
                found[k] -= 2 * np.sum(np.log(np.abs(np.diag(R))))
        return found / 2
