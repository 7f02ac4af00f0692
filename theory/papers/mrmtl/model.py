"""The model of mean-regularised estimation, three times: symbolic, concrete, and as raw noise.

K silos.  Silo j's centre is w_j = theta + p_j, p_j ~ N(0, tau2), with a flat prior on theta; the mean of its
n records is x_j = w_j + e_j, e_j ~ N(0, sigma2/n); its private estimate is w_hat_j = x_j + l_j,
l_j ~ N(0, sigma2_dp/n^2).  w_hat_rest is the plain average of the other silos' estimates, w_bar that of all.

Belongs here: variables, and what several modules of this paper need. Does not belong here: printed formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from theory.engine import simulation
from theory.engine.bruteforce import Clients, Combination, fraction, rational, solve
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.hierarchy import Form, Group, Posterior, covariance, posterior

ONE, ZERO = sp.Integer(1), sp.Integer(0)

K = Variable("K", "size", "silos", low=2)
ANY_K = Variable("K", "size", "silos; the result does not depend on it", low=2, default=sp.Integer(3))
RECORDS = Variable("n", "size", "records per silo")
SIGMA2 = Variable("sigma2", "positive", "variance of a record around its silo's centre")
SIGMA2_DP = Variable("sigma2_dp", "nonnegative", "variance of the privacy noise in a silo's sum of records")
SIGMA2_LOC = Variable("sigma2_loc", "positive", "local variance, of w_hat_k around w_k: sigma2/n + sigma2_dp/n^2")
TAU2 = Variable("tau2", "nonnegative", "variance of the silos' centres around the common centre")
LAM = Variable("lam", "nonnegative", "regularisation strength")
GIVEN_DATA = Variable(
    "given_data", "choice", "0: given the private estimates alone; 1: given the silos' datasets too, as printed",
    choices=(0, 1), default=0,
)  # fmt: skip
SIGMA2_LOC_K = Variable("sigma2_loc_k", "positive", "local variance of each silo", lengths=(2, 3))
SILO = Variable("k", "choice", "the silo, from 0", choices=tuple(range(16)))

LOCAL = (K, SIGMA2_LOC, TAU2)
RAW = (K, RECORDS, SIGMA2, SIGMA2_DP, TAU2)
UNEQUAL = (SIGMA2_LOC_K, TAU2, SILO)
LOCAL_EXAMPLES = (
    {"K": 3, "sigma2_loc": 1, "tau2": "1/2"},
    {"K": 5, "sigma2_loc": "1/2", "tau2": 1},
)
RAW_EXAMPLES = (
    {"K": 3, "n": 2, "sigma2": 1, "sigma2_dp": 2, "tau2": 1},
    {"K": 4, "n": 10, "sigma2": 4, "sigma2_dp": 20, "tau2": "1/2"},
)
UNEQUAL_EXAMPLES = (
    {"sigma2_loc_k": [1, "1/2", 2], "tau2": 1, "k": 0},
    {"sigma2_loc_k": [1, 2], "tau2": "1/2", "k": 1},
)
ASSUMPTIONS = (
    "no clipping error (Assumption E.2)",
    "all silos alike (Assumption E.1)",
    "flat prior on theta",
)
# Answers to the engine's switches: one private estimate per silo, used by the silo and by all; then with errors averaged.
ESTIMATES = {
    "own_noise": "in",
    "noise": "reused",
    "prior": "flat",
    "clipping": "none",
    "independence": "given the centre",
}
AVERAGED = {**ESTIMATES, "given": "nothing"}
UNEQUAL_ASSUMPTIONS = ("no clipping error (Assumption E.2)", "flat prior on theta")


def local_variance(n: Any, sigma2: Any, sigma2_dp: Any) -> Any:
    """Variance of w_hat_k around w_k, for use in other formulas; derived in mrmtl:eq5."""
    return sigma2 / n + sigma2_dp / n**2


# --- symbolic -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silos:
    """Linear forms of one silo and the others: centre, data means, private estimates."""

    target: Form
    data: Form
    local: Form
    external_data: Form
    external: Form
    mean: Form


def _silos(own: Group, others: Sequence[Group], K: Any) -> Silos:
    def average(sums: Sequence[Form]) -> Form:
        return (1 / (K - 1)) * sum(sums, Form(ZERO))

    external = average([g.messages() for g in others])
    return Silos(
        own.parameters(), own.estimates(), own.messages(), average([g.estimates() for g in others]), external,
        (1 / K) * own.messages() + ((K - 1) / K) * external,
    )  # fmt: skip


def equal_silos(K: Any, tau2: Any, sampling: Any, privacy: Any = ZERO) -> Silos:
    """K silos alike; the variances of their sampling and privacy noise."""
    groups = [Group(name, size, tau2, sampling, privacy) for name, size in (("own", ONE), ("others", K - 1))]
    return _silos(groups[0], groups[1:], K)


def unequal_silos(sigma2_loc_k: Sequence[Any], tau2: Any, k: int) -> Silos:
    """Silo k and the others, each with its own local variance."""
    groups = [Group(f"silo {j}", ONE, tau2, s, ZERO) for j, s in enumerate(sigma2_loc_k)]
    return _silos(groups[k], groups[:k] + groups[k + 1 :], sp.Integer(len(groups)))


def blend(silos: Silos, lam: Any) -> Form:
    """The mean-regularised estimate (w_hat_k + lam w_bar)/(1 + lam)."""
    return (1 / (1 + lam)) * silos.local + (lam / (1 + lam)) * silos.mean


def blend_objective(silos: Silos, lam: Any, target: Form | None = None) -> Any:
    """Mean squared error of the mean-regularised estimate around the silo's centre (or another target)."""
    error = blend(silos, lam) - (target or silos.target)
    return covariance(error, error)


