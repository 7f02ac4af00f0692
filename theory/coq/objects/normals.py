"""Claims on normal noise: its exact curve, its Renyi divergence, and that of a run of releases.

Belongs here: what is said of densities. Does not belong here: their definitions (Objects.v), theorems (Lines.v, Bounds.v).
"""

from __future__ import annotations

import re
from typing import Any

import sympy as sp

from theory.coq.defined import About, Parts, about

# A lemma about other numbers is refused at once, and not after unfolding integrals and exponentials down to sequences.
AS_SAID = "with_strategy opaque"


@about("Lines", "mrmtl:sigma-dp:exact")
def _curve(parts: Parts) -> About:
    less, more = (parts.text(e.args[0]) for e in _tails(parts.formula[0]))
    return About(
        "What one density exceeds e^eps times the other by, integrated over the line, is the formula.",
        "least_delta eps (normal sensitivity (sigma ^ 2)) (normal 0 (sigma ^ 2))\n      formula",
        [
            "assert (Q := root_two_square).",
            f"replace formula with (erfc ({less}) / 2 - exp eps * (erfc ({more}) / 2)) by (unfold Rdiv; ring).",
            f"{AS_SAID} [least_delta normal exp erfc sqrt Rdiv] apply exact_curve_at; try lra; field [Q]; lra.",
        ],
    )


@about("Lines", "mrmtl:appA:zcdp")
def _divergence() -> About:
    return About(
        "The Renyi divergence of normal noise around any two centres so far apart is the formula, at every order.",
        "forall m, renyi_sum order (normal (m + sensitivity) (sigma ^ 2)) (normal m (sigma ^ 2))\n"
        "      (exp ((order - 1) * formula))",
        [
            "intro m.",
            "replace formula with (order * sensitivity ^ 2 / (2 * sigma ^ 2)) by identity.",
            f"{AS_SAID} [renyi_sum normal exp pow Rdiv] apply renyi_of_normals. apply pow_lt. lra.",
        ],
    )


@about("Lines", "mrmtl:algA1")
def _run(adjacency: str) -> About:
    # Silo k's releases are its clipped gradients' sum with noise, moved by the pull of lam; one record moves the sum by d.
    moved = "(2 * clip)" if adjacency == "replace" else "clip"
    return About(
        "Whatever pull the regulariser adds to a release, as a function of all releases of all silos so far, with whatever"
        " factor lam: the divergence of all releases is the formula.",
        "forall (K k : nat) (gradients pull : list R -> R), (k < K)%nat ->\n"
        "      renyi_run order noise2 (fun seen => gradients seen + lam * pull seen)"
        f" (rounds T K k {moved}) nil\n      (exp ((order - 1) * formula))",
        [
            "intros K k gradients pull I.",
            f"assert (X := renyi_of_runs order noise2 (fun seen => gradients seen + lam * pull seen) H_noise2"
            f" (rounds T K k {moved}) nil).",
            "rewrite squares_rounds in X.",
            f"replace formula with (order * (T * {moved} ^ 2) / (2 * noise2)) by identity.",
            "exact X.",
        ],
        whole=("T",),
    )


def _root(above: str, below: str) -> list[str]:
    """Lines that say of the root of a fraction's logarithm that it is positive, and what its square is."""
    return [
        f"assert (L : 0 < ln ({above} / {below})) by (rewrite <- ln_1; apply ln_increasing; [lra |];"
        f" apply Rmult_lt_reg_r with {below}; [lra |]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra).",
        "assert (B := Functions.sqrt_square _ L). assert (P := sqrt_lt_R0 _ L).",
    ]


