"""Robust-HDP, Sections 3.1-3.2: which noise scale z a privacy budget asks for, and what that means for b and N.

Belongs here: z as a function of the batch size at a fixed budget, by accounting. Does not belong here: variances at a
given z (variance.py), Theorem 1 without sampling (guarantee.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import sympy as sp
from flint import acb, arb, ctx

from estimators.accounting import privacy
from estimators.accounting.accountants import calibrate_noise
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.intervals import number
from theory.engine.registry import register
from theory.engine.tight import Tight

RECORDS, DELTA = 2400, sp.Rational(1, 10**4)
ORDERS = tuple(range(2, 65))
PLACES = 4
DIGITS = 30
QUADRATURE = arb(2) ** -50  # relative, of a moment; a scale is wanted to PLACES decimals

BATCH = Variable("b", "choice", "batch size, compared with 2 b", choices=(16, 600))
EPS = Variable("eps", "choice", "privacy parameter after all rounds", choices=("1/2", "8"))
ROUNDS = Variable("E", "choice", "global rounds, with one local epoch each", choices=(1, 200))


# --- two routes to the Renyi divergence of a sampled step ---------------------------------------------------------------


def _series(q: arb, z: arb, order: int) -> arb:
    """log E[(1-q + q L)^order], L the likelihood ratio, by the binomial series: E[L^k] = exp(k (k-1)/(2 z^2))."""
    total, weight = arb(0), (1 - q) ** order if q < 1 else arb(0)
    if not q < 1:
        return arb(order * (order - 1)) / (2 * z * z)
    for k in range(order + 1):
        total += weight * (arb(k * (k - 1)) / (2 * z * z)).exp()
        weight *= q / (1 - q) * arb(order - k) / (k + 1)
    return total.log()


def _quadrature(q: arb, z: arb, order: int) -> arb:
    """The same moment as an integral over the output, between ends beyond which less than the last digit is left."""

    def density(x: acb, _: Any) -> acb:
        mixture = (1 - q) + q * ((2 * x - 1) / (2 * z * z)).exp()
        return (-(x * x) / (2 * z * z)).exp() * mixture**order

    width = 14 * z.mid()
    total = acb.integral(density, acb(-width), acb(order + width), rel_tol=QUADRATURE).real
    return (total / (z * (2 * arb.pi()).sqrt())).log()


def _calibrated(b: int, eps: str, rounds: int, orders: tuple[int, ...]) -> float:
    steps = rounds * -(-RECORDS // b)

    def spent(z: float) -> float:
        return privacy.sampled_gaussian_epsilon(
            noise_multiplier=z, sampling_rate=b / RECORDS, rounds=steps, delta=float(DELTA), orders=orders
        )

    return calibrate_noise(spent, eps=float(sp.Rational(eps)))


def _solved(spent: Callable[[arb], arb], eps: str, start: float) -> sp.Rational:
    """The z at which `spent` is eps, to PLACES decimals: secant steps on the logarithms."""
    before, ctx.dps = ctx.dps, DIGITS
    try:
        root = mpmath.findroot(
            lambda x: mpmath.mpf(float((spent(arb(float(x)).exp()) / number(sp.Rational(eps))).log())),
            (math.log(start), math.log(start) + 0.1), tol=1e-20,
        )  # fmt: skip
        return sp.Rational(f"{math.exp(float(root)):.{PLACES}f}")
    finally:
        ctx.dps = before


@cache
def _by_series(b: int, eps: str, rounds: int) -> sp.Rational:
    """The noise scale with moments by the series."""
    rate, steps, log_delta = number(sp.Rational(b, RECORDS)), rounds * -(-RECORDS // b), number(1 / DELTA).log()
    order = min(ORDERS[-1], max(ORDERS[0], round(1 + 2 * float(log_delta) / float(sp.Rational(eps)))))

    def spent(z: arb) -> arb:
        """Least eps over the orders; it is unimodal in the order, so walk from where the last walk ended."""
        nonlocal order

        def at(a: int) -> arb:
            rdp = steps * _series(rate, z, a) / (a - 1)
            return rdp + (arb(a - 1) / a).log() + (log_delta - arb(a).log()) / (a - 1)

        value = at(order)
        for step in (1, -1):
            while ORDERS[0] <= order + step <= ORDERS[-1] and (other := at(order + step)) < value:
                order, value = order + step, other
        return value

    return _solved(spent, eps, max(0.4, float(rate) * math.sqrt(2 * steps * float(log_delta)) / float(sp.Rational(eps))))


@cache
def _by_integral(b: int, eps: str, rounds: int) -> sp.Rational:
    """The noise scale with moments by quadrature; the least order by sections."""
    rate, count = number(sp.Rational(b, RECORDS)), rounds * math.ceil(RECORDS / b)
    low, high = ORDERS[0], ORDERS[-1]

    def spent(z: arb) -> arb:
        nonlocal low, high

        @cache
        def at(a: int) -> arb:
            # (log moment of all steps + log(1/delta) - log a + (a-1) log(1 - 1/a)) / (a-1)
            whole = count * _quadrature(rate, z, a) - (number(DELTA) * a).log()
            return whole / (a - 1) + (1 - 1 / arb(a)).log()

        while high - low > 2:
            left, right = low + (high - low) // 3, high - (high - low) // 3
            low, high = (low, right) if at(left) < at(right) else (left, high)
        best = min(range(low, high + 1), key=lambda a: float(at(a)))
        # The next z is near, and so is its order: the window slides to it.
        while lower := [a for a in (best - 1, best + 1) if ORDERS[0] <= a <= ORDERS[-1] and at(a) < at(best)]:
            best = lower[0]
        low, high = max(ORDERS[0], best - 1), min(ORDERS[-1], best + 1)
        return at(best)

    return _solved(spent, eps, 2.0 if b * rounds > RECORDS else 0.8)


@cache
def _computed_scale(b: int, eps: str, rounds: int) -> float:
    return round(_calibrated(b, eps, rounds, ORDERS), PLACES)


def _say_scales(d: Derivation, b: int, eps: str, rounds: int) -> tuple[sp.Rational, sp.Rational]:
    d.say("""A step draws each record with probability q = b/2400 and adds noise of deviation c z. Its Renyi divergence of a
        whole order is a binomial sum; steps add up; the least eps over orders 2 to 64 must be the budget. Solved for z
        at b:""",
          first := _by_series(b, eps, rounds))  # fmt: skip
    d.say("and at 2 b, with half as many steps:", second := _by_series(2 * b, eps, rounds))
    return first, second


def _growth_derive(b: int, eps: str, E: int) -> Derivation:
    d = Derivation()
    first, second = _say_scales(d, b, eps, E)
    return d.conclude("z(2b)/z(b), which sub-linear growth keeps below 2, and its inverse, which growth keeps below 1:",
                      (second / first, first / second))  # fmt: skip


def _growth_oracle(b: int, eps: str, E: int) -> tuple[Any, Any]:
    grown = _by_integral(2 * b, eps, E) / _by_integral(b, eps, E)
    return grown, 1 / grown


def _growth_computed(b: int, eps: str, E: int) -> tuple[float, float]:
    at, twice = (_computed_scale(size, eps, E) for size in (b, 2 * b))
    return twice / at, at / twice


ACCOUNTED = (
    "N = 2400, K = 1, delta = 1e-4, Poisson sampling, add or remove one record",
    "Renyi orders 2 to 64",
)
SOLVER = "a library's root finder on logarithms; what it solves comes from the route's own moments"
NOT_SIMULATED = Exempt(kind="divergence", note="a noise scale, solved for by two routes")

register(
    Claim(
        id="robusthdp:z-sublinear",
        title="The noise scale grows sub-linearly with the batch size",
        place="Section 3.1, text after (5) (Figure 6)",
        statement="""At a fixed budget and number of epochs z grows with b, but slower than b, so that the noise z^2/b^2 of
            (3) and (5) falls. Judged for a doubled batch.""",
        latex=r"z\text{ grows with }b_i\text{ sub-linearly}:\quad\frac{z(2b)}{z(b)}\le2,\quad\frac{z(b)}{z(2b)}\le1",
        kind="order",
        variables=(BATCH, EPS, ROUNDS),
        examples=({"b": 16, "eps": "1/2", "E": 200}, {"b": 600, "eps": "1/2", "E": 1}),
        printed=lambda: (sp.Integer(2), sp.Integer(1)),
        relation="<=",
        derive=_growth_derive,
        oracle=_growth_oracle,
        computed=_growth_computed,
        condition=lambda b, eps, E: sp.true if 2 * b * sp.Rational(eps) <= RECORDS * E else sp.false,
        condition_text="2 b eps <= N E (the budget of an epoch times q is not large)",
        counterexample={"b": 600, "eps": "8", "E": 1},
        entries=("z(2b) / z(b)", "z(b) / z(2b)"),
        remark="""Sub-linear it is in all cases tried, with a power of at most about 1/2; but it need not grow: with a large
            budget and few steps sampling protects little, and fewer steps with larger batches then need less noise. The
            variance falls with b all the more. Finite choices; robusthdp:z-sublinear:order2 is the statement for all b
            in a solvable accounting.""",
        shares={"theory.papers.robusthdp.noise_scale._solved": SOLVER},
        not_simulated=NOT_SIMULATED,
        assumes={"adjacency": "add-remove", "sampling": "poisson", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"b": 600, "eps": "1/2", "E": 200}, ratio="77195/54564"),
        unit="dimensionless",
        assumptions=ACCOUNTED,
    )
)


def _noisier_derive(b: int, eps: str, E: int) -> Derivation:
    d = Derivation()
    first, second = _say_scales(d, b, eps, E)
    d.say("""The variance (7) with the approximation of (3) is proportional to ceil(1/q) z^2/b^2. Halving q doubles the
        steps; with N fixed b is halved too.""")  # fmt: skip
    budgets = d.say("z at eps = 1/2 and at eps = 8:", tuple(_by_series(b, e, E) for e in EPS.choices))
    return d.conclude("Variance at q over that at 2q, b fixed and N fixed, and variance at eps = 1/2 over that at 8:",
                      (2 * (first / second) ** 2, 8 * (first / second) ** 2, (budgets[0] / budgets[1]) ** 2))  # fmt: skip


def _noisier_oracle(b: int, eps: str, E: int) -> tuple[Any, Any, Any]:
    """Steps times z^2/b^2, setting by setting, with the scales from integrals."""

    def variance(z: Any, batch: int, records: int) -> Any:
        return sp.Integer(records) / batch * z**2 / sp.Integer(batch) ** 2

    at, twice = _by_integral(b, eps, E), _by_integral(2 * b, eps, E)
    strict, loose = (_by_integral(b, e, E) for e in EPS.choices)
    # at 2 q with fixed b the client has half the records; z depends on q and the steps alone
    return (
        variance(at, b, RECORDS) / variance(twice, b, RECORDS // 2),
        variance(at, b, RECORDS) / variance(twice, 2 * b, RECORDS),
        variance(strict, b, RECORDS) / variance(loose, b, RECORDS),
    )


def _noisier_computed(b: int, eps: str, E: int) -> tuple[float, float, float]:
    fall = (_computed_scale(b, eps, E) / _computed_scale(2 * b, eps, E)) ** 2
    strict, loose = (_computed_scale(b, e, E) for e in EPS.choices)
    return 2 * fall, 8 * fall, (strict / loose) ** 2


register(
    Claim(
        id="robusthdp:small-q-noisier",
        title="Clients with a small budget or a small batch ratio send noisier updates",
        place="Section 3.2, text after (7) (Figure 1)",
        statement="A smaller q = b/N, from a smaller batch or from more data, and a smaller eps give a larger variance (7).",
        latex=r"""\text{a client with small privacy parameter and small batch size ratio }(q_i)%
            \text{ sends more noisy updates}""",
        kind="order",
        variables=(BATCH, EPS, ROUNDS),
        examples=({"b": 16, "eps": "1/2", "E": 200}, {"b": 600, "eps": "8", "E": 1}),
        printed=lambda: (sp.Integer(1), sp.Integer(1), sp.Integer(1)),
        relation=">=",
        derive=_noisier_derive,
        oracle=_noisier_oracle,
        computed=_noisier_computed,
        entries=("fixed b, N and 2 N", "fixed N, b and 2 b", "eps 1/2 and 8"),
        related=("robusthdp:eq7", "robusthdp:z-sublinear"),
        remark="""Finite choices with b and 2 b dividing N. At fixed b the effect can be tiny (0.4 % per doubling of N at E =
            200, eps = 1/2): in the range of Theorem 1 z^2 falls as fast as the number of steps grows. At fixed N a
            doubled batch divides the variance by 4.02 to 8.39, where 'power 3' says 8.""",
        shares={"theory.papers.robusthdp.noise_scale._solved": SOLVER},
        not_simulated=NOT_SIMULATED,
        assumes={"adjacency": "add-remove", "sampling": "poisson", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"b": 16, "eps": "1/2", "E": 200}, ratio="11495913961/11545920800"),
        unit="dimensionless",
        assumptions=ACCOUNTED,
    )
)


def _constant_derive(b: int, eps: str, E: int) -> Derivation:
    d = Derivation()
    d.say("""A step draws each record with probability q = b/2400; Renyi divergences of orders 2 to 64 by the binomial
        series, steps added up, converted at delta = 1e-4. The z that spends
        eps:""", z := _by_series(b, eps, E))  # fmt: skip
    steps = d.say("in this many steps:", E * sp.ceiling(sp.Rational(RECORDS, b)))
    root = sp.Rational(b, RECORDS) * sp.sqrt(steps * sp.log(1 / DELTA))
    return d.conclude("Theorem 1's z has this value for c2 = z eps / (q sqrt(E E_i log(1/delta))):",
                      z * sp.Rational(eps) / root)  # fmt: skip


def _constant_oracle(b: int, eps: str, E: int) -> Any:
    """The square of the constant, batch by batch, in 50 digits."""
    epochs = sum(len(range(0, RECORDS, b)) for _ in range(E))
    with mpmath.workdps(60):
        z2 = mpmath.mpf(int(_by_integral(b, eps, E).p)) ** 2 / int(_by_integral(b, eps, E).q) ** 2
        budget2 = mpmath.mpf(int(sp.Rational(eps).p)) ** 2 / int(sp.Rational(eps).q) ** 2
        square = z2 * budget2 * RECORDS**2 / (mpmath.mpf(b) ** 2 * epochs * mpmath.log(10**4))
        return sp.Float(mpmath.nstr(mpmath.sqrt(square), 50), 50)


def _constant_computed(b: int, eps: str, E: int) -> float:
    rate, steps = b / RECORDS, E * math.ceil(RECORDS / b)
    return _computed_scale(b, eps, E) * float(sp.Rational(eps)) / (rate * math.sqrt(steps * -math.log(float(DELTA))))


register(
    Claim(
        id="robusthdp:thm1:sampled",
        title="Theorem 1 with sampling: constants that serve",
        place="Section 3.6, Theorem 1, at sampled batches",
        statement="""With c1 = 1 and c2 = 2 Theorem 1's noise scale is enough at the choices of b, eps and E below: the
            accountant needs no larger c2.""",
        latex=r"z_i > c_2 \frac{q_i \sqrt{E \cdot E_i \log \frac{1}{\delta_i}}}{\epsilon_i},\qquad c_1=1,\ c_2=2",
        kind="upper bound",
        variables=(BATCH, EPS, ROUNDS),
        examples=({"b": 16, "eps": "1/2", "E": 200}, {"b": 600, "eps": "8", "E": 200}),
        printed=lambda: sp.Integer(2),
        relation="<=",
        derive=_constant_derive,
        oracle=_constant_oracle,
        computed=_constant_computed,
        condition=lambda b, eps, E: (
            sp.true if sp.Rational(eps) <= sp.Rational(b, RECORDS) ** 2 * E * -(-RECORDS // b) else sp.false
        ),
        condition_text="eps <= c1 q^2 E E_i with c1 = 1 (as the theorem asks)",
        counterexample={"b": 600, "eps": "8", "E": 1},
        ours=True,
        related=("robusthdp:thm1",),
        remark="""Finite choices, all with eps below log(1/delta) = 9.2. Outside eps <= q^2 E E_i the accountant asks for c2
            up to 3.7. The factor q, the gain from sampling, is real there; constants for all q, steps and delta are not
            derived here.""",
        shares={"theory.papers.robusthdp.noise_scale._solved": SOLVER},
        not_simulated=NOT_SIMULATED,
        assumes={"adjacency": "add-remove", "sampling": "poisson", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"b": 16, "eps": "1/2", "E": 200}, ratio="1.844879098"),
        unit="dimensionless",
        assumptions=ACCOUNTED,
    )
)

# --- for all b: Renyi accounting at order 2 ------------------------------------------------------------------------------

STEP_BUDGET = Variable(
    "x", "positive", "divergence of order 2 that one step may spend", within=("1/20", "3/2"), why="certified"
)
RATE = Variable("q", "fraction", "batch size ratio b/N", within=("1/100", "99/100"), why="certified")
LARGE = Variable("large", "choice", "1: one step may spend x + 8/5 instead of x", choices=(0, 1), default=0)


def _order2_derive(x: Any, q: Any, large: int) -> Derivation:
    d = Derivation()
    r, more = sp.symbols("r A", positive=True)
    d.say("""At order 2 a step's divergence is log(1 + q^2 (e^(1/z^2) - 1)). With r the budget of an epoch over the number of
        epochs, 1/q steps per epoch may spend r q each. Solved for 1/z^2, with A = e^(r q) - 1:""",
          log_term := sp.log(1 + more / q**2))  # fmt: skip
    slope = sp.diff(log_term, q) + sp.diff(log_term, more) * r * (1 + more)
    d.say("As dA/dq = r (1 + A), q times its derivative is", relative := sp.factor(q * slope))
    spent = x + sp.Rational(8, 5) * large
    power = (-relative / 2).subs(r, spent / q) / log_term
    power = d.say("z is its power -1/2, so with x = r q it grows with the power", sp.factor(power))
    power = power.subs(more, sp.exp(spent) - 1)
    return d.conclude("That power and its negative:", (power, -power))


@cache
def _order2_oracle(x: Any, q: Any, large: int) -> tuple[Any, Any]:
    """A central difference of log z, extrapolated: the divergence is solved for z at neighbouring q by Newton's method."""
    with mpmath.workdps(90):
        spent = mpmath.mpf(int((x + sp.Rational(8, 5) * large).p)) / int((x + sp.Rational(8, 5) * large).q)
        rate = mpmath.mpf(int(q.p)) / int(q.q)

        def log_scale(log_rate: Any) -> Any:
            here = mpmath.exp(log_rate)
            budget = spent * here / rate
            u = mpmath.log(1 + (mpmath.exp(budget) - 1))  # start below: the value for a full batch
            for _ in range(400):
                value = mpmath.log(1 + here**2 * mpmath.expm1(u)) - budget
                step = value * (1 + here**2 * mpmath.expm1(u)) / (here**2 * mpmath.exp(u))
                u -= step
                if abs(step) < mpmath.mpf(10) ** -80:
                    break
            return -mpmath.log(u) / 2

        power = mpmath.diff(log_scale, mpmath.log(rate), h=mpmath.mpf(10) ** -22)
        value = sp.Float(mpmath.nstr(power, 50), 50)
    return value, -value


