(* Lemmas about the losses, divergences, counts and expectations of Objects.v, for the proofs of claims about them. *)
Require Export Borrow.Gauss Borrow.Scripts.
Open Scope R_scope.

(* --- losses -------------------------------------------------------------------------------------------------------- *)

Lemma ln_gap : forall a b, 0 < a -> a < b -> (b - a) / b < ln b - ln a < (b - a) / a.
Proof.
  assert (U : forall x, 0 < x -> x <> 1 -> ln x < x - 1).
  { intros x P N. apply Rlt_le_trans with (ln (exp (x - 1))); [| rewrite ln_exp; lra]. apply ln_increasing; [lra |].
    assert (T := exp_ineq1 (x - 1)). lra. }
  intros a b A B. rewrite <- ln_div by lra. split.
  - assert (V := U (a / b)). rewrite (ln_div a b) in V by lra. rewrite ln_div by lra.
    assert (0 < a / b) by (apply Rdiv_lt_0_compat; lra).
    assert (a / b < 1) by (apply Rmult_lt_reg_r with b; [lra |]; field_simplify; lra).
    replace ((b - a) / b) with (1 - a / b) by (field; lra). assert (W := V ltac:(lra) ltac:(lra)). lra.
  - assert (1 < b / a) by (apply Rmult_lt_reg_r with a; [lra |]; field_simplify; lra).
    replace ((b - a) / a) with (b / a - 1) by (field; lra). apply U; lra.
Qed.

(* A logarithm and an inverse. *)
Lemma log_loss : forall loss best c A K, 0 < c -> best = A / c -> (forall x, 0 < x -> loss x = c * ln x + A / x + K) ->
  falls_then_rises loss best.
Proof.
  intros loss best c A K C -> L. split; intros a b P Q R; rewrite (L a), (L b) by lra.
  - destruct (ln_gap a b P Q) as [_ U]. assert (V : A >= c * b).
    { replace A with (A / c * c) by (field; lra). assert (b * c <= A / c * c) by (apply Rmult_le_compat_r; lra). lra. }
    assert (W : c * (ln b - ln a) < c * ((b - a) / a)) by (apply Rmult_lt_compat_l; lra).
    assert (X : A / a - A / b = c * ((b - a) / a) + (A - c * b) * ((b - a) / (a * b))) by (field; lra).
    assert (Y : 0 <= (A - c * b) * ((b - a) / (a * b))).
    { apply Rmult_le_pos; [lra |]. left. apply Rdiv_lt_0_compat; [lra | nra]. }
    lra.
  - destruct (ln_gap a b P R) as [U _]. assert (V : A <= c * a).
    { replace A with (A / c * c) by (field; lra). assert (A / c * c <= a * c) by (apply Rmult_le_compat_r; lra). lra. }
    assert (W : c * ((b - a) / b) < c * (ln b - ln a)) by (apply Rmult_lt_compat_l; lra).
    assert (X : A / a - A / b = c * ((b - a) / b) - (c * a - A) * ((b - a) / (a * b))) by (field; lra).
    assert (Y : 0 <= (c * a - A) * ((b - a) / (a * b))).
    { apply Rmult_le_pos; [lra |]. left. apply Rdiv_lt_0_compat; [lra | nra]. }
    lra.
Qed.

Definition added (f : R -> R) (data : list R) : R := fold_right (fun x rest => f x + rest) 0 data.

Lemma surprise_laplace : forall b data, 0 < b ->
  surprise (laplace b) data = INR (length data) * ln b + added Rabs data / b + INR (length data) * ln 2.
Proof.
  intros b data B. induction data as [| x data IH]; [simpl; field; lra |].
  change (surprise (laplace b) (x :: data)) with (- ln (laplace b x) + surprise (laplace b) data).
  change (added Rabs (x :: data)) with (Rabs x + added Rabs data).
  rewrite IH. change (length (x :: data)) with (S (length data)). rewrite S_INR. unfold laplace.
  rewrite ln_div, ln_exp, ln_mult; [field; lra | lra | lra | apply exp_pos | lra].
Qed.

