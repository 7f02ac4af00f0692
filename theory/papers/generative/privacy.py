"""Privacy of DP-AdaPeD (Theorem 7) and the Renyi lemmas of Appendix A.

Belongs here: (67)-(69), Definition 3, Lemmas 2 and 3, and a bound for DP-AdaPeD that holds. Does not belong here:
local privacy of means and bits, estimation.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
import sympy as sp

from estimators.accounting import adaped, privacy
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register

ONE = sp.Integer(1)
DIGITS = 70
SHIFT = {"replace": 2, "zero-out": 1}
TAU = Variable("tau", "size", "local steps per round")
K = Variable("K", "size", "clients per round")
M = Variable("m", "size", "clients in all")
C1 = Variable("C1", "positive", "clipping norm of the common model's gradients", extreme=False)
SIGMA2_Q1 = Variable("sigma2_q1", "positive", "noise variance per step and coordinate", extreme=False)
T = Variable("T", "size", "local steps in all")
ORDER = Variable("order", "size", "Renyi order, a whole number", low=2, within=(2, 12))
ANY_ORDER = Variable("order", "positive", "Renyi order", within=("11/10", 20))
ADJACENCY = Variable(
    "adjacency",
    "choice",
    "replace: one client's data are replaced by other data; zero-out: its gradients are set to zero",
    choices=("replace", "zero-out"),
    default="replace",
)


def mpf(value: Any) -> Any:
    """An exact number as a long float (inside a `workdps` block)."""
    value = sp.sympify(value)
    return mpmath.mpf(int(value.p)) / int(value.q)


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


# --- Theorem 7 -------------------------------------------------------------------------------------------------------


def _sensitivity_derive(tau: Any, K: Any, C1: Any, adjacency: str) -> Derivation:
    d = Derivation()
    d.say("In units of the learning rate, client i sends mu minus the sum of its tau clipped gradients, each of norm <= C1.")
    step = d.say("Between neighbours one clipped gradient changes by at most", SHIFT[adjacency] * C1)
    d.say("reached by gradients in one fixed direction on D, and "
          + ("against it on D'." if adjacency == "replace" else "zero on D'."))  # fmt: skip
    total = d.say("All tau steps may point the same way, so the client's message moves by", tau * step)
    return d.conclude("The average of K messages moves by a K-th of it; its square:", (total / K) ** 2)


def _sensitivity_oracle(tau: Any, K: Any, C1: Any, adjacency: str) -> Any:
    """Largest squared change of the average over every choice of extreme gradients of all clients in all steps."""
    here = {-C1, C1, sp.Integer(0)}
    there = here if adjacency == "replace" else {sp.Integer(0)}
    sums = {sum(g) for g in product(here, repeat=int(tau))}
    other = {sum(g) for g in product(there, repeat=int(tau))}
    rest = [C1] * (int(K) - 1) * int(tau)  # the same on both sides, whatever it is
    return max(((sum(rest) + a) / K - (sum(rest) + b) / K) ** 2 for a in sums for b in other)


register(
    Claim(
        id="generative:thm7:sensitivity",
        title="Sensitivity of the averaged model after tau local steps",
        place="Section 6.3, (67)",
        statement="Largest squared Euclidean change of the average of K clients' models, noise neglected, when one of them "
        "differs.",
        latex=r"\Delta\bm{\mu}=\max_{\mathcal{K}^{t},\mathcal{K}^{{}^{\prime}t}}\|\bm{\mu}^{t+1}-\bm{\mu}^{\prime t+1}"
        r"\|_{2}^{2}\leq\frac{\tau C_{1}^{2}}{K^{2}}",
        kind="upper bound",
        variables=(TAU, K, C1, ADJACENCY),
        examples=(
            {"tau": 3, "K": 2, "C1": 1, "adjacency": "replace"},
            {"tau": 2, "K": 1, "C1": "1/2", "adjacency": "zero-out"},
        ),
        printed=lambda tau, K, C1: tau * C1**2 / K**2,
        relation="<=",
        derive=_sensitivity_derive,
        oracle=_sensitivity_oracle,
        corrected=lambda tau, K, C1, adjacency: SHIFT[adjacency] ** 2 * tau**2 * C1**2 / K**2,
        corrected_text="4 tau^2 C1^2 / K^2 where one client is replaced by another, tau^2 C1^2 / K^2 where its gradients "
        "are set to zero",
        counterexample={"tau": 2, "K": 1, "C1": 1, "adjacency": "zero-out"},
        computed=lambda tau, K, C1, adjacency: (adaped.SHIFTS[adjacency] * tau * C1 / K) ** 2,
        not_simulated="deterministic",
        unit="squared norm of the model, with learning rate 1",
        remark="Norms add, not squared norms: tau steps in one direction move the model by tau C1. The paper's neighbouring "
        "sets K^t, K'^t of one size K exchange one client for another, which doubles the change. Not a slip of the pen: "
        "(68) divides by the noise tau sigma2_q1/K, and the tau that cancels there is the one missing here. The learning "
        "rate eta_2, which scales model and noise alike, is left out.",
    )
)


def _mixture_terms(order: int, q: Any, mu2: Any) -> list[tuple[Any, Any]]:
    """Weights and exponents of E_Q[(1 - q + q dP/dQ)^order] for Gaussians at distance mu."""
    return [
        (sp.binomial(order, k) * (1 - q) ** (order - k) * q**k, sp.Integer(k * (k - 1)) * mu2 / 2) for k in range(order + 1)
    ]


class Share(sp.Function):
    """Probability K/m that a client takes part in a round; 1 where a round asks for more clients than there are."""

    nargs = 2

    @classmethod
    def eval(cls, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value for numbers; None, which leaves it as it is, for symbols."""
        taking_part, clients = arguments
        if taking_part.free_symbols or clients.free_symbols:
            return None
        return ONE if clients <= taking_part else taking_part / clients


