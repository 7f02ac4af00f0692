(* The model of all theorems in this folder: clients in levels, what they send, how estimates are judged.

   Hand-written and trusted by hash; a reader who believes these definitions can believe the statements.
   No probability space is needed: an expectation is a positive, normalised, linear functional on a class of functions of
   the outcome. Noises are only asked to have mean zero and to be uncorrelated, so that what is proved of risks holds for
   Gaussian noise and for any other. *)
Require Export Borrow.Sums.
Require Import List FunctionalExtensionality.

(* --- expectation ------------------------------------------------------------------------------------------------- *)

Record space := {
  outcome : Type;
  has_mean : (outcome -> R) -> Prop;  (* the functions that have an expectation *)
  E : (outcome -> R) -> R;
  mean_ext : forall X Y, (forall o, X o = Y o) -> has_mean X -> has_mean Y;
  mean_one : has_mean (fun _ => 1);
  mean_plus : forall X Y, has_mean X -> has_mean Y -> has_mean (fun o => X o + Y o);
  mean_scal : forall c X, has_mean X -> has_mean (fun o => c * X o);
  E_one : E (fun _ => 1) = 1;
  E_plus : forall X Y, has_mean X -> has_mean Y -> E (fun o => X o + Y o) = E X + E Y;
  E_scal : forall c X, has_mean X -> E (fun o => c * X o) = c * E X;
  E_nonneg : forall X, has_mean X -> (forall o, 0 <= X o) -> 0 <= E X
}.

(* Mean squared error and bias of an estimate of a target; both are functions of the outcome. *)
Definition risk (S : space) (estimate target : outcome S -> R) : R := E S (fun o => (estimate o - target o) ^ 2).
Definition bias (S : space) (estimate target : outcome S -> R) : R := E S (fun o => estimate o - target o).
(* Mean product; the covariance of two quantities of mean zero. *)
Definition moment (S : space) (X Y : outcome S -> R) : R := E S (fun o => X o * Y o).

(* --- clients ----------------------------------------------------------------------------------------------------- *)

(* L levels of n l clients each. Client (l, i) has the parameter centre + own l i; its estimate adds sampling l i, its
   message adds private l i besides. The three noises have the variances of the level and are uncorrelated. *)
Record clients (S : space) (L : nat) (n : nat -> nat) (tau2 alpha2 nu2 : nat -> R) := {
  centre : R;
  own : nat -> nat -> outcome S -> R;
  sampling : nat -> nat -> outcome S -> R;
  private : nat -> nat -> outcome S -> R;
  noise := fun k => match k with O => own | 1%nat => sampling | _ => private end;
  variance := fun k => match k with O => tau2 | 1%nat => alpha2 | _ => nu2 end;
  noise_mean : forall k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat ->
    has_mean S (noise k l i) /\ E S (noise k l i) = 0;
  noise_moment : forall k l i k' l' i', (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat ->
    (k' < 3)%nat -> (l' < L)%nat -> (i' < n l')%nat ->
    has_mean S (fun o => noise k l i o * noise k' l' i' o) /\
    moment S (noise k l i) (noise k' l' i') = if ((k' =? k) && is l i l' i')%bool then variance k l else 0
}.

Arguments centre {S L n tau2 alpha2 nu2}.
Arguments own {S L n tau2 alpha2 nu2}.
Arguments sampling {S L n tau2 alpha2 nu2}.
Arguments private {S L n tau2 alpha2 nu2}.
Arguments variance {S L n tau2 alpha2 nu2}.
Arguments noise {S L n tau2 alpha2 nu2}.
Arguments noise_mean {S L n tau2 alpha2 nu2}.
Arguments noise_moment {S L n tau2 alpha2 nu2}.

Section Estimates.
  Context {S : space} {L : nat} {n : nat -> nat} {tau2 alpha2 nu2 : nat -> R} (M : clients S L n tau2 alpha2 nu2).

  Definition middle (o : outcome S) : R := centre M.  (* the centre, as a target *)
  Definition parameter l i (o : outcome S) : R := centre M + own M l i o.
  Definition estimate l i (o : outcome S) : R := parameter l i o + sampling M l i o.
  Definition message l i (o : outcome S) : R := estimate l i o + private M l i o.

  (* The server's weighted sum of all messages; and what client (a, b) has of it once its own noise is taken out. *)
  Definition aggregate (w : nat -> nat -> R) (o : outcome S) : R := total L n (fun l i => w l i * message l i o).
  Definition cleaned (w : nat -> nat -> R) a b (o : outcome S) : R := aggregate w o - w a b * private M a b o.

  (* Minimiser of (x - own estimate)^2 + lam (x - pivot)^2 over x. *)
  Definition personal (lam : R) a b (pivot : outcome S -> R) (o : outcome S) : R :=
    (estimate a b o + lam * pivot o) / (1 + lam).

  (* Any linear estimate from client (a, b)'s own estimate and all others' messages. *)
  Definition blend (x : R) (w : nat -> nat -> R) a b (o : outcome S) : R :=
    x * estimate a b o + total L n (fun l i => if is a b l i then 0 else w l i * message l i o).

  Definition sums_to_one (w : nat -> nat -> R) : Prop := total L n w = 1.
  Definition blends_to_one (x : R) (w : nat -> nat -> R) a b : Prop :=
    x + total L n (fun l i => if is a b l i then 0 else w l i) = 1.

End Estimates.

(* Weights that are equal within a level: given, or proportional to the ratios r. *)
Definition weights (v : nat -> R) (l _ : nat) : R := v l.
Definition ratios (L : nat) (n : nat -> nat) (r : nat -> R) : nat -> nat -> R :=
  weights (fun l => r l / sum L (fun l => n l * r l)).

(* The least value v of a risk over what is admissible. *)
Definition least {A : Type} (admissible : A -> Prop) (f : A -> R) (v : R) : Prop :=
  (exists a, admissible a /\ f a = v) /\ forall a, admissible a -> v <= f a.

(* The least risk of a linear estimate of the centre from all messages whose error does not depend on the centre: what a
   flat prior and Gaussian noise make of the posterior variance. *)
Definition least_of_centre {S L n tau2 alpha2 nu2} (M : clients S L n tau2 alpha2 nu2) : R -> Prop :=
  least (sums_to_one (L := L) (n := n)) (fun w => risk S (aggregate M w) (middle M)).
(* The same without the message of client (a, b). *)
Definition least_without {S L n tau2 alpha2 nu2} (M : clients S L n tau2 alpha2 nu2) a b : R -> Prop :=
  least (fun w => sums_to_one (L := L) (n := n) w /\ w a b = 0) (fun w => risk S (aggregate M w) (middle M)).
(* The same for client (a, b)'s parameter, from its own estimate and all others' messages. *)
Definition least_of_client {S L n tau2 alpha2 nu2} (M : clients S L n tau2 alpha2 nu2) a b : R -> Prop :=
  least (fun xw => blends_to_one (L := L) (n := n) (fst xw) (snd xw) a b)
        (fun xw => risk S (blend M (fst xw) (snd xw) a b) (parameter M a b)).
