"""How often 95 % intervals hold the truth, and how long they are: models and methods over priors, clients and variances.

``python tests/bench/coverage_grid.py [TRUTHS] [SEED]`` prints a table with the worst cells first.  Each cell draws about
TRUTHS true values (default 2000) in replicates of m clients, fits every model with its defaults, and counts.  Lengths are
relative to intervals of own estimates alone.  The variance between clients equals the harmonic mean of the variances.
Belongs here: the experiment that chose defaults.  Whether intervals hold for a fitted model is measured by ``coverage``.
"""

import sys
import warnings

import numpy as np

from estimators import GaussianMeans, MixtureMeans, NonparametricMeans, PointNormalMeans

PRIORS = {
    "normal": lambda g, m: g.standard_normal(m),
    "t3": lambda g, m: g.standard_t(3, m) / np.sqrt(3),
    "skewed": lambda g, m: g.exponential(1, m) - 1,
    "two-point": lambda g, m: g.choice([-1.0, 1.0], m),
    "spike 50 %": lambda g, m: g.standard_normal(m) * np.sqrt(2) * (g.random(m) < 0.5),
    "spike 90 %": lambda g, m: g.standard_normal(m) * np.sqrt(10) * (g.random(m) < 0.1),
}
SIZES = (5, 10, 20, 100, 1000)
METHODS = {
    "normal": (GaussianMeans, None),
    "point-normal": (PointNormalMeans, None),
    "mixture": (MixtureMeans, None),
    "npmle": (NonparametricMeans, None),
    "robust": (GaussianMeans, "robust"),
    "every-client": (GaussianMeans, "every-client"),
}
OWN = {
    "normal": {"normal"},
    "point-normal": {"normal", "spike 50 %", "spike 90 %"},
    "mixture": {"normal", "two-point", "spike 50 %", "spike 90 %"},
    "npmle": set(PRIORS),
    "robust": set(PRIORS),
    "every-client": set(PRIORS),
}
MOST = {"mixture": 100, "npmle": 12}  # replicates, of models that take long


def variances(m, unequal):
    """Return variances of harmonic mean 1, a hundredfold apart if unequal."""
    v = np.geomspace(0.1, 10, m) if unequal else np.ones(m)
    return v * np.mean(1 / v)


def cell(prior, m, unequal, truths, seed, names):
    """Return {method: (share held, standard error, length)} of one cell."""
    v, found = variances(m, unequal), {name: [] for name in names}
    for replicate in range(max(4, truths // m)):
        generator = np.random.default_rng([seed, list(PRIORS).index(prior), m, unequal, replicate])
        truth = PRIORS[prior](generator, m)
        y = truth + np.sqrt(v) * generator.standard_normal(m)
        for name in names:
            if replicate >= MOST.get(name, truths):
                continue
            kind, method = METHODS[name]
            low, high = kind().fit(y, v).interval(0.95, method)
            found[name].append((np.mean((low <= truth) & (truth <= high)), np.mean(high - low)))
    own = 2 * 1.959964 * np.mean(np.sqrt(v))
    table = {}
    for name, rows in found.items():
        held, length = np.array(rows).T
        table[name] = held.mean(), held.std(ddof=1) / np.sqrt(len(held)), length.mean() / own
    return table


def main(truths=2000, seed=1, names=tuple(METHODS), sizes=SIZES):
    """Print every cell as it comes, then each method's cells, worst first."""
    warnings.simplefilter("ignore")
    table = []
    for m in sizes:
        for prior in PRIORS:
            for unequal in (0, 1):
                for name, numbers in cell(prior, m, unequal, truths, seed, names).items():
                    table.append((name, prior, m, unequal, *numbers))
                    print(*row(table[-1]), flush=True)
    for name in names:
        for inside in (True, False):
            rows = sorted(
                (entry for entry in table if entry[0] == name and (entry[1] in OWN[name]) == inside), key=lambda e: e[4]
            )
            if rows:
                print(f"\n{name}, {'inside' if inside else 'outside'} its family, worst first")
                print("\n".join(" ".join(row(entry)) for entry in rows))


def row(entry):
    """Return the texts of one cell."""
    name, prior, m, unequal, held, error, length = entry
    kind = "unequal" if unequal else "equal"
    return (
        f"{name:12}",
        f"{prior:10}",
        f"{m:4d}",
        f"{kind:7}",
        f"{100 * held:5.1f} % +- {100 * error:.1f}",
        f"length {length:.2f}",
    )


if __name__ == "__main__":
    arguments = dict(zip(("truths", "seed"), map(int, sys.argv[1:3]), strict=False))
    names = {"names": tuple(sys.argv[3].split(","))} if len(sys.argv) > 3 else {}
    sizes = {"sizes": tuple(map(int, sys.argv[4].split(",")))} if len(sys.argv) > 4 else {}
    main(**arguments, **names, **sizes)
