"""Robust-HDP, Sections 3.3 and 3.5: splitting the updates into a low-rank and a sparse part, whole or in blocks of rows.

Belongs here: what the text says about the split itself. Does not belong here: how near its weights come to the optimum
(table.py), the estimate of the noise that is read off it (estimate.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from estimators.server import robust_pca
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.robusthdp.table import SAME, Setting, draw_updates, loss, textbook_split

# --- S is sparse --------------------------------------------------------------------------------------------------------

SPARSE = Variable("rho", "fraction", "largest share of non-zero entries of S for which the cited guarantee [24] holds")
NOISE = Variable("s", "positive", "standard deviation of the privacy noise in an element of an update")


def _sparse_derive(s: Any) -> Derivation:
    d = Derivation()
    h = sp.Symbol("h", positive=True)
    near = d.say("S captures the privacy noise, so its elements hold N(0, s^2). The chance to lie within h of 0 is",
                 sp.erf(h / (s * sp.sqrt(2))))  # fmt: skip
    zero = d.say("so that of being 0 is", sp.limit(near, h, 0))
    return d.conclude("Share of the elements that are not 0:", 1 - zero)


def _sparse_oracle(s: Any) -> Any:
    """The mass of a point is the long-run average of the characteristic function (Wiener): exp(-s^2 t^2/2) has none."""
    t, end = sp.Symbol("t", real=True), sp.Symbol("T", positive=True)
    area = sp.integrate(sp.exp(-(s**2) * t**2 / 2), (t, -sp.oo, sp.oo))
    return 1 - sp.limit(area / (2 * end), end, sp.oo)


register(
    Claim(
        id="robusthdp:sparse",
        title="S is a sparse noise matrix",
        place="Section 3.3, decomposition M = L + S, and Section 1 ('RPCA [24]')",
        statement="""S is sparse, as robust PCA's guarantee in [24] asks, and captures the privacy noise. Judged: the share
            of non-zero elements of S is at most some rho < 1 where S holds the privacy noise.""",
        latex=r"""\mathbf{M} := [\Delta\tilde{\theta}_1^e | \dots | \Delta\tilde{\theta}_n^e] = \mathbf{L} +
            \mathbf{S},\text{ where }\mathbf{L}\text{ is a low rank matrix and }\mathbf{S}%
            \text{ is a sparse noise matrix}""",
        kind="upper bound",
        variables=(SPARSE, NOISE),
        examples=({"rho": "1/2", "s": 1},),
        printed=lambda rho: rho,
        relation="<=",
        derive=_sparse_derive,
        oracle=_sparse_oracle,
        corrected=lambda: sp.Integer(1),
        corrected_text="1: Gaussian noise fills every element",
        counterexample={"rho": "9/10", "s": 1},
        finding="""Gaussian noise fills every element of the noise matrix, so that it is not sparse and the cited guarantee
            for robust PCA does not cover it.""",
        not_computed=Exempt(kind="constant"),
        not_simulated=Exempt(kind="deterministic", note="an event of probability one"),
        assumes={"law": "gaussian"},
        unit="share of the elements",
        related=("robusthdp:tab2:simulated", "robusthdp:lem1:mean"),
        remark="""What robust PCA returns as S is sparse (it thresholds), and so cannot be the noise: elements below the
            threshold go to L. How near the weights come nevertheless: robusthdp:tab2:simulated.""",
    )
)

# --- blocks of rows -----------------------------------------------------------------------------------------------------

LENGTHS = (2, 3)
ROWS = Variable("rows", "size", "rows of each sub-matrix", lengths=LENGTHS)
POWERS = Variable("powers", "positive", "noise variance per element in each sub-matrix", lengths=LENGTHS)


def _blocks_derive(rows: Sequence[Any], powers: Sequence[Any]) -> Derivation:
    d = Derivation()
    total = d.say("||S_i||^2 is on average, over all rows,", sum(m * v for m, v in zip(rows, powers, strict=True)))
    return d.conclude("and sigma_hat_i^2 divides it by the number of rows:", total / sum(rows))


def _blocks_oracle(rows: Sequence[Any], powers: Sequence[Any]) -> Any:
    """Row by row."""
    elements = [fraction(v) for m, v in zip(rows, powers, strict=True) for _ in range(int(m))]
    return rational(sum(elements) / len(elements))


def _blocks_simulate(rows: Sequence[int], powers: Sequence[float]) -> simulation.Simulation:
    scales = np.repeat(np.sqrt(powers), rows)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        return np.mean((scales * gen.standard_normal((reps, len(scales)))) ** 2, axis=1)[:, None]

    return simulation.sample_means(draw, draws=len(scales))


def _equal_blocks(rows: Sequence[Any], powers: Sequence[Any]) -> Any:
    alike = [sp.And(*(sp.Eq(x, values[0]) for x in values[1:])) for values in (rows, powers)]
    return sp.Or(*alike)


register(
    Claim(
        id="robusthdp:blocks",
        title="The average of the sub-matrices' noise estimates",
        place="Section 3.5",
        statement="""Noise variances may be estimated on sub-matrices of p' rows and averaged. Judged, where each sub-matrix
            is split as the whole is: the plain average of the sub-matrices' ||S||^2/p' is that of the whole matrix.""",
        latex=r"""\text{we perform the noise estimation mechanism on sub-matrices of }\mathbf{M}\text{ (e.g., }\mathbf{M}[0
            : p', :] = \mathbf{L} + \mathbf{S}\text{) in parallel and use their average noise variance estimate}""",
        kind="algorithm line",
        variables=(ROWS, POWERS),
        examples=({"rows": [3, 3], "powers": [1, 4]}, {"rows": [4, 4, 1], "powers": [1, 2, 8]}),
        printed=lambda powers: sum(powers) / sp.Integer(len(powers)),
        derive=_blocks_derive,
        oracle=_blocks_oracle,
        simulate=_blocks_simulate,
        condition=_equal_blocks,
        condition_text="rows[i] == rows[0] for all i (p' divides p), or powers[i] == powers[0] for all i",
        counterexample={"rows": [3, 1], "powers": [1, 5]},
        not_computed=Exempt(
            kind="elsewhere", function="estimators.server.robust_pca.noise_variances", note="weighs blocks by their rows"
        ),
        assumes={"law": "moments"},
        unit="variance per element",
        related=("robusthdp:lem1:mean",),
        remark="With p' = 200,000 the last sub-matrix is shorter unless p' divides p; its estimate must weigh by its rows.",
    )
)

