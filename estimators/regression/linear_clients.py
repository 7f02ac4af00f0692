"""Linear regressions of many clients whose coefficients come from one normal population, known or learnt.

Belongs here: the model `LinearClients`, a linear mixed model of clients, and of groups of them, fitted exactly.  The
likelihood with groups is in ``nested_linear``, the posterior of one client with a known prior in ``regression``, the
sufficient statistics are in ``client_rows``, labels of two classes in ``logistic_clients``, and the papers' gradient
algorithms in ``gradient_personalization``.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints, Numbers
from estimators.numerics.validation import choice, count, paired, positive, single
from estimators.regression.client_rows import Groups, Tallies, triangle
from estimators.regression.coefficient_model import CoefficientModel, Posterior
from estimators.regression.covariance_average import Nodes, average, information, representative
from estimators.regression.covariances import Coordinates, Levels, climb, read_prior, read_shared, seek
from estimators.regression.nested_linear import centred, evaluate_nested, nested_posterior

if TYPE_CHECKING:
    from estimators.regression.client_rows import RegressionTally


__all__ = ["LinearClients"]


class LinearClients(CoefficientModel):
    """Linear regressions of many clients that share a normal prior on their coefficients.

    Model: Y_i = X_i theta_i + noise, noise ~ N(0, sigma2 I), theta_i ~ N(mu, Sigma), i = 1..m: the linear mixed model in
    which each coefficient has a mean and, unless it is `shared`, varies between clients.  With groups of clients (pupils of
    classes, which are the clients, in schools) theta_i ~ N(mu + b_g, Sigma), b_g ~ N(0, Sigma_groups) for the clients of
    group g; the same coefficients vary at both levels (lme4's ``(1 + x | school/class)``).  The marginal likelihood,
    Y_i ~ N(X_i mu, X_i Sigma X_i' + sigma2 I), is exact; mu and sigma2 are eliminated from it in closed form, and a root of
    Sigma maximises it by a quasi-Newton method, a local optimum.  Claims: generative:thm6 (posterior),
    generative:eq19:marginal-floor (there is a maximum), generative:eq19:fisher (slopes), generative:eq19 (why the joint
    density of data and coefficients is not maximised instead).

    An intercept is a column of ones in every X.  Clients may have fewer rows than coefficients, or none (their posterior is
    the prior), and constant or collinear columns.

    Parameters
    ----------
    prior : how unknown parts of the prior are learnt. "bayes", the default, averages posteriors over all covariances and
        noises given the data, with a flat law of mu and of log sigma2 and the law of Sigma in ``covariance_average``, one
        with that of ``GaussianMeans``, by importance sampling: "full" covariances that are the same for any coordinates of
        the features.  The others take one prior for true: "marginal-likelihood"; "reml", in which a learnt mu has a flat
        prior that is integrated out of the likelihood and stays in the posteriors, which are wider for it; or
        "penalised-reml", with half the logarithm of the determinant of Sigma/sigma2 added to it, which keeps variances
        from 0 and correlations from 1.  How often intervals of each hold: ``tests/bench/DEFAULTS.md``.
    mu : array (d,) or number, the prior mean; None to learn it.
    covariance : "full", "diagonal" (of independent coefficients) or "scalar" (and of equal variances), to be learnt, of
        groups in the same way; or the known one, array (d, d) or (d,) or a number.
    shared : positions of coefficients that are the same for all clients, as of a feature that tells clients apart and
        hardly varies within them ("fixed effects" without a random part); none by default.
    sigma2 : variance > 0 of a response, a number or one per client; None to learn one for all.
    max_iter : whole number >= 1; tol : the largest slope, in nats per client and relative change, at a maximum.

    Attributes
    ----------
    mu_, covariance_, sigma2_ : the prior and the noise; of an average of priors those with which a client of average size
        borrows as much; ``mu_covariance_`` (d, d), how far off mu_ may be, given the rest, or of an average in all.
    group_covariance_, groups_, group_mean_, group_sd_ : of groups; see ``coefficient_model``.
    log_likelihood_ : exact, in nats, constants included; of the residual likelihood but for "marginal-likelihood"; without
        penalty.
    posterior_mean_, posterior_covariance_, posterior_sd_, borrowed_, unseen_ : see ``coefficient_model``.
    converged_, n_iter_.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain or has the wrong shape; for fewer than two clients where something of
        the prior is to be learnt; where the responses are interpolated (one row per client will do, if an intercept varies),
        so that no sigma2 > 0 is most likely; for groups of one client each, fewer than two, or with a known covariance.

    References
    ----------
    Laird and Ware (1982), Biometrics 38:963; Bates et al. (2015), J. Stat. Softw. 67(1), for the elimination;
    Chung et al. (2015), J. Educ. Behav. Stat. 40:136, for the penalty; Everson and Morris (2000), J. R. Stat. Soc. B 62:399,
    for averages over covariances.

    >>> rng = np.random.default_rng(0)
    >>> thetas = rng.normal([3.0, -1.0], [2.0, 0.5], (300, 2))
    >>> Xs = [np.column_stack([np.ones(5), rng.normal(size=5)]) for _ in thetas]
    >>> model = LinearClients().fit(Xs, [X @ t + rng.normal(0.0, 1.0, 5) for X, t in zip(Xs, thetas)])
    >>> model.converged_, model.mu_.round(1).tolist(), np.sqrt(np.diag(model.covariance_)).round(1).tolist()
    (True, [2.8, -1.0], [2.0, 0.5])
    >>> mean, sd = model.predict(0, [[1.0, 2.0]], return_sd=True)

    Three classes in each of 40 schools, whose pupils all gain the same from the feature:

    >>> schools = np.repeat(np.arange(40), 3)
    >>> levels = rng.normal(5.0, 2.0, 40)[schools] + rng.normal(0.0, 1.0, 120)
    >>> Xs = [np.column_stack([np.ones(6), rng.normal(size=6)]) for _ in levels]
    >>> Ys = [X @ [level, 0.7] + rng.normal(0.0, 1.0, 6) for X, level in zip(Xs, levels)]
    >>> model = LinearClients(shared=[1]).fit(Xs, Ys, schools)
    >>> model.mu_.round(1).tolist(), [float(C[0, 0].round(1)) for C in (model.covariance_, model.group_covariance_)]
    ([5.0, 0.7], [0.9, 3.8])
    >>> new_class = model.predict(None, [[1.0, 2.0]], group=17)
    """

    sigma2_: Numbers
    mu_covariance_: Floats
    tallies_: Tallies

    def __init__(
        self,
        prior: Literal["bayes", "marginal-likelihood", "reml", "penalised-reml"] = "bayes",
        mu: ArrayLike | None = None,
        covariance: Literal["full", "diagonal", "scalar"] | ArrayLike = "full",
        sigma2: ArrayLike | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        shared: Sequence[int] = (),
    ) -> None:
        self.prior = prior
        self.mu = mu
        self.covariance = covariance
        self.sigma2 = sigma2
        self.max_iter = max_iter
        self.tol = tol
        self.shared = shared

    @paired
    def fit(
        self,
        Xs: Sequence[ArrayLike] | Sequence[RegressionTally],
        Ys: Sequence[ArrayLike] | None = None,
        groups: Sequence[Hashable] | None = None,
    ) -> Self:
        """Fit to lists of designs (n_i, d) and responses (n_i,), or to a list of `RegressionTally`; return self.

        `groups` holds a label for each client, of the group that it is in; None for no groups.
        """
        choice("prior", self.prior, ("bayes", "marginal-likelihood", "reml", "penalised-reml"))
        max_iter, tol = int(single(count, "max_iter", self.max_iter)), single(positive, "tol", self.tol)
        tallies = Tallies.read(Xs, Ys)
        d = tallies.factors.shape[2] - 1
        mu, root = read_prior(self.mu, self.covariance, d)
        varying = read_shared(self.shared, d, self.covariance)
        nested = Groups.read(groups, len(tallies.counts), root is None)
        if (mu is None or root is None) and np.count_nonzero(tallies.counts) < 2:
            raise ValueError("Xs must hold at least two clients with rows; one says nothing about how clients vary")
        data = self.white(tallies, mu)
        if data.known is None and interpolates(tallies.factors, varying):
            raise ValueError(
                "Xs interpolates every response, so sigma2 cannot be told from the covariance; give sigma2, or clients more "
                "rows than coefficients that vary"
            )
        if root is not None:
            best, self.n_iter_, self.converged_ = self.known_covariance(data, root, max_iter, tol)
            root = root if data.known is not None else root / np.sqrt(best.s)
            self.store(data, None, best, [root], int(varying.sum()), mu is not None)
        else:
            pooled, levels = tallies.pooled(data.sd), 1 if nested is None else 2
            size = 1 / len(data.coordinates.into)
            search = Levels.of(self.covariance, pooled, varying, data.coordinates, data.n_all, size, levels)  # pyright: ignore[reportArgumentType]
            if nested is not None:
                data = centred(data)
            at = partial(state_at, data, nested)
            nodes = None
            if self.prior == "bayes":
                heard = tallies.counts > 0
                scales = information(size * data.n_all, np.any(data.R, axis=(1, 2)), nested)
                free = None if data.known is not None else float(data.free)
                nodes, self.n_iter_, self.converged_ = average(at, search, scales, free, max_iter, tol, int(heard.sum()))
                x = representative(search, nodes, scales)
            else:
                x, self.n_iter_, self.converged_ = seek(
                    at, search, self.prior == "penalised-reml", max_iter, tol, len(data.z)
                )
            self.store(data, nested, at(*search.roots(x)), search.roots(x, white=False), int(varying.sum()), False)
            if nodes is not None:
                self.store_average(data, nested, search, nodes)
        if not self.converged_:
            warnings.warn(f"no maximum within max_iter={max_iter} steps; the prior is provisional", stacklevel=3)
        self.tallies_ = tallies
        return self

    def white(self, tallies: Tallies, mu: Floats | None) -> SimpleNamespace:
        """Return the data in coordinates in which the pooled features are white, and in units of a known noise."""
        m, d = tallies.factors.shape[0], tallies.factors.shape[1] - 1
        sd = np.ones(m)
        if self.sigma2 is not None:
            sigma2 = positive("sigma2", self.sigma2)
            if sigma2.shape not in ((), (m,)):
                raise ValueError(f"sigma2 must be one number or have one entry per client, {m}, got shape {sigma2.shape}")
            sd = np.sqrt(np.broadcast_to(sigma2, (m,)))
        F = tallies.factors / sd[:, None, None]
        n_all = int(tallies.counts.sum())
        coordinates = Coordinates.of(tallies.pooled(sd), n_all)
        z = F[:, :d, -1] if mu is None else F[:, :d, -1] - F[:, :d, :-1] @ mu
        reml = self.prior != "marginal-likelihood" and mu is None
        return SimpleNamespace(
            coordinates=coordinates,
            R=F[:, :d, :-1] @ coordinates.out,
            z=z,
            rss=F[:, d, -1] ** 2,
            n_all=n_all,
            free=n_all - reml * coordinates.out.shape[1],
            mu=mu,
            sd=sd,
            known=None if self.sigma2 is None else float(2 * np.sum(tallies.counts * np.log(sd))),
            reml=reml,
            origin=np.zeros(coordinates.out.shape[1]),
        )

    def known_covariance(
        self, data: SimpleNamespace, root: Floats, max_iter: int, tol: float
    ) -> tuple[SimpleNamespace, int, bool]:
        """Return the state at the likeliest noise where the covariance root root' is known, steps, and convergence."""
        into = data.coordinates.into
        if data.known is not None:
            return evaluate(data, into @ root), 0, True

        def by_noise(x):  # x is half the log of the noise's variance
            s = np.exp(2 * x[0])
            state = evaluate(data, into @ root / np.sqrt(s), s)
            slope = data.free - state.Q / s - np.sum(state.by_root * (into @ root)) / np.sqrt(s)
            return state.loss, np.array([slope])

        s = max(evaluate(data, into @ root * 0.0).Q, 1e-300) / data.n_all
        x, steps, good = climb(by_noise, np.array([np.log(s) / 2]), max_iter, tol, len(data.z))
        s = np.exp(2 * x[0])
        return evaluate(data, into @ root / np.sqrt(s), s), steps, good

    def store(
        self,
        data: SimpleNamespace,
        nested: Groups | None,
        best: SimpleNamespace,
        roots: list[Floats],
        varying: int,
        known: bool,
    ) -> None:
        """Set the fitted attributes from the state at covariances root root' over sigma2, of clients and of groups."""
        unseen = np.zeros((len(data.coordinates.out), 0)) if known else data.coordinates.unseen
        self.set_posterior(self.conditional(data, nested, best, roots), nested, unseen)
        self.mu_counts_ = data.reml
        self.sigma2_ = float(best.s) if self.sigma2 is None else np.asarray(self.sigma2, float)[()]
        self.log_likelihood_ = -float(best.loss)
        own = np.linalg.eigvalsh(np.einsum("mij,mik->mjk", best.M, best.M))
        self.borrowed_ = 1 - np.sum(np.maximum(own, 0.0) / (1 + np.maximum(own, 0.0)), axis=1) / varying

    def store_average(self, data: SimpleNamespace, nested: Groups | None, search: Levels, nodes: Nodes) -> None:
        """Replace the posteriors of `store` by averages over nodes, and the noise likewise."""

        def posteriors() -> Iterator[Posterior]:
            for x, s in zip(nodes.x, nodes.s, strict=True):
                best = state_at(data, nested, *search.roots(x), s=s)
                yield self.conditional(data, nested, best, search.roots(x, white=False))

        self.set_average(nodes.weights, posteriors())
        if self.sigma2 is None:
            ratio = float(1 / (nodes.weights @ (1 / nodes.s))) / self.sigma2_
            self.sigma2_, self.covariance_ = ratio * self.sigma2_, ratio * self.covariance_
            self.group_covariance_ = ratio * self.group_covariance_

    def conditional(
        self, data: SimpleNamespace, nested: Groups | None, best: SimpleNamespace, roots: list[Floats]
    ) -> Posterior:
        """Return what holds given the covariances root root' over sigma2, of clients and of groups."""
        out, root, s = data.coordinates.out, roots[0], best.s
        mu, terms = self.centre(data, best), [self.own_term(best, root)]
        prior = mu, self.centre_error(data, best), s * root @ root.T
        if nested is not None:
            of_groups, mean, group_terms, client_terms = nested_posterior(data, nested, best, *roots)
            units = [nested.codes, np.zeros(len(mean), int)]
            terms += zip(units, client_terms, strict=False)
            return Posterior(*prior, s * roots[1] @ roots[1].T, mean, terms, of_groups, group_terms)
        if data.reml:
            moved = out - np.einsum("dk,mkr->mdr", root, best.GtR)
            spread = np.linalg.solve(np.linalg.cholesky(best.information), np.swapaxes(moved, 1, 2))
            terms.append((np.zeros(len(data.z), int), np.sqrt(s) * np.swapaxes(spread, 1, 2)))
        return Posterior.alone(*prior, mu + best.deviation @ root.T, terms)

    def centre(self, data: SimpleNamespace, best: SimpleNamespace) -> Floats:
        """Return mu (d,), given or the likeliest at the state `best`."""
        return data.coordinates.out @ (data.origin + best.phi) if data.mu is None else data.mu

    def centre_error(self, data: SimpleNamespace, best: SimpleNamespace) -> Floats:
        """Return the covariance (d, d) of what is unknown of mu there."""
        if data.mu is not None:
            return np.zeros((len(data.mu),) * 2)
        return best.s * data.coordinates.out @ np.linalg.inv(best.information) @ data.coordinates.out.T

    def own_term(self, best: SimpleNamespace, root: Floats) -> tuple[Ints, Floats]:
        """Return the part of posteriors that is each client's own."""
        K = np.eye(root.shape[1]) + np.einsum("mij,mik->mjk", best.M, best.M)
        half = np.linalg.solve(np.linalg.cholesky(K), np.broadcast_to(root.T, (len(K), *root.T.shape)))
        return np.arange(len(K)), np.sqrt(best.s) * np.swapaxes(half, 1, 2)

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, i: int | None = None, X: ArrayLike | None = None, return_sd: bool = False, group: Hashable | None = None
    ) -> Floats | tuple[Floats, Floats]:
        """Predict client i's responses to the rows X (n, d); i=None is a client without data, of that `group` if given.

        Without X, return its expected coefficients (d,).  With `return_sd`, also the standard deviation of a new response,
        its noise included; it is inf for rows with features that no client had.
        """
        if X is None:
            return self.expected(i, group)
        mean, sd = self.linear_predictor(i, X, group)
        if not return_sd:
            return mean
        noise = np.asarray(self.sigma2_)
        if noise.ndim and i is None:
            raise ValueError("sigma2 differs between clients, so a new client has none; use return_sd=False")
        return mean, np.sqrt(sd**2 + (noise[i] if noise.ndim else noise))

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior and the noise as plain Python values."""
        return {**super().prior_summary(), "sigma2": np.asarray(self.sigma2_).tolist()}

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Any, ...]]:
        """Return (truth (m, d), arguments of `fit`): new coefficients from the fitted prior, new responses of these rows."""
        self.require_fit()
        F, counts = self.tallies_.factors, self.tallies_.counts
        m, d = F.shape[0], F.shape[1] - 1
        truth = self.draw_truth(generator, truth)
        sd = np.sqrt(np.broadcast_to(self.sigma2_, (m,)))[:, None]
        U, seen = column_spaces(F)
        noise = np.einsum("mij,mj->mi", U, np.where(seen, generator.standard_normal((m, d)), 0.0))
        rest = counts - seen.sum(axis=1)
        new = F.copy()
        new[:, :d, -1] = np.einsum("mij,mj->mi", F[:, :d, :-1], truth) + sd * noise
        new[:, d, -1] = sd[:, 0] * np.sqrt(generator.chisquare(np.maximum(rest, 1)) * (rest > 0))
        tallies = Tallies(new, counts)
        drawn = [tallies.client(i) for i in range(m)]
        return truth, (drawn,) if self._groups is None else (drawn, None, [self.groups_[g] for g in self._groups.codes])


def state_at(
    data: SimpleNamespace, nested: Groups | None, *roots: Floats, s: Numbers | None = None, slopes: bool = True
) -> SimpleNamespace:
    """Return the state of the likelihood, with or without groups; without `slopes` its loss and noise alone."""
    if nested is None:
        return evaluate(data, *roots, s=s, slopes=slopes)
    return evaluate_nested(data, nested, *roots, s=s, slopes=slopes)


def column_spaces(factors: Floats) -> tuple[Floats, Bools]:
    """Return an orthonormal basis (m, d, d) for the triangle of every client, and which of it the triangle spans (m, d)."""
    R = factors[:, :-1, :-1]
    U, singular, _ = np.linalg.svd(R)
    return U, singular > R.shape[1] * np.finfo(float).eps * singular[:, :1]


def interpolates(factors: Floats, varying: Bools) -> bool:
    """Whether every client's responses are linear in its features, where the `varying` (d,) have coefficients of its own."""
    total = np.sum(factors[:, :, -1] ** 2)
    if np.sum(factors[:, -1, -1] ** 2) > 1e-24 * total:
        return False
    rows, d = factors[:, :-1], len(varying)
    U, singular, _ = np.linalg.svd(rows[:, :, :-1][:, :, varying])
    seen = np.zeros((len(rows), d), bool)
    seen[:, : singular.shape[1]] = singular > d * np.finfo(float).eps * singular[:, :1]
    rest = np.where(seen[..., None], 0.0, np.swapaxes(U, 1, 2) @ rows)  # beside the features that vary
    rest = triangle(np.concatenate([rest[:, :, :-1][:, :, ~varying], rest[:, :, -1:]], axis=2).reshape(len(rows) * d, -1))
    shared = rest.shape[1] - 1
    return bool(np.sum(rest[shared:, -1] ** 2) <= 1e-24 * total)


def evaluate(data: SimpleNamespace, root: Floats, s: Numbers | None = None, slopes: bool = True) -> SimpleNamespace:
    """Minus the log-likelihood at the relative covariance root root', its slopes, and what was computed on the way.

    Everything is in white coordinates and, but for `s`, in units of the noise.  With V_i = I + R_i root root' R_i' = C C',
    the triangular solves C^-1 (R_i, z_i) give all the rest without a difference of large numbers.
    Without `slopes`, loss and noise alone.
    """
    d, r = data.R.shape[1:]
    M = data.R @ root
    C = np.linalg.cholesky(np.eye(d) + M @ np.swapaxes(M, 1, 2))
    solved = np.linalg.solve(C, np.concatenate([data.R, M, data.z[..., None]], axis=2))
    TR, TM, res = solved[:, :, :r], solved[:, :, r:-1], solved[:, :, -1]
    information = (np.swapaxes(TR, 1, 2) @ TR).sum(axis=0)
    phi = None
    if data.mu is None:
        phi = np.linalg.solve(information, np.einsum("mij,mi->j", TR, res))
        res = res - TR @ phi
    Q = float(np.sum(res**2) + data.rss.sum())
    if s is None:
        s = 1.0 if data.known is not None else float(Q / data.free)
    log_det = 2 * np.sum(np.log(np.einsum("mii->mi", C)))
    if data.reml:
        log_det += np.linalg.slogdet(information)[1] - 2 * data.coordinates.log_det
    loss = (data.free * np.log(2 * np.pi * s) + Q / s + log_det + (data.known or 0.0)) / 2
    if not slopes:
        return SimpleNamespace(loss=loss, s=s)
    a = np.einsum("mij,mi->mj", TR, res)
    by_covariance = (np.einsum("mi,mj->ij", a, a) / s - information) / 2
    by_root = (np.swapaxes(TR, 1, 2) @ TM).sum(axis=0) - np.einsum("mi,mj->ij", a, a @ root) / s
    GtR = None
    if data.reml:
        GtR = np.swapaxes(TM, 1, 2) @ TR
        left = np.linalg.solve(information, np.swapaxes(GtR, 1, 2))
        W = np.swapaxes(TR, 1, 2) @ TR
        by_root = by_root - (W @ left).sum(axis=0)
        by_covariance = by_covariance + (W @ np.linalg.solve(information, W)).sum(axis=0) / 2
    return SimpleNamespace(
        loss=loss,
        by_root=by_root,
        by_covariance=by_covariance,
        phi=phi,
        s=s,
        Q=Q,
        M=M,
        P=np.swapaxes(TM, 1, 2) @ TM,
        profiled=0 if data.known is not None else data.free,
        GtR=GtR,
        information=information,
        deviation=np.einsum("mij,mi->mj", TM, res),
    )
