"""Exact posteriors of means: what a report says of its client's mean, and normal priors within the public bounds.

A client's n rows are normal around its true mean theta with variance sigma2, and clipped to the bounds, one by one
(adjacency "row") or their mean (adjacency "client"); noise of known law is added, or one of finitely many outputs drawn.
The mean of clipped rows is taken as normal with its exact mean and variance (with no clipping near, that is exact); noise
and finite outputs are exact.  True means are N(mu, tau^2) cut off at the bounds, mu uniform between the bounds, tau uniform
up to half of their width.

Belongs here: that likelihood and that prior.  Does not belong here: integrals over them (``posterior``), laws of noise
(``noise_laws``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.limits import quiet
from estimators.private.noise import quantised_integers
from estimators.private.noise_laws import LAWS, NoiseLaw, additive, finite_output, steps_of
from estimators.private.reports import MeanReport

__all__ = ["MeanClients", "TruncatedNormals", "clipped_moments", "new_estimates"]

WITHOUT_NOISE = ("finite-output", "two-point")
MOST_KNOTS = 64  # levels of a rounded mean that are summed over; more are a continuum
UNCERTAIN = 1e-4  # of the deviation of rows, by which interpolation of clipped means may be wrong


class TruncatedNormals:
    """Normal priors cut off at the bounds, see ``posterior.Family``."""

    depth = 9.0

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.widest = low, high, (high - low) / 2

    def log_density(self, below: Floats, above: Floats, centre: Floats, spread: Floats) -> Floats:
        """Return the log density of N(centre, spread^2) cut off at the bounds."""
        from scipy.special import ndtr

        z = (below - (centre - self.low)) / spread
        inside = ndtr((self.high - centre) / spread) - ndtr((self.low - centre) / spread)
        return -(z**2) / 2 - np.log(spread * inside * np.sqrt(2 * np.pi))

    def ends(self, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return 1 and 1: the density is finite at the ends."""
        return np.ones_like(centre), np.ones_like(centre)

    def log_hyperprior(self, centre: Floats) -> Floats:
        """Return the log density of centres, which are uniform."""
        return np.full_like(centre, -np.log(self.high - self.low))

    def moments(self, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Return the mean and the variance of N(centre, spread^2) cut off at the bounds."""
        from scipy.special import ndtr

        with quiet():
            a, b = (self.low - centre) / spread, (self.high - centre) / spread
            inside = ndtr(b) - ndtr(a)
            at_a, at_b = (np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * inside) for z in (a, b))
            bend = np.where(at_a > 0, a * at_a, 0.0) - np.where(at_b > 0, b * at_b, 0.0)
        shift = at_a - at_b
        return centre + spread * shift, spread**2 * np.maximum(1 + bend - shift**2, 0.0)

    def draw(self, centre: float, spread: float, size: int, generator: np.random.Generator) -> Floats:
        """Return draws from N(centre, spread^2) cut off at the bounds."""
        from scipy.special import ndtr, ndtri

        a, b = ndtr((self.low - centre) / spread), ndtr((self.high - centre) / spread)
        return np.clip(centre + spread * ndtri(a + (b - a) * generator.random(size)), self.low, self.high)

    def value(self, below: Floats, above: Floats) -> Floats:
        """Return the means at places."""
        return np.where(below < above, self.low + below, self.high - above)

    def below(self, value: float) -> float:
        """Return the distance of a mean from the lower bound."""
        return value - self.low


def clipped_moments(below: Floats, above: Floats, sd: Floats) -> tuple[Floats, Floats]:
    """Return how far clipping at two bounds moves the mean of a normal variable, and its variance after it.

    Parameters
    ----------
    below, above : arrays of distances of the mean from the two bounds; sd : array of standard deviations > 0.

    >>> shift, variance = clipped_moments(np.array([0.0]), np.array([9.0]), np.array([1.0]))
    >>> shift.round(6).tolist(), variance.round(6).tolist()
    ([0.398942], [0.340845])
    """
    from scipy.special import ndtr

    low, high = below / sd, above / sd

    def beyond(z):  # mean and mean square of what a standard normal variable has beyond z
        tail, here = ndtr(-z), np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return here - z * tail, (1 + z**2) * tail - z * here

    (low1, low2), (high1, high2) = beyond(low), beyond(high)
    shift = low1 - high1
    # E (clip(Z))^2 = 1 - E[(Z^2 - z^2); beyond z], and Z^2 - z^2 = (Z - z)^2 + 2 z (Z - z)
    square = 1 - (low2 + 2 * low * low1) - (high2 + 2 * high * high1)
    return sd * shift, sd**2 * np.maximum(square - shift**2, 1e-12)


def clipped_means(low: float, high: float, sd: float) -> tuple[Floats, Floats]:
    """Return true means between the bounds, and the means of their rows after clipping, both rising."""
    near = sd * np.linspace(0.0, 10.0, 401)
    at = np.unique(np.clip(np.concatenate([np.linspace(low, high, 1025), low + near, high - near]), low, high))
    shift, _ = clipped_moments(at - low, high - at, np.array(sd))
    return at, np.maximum.accumulate(at + shift)


def unclipped(mean: Floats, table: tuple[Floats, Floats]) -> Floats:
    """Return the true means whose clipped rows have a mean, the nearest ones where none has; to `UNCERTAIN` deviations."""
    return np.interp(mean, table[1], table[0])


def share_inside(below: Floats, above: Floats, sd: float) -> Floats:
    """Return the share of rows that is not clipped, by which the clipped mean rises with the true one."""
    from scipy.special import ndtr

    return np.maximum(ndtr(above / sd) - ndtr(-below / sd), 1e-6)


class Outputs:
    """Reports of clients of equal n whose law is linear in their mean between a few knots.

    Finite outputs, and noise added to a mean that was rounded to a few levels.  The mean is clipped, then reported.

    Parameters
    ----------
    knots : array (k,); density : array (reports, k), the density or probability of each report at each knot.
    sd : number >= 0, of the clients' means; release : function of means within the bounds that draws new reports.
    """

    def __init__(
        self, knots: Floats, density: Floats, sd: float, release: Callable[[Floats, np.random.Generator], Floats]
    ) -> None:
        self.knots, self.density, self.sd, self.draw = knots, density, sd, release

    def log_likelihood(self, rows: Ints, truth: Floats) -> Floats:
        """Return the log of the expected density at true means, over normal errors and clipping."""
        from scipy.special import ndtr

        x = np.subtract.outer(truth, self.knots)
        if self.sd > 0:
            z = x / self.sd
            above = self.sd * (z * ndtr(z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))  # E (X - knot)_+
        else:
            above = np.maximum(x, 0.0)
        rises = np.diff(self.density[rows], axis=1) / np.diff(self.knots)
        bends = np.diff(rises, axis=1, prepend=0.0, append=0.0)
        found = self.density[rows, :1] + bends @ above.T
        with quiet():
            return np.log(np.maximum(found, 1e-300))


class MeanClients:
    """What reports say of their clients' true means, see ``posterior.Clients``.

    Parameters
    ----------
    reports : list of MeanReport of equal bounds, each one different; sigma2 : number >= 0.
    count : array of how many clients sent each.
    """

    def __init__(self, reports: Sequence[MeanReport], sigma2: float, count: Ints) -> None:
        low, high = reports[0].bounds
        m = len(reports)
        self.count = count
        self.sigma = float(np.sqrt(sigma2))
        self.n = np.array([r.n for r in reports], float)
        self.local = np.array([r.guarantee.adjacency == "client" for r in reports])
        steps, _ = steps_of(reports)
        self.rounding = np.array([r.rounding_variance for r in reports])
        self.low_end, width = low, high - low
        members: dict[tuple[object, ...], list[int]] = {}
        coarse = self.local & (steps > width / MOST_KNOTS)
        for i, report in enumerate(reports):
            mechanism = report.guarantee.mechanism
            if mechanism in WITHOUT_NOISE or coarse[i]:
                key = mechanism, report.guarantee.eps, report.n, float(steps[i])
            else:  # of a very large eps, nothing of the noise is left in its variance
                known = mechanism in LAWS and report.noise_variance > 0
                key = (mechanism if known else "none", bool(self.local[i]))
            members.setdefault(key, []).append(i)
        self.kind, self.place = np.empty(m, int), np.empty(m, int)
        self.laws: list[NoiseLaw | Outputs] = []
        self.centre = np.array([r.estimate for r in reports])
        noise = np.array([r.noise_variance for r in reports])
        sd = self.sigma / np.sqrt(self.n)
        self.spread = np.sqrt(noise + sd**2 + self.rounding)
        self.error = self.spread.copy()
        self.feature, self.slope, reach = np.empty(m), np.full(m, np.inf), np.empty(m)
        for kind, (key, places) in enumerate(members.items()):
            rows = np.array(places)
            some = [reports[i] for i in places]
            self.kind[rows], self.place[rows] = kind, np.arange(rows.size)
            if len(key) == 2:
                law = additive(str(key[0]), some)
                normal = np.sqrt(law.normal + sd[rows] ** 2 + self.rounding[rows])
                self.feature[rows] = np.maximum(normal, law.feature)
                self.slope[rows] = law.slope
                reach[rows] = 9 * normal + np.where(np.isfinite(law.slope), 40 / law.slope, 0.0)
                self.error[rows] = np.where(np.isfinite(law.slope), np.maximum(normal, 1e-9 * width), self.error[rows])
            else:
                law = outputs(str(key[0]), some, float(sd[rows[0]]), float(steps[rows[0]]))
                self.feature[rows] = np.maximum(sd[rows], np.diff(law.knots).min())
                self.slope[rows], reach[rows] = 0.0, width
            self.laws.append(law)
        self.told = self.centre  # rows that are clipped move it away from the truth
        self.low, self.high = self.told - reach, self.told + reach
        if self.sigma > 0 and not self.local.all():
            rows = ~self.local
            table = clipped_means(low, high, self.sigma)
            slack = UNCERTAIN * self.sigma
            self.centre = np.where(rows, unclipped(self.told, table), self.told)
            self.low = np.where(rows, unclipped(self.low, table) - slack, self.low)
            self.high = np.where(rows, unclipped(self.high, table) + slack, self.high)
            rise = np.where(rows, share_inside(self.centre - low, high - self.centre, self.sigma), 1.0)
            self.spread, self.error, self.slope = self.spread / rise, self.error / rise, self.slope * rise
        self.feature = np.minimum(self.feature, width / 4)

    def log_likelihood(self, rows: Ints, below: Floats, above: Floats) -> Floats:
        """Return the log density of the reports of some clients at truths, array (rows, places)."""
        found = np.empty((rows.size, below.size))
        for kind in np.unique(self.kind[rows]):
            mine = self.kind[rows] == kind
            some, law = rows[mine], self.laws[kind]
            if isinstance(law, Outputs):
                found[mine] = law.log_likelihood(self.place[some], self.low_end + below)
                continue
            n, back = np.unique(self.n[some], return_inverse=True)
            if self.sigma == 0:
                shift = variance = np.zeros((1, below.size))
            elif self.local[some[0]]:
                shift, variance = (x[back] for x in clipped_moments(below, above, self.sigma / np.sqrt(n[:, None])))
            else:
                shift, variance = clipped_moments(below, above, np.array(self.sigma))
                variance = variance / n[back][:, None]
            away = (self.told[some] - self.low_end)[:, None] - below - shift
            variance = variance + self.rounding[some][:, None]
            found[mine] = law.log_density(self.place[some], away, np.broadcast_to(variance, away.shape))
        return found


def outputs(mechanism: str, reports: Sequence[MeanReport], sd: float, step: float) -> Outputs:
    """Return the law of reports of one mechanism, eps, n and number of levels."""
    low, high = reports[0].bounds
    values = np.array([r.estimate for r in reports])
    if mechanism in WITHOUT_NOISE:
        law = finite_output(reports[0].bounds, reports[0].guarantee.eps, 2 if mechanism == "two-point" else None)
        return Outputs(law.knots, np.exp(law.log_likelihood(values[:, None], law.knots)), sd, law.release)
    knots = np.linspace(low, high, int(np.rint((high - low) / step)) + 1)
    noise = additive(mechanism, reports)

    def release(mean, generator):
        return low + step * quantised_integers((mean - low) / step, len(knots) - 1, generator) + noise.draw(generator)

    away = values[:, None] - knots
    if all(r.noise_variance == 0 for r in reports):
        return Outputs(knots, (np.abs(away) < step / 2).astype(float), sd, release)
    log = noise.log_density(np.arange(values.size), away, np.zeros_like(away))
    return Outputs(knots, np.exp(log - log.max(axis=1, keepdims=True)), sd, release)


def new_estimates(reports: Sequence[MeanReport], sigma2: float, truth: Floats, generator: np.random.Generator) -> Floats:
    """Return estimates of new reports like these by clients with these true means, within the bounds."""
    clients = MeanClients(reports, sigma2, np.ones(len(reports), int))
    (low, high), mean = reports[0].bounds, truth
    if sigma2 > 0:
        shift, variance = clipped_moments(truth - low, high - truth, np.array(clients.sigma))
        rows = truth + shift + np.sqrt(variance / clients.n) * generator.standard_normal(truth.size)
        own = np.clip(truth + clients.sigma / np.sqrt(clients.n) * generator.standard_normal(truth.size), low, high)
        mean = np.where(clients.local, own, rows)
    found = np.empty(truth.size)
    for kind, law in enumerate(clients.laws):
        some = np.flatnonzero(clients.kind == kind)
        if isinstance(law, Outputs):
            found[some] = law.draw(mean[some], generator)
        else:
            rounding = np.sqrt(clients.rounding[some]) * generator.standard_normal(some.size)
            found[some] = mean[some] + rounding + law.draw(generator)
    return found
