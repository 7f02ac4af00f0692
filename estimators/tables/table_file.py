"""Columns of a practitioner's CSV or Parquet file, fast, and the place of every mistake.

Belongs here: CSV files, cells, numbers.  What all kinds of files share is in ``columns``; Parquet, and fast CSV by pyarrow,
are in ``table_arrow``; what the columns mean is in ``client_table``.

Whole chunks of rows become columns at once.  Only when something is wrong is the file read again, row by row, to say
where: correct files pay nothing for good messages.
"""

from __future__ import annotations

import csv
import gc
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.numerics.validation import listing
from estimators.system.untrusted import may_have_no_end
from estimators.tables import table_arrow
from estimators.tables.columns import Names, Table, Untold, mistake

__all__ = ["CsvTable", "number_problem", "open_table"]

CHUNK = 1 << 16
LARGE = 1 << 23  # bytes from which importing pyarrow pays
DELIMITERS = ",;\t"
FOREIGN = {
    b"\x1f\x8b": "compressed; unpack it first",
    b"PK\x03\x04": "an archive or an Excel file; save it as CSV in UTF-8",
    b"PAR1": "Parquet; give it a name that ends in .parquet",
    b"\xff\xfe": "UTF-16 text; save it again as CSV in UTF-8",
    b"\xfe\xff": "UTF-16 text; save it again as CSV in UTF-8",
}
"""What files are not CSV, by their first bytes."""


def refuse_foreign(name: str, content: bytes) -> None:
    """Raise ValueError for the content of a file, or its beginning, that is no text of a table.

    >>> refuse_foreign("ages.csv", b"PAR1")
    Traceback (most recent call last):
    ...
    ValueError: ages.csv is Parquet; give it a name that ends in .parquet
    """
    what = next((what for magic, what in FOREIGN.items() if content.startswith(magic)), None)
    if what:
        raise ValueError(f"{name} is {what}")


