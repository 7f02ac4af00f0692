"""The report on how judges fail together: made by `make joint`, kept in joint.json, shown on the ledger's page.

Belongs here: the file and its words.  Does not belong here: errors, rates and intervals (theory.engine.joint).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from estimators.system import files
from theory.engine import joint
from theory.engine.registry import claims

FILE = Path(__file__).resolve().parent / "joint.json"
COMPARES = {
    "derived": "printed and derived formula, as formulas",
    "oracle": "oracle and derivation, at points",
    "float64": "the function of `estimators` and oracle, and derivation far out",
    "simulated": "the model's raw noise and derivation",
    "attacked": "printed formula and oracle, then derivation, at searched points",
}


def made(chosen: list[Any] | None = None) -> dict[str, dict[str, dict[str, int]]]:
    """The patterns of misses, claim by claim, of errors in one place, the simulation among them or not, and in two."""
    chosen = [c for c in claims() if joint.suited(c)] if chosen is None else chosen
    found = {}
    for claim in tqdm(chosen, unit="claim"):
        rows = joint.rows(claim)
        one, two = ([r for r in rows if len(r.places) == n] for n in (1, 2))
        formulas = [r for r in one if r.places != ("simulate",)]
        found[claim.id] = {k: joint.patterns(part) for k, part in (("one", one), ("formulas", formulas), ("two", two))}
    return found


def table(found: Mapping[str, Mapping[str, Mapping[str, int]]], which: str) -> joint.Table:
    """The part on errors in "one" place, in one of "formulas", or in "two"."""
    return {k: part[which] for k, part in found.items()}


def words(found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """The report as Markdown."""
    one, formulas, two = (joint.rates(table(found, which)) for which in ("one", "formulas", "two"))
    pairs = joint.ratios(table(found, "one"))
    told = [r for r in pairs if r.ratio is not None and r.low is not None]
    high, low = max(told, key=lambda r: r.ratio or 0), min(told, key=lambda r: r.ratio or 0)
    apart = sum(not (r.low or 0) <= 1 <= (r.high or 0) for r in told)
    rates = "\n".join(f"| *{j}* | {COMPARES[j]} | {_share(one[j])} | {_share(two[j])} |" for j in joint.JUDGES)
    listed = "\n".join(f"| {r.first}, {r.second} | {r.joint} | {r.expected:.0f} | {_ratio(r)} |" for r in pairs)
    blind, runs = one["all"][0] - formulas["all"][0], one["all"][1] - formulas["all"][1]
    return f"""## How judges fail together

On {len(found)} claims that every judge has something to say of, errors were made on purpose: a slip of the pen, a variance
doubled, a noise left out, two of a kind swapped, another reading of a switch. Made in one formula (printed, or in the model
of derivation, oracle or float function), **{formulas["all"][0]} of {formulas["all"][1]} pass every judge**. Made in the
simulation's model alone, {blind} of {runs} do: at the point simulated they change nothing that is read. Of the same errors
made in two places at once, as one hand would, {two["all"][0]} of {two["all"][1]} pass. What is wrong everywhere passes,
which is why readers see the model.

| judge | compares | misses, error in one place | in two places |
| --- | --- | --- | --- |
{rates}
| all | | {_share(one["all"])} | {_share(two["all"])} |

Judges are not independent: {apart} of {len(told)} pairs miss errors in one place together more often, or more seldom, than
the product of their rates says. Most together: {high.first} and {high.second}, {_ratio(high)} times; least:
{low.first} and {low.second}, {_ratio(low)} times, since they guard different places. (95 % intervals, claims drawn anew.)

| pair | joint misses | if independent | ratio |
| --- | --- | --- | --- |
{listed}
"""


def _share(part: tuple[int, int]) -> str:
    return f"{part[0]} of {part[1]} ({part[0] / part[1]:.1%})"


def _ratio(r: joint.Ratio) -> str:
    if r.ratio is None:
        return "none: one of them misses nothing"
    return f"{r.ratio:.2f}" + (f" ({r.low:.2f} to {r.high:.2f})" if r.low is not None and r.high is not None else "")


def load() -> dict[str, dict[str, dict[str, int]]]:
    """What the last `make joint` found."""
    return json.loads(FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    found = made()
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(found.items()))
    files.write(FILE, "{\n" + lines + "\n}\n")
    print(words(found))
