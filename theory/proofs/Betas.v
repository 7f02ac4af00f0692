(* Euler's integral over the open unit interval, its parameters moved by whole numbers, and what a law with that density
   says of counts and of shares. *)
Require Export Borrow.Laws.
Open Scope R_scope.

(* The integral from any numbers close above 0 to any close below 1 tends to v. *)
Definition on_unit (f : R -> R) (v : R) : Prop := is_RInt_gen f (at_right 0) (at_left 1) v.

Lemma ends_inside : filter_prod (at_right 0) (at_left 1) (fun xy => 0 < fst xy < 1 /\ 0 < snd xy < 1).
Proof.
  exists (fun x => 0 < x < 1) (fun y => 0 < y < 1); [| | intros x y X Y; split; assumption];
    exists (mkposreal 1 Rlt_0_1); intros x B X; apply Rabs_lt_between in B; unfold minus, plus, opp in B; simpl in B; lra.
Qed.

Lemma unit_between : forall x y z, 0 < x < 1 -> 0 < y < 1 -> Rmin x y <= z <= Rmax x y -> 0 < z < 1.
Proof.
  intros x y z X Y [A B]. split.
  - apply Rlt_le_trans with (2 := A). apply Rmin_glb_lt; lra.
  - apply Rle_lt_trans with (1 := B). apply Rmax_lub_lt; lra.
Qed.

Lemma unit_ext : forall f g v, (forall p, 0 < p < 1 -> f p = g p) -> on_unit f v -> on_unit g v.
Proof.
  intros f g v E. apply is_RInt_gen_ext. generalize ends_inside. apply filter_imp. intros [x y] [X Y] z Z. simpl in *.
  apply E. apply (unit_between x y); [assumption | assumption | lra].
Qed.

Lemma unit_scal : forall f c v, on_unit f v -> on_unit (fun p => c * f p) (c * v).
Proof. intros f c v H. apply (is_RInt_gen_scal (V := R_NormedModule) f c v H). Qed.

Lemma unit_plus : forall f g v w, on_unit f v -> on_unit g w -> on_unit (fun p => f p + g p) (v + w).
Proof. intros f g v w F G. apply (is_RInt_gen_plus (V := R_NormedModule) f g v w F G). Qed.

Lemma unit_antiderivative : forall (f F : R -> R) a b,
  (forall x, 0 < x < 1 -> is_derive F x (f x)) -> (forall x, 0 < x < 1 -> continuous f x) ->
  filterlim F (at_right 0) (locally a) -> filterlim F (at_left 1) (locally b) -> on_unit f (b - a).
Proof.
  intros f F a b D C La Lb P HP.
  assert (L : filterlim (fun ab => F (snd ab) - F (fst ab)) (filter_prod (at_right 0) (at_left 1)) (locally (b - a))).
  { apply (filterlim_comp_2 (G := locally b) (H := locally (opp a)) (fun ab => F (snd ab)) (fun ab => opp (F (fst ab))) plus).
    - apply filterlim_comp with (2 := Lb). apply filterlim_snd.
    - apply filterlim_comp with (G := locally a); [| apply (filterlim_opp (V := R_NormedModule))].
      apply filterlim_comp with (2 := La). apply filterlim_fst.
    - apply (filterlim_plus (V := R_NormedModule)). }
  specialize (L P HP). unfold filtermapi, filtermap in *. assert (M := filter_and _ _ ends_inside L). revert M.
  apply filter_imp. intros [x y] [[X Y] Q]. simpl in *. exists (F y - F x). split; [| exact Q].
  apply (is_RInt_derive F f); intros z Z; [apply D | apply C]; exact (unit_between x y z X Y Z).
Qed.

(* --- one more, one less ------------------------------------------------------------------------------------------- *)

Lemma power_next : forall a p, 0 < p -> Rpower p a = p * Rpower p (a - 1).
Proof. intros a p P. rewrite <- (Rpower_1 p P) at 2. rewrite <- Rpower_plus. f_equal. ring. Qed.

(* The slope of p^a (1 - p)^b, whose ends are 0. *)
Lemma shape_parts : forall a b, 0 < a -> 0 < b ->
  on_unit (fun p => a * beta_shape (a - 1) (b - 1) p - (a + b) * beta_shape a (b - 1) p) 0.
