"""The printed gradient steps of Algorithms 2 and 3.

Every line is judged against the slope of the objective that it descends. Exponentials enter as letters of their own
where they appear (E = exp(<theta, X>), and so on), so that all statements are rational.

Belongs here: lines of those boxes, executed in order. Does not belong here: the objectives (objectives.py), mixture
priors (mixture_steps.py), AdaPeD (adaped.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import priors, regression
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.dual import Dual, gradient, lift


def letter(name: str, meaning: str, kind: str = "real", **more: Any) -> Variable:
    """A variable of an algorithm's state."""
    return Variable(name, kind, meaning, extreme=False, **more)


DETERMINISTIC = Exempt(kind="deterministic")
ETA = letter("eta", "learning rate", "positive")
V = letter("sigma2_theta", "global variance before the step", "positive")
S = letter("sigma2_x", "local variance before the step", "positive")

# --- Algorithm 2, clients --------------------------------------------------------------------------------------------

X11, X12 = letter("x11", "first sample, first feature"), letter("x12", "first sample, second feature")
X21, X22 = letter("x21", "second sample, first feature"), letter("x22", "second sample, second feature")
Y1, Y2 = letter("y1", "first response"), letter("y2", "second response")
T1, T2 = letter("theta1", "client's parameter, first coordinate"), letter("theta2", "second coordinate")
MU1, MU2 = letter("mu1", "received mean, first coordinate"), letter("mu2", "second coordinate")
ALG2 = (X11, X12, X21, X22, Y1, Y2, T1, T2, MU1, MU2, V, S, ETA)


def _alg2_printed(
    x11: Any, x12: Any, x21: Any, x22: Any, y1: Any, y2: Any, theta1: Any, theta2: Any, mu1: Any, mu2: Any,
    sigma2_theta: Any, sigma2_x: Any, eta: Any,
) -> tuple[Any, ...]:  # fmt: skip
    n, d = 2, 2
    X, Y = ((x11, x12), (x21, x22)), (y1, y2)
    theta, mu = (theta1, theta2), (mu1, mu2)
    rest = [y - x[0] * theta[0] - x[1] * theta[1] for x, y in zip(X, Y, strict=True)]
    new_theta = [
        theta[c] + eta * (sum(x[c] * r / sigma2_x for x, r in zip(X, rest, strict=True)) + (mu[c] - theta[c]) / sigma2_theta)
        for c in range(d)
    ]
    new_mu = [mu[c] - eta * ((mu[c] - theta[c]) / sigma2_theta) for c in range(d)]
    new_s = sigma2_x - eta * (n / (2 * sigma2_x) - sum(r**2 for r in rest) / (2 * sigma2_x**2))
    square = sum((mu[c] - theta[c]) ** 2 for c in range(d))
    new_v = sigma2_theta - eta * (d / (2 * sigma2_theta) - square / (2 * sigma2_theta**2))
    return (*new_theta, *new_mu, new_s, new_v)


def _alg2_derive(
    x11: Any, x12: Any, x21: Any, x22: Any, y1: Any, y2: Any, theta1: Any, theta2: Any, mu1: Any, mu2: Any,
    sigma2_theta: Any, sigma2_x: Any, eta: Any,
) -> Derivation:  # fmt: skip
    d = Derivation()
    X, Y = sp.Matrix([[x11, x12], [x21, x22]]), sp.Matrix([y1, y2])
    theta, mu = sp.Matrix([theta1, theta2]), sp.Matrix([mu1, mu2])
    r, gap = Y - X * theta, theta - mu
    loss = d.say(
        "This client's terms of minus the log-density (generative:eq14):",
        sp.log(2 * sp.pi * sigma2_x)
        + (r.T * r)[0] / (2 * sigma2_x)
        + sp.log(2 * sp.pi * sigma2_theta)
        + (gap.T * gap)[0] / (2 * sigma2_theta),
    )
    state = (theta1, theta2, mu1, mu2, sigma2_x, sigma2_theta)
    d.say("All lines use the values received, so each quantity moves by eta times its slope at the old point.")
    return d.conclude("New theta_i, mu_i, sigma2_x,i, sigma2_theta,i:", tuple(z - eta * sp.diff(loss, z) for z in state))


