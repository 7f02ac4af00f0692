"""Every theorem on file is attacked: is it true at special points, can its hypotheses be met, does it say anything?

A statement is read from its file and tried at zero, one, equal arguments, the ends of its ranges and some other values, in
exact rationals, with Model.v's risks worked out noise by noise. Nothing of the generator or of coqc takes part. A fault is

- *false*: at a point that meets the hypotheses, the conclusion does not hold;
- *vacuous*: no point was found that meets the hypotheses;
- *same*: both sides of an equation are one expression, but for order, or the conclusion is one of the hypotheses;
- *not refuted*: that a formula fails is stated, and it held wherever it was tried;
- *junk*: wherever hypotheses were met, a divisor was zero, or a logarithm was taken of nothing.

Belongs here: faults, and reading theorems off files. Does not belong here: what a term means (meaning.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

from theory.coq.attack import meaning
from theory.coq.attack.meaning import Junk, Unknown
from theory.coq.attack.points import Search, taken_apart
from theory.coq.attack.reader import Tree, Unreadable, free, statement, subtrees

STATED = re.compile(r"^Theorem (\w+) :\n(.*?)\.\nProof\.(.*?)\nQed\.", re.MULTILINE | re.DOTALL)
AT = re.compile(r":= H((?: \([-\d /]+\))+)")  # the point at which a proof has a formula fail
DECLARED = re.compile(r"^Parameter (\w+) :\n(.*?)\.\n(?=\n|End )", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Attack:
    """What became of an attack on a theorem: its fault, if any, and the points at which it was tried."""

    name: str
    fault: str = ""
    detail: str = ""
    tried: int = 0
    junk: tuple[str, ...] = ()  # points where hypotheses hold and the conclusion means nothing
    beyond: str = ""  # what has no meaning here, so that the conclusion was not tried
    witness: dict[str, str] = field(default_factory=dict)


def theorems_of(path: Path) -> dict[str, tuple[str, Sequence[str]]]:
    """The statements of a file, by name, as they stand there; with the point at which a proof has a formula fail."""
    text = path.read_text(encoding="utf-8")
    if "\nModule Type " in text:
        return {name: (body, ()) for name, body in DECLARED.findall(text)}
    found = {}
    for name, body, script in STATED.findall(text):
        at = AT.search(script)
        found[name] = body, re.findall(r"\((.*?)\)", at[1]) if at else ()
    return found


def attacked(path: Path) -> Iterator[Attack]:
    """Attack all theorems of a file."""
    for name, (text, point) in theorems_of(path).items():
        yield attack(name, text, point)


def attack(name: str, text: str, point: Sequence[str] = ()) -> Attack:
    """Attack one theorem, at a point of one's own too.

    >>> attack("sum", "forall x y : R, 0 < x -> (x + y) / x = 1 + y / x").fault
    ''
    >>> attack("sum", "forall x y : R, 0 < x -> (x + y) / x = 1 + x / y").fault
    'false'
    """
    try:
        tree = statement(text)
    except Unreadable as error:
        return Attack(name, beyond=str(error))
    return meaning.precisely(lambda: _attack(name, tree, point))


def _attack(name: str, tree: Tree, point: Sequence[str]) -> Attack:
    if tree[0] == "exists":
        return _of_existence(name, tree)
    parts, fails = taken_apart(tree), tree[0] == "not"
    if not fails and (why := _nothing(parts.hypotheses, parts.conclusion)):
        return Attack(name, "same", why)
    try:
        search = Search(parts)
        points = [*search.points([mpq(x.replace(" ", "")) for x in point])]
    except Unknown as error:
        return Attack(name, beyond=str(error))
    if not points:
        return Attack(name, "vacuous", "no point was found that meets the hypotheses")
    junk, tried = [], 0
    witness = _shown(points[0][1], search.order)
    inner = any(t[0] in ("forall", "exists", "let", "fun") for t in subtrees(parts.conclusion))
    for special, at in points:
        try:
            found = meaning.holds(meaning.folded(parts.conclusion, at) if inner else parts.conclusion, at)
        except Junk as error:
            junk.append(f"{special}: {error}")
            continue
        except Unknown as error:
            return Attack(name, beyond=str(error), witness=witness)
        tried += 1
        if found is False and fails:
            return Attack(name, tried=tried, junk=tuple(junk), witness=_shown(at, search.order))
        if found is False:
            at_point = ", ".join(f"{x} = {v}" for x, v in _shown(at, search.order).items())
            return Attack(name, "false", f"{special}: {at_point}", tried, tuple(junk), witness=witness)
    if fails:
        return Attack(name, "not refuted", f"it held at {tried} points", tried, tuple(junk), witness=witness)
    if not tried:
        return Attack(name, "junk", junk[0], 0, tuple(junk), witness=witness)
    return Attack(name, tried=tried, junk=tuple(junk), witness=witness)


def _of_existence(name: str, tree: Tree) -> Attack:
    """That something meets hypotheses: some point has to."""
    letters, body = tree[1], tree[2]
    asked: list[Tree] = []
    while body[0] == "and":
        asked.append(body[1])
        body = body[2]
    text: Tree = ("name", "True")
    for part in reversed([*asked, body]):
        text = ("implies", part, text)
    parts = taken_apart(("forall", letters, text))
    try:
        point = next(Search(parts).points(), None)
    except Unknown as error:
        return Attack(name, beyond=str(error))
    if point is None:
        return Attack(name, "vacuous", "nothing was found that exists so")
    return Attack(name, tried=1, witness=_shown(point[1], [x for x, _ in letters]))


def _shown(at: Any, names: Sequence[str]) -> dict[str, str]:
    return {x: str(at[x]) for x in names if x in at}


# --- statements that say nothing -------------------------------------------------------------------------------------


def _nothing(hypotheses: Sequence[Tree], conclusion: Tree) -> str:
    """Why a conclusion holds by reading it; empty where it does not."""
    match conclusion:
        case ("=" | "<=" | ">=", left, right) if left == right or (free(left) and arranged(left) == arranged(right)):
            return "both sides are one expression"
        case ("and", a, b):
            return _nothing(hypotheses, a) or _nothing(hypotheses, b)
    if any(_same(conclusion, h) for h in hypotheses):
        return "the conclusion is one of the hypotheses"
    return ""


def _same(a: Tree, b: Tree) -> bool:
    def parts(t: Tree) -> Any:
        return (t[0], *map(arranged, t[1:])) if t[0] in ("=", "<", "<=", ">", ">=", "<>") else t

    return parts(a) == parts(b)


def arranged(tree: Tree) -> Any:
    """A term with sums and products in one order and numbers gathered; nothing is multiplied out.

    >>> arranged(statement("x * 2 / y + z")) == arranged(statement("z + 2 * (x / y)"))
    True
    """
    match tree:
        case ("number", text):
            return Fraction(text)
        case ("+" | "-" | "minus", *_):
            return _gathered("+", Fraction(0), [*_terms(tree, 1)])
        case ("*" | "/", *_):
            return _gathered("*", Fraction(1), [*_factors(tree, 1)])
    return tree if tree[0] == "name" else (tree[0], *(arranged(t) if isinstance(t, tuple) else t for t in tree[1:]))


def _terms(tree: Tree, sign: int) -> Iterator[Any]:
    match tree:
        case ("+" | "-" as s, a, b):
            yield from _terms(a, sign)
            yield from _terms(b, sign if s == "+" else -sign)
        case ("minus", a):
            yield from _terms(a, -sign)
        case _:
            found = arranged(tree)
            if isinstance(found, Fraction):
                yield sign * found
            elif found[0] == "*":
                yield ("*", sign * found[1], found[2])
            else:
                yield ("*", Fraction(sign), ((found, 1),))


def _factors(tree: Tree, power: int) -> Iterator[Any]:
    match tree:
        case ("*" | "/" as s, a, b):
            yield from _factors(a, power)
            yield from _factors(b, power if s == "*" else -power)
        case ("minus", a):
            yield Fraction(-1)
            yield from _factors(a, power)
        case _:
            found = arranged(tree)
            if isinstance(found, Fraction):
                yield found**power if found else (found, power)
            elif found[0] == "*":
                yield found[1] ** power
                yield from ((f, power * k) for f, k in found[2])
            else:
                yield (found, power)


def _gathered(sign: str, neutral: Fraction, parts: Sequence[Any]) -> Any:
    number = neutral
    others = []
    for part in parts:
        if isinstance(part, Fraction):
            number = number + part if sign == "+" else number * part
        else:
            others.append(part)
    if not others:
        return number
    if sign == "+" and number == 0 and len(others) == 1:
        return others[0]
    return (sign, number, tuple(sorted(others, key=repr)))


__all__ = ["Attack", "arranged", "attack", "attacked", "theorems_of"]
