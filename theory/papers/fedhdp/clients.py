"""FedHDP, the clients: Lemma 3, Theorems 5 and 8, their special cases, and what Section 3.1.4 says of opting out.

Belongs here: claims on personalised estimates with two privacy levels. Does not belong here: the server's estimate
(server.py), more levels (levels.py), algorithm lines (algorithms.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import limit, simplest, stationary_point
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, posterior
from theory.engine.registry import register
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    GAMMA2_1,
    GAMMA2_2,
    LEVEL,
    N1,
    N2,
    N_NP,
    N_P,
    OWN_NOISE,
    TAU2,
    at_others,
    blend_objective,
    blend_risk,
    concrete,
    concrete_bayes,
    concrete_blend,
    concrete_strength,
    derive_excess,
    derive_strength,
    groups,
    message_variances,
    precision_weights,
    risk_given_others,
)

TWO_LEVELS = (N1, N2, ALPHA2, TAU2, GAMMA2_1, GAMMA2_2, LEVEL)
OPT_OUT = (N_NP, N_P, ALPHA2, TAU2, GAMMA2)
LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
EXAMPLES = (
    {"N1": 2, "N2": 3, "alpha2": 1, "tau2": "1/2", "gamma2_1": "1/4", "gamma2_2": 1, "level": 2},
    {"N1": 2, "N2": 2, "alpha2": 2, "tau2": 1, "gamma2_1": "1/2", "gamma2_2": 2, "level": 1},
)
OWN_NOISE_EXAMPLES = (EXAMPLES[0], {**EXAMPLES[1], "own_noise": 1})
OPT_OUT_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": "1/2", "gamma2": 1},
    {"N_np": 1, "N_p": 3, "alpha2": 2, "tau2": 1, "gamma2": 2, "own_noise": 1},
)
OWN_NOISE_TEXT = "own_noise == 0 (the client's own message noise is taken out of the model it gets back) or that noise is 0"


def lists(v: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Sizes and noise of the levels from two-level or opt-out arguments."""
    if "N1" in v:
        return [v["N1"], v["N2"]], [v["gamma2_1"], v["gamma2_2"]]
    return [v["N_np"], v["N_p"]], [sp.Integer(0), v["gamma2"]]


def own_noise_condition(**v: Any) -> Any:
    """The proofs' hidden assumption, at a client's level."""
    noise = lists(v)[1][v["level"] - 1]
    return Or(Eq(v["own_noise"], 0), Eq(noise, 0))


def setting(v: dict[str, Any], level: int | None = None) -> tuple[Any, ...]:
    """Arguments (level, sizes, gamma2s, alpha2, tau2) of the shared derivations."""
    sizes, gamma2s = lists(v)
    return (level or v["level"], sizes, gamma2s, v["alpha2"], v["tau2"])


def simulated_federation(v: dict[str, Any], level: int) -> tuple[simulation.Federation, int, np.ndarray]:
    """Concrete clients, the distinguished one, and the server's optimal weights."""
    sizes, gamma2s = lists(v)
    sizes = [int(n) for n in sizes]
    noise = [float(n * g) for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, v["tau2"], v["alpha2"], noise)
    w = aggregation.level_weights(sizes, [float(g) for g in gamma2s], v["alpha2"], v["tau2"])
    return fed, fed.start[level - 1], np.repeat(w, sizes)


def returned_model(weights: np.ndarray, client: int, own_noise: int) -> np.ndarray:
    """The server's estimate as the client uses it: with its own noise, or with that noise taken out."""
    return simulation.vector(1, a0=1.0, l=0.0 if own_noise else -weights[client])


def simulate_strength(of: int = 0, **v: Any) -> simulation.Simulation | None:
    """A client's best strength, which is entry `of` of a claim."""
    fed, client, w = simulated_federation(v, v["level"])
    return simulation.optimal_blend(fed, client, w, returned_model(w, client, v.get("own_noise", 0)), of=of)


def strength_oracle(**v: Any) -> Any:
    """Optimal strength by exact search on concrete clients."""
    return concrete_strength(*setting(v), v.get("own_noise", 0))


def strength_computed(**v: Any) -> Any:
    """Optimal strength by the estimators."""
    return personalization.personalization_strength(*setting(v), own_noise=bool(v.get("own_noise", 0)))


def strength_derive(**v: Any) -> Derivation:
    """Optimal strength from the model."""
    return derive_strength(*setting(v), v.get("own_noise", 0))


# --- (10): the loss and what it does to lambda ---------------------------------------------------------------------

N_S = Variable("n_s", "positive", "F^T F = n_s I")
M_S = Variable("m_s", "positive", "samples of a client")


def _eq10_derive(n_s: Any, m_s: Any, lam: Any) -> Derivation:
    d = Derivation()
    t, y, theta, c = sp.symbols("t y theta c", real=True)
    loss = d.say(
        "With F^T F = n_s I, |F t - x|^2 = n_s (t - y)^2 + c where y is the least-squares estimate and c does not depend "
        "on t. So (8) is",
        (n_s * (t - y) ** 2 + c) / m_s,
    )
    objective = d.say("and a client's objective with the penalty of (Local FedHDP obj.) is",
                      loss + lam * (t - theta) ** 2 / 2)  # fmt: skip
    best = d.say("Its minimiser is", stationary_point(objective, t))
    return d.conclude("The weight on the server's estimate theta is", simplest(sp.diff(best, theta)))


