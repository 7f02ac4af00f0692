"""Section 6, MR-MTL at its best: Lemma 6.2, Theorem 6.3, Corollary 6.4, Propositions 6.5 and 6.6.

Belongs here: claims at the optimal lam, all silos alike. Does not belong here: other lam (spectrum.py),
unequal silos (silos.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import sympy as sp

from estimators.closed_forms import mean_regularized
from estimators.numerics import limits
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import best_blend, covariance, strength
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    ANY_K,
    ASSUMPTIONS,
    AVERAGED,
    ESTIMATES,
    GIVEN_DATA,
    LOCAL,
    LOCAL_EXAMPLES,
    ONE,
    PRIVACY,
    RAW,
    RAW_EXAMPLES,
    RECORDS,
    SAMPLING,
    SIGMA2,
    SIGMA2_DP,
    TAU2,
    ZERO,
    Silos,
    equal_silos,
    local_variance,
)

_ALONE: dict[str, Any] = {
    "condition": lambda given_data, sigma2_dp: sp.Eq(sigma2_dp, 0) if given_data else sp.true,
    "condition_text": "given_data == 0 (the private estimates alone) or sigma2_dp == 0 (no privacy noise)",
}
_DATA_COUNTEREXAMPLE = {"K": 2, "n": 1, "sigma2": 1, "sigma2_dp": 1, "tau2": 1, "given_data": 1}
_DATA_REMARK = """The paper conditions on the datasets X_k too and calls them Markov blankets. But w_hat_k is the data plus
    independent noise: given X_k it says nothing more about w_k, and the variance is that without privacy, (n/sigma2 +
    (K-1)/(K tau2 + sigma2/n))^-1. What the proof uses is the conditioning on the estimates alone."""


# --- Lemma 6.2 ----------------------------------------------------------------------------------------------


def _posterior_variance_derive(K: Any, tau2: Any, given_data: int, every: bool = False, **records: Any) -> Derivation:
    d = Derivation()
    if every:
        d.say("""All w_hat_j are given. The other silos are alike, so the best estimate weighs them equally, and their
            average w_hat_rest says as much as all of them.""")  # fmt: skip
    variance = model.say_posterior(d, K, tau2, given_data).variance
    return d.conclude("Putting s and v back in:", model.in_records(variance, **records))


def _posterior_weights_derive(K: Any, tau2: Any, given_data: int, **records: Any) -> Derivation:
    d = Derivation()
    weights = model.say_posterior(d, K, tau2, given_data).weights
    totals = d.say("In all, on silo k (data or estimate) and on the others:",
                   tuple(simplest(sum(weights[i::2], ZERO)) for i in range(2)))  # fmt: skip
    return d.conclude("Putting s and v back in:", tuple(model.in_records(w, **records) for w in totals))


def _posterior_oracle(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, given_data: int, every: bool = False):
    """Weights in all on silo 0 and on the others, and the variance, by a Schur complement on concrete silos.

    With `every` the other silos' estimates are given one by one instead of their average.
    """
    clients = model.concrete_equal(K, tau2, sigma2 / n, sigma2_dp / n**2)
    own, others = [clients.message[0]], clients.message[1:] if every else [model.plain_mean(clients, 0)]
    if given_data:
        own.append(clients.estimate[0])
        others = [*others, *clients.estimate[1:]]
    weights, variance = clients.posterior(clients.parameter[0], [*own, *others])
    on_own = rational(sum(weights[: len(own)]))
    return on_own, 1 - on_own, rational(variance)


def _lemma62_variance(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> Any:
    s = local_variance(n, sigma2, sigma2_dp)
    return 1 / (1 / s + (K - 1) / (K * tau2 + s))


def _lemma62_weights(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> tuple[Any, Any]:
    s, variance = local_variance(n, sigma2, sigma2_dp), _lemma62_variance(K, n, sigma2, sigma2_dp, tau2)
    return variance / s, variance * (K - 1) / (K * tau2 + s)


def _float_variance(n: float, sigma2: float, sigma2_dp: float, given_data: int) -> float:
    return mean_regularized.local_variance(sigma2, n, 0.0 if given_data else sigma2_dp)


def _weights_computed(K: float, n: float, sigma2: float, sigma2_dp: float, tau2: float, given_data: int):
    s = _float_variance(n, sigma2, sigma2_dp, given_data)
    own = mean_regularized.own_weight(mean_regularized.strength(s, tau2), K)
    return own, (1 - 1 / K) * limits.share(s, tau2)


def _optimal_computed(K: float, n: float, sigma2: float, sigma2_dp: float, tau2: float, given_data: int) -> float:
    return mean_regularized.optimal_mse(_float_variance(n, sigma2, sigma2_dp, given_data), tau2, K)


def _raw(K: int, n: int, sigma2: float, sigma2_dp: float, tau2: float) -> simulation.Federation:
    return model.raw_silos(tau2, [sigma2 / n] * K, [sigma2_dp / n**2] * K)


def _posterior_simulate(K: int, n: int, sigma2: float, sigma2_dp: float, tau2: float,
                        given_data: int) -> simulation.Simulation | None:  # fmt: skip
    if given_data:
        return None
    lam = (sigma2 / n + sigma2_dp / n**2) / tau2 if tau2 else float("inf")
    return simulation.mean_squares(_raw(K, n, sigma2, sigma2_dp, tau2), 0, model.uniform(K), [model.error_at(lam)], ["MSE"])


_LEMMA62: dict[str, Any] = {
    "kind": "identity",
    "variables": (*RAW, GIVEN_DATA),
    "examples": RAW_EXAMPLES,
    "counterexample": _DATA_COUNTEREXAMPLE,
    "assumptions": ASSUMPTIONS,
    **_ALONE,
}

register(
    Claim(
        id="mrmtl:lem6.2:var",
        title="Variance of a silo's centre given the estimates",
        place="Section 6, Lemma 6.2, (6); Appendix E.4, (25)",
        statement="Given w_hat_k, w_hat_rest and the datasets, w_k = mu_k + zeta_k with zeta_k of this variance.",
        latex=r"""\sigma_{w}^{2}\triangleq\left(\frac{1}{\sigma_{\mathrm{loc}}^{2}}+\frac{K-1}%
            {K\tau^{2}+\sigma_{\mathrm{loc}}^{2}}\right)^{-1}""",
        printed=_lemma62_variance,
        derive=_posterior_variance_derive,
        oracle=lambda **v: _posterior_oracle(**v)[2],
        computed=_optimal_computed,
        simulate=_posterior_simulate,
        model=("LeastClient",),
        assumes=ESTIMATES,
        unit="variance",
        related=("mrmtl:eq5", "mrmtl:lemE.3"),
        remark=_DATA_REMARK,
        **_LEMMA62,
    )
)
register(
    Claim(
        id="mrmtl:lem6.2:mu",
        title="Mean of a silo's centre given the estimates",
        place="Section 6, Lemma 6.2, (6); Appendix E.4, (26)",
        statement="Weights of w_hat_k and w_hat_rest in mu_k, the mean of w_k given these and the datasets.",
        latex=r"""\mu_{k}\triangleq\sigma_{w}^{2}\left(\frac{1}{\sigma_{\mathrm{loc}}^{2}}\cdot\hat{w}_{k}+\frac{K-1}%
            {K\tau^{2}+\sigma_{\mathrm{loc}}^{2}}\cdot\hat{w}_{\setminus k}\right)""",
        printed=_lemma62_weights,
        derive=_posterior_weights_derive,
        oracle=lambda **v: _posterior_oracle(**v)[:2],
        computed=_weights_computed,
        simulate=lambda given_data, **v: None if given_data else model.combination(_raw(**v)),
        model=("BestBlend",),
        entries=("weight in all on silo k", "weight in all on the others"),
        assumes=ESTIMATES,
        unit="dimensionless",
        related=("mrmtl:lem6.2:var", "mrmtl:lemE.3"),
        remark=f"""{_DATA_REMARK} Given the data the weights belong to the data means, and none is left for w_hat_k and
            w_hat_rest.""",
        **_LEMMA62,
    )
)


# --- Theorem 6.3 --------------------------------------------------------------------------------------------


def _say_optimum(d: Derivation, silos: Silos) -> tuple[Any, Any]:
    """Best u in (1-u) w_hat_k + u w_bar and its risk, with the steps."""
    error, move = silos.local - silos.target, silos.mean - silos.local
    d.say("w_hat_k(lam) = (1-u) w_hat_k + u w_bar with u = lam/(1+lam). Its error is (w_hat_k - w_k) + u (w_bar - w_hat_k).")
    d.say("Cov(w_hat_k - w_k, w_bar - w_hat_k), where theta cancels, is", simplest(covariance(error, move)))
    d.say("Var(w_bar - w_hat_k) =", simplest(covariance(move, move)))
    u, risk = best_blend(silos.target, silos.local, silos.mean)
    d.say("The mean squared error is a convex quadratic in u with its vertex at", u)
    return u, risk


def _thm63_derive(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> Derivation:
    d = Derivation()
    s = sp.Symbol("sigma2_loc", positive=True)
    d.say("The error is averaged over everything. Write sigma2_loc for the variance of w_hat_k - w_k.")
    u, _ = _say_optimum(d, equal_silos(K, tau2, s))
    lam = d.say("With lam = u/(1-u):", strength(u))
    local = d.lemma("mrmtl:eq5", "sigma2_loc is", n=n, sigma2=sigma2, sigma2_dp=sigma2_dp)
    return d.conclude("With it:", lam.subs(s, local))


def _thm63_printed(n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any) -> Any:
    return (sigma2 + sigma2_dp / n) / (n * tau2)


_THM63_EXAMPLES = (
    {"n": 2, "sigma2": 1, "sigma2_dp": 2, "tau2": 1},
    {"n": 10, "sigma2": 1, "sigma2_dp": 4, "tau2": "0.1"},
)

register(
    Claim(
        id="mrmtl:thm6.3",
        title="Optimal strength lambda*",
        place="Section 6, Theorem 6.3, (7); Appendix E.4, (31)",
        statement="The lam with the least generalization error, the mean squared error of w_hat_k(lam) around w_k.",
        latex=r"""\lambda^{*}=\operatorname*{argmin}_{\lambda}\mathbb{E}\left[\left(w_{k}-\hat{w}_{k}(\lambda)\right)^{2}%
            \mid\hat{w}_{k},\hat{w}_{\setminus k},\{X_{k}\}_{k\in[K]}\right]=\frac{1}{n\tau^{2}}\left(\sigma^{2}+%
            \frac{\sigma_{\mathrm{DP}}^{2}}{n}\right)""",
        kind="optimum",
        variables=(ANY_K, RECORDS, SIGMA2, SIGMA2_DP, TAU2),
        examples=_THM63_EXAMPLES,
        printed=_thm63_printed,
        derive=_thm63_derive,
        oracle=lambda K, n, sigma2, sigma2_dp, tau2: model.concrete_optimum(
            model.concrete_equal(K, tau2, sigma2 / n, sigma2_dp / n**2)
        )[0],
        computed=lambda n, sigma2, sigma2_dp, tau2: mean_regularized.strength(
            mean_regularized.local_variance(sigma2, n, sigma2_dp), tau2
        ),
        simulate=lambda **v: model.stationary(_raw(**v)),
        model=("BestStrength",),
        objective=lambda x, K, n, sigma2, sigma2_dp, tau2: model.blend_objective(
            equal_silos(K, tau2, sigma2 / n, sigma2_dp / n**2), x
        ),
        assumes=AVERAGED,
        unit="dimensionless",
        assumptions=(
            *ASSUMPTIONS,
            "the error is averaged over everything, or given the private estimates alone",
        ),
        related=("mrmtl:lem6.1",),
        remark="""Judged for the error averaged over everything. The conditional expectation as it is printed, given the
            datasets too, has another minimiser: mrmtl:thm6.3:conditional. Identical silos (tau2 = 0) give lam = inf.""",
    )
)

GAP = Variable("d", "real", "the realised difference w_hat_k - w_hat_rest, not 0", default=ONE)
XI_K = Variable("xi_k", "real", "the realised privacy noise in w_hat_k", default=ZERO)
XI_REST = Variable("xi_rest", "real", "the realised privacy noise in w_hat_rest", default=ZERO)


def _conditional_derive(d: Any, xi_k: Any, xi_rest: Any, K: Any, tau2: Any, given_data: int, **records: Any) -> Derivation:
    proof = Derivation()
    best = model.say_posterior(proof, K, tau2, given_data)
    a = sp.Symbol("a", real=True)
    proof.say("Count from w_hat_rest, so that w_hat_k = d and the estimate with the weight a on w_hat_k is a d.")
    seen = (d, ZERO, d - xi_k, -xi_rest)[: len(best.weights)]
    mean = simplest(sum((w * x for w, x in zip(best.weights, seen, strict=True)), ZERO))
    proof.say("The posterior mean of w_k is then", mean)
    proof.say("and the conditional error of a d is", best.variance + (mean - a * d) ** 2)
    weight = proof.say("which is least at a =", simplest(stationary_point((mean - a * d) ** 2, a)))
    lam = proof.say("The strength with this weight, lam = K (1-a)/(K a - 1):",
                    simplest(K * (1 - weight) / (K * weight - 1)))  # fmt: skip
    return proof.conclude("Putting s and v back in:", model.in_records(lam, **records))


def _conditional_objective(x: Any, d: Any, xi_k: Any, xi_rest: Any, K: Any, tau2: Any, given_data: int, **records: Any):
    """Conditional error at strength x, counted from w_hat_rest, so that the estimate is a d."""
    best = model.say_posterior(Derivation(), K, tau2, given_data)
    seen = (d, ZERO, d - xi_k, -xi_rest)[: len(best.weights)]
    mean = sum((w * y for w, y in zip(best.weights, seen, strict=True)), ZERO)
    a = (K + x) / ((1 + x) * K)
    return model.in_records(best.variance + (mean - a * d) ** 2, **records)


def _conditional_oracle(d: Any, xi_k: Any, xi_rest: Any, given_data: int, **v: Any) -> Any:
    on_own, on_rest, variance = _posterior_oracle(given_data=given_data, **v)
    mean = on_own * (d - xi_k) - on_rest * xi_rest if given_data else on_own * d
    step = d / v["K"] - d  # from w_hat_k = d to w_bar, counted from w_hat_rest
    u = rational(model.minimise(lambda u: model.as_fraction(variance + (mean - d - rational(u[0]) * step) ** 2), 1)[0])
    return sp.oo if u == 1 else u / (1 - u)


register(
    Claim(
        id="mrmtl:thm6.3:conditional",
        title="Minimiser of the conditional error as printed",
        place="Section 6, Theorem 6.3, (7)",
        statement="""The lam, of either sign, that minimises the error given w_hat_k, w_hat_rest and, as printed, the
            datasets is lambda*.""",
        latex=r"""\operatorname*{argmin}_{\lambda}\mathbb{E}\left[\left(w_{k}-\hat{w}_{k}(\lambda)\right)^{2}\mid%
            \hat{w}_{k},\hat{w}_{\setminus k},\{X_{k}\}_{k\in[K]}\right]=\frac{1}{n\tau^{2}}\left(\sigma^{2}+%
            \frac{\sigma_{\mathrm{DP}}^{2}}{n}\right)""",
        kind="optimum",
        variables=(*RAW, GIVEN_DATA, GAP, XI_K, XI_REST),
        examples=RAW_EXAMPLES,
        printed=_thm63_printed,
        derive=_conditional_derive,
        oracle=_conditional_oracle,
        objective=_conditional_objective,
        decision="real",
        counterexample=_DATA_COUNTEREXAMPLE,
        not_computed=Exempt(kind="part", of=("mrmtl:thm6.3",)),
        simulate=lambda given_data, d, xi_k, xi_rest, **v: None if given_data else model.stationary(_raw(**v)),
        assumes=ESTIMATES,
        unit="dimensionless",
        assumptions=ASSUMPTIONS,
        condition=lambda given_data, sigma2_dp, xi_k, xi_rest: (
            sp.And(*(sp.Eq(x, 0) for x in (sigma2_dp, xi_k, xi_rest))) if given_data else sp.true
        ),
        condition_text="given_data == 0 (the private estimates alone) or no privacy noise (sigma2_dp, xi_k, xi_rest all 0)",
        related=("mrmtl:lem6.2:mu", "mrmtl:lem6.2:var", "mrmtl:thm6.3"),
        remark="""Given the estimates alone the minimiser is lambda* whatever their values. Given the datasets too the error
            is least where w_hat_k(lam) meets the data's own posterior mean, at a lam that changes with the realised
            noise; when that noise happens to be 0 it is sigma2/(n tau2), the optimum without privacy.""",
    )
)


# --- Corollary 6.4 ------------------------------------------------------------------------------------------


def _optimal_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d = Derivation()
    lam = d.lemma("mrmtl:thm6.3", "in terms of the local variance", n=ONE, sigma2=sigma2_loc, sigma2_dp=ZERO, tau2=tau2)
    risk = d.lemma("mrmtl:lem6.7", "at this lam", lam=lam, K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    d.say("""There w_hat_k(lam*) is the posterior mean mu_k given the estimates, so that the error given the estimates has
        the same value for all of them.""")  # fmt: skip
    return d.conclude("So the error at lambda* is", simplest(risk))


def _cor64_printed(K: Any, sigma2_loc: Any, tau2: Any) -> Any:
    return sigma2_loc * (sigma2_loc + K * tau2) / (K * (sigma2_loc + tau2))


def _local_simulate(lam: Any):
    """Simulate the mean squared error at a strength given as a function of (sigma2_loc, tau2)."""

    def simulate(K: int, sigma2_loc: float, tau2: float) -> simulation.Simulation:
        return simulation.mean_squares(
            model.local_silos(tau2, [sigma2_loc] * K), 0, model.uniform(K),
            [model.error_at(lam(sigma2_loc, tau2))], ["MSE"],
        )  # fmt: skip

    return simulate


register(
    Claim(
        id="mrmtl:cor6.4",
        title="Error of the optimal estimate",
        place="Section 6, Corollary 6.4, (8)",
        statement="Mean squared error of MR-MTL at lambda*.",
        latex=r"""\mathcal{E}^{*}\triangleq\mathbb{E}\left[(w_{k}-\hat{w}_{k}(\lambda^{*}))^{2}\mid\hat{w}_{k},%
            \hat{w}_{\setminus k},\{X_{k}\}_{k\in[K]}\right]=\sigma_{w}^{2}=%
            \frac{\sigma_{\mathrm{loc}}^{2}(\sigma_{\mathrm{loc}}^{2}+K\tau^{2})}{K(\sigma_{\mathrm{loc}}^{2}+\tau^{2})}""",
        kind="identity",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=_cor64_printed,
        derive=_optimal_derive,
        oracle=lambda K, sigma2_loc, tau2: model.concrete_optimum(model.concrete_equal(K, tau2, sigma2_loc))[1],
        computed=mean_regularized.optimal_mse,
        simulate=_local_simulate(mean_regularized.strength),
        model=("Value(Mixed)", "LeastClient"),
        assumes=AVERAGED,
        unit="variance",
        assumptions=(
            *ASSUMPTIONS,
            "the error is averaged over everything, or given the private estimates alone",
        ),
        related=("mrmtl:lem6.2:var", "mrmtl:cor6.4:conditional"),
        remark="""Given the datasets too, the error is the posterior variance given the data plus the squared distance of
            w_hat_k(lam*) to the data's posterior mean, a random number whose average is this one.""",
    )
)


