"""Theorem 4: tails of the private mean, and how often the private error bound fails.

Belongs here: (51)-(52). Does not belong here: the randomiser and the estimates from it (bernoulli_private.py).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.bernoulli_private import chance_of_high, reports
from theory.papers.generative.beta_binomial import (
    RISE,
)

# --- the events of (51) ------------------------------------------------------------------------------------------------


def _constant_derive(E0: Any) -> Derivation:
    d = Derivation()
    (low, _), (high, _) = reports(sp.Integer(0), E0)
    width = d.say("Reports lie between two points at distance", simplest(high - low))
    d.say("""Hoeffding: a mean of m-1 independent numbers in an interval of width w misses its mean by more than t with
        probability at most 2 exp(-2 (m-1) t^2/w^2).""")  # fmt: skip
    return d.conclude("Factor of -(m-1) t^2 in the exponent:", simplest(2 / width**2))


def _constant_oracle(E0: Any) -> Any:
    """No larger factor holds for all t: near the mean the exponent is that of the normal law, 1/(2 variance)."""
    t = fraction(1 + E0)
    law = [(1 + Fraction(i, 8) * (t - 1)) / (t + 1) for i in range(9)]
    largest = max(((t + 1) / (t - 1)) ** 2 * h * (1 - h) for h in law)
    return rational(1 / (2 * largest))


register(
    Claim(
        id="generative:thm4:hoeffding",
        title="Tail of the private mean",
        place="Section 5.2.3, (51)",
        statement="""By Hoeffding's inequality |mu_hat^priv - mu| > t has probability at most 2 exp(-kappa (m-1) t^2) with
            kappa = 3 (e^eps0-1)^2/(e^eps0+1)^2. Judged as the largest kappa that is valid for all priors, t and m.""",
        latex=r"""\Pr[|\hat{\mu}_i^{(p)}-\mu|>t]\leq 2\exp\left(\frac{-3(e^{\epsilon_0}-1)^2(m-1)t^2}{(e^{\epsilon_0}+1)^2}%
            \right)""",
        kind="probability",
        variables=(RISE,),
        examples=({"E0": 2}, {"E0": 1}),
        printed=lambda E0: 3 * E0**2 / (2 + E0) ** 2,
        derive=_constant_derive,
        oracle=_constant_oracle,
        corrected=lambda E0: 2 * E0**2 / (2 + E0) ** 2,
        corrected_text="2 (e^eps0-1)^2/(e^eps0+1)^2; with 3 the inequality is false (generative:thm4:hoeffding:tail)",
        counterexample={"E0": 1},
        computed=lambda E0: 1 / (2 * float(bernoulli.report_variance(0.5, eps=np.log1p(E0)))),
        not_simulated=Exempt(kind="part", of=("generative:qpriv",), note="a constant in an exponent"),
        finding="Hoeffding's inequality has a 2 in its exponent where a 3 is written, and with 3 it is false.",
        assumes={"law": "bounded"},
        unit="per squared probability",
        related=("generative:qpriv",),
        remark="""The 3 is carried into c_p and into the theorem's last term, where 2 belongs (generative:thm4:bound:radius).
            The second line of (51), on sigma_hat^2, is false for another reason: generative:thm4:variance-estimate.""",
    )
)


TAIL_CLIENTS = Variable("m", "choice", "clients", choices=(2, 5, 12))
TAIL_SHARE = sp.Rational(49, 100)  # deviation t as a share of the distance of the two reports


@cache
def _tail_derive(m: int) -> Derivation:
    d = Derivation()
    d.say(f"""For a prior of mean 1/2 the m-1 reports are fair coins with values at distance w. Their mean misses mu by more
        than t = {TAIL_SHARE} w only if nearly all agree; for m-1 < 50, only if all do.""")  # fmt: skip
    total = sp.Integer(2) * sp.Rational(1, 2) ** (m - 1)
    return d.conclude("Probability:", total)


def _tail_oracle(m: int) -> Any:
    outcomes = list(product((0, 1), repeat=m - 1))
    bad = sum(abs(Fraction(sum(coins), m - 1) - Fraction(1, 2)) > Fraction(49, 100) for coins in outcomes)
    return sp.Rational(bad, len(outcomes))


def _tail_simulate(m: int) -> simulation.Simulation:
    """Reports of one prior of mean 1/2 at one budget, any will do; given what they are of, all of them are enumerated."""
    rise = np.e - 1
    means = np.arange(m) / (m - 1) * (1 + 2 / rise) - 1 / rise  # of so many high reports
    far = np.flatnonzero(abs(means - 0.5) > 0.49 * (1 + 2 / rise))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        law = simulation.count_law(chance_of_high(x, rise) for x in gen.random((reps, m - 1)).T)
        return sum(law[k] for k in far)[:, None]

    return simulation.sample_means(draw, draws=m - 1)


register(
    Claim(
        id="generative:thm4:hoeffding:tail",
        title="An exact tail beyond the printed inequality",
        place="Section 5.2.3, (51)",
        statement="The first line of (51) for a prior of mean 1/2 and t = 0.49 (e^eps0+1)/(e^eps0-1), for any eps0.",
        latex=r"2\exp\left(\frac{-3(e^{\epsilon_0}-1)^2(m-1)t^2}{(e^{\epsilon_0}+1)^2}\right)",
        kind="probability",
        relation="<=",
        variables=(TAIL_CLIENTS,),
        examples=({"m": 5}, {"m": 2}),
        printed=lambda m: 2 * sp.exp(-3 * (m - 1) * TAIL_SHARE**2),
        derive=_tail_derive,
        oracle=cache(_tail_oracle),
        corrected=lambda m: sp.Integer(2) ** (2 - m),
        corrected_text="the exact probability is 2^(2-m)",
        counterexample={"m": 2},
        not_computed=Exempt(kind="refuted"),
        simulate=_tail_simulate,
        finding="With two clients the private mean misses by more than allowed for certain.",
        assumes={"law": "bernoulli"},
        unit="probability",
        related=("generative:thm4:hoeffding",),
        remark="At m = 2 the probability is 1, and the printed bound 0.97.",
    )
)


LOGARITHM = Variable("L", "positive", "log(4 m^2 n)")


def _radius_derive(m: Any, L: Any, E0: Any) -> Derivation:
    d = Derivation()
    kappa = d.lemma("generative:thm4:hoeffding", "factor in the exponent of Hoeffding's inequality", E0=E0)
    d.say("2 exp(-kappa (m-1) c^2) is 1/(2 m^2 n) = 2 exp(-L) at kappa (m-1) c^2 = L.")
    return d.conclude("c^2 =", simplest(L / (kappa * (m - 1))))


def _radius_oracle(m: Any, L: Any, E0: Any) -> Any:
    """From the largest variance of a report: c^2 = 2 L variance/(m-1)."""
    t = fraction(1 + E0)
    return 2 * L * rational(t / (t - 1) ** 2 + Fraction(1, 4)) / (m - 1)


register(
    Claim(
        id="generative:thm4:bound:radius",
        title="Radius c_p of the event of Theorem 4",
        place="Section 5.2.3, after (51); last term of Theorem 4 and (52)",
        statement="|mu_hat^priv - mu| <= c_p has probability at least 1 - 1/(2 m^2 n) with this c_p^2, by Hoeffding.",
        latex=r"c_p=\sqrt{\frac{(e^{\epsilon_0}+1)^2\log(4m^2n)}{3(e^{\epsilon_0}-1)^2(m-1)}}",
        kind="probability",
        variables=(Variable("m", "size", "clients", low=2), LOGARITHM, RISE),
        examples=({"m": 10, "L": 6, "E0": 2},),
        printed=lambda m, L, E0: (2 + E0) ** 2 * L / (3 * E0**2 * (m - 1)),
        derive=_radius_derive,
        oracle=_radius_oracle,
        corrected=lambda m, L, E0: (2 + E0) ** 2 * L / (2 * E0**2 * (m - 1)),
        corrected_text="(e^eps0+1)^2 log(4 m^2 n)/(2 (e^eps0-1)^2 (m-1))",
        counterexample={"m": 3, "L": 1, "E0": 1},
        computed=lambda m, L, E0: 2 * L / (m - 1) * float(bernoulli.report_variance(0.5, eps=np.log1p(E0))),
        not_simulated=Exempt(kind="part", of=("generative:qpriv",), note="a radius"),
        finding="The radius of the private event is too small: a 3 where Hoeffding's inequality has a 2.",
        unit="squared probability",
        related=("generative:thm4:hoeffding", "generative:qpriv"),
    )
)


BOUND_CLIENTS = Variable("m", "choice", "clients", choices=(10, 100, 1000))
BOUND_SAMPLES = Variable("n", "choice", "samples per client", choices=(1, 20, 10**12))


def _too_far(k: int, m: int, n: int, deciding: int = 40) -> bool:
    """Whether k high reports among m-1 put the private mean outside c_p: (k/(m-1) - 1/2)^2 > L/(3 (m-1))."""
    with mpmath.workdps(deciding):
        return bool(mpmath.mpf((2 * k - (m - 1)) ** 2) * 3 > 4 * (m - 1) * mpmath.log(4 * m * m * n))


@cache
def _bound_derive(m: int, n: int) -> Derivation:
    d = Derivation()
    d.say("""Given the others' reports the error is a^2 E[p(1-p)]/n + (1-a)^2 (sigma^2 + (mu_hat - mu)^2) for the weight a
        that they give, so the bound holds exactly when |mu_hat - mu| <= c_p.""")  # fmt: skip
    d.say("""For a prior of mean 1/2 the others' reports are fair coins; in units of the reports' distance c_p^2 is log(4 m^2
        n)/(3 (m-1)).""")  # fmt: skip
    bad = sum(comb(m - 1, k) for k in range(m) if _too_far(k, m, n))
    return d.conclude("Probability that it fails:", sp.Rational(bad, 2 ** (m - 1)))


@cache
def _bound_oracle(m: int, n: int) -> Any:
    """The same by walking out from the middle of Pascal's triangle, built row by row."""
    row = [1]
    for _ in range(m - 1):
        row = [a + b for a, b in zip([*row, 0], [0, *row], strict=True)]
    inside = 0
    for k, ways in enumerate(row):
        distance = abs(Fraction(k, m - 1) - Fraction(1, 2))
        limit = sp.sqrt(sp.log(4 * m * m * n) / (3 * (m - 1)))
        inside += ways if sp.N(rational(distance) - limit, 30) <= 0 else 0
    return 1 - sp.Rational(inside, 2 ** (m - 1))