Lemma ln_sqrt : forall x, 0 < x -> ln (sqrt x) = ln x / 2.
Proof.
  intros x P. assert (S := sqrt_lt_R0 x P). rewrite <- (sqrt_sqrt x) at 2 by lra. rewrite ln_mult by assumption. field.
Qed.

Lemma surprise_normal : forall d v data, 0 < v ->
  surprise (normal_of d v) data
    = INR (length data) * INR d / 2 * ln v + added (fun s => s) data / 2 / v + INR (length data) * INR d / 2 * ln (2 * PI).
Proof.
  intros d v data V. assert (P := PI_RGT_0). induction data as [| x data IH]; [simpl; field; lra |].
  change (surprise (normal_of d v) (x :: data)) with (- ln (normal_of d v x) + surprise (normal_of d v) data).
  change (added (fun s => s) (x :: data)) with (x + added (fun s => s) data).
  rewrite IH. change (length (x :: data)) with (S (length data)). rewrite S_INR. unfold normal_of.
  assert (W : 0 < 2 * PI * v) by (apply Rmult_lt_0_compat; lra). assert (S := sqrt_lt_R0 _ W).
  rewrite ln_div, ln_exp, ln_power, ln_sqrt, (ln_mult (2 * PI) v); [field; lra | lra | lra | exact W | exact S
    | apply exp_pos | apply pow_lt; exact S].
Qed.

Lemma distilled_loss : forall psi kd, 0 < psi ->
  distilled psi kd = INR (length kd) / 2 * ln psi + added (fun f => f) kd / 2 / psi + INR (length kd) / 2 * ln 2.
Proof.
  intros psi kd P. induction kd as [| f kd IH]; [simpl; field; lra |].
  change (distilled psi (f :: kd)) with (ln (2 * psi) / 2 + f / (2 * psi) + distilled psi kd).
  change (added (fun f => f) (f :: kd)) with (f + added (fun f => f) kd).
  rewrite IH. change (length (f :: kd)) with (S (length kd)). rewrite S_INR, ln_mult by lra. field. lra.
Qed.

Ltac lists := cbn [length added fold_right]; rewrite ?Rabs_pos_eq by lra; cbn [INR].

(* --- privacy ------------------------------------------------------------------------------------------------------- *)

Lemma Rpower_whole : forall x n, 0 < x -> Rpower x (INR n) = x ^ n.
Proof. intros x n P. unfold Rpower. rewrite (exp_power n _ (ln x) eq_refl), exp_ln by exact P. reflexivity. Qed.

(* The divergence as the mean of a power of the likelihood ratio. *)
Lemma renyi_mean : forall n a P Q, (forall i, 0 < P i) -> (forall i, 0 < Q i) ->
  renyi n a P Q = ln (sum n (fun i => P i * Rpower (P i / Q i) (a - 1))) / (a - 1).
Proof.
  intros n a P Q A B. unfold renyi. f_equal. f_equal. apply sum_ext. intros i _. specialize (A i). specialize (B i).
  rewrite <- (exp_ln (P i) A) at 2. unfold Rpower. rewrite ln_div, <- !exp_plus by assumption. f_equal. ring.
Qed.

Lemma two_positive : forall p, 0 < p < 1 -> forall i, 0 < two p (1 - p) i.
Proof. intros p H [| i]; simpl; lra. Qed.

Lemma renyi_of_two : forall p q a k, 0 < p < 1 -> 0 < q < 1 -> a = INR k + 1 ->
  renyi 2 a (two p (1 - p)) (two q (1 - q)) = ln (p * (p / q) ^ k + (1 - p) * ((1 - p) / (1 - q)) ^ k) / k.
Proof.
  intros p q a k P Q ->. rewrite renyi_mean by now apply two_positive. unfold sum, two.
  replace (INR k + 1 - 1) with (INR k) by ring.
  rewrite !Rpower_whole by (apply Rdiv_lt_0_compat; lra). rewrite Rplus_0_l. reflexivity.
Qed.

