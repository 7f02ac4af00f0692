"""What models of counts with a conjugate prior share: the best prior, an average over priors, mixtures of posteriors.

A prior has a location (log-odds or logarithm of its mean) and an overdispersion rho >= 0; rho = 0 is no difference between
clients.  For a given rho the marginal likelihood has one maximum over the location.  Along rho there may be several.

Belongs here: the search over (location, rho) and the quadrature.  Does not belong here: the likelihoods themselves
(``beta_binomial``, ``gamma_poisson``) and sums over clients (``tallies``).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple, Protocol

import numpy as np

from estimators.counts.tallies import NARROW, distinct
from estimators.model import ClientModel
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.inversion import lattice_quantile, quantiles
from estimators.numerics.limits import share
from estimators.numerics.quadrature import deviation, gauss
from estimators.numerics.surfaces import from_cells
from estimators.numerics.validation import finite, fraction, single

__all__ = ["ConjugateModel", "Maximum", "Priors", "average", "climb", "from_zero", "maximise"]

WIDEST = 100.0  # the largest sqrt(rho) that the hyperprior allows
LEFT = -3.3  # in w, of ``average``: u = 6e-14 of its scale
FINE = 61, 200  # places across and along, for quantiles of the prior's parameters
CELLS = 65_536  # clients times priors at a time, which fit in a processor's cache
SHARP = 0.25  # standard deviation, of log rho and of the location, up to which few priors stand for all
MANY = 1_000  # different clients from whom on quantiles are interpolated between few of them
WIDTH = np.log(4.0)  # of the first cells of that, in the logarithm of either parameter of a posterior
LEAST = 4 * float(np.finfo(float).tiny)  # positive numbers below it have fewer digits
BELOW_ONE = float(np.nextafter(1.0, 0.0))
EXACT = 1e-11  # share that a function may change by as they do


class Surface(Protocol):
    """The marginal likelihood of clients' counts over location and rho."""

    guess: float
    lowest: float
    highest: float

    def bracket(self, rho: Floats) -> tuple[Floats, Floats]:
        """Return bounds of the best location for each rho."""
        ...

    def at(self, t: Floats, rho: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return value, derivative by location, positive curvature and derivative by rho."""
        ...

    def log_hyperprior(self, t: Floats, rho: Floats) -> Floats:
        """Return the log density of the location and of sqrt(rho), up to a constant."""
        ...


class Maximum(NamedTuple):
    """Where the marginal likelihood is largest, its value there without constants, passes and whether it settled."""

    location: float
    rho: float
    value: float
    passes: int
    converged: bool


class Priors(NamedTuple):
    """Priors by location (or mean) and rho, arrays (k,), and their weights, which add up to one."""

    locations: np.ndarray
    rhos: np.ndarray
    weights: np.ndarray


def climb(surface: Surface, rho: Floats) -> tuple[Floats, Floats, Floats, Floats, int, bool]:
    """Return the best location for each rho, the value, curvature and derivative by rho there, passes, all settled.

    `surface.bracket(rho)` holds the best location; ``surface.at(location, rho)`` returns value, derivative by location, a
    positive curvature that is exact where that is 0, and the derivative by rho.
    """
    low, high = surface.bracket(rho)
    t = np.clip(surface.guess, low, high)
    passes = 0
    while True:
        passes += 1
        value, slope, curvature, by_rho = surface.at(t, rho)
        low, high = np.where(slope > 0, t, low), np.where(slope > 0, high, t)
        step = slope / curvature
        settled = (np.abs(step) <= 1e-13 * (1 + np.abs(t))) | (high - low <= 1e-15 * np.abs(t))
        if settled.all() or passes == 200:
            return t, value, curvature, by_rho, passes, bool(settled.all())
        following = t + step
        middle = (low + high) / 2
        t = np.where(settled, t, np.where((following > low) & (following < high), following, middle))


def maximise(surface: Surface) -> Maximum:
    """Return the Maximum over location and rho >= 0.

    The profile over the location is followed on a geometric grid of rho from 0 to where it falls for good; each maximum
    is refined, and they are compared.
    """
    from scipy.optimize import brentq

    grid = [0.0]
    while grid[-1] < surface.highest:
        grid.append(max(4 * grid[-1], surface.lowest))
    t, value, _, by_rho, passes, converged = climb(surface, np.array(grid))
    while by_rho[-1] > 0 and grid[-1] < 1e15:
        grid.append(4 * grid[-1])
        last = climb(surface, np.array(grid[-1:]))
        by_rho, passes, converged = np.append(by_rho, last[3]), passes + last[4], converged and last[5]
    count = [passes]

    def refined(rho):
        found = climb(surface, np.array([rho]))
        count[0] += found[4]
        return found

    def score(log_rho):
        return float(refined(np.exp(log_rho))[3][0])

    found = [(float(value[0]), 0.0, float(t[0]))] if by_rho[0] <= 0 else []
    for i in np.flatnonzero((by_rho[:-1] > 0) & (by_rho[1:] <= 0)):
        low = grid[i]
        if i == 0:  # between 0 and the first rho of the grid
            low = grid[1]
            while low > 1e-300 and score(np.log(low)) <= 0:
                low /= 1024
        rho, settled = low, True
        if low < grid[i + 1] and low > 1e-300:
            log_rho, details = brentq(
                score, np.log(low), np.log(grid[i + 1]), xtol=1e-14, rtol=np.float64(1e-14), maxiter=300,
                full_output=True, disp=False,
            )  # fmt: skip
            rho, settled = float(np.exp(log_rho)), details.converged
        best = refined(rho)
        converged = converged and settled and best[5]
        found.append((float(best[1][0]), rho, float(best[0][0])))
    if by_rho[-1] > 0:
        last = refined(grid[-1])
        found.append((float(last[1][0]), grid[-1], float(last[0][0])))
        converged = False
    top = max(found)
    if not converged:
        warnings.warn(
            "the search for the prior did not settle; compare its log_likelihood_ with neighbours", RuntimeWarning, 2
        )
    return Maximum(top[2], top[1], top[0], count[0], bool(converged))


def average(surface: Surface, best: Maximum, across: int = 11, along: int = 32, *, condensed: bool = True) -> Priors:
    """Return Priors that stand for the posterior law of the prior's parameters given all clients' counts.

    Hyperprior: of the location and u = sqrt(rho) <= `WIDEST` as ``surface.log_hyperprior`` has it.
    Trapezoidal in the location, +-4.8 standard deviations about its best value for each rho, and in w with
    u = c exp(w - exp(-w)), which follows the long tails and leaves no end at u = 0; both converge geometrically.  Where the
    law is sharp and `condensed`, Gauss's few nodes stand for the lattice: for means of smooth functions, not for quantiles.
    """
    scale = np.sqrt(best.rho) if best.rho > 0 else np.sqrt(1e3 * surface.lowest)
    offsets = np.linspace(-4.8, 4.8, across)

    def weigh(w):
        rho = (scale * np.exp(w - np.exp(-w))) ** 2
        t, _, curvature, *_ = climb(surface, rho)
        sd = 1 / np.sqrt(curvature)
        locations = t[:, None] + sd[:, None] * offsets
        rhos = np.broadcast_to(rho[:, None], locations.shape)
        values = surface.at(locations.ravel(), rhos.ravel())[0].reshape(locations.shape)
        density = surface.log_hyperprior(locations, rhos)
        logs = values + density + (np.log(sd) + w - np.exp(-w) + np.log1p(np.exp(-w)))[:, None]
        return locations, rhos, logs

    low, high = LEFT, place(WIDEST / scale)
    while True:  # narrow the range until what counts fills most of it
        step = (high - low) / along
        w = low + step * (np.arange(along) + 0.5)
        locations, rhos, logs = weigh(w)
        rows = logs.max(axis=1)
        kept = np.flatnonzero(rows > rows.max() - 20)
        lower, upper = max(low, w[kept[0]] - 1.5 * step), min(high, w[kept[-1]] + 1.5 * step)
        if upper - lower > 0.75 * (high - low):
            break
        low, high = lower, upper
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    log_rhos, whole = np.log(rhos[:, 0]), weights.sum(axis=1)
    rows = nodes_enough(deviation(log_rhos, whole))
    columns = nodes_enough(deviation((locations - np.einsum("ij,ij->", weights, locations)).ravel(), weights.ravel()))
    if condensed and rows and columns:  # what is averaged is smooth in both, so Gauss's nodes serve
        log_rhos, whole = gauss(log_rhos, whole, rows)
        locations, _, logs = weigh(np.array([place(u) for u in np.exp(log_rhos / 2) / scale]))
        masses = np.exp(logs - logs.max(axis=1, keepdims=True))
        masses /= masses.sum(axis=1, keepdims=True)
        laws = [gauss(x, mass, columns) for x, mass in zip(locations, masses, strict=True)]
        locations, weights = (np.concatenate(parts) for parts in zip(*laws, strict=True))
        return Priors(locations, np.exp(np.repeat(log_rhos, columns)), np.repeat(whole, columns) * weights)
    kept = weights > 1e-9
    rhos = np.maximum(rhos[kept], 2 * NARROW)  # no law of less spread has other posteriors
    return Priors(locations[kept], rhos, weights[kept] / weights[kept].sum())


def place(u: float) -> float:
    """Return w with exp(w - exp(-w)) = u > 0, by Newton's method from the left, where the function is concave."""
    goal = float(np.log(u))
    w = -float(np.log1p(np.maximum(-goal, 0.0))) if goal < 1 else goal
    for _ in range(100):
        step = (goal - w + float(np.exp(-w))) / (1 + float(np.exp(-w)))
        w += step
        if abs(step) <= 1e-15 * (1 + abs(w)):
            break
    return w


def nodes_enough(sd: float) -> int:
    """Return how many of Gauss's nodes average a function with its singularities pi away to rounding; 0 for too many."""
    if sd > SHARP:
        return 0
    return next(n for n in range(2, 20) if (sd / np.pi) ** (2 * n) * float(factorial(n)) < EXACT)


class ConjugateModel(ClientModel):
    """Base of models whose clients have posteriors in a family with two parameters, or mixtures of such laws.

    A subclass sets ``components_``, the Priors whose posteriors are averaged (one of weight 1 for a prior taken as known),
    and ``clients_`` (arrays of the data, one entry per client), and has functions of (location, rho, rows) with rows of
    the data: ``_moments`` (mean and variance), ``_cdf`` and ``_densities`` (also of t; the density and two derivatives),
    ``_quantile`` (also of q; for one prior); ``_alike_quantile``, of (mean, sd, q), of the law of the family with these
    moments; ``_draws`` (also of a generator); ``_strength`` (the ratio of the weights that a client's own estimate and the
    prior's mean get in its posterior mean); and, as both parameters of a posterior are sums, ``_first`` (the stated prior's
    part of them), ``_added`` (the client's part) and ``_given`` (the data of that part).  ``_learnt`` is what priors were
    averaged over, on the scale of the search, where ``_prior_moments`` gives their means and sds, and ``_keys`` are whole
    numbers, equal for clients with equal data.

    After `fit` or `posterior`, ``weights_`` (m,) is the weight of each client's own estimate in its posterior mean: how
    much the latter moves when the former moves by one.  Posterior means are linear in own estimates whether or not they
    are averaged, as the weights of the components are those given all clients' counts: posterior_mean_ is
    weights_ own + (1 - weights_) c, where c is the prior's mean, averaged if there are several with what each prior takes
    of it.  So c depends a little on the client's size, and is the same for clients of equal size.
    """

    components_: Priors
    clients_: tuple[np.ndarray, np.ndarray]
    weights_: Floats
    mean_: float

    _support = (0.0, np.inf)
    _moments: Callable[..., np.ndarray]  # two rows
    _cdf: Callable[..., Floats]
    _densities: Callable[..., np.ndarray]  # three rows
    _quantile: Callable[..., Floats]
    _alike_quantile: Callable[..., Floats]
    _draws: Callable[..., Floats]
    _prior_moments: Callable[..., tuple[Floats, Floats]]
    _learnt: tuple[Surface, Maximum]
    _strength: Callable[..., Floats]
    _keys: Callable[[], np.ndarray]
    _first: Callable[[], tuple[float, float]]
    _added: Callable[..., tuple[np.ndarray, np.ndarray]]
    _given: Callable[..., tuple[np.ndarray, np.ndarray]]

    def _distinct(self) -> tuple[Any, Any]:
        """Return rows of distinct data and the position in them of every client's data, kept for the next call.

        Where most clients differ in their sizes there is little to gain, and the rows are all clients' own.
        """
        grouped = getattr(self, "_grouped", None)
        if grouped is None:
            size = np.sort(self.clients_[1])
            if np.count_nonzero(size[1:] != size[:-1]) > size.size // 2:
                grouped = self.clients_, slice(None)
            else:
                position, place = distinct(self._keys())
                grouped = tuple(column[position] for column in self.clients_), place
            self._grouped = grouped
        return grouped

    def _serving(self, clients):
        """Return a model with the same prior and the posteriors of these clients."""
        self._require_prior()
        return copy.copy(self)._take(clients)

    def _require_prior(self):
        if not hasattr(self, "components_"):
            raise ValueError(f"this {type(self).__name__} has not been fitted; call fit or fit_tally first")

    def _take(self, clients):
        """Keep these clients, set their posterior means and standard deviations, and return self."""
        self.clients_, self._grouped = clients, None
        if self.components_.weights.size == 1:
            mean, variance = self._mixed(self._moments, self.clients_)
            self.posterior_mean_, self.posterior_sd_ = mean, np.sqrt(variance)
            self.weights_ = self._mixed(self._own, self.clients_)
            return self
        rows, inverse = self._distinct()
        mean, sd = self._mean_and_sd(rows)
        self.posterior_mean_, self.posterior_sd_ = mean[inverse], sd[inverse]
        self.weights_ = self._mixed(self._own, rows)[inverse]
        return self

    def _own(self, location, rho, rows):
        """Return the weight of each client's own estimate in its posterior mean."""
        strength = self._strength(location, rho, rows)
        return share(strength, 1.0) if np.ndim(rho) == 0 else strength / (1 + strength)  # one prior may be without end

    def _alike(self, size):
        """Return mean and rho of the one prior that gives clients of this size the posterior means of the average.

        The mean and the variance of an average of priors are no use here: for rates neither is finite, as the data do not
        rule out priors of any mean as long as they are wide enough.
        """
        none = np.zeros(1, np.int64), np.array([size])  # a client with nothing counted: its posterior mean is rest * mean
        own, rest = self._mixed(self._own, none), self._mixed(lambda *prior: 1 / (1 + self._strength(*prior)), none)
        mean = float((self._mixed(self._moments, none)[0] / rest)[0])
        return mean, float((own / rest / self._strength(mean, 1.0, none))[0])

    def _mean_and_sd(self, rows):
        locations, rhos, weights = self.components_
        found = []
        for part in self._parts(rows):
            means, variances = self._moments(locations[:, None], rhos[:, None], part)
            mean = np.einsum("k,km->m", weights, means)
            found.append((mean, np.sqrt(np.einsum("k,km->m", weights, spread(means, variances, mean)))))
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))

    def _parts(self, columns):
        """Yield the columns of so many clients at a time as their posteriors under all priors take little memory."""
        size = max(1, CELLS // self.components_.weights.size)
        for i in range(0, columns[0].size, size):
            yield tuple(column[i : i + size] if np.ndim(column) else column for column in columns)

    def _mixed(self, function, rows, *t):
        """Return the weighted sum over the components of function(location, rho, rows, *t), clients on the last axis."""
        locations, rhos, weights = self.components_
        if weights.size == 1:
            return function(float(locations[0]), float(rhos[0]), rows, *t)
        parts = []
        for x, size, *rest in self._parts((*rows, *t)):
            terms = np.asarray(function(locations[:, None], rhos[:, None], (x, size), *rest))
            parts.append(np.einsum("k,...km->...m", weights, terms))
        return np.concatenate(parts, axis=-1)

    def prior_interval(self, level: float = 0.95) -> dict[str, tuple[float, float] | list[tuple[float, float]]]:
        """Return intervals for "mean" and "sd" of the clients' true values, if the prior is averaged over; else none.

        Posterior quantiles, from a finer lattice than clients need, good to a few thousandths of their distance.
        """
        self.require_fit()
        level = single(fraction, "level", level)
        if self.components_.weights.size == 1:
            return {}
        locations, rhos, weights = average(*self._learnt, *FINE, condensed=False)
        tails = (1 - level) / 2, (1 + level) / 2
        mean, sd = self._prior_moments(locations, rhos)
        ends = [tuple(lattice_quantile(values, weights, q) for q in tails) for values in (mean, sd)]
        return {"mean": (ends[0][0], ends[0][1]), "sd": (ends[1][0], ends[1][1])}

    @property
    def independent(self) -> bool:
        """Whether one prior is taken for true."""
        self.require_fit()
        return self.components_.weights.size == 1

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m) of all true values given the data: a prior, then the clients."""
        self.require_fit()
        locations, rhos, weights = self.components_
        parts = generator.choice(weights.size, size, p=weights / weights.sum())
        return np.stack([self._draws(float(locations[k]), float(rhos[k]), self.clients_, generator) for k in parts])

    def posterior_cdf(self, t: ArrayLike, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or < t if `strict`, given the data; t is a number, or an array with one per client."""
        self.require_fit()
        t = finite("t", t)
        rows, inverse = self._distinct() if t.ndim == 0 else (self.clients_, slice(None))
        return self._mixed(lambda *args: self._cdf(*args, strict), rows, t)[inverse]

    def posterior_quantile(self, q: float) -> Floats:
        """Return the smallest t with P(theta_i <= t) >= q given the data, one entry per client; q in (0, 1)."""
        from scipy.special import expit

        self.require_fit()
        q = single(fraction, "q", q)
        rows, inverse = self._distinct()
        rhos = self.components_.rhos
        smooth = rhos.min() > NARROW and np.isfinite(rhos).all() and min(self._first()) > 0
        if rows[0].size <= MANY or not smooth:
            return from_zero(self._quantile_of(rows, q))[inverse]
        # A smooth function of the parameters of one posterior: few evaluations serve any number of clients.
        columns, bounded = self._added(*rows), np.isfinite(self._support[1])
        start = [min(first, 1e3 * column.max()) for first, column in zip(self._first(), columns, strict=True)]

        def log_odds(*places):
            inside = (np.maximum(np.exp(place) - first, 0.0) for place, first in zip(places, start, strict=True))
            t = np.maximum(self._quantile_of(self._given(*inside), q), LEAST / 4)
            return np.log(t) - (np.log1p(-np.minimum(t, BELOW_ONE)) if bounded else 0.0)

        x, y = (np.log(column + first) for column, first in zip(columns, start, strict=True))
        found = from_cells(log_odds, x, y, width=WIDTH)
        return from_zero(expit(found) if bounded else np.exp(found))[inverse]

    def _quantile_of(self, rows, q):
        if self.components_.weights.size == 1:
            return self._mixed(self._quantile, rows, q)
        mean, sd = self._mean_and_sd(rows)
        # No law has its quantiles beyond these (Cantelli's inequality).
        low = np.maximum(self._support[0], mean - sd * np.sqrt((1 - q) / q))
        high = np.minimum(self._support[1], mean + sd * np.sqrt(q / (1 - q)))
        guess = self._alike_quantile(mean, sd, q)  # NaN where no law of the family has these moments

        def at(function):
            return lambda t, i: self._mixed(function, tuple(column[i] for column in rows), t)

        cdf, densities = at(lambda *args: self._cdf(*args, False)), at(self._densities)
        return quantiles(cdf, densities, q, low, high, guess)


def from_zero(t: Floats) -> Floats:
    """Return quantiles t >= 0, with 0 for those that are too small to be told from it.

    Of wide priors more than 2.5 % of a posterior may lie there, and SciPy's inverses answer with the least normal number, so
    that the interval would leave out what it is to hold.

    >>> from_zero(np.array([2.3e-308, 1e-300, 0.5])).tolist()
    [0.0, 1e-300, 0.5]
    """
    return np.where(t < LEAST, 0.0, t)


def spread(mean: Floats, variance: Floats, centre: Floats) -> Floats:
    """Return the mean squared distance of a law from a centre."""
    return variance + (mean - centre) ** 2
