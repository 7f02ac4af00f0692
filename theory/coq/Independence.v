(* The hypothesis of best_of_all can be met: there are clients whose best linear estimate leaves an error that no function
   of the data foretells, so that nothing, linear or not, is better.

   A client's parameter departs from a known centre by the sum of k coins, its estimate from that by the sum of m more, each
   +- the root of c: the variances are k c and m c. Whoever sees only the sum of all k + m coins knows nothing of which coin
   is which, so that on average k / (k + m) of the sum is the parameter's share: the linear estimate. With more and smaller
   coins the two sums come as near to Gaussian ones as one likes; that Gaussian noise itself meets it is not proved here.

   Hand-written; statement and proof stand together. *)
Require Export Borrow.Levels.
Require Import List FinFun FunctionalExtensionality.
Import ListNotations.
Open Scope R_scope.

Fixpoint signs (c : list coin) (o : flips) : R := match c with [] => 0 | x :: rest => sign (o x) + signs rest o end.

(* The mean of g of a sum of n coins; of one of the coins times g of the sum. *)
Fixpoint mean_of_sum (n : nat) (g : R -> R) : R :=
  match n with
  | O => g 0
  | S p => (mean_of_sum p (fun s => g (1 + s)) + mean_of_sum p (fun s => g (-1 + s))) / 2
  end.
Definition mean_with_one (n : nat) (g : R -> R) : R :=
  (mean_of_sum (pred n) (fun s => g (1 + s)) - mean_of_sum (pred n) (fun s => g (-1 + s))) / 2.

Lemma average_ext : forall c X Y, (forall o, X o = Y o) -> average c X = average c Y.
Proof. intros c X Y H. f_equal. apply functional_extensionality. exact H. Qed.

Lemma signs_set : forall c x v o, ~ In x c -> signs c (set x v o) = signs c o.
Proof.
  induction c as [| y c IH]; intros x v o N; simpl; [reflexivity |].
  rewrite IH by (intros I; apply N; right; exact I). rewrite set_other; [reflexivity |].
  intros Q. apply N. left. exact Q.
Qed.

Lemma set_same : forall x v o, set x v o x = v.
Proof. intros. unfold set. destruct (coin_eq x x); tauto. Qed.

