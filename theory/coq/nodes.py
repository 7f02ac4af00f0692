"""Applications of functions as letters, and as products, sums and powers of few: which exponentials are products of others.

What a node is in canonical ones is found out here, together with the steps by which Coq follows; scripts are made of them
in functions.py.

Belongs here: functions as letters, the equations between them.  Does not belong here: theorems and scripts (functions.py),
rational functions as text (terms.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import sympy as sp

from theory.coq.terms import Unprovable, term
from theory.engine.algebra import factored

KNOWN = {"erfc": "erfc", "exp": "exp", "ln": "ln", "sqrt": "sqrt", "abs": "Rabs"}
DEFINED = ("ceiling_of",)  # in Functions.v, and no other function


@dataclass
class Node:
    """An application of a function to terms in letters and other nodes."""

    symbol: Any
    kind: str
    arguments: tuple[Any, ...]
    name: str = ""


class Terms:
    """Expressions with a letter in the place of each application of a function."""

    def __init__(self, tails: bool = False) -> None:
        self.tails = tails  # whether erfc is known (Tails.v), or any function
        self.nodes: dict[Any, Node] = {}
        self.known: dict[Any, Any] = {}
        self.others: dict[str, int] = {}
        self.made: dict[str, Any] = {"Rmin": sp.Min, "Rmax": sp.Max}

    def node(self, kind: str, arguments: Sequence[Any], name: str = "") -> Any:
        """The letter of an application."""
        key = (kind, name, *arguments)
        if key not in self.known:
            positive = {"positive": True} if kind in ("exp", "sqrt", "power", "pi", "erfc") else {"real": True}
            symbol = sp.Symbol(f"FN{len(self.nodes)}N", **positive)
            self.known[key] = symbol
            self.nodes[symbol] = Node(symbol, kind, tuple(arguments), name)
        return self.known[key]

    def flat(self, e: Any) -> Any:
        """A rational function of letters and nodes. Raises Unprovable for what is no real number, or has cases."""
        e = sp.sympify(e)
        if e.is_Rational or e.is_Symbol:
            return e
        if e is sp.pi:
            return self.node("pi", ())
        if e is sp.E:
            return self.node("exp", (sp.Integer(1),))
        if isinstance(e, sp.Add | sp.Mul):
            return e.func(*map(self.flat, e.args))
        if isinstance(e, sp.exp):
            return self.node("exp", (self.flat(e.exp),))
        if isinstance(e, sp.Pow):
            base, power = e.args
            if power.is_Integer:
                return self.flat(base) ** power
            if (2 * power).is_Integer:
                return self.node("sqrt", (self.flat(base),)) ** (2 * power)
            return self.node("power", (self.flat(base), self.flat(power)))
        for function, kind in ((sp.log, "ln"), (sp.Abs, "abs")):
            if isinstance(e, function):
                return self.node(kind, (self.flat(e.args[0]),))
        if self.tails and isinstance(e, sp.erfc):
            return self.node("erfc", (self.flat(e.args[0]),))
        if e.is_Function and not isinstance(e, sp.Piecewise) and all(x.is_real is not False for x in e.args):
            name = e.func.__name__
            if name in ("Min", "Max"):
                return reduce(lambda a, b: self.node("other", (a, b), f"R{name.lower()}"), map(self.flat, e.args))
            name = str({"gamma": "Gamma", "beta": "Beta"}.get(name, name)) + "_of"
            self.made[name] = e.func
            if name in DEFINED:
                return self.node("other", tuple(map(self.flat, e.args)), name)
            if self.others.setdefault(name, len(e.args)) != len(e.args):
                raise Unprovable(f"{name} of {len(e.args)} and of {self.others[name]} arguments")
            return self.node("other", tuple(map(self.flat, e.args)), name)
        if e.is_infinite:
            raise Unprovable("a value is infinite, and so no real number")
        if e.is_Float:
            raise Unprovable("a number in it is known to some digits only, of which nothing exact can be said")
        raise Unprovable(f"{e.func.__name__} is no function of real numbers")

    def text(self, e: Any, unfolded: bool = False) -> str:
        """Coq text; powers as exponentials, which they are by definition, where `unfolded`."""

        def put(found: re.Match[str]) -> str:
            n = next(x for x in self.nodes.values() if x.symbol.name == found[0])
            parts = [self.text(a, unfolded) for a in n.arguments]
            if n.kind == "pi":
                return "PI"
            if n.kind == "power":
                if unfolded:
                    return f"exp (({parts[1]}) * ln ({parts[0]}))"
                return f"Rpower ({parts[0]}) ({parts[1]})"
            return " ".join([KNOWN.get(n.kind, n.name), *(f"({p})" for p in parts)])

        return re.sub(r"\bFN\d+N\b", put, term(e))

    def letters(self, e: Any) -> set[Any]:
        """The letters of an expression that are no nodes, inside them too."""
        found: set[Any] = set()
        for s in sp.sympify(e).free_symbols:
            found |= set().union(*map(self.letters, self.nodes[s].arguments)) if s in self.nodes else {s}
        return found

    def inner(self, e: Any) -> list[Any]:
        """The nodes of an expression, inner ones first."""
        found: list[Any] = []
        for s in sorted((s for s in sp.sympify(e).free_symbols if s in self.nodes), key=str):
            for a in self.nodes[s].arguments:
                found += [x for x in self.inner(a) if x not in found]
            found += [s] if s not in found else []
        return found


@dataclass
class Canonical:
    """Nodes as products, sums and powers of few: exp of sums, ln and sqrt of products taken apart.

    Where not `apart`, only equal and opposite arguments are recognised. `units` are the greatest steps in which an
    exponent's terms occur; without them, powers may be fractions, and `seen` collects them. `at` is a point of the domain,
    which tells the sign that a factor of a logarithm has.
    """

    terms: Terms
    where: Mapping[Any, Any]
    apart: bool
    at: Mapping[Any, Any]
    units: dict[Any, Any] = field(default_factory=dict)
    split: bool | None = None  # logarithms too (otherwise as `apart`)
    seen: dict[Any, set[Any]] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict)
    proofs: dict[Any, list[str]] = field(default_factory=dict)

    def of(self, e: Any) -> Any:
        """An expression in canonical nodes."""
        e = sp.sympify(e).subs(self.where)
        return self._squared(e.xreplace({s: self.of_node(s) for s in e.free_symbols if s in self.terms.nodes}))

    def _squared(self, e: Any) -> Any:
        """Even powers of roots as powers of what is under them."""

        def is_power(x: Any) -> bool:
            return isinstance(x, sp.Pow) and x.exp.is_Integer and abs(x.exp) > 1 and self._kind(x.base) == "sqrt"

        def less(x: Any) -> Any:
            half = int(abs(x.exp)) // 2 * (1 if x.exp > 0 else -1)
            return self.terms.nodes[x.base].arguments[0] ** half * x.base ** (x.exp - 2 * half)

        return e.replace(is_power, less)

    def _kind(self, s: Any) -> str:
        return self.terms.nodes[s].kind if s in self.terms.nodes else ""

    def of_node(self, s: Any) -> Any:
        """A node in canonical ones; how Coq sees that is added to `proofs`."""
        if s not in self.memory:
            n = self.terms.nodes[s]
            if n.kind == "power":
                base, power = n.arguments
                exponent = power * self.terms.node("ln", (base,))
                self.memory[s] = self._exp(s, self.of(exponent))
            else:
                take = {"exp": self._exp, "ln": self._ln, "sqrt": self._sqrt, "abs": self._abs, "pi": self._keep}
                self.memory[s] = take.get(n.kind, self._other)(s, *map(self.of, n.arguments))
        return self.memory[s]

    def _keep(self, s: Any) -> Any:
        self.proofs[s] = []
        return s

    def _text(self, e: Any) -> str:
        return self.terms.text(e, unfolded=True)

    def _chain(self, s: Any, kind: str, leaves: Sequence[tuple[str, str]]) -> None:
        """Proof steps: the argument as a product or a sum of several, each with how its value is seen."""
        lines = []
        for k, (argument, how) in enumerate(leaves[:-1], 1):
            rest = self._rest(" + " if kind == "exp" else " * ", [a for a, _ in leaves[k:]])
            positive = "" if kind == "exp" else " factor_positive | factor_positive |"
            lines.append(f"eapply ({kind}_two _ ({argument}) ({rest})); [ identity |{positive} {how} | ].")
        argument, how = leaves[-1]
        lines += [f"eapply ({kind}_same _ ({argument})); [ identity | ]."] if len(leaves) == 1 else []
        self.proofs[s] = [*lines, f"{how}."]

    @staticmethod
    def _rest(sign: str, arguments: Sequence[str]) -> str:
        text = f"({arguments[-1]})"
        for argument in reversed(arguments[:-1]):
            text = f"({argument}){sign}({text})"
        return text

    def _exp(self, s: Any, c: Any) -> Any:
        c = factored(self._squared(sp.expand(c)))
        product, leaves = sp.Integer(1), []
        for r, m in self._terms_of(c):
            inside = self.terms.nodes.get(m)
            if inside is not None and inside.kind == "ln" and r.is_Integer:
                base = inside.arguments[0]
                product *= base**r
                n, x = abs(int(r)), self._text(m)
                one = f"{n} * {x}" if r > 0 else f"- ({n} * {x})"
                lemma = "exp_ln_power" if r > 0 else "exp_ln_inverse"
                leaves.append((one, f"apply ({lemma} {n} _ ({self._text(base)})); [ factor_positive | counted ]"))
                continue
            self.seen.setdefault(m, set()).add(r)
            unit = self.units.get(m, sp.Integer(1))
            power, inner = r / unit, unit * m
            atom = self.terms.node("exp", (inner,))
            product *= atom**power
            if power.is_Integer:
                n, x = abs(int(power)), self._text(inner)
                one = f"{n} * ({x})" if power > 0 else f"- ({n} * ({x}))"
                leaves.append((one, f"apply ({'exp_power' if power > 0 else 'exp_inverse'} {n} _ ({x})); counted"))
        if not leaves:
            leaves = [("0", "apply exp_0")]
        self._chain(s, "exp", leaves)
        return product

    def _terms_of(self, c: Any) -> list[tuple[Any, Any]]:
        """A sum's terms as rational numbers times what is left."""
        if c == 0:
            return []
        above, below = sp.fraction(c)
        number, below = below.as_coeff_Mul()
        parts = sp.Add.make_args(sp.expand(above)) if self.apart else [above]
        found = []
        for part in parts:
            r, m = part.as_coeff_Mul()
            if not self.apart:
                content, inner = sp.sympify(m).as_content_primitive() if m.is_Add else (sp.Integer(1), m)
                if inner.could_extract_minus_sign():
                    content, inner = -content, -inner
                r, m = r * content, inner
            found.append((r / number, m / below))
        return found

    def _factors(self, c: Any) -> list[tuple[Any, int]]:
        """Positive factors of a positive term, with their powers."""
        c = factored(c)
        found: list[tuple[Any, int]] = []
        sign = 1
        for part, one in zip(sp.fraction(c), (1, -1), strict=True):
            number, rest = part.as_coeff_Mul()
            sign *= 1 if number > 0 else -1
            found += [(sp.Integer(b), one * k) for b, k in sp.factorint(abs(number)).items()]
            for factor in sp.Mul.make_args(rest):
                base, power = factor.as_base_exp()
                if base == 1:
                    continue
                if not power.is_Integer:
                    base, power = factor, sp.Integer(1)
                if self.value(base) < 0:
                    base, sign = sp.expand(-base), sign * (-1) ** int(power)
                found.append((base, one * int(power)))
        if sign < 0:
            raise Unprovable("a logarithm or a root of what is negative")
        if not (self.apart if self.split is None else self.split) and len(found) > 1:
            return [(c, 1)]
        return found or [(sp.Integer(1), 1)]

    def value(self, e: Any) -> Any:
        """What an expression is at the point."""
        value = self.back(e).subs(self.at).evalf(30)
        if not value.is_Float and not value.is_Rational:
            raise Unprovable(f"the sign of {e} is not known")
        return value

    def back(self, e: Any) -> Any:
        """The expression with functions in the places of their letters."""
        e = sp.sympify(e)
        make = {
            "exp": sp.exp,
            "ln": sp.log,
            "sqrt": sp.sqrt,
            "abs": sp.Abs,
            "power": sp.Pow,
            "erfc": sp.erfc,
            "pi": lambda: sp.pi,
        }
        rules = {}
        for s in e.free_symbols:
            if s in self.terms.nodes:
                n = self.terms.nodes[s]
                inside = map(self.back, n.arguments)
                rules[s] = make[n.kind](*inside) if n.kind in make else self.terms.made[n.name](*inside)
        return e.xreplace(rules)

    def _ln(self, s: Any, c: Any) -> Any:
        total, leaves = sp.Integer(0), []
        factors = self._factors(c)
        for f, k in factors:
            n, x = abs(k), self._text(f)
            one = f"({x}) ^ {n}" if k > 0 else f"/ ({x}) ^ {n}"
            inside = self.terms.nodes.get(f)
            if f == 1:
                leaves.append(("1", "apply ln_1"))
                continue
            how = f"apply {'ln_power' if k > 0 else 'ln_inverse'}; factor_positive"
            if inside is not None and inside.kind == "exp":
                total += k * inside.arguments[0]
                how = f"rewrite {'ln_power' if k > 0 else 'ln_inverse'} by factor_positive; rewrite ln_exp; reflexivity"
            else:
                total += k * self.terms.node("ln", (f,))
                if len(factors) == k == 1:
                    one, how = x, "reflexivity"
            leaves.append((one, how))
        self._chain(s, "ln", leaves)
        return total

    def _sqrt(self, s: Any, c: Any) -> Any:
        before, self.split = self.split, True
        factors = self._factors(c)
        self.split = before
        product, leaves = sp.Integer(1), []
        for f, k in factors:
            n, x = abs(k), self._text(f)
            if f == 1:
                leaves.append(("1", "apply sqrt_1"))
                continue
            product *= self.terms.node("sqrt", (f,)) ** k
            one = f"({x}) ^ {n}" if k > 0 else f"/ ({x}) ^ {n}"
            leaves.append((one, f"apply {'sqrt_power' if k > 0 else 'sqrt_inverse'}; factor_positive"))
        self._chain(s, "sqrt", leaves)
        return product

    def _abs(self, s: Any, c: Any) -> Any:
        c = sp.expand(c)
        other = c.could_extract_minus_sign()
        self.proofs[s] = ["apply opposite_abs; identity." if other else "f_equal; identity."]
        return self.terms.node("abs", (-c if other else c,))

    def _other(self, s: Any, *c: Any) -> Any:
        self.proofs[s] = ["f_equal; identity."]
        return self.terms.node(self.terms.nodes[s].kind, tuple(map(factored, c)), self.terms.nodes[s].name)

    def vanishes(self, e: Any) -> bool:
        """Whether a canonical expression is zero, roots being roots."""
        above = sp.expand(sp.fraction(sp.together(e))[0])
        for s in sorted(above.free_symbols, key=str):
            n = self.terms.nodes.get(s)
            if n is not None and n.kind == "sqrt":
                above = sp.expand(
                    sum(c * n.arguments[0] ** (i // 2) * s ** (i % 2) for (i,), c in sp.Poly(above, s).terms())
                )
        return sp.cancel(above) == 0


__all__ = ["Canonical", "Node", "Terms"]
