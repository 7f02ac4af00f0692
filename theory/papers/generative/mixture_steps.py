"""The printed updates under mixture priors: Algorithms 4 and 7.

As in steps.py exponentials enter as letters, so that all statements are rational.

Belongs here: the clients' lines of those boxes. Does not belong here: the mixture's density (priors.py), what clustering
does on the server.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import sympy as sp

from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.dual import Dual, gradient, lift
from theory.papers.generative.steps import DETERMINISTIC, ETA, THETA, X1, X2, Y1, Y2, S, letter

# --- Algorithm 4 -----------------------------------------------------------------------------------------------------

M24 = letter("m", "number of clients", "choice", choices=(2, 4))
G = letter("g", "slope of the client's loss f_i at theta")
A1 = letter("A1", "exp(-(mu_1 - theta)^2/(2 s1^2))", "positive")
A2 = letter("A2", "exp(-(mu_2 - theta)^2/(2 s2^2))", "positive")
P1 = letter("p", "weight of the first component", "fraction")
C1, C2 = letter("mu1", "first component's centre"), letter("mu2", "second component's centre")
S1 = letter("s1", "standard deviation sigma_theta,1", "positive")
S2 = letter("s2", "standard deviation sigma_theta,2", "positive")


def _alg4_printed(m: int, g: Any, A1: Any, A2: Any, theta: Any, mu1: Any, mu2: Any, s1: Any, s2: Any, eta: Any) -> Any:
    """Gradient of f + log(sum_l exp(+square)/(2 pi s_l)^(md/2)), d = 1, with exp(+square) = 1/A."""
    w1, w2 = (1 / A / (2 * sp.pi * s) ** sp.Rational(m, 2) for A, s in ((A1, s1), (A2, s2)))
    slope = (w1 * (theta - mu1) / s1**2 + w2 * (theta - mu2) / s2**2) / (w1 + w2)
    return theta - eta * (g + slope)


def _alg4_corrected(g: Any, p: Any, A1: Any, A2: Any, theta: Any, mu1: Any, mu2: Any, s1: Any, s2: Any, eta: Any) -> Any:
    w1, w2 = p * A1 / s1, (1 - p) * A2 / s2
    return theta - eta * (g + (w1 * (theta - mu1) / s1**2 + w2 * (theta - mu2) / s2**2) / (w1 + w2))


def _alg4_derive(g: Any, p: Any, A1: Any, A2: Any, theta: Any, mu1: Any, mu2: Any, s1: Any, s2: Any, eta: Any) -> Derivation:
    d = Derivation()
    first, second = (
        sp.exp(-((mu - theta) ** 2) / (2 * s**2)) / sp.sqrt(2 * sp.pi * s**2) for mu, s in ((mu1, s1), (mu2, s2))
    )
    prior = d.say(
        "Minus the log-density of the mixture (generative:eq12:mixture, d = 1):", -sp.log(p * first + (1 - p) * second)
    )
    slope = sp.diff(prior, theta)
    letters = {sp.exp(-((mu - theta) ** 2) / (2 * s**2)): A for mu, s, A in ((mu1, s1, A1), (mu2, s2, A2))}
    slope = d.say("Its slope, with A_l for the exponentials:", sp.cancel(sp.together(slope.subs(letters))))
    return d.conclude("A step down the client's loss and this:", theta - eta * (g + slope))


def _alg4_oracle(g: Any, p: Any, A1: Any, A2: Any, theta: Any, mu1: Any, mu2: Any, s1: Any, s2: Any, eta: Any) -> Any:
    """Differentiated in fractions; the common factor sqrt(2 pi) of both densities has no slope."""

    def loss(t: Dual) -> Dual:
        mix = lift(0)
        for w, A, mu, s in ((p, A1, mu1, s1), (1 - p, A2, mu2, s2)):
            exponent = -((t - mu) * (t - mu)) / (2 * fraction(s) ** 2)
            mix = mix + exponent.exp(A) * fraction(w) / fraction(s)
        return t * fraction(g) - mix.log()

    return theta - eta * gradient(loss, [theta])[0]


register(
    Claim(
        id="generative:alg4",
        title="Algorithm 4: the client's step",
        place="Section 3.3, Algorithm 4, line 6",
        statement="""Line 6 is a gradient step on the client's loss plus minus the log-density of the Gaussian-mixture prior.
            Judged for two components and d = 1, with A_l = exp(-(mu_l - theta)^2/(2 sigma_theta,l^2)).""",
        latex=r"""\bm{\theta}_{i}^{t}\leftarrow\bm{\theta}_{i}^{t-1}-\eta\nabla_{\bm{\theta}_{i}^{t-1}}\Big{[}f_{i}(%
            \bm{\theta}_{i}^{t-1})+\log(\sum_{l=1}^{k}\exp(\frac{\|\bm{\mu}_{l}^{(t-1)}-\bm{\theta}_{i}^{t-1}\|_{2}^{2}}%
            {2(\sigma_{\theta,l}^{(t)})^{2}})/((2\pi\sigma_{\theta,l}^{(t)})^{md/2}))\Big{]}""",
        kind="algorithm line",
        variables=(M24, G, P1, A1, A2, THETA, C1, C2, S1, S2, ETA),
        examples=(
            {"m": 2, "g": 0, "p": "1/2", "A1": "1/2", "A2": "1/4", "theta": 0, "mu1": 1, "mu2": -2, "s1": 1, "s2": 1,
             "eta": 1},
        ),
        printed=_alg4_printed,
        derive=_alg4_derive,
        oracle=_alg4_oracle,
        corrected=_alg4_corrected,
        corrected_text="""theta - eta (grad f + sum_l w_l (theta - mu_l)/sigma_theta,l^2/sum_l w_l), w_l = p_l exp(-||mu_l -
            theta||^2/(2 sigma_theta,l^2))/sigma_theta,l^d""",
        counterexample={"m": 2, "g": 0, "p": "1/2", "A1": "1/2", "A2": "1/4", "theta": 0, "mu1": 1, "mu2": -2, "s1": 1,
                        "s2": 1, "eta": 1},
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.mixture_penalty"),
        finding="As printed the step draws a client to the component that fits it least, and loses the weights.",
        not_simulated=DETERMINISTIC,
        unit="units of theta",
        related=("generative:eq12:mixture", "generative:eq21"),
        remark="""As printed the weights grow with the distance, so the client is drawn to the component that fits it least,
            and the weights p_l are lost. Two slips of index besides: line 6 uses sigma_theta,l of iteration t, line 5
            receives that of t - 1, and line 12 does not send any.""",
    )
)  # fmt: skip

# --- Algorithm 7 -----------------------------------------------------------------------------------------------------

L = letter("L", "likelihood of the data under mu_2 over that under mu_1", "positive")
ALG7 = (X1, X2, Y1, Y2, C1, C2, S, P1, L)


def _alg7_printed(x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_x: Any, p: Any, L: Any) -> tuple[Any, ...]:
    squares = [(x1 * mu - y1) ** 2 + (x2 * mu - y2) ** 2 for mu in (mu1, mu2)]
    alpha1, alpha2 = p / (p + (1 - p) * L), (1 - p) * L / (p + (1 - p) * L)
    return -squares[1] / (2 * sigma2_x) + squares[0] / (2 * sigma2_x), alpha1 * mu1 + alpha2 * mu2


def _alg7_derive(x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_x: Any, p: Any, L: Any) -> Derivation:
    d, t = Derivation(), sp.Symbol("t", real=True)
    log_density = -sp.log(2 * sp.pi * sigma2_x) - ((y1 - x1 * t) ** 2 + (y2 - x2 * t) ** 2) / (2 * sigma2_x)
    d.say("Log-density of the two responses at a coefficient t (from (13)):", log_density)
    ratio = d.say("So the logarithm of the likelihood ratio L is", log_density.subs(t, mu2) - log_density.subs(t, mu1))
    e = sp.Symbol("e", real=True)
    risk = d.say("With posterior weights in proportion p : (1 - p) L, the mean squared error of an estimate e is",
                 (p * (e - mu1) ** 2 + (1 - p) * L * (e - mu2) ** 2) / (p + (1 - p) * L))  # fmt: skip
    best = sp.solve(sp.diff(risk, e), e)[0]
    return d.conclude("log L, and the estimate of least mean squared error:", (ratio, best))


def _alg7_oracle(x1: Any, x2: Any, y1: Any, y2: Any, mu1: Any, mu2: Any, sigma2_x: Any, p: Any, L: Any) -> tuple[Any, ...]:
    """Exponents sample by sample by completing the square; the posterior mean by updating mu_1 with the second's share."""
    a, b, s = fraction(mu1), fraction(mu2), fraction(sigma2_x)
    exponent = Fraction(0)
    for x, y in ((fraction(x1), fraction(y1)), (fraction(x2), fraction(y2))):
        exponent += x * (b - a) * (y - x * (a + b) / 2) / s
    odds = (1 - fraction(p)) / fraction(p) * fraction(L)
    return rational(exponent), rational(a + (b - a) * odds / (1 + odds))


