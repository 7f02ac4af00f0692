"""The models of the generative paper's claims on means: clients' sample means, their plain average, and shrinkage; shares of
ones too, as far as means and variances of prior and samples go.

Belongs here: who has which noise, and what is decided. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.model import (
    BIG,
    MANY,
    NOISE,
    BestMixture,
    Clients,
    Decision,
    LeastClient,
    LeastMixture,
    Limit,
    Mixed,
    Optimum,
    Own,
    Ratios,
    Server,
    Shared,
    Value,
    Weights,
    of,
)

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


@of("generative:thm1:terms")
def _terms(m: Any, n: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    # Given the parameters: a sample mean and the average of all, around what they are means of.
    clients = Clients((m,), alpha2=sigma2_x / n)
    risks = (Own(clients, 0), Server(clients, PLAIN), Shared(clients, PLAIN, 0))
    return tuple(Value(r.symbol, (r,), of=k) for k, r in enumerate(risks))


@of("generative:thm5:local")
def _local(n: Any, d: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    risk = Own(Clients((ONE,), tau2=NOISE, alpha2=sigma2_x / n, copies=d), 0)
    return (Value(risk.symbol, (risk,)),)


@of("generative:remark1:weight")
def _weight_limits(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    federations = (
        Clients((m,), tau2=1 / BIG, alpha2=sigma2_x / n),
        Clients((m,), tau2=BIG, alpha2=sigma2_x / n),
        Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / MANY),
    )
    shares = [Optimum(BestMixture(c, PLAIN, 0, lambda e: e[0])) for c in federations]
    return tuple(Limit(1 - u.symbol, (u,), of=k) for k, u in enumerate(shares))


@of("generative:remark1:limits")
def _error_limits(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    found = []
    for k, tau2 in enumerate((1 / BIG, BIG)):
        risk = shrunk(Clients((m,), tau2=tau2, alpha2=sigma2_x / n, copies=d), weight(tau2, sigma2_x / n))
        found.append(Limit(risk.symbol, (risk,), of=k))
    many = Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / MANY)
    risk, own = shrunk(many, weight(sigma2_theta, sigma2_x / MANY)), Own(many, 0)
    return (*found, Limit(risk.symbol / own.symbol, (risk, own), of=2))


@of("generative:exp:fig4")
def _little_privacy(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, noise2: Any) -> tuple[Decision, ...]:
    # The noise falls like 1 / eps0; the limit holds for anything whose variance is within 1 / big.
    risk = Optimum(LeastMixture(noisy(m, n, sigma2_theta, sigma2_x, noise2 / BIG**2), PLAIN, 0))
    return (Limit(risk.symbol, (risk,)),)


@of("generative:eq46")
def _known_mean(n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    least = Optimum(LeastMixture(around(sigma2_theta, sigma2_x / n), KNOWN, 0))
    return (Value(d * least.symbol, (least,)),)


@of("generative:eq47")
def _estimated_mean(m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Decision, ...]:
    least = Optimum(LeastClient(Clients((m,), tau2=sigma2_theta, alpha2=sigma2_x / n), 0))
    return (Value(d * least.symbol, (least,)),)


# --- shares of ones ------------------------------------------------------------------------------------------------------

KNOWN = Weights((ZERO, ONE))


def around(tau2: Any, s: Any) -> Clients:
    """A client, and the centre itself: the prior's mean is known."""
    return Clients((ONE, ONE), tau2=(tau2, ZERO), alpha2=(s, ZERO))


def _beta(alpha: Any, beta: Any, n: Any) -> tuple[Any, Any]:
    """Variance of a Beta prior, and mean variance of a share of n ones given what was drawn from it."""
    total = alpha + beta
    spread = alpha * beta / (total**2 * (total + 1))
    return spread, alpha * beta / (total * (total + 1) * n)


def posterior_mean(alpha: Any, beta_: Any, n: Any) -> tuple[Mixed, Own]:
    """The posterior mean, which mixes share and prior mean, and the share."""
    clients = around(*_beta(alpha, beta_, n))
    return Mixed(clients, KNOWN, 0, (alpha + beta_) / (alpha + beta_ + n)), Own(clients, 0)


@of("generative:bern:posterior")
def _posterior(alpha: Any, beta: Any, n: Any) -> tuple[Decision, ...]:
    clients = around(*_beta(alpha, beta, n))
    return (
        BestMixture(clients, KNOWN, 0, lambda e: 1 - e[0]),
        BestMixture(clients, KNOWN, 0, lambda e: e[1] * (alpha + beta) / alpha, of=None),  # times the prior's mean
    )


@of("generative:bern:known-mse")
def _known_prior(alpha: Any, beta: Any, n: Any) -> tuple[Decision, ...]:
    risk, _ = posterior_mean(alpha, beta, n)
    return (Value(risk.symbol, (risk,)), LeastMixture(risk.clients, KNOWN, 0))


@of("generative:bern:known-mse:local")
def _share_alone(alpha: Any, beta: Any, n: Any) -> tuple[Decision, ...]:
    _, own = posterior_mean(alpha, beta, n)
    return (Value(own.symbol, (own,)),)


@of("generative:bern:known-mse:gain")
def _gain(alpha: Any, beta: Any, n: Any) -> tuple[Decision, ...]:
    risk, own = posterior_mean(alpha, beta, n)
    return (Value(risk.symbol / own.symbol, (risk, own)), Value(1 - risk.symbol / own.symbol, (risk, own), of=1))


@of("generative:bern:known-mse:limits")
def _shares(alpha: Any, beta: Any, n: Any) -> tuple[Decision, ...]:
    shares = [
        Optimum(BestMixture(around(*v), KNOWN, 0, lambda e: e[0]))
        for v in (_beta(alpha, beta, MANY), _beta(alpha * BIG, beta * BIG, n))
    ]
    return tuple(Limit(1 - u.symbol, (u,), of=k) for k, u in enumerate(shares))


@of("generative:thm3:exact")
def _fixed_weight(alpha: Any, beta: Any, n: Any, m: Any, a: Any) -> tuple[Decision, ...]:
    tau2, s = _beta(alpha, beta, n)
    risk = Mixed(Clients((ONE, m - 1), tau2=tau2, alpha2=s), Weights((ZERO, 1 / (m - 1))), 0, 1 - a)
    return (Value(risk.symbol, (risk,)),)


@of("generative:exp:bernoulli:spread")
def _spread(s: Any, more: Any, n: Any) -> tuple[Decision, ...]:
    # A prior of variance mu (1 - mu) / (s + 1), whatever mu (1 - mu) is; a sample has the rest of mu (1 - mu).
    ratios, risks = [], []
    for total in (s, s + more):
        clients = around(NOISE / (total + 1), NOISE * total / ((total + 1) * n))
        least, own = Optimum(LeastMixture(clients, KNOWN, 0)), Own(clients, 0)
        ratios.append(least.symbol / own.symbol)
        risks += [least, own]
    return (Value(ratios[0] - ratios[1], tuple(risks)),)