def _eq10_oracle(n_s: Any, m_s: Any, lam: Any) -> Any:
    """Explicit data: one feature f with m_s f^2 = n_s, responses all x; the objective's vertex from three values."""
    f2, x_over_f = n_s / m_s, sp.Rational(7, 3)

    def vertex(theta: Any) -> Any:
        # (1/m_s) sum (f t - x)^2 = f^2 (t - x/f)^2 for equal responses.
        value = [f2 * (t - x_over_f) ** 2 + lam * (t - theta) ** 2 / 2 for t in (-1, 0, 1)]
        return (value[0] - value[2]) / (2 * (value[0] + value[2] - 2 * value[1]))

    return vertex(sp.Integer(1)) - vertex(sp.Integer(0))


register(
    Claim(
        id="fedhdp:eq10",
        title="The loss as a squared distance to the local estimate",
        place="Appendix A.1, (8) to (10)",
        statement="With F^T F = n_s I the loss (8) translates to half the squared distance to the local estimate. "
        "Judged by what it does: the weight lam/(1+lam) of the server's estimate in a client's solution.",
        latex=r"f_j(\phi)=\frac{1}{m_s}\|F_j\phi-x_j\|_2^2\ \to\ f_j(\phi)=\frac12\Big\|\phi-\frac1{n_s}"
        r"\sum_{i=1}^{n_s}x_{j,i}\Big\|_2^2",
        kind="identity",
        variables=(N_S, M_S, LAM),
        examples=({"n_s": 1, "m_s": 1, "lam": 1}, {"n_s": 10, "m_s": 4, "lam": "1/2"}),
        printed=lambda lam: lam / (1 + lam),
        derive=_eq10_derive,
        oracle=_eq10_oracle,
        computed=lambda n_s, m_s, lam: lam / (lam + 2 * n_s / m_s),
        not_simulated="deterministic algebra",
        corrected=lambda n_s, m_s, lam: lam / (lam + 2 * n_s / m_s),
        corrected_text="f_j = (n_s/m_s) |phi - phi_hat_j|^2 + const: with the loss (8) every lambda of the paper must be "
        "multiplied by 2 n_s/m_s.",
        unit="dimensionless",
        remark="Also, the average of the n_s responses is the least-squares estimate only when F is a column of ones.",
    )
)


# --- the Bayes estimate: (37), (41), (42) --------------------------------------------------------------------------


def _bayes(v: dict[str, Any], d: Derivation) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    own, others = groups(level, sizes, gamma2s, alpha2, tau2)
    d.say("The client knows its own estimate y without noise and the messages of all others. Within a level these are "
          "exchangeable, so condition on y and the sums over each level.")  # fmt: skip
    return posterior(own.parameters(), [own.estimates(), *(g.messages() for g in others)])


def _eq37_derive(**v: Any) -> Derivation:
    d = Derivation()
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    _, others = groups(level, sizes, gamma2s, alpha2, tau2)
    d.say("Leave client j out: its level has one client less. Condition phi on the sums of the others' messages.")
    return d.conclude("Posterior variance of phi:", posterior(CENTRE, [g.messages() for g in others]).variance)


def _eq37_oracle(**v: Any) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    return rational(clients.posterior(clients.centre, [m for i, m in enumerate(clients.message) if i != j])[1])


