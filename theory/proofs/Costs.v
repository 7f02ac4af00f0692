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

(* --- from Renyi's divergence to the least delta ------------------------------------------------------------------------ *)

(* As `delta_from_renyi` for densities on the line. *)
Theorem least_delta_from_renyi : forall order rdp eps p q needed, 1 < order -> (forall x, 0 < p x) -> (forall x, 0 < q x) ->
  least_delta eps p q needed -> renyi_sum order p q (exp ((order - 1) * rdp)) ->
  needed <= exp ((order - 1) * (rdp - eps)) / (order - 1) * Rpower (1 - 1 / order) order.
Proof.
  intros order rdp eps p q needed O P Q L D. set (best := exp ((order - 1) * (rdp - eps)) / (order - 1) * Rpower (1 - 1 / order) order).
  assert (N := pointwise rdp order eps O). fold best in N.
  assert (S := is_RInt_gen_scal (V := R_NormedModule) _ (best * exp (- ((order - 1) * rdp))) _ D).
  replace best with (scal (best * exp (- ((order - 1) * rdp))) (exp ((order - 1) * rdp))).
  2: { unfold scal. simpl. unfold mult. simpl. rewrite Rmult_assoc, <- exp_plus, Rplus_opp_l, exp_0. ring. }
  refine (Integral.RInt_gen_le _ _ _ _ _ _ L S).
  - exists (fun x => x < 0) (fun y => 0 < y); [exists 0; trivial | exists 0; trivial | intros x y X Y; simpl; lra].
  - exists (fun _ => True) (fun _ => True); [exists 0; trivial | exists 0; trivial |]. intros _ _ _ _ x _.
    unfold scal. simpl. unfold mult. simpl. assert (A := P x). assert (B := Q x).
    assert (Y : exp ((order - 1) * (ln (p x) - ln (q x) - rdp)) * p x
      = exp (- ((order - 1) * rdp)) * (Rpower (p x) order * Rpower (q x) (1 - order))).
    { unfold Rpower. rewrite <- (exp_ln (p x) A) at 2. rewrite <- !exp_plus. f_equal. ring. }
    assert (X : exp (eps - (ln (p x) - ln (q x))) * p x = exp eps * q x).
    { replace (eps - (ln (p x) - ln (q x))) with (eps + ln (q x) - ln (p x)) by ring. unfold Rminus.
      rewrite !exp_plus, exp_Ropp, !exp_ln by assumption. field. lra. }
    assert (Z := Rmult_le_compat_r (p x) _ _ (Rlt_le _ _ A) (N (ln (p x) - ln (q x)))).
    rewrite Rmult_minus_distr_r, X, Rmult_1_l, (Rmult_assoc best), Y in Z. rewrite (Rmult_assoc best).
    apply Rmax_lub; [| exact Z].
    apply Rmult_le_pos; [left; apply best_positive; exact O |]. left. repeat apply Rmult_lt_0_compat; apply exp_pos.
Qed.

(* Normal noise at the eps to which its divergence of one order is converted. *)
Theorem converted_noise : forall order d delta, 1 < order -> 0 < d -> 0 < delta ->
  let eps := order * d ^ 2 / 2 + ln (1 / (order * delta)) / (order - 1) + ln (1 - 1 / order) in
  exists needed, least_delta eps (normal d 1) (normal 0 1) needed /\ needed <= delta.
Proof.
  intros order d delta O D P eps. assert (L := exact_curve eps d 1 D Rlt_0_1).
  match type of L with least_delta _ _ _ ?v => exists v; split; [exact L |] end.
  assert (R := renyi_of_normals order 0 d 1 Rlt_0_1). rewrite Rplus_0_l in R.
  assert (T := least_delta_from_renyi order (order * d ^ 2 / (2 * 1)) eps _ _ _ O (fun x => normal_positive d 1 x Rlt_0_1)
    (fun x => normal_positive 0 1 x Rlt_0_1) L R).
  apply Rle_trans with (1 := T). right. assert (S := share order O). assert (0 < order * delta) by nra.
  replace ((order - 1) * (order * d ^ 2 / (2 * 1) - eps)) with (ln (order * delta) + - ((order - 1) * ln (1 - 1 / order))).
  2: { assert (I : ln (1 / (order * delta)) = - ln (order * delta)) by (unfold Rdiv; rewrite Rmult_1_l; now apply ln_Rinv).
       unfold eps. rewrite I. field. lra. }
  rewrite exp_plus, exp_ln by assumption. unfold Rpower.
  replace (order * ln (1 - 1 / order)) with ((order - 1) * ln (1 - 1 / order) + ln (1 - 1 / order)) by ring.
  rewrite exp_plus, exp_ln, exp_Ropp by assumption. assert (E := exp_pos ((order - 1) * ln (1 - 1 / order))). field. lra.
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

(* And it falls with s. *)
Lemma classical_falls : forall e s, 0 < s ->
  is_derive (fun s => classical s e) s (- (bell (s - e / (4 * s)) * (e / (4 * s ^ 2)))).
Proof.
  intros e s S. unfold classical. auto_derive.
  - repeat split; try lra; eexists; apply erfc_derive.
  - rewrite !(is_derive_unique _ _ _ (erfc_derive _)).
    assert (E : exp e * bell (s + e * / (4 * s)) = bell (s + - (e * / (4 * s)))).
    { unfold bell. rewrite (Rmult_comm (exp e)), Rmult_assoc, <- exp_plus. f_equal. f_equal. field. lra. }
    unfold Rminus, Rdiv. rewrite <- !E. field. lra.
Qed.

(* What is left of delta at eps = 7/2, and its slope but for a positive factor. *)
Definition room (s : R) : R := 5 / 4 * exp (- s ^ 2) - classical s (7 / 2).
Definition slope_of_room (s : R) : R := 7 / (4 * s ^ 2 * sqrt PI) * exp (7 / 4 - 49 / (64 * s ^ 2)) - 5 / 2 * s.

Lemma room_derive : forall s, 0 < s ->
  is_derive room s (exp (- s ^ 2) * slope_of_room s).
Proof.
  intros s S. assert (P := sqrt_pi). unfold room. evar_last.
  - apply (is_derive_minus (V := R_NormedModule)); [| apply classical_falls; exact S].
    auto_derive; [trivial | reflexivity].
  - unfold minus, plus, opp, slope_of_room. simpl. unfold bell.
    replace (- (s - 7 / 2 / (4 * s)) ^ 2) with (- s ^ 2 + (7 / 4 - 49 / (64 * s ^ 2))) by (field; lra).
    rewrite exp_plus. simpl. field. lra.
Qed.


Lemma room_rises : forall a b, 0 < a <= b -> (forall s, a <= s <= b -> 0 <= slope_of_room s) -> room a <= room b.
Proof.
  intros a b A H. apply (does_not_fall room (fun s => exp (- s ^ 2) * slope_of_room s)); [lra | |].
  - intros s S. apply room_derive. lra.
  - intros s S. apply Rmult_le_pos; [left; apply exp_pos | now apply H].
Qed.

Lemma room_falls : forall a b, 0 < a <= b -> (forall s, a <= s <= b -> slope_of_room s <= 0) -> room b <= room a.
Proof.
  intros a b A H. apply Ropp_le_cancel. apply (does_not_fall (fun s => - room s) (fun s => - (exp (- s ^ 2) * slope_of_room s))); [lra | |].
  - intros s S. apply (is_derive_opp (V := R_NormedModule)). apply room_derive. lra.
  - intros s S. assert (Q := H s S). assert (E := exp_pos (- s ^ 2)). nra.
Qed.

Lemma room_between : forall a b s, 0 < a -> a <= s <= b -> classical a (7 / 2) <= 5 / 4 * exp (- b ^ 2) -> 0 <= room s.
Proof.
  intros a b s A S H. unfold room.
  assert (F : - classical a (7 / 2) <= - classical s (7 / 2)).
  { apply (does_not_fall (fun s => - classical s (7 / 2)) (fun s => - - (bell (s - 7 / 2 / (4 * s)) * (7 / 2 / (4 * s ^ 2))))); [lra | |].
    - intros x X. apply (is_derive_opp (V := R_NormedModule)). apply classical_falls. lra.
    - intros x X. rewrite Ropp_involutive. apply Rmult_le_pos; [left; apply bell_positive |].
      apply Rmult_le_pos; [lra |]. left. apply Rinv_0_lt_compat. nra. }
  assert (E : exp (- b ^ 2) <= exp (- s ^ 2)) by (apply exp_at_most; nra). lra.
Qed.

(* It falls, rises, and falls again. Where it is least, and between, two integrals show that it is not negative; far out Mills' bound. *)
Lemma room_is_left : forall s, 47 / 100 <= s -> 0 <= room s.
Proof.
  intros s L. assert (P := sqrt_pi).
  assert (B : forall x, 525 / 1000 <= x <= 535 / 1000 -> 0 <= room x).
  { intros x X. apply (room_between (525 / 1000) (535 / 1000)); [lra | exact X |]. unfold classical.
    assert (U : erfc (525 / 1000 - 7 / 2 / (4 * (525 / 1000))) <= 1895 / 1000).
    { replace (525 / 1000 - 7 / 2 / (4 * (525 / 1000))) with (- (137 / 120)) by field. rewrite erfc_mirrored.
      destruct (erfc_between (137 / 120) 5) as [V _]; [lra .. |].
      assert (105 / 1000 <= RInt bell (137 / 120) 5) by (unfold bell; integral with (i_prec 40)). lra. }
    assert (W : 19 / 10000 <= erfc (525 / 1000 + 7 / 2 / (4 * (525 / 1000)))).
    { replace (525 / 1000 + 7 / 2 / (4 * (525 / 1000))) with (263 / 120) by field.
      destruct (erfc_between (263 / 120) 5) as [V _]; [lra .. |].
      assert (19 / 10000 <= RInt bell (263 / 120) 5) by (unfold bell; integral with (i_prec 40)). lra. }
    assert (E : 33 <= exp (7 / 2)) by interval with (i_prec 40).
    assert (D : 938 / 1000 <= 5 / 4 * exp (- (535 / 1000) ^ 2)) by interval with (i_prec 40). nra. }
  assert (M : forall x, 1 <= x <= 11 / 10 -> 0 <= room x).
  { intros x X. apply (room_between 1 (11 / 10)); [lra | exact X |]. unfold classical.
    assert (U : erfc (1 - 7 / 2 / (4 * 1)) <= 88 / 100).
    { replace (1 - 7 / 2 / (4 * 1)) with (1 / 8) by field. destruct (erfc_between (1 / 8) 3) as [_ V]; [lra .. |].
      assert (RInt bell (1 / 8) 3 <= 87 / 100) by (unfold bell; integral with (i_prec 40)).
      assert (exp (- 3 ^ 2) / (3 * sqrt PI) <= 1 / 1000) by interval with (i_prec 40). lra. }
    assert (W : 7 / 1000 <= erfc (1 + 7 / 2 / (4 * 1))).
    { replace (1 + 7 / 2 / (4 * 1)) with (15 / 8) by field. destruct (erfc_between (15 / 8) 3) as [V _]; [lra .. |].
      assert (7 / 1000 <= RInt bell (15 / 8) 3) by (unfold bell; integral with (i_prec 40)). lra. }
    assert (E : 33 <= exp (7 / 2)) by interval with (i_prec 40).
    assert (D : 37 / 100 <= 5 / 4 * exp (- (11 / 10) ^ 2)) by interval with (i_prec 40). nra. }
  assert (Far : forall x, 2 <= x -> 0 <= room x).
  { intros x X. unfold room, classical. assert (T := erfc_positive (x + 7 / 2 / (4 * x))). assert (Y := exp_pos (7 / 2)).
    assert (A : 3 / 2 <= x - 7 / 2 / (4 * x)).
    { apply Rmult_le_reg_r with (4 * x); [lra |]. replace ((x - 7 / 2 / (4 * x)) * (4 * x)) with (4 * x ^ 2 - 7 / 2) by (field; lra). nra. }
    assert (V := erfc_mills (x - 7 / 2 / (4 * x)) ltac:(lra)).
    assert (S : 5 / 2 <= 3 / 2 * sqrt PI) by interval with (i_prec 40).
    assert (Z : exp (- (x - 7 / 2 / (4 * x)) ^ 2) <= exp (- x ^ 2) * exp (7 / 4)).
    { rewrite <- exp_plus. apply exp_at_most. replace (- (x - 7 / 2 / (4 * x)) ^ 2) with (- x ^ 2 + 7 / 4 - (7 / 8 / x) ^ 2) by (field; lra).
      assert (Q := pow2_ge_0 (7 / 8 / x)). lra. }
    assert (E : exp (7 / 4) <= 6) by interval with (i_prec 40). assert (K := exp_pos (- x ^ 2)).
    assert (W : erfc (x - 7 / 2 / (4 * x)) <= exp (- x ^ 2) * 6 / (5 / 2)).
    { apply Rle_trans with (1 := V). apply Rle_trans with (exp (- (x - 7 / 2 / (4 * x)) ^ 2) / (5 / 2)).
      - apply Rmult_le_compat_l; [left; apply exp_pos |]. apply Rinv_le_contravar; nra.
      - apply Rmult_le_compat_r; [lra | nra]. }
    nra. }
  destruct (Rle_or_lt s (525 / 1000)) as [X | X].
  { apply Rle_trans with (room (525 / 1000)); [apply B; lra |]. apply room_falls; [lra |]. intros x Y. unfold slope_of_room.
    assert (K : 47 / 100 <= x <= 525 / 1000) by lra. interval with (i_bisect x, i_prec 40). }
  destruct (Rle_or_lt s (535 / 1000)) as [Y | Y]; [apply B; lra |].
  destruct (Rle_or_lt s 1) as [Z | Z].
  { apply Rle_trans with (room (535 / 1000)); [apply B; lra |]. apply room_rises; [lra |]. intros x W. unfold slope_of_room.
    assert (K : 535 / 1000 <= x <= 1) by lra. interval with (i_bisect x, i_prec 40). }
  destruct (Rle_or_lt s (11 / 10)) as [W | W]; [apply M; lra |].
  destruct (Rle_or_lt s 2) as [V | V]; [| apply Far; lra].
  apply Rle_trans with (room 2); [apply Far; lra |]. apply room_falls; [lra |]. intros x U. unfold slope_of_room.
  assert (K : 11 / 10 <= x <= 2) by lra. interval with (i_bisect x, i_prec 40).
Qed.

(* Classical noise is enough up to eps = 7/2. *)
Theorem classical_enough : forall s e, 47 / 100 <= s -> 0 <= e <= 7 / 2 -> classical s e <= 5 / 4 * exp (- s ^ 2).
Proof.
  intros s e S E. assert (R := classical_rises s e (7 / 2) ltac:(lra) E). assert (T := room_is_left s S). unfold room in T. lra.
Qed.

(* The least delta of the classical noise, s^2 being ln (1.25/delta). *)
Lemma classical_curve : forall d s e, 0 < d -> 0 < s -> 0 < e ->
  least_delta e (normal d ((d * (sqrt 2 * s) / e) ^ 2)) (normal 0 ((d * (sqrt 2 * s) / e) ^ 2)) (classical s e).
Proof.
  intros d s e D S E. assert (A := root_two). assert (Q := root_two_square). unfold classical.
  replace (exp e * erfc (s + e / (4 * s)) / 2) with (exp e * (erfc (s + e / (4 * s)) / 2)) by (unfold Rdiv; ring).
  apply exact_curve_at; [exact D | apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; [exact D | nra] | exact E] | |];
    field [Q]; lra.
Qed.

Theorem classical_noise : forall d delta e, 0 < d -> 0 < delta <= 999999 / 1000000 -> 0 < e <= 7 / 2 ->
  let noise2 := (d * sqrt (2 * ln (5 / (4 * delta))) / e) ^ 2 in
  exists needed, least_delta e (normal d noise2) (normal 0 noise2) needed /\ needed <= delta.
Proof.
  intros d delta e D H E noise2.
  assert (Z : 1250001 / 1000000 <= 5 / (4 * delta)).
  { apply Rmult_le_reg_r with (4 * delta); [lra |]. unfold Rdiv at 2. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (N : 223 / 1000 <= ln (5 / (4 * delta))).
  { apply Rle_trans with (ln (1250001 / 1000000)); [interval with (i_prec 40) |].
    destruct Z as [Z | <-]; [left; apply ln_increasing; lra | lra]. }
  set (s := sqrt (ln (5 / (4 * delta)))). assert (B : s ^ 2 = ln (5 / (4 * delta))) by (apply Functions.sqrt_square; lra).
  assert (P : 0 < s) by (apply sqrt_lt_R0; lra).
  exists (classical s e). split.
  - unfold noise2. rewrite sqrt_mult by lra. apply classical_curve; lra.
  - apply Rle_trans with (1 := classical_enough s e ltac:(nra) ltac:(lra)). right.
    rewrite B, exp_Ropp, exp_ln by lra. field. lra.
Qed.

(* An integral over the line has one value. *)
Lemma one_least_delta : forall e p q v w, least_delta e p q v -> least_delta e p q w -> v = w.
Proof. intros e p q v w A B. unfold least_delta, whole_line in *. now rewrite <- (is_RInt_gen_unique _ _ A), <- (is_RInt_gen_unique _ _ B). Qed.

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