@about("Bounds", "mrmtl:no-clip")
def _clipped(parts: Parts, n: int) -> About:
    # `beyond` is set to 0 before: the centre is within the bound, and the two tails are at these distances.
    curve = parts.derived[0]
    near, far = sorted((e.args[0] for e in curve.atoms(sp.erfc)), key=lambda e: len(e.free_symbols))
    tail, other = (f"({re.sub('beyond', '0', parts.text(x))})" for x in (near, far))
    root = f"sqrt (ln ({n} / beta))"
    square = "assert (S : sqrt 2 ^ 2 = 2) by apply root_two_square. assert (R := root_two)."
    return About(
        "The chance that one of the records is clipped is at most beta.",
        "derived <= formula",
        [
            square,
            *_root(str(n), "beta"),
            "assert (A := Rlt_le _ _ P).",
            f"assert (X : {tail} = {root}) by (field [S]).",
            f"assert (Y : {other} = {root} + sqrt 2 * bound) by (field [S]).",
            "assert (K : 0 <= sqrt 2 * bound) by (apply Rmult_le_pos; lra).",
            f"assert (Z := no_record_is_clipped {n} beta ({root}) ({root} + sqrt 2 * bound) ltac:(lia) ltac:(lra) A).",
            f"replace (INR {n}) with {n} in Z by (simpl; ring).",
            f"assert (T : 1 - (1 - (erfc ({root}) / 2 + erfc ({root} + sqrt 2 * bound) / 2)) ^ {n} <= beta).",
            "{ apply Z; clear Z; [lra | rewrite B; lra |].",
            f"  apply Rle_trans with (({root}) ^ 2); [rewrite B; lra | apply pow_incr; lra]. }}",
            "rewrite X, Y.",
            f"try match goal with |- 1 - ?b ^ _ <= _ => replace b with (1 - (erfc ({root}) / 2 + erfc ({root} +"
            f" sqrt 2 * bound) / 2)) by ring end.",
            "first [exact T | simpl pow in T; lra].",
        ],
    )


@about("Bounds", "robusthdp:thm1")
def _enough(parts: Parts, large: int) -> About | None:
    if large:
        return None
    curve = parts.derived[0]
    near, far = _tails(curve)
    x = parts.text(near.args[0])
    return About(
        "The delta that the training needs at this noise is at most delta.",
        "derived <= formula",
        [
            *_root("1", "delta"),
            f"assert (T := enough_noise c2 t (sqrt (ln (1 / delta))) ({x}) ltac:(lra) ltac:(lra) P).",
            "assert (D : exp (- sqrt (ln (1 / delta)) ^ 2) = delta) by (rewrite B, exp_Ropp, exp_ln by (apply"
            " Rdiv_lt_0_compat; lra); field; lra).",
            "assert (Q := root_two_square). rewrite D in T.",
            f"assert (U : erfc ({x}) / 2 <= delta) by (apply T; field [Q]; lra).",
            *_dropped(parts, curve, far),
            "lra.",
        ],
    )


def _tails(curve: Any) -> tuple[Any, Any]:
    """The two erfc of a curve, the one that an exponential multiplies last."""
    far = next(e for term in curve.args if term.has(sp.exp) for e in term.atoms(sp.erfc))
    (near,) = curve.atoms(sp.erfc) - {far}
    return near, far


def _dropped(parts: Parts, curve: Any, far: Any) -> list[str]:
    """Lines that say that an exponential times an erfc is not negative."""
    (power,) = curve.atoms(sp.exp)
    return [
        f"assert (V : 0 <= exp ({parts.text(power.args[0])}) * erfc ({parts.text(far.args[0])}))"
        " by (apply Rmult_le_pos; [left; apply exp_pos | apply erfc_nonneg])."
    ]


@about("Bounds", "robusthdp:thm1:any-constants")
def _none(parts: Parts) -> About:
    curve = parts.derived[0]
    near, far = _tails(curve)
    (power,) = curve.atoms(sp.exp)
    e, a, b = (parts.text(x.args[0]) for x in (power, near, far))
    return About(
        "The delta that is needed is at least the formula, 0.99.",
        "formula <= derived",
        [
            "assert (Q := root_two_square).",
            f"assert (T := no_constants ({e}) x ({a}) ({b}) ltac:(lra) ltac:(ring) ltac:(field [Q]; lra)"
            f" ltac:(field [Q]; lra)).",
            "lra.",
        ],
    )


def _of_classical(sensitivity: str, inverse: str, said: str, eps: str = "eps") -> str:
    """That something is said of the delta that the classical noise of this sensitivity needs at eps."""
    noise2 = f"({sensitivity} * sqrt (2 * ln ({inverse})) / {eps}) ^ 2"
    needed = f"least_delta {eps} (normal {sensitivity} noise2) (normal 0 noise2) needed"
    return f"let noise2 := {noise2} in\n    exists needed, {needed} /\\ {said}"


