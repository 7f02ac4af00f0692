"""Result lines: small enough to commit, read back, summed up over seeds.

Belongs here: the form of a committed line, means and standard errors, the best point of a grid.  Does not belong here: doing
runs (``runs``), text (``tables``), pictures (``plots``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.experiments.plan import label, plain
from estimators.federated.experiments.runs import RESULT, configuration_hash
from estimators.federated.kinds import typed
from estimators.system.untrusted import EXPANDED, read_json

if TYPE_CHECKING:
    from estimators.federated.experiments.plan import Experiment

__all__ = ["Row", "collect", "current", "lines_of", "measured", "read_lines", "rows", "selected", "slim"]

HISTORY = 11
"""Most points of a committed history."""


@typed
def slim(result: Mapping[str, Any]) -> Any:
    """A result line to commit: numbers to six digits, a thinned history in columns, files as names with their SHA-256.

    >>> slim({"final": {"x": 0.123456789}, "history": [], "provenance": {}})["final"]
    {'x': 0.123457}
    """
    end = "failed" if "failed" in result else "final"  # a run that diverged has its reason instead of an end
    missing = sorted({"history", end, "provenance"} - result.keys())
    if missing:
        raise ValueError(f"result must be that of a run; it lacks {', '.join(missing)}")
    history = result["history"]
    step = max(-(-len(history) // HISTORY), 1)
    kept = history[(len(history) - 1) % step :: step]  # the last one is among them
    names = [name for name in (kept[-1] if kept else ()) if name == "round" or shown(name)]
    provenance = dict(result["provenance"])
    if "files" in provenance:
        provenance["files"] = {file["path"]: file["sha256"] for file in provenance["files"]}
    return rounded(
        {**result, "provenance": provenance, "history": {name: [record.get(name) for record in kept] for name in names}}
    )


def shown(measure: str) -> bool:
    """Whether a measure is one that tables and plots show: an accuracy or a mean squared error, not their spread."""
    parts = measure.split(".")
    return len(parts) == 3 and not parts[1].endswith("spread") and parts[2] in ("accuracy", "mse")


def rounded(value: Any) -> Any:
    """The value with numbers to six significant digits."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


@typed
def collect(directory: str | Path) -> list[Any]:
    """Results of all finished runs below a folder."""
    found = []
    for path in sorted(Path(directory).glob(f"*/{RESULT}")):
        try:
            found.append(read_json(path.read_bytes(), what=str(path), largest=EXPANDED))
        except FileNotFoundError:  # another process begins this run anew
            continue
        except ValueError:
            raise ValueError(f"{path} is damaged; remove its folder and run again") from None
    return found


@typed
def lines_of(experiment: Experiment, results: Sequence[Mapping[str, Any]]) -> str:
    """Text of committed lines, in the order of the experiment's methods and grids."""
    order = {(method.name, key(point)): i for i, (method, point) in enumerate(all_points(experiment))}
    known = [result for result in map(slim, results) if (result["method"], key(result["point"])) in order]
    known.sort(key=lambda result: (order[result["method"], key(result["point"])], result["seed"]))
    return "".join(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n" for result in known)


@typed
def read_lines(path: str | Path) -> list[Any]:
    """Results in a file of lines.

    Raises ValueError naming file and line.
    """
    found = []
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(read_json(text, what="line", largest=EXPANDED))
        except ValueError:
            raise ValueError(f"{path}, line {number}: not JSON; copy the file again") from None
    return found


@typed
def current(experiment: Experiment, result: Mapping[str, Any]) -> bool:
    """Whether a result is of a run of the experiment as it is now (for its own seed, rounds and backend)."""
    runs = experiment.runs(
        [result["seed"]], result["rounds"], [result["method"]], embedded=result["embedded"], backend=result["backend"]
    )
    return result["hash"] in map(configuration_hash, runs)


def all_points(experiment: Experiment) -> list[tuple[Any, Any]]:
    """Pairs of a method and a grid point, in the file's order."""
    return [(method, point) for method in experiment.methods for point in method.points()]


def key(point: Mapping[str, Any]) -> tuple[tuple[Any, str], ...]:
    """A grid point as something to compare, whether from TOML or from JSON."""
    return tuple(sorted((name, label(plain(value))) for name, value in point.items()))


@typed
def measured(values: Mapping[str, Any], measure: str) -> Any:
    """The number called `measure`; without "shared." or "personal." before it the personal one if there is one.

    >>> measured({"shared.clients.mse": 1.0}, "clients.mse")
    1.0
    """
    names = (measure, f"personal.{measure}", f"shared.{measure}")
    return next((values[name] for name in names if values.get(name) is not None), None)


@dataclass(frozen=True)
class Row:
    """All seeds of a method at a grid point; `best_of` is from how many points a table picked this one."""

    method: str
    point: dict
    results: tuple
    best_of: int = 1

    @property
    def whole(self) -> list[Any]:
        """Results of runs that did not fail."""
        return [result for result in self.results if "final" in result]

    def measures(self) -> list[Any]:
        """Names of the measures that tables show."""
        return [name for name in (self.whole[0]["final"] if self.whole else ()) if shown(name)]

    @typed
    def value(self, measure: str) -> tuple[float, float, int] | None:
        """Mean over seeds, its standard error (NaN for one seed) and the number of seeds; None if there is none."""
        values = [measured(result["final"], measure) for result in self.whole]
        values = np.array([value for value in values if value is not None], dtype=float)
        if len(values) == 0:
            return None
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return float(values.mean()), float(error), len(values)

    @typed
    def history(self, measure: str) -> Any:
        """Rounds, means and standard errors (0 for one seed) of the history that all seeds have."""
        columns = [dict(zip(r["history"]["round"], history_of(r["history"], measure), strict=True)) for r in self.whole]
        rounds = sorted(set.intersection(*map(set, columns))) if columns else []
        if not rounds:
            return np.empty(0), np.empty(0), np.empty(0)
        values = np.array([[column[t] for t in rounds] for column in columns], dtype=float)
        errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(len(rounds))
        return np.array(rounds), values.mean(axis=0), errors


def history_of(history: Any, measure: str) -> list[float]:
    """A column of a history."""
    found = measured(history, measure)
    return [np.nan] * len(history["round"]) if found is None else found


@typed
def rows(experiment: Experiment, results: Sequence[Mapping[str, Any]]) -> list[Any]:
    """A Row for every method and grid point with results, in the file's order."""
    found = []
    for method, point in all_points(experiment):
        own = [r for r in results if r["method"] == method.name and key(r["point"]) == key(point)]
        if own:
            found.append(Row(method.name, point, tuple(sorted(own, key=lambda r: r["seed"]))))
    return found


@typed
def selected(experiment: Experiment, found: Any, keep: Iterable[str] = ()) -> list[Any]:
    """The rows of a table: for methods that select, the best point over the keys that they select over, but `keep`."""
    chosen = []
    for method in experiment.methods:
        own = [row for row in found if row.method == method.name]
        if method.select is None:
            chosen += own
            continue
        over = [name for name in method.over if name not in keep]
        families = {}
        for row in own:
            families.setdefault(key({n: v for n, v in row.point.items() if n not in over}), []).append(row)
        for family in families.values():
            scored = [(row.value(method.select["measure"]), row) for row in family]
            scored = [(value[0], row) for value, row in scored if value is not None]
            if scored:
                best = (max if method.select["best"] == "max" else min)(scored, key=lambda pair: pair[0])[1]
                chosen.append(Row(best.method, best.point, best.results, len(family)))
    return chosen
