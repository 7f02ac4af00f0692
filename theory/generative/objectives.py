"""Whether the objectives of Section 3 have minimisers, and objectives that have: (19), (20), (21).

Belongs here: (19) with its collapse, its local minimum, the marginal likelihood and the penalty that repair it; (20)
and (21) as wholes. Does not belong here: single terms of (12) (priors.py), the printed gradient steps (steps.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from estimators import priors as computed
from theory import simulation
from theory.bruteforce import fraction, rational, solve
from theory.claim import Claim
from theory.derivation import Derivation
from theory.domain import Variable
from theory.generative.dual import Dual, gradient, lift
from theory.generative.priors import (
    DIGITS,
    MIXTURE,
    MIXTURE_EXAMPLES,
    bounded,
    mixture_corrected,
    mixture_oracle,
    mixture_printed,
    number,
    precise,
)
from theory.registry import register

MD = Variable("md", "choice", "number of coordinates of all clients, m times d", choices=(1, 2, 4))
FLOOR = Variable("floor", "positive", "a candidate for the least value of exp(2 objective)", extreme=False)
K_REST = Variable("K", "positive", "(2 pi sigma2_x)^(nm) exp(sum of squared residuals/sigma2_x) at the chosen parameters",
                  extreme=False)  # fmt: skip

# --- (19) has no minimiser -------------------------------------------------------------------------------------------


def _eq19_derive(md: int, floor: Any, K: Any) -> Derivation:
    d, v = Derivation(), sp.Symbol("sigma2_theta", positive=True)
    d.say("Put all parameters at one point, theta_i = mu. Nothing of the prior is left in (19) but its normaliser, and the "
          "residuals do not depend on sigma2_theta, so exp(2 objective) is", K * (2 * sp.pi * v) ** md)  # fmt: skip
    path = d.say("Take a prior variance this small:", floor / (2 * sp.pi * (1 + floor) * (1 + K)))
    value = (K * (2 * sp.pi * v) ** md).subs(v, path)
    return d.conclude("There exp(2 objective) is less than K/(1 + K) times the floor, whatever the floor:", value)


def _eq19_oracle(md: int, floor: Any, K: Any) -> Any:
    """One coordinate after the other: each divides by the square of a density at its centre."""
    value, width = fraction(K), fraction(floor) / (1 + fraction(floor)) / (1 + fraction(K))
    for _ in range(md):
        value *= width
    return rational(value)


register(
    Claim(
        id="generative:eq19",
        title="The joint objective has a minimiser",
        place="Section 3.1.2, (19)",
        statement="(19) asks for the minimiser over parameters, mu, sigma_theta and sigma_x, so the objective must be "
        "bounded "
        "below. Judged: whatever the floor, exp(2 objective) is at least the floor at the point theta_i = mu, "
        "sigma2_theta = floor/(2 pi (1 + floor)(1 + K)).",
        latex=r"\operatorname*{arg\,min}_{\{\bm{\theta}_{i}\},\bm{\mu},\sigma_{\theta},\sigma_{x}}\frac{nm}{2}\log(2\pi"
        r"\sigma_{x}"
        r"^{2})+\sum_{i=1}^{m}\sum_{j=1}^{n}\frac{(Y_{ij}-\langle\bm{\theta}_{i},X_{ij}\rangle)^{2}}{2\sigma_{x}^{2}}+"
        r"\frac{md}"
        r"{2}\log(2\pi\sigma_{\bm{\theta}}^{2})+\sum_{i=1}^{m}\frac{\|\bm{\mu}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\bm{"
        r"\theta}}"
        r"^{2}}",
        kind="lower bound",
        variables=(MD, FLOOR, K_REST),
        examples=({"md": 2, "floor": "1/100", "K": 3},),
        printed=lambda floor: floor,
        relation=">=",
        derive=_eq19_derive,
        oracle=_eq19_oracle,
        corrected=lambda md, floor, K: K * (floor / ((1 + floor) * (1 + K))) ** md,
        corrected_text="the infimum of (19) is minus infinity; minimise the marginal likelihood instead "
        "(generative:eq19:marginal-floor), or add a penalty b/sigma2_theta (generative:eq19:penalised)",
        counterexample={"md": 1, "floor": 1, "K": 1},
        not_computed="a divergence; the objective itself is computed in generative:eq14",
        not_simulated="a divergence",
        unit="dimensionless",
        uses=("generative:eq14",),
        remark="Equal parameters with a vanishing prior variance: (md/2) log sigma2_theta falls without bound while every "
        "other "
        "term stays. It happens for every data set; where clients have no more samples than coefficients, sigma_x vanishes "
        "too. Algorithms 2 and 3 therefore have at best a local minimum to converge to (generative:eq19:local). (20), and "
        "(21) with the right sign, share the defect.",
    )
)

# --- its local minimum -----------------------------------------------------------------------------------------------

ALPHA2 = Variable("alpha2", "positive", "variance of a client's local estimate, sigma2_x/n", extreme=False)
GAP = Variable("gap", "nonnegative", "distance of the stationary variance from alpha2", extreme=False)
ABOVE = Variable("above", "choice", "1: the stationary variance is alpha2 + gap; 0: it is alpha2/(1 + gap)", choices=(1, 0))


def _stationary(alpha2: Any, gap: Any, above: int) -> Any:
    return alpha2 + gap if above else alpha2 / (1 + gap)


def _local_derive(alpha2: Any, gap: Any, above: int) -> Derivation:
    d = Derivation()
    v, s = sp.symbols("sigma2_theta S", positive=True)
    shrink = d.say("Client means y_i of n samples: for given mu and variances, (19) is least at theta_i - mu = this times "
                   "(y_i - mu), and at mu = mean of the y_i:", v / (v + alpha2))  # fmt: skip
    slope = d.say("With S the mean square of a coordinate of y_i - mean, the slope of (19) in sigma2_theta is md/2 times",
                  1 / v - shrink**2 * s / v**2)  # fmt: skip
    spread = d.say("It vanishes only at", sp.solve(sp.numer(sp.together(slope)), s)[0])
    return d.conclude("which, at a stationary variance, is", sp.factor(spread.subs(v, _stationary(alpha2, gap, above))))


def _local_oracle(alpha2: Any, gap: Any, above: int) -> Any:
    """Two clients at +-r whose profile slope is zero; the slope is linear in r^2 and found from two exact evaluations."""
    v0 = _stationary(alpha2, gap, above)

    def slope(square: Fraction) -> Fraction:
        def profile(v: Dual) -> Dual:
            # least value over theta of (y - theta)^2/alpha2 + theta^2/v is y^2/(alpha2 + v)
            return v.log() + square / (lift(alpha2) + v)

        return fraction(gradient(profile, [v0])[0])

    at0, at1 = slope(Fraction(0)), slope(Fraction(1))
    return rational(-at0 / (at1 - at0))


register(
    Claim(
        id="generative:eq19:local",
        title="The joint objective has a stationary point only where clients differ enough",
        place="Section 3.1.2, (19); not in the paper",
        statement="For client means of n samples, (19) has a stationary point only if the mean squared deviation S of a "
        "coordinate of the local estimates is at least 4 sigma2_x/n. Judged: S as a function of the stationary variance.",
        latex=r"S=\frac{(\sigma_\theta^2+\alpha^2)^2}{\sigma_\theta^2}\ge4\alpha^2,\qquad\alpha^2=\sigma_x^2/n",
        kind="lower bound",
        variables=(ALPHA2, GAP, ABOVE),
        examples=({"alpha2": 1, "gap": 1, "above": 1},),
        printed=lambda alpha2: 4 * alpha2,
        relation=">=",
        derive=_local_derive,
        oracle=_local_oracle,
        ours=True,
        not_computed="a statement on the printed objective, which estimators does not minimise",
        not_simulated="an identity for all data",
        unit="variance",
        uses=("generative:eq19",),
        remark="S is about sigma2_theta + alpha2, so unless the true sigma2_theta is above 3 alpha2 gradient descent on "
        "(19) "
        "has nowhere to stop and ends in the collapse. Where there is a stationary point it is too small: the marginal "
        "likelihood's estimate S - alpha2 exceeds it by alpha2 + alpha2^2/sigma2_theta.",
    )
)

# --- an objective that has one: the marginal likelihood --------------------------------------------------------------

X1, X2 = bounded("x1", "feature (of the first sample, or first feature)"), bounded("x2", "the second one")
Y1, Y2 = bounded("y1", "first response"), bounded("y2", "second response (unused with one sample)")
MU1, MU2 = bounded("mu1", "population centre, first coordinate"), bounded("mu2", "second coordinate (unused for d = 1)")
V_THETA = Variable("sigma2_theta", "positive", "variance of a coordinate of theta_i", extreme=False)
V_X = Variable("sigma2_x", "positive", "variance of a response", extreme=False)
SHAPE = Variable("shape", "choice", "samples x features of the client", choices=("2x1", "1x2"))
CLIENT = (X1, X2, Y1, Y2, MU1, MU2, V_THETA, V_X, SHAPE)
CLIENT_EXAMPLES = (
    {"x1": 1, "x2": 2, "y1": 1, "y2": 3, "mu1": 1, "mu2": 0, "sigma2_theta": 1, "sigma2_x": 2, "shape": "2x1"},
    {"x1": 1, "x2": 2, "y1": 1, "y2": 0, "mu1": 1, "mu2": 1, "sigma2_theta": 2, "sigma2_x": 1, "shape": "1x2"},
)


def _arrays(
    x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, shape: str
) -> tuple[list[list[Any]], list[Any], list[Any]]:
    return ([[x1], [x2]], [y1, y2], [mu1]) if shape == "2x1" else ([[x1, x2]], [y1], [mu1, mu2])


def _fisher_printed(
    x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any, shape: str
) -> tuple[Any, ...]:
    """Algorithm 2's gradients with the posterior mean for theta_i and the posterior covariance added."""
    rows, Y, mu = _arrays(x1, x2, y1, y2, mu1, mu2, shape)
    X, Y, mu = sp.Matrix(rows), sp.Matrix(Y), sp.Matrix(mu)
    n, d = X.shape
    C = (sp.eye(d) / sigma2_theta + X.T * X / sigma2_x).inv(method="ADJ")
    mean = C * (X.T * Y / sigma2_x + mu / sigma2_theta)
    off, rest = mean - mu, Y - X * mean
    spread = (off.T * off)[0] + C.trace()
    noise = (rest.T * rest)[0] + (X * C * X.T).trace()
    return (
        -off[0] / sigma2_theta,
        d / (2 * sigma2_theta) - spread / (2 * sigma2_theta**2),
        n / (2 * sigma2_x) - noise / (2 * sigma2_x**2),
    )