Lemma two_answers : forall n order p q, order = INR (S (S n)) -> 0 < p < 1 -> 0 < q < 1 ->
  exp ((order - 1) * renyi 2 order (two p (1 - p)) (two q (1 - q)))
    = q * (p / q) ^ S (S n) + (1 - q) * ((1 - p) / (1 - q)) ^ S (S n).
Proof.
  intros n order p q -> P Q. rewrite S_INR, (renyi_of_two p q _ (S n)) by (assumption || reflexivity).
  assert (N := pos_INR n). assert (M := S_INR n). replace (INR (S n) + 1 - 1) with (INR (S n)) by ring.
  match goal with |- exp (?k * (ln ?s / ?k)) = _ => replace (k * (ln s / k)) with (ln s) by (field; lra) end.
  assert (T : forall x y, 0 < x -> 0 < y -> 0 < x * (x / y) ^ S n /\ x * (x / y) ^ S n = y * (x / y) ^ S (S n)).
  { intros x y X Y. split; [apply Rmult_lt_0_compat; [exact X | now apply pow_lt, Rdiv_lt_0_compat] |].
    change ((x / y) ^ S (S n)) with (x / y * (x / y) ^ S n). field. lra. }
  destruct (T p q) as [A E]; [lra | lra |]. destruct (T (1 - p) (1 - q)) as [B F]; [lra | lra |].
  rewrite exp_ln by lra. rewrite E, F. reflexivity.
Qed.

Lemma sum_le : forall n f g, (forall i, (i < n)%nat -> f i <= g i) -> sum n f <= sum n g.
Proof.
  intros n f g H. assert (P := sum_nonneg n (fun i => g i + -1 * f i)). rewrite sum_plus, sum_scal in P.
  assert (Q : forall i, (i < n)%nat -> 0 <= g i + -1 * f i) by (intros i I; specialize (H i I); lra). specialize (P Q). lra.
Qed.

