"""Claims on the number of tuning runs, whose law is the truncated negative binomial.

Belongs here: what is said of that law. Does not belong here: its definition (Objects.v), its theorems (Counts.v).
"""

from __future__ import annotations

from theory.coq.defined import About, about

LAW = "truncated_negative_binomial eta gamma"
ABOVE = "assert (A : -1 < eta) by lra."
BY_SLOPE = (
    "match goal with |- mean_runs _ ?g => replace g with ((1 - gamma) * slope eta (1 - gamma) / G eta (1 - gamma)) end;"
)


@about("Counts", "mrmtl:tnb:pmf", "mrmtl:tnb:pmf:positive")
def _masses() -> About:
    return About(
        "There is a law whose neighbouring masses have the ratio of the negative binomial's, and of each this is the mass.",
        f"(exists f, {LAW} f /\\ forall h : nat, (1 <= h)%nat -> f h = formula)\n    /\\ forall f, {LAW} f -> f h = formula",
        [
            ABOVE,
            "set (p := fun h : nat => formula).",
            "assert (M : forall k, (1 <= k)%nat -> p k = share eta (Nat.pred k) * (1 - gamma) ^ k / G eta (1 - gamma)).",
            "{ intros k K. unfold p. try (destruct (Req_EM_T eta 0) as [Z | Z]; [etransitivity;"
            " [| apply mass_closed_0; (assumption || lra)]; f_equal; ring |]).",
            "  etransitivity; [| apply mass_closed; (assumption || lra)]; f_equal; ring. }",
            "split.",
            "- exists p. split; [| intros; reflexivity].",
            "  apply is_law; [assumption | assumption |]. intro k. rewrite (M (S k)) by lia. reflexivity.",
            "- intros f T. change (f h = p h). rewrite (M h) by assumption. destruct h as [| k]; [lia |].",
            "  apply (every_mass eta A gamma H_gamma f T).",
        ],
        whole=("h",),
    )


@about("Counts", "mrmtl:tnb:mean", "mrmtl:tnb:mean:positive")
def _mean() -> About:
    return About(
        "The law's mean, the sum of h times the chance of h runs, is the formula.",
        f"forall f, {LAW} f -> mean_runs f formula",
        [
            ABOVE,
            "intros f T. assert (N := mean eta A gamma H_gamma f T).",
            "try (destruct (Req_EM_T eta 0) as [Z | Z]; [assert (C := mean_closed_0 eta A gamma H_gamma f _ Z T N);"
            f" {BY_SLOPE} first [exact N | rewrite C; f_equal; field; lra] |]).",
            "assert (Z' : eta <> 0) by (assumption || lra). assert (C := mean_closed eta A gamma H_gamma f _ Z' T N).",
            f"{BY_SLOPE} first [exact N | rewrite C; f_equal; ring].",
        ],
    )


@about("Counts", "mrmtl:tnb:one")
def _single() -> About:
    return About(
        "The chance of a single run, over the mean, is the formula.",
        f"forall f m, {LAW} f -> mean_runs f m -> f 1%nat / m = formula",
        [ABOVE, "intros f m T M. rewrite (single eta A gamma H_gamma f m T M). f_equal; ring."],
    )
