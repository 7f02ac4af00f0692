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

Reports that are one of a few outputs ("finite-output", "two-point") are none of them far out: any honest client may send any
one.  There no report is rejected; the outputs themselves bound what liars can do, and a warning says if more clients send
the outermost ones than could if all truths were at a bound.

Belongs here: that count, for means.  Does not belong here: one report against the agreement (``agreement``); rates, whose
range bounds what one client can do.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from estimators.numerics.arrays import Floats, Ints
from estimators.numerics.validation import instance, nonnegative, probability, single
from estimators.private.agreement import Heard, Rejection
from estimators.private.finite_output import FiniteOutput
from estimators.private.noise_laws import StaircaseNoise, additive, laplace_beyond
from estimators.private.reports import MeanReport
from estimators.private.server import report_variance

__all__ = ["doubt"]

ADDED = ("discrete-laplace", "staircase", "discrete-gaussian", "gaussian", "none")
OUTPUTS = ("finite-output", "two-point")
FALSE_ALARM = 0.01  # chance that any report of honest clients alone is rejected
CONFIDENCE = 0.99  # of the upper end of the spread
NEAREST = 0.1  # chance to lie farther out than where counting begins
STEPS = 60  # of bisections
PARTS = 17  # of Laplace noise in a variance, on a grid


def doubt(heard: Heard, *, hostile: float, sigma2: float | None = None) -> Heard:
    """Reject the reports that are too far from the others for so many, and say what the rest can still do.

    Parameters
    ----------
    heard : `Heard` with MeanReports of at least 10 clients, from ``Agreement.screen``: all with added noise, or all with one
        of a few outputs.
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
        Naming the argument; and for reports of unknown mechanisms.

    Warns
    -----
    UserWarning
        If more reports are rejected than the stated share; or if so many send the outermost outputs that some must lie.

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
    mechanisms = {each.guarantee.mechanism for each in reports}
    if mechanisms <= set(OUTPUTS):
        return heard._replace(influence=outputs_pull(reports, share, known))
    if other := mechanisms - set(ADDED):
        raise ValueError(
            f"heard must hold reports with noise added, {', '.join(ADDED)}, or only {' and '.join(OUTPUTS)}, got "
            f"{', '.join(sorted(other))}"
        )
    x, own, noise = read(reports, known)
    centre = float(np.median(x))
    away = np.abs(x - centre)
    spread2 = spread_of(away, own, noise)
    chance = noise.beyond(away, np.sqrt(own + spread2))
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
    influence = pull(int(share * m), own + spread2, noise, levels, most)
    return Heard(
        [reports[i] for i in kept], [heard.places[i] for i in kept], sorted([*heard.rejected, *rejected]), influence
    )


@dataclass(frozen=True)
class Noise:
    """What is added to reports beside normal errors: Laplace noise of some scales (0 for none), and staircases.

    scale : array (m,); stairs : array (k,) of the reports with a staircase; law : of those, None if there are none.
    """

    scale: Floats
    stairs: Ints
    law: StaircaseNoise | None

    def beyond(self, distance: Floats, normal: Floats) -> Floats:
        """Chance that each report is farther from its truth than a distance, given the deviations of normal errors."""
        found = laplace_beyond(distance, normal, self.scale)
        if self.law is not None:
            mine = distance[self.stairs][:, None], normal[self.stairs][:, None] ** 2
            found[self.stairs] = 2 * self.law.beyond(np.arange(self.stairs.size), *mine)[:, 0]
        return np.clip(found, 0.0, 1.0)

    def variance(self) -> Floats:
        """Variance of each report's noise."""
        found = 2 * self.scale**2
        if self.law is not None:
            found[self.stairs] = self.law.variance
        return found


def read(reports: list[MeanReport], sigma2: float) -> tuple[Floats, Floats, Noise]:
    """Return estimates, variances of what is normal in their errors, and the other noise."""
    added = np.array([each.noise_variance for each in reports])
    kinds = np.array([each.guarantee.mechanism for each in reports])
    own = np.array([each.rounding_variance + sigma2 / each.n for each in reports])
    laplace, stairs = (kinds == "discrete-laplace") & (added > 0), np.flatnonzero((kinds == "staircase") & (added > 0))
    law = additive("staircase", [reports[i] for i in stairs]) if stairs.size else None
    assert law is None or isinstance(law, StaircaseNoise)
    noise = Noise(np.sqrt(laplace * added / 2), stairs, law)
    normal = np.where(laplace, 0.0, added)
    normal[stairs] = 0.0
    return np.array([each.estimate for each in reports]), own + normal, noise