def _alg2_oracle(
    x11: Any, x12: Any, x21: Any, x22: Any, y1: Any, y2: Any, theta1: Any, theta2: Any, mu1: Any, mu2: Any,
    sigma2_theta: Any, sigma2_x: Any, eta: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Slopes of the client's log-density, coordinate by coordinate, by forward differentiation in fractions."""
    samples = (((x11, x12), y1), ((x21, x22), y2))

    def loss(a: Dual, b: Dual, mu_a: Dual, mu_b: Dual, s: Dual, v: Dual) -> Dual:
        total = lift(0)
        for (u, w), y in samples:
            rest = lift(y) - a * u - b * w
            total = total + (s.log() + rest * rest / s) * Fraction(1, 2)
        for t, m in ((a, mu_a), (b, mu_b)):
            total = total + (v.log() + (t - m) * (t - m) / v) * Fraction(1, 2)
        return total

    state = (theta1, theta2, mu1, mu2, sigma2_x, sigma2_theta)
    return tuple(z - eta * g for z, g in zip(state, gradient(loss, state), strict=True))


def _alg2_computed(
    x11: float, x12: float, x21: float, x22: float, y1: float, y2: float, theta1: float, theta2: float,
    mu1: float, mu2: float, sigma2_theta: float, sigma2_x: float, eta: float,
) -> tuple[float, ...]:  # fmt: skip
    X, Y = np.array([[x11, x12], [x21, x22]]), np.array([y1, y2])
    theta, mu = np.array([theta1, theta2]), np.array([mu1, mu2])
    _, fit = priors.gaussian_loss(X, Y, theta, sigma2_x)
    _, (pull,) = priors.gaussian_penalty([theta], mu, sigma2_theta)
    best_x, best_theta = priors.best_variance((Y - X @ theta)[:, None], 0.0), priors.best_variance([theta], mu)
    variances = (v - eta * (v - best) / v**2 for v, best in ((sigma2_x, best_x), (sigma2_theta, best_theta)))
    return (*(theta - eta * (fit + pull)), *(mu + eta * pull), *variances)


_ALG2_EXAMPLE = {"x11": 1, "x12": 0, "x21": 1, "x22": 2, "y1": 1, "y2": 3, "theta1": 1, "theta2": 0, "mu1": 0, "mu2": 1,
                 "sigma2_theta": 1, "sigma2_x": 2, "eta": "1/10"}  # fmt: skip

register(
    Claim(
        id="generative:alg2",
        title="Algorithm 2: the clients' steps",
        place="Section 3.1.2, Algorithm 2, lines 6-9",
        statement="Lines 6-9 are gradient steps on the client's terms of (19). Judged for two samples and two coefficients.",
        latex=r"""\bm{\theta}_{i}^{t}\leftarrow\bm{\theta}_{i}^{t-1}+\eta\left(\sum_{j=1}^{n}%
            \frac{X_{ij}(Y_{ij}-X_{ij}\bm{\theta}_{i}^{t-1})}{\sigma_{x,i}^{2,t-1}}+%
            \frac{\bm{\mu}_{i}^{t-1}-\bm{\theta}_{i}^{t-1}}{\sigma_{\theta,i}^{2,t-1}}\right);\ \bm{\mu}_{i}^{t}%
            \leftarrow\bm{\mu}_{i}^{t-1}-\eta\left(\frac{\bm{\mu}_{i}^{t-1}-\bm{\theta}_{i}^{t-1}}%
            {\sigma_{\theta,i}^{2,t-1}}\right);\ \sigma^{2,t}_{x,i}\leftarrow\sigma^{2,t-1}_{x,i}-\eta\left(\frac{n}%
            {2\sigma_{x,i}^{2,t-1}}-\sum_{j=1}^{n}\frac{(Y_{ij}-X_{ij}\bm{\theta}_{i}^{t-1})^{2}}%
            {2(\sigma_{x,i}^{2,t-1})^{2}}\right);\ \sigma^{2,t}_{\theta,i}\leftarrow\sigma^{2,t-1}_{\theta,_{i}}-\eta%
            \left(\frac{d}{2\sigma_{\theta,i}^{2,t-1}}-\frac{\|\bm{\mu}_{i}^{t-1}-\bm{\theta}^{t-1}_{i}\|^{2}}%
            {2(\sigma_{\theta,i}^{2,t-1})^{2}}\right)""",
        kind="algorithm line",
        variables=ALG2,
        examples=(_ALG2_EXAMPLE,),
        printed=_alg2_printed,
        derive=_alg2_derive,
        oracle=_alg2_oracle,
        computed=_alg2_computed,
        not_simulated=DETERMINISTIC,
        entries=("theta_1", "theta_2", "mu_1", "mu_2", "sigma2_x", "sigma2_theta"),
        unit="units of theta; variances",
        related=("generative:eq14",),
        remark="""The gradients are right (X_ij theta stands for <X_ij, theta>; the step is in the variance, not in sigma).
            What is wrong is the objective: it has no minimiser (generative:eq19), a step can make a variance negative
            (generative:alg2:positive), and at the true parameters the variance drifts down (generative:alg2:drift).""",
    )
)

# --- Algorithm 2, server ---------------------------------------------------------------------------------------------

XS = letter("x", "feature of each client's sample", lengths=(2, 3))
YS = letter("y", "response of each client", lengths=(2, 3))
TS = letter("theta", "parameter of each client", lengths=(2, 3))
MU = letter("mu", "mean before the round")


def _server_printed(x: list[Any], y: list[Any], theta: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any, eta: Any):
    m = len(theta)
    mus = [mu - eta * (mu - t) / sigma2_theta for t in theta]
    vs = [sigma2_theta - eta * (1 / (2 * sigma2_theta) - (mu - t) ** 2 / (2 * sigma2_theta**2)) for t in theta]
    ss = [
        sigma2_x - eta * (1 / (2 * sigma2_x) - (b - a * t) ** 2 / (2 * sigma2_x**2))
        for a, b, t in zip(x, y, theta, strict=True)
    ]
    return sum(mus) / m, sum(vs) / m, sum(ss) / m


def _server_derive(
    x: list[Any], y: list[Any], theta: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any, eta: Any
) -> Derivation:
    d, m = Derivation(), len(theta)
    loss = d.say(
        "All clients' terms of (19) (d = n = 1), but for constants:",
        m * sp.log(sigma2_x) / 2
        + sum((b - a * t) ** 2 for a, b, t in zip(x, y, theta, strict=True)) / (2 * sigma2_x)
        + m * sp.log(sigma2_theta) / 2
        + sum((mu - t) ** 2 for t in theta) / (2 * sigma2_theta),
    )
    state = (mu, sigma2_theta, sigma2_x)
    return d.conclude("A gradient step of rate eta/m leads to", tuple(z - eta / m * sp.diff(loss, z) for z in state))


def _server_oracle(x: list[Any], y: list[Any], theta: list[Any], mu: Any, sigma2_theta: Any, sigma2_x: Any, eta: Any):
    m = len(theta)

    def loss(centre: Dual, v: Dual, s: Dual) -> Dual:
        total = lift(0)
        for a, b, t in zip(x, y, theta, strict=True):
            total = total + s.log() * Fraction(1, 2) + Fraction((fraction(b) - fraction(a) * fraction(t)) ** 2, 2) / s
            total = total + v.log() * Fraction(1, 2) + (centre - t) * (centre - t) / (v * 2)
        return total

    state = (mu, sigma2_theta, sigma2_x)
    return tuple(z - eta * g / m for z, g in zip(state, gradient(loss, state), strict=True))


def _server_computed(
    x: list[float], y: list[float], theta: list[float], mu: float, sigma2_theta: float, sigma2_x: float, eta: float
) -> tuple[float, ...]:
    new = []
    for a, b, t in zip(x, y, theta, strict=True):
        _, ((pull,),) = priors.gaussian_penalty([[t]], mu, sigma2_theta)
        best_x, best_theta = priors.best_variance([[b - a * t]], 0.0), priors.best_variance([[t]], mu)
        variances = (v - eta * (v - best) / (2 * v**2) for v, best in ((sigma2_theta, best_theta), (sigma2_x, best_x)))
        new.append([mu + eta * pull, *variances])
    return tuple(np.mean(new, axis=0))


register(
    Claim(
        id="generative:alg2:server",
        title="Algorithm 2: the server's averages",
        place="Section 3.1.2, Algorithm 2, lines 12-14",
        statement="""Averaging the clients' versions of mu, sigma2_theta and sigma2_x is a gradient step on (19) itself, with
            rate eta/m. Judged for d = n = 1.""",
        latex=r"""\bm{\mu}^{t}=\frac{1}{m}\sum_{i=1}^{m}\bm{\mu}_{i}^{t};\ \sigma^{2,t}_{\theta}=\frac{1}{m}\sum_{i=1}^{m}%
            \sigma^{2,t}_{\theta,i};\ \sigma^{2,t}_{x}=\frac{1}{m}\sum_{i=1}^{m}\sigma^{2,t}_{x,i}""",
        kind="algorithm line",
        variables=(XS, YS, TS, MU, V, S, ETA),
        examples=({"x": [1, 2], "y": [1, 3], "theta": [0, 1], "mu": 1, "sigma2_theta": 1, "sigma2_x": 2, "eta": "1/10"},),
        printed=_server_printed,
        derive=_server_derive,
        oracle=_server_oracle,
        computed=_server_computed,
        not_simulated=DETERMINISTIC,
        entries=("mu", "sigma2_theta", "sigma2_x"),
        unit="units of theta; variances",
        related=("generative:alg2",),
        remark="So the shared quantities move m times slower than the parameters for one eta.",
    )
)

# --- Algorithm 2, what its variance step does ------------------------------------------------------------------------

DIM = letter("d", "dimension", "size")
SQUARE = letter("Q", "|mu - theta_i|^2", "nonnegative")
SHARE = letter("share", "the step's rate as a share of 2 sigma2_theta^2/d", "fraction", closed=True)
EXCESS = letter("excess", "how far the rate exceeds 2 sigma2_theta^2/d, relatively", "positive")
SMALL = letter("small_rate", "1: eta <= 2 sigma2_theta^2/d; 0: larger", "choice", choices=(1, 0))


def variance_step_derive(d: Any, sigma2_theta: Any, Q: Any, share: Any, excess: Any, small_rate: int) -> Derivation:
    """A gradient step on (d/2) log v + Q/(2v), from v = sigma2_theta."""
    proof = Derivation()
    eta = proof.say("The rate:", 2 * sigma2_theta**2 / d * (share if small_rate else 1 + excess))
    loss = proof.say("The terms in sigma2_theta (generative:eq14):", d * sp.log(sigma2_theta) / 2 + Q / (2 * sigma2_theta))
    return proof.conclude("The variance after the step:", sigma2_theta - eta * sp.diff(loss, sigma2_theta))


def variance_step_oracle(d: Any, sigma2_theta: Any, Q: Any, share: Any, excess: Any, small_rate: int) -> Any:
    """Coordinate by coordinate: each pulls the variance towards its own square, by 1/d of the rate's share."""
    v, each = fraction(sigma2_theta), fraction(Q) / int(d)
    pull = (fraction(share) if small_rate else fraction(excess) + 1) / int(d)
    return rational(v + sum((pull * (each - v) for _ in range(int(d))), Fraction(0)))


def variance_step_computed(d: int, sigma2_theta: float, Q: float, share: float, excess: float, small_rate: int) -> float:
    """Between the old variance and the best one, or beyond that."""
    best = priors.best_variance([[np.sqrt(Q / d)]], 0.0)
    return (1 - share) * sigma2_theta + share * best if small_rate else (1 + excess) * best - excess * sigma2_theta


def variance_step_covered(share: Any) -> dict[Any, Any]:
    """Shares from 0 on, below 1."""
    t = sp.Symbol("t", nonnegative=True)
    return {share: t / (1 + t)}


def small_enough(small_rate: int) -> Any:
    """The condition on the rate."""
    return sp.true if small_rate else sp.false


VARIANCE_STEP = (DIM, V, SQUARE, SHARE, EXCESS, SMALL)

register(
    Claim(
        id="generative:alg2:positive",
        title="Algorithms 2 and 3: the variance stays positive",
        place="Section 3.1.2, Algorithm 2, line 9 (line 8 likewise); Algorithm 3, line 8",
        statement="The box applies the step for any learning rate eta, so the new value must be a variance: not negative.",
        latex=r"""\sigma^{2,t}_{\theta,i}\leftarrow\sigma^{2,t-1}_{\theta,_{i}}-\eta\left(\frac{d}%
            {2\sigma_{\theta,i}^{2,t-1}}-\frac{\|\bm{\mu}_{i}^{t-1}-\bm{\theta}^{t-1}_{i}\|^{2}}%
            {2(\sigma_{\theta,i}^{2,t-1})^{2}}\right)\ge0""",
        kind="lower bound",
        variables=VARIANCE_STEP,
        examples=({"d": 1, "sigma2_theta": 1, "Q": 1, "share": "1/2", "excess": 1, "small_rate": 1},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=variance_step_derive,
        oracle=variance_step_oracle,
        computed=variance_step_computed,
        shifts=variance_step_covered,
        tight=Tight(at={"d": 1, "sigma2_theta": 1, "Q": 0, "share": 1, "excess": 1, "small_rate": 1}),
        condition=small_enough,
        condition_text="small_rate == 1 (eta <= 2 sigma2_theta^2/d at every step)",
        counterexample={"d": 1, "sigma2_theta": 1, "Q": 0, "share": 0, "excess": 1, "small_rate": 0},
        not_simulated=DETERMINISTIC,
        finding="The algorithm allows any learning rate, but a step that is too long makes the variance negative.",
        unit="variance",
        related=("generative:alg2",),
        remark="""As the variance falls, which (generative:eq19) pushes it to do, no fixed eta meets the condition for long,
            and after a step to a negative value line 6 is repelled from mu. Expectation-maximisation
            (generative:eq19:em) takes exactly the rate 2 sigma2_theta^2/d per client.""",
    )
)

ALPHA2 = letter("alpha2", "variance of a client's local estimate, sigma2_x/n", "positive")


def _drift_derive(sigma2_theta: Any, alpha2: Any) -> Derivation:
    d = Derivation()
    gain = d.say("For the true mu and variances, (19) is least over theta_i at mu plus this times (y_i - mu):",
                 sigma2_theta / (sigma2_theta + alpha2))  # fmt: skip
    square = d.say("y_i - mu has the variance sigma2_theta + alpha2, so a coordinate of mu - theta_i has mean square",
                   sp.cancel(gain**2 * (sigma2_theta + alpha2)))  # fmt: skip
    return d.conclude("and the mean slope of (19) in sigma2_theta, per coordinate and client, is",
                      1 / (2 * sigma2_theta) - square / (2 * sigma2_theta**2))  # fmt: skip


def _drift_oracle(sigma2_theta: Any, alpha2: Any) -> Any:
    """Answers to unit deviations of theta_i and of the estimate, in fractions."""
    v, a = fraction(sigma2_theta), fraction(alpha2)
    answer = 1 / (1 / v + 1 / a) / a  # normal equation of (t - y)^2/a + t^2/v at y = 1
    square = v * answer**2 + a * answer**2
    return rational((1 - square / v) / (2 * v))


def _drift_simulate(sigma2_theta: float, alpha2: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = np.sqrt(sigma2_theta) * gen.standard_normal(reps)
        y = theta + np.sqrt(alpha2) * gen.standard_normal(reps)
        fitted = y / alpha2 / (1 / alpha2 + 1 / sigma2_theta)
        return ((1 - fitted**2 / sigma2_theta) / (2 * sigma2_theta))[:, None]

    return simulation.sample_means(draw, labels=("mean slope",))


def _drift_computed(sigma2_theta: float, alpha2: float) -> float:
    return regression.posterior_mse([[1.0]], sigma2_theta, alpha2) / (2 * sigma2_theta**2)


register(
    Claim(
        id="generative:alg2:drift",
        title="Algorithm 2 moves away from the true variance",
        place="Section 3.1.2, Algorithm 2, lines 6 and 9; not in the paper",
        statement="""At the true mu, sigma2_theta and sigma2_x, with parameters that minimise (19) for them, the mean slope
            in sigma2_theta per coordinate is alpha2/(2 sigma2_theta (sigma2_theta + alpha2)) > 0: descent shrinks the
            variance.""",
        latex=r"""\mathbb E\Big[\frac1{2\sigma_\theta^2}-\frac{(\mu-\hat\theta_i)^2}{2\sigma_\theta^4}\Big]=\frac{\alpha^2}%
            {2\sigma_\theta^2(\sigma_\theta^2+\alpha^2)},\qquad\alpha^2=\sigma_x^2/n""",
        kind="identity",
        variables=(V, ALPHA2),
        examples=({"sigma2_theta": 1, "alpha2": 2},),
        printed=lambda sigma2_theta, alpha2: alpha2 / (2 * sigma2_theta * (sigma2_theta + alpha2)),
        derive=_drift_derive,
        oracle=_drift_oracle,
        ours=True,
        computed=_drift_computed,
        simulate=_drift_simulate,
        assumes={"prior": "known", "given": "nothing", "law": "moments"},
        unit="1/variance",
        related=("generative:alg2", "generative:eq19:local"),
        remark="It is C/(2 sigma2_theta^2) with C the posterior variance: what generative:eq19:fisher adds back.",
    )
)

# --- Algorithm 3 -----------------------------------------------------------------------------------------------------

X1, X2 = letter("x1", "feature of the first sample"), letter("x2", "feature of the second sample")
E1 = letter("E1", "exp(x1 theta), the odds that the model gives the first sample", "positive")
E2 = letter("E2", "exp(x2 theta), for the second sample", "positive")
LABELS = letter("labels", "labels of the two samples", "choice", choices=("11", "10", "00"))
THETA = letter("theta", "the client's parameter before the step")
ALG3 = (X1, X2, E1, E2, LABELS, THETA, MU, V, ETA)


def _alg3_printed(
    x1: Any, x2: Any, E1: Any, E2: Any, labels: str, theta: Any, mu: Any, sigma2_theta: Any, eta: Any
) -> tuple[Any, ...]:
    """Lines 6-8, letter by letter."""
    slope = sum(x * (E / (1 + E) - int(y)) for x, E, y in ((x1, E1, labels[0]), (x2, E2, labels[1])))
    d = 1
    return (
        theta - eta * (slope + (mu - theta) / sigma2_theta),
        mu - eta * ((mu - theta) / sigma2_theta),
        sigma2_theta - eta * (d / (2 * sigma2_theta) - (mu - theta) ** 2 / (2 * sigma2_theta**2)),
    )


def _alg3_corrected(
    x1: Any, x2: Any, E1: Any, E2: Any, labels: str, theta: Any, mu: Any, sigma2_theta: Any, eta: Any
) -> tuple[Any, ...]:
    """The same with theta - mu in line 6."""
    slope = sum(x * (E / (1 + E) - int(y)) for x, E, y in ((x1, E1, labels[0]), (x2, E2, labels[1])))
    d = 1
    return (
        theta - eta * (slope + (theta - mu) / sigma2_theta),
        mu - eta * ((mu - theta) / sigma2_theta),
        sigma2_theta - eta * (d / (2 * sigma2_theta) - (mu - theta) ** 2 / (2 * sigma2_theta**2)),
    )


def _alg3_derive(
    x1: Any, x2: Any, E1: Any, E2: Any, labels: str, theta: Any, mu: Any, sigma2_theta: Any, eta: Any
) -> Derivation:
    d = Derivation()
    loss = sum(sp.log(1 + sp.exp((1 - 2 * int(y)) * x * theta)) for x, y in ((x1, labels[0]), (x2, labels[1])))
    prior = sp.log(sigma2_theta) / 2 + (theta - mu) ** 2 / (2 * sigma2_theta)
    d.say("Minus the log-likelihood of the labels and minus the log-density of the prior (d = 1):", loss + prior)
    letters = {sp.exp(x1 * theta): E1, sp.exp(x2 * theta): E2, sp.exp(-x1 * theta): 1 / E1, sp.exp(-x2 * theta): 1 / E2}
    slopes = [sp.diff(loss + prior, z).subs(letters) for z in (theta, mu, sigma2_theta)]
    d.say("Slopes in theta, mu, sigma2_theta, with E_j = exp(x_j theta):", tuple(slopes))
    return d.conclude("One step down:", tuple(z - eta * g for z, g in zip((theta, mu, sigma2_theta), slopes, strict=True)))


def _alg3_oracle(x1: Any, x2: Any, E1: Any, E2: Any, labels: str, theta: Any, mu: Any, sigma2_theta: Any, eta: Any):
    def loss(t: Dual, centre: Dual, v: Dual) -> Dual:
        total = (v.log() + (t - centre) * (t - centre) / v) * Fraction(1, 2)
        for x, E, y in ((x1, E1, labels[0]), (x2, E2, labels[1])):
            odds = (t * x).exp(E)
            likely = odds / (odds + 1) if y == "1" else 1 / (odds + 1)
            total = total - likely.log()
        return total

    state = (theta, mu, sigma2_theta)
    return tuple(z - eta * g for z, g in zip(state, gradient(loss, state), strict=True))


def _alg3_computed(
    x1: float, x2: float, E1: float, E2: float, labels: str, theta: float, mu: float, sigma2_theta: float, eta: float
) -> tuple[float, ...]:
    """Log-odds enter as a second feature with the coefficient 1, so that they need not be x theta."""
    _, (slope, _) = priors.logistic_loss([[x1, np.log(E1)], [x2, np.log(E2)]], [int(y) for y in labels], [0.0, 1.0])
    _, ((pull,),) = priors.gaussian_penalty([[theta]], mu, sigma2_theta)
    best = priors.best_variance([[theta]], mu)
    return theta - eta * (slope + pull), mu + eta * pull, sigma2_theta - eta * (sigma2_theta - best) / (2 * sigma2_theta**2)


register(
    Claim(
        id="generative:alg3",
        title="Algorithm 3: the clients' steps",
        place="Section 3.2, Algorithm 3, lines 6-8",
        statement="""Lines 6-8 are gradient steps on the client's terms of the objective (cross-entropy plus regulariser).
            Judged for d = 1 and two samples, with E_j = exp(x_j theta).""",
        latex=r"""\bm{\theta}_{i}^{t}\leftarrow\bm{\theta}_{i}^{t-1}-\eta\left(\sum_{j=1}^{n}\nabla_{\theta_{i}^{t-1}}%
            l_{CE}^{(p)}(\bm{\theta}_{i}^{t-1},(X_{i}^{j},Y_{i}^{j}))+\frac{\bm{\mu}_{i}^{t-1}-\bm{\theta}_{i}^{t-1}}%
            {\sigma_{\theta,i}^{2,t-1}}\right);\ \bm{\mu}_{i}^{t}\leftarrow\bm{\mu}_{i}^{t-1}-\eta\left(%
            \frac{\bm{\mu}_{i}^{t-1}-\bm{\theta}_{i}^{t-1}}{\sigma_{\theta,_{i}}^{2,t-1}}\right)%
            ;\ \sigma^{2,t}_{\theta,_{i}}\leftarrow\sigma^{2,t-1}_{\theta,_{i}}-\eta\left(\frac{d}%
            {2\sigma_{\theta,i}^{2,t-1}}-\frac{\|\bm{\mu}_{i}^{t-1}-\bm{\theta}^{t-1}_{i}\|^{2}}%
            {2(\sigma_{\theta,i}^{2,t-1})^{2}}\right)""",
        kind="algorithm line",
        variables=ALG3,
        examples=(
            {"x1": 1, "x2": -1, "E1": 2, "E2": 3, "labels": "10", "theta": 1, "mu": 0, "sigma2_theta": 1, "eta": "1/10"},
        ),
        printed=_alg3_printed,
        derive=_alg3_derive,
        oracle=_alg3_oracle,
        corrected=_alg3_corrected,
        corrected_text="line 6 with (theta_i - mu_i)/sigma2_theta,i",
        slip="""mu and theta exchanged in line 6 (in Algorithm 2 the same bracket is added, here it is subtracted): as
            printed the step pushes the personal model away from mu""",
        counterexample={
            "x1": 0,
            "x2": 0,
            "E1": 1,
            "E2": 1,
            "labels": "10",
            "theta": 1,
            "mu": 0,
            "sigma2_theta": 1,
            "eta": 1,
        },
        computed=_alg3_computed,
        finding="One sign is wrong: the step drives a client's model away from the common mean instead of towards it.",
        not_simulated=DETERMINISTIC,
        entries=("theta_i", "mu_i", "sigma2_theta,i"),
        unit="units of theta; variance",
        related=("generative:eq20",),
        remark="""Line 5 receives (mu^t, sigma^t), which line 13 only forms afterwards; lines 6-8 use the values of t - 1.
            The averages of lines 13-14 are as in Algorithm 2 (generative:alg2:server), and so are the ways to fail:
            generative:eq19, generative:alg2:positive.""",
    )
)

__all__ = [
    "DETERMINISTIC",
    "ETA",
    "THETA",
    "VARIANCE_STEP",
    "X1",
    "X2",
    "Y1",
    "Y2",
    "S",
    "letter",
    "small_enough",
    "variance_step_computed",
    "variance_step_covered",
    "variance_step_derive",
    "variance_step_oracle",
]
