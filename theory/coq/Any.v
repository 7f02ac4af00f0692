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
End AnyLevels.

(* K silos, each with its own local variance, and the plain average of their estimates. *)
Section AnySilos.
  Context {S : space} {K : nat} {tau2 : R} {local : nat -> R} (M : clients S K (same 1%nat) (same tau2) local (same 0)).

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
End AnySilos.

Definition any_number := (@server_of_any_levels, @strength_of_any_levels, @returned_strength_of_any_levels, @strength_of_any_silos).
