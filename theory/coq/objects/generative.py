"""What formulas of the generative paper's claims are of: best values of losses, laws, divergences, counts.

Belongs here: propositions and scripts of this paper's claims. Does not belong here: formulas.
"""

from __future__ import annotations

from typing import Any

from theory.coq.defined import About, about, listed

# --- best values of a loss, over all positive numbers ------------------------------------------------------------------


def _best(loss: str, c: str, a: str, k: str, lemma: str, whole: tuple[str, ...] = ()) -> tuple[About, ...]:
    script = (
        *(f"assert (L_{d} := le_INR _ _ H_{d}). simpl INR in L_{d}." for d in whole),
        f"apply (log_loss _ _ ({c}) ({a}) ({k}));",
        "  [ try positive; try lra | try field; try lra | intros x X; cbv beta;",
        f"    rewrite {lemma} by exact X; lists; first [ field | idtac ]; lra ].",
    )
    says = "The loss falls up to the formula and rises after it."
    return (About(says, f"falls_then_rises {loss} formula", script, whole=whole),)


@about("Losses", "generative:eq12:laplace:scale")
def _scale(gaps: Any) -> tuple[About, ...]:
    data, k = listed(gaps), len(gaps)
    total = " + ".join(map(str, gaps))
    return _best(f"(fun b => surprise (laplace b) {data})", str(k), total, f"{k} * ln 2", "surprise_laplace")


@about("Losses", "generative:eq19:variance")
def _variance(squares: Any, d: Any, b: Any) -> tuple[About, ...]:
    data, k = listed(squares), len(squares)
    total = " + ".join(map(str, squares))
    loss = f"(fun v => surprise (normal_of d v) {data} + {b} / v)"
    return _best(loss, f"{k} * d / 2", f"({total}) / 2 + {b}", f"{k} * d / 2 * ln (2 * PI)", "surprise_normal", ("d",))


@about("Losses", "generative:eq23:psi")
def _psi(kd: Any, b: Any) -> tuple[About, ...]:
    data, k = listed(kd), len(kd)
    total = " + ".join(map(str, kd))
    loss = f"(fun psi => distilled psi {data} + {b} / psi)"
    return _best(loss, f"{k} / 2", f"({total}) / 2 + {b}", f"{k} / 2 * ln 2", "distilled_loss")


# --- privacy -----------------------------------------------------------------------------------------------------------


@about("Losses", "generative:def3")
def _def3(p: Any, q: Any, order: int) -> tuple[About, ...]:
    said = f"exp (({order} - 1) * renyi 2 {order} (two p (1 - p)) (two q (1 - q)))\n    = formula"
    script = (f"rewrite (two_answers {order - 2}) by (first [ assumption | simpl INR; lra ]).", "cbn [pow]. field. lra.")
    says = "Renyi's divergence of one law on two answers from another, by its definition, gives the formula."
    return (About(says, said, script),)


@about("Losses", "generative:lemma2:delta")
def _delta() -> tuple[About, ...]:
    most = "forall k P Q, law k P -> law k Q -> renyi k order P Q <= rdp -> delta_at k eps P Q <= formula"
    least = "forall c, (forall loss, 1 - exp (eps - loss) <= c * exp ((order - 1) * (loss - rdp))) <-> formula <= c"
    form = "exp ((order - 1) * (rdp - eps)) / (order - 1) * Rpower (1 - 1 / order) order"
    script = (
        f"assert (E : formula = {form}) by (field; lra).",
        "rewrite E. split; [intros k P Q; apply delta_from_renyi; lra | intros c; apply smallest_factor; lra].",
    )
    says = (
        "A mechanism of any finite number of answers with this divergence is private with the formula, the least that "
        "follows loss by loss."
    )
    return (About(says, f"({most}) /\\\n    ({least})", script),)


