"""Robust-HDP, Section 3.2 after (8): what other weights than the least-noise ones lose.

Belongs here: weights in proportion to eps, to anything, and noise relative to the step. Does not belong here: the
least-noise weights (weights.py), weights from estimated variances (small_error.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from estimators.montecarlo import SampledExperiment
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.model import SIGMA2S, ZERO
from theory.papers.robusthdp.weights import (
    ASSUMPTIONS,
    LENGTHS,
    UNIT,
    concrete,
    concrete_best,
    draw_noise,
    inverse_weights,
    normalised,
    weighted_variance,
)  # fmt: skip

EPS = Variable("eps", "positive", "privacy parameter of each client", lengths=LENGTHS)
RAW = Variable("weights", "positive", "weights, which the server scales to add to one", lengths=LENGTHS)
STEPS = Variable("steps", "positive", "local steps E_i of each client", lengths=LENGTHS)


def pair_squares(loads: Sequence[Any], sigma2s: Sequence[Any]) -> Any:
    """Sum over pairs of (load_i - load_j)^2 / (sigma2_i sigma2_j)."""
    pairs = combinations(range(len(loads)), 2)
    return sum(((loads[i] - loads[j]) ** 2 / (sigma2s[i] * sigma2s[j]) for i, j in pairs), ZERO)


# --- other weights ------------------------------------------------------------------------------------------------------


def _simulated_excess(weights: Sequence[float], sigma2s: Sequence[float], unit: float = 1.0) -> simulation.Simulation:
    """Excess of the squared noise under given weights over that under the best ones, over `unit`.

    Paired draws; read as the difference, in units of the noise, and as the squared distance, which is the same because
    the noise under the best weights is uncorrelated with moves of weight, and which shows a small excess to the percent.
    """
    shares = np.asarray(weights, float) / np.sum(weights)
    best = aggregation.precision_weights(sigma2s)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = draw_noise(gen, reps, sigma2s)
        used, least = x @ shares, x @ best
        return np.stack([used**2 - least**2, (used - least) ** 2], axis=1) / unit

    size = float(aggregation.aggregate_variance(weights, sigma2s)) / unit
    unit_rows = np.eye(2)
    readings = (
        simulation.Mean("excess of squared noise", unit_rows[0], scale=size),
        simulation.Mean("squared distance of the two aggregates", unit_rows[1], zero=size),
    )
    return simulation.Simulation(SampledExperiment(draw, 2, len(sigma2s)), readings)


def _loss_derive(weights: Sequence[Any], sigma2s: Sequence[Any]) -> Derivation:
    d = Derivation()
    best = inverse_weights(sigma2s)
    d.say("""With w = w* + h, sum h = 0: sum w^2 s = sum w*^2 s + 2 sum w* s h + sum h^2 s, and w*_i s_i is the same number
        for all i, so that the middle sum vanishes.""", best[0] * sigma2s[0])  # fmt: skip
    total = d.say("Scaled by the weights' sum", sum(weights, ZERO))
    terms = [s * (w / total - b) ** 2 for s, w, b in zip(sigma2s, weights, best, strict=True)]
    return d.conclude("what is left is sum s_i (w_i - w_i*)^2:", sum(terms, ZERO))


register(
    Claim(
        id="robusthdp:eq8:loss",
        title="What any weights lose",
        place="Section 3.2, after (8) (no formula in the paper)",
        statement="""Weights in any proportions, scaled to add to one, exceed the least variance by sum_i sigma_i^2 (w_i -
            w_i*)^2 = (least variance) sum_{i<j} (w_i s_i - w_j s_j)^2/(s_i s_j), s_i = sigma_i^2.""",
        latex=r"""\sum_iw_i^2\sigma_i^2-\frac1{\sum_i1/\sigma_i^2}=\frac{1}{\sum_i1/\sigma_i^2}\sum_{i<j}%
            \frac{(w_i\sigma_i^2-w_j\sigma_j^2)^2}{\sigma_i^2\sigma_j^2}""",
        kind="identity",
        variables=(RAW, SIGMA2S),
        examples=({"weights": [1, 1, 1], "sigma2s": [1, 4, 10]}, {"weights": [1, 3], "sigma2s": [1, 1]}),
        printed=lambda weights, sigma2s: (
            pair_squares([w * s for w, s in zip(normalised(weights), sigma2s, strict=True)], sigma2s)
            / sum((1 / s for s in sigma2s), ZERO)
        ),
        derive=_loss_derive,
        oracle=lambda weights, sigma2s: concrete(weights, sigma2s) - concrete_best(sigma2s)[1],
        computed=lambda weights, sigma2s: aggregation.excess_variance(weights, sigma2s),
        simulate=lambda weights, sigma2s: _simulated_excess(weights, sigma2s),
        model=("Value(Server, Server)",),
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        unit=UNIT,
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:minvar",),
        remark="""Uniform weights lose the relative amount mean(sigma^2) mean(1/sigma^2) - 1; weights proportional to N_i or
            eps_i are other cases (robusthdp:eq8:eps-loss).""",
    )
)


def _eps_shifts(sigma2s: Sequence[Any], eps: Sequence[Any]) -> list[dict[Any, Any]]:
    """eps_i = (x_1 + ... + x_k)/sigma_i^2, i the client that is k-th in an order of eps_i sigma_i^2, all x >= 0."""
    x = sp.symbols(f"x1:{len(eps) + 1}", nonnegative=True)
    return [{eps[i]: sum(x[: k + 1]) / sigma2s[i] for k, i in enumerate(order)} for order in permutations(range(len(eps)))]


def _eps_derive(sigma2s: Sequence[Any], eps: Sequence[Any]) -> Derivation:
    d = Derivation()
    weights = d.say("WeiAvg and PFA use the weights", tuple(normalised(eps)))
    return d.conclude(
        "Updates are independent, so the variance is sum w_i^2 sigma_i^2:", weighted_variance(weights, sigma2s)
    )


register(
    Claim(
        id="robusthdp:eq8:eps-weights",
        title="Weights proportional to eps are suboptimal",
        place="Section 3.2, text after (8); Table 1",
        statement="Weights eps_i / sum_j eps_j (WeiAvg, PFA) give at least the variance of the solution of (8).",
        latex=r"""w_i^e = \frac{\epsilon_i}{\sum_j \epsilon_j}\ \text{may be suboptimal}:\quad\sum_i\Big(\frac{\epsilon_i}%
            {\sum_j\epsilon_j}\Big)^2\sigma_i^2\ge\frac1{\sum_i1/\sigma_i^2}""",
        kind="lower bound",
        variables=(SIGMA2S, EPS),
        examples=({"sigma2s": [1, 2, 4], "eps": [1, 2, 5]}, {"sigma2s": [3, "1/2"], "eps": [1, 1]}),
        printed=lambda sigma2s: 1 / sum((1 / s for s in sigma2s), ZERO),
        relation=">=",
        derive=_eps_derive,
        oracle=lambda sigma2s, eps: concrete(eps, sigma2s),
        computed=lambda sigma2s, eps: aggregation.aggregate_variance(aggregation.eps_weights(eps), sigma2s),
        simulate=lambda sigma2s, eps: simulation.sample_means(
            lambda gen, reps: (draw_noise(gen, reps, sigma2s) @ (np.asarray(eps) / math.fsum(eps)))[:, None] ** 2,
            labels=("squared noise",), draws=len(sigma2s),
        ),
        model=("Value(Server)",),
        shifts=_eps_shifts,
        assumes={"independence": "all", "law": "moments"},
        tight=Tight(at={"sigma2s": [1, 2], "eps": [2, 1]}, ratio="1"),
        unit=UNIT,
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:minvar",),
        remark="""Equal only where eps_i sigma_i^2 is the same for all clients. What they lose exactly:
            robusthdp:eq8:eps-loss.""",
    )
)  # fmt: skip


def _eps_loss_derive(sigma2s: Sequence[Any], eps: Sequence[Any]) -> Derivation:
    d = Derivation()
    value = d.say("Variance with weights eps_i / sum eps:", weighted_variance(normalised(eps), sigma2s))
    least = d.say("Least variance:", 1 / sum((1 / s for s in sigma2s), ZERO))
    return d.conclude("Their ratio minus one:", value / least - 1)


register(
    Claim(
        id="robusthdp:eq8:eps-loss",
        title="How much weights proportional to eps lose",
        place="Section 3.2, text after (8) (no formula in the paper)",
        statement="""Relative to the least variance, eps-proportional weights lose sum_{i<j} (eps_i s_i - eps_j s_j)^2 / (s_i
            s_j) over (sum eps)^2, s_i = sigma_i^2.""",
        latex=r"""\frac{\sum_iw_i^2\sigma_i^2}{1/\sum_i\sigma_i^{-2}}-1=\frac{1}{(\sum_k\epsilon_k)^2}\sum_{i<j}%
            \frac{(\epsilon_i\sigma_i^2-\epsilon_j\sigma_j^2)^2}{\sigma_i^2\sigma_j^2}""",
        kind="identity",
        variables=(SIGMA2S, EPS),
        examples=({"sigma2s": [4, 1, 1], "eps": [1, 1, 5]}, {"sigma2s": [3, "1/2"], "eps": [2, 1]}),
        printed=lambda sigma2s, eps: (
            pair_squares([e * s for e, s in zip(eps, sigma2s, strict=True)], sigma2s) / sum(eps, ZERO) ** 2
        ),
        derive=_eps_loss_derive,
        oracle=lambda sigma2s, eps: concrete(eps, sigma2s) / concrete_best(sigma2s)[1] - 1,
        computed=lambda sigma2s, eps: aggregation.relative_excess(aggregation.eps_weights(eps), sigma2s),
        simulate=lambda sigma2s, eps: _simulated_excess(eps, sigma2s, float(aggregation.least_variance(sigma2s))),
        model=("Value(Server, Server)",),
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:loss",),
        remark="There is no upper limit: a client with a large eps and a small batch makes it as large as one likes.",
    )
)


def _alike_derive(eps: Sequence[Any]) -> Derivation:
    d = Derivation()
    d.say("""With the same b, N and number of steps, Theorem 1's z is proportional to 1/eps, so sigma_i^2 = 1/eps_i^2 in some
        unit. The best weights are then proportional to eps_i^2, with least variance""",
          1 / sum((e**2 for e in eps), ZERO))  # fmt: skip
    value = d.say("Weights proportional to eps have the variance l / (sum eps)^2:",
                  weighted_variance(normalised(eps), [1 / e**2 for e in eps]))  # fmt: skip
    return d.conclude("Ratio minus one:", value * sum((e**2 for e in eps), ZERO) - 1)


register(
    Claim(
        id="robusthdp:eq8:eps-loss:alike",
        title="Loss of eps-weights when clients differ in eps alone",
        place="Section 3.2 with Theorem 1's noise scale (no formula in the paper)",
        statement="""Where sigma_i^2 is proportional to 1/eps_i^2, the best weights are proportional to eps_i^2, and weights
            proportional to eps_i lose the squared coefficient of variation of eps.""",
        latex=r"""\sigma_i^2\propto\epsilon_i^{-2}:\quad\frac{\sum_iw_i^2\sigma_i^2}{1/\sum_i\sigma_i^{-2}}-1=%
            \frac{\frac1l\sum_i(\epsilon_i-\bar\epsilon)^2}{\bar\epsilon^2}""",
        kind="identity",
        variables=(EPS,),
        examples=({"eps": [1, 2, 5]}, {"eps": [3, "1/2"]}),
        printed=lambda eps: (
            sum(((e - sum(eps, ZERO) / len(eps)) ** 2 for e in eps), ZERO)
            / len(eps) / (sum(eps, ZERO) / len(eps)) ** 2
        ),
        derive=_alike_derive,
        oracle=lambda eps: concrete(eps, [1 / e**2 for e in eps]) / concrete_best([1 / e**2 for e in eps])[1] - 1,
        computed=lambda eps: aggregation.relative_excess(eps, 1 / np.asarray(eps, float) ** 2),
        simulate=lambda eps: _simulated_excess(
            eps, [1 / e**2 for e in eps], 1 / float(np.sum(np.square(eps)))
        ),
        model=("Value(Server, Server)",),
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        related=("robusthdp:eq8:eps-loss",),
        remark="So eps-weights are suboptimal even without any difference in batch or data size.",
    )
)  # fmt: skip


def _signal_derive(sigma2s: Sequence[Any], steps: Sequence[Any]) -> Derivation:
    d = Derivation()
    d.say("""If all clients see the same mean gradient G, the mean of client i's update is -eta E_i G; the server's step is
        eta |G| sum w_i E_i long. Noise over squared length, up to eta^2 |G|^2, for weights w:""")  # fmt: skip

    def ratio(weights: Sequence[Any]) -> Any:
        return weighted_variance(weights, sigma2s) / sum((w * e for w, e in zip(weights, steps, strict=True)), ZERO) ** 2

    here = d.say("At the weights of (8):", ratio(inverse_weights(sigma2s)))
    d.say("By Cauchy and Schwarz the least ratio is at weights proportional to E_i/sigma_i^2:")
    best = d.say("", ratio([e / s for e, s in zip(steps, sigma2s, strict=True)]))
    return d.conclude("Relative loss of (8):", here / best - 1)


def _signal_oracle(sigma2s: Sequence[Any], steps: Sequence[Any]) -> Any:
    """Updates over E_i estimate one common step, with variance sigma_i^2/E_i^2: the best average by a Schur complement."""
    scaled = [s / e**2 for s, e in zip(sigma2s, steps, strict=True)]
    used = [e / s for e, s in zip(steps, sigma2s, strict=True)]  # weight 1/sigma_i^2 on E_i times the common step
    return concrete(used, scaled) / concrete_best(scaled)[1] - 1


def _signal_simulate(sigma2s: Sequence[float], steps: Sequence[float]) -> Any:
    e, s = np.asarray(steps, float), np.asarray(sigma2s, float)
    return _simulated_excess(list(e / s), list(s / e**2), float(aggregation.least_variance(s / e**2)))


register(
    Claim(
        id="robusthdp:eq8:signal",
        title="(8) minimises noise, not noise relative to the step",
        place="Section 3.2, (8) (not in the paper)",
        statement="""When clients take E_i local steps along one mean gradient, the least noise for a given length of the
            server's step is at weights proportional to E_i / sigma_i^2; the weights of (8) lose this relative amount.""",
        latex=r"\frac{\sum_{i<j}(E_i-E_j)^2/(\sigma_i^2\sigma_j^2)}{(\sum_iE_i/\sigma_i^2)^2}",
        kind="identity",
        variables=(SIGMA2S, STEPS),
        examples=({"sigma2s": [1, 2, 4], "steps": [1, 4, 8]}, {"sigma2s": [3, "1/2"], "steps": [5, 1]}),
        printed=lambda sigma2s, steps: (
            pair_squares(steps, sigma2s) / sum((e / s for e, s in zip(steps, sigma2s, strict=True)), ZERO) ** 2
        ),
        derive=_signal_derive,
        oracle=_signal_oracle,
        computed=lambda sigma2s, steps: aggregation.relative_excess(
            np.divide(steps, sigma2s), np.divide(sigma2s, np.square(steps))
        ),
        simulate=_signal_simulate,
        ours=True,
        assumes={"independence": "all", "law": "moments"},
        unit="dimensionless",
        assumptions=(*ASSUMPTIONS, "all clients' mean gradients are the same"),
        related=("robusthdp:eq8:loss",),
        remark="""With (7), sigma_i^2 = E_i eta^2 v_i, these weights are proportional to 1/v_i, v_i the variance of one noisy
            gradient. (8) prefers clients with few steps because their updates are short, not only because they are
            quiet.""",
        model=("Value(Server, Optimum)",),
    )
)
