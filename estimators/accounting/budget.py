"""What several private releases cost together, and the noise that a total allows.

Belongs here: a guarantee as data, a budget that adds guarantees up and refuses what exceeds it, calibration of noise to
any accountant.  The curves of single mechanisms are in ``privacy`` and ``mechanisms``; publishing the best of several
runs is in ``tuning``.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np

from estimators.accounting import privacy
from estimators.accounting.mechanisms import gaussian_epsilon, gaussian_sigma
from estimators.numerics.limits import quiet
from estimators.numerics.validation import choice, count, finite, nonnegative, number, paired, positive, probability, single

__all__ = [
    "ADJACENCIES",
    "ORDERS",
    "Budget",
    "Guarantee",
    "calibrate_noise",
    "composed_gaussian_epsilon",
    "composed_gaussian_sigma",
    "pld_sampled_gaussian_epsilon",
    "sampled_gaussian_guarantee",
    "tuned_noise_multiplier",
]

ADJACENCIES = {
    "row": "one row of a client takes any other value; the numbers of rows are public",
    "client": "all rows of one client take any other values; the numbers of rows and of clients are public",
    "row add-remove": "one row is added or removed",
    "client add-remove": "one client with all its rows is added or removed",
}
# Renyi orders with tenths up to 11: the best one for eps around 1 is not whole.
ORDERS = (*(k / 10 for k in range(20, 110)), *range(11, 65), 80, 96, 128, 192, 256, 512, 1024, 4096)
ROUNDING = 1e-9  # by which a sum of parts of a budget may exceed it


def budget_numbers(eps, delta):
    """Return eps in (0, inf] and delta in [0, 1) as floats."""
    eps, delta = single(number, "eps", eps), single(number, "delta", delta)
    if not eps > 0:
        raise ValueError(f"eps must be > 0, got {eps}; inf is no privacy")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    return eps, delta


@dataclass(frozen=True)
class Guarantee:
    """What a release protects, and how well: (eps, delta)-differential privacy with everything that it depends on.

    Parameters
    ----------
    eps : number > 0, or inf for no privacy; delta : number in [0, 1).
    adjacency : a key of ``ADJACENCIES``, which datasets are made hard to tell apart.
    trusted : "client" or "server", who sees the raw data; everybody else sees the release.
    mechanism : what randomises.  "gaussian" is the real-valued Gaussian, whose releases compose exactly.
    rho : number >= 0, the rate of zero-concentrated privacy that holds too, or None.
    renyi : tuple of the divergences at ``ORDERS`` that hold too, or None.
    claims : ids of the claims that it rests on.

    >>> print(Guarantee(1.0, 0.0, "client", "client", "two-point", claims=("generative:qpriv",)))
    eps=1, delta=0 (two-point): all rows of one client take any other values; the numbers of rows and of clients are public
    """

    eps: float
    delta: float
    adjacency: str
    trusted: str
    mechanism: str
    rho: float | None = None
    renyi: tuple[float, ...] | None = None
    claims: tuple[str, ...] = ()

    def __post_init__(self):
        budget_numbers(self.eps, self.delta)
        choice("adjacency", self.adjacency, ADJACENCIES)
        choice("trusted", self.trusted, ("client", "server"))
        if self.rho is not None:
            nonnegative("rho", self.rho, infinite=True)
        if self.renyi is not None and len(self.renyi) != len(ORDERS):
            raise ValueError(f"renyi must have one entry for each of the {len(ORDERS)} ORDERS, got {len(self.renyi)}")

    def __str__(self):
        return f"eps={self.eps:g}, delta={self.delta:g} ({self.mechanism}): {ADJACENCIES[self.adjacency]}"

    def covers(self, adjacency):
        """Whether the guarantee holds for that adjacency; replacing all rows includes replacing one."""
        return self.adjacency == adjacency or (self.adjacency, adjacency) in (
            ("client", "row"),
            ("client add-remove", "row add-remove"),
        )

    def divergences(self):
        """Return upper bounds on the Renyi divergences at ``ORDERS``, or None if nothing but (eps, delta) is known."""
        orders = np.array(ORDERS)
        bounds = [np.asarray(self.renyi)] if self.renyi is not None else []
        if self.rho is not None:
            bounds.append(self.rho * orders)
        if self.delta == 0:
            bounds.append(privacy.rdp_pure(self.eps, orders))
        return np.min(bounds, axis=0) if bounds else None

    def to_dict(self):
        """Return plain values for JSON; an infinite eps or rho is the string "inf"."""
        return {
            "eps": _plain(self.eps),
            "delta": float(self.delta),
            "adjacency": self.adjacency,
            "trusted": self.trusted,
            "mechanism": self.mechanism,
            "rho": None if self.rho is None else _plain(self.rho),
            "claims": list(self.claims),
        }

    @classmethod
    def from_dict(cls, data):
        """Return the guarantee that `to_dict` gave."""
        try:
            rho = data["rho"]
            return cls(
                eps=float(data["eps"]),
                delta=float(data["delta"]),
                adjacency=data["adjacency"],
                trusted=data["trusted"],
                mechanism=str(data["mechanism"]),
                rho=None if rho is None else float(rho),
                claims=tuple(map(str, data["claims"])),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"guarantee is incomplete or has wrong types: {error!r}") from None


def _plain(value):
    return "inf" if np.isinf(value) else float(value)


class Budget:
    """What one person or client has spent, and a refusal of what would exceed it.

    The total is the least of the bounds that hold: the exact curve if all releases are real-valued Gaussians; Renyi
    divergences added at every order of ``ORDERS`` (mrmtl:appA:composition:adaptive); plain sums of eps and delta.
    Releases known by (eps, delta) only are added plainly to the rest.  Later releases may depend on earlier answers;
    their eps, delta and mechanisms must have been planned without looking at those (otherwise the smaller of several
    bounds is not a valid stopping rule; Rogers et al. 2016).

    Parameters
    ----------
    eps : number > 0 or inf; delta : number in [0, 1); adjacency : key of ``ADJACENCIES``.

    >>> budget = Budget(eps=1.0, delta=1e-5, adjacency="row")
    >>> part = Guarantee(0.4, 0.0, "row", "client", "discrete-laplace")
    >>> budget.spend(part); budget.spend(part)
    >>> round(budget.spent(), 6), round(budget.left(), 6)
    (0.8, 0.2)
    >>> budget.spend(part)
    Traceback (most recent call last):
    ...
    ValueError: this release (eps=0.4, delta=0) would bring the total to eps=1.2 at delta=1e-05; the budget is eps=1
    """

    def __init__(self, *, eps, delta, adjacency):
        self.eps, self.delta = budget_numbers(eps, delta)
        self.adjacency = choice("adjacency", adjacency, ADJACENCIES)
        self.releases = []

    def check(self, guarantee):
        """Raise ValueError if the release has another adjacency or would exceed the budget."""
        if not isinstance(guarantee, Guarantee):
            raise ValueError(f"guarantee must be a Guarantee, got {type(guarantee).__name__}")
        if not guarantee.covers(self.adjacency):
            raise ValueError(
                f"guarantee is for the adjacency {guarantee.adjacency!r}, the budget for {self.adjacency!r}; "
                "they do not add up"
            )
        total = total_epsilon((*self.releases, guarantee), self.delta)
        if total > self.eps * (1 + ROUNDING):
            raise ValueError(
                f"this release (eps={guarantee.eps:g}, delta={guarantee.delta:g}) would bring the total to "
                f"eps={total:g} at delta={self.delta:g}; the budget is eps={self.eps:g}"
            )

    def spend(self, guarantee):
        """Enter a release, or raise ValueError and enter nothing.  Call it before the release leaves."""
        self.check(guarantee)
        self.releases.append(guarantee)

    def spent(self):
        """Upper bound on eps at the budget's delta of all releases together; 0 before the first."""
        return total_epsilon(tuple(self.releases), self.delta)

    def left(self):
        """What is missing to the budget's eps, never below 0."""
        return max(0.0, self.eps - self.spent()) if np.isfinite(self.eps) else np.inf


