"""The models of FedHDP's claims: clients in privacy levels, a server that weighs messages, clients that blend.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import (
    BIG,
    PART,
    SPREAD,
    Attains,
    BestBlend,
    BestMixture,
    BestStrength,
    BestWeights,
    BestWithout,
    Clients,
    Decision,
    LeastCentre,
    LeastClient,
    Limit,
    Message,
    Mixed,
    Optimum,
    Personal,
    Ratios,
    Risk,
    Server,
    Value,
    Weights,
    of,
)
from theory.engine.algebra import factored

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


def one(expression: Any, *risks: Risk | Optimum, entry: int = 0) -> tuple[Decision, ...]:
    """A single value."""
    return (Value(expression, risks, of=entry),)


# --- the server --------------------------------------------------------------------------------------------------------


@of("fedhdp:eq9")
def _least_squares(f: Any, beta2: Any) -> tuple[Decision, ...]:
    # A response over its coordinate is an observation of the coefficient, of variance beta2 / f^2.
    return (LeastCentre(Clients((1,) * len(f), alpha2=tuple(beta2 / x**2 for x in f))),)


@of("fedhdp:eq11")
def _privacy_noise(N_p: Any, gamma2: Any) -> tuple[Decision, ...]:
    clients = Clients((N_p,), nu2=N_p * gamma2)
    server = Server(clients, equal(clients))
    return one(server.symbol, server)


@of("fedhdp:eq21")
def _message(N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> tuple[Decision, ...]:
    message = Message(levels((N_p,), (gamma2,), alpha2, tau2), 0)
    return one(message.symbol, message)


@of("fedhdp:eq30")
def _server(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    return weights_and_variance(spread((N1, N2), (gamma2_1, gamma2_2), sigma2_c))


@of("fedhdp:eq60")
def _server_of_levels(sizes: Any, gamma2s: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return weights_and_variance(spread(sizes, gamma2s, sigma2_c))


def weights_and_variance(clients: Clients) -> tuple[Decision, ...]:
    """A weight per level, and the variance that is left."""
    server = Server(clients, optimal(clients))
    return (
        BestWeights(clients, lambda e: Weights(e[:-1]), of=None),
        Value(server.symbol, (server,), of=-1),
        LeastCentre(clients, of=-1),
    )


@of("fedhdp:eq63")
def _eq63(sizes: Any, gamma2s: Any, sigma2_c: Any) -> tuple[Decision, ...]:
    return (BestWeights(spread(sizes, gamma2s, sigma2_c), Weights, of=None),)


def ratio(clients: Clients) -> Optimum:
    """The second level's best weight over the first's."""
    return Optimum(BestWeights(clients, lambda e: Ratios((sp.Integer(1), *e))))


@of("fedhdp:r-le-1")
def _at_most_one(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    best = ratio(spread((N1, N2), (gamma2_1, gamma2_2), sigma2_c))
    return one(1 - best.symbol, best)


@of("fedhdp:r-falls")
def _falls(N1: Any, N2: Any, sigma2_c: Any, gamma2_1: Any, gamma2_2: Any, more: Any) -> tuple[Decision, ...]:
    before, after = (ratio(spread((N1, N2), (gamma2_1, g), sigma2_c)) for g in (gamma2_2, gamma2_2 + more))
    return one(after.symbol - before.symbol, before, after)


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
    return blend_and_variance(two_levels(**v), level - 1)


def blend_and_variance(clients: Clients, level: int) -> tuple[Decision, ...]:
    """Weights of the own estimate and of a message of each level, and the variance that they leave."""
    return (BestBlend(clients, level, lambda e: e[:-1], of=None), LeastClient(clients, level, of=-1))


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


def from_others(clients: Clients, level: int) -> tuple[Decision, ...]:
    """Weights of the others' messages, one per level, and the variance that they leave around the centre."""
    return (BestWithout(clients, level, lambda e: e[:-1], of=None), LeastCentre(clients, level, of=-1))


