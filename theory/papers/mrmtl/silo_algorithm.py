"""Algorithm A1 among unequal silos: where it ends with silo-specific strengths, and which strengths are best.

Belongs here: the algorithm as Appendix D.1 defines it, whose mean model moves with the silos' models. Does not belong here:
the joint objective (silo_joint.py), Theorem E.5 for a plain mean that stays where it is
(silo_strengths.py), equal strengths (setup.py), what the algorithm costs in privacy (procedures.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational, solve
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Form, Group, best_blend, covariance, mse, posterior, strength
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    AVERAGED,
    ONE,
    SILO,
    UNEQUAL,
    UNEQUAL_ASSUMPTIONS,
    UNEQUAL_EXAMPLES,
    ZERO,
    as_fraction,
    concrete_unequal,
    others,
)

LAM_K = Variable("lam_k", "nonnegative", "regularisation strength of each silo", lengths=(2, 3))
COUNTS = Variable("n_k", "size", "records of each silo, by which line 9 may weigh the updates", lengths=(2, 3))
START = Variable("offset", "real", "initial mean model minus the mean of the initial client models", default=ZERO)


def all_alike(values: Sequence[Any]) -> Any:
    """Condition: all entries are equal."""
    return sp.And(*(sp.Eq(values[0], x) for x in values[1:]))


def alpha(lam: Any, count: int, k: int) -> tuple[Any, ...]:
    """Weights of Lemma 6.1 on all estimates, at the strength of silo k: alpha on its own, the rest evenly."""
    own = (count + lam) / ((1 + lam) * count)
    return tuple(own if j == k else (1 - own) / (count - 1) for j in range(count))


# --- the algorithm: one round as it is written, and where it ends ------------------------------------------------


def _round(models: Sequence[Fraction], bar: Fraction, estimates: Sequence[Fraction], lam_k: Sequence[Fraction],
           shares: Sequence[Fraction]) -> tuple[list[Fraction], Fraction]:  # fmt: skip
    """Lines 3-9 with one full gradient step of size 1/(2 + the largest strength)."""
    step = 1 / (2 + max(lam_k))
    ends = [w - step * ((w - e) + lam * (w - bar)) for w, e, lam in zip(models, estimates, lam_k, strict=True)]
    updates = [new - old for new, old in zip(ends, models, strict=True)]
    return ends, bar + sum((s * u for s, u in zip(shares, updates, strict=True)), Fraction(0))


def _end(estimates: Sequence[Fraction], lam_k: Sequence[Fraction], shares: Sequence[Fraction], offset: Fraction):
    """Where the rounds lead: a round is an affine map of the models, whose fixed point is found from its values."""
    size = len(estimates)

    def after(models: list[Fraction]) -> list[Fraction]:
        def mean(w: Sequence[Fraction]) -> Fraction:
            return sum((s * x for s, x in zip(shares, w, strict=True)), Fraction(0))

        ends, bar = _round(models, mean(models) + offset, estimates, lam_k, shares)
        if bar - mean(ends) != offset:
            raise ArithmeticError("the mean model left the mean of the models")
        return ends

    nothing = after([Fraction(0)] * size)
    moved = [after([Fraction(i == j) for i in range(size)]) for j in range(size)]
    matrix = [[Fraction(i == j) - (moved[j][i] - nothing[i]) for j in range(size)] for i in range(size)]
    return solve(matrix, nothing)


def impulses(count: int) -> list[list[Fraction]]:
    """Estimates that are 1 in one silo and 0 in the others, for every silo."""
    return [[Fraction(i == j) for i in range(count)] for j in range(count)]


def _end_weights(lam_k: Sequence[Any], shares: Sequence[Fraction]) -> list[list[Fraction]]:
    """Weight of estimate j in the model of silo k, [k][j]: one run of the algorithm for every estimate."""
    strengths = [as_fraction(x) for x in lam_k]
    runs = [_end(e, strengths, shares, Fraction(0)) for e in impulses(len(strengths))]
    return [[run[k] for run in runs] for k in range(len(strengths))]


def plain(count: int) -> list[Fraction]:
    """Equal weights."""
    return [Fraction(1, count)] * count


def _say_end(d: Derivation, lam_k: Sequence[Any], shares: Sequence[Any], offset: Any) -> tuple[list[Any], list[Any]]:
    """Models of all silos at the fixed point, and the symbols of the estimates in them."""
    estimates = list(sp.symbols([f"w_hat_{j}" for j in range(len(lam_k))], real=True))
    bar = sp.Symbol("w_bar", real=True)
    d.say("Line 9 adds the mean update to w_bar, so w_bar minus the mean of the models keeps its first value, offset.")
    d.say("At a fixed point every silo's gradient (w_k - w_hat_k) + lam_k (w_k - w_bar) is zero,")
    ends = [(e + lam * bar) / (1 + lam) for e, lam in zip(estimates, lam_k, strict=True)]
    d.say("so the models are", tuple(ends))
    mean = sum(s * w for s, w in zip(shares, ends, strict=True))
    (centre,) = sp.solve(sp.Eq(bar, mean + offset), bar)
    d.say("Their mean plus the offset is w_bar again, which gives w_bar =", simplest(centre))
    return [w.subs(bar, centre) for w in ends], estimates


def _say_row(d: Derivation, lam_k: Sequence[Any], shares: Sequence[Any], offset: Any, k: int) -> tuple[Any, ...]:
    """Weights of all estimates in silo k's model, and what the start leaves there."""
    ends, estimates = _say_end(d, lam_k, shares, offset)
    weights = tuple(simplest(sp.diff(ends[k], e)) for e in estimates)
    return *weights, simplest(ends[k].subs(dict.fromkeys(estimates, ZERO)))


