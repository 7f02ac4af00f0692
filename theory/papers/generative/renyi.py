"""Renyi differential privacy, its conversion and composition: Appendix A.

Belongs here: Definition 3, Lemmas 2 and 3. Does not belong here: DP-AdaPeD (privacy.py), local privacy of means and bits.
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy as sp

from estimators.accounting import privacy
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.generative.federation import ANY_ORDER, DIGITS, mpf

# --- Definition 3 ----------------------------------------------------------------------------------------------------

P_YES = Variable("p", "fraction", "probability of one answer on D", extreme=False)
Q_YES = Variable("q", "fraction", "probability of that answer on D'", extreme=False)
WHOLE = Variable("order", "choice", "Renyi order, a whole number", choices=(2, 3, 4, 5))


def _def3_derive(p: Any, q: Any, order: int) -> Derivation:
    d = Derivation()
    d.say("Renyi's divergence of P = M(D) from Q = M(D') is log(sum P^order Q^(1-order))/(order-1).")
    terms = ((p, q), (1 - p, 1 - q))
    d.say("For a mechanism with two answers the sum has two terms:", tuple(a**order * b ** (1 - order) for a, b in terms))
    return d.conclude("exp((order-1) D) =", sum(a**order * b ** (1 - order) for a, b in terms))


def _def3_oracle(p: Any, q: Any, order: int) -> Any:
    """The moment generating function of the privacy loss log(P/Q) under P, at order - 1."""
    return p * (p / q) ** (order - 1) + (1 - p) * ((1 - p) / (1 - q)) ** (order - 1)


def _def3_computed(p: float, q: float, order: int) -> float:
    import numpy as np

    divergence = privacy.renyi_divergence([p, 1 - p], [q, 1 - q], order=order)
    return float(np.exp((order - 1) * divergence))


register(
    Claim(
        id="generative:def3",
        title="Renyi differential privacy",
        place="Appendix A.1, Definition 3",
        statement="The expectation under M(D') of the density ratio to the power lambda is exp((lambda-1) D_lambda). Judged "
        "on mechanisms with two answers: exp((order-1) D).",
        latex=r"D_{\lambda}(\mathcal{M}(\mathcal{D})||\mathcal{M}(\mathcal{D}'))=\frac{1}{\lambda-1}\log\left(\mathbb{E}_{"
        r"\theta\sim\mathcal{M}(\mathcal{D}')}\left[\left(\frac{\mathcal{M}(\mathcal{D})(\theta)}{\mathcal{M}(\mathcal{D}')("
        r"\theta)}\right)^{\lambda}\right]\right)",
        kind="identity",
        variables=(P_YES, Q_YES, WHOLE),
        examples=({"p": "1/2", "q": "1/4", "order": 2}, {"p": "2/3", "q": "1/3", "order": 4}),
        printed=lambda p, q, order: q * (p / q) ** order + (1 - q) * ((1 - p) / (1 - q)) ** order,
        derive=_def3_derive,
        oracle=_def3_oracle,
        computed=_def3_computed,
        not_simulated="a divergence",
        unit="dimensionless",
        remark="Neighbours of Definition 3 are those of Section A.1, one record replaced; with Section A.3 one user's "
        "records. Both orders of a pair are neighbours, so both divergences must be bounded. (Definition 2 beside it prints "
        "e^eps0 where its own letter is eps.)",
    )
)


# --- Lemma 2 ---------------------------------------------------------------------------------------------------------

RDP = Variable("rdp", "nonnegative", "Renyi divergence eps(lambda) at the order, in nats", within=(0, 10))
EPS = Variable("eps", "positive", "the target epsilon", within=("1/100", 20))
DELTA = Variable("delta", "positive", "the target delta", within=("1e-9", "1/2"))


def _largest_loss(d: Derivation, order: Any, eps: Any) -> Any:
    """log of the largest (1 - e^eps/x) x^(1-order) over likelihood ratios x."""
    x = sp.Symbol("x", positive=True)
    d.say("With x the ratio of the densities of P and Q, the smallest delta is E_P[max(0, 1 - e^eps/x)], and the Renyi "
          "divergence is log(E_P[x^(order-1)])/(order-1). So delta <= c exp((order-1) eps(order)) with c the largest of",
          (1 - sp.exp(eps) / x) * x ** (1 - order))  # fmt: skip
    d.say("Its logarithm has the derivative", sp.diff(sp.log(x - sp.exp(eps)) - order * sp.log(x), x))
    best = d.say("which vanishes at x =", sp.exp(eps) * order / (order - 1))
    d.say("There 1 - e^eps/x =", 1 / order)
    return d.say("and log c = -log(order) - (order-1) log(x) with log(x) = eps + log(order/(order-1)):",
                 -sp.log(order) - (order - 1) * (eps - sp.log(1 - 1 / order))), best  # fmt: skip


def _delta_derive(rdp: Any, order: Any, eps: Any) -> Derivation:
    d = Derivation()
    log_c, _ = _largest_loss(d, order, eps)
    log_delta = sp.expand(log_c.subs(sp.log(order), sp.log(order - 1) - sp.log(1 - 1 / order))) + (order - 1) * rdp
    d.say("Write log(order) = log(order-1) - log(1 - 1/order). Then log delta =", log_delta)
    return d.conclude("delta =", sp.exp((order - 1) * (rdp - eps)) / (order - 1) * (1 - 1 / order) ** order)


def _worst_ratio(order: Any, eps: Any) -> Any:
    """log of the largest (1 - e^(eps-y)) e^(-(order-1) y) over y = log of the likelihood ratio, by Newton's method.

    The slope 1/(e^t - 1) - (order - 1), t = y - eps, is convex and falls, so that the steps from the left cannot overshoot.
    """
    t = mpmath.mpf(10) ** -3
    for _ in range(60):
        grown = mpmath.expm1(t)
        move = (1 / grown - (order - 1)) * grown**2 / (1 + grown)
        t += move
        if move < mpmath.mpf(10) ** -60:
            break
    return mpmath.log(-mpmath.expm1(-t)) - (order - 1) * (eps + t)


def _delta_oracle(rdp: Any, order: Any, eps: Any) -> Any:
    with mpmath.workdps(DIGITS):
        r, a, e = (mpf(x) for x in (rdp, order, eps))
        value = mpmath.exp(_worst_ratio(a, e) + (a - 1) * r)
        return sp.Float(str(value), DIGITS - 10)


_LEMMA2 = {
    "place": "Appendix A.2, Lemma 2",
    "kind": "upper bound",
    "not_simulated": "a divergence",
    "assumptions": ("adjacency is that of the Renyi guarantee", "the minimum is over the orders at which it is known"),
}

register(
    Claim(
        id="generative:lemma2:delta",
        title="delta from a Renyi divergence, for a given eps",
        statement="(lambda, eps(lambda))-RDP gives (eps, delta)-DP with this delta, for every order. Judged: the smallest "
        "delta that follows from the divergence at this order by bounding the privacy loss pointwise.",
        latex=r"\delta=\min_{\lambda}\frac{\exp\left((\lambda-1)(\epsilon(\lambda)-\epsilon)\right)}{\lambda-1}\left(1-"
        r"\frac{1}{\lambda}\right)^{\lambda}",
        variables=(RDP, ANY_ORDER, EPS),
        examples=({"rdp": "1/2", "order": 4, "eps": 2}, {"rdp": 1, "order": 10, "eps": 3}),
        printed=lambda rdp, order, eps: sp.exp((order - 1) * (rdp - eps)) / (order - 1) * (1 - 1 / order) ** order,
        derive=_delta_derive,
        oracle=_delta_oracle,
        computed=lambda rdp, order, eps: _float_delta(rdp, order, eps),
        unit="probability",
        remark="Canonne, Kamath and Steinke (2020), proposition 12. estimators.accounting.privacy.delta_from_rdp also takes "
        "the smaller of it and sqrt(1 - exp(-eps(lambda))).",
        **_LEMMA2,
    )
)


def _float_delta(rdp: float, order: float, eps: float) -> float:
    import numpy as np

    return float(np.exp((order - 1) * (rdp - eps) + order * np.log1p(-1 / order) - np.log(order - 1)))


def _eps_derive(rdp: Any, order: Any, delta: Any) -> Derivation:
    d = Derivation()
    eps = sp.Symbol("eps", real=True)
    log_c, _ = _largest_loss(d, order, eps)
    log_delta = d.say("So log delta = (order-1) eps(order) + log c =", (order - 1) * rdp + log_c)
    d.say("It is linear in eps; solved for eps:", sp.solve(sp.Eq(sp.Symbol("log_delta"), log_delta), eps)[0])
    return d.conclude("eps =", rdp - (sp.log(delta) + sp.log(order)) / (order - 1) + sp.log(1 - 1 / order))


def _eps_oracle(rdp: Any, order: Any, delta: Any) -> Any:
    """The eps at which the largest loss equals delta; log c is linear in eps, so one secant step is exact."""
    with mpmath.workdps(DIGITS):
        r, a, target = mpf(rdp), mpf(order), mpmath.log(mpf(delta))
        at = [(a - 1) * r + _worst_ratio(a, mpmath.mpf(e)) for e in (1, 2)]
        return sp.Float(str(1 + (target - at[0]) / (at[1] - at[0])), DIGITS - 10)


def _float_eps(rdp: float, order: float, delta: float) -> float:
    import numpy as np

    return float(rdp + np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1))


register(
    Claim(
        id="generative:lemma2:eps",
        title="eps from a Renyi divergence, for a given delta",
        statement="(lambda, eps(lambda))-RDP gives (eps, delta)-DP with this eps, for every order. Judged: the smallest eps "
        "that follows from the divergence at this order by bounding the privacy loss pointwise.",
        latex=r"\epsilon=\min_{\lambda}\epsilon(\lambda)+\frac{\log(1/\delta)+(\lambda-1)\log(1-1/\lambda)-\log(\lambda)}"
        r"{\lambda-1}",
        variables=(RDP, ANY_ORDER, DELTA),
        examples=({"rdp": "1/2", "order": 4, "delta": "1e-5"}, {"rdp": 1, "order": 10, "delta": "1/1000"}),
        printed=lambda rdp, order, delta: (
            rdp + (sp.log(1 / delta) + (order - 1) * sp.log(1 - 1 / order) - sp.log(order)) / (order - 1)
        ),
        derive=_eps_derive,
        oracle=_eps_oracle,
        computed=_float_eps,
        unit="nats",
        remark="Balle et al. (2020), theorem 21. It can come out below 0 for a large delta and is then still valid, as the "
        "argument holds for every real eps; estimators.accounting.privacy.epsilon_from_rdp reports 0 there. The minimum is "
        "over all orders > 1 and need not be attained.",
        **_LEMMA2,
    )
)


# --- Lemma 3 ---------------------------------------------------------------------------------------------------------

E1 = Variable("E1", "positive", "e^eps - 1 of the first mechanism, a randomised response", extreme=False)
MOMENT = Variable("moment", "positive", "exp((order-1) D) of the second mechanism after the answer 0, less 1", extreme=False)
MORE = Variable("more", "nonnegative", "what it is larger by after the answer 1", extreme=False)


def _response(E1: Any) -> tuple[tuple[Any, Any], ...]:
    """Answers 0 and 1: probability on D and on D'."""
    e = 1 + E1
    return (1 / (1 + e), e / (1 + e)), (e / (1 + e), 1 / (1 + e))


