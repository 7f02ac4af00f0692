(* Laws with finitely many outputs: Renyi divergences, their composition and limit, the exponential mechanism; steps of an
   algorithm, what selections spend, and tables. *)
Require Export Borrow.Losses.
Open Scope R_scope.

(* --- two outputs ------------------------------------------------------------------------------------------------------------ *)

Theorem renyi_to_kl : forall p q, 0 < p < 1 -> 0 < q < 1 ->
  is_lim (fun order => renyi 2 order (two p (1 - p)) (two q (1 - q))) 1 (p * ln (p / q) + (1 - p) * ln ((1 - p) / (1 - q))).
Proof.
  intros p q P Q. set (r := ln (p / q)). set (t := ln ((1 - p) / (1 - q))).
  set (f := fun u => ln (p * exp (u * r) + (1 - p) * exp (u * t))).
  assert (D : is_derive f 0 (p * r + (1 - p) * t)).
  { unfold f. auto_derive.
    - rewrite !Rmult_0_l, exp_0. lra.
    - rewrite !Rmult_0_l, exp_0. field. lra. }
  apply is_derive_Reals in D. apply is_lim_spec. intros e. destruct (D e (cond_pos e)) as [d N].
  exists d. intros a B Z. specialize (N (a - 1) ltac:(lra) B). rewrite Rplus_0_l in N.
  assert (F : f 0 = 0). { unfold f. rewrite !Rmult_0_l, exp_0. replace (p * 1 + (1 - p) * 1) with 1 by ring. apply ln_1. }
  rewrite F, Rminus_0_r in N. replace (renyi 2 a (two p (1 - p)) (two q (1 - q))) with (f (a - 1) / (a - 1)); [exact N |].
  rewrite renyi_mean by now apply two_positive. unfold f, sum, two, Rpower, Rdiv. fold r t. change (ln (p * / q)) with r. change (ln ((1 - p) * / (1 - q))) with t.
  rewrite Rplus_0_l. reflexivity.
Qed.

(* --- independent steps ---------------------------------------------------------------------------------------------------- *)

Lemma likelihood_positive : forall P l, (forall i, 0 < P i) -> 0 < likelihood P l.
Proof. intros P l H. induction l as [| i l IH]; simpl; [lra | now apply Rmult_lt_0_compat]. Qed.

Lemma mean_ext : forall n P T f g, (forall l, f l = g l) -> mean_of_steps n P T f = mean_of_steps n P T g.
Proof.
  intros n P T. induction T as [| T IH]; intros f g E; simpl; [apply E |].
  apply sum_ext. intros i _. f_equal. apply IH. intro l. apply E.
Qed.

Lemma mean_scal : forall n P T c f, mean_of_steps n P T (fun l => c * f l) = c * mean_of_steps n P T f.
Proof.
  intros n P T c. induction T as [| T IH]; intro f; simpl; [reflexivity |].
  rewrite <- sum_scal. apply sum_ext. intros i _. rewrite IH. ring.
Qed.

Theorem steps_compose : forall n P Q a T, (forall i, 0 < P i) -> (forall i, 0 < Q i) ->
  mean_of_steps n P T (fun l => Rpower (likelihood P l / likelihood Q l) (a - 1))
  = sum n (fun i => P i * Rpower (P i / Q i) (a - 1)) ^ T.
Proof.
  intros n P Q a T A B. induction T as [| T IH].
  - simpl. unfold Rpower, Rdiv. rewrite Rinv_1, Rmult_1_r, ln_1, Rmult_0_r. apply exp_0.
  - simpl mean_of_steps. change (sum n (fun i => P i * Rpower (P i / Q i) (a - 1)) ^ S T)
      with (sum n (fun i => P i * Rpower (P i / Q i) (a - 1)) * sum n (fun i => P i * Rpower (P i / Q i) (a - 1)) ^ T).
    rewrite <- IH, Rmult_comm, <- sum_scal. apply sum_ext. intros i _.
    rewrite (mean_ext n P T _ (fun l => Rpower (P i / Q i) (a - 1) * Rpower (likelihood P l / likelihood Q l) (a - 1))).
    + rewrite mean_scal. ring.
    + intro l. assert (U := likelihood_positive P l A). assert (V := likelihood_positive Q l B). specialize (A i). specialize (B i).
      rewrite Rpower_mult_distr by (apply Rdiv_lt_0_compat; assumption). f_equal. simpl. field. lra.
Qed.

Theorem steps_of_two : forall p q a k T, 0 < p < 1 -> 0 < q < 1 -> a = INR k + 1 ->
  mean_of_steps 2 (two p (1 - p)) T (fun l => Rpower (likelihood (two p (1 - p)) l / likelihood (two q (1 - q)) l) (a - 1))
  = (p * (p / q) ^ k + (1 - p) * ((1 - p) / (1 - q)) ^ k) ^ T.
Proof.
  intros p q a k T P Q ->. rewrite steps_compose by now apply two_positive. f_equal. unfold sum, two.
  replace (INR k + 1 - 1) with (INR k) by ring. rewrite !Rpower_whole by (apply Rdiv_lt_0_compat; lra). ring.
