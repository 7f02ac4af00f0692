"""FedHDP, what a client knows and what it computes: Appendix A.3, (34)-(44).

Belongs here: the Bayes estimate of a client and the personalised one as combinations of messages. Does not belong here:
the strength that makes them agree (strength.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    EXAMPLES,
    OWN_NOISE_TEXT,
    PAIRS,
    TWO_LEVELS,
    bayes_computed,
    lists,
    others_computed,
    own_noise_condition,
    proof_terms,
    setting,
    simulated_centre,
    simulated_combination,
    simulated_federation,
    simulated_posterior,
    simulated_two_sources,
)
from theory.papers.shared import GAMMA2_1, GAMMA2_2, LEVEL, MODEL, ONE, OWN_NOISE, concrete, concrete_bayes, groups

LAM = Variable("lam", "nonnegative", "strength of the pull towards the server's estimate", extreme=False)
# --- the Bayes estimate: (37), (41), (42) --------------------------------------------------------------------------


def bayes_posterior(v: dict[str, Any], d: Derivation) -> Any:
    """Posterior of a client's parameter from its own estimate and the others' messages."""
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    own, others = groups(level, sizes, gamma2s, alpha2, tau2)
    d.say("""The client knows its own estimate y without noise and the messages of all others. Within a level these are
        exchangeable, so condition on y and the sums over each level.""")  # fmt: skip
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


register(
    Claim(
        id="fedhdp:eq37",
        assumes=MODEL,
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
        computed=lambda **v: others_computed(*setting(v))[1],
        simulate=_simulate_others,
        model=("LeastCentre",),
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _eq34_printed(**v: Any) -> tuple[Any, Any, Any]:
    """Weights by inverse covariances (36), and the error variance with p_phi of the same variance added."""
    s1, s2, m, n = proof_terms(v)
    variance = 1 / (m / s1 + n / s2)
    return variance / s1, variance / s2, variance + variance


def _eq34_corrected(**v: Any) -> tuple[Any, Any, Any]:
    first, second = (v["alpha2"] + v["tau2"] + v[f"N{i}"] * v[f"gamma2_{i}"] for i in (1, 2))
    m, n = (v[f"N{i}"] - (1 if v["level"] == i else 0) for i in (1, 2))
    variance = 1 / (m / first + n / second)
    return variance / first, variance / second, variance


def _eq34_derive(**v: Any) -> Derivation:
    d = Derivation()
    _, others = groups(*setting(v))
    d.say("The estimate with the least error is the mean of phi given the messages: a combination of them and nothing else.")
    best = posterior(CENTRE, [g.messages() for g in others])
    return d.conclude("Weights on one message of each level, and the error variance:", (*best.weights, best.variance))


def _eq34_oracle(**v: Any) -> tuple[Any, Any, Any]:
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    rest = [i for i in range(len(levels)) if i != levels.index(level)]
    w, variance = clients.posterior(clients.centre, [clients.message[i] for i in rest])
    of_level = {levels[i]: rational(x) for i, x in zip(rest, w, strict=True)}
    return of_level[1], of_level[2], rational(variance)


def _eq34_computed(**v: Any) -> tuple[float, ...]:
    weights, variance = others_computed(*setting(v))
    return (*weights, variance)


def _eq34_simulate(**v: Any) -> simulation.Simulation:
    """The others alone, as a federation."""
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    noise = [float(n * g) for n, g in zip(sizes, gamma2s, strict=True)]
    left = [int(n - (i == level)) for i, n in enumerate(sizes, 1)]
    return simulated_centre(simulation.federation(left, tau2, alpha2, noise))


SPREAD_ADDED = """A draw from the posterior's spread is added to the estimate, as if it were part of it: that would double
    the error variance that the paper states for it."""
register(
    Claim(
        id="fedhdp:eq34",
        title="A client's estimate of the centre from all other messages",
        place="Appendix A.3, (34)-(36)",
        statement="""The client computes the estimate of phi from the others' messages by precision weights; what is added
            has the variance (35), independent of the messages. Judged: weights on a message of each level and the error
            variance of the estimate.""",
        latex=r"""\phi^{\setminus j}=\Sigma_{\phi^{\setminus j}}\Big(\sum_{i=[N]\setminus j}\Sigma_i^{-1}\psi_i\Big)%
            +p_{\phi^{\setminus j}},\quad p_{\phi^{\setminus j}}\sim\mathcal N(0,\Sigma_{\phi^{\setminus j}})""",
        kind="identity",
        variables=(*PAIRS, *TWO_LEVELS[2:]),
        examples=EXAMPLES,
        printed=_eq34_printed,
        derive=_eq34_derive,
        oracle=_eq34_oracle,
        computed=_eq34_computed,
        simulate=_eq34_simulate,
        corrected=_eq34_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma",
        slip="""Lemma 1 describes phi itself, which is its posterior mean plus a spread p of variance Sigma; the estimate is
            the mean alone""",
        finding=SPREAD_ADDED,
        counterexample=EXAMPLES[0],
        entries=("message of level 1", "message of level 2", "error variance"),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:lemma1", "fedhdp:eq37", "fedhdp:eq30"),
        model=("BestWithout", "LeastCentre"),
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
        assumes=MODEL,
        title="Bayes risk of a client",
        place="Appendix A.3, (41)",
        statement="Posterior variance of phi_j given the client's own estimate and the messages of all others.",
        latex=r"""\Sigma_{\theta_j^*}=\frac{(\sigma_c^2-\tau^2)\big(\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+m%
            \sigma_{p_2}^2)\big)}{\sigma_c^2\big(n\sigma_{p_1}^2+m\sigma_{p_2}^2\big)+\sigma_{p_1}^2\sigma_{p_2}^2}I_d""",
        kind="identity",
        variables=TWO_LEVELS,
        examples=EXAMPLES,
        printed=_eq41_printed,
        derive=_eq41_derive,
        oracle=lambda **v: concrete_bayes(*setting(v)),
        computed=lambda **v: personalization.bayes_mse(*setting(v)),
        simulate=bayes_simulation,
        model=("LeastClient",),
        unit="variance",
    )
)


def _eq39_printed(**v: Any) -> tuple[Any, Any, Any]:
    s1, s2, m, n = proof_terms(v)
    tau2, local = v["tau2"], v["alpha2"] + v["tau2"] - v["tau2"]
    mix = n * s1 + m * s2
    far = mix / (s1 * s2 + tau2 * mix)
    risk = 1 / (far + 1 / local)
    return risk * far, risk / local, risk + risk


def _eq39_corrected(**v: Any) -> tuple[Any, Any, Any]:
    first, second = (v["alpha2"] + v["tau2"] + v[f"N{i}"] * v[f"gamma2_{i}"] for i in (1, 2))
    m, n = (v[f"N{i}"] - (1 if v["level"] == i else 0) for i in (1, 2))
    top = n * first + m * second
    far = top / (first * second + v["tau2"] * top)
    risk = 1 / (far + 1 / v["alpha2"])
    return risk * far, risk / v["alpha2"], risk


def _eq39_derive(**v: Any) -> Derivation:
    d = Derivation()
    centre = d.lemma("fedhdp:eq37", "the others' messages tell phi with the variance", **v)
    V = sp.Symbol("V", positive=True)
    far = Group("others", ONE, V, sp.Integer(0), sp.Integer(0))
    own = Group("own", ONE, v["tau2"], v["alpha2"], sp.Integer(0))
    best = posterior(own.parameters(), [far.messages(), own.estimates()])
    d.say("Best weights on phi given the others, known with variance V, and on the own estimate:", best.weights)
    at = tuple(x.subs(V, centre) for x in (*best.weights, best.variance))
    return d.conclude("With that V, weights and error variance:", at)


def _eq39_oracle(**v: Any) -> tuple[Any, Any, Any]:
    """On concrete clients: the weights on the messages add up to that on phi given the others."""
    own, first, second, risk = bayes_weights_oracle(**v)
    counts = {i: v[f"N{i}"] - (v["level"] == i) for i in (1, 2)}
    return counts[1] * first + counts[2] * second, own, risk


def _eq39_computed(**v: Any) -> tuple[float, float, float]:
    own, *_, risk = bayes_computed(*setting(v))
    _, variance = others_computed(*setting(v))
    return float(aggregation.precision_weights([v["tau2"] + variance, v["alpha2"]])[0]), own, risk


def _eq39_simulate(**v: Any) -> simulation.Simulation:
    fed, client, _ = simulated_federation(v, v["level"])
    return simulated_two_sources(fed, client)


register(
    Claim(
        id="fedhdp:eq39",
        title="A client's Bayes estimate from its own and the centre given the others",
        place="Appendix A.3, (38)-(39)",
        statement="""The client weighs phi given the others and its own estimate by precision; what is added has the variance
            (40), independent of both. Judged: both weights and the error variance of the estimate.""",
        latex=r"""\theta_j^*=\Sigma_{\theta_j^*}\bigg(\Big(\frac{n\sigma_{p_1}^2+m\sigma_{p_2}^2}%
            {\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)}\Big)\phi^{\setminus j}+\frac{1}%
            {\sigma_c^2-\tau^2}\hat\phi_j^*\bigg)+p_{\theta_j}""",
        kind="identity",
        variables=(*PAIRS, *TWO_LEVELS[2:]),
        examples=EXAMPLES,
        printed=_eq39_printed,
        derive=_eq39_derive,
        oracle=_eq39_oracle,
        computed=_eq39_computed,
        simulate=_eq39_simulate,
        corrected=_eq39_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma",
        slip="as in (34): the mean of phi_j given what the client knows has no spread of its own",
        finding=SPREAD_ADDED,
        counterexample=EXAMPLES[0],
        edits=(
            Edit(printed=r"\hat\phi_j^*", read=r"\hat\phi_j", reason="(38) has the local estimate without a star"),
            Edit(printed=r"p_{\theta_j}", read=r"p_{\theta_j^*}", reason="(38) and the line after it call it so"),
        ),
        entries=("phi given the others", "own estimate", "error variance"),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq34", "fedhdp:eq41"),
        model=("BestBlend", "LeastClient"),
    )
)


def _eq42_printed(**v: Any) -> tuple[Any, ...]:
    s1, s2, m, n = proof_terms(v)
    sigma2_c, tau2 = v["alpha2"] + v["tau2"], v["tau2"]
    mix = n * s1 + m * s2
    bottom = sigma2_c * mix + s1 * s2
    risk = (sigma2_c - tau2) * (s1 * s2 + tau2 * mix) / bottom
    first, second = s2 * (sigma2_c - tau2) / bottom, s1 * (sigma2_c - tau2) / bottom
    # The estimate without p attains (41); p, of variance (41) and independent of all data, comes on top.
    return (s1 * s2 + tau2 * mix) / bottom, first, second, risk + risk


def _eq42_corrected(**v: Any) -> tuple[Any, ...]:
    first, second = (v["alpha2"] + v["tau2"] + v[f"N{i}"] * v[f"gamma2_{i}"] for i in (1, 2))
    m, n = (v[f"N{i}"] - (1 if v["level"] == i else 0) for i in (1, 2))
    mix = n * first + m * second
    bottom = (v["alpha2"] + v["tau2"]) * mix + first * second
    own = (first * second + v["tau2"] * mix) / bottom
    return own, second * v["alpha2"] / bottom, first * v["alpha2"] / bottom, v["alpha2"] * own


def _eq42_derive(**v: Any) -> Derivation:
    d = Derivation()
    best = bayes_posterior(v, d)
    return d.conclude("Weights on y, on a message of level 1, on a message of level 2, and the error variance:",
                      (*best.weights, best.variance))  # fmt: skip


def bayes_weights_oracle(**v: Any) -> tuple[Any, ...]:
    """Bayes weights on the own estimate and a message of each level, and the risk, on concrete clients."""
    level, sizes, gamma2s, alpha2, tau2 = setting(v)
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    rest = [i for i in range(len(levels)) if i != j]
    observed = [clients.estimate[j], *(clients.message[i] for i in rest)]
    w, variance = clients.posterior(clients.parameter[j], observed)
    of_level = {levels[i]: rational(w[1 + k]) for k, i in enumerate(rest)}
    own, *others = (rational(w[0]), *(of_level.get(i, sp.Integer(0)) for i in (1, 2)))  # a level may have no others
    return own, *others, rational(variance)


def _eq42_simulate(**v: Any) -> simulation.Simulation:
    fed, client, _ = simulated_federation(v, v["level"])
    return simulated_posterior(fed, client, np.repeat([1, 2], lists(v)[0]).tolist())


register(
    Claim(
        id="fedhdp:eq42",
        title="Weights of a client's Bayes estimate",
        place="Appendix A.3, (42)",
        statement="""The Bayes estimate has these coefficients on the own estimate and on the messages of both levels, plus p
            of variance (41). Judged: the coefficients and the error variance of the estimate.""",
        latex=r"""\theta_j^*=\frac{\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)}%
            {\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2}\hat\phi_j+%
            \frac{\sigma_{p_2}^2(\sigma_c^2-\tau^2)}{\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2%
            \sigma_{p_2}^2}\sum_{\mathcal C_1,i\neq j}\psi_i+\frac{\sigma_{p_1}^2(\sigma_c^2-\tau^2)}%
            {\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2}\sum_{\mathcal C_2,i\neq j}\psi_i%
            +p_{\theta_j^*}""",
        kind="identity",
        variables=(*PAIRS, *TWO_LEVELS[2:]),
        examples=EXAMPLES,
        printed=_eq42_printed,
        derive=_eq42_derive,
        oracle=bayes_weights_oracle,
        computed=lambda **v: bayes_computed(*setting(v)),
        simulate=_eq42_simulate,
        model=("BestBlend", "LeastClient"),
        corrected=_eq42_corrected,
        corrected_text="the same coefficients without p: error variance (41), not twice as much",
        slip="as in (34): the mean of phi_j given what the client knows has no spread of its own",
        finding=SPREAD_ADDED,
        counterexample=EXAMPLES[0],
        entries=("own estimate", "message of level 1", "message of level 2", "error variance"),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq41", "fedhdp:eq39"),
    )
)


# --- (44): what the client computes --------------------------------------------------------------------------------

R = Variable("r", "nonnegative", "weight of a level-2 message over that of a level-1 message", extreme=False)


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
    w = d.say("The server's estimate is theta = sum w_i psi_i with weights", (1 / (N1 + N2 * r), r / (N1 + N2 * r)))
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


def _eq44_simulate(N1: int, N2: int, gamma2_1: float, gamma2_2: float, r: float,
                   lam: float, level: int, own_noise: int) -> simulation.Simulation:  # fmt: skip
    fed = simulation.federation([N1, N2], 1.0, 1.0, [N1 * gamma2_1, N2 * gamma2_2])
    return simulated_combination(fed, [N1, N2], [1.0, r], lam, level, own_noise)


def _eq44_float(N1: int, N2: int, gamma2_1: float, gamma2_2: float, r: float, lam: float, level: int, own_noise: int):
    own, messages, noise = personalization.message_weights(
        lam, level, [N1, N2], [gamma2_1, gamma2_2], 1.0, 0.0, [1.0, r], own_noise=bool(own_noise)
    )
    return own, *messages, noise


register(
    Claim(
        id="fedhdp:eq44",
        title="The personalised estimate as a combination of messages",
        place="Appendix A.3, (43)-(44)",
        statement="""The client's solution puts these coefficients on its own estimate and on the others' messages, and
            nothing of its own message noise stays in it.""",
        latex=r"""\hat\theta_j(\lambda_j)=\frac{1}{1+\lambda_j}\bigg(\frac{(N_1+N_2r)+\lambda_ji_j}{N_1+N_2r}\hat\phi_j+%
            \frac{\lambda_j}{N_1+N_2r}\sum_{\mathcal C_1,i\neq j}\psi_i+\frac{\lambda_jr}{N_1+N_2r}%
            \sum_{\mathcal C_2,i\neq j}\psi_i\bigg)""",
        kind="identity",
        variables=(*PAIRS, GAMMA2_1, GAMMA2_2, R, LAM, LEVEL, OWN_NOISE),
        examples=(
            {"N1": 2, "N2": 2, "gamma2_1": "1/2", "gamma2_2": 1, "r": "1/2", "lam": 1, "level": 2},
            {"N1": 2, "N2": 2, "gamma2_1": 1, "gamma2_2": 2, "r": 1, "lam": 3, "level": 1, "own_noise": 1},
        ),
        printed=_eq44_printed,
        derive=_eq44_derive,
        oracle=_eq44_oracle,
        computed=_eq44_float,
        assumes=MODEL | {"pivot": "model"},
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