def _fisher_derive(
    x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any, shape: str
) -> Derivation:
    d = Derivation()
    rows, Y, mu = _arrays(x1, x2, y1, y2, mu1, mu2, shape)
    X, Y, mu = sp.Matrix(rows), sp.Matrix(Y), sp.Matrix(mu)
    S = d.say("Integrating theta_i out, Y_i ~ N(X mu, S) with S = sigma2_theta X X' + sigma2_x I:",
              sigma2_theta * X * X.T + sigma2_x * sp.eye(X.rows))  # fmt: skip
    r = Y - X * mu
    loss = d.say(
        "Minus the log-likelihood, but for its constant:", sp.log(S.det()) / 2 + (r.T * S.inv(method="ADJ") * r)[0] / 2
    )
    slopes = tuple(sp.diff(loss, v) for v in (mu1, sigma2_theta, sigma2_x))
    return d.conclude("Its slopes in mu_1, sigma2_theta, sigma2_x:", slopes)


def _fisher_oracle(
    x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_theta: Any, sigma2_x: Any, shape: str
) -> tuple[Any, ...]:
    """The likelihood by taking in one response after the other, differentiated in fractions."""
    rows, Y, mu = _arrays(x1, x2, y1, y2, mu1, mu2, shape)
    rows = [[fraction(c) for c in row] for row in rows]
    rest = [fraction(c) for c in mu[1:]]

    def loss(first: Dual, v: Dual, s: Dual) -> Dual:
        mean: list[Any] = [first, *map(lift, rest)]
        size = len(mean)
        cov = [[v if i == j else lift(0) for j in range(size)] for i in range(size)]
        total = lift(0)
        for x, y in zip(rows, Y, strict=True):
            Px = [sum((p * c for p, c in zip(line, x, strict=True)), lift(0)) for line in cov]
            spread = sum((p * c for p, c in zip(Px, x, strict=True)), s)
            surprise = lift(y) - sum((t * c for t, c in zip(mean, x, strict=True)), lift(0))
            total = total + (spread.log() + surprise * surprise / spread) * Fraction(1, 2)
            mean = [t + p * surprise / spread for t, p in zip(mean, Px, strict=True)]
            cov = [[c - p * q / spread for c, q in zip(line, Px, strict=True)] for line, p in zip(cov, Px, strict=True)]
        return total

    return gradient(loss, [mu1, sigma2_theta, sigma2_x])


