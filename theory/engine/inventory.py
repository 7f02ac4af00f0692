"""What a paper states, place by place: which claims judge it, or why nothing can.

A paper's package may hold a module ``inventory`` with ``TEXT``, the fingerprint of the text that was read, and ``ITEMS``.
With that text at hand the check finds gaps: a line that no item covers, a numbered equation, theorem or table that no
item names, a quoted percentage or factor that no item lists, a comparison in words passed over as prose.

Belongs here: the record, the check, counts.  Does not belong here: any paper's items, the papers' texts.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from theory.engine import registry
from theory.engine.lines import join_texts
from theory.engine.paper import papers
from theory.engine.problem import Malformed

REASONS = {
    "prose": "asserts nothing that could be true or false of a value: motivation, names, what follows where",
    "definition": "fixes a letter, a model or a variable; nothing is asserted of it",
    "setting": "says how an experiment was run: data, network, rates, seeds",
    "training": "comes out of training: the learning benchmark judges it",
    "cited": "another paper's result, quoted as such; what is taken from it is judged where it is used",
    "unquantified": "a judgement without a quantity that a model would fix, or an order of magnitude with hidden constants",
    "unpublished": "speaks of something that the paper does not give: a proof, code, a plot without its numbers",
    "furniture": "title, authors, acknowledgements, references, captions without a statement, what the conversion left",
    "to do": "can be judged, and is not yet: a gap",
}
SILENT = ("prose", "furniture")
"""Reasons that may not stand alone where a line names, counts or compares something."""

EQUATION = re.compile(r"\((\d{1,3}[a-z]?)\)[\s$.,}*]*$")
NAMED = ("Theorem", "Lemma", "Corollary", "Proposition", "Remark", "Definition", "Assumption", "Algorithm", "Table",
         "Figure", "Claim", "Fact")  # fmt: skip
HEADING = re.compile(rf"^\W*((?:{'|'.join(NAMED)}) [A-Z]?\.?\d+(?:\.\d+)?)")
STRONG = ("Theorem", "Lemma", "Corollary", "Proposition", "Claim", "Fact")
QUOTED = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?(?:\\?%|percent|times\b|fold\b|[x×](?=\s))")
COMPARED = re.compile(
    r"\b(at least|at most|always|never|optimal\w*|outperform\w*|improv\w+|increas\w+|decreas\w+|reduc\w+|monoton\w+|"
    r"vanish\w*|converge\w*|unbiased|"
    r"(?:larger|smaller|higher|lower|better|worse|more|less|fewer|greater) \w+(?: \w+){0,3} than)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a paper says.

    Attributes
    ----------
    lines : the line of the text, or the first and last ("12-18").
    place : for readers: section, and the number or name that the paper gives it ("Appendix A.1, (9)", "Theorem 2").
    what : what is said, in a few own words.
    claims : ids of the claims that judge it; empty where none can.
    reason : a key of `REASONS` where no claim judges it.
    quotes : percentages and factors of the running text that this item is about, as printed ("36%", "2.5 times").
    entry : of numbers that come out of training, the experiment of the learning benchmark, where there is one.
    """

    lines: str
    place: str
    what: str
    claims: tuple[str, ...] = ()
    reason: str = ""
    quotes: tuple[str, ...] = ()
    entry: str = ""

    def __post_init__(self) -> None:
        join_texts(self)
        if not re.fullmatch(r"\d+(-\d+)?", self.lines) or self.first > self.last:
            raise Malformed(f"lines {self.lines!r} of {self.place!r}", "give a line, or the first and the last: '12-18'")
        if bool(self.claims) == bool(self.reason):
            raise Malformed(f"{self.place!r} has {'both' if self.reason else 'neither'}", "give either claims or a reason")
        if self.reason and self.reason not in REASONS:
            raise Malformed(f"reason {self.reason!r} of {self.place!r} is none", f"take one of {', '.join(REASONS)}")
        if not self.place or not self.what:
            raise Malformed(f"lines {self.lines} lack a place or what is said", "give place and what")

    @property
    def first(self) -> int:
        """The first line."""
        return int(self.lines.partition("-")[0])

    @property
    def last(self) -> int:
        """The last line."""
        return int(self.lines.rpartition("-")[2])


def items(paper: str) -> tuple[Item, ...]:
    """The inventory of a paper; empty where none has been written."""
    return tuple(_module(paper).ITEMS) if _has(paper) else ()


