"""The paper's Gaussian model: variables, the personalised estimate as a form and on concrete clients.

Belongs here: what more than one module of this package uses. Does not belong here: printed formulas, claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from estimators.numerics.limits import share
from theory.engine import simulation
from theory.engine.bruteforce import Clients, Combination, fraction, rational, solve
from theory.engine.domain import Variable
from theory.engine.hierarchy import Form, Group

ONE, ZERO = sp.Integer(1), sp.Integer(0)

M = Variable("m", "size", "clients")
M2 = Variable("m", "size", "clients", low=2)
N = Variable("n", "size", "samples per client")
D = Variable("d", "size", "coordinates, which are independent copies of each other", default=ONE)
SIGMA2_THETA = Variable("sigma2_theta", "nonnegative", "variance of the clients' parameters around their mean mu")
SIGMA2_THETA_POSITIVE = Variable("sigma2_theta", "positive", "variance of the clients' parameters around their mean mu")
SIGMA2_X = Variable("sigma2_x", "positive", "variance of one sample around the client's parameter")
SIGMA2_Q = Variable("sigma2_q", "nonnegative", "variance of the noise that quantiser or privacy add to a message")
GAUSSIAN = (M, N, D, SIGMA2_THETA, SIGMA2_X)
GAUSSIAN_EXAMPLES = (
    {"m": 4, "n": 2, "sigma2_theta": 1, "sigma2_x": 3},
    {"m": 3, "n": 1, "d": 2, "sigma2_theta": "1/2", "sigma2_x": 1},
)


def printed_weight(sigma2_theta: Any, sigma2_x: Any, n: Any) -> Any:
    """The weight a of Theorem 1 as (3) prints it."""
    return sigma2_theta / (sigma2_theta + sigma2_x / n)


def printed_risk(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, d: Any = ONE) -> Any:
    """The bound of Theorem 1, d sigma2_x/n ((1-a)/m + a)."""
    a = printed_weight(sigma2_theta, sigma2_x, n)
    return d * sigma2_x / n * ((1 - a) / m + a)


def groups(m: Any, sigma2_theta: Any, s: Any, sigma2_q: Any = ZERO) -> tuple[Group, Group]:
    """The client itself and the m - 1 others; `s` is the variance of a sample mean."""
    return Group("own", ONE, sigma2_theta, s, sigma2_q), Group("others", m - 1, sigma2_theta, s, sigma2_q)


def server_mean(own: Group, others: Group, m: Any) -> Form:
    """The plain mean of all messages."""
    return (1 / sp.sympify(m)) * (own.messages() + others.messages())


def personal_error(own: Group, others: Group, m: Any, a: Any) -> Form:
    """Error of a times the own mean plus (1 - a) times the server's mean."""
    return a * own.estimates() + (1 - a) * server_mean(own, others, m) - own.parameters()


# --- the oracle's side: concrete clients and exact rationals ------------------------------------------------


def concrete(m: Any, sigma2_theta: Any, s: Any, sigma2_q: Any = 0) -> Clients:
    """m clients, one object each; `s` is the variance of a sample mean."""
    return Clients([sigma2_theta] * int(m), [s] * int(m), [sigma2_q] * int(m))


def concrete_weight(sigma2_theta: Any, s: Any) -> Any:
    """The weight of Theorem 1 by conditioning two concrete clients: what a client's own mean counts more than the other."""
    clients = concrete(2, sigma2_theta, s)
    own, other = clients.posterior(clients.parameter[0], clients.estimate)[0]
    return rational(own - other)


def concrete_risk(m: Any, a: Any, sigma2_theta: Any, s: Any, sigma2_q: Any = 0) -> Any:
    """Risk of client 0 with weight a on its own mean, term by term (quick for thousands of clients too)."""
    clients = concrete(m, sigma2_theta, s, sigma2_q)
    part = (1 - fraction(a)) / len(clients)
    terms = {name: part * c for message in clients.message for name, c in message.terms.items()}
    terms["phi"] = 1 - fraction(a)
    estimate = Combination(terms) + clients.estimate[0].times(a)
    return rational(clients.mse(estimate, clients.parameter[0]))


def posterior_variance(prior: Any, noise: Sequence[Any]) -> Any:
    """Variance of a N(known, prior) quantity given raw observations of it, by the normal equations."""
    v = fraction(prior)
    gram = [[v + (fraction(s) if i == j else 0) for j in range(len(noise))] for i, s in enumerate(noise)]
    return rational(v - v * sum(solve(gram, [v] * len(noise))))


def mobius_limit(function: Callable[[Any], Any]) -> Any:
    """Limit at infinity of (A + B x)/(C + D x) from exact values at 1, 2, 3 (cross-ratios are preserved)."""
    f1, f2, f3 = (function(sp.Integer(x)) for x in (1, 2, 3))
    if f1 == f2 == f3:
        return f1
    return ((f3 - f2) * f1 + (f1 - f2) * f3) / (f1 + f3 - 2 * f2)


# --- float64 and simulation ---------------------------------------------------------------------------------


def own_weight(sigma2_theta: float, s: float) -> tuple[float, float]:
    """The weight a and its complement, both to full precision."""
    return float(share(sigma2_theta, s)), float(share(s, sigma2_theta))


def simulate_theorem1(m: int, n: int, d: int, sigma2_theta: float, sigma2_x: float) -> simulation.Simulation:
    """Squared error of Theorem 1's estimate over the prior, summed over d coordinates."""
    return simulate_personal(m, own_weight(sigma2_theta, sigma2_x / n)[0], sigma2_theta, sigma2_x / n, d=d)


def simulate_personal(
    m: int,
    a: float,
    sigma2_theta: float,
    s: float,
    sigma2_q: float = 0.0,
    shared_noise: int = 0,
    unit: float = 1.0,
    label: str = "mean squared error of client 0",
    d: int = 1,
    entry: int | None = None,
) -> simulation.Simulation:
    """Squared error of client 0 in one of d alike coordinates, in units of `unit`; raw noise of every client.

    Noise that all messages share is that of one more client with nothing else to say.
    """
    sizes = [m, 1] if shared_noise else [m]
    noise = [0.0, sigma2_q] if shared_noise else [sigma2_q]
    fed = simulation.federation(sizes, [sigma2_theta, 0.0][: len(sizes)], [s, 0.0][: len(sizes)], noise)
    weights = np.append(np.full(m, 1.0 / m), np.ones(len(sizes) - 1))
    error = simulation.vector(1, p=a - 1, e=a, a0=1 - a) / np.sqrt(unit)
    drawn = simulation.mean_squares(fed, 0, weights, [error])
    reading = simulation.Mean(
        label, [1.0], of=lambda risk: (risk if entry is None else risk[entry]) / d, back=lambda mean: mean * d
    )
    return simulation.Simulation(drawn.experiment, (reading,))