@lru_cache(maxsize=4096)
def total_epsilon(guarantees, delta):
    """Return the smallest eps at `delta` that the known bounds give for a tuple of releases together."""
    if not guarantees:
        return 0.0
    found = [(g, g.divergences()) for g in guarantees]
    plain = [g for g, curve in found if curve is None]
    curves = [curve for _, curve in found if curve is not None]
    bounds = [np.inf]
    if sum(g.delta for g in guarantees) <= delta * (1 + ROUNDING):
        bounds.append(sum(g.eps for g in guarantees))
    rest = delta - sum(g.delta for g in plain)
    if curves and (rest > 0 or delta == 0 == rest):
        bounds.append(sum(g.eps for g in plain) + privacy.epsilon_from_rdp(ORDERS, sum(curves), delta=rest))
    if all(g.mechanism == "gaussian" and g.rho is not None for g in guarantees):
        with quiet():
            ratio = np.sqrt(2 * sum(g.rho for g in guarantees))
        bounds.append(np.inf if np.isinf(ratio) else gaussian_epsilon(delta=delta, sensitivity=ratio, sigma=1.0))
    return float(min(bounds))


# --- compositions of Gaussian releases ---------------------------------------------------------------------------------


@paired
def composed_gaussian_epsilon(*, sensitivities, sigmas, delta):
    """Smallest eps at `delta` of several Gaussian releases together; exact.

    They are as hard to tell apart as one release of sensitivity sqrt(sum (sensitivity / sigma)^2) and deviation 1 (Dong,
    Roth and Su 2022).  All under one adjacency, that of the sensitivities.  Claims: mrmtl:sigma-dp:vector,
    mrmtl:sigma-dp:exact.

    Parameters
    ----------
    sensitivities, sigmas : arrays of one length, numbers >= 0 in the units of each release; delta : number in [0, 1].

    >>> round(float(composed_gaussian_epsilon(sensitivities=[3.0, 4.0], sigmas=[18.65316, 18.65316], delta=1e-5)), 6)
    1.0
    """
    sensitivities = np.atleast_1d(nonnegative("sensitivities", sensitivities))
    sigmas = np.atleast_1d(nonnegative("sigmas", sigmas))
    if sensitivities.shape != sigmas.shape or sigmas.ndim != 1:
        raise ValueError(f"sensitivities and sigmas must be 1-d of one length, got {sensitivities.shape}, {sigmas.shape}")
    with quiet():
        ratios = np.where(sensitivities == 0, 0.0, sensitivities / sigmas)
    if np.isinf(ratios).any():
        return 0.0 if single(probability, "delta", delta) == 1 else np.inf
    return gaussian_epsilon(delta=delta, sensitivity=np.sqrt(np.sum(ratios**2)), sigma=1.0)


