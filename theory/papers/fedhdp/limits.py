"""FedHDP, the corner cases after Lemma 3: equal noise, one level, perfect estimates, homogeneous data.

Belongs here: limits of the best strength with two privacy levels. Does not belong here: the strength itself (strength.py),
the special cases of Table 4 (theorems.py).
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy import And, Eq, Or

from estimators.closed_forms import personalization
from theory.engine.algebra import limit
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.fedhdp.federation import (
    ALL,
    OWN_NOISE_TEXT,
    TAU2_POSITIVE,
    setting,
    simulate_one_level,
    simulated_strengths,
    units,
)
from theory.papers.shared import (
    ALPHA2,
    GAMMA2_1,
    GAMMA2_2,
    MODEL,
    N1,
    N2,
    OWN_NOISE,
    TAU2,
    concrete_strength,
    derive_strength,
    rational_limit,
)

# --- limits after Lemma 3 ------------------------------------------------------------------------------------------


def _same_noise(**v: Any) -> dict[str, Any]:
    return {**v, "gamma2_1": v["N2"] * v["gamma2_2"] / v["N1"]}


def _same_noise_oracle(**v: Any) -> tuple[Any, Any]:
    """Equal noise for all is one level of all clients."""
    count = v["N1"] + v["N2"]
    noise = v["gamma2_2"] * v["N2"]
    found = concrete_strength(1, [count], [noise / count], v["alpha2"], v["tau2"], v["own_noise"])
    return found, found


def _same_noise_computed(**v: Any) -> tuple[float, float]:
    both = [v["gamma2_2"] * (v["N2"] / v["N1"]), v["gamma2_2"]]
    sizes, own = [v["N1"], v["N2"]], bool(v["own_noise"])
    return tuple(
        personalization.personalization_strength(i, sizes, both, v["alpha2"], v["tau2"], own_noise=own) for i in (1, 2)
    )  # type: ignore[return-value]


def _homogeneous(**v: Any) -> dict[str, Any]:
    return {**v, "tau2": sp.Integer(0)}


def _both_strengths(v: dict[str, Any], text: str) -> Derivation:
    d = Derivation()
    found = tuple(d.lemma("fedhdp:lemma3:lambda", f"in level {i}, {text}", **v, level=i) for i in (1, 2))
    return d.conclude("So", found)


def _r1_printed(**v: Any) -> tuple[Any, Any]:
    N, Y, _, G = units({**v, "gamma2_1": sp.Integer(0)})
    value = (N * (1 + Y) + N * G) / (N * Y * (1 + Y) + (N + 1) * Y * G + (1 + G) * G)
    return value, value


def _two_strengths(v: dict[str, Any]) -> tuple[Any, Any]:
    return tuple(personalization.personalization_strength(*setting(v, i), own_noise=bool(v["own_noise"])) for i in (1, 2))  # type: ignore[return-value]


register(
    Claim(
        id="fedhdp:lemma3:limit-r1",
        title="Both levels equally noisy",
        place="Appendix A.3, after Lemma 3, first bullet",
        statement="""For r to 1, that is Gamma_1^2 to Gamma_2^2, both strengths tend to the same value (1/Upsilon^2 without
            noise).""",
        latex=r"""\lambda_1^*,\lambda_2^*\to\frac{N(1+\Upsilon^2)+N\Gamma_2^2}%
            {N\Upsilon^2(1+\Upsilon^2)+(N+1)\Upsilon^2\Gamma_2^2+(1+\Gamma_2^2)\Gamma_2^2}""",
        kind="limit",
        variables=(N1, N2, ALPHA2, TAU2, GAMMA2_2, OWN_NOISE),
        examples=({"N1": 2, "N2": 2, "alpha2": 1, "tau2": "1/2", "gamma2_2": 1},),
        printed=_r1_printed,
        derive=lambda **v: _both_strengths(_same_noise(**v), "with N_1 gamma2_1 = N_2 gamma2_2"),
        oracle=_same_noise_oracle,
        computed=_same_noise_computed,
        simulate=lambda **v: simulated_strengths({**v, "gamma2_1": v["gamma2_2"] * (v["N2"] / v["N1"])}),
        model=("BestStrength",),
        assumes=MODEL,
        condition=lambda own_noise, gamma2_2: Or(Eq(own_noise, 0), Eq(gamma2_2, 0)),
        condition_text=OWN_NOISE_TEXT,
        entries=("level 1", "level 2"),
        unit="dimensionless",
        remark="It simplifies to N/(N Upsilon^2 + Gamma_2^2); with own noise N is replaced by N - 1.",
    )
)


def _one_level(v: dict[str, Any]) -> tuple[Any, ...]:
    return (1, [v["N"]], [v["gamma2_2"]], v["alpha2"], v["tau2"])


def _n2_printed(**v: Any) -> Any:
    Y, G = v["tau2"] / v["alpha2"], v["N"] * v["gamma2_2"] / v["alpha2"]
    return v["N"] / (Y * v["N"] + G)


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
        model=("BestStrength",),
        condition=lambda own_noise, gamma2_2: Or(Eq(own_noise, 0), Eq(gamma2_2, 0)),
        condition_text=OWN_NOISE_TEXT,
        related=("fedhdp:lemma3:lambda",),
        assumes=MODEL | {"pivot": "model"},
        unit="dimensionless",
    )
)

NOISE = tuple(
    Variable(f"noise{i}", "choice", f"1: level {i} adds noise; 0: it does not (gamma2_{i} = 0)", choices=(1, 0), default=1)
    for i in (1, 2)
)
HOMOGENEOUS = Variable("spread", "choice", "1: tau2 > 0; 0: homogeneous data (tau2 = 0)", choices=(1, 0), default=1)
GAMMA2_1_POSITIVE = Variable("gamma2_1", "positive", "privacy noise variance of level 1's average")
GAMMA2_2_POSITIVE = Variable("gamma2_2", "positive", "privacy noise variance of level 2's average")


def _alpha0_derive(**v: Any) -> Derivation:
    d = Derivation()
    a = sp.Symbol("alpha2", positive=True)
    at = {**v, "alpha2": a, "tau2": v["tau2"] * v["spread"]}
    at |= {f"gamma2_{i}": v[f"gamma2_{i}"] * v[f"noise{i}"] for i in (1, 2)}
    limits = []
    for level in (1, 2):
        federation = {k: at[k] for k in ("N1", "N2", "alpha2", "tau2", "gamma2_1", "gamma2_2")}
        lam = d.lemma("fedhdp:lemma3:lambda", f"in level {level}", **federation, level=level, own_noise=0)
        limits.append(sp.oo if sp.sympify(lam).is_infinite else limit(lam, a, 0))
    return d.conclude("alpha2 to 0:", tuple(limits))


def _alpha0_oracle(**v: Any) -> tuple[Any, ...]:
    values = []
    for level in (1, 2):

        def at(x: Any, level: int = level) -> Any:
            point = {
                **v,
                "alpha2": 1 / x,
                "tau2": v["tau2"] * v["spread"],
                "gamma2_1": v["gamma2_1"] * v["noise1"],
                "gamma2_2": v["gamma2_2"] * v["noise2"],
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
        variables=(N1, N2, TAU2_POSITIVE, GAMMA2_1_POSITIVE, GAMMA2_2_POSITIVE, HOMOGENEOUS, *NOISE),
        examples=({"N1": 2, "N2": 2, "tau2": 1, "gamma2_1": 1, "gamma2_2": 2},),
        printed=lambda: (sp.Integer(0), sp.Integer(0)),
        derive=_alpha0_derive,
        oracle=_alpha0_oracle,
        condition=lambda spread, noise1, noise2: Or(Eq(spread, 1), And(Eq(noise1, 1), Eq(noise2, 1))),
        condition_text="tau2 > 0, or both levels add noise",
        counterexample={"N1": 2, "N2": 2, "tau2": 1, "gamma2_1": 1, "gamma2_2": 2, "spread": 0, "noise1": 0},
        entries=("level 1", "level 2"),
        not_computed=Exempt(kind="limit", of=("fedhdp:lemma3:lambda",)),
        not_simulated=Exempt(kind="limit", of=("fedhdp:lemma3:lambda",)),
        assumes=MODEL | {"own_noise": "out"},
        unit="dimensionless",
        remark="""With homogeneous data and one level without noise, the strength of that level is infinite for every alpha2,
            and that of the other tends to the number of the noise-free clients, who then know the centre as well as the
            client knows itself. Where neither level adds noise both strengths are infinite.""",
        model=("Limit(Optimum)",),
    )
)


def _tau0_printed(**v: Any) -> tuple[Any, Any]:
    N, _, G1, G2 = units({**v, "tau2": sp.Integer(0)})
    top = N + v["N2"] * G1 + v["N1"] * G2
    return top / (G1 * (1 + G2)), top / (G2 * (1 + G1))


register(
    Claim(
        id="fedhdp:lemma3:limit-tau0",
        title="Homogeneous data",
        place="Appendix A.3, after Lemma 3, fourth bullet",
        statement="For tau2 to 0, IID clients, the strengths tend to these values.",
        latex=r"""\tau^2\to0:\ \lambda_1^*\to\frac{N+N_2\Gamma_1^2+N_1\Gamma_2^2}{\Gamma_1^2(1+\Gamma_2^2)},\quad\lambda_2^*%
            \to\frac{N+N_2\Gamma_1^2+N_1\Gamma_2^2}{\Gamma_2^2(1+\Gamma_1^2)}""",
        kind="limit",
        variables=(N1, N2, ALPHA2, GAMMA2_1, GAMMA2_2, OWN_NOISE),
        examples=({"N1": 2, "N2": 2, "alpha2": 1, "gamma2_1": 1, "gamma2_2": 2},),
        printed=_tau0_printed,
        derive=lambda **v: _both_strengths(_homogeneous(**v), "with tau2 = 0"),
        oracle=lambda **v: tuple(concrete_strength(*setting(_homogeneous(**v), i), v["own_noise"]) for i in (1, 2)),
        computed=lambda **v: _two_strengths({**v, "tau2": 0.0}),
        simulate=lambda **v: simulated_strengths({**v, "tau2": 0.0}),
        model=("BestStrength",),
        assumes=MODEL,
        condition=lambda own_noise: Eq(own_noise, 0),
        condition_text="own_noise == 0 (the client's own message noise is taken out of the model it gets back)",
        entries=("level 1", "level 2"),
        unit="dimensionless",
    )
)
