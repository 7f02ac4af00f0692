"""FedHDP beyond two privacy levels, the server (Appendix A.6, (59)-(64)).

Belongs here: claims on the global estimate for l levels, verified for l = 2 and 3 with symbolic sizes. Does not belong
here: clients (levels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Group, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import simulated_centre, without_last
from theory.papers.fedhdp.level_sizes import SERVER, SERVER_EXAMPLES, SIZES2, ZERO, pooled
from theory.papers.shared import MODEL, ONE, concrete, message_variances, scatter


def _server_posterior(d: Derivation, sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Any:
    s = d.say("Message variances per level:", tuple(scatter(sizes, gamma2s, sigma2_c)))
    d.say("""Exchangeable within a level, so condition phi on the level sums; a level sum of n messages observes n phi with
        noise n s_i, an observation of precision n/s_i. Precisions add up.""")  # fmt: skip
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
    top, bottom = pooled(sizes, message_variances(sizes, gamma2s, sigma2_c))
    return top / bottom


def _server_simulate(sizes: list[int], gamma2s: list[float], sigma2_c: float):
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    fed = simulation.federation(sizes, sigma2_c / 2, sigma2_c / 2, noise)
    w = np.repeat(aggregation.level_weights(sizes, gamma2s, sigma2_c, 0.0), sizes)
    return simulation.mean_squares(fed, 0, w, [simulation.vector(1, a0=1.0)], ["server MSE"])


register(
    Claim(
        id="fedhdp:eq61",
        assumes=MODEL,
        title="Server error variance, l privacy levels",
        place="Appendix A.6, (61)",
        statement="Posterior variance of the centre given all messages.",
        latex=r"""\Sigma_\theta=\Big(\frac{\prod_{i\in[l]}\sigma_{p_i}^2}%
            {\sum_{i\in[l]}N_i\prod_{k\in[l]\setminus i}\sigma_{p_k}^2}\Big)I_d""",
        kind="identity",
        variables=SERVER,
        examples=SERVER_EXAMPLES,
        printed=_eq61_printed,
        derive=_eq61_derive,
        oracle=lambda **v: _server_oracle(**v)[1],
        computed=lambda sizes, gamma2s, sigma2_c: aggregation.server_mse(sizes, gamma2s, sigma2_c, 0.0),
        simulate=_server_simulate,
        model=("LeastCentre",),
        unit="variance",
        related=("fedhdp:lemma1",),
    )
)


def _eq60_printed(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> tuple[Any, ...]:
    """Weights by inverse covariances, and the error variance with p_theta of the same variance added."""
    s = message_variances(sizes, gamma2s, sigma2_c)
    variance = 1 / sum(n / x for n, x in zip(sizes, s, strict=True))
    return (*(variance / x for x in s), variance + variance)


def _eq60_corrected(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> tuple[Any, ...]:
    spread = [sigma2_c + n * g for n, g in zip(sizes, gamma2s, strict=True)]
    least = 1 / sum(n / x for n, x in zip(sizes, spread, strict=True))
    return (*(least / x for x in spread), least)


def _eq60_derive(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> Derivation:
    d = Derivation()
    best = _server_posterior(d, sizes, gamma2s, sigma2_c)
    each = tuple(simplest(w / n) for w, n in zip(best.weights, sizes, strict=True))
    return d.conclude("Weights of one message of each level, and the error variance:", (*each, best.variance))


def _eq60_oracle(**v: Any) -> tuple[Any, ...]:
    weights, variance = _server_oracle(**v)
    return (*weights, variance)


def _eq60_computed(sizes: list[int], gamma2s: list[float], sigma2_c: float) -> list[float]:
    weights = aggregation.level_weights(sizes, gamma2s, sigma2_c, 0.0)
    return [*map(float, weights), float(aggregation.server_mse(sizes, gamma2s, sigma2_c, 0.0))]


def _eq60_simulate(sizes: list[int], gamma2s: list[float], sigma2_c: float) -> simulation.Simulation:
    noise = [n * g for n, g in zip(sizes, gamma2s, strict=True)]
    return simulated_centre(simulation.federation(sizes, sigma2_c / 2, sigma2_c / 2, noise))


register(
    Claim(
        id="fedhdp:eq60",
        title="The server's estimate of the centre, l levels",
        place="Appendix A.6, (60)",
        statement="""The server computes its estimate of phi by precision weights; what is added has the variance (61),
            independent of the messages. Judged: weights on a message of each level and the error variance of the
            estimate.""",
        latex=r"""\theta=\Sigma_{\theta}\sum_{i\in[N]}\Sigma_i^{-1}\psi_i+p_{\theta},\quad
            p_\theta\sim\mathcal N(0,\Sigma_\theta)""",
        kind="identity",
        variables=SERVER,
        examples=SERVER_EXAMPLES,
        printed=_eq60_printed,
        derive=_eq60_derive,
        oracle=_eq60_oracle,
        computed=_eq60_computed,
        simulate=_eq60_simulate,
        corrected=_eq60_corrected,
        corrected_text="the same weights without p: error variance Sigma, not 2 Sigma",
        slip="as in (30): the estimate is the posterior mean alone",
        finding="""A draw from the posterior's spread is added to the server's estimate, which would double the error
            variance that the paper states for it.""",
        counterexample=SERVER_EXAMPLES[0],
        assumes=MODEL,
        unit="dimensionless; variance",
        related=("fedhdp:eq30", "fedhdp:eq61"),
        model=("BestWeights", "Value(Server)", "LeastCentre"),
    )
)


def _eq63_printed(sizes: list[Any], gamma2s: list[Any], sigma2_c: Any) -> tuple[Any, ...]:
    """r_i*/sum N_k r_k* with the ratios (64)."""
    s = message_variances(sizes, gamma2s, sigma2_c)
    r = [s[0] / x for x in s]
    total = sum(n * x for n, x in zip(sizes, r, strict=True))
    return tuple(x / total for x in r)


def _eq63_derive(**v: Any) -> Derivation:
    d = Derivation()
    best = _server_posterior(d, **v)
    found = tuple(simplest(w / n) for w, n in zip(best.weights, v["sizes"], strict=True))
    return d.conclude("Weights of the level means over the levels' sizes, those of one message:", found)


register(
    Claim(
        id="fedhdp:eq63",
        title="Server weights from the ratios, l levels",
        place="Appendix A.6, (62)-(63)",
        statement="With the ratios r_i* of (64) the weights r_i/sum N_k r_k achieve the optimal covariance at the server.",
        latex=r"\theta=\sum_{i\in[N]}w_i\psi_i,\qquad w_j=\frac{r_i}{\sum_{k=[l]}N_kr_k}",
        kind="optimum",
        variables=SERVER,
        examples=SERVER_EXAMPLES,
        printed=_eq63_printed,
        derive=_eq63_derive,
        oracle=lambda **v: tuple(_server_oracle(**v)[0]),
        computed=lambda sizes, gamma2s, sigma2_c: aggregation.level_weights(sizes, gamma2s, sigma2_c, 0.0),
        simulate=lambda **v: without_last(_eq60_simulate(**v)),
        assumes=MODEL,
        edits=(Edit(printed=r"\sum_{k=[l]}", read=r"\sum_{k\in[l]}", reason="[l] is a set, as in the other sums"),),
        unit="dimensionless, one per level",
        related=("fedhdp:eq64", "fedhdp:eq60"),
        model=("BestWeights",),
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
        assumes=MODEL,
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
        model=("BestWeights",),
        unit="dimensionless, one per level",
        related=("fedhdp:eq61",),
    )
)  # fmt: skip


def _general_derive(sizes: list[Any]) -> Derivation:
    d = Derivation()
    clients = d.say("Clients in all levels together:", sum(sizes))
    return d.conclude("They are more than the levels by", clients - len(sizes))


register(
    Claim(
        id="fedhdp:levels:general",
        title="One privacy level per client as a special case",
        place="Appendix A.6, first paragraph",
        statement="""With l levels of N_i > 1 clients each, the setup contains the most general case l = |C| where each
            client has its own level. Judged: by how much the clients outnumber the levels, which should be 0 there.""",
        latex=r"N_i>1,\qquad l=|\mathcal C|",
        kind="identity",
        variables=(SIZES2,),
        examples=({"sizes": [2, 2]},),
        printed=lambda: ZERO,
        derive=_general_derive,
        oracle=lambda sizes: sp.Integer(sum(len(range(int(n))[1:]) for n in sizes)),
        corrected=lambda sizes: sum(n - 1 for n in sizes),
        corrected_text="""N_i >= 1: then l = |C| is possible, and (61) to (77) hold there too (they are judged for N_i >= 1,
            where a weight on others of an empty level is asked for, for N_i >= 2)""",
        counterexample={"sizes": [2, 2]},
        finding="""Levels of more than one client each cannot be as many as there are clients; the formulas hold for levels
            of one client, which the condition leaves out.""",
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="deterministic"),
        unit="clients",
    )
)
