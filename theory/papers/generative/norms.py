"""Norms of sample means in d dimensions and the clipping radius: Lemma 1 and Section 2.3.3.

Belongs here: chi tails, radii that hold all means, what clipping a personalised estimate needs. Does not belong here:
messages in one coordinate (quantiser.py), the mixture's estimates (mixture.py).
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
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import M2, ZERO, N
from theory.papers.generative.normal import DIGITS, exported, number

DIMENSION = Variable("d", "choice", "coordinates of a sample", choices=(1, 2, 5))
MANY_M = Variable("m", "size", M2.meaning, low=2, within=(2, 1000), why="certified")
MANY_N = Variable("n", "size", N.meaning, within=(1, 1000), why="certified")


def chi_tail(d: int, x: Any) -> Any:
    """Probability that the norm of d independent standard normals exceeds x, as a formula."""
    half = x**2 / 2
    if d % 2 == 0:
        return sp.exp(-half) * sum((half**j / sp.factorial(j) for j in range(d // 2)), start=ZERO)
    terms = (x ** (2 * j - 1) / sp.factorial2(2 * j - 1) for j in range(1, (d + 1) // 2))
    return sp.erfc(x / sp.sqrt(2)) + sp.sqrt(2 / sp.pi) * sp.exp(-half) * sum(terms, start=ZERO)


def _expected_above(m: Any, d: int, distance: Any) -> Derivation:
    proof = Derivation()
    proof.say("""xbar_i is theta_i plus a vector of d independent normals of variance sigma2_x/n each, and theta_i has norm
        at most r. So the norm of xbar_i exceeds r by at most the noise's norm, and for candidates at 0 it
        is that norm.""")  # fmt: skip
    x = proof.say("In units of sigma_x/sqrt(n) the radius exceeds r by", distance)
    tail = proof.say("Integrating the chi density by parts: the noise's norm is larger with probability", chi_tail(d, x))
    return proof.conclude("Expected number of norms above, which bounds the probability that any is:", m * tail)


def _quadrature(m: Any, n: Any, d: int, roots: int, logs: int) -> Any:
    """The chi density integrated beyond sqrt(roots d) + sqrt(logs log(m^2 n))."""
    with mpmath.workdps(DIGITS + 5):
        x = mpmath.sqrt(roots * d) + mpmath.sqrt(logs * mpmath.log(int(m) ** 2 * int(n)))
        front = mpmath.exp(-x * x / 2) * 2 ** (1 - mpmath.mpf(d) / 2) / mpmath.gamma(mpmath.mpf(d) / 2)
        density = mpmath.quad(lambda u: (x + u) ** (d - 1) * mpmath.exp(-x * u - u * u / 2), [0, 1, 4, 16])
        return exported(int(m) * front * density)


def _sharp_computed(m: int, n: int, d: int) -> float:
    from scipy.special import gammaincc

    radius = float(quantization.norm_radius(m, n, d, float(n), 0.0))
    return float(m * gammaincc(d / 2, radius**2 / 2))


def _sharp_simulate(m: int, n: int, d: int) -> simulation.Simulation:
    """Noise is drawn wider, so that norms near the radius are common, and weighed by its exact density."""
    radius = np.sqrt(d) + np.sqrt(2 * np.log(m**2 * n))
    wider = max(1.0, radius / np.sqrt(n * d))  # never narrower, where there are many samples

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise, weights = simulation.widened(gen, np.sqrt(n), wider, (n, reps, m, d), over=(0, 3))
        means = noise.mean(axis=0)  # of variance one
        above = np.einsum("...d,...d->...", means, means) > radius**2
        return np.sum(weights * above, axis=1)[:, None]

    return simulation.sample_means(draw, draws=m * n * d)


register(
    Claim(
        id="generative:lemma1",
        title="Norms of the sample means",
        place="Section 2.3.3, Lemma 1, (10); proof in Section 5.3.2, (58)-(59)",
        statement="""With probability at least 1 - 1/(mn) the norms of all m sample means are below this radius. Judged for d
            = 1, 2, 5: the expected number above it, in the least favourable case, is at most 1/(mn).""",
        latex=r"""\left\|\frac{1}{n}\sum_{j=1}^{n}X_{ij}\right\|_{2}\leq
            4\sqrt{d\frac{\sigma_x^2}{n}}+2\sqrt{\log(m^2n)\frac{\sigma_x^2}{n}}+r""",
        kind="probability",
        variables=(MANY_M, MANY_N, DIMENSION),
        examples=({"m": 3, "n": 2, "d": 2}, {"m": 2, "n": 1, "d": 1}),
        printed=lambda m, n: 1 / (m * n),
        relation="<=",
        derive=lambda m, n, d: _expected_above(m, d, 4 * sp.sqrt(d) + 2 * sp.sqrt(sp.log(m**2 * n))),
        oracle=lambda m, n, d: _quadrature(m, n, d, 16, 4),
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.quantization.norm_radius", note="the sharper radius"
        ),
        not_simulated=Exempt(kind="rare"),
        tight=Tight(at={"m": 2, "n": 1, "d": 1}, ratio="1198059560.26"),
        assumes={"law": "gaussian"},
        unit="expected number of means outside",
        remark="""Much slack: the general sub-Gaussian bound is used where the noise is Gaussian. The 4 sqrt(d) can be
            sqrt(d) and the 2 can be sqrt(2): generative:lemma1:sharp. Certified for m and n up to 1000.""",
    )
)
register(
    Claim(
        id="generative:lemma1:sharp",
        title="A smaller radius for the sample means",
        place="Section 2.3.3, Lemma 1 (sharpened)",
        statement="""The radius sqrt(sigma2_x/n) (sqrt(d) + sqrt(2 log(m^2 n))) + r holds the norms of all m sample means
            with probability at least 1 - 1/(mn). Judged as generative:lemma1.""",
        latex=r"\left\|\overline{X}_i\right\|_2\leq\sqrt{\frac{\sigma_x^2}{n}}\left(\sqrt d+\sqrt{2\log(m^2n)}\right)+r",
        kind="probability",
        variables=(MANY_M, MANY_N, DIMENSION),
        examples=({"m": 2, "n": 1, "d": 1}, {"m": 2, "n": 1, "d": 2}, {"m": 2, "n": 2, "d": 5}),
        printed=lambda m, n: 1 / (m * n),
        relation="<=",
        derive=lambda m, n, d: _expected_above(m, d, sp.sqrt(d) + sp.sqrt(2 * sp.log(m**2 * n))),
        oracle=lambda m, n, d: _quadrature(m, n, d, 1, 2),
        computed=_sharp_computed,
        simulate=_sharp_simulate,
        tight=Tight(at={"m": 2, "n": 1, "d": 1}, ratio="32.4830054969"),
        assumes={"law": "gaussian"},
        ours=True,
        unit="expected number of means outside",
        related=("generative:lemma1",),
        remark="""The norm is 1-Lipschitz with mean below sqrt(d), so Gaussian concentration gives exp(-t^2/2) for t beyond
            it.""",
    )
)


# --- one mean, any probability -----------------------------------------------------------------------------------------

LOG_ETA = Variable("L", "positive", "log(1/eta), eta being the probability allowed", within=("1/100", 50), why="certified")


def _norm_derive(d: int, L: Any) -> Derivation:
    proof = Derivation()
    x = proof.say("In units of sigma_x/sqrt(n) the norm is compared with", 4 * sp.sqrt(d) + 2 * sp.sqrt(L))
    return proof.conclude("Integrating the chi density by parts, it is larger with probability", chi_tail(d, x))


def _norm_oracle(d: int, L: Any) -> Any:
    """The upper incomplete gamma function by its continued fraction and series (mpmath), not by parts."""
    with mpmath.workdps(DIGITS + 5):
        x = 4 * mpmath.sqrt(d) + 2 * mpmath.sqrt(number(L))
        return exported(mpmath.gammainc(mpmath.mpf(d) / 2, x * x / 2, regularized=True))


register(
    Claim(
        id="generative:lemma1:norm",
        title="Norm of a mean's error, for any probability",
        place="Section 5.3.2, (58)-(59)",
        statement="""With probability at least 1 - eta the norm of xbar_i - theta_i is at most this, and that of xbar_i at
            most r more. Judged for d = 1, 2, 5: the probability of more is at most eta.""",
        latex=r"""\|\overline{X}_{i}-\theta_{i}\|_{2}\leq 4\sqrt{d\frac{\sigma_{x}^{2}}{n}}+2%
            \sqrt{\log(1/\eta)\frac{\sigma_{x}^{2}}{n}}""",
        kind="probability",
        relation="<=",
        variables=(DIMENSION, LOG_ETA),
        examples=({"d": 2, "L": 1}, {"d": 1, "L": 3}),
        printed=lambda L: sp.exp(-L),
        derive=_norm_derive,
        oracle=_norm_oracle,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.quantization.norm_radius", note="the sharper radius"
        ),
        not_simulated=Exempt(kind="rare"),
        tight=Tight(at={"d": 1, "L": 1}, ratio="186440324.396"),
        assumes={"law": "gaussian"},
        unit="probability",
        related=("generative:lemma1",),
        remark="Certified for eta from exp(-50) to 0.99.",
    )
)


# --- the clipping radius -----------------------------------------------------------------------------------------------

RADIUS = Variable("r", "positive", "bound on the norms of the candidates")
WEIGHT = Variable("weight", "fraction", "posterior weight of the first of two candidates", closed=True)
COSINE = Variable("cosine", "fraction", "cosine of the angle between the two candidates, both of norm r", closed=True)
SIGN = Variable("sign", "choice", "sign of the cosine", choices=(1, -1), default=1)
EXCESS = Variable("excess", "nonnegative", "the radius beyond r: 4 sqrt(d sigma2_x/n) + 2 sqrt(log(m^2 n) sigma2_x/n)")


def _clip_derive(r: Any, weight: Any, cosine: Any, sign: int, excess: Any) -> Derivation:
    d = Derivation()
    d.say("""A personalised estimate is sum_l alpha_l mu_l with weights >= 0 that add up to 1, so its norm is at most the
        largest norm of a candidate; two candidates of norm r are the case to look at.""")  # fmt: skip
    square = sp.expand(weight**2 * r**2 + (1 - weight) ** 2 * r**2 + 2 * weight * (1 - weight) * sign * cosine * r**2)
    d.say("The squared norm of weight mu_1 + (1 - weight) mu_2 is", sp.factor(square))
    d.say("which falls short of r^2 by", short := sp.factor(r**2 - square))
    d.say("a product of numbers >= 0.", short)
    return d.conclude("The squared norm:", sp.factor(square))


def _clip_oracle(r: Any, weight: Any, cosine: Any, sign: int) -> Any:
    """Coordinates: mu_1 = (r, 0), mu_2 = r (c, s); the square of s is rational."""
    along = weight * r + (1 - weight) * r * sign * cosine
    return along**2 + (1 - weight) ** 2 * r**2 * (1 - cosine**2)


def _clip_shifts(weight: Any, cosine: Any, **_: Any) -> dict[Any, Any]:
    s, t = sp.symbols("s t", nonnegative=True)
    return {weight: s / (1 + s), cosine: t / (1 + t)}


register(
    Claim(
        id="generative:clip-radius",
        title="The radius within which clients clip their personalised estimates",
        place="Section 2.3.3, text after Lemma 1",
        statement="""Clipping the personalised estimates within the radius of Lemma 1 (because the means of the samples lie
            within it) loses nothing. Judged: the squared norm of a personalised estimate, candidates known, is at most
            the squared radius.""",
        latex=r"4\sqrt{d\frac{\sigma_x^2}{n}}+2\sqrt{\log(m^2n)\frac{\sigma_x^2}{n}}+r",
        kind="upper bound",
        variables=(RADIUS, WEIGHT, COSINE, SIGN, EXCESS),
        examples=(
            {"r": 2, "weight": "1/4", "cosine": "1/2", "excess": 1},
            {"r": 1, "weight": "1/2", "cosine": 0, "excess": "1/2", "sign": -1},
        ),
        printed=lambda r, excess: (r + excess) ** 2,
        relation="<=",
        derive=_clip_derive,
        oracle=_clip_oracle,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.mixture.posterior_mean", note="the estimate"
        ),
        shifts=_clip_shifts,
        not_simulated=Exempt(kind="deterministic", note="true for every data set"),
        tight=Tight(at={"r": 2, "weight": 1, "cosine": 0, "excess": 0}),
        assumes={"prior": "known"},
        unit="square of the units of the samples",
        related=("generative:lemma1",),
        remark="""True with slack: what is clipped is theta_i^(t), a mean of candidates, and not the sample mean that Lemma 1
            is about. The radius r does the same (generative:clip-radius:r), and the sensitivity 2r that noise is scaled
            to does not grow with d. Only the initial theta_i^(0) = xbar_i needs Lemma 1; estimated candidates lie in the
            hull of what was clipped, so the same radius serves all rounds.""",
    )
)
register(
    Claim(
        id="generative:clip-radius:r",
        title="Radius r suffices for personalised estimates",
        place="Section 2.3.3, text after Lemma 1 (sharpened)",
        statement="Personalised estimates from candidates of norm at most r have norm at most r, whatever the data.",
        latex=r"\Big\|\sum_l\alpha_l^{(i)}\bm\mu_l\Big\|_2\leq r",
        kind="upper bound",
        variables=(RADIUS, WEIGHT, COSINE, SIGN),
        examples=(
            {"r": 2, "weight": "1/4", "cosine": "1/2"},
            {"r": 1, "weight": "1/2", "cosine": 0, "sign": -1},
        ),
        printed=lambda r: r**2,
        relation="<=",
        derive=lambda r, weight, cosine, sign: _clip_derive(r, weight, cosine, sign, ZERO),
        oracle=_clip_oracle,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.closed_forms.mixture.posterior_mean", note="the estimate"
        ),
        shifts=_clip_shifts,
        not_simulated=Exempt(kind="deterministic", note="true for every data set"),
        tight=Tight(at={"r": 2, "weight": 1, "cosine": 0}),
        ours=True,
        assumes={"prior": "known"},
        unit="square of the units of the samples",
        remark="Attained when all weight is on one candidate.",
    )
)

__all__ = ["chi_tail"]
