"""Private mechanisms: how much noise, under which adjacency, and the release itself.

Belongs here: sensitivities of clipped sums and accuracies, calibration of Gaussian noise (exact and classical), the
exponential mechanism, amplification by subsampling, a clipping bound that clips nothing.  Accounting over several
releases is in ``privacy``.  Two datasets are neighbours under "replace" if one record has another value (equal
sizes; Definition 2.1 of Liu et al. 2022) and under "add-remove" if one of them has one record more.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from typing import Any

import numpy as np

from estimators.accounting.privacy import gaussian_curve
from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.inversion import root
from estimators.numerics.limits import quiet, times
from estimators.numerics.units import exponents
from estimators.numerics.validation import choice, count, finite, nonnegative, paired, positive, probability, single

__all__ = [
    "ADJACENCIES",
    "CLASSICAL_EPS",
    "accuracy_sensitivity",
    "amplified_budget",
    "classical_gaussian_sigma",
    "clipped_sum_sensitivity",
    "clipping_bound",
    "clipping_probability",
    "exponential_choice",
    "exponential_epsilon",
    "exponential_probabilities",
    "exponential_zcdp",
    "gaussian_epsilon",
    "gaussian_sigma",
    "private_mean",
]

ADJACENCIES = ("replace", "add-remove")
CLASSICAL_EPS = 3.5  # up to here sqrt(2 log(1.25/delta))/eps is enough at every delta (mrmtl:sigma-dp:classical)


# --- sensitivities -----------------------------------------------------------------------------------------------------


@paired
def clipped_sum_sensitivity(*, c: ArrayLike, adjacency: str) -> Floats:
    """Largest change of a sum of vectors clipped to norm c; exact: 2c under "replace", c under "add-remove".

    Claim: mrmtl:sigma-dp:sensitivity.

    >>> float(clipped_sum_sensitivity(c=1.5, adjacency="replace"))
    3.0
    """
    choice("adjacency", adjacency, ADJACENCIES)
    return (nonnegative("c", c) * (2 if adjacency == "replace" else 1))[()]


@paired
def accuracy_sensitivity(*, n: ArrayLike, adjacency: str) -> Floats:
    """Largest change of the accuracy of a fixed classifier on n records; exact.  Claim: mrmtl:eq15.

    Parameters
    ----------
    n : whole number >= 1 of records in the dataset at hand (>= 2 under "remove").
    adjacency : "replace" or "remove" give 1/n; "add" gives 1/(n + 1).  For "add-remove" between unknown neighbours
        take the larger, 1/n.

    >>> float(accuracy_sensitivity(n=4, adjacency="replace")), float(accuracy_sensitivity(n=4, adjacency="add"))
    (0.25, 0.2)
    """
    choice("adjacency", adjacency, ("replace", "add", "remove", "add-remove"))
    n = count("n", n, 2 if "remove" in adjacency else 1)
    return (1 / (n + 1 if adjacency == "add" else n))[()]


# --- Gaussian noise ----------------------------------------------------------------------------------------------------


TINY, LAST_DIGITS = 1e-300, 4 * np.finfo(float).eps


def finite_bracket(excess: Callable[[Any], Any], below: float, above: float) -> tuple[float, float]:
    """Return ends around the root of `excess` (negative at `below`), moving `below` to where no delta underflows."""
    for _ in range(80):
        if np.isfinite(excess(below)):
            break
        middle = (below + above) / 2
        below, above = (middle, above) if excess(middle) < 0 else (below, middle)
    return below, above


def smallest_ratio(eps: float, delta: float) -> float:
    """Return the sensitivity / sigma at which Gaussian noise is exactly (eps, delta)-private (0 < delta < 1, eps finite)."""

    def excess(log_step):
        found, rest = gaussian_curve(np.float64(eps), np.exp(np.float64(log_step)))
        with quiet():  # close to one, what is missing to one has the digits
            return np.log(found) - np.log(delta) if delta <= 0.5 else np.log1p(-delta) - np.log(rest)

    # delta <= P(X > t) <= exp(-t^2/2) and delta <= step / sqrt(2 pi) + 1 - exp(-eps) bound the ratio from below.
    t = np.sqrt(-2 * np.log(delta))
    with quiet():
        low = max(np.log(2) + np.log(eps) - np.log(t + np.sqrt(t * t + 2 * eps)), np.log(delta)) - 1e-3
    high = low + 1.0
    while excess(high) < 0:
        low, high = high, high + 1.0
    low, high = finite_bracket(excess, low, high)
    return np.exp(root(excess, low, high, xtol=TINY, rtol=LAST_DIGITS) if np.isfinite(excess(low)) else high)


@paired
def gaussian_sigma(*, eps: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike) -> Floats:
    """Smallest deviation of Gaussian noise that gives (eps, delta)-privacy; exact, for every eps and in any dimension.

    The analytic Gaussian mechanism (Balle and Wang 2018); inverse of ``privacy.gaussian_delta`` in sigma.  The
    adjacency is that of `sensitivity`, the largest Euclidean change of the release.  Claim: mrmtl:sigma-dp.

    Parameters
    ----------
    eps : number >= 0 or inf; delta : number in [0, 1]; sensitivity : number >= 0 in units of the release, all broadcast.

    Returns
    -------
    Deviation per coordinate, in units of the release: inf at delta = 0 (Gaussian noise never is purely private), 0 at
    delta = 1 or eps = inf.

    >>> round(float(gaussian_sigma(eps=1.0, delta=1e-5, sensitivity=1.0)), 6)
    3.730632
    """
    eps, delta = nonnegative("eps", eps, infinite=True), probability("delta", delta)
    sensitivity = nonnegative("sensitivity", sensitivity)

    def one(e, d, s):
        if s == 0 or d == 1 or np.isinf(e):
            return 0.0
        return np.inf if d == 0 else s / smallest_ratio(e, d)

    with quiet():
        return np.vectorize(one, otypes=[float])(eps, delta, sensitivity)[()]


@paired
def gaussian_epsilon(*, delta: ArrayLike, sensitivity: ArrayLike, sigma: ArrayLike) -> Floats:
    """Smallest eps >= 0 at which Gaussian noise is (eps, delta)-private; exact, inverse of ``gaussian_sigma`` in eps.

    The adjacency is that of `sensitivity`.  Claim: mrmtl:sigma-dp:exact.  Found with 60 digits, for a small eps
    hangs by its last ones, and rounded up.

    Parameters
    ----------
    delta : number in [0, 1]; sensitivity, sigma : numbers >= 0 in units of the release, all broadcast.

    >>> round(float(gaussian_epsilon(delta=1e-5, sensitivity=1.0, sigma=3.730632)), 6)
    1.0
    """
    delta, sensitivity = probability("delta", delta), nonnegative("sensitivity", sensitivity)
    sigma = nonnegative("sigma", sigma)

    def one(d, s, noise):
        if s == 0 or d == 1:
            return 0.0
        if d == 0 or noise == 0:
            return np.inf
        step = np.float64(s / noise)
        most = gaussian_curve(0.0, step)[0]
        if np.isinf(step):
            return np.inf
        near = abs(most - d) < 1e-9 * d
        if most <= d and not near:
            return 0.0
        if step > 8 or near:
            return rounded_up(None if step > 8 else 0.0, d, s, noise)

        def excess(eps):
            found, rest = gaussian_curve(np.float64(eps), step)
            with quiet():
                return np.log(found) - np.log(d) if d <= 0.5 else np.log1p(-d) - np.log(rest)

        high = step * (step / 2 + np.sqrt(-2 * np.log(d))) * (1 + 1e-12)  # delta <= exp(-t^2/2)
        high, low = finite_bracket(excess, high, 0.0)
        found = excess(high)
        found = root(excess, low, high, xtol=TINY, rtol=LAST_DIGITS) if np.isfinite(found) and found < 0 else high
        return rounded_up(found, d, s, noise)

    return np.vectorize(one, otypes=[float])(delta, sensitivity, sigma)[()]


def rounded_up(start: float | None, delta: float, sensitivity: float, sigma: float) -> float:
    """Return the eps at which Gaussian noise has this delta, 0 if it has less at 0, rounded up; by Newton's method.

    With t = eps/step - step/2, phi the normal density and R Mills' ratio (Phi(-x) = phi(x) R(x)),
    delta = Phi(-t) - exp(eps) Phi(-t - step) = phi(t) (R(t) - R(t + step)), and its slope in t is -step phi(t) R(t + step).
    It begins close by, at an eps or, for None, where Phi(-t) = delta.
    """
    from scipy.special import ndtri

    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        step = Decimal(sensitivity) / Decimal(sigma)
        context.prec += abs(step.adjusted())  # R(t) and R(t + step) agree in so many digits, or t + step / 2 needs them
        half, width = step / 2, (2 * pi()).sqrt()
        t = Decimal(-float(ndtri(delta))) if start is None else Decimal(start) / step - half
        wanted = Decimal(delta)
        for _ in range(50):
            density = (-t * t / 2).exp() / width
            rest = density * mills(t + step, width)
            # At eps = 0 the two halves of Phi are the same.
            found = 1 - 2 * rest if t == -half else density * mills(t, width) - rest
            gain = (found - wanted) / (rest * step)
            t += gain
            if t <= -half:
                return 0.0
            if abs(gain) <= (t + half) * Decimal("1e-30"):
                break
        eps = step * (t + half)
        nearest = float(eps)
        return nearest if Decimal(nearest) >= eps else float(np.nextafter(nearest, np.inf))


def pi() -> Decimal:
    """Return pi to the digits of the context, by Machin's formula 16 arctan(1/5) - 4 arctan(1/239)."""
    one = 10 ** (getcontext().prec + 10)

    def arctan(n):
        total, power, k = 0, one // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power //= n * n
            k += 2
        return total

    return Decimal(16 * arctan(5) - 4 * arctan(239)) / one


