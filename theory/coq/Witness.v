(* The model is not empty: for any levels and variances there are fair coins that make such clients.
   A theorem about all clients therefore speaks of some, and a wrong formula can be refuted at a point of the model. *)
Require Export Borrow.Risks.
Require Import List FunctionalExtensionality.
Import ListNotations.

Definition coin := (nat * nat * nat)%type.  (* which of the three noises, level, member *)
Definition flips := coin -> bool.
Definition coin_eq (x y : coin) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.
Definition set (x : coin) (v : bool) (o : flips) : flips := fun y => if coin_eq y x then v else o y.

(* The average over all flips of the listed coins. *)
Fixpoint average (coins : list coin) (X : flips -> R) : R :=
  match coins with
  | [] => X (fun _ => true)
  | x :: rest => (average rest (fun o => X (set x true o)) + average rest (fun o => X (set x false o))) / 2
  end.

Lemma average_plus : forall c X Y, average c (fun o => X o + Y o) = average c X + average c Y.
Proof. induction c as [| x c IH]; intros; simpl; [reflexivity |]. rewrite !IH. field. Qed.

Lemma average_scal : forall c a X, average c (fun o => a * X o) = a * average c X.
Proof. induction c as [| x c IH]; intros; simpl; [reflexivity |]. rewrite !IH. field. Qed.

Lemma average_const : forall c a, average c (fun _ => a) = a.
Proof. induction c as [| x c IH]; intros; simpl; [reflexivity |]. rewrite !IH. field. Qed.

Lemma average_nonneg : forall c X, (forall o, 0 <= X o) -> 0 <= average c X.
Proof.
  induction c as [| x c IH]; intros X H; simpl; [apply H |].
  assert (A := IH (fun o => X (set x true o)) (fun o => H _)).
  assert (B := IH (fun o => X (set x false o)) (fun o => H _)). lra.
Qed.

Definition coins (c : list coin) : space.
Proof.
  refine {| outcome := flips; has_mean := fun _ => True; E := average c |}; try tauto.
  - apply average_const.
  - intros. apply average_plus.
  - intros. apply average_scal.
  - intros. apply average_nonneg. assumption.
Defined.

Definition sign (v : bool) : R := if v then 1 else -1.

Lemma set_other : forall x y v o, x <> y -> set y v o x = o x.
Proof. intros. unfold set. destruct (coin_eq x y); tauto. Qed.

(* A coin of the list times what does not depend on it averages to zero. *)
Lemma coin_zero : forall c x g, In x c -> (forall o v, g (set x v o) = g o) -> average c (fun o => sign (o x) * g o) = 0.
Proof.
  induction c as [| y c IH]; intros x g I H; [inversion I |]. simpl. destruct (coin_eq x y) as [-> | N].
  - assert (G : forall v, average c (fun o => sign (set y v o y) * g (set y v o)) = sign v * average c g).
    { intros v. rewrite <- average_scal. f_equal. apply functional_extensionality. intros o. rewrite H.
      unfold set. destruct (coin_eq y y); tauto. }
    rewrite !G. unfold sign. field.
  - assert (G : forall v, average c (fun o => sign (set y v o x) * g (set y v o)) = 0).
    { intros v. rewrite <- (IH x (fun o => g (set y v o))); [| destruct I; [congruence | assumption] |].
      - f_equal. apply functional_extensionality. intros o. rewrite (set_other x y v o N). reflexivity.
      - intros o u. rewrite <- (H (set y v o) u). f_equal. apply functional_extensionality. intros z. unfold set.
        destruct (coin_eq z y), (coin_eq z x); congruence. }
    rewrite !G. field.
Qed.

Definition all_coins (L : nat) (n : nat -> nat) : list coin :=
  flat_map (fun k => flat_map (fun l => map (fun i => (k, l, i)) (seq 0 (n l))) (seq 0 L)) (seq 0 3).

Lemma in_coins : forall L n k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat -> In (k, l, i) (all_coins L n).
Proof.
  intros. apply in_flat_map. exists k. split; [apply in_seq; lia |]. apply in_flat_map. exists l.
  split; [apply in_seq; lia |]. apply in_map_iff. exists i. split; [reflexivity | apply in_seq; lia].
