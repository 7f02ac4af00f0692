(* Bounds of what a selection, a round of a sample and classical noise cost, and where two risks cross. *)
Require Export Borrow.Outputs Borrow.Bounds.
Open Scope R_scope.

(* A function whose slope is not negative does not fall. *)
Lemma does_not_fall : forall (f df : R -> R) a b, a <= b -> (forall x, a <= x <= b -> is_derive f x (df x)) ->
  (forall x, a <= x <= b -> 0 <= df x) -> f a <= f b.
Proof.
  intros f df a b L D P. destruct (MVT_gen f a b df) as [c [C E]].
  - intros x X. rewrite Rmin_left, Rmax_right in X by lra. apply D. lra.
  - intros x X. rewrite Rmin_left, Rmax_right in X by lra. apply continuity_pt_filterlim.
    apply (ex_derive_continuous f). exists (df x). apply D. lra.
  - rewrite Rmin_left, Rmax_right in C by lra. assert (N := P c C). nra.
Qed.

(* --- a selection, on two candidates whose odds w a neighbour changes by exp eps -------------------------------------- *)

Definition share_of (w t : R) : R := w * exp t / (1 + w * exp t).

Lemma share_rises : forall w x y, 0 < w -> x <= y -> share_of w y - share_of w x <= (y - x) / 4.
Proof.
  intros w x y W L.
  assert (G : (fun t => t / 4 - share_of w t) x <= (fun t => t / 4 - share_of w t) y).
  { apply (does_not_fall (fun t => t / 4 - share_of w t) (fun t => (1 - w * exp t) ^ 2 / (4 * (1 + w * exp t) ^ 2))); [exact L | |].
    - intros t _. assert (E := exp_pos t). assert (P : 0 < w * exp t) by nra. unfold share_of. auto_derive; [lra |]. field. lra.
    - intros t _. assert (E := exp_pos t). assert (P : 0 < w * exp t) by nra. apply Rmult_le_pos; [apply pow2_ge_0 |].
      left. apply Rinv_0_lt_compat. nra. }
  simpl in G. lra.
Qed.

