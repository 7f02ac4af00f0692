"""Appendix F.1 and Figure 7: what a Poisson number of tuning runs costs, the sibling of Theorem F.2.

Belongs here: Papernot and Steinke's theorem for the Poisson law, which the paper uses and does not print. Does not belong
here: the truncated negative binomial (tuning.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import sympy as sp

from estimators.accounting import tuning
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl.runs import exact_digits, mpf
from theory.papers.mrmtl.tuning import EPS, F2_ASSUMPTIONS, ORDER

# --- the Poisson sibling ---------------------------------------------------------------------------------------------

MEAN = Variable("mean", "positive", "mean of the Poisson number of runs, >= 1", within=(1, 100), why="floats")
DELTA = Variable("delta", "nonnegative", "delta of one run at eps = log(order/(order-1))", within=(0, 1), why="floats")


def _poisson_derive(mean: Any, order: Any, eps: Any, delta: Any) -> Derivation:
    d = Derivation()
    p, more = sp.symbols("p more", nonnegative=True)
    d.say("As for Theorem F.2, the factor is f'(q)^order f'(q')^(1-order), here with f'(x) = mean e^(mean (x-1)).")
    d.say("With p = 1-q and p' = 1-q' the probabilities of a better answer, its logarithm is log(mean) + mean times",
          -order * p + (order - 1) * (p + more))  # fmt: skip
    d.say("(p' = p + more). One run is (log(order/(order-1)), delta)-private, so p' <= order/(order-1) p + delta:")
    worst = d.say("so that this is at most", sp.expand(-order * p + (order - 1) * (order / (order - 1) * p + delta)))
    worst = sp.simplify(worst)
    d.say("that is,", worst)
    d.say("""No run at all has the same probability e^-mean on both data sets and adds as much to the sum; for mean >= 1 the
        bound leaves room for it (Papernot and Steinke 2022, Theorem 6), below 1 it does not.""")  # fmt: skip
    return d.conclude("Over (order - 1), with the divergence of one run:",
                      eps + mean * sp.cancel(worst / (order - 1)) + sp.log(mean) / (order - 1))  # fmt: skip


def _poisson_oracle(mean: Any, order: Any, eps: Any, delta: Any) -> Any:
    """Largest factor over a grid of events, from the series of f' (the Poisson probabilities themselves)."""
    with mpmath.workdps(110):
        m, a, r = mpf(mean), mpf(order), mpf(eps)

        def log_slope(x: Any) -> Any:
            weight, total, h = mpmath.exp(-m), mpmath.mpf(0), 0
            while h < m or weight > mpmath.mpf(10) ** -105:
                weight *= m / (h + 1)
                total += (h + 1) * weight * x**h
                h += 1
            return mpmath.log(total)

        shares = (mpmath.mpf(0), (1 - mpf(delta)) * (a - 1) / a / 2)
        factors = [a * log_slope(1 - p) + (1 - a) * log_slope(1 - (a / (a - 1) * p + mpf(delta))) for p in shares]
        return exact_digits(r + max(factors) / (a - 1))


register(
    Claim(
        id="mrmtl:thmF.2:poisson",
        title="Renyi cost of a Poisson number of tuning runs",
        place="Appendix F.1, text before Theorem F.2 (Poisson); Figure 7",
        statement="""The best of a Poisson number of runs with mean >= 1 has at most this Renyi divergence; delta is that of
            one run at eps = log(order/(order-1)). The paper uses it without printing it (Papernot and Steinke 2022,
            Theorem 6).""",
        latex=r"""\tilde{\varepsilon}=\varepsilon(\alpha)+\mu\,\hat{\delta}+\frac{\log\mu}{\alpha-1},\quad
            \hat{\varepsilon}=\log\Big(1+\frac{1}{\alpha-1}\Big)""",
        kind="upper bound",
        variables=(MEAN, ORDER, EPS, DELTA),
        examples=(
            {"mean": 10, "order": 8, "eps": "1/2", "delta": "1/1000"},
            {"mean": 10, "order": 2, "eps": "1/10", "delta": 0},
        ),
        printed=lambda mean, order, eps, delta: eps + mean * delta + sp.log(mean) / (order - 1),
        relation="<=",
        derive=_poisson_derive,
        oracle=_poisson_oracle,
        computed=lambda mean, order, eps, delta: float(tuning.PoissonRuns(mean).rdp([order], [eps], [delta])[0]),
        not_simulated=Exempt(kind="divergence"),
        ours=True,
        assumes={"noise": "fresh"},
        tight=Tight(at={"mean": 1, "order": 2, "eps": "1/10", "delta": 0}),
        unit="nats",
        assumptions=F2_ASSUMPTIONS,
        related=("mrmtl:thmF.2",),
        remark="""Below mean 1 it fails: without any leak (eps = delta = 0) it would be log(mean)/(order-1) < 0. It is the
            limit of the TNB law for eta to infinity in shape only: (50) itself grows without limit there.""",
    )
)