Qed.

(* --- the exponential mechanism ---------------------------------------------------------------------------------------------- *)

(* All terms of a sum but one. *)
Lemma sum_other : forall n k f, (k < n)%nat -> sum n f = f k + sum n (fun j => if j =? k then 0 else f j).
Proof.
  intros n k f H. transitivity (sum n (fun i => if i =? k then f i else 0) + sum n (fun j => if j =? k then 0 else f j)).
  - rewrite <- sum_plus. apply sum_ext. intros j _. destruct (j =? k); ring.
  - now rewrite (sum_pick n k f H).
Qed.

Lemma sum_other_const : forall n k c, (k < n)%nat -> sum n (fun j => if j =? k then 0 else c) = (n - 1) * c.
Proof. intros n k c H. assert (E := sum_other n k (fun _ => c) H). rewrite sum_const in E. lra. Qed.

(* The odds against a candidate: t on one dataset, at most E t and at most w on the neighbour. *)
Lemma odds_ratio : forall E w t s, 1 <= E -> 0 <= t -> 0 <= s -> s <= E * t -> s <= w ->
  (1 + s) / (1 + t) <= E * (1 + w) / (E + w).
Proof.
  intros E w t s A B C D F. apply Rmult_le_reg_r with ((1 + t) * (E + w)); [apply Rmult_lt_0_compat; lra |].
  replace ((1 + s) / (1 + t) * ((1 + t) * (E + w))) with ((1 + s) * (E + w)) by (field; lra).
  replace (E * (1 + w) / (E + w) * ((1 + t) * (E + w))) with (E * (1 + w) * (1 + t)) by (field; lra).
  assert (X : (1 + w) * (E + s) <= (1 + w) * (E * (1 + t))) by (apply Rmult_le_compat_l; lra).
  assert (Y : 0 <= (E - 1) * (w - s)) by (apply Rmult_le_pos; lra). nra.
Qed.

Section Mechanism.
Variables (G : nat) (eps range : R).
Hypotheses (several : (2 <= G)%nat) (positive : 0 < eps) (wide : 1 <= range).
Let w := (G - 1) * exp (eps * range / 2).

Definition odds (u : nat -> R) i := sum G (fun j => if j =? i then 0 else exp (eps * (u j - u i) / 2)).

Lemma chance_odds : forall u i, (i < G)%nat -> chance G eps u i = / (1 + odds u i).
Proof.
  intros u i H. unfold chance, odds. rewrite (sum_other G i) by exact H.
  assert (N : 0 <= sum G (fun j => if j =? i then 0 else exp (eps * u j / 2))).
  { apply sum_nonneg. intros j _. destruct (j =? i); [lra | left; apply exp_pos]. }
  assert (P := exp_pos (eps * u i / 2)).
  replace (sum G (fun j => if j =? i then 0 else exp (eps * (u j - u i) / 2)))
    with (/ exp (eps * u i / 2) * sum G (fun j => if j =? i then 0 else exp (eps * u j / 2))).
  - field. split; [| lra]. apply Rgt_not_eq. lra.
  - rewrite <- sum_scal. apply sum_ext. intros j _. destruct (j =? i); [ring |].
    rewrite <- exp_Ropp, <- exp_plus. f_equal. field.
Qed.

Lemma odds_nonneg : forall u i, 0 <= odds u i.
Proof. intros u i. apply sum_nonneg. intros j _. destruct (j =? i); [lra | left; apply exp_pos]. Qed.

Theorem at_most_range : forall u v i, neighbours G range u v -> (i < G)%nat ->
  ln (chance G eps u i / chance G eps v i) <= ln ((1 + w) * exp eps / (exp eps + w)).
Proof.
  intros u v i N I. rewrite !chance_odds by exact I. assert (A := odds_nonneg u i). assert (B := odds_nonneg v i).
  assert (W : 0 <= w). { unfold w. apply Rmult_le_pos; [apply le_INR in several; simpl in several; lra | left; apply exp_pos]. }
  assert (E1 : 1 <= exp eps) by (rewrite <- exp_0; apply exp_at_most; lra).
  assert (X : 0 < / (1 + odds u i) / / (1 + odds v i)).
  { apply Rdiv_lt_0_compat; apply Rinv_0_lt_compat; lra. }
  assert (Y : / (1 + odds u i) / / (1 + odds v i) <= (1 + w) * exp eps / (exp eps + w)).
  { replace (/ (1 + odds u i) / / (1 + odds v i)) with ((1 + odds v i) / (1 + odds u i)) by (field; lra).
    replace ((1 + w) * exp eps / (exp eps + w)) with (exp eps * (1 + w) / (exp eps + w)) by (field; lra).
    apply odds_ratio; try assumption.
    - unfold odds. rewrite <- sum_scal. apply sum_le. intros j J. destruct (j =? i); [lra |].
      rewrite <- exp_plus. apply exp_at_most. destruct (N i I) as [_ [_ C]]. destruct (N j J) as [_ [_ D]].
      apply Rabs_le_between in C. apply Rabs_le_between in D. nra.
    - unfold odds, w. rewrite <- (sum_other_const G i) by exact I. apply sum_le. intros j J. destruct (j =? i); [lra |].
      apply exp_at_most. destruct (N i I) as [_ [C _]]. destruct (N j J) as [_ [D _]]. nra. }
  destruct Y as [Y | Y]; [left; now apply ln_increasing | rewrite Y; lra].
