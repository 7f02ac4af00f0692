"""Our own, beside Section 2.1: how often an interval around a shrunken estimate misses at worst, whatever the prior.

Model: an estimate is theta + alpha e with e ~ N(0, 1), and is shrunk to w y + (1 - w) mu.  In units of w alpha its error is
Z + B with Z ~ N(0, 1) and the bias B = (1 - w)(mu - theta)/(w alpha), whose law is that of theta: any law, of second moment
m2.  An interval of half-length c in these units misses if |Z + B| > c (Armstrong, Kolesar and Plagborg-Moller 2022,
Econometrica 90:2567).

Belongs here: the largest such probability, from which critical values follow, over all laws and over those of a bounded
kurtosis.  Does not belong here: estimating moments (`estimators.closed_forms.intervals`).
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
KAPPA = Variable(
    "kappa", "positive", "largest kurtosis of the bias: fourth moment over squared second", within=("5/4", 40), why="digits"
)
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
            return _at(mpmath.mpf(0), c) - _at(u, c) + u**2 * _slope(u, c)

        low, high = mpmath.mpf(0), c + 3
        for _ in range(int(3.4 * digits) + 10):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle) > 0 else (low, middle)
        return low


def _at(u: Any, c: Any) -> Any:
    """P(|Z + u| > c) in mpmath's digits."""
    root = mpmath.sqrt(2)
    return (mpmath.erfc((c - u) / root) + mpmath.erfc((c + u) / root)) / 2


def _slope(u: Any, c: Any) -> Any:
    """The derivative of that probability by u^2."""
    return (mpmath.npdf(u - c) - mpmath.npdf(u + c)) / (2 * u) if u else c * mpmath.npdf(c)


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


def _missed_in_tails(u: Any, c: Any) -> Any:
    """P(|Z + u| > c) from quadrature, for oracles."""
    return (mass_beyond(c - u) if u <= c else 1 - mass_beyond(u - c)) + mass_beyond(c + u)


def _slope_of_bells(u: Any, c: Any) -> Any:
    """Its derivative by u^2, for u > 0."""
    return (mpmath.exp(-((c - u) ** 2) / 2) - mpmath.exp(-((c + u) ** 2) / 2)) / (2 * u * mpmath.sqrt(2 * mpmath.pi))


