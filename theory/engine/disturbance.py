"""A simulation's own noise, disturbed: one variance of its model doubled, or one kind of draw of another law.

A simulation that cannot tell its model from such a neighbour is no evidence.

Belongs here: neighbours of an experiment.  Does not belong here: comparing them with a claim (the tests do).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from estimators.montecarlo import SampledExperiment
from theory.engine.simulation import Simulation

DOUBLE = np.sqrt(2.0)  # of a deviation
KINDS = {
    "normal": ("standard_normal", "normal", "multivariate_normal"),
    "uniform": ("random", "uniform"),
    "count": ("binomial", "negative_binomial", "logseries", "poisson", "geometric", "multinomial"),
    "share": ("beta", "dirichlet", "gamma", "chisquare"),
    "tail": ("exponential", "laplace", "gumbel"),
    "pick": ("choice", "integers", "permutation", "permuted"),
}


def disturbed(simulation: Simulation) -> Iterator[tuple[str, Simulation]]:
    """The simulation's neighbours, each with what is other in it."""
    experiment = simulation.experiment
    if not isinstance(experiment, SampledExperiment):
        for field in fields(experiment):
            value = getattr(experiment, field.name)
            named = "variance" in field.name or field.name in ("tau2", "alpha2", "nu2")
            if named and np.any(np.asarray(value) > 0):
                doubled = replace(experiment, **{field.name: 2 * np.asarray(value) if np.ndim(value) else 2 * value})
                yield f"twice {field.name}", replace(simulation, experiment=doubled)
        return
    for kind, part in itertools.product(KINDS, ("all", "the first")):
        seen: list[str] = []
        draw = functools.partial(_draw, experiment.draw, kind, part, seen)
        draw(np.random.default_rng(0), 64)
        if seen:
            sizes = experiment.n_statistics, experiment.draws_per_replicate, experiment.batch
            yield f"{part} of {kind} draws ({seen[0]})", replace(simulation, experiment=_Neighbour(draw, *sizes))


@dataclass(frozen=True, eq=False)
class _Neighbour(SampledExperiment):
    """On a large net wherever it takes as many coordinates as it needs: whether one serves is asked of the original."""

    def net_order(self) -> np.ndarray:
        return np.arange(self.coordinates)


def _draw(draw: Any, kind: str, part: str, seen: list[str], gen: np.random.Generator, reps: int) -> Any:
    return draw(_Disturbed(gen, kind, part, seen), reps)


class _Disturbed(np.random.Generator):
    """A generator, or a net's stand-in for one, whose draws of one kind are spread out, bent, or always the same.

    All of them are, or the first of each row.
    """

    def __init__(self, gen: np.random.Generator, kind: str, part: str, seen: list[str]):
        super().__init__(np.random.SFC64(0))  # never drawn from
        self.of, self.kind, self.part, self.seen = gen, kind, part, seen

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in ("of", "kind", "part", "seen"):
            return super().__getattribute__(name)
        real = getattr(super().__getattribute__("of"), name)  # not the inherited one: a net has no bits
        if name not in KINDS[super().__getattribute__("kind")]:
            return real
        if name not in self.seen:
            self.seen.append(name)
        return functools.partial(_disturb, self, name, real)


def _disturb(gen: _Disturbed, name: str, real: Any, *a: Any, **k: Any) -> Any:
    found = real(*a, **k)
    changed = np.asarray(_changed(gen.kind, name, found, a, k)).astype(np.asarray(found).dtype)
    if gen.part == "all" or np.ndim(found) < 2:
        return changed if np.ndim(found) else changed[()]
    mixed = np.array(found)
    mixed[..., 0] = changed[..., 0]
    return mixed


def _changed(kind: str, name: str, found: Any, a: tuple[Any, ...], k: dict[str, Any]) -> Any:
    values = np.asarray(found)
    if kind in ("normal", "tail"):
        located = name in ("normal", "laplace", "gumbel", "logistic")
        centre = np.asarray(k.get("loc", a[0] if a and located else 0.0), float)
        return centre + (values - centre) * DOUBLE
    if kind == "uniform":  # the law is bent: squared between its ends
        low = np.asarray(k.get("low", a[0] if a and name == "uniform" else 0.0), float)
        high = np.asarray(k.get("high", a[1] if len(a) > 1 and name == "uniform" else 1.0), float)
        return low + (high - low) * ((values - low) / (high - low)) ** 2
    # Counts, shares, picks: one of them for all.
    return np.full(values.shape, np.sort(values, axis=None)[values.size // 2]) if values.size else values


__all__ = ["disturbed"]
