"""Robust-HDP, Section 3.1: the mean of a noisy batch gradient, (2) and (4).

Belongs here: what a batch gradient estimates. Does not belong here: its variance (variance.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register

SIZE = "batch size; with Poisson sampling the expected one"
BATCH = Variable("b", "choice", SIZE, choices=(1, 2))
ANY_BATCH = Variable("b", "size", SIZE, extreme=False)
REST = Variable("others", "size", "records of the client beyond b", low=0, extreme=False)
DRAWN = Variable(
    "drawn",
    "choice",
    """fixed: a batch of b records without replacement; poisson: each record with probability b/N, the sum divided by b;
    realised: the same, divided by the number drawn (a batch without records gives 0)""",
    choices=("fixed", "poisson", "realised"),
    default="fixed",
)
GRADIENTS = Variable("gradients", "real", "a coordinate of each record's gradient", lengths=(2, 3, 4))
MEAN = Variable("G", "positive", "a coordinate of the mean clipped gradient, the same for every record")
SPREAD = 2.0  # in the simulations, noise and clipping norm over the mean


def _chance(d: Derivation, b: int, N: int, drawn: str) -> Any:
    """Mean weight of one record in the batch gradient, times N."""
    q = sp.Rational(b, N)
    d.say("The noise has mean 0 and is independent of the batch. A record is in the batch with probability", q)
    if drawn != "realised":
        return d.say("and then weighs 1/b: on average, times N,", N * q / b)
    k = sp.Symbol("k", integer=True)
    met = sp.binomial(N - 1, k) * q ** (k + 1) * (1 - q) ** (N - 1 - k) / (k + 1)
    return d.say("Together with k of the N - 1 others it weighs 1/(k+1): on average, times N, 1 - (1-q)^N =",
                 N * sum(met.subs(k, i) for i in range(N)))  # fmt: skip


def _batches(b: int, N: int, drawn: str) -> list[tuple[Fraction, tuple[int, ...], int]]:
    """All batches with their probabilities and divisors."""
    q = Fraction(b, N)
    subsets = [s for size in range(N + 1) for s in combinations(range(N), size)]
    if drawn == "fixed":
        subsets = [s for s in subsets if len(s) == b]
        return [(Fraction(1, len(subsets)), s, b) for s in subsets]
    return [(q ** len(s) * (1 - q) ** (N - len(s)), s, b if drawn == "poisson" else max(len(s), 1)) for s in subsets]


def _drawn_sums(gen: np.random.Generator, values: np.ndarray, b: int, drawn: str) -> np.ndarray:
    """Batch gradients for an array of records' gradients, one row per replicate."""
    N = values.shape[1]
    order = gen.random(values.shape)
    if drawn == "fixed":
        return (values * (np.argsort(np.argsort(order, axis=1), axis=1) < b)).sum(axis=1) / b
    inside = order < b / N
    return (values * inside).sum(axis=1) / (b if drawn == "poisson" else np.maximum(inside.sum(axis=1), 1))


# --- (2): every gradient is clipped -----------------------------------------------------------------------------------


def _any_chance(d: Derivation, b: Any, N: Any, drawn: str) -> Any:
    """As `_chance`, for letters: the sum over the others by the binomial theorem."""
    q = b / N
    if drawn != "realised":
        return d.say("A record is in the batch with probability b/N and then weighs 1/b: on average, times N,",
                     sp.cancel(N * q / b))  # fmt: skip
    d.say("""Together with k of the N - 1 others, each in the batch with probability q = b/N, a record weighs 1/(k+1), and
        N binomial(N-1, k)/(k+1) = binomial(N, k+1). So the sum over k, times N, is that of a binomial law without its first
        term, no record:""", (1 - q) ** N)  # fmt: skip
    return d.say("which leaves", 1 - sp.factor(1 - q) ** N)


def _clipped_derive(G: Any, b: Any, others: Any, drawn: str) -> Derivation:
    d = Derivation()
    d.say("The noise has mean 0 and is independent of the batch.")
    share = _any_chance(d, b, b + others, drawn)
    return d.conclude("Every record's clipped gradient has the mean G, so the batch gradient has", share * G)


def _clipped_oracle(G: Any, b: Any, others: Any, drawn: str) -> Any:
    batches = _batches(int(b), int(b + others), drawn)
    return rational(sum(chance * len(s) * fraction(G) / by for chance, s, by in batches))


def _clipped_simulate(G: float, b: int, others: int, drawn: str) -> simulation.Simulation:
    norm, N = SPREAD * G, b + others

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        # raw gradients point up three times in four and are longer than the clipping norm
        raw = norm * np.where(gen.random((reps, N)) < 0.75, 1.0, -1.0) * (1 + gen.exponential(size=(reps, N)))
        clipped = raw * np.minimum(1.0, norm / np.abs(raw))
        return (_drawn_sums(gen, clipped, b, drawn) + norm / b * gen.standard_normal(reps))[:, None]

    return simulation.sample_means(draw, draws=3 * N)


