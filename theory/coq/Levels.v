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

  Theorem least_of_others : forall v kappa a b, (a < L)%nat -> (b < n a)%nat ->
    (forall l, (l < L)%nat -> v l * (tau2 l + alpha2 l + nu2 l) = kappa) ->
    sum L (fun l => n l * v l) - v a = 1 -> least_without M a b kappa.
  Proof.
    intros v kappa a b A B K Z. rewrite <- (others_sum v a b A B) in Z.
    assert (F : forall w, sums_to_one (L := L) (n := n) w /\ w a b = 0 -> risk S (aggregate M w) (middle M)
                = kappa + total L n (fun l i => (w l i - others (weights v) a b l i) ^ 2 * (tau2 l + alpha2 l + nu2 l))).
    { intros w [W O]. rewrite (aggregate_risk M w W). unfold sums_to_one in W.
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
      - rewrite D, Z. ring. }
    split.
    - exists (others (weights v) a b). split.
      + split; [exact Z |]. unfold others. destruct (is_spec a b a b) as [_ | N]; [reflexivity | tauto].
      + rewrite F.
        * rewrite (total_ext L n _ (fun _ _ => 0 * 0)) by (intros; ring). rewrite total_scal. ring.
        * split; [exact Z |]. unfold others. destruct (is_spec a b a b) as [_ | N]; [reflexivity | tauto].
    - intros w W. rewrite (F w W). assert (G := excess_nonneg (fun l i => w l i - others (weights v) a b l i)). cbv beta in G. lra.
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
    (0 < alpha2 a -> v a <> 1 ->
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
    (0 < alpha2 a -> v a <> 1 ->
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
    (0 < alpha2 a -> v a <> 1 ->
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
    (0 < alpha2 a -> v a <> 1 ->
     risk S (personal M t a b (aggregate M (weights v))) (parameter M a b)
       = risk S (personal M s a b (aggregate M (weights v))) (parameter M a b) -> t = s).
  Proof.
    intros v kappa s a b K Z P A B N. apply best_strength; try assumption.
    rewrite (balanced_sum v kappa K Z), <- (K a A).
    transitivity (s * (tau2 a * (1 - v a) + v a * nu2 a)); [ring |]. rewrite N. ring.
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
End Levels.

Lemma least_unique : forall A (P : A -> Prop) f v w, least P f v -> least P f w -> v = w.
Proof.
  intros A P f v w [[a [Pa Fa]] Ha] [[b [Pb Fb]] Hb]. apply Rle_antisym; [rewrite <- Fb | rewrite <- Fa]; auto.
Qed.

(* A risk summed over independent coordinates. *)
Lemma sum_same : forall n f c, (forall i, (i < n)%nat -> f i = c) -> sum n f = n * c.
Proof. intros n f c H. rewrite (sum_ext n f (fun _ => c) H). apply sum_const. Qed.
