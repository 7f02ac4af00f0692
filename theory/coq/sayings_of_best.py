"""What a theorem says of the least risk, and of the weights, pivots, blends and strengths that have it; and its script.

Belongs here: the decisions of ``model`` that quantify over all choices.  Does not belong here: single values
(``sayings``), what is wrong at a point (``refutations``).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq import model
from theory.coq.frame import (
    Frame,
    Said,
    argument,
    by_level,
    chosen_text,
    plain_strength,
    risk_text,
    size_text,
    sizes_text,
    weights_text,
)
from theory.coq.terms import Unprovable, term
from theory.engine.algebra import cancelled, factored


def of_best_weights(d: model.BestWeights, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The weights have less risk than any other that add to one."""
    c, m, s = d.clients, f.clients_name(d.clients), f.space_name(d.clients)
    chosen = d.weights(formula)
    _, left = c.optimal()
    text = weights_text(c, chosen)
    n, count = sizes_text(c), len(c.sizes)
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
    return Said(conclusion, lines, "No other weights, equal within a level or not, have as small a risk.")


def of_best_without(d: model.BestWithout, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The weights are the best that leave a client's message out."""
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    chosen, (_, left) = chosen_text(tuple(map(sp.sympify, d.weights(formula)))), c.optimal(d.level)
    n, count = sizes_text(c), len(c.sizes)
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
    return Said(conclusion, lines, "No other weights that leave the client's message out have as small a risk.")


def of_unimodal(d: model.Unimodal, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The risk falls towards the best strength and rises beyond it."""
    if any(sp.sympify(x) != 0 for x in formula):
        raise Unprovable("a slope that is not bounded by zero")
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    lam = d.lam
    pivot = f"(aggregate {m} {weights_text(c, d.weights)})"
    near, far = (f"risk {s} (personal {m} {x} {d.level} {i} {pivot}) (parameter {m} {d.level} {i})" for x in "tr")
    conclusion = (
        f"let lam := {term(lam)} in\n    forall t r, lam <= t <= r \\/ -1 < r /\\ r <= t <= lam ->\n"
        f"      {near}\n      <= {far}"
    )
    lines = [
        "cbv zeta. intros t r T.",
        f"apply (strength_unimodal {m} (fun l => {weights_text(c, d.weights)} l 0%nat) ({term(lam)}) {d.level}%nat {i}"
        f"{' ltac:(side)' * 5} t r T).",
    ]
    return Said(conclusion, lines, "The risk falls up to this strength and rises after it.")


def of_pivot_best(d: model.PivotBest, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The formula is the least own variance from which on the pivot by itself is as good as any mixture."""
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    alpha2 = term(c.alpha2[d.level])
    pivot, other = (
        f"risk {s} (mixed {m} {x} {d.level} {i} (aggregate {m} {weights_text(c, d.weights)})) (parameter {m} {d.level} {i})"
        for x in ("1", "u")
    )
    conclusion = (
        f"({term(value)} <= {alpha2} -> forall u, u <= 1 ->\n      {pivot}\n      <= {other}) /\\\n"
        f"    ({alpha2} < {term(value)} -> exists u, 0 <= u < 1 /\\\n      {other}\n      < {pivot})"
    )
    v = f"(fun l => {weights_text(c, d.weights)} l 0%nat)"
    mine = d.weights.per_client(c)[d.level]
    shared = model.Server(c, d.weights).closed
    gap = shared + c.tau2[d.level] * (1 - 2 * mine) - c.alpha2[d.level] * mine
    slope = cancelled(gap / (value - c.alpha2[d.level]))
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
    return Said(conclusion, lines, "From this variance on the server's estimate as it is is the best of all mixtures.")


def of_best_blend(d: model.BestBlend, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The own weight and those of the others are the best blend."""
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    own, *rest = map(sp.sympify, d.weights(formula))
    text = f"(weights {chosen_text(rest)})"
    n, count = sizes_text(c), len(c.sizes)
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
    chosen = chosen_text(rest)
    others = f"(sum {count} (fun l => {n} l * {chosen} l) - {chosen} {d.level}%nat)"
    lines = [
        f"assert (one : {argument(own)} + {others} = 1) by side.",
        "split.",
        "- unfold blends_to_one. etransitivity; [| exact one]. f_equal. apply others_sum; side.",
        f"- intros x w W. apply (least_client_only {m} _ _ ({term(kappa)})); "
        "[side | side | each_level | side | exact one | side | each_level | exact W].",
    ]
    return Said(conclusion, lines, "No other blend of the own estimate and the others' messages has as small a risk.")


def _balanced(c: model.Clients, weights: model.Weights) -> Any:
    """The common product of weights and message variances, where the weights are the server's best; else None."""
    v = weights.per_client(c)
    if len(v) > 2:  # too large to simplify; Coq proves it in any case
        letters = sorted(set().union(*(sp.sympify(x).free_symbols for x in (*v, *c.message))), key=str)
        at = {s: sp.Integer(sp.prime(k + 3)) for k, s in enumerate(letters)}
        products = [w * s for w, s in zip(v, c.message, strict=True)]
        return products[0] if len({p.subs(at) for p in products}) == 1 else None
    products = [factored(w * s) for w, s in zip(v, c.message, strict=True)]
    return products[0] if all(factored(p - products[0]) == 0 for p in products) else None


def of_best_strength(d: model.BestStrength, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The strength has less risk than any other."""
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    target = f"(parameter {m} {d.level} {i})"
    pivot = f"(aggregate {m} w)" if d.own_noise else f"(cleaned {m} w {d.level} {i})"
    best, other = (f"risk {s} (personal {m} {x} {d.level} {i} {pivot}) {target}" for x in ("lam", "t"))
    conclusion = (
        f"let lam := {term(value)} in\n    let w := {weights_text(c, d.weights)} in\n"
        f"    forall t, 1 + t <> 0 ->\n      {best}\n      <= {other} /\\\n"
        f"      (w {d.level}%nat {i} <> 1 ->\n       {other}\n       = {best} -> t = lam)"
    )
    theorem = "best_strength" if d.own_noise else "best_strength_cleaned"
    kappa = _balanced(c, d.weights)
    says = "No other strength, of either sign, has as small a risk."
    end = "split; [exact A |]. intros not_one. apply B; [side | exact not_one]."
    if kappa is not None and _many(d):
        made, applied = _strength_of_levels(d, m, i, value, f"{theorem}_ratios", d.own_noise)
        return Said(conclusion, ["cbv zeta. intros t T.", *made, f"destruct ({applied} t T) as [A B].", end], says)
    lam, before = plain_strength(value)
    lines = [
        "cbv zeta. intros t T.",
        *before,
        f"destruct ({theorem}{'' if kappa is None else '_balanced'} {m} (fun l => {weights_text(c, d.weights)} l 0%nat) "
        f"{'' if kappa is None else f'({term(kappa)}) '}({term(lam)}) {d.level}%nat {i}"
        f"{'' if kappa is None else ' ltac:(each_level)'}{' ltac:(side)' * 5} t T) as [A B].",
        end,
    ]
    return Said(conclusion, lines, says)


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
    messages = [f"({argument(t)} + {argument(x)} + {argument(n)})" for t, x, n in zip(c.tau2, c.alpha2, c.nu2, strict=True)]
    sizes = [f"INR {size_text(n)}" for n in c.sizes]
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
        f"{theorem} {m} {chosen_text(d.weights.values)} {messages[0]} {lam} {a}%nat {i} "
        "ltac:(each_level) ltac:(side) ltac:(each_level) ltac:(side) P ltac:(side) ltac:(side) N"
    )


def of_attains(d: model.Attains, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The strength makes the estimate as good as any blend."""
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
        lam, before = plain_strength(strength)
        lines = [
            *before,
            f"apply ({theorem} {m} (fun l => {weights_text(c, d.weights)} l 0%nat) "
            f"({term(kappa)}) ({term(lam)}) {d.level}%nat "
            f"{i} ltac:(each_level){' ltac:(side)' * sides}).",
        ]
    says = "At this strength the client's risk is the least of all blends."
    return Said(f"least_of_client {m} {d.level} {i}\n      ({risk_text(f, r)})", lines, says)


def of_attains_mixed(d: model.AttainsMixed, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The mixed pivot makes the estimate as good as any blend."""
    if any(sp.sympify(x) != 0 for x in formula):
        raise Unprovable("an excess that is not printed as zero")
    c, m, i = d.clients, f.clients_name(d.clients), f.member(d.clients, d.level)
    kappa = _balanced(c, d.weights)
    if kappa is None:
        raise Unprovable("the server's weights are not the best ones")
    v = f"(fun l => {weights_text(c, d.weights)} l 0%nat)"
    sides = f"ltac:(each_level){' ltac:(side)' * 5}"
    lines = [f"apply (attains_mixed {m} {v} ({term(kappa)}) ({term(d.u)}) {d.level}%nat {i} {sides})."]
    risk = risk_text(f, model.Mixed(c, d.weights, d.level, d.u))
    says = "The client's risk is the least of all blends."
    return Said(f"least_of_client {m} {d.level} {i}\n      ({risk})", lines, says)


def of_best_mixture(d: model.BestMixture, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The mixture of pivots is better than any other."""
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    u, target = d.u(formula), f"(parameter {m} {d.level} {i})"
    best, other = (f"risk {s} (mixed {m} {x} {d.level} {i} (aggregate {m} w)) {target}" for x in ("u", "t"))
    conclusion = (
        f"let u := {term(u)} in\n    let w := {weights_text(c, d.weights)} in\n"
        f"    forall t,\n      {best}\n      <= {other} /\\\n"
        f"      (w {d.level}%nat {i} <> 1 ->\n       {other}\n       = {best} -> t = u)"
    )
    lines = [
        "cbv zeta. intros t.",
        f"destruct (best_mixture {m} (fun l => {weights_text(c, d.weights)} l 0%nat) ({term(u)}) {d.level}%nat {i}"
        f"{' ltac:(side)' * 4} t) as [A B].",
        "split; [exact A |]. intros not_one. apply B; [side | exact not_one].",
    ]
    return Said(conclusion, lines, "No other mixture with the server's estimate has as small a risk.")


def of_least_mixture(d: model.LeastMixture, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The formula is the least risk of all mixtures of pivots."""
    (value,) = formula
    c, m, s, i = d.clients, f.clients_name(d.clients), f.space_name(d.clients), f.member(d.clients, d.level)
    u = c.best_mixture(d.weights, d.level)
    v = f"(fun l => {weights_text(c, d.weights)} l 0%nat)"
    alpha2 = f"{by_level(c.alpha2, argument)} {d.level}%nat"
    lines = [
        f"replace ({term(value)}) with ({alpha2} * (1 - ({term(u)}) * (1 - {v} {d.level}%nat))) by side.",
        f"apply (least_mixture {m} {v} ({term(u)}) {d.level}%nat {i}{' ltac:(side)' * 4}).",
    ]
    mixed = f"(mixed {m} u {d.level} {i} (aggregate {m} {weights_text(c, d.weights)}))"
    conclusion = (
        f"least (fun _ => True)\n      (fun u => risk {s} {mixed} (parameter {m} {d.level} {i}))\n      ({term(value)})"
    )
    return Said(conclusion, lines, "The formula is the least risk of all mixtures with the server's estimate.")


def of_least_centre(d: model.LeastCentre, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The formula is the least risk for the common value."""
    (value,) = formula
    m, (v, left) = f.clients_name(d.clients), d.clients.optimal(d.without)
    if d.without is None:
        text, theorem, sides = f"least_of_centre {m}", "least_centre", "each_level | side"
        says = "The formula is the least risk of all weights that add to one."
    else:
        i = f.member(d.clients, d.without)
        text, theorem, sides = f"least_without {m} {d.without} {i}", "least_of_others", "side | side | each_level | side"
        says = "The formula is the least risk of all weights that add to one and leave the client's message out."
    lines = [
        f"replace ({term(value)}) with ({term(left)}) by side.",
        f"apply ({theorem} {m} {chosen_text(v)}); [{sides}].",
    ]
    return Said(f"{text} ({term(value)})", lines, says)


def of_least_client(d: model.LeastClient, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """The formula is the least risk for a client's value."""
    (value,) = formula
    m, i = f.clients_name(d.clients), f.member(d.clients, d.level)
    x, v, kappa = d.clients.bayes(d.level)
    lines = [
        f"replace ({term(value)}) with ({by_level(d.clients.alpha2, argument)} {d.level}%nat * ({term(x)})) by side.",
        f"apply (least_client {m} ({term(x)}) {chosen_text(v)} ({term(kappa)})); [side | side | each_level | side | side].",
    ]
    says = "The formula is the least risk of all blends of the own estimate and the others' messages."
    return Said(f"least_of_client {m} {d.level} {i} ({term(value)})", lines, says)


BEST = {
    model.LeastCentre: of_least_centre,
    model.LeastClient: of_least_client,
    model.BestWeights: of_best_weights,
    model.BestWithout: of_best_without,
    model.Unimodal: of_unimodal,
    model.PivotBest: of_pivot_best,
    model.BestBlend: of_best_blend,
    model.BestStrength: of_best_strength,
    model.Attains: of_attains,
    model.AttainsMixed: of_attains_mixed,
    model.BestMixture: of_best_mixture,
    model.LeastMixture: of_least_mixture,
}
"""What says each kind of decision."""


def best(d: Any, f: Frame, formula: tuple[Any, ...], sign: str, rules: Any) -> Said:
    """Conclusion and proof of a decision against all others about the formula's entries."""
    return BEST[type(d)](d, f, formula, sign, rules)
