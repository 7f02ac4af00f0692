"""Section 6, what MR-MTL gains at its best: Propositions 6.5 and 6.6, and where it gains most.

Belongs here: the optimum against the two ends, all silos alike. Does not belong here: the optimum itself (optimum.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import mse
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import ASSUMPTIONS, AVERAGED, LOCAL, LOCAL_EXAMPLES, ONE, TAU2, ZERO, K, equal_silos

# --- Propositions 6.5 and 6.6 -------------------------------------------------------------------------------


_AVERAGED = """Judged for errors averaged over everything. Given X_k, as printed, both errors are random numbers; the
    identity holds for their averages."""


def _local_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d, silos = Derivation(), equal_silos(K, tau2, sigma2_loc)
    best = d.lemma("mrmtl:cor6.4", "the least error is", K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    error = d.say("The error of local training is", mse(silos.local - silos.target))
    return d.conclude("so that local training loses, and never gains,", simplest(error - best))


def _fed_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d, silos = Derivation(), equal_silos(K, tau2, sigma2_loc)
    best = d.lemma("mrmtl:cor6.4", "the least error is", K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    error = d.say("The error of FedAvg is", mse(silos.mean - silos.target))
    return d.conclude("so that FedAvg loses, and never gains,", simplest(error - best))


def _gap_oracle(K: Any, sigma2_loc: Any, tau2: Any, lam: Any) -> Any:
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    return model.concrete_mse(clients, lam) - model.concrete_optimum(clients)[1]


def _gap_simulate(K: int, sigma2_loc: float, tau2: float, lam: float, label: str) -> simulation.Simulation:
    silos, best = model.local_silos(tau2, [sigma2_loc] * K), mean_regularized.strength(sigma2_loc, tau2)
    return model.gap(silos, 0, model.uniform(K), [model.error_at(lam), model.error_at(best)], label)


register(
    Claim(
        id="mrmtl:prop6.5",
        title="Error gap of local training to the optimum",
        place="Section 6, Proposition 6.5, (9); Appendix E.4, (34)",
        statement="How much larger the mean squared error of local training is than that of MR-MTL at lambda*.",
        latex=r"""\Delta_{\mathrm{loc}}\triangleq\mathcal{E}_{\mathrm{loc}}-\mathcal{E}^{*}=\left(1-\frac{1}{K}\right)\cdot%
            \frac{\sigma_{\mathrm{loc}}^{4}}{\sigma_{\mathrm{loc}}^{2}+\tau^{2}}""",
        kind="identity",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=lambda K, sigma2_loc, tau2: (1 - 1 / K) * sigma2_loc**2 / (sigma2_loc + tau2),
        derive=_local_derive,
        oracle=lambda **v: _gap_oracle(**v, lam=ZERO),
        computed=mean_regularized.gap_to_local,
        simulate=lambda **v: _gap_simulate(**v, lam=0.0, label="gap of local training"),
        model=("Value(Own, Mixed)",),
        assumes=AVERAGED,
        unit="variance",
        assumptions=ASSUMPTIONS,
        remark=_AVERAGED,
    )
)
register(
    Claim(
        id="mrmtl:prop6.6",
        title="Error gap of FedAvg to the optimum",
        place="Section 6, Proposition 6.6, (10); Appendix E.4, (36)",
        statement="How much larger the mean squared error of FedAvg is than that of MR-MTL at lambda*.",
        latex=r"""\Delta_{\mathrm{fed}}\triangleq\mathcal{E}_{\mathrm{fed}}-\mathcal{E}^{*}=\left(1-\frac{1}{K}\right)\cdot%
            \frac{\tau^{4}}{\sigma_{\mathrm{loc}}^{2}+\tau^{2}}""",
        kind="identity",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=lambda K, sigma2_loc, tau2: (1 - 1 / K) * tau2**2 / (sigma2_loc + tau2),
        derive=_fed_derive,
        oracle=lambda **v: _gap_oracle(**v, lam=sp.oo),
        computed=mean_regularized.gap_to_fedavg,
        simulate=lambda **v: _gap_simulate(**v, lam=np.inf, label="gap of FedAvg"),
        model=("Value(Mixed, Mixed)",),
        assumes=AVERAGED,
        unit="variance",
        assumptions=ASSUMPTIONS,
        remark=_AVERAGED,
    )
)


# --- the best advantage over both ends ----------------------------------------------------------------------

SPREAD = Variable("tau2", "positive", TAU2.meaning)


def _advantage_derive(K: Any, tau2: Any) -> Derivation:
    d = Derivation()
    s = sp.Symbol("sigma2_loc", positive=True)
    at = {"K": K, "sigma2_loc": s, "tau2": tau2}
    local = d.lemma("mrmtl:prop6.5", "local training loses", **at)
    fed = d.lemma("mrmtl:prop6.6", "FedAvg loses", **at)
    d.say("As functions of sigma2_loc the first gap rises from 0 without bound, the second falls to 0; derivatives:",
          (simplest(sp.diff(local, s)), simplest(sp.diff(fed, s))))  # fmt: skip
    d.say("so their minimum is largest where they cross. Their difference is that of the errors of the two ends,",
          simplest(local - fed))  # fmt: skip
    (root,) = sp.solve(sp.numer(simplest(local - fed)), s)
    d.say("which vanishes only at sigma2_loc =", root)
    return d.conclude(
        "Best sigma2_loc, local minus FedAvg error there, advantage there:",
        (root, simplest((local - fed).subs(s, root)), simplest(local.subs(s, root))),
    )


def _advantage_oracle(K: Any, tau2: Any) -> tuple[Any, Any, Any]:
    def ends(s: Any) -> tuple[Any, Any]:
        clients = model.concrete_equal(K, tau2, s)
        best = model.concrete_optimum(clients)[1]
        return tuple(model.concrete_mse(clients, lam) - best for lam in (ZERO, sp.oo))

    def difference(s: Any) -> Any:
        local, fed = ends(s)
        return local - fed

    # Errors are linear in sigma2_loc, so two exact values give the crossing.
    first, second = difference(ONE), difference(2 * ONE)
    root = 1 - first / (second - first)
    peak = min(ends(root))
    if not all(min(ends(root * f)) < peak for f in (sp.Rational(6, 7), sp.Rational(8, 7))):
        raise ArithmeticError("the crossing is not a maximum")
    return root, difference(root), peak


def _crossing_simulate(K: int, tau2: float) -> simulation.Simulation:
    """Both errors are linear in sigma2_loc: the parameters' part and noise of variance one, from carriers of their own."""
    fed = simulation.federation([K, K], [tau2, 0.0], 0.0, [0.0, 1.0])
    nothing, own = np.zeros(K), np.eye(K)[0]
    weights = [[*model.uniform(K), *nothing], [*nothing, *model.uniform(K)], [*nothing, *own]]
    errors = [simulation.vector(3, p=-1.0, a0=1.0), simulation.vector(3, a1=1.0), simulation.vector(3, a2=1.0)]
    crossing = simulation.Ratio("where the two ends' errors cross", [1.0, 0.0, 0.0], [0.0, -1.0, 1.0], 1 - 1 / K)
    return simulation.Simulation(simulation.mean_squares(fed, 0, weights, errors).experiment, (crossing,))


