"""Claims on the number of tuning runs, whose law is the truncated negative binomial, or Poisson's.

Belongs here: what is said of these laws. Does not belong here: definitions (Objects.v), theorems (Counts.v).
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


@about("Counts", "mrmtl:thmF.2:poisson")
def _poisson() -> About:
    def slope(x: str, value: str) -> str:
        return f"is_series (fun k => S k * (exp (- mean) * mean ^ S k / fact (S k)) * (1 - {x}) ^ k) {value}"

    one, other = slope("p", "v"), slope("p'", "v'")
    cost = "eps + ln (Rpower v order * Rpower v' (1 - order)) / (order - 1)"
    worse = "p' <= order / (order - 1) * p + delta"
    return About(
        "Of an event, let p and p' be the chances, on two data sets, that a run's answer is better, as far apart as a run"
        " allows; v and v' are the means of h (1 - p)^(h - 1) over a Poisson number h of runs, by which they multiply the"
        " event's chances. What this adds to a run's divergence is at most the formula, and for some event as much. That"
        " there may be no run is not looked at.",
        f"(forall p p' v v', 0 <= p <= 1 -> 0 <= p' <= 1 -> {worse} ->\n"
        f"      {one} ->\n      {other} ->\n      {cost} <= formula) /\\\n"
        f"    exists p p' v v', 0 <= p <= 1 /\\ 0 <= p' <= 1 /\\ {worse} /\\\n"
        f"      {one} /\\\n      {other} /\\\n      {cost} = formula",
        [
            "assert (T := poisson_cost mean order eps delta (formula) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(field; lra)).",
            "cbv zeta in T. exact T.",
        ],
    )
