"""What files of all kinds have in common: names of columns, names of clients, and the place of a mistake in words.

Belongs here: what the readers share.  Does not belong here: reading (``table_file``, ``table_arrow``).
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from estimators.numerics.arrays import Bools, Floats, Ints

__all__ = ["Names", "Table", "Untold", "mistake", "printable", "shortened"]


def printable(text: str) -> str:
    r"""Return `text` with codes instead of characters that would break lines or steer a terminal.

    >>> printable("a\nb")
    'a\\nb'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class Untold(ValueError):
    """A mistake in a table, with `untold`, the same message without anything that stands in a cell but a client's name."""

    def __init__(self, message: str, untold: str) -> None:
        super().__init__(message)
        self.untold = untold


def shortened(text: str, most: int = 18) -> str:
    """Return `text` cut to `most` characters, for a column or an axis.

    >>> shortened("St Mary's, Paddington")
    "St Mary's, Paddin…"
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


class Names:
    """Names of a column: `labels`, each once in the order of its first row, and the code of each row's label."""

    def __init__(self, labels: Iterable[str], codes: Ints) -> None:
        self.labels, self.codes = tuple(labels), codes

    def repeated(self) -> tuple[int, int] | None:
        """Return (first row, later row) of the first name that appears twice, or None."""
        if len(self.labels) == self.codes.size:
            return None
        first, where = np.full(len(self.labels), -1), None
        for row, code in enumerate(self.codes.tolist()):
            if first[code] >= 0:
                where = int(first[code]), row
                break
            first[code] = row
        return where


def mistake(place: str, problem: str) -> ValueError:
    """Return the error of one cell."""
    return Untold(f"{place}: {problem}", f"{place}: cannot be used; what is there is not shown in a private run")


class Table:
    """What both kinds of files share: names of columns and messages."""

    name: str
    header: list
    head: str
    read: Callable[..., tuple[Any, dict[str, Floats]]]

    def shown(self) -> str:
        """Return the header as one printable text."""
        return printable(",".join(self.header))

    def check_header(self, place: str) -> None:
        """Raise ValueError if a name of a column appears twice."""
        repeated = sorted({column for column in self.header if column and self.header.count(column) > 1})
        if repeated:
            raise ValueError(f"{place}: column {repeated[0]!r} appears twice; rename one of them")

    def place(self, row: int) -> str:
        """Return what a person calls the place of data row `row`, counted from 0."""
        raise NotImplementedError

    def error(self, column: str, row: int, problem: str) -> ValueError:
        """Return the ValueError for the cell of `column` in data row `row`, counted from 0."""
        return mistake(f"{self.name}, {self.place(row)}, column {column!r}", problem)

    def first_bad(self, column: str, bad: Bools, problem: Callable[[int], str]) -> None:
        """Raise the error of the first row where `bad` is true; `problem` makes its text from the row."""
        rows = np.flatnonzero(bad)
        if rows.size:
            row = int(rows[0])
            raise self.error(column, row, problem(row))
