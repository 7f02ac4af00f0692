"""FedHDP, Theorems 5 and 8, and the special cases of Tables 1 and 4.

Belongs here: what the paper concludes for the server's ratio and the clients' strengths together. Does not belong here:
the lemmas behind it (server.py, strength.py), what opting out changes (opting_out.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy import Eq, Or

from estimators.closed_forms import aggregation, personalization
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Group, mse, posterior
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    ALL,
    OPT_OUT,
    OPT_OUT_EXAMPLES,
    OWN_NOISE_TEXT,
    TAU2_POSITIVE,
    lists,
    own_noise_condition,
    setting,
    simulate_one_level,
    simulate_strength,
    simulated_federation,
    strength_computed,
    strength_oracle,
    units,
)
from theory.papers.fedhdp.strength import BOTH_FORMS, EQ47_LATEX, LEMMA3, eq47
from theory.papers.shared import (
    ALPHA2,
    GAMMA2,
    GAMMA2_2,
    MODEL,
    N1,
    N2,
    N_NP,
    N_P,
    OWN_NOISE,
    TAU2,
    blend_objective,
    concrete,
    concrete_blend,
    concrete_strength,
    derive_strength,
    message_variances,
    rational_limit,
)

# --- Theorems 5 and 8 ----------------------------------------------------------------------------------------------


def _ratio_oracle(**v: Any) -> Any:
    clients, levels = concrete(*lists(v), v["alpha2"], v["tau2"])
    w = clients.posterior(clients.centre, clients.message)[0]
    return rational(w[levels.index(2)] / w[levels.index(1)])


def _thm5_printed(**v: Any) -> tuple[Any, Any]:
    first, second = message_variances(*lists(v), v["alpha2"] + v["tau2"])
    return first / second, eq47(**v)


def _thm5_derive(**v: Any) -> Derivation:
    d = Derivation()
    levels = {k: v[k] for k in ("N1", "N2", "gamma2_1", "gamma2_2")}
    ratio = d.lemma("fedhdp:lemma2:rstar", "the server's best ratio is", **levels, sigma2_c=v["alpha2"] + v["tau2"])
    return d.conclude("Ratio and strength:", (ratio, d.lemma("fedhdp:lemma3:lambda", "the best strength is", **v)))


def _thm5_simulate(**v: Any) -> simulation.Simulation | None:
    """Where the server's risk is stationary in the ratio, and the client's in the strength, in one federation."""
    fed, client, w = simulated_federation(v, v["level"])
    N1, N2 = v["N1"], v["N2"]
    rows = np.vstack([w, np.repeat(np.eye(2) / [N1, N2], [N1, N2], axis=1)])
    first, second = simulation.vector(3, a1=1.0), simulation.vector(3, a2=1.0)
    shared = simulation.vector(3, a0=1.0, l=0.0 if v["own_noise"] else -w[client])
    step = shared - simulation.vector(3, p=1.0, e=1.0)
    pairs = [(first, second - first), (second, second - first), (simulation.vector(3, e=1.0), step), (step, step)]
    back = w * np.where(np.arange(fed.count) == client, v["own_noise"], 1.0)
    moved = w - (np.arange(fed.count) == client)
    square = float(np.sum(moved**2 * (fed.tau2 + fed.alpha2) + back**2 * fed.nu2))
    sizes = fed.message_variances[fed.start[1]], square - (1 - w[client]) * fed.alpha2[client]
    return simulation.Simulation(simulation.mean_products(fed, client, rows, pairs).experiment, (
        simulation.Ratio("mean derivative of the server's risk", [-N1, 0.0, 0.0, 0.0], [0.0, N2, 0.0, 0.0], sizes[0], 0),
        simulation.Ratio("mean derivative of the client's risk", [0.0, 0.0, -1.0, 0.0], [0.0, 0.0, 1.0, 1.0], sizes[1], 1),
    ))  # fmt: skip


register(
    Claim(
        id="fedhdp:thm5",
        title="FedHDP is optimal for the server and for every client",
        place="Appendix A.4, Theorem 5, (55)-(58)",
        statement="At r* and lambda_j* the algorithm converges to the Bayes optimal server and client estimates.",
        latex=r"r^*=\frac{\sigma_c^2+N_1\gamma_1^2}{\sigma_c^2+N_2\gamma_2^2},\quad " + EQ47_LATEX,
        kind="optimum",
        printed=_thm5_printed,
        derive=_thm5_derive,
        oracle=lambda **v: (_ratio_oracle(**v), strength_oracle(**v)),
        computed=lambda **v: (
            aggregation.optimal_ratio(v["N1"], v["N2"], v["alpha2"], v["tau2"], v["gamma2_1"], v["gamma2_2"]),
            strength_computed(**v),
        ),
        simulate=_thm5_simulate,
        model=("BestWeights", "BestStrength"),
        entries=("r*", "lambda*"),
        unit="dimensionless",
        remark=f"""The theorem is about the algorithm, in which the client's own noise comes back: its second half holds as
            printed only for clients without noise. It converges where every round adds the same noise (fedhdp:lemma4).
            {BOTH_FORMS}""",
        **{**LEMMA3, "related": ("fedhdp:lemma4",), "assumes": {**LEMMA3["assumes"], "noise": "reused"}},
    )
)


def _opt_out_strength(level: int, **v: Any) -> Derivation:
    d = Derivation()
    (N1, N2), (none, gamma2) = lists(v)
    lam = d.lemma("fedhdp:lemma3:lambda", "with level 1 non-private and level 2 private", N1=N1, N2=N2, gamma2_1=none,
                  gamma2_2=gamma2, alpha2=v["alpha2"], tau2=v["tau2"], level=level, own_noise=v["own_noise"])  # fmt: skip
    return d.conclude("That is", lam)


register(
    Claim(
        id="fedhdp:thm8:np",
        assumes=MODEL | {"pivot": "model"},
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
        model=("BestStrength",),
        objective=lambda x, **v: blend_objective(x, *setting(v, 1), v["own_noise"]),
        unit="dimensionless",
    )
)


def _eq83(**v: Any) -> Any:
    N, Y, _, G = units(v)
    return (N + N * Y + (N - v["N_p"]) * G) / (N * Y * (Y + 1) + (N - v["N_p"] + 1) * Y * G + G)


register(
    Claim(
        id="fedhdp:thm8:p",
        assumes=MODEL | {"pivot": "model"},
        title="Optimal strength of a private client",
        place="Appendix B, Theorem 8, (83)",
        statement="The strength with which a private client makes the least error, with opt-out.",
        latex=r"""\lambda_{\mathrm p}^*=\frac{N+N\Upsilon^2+(N-N_{\mathrm p})\Gamma^2}%
            {N\Upsilon^2(\Upsilon^2+1)+(N-N_{\mathrm p}+1)\Upsilon^2\Gamma^2+\Gamma^2}""",
        kind="optimum",
        variables=(*OPT_OUT, OWN_NOISE),
        examples=OPT_OUT_EXAMPLES,
        printed=_eq83,
        derive=lambda **v: _opt_out_strength(2, **v),
        oracle=lambda **v: concrete_strength(*setting(v, 2), v["own_noise"]),
        computed=lambda **v: strength_computed(**v, level=2),
        simulate=lambda **v: simulate_strength(**v, level=2),
        model=("BestStrength",),
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
    return d.conclude("Weight of the server's estimate then, after the two ratios:", (*ratios, sp.sympify(u)))


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
        statement="""Without privacy, or with equal privacy, the server averages uniformly (FedAvg, DP-FedAvg: r* = 1); with
            homogeneous data and no privacy the client takes the server's estimate as it is (FedAvg, no Ditto).""",
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
        not_simulated=Exempt(kind="part", of=("fedhdp:lemma2:rstar", "fedhdp:lemma3:lambda")),
        assumes=MODEL,
        entries=(
            "r*, no privacy",
            "r*, equal privacy",
            "weight of the server's estimate, IID and no privacy",
        ),
        unit="dimensionless",
        model=("BestWeights", "BestMixture"),
    )
)


