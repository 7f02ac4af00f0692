"""What the framework is said to contain: Section 3.6, the end of Section 3.3, Appendix B's first paragraph.

Belongs here: statements that tie models of other papers to this one. Does not belong here: the algorithms' lines.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import sympy as sp

from estimators.closed_forms import mixture
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.priors import number, precise

# --- a continuum of clients is no finite mixture ---------------------------------------------------------------------

MEMBERS = Variable("members", "choice", "different parameters, equally spaced", choices=(2, 3, 4, 5))
OVERLAP = Variable("g", "fraction", "overlap of neighbours, exp(-(step x)^2/(4 sigma2))", extreme=False)


def _span_printed(members: int, g: Any) -> Any:
    """Positive, as g < 1."""
    return sp.prod([(1 - g ** (2 * j)) ** (members - j) for j in range(1, members)])


def _span_derive(members: int, g: Any) -> Derivation:
    d = Derivation()
    d.say("""The inner product of N(a, s) and N(b, s) is proportional to exp(-(a-b)^2/(4s)): for members k steps apart it is
        g to the power k^2.""")  # fmt: skip
    gram = d.say("Matrix of inner products:", sp.Matrix(members, members, lambda i, j: g ** ((i - j) ** 2)))
    return d.conclude("Its determinant:", gram.det(method="berkowitz"))


def _span_oracle(members: int, g: Any) -> Any:
    """Gauss's elimination in fractions."""
    q = fraction(g)
    rows = [[q ** ((i - j) ** 2) for j in range(members)] for i in range(members)]
    value = Fraction(1)
    for k in range(members):
        value *= rows[k][k]
        for i in range(k + 1, members):
            part = rows[i][k] / rows[k][k]
            rows[i] = [a - part * b for a, b in zip(rows[i], rows[k], strict=True)]
    return rational(value)


register(
    Claim(
        id="generative:clustered:finite",
        title="Gaussian clients are no finite mixture",
        place="Section 3.6, Clustered FL",
        statement="""The distributions N(theta x, sigma2) for real theta are not all mixtures of finitely many distributions.
            Judged: any k + 1 of them, equally spaced, are linearly independent, so that k distributions cannot make
            them: the determinant of their inner products (scaled to 1 on the diagonal) is this product of positive
            numbers.""",
        latex=r"""\text{Clearly the set of such distributions }\{p_{\bm{\theta}_{i}}(y|\bm{x})\}%
            \text{ cannot be written as any finite mixture}""",
        kind="identity",
        variables=(MEMBERS, OVERLAP),
        examples=({"members": 3, "g": "1/2"},),
        printed=_span_printed,
        derive=_span_derive,
        oracle=_span_oracle,
        not_computed=Exempt(kind="outside", note="it is on a family of laws"),
        not_simulated=Exempt(kind="deterministic"),
        unit="dimensionless",
        remark="""The matrix is Vandermonde's in g^(-2i) but for factors of rows and columns, so the product holds for every
            number of members. The simplex of the paper's sentence before it has k and not m coordinates.""",
    )
)

# --- multi-task learning ---------------------------------------------------------------------------------------------

THETA1 = Variable("theta1", "real", "first task's parameter, less its mean", extreme=False)
THETA2 = Variable("theta2", "real", "second task's parameter, less its mean", extreme=False)
V1 = Variable("v1", "positive", "variance of the first", extreme=False)
SLOPE = Variable("slope", "real", "how the second follows the first: covariance over v1", extreme=False)
V2 = Variable("v2", "positive", "variance of the second, given the first", extreme=False)


def _mtl_printed(theta1: Any, theta2: Any, v1: Any, slope: Any, v2: Any) -> Any:
    """theta' Omega theta/2 with Omega the inverse of the covariance."""
    covariance = sp.Matrix([[v1, slope * v1], [slope * v1, slope**2 * v1 + v2]])
    theta = sp.Matrix([theta1, theta2])
    return (theta.T * covariance.inv(method="ADJ") * theta)[0] / 2


def _mtl_derive(theta1: Any, theta2: Any, v1: Any, slope: Any, v2: Any) -> Derivation:
    d = Derivation()
    first = d.say("Log-density of the first task's parameter, less that of its mean:", -(theta1**2) / (2 * v1))
    second = d.say("and of the second's, given the first:", -((theta2 - slope * theta1) ** 2) / (2 * v2))
    return d.conclude("Minus their sum:", -first - second)


def _mtl_oracle(theta1: Any, theta2: Any, v1: Any, slope: Any, v2: Any) -> Any:
    """Half of theta . z, with z from the linear system covariance z = theta."""
    a, b, v, s, w = (fraction(x) for x in (theta1, theta2, v1, slope, v2))
    z = solve([[v, s * v], [s * v, s * s * v + w]], [a, b])
    return rational((a * z[0] + b * z[1]) / 2)


