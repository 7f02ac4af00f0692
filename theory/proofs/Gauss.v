(* The Gaussian integral, and with it the normal law: its mass, its tails and its mean, as integrals over the line. *)
Require Export Borrow.Objects.
Open Scope R_scope.

(* --- the Gaussian integral ------------------------------------------------------------------------------------------- *)

Definition slice (x t : R) : R := exp (- (x ^ 2 * (1 + t ^ 2))) / (1 + t ^ 2).

Lemma below_slice : forall t, 0 < 1 + t ^ 2.
Proof. intro t. assert (P := pow2_ge_0 t). lra. Qed.

Lemma slice_derive : forall x t, is_derive (fun x => slice x t) x (- (2 * x) * exp (- (x ^ 2 * (1 + t ^ 2)))).
Proof.
  intros x t. assert (B := below_slice t). unfold slice. auto_derive; [trivial |]. simpl in *. field. simpl. lra.
Qed.

Lemma slice_continuous : forall x t, continuous (slice x) t.
Proof.
  intros x t. apply (ex_derive_continuous (slice x)). assert (B := below_slice t). unfold slice. auto_derive. simpl in *. lra.
Qed.

Lemma slice_integrable : forall x, ex_RInt (slice x) 0 1.
Proof. intros x. apply (ex_RInt_continuous (slice x)). intros. apply slice_continuous. Qed.

Lemma slices_derive : forall x, is_derive (fun x => RInt (slice x) 0 1) x (- (2 * exp (- x ^ 2)) * RInt (fun t => x * exp (- (x * t) ^ 2)) 0 1).
Proof.
  intros x.
  assert (D : forall u t, Derive (fun z => slice z t) u = - (2 * u) * exp (- (u ^ 2 * (1 + t ^ 2)))).
  { intros. apply is_derive_unique, slice_derive. }
  assert (H := is_derive_RInt_param slice 0 1 x).
  replace (- (2 * exp (- x ^ 2)) * RInt (fun t => x * exp (- (x * t) ^ 2)) 0 1) with (RInt (fun t => Derive (fun u => slice u t) x) 0 1).
  - apply H.
    + apply filter_forall. intros y t _. eexists. apply slice_derive.
    + intros t _. apply continuity_2d_pt_ext with (f := fun u v => - (2 * u) * exp (- (u ^ 2 * (1 + v ^ 2)))); [intros; symmetry; apply D |].
      apply continuity_2d_pt_mult.
      * apply (continuity_1d_2d_pt_comp (fun u => - (2 * u)) (fun u _ => u)); [| apply continuity_2d_pt_id1].
        apply continuity_pt_filterlim. apply (ex_derive_continuous (fun u => - (2 * u))). auto_derive. trivial.
      * apply (continuity_1d_2d_pt_comp exp (fun u v => - (u ^ 2 * (1 + v ^ 2)))); [apply derivable_continuous_pt, derivable_pt_exp |].
        apply continuity_2d_pt_opp. apply continuity_2d_pt_mult.
        -- apply (continuity_1d_2d_pt_comp (fun u => u ^ 2) (fun u _ => u)); [| apply continuity_2d_pt_id1].
           apply continuity_pt_filterlim. apply (ex_derive_continuous (fun u => u ^ 2)). auto_derive. trivial.
        -- apply (continuity_1d_2d_pt_comp (fun v => 1 + v ^ 2) (fun _ v => v)); [| apply continuity_2d_pt_id2].
           apply continuity_pt_filterlim. apply (ex_derive_continuous (fun v => 1 + v ^ 2)). auto_derive. trivial.
    + apply filter_forall. intros y. apply slice_integrable.
  - rewrite <- (RInt_scal (V := R_CompleteNormedModule)).
    + apply RInt_ext. intros t _. rewrite D. unfold scal; simpl; unfold mult; simpl.
      transitivity (- (2 * x) * (exp (- (x ^ 2)) * exp (- (x * t) ^ 2))); [rewrite <- exp_plus; do 2 f_equal; ring | simpl; ring].
    + apply (ex_RInt_continuous (fun t => x * exp (- (x * t) ^ 2))). intros t _.
      apply (ex_derive_continuous (fun t => x * exp (- (x * t) ^ 2))). auto_derive. trivial.
