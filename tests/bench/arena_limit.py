"""Five estimates of very unequal variances: what each law of the spread between clients costs, in risk and in coverage.

By hand, half a minute of one processor::

    python tests/bench/arena_limit.py > tests/bench/arena_limit.csv

Shows why no law has both least risk in the arena's cells of few clients and intervals that hold where clients differ more.
Belongs here: these cells.  Laws for fewer and more clients are in ``defaults``, peers in ``arena``.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
from scipy.special import ndtr

sys.path.insert(0, str(Path(__file__).parent))

from arena import NORMAL, variances
from defaults import LAWS, held, normal_posteriors, share

HERE = {
    "Strawderman": LAWS["Strawderman"],
    "Strawderman, quarter scale": lambda t: (1 + t) ** -1.5,
    "uniform shrinkage": lambda t: (1 + t) ** -2.0,
    "half-Cauchy": LAWS["half-Cauchy"],
    "flat on tau": LAWS["flat on tau"],
}
RATIOS, CLIENTS, SIZE = (0.1, 1.0, 10.0, 30.0), 5, 3000


def cell(prior: str, ratio: float) -> dict[str, tuple[float, float]]:
    """Return {law: (squared error over that of own estimates, share of intervals that hold)}."""
    v, g = variances(CLIENTS, "unequal"), np.random.default_rng([CLIENTS, int(ratio * 10)])
    theta = np.sqrt(ratio) * NORMAL[prior](g, CLIENTS * SIZE).reshape(SIZE, CLIENTS)
    y = theta + np.sqrt(v) * g.standard_normal((SIZE, CLIENTS))
    t = np.exp(np.linspace(np.log(1e-9), np.log(1e7), 120))
    logs, means, variance = normal_posteriors(y, v, t)
    places, rows, found = ndtr((theta[:, :, None] - means) / np.sqrt(variance)), np.arange(SIZE), {}
    for name, density in HERE.items():
        p = share(logs, density(t) * t)
        error = np.einsum("rk,rik->ri", p, means) - theta
        found[name] = np.mean(error**2) / v.mean(), held(np.einsum("rk,rik->ri", p, places)).mean()
    precision = (1 / (v[:, None] + t)).sum(axis=0)
    for name, value in (("REML", logs), ("maximum likelihood", logs + 0.5 * np.log(precision))):
        best = value.argmax(axis=1)
        error = means[rows, :, best] - theta
        found[name] = np.mean(error**2) / v.mean(), held(places[rows, :, best]).mean()
    return found


if __name__ == "__main__":
    writer = csv.writer(sys.stdout)
    writer.writerow(["prior", "ratio", "law", "risk", "held"])
    for prior in ("normal", "t3"):
        for ratio in RATIOS:
            for law, (risk, share_held) in cell(prior, ratio).items():
                writer.writerow([prior, ratio, law, f"{risk:.3f}", f"{share_held:.3f}"])