def _cell(v: dict[str, Any]) -> tuple[Any, ...]:
    return (1, [v["N"]], [v.get("gamma2", sp.Integer(0))], v["alpha2"], v.get("tau2", sp.Integer(0)))


def _cell_derive(**v: Any) -> Derivation:
    return derive_strength(*_cell(v), v.get("own_noise", 0))


def _cell_oracle(**v: Any) -> Any:
    return concrete_strength(*_cell(v), v.get("own_noise", 0))


def _cell_computed(**v: Any) -> Any:
    level, sizes, gamma2s, alpha2, tau2 = _cell(v)
    return personalization.personalization_strength(
        level, sizes, [float(g) for g in gamma2s], alpha2, float(tau2), own_noise=bool(v.get("own_noise", 0))
    )


CELL: dict[str, Any] = {
    "kind": "identity",
    "derive": _cell_derive,
    "oracle": _cell_oracle,
    "computed": _cell_computed,
    "assumes": MODEL | {"pivot": "model"},
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
        not_simulated=Exempt(kind="part", of=("fedhdp:table4:b",), note="an infinite strength"),
        **CELL,
        model=("BestMixture",),
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
        simulate=simulate_one_level,
        model=("BestStrength",),
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
        variables=(ALL, ALPHA2, GAMMA2, OWN_NOISE),
        examples=(
            {"N": 4, "alpha2": 2, "gamma2": 1},
            {"N": 4, "alpha2": 2, "gamma2": 1, "own_noise": 1},
        ),
        printed=lambda gamma2: 1 / gamma2,
        corrected=lambda N, alpha2, gamma2, own_noise: (
            alpha2 / gamma2 if own_noise == 0 else (N - 1) * alpha2 / (N * gamma2)
        ),
        corrected_text="alpha2/gamma2 (own noise taken out); (N-1) alpha2/(N gamma2) as the algorithm runs",
        slip="""alpha^2 is missing in the numerator: (83) at tau2 = 0 and N_p = N is N/Gamma^2 = alpha^2/gamma^2; the printed
            value is not even dimensionless""",
        finding="""The local estimate's variance is missing from the strength: as printed it would change with the unit of
            measurement.""",
        counterexample={"N": 2, "alpha2": 2, "gamma2": 1},
        related=("fedhdp:thm8:p",),
        simulate=simulate_one_level,
        model=("BestStrength",),
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
        simulate=simulate_one_level,
        model=("BestStrength",),
        **CELL,
    )
)