SAMPLING, PRIVACY = sp.symbols("s v", positive=True)


def say_posterior(d: Derivation, K: Any, tau2: Any, given_data: int) -> Posterior:
    """Posterior of w_k given w_hat_k, w_hat_rest and, with given_data, both data means.

    It is in terms of s and v; the weights are on w_hat_k, w_hat_rest and, with given_data, on x_k and x_rest.
    """
    silos = equal_silos(K, tau2, SAMPLING, PRIVACY)
    d.say(
        """Model: w_j = theta + p_j, data means x_j = w_j + e_j, estimates w_hat_j = x_j + l_j; the variances of p, e, l,
        with s = sigma2/n and v = sigma2_dp/n^2, are""",
        (tau2, SAMPLING, PRIVACY),
    )
    d.say(
        """The flat prior makes a posterior mean the combination of what is given with weights adding to one and the least
        error variance."""
    )
    if not given_data:
        best = posterior(silos.target, [silos.local, silos.external])
        d.say("The weights on w_hat_k and w_hat_rest are", best.weights)
        d.say("and the error variance is", best.variance)
        return best
    best = posterior(silos.target, [silos.data, silos.external_data])
    d.say(
        "Of records with Gaussian noise only the means matter. The weights on x_k and x_rest are",
        best.weights,
    )
    d.say("and the error variance is", best.variance)
    error = best.mean - silos.target
    noise = (silos.local - silos.data, silos.external - silos.external_data)
    d.say(
        """w_hat_k and w_hat_rest only add privacy noise to the data, with which this error is uncorrelated; so they say
        nothing more. Covariances:""",
        tuple(covariance(error, x) for x in noise),
    )
    return Posterior((ZERO, ZERO, *best.weights), best.mean, best.variance)


def in_records(value: Any, n: Any, sigma2: Any, sigma2_dp: Any) -> Any:
    """Put s = sigma2/n and v = sigma2_dp/n^2 back into a formula."""
    return value.subs({SAMPLING: sigma2 / n, PRIVACY: sigma2_dp / n**2})


# --- the oracle's side: concrete silos ----------------------------------------------------------------------


def concrete(tau2: Any, sampling: Sequence[Any], privacy: Sequence[Any]) -> Clients:
    """One object per silo; sampling and privacy noise per silo."""
    return Clients([tau2] * len(sampling), sampling, privacy)


def others(values: Sequence[Any], k: int) -> list[Any]:
    """All entries but that of silo k."""
    return [*values[:k], *values[k + 1 :]]


def concrete_equal(K: Any, tau2: Any, sampling: Any, privacy: Any = 0) -> Clients:
    """K concrete silos alike."""
    return concrete(tau2, [sampling] * int(K), [privacy] * int(K))


def concrete_unequal(sigma2_loc_k: Sequence[Any], tau2: Any) -> Clients:
    """Concrete silos of given local variances."""
    return concrete(tau2, sigma2_loc_k, [0] * len(sigma2_loc_k))


def plain_mean(clients: Clients, without: int | None = None, private: bool = True) -> Combination:
    """Plain average of the estimates (or data means) of all silos, or of all but one."""
    observed = clients.message if private else clients.estimate
    chosen = [o for j, o in enumerate(observed) if j != without]
    return clients.weighted([Fraction(1, len(chosen))] * len(chosen), chosen)


def pull(lam: Any) -> Any:
    """Weight of w_bar in the blend at strength lam, also for an infinite one."""
    return ONE if lam is sp.oo else lam / (1 + lam)


def concrete_mse(clients: Clients, lam: Any, k: int = 0) -> Any:
    """Exact mean squared error of silo k's blend."""
    local = clients.message[k]
    estimate = local + (plain_mean(clients) - local).times(pull(lam))
    return rational(clients.mse(estimate, clients.parameter[k]))