@about("Costs", "robusthdp:gauss", "robusthdp:gauss:range", "mrmtl:sigma-dp:classical")
def _classical(beyond: int | None = None, sensitivity: Any = 1) -> tuple[About, ...] | None:
    if beyond:
        return None
    holds = About(
        "The least delta of the classical noise is at most delta.",
        _of_classical(f"{sensitivity}", "5 / (4 * delta)", "needed <= formula"),
        [f"refine (classical_noise {sensitivity} delta eps _ _ _); lra."],
    )
    if beyond is None:
        return (holds,)
    inside = "ln (5 / (4 * (3 / 5)))"
    fails = [
        "intro H. assert (X := H 1 (3 / 5) ltac:(lra) ltac:(lra)). cbv zeta in X. destruct X as [needed [L B]].",
        f"assert (N : 7 / 10 <= {inside}) by interval with (i_prec 40).",
        f"assert (P := sqrt_lt_R0 ({inside}) ltac:(lra)). rewrite sqrt_mult in L by lra.",
        f"assert (C := classical_curve 1 (sqrt ({inside})) (1 + 4) ltac:(lra) P ltac:(lra)).",
        "assert (E := one_least_delta _ _ _ _ _ L C).",
        f"assert (M : 65 / 100 <= classical (sqrt ({inside})) (1 + 4)); [| lra].",
        "apply (classical_at_least _ _ (- (6 / 10)) 3); [exact P | lra | interval with (i_prec 40) |].",
        "assert (D : 157 / 100 <= RInt bell (- (6 / 10)) 3) by (unfold bell; integral with (i_prec 40)).",
        f"assert (T : exp (1 + 4) * (exp (- (sqrt ({inside}) + (1 + 4) / (4 * sqrt ({inside}))) ^ 2) / ((sqrt ({inside}) +"
        f" (1 + 4) / (4 * sqrt ({inside}))) * sqrt PI)) / 2 <= 1 / 10) by interval with (i_prec 40).",
        "lra.",
    ]
    more = _of_classical("1", "5 / (4 * delta)", "needed <= formula", "(eps + 4)")
    return holds, About("At eps + 4 it is not, at eps = 1, delta = 3/5.", more, fails, "printed_fails", negated=True)


@about("Costs", "mrmtl:eq13:gaussian")
def _converted(order: Any, step: Any) -> About:
    eps = f"{order} * ({step}) ^ 2 / 2 + ln (1 / ({order} * delta)) / ({order} - 1) + ln (1 - 1 / {order})"
    needed = f"least_delta eps (normal ({step}) 1) (normal 0 1) needed"
    return About(
        "The least delta at the eps to which the divergence is converted is at most delta.",
        f"let eps := {eps} in\n    exists needed, {needed} /\\ needed <= formula",
        [f"refine (converted_noise {order} ({step}) delta _ _ _); lra."],
    )


@about("Costs", "mrmtl:sigma-dp:large-eps")
def _too_small(delta: Any) -> About:
    inverse = sp.Rational(5, 4) / delta
    root, least = f"sqrt (ln {inverse})", sp.sqrt(sp.log(inverse))
    # At eps = 10: from where on the nearer tail is integrated, and how many times delta the farther one is at most.
    start = sp.ceiling((least - sp.Rational(5, 2) / least) * 10**4) / 10**4
    other = least + sp.Rational(5, 2) / least
    most = sp.ceiling(sp.exp(10 - other**2) / (2 * other * sp.sqrt(sp.pi)) / delta * 100) / 100
    tail = f"exp 10 * (exp (- ({root} + 10 / (4 * {root})) ^ 2) / (({root} + 10 / (4 * {root})) * sqrt PI)) / 2"
    return About(
        "The least delta of the classical noise is at least the formula.",
        _of_classical("sensitivity", f"{inverse}", "formula <= needed"),
        [
            f"assert (L : 0 < ln {inverse}) by interval with (i_prec 40).",
            "assert (P := sqrt_lt_R0 _ L).",
            f"assert (M : formula <= classical ({root}) 10).",
            f"{{ apply (classical_at_least _ _ ({start}) ({start + 3})); [exact P | lra | interval with (i_prec 60) |].",
            f"  assert (B : {2 * (1 + most) * delta} <= RInt bell ({start}) ({start + 3})) by (unfold bell; integral with"
            " (i_prec 60)).",
            f"  assert (E : {tail} <= {most * delta}) by interval with (i_prec 60). lra. }}",
            f"assert (R := classical_rises ({root}) 10 eps P ltac:(lra)). intro noise2.",
            f"exists (classical ({root}) eps). split; [| lra].",
            # `simple` does not unfold what is not the curve of the lemma: another curve is refused in seconds, not never.
            "unfold noise2. rewrite sqrt_mult by lra. simple apply classical_curve; lra.",
        ],
    )