Proof.
  intros a b A B. destruct (shape_vanishes a b A B) as [L U]. replace 0 with (0 - 0) by ring.
  apply (unit_antiderivative _ (beta_shape a b)); [| | exact L | exact U].
  - intros p P. unfold beta_shape. rewrite (power_next a p) by lra.
    assert (E : forall y, 0 < y < 1 -> Rpower y a * Rpower (1 - y) b = exp (a * ln y + b * ln (1 - y))).
    { intros y Y. unfold Rpower. now rewrite <- exp_plus. }
    apply (is_derive_ext_loc (fun y => exp (a * ln y + b * ln (1 - y)))).
    + assert (Q : 0 < Rmin p (1 - p)) by (apply Rmin_glb_lt; lra). exists (mkposreal _ Q). intros y Y. symmetry. apply E.
      assert (Z : Rabs (y - p) < Rmin p (1 - p)) by exact Y. apply Rabs_lt_between in Z.
      assert (V := Rmin_l p (1 - p)). assert (W := Rmin_r p (1 - p)). lra.
    + auto_derive; [lra |]. rewrite exp_plus. change (exp (a * ln p)) with (Rpower p a).
      change (exp (b * ln (1 + - p))) with (Rpower (1 - p) b). rewrite (power_next a p), (power_next b (1 - p)) by lra.
      unfold Rminus. field. lra.
  - intros p P. apply (continuous_minus (V := R_NormedModule));
      apply (continuous_scal_r (V := R_NormedModule)); apply shape_continuous; exact P.
Qed.

Lemma shape_split : forall a b p, 0 < p < 1 ->
  beta_shape (a - 1) (b - 1) p = beta_shape a (b - 1) p + beta_shape (a - 1) b p.
Proof. intros a b p P. unfold beta_shape. rewrite (power_next a p), (power_next b (1 - p)) by lra. ring. Qed.

Lemma one_more : forall a b v, 0 < a -> 0 < b ->
  on_unit (beta_shape (a - 1) (b - 1)) v -> on_unit (beta_shape a (b - 1)) (a / (a + b) * v).
Proof.
  intros a b v A B H. assert (K := unit_plus _ _ _ _ (unit_scal _ (a / (a + b)) _ H) (unit_scal _ (- / (a + b)) _ (shape_parts a b A B))).
  rewrite Rmult_0_r, Rplus_0_r in K. apply unit_ext with (2 := K). intros p P. field. lra.
Qed.

Lemma one_more_right : forall a b v, 0 < a -> 0 < b ->
  on_unit (beta_shape (a - 1) (b - 1)) v -> on_unit (beta_shape (a - 1) b) (b / (a + b) * v).
Proof.
  intros a b v A B H. assert (K := unit_plus _ _ _ _ H (unit_scal _ (-1) _ (one_more a b v A B H))).
  replace (b / (a + b) * v) with (v + -1 * (a / (a + b) * v)) by (field; lra). apply unit_ext with (2 := K).
  intros p P. rewrite (shape_split a b p P). ring.
Qed.

Lemma one_less : forall a b v, 0 < a -> 0 < b ->
  on_unit (beta_shape a (b - 1)) v -> on_unit (beta_shape (a - 1) (b - 1)) ((a + b) / a * v).
Proof.
  intros a b v A B H. assert (K := unit_plus _ _ _ _ (unit_scal _ ((a + b) / a) _ H) (unit_scal _ (/ a) _ (shape_parts a b A B))).
  rewrite Rmult_0_r, Rplus_0_r in K. apply unit_ext with (2 := K). intros p P. field. lra.
Qed.

Lemma one_less_right : forall a b v, 0 < a -> 0 < b ->
  on_unit (beta_shape (a - 1) b) v -> on_unit (beta_shape (a - 1) (b - 1)) ((a + b) / b * v).
Proof.
  intros a b v A B H. assert (K := unit_plus _ _ _ _ (unit_scal _ ((a + b) / b) _ H) (unit_scal _ (- / b) _ (shape_parts a b A B))).
  rewrite Rmult_0_r, Rplus_0_r in K. apply unit_ext with (2 := K). intros p P. rewrite (shape_split a b p P). field. lra.
Qed.

(* --- it exists ------------------------------------------------------------------------------------------------------ *)