def mills(x: Decimal, width: Decimal) -> Decimal:
    """Return Phi(-x) / phi(x) of a Decimal, to the digits of the context; `width` is that of 2 pi.

    A continued fraction, or, for small x, width exp(x^2/2) / 2 less the series x + x^3/3 + x^5/15 + ...
    """
    digits = getcontext().prec
    if x > 4:
        found = x
        for n in range(digits + int(1.4 * (digits / float(x)) ** 2), 0, -1):  # each divides the error by exp(x / sqrt(n))
            found = x + n / found
        return 1 / found
    if x < -4:
        return width * (x * x / 2).exp() - mills(-x, width)
    term, total, n, least = x, x, 1, Decimal(10) ** -digits
    while abs(term) > least * abs(total):
        n += 2
        term *= x * x / n
        total += term
    return width * (x * x / 2).exp() / 2 - total


@paired
def classical_gaussian_sigma(*, eps: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike) -> Floats:
    """Deviation sensitivity sqrt(2 log(1.25/delta)) / eps of the classical Gaussian mechanism; enough, not smallest.

    Valid at every delta in (0, 1) up to eps = 3.5 (``CLASSICAL_EPS``) and refused above, where it fails for some
    delta; the textbook asks eps < 1.  ``gaussian_sigma`` needs less noise and knows no such limit.  The adjacency is
    that of `sensitivity`.  Claims: mrmtl:sigma-dp:classical, mrmtl:sigma-dp:large-eps.

    Parameters
    ----------
    eps : number in (0, 3.5]; delta : number in (0, 1); sensitivity : number >= 0, all broadcast.

    >>> round(float(classical_gaussian_sigma(eps=1.0, delta=1e-5, sensitivity=1.0)), 6)
    4.844805
    """
    eps, delta = positive("eps", eps), positive("delta", probability("delta", delta))
    if (eps > CLASSICAL_EPS).any():
        raise ValueError(f"eps must be <= {CLASSICAL_EPS} for the classical noise, got {eps.max()}; use gaussian_sigma")
    if (delta >= 1).any():
        raise ValueError("delta must be below 1")
    return (nonnegative("sensitivity", sensitivity) * np.sqrt(2 * np.log(1.25 / delta)) / eps)[()]


