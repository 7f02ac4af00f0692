(* The truncated negative binomial law: that it exists, once only, its mean, and the chance of a single run. What a Poisson
   number of runs costs. *)
Require Export Borrow.Objects.
Open Scope R_scope.

Section Law.
Variable eta : R.
Hypothesis above_minus_1 : -1 < eta.

(* Masses without (1 - gamma)^h, the first being 1. *)
Fixpoint share (k : nat) : R := match k with O => 1 | S j => share j * (S j + eta) / (S j + 1) end.
Definition shares (k : nat) : R := match k with O => 0 | S j => share j end.
Definition G (x : R) : R := PSeries shares x.

Lemma share_positive : forall k, 0 < share k.
Proof.
  induction k as [| k IH]; [simpl; lra |]. change (0 < share k * (S k + eta) / (S k + 1)).
  assert (P := pos_INR k). rewrite S_INR. apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra | lra].
Qed.

Lemma share_next : forall k, share (S k) / share k = 1 + (eta - 1) * / (INR k + 2).
Proof.
  intro k. assert (P := pos_INR k). assert (Q := share_positive k).
  change (share k * (S k + eta) / (S k + 1) / share k = 1 + (eta - 1) * / (k + 2)). rewrite S_INR. field. lra.
Qed.

Lemma radius : CV_radius shares = 1.
Proof.
  rewrite <- (CV_radius_decr_1 shares).
  replace (Finite 1) with (Finite (/ 1)) by (f_equal; field).
  apply CV_radius_finite_DAlembert; [| lra |].
  - intro n. change (share n <> 0). assert (P := share_positive n). lra.
  - apply (is_lim_seq_ext (fun n => 1 + (eta - 1) * / (INR n + 2))).
    + intro n. change (PS_decr_1 shares (S n)) with (share (S n)). change (PS_decr_1 shares n) with (share n).
      rewrite <- share_next. rewrite Rabs_pos_eq; [reflexivity |].
      left. apply Rdiv_lt_0_compat; apply share_positive.
    + replace (Finite 1) with (Finite (1 + (eta - 1) * 0)) by (f_equal; ring).
      apply is_lim_seq_plus'; [apply is_lim_seq_const |].
      change (Finite ((eta - 1) * 0)) with (Rbar_mult (eta - 1) 0). apply is_lim_seq_scal_l.
      replace (Finite 0) with (Rbar_inv p_infty) by reflexivity. apply is_lim_seq_inv; [| discriminate].
      replace p_infty with (Rbar_plus p_infty 2) by reflexivity.
      apply (is_lim_seq_plus _ _ p_infty 2); [apply is_lim_seq_INR | apply is_lim_seq_const | reflexivity].
Qed.

Lemma inside : forall x, Rabs x < 1 -> Rbar_lt (Rabs x) (CV_radius shares).
Proof. intros x H. rewrite radius. exact H. Qed.

Definition slope (x : R) : R := PSeries (PS_derive shares) x.

Lemma G_slope : forall x, Rabs x < 1 -> is_derive G x (slope x).
Proof. intros x H. apply is_derive_PSeries. now apply inside. Qed.

