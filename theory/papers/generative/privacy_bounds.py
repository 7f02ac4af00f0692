"""Bounds on the privacy of DP-AdaPeD that hold, in place of Theorem 7.

Belongs here: the bound for every order and any server, the bound for one that sees averages only. Does not belong here:
what the paper prints (privacy.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy as sp

from estimators.accounting import adaped
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.federation import (  # fmt: skip
    ADJACENCY,
    ANY_ORDER,
    C1,
    C2,
    DIGITS,
    SHIFT,
    SIGMA2_Q1,
    SIGMA2_Q2,
    TAU,
    K,
    M,
    T,
    mpf,
)

# --- any server ------------------------------------------------------------------------------------------------------

REAL_ORDER = Variable("order", "positive", "Renyi order", within=("1001/1000", 1000), why="formula")


def _valid_formula(tau: Any, K: Any, m: Any, C1: Any, sigma2_q1: Any, T: Any, order: Any, C2: Any, sigma2_q2: Any,
                   adjacency: str) -> Any:  # fmt: skip
    round_ = SHIFT[adjacency] ** 2 * order * tau * (C1**2 / sigma2_q1 + C2**2 / sigma2_q2) / 2
    return T / tau * sp.log(1 + sp.Min(K, m) / m * (sp.exp((order - 1) * round_) - 1)) / (order - 1)


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
    d.say("""Gradients that are constant on D and on D' reach it: then the message is Gaussian with shift s tau C1 and
        variance tau sigma2_q1, and for psi alike.""")  # fmt: skip
    q = d.say("Client i takes part with probability", sp.Min(K, m) / m)
    d.say("""whatever its data; in the other rounds nothing differs. So exp((order-1) D) of a round is (1-q) + q
        e^((order-1)x):""",
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
        q = mpf(min(K, m)) / mpf(m)
        value = mpmath.log((1 - q) + q * moment) / (a - 1) * int(T) / n
        return sp.Float(str(value), DIGITS)


def _valid_computed(
    tau: int, K: int, m: int, C1: float, sigma2_q1: float, T: int, order: float, C2: float, sigma2_q2: float, adjacency: str
) -> float:
    return adaped.adaped_rdp(
        order=order, tau=tau, T=T, K=min(K, m), m=m, C1=C1, sigma2_q1=sigma2_q1, C2=C2, sigma2_q2=sigma2_q2,
        adjacency=adjacency,
    )  # fmt: skip


register(
    Claim(
        id="generative:thm7:valid",
        title="A Renyi bound for DP-AdaPeD that holds with local steps",
        place="Section 3.5, in place of Theorem 7",
        statement="""For every order > 1, every number of local steps and every way of drawing clients that includes each
            with probability at most K/m, DP-AdaPeD has at most this Renyi divergence for one client's data; it is
            reached when the server sees the messages and gradients are constant.""",
        latex=r"""\epsilon(\alpha)=\frac{T}{\tau}\,\frac{1}{\alpha-1}\log\Big(1+\frac{K}{m}\Big(e^{(\alpha-1)x}-1\Big)\Big),%
            \quad x=\frac{s^{2}\alpha\tau}{2}\Big(\frac{C_{1}^{2}}{\sigma_{q_{1}}^{2}}+\frac{C_{2}^{2}}%
            {\sigma_{q_{2}}^{2}}\Big)""",
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
        computed=_valid_computed,
        tight=Tight(at={"tau": 4, "K": 1, "m": 1, "C1": 1, "sigma2_q1": 20, "T": 8, "order": 2}, ratio="1.000000"),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh", "clipping": "all", "law": "gaussian"},
        unit="nats",
        ours=True,
        related=("generative:lemma3", "generative:thm7:rdp"),
        assumptions=("noise is drawn afresh in every step", "clients are drawn whatever the data, afresh each round"),
        remark="""With all clients in every round it is s^2 alpha T (C1^2/sigma2_q1 + C2^2/sigma2_q2)/2, whatever tau. It
            needs no trusted server. A factor 1/K for averaging is not included: the other clients' noise may be erased
            by their own steps, except the last one's.""",
    )
)  # fmt: skip