(* Bernoulli's inequality for real powers. *)
Lemma exp_bernoulli : forall o z, 1 < o -> 1 + o * (exp z - 1) <= exp (o * z).
Proof.
  intros o z O. assert (E := exp_pos z).
  assert (A : exp z * (1 + (o * z - z)) <= exp (o * z)).
  { replace (exp (o * z)) with (exp z * exp (o * z - z)) by (rewrite <- exp_plus; f_equal; ring).
    apply Rmult_le_compat_l; [lra | apply exp_ineq1_le]. }
  assert (B : exp z * (1 - z) <= 1).
  { replace 1 with (exp z * exp (- z)) at 2 by (rewrite <- exp_plus, <- exp_0; f_equal; ring).
    apply Rmult_le_compat_l; [lra |]. assert (T := exp_ineq1_le (- z)). lra. }
  nra.
Qed.

Section FromRenyi.
  Variables rdp order eps : R.
  Hypothesis O : 1 < order.
  Let best := exp ((order - 1) * (rdp - eps)) / (order - 1) * Rpower (1 - 1 / order) order.

  Lemma share : 0 < 1 - 1 / order.
  Proof. assert (1 / order < 1) by (apply Rmult_lt_reg_r with order; [lra |]; field_simplify; lra). lra. Qed.

  Lemma best_positive : 0 < best.
  Proof.
    apply Rmult_lt_0_compat; [| apply exp_pos]. apply Rdiv_lt_0_compat; [apply exp_pos | lra].
  Qed.

  (* With the loss measured from the one at which the bound is attained. *)
  Lemma bound_of : forall loss, best * exp ((order - 1) * (loss - rdp))
    = exp (order * (loss - eps + ln (1 - 1 / order))) * exp (eps - loss) / (order - 1).
  Proof.
    intros loss. unfold best, Rpower. unfold Rdiv.
    transitivity (exp ((order - 1) * (rdp - eps)) * exp (order * ln (1 - 1 * / order)) * exp ((order - 1) * (loss - rdp)) * / (order - 1));
      [ring |]. f_equal. rewrite <- !exp_plus. f_equal. ring.
  Qed.

  Lemma pointwise : forall loss, 1 - exp (eps - loss) <= best * exp ((order - 1) * (loss - rdp)).
  Proof.
    intros loss. rewrite bound_of. set (z := loss - eps + ln (1 - 1 / order)). assert (B := exp_bernoulli order z O).
    assert (Z : exp z = exp (loss - eps) * (1 - 1 / order)) by (unfold z; rewrite exp_plus, exp_ln by exact share; reflexivity).
    rewrite Z in B. assert (P := exp_pos (eps - loss)).
    assert (I : exp (loss - eps) * exp (eps - loss) = 1) by (rewrite <- exp_plus, <- exp_0; f_equal; ring).
    apply Rmult_le_reg_r with (order - 1); [lra |].
    apply Rle_trans with ((1 + order * (exp (loss - eps) * (1 - 1 / order) - 1)) * exp (eps - loss)).
    - right. transitivity (exp (eps - loss) * (1 - order) + (order - 1) * (exp (loss - eps) * exp (eps - loss))); [rewrite I; ring |].
      field. lra.
    - apply Rle_trans with (exp (order * z) * exp (eps - loss)); [apply Rmult_le_compat_r; lra |]. right. field. lra.
  Qed.

  Theorem smallest_factor : forall c,
    (forall loss, 1 - exp (eps - loss) <= c * exp ((order - 1) * (loss - rdp))) <-> best <= c.
  Proof.
    intros c. split; intros H.
    - set (loss := eps - ln (1 - 1 / order)). specialize (H loss). assert (B := bound_of loss).
      replace (order * (loss - eps + ln (1 - 1 / order))) with 0 in B by (unfold loss; ring).
      assert (Q : exp (eps - loss) = 1 - 1 / order).
      { unfold loss. replace (eps - (eps - ln (1 - 1 / order))) with (ln (1 - 1 / order)) by ring. apply exp_ln, share. }
      rewrite Q in H, B. rewrite exp_0 in B. assert (E := exp_pos ((order - 1) * (loss - rdp))).
      apply Rmult_le_reg_r with (exp ((order - 1) * (loss - rdp))); [exact E |]. rewrite B.
      apply Rle_trans with (1 - (1 - 1 / order)); [right; field; lra | exact H].
    - intros loss. apply Rle_trans with (best * exp ((order - 1) * (loss - rdp))); [apply pointwise |].
      apply Rmult_le_compat_r; [left; apply exp_pos | exact H].
  Qed.

  Theorem delta_from_renyi : forall k P Q, law k P -> law k Q -> renyi k order P Q <= rdp -> delta_at k eps P Q <= best.
  Proof.
    intros k P Q [PP _] [QQ _] D. set (f := fun i => Rpower (P i) order * Rpower (Q i) (1 - order)).
    assert (F : forall i, 0 < f i) by (intros; apply Rmult_lt_0_compat; apply exp_pos).
    assert (T : sum k f <= exp ((order - 1) * rdp)).
    { unfold renyi in D. fold f in D. destruct (Rle_or_lt (sum k f) 0) as [N | N]; [left; apply Rle_lt_trans with 0; [exact N | apply exp_pos] |].
      rewrite <- (exp_ln (sum k f) N). destruct (Req_dec (ln (sum k f)) ((order - 1) * rdp)) as [-> | M]; [lra |]. left.
      apply exp_increasing. assert (U : ln (sum k f) / (order - 1) * (order - 1) <= rdp * (order - 1)) by (apply Rmult_le_compat_r; lra).
      replace (ln (sum k f) / (order - 1) * (order - 1)) with (ln (sum k f)) in U by (field; lra). lra. }
    apply Rle_trans with (sum k (fun i => best * exp (- ((order - 1) * rdp)) * f i)).
    - apply sum_le. intros i I. assert (A := PP i I). assert (B := QQ i I). assert (G := F i).
      apply Rmax_lub; [left; apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [apply best_positive | apply exp_pos] | exact G] |].
      assert (W := pointwise (ln (P i) - ln (Q i))).
      assert (X : exp (eps - (ln (P i) - ln (Q i))) * P i = exp eps * Q i).
      { replace (eps - (ln (P i) - ln (Q i))) with (eps + ln (Q i) - ln (P i)) by ring. unfold Rminus.
        rewrite !exp_plus, exp_Ropp, !exp_ln by assumption. field. lra. }
      assert (Y : exp ((order - 1) * (ln (P i) - ln (Q i) - rdp)) * P i = exp (- ((order - 1) * rdp)) * f i).
      { unfold f, Rpower. rewrite <- (exp_ln (P i) A) at 2. rewrite <- !exp_plus. f_equal. ring. }
      assert (Z : (1 - exp (eps - (ln (P i) - ln (Q i)))) * P i
        <= best * exp ((order - 1) * (ln (P i) - ln (Q i) - rdp)) * P i) by (apply Rmult_le_compat_r; [left; exact A | exact W]).
      rewrite Rmult_minus_distr_r, X, Rmult_1_l, (Rmult_assoc best), Y in Z. lra.
    - rewrite sum_scal. assert (Bp := best_positive). assert (E := exp_pos (- ((order - 1) * rdp))).
      apply Rle_trans with (best * exp (- ((order - 1) * rdp)) * exp ((order - 1) * rdp)).
      + apply Rmult_le_compat_l; [apply Rmult_le_pos; lra | exact T].
      + right. rewrite Rmult_assoc, <- exp_plus. replace (- ((order - 1) * rdp) + (order - 1) * rdp) with 0 by ring. rewrite exp_0. ring.
  Qed.
