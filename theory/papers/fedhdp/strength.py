"""FedHDP, Lemma 3: the best strength of a client, the proof's three matched strengths, and the limits after it.

Belongs here: claims on the strength with two privacy levels. Does not belong here: the theorems that use it
(theorems.py), more levels (levels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import personalization
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register
from theory.papers.fedhdp.estimates import bayes_posterior, bayes_weights_oracle
from theory.papers.fedhdp.federation import (
    ALL,
    EXAMPLES,
    OWN_NOISE_EXAMPLES,
    OWN_NOISE_TEXT,
    PAIRS,
    TAU2_POSITIVE,
    TWO_LEVELS,
    lists,
    own_noise_condition,
    proof_terms,
    returned_model,
    setting,
    simulate_strength,
    simulated_federation,
    strength_computed,
    strength_derive,
    strength_oracle,
    units,
)
from theory.papers.shared import (
    ALPHA2,
    GAMMA2_2,
    N1,
    N2,
    OWN_NOISE,
    TAU2,
    concrete,
    concrete_bayes,
    concrete_blend,
    concrete_server,
    concrete_strength,
    derive_excess,
    derive_strength,
    message_variances,
    precision_weights,
    rational_limit,
)

# --- Lemma 3 -------------------------------------------------------------------------------------------------------


def eq47(**v: Any) -> Any:
    """Equation (47), verbatim."""
    N, Y, G1, G2 = units(v)
    (N1, N2), _ = lists(v)
    top = N * (1 + Y) + N1 * G2 + N2 * G1
    if v["level"] == 1:
        return top / (N * Y * (1 + Y) + Y * ((N2 + 1) * G1 + N1 * G2) + G1 * (1 + G2))
    return top / (N * Y * (1 + Y) + Y * (N2 * G1 + (N1 + 1) * G2) + G2 * (1 + G1))


LEMMA3: dict[str, Any] = {
    "variables": (*TWO_LEVELS, OWN_NOISE),
    "examples": OWN_NOISE_EXAMPLES,
    "condition": own_noise_condition,
    "condition_text": OWN_NOISE_TEXT,
    "counterexample": {
        "N1": 1, "N2": 1, "alpha2": 1, "tau2": 1, "gamma2_1": 0, "gamma2_2": 1, "level": 2, "own_noise": 1,
    },
    "related": ("fedhdp:lemma2:weights", "fedhdp:eq44"),
}  # fmt: skip
EQ47_LATEX = (
    r"\lambda_j^*=\frac{N(1+\Upsilon^2)+N_1\Gamma_2^2+N_2\Gamma_1^2}{N\Upsilon^2(1+\Upsilon^2)+\Upsilon^2((N_2+1)"
    r"\Gamma_1^2+N_1\Gamma_2^2)+\Gamma_1^2(1+\Gamma_2^2)}\ (\mathcal C_1),\quad\frac{N(1+\Upsilon^2)+N_1\Gamma_2^2+N_2"
    r"\Gamma_1^2}{N\Upsilon^2(1+\Upsilon^2)+\Upsilon^2(N_2\Gamma_1^2+(N_1+1)\Gamma_2^2)+\Gamma_2^2(1+\Gamma_1^2)}\ "
    r"(\mathcal C_2)"
)
BOTH_FORMS = (
    "With w_j the weight of the client's own message at the server and g_j = N_i gamma2_i its noise, the optimum is "
    "alpha2/(tau2 + w_j g_j) without own noise (this is the printed formula) and "
    "alpha2/(tau2 + g_j w_j/(1 - w_j)) as the algorithm runs: own noise that comes back calls for a weaker pull."
)
register(
    Claim(
        id="fedhdp:lemma3:lambda",
        title="Optimal personalisation strength, two privacy levels",
        place="Appendix A.3, Lemma 3, (47)",
        statement="The strength lambda_j with which a client of either level makes the least error.",
        latex=EQ47_LATEX,
        kind="optimum",
        printed=eq47,
        derive=strength_derive,
        oracle=strength_oracle,
        computed=strength_computed,
        simulate=simulate_strength,
        unit="dimensionless",
        remark=BOTH_FORMS,
        **LEMMA3,
    )
)


def excess_derive(**v: Any) -> Derivation:
    """Risk at the best strength minus the Bayes risk."""
    return derive_excess(*setting(v), v["own_noise"])


def excess_oracle(**v: Any) -> Any:
    """Risk at the best strength minus the Bayes risk, on concrete clients."""
    return concrete_blend(*setting(v), v["own_noise"])[1] - concrete_bayes(*setting(v))


def excess_simulation(**v: Any) -> simulation.Simulation:
    """Paired squared errors: the client's best blend against the Bayes estimate; scale is the Bayes risk."""
    level = v["level"]
    fed, client, w = simulated_federation(v, level)
    shared = returned_model(w, client, v["own_noise"])
    lam = strength_computed(**v)
    u = lam / (1 + lam)
    others = 1 / fed.message_variances
    others[client] = 0.0
    b = fed.alpha2[client] / (fed.alpha2[client] + fed.tau2[client] + 1 / others.sum())
    blend = np.append(u * shared, 0.0) + (1 - u) * simulation.vector(2, p=1.0, e=1.0) - simulation.vector(2, p=1.0)
    bayes = simulation.vector(2, p=-b, e=1 - b, a1=b)
    scale = float(personalization.bayes_mse(*setting(v)))
    return simulation.excess_over_bayes(fed, client, [w, others / others.sum()], blend, bayes, scale)