register(
    Claim(
        id="generative:thm4:bound",
        title="Theorem 4: probability that the private error bound fails",
        place="Section 2.2, Theorem 4; proof in Section 5.2.3",
        statement="""With probability at least 1 - 1/(mn) over the others' reports the squared error is at most E[a^2]
            E[p(1-p)]/n + E[(1-a)^2] (sigma^2 + c_p^2). Judged as the exact probability that it fails, for one client and
            a prior of mean 1/2.""",
        latex=r"""\mathbb{E}[(\widehat{a}_{i}^{\mathsf{priv}})^{2}]\big{(}\frac{\alpha\beta}%
            {n(\alpha+\beta)(\alpha+\beta+1)}\big{)}+\mathbb{E}[(1-\widehat{a}_{i}^{\mathsf{priv}})^{2}]\big{(}%
            \frac{\alpha\beta}{(\alpha+\beta)^{2}(\alpha+\beta+1)}+\frac{(e^{\epsilon_{0}}+1)^{2}\log(4m^{2}n)}%
            {3(e^{\epsilon_{0}}-1)^{2}(m-1)}\big{)}""",
        kind="probability",
        relation="<=",
        variables=(BOUND_CLIENTS, BOUND_SAMPLES),
        examples=({"m": 1000, "n": 1},),
        printed=lambda m, n: sp.Rational(1, m * n),
        derive=_bound_derive,
        oracle=_bound_oracle,
        condition=lambda m, n: sp.true if n <= 2 * m else sp.false,
        condition_text="n <= 2 m (there Hoeffding with the right constant gives 2 (4 m^2 n)^(-2/3) <= 1/(m n))",
        counterexample={"m": 1000, "n": 10**12},
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.bernoulli.randomize", note="the reports"),
        not_simulated=Exempt(kind="rare"),
        tight=Tight(at={"m": 10, "n": 1}, ratio="128/5"),
        assumes={"given": "data", "adjacency": "replace"},
        unit="probability",
        related=("generative:thm4:bound:radius", "generative:qpriv"),
        assumptions=("a_hat_i^priv and mu_hat_i^priv are functions of the other clients' reports only",),
        remark="""Independent of eps0. With the 3 in c_p the proof's union bound gives 1 - 2 m (4 m^2 n)^(-2/3), less than
            the claimed 1 - 1/(mn); at m = 1000, n = 1e12 the bound fails 40 times as often as claimed. And where it is
            true it says little: the weight is nearly 1 for every prior (generative:thm4:weight).""",
    )
)
