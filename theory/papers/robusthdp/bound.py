"""The bound of Theorem 2 of Robust-HDP as printed, (10) and (11).

Belongs here: the printed terms, which several claims speak of, and the same added up by another hand, for oracles. Does not
belong here: claims, and what a judge derives.
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


def added_up(
    beta: Any, eta: Any, local: Sequence[Any], sigma2: Any, noise: Sequence[Any], L0: Any, shares: Sequence[Any],
    weights: Sequence[tuple[Any, Sequence[Any]]],
) -> Any:  # fmt: skip
    """12/(11 E_min - 7) times Psi_sigma + Psi_p, added up client by client: the oracles' reading of (10) and (11)."""
    n, total, least = len(local), 0, min(local, key=float) if all(x.is_number for x in local) else local[0]
    steps = 1
    for k in local:
        steps += k
    for k, v in zip(local, noise, strict=True):
        total += beta * eta * v * k * k
        total += (12 * sigma2 * k + 2 * v) * k * k * k * steps * (beta * eta) ** 2
    norm = 0
    for y in shares:
        norm += y * y
    for chance, w in weights:
        centre = 0
        for x, k in zip(w, local, strict=True):
            centre += x * k
        for x, y, k in zip(w, shares, local, strict=True):
            total += 8 * chance * L0 * L0 * (n * k * k * (x - y) ** 2 + norm * (k - centre) ** 2) / 3
    return total / (least - sp.Rational(7, 12) - least / 12)


__all__ = ["added_up", "factor", "psi_p", "psi_sigma"]