def _silos_derive(lam_k: list[Any], k: int, offset: Any) -> Derivation:
    d = Derivation()
    row = _say_row(d, lam_k, [ONE / len(lam_k)] * len(lam_k), offset, k)
    return d.conclude("Weights of all estimates in silo k's model, then what the start leaves:", row)


def _silos_oracle(lam_k: list[Any], k: int, offset: Any) -> tuple[Any, ...]:
    count = len(lam_k)
    strengths, start = [as_fraction(x) for x in lam_k], as_fraction(offset)
    weights = _end_weights(lam_k, plain(count))[k]
    shift = _end([Fraction(0)] * count, strengths, plain(count), start)[k]
    return tuple(map(rational, (*weights, shift)))


def _silos_computed(lam_k: list[float], k: int, offset: float) -> tuple[float, ...]:
    keep = 1 / (1 + np.asarray(lam_k))
    row = mean_regularized.iterated_weights(lam_k)[k]
    return *row, lam_k[k] * keep[k] * len(lam_k) * offset / keep.sum()


_A1_LATEX = r"""\nabla_{w_{k}^{(t)}}\left[\ell\left(w_{k}^{(t)},x,y\right)+\frac{\lambda}{2}\left\|w_{k}^{(t)}-%
    \bar{w}^{(t-1)}\right\|_{2}^{2}\right],\quad \bar{w}^{({t})}=\bar{w}^{({t-1})}+\frac{1}{K}\sum_{k=1}^{K}%
    \Delta_{k}^{(t)}"""

