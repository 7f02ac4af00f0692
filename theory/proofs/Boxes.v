(* What proofs about bounded letters share: coq-interval's tactic, in pieces. *)
Require Export Borrow.Functions.
From Interval Require Export Tactic.
Open Scope R_scope.

Lemma gap_at_most : forall a b, 0 <= b - a -> a <= b.
Proof. intros a b H. lra. Qed.

(* A letter below or above a number. *)
Ltac cut_at x c := let H := fresh "K" in destruct (Rle_or_lt x c) as [H | H]; [| apply Rlt_le in H].