@paired
def composed_gaussian_sigma(*, sensitivities, shares, eps, delta):
    """Deviations of several Gaussian releases that together are exactly (eps, delta)-private.

    Release i gets the share of the squared ratio sensitivity / sigma; inverse of ``composed_gaussian_epsilon``.

    Parameters
    ----------
    sensitivities : array (k,) of numbers >= 0; shares : array (k,) of numbers > 0 that add to 1, or a number k of equal
        ones.
    eps : number > 0; delta : number in (0, 1).

    >>> composed_gaussian_sigma(sensitivities=[1.0, 1.0], shares=[0.8, 0.2], eps=1.0, delta=1e-5).round(6).tolist()
    [4.170973, 8.341946]
    """
    sensitivities = np.atleast_1d(nonnegative("sensitivities", sensitivities))
    shares = positive("shares", shares)
    if shares.ndim == 0:
        shares = np.full(int(count("shares", shares)), 1 / shares)
    if shares.shape != sensitivities.shape or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares must add to 1 and be as many as the sensitivities, got {shares.tolist()}")
    return gaussian_sigma(eps=eps, delta=delta, sensitivity=1.0) * sensitivities / np.sqrt(shares)


# --- subsampled Gaussian -----------------------------------------------------------------------------------------------


@paired
def sampled_gaussian_guarantee(*, noise_multiplier, sampling_rate, rounds, delta, adjacency="row add-remove"):
    """Guarantee of `rounds` rounds of the Poisson-subsampled Gaussian, to be spent from a `Budget`; an upper bound.

    Parameters
    ----------
    noise_multiplier, sampling_rate, rounds, delta : as in ``privacy.sampled_gaussian_epsilon``.
    adjacency : "row add-remove" or "client add-remove", what is sampled.

    >>> g = sampled_gaussian_guarantee(noise_multiplier=1.0, sampling_rate=0.01, rounds=1000, delta=1e-5)
    >>> round(g.eps, 6)
    2.101365
    """
    choice("adjacency", adjacency, ("row add-remove", "client add-remove"))
    one = privacy.rdp_sampled_gaussian(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, order=ORDERS)
    curve = privacy.compose(one, rounds)
    eps = float(privacy.epsilon_from_rdp(ORDERS, curve, delta=delta))
    return Guarantee(
        max(eps, np.finfo(float).tiny),
        delta,
        adjacency,
        "client" if adjacency.startswith("row") else "server",
        "sampled gaussian",
        renyi=tuple(map(float, curve)),
        claims=("mrmtl:appA:composition:adaptive", "mrmtl:eq13"),
    )


