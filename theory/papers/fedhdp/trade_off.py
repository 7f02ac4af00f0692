"""FedHDP, Section 3.1.4: what FedHDP gains over HDP-FedAvg+Ditto, for whom, and how strengths compare.

Belongs here: comparisons between algorithms and between strengths in one federation. Does not belong here: what opting out
changes (opting_out.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import best_blend, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.fedhdp.federation import (
    OPT_OUT,
    OPT_OUT_EXAMPLES,
    TAU2_POSITIVE,
    lists,
    positive_sizes,
    setting,
    simulate_strength,
    simulated_federation,
)
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    LEVEL,
    MODEL,
    N_NP,
    N_P,
    OWN_NOISE,
    at_others,
    blend_risk,
    concrete,
    concrete_blend,
    concrete_server,
    groups,
    precision_weights,
    risk_given_others,
    scatter,
    server_form,
)

R_ANY = Variable("r", "fraction", "weight of a private message over that of a non-private one, where it is not r*",
                 closed=True, default=sp.Integer(1), extreme=False)  # fmt: skip
RATIO = Variable(
    "ratio",
    "choice",
    "optimal: the server uses r*; any: it uses some r between 0 and 1",
    choices=("optimal", "any"),
    default="optimal",
)


def _order_derive(r: Any, ratio: str, **v: Any) -> Derivation:
    d = Derivation()
    if ratio == "optimal":
        p = d.lemma("fedhdp:thm8:p", "the strength of a private client is", **v)
        n = d.lemma("fedhdp:thm8:np", "that of a non-private client is", **v)
        return d.conclude("The private one as a share of the other:", simplest(p / n))
    weights = d.say("Weights of a non-private and of a private message:", _weights_at(r, **v))
    strengths = []
    for level, name in ((1, "non-private"), (2, "private")):
        own, others = groups(*setting(v, level))
        theta = server_form(own, others, level, weights, v["own_noise"])
        u, _ = best_blend(own.parameters(), own.estimates(), theta)
        strengths.append(d.say(f"The best strength of a {name} client is", simplest(u / (1 - u))))
    return d.conclude("The private one as a share of the other:", simplest(strengths[1] / strengths[0]))


def _weights_at(r: Any, N_np: Any, N_p: Any, **_: Any) -> tuple[Any, Any]:
    return 1 / (N_np + r * N_p), r / (N_np + r * N_p)


def _order_oracle(r: Any, ratio: str, **v: Any) -> Any:
    """Exact search for both strengths on concrete clients."""
    weights = None
    if ratio == "any":
        total = v["N_np"] + r * v["N_p"]
        weights = [sp.Integer(1) / total, r / total]
    strengths = []
    for level in (1, 2):
        u, _ = concrete_blend(*setting(v, level), v["own_noise"], weights)
        strengths.append(sp.oo if u == 1 else u / (1 - u))
    return strengths[1] / strengths[0]


def _order_simulate(r: float, ratio: str, **v: Any) -> simulation.Simulation | None:
    """A private client's best strength, read as a multiple of a non-private one's, alpha2/tau2 at r*."""
    if ratio == "any":
        return None
    found = simulate_strength(**v, level=2)
    one = v["alpha2"] / v["tau2"]
    if found is None:
        return None
    (reading,) = found.readings
    scaled = replace(reading, of=lambda share: one * share, back=lambda lam: lam / one)
    return simulation.Simulation(found.experiment, (scaled,))


register(
    Claim(
        id="fedhdp:lambda-order",
        title="Non-private clients pull harder towards the server",
        place="Section 3.1.4",
        statement="""lambda_np* is always at least lambda_p*, which is due to r being at most 1. Judged as
            lambda_p*/lambda_np* <= 1, for the optimal r and for any r between 0 and 1.""",
        latex=r"\lambda_{\mathrm{np}}^*\geq\lambda_{\mathrm p}^*",
        kind="order",
        variables=(N_NP, N_P, ALPHA2, TAU2_POSITIVE, GAMMA2, OWN_NOISE, RATIO, R_ANY),
        examples=OPT_OUT_EXAMPLES,
        printed=lambda: sp.Integer(1),
        relation="<=",
        derive=_order_derive,
        oracle=_order_oracle,
        not_computed=Exempt(kind="part", of=("fedhdp:thm8:p", "fedhdp:thm8:np")),
        simulate=_order_simulate,
        condition=lambda ratio: sp.true if ratio == "optimal" else sp.false,
        condition_text="ratio == optimal (the server uses r*)",
        counterexample={
            "N_np": 1,
            "N_p": 1,
            "alpha2": 1,
            "tau2": 1,
            "gamma2": 10,
            "own_noise": 1,
            "ratio": "any",
            "r": "1/2",
        },
        tight=Tight(at={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 0}),
        shifts=positive_sizes,
        assumes=MODEL | {"pivot": "model"},
        unit="dimensionless",
        remark="""An r of at most 1 is not enough: with much noise and an r above r* a private client's best strength is the
            larger one, because the server's estimate is then worse than a client's own. With own noise in the model the
            order holds exactly when the server's error variance is at most that of one non-private message, which r*
            ensures. At tau2 = 0 lambda_np* is infinite, so that no strength exceeds it.""",
        model=("Value(Optimum, Optimum)",),
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


def _beats_simulate(**v: Any) -> simulation.Simulation:
    """Paired squared errors of both algorithms' best blends, each with its own best strength."""
    fed, client, best = simulated_federation(v, v["level"])
    forms = []
    for i, w in enumerate((np.full(fed.count, 1 / fed.count), best)):
        own = np.arange(fed.count) == client
        noise = fed.nu2 * np.where(own, v["own_noise"], 1.0)
        square = float(np.sum((w - own) ** 2 * (fed.tau2 + fed.alpha2) + w**2 * noise))
        u = (1 - w[client]) * fed.alpha2[client] / square
        back = 0.0 if v["own_noise"] else -u * w[client]
        forms.append(simulation.vector(2, p=-u, e=1 - u, l=back, **{f"a{i}": u}))
    rows = np.vstack([np.full(fed.count, 1 / fed.count), best])
    return simulation.differences(fed, client, rows, forms, [1.0, -1.0], "risk of HDP-FedAvg+Ditto minus FedHDP's")


