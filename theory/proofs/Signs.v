(* The tactic `by_sign`: the sign of a formula, computed from those of its letters. A formula is read as `rational` reads it;
   then its sign follows from its parts, or, where minus signs cancel, from the coefficients of its polynomial. *)
Require Export Borrow.Rational.
Require Import Field_theory Ring_polynom RealField BinList.
Open Scope R_scope.

Module Signs.

Inductive sign := Plus | NotMinus | Zero | NotPlus | Minus | Any.

Definition is (s : sign) (x : R) : Prop :=
  match s with
  | Plus => 0 < x | NotMinus => 0 <= x | Zero => x = 0 | NotPlus => x <= 0 | Minus => x < 0 | Any => True
  end.

(* The signs of letters; of those that are not listed nothing is known. *)
Fixpoint agree (e : list sign) (l : list R) : Prop :=
  match e with nil => True | cons s e => is s (hd 0 l) /\ agree e (tl l) end.

Definition add a b :=
  match a, b with
  | Zero, s | s, Zero => s
  | Plus, (Plus | NotMinus) | NotMinus, Plus => Plus
  | NotMinus, NotMinus => NotMinus
  | Minus, (Minus | NotPlus) | NotPlus, Minus => Minus
  | NotPlus, NotPlus => NotPlus
  | _, _ => Any
  end.

Definition opp a := match a with Plus => Minus | NotMinus => NotPlus | Minus => Plus | NotPlus => NotMinus | _ => a end.

Definition weak a := match a with Plus => NotMinus | Minus => NotPlus | _ => a end.

Definition mul a b :=
  match b with
  | Zero => Zero
  | _ => match a with Plus => b | NotMinus => weak b | Minus => opp b | NotPlus => opp (weak b) | Zero | Any => a end
  end.

Definition inv a := match a with Plus => Plus | Minus => Minus | _ => Any end.

Definition of_number (c : Z) := match c with Z0 => Zero | Zpos _ => Plus | Zneg _ => Minus end.

Definition even_power a := match a with Plus | Minus => Plus | _ => NotMinus end.

Definition power a (n : positive) := match n with xO _ => even_power a | _ => a end.

Lemma add_is : forall a b x y, is a x -> is b y -> is (add a b) (x + y).
Proof. intros [] [] x y; simpl; intros; try exact I; lra. Qed.

Lemma opp_is : forall a x, is a x -> is (opp a) (- x).
Proof. intros [] x; simpl; intros; try exact I; lra. Qed.

Lemma mul_is : forall a b x y, is a x -> is b y -> is (mul a b) (x * y).
Proof. intros [] [] x y; simpl; intros; try exact I; nra. Qed.

Lemma inv_is : forall a x, is a x -> is (inv a) (/ x).
Proof.
  intros [] x H; simpl in *; try exact I; [apply Rinv_0_lt_compat, H | apply Rinv_lt_0_compat, H].
Qed.

Lemma of_number_is : forall c, is (of_number c) (IZR c).
Proof. intros [| p | p]; simpl; [lra | apply IZR_lt; reflexivity | apply IZR_lt; reflexivity]. Qed.

Lemma even_is : forall a x n, is a x -> is (even_power a) (x ^ (2 * n)).
Proof.
  intros a x n H. rewrite pow_mult.
  destruct a; simpl in H; try (apply pow_le, pow2_ge_0); apply pow_lt; simpl; nra.
Qed.

Lemma power_is : forall a x n, is a x -> is (power a n) (x ^ Pos.to_nat n).
Proof.
  intros a x n H. destruct n as [n | n |].
  - rewrite Pos2Nat.inj_xI. change (power a n~1) with a. simpl pow.
    assert (E := even_is a x (Pos.to_nat n) H).
    replace (Pos.to_nat n + (Pos.to_nat n + 0))%nat with (2 * Pos.to_nat n)%nat by reflexivity.
    destruct a; simpl in *; try exact I; nra.
  - rewrite Pos2Nat.inj_xO. apply even_is, H.
  - change (Pos.to_nat 1) with 1%nat. rewrite pow_1. exact H.
Qed.

Lemma agree_jump : forall p e l, agree e l -> agree (jump p e) (jump p l).
Proof.
  assert (T : forall e l, agree e l -> agree (tl e) (tl l)) by (intros [| s e] l H; [exact I | apply H]).
  induction p as [p IH | p IH |]; intros e l H; simpl; auto.
Qed.

Lemma agree_hd : forall e l, agree e l -> is (hd Any e) (hd 0 l).
Proof. intros [| s e] l H; [exact I | apply H]. Qed.