# --- a trusted server ------------------------------------------------------------------------------------------------


def _erased_derive(tau: Any, K: Any, C1: Any, sigma2_q1: Any, order: Any, adjacency: str) -> Derivation:
    d = Derivation()
    d.say("""Everyone takes part and only the average is seen. Client i's clipped gradients are constant; the others' models
        are pulled back by each step to where the round started, which leaves the last step's noise only.""")  # fmt: skip
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


def _averaged_printed(tau: Any, K: Any, C1: Any, sigma2_q1: Any, order: Any, adjacency: str) -> tuple[Any, Any]:
    one = SHIFT[adjacency] ** 2 * order * C1**2 / (2 * sigma2_q1)
    return one * tau**2 / K, one * tau


def _one_and_more(tau: Any, K: Any) -> dict[Any, Any]:
    return {tau: 1 + sp.Symbol("more_steps", nonnegative=True), K: 1 + sp.Symbol("others", nonnegative=True)}


register(
    Claim(
        id="generative:thm7:averaged",
        title="A bound for one round of DP-AdaPeD seen through its average",
        place="Section 6.3, in place of (68) with every client taking part",
        statement="""If only the average is seen and psi is kept fixed, a round's Renyi divergence is at most both of these:
            the last steps' noise of all K clients hides a shift of tau clipped gradients, and the client's own noise
            hides each of them. Judged on the federation that comes closest: the others' steps erase their own earlier
            noise.""",
        latex=r"\epsilon_t(\alpha)\leq\frac{s^2\alpha C_1^2}{2\sigma_{q_1}^2}\min\Big(\frac{\tau^2}{K},\tau\Big)",
        kind="upper bound",
        variables=(TAU, K, C1, SIGMA2_Q1, ANY_ORDER, ADJACENCY),
        examples=(
            {"tau": 3, "K": 4, "C1": 1, "sigma2_q1": 5, "order": 2},
            {"tau": 1, "K": 10, "C1": 1, "sigma2_q1": 1, "order": 4, "adjacency": "zero-out"},
        ),
        printed=_averaged_printed,
        tight=Tight(at={"tau": 1, "K": 1, "C1": 1, "sigma2_q1": 1, "order": 2}),
        relation="<=",
        derive=_erased_derive,
        oracle=_erased_oracle,
        shifts=_one_and_more,
        not_computed=Exempt(kind="elsewhere", function="estimators.accounting.adaped.adaped_rdp", note="average=True"),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh", "clipping": "all", "law": "gaussian", "sampling": "none"},
        entries=("by the last steps' noise", "by the client's own noise"),
        unit="nats",
        ours=True,
        related=("generative:lemma3", "generative:thm7:sensitivity"),
        assumptions=("C2 = 0: psi is not updated from data", "noise small against C1, so that pulling back is not clipped"),
        remark="""Equal to both at tau = 1 and K = 1. First bound: given all earlier noise, the sum is Gaussian with variance
            K sigma2_q1 and moves by at most s tau C1. With constant gradients of all clients the divergence is s^2 alpha
            tau C1^2/(2 K sigma2_q1), what (68) has in mind but for its factors. psi breaks the first argument, as the
            others' psi depends on the noise in their models.""",
    )
)  # fmt: skip

# --- against strong composition --------------------------------------------------------------------------------------

ROUNDS = Variable("T", "size", "releases, each with Gaussian noise", extreme=False)
SIGNAL = Variable("signal", "positive", "squared sensitivity over the noise's variance", extreme=False)
LOG_DELTA = Variable("L", "positive", "log(1/delta) of all releases together", extreme=False)
SPENT = Variable("spent", "nonnegative", "log(1/delta') of strong composition's own part, less L", extreme=False)
B = Variable("B", "positive", "2 log(1.25/delta0) - 1, for the delta0 <= 3/4 of a release", extreme=False)
TAIL = Variable("tail", "nonnegative", "what e^x adds beyond 1 + x, times eps0", extreme=False)


