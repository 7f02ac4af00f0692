"""The models of FeO2's claims that FedHDP does not share.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

from theory.coq.model import PART, Clients, Decision, Ratios, Server, Value, of


def _average(clients: Clients) -> tuple[Decision, ...]:
    server = Server(clients, Ratios((1,)))
    return (Value(server.symbol, (server,)),)


@of("feo2:theta-np")
def _without_noise(N_np: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return _average(Clients((N_np,), tau2=PART, alpha2=sigma2_c - PART))


@of("feo2:theta-p")
def _private(N_p: Any, sigma2_c: Any, gamma2: Any) -> tuple[Decision, ...]:
    return _average(Clients((N_p,), tau2=PART, alpha2=sigma2_c - PART, nu2=N_p * gamma2))
