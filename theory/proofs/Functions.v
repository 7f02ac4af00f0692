(* What proofs about exponentials, logarithms, roots and powers share: Coq's own lemmas on sums and products, one at a time. *)
Require Export Borrow.Positive.
Require Import Lia.
Open Scope R_scope.

Lemma exp_two : forall a b c x y, a = b + c -> exp b = x -> exp c = y -> exp a = x * y.
Proof. intros a b c x y -> <- <-. apply exp_plus. Qed.

Lemma exp_same : forall a b x, a = b -> exp b = x -> exp a = x.
Proof. intros a b x -> <-. reflexivity. Qed.

Lemma ln_same : forall a b x, a = b -> ln b = x -> ln a = x.
Proof. intros a b x -> <-. reflexivity. Qed.

Lemma sqrt_same : forall a b x, a = b -> sqrt b = x -> sqrt a = x.
Proof. intros a b x -> <-. reflexivity. Qed.

Lemma exp_power : forall n a b, a = INR n * b -> exp a = exp b ^ n.
Proof.
  intros n a b ->. induction n as [| n IH].
  - simpl. rewrite Rmult_0_l. apply exp_0.
  - rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus, IH. simpl. ring.
Qed.

Lemma exp_inverse : forall n a b, a = - (INR n * b) -> exp a = / exp b ^ n.
Proof. intros n a b ->. rewrite exp_Ropp. f_equal. now apply exp_power. Qed.

Lemma exp_ln_power : forall n a x, 0 < x -> a = INR n * ln x -> exp a = x ^ n.
Proof. intros n a x H E. rewrite (exp_power n a (ln x) E). now rewrite exp_ln. Qed.

Lemma exp_ln_inverse : forall n a x, 0 < x -> a = - (INR n * ln x) -> exp a = / x ^ n.
Proof. intros n a x H E. rewrite (exp_inverse n a (ln x) E). now rewrite exp_ln. Qed.

Lemma ln_two : forall a b c x y, a = b * c -> 0 < b -> 0 < c -> ln b = x -> ln c = y -> ln a = x + y.
Proof. intros a b c x y -> B C <- <-. now apply ln_mult. Qed.

Lemma ln_power : forall n x, 0 < x -> ln (x ^ n) = INR n * ln x.
Proof.
  intros n x H. induction n as [| n IH].
  - simpl. rewrite ln_1. ring.
  - change (x ^ S n) with (x * x ^ n). rewrite ln_mult, IH, S_INR; [ring | assumption | now apply pow_lt].
Qed.

Lemma ln_inverse : forall n x, 0 < x -> ln (/ x ^ n) = - (INR n * ln x).
Proof. intros n x H. rewrite ln_Rinv, ln_power; [ring | assumption | now apply pow_lt]. Qed.

Lemma sqrt_two : forall a b c x y, a = b * c -> 0 <= b -> 0 <= c -> sqrt b = x -> sqrt c = y -> sqrt a = x * y.
Proof. intros a b c x y -> B C <- <-. now apply sqrt_mult. Qed.

Lemma sqrt_power : forall n x, 0 < x -> sqrt (x ^ n) = sqrt x ^ n.
Proof.
  intros n x H. induction n as [| n IH]; [apply sqrt_1 |].
  change (x ^ S n) with (x * x ^ n). rewrite sqrt_mult, IH; [reflexivity | lra | left; now apply pow_lt].
Qed.

Lemma sqrt_inverse : forall n x, 0 < x -> sqrt (/ x ^ n) = / sqrt x ^ n.
Proof. intros n x H. rewrite sqrt_inv, sqrt_power; [reflexivity | assumption]. Qed.

Lemma sqrt_square : forall x, 0 < x -> sqrt x ^ 2 = x.
Proof. intros x H. rewrite <- Rsqr_pow2. apply Rsqr_sqrt. lra. Qed.

Lemma opposite_abs : forall a b, a = - b -> Rabs a = Rabs b.
Proof. intros a b ->. apply Rabs_Ropp. Qed.

(* The least whole number that is not smaller. *)
Definition ceiling_of (x : R) : R := - IZR (Int_part (- x)).

Lemma ceiling_is : forall x n, IZR n - 1 < x <= IZR n -> ceiling_of x = IZR n.
Proof.
  intros x n H. unfold ceiling_of. destruct (base_Int_part (- x)) as [A B].
  assert (E : Int_part (- x) = (- n)%Z); [| rewrite E, opp_IZR; ring].
  assert (L : (Int_part (- x) < - n + 1)%Z) by (apply lt_IZR; rewrite plus_IZR, opp_IZR; lra).
  assert (U : (- n - 1 < Int_part (- x))%Z) by (apply lt_IZR; rewrite minus_IZR, opp_IZR; lra). lia.
Qed.

(* Factors that a logarithm or a root takes. *)
Ltac factor_positive := first [ assumption | solve [ positive ] | lra | nra ].

(* Numbers of factors are whole numbers written out. *)
Ltac counted := cbn [INR]; identity.
