"""Our own, beside Section 2.1: how often an interval around a shrunken estimate misses at worst, whatever the prior.

Model: an estimate is theta + alpha e with e ~ N(0, 1), and is shrunk to w y + (1 - w) mu.  In units of w alpha its error is
Z + B with Z ~ N(0, 1) and the bias B = (1 - w)(mu - theta)/(w alpha), whose law is that of theta: any law, of second moment
m2.  An interval of half-length c in these units misses if |Z + B| > c (Armstrong, Kolesar and Plagborg-Moller 2022,
Econometrica 90:2567).

Belongs here: the largest such probability, from which critical values follow.  Does not belong here: estimating m2, laws of
a bounded fourth moment (`estimators.closed_forms.intervals` has both).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import intervals
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.generative.normal import DIGITS, exported, mass_beyond, number

M2 = Variable("m2", "positive", "second moment of the bias, in squared standard errors", within=("1/20", 30), why="digits")
C = Variable("c", "positive", "half-length of the interval, in standard errors", within=("1/2", 12), why="digits")


def _missed(bias: Any, c: Any) -> Any:
    """Probability that a standard normal with this bias is more than c from 0, by integrating the density."""
    x, low = sp.Symbol("x", real=True), sp.Symbol("low", real=True)
    above = sp.integrate(sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi), (x, low, sp.oo)).rewrite(sp.erfc)
    return above.subs(low, c - bias) + above.subs(low, c + bias)


class WorstMiss(sp.Function):
    """Least concave function of t above P(|Z + sqrt t| > c), at t = m2; arguments m2, c.

    From t = 0 it is the chord to the point where that is a tangent, and beyond it the probability itself.
    """

    nargs = 2
    is_real = True
    is_positive = True

    def _eval_evalf(self, prec: int) -> Any:
        if not all(a.is_Rational for a in self.args):
            return None
        return sp.Float(_least_concave(*self.args, int(prec / 3.3) + 10), precision=prec)


@cache
def _tangent(c: Any, digits: int) -> Any:
    """The root of the bias t > 0 whose tangent passes through t = 0; 0 if the probability is concave in t, for c^2 <= 3."""
    if c**2 <= 3:
        return mpmath.mpf(0)
    with mpmath.workdps(digits + 10):
        c = mpmath.mpf(c.p) / c.q

        def below(u: Any) -> Any:
            """How far the tangent at u^2 lies below the probability at 0."""
            slope = (mpmath.npdf(u - c) - mpmath.npdf(u + c)) / (2 * u)
            return _at(mpmath.mpf(0), c) - _at(u, c) + u**2 * slope

        low, high = mpmath.mpf(0), c + 3
        for _ in range(int(3.4 * digits) + 10):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) > 0 else (low, middle)
        return low


def _at(u: Any, c: Any) -> Any:
    """P(|Z + u| > c) in mpmath's digits."""
    root = mpmath.sqrt(2)
    return (mpmath.erfc((c - u) / root) + mpmath.erfc((c + u) / root)) / 2


@cache
def _least_concave(m2: Any, c: Any, digits: int) -> str:
    u = _tangent(c, digits)
    with mpmath.workdps(digits + 10):
        m2, c = mpmath.mpf(m2.p) / m2.q, mpmath.mpf(c.p) / c.q
        if m2 >= u**2:
            value = _at(mpmath.sqrt(m2), c)
        else:
            value = _at(mpmath.mpf(0), c) + (_at(u, c) - _at(mpmath.mpf(0), c)) * m2 / u**2
        return mpmath.nstr(value, digits)


def _worst_derive(m2: Any, c: Any) -> Derivation:
    d = Derivation()
    t, at = sp.Symbol("t", positive=True), sp.Symbol("t_0", positive=True)
    missed = d.say(
        "Z is symmetric, so given its square t the bias counts by its size: the interval misses with probability r(t) =",
        _missed(sp.sqrt(t), c),
    )
    d.say("""A line above r for all t >= 0 has at m2, the mean of t, a value that no law passes; the lowest of them is the
        least concave function above r, which a law on two values of t attains.""")  # fmt: skip
    slope = d.say("The derivative of r is", sp.simplify(sp.diff(missed, t)))
    d.say("whose limit at t = 0 has the second derivative's sign of c^2 - 3 with it:", sp.limit(sp.diff(slope, t), t, 0))
    d.say("""so r is concave for c^2 <= 3. Otherwise it is convex and then concave, and the least concave function is the
        chord from t = 0 to the t_0 whose tangent passes through it,""",
          sp.Eq(missed.subs(t, at) - at * slope.subs(t, at), sp.limit(missed, t, 0)))  # fmt: skip
    return d.conclude("and r itself from there on; at m2, written WorstMiss(m2, c):", (WorstMiss(m2, c), c))