@paired
def private_mean(
    values: ArrayLike, *, c: float, eps: float, delta: float, adjacency: str, rng: np.random.Generator
) -> Floats:
    """Release the mean of vectors clipped to norm c with the least Gaussian noise; (eps, delta)-private.

    (sum of clipped values + noise) / n with noise of deviation ``gaussian_sigma`` per coordinate.  n is taken as known:
    under "add-remove" the sum is protected for a neighbour of another size, but not the n that it is divided by.

    Parameters
    ----------
    values : array (n,) or (n, d), one record per row; c : number > 0, bound on a record's Euclidean norm.
    eps, delta : as in ``gaussian_sigma``; adjacency : "replace" or "add-remove"; rng : numpy.random.Generator.

    Returns
    -------
    array (d,), or a number for a 1-d array.

    >>> rng = np.random.default_rng(0)
    >>> private_mean(np.ones((1000, 2)), c=2.0, eps=1.0, delta=1e-5, adjacency="replace", rng=rng).round(2)
    array([1., 1.])
    """
    array = finite("values", values)
    if array.ndim not in (1, 2) or len(array) == 0:
        raise ValueError(f"values must have shape (n,) or (n, d) with n >= 1, got {array.shape}")
    bound = single(positive, "c", c)
    rows = array.reshape(len(array), -1)
    # In units of `bound` or of the row's largest entry, so that no square leaves the range of numbers.
    k = exponents(np.maximum(np.abs(rows).max(axis=1, initial=0.0), bound))
    norms, most = np.linalg.norm(np.ldexp(rows, -k[:, None]), axis=1), np.ldexp(bound, -k)
    total = np.sum(rows * np.minimum(1.0, most / np.maximum(norms, most))[:, None], axis=0)
    sensitivity = clipped_sum_sensitivity(c=bound, adjacency=adjacency)
    sigma = gaussian_sigma(eps=eps, delta=delta, sensitivity=sensitivity)
    released = (total + sigma * rng.standard_normal(rows.shape[1])) / len(array)
    return released if array.ndim == 2 else released[0]


