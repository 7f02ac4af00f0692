"""Whose budget is spent on what: many silos at once (footnote 3), and cluster selection beside training (Appendix C.3).

Belongs here: budgets of several silos and of several mechanisms. Does not belong here: the mechanisms' own guarantees
(selection.py, gaussian_noise.py), tuning.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

# --- footnote 3: silos side by side -------------------------------------------------------------------------------

E_OWN = Variable("E_own", "nonnegative", "e^eps - 1 of the silo whose record changes", extreme=False)
E_MORE = Variable("E_more", "nonnegative", "by how much e^eps is larger in the silo with the largest eps", extreme=False)
DELTA_OWN = Variable("delta_own", "fraction", "delta of the silo whose record changes", closed=True, extreme=False)
DELTA_MORE = Variable("delta_more", "fraction", """the share of 1 - delta_own by which delta is larger in the silo with the
    largest delta""", closed=True, extreme=False)  # fmt: skip


def _side_printed(E_own: Any, E_more: Any, delta_own: Any, delta_more: Any) -> tuple[Any, Any]:
    return 1 + E_own + E_more, 1 - (1 - delta_own) * (1 - delta_more)


def _side_derive(E_own: Any, E_more: Any, delta_own: Any, delta_more: Any) -> Derivation:
    d = Derivation()
    own, other = sp.symbols("P_own P_others", positive=True)
    d.say("""A record lies in one silo; where it changes only that silo's answer has another law. Where it does not give the
        record away, which it does with probability delta_own, all answers have the likelihood""", own * other)  # fmt: skip
    changed = own / (1 + E_own)
    d.say("and after the change, where it falls the most,", changed * other)
    ratio = d.say("The others cancel in the ratio:", sp.cancel(own * other / (changed * other)))
    return d.conclude("e^eps, and the probability of answers that it does not cover:", (ratio, delta_own))


def _side_oracle(E_own: Any, E_more: Any, delta_own: Any, delta_more: Any) -> tuple[Any, Any]:
    """All answers of three silos, which respond at random or give the record away, before and after the first's changes."""
    budgets = (E_own, E_own + E_more, E_own / 2)
    deltas = (delta_own, delta_own + delta_more - delta_own * delta_more, delta_own / 3)
    before, after = [], []
    for answers in product(("yes", "no", "was", "is"), repeat=len(budgets)):
        here = there = sp.Integer(1)
        for j, (answer, more, delta) in enumerate(zip(answers, budgets, deltas, strict=True)):
            often = {"yes": (1 - delta) * (1 + more) / (2 + more), "no": (1 - delta) / (2 + more), "was": delta, "is": 0}
            rare = {"yes": often["no"], "no": often["yes"], "was": 0, "is": delta}
            here *= often[answer]
            there *= (rare if j == 0 else often)[answer]
        before.append(here)
        after.append(there)
    worst = max((a / b for a, b in zip(before, after, strict=True) if a and b), default=1 + E_own)
    return worst, sum(max(a - worst * b, sp.Integer(0)) for a, b in zip(before, after, strict=True))


def _side_simulate(E_own: float, E_more: float, delta_own: float, delta_more: float) -> simulation.Simulation:
    """All silos answer, before and after one record changes: how often they all give the likely answer, how often the first
    gives the record away.
    """
    budgets = np.array([E_own, E_own + E_more, E_own / 2])
    kept = np.array([1 - delta_own, (1 - delta_own) * (1 - delta_more), 1 - delta_own / 3])

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        likely = kept * (1 + budgets) / (2 + budgets)
        changed = np.array([kept[0] / (2 + E_own), *likely[1:]])
        here, there = (gen.random((reps, 3)) < chances for chances in (likely, changed))
        given_away = gen.random(reps) >= kept[0]
        return np.stack([here.all(axis=1), there.all(axis=1), given_away], axis=1).astype(float)

    size = float(np.prod(kept) * np.prod((1 + budgets[1:]) / (2 + budgets[1:])) / (2 + E_own))
    ratio = simulation.Ratio("likely answers before over after", [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], size, of=0)
    away = simulation.Mean("a record given away", [0.0, 0.0, 1.0], of=1)
    return simulation.Simulation(simulation.sample_means(draw, count=3).experiment, (ratio, away))