(* By Hoeffding's argument: the second slope of a logarithm of a mean of exponentials is a variance, at most 1/4. *)
Lemma gap_of_logs : forall a w e, 1 <= a -> 0 < w -> 0 <= e ->
  ln (1 + w * exp (a * e)) - a * ln (1 + w * exp e) + (a - 1) * ln (1 + w) <= a * (a - 1) * e ^ 2 / 8.
Proof.
  intros a w e A W E0.
  set (f := fun t => a * (a - 1) * t ^ 2 / 8 - (ln (1 + w * exp (a * t)) - a * ln (1 + w * exp t))).
  assert (G : f 0 <= f e).
  { apply (does_not_fall f (fun t => a * ((a * t - t) / 4 - (share_of w (a * t) - share_of w t)))); [exact E0 | |].
    - intros t _. assert (P := exp_pos t). assert (Q := exp_pos (a * t)). assert (0 < w * exp t) by nra.
      assert (0 < w * exp (a * t)) by nra. unfold f, share_of. auto_derive; [lra |]. field. lra.
    - intros t T. apply Rmult_le_pos; [lra |]. assert (S := share_rises w t (a * t) W ltac:(nra)). lra. }
  unfold f in G. rewrite Rmult_0_r, exp_0, Rmult_1_r in G. lra.
Qed.

Theorem selection_cost : forall n w eps, 0 < w -> 0 <= eps -> let o := INR (S (S n)) in
  renyi 2 o (two (w * exp eps / (1 + w * exp eps)) (1 - w * exp eps / (1 + w * exp eps))) (two (w / (1 + w)) (1 - w / (1 + w)))
    <= o * eps ^ 2 / 8.
Proof.
  intros n w eps W E o. assert (N := pos_INR n). assert (X := exp_pos eps). assert (P : 0 < w * exp eps) by nra.
  assert (O : o = INR (S n) + 1) by (unfold o; rewrite (S_INR (S n)); reflexivity).
  assert (I : forall y, 0 < y -> 0 < y / (1 + y) < 1).
  { intros y Y. split; [apply Rdiv_lt_0_compat; lra |]. apply Rmult_lt_reg_r with (1 + y); [lra |]. field_simplify; lra. }
  rewrite (renyi_of_two _ _ o (S n)) by (apply I || exact O; assumption).
  set (k := INR (S n)) in *. assert (K : 1 <= k) by (unfold k; rewrite S_INR; lra).
  assert (G := gap_of_logs o w eps ltac:(lra) W E). assert (Q := exp_pos (o * eps)). assert (0 < w * exp (o * eps)) by nra.
  apply Rmult_le_reg_r with k; [lra |]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  assert (U : o * eps ^ 2 / 8 * k = o * (o - 1) * eps ^ 2 / 8) by (rewrite O; field). rewrite U.
  apply Rle_trans with (2 := G). right.
  set (y := w * exp eps) in *.
  assert (V : y / (1 + y) * (y / (1 + y) / (w / (1 + w))) ^ S n + (1 - y / (1 + y)) * ((1 - y / (1 + y)) / (1 - w / (1 + w))) ^ S n
    = (1 + w * exp (o * eps)) * (1 + w) ^ S n / (1 + y) ^ S (S n)).
  { replace (y / (1 + y) / (w / (1 + w))) with (exp eps * ((1 + w) / (1 + y))) by (unfold y; field; unfold y in P; lra).
    replace ((1 - y / (1 + y)) / (1 - w / (1 + w))) with ((1 + w) / (1 + y)) by (field; lra).
    rewrite !Rpow_mult_distr. rewrite (exp_power (S (S n)) (o * eps) eps) by reflexivity.
    unfold Rdiv. rewrite !Rpow_mult_distr, !pow_inv. simpl pow. unfold y.
    field. split; [apply pow_nonzero |]; unfold y in P; lra. }
  assert (0 < (1 + w) ^ S n) by (apply pow_lt; lra). assert (0 < (1 + y) ^ S (S n)) by (apply pow_lt; lra).
  assert (0 < 1 + w * exp (o * eps)) by lra. rewrite V. rewrite ln_div by first [assumption | apply Rmult_lt_0_compat; assumption].
  rewrite ln_mult by assumption. rewrite (ln_power (S n) (1 + w)), (ln_power (S (S n)) (1 + y)) by lra.
  fold o. fold k. rewrite O. ring.
Qed.

(* --- a round of a sample ---------------------------------------------------------------------------------------------- *)

(* An exponential lies below its chord. *)
Lemma below_chord : forall c x, 0 <= c -> 0 <= x <= 1 -> exp (c * x) - 1 <= (exp c - 1) * x.
Proof.
  intros c x C X. destruct (Req_dec x 0) as [-> | N]; [rewrite Rmult_0_r, exp_0; lra |].
  assert (B : exp (c * x) * (1 + c * (1 - x)) <= exp c).
  { replace (exp c) with (exp (c * x) * exp (c * (1 - x))) by (rewrite <- exp_plus; f_equal; ring).
    apply Rmult_le_compat_l; [left; apply exp_pos | apply exp_ineq1_le]. }
  assert (D : exp (c * x) * (1 - c * x) <= 1).
  { replace 1 with (exp (c * x) * exp (- (c * x))) at 2 by (rewrite <- exp_plus, <- exp_0; f_equal; ring).
    apply Rmult_le_compat_l; [left; apply exp_pos |]. assert (T := exp_ineq1_le (- (c * x))). lra. }
  assert (F : x * (exp (c * x) * (1 + c * (1 - x))) + (1 - x) * (exp (c * x) * (1 - c * x)) <= x * exp c + (1 - x) * 1).
  { apply Rplus_le_compat; apply Rmult_le_compat_l; lra. }
  nra.
Qed.

Lemma ln_below : forall y, 0 <= y -> ln (1 + y) <= y.
Proof.
  intros y Y. rewrite <- (ln_exp y) at 2. assert (T := exp_ineq1_le y). destruct T as [T | ->]; [| lra].
  left. apply ln_increasing; lra.
Qed.

(* --- classical noise: s^2 = ln (1.25/delta) -------------------------------------------------------------------------- *)

Definition classical (s e : R) : R := erfc (s - e / (4 * s)) / 2 - exp e * erfc (s + e / (4 * s)) / 2.

(* The delta that classical noise really gives grows with eps: more of the density lies beyond where the two are apart. *)
Theorem classical_rises : forall s x y, 0 < s -> 0 <= x <= y -> classical s x <= classical s y.
Proof.
  intros s x y S [X Y].
  apply (does_not_fall (classical s)
    (fun e => bell (s - e / (4 * s)) / (4 * s) - exp e * erfc (s + e / (4 * s)) / 2)); [exact Y | |].
  - intros e _. unfold classical. auto_derive.
    + repeat split; try lra; eexists; apply erfc_derive.
    + rewrite !(is_derive_unique _ _ _ (erfc_derive _)). unfold Rminus.
      assert (E : exp e * bell (s + e * / (4 * s)) = bell (s + - (e * / (4 * s)))).
      { unfold bell. rewrite (Rmult_comm (exp e)), Rmult_assoc, <- exp_plus. f_equal. f_equal. field. lra. }
      unfold Rdiv. rewrite <- !E. field. lra.
  - intros e [L _]. assert (U : 0 <= e / (4 * s)) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
    assert (M := erfc_mills (s + e / (4 * s)) ltac:(lra)). assert (P := sqrt_pi).
    assert (E : exp e * (exp (- (s + e / (4 * s)) ^ 2) / ((s + e / (4 * s)) * sqrt PI))
      = bell (s - e / (4 * s)) / (2 * (s + e / (4 * s)))).
    { unfold bell. replace (- (s - e / (4 * s)) ^ 2) with (e + - (s + e / (4 * s)) ^ 2) by (field; lra).
      rewrite exp_plus. set (u := e / (4 * s)) in *. field. lra. }
    assert (K := Rmult_le_compat_l (exp e) _ _ (Rlt_le _ _ (exp_pos e)) M). rewrite E in K.
    assert (B := bell_positive (s - e / (4 * s))).
    assert (D : bell (s - e / (4 * s)) / (2 * (s + e / (4 * s))) <= bell (s - e / (4 * s)) / (2 * s)).
    { apply Rmult_le_compat_l; [lra |]. apply Rinv_le_contravar; lra. }
    replace (bell (s - e / (4 * s)) / (4 * s)) with (bell (s - e / (4 * s)) / (2 * s) / 2) by (field; lra). lra.
Qed.

(* It is at least what the integral up to z leaves, by Mills' bound of the other tail. *)
Lemma classical_at_least : forall s e x z d, 0 < s -> 0 <= e -> s - e / (4 * s) <= x -> 
  d + exp e * (exp (- (s + e / (4 * s)) ^ 2) / ((s + e / (4 * s)) * sqrt PI)) / 2 <= RInt bell x z / 2 -> d <= classical s e.
Proof.
  intros s e x z d S E X D. unfold classical.
  assert (U : 0 <= e / (4 * s)) by (apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra]).
  assert (M := erfc_mills (s + e / (4 * s)) ltac:(lra)).
  assert (K := Rmult_le_compat_l (exp e) _ _ (Rlt_le _ _ (exp_pos e)) M).
  assert (F := erfc_falls _ _ X). assert (N := erfc_nonneg z). rewrite (erfc_parts x z) in F. lra.
Qed.

(* --- where borrowing begins to pay ------------------------------------------------------------------------------------ *)

(* The risks of James and Stein's estimates and of the mean of all, from reports of variance v. *)
Lemma pays_beyond : forall m v t r, 4 <= m -> 0 < v -> 0 <= t -> 0 < r -> (m - 1) * r ^ 2 = 2 * v ^ 2 ->
  (v - (m - 3) * v ^ 2 / (m * (t + v)) < t * (1 - 1 / m) + v / m <-> r < t).
Proof.
  intros m v t r M V T R E.
  assert (G : t * (1 - 1 / m) + v / m - (v - (m - 3) * v ^ 2 / (m * (t + v))) = (m - 1) * (t + r) * (t - r) / (m * (t + v))).
  { replace ((m - 1) * (t + r) * (t - r)) with ((m - 1) * t ^ 2 - (m - 1) * r ^ 2) by ring. rewrite E. field. lra. }
  assert (D : 0 < m * (t + v)) by nra. assert (I := Rinv_0_lt_compat _ D). assert (F : 0 < (m - 1) * (t + r)) by nra.
  unfold Rdiv in G at 4. set (gap := t * (1 - 1 / m) + v / m - (v - (m - 3) * v ^ 2 / (m * (t + v)))) in *.
  split; intro H.
  - assert (P : 0 < gap) by (unfold gap; lra). apply Rnot_le_lt. intro N.
    assert (Q : (m - 1) * (t + r) * (t - r) * / (m * (t + v)) <= 0); [| unfold Rdiv in G; lra].
    assert (0 <= (m - 1) * (t + r) * (r - t) * / (m * (t + v))); [| lra].
    repeat apply Rmult_le_pos; lra.
  - assert (P : 0 < (m - 1) * (t + r) * (t - r) * / (m * (t + v))) by (repeat apply Rmult_lt_0_compat; lra).
    unfold Rdiv in G. unfold gap in *. lra.
Qed.