Qed.

Theorem range_is_met : exists u v i, neighbours G range u v /\ (i < G)%nat /\
  ln (chance G eps u i / chance G eps v i) = ln ((1 + w) * exp eps / (exp eps + w)).
Proof.
  exists (fun j => if j =? 0 then 1 else range - 1), (fun j => if j =? 0 then 0 else range), 0%nat.
  split; [| split; [lia |]].
  - intros j _. destruct (j =? 0); repeat split; try lra; apply Rabs_le; lra.
  - f_equal. rewrite !chance_odds by lia.
    assert (U : odds (fun j => if j =? 0 then 1 else range - 1) 0 = (G - 1) * exp (eps * (range - 2) / 2)).
    { unfold odds. rewrite <- (sum_other_const G 0) by lia. apply sum_ext. intros j _. simpl.
      destruct (j =? 0)%nat; [reflexivity |]. f_equal. field. }
    assert (V : odds (fun j => if j =? 0 then 0 else range) 0 = w).
    { unfold odds, w. rewrite <- (sum_other_const G 0) by lia. apply sum_ext. intros j _. simpl.
      destruct (j =? 0)%nat; [reflexivity |]. f_equal. field. }
    rewrite U, V. assert (W : 0 <= w).
    { unfold w. apply Rmult_le_pos; [apply le_INR in several; simpl in several; lra | left; apply exp_pos]. }
    replace ((G - 1) * exp (eps * (range - 2) / 2)) with (w * / exp eps).
    + assert (P := exp_pos eps). field. repeat split; lra.
    + unfold w. rewrite <- exp_Ropp, Rmult_assoc, <- exp_plus. f_equal. f_equal. field.
Qed.
End Mechanism.

(* --- what selections spend -------------------------------------------------------------------------------------------------- *)

Lemma budget_of : forall rho L eps, 0 <= rho -> 0 < L -> 0 < eps -> rho + 2 * sqrt (rho * L) = eps -> rho = (sqrt (eps + L) - sqrt L) ^ 2.
Proof.
  intros rho L eps A B C E. rewrite sqrt_mult in E by lra.
  assert (S := sqrt_sqrt rho A). assert (T := sqrt_sqrt L ltac:(lra)). assert (U := sqrt_pos rho). assert (V := sqrt_pos L).
  replace (eps + L) with ((sqrt rho + sqrt L) * (sqrt rho + sqrt L)) by nra. rewrite sqrt_square by lra.
  replace (sqrt rho + sqrt L - sqrt L) with (sqrt rho) by ring. simpl. lra.
Qed.

Lemma budget_exists : forall L eps, 0 < L -> 0 < eps ->
  0 < (sqrt (eps + L) - sqrt L) ^ 2 /\
  (sqrt (eps + L) - sqrt L) ^ 2 + 2 * sqrt ((sqrt (eps + L) - sqrt L) ^ 2 * L) = eps.
Proof.
  intros L eps A B. assert (S := sqrt_sqrt (eps + L) ltac:(lra)). assert (T := sqrt_sqrt L ltac:(lra)). assert (V := sqrt_pos L).
  assert (U := sqrt_lt_1 L (eps + L) ltac:(lra) ltac:(lra) ltac:(lra)). split; [apply pow_lt; lra |].
  rewrite sqrt_mult by (try apply pow2_ge_0; lra). rewrite sqrt_pow2 by lra. nra.
Qed.

(* --- steps of an algorithm -------------------------------------------------------------------------------------------------- *)

Lemma average_step : forall K rate lam x w, (1 <= K)%nat ->
  silo_mean K (step K rate lam x w) - silo_mean K x = (1 - rate) * (silo_mean K w - silo_mean K x).
Proof.
  intros K rate lam x w H. unfold silo_mean at 1. unfold step.
  rewrite (sum_ext K _ (fun k => (1 - rate - rate * lam) * w k + (rate * x k + rate * lam * silo_mean K w))) by (intros; ring).
  rewrite sum_plus, sum_scal, sum_plus, sum_scal, sum_const. apply le_INR in H. simpl in H. unfold silo_mean. field. lra.
Qed.

Lemma difference_step : forall K rate lam x w j k, 0 <= lam ->
  step K rate lam x w j - step K rate lam x w k - (x j - x k) / (1 + lam)
  = (1 - rate * (1 + lam)) * (w j - w k - (x j - x k) / (1 + lam)).
Proof. intros. unfold step. field. lra. Qed.