def _advantage_float(K: int, tau2: float) -> Any:
    """At equal variances both gaps are the advantage."""
    local, fed = (gap(tau2, tau2, K) for gap in (mean_regularized.gap_to_local, mean_regularized.gap_to_fedavg))
    return tau2, local - fed, mean_regularized.advantage(tau2, tau2, K)


register(
    Claim(
        id="mrmtl:best-advantage",
        title="Where MR-MTL gains most over both ends",
        place="Section 6, text after Proposition 6.6",
        statement="""The advantage over the better of local training and FedAvg is largest at sigma2_loc = tau2 (printed:
            approximately), and there the two ends have the same error.""",
        latex=r"\sigma_{\mathrm{loc}}^{2}\approx\tau^{2}",
        kind="optimum",
        variables=(K, SPREAD),
        examples=({"K": 3, "tau2": 1}, {"K": 5, "tau2": "1/2"}),
        printed=lambda tau2: (tau2, ZERO, None),
        derive=_advantage_derive,
        oracle=_advantage_oracle,
        simulate=_crossing_simulate,
        computed=_advantage_float,
        entries=("best sigma2_loc", "local minus FedAvg error there", "advantage there"),
        assumes=AVERAGED,
        unit="variance",
        assumptions=ASSUMPTIONS,
        remark="The printed approximate equality is exact in this model.",
    )
)  # fmt: skip
