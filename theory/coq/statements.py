"""Theorems about models: what a claim says of risks in Model.v's clients, for every number of them, and proof scripts.

For a claim and its model (model.py), per case:

- the printed formula (where it is wrong: the corrected one) is a risk, or the difference of risks, or bounds it;
- it is the least risk of all linear estimates; the printed weights or strength are better than all others;
- where it is wrong, or needs a condition that does not hold: the negation, at a point of the model.

Each with a second theorem: something meets the hypotheses. Clients are whole numbers, other letters reals of the
claim's domain.

Belongs here: Coq text of statements and scripts. Does not belong here: terms and hypotheses of a domain (generator.py),
models (model.py), files and coqc (prove.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import sympy as sp

from theory.coq import generator, model
from theory.coq.generator import Unprovable, name_of, relation, term
from theory.engine import domain
from theory.engine.algebra import entries, time_limit
from theory.engine.claim import Claim
from theory.engine.condition import alternatives, met, substitutions
from theory.engine.domain import Case
from theory.engine.judging import find_counterexample

GRADE = "model"
LONG, FEW = 60, 6  # a strength of more operations, in so few letters, is made one fraction first
RESERVED = {"C", "M", "E", "i", "j", "w", "t", "x"}
_FREELY = {s: sp.Integer(1 if s.is_positive else 0) for s in model.FREE}  # at a point


class NoModel(Unprovable):
    """A claim whose model is not named."""


@dataclass
class Statement:
    """A theorem about a model: name, sentence, Coq proposition, script."""

    name: str
    says: str
    proposition: str
    script: list[str]


@dataclass
class _Frame:
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
        below = sp.fraction(sp.cancel(sp.together(e)))[1]
        if generator.structural(sp.expand(below.subs(rules))) or below.is_number:
            return
        weak = [s for s in self.symbols if s in below.free_symbols and s.is_nonnegative and not s.is_positive]
        if not weak or below.subs(dict.fromkeys(weak, 0)) != 0:
            return
        small = below.subs(rules)
        strong = [s for s in weak if generator.structural(sp.expand(small.subs(s, sp.Symbol(f"p_{s}", positive=True))))]
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


# --- text of clients, weights and risks --------------------------------------------------------------------------------


def _function(values: Sequence[Any], text: Any) -> str:
    """What belongs to each level, as a function of the level."""
    if len(set(values)) == 1:
        return f"(same {text(values[0])})"
    name = {2: "two", 3: "three"}.get(len(values))
    if name is None:
        raise Unprovable(f"{len(values)} levels")
    return f"({name} {' '.join(map(text, values))})"


def _argument(e: Any) -> str:
    text = term(e)
    return text if re.fullmatch(r"[A-Za-z_0-9]+", text) else f"({text})"


def _size(e: Any) -> str:
    if e.is_Symbol:
        return name_of(e)
    if e.is_Integer and e > 0:
        return f"{e}%nat"
    if isinstance(e, sp.Add) and len(e.args) == 2 and e.args[0] in (-1, 1) and e.args[1].is_Symbol:
        name = name_of(e.args[1])
        return f"(Nat.pred {name})" if e.args[0] == -1 else f"({name} + 1)%nat"
    raise Unprovable(f"a level of {e} clients")


def _sizes(c: model.Clients) -> str:
    return _function(c.sizes, _size)


def _type(f: _Frame, c: model.Clients) -> str:
    parts = " ".join(_function(x, _argument) for x in (c.tau2, c.alpha2, c.nu2))
    return f"clients {f.space_name(c)} {len(c.sizes)} {_sizes(c)} {parts}"


def _weights(c: model.Clients, w: model.Weights) -> str:
    values = _function(tuple(map(sp.sympify, w.values)), _argument)
    return f"(ratios {len(c.sizes)} {_sizes(c)} {values})" if isinstance(w, model.Ratios) else f"(weights {values})"


def _risk(f: _Frame, r: model.Risk) -> str:
    c, m, s = r.clients, f.clients_name(r.clients), f.space_name(r.clients)
    match r:
        case model.Server():
            text = f"risk {s} (aggregate {m} {_weights(c, r.weights)}) (middle {m})"
        case model.Message():
            text = f"risk {s} (message {m} {r.level} {f.member(c, r.level)}) (middle {m})"
        case model.Shared():
            mine, server = f"estimate {m} {r.level} {f.member(c, r.level)} o", f"aggregate {m} {_weights(c, r.weights)} o"
            text = f"moment {s} (fun o => {mine} - middle {m} o) (fun o => {server} - middle {m} o)"
        case model.Own():
            i = f.member(c, r.level)
            text = f"risk {s} (estimate {m} {r.level} {i}) (parameter {m} {r.level} {i})"
        case model.Personal():
            i = f.member(c, r.level)
            personal = _personal(f, c, r.weights, r.level, r.own_noise, _argument(r.lam))
            text = f"risk {s} {personal} (parameter {m} {r.level} {i})"
        case model.Mixed():
            i = f.member(c, r.level)
            mixed = f"(mixed {m} {_argument(r.u)} {r.level} {i} {_pivot(f, c, r.weights, r.level, r.own_noise)})"
            text = f"risk {s} {mixed} (parameter {m} {r.level} {i})"
        case _:
            raise Unprovable(f"{type(r).__name__} has no text")
    return f"sum {_size(c.copies)} (fun j => {text})" if c.copies is not None else text


def _personal(f: _Frame, c: model.Clients, weights: model.Weights, level: int, own_noise: bool, lam: str) -> str:
    return f"(personal {f.clients_name(c)} {lam} {level} {f.member(c, level)} {_pivot(f, c, weights, level, own_noise)})"


def _pivot(f: _Frame, c: model.Clients, weights: model.Weights, level: int, own_noise: bool) -> str:
    m, i, w = f.clients_name(c), f.member(c, level), _weights(c, weights)
    return f"(aggregate {m} {w})" if own_noise else f"(cleaned {m} {w} {level} {i})"


def _smooth(e: Any) -> Any:
    if not e.args or generator.structural(e):
        return e
    e = e.func(*map(_smooth, e.args))
    return generator.factored(e) if isinstance(e, sp.Add) and not generator.structural(e) else e


def _plain(lam: Any) -> tuple[Any, list[str]]:
    """A strength whose inner sums that are not plainly positive are one fraction each; the line that puts it there."""
    lam = sp.sympify(lam)
    simple = generator.factored(lam) if lam.count_ops() > LONG and len(lam.free_symbols) <= FEW else _smooth(lam)
    return simple, [] if term(simple) == term(lam) else [f"replace ({term(lam)}) with ({term(simple)}) by side."]


def _rewrite(f: _Frame, r: model.Risk) -> list[str]:
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
            lam, before = _plain(r.lam)
            line = f"({theorem} {m} _ ({term(lam)}))"
        case model.Mixed():
            line = f"({'mixture_risk' if r.own_noise else 'mixture_cleaned_risk'} {m} _ ({term(r.u)}))"
        case _:
            raise Unprovable(f"{type(r).__name__} has no theorem")
    if c.copies is None:
        return [*before, f"rewrite {line} by side."]
    return [*before, f"erewrite (sum_same {_size(c.copies)}); [| intros j J; rewrite {line} by side; reflexivity]."]


# --- what each decision says -------------------------------------------------------------------------------------------


@dataclass
class _Said:
    """A conclusion with the lines that prove it; `risks` and `parts` are what occurs in it."""

    conclusion: str
    lines: list[str]
    says: str


def _best(d: model.Value) -> list[tuple[str, model.Optimum]]:
    """The letters of a decision's optima."""
    found = [r for r in d.risks if isinstance(r, model.Optimum)]
    return [(f"best{k if len(found) > 1 else ''}", r) for k, r in enumerate(found, 1)]


