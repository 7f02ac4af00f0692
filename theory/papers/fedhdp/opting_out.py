"""FedHDP, Section 3.1.4: what opting out of privacy changes, for the client, for the others and for the server.

Belongs here: comparisons of a federation before and after, and of its two kinds of clients. Does not belong here: each
one's best strength (theorems.py), comparisons between algorithms (trade_off.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.fedhdp.federation import (
    OPT_OUT,
    positive_sizes,
    setting,
    simulated_federation,
    strength_computed,
)
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    MODEL,
    OWN_NOISE,
    SIGMA2_C,
    TAU2,
    at_others,
    blend_risk,
    concrete_blend,
    risk_given_others,
)

# --- Section 3.1.4 -------------------------------------------------------------------------------------------------


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
    """alpha2^2 times the difference of (1 - w)/(s_c + h): w a message's weight, h the noise that comes back."""
    clean = v["alpha2"] + v["tau2"]
    noise = v["N_p"] * v["gamma2"]
    total = v["N_np"] / clean + v["N_p"] / (clean + noise)
    first, second = 1 / (clean * total), 1 / ((clean + noise) * total)
    back = second * noise / (1 - second) if v["own_noise"] else second * noise
    return v["alpha2"] ** 2 * ((1 - first) / clean - (1 - second) / (clean + back))


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
        scale=float(personalization.bayes_mse(*setting(v, 2))),
        back=lambda mean: mean - v["alpha2"],
    )
    return simulation.Simulation(base.experiment, (reading,))


