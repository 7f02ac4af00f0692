"""Robust-HDP, Section 3.2: the variance of a client's model update, (7), and the power of the batch size in it.

Belongs here: many noisy steps at a given noise scale z. Does not belong here: one noisy batch gradient (variance.py), which
z a privacy budget asks for (noise_scale.py).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import sympy as sp

from estimators.accounting import dpsgd
from estimators.montecarlo import SampledExperiment
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.robusthdp.model import ALIGNMENT, ETA, ONE, ZERO, B, C, K, N, P, Z, noise_part, signs
from theory.papers.robusthdp.variance import Z_POSITIVE, clipped_variance, printed_variance

# --- (7): a model update ----------------------------------------------------------------------------------------------

PATH = Variable(
    "path",
    "choice",
    """fixed mean: every step draws independent gradients whose mean does not change on the way; shuffled: the mean does not
    change, but every epoch visits each record once; curved: independent gradients whose mean grows with theta""",
    choices=("fixed mean", "shuffled", "curved"),
    default="fixed mean",
)
CONTRACTION = Variable("a", "fraction", "eta times the curvature of the loss (only for curved)", default=sp.Rational(1, 2))


def _eq7_derive(K: Any, N: Any, b: Any, eta: Any, c: Any, z: Any, p: Any, alignment: Any, path: str, a: Any) -> Derivation:
    d = Derivation()
    steps = d.say("Steps:", K * sp.ceiling(N / b))
    sampling, noise = c**2 * (1 - alignment**2) / b, noise_part(b, c, z, p)
    if path == "shuffled":
        d.say("""The batches of an epoch are a partition of the records, so at an unchanged mean their gradients add to the
            same sum in every order: no sampling variance is left, only the steps' noise,""", noise)  # fmt: skip
        return d.conclude("steps eta^2 noise:", steps * eta**2 * noise)
    v = d.say("A step adds -eta times a gradient of variance", sampling + noise)
    if path == "fixed mean":
        d.say("Given theta^e the steps are uncorrelated, as no step's mean depends on earlier ones; variances add.")
        return d.conclude("steps eta^2 variance:", steps * eta**2 * v)
    pull = 1 - a
    d.say("""The mean gradient G + h (theta - theta^e) with eta h = a turns a deviation u into (1-a) u - eta xi. So the
        variance V satisfies V' = (1-a)^2 V + eta^2 v, V = 0 at the start: a geometric sum.""")  # fmt: skip
    return d.conclude("Summed:", eta**2 * v * (1 - pull ** (2 * steps)) / (1 - pull**2))


def _eq7_oracle(K: Any, N: Any, b: Any, eta: Any, c: Any, z: Any, p: Any, alignment: Any, path: str, a: Any) -> Any:
    """Walk through the records step by step and keep every step's coefficient in the update."""
    records, size = list(range(int(N))), int(b)
    batches = [records[i : i + size] for i in range(0, len(records), size)]
    pull = 1 - fraction(a) if path == "curved" else Fraction(1)
    coefficients: list[Fraction] = []
    for _ in range(int(K)):
        for _ in batches:
            coefficients = [pull * x for x in coefficients] + [-fraction(eta)]
    each = fraction(clipped_variance(b, c, z, p, alignment if path != "shuffled" else ONE, "independent", ONE))
    spread = Fraction(0)
    if path == "shuffled" and len(records) <= 5:  # the sum over an epoch, in every order of the records
        gradients = [fraction(c) * (1 if j % 2 else -1) for j in records]
        sums = {
            sum((Fraction(sum(gradients[j] for j in order[i : i + size])) / size
                 for i in range(0, len(records), size)), Fraction(0))
            for order in permutations(records)
        }  # fmt: skip
        spread = max(sums) - min(sums)
    return rational(spread + sum((x**2 * each for x in coefficients), Fraction(0)))