@about("Losses", "generative:fact1")
def _fact1() -> tuple[About, ...]:
    said = (
        "forall (Y : (R -> R) -> R) (X : R -> (R -> R) -> R),\n"
        "    (forall f g, (forall y, f y = g y) -> Y f = Y g) -> (forall c f, Y (fun y => c * f y) = c * Y f) ->\n"
        "    is_normal z sigma2_z Y -> (forall y, is_normal y sigma2_y (X y)) ->\n"
        "    is_normal formula_1 formula_2 (fun f => Y (fun y => X y f))"
    )
    says = "Expectations in two steps, each normal, are those of a normal law with the formula's mean and variance."
    script = ("intros Y X. replace formula_2 with (sigma2_z + sigma2_y) by ring. apply normal_of_normal.",)
    return (About(says, said, script),)


# --- counts ------------------------------------------------------------------------------------------------------------


@about("Losses", "generative:neighbours")
def _neighbours() -> tuple[About, ...]:
    said = "forall N D D', users_apart N 1 D D' = users -> items_apart N 1 D D' = formula"
    says = "Where the data of so many people differ, of any number with one item each, the formula's number of items does."
    return (About(says, said, ("intros N D D' U. rewrite apart_of_one. exact U.",)),)


@about("Losses", "generative:exp:writers")
def _writers(authors: int) -> tuple[About, ...]:
    said = (
        f"forall groups : list (list nat), (forall g, In g groups -> length g = {authors}%nat) ->\n"
        "    length (concat groups) = 198%nat -> INR (length groups) = formula"
    )
    script = (
        f"intros groups H W. rewrite (groups_of nat {authors}%nat groups H) in W.",
        "replace (length groups) with 66%nat by lia. simpl INR. lra.",
    )
    says = "However 198 writers are put into groups of so many, there are as many groups as the formula says."
    return (About(says, said, script),)


# --- numbers that a formula implies ------------------------------------------------------------------------------------


@about("Losses", "generative:exp:bernoulli:implied")
def _implied() -> tuple[About, ...]:
    within, between = "s / ((s + 1) * 14)", "1 / (s + 1)"
    risk = f"fun w => w ^ 2 * ({within}) + (1 - w) ^ 2 * ({between})"

    def one(k: int, gain: str) -> str:
        return (
            f"(forall s v, 0 < s -> least (fun _ : R => True) ({risk}) v ->\n"
            f"      (1 - v / ({within}) = {gain} <-> s = formula_{k}))"
        )

    script = (
        f"assert (G : forall s v, 0 < s -> least (fun _ : R => True) ({risk}) v -> 1 - v / ({within}) = s / (s + 14)).",
        "{ intros s v P L. rewrite (mixture_saves _ _ v) with (3 := L); [field; lra | |]; apply Rdiv_lt_0_compat; lra. }",
        "split; intros s v P L; rewrite (G s v P L); split; intros X.",
        "all: try (subst s; field).",
        "all: apply (f_equal (fun x => x * (s + 14))) in X; unfold Rdiv in X; rewrite Rmult_assoc, Rinv_l in X by lra; lra.",
    )
    says = (
        "In multiples of mu (1 - mu): the share of its error that the best mixture with the known mean saves is as quoted "
        "just where s is the formula."
    )
    return (About(says, f"{one(1, '371 / 1000')} /\\\n    {one(2, '340 / 1000')}", script),)


# --- densities at the ends ---------------------------------------------------------------------------------------------


@about("Laws", "generative:vantrees:conditions")
def _ends() -> tuple[About, ...]:
    said = (
        "is_lim (normal mu sigma2_theta) p_infty formula_1 /\\ is_lim (normal mu sigma2_theta) m_infty formula_1 /\\\n"
        "    filterlim (beta_shape a b) (at_right 0) (locally formula_2) /\\\n"
        "    filterlim (beta_shape a b) (at_left 1) (locally formula_3)"
    )
    script = (
        "destruct (normal_vanishes mu sigma2_theta) as [A B]; [assumption |].",
        "destruct (shape_vanishes a b) as [C D]; [assumption | assumption |]. repeat split; assumption.",
    )
    says = "The densities of N(mu, sigma2_theta) and Beta(1 + a, 1 + b) tend to the formula at the ends."
    return (About(says, said, script),)


# --- numbers of a named federation -------------------------------------------------------------------------------------


