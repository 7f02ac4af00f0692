"""Many reports against each other: how many of them lie farther out than chance would have it, and what the rest can do.

A report between the agreed bounds can still be a lie.  One lie is at most one report far out, which chance forbids; many
lies are too many reports at some distance.  So at every level p the reports are counted that honest noise and honest
differences would put so far from the centre with a probability of at most p.  A binomial number of them is normal; where
there are more, they all go, the farthest first.  Centre and spread for this are the median and what the middle half of the
reports shows, which a minority of liars cannot move far, the spread at the upper end of its confidence interval, so that few
clients do not look like liars to each other.

What is left to liars: to stay below the binomial limits everywhere.  That moves a mean by some of its own standard errors,
and by as much as they move the median; the number is `Heard.influence`.  Honest clients alone lose no report with a
probability of 99 %, if their values are normal around a centre, as the fits take them to be.

Belongs here: that count, for means with noise added.  Does not belong here: one report against the agreement
(``agreement``); rates and one-bit reports, whose range bounds what one client can do.
"""

from __future__ import annotations

import warnings

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.limits import quiet
from estimators.numerics.validation import instance, nonnegative, probability, single
from estimators.private.agreement import Heard, Rejection
from estimators.private.reports import MeanReport

__all__ = ["doubt"]

ADDED = ("discrete-laplace", "discrete-gaussian", "gaussian", "none")
FALSE_ALARM = 0.01  # chance that any report of honest clients alone is rejected
CONFIDENCE = 0.99  # of the upper end of the spread
NEAREST = 0.1  # chance to lie farther out than where counting begins
STEPS = 60  # of bisections
PARTS = 17  # of Laplace noise in a variance, on a grid


def tail(distance: Floats, normal: Floats, scale: Floats) -> Floats:
    """Chance that a normal error and Laplace noise together exceed a distance, on either side; exact.

    Parameters
    ----------
    distance, normal, scale : arrays of one shape, numbers >= 0: distances, standard deviations of the normal error, scales
        of the Laplace noise (0 for none).

    >>> tail(np.array([1.96, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])).round(4).tolist()
    [0.05, 0.1353]
    """
    from scipy.special import log_ndtr, ndtr

    t, s, b = np.broadcast_arrays(*(np.asarray(x, float) for x in (distance, normal, scale)))
    with quiet():
        plain = np.where(s > 0, 2 * ndtr(-t / np.where(s > 0, s, 1.0)), (t <= 0) * 1.0)
        r, z = s / np.where(b > 0, b, 1.0), t / np.where(s > 0, s, 1.0)
        near = np.exp(r**2 / 2 - r * z + log_ndtr(z - r))
        far = np.exp(r**2 / 2 + r * z + log_ndtr(-z - r))
        both = 2 * ndtr(-z) + near - far
        laplace = np.exp(-t / np.where(b > 0, b, 1.0))
    return np.clip(np.where(b == 0, plain, np.where(s > 1e-6 * b, both, laplace)), 0.0, 1.0)


