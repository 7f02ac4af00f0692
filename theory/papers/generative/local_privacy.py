"""Theorem 2, part 2: Gaussian noise on a bounded message as local differential privacy.

Belongs here: (41)-(43) and the noise that d coordinates need. Does not belong here: what the noise costs the estimate
(messages.py), the range of the messages (quantiser.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import privacy
from estimators.closed_forms import quantization
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import ONE
from theory.papers.generative.normal import DIGITS, exported, number, upper_tail

D = Variable("d", "size", "coordinates of a message, each projected onto [-a, a] and noised", default=ONE)
EPS0 = Variable("eps0", "positive", "epsilon of the local guarantee", within=("1/100", 1), why="certified")
DELTA = Variable("delta", "positive", "delta of the local guarantee", within=("1e-10", "99/100"), why="certified")


def needed_delta(eps: Any, ratio: Any) -> Any:
    """Smallest delta of Gaussian noise at eps, `ratio` = noise deviation over sensitivity, as a formula."""
    return upper_tail(eps * ratio - 1 / (2 * ratio)) - sp.exp(eps) * upper_tail(eps * ratio + 1 / (2 * ratio))


def _say_hockey_stick(d: Derivation) -> None:
    d.say("""Local privacy: any two inputs of the client are neighbours. The outputs are two normal laws with the same
        covariance sigma^2 I; only the Euclidean distance of their centres matters, and it is largest for
        opposite corners of [-a, a]^d, where it is 2 a sqrt(d).""")  # fmt: skip
    d.say("""The smallest delta at eps is the hockey-stick divergence, the mass by which one law exceeds e^eps times the
        other: Phi(1/(2k) - eps k) - e^eps Phi(-1/(2k) - eps k), k = sigma over that distance.""")  # fmt: skip


def _ldp_derive(d: Any, eps0: Any, delta: Any) -> Derivation:
    proof = Derivation()
    _say_hockey_stick(proof)
    ratio = proof.say("Here k is", sp.sqrt(2 * sp.log(2 / delta)) / (eps0 * sp.sqrt(d)))
    return proof.conclude("so the delta that the mechanism needs at eps0 is", needed_delta(eps0, ratio))


def _loss_oracle(d: Any, eps: Any, per_coordinate: Any) -> Any:
    """Mean of 1 - e^(eps - loss), where positive, over the privacy loss: a sum of d normal losses, one per coordinate."""
    mean, variance = int(d) * per_coordinate, int(d) * 2 * per_coordinate
    scale = mpmath.sqrt(variance)
    start = (eps - mean) / scale
    ends = [start, start + 2, start + 6, start + 20] if start > -8 else [start, -8, 0, 8, 20]
    gain = mpmath.quad(lambda z: -mpmath.exp(-z * z / 2) * mpmath.expm1(eps - mean - scale * z), ends)
    return gain / mpmath.sqrt(2 * mpmath.pi)


def _ldp_oracle(d: Any, eps0: Any, delta: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        eps = number(eps0)
        # (2 a)^2/(2 sigma^2) with sigma^2 = 8 a^2 log(2/delta)/eps0^2
        return exported(_loss_oracle(d, eps, eps**2 / (4 * mpmath.log(2 / number(delta)))))


def _ldp_computed(d: int, eps0: float, delta: float) -> float:
    sigma = np.sqrt(8 * np.log(2 / delta)) / eps0
    return float(privacy.gaussian_delta(eps=eps0, sensitivity=quantization.box_sensitivity(1.0, d), sigma=sigma))


register(
    Claim(
        id="generative:thm2:ldp",
        title="Gaussian noise on a bounded message is local DP",
        place="Theorem 2, item 2; Section 5.1.2, proof of part 2, (41)-(43)",
        statement="""For eps0 in (0, 1) Gaussian noise of variance 8 a^2 log(2/delta)/eps0^2 on a message in [-a, a] is
            (eps0, delta)-LDP. Judged: the delta that the mechanism needs at eps0 is at most delta. The theorem is stated
            for messages in d coordinates.""",
        latex=r"\sigma_{\epsilon_0}^2=\frac{8a^2\log(2/\delta)}{\epsilon_0^2}",
        kind="probability",
        variables=(D, EPS0, DELTA),
        examples=({"eps0": "1/2", "delta": "1e-5"}, {"eps0": 1, "delta": "1e-3", "d": 2}),
        printed=lambda delta: delta,
        relation="<=",
        derive=_ldp_derive,
        oracle=_ldp_oracle,
        computed=_ldp_computed,
        not_simulated=Exempt(kind="divergence"),
        tight=Tight(at={"eps0": 1, "delta": "1e-5"}, ratio="410.869349781"),
        condition=lambda d: sp.Eq(d, 1),
        condition_text="d == 1",
        counterexample={"d": 4, "eps0": 1, "delta": "1e-5"},
        unit="delta",
        assumes={"adjacency": "replace", "noise": "fresh", "clipping": "any"},
        remark="""In one dimension the sensitivity is 2a and the bound has slack. With d coordinates, each projected onto
            [-a, a], the Euclidean sensitivity is 2 a sqrt(d) and the printed noise is too small by the factor sqrt(d):
            generative:thm2:ldp:box has the noise that works. The theorem bounds mu by [-r, r] and its proof treats one
            coordinate. Certified for eps0 in [0.01, 1] and delta in [1e-10, 0.99].""",
    )
)


def _box_derive(d: Any, eps0: Any, delta: Any) -> Derivation:
    proof = Derivation()
    _say_hockey_stick(proof)
    sigma = proof.say("With half range 1 the noise has standard deviation", sp.sqrt(8 * d * sp.log(2 / delta)) / eps0)
    ratio = proof.say("and k, where d cancels, is", sp.sqrt(2) * sp.sqrt(sp.log(2 / delta)) / eps0)
    assert sp.simplify(sigma / (2 * sp.sqrt(d)) - ratio) == 0
    return proof.conclude("so the delta needed at eps0 is, for every d,", needed_delta(eps0, ratio))


def _box_oracle(d: Any, eps0: Any, delta: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        eps = number(eps0)
        return exported(_loss_oracle(d, eps, eps**2 / (4 * int(d) * mpmath.log(2 / number(delta)))))


def _box_computed(d: int, eps0: float, delta: float) -> float:
    sensitivity = quantization.box_sensitivity(1.0, d)
    variance = quantization.gaussian_noise_variance(eps=eps0, delta=delta, sensitivity=sensitivity)
    return float(privacy.gaussian_delta(eps=eps0, sensitivity=sensitivity, sigma=np.sqrt(variance)))


register(
    Claim(
        id="generative:thm2:ldp:box",
        title="Gaussian noise that is local DP in any dimension",
        place="Theorem 2, item 2 (corrected for d > 1)",
        statement="""For eps0 in (0, 1] noise of variance 8 d a^2 log(2/delta)/eps0^2 per coordinate on a message in [-a,
            a]^d is (eps0, delta)-LDP.""",
        latex=r"\sigma_{\epsilon_0}^2=\frac{8da^2\log(2/\delta)}{\epsilon_0^2}",
        kind="probability",
        variables=(D, EPS0, DELTA),
        examples=({"eps0": "1/2", "delta": "1e-5", "d": 4}, {"eps0": 1, "delta": "1e-3"}),
        printed=lambda delta: delta,
        relation="<=",
        derive=_box_derive,
        oracle=_box_oracle,
        computed=_box_computed,
        not_simulated=Exempt(kind="divergence"),
        tight=Tight(at={"eps0": 1, "delta": "1e-5", "d": 4}, ratio="410.869349781"),
        ours=True,
        unit="delta",
        assumes={"adjacency": "replace", "noise": "fresh", "clipping": "any"},
        related=("generative:thm2:ldp",),
        remark="""A message projected onto the Euclidean ball of radius a instead has sensitivity 2a and keeps the printed
            noise.""",
    )
)

__all__ = ["needed_delta"]