register(
    Claim(
        id="fedhdp:lemma3:bayes",
        title="The personalised estimate is Bayes optimal",
        place="Appendix A.3, Lemma 3",
        statement="At the optimal strengths every client attains its Bayes risk: the excess is zero.",
        latex=r"\hat\theta_j(\lambda_j^*)=\theta_j^*",
        kind="identity",
        printed=lambda: sp.Integer(0),
        derive=excess_derive,
        oracle=excess_oracle,
        not_computed="a difference that is zero or small; both risks are computed in fedhdp:eq41 and the figures",
        simulate=excess_simulation,
        unit="variance",
        remark="As the algorithms run, a private client gets its own noise back and cannot attain the Bayes risk at any "
        "strength; the excess is the derived formula at own_noise = 1.",
        **LEMMA3,
    )
)


# --- the proof's three lambdas: (49)-(52) --------------------------------------------------------------------------


def _weights_of_both(v: dict[str, Any], d: Derivation) -> tuple[list[Any], list[Any]]:
    """Weights of the Bayes estimate (own, level 1, level 2), and of the server's estimate (level 1, level 2)."""
    best = bayes_posterior(v, d)
    d.say("Bayes weights on y, on messages of level 1 and of level 2:", best.weights)
    sizes, gamma2s = lists(v)
    w = precision_weights(sizes, message_variances(sizes, gamma2s, v["alpha2"] + v["tau2"]))
    d.say("Server weights at r*:", tuple(w))
    return list(best.weights), w


def _solved(equation: Any, values: dict[Any, Any]) -> Any:
    """The only solution of an equation for lam, with values put into it."""
    (found,) = sp.solve(equation, LAM)
    return simplest(found.subs(values, simultaneous=True))


LAM, OWN, SHARE = sp.symbols("lam own share", positive=True)


def _own_matched(**v: Any) -> Derivation:
    d = Derivation()
    bayes, w = _weights_of_both(v, d)
    equation = d.say("The own coefficient is the Bayes one where", sp.Eq((1 + LAM * SHARE) / (1 + LAM), OWN))
    return d.conclude("for lam =", _solved(equation, {OWN: bayes[0], SHARE: w[v["level"] - 1]}))


def _message_matched(v: dict[str, Any], level: int) -> Derivation:
    d = Derivation()
    bayes, w = _weights_of_both(v, d)
    equation = d.say(f"The coefficient of level {level} is the Bayes one where", sp.Eq(LAM * SHARE / (1 + LAM), OWN))
    return d.conclude("for lam =", _solved(equation, {OWN: bayes[level], SHARE: w[level - 1]}))


