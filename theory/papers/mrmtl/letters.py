r"""The letters of the paper in the claims' variables, and how each display gives what is judged.

Belongs here: what is read by theory.engine.literal. Does not belong here: claims, edits (they are the claims').
"""

from __future__ import annotations

import sympy as sp

from theory.engine.literal import Defined, Reading, Side
from theory.papers.mrmtl.tuning import MeanRuns

INDICES = {"k": lambda k: k + 1}  # the claims count silos from 0

LETTERS = {
    "n": "n",
    "n_k": "n",
    "K": ("K", "length"),
    r"\lambda": "lam",
    r"\sigma^2": "sigma2",
    r"\tau^2": "tau2",
    r"\sigma_{\mathrm{DP}}^2": "sigma2_dp",
    r"\sigma_{\mathrm{loc}}^2": "sigma2_loc",
    r"\sigma_#^2": "sigma2_k",
    r"\sigma_{#,\mathrm{DP}}^2": "sigma2_dp_k",
    r"\tilde{\sigma}_#^2": "sigma2_loc_k",
    r"\delta": "delta",
    r"\varepsilon": ("eps", lambda E1: sp.log(1 + E1)),
    "c": "c",
    "q": "q",
    "x": "x",
    "h": "h",
    r"\gamma": "gamma",
    r"\eta": "eta",
    r"\alpha": "order",
    r"\sigma": "sigma",
}

OWN, REST = r"\hat{w}_{k}", r"\hat{w}_{\setminus k}"
SIGMA_W = Defined(
    r"\left(\frac{1}{\sigma_{\mathrm{loc}}^{2}}+\frac{K-1}{K\tau^{2}+\sigma_{\mathrm{loc}}^{2}}\right)^{-1}", "Lemma 6.2"
)
SIGMA_BAR = Defined(
    r"\left(\frac{1}{\tilde{\sigma}_{k}^{2}}"
    r"+\frac{(K-1)^{2}}{(K-1)K\tau^{2}+\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}\right)^{-1}",
    "Lemma E.4",
)
BOUND_ON_DELTA = Reading(unread="judged is the delta that this noise reaches, which the display does not show")
DIFFERENCE = Reading(unread="judged is the difference of the two sides, which the display only names")
COST = {
    r"\varepsilon(\alpha_{1})": "eps",
    r"\varepsilon(\alpha_{2})": ("eps2", "eps"),
    r"\alpha_1": "order",
    r"\alpha_2": ("order2", "order"),
    r"\mathbf{E}[h]": lambda eta, gamma: MeanRuns(eta, gamma),
}