def _federation(tau2: str, alpha2: str, says: str, share: str) -> tuple[About, ...]:
    """A statement on ten thousand clients of Model.v: own estimate and plain average, mixed as Theorem 1 says."""
    u = f"1 - {tau2} / ({tau2} + {alpha2})"
    mixed = f"risk S (mixed M ({u}) 0 i (aggregate M (weights (same (1 / m))))) (parameter M 0 i)"
    said = (
        f"(exists m : nat, INR m = 10000) /\\ forall m : nat, INR m = 10000 ->\n"
        f"    forall (S : space) (M : clients S 1 (same m) (same ({tau2})) (same ({alpha2})) (same 0)) i, (i < m)%nat ->\n"
        f"      {share.format(mixed, 'risk S (estimate M 0 i) (parameter M 0 i)')} = formula"
    )
    script = (
        "split; [exists (Z.to_nat 10000); rewrite INR_IZR_INZ, Z2Nat.id by lia; reflexivity | intros m E S M i I].",
        f"rewrite (mixture_risk M _ ({u})) by (try lia; try exact I; unfold_levels; rewrite E; field).",
        "rewrite (estimate_risk M) by (try lia; exact I). unfold_levels. rewrite E. field; try nra.",
    )
    return (About(says, said, script),)


@about("Laws", "generative:remark1")
def _example(sigma2_theta: Any) -> tuple[About, ...]:
    says = "The error of the estimate of Theorem 1 over the local one's is the formula, from the model, for 10000 clients."
    return _federation(str(sigma2_theta), "10 / 100", says, "({}) / ({})")


@about("Laws", "generative:exp:fig4:gain")
def _figure4() -> tuple[About, ...]:
    says = (
        "In Figure 4's units: the share of the local error that the estimate saves is the formula, from the model, for "
        "10000 clients."
    )
    return _federation("unit * (1 / 100)", "unit * (1 / 4) / 15", says, "1 - ({}) / ({})")


@about("Laws", "generative:discrete:limit")
def _no_variance(p: Any, mu1: Any, mu2: Any, x: Any, y: Any, sigma2_x: Any) -> tuple[About, ...]:
    said = "filterlim (mixture_mean p mu1 mu2 x y sigma2_x) (at_right 0) (locally formula)"
    script = (
        "assert (V := mixture_mean_value p mu1 mu2 x y sigma2_x ltac:(lra) ltac:(lra)). cbv zeta in V.",
        "assert (L := mixture_mean_limit p mu1 mu2 x y sigma2_x ltac:(lra) ltac:(lra)). rewrite V in L. exact L.",
    )
    return (About("As the components' variance vanishes, the posterior mean tends to the formula.", said, script),)


# --- corrected squares of a linear model -------------------------------------------------------------------------------


@about("Laws", "generative:eq19:calibrated")
def _calibrated(shape: str) -> tuple[About, ...]:
    # A parameter's deviation from mu and a response's noise are the own and the sampling noises of clients of one level.
    clients = "forall (S : space) (M : clients S 1 (fun _ => 2%nat) (same sigma2_theta) (same sigma2_x) (same 0))"
    if shape == "2x1":
        said = (
            f"{clients} (mu : R),\n"
            "    let first o := x1 * (mu + own M 0 0 o) + sampling M 0 0 o in\n"
            "    let second o := x2 * (mu + own M 0 0 o) + sampling M 0 1 o in\n"
            "    let C := 1 / (1 / sigma2_theta + (x1 ^ 2 + x2 ^ 2) / sigma2_x) in\n"
            "    let best o := mu + C * (x1 * (first o - x1 * mu) + x2 * (second o - x2 * mu)) / sigma2_x in\n"
            "    E S (fun o => (mu - best o) ^ 2) + C = formula_1 /\\\n"
            "    E S (fun o => (first o - x1 * best o) ^ 2 + (second o - x2 * best o) ^ 2) + (x1 ^ 2 + x2 ^ 2) * C"
            " = formula_2"
        )
        proof = "intros S M mu. exact (squares_of_two_samples x1 x2 sigma2_theta sigma2_x H_sigma2_theta H_sigma2_x S M mu)."
    else:
        said = (
            f"{clients} (mu1 mu2 : R), exists C11 C12 C22 : R,\n"
            "    (1 / sigma2_theta + x1 ^ 2 / sigma2_x) * C11 + x1 * x2 / sigma2_x * C12 = 1 /\\\n"
            "    (1 / sigma2_theta + x1 ^ 2 / sigma2_x) * C12 + x1 * x2 / sigma2_x * C22 = 0 /\\\n"
            "    x1 * x2 / sigma2_x * C12 + (1 / sigma2_theta + x2 ^ 2 / sigma2_x) * C22 = 1 /\\\n"
            "    let y o := x1 * (mu1 + own M 0 0 o) + x2 * (mu2 + own M 0 1 o) + sampling M 0 0 o in\n"
            "    let gap o := (y o - x1 * mu1 - x2 * mu2) / sigma2_x in\n"
            "    let best1 o := mu1 + (C11 * x1 + C12 * x2) * gap o in\n"
            "    let best2 o := mu2 + (C12 * x1 + C22 * x2) * gap o in\n"
            "    E S (fun o => (mu1 - best1 o) ^ 2 + (mu2 - best2 o) ^ 2) + (C11 + C22) = formula_1 /\\\n"
            "    E S (fun o => (y o - x1 * best1 o - x2 * best2 o) ^ 2)"
            " + (x1 ^ 2 * C11 + 2 * x1 * x2 * C12 + x2 ^ 2 * C22) = formula_2"
        )
        proof = "intros S M mu1 mu2. apply squares_of_two_features; assumption."
    says = "At the posterior's mean and covariance the expected squares, with their corrections, are the formula."
    return (About(says, said, (proof,)),)