register(
    Claim(
        id="generative:alg7",
        title="Algorithm 7: the client's update",
        place="Appendix B, Algorithm 7, line 6",
        statement="""For given p_l and mu_l the update is the posterior mean, the estimate of least mean squared error.
            Judged for k = 2, two samples and d = 1: the exponent's part in log L, and the estimate given L.""",
        latex=r"""\bm{\theta}_{i}^{t}\leftarrow\sum_{l=1}^{k}\alpha_{l}^{(i)}\bm{\mu}_{l}^{(t-1)}\qquad\text{ and }%
            \qquad\alpha_{l}^{(i)}=\frac{p_{l}^{(t-1)}\exp\left(-\frac{\|X_{i}\bm{\mu}_{l}^{(t-1)}-Y_{i}\|^{2}}%
            {2\sigma_{x}^{2}}\right)}{\sum_{s=1}^{k}p_{s}^{(t-1)}\exp\left(-%
            \frac{\|X_{i}\bm{\mu}_{s}^{(t-1)}-Y_{i}\|^{2}}{2\sigma_{x}^{2}}\right)}""",
        kind="algorithm line",
        variables=ALG7,
        examples=({"x1": 1, "x2": 2, "y1": 1, "y2": 1, "mu1": 0, "mu2": 1, "sigma2_x": 1, "p": "1/2", "L": 2},),
        printed=_alg7_printed,
        derive=_alg7_derive,
        oracle=_alg7_oracle,
        not_computed=Exempt(kind="line"),
        not_simulated=DETERMINISTIC,
        entries=("log of the likelihood ratio", "estimate"),
        unit="nats; units of theta",
        remark="""The text says that it solves (12); it does not, the posterior's largest weight does (generative:alg7:map).
            Line 5 receives mu_k of iteration t where t - 1 is meant. What clustering of the shrunken theta_i does to the
            prior is the question of generative:alg1.""",
    )
)