# --- what becomes of the strength, and of personalisation ----------------------------------------------------------------


def _noisy_cells(t: Any, **v: Any) -> tuple[Any, Any]:
    """Strengths with all clients private and noise t, for homogeneous and heterogeneous data."""
    return tuple(derive_strength(1, [v["N"]], [t], v["alpha2"], x, v["own_noise"]).result for x in (0, v["tau2"]))  # type: ignore[return-value]


def _noisy_derive(**v: Any) -> Derivation:
    d = Derivation()
    noise = sp.Symbol("gamma2", positive=True)
    cells = d.say("With all clients private the strengths for homogeneous and heterogeneous data are",
                  _noisy_cells(noise, **v))  # fmt: skip
    return d.conclude("For infinite noise they tend to", tuple(limit(x, noise, sp.oo) for x in cells))


def _noisy_oracle(**v: Any) -> tuple[Any, Any]:
    at = {k: v[k] for k in ("N", "alpha2")}
    return tuple(
        rational_limit(lambda g, x=x: concrete_strength(1, [at["N"]], [g], at["alpha2"], x, v["own_noise"]), degree=2)
        for x in (sp.Integer(0), v["tau2"])
    )  # type: ignore[return-value]


register(
    Claim(
        id="fedhdp:table4:noise",
        title="Homogeneous privacy with much noise: local learning",
        place="Appendix B, text after Table 4",
        statement="""As epsilon tends to 0, that is as gamma2 tends to infinity, lambda_p* tends to 0 for homogeneous and for
            heterogeneous data: local learning becomes optimal.""",
        latex=r"\gamma^2\to\infty:\ \lambda_{\mathrm p}^*\to0",
        kind="limit",
        variables=(ALL, ALPHA2, TAU2_POSITIVE, OWN_NOISE),
        examples=({"N": 4, "alpha2": 1, "tau2": "1/2"}, {"N": 2, "alpha2": 2, "tau2": 1, "own_noise": 1}),
        printed=lambda: (sp.Integer(0), sp.Integer(0)),
        derive=_noisy_derive,
        oracle=_noisy_oracle,
        approach=_noisy_cells,
        not_computed=Exempt(kind="limit", of=("fedhdp:table4:d",)),
        not_simulated=Exempt(kind="limit", of=("fedhdp:table4:d",)),
        entries=("homogeneous data", "heterogeneous data"),
        assumes=MODEL | {"pivot": "model"},
        unit="dimensionless",
        related=("fedhdp:table4:c", "fedhdp:table4:d"),
        model=("Limit(Optimum)",),
    )
)

SPREAD = Variable("spread", "choice", "1: heterogeneous data (tau2 > 0); 0: homogeneous data", choices=(1, 0), default=1)
OWN = Variable("own", "choice", "1: the client's own level adds noise; 0: it does not", choices=(1, 0), default=1)
OTHER = Variable("other", "choice", "1: the other level adds noise; 0: it does not", choices=(1, 0), default=1)


def _setting_of_one(v: dict[str, Any]) -> tuple[Any, Any, Any]:
    """tau2 and the noise of a message of the own and of the other level."""
    return (
        v["tau2"] if v["spread"] else sp.Integer(0),
        v["noise_1"] if v["own"] else sp.Integer(0),
        v["noise_2"] if v["other"] else sp.Integer(0),
    )


