"""FedHDP, Section 3.1.4: what a client gains by opting out of privacy, and what FedHDP gains over HDP-FedAvg.

Belongs here: comparisons between clients and between algorithms. Does not belong here: each one's best strength
(theorems.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import personalization
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    OPT_OUT,
    OPT_OUT_EXAMPLES,
    TAU2_POSITIVE,
    setting,
    simulated_federation,
    strength_computed,
)
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    LEVEL,
    N_NP,
    N_P,
    OWN_NOISE,
    TAU2,
    at_others,
    blend_risk,
    concrete_blend,
    concrete_strength,
    risk_given_others,
)

# --- Section 3.1.4 -------------------------------------------------------------------------------------------------


def _positive_sizes(**v: Any) -> dict[Any, Any]:
    """Sizes are at least one."""
    return {v[k]: 1 + sp.Symbol(f"{k}_more", nonnegative=True) for k in ("N_np", "N_p") if k in v}


def _order_derive(**v: Any) -> Derivation:
    d = Derivation()
    p = d.lemma("fedhdp:thm8:p", "the strength of a private client is", **v)
    n = d.lemma("fedhdp:thm8:np", "that of a non-private client is", **v)
    return d.conclude("The private one as a share of the other:", simplest(p / n))


register(
    Claim(
        id="fedhdp:lambda-order",
        title="Non-private clients pull harder towards the server",
        place="Section 3.1.4",
        statement="lambda_np* is always at least lambda_p*. Judged as lambda_p*/lambda_np* <= 1.",
        latex=r"\lambda_{\mathrm{np}}^*\geq\lambda_{\mathrm p}^*",
        kind="order",
        variables=(N_NP, N_P, ALPHA2, TAU2_POSITIVE, GAMMA2, OWN_NOISE),
        examples=OPT_OUT_EXAMPLES,
        printed=lambda: sp.Integer(1),
        relation="<=",
        derive=_order_derive,
        oracle=lambda **v: (
            concrete_strength(*setting(v, 2), v["own_noise"]) / concrete_strength(*setting(v, 1), v["own_noise"])
        ),
        computed=lambda **v: strength_computed(**v, level=2) / strength_computed(**v, level=1),
        not_simulated="an order of two strengths that are simulated in fedhdp:thm8",
        shifts=_positive_sizes,
        unit="dimensionless",
        remark="At r = r* only. With uniform weights (HDP-FedAvg, r = 1) and own noise in the model the two strengths are "
        "equal.",
    )
)


def _risk_of(v: dict[str, Any], level: int) -> tuple[Any, Any]:
    """Least risk of a client of a level as a function of (P, g, alpha2, tau2), and at its federation."""
    blend, _, names = risk_given_others(v["own_noise"])
    return blend, at_others(blend, names, *setting(v, level))


def _between_derive(**v: Any) -> Derivation:
    d = Derivation()
    risks = {}
    for level, name in ((2, "private"), (1, "non-private")):
        general, risks[level] = _risk_of(v, level)
        d.say(
            f"Risk of a {name} client at its best strength, from the others' precision P and its noise g:",
            general,
        )
    return d.conclude("Private minus non-private, in one federation:", risks[2] - risks[1])


def _between_corrected(**v: Any) -> Any:
    """The difference of the two risks, each from the others' precision and the own noise."""
    return _risk_of(v, 2)[1] - _risk_of(v, 1)[1]


def _between_simulate(**v: Any) -> simulation.Simulation:
    """Squared errors of a private and a non-private client of one federation (two distinguished clients)."""
    fed, private, w = simulated_federation(v, 2)
    lam = {i: strength_computed(**v, level=i) for i in (1, 2)}
    u = {i: x / (1 + x) for i, x in lam.items()}
    forms = (1 - u[2]) * simulation.vector(3, e=1.0) + u[2] * (
        simulation.vector(3, p=-1.0, a0=1.0) + (0.0 if v["own_noise"] else -w[private]) * simulation.vector(3, l=1.0)
    )
    # The non-private client is client 0; its message is its estimate, read through an aggregate with one weight.
    first = np.zeros(fed.count)
    first[0] = 1.0
    # Its error (1-u)(y - phi_0) + u(theta - phi_0) needs phi_0 alone: use its residual risk alpha2 - u^2 Var instead.
    return _risk_gap(fed, private, w, first, forms, u[1], v)


