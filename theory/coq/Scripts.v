(* Tactics of generated proofs about models: side conditions, sizes as letters, and the algebra that is left. *)
Require Export Borrow.Levels.

(* A whole number of clients becomes a real letter at least as large as its lower end. *)
Ltac letters :=
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

Ltac unfold_levels :=
  cbv beta iota delta [sum two three same weights ratios fst snd message_variance];
  repeat match goal with |- context [INR (S ?n)] => rewrite (S_INR n) end; change (INR 0) with 0.

Ltac nonzero_model :=
  repeat split;
  first
    [ assumption
    | solve [ apply not_zero; positive ]
    | solve [ apply not_zero; ring_simplify; positive ]
    | lra
    | solve [ apply Rlt_not_eq; apply Ropp_lt_cancel; rewrite Ropp_0; ring_simplify; positive ] ].

Ltac algebra := unfold_levels; letters; first [ ring | solve [ field; nonzero_model ] | lra ].

Ltac side :=
  unfold_levels;
  match goal with
  | |- (_ < _)%nat => first [ assumption | lia ]
  | |- _ = _ => algebra
  | |- _ <> _ => letters; nonzero_model
  | |- 0 < ?e => letters; first [ positive | lra | solve [ ring_simplify; positive ] ]
  | |- _ < _ => letters; lra
  | |- 0 <= ?e => letters; first [ nonneg | lra | solve [ ring_simplify; nonneg ] ]
  | |- _ <= _ => letters; lra
  end.

(* A property of each of a few levels. *)
Ltac each_level :=
  let l := fresh "l" in let H := fresh "H" in intros l H;
  first
    [ destruct l as [| l]; [| exfalso; lia ]
    | destruct l as [| [| l]]; [| | exfalso; lia ]
    | destruct l as [| [| [| l]]]; [| | | exfalso; lia ] ];
  side.

Ltac identity_of_letters := first [ ring | solve [ field; nonzero_model ] | lra ].

(* Variances at a point are not negative. *)
Ltac each_level_exists :=
  let l := fresh "l" in let H := fresh "H" in intros l H;
  first
    [ destruct l as [| l]; [| exfalso; lia ]
    | destruct l as [| [| l]]; [| | exfalso; lia ]
    | destruct l as [| [| [| l]]]; [| | | exfalso; lia ] ];
  unfold_levels; lra.
