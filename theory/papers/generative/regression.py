"""Linear regression with a known prior: Theorem 6, the local estimate's error (18), a flat prior.

Any design with two coefficients has, after rotating the responses, the form [[x11, x12], [0, x22]] (QR), and
further rows that are zero and say nothing; x22 = 0 is rank one.

Belongs here: Section 3.1. Does not belong here: learning the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import regression
from estimators.montecarlo import RegressionExperiment
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.model import SIGMA2_THETA_POSITIVE, SIGMA2_X, ZERO

# Not tried at extremes: a design whose columns differ by 10^24 is numerically of rank one, and rightly so.
X11 = Variable("x11", "positive", "first row of the design, first column", extreme=False)
X12 = Variable("x12", "real", "first row of the design, second column", extreme=False)
X22 = Variable("x22", "nonnegative", "second row of the design, second column; the first is 0", extreme=False)
X22_POSITIVE = Variable(
    "x22",
    "positive",
    "second row of the design, second column (rank 2)",
    default=sp.Integer(1),
    extreme=False,
)
RANK = Variable("rank", "choice", "2: full rank; 1: x22 is 0 whatever is given for it", choices=(2, 1), default=2)
MU1 = Variable("mu1", "real", "prior mean of the first coefficient", default=ZERO, extreme=False)
MU2 = Variable("mu2", "real", "prior mean of the second coefficient", default=ZERO, extreme=False)
Y1 = Variable("y1", "real", "first response", default=ZERO, extreme=False)
Y2 = Variable("y2", "real", "second response", default=ZERO, extreme=False)
DESIGN_TEXT = "Verified for two coefficients, any design up to a rotation of the responses."


def design(x11: Any, x12: Any, x22: Any, rank: int = 2) -> Any:
    """The design in triangular form."""
    return sp.Matrix([[x11, x12], [0, x22 if rank == 2 else 0]])


def float_design(x11: float, x12: float, x22: float, rank: int = 2) -> np.ndarray:
    """The design as floats."""
    return np.array([[x11, x12], [0.0, x22 if rank == 2 else 0.0]])


def risk_check(
    X: np.ndarray,
    mu: Sequence[float],
    sigma2_theta: float,
    sigma2_x: float,
    gain: np.ndarray,
    offset: Any,
    label: str,
) -> simulation.Simulation:
    """Squared error of a linear rule, from raw parameters and raw responses."""
    row = np.eye(3)[0]
    return simulation.Simulation(
        RegressionExperiment(X, mu, sigma2_theta, sigma2_x, gain, offset),
        (simulation.Mean(label, row),),
    )


# --- Theorem 6 ----------------------------------------------------------------------------------------------


def _information_form(X: Any, Y: Any, mu: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, Any]:
    """(15) and (16), letter by letter."""
    inverse = (sp.eye(2) / sigma2_theta + X.T * X / sigma2_x).inv(method="ADJ")
    return inverse * (X.T * Y / sigma2_x + mu / sigma2_theta), inverse.trace()


def _thm6_printed(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any
) -> tuple[Any, ...]:
    X = sp.Matrix([[x11, x12], [0, x22]])
    estimate, error = _information_form(X, sp.Matrix([y1, y2]), sp.Matrix([mu1, mu2]), sigma2_theta, sigma2_x)
    return (error, *estimate)


def _condition_on(d: Derivation, X: Any, Y: Any, mu: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[list[Any], Any]:
    """Posterior mean and total posterior variance from the joint covariance of theta and Y."""
    cross = d.say("theta and Y = X theta + w are jointly Gaussian. Cov(theta, Y) = sigma2_theta X':", sigma2_theta * X.T)
    total = d.say("Var(Y) = sigma2_theta X X' + sigma2_x I:", sigma2_theta * X * X.T + sigma2_x * sp.eye(2))
    gain = (cross * total.inv(method="ADJ")).applyfunc(simplest)
    d.say("The posterior mean is mu + K (Y - X mu), the best estimate, with K = Cov(theta, Y) Var(Y)^-1:", gain)
    mean = list(mu + gain * (Y - X * mu))
    spread = simplest((sigma2_theta * sp.eye(2) - gain * cross.T).trace())
    d.say("Its error covariance is sigma2_theta I - K Cov(Y, theta) (Schur complement), of trace", spread)
    return mean, spread


def _thm6_derive(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any
) -> Derivation:
    d = Derivation()
    X, Y, mu = design(x11, x12, x22), sp.Matrix([y1, y2]), sp.Matrix([mu1, mu2])
    d.say("The design in triangular form:", X)
    mean, spread = _condition_on(d, X, Y, mu, sigma2_theta, sigma2_x)
    return d.conclude("Mean squared error and estimate:", (spread, *mean))


def _thm6_objective(
    x: tuple[Any, ...], x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any
) -> Any:
    """(14), twice the negative logarithm of the posterior density, at the coefficients x[1], x[2]; x[0] does not enter."""
    theta = sp.Matrix(x[1:])
    lost, moved = sp.Matrix([y1, y2]) - design(x11, x12, x22) * theta, theta - sp.Matrix([mu1, mu2])
    return lost.dot(lost) / sigma2_x + moved.dot(moved) / sigma2_theta


def sequential(
    X: Sequence[Sequence[Any]], Y: Sequence[Any], mu: Sequence[Any], sigma2_theta: Any, sigma2_x: Any
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Posterior mean and covariance by taking in one response after the other, in fractions."""
    mean = [fraction(c) for c in mu]
    cov = [[fraction(sigma2_theta) if i == j else Fraction(0) for j in range(len(mean))] for i in range(len(mean))]
    for row, y in zip(X, Y, strict=True):
        x = [fraction(c) for c in row]
        Px = [sum(p * c for p, c in zip(line, x, strict=True)) for line in cov]
        spread = sum(c * p for c, p in zip(x, Px, strict=True)) + fraction(sigma2_x)
        surprise = fraction(y) - sum(c * t for c, t in zip(x, mean, strict=True))
        mean = [t + p * surprise / spread for t, p in zip(mean, Px, strict=True)]
        cov = [[c - p * q / spread for c, q in zip(line, Px, strict=True)] for line, p in zip(cov, Px, strict=True)]
    return mean, cov


