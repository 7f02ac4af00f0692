"""FedHDP beyond two privacy levels, what a client computes and its best strength (Appendix A.6, (76)-(77) and after).

Belongs here: personalised estimates for l levels, verified for l = 2 and 3 with symbolic sizes. Does not belong here: Bayes
estimates (levels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sympy import Eq, Or

from estimators.closed_forms import personalization
from theory.engine import simulation
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.fedhdp.federation import OWN_NOISE_TEXT, returned_model, simulated_combination
from theory.papers.fedhdp.level_sizes import (
    CLIENT,
    EXAMPLES,
    MEMBERS,
    SIZES2,
    ZERO,
    arguments,
    federation_of,
    others_weights,
)
from theory.papers.shared import (
    ANY_LEVEL,
    GAMMA2S,
    MODEL,
    OWN_NOISE,
    concrete,
    concrete_bayes,
    concrete_blend,
    concrete_strength,
    derive_excess,
    derive_strength,
)

LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
RATIOS = Variable("r", "positive", "weight of a message per level, up to a common factor", lengths=(2, 3), extreme=False)


def _eq77_printed(sizes: list[Any], r: list[Any], lam: Any, level: int) -> tuple[Any, ...]:
    total = sum(n * x for n, x in zip(sizes, r, strict=True))
    own = (total + lam * r[level - 1]) / total / (1 + lam)
    return (own, *(lam * x / total / (1 + lam) for x in r), ZERO)


def _eq77_derive(sizes: list[Any], gamma2s: list[Any], r: list[Any], lam: Any, level: int, own_noise: int) -> Derivation:
    d = Derivation()
    total = sum(n * x for n, x in zip(sizes, r, strict=True))
    w = d.say("Server weights per message:", tuple(x / total for x in r))
    d.say(
        "The minimiser is (y_j + lam theta)/(1 + lam); theta holds w_j psi_j"
        + (" = w_j (y_j + l_j)." if own_noise else ", used as w_j y_j.")
    )
    left = own_noise * (lam * w[level - 1] / (1 + lam)) ** 2 * sizes[level - 1] * gamma2s[level - 1]
    own = (1 + lam * w[level - 1]) / (1 + lam)
    return d.conclude("Coefficients on y_j and a message of each level, and the variance that l_j leaves:",
                      (own, *(lam * x / (1 + lam) for x in w), left))  # fmt: skip


def _eq77_oracle(sizes: list[Any], gamma2s: list[Any], r: list[Any], lam: Any, level: int, own_noise: int):
    clients, levels = concrete(sizes, gamma2s, 1, 1)
    j = levels.index(level)
    raw = [r[i - 1] for i in levels]
    messages = list(clients.message)
    if not own_noise:
        messages[j] = clients.estimate[j]
    t = (clients.estimate[j] + clients.weighted([x / sum(raw) for x in raw], messages).times(lam)).times(1 / (1 + lam))
    one = [next(c for c, x in enumerate(levels) if x == i and c != j) for i in range(1, len(sizes) + 1)]
    left = t.terms.get(f"l{j}", 0) ** 2 * clients.variance[f"l{j}"]
    return tuple(map(rational, (t.terms[f"e{j}"], *(t.terms[f"e{c}"] for c in one), left)))


def _eq77_simulate(sizes: list[int], gamma2s: list[float], r: list[float], lam: float, level: int,
                   own_noise: int) -> simulation.Simulation:  # fmt: skip
    """Coefficients are covariances with the noise that they multiply: e_j, and the sum of a level's others' messages."""
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    return simulated_combination(simulation.federation(sizes, 1.0, 1.0, noise), sizes, r, lam, level, own_noise)


def _eq77_float(sizes: list[int], gamma2s: list[float], r: list[float], lam: float, level: int, own_noise: int):
    own, messages, noise = personalization.message_weights(
        lam, level, sizes, gamma2s, 1.0, 0.0, r, own_noise=bool(own_noise)
    )
    return own, *messages, noise


register(
    Claim(
        id="fedhdp:eq77",
        title="The personalised estimate as a combination of messages, l levels",
        place="Appendix A.6, (76)-(77)",
        statement="The client's solution has these coefficients, and nothing of its own noise stays in it.",
        latex=r"""\hat\theta_j(\lambda_j)=\frac{1}{1+\lambda_j}\bigg(\frac{\sum_{i=[l]}N_ir_i+\lambda_ji_j}%
            {\sum_{i=[l]}N_ir_i}\hat\phi_j+\frac{1}{\sum_{i=[l]}N_ir_i}\sum_{i\in[l]}\lambda_jr_i%
            \sum_{c_k\in\mathcal C_i,k\neq j}\psi_k\bigg)""",
        kind="identity",
        variables=(SIZES2, GAMMA2S, RATIOS, LAM, ANY_LEVEL, OWN_NOISE),
        examples=(
            {"sizes": [2, 2, 2], "gamma2s": [0, 1, 1], "r": [1, "3/4", "1/2"], "lam": 8, "level": 3},
            {"sizes": [2, 2], "gamma2s": ["1/2", 1], "r": [1, "1/2"], "lam": 4, "level": 2, "own_noise": 1},
        ),
        printed=_eq77_printed,
        derive=_eq77_derive,
        oracle=_eq77_oracle,
        computed=_eq77_float,
        simulate=_eq77_simulate,
        edits=(MEMBERS,),
        assumes=MODEL | {"pivot": "model"},
        condition=lambda own_noise, gamma2s, level: Or(Eq(own_noise, 0), Eq(gamma2s[level - 1], 0)),
        condition_text=OWN_NOISE_TEXT,
        unit="dimensionless; variance",
        related=("fedhdp:eq44",),
    )
)


# --- what A.6 leaves out -------------------------------------------------------------------------------------------


def _lambda_simulate(**v: Any) -> simulation.Simulation | None:
    fed, client = federation_of(v)
    w = 1 / fed.message_variances
    w = w / w.sum()
    return simulation.optimal_blend(fed, client, w, returned_model(w, client, v["own_noise"]))


def closed_form(**v: Any) -> Any:
    """alpha2/(tau2 + w g) without own noise, alpha2/(tau2 + g w/(1-w)) with it."""
    spread = [v["alpha2"] + v["tau2"] + n * g for n, g in zip(v["sizes"], v["gamma2s"], strict=True)]
    i = v["level"] - 1
    w = 1 / (spread[i] * sum(n / x for n, x in zip(v["sizes"], spread, strict=True)))
    g = v["sizes"][i] * v["gamma2s"][i]
    return v["alpha2"] / (v["tau2"] + g * (w if v["own_noise"] == 0 else w / (1 - w)))


LEVELS_LAMBDA: dict[str, Any] = {
    "assumes": MODEL | {"pivot": "model"},
    "variables": (*CLIENT, OWN_NOISE),
    "examples": (EXAMPLES[0], {**EXAMPLES[1], "own_noise": 1}),
    "related": ("fedhdp:eq75", "fedhdp:eq77"),
}
register(
    Claim(
        id="fedhdp:levels:lambda",
        title="Optimal personalisation strength, any number of privacy levels",
        place="Appendix A.6, after (77)",
        statement="""The paper calls the closed form involved and leaves it out. It is short: with the own message's weight
            w_j at the server and its noise g_j = N_i gamma2_i, lambda_j* = alpha2/(tau2 + w_j g_j) when the own noise is
            taken out (what the proofs assume) and alpha2/(tau2 + g_j w_j/(1 - w_j)) when it comes back (what the
            algorithm runs).""",
        latex=r"""\lambda_j^*=\frac{\alpha^2}{\tau^2+w_jg_j}\quad\text{or}\quad\frac{\alpha^2}{\tau^2+g_jw_j/(1-w_j)}%
            \qquad\text{(not printed; derived here)}""",
        kind="optimum",
        derive=lambda **v: derive_strength(*arguments(v), v["own_noise"]),
        oracle=lambda **v: concrete_strength(*arguments(v), v["own_noise"]),
        computed=lambda **v: personalization.personalization_strength(*arguments(v), own_noise=bool(v["own_noise"])),
        simulate=_lambda_simulate,
        model=("BestStrength",),
        corrected=closed_form,
        corrected_text="""alpha2/(tau2 + w_j g_j); with own noise alpha2/(tau2 + g_j w_j/(1 - w_j)). They differ by the
            factor 1/(1 - w_j) on the own noise, of order 1/N.""",
        unit="dimensionless",
        **LEVELS_LAMBDA,
    )
)


def _excess_simulate(**v: Any) -> simulation.Simulation:
    fed, client = federation_of(v)
    w = 1 / fed.message_variances
    w = w / w.sum()
    lam = personalization.personalization_strength(*arguments(v), own_noise=bool(v["own_noise"]))
    u = float(lam / (1 + lam))
    others = others_weights(fed, client)
    b = v["alpha2"] / (v["alpha2"] + v["tau2"] + float(np.sum(others**2 * fed.message_variances)))
    blend = np.append(u * returned_model(w, client, v["own_noise"]), 0.0) + simulation.vector(2, p=-u, e=1 - u)
    bayes = simulation.vector(2, p=-b, e=1 - b, a1=b)
    scale = float(personalization.bayes_mse(*arguments(v)))
    return simulation.excess_over_bayes(fed, client, [w, others], blend, bayes, scale)


register(
    Claim(
        id="fedhdp:levels:bayes",
        title="The strengths of l levels are Bayes optimal",
        place="Appendix A.6, after (77)",
        statement="""The l + 1 coefficients of (77) can be matched with those of (75) by one strength, so that the estimate
            is Bayes optimal: the excess risk is zero.""",
        latex=r"\hat\theta_j(\lambda_j^*)=\theta_j^*",
        kind="identity",
        printed=lambda: ZERO,
        derive=lambda **v: derive_excess(*arguments(v), v["own_noise"]),
        oracle=lambda **v: concrete_blend(*arguments(v), v["own_noise"])[1] - concrete_bayes(*arguments(v)),
        not_computed=Exempt(kind="difference", of=("fedhdp:eq74", "fedhdp:levels:lambda")),
        simulate=_excess_simulate,
        model=("Attains",),
        condition=lambda own_noise, gamma2s, level: Or(Eq(own_noise, 0), Eq(gamma2s[level - 1], 0)),
        condition_text=OWN_NOISE_TEXT,
        unit="variance",
        **LEVELS_LAMBDA,
    )
)