register(
    Claim(
        id="fedhdp:optout-helps",
        title="Non-private clients do better than private ones",
        place="Section 3.1.4, A.5",
        statement="""Clients that opt out produce better personalised estimates than the clients that remain private. Judged
            in one federation: risk of a private client minus risk of a non-private one is at least 0.""",
        latex=r"""\text{``clients that opt out can produce better personalized local estimates compared to the clients that
            remain private''}""",
        kind="order",
        variables=(*OPT_OUT, OWN_NOISE),
        examples=(
            {"N_np": 1, "N_p": 1, "alpha2": 10, "tau2": "1/10", "gamma2": 100},
            {"N_np": 1, "N_p": 1, "alpha2": 10, "tau2": "1/10", "gamma2": 100, "own_noise": 1},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_between_derive,
        oracle=lambda **v: (
            concrete_blend(*setting(v, 2), v["own_noise"])[1] - concrete_blend(*setting(v, 1), v["own_noise"])[1]
        ),
        not_computed=Exempt(kind="refuted"),
        simulate=_between_simulate,
        model=("Value(Personal, Personal)",),
        finding="""In one federation the clients that stay private do at least as well as those that opted out: they learn
            from all non-private clients, and a non-private client learns from one less.""",
        assumes=MODEL | {"pivot": "model"},
        corrected=_between_corrected,
        corrected_text="""In one federation a private client does at least as well: it learns from all non-private clients,
            while a non-private client learns from one less of them and from one more noisy one. What opting out buys is
            fedhdp:optout-helps:same-client.""",
        counterexample={"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 10, "own_noise": 1},
        shifts=positive_sizes,
        unit="variance",
        related=("fedhdp:thm8:np", "fedhdp:thm8:p"),
    )
)

OTHERS = Variable(
    "others",
    "choice",
    """noise of the clients that stay private when one leaves. kept: per client as before; recalibrated: the noise on their
    sum as before (gamma2 proportional to 1/N_p^2), so each adds more""",
    choices=("kept", "recalibrated"),
    default="kept",
)
N_P2 = Variable("N_p", "size", "private clients before the client decides, itself included", low=2)
N_NP0 = Variable("N_np", "size", "clients without privacy before the client decides; none where it is the first", low=0)


def _before(**v: Any) -> dict[Any, Any]:
    """Sizes before the client decides: none need have opted out, and somebody else is private."""
    return {v["N_np"]: sp.Symbol("N_np_more", nonnegative=True), v["N_p"]: 2 + sp.Symbol("N_p_more", nonnegative=True)}


def _after(v: dict[str, Any]) -> dict[str, Any]:
    """The federation after one private client has opted out."""
    left = v["N_p"] - 1
    # Noise per client N_p gamma2 = c/N_p before; kept: the same; recalibrated: c/(N_p - 1).
    per_client = v["N_p"] * v["gamma2"] if v["others"] == "kept" else v["N_p"] ** 2 * v["gamma2"] / left
    return {**v, "N_np": v["N_np"] + 1, "N_p": left, "gamma2": per_client / left}


def _same_client_oracle(**v: Any) -> Any:
    """Exact search before and after; the noise on the private clients' sum is N_p^2 gamma2."""
    _, before = concrete_blend(*setting(v, 2), v["own_noise"])
    each = v["N_p"] * v["gamma2"]
    if v["others"] == "recalibrated":
        each = (v["N_p"] * v["N_p"] * v["gamma2"]) / (v["N_p"] - 1)
    sizes = [v["N_np"] + 1, v["N_p"] - 1]
    _, after = concrete_blend(1, sizes, [sp.Integer(0), each / sizes[1]], v["alpha2"], v["tau2"], v["own_noise"])
    return before - after


def _same_client_simulate(**v: Any) -> simulation.Simulation | None:
    """Paired squared errors of the client before and after: it only stops adding its noise, and the others may add more."""
    own = bool(v["own_noise"])
    N_np, N_p = int(v["N_np"]), int(v["N_p"])
    each = v["N_p"] * v["gamma2"]
    extra = 0.0 if v["others"] == "kept" else each / (v["N_p"] - 1)
    # The client, the non-private ones, the other private ones, and what recalibration adds to these.
    fed = simulation.federation(
        [1, N_np, N_p - 1, N_p - 1], [v["tau2"]] * 3 + [0.0], [v["alpha2"]] * 3 + [0.0], [each, 0.0, each, extra]
    )
    clean = v["alpha2"] + v["tau2"]
    forms, rows = [], []
    for noise, other, more in ((each, each, 0.0), (0.0, each + extra, 1.0)):
        precision = np.repeat([1 / (clean + noise), 1 / clean, 1 / (clean + other)], [1, N_np, N_p - 1])
        w = precision / precision.sum()
        rows.append(np.concatenate([w, more * w[1 + N_np :]]))
        back = w[0] * noise * (1 / (1 - w[0]) if own else 1.0)
        u = v["alpha2"] / (clean + back)
        index = len(forms)
        coefficient = 0.0 if own and noise else -w[0]  # its own noise is in the row; out of the model, or no longer added
        forms.append(simulation.vector(2, p=-u, e=1 - u, l=u * coefficient, **{f"a{index}": u}))
    if v["others"] == "kept":
        # What the client knows afterwards holds all it knew, so that its error then is uncorrelated with what was lost.
        return simulation.excess_over_bayes(fed, 0, np.vstack(rows), forms[0], forms[1], v["alpha2"])
    return simulation.differences(fed, 0, np.vstack(rows), forms, [1.0, -1.0], "risk before minus after")


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
        variables=(N_NP0, N_P2, ALPHA2, TAU2, GAMMA2, OWN_NOISE, OTHERS),
        examples=(
            {"N_np": 1, "N_p": 2, "alpha2": 5, "tau2": "1/50", "gamma2": 2, "own_noise": 1},
            {"N_np": 1, "N_p": 2, "alpha2": 1, "tau2": "1/50", "gamma2": "1/2", "own_noise": 1},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_same_client_derive,
        oracle=_same_client_oracle,
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
        shifts=_before,
        not_computed=Exempt(kind="difference", of=("fedhdp:eq41", "fedhdp:lemma3:lambda")),
        simulate=_same_client_simulate,
        tight=Tight(at={"N_np": 1, "N_p": 2, "alpha2": 1, "tau2": 1, "gamma2": 1, "own_noise": 0}),
        assumes=MODEL | {"pivot": "model"},
        unit="variance",
        related=("fedhdp:lemma3:bayes", "feo2:gamma-prop", "fedhdp:eq41", "fedhdp:lemma3:lambda"),
        remark="""With own noise taken out, as Lemma 3 assumes, the gain is exactly 0: what a client knows of others does not
            depend on its own privacy. Lemma 3's optimality and the incentive to opt out exclude each other. If the noise
            on the private sum must stay the same, the others add more noise each and the client can lose.""",
        model=("Value(Personal, Personal)",),
    )
)


# --- what opting out does for others, and for HDP-FedAvg -----------------------------------------------------------------


def _server_after(v: dict[str, Any]) -> dict[str, Any]:
    """Sizes and gamma2 after one private client opted out, for Lemma 6."""
    left = v["N_p"] - 1
    each = v["N_p"] * v["gamma2"] if v["others"] == "kept" else v["N_p"] ** 2 * v["gamma2"] / left
    return {"N_np": v["N_np"] + 1, "N_p": left, "gamma2": each / left}


def _server_derive(**v: Any) -> Derivation:
    d = Derivation()
    now = {k: v[k] for k in ("N_np", "N_p", "gamma2")}
    before = d.lemma("fedhdp:lemma6:var", "the server's error variance before is", **now, sigma2_c=v["sigma2_c"])
    after = d.lemma("fedhdp:lemma6:var", "and after", **_server_after(v), sigma2_c=v["sigma2_c"])
    return d.conclude("What the server gains:", simplest(before - after))


def _server_oracle(**v: Any) -> Any:
    """Posterior variance of the centre on concrete clients, one of which stops adding noise."""
    each = v["N_p"] * v["gamma2"]
    half = v["sigma2_c"] / 2
    n_np, n_p = int(v["N_np"]), int(v["N_p"])
    then = each if v["others"] == "kept" else each * v["N_p"] / (v["N_p"] - 1)
    found = []
    for noise in ([0] * n_np + [each] * n_p, [0] * (n_np + 1) + [then] * (n_p - 1)):
        clients = Clients([half] * len(noise), [half] * len(noise), noise)
        found.append(rational(clients.posterior(clients.centre, clients.message)[1]))
    return found[0] - found[1]


def _server_simulate(**v: Any) -> simulation.Simulation:
    """Paired squared errors of the server before and after."""
    N_np, N_p, half = int(v["N_np"]), int(v["N_p"]), v["sigma2_c"] / 2
    each = v["N_p"] * v["gamma2"]
    extra = 0.0 if v["others"] == "kept" else each / (v["N_p"] - 1)
    # The one that opts out, without and with its noise apart; the non-private; the private and their later extra noise.
    fed = simulation.federation(
        [1, 1, N_np, N_p - 1, N_p - 1], [half, 0.0, half, half, 0.0], [half, 0.0, half, half, 0.0],
        [0.0, each, 0.0, each, extra],
    )  # fmt: skip
    rows = []
    for own, other, later in ((each, each, 0.0), (0.0, each + extra, 1.0)):
        w = 1 / (2 * half + np.repeat([own, 0.0, other], [1, N_np, N_p - 1]))
        w = w / w.sum()
        rows.append(np.concatenate([w[:1], w[:1] * (own > 0), w[1:], later * w[1 + N_np :]]))
    forms = [simulation.vector(2, a0=1.0), simulation.vector(2, a1=1.0)]
    return simulation.differences(fed, 0, np.vstack(rows), forms, [1.0, -1.0], "server error before minus after")


def _server_float(N_np: int, N_p: int, sigma2_c: float, gamma2: float, others: str) -> Any:
    return aggregation.opt_out_gain(N_np, N_p, sigma2_c, 0.0, gamma2, others)


register(
    Claim(
        id="fedhdp:optout-helps:server",
        title="Opting out helps the server",
        place="Section 3.1.4; Section 1, contributions; FeO2, Section 4.4",
        statement="""Opting out helps the server produce a better global estimate: its error variance at r* is at least as
            small once a private client has opted out.""",
        latex=r"\text{``opting out helps the server produce a better global estimate''}",
        kind="order",
        variables=(N_NP0, N_P2, SIGMA2_C, GAMMA2, OTHERS),
        examples=(
            {"N_np": 1, "N_p": 2, "sigma2_c": 1, "gamma2": 2},
            {"N_np": 1, "N_p": 3, "sigma2_c": 1, "gamma2": 2, "others": "recalibrated"},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_server_derive,
        oracle=_server_oracle,
        computed=_server_float,
        simulate=_server_simulate,
        tight=Tight(at={"N_np": 1, "N_p": 2, "sigma2_c": 1, "gamma2": 0}),
        shifts=_before,
        assumes=MODEL,
        unit="variance",
        related=("fedhdp:lemma6:var", "fedhdp:optout-helps:same-client"),
        remark="Also where the remaining private clients must add more noise each to keep the noise on their sum.",
        model=("Value(Optimum, Optimum)",),
    )
)


def _hdp_derive(**v: Any) -> Derivation:
    d = Derivation()
    even = 1 / (v["N_np"] + v["N_p"])
    before = d.say("Risk of the best blend with HDP-FedAvg's uniform average, private:",
                   blend_risk(*setting(v, 2), v["own_noise"], [even, even]))  # fmt: skip
    after = d.say("and after opting out:", blend_risk(*setting(_after(v), 1), v["own_noise"], [even, even]))
    return d.conclude("What opting out gains:", simplest(before - after))


def _hdp_oracle(**v: Any) -> Any:
    """Exact search before and after, with uniform weights."""
    even = sp.Integer(1) / (v["N_np"] + v["N_p"])
    _, before = concrete_blend(*setting(v, 2), v["own_noise"], [even, even])
    each = v["N_p"] * v["gamma2"]
    if v["others"] == "recalibrated":
        each = (v["N_p"] * v["N_p"] * v["gamma2"]) / (v["N_p"] - 1)
    sizes = [v["N_np"] + 1, v["N_p"] - 1]
    gamma2s = [sp.Integer(0), each / sizes[1]]
    _, after = concrete_blend(1, sizes, gamma2s, v["alpha2"], v["tau2"], v["own_noise"], [even, even])
    return before - after


def _hdp_simulate(**v: Any) -> simulation.Simulation:
    """Paired squared errors of the client's best blend with the uniform average, before and after."""
    own = float(v["own_noise"])
    N_np, N_p = int(v["N_np"]), int(v["N_p"])
    each = v["N_p"] * v["gamma2"]
    extra = 0.0 if v["others"] == "kept" else each / (v["N_p"] - 1)
    fed = simulation.federation(
        [1, N_np, N_p - 1, N_p - 1], [v["tau2"]] * 3 + [0.0], [v["alpha2"]] * 3 + [0.0], [each, 0.0, each, extra]
    )
    count = N_np + N_p
    apart = (1 - 1 / count) ** 2 + (count - 1) / count**2
    forms = []
    for i, (mine, noise) in enumerate(((own * each, (N_p - 1) * each), (0.0, (N_p - 1) * (each + extra)))):
        square = apart * (v["tau2"] + v["alpha2"]) + (mine + noise) / count**2
        u = (1 - 1 / count) * v["alpha2"] / square
        forms.append(simulation.vector(2, p=-u, e=1 - u, l=0.0 if mine else -u / count, **{f"a{i}": u}))
    rows = [np.repeat([1 / count, 1 / count, later / count], [1, count - 1, N_p - 1]) for later in (0.0, 1.0)]
    return simulation.differences(fed, 0, np.vstack(rows), forms, [1.0, -1.0], "risk before minus after")


register(
    Claim(
        id="fedhdp:optout-helps:hdp",
        title="Opting out gives a client a better estimate, with HDP-FedAvg too",
        place="Section 3.1.4, Figures 1 and 2",
        statement="""If the client is non-private, it exhibits improvements at the optimal strength for both algorithms.
            Judged for HDP-FedAvg+Ditto: the same client's risk is at least as small once it has opted out.""",
        latex=r"""\text{``if the client is non-private, they exhibit improvements in their estimates using the optimal value
            \(\lambda^*\) for both algorithms''}""",
        kind="order",
        variables=(N_NP0, N_P2, ALPHA2, TAU2, GAMMA2, OWN_NOISE, OTHERS),
        examples=(
            {"N_np": 1, "N_p": 2, "alpha2": 2, "tau2": "1/4", "gamma2": 2, "own_noise": 1},
            {"N_np": 1, "N_p": 2, "alpha2": 2, "tau2": "1/4", "gamma2": 2, "own_noise": 0, "others": "recalibrated"},
        ),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_hdp_derive,
        oracle=_hdp_oracle,
        not_computed=Exempt(kind="difference", of=("fedhdp:eq41", "fedhdp:lemma3:lambda")),
        simulate=_hdp_simulate,
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
        tight=Tight(at={"N_np": 1, "N_p": 2, "alpha2": 1, "tau2": 1, "gamma2": 1, "own_noise": 0}),
        shifts=_before,
        assumes=MODEL | {"pivot": "model"},
        unit="variance",
        related=("fedhdp:optout-helps:same-client", "fedhdp:eq41", "fedhdp:lemma3:lambda"),
        model=("Value(Personal, Personal)",),
    )
)
