"""Robust-HDP, Section 2: the Gaussian mechanism's noise, on its exact privacy curve.

Belongs here: one release with Gaussian noise, in closed form and by quadrature. Does not belong here: many sampled steps
(noise_scale.py), the guarantee of the whole training (guarantee.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from flint import acb, arb, ctx

from estimators.accounting import privacy
from theory.engine import intervals, simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

DIGITS = 60
ADJACENCY = "adjacency as in Definition 1; sensitivity is the largest change of f under it"


def gaussian_curve(eps: Any, distance: Any) -> Any:
    """Smallest delta at eps for two normal laws whose means are sqrt(8) `distance` standard deviations apart.

    That is Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sqrt(8) distance and Phi(x) = erfc(-x/sqrt(2))/2.
    """
    half = eps / (4 * distance)
    return sp.erfc(half - distance) / 2 - sp.exp(eps) * sp.erfc(half + distance) / 2


def as_number(ball: arb) -> sp.Float:
    """The middle of a ball, to 45 digits at least; raises ValueError if the ball is too wide for them."""
    if not ball.rad() <= arb(10) ** -45 * abs(ball):
        raise ValueError(f"{ball} is not known to 45 digits")
    return sp.Float(ball.str(55, radius=False), 50)


def hockey_stick(eps: Any, mean: Any, variance: Any) -> sp.Float:
    """Integral of max(0, p - e^eps q), p and q normal with means `mean` and 0 and one variance (a ball or a number)."""
    before, ctx.dps = ctx.dps, DIGITS
    try:
        e, m, v = (x if isinstance(x, arb) else intervals.number(x) for x in (eps, mean, variance))
        start = (e * v / m + m / 2).mid()  # where p = e^eps q; the integrand vanishes there, so the last digit is free
        width = v.sqrt().mid()
        first = start.max(m).mid()
        top = ((first - m) * (first - m) / (2 * v)).mid()  # taken out, so that tiny values keep their digits

        def excess(x: acb, _: Any) -> acb:
            return (top - (x - m) ** 2 / (2 * v)).exp() - (top + e - x * x / (2 * v)).exp()

        ends = [acb(start), acb(first) + 4 * acb(width), acb(first) + 20 * acb(width)]
        total = acb.integral(excess, ends[0], ends[1]) + acb.integral(excess, ends[1], ends[2])
        return as_number(total.real * (-top).exp() / (2 * arb.pi() * v).sqrt())
    finally:
        ctx.dps = before


EPS = Variable("eps", "positive", "privacy parameter", within=("1/1000000", 1), why="certified")
ANY_DELTA = Variable(
    "delta", "fraction", "probability that the guarantee may fail", within=("1e-30", "999999/1000000"), why="certified"
)
DELTA = Variable(
    "delta", "fraction", "probability that the guarantee may fail", within=("1e-30", "9999/10000"), why="certified"
)
WIDE_EPS = Variable("eps", "positive", "privacy parameter", within=("1/1000000", "7/2"), why="certified")
BEYOND = Variable("beyond", "choice", "1: the guarantee is asked at eps + 4 instead of eps", choices=(0, 1), default=0)


def _gauss_derive(eps: Any, delta: Any, beyond: int = 0) -> Derivation:
    d = Derivation()
    eps = eps + 4 * beyond
    root = sp.sqrt(sp.log(sp.Rational(5, 4) / delta))
    d.say("""More noise never hurts (adding independent noise is post-processing), so the quoted bound itself is the worst
        case. For sensitivity 1:""", sp.sqrt(2) * root / eps)  # fmt: skip
    d.say("""In the worst direction neighbours give N(1, sigma^2) and N(0, sigma^2), 1/sigma apart. The log-likelihood ratio
        is normal with mean mu^2/2 and variance mu^2 under the first and with mean -mu^2/2 under the second,
        mu = 1/sigma.""")  # fmt: skip
    return d.conclude("Smallest delta: P(ratio > eps) - e^eps P'(ratio > eps) =", gaussian_curve(eps, eps / (4 * root)))


@cache
def _gauss_oracle(eps: Any, delta: Any, beyond: int = 0) -> Any:
    before, ctx.dps = ctx.dps, DIGITS
    try:
        eps = eps + 4 * beyond
        variance = 2 * (intervals.number(sp.Rational(5, 4) / delta)).log() / intervals.number(eps) ** 2
        return hockey_stick(eps, sp.Integer(1), variance)
    finally:
        ctx.dps = before


def _gauss_computed(eps: float, delta: float, beyond: int = 0) -> float:
    eps = eps + 4 * beyond
    return privacy.gaussian_delta(eps=eps, sensitivity=1.0, sigma=np.sqrt(2 * np.log(1.25 / delta)) / eps)


def _gauss_simulate(eps: float, delta: float, beyond: int = 0) -> simulation.Simulation | None:
    if delta < 1 / 4:
        return None  # too rare to be seen in a simulation
    eps = eps + 4 * beyond
    sigma = np.sqrt(2 * np.log(1.25 / delta)) / eps

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = 1 + sigma * gen.standard_normal(reps)
        ratio = (x**2 - (x - 1) ** 2) / (2 * sigma**2)
        return np.maximum(0.0, -np.expm1(eps - ratio))[:, None]

    return simulation.sample_means(draw, labels=("what e^eps does not cover",))


register(
    Claim(
        id="robusthdp:gauss",
        title="Noise of the Gaussian mechanism",
        place="Section 2, text after Definition 1",
        statement="""The Gaussian mechanism is (eps, delta)-DP for all eps < 1 and sigma above sqrt(2 ln(1.25/delta))/eps
            times the sensitivity. Judged at that sigma: the delta needed is at most delta.""",
        latex=r"\epsilon < 1 \text{ and } \sigma > \frac{\sqrt{2 \ln(1.25/\delta)}}{\epsilon} \Delta_2 f",
        kind="upper bound",
        variables=(EPS, ANY_DELTA),
        examples=({"eps": 1, "delta": "1/2"}, {"eps": "1/2", "delta": "9/10"}, {"eps": "1/2", "delta": "1/100000"}),
        printed=lambda delta: delta,
        relation="<=",
        derive=_gauss_derive,
        oracle=_gauss_oracle,
        computed=_gauss_computed,
        simulate=_gauss_simulate,
        assumes={"law": "gaussian"},
        tight=Tight(at={"eps": 1, "delta": "1/2"}, ratio="10.61376091"),
        unit="probability",
        assumptions=(ADJACENCY,),
        remark="""Certified for eps in [1e-6, 1] and delta in [1e-30, 0.999999]; there is much slack: at eps = 1 and delta
            = 1e-5 the delta needed is 4.1e-8. sigma >= would do, and so would larger eps (robusthdp:gauss:range).""",
    )
)

register(
    Claim(
        id="robusthdp:gauss:range",
        title="The quoted Gaussian noise above eps = 1",
        place="Section 2, text after Definition 1: the range eps < 1",
        statement="The quoted sigma still gives (eps, delta)-DP for all eps up to 3.5, but not for every eps.",
        latex=r"\sigma=\frac{\sqrt{2\ln(1.25/\delta)}}{\epsilon}\Delta_2f\ \Rightarrow\ (\epsilon,\delta)\text{-DP}",
        kind="upper bound",
        variables=(WIDE_EPS, DELTA, BEYOND),
        examples=({"eps": 3, "delta": "1/2"}, {"eps": 2, "delta": "3/10"}),
        printed=lambda delta: delta,
        relation="<=",
        derive=_gauss_derive,
        oracle=_gauss_oracle,
        computed=_gauss_computed,
        simulate=_gauss_simulate,
        condition=lambda beyond: sp.true if beyond == 0 else sp.false,
        condition_text="beyond == 0 (eps is at most 3.5)",
        counterexample={"eps": 1, "delta": "3/5", "beyond": 1},
        ours=True,
        assumes={"law": "gaussian"},
        tight=Tight(at={"eps": 3, "delta": "1/2"}, ratio="1.893044693"),
        unit="probability",
        assumptions=(ADJACENCY,),
        related=("robusthdp:gauss",),
        remark="At eps = 4 it fails for delta = 0.85, at eps = 5 for delta = 0.6; for smaller delta it fails at larger eps.",
    )
)

# --- a smaller budget ---------------------------------------------------------------------------------------------------

ANY_EPS = Variable("eps", "positive", "privacy parameter", within=("1/20", 2), why="certified")
SIGMA = Variable(
    "sigma", "positive", "standard deviation of the noise over the sensitivity", within=("1/3", 4), why="certified"
)


def _budget_derive(eps: Any, sigma: Any) -> Derivation:
    d = Derivation()
    e, s = sp.symbols("e s", positive=True)
    curve = d.say("Neighbours lie mu = 1/sigma standard deviations apart; the delta that is needed:",
                  gaussian_curve(e, 1 / (s * 2 * sp.sqrt(2))))  # fmt: skip
    in_eps, in_sigma = (
        d.say(f"Its slope in {name}:", sp.simplify(sp.diff(curve, x))) for x, name in ((e, "eps"), (s, "sigma"))
    )
    at = {e: eps, s: sigma}
    slopes = (-in_eps / in_sigma, 1 / in_sigma)
    return d.conclude("The sigma that is needed has the slopes, in eps at fixed delta and in delta at fixed eps,",
                      tuple(sp.simplify(x).subs(at) for x in slopes))  # fmt: skip


@cache
def _budget_oracle(eps: Any, sigma: Any) -> tuple[Any, Any]:
    """Solve for sigma at neighbouring eps and delta, and take differences: normal tail probabilities in 90 digits."""
    with mpmath.workdps(90):
        e0, s0 = (mpmath.mpf(int(x.p)) / int(x.q) for x in (eps, sigma))

        def needed(s: Any, e: Any) -> Any:
            return mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)

        def solved(e: Any, delta: Any) -> Any:
            return mpmath.findroot(lambda s: needed(s, e) - delta, (s0, s0 * (1 + mpmath.mpf(10) ** -20)))

        delta0, h = needed(s0, e0), mpmath.mpf(10) ** -25
        k = h * delta0
        slopes = (
            (solved(e0 + h, delta0) - solved(e0 - h, delta0)) / (2 * h),
            (solved(e0, delta0 + k) - solved(e0, delta0 - k)) / (2 * k),
        )
        return tuple(sp.Float(mpmath.nstr(x, 50), 50) for x in slopes)


register(
    Claim(
        id="robusthdp:budget",
        title="A smaller privacy budget needs more noise",
        place="Section 3.1, last sentence",
        statement="""The lower the privacy budget (eps, delta) of a client, the larger the noise it adds. Judged on the exact
            curve of one release: the noise that is needed falls as eps grows at fixed delta, and as delta grows at fixed
            eps.""",
        latex=r"\text{the lower the privacy budget }(\epsilon, \delta)\text{ of a client, the larger the noise it adds}",
        kind="order",
        variables=(ANY_EPS, SIGMA),
        examples=({"eps": 1, "sigma": 2}, {"eps": "1/2", "sigma": 1}),
        printed=lambda: (sp.Integer(0), sp.Integer(0)),
        relation="<=",
        derive=_budget_derive,
        oracle=_budget_oracle,
        not_computed=Exempt(kind="divergence"),
        not_simulated=Exempt(kind="divergence"),
        entries=("slope in eps", "slope in delta"),
        tight=Tight(at={"eps": 1, "sigma": 2}, ratio="0"),
        unit="sensitivities",
        assumes={"law": "gaussian"},
        related=("robusthdp:gauss", "robusthdp:small-q-noisier"),
        remark="""For many sampled steps see robusthdp:small-q-noisier. It is so for any family of mechanisms in which more
            noise is post-processing of less.""",
    )
)

__all__ = ["as_number", "gaussian_curve", "hockey_stick"]
