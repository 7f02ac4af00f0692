"""The models of FedHDP's claims: clients in privacy levels, a server that weighs messages, clients that blend.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import (
    PART,
    Attains,
    BestBlend,
    BestStrength,
    BestWeights,
    Clients,
    Decision,
    LeastCentre,
    LeastClient,
    Personal,
    Ratios,
    Risk,
    Server,
    Value,
    Weights,
    of,
)

ZERO = sp.Integer(0)


def levels(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any) -> Clients:
    """Levels whose averages carry the privacy noise gamma2s, so that a message carries N_i gamma2_i."""
    noise = tuple(n * g for n, g in zip(sizes, gamma2s, strict=True))
    return Clients(tuple(sizes), tau2=tau2, alpha2=alpha2, nu2=noise)


def spread(sizes: Any, gamma2s: Any, sigma2_c: Any) -> Clients:
    """The same where only the variance sigma2_c around the centre is known, however it is made up."""
    return levels(sizes, gamma2s, sigma2_c - PART, PART)


def optimal(clients: Clients) -> Weights:
    """The server's ratios: the first level's message variance over each level's."""
    s = clients.message
    return Ratios(tuple(sp.Integer(1) if k == 0 else s[0] / x for k, x in enumerate(s)))


def equal(clients: Clients) -> Weights:
    """Equal weights."""
    return Ratios(tuple(sp.Integer(1) for _ in clients.sizes))


def one(expression: Any, *risks: Risk, entry: int = 0) -> tuple[Decision, ...]:
    """A single value."""
    return (Value(expression, risks, of=entry),)


# --- the server --------------------------------------------------------------------------------------------------------


@of("fedhdp:lemma1")
def _observations(sigma2s: Any) -> tuple[Decision, ...]:
    clients = Clients((1,) * len(sigma2s), alpha2=tuple(sigma2s))
    return (LeastCentre(clients), BestWeights(clients, lambda e: Weights(e[1:]), of=None))


