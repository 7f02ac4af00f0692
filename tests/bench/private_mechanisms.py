"""Worst noise variance of one private number beside the best that is known, local and row adjacency, over eps.

Run it to print the table of PRIVATE.md:  python tests/bench/private_mechanisms.py

Local: a number between bounds, per squared range.  Known are randomised response of a rounded bit (Duchi, Jordan and
Wainwright 2018), the piecewise and hybrid mechanisms (Wang et al. 2019), the staircase, and a linear program over mechanisms
for a few inputs, which none with outputs on its grid beats.  Row: a sum of whole numbers, per squared sensitivity; known is
the continuous staircase, which no additive noise beats (Geng and Viswanath 2016).

Belongs here: formulas from the papers and that program.  Does not belong here: the mechanisms (``estimators.private``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from estimators.private import MeanClient
from estimators.private.mechanisms import worst_variances

EPS = (0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0)
PROGRAMS = {0.1: (9, 81, 24.0), 0.5: (9, 81, 6.0), 1.0: (9, 81, 3.2), 2.0: (9, 81, 2.0), 4.0: (17, 161, 1.4)}
"""Inputs, outputs and reach of the linear programs that are solved in seconds; beyond, grids would have to be finer."""


class Row(NamedTuple):
    """Laplace noise as before, what "best" chooses now and its variance, and the least that is known."""

    eps: float
    adjacency: str
    before: float
    mechanism: str
    variance: float
    known: float
    by: str


def linear_program(eps: float, inputs: int, outputs: int, reach: float) -> float:
    """Least worst variance of any mechanism with outputs on a grid, for inputs on a grid in [-1, 1]."""
    x, y = np.linspace(-1, 1, inputs), np.linspace(-reach, reach, outputs)
    each, ones, eye = sp.identity(inputs), np.ones((inputs, 1)), sp.identity(outputs)
    below = sp.hstack([sp.kron(each, -eye), sp.kron(ones, eye), sp.csr_matrix((inputs * outputs, 1))])
    above = sp.hstack([sp.kron(each, eye), -np.exp(eps) * sp.kron(ones, eye), sp.csr_matrix((inputs * outputs, 1))])
    squares = sp.hstack([sp.kron(each, y[None] ** 2), sp.csr_matrix((inputs, outputs)), -ones])
    nothing = sp.csr_matrix((inputs, outputs + 1))
    equal = sp.vstack([sp.hstack([sp.kron(each, row), nothing]) for row in (np.ones((1, outputs)), y[None])])
    cost = np.zeros(inputs * outputs + outputs + 1)
    cost[-1] = 1
    found = linprog(
        cost,
        A_ub=sp.vstack([below, above, squares]).tocsr(),
        b_ub=np.concatenate([np.zeros(2 * inputs * outputs), x**2]),
        A_eq=equal.tocsr(),
        b_eq=np.concatenate([np.ones(inputs), x]),
        method="highs",
    )
    assert found.success
    return found.fun


def staircase(eps: float) -> float:
    """Variance of the continuous staircase of the least variance, per squared sensitivity."""
    b = np.exp(-eps)
    return float((2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2)


def known_local(eps: float, program: bool = True) -> tuple[float, str]:
    """Return the least worst variance that is known per squared range, and of what."""
    z = np.exp(eps / 2)
    bit = ((z**2 + 1) / (z**2 - 1)) ** 2
    hybrid = (z + 3) / (3 * z * (z - 1)) + (z**2 + 1) ** 2 / (z * (z**2 - 1) ** 2) if eps > 0.609352 else bit
    found = {
        "randomised bit": bit / 4, "piecewise": z / (3 * (z - 1) ** 2), "hybrid": hybrid / 4, "staircase": staircase(eps)
    }  # fmt: skip
    if program and eps in PROGRAMS:
        found["linear program"] = linear_program(eps, *PROGRAMS[eps]) / 4
    by = min(found, key=lambda name: found[name])
    return found[by], by


def rows(program: bool = True) -> list[Row]:
    """Return the table."""
    found = []
    for eps in EPS:
        for adjacency in ("client", "row"):
            client = MeanClient(bounds=(0.0, 1.0), eps=eps, adjacency=adjacency, mechanism="best", bits=20)
            variance = client.report([0.0], np.random.default_rng(0)).noise_variance  # one row: range and sensitivity 1
            before = worst_variances(eps=eps, options=["discrete-laplace"])["discrete-laplace"]
            known, by = known_local(eps, program) if adjacency == "client" else (staircase(eps), "staircase")
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
