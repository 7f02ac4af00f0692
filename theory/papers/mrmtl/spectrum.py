"""Section 6, MR-MTL along lam: Lemma 6.7 and Theorem 6.8.

Belongs here: errors and privacy costs as functions of lam, all silos alike. Does not belong here:
their optimum (optimum.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import mean_regularized
from estimators.numerics import limits
from theory.engine import simulation
from theory.engine.algebra import limit, simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import covariance, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl import model
from theory.papers.mrmtl.gaps import SPREAD
from theory.papers.mrmtl.model import (
    ASSUMPTIONS,
    AVERAGED,
    ESTIMATES,
    LAM,
    LOCAL,
    ONE,
    RAW,
    RECORDS,
    SIGMA2,
    SIGMA2_DP,
    SIGMA2_LOC,
    ZERO,
    K,
    Silos,
    blend,
    equal_silos,
)

# --- Lemma 6.7 ----------------------------------------------------------------------------------------------

CONDITIONAL = Variable(
    "conditional", "choice", "0: averaged over everything; 1: given w_hat_k and w_hat_rest, as printed",
    choices=(0, 1), default=0,
)  # fmt: skip
DIFFERENCE = Variable("d", "real", "the realised difference w_hat_k - w_hat_rest (only for conditional = 1)", default=ZERO)


def _say_error(d: Derivation, silos: Silos, lam: Any) -> Any:
    d.say("w_hat_k(lam) - w_k = (w_hat_k + lam w_bar)/(1+lam) - w_k has no part in theta. Its mean square is",
          value := mse(blend(silos, lam) - silos.target))  # fmt: skip
    return value


def _lemma67_derive(lam: Any, K: Any, sigma2_loc: Any, tau2: Any, conditional: int, d: Any) -> Derivation:
    proof = Derivation()
    silos = equal_silos(K, tau2, sigma2_loc)
    error = _say_error(proof, silos, lam)
    if not conditional:
        return proof.conclude("This is the error, averaged over everything.", error)
    best = model.posterior(silos.target, [silos.local, silos.external])
    proof.say("Given w_hat_k and w_hat_rest, w_k has the variance", best.variance)
    alpha = (K + lam) / ((1 + lam) * K)
    off = simplest(alpha - best.weights[0])
    proof.say("w_hat_k(lam) is off its mean mu_k by the following multiple of d = w_hat_k - w_hat_rest:", off)
    value = proof.say("so the conditional error is", best.variance + (off * d) ** 2)
    apart = silos.local - silos.external
    proof.say("d has the mean square", spread := covariance(apart, apart))
    proof.say("so that on average over d the printed value comes back; the difference is",
              simplest(best.variance + off**2 * spread - error))  # fmt: skip
    return proof.conclude("Given the estimates the error depends on them:", value)


def _lemma67_oracle(lam: Any, K: Any, sigma2_loc: Any, tau2: Any, conditional: int, d: Any) -> Any:
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    if not conditional:
        return model.concrete_mse(clients, lam)
    rest = model.plain_mean(clients, 0)
    weights, variance = clients.posterior(clients.parameter[0], [clients.message[0], rest])
    own = 1 - model.pull(lam) * (1 - 1 / K)
    return rational(variance) + ((own - rational(weights[0])) * d) ** 2


def _lemma67_computed(lam: float, K: float, sigma2_loc: float, tau2: float, conditional: int, d: float) -> float:
    if not conditional:
        return mean_regularized.mse(lam, sigma2_loc, tau2, K)
    keep, follow = limits.split(lam)
    # own weight minus the best one, from products that keep the digits of small ones
    off = (1 - 1 / K) * (keep * limits.share(sigma2_loc, tau2) - follow * limits.share(tau2, sigma2_loc))
    return mean_regularized.optimal_mse(sigma2_loc, tau2, K) + (off * d) ** 2


def _lemma67_simulate(lam: float, K: int, sigma2_loc: float, tau2: float,
                      conditional: int) -> simulation.Simulation | None:  # fmt: skip
    if conditional:
        return None
    return simulation.mean_squares(
        model.local_silos(tau2, [sigma2_loc] * K), 0, model.uniform(K), [model.error_at(lam)],
        [f"MSE at lam = {lam:g}"],
    )  # fmt: skip


register(
    Claim(
        id="mrmtl:lem6.7",
        title="Error of MR-MTL at any lam",
        place="Section 6, Lemma 6.7; Appendix E.4, (37)-(38)",
        statement="Mean squared error of w_hat_k(lam); printed as an expectation given the estimates and the datasets.",
        latex=r"""\mathcal{E}(\lambda)\triangleq\mathbb{E}\left[(w_{k}-\hat{w}_{k}(\lambda))^{2}\mid\hat{w}_{k},%
            \hat{w}_{\setminus k},\{X_{k}\}_{k\in[K]}\right]=\left(1-\frac{1}{K}\right)%
            \frac{\sigma_{\mathrm{loc}}^{2}+\lambda^{2}\tau^{2}}{(\lambda+1)^{2}}+\frac{\sigma_{\mathrm{loc}}^{2}}{K}""",
        kind="identity",
        variables=(LAM, *LOCAL, CONDITIONAL, DIFFERENCE),
        examples=(
            {"lam": 2, "K": 3, "sigma2_loc": 1, "tau2": "1/2"},
            {"lam": "inf", "K": 4, "sigma2_loc": 1, "tau2": 2},
            {"lam": "1/2", "K": 5, "sigma2_loc": 1, "tau2": 1},
        ),
        printed=lambda lam, K, sigma2_loc, tau2: (
            (1 - 1 / K) * (sigma2_loc + lam**2 * tau2) / (lam + 1) ** 2 + sigma2_loc / K
        ),
        derive=_lemma67_derive,
        oracle=_lemma67_oracle,
        computed=_lemma67_computed,
        simulate=_lemma67_simulate,
        model=("Value(Personal)",),
        condition=lambda conditional: sp.false if conditional else sp.true,
        condition_text="conditional == 0 (the error averaged over everything)",
        counterexample={"lam": 0, "K": 2, "sigma2_loc": 1, "tau2": 1, "conditional": 1, "d": 0},
        assumes=ESTIMATES,
        unit="variance",
        assumptions=ASSUMPTIONS,
        related=("mrmtl:lem6.1", "mrmtl:lem6.2:var"),
        remark="""Given the estimates the error is sigma_w^2 + (mu_k - w_hat_k(lam))^2, a random number unless lam is
            lambda*; the printed value is its average. Given the datasets too it is again another random number with the
            same average.""",
    )
)

STEP = Variable("step", "nonnegative", "distance from the optimum: judged at lambda* + step and lambda*/(1 + step)")


def _quasiconvex_derive(step: Any, K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d = Derivation()
    lam = sp.Symbol("lam", nonnegative=True)
    error = d.lemma("mrmtl:lem6.7", "the error is", lam=lam, K=K, sigma2_loc=sigma2_loc, tau2=tau2)
    slope = simplest(sp.diff(error, lam))
    d.say("Its derivative by lam has the sign of lam tau2 - sigma2_loc, for it is", slope)
    d.say("so the error falls up to lambda* = sigma2_loc/tau2 and rises after it: it is quasi-convex.")
    best = sigma2_loc / tau2
    return d.conclude(
        "Derivative at lambda* + step, and minus the derivative at lambda*/(1 + step):",
        (simplest(slope.subs(lam, best + step)), simplest(-slope.subs(lam, best / (1 + step)))),
    )


def _quasiconvex_oracle(step: Any, K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Any, Any]:
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    mean, local, target = model.plain_mean(clients), clients.message[0], clients.parameter[0]
    at = [rational(clients.mse(local + (mean - local).times(u), target)) for u in (-1, 0, 1)]
    curvature, slope = at[0] + at[2] - 2 * at[1], (at[2] - at[0]) / 2

    def derivative(lam: Any) -> Any:
        # the error is a quadratic in u = lam/(1+lam), fixed by three values; du/dlam = 1/(1+lam)^2
        return (slope + curvature * model.pull(lam)) / (1 + lam) ** 2

    best, _ = model.concrete_optimum(clients)
    return derivative(best + step), -derivative(best / (1 + step))


def _quasiconvex_simulate(step: float, K: int, sigma2_loc: float,
                          tau2: float) -> simulation.Simulation | None:  # fmt: skip
    if step == 0:
        return None
    move = simulation.vector(1, p=-1.0, e=-1.0, l=-1.0, a0=1.0)
    above, below = sigma2_loc / tau2 + step, sigma2_loc / (tau2 * (1 + step))
    pairs = [(model.error_at(lam), sign * 2 / (1 + lam) ** 2 * move) for sign, lam in ((1, above), (-1, below))]
    return simulation.mean_products(
        model.local_silos(tau2, [sigma2_loc] * K), 0, model.uniform(K), pairs,
        ["derivative above lambda*", "minus the derivative below lambda*"],
    )  # fmt: skip


register(
    Claim(
        id="mrmtl:lem6.7:quasiconvex",
        title="Utility is quasi-concave in lam",
        place="Section 6, text after Lemma 6.7",
        statement="""The error falls up to lambda* and rises after it (the utility is quasi-concave). Judged: the derivative
            above lambda* and minus the derivative below it are at least 0.""",
        latex=r"\text{utility as a function of }\lambda\text{ would have a quasi-concave shape}",
        kind="order",
        variables=(STEP, K, SIGMA2_LOC, SPREAD),
        examples=(
            {"step": 2, "K": 3, "sigma2_loc": 1, "tau2": 1},
            {"step": 3, "K": 4, "sigma2_loc": 1, "tau2": "1/2"},
        ),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_quasiconvex_derive,
        oracle=_quasiconvex_oracle,
        simulate=_quasiconvex_simulate,
        shifts=lambda K, **_: {K: 1 + sp.Symbol("others", nonnegative=True)},
        not_computed=Exempt(kind="part", of=("mrmtl:lem6.7",)),
        entries=("derivative at lambda* + step", "minus the derivative at lambda*/(1 + step)"),
        assumes=AVERAGED,
        tight=Tight(at={"step": 0, "K": 3, "sigma2_loc": 1, "tau2": 1}),
        unit="variance",
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.3",),
        model=("Unimodal",),
    )
)


# --- Theorem 6.8 --------------------------------------------------------------------------------------------

ANY_SIGMA2 = Variable("sigma2", "positive", SIGMA2.meaning + "; it cancels", default=ONE)
ANY_TAU2 = Variable("tau2", "nonnegative", "variance of the silos' centres; it cancels", default=ONE)


def _say_cost(d: Derivation, lam: Any, K: Any, sampling: Any, privacy: Any, tau2: Any) -> Any:
    private = d.lemma("mrmtl:lem6.7", "with privacy", lam=lam, K=K, sigma2_loc=sampling + privacy, tau2=tau2)
    public = d.lemma("mrmtl:lem6.7", "without", lam=lam, K=K, sigma2_loc=sampling, tau2=tau2)
    return d.say("Sampling noise and heterogeneity cancel in the difference,", simplest(private - public))


def _thm68_derive(lam: Any, K: Any, n: Any, sigma2_dp: Any, sigma2: Any, tau2: Any) -> Derivation:
    d = Derivation()
    sampling, privacy = sp.symbols("s v", positive=True)
    d.say("Write s = sigma2/n for the sampling variance and v = sigma2_dp/n^2 for the privacy noise in w_hat_k.")
    cost = _say_cost(d, lam, K, sampling, privacy, tau2)
    return d.conclude("Putting v back in:", cost.subs({sampling: sigma2 / n, privacy: sigma2_dp / n**2}))


def _cost_oracle(lam: Any, K: Any, sampling: Any, privacy: Any, tau2: Any) -> Any:
    private, public = (model.concrete_equal(K, tau2, sampling, v) for v in (privacy, 0))
    return model.concrete_mse(private, lam) - model.concrete_mse(public, lam)


def _thm68_simulate(lam: float, K: int, n: int, sigma2_dp: float, sigma2: float,
                    tau2: float) -> simulation.Simulation | None:  # fmt: skip
    # K silos without privacy, and K carriers of privacy noise alone, so that both errors share their draws
    fed = simulation.federation([K, K], [tau2, 0.0], [sigma2 / n, 0.0], [0.0, sigma2_dp / n**2])
    nothing = np.zeros(K)
    own = np.eye(K)[0]
    weights = [[*model.uniform(K), *nothing], [*nothing, *model.uniform(K)], [*nothing, *own]]
    u = 1.0 if np.isinf(lam) else lam / (1 + lam)
    public = simulation.vector(3, p=-u, e=1 - u, a0=u)
    private = public + simulation.vector(3, a1=u, a2=1 - u)
    return model.gap(fed, 0, weights, [private, public], "private minus non-private MSE")


register(
    Claim(
        id="mrmtl:thm6.8",
        title="Utility cost of privacy",
        place="Section 6, Theorem 6.8",
        statement="How much privacy adds to the mean squared error of MR-MTL at strength lam.",
        latex=r"""\Delta_{\mathrm{DP}}(\lambda)=\left(1-\frac{1}{K}\right)\frac{1}{(\lambda+1)^{2}}%
            \frac{\sigma_{\mathrm{DP}}^{2}}{n^{2}}+\frac{\sigma_{\mathrm{DP}}^{2}}{Kn^{2}}""",
        kind="identity",
        variables=(LAM, K, RECORDS, SIGMA2_DP, ANY_SIGMA2, ANY_TAU2),
        examples=(
            {"lam": 1, "K": 3, "n": 2, "sigma2_dp": 8, "sigma2": 1, "tau2": "1/2"},
            {"lam": "1/2", "K": 4, "n": 5, "sigma2_dp": 50},
        ),
        printed=lambda lam, K, n, sigma2_dp: (1 - 1 / K) * (1 / (lam + 1) ** 2) * sigma2_dp / n**2 + sigma2_dp / (K * n**2),
        derive=_thm68_derive,
        oracle=lambda lam, K, n, sigma2_dp, sigma2, tau2: _cost_oracle(lam, K, sigma2 / n, sigma2_dp / n**2, tau2),
        computed=mean_regularized.privacy_gap,
        simulate=_thm68_simulate,
        model=("Value(Personal, Personal)",),
        assumes=AVERAGED,
        unit="variance",
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.8:conditional",),
        remark="The errors are averaged over everything; as Lemma 6.7 prints them they are mrmtl:thm6.8:conditional.",
    )
)


PRIVATE_DIFFERENCE = Variable("d_private", "real", "the same difference of the private estimates", default=ZERO)


def _thm68_conditional_derive(
    lam: Any, K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, conditional: int, d: Any, d_private: Any
) -> Derivation:
    proof = Derivation()
    sampling, privacy = sigma2 / n, sigma2_dp / n**2
    at = {"lam": lam, "K": K, "tau2": tau2, "conditional": conditional}
    private = proof.lemma("mrmtl:lem6.7", "with privacy", sigma2_loc=sampling + privacy, d=d_private, **at)
    public = proof.lemma("mrmtl:lem6.7", "without", sigma2_loc=sampling, d=d, **at)
    return proof.conclude("Their difference:", simplest(private - public))


def _thm68_conditional_oracle(
    lam: Any, K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, conditional: int, d: Any, d_private: Any
) -> Any:
    def error(noise: Any, apart: Any) -> Any:
        clients = model.concrete_equal(K, tau2, sigma2 / n, noise)
        if not conditional:
            return model.concrete_mse(clients, lam)
        seen = [clients.message[0], model.plain_mean(clients, 0)]
        weights, variance = clients.posterior(clients.parameter[0], seen)
        return rational(variance) + ((1 - model.pull(lam) * (1 - 1 / K) - rational(weights[0])) * apart) ** 2

    return error(sigma2_dp / n**2, d_private) - error(0, d)


register(
    Claim(
        id="mrmtl:thm6.8:conditional",
        title="Utility cost of privacy as the theorem defines it",
        place="Section 6, Theorem 6.8, with the errors of Lemma 6.7",
        statement="""How much privacy adds to the error, where both errors are as in Lemma 6.7: expectations given w_hat_k
            and w_hat_rest (and the datasets).""",
        latex=r"""\Delta_{\mathrm{DP}}(\lambda)\triangleq\mathcal{E}^{\mathrm{DP}}(\lambda)-\mathcal{E}(\lambda)=\left(1-%
            \frac{1}{K}\right)\frac{1}{(\lambda+1)^{2}}\frac{\sigma_{\mathrm{DP}}^{2}}{n^{2}}+%
            \frac{\sigma_{\mathrm{DP}}^{2}}{Kn^{2}}""",
        kind="identity",
        variables=(LAM, *RAW, CONDITIONAL, DIFFERENCE, PRIVATE_DIFFERENCE),
        examples=({"lam": 1, "K": 3, "n": 2, "sigma2": 1, "sigma2_dp": 8, "tau2": "1/2"},),
        printed=lambda lam, K, n, sigma2_dp: (1 - 1 / K) / (lam + 1) ** 2 * sigma2_dp / n**2 + sigma2_dp / (K * n**2),
        derive=_thm68_conditional_derive,
        oracle=_thm68_conditional_oracle,
        condition=lambda conditional: sp.false if conditional else sp.true,
        condition_text="conditional == 0 (the errors averaged over everything)",
        counterexample={
            "lam": 1, "K": 2, "n": 1, "sigma2": 1, "sigma2_dp": 1, "tau2": 1, "conditional": 1, "d": 0, "d_private": 0,
        },
        not_computed=Exempt(kind="difference", of=("mrmtl:lem6.7",)),
        simulate=lambda conditional, d, d_private, **v: None if conditional else _thm68_simulate(**v),
        unit="variance",
        assumes=ESTIMATES,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.8", "mrmtl:lem6.7"),
        remark="""Given the estimates the cost depends on how far apart they are, and can be negative; the printed value is
            its average.""",
        model=("Value(Personal, Personal)",),
    )
)  # fmt: skip


def _factor_derive(lam: Any, K: Any) -> Derivation:
    d = Derivation()
    x = sp.Symbol("lam", nonnegative=True)
    cost = d.lemma("mrmtl:thm6.8", "per unit of noise, the cost is", lam=x, K=K, n=ONE, sigma2_dp=ONE)
    ratio = simplest(cost.subs(x, 0) / cost)
    d.say("The cost at lam = 0 is this many times that at lam:", ratio)
    end = d.say("For lam to infinity the ratio tends to", limit(ratio, x, sp.oo))
    d.say("and before that it falls short of this by", simplest(end - ratio))
    return d.conclude("The ratio at lam, and its limit:", (ratio.subs(x, lam), end))


def _cost_ratio(lam: Any, K: Any) -> Any:
    """Variance of the privacy noise in the estimate at lam = 0 over that at lam."""

    def cost(strength: Any) -> Any:
        noise = blend(equal_silos(K, ZERO, ZERO, ONE), strength)
        return covariance(noise, noise)

    return cost(ZERO) / cost(lam)


def _factor_oracle(lam: Any, K: Any) -> tuple[Any, Any]:
    def cost(strength: Any) -> Any:
        return _cost_oracle(strength, K, ONE, 2 * ONE, ONE)

    return cost(ZERO) / cost(lam), cost(ZERO) / cost(sp.oo)


def _factor_simulate(lam: float, K: int) -> simulation.Simulation:
    noise = model.raw_silos(0.0, [0.0] * K, [1.0] * K)
    errors = [model.error_at(x) for x in (0.0, lam, np.inf)]
    sizes = [(1 - 1 / K) / (1 + lam) ** 2 + 1 / K, 1 / K]
    return simulation.Simulation(
        simulation.mean_squares(noise, 0, model.uniform(K), errors).experiment,
        (
            simulation.Ratio("noise at 0 over noise at lam", [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], sizes[0], 0),
            simulation.Ratio("noise at 0 over noise of FedAvg", [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], sizes[1], 1),
        ),
    )


register(
    Claim(
        id="mrmtl:thm6.8:factor",
        title="Privacy costs fall by up to a factor of K",
        place="Section 6, text after Theorem 6.8",
        statement="""With a larger lam the utility cost from privacy is mitigated by up to a factor of K. Judged: cost at lam
            = 0 over cost at lam is at most K, and tends to K.""",
        latex=r"""\text{with a larger }\lambda\text{, the utility cost from privacy can be smoothly mitigated by up to a
            factor of }K""",
        kind="upper bound",
        variables=(LAM, K),
        examples=({"lam": 1, "K": 3}, {"lam": 9, "K": 10}),
        printed=lambda K: (K, K),
        relation="<=",
        derive=_factor_derive,
        oracle=_factor_oracle,
        approach=lambda t, K: (None, _cost_ratio(t, K)),
        computed=lambda lam, K: tuple(
            mean_regularized.privacy_gap(0.0, K, 1, 1.0) / mean_regularized.privacy_gap(x, K, 1, 1.0) for x in (lam, np.inf)
        ),
        shifts=lambda K, **_: {K: 1 + sp.Symbol("others", nonnegative=True)},
        simulate=_factor_simulate,
        entries=("cost at 0 over cost at lam", "its limit for lam to infinity"),
        assumes=AVERAGED,
        tight=Tight(at={"lam": 1, "K": 3}, ratio="3/2"),
        unit="dimensionless",
        remark="The factor K is approached and not attained at any finite lam; FedAvg (lam = inf) has it.",
        model=("Value(Personal, Personal, Personal, Personal)", "Limit(Personal, Personal, Personal, Personal)"),
    )
)
