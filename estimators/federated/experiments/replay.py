"""One short run of every experiment, kept line by line, and done again: the same bits on the same kind of machine.

A line is two rounds of an experiment's first method on its embedded data, with every digit.  Done again with the same
processor and versions it has the same bits; elsewhere the largest relative difference is at most TOLERANCE, the last of the
six digits that result lines show; the lines of one kind of processor came back on another within 3e-14.  A change of code
that moves bits is seen here before a page of results is wrong.

Belongs here: the lines, doing them again, how far apart two are.  Does not belong here: full runs (``runs``), what made a
line (``provenance``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from estimators.federated.experiments import provenance
from estimators.federated.experiments.experiment import FOLDER, experiments, read
from estimators.federated.experiments.runs import execute

__all__ = ["LINES", "ROUNDS", "TOLERANCE", "Replayed", "kept", "replay", "short", "text_of"]

LINES = FOLDER / "replay.jsonl"
ROUNDS = 2
TOLERANCE = 2e-6
KEYS = ("experiment", "method", "hash", "final", "data", "code", "versions", "machine")


class Replayed(NamedTuple):
    """What became of a line: whether bits had to be the same, the largest relative difference, why it fails (or "")."""

    name: str
    exact: bool
    difference: float
    problem: str


def short(name: str) -> dict[str, Any]:
    """The line of an experiment, made now.

    Raises ValueError if what its embedded data or backend need is missing (named).
    """
    run = read(name).runs(seeds=[0], rounds=ROUNDS, embedded=True)[0]
    with TemporaryDirectory() as folder:
        result = execute(run, folder)
    if "failed" in result:
        raise ValueError(f"{name}: {result['failed']}")
    return {key: result[key] for key in KEYS}


def kept(path: str | Path = LINES) -> dict[str, dict[str, Any]]:
    """The lines that are kept, by experiment."""
    lines = map(json.loads, Path(path).read_text(encoding="utf-8").splitlines())
    return {line["experiment"]: line for line in lines}


def text_of(lines: Mapping[str, Any]) -> str:
    """Lines as text to keep, in the order of experiments."""
    there = [lines[name] for name in experiments() if name in lines]
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in there)


def replay(name: str, line: Mapping[str, Any]) -> Replayed:
    """Do a line again and compare."""
    now = short(name)
    exact = line["machine"] == provenance.machine() and line["versions"] == now["versions"]
    for key in ("method", "hash"):
        if now[key] != line[key]:
            return Replayed(name, exact, float("inf"), f"{name} is another experiment now; write its line anew")
    if now["final"].keys() != line["final"].keys():
        return Replayed(name, exact, float("inf"), f"{name} has other measures now")
    far, measure = max((apart(now["final"][key], value), key) for key, value in line["final"].items())
    if far > (0.0 if exact else TOLERANCE):
        return Replayed(name, exact, far, f"{name}: {measure} was {line['final'][measure]}, now {now['final'][measure]}")
    if exact and now["data"] != line["data"]:
        return Replayed(name, exact, far, f"{name} is trained on other data now")
    return Replayed(name, exact, far, "")


def apart(a: Any, b: Any) -> float:
    """Relative difference of two numbers; infinite for what are not two numbers and differ.

    >>> apart(1.0, 1.0), apart(1.0, 1.5), apart("inf", 2.0)
    (0.0, 0.3333333333333333, inf)
    """
    if a == b:
        return 0.0
    if not all(isinstance(value, (int, float)) for value in (a, b)):
        return float("inf")
    return abs(a - b) / max(abs(a), abs(b))