@paired
def clipping_bound(*, bound: ArrayLike, sigma2: ArrayLike, n: ArrayLike, beta: ArrayLike) -> Floats:
    """Clipping norm bound + sigma sqrt(2 log(n/beta)) that clips one of n records with probability at most beta.

    Model: x_i ~ N(w, sigma2), i = 1..n, with |w| <= bound known in advance (not read off the data, which would cost
    privacy).  An upper bound.  Claim: mrmtl:no-clip.

    Parameters
    ----------
    bound : number >= 0; sigma2 : number >= 0; n : whole number >= 1; beta : number in (0, 1].

    >>> round(float(clipping_bound(bound=1.0, sigma2=4.0, n=100, beta=0.01)), 6)
    9.583864
    """
    beta = positive("beta", probability("beta", beta))
    deviation = np.sqrt(nonnegative("sigma2", sigma2))
    n = count("n", n)
    with quiet():  # n / beta may exceed the numbers
        odds = np.where(n / beta < np.inf, np.log(n / beta), np.log(n) - np.log(beta))
    return (nonnegative("bound", bound) + deviation * np.sqrt(2 * odds))[()]


@paired
def clipping_probability(*, c: ArrayLike, centre: ArrayLike, sigma2: ArrayLike, n: ArrayLike) -> Floats:
    """Probability that clipping to [-c, c] changes one of n records x_i ~ N(centre, sigma2); exact.

    Claim: mrmtl:no-clip.

    Parameters
    ----------
    c : number >= 0; centre : number; sigma2 : number > 0; n : whole number >= 1.

    >>> round(float(clipping_probability(c=9.583864, centre=1.0, sigma2=4.0, n=100)), 6)
    0.000891
    """
    from scipy.special import ndtr

    c, centre, deviation = nonnegative("c", c), np.abs(finite("centre", centre)), np.sqrt(positive("sigma2", sigma2))
    upper, lower = (c - centre) / deviation, (c + centre) / deviation
    outside = ndtr(-upper) + ndtr(-lower)
    with quiet():
        stay = np.where(outside < 0.5, np.log1p(-np.minimum(outside, 0.5)), np.log(ndtr(upper) - ndtr(-lower)))
    return (-np.expm1(count("n", n) * stay))[()]


# --- exponential mechanism -------------------------------------------------------------------------------------------


def exponential_logits(scores: ArrayLike, eps: ArrayLike, sensitivity: ArrayLike) -> Floats:
    """Return eps score / (2 sensitivity) for checked scores of shape (candidates,)."""
    scores = finite("scores", scores)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(f"scores must be 1-d with at least one candidate, got shape {scores.shape}")
    return single(nonnegative, "eps", eps) / (2 * single(positive, "sensitivity", sensitivity)) * scores


@paired
def exponential_probabilities(scores: ArrayLike, *, eps: ArrayLike, sensitivity: ArrayLike) -> Floats:
    """Probability of each candidate under the exponential mechanism, exp(eps s / (2 sensitivity)) / sum; exact.

    (eps, 0)-private under the adjacency that `sensitivity`, the largest change of a score, was computed for.  A high
    score is good; give minus the losses.  Claims: mrmtl:eq14, mrmtl:appA:gumbel.

    Parameters
    ----------
    scores : array (candidates,); eps : number >= 0; sensitivity : number > 0 in the units of the scores.

    >>> exponential_probabilities([0.0, 1.0], eps=2.0, sensitivity=1.0).round(6).tolist()
    [0.268941, 0.731059]
    """
    logits = exponential_logits(scores, eps, sensitivity)
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


