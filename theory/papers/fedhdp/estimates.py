"""FedHDP, what a client knows and what it computes: Appendix A.1, (8)-(10), and A.3, (37)-(44).

Belongs here: the Bayes estimate of a client and the personalised one as combinations of messages. Does not belong here:
the strength that makes them agree (strength.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import CENTRE, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    EXAMPLES,
    OWN_NOISE_TEXT,
    PAIRS,
    TWO_LEVELS,
    own_noise_condition,
    proof_terms,
    returned_model,
    setting,
    simulated_federation,
)
from theory.papers.shared import GAMMA2_1, GAMMA2_2, LEVEL, OWN_NOISE, concrete, concrete_bayes, groups

LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
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


def bayes_posterior(v: dict[str, Any], d: Derivation) -> Any:
    """Posterior of a client's parameter from its own estimate and the others' messages."""
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


def _eq37_printed(**v: Any) -> Any:
    s1, s2, m, n = proof_terms(v)
    return s1 * s2 / (n * s1 + m * s2)


def _simulate_others(**v: Any) -> simulation.Simulation:
    fed, client, _ = simulated_federation(v, v["level"])
    w = 1 / fed.message_variances
    w[client] = 0.0
    w /= w.sum()
    return simulation.mean_squares(fed, client, w, [simulation.vector(1, a0=1.0)], ["error of phi"])


def _others_computed(**v: Any) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    sizes = [n - (i == level) for i, n in enumerate(sizes, 1)]
    kept = [(n, g * (n + (i == level))) for i, (n, g) in enumerate(zip(sizes, gamma2s, strict=True), 1) if n > 0]
    return aggregation.server_mse([n for n, _ in kept], [g / n for n, g in kept], alpha2, tau2)


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
        computed=_others_computed,
        simulate=_simulate_others,
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _eq41_printed(**v: Any) -> Any:
    s1, s2, m, n = proof_terms(v)
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
    s1, s2, m, n = proof_terms(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    mix = n * s1 + m * s2
    bottom = sigma2_c * mix + s1 * s2
    return (s1 * s2 + tau2 * mix) / bottom, s2 * (sigma2_c - tau2) / bottom, s1 * (sigma2_c - tau2) / bottom


def _eq42_derive(**v: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Weights on y, on a message of level 1, on a message of level 2:", bayes_posterior(v, d).weights)


def bayes_weights_oracle(**v: Any) -> tuple[Any, Any, Any]:
    """Bayes weights on the own estimate and a message of each level, on concrete clients."""
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    rest = [i for i in range(len(levels)) if i != j]
    w = clients.posterior(clients.parameter[j], [clients.estimate[j], *(clients.message[i] for i in rest)])[0]
    of_level = {levels[i]: rational(w[1 + k]) for k, i in enumerate(rest)}
    return rational(w[0]), of_level[1], of_level[2]


def _eq42_computed(**v: Any) -> tuple[float, float, float]:
    s1, s2, m, n = (float(x) for x in proof_terms(v))
    centre = 1 / (m / s1 + n / s2)
    own = (v["tau2"] + centre) / (v["tau2"] + centre + v["alpha2"])
    share = v["alpha2"] / (v["tau2"] + centre + v["alpha2"]) * centre
    return own, share / s1, share / s2


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
        oracle=bayes_weights_oracle,
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
