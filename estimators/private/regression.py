"""Private linear regression of many clients: noisy sums of products, the prior that they reveal, the posterior at home.

Model: theta_i ~ N(mu, tau2 I), y = x' theta_i + N(0, sigma2) for each row; the rows' x say nothing about theta_i.
A client sends the sum of z z' over its rows z = (x, y), clipped and noisy; single clients may have fewer rows than
coefficients.  The server learns mu, tau2 and sigma2 and broadcasts them; each client then computes its posterior at home
from its exact rows.

Belongs here: both sides for linear regression.  Means and rates are in ``client`` and ``server``; the posterior without
privacy is in ``regression`` of the package above.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from estimators.accounting.budget import budget_numbers, in_parallel
from estimators.closed_forms import regression
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.units import WIDEST
from estimators.numerics.validation import count, finite, instance, nonnegative, paired, positive, single
from estimators.private.client import own_budget
from estimators.private.exact_noise import check_generator
from estimators.private.noise import add_noise, choose_mechanism
from estimators.private.prior import Broadcast, cut_mean, normalised
from estimators.private.raw_rows import raw, raw_listing, read_names
from estimators.private.reports import RegressionReport
from estimators.private.server import guarantee_lines, read

if TYPE_CHECKING:
    from estimators.accounting.budget import Budget, Guarantee


__all__ = ["PrivateRegressionMeans", "RegressionClient", "RegressionPrior"]

MAX_BITS = 20
NODES, REACH = 33, 5.0  # of the grid of tau, and its end in standard errors
HIDDEN = 3.0  # standard deviations of the noise that the pooled design must exceed in every direction


@dataclass(frozen=True)
class RegressionPrior(Broadcast):
    """What the server broadcasts: mean of the coefficients, variance of each, variance of a response.

    Parameters
    ----------
    mu : tuple of numbers; sigma2 : number >= 0.
    tau2, tau2_sd : estimate of the variance between clients, and its standard error >= 0; an estimate with an error may be
        negative.

    >>> RegressionPrior.from_json(RegressionPrior((1.0, 2.0), 0.5, 1.0).to_json())
    RegressionPrior(mu=(1.0, 2.0), tau2=0.5, sigma2=1.0, tau2_sd=0.0)
    """

    mu: tuple[float, ...]
    tau2: float
    sigma2: float
    tau2_sd: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "mu", tuple(map(float, np.atleast_1d(finite("mu", self.mu)))))
        nonnegative("sigma2", self.sigma2)
        (finite if nonnegative("tau2_sd", self.tau2_sd) > 0 else nonnegative)("tau2", self.tau2)

    def grid(self) -> tuple[Floats, Floats]:
        """Return values of tau^2 and the log of what the estimate says for them, on an even grid of tau."""
        if self.tau2_sd == 0:
            return np.array([self.tau2]), np.zeros(1)
        tau2 = np.linspace(0.0, np.sqrt(max(self.tau2, 0.0) + REACH * self.tau2_sd), NODES) ** 2
        return tau2, -(((tau2 - self.tau2) / self.tau2_sd) ** 2) / 2


class RegressionClient:
    """Client side of private linear regression: rows in, a `RegressionReport` out.

    Rows z = (x, y) longer than `norm` are shortened to it, and rounded towards 0 to multiples of norm / 2^bits, which no row
    can make longer.  Replacing a row moves the sum of z z' by at most sqrt(2) norm^2 in Frobenius norm, attained by
    orthogonal rows; off the diagonal, where that norm counts an entry twice, half the noise variance is enough.

    Parameters
    ----------
    norm : number in [1e-70, 1e70], bound on the Euclidean norm of a row (x, y), fixed without looking at the data.  Scale
        the columns so that they matter about equally: clipping shortens the whole row.
    eps : number > 0 or inf; delta : number in (0, 1); for adjacency "row": one row of the client is replaced, n public.
    mechanism : "discrete-gaussian" (default) or "gaussian", as for ``MeanClient``.
    bits : whole number in 1..20.
    name, budget : as for ``MeanClient``.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> client = RegressionClient(norm=6.0, eps=2.0, delta=1e-5)
    >>> report = client.report(X, 2.0 * X[:, 0], rng)
    >>> np.shape(report.products), round(report.noise_variance ** 0.5)
    ((2, 2), 109)
    """

    def __init__(
        self,
        *,
        norm: float,
        eps: float,
        delta: float,
        mechanism: str | None = None,
        bits: int = 16,
        name: str = "",
        budget: Budget | None = None,
    ) -> None:
        self.norm = single(positive, "norm", norm)
        if not 1 / WIDEST <= self.norm <= WIDEST:  # beyond, rows cannot be compared with it, nor noise be told
            raise ValueError(f"norm must be in [{1 / WIDEST:.0e}, {WIDEST:.0e}], got {norm}; give X and Y in another unit")
        self.eps, self.delta = budget_numbers(eps, delta)
        self.mechanism = choose_mechanism(
            mechanism or "discrete-gaussian", self.eps, self.delta, ("discrete-gaussian", "gaussian")
        )
        self.bits = int(single(count, "bits", bits))
        if self.bits > MAX_BITS:
            raise ValueError(f"bits must be at most {MAX_BITS}, got {self.bits}")
        self.name = name
        self.budget = own_budget(budget, self.eps, self.delta, "row")

    def clip(self, X: ArrayLike, Y: ArrayLike) -> Ints:
        """Return the rows z = (x, y) as whole multiples of norm / 2^bits, of norm at most 2^bits exactly."""
        return self.shortened(read_design(X, Y))

    def shortened(self, rows: Floats) -> Ints:
        """Return what `clip` does of rows (x, y), each by itself."""
        levels = 2**self.bits
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        whole = np.trunc(rows * (levels / np.maximum(norms, self.norm))).astype(np.int64)
        long = np.sum(whole**2, axis=1) > levels**2  # by the rounding of floats
        whole[long] -= np.sign(whole[long])
        return whole

    @paired
    def share_clipped(self, X: ArrayLike, Y: ArrayLike) -> float:
        """Share of rows longer than `norm`.  Raw data: it must stay with the client."""
        return float(np.mean(np.linalg.norm(read_design(X, Y), axis=1) > self.norm))

    @paired
    def report(self, X: ArrayLike, Y: ArrayLike, generator: np.random.Generator | None = None) -> RegressionReport:
        """Return the client's report, if its budget still allows it.

        Parameters
        ----------
        X : array (n, d); Y : array (n,); generator : see ``MeanClient.report``.
        """
        whole = self.clip(X, Y)
        return self.answer(whole, np.array([len(whole)]), [self.name], generator)[0]

    @paired
    def reports(
        self,
        Xs: Sequence[ArrayLike],
        Ys: Sequence[ArrayLike],
        names: Sequence[str],
        generator: np.random.Generator | None = None,
    ) -> list[RegressionReport]:
        """Return the reports of many clients who keep to these settings, at once; the budget is charged once for all.

        Parameters
        ----------
        Xs, Ys : lists of m arrays (n_i, d) and (n_i,), each of one client, so that nobody's rows are in two of them.
        names : list of m different strings, the clients' public names; generator : see ``MeanClient.report``.
        """
        Xs, Ys = raw_listing("Xs", Xs), raw_listing("Ys", Ys)
        if len(Xs) != len(Ys) or not len(Xs):
            raise ValueError(f"Xs and Ys must be as many, at least one, got {len(Xs)} and {len(Ys)}")
        names = read_names(names, len(Xs))
        rows, sizes = read_designs(Xs, Ys)
        return self.answer(self.shortened(rows), sizes, names, generator)

    def answer(
        self, whole: Ints, sizes: Ints, names: list[str], generator: np.random.Generator | None
    ) -> list[RegressionReport]:
        """Return the reports of clients, each of the next so many of the clipped rows."""
        check_generator(generator)
        size = whole.shape[1]
        if int(sizes.max()) << (2 * self.bits) >= 1 << 62:
            raise ValueError(f"rows must be fewer than 2^{62 - 2 * self.bits} at bits={self.bits}; lower bits")
        upper = np.triu_indices(size)
        starts = np.cumsum(sizes) - sizes
        sums = [np.add.reduceat(whole[:, j] * whole[:, k], starts).tolist() for j, k in zip(*upper, strict=True)]
        largest = Fraction(2 * 2 ** (4 * self.bits))
        noisy = add_noise(
            sums,
            squares=[largest if j == k else largest / 2 for j, k in zip(*upper, strict=True)],
            eps=self.eps,
            delta=self.delta,
            mechanism=self.mechanism,
            adjacency="row",
            trusted="client",
            generator=generator,
        )
        self.budget.spend(in_parallel(noisy.guarantees))
        unit = (self.norm / 2**self.bits) ** 2
        matrices = np.zeros((len(sizes), size, size))
        for j, k, values in zip(*upper, noisy.values, strict=True):
            matrices[:, j, k] = matrices[:, k, j] = unit * np.array(values, float)
        found = []
        for i, (n, matrix) in enumerate(zip(sizes.tolist(), matrices.tolist(), strict=True)):
            noise = unit**2 * noisy.variances[0][i]
            products = tuple(map(tuple, matrix))
            found.append(RegressionReport(names[i], n, noisy.guarantees[i], products, noise, self.norm))
        return found

    @paired
    def at_home(self, X: ArrayLike, Y: ArrayLike, prior: RegressionPrior) -> tuple[Floats, Floats]:
        """Posterior mean (d,) and covariance (d, d) of the client's own coefficients from its exact rows.

        The posterior for one tau2 (generative:thm6), averaged over those that the server's estimate and the client's rows
        leave open (flat prior on tau); mu and sigma2 are taken as known.  Nothing is spent; the result must stay with the
        client.

        Parameters
        ----------
        X, Y : the client's rows; prior : RegressionPrior that the server broadcast.
        """
        rows = read_design(X, Y)
        instance("prior", prior, RegressionPrior)
        if rows.shape[1] - 1 != len(prior.mu):
            raise ValueError(f"X must have {len(prior.mu)} columns as the prior has, got {rows.shape[1] - 1}")
        X, Y = rows[:, :-1], rows[:, -1]
        tau2s, log_weight = prior.grid()
        fits = [regression.posterior(X, Y, prior.mu, tau2, prior.sigma2) for tau2 in tau2s]
        if len(fits) == 1:
            return fits[0]
        if prior.sigma2 > 0:
            U, singular, _ = np.linalg.svd(X, full_matrices=False)
            spread = prior.sigma2 + np.outer(tau2s, singular**2)
            log_weight = log_weight - np.sum(np.log(spread) + (U.T @ (Y - X @ prior.mu)) ** 2 / spread, axis=1) / 2
        weight = normalised(log_weight)
        means, covariances = (np.array(part) for part in zip(*fits, strict=True))
        mean = np.einsum("k,kj->j", weight, means)
        away = means - mean
        return mean, np.einsum("k,kij->ij", weight, covariances) + np.einsum("k,ki,kj->ij", weight, away, away)


def read_design(X: ArrayLike, Y: ArrayLike) -> Floats:
    """Return the rows (x, y) as one array."""
    X, Y = raw("X", X), raw("Y", Y)
    if X.ndim != 2 or X.size == 0:
        raise ValueError(f"X must have shape (rows, coefficients), at least one of each, got {X.shape}")
    if Y.shape != X.shape[:1]:
        raise ValueError(f"Y must have one response per row of X, {X.shape[:1]}, got shape {Y.shape}")
    return np.column_stack([X, Y])


def read_designs(Xs: list[Any], Ys: list[Any]) -> tuple[Floats, Ints]:
    """Return the rows (x, y) of all clients as one array, and how many each has."""
    plain = all(type(part) is np.ndarray and part.dtype == float for parts in (Xs, Ys) for part in parts)
    if plain and all(X.ndim == 2 and X.size and Y.shape == X.shape[:1] for X, Y in zip(Xs, Ys, strict=True)):
        widths, sizes = {X.shape[1] for X in Xs}, [len(X) for X in Xs]
        if len(widths) == 1:
            rows = np.column_stack([np.concatenate(Xs), np.concatenate(Ys)])
            if np.isfinite(rows).all():
                return rows, np.array(sizes)
    designs = [read_design(X, Y) for X, Y in zip(Xs, Ys, strict=True)]  # one by one, to say what is wrong with which
    widths = {rows.shape[1] - 1 for rows in designs}
    if len(widths) > 1:
        raise ValueError(f"Xs must have the same number of columns for all clients, got {sorted(widths)}")
    return np.concatenate(designs), np.array([len(rows) for rows in designs])


class PrivateRegressionMeans:
    """The common prior of the clients' coefficients from noisy sums of products.

    mu solves sum w_i (B_i - A_i mu) = 0, where A_i and B_i stand for X'X and X'Y: consistent for many clients, as the noise
    averages out.  tau2 and sigma2 solve two moment equations, for the squared residuals and for |B_i - A_i mu|^2, from which
    the known noise is subtracted.  The weights w_i depend on public numbers and on a first pass with w_i = 1 / n_i only.
    All are estimates; the clients' posteriors are computed at home (``RegressionClient.at_home``), where no noise is.

    Parameters
    ----------
    sigma2 : variance >= 0 of a response, or None to estimate it.

    Attributes
    ----------
    mu_ : array (d,); tau2_, sigma2_ : floats >= 0; tau2_sd_ : standard error; prior_ : RegressionPrior to broadcast.
    mu_covariance_ : array (d, d), sandwich estimate of the covariance of mu_.
    converged_ : False if an estimated variance came out negative, with a warning: tau2_ is then 0, sigma2_ the mean of the
        normal law of its estimate and error cut off at 0, as it always is.
    guarantees_ : tuple, one per client; guarantee_ : Counter of them; clients_ : tuple of names.

    >>> rng = np.random.default_rng(0)
    >>> def one():
    ...     X = rng.normal(size=(200, 2)) / 2
    ...     Y = X @ rng.normal([1.0, -1.0], 0.5) + rng.normal(0.0, 0.5, 200)
    ...     return RegressionClient(norm=3.0, eps=4.0, delta=1e-5).report(X, Y, rng)
    >>> model = PrivateRegressionMeans().fit([one() for _ in range(300)])
    >>> model.mu_.round(1).tolist(), round(model.tau2_, 1), round(model.sigma2_, 1)
    ([1.0, -0.9], 0.2, 0.3)
    """

    mu_: Floats
    mu_covariance_: Floats
    tau2_: float
    tau2_sd_: float
    sigma2_: float
    converged_: bool
    prior_: RegressionPrior
    clients_: tuple[str, ...]
    guarantees_: tuple[Guarantee, ...]
    guarantee_: Counter[Guarantee]

    def __init__(self, sigma2: float | None = None) -> None:
        self.sigma2 = sigma2

    def fit(self, reports: Sequence[RegressionReport]) -> Self:
        """Fit the prior.

        Parameters
        ----------
        reports : list of RegressionReport of one width, at least two.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming the argument; also where the noise hides the pooled design in some direction.
        """
        reports = read(reports, RegressionReport)
        widths = {len(r.products) for r in reports}
        if len(widths) > 1:
            raise ValueError(f"reports must agree in their number of columns, got {sorted(w - 1 for w in widths)}")
        sums = np.array([r.products for r in reports])
        n, noise = np.array([(r.n, r.noise_variance) for r in reports], float).T
        given = None if self.sigma2 is None else single(nonnegative, "sigma2", self.sigma2)
        mu = pooled_coefficients(sums, noise, 1 / n)
        tau2, sigma2, *_ = variances(sums, noise, n, mu, 1 / n**2, given)
        d = len(mu)
        gram = max(np.trace(sums[:, :d, :d], axis1=1, axis2=2).sum() / (d * n.sum()), 0.0) * n
        surprise = noise / 2 * (1 + mu @ mu)
        with np.errstate(divide="ignore"):
            information = max(tau2, 0.0) * gram + max(sigma2, 0.0) + np.where(gram > 0, surprise / gram, 0.0)
        weights = information.min() / information if (information > 0).all() else 1 / n
        self.mu_ = pooled_coefficients(sums, noise, weights)
        tau2, sigma2, self.tau2_sd_, sigma2_sd = variances(sums, noise, n, self.mu_, weights**2, given)
        self.converged_ = tau2 >= 0 and sigma2 >= 0
        if not self.converged_:
            warnings.warn(
                f"tau2 = {tau2:.3g} and sigma2 = {sigma2:.3g} come out of the moments: noise hides a negative one; tau2 is "
                "set to 0, sigma2 to what its error leaves open (give sigma2, a larger eps, or more clients)",
                stacklevel=2,
            )
        # With sigma2 = 0 a client would take the line through its own rows for certain, whatever the noise hides.
        self.tau2_, self.sigma2_ = max(tau2, 0.0), sigma2 if given is not None else cut_mean(sigma2, sigma2_sd)
        scores = weights[:, None] * (sums[:, :d, d] - np.einsum("ijk,k->ij", sums[:, :d, :d], self.mu_))
        bread = np.linalg.inv(np.einsum("i,ijk->jk", weights, sums[:, :d, :d]))
        self.mu_covariance_ = bread @ np.einsum("ij,ik->jk", scores, scores) @ bread
        self.prior_ = RegressionPrior(tuple(self.mu_), tau2, self.sigma2_, self.tau2_sd_)
        self.clients_ = tuple(r.client for r in reports)
        self.guarantees_ = tuple(r.guarantee for r in reports)
        self.guarantee_ = Counter(self.guarantees_)
        return self

    def prior_summary(self) -> dict[str, Any]:
        """Return the fitted prior as plain values."""
        if not hasattr(self, "mu_"):
            raise ValueError("this PrivateRegressionMeans has not been fitted; call fit first")
        return {"family": "normal", **asdict(self.prior_), "guarantees": guarantee_lines(self.guarantees_)}


def pooled_coefficients(sums: Floats, noise: Floats, weights: Floats) -> Floats:
    """Return the solution mu of sum w (B - A mu) = 0, if the noise leaves A visible."""
    d = sums.shape[1] - 1
    pooled = np.einsum("i,ijk->jk", weights, sums)
    smallest = np.linalg.eigvalsh(pooled[:d, :d]).min()
    floor = np.sqrt(np.sum(weights**2 * noise) * d)
    if smallest <= HIDDEN * floor:
        raise ValueError(
            f"reports: the smallest eigenvalue of the pooled X'X, {smallest:.3g}, is within {HIDDEN:g} times the noise "
            f"{floor:.3g}; drop columns that hardly vary, use more clients or a larger eps"
        )
    return np.linalg.solve(pooled[:d, :d], pooled[:d, d])


def variances(
    sums: Floats, noise: Floats, n: Floats, mu: Floats, weights: Floats, sigma2: float | None
) -> tuple[float, float, float, float]:
    """Return tau2, sigma2 and their standard errors from two moments of the reports at mu; noise can make them < 0."""
    d = len(mu)
    v = np.append(-mu, 1.0)
    gram = sums[:, :d, :d]
    traces = np.trace(gram, axis1=1, axis2=2)
    squares = np.sum(gram**2, axis=(1, 2)) - noise * d * (d + 1) / 2
    residual = np.einsum("j,ijk,k->i", v, sums, v)
    scores = np.einsum("ijk,k->ij", sums[:, :d], v)
    surprise = np.sum(scores**2, axis=1) - noise / 2 * (d * (v @ v) + mu @ mu)
    per_row = weights * n  # the first equation with weights like those of the second, for one row
    left = np.array([[per_row * traces, per_row * n], [weights * squares, weights * traces]])
    right = np.array([per_row * residual, weights * surprise])
    if sigma2 is None:
        slope = left.sum(axis=2)
        found = np.linalg.solve(slope, right.sum(axis=1))
        error = right - np.einsum("abi,b->ai", left, found)
        influence = np.linalg.solve(slope, error)
        if found[0] < 0:
            found[1] = right[0].sum() / slope[0, 1]
    else:
        tau2 = (right[1] - sigma2 * left[1, 1]).sum() / left[1, 0].sum()
        found = np.array([tau2, sigma2])
        influence = (right[1] - sigma2 * left[1, 1] - tau2 * left[1, 0]) / left[1, 0].sum() * np.array([[1.0], [0.0]])
    error = np.sqrt(np.sum(influence**2, axis=1))
    return float(found[0]), float(found[1]), float(error[0]), float(error[1])
