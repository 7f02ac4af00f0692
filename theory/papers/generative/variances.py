"""Our own, beside Section 2.1: clients whose variances come from a law too, and few rows to tell them.

Model: a client's variance sigma2 has d0 s0^2 / sigma2 ~ chi-square(d0); given it, d s^2 / sigma2 ~ chi-square(d) for the
sample variance of its rows, and its mean departs from its parameter by a normal error of variance sigma2 (in units of the
number of rows), all independent (Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3:3).

Belongs here: what a moderated variance is worth.  Does not belong here: estimating d0 and s0^2, which estimators do.
"""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.priors import DIGITS, number, precise

D0 = Variable("d0", "positive", "degrees of freedom of the law of variances", within=("1/2", 200), why="digits")
D = Variable("d", "size", "degrees of freedom of the sample variance", low=1)
S02 = Variable("s0_2", "positive", "scale of the law of variances", extreme=False)
MOMENTS = (1, 2, 3)


def _t_printed(d0: Any, d: Any, s0_2: Any) -> tuple[Any, ...]:
    nu = d0 + d
    return nu / (nu + 1), nu * (nu + 2) / ((nu + 1) * (nu + 3)), nu * (nu + 2) * (nu + 4) / ((nu + 1) * (nu + 3) * (nu + 5))


def _t_derive(d0: Any, d: Any, s0_2: Any) -> Derivation:
    x, s, n = sp.symbols("x s n", positive=True)
    density = x ** (n / 2 - 1) * sp.exp(-x / 2) / (2 ** (n / 2) * sp.gamma(n / 2))

    def mean(function: Any, degrees: Any) -> Any:
        """Mean of a function of a chi-square."""
        return sp.simplify(sp.integrate(density * function, (x, 0, sp.oo), conds="none")).subs(n, degrees)

    e = Derivation()
    e.say("""In units of sigma2, d0 s0^2, d s^2 and the squared error are independent chi-squares: the laws of the last two
        given sigma2, which is a function of the first, are the same for every sigma2. Laplace transforms of the first two
        are""", tuple(mean(sp.exp(-s * x), k) for k in (d0, d)))  # fmt: skip
    e.say(
        "and their product is that of their sum A, a chi-square with as many degrees as both", mean(sp.exp(-s * x), d0 + d)
    )
    found = []
    for k in MOMENTS:
        top = mean(x**k, d0 + d)
        found.append(sp.factor(top / mean(x**k, d0 + d + 1)))
    return e.conclude("""With the squared error B, A / (A + B) is independent of A + B (Lukacs), so the mean of its k-th
        power is the ratio of those of A and A + B:""", tuple(found))  # fmt: skip


def _t_oracle(d0: Any, d: Any, s0_2: Any) -> tuple[Any, ...]:
    """Integrals over Student's density with d0 + d degrees of freedom, t = sqrt(nu) / tan(u)."""
    with mp.workdps(DIGITS + 10):
        nu = number(d0) + number(d)
        powers = [mp.quad(lambda u, k=k: mp.sin(u) ** (nu - 1 + 2 * k), [0, mp.pi / 4, mp.pi / 2]) for k in (0, *MOMENTS)]
        return tuple(precise(power / powers[0]) for power in powers[1:])


def _t_simulate(d0: float, d: int, s0_2: float) -> simulation.Simulation:
    """The law of variances, rows' sample variance, the error of the mean."""

    def draw(generator: np.random.Generator, reps: int) -> np.ndarray:
        sigma2 = d0 * s0_2 / generator.chisquare(d0, reps)
        s2 = sigma2 * generator.chisquare(d, reps) / d
        error = np.sqrt(sigma2) * generator.standard_normal(reps)
        moderated = (d0 * s0_2 + d * s2) / (d0 + d)
        u = 1 / (1 + error**2 / moderated / (d0 + d))
        return np.column_stack([u**k for k in MOMENTS])

    return simulation.sample_means(draw, [f"power {k}" for k in MOMENTS], draws=3)


register(
    Claim(
        id="generative:variances:moderated-t",
        title="A moderated variance is worth d0 more rows",
        place="beside Section 2.1",
        statement="""With the moderated variance (d0 s0^2 + d s^2)/(d0 + d) in the place of the sample variance, the error of
            a client's mean over its standard error has Student's law with d0 + d degrees of freedom. Judged: the first three
            moments of 1/(1 + t^2/(d0 + d)), which are those of that law, whatever s0^2.""",
        latex=r"""\mathbb{E}\left(1+\frac{t^2}{\nu}\right)^{-k}=\prod_{j<k}\frac{\nu+2j}{\nu+1+2j},\quad \nu=d_0+d,\quad%
            t^2=\frac{(\bar{y}-\theta)^2}{(d_0s_0^2+ds^2)/(d_0+d)}""",
        kind="identity",
        variables=(D0, D, S02),
        examples=({"d0": 4, "d": 3, "s0_2": 2},),
        printed=_t_printed,
        derive=_t_derive,
        oracle=_t_oracle,
        simulate=_t_simulate,
        not_computed=Exempt(
            kind="elsewhere", function="estimators.normal_means.variances.moderated_variances",
            note="it returns the moderated variances and their degrees of freedom d0 + d",
        ),
        entries=("first moment", "second moment", "third moment"),
        unit="dimensionless",
        ours=True,
        related=("generative:thm1:estimator",),
        remark="Moments of a variable in (0, 1) determine its law; the derivation is the same for every power.",
    )
)  # fmt: skip