# --- integrals of normal laws ------------------------------------------------------------------------------------------

LINE = "(Rbar_locally m_infty) (Rbar_locally p_infty)"


@about("Laws", "generative:thm2:tail")
def _tails() -> tuple[About, ...]:
    def beyond(middle: str, variance: str, c: str, k: int) -> str:
        law = f"(normal {middle} ({variance}))"
        return (
            f"(forall {middle}, exists low high,\n"
            f"      is_RInt_gen {law} (Rbar_locally m_infty) (at_point ({middle} - {c})) low /\\\n"
            f"      is_RInt_gen {law} (at_point ({middle} + {c})) (Rbar_locally p_infty) high /\\ low + high = formula_{k})"
        )

    def proof(middle: str, variance: str, c: str, lemma: str) -> tuple[str, ...]:
        return (
            f"- intros {middle}. assert (V : 0 < {variance}) by (first [ lra | apply Rdiv_lt_0_compat; lra ]).",
            "  eexists. eexists. split; [apply normal_below; exact V | split; [apply normal_beyond; exact V |]].",
            f"  replace ({middle} - ({middle} - {c})) with {c} by ring. "
            f"replace ({middle} + {c} - {middle}) with {c} by ring.",
            f"  rewrite {lemma} by lra. field; lra.",
        )

    said = f"{beyond('theta', 'sigma2_x / n', 'c1', 1)} /\\\n    {beyond('mu', 'sigma2_theta', 'c2', 2)}"
    script = ("split.", *proof("theta", "sigma2_x / n", "c1", "over_root_of_ratio"),
              *proof("mu", "sigma2_theta", "c2", "over_root"))  # fmt: skip
    return (About("The density beyond these distances, on both sides, integrates to the formula.", said, script),)


@about("Laws", "generative:alg1:em")
def _em(p: Any, mus: Any) -> tuple[About, ...]:
    total = " + ".join(map(str, p))
    parts = "[" + "; ".join(f"({a} / ({total}), {mu})" for a, mu in zip(p, mus, strict=True)) + "]"
    density = f"mixture (sigma2_x / n) {parts}"
    lines, script = [], [
        "assert (V : 0 < sigma2_x / n) by (apply Rdiv_lt_0_compat; lra).",
        f"assert (H : forall one, In one {parts} -> 0 < fst one).",
        "{ intros one O. repeat (destruct O as [<- | O]; [apply Rdiv_lt_0_compat; lra |]). destruct O. }",
        "repeat apply conj.",
    ]  # fmt: skip
    for k, (a, mu) in enumerate(zip(p, mus, strict=True), 1):
        part = f"({a} / ({total}), {mu})"
        weight = f"weight_of (sigma2_x / n) {part} {parts} x"
        lines += [
            f"is_RInt_gen (fun x => {weight} * {density} x) {LINE} formula_{k}",
            f"is_RInt_gen (fun x => {weight} * x * {density} x) {LINE} (formula_{k} * formula_{k + len(p)})",
        ]
        fact = f"destruct (em_rests (sigma2_x / n) {part} {parts} V ltac:(simpl; tauto) H) as [A B]; cbn [fst snd] in A, B"
        script += [f"- {fact}; eapply same_value; [| exact {x}]; field; lra." for x in "AB"]
    says = (
        "Averaged over the true law, a candidate's weight is the new probability, and the weighted mean the new value "
        "times it."
    )
    return (About(says, " /\\\n    ".join(lines), tuple(script)),)


