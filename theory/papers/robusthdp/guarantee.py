"""Robust-HDP, Section 3.6: Theorem 1, the privacy of the whole training.

Belongs here: what noise scale gives (eps_i, delta_i), and what the clients' guarantees give together. Does not belong here:
one release (mechanism.py), noise scales solved for with an accountant (noise_scale.py).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from flint import ctx

from estimators.accounting import dpsgd, privacy
from theory.engine import intervals, simulation
from theory.engine.algebra import nonnegative
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.mechanism import gaussian_curve, hockey_stick
from theory.papers.robusthdp.model import ONE, ZERO

ADJACENCY = "adjacency: add or remove one record of D_i"
ROUND = 7  # steps in the oracle; the curve does not depend on their number

# --- (eps, delta) for any delta -----------------------------------------------------------------------------------------

DELTA = Variable("delta", "fraction", "the client's delta", within=("1/100000000", "999/1000"), why="certified")
SHARE = Variable("t", "positive", "eps over log(1/delta)", within=("1/100", 1), why="certified")
C2 = Variable("c2", "positive", "the theorem's constant", within=(2, 50), why="certified")
LARGE = Variable(
    "large",
    "choice",
    "0: eps = t log(1/delta); 1: eps = 16 c2^2 t log(1/delta), which the theorem allows too after enough steps",
    choices=(0, 1),
    default=0,
)


def _eps(delta: Any, t: Any, c2: Any, large: int) -> Any:
    return t * (16 * c2**2 if large else 1) * sp.log(1 / delta)


def _thm1_derive(delta: Any, t: Any, c2: Any, large: int) -> Derivation:
    d = Derivation()
    eps = d.say("""Full batches, q = 1, with T = E E_i steps; the theorem allows every eps < c1 T, that is any eps once T is
        large:""",
                _eps(delta, t, c2, large))  # fmt: skip
    log_delta = sp.log(1 / delta)
    d.say("""The T noisy sums move by 1 (in units of c) each and have deviation z: together they are as telling as one
        Gaussian of distance mu = sqrt(T)/z, which with z = c2 sqrt(T log(1/delta))/eps does not depend on T:""",
          eps / (c2 * sp.sqrt(log_delta)))  # fmt: skip
    # mu / sqrt(8), with one root of log(1/delta)
    distance = t * (16 * c2**2 if large else 1) * sp.sqrt(log_delta) / (c2 * 2 * sp.sqrt(2))
    return d.conclude("The exact curve there gives the delta that is needed:", gaussian_curve(eps, distance))


@cache
def _thm1_oracle(delta: Any, t: Any, c2: Any, large: int) -> Any:
    """The sum of a few steps' outputs, a sufficient statistic: integrate max(0, p - e^eps q)."""
    before, ctx.dps = ctx.dps, 60
    try:
        log_delta = intervals.number(1 / delta).log()
        eps = intervals.number(t * (16 * c2**2 if large else 1)) * log_delta
        z2 = intervals.number(c2) ** 2 * ROUND * log_delta / eps**2
        return hockey_stick(eps, sp.Integer(ROUND), ROUND * z2)
    finally:
        ctx.dps = before


def _thm1_computed(delta: float, t: float, c2: float, large: int) -> float:
    log_delta = -np.log(delta)
    eps = t * (16 * c2**2 if large else 1) * log_delta
    # T steps of sensitivity 1 are one of sensitivity sqrt(T)
    return privacy.gaussian_delta(eps=eps, sensitivity=1.0, sigma=c2 * np.sqrt(log_delta) / eps)


def _thm1_simulate(delta: float, t: float, c2: float, large: int) -> simulation.Simulation | None:
    if delta < 1 / 4:
        return None  # too rare to be seen in a simulation
    log_delta, steps = -np.log(delta), 4
    eps = t * (16 * c2**2 if large else 1) * log_delta
    z = c2 * np.sqrt(steps * log_delta) / eps

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        outputs = 1 + z * gen.standard_normal((reps, steps))
        ratio = ((outputs**2 - (outputs - 1) ** 2) / (2 * z**2)).sum(axis=1)
        return np.maximum(0.0, -np.expm1(eps - ratio))[:, None]

    return simulation.sample_means(draw, labels=("what e^eps does not cover",), draws=steps)