Qed.

Section Build.
  Variables (L : nat) (n : nat -> nat) (c0 : R) (tau2 alpha2 nu2 : nat -> R).
  Hypothesis variances : forall l, (l < L)%nat -> 0 <= tau2 l /\ 0 <= alpha2 l /\ 0 <= nu2 l.

  Let v (k l : nat) : R := match k with O => tau2 l | 1%nat => alpha2 l | _ => nu2 l end.
  Let z (k l i : nat) (o : flips) : R := sqrt (v k l) * sign (o (k, l, i)).

  Lemma z_mean : forall k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat -> average (all_coins L n) (z k l i) = 0.
  Proof.
    intros k l i K A B. rewrite <- (coin_zero (all_coins L n) (k, l, i) (fun _ => sqrt (v k l)) (in_coins L n k l i K A B)).
    - f_equal. apply functional_extensionality. intros o. unfold z. ring.
    - reflexivity.
  Qed.

  Lemma z_moment : forall k l i k' l' i', (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat ->
    average (all_coins L n) (fun o => z k l i o * z k' l' i' o)
      = if ((k' =? k) && is l i l' i')%bool then v k l else 0.
  Proof.
    intros k l i k' l' i' K A B. destruct (coin_eq (k', l', i') (k, l, i)) as [Q | N].
    - injection Q as -> -> ->. rewrite Nat.eqb_refl. destruct (is_spec l i l i) as [_ | F]; [| tauto]. simpl.
      rewrite <- (average_const (all_coins L n) (v k l)). f_equal. apply functional_extensionality. intros o. unfold z.
      assert (P : 0 <= v k l) by (destruct (variances l A) as [? [? ?]]; destruct k as [| [| k]]; assumption).
      replace (_ * _) with ((sqrt (v k l) * sqrt (v k l)) * (sign (o (k, l, i)) * sign (o (k, l, i)))) by ring.
      rewrite (sqrt_sqrt _ P). destruct (o (k, l, i)); unfold sign; ring.
    - transitivity 0.
      + rewrite <- (coin_zero (all_coins L n) (k, l, i) (fun o => sqrt (v k l) * (sqrt (v k' l') * sign (o (k', l', i'))))
                      (in_coins L n k l i K A B)).
        * f_equal. apply functional_extensionality. intros o. unfold z. ring.
        * intros o u. rewrite (set_other (k', l', i') (k, l, i) u o N). reflexivity.
      + destruct (Nat.eqb_spec k' k) as [-> | _]; [| reflexivity].
        destruct (is_spec l i l' i') as [[-> ->] | _]; [tauto | reflexivity].
  Qed.

  Definition built : clients (coins (all_coins L n)) L n tau2 alpha2 nu2.
  Proof.
    refine (Build_clients (coins (all_coins L n)) L n tau2 alpha2 nu2 c0 (z 0%nat) (z 1%nat) (z 2%nat) _ _).
    - intros k l i K A B. destruct k as [| [| [| k]]]; [| | | lia]; split; try exact I; apply z_mean; assumption || lia.
    - intros k l i k' l' i' K A B K' A' B'. split; [exact I |].
      destruct k as [| [| [| k]]]; [| | | lia]; (destruct k' as [| [| [| k']]]; [| | | lia]);
        unfold moment; apply z_moment; assumption || lia.
  Defined.
End Build.

(* Clients of any levels and variances exist. *)
Theorem clients_exist : forall L n tau2 alpha2 nu2, (forall l, (l < L)%nat -> 0 <= tau2 l /\ 0 <= alpha2 l /\ 0 <= nu2 l) ->
  exists (S : space) (M : clients S L n tau2 alpha2 nu2), True.
Proof.
  intros L n tau2 alpha2 nu2 H. exists (coins (all_coins L n)). exists (built L n 0 tau2 alpha2 nu2 H). exact I.
Qed.

Definition trusted := (clients_exist, @linear_risk, @best_weights_only, @best_blend, best_of_all).
Print Assumptions trusted.