Qed.

Lemma bell_scaled : forall x, 2 / sqrt PI * RInt (fun t => x * exp (- (x * t) ^ 2)) 0 1 = RInt bell 0 x.
Proof.
  intros x. assert (C : forall t, continuous (fun t => x * exp (- (x * t) ^ 2)) t).
  { intro t. apply (ex_derive_continuous (fun t => x * exp (- (x * t) ^ 2))). auto_derive. trivial. }
  assert (S := RInt_comp_lin bell x 0 0 1). rewrite Rmult_0_r, Rmult_1_r, !Rplus_0_r in S.
  rewrite <- S by apply bell_integrable. rewrite <- (RInt_scal (V := R_CompleteNormedModule)).
  - apply RInt_ext. intros t _. unfold scal; simpl; unfold mult; simpl. unfold bell. rewrite Rplus_0_r. simpl. ring.
  - apply (ex_RInt_continuous (fun t => x * exp (- (x * t) ^ 2))). intros; apply C.
Qed.

Lemma bell_derive : forall x, is_derive (fun x => RInt bell 0 x) x (bell x).
Proof.
  intros x. apply (is_derive_RInt bell (fun x => RInt bell 0 x) 0 x); [| apply bell_continuous].
  apply filter_forall. intros y. apply (RInt_correct bell), bell_integrable.
Qed.

Lemma whole_bell : forall x, 0 < x -> RInt bell 0 x ^ 2 = 1 - 4 / PI * RInt (slice x) 0 1.
Proof.
  intros x X. assert (P := PI_RGT_0). assert (Q := sqrt_pi). assert (S : sqrt PI * sqrt PI = PI) by (apply sqrt_sqrt; lra).
  assert (Z : RInt (slice 0) 0 1 = PI / 4).
  { rewrite (RInt_ext _ (fun t => / (1 + t ^ 2))).
    - apply is_RInt_unique. replace (PI / 4) with (minus (atan 1) (atan 0)).
      + apply (is_RInt_derive atan).
        * intros t _. apply is_derive_Reals. assert (D := derivable_pt_lim_atan t). exact D.
        * intros t _. apply (ex_derive_continuous (fun t => / (1 + t ^ 2))). assert (B := below_slice t). auto_derive. simpl in *. lra.
      + rewrite atan_1, atan_0. unfold minus, plus, opp. simpl. ring.
    - intros t _. unfold slice. replace (- (0 ^ 2 * (1 + t ^ 2))) with 0 by ring. rewrite exp_0. unfold Rdiv. apply Rmult_1_l. }
  assert (E : (fun x => RInt bell 0 x ^ 2 + 4 / PI * RInt (slice x) 0 1) 0 = (fun x => RInt bell 0 x ^ 2 + 4 / PI * RInt (slice x) 0 1) x).
  { apply (eq_is_derive (V := R_NormedModule) (fun x => RInt bell 0 x ^ 2 + 4 / PI * RInt (slice x) 0 1)); [| exact X].
    intros t _. evar_last.
    - apply (is_derive_plus (V := R_NormedModule)).
      + apply is_derive_pow. apply bell_derive.
      + apply is_derive_scal. apply slices_derive.
    - unfold zero, plus. simpl. rewrite <- (bell_scaled t). unfold bell. simpl.
      set (J := RInt _ 0 1). set (e := exp _). replace (4 / PI) with (4 / (sqrt PI * sqrt PI)) by (rewrite S; reflexivity).
      clearbody J e. clear -Q. field. lra. }
  cbv beta in E. rewrite Z in E. rewrite (RInt_point (V := R_CompleteNormedModule)) in E. unfold zero in E. simpl in E.
  simpl. transitivity (0 * (0 * 1) + 4 / PI * (PI / 4) - 4 / PI * RInt (slice x) 0 1); [lra |]. field. lra.
Qed.

