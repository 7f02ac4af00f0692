"""Robust-HDP, Sections 3.1-3.2: variances of a noisy batch gradient and of a client's model update, (3), (5), (7).

Belongs here: variances for a given noise scale z. Does not belong here: which z a privacy budget asks for
(noise_scale.py), what the server does with noisy updates (weights.py).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.accounting import dpsgd
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.robusthdp.model import ALIGNMENT, ETA, ONE, ZERO, B, C, K, N, P, Z, noise_part, signs

SAMPLING = Variable(
    "sampling",
    "choice",
    "independent: the batch's gradients are independent draws; without replacement: a batch of fixed size from the "
    "client's records; poisson: each record with probability q, divisor b fixed",
    choices=("independent", "without replacement", "poisson"),
    default="independent",
)
OTHERS = Variable("others", "size", "records outside the batch, N - b (not used for independent gradients)", default=ONE,
                  extreme=False)  # fmt: skip
UNIT = "squared gradient norm, summed over coordinates"


# --- (3): every gradient is clipped ----------------------------------------------------------------------------------


def printed_variance(b: Any, c: Any, z: Any, p: Any, alignment: Any) -> Any:
    """The variance of (3) before its approximation."""
    return (c**2 - (alignment * c) ** 2) / b + p * c**2 * z**2 / b**2


def _eq3_derive(b: Any, c: Any, z: Any, p: Any, alignment: Any, sampling: str, others: Any) -> Derivation:
    d = Derivation()
    one = d.say(
        "A clipped gradient has norm c and mean G with |G| = alignment c, so its variance is", c**2 * (1 - alignment**2)
    )
    if sampling == "independent":
        part = d.say("b independent ones, averaged:", one / b)
    elif sampling == "without replacement":
        total = b + others
        pair = d.say("All N records together have no variance, so N one + N (N-1) Cov = 0 for two different draws:",
                     -one / (total - 1))  # fmt: skip
        part = d.say("The mean of b draws has the variance (b one + b (b-1) Cov)/b^2:",
                     simplest((b * one + b * (b - 1) * pair) / b**2))  # fmt: skip
    else:
        total = b + others
        q = b / total
        part = d.say("Each record's gradient enters with probability q = b/N, independently, and has second moment c^2: "
                     "N q (1-q) c^2/b^2 is", simplest(total * q * (1 - q) * c**2 / b**2))  # fmt: skip
    noise = d.say("The noise is independent of the batch; its p coordinates add:", noise_part(b, c, z, p))
    return d.conclude("Together:", part + noise)


def _gram(count: int, c: Fraction, alignment: Fraction) -> list[list[Fraction]]:
    """Inner products of `count` vectors of norm c whose mean has norm alignment c, all pairs alike."""
    cross = (count * alignment**2 - 1) / (count - 1)
    return [[c**2 * (1 if i == j else cross) for j in range(count)] for i in range(count)]


def _eq3_oracle(b: Any, c: Any, z: Any, p: Any, alignment: Any, sampling: str, others: Any) -> Any:
    """Enumerate batches: of gradients +-c, or of N concrete records; noise with two points per coordinate."""
    size, total = int(b), int(b) + int(others)
    c, s, step = fraction(c), fraction(alignment), fraction(z * c) / int(b)
    spread = Fraction(0)
    if sampling == "independent":
        up = (1 + s) / 2
        for k in range(size + 1):
            mean = c * (2 * k - size) / size
            spread += comb(size, k) * up**k * (1 - up) ** (size - k) * (mean - s * c) ** 2
    else:
        gram = _gram(total, c, s)
        q = Fraction(size, total)
        sizes = [size] if sampling == "without replacement" else range(total + 1)
        for k in sizes:  # all batches of k records are alike
            inner = sum((gram[i][j] for i in range(k) for j in range(k)), Fraction(0)) / size**2
            cross = sum((gram[i][j] for i in range(k) for j in range(total)), Fraction(0)) / (size * total)
            chance = Fraction(1) if sampling != "poisson" else comb(total, k) * q**k * (1 - q) ** (total - k)
            spread += chance * (inner - 2 * cross + s**2 * c**2)
    for _ in range(int(p)):
        spread += (step**2 + (-step) ** 2) / 2
    return rational(spread)


def _eq3_simulate(
    b: int, c: float, z: float, p: int, alignment: float, sampling: str, others: int
) -> simulation.Simulation | None:
    total = b + others
    ups = round(total * (1 + alignment) / 2)
    if sampling != "independent" and abs(ups - total * (1 + alignment) / 2) > 1e-9:
        return None  # no data set of gradients +-c has this mean
    records = np.where(np.arange(total) < ups, c, -c)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        if sampling == "independent":
            first = c * signs(gen, alignment, (reps, b)).sum(axis=1)
        elif sampling == "poisson":
            first = (gen.random((reps, total)) < b / total) @ records
        else:
            first = records[np.argsort(gen.random((reps, total)), axis=1)[:, :b]].sum(axis=1)
        noisy = c * z * gen.standard_normal((reps, p))
        noisy[:, 0] += first
        noisy /= b
        noisy[:, 0] -= alignment * c
        return (noisy**2).sum(axis=1, keepdims=True)

    return simulation.sample_means(draw, labels=("squared distance from the mean",), draws=p + 2 * b)


register(
    Claim(
        id="robusthdp:eq3",
        title="Variance of a noisy batch gradient, every gradient clipped",
        place="Section 3.1, case 1, (3)",
        statement="With effective clipping the noisy batch gradient (1) has this variance, |G_i| being alignment c.",
        latex=r"\sigma_{i,\tilde{g}}^2 := \text{Var}(\tilde{g}_i(\boldsymbol{\theta})) = \frac{c^2 - \|G_i(\boldsymbol{"
        r"\theta})\|^2}{b_i} + \frac{pc^2z^2(\epsilon_i, \delta_i, q_i, K_i, E)}{b_i^2}",
        kind="identity",
        variables=(B, C, Z, P, ALIGNMENT, SAMPLING, OTHERS),
        examples=(
            {"b": 4, "c": 2, "z": "1/2", "p": 6, "alignment": "1/2"},
            {"b": 2, "c": 1, "z": "1/2", "p": 5, "alignment": "1/2", "sampling": "without replacement", "others": 2},
            {"b": 2, "c": 1, "z": "1/2", "p": 5, "alignment": "1/2", "sampling": "poisson", "others": 2},
        ),
        printed=printed_variance,
        derive=_eq3_derive,
        oracle=_eq3_oracle,
        computed=dpsgd.batch_gradient_variance,
        simulate=_eq3_simulate,
        condition=lambda sampling: sp.true if sampling == "independent" else sp.false,
        condition_text="sampling == independent (the gradients of one batch are independent given theta)",
        counterexample={"b": 2, "c": 1, "z": 1, "p": 1, "alignment": 0, "sampling": "without replacement", "others": 1},
        unit=UNIT,
        assumptions=("every gradient is clipped: its norm is c", "the batch size in the divisor is fixed"),
        remark="The paper averages over fresh data. Given the client's records, batches of fixed size have (N-b)/(N-1) "
        "times that sampling part (none for a full batch), and Poisson batches, which its accountant assumes, have (1-q) "
        "c^2/b whatever G is, because their size varies. The approximation behind it is judged in robusthdp:eq3:approx.",
    )
)

Z_POSITIVE = Variable("z", "positive", "noise scale: standard deviation of the noise over c")


def _approx_derive(b: Any, c: Any, z: Any, p: Any, alignment: Any) -> Derivation:
    d = Derivation()
    sampling = d.say("The dropped part is", c**2 * (1 - alignment**2) / b)
    return d.conclude("Over the part that is kept:", simplest(sampling / noise_part(b, c, z, p)))


def _approx_oracle(b: Any, c: Any, z: Any, p: Any, alignment: Any) -> Any:
    full = _eq3_oracle(b, c, z, p, alignment, "independent", ONE)
    kept = _eq3_oracle(b, c, z, p, ONE, "independent", ONE)
    return full / kept - 1


register(
    Claim(
        id="robusthdp:eq3:approx",
        title="What the approximation in (3) drops",
        place="Section 3.1, case 1, (3), the approximation",
        statement="Dropping the sampling part understates the variance by the share b/(p z^2) of what is kept, at most.",
        latex=r"\frac{c^2 - \|G_i(\boldsymbol{\theta})\|^2}{b_i} + \frac{pc^2z^2}{b_i^2} \approx \frac{pc^2z^2}{b_i^2}",
        kind="upper bound",
        variables=(B, C, Z_POSITIVE, P, ALIGNMENT),
        examples=(
            {"b": 128, "c": 3, "z": 1, "p": 28939, "alignment": 0},
            {"b": 4, "c": 1, "z": 2, "p": 10, "alignment": "1/2"},
        ),
        printed=lambda b, z, p: b / (p * z**2),
        relation="<=",
        derive=_approx_derive,
        oracle=_approx_oracle,
        computed=lambda b, z, p, alignment: b * (1 - alignment) * (1 + alignment) / (p * z**2),
        not_simulated="a ratio of the two parts of robusthdp:eq3",
        shifts=lambda alignment: {alignment: (t := sp.Symbol("t", nonnegative=True)) / (1 + t)},
        ours=True,
        unit="dimensionless",
        related=("robusthdp:eq3",),
        remark="The paper only writes an approximation. Exactly, the relative error is (1 - |G|^2/c^2) b/(p z^2): below 0.5 "
        "% for its p = 28939 and b = 128 at z = 1. It matters for small models or little noise.",
    )
)

CLIPPED = Variable("clipped", "fraction", "share of the gradients that are clipped", closed=True)
LENGTH = Variable("length", "fraction", "norm of the other gradients over c", closed=True)


def _any_derive(b: Any, c: Any, z: Any, p: Any, clipped: Any, length: Any, alignment: Any) -> Derivation:
    d = Derivation()
    second = d.say("Mean squared norm after clipping, a share `clipped` of gradients having norm c and the others length c:",
                   c**2 * (clipped + (1 - clipped) * length**2))  # fmt: skip
    d.say("By Jensen's inequality |G|^2 is at most that; let it be alignment^2 times it. Sampling part:")
    part = d.say("", second * (1 - alignment**2) / b)
    return d.conclude("With the noise:", part + noise_part(b, c, z, p))


def _any_oracle(b: Any, c: Any, z: Any, p: Any, clipped: Any, length: Any, alignment: Any) -> Any:
    """A vector of b independent gradients, each of two lengths in four directions, by their second moments."""
    b, c, z, s2 = int(b), fraction(c), fraction(z), fraction(alignment) ** 2
    moments = [(fraction(clipped), c), (1 - fraction(clipped), c * fraction(length))]
    square = sum((chance * norm**2 for chance, norm in moments), Fraction(0))
    # second moment matrix of the sum: b squares on the diagonal, b (b-1) times |G|^2 off it, minus the squared mean
    total = (b * square + b * (b - 1) * s2 * square - b**2 * s2 * square) / b**2
    return rational(total + int(p) * (c * z / b) ** 2)


def _any_simulate(
    b: int, c: float, z: float, p: int, clipped: float, length: float, alignment: float
) -> simulation.Simulation | None:
    if p < 2:
        return None
    along = alignment * np.sqrt(clipped + (1 - clipped) * length**2)  # |G|/c
    # all gradients share the coordinate along G in proportion to their length, the rest has a random sign
    mean_length = clipped + (1 - clipped) * length
    if along > mean_length:
        return None
    share = along / mean_length

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        norm = np.where(gen.random((reps, b)) < clipped, c, c * length)
        sign = np.where(gen.random((reps, b)) < 0.5, 1.0, -1.0)
        noisy = c * z * gen.standard_normal((reps, p))
        noisy[:, 0] += (share * norm).sum(axis=1)
        noisy[:, 1] += (np.sqrt(1 - share**2) * sign * norm).sum(axis=1)
        noisy /= b
        noisy[:, 0] -= along * c
        return (noisy**2).sum(axis=1, keepdims=True)

    return simulation.sample_means(draw, labels=("squared distance from the mean",), draws=p + 2 * b)


def _closed(symbol: Any, name: str) -> Any:
    """A closed fraction as t/(1+t), for sign certificates."""
    t = sp.Symbol(name, nonnegative=True)
    return t / (1 + t)


register(
    Claim(
        id="robusthdp:eq3:any-clip",
        title="Variance of a noisy batch gradient, some gradients clipped",
        place="Section 3.1: between the paper's two cases",
        statement="Whichever gradients are clipped, (3) with G the mean clipped gradient bounds the variance.",
        latex=r"\mathrm{Var}(\tilde g_i)\le\frac{c^2-\|G_i\|^2}{b_i}+\frac{pc^2z^2}{b_i^2}",
        kind="upper bound",
        variables=(B, C, Z, P, CLIPPED, LENGTH, ALIGNMENT),
        examples=(
            {"b": 3, "c": 2, "z": "1/2", "p": 6, "clipped": "1/2", "length": "1/2", "alignment": "1/2"},
            {"b": 2, "c": 1, "z": "1/2", "p": 5, "clipped": "1/4", "length": "2/3", "alignment": "1/3"},
        ),
        printed=lambda b, c, z, p, clipped, length, alignment: (
            (c**2 - alignment**2 * c**2 * (clipped + (1 - clipped) * length**2)) / b + p * c**2 * z**2 / b**2
        ),
        relation="<=",
        derive=_any_derive,
        oracle=_any_oracle,
        computed=lambda b, c, z, p, clipped, length, alignment: dpsgd.unclipped_gradient_variance(
            sigma2_g=c**2 * (clipped + (1 - clipped) * length**2) * (1 - alignment) * (1 + alignment) / b, b=b, c=c, z=z, p=p
        ),
        simulate=_any_simulate,
        shifts=lambda clipped, length, alignment: {
            x: _closed(x, f"t{i}") for i, x in enumerate((clipped, length, alignment))
        },
        ours=True,
        unit=UNIT,
        assumptions=("the gradients of one batch are independent given theta",),
        related=("robusthdp:eq3",),
        remark="The paper treats only 'all clipped' and 'none clipped'. The slack is (1-clipped)(1-length^2) c^2/b, so the "
        "bound also covers case 2, without the constant of Assumption 1.",
    )
)


# --- (5): no gradient is clipped --------------------------------------------------------------------------------------

SIGMA2_G = Variable("sigma2_g", "nonnegative", "bound on the variance of the noiseless batch gradient (Assumption 1)")
USED = Variable("used", "fraction", "that variance over its bound", closed=True, default=ONE)


def _eq5_printed(b: Any, c: Any, z: Any, p: Any, sigma2_g: Any, used: Any) -> tuple[Any, Any]:
    sigma_dp = c * z
    return used * sigma2_g + p * sigma_dp**2 / b**2, sigma2_g + p * c**2 * z**2 / b**2


def _eq5_derive(b: Any, c: Any, z: Any, p: Any, sigma2_g: Any, used: Any) -> Derivation:
    d = Derivation()
    d.say(
        "Clipping changes nothing, so (1) is the batch gradient plus noise; the noise is independent of it, so variances "
        "add."
    )
    noise = d.say("Noise of standard deviation c z in each of p coordinates, divided by b:", noise_part(b, c, z, p))
    value = d.say("Variance:", used * sigma2_g + noise)
    return d.conclude("It is to equal the first and not to exceed the second expression:", (value, value))


def _eq5_oracle(b: Any, c: Any, z: Any, p: Any, sigma2_g: Any, used: Any) -> tuple[Any, Any]:
    """b gradients of two values, enumerated; the squared step is chosen so that their mean has the given variance."""
    size, square = int(b), fraction(used * sigma2_g) * int(b)
    mean = sum((Fraction(comb(size, k), 2**size) * Fraction(2 * k - size, size) ** 2 for k in range(size + 1)), Fraction(0))
    value = rational(mean * square + sum(((fraction(c) * fraction(z) / size) ** 2 for _ in range(int(p))), Fraction(0)))
    return value, value


def _eq5_simulate(b: int, c: float, z: float, p: int, sigma2_g: float, used: float) -> simulation.Simulation | None:
    step = np.sqrt(used * sigma2_g * b)
    if step > c:
        return None  # such gradients would be clipped

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        raw = np.where(gen.random((reps, b)) < 0.5, step, -step)
        noisy = c * z * gen.standard_normal((reps, p))
        noisy[:, 0] += (raw * np.minimum(1.0, c / np.maximum(np.abs(raw), 1e-300))).sum(axis=1)
        square = ((noisy / b) ** 2).sum(axis=1)
        return np.stack([square, square], axis=1)

    return simulation.sample_means(draw, labels=("squared distance from the mean",) * 2, draws=p + b)


register(
    Claim(
        id="robusthdp:eq5",
        title="Variance of a noisy batch gradient, no gradient clipped",
        place="Section 3.1, case 2, (5)",
        statement="Without effective clipping the variance is that of the batch gradient plus the noise, at most sigma_g^2 "
        "plus the noise.",
        latex=r"\sigma_{i,\tilde{g}}^2 = \text{Var}(\tilde{g}_i(\boldsymbol{\theta})) = \text{Var}(g_i(\boldsymbol{"
        r"\theta})) + \frac{p\sigma_{i,\text{dp}}^2}{b_i^2} \leq \sigma_{i,g}^2 + \frac{pc^2z^2(\epsilon_i, \delta_i, q_i, "
        r"K_i, E)}{b_i^2}",
        kind="upper bound",
        variables=(B, C, Z, P, SIGMA2_G, USED),
        examples=(
            {"b": 3, "c": 2, "z": "1/2", "p": 6, "sigma2_g": 1, "used": "1/2"},
            {"b": 2, "c": 1, "z": 1, "p": 5, "sigma2_g": "1/4"},
        ),
        printed=_eq5_printed,
        relation="<=",
        derive=_eq5_derive,
        oracle=_eq5_oracle,
        computed=lambda b, c, z, p, sigma2_g, used: (
            (value := dpsgd.unclipped_gradient_variance(sigma2_g=used * sigma2_g, b=b, c=c, z=z, p=p)),
            value,
        ),
        simulate=_eq5_simulate,
        shifts=lambda used: {used: _closed(used, "t")},
        entries=("equality", "bound"),
        unit=UNIT,
        remark="Where no gradient exceeds c, Var(g_i) <= (c^2 - |G|^2)/b for independent gradients, so no constant beyond c "
        "is needed (robusthdp:eq3:any-clip).",
    )
)


# --- (7): a model update ----------------------------------------------------------------------------------------------

PATH = Variable(
    "path",
    "choice",
    "fixed mean: every step draws independent gradients whose mean does not change on the way; shuffled: the mean does not "
    "change, but every epoch visits each record once; curved: independent gradients whose mean grows with theta",
    choices=("fixed mean", "shuffled", "curved"),
    default="fixed mean",
)
CONTRACTION = Variable("a", "fraction", "eta times the curvature of the loss (only for curved)", default=sp.Rational(1, 2))


def _eq7_derive(K: Any, N: Any, b: Any, eta: Any, c: Any, z: Any, p: Any, alignment: Any, path: str, a: Any) -> Derivation:
    d = Derivation()
    steps = d.say("Steps:", K * sp.ceiling(N / b))
    sampling, noise = c**2 * (1 - alignment**2) / b, noise_part(b, c, z, p)
    if path == "shuffled":
        d.say("The batches of an epoch are a partition of the records, so at an unchanged mean their gradients add to the "
              "same sum in every order: no sampling variance is left, only the steps' noise,", noise)  # fmt: skip
        return d.conclude("steps eta^2 noise:", steps * eta**2 * noise)
    v = d.say("A step adds -eta times a gradient of variance", sampling + noise)
    if path == "fixed mean":
        d.say("Given theta^e the steps are uncorrelated, as no step's mean depends on earlier ones; variances add.")
        return d.conclude("steps eta^2 variance:", steps * eta**2 * v)
    pull = 1 - a
    d.say("The mean gradient G + h (theta - theta^e) with eta h = a turns a deviation u into (1-a) u - eta xi. So the "
          "variance V satisfies V' = (1-a)^2 V + eta^2 v, V = 0 at the start: a geometric sum.")  # fmt: skip
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
    each = fraction(_eq3_oracle(b, c, z, p, alignment if path != "shuffled" else ONE, "independent", ONE))
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
        statement="K ceil(1/q) noisy steps of size eta give the model update K ceil(1/q) eta^2 times the variance of a "
        "noisy batch gradient.",
        latex=r"\sigma_i^2 := \text{Var}(\Delta \tilde{\boldsymbol{\theta}}_i^e | \boldsymbol{\theta}^e) = K_i \times "
        r"\lceil \frac{1}{q_i} \rceil \times \eta_l^2 \times \sigma_{i,\tilde{g}}^2",
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
        condition_text="path == fixed mean (independent batches, and a mean gradient that does not change during the "
        "round), or path == shuffled with the sampling part dropped (alignment == 1)",
        counterexample={"K": 1, "N": 2, "b": 2, "eta": 1, "c": 1, "z": 1, "p": 1, "alignment": 0, "path": "shuffled"},
        unit="squared parameters, summed over coordinates",
        related=("robusthdp:eq3",),
        remark="'Adds noise independently' is true of the noise, but a step's mean gradient depends on earlier noise unless "
        "the loss is flat on the way: with curvature h the noise shrinks by (1 - eta h)^2 per step (and grows where eta h < "
        "0). When an epoch visits every record once the sampling parts cancel and only the noise counts. Exact for "
        "quadratic losses.",
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
    "fixed: both batch sizes use the same z; theorem 1: z is proportional to q sqrt(E E_i), as Theorem 1 asks at a fixed "
    "budget",
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
        one = fraction(_eq3_oracle(sp.Integer(size), c, ZERO, p, alignment, "independent", ONE))
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


register(
    Claim(
        id="robusthdp:batch-power3",
        title="The batch size enters with power 3",
        place="Section 3.2, text after (7)",
        statement="When clipping is effective b_i appears with power 3 in the denominator of (7): a batch k times as large "
        "has a k^3 times smaller variance.",
        latex=r"\text{when clipping is effective, }b_i\text{ appears with power 3 in denominator (recall }\frac{1}{q_i} = "
        r"\frac{N_i}{b_i}\text{)}",
        kind="order",
        variables=(B, C, TIMES, WHOLE, REST, Z_POSITIVE, P, ALIGNMENT, Z_RULE),
        examples=(
            {"b": 16, "c": 3, "k": 2, "m": 75, "z": 1, "p": 28939},
            {"b": 3, "c": 1, "k": 3, "m": 2, "z": 2, "p": 5},
            {"b": 4, "c": 1, "k": 5, "m": 1, "z": "1/2", "p": 2},
        ),
        printed=lambda k: k**3,
        derive=_power_derive,
        oracle=_power_oracle,
        computed=_power_computed,
        not_simulated="a ratio of two variances that robusthdp:eq7 simulates",
        condition=lambda rest, alignment, z_rule: sp.Eq(alignment, 1) if rest == 0 and z_rule == "fixed" else sp.false,
        condition_text="z_rule == fixed (the noise scale is held fixed), rest == 0 (b and k b divide N) and alignment == 1 "
        "(the sampling part is dropped)",
        counterexample={"b": 1, "c": 1, "k": 2, "m": 1, "z": 1, "p": 1, "z_rule": "theorem 1"},
        unit="dimensionless",
        related=("robusthdp:eq7",),
        remark="At a fixed privacy budget z is not fixed: the paper itself says that it grows with b. With the z of Theorem "
        "1 (z^2 proportional to q) the power is 2; in general it is 3 minus twice the power with which z grows, and at "
        "least 2 (robusthdp:z-sublinear:order2). For a b that does not divide N, ceil(N/b) blurs the power.",
    )
)
