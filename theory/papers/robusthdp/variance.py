"""Robust-HDP, Section 3.1: the variance of a noisy batch gradient, (3) and (5).

Belongs here: one noisy gradient at a given noise scale z. Does not belong here: many of them (update.py), which z a privacy
budget asks for (noise_scale.py).
"""

from __future__ import annotations

from fractions import Fraction
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
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.robusthdp.model import ALIGNMENT, ONE, B, C, P, Z, noise_part, signs

SAMPLING = Variable(
    "sampling",
    "choice",
    """independent: the batch's gradients are independent draws; without replacement: a batch of fixed size from the client's
    records; poisson: each record with probability q, divisor b fixed""",
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
        part = d.say("""Each record's gradient enters with probability q = b/N, independently, and has second moment c^2: N q
            (1-q) c^2/b^2 is""", simplest(total * q * (1 - q) * c**2 / b**2))  # fmt: skip
    noise = d.say("The noise is independent of the batch; its p coordinates add:", noise_part(b, c, z, p))
    return d.conclude("Together:", part + noise)


def _gram(count: int, c: Fraction, alignment: Fraction) -> list[list[Fraction]]:
    """Inner products of `count` vectors of norm c whose mean has norm alignment c, all pairs alike."""
    cross = (count * alignment**2 - 1) / (count - 1)
    return [[c**2 * (1 if i == j else cross) for j in range(count)] for i in range(count)]


def clipped_variance(b: Any, c: Any, z: Any, p: Any, alignment: Any, sampling: str, others: Any) -> Any:
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
        latex=r"""\sigma_{i,\tilde{g}}^2 := \text{Var}(\tilde{g}_i(\boldsymbol{\theta})) =
            \frac{c^2 - \|G_i(\boldsymbol{\theta})\|^2}{b_i} + \frac{pc^2z^2(\epsilon_i, \delta_i, q_i, K_i, E)}{b_i^2}""",
        kind="identity",
        variables=(B, C, Z, P, ALIGNMENT, SAMPLING, OTHERS),
        examples=(
            {"b": 4, "c": 2, "z": "1/2", "p": 6, "alignment": "1/2"},
            {"b": 2, "c": 1, "z": "1/2", "p": 5, "alignment": "1/2", "sampling": "without replacement", "others": 2},
            {"b": 2, "c": 1, "z": "1/2", "p": 5, "alignment": "1/2", "sampling": "poisson", "others": 2},
        ),
        printed=printed_variance,
        derive=_eq3_derive,
        oracle=clipped_variance,
        computed=dpsgd.batch_gradient_variance,
        simulate=_eq3_simulate,
        condition=lambda sampling: sp.true if sampling == "independent" else sp.false,
        condition_text="sampling == independent (the gradients of one batch are independent given theta)",
        counterexample={"b": 2, "c": 1, "z": 1, "p": 1, "alignment": 0, "sampling": "without replacement", "others": 1},
        assumes={"clipping": "all", "divisor": "fixed", "noise": "fresh", "law": "moments"},
        unit=UNIT,
        assumptions=("every gradient is clipped: its norm is c", "the batch size in the divisor is fixed"),
        remark="""The paper averages over fresh data. Given the client's records, batches of fixed size have (N-b)/(N-1)
            times that sampling part (none for a full batch), and Poisson batches, which its accountant assumes, have
            (1-q) c^2/b whatever G is, because their size varies. The approximation behind it is judged in
            robusthdp:eq3:approx.""",
    )
)

Z_POSITIVE = Variable("z", "positive", "noise scale: standard deviation of the noise over c")


def _approx_derive(b: Any, c: Any, z: Any, p: Any, alignment: Any) -> Derivation:
    d = Derivation()
    sampling = d.say("The dropped part is", c**2 * (1 - alignment**2) / b)
    return d.conclude("Over the part that is kept:", simplest(sampling / noise_part(b, c, z, p)))


def _approx_oracle(b: Any, c: Any, z: Any, p: Any, alignment: Any) -> Any:
    full = clipped_variance(b, c, z, p, alignment, "independent", ONE)
    kept = clipped_variance(b, c, z, p, ONE, "independent", ONE)
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
        not_computed=Exempt(kind="difference", of=("robusthdp:eq3",)),
        not_simulated=Exempt(kind="part", of=("robusthdp:eq3",)),
        shifts=lambda alignment: {alignment: (t := sp.Symbol("t", nonnegative=True)) / (1 + t)},
        ours=True,
        assumes={"clipping": "all", "divisor": "fixed", "sampling": "replacement", "law": "moments"},
        tight=Tight(at={"b": 128, "c": 3, "z": 1, "p": 28939, "alignment": 0}, ratio="1"),
        unit="dimensionless",
        related=("robusthdp:eq3",),
        remark="""The paper only writes an approximation. Exactly, the relative error is (1 - |G|^2/c^2) b/(p z^2): below 0.5
            % for its p = 28939 and b = 128 at z = 1. It matters for small models or little noise.""",
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
        assumes={"clipping": "any", "divisor": "fixed", "sampling": "replacement", "law": "moments"},
        tight=Tight(at={"b": 2, "c": 1, "z": "1/2", "p": 5, "clipped": 1, "length": "2/3", "alignment": "1/3"}, ratio="1"),
        unit=UNIT,
        assumptions=("the gradients of one batch are independent given theta",),
        related=("robusthdp:eq3",),
        remark="""The paper treats only 'all clipped' and 'none clipped'. The slack is (1-clipped)(1-length^2) c^2/b, so the
            bound also covers case 2, without the constant of Assumption 1.""",
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
        """Clipping changes nothing, so (1) is the batch gradient plus noise; the noise is independent of it, so variances
        add."""
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
        statement="""Without effective clipping the variance is that of the batch gradient plus the noise, at most sigma_g^2
            plus the noise.""",
        latex=r"""\sigma_{i,\tilde{g}}^2 = \text{Var}(\tilde{g}_i(\boldsymbol{\theta})) =
            \text{Var}(g_i(\boldsymbol{\theta})) + \frac{p\sigma_{i,\text{dp}}^2}{b_i^2} \leq \sigma_{i,g}^2 +
            \frac{pc^2z^2(\epsilon_i, \delta_i, q_i, K_i, E)}{b_i^2}""",
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
        assumes={"clipping": "none", "divisor": "fixed", "noise": "fresh", "law": "moments"},
        tight=Tight(at={"b": 2, "c": 1, "z": 1, "p": 5, "sigma2_g": "1/4"}, ratio="1"),
        unit=UNIT,
        remark="""Where no gradient exceeds c, Var(g_i) <= (c^2 - |G|^2)/b for independent gradients, so no constant beyond c
            is needed (robusthdp:eq3:any-clip).""",
    )
)

__all__ = ["Z_POSITIVE", "clipped_variance", "printed_variance"]
