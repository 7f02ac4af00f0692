(* What claims' formulas are of, where a formula alone says nothing: laws, losses, divergences, steps, counts, tables.
   Hand-written and trusted by hash; definitions only. Sums over whole numbers, expectations and clients are those of Model.v. *)
Require Export Borrow.Tails Borrow.Model.
Require Export List.
From Coquelicot Require Export Coquelicot.
Export ListNotations.
Open Scope R_scope.

(* --- functions of whole numbers ---------------------------------------------------------------------------------- *)

(* x (x + 1) ... (x + n - 1) *)
Fixpoint RisingFactorial_of (x : R) (n : nat) : R := match n with O => 1 | S m => RisingFactorial_of x m * (x + m) end.
Definition factorial_of (n : nat) : R := fact n.

(* --- losses ------------------------------------------------------------------------------------------------------ *)

(* A loss that falls, strictly, up to a point and rises after it: the point is the best, and there is no other.
   Where the point is 0 the loss rises everywhere. *)
Definition falls_then_rises (loss : R -> R) (best : R) : Prop :=
  (forall a b, 0 < a -> a < b -> b <= best -> loss b < loss a) /\
  (forall a b, 0 < a -> best <= a -> a < b -> loss a < loss b).

(* Minus the logarithm of the likelihood of data whose density is `law`. *)
Definition surprise (law : R -> R) (data : list R) : R := fold_right (fun x rest => - ln (law x) + rest) 0 data.

(* Densities: Laplace's with scale b at distance x from its middle; the normal one with variance v at a point of d
   coordinates whose squared distance from the mean is s. *)
Definition laplace (b x : R) : R := exp (- Rabs x / b) / (2 * b).
Definition normal_of (d : nat) (v s : R) : R := exp (- s / (2 * v)) / sqrt (2 * PI * v) ^ d.
Definition normal (mean v x : R) : R := exp (- (x - mean) ^ 2 / (2 * v)) / sqrt (2 * PI * v).

(* Up to its constant, the density of Beta(1 + a, 1 + b). *)
Definition beta_shape (a b p : R) : R := Rpower p a * Rpower (1 - p) b.

