"""The likelihood of logistic regressions of many clients of whose coefficients one or two vary, by quadrature.

Belongs here: `Quadrature`, which serves ``logistic_clients`` in the place of its variational bound, and ``nested_logistic``
for the clients of a group.  Each client's integral over its coefficients is a sum over Gauss-Hermite nodes about its mode,
scaled by the curvature there (Liu and Pierce 1994, Biometrika 81:624; lme4's ``glmer(nAGQ=)``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from estimators.numerics.arrays import Bools, Floats
from estimators.numerics.quadrature import normal_grid
from estimators.regression.client_rows import ClientRows
from estimators.regression.covariances import Coordinates

__all__ = ["MOST", "POINTS", "Quadrature", "observed"]

MOST = 2
"""Coefficients that vary up to which the nodes are few enough."""

POINTS, FEWER = {1: 25, 2: 15}, {1: 15, 2: 7}
"""Nodes along each direction, by the number of directions; and of a `Quadrature.coarse` one."""

WIDTH = 2.5  # log-odds, of the law of mu: Gelman et al. (2008), Ann. Appl. Stat. 2:1360
SMALL = 1e-5  # nats per client
FAR = 5.0  # log-odds, the longest step of a coarse one
NEAR = 1e-4  # twice the nats by which mu of a coarse one may be off its maximum, a hundredth of its standard deviation
WORK = 2**21  # numbers in a work array


def unlikely(phi: Floats, wide: bool) -> tuple[float, Floats, Floats]:
    """Return minus the log density of mu, its slope and its curvature: nothing, or if `wide` of a Cauchy law about 0.

    The law, in white coordinates, keeps finite what labels that features separate leave open.  Its curvature is that of the
    normal law that it is at phi, as a mixture of such: never negative.
    """
    if not wide:
        return 0.0, 0 * phi, np.zeros((len(phi), len(phi)))
    r, size = len(phi), float(WIDTH**2 + phi @ phi)
    return (r + 1) / 2 * math.log(size / WIDTH**2), (r + 1) / size * phi, (r + 1) / size * np.eye(r)


class Quadrature:
    """Minus the log-likelihood in white coordinates, at its maximum over mu, and what its slopes are made of.

    theta_i = mu + root u_i with u_i ~ N(0, I); mu has the coordinates phi, and if `wide` the law `unlikely`, which then
    counts in all.  A new root starts from the last phi and modes.
    """

    points, fewer, near = POINTS, FEWER, 0.0
    steps, shortest = 50, 1e-6  # towards the best phi at most, and how short a part of one

    def __init__(
        self, rows: ClientRows, coordinates: Coordinates, mu: Floats | None, tol: float, wide: bool = False
    ) -> None:
        self.tol, self.learnt, self.wide = tol, mu is None, wide and mu is None
        self.m, self.r = len(rows.counts), coordinates.out.shape[1]
        self.batches = []
        for clients, X, Y, real in rows.batches():
            offset = np.zeros(Y.shape) if mu is None else X @ mu
            many = max(1, WORK // (X.shape[1] * POINTS[MOST] ** MOST))
            for start in range(0, len(clients), many):
                part = slice(start, start + many)
                self.batches.append((clients[part], X[part] @ coordinates.out, Y[part], real[part], offset[part]))
        self.phi, self.modes = np.zeros(self.r), None

    def coarse(self) -> Self:
        """Return the same likelihood with fewer nodes, and mu near its maximum."""
        found = copy(self)
        found.points, found.near = self.fewer, NEAR
        found.steps, found.shortest = 8, 0.2  # values and slopes by few nodes do not agree where covariances are huge
        return found

    def look(self, root: Floats, phi: Floats) -> SimpleNamespace:
        """Return `integrals` of all clients about one phi."""
        if self.modes is None or self.modes.shape[1] != root.shape[1]:
            self.modes = np.zeros((self.m, root.shape[1]))
        return self.integrals(root, np.broadcast_to(phi, (self.m, self.r)), self.modes)

    def integrals(self, root: Floats, phi: Floats, start: Floats) -> SimpleNamespace:
        """Return minus the log-likelihood (m,) of each client about its phi (m, r), and what slopes and curvatures need.

        These are posterior means: of its score g, a; of g g', gg; of minus its second derivative, A; of u, nu; of g u',
        cross; and the covariance of u, cov.  `start` (m, k) holds modes to start from, and gets the new ones.
        """
        k, r, m = root.shape[1], self.r, self.m
        nodes, masses = normal_grid(k, self.points[k])
        found = SimpleNamespace(value=np.empty(m), a=np.empty((m, r)), A=np.empty((m, r, r)), gg=np.empty((m, r, r)))
        found.nu, found.cov, found.cross = np.empty((m, k)), np.empty((m, k, k)), np.empty((m, r, k))
        for clients, X, Y, real, offset in self.batches:
            base, B = offset + np.einsum("bnr,br->bn", X, phi[clients]), X @ root
            mode, scale = modes(base, B, Y, real, start[clients])
            start[clients] = mode
            u = mode[:, None] + np.einsum("bkl,ql->bqk", scale, nodes)
            odds = u @ np.swapaxes(B, 1, 2) + base[:, None]
            small = np.exp(-np.abs(odds))
            logs = (u @ np.einsum("bnk,bn->bk", B, Y)[..., None])[..., 0] + np.einsum("bn,bn->b", Y, base)[:, None]
            logs -= np.einsum("bqn,bn->bq", np.maximum(odds, 0.0) + np.log1p(small), real)
            logs += (np.sum(nodes**2, axis=1) - np.sum(u**2, axis=2)) / 2 + np.log(masses)
            top = logs.max(axis=1)
            chance = np.exp(logs - top[:, None])
            total = chance.sum(axis=1)
            found.value[clients] = -(top + np.log(total) + np.log(np.einsum("bkk->bk", scale)).sum(axis=1))
            chance /= total[:, None]
            p = np.where(odds >= 0, 1.0, small) / (1 + small)
            mean_weight = (chance[:, None] @ (small / (1 + small) ** 2))[:, 0]
            g = np.einsum("bnr,bn->br", X, Y)[:, None] - p @ X  # rows that are padding have X = 0
            found.a[clients] = np.einsum("bq,bqr->br", chance, g)
            found.gg[clients] = np.swapaxes(chance[..., None] * g, 1, 2) @ g
            found.cross[clients] = np.swapaxes(chance[..., None] * g, 1, 2) @ u
            found.A[clients] = np.swapaxes(mean_weight[..., None] * X, 1, 2) @ X
            mean = np.einsum("bq,bqk->bk", chance, u)
            apart = u - mean[:, None]
            found.nu[clients] = mean
            found.cov[clients] = np.einsum("bq,bqk,bql->bkl", chance, apart, apart)
        return found

    def at(self, root: Floats) -> SimpleNamespace:
        """Maximise over mu for a root (r, k) of the covariance, and return that state."""
        now, settled = self.centre(
            lambda phi: self.look(root, phi), lambda now: now.a.sum(axis=0), lambda now: observed(now).sum(axis=0)
        )
        return SimpleNamespace(
            loss=float(now.value.sum()) + now.law[0],
            law=now.law[0],
            by_root=-now.cross.sum(axis=0),
            by_covariance=(now.gg - now.A).sum(axis=0) / 2,
            P=np.eye(root.shape[1]) - now.cov,
            profiled=0,
            phi=now.phi,
            nu=now.nu,
            cov=now.cov,
            by_phi=np.swapaxes(now.cross, 1, 2) - now.nu[:, :, None] * now.a[:, None, :],
            information=observed(now).sum(axis=0) + now.law[2],
            settled=settled,
        )

    def centre(
        self,
        look: Callable[[Floats], SimpleNamespace],
        slope_of: Callable[[SimpleNamespace], Floats],
        curvature_of: Callable[[SimpleNamespace], Floats],
    ) -> tuple[SimpleNamespace, bool]:
        """Return what `look` sees at the best phi, found by Newton's method and kept, and whether the search settled."""
        phi, settled = self.phi, False
        now = self.counted(look, phi)
        for _ in range(self.steps):
            slope = (slope_of(now) - now.law[1]) * self.learnt
            settled = bool(np.abs(slope).max() <= self.tol * self.m / 10)
            if settled:
                break
            values, vectors = np.linalg.eigh(curvature_of(now) + now.law[2])
            values = np.maximum(values, 1e-3 * np.trace(now.A.sum(axis=0)) / self.r)
            move, share = vectors @ ((vectors.T @ slope) / values), 1.0
            if self.near:
                move *= min(1.0, FAR / np.linalg.norm(move))
                if settled := bool(slope @ move < self.near):
                    break
            ahead = self.counted(look, phi + move)
            # Gains this small are within what sums over nodes are off by; slopes are not.
            while ahead.height > now.height and slope @ move > SMALL * self.m and share > self.shortest:
                share /= 2
                ahead = self.counted(look, phi + share * move)
            phi, now = phi + share * move, ahead
        if settled or not self.near:  # else the next search had better start elsewhere
            self.phi = phi
        now.phi = phi
        return now, settled

    def counted(self, look: Callable[[Floats], SimpleNamespace], phi: Floats) -> SimpleNamespace:
        """Return what `look` sees at phi, with what the law of mu adds."""
        now = look(phi)
        now.law = unlikely(phi, self.wide)
        now.height = now.value.sum() + now.law[0]
        return now