Lemma average_of_sum : forall c g, NoDup c -> average c (fun o => g (signs c o)) = mean_of_sum (length c) g.
Proof.
  induction c as [| x c IH]; intros g D; simpl; [reflexivity |]. inversion D as [| ? ? N D']; subst.
  f_equal. f_equal.
  - rewrite <- (IH (fun s => g (1 + s)) D'). apply average_ext. intros o. rewrite signs_set, set_same by exact N. reflexivity.
  - rewrite <- (IH (fun s => g (-1 + s)) D'). apply average_ext. intros o. rewrite signs_set, set_same by exact N. reflexivity.
Qed.

(* Which coin it is makes no difference. *)
Lemma average_with_one : forall c z g, NoDup c -> In z c ->
  average c (fun o => sign (o z) * g (signs c o)) = mean_with_one (length c) g.
Proof.
  induction c as [| x c IH]; intros z g D I; [inversion I |]. inversion D as [| ? ? N D']; subst. simpl average.
  destruct (coin_eq z x) as [-> | Q].
  - unfold mean_with_one. simpl. rewrite <- !(average_of_sum c) by exact D'.
    rewrite (average_ext c _ (fun o => 1 * g (1 + signs c o))).
    + rewrite (average_ext c (fun o => sign (set x false o x) * _) (fun o => -1 * g (-1 + signs c o))).
      * rewrite !average_scal. field.
      * intros o. rewrite signs_set, set_same by exact N. reflexivity.
    + intros o. rewrite signs_set, set_same by exact N. reflexivity.
  - assert (J : In z c) by (destruct I; [congruence | assumption]).
    rewrite (average_ext c _ (fun o => sign (o z) * (fun s => g (1 + s)) (signs c o))).
    + rewrite (average_ext c (fun o => sign (set x false o z) * _) (fun o => sign (o z) * (fun s => g (-1 + s)) (signs c o))).
      * rewrite (IH z (fun s => g (1 + s)) D' J), (IH z (fun s => g (-1 + s)) D' J). unfold mean_with_one. destruct c as [| y c]; [inversion J |]. simpl.
        replace (fun s => g (1 + (-1 + s))) with (fun s => g (-1 + (1 + s)))
          by (apply functional_extensionality; intros; f_equal; ring). field.
      * intros o. simpl. rewrite signs_set, set_same, set_other by (exact N || exact Q). reflexivity.
    + intros o. simpl. rewrite signs_set, set_same, set_other by (exact N || exact Q). reflexivity.
Qed.

(* A part of the coins times g of the sum of all. *)
Lemma average_of_part : forall c part g, NoDup c -> (forall z, In z part -> In z c) ->
  average c (fun o => signs part o * g (signs c o)) = length part * mean_with_one (length c) g.
Proof.
  intros c. induction part as [| z part IH]; intros g D H.
  - simpl. rewrite average_scal. ring.
  - rewrite (average_ext c _ (fun o => sign (o z) * g (signs c o) + signs part o * g (signs c o))) by (intros; simpl; ring).
    rewrite average_plus, IH, average_with_one; try assumption.
    + change (length (z :: part)) with (S (length part)). rewrite S_INR. ring.
    + apply H. left. reflexivity.
    + intros y Y. apply H. right. exact Y.
Qed.

(* Sums of coins have mean zero; two sums have the mean product that their common coins make. *)
Lemma average_signs : forall c a, (forall z, In z a -> In z c) -> average c (signs a) = 0.
Proof.
  intros c. induction a as [| z a IH]; intros H; [exact (average_const c 0) |].
  rewrite (average_ext c _ (fun o => sign (o z) * 1 + signs a o)) by (intros; simpl; ring).
  rewrite average_plus, IH, (coin_zero c z (fun _ => 1)); [ring | apply H; left; reflexivity | reflexivity |].
  intros y Y. apply H. right. exact Y.
Qed.

Lemma average_apart : forall c a b, (forall z, In z a -> In z c) -> (forall z, In z a -> ~ In z b) ->
  average c (fun o => signs a o * signs b o) = 0.
Proof.
  intros c. induction a as [| z a IH]; intros b H N.
  - rewrite (average_ext c _ (fun _ => 0)) by (intros; simpl; ring). apply average_const.
  - rewrite (average_ext c _ (fun o => sign (o z) * signs b o + signs a o * signs b o)) by (intros; simpl; ring).
    rewrite average_plus, IH, (coin_zero c z (signs b)); [ring | apply H; left; reflexivity | | |].
    + intros o v. apply signs_set. apply N. left. reflexivity.
    + intros y Y. apply H. right. exact Y.
    + intros y Y. apply N. right. exact Y.
Qed.

Lemma average_square : forall c a, (forall z, In z a -> In z c) -> NoDup a ->
  average c (fun o => signs a o * signs a o) = length a.
Proof.
  intros c. induction a as [| z a IH]; intros H D.
  - rewrite (average_ext c _ (fun _ => 0)) by (intros; simpl; ring). apply average_const.
  - inversion D as [| ? ? N D']; subst.
    rewrite (average_ext c _ (fun o => (1 + 2 * (sign (o z) * signs a o)) + signs a o * signs a o)).
    + rewrite !average_plus, average_scal, IH, average_const, (coin_zero c z (signs a)).
      * change (length (z :: a)) with (S (length a)). rewrite S_INR. ring.
      * apply H. left. reflexivity.
      * intros o v. apply signs_set. exact N.
      * intros y Y. apply H. right. exact Y.
      * exact D'.
    + intros o. simpl. destruct (o z); unfold sign; ring.
Qed.

Section OneClient.
  Variables (k m : nat) (c c0 : R).
  Hypothesis positive_c : 0 < c.

  Let first : list coin := map (fun i => (0%nat, 0%nat, i)) (seq 0 k).
  Let second : list coin := map (fun i => (0%nat, 0%nat, i)) (seq k m).
  Let both := first ++ second.
  Let part (kind : nat) : list coin := match kind with O => first | 1%nat => second | _ => [] end.
  Let z (kind l i : nat) (o : flips) : R := sqrt c * signs (part kind) o.

  Lemma both_distinct : NoDup both.
  Proof.
    unfold both, first, second. rewrite <- map_app, <- seq_app. apply FinFun.Injective_map_NoDup.
    - intros i j Q. congruence.
    - apply seq_NoDup.
  Qed.

  Lemma part_in : forall kind x, In x (part kind) -> In x both.
  Proof.
    intros kind x I. unfold both. apply in_or_app. destruct kind as [| [| kind]]; [left | right | inversion I]; exact I.
  Qed.

  Lemma part_distinct : forall kind, NoDup (part kind).
  Proof.
    intros [| [| kind]]; [| | constructor]; apply FinFun.Injective_map_NoDup; try apply seq_NoDup; intros i j Q; congruence.
  Qed.

  Lemma parts_apart : forall a b x, a <> b -> In x (part a) -> ~ In x (part b).
  Proof.
    intros [| [| a]] [| [| b]] x N I J; try congruence; try (inversion I; fail); try (inversion J; fail);
      apply in_map_iff in I; apply in_map_iff in J; destruct I as [i [<- I]]; destruct J as [j [Q J]];
      apply in_seq in I; apply in_seq in J; injection Q as Q; lia.
  Qed.

  Definition coin_clients : clients (coins both) 1 (same 1%nat) (same (k * c)) (same (m * c)) (same 0).
  Proof.
    refine (Build_clients (coins both) 1 (same 1%nat) _ _ _ c0 (z 0%nat) (z 1%nat) (z 2%nat) _ _).
    - intros kind l i K A B. assert (M : average both (z kind l i) = 0).
      { unfold z. rewrite average_scal, average_signs; [ring | apply part_in]. }
      destruct kind as [| [| [| kind]]]; [| | | lia]; split; try exact I; exact M.
    - intros kind l i kind' l' i' K A B K' A' B'. split; [exact I |].
      assert (l = 0%nat) by lia. assert (l' = 0%nat) by lia. unfold same in B, B'.
      assert (i = 0%nat) by lia. assert (i' = 0%nat) by lia. subst.
      assert (M : average both (fun o => z kind 0%nat 0%nat o * z kind' 0%nat 0%nat o)
        = if kind' =? kind then c * length (part kind) else 0).
      { rewrite (average_ext both _ (fun o => c * (signs (part kind) o * signs (part kind') o))).
        - rewrite average_scal. destruct (Nat.eqb_spec kind' kind) as [-> | N].
          + rewrite average_square; [reflexivity | apply part_in | apply part_distinct].
          + rewrite average_apart; [ring | apply part_in |]. intros x. apply parts_apart. congruence.
        - intros o. unfold z. replace (_ * _) with (sqrt c * sqrt c * (signs (part kind) o * signs (part kind') o)) by ring.
          rewrite sqrt_sqrt by lra. reflexivity. }
      unfold moment, same.
      destruct kind as [| [| [| kind]]]; [| | | lia]; (destruct kind' as [| [| [| kind']]]; [| | | lia]);
        (etransitivity; [exact M |]); cbn [Nat.eqb andb part]; unfold is; cbn [Nat.eqb andb];
        unfold first, second; rewrite ?map_length, ?seq_length; simpl; ring.
  Defined.

  Hypothesis some_coin : (0 < k + m)%nat.
  Let share : R := k / (k + m).
  Let shrunk (y : R) : R := c0 + share * (y - c0).

  (* The error of the shrunk estimate has nothing to do with the data. *)
  Theorem error_is_independent : forall h : R -> R,
    E (coins both) (fun o => (shrunk (estimate coin_clients 0 0 o) - parameter coin_clients 0 0 o)
                               * h (estimate coin_clients 0 0 o)) = 0.
  Proof.
    intros h. assert (P : (k : R) + m <> 0).
    { rewrite <- plus_INR. apply not_0_INR. lia. }
    assert (L : forall o, signs both o = signs first o + signs second o).
    { intros o. unfold both. induction first as [| x rest IH]; simpl; [ring | rewrite IH; ring]. }
    set (g := fun s => h (c0 + sqrt c * s)).
    assert (F : forall o, (shrunk (estimate coin_clients 0 0 o) - parameter coin_clients 0 0 o) * h (estimate coin_clients 0 0 o)
      = sqrt c * share * (signs both o * g (signs both o)) + - sqrt c * (signs first o * g (signs both o))).
    { intros o. unfold g. change (estimate coin_clients 0 0 o) with (c0 + sqrt c * signs first o + sqrt c * signs second o).
      change (parameter coin_clients 0 0 o) with (c0 + sqrt c * signs first o). unfold shrunk. rewrite (L o).
      replace (c0 + sqrt c * (signs first o + signs second o)) with (c0 + sqrt c * signs first o + sqrt c * signs second o)
        by ring. ring. }
    change (average both (fun o => (shrunk (estimate coin_clients 0 0 o) - parameter coin_clients 0 0 o)
      * h (estimate coin_clients 0 0 o)) = 0).
    rewrite (average_ext _ _ _ F), average_plus, !average_scal.
    rewrite (average_of_part both both g both_distinct) by tauto.
    rewrite (average_of_part both first g both_distinct) by (intros x; apply (part_in 0)).
    assert (N1 : length first = k) by (unfold first; rewrite map_length, seq_length; reflexivity).
    assert (N2 : INR (length both) = k + m).
    { unfold both. rewrite app_length, plus_INR, N1. unfold second. rewrite map_length, seq_length. reflexivity. }
    rewrite N1, N2. unfold share. field. exact P.
  Qed.

  (* So no estimate from the data at all has a smaller risk, and this one's is the formula for a known centre. *)
  Theorem shrunk_is_best_of_all : forall d : R -> R,
    risk (coins both) (fun o => shrunk (estimate coin_clients 0 0 o)) (parameter coin_clients 0 0)
    <= risk (coins both) (fun o => d (estimate coin_clients 0 0 o)) (parameter coin_clients 0 0).
  Proof.
    intros d. assert (B : bias (coins both) (fun o => shrunk (estimate coin_clients 0 0 o)) (parameter coin_clients 0 0) = 0).
    { unfold bias. rewrite <- (error_is_independent (fun _ => 1)). apply E_ext. intros o. ring. }
    apply (best_of_all (coins both) R (estimate coin_clients 0 0) _ _ d shrunk); try (intros; exact I); try exact B.
    - reflexivity.
    - intros h _. split; [exact I |]. rewrite B. etransitivity; [exact (error_is_independent h) | ring].
  Qed.

  Theorem shrunk_risk :
    risk (coins both) (fun o => shrunk (estimate coin_clients 0 0 o)) (parameter coin_clients 0 0)
    = k * c * (m * c) / (k * c + m * c).
  Proof.
    assert (P : (k : R) + m <> 0).
    { rewrite <- plus_INR. apply not_0_INR. lia. }
    change (average both (fun o => (shrunk (estimate coin_clients 0 0 o) - parameter coin_clients 0 0 o) ^ 2)
      = k * c * (m * c) / (k * c + m * c)).
    rewrite (average_ext both _ (fun o => (1 - share) ^ 2 * c * (signs first o * signs first o)
      + (- (2 * share * (1 - share) * c) * (signs first o * signs second o)
         + share ^ 2 * c * (signs second o * signs second o)))).
    - rewrite !average_plus, !average_scal.
      rewrite (average_square both first); [| intros x; apply (part_in 0) | apply (part_distinct 0)].
      rewrite (average_square both second); [| intros x; apply (part_in 1) | apply (part_distinct 1)].
      rewrite (average_apart both first second); [| intros x; apply (part_in 0) | intros x; apply (parts_apart 0 1 x); lia].
      assert (N1 : length first = k) by (unfold first; rewrite map_length, seq_length; reflexivity).
      assert (N2 : length second = m) by (unfold second; rewrite map_length, seq_length; reflexivity).
      rewrite N1, N2. unfold share. field. split; [| exact P].
      replace (k * c + m * c) with ((k + m) * c) by ring. apply Rmult_integral_contrapositive. split; [exact P | lra].
    - intros o. change (estimate coin_clients 0 0 o) with (c0 + sqrt c * signs first o + sqrt c * signs second o).
      change (parameter coin_clients 0 0 o) with (c0 + sqrt c * signs first o). unfold shrunk.
      rewrite <- (sqrt_sqrt c) at 4 5 6 by lra. ring.
  Qed.
End OneClient.

(* For any two numbers of coins there are such clients: no function d of the client's own estimate is better than the mixture
   with the centre, and its risk is the formula (generative:eq46). *)
Theorem best_of_all_is_met : forall (k m : nat) (c c0 : R), 0 < c -> (0 < k + m)%nat ->
  exists (S : space) (M : clients S 1 (same 1%nat) (same (k * c)) (same (m * c)) (same 0)), centre M = c0 /\
    let best := mixed M (m / (k + m)) 0 0 (middle M) in
    (forall h : R -> R, E S (fun o => (best o - parameter M 0 0 o) * h (estimate M 0 0 o)) = 0) /\
    (forall d : R -> R, risk S best (parameter M 0 0) <= risk S (fun o => d (estimate M 0 0 o)) (parameter M 0 0)) /\
    risk S best (parameter M 0 0) = k * c * (m * c) / (k * c + m * c).
Proof.
  intros k m c c0 C N. assert (P : (k : R) + m <> 0).
  { rewrite <- plus_INR. apply not_0_INR. lia. }
  exists (coins _), (coin_clients k m c c0 C). split; [reflexivity |]. cbv zeta.
  assert (F : forall o, mixed (coin_clients k m c c0 C) (m / (k + m)) 0 0 (middle (coin_clients k m c c0 C)) o
    = c0 + k / (k + m) * (estimate (coin_clients k m c c0 C) 0 0 o - c0)).
  { intros o. unfold mixed. change (middle (coin_clients k m c c0 C) o) with c0. field. exact P. }
  split; [| split].
  - intros h. rewrite <- (error_is_independent k m c c0 C N h). apply E_ext. intros o. rewrite (F o). reflexivity.
  - intros d. eapply Rle_trans; [| apply (shrunk_is_best_of_all k m c c0 C N d)]. right. apply E_ext. intros o.
    rewrite (F o). reflexivity.
  - rewrite <- (shrunk_risk k m c c0 C N). apply E_ext. intros o. rewrite (F o). reflexivity.
Qed.

Definition independence := (best_of_all_is_met, error_is_independent, shrunk_is_best_of_all, shrunk_risk).
