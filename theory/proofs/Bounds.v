(* Bounds of what Gaussian noise really gives, and of records that are clipped. *)
Require Export Borrow.Lines.
Open Scope R_scope.

(* Bernoulli's inequality: the chance that one of n has what each has with chance x. *)
Lemma one_of : forall n x, 0 <= x <= 1 -> 1 - (1 - x) ^ n <= INR n * x.
Proof.
  intros n x [A B]. induction n as [| n IH]; [simpl; lra |].
  assert (P : 0 <= (1 - x) ^ n) by (apply pow_le; lra). assert (Q : (1 - x) ^ n <= 1).
  { apply Rle_trans with (1 ^ n); [apply pow_incr; lra | rewrite pow1; lra]. }
  change ((1 - x) ^ S n) with ((1 - x) * (1 - x) ^ n). rewrite S_INR.
  assert (M : x * (1 - x) ^ n <= x * 1) by (apply Rmult_le_compat_l; lra).
  replace ((1 - x) * (1 - x) ^ n) with ((1 - x) ^ n - x * (1 - x) ^ n) by ring. lra.
Qed.

(* erfc of the root of a logarithm is at most what it is the logarithm of. *)
Lemma erfc_root : forall x y, 0 <= y -> y <= x ^ 2 -> 0 <= x -> erfc x <= exp (- y).
Proof.
  intros x y A B C. apply Rle_trans with (exp (- x ^ 2)); [now apply erfc_bell | apply exp_at_most; lra].
Qed.

Theorem no_record_is_clipped : forall n beta x y, (1 <= n)%nat -> 0 < beta <= 1 -> 0 <= x -> 0 <= y ->
  ln (n / beta) <= x ^ 2 -> ln (n / beta) <= y ^ 2 ->
  1 - (1 - (erfc x / 2 + erfc y / 2)) ^ n <= beta.
Proof.
  intros n beta x y N B X Y P Q. apply le_INR in N. simpl in N.
  assert (D : 1 <= n / beta) by (apply Rmult_le_reg_r with beta; [lra |]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra).
  assert (L : 0 <= ln (n / beta)) by (rewrite <- ln_1; destruct D as [D | <-]; [left; apply ln_increasing; lra | lra]).
  assert (E : exp (- ln (n / beta)) = beta / n) by (rewrite exp_Ropp, exp_ln by lra; field; lra).
  assert (U := erfc_root x _ L P X). assert (V := erfc_root y _ L Q Y). rewrite E in U, V.
  assert (Z : beta / n <= 1) by (apply Rmult_le_reg_r with (INR n); [lra |]; unfold Rdiv; rewrite Rmult_assoc, Rinv_l by lra; lra).
  assert (A := erfc_nonneg x). assert (C := erfc_nonneg y).
  apply Rle_trans with (n * (erfc x / 2 + erfc y / 2)); [apply one_of; lra |].
  apply Rle_trans with (n * (beta / n)); [apply Rmult_le_compat_l; lra | right; field; lra].
Qed.

(* Theorem 1 at full batches, for eps of at most ln (1/delta) and c2 of at least 2. *)
Lemma enough_noise : forall c2 t s x, 2 <= c2 -> 0 <= t <= 1 -> 0 < s -> sqrt 2 * x = s * (c2 - t / (2 * c2)) ->
  erfc x / 2 <= exp (- s ^ 2).
Proof.
  intros c2 t s x A B C E. assert (R := root_two). assert (Q := root_two_square).
  assert (F : 7 / 4 <= c2 - t / (2 * c2)).
  { apply Rmult_le_reg_r with (2 * c2); [lra |]. replace ((c2 - t / (2 * c2)) * (2 * c2)) with (2 * c2 ^ 2 - t) by (field; lra). nra. }
  assert (X : 0 <= x). { apply Rmult_le_reg_l with (sqrt 2); [lra |]. rewrite Rmult_0_r, E. apply Rmult_le_pos; lra. }
  assert (Y : s ^ 2 <= x ^ 2).
  { assert (Z : (sqrt 2 * x) ^ 2 = s ^ 2 * (c2 - t / (2 * c2)) ^ 2) by (rewrite E; apply Rpow_mult_distr).
    replace ((sqrt 2 * x) ^ 2) with (sqrt 2 ^ 2 * x ^ 2) in Z by ring. rewrite Q in Z.
    assert (W : 2 <= (c2 - t / (2 * c2)) ^ 2) by nra. assert (P := pow2_ge_0 s). nra. }
  assert (T := erfc_root x (s ^ 2) (pow2_ge_0 s) Y X). assert (P := exp_pos (- s ^ 2)). lra.
Qed.

(* Whatever the constants: eps = 2 x^2 + 6 x over a shift of 2 x + 6, in units of the noise. *)
Lemma no_constants : forall e x a b, 0 < x -> e = 2 * x ^ 2 + 6 * x -> sqrt 2 * a = 3 -> sqrt 2 * b = 2 * x + 3 ->
  99 / 100 <= 1 - erfc a / 2 - exp e * erfc b / 2.
Proof.
  intros e x a b P -> A B. assert (R := root_two). assert (Q := root_two_square). assert (S := sqrt_pi).
  assert (V : 177 / 100 <= sqrt PI) by interval with (i_prec 40).
  assert (A2 : a ^ 2 = 9 / 2) by (assert (Z : (sqrt 2 * a) ^ 2 = 9) by (rewrite A; ring); replace ((sqrt 2 * a) ^ 2) with (sqrt 2 ^ 2 * a ^ 2) in Z by ring; rewrite Q in Z; lra).
  assert (B2 : b ^ 2 = (2 * x + 3) ^ 2 / 2) by (assert (Z : (sqrt 2 * b) ^ 2 = (2 * x + 3) ^ 2) by (rewrite B; ring); replace ((sqrt 2 * b) ^ 2) with (sqrt 2 ^ 2 * b ^ 2) in Z by ring; rewrite Q in Z; lra).
  assert (W : sqrt 2 <= 3 / 2) by interval with (i_prec 40).
  assert (A0 : 2 <= a) by (apply Rnot_lt_le; intro; nra). assert (B0 : 2 <= b) by (apply Rnot_lt_le; intro; nra).
  assert (small : exp (- (9 / 2)) <= 1112 / 100000) by interval with (i_prec 40). assert (U := exp_pos (- (9 / 2))).
  assert (each : forall c, 2 <= c -> exp (- c ^ 2) / (c * sqrt PI) <= exp (- c ^ 2) / (354 / 100)).
  { intros c C. apply Rmult_le_compat_l; [left; apply exp_pos |]. apply Rinv_le_contravar; nra. }
  assert (M := erfc_mills a ltac:(lra)). assert (N := erfc_mills b ltac:(lra)).
  assert (M' := each a A0). assert (N' := each b B0). rewrite A2 in M', M. rewrite B2 in N', N.
  assert (K : exp (2 * x ^ 2 + 6 * x) * (exp (- ((2 * x + 3) ^ 2 / 2)) / (354 / 100)) = exp (- (9 / 2)) / (354 / 100)).
  { unfold Rdiv at 1. rewrite <- Rmult_assoc, <- exp_plus. replace (2 * x ^ 2 + 6 * x + - ((2 * x + 3) ^ 2 / 2)) with (- (9 / 2)) by field. reflexivity. }
  assert (O : exp (2 * x ^ 2 + 6 * x) * erfc b <= exp (2 * x ^ 2 + 6 * x) * (exp (- ((2 * x + 3) ^ 2 / 2)) / (354 / 100))).
  { apply Rmult_le_compat_l; [left; apply exp_pos | lra]. }
  rewrite K in O. lra.
Qed.
