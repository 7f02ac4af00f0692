"""The models of FeO2's claims that FedHDP does not share.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

from theory.coq.model import PART, BestWeights, Clients, Decision, Optimum, Ratios, Server, Value, of


def _average(clients: Clients) -> tuple[Decision, ...]:
    server = Server(clients, Ratios((1,)))
    return (Value(server.symbol, (server,)),)


@of("feo2:theta-np")
def _without_noise(N_np: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return _average(Clients((N_np,), tau2=PART, alpha2=sigma2_c - PART))


@of("feo2:theta-p")
def _private(N_p: Any, sigma2_c: Any, gamma2: Any) -> tuple[Decision, ...]:
    return _average(Clients((N_p,), tau2=PART, alpha2=sigma2_c - PART, nu2=N_p * gamma2))


@of("feo2:gamma-prop")
def _group_noise(z: Any, S: Any, N_p: Any) -> tuple[Decision, ...]:
    # The noise z S of the sum, shared by the group's clients.
    return _average(Clients((N_p,), nu2=(z * S) ** 2 / N_p))


@of("feo2:heterogeneity")
def _scatter(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, more: Any) -> tuple[Decision, ...]:
    before, after = (
        Optimum(
            BestWeights(
                Clients((N_np, N_p), tau2=(tau2 + x, tau2), alpha2=alpha2, nu2=(0, N_p * gamma2)), lambda e: Ratios((1, *e))
            )
        )
        for x in (0, more)
    )
    return (Value(after.symbol - before.symbol, (before, after)),)
