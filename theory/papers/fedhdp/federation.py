"""FedHDP, what the modules on clients have in common: variables, examples, and a client in a federation of two levels.

Belongs here: how a claim's arguments become a federation, and judges of a client's best strength. Does not belong here:
claims, printed formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    GAMMA2_1,
    GAMMA2_2,
    LEVEL,
    N1,
    N2,
    N_NP,
    N_P,
    TAU2,
    concrete_strength,
    derive_strength,
    message_variances,
)

TWO_LEVELS = (N1, N2, ALPHA2, TAU2, GAMMA2_1, GAMMA2_2, LEVEL)
OPT_OUT = (N_NP, N_P, ALPHA2, TAU2, GAMMA2)
PAIRS = (
    Variable("N1", "size", "clients in level 1", low=2),
    Variable("N2", "size", "clients in level 2", low=2),
)
ALL = Variable("N", "size", "clients in all", low=2)
TAU2_POSITIVE = Variable("tau2", "positive", "variance of the clients' parameters around the centre")
EXAMPLES = (
    {"N1": 2, "N2": 3, "alpha2": 1, "tau2": "1/2", "gamma2_1": "1/4", "gamma2_2": 1, "level": 2},
    {"N1": 2, "N2": 2, "alpha2": 2, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 2, "level": 1},
)
OWN_NOISE_EXAMPLES = (EXAMPLES[0], {**EXAMPLES[1], "own_noise": 1})
OPT_OUT_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": "1/2", "gamma2": 1},
    {"N_np": 1, "N_p": 3, "alpha2": 2, "tau2": 1, "gamma2": 2, "own_noise": 1},
)
OWN_NOISE_TEXT = "own_noise == 0 (the client's own message noise is taken out of the model it gets back) or that noise is 0"


def lists(v: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Sizes and noise of the levels from two-level or opt-out arguments."""
    if "N1" in v:
        return [v["N1"], v["N2"]], [v["gamma2_1"], v["gamma2_2"]]
    return [v["N_np"], v["N_p"]], [sp.Integer(0), v["gamma2"]]


def own_noise_condition(**v: Any) -> Any:
    """The proofs' hidden assumption, at a client's level."""
    noise = lists(v)[1][v["level"] - 1]
    return Or(Eq(v["own_noise"], 0), Eq(noise, 0))


def setting(v: dict[str, Any], level: int | None = None) -> tuple[Any, ...]:
    """Arguments (level, sizes, gamma2s, alpha2, tau2) of the shared derivations."""
    sizes, gamma2s = lists(v)
    return (level or v["level"], sizes, gamma2s, v["alpha2"], v["tau2"])


def proof_terms(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The proofs' sigma_{p_1}^2, sigma_{p_2}^2, m and n: message variances, and the others in levels 1 and 2."""
    s1, s2 = message_variances(*lists(v), v["alpha2"] + v["tau2"])
    return s1, s2, *((v["N1"] - 1, v["N2"]) if v["level"] == 1 else (v["N1"], v["N2"] - 1))


def units(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """The paper's N, Upsilon^2, Gamma_1^2, Gamma_2^2."""
    (a, b), (g1, g2) = lists(v)
    return a + b, v["tau2"] / v["alpha2"], a * g1 / v["alpha2"], b * g2 / v["alpha2"]


def simulated_federation(v: dict[str, Any], level: int) -> tuple[simulation.Federation, int, np.ndarray]:
    """Concrete clients, the distinguished one, and the server's optimal weights."""
    sizes, gamma2s = lists(v)
    sizes = [int(n) for n in sizes]
    noise = [float(n * g) for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, v["tau2"], v["alpha2"], noise)
    w = aggregation.level_weights(sizes, [float(g) for g in gamma2s], v["alpha2"], v["tau2"])
    return fed, fed.start[level - 1], np.repeat(w, sizes)


def returned_model(weights: np.ndarray, client: int, own_noise: int) -> np.ndarray:
    """The server's estimate as the client uses it: with its own noise, or with that noise taken out."""
    return simulation.vector(1, a0=1.0, l=0.0 if own_noise else -weights[client])


def simulate_strength(of: int = 0, **v: Any) -> simulation.Simulation | None:
    """A client's best strength, which is entry `of` of a claim."""
    fed, client, w = simulated_federation(v, v["level"])
    return simulation.optimal_blend(fed, client, w, returned_model(w, client, v.get("own_noise", 0)), of=of)


def strength_oracle(**v: Any) -> Any:
    """Optimal strength by exact search on concrete clients."""
    return concrete_strength(*setting(v), v.get("own_noise", 0))


def strength_computed(**v: Any) -> Any:
    """Optimal strength by the estimators."""
    return personalization.personalization_strength(*setting(v), own_noise=bool(v.get("own_noise", 0)))


def strength_derive(**v: Any) -> Derivation:
    """Optimal strength from the model."""
    return derive_strength(*setting(v), v.get("own_noise", 0))


def simulate_one_level(**v: Any) -> simulation.Simulation | None:
    """The best strength with one privacy level."""
    N, noise = int(v["N"]), v["N"] * v.get("gamma2_2", v.get("gamma2", 0.0))
    fed = simulation.federation([N], v.get("tau2", 0.0), v["alpha2"], noise)
    w = np.full(N, 1 / N)
    return simulation.optimal_blend(fed, 0, w, returned_model(w, 0, v.get("own_noise", 0)))
