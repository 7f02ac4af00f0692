"""Appendix D: Algorithms A1 and A2 as printed, and what they cost in privacy.

Belongs here: claims on the two algorithm boxes and the text beside them. Does not belong here: where Algorithm A1 ends
(mrmtl:lem6.1:algA1 in setup.py), hyperparameter tuning.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from estimators.accounting import privacy
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl.model import LAM, as_fraction, divergence_moment, impulses

ZERO = sp.Integer(0)
SHIFT = {"add-remove": 1, "replace": 2}
ADJACENCY = Variable(
    "adjacency", "choice", "add-remove: one record is left out; replace: it is exchanged", choices=("add-remove", "replace")
)
ROUNDS = Variable("T", "size", "rounds, one DP-SGD step each", extreme=False)
CLIP = Variable("clip", "positive", "clipping norm of a record's gradient", extreme=False)
NOISE2 = Variable("noise2", "positive", "noise variance of a DP-SGD step", extreme=False)
ORDER = Variable("order", "positive", "Renyi order", within=(2, 1000), why="code")


# --- Algorithm A1: privacy -------------------------------------------------------------------------------------------


def _overhead_derive(T: int, lam: Any, clip: Any, noise2: Any, order: Any, adjacency: str) -> Derivation:
    d = Derivation()
    w, bar, step, rest = sp.symbols("w w_bar step g_rest", real=True)
    d.say("""What silo k releases in a round is its update. Given the releases so far, w_k and w_bar are known numbers, and
        so is the gradient of the regulariser:""", lam * (w - bar))  # fmt: skip
    means = [-step * (rest + x + lam * (w - bar)) for x in (SHIFT[adjacency] * clip, ZERO)]
    gap = d.say("Between neighbours the update's mean moves at most by", simplest(means[0] - means[1]))
    d.say("(the regulariser cancels), and its noise has the variance", step**2 * noise2)
    one = d.say("Renyi divergence of a round: order/2 times the squared shift over the variance,",
                simplest(order * gap**2 / (2 * step**2 * noise2)))  # fmt: skip
    d.say("The other silos' releases and w_bar are computed from releases and other data: they add nothing.")
    return d.conclude("T rounds add up to at most, and with constant shifts exactly,", T * one)


def _overhead_oracle(T: int, lam: Any, clip: Any, noise2: Any, order: Any, adjacency: str) -> Any:
    """Unroll all rounds of two silos to linear forms in the noise; joint Gaussian law of all releases, exactly."""
    step, slope, others2 = sp.Rational(1, 3), sp.Rational(1, 2), sp.Rational(2, 5)
    names = [(silo, t) for t in range(T) for silo in (0, 1)] + ["shift"]

    def form() -> dict[Any, Any]:
        return dict.fromkeys(names, ZERO)

    models, bar, releases = [form(), form()], form(), []
    for t in range(T):
        updates = []
        for silo in (0, 1):
            update = {n: -step * (slope * models[silo][n] + lam * (models[silo][n] - bar[n])) for n in names}
            update[silo, t] -= step
            if silo == 0:
                update["shift"] -= step
            updates.append(update)
        models = [{n: m[n] + u[n] for n in names} for m, u in zip(models, updates, strict=True)]
        bar = {n: bar[n] + (updates[0][n] + updates[1][n]) / 2 for n in names}
        releases += updates
    noises = names[:-1]
    loading = sp.Matrix([[r[n] for n in noises] for r in releases])
    variances = sp.diag(*[noise2 if silo == 0 else others2 for silo, _ in noises])
    shift = sp.Matrix([r["shift"] * SHIFT[adjacency] * clip for r in releases])
    covariance = loading * variances * loading.T
    return order / 2 * (shift.T * covariance.LUsolve(shift))[0]


def _overhead_computed(T: int, clip: float, noise2: float, order: float, adjacency: str) -> float:
    multiplier = noise2**0.5 / (SHIFT[adjacency] * clip)
    one = privacy.rdp_sampled_gaussian(noise_multiplier=multiplier, sampling_rate=1.0, order=order)
    return float(privacy.compose(one, T))


def _overhead_simulate(
    T: int, lam: float, clip: float, noise2: float, order: float, adjacency: str
) -> simulation.Simulation:
    """Run two silos for T rounds with the record, and read the likelihood ratio off what they release.

    The first silo's noise is drawn nearer to where the moment comes from, half of the way.
    """
    step, slope, shift = 0.3, 0.5, (2.0 if adjacency == "replace" else 1.0) * clip
    half = (order - 1) * shift / np.sqrt(noise2) / 2

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        models, bar, log_ratio, weight = np.zeros((2, reps)), np.zeros(reps), np.zeros(reps), np.ones(reps)
        for _ in range(T):
            pulls = slope * models + lam * (models - bar)  # what is known of both gradients from the releases so far
            own, weighs = simulation.shifted(gen, np.sqrt(noise2), half, (reps,))
            noise = np.stack([own + shift, np.sqrt(noise2) * gen.standard_normal(reps)])
            weight = weight * weighs
            updates = -step * (pulls + noise)
            seen = -updates[0] / step - pulls[0]
            log_ratio += (seen**2 - (seen - shift) ** 2) / (2 * noise2)
            models, bar = models + updates, bar + updates.mean(axis=0)
        return (weight * np.exp((order - 1) * log_ratio))[:, None]

    return divergence_moment(draw, order, labels=["moment of the likelihood ratio of all releases"], draws=2 * T)


register(
    Claim(
        id="mrmtl:algA1",
        title="Algorithm A1 costs no more privacy than DP-SGD",
        place="Appendix D.1, Algorithm A1 and 'Privacy of MR-MTL'",
        statement="""The regulariser of line 7 adds nothing to the Renyi divergence of T rounds of DP-SGD, whatever lam.
            Judged: the divergence of all releases of all silos over T rounds, for records whose clipped gradient shifts
            by the most.""",
        latex=r"""\nabla_{w_{k}^{(t)}}\left[\ell\left(w_{k}^{(t)},x,y\right)+\frac{\lambda}{2}\left\|w_{k}^{(t)}-%
            \bar{w}^{(t-1)}\right\|_{2}^{2}\right]\ \text{does not incur privacy overhead compared to local and FedAvg
            training}""",
        kind="algorithm line",
        variables=(ROUNDS, LAM, CLIP, NOISE2, ORDER, ADJACENCY),
        examples=(
            {"T": 2, "lam": 1, "clip": 1, "noise2": 4, "order": 2, "adjacency": "add-remove"},
            {"T": 3, "lam": "1/2", "clip": 2, "noise2": 900, "order": 8, "adjacency": "replace"},
        ),
        printed=lambda T, clip, noise2, order, adjacency: T * order * (SHIFT[adjacency] * clip) ** 2 / (2 * noise2),
        derive=_overhead_derive,
        oracle=_overhead_oracle,
        computed=_overhead_computed,
        simulate=_overhead_simulate,
        assumes={"noise": "fresh"},
        unit="nats",
        related=("mrmtl:lem6.1:algA1",),
        assumptions=("the other silos' data are the same", "weights of line 9 do not depend on the silo's data"),
        remark="""It holds however the regulariser's gradient enters, inside the clipping or outside: it is a function of
            what is already public. Weighing updates by example counts (line 9) is a second release under add-remove
            adjacency, as the text says. Line 10's i should be k. Where the iteration ends: mrmtl:lem6.1:algA1.""",
    )
)  # fmt: skip


