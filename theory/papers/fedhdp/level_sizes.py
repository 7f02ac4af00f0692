"""FedHDP beyond two privacy levels, what its modules have in common (Appendix A.6).

Belongs here: variables, examples, an edit, the paper's products, federations of l levels. Does not belong here: claims.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.papers.shared import ALPHA2, ANY_LEVEL, GAMMA2S, ONE, SIGMA2_C, SIZES, TAU2

ZERO = sp.Integer(0)
MEMBERS = Edit(printed=r"\sum_{i=[l]}", read=r"\sum_{i\in[l]}", reason="[l] is a set, as in the other sums")
SERVER = (SIZES, GAMMA2S, SIGMA2_C)
CLIENT = (SIZES, GAMMA2S, ALPHA2, TAU2, ANY_LEVEL)
SERVER_EXAMPLES = (
    {"sizes": [2, 1, 2], "gamma2s": [0, 1, 2], "sigma2_c": 2},
    {"sizes": [3, 2], "gamma2s": ["1/2", 2], "sigma2_c": 1},
)
EXAMPLES = (
    {"sizes": [2, 1, 2], "gamma2s": [0, 1, 2], "alpha2": 1, "tau2": "1/2", "level": 3},
    {"sizes": [2, 2], "gamma2s": ["1/4", 1], "alpha2": 1, "tau2": "1/2", "level": 1},
)
SIZES2 = Variable("sizes", "size", "clients per level", low=2, lengths=(2, 3))


def arguments(v: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments (level, sizes, gamma2s, alpha2, tau2) of the shared derivations."""
    return v["level"], v["sizes"], v["gamma2s"], v["alpha2"], v["tau2"]


def leave_out(values: list[Any], i: int) -> Any:
    """The product of all values but one."""
    return prod((v for k, v in enumerate(values) if k != i), start=ONE)


def pooled(sizes: list[Any], s: list[Any]) -> tuple[Any, Any]:
    """The paper's products: prod s_i, and sum over i of n_i times the product of the other s_k."""
    return prod(s, start=ONE), sum(n * leave_out(s, i) for i, n in enumerate(sizes))


def others_of(sizes: list[Any], level: int) -> list[Any]:
    """M_i of (71): level sizes without client j."""
    return [n - (1 if i == level else 0) for i, n in enumerate(sizes, 1)]


def others_weights(fed: simulation.Federation, client: int) -> np.ndarray:
    """Precision weights of all messages but the client\'s own."""
    w = 1 / fed.message_variances
    w[client] = 0.0
    return w / w.sum()


def federation_of(v: dict[str, Any]) -> tuple[simulation.Federation, int]:
    """Concrete clients, and the distinguished one."""
    noise = [n * g for n, g in zip(v["sizes"], v["gamma2s"], strict=True)]
    fed = simulation.federation(v["sizes"], v["tau2"], v["alpha2"], noise)
    return fed, fed.start[v["level"] - 1]