def _risk_gap(fed: Any, private: int, w: Any, first: Any, form: Any, u: float, v: dict[str, Any]) -> Any:
    # E[(e + u(theta - y))^2] at its optimum = alpha2 - u^2 E[(theta - y)^2], and theta - y is a form of aggregates.
    step = simulation.vector(3, a0=1.0, a1=-1.0)
    experiment = [(form, form), (step, step)]
    base = simulation.mean_products(fed, private, [w, first, w], experiment)
    reading = simulation.Mean(
        "private minus non-private risk, plus alpha2",
        np.array([1.0, u**2]),
        of=lambda value: value + v["alpha2"],
        scale=float(personalization.bayes_mse(*setting(v, 1))),
        back=lambda mean: mean - v["alpha2"],
    )
    return simulation.Simulation(base.experiment, (reading,))


register(
    Claim(
        id="fedhdp:optout-helps",
        title="Non-private clients do better than private ones",
        place="Section 3.1.4, A.5",
        statement="Clients that opt out produce better personalised estimates than the clients that remain private. "
        "Judged in one federation: risk of a private client minus risk of a non-private one is at least 0.",
        latex=r"\text{``clients that opt out can produce better personalized local estimates compared to the clients "
        r"that remain private''}",
        kind="order",
        variables=(*OPT_OUT, OWN_NOISE),
        examples=OPT_OUT_EXAMPLES,
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_between_derive,
        oracle=lambda **v: (
            concrete_blend(*setting(v, 2), v["own_noise"])[1] - concrete_blend(*setting(v, 1), v["own_noise"])[1]
        ),
        not_computed="a difference of two risks; each is computed in fedhdp:eq41 and the figures",
        simulate=_between_simulate,
        corrected=_between_corrected,
        corrected_text="In one federation a private client does at least as well: it learns from all non-private clients, "
        "while a non-private client learns from one less of them and from one more noisy one. What opting out buys is "
        "fedhdp:optout-helps:same-client.",
        counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 10, "own_noise": 1},
        shifts=_positive_sizes,
        unit="variance",
        related=("fedhdp:thm8:np", "fedhdp:thm8:p"),
    )
)

OTHERS = Variable(
    "others",
    "choice",
    "noise of the clients that stay private when one leaves. kept: per client as before; recalibrated: the noise on "
    "their sum as before (gamma2 proportional to 1/N_p^2), so each adds more",
    choices=("kept", "recalibrated"),
    default="kept",
)
N_P2 = Variable("N_p", "size", "private clients before the client decides, itself included", low=2)


def _after(v: dict[str, Any]) -> dict[str, Any]:
    """The federation after one private client has opted out."""
    left = v["N_p"] - 1
    # Noise per client N_p gamma2 = c/N_p before; kept: the same; recalibrated: c/(N_p - 1).
    per_client = v["N_p"] * v["gamma2"] if v["others"] == "kept" else v["N_p"] ** 2 * v["gamma2"] / left
    return {**v, "N_np": v["N_np"] + 1, "N_p": left, "gamma2": per_client / left}


def _same_client_derive(**v: Any) -> Derivation:
    d = Derivation()
    blend, _, names = risk_given_others(v["own_noise"])
    _, g, *_ = names
    d.say("Risk at the best strength, from the others' precision P and the own noise g:", blend)
    if v["others"] == "kept":
        gain = d.say("The others stay as they are, so P stays; opting out puts g = 0. Risk before minus risk after:",
                     simplest(blend - blend.subs(g, 0)))  # fmt: skip
        return d.conclude("What opting out gains:", at_others(gain, names, *setting(v, 2)))
    d.say("The others must add more noise each, so P falls while g becomes 0.")
    before, after = (at_others(blend, names, *x) for x in (setting(v, 2), setting(_after(v), 1)))
    return d.conclude("What opting out gains:", before - after)