register(
    Claim(
        id="mrmtl:algA1:silos",
        title="Where Algorithm A1 ends with silo-specific strengths",
        place="Appendix E.5, (48), with Appendix D.1, Algorithm A1",
        statement="""(48) gives silo k's model the weight alpha of Lemma 6.1 at its own lam_k: it pulls it to the uniform
            mean of all estimates. Judged: the weights of all estimates where Algorithm A1 ends, every silo at its own
            lam_k.""",
        latex=_A1_LATEX,
        kind="algorithm line",
        variables=(LAM_K, SILO, START),
        examples=(
            {"lam_k": [1, 1, 1], "k": 0},
            {"lam_k": [2, 2], "k": 1},
            {"lam_k": [0, 1, 3], "k": 1},
        ),
        printed=lambda lam_k, k: (*alpha(lam_k[k], len(lam_k), k), ZERO),
        derive=_silos_derive,
        oracle=_silos_oracle,
        computed=_silos_computed,
        condition=lambda lam_k, offset: sp.And(all_alike(lam_k), sp.Eq(offset, 0)),
        condition_text="all silos have the same strength, and the initial mean model is the mean of the initial models",
        counterexample={"lam_k": [0, 1], "k": 1},
        corrected=lambda lam_k, k, offset: (
            *(
                (ONE if j == k else ZERO) / (1 + lam_k[k])
                + lam_k[k] / (1 + lam_k[k]) / (1 + lam_k[j]) / sum(1 / (1 + x) for x in lam_k)
                for j in range(len(lam_k))
            ),
            lam_k[k] / (1 + lam_k[k]) * len(lam_k) * offset / sum(1 / (1 + x) for x in lam_k),
        ),
        corrected_text="""(w_hat_k + lam_k m)/(1 + lam_k), m the average of the w_hat_j with weights proportional to 1/(1 +
            lam_j), plus lam_k/(1 + lam_k) K offset/sum_j 1/(1 + lam_j)""",
        not_simulated=Exempt(kind="deterministic"),
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        edits=(
            Edit(
                printed=r"\frac{\lambda}{2}",
                read=r"\frac{\lambda_{k}}{2}",
                reason="Theorem E.5 lets each silo have its own strength",
            ),
        ),
        unit="dimensionless; the last entry in units of the estimate",
        related=("mrmtl:lem6.1:algA1", "mrmtl:thmE.5", "mrmtl:thmE.5:algA1"),
        remark="""A silo with a large lam_j follows the mean and adds little to it. A silo with lam_k = 0 is its own estimate
            whatever the others do. The rounds converge for steps below 2/(1 + the largest strength). Verified for 2 and
            3 silos.""",
    )
)


def _counts_derive(lam: Any, n_k: list[Any], k: int) -> Derivation:
    d = Derivation()
    d.say("Line 9 weighs update j by n_j over all counts; so the mean that w_bar keeps up with is weighted in the same way.")
    row = _say_row(d, [lam] * len(n_k), [n / sum(n_k) for n in n_k], ZERO, k)
    return d.conclude("Weights of all estimates in silo k's model:", row[:-1])


def _counts_oracle(lam: Any, n_k: list[Any], k: int) -> tuple[Any, ...]:
    shares = [Fraction(int(n), int(sum(n_k))) for n in n_k]
    return tuple(map(rational, _end_weights([lam] * len(n_k), shares)[k]))


register(
    Claim(
        id="mrmtl:algA1:counts",
        title="Where Algorithm A1 ends with updates weighted by example counts",
        place="Appendix D.1, Algorithm A1, line 9, and 'Weighted vs Unweighted Model Updates', with Lemma 6.1, (4)",
        statement="""Line 9 may weigh the updates by client example counts, as the paper's experiments do. Judged: with one
            strength for all silos the algorithm still ends at the estimate (4).""",
        latex=r"""\bar{w}^{({t})}=\bar{w}^{({t-1})}+\frac{1}{K}\sum_{k=1}^{K}\Delta_{k}^{(t)}\ \text{(may weigh }%
            \Delta_{k}^{(t)}\text{ by client example counts)}""",
        kind="algorithm line",
        variables=(model.LAM, COUNTS, SILO),
        examples=(
            {"lam": 1, "n_k": [4, 4, 4], "k": 0},
            {"lam": "1/2", "n_k": [3, 3], "k": 1},
            {"lam": 2, "n_k": [1, 5, 2], "k": 2},
        ),
        printed=lambda lam, n_k, k: alpha(lam, len(n_k), k),
        derive=_counts_derive,
        oracle=_counts_oracle,
        computed=lambda lam, n_k, k: tuple(mean_regularized.iterated_weights([lam] * len(n_k), counts=n_k)[k]),
        condition=lambda n_k: all_alike(n_k),
        condition_text="all silos have the same number of records",
        counterexample={"lam": 1, "n_k": [1, 2], "k": 0},
        corrected=lambda lam, n_k, k: tuple(
            ((1 if j == k else 0) + lam * n / sum(n_k)) / (1 + lam) for j, n in enumerate(n_k)
        ),
        corrected_text="(w_hat_k + lam m)/(1 + lam), m the average of the w_hat_j with weights n_j over their sum",
        not_simulated=Exempt(kind="deterministic"),
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        unit="dimensionless",
        related=("mrmtl:lem6.1:algA1", "mrmtl:algA1:weights"),
        remark="""Section 6 and Appendix E.4 have silos of one size, where it makes no difference; Table A1's silos differ by
            factors of up to 60 (ADNI). Verified for 2 and 3 silos.""",
    )
)


