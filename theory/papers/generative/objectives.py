"""The objectives of Section 3 as wholes, and whether they have minimisers: (19), (20), (21).

Belongs here: (19) with its collapse, its local minimum and the penalty that repairs it; (20) and (21). Does not belong
here: single terms of (12) (priors.py), the marginal likelihood (marginal.py), the printed steps (steps.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from estimators.closed_forms import priors as computed
from estimators.closed_forms import regression
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.dual import Dual, gradient, lift
from theory.papers.generative.priors import (
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

V_THETA = Variable("sigma2_theta", "positive", "variance of a coordinate of theta_i", extreme=False)
V_X = Variable("sigma2_x", "positive", "variance of a response", extreme=False)
TAIL = Variable(
    "tail", "nonnegative", "what the exponential series adds beyond the terms that are written out", extreme=False
)
MD = Variable("md", "choice", "number of coordinates of all clients, m times d", choices=(1, 2, 4))
FLOOR = Variable("floor", "positive", "a candidate for the least value of exp(2 objective)", extreme=False)
K_REST = Variable("K", "positive", "(2 pi sigma2_x)^(nm) exp(sum of squared residuals/sigma2_x) at the chosen parameters",
                  extreme=False)  # fmt: skip

# --- (19) has no minimiser -------------------------------------------------------------------------------------------


def _eq19_derive(md: int, floor: Any, K: Any) -> Derivation:
    d, v = Derivation(), sp.Symbol("sigma2_theta", positive=True)
    d.say("""Put all parameters at one point, theta_i = mu. Nothing of the prior is left in (19) but its normaliser, and the
        residuals do not depend on sigma2_theta, so exp(2 objective) is""", K * (2 * sp.pi * v) ** md)  # fmt: skip
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
        statement="""(19) asks for the minimiser over parameters, mu, sigma_theta and sigma_x, so the objective must be
            bounded below. Judged: whatever the floor, exp(2 objective) is at least the floor at the point theta_i = mu,
            sigma2_theta = floor/(2 pi (1 + floor)(1 + K)).""",
        latex=r"""\operatorname*{arg\,min}_{\{\bm{\theta}_{i}\},\bm{\mu},\sigma_{\theta},\sigma_{x}}\frac{nm}{2}\log(2\pi%
            \sigma_{x}^{2})+\sum_{i=1}^{m}\sum_{j=1}^{n}\frac{(Y_{ij}-\langle\bm{\theta}_{i},X_{ij}\rangle)^{2}}%
            {2\sigma_{x}^{2}}+\frac{md}{2}\log(2\pi\sigma_{\bm{\theta}}^{2})+\sum_{i=1}^{m}%
            \frac{\|\bm{\mu}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\bm{\theta}}^{2}}""",
        kind="lower bound",
        variables=(MD, FLOOR, K_REST),
        examples=({"md": 2, "floor": "1/100", "K": 3},),
        printed=lambda floor: floor,
        relation=">=",
        derive=_eq19_derive,
        oracle=_eq19_oracle,
        corrected=lambda md, floor, K: K * (floor / ((1 + floor) * (1 + K))) ** md,
        corrected_text="""the infimum of (19) is minus infinity; minimise the marginal likelihood instead
            (generative:eq19:marginal-floor), or add a penalty b/sigma2_theta (generative:eq19:penalised)""",
        counterexample={"md": 1, "floor": 1, "K": 1},
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="deterministic"),
        finding="""The objective has no minimum: with all clients' parameters equal and a vanishing prior variance it falls
            without bound.""",
        unit="dimensionless",
        related=("generative:eq14",),
        remark="""Equal parameters with a vanishing prior variance: (md/2) log sigma2_theta falls without bound while every
            other term stays. It happens for every data set; where clients have no more samples than coefficients,
            sigma_x vanishes too. Algorithms 2 and 3 therefore have at best a local minimum to converge to
            (generative:eq19:local). (20), and (21) with the right sign, share the defect.""",
    )
)

# --- its local minimum -----------------------------------------------------------------------------------------------

ALPHA2 = Variable("alpha2", "positive", "variance of a client's local estimate, sigma2_x/n", extreme=False)
GAP = Variable("gap", "nonnegative", "distance of the stationary variance from alpha2", extreme=False)
ABOVE = Variable("above", "choice", "1: the stationary variance is alpha2 + gap; 0: it is alpha2/(1 + gap)", choices=(1, 0))


def _local_derive(alpha2: Any, gap: Any, above: int) -> Derivation:
    d = Derivation()
    v, s = sp.symbols("sigma2_theta S", positive=True)
    shrink = d.say("""Client means y_i of n samples: for given mu and variances, (19) is least at theta_i - mu = this times
        (y_i - mu), and at mu = mean of the y_i:""", v / (v + alpha2))  # fmt: skip
    slope = d.say("With S the mean square of a coordinate of y_i - mean, the slope of (19) in sigma2_theta is md/2 times",
                  1 / v - shrink**2 * s / v**2)  # fmt: skip
    spread = d.say("It vanishes only at", sp.solve(sp.numer(sp.together(slope)), s)[0])
    return d.conclude(
        "which, at a stationary variance, is", sp.factor(spread.subs(v, alpha2 + gap if above else alpha2 / (1 + gap)))
    )


def _local_oracle(alpha2: Any, gap: Any, above: int) -> Any:
    """Two clients at +-r whose profile slope is zero; the slope is linear in r^2 and found from two exact evaluations."""
    a, g = fraction(alpha2), fraction(gap)
    v0 = rational(g + a if above else a / (g + 1))

    def slope(square: Fraction) -> Fraction:
        def profile(v: Dual) -> Dual:
            # least value over theta of (y - theta)^2/alpha2 + theta^2/v is y^2/(alpha2 + v)
            return v.log() + square / (lift(alpha2) + v)

        return fraction(gradient(profile, [v0])[0])

    at0, at1 = slope(Fraction(0)), slope(Fraction(1))
    return rational(-at0 / (at1 - at0))


def _local_computed(alpha2: float, gap: float, above: int) -> float:
    """From the posterior variance C of a client: C = alpha2 v/(v + alpha2)."""
    v = alpha2 + gap if above else alpha2 / (1 + gap)
    return alpha2**2 * v / regression.posterior_mse([[1.0]], v, alpha2) ** 2


register(
    Claim(
        id="generative:eq19:local",
        title="The joint objective has a stationary point only where clients differ enough",
        place="Section 3.1.2, (19); not in the paper",
        statement="""For client means of n samples, (19) has a stationary point only if the mean squared deviation S of a
            coordinate of the local estimates is at least 4 sigma2_x/n. Judged: S as a function of the stationary
            variance.""",
        latex=r"S=\frac{(\sigma_\theta^2+\alpha^2)^2}{\sigma_\theta^2}\ge4\alpha^2,\qquad\alpha^2=\sigma_x^2/n",
        kind="lower bound",
        variables=(ALPHA2, GAP, ABOVE),
        examples=({"alpha2": 1, "gap": 1, "above": 1},),
        printed=lambda alpha2: 4 * alpha2,
        relation=">=",
        derive=_local_derive,
        oracle=_local_oracle,
        tight=Tight(at={"alpha2": 1, "gap": 0, "above": 1}),
        ours=True,
        computed=_local_computed,
        not_simulated=Exempt(kind="deterministic"),
        unit="variance",
        related=("generative:eq19",),
        remark="""S is about sigma2_theta + alpha2, so unless the true sigma2_theta is above 3 alpha2 gradient descent on
            (19) has nowhere to stop and ends in the collapse. Where there is a stationary point it is too small: the
            marginal likelihood's estimate S - alpha2 exceeds it by alpha2 + alpha2^2/sigma2_theta.""",
    )
)