Lemma inside_bounded : forall a b q, 0 < a -> 0 < b -> 0 <= inside a b q <= 1.
Proof.
  intros a b q A B. unfold inside. destruct (Rlt_dec 0 q) as [Q | Q]; [| lra]. destruct (Rlt_dec q 1) as [U | U]; [| lra].
  unfold beta_shape. assert (S := Rpower_at_most_1 a q A ltac:(lra)). assert (T := Rpower_at_most_1 b (1 - q) B ltac:(lra)).
  assert (V : 0 < Rpower q a) by apply exp_pos. assert (W : 0 < Rpower (1 - q) b) by apply exp_pos. nra.
Qed.

Lemma inside_parts : forall a b x y, 0 < a -> 0 < b -> 0 <= x -> x <= y -> y <= 1 ->
  ex_RInt (inside a b) x y /\ 0 <= RInt (inside a b) x y <= y - x.
Proof.
  intros a b x y A B X Y Z. assert (E : ex_RInt (inside a b) x y).
  { apply (ex_RInt_continuous (inside a b)). intros q Q. rewrite Rmin_left, Rmax_right in Q by lra. apply inside_continuous; lra. }
  split; [exact E |]. split.
  - apply RInt_ge_0; [exact Y | exact E |]. intros q _. apply (inside_bounded a b q A B).
  - replace (y - x) with (RInt (fun _ => 1) x y) by (rewrite RInt_const; unfold scal; simpl; unfold mult; simpl; ring).
    apply RInt_le; [exact Y | exact E | apply ex_RInt_const |]. intros q _. apply (inside_bounded a b q A B).
Qed.

Lemma shape_on_unit : forall a b, 0 < a -> 0 < b -> exists v, 0 < v /\ on_unit (beta_shape a b) v.
Proof.
  intros a b A B. set (F := fun x => RInt (inside a b) 0 x). exists (F 1). split.
  - unfold F. apply RInt_gt_0; [lra | |].
    + intros q Q. rewrite inside_is by exact Q. apply Rmult_lt_0_compat; apply exp_pos.
    + intros q Q. apply inside_continuous; lra.
  - replace (F 1) with (F 1 - 0) by ring. apply (unit_antiderivative _ F).
    + intros x X. rewrite <- (inside_is a b x X). apply (is_derive_RInt (inside a b) F 0).
      * assert (Q : 0 < Rmin x (1 - x)) by (apply Rmin_glb_lt; lra). exists (mkposreal _ Q). intros y Y.
        assert (Z : Rabs (y - x) < Rmin x (1 - x)) by exact Y. apply Rabs_lt_between in Z.
        assert (V := Rmin_l x (1 - x)). assert (W := Rmin_r x (1 - x)).
        apply (RInt_correct (inside a b)). apply inside_parts; lra.
      * apply inside_continuous; lra.
    + intros x X. apply shape_continuous. exact X.
    + apply filterlim_locally. intros eps.
      exists (mkposreal (Rmin eps 1) (Rmin_stable_in_posreal eps (mkposreal 1 Rlt_0_1))). intros x Q P.
      assert (X : Rabs (x - 0) < Rmin eps 1) by exact Q. rewrite Rminus_0_r, Rabs_pos_eq in X by lra.
      assert (V := Rmin_l eps 1). assert (W := Rmin_r eps 1). destruct (inside_parts a b 0 x A B) as [_ K]; [lra .. |].
      change (Rabs (F x - 0) < eps). unfold F. rewrite Rminus_0_r, Rabs_pos_eq by lra. lra.
    + apply filterlim_locally. intros eps.
      exists (mkposreal (Rmin eps 1) (Rmin_stable_in_posreal eps (mkposreal 1 Rlt_0_1))). intros x Q P.
      assert (X : Rabs (x - 1) < Rmin eps 1) by exact Q. rewrite Rabs_left in X by lra.
      assert (V := Rmin_l eps 1). assert (W := Rmin_r eps 1).
      destruct (inside_parts a b 0 x A B) as [I _]; [lra .. |]. destruct (inside_parts a b x 1 A B) as [J K]; [lra .. |].
      change (Rabs (F x - F 1) < eps). unfold F. assert (S := RInt_Chasles (inside a b) 0 x 1 I J). unfold plus in S; simpl in S.
      rewrite <- S. replace (RInt (inside a b) 0 x - (RInt (inside a b) 0 x + RInt (inside a b) x 1)) with (- RInt (inside a b) x 1) by ring.
      rewrite Rabs_Ropp, Rabs_pos_eq by lra. lra.
Qed.