@about("Laws", "generative:alg1")
def _upper() -> tuple[About, ...]:
    law = "mixture (sigma2_x / n) [(1 / 2, mu); (1 / 2, - mu)]"
    up = "(at_point 0) (Rbar_locally p_infty)"
    said = (
        f"exists mass first, is_RInt_gen ({law}) {up} mass /\\\n"
        f"    is_RInt_gen (fun x => x * {law} x) {up} first /\\ first / mass = formula"
    )
    script = (
        "assert (V : 0 < sigma2_x / n) by (apply Rdiv_lt_0_compat; lra). "
        "destruct (upper_cluster mu (sigma2_x / n) V) as [A B].",
        "eexists. eexists. split; [exact A | split; [exact B |]].",
        "rewrite <- normal_at_0 by lra. rewrite <- over_root_of_ratio by lra. field; lra.",
    )
    says = "The mean of the part of the clients' law above 0, where the clusters meet, is the formula."
    return (About(says, said, script),)


@about("Laws", "generative:thm2:quantiser:projection")
def _projected() -> tuple[About, ...]:
    law = "(normal mu variance)"
    said = (
        f"exists low high, is_RInt_gen {law} (Rbar_locally m_infty) (at_point (- a)) low /\\\n"
        f"    is_RInt_gen {law} (at_point a) (Rbar_locally p_infty) high /\\\n"
        f"    - a * low + RInt (fun x => x * normal mu variance x) (- a) a + a * high - mu = formula"
    )
    script = (
        "assert (V : 0 < variance) by lra.",
        "eexists. eexists. split; [apply normal_below; exact V | split; [apply normal_beyond; exact V |]].",
        "rewrite first_between by exact V. unfold first_to. replace (0 - - a) with (a - 0) by ring.",
        "assert (N : normal 0 variance (- a) = normal 0 variance a) by (unfold normal; do 3 f_equal; ring). "
        "rewrite N. ring.",
    )
    says = "The mean of the sample mean, put at the nearest end where it is outside, is off by the formula."
    return (About(says, said, script),)


@about("Laws", "generative:thm2:event")
def _inside() -> tuple[About, ...]:
    b = "(r + (sqrt sigma2_theta + sqrt (sigma2_x / n)) * sqrt (ln (m ^ 2 * n)))"
    said = f"Rpower (RInt (normal r (sigma2_theta + sigma2_x / n)) (- {b}) {b}) m\n    = formula"
    script = (
        "assert (V : 0 < sigma2_theta + sigma2_x / n) by (apply Rplus_le_lt_0_compat; [lra | apply Rdiv_lt_0_compat; lra]).",
        "rewrite normal_inside by exact V. rewrite sqrt_div by lra. replace (m ^ 2 * n) with (n * m ^ 2) by ring.",
        "replace (2 * (sigma2_theta + sigma2_x / n)) with (2 * sigma2_theta + 2 * sigma2_x / n) by (field; lra).",
        "match goal with |- Rpower (1 - erfc ?a / 2 - erfc ?b / 2) m = Rpower (1 - erfc ?c / 2 - erfc ?d / 2) m =>",
        "  replace a with c by (f_equal; ring); replace b with d by (f_equal; ring); reflexivity end.",
    )
    return (About("The density of a sample mean over the range, to the power m, is the formula.", said, script),)


