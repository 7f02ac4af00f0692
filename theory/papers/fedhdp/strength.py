"""FedHDP, Lemma 3: the best strength of a client, the proof's three matched strengths, and the limits after it.

Belongs here: claims on the strength with two privacy levels. Does not belong here: the theorems that use it
(theorems.py), more levels (levels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import personalization
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.fedhdp.estimates import bayes_posterior, bayes_weights_oracle
from theory.papers.fedhdp.federation import (
    EXAMPLES,
    OWN_NOISE_EXAMPLES,
    OWN_NOISE_TEXT,
    PAIRS,
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
    MODEL,
    OWN_NOISE,
    concrete,
    concrete_bayes,
    concrete_blend,
    concrete_server,
    concrete_strength,
    derive_excess,
    precision_weights,
    scatter,
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
    "assumes": MODEL | {"pivot": "model"},
    "related": ("fedhdp:lemma2:weights", "fedhdp:eq44"),
}  # fmt: skip
EQ47_LATEX = r"""\lambda_j^*=\frac{N(1+\Upsilon^2)+N_1\Gamma_2^2+N_2\Gamma_1^2}%
    {N\Upsilon^2(1+\Upsilon^2)+\Upsilon^2((N_2+1)\Gamma_1^2+N_1\Gamma_2^2)+\Gamma_1^2(1+\Gamma_2^2)}\ (\mathcal C_1),%
    \quad\frac{N(1+\Upsilon^2)+N_1\Gamma_2^2+N_2\Gamma_1^2}{N\Upsilon^2(1+\Upsilon^2)+\Upsilon^2(N_2\Gamma_1^2+(N_1+1)%
    \Gamma_2^2)+\Gamma_2^2(1+\Gamma_1^2)}\ (\mathcal C_2)"""
BOTH_FORMS = """With w_j the weight of the client's own message at the server and g_j = N_i gamma2_i its noise, the optimum
    is alpha2/(tau2 + w_j g_j) without own noise (this is the printed formula) and alpha2/(tau2 + g_j w_j/(1 - w_j)) as
    the algorithm runs: own noise that comes back calls for a weaker pull."""
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
        model=("BestStrength",),
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
        not_computed=Exempt(kind="difference", of=("fedhdp:eq41",)),
        simulate=excess_simulation,
        model=("Attains",),
        unit="variance",
        remark="""As the algorithms run, a private client gets its own noise back and cannot attain the Bayes risk at any
            strength; the excess is the derived formula at own_noise = 1.""",
        **LEMMA3,
    )
)


# --- (48): what the proof minimises ------------------------------------------------------------------------------------

DISTANCE = Variable("distance", "positive", "of the client's own estimate from the others' estimate of the centre")


def _weights_of_both(v: dict[str, Any], d: Derivation) -> tuple[list[Any], list[Any]]:
    """Weights of the Bayes estimate (own, level 1, level 2), and of the server's estimate (level 1, level 2)."""
    best = bayes_posterior(v, d)
    d.say("Bayes weights on y, on messages of level 1 and of level 2:", best.weights)
    sizes, gamma2s = lists(v)
    w = precision_weights(sizes, scatter(sizes, gamma2s, v["alpha2"] + v["tau2"]))
    d.say("Server weights at r*:", tuple(w))
    return list(best.weights), w


def _eq48_derive(distance: Any, own_noise: int, **v: Any) -> Derivation:
    d = Derivation()
    u = sp.Symbol("u", real=True)
    bayes, w = _weights_of_both(v, d)
    own, (noise, *_) = w[v["level"] - 1], [n * g for n, g in zip(*lists(v), strict=True)][v["level"] - 1 :]
    d.say("""Given y and the others' estimate of phi, at a distance D from y, the Bayes estimate lies (1 - k) D from y, with
        k its weight on y; theta lies (1 - w) D from y""" + (", and carries w l." if own_noise else "."))  # fmt: skip
    aim, step, spread = sp.symbols("aim step spread", positive=True)  # the vertex is found in letters, which are short
    mean = (aim - u * step) ** 2 + u**2 * spread
    values = {aim: (1 - bayes[0]) * distance, step: (1 - own) * distance, spread: own_noise * own**2 * noise}
    d.say("So the expected square of the distance is", mean.subs(values))
    best = d.say("least at", simplest(stationary_point(mean, u).subs(values)))
    return d.conclude("that is at the strength", simplest(best / (1 - best)))


