"""What is left of Theorem 2's bound without privacy and heterogeneity: Robust-HDP, (12), and its rate.

Belongs here: limits of the printed bound. Does not belong here: its terms one by one (discussion.py).
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy import Eq

from theory.engine.algebra import limit
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.robusthdp.bound import added_up, factor, psi_p, psi_sigma
from theory.papers.robusthdp.discussion import LAM_1, LIPSCHITZ, LOCAL
from theory.papers.robusthdp.model import ONE, ZERO

# --- (12) ---------------------------------------------------------------------------------------------------------------

MORE = Variable("more", "size", "local steps of client 2 beyond those of client 1", low=0)
WEIGHT_1 = Variable("w_1", "fraction", "client 1's aggregation weight")
BETA = Variable("beta", "positive", "smoothness of the losses", default=ONE, extreme=False)
GRADIENT_NOISE = Variable("sigma2_g", "nonnegative", "variance of the mini-batch gradients", default=ONE, extreme=False)


def _rest_approach(t: Any, steps: Any, more: Any, lam_1: Any, w_1: Any, L0: Any, beta: Any, sigma2_g: Any) -> Any:
    """What (10) has beyond its first term, at sigma = 0 and eta = 1/t."""
    local = [steps, steps + more]
    sigma = psi_sigma(beta, 1 / t, local, ZERO, [sigma2_g, sigma2_g])
    return factor(steps) * (sigma + psi_p(L0, local, [lam_1, 1 - lam_1], [(ONE, [w_1, 1 - w_1])]))


def _rest_derive(steps: Any, more: Any, lam_1: Any, w_1: Any, L0: Any, beta: Any, sigma2_g: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    value = d.say("Two clients, sigma = 0, eta = 1/t: the right side of (10) has beyond its first term",
                  _rest_approach(t, steps, more, lam_1, w_1, L0, beta, sigma2_g))  # fmt: skip
    d.say("Psi_sigma goes to 0 with eta. Psi_p has no eta in it.")
    return d.conclude("For t to infinity:", limit(value, t, sp.oo))


def _rest_oracle(steps: Any, more: Any, lam_1: Any, w_1: Any, L0: Any, beta: Any, sigma2_g: Any) -> Any:
    """A quadratic in eta, extrapolated to eta = 0 from three values."""
    local, noise, shares, weights = [steps, steps + more], [sigma2_g] * 2, [lam_1, 1 - lam_1], [(1, [w_1, 1 - w_1])]
    a, b, c = (added_up(beta, sp.Integer(h), local, 0, noise, L0, shares, weights) for h in (1, 2, 3))
    return 3 * a - 3 * b + c


register(
    Claim(
        id="robusthdp:eq12",
        title="Without privacy and heterogeneity the bound is that of SGD",
        place="Section 3.7, discussion of Theorem 2, (12)",
        statement="""For FedAvg with sigma = 0 the right side of (10) is its first term plus O(eta_l). Judged: what it has
            beyond the first term goes to 0 with eta_l.""",
        latex=r"""\min_{0 \leq e \leq E-1} \mathbb{E}[\|\nabla f(\theta^e)\|^2] \leq \frac{12}{(11E_l^{\min} - 7)}
            \frac{f(\theta^0) - f^*}{E\eta_l} + \mathcal{O}(\eta_l)""",
        kind="limit",
        variables=(LOCAL, MORE, LAM_1, WEIGHT_1, LIPSCHITZ, BETA, GRADIENT_NOISE),
        examples=(
            {"steps": 2, "more": 0, "lam_1": "1/3", "w_1": "1/3", "L0": 1},
            {"steps": 1, "more": 2, "lam_1": "1/3", "w_1": "1/3", "L0": 1},
        ),
        printed=lambda: ZERO,
        derive=_rest_derive,
        oracle=_rest_oracle,
        approach=_rest_approach,
        condition=lambda more, lam_1, w_1: sp.And(Eq(more, 0), Eq(w_1, lam_1)),
        condition_text="""more == 0 (all clients make the same number of local steps) and w_1 == lam_1 (every round weighs
            every client by its share of the records: full participation, FedAvg weights)""",
        counterexample={"steps": 1, "more": 2, "lam_1": "1/2", "w_1": "1/2", "L0": 1},
        not_computed=Exempt(kind="limit", of=("robusthdp:thm2",)),
        not_simulated=Exempt(kind="deterministic"),
        unit="squared gradient norm",
        related=("robusthdp:thm2",),
        remark="""sigma = 0 and no privacy remove neither part of Psi_p: FedAvg with unequal E_i = K_i ceil(N_i/b_i), or with
            sampled clients, keeps a floor that no step size removes. The same holds of 'we recover the results for the
            simple FedAvg algorithm', and Robust-HDP's weights 1/sigma_i^2 are not lambda_i.""",
    )
)

C = Variable("c", "positive", "the step size is c / sqrt(E)", extreme=False)
GAP = Variable("gap", "positive", "f(theta^0) - f*", extreme=False)


def _rate_approach(t: Any, c: Any, gap: Any, steps: Any, beta: Any, sigma2_g: Any) -> Any:
    """sqrt(E) times the right side of (10) for n = 2 equal clients with eta = c/sqrt(E), sqrt(E) = t."""
    eta = c / t
    return t * factor(steps) * (gap / (t**2 * eta) + psi_sigma(beta, eta, [steps] * 2, ZERO, [sigma2_g] * 2))


def _rate_derive(c: Any, gap: Any, steps: Any, beta: Any, sigma2_g: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    value = d.say("""Two equal clients with weights lambda_i, sigma = 0, eta = c/sqrt(E): sqrt(E) times the bound, with t =
        sqrt(E):""", _rate_approach(t, c, gap, steps, beta, sigma2_g))  # fmt: skip
    return d.conclude("It has a finite limit, so the bound falls as 1/sqrt(E):", limit(value, t, sp.oo))


def _rate_oracle(c: Any, gap: Any, steps: Any, beta: Any, sigma2_g: Any) -> Any:
    """sqrt(E) times the bound is affine in 1/sqrt(E): extrapolate from two values."""
    halves = [sp.Rational(1, 2)] * 2
    values = []
    for root in (1, 2):
        rest = added_up(beta, c / root, [steps, steps], 0, [sigma2_g] * 2, 0, halves, [(1, halves)])
        values.append(root * rest + gap / c / (steps - sp.Rational(7, 12) - steps / 12))
    return 2 * values[1] - values[0]


register(
    Claim(
        id="robusthdp:eq12:rate",
        title="The rate is 1/sqrt(E)",
        place="Section 3.7, text after (12)",
        statement="""With eta_l = c/sqrt(E) the bound (12) falls as 1/sqrt(E): sqrt(E) times it has this finite limit (two
            equal clients, every round weighing both by lambda).""",
        latex=r"\text{which shows convergence rate }\frac{1}{\sqrt{E}}\text{ with }\eta_l = \mathcal{O}(\frac{1}{\sqrt{E}})",
        kind="limit",
        variables=(C, GAP, LOCAL, BETA, GRADIENT_NOISE),
        examples=({"c": "1/10", "gap": 1, "steps": 2},),
        derive=_rate_derive,
        oracle=_rate_oracle,
        approach=_rate_approach,
        not_computed=Exempt(kind="limit", of=("robusthdp:thm2",)),
        not_simulated=Exempt(kind="deterministic"),
        unit="squared gradient norm",
        assumptions=("every client makes the same number of steps and is weighed by lambda_i in every round",),
        related=("robusthdp:eq12", "robusthdp:thm2"),
        remark="""A statement about the bound; with the floor Psi_p > 0 (unequal steps, sampling, noise-aware weights) the
            bound does not fall below 12 Psi_p/(11 E_min - 7).""",
    )
)
