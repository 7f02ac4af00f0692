"""The letters, hypotheses and clients of a theorem about a model, and their Coq text: levels, sizes, weights, risks.

Belongs here: what every statement is made of, whatever it says.  Does not belong here: what is said (``sayings``,
``sayings_of_best``), statements as wholes (``statements``), models (``model``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import sympy as sp

from theory.coq import model
from theory.coq.setting import hypotheses, structural
from theory.coq.terms import Unprovable, name_of, relation, term
from theory.engine import domain
from theory.engine.algebra import cancelled, factored
from theory.engine.claim import Claim
from theory.engine.condition import substitutions
from theory.engine.domain import Case

LONG, FEW = 60, 6  # a strength of more operations, in so few letters, is made one fraction first
RESERVED = {"C", "M", "E", "i", "j", "w", "t", "x"}


@dataclass
class Frame:
    """The letters, hypotheses and clients of a theorem."""

    claim: Claim
    case: Case
    conditions: Sequence[Any]
    symbols: list[Any] = field(default_factory=list)
    sizes: set[Any] = field(default_factory=set)
    hypotheses: list[tuple[str, str]] = field(default_factory=list)
    clients: list[model.Clients] = field(default_factory=list)
    members: list[tuple[model.Clients, int]] = field(default_factory=list)
    some: list[list[Any]] = field(default_factory=list)  # of each list, one letter at least is not zero
    grows: Any = None  # the letter of a limit, and within how much over it the limit is
    within: Any = None

    def one_of(self, e: Any) -> None:
        """Ask for what keeps an expression's denominator from vanishing: one of some letters that may be zero."""
        rules = {s: v.low + sp.Symbol(f"n_{s}", nonnegative=True) for v in self.claim.variables if v.kind == "size"
                 for s in _symbols(v, self)}  # fmt: skip
        below = sp.fraction(cancelled(e))[1]
        if structural(sp.expand(below.subs(rules))) or below.is_number:
            return
        weak = [s for s in self.symbols if s in below.free_symbols and s.is_nonnegative and not s.is_positive]
        if not weak or below.subs(dict.fromkeys(weak, 0)) != 0:
            return
        small = below.subs(rules)
        strong = [s for s in weak if structural(sp.expand(small.subs(s, sp.Symbol(f"p_{s}", positive=True))))]
        if strong and strong not in self.some:
            self.some.append(strong)
            self.hypotheses.append((f"Z{len(self.some)}", " \\/ ".join(f"0 < {name_of(s)}" for s in strong)))

    def clients_name(self, c: model.Clients, inner: bool = True) -> str:
        """The letter of a federation; of one of its copies."""
        k = self.clients.index(c)
        name = "M" + (str(k + 1) if k else "")
        return f"({name} j)" if c.copies is not None and inner else name

    def space_name(self, c: model.Clients) -> str:
        """The letter of a federation's space."""
        k = self.clients.index(c)
        taken = any(name_of(s) == "S" for s in self.symbols)
        return ("Space" if taken else "S") + (str(k + 1) if k else "")

    def member(self, c: model.Clients, level: int) -> str:
        """The letter of a client of a level."""
        k = self.members.index((c, level))
        return "i" + (str(k + 1) if k else "")


def by_level(values: Sequence[Any], text: Any) -> str:
    """What belongs to each level, as a function of the level."""
    if len(set(values)) == 1:
        return f"(same {text(values[0])})"
    name = {2: "two", 3: "three"}.get(len(values))
    if name is None:
        raise Unprovable(f"{len(values)} levels")
    return f"({name} {' '.join(map(text, values))})"


def argument(e: Any) -> str:
    """A term where Coq expects one argument."""
    text = term(e)
    return text if re.fullmatch(r"[A-Za-z_0-9]+", text) else f"({text})"


def size_text(e: Any) -> str:
    """A level's number of clients, as a whole number."""
    if e.is_Symbol:
        return name_of(e)
    if e.is_Integer and e > 0:
        return f"{e}%nat"
    if isinstance(e, sp.Add) and len(e.args) == 2 and e.args[0] in (-1, 1) and e.args[1].is_Symbol:
        name = name_of(e.args[1])
        return f"(Nat.pred {name})" if e.args[0] == -1 else f"({name} + 1)%nat"
    raise Unprovable(f"a level of {e} clients")


def sizes_text(c: model.Clients) -> str:
    """The numbers of clients, by level."""
    return by_level(c.sizes, size_text)