def _float_client(x1: float, x2: float, y1: float, y2: float, mu1: float, mu2: float, shape: str) -> tuple[Any, Any, Any]:
    X, Y, mu = _arrays(x1, x2, y1, y2, mu1, mu2, shape)
    return [np.array(X, float)], [np.array(Y, float)], np.array(mu, float)


register(
    Claim(
        id="generative:eq19:fisher",
        title="Gradient of the marginal likelihood",
        place="Section 3.1.2; replaces (19) and lines 7-9 of Algorithm 2; not in the paper",
        statement="With parameters integrated out, minus the log-likelihood of one client's responses has these slopes in "
        "mu_1, "
        "sigma2_theta and sigma2_x: Algorithm 2's, with the posterior mean for theta_i and the posterior covariance C added "
        "to both squares.",
        latex=r"\frac{\mu-\hat\theta_i}{\sigma_\theta^2},\quad\frac{d}{2\sigma_\theta^2}-\frac{\|\mu-\hat\theta_i\|^2+"
        r"\mathrm{Tr}"
        r"\,C_i}{2\sigma_\theta^4},\quad\frac{n}{2\sigma_x^2}-\frac{\|Y_i-X_i\hat\theta_i\|^2+\mathrm{Tr}\,X_iC_iX_i^T}{2"
        r"\sigma_x^4}",
        kind="identity",
        variables=CLIENT,
        examples=CLIENT_EXAMPLES,
        printed=_fisher_printed,
        derive=_fisher_derive,
        oracle=_fisher_oracle,
        ours=True,
        not_computed="slopes may vanish, so relative digits mean nothing; compared with computed values in "
        "tests/test_priors.py",
        not_simulated="an identity for all data; its mean over data is simulated in generative:eq19:calibrated",
        entries=("slope in mu_1", "slope in sigma2_theta", "slope in sigma2_x"),
        unit="mixed",
        uses=("generative:thm6", "generative:eq14"),
        remark="The correction is one number per client and square, Tr C, which every client can compute from its own data. "
        "Judged for two samples of one feature and one sample of two features. At the true values the slopes "
        "have mean zero (generative:eq19:calibrated); Algorithm 2's have not (generative:alg2:drift).",
    )
)


def _calibrated_derive(x1: Any, x2: Any, sigma2_theta: Any, sigma2_x: Any, shape: str) -> Derivation:
    d = Derivation()
    X = sp.Matrix([[x1], [x2]]) if shape == "2x1" else sp.Matrix([[x1, x2]])
    S = d.say("Y - X mu has the covariance S =", sigma2_theta * X * X.T + sigma2_x * sp.eye(X.rows))
    gain = d.say("theta_hat - mu = K (Y - X mu) with K =", (sigma2_theta * X.T * S.inv(method="ADJ")).applyfunc(sp.cancel))
    C = d.say("C = sigma2_theta (I - K X):", (sigma2_theta * (sp.eye(X.cols) - gain * X)).applyfunc(sp.cancel))
    rest = sp.eye(X.rows) - X * gain
    spread = (gain * S * gain.T).trace() + C.trace()
    noise = (rest * S * rest.T).trace() + (X * C * X.T).trace()
    return d.conclude("Means of both corrected squares:", (sp.cancel(spread), sp.cancel(noise)))


