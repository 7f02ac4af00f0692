"""FedHDP, Section 2: definitions of client-level DP, parallel composition, the noise and the quoted budgets.

Belongs here: privacy claims of the paper's Section 2 and experiments. Does not belong here: estimation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache
from typing import Any

import mpmath
import sympy as sp
from flint import acb, arb, ctx, fmpq

from estimators.accounting import privacy
from theory.engine.algebra import nonnegative
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.intervals import number
from theory.engine.registry import register

E1 = Variable("E1", "positive", "e^eps_1 - 1 of the client with the smaller budget")
MORE = Variable("E_more", "nonnegative", "e^eps_2 - e^eps_1 of the client with the larger budget")
DELTAS = tuple(
    Variable(f"delta{i}", "fraction", f"delta of the client with the {size} eps", closed=True)
    for i, size in ((1, "smaller"), (2, "larger"))
)
LARGER = Variable("larger", "choice", """which of the two clients has the larger delta: delta of that one is d + (1 - d)
    times the variable given for it, d the other's""", choices=(1, 2), default=2)  # fmt: skip
TWO_SIDED = Variable(
    "two_sided",
    "choice",
    "1: inequality (1) also holds with data and empty data exchanged; 0: only as printed",
    choices=(1, 0),
    default=1,
)


def _clients(E1: Any, E_more: Any, delta1: Any, delta2: Any, larger: int, two_sided: int) -> list[dict[str, dict[int, Any]]]:
    """Output laws of two clients' mechanisms on their data and on no data."""
    small, other = (delta1, delta2) if larger == 2 else (delta2, delta1)
    big = small + (1 - small) * other
    laws = []
    for e, delta in zip((1 + E1, 1 + E1 + E_more), (small, big) if larger == 2 else (big, small), strict=True):
        if two_sided:  # randomised response, which with probability delta tells the truth and that it does
            often, rare = (1 - delta) * e / (1 + e), (1 - delta) / (1 + e)
            laws.append({"data": {0: often, 1: rare, 2: delta, 3: 0}, "none": {0: rare, 1: often, 2: 0, 3: delta}})
        else:  # (1) as printed bounds data against none only
            laws.append({"data": {0: sp.Integer(1), 1: sp.Integer(0)}, "none": {0: (1 - delta) / e, 1: 1 - (1 - delta) / e}})
    return laws


def _certified(value: Any) -> Any:
    """Whether a sign certificate shows that a value is not negative; every delta is t/(1 + t), or 1."""
    value = sp.sympify(value)
    deltas = [s for s in value.free_symbols if s.name.startswith("delta")]
    shifts = {s: (t := sp.Dummy(s.name, nonnegative=True)) / (1 + t) for s in deltas}
    return nonnegative(value, shifts) is True


def _exceeding(value: Any) -> Any:
    """max(0, value), where a certificate says which."""
    if _certified(value):
        return value
    if _certified(-sp.sympify(value)):
        return sp.Integer(0)
    raise ValueError(f"no certificate for the sign of {value}")


def _compose_derive(E1: Any, E_more: Any, delta1: Any, delta2: Any, larger: int, two_sided: int) -> Derivation:
    d = Derivation()
    top = d.say("""Neighbours D, D' differ in one client j. The clients' mechanisms are independent, so the joint probability
        of an output factorises, and all factors but client j's cancel. Of both clients the larger e^eps is""",
                1 + E1 + E_more)  # fmt: skip
    laws = _clients(E1, E_more, delta1, delta2, larger, two_sided)
    if two_sided:
        pairs = [(law[a], law[b]) for law in laws for a, b in (("data", "none"), ("none", "data"))]
    else:
        d.say("(1) bounds the probabilities on data; the composition can only need more in the other order.")
        pairs = [(law["none"], law["data"]) for law in laws]
    needed = [sp.factor(sum(_exceeding(sp.factor(p - top * there[o])) for o, p in here.items())) for here, there in pairs]
    d.say("Delta that each needs there:", tuple(needed))
    largest = next((x for x in needed if all(_certified(x - y) for y in needed)), sp.Max(*needed))
    return d.conclude("e^eps of the composition, and the delta it needs there for both orders:", (top, largest))


