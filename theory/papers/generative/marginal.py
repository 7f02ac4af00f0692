"""The objective that replaces (19): the responses' likelihood with the parameters integrated out.

Belongs here: its gradient, the steps of expectation-maximisation, why it has a minimiser. Does not belong here: (19)
itself (objectives.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import priors as computed
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.dual import Dual, gradient, lift
from theory.papers.generative.objectives import TAIL, V_THETA, V_X, horner, series
from theory.papers.generative.priors import free

# --- gradient --------------------------------------------------------------------------------------------------------

X1, X2 = free("x1", "feature (of the first sample, or first feature)"), free("x2", "the second one")
Y1, Y2 = free("y1", "first response"), free("y2", "second response (unused with one sample)")
MU1, MU2 = free("mu1", "population centre, first coordinate"), free("mu2", "second coordinate (unused for d = 1)")
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
        statement="""With parameters integrated out, minus the log-likelihood of one client's responses has these slopes in
            mu_1, sigma2_theta and sigma2_x: Algorithm 2's, with the posterior mean for theta_i and the posterior
            covariance C added to both squares.""",
        latex=r"""\frac{\mu-\hat\theta_i}{\sigma_\theta^2},\quad\frac{d}{2\sigma_\theta^2}-%
            \frac{\|\mu-\hat\theta_i\|^2+\mathrm{Tr}\,C_i}{2\sigma_\theta^4},\quad\frac{n}{2\sigma_x^2}-%
            \frac{\|Y_i-X_i\hat\theta_i\|^2+\mathrm{Tr}\,X_iC_iX_i^T}{2\sigma_x^4}""",
        kind="identity",
        variables=CLIENT,
        examples=CLIENT_EXAMPLES,
        printed=_fisher_printed,
        derive=_fisher_derive,
        oracle=_fisher_oracle,
        ours=True,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.marginal_objective"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("slope in mu_1", "slope in sigma2_theta", "slope in sigma2_x"),
        unit="mixed",
        related=("generative:thm6", "generative:eq14"),
        remark="""The correction is one number per client and square, Tr C, which every client can compute from its own data.
            Judged for two samples of one feature and one sample of two features. At the true values the slopes have mean
            zero (generative:eq19:calibrated); Algorithm 2's have not (generative:alg2:drift).""",
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


def _calibrated_simulate(x1: float, x2: float, sigma2_theta: float, sigma2_x: float, shape: str) -> simulation.Simulation:
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

    return simulation.sample_means(draw, labels=("spread", "noise"))


register(
    Claim(
        id="generative:eq19:calibrated",
        title="Corrected squares have the right means",
        place="Section 3.1.2; replaces lines 8-9 of Algorithm 2; not in the paper",
        statement="""At the true mu, sigma2_theta and sigma2_x, |theta_hat - mu|^2 + Tr C has the mean d sigma2_theta, and |Y
            - X theta_hat|^2 + Tr X C X' has the mean n sigma2_x, so the steps of generative:eq19:fisher rest there.""",
        latex=r"""\mathbb E\|\mu-\hat\theta_i\|^2+\mathrm{Tr}\,C_i=d\sigma_\theta^2,\quad\mathbb E\|Y_i-X_i\hat\theta_i\|^2+%
            \mathrm{Tr}\,X_iC_iX_i^T=n\sigma_x^2""",
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
        not_computed=Exempt(kind="few"),
        assumes={"given": "design", "law": "gaussian"},
        simulate=_calibrated_simulate,
        entries=("spread", "noise"),
        unit="variance",
        related=("generative:eq19:fisher", "generative:thm6"),
    )
)

# --- expectation-maximisation ----------------------------------------------------------------------------------------

XS = free("x", "feature of each client's sample", (1, 2))
YS = free("y", "response of each client", (1, 2))
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


def _em_computed(x: list[float], y: list[float], mu1: float, sigma2_theta: float, sigma2_x: float) -> np.ndarray:
    step = computed.em_step([[[a]] for a in x], [[b] for b in y], mu1, sigma2_theta, sigma2_x)
    return np.concatenate([np.atleast_1d(v) for v in step])