def _weights_derive(n_k: Any, rest: Any) -> Derivation:
    d = Derivation()
    ours, there = (n / (n + rest) for n in (n_k + 1, n_k))
    d.say("Line 9 weighs update k by n_k over all examples, without noise:", (ours, there))
    return d.conclude("When a record is added, the weight that anyone computes from w_bar and the updates moves by",
                      simplest(ours - there))  # fmt: skip


register(
    Claim(
        id="mrmtl:algA1:weights",
        title="Weights by example counts reveal the count",
        place="Appendix D.1, 'Weighted vs Unweighted Model Updates'; Algorithm A1, line 9",
        statement="""Under add-remove adjacency weights by example counts leak (the weight changes, without noise); under
            replacement they do not. Judged: the change of the weight under add-remove, which is positive.""",
        latex=r"""\text{under silo-specific sample-level privacy with addition/removal notions of DP, the example counts on
            each silo may itself leak sensitive information}""",
        kind="order",
        variables=(
            Variable("n_own", "size", "examples of silo k before one is added", extreme=False),
            Variable("n_rest", "size", "examples of the other silos", extreme=False),
        ),
        examples=({"n_own": 1, "n_rest": 3},),
        printed=lambda: ZERO,
        relation=">=",
        derive=lambda n_own, n_rest: _weights_derive(n_own, n_rest),
        oracle=lambda n_own, n_rest: rational(
            Fraction(int(n_own) + 1, int(n_own) + 1 + int(n_rest)) - Fraction(int(n_own), int(n_own) + int(n_rest))
        ),
        not_computed=Exempt(
            kind="elsewhere", function="estimators.federated.algorithms.basic.averaging", note="weights by rows"
        ),
        not_simulated=Exempt(kind="deterministic"),
        tight=Tight(at={"n_own": 1, "n_rest": 3}, ratio="0"),
        unit="weight",
        remark="""A change without noise is a delta of 1: with weights by counts no eps holds under add-remove, and 'constant
            factors apart' does not apply. Without such weights a guarantee for add-remove at (eps, delta) is one for
            replacement at (2 eps, (1 + e^eps) delta).""",
    )
)  # fmt: skip