def _s(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """s_1, s_2 and the paper's m, n: others in levels 1 and 2."""
    s1, s2 = message_variances(*lists(v), v["alpha2"] + v["tau2"])
    return s1, s2, *((v["N1"] - 1, v["N2"]) if v["level"] == 1 else (v["N1"], v["N2"] - 1))


def _eq37_printed(**v: Any) -> Any:
    s1, s2, m, n = _s(v)
    return s1 * s2 / (n * s1 + m * s2)


def _simulate_others(**v: Any) -> simulation.Simulation:
    fed, client, _ = simulated_federation(v, v["level"])
    w = 1 / fed.message_variances
    w[client] = 0.0
    w /= w.sum()
    return simulation.mean_squares(fed, client, w, [simulation.vector(1, a0=1.0)], ["error of phi"])


register(
    Claim(
        id="fedhdp:eq37",
        title="Variance of the centre given all messages but the client's",
        place="Appendix A.3, (37)",
        statement="Posterior variance of phi from the messages of all other clients.",
        latex=r"\Sigma_{\phi^{\setminus j}}=\frac{\sigma_{p_1}^2\sigma_{p_2}^2}{n\sigma_{p_1}^2+m\sigma_{p_2}^2}I_d",
        kind="identity",
        variables=TWO_LEVELS,
        examples=EXAMPLES,
        printed=_eq37_printed,
        derive=_eq37_derive,
        oracle=_eq37_oracle,
        computed=lambda **v: _others_computed(**v),
        simulate=_simulate_others,
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _others_computed(**v: Any) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    sizes = [n - (i == level) for i, n in enumerate(sizes, 1)]
    kept = [(n, g * (n + (i == level))) for i, (n, g) in enumerate(zip(sizes, gamma2s, strict=True), 1) if n > 0]
    return aggregation.server_mse([n for n, _ in kept], [g / n for n, g in kept], alpha2, tau2)


def _eq41_printed(**v: Any) -> Any:
    s1, s2, m, n = _s(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    mix = n * s1 + m * s2
    return (sigma2_c - tau2) * (s1 * s2 + tau2 * mix) / (sigma2_c * mix + s1 * s2)


def _eq41_derive(**v: Any) -> Derivation:
    d = Derivation()
    centre = d.lemma("fedhdp:eq37", "the others' messages tell phi with the variance", **v)
    d.say("phi_j adds tau2 to it, and the own estimate is a second, independent observation of phi_j. Variances:",
          (v["alpha2"], v["tau2"] + centre))  # fmt: skip
    variance, *_ = d.lemma("fedhdp:lemma1", "variance and weights given both are",
                           sigma2s=[v["alpha2"], v["tau2"] + centre])  # fmt: skip
    return d.conclude("Posterior variance of phi_j:", variance)


def bayes_simulation(**v: Any) -> simulation.Simulation:
    """Error of the posterior mean, assembled from its weights on own estimate and others' messages."""
    fed, client, _ = simulated_federation(v, v["level"])
    others = 1 / fed.message_variances
    others[client] = 0.0
    spread = fed.tau2[client] + 1 / others.sum()
    u = fed.alpha2[client] / (fed.alpha2[client] + spread)
    error = simulation.vector(1, p=-u, e=1 - u, a0=u)
    return simulation.mean_squares(fed, client, others / others.sum(), [error], ["Bayes risk"])


register(
    Claim(
        id="fedhdp:eq41",
        title="Bayes risk of a client",
        place="Appendix A.3, (41)",
        statement="Posterior variance of phi_j given the client's own estimate and the messages of all others.",
        latex=r"\Sigma_{\theta_j^*}=\frac{(\sigma_c^2-\tau^2)\big(\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+"
        r"m\sigma_{p_2}^2)\big)}{\sigma_c^2\big(n\sigma_{p_1}^2+m\sigma_{p_2}^2\big)+\sigma_{p_1}^2\sigma_{p_2}^2}I_d",
        kind="identity",
        variables=TWO_LEVELS,
        examples=EXAMPLES,
        printed=_eq41_printed,
        derive=_eq41_derive,
        oracle=lambda **v: concrete_bayes(*setting(v)),
        computed=lambda **v: personalization.bayes_mse(*setting(v)),
        simulate=bayes_simulation,
        unit="variance",
    )
)


def _eq42_printed(**v: Any) -> tuple[Any, Any, Any]:
    s1, s2, m, n = _s(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    mix = n * s1 + m * s2
    bottom = sigma2_c * mix + s1 * s2
    return (s1 * s2 + tau2 * mix) / bottom, s2 * (sigma2_c - tau2) / bottom, s1 * (sigma2_c - tau2) / bottom


def _eq42_derive(**v: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Weights on y, on a message of level 1, on a message of level 2:", _bayes(v, d).weights)


def _bayes_weights(**v: Any) -> tuple[Any, Any, Any]:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    rest = [i for i in range(len(levels)) if i != j]
    w = clients.posterior(clients.parameter[j], [clients.estimate[j], *(clients.message[i] for i in rest)])[0]
    of_level = {levels[i]: rational(w[1 + k]) for k, i in enumerate(rest)}
    return rational(w[0]), of_level[1], of_level[2]


def _eq42_computed(**v: Any) -> tuple[float, float, float]:
    s1, s2, m, n = (float(x) for x in _s(v))
    centre = 1 / (m / s1 + n / s2)
    own = (v["tau2"] + centre) / (v["tau2"] + centre + v["alpha2"])
    share = v["alpha2"] / (v["tau2"] + centre + v["alpha2"]) * centre
    return own, share / s1, share / s2


PAIRS = (
    Variable("N1", "size", "clients in level 1", low=2),
    Variable("N2", "size", "clients in level 2", low=2),
)
register(
    Claim(
        id="fedhdp:eq42",
        title="Weights of a client's Bayes estimate",
        place="Appendix A.3, (42)",
        statement="Coefficients of the Bayes estimate on the own estimate and on the messages of both levels.",
        latex=r"\theta_j^*=\frac{\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)}{\sigma_c^2(n"
        r"\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2}\hat\phi_j+\frac{\sigma_{p_2}^2(\sigma_c^2-\tau^2)}"
        r"{\cdots}\sum_{\mathcal C_1,i\neq j}\psi_i+\frac{\sigma_{p_1}^2(\sigma_c^2-\tau^2)}{\cdots}"
        r"\sum_{\mathcal C_2,i\neq j}\psi_i+p_{\theta_j^*}",
        kind="identity",
        variables=(*PAIRS, *TWO_LEVELS[2:]),
        examples=EXAMPLES,
        printed=_eq42_printed,
        derive=_eq42_derive,
        oracle=_bayes_weights,
        computed=_eq42_computed,
        not_simulated="weights; the risk that they attain is simulated in fedhdp:eq41",
        entries=("own estimate", "message of level 1", "message of level 2"),
        unit="dimensionless",
        related=("fedhdp:eq41",),
    )
)


# --- (44): what the client computes --------------------------------------------------------------------------------

R = Variable("r", "positive", "weight of a level-2 message over that of a level-1 message", extreme=False)
LAM_FINITE = Variable("lam", "positive", "strength of the pull towards the server's estimate", extreme=False)


def _eq44_weights(N1: Any, N2: Any, r: Any) -> tuple[Any, Any]:
    return 1 / (N1 + N2 * r), r / (N1 + N2 * r)


def _eq44_printed(N1: Any, N2: Any, r: Any, lam: Any, level: int) -> tuple[Any, ...]:
    total = N1 + N2 * r
    i_j = 1 if level == 1 else r
    return (
        (total + lam * i_j) / total / (1 + lam),
        lam / total / (1 + lam),
        lam * r / total / (1 + lam),
        sp.Integer(0),
    )


def _eq44_derive(N1: Any, N2: Any, gamma2_1: Any, gamma2_2: Any, r: Any, lam: Any, level: int,
                 own_noise: int) -> Derivation:  # fmt: skip
    d = Derivation()
    w = d.say("The server's estimate is theta = sum w_i psi_i with weights", _eq44_weights(N1, N2, r))
    d.say("The client's own term in it is w_j psi_j = w_j (y_j + l_j)" + ("." if own_noise else ", used as w_j y_j."))
    d.say("The minimiser of |t - y_j|^2/2 + lam |t - theta|^2/2 is t = (y_j + lam theta)/(1 + lam). Collect terms.")
    own, noise = (1 + lam * w[level - 1]) / (1 + lam), (N1 * gamma2_1, N2 * gamma2_2)[level - 1]
    left = own_noise * (lam * w[level - 1] / (1 + lam)) ** 2 * noise
    return d.conclude(
        "Coefficients on y_j and on the others' messages of levels 1 and 2, and the variance that l_j leaves in t:",
        (own, lam * w[0] / (1 + lam), lam * w[1] / (1 + lam), left),
    )


def _eq44_oracle(N1: Any, N2: Any, gamma2_1: Any, gamma2_2: Any, r: Any, lam: Any, level: int,
                 own_noise: int) -> tuple[Any, ...]:  # fmt: skip
    """Assemble the estimate from concrete clients and read the coefficients off its noise terms."""
    clients, levels = concrete([N1, N2], [gamma2_1, gamma2_2], 1, 1)
    j = levels.index(level)
    raw = [1 if i == 1 else r for i in levels]
    messages = list(clients.message)
    if not own_noise:
        messages[j] = clients.estimate[j]
    theta = clients.weighted([x / sum(raw) for x in raw], messages)
    t = (clients.estimate[j] + theta.times(lam)).times(1 / (1 + lam))
    one = {i: next(c for c, x in enumerate(levels) if x == i and c != j) for i in (1, 2)}
    left = t.terms.get(f"l{j}", 0) ** 2 * clients.variance[f"l{j}"]
    return tuple(rational(x) for x in (t.terms[f"e{j}"], t.terms[f"e{one[1]}"], t.terms[f"e{one[2]}"], left))


def _eq44_computed(N1: float, N2: float, gamma2_1: float, gamma2_2: float, r: float, lam: float, level: int,
                   own_noise: int) -> tuple[float, ...]:  # fmt: skip
    w = _eq44_weights(N1, N2, r)
    u = lam / (1 + lam)
    noise = (N1 * gamma2_1, N2 * gamma2_2)[level - 1]
    return (
        (1 + lam * w[level - 1]) / (1 + lam),
        u * w[0],
        u * w[1],
        own_noise * (u * w[level - 1]) ** 2 * noise,
    )


def _eq44_simulate(N1: int, N2: int, gamma2_1: float, gamma2_2: float, r: float,
                   lam: float, level: int, own_noise: int) -> simulation.Simulation:  # fmt: skip
    noise = [N1 * gamma2_1, N2 * gamma2_2]
    fed = simulation.federation([N1, N2], 1.0, 1.0, noise)
    client = fed.start[level - 1]
    w = np.repeat(_eq44_weights(N1, N2, r), [N1, N2])
    u = lam / (1 + lam)
    t, silent = (
        u * returned_model(w, client, back) + (1 - u) * simulation.vector(1, p=1.0, e=1.0) for back in (own_noise, 0)
    )
    # Coefficients are covariances with the noise terms they multiply: e_j has variance 1.
    pairs = [(t, simulation.vector(1, e=1.0))]
    labels, of = ["coefficient on y_j"], [0]
    if own_noise:
        pairs.append((t - silent, t - silent))
        labels.append("own noise left in t")
        of.append(3)
    return simulation.mean_products(fed, client, w, pairs, labels, of=of)


register(
    Claim(
        id="fedhdp:eq44",
        title="The personalised estimate as a combination of messages",
        place="Appendix A.3, (43)-(44)",
        statement="The client's solution puts these coefficients on its own estimate and on the others' messages, and "
        "nothing of its own message noise stays in it.",
        latex=r"\hat\theta_j(\lambda_j)=\frac{1}{1+\lambda_j}\bigg(\frac{(N_1+N_2r)+\lambda_ji_j}{N_1+N_2r}\hat\phi_j+"
        r"\frac{\lambda_j}{N_1+N_2r}\sum_{\mathcal C_1,i\neq j}\psi_i+\frac{\lambda_jr}{N_1+N_2r}"
        r"\sum_{\mathcal C_2,i\neq j}\psi_i\bigg)",
        kind="identity",
        variables=(*PAIRS, GAMMA2_1, GAMMA2_2, R, LAM_FINITE, LEVEL, OWN_NOISE),
        examples=(
            {"N1": 2, "N2": 2, "gamma2_1": "1/2", "gamma2_2": 1, "r": "1/2", "lam": 1, "level": 2},
            {"N1": 2, "N2": 2, "gamma2_1": 1, "gamma2_2": 2, "r": 1, "lam": 3, "level": 1, "own_noise": 1},
        ),
        printed=_eq44_printed,
        derive=_eq44_derive,
        oracle=_eq44_oracle,
        computed=_eq44_computed,
        simulate=_eq44_simulate,
        condition=own_noise_condition,
        condition_text=OWN_NOISE_TEXT,
        counterexample={
            "N1": 2, "N2": 2, "gamma2_1": 0, "gamma2_2": 1, "r": 1, "lam": 1, "level": 2, "own_noise": 1,
        },
        entries=("own estimate", "message of level 1", "message of level 2", "own noise left, variance"),
        unit="dimensionless; variance",
        remark="Algorithms 1-3 return theta with psi_j = phi_hat_j + l_j in it; (44) silently writes phi_hat_j for psi_j.",
    )
)  # fmt: skip


# --- Lemma 3 -------------------------------------------------------------------------------------------------------


def _units(v: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """N, Upsilon2, Gamma2_1, Gamma2_2."""
    (a, b), (g1, g2) = lists(v)
    return a + b, v["tau2"] / v["alpha2"], a * g1 / v["alpha2"], b * g2 / v["alpha2"]


def eq47(**v: Any) -> Any:
    """Equation (47), verbatim."""
    N, Y, G1, G2 = _units(v)
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


def _matched(which: str):
    """Strength that makes one coefficient of (44) equal that of (42), from weights w and Bayes weights k."""

    def solve(v: dict[str, Any], bayes: tuple[Any, Any, Any], weights: list[Any]) -> Any:
        if which == "own":
            return (1 - bayes[0]) / (bayes[0] - weights[v["level"] - 1])
        i = 1 if which == "first" else 2
        return bayes[i] / (weights[i - 1] - bayes[i])

    def derive(**v: Any) -> Derivation:
        d = Derivation()
        best = _bayes(v, d)
        d.say("Bayes weights on y, on messages of level 1 and of level 2:", best.weights)
        sizes, gamma2s = lists(v)
        w = precision_weights(sizes, message_variances(sizes, gamma2s, v["alpha2"] + v["tau2"]))
        d.say("Server weights at r*:", tuple(w))
        what = {"own": "(1 + lam w_j)/(1 + lam) = weight on y", "first": "lam w_1/(1 + lam) = weight of level 1",
                "second": "lam w_2/(1 + lam) = weight of level 2"}[which]  # fmt: skip
        return d.conclude(f"Solve {what} for lam:", simplest(solve(v, best.weights, w)))

    def oracle(**v: Any) -> Any:
        _, sizes, gamma2s, alpha2, tau2 = setting(v)
        clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
        w = clients.posterior(clients.centre, clients.message)[0]
        weights = [rational(w[levels.index(i)]) for i in (1, 2)]
        return solve(v, _bayes_weights(**v), weights)

    return derive, oracle


def _eq49_printed(corrected: bool = False):
    def formula(**v: Any) -> Any:
        s1, s2, m, n = _s(v)
        sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
        r, mix = s1 / s2, n * s1 + m * s2
        i_j = 1 if v["level"] == 1 else r
        total = v["N1"] + v["N2"] * r
        # Printed: sigma_c^2 and an undefined sigma_p^2, read as sigma_{p_2}^2, left over from the opt-out case.
        inner = mix if corrected else n * sigma2_c + m * s2
        bottom = total * (tau2 * mix + s1 * s2) - i_j * (sigma2_c * inner + s1 * s2)
        return total * (sigma2_c * mix - tau2 * mix) / bottom

    return formula


def _eq50_printed(**v: Any) -> Any:
    s1, s2, m, n = _s(v)
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
        printed=_eq49_printed(),
        derive=_matched("own")[0],
        oracle=_matched("own")[1],
        corrected=_eq49_printed(corrected=True),
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
        derive=_matched("first")[0],
        oracle=_matched("first")[1],
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
        derive=_matched("second")[0],
        oracle=_matched("second")[1],
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
        printed=lambda **v: (_eq49_printed(corrected=True)(**v) + 2 * _eq50_printed(**v)) / 3,
        derive=_eq52_derive,
        oracle=lambda **v: concrete_strength(*setting(v), 0),
        **{**THREE, "related": ("fedhdp:eq49", "fedhdp:eq50", "fedhdp:eq51")},
        remark="True because at r = r* the three are equal, so that any average would do; (49) enters as corrected. The "
        "equality of the three is what makes the estimate Bayes optimal.",
    )
)


# --- limits after Lemma 3 ------------------------------------------------------------------------------------------


def both_levels(function: Any) -> Any:
    """Evaluate a function of a level at both levels, as a tuple."""
    return lambda **v: (function(**v, level=1), function(**v, level=2))


def _same_noise(**v: Any) -> dict[str, Any]:
    return {**v, "gamma2_1": v["N2"] * v["gamma2_2"] / v["N1"]}


def _limit_derive(text: str, change: Any) -> Any:
    def derive(**v: Any) -> Derivation:
        d = Derivation()
        found = []
        for level in (1, 2):
            at = change(**v)
            found.append(d.lemma("fedhdp:lemma3:lambda", f"in level {level}, {text}", **at, level=level))
        return d.conclude("So", tuple(found))

    return derive


def _r1_printed(**v: Any) -> tuple[Any, Any]:
    N, Y, _, G = _units({**v, "gamma2_1": sp.Integer(0)})
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
        derive=_limit_derive("with N_1 gamma2_1 = N_2 gamma2_2", _same_noise),
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

ALL = Variable("N", "size", "clients in all", low=2)


def _one_level(v: dict[str, Any], own_noise: int | None = None) -> tuple[Any, ...]:
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
TAU2_POSITIVE = Variable("tau2", "positive", "variance of the clients' parameters around the centre")
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
    from theory.papers.fedhdp.server import rational_limit

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
    N, _, G1, G2 = _units({**v, "tau2": sp.Integer(0)})
    top = N + v["N2"] * G1 + v["N1"] * G2
    return top / (G1 * (1 + G2)), top / (G2 * (1 + G1))


def _homogeneous(**v: Any) -> dict[str, Any]:
    return {**v, "tau2": sp.Integer(0)}


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
        derive=_limit_derive("with tau2 = 0", _homogeneous),
        oracle=lambda **v: tuple(concrete_strength(*setting(_homogeneous(**v), i), v["own_noise"]) for i in (1, 2)),
        computed=lambda **v: _two_strengths({**v, "tau2": 0.0}),
        not_simulated="a limit; simulated in fedhdp:lemma3:lambda",
        condition=lambda own_noise: Eq(own_noise, 0),
        condition_text="own_noise == 0 (the client's own message noise is taken out of the model it gets back)",
        entries=("level 1", "level 2"),
        unit="dimensionless",
    )
)


# --- Theorems 5 and 8 ----------------------------------------------------------------------------------------------


def _thm5_derive(**v: Any) -> Derivation:
    d = Derivation()
    levels = {k: v[k] for k in ("N1", "N2", "gamma2_1", "gamma2_2")}
    ratio = d.lemma("fedhdp:lemma2:rstar", "the server's best ratio is", **levels, sigma2_c=v["alpha2"] + v["tau2"])
    return d.conclude("Ratio and strength:", (ratio, d.lemma("fedhdp:lemma3:lambda", "the best strength is", **v)))


register(
    Claim(
        id="fedhdp:thm5",
        title="FedHDP is optimal for the server and for every client",
        place="Appendix A.4, Theorem 5, (55)-(58)",
        statement="At r* and lambda_j* the algorithm converges to the Bayes optimal server and client estimates.",
        latex=r"r^*=\frac{\sigma_c^2+N_1\gamma_1^2}{\sigma_c^2+N_2\gamma_2^2},\quad " + EQ47_LATEX,
        kind="optimum",
        printed=lambda **v: (lambda s: (s[0] / s[1], eq47(**v)))(message_variances(*lists(v), v["alpha2"] + v["tau2"])),
        derive=_thm5_derive,
        oracle=lambda **v: (_ratio_oracle(**v), strength_oracle(**v)),
        computed=lambda **v: (
            aggregation.optimal_ratio(v["N1"], v["N2"], v["alpha2"], v["tau2"], v["gamma2_1"], v["gamma2_2"]),
            strength_computed(**v),
        ),
        simulate=lambda **v: simulate_strength(1, **v),
        entries=("r*", "lambda*"),
        unit="dimensionless",
        remark="The theorem is about the algorithm, in which the client's own noise comes back: its second half holds as "
        "printed only for clients without noise. " + BOTH_FORMS,
        **{**LEMMA3, "related": ("fedhdp:lemma4",)},
    )
)


def _ratio_oracle(**v: Any) -> Any:
    clients, levels = concrete(*lists(v), v["alpha2"], v["tau2"])
    w = clients.posterior(clients.centre, clients.message)[0]
    return rational(w[levels.index(2)] / w[levels.index(1)])


def _opt_out_strength(level: int, **v: Any) -> Derivation:
    d = Derivation()
    (N1, N2), (none, gamma2) = lists(v)
    lam = d.lemma("fedhdp:lemma3:lambda", "with level 1 non-private and level 2 private", N1=N1, N2=N2, gamma2_1=none,
                  gamma2_2=gamma2, alpha2=v["alpha2"], tau2=v["tau2"], level=level, own_noise=v["own_noise"])  # fmt: skip
    return d.conclude("That is", lam)


register(
    Claim(
        id="fedhdp:thm8:np",
        title="Optimal strength of a non-private client",
        place="Appendix B, Theorem 8, (82)",
        statement="A client that opted out does best with lambda = 1/Upsilon^2 = alpha2/tau2.",
        latex=r"\lambda_{\mathrm{np}}^*=\frac{1}{\Upsilon^2}",
        kind="optimum",
        # The answer depends on alpha2 and tau2 alone; the others' defaults are any federation.
        variables=(
            replace(N_NP, default=sp.Integer(1)),
            replace(N_P, default=sp.Integer(1)),
            ALPHA2,
            TAU2,
            replace(GAMMA2, default=sp.Integer(1)),
            OWN_NOISE,
        ),
        examples=OPT_OUT_EXAMPLES,
        printed=lambda alpha2, tau2: 1 / (tau2 / alpha2),
        derive=lambda **v: _opt_out_strength(1, **v),
        oracle=lambda **v: concrete_strength(*setting(v, 1), v["own_noise"]),
        computed=lambda **v: strength_computed(**v, level=1),
        simulate=lambda **v: simulate_strength(**v, level=1),
        objective=lambda x, **v: blend_objective(x, *setting(v, 1), v["own_noise"]),
        unit="dimensionless",
    )
)


def _eq83(**v: Any) -> Any:
    N, Y, _, G = _units(v)
    return (N + N * Y + (N - v["N_p"]) * G) / (N * Y * (Y + 1) + (N - v["N_p"] + 1) * Y * G + G)


register(
    Claim(
        id="fedhdp:thm8:p",
        title="Optimal strength of a private client",
        place="Appendix B, Theorem 8, (83)",
        statement="The strength with which a private client makes the least error, with opt-out.",
        latex=r"\lambda_{\mathrm p}^*=\frac{N+N\Upsilon^2+(N-N_{\mathrm p})\Gamma^2}{N\Upsilon^2(\Upsilon^2+1)+"
        r"(N-N_{\mathrm p}+1)\Upsilon^2\Gamma^2+\Gamma^2}",
        kind="optimum",
        variables=(*OPT_OUT, OWN_NOISE),
        examples=OPT_OUT_EXAMPLES,
        printed=_eq83,
        derive=lambda **v: _opt_out_strength(2, **v),
        oracle=lambda **v: concrete_strength(*setting(v, 2), v["own_noise"]),
        computed=lambda **v: strength_computed(**v, level=2),
        simulate=lambda **v: simulate_strength(**v, level=2),
        objective=lambda x, **v: blend_objective(x, *setting(v, 2), v["own_noise"]),
        condition=lambda **v: own_noise_condition(**v, level=2),
        condition_text=OWN_NOISE_TEXT,
        counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "own_noise": 1},
        unit="dimensionless",
        remark=BOTH_FORMS,
    )
)


# --- Tables 1 and 4 ------------------------------------------------------------------------------------------------


def _table1_derive(N1: Any, N2: Any, alpha2: Any, gamma2_2: Any) -> Derivation:
    d = Derivation()
    zero = sp.Integer(0)
    both = {"N1": N1, "N2": N2, "sigma2_c": alpha2}
    none = d.lemma("fedhdp:lemma2:rstar", "without privacy noise", **both, gamma2_1=zero, gamma2_2=zero)
    same = d.lemma("fedhdp:lemma2:rstar", "with equal noise per client", **both, gamma2_1=N2 * gamma2_2 / N1,
                   gamma2_2=gamma2_2)  # fmt: skip
    ratios = simplest(none), simplest(same)
    lam = d.lemma("fedhdp:lemma3:lambda", "with homogeneous data and no noise", N1=N1, N2=N2, alpha2=alpha2, tau2=zero,
                  gamma2_1=zero, gamma2_2=zero, level=1, own_noise=0)  # fmt: skip
    u = 1 if sp.sympify(lam).is_infinite else simplest(lam / (1 + lam))
    return d.conclude("Weight of the server's estimate then, after the two ratios:", (*ratios, sp.Integer(u)))


def _table1_oracle(N1: Any, N2: Any, alpha2: Any, gamma2_2: Any) -> tuple[Any, ...]:
    values = []
    for g1, g2 in ((0, 0), (N2 * gamma2_2 / N1, gamma2_2)):
        values.append(_ratio_oracle(N1=N1, N2=N2, alpha2=alpha2, tau2=0, gamma2_1=g1, gamma2_2=g2))
    return (*values, concrete_blend(1, [N1, N2], [0, 0], alpha2, 0, 0)[0])


register(
    Claim(
        id="fedhdp:table1",
        title="Special cases: FedAvg, Ditto and DP-FedAvg",
        place="Section 3.1.3, Table 1",
        statement="Without privacy, or with equal privacy, the server averages uniformly (FedAvg, DP-FedAvg: r* = 1); "
        "with homogeneous data and no privacy the client takes the server's estimate as it is (FedAvg, no Ditto).",
        latex=r"\text{FedAvg; DP-FedAvg+Ditto; FedAvg+Ditto; DP-FedAvg+Ditto}",
        kind="identity",
        variables=(N1, N2, ALPHA2, GAMMA2_2),
        examples=({"N1": 2, "N2": 3, "alpha2": 1, "gamma2_2": 1},),
        printed=lambda: (sp.Integer(1), sp.Integer(1), sp.Integer(1)),
        derive=_table1_derive,
        oracle=_table1_oracle,
        computed=lambda N1, N2, alpha2, gamma2_2: (
            aggregation.optimal_ratio(N1, N2, alpha2, 0.0, 0.0, 0.0),
            aggregation.optimal_ratio(N1, N2, alpha2, 0.0, N2 * gamma2_2 / N1, gamma2_2),
            1.0,
        ),
        not_simulated="special cases of claims that are simulated",
        entries=(
            "r*, no privacy",
            "r*, equal privacy",
            "weight of the server's estimate, IID and no privacy",
        ),
        unit="dimensionless",
    )
)


def _cell(v: dict[str, Any]) -> tuple[Any, ...]:
    return (1, [v["N"]], [v.get("gamma2", sp.Integer(0))], v["alpha2"], v.get("tau2", sp.Integer(0)))


def _float_cell(v: dict[str, Any]) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = _cell(v)
    return personalization.personalization_strength(
        level, sizes, [float(g) for g in gamma2s], alpha2, float(tau2), own_noise=bool(v.get("own_noise", 0))
    )


GAMMA2_POSITIVE = Variable("gamma2", "positive", "privacy noise variance of the average")
CELL: dict[str, Any] = {
    "kind": "identity",
    "derive": lambda **v: derive_strength(*_cell(v), v.get("own_noise", 0)),
    "oracle": lambda **v: concrete_strength(*_cell(v), v.get("own_noise", 0)),
    "computed": lambda **v: _float_cell(v),
    "simulate": simulate_one_level,
    "unit": "dimensionless",
}
register(
    Claim(
        id="fedhdp:table4:a",
        title="Homogeneous data, no privacy: FedAvg",
        place="Appendix B, Table 4, first cell and text",
        statement="Without noise and heterogeneity the strength is infinite: FedAvg without personalisation.",
        latex=r"\lambda_{\mathrm{np}}^*=\infty",
        variables=(ALL, ALPHA2),
        examples=({"N": 4, "alpha2": 1},),
        printed=lambda: sp.oo,
        related=("fedhdp:thm8:np",),
        **{**CELL, "simulate": None, "not_simulated": "an infinite strength; the finite ones are simulated"},
    )
)
register(
    Claim(
        id="fedhdp:table4:b",
        title="Heterogeneous data, no privacy: Ditto",
        place="Appendix B, Table 4 (heterogeneous data, no privacy) and text",
        statement="Without noise the strength is alpha2/tau2, as for Ditto.",
        latex=r"\lambda_{\mathrm{np}}^*=\frac{\alpha^2}{\tau^2}",
        variables=(replace(ALL, default=sp.Integer(2)), ALPHA2, TAU2_POSITIVE),
        examples=({"N": 4, "alpha2": 1, "tau2": "1/2"},),
        printed=lambda alpha2, tau2: alpha2 / tau2,
        related=("fedhdp:thm8:np",),
        **CELL,
    )
)
register(
    Claim(
        id="fedhdp:table4:c",
        title="Homogeneous data, homogeneous privacy",
        place="Appendix B, Table 4 (homogeneous data, homogeneous privacy) and text",
        statement="With IID clients that are all private the strength is 1/gamma2, and 0 for infinite noise.",
        latex=r"\lambda_{\mathrm p}^*=\frac{1}{\gamma^2}",
        variables=(ALL, ALPHA2, GAMMA2_POSITIVE, OWN_NOISE),
        examples=(
            {"N": 4, "alpha2": 2, "gamma2": 1},
            {"N": 4, "alpha2": 2, "gamma2": 1, "own_noise": 1},
        ),
        printed=lambda gamma2: 1 / gamma2,
        corrected=lambda N, alpha2, gamma2, own_noise: (
            alpha2 / gamma2 if own_noise == 0 else (N - 1) * alpha2 / (N * gamma2)
        ),
        corrected_text="alpha2/gamma2 (own noise taken out); (N-1) alpha2/(N gamma2) as the algorithm runs",
        slip="alpha^2 is missing in the numerator: (83) at tau2 = 0 and N_p = N is N/Gamma^2 = alpha^2/gamma^2; the "
        "printed value is not even dimensionless",
        counterexample={"N": 2, "alpha2": 2, "gamma2": 1},
        related=("fedhdp:thm8:p",),
        **CELL,
    )
)
register(
    Claim(
        id="fedhdp:table4:d",
        title="Heterogeneous data, homogeneous privacy",
        place="Appendix B, Table 4 (heterogeneous data, homogeneous privacy) and text",
        statement="With all clients private (rho_np = 0) the strength takes this value, and tends to 0 for infinite noise.",
        latex=r"\lambda_{\mathrm p}^*=\frac{N\alpha^2}{N\tau^2+(1-\rho_{\mathrm{np}})N\gamma^2}",
        variables=(ALL, ALPHA2, TAU2, GAMMA2, OWN_NOISE),
        examples=(
            {"N": 4, "alpha2": 1, "tau2": "1/2", "gamma2": "1/2"},
            {"N": 4, "alpha2": 1, "tau2": "1/2", "gamma2": "1/2", "own_noise": 1},
        ),
        printed=lambda N, alpha2, tau2, gamma2: N * alpha2 / (N * tau2 + N * gamma2),
        condition=lambda own_noise, gamma2: Or(Eq(own_noise, 0), Eq(gamma2, 0)),
        condition_text=OWN_NOISE_TEXT,
        related=("fedhdp:thm8:p",),
        **CELL,
    )
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

__all__ = ["eq47", "lists", "own_noise_condition", "returned_model", "setting", "simulate_one_level"]