def _hockey_stick_divergence(p: Mapping[Any, Any], q: Mapping[Any, Any], factor: Any) -> Any:
    """Sum of what p exceeds `factor` times q by."""
    return sum(max(p[o] - factor * q[o], sp.Integer(0)) for o in p)


def _compose_oracle(E1: Any, E_more: Any, delta1: Any, delta2: Any, larger: int, two_sided: int) -> tuple[Any, Any]:
    """Enumerate joint outputs of both clients and all neighbouring pairs; exact hockey-stick divergence."""
    budgets = (E1 + 1, E1 + E_more + 1)
    kept = [1 - delta1, 1 - delta2]  # chances of not telling the truth outright
    kept[larger - 1] = kept[0] * kept[1]

    def chances(client: int, data: bool) -> dict[Any, Any]:
        """Randomised response at these odds; with (1) in one direction only, a client with data always answers 0."""
        if not two_sided:
            silent = sp.Integer(1) if data else kept[client] / budgets[client]
            return {0: silent, 1: 1 - silent}
        truth = 1 - 1 / (1 + budgets[client])
        answers = {0: truth, 1: 1 - truth} if data else {0: 1 - truth, 1: truth}
        found = {o: kept[client] * x for o, x in answers.items()}
        return found | {"data": (1 - kept[client]) * int(data), "none": (1 - kept[client]) * int(not data)}

    def joint(state: tuple[bool, ...]) -> dict[tuple[Any, ...], Any]:
        return {(a, b): p * q for (a, p), (b, q) in itertools.product(*(chances(i, x).items() for i, x in enumerate(state)))}

    pairs = []
    for client, rest in itertools.product((0, 1), (True, False)):
        states = [(True, rest) if client == 0 else (rest, True), (False, rest) if client == 0 else (rest, False)]
        laws = [joint(s) for s in states]
        pairs += [laws, laws[::-1]]
    return max(budgets), max(_hockey_stick_divergence(p, q, max(budgets)) for p, q in pairs)


register(
    Claim(
        id="fedhdp:eq1-3",
        title="Parallel composition of client-level guarantees",
        place="Section 2, (1)-(3)",
        statement="""If every client's mechanism satisfies (1) with its own budget, the composition satisfies (2) for
            neighbouring datasets that differ by one client, with the largest eps and the largest delta.""",
        latex=r"\epsilon_c=\max_i\epsilon_i,\qquad\delta_c=\max_i\delta_i",
        kind="probability",
        variables=(E1, MORE, *DELTAS, LARGER, TWO_SIDED),
        examples=(
            {"E1": 1, "E_more": 2, "delta1": "1/10", "delta2": "1/5"},
            {"E1": "1/2", "E_more": 1, "delta1": 0, "delta2": "1/4", "larger": 1},
        ),
        printed=lambda E1, E_more, delta1, delta2: (1 + E1 + E_more, 1 - (1 - delta1) * (1 - delta2)),
        derive=_compose_derive,
        oracle=_compose_oracle,
        condition=lambda two_sided: sp.true if two_sided == 1 else sp.false,
        condition_text="two_sided == 1 (inequality (1) is required in both directions)",
        counterexample={"E1": 1, "E_more": 0, "delta1": 0, "delta2": 0, "two_sided": 0},
        entries=("e^eps of the composition", "delta needed at that eps"),
        not_computed=Exempt(kind="enumerated"),
        not_simulated=Exempt(kind="enumerated"),
        unit="dimensionless",
        assumes={"independence": "all", "adjacency": "add-remove"},
        remark="""Judged on two clients with the least private mechanisms of their budgets, so the values are exact; the
            largest eps and delta may come from different clients. (1) as printed bounds Pr on data by Pr on the empty set
            only. A client that always answers 0 with data, and 0 or 1 with probability 1/2 without, satisfies it with
            e^eps = 2 and delta = 0; but adding that client is detected with probability 1/2, so (2) needs delta = 1/2.""",
    )
)