(* (1 - x) G' = 1 + eta G *)
Lemma equation : forall x, Rabs x < 1 -> (1 - x) * slope x = 1 + eta * G x.
Proof.
  intros x H. assert (C := inside x H).
  assert (D : ex_pseries (PS_derive shares) x) by (apply CV_radius_inside; now rewrite CV_radius_derive).
  assert (E : ex_pseries shares x) by (apply CV_radius_inside; exact C).
  assert (F : ex_pseries (PS_decr_1 shares) x) by (apply CV_radius_inside; now rewrite CV_radius_decr_1).
  assert (X : PSeries (PS_decr_1 (PS_derive shares)) x = eta * PSeries (PS_decr_1 shares) x + slope x).
  { unfold slope. rewrite <- PSeries_scal, <- PSeries_plus; [| now apply ex_pseries_scal; [apply Rmult_comm |] | exact D].
    apply PSeries_ext. intro n. unfold PS_decr_1, PS_derive, PS_plus, PS_scal, plus, scal; simpl shares. assert (P := pos_INR n).
    change (S (S n) * (share n * (S n + eta) / (S n + 1)) = eta * share n + S n * share n).
    rewrite (S_INR (S n)). rewrite !S_INR. field. lra. }
  assert (Y : slope x = 1 + x * PSeries (PS_decr_1 (PS_derive shares)) x).
  { unfold slope at 1. rewrite (PSeries_decr_1 _ _ D). unfold PS_derive at 1. simpl. ring. }
  assert (Z : G x = x * PSeries (PS_decr_1 shares) x).
  { unfold G at 1. rewrite (PSeries_decr_1 _ _ E). simpl. ring. }
  rewrite Z. rewrite X in Y. lra.
Qed.

Lemma G_0 : G 0 = 0.
Proof. unfold G. now rewrite PSeries_0. Qed.

Lemma power : forall x, 0 <= x < 1 -> 1 + eta * G x = Rpower (1 - x) (- eta).
Proof.
  intros x [A B]. destruct (Req_dec x 0) as [-> | N].
  { rewrite G_0. unfold Rpower. rewrite Rminus_0_r, ln_1, !Rmult_0_r, exp_0. ring. }
  assert (K : (1 + eta * G 0) * Rpower (1 - 0) eta = (1 + eta * G x) * Rpower (1 - x) eta).
  { apply (eq_is_derive (fun t => (1 + eta * G t) * Rpower (1 - t) eta)); [| lra].
    intros t T. assert (H : Rabs t < 1) by (rewrite Rabs_pos_eq; lra).
    assert (S := G_slope t H). assert (Q := equation t H).
    unfold Rpower.
    assert (V : is_derive (fun t => (1 + eta * G t) * exp (eta * ln (1 - t))) t
      (eta * slope t * exp (eta * ln (1 - t)) + (1 + eta * G t) * (eta * (- 1 / (1 - t)) * exp (eta * ln (1 - t))))).
    { auto_derive; [split; [exists (slope t); exact S | split; [lra | trivial]] |].
      replace (Derive (fun x => G x) t) with (slope t) by (symmetry; apply is_derive_unique; exact S). replace (1 + - t) with (1 - t) by ring. field. lra. }
    evar_last; [exact V |].
    change (eta * slope t * exp (eta * ln (1 - t)) + (1 + eta * G t) * (eta * (- 1 / (1 - t)) * exp (eta * ln (1 - t))) = 0).
    rewrite <- Q. field. lra. }
  rewrite G_0 in K. unfold Rpower in *. rewrite Rminus_0_r, ln_1, !Rmult_0_r, exp_0 in K.
  replace (- eta * ln (1 - x)) with (- (eta * ln (1 - x))) by ring. rewrite exp_Ropp.
  assert (P := exp_pos (eta * ln (1 - x))). field_simplify_eq; lra.
Qed.

Lemma slope_power : forall x, 0 <= x < 1 -> slope x = Rpower (1 - x) (- (1 + eta)).
Proof.
  intros x H. assert (E := equation x ltac:(rewrite Rabs_pos_eq; lra)). rewrite (power x H) in E.
  replace (- (1 + eta)) with (- eta + - (1)) by ring. rewrite Rpower_plus, Rpower_Ropp with (y := 1), Rpower_1 by lra.
  rewrite <- E. field. lra.
Qed.

Lemma logarithm : eta = 0 -> forall x, 0 <= x < 1 -> G x = - ln (1 - x).
Proof.
  intros Z x [A B]. destruct (Req_dec x 0) as [-> | N].
  { rewrite G_0, Rminus_0_r, ln_1. ring. }
  assert (K : G 0 + ln (1 - 0) = G x + ln (1 - x)).
  { apply (eq_is_derive (fun t => G t + ln (1 - t))); [| lra].
    intros t T. assert (H : Rabs t < 1) by (rewrite Rabs_pos_eq; lra).
    assert (S := G_slope t H). assert (Q := equation t H). rewrite Z in Q.
    assert (V : is_derive (fun t => G t + ln (1 - t)) t (slope t + - 1 / (1 - t))).
    { auto_derive; [split; [exists (slope t); exact S | split; [lra | trivial]] |].
      replace (Derive (fun x => G x) t) with (slope t) by (symmetry; apply is_derive_unique; exact S). field. lra. }
    evar_last; [exact V |]. change (slope t + - 1 / (1 - t) = 0).
    replace (slope t) with ((1 - t) * slope t / (1 - t)) by (field; lra). rewrite Q. field. lra. }
  rewrite G_0, Rminus_0_r, ln_1 in K. lra.
Qed.

Lemma G_series : forall x, 0 <= x < 1 -> is_series (fun k => share k * x ^ S k) (G x).
Proof.
  intros x H. assert (E : ex_pseries shares x) by (apply CV_radius_inside; apply inside; rewrite Rabs_pos_eq; lra).
  apply PSeries_correct in E. apply (is_series_ext (fun k => scal (x ^ S k) (shares (S k)))).
  - intro k. unfold scal; simpl; unfold mult; simpl. ring.
  - apply (is_series_incr_1 (fun k => scal (x ^ k) (shares k))). unfold plus, scal; simpl; unfold mult; simpl.
    replace (G x + 1 * 0) with (G x) by ring. exact E.
Qed.

Lemma slope_series : forall x, 0 <= x < 1 -> is_series (fun k => S k * (share k * x ^ S k)) (x * slope x).
Proof.
  intros x H. assert (E : ex_pseries (PS_derive shares) x).
  { apply CV_radius_inside. rewrite CV_radius_derive. apply inside. rewrite Rabs_pos_eq; lra. }
  apply PSeries_correct in E.
  apply (is_series_ext (fun k => scal x (scal (x ^ k) (PS_derive shares k)))).
  - intro k. unfold scal, PS_derive; simpl shares; simpl; unfold mult; simpl. ring.
  - apply (is_series_scal_l x (fun k => scal (x ^ k) (PS_derive shares k)) (slope x)). exact E.
Qed.

Lemma G_positive : forall x, 0 < x < 1 -> 0 < G x.
Proof.
  intros x H. destruct (Req_dec eta 0) as [Z | Z].
  - rewrite logarithm by (auto || lra). assert (L := ln_increasing (1 - x) 1 ltac:(lra) ltac:(lra)). rewrite ln_1 in L. lra.
  - assert (P := power x ltac:(lra)). unfold Rpower in P.
    assert (L := ln_increasing (1 - x) 1 ltac:(lra) ltac:(lra)). rewrite ln_1 in L.
    destruct (Rlt_or_le 0 eta) as [Q | Q].
    + assert (V := exp_increasing 0 (- eta * ln (1 - x)) ltac:(nra)). rewrite exp_0 in V. nra.
    + assert (V := exp_increasing (- eta * ln (1 - x)) 0 ltac:(nra)). rewrite exp_0 in V. nra.
Qed.

Variable gamma : R.
Hypothesis between_0_1 : 0 < gamma < 1.
Notation x := (1 - gamma).

Lemma masses : forall f, (forall h, (1 <= h)%nat -> f (S h) * S h = f h * (x * (h + eta))) ->
  forall k, f (S k) = f 1%nat / x * (share k * x ^ S k).
Proof.
  intros f H. induction k as [| k IH]; [simpl; field; lra |].
  specialize (H (S k) ltac:(lia)). assert (P := pos_INR k).
  change (share (S k)) with (share k * (S k + eta) / (S k + 1)). rewrite IH in H. clear IH.
  rewrite !S_INR in *. simpl pow in *.
  apply Rmult_eq_reg_r with (INR k + 1 + 1); [| lra]. rewrite H. field. lra.
Qed.

Theorem first : forall f, truncated_negative_binomial eta gamma f -> f 1%nat = x / G x.
Proof.
  intros f [H S]. assert (P := G_positive x ltac:(lra)). assert (Q := G_series x ltac:(lra)).
  apply (is_series_scal_l (f 1%nat / x)) in Q.
  apply (is_series_ext _ (fun k => f (Datatypes.S k))) in Q; [| intro k; symmetry; now apply masses].
  apply is_series_unique in Q. apply is_series_unique in S. rewrite S in Q. unfold scal in Q; simpl in Q; unfold mult in Q; simpl in Q.
  apply Rmult_eq_reg_r with (G x / x); [| apply Rgt_not_eq, Rdiv_lt_0_compat; lra].
  replace (f 1%nat * (G x / x)) with (f 1%nat / x * G x) by (field; lra). rewrite <- Q. field. lra.
Qed.

Theorem every_mass : forall f, truncated_negative_binomial eta gamma f -> forall k, f (S k) = share k * x ^ S k / G x.
Proof.
  intros f T k. assert (P := G_positive x ltac:(lra)). rewrite (masses f (proj1 T)), (first f T). field. lra.
Qed.

Theorem is_law : forall f, (forall k, f (S k) = share k * x ^ S k / G x) -> truncated_negative_binomial eta gamma f.
Proof.
  intros f E. assert (P := G_positive x ltac:(lra)). split.
  - intros [| h] H; [lia |]. rewrite !E. change (share (S h)) with (share h * (S h + eta) / (S h + 1)).
    assert (Q := pos_INR h). rewrite !S_INR. simpl pow. field. lra.
  - assert (Q := G_series x ltac:(lra)). apply (is_series_scal_l (/ G x)) in Q.
    unfold scal in Q; simpl in Q; unfold mult in Q; simpl in Q. rewrite Rinv_l in Q by lra.
    revert Q. apply is_series_ext. intro k. rewrite E. simpl. field. lra.
Qed.

Theorem mean : forall f, truncated_negative_binomial eta gamma f -> mean_runs f (x * slope x / G x).
Proof.
  intros f T. assert (P := G_positive x ltac:(lra)). assert (Q := slope_series x ltac:(lra)).
  apply (is_series_scal_l (/ G x)) in Q. unfold scal in Q; simpl in Q; unfold mult in Q; simpl in Q.
  unfold mean_runs. replace (x * slope x / G x) with (/ G x * (x * slope x)) by (field; lra).
  revert Q. apply is_series_ext. intro k. rewrite (every_mass f T). simpl. field. lra.
Qed.

Lemma unlike_one : eta <> 0 -> Rpower gamma eta <> 1.
Proof.
  intros Z E. unfold Rpower in E. rewrite <- exp_0 in E. apply exp_inv in E.
  assert (L := ln_increasing gamma 1 ltac:(lra) ltac:(lra)). rewrite ln_1 in L. apply Rmult_integral in E. lra.
Qed.

Lemma G_closed : eta <> 0 -> G x = (Rpower gamma (- eta) - 1) / eta.
Proof.
  intro Z. assert (P := power x ltac:(lra)). replace (1 - x) with gamma in P by ring. rewrite <- P. field. exact Z.
Qed.

Theorem mean_closed : forall f m, eta <> 0 -> truncated_negative_binomial eta gamma f -> mean_runs f m ->
  m = eta * (1 - gamma) / (gamma * (1 - Rpower gamma eta)).
Proof.
  intros f m Z T M. assert (N := mean f T). apply is_series_unique in M. apply is_series_unique in N. rewrite M in N. rewrite N.
  assert (U := unlike_one Z). rewrite (G_closed Z), (slope_power x) by lra. replace (1 - x) with gamma by ring.
  replace (- (1 + eta)) with (- eta + - (1)) by ring. rewrite Rpower_plus, (Rpower_Ropp gamma 1), Rpower_1, !Rpower_Ropp by lra.
  assert (V : 0 < Rpower gamma eta) by apply exp_pos. field. repeat split; lra.
Qed.

Theorem mean_closed_0 : forall f m, eta = 0 -> truncated_negative_binomial eta gamma f -> mean_runs f m ->
  m = (-1 + 1 / gamma) / ln (1 / gamma).
Proof.
  intros f m Z T M. assert (N := mean f T). apply is_series_unique in M. apply is_series_unique in N. rewrite M in N. rewrite N.
  rewrite (logarithm Z), (slope_power x) by lra. replace (1 - x) with gamma by ring. rewrite Z.
  replace (- (1 + 0)) with (- (1)) by ring. rewrite Rpower_Ropp, Rpower_1 by lra.
  unfold Rdiv. rewrite (Rmult_1_l (/ gamma)), ln_Rinv by lra.
  assert (L := ln_increasing gamma 1 ltac:(lra) ltac:(lra)). rewrite ln_1 in L. field. lra.
Qed.

Theorem single : forall f m, truncated_negative_binomial eta gamma f -> mean_runs f m -> f 1%nat / m = Rpower gamma (1 + eta).
Proof.
  intros f m T M. assert (N := mean f T). apply is_series_unique in M. apply is_series_unique in N. rewrite M in N. rewrite N.
  rewrite (first f T), (slope_power x) by lra. replace (1 - x) with gamma by ring. rewrite Rpower_Ropp.
  assert (P := G_positive x ltac:(lra)). assert (V : 0 < Rpower gamma (1 + eta)) by apply exp_pos. field. repeat split; lra.
Qed.

Lemma share_rising : forall k, eta * share k = RisingFactorial_of eta (S k) / factorial_of (S k).
Proof.
  unfold factorial_of. induction k as [| k IH]; [simpl; field |].
  change (share (S k)) with (share k * (S k + eta) / (S k + 1)).
  change (RisingFactorial_of eta (S (S k))) with (RisingFactorial_of eta (S k) * (eta + S k)).
  rewrite (fact_simpl (S k)), mult_INR. assert (F := INR_fact_lt_0 (S k)). assert (P := pos_INR k).
  replace (eta * (share k * (S k + eta) / (S k + 1))) with (eta * share k * (S k + eta) / (S k + 1)) by (rewrite S_INR; field; lra).
  rewrite IH. rewrite !S_INR in *. field. lra.
Qed.

Lemma share_harmonic : eta = 0 -> forall k, share k = / S k.
Proof.
  intro Z. induction k as [| k IH]; [simpl; field |].
  change (share (S k)) with (share k * (S k + eta) / (S k + 1)). rewrite IH, Z. assert (P := pos_INR k).
  rewrite !S_INR. field. lra.
Qed.

Theorem mass_closed : eta <> 0 -> forall h, (1 <= h)%nat ->
  Rpower (1 - gamma) h * RisingFactorial_of eta h / ((-1 + Rpower gamma (- eta)) * factorial_of h)
  = share (Nat.pred h) * x ^ h / G x.
Proof.
  intros Z [| k] H; [lia |]. simpl Nat.pred. rewrite Rpower_pow by lra. rewrite (G_closed Z).
  assert (R := share_rising k). assert (U := unlike_one Z). assert (V : 0 < Rpower gamma eta) by apply exp_pos.
  assert (F : 0 < factorial_of (S k)) by apply INR_fact_lt_0.
  replace (RisingFactorial_of eta (S k)) with (eta * share k * factorial_of (S k)) by (rewrite R; field; lra).
  rewrite !Rpower_Ropp. field. repeat split; try lra.
Qed.

Theorem mass_closed_0 : eta = 0 -> forall h, (1 <= h)%nat ->
  Rpower (1 - gamma) h / (h * ln (1 / gamma)) = share (Nat.pred h) * x ^ h / G x.
Proof.
  intros Z [| k] H; [lia |]. simpl Nat.pred. rewrite Rpower_pow by lra. rewrite (logarithm Z), (share_harmonic Z) by lra.
  replace (1 - x) with gamma by ring. unfold Rdiv. rewrite (Rmult_1_l (/ gamma)), ln_Rinv by lra.
  assert (L := ln_increasing gamma 1 ltac:(lra) ltac:(lra)). rewrite ln_1 in L.
  assert (P := pos_INR k). rewrite S_INR. field. repeat split; lra.
Qed.
End Law.

(* --- a Poisson number of runs ------------------------------------------------------------------------------------------ *)

(* The mean of h x^(h - 1) over a Poisson number h with mean m: a series, h being one more than its index. *)
Lemma poisson_slope : forall m x,
  is_series (fun k => INR (S k) * (exp (- m) * m ^ S k / fact (S k)) * x ^ k) (m * exp (m * (x - 1))).
Proof.
  intros m x. assert (H := is_exp_Reals (m * x)). unfold is_pseries in H.
  assert (K := is_series_scal_l (V := R_NormedModule) (m * exp (- m)) _ _ H).
  replace (m * exp (m * (x - 1))) with (scal (m * exp (- m)) (exp (m * x))).
  2: { unfold scal. simpl. unfold mult. simpl. rewrite Rmult_assoc, <- exp_plus. f_equal. f_equal. ring. }
  apply is_series_ext with (2 := K). intro k. unfold scal. simpl. unfold mult. simpl. rewrite pow_n_pow, Rpow_mult_distr.
  assert (F := INR_fact_lt_0 k). assert (P := pos_INR k).
  change (fact k + k * fact k)%nat with (S k * fact k)%nat. rewrite mult_INR, S_INR.
  match goal with |- context [match k with O => 1 | S _ => INR k + 1 end] => replace (match k with O => 1 | S _ => INR k + 1 end) with (INR k + 1) by (destruct k; simpl; ring) end.
  field. lra.
Qed.

(* p and p': chances that one run's answer is better than the event's, on the two data sets. *)
Theorem poisson_cost : forall m a e d b, 0 < m -> 1 < a -> 0 <= d <= 1 -> b = e + m * d + ln m / (a - 1) ->
  let slope p := is_series (fun k => S k * (exp (- m) * m ^ S k / fact (S k)) * (1 - p) ^ k) in
  let cost v v' := e + ln (Rpower v a * Rpower v' (1 - a)) / (a - 1) in
  (forall p p' v v', 0 <= p <= 1 -> 0 <= p' <= 1 -> p' <= a / (a - 1) * p + d -> slope p v -> slope p' v' -> cost v v' <= b) /\
  exists p p' v v', 0 <= p <= 1 /\ 0 <= p' <= 1 /\ p' <= a / (a - 1) * p + d /\ slope p v /\ slope p' v' /\ cost v v' = b.
Proof.
  intros m a e d b M A D -> slope cost.
  assert (value : forall p, slope p (m * exp (m * (1 - p - 1)))) by (intro p; apply poisson_slope).
  assert (costs : forall p p', cost (m * exp (m * (1 - p - 1))) (m * exp (m * (1 - p' - 1)))
    = e + (ln m + m * ((a - 1) * p' - a * p)) / (a - 1)).
  { intros p p'. unfold cost. f_equal. f_equal. unfold Rpower. rewrite <- exp_plus, ln_exp.
    rewrite !ln_mult by (try exact M; apply exp_pos). rewrite !ln_exp. ring. }
  split.
  - intros p p' v v' P P' L V V'.
    replace v with (m * exp (m * (1 - p - 1))) by (rewrite <- (is_series_unique _ _ V), <- (is_series_unique _ _ (value p)); reflexivity).
    replace v' with (m * exp (m * (1 - p' - 1))) by (rewrite <- (is_series_unique _ _ V'), <- (is_series_unique _ _ (value p')); reflexivity).
    rewrite costs. apply Rle_trans with (e + (ln m + m * ((a - 1) * d)) / (a - 1)); [| right; field; lra].
    apply Rplus_le_compat_l. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra |]. apply Rplus_le_compat_l.
    apply Rmult_le_compat_l; [lra |]. apply Rmult_le_compat_r with (r := a - 1) in L; [| lra].
    replace ((a / (a - 1) * p + d) * (a - 1)) with (a * p + (a - 1) * d) in L by (field; lra). lra.
  - exists 0, d, (m * exp (m * (1 - 0 - 1))), (m * exp (m * (1 - d - 1))).
    split; [lra |]. split; [lra |]. split; [lra |]. split; [apply value |]. split; [apply value |]. rewrite costs. field. lra.
Qed.