def _has(paper: str) -> bool:
    return find_spec(f"{papers()[paper].package}.inventory") is not None


def _module(paper: str) -> ModuleType:
    return import_module(f"{papers()[paper].package}.inventory")


def counts(paper: str) -> dict[str, int]:
    """Number of items, of those that claims judge, and of each reason."""
    found = items(paper)
    reasons = Counter(i.reason for i in found if i.reason)
    return {"items": len(found), "judged": sum(bool(i.claims) for i in found)} | {
        r: reasons[r] for r in REASONS if reasons[r]
    }


def unmapped(paper: str) -> list[str]:
    """Ids of claims of the paper that no item names: each claim has a place in the text, except our own."""
    named = {c for i in items(paper) for c in i.claims}
    return [c.id for c in registry.claims(paper) if c.id not in named and not c.ours]


def gaps(paper: str, text: str | None = None) -> list[str]:
    """What is missing from an inventory, or wrong in it, in words; without the text only what needs none."""
    found = items(paper)
    if not found:
        return [f"{paper}: there is no inventory; write {papers()[paper].package}.inventory with TEXT and ITEMS"]
    wrong = [f"{i.place}: no claim has the id {c}" for i in found for c in i.claims if not registry.known(c)]
    wrong += [f"{c}: no item of the inventory leads to this claim" for c in unmapped(paper)]
    if text is None:
        return wrong
    if fingerprint(text) != _module(paper).TEXT:
        return [f"{paper}: the text is not the one that was read; read what changed, then set TEXT to {fingerprint(text)}"]
    return wrong + list(_gaps(paper, found, text.splitlines()))


def fingerprint(text: str) -> str:
    """What tells one text from another."""
    return hashlib.sha256("\n".join(text.splitlines()).encode()).hexdigest()[:16]


def _gaps(paper: str, found: Sequence[Item], lines: Sequence[str]) -> Iterator[str]:
    beyond = [i for i in found if i.last > len(lines)]
    yield from (f"{i.place}: line {i.last} is beyond the end of the text" for i in beyond)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        here = [i for i in found if i.first <= number <= i.last]
        at = f"{paper}, line {number}"
        if not here:
            yield f"{at}: no item covers it"
            continue
        names = " ".join(i.place for i in here)
        equation, heading = EQUATION.search(line), HEADING.search(line)
        if equation and f"({equation[1]})" not in names:
            yield f"{at}: no item names equation ({equation[1]})"
        if heading and heading[1] not in names:
            yield f"{at}: no item names {heading[1]}"
        speaking = [i for i in here if i.reason not in SILENT]
        if heading and heading[1].startswith(STRONG) and not speaking:
            yield f"{at}: {heading[1]} is passed over as {here[0].reason}"
        if "furniture" in {i.reason for i in here} and not speaking:
            continue
        listed = {_plain(q) for i in speaking for q in i.quotes}
        for quoted in QUOTED.findall(line):
            if _plain(quoted) not in listed:
                yield f"{at}: no item lists the quoted number {quoted!r}"
        compared = COMPARED.search(line)
        if compared and not speaking:
            yield f"{at}: {compared[0]!r} is passed over as prose"


def _plain(quoted: str) -> str:
    return re.sub(r"[\s\\]", "", quoted).replace("×", "x").replace("percent", "%")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print counts and gaps; exit status 1 where there are gaps."""
    parser = argparse.ArgumentParser(prog="python -m theory.engine.inventory", description=main.__doc__)
    parser.add_argument("paper", nargs="*", help="keys of papers (default: all of this toolkit)")
    parser.add_argument("--text", type=Path, help="folder with the papers' texts, KEY.txt")
    a = parser.parse_args(arguments)
    status = 0
    for key in a.paper or [k for k, p in papers().items() if p.own]:
        if key not in papers():
            parser.error(f"unknown paper {key!r}; known are {', '.join(papers())}")
        text = (a.text / f"{key}.txt").read_text(encoding="utf-8") if a.text else None
        found = gaps(key, text)
        print(f"{key}: " + ", ".join(f"{n} {what}" for what, n in counts(key).items()) + f"; {len(found)} gaps")
        print("".join(f"  {gap}\n" for gap in found), end="")
        status |= bool(found)
    return status


__all__ = ["REASONS", "Item", "counts", "fingerprint", "gaps", "items", "unmapped"]

if __name__ == "__main__":
    sys.exit(main())
