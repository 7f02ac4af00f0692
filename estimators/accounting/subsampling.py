"""Gaussian noise on random batches: its privacy by the way the batches are drawn, and the noise of many clients at once.

Belongs here: "poisson" (every row by itself; one row added or removed) and "fixed" (so many rows without replacement; one
row replaced), by Renyi divergences and, with the extra ``dp``, by privacy loss distributions.  Does not belong here: budgets
over several releases (``accounting``), training (``federated.privacy``).

Fixed batches.  Replacing a row moves the clipped sum of a batch that has it by up to m = 2/z deviations.  By the
amplification of Balle, Barthe and Gaboardi (2018) two neighbours' releases are at most as easy to tell apart, at every level
t >= 1, as Q' = (1-q) P + q Q from P, where P = N(0, 1) and Q = N(m, 1); replacing is symmetric, so at t < 1 as P from Q'.
Integrating this profile gives the moment

    E_P[L^a] + E_P[L^(1-a) - 1 + (a-1)(L-1); L > 1] - E_P[L^a - 1 - a(L-1); L < 1],   L = dQ'/dP,

of order a: the best that the profile allows, hence never above the bound of Wang, Balle and Kasiviswanathan (2019).
"""

from functools import lru_cache

import numpy as np

from estimators.accounting import privacy
from estimators.accounting.budget import ORDERS, Guarantee, loss_distributions, pld_sampled_gaussian_epsilon
from estimators.accounting.mechanisms import gaussian_epsilon, gaussian_sigma
from estimators.numerics.validation import choice, count, nonnegative, number, paired, positive, probability, single

__all__ = [
    "SAMPLINGS",
    "divergences",
    "fixed_batch_rdp",
    "noise_multiplier_for",
    "pld_fixed_batch_epsilon",
    "sampled_guarantee",
]

SAMPLINGS = {"poisson": ("row add-remove", 1.0), "fixed": ("row", 2.0)}
"""Adjacency of each way of sampling, and by how many clipping norms a neighbour moves a full batch's sum."""
ACCOUNTANTS = ("rdp", "pld")
CLAIMS = ("mrmtl:appA:composition:adaptive", "mrmtl:eq13")


@paired
def divergences(sampling, multiplier, rate):
    """Renyi divergences of one step at ``ORDERS`` under the adjacency of ``SAMPLINGS[sampling]``; upper bounds.

    Parameters
    ----------
    sampling : key of ``SAMPLINGS``; multiplier : number > 0; rate : number in (0, 1].

    >>> divergences("fixed", 2.0, 1.0)[:2].tolist()
    [1.0, 1.05]
    """
    rate = single(probability, "rate", rate)
    return known_divergences(choice("sampling", sampling, SAMPLINGS), single(positive, "multiplier", multiplier), rate)


@lru_cache(maxsize=4096)
def known_divergences(sampling, multiplier, rate):
    """Return what `divergences` does, of checked arguments."""
    shift = SAMPLINGS[sampling][1] / multiplier
    if rate == 1:
        return np.array(ORDERS) * shift**2 / 2
    from estimators.accounting import subsampling_kernels

    return subsampling_kernels.curve(rate, shift, np.array(ORDERS, float), sampling == "fixed")


@paired
def fixed_batch_rdp(*, noise_multiplier, sampling_rate, order):
    """Renyi divergence of Gaussian noise on a batch drawn without replacement; one row replaced; an upper bound.

    Claim: mrmtl:appA:amplification.

    Parameters
    ----------
    noise_multiplier : number > 0, deviation of the noise on the clipped sum over the clipping norm.
    sampling_rate : number in (0, 1], batch size over rows; order : number >= 2, or array.

    >>> round(float(fixed_batch_rdp(noise_multiplier=2.0, sampling_rate=0.1, order=2)), 6)
    0.023134
    """
    z, q = single(positive, "noise_multiplier", noise_multiplier), single(positive, "sampling_rate", sampling_rate)
    order = number("order", order)
    if not (order >= 2).all():
        raise ValueError(f"order must be >= 2, got {order.min()}")
    if probability("sampling_rate", q) == 1:
        return (order * 2 / z**2)[()]
    from estimators.accounting import subsampling_kernels

    return subsampling_kernels.curve(q, 2 / z, np.atleast_1d(order).ravel(), True).reshape(order.shape)[()]


