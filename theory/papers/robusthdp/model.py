"""Robust-HDP's model of a client's training: variables, and the steps of DP-SGD on concrete records.

Belongs here: what more than one module of this package uses. Does not belong here: printed formulas, claims.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from theory.engine.domain import Variable

ONE, ZERO = sp.Integer(1), sp.Integer(0)

B = Variable("b", "size", "batch size", extreme=False)
C = Variable("c", "positive", "clipping norm")
Z = Variable("z", "nonnegative", "noise scale: standard deviation of the noise over c")
P = Variable("p", "size", "model parameters")
K = Variable("K", "size", "local epochs", extreme=False)
N = Variable("N", "size", "records of the client", extreme=False)
ETA = Variable("eta", "positive", "step size")
ALIGNMENT = Variable(
    "alignment",
    "fraction",
    "norm of the mean clipped gradient over c, |G|/c; 1 drops the sampling part, as the approximation in (3) does",
    closed=True,
    default=ONE,
)
SIGMA2S = Variable("sigma2s", "positive", "noise variance of each client's update", lengths=(2, 3))


def noise_part(b: Any, c: Any, z: Any, p: Any) -> Any:
    """Privacy noise of a batch gradient: p coordinates of variance (c z)^2, divided by b."""
    return p * c**2 * z**2 / b**2


def signs(gen: np.random.Generator, alignment: float, shape: tuple[int, ...]) -> np.ndarray:
    """First coordinates of clipped gradients of norm 1 and mean `alignment`: raw gradients of random length, clipped."""
    raw = np.where(gen.random(shape) < (1 + alignment) / 2, 1.0, -1.0) * (1 + gen.exponential(size=shape))
    return raw * np.minimum(1.0, 1.0 / np.abs(raw))


__all__ = ["ALIGNMENT", "ETA", "ONE", "SIGMA2S", "ZERO", "B", "C", "K", "N", "P", "Z", "noise_part", "signs"]
