"""Claims on a chance or a share whose law has Euler's density: a count of ones, the weights of two clients.

Belongs here: what is said of means under that law. Does not belong here: its density (Objects.v), its theorems (Betas.v).
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from theory.coq.defined import About, about

ENDS = "(at_right 0) (at_left 1)"


@about("Betas", "generative:bern:evidence")
def _ones(ones: Any, zeros: Any) -> About:
    ways = sp.binomial(ones + zeros, ones)
    density = "beta_shape (alpha - 1) (beta - 1)"
    return About(
        f"Of {ones + zeros} samples, {ones} are ones with this chance: its mean over p, whose density is p^(alpha - 1)"
        " (1 - p)^(beta - 1) over its integral.",
        f"exists v, 0 < v /\\ is_RInt_gen ({density}) {ENDS} v /\\\n"
        f"      is_RInt_gen (fun p => {ways} * p ^ {ones} * (1 - p) ^ {zeros} * ({density} p / v)) {ENDS}\n      formula",
        [
            f"destruct (mean_of_powers {ones} {zeros} alpha beta ltac:(lra) ltac:(lra)) as [v [P [B M]]].",
            "exists v. split; [exact P |]. split; [exact B |].",
            f"assert (K := unit_scal _ {ways} _ M).",
            "match type of K with on_unit _ ?x => replace formula with x by (simpl; field; lra) end.",
            "apply unit_ext with (2 := K). intros p I. unfold Rdiv. ring.",
        ],
    )


@about("Betas", "robusthdp:tab2:estimation")
def _weights() -> About:
    density = "beta_shape (p / 2 - 1) (p / 2 - 1)"
    half = "(p / 2)"
    return About(
        "Two squared lengths of p normal coordinates each have a first share x with Euler's density, with parameters p/2:"
        " under it, twice the mean of the squared weights x and 1 - x exceeds one by the formula.",
        f"exists v, 0 < v /\\ is_RInt_gen ({density}) {ENDS} v /\\\n"
        f"      is_RInt_gen (fun x => (2 * (x ^ 2 + (1 - x) ^ 2) - 1) * ({density} x / v)) {ENDS}\n      formula",
        [
            f"destruct (euler {half} {half} ltac:(lra) ltac:(lra)) as [v [P B]].",
            "exists v. split; [exact P |]. split; [exact B |].",
            f"assert (X := unit_scal _ (2 / v) _ (many_more 2 0 {half} {half} v ltac:(lra) ltac:(lra) B)).",
            f"assert (Y := unit_scal _ (2 / v) _ (many_more 0 2 {half} {half} v ltac:(lra) ltac:(lra) B)).",
            "assert (K := unit_plus _ _ _ _ (unit_plus _ _ _ _ X Y) (unit_scal _ (- / v) _ B)).",
            "match type of K with on_unit _ ?x => replace formula with x by (simpl; field; lra) end.",
            "apply unit_ext with (2 := K). intros x I. simpl. field. lra.",
        ],
    )


def _three_powers(said: str, first: str, second: str) -> About:
    """The first three moments under Euler's density with these parameters."""
    density = f"beta_shape ({first} - 1) ({second} - 1)"
    powers = [f"is_RInt_gen (fun u => u ^ {k} * ({density} u / v)) {ENDS} formula_{k}" for k in (1, 2, 3)]
    return About(
        f"{said}: under it, the means of the share, of its square and of its cube are the formula.",
        f"exists v, 0 < v /\\ is_RInt_gen ({density}) {ENDS} v /\\\n      " + " /\\\n      ".join(powers),
        [
            f"destruct (euler {first} {second} ltac:(lra) ltac:(lra)) as [v [P B]].",
            "exists v. split; [exact P |]. split; [exact B |]. repeat apply conj.",
            *(
                f"{{ assert (K := unit_scal _ (/ v) _ (many_more {k} 0 {first} {second} v ltac:(lra) ltac:(lra) B))."
                f" match type of K with on_unit _ ?x => replace formula_{k} with x by (simpl; field; lra) end."
                " apply unit_ext with (2 := K). intros u I. simpl. field. lra. }"
                for k in (1, 2, 3)
            ),
        ],
    )


@about("Betas", "generative:variances:moderated-t")
def _moderated() -> About:
    return _three_powers(
        "The share of d0 + d squares of normal coordinates in these and one more has Euler's density, with parameters"
        " (d0 + d)/2 and 1/2",
        "((d0 + d) / 2)",
        "(1 / 2)",
    )


@about("Betas", "generative:spreads:covariance")
def _spread() -> About:
    return _three_powers(
        "The share edge/(edge + t) of the scale of the law has Euler's density, with parameters 1/2 and (k + 1)/2",
        "(1 / 2)",
        "((k + 1) / 2)",
    )