(* Euler's integral, for all positive numbers. *)
Theorem euler : forall a b, 0 < a -> 0 < b -> exists v, 0 < v /\ on_unit (beta_shape (a - 1) (b - 1)) v.
Proof.
  intros a b A B. destruct (shape_on_unit a b A B) as [v [P H]].
  assert (K := one_less_right (a + 1) b v ltac:(lra) B). replace (a + 1 - 1) with a in K by ring.
  assert (L := one_less a b _ A B (K H)). exists ((a + b) / a * ((a + 1 + b) / b * v)). split; [| exact L].
  repeat apply Rmult_lt_0_compat; try apply Rdiv_lt_0_compat; try apply Rinv_0_lt_compat; lra.
Qed.

(* --- counts and shares ----------------------------------------------------------------------------------------------- *)

Lemma rising_positive : forall x n, 0 < x -> 0 < RisingFactorial_of x n.
Proof.
  intros x n X. induction n as [| n IH]; [simpl; lra |]. simpl. apply Rmult_lt_0_compat; [exact IH |].
  assert (P := pos_INR n). lra.
Qed.

Lemma many_more : forall z w a b v, 0 < a -> 0 < b -> on_unit (beta_shape (a - 1) (b - 1)) v ->
  on_unit (fun p => p ^ z * (1 - p) ^ w * beta_shape (a - 1) (b - 1) p)
    (RisingFactorial_of a z * RisingFactorial_of b w / RisingFactorial_of (a + b) (z + w) * v).
Proof.
  intros z w a b v A B H.
  assert (Right : forall n, on_unit (beta_shape (a - 1) (b + INR n - 1))
    (RisingFactorial_of b n / RisingFactorial_of (a + b) n * v)).
  { induction n as [| n IH]; [simpl; replace (b + 0 - 1) with (b - 1) by ring; replace (1 / 1 * v) with v by field; exact H |].
    assert (N := pos_INR n). assert (P := rising_positive (a + b) n ltac:(lra)).
    assert (K := one_more_right a (b + INR n) _ A ltac:(lra) IH). rewrite S_INR.
    replace (b + (INR n + 1) - 1) with (b + INR n) by ring.
    match type of K with on_unit _ ?x => match goal with |- on_unit _ ?y => replace y with x; [exact K |] end end.
    simpl. field. lra. }
  assert (Left : forall m, on_unit (beta_shape (a + INR m - 1) (b + INR w - 1))
    (RisingFactorial_of a m * RisingFactorial_of b w / RisingFactorial_of (a + b) (m + w) * v)).
  { induction m as [| m IH].
    - simpl. replace (a + 0 - 1) with (a - 1) by ring. rewrite Rmult_1_l. apply Right.
    - assert (M := pos_INR m). assert (W := pos_INR w). assert (P := rising_positive (a + b) (m + w) ltac:(lra)).
      assert (K := one_more (a + INR m) (b + INR w) _ ltac:(lra) ltac:(lra) IH). rewrite S_INR.
      replace (a + (INR m + 1) - 1) with (a + INR m) by ring.
      match type of K with on_unit _ ?x => match goal with |- on_unit _ ?y => replace y with x; [exact K |] end end.
      simpl. rewrite plus_INR. field. lra. }
  apply unit_ext with (2 := Left z). intros p P. unfold beta_shape.
  replace (a + INR z - 1) with (INR z + (a - 1)) by ring. replace (b + INR w - 1) with (INR w + (b - 1)) by ring.
  rewrite !Rpower_plus, !Rpower_pow by lra. ring.
Qed.

(* Under the law whose density is Euler's, the mean of p^z (1 - p)^w. *)
Theorem mean_of_powers : forall z w a b, 0 < a -> 0 < b -> exists v, 0 < v /\
  on_unit (beta_shape (a - 1) (b - 1)) v /\
  on_unit (fun p => p ^ z * (1 - p) ^ w * (beta_shape (a - 1) (b - 1) p / v))
    (RisingFactorial_of a z * RisingFactorial_of b w / RisingFactorial_of (a + b) (z + w)).
Proof.
  intros z w a b A B. destruct (euler a b A B) as [v [P H]]. exists v. repeat split; [exact P | exact H |].
  assert (K := unit_scal _ (/ v) _ (many_more z w a b v A B H)).
  assert (R := rising_positive (a + b) (z + w) ltac:(lra)).
  match type of K with on_unit _ ?x => match goal with |- on_unit _ ?y => replace y with x; [| field; lra] end end.
  apply unit_ext with (2 := K). intros p Q. field. lra.
Qed.