def _optimal_conditional_derive(d: Any, xi_k: Any, xi_rest: Any, K: Any, tau2: Any, given_data: int, **records: Any):
    proof = Derivation()
    best = model.say_posterior(proof, K, tau2, given_data)
    seen = (d, ZERO, d - xi_k, -xi_rest)[: len(best.weights)]
    mean = proof.say("Counted from w_hat_rest, with w_hat_k = d, the posterior mean of w_k is",
                     simplest(sum((w * x for w, x in zip(best.weights, seen, strict=True)), ZERO)))  # fmt: skip
    u, _ = best_blend(*(lambda c: (c.target, c.local, c.mean))(equal_silos(K, tau2, SAMPLING, PRIVACY)))
    estimate = proof.say("w_hat_k(lam*) is", simplest((1 - u + u / K) * d))
    value = proof.say("The error is the posterior variance plus the squared distance of the two:",
                      best.variance + simplest(mean - estimate) ** 2)  # fmt: skip
    return proof.conclude("Putting s and v back in:", model.in_records(value, **records))


def _optimal_conditional_oracle(d: Any, xi_k: Any, xi_rest: Any, given_data: int, **v: Any) -> Any:
    on_own, on_rest, variance = _posterior_oracle(given_data=given_data, **v)
    mean = on_own * (d - xi_k) - on_rest * xi_rest if given_data else on_own * d
    clients = model.concrete_equal(v["K"], v["tau2"], v["sigma2"] / v["n"], v["sigma2_dp"] / v["n"] ** 2)
    lam, _ = model.concrete_optimum(clients)
    estimate = d - model.pull(lam) * (1 - 1 / v["K"]) * d
    return variance + (mean - estimate) ** 2