Lemma slices_small : forall x, 0 <= RInt (slice x) 0 1 <= exp (- x ^ 2).
Proof.
  intros x. split.
  - apply RInt_ge_0; [lra | apply slice_integrable |]. intros t _. left. apply Rdiv_lt_0_compat; [apply exp_pos | apply below_slice].
  - replace (exp (- x ^ 2)) with (RInt (fun _ => exp (- x ^ 2)) 0 1)
      by (rewrite RInt_const; unfold scal; simpl; unfold mult; simpl; ring).
    apply RInt_le; [lra | apply slice_integrable | apply ex_RInt_const |]. intros t T. unfold slice. assert (B := below_slice t).
    assert (Q := pow2_ge_0 t). assert (R := pow2_ge_0 x). assert (E : exp (- (x ^ 2 * (1 + t ^ 2))) <= exp (- x ^ 2)).
    { destruct (Req_dec (- (x ^ 2 * (1 + t ^ 2))) (- x ^ 2)) as [-> | N]; [lra |]. left. apply exp_increasing. nra. }
    apply Rmult_le_reg_r with (1 + t ^ 2); [exact B |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
    assert (P := exp_pos (- x ^ 2)). nra.
Qed.

Theorem erfc_0 : erfc 0 = 1.
Proof.
  assert (P := PI_RGT_0).
  assert (L : is_lim_seq (fun n => RInt bell 0 (INR n) ^ 2) 1).
  { apply is_lim_seq_spec. intros eps. assert (C : 0 < 4 / PI) by (apply Rdiv_lt_0_compat; lra).
    destruct (beyond (4 / PI / eps)) as [N H]. exists (S N). intros n Q.
    assert (A : 1 <= INR n) by (change 1 with (INR 1); apply le_INR; lia). rewrite (whole_bell (INR n)) by lra.
    destruct (slices_small (INR n)) as [U V]. assert (W : INR N <= INR n) by (apply le_INR; lia).
    assert (X : exp (- INR n ^ 2) < / INR n).
    { rewrite exp_Ropp. apply Rinv_lt_contravar; [apply Rmult_lt_0_compat; [lra | apply exp_pos] |].
      assert (T := exp_ineq1_le (INR n ^ 2)). nra. }
    assert (Y : 4 / PI * RInt (slice (INR n)) 0 1 < eps).
    { apply Rle_lt_trans with (4 / PI * / INR n); [apply Rmult_le_compat_l; lra |].
      assert (Z : 4 / PI / eps < INR n) by lra. apply Rmult_lt_reg_r with (INR n); [lra |].
      replace (4 / PI * / INR n * INR n) with (4 / PI) by (field; lra).
      replace (4 / PI) with (4 / PI / eps * eps) by (assert (E := cond_pos eps); field; lra).
      rewrite (Rmult_comm eps). apply Rmult_lt_compat_r; [apply cond_pos | exact Z]. }
    rewrite Rabs_left1; [lra |]. assert (0 <= 4 / PI * RInt (slice (INR n)) 0 1) by (apply Rmult_le_pos; lra). lra. }
  assert (M : is_lim_seq (fun n => RInt bell 0 (INR n) ^ 2) (erfc 0 ^ 2)).
  { simpl. apply is_lim_seq_mult'; [apply erfc_limit |]. apply is_lim_seq_mult'; [apply erfc_limit | apply is_lim_seq_const]. }
  assert (E := is_lim_seq_unique _ _ L). rewrite (is_lim_seq_unique _ _ M) in E. injection E. intros F.
  assert (G := erfc_positive 0). nra.
Qed.

(* --- erfc as a function ---------------------------------------------------------------------------------------------- *)

Lemma erfc_left : forall x, erfc x = 1 - RInt bell 0 x.
Proof. intros x. assert (H := erfc_parts 0 x). rewrite erfc_0 in H. lra. Qed.

Lemma erfc_mirrored : forall x, erfc (- x) = 2 - erfc x.
Proof.
  intros x. rewrite !erfc_left. assert (H := RInt_comp_lin bell (-1) 0 0 x).
  replace (-1 * 0 + 0) with 0 in H by ring. replace (-1 * x + 0) with (- x) in H by ring.
  rewrite <- H by apply bell_integrable. rewrite (RInt_ext _ (fun y => scal (-1) (bell y))).
  - rewrite (RInt_scal (V := R_CompleteNormedModule)) by apply bell_integrable. unfold scal; simpl; unfold mult; simpl. lra.
  - intros t _. unfold bell. do 4 f_equal. ring.
Qed.

Lemma erfc_falls : forall x y, x <= y -> erfc y <= erfc x.
Proof. intros x y L. rewrite (erfc_parts x y). assert (P := bell_grows x y L). lra. Qed.

(* The bound that needs no divisor, from 0 on. *)
Lemma erfc_bell : forall x, 0 <= x -> erfc x <= exp (- x ^ 2).
Proof.
  intros x P. destruct (Rle_or_lt (1 / 2000) x) as [L | L]; [now apply erfc_at_most |].
  assert (E := erfc_parts 0 x). rewrite erfc_0 in E.
  assert (B : x * bell x <= RInt bell 0 x).
  { replace (x * bell x) with (RInt (fun _ => bell x) 0 x) by (rewrite RInt_const; unfold scal; simpl; unfold mult; simpl; ring).
    apply RInt_le; [lra | apply ex_RInt_const | apply bell_integrable |]. intros t T. unfold bell.
    apply Rmult_le_compat_l; [left; apply Rdiv_lt_0_compat; [lra | apply sqrt_pi] |].
    destruct (Req_dec t x) as [-> | D]; [lra |]. left. apply exp_increasing. nra. }
  assert (V : 1 <= bell x) by (unfold bell; interval with (i_prec 60)).
  assert (W : 1 - x <= exp (- x ^ 2)).
  { assert (X := exp_ineq1_le (- x ^ 2)). nra. }
  nra.
Qed.

Lemma exp_at_most : forall a b, a <= b -> exp a <= exp b.
Proof. intros a b [L | ->]; [left; now apply exp_increasing | lra]. Qed.

Lemma erfc_derive : forall x, is_derive erfc x (- bell x).
Proof.
  intros x. apply (is_derive_ext (fun x => 1 - RInt bell 0 x)); [intros t; symmetry; apply erfc_left |].
  evar_last; [apply (is_derive_minus (V := R_NormedModule)); [apply is_derive_const | apply bell_derive] |].
  unfold minus, plus, opp, zero. simpl. ring.
Qed.

Lemma erfc_vanishes : is_lim erfc p_infty 0.
Proof.
  apply is_lim_spec. intros eps. assert (S := sqrt_pi). exists (1 + / (sqrt PI * eps)). intros x X.
  assert (E := cond_pos eps). assert (Q : 0 < / (sqrt PI * eps)) by (apply Rinv_0_lt_compat, Rmult_lt_0_compat; assumption).
  assert (N := erfc_nonneg x). assert (M := erfc_mills x ltac:(lra)). rewrite Rminus_0_r, Rabs_pos_eq by exact N.
  apply Rle_lt_trans with (1 := M). apply Rle_lt_trans with (1 / (x * sqrt PI)).
  - apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, Rmult_lt_0_compat; lra |]. rewrite <- exp_0.
    left. apply exp_increasing. nra.
  - apply Rmult_lt_reg_r with (x * sqrt PI); [apply Rmult_lt_0_compat; lra |].
    replace (1 / (x * sqrt PI) * (x * sqrt PI)) with 1 by (field; lra).
    apply Rle_lt_trans with (eps * (/ (sqrt PI * eps) * sqrt PI)); [right; field; lra |].
    apply Rmult_lt_compat_l; [exact E |]. apply Rmult_lt_compat_r; lra.