def type_text(f: Frame, c: model.Clients) -> str:
    """The type of a federation."""
    parts = " ".join(by_level(x, argument) for x in (c.tau2, c.alpha2, c.nu2))
    return f"clients {f.space_name(c)} {len(c.sizes)} {sizes_text(c)} {parts}"


def weights_text(c: model.Clients, w: model.Weights) -> str:
    """Weights of the levels' clients, or ratios of them."""
    values = by_level(tuple(map(sp.sympify, w.values)), argument)
    return f"(ratios {len(c.sizes)} {sizes_text(c)} {values})" if isinstance(w, model.Ratios) else f"(weights {values})"


def risk_text(f: Frame, r: model.Risk) -> str:
    """A risk in Model.v's words."""
    c, m, s = r.clients, f.clients_name(r.clients), f.space_name(r.clients)
    match r:
        case model.Server():
            text = f"risk {s} (aggregate {m} {weights_text(c, r.weights)}) (middle {m})"
        case model.Message():
            text = f"risk {s} (message {m} {r.level} {f.member(c, r.level)}) (middle {m})"
        case model.Shared():
            mine, server = (
                f"estimate {m} {r.level} {f.member(c, r.level)} o",
                f"aggregate {m} {weights_text(c, r.weights)} o",
            )
            text = f"moment {s} (fun o => {mine} - middle {m} o) (fun o => {server} - middle {m} o)"
        case model.Own():
            i = f.member(c, r.level)
            text = f"risk {s} (estimate {m} {r.level} {i}) (parameter {m} {r.level} {i})"
        case model.Personal():
            i = f.member(c, r.level)
            personal = personal_text(f, c, r.weights, r.level, r.own_noise, argument(r.lam))
            text = f"risk {s} {personal} (parameter {m} {r.level} {i})"
        case model.Mixed():
            i = f.member(c, r.level)
            mixed = f"(mixed {m} {argument(r.u)} {r.level} {i} {pivot_text(f, c, r.weights, r.level, r.own_noise)})"
            text = f"risk {s} {mixed} (parameter {m} {r.level} {i})"
        case _:
            raise Unprovable(f"{type(r).__name__} has no text")
    return f"sum {size_text(c.copies)} (fun j => {text})" if c.copies is not None else text


def personal_text(f: Frame, c: model.Clients, weights: model.Weights, level: int, own_noise: bool, lam: str) -> str:
    """A client's estimate between its own message and a pivot."""
    return f"(personal {f.clients_name(c)} {lam} {level} {f.member(c, level)} {pivot_text(f, c, weights, level, own_noise)})"


def pivot_text(f: Frame, c: model.Clients, weights: model.Weights, level: int, own_noise: bool) -> str:
    """What a personal estimate is drawn towards."""
    m, i, w = f.clients_name(c), f.member(c, level), weights_text(c, weights)
    return f"(aggregate {m} {w})" if own_noise else f"(cleaned {m} {w} {level} {i})"


def smooth(e: Any) -> Any:
    """An expression whose sums are products where that shows their signs."""
    if not e.args or structural(e):
        return e
    e = e.func(*map(smooth, e.args))
    if structural(e) or not isinstance(e, sp.Add):
        return e
    number, rest = factored(e).as_coeff_Mul()
    return e if rest.is_Add and number != 1 else number * rest


def plain_strength(lam: Any) -> tuple[Any, list[str]]:
    """A strength whose inner sums that are not plainly positive are one fraction each; the line that puts it there."""
    lam = sp.sympify(lam)
    simple = factored(lam) if lam.count_ops() > LONG and len(lam.free_symbols) <= FEW else smooth(lam)
    return simple, [] if term(simple) == term(lam) else [f"replace ({term(lam)}) with ({term(simple)}) by side."]


def rewrite(f: Frame, r: model.Risk) -> list[str]:
    """Lines that turn a risk into its closed form."""
    c, m, before = r.clients, f.clients_name(r.clients), []
    match r:
        case model.Server():
            line = f"(server_risk {m})"
        case model.Message():
            line = f"(message_risk {m})"
        case model.Shared():
            line = f"(shared_moment {m})"
        case model.Own():
            line = f"(estimate_risk {m})"
        case model.Personal():
            theorem = "client_risk" if r.own_noise else "cleaned_risk"
            lam, before = plain_strength(r.lam)
            line = f"({theorem} {m} _ ({term(lam)}))"
        case model.Mixed():
            line = f"({'mixture_risk' if r.own_noise else 'mixture_cleaned_risk'} {m} _ ({term(r.u)}))"
        case _:
            raise Unprovable(f"{type(r).__name__} has no theorem")
    if c.copies is None:
        return [*before, f"rewrite {line} by side."]
    return [*before, f"erewrite (sum_same {size_text(c.copies)}); [| intros j J; rewrite {line} by side; reflexivity]."]