@about("Laws", "generative:thm2:ldp")
def _needed() -> tuple[About, ...]:
    script = (
        "rewrite sqrt_1. apply needed_at_most; [assumption | assumption |].",
        "assert (P : 0 < ln (2 / delta)) by interval with (i_bisect delta, i_prec 40). assert (L := sqrt_lt_R0 _ P). "
        "assert (A := root_two). assert (B := root_two_square).",
        "transitivity (sqrt 2 ^ 2 / 2 * (sqrt (ln (2 / delta)) - eps0 / (4 * sqrt (ln (2 / delta))))); "
        "[field; lra | rewrite B; field; lra].",
    )
    return (About("The delta that the mechanism needs is at most the formula.", "derived <= formula", script),)


# --- Euler's integral --------------------------------------------------------------------------------------------------


@about("Laws", "generative:kd:integral")
def _integral() -> tuple[About, ...]:
    said = "is_RInt (fun q => exp (strength * (p_mu * ln q + (1 - p_mu) * ln (1 - q)))) 0 1 formula"
    script = (
        "assert (I := distilled_integral strength p_mu ltac:(lra) ltac:(lra)).",
        "replace formula with (Beta_of (1 + p_mu * strength) (1 + (1 - p_mu) * strength)) by (f_equal; ring). exact I.",
    )
    fails = (
        "intro H. assert (X := H (1 / 2) (1 / 2) ltac:(lra) ltac:(lra)). clear H.",
        "revert X. apply quarters_differ; field.",
    )
    wrong = "The printed formula is not the right one at strength = 1/2, p_mu = 1/2."
    return (
        About("The integral over a client's label probability is the formula.", said, script),
        About(wrong, "formula = printed", fails, "printed_fails", negated=True),
    )


@about("Laws", "generative:kd:density")
def _normaliser() -> tuple[About, ...]:
    divergence = "p_mu * ln (p_mu / q) + (1 - p_mu) * ln ((1 - p_mu) / (1 - q))"
    said = f"is_RInt (fun q => exp formula * exp (- psi * ({divergence}))) 0 1 1"
    script = (
        "apply distilled_normaliser; [lra | lra |]. replace (psi * (1 - p_mu)) with ((1 - p_mu) * psi) by ring. ring.",
    )
    fails = (
        "intro H. assert (X := H (1 / 2) (1 / 2) ltac:(lra) ltac:(lra)). clear H.",
        "match type of X with ?l = ?r => match l with context [ln (Beta_of ?a ?b)] => "
        "match r with context [ln (Beta_of ?c ?d)] =>",
        "  assert (Y : ln (Beta_of a b) = ln (Beta_of c d)) by lra end end end.",
        "revert Y. apply quarters_differ_ln; field.",
    )
    wrong = "The printed formula is not the right one at psi = 1/2, p_mu = 1/2."
    return (
        About("With the formula as its logarithm the constant makes the density integrate to one.", said, script),
        About(wrong, "formula = printed", fails, "printed_fails", negated=True),
    )


@about("Costs", "generative:privacy:border")
def _pays() -> About:
    v = "(sigma2_x + sigma2_q)"
    return About(
        "James and Stein's risk, from reports of variance v of parameters with variance t, is below that of the mean of all"
        " exactly where t is above the formula (the mean of one over the reports' scatter is 1/((m - 3) (t + v))).",
        f"forall t, 0 <= t -> ({v} - (m - 3) * {v} ^ 2 / (m * (t + {v})) < t * (1 - 1 / m) + {v} / m <-> formula < t)",
        [
            "intros t T. assert (M : 0 < m - 1) by lra. assert (R := sqrt_lt_R0 _ M). assert (W := root_two).",
            "assert (S := Functions.sqrt_square _ M). assert (Q := root_two_square).",
            "apply pays_beyond; [lra | lra | lra | |].",
            f"{{ replace formula with (sqrt 2 * {v} / sqrt (m - 1)) by (field; lra). apply Rdiv_lt_0_compat; nra. }}",
            f"replace formula with (sqrt 2 * {v} / sqrt (m - 1)) by (field; lra).",
            f"replace ((m - 1) * (sqrt 2 * {v} / sqrt (m - 1)) ^ 2) with ((m - 1) / sqrt (m - 1) ^ 2 * (sqrt 2 ^ 2 *"
            f" {v} ^ 2))",
            "  by (field; lra).",
            "rewrite S, Q. field. lra.",
        ],
    )