def _calibrated_oracle(x1: Any, x2: Any, sigma2_theta: Any, sigma2_x: Any, shape: str) -> tuple[Any, Any]:
    """Unit deviations of every coordinate and every noise through normal equations, in fractions, plus posterior spread."""
    v, s = fraction(sigma2_theta), fraction(sigma2_x)
    rows = [[fraction(x1)], [fraction(x2)]] if shape == "2x1" else [[fraction(x1), fraction(x2)]]
    n, d = len(rows), len(rows[0])
    normal = [[sum(r[i] * r[j] for r in rows) / s + (1 / v if i == j else 0) for j in range(d)] for i in range(d)]

    def fitted(Y: list[Any]) -> list[Any]:
        return solve(normal, [sum(r[i] * y for r, y in zip(rows, Y, strict=True)) / s for i in range(d)])

    spread = noise = Fraction(0)
    responses = [([r[i] for r in rows], v) for i in range(d)]
    responses += [([Fraction(int(i == j)) for j in range(n)], s) for i in range(n)]
    for Y, variance in responses:
        t = fitted(Y)
        spread += variance * sum(c * c for c in t)
        rest = [y - sum(a * b for a, b in zip(r, t, strict=True)) for r, y in zip(rows, Y, strict=True)]
        noise += variance * sum(c * c for c in rest)
    columns = [solve(normal, [Fraction(int(i == j)) for j in range(d)]) for i in range(d)]  # the posterior covariance
    spread += sum((columns[i][i] for i in range(d)), Fraction(0))
    noise += sum((r[i] * columns[i][j] * r[j] for r in rows for i in range(d) for j in range(d)), Fraction(0))
    return rational(spread), rational(noise)


def _calibrated_simulate(
    expected: tuple[float, float], x1: float, x2: float, sigma2_theta: float, sigma2_x: float, shape: str
) -> simulation.Simulation:
    """Both squares from raw parameters and raw responses (mu = 0)."""
    X = np.array([[x1], [x2]] if shape == "2x1" else [[x1, x2]])
    n, d = X.shape
    C = np.linalg.inv(np.eye(d) / sigma2_theta + X.T @ X / sigma2_x)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = np.sqrt(sigma2_theta) * gen.standard_normal((reps, d))
        Y = theta @ X.T + np.sqrt(sigma2_x) * gen.standard_normal((reps, n))
        mean = Y @ X @ C / sigma2_x
        spread = np.sum(mean**2, axis=1) + np.trace(C)
        noise = np.sum((Y - mean @ X.T) ** 2, axis=1) + np.trace(X @ C @ X.T)
        return np.column_stack([spread, noise])

    return simulation.sample_means(draw, expected, labels=("spread", "noise"))


register(
    Claim(
        id="generative:eq19:calibrated",
        title="Corrected squares have the right means",
        place="Section 3.1.2; replaces lines 8-9 of Algorithm 2; not in the paper",
        statement="At the true mu, sigma2_theta and sigma2_x, |theta_hat - mu|^2 + Tr C has the mean d sigma2_theta, and "
        "|Y - X theta_hat|^2 + Tr X C X' has the mean n sigma2_x, so the steps of generative:eq19:fisher rest there.",
        latex=r"\mathbb E\|\mu-\hat\theta_i\|^2+\mathrm{Tr}\,C_i=d\sigma_\theta^2,\quad\mathbb E\|Y_i-X_i\hat\theta_i\|^2+"
        r"\mathrm{Tr}\,X_iC_iX_i^T=n\sigma_x^2",
        kind="identity",
        variables=(X1, X2, V_THETA, V_X, SHAPE),
        examples=(
            {"x1": 1, "x2": 2, "sigma2_theta": 1, "sigma2_x": 2, "shape": "2x1"},
            {"x1": 1, "x2": 1, "sigma2_theta": 2, "sigma2_x": 1, "shape": "1x2"},
        ),
        printed=lambda sigma2_theta, sigma2_x, shape: (
            (1 if shape == "2x1" else 2) * sigma2_theta,
            (2 if shape == "2x1" else 1) * sigma2_x,
        ),
        derive=_calibrated_derive,
        oracle=_calibrated_oracle,
        ours=True,
        not_computed="the steps themselves are computed in generative:eq19:em",
        simulate=_calibrated_simulate,
        entries=("spread", "noise"),
        unit="variance",
        uses=("generative:eq19:fisher", "generative:thm6"),
    )
)

# --- expectation-maximisation ----------------------------------------------------------------------------------------

XS = bounded("x", "feature of each client's sample", (1, 2))
YS = bounded("y", "response of each client", (1, 2))
SCALAR = (XS, YS, MU1, V_THETA, V_X)


def _em_printed(x: list[Any], y: list[Any], mu1: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, ...]:
    m = sp.Integer(len(x))
    means, spread, noise = [], [], []
    for a, b in zip(x, y, strict=True):
        C = 1 / (1 / sigma2_theta + a**2 / sigma2_x)
        t = C * (a * b / sigma2_x + mu1 / sigma2_theta)
        means.append(t)
        spread.append((t - mu1) ** 2 + C)
        noise.append((b - a * t) ** 2 + a**2 * C)
    return sum(means) / m, sum(spread) / m, sum(noise) / m