register(
    Claim(
        id="robusthdp:thm1",
        title="Theorem 1: the guarantee for any delta",
        place="Section 3.6, Theorem 1",
        statement="""There are constants c1, c2 such that for any eps < c1 q^2 E E_i and any delta > 0 the training is (eps,
            delta)-DP with respect to D_i if z_i > c2 q sqrt(E E_i log(1/delta))/eps. Judged exactly for full batches (q
            = 1): the delta needed at that z is at most delta.""",
        latex=r"""\text{for any } \epsilon \in c_1 q_i^2 E \cdot E_i \ldots (\epsilon_i, \delta_i)\text{-DP \ldots for any }
            \delta_i > 0 \text{ if } z_i > c_2 \frac{q_i \sqrt{E \cdot E_i \log \frac{1}{\delta_i}}}{\epsilon_i}""",
        kind="upper bound",
        variables=(DELTA, SHARE, C2, LARGE),
        examples=(
            {"delta": "9/10", "t": 1, "c2": 2},
            {"delta": "1/2", "t": "1/10", "c2": 3, "large": 1},
            {"delta": "1/100000", "t": "1/10", "c2": 2},
        ),
        printed=lambda delta: delta,
        relation="<=",
        derive=_thm1_derive,
        oracle=_thm1_oracle,
        computed=_thm1_computed,
        simulate=_thm1_simulate,
        condition=lambda large: sp.true if large == 0 else sp.false,
        condition_text="large == 0 (eps is at most log(1/delta); certified for constants c2 from 2 to 50)",
        counterexample={"delta": "1/2", "t": 1, "c2": 2, "large": 1},
        assumes={"adjacency": "add-remove", "sampling": "none", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"delta": "9/10", "t": 1, "c2": 2}, ratio="33.87529839"),
        edits=(
            Edit(
                printed=r"\epsilon \in c_1 q_i^2 E \cdot E_i",
                read=r"\epsilon < c_1 q_i^2 E \cdot E_i",
                reason="a number holds no number; the theorem of Abadi et al. that is quoted has <",
            ),
        ),
        unit="probability",
        assumptions=(ADJACENCY, "full batches: q_i = 1"),
        remark="""The printed 'eps in c1 q^2 E E_i' is read as eps < c1 q^2 E E_i, as in the theorem of Abadi et al. that is
            quoted. Its proof takes a moment of order about 2 log(1/delta)/eps, which must be at least 1: so eps must not
            exceed a multiple of log(1/delta). Without that no constants exist (robusthdp:thm1:any-constants): with delta
            near 1, or with eps large, z falls short. With replacement of a record instead of adding or removing one, the
            noise must double. A rule for every eps and delta is robusthdp:thm1:rule.""",
    )
)

SCALE = Variable(
    "x", "positive", "c2 sqrt(log(1/delta)) for any constant and any delta", within=("1/100", 10), why="certified"
)


def _constants_derive(x: Any) -> Derivation:
    d = Derivation()
    d.say("""Full batches. Whatever c1 is, eps = 2 x^2 + 6 x is below c1 E E_i for enough steps. With x = c2
        sqrt(log(1/delta)) the theorem's z makes the training one Gaussian of distance mu = eps/x = 2 x + 6,
        so that mu/2 - eps/mu = 3.""")  # fmt: skip
    return d.conclude("Delta needed at that eps:", gaussian_curve(2 * x**2 + 6 * x, (x + 3) / sp.sqrt(2)))


@cache
def _constants_oracle(x: Any) -> Any:
    before, ctx.dps = ctx.dps, 60
    try:
        return hockey_stick(2 * x**2 + 6 * x, 2 * x + 6, ONE)
    finally:
        ctx.dps = before


def _constants_simulate(x: float) -> simulation.Simulation:
    eps, mu = 2 * x**2 + 6 * x, 2 * x + 6

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        output = mu + gen.standard_normal(reps)
        return np.maximum(0.0, -np.expm1(eps - (output**2 - (output - mu) ** 2) / 2))[:, None]

    return simulation.sample_means(draw, labels=("what e^eps does not cover",))


