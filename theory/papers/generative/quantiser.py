"""Theorem 2, part 1: the k-bit quantiser, and what projecting onto its range does to a message.

Belongs here: (37)-(39), the projection. Does not belong here: how wide the range is (ranges.py), what the messages' noise
costs the estimate (messages.py), privacy (local_privacy.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import quantization
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import ZERO
from theory.papers.generative.normal import DIGITS, exported, mass_beyond, number, upper_tail

HALF = sp.Rational(1, 2)


# --- the quantiser -----------------------------------------------------------------------------------------------------

HALF_RANGE = Variable("a", "positive", "half range of the quantiser (b in the theorem, a in its proof)")
BITS = Variable("k", "choice", "bits", choices=(1, 2, 3, 5))
OFFSET = Variable("offset", "fraction", "distance of x from the middle of its cell, in half cells", closed=True)
SIDE = Variable("side", "choice", "1: x lies above the middle of its cell; -1: below", choices=(1, -1), default=1)


def _quantiser_derive(a: Any, k: int, offset: Any, side: int) -> Derivation:
    d = Derivation()
    steps = sp.Integer(2) ** int(k) - 1
    width = d.say("2^k levels cut [-a, a] into 2^k - 1 cells of width", 2 * a / steps)
    ahead = d.say("x lies in its cell at the fraction", (1 + side * offset) / 2)
    low, high = -ahead * width, (1 - ahead) * width
    d.say("The output minus x is one of two numbers, the upper one with that probability:", (low, high))
    mean = sp.expand((1 - ahead) * low + ahead * high)
    square = sp.factor(sp.expand((1 - ahead) * low**2 + ahead * high**2))
    return d.conclude("Mean and mean square of the output minus x:", (mean, square))


def _quantiser_oracle(a: Any, k: int, offset: Any, side: int) -> tuple[Any, Any]:
    """(37) as printed, with its floor, in every cell of the range."""
    steps = 2 ** int(k) - 1
    found = set()
    for cell in range(steps):
        x = 2 * a / steps * (cell + HALF + side * offset / 2) - a
        position = sp.Rational(steps) / (2 * a) * (x + a)
        floor = sp.floor(position)
        if floor == steps:  # the upper end: Bern(0) adds nothing
            found.add((ZERO, ZERO))
            continue
        outputs = [(1 - (position - floor), 2 * a / steps * floor - a), (position - floor, 2 * a / steps * (floor + 1) - a)]
        found.add((sum(w * (y - x) for w, y in outputs), sum(w * (y - x) ** 2 for w, y in outputs)))
    (value,) = found
    return value


def _place(a: float, k: int, offset: float, side: int) -> float:
    """A point of the first cell."""
    return a * ((1 + side * offset) / (2**k - 1) - 1)


def _quantiser_simulate(a: float, k: int, offset: float, side: int) -> simulation.Simulation:
    """(37) in units of a cell, for a point of the first one."""
    cell, ahead = 2 * a / (2**k - 1), 0.5 + side * offset / 2

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        error = cell * ((gen.random(reps) < ahead) - ahead)
        return np.column_stack([error, error**2])

    return simulation.sample_means(draw, scales=[a, None], labels=["output minus x", "its square"])


register(
    Claim(
        id="generative:thm2:quantiser",
        title="The stochastic k-bit quantiser",
        place="Section 5.1.2, proof of Theorem 2 part 1, (37)-(39)",
        statement="""On [-a, a] the quantiser's output has mean x and its squared error is at most a^2/(2^k - 1)^2 on
            average. Judged: the bias (printed as 0) and the variance.""",
        latex=r"\mathbb{E}[q_k(x)]=x,\qquad\sigma_{q_k}^2=\mathbb{E}[(q_k(x)-x)^2]\leq\frac{a^2}{(2^k-1)^2}",
        kind="upper bound",
        variables=(HALF_RANGE, BITS, OFFSET, SIDE),
        examples=({"a": 3, "k": 2, "offset": "1/4"}, {"a": 1, "k": 3, "offset": "1/2", "side": -1}),
        printed=lambda a, k: (ZERO, a**2 / (sp.Integer(2) ** int(k) - 1) ** 2),
        relation="<=",
        derive=_quantiser_derive,
        oracle=_quantiser_oracle,
        computed=lambda a, k, offset, side: (0.0, quantization.quantiser_variance(_place(a, k, offset, side), a, k)),
        simulate=_quantiser_simulate,
        shifts=lambda offset, **_: {offset: (t := sp.Symbol("t", nonnegative=True)) / (1 + t)},
        entries=("bias", "variance"),
        tight=Tight(at={"a": 3, "k": 2, "offset": 0}),
        assumes={"noise": "fresh", "clipping": "none"},
        unit="bias in units of x, variance in their square",
        remark="""The bound is attained midway between two levels and is slack by the factor 1 - offset^2 elsewhere; over a
            cell the variance is two thirds of it on average. It holds for x in [-a, a] only: what is projected onto the
            range first has a bias.""",
    )
)


# --- projection --------------------------------------------------------------------------------------------------------

WIDE = Variable("a", "positive", HALF_RANGE.meaning, extreme=False)
CENTRED = Variable("mu", "real", "centre of the clients' parameters", extreme=False)
MEAN_VARIANCE = Variable(
    "variance", "positive", "variance of a sample mean around mu, sigma2_theta + sigma2_x/n", extreme=False
)


def _excess(z: Any) -> Any:
    """Mean amount by which a standard normal exceeds z."""
    return sp.exp(-(z**2) / 2) / sp.sqrt(2 * sp.pi) - z * upper_tail(z)


def _projection_derive(a: Any, mu: Any, variance: Any) -> Derivation:
    d = Derivation()
    scale = sp.sqrt(variance)
    d.say("The quantiser adds nothing on average to what it is given, the sample mean projected onto [-a, a].")
    high = d.say("Projection takes away what is above a, on average", scale * _excess((a - mu) / scale))
    low = d.say("and adds what is missing below -a,", scale * _excess((a + mu) / scale))
    return d.conclude("Mean of the message minus mu:", low - high)


def _projection_oracle(a: Any, mu: Any, variance: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        half, centre, scale = number(a), number(mu), mpmath.sqrt(number(variance))

        def beyond(z: Any) -> Any:
            return mass_beyond(z) if z >= 0 else 1 - mass_beyond(-z)

        inside = mpmath.quad(
            lambda x: x * mpmath.exp(-(((x - centre) / scale) ** 2) / 2),
            sorted({-half, half, min(max(centre, -half), half)}),
        )
        inside /= scale * mpmath.sqrt(2 * mpmath.pi)
        return exported(inside + half * (beyond((half - centre) / scale) - beyond((half + centre) / scale)) - centre)


def _projection_simulate(a: float, mu: float, variance: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        means = gen.normal(mu, np.sqrt(variance), reps)
        return (quantization.quantise(means, a, 4, gen) - mu)[:, None]

    return simulation.sample_means(draw, labels=["message minus mu"], draws=2)


register(
    Claim(
        id="generative:thm2:quantiser:projection",
        title="Is the message unbiased after projection?",
        place="Theorem 2, E[q(x)] = x for all x; Section 5.1.2, projection onto [-a, a] before q_k and q_p",
        statement="""Each client applies q to its projected sample mean, and (36), which needs E[q(x)] = x for every x, is
            used. Judged: the mean of the message minus mu.""",
        latex=r"""\mathbb{E}[q(\bm{x})]=\bm{x}\ \text{for all}\ \bm{x}\in\mathbb{R}^d;\quad\tilde{X}_i=%
            \mathsf{Proj}_{[-a,a]}[\overline{X}_i]""",
        kind="identity",
        variables=(WIDE, CENTRED, MEAN_VARIANCE),
        examples=({"a": 1, "mu": 1, "variance": 1}, {"a": 2, "mu": -2, "variance": 3}),
        printed=lambda: ZERO,
        derive=_projection_derive,
        oracle=_projection_oracle,
        computed=lambda a, mu, variance: quantization.projection_bias(a, mu, variance),
        simulate=_projection_simulate,
        condition=lambda mu: sp.Eq(mu, 0),
        condition_text="mu == 0 (the centre is the middle of the range)",
        counterexample={"a": 1, "mu": 1, "variance": 1},
        assumes={"noise": "fresh", "clipping": "any"},
        unit="units of the samples",
        related=("generative:thm2:quantiser",),
        remark="""No mechanism with bounded outputs is unbiased for every real x, so neither q_k nor the projected q_p meets
            the theorem's own hypothesis. The proof conditions on the event that nothing is projected; given that event
            the sample means are truncated normals whose mean is not mu either. The bias is that of two tails: small for
            the range of generative:thm2:event:range, and never zero unless mu is.""",
    )
)