Qed.

Lemma erfc_full : is_lim erfc m_infty 2.
Proof.
  apply is_lim_spec. intros eps. assert (V := erfc_vanishes). apply is_lim_spec in V. destruct (V eps) as [M H].
  exists (- M). intros x X. assert (K := H (- x) ltac:(lra)). rewrite erfc_mirrored, Rminus_0_r in K.
  rewrite Rabs_minus_sym. exact K.
Qed.

(* --- integrals by antiderivatives, up to the ends of the line ---------------------------------------------------------- *)

Lemma by_antiderivative : forall (f F : R -> R) (A B : (R -> Prop) -> Prop) (a b : R), Filter A -> Filter B ->
  (forall x, is_derive F x (f x)) -> (forall x, continuous f x) -> filterlim F A (locally a) -> filterlim F B (locally b) ->
  is_RInt_gen f A B (b - a).
Proof.
  intros f F A B a b FA FB D C La Lb P HP.
  assert (L : filterlim (fun ab => F (snd ab) - F (fst ab)) (filter_prod A B) (locally (b - a))).
  { apply (filterlim_comp_2 (G := locally b) (H := locally (opp a)) (fun ab => F (snd ab)) (fun ab => opp (F (fst ab))) plus).
    - apply filterlim_comp with (2 := Lb). apply filterlim_snd.
    - apply filterlim_comp with (G := locally a); [| apply (filterlim_opp (V := R_NormedModule))].
      apply filterlim_comp with (2 := La). apply filterlim_fst.
    - apply (filterlim_plus (V := R_NormedModule)). }
  specialize (L P HP). unfold filtermapi, filtermap in *. revert L. apply filter_imp. intros [x y] Q. simpl in *.
  exists (F y - F x). split; [| exact Q]. apply (is_RInt_derive F f); intros; [apply D | apply C].