# --- the best strengths -----------------------------------------------------------------------------------------


def groups_of(sigma2_loc_k: Sequence[Any], tau2: Any) -> list[Group]:
    """Each silo as a group of its own, with its local variance."""
    return [Group(f"silo {j}", ONE, tau2, s, ZERO) for j, s in enumerate(sigma2_loc_k)]


def _strengths_printed(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    own, rest, count = sigma2_loc_k[k], others(sigma2_loc_k, k), len(sigma2_loc_k)
    return own / (tau2 + sp.Rational(1, count) * (sum(rest) / sp.Integer(count - 1) - own))


def _strengths_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    spread = [tau2 + s for s in sigma2_loc_k]
    groups = groups_of(sigma2_loc_k, tau2)
    d.say("Given theta, w_k is off theta by a share of w_hat_k - theta; best shares a_j:", tuple(tau2 / v for v in spread))
    centre = posterior(CENTRE, [g.messages() for g in groups])
    d.say("Given all estimates theta has the mean m with weights", centre.weights)
    d.say("so that the best estimate of w_k from all of them is m + a_k (w_hat_k - m).")
    shares = sp.symbols([f"b_{j}" for j in range(len(spread))], positive=True)
    d.say("""Algorithm A1 ends at m' + b_k (w_hat_k - m'), b_k = 1/(1 + lam_k), m' weighted by b_j (mrmtl:algA1:silos). In it
        w_hat_k has the weight b_k + (1 - b_k) b_k/sum_j b_j; the others share the rest in proportion to
        b_j.""")  # fmt: skip
    own = [b + (1 - b) * b / sum(shares) for b in shares]
    best = [posterior(g.parameters(), [h.messages() for h in groups]).weights for g in groups]
    d.say("The best estimate gives w_hat_k the weight", best[k][k])
    if len(groups) > 2:
        d.say("and the others theirs in proportion to their precisions. So in every silo's model: all b_j are c times",
              tuple(1 / v for v in spread))  # fmt: skip
        c = sp.Symbol("c", positive=True)
        gap = sp.together(own[k].subs({b: c / v for b, v in zip(shares, spread, strict=True)}) - best[k][k])
        (root,) = sp.solve(sp.cancel(sp.numer(gap) / c), c)
        share = d.say("Equal own weights need b_k =", simplest(root / spread[k]))
    else:
        equations = [sp.numer(sp.together(x - y[j])) for j, (x, y) in enumerate(zip(own, best, strict=True))]
        (roots,) = sp.solve(equations, shares, dict=True)
        share = d.say("Equal own weights in both silos need b_k =", simplest(roots[shares[k]]))
    return d.conclude("With lam_k = 1/b_k - 1:", simplest(1 / share - 1))


def _bayes_rows(sigma2_loc_k: Sequence[Any], tau2: Any) -> list[list[Fraction]]:
    clients = concrete_unequal(sigma2_loc_k, tau2)
    return [clients.posterior(w, clients.message)[0] for w in clients.parameter]


def _strengths_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    """Read the strengths off the best estimates' weights, and run the algorithm with them."""
    rows, count = _bayes_rows(sigma2_loc_k, tau2), len(sigma2_loc_k)
    if tau2 == 0:
        return sp.oo  # all models are the mean
    means = [sum(row[j] for row in rows) / count for j in range(count)]
    kept = [(rows[j][j] - means[j]) / (1 - means[j]) for j in range(count)]
    strengths = [1 / a - 1 for a in kept]
    if _end_weights(list(map(rational, strengths)), plain(count)) != rows:
        raise ArithmeticError("the algorithm does not end at the best estimates")
    return rational(strengths[k])


def _strengths_objective(x: Any, sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    """Risk of silo k in Algorithm A1 at its strength x, the other silos at theirs."""
    kept = [1 / (1 + (x if j == k else s / tau2)) for j, s in enumerate(sigma2_loc_k)]
    groups = groups_of(sigma2_loc_k, tau2)
    centre = sum(((a / sum(kept)) * g.messages() for a, g in zip(kept, groups, strict=True)), Form(ZERO))
    error = kept[k] * groups[k].messages() + (1 - kept[k]) * centre - groups[k].parameters()
    return covariance(error, error)


def _strengths_simulate(sigma2_loc_k: list[float], tau2: float, k: int) -> simulation.Simulation:
    # The best weight r on w_hat_k against the others' average, weighted by their 1/(1 + lam_j), is A1's at
    # lam_k = (1 - r)/r (1 + B)/B, with B the sum of the others' 1/(1 + lam_j).
    kept = np.array([0.0 if j == k else tau2 / (tau2 + s) for j, s in enumerate(sigma2_loc_k)])
    fed, total = model.local_silos(tau2, sigma2_loc_k), kept.sum()
    rest, own = simulation.vector(1, a0=1.0), simulation.vector(1, p=1.0, e=1.0, l=1.0)
    target = simulation.vector(1, p=1.0)
    spread = fed.message_variances
    size = spread[k] + float(np.sum((kept / total) ** 2 * spread))
    pairs = [(target - rest, own - rest), (own - rest, own - rest)]
    return simulation.Simulation(
        simulation.mean_products(fed, k, kept / total, pairs).experiment,
        (simulation.Ratio("strength of the best weight", [-(1 + total), 1 + total], [total, 0.0], total * size),),
    )


register(
    Claim(
        id="mrmtl:thmE.5:algA1",
        title="Optimal strengths in Algorithm A1",
        place="Appendix E.5, Theorem E.5, (47), with Appendix D.1, Algorithm A1",
        statement="The strengths with which MR-MTL, run as Algorithm A1, ends at the best estimate in every silo: (47).",
        latex=r"""\lambda^{*}_{k}=\dfrac{\tilde{\sigma}_{k}^{2}}{\tau^{2}+\dfrac{1}{K}\left(%
            \dfrac{\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}{K-1}-\tilde{\sigma}_{k}^{2}\right)}""",
        kind="optimum",
        variables=UNEQUAL,
        examples=UNEQUAL_EXAMPLES,
        printed=_strengths_printed,
        derive=_strengths_derive,
        oracle=_strengths_oracle,
        computed=lambda sigma2_loc_k, tau2, k: mean_regularized.strength(sigma2_loc_k[k], tau2),
        simulate=_strengths_simulate,
        objective=_strengths_objective,
        counterexample={"sigma2_loc_k": [1, 2], "tau2": 1, "k": 0},
        corrected=lambda sigma2_loc_k, tau2, k: sigma2_loc_k[k] / tau2,
        corrected_text="sigma2_loc_k/tau2, Theorem 6.3 with the silo's own local variance",
        assumes={**AVERAGED, "pivot": "model"},
        finding="""Run as Algorithm A1 the printed strengths are not optimal; each silo's own variance over that of the
            centres is, and needs nothing of the other silos.""",
        unit="dimensionless",
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5", "mrmtl:algA1:silos", "mrmtl:algA1:bayes", "mrmtl:mmse:strength"),
        remark="""(47) is right for a w_bar that stays the uniform mean of the estimates (mrmtl:thmE.5). In the algorithm
            w_bar is the mean of the models, which weighs a silo by 1/(1 + lam_j); with these strengths that is
            proportional to its precision around theta. So each silo needs its own local variance and tau2 and nothing of
            the others, the server averages uniformly and needs neither, no strength is negative, and no other strengths
            do it. (47) asks every silo for the mean of the others' local variances. Given the others' strengths, no silo
            gains by another one of its own. For tau2 = 0 it is a limit, as with lam = inf everywhere no model moves.
            Verified for 2 and 3 silos.""",
        model=("Attains",),
    )
)


# --- what the printed strengths reach ---------------------------------------------------------------------------

QUIETER = Variable("sigma2_low", "positive", "local variance of the quieter of two silos")
LOUDER = Variable("more", "nonnegative", "by how much the other silo's local variance is larger")
SLACK = Variable("slack", "positive", "tau2 minus more/2, so that both printed strengths are finite and positive")
WHICH = Variable("k", "choice", "0: the quieter silo; 1: the other", choices=(0, 1))


def _reached_derive(sigma2_low: Any, more: Any, slack: Any, k: int) -> Derivation:
    d = Derivation()
    variances, tau2 = [sigma2_low, sigma2_low + more], more / 2 + slack
    strengths = []
    for j in (0, 1):
        silos = model.unequal_silos(variances, tau2, j)
        u, _ = best_blend(silos.target, silos.local, silos.mean)
        strengths.append(d.say(f"Best strength of silo {j} towards the uniform mean of the estimates:", strength(u)))
    weights = d.lemma("mrmtl:algA1:silos", "with these the algorithm ends at the weights", lam_k=strengths, k=k)[:-1]
    groups = groups_of(variances, tau2)
    end = sum((w * g.messages() for w, g in zip(weights, groups, strict=True)), Form(ZERO))
    error = d.say("Its error:", sp.factor(mse(end - groups[k].parameters())))
    promised = d.lemma("mrmtl:lemE.4:var", "the best of both estimates has", sigma2_loc_k=variances, tau2=tau2, k=k)
    return d.conclude("The algorithm's error exceeds it by", sp.factor(sp.cancel(sp.together(error - promised))))


def _reached_oracle(sigma2_low: Any, more: Any, slack: Any, k: int) -> Any:
    clients = concrete_unequal([sigma2_low, sigma2_low + more], more / 2 + slack)
    strengths = [model.concrete_optimum(clients, j)[0] for j in (0, 1)]
    end = clients.weighted(_end_weights(strengths, plain(2))[k], clients.message)
    target = clients.parameter[k]
    return rational(clients.mse(end, target) - clients.posterior(target, clients.message)[1])


def _reached_simulate(sigma2_low: float, more: float, slack: float, k: int) -> simulation.Simulation:
    variances, tau2 = [sigma2_low, sigma2_low + more], more / 2 + slack
    lam = [s / (tau2 + (other - s) / 2) for s, other in zip(variances, variances[::-1], strict=True)]
    rows = [mean_regularized.iterated_weights(lam)[k], mean_regularized.silo_mmse_weights(k, variances, tau2)]
    used, best = (simulation.vector(2, p=-1.0, **{name: 1.0}) for name in ("a0", "a1"))
    risk = 1 / (1 / variances[k] + 1 / (2 * tau2 + variances[1 - k]))
    return simulation.excess_over_bayes(model.local_silos(tau2, variances), k, rows, used, best, risk)


register(
    Claim(
        id="mrmtl:thmE.5:algA1:error",
        title="What Algorithm A1 loses at the printed strengths",
        place="Appendix E.5, Lemma E.4 and Theorem E.5, (45), (47), (48), with Appendix D.1, Algorithm A1",
        statement="""With the strengths (47) in every silo, MR-MTL's estimate is matched by (48) to the best one, whose error
            is (45). Judged for two silos: where Algorithm A1 ends, its error exceeds (45) by 0.""",
        latex=r"\frac{K+\lambda^{*}_{k}}{(1+\lambda^{*}_{k})K}=\frac{\bar{\sigma}_{k}^{2}}{\tilde{\sigma}_{k}^{2}}",
        kind="optimum",
        variables=(QUIETER, LOUDER, SLACK, WHICH),
        examples=(
            {"sigma2_low": 1, "more": 8, "slack": "1/10", "k": 1},
            {"sigma2_low": 2, "more": 8, "slack": "1/10", "k": 0},
        ),
        printed=lambda: ZERO,
        derive=_reached_derive,
        oracle=_reached_oracle,
        counterexample={"sigma2_low": 1, "more": 2, "slack": 1, "k": 0},
        corrected=lambda sigma2_low, more, slack, k: (
            more**2
            * (sigma2_low + k * more) ** 2
            / (8 * (more / 2 + slack) ** 2 * (more / 2 + slack + sigma2_low + more / 2))
        ),
        corrected_text="(s_1 - s_2)^2 s_k^2/(8 tau2^2 (tau2 + (s_1 + s_2)/2)), s_1 and s_2 the local variances",
        finding="""Run as Algorithm A1 with the printed strengths, silos of unequal variance end beside the estimate that
            these strengths are matched to.""",
        not_computed=Exempt(kind="difference", of=("mrmtl:algA1:silos", "mrmtl:lemE.4:var")),
        simulate=_reached_simulate,
        unit="variance",
        assumes={**AVERAGED, "pivot": "model"},
        although={"mrmtl:lemE.4:var": "the variance given the messages is the same for all of them"},
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5:algA1", "mrmtl:algA1:silos", "mrmtl:lemE.4:var", "mrmtl:thmE.5"),
        remark="""tau2 is more/2 + slack, so that both printed strengths are finite. For two silos (45) is the least error
            there is, which the algorithm reaches with sigma2_loc_k/tau2 (mrmtl:algA1:bayes).""",
        model=("Value(Personal, Optimum)",),
    )
)


def _bayes_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    strengths = d.say("Strengths:", tuple(s / tau2 for s in sigma2_loc_k))
    weights = d.lemma("mrmtl:algA1:silos", "the algorithm ends at the weights", lam_k=list(strengths), k=k)[:-1]
    groups = groups_of(sigma2_loc_k, tau2)
    end = sum((w * g.messages() for w, g in zip(weights, groups, strict=True)), Form(ZERO))
    error = d.say("Its error:", mse(end - groups[k].parameters()))
    least = d.lemma("mrmtl:thmE.5:bayes", "the least is", sigma2_loc_k=sigma2_loc_k, tau2=tau2, k=k)
    return d.conclude("Difference:", sp.cancel(sp.together(error - least)))


def _bayes_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients = concrete_unequal(sigma2_loc_k, tau2)
    if tau2 == 0:  # the limit of the algorithm's end: weights proportional to 1/lam_j
        precisions = [1 / as_fraction(s) for s in sigma2_loc_k]
        row = [p / sum(precisions) for p in precisions]
    else:
        row = _end_weights([s / tau2 for s in sigma2_loc_k], plain(len(sigma2_loc_k)))[k]
    end = clients.weighted(row, clients.message)
    target = clients.parameter[k]
    return rational(clients.mse(end, target) - clients.posterior(target, clients.message)[1])


def _iterated_row(sigma2_loc_k: list[float], tau2: float, k: int) -> np.ndarray:
    return mean_regularized.iterated_weights([s / tau2 for s in sigma2_loc_k])[k]


register(
    Claim(
        id="mrmtl:algA1:bayes",
        title="Algorithm A1 at sigma2_loc_k/tau2 is the MMSE estimate of every silo",
        place="Appendix E.5, completed; not in the paper",
        statement="""With lam_k = sigma2_loc_k/tau2 in silo k, Algorithm A1 ends in every silo at the posterior mean of w_k
            given all the private estimates: its error exceeds the Bayes error by 0, however unequal the silos.""",
        latex=r"\lambda_k=\tilde\sigma_k^2/\tau^2\ \Rightarrow\ w_k^{(T)}\to\mathbb E[w_k\mid\hat w_1,\ldots,\hat w_K]",
        kind="identity",
        variables=UNEQUAL,
        examples=UNEQUAL_EXAMPLES,
        printed=lambda: ZERO,
        derive=_bayes_derive,
        oracle=_bayes_oracle,
        not_computed=Exempt(kind="difference", of=("mrmtl:algA1:silos", "mrmtl:thmE.5:bayes")),
        simulate=lambda sigma2_loc_k, tau2, k: simulation.mean_squares(
            model.local_silos(tau2, sigma2_loc_k),
            k,
            _iterated_row(sigma2_loc_k, tau2, k),
            [simulation.vector(1, p=-1.0, a0=1.0)],
            ["error, against the Bayes error"],
            of=[lambda excess: mean_regularized.silo_mmse(k, sigma2_loc_k, tau2) + excess],
            scales=[mean_regularized.silo_mmse(k, sigma2_loc_k, tau2)],
        ),
        ours=True,
        assumes={**AVERAGED, "pivot": "model"},
        unit="variance",
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5:algA1", "mrmtl:mmse", "mrmtl:eq18:loss"),
        remark="""mrmtl:mmse needs a server that knows every silo's local variance; here no one does: the iteration weighs
            the silos by itself. Where tau2 = 0, in the limit. Verified for 2 and 3 silos.""",
        model=("AttainsMixed",),
    )
)
