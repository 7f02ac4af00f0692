"""The models of Robust-HDP's claims on weights: updates around their mean, each with its own noise.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import BestWeights, Clients, Decision, LeastCentre, Optimum, Ratios, Server, Value, Weights, of


def updates(sigma2s: Any) -> Clients:
    """One update per client, of these variances."""
    return Clients((1,) * len(sigma2s), nu2=tuple(sigma2s))


def best(clients: Clients) -> Server:
    """The aggregate's variance with the best weights."""
    return Server(clients, Ratios(tuple(1 / s for s in clients.message)))


@of("robusthdp:eq8:weights")
def _weights(sigma2s: Any) -> tuple[Decision, ...]:
    return (BestWeights(updates(sigma2s), Weights, of=None),)


@of("robusthdp:eq8:unique")
def _unique(sigma2s: Any) -> tuple[Decision, ...]:
    return (BestWeights(updates(sigma2s), lambda e: Weights((*e, 1 - sum(e))), of=None),)


@of("robusthdp:eq8:minvar")
def _least(sigma2s: Any) -> tuple[Decision, ...]:
    clients = updates(sigma2s)
    server = best(clients)
    return (Value(server.symbol, (server,)), LeastCentre(clients))


@of("robusthdp:eq8:loss")
def _loss(weights: Any, sigma2s: Any) -> tuple[Decision, ...]:
    clients = updates(sigma2s)
    used, least = Server(clients, Ratios(tuple(weights))), best(clients)
    return (Value(used.symbol - least.symbol, (used, least)),)


def _relative(clients: Clients, ratios: tuple[Any, ...]) -> tuple[Decision, ...]:
    used, least = Server(clients, Ratios(ratios)), best(clients)
    return (Value(used.symbol / least.symbol - 1, (used, least)),)


@of("robusthdp:eq8:eps-weights")
def _eps(sigma2s: Any, eps: Any) -> tuple[Decision, ...]:
    server = Server(updates(sigma2s), Ratios(tuple(eps)))
    return (Value(server.symbol, (server,)),)


@of("robusthdp:eq8:eps-loss")
def _eps_loss(sigma2s: Any, eps: Any) -> tuple[Decision, ...]:
    return _relative(updates(sigma2s), tuple(eps))


@of("robusthdp:eq8:eps-loss:alike")
def _alike(eps: Any) -> tuple[Decision, ...]:
    return _relative(updates([1 / e**2 for e in eps]), tuple(eps))


@of("robusthdp:small-alpha:excess")
def _estimated(sigma2s: Any, alpha2: Any, r: Any) -> tuple[Decision, ...]:
    return _relative(updates(sigma2s), tuple(1 / (r**2 * s + alpha2) for s in sigma2s))


@of("robusthdp:alg1")
def _lines(sigma2s: Any) -> tuple[Decision, ...]:
    clients = updates(sigma2s)
    server = best(clients)
    return (
        BestWeights(clients, lambda e: Weights(tuple(e[: len(sigma2s)])), of=None),
        Value(server.symbol, (server,), of=-1),
    )


@of("robusthdp:eq8:removal")
def _without_the_last(sigma2s: Any) -> tuple[Decision, ...]:
    clients = updates(sigma2s)
    fewer, all_of_them = Optimum(LeastCentre(clients, without=len(sigma2s) - 1)), Optimum(LeastCentre(clients))
    return (Value(fewer.symbol / all_of_them.symbol, (fewer, all_of_them)),)


@of("robusthdp:eq8:signal")
def _per_step(sigma2s: Any, steps: Any) -> tuple[Decision, ...]:
    # An update over its number of steps is an observation of the mean gradient.
    clients = updates([s / e**2 for s, e in zip(sigma2s, steps, strict=True)])
    used = Server(clients, Ratios(tuple(e / s for s, e in zip(sigma2s, steps, strict=True))))
    least = Optimum(LeastCentre(clients))
    return (Value(used.symbol / least.symbol - 1, (used, least)),)


@of("robusthdp:small-alpha:bound")
def _at_most(rho: Any, steps: Any) -> tuple[Decision, ...]:
    variances = [sum(steps[:k], sp.Integer(1)) for k in range(len(steps) + 1)]
    return _relative(updates(variances), tuple(1 / (v + rho) for v in variances))