@paired
def pld_fixed_batch_epsilon(*, noise_multiplier, sampling_rate, rounds, delta, grid=1e-3):
    """Eps of `rounds` fixed-size batches by privacy loss distributions; one row replaced; an upper bound.

    The profile of one step (see the module) is joined by straight lines at losses `grid` apart (Doroshenko et al. 2022) and
    composed by the optional package ``dp-accounting``.

    Raises
    ------
    ImportError
        If ``dp-accounting`` is not installed.
    """
    z, q = single(positive, "noise_multiplier", noise_multiplier), single(positive, "sampling_rate", sampling_rate)
    rounds, delta = int(single(count, "rounds", rounds)), single(probability, "delta", delta)
    pld, pmfs = loss_distributions(
        "dp_accounting.pld.privacy_loss_distribution", "dp_accounting.pld.pld_pmf", instead='take accountant="rdp"'
    )
    reach = np.log1p(probability("sampling_rate", q) * np.expm1(min((2 / z) * (2 / z / 2 + 10), 700.0)))
    losses = np.arange(-int(np.ceil(reach / grid)), int(np.ceil(reach / grid)) + 1)
    level = np.abs(losses) * grid
    ratio = np.log1p(np.expm1(np.minimum(level, 700.0)) / q)  # of the two laws of a batch with the row
    above = q * privacy.gaussian_delta(eps=ratio, sensitivity=2.0, sigma=z)
    profile = np.where(losses >= 0, above, -np.expm1(-level) + np.exp(-level) * above)
    step = pld.PrivacyLossDistribution(pmfs.create_pmf_pessimistic_connect_dots(grid, losses, np.clip(profile, 0, 1)))
    return max(0.0, float(step.self_compose(rounds).get_epsilon_for_delta(delta)))


def pld_epsilon(sampling, **arguments):
    """Eps by privacy loss distributions for either sampling."""
    return (pld_sampled_gaussian_epsilon if sampling == "poisson" else pld_fixed_batch_epsilon)(**arguments)


@paired
def noise_multiplier_for(*, eps, delta, sampling_rate, steps, sampling="poisson", accountant="rdp", rho=0.0):
    """Smallest noise multiplier with which so many steps are certified as (eps, delta)-private; on the safe side.

    Exact where every batch is all rows (sampling_rate 1), whatever the accountant.

    Parameters
    ----------
    eps : number > 0; delta : number in (0, 1); sampling_rate : number in (0, 1]; steps : whole number >= 0 over the whole
        training.
    sampling : a key of ``SAMPLINGS``, which names the adjacency.
    accountant : "rdp", Renyi divergences at ``accounting.ORDERS``; "pld", privacy loss distributions, which need less noise,
        seconds instead of milliseconds and the extra ``dp``; their multiplier is within 0.2 % of the smallest.
    rho : number >= 0, rate of zero-concentrated privacy of everything that is released beside the steps; accountant "rdp".

    Raises
    ------
    ValueError
        If no noise is enough: rho alone costs too much, or delta is too small for the orders.

    >>> round(noise_multiplier_for(eps=2.0, delta=1e-4, sampling_rate=0.02, steps=1000), 4)
    1.4281
    >>> round(noise_multiplier_for(eps=2.0, delta=1e-4, sampling_rate=0.02, steps=1000, sampling="fixed"), 4)
    3.1994
    """
    choice("sampling", sampling, SAMPLINGS)
    choice("accountant", accountant, ACCOUNTANTS)
    eps, delta = single(positive, "eps", eps), single(positive, "delta", delta)
    rate = single(positive, "sampling_rate", probability("sampling_rate", sampling_rate))
    if not delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    steps = int(single(count, "steps", steps, 0))
    rho = single(nonnegative, "rho", rho)
    if rho > 0 and accountant == "pld":
        raise ValueError('rho needs accountant="rdp": rho says nothing of privacy loss distributions')
    return known_multiplier(eps, delta, rate, steps, sampling, accountant, rho)