def _em_derive(x: list[Any], y: list[Any], mu1: Any, sigma2_theta: Any, sigma2_x: Any) -> Derivation:
    d, m = Derivation(), len(x)
    loss = sum(
        sp.log(sigma2_x + sigma2_theta * a**2) / 2 + (b - a * mu1) ** 2 / (2 * (sigma2_x + sigma2_theta * a**2))
        for a, b in zip(x, y, strict=True)
    )
    d.say("Minus the log-likelihood of responses with their parameters integrated out (d = n = 1):", loss)
    rates = d.say("Gradient steps with these rates for mu, sigma2_theta, sigma2_x:",
                  (sigma2_theta / m, 2 * sigma2_theta**2 / m, 2 * sigma2_x**2 / m))  # fmt: skip
    old = (mu1, sigma2_theta, sigma2_x)
    return d.conclude("lead to", tuple(v - rate * sp.diff(loss, v) for v, rate in zip(old, rates, strict=True)))


def _em_oracle(x: list[Any], y: list[Any], mu1: Any, sigma2_theta: Any, sigma2_x: Any) -> tuple[Any, ...]:
    """Posterior moments from normal equations in fractions, averaged."""
    a1 = [fraction(v) for v in x]
    m, (v, s) = len(a1), (fraction(sigma2_theta), fraction(sigma2_x))
    sums = [Fraction(0)] * 3
    for a, b in zip(a1, map(fraction, y), strict=True):
        gain = solve([[a * a * v + s]], [a * v])[0]
        t = fraction(mu1) + gain * (b - a * fraction(mu1))
        C = (1 - gain * a) ** 2 * v + gain**2 * s  # variance of the error, in Joseph's form
        sums = [sums[0] + t, sums[1] + (t - fraction(mu1)) ** 2 + C, sums[2] + (b - a * t) ** 2 + a * a * C]
    return tuple(rational(total / m) for total in sums)


register(
    Claim(
        id="generative:eq19:em",
        title="Expectation-maximisation is a gradient step that stays in the domain",
        place="Section 3.1.2; replaces Algorithm 2; not in the paper",
        statement="Averages over clients of the posterior mean, of |theta_hat - mu|^2 + Tr C and of |Y - X theta_hat|^2 + "
        "Tr X C X' "
        "(over d and n) are gradient steps on the marginal likelihood with rates sigma2_theta/m, 2 sigma2_theta^2/(md) and "
        "2 sigma2_x^2/(nm). Judged for d = n = 1.",
        latex=r"\mu\leftarrow\frac1m\sum_i\hat\theta_i,\quad\sigma_\theta^2\leftarrow\frac1{md}\sum_i\|\mu-\hat\theta_i"
        r"\|^2+\mathrm"
        r"{Tr}\,C_i,\quad\sigma_x^2\leftarrow\frac1{nm}\sum_i\|Y_i-X_i\hat\theta_i\|^2+\mathrm{Tr}\,X_iC_iX_i^T",
        kind="algorithm line",
        variables=SCALAR,
        examples=({"x": [1, 2], "y": [1, 3], "mu1": 1, "sigma2_theta": 1, "sigma2_x": 2},),
        printed=_em_printed,
        derive=_em_derive,
        oracle=_em_oracle,
        ours=True,
        computed=lambda x, y, mu1, sigma2_theta, sigma2_x: np.concatenate(
            [np.atleast_1d(v) for v in computed.em_step([[[a]] for a in x], [[b] for b in y], mu1, sigma2_theta, sigma2_x)]
        ),
        not_simulated="an identity for all data",
        entries=("mu", "sigma2_theta", "sigma2_x"),
        unit="units of theta; variances",
        uses=("generative:eq19:fisher",),
        remark="Both variances are averages of squares, so no rate has to be chosen and no step leaves the domain "
        "(Algorithm 2's "
        "can: generative:alg2:positive).",
    )
)

# --- lower bounds ----------------------------------------------------------------------------------------------------

B_HYPER = Variable("b", "positive", "strength of the penalty b/sigma2_theta", extreme=False)
Q_SUM = Variable("Q", "nonnegative", "sum of squared distances of the parameters to mu", extreme=False)
MD123 = Variable("md", "choice", "number of coordinates of all clients, m times d", choices=(1, 2, 3))
TAIL = Variable(
    "tail", "nonnegative", "what the exponential series adds beyond the terms that are written out", extreme=False
)


def _series(u: Any, order: int, tail: Any) -> Any:
    """exp(u) as the terms of its series up to an order and the rest."""
    return sum(u**k / sp.factorial(k) for k in range(order + 1)) + tail


def _horner(u: Fraction, order: int, tail: Any) -> Fraction:
    """The same from the inside out, in fractions."""
    value = Fraction(1)
    for k in range(order, 0, -1):
        value = 1 + value * u / k
    return value + fraction(tail)


def _penalised_derive(md: int, sigma2_theta: Any, Q: Any, b: Any, tail: Any) -> Derivation:
    d = Derivation()
    u = d.say("Terms of (19) in sigma2_theta, with the penalty, doubled, are md log(2 pi sigma2_theta) + u with u =",
              (Q + 2 * b) / sigma2_theta)  # fmt: skip
    d.say("u is positive, so exp(u) is its series up to order md and something positive (tail).")
    return d.conclude("Their exponential over (2 pi)^(md):", sigma2_theta**md * _series(u, md, tail))


def _penalised_oracle(md: int, sigma2_theta: Any, Q: Any, b: Any, tail: Any) -> Any:
    v = fraction(sigma2_theta)
    value = _horner((fraction(Q) + 2 * fraction(b)) / v, md, tail)
    for _ in range(md):
        value *= v
    return rational(value)


