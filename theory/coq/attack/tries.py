"""Which values are tried for the inner letters of a statement: other strengths, other weights, bounds of limits.

For what a statement calls the best, its neighbours are tried, and the best as calculus has it; so a wrong best is beaten.

Belongs here: these values. Does not belong here: values of the letters that a whole theorem is about (points.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

from theory.coq.attack.clients import Clients, least_of
from theory.coq.attack.reader import Tree, free, subtrees

Value = Callable[[Tree, Mapping[str, Any]], Any]
SOME = tuple(mpq(x) for x in ("0", "1", "-2", "1/3", "7", "-1/2"))
LARGE = (mpq(10) ** 6, mpq(10) ** 120)  # for a constant of a limit
FAR = (mpq(10) ** 3, mpq(10) ** 300)  # where the limit is looked at: no such constant helps there
NEAR = tuple(sign * mpq(1, 2**k) for k in (3, 40) for sign in (1, -1))
MEMBERS = ("i", "i2", "i3")  # letters of clients that a statement singles out
ANALYSIS = {"sqrt", "exp", "ln", "erfc", "Rpower"}
KNOWN = {"risk", "mixed", "aggregate", "cleaned", "parameter", "ratios", "weights", "two", "three", "same"}
# Where weights of clients stand among the arguments of Model.v's definitions.
WEIGHED = {"sums_to_one": (2,), "blends_to_one": (3,), "aggregate": (1,), "cleaned": (1,), "blend": (2,)}


def sort_of(quantified: str, name: str, type_: Tree | None, body: Tree) -> str:
    """What kind of thing a letter is: by its type, or by what is done with it; "" where none of these is known."""
    if type_ is not None:
        head = type_[2] if type_[0] == "implies" else type_
        return head[1][1] if head[0] == "apply" else head[1]
    letter = ("name", name)
    for part in subtrees(body):
        match part:
            case ("apply", ("name", f), *arguments):
                if f == name:
                    return "weights" if len(arguments) == 2 else ""
                if any(arguments[k : k + 1] == [letter] for k in WEIGHED.get(f, ())):
                    return "weights"
                if f in ANALYSIS and name in free(part) and quantified == "exists":
                    return ""  # a number that only analysis finds
            case ("nat", (_, left, right)) if letter in (left, right):
                return "nat"
    return "R"


def numbers(kind: str, name: str, body: Tree, at: Mapping[str, Any], value: Value) -> Iterator[Any]:
    """Numbers for a letter: some, far ones, what the statement says that it must be, and that one's neighbours."""
    letter = ("name", name)
    found = [best] if kind == "exists" and (best := _best(letter, body, at, value)) is not None else []
    for part in subtrees(body):
        match part:
            case ("=", left, other) if left == letter and free(other) <= at.keys():
                found.append(value(other, at))
    found += _lowest(name, body, at, value)
    if kind == "exists":
        found += [a / b for c in at.values() if isinstance(c, Clients) for a, b in _ratios(c)]
    else:
        found += [x for x in map(at.get, ("lam", "u")) if type(x) is type(mpq(0))]
    near = [x + step for x in found for step in NEAR] if kind == "forall" else []
    bounds = LARGE if kind == "exists" else FAR
    yield from dict.fromkeys([*found, *near, *SOME, *bounds])


def _lowest(name: str, body: Tree, at: Mapping[str, Any], value: Value) -> list[Any]:
    """Where a risk is least, and halfway from there to the pivot: for what is said to be higher or lower elsewhere."""
    sides = (side for t in subtrees(body) if t[0] in ("<", "<=") for side in t[1:] if name in free(side))
    risks = (s for s in sides if s[:2] == ("apply", ("name", "risk")) and free(s) - {name} <= at.keys() | KNOWN)
    found = [least_of(lambda u, r=r: value(r, {**at, name: u})) for r in risks]
    return [x for best in found if best is not None for x in (best[0], (best[0] + 1) / 2)]