@lru_cache(maxsize=4096)
def known_multiplier(eps, delta, rate, steps, sampling, accountant, rho):
    """Return what `noise_multiplier_for` does, of checked arguments."""
    shift = SAMPLINGS[sampling][1]
    if rho > 0 and privacy.epsilon_from_zcdp(rho=rho, delta=delta) >= eps:
        raise ValueError(f"eps={eps:g} at delta={delta:g} is spent by rho={rho:g} before any step")
    if steps == 0:
        return 0.0
    if rate == 1 and rho > 0:
        return float(shift * np.sqrt(steps / (2 * (privacy.zcdp_from_epsilon(eps=eps, delta=delta) - rho))))
    if rate == 1:
        return float(np.sqrt(steps) * gaussian_sigma(eps=eps, delta=delta, sensitivity=shift)) * (1 + 1e-12)
    if accountant == "rdp":
        from estimators.accounting import subsampling_kernels

        orders, fixed = np.array(ORDERS, float), sampling == "fixed"
        most = subsampling_kernels.largest_shift(eps, delta, rate, steps, rho, orders, fixed, 0.1)
        if most == 0:
            raise ValueError(f"eps={eps:g} is out of reach at delta={delta:g}: raise eps or delta")
        return float(shift / most)
    enough = noise_multiplier_for(eps=eps, delta=delta, sampling_rate=rate, steps=steps, sampling=sampling)
    low, high = 0.5 * enough, enough
    while high - low > 2e-3 * high:
        middle = (low + high) / 2
        spent = pld_epsilon(sampling, noise_multiplier=middle, sampling_rate=rate, rounds=steps, delta=delta)
        low, high = (low, middle) if spent <= eps else (middle, high)
    return high


@paired
def sampled_guarantee(
    *, noise_multiplier, sampling_rate, steps, delta, sampling="poisson", accountant="rdp", trusted="client"
):
    """Guarantee of so many steps with this noise: what was run, whatever it was calibrated for; an upper bound.

    Exact where every batch is all rows.  With the accountant "pld" eps is the smaller of both accountants'.

    Parameters
    ----------
    noise_multiplier : number >= 0; steps : whole number >= 0; the others as in `noise_multiplier_for`.
    trusted : "client", whose rows are sampled; "server", who samples clients: the adjacency then speaks of clients.

    Returns
    -------
    Guarantee, its eps inf without noise.

    >>> g = sampled_guarantee(noise_multiplier=1.0, sampling_rate=0.01, steps=1000, delta=1e-5)
    >>> round(g.eps, 6), g.adjacency
    (2.101365, 'row add-remove')
    """
    adjacency, shift = SAMPLINGS[choice("sampling", sampling, SAMPLINGS)]
    choice("accountant", accountant, ACCOUNTANTS)
    z, q = single(nonnegative, "noise_multiplier", noise_multiplier), single(probability, "sampling_rate", sampling_rate)
    steps, delta = int(single(count, "steps", steps, 0)), single(number, "delta", delta)
    adjacency = adjacency.replace("row", "client") if trusted == "server" else adjacency
    least = np.finfo(float).tiny  # a Guarantee's eps is > 0
    if steps == 0 or q == 0:
        return Guarantee(least, delta, adjacency, trusted, "gaussian", rho=0.0)
    if z == 0:
        return Guarantee(np.inf, delta, adjacency, trusted, "gaussian", rho=np.inf)
    if q == 1:
        ratio = shift * np.sqrt(steps) / z
        eps = float(gaussian_epsilon(delta=delta, sensitivity=ratio, sigma=1.0))
        return Guarantee(
            max(eps, least), delta, adjacency, trusted, "gaussian", rho=ratio**2 / 2, claims=("mrmtl:sigma-dp:exact",)
        )
    spent = privacy.compose(divergences(sampling, z, q), steps)
    eps = float(privacy.epsilon_from_rdp(ORDERS, spent, delta=delta))
    if accountant == "pld":
        eps = min(eps, pld_epsilon(sampling, noise_multiplier=z, sampling_rate=q, rounds=steps, delta=delta))
    claims = CLAIMS if sampling == "poisson" else (*CLAIMS, "mrmtl:appA:amplification")
    return Guarantee(
        max(eps, least), delta, adjacency, trusted, "sampled gaussian", renyi=tuple(map(float, spent)), claims=claims
    )
