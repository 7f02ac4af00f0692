"""Numbers, expressions and relations as Coq text, and what a theorem is.

Belongs here: printing, and the two ways in which there may be nothing to print.  Does not belong here: which hypotheses
a claim's letters bring (``setting``), what is stated (``generator``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

ONE = sp.Integer(1)


RESERVED = {"as", "at", "cofix", "else", "end", "exists", "fix", "for", "forall", "fun", "if", "in", "let", "match", "mod",
            "return", "then", "using", "where", "with", "R", "IZR", "sqrt", "Type", "Set", "Prop"}  # fmt: skip


NOT_RATIONAL = "is not a rational function"


SAME_TEXT = "both sides are the same text"


class Unprovable(Exception):
    """A claim, or a case of it, that cannot be stated or certified here; the message says why."""


class SameText(Unprovable):
    """A claim of which nothing can be stated but that something equals itself."""


def name_of(symbol: Any) -> str:
    """A Coq identifier for a symbol."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", str(symbol)).lstrip("_") or "x"
    return text + "_" if text in RESERVED else text


def term(expression: Any) -> str:
    """A rational function as a Coq term over the reals.

    >>> x, y = sp.symbols("x y")
    >>> term((x - 1) / (2 * y**2) - 3 * x)
    '(x - 1) / (2 * y ^ 2) - 3 * x'
    """
    return _term(sp.sympify(expression), 0)


def _term(e: Any, level: int) -> str:
    """Text of a term in a context: 0 anywhere, 1 after a plus or minus, 2 factor, 3 divisor or base of a power."""
    if e.is_Rational:
        text = str(e.p) if e.q == 1 else f"{e.p} / {e.q}"
        return f"({text})" if (e.p < 0 and level > 0) or (e.q != 1 and level > 1) else text
    if e.is_Symbol:
        return name_of(e)
    if isinstance(e, sp.Add):
        parts = sorted(e.args, key=lambda a: a.could_extract_minus_sign())  # stable: positive terms first
        text = _term(parts[0], 0 if parts[0].could_extract_minus_sign() and not isinstance(parts[0], sp.Add) else 1)
        for part in parts[1:]:
            minus = part.could_extract_minus_sign() and not isinstance(part, sp.Add)
            text += f" - {_term(-part, 2 if isinstance(-part, sp.Add) else 1)}" if minus else f" + {_term(part, 1)}"
        return f"({text})" if level > 1 else text
    if e.is_Mul:
        number, rest = e.as_coeff_mul()
        above = [sp.Integer(abs(number.p))] if abs(number.p) != 1 else []
        below = [sp.Integer(number.q)] if number.q != 1 else []
        above += [f for f in rest if not is_inverse(f)]
        below += [1 / f for f in rest if is_inverse(f)]
        text = " * ".join(_term(f, 2) for f in above) or "1"
        if below:
            bottom = " * ".join(_term(f, 2) for f in below)
            text = (
                (f"({text})" if len(above) > 1 else text) + " / " + (f"({bottom})" if len(below) > 1 else _term(below[0], 3))
            )
        if number < 0:
            return f"(- {text})" if level > 0 else f"- {text}"
        return f"({text})" if level > 2 or (below and level > 1) else text
    if isinstance(e, sp.Pow) and e.exp.is_Integer:
        if e.exp < 0:
            text = "1 / " + _term(1 / e, 3)
            return f"({text})" if level > 1 else text
        text = f"{_term(e.base, 4)} ^ {e.exp}"
        return f"({text})" if level > 3 else text
    raise Unprovable(f"{e.func.__name__} {NOT_RATIONAL}")


def is_inverse(f: Any) -> bool:
    """Whether a factor belongs below the fraction bar."""
    return isinstance(f, sp.Pow) and bool(f.exp.is_Integer and f.exp < 0)


def relation(r: Any) -> str:
    """A SymPy relation between rational functions as a Coq proposition."""
    signs = {sp.Eq: "=", sp.Ne: "<>", sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">="}
    for kind, sign in signs.items():
        if isinstance(r, kind):
            return f"{term(r.lhs)} {sign} {term(r.rhs)}"
    raise Unprovable(f"{r} is not a relation")


@dataclass
class Theorem:
    """A statement and its script."""

    name: str
    says: str
    variables: Sequence[Any]
    hypotheses: Sequence[tuple[str, str]]
    conclusion: str
    script: list[str]
    negated: bool = False
    functions: Sequence[str] = ()

    def render(self) -> str:
        """Coq text."""
        body = "".join(f"{h} ->\n    " for _, h in self.hypotheses) + self.conclusion
        if self.variables:
            body = f"forall {' '.join(name_of(v) for v in self.variables)} : R,\n    {body}"
        if self.functions:
            body = f"forall {' '.join(self.functions)},\n    {body}"
        if self.negated:
            body = f"~ ({body})"
        script = "\n".join(f"  {line}" for line in self.script)
        named = [str(v) for v in self.variables if f"L_{v}" in dict(self.hypotheses)]
        says = self.says + (f" Here {', '.join(named)} name inner denominators." if named else "")
        return f"(* {comment(says)} *)\nTheorem {self.name} :\n  {body}.\nProof.\n{script}\nQed.\n"


def comment(text: str) -> str:
    """Text that may stand in a comment."""
    return text.replace("(*", "( *").replace("*)", "* )").replace('"', "''")


def wrapped(text: str) -> list[str]:
    """Lines of a comment."""
    import textwrap

    return textwrap.wrap(text, 110)