def _expression(f: _Frame, d: model.Value) -> str:
    """The risks' expression as text."""
    letters: dict[Any, str] = {r: name for name, r in _best(d)}
    stand_in = {r.symbol: sp.Symbol(letters.get(r, f"risk_{k}_")) for k, r in enumerate(d.risks)}
    text = term(sp.sympify(d.expression).subs(stand_in))
    for k, r in enumerate(d.risks):
        if not isinstance(r, model.Optimum):
            inner = _risk(f, r)
            text = inner if text == f"risk_{k}_" else text.replace(f"risk_{k}_", f"({inner})")
    return text


def _optima(f: _Frame, d: model.Value, rules: Any) -> tuple[str, list[str]]:
    """What comes before a statement about optima, and the lines that prove it: each exists, and no other number is it."""
    before, lines = "", []
    for name, r in _best(d):
        what = _say(r.decision, f, (sp.Symbol(name),), "=", rules).conclusion
        before += f"exists {name}, ({what}) /\\\n    "
        proof = _say(r.decision, f, (r.closed,), "=", rules).lines
        lines += [f"exists ({term(r.closed)}).", "split.", "{", *(f"  {x}" for x in proof), "}"]
        if isinstance(r.decision, model.BestStrength):  # at -1 there is no estimate
            before += f"1 + {name} <> 0 /\\\n    "
            lines += ["split; [side |]."]
    return before, lines


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


@singledispatch
def _say(d: Any, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    """Conclusion and proof of a decision about the formula's entries."""
    raise Unprovable(f"{type(d).__name__} is no decision")


@_say.register
def _(d: model.Value, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    before, optima = _optima(f, d, rules)
    rewrites = [line for r in d.risks if isinstance(r, model.Risk) for line in _rewrite(f, r)]
    lines = [*optima, "unfold ratios.", *rewrites]
    left = before + _expression(f, d)
    if sign == "=":
        return _Said(f"{left}\n      = {term(value)}", [*lines, "algebra."], "The risk is the formula.")
    gap = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}) - value
    right = _expression(f, d)
    small, large = (right, term(value)) if sign == "<=" else (term(value), right)
    gap = -gap if sign == "<=" else gap
    try:
        with time_limit(generator.CERTIFICATE_SECONDS):
            form = generator.nonnegative_form(rules(gap))
    except Unprovable:
        rules = rules.shifted()
        with time_limit(generator.CERTIFICATE_SECONDS):
            form = generator.nonnegative_form(rules(gap))
    proof = [f"apply (at_most _ _ ({term(form)})); [identity_of_letters | nonneg]."] if form != 0 else ["right. algebra."]
    lines = [*lines, "unfold_levels.", *rules.lines, *proof]
    return _Said(f"{before}{small}\n      <= {large}", lines, "The risk is bounded as claimed.")


@_say.register
def _(d: model.Limit, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,), big = map(sp.sympify, formula), f.grows
    before, optima = _optima(f, d, rules)
    rewrites = [line for r in d.risks if isinstance(r, model.Risk) for line in _rewrite(f, r)]
    gap = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}) - value
    f.within, forms = _within(gap, big, rules)
    left, bound = _expression(f, d), f"C / {name_of(big)}"
    n = f"n_{name_of(big)}"
    real = name_of(big) if big not in f.sizes else f"(INR {name_of(big)})"
    lines = [
        *optima, "unfold ratios.", *rewrites, "unfold_levels.", *rules.lines,
        f"destruct (above 1 {real} H_{name_of(big)}) as [{n} [P_{n} E_{n}]]; rewrite E_{n} in *; clear E_{n}.", "split.",
        *("- " + (f"apply (at_most _ _ ({term(x)})); [identity_of_letters | nonneg]." if x != 0 else "right. algebra.")
          for x in forms),
    ]  # fmt: skip
    value = _argument(value)
    conclusion = f"{before}{left} - {value}\n      <= {bound} /\\\n    {value} - ({left})\n      <= {bound}"
    says = f"As {name_of(big)} grows, the limit is the formula: the difference is within C/{name_of(big)}."
    return _Said(conclusion, lines, says)


def _within(gap: Any, big: Any, rules: Any) -> tuple[Any, list[Any]]:
    """A C with |gap| <= C / big for big >= 1, and the differences as sums of what is not negative."""
    top, bottom = (sp.Poly(part, big) for part in sp.fraction(sp.cancel(sp.together(gap))))
    if top.is_zero:
        return sp.Integer(0), [0, 0]
    if top.degree() >= bottom.degree():
        raise Unprovable("the quantity does not tend to the claimed limit")
    lead = generator.absolute(bottom.LC())
    size = sum((generator.absolute(c) for c in top.all_coeffs()), sp.Integer(0)) / lead
    start = 1 + sp.Symbol(f"n_{name_of(big)}", nonnegative=True)
    why = Unprovable("no bound")
    for bound in (sp.factor(size), sp.factor(2 * size)):
        try:
            with time_limit(generator.CERTIFICATE_SECONDS):
                gaps = [rules(bound / big - sign * gap).subs(big, start) for sign in (1, -1)]
                return bound, [generator.nonnegative_form(x) for x in gaps]
        except Unprovable as error:
            why = error
    raise why