register(
    Claim(
        id="generative:eq19:penalised",
        title="A penalty that gives the joint objective a minimiser",
        place="Section 3.1.2; repairs (19); not in the paper",
        statement="With b/sigma2_theta added to (19), the terms in sigma2_theta are bounded below whatever the parameters: "
        "exp(2 terms)/(2 pi)^(md) is at least (2b)^(md)/(md)!, for every b > 0. Judged with exp(u) written as the terms of "
        "its "
        "series up to order md and a positive rest, `tail`.",
        latex=r"\frac{md}2\log(2\pi\sigma_\theta^2)+\frac{\sum_i\|\mu-\theta_i\|^2+2b}{2\sigma_\theta^2}\ge\frac12\log"
        r"\frac{(4\pi b)"
        r"^{md}}{(md)!}",
        kind="lower bound",
        variables=(MD123, V_THETA, Q_SUM, B_HYPER, TAIL),
        examples=({"md": 2, "sigma2_theta": 1, "Q": 1, "b": 1, "tail": 1},),
        printed=lambda md, b: (2 * b) ** md / sp.factorial(md),
        relation=">=",
        derive=_penalised_derive,
        oracle=_penalised_oracle,
        ours=True,
        not_computed="a bound on an objective; only its existence matters",
        not_simulated="a bound for all values",
        unit="dimensionless",
        uses=("generative:eq19",),
        remark="The term of order md alone gives the bound. The penalty is an inverse-gamma prior on sigma2_theta; "
        "sigma2_x needs "
        "the same where clients interpolate their responses. Given the rest, the minimiser is generative:eq19:variance.",
    )
)

QS = Variable("squares", "nonnegative", "squared distances |mu - theta_i|^2 of the clients", lengths=(1, 3), extreme=False)
DIM = Variable("d", "size", "dimension", extreme=False)
B0 = Variable("b", "nonnegative", "strength of the penalty b/sigma2_theta (0: none)", extreme=False)


def _variance_derive(squares: list[Any], d: Any, b: Any) -> Derivation:
    proof, v = Derivation(), sp.Symbol("sigma2_theta", positive=True)
    objective = len(squares) * d * sp.log(v) / 2 + (sum(squares) + 2 * b) / (2 * v)
    slope = proof.say("Slope of (19) with the penalty in sigma2_theta, times 2 sigma2_theta^2:",
                      sp.expand(2 * v**2 * sp.diff(objective, v)))  # fmt: skip
    return proof.conclude("It grows in sigma2_theta and vanishes only at", sp.solve(slope, v)[0])


def _variance_oracle(squares: list[Any], d: Any, b: Any) -> Any:
    """Mean square of concrete coordinates: each client's square spread over d equal ones, and the penalty's 2b."""
    per = [fraction(q) / int(d) for q in squares for _ in range(int(d))]
    return rational((sum(per) + 2 * fraction(b)) / len(per))


register(
    Claim(
        id="generative:eq19:variance",
        title="Best prior variance for given parameters",
        place="Section 3.1.2, (19); not in the paper",
        statement="With the parameters given, (19) plus b/sigma2_theta is least over sigma2_theta at this value.",
        latex=r"\sigma_\theta^2=\frac{2b+\sum_{i=1}^m\|\mu-\theta_i\|^2}{md}",
        kind="identity",
        variables=(QS, DIM, B0),
        examples=({"squares": [1, 2, 3], "d": 2, "b": 1},),
        printed=lambda squares, d, b: (2 * b + sum(squares)) / (len(squares) * d),
        derive=_variance_derive,
        oracle=_variance_oracle,
        ours=True,
        computed=lambda squares, d, b: computed.best_variance(
            np.sqrt(np.array(squares)[:, None] / d).repeat(int(d), 1), 0.0, b
        ),
        not_simulated="an identity for all parameters",
        unit="variance",
        uses=("generative:eq19:penalised",),
    )
)

RSS = Variable("rss", "positive", "squared length of the responses' part outside the client's column space", extreme=False)
FIT = Variable("fit", "nonnegative", "squared distance of the rest of the responses to X mu", extreme=False)
GRAM = Variable("gram", "nonnegative", "X'X of the client (d = 1)", extreme=False)
V_ZERO = Variable("sigma2_theta", "nonnegative", "variance of theta_i", extreme=False)
N23 = Variable("n", "choice", "samples of the client", choices=(2, 3))


def _floor_derive(n: int, rss: Any, fit: Any, gram: Any, sigma2_theta: Any, sigma2_x: Any, tail: Any) -> Derivation:
    d = Derivation()
    across = d.say(
        "Responses of one client with one feature: along the feature they have the variance", sigma2_x + sigma2_theta * gram
    )
    u = d.say("and sigma2_x in each of the n - 1 directions across it, where rss lies; their standardised square is",
              rss / sigma2_x + fit / across)  # fmt: skip
    d.say("exp(2 loss)/(2 pi)^n is the determinant times exp of it, a series of positive terms.")
    return d.conclude("With the terms up to order n written out:", sigma2_x ** (n - 1) * across * _series(u, n, tail))


def _floor_oracle(n: int, rss: Any, fit: Any, gram: Any, sigma2_theta: Any, sigma2_x: Any, tail: Any) -> Any:
    """Rotated to the feature: covariance matrix sigma2_theta x x' + sigma2_x I with x = sqrt(gram) e_1, entry by entry."""
    lengths = [fraction(fit), fraction(rss), Fraction(0)][:n]  # squared responses along and across
    variances = [fraction(sigma2_theta) * (fraction(gram) if i == 0 else 0) + fraction(sigma2_x) for i in range(n)]
    u = sum((q / v for q, v in zip(lengths, variances, strict=True)), Fraction(0))
    value = _horner(u, n, tail)
    for v in variances:
        value *= v
    return rational(value)


