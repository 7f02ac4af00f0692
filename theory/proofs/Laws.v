(* Lemmas about the densities of Objects.v, for the proofs of claims about them: their ends, masses and means, mixtures,
   Euler's integral. *)
Require Export Borrow.Losses.
Open Scope R_scope.

(* --- densities at the ends ----------------------------------------------------------------------------------------- *)

Lemma normal_symmetric : forall m v x, normal m v (2 * m - x) = normal m v x.
Proof. intros. unfold normal. do 3 f_equal. ring. Qed.

Lemma normal_small : forall m v, 0 < v -> forall eps, 0 < eps -> exists M, forall x, M < x -> 0 < normal m v x < eps.
Proof.
  intros m v V eps H. assert (W : 0 < 2 * PI * v) by (assert (P := PI_RGT_0); nra). assert (S := sqrt_lt_R0 _ W).
  exists (m + 1 + 2 * v / (sqrt (2 * PI * v) * eps)). intros x X.
  assert (Q : 0 < 2 * v / (sqrt (2 * PI * v) * eps)) by (apply Rdiv_lt_0_compat; [lra | apply Rmult_lt_0_compat; assumption]).
  split; [apply Rdiv_lt_0_compat; [apply exp_pos | exact S] |].
  unfold normal. set (y := (x - m) ^ 2 / (2 * v)). assert (Y : 2 * v * y = (x - m) ^ 2) by (unfold y; field; lra).
  replace (- (x - m) ^ 2 / (2 * v)) with (- y) by (unfold y; field; lra).
  assert (L : x - m < 2 * v * y) by (rewrite Y; nra). assert (Z : 0 < y) by nra.
  assert (T := exp_ineq1_le y). rewrite exp_Ropp. apply Rmult_lt_reg_r with (sqrt (2 * PI * v)); [exact S |].
  replace (/ exp y / sqrt (2 * PI * v) * sqrt (2 * PI * v)) with (/ exp y) by (field; split; [lra | assert (G := exp_pos y); lra]).
  apply Rmult_lt_reg_r with (exp y); [apply exp_pos |]. rewrite Rinv_l by (assert (G := exp_pos y); lra).
  assert (K : 2 * v < sqrt (2 * PI * v) * eps * (2 * v * y)).
  { apply Rle_lt_trans with (sqrt (2 * PI * v) * eps * (2 * v / (sqrt (2 * PI * v) * eps))); [right; field; lra |].
    apply Rmult_lt_compat_l; [apply Rmult_lt_0_compat; assumption | lra]. }
  assert (J : 1 < sqrt (2 * PI * v) * eps * y) by nra. assert (0 < sqrt (2 * PI * v) * eps) by (apply Rmult_lt_0_compat; assumption). nra.
Qed.

Lemma normal_vanishes : forall m v, 0 < v -> is_lim (normal m v) p_infty 0 /\ is_lim (normal m v) m_infty 0.
Proof.
  intros m v V. split; apply is_lim_spec; intros eps; destruct (normal_small m v V eps (cond_pos eps)) as [M H].
  - exists M. intros x X. rewrite Rminus_0_r, Rabs_pos_eq; destruct (H x X); lra.
  - exists (2 * m - M). intros x X. rewrite Rminus_0_r, <- (normal_symmetric m v x).
    rewrite Rabs_pos_eq; destruct (H (2 * m - x)); lra.
Qed.

Lemma Rpower_small : forall a eps p, 0 < a -> 0 < eps -> 0 < p -> p < Rpower eps (1 / a) -> Rpower p a < eps.
Proof.
  intros a eps p A E P H. apply Rlt_le_trans with (Rpower (Rpower eps (1 / a)) a).
  - unfold Rpower at 1 2. apply exp_increasing, Rmult_lt_compat_l; [exact A |]. apply ln_increasing; assumption.
  - rewrite Rpower_mult. replace (1 / a * a) with 1 by (field; lra). rewrite Rpower_1 by exact E. lra.
Qed.

Lemma Rpower_at_most_1 : forall a p, 0 < a -> 0 < p <= 1 -> Rpower p a <= 1.
Proof.
  intros a p A [P Q]. rewrite <- (exp_0). unfold Rpower. destruct Q as [Q | ->]; [| rewrite ln_1, Rmult_0_r; lra].
  left. apply exp_increasing. assert (L := ln_increasing p 1 P Q). rewrite ln_1 in L. nra.
Qed.

Lemma shape_small : forall a b, 0 < a -> 0 < b -> forall eps : posreal, exists d : posreal, forall p, 0 < p < 1 -> p < d ->
  Rabs (beta_shape a b p - 0) < eps /\ Rabs (beta_shape b a (1 - p) - 0) < eps.
Proof.
  intros a b A B eps. exists (mkposreal (Rpower eps (1 / a)) (exp_pos _)). simpl. intros p P H.
  assert (S := Rpower_small a eps p A (cond_pos eps) (proj1 P) H). assert (T := Rpower_at_most_1 b (1 - p) B ltac:(lra)).
  assert (U : 0 < Rpower p a) by apply exp_pos. assert (V : 0 < Rpower (1 - p) b) by apply exp_pos.
  assert (W : Rabs (Rpower p a * Rpower (1 - p) b) < eps) by (rewrite Rabs_pos_eq; nra).
  unfold beta_shape. replace (1 - (1 - p)) with p by ring. rewrite !Rminus_0_r, (Rmult_comm (Rpower (1 - p) b)). split; exact W.
Qed.

Lemma one_less_one_less : forall p, 1 - (1 - p) = p.
Proof. intros. ring. Qed.

Lemma shape_vanishes : forall a b, 0 < a -> 0 < b ->
  filterlim (beta_shape a b) (at_right 0) (locally 0) /\ filterlim (beta_shape a b) (at_left 1) (locally 0).
Proof.
  intros a b A B. split; apply filterlim_locally; intros eps.
  - destruct (shape_small a b A B eps) as [d H]. exists (mkposreal (Rmin d 1) (Rmin_stable_in_posreal d (mkposreal 1 Rlt_0_1))).
    intros p Q P. assert (X : Rabs (p - 0) < Rmin d 1) by exact Q. rewrite Rminus_0_r, Rabs_pos_eq in X by lra.
    apply (H p); [split; [exact P |] |]; eapply Rlt_le_trans; [exact X | apply Rmin_r | exact X | apply Rmin_l].
  - destruct (shape_small b a B A eps) as [d H]. change (fun x => ball 0 eps (beta_shape a b x)) with (fun x => Rabs (beta_shape a b x - 0) < eps). exists (mkposreal (Rmin d 1) (Rmin_stable_in_posreal d (mkposreal 1 Rlt_0_1))).
    intros p Q P. assert (X : Rabs (p - 1) < Rmin d 1) by exact Q. rewrite Rabs_left in X by lra.
    destruct (H (1 - p)) as [_ K]; [split; [lra |] | |].
    + assert (Y := Rmin_r d 1). lra.
    + assert (Y := Rmin_l d 1). lra.
    + rewrite (one_less_one_less p) in K. exact K.
Qed.

(* --- a mixture whose components' variance vanishes ----------------------------------------------------------------------- *)

Lemma normal_positive : forall m v x, 0 < v -> 0 < normal m v x.
Proof.
  intros m v x V. apply Rdiv_lt_0_compat; [apply exp_pos | apply sqrt_lt_R0]. assert (P := PI_RGT_0). nra.
Qed.

Lemma mixture_mean_limit : forall p mu1 mu2 x y s, 0 < p < 1 -> 0 < s ->
  filterlim (mixture_mean p mu1 mu2 x y s) (at_right 0) (locally (mixture_mean p mu1 mu2 x y s 0)).
Proof.
  intros p mu1 mu2 x y s P S.
  apply (filterlim_filter_le_1 (F := locally 0)); [apply filter_le_within |].
  apply (ex_derive_continuous (mixture_mean p mu1 mu2 x y s)). unfold mixture_mean.
  assert (D : forall m, ex_derive (fun v => normal m (s + v * x ^ 2) y) 0).
  { intros m. unfold normal. assert (Q := PI_RGT_0). assert (W : 0 < 2 * PI * (s + 0 * x ^ 2)) by nra.
    assert (R := sqrt_lt_R0 _ W). auto_derive. repeat split; simpl in *; try lra; try nra; exact I. }
  assert (A := normal_positive (x * mu1) s y S). assert (B := normal_positive (x * mu2) s y S).
  assert (E : forall mu, ex_derive (fun v => (mu * s + v * x * y) / (s + v * x ^ 2)) 0).
  { intros mu. auto_derive. simpl. repeat split; try lra. }
  apply ex_derive_div.
  - apply @ex_derive_plus; apply ex_derive_mult; [apply ex_derive_scal; apply D | apply E | apply ex_derive_scal; apply D | apply E].
  - apply @ex_derive_plus; apply ex_derive_scal; apply D.
  - rewrite !Rmult_0_l, !Rplus_0_r. nra.
Qed.

Lemma mixture_mean_value : forall p mu1 mu2 x y s, 0 < p < 1 -> 0 < s ->
  let f mu := exp (- (mu * x - y) ^ 2 / (2 * s)) in
  mixture_mean p mu1 mu2 x y s 0
    = (mu1 * f mu1 * p) / (f mu1 * p + f mu2 * (1 - p)) + (mu2 * f mu2 * (1 - p)) / (f mu1 * p + f mu2 * (1 - p)).
Proof.
  intros p mu1 mu2 x y s P S f. unfold mixture_mean, normal. rewrite !Rmult_0_l, !Rplus_0_r.
  replace (- (y - x * mu1) ^ 2 / (2 * s)) with (- (mu1 * x - y) ^ 2 / (2 * s)) by (field; lra).
  replace (- (y - x * mu2) ^ 2 / (2 * s)) with (- (mu2 * x - y) ^ 2 / (2 * s)) by (field; lra).
  fold (f mu1) (f mu2). assert (A : 0 < f mu1) by apply exp_pos. assert (B : 0 < f mu2) by apply exp_pos.
  assert (W : 0 < 2 * PI * s) by (assert (Q := PI_RGT_0); nra). assert (R := sqrt_lt_R0 _ W).
  assert (D : 0 < f mu1 * p + f mu2 * (1 - p)) by nra. field. repeat split; try lra; nra.
Qed.

(* --- means of normal laws and mixtures -------------------------------------------------------------------------------- *)

Lemma line_ext : forall (f g : R -> R) A B l, Filter A -> Filter B -> (forall x, f x = g x) -> is_RInt_gen f A B l -> is_RInt_gen g A B l.
Proof.
  intros f g A B l FA FB E H. apply (is_RInt_gen_ext f g); [| exact H]. apply filter_forall. intros [x y] z _. apply E.
Qed.

Lemma same_value : forall (f : R -> R) A B (k l : R), k = l -> is_RInt_gen f A B k -> is_RInt_gen f A B l.
Proof. intros f A B k l -> H. exact H. Qed.

Lemma normal_decays : forall m v, 0 < v ->
  filterlim (normal m v) (Rbar_locally p_infty) (locally 0) /\ filterlim (normal m v) (Rbar_locally m_infty) (locally 0).
Proof. exact normal_vanishes. Qed.

Section Means.
  Variables m v : R.
  Hypothesis V : 0 < v.

  Lemma normal_slope : forall x, is_derive (normal m v) x (- ((x - m) / v) * normal m v x).
  Proof.
    intros x. assert (P := PI_RGT_0). assert (S : 0 < sqrt (2 * PI * v)) by (apply sqrt_lt_R0; nra). unfold normal. evar_last.
    - auto_derive; [repeat split; lra | reflexivity].
    - replace (x + - m) with (x - m) by ring. simpl. unfold Rdiv. field. repeat split; lra.
  Qed.

  Definition first_to (x : R) : R := m * up_to m v x - v * normal m v x.

  Lemma first_derive : forall x, is_derive first_to x (x * normal m v x).
  Proof.
    intros x. unfold first_to. evar_last.
    - apply (is_derive_minus (V := R_NormedModule)); apply is_derive_scal; [apply up_to_derive; exact V | apply normal_slope].
    - unfold minus, plus, opp. simpl. field. lra.
  Qed.

  Lemma first_continuous : forall x, continuous (fun x => x * normal m v x) x.
  Proof. intros x. apply (continuous_mult (K := R_AbsRing)); [apply continuous_id | apply normal_continuous; exact V]. Qed.

  Lemma first_at : forall (A : (R -> Prop) -> Prop) (e : R), Filter A ->
    filterlim (up_to m v) A (locally e) -> filterlim (normal m v) A (locally 0) -> filterlim first_to A (locally (m * e)).
  Proof.
    intros A e FA U N. unfold first_to. replace (m * e) with (plus (m * e) (opp (v * 0))) by (unfold plus, opp; simpl; ring).
    apply (filterlim_comp_2 (fun x => m * up_to m v x) (fun x => opp (v * normal m v x)) plus
      (G := locally (m * e)) (H := locally (opp (v * 0)))).
    - apply filterlim_comp with (1 := U). apply (filterlim_scal_r (V := R_NormedModule) m e).
    - apply filterlim_comp with (G := locally (v * 0)); [| apply (filterlim_opp (V := R_NormedModule))].
      apply filterlim_comp with (1 := N). apply (filterlim_scal_r (V := R_NormedModule) v 0).
    - apply (filterlim_plus (V := R_NormedModule)).
  Qed.

  Theorem normal_mean : is_RInt_gen (fun x => x * normal m v x) (Rbar_locally m_infty) (Rbar_locally p_infty) m.
  Proof.
    destruct (normal_decays m v V) as [D D']. apply same_value with (m * 1 - m * 0); [ring |].
    apply by_antiderivative with (F := first_to); try apply Rbar_locally_filter; [apply first_derive | apply first_continuous
      | apply first_at; [apply Rbar_locally_filter | apply up_to_nothing; exact V | exact D']
      | apply first_at; [apply Rbar_locally_filter | apply up_to_whole; exact V | exact D]].
  Qed.

  Theorem first_beyond : forall c,
    is_RInt_gen (fun x => x * normal m v x) (at_point c) (Rbar_locally p_infty)
      (m * (erfc ((c - m) / sqrt (2 * v)) / 2) + v * normal m v c).
  Proof.
    intros c. destruct (normal_decays m v V) as [D _].
    replace (m * (erfc ((c - m) / sqrt (2 * v)) / 2) + v * normal m v c) with (m * 1 - first_to c)
      by (unfold first_to, up_to; ring).
    apply by_antiderivative with (F := first_to); [apply at_point_filter | apply Rbar_locally_filter | apply first_derive
      | apply first_continuous | apply at_the_point
      | apply first_at; [apply Rbar_locally_filter | apply up_to_whole; exact V | exact D]].
  Qed.

  Theorem first_between : forall a b, RInt (fun x => x * normal m v x) a b = first_to b - first_to a.
  Proof.
    intros a b. apply is_RInt_unique. apply (is_RInt_derive first_to (fun x => x * normal m v x)); intros;
      [apply first_derive | apply first_continuous].
  Qed.
End Means.

Lemma mixture_positive : forall v parts x, 0 < v -> parts <> nil -> (forall part, In part parts -> 0 < fst part) -> 0 < mixture v parts x.
Proof.
  intros v parts x V. induction parts as [| part parts IH]; intros N H; [contradiction |].
  change (mixture v (part :: parts) x) with (fst part * normal (snd part) v x + mixture v parts x).
  assert (P := H part (or_introl eq_refl)). assert (Q := normal_positive (snd part) v x V).
  assert (R := Rmult_lt_0_compat _ _ P Q). destruct parts as [| next parts]; [change (mixture v nil x) with 0; lra |].
  assert (T : 0 < mixture v (next :: parts) x) by (apply IH; [discriminate |]; intros; apply H; right; assumption). lra.
Qed.

(* One step of EM from the law itself. *)
Theorem em_rests : forall v part parts, 0 < v -> In part parts -> (forall one, In one parts -> 0 < fst one) ->
  is_RInt_gen (fun x => weight_of v part parts x * mixture v parts x) (Rbar_locally m_infty) (Rbar_locally p_infty) (fst part) /\
  is_RInt_gen (fun x => weight_of v part parts x * x * mixture v parts x) (Rbar_locally m_infty) (Rbar_locally p_infty)
    (fst part * snd part).
Proof.
  intros v part parts V I H.
  assert (M : forall x, 0 < mixture v parts x) by (intros; apply mixture_positive; [exact V | destruct parts; [inversion I | discriminate] | exact H]).
  split.
  - apply line_ext with (fun x => scal (fst part) (normal (snd part) v x)); try apply Rbar_locally_filter.
    + intros x. assert (T := M x). unfold scal; simpl; unfold mult; simpl. unfold weight_of. field. lra.
    + apply same_value with (scal (fst part) 1); [unfold scal; simpl; unfold mult; simpl; ring |].
      apply (is_RInt_gen_scal (V := R_NormedModule)). apply normal_mass. exact V.
  - apply line_ext with (fun x => scal (fst part) (x * normal (snd part) v x)); try apply Rbar_locally_filter.
    + intros x. assert (T := M x). unfold scal; simpl; unfold mult; simpl. unfold weight_of. field. lra.
    + change (fst part * snd part) with (scal (fst part) (snd part)).
      apply (is_RInt_gen_scal (V := R_NormedModule)). apply normal_mean. exact V.
Qed.

(* The upper of two clusters that meet at 0, of two equally likely values apart from noise. *)
Theorem upper_cluster : forall mu v, 0 < v ->
  is_RInt_gen (mixture v [(1 / 2, mu); (1 / 2, - mu)]) (at_point 0) (Rbar_locally p_infty) (1 / 2) /\
  is_RInt_gen (fun x => x * mixture v [(1 / 2, mu); (1 / 2, - mu)] x) (at_point 0) (Rbar_locally p_infty)
    ((mu - mu * erfc (mu / sqrt (2 * v)) + 2 * v * normal mu v 0) / 2).
Proof.
  intros mu v V. assert (S := spread v V).
  assert (E : erfc ((0 - mu) / sqrt (2 * v)) = 2 - erfc (mu / sqrt (2 * v))).
  { rewrite <- erfc_mirrored. f_equal. field. lra. }
  assert (F : (0 - - mu) / sqrt (2 * v) = mu / sqrt (2 * v)) by (field; lra).
  assert (N : normal (- mu) v 0 = normal mu v 0) by (unfold normal; do 3 f_equal; ring).
  split.
  - apply line_ext with (fun x => plus (scal (1 / 2) (normal mu v x)) (scal (1 / 2) (normal (- mu) v x)));
      [apply at_point_filter | apply Rbar_locally_filter | |].
    + intros x. unfold plus, scal; simpl; unfold mult; simpl. ring.
    + apply same_value with (plus (scal (1 / 2) (erfc ((0 - mu) / sqrt (2 * v)) / 2)) (scal (1 / 2) (erfc ((0 - - mu) / sqrt (2 * v)) / 2)));
        [rewrite E, F; unfold plus, scal; simpl; unfold mult; simpl; field |].
      apply (is_RInt_gen_plus (V := R_NormedModule)); apply (is_RInt_gen_scal (V := R_NormedModule)); apply normal_beyond; exact V.
  - apply line_ext with (fun x => plus (scal (1 / 2) (x * normal mu v x)) (scal (1 / 2) (x * normal (- mu) v x)));
      [apply at_point_filter | apply Rbar_locally_filter | |].
    + intros x. unfold plus, scal; simpl; unfold mult; simpl. ring.
    + apply same_value with
        (plus (scal (1 / 2) (mu * (erfc ((0 - mu) / sqrt (2 * v)) / 2) + v * normal mu v 0))
              (scal (1 / 2) (- mu * (erfc ((0 - - mu) / sqrt (2 * v)) / 2) + v * normal (- mu) v 0)));
        [rewrite E, F, N; unfold plus, scal; simpl; unfold mult; simpl; field |].
      apply (is_RInt_gen_plus (V := R_NormedModule)); apply (is_RInt_gen_scal (V := R_NormedModule)); apply first_beyond; exact V.
Qed.

(* --- the arguments of erfc that papers write, and what is proved of them ------------------------------------------------- *)

Lemma root_two : 0 < sqrt 2.
Proof. apply sqrt_lt_R0. lra. Qed.

Lemma root_two_square : sqrt 2 ^ 2 = 2.
Proof. apply pow2_sqrt. lra. Qed.

Lemma over_root : forall c a, 0 < a -> c / sqrt (2 * a) = sqrt 2 * c / (2 * sqrt a).
Proof.
  intros c a A. assert (P := root_two). assert (Q := root_two_square). assert (S := sqrt_lt_R0 a A). rewrite sqrt_mult by lra. rewrite <- Q at 3. field. lra.
Qed.

Lemma over_root_of_ratio : forall c a n, 0 < a -> 0 < n -> c / sqrt (2 * (a / n)) = sqrt 2 * sqrt n * c / (2 * sqrt a).
Proof.
  intros c a n A N. rewrite over_root by (apply Rdiv_lt_0_compat; assumption). rewrite sqrt_div by lra.
  assert (S := sqrt_lt_R0 a A). assert (T := sqrt_lt_R0 n N). field. lra.
Qed.

Lemma normal_at_0 : forall mu a n, 0 < a -> 0 < n ->
  2 * (a / n) * normal mu (a / n) 0 = sqrt 2 * sqrt a * exp (- (n * mu ^ 2) / (2 * a)) / (sqrt n * sqrt PI).
Proof.
  intros mu a n A N. unfold normal. replace (- (0 - mu) ^ 2 / (2 * (a / n))) with (- (n * mu ^ 2) / (2 * a)) by (field; lra).
  assert (P := root_two). assert (Q := root_two_square). assert (S := sqrt_lt_R0 a A). assert (T := sqrt_lt_R0 n N). assert (U := sqrt_pi). assert (V := PI_RGT_0).
  assert (W : 0 < a / n) by (apply Rdiv_lt_0_compat; assumption).
  rewrite (sqrt_mult (2 * PI) (a / n)), (sqrt_mult 2 PI), sqrt_div by lra.
  assert (X : sqrt a * sqrt a = a) by (apply sqrt_sqrt; lra). assert (Y : sqrt n * sqrt n = n) by (apply sqrt_sqrt; lra).
  set (e := exp _). transitivity (sqrt 2 ^ 2 * (sqrt a * sqrt a / (sqrt n * sqrt n)) * (e / (sqrt 2 * sqrt PI * (sqrt a / sqrt n)))).
  - rewrite Q, X, Y. reflexivity.
  - field. lra.
Qed.

Lemma normal_inside : forall r v b, 0 < v ->
  RInt (normal r v) (- b) b = 1 - erfc ((b + r) / sqrt (2 * v)) / 2 - erfc ((b - r) / sqrt (2 * v)) / 2.
Proof.
  intros r v b V. rewrite normal_between by exact V. unfold up_to. assert (S := spread v V).
  replace ((- b - r) / sqrt (2 * v)) with (- ((b + r) / sqrt (2 * v))) by (field; lra). rewrite erfc_mirrored. lra.
Qed.

Lemma needed_at_most : forall eps delta A B, 1 / 100 <= eps <= 1 -> 1 / 10000000000 <= delta <= 99 / 100 ->
  A = sqrt (ln (2 / delta)) - eps / (4 * sqrt (ln (2 / delta))) -> erfc A / 2 - erfc B * exp eps / 2 <= delta.
Proof.
  intros eps delta A B E D H. set (L := sqrt (ln (2 / delta))) in *.
  assert (P : 2 <= 2 / delta) by (apply Rmult_le_reg_r with delta; [lra |]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra).
  assert (G : ln 2 <= ln (2 / delta)) by (destruct P as [P | <-]; [left; apply ln_increasing; lra | lra]).
  assert (K : 69 / 100 <= ln 2) by interval with (i_prec 40).
  assert (Q : L * L = ln (2 / delta)) by (apply sqrt_sqrt; lra).
  assert (M : 4 / 5 <= L) by (assert (N := sqrt_pos (ln (2 / delta))); fold L in N; nra).
  assert (X : 0 <= eps / (4 * L) <= 1 / 3).
  { split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra] |].
    apply Rmult_le_reg_r with (4 * L); [lra |]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (T := erfc_at_most A ltac:(lra)). assert (U := erfc_positive B). assert (V := exp_pos eps).
  assert (W : exp (- A ^ 2) <= delta / 2 * exp (1 / 2)).
  { replace (delta / 2) with (exp (- (L * L))).
    - rewrite <- exp_plus. assert (Y : - A ^ 2 <= - (L * L) + 1 / 2).
      { rewrite H. assert (Z : eps / (4 * L) * L = eps / 4) by (field; lra). nra. }
      destruct Y as [Y | ->]; [left; apply exp_increasing; exact Y | lra].
    - rewrite Q, exp_Ropp, exp_ln by lra. field. lra. }
  assert (Z : exp (1 / 2) <= 2) by interval with (i_prec 40). assert (F : 0 <= erfc B * exp eps) by (apply Rmult_le_pos; lra). nra.
Qed.

(* --- Euler's integral -------------------------------------------------------------------------------------------------- *)

Lemma shape_continuous : forall a b q, 0 < q < 1 -> continuous (beta_shape a b) q.
Proof.
  intros a b q Q. apply (ex_derive_continuous (beta_shape a b)). unfold beta_shape, Rpower. auto_derive. repeat split; lra.
Qed.

Definition inside (a b q : R) : R := if Rlt_dec 0 q then if Rlt_dec q 1 then beta_shape a b q else 0 else 0.

Lemma inside_is : forall a b q, 0 < q < 1 -> inside a b q = beta_shape a b q.
Proof. intros a b q [A B]. unfold inside. destruct (Rlt_dec 0 q); [| lra]. destruct (Rlt_dec q 1); [reflexivity | lra]. Qed.

Lemma inside_continuous : forall a b q, 0 < a -> 0 < b -> 0 <= q <= 1 -> continuous (inside a b) q.
Proof.
  intros a b q A B [[L | <-] [U | E]].
  - apply (continuous_ext_loc _ (beta_shape a b)); [| apply shape_continuous; lra].
    assert (P : 0 < Rmin q (1 - q)) by (apply Rmin_glb_lt; lra). exists (mkposreal _ P). intros y Y.
    assert (Z : Rabs (y - q) < Rmin q (1 - q)) by exact Y. apply Rabs_lt_between in Z.
    assert (V := Rmin_l q (1 - q)). assert (W := Rmin_r q (1 - q)). symmetry. apply inside_is. lra.
  - subst q. apply filterlim_locally. intros eps. destruct (shape_small b a B A eps) as [d H].
    assert (P : 0 < Rmin d 1) by (apply Rmin_glb_lt; [apply cond_pos | lra]). exists (mkposreal _ P). intros y Y.
    assert (Z : Rabs (y - 1) < Rmin d 1) by exact Y. apply Rabs_lt_between in Z.
    assert (V := Rmin_l d 1). assert (W := Rmin_r d 1). change (Rabs (inside a b y - inside a b 1) < eps).
    replace (inside a b 1) with 0 by (unfold inside; destruct (Rlt_dec 0 1); [destruct (Rlt_dec 1 1); [lra | reflexivity] | reflexivity]).
    destruct (Rlt_dec y 1) as [C | C].
    + rewrite inside_is by lra. destruct (H (1 - y)) as [_ K]; [lra | lra |]. rewrite (one_less_one_less y) in K. exact K.
    + replace (inside a b y) with 0; [rewrite Rminus_0_r, Rabs_R0; apply cond_pos |].
      unfold inside. destruct (Rlt_dec 0 y); [destruct (Rlt_dec y 1); [contradiction | reflexivity] | reflexivity].
  - apply filterlim_locally. intros eps. destruct (shape_small a b A B eps) as [d H].
    assert (P : 0 < Rmin d 1) by (apply Rmin_glb_lt; [apply cond_pos | lra]). exists (mkposreal _ P). intros y Y.
    assert (Z : Rabs (y - 0) < Rmin d 1) by exact Y. apply Rabs_lt_between in Z.
    assert (V := Rmin_l d 1). assert (W := Rmin_r d 1). change (Rabs (inside a b y - inside a b 0) < eps).
    replace (inside a b 0) with 0 by (unfold inside; destruct (Rlt_dec 0 0); [lra | reflexivity]).
    destruct (Rlt_dec 0 y) as [C | C].
    + rewrite inside_is by lra. destruct (H y) as [K _]; [lra | lra |]. exact K.
    + replace (inside a b y) with 0; [rewrite Rminus_0_r, Rabs_R0; apply cond_pos |].
      unfold inside. destruct (Rlt_dec 0 y); [contradiction | reflexivity].
  - lra.
Qed.

Lemma shape_integrable : forall a b, 0 < a -> 0 < b -> ex_RInt (beta_shape a b) 0 1.
Proof.
  intros a b A B. apply ex_RInt_ext with (inside a b).
  - intros q Q. rewrite Rmin_left, Rmax_right in Q by lra. apply inside_is. exact Q.
  - apply (ex_RInt_continuous (inside a b)). intros q Q. rewrite Rmin_left, Rmax_right in Q by lra.
    apply inside_continuous; assumption.
Qed.

Lemma Beta_positive : forall a b, 1 < a -> 1 < b -> 0 < Beta_of a b.
Proof.
  intros a b A B. unfold Beta_of. rewrite (RInt_ext _ (inside (a - 1) (b - 1))).
  - apply RInt_gt_0; [lra | |].
    + intros q Q. rewrite inside_is by exact Q. apply Rmult_lt_0_compat; apply exp_pos.
    + intros q Q. apply inside_continuous; lra.
  - intros q Q. rewrite Rmin_left, Rmax_right in Q by lra. symmetry. apply inside_is. exact Q.
Qed.

(* What distillation's divergence leaves of the density, at one input. *)
Lemma powers_of : forall s p q, 0 < q < 1 ->
  exp (s * (p * ln q + (1 - p) * ln (1 - q))) = beta_shape (1 + p * s - 1) (1 + (1 - p) * s - 1) q.
Proof. intros s p q Q. unfold beta_shape, Rpower. rewrite <- exp_plus. f_equal. ring. Qed.

Theorem distilled_integral : forall s p, 0 < s -> 0 < p < 1 ->
  is_RInt (fun q => exp (s * (p * ln q + (1 - p) * ln (1 - q)))) 0 1 (Beta_of (1 + p * s) (1 + (1 - p) * s)).
Proof.
  intros s p S P. apply is_RInt_ext with (beta_shape (1 + p * s - 1) (1 + (1 - p) * s - 1)).
  - intros q Q. rewrite Rmin_left, Rmax_right in Q by lra. symmetry. apply powers_of. exact Q.
  - apply (RInt_correct (beta_shape (1 + p * s - 1) (1 + (1 - p) * s - 1))). apply shape_integrable; nra.
Qed.

Theorem distilled_normaliser : forall psi p c, 0 < psi -> 0 < p < 1 ->
  c = - psi * (- p * ln p - (1 - p) * ln (1 - p)) - ln (Beta_of (1 + p * psi) (1 + (1 - p) * psi)) ->
  is_RInt (fun q => exp c * exp (- psi * (p * ln (p / q) + (1 - p) * ln ((1 - p) / (1 - q))))) 0 1 1.
Proof.
  intros psi p c S P ->. set (B := Beta_of _ _). assert (G : 0 < B) by (apply Beta_positive; nra).
  assert (H := distilled_integral psi p S P). fold B in H.
  apply (is_RInt_scal _ _ _ (/ B)) in H.
  match type of H with is_RInt ?f _ _ _ => assert (E : is_RInt f 0 1 (/ B * B)) by exact H end. rewrite Rinv_l in E by lra. clear H.
  apply is_RInt_ext with (2 := E). intros q Q. rewrite Rmin_left, Rmax_right in Q by lra.
  unfold scal; simpl; unfold mult; simpl. rewrite <- (exp_ln (/ B)) by (apply Rinv_0_lt_compat; exact G). rewrite ln_Rinv by exact G.
  rewrite <- !exp_plus. f_equal. rewrite !ln_div by lra. ring.
Qed.

(* Where the powers are divided where they should be multiplied: at strength 1/2 and probability 1/2. *)
Lemma Beta_2_2 : Beta_of 2 2 = 1 / 6.
Proof.
  apply is_RInt_unique. apply is_RInt_ext with (fun q => q * (1 - q)).
  - intros q Q. rewrite Rmin_left, Rmax_right in Q by lra. unfold beta_shape. replace (2 - 1) with 1 by ring.
    rewrite !Rpower_1 by lra. reflexivity.
  - replace (1 / 6) with (minus (1 ^ 2 / 2 - 1 ^ 3 / 3) (0 ^ 2 / 2 - 0 ^ 3 / 3)) by (unfold minus, plus, opp; simpl; field).
    apply (is_RInt_derive (fun q => q ^ 2 / 2 - q ^ 3 / 3)).
    + intros q _. auto_derive; [trivial |]. simpl. field.
    + intros q _. apply (ex_derive_continuous (fun q => q * (1 - q))). auto_derive. trivial.
Qed.

Lemma quarter : forall u, 0 < u <= 1 / 4 -> 2 * u <= Rpower u (1 / 4).
Proof.
  intros u U. rewrite <- (exp_ln (2 * u)) by lra. rewrite ln_mult by lra. unfold Rpower.
  assert (L : ln u <= ln (1 / 4)) by (destruct U as [A [B | ->]]; [left; apply ln_increasing; lra | lra]).
  assert (F : ln (1 / 4) = - (2 * ln 2)).
  { replace (1 / 4) with (/ (2 * 2)) by field. rewrite ln_Rinv, ln_mult by lra. ring. }
  assert (G : 0 < ln 2) by (rewrite <- ln_1; apply ln_increasing; lra).
  destruct (Req_dec (ln 2 + ln u) (1 / 4 * ln u)) as [N | N]; [rewrite N; apply Rle_refl |]. left. apply exp_increasing. lra.
Qed.

Theorem Beta_of_quarters : 2 * (1 / 6) <= Beta_of (5 / 4) (5 / 4).
Proof.
  rewrite <- Beta_2_2. assert (I : ex_RInt (beta_shape (2 - 1) (2 - 1)) 0 1) by (apply shape_integrable; lra).
  assert (J : is_RInt (fun q => 2 * beta_shape (2 - 1) (2 - 1) q) 0 1 (2 * Beta_of 2 2)).
  { apply (is_RInt_scal (beta_shape (2 - 1) (2 - 1)) 0 1 2). apply (RInt_correct _ _ _ I). }
  rewrite <- (is_RInt_unique _ _ _ _ J). apply RInt_le; [lra | eexists; exact J | apply shape_integrable; lra |].
  intros q Q. unfold beta_shape. replace (2 - 1) with 1 by ring. replace (5 / 4 - 1) with (1 / 4) by field.
  rewrite !Rpower_1 by lra. rewrite Rpower_mult_distr by lra. apply quarter. assert (T := pow2_ge_0 (q - 1 / 2)). simpl in T. split; nra.
Qed.

Lemma quarters_differ : forall a b c d, a = 5 / 4 -> b = 5 / 4 -> c = 2 -> d = 2 -> Beta_of a b <> Beta_of c d.
Proof. intros a b c d -> -> -> -> E. assert (Q := Beta_of_quarters). rewrite E, Beta_2_2 in Q. lra. Qed.

Lemma quarters_differ_ln : forall a b c d, a = 5 / 4 -> b = 5 / 4 -> c = 2 -> d = 2 -> ln (Beta_of a b) <> ln (Beta_of c d).
Proof.
  intros a b c d A B C D E. apply (quarters_differ a b c d A B C D). apply ln_inv; [| | exact E]; subst; apply Beta_positive; lra.
Qed.

(* --- what is left of squares -------------------------------------------------------------------------------------------- *)

(* A combination of three uncorrelated noises: its square has a mean, which is that of the squares. *)
Lemma square_of_three : forall (S : space) (X Y Z : outcome S -> R) x y z a b c,
  has_mean S (fun o => X o * X o) -> has_mean S (fun o => Y o * Y o) -> has_mean S (fun o => Z o * Z o) ->
  has_mean S (fun o => X o * Y o) -> has_mean S (fun o => X o * Z o) -> has_mean S (fun o => Y o * Z o) ->
  moment S X X = x -> moment S Y Y = y -> moment S Z Z = z ->
  moment S X Y = 0 -> moment S X Z = 0 -> moment S Y Z = 0 ->
  has_mean S (fun o => (a * X o + b * Y o + c * Z o) ^ 2) /\
  E S (fun o => (a * X o + b * Y o + c * Z o) ^ 2) = a ^ 2 * x + b ^ 2 * y + c ^ 2 * z.
Proof.
  intros S X Y Z x y z a b c XX YY ZZ XY XZ YZ Ex Ey Ez Exy Exz Eyz. unfold moment in *.
  assert (F : forall o, a ^ 2 * (X o * X o) + (b ^ 2 * (Y o * Y o) + (c ^ 2 * (Z o * Z o) + (2 * a * b * (X o * Y o)
    + (2 * a * c * (X o * Z o) + 2 * b * c * (Y o * Z o))))) = (a * X o + b * Y o + c * Z o) ^ 2) by (intros o; ring).
  split.
  - apply (mean_ext S _ _ F). repeat apply mean_plus; apply mean_scal; assumption.
  - rewrite <- (E_ext S _ _ F).
    rewrite !E_plus by (repeat apply mean_plus; apply mean_scal; assumption). rewrite !E_scal by assumption.
    rewrite Ex, Ey, Ez, Exy, Exz, Eyz. ring.
Qed.

(* The noises of two clients of one level: own noises and sampling noises. *)
Ltac noises_of M :=
  repeat split; first
    [ apply (noise_moment M 0 0 0 0 0 0); lia | apply (noise_moment M 0 0 1 0 0 1); lia | apply (noise_moment M 0 0 0 0 0 1); lia
    | apply (noise_moment M 1 0 0 1 0 0); lia | apply (noise_moment M 1 0 1 1 0 1); lia | apply (noise_moment M 1 0 0 1 0 1); lia
    | apply (noise_moment M 0 0 0 1 0 0); lia | apply (noise_moment M 0 0 0 1 0 1); lia | apply (noise_moment M 0 0 1 1 0 0); lia ].

(* Posterior means and variances of one coordinate from two samples, and of two from one; C is the inverse of the precision. *)
Theorem squares_of_two_samples : forall x1 x2 sigma2_theta sigma2_x : R, 0 < sigma2_theta -> 0 < sigma2_x ->
  forall (S : space) (M : clients S 1 (fun _ => 2%nat) (same sigma2_theta) (same sigma2_x) (same 0)) (mu : R),
  let first o := x1 * (mu + own M 0 0 o) + sampling M 0 0 o in
  let second o := x2 * (mu + own M 0 0 o) + sampling M 0 1 o in
  let spread := 1 / (1 / sigma2_theta + (x1 ^ 2 + x2 ^ 2) / sigma2_x) in
  let best o := mu + spread * (x1 * (first o - x1 * mu) + x2 * (second o - x2 * mu)) / sigma2_x in
  E S (fun o => (mu - best o) ^ 2) + spread = sigma2_theta /\
  E S (fun o => (first o - x1 * best o) ^ 2 + (second o - x2 * best o) ^ 2) + (x1 ^ 2 + x2 ^ 2) * spread = 2 * sigma2_x.
Proof.
  intros x1 x2 sigma2_theta sigma2_x A B S M mu first second spread best.
  assert (D : 0 < sigma2_x + sigma2_theta * (x1 ^ 2 + x2 ^ 2)) by (assert (0 <= sigma2_theta * (x1 ^ 2 + x2 ^ 2)) by (apply Rmult_le_pos; nra); lra).
  assert (P : spread = sigma2_theta * sigma2_x / (sigma2_x + sigma2_theta * (x1 ^ 2 + x2 ^ 2))).
  { unfold spread. field. repeat split; try lra; try (intro H; nra). }
  assert (Q := fun a b c => square_of_three S (own M 0 0) (sampling M 0 0) (sampling M 0 1) sigma2_theta sigma2_x sigma2_x a b c
    ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M)
    ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M)).
  set (k := spread / sigma2_x).
  split.
  - rewrite (E_ext S _ (fun o => (k * (x1 ^ 2 + x2 ^ 2) * own M 0 0 o + k * x1 * sampling M 0 0 o + k * x2 * sampling M 0 1 o) ^ 2)).
    + rewrite (proj2 (Q _ _ _)). unfold k. rewrite P. field. lra.
    + intros o. unfold best, first, second, k. field. lra.
  - rewrite (E_ext S _ (fun o =>
      (x1 * (1 - k * (x1 ^ 2 + x2 ^ 2)) * own M 0 0 o + (1 - k * x1 ^ 2) * sampling M 0 0 o + - (k * x1 * x2) * sampling M 0 1 o) ^ 2
      + (x2 * (1 - k * (x1 ^ 2 + x2 ^ 2)) * own M 0 0 o + - (k * x1 * x2) * sampling M 0 0 o + (1 - k * x2 ^ 2) * sampling M 0 1 o) ^ 2)).
    + rewrite E_plus, (proj2 (Q _ _ _)), (proj2 (Q _ _ _)) by apply Q. unfold k. rewrite P. field. lra.
    + intros o. unfold best, first, second, k. field. lra.
Qed.

Theorem squares_of_two_features : forall x1 x2 sigma2_theta sigma2_x : R, 0 < sigma2_theta -> 0 < sigma2_x ->
  forall (S : space) (M : clients S 1 (fun _ => 2%nat) (same sigma2_theta) (same sigma2_x) (same 0)) (mu1 mu2 : R), exists c11 c12 c22 : R,
  (1 / sigma2_theta + x1 ^ 2 / sigma2_x) * c11 + x1 * x2 / sigma2_x * c12 = 1 /\
  (1 / sigma2_theta + x1 ^ 2 / sigma2_x) * c12 + x1 * x2 / sigma2_x * c22 = 0 /\
  x1 * x2 / sigma2_x * c12 + (1 / sigma2_theta + x2 ^ 2 / sigma2_x) * c22 = 1 /\
  let y o := x1 * (mu1 + own M 0 0 o) + x2 * (mu2 + own M 0 1 o) + sampling M 0 0 o in
  let gap o := (y o - x1 * mu1 - x2 * mu2) / sigma2_x in
  let best1 o := mu1 + (c11 * x1 + c12 * x2) * gap o in
  let best2 o := mu2 + (c12 * x1 + c22 * x2) * gap o in
  E S (fun o => (mu1 - best1 o) ^ 2 + (mu2 - best2 o) ^ 2) + (c11 + c22) = 2 * sigma2_theta /\
  E S (fun o => (y o - x1 * best1 o - x2 * best2 o) ^ 2) + (x1 ^ 2 * c11 + 2 * x1 * x2 * c12 + x2 ^ 2 * c22) = sigma2_x.
Proof.
  intros x1 x2 sigma2_theta sigma2_x A B S M mu1 mu2.
  assert (D : 0 < sigma2_x + sigma2_theta * (x1 ^ 2 + x2 ^ 2)) by (assert (0 <= sigma2_theta * (x1 ^ 2 + x2 ^ 2)) by (apply Rmult_le_pos; nra); lra).
  assert (Q := fun a b c => square_of_three S (own M 0 0) (own M 0 1) (sampling M 0 0) sigma2_theta sigma2_theta sigma2_x a b c
    ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M)
    ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M) ltac:(noises_of M)).
  set (T := sigma2_theta) in *. set (s := sigma2_x) in *. set (d := s + T * (x1 ^ 2 + x2 ^ 2)) in *.
  exists (T * (s + T * x2 ^ 2) / d), (- (T ^ 2 * x1 * x2) / d), (T * (s + T * x1 ^ 2) / d).
  split; [unfold d in *; field; lra |]. split; [unfold d in *; field; lra |]. split; [unfold d in *; field; lra |].
  intros y gap best1 best2.
  set (k1 := (T * (s + T * x2 ^ 2) / d * x1 + - (T ^ 2 * x1 * x2) / d * x2) / s). set (k2 := (- (T ^ 2 * x1 * x2) / d * x1 + T * (s + T * x1 ^ 2) / d * x2) / s).
  assert (K1 : k1 = T * x1 / d) by (unfold k1; unfold d in *; field; lra).
  assert (K2 : k2 = T * x2 / d) by (unfold k2; unfold d in *; field; lra).
  split.
  - rewrite (E_ext S _ (fun o => (k1 * x1 * own M 0 0 o + k1 * x2 * own M 0 1 o + k1 * sampling M 0 0 o) ^ 2
      + (k2 * x1 * own M 0 0 o + k2 * x2 * own M 0 1 o + k2 * sampling M 0 0 o) ^ 2)).
    + rewrite E_plus, (proj2 (Q _ _ _)), (proj2 (Q _ _ _)) by apply Q. rewrite K1, K2. unfold d in *. field. lra.
    + intros o. unfold best1, best2, gap, y, k1, k2. field. lra.
  - rewrite (E_ext S _ (fun o => ((1 - x1 * k1 - x2 * k2) * x1 * own M 0 0 o + (1 - x1 * k1 - x2 * k2) * x2 * own M 0 1 o
      + (1 - x1 * k1 - x2 * k2) * sampling M 0 0 o) ^ 2)).
    + rewrite (proj2 (Q _ _ _)). rewrite K1, K2. unfold d in *. field. lra.
    + intros o. unfold best1, best2, gap, y, k1, k2. field. lra.
Qed.
