(* The tactic `rational`: an equality of rational functions, as `field` proves it and by the same theorem, but read at once.
   `field` reads a formula sign by sign in Coq's tactic language, which is most of its time; here letters and operations are
   abstracted from the whole formula, and what is left is given the operations of formulas as data instead of those of the
   reals. Coq's kernel compares the two. *)
Require Export Reals Lra Psatz.
Require Import Field_theory Ring_polynom RealField BinList.
Open Scope R_scope.

Module Reading.

Lemma whole_numbers : ring_morph 0 1 Rplus Rmult Rminus Ropp eq 0%Z 1%Z Z.add Z.mul Z.sub Z.opp Zeq_bool IZR.
Proof.
  constructor; try reflexivity; [exact plus_IZR | exact minus_IZR | exact mult_IZR | exact opp_IZR |].
  intros x y E. f_equal. apply Zeq_bool_eq, E.
Qed.

Lemma whole_equal : forall a b, IZR a = IZR b -> Zeq_bool a b = true.
Proof. intros a b E. apply Zeq_is_eq_bool, eq_IZR, E. Qed.

Lemma inverse_equal : forall p q : R, p = q -> / p = / q.
Proof. intros p q ->. reflexivity. Qed.

Definition undivided (a b : Z) : Z * Z := (0%Z, a).

Lemma undivided_is : div_theory eq Z.add Z.mul IZR undivided.
Proof. constructor. intros a b. unfold undivided. now rewrite Z.mul_0_r. Qed.

Definition value := FEeval 0 1 Rplus Rmult Rminus Ropp Rdiv Rinv IZR N.to_nat pow.
Definition fraction := Fnorm 0%Z 1%Z Z.add Z.mul Z.sub Z.opp Zeq_bool.
Definition expanded := norm_subst 0%Z 1%Z Z.add Z.mul Z.sub Z.opp Zeq_bool undivided 0 nil.

(* Of the difference, whose common denominator has each factor once. *)
Definition equal (p q : FExpr Z) : bool := Peq Zeq_bool (expanded (num (fraction (FEsub p q)))) (Pc 0%Z).

(* What has to differ from 0, each once and in factors. *)
Definition divisors (p q : FExpr Z) : list (PExpr Z) :=
  Fapp (Fcons2 0%Z 1%Z Z.add Z.mul Z.sub Z.opp Zeq_bool undivided) (condition (fraction p) ++ condition (fraction q)) nil.
Definition nonzeros := PCond 0 1 Rplus Rmult Rminus Ropp eq IZR N.to_nat pow.

Lemma equal_values : forall l p q d, equal p q = true -> divisors p q = d -> nonzeros l d -> value l p = value l q.
Proof.
  intros l p q d S E H. subst d. assert (A := F2AF Rset Rext Rfield).
  assert (C : nonzeros l (condition (fraction (FEsub p q)))).
  { apply (Pcond_simpl_complete Rset Rext A whole_numbers R_power_theory undivided_is whole_equal).
    intros lock ->. exact H. }
  apply Rminus_diag_uniq.
  change (value l (FEsub p q) = 0).
  unfold value. rewrite (Fnorm_FEeval_PEeval Rset Rext inverse_equal A whole_numbers R_power_theory l (FEsub p q) C).
  apply Rmult_eq_0_compat_r.
  apply (eq_trans (norm_subst_ok Rset Rext (AF_AR A) whole_numbers R_power_theory undivided_is 0 l nil _ I)).
  exact (Peq_ok Rset Rext whole_numbers _ _ S l).
Qed.

(* The letters of a formula: variables, and sizes. *)
Ltac letters_of t known :=
  match t with
  | context [INR ?n] =>
      lazymatch known with context [INR n] => fail | _ => letters_of t (cons (INR n) known) end
  | _ =>
      match goal with
      | x : R |- _ =>
          lazymatch known with
          | context [x] => fail
          | _ => lazymatch t with context [x] => letters_of t (cons x known) end
          end
      end
  | _ => known
  end.

Ltac without t letters :=
  lazymatch letters with
  | nil => t
  | cons ?x ?rest => lazymatch (eval pattern x in t) with ?f _ => without f rest end
  end.

Ltac numbered f letters k :=
  lazymatch letters with
  | nil => f
  | cons _ ?rest => let f := numbered f rest (Pos.succ k) in constr:(f (@FEX Z k))
  end.

Ltac read t letters :=
  let t := without t letters in
  lazymatch (eval pattern R, Rplus, Rmult, Rminus, Ropp, Rdiv, Rinv, pow, IZR in t) with
  | ?f _ _ _ _ _ _ _ _ _ =>
      let f := lazymatch f with fun real : Set => ?g => constr:(fun real : Type => g) end in
      let f := constr:(f (FExpr Z) (@FEadd Z) (@FEmul Z) (@FEsub Z) (@FEopp Z) (@FEdiv Z) (@FEinv Z)
                (fun e n => FEpow e (N.of_nat n)) (@FEc Z)) in
      let e := numbered f letters 1%positive in
      eval cbv beta iota delta [N.of_nat Pos.of_succ_nat Pos.succ] in e
  end.

(* In two steps, the letters last, so that nothing inside a letter is computed. *)
Ltac differ_from_0 d letters :=
  let h := eval cbv beta iota delta [nonzeros PCond PEeval N.to_nat Pos.to_nat Pos.iter_op Nat.add] in (fun l => nonzeros l d) in
  eval cbv beta iota delta [nth jump hd tl] in (h letters).

End Reading.

(* Where the formulas have other functions than those of a field, `unread` has the word. *)
Ltac rational_or unread :=
  lazymatch goal with
  | |- ?a = ?b =>
      let letters := Reading.letters_of (a + b) (@nil R) in
      let pair :=
        match goal with
        | _ => let p := Reading.read a letters in let q := Reading.read b letters in constr:((p, q))
        | _ => constr:(I)
        end in
      lazymatch pair with
      | (?p, ?q) =>
          (* As a lemma of its own, so that Coq's kernel computes it once, here, and not again at the theorem's end. *)
          let S := fresh in
          assert (S : Reading.equal p q = true) by (clear; abstract (vm_cast_no_check (eq_refl true)));
          let d := eval vm_compute in (Reading.divisors p q) in
          let all := Reading.differ_from_0 d letters in
          let H := fresh in
          cut all;
          [ intro H; exact_no_check (Reading.equal_values letters p q d S (eq_refl d <: Reading.divisors p q = d) H)
          | clear S; try exact I ]
      | _ => unread ()
      end
  end.

(* What is left to prove is that the denominators are not 0. *)
Ltac rational := rational_or ltac:(fun _ => fail).
