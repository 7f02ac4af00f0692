"""AdaPeD's objective (23): whether it has a minimiser, the best psi, what keeps psi away from zero.

Belongs here: (23) as a whole and in psi. Does not belong here: the population behind it (distillation.py), AdaPeD's lines
(adaped.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from estimators.closed_forms import distillation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.dual import Dual, gradient

V = Variable("psi", "positive", "variance of (23)", extreme=False)

# --- (23) ------------------------------------------------------------------------------------------------------------

FLOOR = Variable("floor", "positive", "a candidate for the least value of exp(2 objective)", extreme=False)
K_FIT = Variable("K", "positive", "exp(2 f_i(theta_i)) at any parameter", extreme=False)


def _eq23_derive(floor: Any, K: Any) -> Derivation:
    d, psi = Derivation(), sp.Symbol("psi", positive=True)
    value = d.say(
        "Let the global model equal the client's, mu = theta_i. Then f^KD = 0 and exp(2 objective) is", 2 * psi * K
    )
    small = d.say("Take", floor / (2 * (1 + floor) * (1 + K)))
    return d.conclude("There exp(2 objective) is less than the floor, whatever the floor:", value.subs(psi, small))


def _eq23_oracle(floor: Any, K: Any) -> Any:
    c, k = fraction(floor), fraction(K)
    psi = Fraction(1, 2) / (1 / c + 1) / (1 + k)
    return rational(2 * psi * k)


register(
    Claim(
        id="generative:eq23",
        title="AdaPeD's objective has a minimiser",
        place="Section 3.4, (23)",
        statement="""AdaPeD minimises (23) over theta_i, mu and psi, so it must be bounded below. Judged: whatever the floor,
            exp(2 objective) is at least the floor at mu = theta_i, psi = floor/(2 (1 + floor)(1 + K)).""",
        latex=r"f_{i}(\bm{\theta}_{i})+\frac{1}{2}\log(2\psi)+\frac{f^{\mathsf{KD}}_{i}(\bm{\theta}_{i},\bm{\mu})}{2\psi}",
        kind="lower bound",
        variables=(FLOOR, K_FIT),
        examples=({"floor": "1/100", "K": 3},),
        printed=lambda floor: floor,
        relation=">=",
        derive=_eq23_derive,
        oracle=_eq23_oracle,
        corrected=lambda floor, K: K * floor / ((1 + floor) * (1 + K)),
        corrected_text="the infimum of (23) is minus infinity; add b/psi (generative:eq23:penalised)",
        counterexample={"floor": 1, "K": 1},
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="deterministic"),
        finding="The objective has no minimum: once the models agree, it falls without bound as psi vanishes.",
        unit="dimensionless",
        related=("generative:eq19",),
        remark="""The text argues that psi cannot be unbounded; but nothing keeps it from zero once the models agree. All
            clients' models equal, with any common mu, does it for the sum over clients too.""",
    )
)

KD = Variable("kd", "nonnegative", "f^KD of each client", lengths=(1, 3), extreme=False)
B0 = Variable("b", "nonnegative", "strength of the penalty b/psi (0: none)", extreme=False)


def _psi_derive(kd: list[Any], b: Any) -> Derivation:
    d, psi = Derivation(), sp.Symbol("psi", positive=True)
    objective = len(kd) * sp.log(2 * psi) / 2 + sum(kd) / (2 * psi) + b / psi
    slope = d.say(
        "Slope in psi of (23), summed over clients, with b/psi, times 2 psi^2:",
        sp.expand(2 * psi**2 * sp.diff(objective, psi)),
    )
    return d.conclude("It grows in psi and vanishes only at", sp.solve(slope, psi)[0])


def _psi_oracle(kd: list[Any], b: Any) -> Any:
    """The slope in 1/psi is affine in psi: two exact evaluations give its zero."""

    def slope(at: Fraction) -> Fraction:
        def objective(u: Dual) -> Dual:
            return sum((u * (fraction(k) / 2) - u.log() * Fraction(1, 2) for k in kd), u * fraction(b))

        return fraction(gradient(objective, [rational(1 / at)])[0])

    one, two = slope(Fraction(1)), slope(Fraction(2))
    return rational(1 - one / (two - one))


register(
    Claim(
        id="generative:eq23:psi",
        title="Best psi for given models",
        place="Section 3.4, text after (23)",
        statement="""For given models (23), summed over clients, is least at psi = the mean of f^KD: psi rises where f^KD is
            larger and falls where it is smaller, as the text says. With a penalty b/psi: the mean plus 2b/m.""",
        latex=r"\psi=\frac1m\sum_{i}f_i^{\mathsf{KD}}(\theta_i,\mu)+\frac{2b}m",
        kind="identity",
        variables=(KD, B0),
        examples=({"kd": [1, 2, 4], "b": 0},),
        printed=lambda kd, b: (sum(kd) + 2 * b) / len(kd),
        derive=_psi_derive,
        oracle=_psi_oracle,
        ours=True,
        computed=distillation.best_psi,
        not_simulated=Exempt(kind="deterministic"),
        unit="nats",
        related=("generative:eq23",),
    )
)

