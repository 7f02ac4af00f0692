"""Privacy of DP-AdaPeD as printed: Theorem 7 and (66)-(69).

Belongs here: what the paper says of a round and of all of them. Does not belong here: bounds that hold
(privacy_bounds.py), Renyi's lemmas (renyi.py), local privacy of means and bits, estimation.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import adaped, privacy
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.federation import (  # fmt: skip
    ADJACENCY,
    C1,
    C2,
    DIGITS,
    SHIFT,
    SIGMA2_Q1,
    SIGMA2_Q2,
    TAU,
    K,
    M,
    SampledGaussian,
    T,
    mpf,
)

ORDER = Variable("order", "size", "Renyi order, a whole number", low=2, within=(2, 12), why="digits")

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
        statement="""Largest squared Euclidean change of the average of K clients' models, noise neglected, when one of them
            differs.""",
        latex=r"""\Delta\bm{\mu}=\max_{\mathcal{K}^{t},\mathcal{K}^{{}^{\prime}t}}\|\bm{\mu}^{t+1}-\bm{\mu}^{\prime t+1}%
            \|_{2}^{2}\leq\frac{\tau C_{1}^{2}}{K^{2}}""",
        kind="upper bound",
        variables=(TAU, K, C1, ADJACENCY),
        examples=(
            {"tau": 3, "K": 2, "C1": 1, "adjacency": "replace"},
            {"tau": 2, "K": 1, "C1": "1/2", "adjacency": "zero-out"},
        ),
        printed=lambda tau, K, C1: tau * C1**2 / K**2,
        relation="<=",
        finding="""Norms of a client's steps add up, not their squares: the squared change is larger by the number of local
            steps, and four times that where a client is replaced.""",
        derive=_sensitivity_derive,
        oracle=_sensitivity_oracle,
        corrected=lambda tau, K, C1, adjacency: SHIFT[adjacency] ** 2 * tau**2 * C1**2 / K**2,
        corrected_text="""4 tau^2 C1^2 / K^2 where one client is replaced by another, tau^2 C1^2 / K^2 where its gradients
            are set to zero""",
        counterexample={"tau": 2, "K": 1, "C1": 1, "adjacency": "zero-out"},
        computed=lambda tau, K, C1, adjacency: (adaped.SHIFTS[adjacency] * tau * C1 / K) ** 2,
        not_simulated=Exempt(kind="deterministic"),
        assumes={"clipping": "all"},
        unit="squared norm of the model, with learning rate 1",
        remark="""Norms add, not squared norms: tau steps in one direction move the model by tau C1. The paper's neighbouring
            sets K^t, K'^t of one size K exchange one client for another, which doubles the change. Not a slip of the
            pen: (68) divides by the noise tau sigma2_q1/K, and the tau that cancels there is the one missing here. The
            learning rate eta_2, which scales model and noise alike, is left out.""",
    )
)


def _federation_derive(
    tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any, adjacency: str
) -> Derivation:
    d = Derivation()
    d.say("An explicit federation: every client's clipped gradients are constant, all others' as client i's are on D'.")
    d.say("""The averages of K clients then have noise of variance tau sigma2_q1/K and tau sigma2_q2/K, and move by s tau
        C1/K and s tau C2/K when client i, taking part, has the data of D; s = 1 (zero-out) or 2 (replace).""")  # fmt: skip
    mu2 = d.say(
        "Squared shifts over variances, added up:",
        sum((SHIFT[adjacency] * tau * c / K) ** 2 / (tau * v / K) for c, v in ((C1, sigma2_q1), (C2, sigma2_q2))),
    )
    q = d.say("Client i takes part with probability", sp.Min(K, m) / m)
    d.say("and the averages do not show who did: on D the law is (1-q) N(0, .) + q N(shift, .), on D' it is N(0, .).")
    one = d.say("Renyi divergence of one round, log(sum_k C(order,k) (1-q)^(order-k) q^k exp(k(k-1) mu^2/2))/(order-1):",
                SampledGaussian(order, q, mu2))  # fmt: skip
    return d.conclude("Rounds are independent, and there are T/tau of them:", T / tau * one)


def _moment_by_copies(order: int, q: Any, mu2: Any) -> Any:
    """E_Q[prod_j (1 - q + q L_j)] with L the likelihood ratio: of `order` copies of a round, add one at a time.

    Two copies that both include client i add a factor e^(mu2).
    """
    step, law = mpmath.exp(mu2), {0: mpmath.mpf(1)}
    for _ in range(order):
        grown: dict[int, Any] = {}
        for k, w in law.items():
            grown[k] = grown.get(k, 0) + w * (1 - q)
            grown[k + 1] = grown.get(k + 1, 0) + w * q * step**k
        law = grown
    return sum(law.values())


def _federation_oracle(
    tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any, adjacency: str
) -> Any:
    """Which of `order` independent copies of the round include client i, one at a time, in numbers."""
    with mpmath.workdps(DIGITS):
        q = mpf(min(K, m)) / mpf(m)
        mu2 = int(tau) * SHIFT[adjacency] ** 2 * (mpf(C1) ** 2 / mpf(sigma2_q1) + mpf(C2) ** 2 / mpf(sigma2_q2)) / int(K)
        value = mpmath.log(_moment_by_copies(int(order), q, mu2)) / (int(order) - 1) * int(T) / int(tau)
        return sp.Float(str(value), DIGITS - 10)


def _printed_rdp(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any) -> Any:
    return (K / m) ** 2 * 6 * (T / tau) * order * (C1**2 / (K * sigma2_q1) + C2**2 / (K * sigma2_q2))


def _corrected_rdp(
    tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any, adjacency: str
) -> Any:
    signal = SHIFT[adjacency] ** 2 * tau * (C1**2 / (K * sigma2_q1) + C2**2 / (K * sigma2_q2))
    return T / tau * SampledGaussian(order, sp.Min(K, m) / m, signal)


def _federation_computed(
    tau: int, K: int, m: int, C1: float, sigma2_q1: float, T: int, order: int, C2: float, sigma2_q2: float, adjacency: str
) -> float:
    signal = C1**2 / sigma2_q1 + C2**2 / sigma2_q2
    multiplier = (K / (tau * signal)) ** 0.5 / SHIFT[adjacency]
    return privacy.rdp_sampled_gaussian(noise_multiplier=multiplier, sampling_rate=min(1.0, K / m), order=order) * T / tau


register(
    Claim(
        id="generative:thm7:rdp",
        title="Renyi divergence of DP-AdaPeD",
        place="Section 3.5, Theorem 7; Section 6.3, (66), (68)-(69)",
        statement="""After T iterations DP-AdaPeD has at most this Renyi divergence. Judged on an explicit federation
            (constant clipped gradients of mu and psi), whose divergence is known exactly at whole orders.""",
        latex=r"""\epsilon(\alpha)=\left(\frac{K}{m}\right)^{2}6\left(\frac{T}{\tau}\right)\alpha\left(\frac{C_{1}^{2}}%
            {K\sigma_{q_{1}}^{2}}+\frac{C_{2}^{2}}{K\sigma_{q_{2}}^{2}}\right)""",
        kind="upper bound",
        variables=(TAU, K, M, C1, SIGMA2_Q1, T, ORDER, C2, SIGMA2_Q2, ADJACENCY),
        examples=(
            {"tau": 4, "K": 1, "m": 1, "C1": 1, "sigma2_q1": 1, "T": 4, "order": 2, "adjacency": "replace"},
            {"tau": 20, "K": 2, "m": 4, "C1": 1, "sigma2_q1": 10, "T": 20, "order": 3, "adjacency": "zero-out"},
        ),
        printed=_printed_rdp,
        relation="<=",
        derive=_federation_derive,
        oracle=_federation_oracle,
        corrected=_corrected_rdp,
        corrected_text="""at least (T/tau) times the divergence of the sampled Gaussian mechanism with rate K/m and squared
            shift over variance s^2 tau (C1^2/sigma2_q1 + C2^2/sigma2_q2)/K, s = 2 (replace) or 1 (zero-out); a bound
            that holds is generative:thm7:valid""",
        counterexample={
            "tau": 4, "K": 1, "m": 1, "C1": 1, "sigma2_q1": 1, "T": 4, "order": 2, "adjacency": "replace",
        },
        computed=_federation_computed,
        not_simulated=Exempt(kind="divergence"),
        finding="The privacy cost of a round grows with the number of local steps; the theorem leaves that factor out.",
        shares={"theory.papers.generative.federation.SampledGaussian": """a named divergence, in which the right formula is
            written; the oracle and the float function compute it otherwise"""},
        assumes={"noise": "fresh", "clipping": "all", "law": "gaussian"},
        unit="nats",
        related=("generative:thm7:sensitivity", "generative:lemma3"),
        assumptions=("trusted server: only averages are seen", "m below K is read as full participation"),
        remark="""The factor tau of the sensitivity is missing. With every client taking part the exact value is s^2 alpha T
            C1^2/(2 K sigma2_q1), so 6 (T/tau) alpha C1^2/(K sigma2_q1) bounds it up to tau = 3 (replace) or 12
            (zero-out) only. With sampling the orders are limited too: generative:thm7:conditions. Nor is the noise of
            the average always that of 'a single Gaussian vector' of variance tau sigma2_q1/K: a client whose gradient
            pulls its model back erases its earlier noise, and only the last step's sigma2_q1/K is sure to be there.""",
    )
)  # fmt: skip