class SampledGaussian(sp.Function):
    """Renyi divergence of (1-q) N(0,1) + q N(mu,1) from N(0,1) at a whole order; arguments order, q, mu^2."""

    nargs = 3

    @classmethod
    def eval(cls, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value for numbers; None, which leaves it as it is, for symbols."""
        order, q, mu2 = arguments
        if q == 1:
            return order * mu2 / 2
        if not order.is_Integer or q.free_symbols or mu2.free_symbols:
            return None
        moment = sum(w * sp.exp(x) for w, x in _mixture_terms(int(order), q, mu2))
        return sp.log(moment) / (order - 1)


def _federation_derive(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, adjacency: str) -> Derivation:
    d = Derivation()
    d.say("An explicit federation: every client's clipped gradients are constant, all others' as client i's are on D'.")
    d.say("The average of K clients then has noise of variance tau sigma2_q1/K, and moves by s tau C1/K when client i, "
          "taking part, has the data of D; s = 1 (zero-out) or 2 (replace).")  # fmt: skip
    mu2 = d.say("Squared shift over variance:", SHIFT[adjacency] ** 2 * tau * C1**2 / (K * sigma2_q1))
    d.say("Client i takes part with probability q = K/m, and the average does not show who did: on D the law is "
          "(1-q) N(0, .) + q N(shift, .), on D' it is N(0, .).")  # fmt: skip
    one = d.say("Renyi divergence of one round, log(sum_k C(order,k) (1-q)^(order-k) q^k exp(k(k-1) mu^2/2))/(order-1):",
                SampledGaussian(order, Share(K, m), mu2))  # fmt: skip
    return d.conclude("Rounds are independent, and there are T/tau of them:", T / tau * one)


def _federation_oracle(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, adjacency: str) -> Any:
    """Which of `order` independent copies of the round include client i, one at a time: a two-state expansion in "
    "numbers."""
    with mpmath.workdps(DIGITS):
        q = mpf(Share(K, m))
        step = mpmath.exp(mpf(SHIFT[adjacency] ** 2 * tau * C1**2 / (K * sigma2_q1)))
        # E_Q[prod_j (1 - q + q L_j)] with L the likelihood ratio: two copies that both include i add a factor `step`.
        law = {0: mpmath.mpf(1)}
        for _ in range(int(order)):
            grown: dict[int, Any] = {}
            for k, w in law.items():
                grown[k] = grown.get(k, 0) + w * (1 - q)
                grown[k + 1] = grown.get(k + 1, 0) + w * q * step**k
            law = grown
        value = mpmath.log(sum(law.values())) / (int(order) - 1) * int(T) / int(tau)
        return sp.Float(str(value), DIGITS - 10)


def _printed_rdp(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any) -> Any:
    return (K / m) ** 2 * 6 * (T / tau) * order * C1**2 / (K * sigma2_q1)


_THM7_LATEX = (
    r"\epsilon(\alpha)=\left(\frac{K}{m}\right)^{2}6\left(\frac{T}{\tau}\right)\alpha\left(\frac{C_{1}^{2}}{K"
    r"\sigma_{q_{1}}^{2}}+\frac{C_{2}^{2}}{K\sigma_{q_{2}}^{2}}\right)"
)

_THM7 = (TAU, K, M, C1, SIGMA2_Q1, T, ORDER, ADJACENCY)


def _federation_computed(tau: int, K: int, m: int, C1: float, sigma2_q1: float, T: int, order: int, adjacency: str) -> float:
    multiplier = (sigma2_q1 * K / tau) ** 0.5 / (SHIFT[adjacency] * C1)
    return privacy.rdp_sampled_gaussian(noise_multiplier=multiplier, sampling_rate=min(1.0, K / m), order=order) * T / tau


register(
    Claim(
        id="generative:thm7:rdp",
        title="Renyi divergence of DP-AdaPeD",
        place="Section 3.5, Theorem 7; Section 6.3, (66), (68)-(69)",
        statement="After T iterations DP-AdaPeD has at most this Renyi divergence. Judged on an explicit federation "
        "(constant clipped gradients, psi kept fixed, that is C2 = 0), whose divergence is known exactly at whole orders.",
        latex=_THM7_LATEX,
        kind="upper bound",
        variables=_THM7,
        examples=(
            {"tau": 4, "K": 1, "m": 1, "C1": 1, "sigma2_q1": 1, "T": 4, "order": 2, "adjacency": "replace"},
            {"tau": 20, "K": 2, "m": 4, "C1": 1, "sigma2_q1": 10, "T": 20, "order": 3, "adjacency": "zero-out"},
        ),
        printed=_printed_rdp,
        relation="<=",
        derive=_federation_derive,
        oracle=_federation_oracle,
        corrected=lambda tau, K, m, C1, sigma2_q1, T, order, adjacency: (
            T / tau * SampledGaussian(order, Share(K, m), SHIFT[adjacency] ** 2 * tau * C1**2 / (K * sigma2_q1))
        ),
        corrected_text="at least (T/tau) times the divergence of the sampled Gaussian mechanism with rate K/m and squared "
        "shift over variance s^2 tau C1^2/(K sigma2_q1), s = 2 (replace) or 1 (zero-out); a bound that holds is "
        "generative:thm7:valid",
        counterexample={
            "tau": 4, "K": 1, "m": 1, "C1": 1, "sigma2_q1": 1, "T": 4, "order": 2, "adjacency": "replace",
        },
        computed=_federation_computed,
        not_simulated="a divergence",
        unit="nats",
        related=("generative:thm7:sensitivity", "generative:lemma3"),
        assumptions=("trusted server: only averages are seen", "m below K is read as full participation"),
        remark="The factor tau of the sensitivity is missing. With every client taking part the exact value is "
        "s^2 alpha T C1^2/(2 K sigma2_q1), so 6 (T/tau) alpha C1^2/(K sigma2_q1) bounds it up to tau = 3 (replace) or 12 "
        "(zero-out) only. With sampling the orders are limited too: generative:thm7:conditions. Nor is the noise of the "
        "average always that of 'a single Gaussian vector' of variance tau sigma2_q1/K: a client whose gradient pulls its "
        "model back erases its earlier noise, and only the last step's sigma2_q1/K is sure to be there.",
    )
)  # fmt: skip


# --- which orders ----------------------------------------------------------------------------------------------------

Q = Variable("q", "fraction", "share K/m of the clients in a round", within=("1/100", "9/10"))
LOAD = Variable("load", "positive", "with small_order, order times C1^2/(K sigma2_q1); else C1^2/(K sigma2_q1) - 4",
                within=("1/50", 1))  # fmt: skip
FEW = Variable("order", "choice", "Renyi order", choices=(2, 3, 5))
SMALL = Variable(
    "small_order",
    "choice",
    "1: order * C1^2/(K sigma2_q1) = load <= 1; 0: C1^2/(K sigma2_q1) = 4 + load, so that order times it exceeds 8",
    choices=(1, 0),
    default=1,
)


def _signal(load: Any, order: Any, small_order: int) -> Any:
    return load / order if small_order else 4 + load


def _orders_derive(q: Any, load: Any, order: int, small_order: int) -> Derivation:
    d = Derivation()
    mu2 = d.say("One local step, gradients set to zero between neighbours; squared shift over variance:",
                _signal(load, order, small_order))  # fmt: skip
    terms = [(w, x) for w, x in _mixture_terms(order, q, mu2) if x != 0]
    moment = 1 + sum(w * (sp.exp(x) - 1) for w, x in terms)
    d.say("E_Q[(1 - q + q dP/dQ)^order], expanded, with the weights' sum 1 taken out:", moment)
    return d.conclude("Renyi divergence of one round:", sp.log(moment) / (order - 1))


def _orders_oracle(q: Any, load: Any, order: int, small_order: int) -> Any:
    return _federation_oracle(ONE, q.p, q.q, ONE, 1 / (q.p * sp.sympify(_signal(load, order, small_order))), ONE, order,
                              "zero-out")  # fmt: skip


register(
    Claim(
        id="generative:thm7:conditions",
        title="The orders for which subsampling gains the factor (K/m)^2",
        place="Section 3.5, Theorem 7 ('for alpha > 1'); Section 6.3, (68)",
        statement="For every order alpha > 1 one round costs at most 6 (K/m)^2 alpha C1^2/(K sigma2_q1). Judged where the "
        "rest of (68) is right: one local step, a client's gradients set to zero between neighbours.",
        latex=r"\epsilon_{t}^{(1)}(\alpha)=\left(\frac{K}{m}\right)^{2}\frac{6\alpha C_{1}^{2}}{K\sigma_{q_{1}}^{2}}\quad"
        r"\text{for }\alpha>1",
        kind="upper bound",
        variables=(Q, LOAD, FEW, SMALL),
        examples=({"q": "1/3", "load": "1/2", "order": 3}, {"q": "1/10", "load": 1, "order": 2, "small_order": 1}),
        printed=lambda q, load, order, small_order: 6 * q**2 * order * _signal(load, order, small_order),
        relation="<=",
        derive=_orders_derive,
        oracle=_orders_oracle,
        condition=lambda small_order: sp.true if small_order else sp.false,
        condition_text="small_order == 1 (order * C1^2/(K sigma2_q1) <= 1)",
        counterexample={"q": "1/100", "load": 1, "order": 2, "small_order": 0},
        computed=lambda q, load, order, small_order: privacy.rdp_sampled_gaussian(
            noise_multiplier=_signal(load, order, small_order) ** -0.5, sampling_rate=q, order=order
        ),
        not_simulated="a divergence",
        unit="nats",
        remark="Certified for orders 2, 3 and 5. For large orders the divergence grows like order * C1^2/(2 K sigma2_q1) "
        "whatever K/m: sampling takes off only log(m/K)-like terms. The quoted results (Bun et al. 2018; Mironov, Talwar "
        "and Zhang 2019) carry such limits on the order; Theorem 7 drops them. With small orders 6 has slack: 1/2 is the "
        "limit.",
    )
)


# --- a bound that holds ----------------------------------------------------------------------------------------------

C2 = Variable("C2", "nonnegative", "clipping norm of psi's gradients", default=sp.Integer(0), extreme=False)
SIGMA2_Q2 = Variable("sigma2_q2", "positive", "noise variance per step of psi", default=ONE, extreme=False)
REAL_ORDER = Variable("order", "positive", "Renyi order", within=("11/10", 12))


def _valid_formula(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any,
                   adjacency: str) -> Any:  # fmt: skip
    round_ = SHIFT[adjacency] ** 2 * order * tau * (C1**2 / sigma2_q1 + C2**2 / sigma2_q2) / 2
    return T / tau * sp.log(1 + Share(K, m) * (sp.exp((order - 1) * round_) - 1)) / (order - 1)


def _valid_derive(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any,
                  adjacency: str) -> Derivation:  # fmt: skip
    d = Derivation()
    d.say("Let the server see who takes part and every noisy gradient; all it really gets is computed from that.")
    s = d.say(
        "Given the past, a clipped gradient moves between neighbours by at most s clipping norms, s =", SHIFT[adjacency]
    )
    steps = [s**2 * c**2 / v for c, v in ((C1, sigma2_q1), (C2, sigma2_q2))]
    d.say("so a step of mu and a step of psi have Renyi divergences at most order times", tuple(x / 2 for x in steps))
    one = d.say("By Lemma 3 these add up over the tau steps of a round in which client i takes part:",
                order * tau * sum(steps) / 2)  # fmt: skip
    d.say("Gradients that are constant on D and on D' reach it: then the message is Gaussian with shift s tau C1 and "
          "variance tau sigma2_q1, and for psi alike.")  # fmt: skip
    q = d.say("Client i takes part with probability", Share(K, m))
    d.say("whatever its data; in the other rounds nothing differs. So exp((order-1) D) of a round is (1-q) + q "
          "e^((order-1)x):",
          1 + q * (sp.exp((order - 1) * one) - 1))  # fmt: skip
    return d.conclude("and T/tau rounds, sampled afresh, add up to",
                      T / tau * sp.log(1 + q * (sp.exp((order - 1) * one) - 1)) / (order - 1))  # fmt: skip


def _gaussian_moment(order: Any, mu: Any) -> Any:
    """Integral of p^order q^(1-order) for N(mu, 1) and N(0, 1): trapezoids, whose error is below e^-300 for this step."""

    def height(x: Any) -> Any:
        return mpmath.exp(-order * (x - mu) ** 2 / 2 - (1 - order) * x**2 / 2)

    step = mpmath.mpf(1) / 4
    return step * mpmath.fsum(height(order * mu + j * step) for j in range(-70, 71)) / mpmath.sqrt(2 * mpmath.pi)


def _valid_oracle(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any,
                  adjacency: str) -> Any:  # fmt: skip
    """Integrate the densities of what the server sees in a round: absent, or present with two Gaussian sums."""
    with mpmath.workdps(DIGITS + 10):
        a, n = mpf(order), int(tau)
        moment = mpmath.mpf(1)
        for c, v in ((C1, sigma2_q1), (C2, sigma2_q2)):
            shift, deviation = SHIFT[adjacency] * n * mpf(c), mpmath.sqrt(n * mpf(v))
            moment *= _gaussian_moment(a, shift / deviation)
        q = mpf(Share(K, m))
        value = mpmath.log((1 - q) + q * moment) / (a - 1) * int(T) / n
        return sp.Float(str(value), DIGITS)


register(
    Claim(
        id="generative:thm7:valid",
        title="A Renyi bound for DP-AdaPeD that holds with local steps",
        place="Section 3.5, in place of Theorem 7",
        statement="For every order > 1, every number of local steps and every way of drawing clients that includes each "
        "with probability at most K/m, DP-AdaPeD has at most this Renyi divergence for one client's data; it is reached "
        "when the server sees the messages and gradients are constant.",
        latex=r"\epsilon(\alpha)=\frac{T}{\tau}\,\frac{1}{\alpha-1}\log\Big(1+\frac{K}{m}\Big(e^{(\alpha-1)x}-1\Big)\Big),"
        r"\quad x=\frac{s^{2}\alpha\tau}{2}\Big(\frac{C_{1}^{2}}{\sigma_{q_{1}}^{2}}+\frac{C_{2}^{2}}{\sigma_{q_{2}}^{2}}"
        r"\Big)",
        kind="upper bound",
        variables=(TAU, K, M, C1, SIGMA2_Q1, T, REAL_ORDER, C2, SIGMA2_Q2, ADJACENCY),
        examples=(
            {"tau": 4, "K": 1, "m": 3, "C1": 1, "sigma2_q1": 20, "T": 8, "order": 2},
            {"tau": 2, "K": 2, "m": 4, "C1": 1, "sigma2_q1": 10, "T": 10, "order": "7/2", "C2": 1, "sigma2_q2": 10,
             "adjacency": "zero-out"},
        ),
        printed=_valid_formula,
        relation="<=",
        derive=_valid_derive,
        oracle=_valid_oracle,
        computed=lambda tau, K, m, C1, sigma2_q1, T, order, C2, sigma2_q2, adjacency: adaped.adaped_rdp(
            order=order, tau=tau, T=T, K=min(K, m), m=m, C1=C1, sigma2_q1=sigma2_q1, C2=C2, sigma2_q2=sigma2_q2,
            adjacency=adjacency,
        ),
        not_simulated="a divergence",
        unit="nats",
        ours=True,
        related=("generative:lemma3", "generative:thm7:rdp"),
        assumptions=("noise is drawn afresh in every step", "clients are drawn independently of the data, afresh each "
                     "round"),
        remark="With all clients in every round it is s^2 alpha T (C1^2/sigma2_q1 + C2^2/sigma2_q2)/2, whatever tau. It "
        "needs no trusted server. A factor 1/K for averaging is not included: the other clients' noise may be erased by "
        "their own steps, except the last one's.",
    )
)  # fmt: skip


# --- a trusted server ------------------------------------------------------------------------------------------------


def _erased_derive(tau: Any, K: Any, C1: Any, sigma2_q1: Any, order: Any, adjacency: str) -> Derivation:
    d = Derivation()
    d.say("Everyone takes part and only the average is seen. Client i's clipped gradients are constant; the others' "
          "models are "
          "pulled back by each step to where the round started, which erases all noise but the last step's.")  # fmt: skip
    variance = d.say("Noise of the sum of K messages:", tau * sigma2_q1 + (K - 1) * sigma2_q1)
    shift = d.say("Shift between neighbours:", SHIFT[adjacency] * tau * C1)
    return d.conclude("Renyi divergence of the round, against both bounds:", (order * shift**2 / (2 * variance),) * 2)


def _erased_oracle(tau: Any, K: Any, C1: Any, sigma2_q1: Any, order: Any, adjacency: str) -> tuple[Any, Any]:
    """Run the steps on coefficients of every noise draw; squared length of the sum's coefficients."""
    total = {}
    for client in range(int(K)):
        model: dict[int, Any] = {}
        for t in range(int(tau)):
            gradient = {} if client == 0 else dict(model)  # the others pull back all they are off by
            model = {s: c - gradient.get(s, 0) for s, c in model.items()}
            model[t] = model.get(t, 0) - 1
        total |= {(client, t): c for t, c in model.items()}
    spread = sum(c**2 for c in total.values()) * sigma2_q1
    value = order * (SHIFT[adjacency] * tau * C1) ** 2 / (2 * spread)
    return value, value


register(
    Claim(
        id="generative:thm7:averaged",
        title="A bound for one round of DP-AdaPeD seen through its average",
        place="Section 6.3, in place of (68) with every client taking part",
        statement="If only the average is seen and psi is kept fixed, a round's Renyi divergence is at most both of these: "
        "the last steps' noise of all K clients hides a shift of tau clipped gradients, and the client's own noise hides "
        "each of them. Judged on the federation that comes closest: the others' steps erase their own earlier noise.",
        latex=r"\epsilon_t(\alpha)\leq\frac{s^2\alpha C_1^2}{2\sigma_{q_1}^2}\min\Big(\frac{\tau^2}{K},\tau\Big)",
        kind="upper bound",
        variables=(TAU, K, C1, SIGMA2_Q1, ANY_ORDER, ADJACENCY),
        examples=(
            {"tau": 3, "K": 4, "C1": 1, "sigma2_q1": 5, "order": 2},
            {"tau": 1, "K": 10, "C1": 1, "sigma2_q1": 1, "order": 4, "adjacency": "zero-out"},
        ),
        printed=lambda tau, K, C1, sigma2_q1, order, adjacency: tuple(
            SHIFT[adjacency] ** 2 * order * C1**2 / (2 * sigma2_q1) * x for x in (tau**2 / K, tau)
        ),
        relation="<=",
        derive=_erased_derive,
        oracle=_erased_oracle,
        shifts=lambda tau, K: {
            tau: 1 + sp.Symbol("more_steps", nonnegative=True),
            K: 1 + sp.Symbol("others", nonnegative=True),
        },
        not_computed="a bound; estimators.accounting.adaped.adaped_rdp(average=True) uses it",
        not_simulated="a divergence",
        entries=("by the last steps' noise", "by the client's own noise"),
        unit="nats",
        ours=True,
        related=("generative:lemma3", "generative:thm7:sensitivity"),
        assumptions=("C2 = 0: psi is not updated from data", "noise small against C1, so that pulling back is not clipped"),
        remark="Equal to both at tau = 1 and K = 1. First bound: given all earlier noise, the sum is Gaussian with variance "
        "K sigma2_q1 and moves by at most s tau C1. With constant gradients of all clients the divergence is s^2 alpha tau "
        "C1^2/(2 K sigma2_q1), what (68) has in mind but for its factors. psi breaks the first argument, as the others' psi "
        "depends on the noise in their models.",
    )
)  # fmt: skip

__all__ = ["SampledGaussian", "Share", "mpf"]
