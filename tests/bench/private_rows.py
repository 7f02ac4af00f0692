"""How far additive noise is from the best there is for few rows: a linear program over mechanisms for a sum of n rows.

Run it to print the table of PRIVATE.md:  python tests/bench/private_rows.py

No additive noise is better than the staircase, but a sum of n rows lies between two ends, and a mechanism that knows them
can do better, as with one row, where it is the local one.  The program's inputs are the sums 0, 1, .., n of rows between 0
and 1, its outputs a grid; it is unbiased, and neighbouring inputs have outputs' chances within a factor e^eps.  Between
whole sums the client rounds its sum at random, which is as private (both chances are averages of neighbours with such
factors) and adds at most 1/4.

Belongs here: that program, beside what clients add.  Does not belong here: one number between bounds
(``private_mechanisms``).
"""

from __future__ import annotations

import numpy as np
from private_mechanisms import staircase
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix, hstack, kron, vstack

CASES = ((1, 0.1), (2, 0.1), (5, 0.1), (10, 0.1), (30, 0.1), (3, 1.0), (10, 1.0))
HEAD = "| n | eps | staircase | best of a program, with rounding | ratio |\n|---|---|---|---|---|"
OUTPUTS = 81
ROUNDING = 0.25


def program(n: int, eps: float, outputs: int = OUTPUTS, reach: float = 4.0) -> float:
    """Return the worst variance of the best unbiased mechanism on a grid, per squared change of a row; without rounding."""
    far = max(n / 2, 1.0) + reach * np.sqrt(staircase(eps)) if n > 1 else reach * np.sqrt(staircase(eps))
    y = np.linspace(n / 2 - far, n / 2 + far, outputs)
    inputs, one = np.arange(n + 1), np.eye(outputs)
    steps = np.arange(n)
    near = (
        coo_matrix((np.ones(n), (steps, steps)), shape=(n, n + 1)),
        coo_matrix((np.ones(n), (steps, steps + 1)), shape=(n, n + 1)),
    )
    bound = vstack([kron(a - np.exp(eps) * b, one) for a, b in (near, near[::-1])])
    squares = block_diag([((y - x) / far)[None] ** 2 for x in inputs])
    inequality = vstack([
        hstack([bound, coo_matrix((2 * n * outputs, 1))]), hstack([squares, -np.ones((n + 1, 1))])
    ]).tocsr()  # fmt: skip
    sums = vstack([block_diag([np.ones((1, outputs))] * (n + 1)), block_diag([((y - x) / far)[None] for x in inputs])])
    found = linprog(
        np.append(np.zeros((n + 1) * outputs), 1.0), A_ub=inequality, b_ub=np.zeros(2 * n * outputs + n + 1),
        A_eq=hstack([sums, coo_matrix((2 * (n + 1), 1))]).tocsr(), b_eq=np.repeat([1.0, 0.0], n + 1), method="highs",
    )  # fmt: skip
    if not found.success:
        raise ArithmeticError(found.message)
    return float(found.fun * far**2)


def line(n: int, eps: float) -> str:
    """Return one line of the table."""
    noise, best = staircase(eps), ROUNDING + min(program(n, eps, reach=reach) for reach in (2.5, 4.0))
    return f"| {n} | {eps:g} | {noise:.4g} | {best:.4g} | {noise / best:.2f} |"


if __name__ == "__main__":
    print(HEAD)
    for case in CASES:
        print(line(*case), flush=True)