def _matched_oracle(v: dict[str, Any], coefficient: int) -> Any:
    """On concrete clients: a coefficient moves in proportion to u = lam/(1+lam) from its value at u = 0 to that at 1."""
    _, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    w = [rational(x) for x in concrete_server(clients)]
    j = levels.index(v["level"])
    client = j if coefficient == 0 else next(i for i, x in enumerate(levels) if x == coefficient and i != j)
    start, target = sp.Integer(1 if coefficient == 0 else 0), bayes_weights_oracle(**v)[coefficient]
    u = (target - start) / (w[client] - start)
    return u / (1 - u)


def _eq49(v: dict[str, Any], first: Any) -> Any:
    """(49) with n times `first` in the last bracket."""
    s1, s2, m, n = proof_terms(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    r, mix = s1 / s2, n * s1 + m * s2
    i_j = 1 if v["level"] == 1 else r
    total = v["N1"] + v["N2"] * r
    bottom = total * (tau2 * mix + s1 * s2) - i_j * (sigma2_c * (n * first + m * s2) + s1 * s2)
    return total * (sigma2_c * mix - tau2 * mix) / bottom


def _eq49_printed(**v: Any) -> Any:
    """The last bracket has sigma_c^2 and an undefined sigma_p^2, which is read as sigma_{p_2}^2."""
    return _eq49(v, v["alpha2"] + v["tau2"])


def _eq49_corrected(**v: Any) -> Any:
    return _eq49(v, proof_terms(v)[0])


def _eq50_printed(**v: Any) -> Any:
    s1, s2, m, n = proof_terms(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    part = (v["N1"] + v["N2"] * s1 / s2) * (sigma2_c - tau2) * s2
    return part / (sigma2_c * (n * s1 + m * s2) + s1 * s2 - part)


THREE: dict[str, Any] = {
    "kind": "identity",
    "variables": (*PAIRS, *TWO_LEVELS[2:]),
    "examples": EXAMPLES,
    "computed": lambda **v: personalization.personalization_strength(*setting(v), own_noise=False),
    "not_simulated": "a step of a proof; its result is simulated in fedhdp:lemma3:lambda",
    "unit": "dimensionless",
    "related": ("fedhdp:eq42", "fedhdp:eq44"),
}
register(
    Claim(
        id="fedhdp:eq49",
        title="Strength that matches the coefficient on the own estimate",
        place="Proof of Lemma 3, (49)",
        statement="The strength at which (44) has the Bayes coefficient on the client's own estimate.",
        latex=r"\lambda_1=\frac{(N_1+N_2r)\big(\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)-\tau^2(n\sigma_{p_1}^2+m"
        r"\sigma_{p_2}^2)\big)}{(N_1+N_2r)\big(\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2\big)"
        r"-i_j\big(\sigma_c^2(n\sigma_c^2+m\sigma_p^2)+\sigma_{p_1}^2\sigma_{p_2}^2\big)}",
        printed=_eq49_printed,
        derive=_own_matched,
        oracle=lambda **v: _matched_oracle(v, 0),
        corrected=_eq49_corrected,
        corrected_text="n sigma_{p_1}^2 + m sigma_{p_2}^2 in the last bracket",
        slip="sigma_c^2 and the undefined sigma_p^2 stand for sigma_{p_1}^2 and sigma_{p_2}^2; the opt-out case, where "
        "they coincide, shows through",
        counterexample={
            "N1": 2, "N2": 2, "alpha2": 1, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 1, "level": 1,
        },
        **THREE,
    )
)  # fmt: skip
_EQ50_LATEX = (
    r"\frac{(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}{\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+"
    r"\sigma_{p_1}^2\sigma_{p_2}^2-(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}"
)
register(
    Claim(
        id="fedhdp:eq50",
        title="Strength that matches the coefficient on level-1 messages",
        place="Proof of Lemma 3, (50)",
        statement="The strength at which (44) has the Bayes coefficient on level-1 messages, at r = r*.",
        latex=_EQ50_LATEX,
        printed=_eq50_printed,
        derive=lambda **v: _message_matched(v, 1),
        oracle=lambda **v: _matched_oracle(v, 1),
        **THREE,
    )
)
register(
    Claim(
        id="fedhdp:eq51",
        title="Strength that matches the coefficient on level-2 messages",
        place="Proof of Lemma 3, (51)",
        statement="The strength at which (44) has the Bayes coefficient on level-2 messages, at r = r*.",
        latex=_EQ50_LATEX,
        printed=_eq50_printed,
        derive=lambda **v: _message_matched(v, 2),
        oracle=lambda **v: _matched_oracle(v, 2),
        **THREE,
    )
)


def _eq52_derive(**v: Any) -> Derivation:
    d = Derivation()
    return d.conclude("The optimum of the risk (own noise taken out):", d.lemma("fedhdp:lemma3:lambda", **v, own_noise=0))


register(
    Claim(
        id="fedhdp:eq52",
        title="The optimum as the average of three matched strengths",
        place="Proof of Lemma 3, (52)",
        statement="The optimal strength is a third of the sum of the strengths that match each coefficient.",
        latex=r"\lambda_j^*=\frac13(\lambda_1+\lambda_2+\lambda_3)",
        printed=lambda **v: (_eq49_corrected(**v) + 2 * _eq50_printed(**v)) / 3,
        derive=_eq52_derive,
        oracle=lambda **v: concrete_strength(*setting(v), 0),
        **{**THREE, "related": ("fedhdp:eq49", "fedhdp:eq50", "fedhdp:eq51")},
        remark="True because at r = r* the three are equal, so that any average would do; (49) enters as corrected. The "
        "equality of the three is what makes the estimate Bayes optimal.",
    )
)


# --- limits after Lemma 3 ------------------------------------------------------------------------------------------


def _same_noise(**v: Any) -> dict[str, Any]:
    return {**v, "gamma2_1": v["N2"] * v["gamma2_2"] / v["N1"]}


def _homogeneous(**v: Any) -> dict[str, Any]:
    return {**v, "tau2": sp.Integer(0)}


def _both_strengths(v: dict[str, Any], text: str) -> Derivation:
    d = Derivation()
    found = tuple(d.lemma("fedhdp:lemma3:lambda", f"in level {i}, {text}", **v, level=i) for i in (1, 2))
    return d.conclude("So", found)


def _r1_printed(**v: Any) -> tuple[Any, Any]:
    N, Y, _, G = units({**v, "gamma2_1": sp.Integer(0)})
    value = (N * (1 + Y) + N * G) / (N * Y * (1 + Y) + (N + 1) * Y * G + (1 + G) * G)
    return value, value


def _two_strengths(v: dict[str, Any]) -> tuple[Any, Any]:
    return tuple(personalization.personalization_strength(*setting(v, i), own_noise=bool(v["own_noise"])) for i in (1, 2))  # type: ignore[return-value]


register(
    Claim(
        id="fedhdp:lemma3:limit-r1",
        title="Both levels equally noisy",
        place="Appendix A.3, after Lemma 3, first bullet",
        statement="For r to 1, that is Gamma_1^2 to Gamma_2^2, both strengths tend to the same value (1/Upsilon^2 "
        "without noise).",
        latex=r"\lambda_1^*,\lambda_2^*\to\frac{N(1+\Upsilon^2)+N\Gamma_2^2}{N\Upsilon^2(1+\Upsilon^2)+(N+1)\Upsilon^2"
        r"\Gamma_2^2+(1+\Gamma_2^2)\Gamma_2^2}",
        kind="limit",
        variables=(N1, N2, ALPHA2, TAU2, GAMMA2_2, OWN_NOISE),
        examples=({"N1": 2, "N2": 2, "alpha2": 1, "tau2": "1/2", "gamma2_2": 1},),
        printed=_r1_printed,
        derive=lambda **v: _both_strengths(_same_noise(**v), "with N_1 gamma2_1 = N_2 gamma2_2"),
        oracle=lambda **v: tuple(concrete_strength(*setting(_same_noise(**v), i), v["own_noise"]) for i in (1, 2)),
        computed=lambda **v: _two_strengths(_same_noise(**v)),
        not_simulated="a limit; simulated for unequal noise in fedhdp:lemma3:lambda",
        condition=lambda own_noise, gamma2_2: Or(Eq(own_noise, 0), Eq(gamma2_2, 0)),
        condition_text=OWN_NOISE_TEXT,
        entries=("level 1", "level 2"),
        unit="dimensionless",
        remark="It simplifies to N/(N Upsilon^2 + Gamma_2^2); with own noise N is replaced by N - 1.",
    )
)


def _one_level(v: dict[str, Any]) -> tuple[Any, ...]:
    return (1, [v["N"]], [v["gamma2_2"]], v["alpha2"], v["tau2"])


def _n2_printed(**v: Any) -> Any:
    Y, G = v["tau2"] / v["alpha2"], v["N"] * v["gamma2_2"] / v["alpha2"]
    return v["N"] / (Y * v["N"] + G)


def simulate_one_level(**v: Any) -> simulation.Simulation | None:
    """The best strength with one privacy level."""
    N, noise = int(v["N"]), v["N"] * v.get("gamma2_2", v.get("gamma2", 0.0))
    fed = simulation.federation([N], v.get("tau2", 0.0), v["alpha2"], noise)
    w = np.full(N, 1 / N)
    return simulation.optimal_blend(fed, 0, w, returned_model(w, 0, v.get("own_noise", 0)))


register(
    Claim(
        id="fedhdp:lemma3:limit-N2",
        title="All clients in one privacy level",
        place="Appendix A.3, after Lemma 3, second bullet",
        statement="When all clients have the same privacy level, as in DP-FedAvg, the strength tends to this value.",
        latex=r"N_2\to N:\ \lambda_2^*\to\frac{N}{\Upsilon^2N+\Gamma_2^2}",
        kind="limit",
        variables=(ALL, ALPHA2, TAU2, GAMMA2_2, OWN_NOISE),
        examples=(
            {"N": 4, "alpha2": 1, "tau2": "1/2", "gamma2_2": 1},
            {"N": 4, "alpha2": 1, "tau2": "1/2", "gamma2_2": 1, "own_noise": 1},
        ),
        printed=_n2_printed,
        derive=lambda **v: derive_strength(*_one_level(v), v["own_noise"]),
        oracle=lambda **v: concrete_strength(*_one_level(v), v["own_noise"]),
        computed=lambda **v: personalization.personalization_strength(*_one_level(v), own_noise=bool(v["own_noise"])),
        simulate=simulate_one_level,
        condition=lambda own_noise, gamma2_2: Or(Eq(own_noise, 0), Eq(gamma2_2, 0)),
        condition_text=OWN_NOISE_TEXT,
        related=("fedhdp:lemma3:lambda",),
        unit="dimensionless",
    )
)

ANY_SMALL = Variable("noise1", "choice", "1: level 1 adds noise; 0: it does not (gamma2_1 = 0)", choices=(1, 0), default=1)
HOMOGENEOUS = Variable("spread", "choice", "1: tau2 > 0; 0: homogeneous data (tau2 = 0)", choices=(1, 0), default=1)
GAMMA2_1_POSITIVE = Variable("gamma2_1", "positive", "privacy noise variance of level 1's average")
GAMMA2_2_POSITIVE = Variable("gamma2_2", "positive", "privacy noise variance of level 2's average")


def _alpha0_derive(**v: Any) -> Derivation:
    d = Derivation()
    a = sp.Symbol("alpha2", positive=True)
    at = {**v, "alpha2": a, "tau2": v["tau2"] * v["spread"], "gamma2_1": v["gamma2_1"] * v["noise1"]}
    limits = []
    for level in (1, 2):
        federation = {k: at[k] for k in ("N1", "N2", "alpha2", "tau2", "gamma2_1", "gamma2_2")}
        lam = d.lemma("fedhdp:lemma3:lambda", f"in level {level}", **federation, level=level, own_noise=0)
        limits.append(sp.oo if sp.sympify(lam).is_infinite else limit(lam, a, 0))
    return d.conclude("alpha2 to 0:", tuple(limits))


def _alpha0_oracle(**v: Any) -> tuple[Any, ...]:
    values = []
    for level in (1, 2):

        def at(x: Any, level: int = level) -> Any:
            point = {
                **v,
                "alpha2": 1 / x,
                "tau2": v["tau2"] * v["spread"],
                "gamma2_1": v["gamma2_1"] * v["noise1"],
            }
            return concrete_strength(*setting(point, level), 0)

        values.append(sp.oo if at(sp.Integer(2)) is sp.oo else rational_limit(at, degree=2))
    return tuple(values)


register(
    Claim(
        id="fedhdp:lemma3:limit-alpha0",
        title="Clients with perfect estimates",
        place="Appendix A.3, after Lemma 3, third bullet",
        statement="For alpha2 to 0 both strengths tend to 0: the local estimate is best.",
        latex=r"\alpha^2\to0:\ \lambda_1^*\to0,\ \lambda_2^*\to0",
        kind="limit",
        variables=(N1, N2, TAU2_POSITIVE, GAMMA2_1_POSITIVE, GAMMA2_2_POSITIVE, HOMOGENEOUS, ANY_SMALL),
        examples=({"N1": 2, "N2": 2, "tau2": 1, "gamma2_1": 1, "gamma2_2": 2},),
        printed=lambda: (sp.Integer(0), sp.Integer(0)),
        derive=_alpha0_derive,
        oracle=_alpha0_oracle,
        condition=lambda spread, noise1: Or(Eq(spread, 1), Eq(noise1, 1)),
        condition_text="tau2 > 0, or both levels add noise",
        counterexample={"N1": 2, "N2": 2, "tau2": 1, "gamma2_1": 1, "gamma2_2": 2, "spread": 0, "noise1": 0},
        entries=("level 1", "level 2"),
        not_computed="a limit of fedhdp:lemma3:lambda",
        not_simulated="a limit of fedhdp:lemma3:lambda",
        unit="dimensionless",
        remark="With homogeneous data and a level without noise, lambda_1* is infinite for every alpha2 and lambda_2* "
        "tends to N_1: the noise-free clients then know the centre as well as the client knows itself.",
    )
)


def _tau0_printed(**v: Any) -> tuple[Any, Any]:
    N, _, G1, G2 = units({**v, "tau2": sp.Integer(0)})
    top = N + v["N2"] * G1 + v["N1"] * G2
    return top / (G1 * (1 + G2)), top / (G2 * (1 + G1))


register(
    Claim(
        id="fedhdp:lemma3:limit-tau0",
        title="Homogeneous data",
        place="Appendix A.3, after Lemma 3, fourth bullet",
        statement="For tau2 to 0, IID clients, the strengths tend to these values.",
        latex=r"\tau^2\to0:\ \lambda_1^*\to\frac{N+N_2\Gamma_1^2+N_1\Gamma_2^2}{\Gamma_1^2(1+\Gamma_2^2)},\quad"
        r"\lambda_2^*\to\frac{N+N_2\Gamma_1^2+N_1\Gamma_2^2}{\Gamma_2^2(1+\Gamma_1^2)}",
        kind="limit",
        variables=(N1, N2, ALPHA2, GAMMA2_1_POSITIVE, GAMMA2_2_POSITIVE, OWN_NOISE),
        examples=({"N1": 2, "N2": 2, "alpha2": 1, "gamma2_1": 1, "gamma2_2": 2},),
        printed=_tau0_printed,
        derive=lambda **v: _both_strengths(_homogeneous(**v), "with tau2 = 0"),
        oracle=lambda **v: tuple(concrete_strength(*setting(_homogeneous(**v), i), v["own_noise"]) for i in (1, 2)),
        computed=lambda **v: _two_strengths({**v, "tau2": 0.0}),
        not_simulated="a limit; simulated in fedhdp:lemma3:lambda",
        condition=lambda own_noise: Eq(own_noise, 0),
        condition_text="own_noise == 0 (the client's own message noise is taken out of the model it gets back)",
        entries=("level 1", "level 2"),
        unit="dimensionless",
    )
)