register(
    Claim(
        id="robusthdp:z-sublinear:order2",
        title="The power with which the noise scale grows with the batch size",
        place="Section 3.1, text after (5): for all b, by Renyi accounting at order 2",
        statement="""With the Renyi divergence of order 2 of the whole training fixed, z grows with b with a power between 0
            and 1/2.""",
        latex=r"0\le\frac{\mathrm d\log z}{\mathrm d\log b}\le\frac12,\qquad\tfrac1q\log\big(1+q^2(e^{1/z^2}-1)\big)=r",
        kind="order",
        variables=(STEP_BUDGET, RATE, LARGE),
        examples=({"x": "1/10", "q": "1/50"}, {"x": 1, "q": "1/2"}),
        printed=lambda: (sp.Rational(1, 2), sp.Integer(0)),
        relation="<=",
        derive=_order2_derive,
        oracle=_order2_oracle,
        condition=lambda large: sp.true if large == 0 else sp.false,
        condition_text="large == 0 (a step spends at most 1.5 of the divergence; the change of sign is at 1.59)",
        counterexample={"x": "1/10", "q": "1/2", "large": 1},
        entries=("power", "minus the power"),
        not_computed=Exempt(kind="divergence", note="a noise scale, solved for"),
        not_simulated=Exempt(kind="divergence", note="a noise scale, solved for"),
        ours=True,
        assumes={"adjacency": "add-remove", "sampling": "poisson", "law": "gaussian", "noise": "fresh"},
        tight=Tight(at={"x": "1/10", "q": "1/50"}, ratio="5.896624048"),
        unit="dimensionless",
        related=("robusthdp:z-sublinear",),
        remark="""The sign is that of 2 (e^x - 1) - x e^x. As the power is at most 1/2, the variance (7), proportional to
            z^2/b^3 at fixed N, falls with a power 3 - 2 (power) of at least 2 in b, and, proportional to z^2/q at fixed
            b, it does not fall as the data grow: small q is noisier for all q.""",
    )
)
