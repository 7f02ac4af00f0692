"""Claims on numbers in tables and text: arithmetic on what is printed.

Belongs here: what is added, multiplied or compared. Does not belong here: the numbers (theory/papers).
"""

from __future__ import annotations

import sympy as sp

from theory.coq.defined import About, about
from theory.papers.fedhdp.tables import accuracies, rows_of
from theory.papers.mrmtl.datasets import IMAGES


def _hundredths(text: str) -> int:
    found = 100 * sp.Rational(text)
    assert found.is_Integer
    return int(found)


@about("Objects", "fedhdp:table6")
def _flat(network: str) -> About:
    kept = "28 * 28 * 1" if network == "FC NN" else "28 / 2 / 2 * (28 / 2 / 2) * 32"
    return About("Side times side times channels is the printed size.", f"{kept} = formula", ["lra."])


@about("Objects", "mrmtl:mnist:split")
def _split(part: str) -> About:
    return About("The images of each of 4 times 10 silos.", f"{IMAGES[part][0]} / (4 * 10) = formula", ["lra."])


@about("Objects", "fedhdp:tables:gains")
def _gains(gain: str) -> About:
    ours, theirs = {
        "global": (("acc_g",), "acc_g"),
        "local": (("acc_l_p", "acc_l_np"), "acc_l_p"),
        "opting out": (("acc_l_np",), ""),
        "global, local data": (("acc_g_np",), "acc_g_p"),
    }[gain]
    pairs = []
    for setting in dict.fromkeys(r["setting"] for r in accuracies() if r["table"] in ("2", "3")):
        (base,) = rows_of(setting, "DP-FedAvg+Ditto")
        for row in rows_of(setting, "FedHDP"):
            less = base[theirs] if theirs else row["acc_l_p"]
            pairs += [f"({_hundredths(row[column])}, {_hundredths(less)})" for column in ours]
    cells = "; ".join(pairs)
    return About(
        "The largest difference of two printed accuracies, in hundredths, over a hundred, is the printed gain.",
        f"largest ([{cells}]%Z) / 100\n    = formula",
        ["unfold largest. match goal with |- IZR ?z / _ = _ => let n := eval vm_compute in z in change z with n end. lra."],
    )


@about("Objects", "feo2:tables:delta")
def _differences(setting: str) -> About:
    cells = "; ".join(
        f"({_hundredths(row[f'acc_{k}_np'])}, {_hundredths(row[f'acc_{k}_p'])}, {_hundredths(row[f'delta_{k}'])})"
        for row in rows_of(setting, "FedHDP")
        for k in "gl"
    )
    return About(
        "So many cells, in hundredths, are not the difference of the two beside them, roundings apart.",
        f"off ([{cells}]%Z) = formula",
        ["unfold off. simpl fold_right. reflexivity."],
    )
