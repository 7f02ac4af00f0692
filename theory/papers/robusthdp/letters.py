r"""The letters of the paper in the claims' variables, and how each display gives what is judged.

Belongs here: what is read by theory.engine.literal. Does not belong here: claims, edits (they are the claims').
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from theory.engine.literal import Defined, Reading, Side

THIRD = Defined(r"\frac{c^2 - \|G_i(\boldsymbol{\theta})\|^2}{b_i} + \frac{pc^2z^2}{b_i^2}", "(3)")

LETTERS = {
    "b_i": "b",
    "c": "c",
    "p": "p",
    "z": "z",
    r"z^2(\epsilon_i, \delta_i, q_i, K_i, E)": lambda z: z**2,
    r"\|G_i(\boldsymbol{\theta})\|": lambda alignment, c: alignment * c,  # the claims' share of the clipping norm
    r"\sigma_{i,\text{dp}}^2": lambda c, z: c**2 * z**2,  # (2)
    "K_i": "K",
    "q_i": lambda b, N: b / N,
    r"\eta_l": "eta",
    r"\sigma_{i,\tilde{g}}^2": lambda alignment: THIRD,
    r"G_i(\theta)": "G",
    r"\nabla f_i(\boldsymbol{\theta})": lambda gradients: sum(gradients) / len(gradients),
    r"\sigma_#^2": "sigma2s",
    r"\epsilon_#": "eps",
    r"\epsilon": "eps",
    "E_#": "steps",
    "l": "length",
    "U": "U",
    "k": "k",
    "x": "x",
    r"\rho": "rho",
    r"\alpha^2": "alpha2",
    "r": "r",
    r"\|\mathbf{S}_{:,#}\|_2^2": lambda i, sigma2s, p: p * sigma2s[i - 1],  # the columns hold the noise alone
}

LEAST = Defined(r"\frac1{\sum_j1/\sigma_j^2}", "after (8)")
GIVEN = {"w_#": lambda i, weights: weights[i - 1] / sum(weights)}
BOUND_ON_DELTA = Reading(unread="judged is the delta that this noise reaches, which the display does not show")
SIGN = Reading(unread="judged is the sign of a change, which the display says in words")


def _counts(steps: Sequence[Any]) -> list[Any]:
    """Local steps of the clients."""
    return [steps[0], *(steps[0] + k - 1 for k in steps[1:])]


def _step(steps: Sequence[Any], u: Any) -> Any:
    """The step size of the claim on Theorem 2."""
    n = len(steps)
    return u * sp.Rational(2 * n + 1, 24 * (n + 1)) / sum(k**2 for k in _counts(steps))


THEOREM_2 = {
    r"E_l^{\min}": lambda steps: steps[0],
    r"f(\theta^0) - f^*": lambda dist: dist**2 / 2,
    r"\Psi_\sigma^e": Side(1, -1),
    r"\Psi_p^e": Side(2, -1),
    "E": "E",
    "n": "length",
    r"\eta_l": _step,
    r"\beta": 1,
    "E_#": lambda i, steps: _counts(steps)[i - 1],
    r"\sigma^2": "sigma2",
    r"\sigma_{#,\tilde{g}}^2": "noise",
    "L_0": 1,
    r"n \sum_{i=1}^n E_i^2 \mathbb{E}[(w_i^e - \lambda_i)^2]": "off",
    r"\|\lambda\|^2 \sum_{i=1}^n \mathbb{E}[(E_i - \mu_w^e)^2]": 0,
}

READINGS = {
    "robusthdp:gauss": BOUND_ON_DELTA,
    "robusthdp:gauss:range": BOUND_ON_DELTA,
    "robusthdp:eq3:approx": Reading(unread="judged is the relative error of the approximation"),
    "robusthdp:eq3:any-clip": Reading(
        letters={
            r"\|G_i\|^2": lambda alignment, c, clipped, length: (alignment * c) ** 2 * (clipped + length**2 * (1 - clipped))
        }
    ),
    "robusthdp:eq5": Reading(
        [Side(0, 2), Side(0, 3)],
        {r"\text{Var}(g_i(\boldsymbol{\theta}))": lambda sigma2_g, used: sigma2_g * used, r"\sigma_{i,g}^2": "sigma2_g"},
    ),
    "robusthdp:z-sublinear": Reading([Side(-2), Side(-1)]),
    "robusthdp:thm1:sampled": Reading([Side(-1)]),
    "robusthdp:z-sublinear:order2": Reading([Side(0, -1), Side(0, 0)]),
    "robusthdp:eq8:weights": Reading([Side(-1, each="i")]),
    "robusthdp:eq8:unique": Reading(unread="the display is in words"),
    "robusthdp:eq8:minvar": Reading([Side(0)], {"w_#": Side(1, 1, each="i")}),
    "robusthdp:eq8:loss": Reading(letters=GIVEN),
    "robusthdp:eq8:eps-weights": Reading([Side(-1)]),
    "robusthdp:eq8:eps-loss:alike": Reading([Side(-1)], {r"\bar\epsilon": Defined(r"\frac1l\sum_i\epsilon_i", "the mean")}),
    "robusthdp:lem1:mean": Reading(unread="judged is the mean that the deviation is taken from"),
    "robusthdp:lem1:tail": Reading(),
    "robusthdp:small-alpha:excess": Reading(
        [Side(0, 0)],
        {r"\min": LEAST, "w_#": Defined(r"\frac{1/(r^2\sigma_#^2+\alpha^2)}{\sum_i1/(r^2\sigma_i^2+\alpha^2)}", "Lemma 1")},
    ),
    "robusthdp:small-alpha:bound": Reading([Side(0)]),
    "robusthdp:alg1": Reading([Side(0, each="i"), None, None]),
    "robusthdp:alg1:columns": Reading(unread="judged are indices"),
    "robusthdp:alg1:rounds": Reading(unread="judged are indices"),
    "robusthdp:thm1:any-constants": Reading([Side(-1, -1)]),
    "robusthdp:thm1:parallel": Reading(
        [Side(through=lambda pair: sp.exp(pair[0])), Side(through=lambda pair: pair[1])],
        {
            r"\epsilon_#": lambda i, E1, E_more: sp.log(1 + E1 + (E_more if i == 2 else 0)),
            # The larger delta is what the other one leaves, and a share of it.
            r"\delta_#": lambda i, delta1, delta2, larger: (
                1 - (1 - delta1) * (1 - delta2) if i == larger else (delta1, delta2)[i - 1]
            ),
            "n": 2,
        },
    ),
    "robusthdp:thm1:rule": Reading(unread="judged is the epsilon that this noise reaches"),
    "robusthdp:thm2": Reading([Side(0, -1)], THEOREM_2),
    "robusthdp:thm2:similar": SIGN,
    "robusthdp:thm2:participation": SIGN,
    "robusthdp:thm2:psi-sigma": SIGN,
}