register(
    Claim(
        id="robusthdp:thm1:any-constants",
        title="Theorem 1 without a lower limit on log(1/delta)/eps: no constants exist",
        place="Section 3.6, Theorem 1, 'for any delta_i > 0'",
        statement="""For all constants c1, c2 > 0 and every delta < 0.99 there are eps and a number of full-batch steps that
            the theorem allows, at which the training with its z needs more than 0.99 in place of delta.""",
        latex=r"""\forall c_1,c_2>0,\ \delta<0.99\ \exists\,\epsilon,T:\ \epsilon<c_1T,\ z=c_2\frac{\sqrt{T\log(1/\delta)}}%
            {\epsilon}\text{, and } \delta_{\text{needed}}(\epsilon)\ge0.99""",
        kind="lower bound",
        variables=(SCALE,),
        examples=({"x": 2}, {"x": "1/10"}),
        printed=lambda: sp.Rational(99, 100),
        relation=">=",
        derive=_constants_derive,
        oracle=_constants_oracle,
        computed=lambda x: privacy.gaussian_delta(eps=2 * x**2 + 6 * x, sensitivity=2 * x + 6, sigma=1.0),
        simulate=_constants_simulate,
        ours=True,
        assumes={"adjacency": "add-remove", "sampling": "none", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"x": 2}, ratio="0.9919549632"),
        unit="probability",
        assumptions=(ADJACENCY, "full batches: q_i = 1"),
        remark="""The value depends on x alone and tends to Phi(3) = 0.9987 for large x. At delta so close to 1 that c2^2
            log(1/delta) is tiny the same happens at moderate eps: 'for any delta > 0' cannot hold.""",
    )
)  # fmt: skip

# --- a rule that works for every eps and delta -----------------------------------------------------------------------------

ROOT = Variable("root", "positive", "square root of log(1/delta)", within=("1/10", 8), why="floats")
GAP = Variable("gap", "positive", "square root of log(1/delta) + eps, minus root", within=("1/1000", 8), why="floats")
STEPS = Variable("steps", "size", "steps E E_i", extreme=False)


def _rule_printed(root: Any, gap: Any) -> Any:
    return (root + gap) ** 2 - root**2


def _rule_derive(root: Any, gap: Any, steps: Any) -> Derivation:
    d = Derivation()
    z2 = d.say("The rule's z squared, with eps = (root + gap)^2 - root^2:", steps / (2 * gap**2))
    d.say("""A Gaussian step with noise z has Renyi divergence a/(2 z^2) of every order a, add or remove; drawing the batch
        at random only mixes output laws, which does not raise it. Steps add up:""", steps / (2 * z2))  # fmt: skip
    a = sp.Symbol("a", positive=True)
    spent = d.say("Order a gives eps = a T/(2 z^2) + log(1/delta)/(a-1):", a * steps / (2 * z2) + root**2 / (a - 1))
    best = d.say("The least is where the derivative in a vanishes:", 1 + root / gap)
    return d.conclude("There eps is", sp.cancel(spent.subs(a, best)))


def _rule_oracle(root: Any, gap: Any, steps: Any) -> Any:
    """rho-zCDP arithmetic: rho + 2 sqrt(rho log(1/delta)), rho summed step by step."""
    z2 = fraction(steps) / (2 * fraction(gap) ** 2)
    rho = sum((1 / (2 * z2) for _ in range(int(steps))), Fraction(0))
    root_rho = fraction(gap)
    assert root_rho**2 == rho
    return rational(rho + 2 * root_rho * fraction(root))


def _rule_computed(root: float, gap: float, steps: int) -> float:
    z = dpsgd.closed_form_noise_multiplier(eps=gap * (gap + 2 * root), delta=np.exp(-(root**2)), steps=steps)
    rho = steps / (2 * z**2)
    return rho + 2 * np.sqrt(rho) * root


