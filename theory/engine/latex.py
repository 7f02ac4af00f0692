r"""Reading a paper's LaTeX formulas: from the text to a SymPy value, with the letters that the reader is given.

A letter is a *phrase* of LaTeX, `\sigma_c^2` or `N_{\mathrm p}` or `\mathbf{E}[h]`, with its value; `#` in a phrase stands
for an index, which its value then gets.  The longest phrase that fits is read, and what no phrase fits is not guessed:
`Unread` says where reading stopped.  Sums and products run over whole numbers, so that lists of concrete length are
written out.  SymPy's own parsers read 60 of the claims' 312 displays without an error, lark's grammar 12, many of these
wrongly (`\lambda_j^*`, sums over sets, two sides); so this one is ours.

Belongs here: tokens, phrases, and the value of one side.  Does not belong here: which side of which claim is read, and
what it is compared with (literal.py), the letters of a paper (`letters.py` there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import add, mul
from typing import Any

import sympy as sp

Tokens = tuple[str, ...]

TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|[^\s]", re.DOTALL)
SPACING = {r"\left", r"\right", r"\,", r"\;", r"\!", r"\:", r"\ ", r"\enspace", r"\displaystyle", "~"}
SPACING |= {rf"\{size}{side}" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m")}
FONTS = {r"\text", r"\mathrm", r"\mathsf", r"\bm", r"\boldsymbol", r"\mathbf", r"\mathit", r"\limits", r"\operatorname"}
ALIKE = {r"\dfrac": r"\frac", r"\tfrac": r"\frac", r"\nicefrac": r"\frac", r"\ln": r"\log", r"\triangleq": "=",
         r"\leq": r"\le", r"\geq": r"\ge", r"\rightarrow": r"\to", r"\ne": r"\neq", r"\lVert": r"\|", r"\rVert": r"\|",
         r"\vert": "|", r"\mid": "|"}  # fmt: skip
BREAKS = {r"\quad", r"\qquad", ";", ",", r"\Rightarrow"}
RELATIONS = {"=", r"\le", r"\ge", "<", ">", r"\to", r"\leftarrow", r"\approx", r"\propto", r"\in", r"\sim", r"\equiv", ":"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", r"\lceil": r"\rceil"}, {")", "]", "}", r"\}", r"\rceil"}
NO_FACTOR = {r"\cdot", r"\times", "*", "+", "-", "/", "^", "_", "&", r"\\", "!", r"\neq", r"\setminus", r"\end"}
FUNCTIONS: dict[str, Callable[..., Any]] = {r"\log": sp.log, r"\exp": sp.exp, r"\max": sp.Max, r"\min": sp.Min,
                                              r"\Tr": lambda x: x.trace(),
                                              r"\Phi": lambda x: sp.erfc(-x / sp.sqrt(2)) / 2}  # fmt: skip


class Unread(ValueError):
    """A formula, or a part of it, that this reader does not read."""


class NoRange(Unread):
    """A sum or product whose ends are symbols; with numbers it can be read."""


@cache
def tokens(text: str) -> Tokens:
    r"""The tokens of a formula, without what only looks different: spacing, fonts, braces around one token.

    >>> tokens(r"\Big{(}\sigma^{2}_{\mathrm{p}}\Big{)}") == tokens(r"(\sigma_p^2)")
    True
    """
    text = re.sub(r"\\(?:mathsf|mathrm|text)\s*\{Tr\}", r"\\Tr ", text.replace(r"\operatorname*", r"\operatorname"))
    found = [ALIKE.get(t, t) for t in TOKEN.findall(text) if t not in SPACING]
    found = [part for t in found if t not in FONTS for part in (("^", r"\prime") if t == "'" else (t,))]
    while (shorter := _without_single_braces(found)) != found:
        found = shorter
    return tuple(_subscripts_first(found))


def _without_single_braces(found: list[str]) -> list[str]:
    kept: list[str] = []
    i = 0
    while i < len(found):
        inner = found[i + 1] if found[i] == "{" and i + 2 < len(found) and found[i + 2] == "}" else None
        if inner is not None and inner not in ("{", "}"):
            kept.append(inner)
            i += 3
        else:
            kept.append(found[i])
            i += 1
    return kept


def _subscripts_first(found: list[str]) -> list[str]:
    i = 0
    while i < len(found):
        if found[i] == "^" and i + 1 < len(found):
            end = _end_of_group(found, i + 1)
            if end < len(found) and found[end] == "_":
                stop = _end_of_group(found, end + 1)
                found = [*found[:i], *found[end:stop], *found[i:end], *found[stop:]]
                i = stop - (end - i)
        i += 1
    return found


def _end_of_group(found: Sequence[str], i: int) -> int:
    """One past the group or the single token that starts at i."""
    if i >= len(found):
        raise Unread("the formula ends after ^ or _")
    if found[i] not in OPEN or found[i] != "{":
        return i + 1
    depth = 0
    for j in range(i, len(found)):
        depth += (found[j] == "{") - (found[j] == "}")
        if not depth:
            return j + 1
    raise Unread("a brace is not closed")


def chains(text: str) -> list[list[Tokens]]:
    r"""The parts of a display, at `\quad`, commas and words; each as the sides of its relations, brackets kept whole.

    >>> [len(sides) for sides in chains(r"a=b\leq c,\quad\text{where }f(x,y)\to0")]
    [3, 2]
    """
    text = re.sub(r"\\(?:text|mbox)\s*\{([^{}]*)\}", lambda m: _of_words(m[1], text[: m.start()]), text)
    found: list[list[list[str]]] = [[[]]]
    depth = 0
    bars = False
    for t in tokens(text):
        if t == r"\|":
            bars = not bars
        depth += (t in OPEN or t == r"\begin") - (t in CLOSE or t == r"\end")
        if depth <= 0 and not bars and t in BREAKS:
            found.append([[]])
        elif depth <= 0 and not bars and t in RELATIONS:
            found[-1].append([])
        else:
            found[-1][-1].append(t)
    kept = [[tuple(side) for side in sides if side] for sides in found]
    return [sides for sides in kept if sides]


def _of_words(words: str, before: str) -> str:
    """Words break a display, but an operator (`Var`) or the name in a subscript does not."""
    if words == "Tr":
        return r"\Tr "
    in_braces = len(re.findall(r"(?<!\\)\{", before)) > len(re.findall(r"(?<!\\)\}", before))
    return f"{{{words}}}" if re.fullmatch(r"\w+", words) and (in_braces or words[0].isupper()) else r"\quad "


Value = Any
Letter = tuple[Tokens, Callable[..., Value]]


def letters(table: Mapping[str, Callable[..., Value]]) -> list[Letter]:
    """A table from phrases to values (functions of the indices that `#` stands for), the longest phrases first."""
    return sorted(((tokens(phrase), value) for phrase, value in table.items()), key=lambda x: -len(x[0]))


class Reader:
    """The value of one side of a formula; `count` is how many entries a sum without ends runs over."""

    def __init__(self, known: Sequence[Letter], count: int | None = None, bound: Mapping[str, int] | None = None):
        self.known = known
        self.count = count
        self.bound: dict[str, int] = dict(bound or {})
        self.tokens: Tokens = ()
        self.at = 0
        self.bars: list[str] = []  # those that are open

    def value(self, side: Tokens) -> Value:
        """The value of a side. Raises `Unread`, which says at what it stopped."""
        before = self.tokens, self.at, self.bars
        self.tokens, self.at, self.bars = side, 0, []
        try:
            found = self._sum()
            if self.at < len(side):
                raise Unread(f"stopped at {self._here()}")
            return found
        finally:
            self.tokens, self.at, self.bars = before

    # --- the text

    def _here(self) -> str:
        rest = "".join(t + " " * (t[0] == "\\" and t[-1].isalpha()) for t in self.tokens[self.at : self.at + 8])
        return rest.strip() or "its end"

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, token: str) -> bool:
        taken = self._peek() == token
        self.at += taken
        return taken

    def _need(self, token: str) -> None:
        if not self._take(token):
            raise Unread(f"expected {token} at {self._here()}")

    def _group(self) -> Tokens:
        """The tokens of a group without its braces, or one token."""
        start, self.at = self.at, _end_of_group(self.tokens, self.at)
        inner = self.tokens[start : self.at]
        return inner[1:-1] if inner[0] == "{" else inner

    def _argument(self) -> Value:
        return self.value(self._group())

    # --- sums, products, powers

    def _sum(self) -> Value:
        sign = -1 if self._take("-") else 1
        self._take("+")
        total = sign * self._product()
        while self._peek() in ("+", "-"):
            sign = -1 if self._take("-") else 1
            self._take("+")
            total = total + sign * self._product()
        return total

    def _product(self) -> Value:
        value = self._power()
        while True:
            if self._take(r"\cdot") or self._take(r"\times") or self._take("*"):
                value = value * self._power()
            elif self._take("/"):
                below = self._power()
                while self._starts_a_factor():  # as in /mn
                    below = below * self._power()
                value = value / below
            elif self._starts_a_factor():
                value = value * self._power()
            else:
                return value

    def _starts_a_factor(self) -> bool:
        token = self._peek()
        if token in ("|", r"\|"):
            return self.bars[-1:] != [token]
        return bool(token) and token not in CLOSE | BREAKS | RELATIONS and token not in NO_FACTOR

    def _power(self) -> Value:
        value = self._atom()
        while True:
            if self._take("!"):
                value = sp.factorial(value)
            elif self._peek() == "^":
                self.at += 1
                exponent = self._group()
                value = value.T if exponent == ("T",) and isinstance(value, sp.MatrixBase) else value ** self.value(exponent)
            else:
                return value

    def _atom(self) -> Value:
        found = self._phrase()
        if found is not None:
            return found
        token = self._peek()
        if token.isdigit() or token == ".":
            return self._number()
        if token == "{":
            return self.value(self._group())
        if token in OPEN:
            self.at += 1
            several = [self._sum()]
            while self._take(","):
                several.append(self._sum())
            self._need(OPEN[token])
            value = several[0] if len(several) == 1 else sp.Tuple(*several)
            return sp.ceiling(value) if token == r"\lceil" else value
        if token in ("|", r"\|"):
            self.at += 1
            self.bars.append(token)
            value = self._sum()
            self.bars.pop()
            self._need(token)
            return self._norm(value) if token == r"\|" else sp.Abs(value)
        self.at += 1
        if token == r"\frac":
            above = self._argument()
            return above / self._argument()
        if token == r"\sqrt":
            return sp.sqrt(self._argument())
        if token == r"\binom":
            return sp.binomial(self._argument(), self._argument())
        if token in (r"\max", r"\min") and self._peek() == "_":
            return self._over_indices(token)
        if token in (r"\max", r"\min") and self.tokens[self.at : self.at + 2] == ("(", r"\{"):
            return self._of_set(token)
        if token in FUNCTIONS:
            return self._function(FUNCTIONS[token])
        if token in (r"\sum", r"\prod"):
            return self._over_indices(token)
        if token == r"\begin" and self._word() == "cases":
            return self._cases()
        if token in (r"\infty", r"\pi", "e"):
            return {r"\infty": sp.oo, r"\pi": sp.pi, "e": sp.E}[token]
        if token == r"\mathcal" and self._take("N"):
            return self._atom()  # a normal distribution: the pair of its mean and variance
        self.at -= 1
        raise Unread(f"no letter is known for {self._here()}")

    def _number(self) -> Value:
        start = self.at
        while self._peek().isdigit() or self._peek() == ".":
            self.at += 1
        return sp.Rational("".join(self.tokens[start : self.at]))

    def _norm(self, value: Value) -> Value:
        """The first or (without a subscript) second norm."""
        kind = self._group() if self._take("_") else ("2",)
        parts = value.flat() if isinstance(value, sp.MatrixBase) else [value]
        if kind == ("1",):
            return sum(sp.Abs(x) for x in parts)
        if kind != ("2",):
            raise Unread(f"a norm other than the first or second before {self._here()}")
        return sp.sqrt(sum(x**2 for x in parts))

    def _word(self) -> str:
        return "".join(self._group())

    def _function(self, function: Callable[..., Value]) -> Value:
        if self._peek() == "{":
            return function(self._argument())
        if self._peek() in ("(", "["):
            closing = OPEN[self._peek()]
            self.at += 1
            arguments = [self._sum()]
            while self._take(","):
                arguments.append(self._sum())
            self._need(closing)
            return function(*arguments)
        value = self._power()
        while self._starts_a_factor() and self._peek() not in FUNCTIONS:
            value = value * self._power()
        return function(value)

    def _cases(self) -> Value:
        branches: list[tuple[Value, Any]] = []
        while True:
            value = self._sum()
            self._need("&")
            start = self.at
            while self._peek() not in (r"\\", r"\end", ""):
                self.at += 1
            branches.append((value, self._condition(self.tokens[start : self.at])))
            if not self._take(r"\\"):
                self._need(r"\end")
                self._group()
                return sp.Piecewise(*branches)

    def _condition(self, words: Tokens) -> Any:
        words = tuple(t for t in words if t not in BREAKS)
        for relation, meaning in ((r"\neq", sp.Ne), ("=", sp.Eq)):
            if relation in words:
                i = words.index(relation)
                return meaning(self.value(words[:i]), self.value(words[i + 1 :]))
        raise Unread(f"a case under {' '.join(words)}")

    # --- letters

    def _phrase(self) -> Value | None:
        for phrase, value in self.known:
            found = self._fits(phrase)
            if found is None:
                continue
            end, indices = found
            if end < len(self.tokens) and self.tokens[end] == "_":
                continue  # a longer letter, which is not known
            self.at = end
            known = value(*indices)
            return known if isinstance(known, sp.Basic | sp.MatrixBase) else self._function(known)
        return self._root_of_a_square()

    def _root_of_a_square(self) -> Value | None:
        """`\\sigma` where `\\sigma^2` is a letter, as in the fourth power."""
        for phrase, value in self.known:
            if phrase[-2:] == ("^", "2") and (found := self._fits(phrase[:-2])) is not None:
                end, indices = found
                if end < len(self.tokens) and self.tokens[end] == "_":
                    continue
                self.at = end
                return sp.sqrt(value(*indices))
        if self._peek() in self.bound and self.tokens[self.at + 1 : self.at + 2] != ("_",):
            self.at += 1
            return sp.Integer(self.bound[self.tokens[self.at - 1]])
        return None

    def _fits(self, phrase: Tokens) -> tuple[int, list[int]] | None:
        """Where a phrase ends that starts here, and its indices; None where it does not fit."""
        at = self.at
        indices: list[int] = []
        for token in phrase:
            if at >= len(self.tokens):
                return None
            if token == "#":
                end = _end_of_group(self.tokens, at)
                index = self._index(self.tokens[at:end])
                if index is None:
                    return None
                indices.append(index)
                at = end
            elif self.tokens[at] != token:
                return None
            else:
                at += 1
        return at, indices

    def _index(self, name: Tokens) -> int | None:
        name = name[1:-1] if name and name[0] == "{" else name
        if all(t.isdigit() for t in name):
            return int("".join(name))
        return self.bound.get("".join(name))

    # --- sums and products over indices

    def _over_indices(self, operator: str) -> Value:
        self._need("_")
        binder = self._group()
        upper = self.value(self._group()) if self._take("^") else None
        start = self.at
        outer = dict(self.bound)
        terms: list[Value] = []
        for binding in self._bindings(binder, upper):
            self.at, self.bound = start, {**outer, **binding}
            terms.append(self._product())
        if not terms:  # what it would run over is to be passed over
            self.bound = {**outer, **dict.fromkeys(self._names(binder), 1)}
            self._product()
        self.bound = outer
        if operator in FUNCTIONS:
            return FUNCTIONS[operator](*terms)
        combine = add if operator == r"\sum" else mul
        return reduce(combine, terms) if terms else sp.Integer(operator == r"\prod")

    def _of_set(self, operator: str) -> Value:
        r"""`\max(\{x_i\}_{i=1}^n)`: the set's index stands behind what it runs through."""
        self.at += 2
        start = self.at
        while self._peek() not in (r"\}", ""):
            self.at += 1
        inner, self.at = self.tokens[start : self.at], self.at + 1
        self._need("_")
        binder = self._group()
        upper = self.value(self._group()) if self._take("^") else None
        self._need(")")
        outer, terms = dict(self.bound), []
        for binding in self._bindings(binder, upper):
            self.bound = {**outer, **binding}
            terms.append(self.value(inner))
        self.bound = outer
        return FUNCTIONS[operator](*terms)

    @staticmethod
    def _names(binder: Tokens) -> list[str]:
        return ["".join(t) for t in re.findall(r"[A-Za-z]", " ".join(t for t in binder if not t.startswith("\\")))]

    def _bindings(self, binder: Tokens, upper: Value | None) -> Iterator[dict[str, int]]:
        r"""The values of the index of `i=1`, `i\in[N]`, `k\in[l]\setminus i`, `j\neq k`, `i`, or the two of `i<j`."""
        if "<" in binder:
            first, second = ("".join(part) for part in _split(binder, "<"))
            everyone = self._everyone(binder)
            yield from ({first: i, second: j} for i in everyone for j in everyone if i < j)
            return
        if "=" in binder:
            name, low = _split(binder, "=")
            yield from ({"".join(name): i} for i in self._range(self.value(low), upper))
            return
        left_out: set[int] = set()
        index, everyone = "", range(0)
        for part in _parts(binder, ","):
            if r"\neq" in part:
                name, other = _split(part, r"\neq")
                left_out.add(self._known_index(other))
                if not index:
                    index, everyone = "".join(name), self._everyone(binder)
            elif r"\in" in part:
                name, members = _split(part, r"\in")
                index = "".join(name)
                if r"\setminus" in members:
                    members, other = _split(members, r"\setminus")
                    left_out.add(self._known_index(other))
                everyone = self._members(members)
            else:
                index, everyone = "".join(part), self._everyone(binder)
        yield from ({index: i} for i in everyone if i not in left_out)

    def _known_index(self, name: Tokens) -> int:
        index = self._index(name)
        if index is not None:
            return index
        value = self.value(name)
        if not getattr(value, "is_Integer", isinstance(value, int)):
            raise Unread(f"{''.join(name)} is no index")
        return int(value)

    def _everyone(self, binder: Tokens) -> range:
        if self.count is None:
            raise Unread(f"a sum over {''.join(binder)} without a list")
        return range(1, self.count + 1)

    def _members(self, members: Tokens) -> range:
        if members and members[0] == "[" and members[-1] == "]":
            try:
                return self._range(sp.Integer(1), self.value(members[1:-1]))
            except NoRange:
                raise
            except Unread:
                pass
        return self._everyone(members)

    def _range(self, low: Value, high: Value | None) -> range:
        if high is None:
            raise Unread("a sum without its upper end")
        if not (sp.sympify(low).is_Integer and sp.sympify(high).is_Integer):
            raise NoRange(f"a sum from {low} to {high}, which is no number")
        return range(int(low), int(high) + 1)


def _split(found: Tokens, at: str) -> tuple[Tokens, Tokens]:
    i = found.index(at)
    return found[:i], found[i + 1 :]


def _parts(found: Tokens, at: str) -> list[Tokens]:
    parts: list[Tokens] = [()]
    for t in found:
        if t == at:
            parts.append(())
        else:
            parts[-1] = (*parts[-1], t)
    return parts


__all__ = ["NoRange", "Reader", "Unread", "chains", "letters", "tokens"]
