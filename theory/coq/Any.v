(* Theorems for any number of levels, and of silos that all differ, where generated statements are about two and three.
   Hand-written: statement and proof stand together, and a reader compares the formulas with the papers himself. *)
Require Export Borrow.Scripts.
Open Scope R_scope.

Section AnyLevels.
  Context {S : space} {L : nat} {n : nat -> nat} {tau2 alpha2 nu2 : nat -> R} (M : clients S L n tau2 alpha2 nu2).
  Let s l := tau2 l + alpha2 l + nu2 l.
  Let precision := sum L (fun l => n l / s l).
  Hypothesis noisy : forall l, (l < L)%nat -> 0 < s l.
  Hypothesis somebody : 0 < precision.

  Lemma best_sum : sum L (fun l => n l * (1 / s l / precision)) = 1.
  Proof.
    rewrite (sum_ext L _ (fun l => / precision * (n l / s l))).
    - rewrite sum_scal. fold precision. field. lra.
    - intros k K. assert (P := noisy k K). field. split; lra.
  Qed.

  Lemma best_balanced : forall l, (l < L)%nat -> 1 / s l / precision * (tau2 l + alpha2 l + nu2 l) = 1 / precision.
  Proof. intros l A. fold (s l). assert (P := noisy l A). field. split; lra. Qed.

  (* Lemma 1, (61), (63)-(64) of FedHDP, (8) of Robust-HDP, (19) of MR-MTL: weights in proportion to the precisions are the
     best among all weights, and the only ones; the least risk is one over the total precision. *)
  Theorem server_of_any_levels :
    least_of_centre M (1 / precision) /\
    forall w, sums_to_one (L := L) (n := n) w ->
      risk S (aggregate M (weights (fun l => 1 / s l / precision))) (middle M) <= risk S (aggregate M w) (middle M) /\
      (risk S (aggregate M w) (middle M) = risk S (aggregate M (weights (fun l => 1 / s l / precision))) (middle M) ->
       forall l i, (l < L)%nat -> (i < n l)%nat -> w l i = 1 / s l / precision).
  Proof.
    split.
    - apply (least_centre M (fun l => 1 / s l / precision)); [exact best_balanced | exact best_sum].
    - intros w W. apply (best_weights_only M _ (1 / precision)).
      + exact best_balanced.
      + apply weights_sum. exact best_sum.
      + exact noisy.
      + exact W.
  Qed.

  (* After (77) of FedHDP: the best strength towards that server, with the own noise taken out, is
     alpha2 / (tau2 + w nu2), whatever the number of levels; and there the client attains the least risk of all blends. *)
  Theorem strength_of_any_levels : forall a b, (a < L)%nat -> (b < n a)%nat ->
    let w := 1 / s a / precision in let lam := alpha2 a / (tau2 a + w * nu2 a) in
    tau2 a + w * nu2 a <> 0 -> 1 + lam <> 0 ->
    let pivot := cleaned M (weights (fun l => 1 / s l / precision)) a b in
    (forall t, 1 + t <> 0 ->
      risk S (personal M lam a b pivot) (parameter M a b) <= risk S (personal M t a b pivot) (parameter M a b)) /\
    least_of_client M a b (risk S (personal M lam a b pivot) (parameter M a b)).
  Proof.
    intros a b A B w lam D P pivot. assert (N : lam * (tau2 a + w * nu2 a) = alpha2 a) by (unfold lam; field; exact D). split.
    - intros t T. apply (best_strength_cleaned_balanced M (fun l => 1 / s l / precision) (1 / precision) lam a b
        best_balanced best_sum P A B N t T).
    - apply (attains_cleaned M (fun l => 1 / s l / precision) (1 / precision) lam a b best_balanced best_sum P A B N).
  Qed.

  (* As the algorithm runs, with the own noise in what comes back: alpha2 / (tau2 + nu2 w / (1 - w)). *)
  Theorem returned_strength_of_any_levels : forall a b, (a < L)%nat -> (b < n a)%nat ->
    let w := 1 / s a / precision in let lam := alpha2 a / (tau2 a + nu2 a * (w / (1 - w))) in
    1 - w <> 0 -> tau2 a + nu2 a * (w / (1 - w)) <> 0 -> 1 + lam <> 0 ->
    let pivot := aggregate M (weights (fun l => 1 / s l / precision)) in
    forall t, 1 + t <> 0 ->
      risk S (personal M lam a b pivot) (parameter M a b) <= risk S (personal M t a b pivot) (parameter M a b).
  Proof.
    intros a b A B w lam V D P pivot t T.
    assert (N : lam * (tau2 a * (1 - w) + w * nu2 a) = alpha2 a * (1 - w)).
    { transitivity (lam * (tau2 a + nu2 a * (w / (1 - w))) * (1 - w)); [field; exact V |].
      unfold lam. field. split; [exact V |]. intros Z. apply D.
      transitivity ((tau2 a * (1 - w) + nu2 a * w) / (1 - w)); [field; exact V | rewrite Z; field; exact V]. }
    apply (best_strength_balanced M (fun l => 1 / s l / precision) (1 / precision) lam a b
      best_balanced best_sum P A B N t T).
  Qed.

  (* (68), (72) of FedHDP: the others' messages, again in proportion to their precisions, leave one over what is left of it. *)
  Theorem others_of_any_levels : forall a b, (a < L)%nat -> (b < n a)%nat ->
    let rest := precision - 1 / s a in let v := fun l i => if is a b l i then 0 else 1 / s l / rest in
    0 < rest ->
    least_without M a b (1 / rest) /\
    forall w, sums_to_one (L := L) (n := n) w -> w a b = 0 ->
      risk S (aggregate M v) (middle M) <= risk S (aggregate M w) (middle M) /\
      (risk S (aggregate M w) (middle M) = risk S (aggregate M v) (middle M) ->
       forall l i, (l < L)%nat -> (i < n l)%nat -> w l i = v l i).
  Proof.
    intros a b A B rest v P.
    assert (K : forall l, (l < L)%nat -> 1 / s l / rest * (tau2 l + alpha2 l + nu2 l) = 1 / rest).
    { intros l C. fold (s l). assert (Q := noisy l C). field. split; lra. }
    assert (Z : sum L (fun l => n l * (1 / s l / rest)) - 1 / s a / rest = 1).
    { rewrite (sum_ext L _ (fun l => / rest * (n l / s l))).
      - rewrite sum_scal. fold precision. assert (Q := noisy a A).
        replace precision with (rest + 1 / s a) by (unfold rest; ring). clearbody rest. field. split; lra.
      - intros l C. assert (Q := noisy l C). field. split; lra. }
    split.
    - apply (least_of_others M (fun l => 1 / s l / rest)); assumption.
    - intros w W O. apply (least_of_others_only M (fun l => 1 / s l / rest) (1 / rest) a b A B K Z noisy w W O).
  Qed.

  (* (73)-(75) of FedHDP, (E.5) of MR-MTL for its posterior: the best blend of the own estimate and the others' messages. *)
  Theorem client_of_any_levels : forall a b, (a < L)%nat -> (b < n a)%nat ->
    let rest := precision - 1 / s a in let below := 1 + rest * (tau2 a + alpha2 a) in
    let x := (1 + rest * tau2 a) / below in let v := weights (fun l => alpha2 a / below / s l) in
    0 < below -> 0 < tau2 a + alpha2 a ->
    least_of_client M a b (alpha2 a * x) /\
    forall y w, blends_to_one (L := L) (n := n) y w a b ->
      risk S (blend M x v a b) (parameter M a b) <= risk S (blend M y w a b) (parameter M a b) /\
      (risk S (blend M y w a b) (parameter M a b) = risk S (blend M x v a b) (parameter M a b) ->
       y = x /\ forall l i, (l < L)%nat -> (i < n l)%nat -> ~ (l = a /\ i = b) -> w l i = v l i).
  Proof.
    intros a b A B rest below x v P Q.
    assert (K : forall l, (l < L)%nat -> alpha2 a / below / s l * (tau2 l + alpha2 l + nu2 l) = alpha2 a / below).
    { intros l C. fold (s l). assert (U := noisy l C). field. split; lra. }
    assert (X : x * alpha2 a - (1 - x) * tau2 a = alpha2 a / below) by (unfold x, below in *; field; lra).
    assert (Z : x + (sum L (fun l => n l * (alpha2 a / below / s l)) - alpha2 a / below / s a) = 1).
    { rewrite (sum_ext L _ (fun l => alpha2 a / below * (n l / s l))).
      - rewrite sum_scal. fold precision. assert (U := noisy a A).
        replace precision with (rest + 1 / s a) by (unfold rest; ring). unfold x, below in *. field. split; lra.
      - intros l C. assert (U := noisy l C). field. split; lra. }
    split.
    - apply (least_client M x (fun l => alpha2 a / below / s l) (alpha2 a / below) a b A B K X Z).
    - intros y w W. apply (least_client_only M x (fun l => alpha2 a / below / s l) _ a b A B K X Z Q noisy y w W).
  Qed.

  (* (8) of Robust-HDP and what follows it: the variance that any ratios leave, and what leaving a client out adds. *)
  Theorem ratios_of_any_levels : forall r, sum L (fun l => n l * r l) <> 0 ->
    risk S (aggregate M (ratios L n r)) (middle M) = sum L (fun l => n l * (r l ^ 2 * s l)) / sum L (fun l => n l * r l) ^ 2.
  Proof.
    intros r Z. set (total_r := sum L (fun l => n l * r l)) in *.
    assert (Y : sum L (fun l => n l * (r l / total_r)) = 1).
    { rewrite (sum_ext L _ (fun l => / total_r * (n l * r l))); [rewrite sum_scal; fold total_r; field; exact Z |].
      intros. field. exact Z. }
    transitivity (sum L (fun l => n l * ((r l / total_r) ^ 2 * s l))).
    - apply (server_risk M (fun l => r l / total_r) Y).
    - rewrite (sum_ext L _ (fun l => / total_r ^ 2 * (n l * (r l ^ 2 * s l)))); [rewrite sum_scal; field; exact Z |].
      intros. field. exact Z.
  Qed.

  Theorem removal_of_any_client : forall a, (a < L)%nat -> 0 < precision - 1 / s a ->
    1 / precision <= 1 / (precision - 1 / s a).
  Proof.
    intros a A P. assert (Q := noisy a A). unfold Rdiv. rewrite !Rmult_1_l. apply Rinv_le_contravar; [lra |].
    assert (0 < / s a) by (apply Rinv_0_lt_compat; exact Q). lra.
  Qed.
End AnyLevels.

(* K silos, each with its own local variance, and the plain average of their estimates. *)
Section AnySilos.
  Context {S : space} {K : nat} {tau2 : R} {local : nat -> R} (M : clients S K (same 1%nat) (same tau2) local (same 0)).

  Lemma plain_average : forall k, (k < K)%nat -> 2 <= K ->
    sum K (fun l => same 1%nat l * same (1 / K) l) = 1 /\
    sum K (fun l => same 1%nat l * (same (1 / K) l ^ 2 * (same tau2 l + local l + same 0 l)))
      = (tau2 + (local k + (K - 1) * ((sum K local - local k) / (K - 1))) / K) / K.
  Proof.
    intros k A H. unfold same. change (INR 1) with 1. split; [rewrite sum_const; field; lra |].
    rewrite (sum_ext K _ (fun l => (1 / K) ^ 2 * tau2 + (1 / K) ^ 2 * local l)) by (intros; ring).
    rewrite sum_plus, sum_const, sum_scal. field. split; lra.
  Qed.

  (* Theorem E.5 of MR-MTL, (47), for every number of silos: the best strength of silo k among all, of either sign. *)
  Theorem strength_of_any_silos : forall k, (k < K)%nat -> 2 <= K ->
    let rest := (sum K local - local k) / (K - 1) in let below := tau2 + 1 / K * (rest - local k) in
    let lam := local k / below in
    below <> 0 -> 1 + lam <> 0 ->
    forall t, 1 + t <> 0 ->
      risk S (personal M lam k 0 (aggregate M (weights (same (1 / K))))) (parameter M k 0)
      <= risk S (personal M t k 0 (aggregate M (weights (same (1 / K))))) (parameter M k 0) /\
      (0 < tau2 + local k ->
       risk S (personal M t k 0 (aggregate M (weights (same (1 / K))))) (parameter M k 0)
       = risk S (personal M lam k 0 (aggregate M (weights (same (1 / K))))) (parameter M k 0) -> t = lam).
  Proof.
    intros k A H rest below lam D P t T.
    assert (Z : sum K (fun l => same 1%nat l * same (1 / K) l) = 1).
    { unfold same. rewrite sum_const. change (INR 1) with 1. field. lra. }
    assert (N : lam * (sum K (fun l => same 1%nat l * (same (1 / K) l ^ 2 * (same tau2 l + local l + same 0 l)))
        + same tau2 k * (1 - 2 * same (1 / K) k) - local k * same (1 / K) k) = local k - local k * same (1 / K) k).
    { unfold same. change (INR 1) with 1.
      rewrite (sum_ext K _ (fun l => (1 / K) ^ 2 * tau2 + (1 / K) ^ 2 * local l)) by (intros; ring).
      rewrite sum_plus, sum_const, sum_scal.
      transitivity (lam * below * ((K - 1) / K)).
      - unfold below, rest. field. split; lra.
      - unfold lam. field. split; [lra | exact D]. }
    assert (B : (0 < same 1%nat k)%nat) by (unfold same; lia).
    destruct (best_strength M (same (1 / K)) lam k 0%nat Z P A B N t T) as [X Y].
    split; [exact X |]. intros Q. apply (Y Q). unfold same. intros F.
    assert (G : 1 / K * K = 1) by (field; lra). rewrite F in G. lra.
  Qed.

  (* Lemma E.4 of MR-MTL, (45)-(48): the best mixture with the plain average, and what it leaves. *)
  Theorem mixture_of_any_silos : forall k, (k < K)%nat -> 2 <= K ->
    let rest := (sum K local - local k) / (K - 1) in let gap := tau2 + rest / K + local k * (K - 1) / K in
    let u := local k / gap in let pivot := aggregate M (weights (same (1 / K))) in
    0 < gap ->
    least (fun _ => True) (fun t => risk S (mixed M t k 0 pivot) (parameter M k 0)) (local k * (1 - u * ((K - 1) / K))) /\
    forall t, risk S (mixed M u k 0 pivot) (parameter M k 0) <= risk S (mixed M t k 0 pivot) (parameter M k 0) /\
      (0 < tau2 + local k -> risk S (mixed M t k 0 pivot) (parameter M k 0) = risk S (mixed M u k 0 pivot) (parameter M k 0)
       -> t = u).
  Proof.
    intros k A H rest gap u pivot P.
    destruct (plain_average k A H) as [Z G]. fold rest in G.
    assert (N : u * (sum K (fun l => same 1%nat l * (same (1 / K) l ^ 2 * (same tau2 l + local l + same 0 l)))
        + same tau2 k * (1 - 2 * same (1 / K) k) + local k - 2 * (local k * same (1 / K) k))
      = local k - local k * same (1 / K) k).
    { rewrite G. unfold same. transitivity (u * gap * ((K - 1) / K)); [unfold gap; field; lra | unfold u; field; lra]. }
    assert (B : (0 < same 1%nat k)%nat) by (unfold same; lia). split.
    - replace (local k * (1 - u * ((K - 1) / K))) with (local k * (1 - u * (1 - same (1 / K) k)))
        by (unfold same; field; lra).
      apply (least_mixture M (same (1 / K)) u k 0%nat Z A B N).
    - intros t. destruct (best_mixture M (same (1 / K)) u k 0%nat Z A B N t) as [X Y]. split; [exact X |].
      intros V Q. apply (Y V); [| exact Q]. unfold same. intros F.
      assert (I : 1 / K * K = 1) by (field; lra). rewrite F in I. lra.
  Qed.

  (* After Theorem E.5: an outlier takes FedAvg's average as it is, among all strengths that are not negative. *)
  Theorem outlier_of_any_silos : forall k, (k < K)%nat -> 2 <= K ->
    let rest := (sum K local - local k) / (K - 1) in let pivot := aggregate M (weights (same (1 / K))) in
    (K * tau2 + rest <= local k -> forall u, u <= 1 ->
      risk S (mixed M 1 k 0 pivot) (parameter M k 0) <= risk S (mixed M u k 0 pivot) (parameter M k 0)) /\
    (local k < K * tau2 + rest -> exists u, 0 <= u < 1 /\
      risk S (mixed M u k 0 pivot) (parameter M k 0) < risk S (mixed M 1 k 0 pivot) (parameter M k 0)).
  Proof.
    intros k A H rest pivot. destruct (plain_average k A H) as [Z G]. fold rest in G.
    assert (B : (0 < same 1%nat k)%nat) by (unfold same; lia).
    destruct (pivot_as_it_is M (same (1 / K)) k 0%nat Z A B) as [X Y]. rewrite G in X, Y. unfold same in X, Y.
    assert (C : 0 < (K - 1) / K ^ 2).
    { apply Rdiv_lt_0_compat; [lra |]. apply pow_lt. lra. }
    assert (F : forall D, D = (K - 1) / K ^ 2 * (K * tau2 + rest - local k)
      -> D = tau2 * ((K - 1) / K) + rest * ((K - 1) / K ^ 2) - local k * (1 / K) * ((K - 1) / K)).
    { intros D ->. field. lra. }
    split.
    - intros Q. apply X. assert (T : 0 <= (K - 1) / K ^ 2 * (local k - (K * tau2 + rest))) by (apply Rmult_le_pos; lra).
      apply (at_most _ _ ((K - 1) / K ^ 2 * (local k - (K * tau2 + rest)))); [field; lra | exact T].
    - intros Q. apply Y.
      + apply Rmult_le_reg_r with K; [lra |]. replace (1 / K * K) with 1 by (field; lra). lra.
      + assert (T : 0 < (K - 1) / K ^ 2 * (K * tau2 + rest - local k)) by (apply Rmult_lt_0_compat; lra).
        apply Rminus_gt_0_lt. replace (_ - _) with ((K - 1) / K ^ 2 * (K * tau2 + rest - local k)) by (field; lra). exact T.
  Qed.
End AnySilos.

Definition any_number := (@server_of_any_levels, @strength_of_any_levels, @returned_strength_of_any_levels, @others_of_any_levels,
  @client_of_any_levels, @ratios_of_any_levels, @removal_of_any_client, @strength_of_any_silos, @mixture_of_any_silos,
  @outlier_of_any_silos).
