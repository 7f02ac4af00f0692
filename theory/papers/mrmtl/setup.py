"""Section 6, set-up: local variance, minimiser of the mean-regularised objective, the best lam in training.

Belongs here: claims up to Lemma 6.1, and Algorithm A1 (Appendix D). Does not belong here: estimates' errors.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from estimators.numerics import limits
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import Clients, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, Group, best_blend, covariance, mse, strength
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    ANY_K,
    ASSUMPTIONS,
    AVERAGED,
    LAM,
    ONE,
    RECORDS,
    SIGMA2,
    SIGMA2_DP,
    TAU2,
    ZERO,
    K,
    equal_silos,
)

# --- (5) ----------------------------------------------------------------------------------------------------


def _eq5_derive(n: Any, sigma2: Any, sigma2_dp: Any) -> Derivation:
    d = Derivation()
    records = Group("records", n, ZERO, sigma2, ZERO)
    noise = Group("privacy noise", ONE, ZERO, ZERO, sigma2_dp)
    d.say("w_hat_k = (xi_k + sum_i x_ki)/n with x_ki = w_k + z_ki, Var z = sigma2, Var xi_k = sigma2_dp.")
    error = (1 / n) * (records.estimates() + noise.noise("l")) - CENTRE
    d.say("Around w_k it is off by (xi_k + sum_i z_ki)/n: n + 1 independent terms.")
    return d.conclude("Their variances add up to", mse(error))


def _eq5_oracle(n: Any, sigma2: Any, sigma2_dp: Any) -> Any:
    size = int(n)
    records = Clients([0] * size, [sigma2] * size, [sigma2_dp] + [0] * (size - 1))
    return rational(records.mse(model.plain_mean(records), records.centre))


register(
    Claim(
        id="mrmtl:eq5",
        title="Local variance of a private mean",
        place="Section 6, (5)",
        statement="Variance of the silo's private estimate w_hat_k around its centre w_k.",
        latex=r"\sigma_{\mathrm{loc}}^{2}\triangleq\frac{\sigma^{2}}{n}+\frac{\sigma_{\mathrm{DP}}^{2}}{n^{2}}",
        kind="identity",
        variables=(RECORDS, SIGMA2, SIGMA2_DP),
        examples=({"n": 2, "sigma2": 1, "sigma2_dp": 2}, {"n": 10, "sigma2": 4, "sigma2_dp": 20}),
        printed=lambda n, sigma2, sigma2_dp: sigma2 / n + sigma2_dp / n**2,
        derive=_eq5_derive,
        oracle=_eq5_oracle,
        computed=mean_regularized.local_variance,
        simulate=lambda n, sigma2, sigma2_dp: simulation.mean_squares(
            model.raw_silos(0.0, [sigma2] * n, [sigma2_dp] + [0.0] * (n - 1)), 0, np.full(n, 1 / n),
            [simulation.vector(1, a0=1.0)], ["variance of w_hat_k"],
        ),
        assumes={"noise": "reused", "clipping": "none", "given": "nothing", "law": "moments"},
        unit="variance",
        assumptions=ASSUMPTIONS[:1],
        model=("Value(Server)",),
    )
)  # fmt: skip


# --- Lemma 6.1 ----------------------------------------------------------------------------------------------

OFFSET = Variable("offset", "real", "initial mean model minus the mean of the initial client models", default=ZERO)
_ESTIMATES = sp.symbols("w_hat_k w_hat_rest", real=True)
_WEIGHTS = ("weight of w_hat_k", "weight of w_hat_rest")
_STRENGTHS = ({"lam": 1, "K": 4}, {"lam": "1/3", "K": 3})
_LEMMA61_LATEX = r"""\hat{w}_{k}(\lambda)=\alpha\cdot\hat{w}_{k}+(1-\alpha)\cdot\hat{w}_{\setminus k},\quad
    \alpha=\frac{K+\lambda}{(1+\lambda)K}\in(1/K,1]"""


def _alpha_printed(lam: Any, K: Any) -> tuple[Any, Any]:
    alpha = (K + lam) / ((1 + lam) * K)
    return alpha, 1 - alpha


def _weights_computed(lam: float, K: float) -> tuple[float, float]:
    # 1 - alpha would lose the digits of a small lam
    return mean_regularized.own_weight(lam, K), limits.split(lam)[1] * (1 - 1 / K)


def _coefficients(estimate: Any) -> tuple[Any, ...]:
    return tuple(simplest(sp.diff(estimate, s)) for s in _ESTIMATES)


def _loss(w: Any, own: Any, mean: Any, lam: Any) -> Any:
    """h_k at w for the estimate `own` and the pivot `mean`."""
    return (w - own) ** 2 / 2 + lam / 2 * (w - mean) ** 2


def _say_minimiser(d: Derivation, lam: Any, K: Any) -> tuple[Any, Any]:
    own, rest = _ESTIMATES
    w = sp.Symbol("w", real=True)
    mean = d.say("The mean of all local estimates is w_bar =", (own + (K - 1) * rest) / K)
    objective = d.say("Objective of silo k, h_k(w) =", _loss(w, own, mean, lam))
    d.say("is a strictly convex quadratic with derivative", sp.diff(objective, w))
    estimate = d.say("which vanishes at w =", stationary_point(objective, w))
    return _coefficients(estimate)


def _lemma61_derive(lam: Any, K: Any) -> Derivation:
    d = Derivation()
    return d.conclude("Its coefficients on w_hat_k and w_hat_rest:", _say_minimiser(d, lam, K))


def _lemma61_objective(x: tuple[Any, Any], lam: Any, K: Any) -> Any:
    """h_k for the estimates (1, 0) plus h_k for (0, 1); the minimiser is linear in them, so these are its weights."""

    return _loss(x[0], 1, sp.Integer(1) / K, lam) + _loss(x[1], 0, (K - 1) / K, lam)


def _lemma61_oracle(lam: Any, K: Any) -> tuple[Any, ...]:
    strength_ = model.as_fraction(lam)

    def minimiser(estimates: list[Fraction]) -> Fraction:
        mean = sum(estimates) / len(estimates)
        return model.minimise(lambda w: (w[0] - estimates[0]) ** 2 / 2 + strength_ / 2 * (w[0] - mean) ** 2, 1)[0]

    return tuple(rational(minimiser(e)) for e in model.impulses(K))


register(
    Claim(
        id="mrmtl:lem6.1",
        title="Minimiser of the mean-regularised objective",
        place="Section 6, Lemma 6.1, (4); Appendix E.4, (20)-(22)",
        statement="""With w_bar the mean of the local estimates, the minimiser of h_k puts the weight alpha on the silo's own
            estimate and 1 - alpha on the average of the others.""",
        latex=_LEMMA61_LATEX,
        kind="optimum",
        variables=(LAM, K),
        examples=_STRENGTHS,
        printed=_alpha_printed,
        derive=_lemma61_derive,
        objective=_lemma61_objective,
        decision="real",
        oracle=_lemma61_oracle,
        computed=_weights_computed,
        not_simulated=Exempt(kind="deterministic"),
        entries=_WEIGHTS,
        assumes={"pivot": "mean", "own_noise": "in", "noise": "reused", "clipping": "none"},
        unit="dimensionless",
        remark="(3) takes w_bar as the mean of the local estimates; (18) as the mean of the models: mrmtl:lem6.1:joint.",
    )
)


def _range_derive(lam: Any, K: Any) -> Derivation:
    d = Derivation()
    alpha, _ = d.lemma("mrmtl:lem6.1", "alpha and 1 - alpha are", lam=lam, K=K)
    return d.conclude("alpha - 1/K and 1 - alpha:", (simplest(alpha - 1 / K), simplest(1 - alpha)))


def _range_oracle(lam: Any, K: Any) -> tuple[Any, Any]:
    alpha = _lemma61_oracle(lam, K)[0]
    return alpha - 1 / K, 1 - alpha


register(
    Claim(
        id="mrmtl:lem6.1:range",
        title="Range of the own weight alpha",
        place="Section 6, Lemma 6.1",
        statement="alpha lies in (1/K, 1]. Judged: alpha - 1/K and 1 - alpha are at least 0.",
        latex=r"\alpha=\frac{K+\lambda}{(1+\lambda)K}\in(1/K,1]",
        kind="order",
        variables=(LAM, K),
        examples=_STRENGTHS,
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_range_derive,
        oracle=_range_oracle,
        shifts=lambda K, **_: {K: 1 + sp.Symbol("others", nonnegative=True)},
        not_computed=Exempt(kind="part", of=("mrmtl:lem6.1",)),
        not_simulated=Exempt(kind="deterministic"),
        entries=("alpha - 1/K", "1 - alpha"),
        assumes={"pivot": "mean", "own_noise": "in", "noise": "reused", "clipping": "none"},
        tight=Tight(at={"lam": "inf", "K": 4}),
        edits=(
            Edit(
                printed=r"(1/K,1]",
                read=r"[1/K,1]",
                reason="lam = inf, where alpha is 1/K, is part of the domain; for finite lam the end is not reached",
            ),
        ),
        unit="dimensionless",
        remark="""alpha - 1/K = (1 - 1/K)/(1 + lam) is positive for every finite lam; 1/K, the weight of FedAvg, is reached
            only in the limit.""",
    )
)


def _total_loss(w: Any, v: Any, own: Any, rest: Any, lam: Any, K: Any) -> Any:
    """Sum of all h_j where the pivot is the mean of the models: w of one silo, v of the K - 1 others."""
    mean = (w + (K - 1) * v) / K
    return _loss(w, own, mean, lam) + (K - 1) * _loss(v, rest, mean, lam)


def _joint_derive(lam: Any, K: Any) -> Derivation:
    d = Derivation()
    own, rest = _ESTIMATES
    w, v = sp.symbols("w_k w_j", real=True)
    d.say("""(18): all models are chosen together and w_bar is their own mean. The objective is a strictly convex quadratic,
        so its minimiser is linear in the estimates and treats the other silos alike; let these have equal
        estimates w_hat_rest, hence equal models w_j.""")  # fmt: skip
    total = d.say("The sum of the h_k is", _total_loss(w, v, own, rest, lam, K))
    slopes = [simplest(sp.diff(total, x)) for x in (w, v)]
    d.say("Its derivatives by w_k and by the common w_j:", tuple(slopes))
    solution = sp.solve(slopes, (w, v), dict=True)[0]
    estimate = d.say("vanish together at w_k =", simplest(solution[w]))
    d.say("""The deviations from w_bar add to zero, so that moving w_bar with the models changes nothing to first order; that
        is why the answer is that of a fixed w_bar.""")  # fmt: skip
    return d.conclude("Its coefficients on w_hat_k and w_hat_rest:", _coefficients(estimate))


def _joint_objective(x: tuple[Any, Any], lam: Any, K: Any) -> Any:
    """Least sum of all h_j over the other silos' common model, for the estimates (1, 0) plus that for (0, 1)."""

    def least(w: Any, own: Any, rest: Any) -> Any:
        v = sp.Dummy("v", real=True)
        total = _total_loss(w, v, own, rest, lam, K)
        return total.subs(v, stationary_point(total, v))

    return least(x[0], 1, 0) + least(x[1], 0, 1)


