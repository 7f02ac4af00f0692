"""What the proofs of Appendix E pass through: estimates around the centres, errors of the two ends, matched weights.

Belongs here: (28)-(30), (32), (33), (35), (40)-(43), (48). Does not belong here: the results that follow.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from estimators.closed_forms import mean_regularized
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.exemption import Exempt
from theory.engine.hierarchy import CENTRE, best_blend, mse, posterior
from theory.engine.registry import register
from theory.papers.mrmtl import model
from theory.papers.mrmtl.model import (
    ASSUMPTIONS,
    AVERAGED,
    ESTIMATES,
    GIVEN_DATA,
    LOCAL,
    LOCAL_EXAMPLES,
    PRIVACY,
    RAW,
    RAW_EXAMPLES,
    SAMPLING,
    UNEQUAL,
    UNEQUAL_ASSUMPTIONS,
    UNEQUAL_EXAMPLES,
    concrete_unequal,
    equal_silos,
    local_variance,
    others,
    unequal_silos,
)
from theory.papers.mrmtl.optimum import GAP

_AROUND = ("variance around theta", "variance around w_k")


# --- (29), (30), (41)-(43) --------------------------------------------------------------------------------------


def _around_simulate(fed: simulation.Federation, k: int) -> simulation.Simulation:
    """Mean squares of w_hat_rest around theta and around w_k."""
    errors = [simulation.vector(1, a0=1.0), simulation.vector(1, p=-1.0, a0=1.0)]
    return simulation.mean_squares(fed, k, model.uniform(fed.count, k), errors, _AROUND)


def _equal_around_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d = Derivation()
    silos = equal_silos(K, tau2, sigma2_loc)
    theta = d.say("w_hat_rest is the mean of K-1 estimates, each off theta by centre and local noise:",
                  mse(silos.external - CENTRE))  # fmt: skip
    centre = d.say(
        "w_k is off theta by its own independent deviation, so around w_k it is", mse(silos.external - silos.target)
    )
    return d.conclude("Both variances:", (theta, centre))


def _equal_around_oracle(K: Any, sigma2_loc: Any, tau2: Any) -> tuple[Any, Any]:
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    rest = model.plain_mean(clients, 0)
    return tuple(rational(clients.mse(rest, x)) for x in (clients.centre, clients.parameter[0]))


register(
    Claim(
        id="mrmtl:eq29",
        title="The others' mean as an observation of theta and of w_k",
        place="Appendix E.4, proof of Lemma 6.2, (29), (30)",
        statement="Variance of w_hat_rest around theta, and around w_k. Printed as given the data sets; judged over all.",
        latex=r"""\hat{z}_{\setminus k}\sim\mathcal{N}\left(0,\frac{\tau^{2}+\sigma_{\mathrm{loc}}^{2}}{K-1}\right),\quad
            z_{\setminus k}\sim\mathcal{N}\left(0,\tau^{2}+\frac{\tau^{2}+\sigma_{\mathrm{loc}}^{2}}{K-1}\right)\equiv%
            \mathcal{N}\left(0,\frac{K\tau^{2}+\sigma_{\mathrm{loc}}^{2}}{K-1}\right)""",
        kind="identity",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=lambda K, sigma2_loc, tau2: ((tau2 + sigma2_loc) / (K - 1), (K * tau2 + sigma2_loc) / (K - 1)),
        derive=_equal_around_derive,
        oracle=_equal_around_oracle,
        not_computed=Exempt(kind="few"),
        simulate=lambda K, sigma2_loc, tau2: _around_simulate(model.local_silos(tau2, [sigma2_loc] * K), 0),
        entries=_AROUND,
        unit="variance",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:lem6.2:var", "mrmtl:eq43"),
        remark="""(28) and (29) speak of what is left when the data sets are given; with them given the sampling part is
            fixed and only the privacy noise is random (mrmtl:lem6.2:var).""",
        model=("Value(Server)", "Value(Mixed)"),
    )
)


def _unequal_around_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    silos = unequal_silos(sigma2_loc_k, tau2, k)
    theta = d.say("The others' mean around theta:", mse(silos.external - CENTRE))
    centre = d.say("Around w_k, whose deviation is independent of theirs:", mse(silos.external - silos.target))
    return d.conclude("Both variances:", (theta, centre))


def _unequal_around_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> tuple[Any, Any]:
    clients = concrete_unequal(sigma2_loc_k, tau2)
    rest = model.plain_mean(clients, k)
    return tuple(rational(clients.mse(rest, x)) for x in (clients.centre, clients.parameter[k]))


def _eq43_printed(sigma2_loc_k: list[Any], tau2: Any, k: int) -> tuple[Any, Any]:
    count = sp.Integer(len(sigma2_loc_k))
    local = sum(others(sigma2_loc_k, k)) / (count - 1) ** 2
    return tau2 / (count - 1) + local, count * tau2 / (count - 1) + local


register(
    Claim(
        id="mrmtl:eq43",
        title="The others' mean among unequal silos",
        place="Appendix E.5, (40), (41), (42), (43)",
        statement="Variance of w_hat_rest around theta, and around w_k, when the silos' local variances differ.",
        latex=r"""\hat{w}_{\setminus k}=\theta+\mathcal{N}\left(0,\frac{\tau^{2}}{K-1}+%
            \frac{\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}{(K-1)^{2}}\right)=w_{k}+\mathcal{N}\left(0,\frac{K\tau^{2}}{K-1}%
            +\frac{\sum_{j\neq k}\tilde{\sigma}_{j}^{2}}{(K-1)^{2}}\right)""",
        kind="identity",
        variables=UNEQUAL,
        examples=UNEQUAL_EXAMPLES,
        printed=_eq43_printed,
        derive=_unequal_around_derive,
        oracle=_unequal_around_oracle,
        not_computed=Exempt(kind="part", of=("mrmtl:lemE.4:var",)),
        simulate=lambda sigma2_loc_k, tau2, k: _around_simulate(model.local_silos(tau2, sigma2_loc_k), k),
        entries=_AROUND,
        unit="variance",
        assumes=AVERAGED,
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:lemE.4:var", "mrmtl:eq29"),
        remark="Verified for 2 and 3 silos.",
        model=("Value(Server)", "Value(Mixed)"),
    )
)


# --- (33), (35) ---------------------------------------------------------------------------------------------------


def _local_error_derive(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, given_data: int) -> Derivation:
    d = Derivation()
    silos = equal_silos(K, tau2, SAMPLING, PRIVACY)
    if given_data:
        own = posterior(silos.target, [silos.data])
        d.say("Given X_k alone, under the flat prior w_k is around the mean x_k of the data, with variance", own.variance)
        noise = d.say("and w_hat_k is x_k plus independent privacy noise of variance", mse(silos.local - silos.data))
        value = d.say("The two add up to", own.variance + noise)
    else:
        value = d.say("w_hat_k is off w_k by sampling and privacy noise:", mse(silos.local - silos.target))
    return d.conclude("With s = sigma2/n and v = sigma2_dp/n^2:", model.in_records(value, n, sigma2, sigma2_dp))


def _local_error_oracle(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, given_data: int) -> Any:
    clients = model.concrete_equal(K, tau2, sigma2 / n, sigma2_dp / n**2)
    if not given_data:
        return rational(clients.mse(clients.message[0], clients.parameter[0]))
    _, spread = clients.posterior(clients.parameter[0], [clients.estimate[0]])
    return rational(spread + clients.mse(clients.message[0], clients.estimate[0]))


register(
    Claim(
        id="mrmtl:prop6.5:local",
        title="Error of local training",
        place="Section 6, Proposition 6.5; Appendix E.4, (33)",
        statement="Mean squared error of w_hat_k given the silo's own data, as printed, and averaged over everything.",
        latex=r"""\mathcal{E}_{\mathrm{loc}}\triangleq\mathbb{E}\left[(w_{k}-\hat{w}_{k})^{2}\mid
            X_{k}\right]=\sigma_{\mathrm{loc}}^{2}""",
        kind="identity",
        variables=(*RAW, GIVEN_DATA),
        examples=RAW_EXAMPLES,
        printed=lambda n, sigma2, sigma2_dp: local_variance(n, sigma2, sigma2_dp),
        derive=_local_error_derive,
        oracle=_local_error_oracle,
        computed=lambda n, sigma2, sigma2_dp: mean_regularized.local_variance(sigma2, n, sigma2_dp),
        simulate=lambda K, n, sigma2, sigma2_dp, tau2, given_data: (
            None
            if given_data
            else simulation.mean_squares(
                model.raw_silos(tau2, [sigma2 / n] * K, [sigma2_dp / n**2] * K),
                0,
                model.uniform(K),
                [simulation.vector(1, e=1.0, l=1.0)],
                ["MSE of w_hat_k"],
            )
        ),
        unit="variance",
        assumes=ESTIMATES,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:eq5", "mrmtl:prop6.5"),
        remark="""Given X_k alone both readings agree: under the flat prior one's own data say nothing of the error. Given
            the others' data too they do not (mrmtl:prop6.6:fed).""",
        model=("Value(Own)",),
    )
)