register(
    Claim(
        id="generative:mtl",
        title="Known covariances give a quadratic regulariser",
        place="Section 3.6, FL with Multi-task Learning",
        statement="""Individual models from a joint Gaussian with known covariance have a quadratic regulariser, minus their
            log-density. Judged for two tasks with one parameter each.""",
        latex=r"""\text{chosen from a joint Gaussian with particular (known) covariance dictating the different models, and
            therefore giving the quadratic regularization}""",
        kind="identity",
        variables=(THETA1, THETA2, V1, SLOPE, V2),
        examples=({"theta1": 1, "theta2": 2, "v1": 1, "slope": "1/2", "v2": 1},),
        printed=_mtl_printed,
        derive=_mtl_derive,
        oracle=_mtl_oracle,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.gaussian_penalty"),
        not_simulated=Exempt(kind="deterministic"),
        unit="nats",
        related=("generative:eq12:gauss",),
    )
)

# --- the discrete prior as a limit -----------------------------------------------------------------------------------

P = Variable("p", "fraction", "weight of the first component", extreme=False)
CENTRE1 = Variable("mu1", "real", "first component's centre", extreme=False)
CENTRE2 = Variable("mu2", "real", "second component's centre", extreme=False)
X = Variable("x", "positive", "feature of the client's sample", extreme=False)
Y = Variable("y", "real", "its response", extreme=False)
NOISE = Variable("sigma2_x", "positive", "variance of a response", extreme=False)


def _mixed(v: Any, p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> Any:
    """Posterior mean under a mixture of two Gaussians of variance v."""
    spread = sigma2_x + v * x**2
    weights = [w * sp.exp(-((y - x * mu) ** 2) / (2 * spread)) for w, mu in ((p, mu1), (1 - p, mu2))]
    centres = [(mu * sigma2_x + v * x * y) / spread for mu in (mu1, mu2)]
    return sum(w * c for w, c in zip(weights, centres, strict=True)) / sum(weights)


def _discrete_printed(p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> Any:
    """Line 6 of Algorithm 7."""
    first, second = (
        p * sp.exp(-((x * mu1 - y) ** 2) / (2 * sigma2_x)),
        (1 - p) * sp.exp(-((x * mu2 - y) ** 2) / (2 * sigma2_x)),
    )
    return first / (first + second) * mu1 + second / (first + second) * mu2


def _discrete_derive(p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> Derivation:
    d, v = Derivation(), sp.Symbol("v", positive=True)
    mean = d.say("With components of variance v a response has variance sigma2_x + v x^2. The posterior mean:",
                 _mixed(v, p, mu1, mu2, x, y, sigma2_x))  # fmt: skip
    return d.conclude("It is continuous at v = 0, where it is", mean.subs(v, 0))


def _discrete_oracle(p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> Any:
    """Bayes' rule for components of variance 1e-80, whose effect is of that order, in 200 digits."""
    with mp.workdps(200):
        v, a, b, s, w = mp.mpf(10) ** -80, number(x), number(y), number(sigma2_x), number(p)
        mass, total = mp.mpf(0), mp.mpf(0)
        for weight, mu in ((w, number(mu1)), (1 - w, number(mu2))):
            gain = v * a / (v * a * a + s)  # of the response, in the style of Kalman
            height = weight * mp.npdf(b, a * mu, mp.sqrt(v * a * a + s))
            mass, total = mass + height, total + height * (mu + gain * (b - a * mu))
        return precise(mp.mpf(mp.nstr(total / mass, 60)))


def _discrete_computed(p: float, mu1: float, mu2: float, x: float, y: float, sigma2_x: float) -> float:
    return float(mixture.posterior_mean([[y / x]], [p, 1 - p], [[mu1], [mu2]], [sigma2_x / x**2])[0, 0])


def _approach(t: Any, p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> Any:
    return _mixed(1 / t, p, mu1, mu2, x, y, sigma2_x)


register(
    Claim(
        id="generative:discrete:limit",
        title="The discrete prior is a mixture of Gaussians of variance 0",
        place="Section 3.3, last paragraph; Appendix B, first paragraph; Algorithm 7, line 6",
        statement="""The discrete mixture is a special case of the Gaussian mixture with 0 variance. Judged: as the
            components' variance vanishes, the posterior mean becomes Algorithm 7's update; for two components and one
            response.""",
        latex=r"\text{can be seen as a special case of Gaussian mixture model with 0 variance}",
        kind="limit",
        variables=(P, CENTRE1, CENTRE2, X, Y, NOISE),
        examples=({"p": "1/2", "mu1": 0, "mu2": 1, "x": 1, "y": 1, "sigma2_x": 1},),
        printed=_discrete_printed,
        derive=_discrete_derive,
        oracle=_discrete_oracle,
        computed=_discrete_computed,
        approach=_approach,
        not_simulated=Exempt(kind="deterministic"),
        assumes={"given": "data"},
        unit="units of theta",
        related=("generative:alg7", "generative:alg4"),
        remark="""That is of the posterior mean. Algorithm 4 descends to the posterior's mode instead, and with vanishing
            variance the mode is one of the centres (generative:alg7:map).""",
    )
)