# --- Algorithm A2 ----------------------------------------------------------------------------------------------------

MEMBERS = Variable("K_g", "size", "silos in the cluster", low=1, extreme=False)
_ENTRIES = ("weight of w_hat_k", "weight of the cluster's other estimates", "shift by the start")


def _cluster_derive(lam: Any, K_g: Any) -> Derivation:
    d = Derivation()
    own, rest = sp.symbols("w_hat_k w_hat_rest", real=True)
    centroid, model = sp.symbols("w_bar w_mean", real=True)
    d.say("""Line 22 returns the model's distance from the centroid, so that (17) makes the centroid the mean of the members'
        models, whatever it was:""", centroid + (model - centroid))  # fmt: skip
    average = (own + (K_g - 1) * rest) / K_g
    d.say("""At a fixed point of line 21, w_j - w_hat_j + lam (w_j - m) = 0 with m the mean of the members' models; averaged:
        m =""",
          average)  # fmt: skip
    estimate = d.say("so w_k =", (own + lam * average) / (1 + lam))
    weights = tuple(simplest(sp.diff(estimate, s)) for s in (own, rest))
    return d.conclude("Its weights, and what the start leaves:", (*weights, ZERO))


def _cluster_oracle(lam: Any, K_g: Any) -> tuple[Any, Any, Any]:
    """Run one IFCA round and three MR-MTL rounds (one geometric sequence) from an arbitrary centroid."""
    strength = as_fraction(lam)

    def limit(estimates: list[Fraction], centroid: Fraction) -> Fraction:
        updates = [Fraction(j + 1, 3) * (e - centroid) + Fraction(j, 7) for j, e in enumerate(estimates)]
        models = [centroid + u for u in updates]
        centroid += sum(updates, Fraction(0)) / len(updates)
        seen = []
        for _ in range(3):
            steps = [((w - e) + strength * (w - centroid)) / (1 + strength) for w, e in zip(models, estimates, strict=True)]
            models = [w - step for w, step in zip(models, steps, strict=True)]
            centroid += sum((w - centroid for w in models), Fraction(0)) / len(models)  # line 22 and (17)
            seen.append(models[0])
        first, second = seen[1] - seen[0], seen[2] - seen[1]
        return seen[2] if second == 0 else seen[2] - second**2 / (second - first)

    size = int(K_g)
    own, rest = impulses(size) if size > 1 else ([Fraction(1)], [Fraction(0)])
    values = limit(own, Fraction(0)), limit(rest, Fraction(0)), limit([Fraction(0)] * size, Fraction(5))
    return tuple(rational(v) for v in values)


register(
    Claim(
        id="mrmtl:algA2",
        title="Where Algorithm A2 ends",
        place="Appendix D.2, Algorithm A2, lines 8, 13 (16), 21, 24 (17)",
        statement="""After the IFCA rounds every silo's model tends to MR-MTL's estimate (4) within its cluster. Judged with
            full gradient steps.""",
        latex=r"""w_{k}^{(t)}\leftarrow\bar{w}^{(t-1)}_{g^{*}(k)},\quad \bar{w}^{({t})}_{g}=\bar{w}^{({t-1})}_{g}+\frac{1}%
            {|\mathcal{K}_{g}|}\sum_{k\in\mathcal{K}_{g}}\Delta_{k}^{(t)}""",
        kind="algorithm line",
        variables=(LAM, MEMBERS),
        examples=({"lam": 1, "K_g": 4}, {"lam": "1/3", "K_g": 2}),
        printed=lambda lam, K_g: (
            (alpha := (K_g + lam) / ((1 + lam) * K_g)), 1 - alpha, ZERO,
        ),
        derive=_cluster_derive,
        oracle=_cluster_oracle,
        not_computed=Exempt(kind="line"),
        not_simulated=Exempt(kind="deterministic"),
        entries=_ENTRIES,
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        unit="dimensionless",
        related=("mrmtl:lem6.1", "mrmtl:lem6.1:algA1"),
        remark="""Unlike Algorithm A1 it needs no agreement of initial models: line 22 counts from the centroid, line 8 of A1
            from the silo's own last model. Two defects of the box: (16) divides by zero for a cluster that nobody
            selects (keep its centroid), and the heading 'frozen cluster centroids' contradicts (17), which moves them;
            what is frozen is who belongs to which cluster. With centroids really frozen at c the models would end at
            (w_hat_k + lam c)/(1 + lam).""",
    )
)  # fmt: skip