def from_own_and_others(clients: Clients, level: int) -> tuple[Decision, ...]:
    """Weights of the others' estimate of the centre and of the own estimate, and the variance that they leave."""
    others, _ = clients.optimal(without=level)
    return (
        BestBlend(clients, level, lambda e: (e[1], *(e[0] * v for v in others)), of=None),
        LeastClient(clients, level, of=-1),
    )


@of("fedhdp:eq34")
def _eq34(level: int, **v: Any) -> tuple[Decision, ...]:
    return from_others(two_levels(**v), level - 1)


@of("fedhdp:eq39")
def _eq39(level: int, **v: Any) -> tuple[Decision, ...]:
    return from_own_and_others(two_levels(**v), level - 1)


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


@of("fedhdp:table4:a")
def _nothing_to_fit(N: Any, alpha2: Any) -> tuple[Decision, ...]:
    clients = alike(N, alpha2)
    return (BestMixture(clients, equal(clients), 0, lambda e: share_of(e[0])),)


def share_of(lam: Any) -> Any:
    """The server's share at a strength, that may be infinite."""
    return sp.Integer(1) if lam == sp.oo else lam / (1 + lam)


@of("fedhdp:table1")
def _special(N1: Any, N2: Any, alpha2: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    everyone = Clients((N1, N2), tau2=SPREAD, alpha2=alpha2, nu2=N2 * gamma2_2)
    nobody = Clients((N1, N2), tau2=SPREAD, alpha2=alpha2)
    alone = Clients((N1, N2), alpha2=alpha2)
    return (
        BestWeights(nobody, lambda e: Ratios((sp.Integer(1), *e))),
        BestWeights(everyone, lambda e: Ratios((sp.Integer(1), *e)), of=1),
        BestMixture(alone, equal(alone), 0, lambda e: e[0], of=2),
    )


@of("fedhdp:lemma3:limit-r1")
def _same_noise(own_noise: int, N1: Any, N2: Any, alpha2: Any, tau2: Any, gamma2_2: Any) -> tuple[Decision, ...]:
    clients = Clients((N1, N2), tau2=tau2, alpha2=alpha2, nu2=N2 * gamma2_2)
    return tuple(BestStrength(clients, equal(clients), k, bool(own_noise), of=k) for k in (0, 1))


@of("fedhdp:lemma3:limit-tau0")
def _homogeneous(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    clients = two_levels(**v, tau2=ZERO)
    return tuple(BestStrength(clients, optimal(clients), k, bool(own_noise), of=k) for k in (0, 1))


@of("fedhdp:lemma3:limit-alpha0")
def _perfect(N1: Any, N2: Any, tau2: Any, spread: int, noise1: int, noise2: int, **v: Any) -> tuple[Decision, ...]:
    clients = levels((N1, N2), (noise1 * v["gamma2_1"], noise2 * v["gamma2_2"]), 1 / BIG, spread * tau2)
    return tuple(tends(strength(clients, k, own_noise=False), entry=k) for k in (0, 1))


@of("fedhdp:table4:noise")
def _much_noise(N: Any, alpha2: Any, tau2: Any, own_noise: int) -> tuple[Decision, ...]:
    federations = (alike(N, alpha2, t, gamma2=BIG) for t in (ZERO, tau2))
    return tuple(tends(strength(c, 0, bool(own_noise)), entry=k) for k, c in enumerate(federations))


def strength(clients: Clients, level: int, own_noise: bool) -> Optimum:
    """The best strength towards the server's best estimate."""
    return Optimum(BestStrength(clients, optimal(clients), level, own_noise))


def tends(best: Optimum, entry: int) -> Limit:
    """What an optimum tends to."""
    return Limit(best.symbol, (best,), of=entry)


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
    return blend_and_variance(levels(sizes, gamma2s, alpha2, tau2), level - 1) if in_level(sizes, level) else None


@of("fedhdp:eq72")
def _eq72(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int) -> tuple[Decision, ...] | None:
    return from_others(levels(sizes, gamma2s, alpha2, tau2), level - 1) if in_level(sizes, level) else None


@of("fedhdp:eq73")
def _eq73(sizes: Any, gamma2s: Any, alpha2: Any, tau2: Any, level: int) -> tuple[Decision, ...] | None:
    return from_own_and_others(levels(sizes, gamma2s, alpha2, tau2), level - 1) if in_level(sizes, level) else None


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


@of("fedhdp:lambda-order")
def _order(own_noise: int, ratio: str, r: Any = None, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(**v)
    weights = optimal(clients) if ratio == "optimal" else Ratios((sp.Integer(1), r))
    public, private = (Optimum(BestStrength(clients, weights, k, bool(own_noise))) for k in (0, 1))
    return one(private.symbol / public.symbol, private, public)


@of("fedhdp:global-helps")
def _as_it_is(who: str, side: str, more: Any, N_np: Any, N_p: Any, **v: Any) -> tuple[Decision, ...]:
    clients = opt_out_clients(N_np, N_p, **v)
    best = optimal(clients).values[1]
    other = Ratios((sp.Integer(1), best + more if side == "above" else best / (1 + more)))
    shares = {"non-private": {0: 1}, "private": {1: 1}, "average": {0: N_np / (N_np + N_p), 1: N_p / (N_np + N_p)}}[who]
    gain, risks = ZERO, []
    for level, share in shares.items():
        theirs, ours = (Mixed(clients, w, level, sp.Integer(1)) for w in (other, optimal(clients)))
        gain, risks = gain + share * (theirs.symbol - ours.symbol), [*risks, theirs, ours]
    return one(gain, *risks)


def before_and_after(N_np: Any, N_p: Any, gamma2: Any, others: str, alpha2: Any, tau2: Any) -> tuple[Clients, Clients]:
    """The federation before and after one private client has opted out; the others' noise per client is kept, or their sum's
    is.
    """
    each = N_p * gamma2
    then = each if others == "kept" else each * N_p / (N_p - 1)
    return (
        Clients((N_np, N_p), tau2=tau2, alpha2=alpha2, nu2=(ZERO, each)),
        Clients((N_np + 1, N_p - 1), tau2=tau2, alpha2=alpha2, nu2=(ZERO, then)),
    )


@of("fedhdp:optout-helps:server")
def _server_gains(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any, others: str) -> tuple[Decision, ...]:
    before, after = (
        Optimum(LeastCentre(c)) for c in before_and_after(N_np, N_p, gamma2, others, alpha2=sigma2_c - PART, tau2=PART)
    )
    return one(before.symbol - after.symbol, before, after)


@of("fedhdp:optout-helps:same-client")
def _same_client(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    before, after = before_and_after(**v)
    private, public = at_best(before, optimal(before), 1, own_noise), at_best(after, optimal(after), 0, own_noise)
    return one(private.symbol - public.symbol, private, public)


@of("fedhdp:optout-helps:hdp")
def _same_client_hdp(own_noise: int, **v: Any) -> tuple[Decision, ...]:
    before, after = before_and_after(**v)
    private, public = at_best(before, equal(before), 1, own_noise), at_best(after, equal(after), 0, own_noise)
    return one(private.symbol - public.symbol, private, public)


def at_best(clients: Clients, weights: Weights, level: int, own_noise: int) -> Risk:
    """A client's risk at the strength that is best towards these weights."""
    w, noise = weights.per_client(clients)[level], clients.nu2[level]
    shared = Server(clients, weights).closed - (0 if own_noise else w**2 * noise)
    alpha2, tau2 = clients.alpha2[level], clients.tau2[level]
    lam = factored(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) - alpha2 * w))
    return Personal(clients, weights, level, lam, bool(own_noise))
