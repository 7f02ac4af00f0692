"""Adaptive spending: what may be released next, how much and when to stop, may depend on all answers so far.

Let R_t(a) be the sum of the Renyi divergences of order a of the first t releases, each given those before it, and L_t the
privacy loss of all of them.  However later ones are chosen, exp((a-1) (L_t - R_t(a))) has mean at most 1 under the law in
the numerator, and does not rise on average (a supermartingale).  Two consequences:

- A *filter* has an order fixed in advance and stops before R(a) would pass a limit.  Then all that was released has a
  divergence of order a within the limit: adaptivity costs nothing (Feldman and Zrnic 2021; for (eps, delta) releases added
  plainly, the order inf, Rogers et al. 2016).  The order must be fixed, for the best one of several may depend on answers.
- An *odometer* gives an eps at any time and however one stops.  The average of those quantities over ``privacy.ORDERS``
  stays below 1/delta at all times with probability 1 - delta (Ville's inequality), so that L_t never passes the e with

      mean over a of exp((a-1) (e - R_t(a))) = 1/delta.

  This is the method of mixtures of Whitehouse et al. (2023) over orders instead of normal weights: for Gaussian noise within
  9 % of theirs tuned to the very answer, without tuning, and for any divergences.

Belongs here: those two numbers from divergences.  Does not belong here: budgets that keep to a filter (``budget``,
``budget_file``).
"""

from __future__ import annotations

import numpy as np

from estimators.accounting.privacy import ORDERS, epsilon_at_order
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet
from estimators.numerics.validation import fraction, nonnegative, paired, positive, single

__all__ = ["best_order", "filter_epsilon", "odometer_epsilon"]


@paired
def best_order(*, eps: float, delta: float) -> float:
    """Order of ``privacy.ORDERS`` at which (eps, delta) allows the most zero-concentrated privacy; to be fixed in advance.

    Inf, at which a budget adds up eps and delta, where eps is so small that none allows any.

    Parameters
    ----------
    eps : number > 0; delta : number in (0, 1).

    >>> best_order(eps=1.0, delta=1e-6)
    22.0
    """
    eps, delta = single(positive, "eps", eps), single(fraction, "delta", delta)
    orders = np.array(ORDERS, float)
    allowed = eps - epsilon_at_order(order=orders, rdp=0.0, delta=delta)
    return float(orders[np.argmax(allowed / orders)]) if allowed.max() > 0 else np.inf


@paired
def filter_epsilon(rdp: ArrayLike, *, order: float, delta: float) -> float:
    """Eps at `delta` of adaptive releases stopped by a filter at `order`, if its limit is what they have; upper bound.

    Parameters
    ----------
    rdp : array (orders,), their divergences at ``privacy.ORDERS`` added up; order : one of these.
    delta : number in (0, 1).

    >>> import numpy as np
    >>> round(filter_epsilon(0.03 * np.array(ORDERS), order=24.0, delta=1e-6), 4)
    1.1399
    """
    total, delta = curve(rdp)[place(order)], single(fraction, "delta", delta)
    return max(0.0, float(epsilon_at_order(order=order, rdp=total, delta=delta))) if total < np.inf else np.inf


@paired
def odometer_epsilon(rdp: ArrayLike, *, delta: float) -> float:
    """Eps at `delta` of adaptive releases at any time, whatever was chosen and however one stops; upper bound.

    Parameters
    ----------
    rdp : array (orders,), their divergences at ``privacy.ORDERS`` added up; delta : number in (0, 1).

    >>> import numpy as np
    >>> round(odometer_epsilon(0.03 * np.array(ORDERS), delta=1e-6), 4)
    1.4375
    """
    total, delta = curve(rdp), single(fraction, "delta", delta)
    if not total.any():
        return 0.0
    seen = np.isfinite(total)
    if not seen.any():
        return np.inf
    less, sums = np.array(ORDERS, float)[seen] - 1, total[seen]
    goal = np.log(len(ORDERS)) - np.log(delta)

    def excess(eps):
        with quiet():
            return float(np.logaddexp.reduce(less * (eps - sums)) - goal)

    low, high = float(np.min(sums)), float(np.min(sums + goal / less))  # too little for all orders; enough for one alone
    found = root(excess, low, high) if excess(high) > 0 else high
    return found * (1 + 1e-12) + 4e-12  # the root's tolerance


def curve(rdp: ArrayLike) -> np.ndarray:
    """Return divergences at all orders, checked."""
    total = nonnegative("rdp", rdp, infinite=True)
    if total.shape != (len(ORDERS),):
        raise ValueError(f"rdp must have one entry for each of the {len(ORDERS)} ORDERS, got shape {total.shape}")
    return total


def place(order: float) -> int:
    """Return the place of an order in ``privacy.ORDERS``."""
    if order not in ORDERS:
        raise ValueError(f"order must be one of privacy.ORDERS, such as best_order gives, got {order}")
    return ORDERS.index(order)
