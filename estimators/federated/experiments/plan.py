"""What an experiment is, as frozen dataclasses: setups, methods with grids, printed numbers, plots, and all its runs.

Belongs here: the dataclasses, the names and configurations of runs.  Does not belong here: reading files (``experiment``),
making tasks from runs (``building``), running (``runs``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from math import isfinite, isnan
from typing import Any

from estimators.federated.kinds import typed

__all__ = ["Experiment", "Method", "Plot", "Printed", "Run", "Setup", "Source", "label", "plain", "put", "slug"]


@dataclass(frozen=True)
class Source:
    """Where clients come from: a loader, its folder below the user's data (None: no file), options, and steps after it."""

    loader: str
    folder: str | None = None
    options: dict = field(default_factory=dict)
    steps: tuple = ()


@dataclass(frozen=True)
class Setup:
    """All of an experiment but its methods; the paper's, or the embedded one that needs no file."""

    data: Source
    model: dict
    work: dict
    rounds: int
    every: int
    seeds: tuple
    groups: dict = field(default_factory=dict)
    backend: str = "numpy"


@dataclass(frozen=True)
class Method:
    """An algorithm with settings as in the file, a grid of settings to try, and how a table picks from the grid."""

    name: str
    algorithm: str
    settings: dict
    grid: dict = field(default_factory=dict)
    work: dict = field(default_factory=dict)
    select: dict | None = None

    @property
    def over(self) -> tuple[()]:
        """Keys of the grid of which tables show the best value only."""
        return () if self.select is None else self.select.get("over", tuple(self.grid))

    def points(self) -> list[dict[str, Any]]:
        """Every combination of the grid's values, as dicts from its keys."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


@dataclass(frozen=True)
class Printed:
    """A number of the paper: of which method and measure, where in its grid, with which printed error."""

    method: str
    measure: str
    value: float
    error: float = 0.0
    at: dict = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """A panel: a measure over the rounds or over a key of grids, a line for each method (None: all), at grid values."""

    x: str
    measure: str
    at: dict = field(default_factory=dict)
    methods: tuple | None = None


@dataclass(frozen=True)
class Run:
    """One training: a method at one point of its grid with one seed."""

    experiment: str
    method: str
    algorithm: str
    settings: dict
    point: dict
    seed: int
    setup: Setup
    embedded: bool

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.setup.rounds

    @property
    def name(self) -> str:
        """Name of the run's folder: method, grid point and seed."""
        text = slug("+".join([self.method, *(f"{key}={label(value)}" for key, value in self.point.items())]))
        if len(text) > 100:
            text = f"{text[:80]}-{sha256(text.encode()).hexdigest()[:12]}"
        return f"{text}-seed{self.seed}"

    def configuration(self) -> Any:
        """All that decides the result, as plain values: what two runs must share to be the same run."""
        data = self.setup.data
        return plain(
            {
                "experiment": self.experiment,
                "embedded": self.embedded,
                "method": self.method,
                "algorithm": self.algorithm,
                "settings": self.settings,
                "point": self.point,
                "seed": self.seed,
                "rounds": self.rounds,
                "every": self.setup.every,
                "data": {"loader": data.loader, "folder": data.folder, "options": data.options, "steps": data.steps},
                "groups": self.setup.groups,
                "model": self.setup.model,
                "work": self.setup.work,
                "backend": self.setup.backend,
            }
        )


@dataclass(frozen=True)
class Experiment:
    """One file of experiments; `setup` is the paper's, `embedded` what runs without the user's data, or None."""

    name: str
    title: str
    paper: str
    place: str
    notes: str
    setup: Setup
    embedded: Setup | None
    methods: tuple
    printed: tuple
    plots: tuple = ()

    @property
    def needs_data(self) -> bool:
        """Whether the paper's setup reads a file of the user."""
        return self.setup.data.folder is not None

    @typed
    def runs(
        self,
        seeds: Sequence[int] | None = None,
        rounds: int | None = None,
        methods: Sequence[str] | None = None,
        *,
        embedded: bool = False,
        backend: str | None = None,
    ) -> list[Run]:
        """All runs, seed by seed, so that what shares data follows each other.

        Parameters
        ----------
        seeds : whole numbers >= 0, instead of the file's; rounds : whole number >= 1, instead of the file's.
        methods : names of methods, None for all; embedded : take the setup that needs no file.
        backend : "numpy" or "jax", instead of the file's.

        Raises ValueError for an unknown method, or where nothing is embedded.
        """
        setup = self.embedded if embedded else self.setup
        if setup is None:
            raise ValueError(
                f"{self.name} runs on your data only: --data DIR, where DIR/{self.setup.data.folder} holds them"
            )
        changes = {"rounds": rounds, "backend": backend, "seeds": None if seeds is None else tuple(seeds)}
        setup = replace(setup, **{key: value for key, value in changes.items() if value is not None})
        setup = replace(setup, every=min(setup.every, setup.rounds))
        known = [method.name for method in self.methods]
        for name in methods or ():
            if name not in known:
                raise ValueError(f"{self.name} has no method {name!r}; it has {'; '.join(known)}")
        chosen = [method for method in self.methods if methods is None or method.name in methods]
        return [
            self._run(method, point, seed, setup, embedded)
            for seed in setup.seeds
            for method in chosen
            for point in method.points()
        ]

    def _run(self, method, point, seed, setup, embedded):
        settings, work = deepcopy(method.settings), {**setup.work, **method.work}
        for key, value in point.items():
            if key.startswith("work."):
                work[key.removeprefix("work.")] = value
            else:
                put(settings, key.split("."), value)
        setup = replace(setup, work=work)
        return Run(self.name, method.name, method.algorithm, settings, point, seed, setup, embedded)


@typed
def slug(text: str) -> str:
    """Text as part of a file's name.

    >>> slug("FedAvg, private+eps=1.5")
    'FedAvg_private+eps=1.5'
    """
    return re.sub(r"[^A-Za-z0-9.=+-]+", "_", text)


@typed
def put(settings: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    """Set settings[a][b]... for the keys a, b, ..."""
    for key in keys[:-1]:
        settings = settings.setdefault(key, {})
    settings[keys[-1]] = value


@typed
def plain(value: Any) -> Any:
    """The value with infinities as the string "inf", NaN as None and tuples as lists: what JSON can hold.

    >>> plain({"eps": float("inf"), "decay": (0.5, 2)})
    {'eps': 'inf', 'decay': [0.5, 2]}
    """
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else "inf" if value > 0 else "-inf"
    return value


@typed
def label(value: Any) -> str:
    """A grid value as short text: itself, or the name in a table that has one.

    >>> label(0.5), label({"choice": "robusthdp_eps", "name": "Dist1"})
    ('0.5', 'Dist1')
    """
    if isinstance(value, dict):
        return str(value["name"]) if "name" in value else json.dumps(plain(value), sort_keys=True)
    return f"{value:g}" if isinstance(value, float) else str(value)