def _worst_oracle(m2: Any, c: Any) -> tuple[Any, Any]:
    """The largest over laws with the values 0 and u^2, or u^2 = m2 alone, by search in tails from quadrature.

    That no other law has more is checked by a line: through both values, or the tangent at the only one.
    """
    with mpmath.workdps(DIGITS + 10):
        m2_, c_ = number(m2), number(c)

        def missed(u: Any) -> Any:
            near = mass_beyond(c_ - u) if u <= c_ else 1 - mass_beyond(u - c_)
            return near + mass_beyond(c_ + u)

        none, least = missed(mpmath.mpf(0)), mpmath.sqrt(m2_)

        def of_two(u: Any) -> Any:
            return none + (missed(u) - none) * m2_ / u**2

        coarse = [least + (c_ + 8) * k / 200 for k in range(201)]
        best = max(range(201), key=lambda k: of_two(coarse[k]))
        low, high = coarse[max(best - 1, 0)], coarse[min(best + 1, 200)]
        ratio = (mpmath.sqrt(5) - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        below, above = of_two(left), of_two(right)
        while high - low > mpmath.mpf(10) ** (-DIGITS // 2 - 2):
            if below > above:
                high, right, above = right, left, below
                left = high - ratio * (high - low)
                below = of_two(left)
            else:
                low, left, below = left, right, above
                right = low + ratio * (high - low)
                above = of_two(right)
        alone = of_two(least) >= max(below, above)
        value = of_two(least) if alone else max(below, above)
        density = mpmath.exp(-((c_ - least) ** 2) / 2) - mpmath.exp(-((c_ + least) ** 2) / 2)
        slope = density / (2 * least * mpmath.sqrt(2 * mpmath.pi)) if alone else (value - none) / m2_
        for k in range(1, 201):
            u = (c_ + 8) * k / 200
            if missed(u) > value + slope * (u**2 - m2_) + mpmath.mpf(10) ** (-DIGITS // 2):
                raise ArithmeticError(f"a law with the value {mpmath.nstr(u, 6)} misses more often")
        return exported(value), c


def _worst_computed(m2: float, c: float) -> tuple[float, float]:
    missed = intervals.worst(m2, np.inf, c)
    return missed, float(intervals.robust_critical_value(m2, level=1 - missed))


def _worst_simulate(m2: float, c: float) -> simulation.Simulation:
    """Normal errors with the bias of the worst two-valued law, which a grid of float64 probabilities finds."""
    from scipy.special import ndtr

    u = np.sqrt(m2) + np.linspace(0, c + 8, 100_001)
    heights = ndtr(u - c) + ndtr(-u - c)
    worst = u[np.argmax(2 * ndtr(-c) + (heights - 2 * ndtr(-c)) * m2 / u**2)]

    def draw(generator: np.random.Generator, reps: int) -> np.ndarray:
        bias = np.where(generator.random(reps) < m2 / worst**2, worst, 0.0)
        return (abs(generator.standard_normal(reps) + bias) > c).astype(float)[:, None]

    return simulation.sample_means(draw, ["misses of the worst law"], draws=2)


register(
    Claim(
        id="generative:intervals:worst-miss",
        title="How often an interval around a shrunken estimate misses at worst",
        place="beside Section 2.1",
        statement="""Over all laws of the bias with second moment m2, an interval of half-length c standard errors misses
            with at most this probability, which a law on two values attains. The robust critical value for a share of misses
            is the c at which it is that share: judged second, from the share back to c.""",
        latex=r"""\sup_{\mathbb{E}B^2=m_2}\Pr[|Z+B|>c]=\sup_{t\geq m_2}\left(r(0)+\frac{m_2}{t}(r(t)-r(0))\right),\quad%
            r(t)=\Pr[|Z+\sqrt{t}|>c]""",
        kind="probability",
        variables=(M2, C),
        examples=({"m2": 1, "c": 3}, {"m2": 9, "c": 2}, {"m2": 1, "c": "3/2"}),
        derive=_worst_derive,
        oracle=_worst_oracle,
        computed=_worst_computed,
        simulate=_worst_simulate,
        assumes={"law": "gaussian"},
        entries=("worst share of misses", "critical value for it"),
        unit="probability",
        ours=True,
        related=("generative:thm1:estimator",),
        remark="""The usual interval around a shrunken estimate has c = 1.96/sqrt(w) and m2 = (1 - w)/w: with half of the
            weight on the own estimate it misses 7.05 % at worst, with a tenth 14.6 %, and not 5 %.""",
    )
)
