(* The complementary error function as the tail of an integral, and what bounds it: no Gaussian integral is assumed. *)
Require Export Borrow.Boxes.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* erfc x is the integral of the bell from x on: the limit of the integrals up to whole numbers. *)
Definition bell (t : R) : R := 2 / sqrt PI * exp (- t ^ 2).
Definition erfc (x : R) : R := real (Lim_seq (fun n => RInt bell x (INR n))).

Lemma sqrt_pi : 0 < sqrt PI.
Proof. apply sqrt_lt_R0, PI_RGT_0. Qed.

Lemma bell_positive : forall t, 0 < bell t.
Proof. intro t. unfold bell. apply Rmult_lt_0_compat; [apply Rdiv_lt_0_compat; [lra | apply sqrt_pi] | apply exp_pos]. Qed.

Lemma bell_continuous : forall t, continuous bell t.
Proof. intro t. apply (ex_derive_continuous bell). unfold bell. auto_derive. trivial. Qed.

Lemma bell_integrable : forall a b, ex_RInt bell a b.
Proof. intros a b. apply (ex_RInt_continuous bell). intros z _. apply bell_continuous. Qed.

Lemma bell_parts : forall a b c, RInt bell a b + RInt bell b c = RInt bell a c.
Proof. intros a b c. apply (RInt_Chasles bell); apply bell_integrable. Qed.

Lemma bell_grows : forall a b, a <= b -> 0 <= RInt bell a b.
Proof. intros a b H. apply RInt_ge_0; [assumption | apply bell_integrable |]. intros t _. left. apply bell_positive. Qed.

(* Integrated by parts: where a is positive, the bell is at most t/a times itself beyond a. *)
Lemma bell_above : forall a b, 0 < a -> a <= b -> RInt bell a b <= exp (- a ^ 2) / (a * sqrt PI).
Proof.
  intros a b A B. assert (P := sqrt_pi).
  assert (C : forall t, continuous (fun t => t / a * bell t) t).
  { intro t. apply (ex_derive_continuous (fun t => t / a * bell t)). unfold bell. auto_derive. trivial. }
  apply Rle_trans with (RInt (fun t => t / a * bell t) a b).
  - apply RInt_le; [assumption | apply bell_integrable | apply (ex_RInt_continuous (fun t => t / a * bell t)); intros; apply C |].
    intros t T. assert (Q := bell_positive t). assert (1 <= t / a) by (apply Rmult_le_reg_r with a; [lra |]; field_simplify; lra).
    nra.
  - assert (I : is_RInt (fun t => t / a * bell t) a b (- exp (- b ^ 2) / (a * sqrt PI) - - exp (- a ^ 2) / (a * sqrt PI))).
    { apply (is_RInt_derive (fun t => - exp (- t ^ 2) / (a * sqrt PI)) (fun t => t / a * bell t)).
      - intros t _. unfold bell. auto_derive; [trivial |]. simpl. field. lra.
      - intros t _. apply C. }
    rewrite (is_RInt_unique _ _ _ _ I).
    assert (Q : 0 < exp (- b ^ 2) / (a * sqrt PI)) by (apply Rdiv_lt_0_compat; [apply exp_pos | nra]).
    unfold Rdiv in *. lra.
Qed.

Lemma limit_exists : forall x, ex_finite_lim_seq (fun n => RInt bell x (INR n)).
Proof.
  intro x. apply (ex_finite_lim_seq_incr _ (RInt bell x 1 + exp (- 1 ^ 2) / (1 * sqrt PI))).
  - intro n. assert (G : INR n <= INR (S n)) by (rewrite S_INR; lra).
    apply bell_grows in G. assert (C := bell_parts x (INR n) (INR (S n))). lra.
  - intro n. assert (C := bell_parts x 1 (INR n)). destruct n as [| n].
    + simpl INR in *. assert (D := bell_parts x 0 1). assert (G := bell_grows 0 1 ltac:(lra)). assert (Q : 0 < exp (- 1 ^ 2) / (1 * sqrt PI)).
      { apply Rdiv_lt_0_compat; [apply exp_pos |]. assert (P := sqrt_pi). lra. }
      lra.
    + assert (G : 1 <= INR (S n)) by (rewrite S_INR; assert (Z := pos_INR n); lra). apply (bell_above 1) in G; lra.
Qed.

Lemma erfc_limit : forall x, is_lim_seq (fun n => RInt bell x (INR n)) (erfc x).
Proof. intro x. apply Lim_seq_correct'. apply limit_exists. Qed.