# --- lower bounds ----------------------------------------------------------------------------------------------------

B_HYPER = Variable("b", "positive", "strength of the penalty b/sigma2_theta", extreme=False)
Q_SUM = Variable("Q", "nonnegative", "sum of squared distances of the parameters to mu", extreme=False)
FLOOR_MD = Variable("md", "choice", "number of coordinates of all clients, m times d", choices=(1, 2, 3, 6, 10))


def series(u: Any, order: int, tail: Any) -> Any:
    """exp(u) as the terms of its series up to an order and the rest."""
    return sum(u**k / sp.factorial(k) for k in range(order + 1)) + tail


def horner(u: Fraction, order: int, tail: Any) -> Fraction:
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
    return d.conclude("Their exponential over (2 pi)^(md):", sigma2_theta**md * series(u, md, tail))


def _penalised_oracle(md: int, sigma2_theta: Any, Q: Any, b: Any, tail: Any) -> Any:
    v = fraction(sigma2_theta)
    value = horner((fraction(Q) + 2 * fraction(b)) / v, md, tail)
    for _ in range(md):
        value *= v
    return rational(value)


register(
    Claim(
        id="generative:eq19:penalised",
        title="A penalty that gives the joint objective a minimiser",
        place="Section 3.1.2; repairs (19); not in the paper",
        statement="""With b/sigma2_theta added to (19), the terms in sigma2_theta are bounded below whatever the parameters:
            exp(2 terms)/(2 pi)^(md) is at least (2b)^(md)/(md)!, for every b > 0. Judged with exp(u) written as the
            terms of its series up to order md and a positive rest, `tail`.""",
        latex=r"""\frac{md}2\log(2\pi\sigma_\theta^2)+\frac{\sum_i\|\mu-\theta_i\|^2+2b}{2\sigma_\theta^2}\ge\frac12\log%
            \frac{(4\pi b)^{md}}{(md)!}""",
        kind="lower bound",
        variables=(FLOOR_MD, V_THETA, Q_SUM, B_HYPER, TAIL),
        examples=({"md": 2, "sigma2_theta": 1, "Q": 1, "b": 1, "tail": 1},),
        printed=lambda md, b: (2 * b) ** md / sp.factorial(md),
        relation=">=",
        derive=_penalised_derive,
        oracle=_penalised_oracle,
        tight=Tight(at={"md": 1, "sigma2_theta": 1, "Q": 0, "b": 1, "tail": 0}, ratio="2/3"),
        ours=True,
        not_computed=Exempt(kind="elsewhere", function="estimators.closed_forms.priors.joint_objective"),
        not_simulated=Exempt(kind="deterministic"),
        unit="dimensionless",
        related=("generative:eq19",),
        remark="""The term of order md alone gives the bound. The penalty is an inverse-gamma prior on sigma2_theta; sigma2_x
            needs the same where clients interpolate their responses. Given the rest, the minimiser is
            generative:eq19:variance.""",
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


def _variance_computed(squares: list[float], d: int, b: float) -> float:
    return computed.best_variance(np.sqrt(np.array(squares)[:, None] / d).repeat(int(d), 1), 0.0, b)


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
        computed=_variance_computed,
        not_simulated=Exempt(kind="deterministic"),
        unit="variance",
        related=("generative:eq19:penalised",),
    )
)

