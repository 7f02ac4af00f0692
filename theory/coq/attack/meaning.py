"""What a statement says at given letters: terms in exact rationals, or in enclosures where they are no rationals.

Inner letters are tried, not proved: `forall` holds as long as no value tried is against it, `exists` as soon as one is for
it. So what is false here is false (but for an `exists`, whose witness may have been missed), and what is true here has not
been broken. None says that an enclosure does not decide. Where Coq's total functions have a value that analysis does not
(division by zero, logarithms and roots of what has none), nothing is said, and Junk is raised.

Belongs here: terms and propositions. Does not belong here: Model.v's definitions (clients.py), which values are tried for
letters (tries.py), statements and their files (faults.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flint import arb, ctx, fmpq
from gmpy2 import mpq  # pyright: ignore[reportAttributeAccessIssue] - its stubs leave it out

from theory.coq.attack import tries
from theory.coq.attack.clients import Clients, Linear, least_of
from theory.coq.attack.reader import Tree

Env = Mapping[str, Any]
PRECISION = 256  # bits of enclosures
EXPONENT = 4096  # the largest power that is worked out


class Junk(ArithmeticError):
    """A value that only Coq's total functions have."""


class Unknown(ValueError):
    """A definition that has no meaning here; the message names it."""


def enclosed(x: Any) -> arb:
    """A number as an enclosure."""
    return arb(fmpq(int(x.numerator), int(x.denominator))) if isinstance(x, mpq) else x


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    return (enclosed(a), enclosed(b)) if isinstance(a, arb) != isinstance(b, arb) else (a, b)


def _divided(a: Any, b: Any) -> Any:
    if isinstance(b, Linear) or (b.contains(0) if isinstance(b, arb) else b == 0):
        raise Junk("division by zero")
    return a / b


def _power(a: Any, b: Any) -> Any:
    if abs(b) > EXPONENT or b < 0 or b.denominator != 1:
        raise Unknown(f"the power {b}")
    return a ** int(b)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": _divided,
}  # fmt: skip


# --- functions of numbers --------------------------------------------------------------------------------------------


def _inside(name: str, x: arb, low: Callable[[arb], bool]) -> arb:
    if not low(x):
        raise Junk(f"{name} of {x.str(5)}")
    return x


def _ln(x: Any) -> arb:
    return _inside("logarithm", enclosed(x), lambda v: bool(v > 0)).log()


def _sqrt(x: Any) -> Any:
    if isinstance(x, mpq) and x == 0:
        return mpq(0)
    return _inside("root", enclosed(x), lambda v: bool(v > 0)).sqrt()


def _exp(x: Any) -> Any:
    return mpq(1) if isinstance(x, mpq) and x == 0 else enclosed(x).exp()


