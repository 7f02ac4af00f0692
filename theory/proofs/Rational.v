(* The tactic `rational`: an equality of rational functions, as `field` proves it and by the same theorem, but read at once.
   `field` reads a formula sign by sign in Coq's tactic language, which is most of its time; here a program reads it part by
   part and asks Coq for no types on the way. Nothing rests on that program: Coq's kernel compares what was read with the
   formula. *)
Require Export Reals Lra Psatz.
Require Import Field_theory Ring_polynom RealField BinList.
From Ltac2 Require Ltac2.
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

Module Reader.
Import Ltac2.Ltac2.
Import Ltac2.Constr.Unsafe.

Ltac2 Type exn ::= [ Unread ].

Ltac2 applied (f : constr) (x : constr) : constr := make (App f (Array.make 1 x)).

Ltac2 rec positive_number (k : int) : constr :=
  match Int.equal k 1 with
  | true => 'xH
  | false => applied (match Int.equal (Int.mod k 2) 0 with true => 'xO | false => 'xI end) (positive_number (Int.div k 2))
  end.

Ltac2 rec whole_number (t : constr) : int :=
  match kind t with
  | App _ arguments => Int.add 1 (whole_number (Array.get arguments 0))
  | Constructor _ _ => 0
  | _ => Control.zero Unread
  end.

(* In a table of terms and what they are read as. *)
Ltac2 rec find (t : constr) (table : (constr * constr) list) : constr option :=
  match table with
  | [] => None
  | entry :: rest => let (x, y) := entry in match Constr.equal t x with true => Some y | false => find t rest end
  end.

(* The letters of a formula: variables, and sizes. Each gets its number where it is first met. *)
Ltac2 is_letter (t : constr) : bool :=
  match kind t with
  | Var _ => true
  | App f _ => Constr.equal f 'INR
  | _ => false
  end.

(* What a term is read as is made once, from its number in the table. *)
Ltac2 remembered (t : constr) (table : (constr * constr) list ref) (make : int -> constr) : constr :=
  match find t (table.(contents)) with
  | Some x => x
  | None =>
      let x := make (Int.add 1 (List.length (table.(contents)))) in
      table.(contents) := List.append (table.(contents)) [(t, x)];
      x
  end.

Ltac2 letter (t : constr) (number : int) : constr :=
  match is_letter t with true => applied '(@FEX Z) (positive_number number) | false => Control.zero Unread end.

Ltac2 exponent (t : constr) : constr :=
  let k := whole_number t in
  match Int.equal k 0 with true => 'N0 | false => applied 'Npos (positive_number k) end.

Ltac2 reader (letters : (constr * constr) list ref) : constr -> constr :=
  let operations :=
    [('Rmult, '(@FEmul Z)); ('Rplus, '(@FEadd Z)); ('Rminus, '(@FEsub Z)); ('Rdiv, '(@FEdiv Z)); ('Ropp, '(@FEopp Z));
     ('Rinv, '(@FEinv Z))] in
  let number := 'IZR in
  let power := 'pow in
  let some_number := '(@FEc Z) in
  let some_power := '(@FEpow Z) in
  let exponents := { contents := [] } in
  let rec read t :=
    match kind t with
    | App f arguments =>
        match Constr.equal f number with
        | true => make (App some_number arguments)
        | false =>
            match find f operations with
            | Some g =>
                let parts := Array.make (Array.length arguments) (read (Array.get arguments 0)) in
                match Int.equal (Array.length arguments) 2 with
                | true => Array.set parts 1 (read (Array.get arguments 1))
                | false => ()
                end;
                make (App g parts)
            | None =>
                match Constr.equal f power with
                | true =>
                    let parts := Array.make 2 (let n := Array.get arguments 1 in remembered n exponents (fun _ => exponent n)) in
                    Array.set parts 0 (read (Array.get arguments 0));
                    make (App some_power parts)
                | false => remembered t letters (letter t)
                end
            end
        end
    | _ => remembered t letters (letter t)
    end in
  read.

Ltac2 rec list_of (letters : (constr * constr) list) : constr :=
  match letters with
  | [] => '(@nil R)
  | entry :: rest =>
      let (x, _) := entry in
      let both := Array.make 2 (list_of rest) in
      Array.set both 0 x;
      make (App '(@cons R) both)
  end.

(* Two formulas as data, and the list of their letters, for what goes on with them; `unread` where there are other functions
   than those of a field. *)
Ltac2 read_both (a : constr) (b : constr) (go_on : Ltac1.t) (unread : Ltac1.t) : unit :=
  let found :=
    Control.once (fun () => Control.plus
      (fun () =>
         let known := { contents := [] } in
         let read := reader known in
         let p := read a in
         let q := read b in
         Some (p, q, list_of (known.(contents))))
      (fun _ => None)) in
  match found with
  | Some all =>
      let (p, q, letters) := all in
      Ltac1.apply go_on [Ltac1.of_constr p; Ltac1.of_constr q; Ltac1.of_constr letters] Ltac1.run
  | None => Ltac1.apply unread [Ltac1.of_constr 'I] Ltac1.run
  end.

Ltac2 of_ltac1 (t : Ltac1.t) : constr := Option.get (Ltac1.to_constr t).

End Reader.

Ltac read_two a b go_on unread :=
  let run := ltac2:(a b go_on unread |- Reader.read_both (Reader.of_ltac1 a) (Reader.of_ltac1 b) go_on unread) in
  run a b go_on unread.

(* In two steps, the letters last, so that nothing inside a letter is computed. *)
Ltac differ_from_0 d letters :=
  let h := eval cbv beta iota delta [nonzeros PCond PEeval N.to_nat Pos.to_nat Pos.iter_op Nat.add] in (fun l => nonzeros l d) in
  eval cbv beta iota delta [nth jump hd tl] in (h letters).

End Reading.

(* Where the formulas have other functions than those of a field, `unread` has the word. *)
Ltac rational_or unread :=
  lazymatch goal with
  | |- ?a = ?b =>
      Reading.read_two a b
        ltac:(fun p q letters =>
          (* As a lemma of its own, so that Coq's kernel computes it once, here, and not again at the theorem's end. *)
          let S := fresh in
          assert (S : Reading.equal p q = true) by (clear; abstract (vm_cast_no_check (eq_refl true)));
          let d := eval vm_compute in (Reading.divisors p q) in
          let all := Reading.differ_from_0 d letters in
          let H := fresh in
          cut all;
          [ intro H; exact_no_check (Reading.equal_values letters p q d S (eq_refl d <: Reading.divisors p q = d) H)
          | clear S; try exact I ])
        unread
  end.

(* What is left to prove is that the denominators are not 0. *)
Ltac rational := rational_or ltac:(fun _ => fail).
