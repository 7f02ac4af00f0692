"""Tables by way of pyarrow, which is optional: Parquet files, and large CSV files several times as fast.

Belongs here: everything that imports pyarrow.  The plain reader, and the messages about CSV, are in
``table_file``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from io import BytesIO
from os import PathLike
from typing import Any

import numpy as np

from estimators.numerics.arrays import Floats
from estimators.tables.columns import Names, Table

__all__ = ["ParquetTable", "read_csv"]


def arrow() -> Any:
    """Return the package pyarrow with its modules that are used here; ImportError where it is not installed."""
    for name in ("compute", "csv", "parquet"):
        import_module(f"pyarrow.{name}")
    return import_module("pyarrow")


def names_of(texts: Any) -> Names:
    """Return the `Names` in a column of any type."""
    pyarrow = arrow()
    compute = pyarrow.compute
    coded = compute.utf8_trim_whitespace(compute.cast(texts, pyarrow.string())).combine_chunks().dictionary_encode()
    if isinstance(coded, pyarrow.ChunkedArray):
        coded = coded.combine_chunks()
    return Names(coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64))


def read_csv(
    path: str | PathLike[str], header: Sequence[str], skip: int, delimiter: str, numbers: Sequence[str], client: str | None
) -> tuple[Names | None, dict[str, Floats]] | None:
    """Return names and columns of a CSV file as ``CsvTable.read`` does, or None if that might see it otherwise.

    Parameters
    ----------
    path : file; header : names of its columns; skip : lines down to the end of the header; delimiter : character.
    numbers, client : as in ``CsvTable.read``.

    Raises
    ------
    ImportError
        Without pyarrow.
    """
    pyarrow = arrow()
    csv = pyarrow.csv
    places = {column: str(header.index(column)) for column in [*numbers, *([client] if client else [])]}
    types = {places[column]: pyarrow.string() if column == client else pyarrow.float64() for column in places}
    try:
        table = csv.read_csv(
            path,
            csv.ReadOptions(skip_rows=skip, column_names=[str(i) for i in range(len(header))]),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(include_columns=list(types), column_types=types, null_values=[]),
        )
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError):
        return None
    names = names_of(table[places[client]]) if client else None
    # A quote after a blank opens a quoted cell for the csv module only.
    if not table.num_rows or (names and any(not label or label[0] == '"' for label in names.labels)):
        return None
    columns = {column: table[places[column]].to_numpy().copy() for column in numbers}
    return (names, columns) if all(np.isfinite(values).all() for values in columns.values()) else None


class ParquetTable(Table):
    """A Parquet file, read by pyarrow, which is an optional dependency; or the bytes `content` that a file had."""

    def __init__(self, path: str | PathLike[str], content: bytes | None = None) -> None:
        parquet = arrow().parquet
        self.name, self.head = str(path), str(path)
        if content is None:
            with open(path, "rb"):  # the usual error if there is no such file
                pass
        try:
            self.file = parquet.ParquetFile(path if content is None else BytesIO(content))
        except (OSError, ValueError) as error:
            raise self.invalid(error) from None
        self.columns = {name.strip().lower(): name for name in self.file.schema_arrow.names}
        self.header = [name.strip().lower() for name in self.file.schema_arrow.names]
        self.check_header(self.head)

    def invalid(self, error: Exception) -> ValueError:
        """Return the ValueError for what pyarrow cannot read."""
        return ValueError(f"{self.name} is no valid Parquet file ({str(error).splitlines()[0]}); write it again")

    def place(self, row: int) -> str:
        """Return the row counted from 1."""
        return f"row {row + 1}"

    def read(
        self, numbers: Sequence[str], client: str | None = None, progress: Callable[[int], None] | None = None
    ) -> tuple[Names | None, dict[str, Floats]]:
        """Return names and columns, as ``CsvTable.read`` does."""
        pyarrow = arrow()
        wanted: dict[str, None] = dict.fromkeys([*numbers, *([client] if client else [])])
        try:
            table = self.file.read(columns=[self.columns[column] for column in wanted])
        except (OSError, ValueError) as error:
            raise self.invalid(error) from None
        if table.num_rows == 0:
            raise ValueError(f"{self.name} has column names but no clients; add a row per observation or client")
        for column in wanted:
            cells = table[self.columns[column]]
            if cells.null_count:
                row = int(np.flatnonzero(cells.is_null().to_numpy())[0])
                raise self.error(column, row, "is missing; drop the row or fill it in")
        found = {}
        for column in numbers:
            cells = table[self.columns[column]]
            kind = cells.type
            if not (pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)):
                raise ValueError(f"{self.name}, column {column!r}: holds {kind}, not numbers; convert it to numbers")
            found[column] = pyarrow.compute.cast(cells, pyarrow.float64(), safe=False).to_numpy().copy()
            self.first_bad(
                column,
                ~np.isfinite(found[column]),
                lambda row, column=column: f"'{found[column][row]}' is not finite; drop rows with missing values",
            )
        names = self.names(client, table[self.columns[client]]) if client else None
        if client and names and "" in names.labels:
            row = int(np.argmax(names.codes == names.labels.index("")))
            raise self.error(client, row, "is blank; every row needs the name of its client")
        if progress:
            progress(table.num_rows)
        return names, found

    def names(self, client: str, cells: Any) -> Names:
        """Return the `Names` in the cells of the column `client`."""
        pyarrow = arrow()
        if pyarrow.types.is_floating(cells.type):  # numbers with gaps, whose gaps are no client
            nan = pyarrow.compute.is_nan(cells).to_numpy()
            self.first_bad(client, nan, lambda row: "is missing; drop the row or fill it in")
        try:
            return names_of(cells)
        except pyarrow.ArrowException:
            raise ValueError(f"{self.name}, column {client!r}: holds {cells.type}, not names in UTF-8") from None
