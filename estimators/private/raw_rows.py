"""A client's own rows as they are read: checked numbers, and errors that quote none of them.

Belongs here: what tells a position, a kind or a length where something is wrong, and never a value, not even in an
exception behind the one that is raised; and sums and means of such rows.  Does not belong here: what is released of them
(``client``, ``regression``, ``distributed``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from estimators.numerics.arrays import ArrayLike, Floats, Ints
from estimators.numerics.limits import quiet
from estimators.numerics.validation import finite, listing

__all__ = ["exact_sums", "mean_of", "raw", "raw_listing", "read_answers", "read_names", "read_rows", "read_samples"]


def read_answers(answers: ArrayLike) -> Floats:
    """Return one client's answers as an array of 0 and 1."""
    answers = read_rows(answers, "answers", booleans=True)
    wrong = np.flatnonzero(~np.isin(answers, (0.0, 1.0)))
    if wrong.size:
        raise ValueError(f"answers must be 0 or 1; the entry at position {wrong[0]} is neither")
    return answers


def raw(name: str, values: ArrayLike, booleans: bool = False) -> Floats:
    """Return raw data as an array of finite numbers; an error tells positions and never a value.

    Nothing of the data is in the exception, nor in one behind it, whatever the check of numbers has to say.
    """
    try:
        return finite(name, values, booleans=booleans)
    except Exception:  # of whatever kind: its text may quote the data, and so it is dropped here and not chained
        pass
    raise ValueError(f"{name} must be an array of finite numbers; {complaint(values)}")


def raw_listing(name: str, values: Any) -> list[Any]:
    """Return raw data of many clients as a list, one entry per client; an error quotes none of it."""
    try:
        return list(listing(name, values))
    except Exception:  # as in `raw`
        pass
    raise ValueError(f"{name} must be a list with the rows of each client, got {type(values).__name__}")


def complaint(values: Any) -> str:
    """Say where values are no finite numbers, without quoting any."""
    if isinstance(values, (list, tuple)) and any(isinstance(value, (list, tuple)) for value in values):
        sizes = [len(value) if isinstance(value, (list, tuple)) else -1 for value in values]
        if len(set(sizes)) > 1:
            return f"the entry at position {sizes.index(next(s for s in sizes if s != sizes[0]))} has another length"
    masked = np.argwhere(np.ma.getmaskarray(values)) if isinstance(values, np.ma.MaskedArray) else np.empty((0, 1))
    if len(masked):
        return f"the entry at position {', '.join(map(str, masked[0].tolist()))} is masked"
    try:
        array = np.asarray(values, dtype=object)
    except Exception:
        return "they are no array"
    for place, value in np.ndenumerate(array):
        try:
            number = None if isinstance(value, (str, bytes)) else float(value)
        except Exception:
            number = None
        if number is None or not np.isfinite(number):
            what = "is no number" if number is None else "is NaN" if np.isnan(number) else "is an infinity"
            return f"the entry at position {', '.join(map(str, place))} {what}" if place else f"what was given {what}"
    return "they are of a kind that is not taken for numbers (booleans, dates, complex, or labels that are not 0..n-1)"


def read_rows(rows: ArrayLike, name: str = "rows", booleans: bool = False) -> Floats:
    """Return one client's rows as a 1-d array with at least one finite value."""
    array = raw(name, rows, booleans)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a 1-d array with at least one value, got shape {array.shape}")
    return array


def read_samples(samples: Sequence[ArrayLike]) -> list[Floats]:
    """Return many clients' rows, each as `read_rows` returns them; what are arrays of floats are looked at together."""
    found = raw_listing("samples", samples)
    if not found:
        raise ValueError("samples must hold the rows of at least one client")
    plain = all(type(rows) is np.ndarray and rows.dtype == np.float64 and rows.ndim == 1 and rows.size for rows in found)
    if plain and np.isfinite(np.concatenate(found)).all():
        return [np.asarray(rows) for rows in found]
    return [read_rows(rows, f"samples[{i}]") for i, rows in enumerate(found)]


def read_names(names: Sequence[str], m: int) -> list[str]:
    """Return the public names of m clients, checked to be different."""
    found = list(listing("names", names))
    if len(found) != m or not all(isinstance(name, str) for name in found):
        raise ValueError(f"names must be {m} strings, one for each client, got {len(found)} entries")
    if len(set(found)) < m:
        twice = next(name for i, name in enumerate(found) if name in found[:i])
        raise ValueError(f"names hold {twice!r} twice; a client reports once")
    return found


def exact_sums(values: Ints, sizes: Ints) -> list[int]:
    """Return sums of whole numbers in 0..2^62, each of the next so many of them; Python's integers, halves added apart."""
    starts = np.cumsum(sizes) - sizes
    high, low = (np.add.reduceat(part, starts).tolist() for part in (values >> 32, values & 0xFFFFFFFF))
    return [(h << 32) + rest for h, rest in zip(high, low, strict=True)]


def mean_of(rows: Floats) -> float:
    """Return the mean of finite rows, finite also where their sum is not."""
    with quiet():
        mean = rows.mean()
        return mean if np.isfinite(mean) else np.sum(rows / len(rows))
