"""Statements as trees: the part of Coq's language that theorems on file are written in, read from their text.

Nothing here knows how the text was generated; what the printer gets wrong is read as it stands. A tree is a tuple whose
first entry says what it is:

- ("number", text), ("value", what a term was worked out to), ("name", x), ("apply", f, a, b, ...), ("nat", a),
  ("fun", names, a), ("let", x, a, b), ("if", a, b, c);
- ("+", a, b), and so for - * / ^, ("minus", a);
- ("=", a, b), and so for <> < <= > >=; ("and", a, b), ("or", a, b), ("implies", a, b), ("not", a);
- ("forall", ((x, type), ...), a), ("exists", ((x, type), ...), a), where a type is a tree or None.

Belongs here: the grammar. Does not belong here: what a statement means (meaning.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Tree = tuple[Any, ...]
TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w']*(?:\.[A-Za-z_][\w']*)*)|(:=|->|=>|<=|>=|<>|/\\|\\/|[-+*/^=<>~(),:%\[\];]))")
WORDS = {"forall", "exists", "fun", "let", "in", "if", "then", "else"}
RELATIONS = ("=", "<>", "<", "<=", ">", ">=")
# How tightly operators bind, as Coq has it, and whether they group to the right.
BINDS = {"->": (1, True), "\\/": (2, True), "/\\": (3, True), **dict.fromkeys(RELATIONS, (5, False)), "+": (6, False),
         "-": (6, False), "*": (7, False), "/": (7, False), "^": (9, True)}  # fmt: skip
LOGIC = {"->": "implies", "\\/": "or", "/\\": "and"}
NOT, MINUS = 4, 8


class Unreadable(ValueError):
    """A text that is none of the statements that are known here; the message says where."""


def statement(text: str) -> Tree:
    """The tree of a proposition, or of a term.

    >>> statement("0 < x -> x / 2 <= y")
    ('implies', ('<', ('number', '0'), ('name', 'x')), ('<=', ('/', ('name', 'x'), ('number', '2')), ('name', 'y')))
    """
    reader = _Reader(text)
    found = reader.proposition()
    if reader.at < len(reader.tokens):
        raise Unreadable(f"{reader.near()} is left over")
    return found


class _Reader:
    """A text's tokens and how far they are read."""

    def __init__(self, text: str):
        self.tokens: list[str] = []
        self.at = at = 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            if found is None:
                raise Unreadable(f"no word of Coq that is known here: {text[at : at + 40].strip()!r}")
            self.tokens.append(found[1] or found[2] or found[3])
            at = found.end()

    def near(self) -> str:
        """Where reading is, for messages."""
        return repr(" ".join(self.tokens[self.at : self.at + 8]))

    def next(self, *wanted: str) -> bool:
        """Step over the next tokens if they are these."""
        here = self.tokens[self.at : self.at + len(wanted)] == [*wanted]
        self.at += len(wanted) * here
        return here

    def must(self, wanted: str) -> None:
        """Step over a token that has to come."""
        if not self.next(wanted):
            raise Unreadable(f"{wanted} is missing before {self.near()}")

    def word(self) -> str:
        """The next token."""
        if self.at == len(self.tokens):
            raise Unreadable("the text ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def proposition(self, level: int = 0) -> Tree:
        """All that operators bind at least so tightly."""
        left = self.prefix(level)
        while self.at < len(self.tokens) and self.tokens[self.at] in BINDS:
            sign = self.tokens[self.at]
            binds, rightwards = BINDS[sign]
            if binds < level:
                break
            self.at += 1
            right = self.proposition(binds if rightwards else binds + 1)
            if sign in RELATIONS and self.at < len(self.tokens) and self.tokens[self.at] in ("<", "<="):
                left = ("and", (sign, left, right), (self.word(), right, self.proposition(binds + 1)))  # a <= b <= c
            else:
                left = (LOGIC.get(sign, sign), left, right)
        return left

    def prefix(self, level: int) -> Tree:
        """What begins with a word or a sign of its own, or an application."""
        if self.next("forall") or self.next("exists"):
            return (self.tokens[self.at - 1], self.binders(), self.after(",", 0))
        if self.next("fun"):
            names = tuple(self.names())
            return ("fun", names, self.after("=>", 0))
        if self.next("let"):
            name = self.word()
            value = self.after(":=", 0)
            return ("let", name, value, self.after("in", 0))
        if self.next("if"):
            asked = self.proposition()
            yes = self.after("then", 0)
            return ("if", asked, yes, self.after("else", 0))
        if self.next("~"):
            return ("not", self.proposition(NOT))
        if self.next("-"):
            return ("minus", self.proposition(MINUS))
        return self.application()

    def after(self, word: str, level: int) -> Tree:
        """What follows a word."""
        self.must(word)
        return self.proposition(level)

    def names(self) -> Iterator[str]:
        """Names one after the other."""
        while self.at < len(self.tokens) and re.match(r"[A-Za-z_]", self.tokens[self.at]):
            if self.tokens[self.at] in WORDS:
                break
            yield self.word()

    def binders(self) -> tuple[tuple[str, Tree | None], ...]:
        """Letters with their types: (x y : R) (M : ...), or x y : R, or x y."""
        found: list[tuple[str, Tree | None]] = []
        if self.tokens[self.at : self.at + 1] != ["("]:
            names = [*self.names()]
            kind = self.proposition(1) if self.next(":") else None
            return tuple((n, kind) for n in names)
        while self.next("("):
            names = [*self.names()]
            kind = self.after(":", 0)
            self.must(")")
            found += [(n, kind) for n in names]
        return tuple(found)

    def application(self) -> Tree:
        """A term and what it is applied to; arguments by name, as (L := 2), come without their names."""
        parts = [self.atom()]
        while self.at < len(self.tokens):
            if self.tokens[self.at] == "(" and self.tokens[self.at + 2 : self.at + 3] == [":="]:
                self.at += 3
                parts.append(self.proposition())
                self.must(")")
            elif self.tokens[self.at] not in WORDS and re.match(r"[\w(]", self.tokens[self.at]):
                parts.append(self.atom())
            else:
                break
        return parts[0] if len(parts) == 1 else ("apply", *parts)

    def atom(self) -> Tree:
        """A number, a name, or what stands in parentheses; with the scope that it is read in, where one is named."""
        word = self.word()
        if word == "(":
            found = self.proposition()
            self.must(")")
        elif word.isdigit():
            found = ("number", word)
        elif re.match(r"[A-Za-z_]", word) and word not in WORDS:
            found = ("name", word)
        else:
            self.at -= 1
            raise Unreadable(f"neither number, name nor parenthesis: {self.near()}")
        if self.next("%"):
            scope = self.word()
            if scope != "nat":
                raise Unreadable(f"the scope {scope}")
            found = ("nat", found)
        return found


def free(tree: Tree) -> frozenset[str]:
    """Names that occur in a tree and that nothing in it binds."""
    match tree:
        case ("name", x):
            return frozenset((x,))
        case ("number" | "value", _):
            return frozenset()
        case ("fun", names, body):
            return free(body) - set(names)
        case ("let", x, value, body):
            return free(value) | (free(body) - {x})
        case ("forall" | "exists", binders, body):
            kinds = frozenset[str]().union(*(free(kind) for _, kind in binders if kind is not None))
            return kinds | (free(body) - {x for x, _ in binders})
    return frozenset[str]().union(*map(free, tree[1:]))


def subtrees(tree: Tree) -> Iterator[Tree]:
    """A tree and all in it, from left to right."""
    yield tree
    match tree:
        case ("name" | "number" | "value", _):
            return
        case ("fun", _, body):
            inside = (body,)
        case ("let", _, value, body):
            inside = (value, body)
        case ("forall" | "exists", _, body):
            inside = (body,)
        case _:
            inside = tree[1:]
    for part in inside:
        yield from subtrees(part)


__all__ = ["RELATIONS", "Tree", "Unreadable", "free", "statement", "subtrees"]