# --- (20): the sign of the likelihood --------------------------------------------------------------------------------

E1 = Variable("z", "real", "<theta_i, X_ij> of each sample", lengths=(1, 2), extreme=False)
LABELS = Variable("labels", "choice", "the labels of the samples", choices=("01", "10"))
Q_BOX = Variable("Q", "nonnegative", "squared distance |mu - theta_i|^2 of the client", extreme=False)
V_SMALL = Variable("sigma2_theta", "positive", "prior variance", extreme=False)


def _eq20_printed(z: list[Any], labels: str, Q: Any, sigma2_theta: Any) -> Any:
    fit = sp.Integer(0)
    for t, y in zip(z, map(int, labels), strict=False):
        fit += y * sp.log(1 / (1 + sp.exp(-t))) + (1 - y) * sp.log(1 / (1 + sp.exp(t)))
    return fit + sp.log(2 * sp.pi * sigma2_theta) / 2 + Q / (2 * sigma2_theta)


def _eq20_corrected(z: list[Any], labels: str, Q: Any, sigma2_theta: Any) -> Any:
    fit = sp.Integer(0)
    for t, y in zip(z, map(int, labels), strict=False):
        fit -= y * sp.log(1 / (1 + sp.exp(-t))) + (1 - y) * sp.log(1 / (1 + sp.exp(t)))
    return fit + sp.log(2 * sp.pi * sigma2_theta) / 2 + Q / (2 * sigma2_theta)


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
        latex=r"""\operatorname*{arg\,min}_{\{\bm{\theta}_{i}\},\bm{\mu},\sigma_{\theta}}\sum_{i=1}^{m}\sum_{j=1}^{n}%
            \left[Y_{ij}\log\left(\frac{1}{1+e^{-\langle\bm{\theta}_{i},X_{ij}\rangle}}\right)+(1-Y_{ij})\log\left(%
            \frac{1}{1+e^{\langle\bm{\theta}_{i},X_{ij}\rangle}}\right)\right]+\frac{md}{2}\log(2\pi\sigma_{\theta}^{2})%
            +\sum_{i=1}^{m}\frac{\|\bm{\mu}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\theta}^{2}}""",
        kind="identity",
        variables=(E1, LABELS, Q_BOX, V_SMALL),
        examples=({"z": [1, -1], "labels": "01", "Q": 1, "sigma2_theta": 1},),
        printed=_eq20_printed,
        derive=_eq20_derive,
        oracle=_eq20_oracle,
        corrected=_eq20_corrected,
        corrected_text="a minus sign before the sum over samples",
        slip="the minus sign of (12) before the log-likelihood is lost; as printed the minimiser makes the labels unlikely",
        counterexample={"z": [0], "labels": "10", "Q": 0, "sigma2_theta": 1},
        computed=_eq20_computed,
        not_simulated=Exempt(kind="deterministic"),
        finding="A minus sign is lost: minimising the printed objective makes the observed labels as unlikely as possible.",
        unit="nats",
        related=("generative:eq12:gauss", "generative:eq12:logistic"),
        remark="""Line 6 of Algorithm 3 descends the cross-entropy, so it has the right sign here. Like (19), the corrected
            objective has no minimiser over sigma_theta (generative:eq19).""",
    )
)