def _chosen(values: Sequence[Any]) -> str:
    return _function(tuple(values), _argument)


@_say.register
def _(d: model.LeastCentre, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    m, (v, left) = f.clients_name(d.clients), d.clients.optimal(d.without)
    if d.without is None:
        text, theorem, sides = f"least_of_centre {m}", "least_centre", "each_level | side"
        says = "The formula is the least risk of all weights that add to one."
    else:
        i = f.member(d.clients, d.without)
        text, theorem, sides = f"least_without {m} {d.without} {i}", "least_of_others", "side | side | each_level | side"
        says = "The formula is the least risk of all weights that add to one and leave the client's message out."
    lines = [f"replace ({term(value)}) with ({term(left)}) by side.", f"apply ({theorem} {m} {_chosen(v)}); [{sides}]."]
    return _Said(f"{text} ({term(value)})", lines, says)


@_say.register
def _(d: model.LeastClient, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    m, i = f.clients_name(d.clients), f.member(d.clients, d.level)
    x, v, kappa = d.clients.bayes(d.level)
    lines = [
        f"replace ({term(value)}) with ({_function(d.clients.alpha2, _argument)} {d.level}%nat * ({term(x)})) by side.",
        f"apply (least_client {m} ({term(x)}) {_chosen(v)} ({term(kappa)})); [side | side | each_level | side | side].",
    ]
    says = "The formula is the least risk of all blends of the own estimate and the others' messages."
    return _Said(f"least_of_client {m} {d.level} {i} ({term(value)})", lines, says)


@_say.register
def _(d: model.BestWeights, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    c, m, s = d.clients, f.clients_name(d.clients), f.space_name(d.clients)
    chosen = d.weights(formula)
    _, left = c.optimal()
    text = _weights(c, chosen)
    n, count = _sizes(c), len(c.sizes)
    best, other = f"risk {s} (aggregate {m} {text}) (middle {m})", f"risk {s} (aggregate {m} w) (middle {m})"
    conclusion = (
        f"sums_to_one (L := {count}) (n := {n}) {text} /\\\n"
        f"    forall w, sums_to_one (L := {count}) (n := {n}) w ->\n      {best}\n      <= {other} /\\\n"
        f"      ({other}\n       = {best} ->\n"
        f"       forall l i, (l < {count})%nat -> (i < {n} l)%nat -> w l i = {text} l i)"
    )
    weigh = "ratios_sum" if isinstance(chosen, model.Ratios) else "weights_sum"
    lines = [
        f"assert (one : sums_to_one (L := {count}) (n := {n}) {text}) by (apply {weigh}; side).",
        "split; [exact one |]. intros w W.",
        f"apply (best_weights_only {m} _ ({term(left)})); [each_level | exact one | each_level | exact W].",
    ]
    return _Said(conclusion, lines, "No other weights, equal within a level or not, have as small a risk.")


@_say.register
def _(d: model.BestWithout, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    chosen, (_, left) = _chosen(tuple(map(sp.sympify, d.weights(formula)))), c.optimal(d.level)
    n, count = _sizes(c), len(c.sizes)
    text = f"(fun l k => if is {d.level} {i} l k then 0 else weights {chosen} l k)"
    best, other = f"risk {s} (aggregate {m} v) (middle {m})", f"risk {s} (aggregate {m} w) (middle {m})"
    unit = f"sums_to_one (L := {count}) (n := {n})"
    conclusion = (
        f"let v := {text} in\n    {unit} v /\\\n"
        f"    forall w, {unit} w -> w {d.level}%nat {i} = 0 ->\n      {best}\n      <= {other} /\\\n"
        f"      ({other}\n       = {best} ->\n"
        f"       forall l k, (l < {count})%nat -> (k < {n} l)%nat -> w l k = v l k)"
    )
    others = f"(sum {count} (fun l => {n} l * {chosen} l) - {chosen} {d.level}%nat)"
    lines = [
        f"assert (one : {others} = 1) by side.",
        "cbv zeta. split.",
        "- unfold sums_to_one. etransitivity; [| exact one]. apply others_sum; side.",
        f"- intros w W O. apply (least_of_others_only {m} _ ({term(left)})); "
        "[side | side | each_level | exact one | each_level | exact W | exact O].",
    ]
    return _Said(conclusion, lines, "No other weights that leave the client's message out have as small a risk.")


@_say.register
def _(d: model.Unimodal, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    if any(sp.sympify(x) != 0 for x in formula):
        raise Unprovable("a slope that is not bounded by zero")
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    lam = d.lam
    near, far = (
        f"risk {s} (personal {m} {x} {d.level} {i} (aggregate {m} {_weights(c, d.weights)})) (parameter {m} {d.level} {i})"
        for x in "tr"
    )
    conclusion = (
        f"let lam := {term(lam)} in\n    forall t r, lam <= t <= r \\/ -1 < r /\\ r <= t <= lam ->\n"
        f"      {near}\n      <= {far}"
    )
    lines = [
        "cbv zeta. intros t r T.",
        f"apply (strength_unimodal {m} (fun l => {_weights(c, d.weights)} l 0%nat) ({term(lam)}) {d.level}%nat {i}"
        f"{' ltac:(side)' * 5} t r T).",
    ]
    return _Said(conclusion, lines, "The risk falls up to this strength and rises after it.")


@_say.register
def _(d: model.PivotBest, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    alpha2 = term(c.alpha2[d.level])
    pivot, other = (
        f"risk {s} (mixed {m} {x} {d.level} {i} (aggregate {m} {_weights(c, d.weights)})) (parameter {m} {d.level} {i})"
        for x in ("1", "u")
    )
    conclusion = (
        f"({term(value)} <= {alpha2} -> forall u, u <= 1 ->\n      {pivot}\n      <= {other}) /\\\n"
        f"    ({alpha2} < {term(value)} -> exists u, 0 <= u < 1 /\\\n      {other}\n      < {pivot})"
    )
    v = f"(fun l => {_weights(c, d.weights)} l 0%nat)"
    mine = d.weights.per_client(c)[d.level]
    shared = model.Server(c, d.weights).closed
    gap = shared + c.tau2[d.level] * (1 - 2 * mine) - c.alpha2[d.level] * mine
    slope = sp.cancel(sp.together(gap / (value - c.alpha2[d.level])))
    if not slope.is_positive:
        raise Unprovable("the formula is not where the best strength changes its sign")
    lines = [
        f"destruct (pivot_as_it_is {m} {v} {d.level}%nat {i}{' ltac:(side)' * 3}) as [A B].",
        "revert A B. unfold_levels. intros A B. split.",
        f"- intros H. apply A. apply (at_most _ _ ({term(slope)} * ({alpha2} - ({term(value)})))); [algebra |].",
        "  apply Rmult_le_pos; [letters; nonneg_model | lra].",
        "- intros H. apply B; [letters; lra |]. apply Rminus_gt_0_lt.",
        f"  replace (_ - _) with ({term(slope)} * (({term(value)}) - {alpha2})) by algebra.",
        "  apply Rmult_lt_0_compat; [letters; positive_model | lra].",
    ]
    return _Said(conclusion, lines, "From this variance on the server's estimate as it is is the best of all mixtures.")


@_say.register
def _(d: model.BestBlend, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    own, *rest = map(sp.sympify, d.weights(formula))
    text = f"(weights {_chosen(rest)})"
    n, count = _sizes(c), len(c.sizes)
    _, _, kappa = c.bayes(d.level)
    target = f"(parameter {m} {d.level} {i})"
    best = f"risk {s} (blend {m} ({term(own)}) {text} {d.level} {i}) {target}"
    other = f"risk {s} (blend {m} x w {d.level} {i}) {target}"
    unit = f"blends_to_one (L := {count}) (n := {n})"
    conclusion = (
        f"{unit} ({term(own)}) {text} {d.level} {i} /\\\n"
        f"    forall x w, {unit} x w {d.level} {i} ->\n      {best}\n      <= {other} /\\\n"
        f"      ({other}\n       = {best} ->\n"
        f"       x = {term(own)} /\\ forall l k, (l < {count})%nat -> (k < {n} l)%nat ->\n"
        f"         ~ (l = {d.level}%nat /\\ k = {i}) -> w l k = {text} l k)"
    )
    chosen = _chosen(rest)
    others = f"(sum {count} (fun l => {n} l * {chosen} l) - {chosen} {d.level}%nat)"
    lines = [
        f"assert (one : {_argument(own)} + {others} = 1) by side.",
        "split.",
        "- unfold blends_to_one. etransitivity; [| exact one]. f_equal. apply others_sum; side.",
        f"- intros x w W. apply (least_client_only {m} _ _ ({term(kappa)})); "
        "[side | side | each_level | side | exact one | side | each_level | exact W].",
    ]
    return _Said(conclusion, lines, "No other blend of the own estimate and the others' messages has as small a risk.")


def _balanced(c: model.Clients, weights: model.Weights) -> Any:
    """The common product of weights and message variances, where the weights are the server's best; else None."""
    v = weights.per_client(c)
    if len(v) > 2:  # too large to simplify; Coq proves it in any case
        letters = sorted(set().union(*(sp.sympify(x).free_symbols for x in (*v, *c.message))), key=str)
        at = {s: sp.Integer(sp.prime(k + 3)) for k, s in enumerate(letters)}
        products = [w * s for w, s in zip(v, c.message, strict=True)]
        return products[0] if len({p.subs(at) for p in products}) == 1 else None
    products = [generator.factored(w * s) for w, s in zip(v, c.message, strict=True)]
    return products[0] if all(generator.factored(p - products[0]) == 0 for p in products) else None


@_say.register
def _(d: model.BestStrength, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    target = f"(parameter {m} {d.level} {i})"
    pivot = f"(aggregate {m} w)" if d.own_noise else f"(cleaned {m} w {d.level} {i})"
    best, other = (f"risk {s} (personal {m} {x} {d.level} {i} {pivot}) {target}" for x in ("lam", "t"))
    conclusion = (
        f"let lam := {term(value)} in\n    let w := {_weights(c, d.weights)} in\n"
        f"    forall t, 1 + t <> 0 ->\n      {best}\n      <= {other} /\\\n"
        f"      (w {d.level}%nat {i} <> 1 ->\n       {other}\n       = {best} -> t = lam)"
    )
    theorem = "best_strength" if d.own_noise else "best_strength_cleaned"
    kappa = _balanced(c, d.weights)
    says = "No other strength, of either sign, has as small a risk."
    end = "split; [exact A |]. intros not_one. apply B; [side | exact not_one]."
    if kappa is not None and _many(d):
        made, applied = _strength_of_levels(d, m, i, value, f"{theorem}_ratios", d.own_noise)
        return _Said(conclusion, ["cbv zeta. intros t T.", *made, f"destruct ({applied} t T) as [A B].", end], says)
    lam, before = _plain(value)
    lines = [
        "cbv zeta. intros t T.",
        *before,
        f"destruct ({theorem}{'' if kappa is None else '_balanced'} {m} (fun l => {_weights(c, d.weights)} l 0%nat) "
        f"{'' if kappa is None else f'({term(kappa)}) '}({term(lam)}) {d.level}%nat {i}"
        f"{'' if kappa is None else ' ltac:(each_level)'}{' ltac:(side)' * 5} t T) as [A B].",
        end,
    ]
    return _Said(conclusion, lines, says)


def _many(d: model.BestStrength | model.Attains) -> bool:
    """Whether the strength is towards ratios of so many noisy levels that it is long."""
    return len(d.clients.sizes) > 2 and isinstance(d.weights, model.Ratios) and any(x != 0 for x in d.clients.nu2)


def _strength_of_levels(
    d: model.BestStrength | model.Attains, m: str, i: str, value: Any, theorem: str, comes_back: bool
) -> tuple[list[str], str]:
    """Lines about a strength towards the best ratios of more than two levels, and the theorem that they apply to: messages'
    variances become letters, in which the formula is short. `comes_back`: the own noise counts in the strength.
    """
    c, a = d.clients, d.level
    messages = [
        f"({_argument(t)} + {_argument(x)} + {_argument(n)})" for t, x, n in zip(c.tau2, c.alpha2, c.nu2, strict=True)
    ]
    sizes = [f"INR {_size(n)}" for n in c.sizes]
    shares = [f"{n} / {v}" for n, v in zip(sizes, messages, strict=True)]
    letters = [f"v{k}" for k in range(1, len(sizes) + 1)]
    alpha2, tau2, nu2, lam = (f"({term(x)})" for x in (c.alpha2[a], c.tau2[a], c.nu2[a], value))
    share = f"1 / ({messages[a]} * (0 + {' + '.join(shares)}))"
    kept = f"({tau2} * (1 - {share}) + {share} * {nu2})" if comes_back else f"({tau2} + {share} * {nu2})"
    right = f"{alpha2} * (1 - {share})" if comes_back else alpha2
    rest = " + ".join(f"{n} / {v}" for k, (n, v) in enumerate(zip(sizes, letters, strict=True)) if k != a)
    x = f"({sizes[a]} - {1 if comes_back else 0} + {letters[a]} * ({rest}))"  # share is 1 / x, or 1 / (1 + x)
    positive = " ".join(f"Q{k}" for k in range(1, len(sizes) + 1))
    short = [
        *(f"  try replace ({term(e)}) with {v} by ring." for e, v in zip(c.message, messages, strict=True)),
        f"  revert {positive}. generalize {' '.join(messages)}. intros {' '.join(letters)} {positive}.",
        f"  assert (X : 0 < {x}).",
        f"  {{ assert (0 < {letters[a]} * ({rest})) by (letters; positive). letters. lra. }}",
    ]
    lines = [
        *(f"assert (Q{k} : 0 < {v}) by side." for k, v in enumerate(messages, 1)),
        f"assert (N : {lam} * {kept} = {right}).", "{", *short, "  letters. field. nonzero_model.", "}",
        f"assert (P : 1 + {lam} <> 0).", "{", *short,
        f"  match goal with |- 1 + ?lam <> 0 => replace lam with ({alpha2} * {x} / ({tau2} * {x} + {nu2})) end.",
        f"  - revert X. generalize {x}. intros z X. apply not_zero. positive.",
        "  - clear X. letters. field. nonzero_model.", "}",
    ]  # fmt: skip
    return lines, (
        f"{theorem} {m} {_chosen(d.weights.values)} {messages[0]} {lam} {a}%nat {i} "
        "ltac:(each_level) ltac:(side) ltac:(each_level) ltac:(side) P ltac:(side) ltac:(side) N"
    )


@_say.register
def _(d: model.Attains, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    if d.lam is not None and any(sp.sympify(x) != 0 for x in formula):
        raise Unprovable("an excess that is not printed as zero")
    c, m, i = d.clients, f.clients_name(d.clients), f.member(d.clients, d.level)
    strength = formula[0] if d.lam is None else d.lam
    r = model.Personal(c, d.weights, d.level, strength, d.own_noise)
    kappa = _balanced(c, d.weights)
    if kappa is None:
        raise Unprovable("the server's weights are not the best ones")
    theorem, sides = ("attains_returned", 6) if d.own_noise else ("attains_cleaned", 5)
    if _many(d):
        made, applied = _strength_of_levels(d, m, i, strength, f"{theorem}_ratios", comes_back=False)
        lines = [*made, f"apply ({applied}{' ltac:(side)' if d.own_noise else ''})."]
    else:
        lam, before = _plain(strength)
        lines = [
            *before,
            f"apply ({theorem} {m} (fun l => {_weights(c, d.weights)} l 0%nat) ({term(kappa)}) ({term(lam)}) {d.level}%nat "
            f"{i} ltac:(each_level){' ltac:(side)' * sides}).",
        ]
    says = "At this strength the client's risk is the least of all blends."
    return _Said(f"least_of_client {m} {d.level} {i}\n      ({_risk(f, r)})", lines, says)


@_say.register
def _(d: model.AttainsMixed, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    if any(sp.sympify(x) != 0 for x in formula):
        raise Unprovable("an excess that is not printed as zero")
    c, m, i = d.clients, f.clients_name(d.clients), f.member(d.clients, d.level)
    kappa = _balanced(c, d.weights)
    if kappa is None:
        raise Unprovable("the server's weights are not the best ones")
    v = f"(fun l => {_weights(c, d.weights)} l 0%nat)"
    sides = f"ltac:(each_level){' ltac:(side)' * 5}"
    lines = [f"apply (attains_mixed {m} {v} ({term(kappa)}) ({term(d.u)}) {d.level}%nat {i} {sides})."]
    risk = _risk(f, model.Mixed(c, d.weights, d.level, d.u))
    says = "The client's risk is the least of all blends."
    return _Said(f"least_of_client {m} {d.level} {i}\n      ({risk})", lines, says)


@_say.register
def _(d: model.BestMixture, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    u, target = d.u(formula), f"(parameter {m} {d.level} {i})"
    best, other = (f"risk {s} (mixed {m} {x} {d.level} {i} (aggregate {m} w)) {target}" for x in ("u", "t"))
    conclusion = (
        f"let u := {term(u)} in\n    let w := {_weights(c, d.weights)} in\n"
        f"    forall t,\n      {best}\n      <= {other} /\\\n"
        f"      (w {d.level}%nat {i} <> 1 ->\n       {other}\n       = {best} -> t = u)"
    )
    lines = [
        "cbv zeta. intros t.",
        f"destruct (best_mixture {m} (fun l => {_weights(c, d.weights)} l 0%nat) ({term(u)}) {d.level}%nat {i}"
        f"{' ltac:(side)' * 4} t) as [A B].",
        "split; [exact A |]. intros not_one. apply B; [side | exact not_one].",
    ]
    return _Said(conclusion, lines, "No other mixture with the server's estimate has as small a risk.")


@_say.register
def _(d: model.LeastMixture, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> _Said:
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    u = c.best_mixture(d.weights, d.level)
    v = f"(fun l => {_weights(c, d.weights)} l 0%nat)"
    alpha2 = f"{_function(c.alpha2, _argument)} {d.level}%nat"
    lines = [
        f"replace ({term(value)}) with ({alpha2} * (1 - ({term(u)}) * (1 - {v} {d.level}%nat))) by side.",
        f"apply (least_mixture {m} {v} ({term(u)}) {d.level}%nat {i}{' ltac:(side)' * 4}).",
    ]
    mixed = f"(mixed {m} u {d.level} {i} (aggregate {m} {_weights(c, d.weights)}))"
    conclusion = (
        f"least (fun _ => True)\n      (fun u => risk {s} {mixed} (parameter {m} {d.level} {i}))\n      ({term(value)})"
    )
    return _Said(conclusion, lines, "The formula is the least risk of all mixtures with the server's estimate.")


# --- whole theorems ----------------------------------------------------------------------------------------------------


class _Rules:
    """Non-negative letters for the sizes and other bounded letters, in formulas and in the script."""

    def __init__(self, f: _Frame, where: Mapping[Any, Any], shifts: bool = False):
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

    def shifted(self) -> _Rules:
        """With the claim's own new letters too: where a condition or an order decides a sign."""
        return _Rules(self.frame, self.where, shifts=True)

    def _new(self, f: _Frame, s: Any, e: Any) -> None:
        """Put e, which holds one new non-negative letter, in the place of s."""
        fresh = sorted((x for x in e.free_symbols if x not in f.symbols), key=str)
        solution = sp.solve(sp.together(e - s), fresh[0]) if len(fresh) == 1 else []
        if len(solution) != 1:
            return
        x, new = name_of(s), sp.Symbol(f"n_{name_of(s)}", nonnegative=True)
        self.rules[s] = e.subs(fresh[0], new)
        self.lines += [
            f"destruct (above 0 ({term(sp.factor(solution[0]))})) as [{new} [P_{new} E_{new}]]; [side |].",
            f"assert (F_{new} : {x} = {term(self.rules[s])}) "
            f"by (rewrite Rplus_0_l in E_{new}; rewrite <- E_{new}; algebra).",
            f"clear E_{new}; rewrite F_{new} in *; clear F_{new}.",
        ]

    def __call__(self, e: Any) -> Any:
        new = {s: x for s, x in self.rules.items() if s not in self.sizes}
        return sp.sympify(e).subs(self.where).subs(new).subs(self.sizes, simultaneous=True)


def _symbols(v: Any, f: _Frame) -> list[Any]:
    found = domain.symbols_of([v], f.case)[v.name]
    return found if isinstance(found, list) else [found]


def _frame(claim: Claim, case: Case, conditions: Sequence[Any], decisions: Sequence[Any], formula: Sequence[Any]) -> _Frame:
    f = _Frame(claim, case, conditions)
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
            f.hypotheses += generator.hypotheses(v, name_of(s))
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


def _binders(f: _Frame) -> str:
    sizes = [name_of(s) for s in f.symbols if s in f.sizes]
    reals = [name_of(s) for s in f.symbols if s not in f.sizes]
    text = (f" ({' '.join(sizes)} : nat)" if sizes else "") + (f" ({' '.join(reals)} : R)" if reals else "")
    return text


def _growing(f: _Frame) -> tuple[str, str]:
    """The letter of a limit with its type, and from where on it is meant."""
    return f"{name_of(f.grows)} : {'nat' if f.grows == model.MANY else 'R'}", f"1 <= {name_of(f.grows)}"


def _clients_binders(f: _Frame) -> str:
    found = []
    for c in f.clients:
        kind = ("nat -> " if c.copies is not None else "") + _type(f, c)
        found.append(f"({f.space_name(c)} : space) ({f.clients_name(c, inner=False)} : {kind})")
    return "\n    ".join(found)


def _members(f: _Frame) -> list[tuple[str, str]]:
    return [(f.member(c, a), f"({f.member(c, a)} < {_size(c.sizes[a])})%nat") for c, a in f.members]


def _proposition(f: _Frame, conclusion: str) -> str:
    letters = _binders(f)
    text = (f"forall{letters},\n    " if letters else "") + "".join(f"{h} ->\n    " for _, h in f.hypotheses)
    if f.grows is not None:
        letter, low = _growing(f)
        text += f"exists C : R, forall {letter}, {low} ->\n    "
    text += f"forall {_clients_binders(f)}"
    members = _members(f)
    text += f" ({' '.join(i for i, _ in members)} : nat),\n    " if members else ",\n    "
    text += "".join(f"{h} ->\n    " for _, h in members)
    return text + conclusion


def _opening(f: _Frame) -> list[str]:
    sizes = [name_of(s) for s in f.symbols if s in f.sizes]
    reals = [name_of(s) for s in f.symbols if s not in f.sizes]
    names = [*sizes, *reals, *(h for h, _ in f.hypotheses)]
    lines = []
    if f.grows is not None:
        lines = [f"intros {' '.join(names)}."] if names else []
        lines += [f"exists ({term(f.within)})."]
        names = [name_of(f.grows), f"H_{name_of(f.grows)}"]
    for c in f.clients:
        names += [f.space_name(c), f.clients_name(c, inner=False)]
    names += [i for i, _ in _members(f)] + [f"I_{i}" for i, _ in _members(f)]
    return [*lines, f"intros {' '.join(names)}."]


def _by_cases(f: _Frame, lines: Sequence[str]) -> list[str]:
    """The script, once for each letter that may be the one that is not zero."""
    for k, letters in enumerate(f.some, 1):
        if len(letters) > 1:
            pattern = f"Z{k}"
            for _ in letters[1:]:
                pattern = f"Z{k} | {pattern if pattern == f'Z{k}' else f'[{pattern}]'}"
            lines = [f"destruct Z{k} as [{pattern}].", *(x for _ in letters for x in ("{", *(f"  {y}" for y in lines), "}"))]
    return list(lines)


def _satisfied(f: _Frame, name: str) -> Statement:
    """Something meets the hypotheses: a point of the domain, and clients there."""
    ask = [sp.Or(*(s > 0 for s in letters)) for letters in f.some]
    point = met(f.claim, f.case, [*f.conditions, *ask]) if f.conditions or ask else _example(f)
    if point is None:
        raise Unprovable("no point of the domain was found that meets the hypotheses")
    rules = {**dict.fromkeys(f.symbols, sp.Integer(1)), **_FREELY, **domain.substitution(f.claim.variables, f.case, point)}
    values = []
    for s in [*(s for s in f.symbols if s in f.sizes), *(s for s in f.symbols if s not in f.sizes)]:
        values.append(f"{rules[s]}%nat" if s in f.sizes else f"({term(rules[s])})")
    binders = _binders(f)
    hyps = [h for _, h in f.hypotheses]
    if f.grows is not None:
        letter, low = _growing(f)
        binders += f" ({letter})"
        hyps.append(low)
        values.append("1%nat" if f.grows == model.MANY else "1")
    parts = [*hyps, *(f"exists {_one_clients(f, c)}, True" for c in f.clients)]
    members = _members(f)
    body = " /\\\n    ".join(f"({p})" for p in [*parts, *(f"exists {i}, {h}" for i, h in members)])
    exists = f"exists{binders},\n    " if binders else ""
    script = [f"exists {', '.join(values)}."] if values else []
    ways = "unfold_levels; lra | left; lra | right; lra | right; right; lra | exists 0%nat; lia"
    script += [f"repeat split; try solve [{ways}]."] if len(parts) + len(members) > 1 else []
    script += ["all: apply clients_exist; each_level_exists."] if f.clients else []
    return Statement(name, "Something meets the hypotheses.", exists + body, script)


def _one_clients(f: _Frame, c: model.Clients) -> str:
    return f"({f.space_name(c)} : space) (M : {_type(f, c)})"


def _example(f: _Frame) -> Any:
    return met(f.claim, f.case, [sp.true])


def statements(claim: Claim) -> list[Statement]:
    """All theorems of a claim about its model. Raises Unprovable, naming the case, where one cannot be stated."""
    if claim.id not in model.MODELS:
        raise NoModel(f"{claim.id} names no model")
    found: list[Statement] = []
    for case in claim.cases():
        try:
            found += _of_case(claim, case)
        except Unprovable as error:
            raise Unprovable(f"{error} ({case.label()})" if case.label() else str(error)) from None
    if claim.printed is not None and (claim.condition is not None or claim.corrected is not None):
        found += refutation(claim)
    if not found:
        raise Unprovable("nothing to state")
    return found


def _of_case(claim: Claim, case: Case) -> list[Statement]:
    label = re.sub(r"[^A-Za-z0-9]+", "_", case.label()).strip("_")
    wrong = claim.corrected is not None and claim.printed is not None and claim.condition is None
    formula = claim.corrected if wrong or claim.printed is None else claim.printed
    values = entries(claim.derived(case) if formula is None else claim.symbolic(formula, case))
    ways = [[]] if claim.condition is None else alternatives(claim.symbolic(claim.condition, case))
    decisions = claim.call(model.MODELS[claim.id], domain.symbols_of(claim.variables, case))
    if decisions is None:  # the case is outside the model
        return []
    found: list[Statement] = []
    for a, conditions in enumerate(ways):
        where, _ = substitutions(conditions)
        for k, d in enumerate(decisions, 1):
            number = str(k) if len(decisions) > 1 else ""
            end = "_".join(p for p in (number, label, f"or{a + 1}" if len(ways) > 1 else "") if p)
            name = "holds" + (f"_{end}" if end else "")
            entry = tuple(values) if d.of is None else (values[d.of],)
            f = _frame(claim, case, conditions, [d], entry)
            said = _say(d, f, entry, "=" if wrong else claim.relation, _Rules(f, where))
            script = [*_opening(f), *_by_cases(f, said.lines)]
            if f.grows is not None and f.some:
                raise Unprovable("a limit with letters of which one is not zero")
            found.append(Statement(name, said.says, _proposition(f, said.conclusion), script))
            found.append(_satisfied(f, name.replace("holds", "met", 1)))
    return found


# --- a wrong formula, at a point of the model ------------------------------------------------------------------------------


def refutation(claim: Claim) -> list[Statement]:
    """The negation of what is printed, where a point of the model refutes it; nothing for decisions without a number."""
    point = find_counterexample(claim)
    if point is None:
        return []
    case = domain.case_of(claim.variables, point)
    rules = {**_FREELY, **domain.substitution(claim.variables, case, point)}
    decisions = claim.call(model.MODELS[claim.id], domain.symbols_of(claim.variables, case))
    values = entries(claim.derived(case) if claim.printed is None else claim.symbolic(claim.printed, case))
    if decisions is None or any(not sp.sympify(v).is_Rational for v in rules.values()):
        return []
    for d in decisions:
        entry = tuple(values) if d.of is None else (values[d.of],)
        if any(e is None for e in entry):
            continue
        f = _frame(claim, case, [], [d], entry)
        if any(all(rules[s] == 0 for s in letters) for letters in f.some):
            continue
        said = _say_no(d, f, entry, claim.relation, rules)
        if said is not None:
            says = f"What is printed is wrong: it fails for these clients, {_shown(f, rules)}."
            return [Statement("fails", says, f"~ ({_proposition(f, said.conclusion)})", [*_instance(f, rules), *said.lines])]
    return []


def _shown(f: _Frame, rules: Mapping[Any, Any]) -> str:
    return ", ".join(f"{s} = {rules[s]}" for s in f.symbols)


def _number(f: _Frame, s: Any, rules: Mapping[Any, Any]) -> str:
    return f"{rules[s]}%nat" if s in f.sizes else f"({term(rules[s])})"


def _there(f: _Frame, text: str, rules: Mapping[Any, Any]) -> str:
    """A text with the point's numbers in the places of its letters."""
    for s in sorted(f.symbols, key=lambda s: -len(name_of(s))):
        text = re.sub(rf"\b{name_of(s)}\b(?!%)", _number(f, s, rules), text)
    for i, _ in _members(f):
        text = re.sub(rf"(?<![\w%]){i}\b(?!%)", "0%nat", text)
    return text


def _instance(f: _Frame, rules: Mapping[Any, Any]) -> list[str]:
    """Lines that apply what is to be refuted to clients that exist at the point; X is what it says of them."""
    lines = ["intro H."]
    for c in f.clients:
        if c.copies is not None:
            raise Unprovable("copies at a point")
        arguments = " ".join(_function(x, _argument) for x in (c.tau2, c.alpha2, c.nu2))
        exist = _there(f, f"clients_exist {len(c.sizes)} {_sizes(c)} {arguments}", rules)
        lines.append(f"destruct ({exist} ltac:(each_level_exists)) as [{f.space_name(c)} [{f.clients_name(c)} _]].")
    ordered = [*(s for s in f.symbols if s in f.sizes), *(s for s in f.symbols if s not in f.sizes)]
    given = " ".join(_number(f, s, rules) for s in ordered)
    hypotheses = " ".join("ltac:(at_point)" for _ in f.hypotheses)
    clients = " ".join(f"{f.space_name(c)} {f.clients_name(c)}" for c in f.clients)
    members = " ".join("0%nat" for _ in _members(f)) + " " + " ".join("ltac:(lia)" for _ in _members(f))
    return [*lines, f"assert (X := H {given} {hypotheses} {clients} {members}); clear H."]


@singledispatch
def _say_no(d: Any, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> _Said | None:
    """What is printed, as it would be stated, with lines that refute X; None where it holds at the point."""
    return None


@_say_no.register
def _(d: model.Value, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> _Said | None:
    (value,) = map(sp.sympify, formula)
    a = sp.sympify(d.expression).subs({r.symbol: r.closed for r in d.risks}).subs(rules)
    b = value.subs(rules)
    if not (a.is_Rational and b.is_Rational) or {"=": a == b, "<=": a <= b, ">=": a >= b}[sign]:
        return None
    letters = _best(d)
    if not all(isinstance(r.decision, model.LeastCentre | model.LeastClient | model.LeastMixture) for _, r in letters):
        return None
    before, _ = _optima(f, d, rules)
    left = _expression(f, d)
    right = term(value)
    conclusion = before + {"=": f"{left}\n      = {right}", "<=": f"{left} <= {right}", ">=": f"{right} <= {left}"}[sign]
    lines = []
    for name, r in letters:  # the optimum is the only one, so that it is the number that is known
        said = _say(r.decision, f, (r.closed,), "=", rules)
        proof = [_there(f, line, rules) for line in said.lines]
        lines += [f"destruct X as [{name} [Q X]].", f"assert (U : {_there(f, said.conclusion, rules)}).", "{", *proof, "}",
                  "rewrite (least_unique _ _ _ _ _ Q U) in X; clear Q U."]  # fmt: skip
        left = re.sub(rf"\b{name}\b", f"({term(r.closed)})", left)
    rewrites = " ".join(_there(f, line, rules) for r in d.risks if isinstance(r, model.Risk) for line in _rewrite(f, r))
    lines += [
        f"assert (A : {_there(f, left, rules)} = {term(a)}) by (unfold ratios; {_joined(rewrites)} algebra).",
        "rewrite A in X. revert X. unfold_levels. intro X. field_simplify in X; lra.",
    ]
    return _Said(conclusion, lines, "")


@_say_no.register(model.LeastCentre)
@_say_no.register(model.LeastClient)
@_say_no.register(model.LeastMixture)
def _(d: Any, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> _Said | None:
    (value,) = map(sp.sympify, formula)
    best, said = sp.sympify(d.closed).subs(rules), value.subs(rules)
    if sign != "=" or not (best.is_Rational and said.is_Rational) or best == said:
        return None
    right = _say(d, f, (d.closed,), "=", rules)
    lines = [
        f"assert (U : {_there(f, right.conclusion, rules)}).",
        "{", *(_there(f, line, rules) for line in right.lines), "}",
        "assert (Y := least_unique _ _ _ _ _ X U). revert Y. unfold_levels. intro Y. field_simplify in Y; lra.",
    ]  # fmt: skip
    return _Said(_say(d, f, formula, "=", rules).conclusion, lines, "")


@_say_no.register
def _(d: model.BestStrength, f: _Frame, formula: tuple[Any, ...], sign: str, rules: Mapping[Any, Any]) -> _Said | None:
    (value,) = map(sp.sympify, formula)
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    w = d.weights.per_client(c)[d.level]
    shared = model.Server(c, d.weights).closed - (0 if d.own_noise else w**2 * c.nu2[d.level])
    alpha2, tau2 = c.alpha2[d.level], c.tau2[d.level]
    best = sp.sympify(alpha2 * (1 - w) / (shared + tau2 * (1 - 2 * w) - alpha2 * w)).subs(rules)
    said = value.subs(rules)
    if not (best.is_Rational and said.is_Rational) or best == said:
        return None
    conclusion = _say(d, f, formula, sign, _Rules(f, {})).conclusion
    lines = [f"cbv zeta in X. destruct (X ({term(best)}) ltac:(lra)) as [Y _]; clear X."]
    for name, lam, text in (("A", said, term(value)), ("B", best, term(best))):
        r = model.Personal(c, d.weights, d.level, lam, d.own_noise)
        risk = f"risk {s} {_personal(f, c, d.weights, d.level, d.own_noise, f'({text})')} (parameter {m} {d.level} {i})"
        number = r.closed.subs(rules)
        theorem = "client_risk" if d.own_noise else "cleaned_risk"
        rewrite = f"rewrite ({theorem} {m} _ ({_there(f, text, rules)})) by side;"
        lines.append(f"assert ({name} : {_there(f, risk, rules)} = {term(number)}) by (unfold ratios; {rewrite} algebra).")
    return _Said(conclusion, [*lines, "rewrite A, B in Y. lra."], "")


def _joined(lines: str) -> str:
    return lines.replace(" by side.", " by side;")


# --- files -------------------------------------------------------------------------------------------------------------


def module_of(claim_id: str) -> str:
    """The Coq name of a claim."""
    return re.sub(r"[^A-Za-z0-9]+", "_", claim_id)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def texts(claim: Claim, proved: Sequence[Statement]) -> tuple[str, str]:
    """A claim's statement file and proof file, without header lines."""
    about = [claim.id + ": " + claim.title, claim.place, "", *generator.wrapped(claim.statement)]
    about += ["", "LaTeX, as printed:", *generator.wrapped(claim.latex)] if claim.printed is not None else []
    about += ["", "Condition: " + claim.condition_text] if claim.condition is not None else []
    head = "(* " + "\n   ".join(map(generator.comment, about)) + " *)\n"
    name = module_of(claim.id)
    said = "\n".join(f"(* {generator.comment(s.says)} *)\nParameter {s.name} :\n  {s.proposition}.\n" for s in proved)
    opening = "Require Import Borrow.Model.\nOpen Scope R_scope.\n"
    statement = f"{head}{opening}\nModule Type {name}_says.\n\n{said}\nEnd {name}_says.\n"
    bodies = "\n".join(f"Theorem {s.name} :\n  {s.proposition}.\nProof.\n{_indented(s.script)}\nQed.\n" for s in proved)
    names = ", ".join(s.name for s in proved)
    proof = (
        f"(* The proof of {claim.id}; what is proved stands in the file beside. *)\n"
        f"Require Import Borrow.Scripts.\nOpen Scope R_scope.\n\nModule {name}_proved <: {name}_says.\n\n{bodies}\n"
        f"Definition all_theorems := ({names}).\n\nEnd {name}_proved.\n"
    )
    return statement, proof


__all__ = ["GRADE", "NoModel", "Statement", "module_of", "refutation", "statements", "texts"]
