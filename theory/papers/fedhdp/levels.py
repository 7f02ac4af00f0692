"""FedHDP beyond two privacy levels (Appendix A.6).

Belongs here: claims for l levels, verified for l = 2 and 3 with symbolic sizes. Does not belong here: two levels.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import OWN_NOISE_TEXT, returned_model
from theory.papers.shared import (
    ALPHA2,
    ANY_LEVEL,
    GAMMA2S,
    ONE,
    OWN_NOISE,
    SIGMA2_C,
    SIZES,
    TAU2,
    concrete,
    concrete_bayes,
    concrete_blend,
    concrete_strength,
    derive_excess,
    derive_strength,
    message_variances,
    others_variance,
)

ZERO = sp.Integer(0)
SERVER = (SIZES, GAMMA2S, SIGMA2_C)
CLIENT = (SIZES, GAMMA2S, ALPHA2, TAU2, ANY_LEVEL)
SERVER_EXAMPLES = (
    {"sizes": [2, 1, 2], "gamma2s": [0, 1, 2], "sigma2_c": 2},
    {"sizes": [3, 2], "gamma2s": ["1/2", 2], "sigma2_c": 1},
)
EXAMPLES = (
    {"sizes": [2, 1, 2], "gamma2s": [0, 1, 2], "alpha2": 1, "tau2": "1/2", "level": 3},
    {"sizes": [2, 2], "gamma2s": ["1/4", 1], "alpha2": 1, "tau2": "1/2", "level": 1},
)


def _leave_out(values: list[Any], i: int) -> Any:
    return prod((v for k, v in enumerate(values) if k != i), start=ONE)


def _pooled(sizes: list[Any], s: list[Any]) -> tuple[Any, Any]:
    """The paper's products: prod s_i, and sum over i of n_i times the product of the other s_k."""
    return prod(s, start=ONE), sum(n * _leave_out(s, i) for i, n in enumerate(sizes))


