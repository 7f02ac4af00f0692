"""FedHDP, Lemma 7: what other weights lose at the server, and the limits in the text after it.

Belongs here: gaps between the server errors of FedHDP, HDP-FedAvg and DP-FedAvg. Does not belong here: the optimum
itself (server.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import aggregation
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.shared import (
    GAMMA2,
    MODEL,
    N_NP,
    N_P,
    SIGMA2_C,
    concrete,
    concrete_server,
    precision_weights,
    rational_limit,
    scatter,
    server_mse,
)

# --- Lemma 7 -------------------------------------------------------------------------------------------------------

RHO_NP = Variable("rho_np", "fraction", "share of clients without privacy")
ALPHA2_0 = Variable("alpha2", "positive", "variance of a client's estimate around its parameter")
TAU2_0 = Variable("tau2", "nonnegative", "variance of the clients' parameters around the centre")
DP_NOISE = Variable(
    "dp_noise",
    "choice",
    """how DP-FedAvg, with all clients private, is calibrated. client: each of the N clients adds the noise N_p*gamma2 that a
    private client adds in FedHDP; sum: the noise on the sum is the same as with N_p private clients, as z^2 (S/N)^2 says
    for the same z and S""",
    choices=("client", "sum"),
    default="client",
)
LEMMA7 = (N_NP, N_P, ALPHA2_0, TAU2_0, GAMMA2)
LEMMA7_EXAMPLES = (
    {"N_np": 2, "N_p": 3, "alpha2": 1, "tau2": 1, "gamma2": 2},
    {"N_np": 1, "N_p": 3, "alpha2": "1/2", "tau2": 1, "gamma2": 1},
)


def _server_errors(N_np: Any, N_p: Any, sigma2_c: Any, gamma2: Any, dp_noise: str) -> dict[str, Any]:
    """Server error of FedHDP at r*, of HDP-FedAvg (uniform weights) and of DP-FedAvg (all private)."""
    N = N_np + N_p
    s = scatter([N_np, N_p], [sp.Integer(0), gamma2], sigma2_c)
    private = N_p * gamma2 if dp_noise == "client" else N_p * gamma2 * N_p / N
    return {
        "opt": server_mse([N_np, N_p], s, precision_weights([N_np, N_p], s)),
        "hdp": server_mse([N_np, N_p], s, [1 / N, 1 / N]),
        "dp": server_mse([N], [sigma2_c + private], [1 / N]),
    }


ALGORITHMS = {"hdp": "HDP-FedAvg, uniform weights", "dp": "DP-FedAvg, all clients private"}


def _gap_derive(v: dict[str, Any], worse: str, better: str) -> Derivation:
    d = Derivation()
    sizes, sigma2_c = {"N_np": v["N_np"], "N_p": v["N_p"]}, v["alpha2"] + v["tau2"]
    errors = _server_errors(**sizes, sigma2_c=sigma2_c, gamma2=v["gamma2"], dp_noise=v.get("dp_noise", "client"))
    if better == "opt":
        text = "the server error of FedHDP at r* is"
        errors["opt"] = d.lemma("fedhdp:lemma6:var", text, **sizes, sigma2_c=sigma2_c, gamma2=v["gamma2"])
    for key in (k for k in (worse, better) if k != "opt"):
        d.say(f"Server error of {ALGORITHMS[key]}: sum of squared weights times message variances,", errors[key])
    return d.conclude("The gap is", simplest(errors[worse] - errors[better]))


def _concrete_error(algorithm: str, N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any, dp_noise: str) -> Any:
    """The server's error on concrete clients."""
    N = N_np + N_p
    everyone = N_p * gamma2 / N if dp_noise == "client" else N_p**2 * gamma2 / N**2
    sizes, gammas = ([N], [everyone]) if algorithm == "dp" else ([N_np, N_p], [0, gamma2])
    clients, _ = concrete(sizes, gammas, alpha2, tau2)
    w = concrete_server(clients) if algorithm == "opt" else [1 / N] * len(clients)
    return rational(clients.mse(clients.weighted(w, clients.message), clients.centre))


def _gap_oracle(v: dict[str, Any], worse: str, better: str) -> Any:
    v = {"dp_noise": "client", **v}
    return _concrete_error(worse, **v) - _concrete_error(better, **v)