@paired
def exponential_choice(
    scores: ArrayLike,
    *,
    eps: ArrayLike,
    sensitivity: ArrayLike,
    rng: np.random.Generator,
    size: int | tuple[int, ...] | None = None,
) -> Ints:
    """Index (or `size` indices) drawn by the exponential mechanism, by Gumbel noise on the scores.

    Exactly the law of ``exponential_probabilities``; every index drawn costs its own eps.

    >>> rng = np.random.default_rng(0)
    >>> int(exponential_choice([0.0, 50.0], eps=2.0, sensitivity=1.0, rng=rng))
    1
    """
    logits = exponential_logits(scores, eps, sensitivity)
    shape = () if size is None else tuple(np.atleast_1d(size))
    return np.argmax(logits + rng.gumbel(size=(*shape, len(logits))), axis=-1)


@paired
def exponential_epsilon(
    *, eps: ArrayLike, n_candidates: int | None = None, score_range: ArrayLike = np.inf, sensitivity: ArrayLike = 1.0
) -> Floats:
    """Exact pure eps of the exponential mechanism run with parameter `eps`, over all scores within a known range.

    log(E (1 + w)/(E + w)) with E = exp(eps) and w = (n_candidates - 1) exp(eps score_range / (2 sensitivity)), the
    largest odds of the other candidates; just `eps` where range or number of candidates is unbounded.  The adjacency
    is that of `sensitivity`.  Claim: mrmtl:eq14:range.

    Parameters
    ----------
    eps : number >= 0; n_candidates : whole number >= 2, or None for any; sensitivity : number > 0.
    score_range : number >= sensitivity, or inf; largest minus smallest score that any dataset can give.

    >>> round(float(exponential_epsilon(eps=1.0, n_candidates=2, score_range=1.0)), 6)
    0.5
    """
    eps = nonnegative("eps", eps)
    spread = nonnegative("score_range", score_range, infinite=True) / positive("sensitivity", sensitivity)
    if (spread < 1).any():
        raise ValueError(f"score_range must be at least the sensitivity, got {score_range!r} for {sensitivity!r}")
    if n_candidates is None:
        return eps[()]
    others = count("n_candidates", n_candidates, 2) - 1
    log_w = np.log(others) + times(eps, spread) / 2
    with quiet():
        # log((E + Ew)/(E + w)) = log1p(w (E - 1)/(E + w)); w (E - 1)/(E + w) = (E - 1)/(1 + E/w)
        exact = np.log1p(np.expm1(np.minimum(eps, 30.0)) / (1 + np.exp(np.minimum(eps, 30.0) - log_w)))
        far = np.logaddexp(0.0, log_w) - np.logaddexp(0.0, log_w - eps)
    return np.where(eps > 30, far, exact)[()]


@paired
def exponential_zcdp(*, eps: ArrayLike) -> Floats:
    """Rate rho = eps^2/8 of zero-concentrated privacy of the exponential mechanism; an upper bound.

    Claim: mrmtl:appA:em-zcdp (Rogers and Steinke 2021).  Compose with ``privacy.rdp_from_zcdp``.

    >>> round(float(exponential_zcdp(eps=0.2)), 12)
    0.005
    """
    return (nonnegative("eps", eps) ** 2 / 8)[()]


# --- subsampling -----------------------------------------------------------------------------------------------------


@paired
def amplified_budget(*, eps: ArrayLike, delta: ArrayLike, sampling_rate: ArrayLike) -> tuple[Floats, Floats]:
    """Budget (log(1 + q (exp(eps) - 1)), q delta) of a mechanism run on a random share q of the records.

    Exact for the worst mechanism of that eps and delta, an upper bound for others.
    For Poisson sampling if (eps, delta) holds under add-remove, for batches of fixed size q n without replacement if it
    holds under replace; the adjacency stays.  Not for Poisson sampling under replace.  The sample must stay secret.
    Claim: mrmtl:appA:amplification (Balle, Barthe and Gaboardi 2018).

    Parameters
    ----------
    eps : number >= 0 or inf; delta, sampling_rate : numbers in [0, 1], all broadcast.

    Returns
    -------
    (eps, delta) of the subsampled mechanism.

    >>> eps, delta = amplified_budget(eps=1.0, delta=1e-5, sampling_rate=0.01)
    >>> round(float(eps), 6), round(float(delta), 12)
    (0.017037, 1e-07)
    """
    eps, q = nonnegative("eps", eps, infinite=True), probability("sampling_rate", sampling_rate)
    with quiet():
        small = np.log1p(q * np.expm1(np.minimum(eps, 700.0)))
        large = eps + np.log(q + (1 - q) * np.exp(-eps))
    found = np.where(q == 0, 0.0, np.where(eps <= 700, small, large))
    return found[()], (q * probability("delta", delta))[()]