# --- the quoted budgets ------------------------------------------------------------------------------------------------

SETTINGS = {
    # Tables 5 and 7: clients, share per round, effective noise multiplier; 500 rounds, delta 1e-4.
    "nonIID-MNIST": ("1/20", "3/2", "18/5"),
    "FMNIST": ("3/100", "4", "3/5"),
    "FEMNIST": ("3/100", "1", "41/10"),
}
ROUNDS, DELTA = 500, sp.Rational(1, 10**4)
DIGITS, QUADRATURE = 30, 1e-20  # of the quadrature: digits, and relative error
ORDERS = (*(k / 4 for k in range(8, 48)), *range(12, 65))
DATA = Variable("data", "choice", "data set of the experiment", choices=tuple(SETTINGS))


def _epsilon(order: Any, log_moment: Any) -> Any:
    """RDP to DP (Canonne, Kamath, Steinke 2020): rdp + log((a-1)/a) - (log delta + log a)/(a-1)."""
    a = mpmath.mpf(int(order.p)) / int(order.q)
    rdp = ROUNDS * log_moment / (a - 1)
    return rdp + mpmath.log((a - 1) / a) - (mpmath.log(mpmath.mpf(1) / 10**4) + mpmath.log(a)) / (a - 1)


def _walk(eps_at: Any) -> tuple[Any, Any]:
    """Smallest eps over orders, and the order: eps is unimodal in it, so walk in whole steps, then in quarters."""
    order = sp.Integer(2)
    best = eps_at(order)
    for step in (sp.Integer(1), sp.Rational(-1, 4), sp.Rational(1, 4)):
        while order + step > 1 and (following := eps_at(order + step)) < best:
            order, best = order + step, following
    return best, order


def _rounded(value: Any) -> sp.Rational:
    return sp.Rational(round(float(value), 1)).limit_denominator(10)


def _numbers(data: str) -> tuple[Any, Any]:
    q, z, _ = (sp.Rational(x) for x in SETTINGS[data])
    return mpmath.mpf(int(q.p)) / int(q.q), mpmath.mpf(int(z.p)) / int(z.q)


def _series_moment(q: Any, z: Any, order: Any) -> Any:
    """log E[(1-q + q e^{...})^order], term by term; the sum is finite at whole orders."""
    a = mpmath.mpf(int(order.p)) / int(order.q)
    split = z * z * mpmath.log(1 / q - 1) + mpmath.mpf(1) / 2
    total, k = mpmath.mpf(0), 0
    while True:
        rest = a - k
        inner = q**k * (1 - q) ** rest * mpmath.exp(k * (k - 1) / (2 * z * z)) * mpmath.ncdf((split - k) / z)
        outer = q**rest * (1 - q) ** k * mpmath.exp(rest * (rest - 1) / (2 * z * z)) * mpmath.ncdf((rest - split) / z)
        term = mpmath.binomial(a, k) * (inner + outer)
        total += term
        k += 1
        if k > a + 1 and abs(term) < total * mpmath.mpf(10) ** -12:
            return mpmath.log(total)


@cache
def _budget_derive(data: str) -> Derivation:
    d = Derivation()
    with mpmath.workdps(30):
        q, z = _numbers(data)
        d.say("""One client's clipped update moves the average of qN updates by at most S/(qN); noise of standard deviation z
            S/(qN) on it is a Gaussian mechanism with noise multiplier z, and
            each client takes part with probability q.""", {"q": str(q), "z": str(z)})  # fmt: skip
        d.say("""Renyi divergence of order a of one round (add or remove one client, Poisson sampling): the logarithm of
            E[(1-q + q exp((2x-1)/(2 z^2)))^a] for x ~ N(0, z^2), over a-1. Split the expectation where both
            parts of the mixture weigh the same, expand each half by the binomial series, and integrate term
            by term (Mironov, Talwar, Zhang 2019). Rounds add up; convert to (eps, 1e-4).""")  # fmt: skip
        eps, order = _walk(lambda a: _epsilon(a, _series_moment(q, z, a)))
        d.say(f"The smallest eps over orders is reached at order {order}:", sp.Float(str(eps), 12))
    return d.conclude("To one decimal:", _rounded(eps))