def _eq48_oracle(distance: Any, own_noise: int, **v: Any) -> Any:
    """Concrete clients: others' messages 0, own estimate at the distance; the vertex from three values."""
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    w = rational(concrete_server(clients)[j])
    target = bayes_weights_oracle(**v)[0] * distance
    noise = own_noise * w**2 * clients.variance.get(f"l{j}", 0)
    values = [(target - ((1 - u) * distance + u * w * distance)) ** 2 + u**2 * noise for u in (-1, 0, 1)]
    u = (values[0] - values[2]) / (2 * (values[0] + values[2] - 2 * values[1]))
    return sp.oo if u == 1 else rational(u / (1 - u))


def _eq48_simulate(distance: float, own_noise: int, **v: Any) -> simulation.Simulation | None:
    """Draws of the client's own noise; all else is given."""
    fed, client, w = simulated_federation(v, v["level"])
    if not own_noise or not fed.nu2[client]:
        return None
    others = 1 / fed.message_variances
    others[client] = 0.0
    far = fed.tau2[client] + 1 / others.sum()
    to_bayes = fed.alpha2[client] / (fed.alpha2[client] + far) * distance

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        step = (1 - w[client]) * distance + w[client] * np.sqrt(fed.nu2[client]) * gen.standard_normal(reps)
        return np.column_stack([to_bayes * step, step**2])

    first, second = to_bayes * (1 - w[client]) * distance, ((1 - w[client]) * distance) ** 2
    size = second + w[client] ** 2 * fed.nu2[client] - first
    reading = simulation.Ratio("mean derivative of the distance", [1.0, 0.0], [-1.0, 1.0], float(size))
    return simulation.Simulation(simulation.sample_means(draw, count=2).experiment, (reading,))


register(
    Claim(
        id="fedhdp:eq48",
        title="The strength as what minimises a conditional expectation",
        place="Proof of Lemma 3, (48)",
        statement="""The strength (47) minimises the expected squared distance between Bayes estimate and personalised
            estimate, given the client's own estimate and the others' estimate of the centre.""",
        latex=r"""\lambda_j^*=\arg\min_{\lambda}\mathbb E\big(\|\theta_j^*-\hat\theta_j(\lambda)\|_2^2\big|%
            \phi^{\setminus j},\hat\phi_j\big)""",
        kind="optimum",
        variables=(*TWO_LEVELS, DISTANCE, OWN_NOISE),
        examples=(
            {**EXAMPLES[0], "distance": 1, "own_noise": 1},
            {**EXAMPLES[1], "distance": "1/2", "own_noise": 1},
        ),
        printed=eq47,
        derive=_eq48_derive,
        oracle=_eq48_oracle,
        not_computed=Exempt(kind="part", of=("fedhdp:lemma3:lambda",), note="with own noise it depends on the data"),
        simulate=_eq48_simulate,
        condition=own_noise_condition,
        condition_text=OWN_NOISE_TEXT,
        counterexample={**EXAMPLES[0], "distance": 1, "own_noise": 1},
        assumes=MODEL | {"given": "data", "pivot": "model"},
        unit="dimensionless",
        related=("fedhdp:lemma3:lambda", "fedhdp:lemma3:bayes"),
        remark="""Given the data, own noise that comes back makes the minimiser depend on them: a strength that is best on
            average is then not the one that (48) asks for.""",
    )
)


# --- the proof's three lambdas: (49)-(52) --------------------------------------------------------------------------


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


