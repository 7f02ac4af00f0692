"""From a claim's point to a Monte Carlo experiment on the model's raw noise terms, and what is read off it.

A claim's `simulate(**point)` sees the point and never the value that the claim says. It returns an experiment and
readings; `compared` holds these against the derived value, and nothing else does.

Belongs here: building experiments of Gaussian clients, and what a reading is and how it is compared. Does not belong
here: random numbers and decision rules (estimators.montecarlo), closed forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimators.montecarlo import Check, ClientsExperiment, Moments, SampledExperiment

# Coordinates of a product's factors: parameter noise p_j, estimate noise e_j, message noise l_j of the
# distinguished client, then the aggregates.
P, E, L = 0, 1, 2

STEP = 1e-5  # relative step of numerical derivatives, which only set scales and standard errors

Of = int | Callable[[Any], float]
"""What a reading is of: an entry of the claim, by its number, or a known function of the claim's value."""


@dataclass(frozen=True)
class Mean:
    """A linear combination of an experiment's means.

    Parameters
    ----------
    label : str
    row : array, shape (M,)
        Coefficients of the experiment's statistics.
    of : int or function
        The entry of the claim that the mean is, or the function of the claim's value (a number, or a tuple of the
        entries) that it is.
    scale : float, > 0, optional
        What a relative error refers to, a number of the model; without it errors are relative to the claim's value.
    back : function, optional
        The inverse of `of`: what to report for a mean.
    zero : float, > 0, optional
        The `scale` to use only where the claim's value is zero.
    """

    label: str
    row: Any
    of: Of = 0
    scale: float | None = None
    back: Callable[[float], float] | None = None
    zero: float | None = None

    def check(self, value: Any) -> Check:
        """The comparison with a claim's value."""
        sensitivity = _sensitivity(self.of, value)
        if not sensitivity and np.any(np.atleast_1d(value)) and callable(self.of):
            raise ValueError(f"{self.label}: this reading does not depend on the claim's value, and so cannot judge it")
        scale = (sensitivity or self.zero or 0.0) if self.scale is None else self.scale
        if not scale > 0:
            raise ValueError(f"{self.label}: errors of a value of zero are relative to nothing; give the reading a scale")
        return Check(self.label, self.row, _claimed(self.of, value), scale)

    def misfit(self, truth: Any, value: Any) -> float:
        """How far off the check of `value` is where `truth` holds, in units of the check's scale."""
        return abs(_claimed(self.of, value) - _claimed(self.of, truth)) / self.check(value).scale

    def read(self, moments: Moments) -> tuple[float, float]:
        """What was simulated, with its standard error."""
        return _reported(*moments.linear(self.row), self.back)


@dataclass(frozen=True)
class Ratio:
    """A ratio of two linear combinations of an experiment's means.

    It is compared as ``numerator - value * denominator``, whose mean is zero: no ratio of random numbers is judged.

    Parameters
    ----------
    label : str
    numerator, denominator : array, shape (M,)
    size : float, not 0
        Exact mean of the denominator in the model; only sets the scale that relative errors refer to.
    of, back
        As for `Mean`.
    """

    label: str
    numerator: Any
    denominator: Any
    size: float
    of: Of = 0
    back: Callable[[float], float] | None = None

    def check(self, value: Any) -> Check:
        """The comparison with a claim's value."""
        row = np.asarray(self.numerator, float) - _claimed(self.of, value) * np.asarray(self.denominator, float)
        scale = _sensitivity(self.of, value) * abs(self.size)
        if not scale > 0:
            raise ValueError(f"{self.label}: errors of a ratio of zero are relative to nothing; read it as a Mean")
        return Check(self.label, tuple(row), 0.0, scale)

    def misfit(self, truth: Any, value: Any) -> float:
        """How far off the check of `value` is where `truth` holds, in units of the check's scale."""
        return abs((_claimed(self.of, value) - _claimed(self.of, truth)) * self.size) / self.check(value).scale

    def read(self, moments: Moments) -> tuple[float, float]:
        """What was simulated, with its standard error by the delta method."""
        return _reported(*moments.ratio(self.numerator, self.denominator), self.back)


@dataclass(frozen=True)
class Simulation:
    """An experiment and what is read off its moments."""

    experiment: Any
    readings: tuple[Mean | Ratio, ...]

    def read(self, moments: Moments) -> list[tuple[float, float]]:
        """Every reading with its standard error."""
        return [reading.read(moments) for reading in self.readings]


def compared(simulation: Simulation, value: Any) -> tuple[Check, ...]:
    """The checks of a simulation against a claim's value (a float, or a tuple of the entries)."""
    return tuple(reading.check(value) for reading in simulation.readings)


def _claimed(of: Of, value: Any) -> float:
    if callable(of):
        return float(of(value))
    return float(value[of] if isinstance(value, tuple | list) else value)


