"""Privacy of DP-AdaPeD: what its clipped, noisy local steps cost a client over all rounds.

Model: in each of T/tau rounds K of m clients take part; each takes tau local steps, and in each step adds Gaussian noise to
a clipped gradient of the common model (norm C1, variance sigma2_q1 per coordinate) and of psi (C2, sigma2_q2).  The
guarantee is for one whole client (user level).  Conversion to (eps, delta) is in ``privacy``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from estimators.accounting.privacy import ORDERS, epsilon_from_rdp
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import quiet, quotient
from estimators.numerics.validation import choice, count, finite, nonnegative, paired, positive

__all__ = ["SHIFTS", "adaped_epsilon", "adaped_rdp"]

SHIFTS = {"zero-out": 1.0, "replace": 2.0}  # largest change of a clipped gradient, in clipping norms


@paired
def adaped_rdp(
    *,
    order: ArrayLike,
    tau: ArrayLike,
    T: ArrayLike,
    K: ArrayLike,
    m: ArrayLike,
    C1: ArrayLike,
    sigma2_q1: ArrayLike,
    C2: ArrayLike = 0.0,
    sigma2_q2: ArrayLike = 1.0,
    adjacency: str = "replace",
    average: bool = False,
) -> Floats:
    """Renyi divergence of all messages of DP-AdaPeD; upper bound, exact for a server that sees every message.

    (T/tau) log(1 + (K/m) (exp((order-1) x) - 1)) / (order-1) with x = order tau s^2 (C1^2/sigma2_q1 + C2^2/sigma2_q2) / 2,
    s = 1 where one client's gradients are set to zero ("zero-out"), s = 2 where its data are replaced ("replace").  Any
    way of drawing clients will do that includes each with probability at most K/m, afresh in every round.  Where tau
    does not divide T the unfinished round is charged in part, though nothing of it is sent.
    Claims: generative:thm7:valid, generative:thm7:averaged.

    Parameters
    ----------
    order : number > 1, or array of them.
    tau, T, K, m : whole numbers >= 1, local steps per round, steps in all, clients per round, clients (K <= m).
    C1, C2 : clipping norms >= 0; sigma2_q1, sigma2_q2 : noise variances > 0 per step, in squared units of C1, C2.
    adjacency : "replace" or "zero-out".
    average : whether only averages of the K clients are seen (trusted server); then, while C2 is 0, tau in x may be
        replaced by tau^2/K where that is less, and the number is no longer exact.

    Returns
    -------
    float or array like `order`, in nats.

    >>> float(adaped_rdp(order=2, tau=4, T=4, K=1, m=1, C1=1, sigma2_q1=1))
    16.0
    """
    order = finite("order", order)
    if (order <= 1).any():
        raise ValueError(f"order must be > 1, got {order.min()}")
    tau, T, K, m = count("tau", tau), count("T", T), count("K", K), count("m", m)
    if (m < K).any():
        raise ValueError(f"K must be at most m, got K = {K} of m = {m} clients")
    shift = SHIFTS[choice("adjacency", adjacency, tuple(SHIFTS))]
    signal = nonnegative("C1", C1) ** 2 / positive("sigma2_q1", sigma2_q1)
    C2 = nonnegative("C2", C2)
    signal = signal + C2**2 / positive("sigma2_q2", sigma2_q2)
    hidden = np.where(average & (C2 == 0), np.minimum(tau, tau**2 / K), tau)
    round_ = order * hidden * shift**2 * signal / 2
    grown, share = (order - 1) * round_, K / m
    with quiet():
        small = np.log1p(share * np.expm1(np.minimum(grown, 1.0)))
        large = grown + np.log(share) + np.log1p((1 / share - 1) * np.exp(-grown))
        one = np.where(share == 1, round_, quotient(np.where(grown < 1, small, large), order - 1))
    return (T / tau * one)[()]


@paired
def adaped_epsilon(*, delta: float, orders: ArrayLike = ORDERS, conversion: str = "improved", **parameters: Any) -> float:
    """Smallest eps at `delta` that `adaped_rdp` gives for one whole client; an upper bound.

    Parameters as in `adaped_rdp`, but for `orders`, an array of numbers > 1, in place of `order`;
    `delta` and `conversion` as in ``privacy.epsilon_from_rdp``.

    >>> round(adaped_epsilon(delta=1e-4, tau=5, T=100, K=20, m=60, C1=1.0, sigma2_q1=400.0), 3)
    2.567
    """
    orders = np.atleast_1d(finite("orders", orders))
    return float(epsilon_from_rdp(orders, adaped_rdp(order=orders, **parameters), delta=delta, conversion=conversion))
