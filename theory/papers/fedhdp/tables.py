"""FedHDP, the experiments' tables: do the printed differences follow from the accuracies beside them?

Belongs here: arithmetic on printed numbers (accuracies.csv, transcribed from Tables 2, 3 and 8-11). Does not belong
here: running the experiments.
"""

from __future__ import annotations

import csv
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import sympy as sp

from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.registry import register

TABLES = (2, 3, 8, 9, 10, 11)


@cache
def accuracy_gaps() -> tuple[dict[str, str], ...]:
    """Every printed difference with the two accuracies that it should follow from, as printed text."""
    found = []
    with open(Path(__file__).with_name("accuracies.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for kind in ("g", "l"):
                p, np_, gap = row[f"acc_{kind}_p"], row[f"acc_{kind}_np"], row[f"delta_{kind}"]
                if p and np_ and gap:
                    where = f"Table {row['table']}, {row['setting']}, {row['algorithm']} {row['r'] and 'r=' + row['r']}"
                    found.append({"table": row["table"], "where": f"{where.strip()}, delta_{kind}", "p": p, "np": np_,
                                  "gap": gap})  # fmt: skip
    return tuple(found)


def _half_unit(text: str) -> Fraction:
    """Half a unit in the last printed place."""
    digits = len(text.partition(".")[2])
    return Fraction(1, 2 * 10**digits)


def impossible(cell: dict[str, str]) -> bool:
    """Whether no numbers that round to the printed accuracies have a difference that rounds to the printed one."""
    slack = sum((_half_unit(cell[k]) for k in ("p", "np", "gap")), Fraction(0))
    return abs(Fraction(cell["np"]) - Fraction(cell["p"]) - Fraction(cell["gap"])) > slack


def _derive(table: int) -> Derivation:
    d = Derivation()
    cells = [c for c in accuracy_gaps() if int(c["table"]) == table]
    d.say(f"Table {table} prints {len(cells)} differences beside both accuracies. Each number may be off by half a unit "
          "in its last printed place. Cells that rounding cannot explain:")  # fmt: skip
    wrong = [c for c in cells if impossible(c)]
    for c in wrong:
        d.say(f"{c['where']}: {c['np']} - {c['p']} = {Decimal(c['np']) - Decimal(c['p'])}, printed {c['gap']}")
    return d.conclude("Their number:", sp.Integer(len(wrong)))


def _oracle(table: int) -> Any:
    """Intervals: the set of possible differences against the set of numbers that print as the given one."""
    count = 0
    for c in accuracy_gaps():
        if int(c["table"]) != table:
            continue

        def interval(text: str) -> tuple[Decimal, Decimal]:
            value = Decimal(text)
            half = Decimal(5).scaleb(int(value.as_tuple().exponent) - 1)
            return value - half, value + half

        (a, b), (x, y), (lo, hi) = interval(c["p"]), interval(c["np"]), interval(c["gap"])
        count += y - a < lo or x - b > hi
    return sp.Integer(count)


register(
    Claim(
        id="fedhdp:tables:delta",
        title="The difference columns of the accuracy tables",
        place="Tables 2, 3, 8-11",
        statement="Each printed gain of non-private over private clients is the difference of the two accuracies beside "
        "it. Judged as the number of cells per table that rounding cannot explain.",
        latex=r"\triangle_g=Acc_{g,np}-Acc_{g,p},\qquad\triangle_l=Acc_{l,np}-Acc_{l,p}",
        kind="number",
        variables=(Variable("table", "choice", "number of the table", choices=TABLES),),
        examples=({"table": 8},),
        printed=lambda: sp.Integer(0),
        derive=_derive,
        oracle=_oracle,
        corrected=lambda table: sp.Integer({2: 0, 3: 0, 8: 1, 9: 3, 10: 1, 11: 0}[table]),
        corrected_text="Five cells: Table 8, lambda 0.005, r=0.001, global: 0.96 (printed 0.94). Table 9, lambda 0.05: "
        "r=0.5 global 5.53 (5.33), r=0.75 global 2.96 (2.94); lambda 0.25, r=0.025 local +0.40 (-0.4). Table 10, lambda "
        "0.05, r=0.025 local 1.58 (0.52).",
        slip="slips of arithmetic or typing in single cells",
        counterexample={"table": 10},
        not_computed="arithmetic on printed decimals",
        not_simulated="arithmetic on printed decimals",
        unit="cells",
    )
)