def _fed_error_derive(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, given_data: int, d: Any) -> Derivation:
    proof = Derivation()
    silos = equal_silos(K, tau2, SAMPLING, PRIVACY)
    if not given_data:
        value = proof.say("w_bar is off w_k by the others' deviations and the mean noise:", mse(silos.mean - silos.target))
        return proof.conclude("Putting s and v back in:", model.in_records(value, n, sigma2, sigma2_dp))
    best = posterior(silos.target, [silos.data, silos.external_data])
    proof.say("Given all data w_k has the variance", best.variance)
    off = proof.say("and a mean that is off the data's mean by this multiple of d = x_k - x_rest:",
                    simplest(best.weights[0] - 1 / K))  # fmt: skip
    noise = proof.say("w_bar is the data's mean plus privacy noise of variance", PRIVACY / K)
    value = best.variance + (off * d) ** 2 + noise
    return proof.conclude("Putting s and v back in:", model.in_records(value, n, sigma2, sigma2_dp))


def _fed_error_oracle(K: Any, n: Any, sigma2: Any, sigma2_dp: Any, tau2: Any, given_data: int, d: Any) -> Any:
    clients = model.concrete_equal(K, tau2, sigma2 / n, sigma2_dp / n**2)
    mean, target = model.plain_mean(clients), clients.parameter[0]
    if not given_data:
        return rational(clients.mse(mean, target))
    weights, spread = clients.posterior(target, clients.estimate)
    noise = clients.mse(mean, model.plain_mean(clients, private=False))
    return rational(spread + noise) + ((rational(weights[0]) - 1 / K) * d) ** 2