@singledispatch
def _occurring(d: Any) -> tuple[list[model.Clients], list[tuple[model.Clients, int]], list[Any]]:
    """Federations, members and expressions of a decision."""
    raise Unprovable(f"{type(d).__name__} is no decision")


@_occurring.register
def _(d: model.Value) -> Any:
    clients, members, found = [], [], [sp.sympify(d.expression)]
    for r in d.risks:
        if isinstance(r, model.Optimum):
            inner = _occurring(r.decision)
            clients, members, found = [*clients, *inner[0]], [*members, *inner[1]], [*found, *inner[2], r.closed]
            continue
        clients.append(r.clients)
        if not isinstance(r, model.Server):
            member: Any = r
            members.append((r.clients, member.level))
        if isinstance(r, model.Server | model.Shared | model.Personal | model.Mixed):
            found += r.weights.values
        if isinstance(r, model.Personal):
            found.append(r.lam)
        if isinstance(r, model.Mixed):
            found.append(r.u)
    return clients, members, found


@_occurring.register
def _(d: model.LeastCentre) -> Any:
    return [d.clients], [(d.clients, d.without)] if d.without is not None else [], []


@_occurring.register
def _(d: model.LeastClient) -> Any:
    return [d.clients], [(d.clients, d.level)], []


@_occurring.register
def _(d: model.BestWeights) -> Any:
    return [d.clients], [], []


@_occurring.register
def _(d: model.BestWithout) -> Any:
    return [d.clients], [(d.clients, d.level)], []


@_occurring.register
def _(d: model.Unimodal) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values, d.lam]


@_occurring.register
def _(d: model.PivotBest) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values]


@_occurring.register
def _(d: model.BestBlend) -> Any:
    return [d.clients], [(d.clients, d.level)], []


@_occurring.register
def _(d: model.BestStrength) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values]


@_occurring.register
def _(d: model.Attains) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values, *([] if d.lam is None else [d.lam])]


@_occurring.register
def _(d: model.AttainsMixed) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values, d.u]


@_occurring.register
def _(d: model.BestMixture) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values]


@_occurring.register
def _(d: model.LeastMixture) -> Any:
    return [d.clients], [(d.clients, d.level)], [*d.weights.values]


class Rules:
    """Non-negative letters for the sizes and other bounded letters, in formulas and in the script."""

    def __init__(self, f: Frame, where: Mapping[Any, Any], shifts: bool = False):
        self.rules: dict[Any, Any] = {}
        self.sizes: dict[Any, Any] = {}
        self.frame, self.where = f, where
        self.lines: list[str] = []
        for s, e in f.claim.shifted(f.case)[0].items() if shifts else []:
            if s in f.symbols and s not in f.sizes:
                self._new(f, s, sp.sympify(e))
        lows = {s: v.low for v in f.claim.variables if v.kind == "size" for s in _symbols(v, f)}
        for s in f.symbols:
            if s in lows and s in f.sizes:
                n = sp.Symbol(f"n_{name_of(s)}", nonnegative=True)
                self.rules[s] = self.sizes[s] = lows[s] + n
                h = next(h for h, text in f.hypotheses if text == f"{lows[s]} <= {name_of(s)}")
                shift = f"destruct (above {lows[s]} (INR {name_of(s)}) {h}) as [{n} [P_{n} E_{n}]]"
                self.lines.append(f"{shift}; rewrite E_{n} in *; clear E_{n}.")

    def shifted(self) -> Rules:
        """With the claim's own new letters too: where a condition or an order decides a sign."""
        return Rules(self.frame, self.where, shifts=True)

    def _new(self, f: Frame, s: Any, e: Any) -> None:
        """Put e, which holds one new non-negative letter, in the place of s."""
        fresh = sorted((x for x in e.free_symbols if x not in f.symbols), key=str)
        solution = sp.solve(sp.together(e - s), fresh[0]) if len(fresh) == 1 else []
        if len(solution) != 1:
            return
        x, new = name_of(s), sp.Symbol(f"n_{name_of(s)}", nonnegative=True)
        self.rules[s] = e.subs(fresh[0], new)
        self.lines += [
            f"destruct (above 0 ({term(factored(solution[0]))})) as [{new} [P_{new} E_{new}]]; [side |].",
            f"assert (F_{new} : {x} = {term(self.rules[s])}) "
            f"by (rewrite Rplus_0_l in E_{new}; rewrite <- E_{new}; algebra).",
            f"clear E_{new}; rewrite F_{new} in *; clear F_{new}.",
        ]

    def __call__(self, e: Any) -> Any:
        """An expression in the new letters."""
        new = {s: x for s, x in self.rules.items() if s not in self.sizes}
        return sp.sympify(e).subs(self.where).subs(new).subs(self.sizes, simultaneous=True)