End FromRenyi.

(* --- counts -------------------------------------------------------------------------------------------------------- *)

Lemma apart_of_one : forall users D D', items_apart users 1 D D' = users_apart users 1 D D'.
Proof.
  intros users D D'. apply sum_ext. intros u _. unfold differs. simpl.
  destruct (D u 0%nat =? D' u 0%nat)%nat; simpl; ring.
Qed.

Lemma groups_of : forall (A : Type) (k : nat) (groups : list (list A)), (forall g, In g groups -> length g = k) ->
  length (concat groups) = (length groups * k)%nat.
Proof.
  intros A k groups. induction groups as [| g groups IH]; intros H; [reflexivity |].
  simpl. rewrite app_length, (H g (or_introl eq_refl)), IH; [reflexivity |]. intros x X. apply H. right. exact X.
Qed.

(* --- expectations -------------------------------------------------------------------------------------------------- *)

Lemma normal_of_normal : forall z v w (Y : (R -> R) -> R) (X : R -> (R -> R) -> R),
  (forall f g, (forall y, f y = g y) -> Y f = Y g) -> (forall c f, Y (fun y => c * f y) = c * Y f) ->
  is_normal z w Y -> (forall y, is_normal y v (X y)) -> is_normal z (w + v) (fun f => Y (fun y => X y f)).
Proof.
  intros z v w Y X E S N M t. destruct (N t) as [C D].
  rewrite (E _ (fun y => exp (- (v * t ^ 2) / 2) * cos (t * y))) by (intros y; apply (M y t)).
  rewrite (E (fun y => X y (fun x => sin (t * x))) (fun y => exp (- (v * t ^ 2) / 2) * sin (t * y))) by (intros y; apply (M y t)).
  rewrite !S, C, D. split; rewrite <- Rmult_assoc, <- exp_plus; do 2 f_equal; field.
Qed.

(* The share of the error that the best mixture with a known mean saves. *)
Lemma mixture_saves : forall within between v, 0 < within -> 0 < between ->
  least (fun _ : R => True) (fun w => w ^ 2 * within + (1 - w) ^ 2 * between) v -> 1 - v / within = within / (between + within).
Proof.
  intros within between v W B L.
  assert (M : least (fun _ : R => True) (fun w => w ^ 2 * within + (1 - w) ^ 2 * between) (between * within / (between + within))).
  { split; [exists (between / (between + within)); split; [exact I | field; lra] |].
    intros w _. apply (at_most _ _ ((w * (between + within) - between) ^ 2 / (between + within))); [field; lra |].
    apply Rmult_le_pos; [apply pow2_ge_0 |]. left. apply Rinv_0_lt_compat. lra. }
  rewrite (least_unique _ _ _ _ _ L M). field. lra.
Qed.