register(
    Claim(
        id="mrmtl:prop6.6:fed",
        title="Error of FedAvg",
        place="Section 6, Proposition 6.6; Appendix E.4, (35) and proofs of Propositions 6.5 and 6.6",
        statement="Mean squared error of w_bar around w_k; printed as an expectation given all data sets.",
        latex=r"""\mathcal{E}_{\mathrm{fed}}\triangleq\mathbb{E}\left[(w_{k}-\bar{w})^{2}\mid\{X_{k}\}_{k\in[K]}\right]=%
            \frac{\sigma_{\mathrm{loc}}^{2}+(K-1)\tau^{2}}{K}""",
        kind="identity",
        variables=(*RAW, GIVEN_DATA, GAP),
        examples=RAW_EXAMPLES,
        printed=lambda K, n, sigma2, sigma2_dp, tau2: (local_variance(n, sigma2, sigma2_dp) + (K - 1) * tau2) / K,
        derive=_fed_error_derive,
        oracle=_fed_error_oracle,
        computed=lambda K, n, sigma2, sigma2_dp, tau2, given_data, d: (
            mean_regularized.optimal_mse(sigma2 / n, tau2, K)
            + ((1 - 1 / K) * tau2 / (tau2 + sigma2 / n) * d) ** 2
            + sigma2_dp / n**2 / K
            if given_data
            else mean_regularized.mse(float("inf"), mean_regularized.local_variance(sigma2, n, sigma2_dp), tau2, K)
        ),
        simulate=lambda K, n, sigma2, sigma2_dp, tau2, given_data, d: (
            None
            if given_data
            else simulation.mean_squares(
                model.raw_silos(tau2, [sigma2 / n] * K, [sigma2_dp / n**2] * K),
                0,
                model.uniform(K),
                [simulation.vector(1, p=-1.0, a0=1.0)],
                ["MSE of w_bar"],
            )
        ),
        condition=lambda given_data: sp.false if given_data else sp.true,
        condition_text="given_data == 0 (the error averaged over everything)",
        counterexample={"K": 2, "n": 1, "sigma2": 1, "sigma2_dp": 0, "tau2": 1, "given_data": 1, "d": 0},
        unit="variance",
        assumes=ESTIMATES,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:prop6.6", "mrmtl:lem6.7"),
        remark="""Given all data the error depends on how far the silo's data are from the others'; the printed value is its
            average.""",
        model=("Value(Mixed)",),
    )
)


# --- (32), (48) ---------------------------------------------------------------------------------------------------


def _matched_derive(K: Any, sigma2_loc: Any, tau2: Any) -> Derivation:
    d = Derivation()
    silos = equal_silos(K, tau2, sigma2_loc)
    u, _ = best_blend(silos.target, silos.local, silos.mean)
    d.say("The best (1-u) w_hat_k + u w_bar has u =", u)
    return d.conclude("and w_hat_k enters both, so that its weight is", simplest(1 - u + u / K))


