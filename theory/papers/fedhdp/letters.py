r"""The letters of the paper in the claims' variables, and how each display gives what is judged.

Belongs here: what is read by theory.engine.literal. Does not belong here: claims, edits (they are the claims').
"""

from __future__ import annotations

import sympy as sp

from theory.engine.literal import Defined, Reading, Side

LETTERS = {
    "N": "N",
    "N_1": "N1",
    "N_2": "N2",
    "N_#": "sizes",
    r"N_{\mathrm p}": "N_p",
    r"\rho_1": "rho1",
    r"\rho_{\mathrm{np}}": "rho_np",
    r"\alpha^2": "alpha2",
    r"\tau^2": "tau2",
    r"\sigma_c^2": "sigma2_c",
    r"\gamma^2": "gamma2",
    r"\gamma_1^2": "gamma2_1",
    r"\gamma_2^2": "gamma2_2",
    r"\gamma_#^2": "gamma2s",
    r"\Sigma_#": "sigma2s",  # one coordinate
    "I_d": 1,  # one coordinate
    "r": "r",
    "r_#": "r",
    r"\lambda_j": "lam",
    r"\Upsilon^2": Defined(r"\frac{\tau^2}{\alpha^2}", "Lemma 3"),
    r"\Gamma_1^2": Defined(r"\frac{N_1\gamma_1^2}{\alpha^2}", "Lemma 3"),
    r"\Gamma_2^2": Defined(r"\frac{N_2\gamma_2^2}{\alpha^2}", "Lemma 3"),
    r"\Gamma^2": Defined(r"\frac{N_{\mathrm p}\gamma^2}{\alpha^2}", "Theorem 8"),
    r"r^*": Defined(r"\frac{\sigma_c^2+N_1\gamma_1^2}{\sigma_c^2+N_2\gamma_2^2}", "Lemma 2"),
    r"\sigma_{p_#}^2": Defined(r"\sigma_c^2+N_#\gamma_#^2", "Appendix A.1"),
    "n": lambda level: Defined("N_2" if level == 1 else "N_2-1", "after (38)"),
    "m": lambda level: Defined("N_1-1" if level == 1 else "N_1", "after (38)"),
    "i_j": lambda level: Defined("1" if level == 1 else "r", "after (44)"),
    "M_#": lambda i, sizes, level: sizes[i - 1] - int(i == level),  # (71)
}

R = Defined(r"\frac{\sigma_{p_1}^2}{\sigma_{p_2}^2}", "after (52)")
PRINTED_49 = (
    r"\frac{(N_1+N_2r)\big(\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)-\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)\big)}"
    r"{(N_1+N_2r)\big(\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)+\sigma_{p_1}^2\sigma_{p_2}^2\big)"
    r"-i_j\big(\sigma_c^2(#)+\sigma_{p_1}^2\sigma_{p_2}^2\big)}"
)
OWN, FIRST, SECOND = r"\hat\phi_j", r"\sum_{\mathcal C_1,i\neq j}\psi_i", r"\sum_{\mathcal C_2,i\neq j}\psi_i"
MEAN = r"\frac1{n_s}\sum_ix_{j,i}"
STEP = {
    r"\theta": Defined(MEAN, "the line before, at the rate 1 of Lemma 4"),
    MEAN: "x_bar",
    r"\theta_j": "theta_j",
    r"\eta_j": Defined(r"\frac{1}{1+\lambda_j}", "Lemma 4"),
}
STATIONARY = {
    r"\theta": "theta_0",
    r"\theta_j": "theta_j",
    r"\hat\phi_j": "x_bar",
    r"\eta": 1,  # Lemma 4
    r"\eta_p": Defined(r"\frac{1}{1+\lambda_j}", "Lemma 4"),
}
UPDATE = lambda S, norm, inside: S * norm if inside else S / norm  # noqa: E731  the norm of what is clipped
BY_LEVEL = {r"(\mathcal C_1)": 1, r"(\mathcal C_2)": 1}
COMPARED = Reading(unread="judged is a comparison of values that the display only names")
DIFFERENCE = Reading(unread="judged is the difference of the two sides, which the display only names")

