"""The models of MR-MTL's claims: silos whose private estimates are averaged with equal weights.

A silo's private estimate is what it keeps and what it sends, so that its privacy noise is part of the variance of its own
estimate (alpha2) and there is no further noise in its message.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import (
    AttainsMixed,
    BestBlend,
    BestMixture,
    BestStrength,
    BestWeights,
    Clients,
    Decision,
    LeastCentre,
    LeastClient,
    LeastMixture,
    Mixed,
    Own,
    Personal,
    Ratios,
    Value,
    Weights,
    of,
)

ONE, ZERO = sp.Integer(1), sp.Integer(0)
PLAIN = Ratios((ONE,))


def local(n: Any, sigma2: Any, sigma2_dp: Any) -> Any:
    """Variance of a silo's private estimate."""
    return sigma2 / n + sigma2_dp / n**2


def silos(K: Any, variance: Any, tau2: Any) -> Clients:
    """K silos alike."""
    return Clients((K,), tau2=tau2, alpha2=variance)


def unequal(sigma2_loc_k: Any, tau2: Any) -> Clients:
    """A level for each silo."""
    return Clients((ONE,) * len(sigma2_loc_k), tau2=tau2, alpha2=tuple(sigma2_loc_k))


def best(clients: Clients) -> Mixed:
    """A silo's risk at lambda* = variance / tau2, as a mixture, which has no infinite strength."""
    s, tau2 = clients.alpha2[0], clients.tau2[0]
    return Mixed(clients, PLAIN, 0, s / (s + tau2))


@of("mrmtl:lemE.3")
def _observations(sigma2_k: Any) -> tuple[Decision, ...]:
    clients = Clients((1,) * len(sigma2_k), alpha2=tuple(sigma2_k))
    return (LeastCentre(clients), BestWeights(clients, lambda e: Weights(e[1:]), of=None))


@of("mrmtl:lem6.2:var", "mrmtl:cor6.4:mmse")
def _posterior(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Decision, ...]:
    return (LeastClient(silos(K, local(n, sigma2, sigma2_dp), tau2), 0),)


@of("mrmtl:lem6.2:mu")
def _posterior_weights(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Decision, ...]:
    clients = silos(K, local(n, sigma2, sigma2_dp), tau2)
    return (BestBlend(clients, 0, lambda e: (e[0], e[1] / (K - 1)), of=None),)


@of("mrmtl:thm6.3")
def _strength(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Decision, ...]:
    return (BestStrength(silos(K, local(n, sigma2, sigma2_dp), tau2), PLAIN, 0, True),)


@of("mrmtl:cor6.4")
def _optimum(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    clients = silos(K, sigma2_loc, tau2)
    risk = best(clients)
    return (Value(risk.symbol, (risk,)), LeastClient(clients, 0))


@of("mrmtl:prop6.5")
def _local_training(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    clients = silos(K, sigma2_loc, tau2)
    alone, ours = Own(clients, 0), best(clients)
    return (Value(alone.symbol - ours.symbol, (alone, ours)),)


@of("mrmtl:prop6.6")
def _fedavg(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    clients = silos(K, sigma2_loc, tau2)
    shared, ours = Mixed(clients, PLAIN, 0, ONE), best(clients)
    return (Value(shared.symbol - ours.symbol, (shared, ours)),)


@of("mrmtl:lem6.7")
def _any_strength(lam: Any, K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    risk = Personal(silos(K, sigma2_loc, tau2), PLAIN, 0, lam, True)
    return (Value(risk.symbol, (risk,)),)


@of("mrmtl:thm6.8")
def _cost(lam: Any, K: Any, n: Any, sigma2_dp: Any, sigma2: Any, tau2: Any) -> tuple[Decision, ...]:
    private = Personal(silos(K, local(n, sigma2, sigma2_dp), tau2), PLAIN, 0, lam, True)
    public = Personal(silos(K, sigma2 / n, tau2), PLAIN, 0, lam, True)
    return (Value(private.symbol - public.symbol, (private, public)),)


def _is_silo(sigma2_loc_k: Any, k: int) -> bool:
    return k < len(sigma2_loc_k)


def _plain(sigma2_loc_k: Any) -> Weights:
    return Ratios((ONE,) * len(sigma2_loc_k))


def _centre(sigma2_loc_k: Any, tau2: Any) -> Weights:
    return Ratios(tuple(1 / (tau2 + s) for s in sigma2_loc_k))


@of("mrmtl:lemE.4:var")
def _pair(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return (LeastMixture(unequal(sigma2_loc_k, tau2), _plain(sigma2_loc_k), k),)


@of("mrmtl:lemE.4:mu")
def _pair_weights(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    count = sp.Integer(len(sigma2_loc_k))  # (1 - u) + u / K is the weight of the own estimate
    clients, plain = unequal(sigma2_loc_k, tau2), _plain(sigma2_loc_k)
    return (
        BestMixture(clients, plain, k, lambda e: (1 - e[0]) * count / (count - 1), of=None),
        BestMixture(clients, plain, k, lambda e: e[1] * count / (count - 1), of=None),
    )


@of("mrmtl:thmE.5:bayes")
def _bayes(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    return (LeastClient(unequal(sigma2_loc_k, tau2), k),) if _is_silo(sigma2_loc_k, k) else None


@of("mrmtl:mmse:strength")
def _completed(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return (BestStrength(unequal(sigma2_loc_k, tau2), _centre(sigma2_loc_k, tau2), k, True),)


@of("mrmtl:mmse")
def _attained(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    s = sigma2_loc_k[k]
    return (AttainsMixed(unequal(sigma2_loc_k, tau2), _centre(sigma2_loc_k, tau2), k, s / (s + tau2)),)
