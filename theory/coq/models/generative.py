"""The models of the generative paper's Gaussian claims: clients' sample means, their plain average, and shrinkage.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import BestMixture, Clients, Decision, Mixed, Own, Ratios, Value, of

ONE, ZERO = sp.Integer(1), sp.Integer(0)
PLAIN = Ratios((ONE,))


def shrunk(clients: Clients, a: Any) -> Mixed:
    """a own mean + (1 - a) plain average of all messages, the own one with its noise."""
    return Mixed(clients, PLAIN, 0, 1 - a)


def weight(sigma2_theta: Any, s: Any) -> Any:
    """The weight of Theorem 1 (that it is the best is generative:thm2:a)."""
    return sigma2_theta / (sigma2_theta + s)


@of("generative:thm1:mse")
def _risk(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    clients = Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / n, copies=d)
    risk = shrunk(clients, weight(sigma2_theta, sigma2_x / n))
    return (Value(risk.symbol, (risk,)),)


@of("generative:claim1")
def _parts(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, a: Any) -> tuple[Decision, ...]:
    sampled = shrunk(Clients((m,), alpha2=sigma2_x / n), a)
    spread = shrunk(Clients((m,), tau2=sigma2_theta), a)
    return (Value(sampled.symbol, (sampled,)), Value(spread.symbol, (spread,), of=1))


@of("generative:remark1:gap")
def _ratio(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    clients = Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / n)
    risk, own = shrunk(clients, weight(sigma2_theta, sigma2_x / n)), Own(clients, 0)
    return (Value(risk.symbol / own.symbol, (risk, own)),)


@of("generative:remark2")
def _worst(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sup_over: str) -> tuple[Decision, ...] | None:
    return _risk(m, n, d, sigma2_theta, sigma2_x) if sup_over == "mu" else None  # the centre is any number in Model.v


def noisy(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any, copies: Any = None) -> Clients:
    """Messages with the noise of a mechanism."""
    return Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / n, nu2=sigma2_q, copies=copies)


@of("generative:thm2:mse")
def _private(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any, shared_noise: int) -> Any:
    if shared_noise:
        return None  # noise that all messages share is correlated; Model.v's is not
    clients = noisy(m, n, sigma2_theta, sigma2_x, sigma2_q, d)
    risk = shrunk(clients, weight(sigma2_theta + sigma2_q / (m - 1), sigma2_x / n))
    return (Value(risk.symbol, (risk,)),)


@of("generative:thm2:a")
def _best(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> tuple[Decision, ...]:
    return (BestMixture(noisy(m, n, sigma2_theta, sigma2_x, sigma2_q), PLAIN, 0, lambda e: 1 - e[0]),)