def doubt(heard: Heard, *, hostile: float, sigma2: float | None = None) -> Heard:
    """Reject the reports that are too far from the others for so many, and say what the rest can still do.

    Parameters
    ----------
    heard : `Heard` with MeanReports with added noise, of at least 10 clients, from ``Agreement.screen``.
    hostile : number in [0, 0.5), the share of clients that may lie.
    sigma2 : variance >= 0 of one row, if it is known; otherwise what rows add counts among the differences between
        clients, which is right for equal numbers of rows.

    Returns
    -------
    Heard, whose `influence` is the largest distance to which a share `hostile` of the clients can move the
    precision-weighted mean from the centre, none of their reports being rejected, in the units of the reports.

    Raises
    ------
    ValueError
        Naming the argument; and for one-bit and other reports without added noise, which no distance tells apart.

    Warns
    -----
    UserWarning
        If more reports are rejected than the stated share.

    >>> from estimators.private import Agreement, MeanClient
    >>> rng = np.random.default_rng(0)
    >>> agreed = Agreement(MeanClient, {"bounds": (0.0, 100.0), "eps": 1.0})
    >>> clients = [MeanClient(**agreed.settings, name=f"c{i}") for i in range(200)]
    >>> reports = [each.report(rng.normal(rng.normal(5.0, 1.0), 1.0, 50), rng) for each in clients[:190]]
    >>> reports += [each.report([100.0] * 50, rng) for each in clients[190:]]  # ten lie as much as they can
    >>> heard = doubt(agreed.screen(reports), hostile=0.1)
    >>> len(heard.rejected), round(heard.influence, 2)
    (10, 1.17)
    """
    instance("heard", heard, Heard)
    share = single(probability, "hostile", hostile)
    if share >= 0.5:
        raise ValueError(f"hostile must be below 0.5, got {share:g}: a majority of liars is the truth for any server")
    known = 0.0 if sigma2 is None else single(nonnegative, "sigma2", sigma2)
    reports = heard.reports
    m = len(reports)
    if m < 10 or not all(isinstance(each, MeanReport) for each in reports):
        raise ValueError(f"heard must hold MeanReports of at least 10 clients, got {m} reports")
    other = {each.guarantee.mechanism for each in reports} - set(ADDED)
    if other:
        raise ValueError(f"heard must hold reports with noise added, {', '.join(ADDED)}, got {', '.join(sorted(other))}")
    x, own, scale = read(reports, known)
    centre = float(np.median(x))
    away = np.abs(x - centre)
    spread2 = spread_of(away, own, scale)
    chance = tail(away, np.sqrt(own + spread2), scale)
    levels, most = limits(m)
    together = np.zeros(m, int)  # with how many each one is rejected
    for p, limit in zip(
        levels[::-1].tolist(), most[::-1].tolist(), strict=True
    ):  # the farthest first, which explain the most
        beyond = (chance <= p) & (together == 0)
        if beyond.sum() > limit:
            together[beyond] = beyond.sum()
    rejected = [
        Rejection(
            heard.places[i],
            reports[i].client,
            f"estimate lies {away[i]:.4g} from the centre {centre:.4g} of all, where an honest client is with a probability "
            f"of {chance[i]:.2g}; so far out there are {together[i]} of {m}",
        )
        for i in np.flatnonzero(together)
    ]
    if len(rejected) > share * m:
        warnings.warn(
            f"{len(rejected)} of {m} reports are rejected, more than the share {share:g} that may lie: either more clients "
            "lie, or honest ones differ otherwise than normally",
            stacklevel=2,
        )
    kept = np.flatnonzero(together == 0)
    influence = pull(int(share * m), own + spread2, scale, levels, most)
    return Heard(
        [reports[i] for i in kept], [heard.places[i] for i in kept], sorted([*heard.rejected, *rejected]), influence
    )


def read(reports: list[MeanReport], sigma2: float) -> tuple[Floats, Floats, Floats]:
    """Return estimates, variances of what is normal in their errors, and scales of Laplace noise."""
    noise = np.array([each.noise_variance for each in reports])
    laplace = np.array([each.guarantee.mechanism == "discrete-laplace" for each in reports])
    own = np.array([each.rounding_variance + sigma2 / each.n for each in reports])
    return np.array([each.estimate for each in reports]), own + np.where(laplace, 0.0, noise), np.sqrt(laplace * noise / 2)


def spread_of(away: Floats, own: Floats, scale: Floats) -> float:
    """Return the variance between clients at which the middle half of the reports is as wide as it is, or surely wider."""
    from scipy.special import ndtri

    inner = 0.5 - ndtri(CONFIDENCE) / (2 * np.sqrt(away.size))  # of chances to lie farther out, which are uniform

    def level(sd):
        return float(np.quantile(tail(away, np.sqrt(own + sd**2), scale), max(inner, 0.02)))

    low, high = 0.0, float(np.max(away))
    if level(0.0) >= 0.5 or high == 0:
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if level(middle) >= 0.5 else (middle, high)
    return high**2


def limits(m: int) -> tuple[Floats, Floats]:
    """Return levels of chance, and how many of m honest reports may lie beyond each but for the false alarm."""
    from scipy.stats import binom

    number = int(np.ceil(np.log2(NEAREST * m / FALSE_ALARM))) + 8
    levels: Floats = NEAREST * 0.5 ** np.arange(number, dtype=float)
    most: Floats = np.array(binom.isf(FALSE_ALARM / number, m, levels), dtype=float)
    return levels, most


def pull(liars: int, normal2: Floats, scale: Floats, levels: Floats, most: Floats) -> float:
    """Return how far so many reports can move the weighted mean from the centre if they stay below every limit.

    A report at distance q sd pulls with q / sd; q depends on the part of Laplace noise in its variance alone, and smoothly.
    One that is the j-th farthest out stays nearer than the first level whose limit is below j.
    """
    variance = normal2 + 2 * scale**2
    parts = 2 * scale**2 / variance
    parts = np.linspace(parts.min(), parts.max(), PARTS)[:, None]
    low, high = np.zeros((PARTS, levels.size)), np.full((PARTS, levels.size), 60.0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        beyond = tail(middle, np.sqrt(1 - parts), np.sqrt(parts / 2)) > levels
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    strongest = high.max(axis=0) / np.sqrt(variance.min())
    places = np.sum(most[None, :] >= np.arange(1, liars + 1)[:, None], axis=1)
    return float(strongest[places].sum() / np.sum(1 / variance))