register(
    Claim(
        id="generative:eq19:em",
        title="Expectation-maximisation is a gradient step that stays in the domain",
        place="Section 3.1.2; replaces Algorithm 2; not in the paper",
        statement="""Averages over clients of the posterior mean, of |theta_hat - mu|^2 + Tr C and of |Y - X theta_hat|^2 +
            Tr X C X' (over d and n) are gradient steps on the marginal likelihood with rates sigma2_theta/m, 2
            sigma2_theta^2/(md) and 2 sigma2_x^2/(nm). Judged for d = n = 1.""",
        latex=r"""\mu\leftarrow\frac1m\sum_i\hat\theta_i,\quad\sigma_\theta^2\leftarrow\frac1{md}\sum_i\|\mu-\hat\theta_i%
            \|^2+\mathrm{Tr}\,C_i,\quad\sigma_x^2\leftarrow\frac1{nm}\sum_i\|Y_i-X_i\hat\theta_i\|^2+\mathrm{Tr}\,%
            X_iC_iX_i^T""",
        kind="algorithm line",
        variables=SCALAR,
        examples=({"x": [1, 2], "y": [1, 3], "mu1": 1, "sigma2_theta": 1, "sigma2_x": 2},),
        printed=_em_printed,
        derive=_em_derive,
        oracle=_em_oracle,
        ours=True,
        computed=_em_computed,
        not_simulated=Exempt(kind="deterministic"),
        entries=("mu", "sigma2_theta", "sigma2_x"),
        unit="units of theta; variances",
        related=("generative:eq19:fisher",),
        remark="""Both variances are averages of squares, so no rate has to be chosen and no step leaves the domain
            (Algorithm 2's can: generative:alg2:positive).""",
    )
)

# --- a lower bound ---------------------------------------------------------------------------------------------------

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
    return d.conclude("With the terms up to order n written out:", sigma2_x ** (n - 1) * across * series(u, n, tail))


def _floor_oracle(n: int, rss: Any, fit: Any, gram: Any, sigma2_theta: Any, sigma2_x: Any, tail: Any) -> Any:
    """Rotated to the feature: covariance matrix sigma2_theta x x' + sigma2_x I with x = sqrt(gram) e_1, entry by entry."""
    lengths = [fraction(fit), fraction(rss), Fraction(0)][:n]  # squared responses along and across
    variances = [fraction(sigma2_theta) * (fraction(gram) if i == 0 else 0) + fraction(sigma2_x) for i in range(n)]
    u = sum((q / v for q, v in zip(lengths, variances, strict=True)), Fraction(0))
    value = horner(u, n, tail)
    for v in variances:
        value *= v
    return rational(value)


register(
    Claim(
        id="generative:eq19:marginal-floor",
        title="The marginal likelihood is bounded",
        place="Section 3.1.2; replaces (19); not in the paper",
        statement="""With the parameters integrated out, exp(2 loss)/(2 pi)^n of a client is at least rss^n/n! for all mu,
            sigma2_theta and sigma2_x, with rss the squared length of its responses' part outside its column space.
            Judged for one feature, with exp written as the terms of its series up to order n and a positive rest,
            `tail`.""",
        latex=r"""\det(\sigma_\theta^2XX^T+\sigma_x^2I)\,e^{(Y-X\mu)^T(\sigma_\theta^2XX^T+\sigma_x^2I)^{-1}(Y-X\mu)}\ge%
            \frac{\mathrm{rss}^n}{n!}""",
        kind="lower bound",
        variables=(N23, RSS, FIT, GRAM, V_ZERO, V_X, TAIL),
        examples=({"n": 2, "rss": 1, "fit": 1, "gram": 1, "sigma2_theta": 1, "sigma2_x": 1, "tail": 1},),
        printed=lambda n, rss: rss**n / sp.factorial(n),
        relation=">=",
        derive=_floor_derive,
        oracle=_floor_oracle,
        tight=Tight(at={"n": 2, "rss": 1, "fit": 0, "gram": 0, "sigma2_theta": 0, "sigma2_x": 1, "tail": 0}, ratio="1/5"),
        ours=True,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.marginal_objective"),
        not_simulated=Exempt(kind="deterministic"),
        unit="response variance to the n-th power",
        related=("generative:eq19:fisher",),
        remark="""Clients are independent, so the losses and their bounds add up. As the loss also grows without bound as
            sigma2_theta, sigma2_x or mu (where some X'X > 0) do, or as sigma2_x vanishes, a minimiser exists; it may
            have sigma2_theta = 0. Where all clients interpolate their responses (n <= d), rss = 0 and sigma2_x must be
            known.""",
    )
)

__all__ = ["CLIENT"]
