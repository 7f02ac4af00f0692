"""Claims on laws with finitely many outputs, on what selections spend, and on steps of an algorithm.

Belongs here: what is said of them. Does not belong here: their definitions (Objects.v), their theorems (Outputs.v).
"""

from __future__ import annotations

from typing import Any

from theory.coq.defined import About, about

P, Q = "(two p (1 - p))", "(two q (1 - q))"


@about("Outputs", "mrmtl:eq12")
def _divergence(order: Any) -> About:
    return About(
        "The Renyi divergence of one law on two outputs from another is the formula.",
        f"renyi 2 {order} {P} {Q} = formula",
        [
            f"rewrite (renyi_of_two p q {order} {order - 1}) by (try assumption; simpl INR; ring).",
            "simpl INR. match goal with |- ln ?a / ?c = ?g => replace a with",
            f"  (p ^ {order} / q ^ {order - 1} + (1 - p) ^ {order} / (1 - q) ^ {order - 1}) by (field; lra) end.",
            "first [ field | simpl; rewrite ?Rmult_1_r; field ].",
        ],
    )


@about("Outputs", "mrmtl:appA:composition")
def _composition(order: Any, T: int) -> About:
    return About(
        "The mean over all outputs of independent steps of (P/Q)^(order - 1), likelihoods of all steps, is the formula.",
        f"mean_of_steps 2 {P} {T} (fun l => Rpower (likelihood {P} l / likelihood {Q} l) ({order} - 1))\n      = formula",
        [f"rewrite (steps_of_two p q {order} {order - 1} {T}) by (try assumption; simpl INR; ring).", "field. lra."],
    )


@about("Outputs", "mrmtl:eq12:kl")
def _limit() -> About:
    return About(
        "As the order tends to 1 the Renyi divergence tends to the formula.",
        f"is_lim (fun order => renyi 2 order {P} {Q}) 1 formula",
        [
            "replace formula with (p * ln (p / q) + (1 - p) * ln ((1 - p) / (1 - q))) by ring.",
            "now apply renyi_to_kl.",
        ],
    )


@about("Outputs", "mrmtl:eq14:range")
def _mechanism() -> About:
    return About(
        "No candidate's chance changes by more between neighbours with scores in the range, and one's changes by as much.",
        "(forall u v i, neighbours G score_range u v -> (i < G)%nat ->\n"
        "      ln (chance G eps u i / chance G eps v i) <= formula)\n"
        "    /\\ exists u v i, neighbours G score_range u v /\\ (i < G)%nat /\\\n"
        "      ln (chance G eps u i / chance G eps v i) = formula",
        [
            "replace formula with (ln ((1 + (G - 1) * exp (eps * score_range / 2)) * exp eps / (exp eps +"
            " (G - 1) * exp (eps * score_range / 2)))).",
            "{ split; [intros u v i; apply at_most_range; (assumption || lra) | apply range_is_met; (assumption || lra)]. }",
            "f_equal. f_equal; ring.",
        ],
        whole=("G",),
    )


@about("Outputs", "mrmtl:appC:selection-cost")
def _share(log_delta: int, T_select: int) -> About:
    inverse = f"({log_delta} * ln 10)"
    one = "(3 / 100 * eps) ^ 2 / 8"
    return About(
        "One rho of zCDP has the total eps at this delta; of it, so many selections of eps^2/8 each are this share.",
        f"(exists rho, 0 < rho /\\ rho + 2 * sqrt (rho * {inverse}) = eps) /\\\n"
        f"    forall rho, 0 <= rho -> rho + 2 * sqrt (rho * {inverse}) = eps -> {T_select} * ({one}) / rho = formula",
        [
            f"assert (L : 0 < {inverse}) by (assert (X := ln_increasing 1 10 ltac:(lra) ltac:(lra)); rewrite"
            f" ln_1 in X; lra).",
            f"destruct (budget_exists {inverse} eps L ltac:(lra)) as [A B].",
            f"split; [exists ((sqrt (eps + {inverse}) - sqrt {inverse}) ^ 2); now split |].",
            f"intros rho R E. rewrite (budget_of rho {inverse} eps R L ltac:(lra) E).",
            f"replace (sqrt {inverse}) with (sqrt {log_delta} * sqrt (ln 10)) in * by (symmetry; apply sqrt_mult; lra).",
            "field. intro Z. rewrite Z in A. simpl in A. lra.",
        ],
    )


@about("Outputs", "mrmtl:large-lam")
def _steps() -> tuple[About, ...]:
    model = "forall (K : nat) (x w : nat -> R)"
    return (
        About(
            "A step of all silos multiplies the mean model's distance from the mean estimate, whatever lam.",
            f"{model}, (1 <= K)%nat ->\n    silo_mean K (step K rate lam x w) - silo_mean K x = formula *"
            f" (silo_mean K w - silo_mean K x)",
            ["intros K x w H. rewrite average_step by assumption. ring."],
            "holds_1",
        ),
        About(
            "It multiplies the distance of the difference of two silos' models from what it is where steps change nothing.",
            f"{model} j k,\n    step K rate lam x w j - step K rate lam x w k - (x j - x k) / (1 + lam)\n"
            f"    = formula_2 * (w j - w k - (x j - x k) / (1 + lam))",
            ["intros K x w j k. rewrite difference_step by assumption. ring."],
            "holds_2",
        ),
    )


@about("Costs", "mrmtl:appA:em-zcdp")
def _selection(order: Any) -> About:
    def pair(odds: str) -> str:
        return f"(two ({odds} / (1 + {odds})) (1 - {odds} / (1 + {odds})))"

    return About(
        "Of two candidates with odds w, which a neighbour multiplies by exp eps: the divergence of the choices is at most"
        " the formula.",
        f"renyi 2 {order} {pair('w * exp eps')} {pair('w')}\n      <= formula",
        [
            f"assert (T := selection_cost {order - 2} w eps ltac:(lra) ltac:(lra)). cbv zeta in T.",
            f"replace (INR (S (S {order - 2}))) with {order} in T by (simpl; ring).",
            f"replace formula with ({order} * eps ^ 2 / 8) by field. exact T.",
        ],
    )
