"""The proof of Theorem 6, step by step, and the local estimate that Algorithm 7 starts from.

Belongs here: (62), (64), the two parts of the error, why least squares is the best without a prior. Does not belong here:
the theorem itself (regression.py), whose variables these claims use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import priors, regression
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.dual import Dual, gradient, lift
from theory.papers.generative.model import SIGMA2_THETA_POSITIVE, SIGMA2_X
from theory.papers.generative.regression import DESIGN_TEXT, MU1, MU2, X11, X12, X22, Y1, Y2

T1 = Variable("theta1", "real", "first coefficient", extreme=False)
T2 = Variable("theta2", "real", "second coefficient", extreme=False)

# --- (62) ------------------------------------------------------------------------------------------------------------


def _slope_printed(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any,
    sigma2_theta: Any, sigma2_x: Any,
) -> tuple[Any, ...]:  # fmt: skip
    X, theta = sp.Matrix([[x11, x12], [0, x22]]), sp.Matrix([theta1, theta2])
    return tuple(X.T * (X * theta - sp.Matrix([y1, y2])) / sigma2_x + (theta - sp.Matrix([mu1, mu2])) / sigma2_theta)


def _slope_derive(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any,
    sigma2_theta: Any, sigma2_x: Any,
) -> Derivation:  # fmt: skip
    d = Derivation()
    fit = d.say("Minus the logarithm of the responses' normal densities, but for constants:",
                ((y1 - x11 * theta1 - x12 * theta2) ** 2 + (y2 - x22 * theta2) ** 2) / (2 * sigma2_x))  # fmt: skip
    prior = d.say("and of the prior's:", ((theta1 - mu1) ** 2 + (theta2 - mu2) ** 2) / (2 * sigma2_theta))
    return d.conclude("Slopes of the sum:", tuple(sp.diff(fit + prior, t) for t in (theta1, theta2)))


def _slope_oracle(
    x11: Any, x12: Any, x22: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any,
    sigma2_theta: Any, sigma2_x: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Forward differentiation in fractions."""

    def objective(a: Dual, b: Dual) -> Dual:
        total = lift(0)
        for square, variance in (
            (a * x11 + b * x12 - y1, sigma2_x), (b * x22 - y2, sigma2_x), (a - mu1, sigma2_theta), (b - mu2, sigma2_theta),
        ):  # fmt: skip
            total = total + square * square / (fraction(variance) * 2)
        return total

    return gradient(objective, [theta1, theta2])


def _slope_computed(
    x11: float, x12: float, x22: float, y1: float, y2: float, mu1: float, mu2: float, theta1: float, theta2: float,
    sigma2_theta: float, sigma2_x: float,
) -> tuple[float, ...]:  # fmt: skip
    theta = np.array([theta1, theta2])
    _, fit = priors.gaussian_loss([[x11, x12], [0.0, x22]], [y1, y2], theta, sigma2_x)
    _, pull = priors.gaussian_penalty([theta], [mu1, mu2], sigma2_theta)
    return tuple(fit + pull[0])