Lemma agree_nth : forall p e l, agree e l -> is (nth Any p e) (nth 0 p l).
Proof.
  assert (T : forall e l, agree e l -> agree (tl e) (tl l)) by (intros [| s e] l H; [exact I | apply H]).
  induction p as [p IH | p IH |]; intros e l H; simpl; auto using agree_jump, agree_hd.
Qed.

(* By parts. *)
Fixpoint of (e : list sign) (f : FExpr Z) : sign :=
  match f with
  | FEO => Zero
  | FEI => Plus
  | FEc c => of_number c
  | FEX _ x => nth Any x e
  | FEadd f g => add (of e f) (of e g)
  | FEsub f g => add (of e f) (opp (of e g))
  | FEmul f g => mul (of e f) (of e g)
  | FEopp f => opp (of e f)
  | FEinv f => inv (of e f)
  | FEdiv f g => mul (of e f) (inv (of e g))
  | FEpow f N0 => Plus
  | FEpow f (Npos n) => power (of e f) n
  end.

Lemma of_is : forall e l, agree e l -> forall f, is (of e f) (Reading.value l f).
Proof.
  intros e l A. induction f; simpl; try (change (Reading.value l _) with 0); unfold Reading.value in *; simpl;
    try solve [lra | apply of_number_is | apply agree_nth, A
      | apply add_is; assumption | apply mul_is; assumption | apply opp_is; assumption | apply inv_is; assumption].
  - unfold Rminus. apply add_is; [assumption | apply opp_is; assumption].
  - unfold Rdiv. apply mul_is; [assumption | apply inv_is; assumption].
  - destruct n as [| n]; simpl; [lra | apply power_is; assumption].
Qed.

(* By coefficients. *)
Fixpoint polynomial (f : FExpr Z) : option (PExpr Z) :=
  let two make f g := match polynomial f, polynomial g with Some p, Some q => Some (make p q) | _, _ => None end in
  match f with
  | FEO => Some (PEc 0%Z)
  | FEI => Some (PEc 1%Z)
  | FEc c => Some (PEc c)
  | FEX _ x => Some (PEX _ x)
  | FEadd f g => two (@PEadd Z) f g
  | FEsub f g => two (@PEsub Z) f g
  | FEmul f g => two (@PEmul Z) f g
  | FEopp f => option_map (@PEopp Z) (polynomial f)
  | FEpow f n => option_map (fun p => PEpow p n) (polynomial f)
  | FEinv _ | FEdiv _ _ => None
  end.

Definition value_of_polynomial := PEeval 0 1 Rplus Rmult Rminus Ropp IZR N.to_nat pow.

Lemma polynomial_is : forall l f p, polynomial f = Some p -> value_of_polynomial l p = Reading.value l f.
Proof.
  intros l. unfold value_of_polynomial, Reading.value.
  induction f; simpl; intros r E; try discriminate;
    repeat match type of E with context [polynomial ?g] => destruct (polynomial g); try discriminate end;
    injection E; intros <-; simpl; try reflexivity;
    repeat match goal with IH : forall _, Some ?a = Some _ -> _ |- _ => specialize (IH a eq_refl) end; congruence.
Qed.

Fixpoint of_coefficients (e : list sign) (P : Pol Z) : sign :=
  match P with
  | Pc c => of_number c
  | Pinj j Q => of_coefficients (jump j e) Q
  | PX P i Q => add (mul (of_coefficients e P) (power (hd Any e) i)) (of_coefficients (tl e) Q)
  end.

Definition value_of_coefficients := Pphi 0 Rplus Rmult IZR.

Lemma pow_pos_is : forall x n, pow_pos Rmult x n = x ^ Pos.to_nat n.
Proof. intros x n. symmetry. exact (rpow_pow_N R_power_theory x (Npos n)). Qed.

Lemma of_coefficients_is : forall P e l, agree e l -> is (of_coefficients e P) (value_of_coefficients l P).
Proof.
  unfold value_of_coefficients. induction P as [c | j Q IH | P IP i Q IQ]; intros e l A; simpl.
  - apply of_number_is.
  - apply IH, agree_jump, A.
  - apply add_is.
    + apply mul_is; [apply IP, A |]. rewrite pow_pos_is. apply power_is, agree_hd, A.
    + apply IQ. exact (agree_jump 1 e l A).
Qed.

Definition expansion (e : list sign) (f : FExpr Z) : sign :=
  match polynomial f with Some p => of_coefficients e (Reading.expanded p) | None => Any end.