def _thm6_oracle(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any
) -> tuple[Any, ...]:
    mean, cov = sequential([[x11, x12], [0, x22]], [y1, y2], [mu1, mu2], sigma2_theta, sigma2_x)
    return (rational(cov[0][0] + cov[1][1]), *map(rational, mean))


def _thm6_computed(
    x11: float,
    x12: float,
    x22: float,
    y1: float,
    y2: float,
    mu1: float,
    mu2: float,
    sigma2_theta: float,
    sigma2_x: float,
) -> tuple[float, ...]:
    X = float_design(x11, x12, x22)
    mean, _ = regression.posterior(X, [y1, y2], [mu1, mu2], sigma2_theta, sigma2_x)
    return (float(regression.posterior_mse(X, sigma2_theta, sigma2_x)), *map(float, mean))


def _thm6_simulate(
    x11: float, x12: float, x22: float, y1: float, y2: float, mu1: float, mu2: float, sigma2_theta: float, sigma2_x: float
) -> simulation.Simulation:
    """The error from raw parameters and responses; the estimate as the mean of parameters, weighted by their likelihood."""
    X, Y, mu = np.array([[x11, x12], [0.0, x22]]), np.array([y1, y2]), np.array([mu1, mu2])
    information = np.eye(2) / sigma2_theta + X.T @ X / sigma2_x
    spread = sigma2_theta * X @ X.T + sigma2_x * np.eye(2)
    off = Y - X @ mu
    evidence = np.exp(-off @ np.linalg.solve(spread, off) / 2) / np.sqrt(np.linalg.det(spread))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = mu + np.sqrt(sigma2_theta) * gen.standard_normal((reps, 2))
        responses = theta @ X.T + np.sqrt(sigma2_x) * gen.standard_normal((reps, 2))
        estimate = np.linalg.solve(information, (responses @ X / sigma2_x + mu / sigma2_theta).T).T
        weight = np.exp(-np.sum((Y - theta @ X.T) ** 2, axis=1) / (2 * sigma2_x)) / sigma2_x / evidence
        return np.column_stack([np.sum((estimate - theta) ** 2, axis=1), theta * weight[:, None]])

    labels = ("squared error of (15)", "first coefficient, given the responses", "second coefficient, given the responses")
    return simulation.sample_means(draw, scales=[None, 1.0, 1.0], labels=labels)