def _highest(function: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The largest value of a function with one maximum in between and where it is, by golden sections."""
    ratio = (mpmath.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    below, above = function(left), function(right)
    while high - low > mpmath.mpf(10) ** (-DIGITS // 2 - 2):
        if below > above:
            high, right, above = right, left, below
            left = high - ratio * (high - low)
            below = function(left)
        else:
            low, left, below = left, right, above
            right = low + ratio * (high - low)
            above = function(right)
    return max((below, left), (above, right), (function(low), low), (function(high), high), key=lambda found: found[0])


def _worst_oracle(m2: Any, c: Any) -> tuple[Any, Any]:
    """The largest over laws with the values 0 and u^2, or u^2 = m2 alone, by search in tails from quadrature.

    That no other law has more is checked by a line: through both values, or the tangent at the only one.
    """
    with mpmath.workdps(DIGITS + 10):
        m2_, c_ = number(m2), number(c)

        def missed(u: Any) -> Any:
            return _missed_in_tails(u, c_)

        none, least = missed(mpmath.mpf(0)), mpmath.sqrt(m2_)

        def of_two(u: Any) -> Any:
            return none + (missed(u) - none) * m2_ / u**2

        coarse = [least + (c_ + 8) * k / 200 for k in range(201)]
        best = max(range(201), key=lambda k: of_two(coarse[k]))
        low, high = coarse[max(best - 1, 0)], coarse[min(best + 1, 200)]
        value, _ = _highest(of_two, low, high)
        alone = of_two(least) >= value
        slope = _slope_of_bells(least, c_) if alone else (value - none) / m2_
        for k in range(1, 201):
            u = (c_ + 8) * k / 200
            if missed(u) > value + slope * (u**2 - m2_) + mpmath.mpf(10) ** (-DIGITS // 2):
                raise ArithmeticError(f"a law with the value {mpmath.nstr(u, 6)} misses more often")
        return exported(value), c


def _worst_computed(m2: float, c: float) -> tuple[float, float]:
    return _kurtosis_computed(m2, np.inf, c)


def _worst_simulate(m2: float, c: float) -> simulation.Simulation:
    """Normal errors with the bias of the worst two-valued law, which a grid of float64 probabilities finds."""
    from scipy.special import ndtr

    u = np.sqrt(m2) + np.linspace(0, c + 8, 100_001)
    heights = ndtr(u - c) + ndtr(-u - c)
    worst = u[np.argmax(2 * ndtr(-c) + (heights - 2 * ndtr(-c)) * m2 / u**2)]
    return _two_valued(0.0, worst, m2 / worst**2, c)


def _two_valued(first: float, second: float, share: float, c: float) -> simulation.Simulation:
    """Misses where the bias has the second value in this share of intervals."""

    def draw(generator: np.random.Generator, reps: int) -> np.ndarray:
        bias = np.where(generator.random(reps) < share, second, first)
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


class WorstMissKurtosis(sp.Function):
    """The largest mean of P(|Z + sqrt t| > c) over laws of t >= 0 with mean m2 and mean square at most kappa m2^2."""

    nargs = 3
    is_real = True
    is_positive = True

    def _eval_evalf(self, prec: int) -> Any:
        if not all(a.is_Rational for a in self.args):
            return None
        return sp.Float(_touching(*self.args, int(prec / 3.3) + 10), precision=prec)


@cache
def _touching(m2: Any, kappa: Any, c: Any, digits: int) -> str:
    """The value where a parabola touches the probability at both values of t, or at the larger and meets it at t = 0."""
    u0 = _tangent(c, digits)
    with mpmath.workdps(digits + 10):
        t0, moment, ratio = u0**2, mpmath.mpf(m2.p) / m2.q, mpmath.mpf(kappa.p) / kappa.q
        if moment >= t0 or ratio * moment >= t0:
            return _least_concave(m2, c, digits)
        c = mpmath.mpf(c.p) / c.q
        variance = (ratio - 1) * moment**2

        def values(low: Any) -> tuple[Any, Any, Any, Any]:
            high = moment + variance / (moment - low)
            return low, high, _at(mpmath.sqrt(low), c), _at(mpmath.sqrt(high), c)

        def excess(low: Any) -> Any:
            """By how much twice the slope of the chord exceeds the sum of the slopes at both values."""
            low, high, below, above = values(low)
            return 2 * (above - below) / (high - low) - _slope(mpmath.sqrt(low), c) - _slope(mpmath.sqrt(high), c)

        low, high = mpmath.mpf(0), moment - variance / (t0 - moment)
        if excess(low) >= 0:
            high = low
        for _ in range(int(3.4 * digits) + 10 if high > low else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        low, high, below, above = values(low)
        return mpmath.nstr(below + (above - below) * (moment - low) / (high - low), digits)


def _kurtosis_derive(m2: Any, kappa: Any, c: Any) -> Derivation:
    d = Derivation()
    t, k = sp.Symbol("t", positive=True), sp.Symbol("k", integer=True, nonnegative=True)
    missed = d.say(
        "Given its square t, a bias makes the interval miss with the probability r(t) =",
        _missed(sp.sqrt(t), c),
    )
    d.say("""A parabola above r for all t >= 0 has a mean that no law with these moments passes; where it touches r at the
        values of a law of mean m2 and mean square kappa m2^2, that law is the worst.""")  # fmt: skip
    slope = d.say("The derivative of r is", sp.simplify(sp.diff(missed, t)))
    # The density at c^2 of a chi-squared variable with k degrees of freedom, over that with k - 2, is c^2/(k - 2).
    density = c ** (k - 2) * sp.exp(-(c**2) / 2) / (2 ** (k / 2) * sp.gamma(k / 2))
    d.say("""the density at c^2 of a chi-squared variable with 3 degrees of freedom and noncentrality t: a mean, over a
        Poisson number j with mean t/2, of central ones with 3 + 2 j degrees of freedom; at t = 0""",
          density.subs(k, 3))  # fmt: skip
    bend = d.say(
        """Each further derivative takes half the difference of neighbouring terms of that mean, so the third derivative of r
        is the mean of a quarter of their second differences, which over the term with k degrees of freedom are""",
        sp.factor(sp.simplify(sp.gammasimp((density.subs(k, k + 4) - 2 * density.subs(k, k + 2) + density) / density))),
    )
    d.say("a parabola in k over a positive number, of signs +, -, +:", sp.Poly(sp.numer(sp.together(bend)), k).as_expr())
    d.say("""so, as Poisson's kernel adds no changes of sign (Karlin 1968), the third derivative of r has the signs +, -, +
        or fewer. A parabola less r has the third derivative's signs -, +, -; by Rolle's theorem it touches 0 at two values
        at most, or touches it at one and meets it at t = 0, and is positive elsewhere: two values suffice.""")  # fmt: skip
    a, b = sp.symbols("a b", positive=True)
    d.say("""With mean m2 and variance v = (kappa - 1) m2^2 the values are a < m2 and b = m2 + v/(m2 - a); a parabola touches
        r at both where the chord's slope is the mean of the slopes there, and a = 0 where it is more already:""",
          sp.Eq(2 * (missed.subs(t, b) - missed.subs(t, a)) / (b - a), slope.subs(t, a) + slope.subs(t, b)))  # fmt: skip
    d.say("""If the line from t = 0 that touches r does so at t_0 <= kappa m2, the law that attains WorstMiss(m2, c) has no
        larger mean square, and neither has the one value m2 if m2 >= t_0.""")  # fmt: skip
    return d.conclude("What is so found is written WorstMissKurtosis(m2, kappa, c):", (WorstMissKurtosis(m2, kappa, c), c))


