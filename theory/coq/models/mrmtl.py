"""The models of MR-MTL's claims: silos whose private estimates are averaged with equal weights.

A silo's private estimate is what it keeps and what it sends, so that its privacy noise is part of the variance of its own
estimate (alpha2) and there is no further noise in its message.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import (
    BIG,
    NOISE,
    PART,
    Attains,
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
    Limit,
    Mixed,
    Optimum,
    Own,
    Personal,
    PivotBest,
    Ratios,
    Server,
    Unimodal,
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


def one(expression: Any, *risks: Any, entry: int = 0) -> Value:
    """A single value."""
    return Value(expression, risks, of=entry)


def records(n: Any, sigma2: Any, sigma2_dp: Any) -> Server:
    """The average of a silo's records, with the mechanism's noise on their sum shared by the records."""
    return Server(Clients((n,), alpha2=sigma2, nu2=sigma2_dp / n), PLAIN)


@of("mrmtl:eq5")
def _private_mean(n: Any, sigma2: Any, sigma2_dp: Any) -> tuple[Decision, ...]:
    risk = records(n, sigma2, sigma2_dp)
    return (one(risk.symbol, risk),)


@of("mrmtl:eq2")
def _walk(eta: Any, c: Any, T: Any, n: Any, eps: Any, log_inverse_delta: Any, constant: Any) -> tuple[Decision, ...]:
    # Noises of T steps are messages around a model without noise; -eta/n times their sum is -T eta/n times their average.
    risk = Server(Clients((T,), nu2=constant * c**2 * T * log_inverse_delta / eps**2), PLAIN)
    return (one((T * eta / n) ** 2 * risk.symbol, risk),)


@of("mrmtl:eq39")
def _private_means(n: Any, n_k: Any, sigma2_k: Any, sigma2_dp_k: Any) -> tuple[Decision, ...]:
    risks = [records(*v) for v in zip(n_k, sigma2_k, sigma2_dp_k, strict=True)]
    return tuple(one(r.symbol, r, entry=k) for k, r in enumerate(risks))


@of("mrmtl:train-lambda")
def _training(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Decision, ...]:
    # The target is the mean of the silo's data: it spreads as parameters and records do, and noise is its estimate's error.
    clients = Clients((K,), tau2=tau2 + sigma2 / n, alpha2=sigma2_dp / n**2)
    return (BestStrength(clients, PLAIN, 0, True),)


def with_others(K: Any, own: Any, rest: Any, tau2: Any) -> Clients:
    """A silo, and K - 1 others alike."""
    return Clients((ONE, K - 1), tau2=tau2, alpha2=(own, rest))


@of("mrmtl:eq29")
def _others(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    return around_both(with_others(K, sigma2_loc, sigma2_loc, tau2), Weights((ZERO, 1 / (K - 1))), 0)


@of("mrmtl:eq43")
def _unequal_others(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return around_both(unequal(sigma2_loc_k, tau2), Weights(_mean_of_others(sigma2_loc_k, k)), k)


def _mean_of_others(sigma2_loc_k: Any, k: int) -> tuple[Any, ...]:
    return tuple(ZERO if j == k else ONE / (len(sigma2_loc_k) - 1) for j in range(len(sigma2_loc_k)))


def around_both(clients: Clients, weights: Weights, k: int) -> tuple[Decision, ...]:
    """Variance of a server's estimate around the centre, and around a silo's parameter."""
    server, pivot = Server(clients, weights), Mixed(clients, weights, k, ONE)
    return (one(server.symbol, server), one(pivot.symbol, pivot, entry=1))


@of("mrmtl:prop6.5:local")
def _alone(given_data: int, K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Decision, ...] | None:
    if given_data:
        return None  # an expectation given data is not Model.v's
    risk = Own(silos(K, local(n, sigma2, sigma2_dp), tau2), 0)
    return (one(risk.symbol, risk),)


@of("mrmtl:prop6.6:fed")
def _all(given_data: int, K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, d: Any) -> tuple[Decision, ...] | None:
    if given_data:
        return None
    risk = Mixed(silos(K, local(n, sigma2, sigma2_dp), tau2), PLAIN, 0, ONE)
    return (one(risk.symbol, risk),)


@of("mrmtl:eq32")
def _matched(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    clients = silos(K, sigma2_loc, tau2)
    return (
        BestMixture(clients, PLAIN, 0, lambda e: (1 - e[0]) * K / (K - 1)),
        BestBlend(clients, 0, lambda e: (e[0], (1 - e[0]) / (K - 1))),
    )


@of("mrmtl:eq48")
def _matched_unequal(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    count = sp.Integer(len(sigma2_loc_k))
    clients = unequal(sigma2_loc_k, tau2)
    return (BestMixture(clients, _plain(sigma2_loc_k), k, lambda e: (1 - e[0]) * count / (count - 1)),)


@of("mrmtl:lem6.7:quasiconvex")
def _one_valley(step: Any, K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    return (Unimodal(silos(K, sigma2_loc, tau2), PLAIN, 0, sigma2_loc / tau2, of=None),)


def cost(lam: Any, K: Any, public: Any, noise: Any) -> tuple[Any, Personal, Personal]:
    """What privacy noise adds to the error at a strength, whatever the spread."""
    private, without = (Personal(silos(K, v, PART), PLAIN, 0, lam, True) for v in (public + noise, public))
    return private.symbol - without.symbol, private, without


@of("mrmtl:thm6.8:conditional")
def _cost_on_average(conditional: int, d: Any, d_private: Any, **v: Any) -> tuple[Decision, ...] | None:
    return None if conditional else _cost(**v)


@of("mrmtl:thm6.8:falls")
def _cost_falls(lam: Any, step: Any, K: Any, n: Any, sigma2_dp: Any) -> tuple[Decision, ...]:
    first, second = (cost(x, K, NOISE, sigma2_dp / n**2) for x in (lam, lam + step))
    return (one(first[0] - second[0], *first[1:], *second[1:]),)


@of("mrmtl:thm6.8:factor")
def _factor(lam: Any, K: Any) -> tuple[Decision, ...]:
    alone, ours = cost(ZERO, K, NOISE, NOISE), cost(lam, K, NOISE, NOISE)
    far = cost(BIG, K, NOISE, NOISE)
    return (
        Value(alone[0] / ours[0], (*alone[1:], *ours[1:])),
        Limit(alone[0] / far[0], (*alone[1:], *far[1:]), of=1),
    )


@of("mrmtl:thmE.5:outlier")
def _further_out(K: Any, tau2: Any, sigma2_own: Any, sigma2_rest: Any, more: Any) -> tuple[Decision, ...]:
    # 1 / lam is 1 / u - 1, u the share of the plain average in the best mixture.
    plain = Ratios((ONE, ONE))
    base, own, rest = (
        Optimum(BestMixture(with_others(K, *v, tau2), plain, 0, lambda e: e[0]))
        for v in ((sigma2_own, sigma2_rest), (sigma2_own + more, sigma2_rest), (sigma2_own, sigma2_rest + more))
    )
    return (
        one(1 / base.symbol - 1 / own.symbol, base, own),
        one(1 / rest.symbol - 1 / base.symbol, base, rest, entry=1),
    )


@of("mrmtl:gaps:sign")
def _no_end_is_better(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Decision, ...]:
    alone, shared, ours = three(K, sigma2_loc, tau2)
    return (one(alone.symbol - ours.symbol, alone, ours), one(shared.symbol - ours.symbol, shared, ours, entry=1))


def three(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Own, Mixed, Optimum]:
    """Local training, FedAvg, and MR-MTL at the best of all mixtures of the two."""
    clients = silos(K, sigma2_loc, tau2)
    return Own(clients, 0), Mixed(clients, PLAIN, 0, ONE), Optimum(LeastMixture(clients, PLAIN, 0))


@of("mrmtl:gaps:privacy")
def _gaps_move(K: Any, sigma2_loc: Any, tau2: Any, more: Any) -> tuple[Decision, ...]:
    (a, f, x), (b, g, y) = (three(K, s, tau2) for s in (sigma2_loc, sigma2_loc + more))
    grows, falls = (b.symbol - y.symbol) - (a.symbol - x.symbol), (f.symbol - x.symbol) - (g.symbol - y.symbol)
    return (one(grows, a, x, b, y), one(falls, f, x, g, y, entry=1))


@of("mrmtl:thm6.3:privacy")
def _strength_grows(n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, more: Any) -> tuple[Decision, ...]:
    # The best strength does not depend on the number of silos; here there are two.
    before, after = (
        Optimum(BestStrength(silos(sp.Integer(2), local(n, sigma2, x), tau2), PLAIN, 0, True))
        for x in (sigma2_dp, sigma2_dp + more)
    )
    return (one(after.symbol - before.symbol, before, after),)


@of("mrmtl:negative:gap")
def _fallback(K: Any, tau2: Any, sigma2_rest: Any, excess: Any) -> tuple[Decision, ...]:
    clients = with_others(K, K * tau2 + sigma2_rest + excess, sigma2_rest, tau2)
    plain = Ratios((ONE, ONE))
    shared, ours = Mixed(clients, plain, 0, ONE), Optimum(LeastMixture(clients, plain, 0))
    return (one(shared.symbol - ours.symbol, shared, ours),)


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


@of("mrmtl:thmE.5")
def _unequal_strength(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return (BestStrength(unequal(sigma2_loc_k, tau2), _plain(sigma2_loc_k), k, True),)


@of("mrmtl:negative")
def _outlier(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    return (PivotBest(unequal(sigma2_loc_k, tau2), _plain(sigma2_loc_k), k),) if _is_silo(sigma2_loc_k, k) else None


@of("mrmtl:thmE.5:mmse", "mrmtl:mmse:loss")
def _excess(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    clients = unequal(sigma2_loc_k, tau2)
    ours, bayes = Optimum(LeastMixture(clients, _plain(sigma2_loc_k), k)), Optimum(LeastClient(clients, k))
    return (one(ours.symbol - bayes.symbol, ours, bayes),)


def ended(sigma2_loc_k: Any, strengths: tuple[Any, ...]) -> Weights:
    """The pivot of Algorithm A1: silo j's update is its distance to the pivot, by 1 / (1 + lam_j)."""
    return Ratios(tuple(1 / (1 + lam) for lam in strengths))