register(
    Claim(
        id="fedhdp:optout-helps:same-client",
        title="Opting out gives a client a better estimate",
        place="Section 3.1.4, A.5, Figures 1, 2 and 5",
        statement="The same client has a risk at least as small once it has opted out.",
        latex=r"\text{``opting out helps \dots clients produce better personalized local estimates''}",
        kind="order",
        variables=(N_NP, N_P2, ALPHA2, TAU2, GAMMA2, OWN_NOISE, OTHERS),
        examples=({"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": "1/2", "gamma2": 1, "own_noise": 1},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_same_client_derive,
        oracle=lambda **v: (
            concrete_blend(*setting(v, 2), v["own_noise"])[1] - concrete_blend(*setting(_after(v), 1), v["own_noise"])[1]
        ),
        condition=lambda others: sp.true if others == "kept" else sp.false,
        condition_text="others == kept (the others' noise per client does not change)",
        counterexample={
            "N_np": 1,
            "N_p": 2,
            "alpha2": 1,
            "tau2": 1,
            "gamma2": 1,
            "own_noise": 0,
            "others": "recalibrated",
        },
        shifts=lambda **v: {**_positive_sizes(**v), v["N_p"]: 2 + sp.Symbol("N_p_more", nonnegative=True)},
        not_computed="a difference of two risks; each is computed in fedhdp:eq41 and the figures",
        not_simulated="both risks are simulated in fedhdp:lemma3:bayes",
        unit="variance",
        related=("fedhdp:lemma3:bayes", "feo2:gamma-prop"),
        remark="With own noise taken out, as Lemma 3 assumes, the gain is exactly 0: what a client knows of others does "
        "not depend on its own privacy. Lemma 3's optimality and the incentive to opt out exclude each other. If the "
        "noise on the private sum must stay the same, the others add more noise each and the client can lose.",
    )
)


def _beats_derive(**v: Any) -> Derivation:
    d = Derivation()
    N = v["N_np"] + v["N_p"]
    uniform = blend_risk(*setting(v), v["own_noise"], [1 / N, 1 / N])
    d.say("Risk of the best blend with HDP-FedAvg's uniform average:", uniform)
    blend, _, names = risk_given_others(v["own_noise"])
    ours = d.say("Risk of the best blend with FedHDP's estimate at r*:", at_others(blend, names, *setting(v)))
    return d.conclude("What FedHDP gains:", simplest(uniform - ours))


def _beats_oracle(**v: Any) -> Any:
    uniform = sp.Integer(1) / (v["N_np"] + v["N_p"])
    return (
        concrete_blend(*setting(v), v["own_noise"], [uniform, uniform])[1] - concrete_blend(*setting(v), v["own_noise"])[1]
    )


register(
    Claim(
        id="fedhdp:beats-hdp",
        title="FedHDP at r* against HDP-FedAvg+Ditto",
        place="Section 3.1.4",
        statement="At the best strength of each, FedHDP at r* does at least as well as HDP-FedAvg+Ditto for every client.",
        latex=r"\text{``FedHDP with the optimal value } r^*\text{ greatly outperforms HDP-FedAvg+Ditto''}",
        kind="order",
        variables=(*OPT_OUT, LEVEL, OWN_NOISE),
        examples=tuple({**e, "level": i + 1} for i, e in enumerate(OPT_OUT_EXAMPLES)),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_beats_derive,
        oracle=_beats_oracle,
        shifts=_positive_sizes,
        not_computed="a difference of two risks; each is computed in the figures",
        not_simulated="both risks are simulated point by point in the figures opt_out_regression and opt_out_point",
        unit="variance",
        related=("fedhdp:lemma3:bayes",),
        remark="Zero when there is no noise; how large the gain is depends on the point ('greatly' is not judged).",
    )
)