def concrete_optimum(clients: Clients, k: int = 0, target: Combination | None = None) -> tuple[Any, Any]:
    """Best strength over all reals and infinity, and the error there, by exact search."""
    u, risk = clients.best_blend(target or clients.parameter[k], clients.message[k], plain_mean(clients))
    return (sp.oo if u == 1 else rational(u / (1 - u))), rational(risk)


def minimise(objective: Callable[[list[Fraction]], Fraction], count: int) -> list[Fraction]:
    """The minimiser of a strictly convex quadratic of `count` variables, from its exact values only."""

    def at(*ones: int, sign: int = 1) -> Fraction:
        return objective([Fraction(sign * ones.count(i)) for i in range(count)])

    hessian = [[at(i, j) - at(i) - at(j) + at() for j in range(count)] for i in range(count)]
    slope = [(at(i) - at(i, sign=-1)) / 2 for i in range(count)]
    return solve(hessian, [-s for s in slope])


def impulses(K: Any) -> tuple[list[Fraction], list[Fraction]]:
    """Two sets of estimates: w_hat_0 = 1 and the others 0; w_hat_0 = 0 and the others unequal with mean 1."""
    size = int(K)
    return [Fraction(j == 0) for j in range(size)], [Fraction(2 * j, size) for j in range(size)]


def as_fraction(value: Any) -> Fraction:
    """A finite exact number as a Fraction."""
    return fraction(value)


# --- raw noise to simulate ----------------------------------------------------------------------------------


def raw_silos(tau2: float, sampling: Sequence[float], privacy: Sequence[float]) -> simulation.Federation:
    """Silos with their three noise terms each."""
    return simulation.federation([1] * len(sampling), tau2, sampling, privacy)


def local_silos(tau2: float, variances: Sequence[float]) -> simulation.Federation:
    """Silos of given local variances; half of each is drawn as sampling noise, half as privacy noise."""
    halves = np.asarray(variances, float) / 2
    return raw_silos(tau2, halves, halves)


def uniform(K: int, without: int | None = None) -> np.ndarray:
    """Weights of the plain average of all silos, or of all but one."""
    chosen = np.array([j != without for j in range(K)], float)
    return chosen / chosen.sum()


def error_at(lam: float, aggregates: int = 1) -> np.ndarray:
    """Form of the blend's error, (1-u) w_hat_k + u w_bar - w_k, with w_bar the first aggregate."""
    u = 1.0 if np.isinf(lam) else lam / (1 + lam)
    return simulation.vector(aggregates, p=-u, e=1 - u, l=1 - u, a0=u)


def stationary(fed: simulation.Federation, k: int = 0, data: bool = False) -> simulation.Simulation | None:
    """The optimal strength of silo k; with `data` the silo's data mean is the target."""
    return simulation.stationary_between(
        fed, k, uniform(fed.count), simulation.vector(1, p=1.0, e=1.0, l=1.0), simulation.vector(1, a0=1.0),
        simulation.vector(1, p=1.0, e=float(data)),
    )  # fmt: skip


def gap(fed: simulation.Federation, k: int, weights: Any, errors: Sequence[Any], label: str) -> simulation.Simulation:
    """Excess of the first error's mean square over the second's, paired draws."""
    return simulation.differences(fed, k, weights, errors, [1.0, -1.0], label)


def gap_of_rows(fed: simulation.Federation, k: int, rows: Sequence[Any], label: str) -> simulation.Simulation:
    """`gap` of two estimates given by their weights on all private estimates."""
    errors = [simulation.vector(2, p=-1.0, **{name: 1.0}) for name in ("a0", "a1")]
    return gap(fed, k, rows, errors, label)


def combination(fed: simulation.Federation, k: int = 0) -> simulation.Simulation:
    """The weights on w_hat_k and on w_hat_rest (entries 0 and 1) in the best combination of the two.

    Its error is uncorrelated with w_hat_k - w_hat_rest.
    """
    move = simulation.vector(1, p=1.0, e=1.0, l=1.0, a0=-1.0)
    spread = fed.message_variances
    size = spread[k] + float(np.sum(uniform(fed.count, k) ** 2 * spread))
    pairs = [(simulation.vector(1, p=1.0, a0=-1.0), move), (move, move)]
    label = "error against w_hat_k - w_hat_rest"
    return simulation.Simulation(
        simulation.mean_products(fed, k, uniform(fed.count, k), pairs).experiment,
        (
            simulation.Ratio(label, [1.0, 0.0], [0.0, 1.0], size, 0),
            simulation.Ratio(label, [-1.0, 1.0], [0.0, 1.0], size, 1),
        ),
    )


def divergence_moment(draw: Any, order: float, labels: Sequence[str], draws: int = 1) -> simulation.Simulation:
    """The mean of the likelihood ratio's power that a Renyi divergence is the logarithm of, over order - 1."""
    return simulation.sample_means(
        draw, labels, draws=draws, of=[lambda divergence: np.exp((order - 1) * divergence)],
        back=[lambda mean: np.log(mean) / (order - 1)],
    )  # fmt: skip
