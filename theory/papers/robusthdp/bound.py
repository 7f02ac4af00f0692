"""The bound of Theorem 2 of Robust-HDP as printed, (10) and (11).

Belongs here: the printed terms, which several claims speak of. Does not belong here: claims, and what a judge derives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from theory.papers.robusthdp.model import ZERO


def psi_sigma(beta: Any, eta: Any, steps: Sequence[Any], sigma2: Any, noise: Sequence[Any]) -> Any:
    """Psi_sigma of (11) as printed; `noise` holds the variances of the clients' noisy batch gradients."""
    drift = 2 * sum(k**4 for k in steps) * sigma2 + sum(k**3 * v for k, v in zip(steps, noise, strict=True)) / sp.Integer(3)
    return 6 * beta**2 * eta**2 * (1 + sum(steps)) * drift + beta * eta * sum(
        k**2 * v for k, v in zip(steps, noise, strict=True)
    )


def psi_p(L0: Any, steps: Sequence[Any], shares: Sequence[Any], weights: Sequence[tuple[Any, Sequence[Any]]]) -> Any:
    """Psi_p of (11) as printed; `weights` lists the possible weight vectors with their probabilities."""
    n = len(steps)
    apart = spread = ZERO
    for chance, w in weights:
        mean = sum(x * k for x, k in zip(w, steps, strict=True))
        apart += chance * sum(k**2 * (x - y) ** 2 for k, x, y in zip(steps, w, shares, strict=True))
        spread += chance * sum((k - mean) ** 2 for k in steps)
    return sp.Rational(8, 3) * L0**2 * (n * apart + sum(y**2 for y in shares) * spread)


def factor(least: Any) -> Any:
    """The factor 12 / (11 E_min - 7) in front of (10) and (12)."""
    return 12 / (11 * least - 7)


__all__ = ["factor", "psi_p", "psi_sigma"]
