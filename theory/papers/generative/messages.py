"""Messages that carry the noise of a quantiser or of privacy: Theorem 2's error and its weight a.

Belongs here: (4)-(5) and (33)-(36). Does not belong here: particular quantisers and mechanisms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import gaussian
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.bruteforce import Combination, fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import Group, best_blend, covariance, mse
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import (
    M2,
    ONE,
    SIGMA2_Q,
    SIGMA2_THETA,
    SIGMA2_X,
    ZERO,
    D,
    N,
    concrete,
    groups,
    own_weight,
    personal_error,
    server_mean,
    simulate_personal,
)

SHARED_NOISE = Variable(
    "shared_noise",
    "choice",
    "0: the clients' mechanisms draw independent noise; 1: they share their randomness, so all add the same noise",
    choices=(0, 1),
    default=0,
)
FILLED = Variable(
    "filled", "fraction", "the mechanism's own variance as a share of sigma2_q, its bound", closed=True, default=ONE
)
NOISY = (M2, N, D, SIGMA2_THETA, SIGMA2_X, SIGMA2_Q, FILLED)


def noisy_weight(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Any:
    """The weight a as (5) prints it."""
    between = sigma2_theta + sigma2_q / (m - 1)
    return between / (between + sigma2_x / n)


def _mse_derive(
    m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any, filled: Any, shared_noise: int
) -> Derivation:
    proof = Derivation()
    a = proof.lemma("generative:thm2:a", "the weight a", m=m, n=n, sigma2_theta=sigma2_theta, sigma2_x=sigma2_x,
                    sigma2_q=sigma2_q)  # fmt: skip
    noise = proof.say("The mechanism adds noise of variance", filled * sigma2_q)
    own, others = groups(m, sigma2_theta, sigma2_x / n, ZERO if shared_noise else noise)
    error = personal_error(own, others, m, a)
    if shared_noise:
        proof.say("All messages carry one and the same noise, which the server's mean keeps in full.")
        error = error + (1 - a) * Group("common", ONE, ZERO, ZERO, noise).noise("l")
    else:
        proof.say(
            """Message k is xbar_k + l_k. As E[q(x)] = x for every x, l_k has no correlation with the sample means; the l_k
            are independent across clients."""
        )
    proof.say(
        "Coefficients of the client's own p and e in the error:",
        tuple(simplest(error.noise[own, kind]) for kind in "pe"),
    )
    one = proof.say("Squares times variances, summed:", mse(error))
    return proof.conclude("The d coordinates together:", d * one)


def _mse_oracle(
    m: Any, n: Any, d: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any, filled: Any, shared_noise: int
) -> Any:
    a = fraction(_a_oracle(m, n, sigma2_theta, sigma2_x, sigma2_q))
    clients = concrete(m, sigma2_theta, sigma2_x / n, filled * sigma2_q)
    messages = clients.message
    if shared_noise:
        messages = [y + Combination({"l0": fraction(1)}) for y in clients.estimate]
    mean = clients.weighted([fraction(1 / m)] * len(clients), messages)
    estimate = clients.estimate[0].times(a) + mean.times(1 - a)
    return d * rational(clients.mse(estimate, clients.parameter[0]))


def _mse_computed(
    m: int, n: int, d: int, sigma2_theta: float, sigma2_x: float, sigma2_q: float, filled: float, shared_noise: int
) -> float:
    if filled == 1 and not shared_noise:
        return gaussian.risk(sigma2_theta, sigma2_x, n, m, sigma2_q, d)
    a, pull = own_weight(sigma2_theta + sigma2_q / (m - 1), sigma2_x / n)
    sampling = sigma2_x / n * (a**2 + (1 + a) * pull / m)
    return d * (sampling + pull**2 * (sigma2_theta * (m - 1) / m + filled * sigma2_q / (1 if shared_noise else m)))


def _mse_simulate(
    m: int, n: int, d: int, sigma2_theta: float, sigma2_x: float, sigma2_q: float, filled: float, shared_noise: int
) -> simulation.Simulation:
    a = own_weight(sigma2_theta + sigma2_q / (m - 1), sigma2_x / n)[0]
    return simulate_personal(m, a, sigma2_theta, sigma2_x / n, filled * sigma2_q, shared_noise, d=d)


def _filled_shifts(m: Any, filled: Any, **_: Any) -> dict[Any, Any]:
    more, t = sp.symbols("more t", nonnegative=True)
    return {m: 2 + more, filled: t / (1 + t)}


register(
    Claim(
        id="generative:thm2:mse",
        title="Mean squared error with quantised or private messages",
        place="Section 2.1, Theorem 2, (4)-(5); proof in Section 5.1.2, (33)-(36)",
        statement="""With any unbiased mechanism q of mean squared error at most d sigma2_q, the estimate (4) with this
            weight a has at most this mean squared error.""",
        latex=r"""\mathbb{E}_{\bm{\theta}_{i},q,X_{1},\ldots,X_{m}}\|\widehat{\bm{\theta}}_{i}-\bm{\theta}_{i}\|^{2}\leq%
            \frac{d\sigma_{x}^{2}}{n}\Big{(}\frac{1-a}{m}+a\Big{)}\qquad\text{ where }\qquad
            a=\frac{\sigma_{\theta}^{2}+\nicefrac{{\sigma_{q}^{2}}}{{m-1}}}%
            {\sigma_{\theta}^{2}+\nicefrac{{\sigma_{q}^{2}}}{{m-1}}+\nicefrac{{\sigma_{x}^{2}}}{{n}}}""",
        kind="upper bound",
        variables=(*NOISY, SHARED_NOISE),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3, "sigma2_q": 2},
            {"m": 3, "n": 2, "sigma2_theta": 1, "sigma2_x": 3, "sigma2_q": 2, "filled": "1/2"},
            {"m": 3, "n": 1, "sigma2_theta": "1/2", "sigma2_x": 2, "sigma2_q": 1, "shared_noise": 1},
        ),
        printed=lambda m, n, d, sigma2_theta, sigma2_x, sigma2_q: (
            d * sigma2_x / n * ((1 - (a := noisy_weight(m, n, sigma2_theta, sigma2_x, sigma2_q))) / m + a)
        ),
        relation="<=",
        tight=Tight(at={"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3, "sigma2_q": 2}),
        assumes={"given": "nothing"},
        derive=_mse_derive,
        oracle=_mse_oracle,
        computed=_mse_computed,
        simulate=_mse_simulate,
        model=("Value(Mixed)",),
        shifts=_filled_shifts,
        condition=lambda shared_noise: sp.false if shared_noise else sp.true,
        condition_text="shared_noise == 0 (the mechanisms' noise is independent across clients)",
        counterexample={
            "m": 2,
            "n": 1,
            "sigma2_theta": 0,
            "sigma2_x": 1,
            "sigma2_q": 1,
            "shared_noise": 1,
        },
        remark="""Step (b) of the proof divides the noise by m, which needs independence across clients; Theorem 2 only asks
            for E[q(x)] = x and a bounded variance, which a mechanism that adds noise from a common seed meets too.""",
        unit="variance, summed over coordinates",
        related=("generative:thm1:mse",),
    )
)


def _a_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Derivation:
    d = Derivation()
    own, others = groups(m, sigma2_theta, sigma2_x / n, sigma2_q)
    target, local, shared = own.parameters(), own.estimates(), server_mean(own, others, m)
    d.say(
        "The error of (4) is e + (1-a)(mu_hat_q - xbar_i). Covariance of e with the difference:",
        simplest(covariance(local - target, shared - local)),
    )
    d.say("and variance of the difference:", simplest(covariance(shared - local, shared - local)))
    u, risk = best_blend(target, local, shared)
    d.say("The risk is a convex quadratic in 1 - a with its vertex at", u)
    d.say("where it is", risk)
    return d.conclude("So the best weight on the own mean is", simplest(1 - u))


def _a_objective(x: Any, m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Any:
    error = personal_error(*groups(m, sigma2_theta, sigma2_x / n, sigma2_q), m, x)
    return covariance(error, error)


def _a_oracle(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, sigma2_q: Any) -> Any:
    clients = concrete(m, sigma2_theta, sigma2_x / n, sigma2_q)
    mean = clients.weighted([fraction(1 / m)] * len(clients), clients.message)
    return 1 - rational(clients.best_blend(clients.parameter[0], clients.estimate[0], mean)[0])


def _a_simulate(m: int, n: int, sigma2_theta: float, sigma2_x: float, sigma2_q: float) -> simulation.Simulation:
    fed = simulation.federation([m], sigma2_theta, sigma2_x / n, sigma2_q)
    return simulation.optimal_blend(
        fed, 0, np.full(m, 1.0 / m), of=lambda own: (1 - own) / own, back=lambda lam: 1 / (1 + lam)
    )


register(
    Claim(
        id="generative:thm2:a",
        title="Best weight with quantised or private messages",
        place="Section 2.1, (4)-(5); proof in Section 5.1.2, step (c)",
        statement="""Among the estimates (4) this weight on the own mean has the least mean squared error, for independent
            noise of variance sigma2_q on every message.""",
        latex=r"""a=\frac{\sigma_{\theta}^{2}+\nicefrac{{\sigma_{q}^{2}}}{{m-1}}}%
            {\sigma_{\theta}^{2}+\nicefrac{{\sigma_{q}^{2}}}{{m-1}}+\nicefrac{{\sigma_{x}^{2}}}{{n}}}""",
        kind="optimum",
        variables=(M2, N, SIGMA2_THETA, SIGMA2_X, SIGMA2_Q),
        examples=(
            {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3, "sigma2_q": 2},
            {"m": 3, "n": 1, "sigma2_theta": 0, "sigma2_x": 1, "sigma2_q": 1},
        ),
        printed=noisy_weight,
        derive=_a_derive,
        oracle=_a_oracle,
        computed=lambda m, n, sigma2_theta, sigma2_x, sigma2_q: gaussian.shrinkage_factor(
            sigma2_theta, sigma2_x, n, sigma2_q, m
        ),
        simulate=_a_simulate,
        model=("BestMixture",),
        objective=_a_objective,
        decision="real",
        assumes={"own_noise": "in", "independence": "all", "pivot": "mean"},
        remark="""(4) uses the client's own message with its noise, although the client could replace it by its own mean; the
            best weight among (4) is what is claimed.""",
        unit="dimensionless",
        related=("generative:thm1:mse",),
    )
)

__all__ = ["noisy_weight"]
