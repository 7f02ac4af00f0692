(* The theorems of Risks.v for weights that are equal within a level, with sums over levels in place of sums over clients:
   what generated proofs apply. The optima remain optima among all weights, equal within a level or not. *)
Require Export Borrow.Witness.

Lemma variance_nonneg : forall S L n tau2 alpha2 nu2 (M : clients S L n tau2 alpha2 nu2) l,
  (l < L)%nat -> (0 < n l)%nat -> 0 <= tau2 l /\ 0 <= alpha2 l /\ 0 <= nu2 l.
Proof.
  intros S L n tau2 alpha2 nu2 M l P Q.
  assert (H : forall k, (k < 3)%nat -> 0 <= variance M k l).
  { intros k K. destruct (noise_moment M k l 0 k l 0 K P Q K P Q) as [A B]. rewrite Nat.eqb_refl in B.
    destruct (is_spec l 0 l 0) as [_ | F]; [| tauto]. simpl in B. rewrite <- B. unfold moment.
    apply E_nonneg; [exact A |]. intros o. assert (G := pow2_ge_0 (noise M k l 0%nat o)). simpl in *. lra. }
  split; [apply (H 0%nat); lia | split; [apply (H 1%nat); lia | apply (H 2%nat); lia]].
Qed.

Section Levels.
  Context {S : space} {L : nat} {n : nat -> nat} {tau2 alpha2 nu2 : nat -> R} (M : clients S L n tau2 alpha2 nu2).

  Definition message_variance l := tau2 l + alpha2 l + nu2 l.

  Lemma weights_sum : forall v, sum L (fun l => n l * v l) = 1 -> sums_to_one (L := L) (n := n) (weights v).
  Proof. intros v H. unfold sums_to_one, weights. rewrite total_level. exact H. Qed.

  Lemma ratios_sum : forall r, sum L (fun l => n l * r l) <> 0 -> sums_to_one (L := L) (n := n) (ratios L n r).
  Proof.
    intros r H. apply weights_sum. rewrite (sum_ext L _ (fun l => / sum L (fun l => n l * r l) * (n l * r l))).
    - rewrite sum_scal. field. exact H.
    - intros. field. exact H.
  Qed.

  Lemma others_sum : forall v a b, (a < L)%nat -> (b < n a)%nat ->
    total L n (others (weights v) a b) = sum L (fun l => n l * v l) - v a.
  Proof.
    intros v a b A B.
    rewrite (total_ext L n _ (fun l i => v l + (if is a b l i then - v l else 0))).
    - rewrite total_plus, total_level, (total_pick L n a b (fun l _ => - v l) A B). ring.
    - intros. unfold others, weights. destruct (is a b l i); ring.
  Qed.

  (* --- risks --- *)

  Theorem server_risk : forall v, sum L (fun l => n l * v l) = 1 ->
    risk S (aggregate M (weights v)) (middle M) = sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))).
  Proof. intros v H. rewrite (aggregate_risk M _ (weights_sum v H)). unfold weights. apply total_level. Qed.

  Theorem client_risk : forall v lam a b, sum L (fun l => n l * v l) = 1 -> 1 + lam <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    risk S (personal M lam a b (aggregate M (weights v))) (parameter M a b)
      = (lam ^ 2 * sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * lam ^ 2 * (1 - 2 * v a)
         + alpha2 a * (1 + 2 * lam * v a)) / (1 + lam) ^ 2.
  Proof.
    intros v lam a b H D A B. rewrite (personal_risk M lam _ a b D A B (weights_sum v H)). unfold weights.
    rewrite total_level. reflexivity.
  Qed.

  Theorem cleaned_risk : forall v lam a b, sum L (fun l => n l * v l) = 1 -> 1 + lam <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    risk S (personal M lam a b (cleaned M (weights v) a b)) (parameter M a b)
      = (lam ^ 2 * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a)
         + tau2 a * lam ^ 2 * (1 - 2 * v a) + alpha2 a * (1 + 2 * lam * v a)) / (1 + lam) ^ 2.
  Proof.
    intros v lam a b H D A B. rewrite (personal_cleaned_risk M lam _ a b D A B (weights_sum v H)). unfold weights.
    rewrite total_level. reflexivity.
  Qed.

  Theorem mixture_risk : forall v u a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b)
      = u ^ 2 * sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * u ^ 2 * (1 - 2 * v a)
        + alpha2 a * ((1 - u) ^ 2 + 2 * u * (1 - u) * v a).
  Proof.
    intros v u a b H A B. rewrite (mixed_risk M u _ a b A B (weights_sum v H)). unfold weights.
    rewrite total_level. reflexivity.
  Qed.

  Theorem mixture_cleaned_risk : forall v u a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    risk S (mixed M u a b (cleaned M (weights v) a b)) (parameter M a b)
      = u ^ 2 * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a)
        + tau2 a * u ^ 2 * (1 - 2 * v a) + alpha2 a * ((1 - u) ^ 2 + 2 * u * (1 - u) * v a).
  Proof.
    intros v u a b H A B. rewrite (mixed_cleaned_risk M u _ a b A B (weights_sum v H)). unfold weights.
    rewrite total_level. reflexivity.
  Qed.

  (* A message around the centre; what a client's own estimate and a weighted sum of messages have in common. *)
  Theorem message_risk : forall a b, (a < L)%nat -> (b < n a)%nat ->
    risk S (message M a b) (middle M) = tau2 a + alpha2 a + nu2 a.
  Proof.
    intros a b A B. assert (Z : total L n (fun _ _ => 0) = 0).
    { rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring. }
    rewrite (risk_ext _ (linear M 1 1 (fun _ _ => 0) a b) _ (aim M 0 0 a b)).
    - rewrite linear_risk by (assumption || (rewrite Z; ring)).
      rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
    - intros o. unfold linear, aggregate, message. rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring).
      rewrite total_scal. ring.
    - intros o. unfold middle, aim. ring.
  Qed.

  Theorem shared_moment : forall v a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    moment S (fun o => estimate M a b o - middle M o) (fun o => aggregate M (weights v) o - middle M o)
      = v a * (tau2 a + alpha2 a).
  Proof.
    intros v a b H A B. assert (W := weights_sum v H). unfold sums_to_one in W.
    assert (Z : total L n (fun _ _ => 0) = 0).
    { rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring. }
    destruct (form_moment M (residual 1 0 0 0 (fun _ _ => 0) a b) (residual 0 0 0 0 (weights v) a b)) as [_ V].
    unfold moment in *. rewrite (E_ext S _ (fun o => form M (residual 1 0 0 0 (fun _ _ => 0) a b) o
      * form M (residual 0 0 0 0 (weights v) a b) o)).
    - rewrite V. unfold residual.
      assert (D : forall k c, total L n (fun l i => (0 + (if is a b l i then c else 0))
                    * (weights v l i + (if is a b l i then 0 else 0)) * variance M k l) = c * v a * variance M k a).
      { intros. rewrite <- (total_pick L n a b (fun l i => c * v a * variance M k l) A B). apply total_ext. intros.
        unfold weights. destruct (is_spec a b l i) as [[-> ->] | _]; ring. }
      cbn [sum three]. replace (0 - 0) with 0 by ring. rewrite !D. unfold variance. ring.
    - intros o. rewrite <- (residual_form M 1 0 0 0 (fun _ _ => 0) a b o A B) by (rewrite Z; ring).
      rewrite <- (residual_form M 0 0 0 0 (weights v) a b o A B) by lra.
      unfold linear, aim, middle, aggregate at 2. rewrite (total_ext L n (fun l i => 0 * _) (fun _ _ => 0 * 0)) by (intros; ring).
      rewrite total_scal. ring.
  Qed.

  (* --- least risks --- *)

  Lemma excess_nonneg : forall f, 0 <= total L n (fun l i => f l i ^ 2 * (tau2 l + alpha2 l + nu2 l)).
  Proof.
    intros f. apply total_nonneg. intros l i P Q. destruct (variance_nonneg S L n _ _ _ M l P ltac:(lia)) as [? [? ?]].
    apply Rmult_le_pos; [apply pow2_ge_0 | lra].
  Qed.

  Theorem least_centre : forall v kappa, (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> least_of_centre M kappa.
  Proof.
    intros v kappa K Z. assert (Y := weights_sum v Z). assert (F : risk S (aggregate M (weights v)) (middle M) = kappa).
    { rewrite server_risk by exact Z. rewrite (sum_ext L _ (fun l => kappa * (n l * v l))).
      - rewrite sum_scal, Z. ring.
      - intros l P. rewrite <- (K l P). ring. }
    split; [exists (weights v); tauto |]. intros w W. rewrite (best_weights M v kappa K Y w W), F.
    assert (G := excess_nonneg (fun l i => w l i - v l)). cbv beta in G. lra.
  Qed.

  Lemma others_split : forall v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) - v a = 1 ->
    forall w, sums_to_one (L := L) (n := n) w -> w a b = 0 -> risk S (aggregate M w) (middle M)
      = kappa + total L n (fun l i => (w l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l)).
  Proof.
    intros v kappa a b A B K Z w W O. rewrite <- (others_sum v a b A B) in Z.
    rewrite (aggregate_risk M w W). unfold sums_to_one in W.
    assert (P : forall l i, (l < L)%nat -> others (weights v) a b l i ^ 2 * (tau2 l + alpha2 l + nu2 l)
                = kappa * others (weights v) a b l i).
    { intros l i P. rewrite <- (K l P). unfold others, weights. destruct (is a b l i); ring. }
    assert (D : 2 * kappa * (total L n w - total L n (others (weights v) a b)) = 0) by (rewrite W, Z; ring).
    replace (total L n w - total L n (others (weights v) a b))
      with (total L n (fun l i => w l i + (-1) * others (weights v) a b l i)) in D by (rewrite total_plus, total_scal; ring).
    transitivity (kappa * total L n (others (weights v) a b)
      + (total L n (fun l i => (w l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l))
         + 2 * kappa * total L n (fun l i => w l i + (-1) * others (weights v) a b l i))).
    - rewrite <- !total_scal, <- !total_plus. apply total_ext. intros l i Q _. rewrite <- (P l i Q), <- (K l Q).
      unfold others, weights. destruct (is_spec a b l i) as [[-> ->] | _]; [rewrite O |]; ring.
    - rewrite D, Z. ring.
  Qed.

  Lemma others_admissible : forall v a b, (a < L)%nat -> (b < n a)%nat -> sum L (fun l => n l * v l) - v a = 1 ->
    sums_to_one (L := L) (n := n) (others (weights v) a b) /\ others (weights v) a b a b = 0.
  Proof.
    intros v a b A B Z. split; [unfold sums_to_one; rewrite (others_sum v a b A B); exact Z |].
    unfold others. destruct (is_spec a b a b) as [_ | N]; [reflexivity | tauto].
  Qed.

  Theorem least_of_others : forall v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) - v a = 1 -> least_without M a b kappa.
  Proof.
    intros v kappa a b A B K Z. destruct (others_admissible v a b A B Z) as [Y O]. split.
    - exists (others (weights v) a b). split; [tauto |]. rewrite (others_split v kappa a b A B K Z _ Y O).
      rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
    - intros w [W N]. rewrite (others_split v kappa a b A B K Z w W N).
      assert (G := excess_nonneg (fun l i => w l i - others (weights v) a b l i)). cbv beta in G. lra.
  Qed.

  (* These weights are the only best ones, where all messages have some noise. *)
  Theorem least_of_others_only : forall v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) - v a = 1 -> (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) ->
    forall w, sums_to_one (L := L) (n := n) w -> w a b = 0 ->
    risk S (aggregate M (others (weights v) a b)) (middle M) <= risk S (aggregate M w) (middle M) /\
    (risk S (aggregate M w) (middle M) = risk S (aggregate M (others (weights v) a b)) (middle M) ->
     forall l i, (l < L)%nat -> (i < n l)%nat -> w l i = others (weights v) a b l i).
  Proof.
    intros v kappa a b A B K Z V w W N. destruct (others_admissible v a b A B Z) as [Y O].
    rewrite (others_split v kappa a b A B K Z w W N), (others_split v kappa a b A B K Z _ Y O).
    rewrite (total_ext L n (fun l i => (others (weights v) a b l i - _) ^ 2 * _) (fun _ _ => 0 * 0)) by (intros; ring).
    rewrite total_scal.
    assert (P : forall l i, (l < L)%nat -> (i < n l)%nat ->
      0 <= (w l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l)).
    { intros. apply Rmult_le_pos; [apply pow2_ge_0 | left; apply V; assumption]. }
    split; [assert (G := total_nonneg L n _ P); cbv beta in G; lra |]. intros Q l i I J.
    assert (F := total_zero L n _ P ltac:(cbv beta; lra) l i I J). simpl in F. assert (U := V l I).
    apply Rmult_integral in F. destruct F as [F | F]; [| lra]. apply Rminus_diag_uniq. nra.
  Qed.

  Theorem least_client : forall x v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    x * alpha2 a - (1 - x) * tau2 a = kappa -> x + (sum L (fun l => n l * v l) - v a) = 1 ->
    least_of_client M a b (alpha2 a * x).
  Proof.
    intros x v kappa a b A B K X Z. rewrite <- (others_sum v a b A B) in Z.
    assert (Y : blends_to_one (L := L) (n := n) x (weights v) a b) by exact Z.
    assert (F : risk S (blend M x (weights v) a b) (parameter M a b) = alpha2 a * x).
    { rewrite (blend_risk M x _ a b A B Y).
      rewrite (total_ext L n _ (fun l i => kappa * others (weights v) a b l i)).
      - rewrite total_scal. replace (total L n (others (weights v) a b)) with (1 - x) by lra. rewrite <- X. ring.
      - intros l i P _. rewrite <- (K l P). unfold others, weights. destruct (is a b l i); ring. }
    split.
    - exists (x, weights v). tauto.
    - intros [y w] W. simpl in *. rewrite (best_blend M x v kappa a b A B K X Y y w W), F.
      assert (G := excess_nonneg (fun l i => others w a b l i - others (weights v) a b l i)). cbv beta in G.
      destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [? [? ?]].
      assert (H3 : 0 <= (y - x) ^ 2 * (tau2 a + alpha2 a)) by (apply Rmult_le_pos; [apply pow2_ge_0 | lra]). lra.
  Qed.

  (* A client's best blend is the only one, where its own estimate and the others' messages have some noise. *)
  Theorem least_client_only : forall x v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    x * alpha2 a - (1 - x) * tau2 a = kappa -> x + (sum L (fun l => n l * v l) - v a) = 1 ->
    0 < tau2 a + alpha2 a -> (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) ->
    forall y w, blends_to_one (L := L) (n := n) y w a b ->
    risk S (blend M x (weights v) a b) (parameter M a b) <= risk S (blend M y w a b) (parameter M a b) /\
    (risk S (blend M y w a b) (parameter M a b) = risk S (blend M x (weights v) a b) (parameter M a b) ->
     y = x /\ forall l i, (l < L)%nat -> (i < n l)%nat -> ~ (l = a /\ i = b) -> w l i = v l).
  Proof.
    intros x v kappa a b A B K X Z V W y w Y. rewrite <- (others_sum v a b A B) in Z.
    rewrite (best_blend M x v kappa a b A B K X Z y w Y).
    assert (P : forall l i, (l < L)%nat -> (i < n l)%nat ->
      0 <= (others w a b l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l)).
    { intros. apply Rmult_le_pos; [apply pow2_ge_0 | left; apply W; assumption]. }
    assert (G := total_nonneg L n _ P).
    assert (H : 0 <= (y - x) ^ 2 * (tau2 a + alpha2 a)) by (apply Rmult_le_pos; [apply pow2_ge_0 | lra]).
    split; [cbv beta in G; lra |]. intros Q. split.
    - assert (F : (y - x) ^ 2 * (tau2 a + alpha2 a) = 0) by (cbv beta in *; lra).
      apply Rmult_integral in F. destruct F as [F | F]; [| lra]. apply Rminus_diag_uniq. nra.
    - intros l i I J N. assert (F := total_zero L n _ P ltac:(cbv beta in *; lra) l i I J). simpl in F. assert (U := W l I).
      apply Rmult_integral in F. destruct F as [F | F]; [| lra]. unfold others, weights in F.
      destruct (is_spec a b l i) as [T | _]; [tauto |]. apply Rminus_diag_uniq. nra.
  Qed.

  (* --- best strengths --- *)

  Lemma parabola : forall A B C s t, s * (C - B) = A - B -> 1 + s <> 0 -> 1 + t <> 0 ->
    (A + 2 * B * t + C * t ^ 2) / (1 + t) ^ 2
      = (A + 2 * B * s + C * s ^ 2) / (1 + s) ^ 2 + (A - 2 * B + C) * ((t - s) / ((1 + t) * (1 + s))) ^ 2.
  Proof.
    intros A B C s t H P Q. replace A with (B + s * (C - B)) by lra. field. split; assumption.
  Qed.

  Lemma square_zero : forall D a b c, 0 < D -> b <> 0 -> c <> 0 -> D * (a / (b * c)) ^ 2 = 0 -> a = 0.
  Proof.
    intros D a b c P B C H. apply Rmult_integral in H. destruct H as [H | H]; [lra |].
    assert (F : a / (b * c) = 0) by nra. unfold Rdiv in F. apply Rmult_integral in F. destruct F as [F | F]; [exact F |].
    exfalso. apply (Rinv_neq_0_compat (b * c)); [| exact F]. apply Rmult_integral_contrapositive. tauto.
  Qed.

  (* What the pivot differs from the own estimate by, squared, on average. *)
  Lemma spread_nonneg : forall v a b, (a < L)%nat -> (b < n a)%nat ->
    (1 - v a) ^ 2 * (tau2 a + alpha2 a)
    <= sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a
       + tau2 a * (1 - 2 * v a) + alpha2 a - 2 * (alpha2 a * v a).
  Proof.
    intros v a b A B.
    assert (G := excess_nonneg (others (weights v) a b)). cbv beta in G.
    rewrite (total_ext L n _ (fun l i => v l ^ 2 * (tau2 l + alpha2 l + nu2 l)
      + (if is a b l i then - (v l ^ 2 * (tau2 l + alpha2 l + nu2 l)) else 0))) in G.
    - rewrite total_plus, total_level, (total_pick L n a b (fun l _ => - (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) A B) in G. lra.
    - intros. unfold others, weights. destruct (is a b l i); ring.
  Qed.

  Theorem best_strength_cleaned : forall v s a b, sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 ->
    (a < L)%nat -> (b < n a)%nat ->
    s * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a + tau2 a * (1 - 2 * v a)
         - alpha2 a * v a) = alpha2 a - alpha2 a * v a ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (cleaned M (weights v) a b)) (parameter M a b)
      <= risk S (personal M t a b (cleaned M (weights v) a b)) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> v a <> 1 ->
     risk S (personal M t a b (cleaned M (weights v) a b)) (parameter M a b)
       = risk S (personal M s a b (cleaned M (weights v) a b)) (parameter M a b) -> t = s).
  Proof.
    intros v s a b Z P A B N t Q. rewrite !cleaned_risk by assumption.
    set (C := sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a + tau2 a * (1 - 2 * v a)) in *.
    assert (F : forall x, (x ^ 2 * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * nu2 a)
         + tau2 a * x ^ 2 * (1 - 2 * v a) + alpha2 a * (1 + 2 * x * v a)) / (1 + x) ^ 2
         = (alpha2 a + 2 * (alpha2 a * v a) * x + C * x ^ 2) / (1 + x) ^ 2) by (intros; unfold C; f_equal; ring).
    rewrite !F, (parabola (alpha2 a) (alpha2 a * v a) C s t N P Q).
    assert (G := spread_nonneg v a b A B). fold C in G.
    destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [U [W _]].
    assert (T := Rmult_le_pos ((1 - v a) ^ 2) (tau2 a + alpha2 a) (pow2_ge_0 _) ltac:(lra)). split.
    - assert (H : 0 <= (alpha2 a - 2 * (alpha2 a * v a) + C) * ((t - s) / ((1 + t) * (1 + s))) ^ 2)
        by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra.
    - intros H1 H2 H3. apply Rminus_diag_uniq.
      apply (square_zero (alpha2 a - 2 * (alpha2 a * v a) + C) _ (1 + t) (1 + s)); try assumption; [| lra].
      assert (K : 0 < (1 - v a) ^ 2) by (apply square_positive; lra).
      assert (K2 := Rmult_lt_0_compat _ (tau2 a + alpha2 a) K ltac:(lra)). lra.
  Qed.

  Theorem best_strength : forall v s a b, sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 ->
    (a < L)%nat -> (b < n a)%nat ->
    s * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a)
         - alpha2 a * v a) = alpha2 a - alpha2 a * v a ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (aggregate M (weights v))) (parameter M a b)
      <= risk S (personal M t a b (aggregate M (weights v))) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> v a <> 1 ->
     risk S (personal M t a b (aggregate M (weights v))) (parameter M a b)
       = risk S (personal M s a b (aggregate M (weights v))) (parameter M a b) -> t = s).
  Proof.
    intros v s a b Z P A B N t Q. rewrite !client_risk by assumption.
    set (C := sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a)) in *.
    assert (F : forall x, (x ^ 2 * sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l)))
         + tau2 a * x ^ 2 * (1 - 2 * v a) + alpha2 a * (1 + 2 * x * v a)) / (1 + x) ^ 2
         = (alpha2 a + 2 * (alpha2 a * v a) * x + C * x ^ 2) / (1 + x) ^ 2) by (intros; unfold C; f_equal; ring).
    rewrite !F, (parabola (alpha2 a) (alpha2 a * v a) C s t N P Q).
    assert (G := spread_nonneg v a b A B).
    destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [U [W V]].
    assert (G2 := Rmult_le_pos (v a ^ 2) (nu2 a) (pow2_ge_0 _) V).
    assert (T := Rmult_le_pos ((1 - v a) ^ 2) (tau2 a + alpha2 a) (pow2_ge_0 _) ltac:(lra)).
    assert (G3 : (1 - v a) ^ 2 * (tau2 a + alpha2 a) <= alpha2 a - 2 * (alpha2 a * v a) + C) by (unfold C; lra). split.
    - assert (H : 0 <= (alpha2 a - 2 * (alpha2 a * v a) + C) * ((t - s) / ((1 + t) * (1 + s))) ^ 2)
        by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra.
    - intros H1 H2 H3. apply Rminus_diag_uniq.
      apply (square_zero (alpha2 a - 2 * (alpha2 a * v a) + C) _ (1 + t) (1 + s)); try assumption; [| lra].
      assert (K : 0 < (1 - v a) ^ 2) by (apply square_positive; lra).
      assert (K2 := Rmult_lt_0_compat _ (tau2 a + alpha2 a) K ltac:(lra)). lra.
  Qed.
  (* The best mixture, over all real u, with what comes back. *)
  Theorem best_mixture : forall v u a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    u * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a) + alpha2 a
         - 2 * (alpha2 a * v a)) = alpha2 a - alpha2 a * v a ->
    forall t,
    risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b)
      <= risk S (mixed M t a b (aggregate M (weights v))) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> v a <> 1 ->
     risk S (mixed M t a b (aggregate M (weights v))) (parameter M a b)
       = risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b) -> t = u).
  Proof.
    intros v u a b Z A B N t. rewrite !mixture_risk by assumption.
    set (C := sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a)) in *.
    assert (F : forall x, x ^ 2 * sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * x ^ 2 * (1 - 2 * v a)
         + alpha2 a * ((1 - x) ^ 2 + 2 * x * (1 - x) * v a)
         = alpha2 a - 2 * x * (alpha2 a - alpha2 a * v a) + x ^ 2 * (C + alpha2 a - 2 * (alpha2 a * v a)))
      by (intros; unfold C; ring).
    rewrite !F, <- N. set (D := C + alpha2 a - 2 * (alpha2 a * v a)) in *.
    assert (G := spread_nonneg v a b A B).
    destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [U [W V]].
    assert (G2 := Rmult_le_pos (v a ^ 2) (nu2 a) (pow2_ge_0 _) V).
    assert (G3 : (1 - v a) ^ 2 * (tau2 a + alpha2 a) <= D) by (unfold D, C; lra).
    assert (T := Rmult_le_pos ((1 - v a) ^ 2) (tau2 a + alpha2 a) (pow2_ge_0 _) ltac:(lra)).
    assert (Q : alpha2 a - 2 * t * (u * D) + t ^ 2 * D = alpha2 a - 2 * u * (u * D) + u ^ 2 * D + D * (t - u) ^ 2) by ring.
    split.
    - assert (H : 0 <= D * (t - u) ^ 2) by (apply Rmult_le_pos; [lra | apply pow2_ge_0]). lra.
    - intros H1 H2 H3. assert (K : 0 < (1 - v a) ^ 2) by (apply square_positive; lra).
      assert (K2 := Rmult_lt_0_compat _ (tau2 a + alpha2 a) K ltac:(lra)).
      assert (H4 : D * (t - u) ^ 2 = 0) by lra. apply Rmult_integral in H4. destruct H4 as [H4 | H4]; [lra |].
      apply Rminus_diag_uniq. nra.
  Qed.

  Theorem least_mixture : forall v u a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    u * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a) + alpha2 a
         - 2 * (alpha2 a * v a)) = alpha2 a - alpha2 a * v a ->
    least (fun _ => True) (fun u => risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b))
      (alpha2 a * (1 - u * (1 - v a))).
  Proof.
    intros v u a b Z A B N. split.
    - exists u. split; [exact I |]. rewrite (mixture_risk v u a b Z A B).
      transitivity (alpha2 a - 2 * u * (alpha2 a - alpha2 a * v a)
        + u * (u * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a) + alpha2 a
                    - 2 * (alpha2 a * v a)))); [ring |]. rewrite N. ring.
    - intros t _. destruct (best_mixture v u a b Z A B N t) as [H _].
      replace (alpha2 a * (1 - u * (1 - v a))) with (risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b));
        [exact H |]. rewrite (mixture_risk v u a b Z A B).
      transitivity (alpha2 a - 2 * u * (alpha2 a - alpha2 a * v a)
        + u * (u * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a) + alpha2 a
                    - 2 * (alpha2 a * v a)))); [ring |]. rewrite N. ring.
  Qed.

  (* The risk falls up to the best strength and rises after it. *)
  Lemma closer : forall D s t r, 0 <= D -> -1 < s -> (s <= t <= r \/ -1 < r /\ r <= t <= s) ->
    D * ((t - s) / ((1 + t) * (1 + s))) ^ 2 <= D * ((r - s) / ((1 + r) * (1 + s))) ^ 2.
  Proof.
    intros D s t r P S1 H. assert (T : 0 < 1 + t) by lra. assert (R1 : 0 < 1 + r) by lra. assert (S2 : 0 < 1 + s) by lra.
    apply Rmult_le_compat_l; [exact P |].
    assert (X : (r - s) / ((1 + r) * (1 + s)) - (t - s) / ((1 + t) * (1 + s)) = (r - t) / ((1 + r) * (1 + t)))
      by (field; lra).
    assert (U : 0 < / ((1 + t) * (1 + s))) by (apply Rinv_0_lt_compat, Rmult_lt_0_compat; assumption).
    assert (V : 0 < / ((1 + r) * (1 + t))) by (apply Rinv_0_lt_compat, Rmult_lt_0_compat; assumption).
    set (x := (t - s) / ((1 + t) * (1 + s))) in *. set (y := (r - s) / ((1 + r) * (1 + s))) in *.
    destruct H as [[H1 H2] | [_ [H1 H2]]].
    - assert (0 <= x) by (unfold x; apply Rmult_le_pos; lra).
      assert (0 <= y - x) by (rewrite X; apply Rmult_le_pos; lra). nra.
    - assert (0 <= - x) by (unfold x, Rdiv; rewrite Ropp_mult_distr_l; apply Rmult_le_pos; lra).
      assert (0 <= - (y - x)) by (rewrite X; unfold Rdiv; rewrite Ropp_mult_distr_l; apply Rmult_le_pos; lra). nra.
  Qed.

  Theorem strength_unimodal : forall v s a b, sum L (fun l => n l * v l) = 1 -> 0 < 1 + s ->
    (a < L)%nat -> (b < n a)%nat ->
    s * (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a)
         - alpha2 a * v a) = alpha2 a - alpha2 a * v a ->
    forall t r, s <= t <= r \/ -1 < r /\ r <= t <= s ->
    risk S (personal M t a b (aggregate M (weights v))) (parameter M a b)
      <= risk S (personal M r a b (aggregate M (weights v))) (parameter M a b).
  Proof.
    intros v s a b Z P0 A B N t r H. assert (P : -1 < s) by lra. rewrite !client_risk by (assumption || lra).
    set (C := sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a)) in *.
    assert (F : forall x, (x ^ 2 * sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l)))
         + tau2 a * x ^ 2 * (1 - 2 * v a) + alpha2 a * (1 + 2 * x * v a)) / (1 + x) ^ 2
         = (alpha2 a + 2 * (alpha2 a * v a) * x + C * x ^ 2) / (1 + x) ^ 2) by (intros; unfold C; f_equal; ring).
    rewrite !F, (parabola (alpha2 a) (alpha2 a * v a) C s t N), (parabola (alpha2 a) (alpha2 a * v a) C s r N) by lra.
    assert (G := spread_nonneg v a b A B). destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [U [W V]].
    assert (G2 := Rmult_le_pos (v a ^ 2) (nu2 a) (pow2_ge_0 _) V).
    assert (T := Rmult_le_pos ((1 - v a) ^ 2) (tau2 a + alpha2 a) (pow2_ge_0 _) ltac:(lra)).
    assert (G3 : 0 <= alpha2 a - 2 * (alpha2 a * v a) + C) by (unfold C; lra).
    assert (X := closer _ s t r G3 P H). lra.
  Qed.

  (* Up to a mean squared difference D of own estimate and pivot that is no larger than what they differ by through the own
     estimate's error, nothing is better than to take the pivot as it is; above it, some mixture is. *)
  Theorem pivot_as_it_is : forall v a b, sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat ->
    let D := sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) + tau2 a * (1 - 2 * v a) + alpha2 a
             - 2 * (alpha2 a * v a) in
    (D <= alpha2 a - alpha2 a * v a -> forall u, u <= 1 ->
      risk S (mixed M 1 a b (aggregate M (weights v))) (parameter M a b)
      <= risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b)) /\
    (v a <= 1 -> alpha2 a - alpha2 a * v a < D -> exists u, 0 <= u < 1 /\
      risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b)
      < risk S (mixed M 1 a b (aggregate M (weights v))) (parameter M a b)).
  Proof.
    intros v a b Z A B D.
    assert (F : forall x, risk S (mixed M x a b (aggregate M (weights v))) (parameter M a b)
         = alpha2 a - 2 * x * (alpha2 a - alpha2 a * v a) + x ^ 2 * D).
    { intros x. rewrite (mixture_risk v x a b Z A B). unfold D. ring. }
    assert (G := spread_nonneg v a b A B).
    destruct (variance_nonneg S L n _ _ _ M a A ltac:(lia)) as [U [W V]].
    assert (G2 := Rmult_le_pos (v a ^ 2) (nu2 a) (pow2_ge_0 _) V).
    assert (T := Rmult_le_pos ((1 - v a) ^ 2) (tau2 a + alpha2 a) (pow2_ge_0 _) ltac:(lra)).
    assert (G3 : 0 <= D) by (unfold D; lra). split.
    - intros H u Q. rewrite !F. set (B2 := alpha2 a - alpha2 a * v a) in *.
      assert (X : 0 <= (1 - u) * (2 * (B2 - D) + D * (1 - u))).
      { apply Rmult_le_pos; [lra |]. assert (0 <= D * (1 - u)) by (apply Rmult_le_pos; lra). lra. }
      lra.
    - intros Q H. set (B2 := alpha2 a - alpha2 a * v a) in *.
      assert (P : 0 <= B2) by (unfold B2; replace (alpha2 a - alpha2 a * v a) with (alpha2 a * (1 - v a)) by ring;
        apply Rmult_le_pos; lra).
      assert (I : B2 / D * D = B2) by (field; lra). exists (B2 / D). split.
      + split; [apply Rmult_le_pos; [lra | left; apply Rinv_0_lt_compat; lra] |].
        apply (Rmult_lt_reg_r D); lra.
      + rewrite !F. apply Rminus_gt_0_lt.
        replace (_ - _) with (D * (1 - B2 / D) ^ 2); [apply Rmult_lt_0_compat; [lra |]; apply square_positive; intros X;
          assert (B2 / D = 1) by lra; rewrite H0 in I; lra |].
        replace (2 * (B2 / D) * B2) with (2 * (B2 / D) * (B2 / D * D)) by (rewrite I; ring).
        replace (2 * 1 * B2) with (2 * 1 * (B2 / D * D)) by (rewrite I; ring). ring.
  Qed.

  (* --- towards the best server --- *)

  Lemma balanced_sum : forall v kappa, (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) = kappa.
  Proof.
    intros v kappa K Z. rewrite (sum_ext L _ (fun l => kappa * (n l * v l))).
    - rewrite sum_scal, Z. ring.
    - intros l P. rewrite <- (K l P). ring.
  Qed.

  (* Towards the best weighted sum without the own noise, the best strength is alpha2 / (tau2 + w nu2). *)
  Theorem best_strength_cleaned_balanced : forall v kappa s a b,
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a + v a * nu2 a) = alpha2 a ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (cleaned M (weights v) a b)) (parameter M a b)
      <= risk S (personal M t a b (cleaned M (weights v) a b)) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> v a <> 1 ->
     risk S (personal M t a b (cleaned M (weights v) a b)) (parameter M a b)
       = risk S (personal M s a b (cleaned M (weights v) a b)) (parameter M a b) -> t = s).
  Proof.
    intros v kappa s a b K Z P A B N. apply best_strength_cleaned; try assumption.
    rewrite (balanced_sum v kappa K Z), <- (K a A).
    transitivity ((1 - v a) * (s * (tau2 a + v a * nu2 a))); [ring |]. rewrite N. ring.
  Qed.

  (* With the own noise in it, alpha2 / (tau2 + nu2 w / (1 - w)). *)
  Theorem best_strength_balanced : forall v kappa s a b,
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a * (1 - v a) + v a * nu2 a) = alpha2 a * (1 - v a) ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (aggregate M (weights v))) (parameter M a b)
      <= risk S (personal M t a b (aggregate M (weights v))) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> v a <> 1 ->
     risk S (personal M t a b (aggregate M (weights v))) (parameter M a b)
       = risk S (personal M s a b (aggregate M (weights v))) (parameter M a b) -> t = s).
  Proof.
    intros v kappa s a b K Z P A B N. apply best_strength; try assumption.
    rewrite (balanced_sum v kappa K Z), <- (K a A).
    transitivity (s * (tau2 a * (1 - v a) + v a * nu2 a)); [ring |]. rewrite N. ring.
  Qed.

  (* The same for ratios, in terms of the total precision. *)
  Let precision := sum L (fun l => n l / (tau2 l + alpha2 l + nu2 l)).

  Lemma ratios_precision : forall r kappa, (forall l, (l < L)%nat -> r l * (tau2 l + alpha2 l + nu2 l) = kappa) -> 0 < kappa ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) -> 0 < precision ->
    sum L (fun l => n l * r l) = kappa * precision /\
    forall l, (l < L)%nat -> r l / sum L (fun l => n l * r l) = 1 / ((tau2 l + alpha2 l + nu2 l) * precision).
  Proof.
    intros r kappa K P V Q.
    assert (R0 : forall l, (l < L)%nat -> r l = kappa / (tau2 l + alpha2 l + nu2 l)).
    { intros l A. rewrite <- (K l A). assert (U := V l A). field. lra. }
    assert (Z : sum L (fun l => n l * r l) = kappa * precision).
    { unfold precision. rewrite <- sum_scal. apply sum_ext. intros l A. rewrite (R0 l A). assert (U := V l A). field. lra. }
    split; [exact Z |]. intros l A. rewrite Z, (R0 l A). assert (U := V l A). field. lra.
  Qed.

  Theorem best_strength_cleaned_ratios : forall r kappa s a b,
    (forall l, (l < L)%nat -> r l * (tau2 l + alpha2 l + nu2 l) = kappa) -> 0 < kappa ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) -> 0 < precision ->
    1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a + 1 / ((tau2 a + alpha2 a + nu2 a) * precision) * nu2 a) = alpha2 a ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (cleaned M (ratios L n r) a b)) (parameter M a b)
      <= risk S (personal M t a b (cleaned M (ratios L n r) a b)) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> ratios L n r a b <> 1 ->
     risk S (personal M t a b (cleaned M (ratios L n r) a b)) (parameter M a b)
       = risk S (personal M s a b (cleaned M (ratios L n r) a b)) (parameter M a b) -> t = s).
  Proof.
    intros r kappa s a b K P V Q S1 A B N. destruct (ratios_precision r kappa K P V Q) as [Z W].
    apply (best_strength_cleaned_balanced (fun l => r l / sum L (fun l => n l * r l)) (1 / precision) s a b); try assumption.
    - intros l C. rewrite (W l C). assert (U := V l C). field. lra.
    - transitivity (sum L (fun l => / sum L (fun l => n l * r l) * (n l * r l))).
      + apply sum_ext. intros. unfold Rdiv. ring.
      + rewrite sum_scal, Z. apply Rinv_l. apply Rgt_not_eq, Rmult_lt_0_compat; assumption.
    - rewrite (W a A). exact N.
  Qed.

  Theorem best_strength_ratios : forall r kappa s a b,
    (forall l, (l < L)%nat -> r l * (tau2 l + alpha2 l + nu2 l) = kappa) -> 0 < kappa ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) -> 0 < precision ->
    1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a * (1 - 1 / ((tau2 a + alpha2 a + nu2 a) * precision)) + 1 / ((tau2 a + alpha2 a + nu2 a) * precision) * nu2 a)
      = alpha2 a * (1 - 1 / ((tau2 a + alpha2 a + nu2 a) * precision)) ->
    forall t, 1 + t <> 0 ->
    risk S (personal M s a b (aggregate M (ratios L n r))) (parameter M a b)
      <= risk S (personal M t a b (aggregate M (ratios L n r))) (parameter M a b) /\
    (0 < tau2 a + alpha2 a -> ratios L n r a b <> 1 ->
     risk S (personal M t a b (aggregate M (ratios L n r))) (parameter M a b)
       = risk S (personal M s a b (aggregate M (ratios L n r))) (parameter M a b) -> t = s).
  Proof.
    intros r kappa s a b K P V Q S1 A B N. destruct (ratios_precision r kappa K P V Q) as [Z W].
    apply (best_strength_balanced (fun l => r l / sum L (fun l => n l * r l)) (1 / precision) s a b); try assumption.
    - intros l C. rewrite (W l C). assert (U := V l C). field. lra.
    - transitivity (sum L (fun l => / sum L (fun l => n l * r l) * (n l * r l))).
      + apply sum_ext. intros. unfold Rdiv. ring.
      + rewrite sum_scal, Z. apply Rinv_l. apply Rgt_not_eq, Rmult_lt_0_compat; assumption.
    - rewrite (W a A). exact N.
  Qed.

  (* There the client attains the least risk of all blends. *)
  Theorem attains_cleaned : forall v kappa s a b,
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a + v a * nu2 a) = alpha2 a ->
    least_of_client M a b (risk S (personal M s a b (cleaned M (weights v) a b)) (parameter M a b)).
  Proof.
    intros v kappa s a b K Z P A B N. rewrite (cleaned_risk v s a b Z P A B), (balanced_sum v kappa K Z), <- (K a A), <- N.
    replace (_ / _) with (alpha2 a * ((1 + s * v a) / (1 + s))) by (rewrite <- N; field; exact P).
    apply (least_client _ (fun l => s / (1 + s) * v l) (s / (1 + s) * kappa) a b A B).
    - intros l Q. rewrite <- (K l Q). ring.
    - rewrite <- (K a A), <- N. field. exact P.
    - rewrite (sum_ext L _ (fun l => s / (1 + s) * (n l * v l))) by (intros; ring). rewrite sum_scal, Z. field. exact P.
  Qed.

  Theorem attains_cleaned_ratios : forall r kappa s a b,
    (forall l, (l < L)%nat -> r l * (tau2 l + alpha2 l + nu2 l) = kappa) -> 0 < kappa ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) -> 0 < precision ->
    1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a + 1 / ((tau2 a + alpha2 a + nu2 a) * precision) * nu2 a) = alpha2 a ->
    least_of_client M a b (risk S (personal M s a b (cleaned M (ratios L n r) a b)) (parameter M a b)).
  Proof.
    intros r kappa s a b K P V Q S1 A B N. destruct (ratios_precision r kappa K P V Q) as [Z W].
    apply (attains_cleaned (fun l => r l / sum L (fun l => n l * r l)) (1 / precision) s a b); try assumption.
    - intros l C. rewrite (W l C). assert (U := V l C). field. lra.
    - transitivity (sum L (fun l => / sum L (fun l => n l * r l) * (n l * r l))).
      + apply sum_ext. intros. unfold Rdiv. ring.
      + rewrite sum_scal, Z. apply Rinv_l. apply Rgt_not_eq, Rmult_lt_0_compat; assumption.
    - rewrite (W a A). exact N.
  Qed.

  Theorem attains_mixed : forall v kappa u a b,
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> (a < L)%nat -> (b < n a)%nat -> nu2 a = 0 -> u * tau2 a = alpha2 a * (1 - u) ->
    least_of_client M a b (risk S (mixed M u a b (aggregate M (weights v))) (parameter M a b)).
  Proof.
    intros v kappa u a b K Z A B V N. rewrite (mixture_risk v u a b Z A B), (balanced_sum v kappa K Z), <- (K a A), V.
    replace (_ + _) with (alpha2 a * (1 - u * (1 - v a))).
    - apply (least_client _ (fun l => u * v l) (u * kappa) a b A B).
      + intros l Q. rewrite <- (K l Q). ring.
      + rewrite <- (K a A), V. transitivity (alpha2 a * (1 - u) + u * v a * alpha2 a - u * tau2 a + u * v a * tau2 a); [ring |].
        rewrite N. ring_simplify. assert (X : u * v a * tau2 a = v a * (alpha2 a * (1 - u))) by (rewrite <- N; ring). lra.
      + rewrite (sum_ext L _ (fun l => u * (n l * v l))) by (intros; ring). rewrite sum_scal, Z. ring.
    - assert (X : u * (u * tau2 a) = u * (alpha2 a * (1 - u))) by (rewrite N; ring).
      assert (Y : v a * (u * (u * tau2 a)) = v a * (u * (alpha2 a * (1 - u)))) by (rewrite N; ring). nra.
  Qed.

  Theorem attains_returned : forall v kappa s a b,
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) = 1 -> 1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat -> nu2 a = 0 ->
    s * (tau2 a + v a * nu2 a) = alpha2 a ->
    least_of_client M a b (risk S (personal M s a b (aggregate M (weights v))) (parameter M a b)).
  Proof.
    intros v kappa s a b K Z P A B V N. assert (H := attains_cleaned v kappa s a b K Z P A B N).
    rewrite (cleaned_risk v s a b Z P A B), V in H. rewrite (client_risk v s a b Z P A B).
    replace (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l))) - v a ^ 2 * 0)
      with (sum L (fun l => n l * (v l ^ 2 * (tau2 l + alpha2 l + nu2 l)))) in H by ring. exact H.
  Qed.

  Theorem attains_returned_ratios : forall r kappa s a b,
    (forall l, (l < L)%nat -> r l * (tau2 l + alpha2 l + nu2 l) = kappa) -> 0 < kappa ->
    (forall l, (l < L)%nat -> 0 < tau2 l + alpha2 l + nu2 l) -> 0 < precision ->
    1 + s <> 0 -> (a < L)%nat -> (b < n a)%nat ->
    s * (tau2 a + 1 / ((tau2 a + alpha2 a + nu2 a) * precision) * nu2 a) = alpha2 a -> nu2 a = 0 ->
    least_of_client M a b (risk S (personal M s a b (aggregate M (ratios L n r))) (parameter M a b)).
  Proof.
    intros r kappa s a b K P V Q S1 A B N O. destruct (ratios_precision r kappa K P V Q) as [Z W].
    apply (attains_returned (fun l => r l / sum L (fun l => n l * r l)) (1 / precision) s a b); try assumption.
    - intros l C. rewrite (W l C). assert (U := V l C). field. lra.
    - transitivity (sum L (fun l => / sum L (fun l => n l * r l) * (n l * r l))).
      + apply sum_ext. intros. unfold Rdiv. ring.
      + rewrite sum_scal, Z. apply Rinv_l. apply Rgt_not_eq, Rmult_lt_0_compat; assumption.
    - rewrite (W a A). exact N.
  Qed.
End Levels.

Lemma least_unique : forall A (P : A -> Prop) f v w, least P f v -> least P f w -> v = w.
Proof.
  intros A P f v w [[a [Pa Fa]] Ha] [[b [Pb Fb]] Hb]. apply Rle_antisym; [rewrite <- Fb | rewrite <- Fa]; auto.
Qed.

(* A risk summed over independent coordinates. *)
Lemma sum_same : forall n f c, (forall i, (i < n)%nat -> f i = c) -> sum n f = n * c.
Proof. intros n f c H. rewrite (sum_ext n f (fun _ => c) H). apply sum_const. Qed.
