(* Tactics of generated proofs about models: side conditions, sizes as letters, and the algebra that is left. *)
Require Export Borrow.Levels.

(* What a condition makes equal to something is that. *)
Ltac values := repeat match goal with H : @eq R ?x _ |- _ => is_var x; subst x end.

(* A whole number of clients becomes a real letter at least as large as its low end. *)
Ltac letters :=
  values;
  repeat match goal with
  | H : ?low <= INR ?n |- _ =>
      is_var n;
      let x := fresh "k" in let P := fresh "P" in let E := fresh "E" in
      destruct (above low (INR n) H) as [x [P E]]; rewrite E in *; clear E; try clear H
  | H : 0 < ?x < 1 |- _ =>
      is_var x;
      let y := fresh "k" in let P := fresh "P" in let E := fresh "E" in
      destruct (between x H) as [y [P E]]; subst x; clear H
  end.

Lemma one_less : forall n : nat, 1 <= n -> INR (Nat.pred n) = n - 1.
Proof. intros [| n] H; [simpl in H; lra |]. rewrite S_INR. simpl Nat.pred. ring. Qed.

Ltac unfold_levels :=
  cbv beta iota delta [sum two three same weights ratios fst snd message_variance];
  repeat match goal with |- context [INR (?n + 1)] => rewrite (plus_INR n 1) end;
  repeat match goal with
  | |- context [INR (Nat.pred ?n)] =>
      first [ rewrite (one_less n) by lra | let m := eval cbv in (Nat.pred n) in change (Nat.pred n) with m ]
  end;
  repeat match goal with |- context [INR (S ?n)] => rewrite (S_INR n) end; change (INR 0) with 0.

(* Signs where polynomials have minus signs that cancel. *)
Ltac positive_model :=
  first
    [ solve [ positive ]
    | solve [ ring_simplify; positive ]
    | lazymatch goal with
      | |- 0 < ?a + ?b =>
          first [ solve [ apply Rplus_lt_le_0_compat; [ positive_model | nonneg_model ] ]
                | solve [ apply Rplus_le_lt_0_compat; [ nonneg_model | positive_model ] ] ]
      | |- 0 < ?a * ?b => apply Rmult_lt_0_compat; positive_model
      | |- 0 < ?a / ?b => apply Rdiv_lt_0_compat; positive_model
      | |- 0 < / ?a => apply Rinv_0_lt_compat; positive_model
      end ]
with nonneg_model :=
  first
    [ solve [ nonneg ]
    | solve [ ring_simplify; nonneg ]
    | lazymatch goal with
      | |- 0 <= ?a + ?b => apply Rplus_le_le_0_compat; nonneg_model
      | |- 0 <= ?a * ?b => apply Rmult_le_pos; nonneg_model
      | |- 0 <= ?a / ?b => unfold Rdiv; apply Rmult_le_pos; [ nonneg_model | left; apply Rinv_0_lt_compat; positive_model ]
      end ].

Ltac nonzero_model :=
  repeat split;
  first
    [ assumption
    | by_sign
    | solve [ apply not_zero; positive_model ]
    | lra
    | solve [ apply Rlt_not_eq; apply Ropp_lt_cancel; rewrite Ropp_0; ring_simplify; positive ] ].

(* Sizes become letters only where a sign does not show without: that rewrites all that is known. *)
Ltac nonzero_sizes := first [ solve [ repeat split; first [ assumption | by_sign ] ] | letters; nonzero_model ].

Ltac algebra :=
  unfold_levels; values;
  first [ solve [ rational; nonzero_sizes ] | letters; first [ ring | solve [ field; nonzero_model ] | lra ] ].

Ltac side :=
  unfold_levels;
  match goal with
  | |- (_ < _)%nat => first [ assumption | lia ]
  | |- _ = _ => algebra
  | |- _ <> _ => nonzero_sizes
  | |- 0 < ?e => first [ by_sign | letters; first [ by_sign | lra | positive_model ] ]
  | |- 0 <= ?e => first [ by_sign | letters; first [ by_sign | lra | nonneg_model ] ]
  | |- _ => letters; lra
  end.

(* A property of each of a few levels. *)
Ltac each_level :=
  let l := fresh "l" in let H := fresh "H" in intros l H;
  first
    [ destruct l as [| l]; [| exfalso; lia ]
    | destruct l as [| [| l]]; [| | exfalso; lia ]
    | destruct l as [| [| [| l]]]; [| | | exfalso; lia ] ];
  side.

Ltac identity_of_letters := first [ solve [ rational; nonzero_model ] | ring | solve [ field; nonzero_model ] | lra ].

(* Variances at a point are not negative. *)
Ltac each_level_exists :=
  let l := fresh "l" in let H := fresh "H" in intros l H;
  first
    [ destruct l as [| l]; [| exfalso; lia ]
    | destruct l as [| [| l]]; [| | exfalso; lia ]
    | destruct l as [| [| [| l]]]; [| | | exfalso; lia ] ];
  unfold_levels; lra.

(* Hypotheses at a point. *)
Ltac at_point := unfold_levels; first [ lra | left; lra | right; lra | right; right; lra | lia ].
