"""Few rows: what staircase noise on their sum tells of it, beside the best mechanism of a linear program.

Run it to print the table of PRIVATE.md:  python tests/bench/private_rows.py

No additive noise is better than the staircase, but a sum of n rows lies between two ends, and a mechanism that knows them
can do better, as with one row, where it is the local one.  The program's inputs are sums between 0 and n in steps of a part
of a row, its outputs a grid; it is unbiased, and inputs at most a row apart have outputs' chances within a factor e^eps.
Fewer inputs make it better than what there is for every sum (at eps 4 by 5 % in quarters of a row, by less than .5 % in
twelfths), a grid of outputs makes it worse by less than 1 %.

A report with staircase noise tells more than its own value, because the ends are public: beyond them, one sensitivity
farther, a value has e^-eps of the chance whatever the sum is, so that it says the same of it.  `read` folds it there, and
gives each value the unbiased number of the least worst variance.  That is done to a report, and costs no privacy; exact
posteriors use all of it by themselves.  What they lose by staircase noise is the last two columns: the risk of posterior
means of sums that may be anywhere, and of sums near the middle, over that with the program's mechanism.

Belongs here: that program and that reading, beside what clients add.  Does not belong here: one number between bounds
(``private_mechanisms``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from private_mechanisms import staircase
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, vstack

from estimators.private.staircase import Staircase

CASES = (
    (1, 0.1), (2, 0.1), (5, 0.1), (10, 0.1), (30, 0.1), (1, 1.0), (2, 1.0), (3, 1.0), (5, 1.0), (2, 2.0), (3, 2.0), (5, 2.0),
    (2, 4.0), (3, 4.0),
)  # fmt: skip
HEAD = (
    "| n | eps | staircase | the same, read | best of a program | staircase / best | read / best | posteriors / best: "
    "anywhere | near the middle |\n" + "|---" * 9 + "|"
)
OUTPUTS = 121
NEAR = 0.3  # standard deviation of sums near the middle, in changes of a row
STEPS = 16  # of a row in reports that are read; clients have 4095, which takes the last step to the same variances
ROUNDS = 150


class Table(NamedTuple):
    """A mechanism: P(output | sum), a row for each sum, sums and outputs from their middle, and its worst variance."""

    chances: np.ndarray
    sums: np.ndarray
    outputs: np.ndarray
    variance: float


def program(n: int, eps: float, steps: int, reach: float) -> Table:
    """Return the best unbiased mechanism on a grid, per squared change of a row, outputs up to `reach` beyond the ends.

    It may be taken to look the same from both ends, so that half of the sums are its unknowns.
    """
    last, half, J = n * steps, n * steps // 2 + 1, np.arange(OUTPUTS)
    x = np.arange(last + 1) / steps - n / 2
    y = np.linspace(-1.0, 1.0, OUTPUTS) * (n / 2 + reach)
    places = np.array([np.minimum(J, J[::-1]) + i * OUTPUTS if 2 * i == last else J + i * OUTPUTS for i in range(half)])
    places = np.vstack([places, places[: last + 1 - half][::-1, ::-1]])  # of the unknown behind each chance
    pairs = np.array([(i, i + d) for d in range(1, steps + 1) for i in range(last + 1 - d) if 2 * i + d <= last])
    first, second = (places[np.concatenate(ends)] for ends in ((pairs[:, 0], pairs[:, 1]), (pairs[:, 1], pairs[:, 0])))
    unknowns = half * OUTPUTS + 1  # and the worst variance
    rows = np.arange(first.size)
    private = csr_matrix((np.ones(rows.size), (rows, first.ravel())), (rows.size, unknowns)) - csr_matrix(
        (np.full(rows.size, np.exp(eps)), (rows, second.ravel())), (rows.size, unknowns)
    )
    mine = np.repeat(np.arange(half), OUTPUTS), places[:half].ravel()
    away = (y - x[:half, None]).ravel()
    total, mean, squares = (csr_matrix((v, mine), (half, unknowns)) for v in (np.ones(away.size), away, away**2))
    worst = csr_matrix((np.ones(half), (np.arange(half), np.full(half, unknowns - 1))), (half, unknowns))
    found = linprog(
        np.append(np.zeros(unknowns - 1), 1.0), A_ub=vstack([private, squares - worst]), b_ub=np.zeros(rows.size + half),
        A_eq=vstack([total, mean]), b_eq=np.repeat([1.0, 0.0], half), method="highs-ipm",
    )  # fmt: skip
    if not found.success:
        raise ArithmeticError(found.message)
    return Table(np.maximum(found.x, 0.0)[places], x, y, float(found.fun))


def risk(chances: np.ndarray, x: np.ndarray, near: float) -> float:
    """Return the risk of posterior means of sums that are normal about the middle, `near` their standard deviation."""
    prior = np.exp(-((x / near) ** 2) / 2)
    prior /= prior.sum()
    return float(prior @ x**2 - np.sum(((prior * x) @ chances) ** 2 / np.maximum(prior @ chances, 1e-300)))


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
    steps = 1 if n > 5 else 4 if eps < 2 else 12
    noise, found = staircase(eps), read(n, eps)
    best = min((program(n, eps, steps, reach * np.sqrt(noise)) for reach in (1.2, 2.0, 2.5, 4.0)), key=lambda t: t.variance)
    stairs = folded(n, eps, 48)[:: 48 // steps]
    risks = [risk(stairs, best.sums, near) / risk(best.chances, best.sums, near) for near in (np.inf, NEAR)]
    ratios = noise / best.variance, found / best.variance, *risks
    return f"| {n} | {eps:g} | {noise:.4g} | {found:.4g} | {best.variance:.4g} | {' | '.join(f'{r:.2f}' for r in ratios)} |"


if __name__ == "__main__":
    print(HEAD)
    for case in CASES:
        print(line(*case), flush=True)