@cache
def _quadrature_divergence(data: str, quarters: int) -> arb:
    """log E[(p/q)^a] of one round at the order a = quarters/4, by quadrature between the output densities."""
    q, z = (number(sp.Rational(x)) for x in SETTINGS[data][:2])
    order = arb(fmpq(quarters, 4))

    def integrand(x: acb, analytic: bool) -> acb:
        mixture = (1 - q) + q * ((2 * x - 1) / (2 * z * z)).exp()
        return (-(x * x) / (2 * z * z)).exp() * mixture.pow(acb(order), analytic=analytic)

    whole = acb.integral(integrand, acb(-10 * z), acb(order + 10 * z), rel_tol=QUADRATURE).real
    return (whole / (z * (2 * arb.pi()).sqrt())).log()


def _least_log_delta(data: str, eps: arb) -> arb:
    """The least log delta that an order up to 65 guarantees at eps; it is unimodal in the order."""

    def at(quarters: int) -> arb:
        a = arb(fmpq(quarters, 4))
        spent = ROUNDS * _quadrature_divergence(data, quarters)
        return spent - (a - 1) * eps + a * (1 - 1 / a).log() - (a - 1).log()

    low, high = 5, 260
    while high - low > 2:
        left, right = low + (high - low) // 3, high - (high - low) // 3
        low, high = (low, right) if at(left) < at(right) else (left, high)
    return min(at(k) for k in range(low, high + 1))


@cache
def _budget_oracle(data: str) -> Any:
    """The first number of one decimal whose upper rounding bound already has delta = 1e-4 (Canonne et al., from delta)."""
    before, ctx.dps = ctx.dps, DIGITS
    try:
        target, tenths = number(DELTA).log(), 0
        while _least_log_delta(data, arb(fmpq(2 * tenths + 1, 20))) > target:
            tenths += 1
        return sp.Rational(tenths, 10)
    finally:
        ctx.dps = before


def _budget_computed(data: str) -> float:
    q, z, _ = (float(sp.Rational(x)) for x in SETTINGS[data])
    eps = privacy.sampled_gaussian_epsilon(
        noise_multiplier=z, sampling_rate=q, rounds=ROUNDS, delta=float(DELTA), orders=ORDERS
    )
    return round(float(eps), 1)


register(
    Claim(
        id="fedhdp:dp-noise",
        title="Noise z^2 (S/qN)^2 and the quoted privacy budgets",
        place="Section 2; Section 5.1, Tables 2, 3, 5 and 7",
        statement="""Noise of covariance z^2 (S/qN)^2 I on the average of clipped updates gives client-level DP; with the
            parameters of Tables 5 and 7, 500 rounds and delta = 1e-4, eps is 3.6 (non-IID MNIST), 0.6 (FMNIST) and 4.1
            (FEMNIST).""",
        latex=r"\sigma^2I=z^2\Big(\frac{S}{qN}\Big)^2I;\quad(3.6,10^{-4}),\ (0.6,10^{-4}),\ (4.1,10^{-4})",
        kind="number",
        variables=(DATA,),
        examples=({"data": "FMNIST"},),
        printed=lambda data: sp.Rational(SETTINGS[data][2]),
        derive=_budget_derive,
        oracle=_budget_oracle,
        computed=_budget_computed,
        not_simulated=Exempt(kind="divergence"),
        assumes={"sampling": "poisson", "adjacency": "add-remove", "divisor": "fixed", "clipping": "any"},
        unit="eps, to one decimal",
        remark="""Add-or-remove adjacency, Poisson sampling with rate q, conversion of Canonne, Kamath and Steinke (2020):
            all three quoted numbers follow. They are upper bounds: a privacy-loss-distribution accountant gives 3.24,
            0.51 and 3.63. The paper samples a fixed number of clients per round, for which the Poisson analysis is a
            stand-in.""",
    )
)