# --- noise of an average ---------------------------------------------------------------------------------------------

REACTION = Variable(
    "reaction",
    "choice",
    "constant: gradients do not depend on the client's model; pulling: each step undoes `pull` of what the model is off by",
    choices=("constant", "pulling"),
    default="constant",
)
PULL = Variable("pull", "fraction", "share of its deviation that a step takes back, where gradients pull", extreme=False)
STEPS = Variable("tau", "choice", "local steps per round", choices=(1, 2, 3, 5))


def _noise_derive(tau: int, K: Any, sigma2_q1: Any, reaction: str, pull: Any) -> Derivation:
    d, kept = Derivation(), 1 - pull if reaction == "pulling" else sp.Integer(1)
    variance = sp.Integer(0)
    for step in range(1, tau + 1):
        variance = d.say(f"Variance of a client's deviation after step {step}:", sp.expand(kept**2 * variance + sigma2_q1))
    return d.conclude("The average of K independent ones:", variance / K)


def _noise_oracle(tau: int, K: Any, sigma2_q1: Any, reaction: str, pull: Any) -> Any:
    """What of each draw is left at the end, summed over draws and clients."""
    kept = 1 - fraction(pull) if reaction == "pulling" else Fraction(1)
    total = sum((kept ** (tau - 1 - t) / int(K)) ** 2 for _ in range(int(K)) for t in range(tau))
    return rational(total * fraction(sigma2_q1))