def _ratios(c: Clients) -> Iterator[tuple[Any, Any]]:
    """Variances of messages of two levels, of which the second is not zero."""
    levels = range(len(c.sizes))
    return ((c.variance(a), c.variance(b)) for a in levels for b in levels if a != b and c.variance(b) != 0)


def _best(letter: Tree, body: Tree, at: Mapping[str, Any], value: Value) -> Any:
    """What a letter has to be of which a statement begins by saying that it is the best; None where it does not."""
    while True:
        match body:
            case ("and", first, _):
                body = first
            case ("let", x, v, inner):
                body, at = inner, {**at, x: v if v == letter else value(v, at)}
                letter = ("name", x) if v == letter else letter
            case ("apply", ("name", "least"), _, f, v) if v == letter:
                found = least_of(value(f, at))
                return None if found is None else found[1]
            case ("apply", ("name", "least_of_centre"), m, v) if v == letter:
                return at[m[1]].least_of_centre()
            case ("apply", ("name", "least_without"), m, *client, v) if v == letter:
                return at[m[1]].least_of_centre(tuple(value(a, at) for a in client))
            case ("apply", ("name", "least_of_client"), m, *client, v) if v == letter:
                return at[m[1]].least_of_client(*(value(a, at) for a in client))
            case ("forall", ((x, None),), inner):
                return _least_strength(x, inner, at, value)
            case _:
                return None


def _least_strength(x: str, body: Tree, at: Mapping[str, Any], value: Value) -> Any:
    """The number at which a risk is least, which a statement compares with the risk at a letter: a proportion u, or a
    strength u/(1 - u).
    """
    body = body[2] if body[0] == "implies" else body
    compared = body[1] if body[0] == "and" else body
    if compared[0] != "<=" or compared[2][:2] != ("apply", ("name", "risk")) or x not in free(compared[2]):
        return None
    strength = any(part == ("name", "personal") for part in subtrees(compared[2]))
    risk = compared[2]
    if strength:  # as a function of the proportion
        risk = _in_proportions(risk)
    found = least_of(lambda u: value(risk, {**at, x: u}))
    if found is None or (strength and found[0] == 1):
        return None
    return found[0] / (1 - found[0]) if strength else found[0]


def _in_proportions(tree: Tree) -> Tree:
    """Personal estimates as mixed ones, of the letter that was the strength."""
    if tree == ("name", "personal"):
        return ("name", "mixed")
    if tree[0] in ("name", "number", "value"):
        return tree
    return (tree[0], *(_in_proportions(t) if isinstance(t, tuple) else t for t in tree[1:]))


def weights(name: str, body: Tree, at: Mapping[str, Any], value: Value) -> Iterator[Any]:
    """Weights of clients that add to one, or to what an own estimate leaves: the best, equal ones, uneven ones, and those
    that the statement says they must be; of all clients, and of all but one.
    """
    for part in subtrees(body):
        match part:
            case ("=", ("apply", ("name", x), ("name", i), ("name", j)), other) if x == name:
                if free(other) - {i, j} <= at.keys():
                    yield lambda level, k, i=i, j=j, other=other: value(other, {**at, i: level, j: k})
    total = 1 - at["x"] if "x" in at else mpq(1)
    for c in (c for c in at.values() if isinstance(c, Clients)):
        everyone = [*c.everyone()]
        members = {at[x] for x in MEMBERS if x in at}
        for left_out in (None, *(x for x in everyone if x[1] in members)):
            chosen = [x for x in everyone if x != left_out]
            if not chosen:
                continue
            count = len(chosen)
            shapes = [
                c.inverse_variances(left_out),
                dict.fromkeys(chosen, mpq(1, count)),
                {x: mpq(2 * k + 1, count**2) for k, x in enumerate(chosen)},
                {x: mpq(count + 1 if k == 0 else -1, 2) / (1 if count > 1 else mpq(count + 1, 2))
                 for k, x in enumerate(chosen)},
            ]  # fmt: skip
            for shape in shapes:
                yield lambda level, i, shape=shape: total * shape.get((int(level), int(i)), mpq(0))


__all__ = ["numbers", "sort_of", "weights"]