register(
    Claim(
        id="robusthdp:thm1:rule",
        title="A noise scale for every eps and delta",
        place="Section 3.6: in place of Theorem 1",
        statement="""z = sqrt(T/2) / (sqrt(log(1/delta) + eps) - sqrt(log(1/delta))) with T = E E_i makes the training (eps,
            delta)-DP for every eps > 0, every delta in (0, 1) and every sampling rate: Renyi accounting spends exactly
            eps.""",
        latex=r"z=\frac{\sqrt{T/2}}{\sqrt{\log\frac1\delta+\epsilon}-\sqrt{\log\frac1\delta}}",
        kind="identity",
        variables=(ROOT, GAP, STEPS),
        examples=({"root": 3, "gap": "1/2", "steps": 4}, {"root": 1, "gap": 2, "steps": 1}),
        printed=_rule_printed,
        derive=_rule_derive,
        oracle=_rule_oracle,
        computed=_rule_computed,
        not_simulated=Exempt(kind="divergence"),
        ours=True,
        assumes={"adjacency": "add-remove", "law": "gaussian", "noise": "fresh"},
        unit="eps",
        assumptions=(ADJACENCY,),
        remark="""It has no constants to choose and no range to check, but no gain from sampling; with sampling the noise
            comes from an accountant (estimators.accounting.accountants.noise_for). For eps small against log(1/delta) it
            is Theorem 1 with q = 1 and c2 = sqrt(2).""",
    )
)

# --- all clients together ----------------------------------------------------------------------------------------------

E1 = Variable("E1", "positive", "e^eps_1 - 1 of the client with the smaller eps")
MORE = Variable("E_more", "nonnegative", "e^eps_2 - e^eps_1 of the client with the larger eps")
DELTA1 = Variable("delta1", "fraction", "delta of the client with the smaller eps")
DELTA2 = Variable("delta2", "fraction", "delta of the client with the larger eps")
LARGER = Variable("larger", "choice", """which of the two clients has the larger delta: delta of that one is d + (1 - d)
    times the variable given for it, d the other's""", choices=(1, 2), default=2)  # fmt: skip
SHARED = Variable("shared", "choice", "1: both clients hold the record in question; 0: their data sets are disjoint",
                  choices=(0, 1), default=0)  # fmt: skip


def _deltas(delta1: Any, delta2: Any, larger: int) -> tuple[Any, Any]:
    """The two deltas, the larger one built on the smaller."""
    if larger == 2:
        return delta1, delta1 + (1 - delta1) * delta2
    return delta2 + (1 - delta2) * delta1, delta2


def _law(e: Any, delta: Any, present: bool) -> dict[str, Any]:
    """Outputs of the least private (eps, delta)-mechanism: it shows the record with probability delta, else responds at "
    "random."""
    high, low = (1 - delta) * e / (1 + e), (1 - delta) / (1 + e)
    if present:
        return {"shows it": delta, "yes": high, "no": low, "shows its absence": ZERO}
    return {"shows it": ZERO, "yes": low, "no": high, "shows its absence": delta}


def _positive_part(value: Any) -> Any:
    """max(0, value), decided by a sign certificate with fractions written as t/(1+t)."""
    value = sp.sympify(value)
    fractions = [s for s in value.free_symbols if s.name.startswith("delta")]
    shifts = {s: (t := sp.Dummy(s.name, nonnegative=True)) / (1 + t) for s in fractions}
    if nonnegative(value, shifts) is True:
        return value
    if nonnegative(-value, shifts) is True:
        return ZERO
    raise ValueError(f"no certificate for the sign of {value}")


