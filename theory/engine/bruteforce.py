"""The oracle: concrete clients one by one, exact rationals, joint covariance and Schur complement.

Every client has its own noise terms, nothing is exchangeable, and a flat prior is handled by conditioning on
differences to one observation.  It shares no code and no idea with hierarchy.py, so that an agreement of the
two means something.

Within, numbers are GMP's rationals, which are many times as fast as Python's; answers are `Fraction`, which SymPy reads
exactly, while it makes floats of the others.

Belongs here: exact linear algebra on concrete numbers. Does not belong here: symbols, formulas of papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp
from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

CENTRE = "phi"


def fraction(value: Any) -> Fraction:
    """A SymPy or Python number as a Fraction."""
    if isinstance(value, sp.Rational):
        return Fraction(int(value.p), int(value.q))
    return Fraction(value)


def rational(value: Fraction | mpq) -> sp.Rational:
    """A Fraction as a SymPy number."""
    found: Any = sp.Rational(int(value.numerator), int(value.denominator))  # by SymPy's annotations perhaps NaN
    return found


def exact(value: Any) -> mpq:
    """A SymPy or Python number as a rational of GMP."""
    return mpq(int(value.p), int(value.q)) if isinstance(value, sp.Rational) else mpq(value)


def _answer(value: mpq) -> Fraction:
    return Fraction(int(value.numerator), int(value.denominator))


@dataclass(frozen=True)
class Combination:
    """A finite linear combination of independent basic variables, by name."""

    terms: dict[str, mpq]  # which `rational` reads

    def __add__(self, other: Combination) -> Combination:
        found = dict(self.terms)
        for k, c in other.terms.items():
            found[k] = found[k] + c if k in found else c
        return Combination(found)

    def __sub__(self, other: Combination) -> Combination:
        return self + other.times(-1)

    def times(self, factor: Any) -> Combination:
        """The combination multiplied by a number."""
        f = exact(factor)
        return Combination({k: f * c for k, c in self.terms.items()})


class Clients:
    """Concrete clients; variances are given per client. Attributes are lists, one entry per client."""

    def __init__(self, tau2: Sequence[Any], alpha2: Sequence[Any], nu2: Sequence[Any]):
        self.variance: dict[str, Fraction] = {}
        for i, (t, a, n) in enumerate(zip(tau2, alpha2, nu2, strict=True)):
            self.variance |= {f"p{i}": fraction(t), f"e{i}": fraction(a), f"l{i}": fraction(n)}
        self._variance = {name: exact(value) for name, value in self.variance.items()}
        one = mpq(1)
        count = len(tau2)
        self.centre = Combination({CENTRE: one})
        self.parameter = [Combination({CENTRE: one, f"p{i}": one}) for i in range(count)]
        self.estimate = [self.parameter[i] + Combination({f"e{i}": one}) for i in range(count)]
        self.message = [self.estimate[i] + Combination({f"l{i}": one}) for i in range(count)]

    def __len__(self) -> int:
        return len(self.message)

    def weighted(self, weights: Sequence[Any], observations: Sequence[Combination]) -> Combination:
        """The weighted sum of observations."""
        total = Combination({})
        for w, o in zip(weights, observations, strict=True):
            total = total + o.times(w)
        return total

    def covariance(self, a: Combination, b: Combination) -> Fraction:
        """Covariance; the centre has no finite variance, so forms must not depend on it."""
        return _answer(self._covariance(a, b))

    def _covariance(self, a: Combination, b: Combination) -> mpq:
        for form in (a, b):
            if form.terms.get(CENTRE, 0) != 0:
                raise ValueError("a form that depends on the flat centre has no variance")
        return sum((c * b.terms[k] * self._variance[k] for k, c in a.terms.items() if k in b.terms and k != CENTRE), mpq(0))

    def mse(self, estimate: Combination, target: Combination) -> Fraction:
        """Mean squared error of an unbiased linear estimate."""
        error = estimate - target
        return self.covariance(error, error)

    def posterior(self, target: Combination, observations: Sequence[Combination]) -> tuple[list[Fraction], Fraction]:
        """Weights of the observations in the posterior mean under a flat centre, and the posterior variance.

        Condition `target - o_0` on the differences `o_i - o_0` by a Schur complement.
        """
        base = observations[0]
        contrasts = [o - base for o in observations[1:]]
        shifted = target - base
        gram = [[self._covariance(a, b) for b in contrasts] for a in contrasts]
        cross = [self._covariance(a, shifted) for a in contrasts]
        w = _solve(gram, cross)
        variance = self._covariance(shifted, shifted) - sum((a * b for a, b in zip(w, cross, strict=True)), mpq(0))
        return [_answer(x) for x in (1 - sum(w, mpq(0)), *w)], _answer(variance)

    def best_blend(self, target: Combination, local: Combination, shared: Combination) -> tuple[Fraction, Fraction]:
        """The u in (1-u) local + u shared with the least risk, and the risk: the vertex of three values."""
        risk = [self.mse(local + (shared - local).times(u), target) for u in (-1, 0, 1)]
        curvature = (risk[0] + risk[2]) / 2 - risk[1]
        slope = (risk[2] - risk[0]) / 2
        if curvature == 0:
            raise ZeroDivisionError("the shared and the local estimate coincide; every weight is optimal")
        u = -slope / (2 * curvature)
        return u, risk[1] - slope**2 / (4 * curvature)


def solve(matrix: Sequence[Sequence[Any]], right: Sequence[Any]) -> list[Fraction]:
    """Gaussian elimination over the rationals; rows that carry no information are dropped."""
    return [_answer(x) for x in _solve([[exact(x) for x in row] for row in matrix], [exact(x) for x in right])]


def _solve(matrix: Sequence[Sequence[mpq]], right: Sequence[mpq]) -> list[mpq]:
    n = len(right)
    rows = [[*row, r] for row, r in zip(matrix, right, strict=True)]
    pivots: list[int] = []
    rank = 0
    for col in range(n):
        pick = next((r for r in range(rank, n) if rows[r][col] != 0), None)
        if pick is None:
            continue
        rows[rank], rows[pick] = rows[pick], rows[rank]
        head = rows[rank][col]
        rows[rank] = [x / head for x in rows[rank]]
        for r in range(n):
            if r != rank and rows[r][col] != 0:
                f = rows[r][col]
                rows[r] = [x - f * y for x, y in zip(rows[r], rows[rank], strict=True)]
        pivots.append(col)
        rank += 1
    solution = [mpq(0)] * n
    for r, col in enumerate(pivots):
        solution[col] = rows[r][n]
    return solution