register(
    Claim(
        id="generative:eq62",
        title="Slope of the regression objective",
        place="Section 6.1, (62)",
        statement="The derivative of a client's terms of (14) in theta_i.",
        latex=r"""\frac{\partial}{\partial\bm{\theta}_{i}}=\frac{X_{i}^{T}(X_{i}\bm{\theta}_{i}-Y_{i})}{\sigma_{x}^{2}}+%
            \frac{\bm{\theta}_{i}-\bm{\mu}}{\sigma_{\theta}^{2}}""",
        kind="identity",
        variables=(X11, X12, X22, Y1, Y2, MU1, MU2, T1, T2, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=({"x11": 2, "x12": 1, "x22": 1, "y1": 3, "theta1": 1, "theta2": -1, "sigma2_theta": 1, "sigma2_x": 2},),
        printed=_slope_printed,
        derive=_slope_derive,
        oracle=_slope_oracle,
        computed=_slope_computed,
        not_simulated=Exempt(kind="deterministic"),
        entries=("first coefficient", "second coefficient"),
        unit="1 over the unit of theta",
        related=("generative:thm6",),
        remark=DESIGN_TEXT,
    )
)

# --- (64) and the error's two parts ----------------------------------------------------------------------------------


def _mean_printed(
    x11: Any, x12: Any, x22: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any, sigma2_theta: Any, sigma2_x: Any
) -> tuple[Any, ...]:
    X, theta, mu = sp.Matrix([[x11, x12], [0, x22]]), sp.Matrix([theta1, theta2]), sp.Matrix([mu1, mu2])
    inverse = (sp.eye(2) / sigma2_theta + X.T * X / sigma2_x).inv(method="ADJ")
    return tuple(inverse * (X.T * X * theta / sigma2_x + mu / sigma2_theta))


def _mean_derive(
    x11: Any, x12: Any, x22: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any, sigma2_theta: Any, sigma2_x: Any
) -> Derivation:
    d = Derivation()
    X, theta = sp.Matrix([[x11, x12], [0, x22]]), sp.Matrix([theta1, theta2])
    means = d.say("The noise has mean 0, so the responses' means given theta are", X * theta)
    _, *mean = d.lemma("generative:thm6", "error and estimate, which is affine in the responses, are",
                       x11=x11, x12=x12, x22=x22, y1=means[0], y2=means[1], mu1=mu1, mu2=mu2, sigma2_theta=sigma2_theta,
                       sigma2_x=sigma2_x)  # fmt: skip
    return d.conclude("At the responses' means:", tuple(mean))


def _mean_oracle(
    x11: Any, x12: Any, x22: Any, mu1: Any, mu2: Any, theta1: Any, theta2: Any, sigma2_theta: Any, sigma2_x: Any
) -> tuple[Any, ...]:
    """Normal equations in fractions, averaged over noises of +-1 in each response."""
    a, b, c, v, s = (fraction(z) for z in (x11, x12, x22, sigma2_theta, sigma2_x))
    truth, mu = [fraction(theta1), fraction(theta2)], [fraction(mu1), fraction(mu2)]
    normal = [[a * a / s + 1 / v, a * b / s], [a * b / s, (b * b + c * c) / s + 1 / v]]
    total = [fraction(0), fraction(0)]
    signs = [(u, w) for u in (-1, 1) for w in (-1, 1)]
    for u, w in signs:
        y = [a * truth[0] + b * truth[1] + u, c * truth[1] + w]
        found = solve(normal, [a * y[0] / s + mu[0] / v, (b * y[0] + c * y[1]) / s + mu[1] / v])
        total = [t + f / len(signs) for t, f in zip(total, found, strict=True)]
    return tuple(map(rational, total))


def _mean_computed(
    x11: float, x12: float, x22: float, mu1: float, mu2: float, theta1: float, theta2: float, sigma2_theta: float,
    sigma2_x: float,
) -> tuple[float, ...]:  # fmt: skip
    X = np.array([[x11, x12], [0.0, x22]])
    mean, _ = regression.posterior(X, X @ [theta1, theta2], [mu1, mu2], sigma2_theta, sigma2_x)
    return tuple(mean)


def _mean_simulate(
    x11: float, x12: float, x22: float, mu1: float, mu2: float, theta1: float, theta2: float, sigma2_theta: float,
    sigma2_x: float,
) -> simulation.Simulation:  # fmt: skip
    rows = np.array([[x11, x12], [0.0, x22]])
    information = rows.T @ rows / sigma2_x + np.eye(2) / sigma2_theta

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        y = rows @ [theta1, theta2] + np.sqrt(sigma2_x) * gen.standard_normal((reps, 2))
        return np.linalg.solve(information, (y @ rows / sigma2_x + np.array([mu1, mu2]) / sigma2_theta).T).T

    return simulation.sample_means(draw, scales=[1.0, 1.0], labels=("first coefficient", "second coefficient"))


register(
    Claim(
        id="generative:eq64",
        title="Mean of the personalised estimate, given the parameters",
        place="Section 6.1, (64)",
        statement="The expectation of (15) over the responses' noise.",
        latex=r"""\mathbb{E}_{\bm{w}_{i}}[\widehat{\bm{\theta}}_{i}]=\left(\frac{\mathbb{I}}{\sigma_{\theta}^{2}}+%
            \frac{X_{i}^{T}X_{i}}{\sigma_{x}^{2}}\right)^{-1}\left(\frac{X_{i}^{T}X_{i}\bm{\theta}_{i}}{\sigma_{x}^{2}}+%
            \frac{\bm{\mu}}{\sigma_{\theta}^{2}}\right)""",
        kind="identity",
        variables=(X11, X12, X22, MU1, MU2, T1, T2, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=({"x11": 2, "x12": 1, "x22": 1, "theta1": 1, "theta2": -1, "mu1": 1, "sigma2_theta": 1, "sigma2_x": 2},),
        printed=_mean_printed,
        derive=_mean_derive,
        oracle=_mean_oracle,
        computed=_mean_computed,
        simulate=_mean_simulate,
        assumes={"given": "design"},
        entries=("first coefficient", "second coefficient"),
        unit="units of theta",
        related=("generative:thm6",),
        remark=DESIGN_TEXT,
    )
)


def _parts_printed(x11: Any, x12: Any, x22: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, Any]:
    X = sp.Matrix([[x11, x12], [0, x22]])
    inverse = (sp.eye(2) / sigma2_theta + X.T * X / sigma2_x).inv(method="ADJ")
    return (inverse * X.T * X / sigma2_x * inverse).trace(), (inverse / sigma2_theta * inverse).trace()


def _parts_derive(x11: Any, x12: Any, x22: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d, z1, z2 = Derivation(), *sp.symbols("y1 y2", real=True)
    zero = sp.Integer(0)
    _, *mean = d.lemma("generative:thm6", "error and estimate, for mu = 0, are",
                       x11=x11, x12=x12, x22=x22, y1=z1, y2=z2, mu1=zero, mu2=zero, sigma2_theta=sigma2_theta,
                       sigma2_x=sigma2_x)  # fmt: skip
    gain = d.say("The estimate's answers to the two responses:",
                 sp.Matrix(2, 2, lambda i, j: simplest(sp.diff(mean[i], (z1, z2)[j]))))  # fmt: skip
    lost = d.say(
        "What it misses of theta, I - gain X:", (sp.eye(2) - gain * sp.Matrix([[x11, x12], [0, x22]])).applyfunc(simplest)
    )
    parts = (sigma2_x * (gain * gain.T).trace(), sigma2_theta * (lost * lost.T).trace())
    return d.conclude("Noise through the gain; deviations of theta from mu, as far as missed:", tuple(map(simplest, parts)))


def _parts_oracle(x11: Any, x12: Any, x22: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, Any]:
    """One unit of noise or of deviation at a time, through normal equations in fractions."""
    a, b, c, v, s = (fraction(z) for z in (x11, x12, x22, sigma2_theta, sigma2_x))
    normal = [[a * a / s + 1 / v, a * b / s], [a * b / s, (b * b + c * c) / s + 1 / v]]

    def estimate(y1: Any, y2: Any) -> list[Any]:
        return solve(normal, [a * y1 / s, (b * y1 + c * y2) / s])

    noise = sum(t * t for y in ((1, 0), (0, 1)) for t in estimate(*y))
    missed = [[t - g for t, g in zip(theta, estimate(a * theta[0] + b * theta[1], c * theta[1]), strict=True)]
              for theta in ((1, 0), (0, 1))]  # fmt: skip
    return rational(noise * s), rational(sum(t * t for row in missed for t in row) * v)


def _parts_simulate(x11: float, x12: float, x22: float, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    """From raw parameters and noises; the estimate's mean given the parameters is the estimate without noise."""
    rows = np.array([[x11, x12], [0.0, x22]])
    information = rows.T @ rows / sigma2_x + np.eye(2) / sigma2_theta

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = np.sqrt(sigma2_theta) * gen.standard_normal((reps, 2))
        noise = np.sqrt(sigma2_x) * gen.standard_normal((reps, 2))
        seen, around = (np.linalg.solve(information, (z @ rows / sigma2_x).T).T for z in (theta @ rows.T, noise))
        return np.column_stack([np.sum(around**2, axis=1), np.sum((seen - theta) ** 2, axis=1)])

    return simulation.sample_means(draw, labels=("noise", "deviations"))


def _parts_float(x11: float, x12: float, x22: float, sigma2_theta: float, sigma2_x: float) -> Any:
    return regression.posterior_mse_parts([[x11, x12], [0.0, x22]], sigma2_theta, sigma2_x)


register(
    Claim(
        id="generative:thm6:parts",
        title="The error of the personalised estimate is noise plus what it misses",
        place="Section 6.1, displays after (64)",
        statement="""The mean squared error of (15) splits into that around its mean given the parameters and that of this
            mean, with these two traces, M = I/sigma2_theta + X'X/sigma2_x.""",
        latex=r"""\mathsf{Tr}\left(\bm{M}^{-1}\frac{X_{i}^{T}X_{i}}{\sigma_{x}^{2}}\bm{M}^{-1}\right)+\mathsf{Tr}\left(%
            \bm{M}^{-1}\frac{\mathbb{I}}{\sigma_{\theta}^{2}}\bm{M}^{-1}\right)""",
        kind="identity",
        variables=(X11, X12, X22, SIGMA2_THETA_POSITIVE, SIGMA2_X),
        examples=({"x11": 2, "x12": 1, "x22": 1, "sigma2_theta": 1, "sigma2_x": 2},),
        printed=_parts_printed,
        derive=_parts_derive,
        oracle=_parts_oracle,
        computed=_parts_float,
        simulate=_parts_simulate,
        assumes={"given": "design"},
        entries=("around the mean given theta", "of that mean"),
        unit="squared units of theta",
        related=("generative:thm6",),
        remark=DESIGN_TEXT + " Together they are Tr(M^-1), as (16) says.",
    )
)

# --- least squares without a prior -----------------------------------------------------------------------------------

F1 = Variable("u1", "positive", "feature of the first sample", extreme=False)
F2 = Variable("u2", "real", "feature of the second sample", extreme=False)


def _blue_derive(u1: Any, u2: Any, sigma2_x: Any) -> Derivation:
    d, w2 = Derivation(), sp.Symbol("w2", real=True)
    first = d.say("An estimate w1 y1 + w2 y2 is right on average for every theta if w1 u1 + w2 u2 = 1, so w1 =",
                  (1 - w2 * u2) / u1)  # fmt: skip
    risk = d.say("Its mean squared error:", _blue_objective((first, w2), u1, u2, sigma2_x))
    best = d.say("which is least at w2 =", sp.solve(sp.diff(risk, w2), w2)[0])
    return d.conclude("Weights:", (sp.factor(first.subs(w2, best)), sp.factor(best)))


def _blue_oracle(u1: Any, u2: Any) -> tuple[Any, Any]:
    """Least-squares fits to a response of 1 in one sample and 0 in the other: the residual is a parabola in the estimate."""
    x = [fraction(u1), fraction(u2)]

    def fit(y: tuple[int, int]) -> Any:
        lost = [sum((b - a * t) ** 2 for a, b in zip(x, y, strict=True)) for t in (0, 1, 2)]
        return 1 + (lost[0] - lost[2]) / (2 * (lost[0] - 2 * lost[1] + lost[2]))

    return rational(fit((1, 0))), rational(fit((0, 1)))


def _blue_computed(u1: float, u2: float, sigma2_x: float) -> tuple[float, float]:
    """The estimate's answers to the two responses, from posterior means under a flat prior."""
    X = np.array([[u1], [u2]])
    answers = [regression.posterior(X, y, [0.0], np.inf, sigma2_x)[0][0] for y in ([1.0, 0.0], [0.0, 1.0])]
    return answers[0], answers[1]


def _blue_objective(x: tuple[Any, ...], u1: Any, u2: Any, sigma2_x: Any) -> Any:
    """Error of the estimate with the second weight x[1], and the first as being right on average asks for; x[0] is free."""
    return sigma2_x * (((1 - x[1] * u2) / u1) ** 2 + x[1] ** 2)


register(
    Claim(
        id="generative:alg7:start",
        title="Algorithm 7 starts from the best estimate without prior knowledge",
        place="Appendix B, Description of Algorithm 7; Algorithm 7, line 1",
        statement="""(X'X)^-1 X'Y is the optimal estimate from the local data without any prior knowledge. Judged: among
            linear estimates that are right on average for every parameter it has the least error; two samples, d = 1, as
            weights of y_1 and y_2.""",
        latex=r"""\bm{\theta}_{i}^{(0)}=(X_{i}^{T}X_{i})^{-1}X_{i}^{T}Y_{i}%
            \text{, which is the optimal as a function of the local dataset at the }i%
            \text{-th client without any prior knowledge}""",
        kind="optimum",
        variables=(F1, F2, SIGMA2_X),
        examples=({"u1": 1, "u2": 2, "sigma2_x": 1},),
        printed=lambda u1, u2: (u1 / (u1**2 + u2**2), u2 / (u1**2 + u2**2)),
        derive=_blue_derive,
        oracle=_blue_oracle,
        computed=_blue_computed,
        objective=_blue_objective,
        decision="real",
        not_simulated=Exempt(kind="part", of=("generative:eq18",)),
        entries=("weight of y_1", "weight of y_2"),
        unit="1 over the unit of X",
        related=("generative:eq18", "generative:limit"),
        assumes={"prior": "flat", "law": "moments"},
        remark="""Gauss and Markov. Without the demand to be right on average no estimate is best; every shrinkage is better
            near its pivot.""",
    )
)