register(
    Claim(
        id="mrmtl:footnote3",
        title="Silos side by side",
        place="Section 3, footnote 3",
        statement="""A record in the combined dataset is at most (max eps_i, max delta_i)-DP. Judged: the e^eps of all
            silos' answers together when a record of one silo changes, and the probability that this does not cover, where
            every silo's mechanism is the least private one of its eps and delta.""",
        latex=r"(\max_{i}\varepsilon_{i},\max_{i}\delta_{i})",
        kind="upper bound",
        variables=(E_OWN, E_MORE, DELTA_OWN, DELTA_MORE),
        examples=(
            {"E_own": 1, "E_more": 2, "delta_own": "1/5", "delta_more": "1/4"},
            {"E_own": 2, "E_more": 0, "delta_own": "1/3", "delta_more": 0},
        ),
        printed=_side_printed,
        relation="<=",
        derive=_side_derive,
        oracle=_side_oracle,
        shifts=lambda delta_own, delta_more, **_: {
            x: (t := sp.Symbol(f"{x}_odds", nonnegative=True)) / (1 + t) for x in (delta_own, delta_more)
        },
        tight=Tight(at={"E_own": 2, "E_more": 0, "delta_own": "1/3", "delta_more": 0}),
        entries=("e^eps", "delta needed at that eps"),
        not_computed=Exempt(kind="enumerated"),
        simulate=_side_simulate,
        unit="dimensionless",
        assumes={"adjacency": "replace", "noise": "fresh"},
        remark="""Attained in the silo with the largest eps and delta. It needs that a person has one record in one silo
            only, as the paper assumes; with records in several silos the budgets add up.""",
    )
)


# --- what selection takes -----------------------------------------------------------------------------------------

EPS = Variable("eps", "positive", "the total budget eps_total", extreme=False)
LOG_DELTA = Variable("log_delta", "choice", "delta is 10 to minus this", choices=(3, 7))
SELECTIONS = Variable("T_select", "choice", "rounds with a selection", choices=(20, 40, 200, 400))


def _selection_derive(eps: Any, log_delta: int, T_select: int) -> Derivation:
    d = Derivation()
    d.say("A selection with eps_select = 3/100 eps_total is eps_select^2/8-zCDP (mrmtl:appA:em-zcdp), and zCDP adds up:")
    spent = d.say("all selections together are rho-zCDP with rho =", T_select * (sp.Rational(3, 100) * eps) ** 2 / 8)
    rho, log_inverse = sp.symbols("rho L", positive=True)
    total = d.say("rho-zCDP has eps = rho + 2 sqrt(rho L), L = log(1/delta); the total budget is that of rho =",
                  (sp.sqrt(log_inverse + eps) - sp.sqrt(log_inverse)) ** 2)  # fmt: skip
    assert sp.expand(total + 2 * sp.sqrt(log_inverse) * (sp.sqrt(log_inverse + eps) - sp.sqrt(log_inverse)) - eps) == 0
    share = spent / total.subs(log_inverse, log_delta * sp.log(10))
    return d.conclude("Their share of it:", share.subs(rho, total))


def _selection_oracle(eps: Any, log_delta: int, T_select: int) -> sp.Float:
    """Find the rho of the total budget by minimising eps over orders numerically, and root finding."""
    with mpmath.workdps(60):
        budget = mpmath.mpf(int(eps.p)) / int(eps.q)
        log_inverse = log_delta * mpmath.log(10)

        def spent(rho: Any) -> Any:
            best = mpmath.findroot(lambda a: rho - log_inverse / (a - 1) ** 2, 1 + mpmath.sqrt(log_inverse / rho))
            return best * rho + log_inverse / (best - 1)

        guess = budget**2 / (4 * (log_inverse + budget))
        rho = mpmath.findroot(
            lambda r: spent(r) - budget, (guess * mpmath.mpf("0.9"), guess * mpmath.mpf("1.2")), solver="anderson"
        )
        total = mpmath.mpf(0)
        for _ in range(T_select):
            total += (budget * 3 / 100) ** 2 / 8
        return sp.Float(mpmath.nstr(total / rho, 50), 50)


register(
    Claim(
        id="mrmtl:appC:selection-cost",
        title="What cluster selection takes of the privacy budget",
        place="Section 4, Figure 4; Appendix C.3, 'Mitigating strategies for private cluster selection'",
        statement="""With eps_select = 0.03 eps_total the cost of selection can still grow quickly and considerably eat into
            the budget. Judged: the share of the total budget, as rho of zCDP, that the selections take.""",
        latex=r"\varepsilon_{\text{select}}=0.03\cdot\varepsilon_{\text{total}}",
        kind="identity",
        variables=(EPS, LOG_DELTA, SELECTIONS),
        examples=(
            {"eps": "1/2", "log_delta": 7, "T_select": 400},
            {"eps": "1/2", "log_delta": 7, "T_select": 40},
            {"eps": 6, "log_delta": 3, "T_select": 200},
        ),
        derive=_selection_derive,
        oracle=_selection_oracle,
        not_computed=Exempt(
            kind="elsewhere",
            function="estimators.accounting.privacy.zcdp_from_epsilon",
            note="the total budget, by a sharper conversion",
        ),
        not_simulated=Exempt(kind="divergence"),
        ours=True,
        unit="share of rho",
        assumes={"noise": "fresh"},
        related=("mrmtl:appA:em-zcdp", "mrmtl:algA2:privacy"),
        remark="""In words T (0.03 eps)^2/8 over (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2. For Vehicle (eps = .5,
            delta = 1e-7) 400 rounds of selection would take 2.9 times the whole budget, 40 rounds (10%) 29% of it: the
            first strategy alone is not enough.""",
    )
)