def _sensitivity(of: Of, value: Any) -> float:
    """Change of what is compared per relative change of the claim's value, the largest of its entries'."""
    if not callable(of):
        return abs(_claimed(of, value))
    single = not isinstance(value, tuple | list)
    parts = [value] if single else list(value)

    def moved(i: int, factor: float) -> float:
        new = [v * factor if k == i else v for k, v in enumerate(parts)]
        return float(of(new[0] if single else tuple(new)))

    return max(abs(moved(i, 1 + STEP) - moved(i, 1 - STEP)) / (2 * STEP) for i in range(len(parts)))


def _reported(estimate: float, error: float, back: Callable[[float], float] | None) -> tuple[float, float]:
    if back is None:
        return estimate, error
    step = STEP * (abs(estimate) or 1.0)
    slope = (back(estimate + step) - back(estimate - step)) / (2 * step)
    return float(back(estimate)), float(abs(slope) * error)


@dataclass(frozen=True)
class Federation:
    """Concrete clients of several groups in one array each; `start[i]` is the first client of group i."""

    tau2: np.ndarray
    alpha2: np.ndarray
    nu2: np.ndarray
    start: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of clients."""
        return len(self.tau2)

    @property
    def message_variances(self) -> np.ndarray:
        """Variance of every message around the centre."""
        return self.tau2 + self.alpha2 + self.nu2


def federation(sizes: Sequence[int], tau2: Any, alpha2: Any, nu2: Any) -> Federation:
    """Clients of groups with the given sizes; variances are scalars or one per group."""
    sizes = [int(n) for n in sizes]

    def spread(values: Any) -> np.ndarray:
        return np.repeat(np.broadcast_to(np.asarray(values, float), (len(sizes),)), sizes)

    starts = tuple(int(s) for s in np.cumsum([0, *sizes])[:-1])
    return Federation(spread(tau2), spread(alpha2), spread(nu2), starts)


def vector(aggregates: int, **coefficients: float) -> np.ndarray:
    """Coefficients of a linear form: keywords p, e, l, a0, a1, ..."""
    z = np.zeros(3 + aggregates)
    for name, value in coefficients.items():
        z["pel".index(name) if name in ("p", "e", "l") else 3 + int(name[1:])] = value
    return z


def _experiment(fed: Federation, client: int, weights: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    return ClientsExperiment(
        tau2=fed.tau2,
        alpha2=fed.alpha2,
        nu2=fed.nu2,
        client=client,
        weights=np.atleast_2d(np.asarray(weights, float)),
        left=np.array([a for a, _ in pairs], float),
        right=np.array([b for _, b in pairs], float),
    )


def mean_squares(
    fed: Federation, client: int, weights: Any, errors: Sequence[Any], labels: Sequence[str] = (), of: Sequence[Of] = (),
    scales: Sequence[float | None] = (),
) -> Simulation:  # fmt: skip
    """Mean squares of linear error forms; the i-th is entry i of the claim, or what `of` says."""
    pairs = [(np.asarray(e, float), np.asarray(e, float)) for e in errors]
    return mean_products(fed, client, weights, pairs, labels, scales, of)


def mean_products(
    fed: Federation, client: int, weights: Any, pairs: Sequence[tuple[Any, Any]], labels: Sequence[str] = (),
    scales: Sequence[float | None] = (), of: Sequence[Of] = (),
) -> Simulation:  # fmt: skip
    """Means of products of two linear forms."""
    labels = list(labels) or ["mean square"] * len(pairs)
    return Simulation(_experiment(fed, client, weights, pairs), _means(labels, scales, of))


def differences(
    fed: Federation, client: int, weights: Any, errors: Sequence[Any], signs: Sequence[float], label: str
) -> Simulation:
    """A signed sum of mean squares (a gap between two risks), with paired draws; a gap of zero is in units of the first."""
    pairs = [(np.asarray(e, float), np.asarray(e, float)) for e in errors]
    zero = _second_moment(fed, client, np.atleast_2d(weights), *pairs[0])
    reading = Mean(label, np.asarray(signs, float), zero=zero)
    return Simulation(_experiment(fed, client, weights, pairs), (reading,))


def excess_over_bayes(fed: Federation, client: int, weights: Any, used: Any, bayes: Any, risk: float) -> Simulation:
    """Excess of an error form's mean square over that of the Bayes estimate's error form, paired draws.

    Read twice: as the difference of the two, in units of the Bayes risk (is it the excess over this estimate?), and as
    the mean square of their distance, which is the same because the Bayes error is uncorrelated with all data and
    which shows a small excess to the percent.
    """
    used, bayes = np.asarray(used, float), np.asarray(bayes, float)
    experiment = _experiment(fed, client, weights, [(form, form) for form in (used, bayes, used - bayes)])
    difference = Mean("excess over Bayes risk", [1.0, -1.0, 0.0], scale=risk)
    distance = Mean("mean square of the distance from the Bayes estimate", [0.0, 0.0, 1.0], zero=risk)
    return Simulation(experiment, (difference, distance))


def optimal_blend(
    fed: Federation, client: int, weights: Any, shared: Any = None, target: Any = None, of: Of = 0,
    back: Callable[[float], float] | None = None,
) -> Simulation | None:  # fmt: skip
    """The strength lam that blends own estimate and aggregate best.

    `shared` is the form of the aggregate as the client uses it (default: aggregate 0 as it is), `target` what is
    to be estimated (default: the client's parameter).
    """
    aggregates = len(np.atleast_2d(weights))
    shared = vector(aggregates, a0=1.0) if shared is None else np.asarray(shared, float)
    target = vector(aggregates, p=1.0) if target is None else np.asarray(target, float)
    local = vector(aggregates, p=1.0, e=1.0)
    return stationary_between(fed, client, weights, local, shared, target, of, back)


def stationary_between(
    fed: Federation, client: int, weights: Any, local: Any, shared: Any, target: Any, of: Of = 0,
    back: Callable[[float], float] | None = None,
) -> Simulation | None:  # fmt: skip
    """As `optimal_blend` for any local form. None where the best strength is infinite in the model.

    The risk of ``local + u step`` is a parabola in u: with the moments ``a = E[error step]`` and ``b = E[step^2]`` it is
    least at ``u = -a/b``, so that ``lam = u/(1 - u) = -a/(a + b)``.
    """
    error, step = np.subtract(local, target), np.subtract(shared, local)
    parts = [_second_moment(fed, client, np.atleast_2d(weights), form, step) for form in (error, step)]
    if abs(sum(parts)) <= 1e-12 * parts[1]:
        return None
    reading = Ratio("mean derivative of the risk at the optimum", [-1.0, 0.0], [1.0, 1.0], sum(parts), of, back)
    return Simulation(_experiment(fed, client, weights, [(error, step), (step, step)]), (reading,))


def best_combination(fed: Federation, label: str) -> Simulation:
    """The error variance (entry 0) of the best unbiased combination of all messages, and the weights (entries 1, ...).

    A message's weight is its share in the best blend with the rest, which are combined in proportion to the
    precisions of the model: for x and the rest's mean y, ``w = -E[y (x - y)] / E[(x - y)^2]``.
    """
    count, variances = fed.count, fed.message_variances
    shares = (1 - np.eye(count)) / variances
    rows = np.vstack([1 / variances / np.sum(1 / variances), np.eye(count), shares / shares.sum(axis=1, keepdims=True)])
    best = vector(len(rows), a0=1.0)
    pairs: list[Any] = [(best, best)]
    readings: list[Any] = [Mean(label, np.eye(1 + 2 * count)[0])]
    for i in range(count):
        rest = vector(len(rows), **{f"a{1 + count + i}": 1.0})
        move = vector(len(rows), **{f"a{1 + i}": 1.0}) - rest
        pairs += [(-rest, move), (move, move)]
        numerator, denominator = np.eye(1 + 2 * count)[1 + 2 * i : 3 + 2 * i]
        size = float(variances[i] + np.sum(rows[1 + count + i] ** 2 * variances))
        readings.append(Ratio(f"weight of message {i + 1} against the rest", numerator, denominator, size, 1 + i))
    return Simulation(_experiment(fed, 0, rows, pairs), tuple(readings))


def blend_weights(fed: Federation, client: int, weights: Any) -> Simulation:
    """Entries 0 and 1: the weights of own estimate and aggregate 0 in their best blend (see `stationary_between`)."""
    local = vector(1, p=1.0, e=1.0)
    step = vector(1, a0=1.0) - local
    size = _second_moment(fed, client, np.atleast_2d(weights), step, step)
    label, one = "mean derivative of the risk at the optimum", [0.0, 1.0]
    readings = (Ratio(label, [1.0, 1.0], one, size, 0), Ratio(label, [-1.0, 0.0], one, size, 1))
    return Simulation(_experiment(fed, client, weights, [(vector(1, e=1.0), step), (step, step)]), readings)


def _second_moment(fed: Federation, client: int, weights: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Exact mean product of two forms; only sets the scale that relative errors refer to."""
    total = 0.0
    for variance, own in ((fed.tau2, P), (fed.alpha2, E), (fed.nu2, L)):
        a, b = (form[3:] @ weights + form[own] * (np.arange(fed.count) == client) for form in (left, right))
        total += float(np.sum(a * b * variance))
    return total


def sample_means(
    draw: Callable[[np.random.Generator, int], np.ndarray], labels: Sequence[str] = (), scales: Sequence[float | None] = (),
    draws: int = 1, of: Sequence[Of] = (), back: Sequence[Callable[[float], float] | None] = (), count: int = 1,
) -> Simulation:  # fmt: skip
    """Means of statistics that a vectorised function draws, `draw(gen, reps) -> (reps, M)`.

    The i-th is entry i of the claim, or what `of` says, and relative to its value, or to its scale. There are `count`
    statistics, or as many as there are labels, scales or `of`.
    """
    found = max(count, len(labels), len(scales), len(of))
    readings = _means(list(labels) or ["mean"] * found, scales, of, back)
    return Simulation(SampledExperiment(draw, found, draws), readings)


def widened(
    gen: np.random.Generator, deviation: float, by: float, shape: tuple[int, ...], over: tuple[int, ...]
) -> tuple[Any, Any]:
    """Importance sampling of a tail: normals `by` times as wide as the model's, and what each set of them weighs.

    A weight is the model's density over the one that was drawn from, of all normals along the axes `over`; the mean of
    weight times statistic is the statistic's mean in the model, for any `by`, which only decides how often the tail is hit.

    Raises ValueError for `by` below 1: weights of narrower draws have no bound, and from 1/sqrt(2) on no variance, so that
    errors that are seen say nothing.

    Examples
    --------
    The probability that a normal is beyond 4:

    >>> noise, weights = widened(np.random.default_rng(1), 1.0, 4.0, (100_000, 1), over=(1,))
    >>> bool(abs(np.mean(weights * (noise[:, 0] > 4)) / 3.167e-5 - 1) < 0.03)
    True
    """
    if not by >= 1:
        raise ValueError(f"by must be at least 1, got {by}: weights of narrower draws have no bound")
    drawn = gen.standard_normal(shape)
    return deviation * by * drawn, np.exp((np.log(by) - (by**2 - 1) / 2 * drawn**2).sum(axis=over))


def shifted(gen: np.random.Generator, deviation: float, by: float, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Importance sampling of an exponential moment: normals with mean `by` deviations, and what each of them weighs.

    Weights are as for `widened`, of each normal by itself.

    Examples
    --------
    The mean of exp(3 z), which hangs on normals near 3 that are hardly ever drawn:

    >>> noise, weights = shifted(np.random.default_rng(1), 1.0, 2.0, (100_000,))
    >>> bool(abs(np.mean(weights * np.exp(3 * noise)) / np.exp(4.5) - 1) < 0.03)
    True
    """
    drawn = gen.standard_normal(shape)
    return deviation * (by + drawn), np.exp(-by * drawn - by**2 / 2)


def turned(gen: np.random.Generator, reps: int, vectors: int, dimension: int) -> list[Any]:
    """Vectors of independent standard normals, in axes that turn with them: each of shape (vectors, reps).

    For statistics of lengths and angles only. The first axis lies along the first vector, the second one in the plane of
    the first two, and so on; so the k-th vector has k - 1 normals, one length with a chi law, and zeros. Its Gram matrix is
    that of `vectors` vectors of `dimension` normals each (Bartlett 1933, Proc. R. Soc. Edinburgh 53:260-283), from as many
    draws as the matrix has entries.

    Examples
    --------
    Mean squared length of the sum of two vectors of 9 normals:

    >>> first, second = turned(np.random.default_rng(1), 100_000, 2, 9)
    >>> bool(abs(np.mean(((first + second) ** 2).sum(axis=0)) / 18 - 1) < 0.01)
    True
    """
    if not dimension >= vectors:
        raise ValueError(f"dimension must be at least vectors = {vectors}, got {dimension}")
    found = []
    for k in range(vectors):
        length = np.sqrt(gen.chisquare(dimension - k, reps))
        found.append(np.stack([*(gen.standard_normal(reps) for _ in range(k)), length, *[0 * length] * (vectors - k - 1)]))
    return found


def count_law(chances: Iterable[Any]) -> list[Any]:
    """Probabilities that 0, 1, ... of independent events happen, given the chance of each (numbers, or arrays of draws).

    For events that a simulation enumerates instead of drawing them.

    Examples
    --------
    >>> count_law([0.5, 0.25])
    [0.375, 0.5, 0.125]
    """
    law: list[Any] = [1.0]
    for chance in chances:
        law = [none * (1 - chance) + one * chance for none, one in zip([*law, 0.0], [0.0, *law], strict=True)]
    return law


def _means(
    labels: Sequence[str], scales: Sequence[float | None] = (), of: Sequence[Of] = (),
    back: Sequence[Callable[[float], float] | None] = (),
) -> tuple[Mean, ...]:  # fmt: skip
    """One reading per statistic."""
    m = len(labels)
    columns = (labels, np.eye(m), of or range(m), scales or [None] * m, back or [None] * m)
    return tuple(Mean(*parts) for parts in zip(*columns, strict=True))