# --- more parameters ----------------------------------------------------------------------------------------------------

FEWER = Variable("p", "choice", "model parameters, compared with 8 times as many", choices=(25, 50))
STRENGTH = Variable("strength", "choice", "variance of the shared update per element over the least noisy client's noise",
                    choices=("1/10", "10"))  # fmt: skip
DRAWS = 4


@cache
def _excesses(p: int, strength: str) -> tuple[float, ...]:
    found = []
    for seed in range(DRAWS):
        updates, variances = draw_updates(Setting(p=p, strength=float(sp.Rational(strength))), seed)
        found.append(loss(robust_pca.noise_variances(updates).variances, variances) - 1)
    return tuple(found)


@cache
def _textbook_excesses(p: int, strength: str) -> tuple[float, ...]:
    found = []
    for seed in range(DRAWS):
        updates, variances = draw_updates(Setting(p=p, strength=float(sp.Rational(strength))), seed)
        w = np.linalg.norm(textbook_split(updates), axis=0) ** -2.0
        found.append(float((w / w.sum()) ** 2 @ variances * np.sum(1 / variances)) - 1)
    return tuple(found)


def _precision_derive(p: int, strength: str) -> Derivation:
    d = Derivation()
    d.say("""Draw updates of 20 clients, split them by robust PCA (Gram form), weigh by 1/||S_i||^2. Excess of the
        aggregate's noise over the least possible, with p parameters:""",
          tuple(f"{x:.3f}" for x in _excesses(p, strength)))  # fmt: skip
    d.say("and with 8 p:", tuple(f"{x:.3f}" for x in _excesses(8 * p, strength)))
    worse = sum(more > less for less, more in zip(_excesses(p, strength), _excesses(8 * p, strength), strict=True))
    return d.conclude("Draws in which more parameters lose more:", sp.Integer(worse))


def _precision_oracle(p: int, strength: str) -> Any:
    """The same draws with the textbook iteration."""
    worse = sum(
        more > less for less, more in zip(_textbook_excesses(p, strength), _textbook_excesses(8 * p, strength), strict=True)
    )
    return sp.Integer(worse)


register(
    Claim(
        id="robusthdp:precision",
        title="The precision of robust PCA falls as the model grows",
        place="Section 3.5, first sentence",
        statement="""The precision of robust PCA decreases when the number p of model parameters grows. Judged on four
            simulated draws: number of draws in which the weights lose more with 8 p parameters than with p (printed:
            all).""",
        latex=r"""\text{The computation time (precision) of RPCA algorithm increases (decreases) when the number of model
            parameters }p\text{ grows}""",
        kind="order",
        variables=(FEWER, STRENGTH),
        examples=({"p": 50, "strength": "1/10"},),
        printed=lambda: sp.Integer(DRAWS),
        derive=_precision_derive,
        oracle=_precision_oracle,
        corrected=lambda: sp.Integer(0),
        corrected_text="0: in every draw more parameters lose less",
        counterexample={"p": 50, "strength": "1/10"},
        finding="In simulated rounds robust PCA's weights get better with more parameters, not worse.",
        not_computed=Exempt(
            kind="elsewhere", function="estimators.server.robust_pca.noise_variances", note="the solver is what is judged"
        ),
        not_simulated=Exempt(kind="simulation"),
        shares={"theory.papers.robusthdp.table.draw_updates": SAME},
        assumes={"independence": "all", "law": "gaussian"},
        unit="draws out of 4",
        related=("robusthdp:tab2:simulated", "robusthdp:lem1:tail:p"),
        remark="""Mean excess at p = 50, 200, 800, 3200 (20 clients, one shared direction): 12, 1.0, 0.27, 0.05 % at strength
            1/10; 20, 4.2, 2.5, 2.4 % at strength 10. With full convergence, lam = 1/sqrt(p). The sentence after Lemma 1
            says the opposite too: the probability of a good estimate increases with p. Time does grow.""",
    )
)

__all__ = ["DRAWS"]
