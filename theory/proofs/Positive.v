(* What all proofs of this folder share: signs of rational functions, and new letters for bounded ones. *)
Require Export Borrow.Signs.
Open Scope R_scope.

Lemma above : forall low x, low <= x -> exists n, 0 <= n /\ x = low + n.
Proof. intros low x H. exists (x - low). split; lra. Qed.

Lemma between : forall x, 0 < x < 1 -> exists n, 0 < n /\ x = n / (1 + n).
Proof.
  intros x [A B]. exists (x / (1 - x)). split.
  - apply Rdiv_lt_0_compat; lra.
  - field. lra.
Qed.

Lemma even_power : forall x n, 0 <= x ^ (2 * n).
Proof. intros x n. rewrite pow_mult. apply pow_le. apply pow2_ge_0. Qed.

Lemma square_positive : forall a, a <> 0 -> 0 < a ^ 2.
Proof. intros a H. assert (P := Rsqr_pos_lt a H). unfold Rsqr in P. lra. Qed.

Lemma not_zero : forall a, 0 < a -> a <> 0.
Proof. intros a H. lra. Qed.

Lemma same_sign : forall a b, a = b -> 0 < b -> 0 < a.
Proof. intros a b E H. rewrite E. exact H. Qed.

Lemma at_most : forall a b gap, b - a = gap -> 0 <= gap -> a <= b.
Proof. intros a b gap E H. lra. Qed.

(* Signs by structure; where that ends, linear arithmetic decides. *)
Ltac positive_by_parts :=
  lazymatch goal with
  | |- 0 < ?a + ?b =>
      first [ solve [ apply Rplus_lt_le_0_compat; [ positive_by_parts | nonneg_by_parts ] ]
            | solve [ apply Rplus_le_lt_0_compat; [ nonneg_by_parts | positive_by_parts ] ]
            | lra ]
  | |- 0 < ?a * ?b => first [ solve [ apply Rmult_lt_0_compat; positive_by_parts ] | lra ]
  | |- 0 < ?a / ?b => first [ solve [ apply Rdiv_lt_0_compat; positive_by_parts ] | lra ]
  | |- 0 < / ?a => apply Rinv_0_lt_compat; positive_by_parts
  | |- 0 < ?a ^ 2 => first [ solve [ apply pow_lt; positive_by_parts ] | solve [ apply square_positive; assumption ] ]
  | |- 0 < ?a ^ ?n => apply pow_lt; positive_by_parts
  | |- _ => first [ assumption | lra ]
  end
with nonneg_by_parts :=
  lazymatch goal with
  | |- 0 <= ?a + ?b => first [ solve [ apply Rplus_le_le_0_compat; nonneg_by_parts ] | lra ]
  | |- 0 <= ?a * ?b => first [ solve [ apply Rmult_le_pos; nonneg_by_parts ] | lra ]
  | |- 0 <= ?a / ?b =>
      first [ solve [ unfold Rdiv; apply Rmult_le_pos; [ nonneg_by_parts | left; apply Rinv_0_lt_compat; positive_by_parts ] ] | lra ]
  | |- 0 <= / ?a => left; apply Rinv_0_lt_compat; positive_by_parts
  | |- 0 <= ?a ^ 2 => apply pow2_ge_0
  | |- 0 <= ?a ^ 4 => apply (even_power a 2)
  | |- 0 <= ?a ^ 6 => apply (even_power a 3)
  | |- 0 <= ?a ^ 8 => apply (even_power a 4)
  | |- 0 <= ?a ^ ?n => apply pow_le; nonneg_by_parts
  | |- _ => first [ assumption | left; assumption | lra ]
  end.

(* Signs as `by_sign` computes them; where a letter's is not known, or a function is no field's, by structure. *)
Ltac positive := first [ by_sign | positive_by_parts ].
Ltac nonneg := first [ by_sign | nonneg_by_parts ].

(* A denominator is not zero: its sign, or a hypothesis about an equal polynomial. *)
Ltac nonzero :=
  repeat split;
  first
    [ assumption
    | by_sign
    | match goal with
      | H : ?d <> 0 |- ?e <> 0 => solve [ let Z := fresh in intro Z; apply H; transitivity e; [ rational_or ltac:(fun _ => ring) | exact Z ] ]
      end
    | solve [ apply not_zero; positive ]
    | lra
    | solve [ apply not_zero; nra ] ].

(* An identity of rational functions. *)
Ltac identity := first [ solve [ rational; nonzero ] | solve [ field; nonzero ] | ring | lra | reflexivity ].
