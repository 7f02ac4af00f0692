(* What follows from the model for every number of levels and clients: the risk of every linear estimate, the best weights
   among all, the best estimate of all. Definitions are in Model.v; these are proofs, and coqc is all that one has to trust. *)
Require Export Borrow.Model.
Require Import FunctionalExtensionality.

(* --- expectation ------------------------------------------------------------------------------------------------- *)

Section Expectation.
  Variable S : space.

  Lemma E_ext : forall X Y, (forall o, X o = Y o) -> E S X = E S Y.
  Proof. intros X Y H. f_equal. apply functional_extensionality. exact H. Qed.

  Lemma mean_const : forall c, has_mean S (fun _ => c).
  Proof. intros c. apply (mean_ext S (fun o => c * 1)); [intros; ring |]. apply mean_scal, mean_one. Qed.

  Lemma E_const : forall c, E S (fun _ => c) = c.
  Proof.
    intros c. rewrite (E_ext _ (fun o => c * 1)); [| intros; ring]. rewrite E_scal; [| apply mean_one]. rewrite E_one. ring.
  Qed.

  Lemma mean_sum : forall n X, (forall i, (i < n)%nat -> has_mean S (X i)) -> has_mean S (fun o => sum n (fun i => X i o)).
  Proof.
    induction n as [| n IH]; intros X H; simpl; [apply mean_const |].
    apply mean_plus; [apply IH; intros; apply H; lia | apply H; lia].
  Qed.

  Lemma E_sum : forall n X, (forall i, (i < n)%nat -> has_mean S (X i)) ->
    E S (fun o => sum n (fun i => X i o)) = sum n (fun i => E S (X i)).
  Proof.
    induction n as [| n IH]; intros X H; simpl; [apply E_const |].
    rewrite E_plus; [rewrite IH; [reflexivity |] | apply mean_sum |]; intros; apply H; lia.
  Qed.

  (* Pythagoras: an estimate D costs more than T by the mean square of their difference, where T's residual is uncorrelated
     with that difference. Nothing is said of how D comes about: it may be any function of the data. *)
  Theorem risk_split : forall T D target : outcome S -> R,
    has_mean S (fun o => (T o - target o) ^ 2) -> has_mean S (fun o => (D o - T o) ^ 2) ->
    has_mean S (fun o => (T o - target o) * (D o - T o)) -> E S (fun o => (T o - target o) * (D o - T o)) = 0 ->
    risk S D target = risk S T target + E S (fun o => (D o - T o) ^ 2).
  Proof.
    intros T D target A B C Z. unfold risk.
    rewrite (E_ext _ (fun o => ((T o - target o) ^ 2 + (D o - T o) ^ 2) + 2 * ((T o - target o) * (D o - T o))));
      [| intros; ring].
    rewrite E_plus; [| apply mean_plus; assumption | apply mean_scal; exact C].
    rewrite E_plus, E_scal, Z by assumption. ring.
  Qed.

  (* Best among all estimates, linear or not. Assumed: T's residual is independent of the data (`data`, of any type) in the
     sense that E(residual * g) = E(residual) E(g) for the functions g of the data in question, as for Gaussian noise. *)
  Theorem best_of_all : forall (Data : Type) (data : outcome S -> Data) (T target : outcome S -> R) (d g : Data -> R),
    (forall o, T o = g (data o)) -> has_mean S (fun o => (T o - target o) ^ 2) -> has_mean S (fun o => T o - target o) ->
    bias S T target = 0 ->
    (forall h : Data -> R, has_mean S (fun o => h (data o) ^ 2) ->
      has_mean S (fun o => (T o - target o) * h (data o)) /\
      E S (fun o => (T o - target o) * h (data o)) = bias S T target * E S (fun o => h (data o))) ->
    has_mean S (fun o => (d (data o) - T o) ^ 2) ->
    risk S T target <= risk S (fun o => d (data o)) target.
  Proof.
    intros Data data T target d g Tg A1 A2 B I A3.
    destruct (I (fun y => d y - g y)) as [C1 C2].
    { apply (mean_ext S _ _ (fun o => f_equal (fun t => (d (data o) - t) ^ 2) (Tg o)) A3). }
    rewrite B, Rmult_0_l in C2.
    rewrite (risk_split T (fun o => d (data o)) target A1 A3).
    - assert (0 <= E S (fun o => (d (data o) - T o) ^ 2)); [| lra]. apply E_nonneg; [exact A3 | intros; apply pow2_ge_0].
    - apply (mean_ext S _ _ (fun o => f_equal (fun t => (T o - target o) * (d (data o) - t)) (eq_sym (Tg o))) C1).
    - rewrite <- C2. apply E_ext. intros o. rewrite (Tg o). reflexivity.
  Qed.