Lemma expansion_is : forall e l f, agree e l -> is (expansion e f) (Reading.value l f).
Proof.
  intros e l f A. unfold expansion. destruct (polynomial f) as [p |] eqn:E; [| exact I].
  rewrite <- (polynomial_is l f p E).
  replace (value_of_polynomial l p) with (value_of_coefficients l (Reading.expanded p)); [apply of_coefficients_is, A |].
  symmetry.
  exact (norm_subst_ok Rset Rext (F2AF Rset Rext Rfield).(AF_AR) Reading.whole_numbers R_power_theory Reading.undivided_is
    0 l nil p I).
Qed.

(* A sign by parts is quick; coefficients are asked where it decides nothing and all letters have signs. *)
Definition sure a := match a with Plus | Minus => true | _ => false end.
Definition known a := match a with Any => false | _ => true end.
Definition sign_of e f :=
  let s := of e f in
  if sure s then s else if forallb known e then match expansion e f with Any => s | t => t end else s.

Lemma sign_of_is : forall e l f, agree e l -> is (sign_of e f) (Reading.value l f).
Proof.
  intros e l f A. unfold sign_of. assert (X := of_is e l A f). assert (Y := expansion_is e l f A).
  destruct (sure (of e f)); [exact X |]. destruct (forallb known e); [| exact X]. destruct (expansion e f); assumption.
Qed.

Lemma above_0 : forall e l f, agree e l -> sign_of e f = Plus -> 0 < Reading.value l f.
Proof. intros e l f A E. assert (X := sign_of_is e l f A). rewrite E in X. exact X. Qed.

Definition not_below s := match s with Plus | NotMinus | Zero => true | _ => false end.
Lemma not_below_0 : forall e l f, agree e l -> not_below (sign_of e f) = true -> 0 <= Reading.value l f.
Proof.
  intros e l f A E. assert (X := sign_of_is e l f A). destruct (sign_of e f); try discriminate E; simpl in X; lra.
Qed.

Lemma apart_from_0 : forall e l f, agree e l -> sure (sign_of e f) = true -> Reading.value l f <> 0.
Proof.
  intros e l f A E. assert (X := sign_of_is e l f A). destruct (sign_of e f); try discriminate E; simpl in X; lra.
Qed.

(* `lra` would look through all that is known. *)
Lemma from_number : forall p x, IZR (Zpos p) <= x -> 0 < x.
Proof. intros p x H. apply Rlt_le_trans with (2 := H). now apply IZR_lt. Qed.

(* What is known of each letter, with its proof. *)
Ltac signs_of letters :=
  lazymatch letters with
  | nil => constr:((@nil sign, I))
  | cons ?x ?rest =>
      let known :=
        match goal with
        | H : 0 < x |- _ => constr:((Plus, H))
        | H : IZR (Zpos ?p) <= x |- _ => constr:((Plus, from_number p x H))
        | H : ?low <= x |- _ =>
            lazymatch low with 0 => fail | _ => let P := constr:(ltac:(lra) : 0 < x) in constr:((Plus, P)) end
        | H : 0 <= x |- _ => constr:((NotMinus, H))
        | H : 0 < x < _ |- _ => constr:((Plus, proj1 H))
        | H : 0 <= x <= _ |- _ => constr:((NotMinus, proj1 H))
        | _ => constr:((Any, I))
        end in
      lazymatch known with
      | (?s, ?p) =>
          lazymatch signs_of rest with (?e, ?q) => constr:((cons s e, conj p q)) end
      end
  end.

Ltac with_signs x run :=
  Reading.read_two x x
    ltac:(fun f _ letters => lazymatch signs_of letters with (?e, ?a) => run e letters f a end)
    ltac:(fun _ => fail).

End Signs.

Ltac by_sign :=
  lazymatch goal with
  | |- 0 < ?x =>
      Signs.with_signs x ltac:(fun e l f a =>
        lazymatch (eval vm_compute in (Signs.sign_of e f)) with
        | Signs.Plus => exact_no_check (Signs.above_0 e l f a (eq_refl Signs.Plus <: Signs.sign_of e f = Signs.Plus))
        end)
  | |- 0 <= ?x =>
      Signs.with_signs x ltac:(fun e l f a =>
        lazymatch (eval vm_compute in (Signs.not_below (Signs.sign_of e f))) with
        | true => exact_no_check (Signs.not_below_0 e l f a (eq_refl true <: Signs.not_below (Signs.sign_of e f) = true))
        end)
  | |- ?x <> 0 =>
      Signs.with_signs x ltac:(fun e l f a =>
        lazymatch (eval vm_compute in (Signs.sure (Signs.sign_of e f))) with
        | true => exact_no_check (Signs.apart_from_0 e l f a (eq_refl true <: Signs.sure (Signs.sign_of e f) = true))
        end)
  end.