def _eq49_printed(**v: Any) -> Any:
    """The last bracket has sigma_c^2 and an undefined sigma_p^2, which is read as sigma_{p_2}^2."""
    s1, s2, m, n = proof_terms(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    r, mix = s1 / s2, n * s1 + m * s2
    i_j = 1 if v["level"] == 1 else r
    total = v["N1"] + v["N2"] * r
    bottom = total * (tau2 * mix + s1 * s2) - i_j * (sigma2_c * (n * sigma2_c + m * s2) + s1 * s2)
    return total * (sigma2_c * mix - tau2 * mix) / bottom


def _eq49_corrected(**v: Any) -> Any:
    first, second = (v["alpha2"] + v["tau2"] + v[f"N{i}"] * v[f"gamma2_{i}"] for i in (1, 2))
    m, n = (v[f"N{i}"] - (1 if v["level"] == i else 0) for i in (1, 2))
    every, mix = v["N1"] + v["N2"] * first / second, n * first + m * second
    local = v["alpha2"] + v["tau2"]
    own = 1 if v["level"] == 1 else first / second
    below = every * (v["tau2"] * mix + first * second) - own * (local * mix + first * second)
    return every * (local * mix - v["tau2"] * mix) / below


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
    "simulate": simulate_strength,
    "assumes": MODEL | {"own_noise": "out"},
    "unit": "dimensionless",
    "related": ("fedhdp:eq42", "fedhdp:eq44"),
}
register(
    Claim(
        id="fedhdp:eq49",
        title="Strength that matches the coefficient on the own estimate",
        place="Proof of Lemma 3, (49)",
        statement="The strength at which (44) has the Bayes coefficient on the client's own estimate.",
        latex=r"""\lambda_1=\frac{(N_1+N_2r)\big(\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)-\tau^2(n\sigma_{p_1}^2+m%
            \sigma_{p_2}^2)\big)}{(N_1+N_2r)\big(\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2%
            \big)-i_j\big(\sigma_c^2(n\sigma_c^2+m\sigma_p^2)+\sigma_{p_1}^2\sigma_{p_2}^2\big)}""",
        printed=_eq49_printed,
        derive=_own_matched,
        oracle=lambda **v: _matched_oracle(v, 0),
        model=("Attains",),
        corrected=_eq49_corrected,
        corrected_text="n sigma_{p_1}^2 + m sigma_{p_2}^2 in the last bracket",
        slip="""sigma_c^2 and the undefined sigma_p^2 stand for sigma_{p_1}^2 and sigma_{p_2}^2; the opt-out case, where they
            coincide, shows through""",
        counterexample={"N1": 2, "N2": 2, "alpha2": 1, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 1, "level": 1},
        edits=(Edit(printed=r"m\sigma_p^2", read=r"m\sigma_{p_2}^2", reason="no sigma_p without a level is defined"),),
        finding="""One bracket of the proof has the variance of a message without noise where that of a noisy level belongs;
            the printed strength then makes no coefficient agree.""",
        **{**THREE, "variables": TWO_LEVELS},
    )
)  # fmt: skip
_EQ50_LATEX = r"""\frac{(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}{\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+%
    \sigma_{p_1}^2\sigma_{p_2}^2-(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}"""
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
        model=("Attains",),
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
        model=("Attains",),
        **THREE,
    )
)


def _eq52_printed(**v: Any) -> Any:
    return (_eq49_printed(**v) + _eq50_printed(**v) + _eq50_printed(**v)) / 3


def _eq52_corrected(**v: Any) -> Any:
    first, second = (v["alpha2"] + v["tau2"] + v[f"N{i}"] * v[f"gamma2_{i}"] for i in (1, 2))
    m, n = (v[f"N{i}"] - (1 if v["level"] == i else 0) for i in (1, 2))
    whole = (v["alpha2"] + v["tau2"]) * (n * first + m * second) + first * second
    part = (v["N1"] + v["N2"] * first / second) * (v["alpha2"] + v["tau2"] - v["tau2"]) * second
    return (_eq49_corrected(**v) + 2 * part / (whole - part)) / 3


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
        printed=_eq52_printed,
        corrected=_eq52_corrected,
        corrected_text="the same average with (49) as corrected",
        slip="lambda_1 as (49) prints it carries the slip of (49)",
        finding="The average inherits the slip in one of its three parts; with that mended all three are equal.",
        counterexample={"N1": 2, "N2": 2, "alpha2": 1, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 1, "level": 1},
        derive=_eq52_derive,
        oracle=lambda **v: concrete_strength(*setting(v), 0),
        model=("Attains",),
        **{**THREE, "variables": TWO_LEVELS, "related": ("fedhdp:eq49", "fedhdp:eq50", "fedhdp:eq51")},
        remark="""With (49) corrected the three are equal at r = r*, so that any average would do; their equality is what
            makes the estimate Bayes optimal.""",
    )
)