def observed(now: SimpleNamespace) -> Floats:
    """Return each client's observed information about phi (m, r, r), from its `Quadrature.integrals`."""
    return now.A - (now.gg - now.a[:, :, None] * now.a[:, None, :])


def modes(base: Floats, B: Floats, Y: Floats, real: Bools, start: Floats) -> tuple[Floats, Floats]:
    """Return each client's mode of u (b, k) and a root of the inverse of the curvature there, lower triangular."""
    from scipy.special import expit

    def height(u):
        odds = base + np.einsum("bnk,bk->bn", B, u)
        return odds, np.sum(real * (Y * odds - np.logaddexp(0.0, odds)), axis=1) - np.sum(u**2, axis=1) / 2

    u, k = start.copy(), B.shape[2]
    odds, value = height(u)
    ahead, curvature = value, np.broadcast_to(np.eye(k), (len(u), k, k))
    for _ in range(100):
        p = real * expit(odds)
        slope = np.einsum("bnk,bn->bk", B, real * Y - p) - u
        curvature = np.eye(k) + np.einsum("bnk,bn,bnl->bkl", B, p * (1 - p), B)
        step = np.linalg.solve(curvature, slope[..., None])[..., 0]
        if np.sum(slope * step, axis=1).max(initial=0.0) < 1e-10:  # twice what is left to gain
            break
        share = np.ones((len(u), 1))
        for _ in range(30):
            odds, ahead = height(u + share * step)
            worse = ahead < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            share[worse] /= 2
        u, value = u + share * step, ahead
    spread: Any = np.linalg.cholesky(np.linalg.inv(curvature))
    return u, spread
