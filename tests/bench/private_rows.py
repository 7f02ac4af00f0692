"""Few rows: what staircase noise on their sum tells of it, beside the best mechanism of a linear program.

Run it to print the table of PRIVATE.md:  python tests/bench/private_rows.py

No additive noise is better than the staircase, but a sum of n rows lies between two ends, and a mechanism that knows them
can do better, as with one row, where it is the local one.  The program's inputs are sums between 0 and n in steps of a part
of a row, its outputs a grid; it is unbiased, and inputs at most a row apart have outputs' chances within a factor e^eps.
Fewer inputs make it better than what there is for every sum, a grid of outputs makes it worse by less than 1 %.

A report with staircase noise tells more than its own value, because the ends are public: beyond them, one sensitivity
farther, a value has e^-eps of the chance whatever the sum is, so that it says the same of it.  `read` folds it there, and
gives each value the unbiased number of the least worst variance.  That is done to a report, and costs no privacy; exact
posteriors use all of it by themselves.

Belongs here: that program and that reading, beside what clients add.  Does not belong here: one number between bounds
(``private_mechanisms``).
"""

from __future__ import annotations

import numpy as np
from private_mechanisms import staircase
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_matrix, hstack, kron, vstack

from estimators.private.staircase import Staircase

CASES = (
    (1, 0.1), (2, 0.1), (5, 0.1), (10, 0.1), (30, 0.1), (1, 1.0), (2, 1.0), (3, 1.0), (5, 1.0), (2, 2.0), (3, 2.0), (5, 2.0),
    (2, 4.0), (3, 4.0),
)  # fmt: skip
HEAD = "| n | eps | staircase | the same, read | best of a program | staircase / best | read / best |\n" + "|---" * 7 + "|"
OUTPUTS = 91
STEPS = 16  # of a row in reports that are read; clients have 4095, which takes the last step to the same variances
ROUNDS = 150


def program(n: int, eps: float, steps: int, outputs: int = OUTPUTS, reach: float = 2.5) -> float:
    """Return the worst variance of the best unbiased mechanism on a grid, per squared change of a row."""
    middle = n / 2
    x = np.arange(n * steps + 1) / steps - middle
    y = np.linspace(-1.0, 1.0, outputs) * (max(middle, 0.5) + reach * np.sqrt(staircase(eps)))
    far, pairs = y[-1], [(i, i + d) for d in range(1, steps + 1) for i in range(len(x) - d)]
    first, second = (
        coo_matrix((np.ones(len(pairs)), (np.arange(len(pairs)), ends)), shape=(len(pairs), len(x)))
        for ends in zip(*pairs, strict=True)
    )
    one = np.eye(outputs)
    bound = vstack([kron(a - np.exp(eps) * b, one) for a, b in ((first, second), (second, first))])
    squares = block_diag([((y - at) / far)[None] ** 2 for at in x])
    inequality = vstack([
        hstack([bound, coo_matrix((2 * len(pairs) * outputs, 1))]), hstack([squares, -np.ones((len(x), 1))])
    ]).tocsr()  # fmt: skip
    sums = vstack([block_diag([np.ones((1, outputs))] * len(x)), block_diag([((y - at) / far)[None] for at in x])])
    found = linprog(
        np.append(np.zeros(len(x) * outputs), 1.0), A_ub=inequality, b_ub=np.zeros(2 * len(pairs) * outputs + len(x)),
        A_eq=hstack([sums, coo_matrix((2 * len(x), 1))]).tocsr(), b_eq=np.repeat([1.0, 0.0], len(x)), method="highs",
    )  # fmt: skip
    if not found.success:
        raise ArithmeticError(found.message)
    return float(found.fun * far**2)


def folded(n: int, eps: float, steps: int) -> np.ndarray:
    """Return P(output | sum), a row for each sum: values beyond an end are folded into one sensitivity there."""
    x = np.arange(n * steps + 1)
    y = np.arange(-steps, (n + 1) * steps + 1)
    table = np.exp(Staircase(sensitivity=steps, eps=eps).log_likelihood(y, x[:, None]))
    outside = (y < 0) | (y > n * steps)
    table[:, outside] /= -np.expm1(-eps)  # and all that lies whole sensitivities farther out
    return table


def read(n: int, eps: float, steps: int = STEPS, rounds: int = ROUNDS) -> float:
    """Return the worst variance of the unbiased reading of a staircase report, sums between steps rounded at random.

    The worst variance is least where the squared error is averaged over the least favourable sums, which are sought by
    giving more weight to sums of more variance; given those weights the reading is a least squares solution.
    """
    table, x = folded(n, eps, steps), np.arange(n * steps + 1) - n * steps / 2
    weights, best = np.full(len(x), 1 / len(x)), np.inf
    for _ in range(rounds):
        scaled = table / (weights @ table)
        said = scaled.T @ np.linalg.lstsq(scaled @ table.T, x, rcond=1e-13)[0]
        if np.abs(table @ said - x).max() > 1e-6 * np.abs(said).max():
            raise ArithmeticError("the reading is not unbiased")
        squares = table @ said**2
        variance = squares - x**2
        best = min(best, worst_between(squares, x))
        weights = weights * np.exp(variance / variance.max() - 1)
        weights /= weights.sum()
    return best / steps**2


def worst_between(squares: np.ndarray, x: np.ndarray) -> float:
    """Return the worst variance over sums between the steps too: second moments are interpolated, means exact."""
    part = np.linspace(0.0, 1.0, 65)[:, None]
    second = (1 - part) * squares[:-1] + part * squares[1:]
    return float((second - ((1 - part) * x[:-1] + part * x[1:]) ** 2).max())


def line(n: int, eps: float) -> str:
    """Return one line of the table."""
    steps = 1 if eps < 0.5 else 4
    noise, found, best = staircase(eps), read(n, eps), min(program(n, eps, steps, reach=reach) for reach in (2.0, 2.5, 4.0))
    return f"| {n} | {eps:g} | {noise:.4g} | {found:.4g} | {best:.4g} | {noise / best:.2f} | {found / best:.2f} |"


if __name__ == "__main__":
    print(HEAD)
    for case in CASES:
        print(line(*case), flush=True)
