"""Van Trees' inequality: its conditions on the prior, and what it says for Bernoulli samples (Section 5.1.3).

Belongs here: conditions, the Bernoulli setting. Does not belong here: the inequality for Gaussian samples (bounds.py).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.beta_binomial import ZERO, N, counts, draw_clients, posterior_moment
from theory.papers.generative.model import SIGMA2_THETA_POSITIVE

# --- its conditions, and Bernoulli samples ------------------------------------------------------------------

ABOVE_ONE = (
    Variable("a", "positive", "alpha - 1 of the Beta prior"),
    Variable("b", "positive", "beta - 1 of the Beta prior"),
)


def _ends_derive(mu: Any, sigma2_theta: Any, a: Any, b: Any) -> Derivation:
    d = Derivation()
    x = sp.Symbol("x", positive=True)
    gauss = d.say("Density of the Gaussian prior at mu + x, up to a constant:", sp.exp(-(x**2) / (2 * sigma2_theta)))
    beta = d.say("and of the Beta prior at x:", x**a * (1 - x) ** b)
    low = sp.limit(beta, x, 0)
    high = sp.limit(beta.subs(x, 1 - x), x, 0)
    return d.conclude("They vanish at infinity, at 0 and at 1:", (sp.limit(gauss, x, sp.oo), low, high))


def _ends_oracle(mu: Any, sigma2_theta: Any, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """A density that falls by more than a constant factor at each of a hundred doublings goes to zero."""

    def vanishes(logarithm: Any) -> Any:
        steps = [logarithm(mpmath.mpf(2) ** k) for k in range(100, 200)]
        falls = min(earlier - later for earlier, later in pairwise(steps))
        return ZERO if falls > 0.5 * min(1, float(a), float(b)) else sp.nan

    v, up, down = (mpmath.mpf(int(y.p)) / int(y.q) for y in map(sp.Rational, (sigma2_theta, a, b)))
    return (
        vanishes(lambda t: -(t**2) / (2 * v)),
        vanishes(lambda t: -up * mpmath.log(t) + down * mpmath.log1p(-1 / t)),
        vanishes(lambda t: -down * mpmath.log(t) + up * mpmath.log1p(-1 / t)),
    )


register(
    Claim(
        id="generative:vantrees:conditions",
        title="Priors that vanish at the ends",
        place="Section 5.1.3, conditions of van Trees' inequality",
        statement="""The prior's density vanishes at the end points: in the Gaussian setting for any mean, in the Bernoulli
            setting as long as alpha and beta are larger than 1.""",
        latex=r"""\pi(\cdot)\text{ vanishes at the end points of }\Theta%
            \text{. These assumptions are satisfied for the Gaussian setting for any finite mean }\mu%
            \text{, they are satisfied for Bernoulli setting as long as parameters }\alpha\text{ and }\beta%
            \text{ are larger than 1}""",
        kind="limit",
        variables=(Variable("mu", "real", "mean of the Gaussian prior"), SIGMA2_THETA_POSITIVE, *ABOVE_ONE),
        examples=({"mu": 1, "sigma2_theta": 1, "a": 1, "b": 2}, {"mu": 0, "sigma2_theta": 2, "a": "1/2", "b": 1}),
        printed=lambda: (ZERO, ZERO, ZERO),
        derive=_ends_derive,
        oracle=_ends_oracle,
        not_computed=Exempt(kind="constant"),
        not_simulated=Exempt(kind="deterministic", note="limits of densities"),
        entries=("Gaussian, at infinity", "Beta, at 0", "Beta, at 1"),
        unit="density, up to a constant",
        related=("generative:eq45",),
        remark="""At alpha = 1 the Beta density does not vanish at 0, so the condition cannot be weakened. The bound says
            more than 0 only for alpha, beta > 2: below, the prior's information is infinite (generative:eq45:bernoulli).""",
    )
)

ABOVE_TWO = (
    Variable("a", "positive", "alpha - 2 of the Beta prior, whose information is infinite for alpha <= 2"),
    Variable("b", "positive", "beta - 2 of the Beta prior, whose information is infinite for beta <= 2"),
)


def _bernoulli_derive(a: Any, b: Any, n: Any) -> Derivation:
    d = Derivation()
    risk = d.lemma("generative:bern:known-mse", "the posterior mean has the error", alpha=2 + a, beta=2 + b, n=n)
    return d.conclude("and no estimator has less, on average over the prior:", simplest(risk))


def _bernoulli_printed(a: Any, b: Any, n: Any) -> Any:
    s = 4 + a + b
    samples = n * (s - 1) * (s - 2) / ((1 + a) * (1 + b))  # n E[1/(p(1-p))]
    prior = (s - 1) * (s - 2) * (1 / a + 1 / b)  # mean square of the slope of the log density
    return 1 / (samples + prior)


def _bernoulli_oracle(a: Any, b: Any, n: Any) -> Any:
    """Posterior variances, averaged over the law of the count."""
    total = Fraction(0)
    for z, q in enumerate(counts(2 + a, 2 + b, n)):
        first, second = (posterior_moment(2 + a, 2 + b, n, z, k) for k in (1, 2))
        total += q * (second - first**2)
    return rational(total)


def _bernoulli_simulate(a: float, b: float, n: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p, z = draw_clients(gen, reps, 2 + a, 2 + b, n, 1)
        return ((2 + a + z) / (4 + a + b + n) - p) ** 2

    return simulation.sample_means(draw)


def _bernoulli_shifts(a: Any, b: Any, n: Any) -> list[dict[Any, Any]]:
    """Either parameter is the larger one."""
    more, apart = sp.symbols("more apart", nonnegative=True)
    return [{n: 1 + more, b: a + apart}, {n: 1 + more, a: b + apart}]


register(
    Claim(
        id="generative:eq45:bernoulli",
        title="Van Trees' inequality for Bernoulli samples",
        place="Section 5.1.3, van Trees in one dimension; its conditions in the Bernoulli setting",
        statement="""The Bayes risk of any estimator of p is at least 1/(n E[1/(p(1-p))] + I(pi)). Judged for a Beta prior
            with alpha, beta > 2, where both are finite and the least Bayes risk is known.""",
        latex=r"\mathbb{E}(\widehat{\theta}(X)-\theta)^{2}\geq\frac{1}{n\mathbb{E}I_{x}(\theta)+I(\pi)}",
        kind="lower bound",
        relation=">=",
        variables=(*ABOVE_TWO, N),
        examples=({"a": 1, "b": 2, "n": 2}, {"a": "1/2", "b": 1, "n": 3}),
        printed=_bernoulli_printed,
        derive=_bernoulli_derive,
        oracle=_bernoulli_oracle,
        computed=lambda a, b, n: float(bernoulli.mse(2 + a, 2 + b, n)),
        simulate=_bernoulli_simulate,
        shifts=_bernoulli_shifts,
        tight=Tight(at={"a": 1, "b": 2, "n": 2}, ratio="42/55"),
        assumes={"prior": "known", "law": "bernoulli"},
        unit="squared probability",
        related=("generative:eq45", "generative:vantrees:conditions"),
        remark="""Never attained: the Beta posterior mean is not linear in the score. Information of the prior:
            (s-1)(s-2)(1/(alpha-2) + 1/(beta-2)), s = alpha + beta; of a sample: (s-1)(s-2)/((alpha-1)(beta-1)).""",
    )
)
