"""Worst noise variance of one private number beside the best that is known, local and row adjacency, over eps.

Run it to print the table of PRIVATE.md:  python tests/bench/private_mechanisms.py

Local: a number between bounds, per squared range.  Known are randomised response of a rounded bit (Duchi, Jordan and
Wainwright 2018), the piecewise and hybrid mechanisms (Wang et al. 2019), the staircase; and a bound below which no unbiased
mechanism is (`lower_bound`).  Row: a sum of whole numbers, per squared sensitivity; known is the continuous staircase, which
no additive noise beats (Geng and Viswanath 2016).

Belongs here: formulas from the papers and that bound.  Does not belong here: the mechanisms (``estimators.private``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from estimators.numerics.arrays import Floats
from estimators.private import MeanClient
from estimators.private.mechanisms import worst_variances
from estimators.private.window_designs import design

EPS = (0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
NO_MECHANISM = "no mechanism is below"


class Row(NamedTuple):
    """Laplace noise as before, what "best" chooses now and its variance, and the least that is known."""

    eps: float
    adjacency: str
    before: float
    mechanism: str
    variance: float
    known: float
    by: str


class Windows(NamedTuple):
    """Functions q(y) = c2 y^2 + c1 y + c0 that are negative on (low, high), what each proves, and its part in a variance."""

    c2: Floats
    c1: Floats
    c0: Floats
    low: Floats
    high: Floats
    worth: Floats
    part: Floats

    def some(self, chosen):
        """These of them."""
        return Windows(*(each[chosen] for each in self))

    def least(self, y, eps):
        """What of each is left at outputs y where the law is likeliest if negative: an array (y, windows)."""
        at, inside = y[:, None], np.exp(eps)
        values = (self.c2 * at + self.c1) * at + self.c0
        return np.where((at > self.low) & (at < self.high), inside * values, values)

    def minima(self, weight, eps):
        """Where the weighted sum of `least` is smallest between any two ends of windows, and its values there; exact."""
        ends = np.unique(np.concatenate([self.low, self.high]))
        ends = ends[np.isfinite(ends)]
        first = np.where(np.isfinite(self.low), np.searchsorted(ends, self.low) + 1, 0)
        last = np.where(np.isfinite(self.high), np.searchsorted(ends, self.high) + 1, ends.size + 1)
        sums = []
        for each in (self.c2, self.c1, self.c0):
            steps = np.zeros(ends.size + 2)
            np.add.at(steps, first, weight * each)
            np.add.at(steps, last, -weight * each)
            sums.append((weight * each).sum() + np.expm1(eps) * np.cumsum(steps)[:-1])
        y = np.clip(-sums[1] / (2 * sums[0]), np.append(-np.inf, ends), np.append(ends, np.inf))
        return y, (sums[0] * y + sums[1]) * y + sums[2]


def quadratics(low, high):
    """(y - low)(y - high), of the input nearest to the middle."""
    x = np.clip((low + high) / 2, -1, 1)
    ones = np.ones_like(low)
    return Windows(ones, -(low + high), low * high, low, high, (x - low) * (high - x), ones)


def lines_of(ends):
    """end - y of the input 1, and the mirrored ones: they prove means, and no variance."""
    ends = ends[ends < 1]
    none, ones, far = np.zeros_like(ends), np.ones_like(ends), np.full_like(ends, np.inf)
    right, left = (none, -ones, ends, ends, far, 1 - ends, none), (none, ones, ends, -far, -ends, 1 - ends, none)
    return joined(Windows(*right), Windows(*left))


def joined(*several):
    """All of them in one."""
    return Windows(*map(np.concatenate, zip(*several, strict=True)))


def lower_bound(eps: float, gap: float = 1e-3, rounds: int = 80) -> float:
    """Variance that the worst input in [-1, 1] has under every unbiased eps-private mechanism, whatever its outputs; proved.

    Let p be the law of reports at an input x, m the least probability of each output over all inputs, so that
    m <= p <= e^eps m.  With q(y) = (y - a)(y - b), E q under p is Var - (x - a)(b - x), and it is at least the sum over
    outputs of m q, times e^eps where q < 0.  For weights on such windows (a, b) that add up to one, the best x for each,
    the worst variance is therefore at least the weighted sum of (x - a)(b - x), if the sum of these products is negative
    at no y.  Weights of which it is, by at most d, are mixed with those of the empty windows at 1 and -1, (y - 1)^2 and
    (y + 1)^2, which prove 0 and whose mean is at least 1 everywhere: 1 part to d.  A linear program finds good weights,
    windows and outputs y being added to it where they are missing; `Windows.minima` is exact for all y.  The windows tried
    are those of our own design, and some more.
    """
    found = design(eps)
    z, width = found.values(), found.width
    size = z.size
    t = np.arange(-3, size + 2.1, 0.25)
    fine = np.interp(t, np.arange(size), z)
    fine += np.minimum(t, 0) * (z[1] - z[0]) + np.maximum(t - size + 1, 0) * (z[-1] - z[-2])
    coarse = np.unique(np.concatenate([z, (z[1:] + z[:-1]) / 2, np.linspace(-1.3, 1.3, 160 if size < 80 else 60) * z[-1]]))
    far = z[-1] * np.array([1.5, 2.0, 4.0, 8.0, 16.0])
    low, high = np.meshgrid(np.concatenate([-far, coarse]), np.concatenate([coarse, far]), indexing="ij")
    ends = [(low[low < high], high[low < high])] + [(fine[:-k], fine[k:]) for k in range(4 * width - 16, 4 * width + 17)]
    pool = joined(quadratics(*map(np.concatenate, zip(*ends, strict=True))), lines_of(coarse))
    pool = pool.some(pool.worth > 0)
    windows = joined(quadratics(np.zeros(1), np.zeros(1)), quadratics(z[:-width], z[width:]), lines_of(coarse))
    y = np.unique(np.concatenate([fine, (fine[1:] + fine[:-1]) / 2, np.linspace(-1.3, 1.3, 120) * z[-1]]))
    best = 0.0
    for _ in range(rounds):
        table = windows.least(y, eps)
        scale = 1 / np.abs(table).max(axis=1)
        program = linprog(
            -windows.worth, A_ub=-table * scale[:, None], b_ub=np.zeros(y.size), A_eq=windows.part[None], b_eq=[1.0],
            method="highs",
        )  # fmt: skip
        if not program.success:  # what was proved before stands
            break
        weight = np.maximum(program.x, 0.0)
        weight /= weight @ windows.part
        where, left = windows.minima(weight, eps)
        proved, most = weight @ windows.worth / (1 - min(left.min(), 0.0)), -program.fun
        best = max(best, proved)
        law = -program.ineqlin.marginals * scale  # the least probabilities of a mechanism for these windows
        some = law > 1e-12
        gains = np.concatenate([
            each.worth + law[some] @ each.least(y[some], eps) - most * each.part
            for each in map(pool.some, np.array_split(np.arange(pool.worth.size), 8))
        ])  # fmt: skip
        if most - best < gap * most and gains.max() < gap * most:
            break
        new = np.argsort(-gains)[:200]
        kept = (weight > 0) | (np.arange(weight.size) >= weight.size - 200)
        windows = joined(windows.some(kept), pool.some(new[gains[new] > 1e-6 * most]))
        if proved < (1 - gap / 3) * most:
            y = np.unique(np.concatenate([y, where[left < -1e-5 * most]]))
    return float(best)


def staircase(eps: float) -> float:
    """Variance of the continuous staircase of the least variance, per squared sensitivity."""
    b = np.exp(-eps)
    return float((2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2)


def known_local(eps: float, bound: bool = True) -> tuple[float, str]:
    """Return the least worst variance that is known per squared range, and of what; or the bound."""
    if bound:
        return lower_bound(eps) / 4, NO_MECHANISM
    z = np.exp(eps / 2)
    bit = ((z**2 + 1) / (z**2 - 1)) ** 2
    hybrid = (z + 3) / (3 * z * (z - 1)) + (z**2 + 1) ** 2 / (z * (z**2 - 1) ** 2) if eps > 0.609352 else bit
    found = {
        "randomised bit": bit / 4, "piecewise": z / (3 * (z - 1) ** 2), "hybrid": hybrid / 4, "staircase": staircase(eps)
    }  # fmt: skip
    by = min(found, key=lambda name: found[name])
    return found[by], by


def rows(bound: bool = True) -> list[Row]:
    """Return the table, with bounds, which take seconds to minutes, or with what papers have."""
    found = []
    for eps in EPS:
        for adjacency in ("client", "row"):
            client = MeanClient(bounds=(0.0, 1.0), eps=eps, adjacency=adjacency, mechanism="best", bits=20)
            variance = client.report([0.0], np.random.default_rng(0)).noise_variance  # one row: range and sensitivity 1
            before = worst_variances(eps=eps, options=["discrete-laplace"])["discrete-laplace"]
            known, by = known_local(eps, bound) if adjacency == "client" else (staircase(eps), "staircase")
            found.append(Row(eps, adjacency, before, client.mechanism, variance, known, by))
    return found


def line(row: Row) -> str:
    """Return one line of the table."""
    adjacency = "local" if row.adjacency == "client" else "row"
    return (
        f"| {adjacency} | {row.eps:g} | {row.before:.4g} | {row.variance:.4g} ({row.mechanism}) "
        f"| {row.known:.4g} ({row.by}) | {row.variance / row.known:.3f} |"
    )


HEAD = "| adjacency | eps | Laplace | now | best known | ratio |\n|---|---|---|---|---|---|"

if __name__ == "__main__":
    print(HEAD)
    for row in sorted(rows(), key=lambda row: row.adjacency):
        print(line(row))