register(
    Claim(
        id="generative:eq19:marginal-floor",
        title="The marginal likelihood is bounded",
        place="Section 3.1.2; replaces (19); not in the paper",
        statement="With the parameters integrated out, exp(2 loss)/(2 pi)^n of a client is at least rss^n/n! for all mu, "
        "sigma2_theta "
        "and sigma2_x, with rss the squared length of its responses' part outside its column space. Judged for one feature, "
        "with exp written as the terms of its series up to order n and a positive rest, `tail`.",
        latex=r"\det(\sigma_\theta^2XX^T+\sigma_x^2I)\,e^{(Y-X\mu)^T(\sigma_\theta^2XX^T+\sigma_x^2I)^{-1}(Y-X\mu)}\ge"
        r"\frac{\mathrm{rss}^n}{n!}",
        kind="lower bound",
        variables=(N23, RSS, FIT, GRAM, V_ZERO, V_X, TAIL),
        examples=({"n": 2, "rss": 1, "fit": 1, "gram": 1, "sigma2_theta": 1, "sigma2_x": 1, "tail": 1},),
        printed=lambda n, rss: rss**n / sp.factorial(n),
        relation=">=",
        derive=_floor_derive,
        oracle=_floor_oracle,
        ours=True,
        not_computed="a bound on an objective; only its existence matters",
        not_simulated="a bound for all values",
        unit="response variance to the n-th power",
        uses=("generative:eq19:fisher",),
        remark="Clients are independent, so the losses and their bounds add up. As the loss also grows without bound as "
        "sigma2_theta, sigma2_x or mu (where some X'X > 0) do, or as sigma2_x vanishes, a minimiser exists; it may have "
        "sigma2_theta = 0. Where all clients interpolate their responses (n <= d), rss = 0 "
        "and sigma2_x must be known.",
    )
)

# --- (20): the sign of the likelihood --------------------------------------------------------------------------------

E1 = Variable("z", "real", "<theta_i, X_ij> of each sample", lengths=(1, 2), within=(-3, 3))
LABELS = Variable("labels", "choice", "the labels of the samples", choices=("01", "10"))
Q_BOX = Variable("Q", "nonnegative", "squared distance |mu - theta_i|^2 of the client", within=(0, 4))
V_SMALL = Variable("sigma2_theta", "positive", "prior variance", within=("1/4", 4))


def _eq20(sign: int):
    def objective(z: list[Any], labels: str, Q: Any, sigma2_theta: Any) -> Any:
        fit = sp.Integer(0)
        for t, label in zip(z, labels, strict=False):
            y = int(label)
            fit += sign * (y * sp.log(1 / (1 + sp.exp(-t))) + (1 - y) * sp.log(1 / (1 + sp.exp(t))))
        return fit + sp.log(2 * sp.pi * sigma2_theta) / 2 + Q / (2 * sigma2_theta)

    return objective


def _eq20_derive(z: list[Any], labels: str, Q: Any, sigma2_theta: Any) -> Derivation:
    d = Derivation()
    total = sp.Integer(0)
    for t, label in zip(z, labels, strict=False):
        sign = -1 if label == "1" else 1
        total -= d.say(f"Log-likelihood of a {label}:", sp.log(1 / (1 + sp.exp(sign * t))))
    prior = d.say("Minus the log-density of the prior (generative:eq12:gauss, m = d = 1):",
                  sp.log(2 * sp.pi * sigma2_theta) / 2 + Q / (2 * sigma2_theta))  # fmt: skip
    return d.conclude("(12) minimises minus the log-likelihood plus that:", total + prior)


def _eq20_oracle(z: list[Any], labels: str, Q: Any, sigma2_theta: Any) -> Any:
    """Minus the logarithm of the joint density, from odds and the normal density."""
    with mp.workdps(DIGITS + 10):
        density = mp.npdf(mp.sqrt(number(Q)), 0, mp.sqrt(number(sigma2_theta)))
        for t, label in zip(z, labels, strict=False):
            odds = mp.exp(number(t))
            density *= (odds if label == "1" else 1) / (1 + odds)
        return precise(-mp.log(density))


def _eq20_computed(z: list[float], labels: str, Q: float, sigma2_theta: float) -> float:
    y = [int(label) for label in labels[: len(z)]]
    fit = computed.logistic_loss(np.reshape(z, (-1, 1)), y, [1.0])[0]
    return fit + computed.gaussian_penalty([[np.sqrt(Q)]], 0.0, sigma2_theta)[0]


register(
    Claim(
        id="generative:eq20",
        title="Objective of personalised logistic regression",
        place="Section 3.2, (20)",
        statement="The objective (12) for logistic responses and a Gaussian population. Judged for one client with d = 1.",
        latex=r"\operatorname*{arg\,min}_{\{\bm{\theta}_{i}\},\bm{\mu},\sigma_{\theta}}\sum_{i=1}^{m}\sum_{j=1}^{n}"
        r"\left[Y_{ij}\log"
        r"\left(\frac{1}{1+e^{-\langle\bm{\theta}_{i},X_{ij}\rangle}}\right)+(1-Y_{ij})\log\left(\frac{1}{1+e^{\langle\bm{"
        r"\theta}"
        r"_{i},X_{ij}\rangle}}\right)\right]+\frac{md}{2}\log(2\pi\sigma_{\theta}^{2})+\sum_{i=1}^{m}\frac{\|\bm{\mu}-\bm{"
        r"\theta}_"
        r"{i}\|_{2}^{2}}{2\sigma_{\theta}^{2}}",
        kind="identity",
        variables=(E1, LABELS, Q_BOX, V_SMALL),
        examples=({"z": [1, -1], "labels": "01", "Q": 1, "sigma2_theta": 1},),
        printed=_eq20(1),
        derive=_eq20_derive,
        oracle=_eq20_oracle,
        corrected=_eq20(-1),
        corrected_text="a minus sign before the sum over samples",
        slip="the minus sign of (12) before the log-likelihood is lost; as printed the minimiser makes the labels unlikely",
        counterexample={"z": [0], "labels": "10", "Q": 0, "sigma2_theta": 1},
        computed=_eq20_computed,
        not_simulated="an identity of functions of the parameters; nothing is random",
        unit="nats",
        uses=("generative:eq12:gauss", "generative:eq12:logistic"),
        remark="Line 6 of Algorithm 3 descends the cross-entropy, so it has the right sign here. Like (19), the corrected "
        "objective has no minimiser over sigma_theta (generative:eq19).",
    )
)

