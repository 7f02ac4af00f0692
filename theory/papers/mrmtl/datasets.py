"""What Appendix C says of the data sets: counts that must fit each other, splits, the chosen delta.

Belongs here: arithmetic on printed counts. Does not belong here: results of training.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import sympy as sp

from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

ZERO = sp.Integer(0)

# --- totals against the range per silo ----------------------------------------------------------------------------

# silos, all records (of ADNI: 75% of 11040, those for training), fewest and most per silo
TOTALS = {
    "School": (139, 15362, 22, 251),
    "GLEAM": (38, 27800, 699, 776),
    "MNIST": (40, 60000, 1500, 1500),
    "ADNI": (9, 8280, 45, 2685),
}
DATASET = Variable("dataset", "choice", "School, GLEAM, MNIST (training images), ADNI (75% of the images)",
                   choices=tuple(TOTALS))  # fmt: skip


def _totals_derive(dataset: str) -> Derivation:
    d = Derivation()
    silos, total, fewest, most = (sp.Rational(x) for x in map(str, TOTALS[dataset]))
    mean = d.say("Records per silo on average:", total / silos)
    return d.conclude("Above the fewest by, and below the most by", (mean - fewest, most - mean))


def _totals_oracle(dataset: str) -> tuple[Any, Any]:
    """Deal the records out: every silo its fewest, then what is left, which must find room."""
    silos, total, fewest, most = (Fraction(x) for x in TOTALS[dataset])
    left, room = total, Fraction(0)
    for _ in range(int(silos)):
        left -= fewest
        room += most - fewest
    return sp.Rational(left / silos), sp.Rational((room - left) / silos)


register(
    Claim(
        id="mrmtl:tabA1:totals",
        title="Totals and ranges of the data sets",
        place="Appendix C.1, Table A1, Vehicle, School, GLEAM, Rotated & Masked MNIST, ADNI",
        statement="""So many records in so many silos, each within the printed range. Judged: the mean per silo lies within
            it.""",
        latex=r"K=38\text{ silos (wearers) and }27800\text{ data points, with each silo containing }699\leq n_{k}\leq 776",
        kind="order",
        variables=(DATASET,),
        examples=({"dataset": "School"}, {"dataset": "GLEAM"}, {"dataset": "MNIST"}, {"dataset": "ADNI"}),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_totals_derive,
        oracle=_totals_oracle,
        tight=Tight(at={"dataset": "MNIST"}),
        not_computed=Exempt(kind="constant"),
        not_simulated=Exempt(kind="deterministic"),
        entries=("mean minus the fewest", "most minus the mean"),
        unit="records",
        related=("mrmtl:school:split",),
        remark="""For GLEAM the text gives 699 to 776 as all data of a wearer, and the total agrees with that; Table A1 calls
            the same numbers training examples, which leaves none for testing. For Vehicle and CIFAR-10 no total is
            printed.""",
    )
)


# --- School's split -----------------------------------------------------------------------------------------------

SCHOOLS = {"smallest": (22, 15), "largest": (251, 175)}
SCHOOL = Variable("school", "choice", "the smallest (22 records) or the largest school (251)", choices=tuple(SCHOOLS))


def _split_derive(school: str) -> Derivation:
    d = Derivation()
    records, _ = SCHOOLS[school]
    share = d.say("Share for training:", sp.Rational(80, 100))
    exact = d.say("Records for training:", share * records)
    return d.conclude("in whole records, at least", sp.floor(exact))


def _split_oracle(school: str) -> Any:
    """The most training records that leave at least a fifth for testing."""
    records = SCHOOLS[school][0]
    return sp.Integer(max(n for n in range(records) if 5 * (records - n) >= records))


register(
    Claim(
        id="mrmtl:school:split",
        title="Training examples of the schools at an 80%/20% split",
        place="Appendix C.1, School; Table A1",
        statement="""Schools of 22 to 251 records, split 80%/20%, give 15 to 175 training examples. Judged: the training
            examples of the smallest and of the largest school.""",
        latex=r"""\text{80\%/20\% train/test split (with }15\leq n_{k}^{\text{train}}\leq
            175\text{ training examples in each silo)}""",
        kind="number",
        variables=(SCHOOL,),
        examples=({"school": "smallest"}, {"school": "largest"}),
        printed=lambda school: sp.Integer(SCHOOLS[school][1]),
        derive=_split_derive,
        oracle=_split_oracle,
        counterexample={"school": "largest"},
        corrected=lambda school: sp.Integer({"smallest": 17, "largest": 200}[school]),
        corrected_text="17 to 200; 15 to 175 is what 70%/30% gives (15.4 and 175.7)",
        finding="""The printed range of training examples belongs to a 70/30 split of the schools, not to the 80/20 split of
            the text.""",
        not_computed=Exempt(kind="arithmetic"),
        not_simulated=Exempt(kind="arithmetic"),
        unit="records",
        related=("mrmtl:tabA1:totals",),
        remark="Both ends miss by more than rounding. Table A1 prints 15 and 175 as well.",
    )
)


# --- Rotated & Masked MNIST ---------------------------------------------------------------------------------------

PART = Variable("part", "choice", "60000 training or 10000 test images", choices=("train", "test"))
IMAGES = {"train": (60000, 1500), "test": (10000, 250)}


def _mnist_derive(part: str) -> Derivation:
    d = Derivation()
    silos = d.say("4 groups of 10 silos:", sp.Integer(4) * 10)
    return d.conclude("Images per silo:", IMAGES[part][0] / silos)


def _mnist_oracle(part: str) -> Any:
    """Deal the images to the silos in turn and count those of the last."""
    return sp.Integer(sum(1 for i in range(IMAGES[part][0]) if i % 40 == 39))


register(
    Claim(
        id="mrmtl:mnist:split",
        title="Images per silo of Rotated & Masked MNIST",
        place="Section 5, 'MR-MTL under structured heterogeneity'; Appendix C.1, Rotated & Masked MNIST",
        statement="60000/10000 images, evenly separated into 40 silos, are 1500/250 each; the silos are 4 groups of 10.",
        latex=r"""\text{60000/10000 train/test images }\dots\ K=40\text{ clients (silos), each with 1500/250 train/test
            images}""",
        kind="number",
        variables=(PART,),
        examples=({"part": "train"}, {"part": "test"}),
        printed=lambda part: sp.Integer(IMAGES[part][1]),
        derive=_mnist_derive,
        oracle=_mnist_oracle,
        not_computed=Exempt(kind="arithmetic"),
        not_simulated=Exempt(kind="arithmetic"),
        unit="images",
    )
)


# --- delta --------------------------------------------------------------------------------------------------------

# exponent of the printed delta, and the largest printed number of training examples of a silo
DELTAS = {"Vehicle": (7, 1933), "School": (3, 175), "CIFAR-10": (4, 1839)}
CHOSEN = Variable("dataset", "choice", "data set for which a delta is printed", choices=tuple(DELTAS))


def _delta_derive(dataset: str) -> Derivation:
    d = Derivation()
    digits, largest = DELTAS[dataset]
    bound = d.say("n_k^(-11/10) falls with n_k; at the largest silo it is", sp.Integer(largest) ** sp.Rational(-11, 10))
    return d.conclude("delta over it:", sp.Rational(1, 10**digits) / bound)


def _delta_oracle(dataset: str) -> sp.Float:
    digits, largest = DELTAS[dataset]
    with mpmath.workdps(60):
        ratio = mpmath.exp(mpmath.mpf(11) / 10 * mpmath.log(largest)) / mpmath.mpf(10) ** digits
        return sp.Float(mpmath.nstr(ratio, 50), 50)


register(
    Claim(
        id="mrmtl:delta",
        title="The chosen delta against the sizes of the silos",
        place="Appendix C.4, Hyperparameters, with Figures 2, A2 to A5 and Table A1",
        statement="""For all data sets delta < n_k^-1.1. Judged where delta is printed (1e-7 for Vehicle, 1e-3 for School,
            1e-4 for CIFAR-10), at the largest silo: delta n_k^1.1 is at most 1.""",
        latex=r"\delta<n_{k}^{-1.1}",
        kind="number",
        variables=(CHOSEN,),
        examples=({"dataset": "School"}, {"dataset": "Vehicle"}, {"dataset": "CIFAR-10"}),
        printed=lambda: sp.Integer(1),
        relation="<=",
        derive=_delta_derive,
        oracle=_delta_oracle,
        tight=Tight(at={"dataset": "School"}, ratio="3.40924448353"),
        not_computed=Exempt(kind="arithmetic"),
        not_simulated=Exempt(kind="arithmetic"),
        unit="dimensionless",
        remark="School's is the closest: .29.",
    )
)