LOCAL_RISK = Defined(
    r"\bigg(\Big(\frac{\prod_i\sigma_{p_i}^2+\tau^2\sum_iM_i\prod_{k\neq i}\sigma_{p_k}^2}"
    r"{\sum_iM_i\prod_{k\neq i}\sigma_{p_k}^2}\Big)^{-1}+(\sigma_c^2-\tau^2)^{-1}\bigg)^{-1}",
    "(74)",
)

PER_CENT = {r"\%": 1}

READINGS = {
    "fedhdp:eq1-3": Reading(
        [Side(0, through=lambda eps: sp.exp(eps)), Side(1)],
        {
            r"\epsilon_#": lambda i, E1, E_more: sp.log(1 + E1 + (E_more if i == 2 else 0)),
            # The larger delta is what the other one leaves, and a share of it.
            r"\delta_#": lambda i, delta1, delta2, larger: (
                1 - (1 - delta1) * (1 - delta2) if i == larger else (delta1, delta2)[i - 1]
            ),
        },
        count=lambda: 2,
    ),
    "fedhdp:eq11": Reading([Side(2)], {r"\gamma_i^2": "gamma2"}),
    "fedhdp:lemma7:large-noise": Reading([Side(0), Side(1), Side(2)], {"N": "count"}),
    "fedhdp:table4:noise": Reading([Side(0), Side(0)]),
    "fedhdp:table6": Reading(lambda network: [Side(("FC NN", "CNN").index(network))]),
    "fedhdp:tables:gains": Reading(
        lambda gain: [Side(("global", "local", "opting out", "global, local data").index(gain))], PER_CENT
    ),
    "fedhdp:dp-noise": Reading(
        lambda data: [Side(1 + ("nonIID-MNIST", "FMNIST", "FEMNIST").index(data), through=lambda pair: pair[0])]
    ),
    "fedhdp:lemma1": Reading(
        [Side(0), Side(1, of=r"\psi_#", each="n")],
        {r"\Sigma_{\phi}": Defined(r"\Big(\sum_{i}\Sigma_i^{-1}\Big)^{-1}", "(6)"), r"p_{\phi}": 0},
    ),
    "fedhdp:lemma2:weights": Reading(letters={r"(c_j\in\mathcal C_1)": 1, r"(c_j\in\mathcal C_2)": 1}),
    "fedhdp:lemma7:limits": Reading([Side(0), Side(1), None, None]),
    "fedhdp:eq42": Reading(
        [Side(of=OWN), Side(of=FIRST), Side(of=SECOND), None],  # the last is what p adds to the error
        {r"p_{\theta_j^*}": 0},
    ),
    "fedhdp:eq39": Reading(
        [Side(of=r"\phi^{\setminus j}"), Side(of=OWN), None],  # the last is what p adds to the error
        {
            r"\Sigma_{\theta_j^*}": Defined(
                r"\bigg(\Big(\frac{\sigma_{p_1}^2\sigma_{p_2}^2+\tau^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)}"
                r"{n\sigma_{p_1}^2+m\sigma_{p_2}^2}\Big)^{-1}+(\sigma_c^2-\tau^2)^{-1}\bigg)^{-1}",
                "(40)",
            ),
            r"p_{\theta_j^*}": 0,
        },
    ),
    "fedhdp:eq21": Reading(
        [Side(0, 1)],
        {
            "N_i": "N_p",
            r"\gamma_i^2": "gamma2",
            r"\sigma_{p_i}^2": Defined(r"\alpha^2+\tau^2+N_i\gamma_i^2", "Appendix A.1"),
        },
    ),
    "fedhdp:eq72": Reading(
        [Side(of=r"\sum_{c_{k_2}\in\mathcal C_#,k_2\neq j}\psi_#", each="n"), None],
        {r"p_{\phi^{\setminus j}}": 0},
    ),
    "fedhdp:eq73": Reading(
        [Side(of=r"\phi^{\setminus j}"), Side(of=OWN), None],
        {r"\Sigma_{\theta_j^*}": LOCAL_RISK, r"p_{\theta_j^*}": 0},
    ),
    "fedhdp:eq63": Reading([Side(1, each="i")], {"r_#": Defined(r"\frac{\sigma_{p_1}^2}{\sigma_{p_#}^2}", "(64)")}),
    "fedhdp:eq44": Reading([Side(of=OWN), Side(of=FIRST), Side(of=SECOND), None]),
    "fedhdp:lemma3:lambda": Reading(lambda level: [Side(level - 1)], BY_LEVEL),
    "fedhdp:lemma3:bayes": DIFFERENCE,
    "fedhdp:eq49": Reading(letters={"r": R, "i_j": lambda level: Defined("1" if level == 1 else "r", "after (44)")}),
    "fedhdp:eq50": Reading(letters={"r": R}),
    "fedhdp:eq51": Reading(letters={"r": R}),
    "fedhdp:eq52": Reading(
        letters={
            "r": R,
            r"\lambda_1": Defined(PRINTED_49.replace("#", r"n\sigma_c^2+m\sigma_{p_2}^2"), "(49)"),
            r"\lambda_2": Defined(
                r"\frac{(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}{\sigma_c^2(n\sigma_{p_1}^2+m\sigma_{p_2}^2)"
                r"+\sigma_{p_1}^2\sigma_{p_2}^2-(N_1+N_2r)(\sigma_c^2-\tau^2)\sigma_{p_2}^2}",
                "(50)",
            ),
            r"\lambda_3": Defined(r"\lambda_2", "(51), the same as (50)"),
        }
    ),
    "fedhdp:lemma3:limit-r1": Reading([Side(1), Side(1)]),
    "fedhdp:lemma3:limit-N2": Reading(letters={r"\Gamma_2^2": Defined(r"\frac{N\gamma_2^2}{\alpha^2}", "Lemma 3, N_2 = N")}),
    "fedhdp:lemma3:limit-alpha0": Reading([Side(0), Side(1)]),
    "fedhdp:thm5": Reading(lambda level: [Side(0), Side(level)], BY_LEVEL),
    "fedhdp:r-le-1": COMPARED,
    "fedhdp:lambda-order": COMPARED,
    "fedhdp:table1": Reading(unread="the display is in words"),
    "fedhdp:table4:d": Reading(letters={r"\rho_{\mathrm{np}}": 0}),
    "fedhdp:eq64": Reading([Side(each="i")]),
    "fedhdp:eq75": Reading(
        [Side(of=OWN), Side(of=r"\sum_{c_{k_2}\in\mathcal C_#,k_2\neq j}\psi_#", each="n"), None],
        {
            r"\Sigma_{\theta_j^*}": LOCAL_RISK,
            r"p_{\theta_j^*}": 0,
        },
    ),
    "fedhdp:eq77": Reading(
        [Side(of=OWN), Side(of=r"\sum_{c_k\in\mathcal C_#,k\neq j}\psi_k", each="n"), None],
        {"i_j": lambda level: Defined(rf"r_{level}", "after (77)")},
    ),
    "fedhdp:levels:bayes": DIFFERENCE,
    "fedhdp:alg1": Reading([Side(2)], STEP),
    "fedhdp:alg3": Reading([Side(2)], STEP),
    "fedhdp:alg2": Reading(
        [None, None, None, Side(3), None],
        {r"\theta": UPDATE, r"\|\theta\|_2": UPDATE, "S": "S"},
    ),
    "fedhdp:lemma4": Reading([Side(0), Side(1), None], STATIONARY),
    "fedhdp:tables:delta": DIFFERENCE,
}