def loss_distributions(*names, instead):
    """Return these modules of ``dp-accounting``, or raise ImportError saying what gives a larger eps without it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its dependencies, at import
            return [import_module(name) for name in names]
    except ImportError:
        raise ImportError(
            "dp-accounting is needed for privacy loss distributions: pip install 'borrowed-strength[dp]'; "
            f"without it {instead}, which gives a larger eps"
        ) from None


@paired
def pld_sampled_gaussian_epsilon(*, noise_multiplier, sampling_rate, rounds, delta):
    """Eps after `rounds` rounds of the Poisson-subsampled Gaussian by privacy loss distributions; a tight upper bound.

    Add-or-remove.  Computed by the optional package ``dp-accounting`` (extra ``dp``), whose losses are rounded up.  Below
    what ``privacy.sampled_gaussian_epsilon`` gives by Renyi divergences, which needs no such package.

    Raises
    ------
    ImportError
        If ``dp-accounting`` is not installed.
    """
    z = single(positive, "noise_multiplier", noise_multiplier)
    q = single(probability, "sampling_rate", sampling_rate)
    rounds, delta = int(single(count, "rounds", rounds)), single(probability, "delta", delta)
    dp_accounting, pld = loss_distributions(
        "dp_accounting", "dp_accounting.pld", instead="use privacy.sampled_gaussian_epsilon"
    )
    if q == 0:
        return 0.0
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(z))
    return max(0.0, float(pld.PLDAccountant().compose(event, rounds).get_epsilon(delta)))


# --- calibration -------------------------------------------------------------------------------------------------------


@paired
def calibrate_noise(spent, *, eps):
    """Smallest noise at which an accountant reports at most `eps`; on the safe side of a root found numerically.

    Parameters
    ----------
    spent : function of one positive number, the noise, that returns an eps and falls with the noise.
    eps : number > 0.

    Raises
    ------
    ValueError
        If no noise up to e^60 is enough: the accountant's orders or its delta are too small.

    >>> from estimators.accounting import privacy
    >>> z = calibrate_noise(lambda z: privacy.epsilon_from_zcdp(rho=10 / (2 * z * z), delta=1e-5), eps=1.0)
    >>> round(z, 6)
    12.791825
    """
    from scipy.optimize import brentq

    eps = single(positive, "eps", eps)
    if not callable(spent):
        raise ValueError(f"spent must be a function of the noise that returns an eps, not a {type(spent).__name__}")

    def excess(log_noise):
        with quiet():
            return float(np.clip(np.log(spent(float(np.exp(log_noise))) / eps), -700, 700))

    high = 0.0
    while not excess(high) <= 0:
        high += 1.0
        if high > 60:
            raise ValueError(f"eps={eps:g} is out of reach of this accountant; add larger orders or raise eps or delta")
    low = high - 1.0
    while excess(low) <= 0:
        low, high = low - 1.0, low
        if low < -60:
            return 0.0  # delta alone pays for releasing the data
    found = brentq(excess, low, high, xtol=1e-13)
    step = 1e-13
    while not excess(found) <= 0:
        found, step = found + step, 2 * step
    return float(np.exp(found))


@paired
def tuned_noise_multiplier(runs, *, eps, delta, sampling_rate=1.0, rounds=1, orders=ORDERS):
    """Noise multiplier of each run for which publishing the best of `runs` runs is (eps, delta)-private; an upper bound.

    Each run is `rounds` rounds of the (Poisson-subsampled) Gaussian; add-or-remove.  Claim: mrmtl:thmF.2.

    Parameters
    ----------
    runs : ``tuning.FixedRuns``, ``PoissonRuns`` or ``TruncatedNegativeBinomial``.
    eps : number > 0; delta : number in (0, 1); sampling_rate : number in (0, 1]; rounds : whole number >= 1.
    orders : Renyi orders >= 2.

    >>> from estimators.accounting.tuning import FixedRuns
    >>> round(tuned_noise_multiplier(FixedRuns(1), eps=1.0, delta=1e-5), 4)
    4.0454
    """
    from estimators.accounting.tuning import tuned_epsilon

    if not 0 < single(finite, "delta", delta) < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")

    def spent(z):
        one = privacy.rdp_sampled_gaussian(noise_multiplier=z, sampling_rate=sampling_rate, order=orders)
        return tuned_epsilon(runs, orders, privacy.compose(one, rounds), delta=delta)

    return calibrate_noise(spent, eps=eps)
