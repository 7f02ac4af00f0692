"""Letters of a theorem that meet its hypotheses: all zero, all one, all equal, at the ends of their ranges, each alone zero.

Letters are given values one after the other; a hypothesis is asked as soon as its letters have values, and a letter that an
equation says is worked out from it. All in exact rationals, from the statement's text alone.

Belongs here: theorems taken apart, and points of their domains. Does not belong here: what is asked at a point (faults.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

from theory.coq.attack.meaning import OUTCOME, Env, Junk, clients, holds, value
from theory.coq.attack.reader import Tree, free, subtrees

TRIES = 4000  # values that are given to letters in search of one point
FAILED = 3  # searches without any point, after which there is none
BASE = tuple(mpq(x) for x in ("0", "1", "2", "1/2", "3", "5", "1/3", "3/4", "-1", "1/10", "9/10", "1/100", "8"))
UNLIKE = tuple(mpq(x) for x in ("2", "7/3", "4/5", "5/2", "3/2", "7/4", "11/3", "13/5"))
WHOLE = tuple(map(mpq, range(5)))


@dataclass(frozen=True)
class Taken:
    """A theorem's letters with their types, its hypotheses, and what it concludes."""

    letters: tuple[tuple[str, Tree], ...]
    hypotheses: tuple[Tree, ...]
    conclusion: Tree


def taken_apart(tree: Tree) -> Taken:
    """A theorem's parts; of one that something fails, those of what fails."""
    tree = tree[1] if tree[0] == "not" else tree
    letters: list[tuple[str, Tree]] = []
    hypotheses: list[Tree] = []
    while tree[0] in ("forall", "implies"):
        if tree[0] == "implies":
            hypotheses.append(tree[1])
            tree = tree[2]
        elif all(kind is not None for _, kind in tree[1]):
            letters += tree[1]
            tree = tree[2]
        else:
            break
    return Taken(tuple(letters), tuple(hypotheses), tree)


def _some_function(arity: int) -> Callable[..., Any]:
    """A function that is none of those with a name."""
    return lambda *x: 2 + sum(((k + 1) * a * a + a / 3 for k, a in enumerate(x[:arity])), mpq(0))


def _arity(kind: Tree) -> int:
    return 0 if kind[0] != "implies" else 1 + _arity(kind[2])


def is_clients(kind: Tree) -> bool:
    """Whether a type is that of clients, or of copies of them."""
    one = kind[2] if kind[0] == "implies" else kind
    return one[0] == "apply" and one[1] == ("name", "clients")