# --- (21) ------------------------------------------------------------------------------------------------------------

Z1, Z2 = bounded("z1", "<theta_1, X_1> of the first client's sample"), bounded("z2", "of the second client's (d = 1)")


def _likelihood(z1: Any, z2: Any, d: int) -> Any:
    """Likelihood of a label 1 with log-odds z1 and, for a second client, of a label 0 with log-odds z2."""
    first = 1 / (1 + sp.exp(-z1))
    return first / (1 + sp.exp(z2)) if d == 1 else first


def _eq21_oracle(
    thetas: Any, d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any, z1: Any, z2: Any
) -> Any:
    with mp.workdps(DIGITS + 10):
        odds1, odds2 = mp.exp(number(z1)), mp.exp(number(z2))
        likelihood = odds1 / (1 + odds1) * (1 / (1 + odds2) if d == 1 else 1)
        return precise(likelihood * mp.mpf(str(mixture_oracle(thetas, d, p, mu11, mu12, mu21, mu22, s1, s2))))


def _eq21_derive(z1: Any, z2: Any, d: int, **prior: Any) -> Derivation:
    proof = Derivation()
    fit = proof.say("Likelihood of the labels (generative:eq12:logistic):", _likelihood(z1, z2, d))
    return proof.conclude(
        "(12) is minus the logarithm of its product with the clients' prior density (generative:eq12:mixture), so "
        "exp(-objective) is",
        fit * mixture_corrected(d=d, **prior),
    )


def _eq21_computed(
    thetas: Any,
    d: int,
    p: float,
    mu11: Any,
    mu12: Any,
    mu21: Any,
    mu22: Any,
    s1: float,
    s2: float,
    z1: float,
    z2: float,
) -> float:
    prior = computed.mixture_penalty(
        np.reshape(thetas, (-1, d)), [p, 1 - p], [[mu11, mu12][:d], [mu21, mu22][:d]], [s1**2, s2**2]
    )
    count = 2 if d == 1 else 1
    return np.exp(-prior[0] - computed.logistic_loss(np.reshape([z1, z2][:count], (-1, 1)), [1, 0][:count], [1.0])[0])


register(
    Claim(
        id="generative:eq21",
        title="Objective of logistic regression with a mixture prior",
        place="Section 3.3, (21); the regulariser also in (22)",
        statement="The objective (12) for logistic responses and a Gaussian-mixture population. Judged for one label per "
        "client: a 1 "
        "for the first, a 0 for the second; as exp(-objective).",
        latex=r"\sum_{i=1}^{m}\sum_{j=1}^{n}\left[Y_{ij}\log\left(\frac{1}{1+e^{-\langle\bm{\theta}_{i},X_{ij}\rangle}}"
        r"\right)+(1-"
        r"Y_{ij})\log\left(\frac{1}{1+e^{\langle\bm{\theta}_{i},X_{ij}\rangle}}\right)\right]+\sum_{i=1}^{m}\log("
        r"\sum_{l=1}^{k}"
        r"\exp(\frac{\|\bm{\mu}_{l}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\theta,l}^{2}})/((2\pi\sigma_{\theta,l})^{md/2}))",
        kind="identity",
        variables=(*MIXTURE, Z1, Z2),
        examples=tuple({**e, "z1": 1, "z2": -1} for e in MIXTURE_EXAMPLES),
        printed=lambda z1, z2, d, **prior: mixture_printed(d=d, **prior) / _likelihood(z1, z2, d),
        derive=_eq21_derive,
        oracle=_eq21_oracle,
        corrected=lambda z1, z2, d, **prior: _likelihood(z1, z2, d) * mixture_corrected(d=d, **prior),
        corrected_text="minus the sum over samples, minus sum_i log(sum_l p_l exp(-||mu_l - theta_i||^2/(2 "
        "sigma_theta,l^2))/(2 pi "
        "sigma_theta,l^2)^(d/2))",
        counterexample={"thetas": [0, 0], "d": 1, "p": "1/2", "mu11": 0, "mu12": 0, "mu21": 0, "mu22": 0, "s1": 1, "s2": 1,
                        "z1": 0, "z2": 0},
        computed=_eq21_computed,
        not_simulated="an identity of functions of the parameters; nothing is random",
        unit="density",
        uses=("generative:eq12:mixture", "generative:eq12:logistic"),
        remark="The slips of (20) and of case 3 together; (22) has those of case 3. The corrected objective is unbounded "
        "below "
        "too: a component centred on one client's parameters may shrink (as in generative:eq19).",
    )
)  # fmt: skip

__all__ = ["CLIENT"]