def _joint_oracle(lam: Any, K: Any) -> tuple[Any, ...]:
    strength_ = model.as_fraction(lam)

    def minimiser(estimates: list[Fraction]) -> Fraction:
        def total(w: list[Fraction]) -> Fraction:
            mean = sum(w) / len(w)
            return sum(
                ((x - e) ** 2 / 2 + strength_ / 2 * (x - mean) ** 2 for x, e in zip(w, estimates, strict=True)),
                Fraction(0),
            )

        return model.minimise(total, len(estimates))[0]

    return tuple(rational(minimiser(e)) for e in model.impulses(K))


register(
    Claim(
        id="mrmtl:lem6.1:joint",
        title="The joint minimiser is the same",
        place="Appendix E.2, (18), with Appendix E.4, Lemma 6.1, (20)",
        statement="""With w_bar the mean of the personalised models, all of them minimised together, each silo's model is
            still (4).""",
        latex=r"""\underset{w_{k},k\in[K]}{\min}\frac{1}{K}\sum_{k=1}^{K}h_{k}(w_{k})\quad\text{with}\quad
            h_{k}(w)\triangleq F_{k}(w)+\frac{\lambda}{2}\|w-\bar{w}\|_{2}^{2},\ \bar{w}\triangleq\frac{1}{K}%
            \sum_{k=1}^{K}w_{k}""",
        kind="optimum",
        variables=(LAM, K),
        examples=_STRENGTHS,
        printed=_alpha_printed,
        derive=_joint_derive,
        objective=_joint_objective,
        decision="real",
        oracle=_joint_oracle,
        computed=_weights_computed,
        not_simulated=Exempt(kind="deterministic"),
        entries=_WEIGHTS,
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        unit="dimensionless",
        related=("mrmtl:lem6.1",),
    )
)