def _matched_oracle(K: Any, sigma2_loc: Any, tau2: Any) -> Any:
    clients = model.concrete_equal(K, tau2, sigma2_loc)
    weights, _ = clients.posterior(clients.parameter[0], [clients.message[0], model.plain_mean(clients, 0)])
    return rational(weights[0])


register(
    Claim(
        id="mrmtl:eq32",
        title="Matched weights at lambda*",
        place="Appendix E.4, proof of Theorem 6.3, (32)",
        statement="Weight of the own estimate at lambda*, which is sigma_w^2/sigma_loc^2 with sigma_w^2 of Lemma 6.2.",
        latex=r"""\frac{K+\lambda^{*}}{(1+\lambda^{*})K}=\frac{\sigma_{w}^{2}}{\sigma_{\mathrm{loc}}^{2}}=\frac{1}%
            {\sigma_{\mathrm{loc}}^{2}}\cdot\left(\frac{1}{\sigma_{\mathrm{loc}}^{2}}+\frac{K-1}%
            {K\tau^{2}+\sigma_{\mathrm{loc}}^{2}}\right)^{-1}""",
        kind="identity",
        variables=LOCAL,
        examples=LOCAL_EXAMPLES,
        printed=lambda K, sigma2_loc, tau2: 1 / sigma2_loc / (1 / sigma2_loc + (K - 1) / (K * tau2 + sigma2_loc)),
        derive=_matched_derive,
        oracle=_matched_oracle,
        computed=lambda K, sigma2_loc, tau2: mean_regularized.own_weight(mean_regularized.strength(sigma2_loc, tau2), K),
        simulate=lambda K, sigma2_loc, tau2: simulation.Simulation(
            (found := model.combination(model.local_silos(tau2, [sigma2_loc] * K))).experiment, found.readings[:1]
        ),
        unit="dimensionless",
        assumes=AVERAGED,
        assumptions=ASSUMPTIONS,
        related=("mrmtl:thm6.3", "mrmtl:lem6.2:var"),
        model=("BestMixture", "BestBlend"),
    )
)


def _silo_matched_derive(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Derivation:
    d = Derivation()
    silos = unequal_silos(sigma2_loc_k, tau2, k)
    u, _ = best_blend(silos.target, silos.local, silos.mean)
    d.say("The best (1-u) w_hat_k + u w_bar, u of any sign, has u =", u)
    return d.conclude("and w_hat_k enters both, so that its weight is", simplest(1 - u + u / len(sigma2_loc_k)))


def _silo_matched_oracle(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    clients = concrete_unequal(sigma2_loc_k, tau2)
    weights, _ = clients.posterior(clients.parameter[k], [clients.message[k], model.plain_mean(clients, k)])
    return rational(weights[0])


def _eq48_printed(sigma2_loc_k: list[Any], tau2: Any, k: int) -> Any:
    count, own = sp.Integer(len(sigma2_loc_k)), sigma2_loc_k[k]
    around = (count - 1) * count * tau2 + sum(others(sigma2_loc_k, k))
    return 1 / (1 / own + (count - 1) ** 2 / around) / own


register(
    Claim(
        id="mrmtl:eq48",
        title="Matched weights at lambda_k*",
        place="Appendix E.5, proof of Theorem E.5, (48)",
        statement="""Weight of silo k's own estimate at lambda_k*, which is sigma_bar_k^2 of Lemma E.4 over its local
            variance.""",
        latex=r"\frac{K+\lambda^{*}_{k}}{(1+\lambda^{*}_{k})K}=\frac{\bar{\sigma}_{k}^{2}}{\tilde{\sigma}_{k}^{2}}",
        kind="identity",
        variables=UNEQUAL,
        examples=UNEQUAL_EXAMPLES,
        printed=_eq48_printed,
        derive=_silo_matched_derive,
        oracle=_silo_matched_oracle,
        computed=lambda sigma2_loc_k, tau2, k: (
            mean_regularized.silo_posterior_variance(k, sigma2_loc_k, tau2) / sigma2_loc_k[k]
        ),
        simulate=lambda sigma2_loc_k, tau2, k: simulation.Simulation(
            (found := model.combination(model.local_silos(tau2, sigma2_loc_k), k)).experiment, found.readings[:1]
        ),
        unit="dimensionless",
        assumes=AVERAGED,
        assumptions=UNEQUAL_ASSUMPTIONS,
        related=("mrmtl:thmE.5", "mrmtl:lemE.4:mu", "mrmtl:algA1:silos"),
        remark="""For lam of any sign. That the estimate has these weights is so for a w_bar that stays the uniform mean of
            the estimates, and not in Algorithm A1: mrmtl:algA1:silos. Verified for 2 and 3 silos.""",
        model=("BestMixture",),
    )
)