@of("fedhdp:lemma2:weights")
def _weights(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    return (BestWeights(spread((N1, N2), (gamma2_1, gamma2_2), sigma2_c), Weights, of=None),)


@of("fedhdp:lemma2:rstar")
def _ratio(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    return (BestWeights(spread((N1, N2), (gamma2_1, gamma2_2), sigma2_c), lambda e: Ratios((sp.Integer(1), *e))),)


@of("fedhdp:lemma2:cov")
def _cov(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    clients = spread((N1, N2), (gamma2_1, gamma2_2), sigma2_c)
    server = Server(clients, optimal(clients))
    return (Value(server.symbol, (server,)), LeastCentre(clients))


def opt_out(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any) -> Clients:
    """A level without noise and a private one."""
    return spread((N_np, N_p), (ZERO, gamma2), sigma2_c)


@of("fedhdp:lemma6:rstar", "feo2:lemma1:rstar")
def _opt_out_ratio(**v: Any) -> tuple[Decision, ...]:
    return (BestWeights(opt_out(**v), lambda e: Ratios((sp.Integer(1), *e))),)


@of("fedhdp:lemma6:var", "feo2:lemma1:var")
def _opt_out_var(**v: Any) -> tuple[Decision, ...]:
    clients = opt_out(**v)
    server = Server(clients, optimal(clients))
    return (Value(server.symbol, (server,)), LeastCentre(clients))


def _three_servers(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, dp_noise: str) -> dict[str, Risk]:
    """FedHDP at r*, HDP-FedAvg with equal weights, DP-FedAvg where all are private."""
    ours = Clients((N_np, N_p), tau2=tau2, alpha2=alpha2, nu2=(ZERO, N_p * gamma2))
    everyone = N_p * gamma2 if dp_noise == "client" else N_p**2 * gamma2 / (N_np + N_p)
    private = Clients((N_np, N_p), tau2=tau2, alpha2=alpha2, nu2=everyone)
    return {"opt": Server(ours, optimal(ours)), "hdp": Server(ours, equal(ours)), "dp": Server(private, equal(private))}


def _gap(worse: str, better: str) -> Any:
    def model(dp_noise: str = "client", **v: Any) -> tuple[Decision, ...]:
        servers = _three_servers(**v, dp_noise=dp_noise)
        a, b = servers[worse], servers[better]
        return one(a.symbol - b.symbol, a, b)

    return model


of("fedhdp:lemma7:eq79")(_gap("hdp", "opt"))
of("fedhdp:lemma7:eq80")(_gap("dp", "opt"))
of("fedhdp:lemma7:eq81")(_gap("dp", "hdp"))


@of("fedhdp:eq61")
def _eq61(sizes: Any, gamma2s: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return (LeastCentre(spread(sizes, gamma2s, sigma2_c)),)


@of("fedhdp:eq64")
def _eq64(sizes: Any, gamma2s: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return (BestWeights(spread(sizes, gamma2s, sigma2_c), Ratios, of=None),)


# --- clients: two levels -----------------------------------------------------------------------------------------------


def two_levels(N1: Any, N2: Any, alpha2: Any, tau2: Any, gamma2_1: Any, gamma2_2: Any) -> Clients:
    """Two privacy levels."""
    return levels((N1, N2), (gamma2_1, gamma2_2), alpha2, tau2)


@of("fedhdp:eq37")
def _eq37(level: int, **v: Any) -> tuple[Decision, ...]:
    return (LeastCentre(two_levels(**v), without=level - 1),)


@of("fedhdp:eq41")
def _eq41(level: int, **v: Any) -> tuple[Decision, ...]:
    return (LeastClient(two_levels(**v), level - 1),)


@of("fedhdp:eq42")
def _eq42(level: int, **v: Any) -> tuple[Decision, ...]:
    return (BestBlend(two_levels(**v), level - 1, of=None),)


@of("fedhdp:lemma3:lambda")
def _lambda(level: int, own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = two_levels(**v)
    return (BestStrength(clients, optimal(clients), level - 1, bool(own_noise)),)


@of("fedhdp:thm5")
def _thm5(level: int, own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = two_levels(**v)
    return (
        BestWeights(clients, lambda e: Ratios((sp.Integer(1), *e))),
        BestStrength(clients, optimal(clients), level - 1, bool(own_noise), of=1),
    )


def attained(clients: Clients, level: int, own_noise: int) -> tuple[Decision, ...]:
    """The blend at the best strength is Bayes optimal."""
    w, noise = optimal(clients).per_client(clients)[level], clients.nu2[level]
    # With the own noise in what comes back this is so only where there is none.
    lam = clients.alpha2[level] / (clients.tau2[level] + (0 if own_noise else noise * w))
    return (Attains(clients, optimal(clients), level, bool(own_noise), lam),)


@of("fedhdp:lemma3:bayes")
def _bayes(level: int, own_noise: int, **v: Any) -> tuple[Decision, ...]:
    return attained(two_levels(**v), level - 1, own_noise)


@of("fedhdp:eq49", "fedhdp:eq50", "fedhdp:eq51", "fedhdp:eq52")
def _matched(level: int, **v: Any) -> tuple[Decision, ...]:
    clients = two_levels(**v)
    return (Attains(clients, optimal(clients), level - 1, False),)


# --- clients: opt-out, one level, any number of levels -------------------------------------------------------------------


def opt_out_clients(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Clients:
    """A level without noise and a private one."""
    return levels((N_np, N_p), (ZERO, gamma2), alpha2, tau2)


@of("fedhdp:thm8:np")
def _thm8_np(own_noise: int = 0, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(**v)
    return (BestStrength(clients, optimal(clients), 0, bool(own_noise)),)


@of("fedhdp:thm8:p")
def _thm8_p(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(**v)
    return (BestStrength(clients, optimal(clients), 1, bool(own_noise)),)


@of("feo2:lemma2")
def _feo2_bayes(level: int, own_noise: int, **v: Any) -> tuple[Decision, ...]:
    return attained(opt_out_clients(**v), level - 1, own_noise)


def alike(N: Any, alpha2: Any, tau2: Any = ZERO, gamma2: Any = ZERO) -> Clients:
    """All clients in one level."""
    return levels((N,), (gamma2,), alpha2, tau2)


@of("fedhdp:lemma3:limit-N2")
def _all_private(own_noise: int, gamma2_2: Any, **v: Any) -> tuple[Decision, ...]:
    clients = alike(**v, gamma2=gamma2_2)
    return (BestStrength(clients, equal(clients), 0, bool(own_noise)),)


@of("fedhdp:table4:b", "fedhdp:table4:c", "fedhdp:table4:d")
def _table4(own_noise: int = 0, **v: Any) -> tuple[Decision, ...]:
    clients = alike(**v)
    return (BestStrength(clients, equal(clients), 0, bool(own_noise)),)


@of("fedhdp:lemma3:limit-r1")
def _same_noise(own_noise: int, N1: Any, N2: Any, alpha2: Any, tau2: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    clients = Clients((N1, N2), tau2=tau2, alpha2=alpha2, nu2=N2 * gamma2_2)
    return tuple(BestStrength(clients, equal(clients), k, bool(own_noise), of=k) for k in (0, 1))


@of("fedhdp:lemma3:limit-tau0")
def _homogeneous(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = two_levels(**v, tau2=ZERO)
    return tuple(BestStrength(clients, optimal(clients), k, bool(own_noise), of=k) for k in (0, 1))


def in_level(sizes: Any, level: int) -> bool:
    """Whether there is such a level."""
    return level <= len(sizes)


@of("fedhdp:eq68")
def _eq68(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int) -> tuple[Decision, ...] | None:
    return (LeastCentre(levels(sizes, gamma2s, alpha2, tau2), without=level - 1),) if in_level(sizes, level) else None


@of("fedhdp:eq74")
def _eq74(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int) -> tuple[Decision, ...] | None:
    return (LeastClient(levels(sizes, gamma2s, alpha2, tau2), level - 1),) if in_level(sizes, level) else None


@of("fedhdp:eq75")
def _eq75(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int) -> tuple[Decision, ...] | None:
    return (BestBlend(levels(sizes, gamma2s, alpha2, tau2), level - 1, of=None),) if in_level(sizes, level) else None


@of("fedhdp:levels:lambda")
def _levels_lambda(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int, own_noise: int) -> Any:
    if not in_level(sizes, level):
        return None
    clients = levels(sizes, gamma2s, alpha2, tau2)
    return (BestStrength(clients, optimal(clients), level - 1, bool(own_noise)),)


@of("fedhdp:levels:bayes")
def _levels_bayes(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int, own_noise: int) -> Any:
    return attained(levels(sizes, gamma2s, alpha2, tau2), level - 1, own_noise) if in_level(sizes, level) else None


# --- what Section 3.1.4 says of opting out -------------------------------------------------------------------------------


@of("fedhdp:beats-hdp")
def _beats(level: int, own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(**v)
    theirs, ours = (at_best(clients, w, level - 1, own_noise) for w in (equal(clients), optimal(clients)))
    return one(theirs.symbol - ours.symbol, theirs, ours)


@of("fedhdp:optout-helps")
def _optout(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(**v)
    public, private = (at_best(clients, optimal(clients), level, own_noise) for level in (0, 1))
    return one(private.symbol - public.symbol, private, public)


def at_best(clients: Clients, weights: Weights, level: int, own_noise: int) -> Risk:
    """A client's risk at the strength that is best towards these weights."""
    w, noise = weights.per_client(clients)[level], clients.nu2[level]
    shared = Server(clients, weights).closed - (0 if own_noise else w**2 * noise)
    alpha2, tau2 = clients.alpha2[level], clients.tau2[level]
    lam = sp.factor(sp.cancel(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) - alpha2 * w)))
    return Personal(clients, weights, level, lam, bool(own_noise))
