"""Our own, beside Theorem 2: where borrowing strength under privacy stops to pay.

Every client sends its estimate with noise of known variance.  Three rivals: the noisy report itself, the mean of all reports
for everybody, and James and Stein's estimates, which find out from the reports how much clients differ.  James and Stein's
beat the report itself for every variance (from four clients on); the mean of all takes for granted that clients are alike.

Belongs here: the mean of all reports against James and Stein's estimates.  Does not belong here: the risk of those
(james_stein.py), a known variance between clients (messages.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import mse
from theory.engine.registry import register
from theory.papers.generative.model import SIGMA2_Q, SIGMA2_THETA, SIGMA2_X, groups, server_mean

CLIENTS = Variable("m", "size", "clients; James and Stein's estimates around the mean need 4", low=4)
EXAMPLES = (
    {"m": 12, "sigma2_theta": 4, "sigma2_x": 1, "sigma2_q": 1},
    {"m": 18, "sigma2_theta": 1, "sigma2_x": 1, "sigma2_q": 3},
)


def _pooling_derive(m: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Derivation:
    d = Derivation()
    noisy = d.say("A report's variance around its client's parameter is", sigma2_x + sigma2_q)
    own, others = groups(m, sigma2_theta, sigma2_x, sigma2_q)
    pooled = d.say("The mean of all reports has the risk", simplest(mse(server_mean(own, others, m) - own.parameters())))
    borrowed = d.lemma("generative:thm1:james-stein", "James and Stein's estimates from the reports have the risk", m=m,
                       sigma2_theta=sigma2_theta, sigma2_x=noisy)  # fmt: skip
    return d.conclude("The first less the second:", simplest(pooled - borrowed))


def _pooling_oracle(m: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Any:
    """Clients one by one for the mean of all; Stein's unbiased estimate of risk, averaged over S, for the other."""
    noisy, size = sigma2_x + sigma2_q, int(m)
    weights = [sp.Rational(1, size)] * size
    pooled = sum(((w - int(i == 0)) ** 2 * sigma2_theta + w**2 * noisy for i, w in enumerate(weights)), sp.Integer(0))
    x = sp.Symbol("x", positive=True)
    inverse = sp.integrate(x ** (-(sp.Integer(size) - 1) / 2), (x, 1, sp.oo)) / (2 * (sigma2_theta + noisy))
    return pooled - noisy + (size - 3) ** 2 * noisy**2 * inverse / size