def _strong_printed(T: Any, signal: Any, L: Any, spent: Any, B: Any, tail: Any) -> tuple[Any, Any]:
    """T eps0 (e^eps0 - 1), and the square of sqrt(2 T log(1/delta')) eps0, with eps0^2 = 2 log(1.25/delta0) signal."""
    eps0_squared = (1 + B) * signal
    return T * (eps0_squared + tail), 2 * T * (L + spent) * eps0_squared


def _strong_derive(T: Any, signal: Any, L: Any) -> Derivation:
    d, u = Derivation(), sp.Symbol("u", positive=True)
    d.say("A release has Renyi divergence order signal/2 (N(shift, 1) from N(0, 1)); T of them add up (generative:lemma3).")
    eps = d.say("With log(1/delta)/(order - 1) added, at order 1 + u, eps is at most",
                T * (1 + u) * signal / 2 + L / u)  # fmt: skip
    best = d.say("least at u =", sp.solve(sp.diff(eps, u), u)[0])
    fixed = d.say("The part that does not depend on u:", sp.expand(eps).coeff(u, 0))
    rest = d.say("and the square of the rest at the best u:", sp.simplify((eps - fixed).subs(u, best) ** 2))
    return d.conclude("Both parts:", (fixed, rest))


def _strong_oracle(T: Any, signal: Any, L: Any) -> tuple[Any, Any]:
    """p + q u + r/u from three exact values; the least of q u + r/u has the square 4 q r."""
    s, log = fraction(signal), fraction(L)
    at = [sum((((u + 1) * s / 2) for _ in range(int(T))), log / u) for u in map(fraction, (1, 2, 4))]
    # second differences take p away: f(1) - f(2) = -q + r/2, f(2) - f(4) = -2q + r/4
    r = (2 * (at[0] - at[1]) - (at[1] - at[2])) * 4 / 3
    q = r / 2 - (at[0] - at[1])
    return rational(at[0] - q - r), rational(4 * q * r)


register(
    Claim(
        id="generative:thm7:composition",
        title="Renyi divergences compose better than strong composition",
        place="Section 3.5, text after Theorem 7",
        statement="""Bounding the Renyi divergence gives better privacy composition than strong composition. Judged for T
            releases with Gaussian noise: the eps of the one, T signal/2 + sqrt(2 T signal L), against the other's sqrt(2
            T log(1/delta')) eps0 + T eps0 (e^eps0 - 1), term by term (the roots squared), for every split delta = delta'
            + T delta0.""",
        latex=r"\text{here we bound the RDP, as it gives better privacy composition than using the strong composition}",
        kind="upper bound",
        variables=(ROUNDS, SIGNAL, LOG_DELTA, SPENT, B, TAIL),
        examples=({"T": 10, "signal": "1/100", "L": 10, "spent": 1, "B": 20, "tail": 0},),
        printed=_strong_printed,
        relation="<=",
        derive=_strong_derive,
        oracle=_strong_oracle,
        tight=Tight(at={"T": 1, "signal": 1, "L": 1, "spent": 0, "B": 1, "tail": 0}, ratio="4"),
        not_computed=Exempt(kind="elsewhere", function="estimators.accounting.privacy.epsilon_from_zcdp"),
        not_simulated=Exempt(kind="divergence"),
        entries=("term without a root", "square of the root"),
        unit="nats; nats squared",
        assumes={"noise": "fresh"},
        related=("generative:lemma3", "generative:lemma2:eps"),
        remark="""The classical calibration eps0 = sqrt(2 log(1.25/delta0) signal) holds for eps0 <= 1 only, which is to
            strong composition's advantage here. No sampling of clients is in it.""",
    )
)