def _lemma3_derive(E1: Any, moment: Any, more: Any, order: int) -> Derivation:
    d = Derivation()
    first = _response(E1)
    second = (1 + moment, 1 + moment + more)
    d.say("The joint density of both answers factorises into the first law and the second's, given the first answer.")
    d.say("First factor p^order q^(1-order) for the answers 0 and 1:", tuple(p**order * q ** (1 - order) for p, q in first))
    d.say("Given the answer, the second mechanism contributes exp((order-1) D):", second)
    total = sum(p**order * q ** (1 - order) * s for (p, q), s in zip(first, second, strict=True))
    return d.conclude("exp((order-1) D) of both answers together:", sp.factor(total))


def _lemma3_oracle(E1: Any, moment: Any, more: Any, order: int) -> Any:
    """Enumerate both answers. The second mechanism says 0 on D, and on D' 0 with a probability set by the first answer."""
    with mpmath.workdps(DIGITS):
        total = mpmath.mpf(0)
        for (p1, q1), value in zip(_response(E1), (1 + moment, 1 + moment + more), strict=True):
            b = mpf(value) ** (mpmath.mpf(-1) / (order - 1))
            for p2, q2 in ((mpmath.mpf(1), b), (mpmath.mpf(0), 1 - b)):
                total += (mpf(p1) * p2) ** order * (mpf(q1) * q2) ** (1 - order) if p2 else 0
        return sp.Float(str(total), DIGITS - 10)


