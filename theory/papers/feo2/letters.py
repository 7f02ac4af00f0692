"""The letters of the paper in the claims' variables, and how each display gives what is judged.

Belongs here: what is read by theory.engine.literal. Does not belong here: claims, edits (they are the claims').
"""

from __future__ import annotations

from theory.engine.literal import Reading, Side

LETTERS = {
    "N": "N",
    "N_{np}": "N_np",
    "N_p": "N_p",
    r"\rho_{np}": "rho_np",
    r"\sigma_c^2": "sigma2_c",
    r"\gamma^2": "gamma2",
    r"\phi": 0,  # errors are judged
}

VARIANCE = [Side(through=lambda pair: pair[1])]

GAINS = (
    "global, largest",
    "global, mean",
    "local, largest",
    "DP-FedAvg behind non-private",
    "FeO2 behind non-private",
    "opting out, largest",
    "global, local data",
)

READINGS = {
    "feo2:gains": Reading(lambda gain: [Side(GAINS.index(gain))], {r"\%": 1}),  # per cent
    "feo2:theta-np": Reading(VARIANCE),
    "feo2:theta-p": Reading(VARIANCE),
    "feo2:lemma2": Reading(unread="judged is that such strengths exist, not a formula"),
    "feo2:gamma-prop": Reading(unread="judged is a proportion, whose constant the display leaves out"),
}