def open_table(source: str | PathLike[str] | Iterable[str]) -> Table:
    """Return the table in `source`: a path (``.parquet`` or ``.pq`` as Parquet, else CSV), or an iterable of CSV lines.

    >>> table = open_table(["Client , value", "a, 1", "b,2.5", "", "a,3"])
    >>> table.header
    ['client', 'value']
    >>> names, columns = table.read(["value"], client="client")
    >>> names.labels, names.codes.tolist(), columns["value"].tolist()
    (('a', 'b'), [0, 1, 0], [1.0, 2.5, 3.0])
    """
    if not isinstance(source, (str, PathLike)):
        lines = list(listing("source", source))
        if hasattr(source, "__array__") or not all(isinstance(line, str) for line in lines):
            raise ValueError("source must be a path or lines of CSV; give columns of a data frame to the models themselves")
        return CsvTable(lines, "table")
    path = Path(source)
    if may_have_no_end(path):
        raise ValueError(f"{path} is a device, which may have no end; give a file or a pipe")
    if path.suffix.lower() in (".parquet", ".pq"):
        return open_parquet(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe can be read only once
        with open(path, encoding="utf-8-sig", newline="") as pipe, utf8_only(str(source)):
            return CsvTable(list(pipe), str(source))
    return CsvTable(path, str(source))


def open_parquet(path: str | PathLike[str], content: bytes | None = None) -> table_arrow.ParquetTable:
    """Return the Parquet table in a file, or in the bytes that were read from it, which then is not opened again."""
    try:
        return table_arrow.ParquetTable(path, content)
    except ImportError:
        raise ValueError(
            f"{path} is Parquet, which needs pyarrow: pip install 'borrowed-strength[parquet]', or save it as CSV"
        ) from None


class CsvTable(Table):
    """A CSV file (UTF-8; commas, or semicolons or tabs if the first line has more of them) or a list of its lines.

    Lines that start with # above the names of the columns are skipped, as are empty lines anywhere.
    """

    def __init__(self, source: Path | list[str], name: str) -> None:
        self.source, self.name = source, name
        self.check_kind()
        with self.lines() as lines:
            text = next((line for line in lines if line.strip()), "")
        self.delimiter = max(DELIMITERS, key=text.count)
        with self.rows() as rows:
            self.first, header = next(rows, (0, []))
        self.header = [cell.lower() for cell in header]
        self.head = f"{name}, line {self.first}"
        self.check_header(self.head)

    def check_kind(self) -> None:
        """Raise ValueError for a file of another kind."""
        if not isinstance(self.source, list):
            with open(self.source, "rb") as file:
                refuse_foreign(self.name, file.read(4))

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        """Open the source as an iterator over its lines, with comments above the header blanked."""
        if isinstance(self.source, list):
            yield without_comments(iter(self.source))
            return
        with open(self.source, encoding="utf-8-sig", newline="") as file, utf8_only(self.name):
            yield without_comments(file)

    def reader(self, lines: Iterable[str]) -> Any:
        """Return the csv reader of `lines`."""
        return csv.reader(lines, delimiter=self.delimiter, strict=True, skipinitialspace=True)

    @contextmanager
    def rows(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """Open the source as an iterator over (line number, stripped cells) of each line that is not empty."""

        def each(reader):
            for cells in reader:
                cells = [cell.strip() for cell in cells]
                if any(cells):
                    yield reader.line_num, cells

        with self.lines() as lines:
            reader = self.reader(lines)
            try:
                yield each(reader)
            except csv.Error as error:
                raise self.malformed(reader, error) from None

    def malformed(self, reader: Any, error: Exception) -> ValueError:
        """Return the ValueError for what is not CSV."""
        return ValueError(f"{self.name}, line {reader.line_num}: not valid CSV ({error}); check the quotes")

    def place(self, row: int) -> str:
        """Return the line of data row `row`."""
        with self.rows() as rows:
            return f"line {next(islice(rows, row + 1, None))[0]}"

    def read(
        self, numbers: Sequence[str], client: str | None = None, progress: Callable[[int], None] | None = None
    ) -> tuple[Names | None, dict[str, Floats]]:
        """Return the `Names` in the column `client` (None without one) and a dict of the columns `numbers`, as arrays.

        Parameters
        ----------
        numbers : list of names in ``header``, all of whose cells must be finite numbers.
        client : name in ``header`` of a column of texts, or None.
        progress : function that is told the number of rows read so far, or None.

        Raises
        ------
        ValueError
            Naming file, line and column.
        """
        if fast := self.read_fast(numbers, client):
            if progress and fast[1]:
                progress(next(iter(fast[1].values())).size)
            return fast
        places = [self.header.index(column) for column in numbers]
        who = None if client is None else self.header.index(client)
        ids = defaultdict()
        ids.default_factory = ids.__len__
        codes, parts, total = [], [[] for _ in numbers], 0
        with self.lines() as lines, without_collections():
            reader = self.reader(lines)
            try:
                any(any(map(str.strip, cells)) for cells in reader)  # the header
                while chunk := list(islice(reader, CHUNK)):
                    rows = self.whole_rows(chunk)
                    for part, place in zip(parts, places, strict=True):
                        texts = list(map(itemgetter(place), rows))
                        part.append(np.fromiter(map(float, texts), float, len(rows)))
                        if not np.isfinite(part[-1]).all() or "_" in "".join(texts):
                            raise ValueError("not finite, or 5_0, a number in Python only")
                    if who is not None:
                        names = list(map(str.strip, map(itemgetter(who), rows)))
                        if "" in names:
                            raise ValueError("a blank name")
                        codes.append(np.fromiter(map(ids.__getitem__, names), np.int64, len(rows)))
                    total += len(rows)
                    if progress:
                        progress(total)
            except csv.Error as error:
                raise self.malformed(reader, error) from None
            except ValueError as error:
                if isinstance(error, UnicodeDecodeError):
                    raise
                self.find_mistake(numbers, client)
                raise
        if not total:
            raise ValueError(f"{self.name} has column names but no clients; add a line per observation or client")
        columns = {column: np.concatenate(part) for column, part in zip(numbers, parts, strict=True)}
        return None if who is None else Names(ids, np.concatenate(codes)), columns

    def read_fast(self, numbers: Sequence[str], client: str | None) -> tuple[Names | None, dict[str, Floats]] | None:
        """Return what `read` does by way of pyarrow, or None without it, for small files, and for any doubt."""
        if isinstance(self.source, list) or self.source.stat().st_size < LARGE:
            return None
        try:
            return table_arrow.read_csv(self.source, self.header, self.first, self.delimiter, numbers, client)
        except ImportError:
            return None

    def whole_rows(self, chunk: list[list[str]]) -> list[list[str]]:
        """Return the rows of `chunk` that are not empty; ValueError if one has too many or too few cells."""
        width = len(self.header)
        rows = [cells for cells in chunk if len(cells) == width and cells[0]]
        if len(rows) < len(chunk):
            rows = [cells for cells in chunk if any(map(str.strip, cells))]
            if any(len(cells) != width for cells in rows):
                raise ValueError("a row of another length")
        return rows

    def find_mistake(self, numbers: Sequence[str], client: str | None) -> None:
        """Raise the error of the first cell that cannot be read."""
        with self.rows() as rows:
            next(rows)
            for line, cells in rows:
                if len(cells) != len(self.header):
                    found = f"{len(cells)} cells under {len(self.header)} column names"
                    said = f"{self.name}, line {line}: {found}; check for missing or unquoted commas"
                    raise Untold(said, said)
                cell = dict(zip(self.header, cells, strict=True))
                if client is not None and not cell[client]:
                    problem = "is blank; every row needs the name of its client"
                    raise mistake(f"{self.name}, line {line}, column {client!r}", problem)
                for column in numbers:
                    if problem := number_problem(cell[column]):
                        raise mistake(f"{self.name}, line {line}, column {column!r}", problem)


@contextmanager
def utf8_only(name: str) -> Iterator[None]:
    """Say that the file `name` is not UTF-8."""
    try:
        yield
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text; save it again as CSV in UTF-8") from None


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause the garbage collector, which otherwise walks millions of new rows again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def without_comments(lines: Iterable[str]) -> Iterator[str]:
    """Yield `lines`, those that start with # above the first other one as empty lines, so that numbers stay right."""
    for line in lines:
        if not line.startswith("#"):
            yield line
            if line.strip():
                break
        else:
            yield "\n"
    yield from lines


def number_problem(text: str) -> str | None:
    """Return what is wrong with `text` as a finite number, or None."""
    shown = repr(text if len(text) <= 40 else f"{text[:37]}...")
    try:
        value = float(text.replace("_", "?"))
    except ValueError:
        if text.lower() in ("", "na", "null", "none", "-"):
            return f"{shown} is not a number; drop the row or fill in the missing value"
        return f"{shown} is not a number; write it like 0.25"
    return None if math.isfinite(value) else f"{shown} is not finite; drop rows with missing values"
