r"""Whether `printed` is what the display says: the claim's LaTeX is read by machine and compared with the transcription.

A paper's package may hold a module ``letters``: ``LETTERS`` says what its letters are (`\sigma_c^2` is `sigma2_c`),
``READINGS`` says of a claim which sides of its display are judged, and what letters mean only there.  A display is read in
every case of the claim and compared at random exact points; a wrong transcription differs at almost all of them.

same      the display, as it stands, is `printed`
edited    it is after the claim's declared edits, each of which is needed
differs   it is not: a slip in `latex` or `printed`, or an edit that is not declared
refused   a declared edit does not stand in the display, changes nothing, or hides that it changes the value
unread    the display is in words, or this reader cannot read it

Belongs here: letters, readings, comparison, their command.  Does not belong here: the grammar (latex.py), any paper.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import sympy as sp
from sympy.matrices import MatrixBase as Matrix

from theory.engine import domain, registry
from theory.engine.algebra import entries
from theory.engine.claim import Claim
from theory.engine.domain import Case, as_text
from theory.engine.latex import Letter, NoRange, Reader, Tokens, Unread, chains, letters, tokens
from theory.engine.paper import papers
from theory.engine.values import Values, differs

VERDICTS = ("same", "edited", "differs", "refused", "unread")
POINTS = 4  # at which both sides have a value, per case
TRIES = 12
WORDS = 4  # with more of them, and no reading, a display is a sentence


@dataclass(frozen=True)
class Defined:
    """What the paper says that a letter stands for, in its own letters, and where; `#` is the index."""

    latex: str
    place: str


@dataclass(frozen=True)
class Side:
    """One judged value: a side of a part of the display (parts stand between commas, wide spaces and words).

    `of` asks for the coefficient of a letter in that side ("" for what is left without those letters); `each` repeats
    the side for every value of an index; `through` turns the side into what is judged, such as its square (a function of
    the side and of the variables that it names).
    """

    part: int = 0
    side: int = -1
    of: str | None = None
    each: str = ""
    through: Callable[[Any], Any] | None = None


Meaning = str | int | Defined | Side | Callable[..., Any] | tuple[Any, ...]
"""What a letter is: a variable's name ("length": of the lists), a number, a definition, a side of the same display, a
function of the indices and of the variables that it names, which gives one of these, a value or a function; or several,
of which the first that the claim's variables allow is taken."""
Parts = list[list[Tokens]]


@dataclass(frozen=True)
class Reading:
    """How a claim's display gives its values: `sides` in the order of its entries (None: not in the display).

    `sides` may be a function of the claim's choices; `letters` are those that mean something else, or only, here;
    `count` is what a sum without ends runs over where that is not the length of the claim's lists; `unread` says why no
    side of the display is what is judged.
    """

    sides: Sequence[Side | None] | Callable[..., Sequence[Side | None]] = ()
    letters: Mapping[str, Meaning] = field(default_factory=dict)
    count: Callable[..., int] | None = None
    unread: str = ""


@dataclass(frozen=True)
class Literal:
    """The outcome for one claim: verdict, what shows it, and which of the judged values stand in the display."""

    claim: str
    verdict: str
    detail: str
    read: tuple[int, ...] = ()
    judged: int = 0


@dataclass(frozen=True)
class Table:
    """What a paper's module of letters says."""

    letters: Mapping[str, Meaning]
    readings: Mapping[str, Reading]
    indices: Mapping[str, Callable[..., int]]


@cache
def table(paper: str) -> Table:
    """The letters and readings of a paper; empty where it has none."""
    name = f"{papers()[paper].package}.letters"
    module = import_module(name) if find_spec(name) else None
    return Table(getattr(module, "LETTERS", {}), getattr(module, "READINGS", {}), getattr(module, "INDICES", {}))


# --- what letters mean in a case