def _algorithm_derive(lam: Any, K: Any, offset: Any) -> Derivation:
    d = Derivation()
    own, rest = _ESTIMATES
    bar, mean = sp.symbols("w_bar m", real=True)
    d.say("""Line 9 adds the mean of the updates to w_bar, so w_bar minus the mean m of the client models never changes:
        w_bar = m + offset, with the offset of the start.""")  # fmt: skip
    d.say("At a fixed point of line 6 the gradient (w_j - w_hat_j) + lam (w_j - w_bar) of every silo is zero,")
    local = d.say("so w_k =", (own + lam * bar) / (1 + lam))
    average = (own + (K - 1) * rest) / K
    d.say("Averaged over the silos this reads m =", (average + lam * bar) / (1 + lam))
    solution = sp.solve([bar - mean - offset, mean - (average + lam * bar) / (1 + lam)], (bar, mean), dict=True)[0]
    d.say("With w_bar = m + offset: w_bar =", simplest(solution[bar]))
    estimate = d.say("and w_k =", simplest(local.subs(bar, solution[bar])))
    weights = _coefficients(estimate)
    shift = simplest(estimate.subs(dict.fromkeys(_ESTIMATES, 0)))
    return d.conclude("Its coefficients on w_hat_k and w_hat_rest, and what the start leaves:", (*weights, shift))


