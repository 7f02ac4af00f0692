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


def _side_derive(E_own: Any, E_more: Any) -> Derivation:
    d = Derivation()
    own, other = sp.symbols("P_own P_others", positive=True)
    d.say("""A record lies in one silo; where it changes only that silo's answer has another law. All answers have the
        likelihood""", own * other)  # fmt: skip
    changed = own / (1 + E_own)
    d.say("and after the change, where it falls the most,", changed * other)
    return d.conclude("The others cancel in the ratio:", sp.cancel(own * other / (changed * other)))


def _side_oracle(E_own: Any, E_more: Any) -> Any:
    """All answers of randomised responses in three silos, before and after the record of the first changes."""
    worst = sp.Integer(0)
    budgets = (E_own, E_own + E_more, E_own / 2)
    for answers in product((0, 1), repeat=len(budgets)):
        here = there = sp.Integer(1)
        for j, (answer, more) in enumerate(zip(answers, budgets, strict=True)):
            often, rare = (1 + more) / (2 + more), 1 / (2 + more)
            here *= often if answer else rare
            there *= rare if answer == (j == 0) else often
        worst = max(worst, here / there)
    return worst


def _side_simulate(E_own: float, E_more: float) -> simulation.Simulation:
    """All silos answer, before and after one record changes; how often they all give the likely answer."""
    budgets = np.array([E_own, E_own + E_more, E_own / 2])

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        likely = (1 + budgets) / (2 + budgets)
        changed = np.array([1 / (2 + E_own), *likely[1:]])
        here, there = (gen.random((reps, 3)) < chances for chances in (likely, changed))
        return np.stack([here.all(axis=1), there.all(axis=1)], axis=1).astype(float)

    size = float(np.prod((1 + budgets[1:]) / (2 + budgets[1:])) / (2 + E_own))
    ratio = simulation.Ratio("likely answers before over after", [1.0, 0.0], [0.0, 1.0], size)
    return simulation.Simulation(simulation.sample_means(draw, count=2).experiment, (ratio,))


register(
    Claim(
        id="mrmtl:footnote3",
        title="Silos side by side",
        place="Section 3, footnote 3",
        statement="""A record in the combined dataset is at most (max eps_i, max delta_i)-DP. Judged for pure privacy: the
            largest e^eps of all silos' randomised responses together when a record of one silo changes.""",
        latex=r"(\max_{i}\varepsilon_{i},\max_{i}\delta_{i})",
        kind="upper bound",
        variables=(E_OWN, E_MORE),
        examples=({"E_own": 1, "E_more": 2}, {"E_own": 2, "E_more": 0}),
        printed=lambda E_own, E_more: 1 + E_own + E_more,
        relation="<=",
        derive=_side_derive,
        oracle=_side_oracle,
        tight=Tight(at={"E_own": 2, "E_more": 0}),
        not_computed=Exempt(kind="enumerated"),
        simulate=_side_simulate,
        unit="e^eps",
        assumes={"adjacency": "replace", "noise": "fresh"},
        remark="""Attained in the silo with the largest eps. It needs that a person has one record in one silo only, as the
            paper assumes; with records in several silos the budgets add up.""",
    )
)


# --- what selection takes -----------------------------------------------------------------------------------------

EPS = Variable("eps", "positive", "the total budget eps_total", within=("1/10", 10))
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
