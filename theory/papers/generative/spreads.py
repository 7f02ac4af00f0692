"""Our own, beside Section 2.1: the law over which estimators average where clients leave their spread open.

Model: the covariance T of the coefficients of clients, in units of an average client's own, has a density proportional to
|edge I + T|^-(k + 1/2) over all positive definite k x k matrices; for one coefficient that is Strawderman's law of a
variance (1971, Ann. Math. Statist. 42:385), the density (edge + t)^(-3/2).

Belongs here: what that law says of a combination of the coefficients before the data.  Does not belong here: averages given
data, which estimators do (`estimators.regression.covariance_average`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.priors import DIGITS, number, precise

K = Variable("k", "size", "coefficients of a client", low=1)
EDGE = Variable("edge", "positive", "scale of the law, in an average client's own variance: 4 in estimators", extreme=False)
MOMENTS = (1, 2, 3)


def _share_printed(k: Any, edge: Any) -> tuple[Any, ...]:
    return 1 / (k + 2), 3 / ((k + 2) * (k + 4)), 15 / ((k + 2) * (k + 4) * (k + 6))


def _share_derive(k: Any, edge: Any) -> Derivation:
    e = Derivation()
    t, s, u, v = sp.symbols("t s u v", positive=True)
    b = sp.Symbol("b", real=True)
    e.say("""The density is the same for Q T Q' with Q orthogonal, so the combination may be the first coefficient. Write
        T as its variance t, its covariances b with the others, and the others' covariance S + b b'/t. T is positive
        definite if and only if t > 0 and S is, b is free, and the Jacobian is 1. With one other coefficient""",
        sp.Matrix([[t, b], [b, s + b**2 / t]]))  # fmt: skip
    one = sp.Matrix([[edge + t, b], [b, edge + s + b**2 / t]]).det()
    e.say("""In general |edge I + T| is edge + t times the determinant of its Schur complement, edge I + S + edge b b'/(t
        (edge + t)), and that is |edge I + S| (1 + edge b'(edge I + S)^-1 b/(t (edge + t))); with one other coefficient
        the rest is""",
        sp.factor(one / ((edge + t) * (edge + s)) - 1))  # fmt: skip
    stretch = t * (edge + t) / edge
    e.say("""With b = sqrt(t (edge + t)/edge) (edge I + S)^(1/2) x the integral over x is a number, and that over S of
        |edge I + S|^-k too, as this falls fast enough for k - 1 coefficients. What is left of t is the power of edge + t and
        the Jacobian of x,""",
        density := (edge + t) ** -(k + sp.Rational(1, 2)) * stretch ** ((k - 1) / 2))  # fmt: skip
    turned = density.subs(edge + t, edge / u).subs(t, edge * v / u) * edge / u**2
    e.say("which has for u = edge/(edge + t), with v = 1 - u, the density, but for a number,",
          shape := sp.powsimp(sp.powdenest(sp.expand_power_base(turned, force=True), force=True)))  # fmt: skip
    powers = [sp.simplify(w * sp.diff(sp.expand_log(sp.log(shape), force=True), w)) + 1 for w in (u, v)]
    e.say("Euler's, with the parameters", tuple(powers))
    first, second = powers

    def mean(power: int) -> Any:
        """Mean of a power of u: a ratio of Euler's integrals."""
        ratio = sp.gamma(first + power) * sp.gamma(first + second) / sp.gamma(first) / sp.gamma(first + power + second)
        return sp.factor(sp.gammasimp(ratio))

    return e.conclude("so that the means of its powers are", tuple(mean(power) for power in MOMENTS))


@cache
def _averages(k: Any) -> tuple[Any, ...]:
    """Means of powers of w/(w + g), with w of Gamma(1/2) and g of Gamma((k + 1)/2).

    Over w by the means of 1/(w + g), of which the next is minus the slope of the one before; over g by quadrature.
    """
    with mp.workdps(DIGITS + 30):  # powers of g cancel where g is large
        shape = (number(k) + 1) / 2

        def means(g: Any) -> tuple[Any, ...]:
            one = mp.sqrt(mp.pi / g) * mp.exp(g) * mp.erfc(mp.sqrt(g))
            two = 1 / g - one * (1 - 1 / (2 * g))
            three = (one / (2 * g**2) + 1 / g**2 - two * (1 - 1 / (2 * g))) / 2
            return 1 - g * one, 1 - 2 * g * one + g**2 * two, 1 - 3 * g * one + 3 * g**2 * two - g**3 * three

        def integrand(root: Any, power: int) -> Any:
            g = root * root
            return 2 * root * g ** (shape - 1) * mp.exp(-g) * means(g)[power - 1]

        ends = [0, mp.mpf(1) / 4, 1, 2, 4, 14]
        found = [mp.quad(lambda root, j=j: integrand(root, j), ends) / mp.gamma(shape) for j in MOMENTS]
        return tuple(precise(value) for value in found)


def _share_oracle(k: Any, edge: Any) -> tuple[Any, ...]:
    """Means over a mixture of Wisharts: the integral of exp(-trace((edge I + T) V)) |V|^(k/2) over V has T's density.

    Given V, T is Wishart, with a first variance of Gamma((k + 1)/2), call it g, over V's first Schur complement; V is
    Wishart too, its first Schur complement Gamma(1/2), call it w, over edge.  So edge/(edge + t) is w/(w + g).
    """
    return _averages(k)


def _share_simulate(k: int, edge: float) -> simulation.Simulation:
    """The sum of the coefficients, whose covariance is of two Wisharts, the first by its factor (Bartlett)."""

    def draw(generator: np.random.Generator, reps: int) -> np.ndarray:
        factor = np.zeros((reps, k, k))
        for i in range(k):
            factor[:, i, i] = np.sqrt(generator.chisquare(k - i, reps))
            for j in range(i):
                factor[:, i, j] = generator.standard_normal(reps)
        rows = generator.standard_normal((reps, k + 1, k)) @ np.linalg.inv(factor)
        t = edge * np.square(rows.sum(axis=2)).sum(axis=1) / k  # of the sum of coefficients, over its squared length k
        return np.column_stack([(edge / (edge + t)) ** j for j in MOMENTS])

    return simulation.sample_means(draw, [f"power {j}" for j in MOMENTS], draws=k * (k + 1) // 2 + k * (k + 1))


register(
    Claim(
        id="generative:spreads:covariance",
        title="What the law of covariances says of a combination of coefficients",
        place="beside Section 2.1",
        statement="""Let t be the variance of a combination c'theta of k coefficients over c'c. If their covariance has the
            density |edge I + T|^-(k + 1/2), edge/(edge + t) has Euler's law with the parameters 1/2 and (k + 1)/2, whatever
            the combination: for one coefficient its square root is uniform, and for any number t exceeds x with a
            probability that falls like x^(-1/2). Judged: the first three moments.""",
        latex=r"""\mathbb{E}\left(\frac{e}{e+t}\right)^{j}=\prod_{i<j}\frac{1+2i}{k+2+2i},\quad t=\frac{c^{\top}Tc}%
            {c^{\top}c},\quad p(T)\propto|eI+T|^{-k-1/2}""",
        kind="identity",
        variables=(K, EDGE),
        examples=({"k": 2, "edge": 4},),
        printed=_share_printed,
        derive=_share_derive,
        oracle=_share_oracle,
        simulate=_share_simulate,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.regression.covariance_average.log_law",
            note="it returns the log density of the covariance and its slopes, over which models average",
        ),
        entries=("first moment", "second moment", "third moment"),
        unit="dimensionless",
        ours=True,
        related=("generative:covariates:risk",),
        remark="Moments of a variable in (0, 1) determine its law; the derivation is the same for every power.",
    )
)  # fmt: skip
