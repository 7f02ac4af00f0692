"""FedHDP beyond two privacy levels, what a client knows (Appendix A.6, (65)-(75)).

Belongs here: Bayes estimates for l levels, verified for l = 2 and 3 with symbolic sizes. Does not belong here: the server
(levels_server.py), strengths (levels_strength.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    bayes_computed,
    others_computed,
    simulated_centre,
    simulated_posterior,
    simulated_two_sources,
)
from theory.papers.fedhdp.level_sizes import (
    CLIENT,
    EXAMPLES,
    MEMBERS,
    SIZES2,
    ZERO,
    arguments,
    federation_of,
    leave_out,
    others_of,
    others_weights,
    pooled,
)
from theory.papers.shared import MODEL, ONE, concrete, concrete_bayes, message_variances, others_variance, scatter


def _eq68_printed(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    top, bottom = pooled(others_of(sizes, level), message_variances(sizes, gamma2s, alpha2 + tau2))
    return top / bottom


def _centre_without(d: Derivation, sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    s = scatter(sizes, gamma2s, alpha2 + tau2)
    d.say("Client j left out, level i has M_i members; precisions M_i/s_i of the levels add up.")
    return others_variance(level, sizes, s)


def _eq68_derive(**v: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Posterior variance of phi:", _centre_without(d, **v))


def _eq68_oracle(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> Any:
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    return rational(clients.posterior(clients.centre, [m for i, m in enumerate(clients.message) if i != j])[1])


def _eq68_simulate(**v: Any) -> simulation.Simulation:
    fed, client = federation_of(v)
    w = others_weights(fed, client)
    return simulation.mean_squares(fed, client, w, [simulation.vector(1, a0=1.0)], ["error of phi"])


register(
    Claim(
        id="fedhdp:eq68",
        assumes=MODEL,
        title="Variance of the centre without client j, l levels",
        place="Appendix A.6, (68), (71)",
        statement="Posterior variance of phi given the messages of all other clients.",
        latex=r"""\Sigma_{\phi^{\setminus j}}=\frac{\prod_{i\in[l]}\sigma_{p_i}^2}%
            {\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}I_d""",
        kind="identity",
        variables=CLIENT,
        examples=EXAMPLES,
        printed=_eq68_printed,
        derive=_eq68_derive,
        oracle=_eq68_oracle,
        computed=lambda **v: others_computed(*arguments(v))[1],
        simulate=_eq68_simulate,
        model=("LeastCentre",),
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
    top, bottom = pooled(others_of(sizes, level), message_variances(sizes, gamma2s, alpha2 + tau2))
    sigma2_c = alpha2 + tau2
    return 1 / (1 / ((top + tau2 * bottom) / bottom) + 1 / (sigma2_c - tau2))


def _eq74_simulate(**v: Any) -> simulation.Simulation:
    fed, client = federation_of(v)
    w = others_weights(fed, client)
    spread = v["tau2"] + float(np.sum(w**2 * fed.message_variances))
    u = v["alpha2"] / (v["alpha2"] + spread)
    error = simulation.vector(1, p=-u, e=1 - u, a0=u)
    return simulation.mean_squares(fed, client, w, [error], ["Bayes risk"])


register(
    Claim(
        id="fedhdp:eq74",
        assumes=MODEL,
        title="Bayes risk of a client, l levels",
        place="Appendix A.6, (74)",
        statement="Posterior variance of phi_j given the own estimate and all other messages.",
        latex=r"""\Sigma_{\theta_j^*}=\bigg(\Big(\frac{\prod_{i\in[l]}\sigma_{p_i}^2+\tau^2\sum_{i\in[l]}M_i%
            \prod_{k\in[l]\setminus i}\sigma_{p_k}^2}{\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}\Big)^{-1}%
            +(\sigma_c^2-\tau^2)^{-1}\bigg)^{-1}I_d""",
        kind="identity",
        variables=CLIENT,
        examples=EXAMPLES,
        printed=_eq74_printed,
        derive=_eq74_derive,
        oracle=lambda sizes, gamma2s, alpha2, tau2, level: concrete_bayes(level, sizes, gamma2s, alpha2, tau2),
        computed=lambda sizes, gamma2s, alpha2, tau2, level: personalization.bayes_mse(level, sizes, gamma2s, alpha2, tau2),
        simulate=_eq74_simulate,
        model=("LeastClient",),
        unit="variance",
    )
)


SPREAD_ADDED = """A draw from the posterior's spread is added to the estimate, as if it were part of it: that would double
    the error variance that the paper states for it."""
PAIRED = (SIZES2, *CLIENT[1:])
PAIRED_EXAMPLES = ({**EXAMPLES[0], "sizes": [2, 2, 2]}, EXAMPLES[1])


def _without(v: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """For corrected formulas: how many others there are in each level, and their messages' variances."""
    return (
        [n - 1 if i == v["level"] else n for i, n in enumerate(v["sizes"], 1)],
        [v["tau2"] + v["alpha2"] + n * g for n, g in zip(v["sizes"], v["gamma2s"], strict=True)],
    )