register(
    Claim(
        id="generative:lemma3",
        title="Adaptive composition of Renyi divergences",
        place="Appendix A.2, Lemma 3",
        statement="The divergences of two mechanisms, the second of which may depend on the first answer, add up at most. "
        "Judged as exp((order-1) D): randomised response first, then any mechanism whose divergence depends on the answer.",
        latex=r"(\mathcal{M}_{1},\mathcal{M}_{2})\ \text{satisfies}\ (\lambda,\epsilon_{1}(\lambda)+\epsilon_{2}(\lambda))"
        r"\text{-RDP}",
        kind="upper bound",
        variables=(E1, MOMENT, MORE, WHOLE),
        examples=({"E1": 1, "moment": "1/2", "more": "1/2", "order": 2}, {"E1": 1, "moment": "1/2", "more": 0, "order": 3}),
        printed=lambda E1, moment, more, order: (
            sum(p**order * q ** (1 - order) for p, q in _response(E1)) * (1 + moment + more)
        ),
        relation="<=",
        derive=_lemma3_derive,
        oracle=_lemma3_oracle,
        not_computed="a statement on laws; sums of divergences are computed in estimators.accounting.privacy.compose",
        not_simulated="a divergence",
        unit="dimensionless",
        related=("generative:def3",),
        remark="An equality when the second divergence does not depend on the first answer. The bound needs the second "
        "mechanism to be private for every first answer, as (lambda, eps_2)-RDP on Y_1 x X says.",
    )
)