def _pooling_simulate(m: int, sigma2_theta: float, sigma2_x: float, sigma2_q: float) -> simulation.Simulation:
    """What clients are apart from their mean, in axes that turn with it; the error of the mean is the same for both."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        variances = sigma2_theta, sigma2_x, sigma2_q
        loudest = sorted(range(3), key=lambda i: -variances[i])  # on a net's first coordinates, which it fills best
        parts = dict(zip(loudest, simulation.turned(gen, reps, 3, m - 1), strict=True))
        truth, own, noise = (np.sqrt(variances[i]) * parts[i] for i in range(3))
        sent = truth + own + noise
        kept = 1 - (m - 3) * (sigma2_x + sigma2_q) / (sent**2).sum(axis=0)
        return ((truth**2 - (kept * sent - truth) ** 2).sum(axis=0) / m)[:, None]

    return simulation.sample_means(draw, labels=["pooled less borrowed"], draws=6)


register(
    Claim(
        id="generative:privacy:pooling",
        title="The mean of all private reports against borrowing from them",
        place="Theorem 2 (not in the paper): rivals under privacy",
        statement="""The mean of all reports for everybody has a risk that exceeds that of James and Stein's estimates from
            the same noisy reports by ((m-1) sigma2_theta^2 - 2 v^2)/(m (sigma2_theta + v)), v = sigma2_x + sigma2_q.""",
        latex=r"\frac{(m-1)\sigma_\theta^4-2(\sigma_x^2+\sigma_q^2)^2}{m(\sigma_\theta^2+\sigma_x^2+\sigma_q^2)}",
        kind="identity",
        variables=(CLIENTS, SIGMA2_THETA, SIGMA2_X, SIGMA2_Q),
        examples=EXAMPLES,
        printed=lambda m, sigma2_theta, sigma2_x, sigma2_q: (
            ((m - 1) * sigma2_theta**2 - 2 * (sigma2_x + sigma2_q) ** 2) / (m * (sigma2_theta + sigma2_x + sigma2_q))
        ),
        derive=_pooling_derive,
        oracle=_pooling_oracle,
        computed=lambda m, sigma2_theta, sigma2_x, sigma2_q: gaussian.pooling_excess(m, sigma2_theta, sigma2_x + sigma2_q),
        simulate=_pooling_simulate,
        ours=True,
        unit="variance per client and coordinate",
        assumes={"given": "nothing"},
        related=("generative:thm1:james-stein", "generative:privacy:border"),
        remark="""Simulated from m = 10, where squared errors have enough moments. For the plain estimate of James and Stein;
            with its positive part borrowing never does worse.""",
    )
)


def _border_derive(m: Any, sigma2_x: Any, sigma2_q: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    excess = d.lemma("generative:privacy:pooling", "With a variance t between clients the mean of all reports loses", m=m,
                     sigma2_theta=t, sigma2_x=sigma2_x, sigma2_q=sigma2_q)  # fmt: skip
    above = d.say("which has the sign of", sp.expand(sp.numer(sp.together(excess))))
    square = d.say(
        "rising in t, with its zero where t^2 is", sp.factor(-above.subs(t, 0) / sp.Poly(above, t).coeff_monomial(t**2))
    )
    return d.conclude("so that borrowing wins beyond", sp.sqrt(square))


def _border_oracle(m: Any, sigma2_x: Any, sigma2_q: Any) -> Any:
    """Where the two risks are equal, by bisection of their difference, each from its own sum."""
    size = int(m)
    with mpmath.workdps(60):
        noisy = mpmath.mpf(int(sp.numer(sigma2_x + sigma2_q))) / int(sp.denom(sigma2_x + sigma2_q))

        def loses(t):
            pooled = t * (1 - mpmath.mpf(1) / size) + noisy / size
            return pooled - noisy * (1 - (size - 3) * noisy / (size * (t + noisy)))  # E[1/S] = 1/((m-3) (t + v))

        low, high = mpmath.mpf(0), 2 * noisy
        for _ in range(220):
            middle = (low + high) / 2
            low, high = (low, middle) if loses(middle) > 0 else (middle, high)
        return sp.Float(mpmath.nstr(high, 50), 50)


register(
    Claim(
        id="generative:privacy:border",
        title="Where borrowing under privacy stops to pay",
        place="Theorem 2 (not in the paper): rivals under privacy",
        statement="""James and Stein's estimates from noisy reports beat the mean of all reports for everybody exactly where
            the variance between clients exceeds sqrt(2/(m-1)) times the variance of a report, noise included.""",
        latex=r"\sigma_\theta^2>\sqrt{\frac{2}{m-1}}\,(\sigma_x^2+\sigma_q^2)",
        kind="identity",
        variables=(CLIENTS, SIGMA2_X, SIGMA2_Q),
        examples=({"m": 18, "sigma2_x": 1, "sigma2_q": 3}, {"m": 9, "sigma2_x": 2, "sigma2_q": 1}),
        printed=lambda m, sigma2_x, sigma2_q: sp.sqrt(sp.Integer(2) / (m - 1)) * (sigma2_x + sigma2_q),
        derive=_border_derive,
        oracle=_border_oracle,
        computed=lambda m, sigma2_x, sigma2_q: gaussian.pooling_border(m, sigma2_x + sigma2_q),
        not_simulated=Exempt(kind="part", of=("generative:privacy:pooling",)),
        ours=True,
        unit="variance per client and coordinate",
        assumes={"given": "nothing"},
        related=("generative:privacy:pooling", "generative:thm1:james-stein"),
    )
)
