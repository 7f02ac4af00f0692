"""Reports: all that leaves a client, as small frozen objects that go to and come from JSON.

A report holds what is public (numbers of rows, noise variances, the guarantee) and noisy statistics, never a raw one.
Its checksum finds half-written and mixed-up files; whoever changes a report on purpose can change the checksum too, so
send reports over an authenticated channel.

Belongs here: the reports and their reading and writing.  Making them is in ``client`` and ``regression``, using them in
``server``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import chain
from math import isfinite
from sys import float_info
from typing import Any
from unicodedata import category

import numpy as np

from estimators.accounting.budget import Guarantee
from estimators.numerics.arrays import Floats
from estimators.numerics.validation import choice, count, finite, nonnegative
from estimators.system.untrusted import read_json, shown

__all__ = ["MeanReport", "RateReport", "RegressionReport", "read_report", "read_reports"]

VERSION = 1


def checksum(content: dict[str, Any]) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 of the sorted JSON text."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Report:
    """Base of the reports: the client's public name, its number of rows, and the guarantee."""

    client: str
    n: int
    guarantee: Guarantee

    def __post_init__(self):
        if not isinstance(self.client, str):
            raise ValueError(f"client must be a string, the client's public name, got {shown(self.client)}")
        if any(category(letter) == "Cc" for letter in self.client):
            raise ValueError(f"client must be a name without control characters, got {shown(self.client)}")
        one("n", self.n, count)
        if not isinstance(self.guarantee, Guarantee):
            raise ValueError(f"guarantee must be a Guarantee, got {type(self.guarantee).__name__}")

    def to_json(self) -> str:
        """Return the report as one line of JSON."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["guarantee"] = self.guarantee.to_dict()
        content = {"kind": type(self).__name__, "version": VERSION, **content}
        content = json.loads(json.dumps(content, allow_nan=False))
        return json.dumps({**content, "checksum": checksum(content)}, allow_nan=False)


LARGEST = 1e15
ORDINARY: dict[Callable[..., Any], Callable[[float], bool]] = {
    finite: lambda value: abs(value) <= LARGEST,
    nonnegative: lambda value: 0 <= value <= LARGEST,
    count: lambda value: 1 <= value <= LARGEST and value == int(value),
}
"""Plain numbers that pass a check, which is slow for one number and says what is wrong with the others."""


def one(name: str, value: Any, check: Callable[..., Any] = finite) -> None:
    """Check one number of a report, which may come from anybody."""
    if type(value) in (int, float) and check in ORDINARY and ORDINARY[check](value):  # NaN and infinities are none
        return
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{name} must be one number, got {shown(value)}")
    if isinstance(value, int) and abs(value) > float_info.max:  # NumPy would turn a whole number of any size into its own
        raise ValueError(f"{name} must be finite")
    check(name, value)


def numbers(name: str, values: Any) -> Floats:
    """Return an array of finite numbers out of a report, which may come from anybody."""
    try:
        return finite(name, values)
    except ValueError as error:
        raise ValueError(str(error)[:200]) from None
    except (TypeError, OverflowError):
        raise ValueError(f"{name} must be finite numbers, as many in each row, got {shown(values)}") from None


def ordinary_matrix(values: Any) -> bool:
    """Whether values are a symmetric matrix of two rows or more, in tuples of ordinary floats: what needs no slow check."""
    if type(values) is not tuple or len(values) < 2:
        return False
    if not all(type(row) is tuple and len(row) == len(values) for row in values):
        return False
    entries = list(chain.from_iterable(values))
    if set(map(type, entries)) != {float} or not isfinite(sum(entries)):  # as it is with NaN or an infinity among them
        return False
    if max(entries) > LARGEST or min(entries) < -LARGEST:
        return False
    return values == tuple(zip(*values, strict=True))


@dataclass(frozen=True)
class MeanReport(Report):
    """A client's noisy mean, and maybe the noisy variance among its rows.

    Parameters
    ----------
    estimate : number, unbiased for the client's mean after clipping; noise_variance : number >= 0, of the privacy noise.
    rounding_variance : number >= 0, upper bound on what the quantiser adds to the variance.
    bounds : pair (low, high) to which rows (adjacency "row") or the mean ("client") were clipped.
    variance : number or None, unbiased for the variance of a row (so perhaps negative); variance_noise : its noise's.
    """

    estimate: float
    noise_variance: float
    rounding_variance: float
    bounds: tuple[float, float]
    variance: float | None = None
    variance_noise: float | None = None

    def __post_init__(self):
        super().__post_init__()
        one("estimate", self.estimate)
        one("noise_variance", self.noise_variance, nonnegative)
        one("rounding_variance", self.rounding_variance, nonnegative)
        low_high("bounds", self.bounds)
        object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))
        if (self.variance is None) != (self.variance_noise is None):
            raise ValueError("variance and variance_noise must both be given or both be None")
        if self.variance is not None:
            one("variance", self.variance)
            one("variance_noise", self.variance_noise, nonnegative)


@dataclass(frozen=True)
class RateReport(Report):
    """A client's noisy number of ones, or noisy share of pairs of rows that are both ones.

    Parameters
    ----------
    statistic : "ones" or "pairs".
    trials : whole number >= 1; given the client's rate p, `value` is Binomial(trials, p) plus noise of mean 0 (for
        "ones"), or has mean p^2 (for "pairs", trials 1).
    value : number; noise_variance : number >= 0, variance of the noise given the ones.
    """

    statistic: str
    trials: int
    value: float
    noise_variance: float

    def __post_init__(self):
        super().__post_init__()
        choice("statistic", self.statistic, ("ones", "pairs"))
        one("trials", self.trials, count)
        one("value", self.value)
        one("noise_variance", self.noise_variance, nonnegative)


@dataclass(frozen=True)
class RegressionReport(Report):
    """Noisy sums of products of a client's clipped rows (x, y).

    Parameters
    ----------
    products : the noisy symmetric matrix sum of z z', z = (x, y), as nested tuples.
    noise_variance : number >= 0, variance of the noise on the diagonal; off it half of that.
    norm : number > 0, the Euclidean norm to which rows z were clipped.
    """

    products: tuple[tuple[float, ...], ...]
    noise_variance: float
    norm: float

    def __post_init__(self):
        super().__post_init__()
        if not ordinary_matrix(self.products):
            self.read_products()
        one("noise_variance", self.noise_variance, nonnegative)
        one("norm", self.norm)
        if self.norm <= 0:
            raise ValueError(f"norm must be > 0, got {self.norm}")

    def read_products(self) -> None:
        """Check the products, whatever they are, and make them tuples of floats."""
        matrix = numbers("products", self.products)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(f"products must be a square matrix of at least two rows, got shape {matrix.shape}")
        if (matrix != matrix.T).any():
            raise ValueError("products must be symmetric")
        object.__setattr__(self, "products", tuple(tuple(map(float, row)) for row in matrix))


KINDS = {cls.__name__: cls for cls in (MeanReport, RateReport, RegressionReport)}


WIDTHS = 1e-70, 1e70  # between which fourth powers, the variances of variances, are ordinary numbers


def low_high(name: str, bounds: Sequence[float]) -> tuple[float, float]:
    """Return bounds (low, high) as floats, low < high and neither too near nor too far apart to calculate with."""
    if type(bounds) is tuple and all(type(end) is float for end in bounds):
        return known_bounds(name, bounds)  # of one federation they are the same in every report
    return read_bounds(name, bounds)


@lru_cache(maxsize=1024)
def known_bounds(name: str, bounds: tuple[float, ...]) -> tuple[float, float]:
    """Return what `read_bounds` does, of a tuple of floats."""
    return read_bounds(name, bounds)


def read_bounds(name: str, bounds: Sequence[float]) -> tuple[float, float]:
    """Return checked bounds."""
    pair = numbers(name, bounds)
    if pair.shape != (2,) or not pair[0] < pair[1]:
        raise ValueError(f"{name} must be a pair (low, high) with low < high, got {shown(bounds)}")
    low, high = pair.tolist()
    least, most = WIDTHS
    if not least <= high - low <= most:
        raise ValueError(f"{name} must be {least:g} to {most:g} apart, got {low:g} and {high:g}; change the units")
    return low, high


def read_report(text: str) -> MeanReport | RateReport | RegressionReport:
    """Return the report that a client wrote with ``to_json``.

    Parameters
    ----------
    text : str or bytes of JSON.

    Raises
    ------
    ValueError
        For text that is no JSON, incomplete, too long or too deeply nested (``untrusted.read_json``), of another version,
        with unknown or impossible entries, or whose checksum does not fit.
    """
    try:
        content = read_json(text, what="report")
    except ValueError as error:
        raise ValueError(f"{error}; ask the client to send it again") from None
    if not isinstance(content, dict):
        raise ValueError(f"report must be a JSON object, got {type(content).__name__}")
    kind, version = content.get("kind"), content.get("version")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"report has kind {shown(kind)}; known are {', '.join(KINDS)}")
    if type(version) is not int or version != VERSION:
        raise ValueError(f"report has version {shown(version)}; this program reads version {VERSION}")
    cls = KINDS[kind]
    wanted = {"kind", "version", "checksum", *(field.name for field in fields(cls))}
    if content.keys() != wanted:
        missing, unknown = sorted(wanted - content.keys()), sorted(content.keys() - wanted)
        said = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown entries {shown(unknown)}"] * bool(unknown)
        raise ValueError(f"report {' and '.join(said)}")
    if content.pop("checksum") != checksum(content):
        raise ValueError("report does not fit its checksum: it was changed or damaged; ask the client to send it again")
    arguments = {field.name: content[field.name] for field in fields(cls)}
    if not isinstance(arguments["guarantee"], dict):
        raise ValueError(f"report has no guarantee with entries, but {shown(arguments['guarantee'])}")
    try:
        arguments["guarantee"] = Guarantee.from_dict(arguments["guarantee"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"report has an impossible guarantee ({str(error)[:200]})") from None
    return cls(**arguments)


def read_reports(lines: str | Iterable[str]) -> list[MeanReport | RateReport | RegressionReport]:
    """Return the reports of a text with one report per line (empty lines are skipped), or of a list of such lines.

    Raises ValueError naming the line of a bad report, and for two reports of one client.
    """
    reports, seen = [], {}
    for number, line in enumerate(lines.splitlines() if isinstance(lines, str) else lines, 1):
        if not line.strip():
            continue
        try:
            report = read_report(line)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        if report.client in seen:
            raise ValueError(f"line {number}: client {report.client!r} has reported in line {seen[report.client]} already")
        seen[report.client] = number
        reports.append(report)
    return reports