def _noise_simulate(tau: int, K: int, sigma2_q1: float, reaction: str, pull: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        off = np.zeros((reps, K))
        for _ in range(tau):
            gradient = pull * off if reaction == "pulling" else 0.0
            off = off - (gradient + np.sqrt(sigma2_q1) * gen.standard_normal((reps, K)))
        return np.mean(off, axis=1, keepdims=True) ** 2

    return simulation.sample_means(draw, labels=("variance of the average",))


register(
    Claim(
        id="generative:thm7:noise",
        title="Noise of the averaged model",
        place="Section 6.3, text before (68)",
        statement="""Noise added in every local step and averaged over K clients is equivalent to a single Gaussian vector of
            variance tau sigma2_q1/K. Judged for gradients that are constant and for gradients that pull a client's model
            back.""",
        latex=r"""\text{it is equivalent to adding a single Gaussian vector to the aggregated vectors with variance }%
            \frac{\tau\sigma_{q_{1}}^{2}}{K}""",
        kind="identity",
        variables=(STEPS, K, SIGMA2_Q1, REACTION, PULL),
        examples=({"tau": 3, "K": 2, "sigma2_q1": 1, "reaction": "constant", "pull": "1/2"},),
        printed=lambda tau, K, sigma2_q1: tau * sigma2_q1 / K,
        derive=_noise_derive,
        oracle=_noise_oracle,
        condition=lambda tau, reaction: sp.true if reaction == "constant" or tau == 1 else sp.false,
        condition_text="reaction == constant or tau == 1 (the clipped gradients do not depend on the noise before them)",
        counterexample={"tau": 2, "K": 1, "sigma2_q1": 1, "reaction": "pulling", "pull": "1/2"},
        simulate=_noise_simulate,
        not_computed=Exempt(kind="elsewhere", function="estimators.accounting.adaped.adaped_rdp", note="average=True"),
        finding="A client's later steps react to its earlier noise and take part of it back, so less of it hides the data.",
        assumes={"noise": "fresh", "independence": "all"},
        unit="squared norm of the model, with learning rate 1, per coordinate",
        related=("generative:thm7:sensitivity", "generative:thm7:averaged"),
        remark="""Where steps pull back all of the deviation, only the last step's noise is left (generative:thm7:averaged).
            The learning rate eta_2, which scales model and noise alike, is left out as in (67).""",
    )
)

# --- which orders ----------------------------------------------------------------------------------------------------

Q = Variable("q", "fraction", "share K/m of the clients in a round", within=("1/100", "9/10"), why="certified")
LOAD = Variable("load", "positive", "order times C1^2/(K sigma2_q1); without small_order, that less 1, over 20",
                within=("1/50", 1), why="certified")  # fmt: skip
FEW = Variable("order", "choice", "Renyi order", choices=(2, 3, 5))
SMALL = Variable(
    "small_order",
    "choice",
    "1: order * C1^2/(K sigma2_q1) is load, at most 1; 0: it is 1 + 20 load, at most 21",
    choices=(1, 0),
    default=1,
)


def _orders_printed(q: Any, load: Any, order: int, small_order: int) -> Any:
    return 6 * q**2 * (load if small_order else 1 + 20 * load)


def _orders_derive(q: Any, load: Any, order: int, small_order: int) -> Derivation:
    d = Derivation()
    mu2 = d.say("One local step, gradients set to zero between neighbours; squared shift over variance:",
                (load if small_order else 20 * load + 1) / sp.Integer(order))  # fmt: skip
    weights = [sp.binomial(order, k) * (1 - q) ** (order - k) * q**k for k in range(order + 1)]
    moment = 1 + sum(w * (sp.exp(sp.Integer(k * (k - 1)) * mu2 / 2) - 1) for k, w in enumerate(weights) if k > 1)
    d.say("E_Q[(1 - q + q dP/dQ)^order], expanded, with the weights' sum 1 taken out:", moment)
    return d.conclude("Renyi divergence of one round:", sp.log(moment) / (order - 1))


def _orders_oracle(q: Any, load: Any, order: int, small_order: int) -> Any:
    with mpmath.workdps(DIGITS):
        mu2 = mpf(load) / order if small_order else (mpf(load) * 20 + 1) / order
        return sp.Float(str(mpmath.log(_moment_by_copies(order, mpf(q), mu2)) / (order - 1)), DIGITS - 10)


def _orders_computed(q: float, load: float, order: int, small_order: int) -> float:
    multiplier = np.sqrt(order / (load if small_order else 1 + 20 * load))
    return privacy.rdp_sampled_gaussian(noise_multiplier=multiplier, sampling_rate=q, order=order)


register(
    Claim(
        id="generative:thm7:conditions",
        title="The orders for which subsampling gains the factor (K/m)^2",
        place="Section 3.5, Theorem 7 ('for alpha > 1'); Section 6.3, (68)",
        statement="""For every order alpha > 1 one round costs at most 6 (K/m)^2 alpha C1^2/(K sigma2_q1). Judged where the
            rest of (68) is right: one local step, a client's gradients set to zero between neighbours.""",
        latex=r"""\epsilon_{t}^{(1)}(\alpha)=\left(\frac{K}{m}\right)^{2}\frac{6\alpha C_{1}^{2}}{K\sigma_{q_{1}}^{2}}%
            \quad\text{for }\alpha>1""",
        kind="upper bound",
        variables=(Q, LOAD, FEW, SMALL),
        examples=({"q": "1/3", "load": "1/2", "order": 3}, {"q": "1/10", "load": 1, "order": 2, "small_order": 1}),
        printed=_orders_printed,
        relation="<=",
        derive=_orders_derive,
        oracle=_orders_oracle,
        condition=lambda small_order: sp.true if small_order else sp.false,
        condition_text="small_order == 1 (order * C1^2/(K sigma2_q1) <= 1)",
        counterexample={"q": "1/100", "load": 1, "order": 2, "small_order": 0},
        computed=_orders_computed,
        tight=Tight(at={"q": "1/100", "load": 1, "order": 2, "small_order": 1}, ratio="9.24926449198"),
        finding="Sampling gains the factor (K/m)^2 only at small orders, while the theorem claims it for every order.",
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh", "clipping": "all", "law": "gaussian", "adjacency": "zero-out"},
        unit="nats",
        remark="""Certified for orders 2, 3 and 5. For large orders the divergence grows like order * C1^2/(2 K sigma2_q1)
            whatever K/m: sampling takes off only log(m/K)-like terms. The quoted results (Bun et al. 2018; Mironov,
            Talwar and Zhang 2019) carry such limits on the order; Theorem 7 drops them. With small orders 6 has slack:
            1/2 is the limit.""",
    )
)