def _kurtosis_oracle(m2: Any, kappa: Any, c: Any) -> tuple[Any, Any]:
    """The largest over laws with two values of u^2, by search over the higher one, in tails from quadrature.

    That no other law has more is checked by the parabola through both values that touches at the higher one.
    """
    with mpmath.workdps(DIGITS + 10):
        m2_, kappa_, c_ = number(m2), number(kappa), number(c)

        def missed(u: Any) -> Any:
            return _missed_in_tails(u, c_)

        def law(high: Any) -> tuple[Any, Any]:
            """The lower value and the chance of `high`: of all of the variance, or of less with the lower value 0."""
            if high >= kappa_ * m2_:
                low = max(m2_ - (kappa_ - 1) * m2_**2 / (high - m2_), mpmath.mpf(0))  # which rounding may pass
                return low, (m2_ - low) / (high - low)
            return mpmath.mpf(0), m2_ / high

        def of_two(high: Any) -> Any:
            low, chance = law(high)
            return missed(mpmath.sqrt(low)) * (1 - chance) + missed(mpmath.sqrt(high)) * chance

        far = (mpmath.sqrt(m2_) + c_ + 8) ** 2
        coarse = sorted({m2_ + (far - m2_) * k / 200 for k in range(201)} | {min(kappa_ * m2_, far)})
        heights = [of_two(high) for high in coarse]
        best = heights.index(max(heights))
        if coarse[best] == kappa_ * m2_:  # where the law changes its form there may be a corner
            ends = [(coarse[best - 1], coarse[best]), (coarse[best], coarse[min(best + 1, len(coarse) - 1)])]
        else:
            ends = [(coarse[max(best - 1, 0)], coarse[min(best + 1, len(coarse) - 1)])]
        value, high = max((_highest(of_two, *pair) for pair in ends), key=lambda found: found[0])
        low, _ = law(high)
        floor, top = missed(mpmath.sqrt(low)), missed(mpmath.sqrt(high))
        slope = _slope_of_bells(mpmath.sqrt(high), c_)
        chord = (top - floor) / (high - low) if high > low else slope
        bend = max((slope - chord) / (high - low), mpmath.mpf(0)) if high > low else mpmath.mpf(0)
        small = mpmath.mpf(10) ** (-DIGITS // 2)
        if top + slope * (m2_ - high) + bend * ((kappa_ - 1) * m2_**2 + (m2_ - high) ** 2) > value + small:
            raise ArithmeticError("laws with these moments may miss more often")
        for k in range(201):
            u = (c_ + 8) * k / 200
            above = top + slope * (u**2 - high) + bend * (u**2 - high) ** 2
            if missed(u) > above + small:
                raise ArithmeticError(f"a law with the value {mpmath.nstr(u, 6)} misses more often")
        return exported(value), c


def _kurtosis_computed(m2: float, kappa: float, c: float) -> tuple[float, float]:
    missed = intervals.worst(m2, kappa, c)
    return missed, float(intervals.robust_critical_value(m2, kappa, level=1 - missed))


def _kurtosis_simulate(m2: float, kappa: float, c: float) -> simulation.Simulation:
    """Normal errors with the bias of the worst two-valued law, which a grid of float64 probabilities finds."""
    from scipy.special import ndtr

    def missed(t):
        return ndtr(np.sqrt(t) - c) + ndtr(-np.sqrt(t) - c)

    high = m2 + np.linspace(0, (np.sqrt(m2) + c + 8) ** 2, 100_001)[1:]
    low = np.maximum(m2 - (kappa - 1) * m2**2 / (high - m2), 0.0)
    chance = (m2 - low) / (high - low)
    best = np.argmax(missed(low) * (1 - chance) + missed(high) * chance)
    return _two_valued(np.sqrt(low[best]), np.sqrt(high[best]), chance[best], c)


register(
    Claim(
        id="generative:intervals:worst-miss:kurtosis",
        title="The same where the bias has a bounded kurtosis",
        place="beside Section 2.1",
        statement="""Over all laws of the bias with second moment m2 and fourth moment at most kappa m2^2, an interval of
            half-length c standard errors misses with at most this probability, which a law with two values of the squared
            bias attains. The robust critical value for a share of misses and that kurtosis is the c at which it is that
            share: judged second, from the share back to c.""",
        latex=r"""\sup_{\mathbb{E}B^2=m_2,\ \mathbb{E}B^4\leq\kappa m_2^2}\Pr[|Z+B|>c]=\sup_{\substack{0\leq a<m_2<b\\%
            (m_2-a)(b-m_2)\leq(\kappa-1)m_2^2}}\frac{(b-m_2)r(a)+(m_2-a)r(b)}{b-a},\quad r(t)=\Pr[|Z+\sqrt{t}|>c]""",
        kind="probability",
        variables=(M2, KAPPA, C),
        examples=(
            {"m2": 4, "kappa": 3, "c": 5},
            {"m2": 1, "kappa": 3, "c": "3/2"},
            {"m2": 2, "kappa": 9, "c": 4},
            {"m2": 1, "kappa": 30, "c": 3},
        ),
        derive=_kurtosis_derive,
        oracle=_kurtosis_oracle,
        computed=_kurtosis_computed,
        simulate=_kurtosis_simulate,
        assumes={"law": "gaussian"},
        entries=("worst share of misses", "critical value for it"),
        unit="probability",
        ours=True,
        related=("generative:intervals:worst-miss",),
        remark="""The usual interval around a shrunken estimate with half of the weight on the own estimate misses 5.35 % at
            worst if the kurtosis is at most a normal law's, 3, and with a tenth 7.94 %; without that bound 7.05 and
            14.6 %.""",
    )
)
