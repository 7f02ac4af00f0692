"""The likelihood of logistic regressions of clients within groups, with one or two coefficients that vary at both levels.

Belongs here: `NestedQuadrature`, which serves ``logistic_clients`` where clients have groups: quadrature over a group's
effects, at each of whose nodes are the integrals of its clients (``gauss_hermite``).
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.quadrature import normal_grid
from estimators.regression.client_rows import ClientRows, Groups
from estimators.regression.covariances import Coordinates
from estimators.regression.gauss_hermite import Quadrature, observed

__all__ = ["NestedQuadrature"]


class NestedQuadrature(Quadrature):
    """As `Quadrature`, of theta_i = mu + outer h_g + root u_i, where h_g ~ N(0, I) is of client i's group, u_i ~ N(0, I)."""

    points: ClassVar[dict[int, int]] = {1: 15, 2: 9}  # along each direction at both levels: 225 or 6561 pairs of nodes
    fewer: ClassVar[dict[int, int]] = {1: 9, 2: 5}

    def __init__(
        self, rows: ClientRows, coordinates: Coordinates, mu: Floats | None, tol: float, groups: Groups, wide: bool = False
    ) -> None:
        super().__init__(rows, coordinates, mu, tol, wide)
        self.groups = groups
        self.peaks = self.starts = np.zeros((0, 0))

    def given(self, root: Floats, outer: Floats, phi: Floats, h: Floats, start: Floats) -> SimpleNamespace:
        """Return the clients' integrals where the effects h (g, k) of their groups are known."""
        return self.integrals(root, phi + (h @ outer.T)[self.groups.codes], start)

    def peak(self, root: Floats, outer: Floats, phi: Floats) -> tuple[Floats, Floats]:
        """Return about where each group's effects are likeliest (g, k), and a root (g, k, k) of the inverse curvature there.

        Nodes need not be at the mode itself, near it is as good.
        """
        h, k = self.peaks, outer.shape[1]
        scale: Floats = np.broadcast_to(np.eye(k), (len(h), k, k))
        for _ in range(20):
            now = self.given(root, outer, phi, h, self.starts[0])
            slope = self.groups.sums(now.a @ outer) - h
            values, vectors = np.linalg.eigh(self.groups.sums(outer.T @ observed(now) @ outer))
            turned = np.swapaxes(vectors, 1, 2)
            inverse: Floats = vectors / (1 + np.maximum(values, 0.0))[:, None, :] @ turned
            scale = np.asarray(np.linalg.cholesky(inverse), float)
            step = (inverse @ slope[..., None])[..., 0]
            if np.einsum("gk,gk->g", slope, step).max() < 1e-6:
                break
            h = h + np.clip(step, -3.0, 3.0)
        self.peaks = h
        return h, scale

    def look(self, root: Floats, phi: Floats, outer: Floats | None = None) -> SimpleNamespace:
        """Return the value (g,) of each group and what slopes, curvatures and posteriors need of groups and of clients."""
        assert outer is not None
        groups, codes, k = self.groups, self.groups.codes, outer.shape[1]
        nodes, masses = normal_grid(k, self.points[k])
        if self.starts.size == 0:  # the clients' modes, at the group's mode and at each node
            self.peaks, self.starts = np.zeros((len(groups.labels), k)), np.zeros((1 + len(nodes), self.m, k))
        peak, scale = self.peak(root, outer, phi)
        h = peak[:, None] + np.einsum("gkl,ql->gqk", scale, nodes)
        seen = [self.given(root, outer, phi, h[:, q], self.starts[1 + q]) for q in range(len(nodes))]
        logs = np.stack([-groups.sums(now.value) for now in seen], axis=1)
        logs += (np.sum(nodes**2, axis=1) - np.sum(h**2, axis=2)) / 2 + np.log(masses)
        top = logs.max(axis=1)
        chance = np.exp(logs - top[:, None])
        total = chance.sum(axis=1)
        chance /= total[:, None]

        of_clients = chance[codes]  # (m, q)

        def mean(part: Callable[[SimpleNamespace], Floats]) -> Floats:  # over the nodes, of what clients have at each
            return np.einsum("mq,qm...->m...", of_clients, np.stack([part(now) for now in seen]))

        found = SimpleNamespace(
            a=mean(lambda now: now.a), A=mean(lambda now: now.A), gg=mean(lambda now: now.gg),
            nu=mean(lambda now: now.nu), cross=mean(lambda now: now.cross),
        )  # fmt: skip
        found.value = -(top + np.log(total) + np.log(np.einsum("gkk->gk", scale)).sum(axis=1))
        scores = np.stack([groups.sums(now.a) for now in seen], axis=1)  # (g, q, r)
        found.score = np.einsum("gq,gqr->gr", chance, scores)
        apart = scores - found.score[:, None]
        within = groups.sums(mean(observed))
        found.observed = within - np.einsum("gq,gqr,gqs->grs", chance, apart, apart)
        found.curved = np.einsum("gq,gqr,gqs->grs", chance, scores, scores) - within
        found.h = np.einsum("gq,gqk->gk", chance, h)
        off = h - found.h[:, None]
        found.h_variance = np.einsum("gq,gqk,gql->gkl", chance, off, off)
        found.h_by_phi = np.einsum("gq,gqk,gqr->gkr", chance, off, scores)
        found.h_cross = np.einsum("gq,gqr,gqk->grk", chance, scores, h)
        odd = np.stack([now.nu for now in seen], axis=1) - found.nu[:, None]  # (m, q, k)
        found.cov = mean(lambda now: now.cov) + np.einsum("mq,mqk,mql->mkl", of_clients, odd, odd)
        found.uh = np.einsum("mq,mqk,mql->mkl", of_clients, odd, off[codes])
        own = mean(lambda now: np.swapaxes(now.cross, 1, 2) - now.nu[:, :, None] * now.a[:, None, :])
        found.by_phi = own + np.einsum("mq,mqk,mqr->mkr", of_clients, odd, scores[codes])
        return found

    def at(self, root: Floats, outer: Floats | None = None) -> SimpleNamespace:
        """Maximise over mu for roots (r, k) of the covariances within and between groups."""
        assert outer is not None
        now, settled = self.centre(
            lambda phi: self.look(root, phi, outer),
            lambda now: now.score.sum(axis=0),
            lambda now: now.observed.sum(axis=0),
        )
        return SimpleNamespace(
            loss=float(now.value.sum()) + now.law[0],
            law=now.law[0],
            by_root=-np.stack([now.cross.sum(axis=0), now.h_cross.sum(axis=0)]),
            by_covariance=np.stack([(now.gg - now.A).sum(axis=0), now.curved.sum(axis=0)]) / 2,
            P=np.eye(root.shape[1]) - now.cov,
            phi=now.phi,
            nu=now.nu,
            cov=now.cov,
            by_phi=now.by_phi,
            h=now.h,
            h_variance=now.h_variance,
            h_by_phi=now.h_by_phi,
            uh=now.uh,
            information=now.observed.sum(axis=0) + now.law[2],
            settled=settled,
        )

    def posterior(
        self, best: SimpleNamespace, mu: Floats, root: Floats, outer: Floats, out: Floats, counted: bool
    ) -> tuple[Floats, Floats, list[Floats], list[Floats], Floats]:
        """Return means of groups and clients, loadings of both by groups (and by mu if `counted`), and clients' own ones.

        `root`, `outer` (d, k) and `out` (d, r) are in the coefficients' own units.  A client's own part is what its group's
        effects do not explain linearly.
        """
        codes = self.groups.codes
        of_groups = mu + best.h @ outer.T
        mean = of_groups[codes] + best.nu @ root.T
        half = np.linalg.cholesky(best.h_variance)
        follow = best.uh @ np.swapaxes(np.linalg.inv(half), 1, 2)[codes]
        group_terms = [outer @ half]
        client_terms = [outer @ half[codes] + root @ follow]
        values, vectors = np.linalg.eigh(best.cov - follow @ np.swapaxes(follow, 1, 2))
        own = root @ (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
        if counted:
            spread = np.linalg.inv(np.linalg.cholesky(best.information)).T
            moved = out + outer @ best.h_by_phi
            group_terms.append(moved @ spread)
            client_terms.append((moved[codes] + root @ best.by_phi) @ spread)
        return of_groups, mean, group_terms, client_terms, own