@about("Costs", "generative:thm7:conditions")
def _sampled(parts: Parts, order: int, small_order: int) -> About | None:
    if not small_order:
        return None
    n = int(order)
    # The clients drawn, k of n times: each term is at most its chance times `most` load, by the exponential's chord.
    ks = range(2, n + 1)
    powers = {k: sp.Rational(k * (k - 1), 2 * n) for k in ks}
    most = {k: sp.ceiling((sp.exp(powers[k]) - 1) * 100) / 100 for k in ks}
    chance = {k: f"{sp.binomial(n, k)} * (q ^ {k} * (1 - q) ^ {n - k})" for k in ks}
    terms = {k: f"(exp ({powers[k]} * load) - 1)" for k in ks}
    total = " + ".join(f"{chance[k]} * {terms[k]}" for k in ks)
    room = {k: 6 * (n - 1) * sp.binomial(n - 2, k - 2) - sp.binomial(n, k) * most[k] for k in ks}
    assert all(x >= 0 for x in room.values())
    rest = " + ".join(f"{room[k]} * (q ^ {k - 2} * (1 - q) ^ {n - k})" for k in ks)
    (logarithm,) = parts.derived[0].atoms(sp.log)
    flat = " ".join(f"replace ({powers[k]} * load) with {_power(parts, powers[k])} by field." for k in ks)
    return About(
        "One round's cost, the divergence of a draw that the differing client is in with chance q, is at most the formula.",
        "derived <= formula",
        [
            "assert (F : forall i j c, 0 <= c -> 0 <= c * (q ^ i * (1 - q) ^ j))"
            " by (intros; apply Rmult_le_pos; [assumption | apply Rmult_le_pos; apply pow_le; lra]).",
            *(
                f"assert (A{k} : 0 <= {terms[k]} <= {most[k]} * load). {{ split;"
                f" [assert (T := exp_ineq1_le ({powers[k]} * load)); lra |]."
                f" assert (T := below_chord ({powers[k]}) load ltac:(lra) ltac:(lra))."
                f" assert (B : exp ({powers[k]}) - 1 <= {most[k]}) by interval with (i_prec 40). nra. }}"
                for k in ks
            ),
            *(
                f"assert (B{k} := Rmult_le_compat_l ({chance[k]}) _ _ (F {k}%nat {n - k}%nat {sp.binomial(n, k)} ltac:(lra))"
                f" (proj2 A{k})). assert (C{k} := Rmult_le_pos ({chance[k]}) _ (F {k}%nat {n - k}%nat {sp.binomial(n, k)}"
                f" ltac:(lra)) (proj1 A{k}))."
                for k in ks
            ),
            f"assert (E : {parts.text(logarithm.args[0])} = 1 + ({total})).",
            f"{{ {flat} ring. }}",
            f"assert (L := ln_below ({total}) ltac:(lra)).",
            f"assert (Z : 0 <= load * q ^ 2 * ({rest})).",
            "{ apply Rmult_le_pos; [apply Rmult_le_pos; [lra | apply pow_le; lra] |]. repeat apply Rplus_le_le_0_compat;"
            " apply F; lra. }",
            f"replace {parts.text(logarithm)} with (ln (1 + ({total}))) by (f_equal; symmetry; exact E).",
            "lra.",
        ],
    )


def _power(parts: Parts, share: Any) -> str:
    """The argument of the exponential of so many times the load, as the formula writes it."""
    load = next(s for s in parts.derived[0].free_symbols if str(s) == "load")
    return next(parts.text(e.args[0]) for e in parts.derived[0].atoms(sp.exp) if sp.expand(e.args[0] - share * load) == 0)