register(
    Claim(
        id="generative:thm6",
        title="Personalised linear regression with a known prior",
        place="Section 3.1.1, Theorem 6, (15)-(16); proof in Section 6.1",
        statement="""The optimal personalised coefficients are the posterior mean, and their mean squared error is the trace
            of the posterior covariance.""",
        latex=r"""\widehat{\bm{\theta}}_{i}=\left(\frac{\mathbb{I}}{\sigma_{\theta}^{2}}+\frac{X_{i}^{T}X_{i}}%
            {\sigma_{x}^{2}}\right)^{-1}\left(\frac{X_{i}^{T}Y_{i}}{\sigma_{x}^{2}}+\frac{\bm{\mu}}{\sigma_{\theta}^{2}}%
            \right),\quad\mathbb{E}_{\bm{w}_{i},\bm{\theta}_{i}}\left\|\widehat{\bm{\theta}}_{i}-\bm{\theta}_{i}%
            \right\|^{2}=\mathsf{Tr}\left(\left(\frac{\mathbb{I}}{\sigma_{\theta}^{2}}+\frac{X_{i}^{T}X_{i}}%
            {\sigma_{x}^{2}}\right)^{-1}\right)""",
        kind="optimum",
        variables=(X11, X12, X22, Y1, Y2, MU1, MU2, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=(
            {
                "x11": 2,
                "x12": 1,
                "x22": 1,
                "y1": 3,
                "y2": 1,
                "mu1": 1,
                "mu2": -1,
                "sigma2_theta": 1,
                "sigma2_x": 2,
            },
            {"x11": 1, "x12": 1, "x22": 0, "y1": 3, "mu1": 1, "sigma2_theta": 2, "sigma2_x": 1},
        ),
        printed=_thm6_printed,
        derive=_thm6_derive,
        oracle=_thm6_oracle,
        computed=_thm6_computed,
        simulate=_thm6_simulate,
        objective=_thm6_objective,
        decision="real",
        assumes={"prior": "known", "given": "design", "law": "gaussian"},
        entries=("mean squared error", "estimate, first coefficient", "estimate, second coefficient"),
        unit="squared units of theta, then units of theta",
        remark=DESIGN_TEXT + " It holds for designs of any rank.",
    )
)


# --- the local estimate -------------------------------------------------------------------------------------


def _least_squares(X: Any, rank: int) -> Any:
    """The matrix K of the local estimate K Y: (X'X)^-1 X', or the pseudo-inverse of a first row alone."""
    if rank == 2:
        return ((X.T * X).inv(method="ADJ") * X.T).applyfunc(simplest)
    x = X.row(0)
    return (x.T / (x * x.T)[0]).row_join(sp.zeros(2, 1))


def _eq18_printed(x11: Any, x12: Any, x22: Any, sigma2_x: Any, rank: int) -> Any:
    X = sp.Matrix([[x11, x12], [0, x22 if rank == 2 else 0]])
    gram = X.T * X
    # The pseudo-inverse of x'x, for a row x, is x'x/|x|^4.
    inverse = gram.inv(method="ADJ") if rank == 2 else gram / (x11**2 + x12**2) ** 2
    return inverse.trace() * sigma2_x


def _eq18_derive(
    x11: Any, x12: Any, x22: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any, rank: int
) -> Derivation:
    d = Derivation()
    X, mu = design(x11, x12, x22, rank), sp.Matrix([mu1, mu2])
    K = d.say("The local estimate (17) is K Y with", _least_squares(X, rank))
    lost = d.say(
        "Its error is (K X - I) theta + K w. What becomes of theta itself, K X - I:",
        (K * X - sp.eye(2)).applyfunc(simplest),
    )
    noise = d.say("The noise contributes sigma2_x Tr(K K')", simplest(sigma2_x * (K * K.T).trace()))
    prior = d.say(
        """and the prior Tr((K X - I)(sigma2_theta I + mu mu')(K X - I)'), which is nothing at full rank, else the whole of
        theta in the null space of X:""",
        simplest((lost * (sigma2_theta * sp.eye(2) + mu * mu.T) * lost.T).trace()),
    )
    return d.conclude("Together:", noise + prior)


def shortest_least_squares(X: Sequence[Sequence[Any]], Y: Sequence[Any]) -> list[Fraction]:
    """The shortest of all least-squares solutions, in fractions: X'X z with (X'X)^2 z = X'Y."""
    rows = [[fraction(c) for c in row] for row in X]
    right = [sum(r[i] * fraction(y) for r, y in zip(rows, Y, strict=True)) for i in range(2)]
    gram = [[sum(r[i] * r[j] for r in rows) for j in range(2)] for i in range(2)]
    square = [[sum(gram[i][k] * gram[k][j] for k in range(2)) for j in range(2)] for i in range(2)]
    z = solve(square, right)
    return [sum(g * c for g, c in zip(line, z, strict=True)) for line in gram]


def _eq18_oracle(x11: Any, x12: Any, x22: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any, rank: int) -> Any:
    """The estimate's answer to every source of error, one at a time: mu, each deviation, each noise."""
    rows = [[x11, x12], [0, x22 if rank == 2 else 0]]

    def error(theta: Sequence[Any], w: Sequence[Any]) -> Fraction:
        Y = [r[0] * theta[0] + r[1] * theta[1] + noise for r, noise in zip(rows, w, strict=True)]
        return sum((t - fraction(c)) ** 2 for t, c in zip(shortest_least_squares(rows, Y), theta, strict=True))

    units = ([1, 0], [0, 1])
    deviations = sum(error(u, [0, 0]) for u in units)
    noises = sum(error([0, 0], u) for u in units)
    total = error([mu1, mu2], [0, 0]) + fraction(sigma2_theta) * deviations + fraction(sigma2_x) * noises
    return rational(total)


def _eq18_computed(
    x11: float, x12: float, x22: float, mu1: float, mu2: float, sigma2_theta: float, sigma2_x: float, rank: int
) -> float:
    return regression.local_mse(float_design(x11, x12, x22, rank), sigma2_x, sigma2_theta, [mu1, mu2])


def _eq18_simulate(
    x11: float,
    x12: float,
    x22: float,
    mu1: float,
    mu2: float,
    sigma2_theta: float,
    sigma2_x: float,
    rank: int,
) -> simulation.Simulation:
    X = np.array([[x11, x12], [0.0, x22 if rank == 2 else 0.0]])
    return risk_check(
        X,
        [mu1, mu2],
        sigma2_theta,
        sigma2_x,
        np.linalg.pinv(X),
        0.0,
        "squared error of the local estimate",
    )


_EQ18 = (X11, X12, X22_POSITIVE, MU1, MU2, SIGMA2_THETA_POSITIVE, SIGMA2_X, RANK)

register(
    Claim(
        id="generative:eq18",
        title="Mean squared error of the local least-squares estimate",
        place="Section 3.1.1, (17)-(18)",
        statement="The local estimate has this mean squared error; where X'X is singular the pseudo-inverse is taken.",
        latex=r"""\widehat{\bm{\theta}}_{i}^{(l)}=\left(X_{i}^{T}X_{i}\right)^{-1}X_{i}^{T}Y_{i}%
            \text{ (otherwise, we take the pseudo inverse)},\quad\mathbb{E}\left\|\widehat{\bm{\theta}}_{i}^{(l)}-%
            \bm{\theta}_{i}\right\|^{2}=\mathsf{Tr}\left(\left(X_{i}^{T}X_{i}\right)^{-1}\right)\sigma_{x}^{2}""",
        kind="identity",
        variables=_EQ18,
        examples=(
            {"x11": 2, "x12": 1, "x22": 1, "sigma2_theta": 1, "sigma2_x": 2},
            {"x11": 1, "x12": 1, "mu1": 2, "mu2": 1, "sigma2_theta": 1, "sigma2_x": 2, "rank": 1},
        ),
        printed=_eq18_printed,
        derive=_eq18_derive,
        oracle=_eq18_oracle,
        computed=_eq18_computed,
        simulate=_eq18_simulate,
        condition=lambda rank: sp.true if rank == 2 else sp.false,
        condition_text="rank == 2 (X'X has full rank)",
        finding="With the pseudo-inverse the error also holds what the data do not show of the coefficients.",
        counterexample={"x11": 1, "x12": 0, "sigma2_theta": 1, "sigma2_x": 1, "rank": 1},
        assumes={"given": "design"},
        unit="squared units of theta",
        related=("generative:thm6",),
        remark=f"""{DESIGN_TEXT} In general: sigma2_x Tr((X'X)^+) + (d - rank) sigma2_theta + |(I - P) mu|^2, with P the
            projection on the row space of X: the pseudo-inverse says 0 where the data say nothing.""",
    )
)


# --- flat prior ---------------------------------------------------------------------------------------------


def _limit_printed(x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, rank: int) -> tuple[Any, ...]:
    """(17), or with the pseudo-inverse x'/|x|^2 of the first row alone."""
    if rank == 1:
        return x11 * y1 / (x11**2 + x12**2), x12 * y1 / (x11**2 + x12**2)
    X = sp.Matrix([[x11, x12], [0, x22]])
    return tuple((X.T * X).inv(method="ADJ") * X.T * sp.Matrix([y1, y2]))


def _limit_derive(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_x: Any, rank: int
) -> Derivation:
    d = Derivation()
    v = sp.Symbol("sigma2_theta", positive=True)
    entries = {"x11": x11, "x12": x12, "x22": x22 if rank == 2 else ZERO, "y1": y1, "y2": y2, "mu1": mu1, "mu2": mu2}
    _, *mean = d.lemma("generative:thm6", "error and estimate are", **entries, sigma2_theta=v, sigma2_x=sigma2_x)
    return d.conclude(
        "The personalised estimate (15) as sigma2_theta grows, coefficient by coefficient:",
        tuple(limit(t, v, sp.oo) for t in mean),
    )


def _nothing_beyond_rows(x11: Any, x12: Any, mu1: Any, mu2: Any, rank: int) -> Any:
    return sp.true if rank == 2 else sp.Eq(mu2, mu1 * x12 / x11)


def _limit_oracle(x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, rank: int) -> tuple[Any, ...]:
    """As the prior's weight vanishes, (14) is minimised by the least-squares solution nearest to mu."""
    rows = [[x11, x12], [0, x22 if rank == 2 else 0]]
    rest = [y - r[0] * mu1 - r[1] * mu2 for r, y in zip(rows, (y1, y2), strict=True)]
    step = shortest_least_squares(rows, rest)
    return mu1 + rational(step[0]), mu2 + rational(step[1])


register(
    Claim(
        id="generative:limit",
        title="With a flat prior the personalised estimate becomes the local one",
        place="Section 3.1.1, text after (18)",
        statement="As sigma2_theta tends to infinity, the personalised estimate (15) tends to the local one (17).",
        latex=r"""\text{When }\sigma_{\theta}^{2}\to\infty\text{, we can easily see that the local estimate (17) matches the
            personalized estimate in (15).}""",
        kind="limit",
        variables=(X11, X12, X22_POSITIVE, Y1, Y2, MU1, MU2, SIGMA2_X, RANK),
        examples=(
            {"x11": 2, "x12": 1, "x22": 1, "y1": 3, "y2": 1, "mu1": 1, "mu2": -1, "sigma2_x": 2},
            {"x11": 2, "x12": 1, "y1": 3, "y2": 1, "mu1": 2, "mu2": 1, "sigma2_x": 1, "rank": 1},
        ),
        printed=_limit_printed,
        derive=_limit_derive,
        oracle=_limit_oracle,
        not_computed=Exempt(kind="limit", of=("generative:thm6",), note="floats lose digits as designs get ill-conditioned"),
        not_simulated=Exempt(kind="deterministic"),
        finding="""Where a client's data do not fix all coefficients, the personalised estimate keeps the prior mean there,
            and the local one says zero.""",
        condition=_nothing_beyond_rows,
        condition_text="rank == 2, or mu has no part in the null space of X (mu2*x11 == mu1*x12)",
        counterexample={"x11": 1, "x12": 0, "y1": 1, "mu1": 0, "mu2": 1, "sigma2_x": 1, "rank": 1},
        assumes={"law": "gaussian"},
        entries=("first coefficient", "second coefficient"),
        unit="units of theta",
        related=("generative:eq18",),
        remark=f"""{DESIGN_TEXT} Where the data say nothing the personalised estimate stays at mu for every sigma2_theta,
            while the pseudo-inverse gives 0.""",
    )
)

__all__ = ["design", "sequential", "shortest_least_squares"]
