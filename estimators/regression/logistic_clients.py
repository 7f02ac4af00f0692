"""Logistic regressions of many clients whose coefficients come from one normal population, known or learnt.

Belongs here: the model `LogisticClients`, a logistic mixed model of clients, and of groups of them, and the bound of its
likelihood for many coefficients.  Real responses are in ``linear_clients``, averages over normal log-odds in
``logistic_normal``, the likelihood of few coefficients in ``gauss_hermite`` and with groups in ``nested_logistic``, and the
papers' gradient algorithms in ``gradient_personalization``.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np

from estimators.numerics.arrays import ArrayLike, Bools, Floats, Ints
from estimators.numerics.logistic_normal import averages
from estimators.numerics.validation import choice, count, paired, positive, single
from estimators.regression.client_rows import ClientRows, Groups, Tallies
from estimators.regression.coefficient_model import CoefficientModel, Posterior
from estimators.regression.covariance_average import average, information, representative
from estimators.regression.covariances import Coordinates, Levels, read_prior, read_shared, seek
from estimators.regression.gauss_hermite import MOST, Quadrature, unlikely
from estimators.regression.nested_logistic import NestedQuadrature

__all__ = ["LogisticClients"]

WORK = 10_000  # clients times points of a round of an average; a point costs more than one of linear regressions
GROUPED, BOUND = {1: 10, 2: 30}, 4  # how much more a point costs with groups, by coefficients that vary, and of a bound
LOOSE = 1e-3  # nats per client, the largest slope at the mode about which an average draws points, and at its bounds
SUSPICIOUS = 5.0  # log-odds of the centre from which on it is asked whether any are the most likely


class LogisticClients(CoefficientModel):
    """Logistic regressions of many clients that share a normal prior on their coefficients.

    Model: P(Y_ij = 1) = 1/(1 + exp(-X_ij theta_i)), theta_i ~ N(mu, Sigma), but for `shared` coefficients, which are mu's.
    With groups of clients theta_i ~ N(mu + b_g, Sigma), b_g ~ N(0, Sigma_groups) for the clients of group g, as in
    ``LinearClients``.  The marginal likelihood has no closed form.  Where one or two coefficients vary it is computed by
    adaptive quadrature (25 or 15 x 15 nodes per client, about each mode; with groups 15 or 9 x 9 nodes for each client at
    each of 15 or 9 x 9 for its group), as good as exact unless a posterior is far from normal.  For more a lower bound is
    maximised, in which each client's posterior is replaced by the closest normal distribution (in Kullback-Leibler
    divergence from it to the posterior), with exact averages of the loss.  Either way a local optimum.  The bound costs:
    on 15 herds (lme4's cbpp) it finds the centre -2.0455 and the sd .8141 where quadrature finds -2.0465 and .8184; with
    random intercepts and few labels per client its maximum is much nearer to the likelihood's than that of the Laplace
    approximation, where labels are rare about as near, and always nearer than an EM algorithm with each posterior's mode and
    curvature (see the tests).
    Claims: generative:eq12:logistic (loss), generative:eq20 (printed with a wrong sign; why the joint density of data and
    coefficients is not maximised instead: generative:eq19).

    An intercept is a column of ones in every X.  Clients may have one label only, separable labels, fewer rows than
    coefficients, or no rows.  But if "bayes" averages, some two should have both labels: else posterior sds of the others
    have no finite value (the law of the sd tau between clients falls as tau^-2, and only a client whose labels no
    coefficients tell surely bounds it, by 1 / tau), of which a warning tells; intervals stand.

    Parameters
    ----------
    prior : how unknown parts of the prior are learnt. "bayes", the default, averages posteriors over all covariances given
        the labels, by the law of them and the importance sampling of ``covariance_average``, with a Cauchy law of mu about 0
        and scale 2.5, in features of mean square 1 (Gelman et al. 2008; labels that features separate leave a flat one
        without a posterior); each mu by the normal law at its mode, each likelihood with fewer nodes (7 x 7; with groups 9,
        or 5 x 5, at either level), which takes seconds where more than two coefficients vary or with groups. The others take
        one covariance for true: "marginal-likelihood"; or "penalised", with half the logarithm of the determinant of Sigma
        added to it, which keeps variances from 0 and correlations from 1, and posteriors that count how far off a learnt mu
        may be, of a flat law. How often intervals of each hold: ``tests/bench/DEFAULTS.md``.
    mu : array (d,) or number, the prior mean; None to learn it.
    covariance : "full", "diagonal" (of independent coefficients) or "scalar" (and of equal variances), to be learnt; or the
        known one, array (d, d) or (d,) or a number.
    max_iter : whole number >= 1; tol : the largest slope, in nats per client and relative change, at a maximum.
    likelihood : "quadrature", "bound", or "auto": quadrature where one or two coefficients vary, the bound for more.
    shared : positions of coefficients that are the same for all clients; none by default.

    Attributes
    ----------
    mu_, covariance_ : the prior; of an average of priors the one with which a client of average size borrows as much.
    mu_covariance_ : (d, d), how far off mu_ may be, given the rest, or of an average in all; "marginal-likelihood" leaves it
        out of the posteriors.
    group_covariance_, groups_, group_mean_, group_sd_ : of groups; see ``coefficient_model``.
    log_likelihood_ : the log-likelihood at covariance_ and the likeliest mu there, in nats, or a lower bound of it within
        1e-8 per row.
    posterior_mean_, posterior_covariance_, posterior_sd_, borrowed_, unseen_ : of the posteriors, or of the closest normal
        distributions; see ``coefficient_model``.  Intervals are those of normal distributions, or of averages of them.
    converged_, n_iter_.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain or has the wrong shape; for fewer than two clients where something of
        the prior is to be learnt; where mu is, and all labels are equal. But for "bayes", where mu is to be learnt and some
        features separate the labels; where the clients' few labels are so well separated by their features that the search
        for the prior leaves without bound.

    References
    ----------
    Ormerod and Wand (2012), J. Comput. Graph. Stat. 21:2, for the bound; Chung et al. (2015), J. Educ. Behav. Stat. 40:136,
    for the penalty; Gelman et al. (2008), Ann. Appl. Stat. 2:1360, for the law of mu.

    >>> rng = np.random.default_rng(0)
    >>> thetas = rng.normal([1.0, -1.0], [1.0, 0.5], (200, 2))
    >>> Xs = [np.column_stack([np.ones(20), rng.normal(size=20)]) for _ in thetas]
    >>> Ys = [rng.random(20) < 1 / (1 + np.exp(-X @ t)) for X, t in zip(Xs, thetas)]
    >>> model = LogisticClients().fit(Xs, Ys)
    >>> model.converged_, model.mu_.round(1).tolist(), np.sqrt(np.diag(model.covariance_)).round(1).tolist()
    (True, [0.9, -1.0], [1.0, 0.5])
    >>> chances = model.predict_proba(0, [[1.0, 2.0]])
    """

    rows_: ClientRows

    def __init__(
        self,
        prior: Literal["bayes", "marginal-likelihood", "penalised"] = "bayes",
        mu: ArrayLike | None = None,
        covariance: Literal["full", "diagonal", "scalar"] | ArrayLike = "full",
        max_iter: int = 1000,
        tol: float = 1e-5,
        likelihood: Literal["auto", "quadrature", "bound"] = "auto",
        shared: Sequence[int] = (),
    ) -> None:
        self.prior = prior
        self.mu = mu
        self.covariance = covariance
        self.max_iter = max_iter
        self.tol = tol
        self.likelihood = likelihood
        self.shared = shared

    @paired
    def fit(self, Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike], groups: Sequence[Hashable] | None = None) -> Self:
        """Fit to lists of designs (n_i, d) and labels (n_i,), each 0 or 1, and the clients' groups if any; return self."""
        max_iter, tol = int(single(count, "max_iter", self.max_iter)), single(positive, "tol", self.tol)
        choice("prior", self.prior, ("bayes", "marginal-likelihood", "penalised"))
        rows = ClientRows.read(Xs, Ys)
        d = rows.X.shape[1]
        if not np.isin(rows.Y, (0.0, 1.0)).all():
            raise ValueError("Ys must hold only 0 and 1; recode the labels")
        mu, root = read_prior(self.mu, self.covariance, d)
        varying = read_shared(self.shared, d, self.covariance)
        nested = Groups.read(groups, len(rows.counts), root is None)
        if (mu is None or root is None) and np.count_nonzero(rows.counts) < 2:
            raise ValueError("Xs must hold at least two clients with rows; one says nothing about how clients vary")
        if mu is None and len(np.unique(rows.Y)) < 2:
            raise ValueError("Ys holds one label only, so that no mu is most likely; give mu")
        if root is None and rows.counts.max() < 2:
            raise ValueError(
                "Xs gives every client one row at most, and single labels do not show how much coefficients vary between "
                "clients; give covariance, or clients more rows"
            )
        pooled = Tallies.of(rows).pooled()
        coordinates = Coordinates.of(pooled, len(rows.Y))
        surface = self.surface(rows, coordinates, mu, tol, int(varying.sum()), nested)
        averaged: tuple[Floats, list[Posterior]] | None = None
        self.mu_counts_ = mu is None and self.prior != "marginal-likelihood"
        try:
            if root is None:
                levels = 1 if nested is None else 2
                search = Levels.of(self.covariance, pooled, varying, coordinates, len(rows.Y), 1.0, levels)  # pyright: ignore[reportArgumentType]
                if self.prior == "bayes":
                    x, self.n_iter_, good, averaged = self.over_covariances(
                        rows, surface, coordinates, search, nested, max_iter, tol
                    )
                else:
                    penalised = self.prior == "penalised"
                    x, self.n_iter_, good = seek(surface.at, search, penalised, max_iter, tol, len(rows.counts))
                best, roots = surface.at(*search.roots(x)), search.roots(x, white=False)
            else:
                self.n_iter_, good, roots = 0, True, [root]
                best = surface.at(coordinates.into @ root)
        except np.linalg.LinAlgError:  # slopes vanish where all log-odds are huge
            self.refuse_separated(rows, mu)
            raise ValueError(
                "Ys: labels of single clients are so well separated by Xs that the search for a prior left for coefficients "
                "without bound; use prior='marginal-likelihood' or fewer features, or give covariance"
            ) from None
        flat = mu is None and self.prior != "bayes"
        if flat and np.abs(rows.X @ coordinates.out @ best.phi).max(initial=0.0) > SUSPICIOUS:
            self.refuse_separated(rows, mu)
        self.converged_ = good and best.settled
        if not self.converged_:
            warnings.warn(f"no maximum within max_iter={max_iter} steps; the prior is provisional", stacklevel=3)
        self.log_likelihood_ = float(best.law - best.loss)
        unseen = np.zeros((d, 0)) if mu is not None and root is not None else coordinates.unseen
        self.set_posterior(self.conditional(surface, best, coordinates, roots), nested, unseen)
        if averaged is not None:
            self.set_average(*averaged)
            if np.count_nonzero(mixed(rows)) < 2:
                warnings.warn(
                    "Ys: fewer than two clients have both labels, which bounds too little how much clients vary: posterior "
                    "sds of the others (without any such client their means too) are infinite, and those given are only of "
                    "the covariances that were looked at; use intervals, or give covariance",
                    stacklevel=3,
                )
        self.borrowed_ = 1 - np.einsum("mii->m", best.P) / varying.sum()
        self.rows_ = rows
        return self

    def surface(
        self, rows: ClientRows, coordinates: Coordinates, mu: Floats | None, tol: float, varying: int, nested: Groups | None
    ) -> Bound | Quadrature:
        """Return the likelihood, or its bound, for so many coefficients that vary."""
        kind, wide = choice("likelihood", self.likelihood, ("auto", "quadrature", "bound")), self.prior == "bayes"
        if nested is not None:
            if varying > MOST or kind == "bound":
                raise ValueError(
                    f"groups need likelihood='quadrature' and {MOST} coefficients at most that vary, got {varying}; name "
                    "the others in shared"
                )
            return NestedQuadrature(rows, coordinates, mu, tol, nested, wide)
        if kind == "quadrature" and varying > MOST:
            raise ValueError(
                f"likelihood='quadrature' takes {MOST} coefficients at most that vary, got {varying}; use 'bound', or name "
                "others in shared"
            )
        return (Quadrature if varying <= MOST and kind != "bound" else Bound)(rows, coordinates, mu, tol, wide)

    def over_covariances(
        self, rows: ClientRows, surface: Bound | Quadrature, coordinates: Coordinates, search: Levels,
        nested: Groups | None, max_iter: int, tol: float,
    ) -> tuple[Floats, int, bool, tuple[Floats, list[Posterior]]]:  # fmt: skip
        """Return parameters that stand for an average over covariances, steps, convergence, and weights and posteriors."""
        surface, seen = surface.coarse(), []

        def at(*roots: Floats, slopes: bool = True) -> SimpleNamespace:
            best = surface.at(*roots)
            if slopes:
                return best  # for where points are drawn first; how they are weighed counts what is unknown of mu
            seen.append(best)
            known = np.linalg.eigvalsh(best.information) if self.mu is None else np.ones(1)
            far = known.min() <= 0  # where few nodes do not do, at covariances of hardly any weight
            return SimpleNamespace(loss=np.inf if far else best.loss + np.log(known).sum() / 2, s=1.0)

        ones, heard = (rows.Y.sum() + 1) / (len(rows.Y) + 2), rows.counts > 0
        scales = information(len(rows.Y) * ones * (1 - ones), heard, nested)
        cost = BOUND if isinstance(surface, Bound) else 1 if nested is None else GROUPED[search.white.base.shape[1]]
        nodes, steps, good = average(at, search, scales, None, max_iter, max(tol, LOOSE), int(heard.sum()), WORK // cost)
        posteriors = [
            self.conditional(surface, seen[place], coordinates, search.roots(x, white=False))
            for x, place in zip(nodes.x, nodes.places, strict=True)
        ]
        return representative(search, nodes, scales), steps, good, (nodes.weights, posteriors)

    def refuse_separated(self, rows: ClientRows, mu: Floats | None) -> None:
        """Raise ValueError if a plane separates all labels, or all but those that lie in it, so that no mu is likeliest."""
        columns = [] if mu is not None else separating(rows)
        if columns:
            names = " and ".join(f"Xs[:, {j}]" for j in columns)
            separate = "separates" if len(columns) == 1 else "together separate"
            raise ValueError(
                f"Ys has labels that {names} {separate}: they tell some surely and none wrongly, so that no mu is most "
                "likely; leave out a feature, pool rare values, or give mu"
            )

    def conditional(
        self, surface: Bound | Quadrature, best: SimpleNamespace, coordinates: Coordinates, roots: list[Floats]
    ) -> Posterior:
        """Return what holds given the covariances root root', of clients and of groups, from the state there."""
        out, root = coordinates.out, roots[0]
        m, learnt = len(best.nu), self.mu is None
        mu = out @ best.phi if learnt else np.broadcast_to(np.asarray(self.mu, float), (len(out),))
        spread = np.linalg.inv(np.linalg.cholesky(best.information)).T if learnt else np.zeros((out.shape[1], 0))
        prior = mu, out @ spread @ (out @ spread).T, root @ root.T
        own, all_one = np.arange(m), np.zeros(m, int)
        if isinstance(surface, NestedQuadrature):
            outer = roots[1]
            of_groups, mean, of_group, shared, loadings = surface.posterior(best, mu, root, outer, out, self.mu_counts_)
            terms = [(own, loadings), *zip((surface.groups.codes, all_one), shared, strict=False)]
            return Posterior(*prior, outer @ outer.T, mean, terms, of_groups, of_group)
        terms = [(own, root @ np.linalg.cholesky(best.cov))]
        if self.mu_counts_:
            terms.append((all_one, (out + root @ best.by_phi) @ spread))
        return Posterior.alone(*prior, mu + best.nu @ root.T, terms)

    def predict_proba(self, i: int | None, X: ArrayLike, group: Hashable | None = None) -> Floats:
        """Return the probabilities (n,) of label 1 for rows X (n, d) of client i, averaged over its posterior.

        i=None is a client without data, of that `group` if given.  Rows with features that no client had get 1/2.
        """
        mean, sd = self.linear_predictor(i, X, group)
        return averages(mean, sd**2)[1]

    def predict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, i: int | None = None, X: ArrayLike | None = None, group: Hashable | None = None
    ) -> Ints | Floats:
        """Return the likelier label, 0 or 1, of each row of X (n, d) of client i.

        i=None is a client without data, of that `group` if given.  Without X, return its expected coefficients (d,).
        """
        if X is None:
            return self.expected(i, group)
        return (self.predict_proba(i, X, group) > 0.5).astype(int)

    def draw(self, generator: np.random.Generator, truth: ArrayLike | None = None) -> tuple[Floats, tuple[Any, ...]]:
        """Return (truth (m, d), arguments of `fit`): new coefficients from the fitted prior, new labels of the same rows."""
        self.require_fit()
        truth = self.draw_truth(generator, truth)
        odds = np.einsum("nd,nd->n", self.rows_.X, np.repeat(truth, self.rows_.counts, axis=0))
        Y = (generator.logistic(size=len(odds)) < odds).astype(float)
        ends = np.cumsum(self.rows_.counts)[:-1]
        groups = () if self._groups is None else ([self.groups_[g] for g in self._groups.codes],)
        return truth, (np.split(self.rows_.X, ends), np.split(Y, ends), *groups)


def mixed(rows: ClientRows) -> Bools:
    """Return which clients (m,) have both labels."""
    m = len(rows.counts)
    ones = np.bincount(np.repeat(np.arange(m), rows.counts), rows.Y, m)
    return (ones > 0) & (ones < rows.counts)


def separating(rows: ClientRows) -> list[int]:
    """Return the columns of a plane w with (2 Y - 1) X w >= 0 in all rows and > 0 in some, none if there is no such w.

    Albert and Anderson (1984, Biometrika 71:1): exactly then the likelihood of logistic regression has no maximum; by linear
    programming (Konis 2007).
    """
    from scipy.optimize import linprog

    size = np.abs(rows.X).max(axis=0, initial=0.0)
    signed = (2 * rows.Y - 1)[:, None] * rows.X / np.where(size > 0, size, 1.0)
    best = linprog(-signed.mean(axis=0), A_ub=-signed, b_ub=np.zeros(len(signed)), bounds=(-1, 1), method="highs")
    if best.status != 0 or -best.fun <= 1e-9:
        return []
    return np.flatnonzero((np.abs(best.x) > 1e-6) & (size > 0)).tolist()


class Bound:
    """The lower bound of the log-likelihood in white coordinates, at its maximum over mu and the clients' normals.

    theta_i = mu + root u_i, and the normal of u_i has the mean nu_i and the inverse covariance K_i.  A new root starts from
    the slopes and curvatures of the last one.  If `wide`, mu has the law `unlikely`, which then counts in all.
    """

    def __init__(
        self, rows: ClientRows, coordinates: Coordinates, mu: Floats | None, tol: float, wide: bool = False
    ) -> None:
        self.tol, self.wide, self.steps = tol, wide and mu is None, 500
        self.r = coordinates.out.shape[1]
        self.m = len(rows.counts)
        self.batches = []
        for clients, X, Y, real in rows.batches():
            offset = np.zeros(Y.shape) if mu is None else X @ mu
            self.batches.append((clients, X @ coordinates.out, Y, real, offset))
        self.learnt = mu is None
        self.phi = np.zeros(self.r)
        self.a, self.A = np.zeros((self.m, self.r)), np.zeros((self.m, self.r, self.r))

    def coarse(self) -> Self:
        """Return the same bound, with its maximum found within a coarser tolerance, in few steps."""
        found = copy(self)
        found.tol, found.steps = max(self.tol, LOOSE), 40
        return found

    def look(self, root: Floats, phi: Floats, nu: Floats, K: Floats) -> tuple[float, Floats, Floats, np.ndarray]:
        """Value of minus the bound, and what its slopes are made of."""
        value, k = 0.0, root.shape[1]
        a, A = np.empty((self.m, self.r)), np.empty((self.m, self.r, self.r))
        cov = np.linalg.inv(K)
        for clients, X, Y, real, offset in self.batches:
            odds = offset + np.einsum("bnr,br->bn", X, phi + nu[clients] @ root.T)
            B = X @ root
            spread = np.einsum("bnk,bnk->bn", B @ cov[clients], B)
            loss, chance, weight = averages(odds, np.maximum(spread, 0.0))
            value += np.sum(real * (loss - Y * odds))
            a[clients] = np.einsum("bnr,bn->br", X, Y - chance)
            A[clients] = np.swapaxes(X, 1, 2) @ (weight[..., None] * X)
        divergence = np.sum(np.einsum("mii->mi", cov)) + np.sum(nu**2) - self.m * k + np.sum(np.linalg.slogdet(K)[1])
        return value + divergence / 2 + unlikely(phi, self.wide)[0], a, A, cov

    def at(self, root: Floats) -> SimpleNamespace:
        """Maximise over mu and the clients' normals for a root (r, k) of the covariance, by natural gradient steps."""
        k = root.shape[1]
        phi, nu = self.phi, self.a @ root
        K = np.eye(k) + root.T @ self.A @ root
        value, a, A, cov = self.look(root, phi, nu, K)
        settled = False
        for _ in range(self.steps):
            g, XB = a @ root - nu, A @ root
            K_next = np.eye(k) + root.T @ XB
            gain = np.linalg.solve(K_next, np.concatenate([g[..., None], np.swapaxes(XB, 1, 2)], axis=2))
            step, by_phi = gain[..., 0], gain[..., 1:]
            pull = move = np.zeros(self.r)
            if self.learnt:
                _, by_law, bent = unlikely(phi, self.wide)
                pull = a.sum(axis=0) - by_law
                slope = pull - np.einsum("mrk,mk->r", XB, step)
                curvature = (A - XB @ by_phi).sum(axis=0) + bent
                move = np.linalg.solve(curvature + 1e-12 * np.trace(curvature) * np.eye(self.r), slope)
                step = step - np.einsum("mkr,r->mk", by_phi, move)
            rest = max(np.abs(g).max(), np.abs(pull).max() / self.m, np.abs(K_next - K).max() / 10)
            settled = bool(rest <= self.tol)
            if settled:
                break
            share, change = 1.0, (K_next - K) / 2  # the full change overshoots where the curvature feels the variance
            while share > 1e-6:
                ahead = self.look(root, phi + share * move, nu + share * step, K + share * change)
                if ahead[0] <= value + 1e-12 * abs(value):
                    break
                share /= 2
            else:
                break
            phi, nu, K = phi + share * move, nu + share * step, K + share * change
            value, a, A, cov = ahead
        self.phi, self.a, self.A = phi, a, A
        law, _, bent = unlikely(phi, self.wide)
        XB = A @ root
        by_phi = np.linalg.solve(K, np.swapaxes(XB, 1, 2))
        by_root = (XB @ cov).sum(axis=0) - np.einsum("mr,mk->rk", a, nu)
        W = A - XB @ cov @ np.swapaxes(XB, 1, 2)
        return SimpleNamespace(
            loss=value,
            law=law,
            by_root=by_root,
            by_covariance=(np.einsum("mi,mj->ij", a, a) - W.sum(axis=0)) / 2,
            P=np.eye(k) - cov,
            profiled=0,
            phi=phi,
            nu=nu,
            cov=cov,
            by_phi=-by_phi,
            information=(A - XB @ by_phi).sum(axis=0) + bent,
            settled=settled,
        )