def _eq7_simulate(
    K: int, N: int, b: int, eta: float, c: float, z: float, p: int, alignment: float, path: str, a: float
) -> simulation.Simulation | None:
    ups = round(N * (1 + alignment) / 2)
    if path == "shuffled" and abs(ups - N * (1 + alignment) / 2) > 1e-9:
        return None
    records = np.where(np.arange(N) < ups, c, -c)
    per_epoch = -(-N // b)
    slope = a / eta if path == "curved" else 0.0

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta, mean = np.zeros((reps, p)), 0.0
        for _ in range(K):
            order = np.argsort(gen.random((reps, N)), axis=1) if path == "shuffled" else None
            for i in range(per_epoch):
                gradient = c * z * gen.standard_normal((reps, p))
                if order is None:
                    gradient[:, 0] += c * signs(gen, alignment, (reps, b)).sum(axis=1)
                else:
                    gradient[:, 0] += records[order[:, i * b : (i + 1) * b]].sum(axis=1)
                theta -= eta * (gradient / b + slope * theta)
                mean -= eta * (alignment * c + slope * mean)
        theta[:, 0] -= mean if path != "shuffled" else -eta * K * records.sum() / b
        return (theta**2).sum(axis=1, keepdims=True)

    return simulation.sample_means(draw, labels=("squared distance from the mean",), draws=K * per_epoch * (p + b))


register(
    Claim(
        id="robusthdp:eq7",
        title="Variance of a client's model update",
        place="Section 3.2, (6)-(7) with (3)",
        statement="""K ceil(1/q) noisy steps of size eta give the model update K ceil(1/q) eta^2 times the variance of a
            noisy batch gradient.""",
        latex=r"""\sigma_i^2 := \text{Var}(\Delta \tilde{\boldsymbol{\theta}}_i^e | \boldsymbol{\theta}^e) = K_i \times
            \lceil \frac{1}{q_i} \rceil \times \eta_l^2 \times \sigma_{i,\tilde{g}}^2""",
        kind="identity",
        variables=(K, N, B, ETA, C, Z, P, ALIGNMENT, PATH, CONTRACTION),
        examples=(
            {"K": 2, "N": 6, "b": 4, "eta": "1/2", "c": 1, "z": 1, "p": 6, "alignment": "1/2"},
            {"K": 1, "N": 6, "b": 2, "eta": "1/2", "c": 1, "z": 1, "p": 6, "alignment": "1/3", "path": "curved", "a": "1/4"},
            {"K": 2, "N": 4, "b": 2, "eta": 1, "c": 1, "z": 1, "p": 6, "path": "shuffled", "alignment": "1/2"},
        ),
        printed=lambda K, N, b, eta, c, z, p, alignment: (
            K * sp.ceiling(N / b) * eta**2 * printed_variance(b, c, z, p, alignment)
        ),
        derive=_eq7_derive,
        oracle=_eq7_oracle,
        computed=lambda K, N, b, eta, c, z, p, alignment, path, a: dpsgd.model_update_variance(
            K=K, N=N, b=b, eta=eta, c=c, z=z, p=p, alignment=alignment, contraction=a, path=path
        ),
        simulate=_eq7_simulate,
        condition=lambda path, alignment: {
            "fixed mean": sp.true, "shuffled": sp.Eq(alignment, 1), "curved": sp.false
        }[path],
        condition_text="""path == fixed mean (independent batches, and a mean gradient that does not change during the
            round), or path == shuffled with the sampling part dropped (alignment == 1)""",
        counterexample={"K": 1, "N": 2, "b": 2, "eta": 1, "c": 1, "z": 1, "p": 1, "alignment": 0, "path": "shuffled"},
        assumes={"clipping": "all", "divisor": "fixed", "noise": "fresh", "law": "moments"},
        unit="squared parameters, summed over coordinates",
        related=("robusthdp:eq3",),
        remark="""'Adds noise independently' is true of the noise, but a step's mean gradient depends on earlier noise unless
            the loss is flat on the way: with curvature h the noise shrinks by (1 - eta h)^2 per step (and grows where
            eta h < 0). When an epoch visits every record once the sampling parts cancel and only the noise counts. Exact
            for quadratic losses.""",
    )
)  # fmt: skip


# --- the power of b in (7) --------------------------------------------------------------------------------------------

TIMES = Variable("k", "size", "factor by which the batch size grows", extreme=False)
WHOLE = Variable("m", "size", "batches of the larger size that the data fill", extreme=False)
REST = Variable("rest", "choice", "records left over, N = k b m + rest: 0, so that b and k b divide N, or 1", choices=(0, 1),
                default=0)  # fmt: skip
Z_RULE = Variable(
    "z_rule",
    "choice",
    """fixed: both batch sizes use the same z; theorem 1: z is proportional to q sqrt(E E_i), as Theorem 1 asks at a fixed
    budget""",
    choices=("fixed", "theorem 1"),
    default="fixed",
)


def _power_derive(b: Any, c: Any, k: Any, m: Any, rest: Any, z: Any, p: Any, alignment: Any, z_rule: str) -> Derivation:
    d = Derivation()
    small = d.say("Batches per epoch of size b (a record left over has its own):", k * m + rest)
    large = d.say("and of size k b:", m + rest)
    grow2 = ONE if z_rule == "fixed" else k**2 * large / small
    d.say("z^2 changes by the factor", grow2)

    def variance(size: Any, z2: Any) -> Any:
        return c**2 * (1 - alignment**2) / size + p * c**2 * z2 / size**2

    ratio = small * variance(b, z**2) / (large * variance(k * b, z**2 * grow2))
    return d.conclude("Ratio of the variances (7) at b and at k b:", ratio)


def _power_oracle(b: Any, c: Any, k: Any, m: Any, rest: Any, z: Any, p: Any, alignment: Any, z_rule: str) -> Any:
    """Deal out the records in batches of either size and add up the steps' variances."""
    b, k, total = int(b), int(k), int(k * b * m + rest)
    counts = [len(range(0, total, size)) for size in (b, k * b)]
    squares = [fraction(z) ** 2] * 2
    if z_rule != "fixed":  # z^2 in proportion to q^2 times the number of steps
        need = [Fraction(size, total) ** 2 * n for size, n in zip((b, k * b), counts, strict=True)]
        squares[1] = squares[0] * need[1] / need[0]
    values = []
    for size, n, z2 in zip((b, k * b), counts, squares, strict=True):
        one = fraction(clipped_variance(sp.Integer(size), c, ZERO, p, alignment, "independent", ONE))
        values.append(n * (one + int(p) * fraction(c) ** 2 * z2 / size**2))
    return rational(values[0] / values[1])


def _power_computed(b: int, c: float, k: int, m: int, rest: int, z: float, p: int, alignment: float, z_rule: str) -> float:
    total = k * b * m + rest
    more = 1.0 if z_rule == "fixed" else k * np.sqrt((m - (-rest // (k * b))) / (k * m - (-rest // b)))
    first, second = (
        dpsgd.model_update_variance(K=1, N=total, b=size, eta=1.0, c=c, z=scale, p=p, alignment=alignment)
        for size, scale in ((b, z), (k * b, z * more))
    )
    return float(first / second)


def _power_simulate(
    b: int, c: float, k: int, m: int, rest: int, z: float, p: int, alignment: float, z_rule: str
) -> simulation.Simulation:
    """Steps' noise is drawn; how many of the clipped gradients point up, the others down, is enumerated."""
    counts = (k * m + rest, m + rest)
    sizes = (b, k * b)
    scales = (z, z if z_rule == "fixed" else z * k * np.sqrt(counts[1] / counts[0]))

    laws = [simulation.count_law([(1 + alignment) / 2] * (n * size)) for n, size in zip(counts, sizes, strict=True)]

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        squares = []
        for count, size, scale, law in zip(counts, sizes, scales, laws, strict=True):
            noise = c * scale / size * gen.standard_normal((reps, count, p)).sum(axis=1).T
            moves = (c * ((2 * ups - count * size) / size - count * alignment) for ups in range(count * size + 1))
            first = sum(q * (noise[0] + move) ** 2 for q, move in zip(law, moves, strict=True) if q)
            squares.append(first + (noise[1:] ** 2).sum(axis=0))
        return np.stack(squares, axis=1)

    expected = counts[1] * c**2 * ((1 - alignment**2) / sizes[1] + p * (scales[1] / sizes[1]) ** 2)
    unit = np.eye(2)
    reading = simulation.Ratio("squared distance from the mean, at b over at k b", unit[0], unit[1], expected)
    return simulation.Simulation(SampledExperiment(draw, 2, sum(counts) * p), (reading,))


register(
    Claim(
        id="robusthdp:batch-power3",
        title="The batch size enters with power 3",
        place="Section 3.2, text after (7)",
        statement="""When clipping is effective b_i appears with power 3 in the denominator of (7): a batch k times as large
            has a k^3 times smaller variance.""",
        latex=r"""\text{when clipping is effective, }b_i\text{ appears with power 3 in denominator (recall }\frac{1}{q_i} =
            \frac{N_i}{b_i}\text{)}""",
        kind="order",
        variables=(B, C, TIMES, WHOLE, REST, Z_POSITIVE, P, ALIGNMENT, Z_RULE),
        examples=(
            {"b": 3, "c": 1, "k": 3, "m": 2, "z": 2, "p": 5},
            {"b": 4, "c": 1, "k": 2, "m": 2, "z": "1/2", "p": 9, "alignment": "1/2"},
            {"b": 16, "c": 3, "k": 2, "m": 75, "z": 1, "p": 28939},
        ),
        printed=lambda k: k**3,
        derive=_power_derive,
        oracle=_power_oracle,
        computed=_power_computed,
        simulate=_power_simulate,
        condition=lambda rest, alignment, z_rule: sp.Eq(alignment, 1) if rest == 0 and z_rule == "fixed" else sp.false,
        condition_text="""z_rule == fixed (the noise scale is held fixed), rest == 0 (b and k b divide N) and alignment == 1
            (the sampling part is dropped)""",
        counterexample={"b": 1, "c": 1, "k": 2, "m": 1, "z": 1, "p": 1, "z_rule": "theorem 1"},
        assumes={"clipping": "all", "divisor": "fixed", "noise": "fresh", "law": "moments"},
        unit="dimensionless",
        related=("robusthdp:eq7",),
        remark="""At a fixed privacy budget z is not fixed: the paper itself says that it grows with b. With the z of Theorem
            1 (z^2 proportional to q) the power is 2; in general it is 3 minus twice the power with which z grows, and at
            least 2 (robusthdp:z-sublinear:order2). For a b that does not divide N, ceil(N/b) blurs the power.""",
    )
)