E1 = Variable("E1", "positive", "e^x - 1, where x is the largest change of the log-odds of a selection", extreme=False)
GAIN = Variable("gain", "positive", "exp((order-1) D) - 1 of one DP-SGD step", extreme=False)
WHOLE = Variable("order", "choice", "Renyi order", choices=(2, 3))
SELECTIONS = Variable("T_cluster", "choice", "IFCA rounds", choices=(0, 1, 2))
AFTER = Variable("T_rest", "choice", "MR-MTL rounds", choices=(0, 1, 2))


def _selection(E1: Any) -> tuple[Any, Any]:
    """Probability of the first of two clusters on D and on D': log-odds +-x/2, which scores within one sensitivity give."""
    half = 1 + E1
    return half / (1 + half), 1 / (1 + half)


def _split_derive(E1: Any, gain: Any, order: int, T_cluster: int, T_rest: int) -> Derivation:
    d = Derivation()
    p, q = d.say("Probability that line 6 selects the first of two clusters, on D and on D':", _selection(E1))
    one = d.say(
        "exp((order-1) D) of a selection:", simplest(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order))
    )
    d.say("The DP-SGD step after it has exp((order-1) D) =", 1 + gain)
    d.say("whichever cluster was selected: its noise and clipping do not depend on that. So the moments multiply.")
    return d.conclude("Over all rounds:", one**T_cluster * (1 + gain) ** (T_cluster + T_rest))


def _split_oracle(E1: Any, gain: Any, order: int, T_cluster: int, T_rest: int) -> Any:
    """Sum over all sequences of selections, and over which steps contribute their excess."""
    p, q = 1 - 1 / (2 + E1), 1 / (2 + E1)
    total = ZERO
    for chosen in product((True, False), repeat=T_cluster):
        here = sp.Mul(*[p if c else 1 - p for c in chosen])
        there = sp.Mul(*[q if c else 1 - q for c in chosen])
        total += here * (here / there) ** (order - 1)
    steps = T_cluster + T_rest
    return total * sum(gain ** sum(excess) for excess in product((0, 1), repeat=steps))


def _split_simulate(E1: float, gain: float, order: float, T_cluster: int, T_rest: int) -> simulation.Simulation | None:
    """Selections and DP-SGD steps drawn on D; a step is Gaussian noise of the step's divergence."""
    steps, often = T_cluster + T_rest, (1 + E1) / (2 + E1)
    if steps == 0:
        return None
    shift = np.sqrt(2 * np.log(1 + gain) / (order * (order - 1)))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        chosen = gen.random((reps, T_cluster)) < often
        log_ratio = np.where(chosen, np.log(1 + E1), -np.log(1 + E1)).sum(axis=1)
        noise = gen.standard_normal((reps, steps))
        log_ratio = log_ratio + (shift * noise + shift**2 / 2).sum(axis=1)
        return np.exp((order - 1) * log_ratio)[:, None]

    return simulation.sample_means(draw, labels=["moment of the likelihood ratio"], draws=T_cluster + steps)


register(
    Claim(
        id="mrmtl:algA2:privacy",
        title="Algorithm A2 costs DP-SGD plus the selections",
        place="Appendix D.2, 'Privacy of IFCA Preconditioning'; Algorithm A2, line 6",
        statement="""The steps cost the same whether they are made on cluster models or personalised ones, and the only
            overhead is that of the T_cluster private selections. Judged on two clusters: exp((order-1) D) of all
            releases is the product of those of the selections and of all steps.""",
        latex=r"""\text{IFCA preconditioning introduces privacy overhead in the form of private cluster selection, \dots
            which splits the total privacy budget with DP-SGD}""",
        kind="algorithm line",
        variables=(E1, GAIN, WHOLE, SELECTIONS, AFTER),
        examples=({"E1": 1, "gain": "1/2", "order": 2, "T_cluster": 2, "T_rest": 1},),
        printed=lambda E1, gain, order, T_cluster, T_rest: (
            (((1 + E1) ** (2 * order - 1) + 1) / ((1 + E1) ** (order - 1) * (2 + E1))) ** T_cluster
            * (1 + gain) ** (T_cluster + T_rest)
        ),
        derive=_split_derive,
        oracle=_split_oracle,
        not_computed=Exempt(kind="line"),
        simulate=_split_simulate,
        assumes={"noise": "fresh"},
        unit="dimensionless",
        related=("mrmtl:algA1",),
        remark="""So the divergences add up, and all T rounds must be paid for, clustering rounds twice (selection and
            steps).""",
    )
)  # fmt: skip

__all__ = ["SHIFT"]