READINGS = {
    "mrmtl:lem6.1": Reading([Side(0, of=OWN), Side(0, of=REST)], {r"\alpha": Side(1, 1)}),
    "mrmtl:lem6.1:range": Reading(unread="judged are the distances to the ends of the range"),
    "mrmtl:lem6.1:joint": Reading(unread="the display is the problem, judged is its solution"),
    "mrmtl:lem6.1:algA1": Reading(unread="the display is a step of the algorithm, judged is where it ends"),
    "mrmtl:lem6.2:mu": Reading([Side(of=OWN), Side(of=REST)], {r"\sigma_w^2": SIGMA_W}),
    "mrmtl:best-advantage": Reading([Side(0), None, None]),
    "mrmtl:lemE.3": Reading([Side(0), Side(1, of=r"\phi_#", each="n")], {"z": 0, r"\sigma_{\theta}^2": Side(0, 1)}),
    "mrmtl:eq39": Reading([Side(each="k")]),
    "mrmtl:lemE.4:mu": Reading([Side(of=OWN), Side(of=REST)], {r"\bar{\sigma}_k^2": SIGMA_BAR}),
    "mrmtl:eq29": Reading([Side(0, through=lambda pair: pair[1]), Side(1, through=lambda pair: pair[1])]),
    "mrmtl:eq43": Reading(unread="judged are the variances of the noise terms"),
    "mrmtl:eq48": Reading(letters={r"\bar{\sigma}_k^2": SIGMA_BAR}),
    "mrmtl:large-lam": Reading(unread="the display is a step of the algorithm, judged are its factors"),
    "mrmtl:algA1:silos": Reading(unread="the display is a step of the algorithm, judged is where it ends"),
    "mrmtl:algA1:bayes": DIFFERENCE,
    "mrmtl:thmE.5:algA1:error": Reading(unread="judged is what is lost where the two sides do not meet"),
    "mrmtl:algA2": Reading(unread="the display is a step of the algorithm, judged is where it ends"),
    "mrmtl:eq18:silos": Reading(unread="the display is the problem, judged is its solution"),
    "mrmtl:eq12": Reading(unread="the display is for any two laws, judged are those with two outputs"),
    "mrmtl:eq12:kl": Reading(unread="the display is for any two laws, judged are those with two outputs"),
    "mrmtl:eq15:middle": Reading(unread="judged is the largest value of the expression"),
    "mrmtl:appA:amplification": Reading(unread="judged are eps and delta with the constant that O hides"),
    "mrmtl:appA:amplification:small-eps": Reading(unread="judged are eps and delta with a constant for what O hides"),
    "mrmtl:footnote3": Reading(unread="judged are e^eps and delta of one silo against the largest ones"),
    "mrmtl:delta": Reading(unread="judged is one side over the other"),
    "mrmtl:negative": Reading(unread="judged is the condition in brackets"),
    "mrmtl:negative:gap": Reading(unread="the display is in words"),
    "mrmtl:mmse:strength": Reading([Side(0)]),
    "mrmtl:mmse": DIFFERENCE,
    "mrmtl:mmse:loss": Reading([Side(0)], {"A": Side(1, 1), "H": Side(2, 1)}),
    "mrmtl:eq2": Reading(
        [Side(0, through=lambda pair: pair[1])],
        {"O": "constant", "I": 1, "T": "T", r"\ln(1/\delta_{k})": "log_inverse_delta", r"\varepsilon_k": "eps"},
    ),
    "mrmtl:eq2:noise": Reading(unread="judged is a constant that would do, which the display leaves out"),
    "mrmtl:sigma-dp:sensitivity": Reading(unread="judged is the sensitivity alone"),
    "mrmtl:sigma-dp:exact": Reading(letters={r"\Delta": "sensitivity"}),
    "mrmtl:sigma-dp:vector": Reading(
        [Side(through=lambda pair: pair[0]), Side(through=lambda pair: pair[1])],
        {r"\Delta": lambda changes: sp.Matrix(changes)},
    ),
    "mrmtl:sigma-dp:classical": BOUND_ON_DELTA,
    "mrmtl:sigma-dp:large-eps": BOUND_ON_DELTA,
    "mrmtl:eq13": Reading(letters={r"\inf_{\alpha>1}": 1, r"\varepsilon(\alpha)": "rdp"}),
    "mrmtl:eq14": Reading(unread="judged is the ratio of two such probabilities"),
    "mrmtl:eq14:range": Reading(
        letters={"E": lambda eps: sp.exp(eps), "w": lambda eps, G, score_range: (G - 1) * sp.exp(eps * score_range / 2)}
    ),
    "mrmtl:propF.1": Reading([None, Side(through=lambda cost, order: sp.exp((order - 1) * cost))]),
    "mrmtl:thmF.2": Reading(letters=COST),
    "mrmtl:thmF.2:orders": Reading(letters=COST),
    "mrmtl:thmF.2:poisson": Reading([Side(0)], {r"\varepsilon(\alpha)": "eps", r"\mu": "mean", r"\hat{\delta}": "delta"}),
    "mrmtl:thmF.2:exact": Reading(unread="judged is the moment behind the bound"),
}