def _gap_simulate(v: dict[str, Any], worse: str, better: str) -> simulation.Simulation | None:
    if v.get("dp_noise") == "sum":
        return None
    N_np, N_p, alpha2, tau2 = int(v["N_np"]), int(v["N_p"]), v["alpha2"], v["tau2"]
    N, noise = N_np + N_p, N_p * v["gamma2"]
    # Paired draws. The third group holds the noise that the non-private clients add in DP-FedAvg only.
    fed = simulation.federation([N_np, N_p, N_np], [tau2, tau2, 0.0], [alpha2, alpha2, 0.0], [0.0, noise, noise])
    first, second = aggregation.level_weights([N_np, N_p], [0.0, v["gamma2"]], alpha2, tau2)
    weights = {
        "opt": np.repeat([first, second, 0.0], [N_np, N_p, N_np]),
        "hdp": np.repeat([1 / N, 1 / N, 0.0], [N_np, N_p, N_np]),
        "dp": np.full(N + N_np, 1 / N),
    }
    errors = [simulation.vector(2, a0=1.0), simulation.vector(2, a1=1.0)]
    return simulation.differences(fed, 0, [weights[worse], weights[better]], errors, [1.0, -1.0], f"{worse} - {better}")


def _eq79(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    return rho * (1 - rho) ** 3 * gamma2**2 * N / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _eq80(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    top = rho * (1 - rho) * (alpha2 + tau2) * gamma2 + rho * (1 - rho) ** 2 * gamma2**2 * N
    return top / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _eq81(N_np: Any, N_p: Any, alpha2: Any, tau2: Any, gamma2: Any) -> Any:
    N, rho = N_np + N_p, N_np / (N_np + N_p)
    top = rho * (1 - rho) * (alpha2 + tau2) * gamma2 + rho**2 * (1 - rho) ** 2 * gamma2**2 * N
    return top / (alpha2 + tau2 + rho * (1 - rho) * gamma2 * N)


def _uniform_computed(N_np: float, N_p: float, alpha2: float, tau2: float, gamma2: float) -> float:
    return aggregation.gap_to_uniform(N_np, N_p, alpha2, tau2, gamma2)


def _private_computed(N_np: float, N_p: float, gamma2: float, dp_noise: str) -> float:
    """With the noise of the sum fixed, DP-FedAvg is exactly as noisy as HDP-FedAvg."""
    return aggregation.gap_dp_to_uniform(N_np, N_p, gamma2) if dp_noise == "client" else 0.0


register(
    Claim(
        id="fedhdp:lemma7:eq79",
        assumes=MODEL,
        title="Server gap of HDP-FedAvg to FedHDP",
        place="Appendix B, Lemma 7, (79)",
        statement="What uniform weights lose against the optimal ones; it is never negative.",
        latex=r"""\sigma^2_{s,\mathrm{hdp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}=%
            \frac{\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})^3\gamma^4N}%
            {\alpha^2+\tau^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0""",
        kind="identity",
        variables=LEMMA7,
        examples=LEMMA7_EXAMPLES,
        printed=_eq79,
        derive=lambda **v: _gap_derive(v, "hdp", "opt"),
        oracle=lambda **v: _gap_oracle(v, "hdp", "opt"),
        computed=_uniform_computed,
        simulate=lambda **v: _gap_simulate(v, "hdp", "opt"),
        model=("Value(Server, Server)",),
        unit="variance",
    )
)
DP_FEDAVG: dict[str, Any] = {
    "assumes": MODEL,
    "kind": "identity",
    "variables": (*LEMMA7, DP_NOISE),
    "examples": LEMMA7_EXAMPLES,
    "condition": lambda dp_noise: sp.true if dp_noise == "client" else sp.false,
    "condition_text": "dp_noise == client (every client of DP-FedAvg adds noise of variance N_p*gamma2)",
    "counterexample": {"N_np": 1, "N_p": 1, "alpha2": 1, "tau2": 1, "gamma2": 1, "dp_noise": "sum"},
    "unit": "variance",
    "related": ("fedhdp:lemma7:eq79", "feo2:gamma-prop"),
    "remark": """The paper does not say how noisy DP-FedAvg is. Its own rule z^2 (S/qN)^2 puts the same noise on the sum
        whoever is private; then DP-FedAvg with all N clients private is exactly as noisy at the server as HDP-FedAvg:
        (81) becomes 0 and (80) becomes (79).""",
}
register(
    Claim(
        id="fedhdp:lemma7:eq80",
        title="Server gap of DP-FedAvg to FedHDP",
        place="Appendix B, Lemma 7, (80)",
        statement="What DP-FedAvg, where all clients are private, loses against FedHDP.",
        latex=r"""\sigma^2_{s,\mathrm{dp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}=%
            \frac{\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})(\alpha^2+\tau^2)\gamma^2+\rho_{\mathrm{np}}(1-%
            \rho_{\mathrm{np}})^2\gamma^4N}{\alpha^2+\tau^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0""",
        printed=_eq80,
        derive=lambda **v: _gap_derive(v, "dp", "opt"),
        oracle=lambda **v: _gap_oracle(v, "dp", "opt"),
        computed=lambda N_np, N_p, alpha2, tau2, gamma2, dp_noise: (
            _uniform_computed(N_np, N_p, alpha2, tau2, gamma2) + _private_computed(N_np, N_p, gamma2, dp_noise)
        ),
        simulate=lambda **v: _gap_simulate(v, "dp", "opt"),
        model=("Value(Server, Server)",),
        **DP_FEDAVG,
    )
)
register(
    Claim(
        id="fedhdp:lemma7:eq81",
        title="Server gap of DP-FedAvg to HDP-FedAvg",
        place="Appendix B, Lemma 7, (81)",
        statement="What DP-FedAvg, where all clients are private, loses against HDP-FedAvg.",
        latex=r"""\sigma^2_{s,\mathrm{dp\text{-}fedavg}}-\sigma^2_{s,\mathrm{hdp\text{-}fedavg}}=%
            \frac{\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})(\alpha^2+\tau^2)\gamma^2+\rho_{\mathrm{np}}^2(1-%
            \rho_{\mathrm{np}})^2\gamma^4N}{\alpha^2+\tau^2+\rho_{\mathrm{np}}(1-\rho_{\mathrm{np}})\gamma^2N}\geq0""",
        printed=_eq81,
        derive=lambda **v: _gap_derive(v, "dp", "hdp"),
        oracle=lambda **v: _gap_oracle(v, "dp", "hdp"),
        computed=_private_computed,
        simulate=lambda **v: _gap_simulate(v, "dp", "hdp"),
        model=("Value(Server, Server)",),
        **DP_FEDAVG,
    )
)


# --- limits in the text after Lemma 7 ------------------------------------------------------------------------------

GROWTH = Variable(
    "growth",
    "choice",
    "what happens to gamma2 as N grows. fixed: it stays; per_group: gamma2 = c/N_p^2, the same z and S for all N",
    choices=("fixed", "per_group"),
    default="fixed",
)


def _limits_derive(rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> Derivation:
    d = Derivation()
    n = sp.Symbol("N", positive=True)
    g = gamma2 if growth == "fixed" else gamma2 / ((1 - rho_np) * n) ** 2
    sizes = {"N_np": rho_np * n, "N_p": (1 - rho_np) * n}
    clients = {**sizes, "alpha2": sigma2_c, "tau2": sp.Integer(0)}  # only their sum sigma2_c matters
    gap79 = d.lemma("fedhdp:lemma7:eq79", "as a function of N", **clients, gamma2=g)
    gap80 = d.lemma("fedhdp:lemma7:eq80", "as a function of N", **clients, gamma2=g)
    opt = d.lemma("fedhdp:lemma6:var", "as a function of N", **sizes, sigma2_c=sigma2_c, gamma2=g)
    alone = d.say("and the non-private clients' average alone has the error", sigma2_c / (rho_np * n))
    return d.conclude("N to infinity: the two gaps, the optimal error, and that of the non-private clients tend to",
                      tuple(limit(e, n, sp.oo) for e in (gap79, gap80, opt, alone)))  # fmt: skip


def _limits_approach(t: Any, rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> tuple[Any, ...]:
    """Gaps, optimal error, and that of the non-private clients, with t clients."""
    g = gamma2 if growth == "fixed" else gamma2 / ((1 - rho_np) * t) ** 2
    errors = _server_errors(rho_np * t, (1 - rho_np) * t, sigma2_c, g, "client")
    return errors["hdp"] - errors["opt"], errors["dp"] - errors["opt"], errors["opt"], sigma2_c / (rho_np * t)


def _exact_errors(n: Any, rho: Any, sigma2_c: Any, g: Any) -> tuple[Any, Any, Any]:
    """Gaps and optimal error of n clients by adding precisions and variances."""
    n_np, n_p = rho * n, (1 - rho) * n
    noisy = sigma2_c + n_p * g
    opt = 1 / (n_np / sigma2_c + n_p / noisy)
    hdp = (n_np * sigma2_c + n_p * noisy) / n**2
    return hdp - opt, noisy / n - opt, opt


def _limits_oracle(rho_np: Any, sigma2_c: Any, gamma2: Any, growth: str) -> tuple[Any, ...]:
    """Each quantity is rational in N, so that exact values at some N fix it, and with it its limit."""

    def at(n: Any, entry: int) -> Any:
        g = gamma2 if growth == "fixed" else gamma2 / ((1 - rho_np) * n) ** 2
        return _exact_errors(n, rho_np, sigma2_c, g)[entry]

    alone = rational_limit(lambda n: 1 / (rho_np * n / sigma2_c))
    return (*(rational_limit(lambda n, i=i: at(n, i)) for i in range(3)), alone)


register(
    Claim(
        id="fedhdp:lemma7:limits",
        title="Limits of the server gaps",
        place="Appendix B, text after Lemma 7",
        statement="""For large N the gaps approach (1-rho)^2 gamma2 and (1-rho) gamma2 while the optimal error vanishes; the
            non-private clients alone would learn the optimal global model perfectly.""",
        latex=r"N\to\infty:\ (1-\rho_{\mathrm{np}})^2\gamma^2,\ (1-\rho_{\mathrm{np}})\gamma^2",
        kind="limit",
        variables=(RHO_NP, SIGMA2_C, GAMMA2, GROWTH),
        examples=(
            {"rho_np": "1/4", "sigma2_c": 2, "gamma2": 3},
            {"rho_np": "1/2", "sigma2_c": 1, "gamma2": 1},
        ),
        printed=lambda rho_np, gamma2: ((1 - rho_np) ** 2 * gamma2, (1 - rho_np) * gamma2, 0, 0),
        derive=_limits_derive,
        oracle=_limits_oracle,
        condition=lambda growth: sp.true if growth == "fixed" else sp.false,
        condition_text="growth == fixed (gamma2 does not depend on N)",
        counterexample={"rho_np": "1/2", "sigma2_c": 1, "gamma2": 1, "growth": "per_group"},
        entries=(
            "gap (79), N large",
            "gap (80), N large",
            "optimal error, N large",
            "non-private clients alone",
        ),
        not_computed=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma7:eq80")),
        not_simulated=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma7:eq80")),
        assumes=MODEL,
        approach=_limits_approach,
        unit="variance",
        related=("feo2:gamma-prop",),
        remark="""FeO2 states that gamma2 is proportional to 1/N_p^2. Then gamma2 vanishes as N grows with the mix fixed, and
            so do both gaps: the constant gap belongs to a noise that is made stronger as more clients join.""",
    )
)


# --- no heterogeneity, and much noise ------------------------------------------------------------------------------------

COUNT = Variable("count", "positive", "clients in all, of which a share rho_np is not private")
EDGES = ("(79), rho to 0", "(80), rho to 0", "(79), rho to 1", "(80), rho to 1")


def _gap_lemmas(d: Derivation, count: Any, rho: Any, sigma2_c: Any, gamma2: Any) -> list[Any]:
    """Gaps (79) and (80) as functions of these."""
    clients = {"N_np": rho * count, "N_p": (1 - rho) * count, "alpha2": sigma2_c, "tau2": sp.Integer(0), "gamma2": gamma2}
    return [d.lemma(f"fedhdp:lemma7:eq{i}", "as a function of the share", **clients) for i in (79, 80)]


def _edges_derive(count: Any, sigma2_c: Any, gamma2: Any) -> Derivation:
    d = Derivation()
    x, share = sp.symbols("x rho", positive=True)
    gaps = _gap_lemmas(d, count, share, sigma2_c, gamma2)
    found = [limit(gap.subs(share, rho), x, 0) for rho in (x, 1 - x) for gap in gaps]
    return d.conclude("Both gaps at rho to 0, then at rho to 1:", tuple(found))


def _edges_approach(t: Any, count: Any, sigma2_c: Any, gamma2: Any) -> tuple[Any, ...]:
    """Both gaps at shares 1/(1+t) and t/(1+t)."""
    values: list[Any] = []
    for rho in (1 / (1 + t), t / (1 + t)):
        errors = _server_errors(rho * count, (1 - rho) * count, sigma2_c, gamma2, "client")
        values += [errors["hdp"] - errors["opt"], errors["dp"] - errors["opt"]]
    return tuple(values)


def _edges_oracle(count: Any, sigma2_c: Any, gamma2: Any) -> tuple[Any, ...]:
    def at(x: Any, power: int, entry: int) -> Any:
        return _exact_errors(count, x**power / (1 + x), sigma2_c, gamma2)[entry]

    return tuple(rational_limit(lambda x, p=p, i=i: at(x, p, i)) for p in (0, 1) for i in (0, 1))


register(
    Claim(
        id="fedhdp:lemma7:edges",
        title="Without heterogeneous privacy the server gains nothing",
        place="Appendix B, text after Lemma 7",
        statement="""If rho_np tends to 0 (homogeneous private clients) or to 1 (no private clients) the gap vanishes: the
            benefit on the server side is there only for heterogeneous privacy. Judged for (79) and (80).""",
        latex=r"\rho_{\mathrm{np}}\to0\ \text{or}\ \rho_{\mathrm{np}}\to1:\ \text{the gap vanishes}",
        kind="limit",
        variables=(COUNT, SIGMA2_C, GAMMA2),
        examples=({"count": 4, "sigma2_c": 2, "gamma2": 3},),
        printed=lambda: (sp.Integer(0),) * 4,
        derive=_edges_derive,
        oracle=_edges_oracle,
        approach=_edges_approach,
        entries=EDGES,
        not_computed=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma7:eq80")),
        not_simulated=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma7:eq80")),
        assumes=MODEL,
        unit="variance",
        related=("fedhdp:lemma7:limits",),
    )
)


def _noise_derive(count: Any, rho_np: Any, sigma2_c: Any) -> Derivation:
    d = Derivation()
    g = sp.Symbol("gamma2", positive=True)
    gaps = _gap_lemmas(d, count, rho_np, sigma2_c, g)
    sizes = {"N_np": rho_np * count, "N_p": (1 - rho_np) * count}
    opt = d.lemma("fedhdp:lemma6:var", "the optimal error", **sizes, sigma2_c=sigma2_c, gamma2=g)
    # The share is between 0 and 1: as 1/(1 + odds) every sign is plain.
    odds = sp.Symbol("odds", positive=True)
    found = [limit(sp.cancel(sp.together(x.subs(rho_np, 1 / (1 + odds)))), g, sp.oo) for x in (*gaps, opt)]
    return d.conclude("For gamma2 to infinity:", tuple(sp.sympify(x).subs(odds, 1 / rho_np - 1) for x in found))


def _noise_approach(t: Any, count: Any, rho_np: Any, sigma2_c: Any) -> tuple[Any, ...]:
    """Gaps and optimal error at noise t."""
    errors = _server_errors(rho_np * count, (1 - rho_np) * count, sigma2_c, t, "client")
    return errors["hdp"] - errors["opt"], errors["dp"] - errors["opt"], errors["opt"]


def _noise_oracle(count: Any, rho_np: Any, sigma2_c: Any) -> tuple[Any, ...]:
    return tuple(rational_limit(lambda g, i=i: _exact_errors(count, rho_np, sigma2_c, g)[i]) for i in range(3))


register(
    Claim(
        id="fedhdp:lemma7:large-noise",
        title="Much noise: unbounded gaps, bounded optimal error",
        place="Appendix B, text after Lemma 7",
        statement="""For gamma2 to infinity the gaps grow unbounded; the optimal error remains bounded, because the optimal
            strategy discards the private clients and aggregates the non-private updates only.""",
        latex=r"""\gamma^2\to\infty:\ \sigma^2_{s,\mathrm{hdp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}\to%
            \infty,\ \sigma^2_{s,\mathrm{dp\text{-}fedavg}}-\sigma^2_{s,\mathrm{opt}}\to%
            \infty,\ \sigma^2_{s,\mathrm{opt}}\to\frac{\sigma_c^2}{\rho_{\mathrm{np}}N}""",
        kind="limit",
        variables=(COUNT, RHO_NP, SIGMA2_C),
        examples=({"count": 4, "rho_np": "1/4", "sigma2_c": 2},),
        printed=lambda count, rho_np, sigma2_c: (sp.oo, sp.oo, sigma2_c / (rho_np * count)),
        derive=_noise_derive,
        oracle=_noise_oracle,
        approach=_noise_approach,
        entries=("gap (79)", "gap (80)", "optimal error"),
        not_computed=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma6:var")),
        not_simulated=Exempt(kind="limit", of=("fedhdp:lemma7:eq79", "fedhdp:lemma6:var")),
        assumes=MODEL,
        unit="variance",
        related=("fedhdp:lemma7:limits",),
    )
)
