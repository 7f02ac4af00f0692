"""Table 2 of Robust-HDP: the noise left in the aggregate, and how near robust PCA comes to the least possible.

Belongs here: the table's numbers, a simulated study of where the weights are near the optimum, and what estimation alone
costs. Does not belong here: the solver (estimators.server.robust_pca), the optimal weights themselves (algorithm.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.server import robust_pca
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

# --- the printed numbers ------------------------------------------------------------------------------------------------

TABLE = {
    "WeiAvg": "1.02 1.89 0.92 3.22 4.58 28.29 9.85 48.15 34.91",
    "DPFedAvg": "1.27 16.94 16.28 26.87 25.64 70.71 18.50 85.70 43.20",
    "minimum eps": "4.68 103.91 103.91 127.18 103.91 1868.45 74.41 241.37 87.15",
    "Robust-HDP": "0.27 0.47 0.07 0.64 0.39 7.62 2.25 13.86 5.94",
    "Oracle": "0.27 0.47 0.07 0.64 0.39 7.60 2.25 13.81 5.93",
}
BASELINES = ("WeiAvg", "DPFedAvg", "minimum eps")
DIST = Variable("dist", "choice", "distribution of the privacy parameters, Dist1 to Dist9", choices=tuple(range(1, 10)))


def _entry(row: str, dist: int) -> Any:
    return sp.Rational(TABLE[row].split()[dist - 1])


def _table_derive(dist: int) -> Derivation:
    d = Derivation()
    oracle = d.say("Oracle, weights of (8):", _entry("Oracle", dist))
    own = d.say("Robust-HDP:", _entry("Robust-HDP", dist))
    least = d.say("Least of the four algorithms:", min(_entry(row, dist) for row in TABLE if row != "Oracle"))
    return d.conclude("Robust-HDP over oracle, and oracle over the least:", (own / oracle, oracle / least))


def _table_oracle(dist: int) -> tuple[Any, Any]:
    """In hundredths, by comparing products of integers."""
    cents = {row: round(float(text.split()[dist - 1]) * 100) for row, text in TABLE.items()}
    best = sorted(value for row, value in cents.items() if row != "Oracle")[0]
    return sp.Rational(cents["Robust-HDP"], cents["Oracle"]), sp.Rational(cents["Oracle"], best)


register(
    Claim(
        id="robusthdp:tab2",
        title="Table 2: the oracle is the least, and Robust-HDP is within 1 % of it",
        place="Section 4.2, Table 2 and RQ2 ('performs very close to the optimum aggregation strategy')",
        statement="In every column the oracle's noise power is the least of all, and Robust-HDP's is at most 1 % above it.",
        latex=r"\frac{\sum_{i=1}^n w_i \epsilon^2 \sigma_i^2}{p \eta_i^2}",
        kind="number",
        variables=(DIST,),
        examples=({"dist": 8}, {"dist": 6}),
        printed=lambda: (sp.Rational(101, 100), sp.Integer(1)),
        relation="<=",
        derive=_table_derive,
        oracle=_table_oracle,
        not_computed=Exempt(kind="arithmetic"),
        not_simulated=Exempt(kind="arithmetic"),
        entries=("Robust-HDP over oracle", "oracle over the least of the four"),
        tight=Tight(at={"dist": 8}, ratio="139481/138600"),
        edits=(
            Edit(
                printed=r"w_i \epsilon^2 \sigma_i^2",
                read=r"w_i^2 \sigma_i^2",
                reason="the objective of (8) is meant; the text at hand is a conversion",
            ),
            Edit(printed=r"p \eta_i^2", read=r"p \eta_l^2", reason="the local step size has no client's index elsewhere"),
        ),
        unit="dimensionless",
        related=("robusthdp:alg1",),
        remark="""At the printed digits the largest excess is 0.36 % (Dist8). Two decimals cannot show 1 % at values such as
            0.07, where only a ratio below 1.16 follows. That the oracle is the least is (8), not an observation. Whether
            the method does this elsewhere: robusthdp:tab2:simulated.""",
    )
)


def _rows_derive(dist: int) -> Derivation:
    d = Derivation()
    others = d.say("Least of the three baselines over Robust-HDP:",
                   min(_entry(row, dist) for row in BASELINES) / _entry("Robust-HDP", dist))  # fmt: skip
    quieter = max(_entry(row, dist) for row in BASELINES if row != "minimum eps")
    return d.conclude(
        "and 'minimum eps' over the noisier of the other two:", (others, _entry("minimum eps", dist) / quieter)
    )


def _rows_oracle(dist: int) -> tuple[Any, Any]:
    """In hundredths, row by row."""
    wei, fed, least, own, _ = (round(float(text.split()[dist - 1]) * 100) for text in TABLE.values())
    return sp.Rational(sorted((wei, fed, least))[0], own), sp.Rational(least, wei if wei > fed else fed)


register(
    Claim(
        id="robusthdp:tab2:baselines",
        title="Table 2: the baselines are noisier, and most of all the uniform strictest budget",
        place="Section 4.2, RQ2 and Table 2; abstract, on the privacy requirements of the most sensitive client",
        statement="""The baseline algorithms suffer from high levels of noise, most of all the one that meets the smallest
            eps everywhere. Judged: in every column every baseline has at least 3.4 times the noise of Robust-HDP, and
            'minimum eps' more than the other two.""",
        latex=r"\text{the baseline algorithms suffer from high levels of noise in the aggregated model update}",
        kind="number",
        variables=(DIST,),
        examples=({"dist": 8}, {"dist": 1}),
        printed=lambda: (sp.Rational(34, 10), sp.Integer(1)),
        relation=">=",
        derive=_rows_derive,
        oracle=_rows_oracle,
        tight=Tight(at={"dist": 8}, ratio="2618/2675"),
        not_computed=Exempt(kind="arithmetic"),
        not_simulated=Exempt(kind="arithmetic"),
        entries=("least of the baselines over Robust-HDP", "minimum eps over the noisier of the other two"),
        unit="dimensionless",
        related=("robusthdp:tab2",),
        remark="""From 3.47 (Dist8) to 13.1 times (Dist3). The three columns with 103.91 share their smallest eps, and so
            their noise. PFA has no row.""",
    )
)

# --- where it is so, and where not --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """Updates: `directions` shared ones of per-element variance `strength` (1 is the least noisy client's noise)."""

    p: int = 1000
    n: int = 20
    strength: float = 0.1
    directions: int = 1
    equal: bool = False


SETTINGS = {
    "as in Table 2": Setting(),
    "equal noise": Setting(equal=True),
    "strong updates": Setting(p=500, strength=100.0),
    "three clients": Setting(p=500, n=3, strength=10.0),
    "fifty parameters": Setting(p=50),
    "three directions": Setting(p=500, directions=3, strength=1.0),
}
NEAR = ("as in Table 2", "equal noise")
SETTING = Variable("setting", "choice", "how the updates arise", choices=tuple(SETTINGS))
DRAWS = 2
SAME = "the simulated updates are the question: both solvers split the same ones"


def draw_updates(setting: Setting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Updates of n clients and their noise variances, which vary as eps^-2 b^-3 with batch sizes 16 to 128, as in (7)."""
    gen = np.random.default_rng([20, 2, seed])
    batch, eps = gen.choice([16, 32, 64, 128], setting.n), gen.uniform(0.5, 3.0, setting.n)
    variances = np.ones(setting.n) if setting.equal else 1 / (eps**2 * batch**3.0)
    variances /= variances.min()
    loads = np.vstack([np.ones(setting.n), gen.standard_normal((setting.directions - 1, setting.n))])
    shared = np.sqrt(setting.strength) * gen.standard_normal((setting.p, setting.directions)) @ loads
    return shared + np.sqrt(variances) * gen.standard_normal((setting.p, setting.n)), variances


def loss(estimates: np.ndarray, variances: np.ndarray) -> float:
    """Noise of the aggregate with weights 1/estimates over the least possible."""
    w = 1 / estimates / np.sum(1 / estimates)
    return float(np.sum(w**2 * variances) * np.sum(1 / variances))


@cache
def _near(setting: str) -> tuple[float, ...]:
    found = []
    for seed in range(DRAWS):
        updates, variances = draw_updates(SETTINGS[setting], seed)
        found.append(loss(robust_pca.noise_variances(updates).variances, variances))
    return tuple(found)


def _study_derive(setting: str) -> Derivation:
    d = Derivation()
    d.say("""Draw updates, split them by robust PCA (Gram form), weigh by 1/||S_i||^2, and compare sum w_i^2 sigma_i^2 with
        its least value 1 / sum 1/sigma_i^2. Ratios:""", tuple(f"{x:.4f}" for x in _near(setting)))  # fmt: skip
    return d.conclude("Draws with a ratio of at most 1.01:", sp.Integer(sum(x <= 1.01 for x in _near(setting))))


def textbook_split(updates: np.ndarray) -> np.ndarray:
    """The sparse part by the textbook iteration: full singular value decompositions, no scaled multiplier."""
    lam, mu = 1 / np.sqrt(max(updates.shape)), 0.05 / np.mean(np.abs(updates))
    sparse, multiplier = np.zeros_like(updates), np.zeros_like(updates)
    for _ in range(3000):
        left, singular, right = np.linalg.svd(updates - sparse + multiplier / mu, full_matrices=False)
        low_rank = (left * np.maximum(singular - 1 / mu, 0)) @ right
        rest = updates - low_rank + multiplier / mu
        sparse = np.sign(rest) * np.maximum(np.abs(rest) - lam / mu, 0)
        error = updates - low_rank - sparse
        multiplier += mu * error
        if np.linalg.norm(error) <= 1e-5 * np.linalg.norm(updates):
            break
    return sparse


@cache
def _by_another_solver(setting: str) -> Any:
    """The same draws with the textbook iteration."""
    count = 0
    for seed in range(DRAWS):
        updates, variances = draw_updates(SETTINGS[setting], seed)
        w = np.linalg.norm(textbook_split(updates), axis=0) ** -2.0
        least = 1 / np.sum(1 / variances)
        count += (w / w.sum()) ** 2 @ variances <= 1.01 * least
    return sp.Integer(count)


register(
    Claim(
        id="robusthdp:tab2:simulated",
        title="Where robust PCA's weights are within 1 % of the oracle's",
        place="Section 4.2, RQ2-RQ3, and Section 3.4",
        statement="""Robust-HDP's noise is within 1 % of the least possible. Judged on two simulated draws of each setting:
            number of draws within 1 % (printed: both).""",
        latex=r"""\text{Robust-HDP enjoys its efficient noise minimization, which performs very close to the optimum
            aggregation strategy}""",
        kind="number",
        variables=(SETTING,),
        examples=({"setting": "as in Table 2"},),
        printed=lambda: sp.Integer(DRAWS),
        derive=_study_derive,
        oracle=_by_another_solver,
        condition=lambda setting: sp.true if setting in NEAR else sp.false,
        condition_text="""setting is 'as in Table 2' or 'equal noise' (20 clients, 1000 parameters, one shared direction
            weaker than any client's noise)""",
        counterexample={"setting": "fifty parameters"},
        not_computed=Exempt(
            kind="elsewhere", function="estimators.server.robust_pca.noise_variances", note="the solver is what is judged"
        ),
        not_simulated=Exempt(kind="simulation"),
        shares={"theory.papers.robusthdp.table.draw_updates": SAME},
        assumes={"independence": "all", "law": "gaussian"},
        unit="draws out of 2",
        related=("robusthdp:tab2", "robusthdp:lem1:mean"),
        remark="""Excess in a larger study (3 draws each, strength is the shared update's variance per element over the least
            noise variance): 20 clients, one direction, p = 10000: 0.01-0.04 % at strength 0.1, 0.4-0.7 % at 1, 1.0-2.4 %
            at 10, 1.1-3.1 % at 100; p = 2000 with 3 directions: 3-14 % at strength 1, 17-43 % at 10; with 10 directions
            120-230 %; p = 2000 with 3 clients: 0.2-2 % at strength 1, 6-19 % at 10; p = 50: 5-25 %. Near-equal noise is
            no difficulty (0.1 % at p = 2000). The stopping rule matters too: with the penalty mu of a widely copied code
            the residual is small long before the split is optimal, and the excess can exceed 100 % where the converged
            one is 0.3 %.""",
    )
)

# --- what estimation alone costs ----------------------------------------------------------------------------------------

P = Variable("p", "size", "elements of an update (model parameters)")


def _floor_derive(p: Any) -> Derivation:
    d = Derivation()
    a = d.say("""With S the noise itself, ||S_i||^2 is sigma^2 times a chi-square variable of p degrees of freedom. The
        weight w = ||S_2||^2/(||S_1||^2 + ||S_2||^2) of client 1 is Beta(a, a) with a =""", p / 2)  # fmt: skip
    square = d.say("whose mean square is a (a+1)/(2a (2a+1)):", sp.factor(a * (a + 1) / (2 * a * (2 * a + 1))))
    d.say("The aggregate's noise is sigma^2 (w^2 + (1-w)^2), on average 2 E[w^2] sigma^2; the least possible is sigma^2/2.")
    return d.conclude("Excess as a fraction of the least:", sp.simplify(4 * square - 1))


def _floor_oracle(p: Any) -> Any:
    with mpmath.workdps(60):
        a = mpmath.mpf(int(p)) / 2

        def integral(power: int) -> Any:
            # w = sin(t)^2 takes the singular ends out of the Beta density
            return mpmath.quad(lambda t: mpmath.sin(t) ** (2 * a - 1 + 2 * power) * mpmath.cos(t) ** (2 * a - 1),
                               [0, mpmath.pi / 4, mpmath.pi / 2])  # fmt: skip

        value = 4 * integral(2) / integral(0) - 1
        return sp.Float(mpmath.nstr(value, 50), 50)


def _floor_simulate(p: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        first, second = gen.chisquare(p, (reps, 2)).T  # sums of p squared normals
        w = second / (first + second)
        return (2 * (w**2 + (1 - w) ** 2) - 1)[:, None]

    return simulation.sample_means(draw, draws=2)


register(
    Claim(
        id="robusthdp:tab2:estimation",
        title="What estimating the variances costs even with exact separation",
        place="Section 4.2, Table 2; not in the paper",
        statement="""Two clients of equal noise whose noise the server sees exactly: weights 1/||S_i||^2 leave on average
            this fraction more noise than equal weights, so that 1 % needs p >= 99 parameters.""",
        latex=r"\frac{\mathbb E[\sum_iw_i^2]\sigma^2}{\sigma^2/2}-1=\frac1{p+1}",
        kind="identity",
        variables=(P,),
        examples=({"p": 4}, {"p": 9}),
        printed=lambda p: 1 / (p + 1),
        derive=_floor_derive,
        oracle=_floor_oracle,
        not_computed=Exempt(kind="few"),
        simulate=_floor_simulate,
        ours=True,
        assumes={"independence": "all", "law": "gaussian"},
        unit="dimensionless",
        related=("robusthdp:tab2",),
        remark="""In the measure of Table 2, sum w_i^2 sigma_i^2 at the weights used. For n clients of any noise it is about
            (2/p)(1 - sum w_i*^2).""",
    )
)

__all__ = ["NEAR", "SAME", "SETTINGS", "TABLE", "Setting", "draw_updates", "loss", "textbook_split"]