@of("mrmtl:thmE.5:algA1")
def _algorithm(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return (Attains(unequal(sigma2_loc_k, tau2), _centre(sigma2_loc_k, tau2), k, True),)


@of("mrmtl:thmE.5:algA1:error")
def _algorithm_loss(sigma2_low: Any, more: Any, slack: Any, k: int) -> tuple[Decision, ...]:
    variances = (sigma2_low, sigma2_low + more)
    tau2 = slack + more / 2
    clients = unequal(variances, tau2)
    strengths = tuple(s / (tau2 + (variances[1 - j] - s) / 2) for j, s in enumerate(variances))
    risk = Personal(clients, ended(variances, strengths), k, strengths[k], True)
    best = Optimum(LeastMixture(clients, _plain(variances), k))
    return (one(risk.symbol - best.symbol, risk, best),)


@of("mrmtl:thmE.5:bayes")
def _bayes(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    return (LeastClient(unequal(sigma2_loc_k, tau2), k),) if _is_silo(sigma2_loc_k, k) else None


@of("mrmtl:mmse:strength")
def _completed(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    return (BestStrength(unequal(sigma2_loc_k, tau2), _centre(sigma2_loc_k, tau2), k, True),)


@of("mrmtl:mmse", "mrmtl:algA1:bayes")
def _attained(sigma2_loc_k: Any, tau2: Any, k: int) -> tuple[Decision, ...] | None:
    if not _is_silo(sigma2_loc_k, k):
        return None
    s = sigma2_loc_k[k]
    return (AttainsMixed(unequal(sigma2_loc_k, tau2), _centre(sigma2_loc_k, tau2), k, s / (s + tau2)),)