def _algorithm_oracle(lam: Any, K: Any, offset: Any) -> tuple[Any, Any, Any]:
    """Run the algorithm with step 1/(1 + lam); from round 1 on its iterates are one geometric sequence."""
    strength_, start = model.as_fraction(lam), model.as_fraction(offset)

    def limit(estimates: list[Fraction], shifted: bool) -> Fraction:
        models = [Fraction(j * j) for j in range(len(estimates))]
        bar = sum(models) / len(models) + (start if shifted else 0)
        seen = []
        for _ in range(3):
            step = 1 / (1 + strength_)
            updates = [-step * ((w - e) + strength_ * (w - bar)) for w, e in zip(models, estimates, strict=True)]
            models = [w + u for w, u in zip(models, updates, strict=True)]
            bar += sum(updates) / len(updates)
            seen.append(models[0])
        first, second = seen[1] - seen[0], seen[2] - seen[1]
        return seen[2] if second == 0 else seen[2] - second**2 / (second - first)

    own, rest = model.impulses(K)
    nothing = [Fraction(0)] * int(K)
    return tuple(rational(limit(e, s)) for e, s in ((own, False), (rest, False), (nothing, True)))


register(
    Claim(
        id="mrmtl:lem6.1:algA1",
        title="Where Algorithm A1 ends",
        place="Appendix D.1, Algorithm A1, with Section 6, Lemma 6.1",
        statement="""Algorithm A1 is the canonical instantiation of MR-MTL. Judged: with full gradient steps, each against
            the mean model of the previous round, its fixed point is the estimate (4), whatever the initial models.""",
        latex=r"""\nabla_{w_{k}^{(t)}}\left[\ell\left(w_{k}^{(t)},x,y\right)+\frac{\lambda}{2}\left\|w_{k}^{(t)}-%
            \bar{w}^{(t-1)}\right\|_{2}^{2}\right],\quad \bar{w}^{({t})}=\bar{w}^{({t-1})}+\frac{1}{K}\sum_{k=1}^{K}%
            \Delta_{k}^{(t)}""",
        kind="algorithm line",
        variables=(LAM, K, OFFSET),
        examples=(
            {**_STRENGTHS[0], "offset": 0},
            {**_STRENGTHS[1], "offset": 0},
            {"lam": 2, "K": 2, "offset": 1},
        ),
        printed=lambda lam, K: (*_alpha_printed(lam, K), ZERO),
        derive=_algorithm_derive,
        oracle=_algorithm_oracle,
        computed=lambda lam, K, offset: (*_weights_computed(lam, K), lam * offset),
        condition=lambda offset: sp.Eq(offset, 0),
        condition_text="offset == 0 (the initial mean model is the mean of the initial client models)",
        counterexample={"lam": 1, "K": 2, "offset": 1},
        corrected_text="w_hat_k(lam) + lam * offset",
        not_simulated=Exempt(kind="deterministic"),
        entries=(*_WEIGHTS, "shift by the start"),
        assumes={"pivot": "model", "noise": "reused", "clipping": "none"},
        unit="dimensionless; the shift in units of the estimate",
        related=("mrmtl:lem6.1:joint",),
        remark="""The algorithm takes the initial client models and the initial mean model as separate inputs. It reaches its
            fixed point for step sizes below 2/(1 + lam); a single round from other starting points does not.""",
    )
)