def _symbols(v: Any, f: Frame) -> list[Any]:
    found = domain.symbols_of([v], f.case)[v.name]
    return found if isinstance(found, list) else [found]


def frame_of(claim: Claim, case: Case, conditions: Sequence[Any], decisions: Sequence[Any], formula: Sequence[Any]) -> Frame:
    """The letters, hypotheses and clients that decisions and a formula speak of."""
    f = Frame(claim, case, conditions)
    found: list[Any] = [e for e in formula if e is not None]
    for d in decisions:
        clients, members, expressions = _occurring(d)
        f.clients = list(dict.fromkeys([*f.clients, *clients]))
        f.members = list(dict.fromkeys([*f.members, *members]))
        found += expressions
    for c in f.clients:
        found += [*c.sizes, *c.tau2, *c.alpha2, *c.nu2, *([c.copies] if c.copies is not None else [])]
    occurring = set().union(*(sp.sympify(e).free_symbols for e in (*found, *conditions)))
    occurring -= {r.symbol for d in decisions if isinstance(d, model.Value) for r in d.risks}
    f.grows = next(iter(occurring & {model.BIG, model.MANY}), None)
    occurring.discard(f.grows)
    for v in claim.variables:
        for s in _symbols(v, f) if v.kind != "choice" else []:
            if s not in occurring:
                continue
            if name_of(s) in RESERVED:
                raise Unprovable(f"the letter {s} is taken by the statement itself")
            f.symbols.append(s)
            if v.kind == "size":
                f.sizes.add(s)
            f.hypotheses += hypotheses(v, name_of(s))
    for s in (s for s in sorted(occurring & set(model.FREE), key=str) if s not in f.symbols):
        f.symbols.append(s)
        if s.is_nonnegative:
            f.hypotheses.append((f"H_{name_of(s)}", f"0 {'<' if s.is_positive else '<='} {name_of(s)}"))
    own = set().union(*(c.free_symbols for c in conditions)) - set(f.symbols)  # the conditions' own letters: a slack
    for s in sorted((s for s in own if s.is_positive), key=str):
        f.symbols.append(s)
        f.hypotheses.append((f"H_{name_of(s)}", f"0 < {name_of(s)}"))
    if f.grows == model.MANY:
        f.sizes.add(f.grows)
    extra = occurring - set(f.symbols)
    if extra:
        raise Unprovable(f"letters without a domain: {', '.join(sorted(map(str, extra)))}")
    f.hypotheses += [(f"C{k}", relation(c)) for k, c in enumerate(conditions, 1)]
    where, _ = substitutions(conditions)
    for e in found:
        f.one_of(sp.sympify(e).subs(where))
    return f


def binders_of(f: Frame) -> str:
    """The bound letters, sizes first."""
    sizes = [name_of(s) for s in f.symbols if s in f.sizes]
    reals = [name_of(s) for s in f.symbols if s not in f.sizes]
    text = (f" ({' '.join(sizes)} : nat)" if sizes else "") + (f" ({' '.join(reals)} : R)" if reals else "")
    return text


def growing_of(f: Frame) -> tuple[str, str]:
    """The letter of a limit with its type, and from where on it is meant."""
    return f"{name_of(f.grows)} : {'nat' if f.grows == model.MANY else 'R'}", f"1 <= {name_of(f.grows)}"


def clients_binders(f: Frame) -> str:
    """The bound federations, each with its space."""
    found = []
    for c in f.clients:
        kind = ("nat -> " if c.copies is not None else "") + type_text(f, c)
        found.append(f"({f.space_name(c)} : space) ({f.clients_name(c, inner=False)} : {kind})")
    return "\n    ".join(found)


def members_of(f: Frame) -> list[tuple[str, str]]:
    """The bound clients of levels, each with what bounds it."""
    return [(f.member(c, a), f"({f.member(c, a)} < {size_text(c.sizes[a])})%nat") for c, a in f.members]


@dataclass
class Said:
    """A conclusion with the lines that prove it, and what it says in a sentence."""

    conclusion: str
    lines: list[str]
    says: str


def chosen_text(values: Sequence[Any]) -> str:
    """The chosen weights, by level."""
    return by_level(tuple(values), argument)