WIN = letter("winner", "the centre with the larger posterior weight", "choice", choices=(1, 2))
WL = letter("weight", "smaller posterior weight over the larger", "fraction")


def _map_printed(mu1: Any, mu2: Any, weight: Any, winner: int) -> Any:
    big, small = (mu1, mu2) if winner == 1 else (mu2, mu1)
    return big / (1 + weight) + small * weight / (1 + weight)


def _map_derive(mu1: Any, mu2: Any, weight: Any, winner: int) -> Derivation:
    d = Derivation()
    d.say("(12) minimises minus the logarithm of prior weight times likelihood; a discrete prior allows the centres only.")
    at = d.say("Prior weight times likelihood at mu_1 and mu_2, over the larger one; the other is below 1:",
               (sp.Integer(1), weight) if winner == 1 else (weight, sp.Integer(1)))  # fmt: skip
    return d.conclude(
        "So (12) is solved by", next(centre for centre, height in zip((mu1, mu2), at, strict=True) if height == 1)
    )


def _map_oracle(mu1: Any, mu2: Any, weight: Any, winner: int) -> Any:
    """Enumeration of the support."""
    weights = {1: fraction(weight), 2: fraction(weight)}
    weights[winner] = Fraction(1)
    return {1: mu1, 2: mu2}[max(weights, key=lambda i: weights[i])]


register(
    Claim(
        id="generative:alg7:map",
        title="Algorithm 7 solves (12)",
        place="Appendix B, text before Algorithm 7",
        statement="""The goal stated is to solve (12) with the discrete prior; the update returns a weighted mean of the
            centres. Judged for k = 2.""",
        latex=r"""\text{Our goal is to solve the optimization problem stated in (12) (for the linear regression with the
            above discrete prior) and learn the optimal personalized parameters }\{\widehat{\bm{\theta}}_{i}\}""",
        kind="algorithm line",
        variables=(C1, C2, WL, WIN),
        examples=({"mu1": 0, "mu2": 1, "weight": "1/2", "winner": 1},),
        printed=_map_printed,
        derive=_map_derive,
        oracle=_map_oracle,
        corrected=lambda mu1, mu2, winner: mu1 if winner == 1 else mu2,
        corrected_text="the centre of largest p_l exp(-||X_i mu_l - Y_i||^2/(2 sigma2_x))",
        finding="The update averages the centres, while the goal as stated, the most likely parameter, is one of them.",
        counterexample={"mu1": 0, "mu2": 1, "weight": "1/2", "winner": 1},
        not_computed=Exempt(kind="line"),
        not_simulated=DETERMINISTIC,
        unit="units of theta",
        related=("generative:alg7",),
        remark="""The weighted mean has prior density zero, so (12) is infinite there. It is the better estimate in squared
            error (generative:alg7); the two goals differ, which for a Gaussian prior they do not (generative:thm6).""",
    )
)
