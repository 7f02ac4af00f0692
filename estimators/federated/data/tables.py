"""A table of one's own: a row per example, in CSV, Parquet (with pyarrow) or npz.

Belongs here: from columns to clients.  Does not belong here: formats of tables (``estimators.tables``) and arrays
(``files``), data sets with conventions of their own (``loaders``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from estimators.federated.data import files
from estimators.federated.data.federation import Examples, Federation, held_share
from estimators.federated.data.loaders import silos
from estimators.federated.kinds import typed
from estimators.numerics.validation import index, shown
from estimators.tables.client_table import by_client
from estimators.tables.columns import Untold
from estimators.tables.table_file import CsvTable, open_parquet, refuse_foreign

__all__ = ["table"]


@typed
def table(
    path: str | Path,
    *,
    response: str = "y",
    client: str | None = "client",
    features: Sequence[str] | None = None,
    classes: int = 0,
    test_fraction: float = 0.25,
    seed: int = 0,
    sha256: str | None = None,
) -> Federation | Examples:
    """Clients and their rows from a file of the user: .csv, .parquet or .npz.

    Parameters
    ----------
    path : the file.  CSV and Parquet: a row per example; npz: arrays x (n, d), y (n,) and, unless `client` is None, client
        (n,), numbers.
    response, client : columns of CSV and Parquet, whatever their case; client None: one pool of rows, `Examples`, which a
        step such as "iid" gives to clients.
    features : columns of CSV and Parquet, None for all others; numbers, all finite.
    classes : whole number of classes, labels then 0..classes - 1; 0 for a response that is a number.
    test_fraction : number in [0, 1) of each client's rows that are for testing, at random; of a pool none are, "split_test"
        splits some off.
    seed : whole number >= 0, of the split; sha256 : None, or the SHA-256 that the file must have.

    Returns
    -------
    Federation, clients in the order of their first rows; or Examples.

    Raises
    ------
    ValueError
        Naming file and place of what is missing, no number, or of unequal length.

    >>> from importlib.resources import files
    >>> path = str(files("estimators.tables") / "data" / "surgical_mortality.csv")
    >>> table(path, response="deaths", client=None, features=["operations"]).x.shape
    (12, 1)
    """
    if not isinstance(path, (str, PathLike)) or not Path(path).is_file():
        raise ValueError(f"path must be that of a .csv, .parquet or .npz file that is there, got {shown(path)}")
    path, reader = Path(path), files.Reader("table", sha256)
    if sha256 is not None and len(sha256) != 64:
        raise ValueError(f"sha256 must be one, 64 hexadecimal digits, got {shown(sha256)}")
    classes, seed = index("classes", classes, 0), index("seed", seed, 0)
    held_share("test_fraction", test_fraction)
    if features is not None and not all(isinstance(name, str) for name in features):
        raise ValueError(f"features must be a list of names of columns, got {shown(features)}")
    content = reader.read(path)
    read = arrays if path.suffix.lower() == ".npz" else columns
    names, codes, x, y = read(path, content, response, client, features)
    if classes:
        odd = np.flatnonzero((y != np.floor(y)) | (y < 0) | (y >= classes))
        if len(odd):
            raise ValueError(f"{path}: {response} in row {odd[0] + 1} is no label; labels are 0..{classes - 1}")
    if codes is None:
        return Examples(x, y, classes=classes, name="table", provenance=reader.provenance())
    m = len(names)
    return silos(reader, by_client(codes, x, m), by_client(codes, y, m), classes, test_fraction, seed, names=names)


def columns(path: Path, content: bytes, response: str, client: str | None, features: Sequence[str] | None) -> Any:
    """Names, codes (n,), features (n, d) and responses (n,) of a table of columns."""
    if path.suffix.lower() in (".parquet", ".pq"):
        opened = open_parquet(path, content)
    else:
        refuse_foreign(str(path), content)
        try:
            opened = CsvTable(content.decode("utf-8-sig").splitlines(keepends=True), str(path))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text in UTF-8; save it again as CSV in UTF-8") from None
    if not opened.header:
        raise ValueError(f"{path} is empty; its first line must name the columns")
    response, client = response.lower(), None if client is None else client.lower()
    chosen = [name for name in opened.header if name and name not in (response, client)]
    chosen = chosen if features is None else [name.lower() for name in features]
    roles = [("response", response), *([] if client is None else [("client", client)]), *(("features", c) for c in chosen)]
    for role, name in roles:
        if name not in opened.header:
            raise ValueError(f"{role} must be in {path}, and it has no column {name!r}; it has {opened.shown()}")
    if not chosen:
        raise ValueError(f"{path} has no column of features beside {opened.shown()}")
    try:
        names, found = opened.read([*chosen, response], client=client)
    except ValueError as error:
        said = error.untold if isinstance(error, Untold) else str(error)  # a node's error may reach a server
        raise ValueError(f"{said}; or give the columns of numbers as features") from None
    x, y = np.column_stack([found[name] for name in chosen]), found[response]
    return (None, None, x, y) if names is None else (names.labels, names.codes, x, y)


def arrays(path: Path, content: bytes, response: str, client: str | None, features: Sequence[str] | None) -> Any:
    """Names, codes (n,), features (n, d) and responses (n,) of an npz file."""
    if features is not None:
        raise ValueError("features are columns of CSV and Parquet; of npz all columns of x are taken")
    found = files.npz(content, path, ["x", "y", *([] if client is None else ["client"])])
    x, y = found["x"], found["y"]
    lengths: Mapping[str, Any] = {name: value.shape[:1] for name, value in found.items()}
    if x.ndim < 2 or y.ndim != 1 or len(set(lengths.values())) > 1:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in found.items())
        raise ValueError(f"{path}: x must be (n, d), y and client (n,), with as many rows each; got {shapes}")
    for name in ("x", "y"):
        if found[name].dtype.kind not in "biuf" or not np.isfinite(found[name]).all():
            raise ValueError(
                f"{path}: {name} must hold finite numbers, got {found[name].dtype}; drop or fill what is missing"
            )
    if client is None:
        return None, None, x, y.astype(float)
    labels, first, codes = np.unique(found["client"], return_index=True, return_inverse=True)
    order = np.argsort(first)
    return tuple(map(str, labels[order])), np.argsort(order)[codes], x, y.astype(float)
