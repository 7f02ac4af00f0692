"""Appendix E.5: the strength of one silo among unequal ones - Theorem E.5, its negative values, and the Bayes error.

Belongs here: Theorem E.5 as the paper derives it, with w_bar the plain mean of the estimates. Does not belong here: what
E.5 rests on (silos.py), what Algorithm A1 does with such strengths (algorithm.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import Group, best_blend, covariance, mse, posterior
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    AVERAGED,
    ONE,
    SIGMA2_LOC_K,
    SILO,
    TAU2,
    UNEQUAL,
    UNEQUAL_ASSUMPTIONS,
    UNEQUAL_EXAMPLES,
    ZERO,
    K,
    concrete_unequal,
    others,
    unequal_silos,
)
from theory.papers.mrmtl.silos import pair_oracle, pair_row

_UNEQUAL: dict[str, Any] = {
    "variables": UNEQUAL,
    "examples": UNEQUAL_EXAMPLES,
    "assumptions": UNEQUAL_ASSUMPTIONS,
}

# --- Theorem E.5 --------------------------------------------------------------------------------------------


def _denominator(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    """tau2 + (mean of the others' variances - own)/K, as a plain sum of terms."""
    rest = others(sigma2_loc_k, k)
    return sp.expand(tau2 + (sum(rest) / sp.Integer(len(rest)) - sigma2_loc_k[k]) / len(sigma2_loc_k))


def _thmE5_printed(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    own, rest, count = sigma2_loc_k[k], others(sigma2_loc_k, k), len(sigma2_loc_k)
    return own / (tau2 + sp.Rational(1, count) * (sum(rest) / sp.Integer(count - 1) - own))


def _thmE5_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    silos = unequal_silos(sigma2_loc_k, tau2, k)
    move = silos.mean - silos.local
    d.say("""w_hat_k(lam) = (1-u) w_hat_k + u w_bar with u = lam/(1+lam), so u runs through [0, 1] as lam does through [0,
        inf]. The mean squared error is a convex quadratic in u.""")  # fmt: skip
    d.say("Cov(w_hat_k - w_k, w_bar - w_hat_k) =", simplest(covariance(silos.local - silos.target, move)))
    d.say("Var(w_bar - w_hat_k) =", simplest(covariance(move, move)))
    u, _ = best_blend(silos.target, silos.local, silos.mean)
    d.say("The vertex is at u =", u)
    own = sigma2_loc_k[k]
    rest = sp.expand(sp.cancel(own * (1 - u) / u))
    d.say("With s_k the silo's own local variance, u = s_k/(s_k + D), where s_k + D > 0 and D =", rest)
    d.say(
        """If D > 0 the vertex lies inside [0, 1], at lam = u/(1-u) = s_k/D. If D <= 0 it lies at or beyond u = 1: the error
        falls all the way, and lam = inf is best."""
    )
    return d.conclude("Best lam in [0, inf]:", sp.Piecewise((own / rest, rest > 0), (sp.oo, True)))


def _thmE5_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    lam, _ = model.concrete_optimum(concrete_unequal(sigma2_loc_k, tau2), k)
    return sp.oo if lam < 0 else lam


def _thmE5_computed(sigma2_loc_k: list[float], tau2: float, k: int) -> float:
    lam = mean_regularized.silo_strength(k, sigma2_loc_k, tau2)
    return np.inf if lam < 0 else lam


def _finite_case(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    """Denominator >= 0; on symbols solved for tau2 with a slack."""
    value = _denominator(sigma2_loc_k, tau2, k)
    if not value.free_symbols:
        return value >= 0
    return sp.Eq(tau2, sp.expand(tau2 - value) + sp.Symbol("slack", positive=True))


register(
    Claim(
        id="mrmtl:thmE.5",
        title="Optimal strength of one silo among unequal ones",
        place="Appendix E.5, Theorem E.5, (47)",
        statement="""The optimal choice of lam >= 0 (or inf) for silo k when the silos' local variances differ. Judged for
            the estimate (4), which is pulled to the uniform mean of the silos' estimates; Algorithm A1 does not end
            there: mrmtl:thmE.5:algA1.""",
        latex=r"""\lambda^{*}_{k}=\dfrac{\tilde{\sigma}_{k}^{2}}{\tau^{2}+\dfrac{1}{K}\left(%
            \dfrac{\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}{K-1}-\tilde{\sigma}_{k}^{2}\right)}""",
        kind="optimum",
        printed=_thmE5_printed,
        derive=_thmE5_derive,
        oracle=_thmE5_oracle,
        computed=_thmE5_computed,
        simulate=lambda sigma2_loc_k, tau2, k: model.stationary(model.local_silos(tau2, sigma2_loc_k), k),
        objective=lambda x, sigma2_loc_k, tau2, k: model.blend_objective(unequal_silos(sigma2_loc_k, tau2, k), x),
        condition=_finite_case,
        condition_text="sigma2_loc_k[k] <= K*tau2 + mean of the other sigma2_loc_k (with equality lam is inf)",
        counterexample={"sigma2_loc_k": [4, 1], "tau2": 1, "k": 0},
        corrected_text="inf where the denominator is not positive",
        assumes={**AVERAGED, "pivot": "mean"},
        unit="dimensionless",
        related=("mrmtl:lemE.4:mu", "mrmtl:eq39", "mrmtl:thmE.5:algA1", "mrmtl:algA1:silos"),
        remark="""For all values it is the stationary point; where the denominator is negative it is a negative number, the
            strength of the best linear combination, which no lam >= 0 reaches. The paper says so after the theorem:
            mrmtl:negative. Verified for 2 and 3 silos.""",
        **_UNEQUAL,
        model=("BestStrength",),
    )
)


# --- negative strengths -------------------------------------------------------------------------------------


def _negative_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    s = sp.Symbol("s_k", positive=True)
    silos = unequal_silos([*sigma2_loc_k[:k], s, *sigma2_loc_k[k + 1 :]], tau2, k)
    u, _ = best_blend(silos.target, silos.local, silos.mean)
    d.say(
        "With s_k the silo's own local variance, the error is a convex quadratic in u = lam/(1+lam) with vertex at",
        u,
    )
    top, bottom = sp.fraction(sp.cancel(u))
    excess = d.say("lam = u/(1-u) is negative exactly where u > 1, which is where this is positive:",
                   sp.factor(top - bottom))  # fmt: skip
    (threshold,) = sp.solve(excess, s)
    d.say("""It grows with s_k. Past its zero the vertex lies beyond u = 1, the error falls on the whole of [0, 1], and lam
        to infinity is the best of all lam >= 0.""")  # fmt: skip
    return d.conclude("The zero is at s_k =", simplest(threshold))


def _negative_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    def slope(own: Any) -> Any:
        """Slope of the error at u = 1, from three values; linear in the own variance."""
        clients = concrete_unequal([*sigma2_loc_k[:k], own, *sigma2_loc_k[k + 1 :]], tau2)
        local, mean = clients.message[k], model.plain_mean(clients)
        at = [rational(clients.mse(local + (mean - local).times(u), clients.parameter[k])) for u in (0, 1, 2)]
        return (at[2] - at[0]) / 2

    first, second = slope(ONE), slope(2 * ONE)
    root = 1 - first / (second - first)
    if not slope(root + 1) < 0:
        raise ArithmeticError("beyond the threshold the error does not fall up to u = 1")
    return root


def _negative_simulate(sigma2_loc_k: list[float], tau2: float, k: int) -> simulation.Simulation:
    # The slope of the risk at FedAvg is linear in the own variance: the part without own noise, and own noise of variance 1.
    silent = [*sigma2_loc_k[:k], 0.0, *sigma2_loc_k[k + 1 :]]
    own = [float(j == k) for j in range(len(silent))]
    fed, count = model.raw_silos(tau2, silent, own), len(silent)
    rest = simulation.vector(1, p=-1.0, l=-1.0 / count, a0=1.0)  # w_bar - w_k without the own noise
    noise = simulation.vector(1, l=1.0)
    share = (1 - 1 / count) / count
    label = "slope of the risk at FedAvg, own variance at the threshold"
    return simulation.Simulation(
        simulation.mean_squares(fed, k, model.uniform(count), [rest, noise]).experiment,
        (simulation.Ratio(label, [1.0, 0.0], [0.0, share], share),),
    )


register(
    Claim(
        id="mrmtl:negative",
        title="When the optimal strength is negative",
        place="Appendix E.5, text after Theorem E.5",
        statement="""lambda_k* is negative when the silo's local variance exceeds this value; then lam to infinity, FedAvg,
            is the best choice among lam >= 0.""",
        latex=r"""\lambda^{*}_{k}<0\ (\text{when }\tilde{\sigma}_{k}^{2}>K\tau^{2}+\frac{1}{K-1}\sum_{j\neq k}%
            \tilde{\sigma}_{j}^{2})""",
        kind="identity",
        printed=lambda sigma2_loc_k, tau2, k: (
            len(sigma2_loc_k) * tau2 + sp.Rational(1, len(sigma2_loc_k) - 1) * sum(others(sigma2_loc_k, k))
        ),
        derive=_negative_derive,
        oracle=_negative_oracle,
        not_computed=Exempt(kind="part", of=("mrmtl:thmE.5",)),
        simulate=_negative_simulate,
        assumes=AVERAGED,
        unit="variance",
        related=("mrmtl:thmE.5",),
        remark="The silo's own entry of sigma2_loc_k is not used. Verified for 2 and 3 silos.",
        **_UNEQUAL,
        model=("PivotBest",),
    )
)

SIGMA2_REST = Variable("sigma2_rest", "positive", "mean of the other silos' local variances")
EXCESS = Variable(
    "excess",
    "nonnegative",
    "by how much silo k's local variance exceeds K*tau2 + sigma2_rest, so that lambda_k* <= 0",
)


def _gap_derive(K: Any, tau2: Any, sigma2_rest: Any, excess: Any) -> Derivation:
    d = Derivation()
    T, x = sp.symbols("T x", positive=True)
    d.say("""Only the mean of the other silos' variances matters, so let them be equal. T = K tau2 + sigma2_rest is the
        threshold of mrmtl:negative, and the own local variance is T + x, x the excess.""")  # fmt: skip
    silos = model.equal_silos(K, tau2, T - K * tau2)
    own = Group("own", ONE, tau2, T + x, ZERO)
    target, local, rest = own.parameters(), own.messages(), silos.external
    around = d.say("Error variances of w_hat_rest and of w_hat_k around w_k:",
                   (mse(rest - target), mse(local - target)))  # fmt: skip
    best = simplest(around[0] / (around[0] + around[1]))
    d.say("The best weight on w_hat_k, and by how much the weight 1/K of FedAvg exceeds it:",
          (best, simplest(1 / K - best)))  # fmt: skip
    gap = simplest((around[0] + around[1]) * (1 / K - best) ** 2)
    d.say("A weight off by h costs (sum of both variances) h^2:", gap)
    return d.conclude("Putting T and x back in:", gap.subs({T: K * tau2 + sigma2_rest, x: excess}))


def _spread(K: Any, mean: Any) -> list[Any]:
    """K - 1 unequal variances with the given mean."""
    count = int(K) - 1
    return [mean * sp.Rational(2 * (j + 1), count + 1) for j in range(count)]


def _gap_oracle(K: Any, tau2: Any, sigma2_rest: Any, excess: Any) -> Any:
    clients = concrete_unequal([K * tau2 + sigma2_rest + excess, *_spread(K, sigma2_rest)], tau2)
    return model.concrete_mse(clients, sp.oo) - model.concrete_optimum(clients)[1]


def _gap_simulate(K: int, tau2: float, sigma2_rest: float, excess: float):
    variances = [K * tau2 + sigma2_rest + excess, *[sigma2_rest] * (K - 1)]
    rows = [model.uniform(K), pair_row(variances, tau2, 0)]
    return model.gap_of_rows(model.local_silos(tau2, variances), 0, rows, "FedAvg minus best combination")


register(
    Claim(
        id="mrmtl:negative:gap",
        title="What falling back to FedAvg loses",
        place="Appendix E.5, text after Theorem E.5",
        statement="""Where lambda_k* is negative it suffices to choose lam to infinity. Judged as: nothing is then lost
            against the best combination of w_hat_k and w_hat_rest.""",
        latex=r"\text{it suffices to choose }\lambda^{*}\to\infty\text{ (i.e.\ fall back to FedAvg training)}",
        kind="optimum",
        variables=(K, TAU2, SIGMA2_REST, EXCESS),
        examples=(
            {"K": 3, "tau2": "1/2", "sigma2_rest": 1, "excess": 12},
            {"K": 2, "tau2": "1/4", "sigma2_rest": "1/2", "excess": 8},
        ),
        printed=lambda: ZERO,
        derive=_gap_derive,
        oracle=_gap_oracle,
        simulate=_gap_simulate,
        counterexample={"K": 2, "tau2": 1, "sigma2_rest": 1, "excess": 3},
        corrected=lambda K, tau2, sigma2_rest, excess: (
            (K - 1) * excess**2 / (K**2 * (K * (K * tau2 + sigma2_rest) + (K - 1) * excess))
        ),
        corrected_text="(K-1) excess^2 / (K^2 (K T + (K-1) excess)), T = K tau2 + sigma2_rest",
        not_computed=Exempt(kind="difference", of=("mrmtl:lemE.4:var",)),
        assumes=AVERAGED,
        finding="""Falling back to FedAvg costs a very noisy silo an error that grows with its excess noise, so it does not
            suffice.""",
        unit="variance",
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:negative", "mrmtl:lemE.4:var"),
        remark="""Among lam >= 0, FedAvg is the best choice (mrmtl:negative). It gives a very noisy silo's own estimate the
            weight 1/K where the best combination gives it less; what that costs grows like excess/K^2 and vanishes only
            at the threshold.""",
        model=("Value(Mixed, Optimum)",),
    )
)


# --- Theorem E.5 against the Bayes estimator ----------------------------------------------------------------


def _bayes_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    groups = [Group(f"silo {j}", ONE, tau2, s, ZERO) for j, s in enumerate(sigma2_loc_k)]
    best = posterior(groups[k].parameters(), [g.messages() for g in groups])
    d.say("Given all w_hat_j, the best combination with weights adding to one has the weights", best.weights)
    return d.conclude("and the error variance claimed:", best.variance)


def _bayes_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients = concrete_unequal(sigma2_loc_k, tau2)
    return rational(clients.posterior(clients.parameter[k], clients.message)[1])


def _bayes_row(sigma2_loc_k: list[float], tau2: float, k: int) -> np.ndarray:
    return mean_regularized.silo_mmse_weights(k, sigma2_loc_k, tau2)


register(
    Claim(
        id="mrmtl:thmE.5:bayes",
        title="Bayes error of a silo among unequal ones",
        place="Appendix E.5 (no formula printed)",
        statement="The least mean squared error of any estimator of w_k from all the private estimates.",
        latex="",
        kind="identity",
        derive=_bayes_derive,
        oracle=_bayes_oracle,
        computed=lambda sigma2_loc_k, tau2, k: mean_regularized.silo_mmse(k, sigma2_loc_k, tau2),
        simulate=lambda sigma2_loc_k, tau2, k: simulation.mean_squares(
            model.local_silos(tau2, sigma2_loc_k), k, _bayes_row(sigma2_loc_k, tau2, k),
            [simulation.vector(1, p=-1.0, a0=1.0)], ["MSE of the Bayes estimate"],
        ),
        model=("LeastClient",),
        assumes=AVERAGED,
        unit="variance",
        related=("mrmtl:lemE.3",),
        remark="In words: 1 over 1/s_k + 1/(tau2 + 1/sum_{j != k} 1/(tau2 + s_j)). Verified for 2 and 3 silos.",
        **_UNEQUAL,
    )
)  # fmt: skip


def _excess_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    d.say("At lambda_k* MR-MTL is the best combination of w_hat_k and w_hat_rest.")
    silos = {"sigma2_loc_k": sigma2_loc_k, "tau2": tau2, "k": k}
    pair = d.lemma("mrmtl:lemE.4:var", "whose error is", **silos)
    everything = d.lemma("mrmtl:thmE.5:bayes", "given all estimates one by one it is", **silos)
    d.say("w_hat_rest weighs the other silos equally, the Bayes estimate by their precision.")
    return d.conclude("What equal weights lose:", sp.factor(sp.cancel(pair - everything)))


def _excess_simulate(sigma2_loc_k: list[float], tau2: float, k: int):
    rows = [pair_row(sigma2_loc_k, tau2, k), _bayes_row(sigma2_loc_k, tau2, k)]
    fed = model.local_silos(tau2, sigma2_loc_k)
    return model.gap_of_rows(fed, k, rows, "MR-MTL minus Bayes error")


def _others_alike(sigma2_loc_k: list[Any], k: int) -> Any:
    rest = others(sigma2_loc_k, k)
    return sp.And(*(sp.Eq(rest[0], s) for s in rest[1:]))


def _excess_float(sigma2_loc_k: list[float], tau2: float, k: int) -> Any:
    return mean_regularized.averaging_loss(k, sigma2_loc_k, tau2)


register(
    Claim(
        id="mrmtl:thmE.5:mmse",
        title="Excess of MR-MTL over the Bayes error, unequal silos",
        place="Appendix E.5, Theorem E.5, with the proof of Theorem 6.3 that it follows",
        statement="""MR-MTL at lambda_k* is the MMSE estimator given all the estimates. The paper says so for equal silos;
            judged here for unequal ones: its error exceeds the Bayes error by 0.""",
        latex=r"\text{Note that }\hat{w}_{k}(\lambda^{*})\text{ is the (conditional) MMSE estimator of }w_{k}\text{.}",
        kind="optimum",
        variables=(SIGMA2_LOC_K, TAU2, SILO),
        examples=(
            {"sigma2_loc_k": [2, "1/4", 12], "tau2": "1/4", "k": 0},
            {"sigma2_loc_k": [1, 3, 3], "tau2": "1/2", "k": 0},
        ),
        printed=lambda: ZERO,
        derive=_excess_derive,
        oracle=lambda **v: pair_oracle(**v)[0] - _bayes_oracle(**v),
        simulate=_excess_simulate,
        condition=_others_alike,
        condition_text="the other silos' local variances are equal (always so for K = 2)",
        counterexample={"sigma2_loc_k": [1, 1, 3], "tau2": 1, "k": 0},
        corrected_text="""for K = 3, B = tau2 + (2 tau2 + a + b)/4, C = tau2 + (tau2+a)(tau2+b)/(2 tau2 + a + b), a and b the
            others' and s the own local variance: s^2 (B - C)/((s + B)(s + C)), B - C = (a-b)^2/(4 (2 tau2 + a + b))""",
        computed=_excess_float,
        assumes=AVERAGED,
        although={"mrmtl:lemE.4:var": "the variance given the messages is the same for all of them"},
        unit="variance",
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5",),
        remark="""Where lambda_k* is negative the formula still names the best combination of w_hat_k and w_hat_rest; with
            lam >= 0 the loss of mrmtl:negative:gap comes on top.""",
        model=("Value(Optimum, Optimum)",),
    )
)