(* Euler's integral, where it needs no limits: for a and b of at least 1. *)
Definition Beta_of (a b : R) : R := RInt (beta_shape (a - 1) (b - 1)) 0 1.

(* (23) for given models: what distillation costs the clients, in the variance psi. *)
Definition distilled (psi : R) (kd : list R) : R := fold_right (fun f rest => ln (2 * psi) / 2 + f / (2 * psi) + rest) 0 kd.

(* The density of a mixture of normal laws, given by pairs of probability and mean, all with variance v; and the weight of one. *)
Definition mixture (v : R) (parts : list (R * R)) (x : R) : R :=
  fold_right (fun part rest => fst part * normal (snd part) v x + rest) 0 parts.
Definition weight_of (v : R) (part : R * R) (parts : list (R * R)) (x : R) : R :=
  fst part * normal (snd part) v x / mixture v parts x.

(* Posterior mean of theta from one response y at x, where theta is normal around mu1 or mu2 with variance v, and y around
   x theta with variance s: each component's posterior mean, weighted by prior times density of the response. *)
Definition mixture_mean (p mu1 mu2 x y s v : R) : R :=
  let first := p * normal (x * mu1) (s + v * x ^ 2) y in let second := (1 - p) * normal (x * mu2) (s + v * x ^ 2) y in
  let mean mu := (mu * s + v * x * y) / (s + v * x ^ 2) in
  (first * mean mu1 + second * mean mu2) / (first + second).

(* --- privacy ----------------------------------------------------------------------------------------------------- *)

(* Renyi's divergence of one law on finitely many answers from another, and the smallest delta for a given eps. *)
Definition renyi (k : nat) (order : R) (P Q : nat -> R) : R :=
  ln (sum k (fun i => Rpower (P i) order * Rpower (Q i) (1 - order))) / (order - 1).
Definition delta_at (k : nat) (eps : R) (P Q : nat -> R) : R := sum k (fun i => Rmax 0 (P i - exp eps * Q i)).
Definition law (k : nat) (P : nat -> R) : Prop := (forall i, (i < k)%nat -> 0 < P i) /\ sum k P = 1.

(* Mean of f over the outputs of T independent steps, and how likely these are. *)
Fixpoint mean_of_steps (n : nat) (P : nat -> R) (T : nat) (f : list nat -> R) : R :=
  match T with O => f nil | S m => sum n (fun i => P i * mean_of_steps n P m (fun l => f (cons i l))) end.
Definition likelihood (P : nat -> R) (l : list nat) : R := fold_right (fun i v => P i * v) 1 l.

(* The exponential mechanism on scores u, whose sensitivity is 1. *)
Definition chance (G : nat) (eps : R) (u : nat -> R) (i : nat) : R :=
  exp (eps * u i / 2) / sum G (fun j => exp (eps * u j / 2)).
Definition neighbours (G : nat) (range : R) (u v : nat -> R) : Prop :=
  forall i, (i < G)%nat -> 0 <= u i <= range /\ 0 <= v i <= range /\ Rabs (u i - v i) <= 1.

(* Users whose data differ, and items that differ, of so many users with so many items each. *)
Definition differs (x y : nat) : R := if (x =? y)%nat then 0 else 1.
Definition users_apart (users items : nat) (D D' : nat -> nat -> nat) : R :=
  sum users (fun u => if existsb (fun j => negb (D u j =? D' u j)%nat) (seq 0 items) then 1 else 0).
Definition items_apart (users items : nat) (D D' : nat -> nat -> nat) : R :=
  sum users (fun u => sum items (fun j => differs (D u j) (D' u j))).

(* --- laws of a number of runs, 1 or 2 or ... --------------------------------------------------------------------- *)

(* The negative binomial law without its zero, by the ratio of neighbouring masses, which also makes sense for -1 < eta <= 0. *)
Definition truncated_negative_binomial (eta gamma : R) (f : nat -> R) : Prop :=
  (forall h, (1 <= h)%nat -> f (S h) * S h = f h * ((1 - gamma) * (h + eta))) /\ is_series (fun k => f (S k)) 1.
Definition mean_runs (f : nat -> R) (m : R) : Prop := is_series (fun k => S k * f (S k)) m.

(* --- noise on the line ------------------------------------------------------------------------------------------- *)

(* The integral of f over the whole line is v. *)
Definition whole_line (f : R -> R) (v : R) : Prop := is_RInt_gen f (Rbar_locally m_infty) (Rbar_locally p_infty) v.
(* The least delta at eps of a release that has the density p on one dataset and q on another: what p exceeds e^eps q by. *)
Definition least_delta (eps : R) (p q : R -> R) : R -> Prop := whole_line (fun x => Rmax 0 (p x - exp eps * q x)).
(* exp ((a - 1) D) for the Renyi divergence D of order a of p from q. *)
Definition renyi_sum (a : R) (p q : R -> R) : R -> Prop := whole_line (fun x => Rpower (p x) a * Rpower (q x) (1 - a)).

(* The same of a run: release after release, normal with variance v around `aim` of all releases so far; what one record
   changes moves the aims by `shifts`, each release's own. The integral over one release is inside that over the one before. *)
Fixpoint renyi_run (a v : R) (aim : list R -> R) (shifts seen : list R) (w : R) : Prop :=
  match shifts with
  | nil => w = 1
  | cons d later => exists rest : R -> R,
      (forall x, renyi_run a v aim later (cons x seen) (rest x)) /\
      whole_line (fun x => Rpower (normal (aim seen + d) v x) a * Rpower (normal (aim seen) v x) (1 - a) * rest x) w
  end.
(* T rounds in which each of K silos releases once; the record is of silo k, whose releases it moves by d. *)
Definition rounds (T K k : nat) (d : R) : list R := concat (repeat (repeat 0 k ++ d :: repeat 0 (K - k - 1)) T).

(* --- expectations of functions of one number --------------------------------------------------------------------- *)

(* The normal law by its characteristic function; variance 0 is a point. *)
Definition is_normal (mean variance : R) (E : (R -> R) -> R) : Prop :=
  forall t, E (fun x => cos (t * x)) = exp (- (variance * t ^ 2) / 2) * cos (t * mean) /\
            E (fun x => sin (t * x)) = exp (- (variance * t ^ 2) / 2) * sin (t * mean).

(* --- steps of an algorithm --------------------------------------------------------------------------------------- *)

Definition silo_mean (K : nat) (w : nat -> R) : R := sum K w / K.
(* A silo's step of length `rate` on (w - x_k)^2 / 2 + lam (w - pivot)^2 / 2, the pivot being the silos' silo_mean. *)
Definition step (K : nat) (rate lam : R) (x w : nat -> R) (k : nat) : R :=
  w k - rate * ((w k - x k) + lam * (w k - silo_mean K w)).

(* --- printed tables ---------------------------------------------------------------------------------------------- *)

(* Cells, in hundredths: two numbers and their printed difference, which rounding of the three cannot explain. *)
Definition off (cells : list (Z * Z * Z)) : R :=
  fold_right (fun cell n => let '(a, b, d) := cell in if (3 <? 2 * Z.abs (a - b - d))%Z then n + 1 else n) 0 cells.
(* The largest difference, in hundredths. *)
Definition largest (pairs : list (Z * Z)) : R := IZR (fold_right (fun pair m => Z.max (fst pair - snd pair) m) 0%Z pairs).