B_POSITIVE = Variable("b", "positive", "strength of the penalty b/psi", extreme=False)
ONE_KD = Variable("kd", "nonnegative", "f^KD of the client", extreme=False)
TAIL = Variable("tail", "nonnegative", "what the exponential series adds beyond its first two terms", extreme=False)


def _pen_derive(psi: Any, kd: Any, b: Any, tail: Any) -> Derivation:
    d = Derivation()
    u = d.say("Terms of (23) in psi with the penalty, doubled: log(2 psi) + u with u =", (kd + 2 * b) / psi)
    return d.conclude("exp(u) is 1 + u and something positive (tail), so their exponential is", 2 * psi * (1 + u + tail))


def _pen_oracle(psi: Any, kd: Any, b: Any, tail: Any) -> Any:
    p = fraction(psi)
    return rational(2 * (p + fraction(kd) + fraction(b) + fraction(b) + p * fraction(tail)))


register(
    Claim(
        id="generative:eq23:penalised",
        title="A penalty that gives AdaPeD's objective a minimiser",
        place="Section 3.4; repairs (23); not in the paper",
        statement="""With b/psi added to (23), exp of twice its terms in psi is at least 4b for all models. Judged with
            exp(u) written as 1 + u and a positive rest, `tail`.""",
        latex=r"\frac12\log(2\psi)+\frac{f_i^{\mathsf{KD}}+2b}{2\psi}\ge\frac12\log(4b)",
        kind="lower bound",
        variables=(V, ONE_KD, B_POSITIVE, TAIL),
        examples=({"psi": 1, "kd": 1, "b": 1, "tail": 1},),
        printed=lambda b: 4 * b,
        relation=">=",
        derive=_pen_derive,
        oracle=_pen_oracle,
        tight=Tight(at={"psi": 1, "kd": 0, "b": 1, "tail": 0}, ratio="2/3"),
        ours=True,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.best_variance", note="its minimiser"),
        not_simulated=Exempt(kind="deterministic"),
        unit="dimensionless",
        related=("generative:eq23",),
        remark="In Algorithm 5 the penalty adds b/psi^2 with a minus sign to k_i (line 14), which keeps psi away from zero.",
    )
)

# --- the experiments' floor ------------------------------------------------------------------------------------------

ABOVE = Variable("above", "nonnegative", "psi less 1/2", extreme=False)


def _floor_derive(above: Any, kd: Any, tail: Any) -> Derivation:
    d = Derivation()
    psi = d.say("psi at or above its floor:", sp.Rational(1, 2) + above)
    weight = d.say("The divergence enters (23) with the weight 1/(2 psi):", 1 / (2 * psi))
    rest = d.say("""Twice the terms in psi is log(2 psi) + kd/psi. The exponential of minus that, with the series of
        e^(kd/psi) up to its linear term and a positive rest:""", 1 / (2 * psi * (1 + kd / psi + tail)))  # fmt: skip
    return d.conclude("Weight of the divergence; exp of minus twice the terms:", (weight, rest))


def _floor_oracle(above: Any, kd: Any, tail: Any) -> tuple[Any, Any]:
    a, k, t = fraction(above), fraction(kd), fraction(tail)
    twice = 1 + a + a  # 2 psi
    return rational(1 / twice), rational(1 / (twice + k + k + twice * t))


register(
    Claim(
        id="generative:exp:psi-floor",
        title="psi is kept at or above 1/2",
        place="Section 4.1, AdaPeD",
        statement="""psi is prevented from becoming smaller than 0.5 so that the local loss is not dominated by the
            distillation loss. Judged: then the divergence has at most the local loss's weight, 1; and the terms of (23)
            in psi are at least 0, so that (23) has a minimum (exp(kd/psi) is written as 1 + kd/psi and a positive rest,
            `tail`).""",
        latex=r"""\text{We manually prevent }\psi\text{ becoming smaller than 0.5 so that local loss does not become
            dominated by the KD loss.}""",
        kind="upper bound",
        variables=(ABOVE, ONE_KD, TAIL),
        examples=({"above": 1, "kd": 1, "tail": 1},),
        printed=lambda: (sp.Integer(1), sp.Integer(1)),
        relation="<=",
        derive=_floor_derive,
        oracle=_floor_oracle,
        tight=Tight(at={"above": 0, "kd": 0, "tail": 0}),
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.distillation.variance_penalty"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("weight of the divergence", "exp of minus twice the terms in psi"),
        unit="dimensionless",
        related=("generative:eq23", "generative:alg5:positive"),
        remark="""The floor is missing in Algorithms 5 and 6. It does for the experiments what the penalty of
            generative:eq23:penalised does for the objective.""",
    )
)