# --- (21) ------------------------------------------------------------------------------------------------------------

Z1, Z2 = bounded("z1", "<theta_1, X_1> of the first client's sample"), bounded("z2", "of the second client's (d = 1)")


def _eq21_oracle(
    thetas: Any, d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any, z1: Any, z2: Any
) -> Any:
    with mp.workdps(DIGITS + 10):
        odds1, odds2 = mp.exp(number(z1)), mp.exp(number(z2))
        likelihood = odds1 / (1 + odds1) * (1 / (1 + odds2) if d == 1 else 1)
        return precise(likelihood * mp.mpf(str(mixture_oracle(thetas, d, p, mu11, mu12, mu21, mu22, s1, s2))))


def _eq21_printed(z1: Any, z2: Any, d: int, **prior: Any) -> Any:
    """exp(-(21)): a client of label 1, and for d = 1 one of label 0."""
    lost = (1 + sp.exp(-z1)) * ((1 + sp.exp(z2)) if d == 1 else 1)
    return mixture_printed(d=d, **prior) * lost


def _eq21_corrected(z1: Any, z2: Any, d: int, **prior: Any) -> Any:
    lost = (1 + sp.exp(-z1)) * ((1 + sp.exp(z2)) if d == 1 else 1)
    return mixture_corrected(d=d, **prior) / lost


def _eq21_derive(z1: Any, z2: Any, d: int, **prior: Any) -> Derivation:
    proof = Derivation()
    labels = ((z1, 1), (z2, 0)) if d == 1 else ((z1, 1),)
    fit = proof.say("Likelihood of the labels (generative:eq12:logistic):",
                    sp.prod([1 / (1 + sp.exp(-z if y else z)) for z, y in labels]))  # fmt: skip
    population = proof.lemma("generative:eq12:mixture", "the clients' prior density is", d=d, **prior)
    return proof.conclude("(12) is minus the logarithm of their product, so exp(-objective) is", fit * population)


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
        statement="""The objective (12) for logistic responses and a Gaussian-mixture population. Judged for one label per
            client: a 1 for the first, a 0 for the second; as exp(-objective).""",
        latex=r"""\sum_{i=1}^{m}\sum_{j=1}^{n}\left[Y_{ij}\log\left(\frac{1}{1+e^{-\langle\bm{\theta}_{i},X_{ij}\rangle}}%
            \right)+(1-Y_{ij})\log\left(\frac{1}{1+e^{\langle\bm{\theta}_{i},X_{ij}\rangle}}\right)\right]+%
            \sum_{i=1}^{m}\log(\sum_{l=1}^{k}\exp(\frac{\|\bm{\mu}_{l}-\bm{\theta}_{i}\|_{2}^{2}}%
            {2\sigma_{\theta,l}^{2}})/((2\pi\sigma_{\theta,l})^{md/2}))""",
        kind="identity",
        variables=(*MIXTURE, Z1, Z2),
        examples=tuple({**e, "z1": 1, "z2": -1} for e in MIXTURE_EXAMPLES),
        printed=_eq21_printed,
        derive=_eq21_derive,
        oracle=_eq21_oracle,
        corrected=_eq21_corrected,
        corrected_text="""minus the sum over samples, minus sum_i log(sum_l p_l exp(-||mu_l - theta_i||^2/(2
            sigma_theta,l^2))/(2 pi sigma_theta,l^2)^(d/2))""",
        counterexample={"thetas": [0, 0], "d": 1, "p": "1/2", "mu11": 0, "mu12": 0, "mu21": 0, "mu22": 0, "s1": 1, "s2": 1,
                        "z1": 0, "z2": 0},
        computed=_eq21_computed,
        not_simulated=Exempt(kind="deterministic"),
        finding="""Both parts of the objective are wrong: the likelihood has the wrong sign, and the prior lacks its weights
            and the minus sign of its exponent.""",
        unit="density",
        related=("generative:eq12:mixture", "generative:eq12:logistic"),
        remark="""The slips of (20) and of case 3 together; (22) has those of case 3. The corrected objective is unbounded
            below too: a component centred on one client's parameters may shrink (as in generative:eq19).""",
    )
)  # fmt: skip

__all__ = ["TAIL", "V_THETA", "V_X", "horner", "series"]
