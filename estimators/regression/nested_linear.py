"""The likelihood of linear regressions of clients within groups, with coefficients that vary at both levels.

Belongs here: that likelihood, its slopes, and the posteriors that follow, for ``linear_clients``, which has the likelihood
without groups.  Searches over covariances are in ``covariances``, groups themselves in ``client_rows``.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from estimators.numerics.arrays import Floats, Numbers
from estimators.regression.client_rows import Groups

__all__ = ["centred", "evaluate_nested", "nested_posterior"]


def centred(data: SimpleNamespace) -> SimpleNamespace:
    """Return white `data` whose responses are residuals of pooled least squares, whose coefficients are kept as `origin`.

    Sums over groups are of squares, which lose no digits about an origin near by.
    """
    if data.mu is not None:
        return SimpleNamespace(**{**vars(data), "origin": np.zeros(data.R.shape[2])})
    origin = np.linalg.lstsq(data.R.reshape(-1, data.R.shape[2]), data.z.ravel(), rcond=None)[0]
    return SimpleNamespace(**{**vars(data), "origin": origin, "z": data.z - data.R @ origin})


def evaluate_nested(
    data: SimpleNamespace, groups: Groups, root: Floats, outer: Floats, s: Numbers | None = None, slopes: bool = True
) -> SimpleNamespace:
    """Minus the log-likelihood where relative covariances are root root' within and outer outer' between groups.

    In white coordinates and, but for `s`, in units of the noise, as ``linear_clients.evaluate``.  The clients' effects are
    integrated out first, which leaves of each client the information W_i about its group's coefficients; then the groups'.
    With S the posterior covariance of those coefficients (in REML that of mu is in it), slopes need W_i - W_i S W_i only.
    """
    d, r = data.R.shape[1:]
    k, codes = root.shape[1], groups.codes
    M = data.R @ root
    C = np.linalg.cholesky(np.eye(d) + M @ np.swapaxes(M, 1, 2))
    solved = np.linalg.solve(C, np.concatenate([data.R, M, data.z[..., None]], axis=2))
    TR, TM, Tz = solved[:, :, :r], solved[:, :, r:-1], solved[:, :, -1]
    W = np.swapaxes(TR, 1, 2) @ TR
    of_groups, pulls = groups.sums(W), groups.sums(np.einsum("mij,mi->mj", TR, Tz))
    K = np.eye(k) + outer.T @ of_groups @ outer
    taken = np.linalg.solve(K, outer.T @ of_groups)  # (g, k, r), what effects of groups take back of a step of mu
    left = np.eye(r) - outer @ taken
    informed = of_groups @ left
    information = informed.sum(axis=0)
    phi = np.zeros(r)
    if data.mu is None:
        phi = np.linalg.solve(information, np.einsum("gij,gi->j", left, pulls))
    h = np.linalg.solve(K, outer.T @ (pulls - of_groups @ phi)[..., None])[..., 0]
    res = Tz - np.einsum("mij,mj->mi", TR, (phi + h @ outer.T)[codes])
    Q = float(np.sum(res**2) + np.sum(h**2) + data.rss.sum())
    if s is None:
        s = 1.0 if data.known is not None else float(Q / data.free)
    log_det = 2 * np.sum(np.log(np.einsum("mii->mi", C))) + np.sum(np.linalg.slogdet(K)[1])
    S = outer @ np.linalg.solve(K, np.broadcast_to(outer.T, (len(K), k, r)))
    between = informed
    if data.reml:
        log_det += np.linalg.slogdet(information)[1] - 2 * data.coordinates.log_det
        S = S + left @ np.linalg.solve(information, np.swapaxes(left, 1, 2))
        between = informed - informed @ np.linalg.solve(information, informed)
    loss = (data.free * np.log(2 * np.pi * s) + Q / s + log_det + (data.known or 0.0)) / 2
    if not slopes:
        return SimpleNamespace(loss=loss, s=s)
    a = np.einsum("mij,mi->mj", TR, res)
    a_groups = groups.sums(a)
    within = (W - W @ S[codes] @ W).sum(axis=0)
    curvature = np.stack([within, between.sum(axis=0)])
    scatter = np.stack([np.einsum("mi,mj->ij", a, a), np.einsum("gi,gj->ij", a_groups, a_groups)]) / s
    return SimpleNamespace(
        loss=loss,
        by_root=(curvature - scatter) @ np.stack([root, outer]),
        by_covariance=(scatter - curvature) / 2,
        phi=phi,
        s=s,
        M=M,
        K=K,
        h=h,
        taken=taken,
        GtR=np.swapaxes(TM, 1, 2) @ TR,
        outer=outer,
        information=information,
        deviation=np.einsum("mij,mi->mj", TM, res),
    )


def nested_posterior(
    data: SimpleNamespace, groups: Groups, best: SimpleNamespace, root: Floats, outer: Floats
) -> tuple[Floats, Floats, list[Floats], list[Floats]]:
    """Return means of groups (g, d), means of clients (m, d), and for each the loadings of groups and, in REML, of mu.

    `root` and `outer` are in the coefficients' own units.
    """
    out, codes, sd = data.coordinates.out, groups.codes, np.sqrt(best.s)
    centre = out @ (data.origin + best.phi) if data.mu is None else data.mu
    of_groups = centre + best.h @ outer.T
    mean = of_groups[codes] + best.deviation @ root.T
    halves = np.linalg.inv(np.linalg.cholesky(best.K))  # K^-1 = half' half
    group_terms = [sd * outer @ np.swapaxes(halves, 1, 2)]
    inner = root @ best.GtR  # how far a client's effect takes back what its group's coefficients add, (m, d, r)
    client_terms = [group_terms[0][codes] - sd * inner @ (best.outer @ np.swapaxes(halves, 1, 2))[codes]]
    if data.reml:
        spread = sd * np.linalg.inv(np.linalg.cholesky(best.information)).T
        follow = out - outer @ best.taken
        group_terms.append(follow @ spread)
        left = np.eye(len(best.phi)) - best.outer @ best.taken
        client_terms.append((follow[codes] - inner @ left[codes]) @ spread)
    return of_groups, mean, group_terms, client_terms
