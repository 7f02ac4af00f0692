(* What proofs about bounded letters share: coq-interval's tactic, in pieces. *)
Require Export Borrow.Functions.
From Interval Require Export Tactic.
Require Import Lia.
Open Scope R_scope.

Lemma gap_at_most : forall a b, 0 <= b - a -> a <= b.
Proof. intros a b H. lra. Qed.

Lemma at_least_0 : forall a form, a = form -> 0 <= form -> 0 <= a.
Proof. intros a form -> H. exact H. Qed.

Lemma ln_below : forall a b, 0 < a -> a = 1 + b -> ln a <= b.
Proof.
  intros a b P E. destruct (Req_dec b 0) as [Z | Z].
  - subst b. rewrite E, Rplus_0_r, ln_1. lra.
  - replace b with (ln (exp b)) by apply ln_exp. left. apply ln_increasing; [lra |].
    rewrite E. now apply exp_ineq1.
Qed.

(* A letter below or above a number. *)
Ltac cut_at x c := let H := fresh "K" in destruct (Rle_or_lt x c) as [H | H]; [| apply Rlt_le in H].

(* Hypotheses at a point. *)
Ltac met := repeat split; simpl INR; first [ lra | lia | simpl; lra | nra | interval ].
