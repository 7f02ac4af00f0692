"""Reading a practitioner's CSV file of clients for empirical Bayes.  Fitting is in ``gaussian_means``."""

import csv
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from estimators.gaussian import from_samples

__all__ = ["ClientTable", "read_client_table"]


EXPECTED = "either client,value or client,mean,variance[,n]"


@dataclass(frozen=True, eq=False)
class ClientTable:
    """One entry per client: name, estimate, sampling variance of the estimate, observations (or None)."""

    clients: tuple[str, ...]
    estimates: np.ndarray
    variances: np.ndarray
    counts: np.ndarray | None


def read_client_table(source):
    """Read clients from a CSV file in one of two forms, told apart by the names of the columns.

    - ``client,value``: one row per observation, any number of rows >= 1 per client in any order.  The
      variance of one observation is taken to be the same for all clients and pooled from those with two
      rows or more; the variance of an estimate is that over its number of rows.
    - ``client,mean,variance,n``: one row per client, where `variance` is that of ONE observation and the
      mean of n of them has variance / n.  Without the column `n`, `variance` is that of the mean itself.

    Names are matched without regard to case and surrounding blanks; other columns are ignored, and so are
    empty lines.  Clients keep the order of their first row.

    Parameters
    ----------
    source : path of a file (UTF-8), or an iterable of lines.

    Returns
    -------
    ClientTable
        Whose estimates and variances go into ``GaussianMeans().fit``.

    Raises
    ------
    ValueError
        Saying the line, the column, what is wrong and what is expected.

    >>> table = read_client_table(["client,mean,variance,n", "a,1.5,4.0,8", "b,2.5,4.0,2"])
    >>> table.clients, table.estimates.tolist(), table.variances.tolist()
    (('a', 'b'), [1.5, 2.5], [0.5, 2.0])
    """
    if isinstance(source, (str, Path)):
        try:
            with open(source, encoding="utf-8-sig", newline="") as lines:
                return parse(lines, str(source))
        except UnicodeDecodeError:
            raise ValueError(f"{source} is not UTF-8 text; save it again as CSV in UTF-8") from None
    return parse(source, "table")


def parse(lines, name):
    """Return the table in `lines`; `name` is what messages call it."""
    rows = numbered_rows(csv.reader(lines, strict=True, skipinitialspace=True), name)
    first, header = next(rows, (0, None))
    if header is None:
        raise ValueError(f"{name} is empty; its first line must name the columns, {EXPECTED}")
    header = [cell.lower() for cell in header]
    repeated = sorted({column for column in header if column and header.count(column) > 1})
    if repeated:
        raise ValueError(f"{name}, line {first}: column {repeated[0]!r} appears twice; rename one of them")
    forms = {("client", "value"): raw_form, ("client", "mean", "variance"): summary_form}
    fitting = [form for columns, form in forms.items() if set(columns) <= set(header)]
    if len(fitting) != 1:
        problem = "the columns of both forms" if fitting else "missing columns"
        raise ValueError(f"{name}, line {first}: {problem} in {','.join(header)}; give {EXPECTED}")
    records = []
    for line, cells in rows:
        if len(cells) != len(header):
            found = f"{len(cells)} cells under {len(header)} column names"
            raise ValueError(f"{name}, line {line}: {found}; check for missing or unquoted commas")
        records.append(Record(name, line, dict(zip(header, cells, strict=True))))
    if not records:
        raise ValueError(f"{name} has column names but no clients; add a line per observation or client")
    return fitting[0](records, name)


def numbered_rows(reader, name):
    """Yield (line number, stripped cells) of each line that is not empty."""
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        place = f"{name}, line {reader.line_num}"
        raise ValueError(f"{place}: not valid CSV ({error}); check the quotes") from None


@dataclass(frozen=True)
class Record:
    """One data row, with its place for messages."""

    table: str
    line: int
    cells: dict

    def error(self, column, problem):
        """Return the ValueError for a cell."""
        return ValueError(f"{self.table}, line {self.line}, column {column!r}: {problem}")

    def client(self):
        """Return the client's name."""
        if not self.cells["client"]:
            raise self.error("client", "is blank; every row needs the name of its client")
        return self.cells["client"]

    def number(self, column):
        """Return the finite number in `column`."""
        text = self.cells[column]
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, f"{text!r} is not a number; write it like 0.25") from None
        if not math.isfinite(value):
            raise self.error(column, f"{text!r} is not finite; drop rows with missing values")
        return value


def raw_form(records, name):
    """Return the table of rows client,value."""
    samples = {}
    for record in records:
        samples.setdefault(record.client(), []).append(record.number("value"))
    if max(map(len, samples.values())) == 1:
        raise ValueError(
            f"{name}: no client has two rows, so the variance within clients is unknown; "
            "add observations, or give client,mean,variance"
        )
    estimates, variances = from_samples(list(samples.values()))
    if variances[0] == 0:
        raise ValueError(
            f"{name}, column 'value': no client's values differ, so their variance would be 0; give client,mean,variance"
        )
    counts = np.array([len(values) for values in samples.values()])
    return ClientTable(tuple(samples), estimates, variances, counts)


def summary_form(records, name):
    """Return the table of rows client,mean,variance[,n]."""
    lines, estimates, variances, counts = {}, [], [], []
    for record in records:
        client = record.client()
        if client in lines:
            raise record.error("client", f"{client!r} is already in line {lines[client]}; give one row each")
        lines[client] = record.line
        estimates.append(record.number("mean"))
        variances.append(record.number("variance"))
        if variances[-1] <= 0:
            raise record.error("variance", f"{variances[-1]:g} is not > 0; a variance must be positive")
        counts.append(record.number("n") if "n" in record.cells else 1)
        if counts[-1] < 1 or counts[-1] != math.floor(counts[-1]):
            raise record.error("n", f"{counts[-1]:g} is not a whole number >= 1 of observations")
    counts = np.array(counts, dtype=int)
    table = ClientTable(tuple(lines), np.array(estimates), np.array(variances) / counts, counts)
    return table if "n" in records[0].cells else replace(table, counts=None)