End Expectation.

(* --- linear forms in the raw noise --------------------------------------------------------------------------------- *)

Section Forms.
  Context {S : space} {L : nat} {n : nat -> nat} {tau2 alpha2 nu2 : nat -> R} (M : clients S L n tau2 alpha2 nu2).

  (* a k l i times noise k l i, over the three kinds k and all clients *)
  Definition form (a : nat -> nat -> nat -> R) (o : outcome S) : R :=
    sum 3 (fun k => total L n (fun l i => a k l i * noise M k l i o)).

  Lemma mean_form : forall a X,
    (forall k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat -> has_mean S (fun o => noise M k l i o * X o)) ->
    has_mean S (fun o => form a o * X o) /\
    E S (fun o => form a o * X o)
      = sum 3 (fun k => total L n (fun l i => a k l i * E S (fun o => noise M k l i o * X o))).
  Proof.
    intros a X H.
    assert (F : forall o, sum 3 (fun k => total L n (fun l i => a k l i * (noise M k l i o * X o))) = form a o * X o).
    { intros o. unfold form. rewrite Rmult_comm, <- sum_scal. apply sum_ext. intros k K.
      rewrite <- total_scal. apply total_ext. intros. ring. }
    assert (G : forall k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat ->
                has_mean S (fun o => a k l i * (noise M k l i o * X o))).
    { intros. apply mean_scal. apply H; assumption. }
    split.
    - apply (mean_ext S _ _ F). apply (mean_sum S 3 (fun k o => total L n (fun l i => a k l i * (noise M k l i o * X o)))).
      intros k K. apply (mean_sum S L (fun l o => sum (n l) (fun i => a k l i * (noise M k l i o * X o)))). intros l P.
      apply (mean_sum S (n l) (fun i o => a k l i * (noise M k l i o * X o))). intros. apply G; assumption.
    - rewrite <- (E_ext S _ _ F).
      rewrite (E_sum S 3 (fun k o => total L n (fun l i => a k l i * (noise M k l i o * X o)))).
      + apply sum_ext. intros k K. unfold total.
        rewrite (E_sum S L (fun l o => sum (n l) (fun i => a k l i * (noise M k l i o * X o)))).
        * apply sum_ext. intros l P. rewrite (E_sum S (n l) (fun i o => a k l i * (noise M k l i o * X o))).
          -- apply sum_ext. intros i Q. apply E_scal. apply H; assumption.
          -- intros. apply G; assumption.
        * intros l P. apply (mean_sum S (n l) (fun i o => a k l i * (noise M k l i o * X o))). intros. apply G; assumption.
      + intros k K. apply (mean_sum S L (fun l o => sum (n l) (fun i => a k l i * (noise M k l i o * X o)))). intros l P.
        apply (mean_sum S (n l) (fun i o => a k l i * (noise M k l i o * X o))). intros. apply G; assumption.
  Qed.

  Lemma form_with_noise : forall b k l i, (k < 3)%nat -> (l < L)%nat -> (i < n l)%nat ->
    has_mean S (fun o => noise M k l i o * form b o) /\ E S (fun o => noise M k l i o * form b o) = b k l i * variance M k l.
  Proof.
    intros b k l i K P Q.
    destruct (mean_form b (noise M k l i)) as [A B].
    { intros k' l' i' K' P' Q'. apply (noise_moment M k' l' i' k l i K' P' Q' K P Q). }
    split.
    - apply (mean_ext S _ _ (fun o => Rmult_comm (form b o) (noise M k l i o)) A).
    - rewrite (E_ext S _ (fun o => form b o * noise M k l i o)) by (intros; ring). rewrite B.
      rewrite (sum_ext 3 _ (fun k' => if k' =? k then b k l i * variance M k l else 0)).
      + apply (sum_pick 3 k (fun _ => b k l i * variance M k l) K).
      + intros k' K'.
        rewrite (total_ext L n _ (fun l' i' => if is l i l' i' then (if k' =? k then b k l i * variance M k l else 0) else 0)).
        * apply (total_pick L n l i (fun _ _ => if k' =? k then b k l i * variance M k l else 0) P Q).
        * intros l' i' P' Q'. destruct (noise_moment M k l i k' l' i' K P Q K' P' Q') as [_ V]. unfold moment in V.
          rewrite (E_ext S _ (fun o => noise M k l i o * noise M k' l' i' o)) by (intros; ring). rewrite V.
          destruct (is_spec l i l' i') as [[-> ->] | _]; destruct (Nat.eqb_spec k' k) as [-> | _]; simpl; ring.
  Qed.

  (* The mean product of two forms: their covariance. *)
  Theorem form_moment : forall a b,
    has_mean S (fun o => form a o * form b o) /\
    moment S (form a) (form b) = sum 3 (fun k => total L n (fun l i => a k l i * b k l i * variance M k l)).
  Proof.
    intros a b. destruct (mean_form a (form b)) as [A B].
    { intros. apply form_with_noise; assumption. }
    split; [exact A |]. unfold moment. rewrite B. apply sum_ext. intros k K. apply total_ext. intros l i P Q.
    rewrite (proj2 (form_with_noise b k l i K P Q)). ring.
  Qed.

  Lemma form_mean : forall a, has_mean S (form a) /\ E S (form a) = 0.
  Proof.
    intros a. destruct (mean_form a (fun _ => 1)) as [A B].
    { intros. apply (mean_ext S (noise M k l i)); [intros; ring |]. apply noise_mean; assumption. }
    split.
    - apply (mean_ext S _ _ (fun o => Rmult_1_r (form a o)) A).
    - rewrite (E_ext S _ (fun o => form a o * 1)) by (intros; ring). rewrite B.
      rewrite (sum_ext 3 _ (fun _ => 0)); [rewrite sum_const; ring |]. intros k K.
      rewrite (total_ext L n _ (fun _ _ => 0 * 0)); [rewrite total_scal; ring |]. intros l i P Q.
      rewrite (E_ext S _ (noise M k l i)) by (intros; ring). rewrite (proj2 (noise_mean M k l i K P Q)). ring.
  Qed.

  (* --- every linear estimate at once ------------------------------------------------------------------------------- *)

  (* x times the own estimate and z times the own private noise of client (a, b), plus an aggregate; the target is the
     centre plus t times the client's own departure plus s times its sampling error. *)
  Definition linear x z (w : nat -> nat -> R) a b (o : outcome S) : R :=
    x * estimate M a b o + z * private M a b o + aggregate M w o.
  Definition aim t s a b (o : outcome S) : R := centre M + t * own M a b o + s * sampling M a b o.
  Definition residual x z t s (w : nat -> nat -> R) a b (k l i : nat) : R :=
    w l i + if is a b l i then three (x - t) (x - s) z k else 0.

  Lemma residual_form : forall x z t s w a b o, (a < L)%nat -> (b < n a)%nat -> x + total L n w = 1 ->
    linear x z w a b o - aim t s a b o = form (residual x z t s w a b) o.
  Proof.
    intros x z t s w a b o A B Z. unfold linear, aim, form, residual, aggregate, message, estimate, parameter.
    assert (P : forall c, total L n (fun l i => if is a b l i then c * noise M 0 l i o else 0) = c * own M a b o)
      by (intros; apply (total_pick L n a b (fun l i => c * noise M 0 l i o) A B)).
    assert (Q : forall c, total L n (fun l i => if is a b l i then c * noise M 1 l i o else 0) = c * sampling M a b o)
      by (intros; apply (total_pick L n a b (fun l i => c * noise M 1 l i o) A B)).
    assert (V : forall c, total L n (fun l i => if is a b l i then c * noise M 2 l i o else 0) = c * private M a b o)
      by (intros; apply (total_pick L n a b (fun l i => c * noise M 2 l i o) A B)).
    assert (D : forall k c, total L n (fun l i => (w l i + (if is a b l i then c else 0)) * noise M k l i o)
                = total L n (fun l i => w l i * noise M k l i o)
                  + total L n (fun l i => if is a b l i then c * noise M k l i o else 0)).
    { intros. rewrite <- total_plus. apply total_ext. intros. destruct (is a b l i); ring. }
    cbn [sum three]. rewrite !D, P, Q, V.
    rewrite (total_ext L n (fun l i => w l i * _)
      (fun l i => centre M * w l i + (w l i * noise M 0 l i o + (w l i * noise M 1 l i o + w l i * noise M 2 l i o))))
      by (intros; unfold noise; ring).
    rewrite !total_plus, total_scal. replace (total L n w) with (1 - x) by lra. ring.
  Qed.

  Lemma linear_ok : forall x z t s w a b, (a < L)%nat -> (b < n a)%nat -> x + total L n w = 1 ->
    has_mean S (fun o => (linear x z w a b o - aim t s a b o) ^ 2) /\ bias S (linear x z w a b) (aim t s a b) = 0.
  Proof.
    intros x z t s w a b A B Z. assert (F := fun o => residual_form x z t s w a b o A B Z). split.
    - apply (mean_ext S (fun o => form (residual x z t s w a b) o * form (residual x z t s w a b) o)).
      + intros o. rewrite (F o). ring.
      + apply form_moment.
    - unfold bias. rewrite (E_ext S _ _ F). apply form_mean.
  Qed.

  Theorem linear_risk : forall x z t s w a b, (a < L)%nat -> (b < n a)%nat -> x + total L n w = 1 ->
    risk S (linear x z w a b) (aim t s a b)
      = total L n (fun l i => w l i ^ 2 * (tau2 l + alpha2 l + nu2 l))
        + tau2 a * (2 * (x - t) * w a b + (x - t) ^ 2) + alpha2 a * (2 * (x - s) * w a b + (x - s) ^ 2)
        + nu2 a * (2 * z * w a b + z ^ 2).
  Proof.
    intros x z t s w a b A B Z. unfold risk.
    rewrite (E_ext S _ (fun o => form (residual x z t s w a b) o * form (residual x z t s w a b) o)).
    2: { intros o. rewrite (residual_form x z t s w a b o A B Z). ring. }
    destruct (form_moment (residual x z t s w a b) (residual x z t s w a b)) as [_ V]. unfold moment in V. rewrite V.
    unfold residual.
    assert (D : forall k c, total L n (fun l i => (w l i + (if is a b l i then c else 0))
                  * (w l i + (if is a b l i then c else 0)) * variance M k l)
                = total L n (fun l i => w l i ^ 2 * variance M k l) + variance M k a * (2 * c * w a b + c ^ 2)).
    { intros. rewrite <- (total_pick L n a b (fun l i => variance M k l * (2 * c * w l i + c ^ 2)) A B), <- total_plus.
      apply total_ext. intros. destruct (is_spec a b l i) as [[-> ->] | _]; ring. }
    cbn [sum three]. rewrite !D. unfold variance.
    rewrite (total_ext L n (fun l i => w l i ^ 2 * (tau2 l + alpha2 l + nu2 l))
      (fun l i => w l i ^ 2 * tau2 l + (w l i ^ 2 * alpha2 l + w l i ^ 2 * nu2 l))) by (intros; ring).
    rewrite !total_plus. ring.
  Qed.
End Forms.

(* --- the estimates of Model.v -------------------------------------------------------------------------------------- *)

Section Estimates.
  Context {S : space} {L : nat} {n : nat -> nat} {tau2 alpha2 nu2 : nat -> R} (M : clients S L n tau2 alpha2 nu2).

  Lemma risk_ext : forall X Y T U : outcome S -> R, (forall o, X o = Y o) -> (forall o, T o = U o) ->
    risk S X T = risk S Y U.
  Proof. intros X Y T U A B. apply E_ext. intros o. rewrite A, B. reflexivity. Qed.

  (* Some client, for sums of which one part is always there. *)
  Lemma someone : forall w, total L n w = 1 -> exists a b, (a < L)%nat /\ (b < n a)%nat.
  Proof.
    intros w Z. destruct L as [| m] eqn:EL; [unfold total in Z; simpl in Z; lra |].
    assert (D : (exists a, (a < Datatypes.S m)%nat /\ (0 < n a)%nat) \/ forall a, (a < Datatypes.S m)%nat -> n a = O).
    { clear. induction m as [| m IH].
      - destruct (n 0%nat) eqn:Q; [right; intros a A; replace a with O by lia; exact Q | left; exists O; lia].
      - destruct IH as [[a [A B]] | H]; [left; exists a; lia |].
        destruct (n (Datatypes.S m)) eqn:Q; [right | left; exists (Datatypes.S m); lia].
        intros a A. destruct (Nat.eq_dec a (Datatypes.S m)) as [-> | N]; [exact Q | apply H; lia]. }
    destruct D as [[a [A B]] | H]; [exists a, O; tauto |].
    unfold total in Z. rewrite (sum_ext _ _ (fun _ => 0)), sum_const in Z; [lra |]. intros l P. rewrite (H l P). reflexivity.
  Qed.

  Theorem aggregate_risk : forall w, sums_to_one (L := L) (n := n) w ->
    risk S (aggregate M w) (middle M) = total L n (fun l i => w l i ^ 2 * (tau2 l + alpha2 l + nu2 l)).
  Proof.
    intros w Z. unfold sums_to_one in Z. destruct (someone w Z) as [a [b [A B]]].
    rewrite (risk_ext _ (linear M 0 0 w a b) _ (aim M 0 0 a b)).
    - rewrite linear_risk by (assumption || lra). ring.
    - intros o. unfold linear. ring.
    - intros o. unfold middle, aim. ring.
  Qed.

  Theorem aggregate_unbiased : forall w, sums_to_one (L := L) (n := n) w -> bias S (aggregate M w) (middle M) = 0.
  Proof.
    intros w Z. unfold sums_to_one in Z. destruct (someone w Z) as [a [b [A B]]].
    rewrite <- (proj2 (linear_ok M 0 0 0 0 w a b A B ltac:(lra))). apply E_ext.
    intros o. unfold linear, middle, aim. ring.
  Qed.

  (* A client's personal estimate towards what came back with (z = 0) or without its own noise (z = - w a b). *)
  Theorem personal_risk : forall lam w a b, 1 + lam <> 0 -> (a < L)%nat -> (b < n a)%nat -> sums_to_one (L := L) (n := n) w ->
    risk S (personal M lam a b (aggregate M w)) (parameter M a b)
      = (lam ^ 2 * total L n (fun l i => w l i ^ 2 * (tau2 l + alpha2 l + nu2 l)) + tau2 a * lam ^ 2 * (1 - 2 * w a b)
         + alpha2 a * (1 + 2 * lam * w a b)) / (1 + lam) ^ 2.
  Proof.
    intros lam w a b D A B Z. unfold sums_to_one in Z.
    rewrite (risk_ext _ (linear M (1 / (1 + lam)) 0 (fun l i => lam / (1 + lam) * w l i) a b) _ (aim M 1 0 a b)).
    - rewrite linear_risk; [| assumption | assumption | rewrite total_scal, Z; field; exact D].
      rewrite (total_ext L n _ (fun l i => (lam / (1 + lam)) ^ 2 * (w l i ^ 2 * (tau2 l + alpha2 l + nu2 l)))) by (intros; ring).
      rewrite total_scal. field. exact D.
    - intros o. unfold linear, personal, aggregate.
      rewrite (total_ext L n (fun l i => lam / (1 + lam) * w l i * _) (fun l i => lam / (1 + lam) * (w l i * message M l i o)))
        by (intros; ring).
      rewrite total_scal. field. exact D.
    - intros o. unfold parameter, aim. ring.
  Qed.

  Theorem personal_cleaned_risk : forall lam w a b, 1 + lam <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    sums_to_one (L := L) (n := n) w ->
    risk S (personal M lam a b (cleaned M w a b)) (parameter M a b)
      = (lam ^ 2 * (total L n (fun l i => w l i ^ 2 * (tau2 l + alpha2 l + nu2 l)) - w a b ^ 2 * nu2 a)
         + tau2 a * lam ^ 2 * (1 - 2 * w a b) + alpha2 a * (1 + 2 * lam * w a b)) / (1 + lam) ^ 2.
  Proof.
    intros lam w a b D A B Z. unfold sums_to_one in Z.
    rewrite (risk_ext _ (linear M (1 / (1 + lam)) (- (lam / (1 + lam) * w a b)) (fun l i => lam / (1 + lam) * w l i) a b)
      _ (aim M 1 0 a b)).
    - rewrite linear_risk; [| assumption | assumption | rewrite total_scal, Z; field; exact D].
      rewrite (total_ext L n _ (fun l i => (lam / (1 + lam)) ^ 2 * (w l i ^ 2 * (tau2 l + alpha2 l + nu2 l)))) by (intros; ring).
      rewrite total_scal. field. exact D.
    - intros o. unfold linear, personal, cleaned, aggregate.
      rewrite (total_ext L n (fun l i => lam / (1 + lam) * w l i * _) (fun l i => lam / (1 + lam) * (w l i * message M l i o)))
        by (intros; ring).
      rewrite total_scal. field. exact D.
    - intros o. unfold parameter, aim. ring.
  Qed.

  Theorem estimate_risk : forall a b, (a < L)%nat -> (b < n a)%nat -> risk S (estimate M a b) (parameter M a b) = alpha2 a.
  Proof.
    intros a b A B. rewrite (risk_ext _ (linear M 1 0 (fun _ _ => 0) a b) _ (aim M 1 0 a b)).
    - rewrite linear_risk; [| assumption | assumption |].
      + rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
      + rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
    - intros o. unfold linear, aggregate. rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring).
      rewrite total_scal. ring.
    - intros o. unfold parameter, aim. ring.
  Qed.

  Definition others (w : nat -> nat -> R) a b (l i : nat) : R := if is a b l i then 0 else w l i.

  Theorem blend_risk : forall x w a b, (a < L)%nat -> (b < n a)%nat -> blends_to_one (L := L) (n := n) x w a b ->
    risk S (blend M x w a b) (parameter M a b)
      = total L n (fun l i => others w a b l i ^ 2 * (tau2 l + alpha2 l + nu2 l)) + tau2 a * (1 - x) ^ 2 + alpha2 a * x ^ 2.
  Proof.
    intros x w a b A B Z. unfold blends_to_one in Z.
    rewrite (risk_ext _ (linear M x 0 (others w a b) a b) _ (aim M 1 0 a b)).
    - rewrite (linear_risk M x 0 1 0 (others w a b) a b A B Z).
      unfold others at 2 3 4. destruct (is_spec a b a b) as [_ | F]; [ring | tauto].
    - intros o. unfold blend, linear, aggregate, others.
      rewrite (total_ext L n (fun l i => (if is a b l i then 0 else w l i) * _)
        (fun l i => if is a b l i then 0 else w l i * message M l i o)) by (intros; destruct (is a b l i); ring). ring.
    - intros o. unfold parameter, aim. ring.
  Qed.

  (* --- best weights, among all: equal within levels or not -------------------------------------------------------- *)

  (* Weights v, one per level, whose products with the messages' variances are the same for all levels. *)
  Definition balanced (v : nat -> R) (kappa : R) : Prop :=
    forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa.

  Theorem best_weights : forall v kappa, balanced v kappa -> sums_to_one (L := L) (n := n) (weights v) ->
    forall w, sums_to_one (L := L) (n := n) w ->
    risk S (aggregate M w) (middle M) = risk S (aggregate M (weights v)) (middle M)
      + total L n (fun l i => (w l i - v l) ^ 2 * (tau2 l + alpha2 l + nu2 l)).
  Proof.
    intros v kappa K Z w Y. rewrite (aggregate_risk w Y), (aggregate_risk _ Z). unfold sums_to_one, weights in *.
    rewrite <- total_plus.
    assert (D : 2 * kappa * (total L n w - total L n (fun l _ => v l)) = 0) by (rewrite Y, Z; ring).
    replace (total L n w - total L n (fun l _ => v l)) with (total L n (fun l i => w l i + (-1) * v l)) in D
      by (rewrite total_plus, total_scal; ring).
    rewrite <- (Rplus_0_r (total L n (fun l i => v l ^ 2 * _ + _))), <- D, <- total_scal, <- total_plus.
    apply total_ext. intros l i P Q. rewrite <- (K l P). ring.
  Qed.

  Theorem best_weights_only : forall v kappa, balanced v kappa -> sums_to_one (L := L) (n := n) (weights v) ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) ->
    forall w, sums_to_one (L := L) (n := n) w ->
    risk S (aggregate M (weights v)) (middle M) <= risk S (aggregate M w) (middle M) /\
    (risk S (aggregate M w) (middle M) = risk S (aggregate M (weights v)) (middle M) ->
     forall l i, (l < L)%nat -> (i < n l)%nat -> w l i = v l).
  Proof.
    intros v kappa K Z V w Y. rewrite (best_weights v kappa K Z w Y).
    assert (P : forall l i, (l < L)%nat -> (i < n l)%nat -> 0 <= (w l i - v l) ^ 2 * (tau2 l + alpha2 l + nu2 l)).
    { intros. apply Rmult_le_pos; [apply pow2_ge_0 | left; apply V; assumption]. }
    split; [assert (A := total_nonneg L n _ P); lra |]. intros Q l i A B.
    assert (F := total_zero L n _ P ltac:(lra) l i A B). simpl in F. assert (G := V l A).
    apply Rmult_integral in F. destruct F as [F | F]; [| lra]. apply Rminus_diag_uniq. nra.
  Qed.

  (* The best blend of a client's own estimate with all others' messages. *)
  Theorem best_blend : forall x v kappa a b, (a < L)%nat -> (b < n a)%nat -> balanced v kappa ->
    x * alpha2 a - (1 - x) * tau2 a = kappa -> blends_to_one (L := L) (n := n) x (weights v) a b ->
    forall y w, blends_to_one (L := L) (n := n) y w a b ->
    risk S (blend M y w a b) (parameter M a b) = risk S (blend M x (weights v) a b) (parameter M a b)
      + (total L n (fun l i => (others w a b l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l))
         + (y - x) ^ 2 * (tau2 a + alpha2 a)).
  Proof.
    intros x v kappa a b A B K X Z y w Y. rewrite (blend_risk y w a b A B Y), (blend_risk x _ a b A B Z).
    unfold blends_to_one in *.
    assert (D : 2 * kappa * (total L n (others w a b) - total L n (others (weights v) a b) + (y - x)) = 0).
    { unfold others. replace (total L n (fun l i => if is a b l i then 0 else w l i)) with (1 - y) by lra.
      replace (total L n (fun l i => if is a b l i then 0 else weights v l i)) with (1 - x) by lra. ring. }
    assert (T : total L n (fun l i => others w a b l i ^ 2 * (tau2 l + alpha2 l + nu2 l))
      = total L n (fun l i => others (weights v) a b l i ^ 2 * (tau2 l + alpha2 l + nu2 l))
        + total L n (fun l i => (others w a b l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l))
        + 2 * kappa * (total L n (others w a b) - total L n (others (weights v) a b))).
    { replace (total L n (others w a b) - total L n (others (weights v) a b))
        with (total L n (fun l i => others w a b l i + (-1) * others (weights v) a b l i))
        by (rewrite total_plus, total_scal; ring).
      rewrite <- total_scal, <- !total_plus. apply total_ext. intros l i P Q. rewrite <- (K l P).
      unfold others, weights. destruct (is a b l i); ring. }
    rewrite T. rewrite <- X in *.
    replace (2 * (x * alpha2 a - (1 - x) * tau2 a) * (total L n (others w a b) - total L n (others (weights v) a b)))
      with (- (2 * (x * alpha2 a - (1 - x) * tau2 a) * (y - x))) by lra. ring.
  Qed.
End Estimates.
