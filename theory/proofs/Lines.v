(* Normal noise: the exact curve of one release, Renyi divergences of one release and of runs. *)
Require Export Borrow.Laws.
Open Scope R_scope.

Lemma whole_ext : forall f g w, (forall x, f x = g x) -> whole_line f w -> whole_line g w.
Proof. intros f g w. apply line_ext; apply Rbar_locally_filter. Qed.

Lemma whole_normal : forall m v c, 0 < v -> whole_line (fun x => c * normal m v x) c.
Proof.
  intros m v c V. unfold whole_line. assert (H := is_RInt_gen_scal (normal m v) c 1 (normal_mass m v V)).
  change (scal c 1) with (c * 1) in H. rewrite Rmult_1_r in H. exact H.
Qed.

(* --- the exact curve --------------------------------------------------------------------------------------------- *)

Section Curve.
Variables (eps d v : R).
Hypotheses (D : 0 < d) (V : 0 < v).
Let place := eps * v / d + d / 2.
Let gap x := normal d v x - exp eps * normal 0 v x.

Lemma gap_sign : forall x, gap x = normal 0 v x * (exp (d * (x - place) / v) - 1) * exp eps.
Proof.
  intro x. assert (Q := PI_RGT_0). assert (A : 0 < sqrt (2 * PI * v)) by (apply sqrt_lt_R0; nra). unfold gap, normal.
  replace (- (x - d) ^ 2 / (2 * v)) with (- (x - 0) ^ 2 / (2 * v) + d * (x - place) / v + eps)
    by (unfold place; field; lra).
  rewrite !exp_plus. field. lra.
Qed.

Lemma below : forall x, x < place -> Rmax 0 (gap x) = 0.
Proof.
  intros x X. apply Rmax_left. rewrite gap_sign. assert (Z := normal_positive 0 v x V). assert (W := exp_pos eps).
  assert (E : d * (x - place) / v < 0).
  { assert (Y : 0 < d * (place - x) / v) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra | exact V]).
    replace (d * (x - place) / v) with (- (d * (place - x) / v)) by (field; lra). lra. }
  apply exp_increasing in E. rewrite exp_0 in E.
  assert (Y : 0 <= normal 0 v x * (1 - exp (d * (x - place) / v)) * exp eps)
    by (apply Rmult_le_pos; [apply Rmult_le_pos |]; lra).
  lra.
Qed.

Lemma above : forall x, place < x -> Rmax 0 (gap x) = gap x.
Proof.
  intros x X. apply Rmax_right. rewrite gap_sign. assert (Z := normal_positive 0 v x V). assert (W := exp_pos eps).
  assert (E : 0 < d * (x - place) / v) by (apply Rdiv_lt_0_compat; [apply Rmult_lt_0_compat; lra | exact V]).
  apply exp_increasing in E. rewrite exp_0 in E. apply Rmult_le_pos; [apply Rmult_le_pos |]; lra.
Qed.

Theorem exact_curve : least_delta eps (normal d v) (normal 0 v)
  (erfc ((place - d) / sqrt (2 * v)) / 2 - exp eps * (erfc ((place - 0) / sqrt (2 * v)) / 2)).
Proof.
  set (right := erfc ((place - d) / sqrt (2 * v)) / 2 - exp eps * (erfc ((place - 0) / sqrt (2 * v)) / 2)).
  assert (Low : is_RInt_gen (fun x => Rmax 0 (gap x)) (Rbar_locally m_infty) (at_point place) 0).
  { apply (is_RInt_gen_ext (fun _ => 0)).
    - apply Filter_prod with (fun a => a < place) (fun b => b = place); [exists place; trivial | reflexivity |].
      intros a b A -> x X. simpl in X. rewrite Rmax_right in X by lra. symmetry. apply below. lra.
    - apply same_value with (0 - 0); [ring |].
      apply by_antiderivative with (F := fun _ => 0); [apply Rbar_locally_filter | apply at_point_filter | | | |].
      + intro x. apply (is_derive_const (V := R_NormedModule) 0).
      + intro x. apply continuous_const.
      + apply filterlim_const.
      + apply filterlim_const. }
  assert (High : is_RInt_gen (fun x => Rmax 0 (gap x)) (at_point place) (Rbar_locally p_infty) right).
  { apply (is_RInt_gen_ext gap).
    - apply Filter_prod with (fun a => a = place) (fun b => place < b); [reflexivity | exists place; trivial |].
      intros a b -> B x X. simpl in X. rewrite Rmin_left in X by lra. symmetry. apply above. lra.
    - apply (is_RInt_gen_minus (normal d v) (fun x => exp eps * normal 0 v x)); [apply normal_beyond; exact V |].
      apply (is_RInt_gen_scal (normal 0 v) (exp eps)). apply normal_beyond. exact V. }
  assert (H := is_RInt_gen_Chasles _ place _ _ Low High). change (plus 0 right) with (0 + right) in H.
  rewrite Rplus_0_l in H. exact H.
Qed.
End Curve.