def _server_posterior(d: Derivation, sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Any:
    s = d.say("Message variances per level:", tuple(message_variances(sizes, gamma2s, sigma2_c)))
    d.say("Exchangeable within a level, so condition phi on the level sums; a level sum of n messages observes n phi "
          "with noise n s_i, an observation of precision n/s_i. Precisions add up.")  # fmt: skip
    seen = [Group(f"level {i}", ONE, v / n, ZERO, ZERO) for i, (n, v) in enumerate(zip(sizes, s, strict=True), 1)]
    return posterior(CENTRE, [g.messages() for g in seen])


def _eq61_derive(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Posterior variance of phi:", _server_posterior(d, sizes, gamma2s, sigma2_c).variance)


def _server_oracle(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> tuple[list[Any], Any]:
    clients, levels = concrete(sizes, gamma2s, sigma2_c / 2, sigma2_c / 2)
    w, variance = clients.posterior(clients.centre, clients.message)
    return [rational(w[levels.index(i)]) for i in range(1, len(sizes) + 1)], rational(variance)


def _eq61_printed(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Any:
    top, bottom = _pooled(sizes, message_variances(sizes, gamma2s, sigma2_c))
    return top / bottom


def _server_simulate(sizes: list[int], gamma2s: list[float], sigma2_c: float):
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, sigma2_c / 2, sigma2_c / 2, noise)
    w = np.repeat(aggregation.level_weights(sizes, gamma2s, sigma2_c, 0.0), sizes)
    return simulation.mean_squares(fed, 0, w, [simulation.vector(1, a0=1.0)], ["server MSE"])


register(
    Claim(
        id="fedhdp:eq61",
        title="Server error variance, l privacy levels",
        place="Appendix A.6, (61)",
        statement="Posterior variance of the centre given all messages.",
        latex=r"\Sigma_\theta=\Big(\frac{\prod_{i\in[l]}\sigma_{p_i}^2}{\sum_{i\in[l]}N_i\prod_{k\in[l]\setminus i}"
        r"\sigma_{p_k}^2}\Big)I_d",
        kind="identity",
        variables=SERVER,
        examples=SERVER_EXAMPLES,
        printed=_eq61_printed,
        derive=_eq61_derive,
        oracle=lambda **v: _server_oracle(**v)[1],
        computed=lambda sizes, gamma2s, sigma2_c: aggregation.server_mse(sizes, gamma2s, sigma2_c, 0.0),
        simulate=_server_simulate,
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _eq64_printed(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> tuple[Any, ...]:
    s = message_variances(sizes, gamma2s, sigma2_c)
    return tuple(s[0] / x for x in s)


def _eq64_oracle(**v: Any) -> tuple[Any, ...]:
    weights, _ = _server_oracle(**v)
    return tuple(x / weights[0] for x in weights)


def _eq64_derive(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Derivation:
    d = Derivation()
    best = _server_posterior(d, sizes, gamma2s, sigma2_c)
    d.say("Weights of the level means, hence n times the weight of one message:", best.weights)
    w = [x / n for x, n in zip(best.weights, sizes, strict=True)]
    return d.conclude("Weight of one message over that of one of level 1:", tuple(simplest(x / w[0]) for x in w))


def _ratios_simulate(sizes: list[int], gamma2s: list[float], sigma2_c: float):
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, sigma2_c / 2, sigma2_c / 2, noise)
    # The risk is least in the ratio r_l of two messages' weights where its derivative there, E[(x_1 + r_l x_l)(x_l - x_1)],
    # is zero; one message of each level.
    rows = np.eye(fed.count)[list(fed.start)]
    size = len(sizes)
    first = simulation.vector(size, a0=1.0)
    pairs, readings = [], []
    for level in range(1, size):
        other = simulation.vector(size, **{f"a{level}": 1.0})
        pairs += [(-first, other - first), (other, other - first)]
        numerator, denominator = np.eye(2 * size - 2)[2 * level - 2 : 2 * level]
        own = float(fed.message_variances[fed.start[level]])
        readings.append(
            simulation.Ratio(f"mean derivative of the risk in r_{level + 1}", numerator, denominator, own, level)
        )
    return simulation.Simulation(simulation.mean_products(fed, 0, rows, pairs).experiment, tuple(readings))


register(
    Claim(
        id="fedhdp:eq64",
        title="Optimal ratios, l privacy levels",
        place="Appendix A.6, (63)-(64)",
        statement="The server is optimal when level i has the ratio r_i* of the message variances.",
        latex=r"r_i^*=\frac{\sigma_{p_1}^2}{\sigma_{p_i}^2}",
        kind="optimum",
        variables=SERVER,
        examples=SERVER_EXAMPLES,
        printed=_eq64_printed,
        derive=_eq64_derive,
        oracle=_eq64_oracle,
        computed=lambda sizes, gamma2s, sigma2_c: aggregation.level_ratios(sizes, gamma2s, sigma2_c, 0.0),
        simulate=_ratios_simulate,
        unit="dimensionless, one per level",
        related=("fedhdp:eq61",),
    )
)  # fmt: skip


def _others(sizes: list[Any], level: int) -> list[Any]:
    """M_i of (71): level sizes without client j."""
    return [n - (1 if i == level else 0) for i, n in enumerate(sizes, 1)]


def _eq68_printed(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    top, bottom = _pooled(_others(sizes, level), message_variances(sizes, gamma2s, alpha2 + tau2))
    return top / bottom


def _centre_without(d: Derivation, sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    s = message_variances(sizes, gamma2s, alpha2 + tau2)
    d.say("Client j left out, level i has M_i members; precisions M_i/s_i of the levels add up.")
    return others_variance(level, sizes, s)


def _eq68_derive(**v: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Posterior variance of phi:", _centre_without(d, **v))


def _eq68_oracle(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    return rational(clients.posterior(clients.centre, [m for i, m in enumerate(clients.message) if i != j])[1])


def _others_weights(fed: simulation.Federation, client: int) -> np.ndarray:
    w = 1 / fed.message_variances
    w[client] = 0.0
    return w / w.sum()


def _federation(v: dict[str, Any]) -> tuple[simulation.Federation, int]:
    noise = [n * g for n, g in zip(v["sizes"], v["gamma2s"], strict=True)]
    fed = simulation.federation(v["sizes"], v["tau2"], v["alpha2"], noise)
    return fed, fed.start[v["level"] - 1]


def _eq68_simulate(**v: Any) -> simulation.Simulation:
    fed, client = _federation(v)
    w = _others_weights(fed, client)
    return simulation.mean_squares(fed, client, w, [simulation.vector(1, a0=1.0)], ["error of phi"])


def _eq68_computed(sizes: list[int], gamma2s: list[float], alpha2: float, tau2: float, level: int) -> float:
    s = np.asarray(message_variances(sizes, gamma2s, alpha2 + tau2), float)
    return float(1 / np.sum(np.asarray(_others(sizes, level)) / s))


register(
    Claim(
        id="fedhdp:eq68",
        title="Variance of the centre without client j, l levels",
        place="Appendix A.6, (68), (71)",
        statement="Posterior variance of phi given the messages of all other clients.",
        latex=r"\Sigma_{\phi^{\setminus j}}=\frac{\prod_{i\in[l]}\sigma_{p_i}^2}{\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus "
        r"i}\sigma_{p_k}^2}I_d",
        kind="identity",
        variables=CLIENT,
        examples=EXAMPLES,
        printed=_eq68_printed,
        derive=_eq68_derive,
        oracle=_eq68_oracle,
        computed=_eq68_computed,
        simulate=_eq68_simulate,
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _two_sources(d: Derivation, v: dict[str, Any]) -> Any:
    """Posterior of phi_j from its own estimate and from phi given the others."""
    centre = _centre_without(d, **v)
    d.say("phi given the others has variance V; phi_j adds tau2. The own estimate is a second observation of phi_j:",
          (centre, v["alpha2"]))  # fmt: skip
    V = sp.Symbol("V", positive=True)
    far = Group("others", ONE, V, ZERO, ZERO)
    own = Group("own", ONE, v["tau2"], v["alpha2"], ZERO)
    return posterior(own.parameters(), [own.estimates(), far.messages()]), V, centre


def _eq74_derive(**v: Any) -> Derivation:
    d = Derivation()
    V = sp.Symbol("V", positive=True)
    d.say("phi given the others has a variance V; phi_j adds tau2. The own estimate is a second observation of phi_j.")
    variance, *_ = d.lemma("fedhdp:lemma1", "variance and weights given both are", sigma2s=[v["alpha2"], v["tau2"] + V])
    return d.conclude("With V put in:", variance.subs(V, d.lemma("fedhdp:eq68", "V is", **v)))


def _eq74_printed(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    top, bottom = _pooled(_others(sizes, level), message_variances(sizes, gamma2s, alpha2 + tau2))
    sigma2_c = alpha2 + tau2
    return 1 / (1 / ((top + tau2 * bottom) / bottom) + 1 / (sigma2_c - tau2))


def _eq74_simulate(**v: Any) -> simulation.Simulation:
    fed, client = _federation(v)
    w = _others_weights(fed, client)
    spread = v["tau2"] + float(np.sum(w**2 * fed.message_variances))
    u = v["alpha2"] / (v["alpha2"] + spread)
    error = simulation.vector(1, p=-u, e=1 - u, a0=u)
    return simulation.mean_squares(fed, client, w, [error], ["Bayes risk"])


register(
    Claim(
        id="fedhdp:eq74",
        title="Bayes risk of a client, l levels",
        place="Appendix A.6, (74)",
        statement="Posterior variance of phi_j given the own estimate and all other messages.",
        latex=r"\Sigma_{\theta_j^*}=\bigg(\Big(\frac{\prod_i\sigma_{p_i}^2+\tau^2\sum_iM_i\prod_{k\neq i}\sigma_{p_k}^2}"
        r"{\sum_iM_i\prod_{k\neq i}\sigma_{p_k}^2}\Big)^{-1}+(\sigma_c^2-\tau^2)^{-1}\bigg)^{-1}I_d",
        kind="identity",
        variables=CLIENT,
        examples=EXAMPLES,
        printed=_eq74_printed,
        derive=_eq74_derive,
        oracle=lambda sizes, gamma2s, alpha2, tau2, level: concrete_bayes(level, sizes, gamma2s, alpha2, tau2),
        computed=lambda sizes, gamma2s, alpha2, tau2, level: personalization.bayes_mse(level, sizes, gamma2s, alpha2, tau2),
        simulate=_eq74_simulate,
        unit="variance",
    )
)


def _eq75_printed(**v: Any) -> tuple[Any, ...]:
    s = message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    top, bottom = _pooled(_others(v["sizes"], v["level"]), s)
    risk = _eq74_printed(**v)
    return (
        risk / v["alpha2"],
        *(risk * _leave_out(s, i) / (top + v["tau2"] * bottom) for i in range(len(s))),
    )


def _eq75_derive(**v: Any) -> Derivation:
    d = Derivation()
    best, V, centre = _two_sources(d, v)
    own, far = d.say("Weights on the own estimate and on phi given the others:", best.weights)
    s = message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    each = tuple((far * V / x).subs(V, centre) for x in s)
    return d.conclude("A message of level i has the share V/s_i of the second:", (own.subs(V, centre), *each))


def _eq75_oracle(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> tuple[Any, ...]:
    # One more client in the own level would change the answer; the weight of a level without others is still defined
    # by proportion to 1/s_i, which the posterior itself must obey for the levels that are there.
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    rest = [i for i in range(len(levels)) if i != j]
    w = clients.posterior(clients.parameter[j], [clients.estimate[j], *(clients.message[i] for i in rest)])[0]
    found = {levels[i]: rational(x) for i, x in zip(rest, w[1:], strict=True)}
    return (rational(w[0]), *(found[i] for i in range(1, len(sizes) + 1)))


def _eq75_computed(sizes: list[int], gamma2s: list[float], alpha2: float, tau2: float, level: int) -> list[float]:
    V = _eq68_computed(sizes, gamma2s, alpha2, tau2, level)
    s = message_variances(sizes, gamma2s, alpha2 + tau2)
    return [(tau2 + V) / (tau2 + V + alpha2), *(alpha2 / (tau2 + V + alpha2) * V / x for x in s)]


SIZES2 = Variable("sizes", "size", "clients per level", low=2, lengths=(2, 3))
register(
    Claim(
        id="fedhdp:eq75",
        title="Weights of a client's Bayes estimate, l levels",
        place="Appendix A.6, (75)",
        statement="Coefficients of the Bayes estimate on the own estimate and on a message of each level.",
        latex=r"\theta_j^*=\Sigma_{\theta_j^*}(\sigma_c^2-\tau^2)^{-1}\hat\phi_j+\Sigma_{\theta_j^*}\Big(\frac{1}{\prod_i"
        r"\sigma_{p_i}^2+\tau^2\sum_iM_i\prod_{k\neq i}\sigma_{p_k}^2}\sum_{i}\prod_{k_1\neq i}\sigma_{p_{k_1}}^2"
        r"\sum_{c_{k_2}\in\mathcal C_i,k_2\neq j}\psi_i\Big)+p_{\theta_j^*}",
        kind="identity",
        variables=(SIZES2, *CLIENT[1:]),
        examples=({**EXAMPLES[0], "sizes": [2, 2, 2]}, EXAMPLES[1]),
        printed=_eq75_printed,
        derive=_eq75_derive,
        oracle=_eq75_oracle,
        computed=_eq75_computed,
        not_simulated="weights; the risk that they attain is simulated in fedhdp:eq74",
        unit="dimensionless",
        related=("fedhdp:eq74",),
        remark="The coefficients hold. The summation index slipped: psi_i under the sum over k_2 (also in (72)) must be "
        "psi_{k_2}; i counts levels there.",
    )
)

LAM = Variable("lam", "positive", "strength of the pull towards the server's estimate", extreme=False)
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


def _eq77_computed(sizes: list[int], gamma2s: list[float], r: list[float], lam: float, level: int, own_noise: int):
    total = sum(n * x for n, x in zip(sizes, r, strict=True))
    u, w = lam / (1 + lam), [x / total for x in r]
    left = own_noise * (u * w[level - 1]) ** 2 * sizes[level - 1] * gamma2s[level - 1]
    return [(1 + lam * w[level - 1]) / (1 + lam), *(u * x for x in w), left]


register(
    Claim(
        id="fedhdp:eq77",
        title="The personalised estimate as a combination of messages, l levels",
        place="Appendix A.6, (76)-(77)",
        statement="The client's solution has these coefficients, and nothing of its own noise stays in it.",
        latex=r"\hat\theta_j(\lambda_j)=\frac{1}{1+\lambda_j}\bigg(\frac{\sum_iN_ir_i+\lambda_ji_j}{\sum_iN_ir_i}\hat\phi_j"
        r"+\frac{1}{\sum_iN_ir_i}\sum_{i\in[l]}\lambda_jr_i\sum_{c_k\in\mathcal C_i,k\neq j}\psi_k\bigg)",
        kind="identity",
        variables=(SIZES2, GAMMA2S, RATIOS, LAM, ANY_LEVEL, OWN_NOISE),
        examples=({"sizes": [2, 2, 2], "gamma2s": [0, 1, 2], "r": [1, "1/2", "1/4"], "lam": 1, "level": 3},),
        printed=_eq77_printed,
        derive=_eq77_derive,
        oracle=_eq77_oracle,
        computed=_eq77_computed,
        not_simulated="the same algebra is simulated for two levels in fedhdp:eq44",
        condition=lambda own_noise, gamma2s, level: Or(Eq(own_noise, 0), Eq(gamma2s[level - 1], 0)),
        condition_text=OWN_NOISE_TEXT,
        unit="dimensionless; variance",
        related=("fedhdp:eq44",),
    )
)


# --- what A.6 leaves out -------------------------------------------------------------------------------------------


def _arguments(v: dict[str, Any]) -> tuple[Any, ...]:
    return v["level"], v["sizes"], v["gamma2s"], v["alpha2"], v["tau2"]


def _lambda_simulate(**v: Any) -> simulation.Simulation | None:
    fed, client = _federation(v)
    w = 1 / fed.message_variances
    w = w / w.sum()
    return simulation.optimal_blend(fed, client, w, returned_model(w, client, v["own_noise"]))


def closed_form(**v: Any) -> Any:
    """alpha2/(tau2 + w g) without own noise, alpha2/(tau2 + g w/(1-w)) with it."""
    s = message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    i = v["level"] - 1
    w = 1 / (s[i] * sum(n / x for n, x in zip(v["sizes"], s, strict=True)))
    g = v["sizes"][i] * v["gamma2s"][i]
    return v["alpha2"] / (v["tau2"] + g * (w if v["own_noise"] == 0 else w / (1 - w)))


LEVELS_LAMBDA: dict[str, Any] = {
    "variables": (*CLIENT, OWN_NOISE),
    "examples": (EXAMPLES[0], {**EXAMPLES[1], "own_noise": 1}),
    "related": ("fedhdp:eq75", "fedhdp:eq77"),
}
register(
    Claim(
        id="fedhdp:levels:lambda",
        title="Optimal personalisation strength, any number of privacy levels",
        place="Appendix A.6, after (77)",
        statement="The paper calls the closed form involved and leaves it out. It is short: with the own message's weight "
        "w_j at the server and its noise g_j = N_i gamma2_i, lambda_j* = alpha2/(tau2 + w_j g_j) when the own noise is "
        "taken out (what the proofs assume) and alpha2/(tau2 + g_j w_j/(1 - w_j)) when it comes back (what the algorithm "
        "runs).",
        latex=r"\lambda_j^*=\frac{\alpha^2}{\tau^2+w_jg_j}\quad\text{or}\quad\frac{\alpha^2}{\tau^2+g_jw_j/(1-w_j)}"
        r"\qquad\text{(not printed; derived here)}",
        kind="optimum",
        derive=lambda **v: derive_strength(*_arguments(v), v["own_noise"]),
        oracle=lambda **v: concrete_strength(*_arguments(v), v["own_noise"]),
        computed=lambda **v: personalization.personalization_strength(*_arguments(v), own_noise=bool(v["own_noise"])),
        simulate=_lambda_simulate,
        corrected=closed_form,
        corrected_text="alpha2/(tau2 + w_j g_j); with own noise alpha2/(tau2 + g_j w_j/(1 - w_j)). They differ by the "
        "factor 1/(1 - w_j) on the own noise, of order 1/N.",
        unit="dimensionless",
        **LEVELS_LAMBDA,
    )
)


def _excess_simulate(**v: Any) -> simulation.Simulation:
    fed, client = _federation(v)
    w = 1 / fed.message_variances
    w = w / w.sum()
    lam = personalization.personalization_strength(*_arguments(v), own_noise=bool(v["own_noise"]))
    u = float(lam / (1 + lam))
    others = _others_weights(fed, client)
    b = v["alpha2"] / (v["alpha2"] + v["tau2"] + float(np.sum(others**2 * fed.message_variances)))
    blend = np.append(u * returned_model(w, client, v["own_noise"]), 0.0) + simulation.vector(2, p=-u, e=1 - u)
    bayes = simulation.vector(2, p=-b, e=1 - b, a1=b)
    scale = float(personalization.bayes_mse(*_arguments(v)))
    return simulation.excess_over_bayes(fed, client, [w, others], blend, bayes, scale)


register(
    Claim(
        id="fedhdp:levels:bayes",
        title="The strengths of l levels are Bayes optimal",
        place="Appendix A.6, after (77)",
        statement="The l + 1 coefficients of (77) can be matched with those of (75) by one strength, so that the estimate "
        "is Bayes optimal: the excess risk is zero.",
        latex=r"\hat\theta_j(\lambda_j^*)=\theta_j^*",
        kind="identity",
        printed=lambda: ZERO,
        derive=lambda **v: derive_excess(*_arguments(v), v["own_noise"]),
        oracle=lambda **v: concrete_blend(*_arguments(v), v["own_noise"])[1] - concrete_bayes(*_arguments(v)),
        not_computed="a difference that is zero or small; both risks are computed",
        simulate=_excess_simulate,
        condition=lambda own_noise, gamma2s, level: Or(Eq(own_noise, 0), Eq(gamma2s[level - 1], 0)),
        condition_text=OWN_NOISE_TEXT,
        unit="variance",
        **LEVELS_LAMBDA,
    )
)
