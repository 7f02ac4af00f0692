"""The likelihood of logistic regressions of clients within groups, with one coefficient that varies at both levels.

Belongs here: `NestedQuadrature`, which serves ``logistic_clients`` where clients have groups: quadrature over a group's
effect, at each of whose nodes are the integrals of its clients (``gauss_hermite``).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.regression.client_rows import ClientRows, Groups
from estimators.regression.covariances import Coordinates
from estimators.regression.gauss_hermite import Quadrature, grid, observed

__all__ = ["NestedQuadrature"]


class NestedQuadrature(Quadrature):
    """As `Quadrature`, of theta_i = mu + outer h_g + root u_i, where h_g ~ N(0, 1) is of client i's group, u_i ~ N(0, 1)."""

    points: ClassVar[dict[int, int]] = {1: 15}  # at both levels, 225 pairs

    def __init__(self, rows: ClientRows, coordinates: Coordinates, mu: Floats | None, tol: float, groups: Groups) -> None:
        super().__init__(rows, coordinates, mu, tol)
        self.groups = groups
        self.nodes, self.masses = grid(1, self.points[1])
        self.nodes = self.nodes[:, 0]
        self.starts = np.zeros((1 + len(self.nodes), self.m, 1))  # the clients' modes, at the group's mode and at each node
        self.peaks = np.zeros(len(groups.labels))

    def given(self, root: Floats, outer: Floats, phi: Floats, h: Floats, start: Floats) -> SimpleNamespace:
        """Return the clients' integrals where the effects h (g,) of their groups are known."""
        return self.integrals(root, phi + h[self.groups.codes, None] * outer[:, 0], start)

    def peak(self, root: Floats, outer: Floats, phi: Floats) -> tuple[Floats, Floats]:
        """Return about where each group's effect is likeliest (g,), and the standard deviation (g,) by the curvature there.

        Nodes need not be at the mode itself, near it is as good.
        """
        h, spread = self.peaks, np.ones(len(self.peaks))
        for _ in range(20):
            now = self.given(root, outer, phi, h, self.starts[0])
            slope = self.groups.sums(now.a @ outer[:, 0]) - h
            seen = self.groups.sums(np.einsum("r,mrq,q->m", outer[:, 0], observed(now), outer[:, 0]))
            spread = 1 / np.sqrt(1 + np.maximum(seen, 0.0))
            step = slope * spread**2
            if np.abs(step / spread).max() < 1e-3:
                break
            h = h + np.clip(step, -3.0, 3.0)
        self.peaks = h
        return h, spread

    def look(self, root: Floats, phi: Floats, outer: Floats | None = None) -> SimpleNamespace:
        """Return the value (g,) of each group and what slopes, curvatures and posteriors need of groups and of clients."""
        assert outer is not None
        groups, codes = self.groups, self.groups.codes
        peak, spread = self.peak(root, outer, phi)
        h = peak[:, None] + spread[:, None] * self.nodes
        seen = [self.given(root, outer, phi, h[:, q], self.starts[1 + q]) for q in range(len(self.nodes))]
        logs = np.stack([-groups.sums(now.value) for now in seen], axis=1)
        logs += (self.nodes**2 - h**2) / 2 + np.log(self.masses)
        top = logs.max(axis=1)
        chance = np.exp(logs - top[:, None])
        total = chance.sum(axis=1)
        chance /= total[:, None]

        of_clients = chance[codes]  # (m, q)

        def mean(parts: Sequence[Floats]) -> Floats:  # over the nodes, of what clients have at each
            return np.einsum("mq,qm...->m...", of_clients, np.stack(parts))

        names = ("a", "A", "gg", "nu", "cross")
        found = SimpleNamespace(**{name: mean([getattr(now, name) for now in seen]) for name in names})
        found.value = -(top + np.log(total) + np.log(spread))
        scores = np.stack([groups.sums(now.a) for now in seen], axis=1)  # (g, q, r)
        found.score = np.einsum("gq,gqr->gr", chance, scores)
        apart = scores - found.score[:, None]
        within = groups.sums(mean([observed(now) for now in seen]))
        found.observed = within - np.einsum("gq,gqr,gqs->grs", chance, apart, apart)
        found.curved = np.einsum("gq,gqr,gqs->grs", chance, scores, scores) - within
        found.h = np.einsum("gq,gq->g", chance, h)
        off = h - found.h[:, None]
        found.h_variance = np.einsum("gq,gq->g", chance, off**2)
        found.h_by_phi = np.einsum("gq,gq,gqr->gr", chance, off, scores)
        found.h_cross = np.einsum("gq,gq,gqr->gr", chance, h, scores)
        odd = np.stack([now.nu[:, 0] for now in seen], axis=1) - found.nu
        found.cov = mean([now.cov[:, 0, 0] for now in seen]) + np.einsum("mq,mq->m", of_clients, odd**2)
        found.uh = np.einsum("mq,mq,mq->m", of_clients, odd, off[codes])
        own = mean([now.cross[:, :, 0] - now.nu * now.a for now in seen])
        found.by_phi = own + np.einsum("mq,mq,mqr->mr", of_clients, odd, scores[codes])
        return found

    def at(self, root: Floats, outer: Floats | None = None) -> SimpleNamespace:
        """Maximise over mu for roots (r, 1) of the covariances within and between groups."""
        assert outer is not None
        now, settled = self.centre(
            lambda phi: self.look(root, phi, outer),
            lambda now: now.score.sum(axis=0),
            lambda now: now.observed.sum(axis=0),
        )
        return SimpleNamespace(
            loss=float(now.value.sum()),
            by_root=-np.stack([now.cross.sum(axis=0), now.h_cross.sum(axis=0)[:, None]]),
            by_covariance=np.stack([(now.gg - now.A).sum(axis=0), now.curved.sum(axis=0)]) / 2,
            P=1 - now.cov[:, None, None],
            phi=self.phi,
            nu=now.nu,
            cov=now.cov,
            by_phi=now.by_phi,
            h=now.h,
            h_variance=now.h_variance,
            h_by_phi=now.h_by_phi,
            uh=now.uh,
            information=now.observed.sum(axis=0),
            settled=settled,
        )

    def posterior(
        self, best: SimpleNamespace, mu: Floats, root: Floats, outer: Floats, out: Floats, counted: bool
    ) -> tuple[Floats, Floats, list[Floats], list[Floats], Floats]:
        """Return means of groups and clients, loadings of both by groups (and by mu if `counted`), and clients' own ones.

        `root`, `outer` (d, 1) and `out` (d, r) are in the coefficients' own units.  A client's own part is what its group's
        effect does not explain linearly.
        """
        codes = self.groups.codes
        of_groups = mu + best.h[:, None] * outer[:, 0]
        mean = of_groups[codes] + best.nu * root[:, 0]
        sd = np.sqrt(best.h_variance)
        group_terms = [sd[:, None, None] * outer]
        client_terms = [sd[codes, None, None] * outer + (best.uh / sd[codes])[:, None, None] * root]
        own = np.sqrt(np.maximum(best.cov - best.uh**2 / best.h_variance[codes], 0.0))[:, None, None] * root
        if counted:
            spread = np.linalg.inv(np.linalg.cholesky(best.information)).T
            moved = out + outer * best.h_by_phi[:, None, :]
            group_terms.append(moved @ spread)
            client_terms.append((moved[codes] + root * best.by_phi[:, None, :]) @ spread)
        return of_groups, mean, group_terms, client_terms, own