def _ceiling(x: Any) -> mpq:
    if isinstance(x, mpq):
        return mpq(-(-x.numerator // x.denominator))
    found = x.ceil().unique_fmpz()
    if found is None:
        raise Junk("the least whole number of an enclosure with one inside")
    return mpq(int(found))


def _total(levels: Any, sizes: Any, f: Any) -> Any:
    return _sum(levels, lambda level: _sum(sizes(level), lambda i: f(level, i)))


def _sum(n: Any, f: Any) -> Any:
    return sum((f(mpq(i)) for i in range(int(n))), mpq(0))


def _ratios(levels: Any, sizes: Any, r: Any) -> Any:
    whole = _sum(levels, lambda level: sizes(level) * r(level))
    return lambda level, i: _divided(r(level), whole)


def _blends_to_one(levels: Any, sizes: Any, x: Any, w: Any, a: Any, b: Any) -> bool:
    return x + _total(levels, sizes, lambda level, i: mpq(0) if (level, i) == (a, b) else w(level, i)) == 1


def _outcome(x: Any) -> Linear:
    """A function of the outcome: one of Model.v's quantities, or `fun o => ...`."""
    return x if isinstance(x, Linear) else x(OUTCOME)


def _risk(space: Any, x: Any, y: Any) -> Any:
    gap = _outcome(x) - _outcome(y)
    return gap.of.moment(gap, gap)


def _moment(space: Any, x: Any, y: Any) -> Any:
    return _outcome(x).of.moment(_outcome(x), _outcome(y))


def _client(name: str, arity: int) -> tuple[int, Callable[..., Any]]:
    return arity, lambda m, *arguments: getattr(m, name)(*arguments)


OUTCOME = object()  # what functions of the outcome are applied to
# Numbers of arguments, and meanings: of Coq's functions, of Sums.v and of Model.v.
DEFINED: dict[str, tuple[int, Callable[..., Any]]] = {
    "exp": (1, _exp), "ln": (1, _ln), "sqrt": (1, _sqrt), "Rabs": (1, abs), "ceiling_of": (1, _ceiling),
    "erfc": (1, lambda x: enclosed(x).erfc()), "Rpower": (2, lambda a, b: _exp(_product(b, _ln(a)))),
    "Rmin": (2, lambda a, b: b if compared("<=", *_alike(b, a)) else a),
    "Rmax": (2, lambda a, b: a if compared("<=", *_alike(b, a)) else b),
    "Nat.pred": (1, lambda n: max(n - 1, mpq(0))), "INR": (1, lambda n: n),
    "two": (2, lambda x, y: lambda level: x if level == 0 else y),
    "three": (3, lambda x, y, z: lambda level: x if level == 0 else y if level == 1 else z),
    "same": (1, lambda x: lambda level: x), "weights": (1, lambda v: lambda level, i: v(level)),
    "sum": (2, _sum), "total": (3, _total), "ratios": (3, _ratios),
    "is": (4, lambda a, b, level, i: (level, i) == (a, b)),
    "sums_to_one": (3, lambda levels, sizes, w: _total(levels, sizes, w) == 1), "blends_to_one": (6, _blends_to_one),
    "risk": (3, _risk), "moment": (3, _moment), "bias": (3, lambda space, x, y: (_outcome(x) - _outcome(y)).mean),
    "middle": _client("middle", 1), "parameter": _client("parameter", 3), "estimate": _client("estimate", 3),
    "message": _client("message", 3), "aggregate": _client("aggregate", 2), "cleaned": _client("cleaned", 4),
    "personal": _client("personal", 5), "mixed": _client("mixed", 5), "blend": _client("blend", 5),
    "least_of_centre": (2, lambda m, v: v == m.least_of_centre()),
    "least_without": (4, lambda m, a, b, v: v == m.least_of_centre((a, b))),
    "least_of_client": (4, lambda m, a, b, v: v == m.least_of_client(a, b)),
    "least": (3, lambda admissible, f, v: (best := least_of(f)) is not None and v == best[1]),
}  # fmt: skip
CONSTANTS: dict[str, Callable[[], Any]] = {"PI": arb.pi, "True": lambda: True}


def _product(a: Any, b: Any) -> Any:
    a, b = _alike(a, b)
    return a * b


# --- terms -----------------------------------------------------------------------------------------------------------


def value(tree: Tree, at: Env) -> Any:
    """What a term is. Raises Junk, and Unknown for what is not defined here."""
    match tree:
        case ("number", text):
            return mpq(text)
        case ("value", found):
            return found
        case ("name", name):
            return at[name] if name in at else _named(name)
        case ("minus", a):
            return -value(a, at)
        case ("nat", ("-", a, b)):
            return max(value(a, at) - value(b, at), mpq(0))
        case ("nat", a):
            return value(a, at)
        case ("+" | "-" | "*" | "/" as sign, a, b):
            return ARITHMETIC[sign](*_alike(value(a, at), value(b, at)))
        case ("^", a, b):
            return _power(value(a, at), value(b, at))
        case ("apply", f, *arguments):
            return _applied(f, [value(a, at) for a in arguments], at)
        case ("fun", names, body):
            return lambda *given: value(body, {**at, **dict(zip(names, given, strict=False))})
        case ("let", name, a, body):
            return value(body, {**at, name: value(a, at)})
        case ("if", asked, yes, no):
            return value(yes if holds(asked, at) else no, at)
    answer = holds(tree, at)
    if answer is None:
        raise Unknown("an undecided truth among numbers")
    return answer


def folded(tree: Tree, at: Env) -> Tree:
    """A proposition whose terms of known letters are numbers: worked out once, however often inner letters are tried."""
    known = frozenset(x for x, v in at.items() if isinstance(v, mpq))
    return _folded(tree, at, known)[0]


def _folded(tree: Tree, at: Env, known: frozenset[str]) -> tuple[Tree, bool]:
    """The same, and whether the tree is a number's."""
    match tree:
        case ("number" | "value", _):
            return tree, True
        case ("name", x):
            return tree, x in known
        case ("fun", names, body):
            return ("fun", names, _folded(body, at, known - {*names})[0]), False
        case ("let", x, v, body):
            return ("let", x, _closed(v, at, known), _folded(body, at, known - {x})[0]), False
        case ("forall" | "exists", binders, body):
            inside = known - {x for x, _ in binders}
            kinds = tuple((x, None if kind is None else _folded(kind, at, known)[0]) for x, kind in binders)
            return (tree[0], kinds, _folded(body, at, inside)[0]), False
    parts = [_folded(part, at, known) for part in tree[1:]]
    if tree[0] in (*ARITHMETIC, "^", "minus") and all(known for _, known in parts):
        return tree, True
    kept = (_number(part, at) if is_number else part for part, is_number in parts)
    return (tree[0], *kept), False


def _closed(tree: Tree, at: Env, known: frozenset[str]) -> Tree:
    part, is_number = _folded(tree, at, known)
    return _number(part, at) if is_number else part


def _number(tree: Tree, at: Env) -> Tree:
    """A number's term as the number; as it stands where it has none, which matters only where it is reached."""
    try:
        return tree if tree[0] == "name" and tree[1] not in at else ("value", value(tree, at))
    except Junk:
        return tree


def _named(name: str) -> Any:
    if name in CONSTANTS:
        return CONSTANTS[name]()
    if name not in DEFINED:
        raise Unknown(name)
    arity, meaning = DEFINED[name]
    return meaning if arity else meaning()


def _applied(f: Tree, arguments: Sequence[Any], at: Env) -> Any:
    if f[0] == "name" and f[1] in DEFINED and f[1] not in at:
        arity, meaning = DEFINED[f[1]]
        if len(arguments) < arity:
            return lambda *more: _given(meaning(*arguments, *more[: arity - len(arguments)]), more[arity - len(arguments) :])
        return _given(meaning(*arguments[:arity]), arguments[arity:])
    return _given(value(f, at), arguments)


def _given(f: Any, arguments: Sequence[Any]) -> Any:
    """A function of what is left of its arguments; the outcome is no number, and functions of it stay as they are."""
    left = [a for a in arguments if a is not OUTCOME]
    return f(*left) if left else f


# --- propositions ----------------------------------------------------------------------------------------------------


def holds(tree: Tree, at: Env) -> bool | None:
    """Whether a proposition holds, as far as values tried for its inner letters say; None where enclosures do not decide."""
    match tree:
        case ("and", a, b):
            first = holds(a, at)
            return False if first is False else _both(first, holds(b, at))
        case ("or", a, b):
            first = holds(a, at)
            return True if first else _either(first, holds(b, at))
        case ("implies", a, b):
            first = holds(a, at)
            return True if first is False else holds(b, at) if first else _either(None, holds(b, at))
        case ("not", a):
            inner = holds(a, at)
            return None if inner is None else not inner
        case ("let", name, a, body):
            return holds(body, {**at, name: value(a, at)})
        case ("forall" | "exists" as kind, binders, body):
            return _quantified(kind, binders, body, at)
        case ("=" | "<>" | "<" | "<=" | ">" | ">=" as sign, a, b):
            return compared(sign, *_alike(value(a, at), value(b, at)))
        case ("nat", a):
            return holds(a, at)
        case ("name" | "apply" | "if", *_):
            return bool(value(tree, at))
    raise Unknown(f"the proposition {tree[0]}")


def _both(a: bool | None, b: bool | None) -> bool | None:
    return False if b is False else None if a is None or b is None else True


def _either(a: bool | None, b: bool | None) -> bool | None:
    return True if b else None if a is None or b is None else False


def compared(sign: str, a: Any, b: Any) -> bool | None:
    """Whether a relation holds between numbers; between enclosures, None where they overlap."""
    if isinstance(a, arb):
        if sign in ("=", "<>"):
            apart = not a.overlaps(b)
            return (sign == "<>") if apart else None
        yes, no = {"<": (a < b, a >= b), "<=": (a <= b, a > b), ">": (a > b, a <= b), ">=": (a >= b, a < b)}[sign]
        return True if yes else False if no else None
    return {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]


def _quantified(kind: str, binders: Sequence[tuple[str, Tree | None]], body: Tree, at: Env) -> bool | None:
    """A quantifier over the values that are tried, one letter after the other."""
    if not binders:
        return holds(body, at)
    (name, type_), *others = binders
    rest = (kind, tuple(others), body) if others else body
    decisive = kind == "exists"
    answer: bool | None = not decisive
    for tried in candidates(kind, name, type_, rest, at):
        try:
            found = holds(rest, {**at, name: tried})
        except Junk:
            continue
        if found is decisive:
            return decisive
        answer = None if found is None else answer
    return answer


def candidates(kind: str, name: str, type_: Tree | None, body: Tree, at: Env) -> Iterable[Any]:
    """Values that are tried for an inner letter."""
    match tries.sort_of(kind, name, type_, body):
        case "R":
            yield from tries.numbers(kind, name, body, at, value)
        case "nat":
            yield from map(mpq, range(4))
        case "weights":
            yield from tries.weights(name, body, at, value)
        case "space":
            yield OUTCOME
        case "clients":
            assert type_ is not None
            yield clients(type_, at)
        case other:
            raise Unknown(f"{name}, {other or 'of a kind that is not tried'}")


def clients(type_: Tree, at: Env) -> Any:
    """Clients of a type, or of each copy the same."""
    if type_[0] == "implies":
        one = clients(type_[2], at)
        return lambda j: one
    _, _, _, levels, sizes, *variances = type_
    count = range(int(value(levels, at)))
    counts = tuple(int(value(sizes, at)(mpq(k))) for k in count)
    by_level = tuple(tuple(value(v, at)(mpq(k)) for k in count) for v in variances)
    if any(v < 0 for row in by_level for v in row):
        raise Junk("a variance below zero")
    return Clients(counts, by_level)


def precisely(function: Callable[[], Any], bits: int = PRECISION) -> Any:
    """Call a function with enclosures of so many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        return function()
    finally:
        ctx.prec = before


__all__ = ["OUTCOME", "Env", "Junk", "Unknown", "clients", "compared", "folded", "holds", "precisely", "value"]
