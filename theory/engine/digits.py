"""A simulated value to so many significant digits, on randomised nets, and how sure they are.

Belongs here: how large the nets must be, when they would take too long, and what is said of the digits.
Does not belong here: experiments and readings (simulation.py), nets (estimators.montecarlo), comparing with a claim.

A digit is sure where the whole interval of Student's t at the level `LEVEL`, from 16 independent replications, rounds
within half a unit of it.  Pilots on streams of their own choose the size; the nets that give the value are chosen by nothing
that they show themselves, so that the interval keeps its level.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimators.montecarlo import Moments, NoNet, run, run_nets
from theory.engine.simulation import Simulation

LEVEL = 0.99
REPLICATIONS = 16
MOST_DIGITS = 12
NETS = (
    8  # coordinates of a replication at least: means over single nets of few dimensions are skewed, means over several less
)
PILOTS = 10, 13  # log2 of the points of the pilots
FAR = 3  # doublings beyond the second pilot from which on a third one is worth its cost
RATES = 0.5, 1.25  # how fast errors fall with points, see estimators.montecarlo.student
MARGIN = 1.3  # on the pilots' errors
RATE = 4e8  # coordinates in a second on two cores; a constant, so that the same command gives the same bits everywhere
FLOOR = 1e-8  # relative error of coordinates with 32 bits, see estimators.montecarlo.nets
PLAIN = 2_000_000  # replicates where no net serves


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
        Seconds that the next digit beyond those sure, or those asked for if none is missing, would take.
    """

    moments: Moments
    replicates: int
    digits: int
    sure: int
    half_widths: tuple[float, ...]
    seconds: float
    method: str
    forecast: float

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
        text = f"{_many(self.sure)} sure at {LEVEL:.0%} (± {half}), by {self.method}, in {_time(self.seconds)}"
        if self.sure < self.digits:
            text += f"; {_many(self.digits)} were not reached in the time given"
        more = max(self.sure, 0) + 1
        if not math.isfinite(self.forecast):
            return f"{text}; no run gives {_many(more)}: coordinates have 32 bits"
        return f"{text}; {_many(more)} would take about {_time(self.forecast)}: --seconds"


def to_digits(simulation: Simulation, key: str, root: int, digits: int, seconds: float) -> Digits:
    """Integrate a simulation's model until its readings have so many significant digits, or the time is up.

    Parameters
    ----------
    simulation : Simulation
    key, root
        Name the streams.
    digits : int, 1 .. MOST_DIGITS
    seconds : float, > 0
        About how long on two cores, at `RATE`; experiments drawn by NumPy take several times as long.

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
        return _plain(simulation, key, root, digits, str(why))
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
    forecast = spent * 2.0**doublings if sure + 1 <= -math.log10(FLOOR) and size + doublings <= 32 else math.inf
    method = f"{REPLICATIONS * averaged} nets of 2^{size} points in {dimensions} dimensions"
    halves = tuple(half_widths(simulation, moments))
    return Digits(moments, moments.count * averaged * 2**size, digits, sure, halves, spent, method, forecast)


def _plain(simulation: Simulation, key: str, root: int, digits: int, why: str) -> Digits:
    start = time.perf_counter()
    moments = run(simulation.experiment, PLAIN, key, root=root)
    spent = time.perf_counter() - start
    sure = sure_digits(simulation, moments)
    forecast = spent * max(excess(simulation, moments, sure + 1), 1.0) ** 2
    halves = tuple(half_widths(simulation, moments))
    return Digits(moments, PLAIN, digits, sure, halves, spent, f"plain draws ({why})", forecast)


def half_widths(simulation: Simulation, moments: Moments) -> list[float]:
    """Half the interval of each reading at `LEVEL`."""
    from scipy.special import stdtrit

    t = float(stdtrit(moments.count - 1, (1 + LEVEL) / 2))
    return [t * max(error, FLOOR * abs(value) / 10) for value, error in simulation.read(moments)]


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


def _time(seconds: float) -> str:
    for unit, size in (("years", 31_557_600), ("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


__all__ = ["Digits", "excess", "half_widths", "sure_digits", "to_digits"]