def _known(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The claim's variables in a case, and the papers' letters that follow from them (`sigma2_c = alpha2 + tau2`)."""
    known = dict(arguments)
    changed = True
    while changed:
        changed = False
        for relation in domain.RELATIONS:
            if relation.target in known or relation.convention or any(s not in known for s in relation.sources):
                continue
            if any(not isinstance(known[s], sp.Expr | list) for s in relation.sources):
                continue
            value = relation.implied(known)
            if value is not None:
                known[relation.target] = value
                changed = True
    return known


def _called(function: Callable[..., Any], known: Mapping[str, Any], *indices: Any) -> Any:
    names = list(inspect.signature(function).parameters)[len(indices) :]
    return function(*indices, **{name: known[name] for name in names})


class _InCase:
    """Reads sides of one claim with the symbols, or the numbers, of one case."""

    def __init__(self, claim: Claim, reading: Reading, parts: Parts, case: Case, arguments: Mapping[str, Any]):
        here = table(claim.paper)
        self.parts = parts
        self.known = _known(arguments) | ({} if case.length is None else {"length": case.length})
        self.count = _called(reading.count, self.known) if reading.count else case.length
        self.bound = {k: _called(f, self.known) for k, f in here.indices.items() if self._has(f)}
        meanings = {**{tokens(k): (k, v) for k, v in here.letters.items()},
                    **{tokens(k): (k, v) for k, v in reading.letters.items()}}  # fmt: skip
        usable: dict[str, Callable[..., Any]] = {}
        for phrase, meaning in meanings.values():
            for one in meaning if isinstance(meaning, tuple) else (meaning,):
                if phrase not in usable and self._usable(one, phrase.count("#")):
                    usable[phrase] = self._value(one)
        self.letters: list[Letter] = letters(usable)

    def _has(self, function: Callable[..., Any], indices: int = 0) -> bool:
        return all(name in self.known for name in list(inspect.signature(function).parameters)[indices:])

    def _usable(self, meaning: Meaning, indices: int) -> bool:
        if isinstance(meaning, str):
            return meaning in self.known
        return not callable(meaning) or self._has(meaning, indices)

    def _value(self, meaning: Meaning) -> Callable[..., Any]:
        def value(*indices: int, meaning: Meaning = meaning) -> Any:
            if callable(meaning):
                meaning = _called(meaning, self.known, *indices)
            if isinstance(meaning, Side):
                bound = {**self.bound, **({meaning.each: indices[0]} if meaning.each else {})}
                return Reader(self.letters, self.count, bound).value(self._text(meaning))
            if isinstance(meaning, Defined):
                text = meaning.latex
                for index in indices:
                    text = text.replace("#", f"{{{index}}}", 1) if len(indices) > 1 else text.replace("#", f"{{{index}}}")
                return Reader(self.letters, self.count, self.bound).value(tokens(text))
            found: Any = self.known[meaning] if isinstance(meaning, str) else meaning
            if isinstance(found, Matrix) or (callable(found) and not isinstance(found, sp.Basic)):
                return found
            if isinstance(found, list):
                if len(indices) != 1 or not 1 <= indices[0] <= len(found):
                    raise Unread(f"{meaning} has no entry {indices}")
                found = found[indices[0] - 1]
            return sp.sympify(found)

        return value

    def values(self, sides: Sequence[Side | None]) -> list[Any]:
        """The values of the sides asked for; None for those that do not stand in the display."""
        return [value for side in sides for value in ([None] if side is None else self._side(side, sides))]

    def _text(self, side: Side) -> Tokens:
        try:
            return self.parts[side.part][side.side]
        except IndexError:
            raise Unread(f"the display has no part {side.part} with a side {side.side}") from None

    def _side(self, side: Side, all_sides: Sequence[Side | None]) -> Iterator[Any]:
        text = self._text(side)
        asked = list(dict.fromkeys(s.of for s in all_sides if s is not None and s.of and s.part == side.part))
        for index in range(1, (self.count or 0) + 1) if side.each else (0,):
            bound = {**self.bound, **({side.each: index} if side.each else {})}
            value = self._read(text, asked, bound, None)
            if side.of:
                value = self._read(text, asked, bound, (side.of, index)) - value
            yield value if side.through is None else _called(side.through, self.known, value)

    def _read(self, text: Tokens, asked: list[str], bound: Mapping[str, int], one: Any) -> Any:
        """The side with the letters asked for at zero, but for one of them."""
        switches = {of: lambda *i, of=of: sp.Integer(one is not None and one[0] == of and {*i} <= {one[1]}) for of in asked}
        return Reader(letters(switches) + self.letters, self.count, bound).value(text)


# --- comparison


def literal(claim: Claim) -> Literal:
    """Whether a claim's `printed` is what its display says."""
    if claim.printed is None:
        return Literal(claim.id, "unread", "the paper prints no formula")
    edits = claim.edits
    for edit in edits:
        if edit.printed not in claim.latex:
            return Literal(claim.id, "refused", f"the edit of {edit.printed!r} does not stand in the display")
    found = _compared(claim, _edited(claim.latex, edits))
    if not edits or found.verdict != "same":
        return found
    for edit in edits:
        without = _compared(claim, _edited(claim.latex, [e for e in edits if e is not edit]))
        if without.verdict == "same":
            return Literal(
                claim.id, "refused", f"the edit of {edit.printed!r} is not needed: the display is the same without"
            )
        if without.verdict == "differs" and not edit.changes_value:
            return Literal(claim.id, "refused", f"the edit of {edit.printed!r} changes the value, which it denies")
    return Literal(claim.id, "edited", found.detail, found.read, found.judged)


def _edited(text: str, edits: Sequence[Any]) -> str:
    for edit in edits:
        text = text.replace(edit.printed, edit.read)
    return text


def _compared(claim: Claim, text: str) -> Literal:
    reading = table(claim.paper).readings.get(claim.id, Reading())
    if reading.unread:
        return Literal(claim.id, "unread", reading.unread)
    try:
        parts = chains(text)
        if not parts or (claim.id not in table(claim.paper).readings and _words(text) > WORDS):
            return Literal(claim.id, "unread", "the display is in words")
        rng = np.random.default_rng([crc32(claim.id.encode()), 0])
        read: set[int] = set()
        judged = 0
        cases = 0
        for case in claim.cases():
            found, count, where = _compared_in(claim, reading, parts, case, rng)
            read, judged, cases = read | {*found}, max(judged, count), cases + bool(found)
            if where:
                return Literal(claim.id, "differs", f"{case.label()}: {where}".removeprefix(": "), tuple(found), count)
        if not cases:
            return Literal(claim.id, "unread", "none of the judged values stands in the display")
    except Unread as error:
        return Literal(claim.id, "unread", str(error))
    except Exception as error:  # a defect of one reading must not stop the others
        return Literal(claim.id, "unread", f"the reading breaks: {type(error).__name__}: {error}")
    detail = f"{len(read)} of {judged} values read, in {cases} of {len(claim.cases())} cases"
    return Literal(claim.id, "same", detail, tuple(sorted(read)), judged)


def _words(text: str) -> int:
    return sum(len(re.findall(r"[A-Za-z]{2,}", words)) for words in re.findall(r"\\text\s*\{([^{}]*)\}", text))


def _sides(claim: Claim, reading: Reading, parts: Parts, case: Case, count: int) -> Sequence[Side | None]:
    """The sides that the reading names, else one per part and value: its last, but for a last of zero in `>= 0`."""
    if callable(reading.sides):
        return _called(reading.sides, case.choices)
    if reading.sides:
        return reading.sides
    if len(parts) != count:
        raise Unread(f"{len(parts)} parts in the display, {count} values judged: which is which is not said")
    return [Side(i, -2 if len(sides) > 2 and sides[-1] == ("0",) else -1) for i, sides in enumerate(parts)]


def _compared_in(
    claim: Claim, reading: Reading, parts: Parts, case: Case, rng: np.random.Generator
) -> tuple[list[int], int, str]:
    """Which values could be read in a case, of how many, and where they differ ("" where they do not)."""
    assert claim.printed is not None
    printed = entries(claim.symbolic(claim.printed, case))
    sides = _sides(claim, reading, parts, case, len(printed))
    symbols = domain.symbols_of(claim.variables, case)
    try:
        read: list[Any] | None = _InCase(claim, reading, parts, case, symbols).values(sides)
    except NoRange:
        read = None  # a sum to a size: with numbers it has ends
    tried = 0
    for _ in range(TRIES):
        point = domain.sample_point(claim.variables, case, rng)
        at = Values(domain.substitution(claim.variables, case, point))
        values = read if read is not None else _InCase(claim, reading, parts, case, point).values(sides)
        if len(values) != len(printed):
            return [], len(printed), f"the display gives {len(values)} values, printed {len(printed)}"
        there = [i for i, pair in enumerate(zip(values, printed, strict=True)) if None not in pair]
        if not there:
            return [], len(printed), ""
        pairs = [(at.digits(values[i]), at.digits(printed[i])) for i in there]
        if any(x in (sp.nan, sp.zoo) for pair in pairs for x in pair):
            continue
        tried += 1
        for a, b in pairs:
            if differs(a, b):
                place = ", ".join(f"{k}={as_text(v)}" for k, v in point.items())
                return there, len(printed), f"display {_short(a)}, printed {_short(b)} at {place}"
        if tried == POINTS:
            return there, len(printed), ""
    raise Unread(f"at {tried} of {TRIES} points only have display and printed a value")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 25 else str(sp.N(value, 10))


# --- the display and the paper


@cache
def _words_of(file: Path) -> str:
    """The tokens of a paper's text, each behind a NUL; what a conversion of formulas wrote beside their LaTeX is dropped."""
    found: list[str] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        plain = re.sub(r"[^\x00-\x7f]|\\displaystyle", "", line).replace(r"\mathscr", r"\mathcal")
        for piece in [plain] if _balanced(plain) else re.split(r"(?<=[,.;])\s", plain):
            found += tokens(piece) if _balanced(piece) else ()
    return "\0".join(["", *found, ""])


def _balanced(text: str) -> bool:
    try:
        return tokens(text) is not None
    except Unread:
        return False


def not_in_text(claim: Claim, folder: Path) -> list[str]:
    """The sides of a claim's display, from four tokens on, that do not stand word for word in the paper's text."""
    text = _words_of(folder / f"{claim.paper}.txt")
    sides = [side for part in chains(claim.latex.replace(r"\mathscr", r"\mathcal")) for side in part if len(side) > 3]
    return ["".join(side) for side in sides if "\0".join(["", *side, ""]) not in text]


# --- command


def main(arguments: Sequence[str] | None = None) -> int:
    """List the verdicts of claims (all without ids) and their counts; 1 where one differs or an edit is refused."""
    parser = argparse.ArgumentParser(prog="python -m theory.engine.literal", description=main.__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="claims, or keys of papers")
    parser.add_argument("--text", type=Path, help="folder with the papers' texts, KEY.txt: are the displays in there?")
    options = parser.parse_args(arguments)
    asked = options.ids
    start = time.perf_counter()
    chosen = [c for c in registry.claims() if not asked or c.id in asked or c.paper in asked]
    if not chosen:
        parser.error(f"no claim or paper is named {', '.join(asked)}")
    found = [literal(c) for c in chosen]
    for outcome in found:
        print(f"{outcome.verdict:8} {outcome.claim:40} {outcome.detail}")
    printed = [c for c in chosen if options.text and c.printed is not None and not c.ours]
    missing = {c.id: not_in_text(c, options.text) for c in printed}
    for claim_id, sides in missing.items():
        for side in sides:
            print(f"not in the text: {claim_id:40} {side}")
    if printed:
        print(f"{sum(not sides for sides in missing.values())} of {len(printed)} displays stand in the papers' texts")
    counts = Counter(outcome.verdict for outcome in found)
    print(", ".join(f"{counts[v]} {v}" for v in VERDICTS), f"({time.perf_counter() - start:.1f} s)")
    return int(bool(counts["differs"] + counts["refused"]))


__all__ = ["VERDICTS", "Defined", "Literal", "Reading", "Side", "literal", "main", "not_in_text", "table"]

if __name__ == "__main__":
    sys.exit(import_module("theory.engine.literal").main())  # the module that the papers' letters import