def _eq72_printed(**v: Any) -> tuple[Any, ...]:
    """Weights by the products of (72), and the error variance with p_phi of variance (68) added."""
    s = message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    top, bottom = pooled(others_of(v["sizes"], v["level"]), s)
    return (*(leave_out(s, i) / bottom for i in range(len(s))), top / bottom + top / bottom)


def _eq72_corrected(**v: Any) -> tuple[Any, ...]:
    counts, spread = _without(v)
    every = sp.Mul(*spread)
    bottom = sum(n * sp.Mul(*spread[:i], *spread[i + 1 :]) for i, n in enumerate(counts))
    return (*(sp.Mul(*spread[:i], *spread[i + 1 :]) / bottom for i in range(len(spread))), every / bottom)


def _eq72_derive(**v: Any) -> Derivation:
    d = Derivation()
    sizes = [n - (1 if i == v["level"] else 0) for i, n in enumerate(v["sizes"], 1)]
    s = scatter(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    seen = [Group(f"level {i}", ONE, x / n, ZERO, ZERO) for i, (n, x) in enumerate(zip(sizes, s, strict=True), 1)]
    d.say("Without client j, the mean of level i's M_i messages observes phi with variance s_i/M_i:",
          tuple(x / n for n, x in zip(sizes, s, strict=True)))  # fmt: skip
    best = posterior(CENTRE, [g.messages() for g in seen])
    each = tuple(simplest(w / n) for w, n in zip(best.weights, sizes, strict=True))
    return d.conclude("Weights of one message of each level, and the error variance:", (*each, best.variance))


def _eq72_oracle(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> tuple[Any, ...]:
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    rest = [i for i in range(len(levels)) if i != levels.index(level)]
    w, variance = clients.posterior(clients.centre, [clients.message[i] for i in rest])
    found = {levels[i]: rational(x) for i, x in zip(rest, w, strict=True)}
    return (*(found[i] for i in range(1, len(sizes) + 1)), rational(variance))


def _eq72_computed(**v: Any) -> list[float]:
    weights, variance = others_computed(*arguments(v))
    return [*weights, variance]


def _eq72_simulate(**v: Any) -> simulation.Simulation:
    """The others alone, as a federation: each level's mean against the rest."""
    noise = [n * g for n, g in zip(v["sizes"], v["gamma2s"], strict=True)]
    left = [int(n) - (i == v["level"]) for i, n in enumerate(v["sizes"], 1)]
    return simulated_centre(simulation.federation(left, v["tau2"], v["alpha2"], noise))


register(
    Claim(
        id="fedhdp:eq72",
        title="A client's estimate of the centre from all other messages, l levels",
        place="Appendix A.6, (65), (72)",
        statement="""The client computes the estimate of phi from the others' messages; what is added has the variance (66),
            independent of the messages. Judged: weights on a message of each level and the error variance of the
            estimate.""",
        latex=r"""\phi^{\setminus j}=\frac{1}{\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}\Big(\sum_{i=[l]}%
            \prod_{k_1\in[l]\setminus i}\sigma_{p_{k_1}}^2\sum_{c_{k_2}\in\mathcal C_i,k_2\neq j}\psi_i\Big)%
            +p_{\phi^{\setminus j}}""",
        kind="identity",
        variables=PAIRED,
        examples=PAIRED_EXAMPLES,
        printed=_eq72_printed,
        derive=_eq72_derive,
        oracle=_eq72_oracle,
        computed=_eq72_computed,
        simulate=_eq72_simulate,
        corrected=_eq72_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma",
        slip="as in (34): the estimate is the posterior mean alone; also, psi_i under the sum over k_2 is psi_{k_2}",
        finding=SPREAD_ADDED,
        counterexample=PAIRED_EXAMPLES[0],
        edits=(MEMBERS,),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq34", "fedhdp:eq68"),
        model=("BestWithout", "LeastCentre"),
    )
)


def _eq73_printed(**v: Any) -> tuple[Any, Any, Any]:
    top, bottom = pooled(
        others_of(v["sizes"], v["level"]), message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    )
    far, local = top / bottom + v["tau2"], v["alpha2"] + v["tau2"] - v["tau2"]
    risk = 1 / (1 / far + 1 / local)
    return risk / far, risk / local, risk + risk


def _eq73_corrected(**v: Any) -> tuple[Any, Any, Any]:
    counts, spread = _without(v)
    bottom = sum(n * sp.Mul(*spread[:i], *spread[i + 1 :]) for i, n in enumerate(counts))
    known = sp.Mul(*spread) / bottom + v["tau2"]
    least = 1 / (1 / known + 1 / v["alpha2"])
    return least / known, least / v["alpha2"], least


def _eq73_derive(**v: Any) -> Derivation:
    d = Derivation()
    best, V, centre = _two_sources(d, v)
    own, far = d.say("Weights on the own estimate and on phi given the others:", best.weights)
    at = tuple(x.subs(V, centre) for x in (far, own, best.variance))
    return d.conclude("With that V, weights on phi given the others and on the own estimate, and the error variance:", at)


def _eq73_oracle(**v: Any) -> tuple[Any, Any, Any]:
    """The weights on all messages of others add up to that on phi given them."""
    own, *each, risk = _eq75_oracle(**v)
    counts = [n - (i == v["level"]) for i, n in enumerate(v["sizes"], 1)]
    return sum(n * w for n, w in zip(counts, each, strict=True)), own, risk


def _eq73_computed(**v: Any) -> list[float]:
    own, *_, risk = bayes_computed(*arguments(v))
    _, variance = others_computed(*arguments(v))
    return [float(aggregation.precision_weights([v["tau2"] + variance, v["alpha2"]])[0]), own, risk]


def _eq73_simulate(**v: Any) -> simulation.Simulation:
    fed, client = federation_of(v)
    return simulated_two_sources(fed, client)


register(
    Claim(
        id="fedhdp:eq73",
        title="A client's Bayes estimate from its own and the centre given the others, l levels",
        place="Appendix A.6, (73)",
        statement="""The client weighs phi given the others and its own estimate by precision; what is added has the variance
            (74), independent of both. Judged: both weights and the error variance of the estimate.""",
        latex=r"""\theta_j^*=\Sigma_{\theta_j^*}\Big(\big((\frac{\prod_{i\in[l]}\sigma_{p_i}^2}%
            {\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}+\tau^2)I_d\big)^{-1}\phi^{\setminus j}+(%
            \sigma_c^2-\tau^2)^{-1}\hat\phi_j\Big)+p_{\theta_j^*}""",
        kind="identity",
        variables=PAIRED,
        examples=PAIRED_EXAMPLES,
        printed=_eq73_printed,
        derive=_eq73_derive,
        oracle=_eq73_oracle,
        computed=_eq73_computed,
        simulate=_eq73_simulate,
        corrected=_eq73_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma",
        slip="as in (34): the estimate is the posterior mean alone",
        finding=SPREAD_ADDED,
        counterexample=PAIRED_EXAMPLES[0],
        entries=("phi given the others", "own estimate", "error variance"),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq39", "fedhdp:eq74"),
        model=("BestBlend", "LeastClient"),
    )
)


def _eq75_printed(**v: Any) -> tuple[Any, ...]:
    s = message_variances(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    top, bottom = pooled(others_of(v["sizes"], v["level"]), s)
    risk = _eq74_printed(**v)
    return (
        risk / v["alpha2"],
        *(risk * leave_out(s, i) / (top + v["tau2"] * bottom) for i in range(len(s))),
        risk + risk,  # that of the estimate without p, and p
    )


def _eq75_corrected(**v: Any) -> tuple[Any, ...]:
    counts, spread = _without(v)
    each = [sp.Mul(*spread[:i], *spread[i + 1 :]) for i in range(len(spread))]
    bottom = sum(n * x for n, x in zip(counts, each, strict=True))
    far = sp.Mul(*spread) + v["tau2"] * bottom
    least = 1 / (bottom / far + 1 / v["alpha2"])
    return (least / v["alpha2"], *(least * x / far for x in each), least)


def _eq75_derive(**v: Any) -> Derivation:
    d = Derivation()
    best, V, centre = _two_sources(d, v)
    own, far = d.say("Weights on the own estimate and on phi given the others:", best.weights)
    s = scatter(v["sizes"], v["gamma2s"], v["alpha2"] + v["tau2"])
    each = tuple((far * V / x).subs(V, centre) for x in s)
    d.say("A message of level i has the share V/s_i of the second:", each)
    return d.conclude("These weights, and the error variance:", (own.subs(V, centre), *each, best.variance.subs(V, centre)))


def _eq75_oracle(sizes: list[Any], gamma2s: list[Any], alpha2: Any, tau2: Any, level: int) -> tuple[Any, ...]:
    clients, levels = concrete(sizes, gamma2s, alpha2, tau2)
    j = levels.index(level)
    rest = [i for i in range(len(levels)) if i != j]
    observed = [clients.estimate[j], *(clients.message[i] for i in rest)]
    w, variance = clients.posterior(clients.parameter[j], observed)
    found = {levels[i]: rational(x) for i, x in zip(rest, w[1:], strict=True)}
    return (rational(w[0]), *(found[i] for i in range(1, len(sizes) + 1)), rational(variance))


def _eq75_simulate(**v: Any) -> simulation.Simulation:
    fed, client = federation_of(v)
    return simulated_posterior(fed, client, np.repeat(np.arange(1, len(v["sizes"]) + 1), v["sizes"]).tolist())


register(
    Claim(
        id="fedhdp:eq75",
        title="Weights of a client's Bayes estimate, l levels",
        place="Appendix A.6, (75)",
        statement="""The Bayes estimate has these coefficients on the own estimate and on a message of each level, plus p of
            variance (74). Judged: the coefficients and the error variance of the estimate.""",
        latex=r"""\theta_j^*=\Sigma_{\theta_j^*}(\sigma_c^2-\tau^2)^{-1}\hat\phi_j+\Sigma_{\theta_j^*}\Big(\frac{1}%
            {\prod_{i\in[l]}\sigma_{p_i}^2+\tau^2\sum_{i\in[l]}M_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}%
            \sum_{i=[l]}\prod_{k_1\in[l]\setminus i}\sigma_{p_{k_1}}^2\sum_{c_{k_2}\in\mathcal C_i,k_2\neq j}\psi_i%
            \Big)+p_{\theta_j^*}""",
        kind="identity",
        variables=PAIRED,
        examples=PAIRED_EXAMPLES,
        printed=_eq75_printed,
        derive=_eq75_derive,
        oracle=_eq75_oracle,
        computed=lambda **v: list(bayes_computed(*arguments(v))),
        simulate=_eq75_simulate,
        model=("BestBlend", "LeastClient"),
        corrected=_eq75_corrected,
        corrected_text="the same coefficients without p: error variance (74), not twice as much",
        slip="as in (34): the estimate is the posterior mean alone; also, psi_i under the sum over k_2 is psi_{k_2}",
        finding=SPREAD_ADDED,
        counterexample=PAIRED_EXAMPLES[0],
        edits=(MEMBERS,),
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq74", "fedhdp:eq42"),
    )
)