Qed.

(* --- the normal law -------------------------------------------------------------------------------------------------- *)

Section Normal.
  Variables m v : R.
  Hypothesis V : 0 < v.

  Definition up_to (x : R) : R := 1 - erfc ((x - m) / sqrt (2 * v)) / 2.  (* its mass below x *)

  Lemma spread : 0 < sqrt (2 * v).
  Proof. apply sqrt_lt_R0. lra. Qed.

  Lemma normal_continuous : forall x, continuous (normal m v) x.
  Proof.
    intros x. apply (ex_derive_continuous (normal m v)). unfold normal. assert (P := PI_RGT_0).
    assert (S : 0 < sqrt (2 * PI * v)) by (apply sqrt_lt_R0; nra). auto_derive. repeat split; first [ lra | nra | exact I ].
  Qed.

  Lemma up_to_derive : forall x, is_derive up_to x (normal m v x).
  Proof.
    intros x. assert (S := spread). assert (P := sqrt_pi). evar_last.
    - unfold up_to. apply (is_derive_minus (V := R_NormedModule)); [apply is_derive_const |].
      apply (is_derive_ext (fun x => / 2 * erfc ((x - m) / sqrt (2 * v)))); 
        [intros t; change (/ 2 * erfc ((t - m) / sqrt (2 * v)) = erfc ((t - m) / sqrt (2 * v)) / 2); unfold Rdiv; ring |].
      apply is_derive_scal. apply (is_derive_comp erfc (fun x => (x - m) / sqrt (2 * v))); [apply erfc_derive |].
      auto_derive; [trivial | reflexivity].
    - unfold minus, plus, opp, zero, scal. simpl. unfold mult. simpl. unfold normal, bell.
      replace (2 * PI * v) with (2 * v * PI) by ring. rewrite (sqrt_mult (2 * v) PI) by (try lra; left; apply PI_RGT_0).
      replace (- ((x - m) / sqrt (2 * v)) ^ 2) with (- (x - m) ^ 2 / (2 * v)).
      + simpl. field. lra.
      + assert (Q : sqrt (2 * v) * sqrt (2 * v) = 2 * v) by (apply sqrt_sqrt; lra). rewrite <- Q at 1. field. lra.
  Qed.

  Lemma argument_up : filterlim (fun x => (x - m) / sqrt (2 * v)) (Rbar_locally p_infty) (Rbar_locally p_infty).
  Proof.
    intros Q [M H]. assert (S := spread). exists (M * sqrt (2 * v) + m). intros x X. apply H.
    apply Rmult_lt_reg_r with (sqrt (2 * v)); [exact S |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  Lemma argument_down : filterlim (fun x => (x - m) / sqrt (2 * v)) (Rbar_locally m_infty) (Rbar_locally m_infty).
  Proof.
    intros Q [M H]. assert (S := spread). exists (M * sqrt (2 * v) + m). intros x X. apply H.
    apply Rmult_lt_reg_r with (sqrt (2 * v)); [exact S |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  Qed.

  Lemma up_to_of : forall (A : (R -> Prop) -> Prop) (e : R), Filter A ->
    filterlim (fun x => erfc ((x - m) / sqrt (2 * v))) A (locally e) -> filterlim up_to A (locally (1 - e / 2)).
  Proof.
    intros A e FA L. unfold up_to.
    apply (filterlim_comp _ _ _ (fun x => erfc ((x - m) / sqrt (2 * v))) (fun y => 1 - y / 2) A (locally e) _ L).
    apply (ex_derive_continuous (fun y => 1 - y / 2) e). auto_derive. trivial.
  Qed.

  Lemma up_to_whole : filterlim up_to (Rbar_locally p_infty) (locally 1).
  Proof.
    replace 1 with (1 - 0 / 2) by field. apply up_to_of; [apply Rbar_locally_filter |].
    apply filterlim_comp with (1 := argument_up). apply erfc_vanishes.
  Qed.

  Lemma up_to_nothing : filterlim up_to (Rbar_locally m_infty) (locally 0).
  Proof.
    replace 0 with (1 - 2 / 2) by field. apply up_to_of; [apply Rbar_locally_filter |].
    apply filterlim_comp with (1 := argument_down). apply erfc_full.
  Qed.

  (* Mass: of the line, and beyond a point on either side. *)
  Theorem normal_mass : is_RInt_gen (normal m v) (Rbar_locally m_infty) (Rbar_locally p_infty) 1.
  Proof.
    replace 1 with (1 - 0) at 1 by ring. apply by_antiderivative with (F := up_to); try apply Rbar_locally_filter;
      [apply up_to_derive | apply normal_continuous | apply up_to_nothing | apply up_to_whole].
  Qed.

  Lemma at_the_point : forall (F : R -> R) c, filterlim F (at_point c) (locally (F c)).
  Proof. intros F c P [e H]. apply H. apply ball_center. Qed.

  Theorem normal_beyond : forall c, is_RInt_gen (normal m v) (at_point c) (Rbar_locally p_infty) (erfc ((c - m) / sqrt (2 * v)) / 2).
  Proof.
    intros c. replace (erfc ((c - m) / sqrt (2 * v)) / 2) with (1 - up_to c) by (unfold up_to; ring).
    apply by_antiderivative with (F := up_to); [apply at_point_filter | apply Rbar_locally_filter | apply up_to_derive
      | apply normal_continuous | apply at_the_point | apply up_to_whole].
  Qed.

  Theorem normal_below : forall c, is_RInt_gen (normal m v) (Rbar_locally m_infty) (at_point c) (erfc ((m - c) / sqrt (2 * v)) / 2).
  Proof.
    intros c. replace (erfc ((m - c) / sqrt (2 * v)) / 2) with (up_to c - 0).
    - apply by_antiderivative with (F := up_to); [apply Rbar_locally_filter | apply at_point_filter | apply up_to_derive
        | apply normal_continuous | apply up_to_nothing | apply at_the_point].
    - unfold up_to. replace ((c - m) / sqrt (2 * v)) with (- ((m - c) / sqrt (2 * v))) by (assert (S := spread); field; lra).
      rewrite erfc_mirrored. field.
  Qed.

  Theorem normal_between : forall a b, RInt (normal m v) a b = up_to b - up_to a.
  Proof.
    intros a b. apply is_RInt_unique. apply (is_RInt_derive up_to (normal m v)); intros; [apply up_to_derive | apply normal_continuous].
  Qed.
End Normal.
