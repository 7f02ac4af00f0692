"""A simulated value to so many significant digits, on large nets, many small ones or plain draws, and how sure they are.

Belongs here: how many points it takes, when they would take too long, and what is said of the digits.
Does not belong here: experiments and readings (simulation.py), nets (estimators.montecarlo), comparing with a claim.

A digit is sure where half the interval of Student's t is at most half a unit of it, at a level that all readings together
keep, `LEVEL`.  The value rounded to that digit is then less than one unit of it off: half a unit by the interval, half by
rounding.  It may well be the neighbour of the digit that the exact value rounds to, and the sentence says so.

Large nets have 16 independent replications.  Statistics that jump have many small nets or many plain draws, whose spread
gives the interval.  Pilots on streams of their own choose how many; what gives the value is chosen by nothing that it shows
itself, so that the interval keeps its level.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estimators.montecarlo import Moments, NoNet, SampledExperiment, StratifiedExperiment, pilot_strata, run, run_nets
from theory.engine.simulation import Simulation

LEVEL = 0.99
REPLICATIONS = 16
MOST_DIGITS = 12
NETS = (
    8  # coordinates of a replication at least: means over single nets of few dimensions are skewed, means over several less
)
PILOT_REPS = 65_536
PILOTS = 10, 13  # log2 of the points of the pilots
FAR = 3  # doublings beyond the second pilot from which on a third one is worth its cost
RATES = 0.5, 1.25  # how fast errors fall with points, see estimators.montecarlo.student
MARGIN = 1.3  # on the pilots' errors
RATE = 4e8  # coordinates in a second on two cores; a constant, so that the same command gives the same bits everywhere
FLOOR = 1e-8  # relative error of coordinates with 32 bits, see estimators.montecarlo.nets
SMALL = 6, 8, 10, 12  # log2 of the points of small nets
SLOWLY = 4e7  # coordinates of small nets, and plain draws, in a second on two cores: NumPy draws them
MIN_NETS = 1024
MEAN_SKEWNESS = 0.1  # of the mean over small nets: the interval's level is then off by 0.1 %, by Edgeworth's first term
PLAIN = 2_000_000  # replicates at least where no net serves
UNREACHED = 10**18
STEP = 1.1  # between numbers of replicates that are tried


@dataclass(frozen=True)
class Digits:
    """A simulated value and its digits.

    Parameters
    ----------
    moments : Moments
        From which the readings are read.
    replicates : int
    digits : int
        Significant digits asked for.
    sure : int
        Significant digits that are sure at `LEVEL`, of the worst reading.
    half_widths : tuple of float
        Of the interval of each reading.
    seconds : float
        What the value itself took.
    method : str
    forecast : float
        Seconds that the next digit beyond those sure would take.
    budget : float
        What `--seconds` must be for it: seconds at the constant rates of this module.
    """

    moments: Moments
    replicates: int
    digits: int
    sure: int
    half_widths: tuple[float, ...]
    seconds: float
    method: str
    forecast: float
    budget: float

    def to_json(self) -> dict[str, Any]:
        """Plain data, with a sentence."""
        widths = self.half_widths
        return {
            "digits": self.sure,
            "half_width": widths[0] if len(widths) == 1 else list(widths),
            "level": LEVEL,
            "method": self.method,
            "sure": self.sentence(),
        }

    def sentence(self) -> str:
        """What is sure, and how long more would take."""
        half = ", ".join(f"{w:.1g}" for w in self.half_widths)
        last = ", the last to within one unit" if self.sure > 0 else ""
        text = f"{_many(self.sure)} sure at {LEVEL:.0%}{last} (± {half}), by {self.method}, in {_time(self.seconds)}"
        if self.sure < self.digits:
            text += f"; {_many(self.digits)} were not reached in the time given"
        more = max(self.sure, 0) + 1
        if not math.isfinite(self.forecast):
            return f"{text}; no run gives {_many(more)}: coordinates have 32 bits"
        if more > MOST_DIGITS:
            return text
        again = f"--digits {more} --seconds {at_least(self.budget)}"
        return f"{text}; {_many(more)} would take about {_time(self.forecast)}: {again}"


def to_digits(simulation: Simulation, key: str, root: int, digits: int, seconds: float) -> Digits:
    """Integrate a simulation's model until its readings have so many significant digits, or the time is up.

    Parameters
    ----------
    simulation : Simulation
    key, root
        Name the streams.
    digits : int, 1 .. MOST_DIGITS
    seconds : float, > 0
        About how long on two cores, at `RATE` or `SLOWLY`; experiments drawn by NumPy may take several times as long.

    Raises
    ------
    ValueError
        Naming the argument outside its domain.
    """
    if not 1 <= digits <= MOST_DIGITS:
        raise ValueError(f"--digits: expected 1 .. {MOST_DIGITS}, got {digits}")
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"--seconds: expected a number > 0, got {seconds}")
    try:
        dimensions = len(simulation.experiment.net_order())
    except NoNet as why:
        return _roughly(simulation, key, root, digits, seconds, str(why))
    averaged = -(-NETS // dimensions)
    most = max(PILOTS[1], min(32, int(math.log2(max(RATE * seconds / (REPLICATIONS * averaged * dimensions), 1)))))

    def integrate(size: int, name: str) -> tuple[Moments, float]:
        start = time.perf_counter()
        moments = run_nets(simulation.experiment, size, REPLICATIONS, f"{key}#{name}", averaged=averaged, root=root)
        return moments, time.perf_counter() - start

    sizes: list[int] = list(PILOTS)
    errors = [excess(simulation, integrate(size, f"pilot{size}")[0], digits) * MARGIN for size in sizes]
    while True:
        rate = float(np.clip(math.log2(errors[-2] / errors[-1]) / (sizes[-1] - sizes[-2]), *RATES)) if errors[-1] else 1.0
        needed = max(sizes[-1] + math.ceil(math.log2(max(errors[-1], 1e-300)) / rate), PILOTS[1])
        size = min(needed, most)
        if len(sizes) > len(PILOTS) or size < sizes[-1] + FAR:
            break
        sizes.append(size - 2)
        errors.append(excess(simulation, integrate(sizes[-1], f"pilot{sizes[-1]}")[0], digits) * MARGIN)
    moments, spent = integrate(size, "digits")
    sure = sure_digits(simulation, moments)
    doublings = math.log2(max(excess(simulation, moments, sure + 1), 1.0)) / rate
    more = math.ceil(size + doublings + MARGIN - 1)  # its pilots may show more error than there is
    forecast = spent * 2.0**doublings if sure + 1 <= -math.log10(FLOOR) and more <= 32 else math.inf
    budget = REPLICATIONS * averaged * dimensions * 2.0**more / RATE
    method = f"{REPLICATIONS * averaged} nets of 2^{size} points in {dimensions} dimensions"
    halves = tuple(half_widths(simulation, moments))
    return Digits(moments, moments.count * averaged * 2**size, digits, sure, halves, spent, method, forecast, budget)


def _roughly(simulation: Simulation, key: str, root: int, digits: int, seconds: float, why: str) -> Digits:
    """On small nets, or on plain draws where these cannot serve; `why` large nets do not."""
    experiment, most = simulation.experiment, SLOWLY * seconds
    unit = np.eye(experiment.n_statistics)
    ways: list[tuple[bool, float, _Way, int]] = []  # reaches the digits, its cost or else its error, what to draw, how many
    try:
        dimensions = experiment.coordinates if isinstance(experiment, SampledExperiment) else 0
        if not dimensions:
            raise NoNet("a compiled kernel draws it")
        for size in SMALL:
            pilot = pilot_strata(experiment, size, f"{key}#pilot", unit, root)
            method = f"small nets of 2^{size} points in {dimensions} dimensions ({why})"
            cost, least = dimensions << size, max(MIN_NETS, pilot.least_nets(MEAN_SKEWNESS))
            way = _Way(StratifiedExperiment(experiment, size), Moments.of(pilot.means), pilot.lone, cost, 1 << size, method)
            needed, allowed = way.count(simulation, digits, least), int(most // cost)
            if needed <= allowed:
                ways.append((False, needed * cost, way, needed))
            elif least <= allowed:
                ways.append((True, excess(simulation, way.of(way.pilot, allowed), digits), way, allowed))
        if not ways:
            raise NoNet(f"{seconds:g} s allow too few small nets in {dimensions} dimensions")
        *_, way, count = min(ways, key=lambda w: w[:2])
    except NoNet as neither:
        method = f"plain draws ({why if str(neither) == why else f'{why}; {neither}'})"
        pilot, cost = run(experiment, PILOT_REPS, f"{key}#pilot", root=root), experiment.draws_per_replicate
        way = _Way(experiment, pilot, np.zeros(experiment.n_statistics), cost, 1, method)
        count = min(way.count(simulation, digits, PLAIN), max(int(most // cost), PLAIN))
    start = time.perf_counter()
    drawn = run(way.experiment, count, f"{key}#digits", root=root)
    spent = time.perf_counter() - start
    moments = way.of(drawn, count)
    sure = sure_digits(simulation, moments)
    more = replace(way, pilot=drawn).count(simulation, sure + 1, count)
    forecast = spent * more / count if more < UNREACHED else math.inf
    halves = tuple(half_widths(simulation, moments))
    points, text = count * way.points, f"{count} {way.method}" if way.points > 1 else way.method
    return Digits(moments, points, digits, sure, halves, spent, text, forecast, more * way.cost / SLOWLY)


@dataclass(frozen=True, eq=False)
class _Way:
    """Something that is drawn many times, and what a pilot shows of it."""

    experiment: Any
    pilot: Moments
    lone: np.ndarray
    cost: int
    points: int
    method: str

    def of(self, shown: Moments, count: int) -> Moments:
        """What `count` of them would show, were their spread as shown; errors include what may have been missed."""
        floor = np.diag(self.lone**2 / count)
        return Moments(count, shown.mean, (shown.covariance + floor) * (count - 1))

    def count(self, simulation: Simulation, digits: int, least: int) -> int:
        """How many give so many digits, at least so many; `UNREACHED` where none do."""
        count = least
        while excess(simulation, self.of(self.pilot, count), digits) * MARGIN > 1:
            count = math.ceil(count * STEP)
            if count >= UNREACHED:
                return UNREACHED
        return count


def half_widths(simulation: Simulation, moments: Moments) -> list[float]:
    """Half the interval of each reading; all of them hold together with probability `LEVEL` (Bonferroni)."""
    from scipy.special import stdtrit

    read = simulation.read(moments)
    t = -float(stdtrit(moments.count - 1, (1 - LEVEL) / 2 / len(read)))
    return [t * max(error, FLOOR * abs(value) / 10) for value, error in read]


def excess(simulation: Simulation, moments: Moments, digits: int) -> float:
    """The worst reading's half width, in units of half its last digit; at most 1 where all digits are sure."""
    pairs = zip(simulation.read(moments), half_widths(simulation, moments), strict=True)
    return max(half / (0.5 * 10.0 ** (_exponent(value) + 1 - digits)) for (value, _), half in pairs)


def sure_digits(simulation: Simulation, moments: Moments) -> int:
    """How many significant digits of every reading are sure."""
    pairs = zip(simulation.read(moments), half_widths(simulation, moments), strict=True)
    return min(max(math.floor(_exponent(value) + 1 - math.log10(2 * half)), 0) for (value, _), half in pairs)


def _exponent(value: float) -> int:
    """Of the leading digit; a value of zero has the digits of 1."""
    return math.floor(math.log10(abs(value))) if value else 0


def _many(digits: int) -> str:
    return "no digit" if digits <= 0 else "1 digit" if digits == 1 else f"{digits} digits"


def at_least(seconds: float) -> str:
    """Two digits, rounded up: what is asked for with less seconds may have half as many points."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    texts = (f"{(seconds // unit + k) * unit:.2g}" for k in range(4))
    return next(text for text in texts if float(text) >= seconds)


def _time(seconds: float) -> str:
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


__all__ = ["Digits", "at_least", "excess", "half_widths", "sure_digits", "to_digits"]