register(
    Claim(
        id="mrmtl:cor6.4:conditional",
        title="Error of the optimal estimate as printed",
        place="Section 6, Corollary 6.4, (8)",
        statement="Error of MR-MTL at lambda* given w_hat_k, w_hat_rest and, as printed, the datasets.",
        latex=r"""\mathcal{E}^{*}\triangleq\mathbb{E}\left[(w_{k}-\hat{w}_{k}(\lambda^{*}))^{2}\mid\hat{w}_{k},%
            \hat{w}_{\setminus k},\{X_{k}\}_{k\in[K]}\right]=\sigma_{w}^{2}=%
            \frac{\sigma_{\mathrm{loc}}^{2}(\sigma_{\mathrm{loc}}^{2}+K\tau^{2})}{K(\sigma_{\mathrm{loc}}^{2}+\tau^{2})}""",
        kind="identity",
        variables=(*RAW, GIVEN_DATA, GAP, XI_K, XI_REST),
        examples=RAW_EXAMPLES,
        printed=lambda K, n, sigma2, sigma2_dp, tau2: _cor64_printed(K, local_variance(n, sigma2, sigma2_dp), tau2),
        derive=_optimal_conditional_derive,
        oracle=_optimal_conditional_oracle,
        counterexample=_DATA_COUNTEREXAMPLE,
        not_computed=Exempt(kind="part", of=("mrmtl:cor6.4",)),
        simulate=lambda d, xi_k, xi_rest, **v: _posterior_simulate(**v),
        unit="variance",
        assumes=ESTIMATES,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:cor6.4", "mrmtl:thm6.3:conditional", "mrmtl:lem6.2:var"),
        remark="""Given the estimates alone it is the printed value whatever they are. Given the datasets too it depends on
            the realised noise; the printed value is its average.""",
        condition=lambda given_data, sigma2_dp, xi_k, xi_rest: (
            sp.And(*(sp.Eq(x, 0) for x in (sigma2_dp, xi_k, xi_rest))) if given_data else sp.true
        ),
        condition_text="given_data == 0 (the private estimates alone) or no privacy noise (sigma2_dp, xi_k, xi_rest all 0)",
    )
)


register(
    Claim(
        id="mrmtl:cor6.4:mmse",
        title="MR-MTL at lambda* is the MMSE estimator",
        place="Section 6, text after Corollary 6.4",
        statement="""No estimator of w_k has a smaller mean squared error than w_hat_k(lam*), whether it sees w_hat_k and
            w_hat_rest or all the estimates one by one - and, as printed, the datasets.""",
        latex=r"\hat{w}(\lambda^{*})\text{ is the MMSE estimator of }w_{k}",
        printed=lambda K, n, sigma2, sigma2_dp, tau2: _cor64_printed(K, local_variance(n, sigma2, sigma2_dp), tau2),
        derive=partial(_posterior_variance_derive, every=True),
        oracle=lambda **v: _posterior_oracle(**v, every=True)[2],
        computed=_optimal_computed,
        simulate=_posterior_simulate,
        model=("LeastClient",),
        assumes=ESTIMATES,
        unit="variance",
        related=("mrmtl:cor6.4", "mrmtl:lem6.2:var"),
        remark="Given the datasets the data means without noise are better, which is why they must stay private.",
        **_LEMMA62,
    )
)
