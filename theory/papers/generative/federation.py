"""What the claims on DP-AdaPeD's privacy share: variables of a round, laws of what the server sees, long floats.

Belongs here: what more than one module on privacy uses. Does not belong here: printed formulas, claims.
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy as sp

from theory.engine.domain import Variable

ONE = sp.Integer(1)
DIGITS = 70
SHIFT = {"replace": 2, "zero-out": 1}
"""Largest change of a clipped gradient between neighbours, in clipping norms."""
TAU = Variable("tau", "size", "local steps per round")
K = Variable("K", "size", "clients per round")
M = Variable("m", "size", "clients in all")
C1 = Variable("C1", "positive", "clipping norm of the common model's gradients", extreme=False)
SIGMA2_Q1 = Variable("sigma2_q1", "positive", "noise variance per step and coordinate", extreme=False)
T = Variable("T", "size", "local steps in all")
C2 = Variable("C2", "nonnegative", "clipping norm of psi's gradients", default=sp.Integer(0), extreme=False)
SIGMA2_Q2 = Variable("sigma2_q2", "positive", "noise variance per step of psi", default=ONE, extreme=False)
ANY_ORDER = Variable("order", "positive", "Renyi order", within=("1001/1000", 1000), why="formula")
ADJACENCY = Variable(
    "adjacency",
    "choice",
    "replace: one client's data are replaced by other data; zero-out: its gradients are set to zero",
    choices=("replace", "zero-out"),
    default="replace",
)


def mpf(value: Any) -> Any:
    """An exact number as a long float (inside a `workdps` block)."""
    value = sp.sympify(value)
    return mpmath.mpf(int(value.p)) / int(value.q)


class SampledGaussian(sp.Function):
    """Renyi divergence of (1-q) N(0,1) + q N(mu,1) from N(0,1) at a whole order; arguments order, q, mu^2."""

    nargs = 3

    @classmethod
    def eval(cls, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value for numbers; None, which leaves it as it is, for symbols."""
        order, q, mu2 = arguments
        if q == 1:
            return order * mu2 / 2
        if not order.is_Integer or q.free_symbols or mu2.free_symbols:
            return None
        moment = sum(
            sp.binomial(order, k) * (1 - q) ** (order - k) * q**k * sp.exp(sp.Integer(k * (k - 1)) * mu2 / 2)
            for k in range(int(order) + 1)
        )
        return sp.log(moment) / (order - 1)


__all__ = [
    "ADJACENCY", "ANY_ORDER", "C1", "C2", "DIGITS", "ONE", "SHIFT", "SIGMA2_Q1", "SIGMA2_Q2", "TAU", "K", "M",
    "SampledGaussian", "T", "mpf",
]  # fmt: skip