def _parallel_derive(E1: Any, E_more: Any, delta1: Any, delta2: Any, larger: int, shared: int) -> Derivation:
    d = Derivation()
    deltas = _deltas(delta1, delta2, larger)
    es = (1 + E1, 1 + E1 + E_more)
    d.say("""The server only processes what the clients send, and their noise is independent. For a record of one client the
        other's output law is the same on both neighbours and cancels.""" if not shared else
          "Both clients' outputs depend on the record, so the two losses add up.")  # fmt: skip
    top = es[1]
    pairs = [(0,), (1,)] if not shared else [(0, 1)]
    needed = []
    for clients in pairs:
        laws = [(_law(es[i], deltas[i], True), _law(es[i], deltas[i], False)) for i in clients]
        total = ZERO
        for outputs in product(*(law.keys() for law, _ in laws)):
            p = sp.Mul(*(law[o] for (law, _), o in zip(laws, outputs, strict=True)))
            q = sp.Mul(*(law[o] for (_, law), o in zip(laws, outputs, strict=True)))
            total += _positive_part(sp.factor(p - top * q))
        needed.append(d.say("Delta needed at e^max(eps):", sp.factor(total)))
    largest = needed[0]
    for value in needed[1:]:
        largest = value if _positive_part(sp.factor(value - largest)) != 0 else largest
    return d.conclude("e^eps and the delta needed:", (top, largest))


def _parallel_oracle(E1: Any, E_more: Any, delta1: Any, delta2: Any, larger: int, shared: int) -> tuple[Any, Any]:
    """Enumerate the joint outputs of both clients for all neighbouring states of the data."""
    small, big = (delta1, delta2) if larger == 2 else (delta2, delta1)
    small = fraction(small)
    big = small + (1 - small) * fraction(big)
    deltas = (small, big) if larger == 2 else (big, small)
    es = (1 + fraction(E1), 1 + fraction(E1) + fraction(E_more))

    def chances(client: int, here: bool) -> tuple[Fraction, ...]:
        """Of showing the record, of answering as if it were there or not, of showing its absence."""
        e, delta = es[client], deltas[client]
        honest, lie = (1 - delta) * e / (1 + e), (1 - delta) / (1 + e)
        return (delta, honest, lie, Fraction(0)) if here else (Fraction(0), lie, honest, delta)

    def joint(state: tuple[bool, bool]) -> list[Fraction]:
        return [a * b for a, b in product(chances(0, state[0]), chances(1, state[1]))]

    states = list(product((True, False), repeat=2))
    neighbours = [
        (a, b) for a in states for b in states if (a[0] != b[0]) + (a[1] != b[1]) == (2 if shared else 1)
        and (not shared or a[0] == a[1])
    ]  # fmt: skip
    worst = max(sum(max(p - max(es) * q, Fraction(0)) for p, q in zip(joint(a), joint(b), strict=True))
                for a, b in neighbours)  # fmt: skip
    return rational(max(es)), rational(worst)


register(
    Claim(
        id="robusthdp:thm1:parallel",
        title="Theorem 1: the clients' guarantees together",
        place="Section 3.6, Theorem 1, last sentence",
        statement="The algorithm also satisfies (eps_max, delta_max)-DP with the largest eps and the largest delta.",
        latex=r"(\epsilon_{\max}, \delta_{\max}) = (\max(\{\epsilon_i\}_{i=1}^n), \max(\{\delta_i\}_{i=1}^n))",
        kind="probability",
        variables=(E1, MORE, DELTA1, DELTA2, LARGER, SHARED),
        examples=(
            {"E1": 1, "E_more": 2, "delta1": "1/10", "delta2": "1/5"},
            {"E1": "1/2", "E_more": 0, "delta1": "1/4", "delta2": "1/5", "larger": 1},
        ),
        printed=lambda E1, E_more, delta1, delta2: (1 + E1 + E_more, 1 - (1 - delta1) * (1 - delta2)),
        derive=_parallel_derive,
        oracle=_parallel_oracle,
        condition=lambda shared: sp.true if shared == 0 else sp.false,
        condition_text="shared == 0 (no record is held by two clients)",
        counterexample={"E1": 1, "E_more": 0, "delta1": "1/10", "delta2": "1/10", "shared": 1},
        entries=("e^eps of the whole", "delta needed at that eps"),
        not_computed=Exempt(kind="enumerated"),
        not_simulated=Exempt(kind="enumerated"),
        assumes={"adjacency": "add-remove", "independence": "all"},
        unit="dimensionless",
        assumptions=(ADJACENCY, "the clients' noise is independent and the server only processes what they send"),
        remark="""Judged on two clients with the least private mechanisms of their budgets, so the values are exact. The
            largest eps and delta may come from different clients. A record that two clients hold loses from both.""",
    )
)