def outputs_pull(reports: list[MeanReport], share: float, sigma2: float) -> float:
    """Return how far a share of clients moves the weighted mean if all send the output farthest from the other bound.

    Warns where so many send one of the outermost outputs as honest clients would not with all truths at that bound.
    """
    from scipy.stats import binom

    groups: dict[tuple[str, tuple[float, float], float], list[int]] = {}
    for i, each in enumerate(reports):
        groups.setdefault((each.guarantee.mechanism, each.bounds, each.guarantee.eps), []).append(i)
    weights, far = np.array([1 / report_variance(each, sigma2) for each in reports]), np.empty(len(reports))
    for (mechanism, bounds, eps), places in groups.items():
        law = FiniteOutput(bounds=bounds, eps=eps, outputs=2 if mechanism == "two-point" else None)
        far[places] = law.values[-1] - bounds[0]
        said = np.bincount(law.position([reports[i].estimate for i in places]), minlength=law.values.size)
        highest = np.exp(law.log_likelihood(law.values, bounds[1]))  # which is that of the lowest at the other bound
        chance = np.minimum(np.cumsum(highest[::-1]), 1.0)
        limit = binom.isf(FALSE_ALARM / (2 * law.values.size * len(groups)), len(places), chance)
        for end, counted in (("largest", said[::-1]), ("smallest", said)):
            if (over := np.flatnonzero(np.cumsum(counted) > limit)).size:
                k = int(over[0])
                warnings.warn(
                    f"{np.cumsum(counted)[k]} of {len(places)} reports are among the {k + 1} {end} outputs, where honest "
                    f"clients are at most {int(limit[k])} whatever their truths are: some lie, and nothing tells which",
                    stacklevel=3,
                )
    strongest = np.sort(weights * far)[::-1]
    return float(strongest[: int(share * len(reports))].sum() / weights.sum())


def spread_of(away: Floats, own: Floats, noise: Noise) -> float:
    """Return the variance between clients at which the middle half of the reports is as wide as it is, or surely wider."""
    from scipy.special import ndtri

    inner = 0.5 - ndtri(CONFIDENCE) / (2 * np.sqrt(away.size))  # of chances to lie farther out, which are uniform

    def level(sd):
        return float(np.quantile(noise.beyond(away, np.sqrt(own + sd**2)), max(inner, 0.02)))

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


def pull(liars: int, normal2: Floats, noise: Noise, levels: Floats, most: Floats) -> float:
    """Return how far so many reports can move the weighted mean from the centre if they stay below every limit.

    A report at distance q sd pulls with q / sd; q depends on the part of the noise in its variance alone, and smoothly, for
    each shape of noise.  One that is the j-th farthest out stays nearer than the first level whose limit is below j.
    """
    added = noise.variance()
    variance = normal2 + added
    parts = added / variance
    laplace = np.ones(parts.size, bool)
    laplace[noise.stairs] = False
    kinds: list[tuple[Floats, int | None]] = [(parts[laplace], None)] if laplace.any() else []
    if (law := noise.law) is not None:
        shapes, whose = np.unique(np.column_stack([law.used, law.inner, law.step]), axis=0, return_inverse=True)
        for i in range(len(shapes)):
            one = np.flatnonzero(whose.ravel() == i)
            kinds.append((parts[noise.stairs[one]], int(one[0])))
    strongest = np.zeros(levels.size)
    for own, example in kinds:
        grid = np.linspace(own.min(), own.max(), PARTS)
        part, normal = grid[:, None] + 0 * levels, np.sqrt(1 - grid)[:, None] + 0 * levels
        unit = Noise(np.sqrt(part / 2).ravel(), np.empty(0, int), None)
        if example is not None and law is not None:
            width = law.width[example] * np.sqrt(part.ravel() / law.variance[example])
            unit = Noise(np.zeros(part.size), np.arange(part.size), law.resized(example, width))
        low, high = np.zeros(part.shape), np.full(part.shape, 60.0)
        for _ in range(STEPS):
            middle = (low + high) / 2
            beyond = unit.beyond(middle.ravel(), normal.ravel()).reshape(part.shape) > levels
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        strongest = np.maximum(strongest, high.max(axis=0))
    strongest = strongest / np.sqrt(variance.min())
    places = np.sum(most[None, :] >= np.arange(1, liars + 1)[:, None], axis=1)
    return float(strongest[places].sum() / np.sum(1 / variance))