Lemma erfc_parts : forall x y, erfc x = RInt bell x y + erfc y.
Proof.
  intros x y.
  assert (L : is_lim_seq (fun n => RInt bell x (INR n)) (RInt bell x y + erfc y)).
  { apply (is_lim_seq_ext (fun n => RInt bell x y + RInt bell y (INR n))); [intro n; apply bell_parts |].
    apply is_lim_seq_plus'; [apply is_lim_seq_const | apply erfc_limit]. }
  assert (U := is_lim_seq_unique _ _ (erfc_limit x)). rewrite (is_lim_seq_unique _ _ L) in U. now injection U.
Qed.

Lemma beyond : forall x, exists n, x < INR n.
Proof.
  intro x. destruct (nfloor_ex (Rabs x) (Rabs_pos x)) as [n [_ N]]. exists (S n).
  assert (A := Rle_abs x). rewrite S_INR. lra.
Qed.

Lemma erfc_nonneg : forall x, 0 <= erfc x.
Proof.
  intro x. apply (is_lim_seq_le_loc (fun _ => 0) (fun n => RInt bell x (INR n)) 0 (erfc x));
    [| apply is_lim_seq_const | apply erfc_limit].
  destruct (beyond x) as [n N]. exists n. intros m M. apply bell_grows. apply le_INR in M. lra.
Qed.

Lemma erfc_positive : forall x, 0 < erfc x.
Proof.
  intro x. rewrite (erfc_parts x (x + 1)). assert (N := erfc_nonneg (x + 1)).
  assert (0 < RInt bell x (x + 1)); [| lra].
  apply RInt_gt_0; [lra | intros; apply bell_positive | intros; apply bell_continuous].
Qed.

(* Mills' upper bound. *)
Lemma erfc_mills : forall x, 0 < x -> erfc x <= exp (- x ^ 2) / (x * sqrt PI).
Proof.
  intros x H. destruct (beyond x) as [n N].
  apply (is_lim_seq_le_loc (fun n => RInt bell x (INR n)) (fun _ => exp (- x ^ 2) / (x * sqrt PI))
    (erfc x) (exp (- x ^ 2) / (x * sqrt PI))); [| apply erfc_limit | apply is_lim_seq_const].
  exists n. intros m M. apply bell_above; [assumption |]. apply le_INR in M. lra.
Qed.

Lemma erfc_at_0 : erfc 0 <= 1 + 1 / 10 ^ 9.
Proof.
  rewrite (erfc_parts 0 5). assert (M := erfc_mills 5 ltac:(lra)).
  assert (RInt bell 0 5 <= 1 + 1 / 10 ^ 10) by (unfold bell; integral with (i_prec 60, i_fuel 400, i_degree 12)).
  assert (exp (- 5 ^ 2) / (5 * sqrt PI) <= 1 / 10 ^ 10) by interval with (i_prec 60).
  lra.
Qed.

(* The bound that needs no divisor; from a small number on, so that the integral need not be known. *)
Lemma erfc_at_most : forall x, 1 / 2000 <= x -> erfc x <= exp (- x ^ 2).
Proof.
  intros x H. destruct (Rle_or_lt (3 / 5) x) as [L | L].
  - apply Rle_trans with (exp (- x ^ 2) / (x * sqrt PI)); [apply erfc_mills; lra |].
    assert (P := exp_pos (- x ^ 2)). assert (S : 1772 / 1000 <= sqrt PI) by interval with (i_prec 60).
    assert (D : 1 <= x * sqrt PI) by (apply Rle_trans with (3 / 5 * (1772 / 1000)); [lra | apply Rmult_le_compat; lra]).
    apply Rmult_le_reg_r with (x * sqrt PI); [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra.
  - assert (E := erfc_parts 0 x). assert (Z := erfc_at_0).
    assert (B : x * bell x <= RInt bell 0 x).
    { replace (x * bell x) with (RInt (fun _ => bell x) 0 x) by (rewrite RInt_const; unfold scal; simpl; unfold mult; simpl; ring).
      apply RInt_le; [lra | apply ex_RInt_const | apply bell_integrable |]. intros t T. unfold bell.
      apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; [lra | apply sqrt_pi] |].
      destruct (Req_dec t x) as [-> | D]; [lra |]. left. apply exp_increasing. nra. }
    assert (I : 0 <= exp (- x ^ 2) - (1 + 1 / 10 ^ 9) + x * (2 / sqrt PI * exp (- x ^ 2)))
      by interval with (i_bisect x, i_taylor x, i_prec 60).
    change (2 / sqrt PI * exp (- x ^ 2)) with (bell x) in I. lra.
Qed.

Lemma erfc_between : forall x y, x <= y -> 0 < y -> RInt bell x y <= erfc x <= RInt bell x y + exp (- y ^ 2) / (y * sqrt PI).
Proof. intros x y H P. rewrite (erfc_parts x y). assert (N := erfc_nonneg y). assert (M := erfc_mills y P). lra. Qed.

Lemma erfc_gap : forall x b, 1 / 2000 <= x -> b = exp (- x ^ 2) -> 0 <= b - erfc x.
Proof. intros x b H ->. assert (U := erfc_at_most x H). lra. Qed.

Lemma erfc_mills_gap : forall x b, 0 < x -> b = exp (- x ^ 2) / (x * sqrt PI) -> 0 <= b - erfc x.
Proof. intros x b H ->. assert (U := erfc_mills x H). lra. Qed.