class Search:
    """Points of a theorem's domain."""

    def __init__(self, parts: Taken):
        self.parts = parts
        kinds = dict(parts.letters)
        self.numbers = [x for x, kind in parts.letters if kind in (("name", "R"), ("name", "nat"))]
        self.whole = {x for x in self.numbers if kinds[x] == ("name", "nat")}
        self.given: dict[str, Tree] = {}  # letters that an equation gives, in the order in which they can be worked out
        waiting = [h for h in parts.hypotheses if h[0] == "="]
        for h in waiting:
            for x, e in ((h[1], h[2]), (h[2], h[1])):
                if x[0] == "name" and x[1] in self.numbers and x[1] not in self.given and not self._needs(e, x[1]):
                    self.given[x[1]] = e
                    break
        self.solved = {}  # letters that an equation gives which is not solved for them
        for h in waiting:
            names = [x for x in self.numbers if x in free(h) and x not in self.given and x not in self.solved]
            if names and not any(h in ((("=", ("name", x), e)), ("=", e, ("name", x))) for x, e in self.given.items()):
                self.solved[names[-1]] = h
        late = {**self.given, **self.solved}
        self.order = [x for x in self.numbers if x not in late]
        while late:
            ready = [x for x in late if not (free(late[x]) - {x}) & late.keys()]
            if not ready:  # equations that wait for each other
                self.order += late
                break
            self.order += ready
            late = {x: e for x, e in late.items() if x not in ready}
        at = {x: k for k, x in enumerate(self.order)}
        later: list[list[Tree]] = [[] for _ in self.order]
        self.first: list[Tree] = []
        self.last: list[Tree] = []
        for h in parts.hypotheses:
            names = free(h) & kinds.keys()
            if names <= at.keys():
                (later[max(at[x] for x in names)] if names else self.first).append(h)
            else:
                self.last.append(h)
        self.asked = later
        self.pools = {x: self._pool(x) for x in self.order}

    def _needs(self, e: Tree, name: str) -> bool:
        """Whether an expression needs a letter, itself or through letters that are given."""
        names = free(e)
        return name in names or any(self._needs(self.given[x], name) for x in names & self.given.keys())

    def _pool(self, name: str) -> list[Any]:
        """Values for a letter, with the ends of its range and what lies between them."""
        if name in self.whole:
            extra = {mpq(t[1]) + k for h in self.parts.hypotheses if name in free(h) for t in subtrees(h)
                     if t[0] == "number" for k in (0, 1)}  # fmt: skip
            return sorted({*WHOLE, *(x for x in extra if x <= 60)})
        ends = []
        for h in self.parts.hypotheses:
            if free(h) == {name}:
                for part in subtrees(h):
                    if part[0] in ("<", "<=", ">", ">=", "=", "<>"):
                        ends += [value(e, {}) for e in part[1:] if not free(e)]
        ends = sorted({e for e in ends if isinstance(e, type(mpq(0)))})
        between = [a + (b - a) * mpq(x) for a, b in pairwise(ends) for x in ("1/2", "1/5", "7/8")]
        beyond = [ends[-1] + 1, ends[-1] + 2, ends[0] - 1] if ends else []
        return [*dict.fromkeys([*BASE, *ends, *between, *beyond])]

    def points(self, own: Sequence[Any] = ()) -> Iterator[tuple[str, Env]]:
        """Points, each with what is special about it, none twice; first at values of one's own, in the order of letters."""
        seen, failed = set(), 0
        given = dict(zip(self.numbers, own, strict=False))
        first = [("its own point", lambda x: [given[x]] if x in given else [])] if own else []
        for name, prefer in [*first, *self._preferences()]:
            found = self.point(prefer)
            if found is None:
                failed += 1
                if failed == FAILED and not seen:
                    return
                continue
            key = tuple(found[x] for x in self.order)
            if key not in seen:
                seen.add(key)
                yield name, found

    def _preferences(self) -> Iterator[tuple[str, Callable[[str], Sequence[Any]]]]:
        def first(*wanted: str) -> Callable[[str], Sequence[Any]]:
            return lambda x: [mpq(w) for w in wanted]

        def some(x: str) -> Sequence[Any]:
            """Unlike values, letter by letter."""
            k = self.order.index(x)
            one = mpq(k % 3 + 2) if x in self.whole else UNLIKE[k % len(UNLIKE)] + k // len(UNLIKE)
            return [one, *_turned(self.pools[x], k)]

        yield "some values", some
        yield "zero wherever allowed", first("0", "1")
        yield "one wherever allowed", first("1", "2")
        yield "equal values", first("2", "3")
        yield "equal fractions", first("1/2", "1/3")
        yield "lower ends", lambda x: sorted(self.pools[x])
        yield "upper ends", lambda x: sorted(self.pools[x], reverse=True)
        yield "large values", first("1000000", "1000")
        yield "negative values", first("-1", "-3", "-1/2")
        yield "other values", lambda x: list(reversed(some(x)))
        for letter in self.order:
            yield f"{letter} zero", lambda x, letter=letter: [mpq(0), mpq(1)] if x == letter else some(x)
            yield f"{letter} one", lambda x, letter=letter: [mpq(1)] if x == letter else some(x)
            yield f"{letter} negative", lambda x, letter=letter: [mpq(-3), mpq(-1, 2)] if x == letter else some(x)
            yield f"{letter} large", lambda x, letter=letter: [mpq(10**6)] if x == letter else some(x)

    def point(self, prefer: Callable[[str], Sequence[Any]]) -> dict[str, Any] | None:
        """The first point found that meets all hypotheses, by preferred values; None where none is found."""
        left = [TRIES]
        functions = {x: _some_function(_arity(kind)) for x, kind in self.parts.letters
                     if kind[0] == "implies" and not is_clients(kind)}  # fmt: skip
        if not all(_true(h, functions) for h in self.first):
            return None
        return self._extended(0, dict(functions), prefer, left)

    def _extended(self, k: int, at: dict[str, Any], prefer: Any, left: list[int]) -> dict[str, Any] | None:
        if k == len(self.order):
            return self._finished(at)
        x = self.order[k]
        for tried in self._values(x, at, prefer):
            left[0] -= 1
            if left[0] < 0:
                return None
            now = {**at, x: tried}
            if all(_true(h, now) for h in self.asked[k]):
                found = self._extended(k + 1, now, prefer, left)
                if found is not None:
                    return found
        return None

    def _values(self, x: str, at: dict[str, Any], prefer: Any) -> Sequence[Any]:
        equation = self.given.get(x) or self.solved.get(x)
        if equation is not None:
            if (free(equation) - {x} - at.keys()) & set(self.order):  # equations that wait for each other
                return []
            try:
                return [value(equation, at)] if x in self.given else _solution(equation, x, at)
            except Junk:
                return []
        wanted = prefer(x)
        whole = [v for v in wanted if v in self.pools[x]] if x in self.whole else wanted  # few: each is a client
        return [*dict.fromkeys([*whole, *self.pools[x]])]

    def _finished(self, at: dict[str, Any]) -> dict[str, Any] | None:
        """A point with what is no number: spaces, clients, and one of them for each letter that stands for a member."""
        now = dict(at)
        for x, kind in self.parts.letters:
            if x in now:
                continue
            if is_clients(kind):
                try:
                    now[x] = clients(kind, now)
                except Junk:  # there are none with such variances
                    return None
            elif kind == ("name", "space"):
                now[x] = OUTCOME
        return now if all(_true(h, now) for h in self.last) else None


def _turned(values: Sequence[Any], k: int) -> list[Any]:
    """A list from its k-th entry on, round."""
    k %= len(values)
    return [*values[k:], *values[:k]]


def _true(h: Tree, at: Env) -> bool:
    try:
        return bool(holds(h, at))
    except Junk:
        return False


def _solution(equation: Tree, x: str, at: Env) -> list[Any]:
    """What solves an equation that is linear in a letter."""
    here, there, far = (value(equation[1], {**at, x: mpq(v)}) - value(equation[2], {**at, x: mpq(v)}) for v in (0, 1, 2))
    slope = there - here
    if far != here + 2 * slope or slope == 0:
        return []
    return [-here / slope]


__all__ = ["Search", "Taken", "taken_apart"]
