r"""The letters of the paper in the claims' variables, and how each display gives what is judged.

Belongs here: what is read by theory.engine.literal. Does not belong here: claims, edits (they are the claims').
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from theory.engine.literal import Defined, Meaning, Reading, Side

A_1 = Defined(r"\frac{\sigma_\theta^2}{\sigma_\theta^2+\frac{\sigma_x^2}{n}}", "Theorem 1")
MU = Defined(r"\frac{\alpha}{\alpha+\beta}", "Section 2.2")
SIGMA2 = Defined(r"\frac{\alpha\beta}{(\alpha+\beta)^2(\alpha+\beta+1)}", "Section 2.2")

LETTERS: dict[str, Meaning] = {
    "n": "n",
    "m": "m",
    "d": "d",
    "k": ("k", "length"),
    "a": ("a", A_1),
    "b": "b",
    r"\alpha": ("alpha", "order"),
    r"\alpha^2": "alpha2",
    r"\beta": "beta",
    r"\sigma_\theta^2": "sigma2_theta",
    r"\sigma_{\bm\theta}^2": "sigma2_theta",
    r"\sigma_x^2": "sigma2_x",
    r"\sigma_q^2": "sigma2_q",
    r"\sigma_y^2": "sigma2_y",
    r"\sigma_z^2": "sigma2_z",
    r"\sigma_{q_1}^2": "sigma2_q1",
    r"\sigma_{q_2}^2": "sigma2_q2",
    r"\epsilon_0": ("eps0", lambda E0: sp.log(1 + E0), lambda E_half: 2 * sp.log(1 + E_half)),
    r"\epsilon": "eps",
    r"\delta": "delta",
    r"\lambda": "order",
    r"\psi": "psi",
    "x": "x",
    "z": "z",
    "c_1": "c1",
    "c_2": "c2",
    "C_1": "C1",
    "C_2": "C2",
    "K": "K",
    "T": "T",
    r"\tau": "tau",
    "m_1": "m1",
    "m_2": "m2",
    "p_#": "p",
    r"\bm\mu_#": "mus",
    r"\mu": MU,
    r"\sigma^2": SIGMA2,
    r"\mathbb{E}[p^2]": Defined(r"\frac{\alpha(\alpha+1)}{(\alpha+\beta)(\alpha+\beta+1)}", "moments of a Beta prior"),
    r"\log(4m^2n)": "L",
    r"\mathbb{E}[\widehat{a}_{i}^{2}]": lambda a: a**2,  # whatever the weight's law, a value of its argument
    r"\mathbb{E}[(1-\widehat{a}_{i})^{2}]": lambda a: (1 - a) ** 2,
    r"\widehat{\mu}_i": MU,  # where it goes with many clients, as in the next three
    r"\hat{\mu}_i": MU,
    r"\widehat{\sigma}_i^2": SIGMA2,
    r"\hat{\sigma}_i^2": SIGMA2,
}


def parts_of(values: Sequence[Any], size: int, i: int) -> Any:
    """The i-th vector of a list that holds vectors of this size one after the other."""
    return sp.Matrix(values[(i - 1) * size : i * size])


def first(pair: Any) -> Any:
    """The first entry of a pair or vector."""
    return pair[0]


def second(pair: Any) -> Any:
    """The second entry of a pair or vector."""
    return pair[1]


def complement(probability: Any) -> Any:
    """The probability of the rest."""
    return 1 - probability


def reciprocal_exp(value: Any) -> Any:
    """What is judged where the display is minus a logarithm."""
    return sp.exp(-value)


EXPECTATION = Reading(unread="judged is the mean of the display, which is a function of the data")
PROBABILITY = Reading(unread="judged is the probability of the event that the display describes")
SIGN = Reading(unread="judged is the sign of a difference")
GRADIENT = Reading(unread="the display names gradients that it does not write out")
NUMBERS = Reading(unread="the display is a list of measured numbers, judged is what follows from them")
FLOOR = Reading(unread="the display is an objective, judged is whether a floor bounds it")
BOUND_ON_DELTA = Reading(unread="judged is the delta that this noise reaches, which the display does not show")

THETAS: dict[str, Meaning] = {
    "m": lambda thetas, d: len(thetas) // d,
    "k": 2,
    r"\bm{\theta}_#": lambda i, thetas, d: parts_of(thetas, d, i),
    r"\bm{\mu}": (lambda mu1, mu2, d: sp.Matrix([mu1, mu2][:d]),),
    r"\bm{\mu}_1": lambda mu11, mu12, d: sp.Matrix([mu11, mu12][:d]),
    r"\bm{\mu}_2": lambda mu21, mu22, d: sp.Matrix([mu21, mu22][:d]),
    r"\sigma_{\theta,1}": "s1",
    r"\sigma_{\theta,2}": "s2",
    r"\sigma_{\theta,#}": lambda i, s1, s2: (s1, s2)[i - 1],
    r"\bm{\mu}_#": lambda i, mu11, mu12, mu21, mu22, d: sp.Matrix([[mu11, mu12], [mu21, mu22]][i - 1][:d]),
}
STEP: dict[str, Meaning] = {
    r"X_{#j}": 0,
    r"\eta": "eta",
    r"\sigma_{x,i}^{2,t-1}": "sigma2_x",
    r"\sigma_{\theta,i}^{2,t-1}": "sigma2_theta",
    r"\sigma_{\theta,_{i}}^{2,t-1}": "sigma2_theta",
}
VECTORS: dict[str, Meaning] = STEP | {
    "n": 2,
    "d": 2,
    r"\bm{\theta}_{i}^{t-1}": lambda theta1, theta2: sp.Matrix([theta1, theta2]),
    r"\bm{\mu}_{i}^{t-1}": lambda mu1, mu2: sp.Matrix([mu1, mu2]),
    r"X_{i#}": lambda j, x11, x12, x21, x22: sp.Matrix([[x11, x12], [x21, x22]][j - 1]),
    r"X_{i#}\bm{\theta}_{i}^{t-1}": lambda j, x11, x12, x21, x22, theta1, theta2: (
        [x11, x21][j - 1] * theta1 + [x12, x22][j - 1] * theta2
    ),
    r"Y_{i#}": lambda j, y1, y2: (y1, y2)[j - 1],
}
SCALARS: dict[str, Meaning] = STEP | {
    "d": 1,
    r"\bm{\theta}_{i}^{t-1}": "theta",
    r"\bm{\theta}^{t-1}_{i}": "theta",
    r"\bm{\mu}_{i}^{t-1}": "mu",
}
REGRESSION: dict[str, Meaning] = {
    r"\mathbb{I}": lambda x11: sp.eye(2),
    "X_i": lambda x11, x12, x22: sp.Matrix([[x11, x12], [0, x22]]),
    "Y_i": lambda y1, y2: sp.Matrix([y1, y2]),
    r"\bm{\mu}": lambda mu1, mu2: sp.Matrix([mu1, mu2]),
}
COEFFICIENTS: dict[str, Meaning] = {r"\bm{\theta}_i": lambda theta1, theta2: sp.Matrix([theta1, theta2])}
LABELS: dict[str, Meaning] = {
    r"c(\psi)": 1,
    r"p_{\bm{\mu}}(x)": "p_mu",
    r"H(p_{\bm{\mu}}(x))": lambda p_mu: -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu),
    "q_i(x)": "q",
    "B": lambda: sp.beta,
}
LOGISTIC: dict[str, Meaning] = {
    "m": 1,
    "d": 1,
    "n": "length",
    r"\operatorname*{arg\,min}_{\{\bm{\theta}_{i}\},\bm{\mu},\sigma_{\theta}}": 1,
    r"Y_{i#}": lambda j, labels: int(labels[j - 1]),
    r"Y_{##}": lambda i, j, labels: int(labels[j - 1]),
    r"\langle\bm{\theta}_#,X_{##}\rangle": lambda i, i2, j, z: z[j - 1],
    r"\|\bm{\mu}-\bm{\theta}_#\|_2^2": lambda i, Q: Q,
}
MIXED: dict[str, Meaning] = THETAS | {
    "n": 1,
    r"Y_{##}": lambda i, j, d: int(i == j == 1),
    r"\langle\bm{\theta}_#,X_{##}\rangle": lambda i, i2, j, z1, z2: z1 if i == j == 1 else z2,
}
V = r"\frac{e^{\epsilon_0}}{(e^{\epsilon_0}-1)^2}+%s(1-%s)"
WHERE_S: dict[str, Meaning] = {"s": Side(1, 1)}
HALF_LOG = [Side(0, through=lambda value: sp.exp(2 * value))]
ORDERS: dict[str, Meaning] = {r"\min_{\lambda}": 1, r"\epsilon(\lambda)": "rdp"}  # judged order by order
AVERAGES: dict[str, Meaning] = {r"\bm{\mu}_#^t": "mu_t", r"\psi_#^t": "psi_t", "K": "length"}
KD = r"f^{\mathsf{KD}}_{i}(\bm{\theta}_{i}^{t+1},\bm{\mu}_{i}^{t+1})"
DISTILLED: dict[str, Meaning] = {KD: "kd", r"\psi_i^t": "psi"}

READINGS = {
    "generative:thm1:estimator": Reading(
        [Side(1, of=r"\overline{X}_{i}"), Side(1, of=r"\widehat{\bm{\mu}}"), Side(0, of=r"\sum_{i=1}^{m}\overline{X}_{i}")],
        {"a": Side(-1, 1)},
    ),
    "generative:claim1": Reading(letters={r"\alpha": "a"}),
    "generative:claim1:cross": Reading([None, None, Side(0, -1)]),
    "generative:remark1:limits": Reading([Side(0), Side(-1), None]),
    "generative:remark1": Reading(lambda sigma2_theta: [Side(2 if sigma2_theta else 0)], {"m": 10**4}),
    "generative:eq45": Reading(
        letters={
            "d": "length",
            r"\mathbb{E}\text{Tr}(I_{x}(\theta))": lambda length, sigma2_x: length / sigma2_x,
            r"\text{Tr}(I(\pi))": lambda sigma2_thetas: sum(1 / s for s in sigma2_thetas),
        }
    ),
    "generative:eq47:argument": Reading([Side(-1)]),
    "generative:eq45:bernoulli": Reading(
        letters={
            r"\mathbb{E}I_{x}(\theta)": lambda a, b: (3 + a + b) * (2 + a + b) / ((1 + a) * (1 + b)),
            r"I(\pi)": lambda a, b: (3 + a + b) * (2 + a + b) * (a + b) / (a * b),
        }
    ),
    "generative:remark2": Reading([Side(0)]),
    "generative:fact1": Reading([Side(-1, through=first), Side(-1, through=second)], {"N": lambda: sp.Tuple}),
    "generative:thm2:mse": Reading([Side(0)], {"a": Side(-1, 1)}),
    "generative:thm2:quantiser": Reading([None, Side(-1)]),
    "generative:thm2:quantiser:projection": SIGN,
    "generative:thm2:tail:bound": Reading(  # in standard deviations
        [Side(0)], {"n": 1, "c_1": "z", r"\sigma_x^2": 1}
    ),
    "generative:thm2:event": Reading([Side(-1)]),
    "generative:thm2:event:range": Reading([Side(-1, through=complement)]),
    "generative:bern:posterior": Reading([Side(0, of=r"\overline{X}_{i}"), Side(0, of="")], {"a": Side(1, 1)}),
    "generative:bern:known-mse:gain": Reading([Side(0, 1), None]),
    "generative:bern:known-mse:limits": Reading([Side(0), Side(1)]),
    "generative:bern:moments": Reading([None, Side(1)]),
    "generative:bern:moments:appendix": EXPECTATION,
    "generative:bern:variance-estimate": EXPECTATION,
    "generative:bern:variance-estimate:own-centre": EXPECTATION,
    "generative:bern:moments:cost": Reading([Side(0)], WHERE_S),
    "generative:bern:moments:unbiased": EXPECTATION,
    "generative:bern:variance-event": PROBABILITY,
    "generative:thm3:own-data": Reading(unread="judged is the bound at the weight's law, which the display does not give"),
    "generative:thm3:exact": Reading([Side(0)], WHERE_S),
    "generative:bern:variance-event:mean": Reading([Side(-1, through=complement)]),
    "generative:bern:variance-event:finite": Reading([Side(-1, through=complement)], {"n": 1}),
    "generative:remark3": Reading([Side(0), Side(1)]),
    "generative:qpriv": Reading([Side(-1), None]),
    "generative:qpriv:ldp": SIGN,
    "generative:thm4:variance-estimate": EXPECTATION,
    "generative:thm4:weight": Reading(unread="judged is where the weight goes, which the display does not show"),
    "generative:thm4:hoeffding": Reading([Side(through=lambda tail: -sp.log(tail / 2))], {"m": 2, "t": 1}),
    "generative:thm4:hoeffding:tail": PROBABILITY,
    "generative:thm4:bound:radius": Reading([Side(through=lambda radius: radius**2)]),
    "generative:thm4:bound": PROBABILITY,
    "generative:thm4:protocol": EXPECTATION,
    "generative:thm4:protocol:ldp": Reading([Side(0), Side(0)]),
    "generative:thm4:protocol:variance": Reading(
        letters={
            r"v(\mathbb{E}[p^2])": Defined(V.replace("%s", r"\mathbb{E}[p^2]"), "generative:qpriv:variance"),
            r"v(\mu)": Defined(V.replace("%s", r"\mu"), "generative:qpriv:variance"),
        }
    ),
    "generative:thm4:protocol:two-reports": Reading(
        letters={"c": Defined(r"\frac{e^{\epsilon_0/2}}{(e^{\epsilon_0/2}-1)^2}", "generative:qpriv:variance")}
    ),
    "generative:thm5": Reading(
        [Side(0)],
        {
            r"\alpha_#^{(i)}": Side(1, 1, each="l"),
            r"\sum_{j=1}^{n}\|X_{ij}-\bm{\mu}_#\|^2": lambda i, n, xbar, mus, squares: (
                n * (xbar - mus[i - 1]) ** 2 + squares
            ),
        },
    ),
    "generative:alg1": Reading(unread="judged is where the algorithm ends"),
    "generative:alg1:collapse": Reading(unread="judged is where the algorithm ends"),
    "generative:alg1:em": EXPECTATION,
    "generative:eq12:gauss": Reading(letters=THETAS),
    "generative:eq12:laplace": Reading(letters=THETAS),
    "generative:eq12:laplace:scale": Reading(letters={r"\|\bm{\theta}_#-\bm{\mu}\|_{1}": "gaps", "m": "length", "d": 1}),
    "generative:eq12:mixture": Reading([Side(through=reciprocal_exp)], THETAS),
    "generative:eq12:logistic": Reading(unread="the display is in words"),
    "generative:eq14": Reading(
        letters={
            "n": lambda length, m: length // m,
            "d": 1,
            r"\bm{\theta}_#": lambda i, theta1, theta2: (theta1, theta2)[i - 1],
            r"\bm{\mu}": "mu1",
            r"Y_{##}": lambda i, j, y, m: y[(i - 1) * (len(y) // m) + j - 1],
            r"\langle\bm{\theta}_#,X_{##}\rangle": lambda i, i2, j, x, theta1, theta2, m: (
                (theta1, theta2)[i - 1] * x[(i2 - 1) * (len(x) // m) + j - 1]
            ),
        }
    ),
    "generative:lemma1": PROBABILITY,
    "generative:lemma1:sharp": PROBABILITY,
    "generative:lemma1:norm": PROBABILITY,
    "generative:clip-radius": Reading(unread="judged is the square of the longest mean"),
    "generative:clip-radius:r": Reading(unread="judged is the square of the longest mean"),
    "generative:thm6": Reading([Side(1), Side(0, through=first), Side(0, through=second)], REGRESSION),
    "generative:eq62": Reading([Side(-1, through=first), Side(-1, through=second)], REGRESSION | COEFFICIENTS),
    "generative:eq64": Reading([Side(-1, through=first), Side(-1, through=second)], REGRESSION | COEFFICIENTS),
    "generative:thm6:parts": Reading(unread="judged are both terms of the displayed sum"),
    "generative:eq18": Reading(lambda rank: [Side(-1) if int(rank) == 2 else None], REGRESSION),
    "generative:eq19": FLOOR,
    "generative:eq19:local": Reading([Side(0)]),
    "generative:eq19:penalised": FLOOR,
    "generative:eq19:variance": Reading(letters={r"\|\mu-\theta_#\|^2": "squares", "m": "length"}),
    "generative:eq20": Reading(letters=LOGISTIC),
    "generative:eq21": Reading([Side(through=reciprocal_exp)], MIXED),
    "generative:alg2": Reading(
        [Side(0, through=first), Side(0, through=second), Side(1, through=first), Side(1, through=second), Side(2), Side(3)],
        VECTORS,
    ),
    "generative:alg2:server": Reading(
        letters={
            "m": "length",
            r"\bm{\mu}_#^t": Defined(r"\mu-\eta\frac{\mu-\theta_#}{\sigma_\theta^2}", "Algorithm 2"),
            r"\sigma_{\theta,#}^{2,t}": Defined(
                r"\sigma_\theta^2"
                r"-\eta\Big(\frac{1}{2\sigma_\theta^2}-\frac{(\mu-\theta_#)^2}{2\sigma_\theta^4}\Big)",
                "Algorithm 2",
            ),
            r"\sigma_{x,#}^{2,t}": Defined(
                r"\sigma_x^2-\eta\Big(\frac{1}{2\sigma_x^2}-\frac{(Y_#-X_#\theta_#)^2}{2\sigma_x^4}\Big)", "Algorithm 2"
            ),
            r"\mu": "mu",
            r"\theta_#": "theta",
            "X_#": "x",
            "Y_#": "y",
            r"\eta": "eta",
        }
    ),
    "generative:alg2:positive": SIGN,
    "generative:alg2:drift": Reading([Side(0)]),
    "generative:alg3": Reading([None, Side(1), Side(2)], SCALARS),
    "generative:alg4": GRADIENT,
    "generative:alg7": Reading(unread="judged is the ratio of two weights"),
    "generative:alg7:map": Reading(unread="the display is in words"),
    "generative:eq19:calibrated": Reading(letters={"n": lambda shape: int(shape[0]), "d": lambda shape: int(shape[-1])}),
    "generative:eq19:marginal-floor": Reading(letters={r"\mathrm{rss}": "rss"}),
    "generative:kd:density": Reading(
        [Side(through=lambda c: sp.log(c))],
        {
            "p(x)": 1,
            r"p_{\bm{\mu}}(x)": "p_mu",
            r"H(p_{\bm{\mu}}(x))": lambda p_mu: -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu),
            "B": lambda: sp.beta,
        },
        count=lambda: 1,
    ),
    "generative:kd:expanded": Reading(
        [Side(-1, through=lambda density: sp.log(density))], LABELS | {"p(x)": "p_x"}, count=lambda: 1
    ),
    "generative:kd:integral": Reading([Side(-1)], LABELS | {"p(x)": 1, r"\psi": "strength"}, count=lambda: 1),
    "generative:kd:density:inputs": Reading(
        [Side(0)],
        {"a_#": "a", "b_#": "b", r"p_\mu(#)": lambda i, a, b: a[i - 1] / (a[i - 1] + b[i - 1]), "B": lambda: sp.beta},
    ),
    "generative:kd:regulariser": Reading(unread="judged is a limit of the display"),
    "generative:kd:regulariser:slope": Reading(unread="judged is a slope of the display"),
    "generative:kd:regulariser:certain": Reading(unread="judged is the ratio of the two sides"),
    "generative:eq23": FLOOR,
    "generative:eq23:psi": Reading(letters={r"f_#^{\mathsf{KD}}(\theta_#,\mu)": lambda i, j, kd: kd[i - 1], "m": "length"}),
    "generative:eq23:penalised": Reading(HALF_LOG),
    "generative:alg5": Reading([None, None, Side(2)], DISTILLED),
    "generative:alg6": GRADIENT,
    "generative:alg5:server": Reading([Side(-2), Side(-1)], AVERAGES),
    "generative:alg6:server": Reading([Side(-2), Side(-1)], AVERAGES),
    "generative:alg5:positive": SIGN,
    "generative:bern:evidence": Reading(
        letters={
            "n": lambda ones, zeros: sp.Integer(ones + zeros),
            "z_i": "ones",
            "B": lambda: lambda x, y: sp.gamma(x) * sp.gamma(y) / sp.gamma(x + y),
        }
    ),
    "generative:lemma3": Reading(
        [Side(1, through=lambda pair, order: sp.exp((order - 1) * pair[1]))],
        {
            r"\lambda": "order",
            r"\epsilon_{1}(\lambda)": lambda E1, order: (
                sp.log(((1 + E1) ** order + (1 + E1) ** (1 - order)) / (2 + E1)) / (order - 1)
            ),
            r"\epsilon_{2}(\lambda)": lambda moment, more, order: sp.log(1 + moment + more) / (order - 1),
        },
    ),
    "generative:lemma2:delta": Reading(letters=ORDERS),
    "generative:lemma2:eps": Reading(letters=ORDERS),
    "generative:thm7:noise": Reading([Side(-1)]),
    "generative:thm7:conditions": Reading(
        [Side(0)],
        {
            r"\frac{K}{m}": "q",
            "K": 1,
            r"\sigma_{q_1}^2": 1,
            "C_1": lambda load, order, small_order: sp.sqrt((load if small_order else 1 + 20 * load) / sp.Integer(order)),
        },
    ),
    "generative:thm7:valid": Reading(
        [Side(0)],
        {
            "x": Side(1, 1),
            "s": lambda adjacency: 2 if adjacency == "replace" else 1,
            r"\frac{K}{m}": lambda K, m: sp.Min(K, m) / m,
        },
    ),
    "generative:thm7:averaged": Reading(
        [Side(through=first), Side(through=second)],
        {"s": lambda adjacency: 2 if adjacency == "replace" else 1, r"\min": lambda: lambda a, b: sp.Matrix([a, b])},
    ),
    "generative:thm2:ldp": BOUND_ON_DELTA,
    "generative:thm2:ldp:box": BOUND_ON_DELTA,
    "generative:exp:bernoulli": NUMBERS,
    "generative:exp:elections": NUMBERS,
    "generative:exp:elections:best": NUMBERS,
    "generative:exp:fedem": NUMBERS,
    "generative:exp:sampled": NUMBERS,
    "generative:exp:linreg": NUMBERS,
    "generative:exp:linreg:order": NUMBERS,
    "generative:exp:fig4:worse": Reading(unread="the display is in words"),
    "generative:exp:fig4:high-eps": Reading(unread="judged is a ratio of two such noises"),
}