(* Its arguments as they are printed, with the standard deviation. *)
Lemma exact_curve_at : forall eps d s x y, 0 < d -> 0 < s ->
  sqrt 2 * x = eps * s / d - d / (2 * s) -> sqrt 2 * y = eps * s / d + d / (2 * s) ->
  least_delta eps (normal d (s ^ 2)) (normal 0 (s ^ 2)) (erfc x / 2 - exp eps * (erfc y / 2)).
Proof.
  intros eps d s x y D P X Y. assert (A := root_two). assert (T := exact_curve eps d (s ^ 2) D ltac:(nra)).
  assert (S : sqrt (2 * s ^ 2) = s * sqrt 2) by (rewrite sqrt_mult, sqrt_pow2 by nra; ring). rewrite S in T.
  replace ((eps * s ^ 2 / d + d / 2 - d) / (s * sqrt 2)) with x in T.
  2: { apply Rmult_eq_reg_l with (sqrt 2); [| lra]. rewrite X. field. repeat split; lra. }
  replace ((eps * s ^ 2 / d + d / 2 - 0) / (s * sqrt 2)) with y in T; [exact T |].
  apply Rmult_eq_reg_l with (sqrt 2); [| lra]. rewrite Y. field. repeat split; lra.
Qed.

(* --- Renyi divergences ------------------------------------------------------------------------------------------- *)

Lemma powers : forall a m d v x, 0 < v ->
  Rpower (normal (m + d) v x) a * Rpower (normal m v x) (1 - a)
  = exp (a * (a - 1) * d ^ 2 / (2 * v)) * normal (m + a * d) v x.
Proof.
  intros a m d v x V. assert (Q := PI_RGT_0). set (r := sqrt (2 * PI * v)).
  assert (A : 0 < r) by (apply sqrt_lt_R0; nra).
  assert (L : forall m, ln (normal m v x) = - (x - m) ^ 2 / (2 * v) + - ln r).
  { intro c. unfold normal. fold r. unfold Rdiv at 1.
    rewrite ln_mult, ln_exp, ln_Rinv; [reflexivity | assumption | apply exp_pos | now apply Rinv_0_lt_compat]. }
  assert (E : normal (m + a * d) v x = exp (- (x - (m + a * d)) ^ 2 / (2 * v) + - ln r)).
  { rewrite <- L, exp_ln; [reflexivity | now apply normal_positive]. }
  rewrite E. unfold Rpower. rewrite !L, <- !exp_plus. f_equal. field. lra.
Qed.

Theorem renyi_of_normals : forall a m d v, 0 < v ->
  renyi_sum a (normal (m + d) v) (normal m v) (exp ((a - 1) * (a * d ^ 2 / (2 * v)))).
Proof.
  intros a m d v V. apply (whole_ext (fun x => exp ((a - 1) * (a * d ^ 2 / (2 * v))) * normal (m + a * d) v x)).
  - intro x. rewrite powers by exact V. f_equal. f_equal. field. lra.
  - apply whole_normal. exact V.
Qed.

Definition squares (l : list R) : R := fold_right (fun d v => d ^ 2 + v) 0 l.

Theorem renyi_of_runs : forall a v aim, 0 < v -> forall shifts seen,
  renyi_run a v aim shifts seen (exp ((a - 1) * (a * squares shifts / (2 * v)))).
Proof.
  intros a v aim P. induction shifts as [| d later IH]; intro seen.
  - simpl. replace ((a - 1) * (a * 0 / (2 * v))) with 0 by (field; lra). apply exp_0.
  - exists (fun _ => exp ((a - 1) * (a * squares later / (2 * v)))). split; [intro x; apply IH |].
    apply (whole_ext (fun x => exp ((a - 1) * (a * squares (d :: later) / (2 * v))) * normal (aim seen + a * d) v x)).
    + intro x. rewrite powers by exact P. simpl squares.
      replace ((a - 1) * (a * (d * (d * 1) + squares later) / (2 * v)))
        with (a * (a - 1) * d ^ 2 / (2 * v) + (a - 1) * (a * squares later / (2 * v))) by (field; lra).
      rewrite exp_plus. ring.
    + apply whole_normal. exact P.
Qed.

Lemma squares_app : forall l r, squares (l ++ r) = squares l + squares r.
Proof. induction l as [| d l IH]; intro r; simpl; [ring | rewrite IH; ring]. Qed.

Lemma squares_0 : forall n, squares (repeat 0 n) = 0.
Proof. induction n as [| n IH]; simpl; [reflexivity | rewrite IH; ring]. Qed.

Lemma squares_rounds : forall T K k d, squares (rounds T K k d) = T * d ^ 2.
Proof.
  intros T K k d. induction T as [| T IH]; [simpl; ring |].
  change (rounds (S T) K k d) with ((repeat 0 k ++ d :: repeat 0 (K - k - 1)) ++ rounds T K k d).
  rewrite squares_app, IH, squares_app. change (squares (d :: repeat 0 (K - k - 1))) with (d ^ 2 + squares (repeat 0 (K - k - 1))).
  rewrite !squares_0, S_INR. ring.
Qed.
