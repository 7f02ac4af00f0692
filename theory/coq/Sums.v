(* Finite sums of real numbers, over the members of a group and over the members of several levels.
   Hand-written and trusted by hash; nothing here knows of estimation. *)
Require Export Borrow.Positive.
Require Export Arith Bool Lia.

(* A whole number stands for itself among the reals: sizes are natural numbers, formulas are real. *)
Coercion INR : nat >-> R.

(* f 0 + ... + f (n - 1) *)
Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S m => sum m f + f m end.

(* Over all members i of all levels l, where level l has n l members. *)
Definition total (L : nat) (n : nat -> nat) (f : nat -> nat -> R) : R := sum L (fun l => sum (n l) (f l)).

Lemma sum_ext : forall n f g, (forall i, (i < n)%nat -> f i = g i) -> sum n f = sum n g.
Proof.
  induction n as [| n IH]; intros f g H; simpl; [reflexivity |].
  rewrite (IH f g); [rewrite (H n); [reflexivity | lia] |]. intros; apply H; lia.
Qed.

Lemma sum_plus : forall n f g, sum n (fun i => f i + g i) = sum n f + sum n g.
Proof. induction n as [| n IH]; intros; simpl; [lra |]. rewrite IH. ring. Qed.

Lemma sum_scal : forall n c f, sum n (fun i => c * f i) = c * sum n f.
Proof. induction n as [| n IH]; intros; simpl; [lra |]. rewrite IH. ring. Qed.

Lemma sum_const : forall n c, sum n (fun _ => c) = n * c.
Proof.
  induction n as [| n IH]; intros c; [simpl; lra |].
  change (sum n (fun _ => c) + c = S n * c). rewrite IH, S_INR. ring.
Qed.

Lemma sum_nonneg : forall n f, (forall i, (i < n)%nat -> 0 <= f i) -> 0 <= sum n f.
Proof.
  induction n as [| n IH]; intros f H; simpl; [lra |].
  assert (A := IH f (fun i P => H i (Nat.lt_lt_succ_r _ _ P))). assert (B := H n (Nat.lt_succ_diag_r n)). lra.
Qed.

(* A sum of terms that are not negative is zero only if every term is. *)
Lemma sum_zero : forall n f, (forall i, (i < n)%nat -> 0 <= f i) -> sum n f = 0 -> forall i, (i < n)%nat -> f i = 0.
Proof.
  induction n as [| n IH]; intros f H Z i I; [lia |]. simpl in Z.
  assert (A := sum_nonneg n f (fun j P => H j (Nat.lt_lt_succ_r _ _ P))). assert (B := H n (Nat.lt_succ_diag_r n)).
  destruct (Nat.eq_dec i n) as [-> | N]; [lra |]. apply (IH f); [| lra | lia]. intros; apply H; lia.
Qed.

(* The k-th term alone. *)
Lemma sum_pick : forall n k f, (k < n)%nat -> sum n (fun i => if i =? k then f i else 0) = f k.
Proof.
  induction n as [| n IH]; intros k f H; [lia |]. simpl. destruct (Nat.eqb_spec n k) as [-> | N].
  - rewrite (sum_ext k _ (fun _ => 0)), sum_const; [lra |]. intros i I. destruct (Nat.eqb_spec i k); [lia | reflexivity].
  - rewrite IH; [lra | lia].
Qed.

Lemma total_ext : forall L n f g, (forall l i, (l < L)%nat -> (i < n l)%nat -> f l i = g l i) -> total L n f = total L n g.
Proof. intros L n f g H. apply sum_ext. intros l A. apply sum_ext. intros i B. apply H; assumption. Qed.

Lemma total_plus : forall L n f g, total L n (fun l i => f l i + g l i) = total L n f + total L n g.
Proof.
  intros. unfold total. rewrite <- sum_plus. apply sum_ext. intros. apply (sum_plus (n i) (f i) (g i)).
Qed.

Lemma total_scal : forall L n c f, total L n (fun l i => c * f l i) = c * total L n f.
Proof. intros. unfold total. rewrite <- sum_scal. apply sum_ext. intros. apply (sum_scal (n i) c (f i)). Qed.

Lemma total_nonneg : forall L n f, (forall l i, (l < L)%nat -> (i < n l)%nat -> 0 <= f l i) -> 0 <= total L n f.
Proof. intros L n f H. apply sum_nonneg. intros l A. apply sum_nonneg. intros i B. apply H; assumption. Qed.

Lemma total_zero : forall L n f, (forall l i, (l < L)%nat -> (i < n l)%nat -> 0 <= f l i) -> total L n f = 0 ->
  forall l i, (l < L)%nat -> (i < n l)%nat -> f l i = 0.
Proof.
  intros L n f H Z l i A B. apply (sum_zero (n l) (f l)); [intros; apply H; assumption | | assumption].
  apply (sum_zero L (fun l => sum (n l) (f l))); [| exact Z | assumption].
  intros. apply sum_nonneg. intros. apply H; assumption.
Qed.

(* Whether (l, i) is the client (a, b). *)
Definition is (a b l i : nat) : bool := ((l =? a) && (i =? b))%bool.

Lemma is_spec : forall a b l i, reflect (l = a /\ i = b) (is a b l i).
Proof.
  intros. unfold is. destruct (Nat.eqb_spec l a); destruct (Nat.eqb_spec i b); constructor; tauto.
Qed.

Lemma total_pick : forall L n a b f, (a < L)%nat -> (b < n a)%nat ->
  total L n (fun l i => if is a b l i then f l i else 0) = f a b.
Proof.
  intros L n a b f A B. unfold total.
  rewrite (sum_ext L _ (fun l => if l =? a then f l b else 0)); [apply (sum_pick L a (fun l => f l b) A) |].
  intros l P. unfold is. destruct (Nat.eqb_spec l a) as [-> | N]; simpl.
  - apply (sum_pick (n a) b (f a) B).
  - rewrite sum_const. lra.
Qed.

(* Weights that are equal within a level. *)
Lemma total_level : forall L n f, total L n (fun l _ => f l) = sum L (fun l => n l * f l).
Proof. intros. apply sum_ext. intros. apply sum_const. Qed.

(* What belongs to each of two or three levels, or to every level alike. *)
Definition two {A} (x y : A) (l : nat) : A := match l with O => x | _ => y end.
Definition three {A} (x y z : A) (l : nat) : A := match l with O => x | S O => y | _ => z end.
Definition same {A} (x : A) (_ : nat) : A := x.