def _personal_derive(**v: Any) -> Derivation:
    d = Derivation()
    tau2, first, second = _setting_of_one(v)
    V = sp.Symbol("V", positive=True)
    own = Group("own", sp.Integer(1), tau2, v["alpha2"], first)
    others = Group("others", sp.Integer(1), V, sp.Integer(0), sp.Integer(0))
    d.say("From the others' messages the centre is known with a variance V.")
    theirs = posterior(own.parameters(), [own.estimates(), others.messages()])
    d.say("Weights of the client's Bayes estimate, on its own estimate and on that of the others:", theirs.weights)
    served = posterior(CENTRE, [own.messages(), others.messages()])
    d.say("and of the server's, the single solution for all, on the client's message and on theirs:", served.weights)
    apart = d.say("They differ by, in mean square,", sp.factor(mse(theirs.mean - served.mean)))
    personal = sp.sign(apart)  # of a product of positive symbols, or of zero
    federation = {"N1": v["N1"], "N2": v["N2"], "alpha2": v["alpha2"], "tau2": tau2, "level": 1}
    noise = {"gamma2_1": first / v["N1"], "gamma2_2": second / v["N2"]}
    known = d.lemma("fedhdp:eq37", "V is", **federation, **noise)
    return d.conclude("Is the client's optimum its own (1) or that of all (0); the mean square:",
                      (personal, apart.subs(V, known)))  # fmt: skip


def _personal_oracle(**v: Any) -> tuple[Any, Any]:
    tau2, first, second = _setting_of_one(v)
    noise = [first] * int(v["N1"]) + [second] * int(v["N2"])
    clients = Clients([tau2] * len(noise), [v["alpha2"]] * len(noise), noise)
    observed = [clients.estimate[0], *clients.message[1:]]
    mine = clients.posterior(clients.parameter[0], observed)[0]
    served = clients.weighted(clients.posterior(clients.centre, clients.message)[0], clients.message)
    apart = rational(clients.mse(clients.weighted(mine, observed), served))
    return sp.Integer(0 if apart == 0 else 1), apart


def _personal_simulate(**v: Any) -> simulation.Simulation | None:
    if not (v["spread"] or v["own"]):
        return None
    tau2, first, second = (float(x) for x in _setting_of_one(v))
    fed = simulation.federation([v["N1"], v["N2"]], tau2, v["alpha2"], [first, second])
    every = 1 / fed.message_variances
    others = every * (np.arange(fed.count) != 0)
    far = tau2 + 1 / others.sum()
    k = far / (far + v["alpha2"])
    form = simulation.vector(2, p=k, e=k, a0=1 - k, a1=-1.0)
    rows = np.vstack([others / others.sum(), every / every.sum()])
    return simulation.mean_squares(fed, 0, rows, [form], ["distance of the two optima"], of=[1])


register(
    Claim(
        id="fedhdp:personal",
        title="Personalisation is needed for heterogeneous data or privacy",
        place="Abstract; Section 1, contributions; Section 6; Appendix B, text after Table 4",
        statement="""Personalisation is necessary whenever data heterogeneity is present, privacy is required, or both; with
            privacy the optimal solution for each client is a personalised one even for homogeneous data. Judged: does
            the client's Bayes estimate differ from the server's?""",
        latex=r"""\text{``personalization becomes necessary whenever data heterogeneity is present, privacy is required, or
            both''}""",
        kind="identity",
        variables=(
            N1,
            N2,
            ALPHA2,
            TAU2_POSITIVE,
            Variable(
                "noise_1", "positive", "variance of the noise of a message of the client's own level, where it adds any"
            ),
            Variable("noise_2", "positive", "variance of the noise of a message of the other level, if it adds any"),
            SPREAD,
            OWN,
            OTHER,
        ),
        examples=(
            {"N1": 2, "N2": 2, "alpha2": 1, "tau2": 1, "noise_1": 2, "noise_2": 1, "spread": 0},
            {"N1": 2, "N2": 3, "alpha2": 1, "tau2": "1/2", "noise_1": 1, "noise_2": 3, "own": 0},
        ),
        printed=lambda spread, own, other: (sp.Integer(1 if spread or own or other else 0), None),
        derive=_personal_derive,
        oracle=_personal_oracle,
        not_computed=Exempt(kind="part", of=("fedhdp:eq42", "fedhdp:lemma2:weights")),
        simulate=_personal_simulate,
        condition=lambda spread, own, other: sp.true if spread or own or not other else sp.false,
        condition_text="the data are heterogeneous, or the client itself adds noise, or nobody does",
        counterexample={
            "N1": 2,
            "N2": 1,
            "alpha2": 1,
            "tau2": 1,
            "noise_1": 1,
            "noise_2": 1,
            "spread": 0,
            "own": 0,
        },
        entries=("is the optimum personal", "mean square distance of the two optima"),
        assumes=MODEL,
        unit="1 or 0; variance",
        related=("fedhdp:eq42", "fedhdp:lemma2:weights", "fedhdp:thm8:np"),
        remark="""With homogeneous data a client that opted out has nothing to personalise, however private the others are:
            its own message holds all it knows, so that the server's estimate is its optimum too (lambda_np* is infinite
            in Theorem 8 at tau2 = 0).""",
    )
)