register(
    Claim(
        id="fedhdp:beats-hdp",
        title="FedHDP at r* against HDP-FedAvg+Ditto",
        place="Section 3.1.4",
        statement="At the best strength of each, FedHDP at r* does at least as well as HDP-FedAvg+Ditto for every client.",
        latex=r"\text{``FedHDP with the optimal value } r^*\text{ greatly outperforms HDP-FedAvg+Ditto''}",
        kind="order",
        variables=(*OPT_OUT, LEVEL, OWN_NOISE),
        examples=(
            {"N_np": 3, "N_p": 3, "alpha2": 2, "tau2": "1/20", "gamma2": 50, "level": 2, "own_noise": 1},
            {"N_np": 3, "N_p": 3, "alpha2": 1, "tau2": "1/20", "gamma2": 50, "level": 2},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_beats_derive,
        oracle=_beats_oracle,
        shifts=positive_sizes,
        not_computed=Exempt(kind="difference", of=("fedhdp:eq41", "fedhdp:lemma3:lambda")),
        simulate=_beats_simulate,
        model=("Value(Personal, Personal)",),
        tight=Tight(at={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 0, "level": 1}),
        assumes=MODEL | {"pivot": "model"},
        unit="variance",
        related=("fedhdp:lemma3:bayes", "fedhdp:eq41", "fedhdp:lemma3:lambda"),
        remark="Zero when there is no noise; how large the gain is depends on the point ('greatly' is not judged).",
    )
)


WHO = Variable("who", "choice", "the client whose error is compared", choices=("private", "non-private", "average"),
               default="average")  # fmt: skip
SIDE = Variable("side", "choice", """the ratio that r* is compared with. above: r* + more, such as 1 of uniform weights;
    below: r*/(1 + more)""", choices=("above", "below"), default="above")  # fmt: skip
APART = Variable("more", "nonnegative", "how far that ratio is from r*", extreme=False)


def _unpersonal(v: dict[str, Any], level: int, weights: Any) -> Any:
    """Error of the server's model as it is, for a client of a level; its own message is part of it."""
    own, others = groups(*setting(v, level))
    theta = server_form(own, others, level, weights, 1)
    return mse(theta - own.parameters())


def _unpersonal_derive(who: str, side: str, more: Any, **v: Any) -> Derivation:
    d = Derivation()
    s = scatter(*lists(v), v["alpha2"] + v["tau2"])
    best = d.say("Weights of a message at r*:", tuple(precision_weights([v["N_np"], v["N_p"]], s)))
    ratio = simplest(best[1] / best[0])
    ratio = d.say("Instead of r* the server uses the ratio", ratio + more if side == "above" else ratio / (1 + more))
    other = d.say("with the weights", _weights_at(ratio, v["N_np"], v["N_p"]))
    levels = {"non-private": (1,), "private": (2,), "average": (1, 2)}[who]
    counts = {1: v["N_np"], 2: v["N_p"]}
    gains = {i: _unpersonal(v, i, other) - _unpersonal(v, i, best) for i in levels}
    d.say("Error with that ratio minus error at r*, for each kind of client:", tuple(gains.values()))
    total = sum(counts[i] * gains[i] for i in levels) / sum(counts[i] for i in levels)
    return d.conclude("For the clients in question:", simplest(total))


def _unpersonal_oracle(who: str, side: str, more: Any, **v: Any) -> Any:
    clients, levels = concrete(*lists(v), v["alpha2"], v["tau2"])
    best = concrete_server(clients)
    # The first client is not private, the last one is.
    ratio = best[-1] / best[0] + more if side == "above" else best[-1] / best[0] / (more + 1)
    raw = [ratio if i == 2 else 1 for i in levels]
    served = clients.weighted(best, clients.message)
    other = clients.weighted([x / sum(raw) for x in raw], clients.message)
    gains = [clients.mse(other, x) - clients.mse(served, x) for x in clients.parameter]
    chosen = [
        g for g, i in zip(gains, levels, strict=True) if who == "average" or i == {"non-private": 1, "private": 2}[who]
    ]
    return rational(sum(chosen) / len(chosen))


def _unpersonal_simulate(who: str, side: str, more: float, **v: Any) -> simulation.Simulation | None:
    if who == "average":
        return None
    fed, client, best = simulated_federation(v, 1 if who == "non-private" else 2)
    ratio = best[-1] / best[0]
    raw = np.where(fed.nu2 > 0, ratio / (1 + more) if side == "below" else ratio + more, 1.0)
    rows = np.vstack([raw / raw.sum(), best])
    forms = [simulation.vector(2, p=-1.0, **{f"a{i}": 1.0}) for i in (0, 1)]
    return simulation.differences(fed, client, rows, forms, [1.0, -1.0], "error with another ratio minus at r*")


register(
    Claim(
        id="fedhdp:global-helps",
        title="A better global estimate helps clients even without personalisation",
        place="Section 3.1.4",
        statement="""A better global estimate would enable better performance on clients' devices, even when no
            personalisation is utilised. Judged: what a client gains that uses the server's model as it is, at r* instead
            of any other ratio (1: uniform weights), is at least 0.""",
        latex=r"""\text{``A better global estimate would enable better performance on clients' devices \dots even when no
            personalization is utilized''}""",
        kind="order",
        variables=(*OPT_OUT, SIDE, APART, WHO),
        examples=(
            {"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": "1/4", "gamma2": 4, "more": "16/21", "who": "non-private"},
            {"N_np": 1, "N_p": 2, "alpha2": 1, "tau2": 4, "gamma2": 1, "more": "2/7", "who": "private"},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_unpersonal_derive,
        oracle=_unpersonal_oracle,
        not_computed=Exempt(kind="difference", of=("fedhdp:lemma7:eq79",)),
        simulate=_unpersonal_simulate,
        condition=lambda who, side: sp.true if who == "average" or (who == "private") == (side == "below") else sp.false,
        condition_text="""the error is the average over all clients, or the client's own message weighs more at r* (a
            non-private client's against a ratio above r*, a private one's against a ratio below)""",
        counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "more": "1/3", "who": "private"},
        tight=Tight(at={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 0, "more": 0}),
        shifts=positive_sizes,
        assumes=MODEL,
        unit="variance",
        related=("fedhdp:lemma7:eq79", "fedhdp:beats-hdp"),
        remark="""On average over clients the gain is exactly the server's, with uniform weights (79). But where a client's
            own message weighs less in the better estimate, what it had to say of the client itself is lost: with little
            noise and much heterogeneity the private clients lose against uniform weights, and the non-private ones
            against a server that leaves the private ones out.""",
        model=("Value(Mixed, Mixed)", "Value(Mixed, Mixed, Mixed, Mixed)"),
    )
)