# --- the best lam in training -------------------------------------------------------------------------------


def _train_derive(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> Derivation:
    d = Derivation()
    silos = equal_silos(K, tau2, sigma2 / n, sigma2_dp / n**2)
    d.say("The target is the empirical mean x_k of the silo's data, of which w_hat_k = x_k + l_k is a noisy copy.")
    d.say("The estimate (1-u) w_hat_k + u w_bar, u = lam/(1+lam), has the error l_k + u (w_bar - w_hat_k).")
    move = silos.mean - silos.local
    d.say("Cov(l_k, w_bar - w_hat_k) =", simplest(covariance(silos.local - silos.data, move)))
    d.say("Var(w_bar - w_hat_k) =", simplest(covariance(move, move)))
    u, _ = best_blend(silos.data, silos.local, silos.mean)
    d.say("The mean squared error is a convex quadratic in u with its vertex at", u)
    return d.conclude("With lam = u/(1-u), which is >= 0:", strength(u))


def _train_objective(x: Any, K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> Any:
    silos = equal_silos(K, tau2, sigma2 / n, sigma2_dp / n**2)
    return model.blend_objective(silos, x, silos.data)


register(
    Claim(
        id="mrmtl:train-lambda",
        title="Best lam for the training error",
        place="Section 6, text after Lemma 6.1",
        statement="""The best lam is always 0 for training error, that is, for estimating the empirical mean of the silo's
            data.""",
        latex=r"""\text{the best }\lambda\text{ is always }0\text{ for training error (i.e.\ estimating the empirical mean
            of the local data }\{x_{k,i}\}\text{)}""",
        kind="optimum",
        variables=(ANY_K, RECORDS, SIGMA2, SIGMA2_DP, TAU2),
        examples=(
            {"K": 3, "n": 2, "sigma2": 1, "sigma2_dp": 2, "tau2": "1/2"},
            {"K": 4, "n": 1, "sigma2": 1, "sigma2_dp": 3, "tau2": 1},
        ),
        printed=lambda: ZERO,
        derive=_train_derive,
        oracle=lambda K, n, sigma2, sigma2_dp, tau2: (
            lambda c: model.concrete_optimum(c, target=c.estimate[0])[0]
        )(model.concrete_equal(K, tau2, sigma2 / n, sigma2_dp / n**2)),
        computed=mean_regularized.train_strength,
        objective=_train_objective,
        simulate=lambda K, n, sigma2, sigma2_dp, tau2: model.stationary(
            model.raw_silos(tau2, [sigma2 / n] * K, [sigma2_dp / n**2] * K), data=True
        ),
        condition=lambda sigma2_dp: sp.Eq(sigma2_dp, 0),
        condition_text="sigma2_dp == 0 (no privacy noise)",
        counterexample={"K": 2, "n": 1, "sigma2": 1, "sigma2_dp": 2, "tau2": 1},
        corrected_text="(sigma2_dp/n^2) / (tau2 + sigma2/n)",
        assumes=AVERAGED,
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        remark="""With privacy w_hat_k is not the empirical mean but a noisy copy of it, and the other silos' estimates help
            to take out the noise.""",
        model=("BestStrength",),
    )
)  # fmt: skip
