"""What an error in the estimated noise costs the weights: Robust-HDP, Section 3.4 after Lemma 1.

Belongs here: weights from noise variances that are estimated with an error. Does not belong here: the error itself
(estimate.py), weights from known variances (weights.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy as sp

from estimators.server import robust_pca
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.estimate import ALPHA2, SIGMA2S, P, R
from theory.papers.robusthdp.model import ONE


def _weights(estimates: Sequence[Any]) -> list[Any]:
    total = sum(1 / v for v in estimates)
    return [1 / (v * total) for v in estimates]


ERRORS = Variable("errors", "nonnegative", "t times the mean squared error of each client's elements, for t to infinity",
                  lengths=(2, 3))  # fmt: skip


def _small_approach(t: Any, sigma2s: Sequence[Any], errors: Sequence[Any], r: Any) -> tuple[Any, ...]:
    """Weights when client j's error is errors_j/t."""
    return tuple(_weights([r**2 * x + a / t for x, a in zip(sigma2s, errors, strict=True)]))


def _small_derive(sigma2s: Sequence[Any], errors: Sequence[Any], r: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    at = d.say("Weights 1/(r^2 sigma_j^2 + alpha_j^2), normalised, with alpha_j^2 = errors_j/t:",
               _small_approach(t, sigma2s, errors, r))  # fmt: skip
    return d.conclude("For t to infinity they tend to:", tuple(limit(x, t, sp.oo) for x in at))


def least_noise_weights(sigma2s: Sequence[Any]) -> tuple[Any, ...]:
    """The weights that add to one with the least noise, from the normal equations with a multiplier."""
    n = len(sigma2s)
    rows = [[fraction(2 * x) if i == j else fraction(0) for j in range(n)] + [fraction(1)] for i, x in enumerate(sigma2s)]
    found = solve([*rows, [fraction(1)] * n + [fraction(0)]], [fraction(0)] * n + [fraction(1)])
    return tuple(rational(x) for x in found[:n])


register(
    Claim(
        id="robusthdp:small-alpha",
        title="A small estimation error leaves the weights near optimal",
        place="Section 3.4, text after Lemma 1",
        statement="""As the errors alpha_j^2 go to 0, the weights 1/(r^2 sigma_j^2 + alpha_j^2), normalised, go to the
            optimal ones, whatever the common factor r.""",
        latex=r"""\text{a small deviation }\alpha_j^2\text{ from }r^2\sigma_j^2%
            \text{ still results in the Robust-HDP returning aggregation weights close to the optimum weights }\{w_i^*\}""",
        kind="limit",
        variables=(SIGMA2S, ERRORS, R),
        examples=(
            {"sigma2s": [1, 4], "errors": [1, 2], "r": "1/2"},
            {"sigma2s": [1, 2, 5], "errors": [3, 0, 1], "r": 2},
        ),
        printed=lambda sigma2s: tuple(1 / x / sum(1 / y for y in sigma2s) for x in sigma2s),
        derive=_small_derive,
        oracle=least_noise_weights,
        approach=_small_approach,
        computed=lambda sigma2s: tuple(robust_pca.precision_weights(sigma2s)),
        not_simulated=Exempt(kind="limit", of=("robusthdp:small-alpha:excess",)),
        entries=("w_1, ..., w_n",),
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        related=("robusthdp:lem1:mean",),
        remark="""How near: robusthdp:small-alpha:excess and :bound. What must be small is alpha_j^2 over r^2 sigma_j^2, and
            only where it differs between clients: an error in proportion to the noise does no harm at all.""",
    )
)


def _power_derive(sigma2: Any, r: Any, alpha2: Any, p: Any) -> Derivation:
    d = Derivation()
    d.say("sigma2 is the noise power of all p elements, so one element has", sigma2 / p)
    mean = d.say("sigma_hat^2 = ||S'||^2/p averages elements, so its mean is", r**2 * sigma2 / p + alpha2)
    return d.conclude("Relative to what an error-free estimate gives:", simplest(mean / (r**2 * sigma2 / p) - 1))


register(
    Claim(
        id="robusthdp:small-alpha:power",
        title="A large total noise power does not make the error small",
        place="Section 3.4, last sentence",
        statement="""With sigma_j^2 >> 1 'the noise power in the whole model parameter vector with length p', the deviation
            alpha_j^2 from r^2 sigma_j^2 is small: it is the fraction alpha_j^2 / (r^2 sigma_j^2).""",
        latex=r"""\text{as }\sigma_j^2 \gg 1\text{ (it is the noise power in the whole model parameter vector with length }p%
            \text{), a small deviation }\alpha_j^2\text{ from }r^2 \sigma_j^2""",
        kind="identity",
        variables=(
            Variable("sigma2", "positive", "noise power of one client's whole update, (7)"),
            R,
            Variable("alpha2", "positive", ALPHA2.meaning),
            P,
        ),
        examples=({"sigma2": 100, "r": 1, "alpha2": 1, "p": 100}, {"sigma2": 3, "r": "1/2", "alpha2": "1/4", "p": 2}),
        printed=lambda sigma2, r, alpha2: alpha2 / (r**2 * sigma2),
        derive=_power_derive,
        oracle=lambda sigma2, r, alpha2, p: (p * alpha2 + r * r * sigma2) / (r * r * sigma2) - 1,
        corrected=lambda sigma2, r, alpha2, p: p * alpha2 / (r**2 * sigma2),
        corrected_text="p alpha_j^2 / (r^2 sigma_j^2): both must be taken per element",
        counterexample={"sigma2": 100, "r": 1, "alpha2": 1, "p": 100},
        not_computed=Exempt(kind="refuted"),
        simulate=lambda sigma2, r, alpha2, p: _power_simulate(sigma2, r, alpha2, p),
        assumes={"law": "moments"},
        finding="""The noise of the whole update is compared with an error per element, so that a large total noise says
            nothing of how small the error is.""",
        unit="dimensionless",
        related=("robusthdp:lem1:mean",),
        remark="""At sigma_j^2 = 100 and alpha_j^2 = 1 with p = 100 parameters half of the estimate is error. sigma_j^2 grows
            with p and alpha_j^2, an error per element, does not, so that sigma_j^2 >> 1 says nothing; nor does it
            survive a change of the model's unit.""",
    )
)


def _power_simulate(sigma2: float, r: float, alpha2: float, p: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = np.sqrt(sigma2 / p) * gen.standard_normal((reps, p))
        estimated = r * noise + np.sqrt(alpha2) * gen.standard_normal((reps, p))
        return (np.mean(estimated**2 - (r * noise) ** 2, axis=1) / (r**2 * sigma2 / p))[:, None]

    return simulation.sample_means(draw)


def excess(sigma2s: Sequence[Any], estimates: Sequence[Any]) -> Any:
    """Noise of the aggregate with weights from estimates, over the least possible, minus one."""
    return sum(w**2 * x for w, x in zip(_weights(estimates), sigma2s, strict=True)) * sum(1 / x for x in sigma2s) - 1


def _excess_derive(sigma2s: Sequence[Any], alpha2: Any, r: Any) -> Derivation:
    d = Derivation()
    estimates = d.say("The server weighs by the inverse of", tuple(r**2 * x + alpha2 for x in sigma2s))
    level = 1 / sum(1 / v for v in estimates)
    weights = d.say("that is", tuple(simplest(level / v) for v in estimates))
    noise = sum(w**2 * x for w, x in zip(weights, sigma2s, strict=True))
    d.say("Noise of the aggregate, sum w_j^2 sigma_j^2:", noise)
    best = d.say("Least possible, 1 / sum 1/sigma_j^2:", 1 / sum(1 / x for x in sigma2s))
    return d.conclude("Excess as a fraction of it:", simplest(noise / best - 1))


def _excess_oracle(sigma2s: Sequence[Any], alpha2: Any, r: Any) -> Any:
    """The squared coefficient of variation of sigma_j^2/(r^2 sigma_j^2 + alpha2) under the optimal weights."""
    optimal = least_noise_weights(sigma2s)
    kept = [x / (r * r * x + alpha2) for x in sigma2s]
    mean = sum(w * y for w, y in zip(optimal, kept, strict=True))
    return sum(w * (y - mean) ** 2 for w, y in zip(optimal, kept, strict=True)) / mean**2


def _excess_simulate(sigma2s: Sequence[float], alpha2: float, r: float) -> simulation.Simulation:
    power = np.asarray(sigma2s)
    best = robust_pca.precision_weights(power)
    used = robust_pca.precision_weights(r**2 * power + alpha2)
    least = 1 / np.sum(1 / power)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = np.sqrt(power) * gen.standard_normal((reps, len(power)))
        return (((noise @ used) ** 2 - (noise @ best) ** 2) / least)[:, None]

    return simulation.sample_means(draw)


register(
    Claim(
        id="robusthdp:small-alpha:excess",
        title="What an error in the noise variances costs",
        place="Section 3.4, made quantitative; not in the paper",
        statement="""Weights proportional to 1/(r^2 sigma_j^2 + alpha^2) leave this fraction more noise in the aggregate than
            the optimal ones.""",
        latex=r"""\frac{\sum_jw_j^2\sigma_j^2}{\min}-1=\frac{\mathrm{Var}_{w^*}(y)}{(\mathbb E_{w^*}y)^2},\quad
            y_j=\frac{\sigma_j^2}{r^2\sigma_j^2+\alpha^2}""",
        kind="identity",
        variables=(SIGMA2S, ALPHA2, R),
        examples=(
            {"sigma2s": [1, 9], "alpha2": 5, "r": 1},
            {"sigma2s": [1, 2, 8], "alpha2": 6, "r": "1/2"},
        ),
        printed=lambda sigma2s, alpha2, r: excess(sigma2s, [r**2 * x + alpha2 for x in sigma2s]),
        derive=_excess_derive,
        oracle=_excess_oracle,
        computed=robust_pca.excess_noise,
        simulate=_excess_simulate,
        model=("Value(Server, Server)",),
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        related=("robusthdp:small-alpha",),
    )
)

RHO = Variable("rho", "nonnegative", "alpha2 over r^2 times the smallest noise variance", extreme=False)
STEPS = Variable(
    "steps", "nonnegative", """by how much each further client's noise variance exceeds the one before, in units of the
        smallest""", lengths=(1, 2), extreme=False,
)  # fmt: skip


def _ladder(steps: Sequence[Any]) -> list[Any]:
    return [ONE + sum(steps[:i], sp.Integer(0)) for i in range(len(steps) + 1)]


def _bound_derive(rho: Any, steps: Sequence[Any]) -> Derivation:
    d = Derivation()
    variances = d.say("In units of the smallest noise variance, in rising order:", _ladder(steps))
    estimates = d.say("The estimates, over r^2:", [x + rho for x in variances])
    return d.conclude("Excess noise as a fraction of the least possible:", simplest(excess(variances, estimates)))


def _bound_oracle(rho: Any, steps: Sequence[Any]) -> Any:
    rungs = [ONE]
    for step in steps:
        rungs.append(rungs[-1] + step)
    return _excess_oracle(rungs, rho, ONE)


register(
    Claim(
        id="robusthdp:small-alpha:bound",
        title="How small the error must be",
        place="Section 3.4, made quantitative; not in the paper",
        statement="""The excess is at most rho^2/(4 (1 + rho)), where rho = alpha^2 / (r^2 min_j sigma_j^2): with rho <= 0.2
            the aggregate's noise is within 1 % of the least possible.""",
        latex=r"\frac{\sum_jw_j^2\sigma_j^2}{\min}-1\leq\frac{\rho^2}{4(1+\rho)},\quad\rho=\frac{\alpha^2}{r^2\min_j\sigma_j^2}",
        kind="upper bound",
        variables=(RHO, STEPS),
        examples=({"rho": 5, "steps": [8]}, {"rho": 9, "steps": [2, 20]}),
        printed=lambda rho: rho**2 / (4 * (1 + rho)),
        relation="<=",
        derive=_bound_derive,
        oracle=_bound_oracle,
        computed=lambda rho, steps: robust_pca.excess_noise([1.0, *(1.0 + np.cumsum(steps))], rho),
        simulate=lambda rho, steps: _excess_simulate([1.0, *(1.0 + np.cumsum(steps))], rho, 1.0),
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        tight=Tight(at={"rho": 5, "steps": [8]}, ratio="75/32"),
        unit="dimensionless",
        related=("robusthdp:small-alpha:excess",),
        remark="""Kantorovich's inequality for the shares sigma_j^2/(r^2 sigma_j^2 + alpha^2), which lie between 1/(1 + rho)
            and 1 (times 1/r^2); approached by one client at the smallest variance and others with much more noise.""",
        model=("Value(Server, Server)",),
    )
)

__all__ = ["excess", "least_noise_weights"]