register(
    Claim(
        id="robusthdp:eq2",
        title="Mean of a noisy batch gradient, every gradient clipped",
        place="Section 3.1, case 1, (2)",
        statement="""With effective clipping the noisy batch gradient (1) has the mean G_i, where every record's clipped
            gradient has the mean G_i.""",
        latex=r"""\mathbb{E}[\tilde{g}_i(\theta)] = \frac{1}{b_i} \sum_{j \in \mathcal{B}_i^t}
            \mathbb{E}[\bar{g}_{ij}(\theta)] = \frac{1}{b_i} \sum_{j \in \mathcal{B}_i^t} G_i(\theta) = G_i(\theta)""",
        kind="identity",
        variables=(MEAN, ANY_BATCH, REST, DRAWN),
        examples=({"G": 1, "b": 2, "others": 1}, {"G": 2, "b": 1, "others": 1, "drawn": "realised"}),
        printed=lambda G: G,
        derive=_clipped_derive,
        oracle=_clipped_oracle,
        simulate=_clipped_simulate,
        condition=lambda others, drawn: sp.true if drawn != "realised" else sp.Eq(others, 0),
        condition_text="drawn != realised, or others == 0 (the sum is divided by a fixed b, or every batch has all records)",
        counterexample={"G": 1, "b": 1, "others": 1, "drawn": "realised"},
        not_computed=Exempt(
            kind="elsewhere", function="estimators.federated.backend.local_training", note="takes the mean of each batch"
        ),
        assumes={"given": "parameters", "clipping": "all"},
        unit="gradient",
        related=("robusthdp:eq3", "robusthdp:eq4"),
        remark="""b_i = |B_i^t| is a given number in the paper. With the Poisson batches that its accountant assumes,
            dividing by the number drawn loses (1-q)^N of the mean, the chance of an empty batch.""",
    )
)


# --- (4): no gradient is clipped --------------------------------------------------------------------------------------


def _unclipped_derive(gradients: Sequence[Any], b: int, drawn: str) -> Derivation:
    d = Derivation()
    N = len(gradients)
    share = _chance(d, b, N, drawn)
    return d.conclude(
        "All records have the same chance, so the mean is that times their average:", share * sum(gradients) / N
    )


def _unclipped_oracle(gradients: Sequence[Any], b: int, drawn: str) -> Any:
    values = [fraction(g) for g in gradients]
    batches = _batches(b, len(values), drawn)
    return rational(sum((chance * sum((values[j] for j in s), Fraction(0)) / by for chance, s, by in batches), Fraction(0)))


def _unclipped_simulate(gradients: Sequence[float], b: int, drawn: str) -> simulation.Simulation:
    values, size = np.asarray(gradients, float), max(map(abs, gradients))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = size / b * gen.standard_normal(reps)
        return (_drawn_sums(gen, np.broadcast_to(values, (reps, len(values))), b, drawn) + noise)[:, None]

    return simulation.sample_means(draw, draws=2 * len(values))


register(
    Claim(
        id="robusthdp:eq4",
        title="Mean of a noisy batch gradient, no gradient clipped",
        place="Section 3.1, case 2, (4)",
        statement="""With ineffective clipping the noisy batch gradient is an unbiased estimate of the gradient of the
            client's loss f_i on its records.""",
        latex=r"""\mathbb{E}[\tilde{g}_i(\boldsymbol{\theta})] = \mathbb{E}[g_i(\boldsymbol{\theta})] = \nabla
            f_i(\boldsymbol{\theta})""",
        kind="identity",
        variables=(GRADIENTS, BATCH, DRAWN),
        examples=({"gradients": [1, 4], "b": 1}, {"gradients": [1, -2, 4], "b": 2, "drawn": "poisson"}),
        printed=lambda gradients: sum(gradients) / sp.Integer(len(gradients)),
        derive=_unclipped_derive,
        oracle=_unclipped_oracle,
        simulate=_unclipped_simulate,
        condition=lambda gradients, b, drawn: sp.true if drawn != "realised" or b == len(gradients) else sp.false,
        condition_text="drawn != realised, or b == N (the batch is never empty, or the sum is divided by a fixed b)",
        counterexample={"gradients": [1, 1], "b": 1, "drawn": "realised"},
        not_computed=Exempt(
            kind="elsewhere", function="estimators.federated.backend.local_training", note="takes the mean of each batch"
        ),
        assumes={"given": "data", "clipping": "none"},
        unit="gradient",
        related=("robusthdp:eq5", "robusthdp:eq2"),
        remark="""Between the two cases, where some gradients are clipped, the mean is neither: robusthdp:thm2 shows where
            that leads.""",
    )
)
