"""A practitioner's table of clients, read from CSV or Parquet into what the models take.

Belongs here: what columns mean, which forms of tables there are, and what their cells must satisfy.  Files and cells
are in ``table_file``, fitting is in the models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from estimators.numerics.arrays import Bools, Floats, Ints
from estimators.numerics.validation import texts
from estimators.tables.columns import Untold
from estimators.tables.table_file import number_problem, open_table

if TYPE_CHECKING:
    from estimators.tables.table_file import Names, Table


__all__ = [
    "FORMS",
    "ROLES",
    "BinomialTable",
    "ClientTable",
    "Covariates",
    "PoissonTable",
    "RegressionTable",
    "read_client_table",
]


@dataclass(frozen=True)
class Form:
    """One form of table: the roles that its columns play, and those that may be left out."""

    roles: tuple[str, ...]
    optional: tuple[str, ...] = ()
    one_row_each: bool = True

    def __str__(self):
        return ",".join(self.roles) + "".join(f"[,{role}]" for role in self.optional)


FORMS = {
    "samples": Form(("client", "value"), one_row_each=False),
    "means": Form(("client", "mean", "variance"), ("n",)),
    "estimates": Form(("client", "estimate", "se"), ("n",)),
    "binomial": Form(("client", "successes", "trials")),
    "outcomes": Form(("client", "outcome"), one_row_each=False),
    "poisson": Form(("client", "count"), ("exposure",)),
}
"""Forms told apart by their columns; regression, the remaining one, by a target and features that the user names."""

LARGEST = 1e100
"""Largest number in a table, and its reciprocal the smallest variance, error and exposure, because models square them."""

ROLES = tuple(dict.fromkeys(role for form in FORMS.values() for role in (*form.roles, *form.optional)))


@dataclass(frozen=True, eq=False)
class Covariates:
    """What is known of every client beforehand: `values` (m, q) of the covariates `names`."""

    names: tuple[str, ...]
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class ClientTable:
    """Means: name, estimate, sampling variance of the estimate, and observations (or None) of every client.

    `rows`, of raw data only, has the code of each row's client and its value; `row_variances` the variance of one
    observation as each client's own tell it, where that is in the table (0 for a single row).
    """

    clients: tuple[str, ...]
    estimates: np.ndarray
    variances: np.ndarray
    counts: np.ndarray | None
    rows: tuple[np.ndarray, np.ndarray] | None = None
    row_variances: np.ndarray | None = None
    covariates: Covariates | None = None
    data: str = field(default="means", init=False)

    def samples(self) -> list[Floats] | None:
        """Return the list of every client's own values, or None if the table had no raw rows."""
        return None if self.rows is None else by_client(*self.rows, len(self.clients))


@dataclass(frozen=True, eq=False)
class BinomialTable:
    """Counts out of trials: name, successes and trials of every client."""

    clients: tuple[str, ...]
    successes: np.ndarray
    trials: np.ndarray
    covariates: Covariates | None = None
    data: str = field(default="binomial", init=False)


@dataclass(frozen=True, eq=False)
class PoissonTable:
    """Counts of events: name, count and exposure (None: 1) of every client."""

    clients: tuple[str, ...]
    counts: np.ndarray
    exposures: np.ndarray | None
    covariates: Covariates | None = None
    data: str = field(default="poisson", init=False)


@dataclass(frozen=True, eq=False)
class RegressionTable:
    """Regressions: name, design (n_i, d) and targets (n_i,) of every client, the names of the d columns, clients' groups."""

    clients: tuple[str, ...]
    designs: list[np.ndarray]
    targets: list[np.ndarray]
    features: tuple[str, ...]
    groups: tuple[str, ...] | None = None
    data: str = field(default="regression", init=False)


AnyTable: TypeAlias = ClientTable | BinomialTable | PoissonTable | RegressionTable


def by_client(codes: Ints, values: Floats, m: int) -> list[Floats]:
    """Return the list of the rows of `values` of each of m clients, in their order."""
    order = np.argsort(codes, kind="stable")
    return np.split(values[order], np.cumsum(np.bincount(codes, minlength=m))[:-1])


def read_client_table(
    source: str | PathLike[str] | Iterable[str],
    columns: Mapping[str, str] | None = None,
    target: str | None = None,
    features: Sequence[str] | None = None,
    intercept: bool = True,
    progress: Callable[[int], None] | None = None,
    covariates: Sequence[str] | None = None,
    group: str | None = None,
) -> AnyTable:
    """Read clients from a CSV or Parquet file, in one of these forms, told apart by the names of the columns.

    - ``client,value``: one row per observation, any number of rows >= 1 per client in any order.  The
      variance of one observation is taken to be the same for all clients and pooled from those with two
      rows or more; the variance of an estimate is that over its number of rows.
    - ``client,mean,variance,n``: one row per client, where `variance` is that of ONE observation and the
      mean of n of them has variance / n.  Without the column `n`, `variance` is that of the mean itself.
    - ``client,estimate,se``: one row per client, with the standard error of its estimate; a column `n` is kept.
    - ``client,successes,trials``: one row per client; or ``client,outcome``, one row per trial, 0 or 1.
    - ``client,count,exposure``: events of each client, and how long or in how many they were counted; without
      the column `exposure` it is 1.
    - with `target` and `features`: one row per observation of a regression, any number of rows per client.

    Names are matched without regard to case and surrounding blanks; other columns are ignored, and so are
    empty lines.  Clients keep the order of their first row.  Where the column `client` is missing in a form with
    one row per client and `columns` names another one, clients are called by the number of their row.

    Parameters
    ----------
    source : path of a file (CSV in UTF-8, or Parquet by its ending), or an iterable of CSV lines.
    columns : dict from a role above to the name of the column that plays it; the form must use all roles named.
    target : name of the column to be predicted, or None.
    features : list of names of columns to predict it from; `intercept` puts a column of ones before them.
    progress : function that is told the number of rows read so far, or None.
    group : for regressions, name of a column with the group that each client is in; equal names in two groups are two
        clients, who are called group/client.
    covariates : list of names of columns that say something about the client, the same in all of its rows; not for
        regressions.  A column of words becomes one of 0 and 1 for each of them but the first in the alphabet.

    Returns
    -------
    ClientTable, BinomialTable, PoissonTable or RegressionTable.

    Raises
    ------
    ValueError
        Saying the line, the column, what is wrong and what is expected.

    Warns
    -----
    UserWarning
        If the table looks like one of frequencies, which is not read as such.

    >>> table = read_client_table(["client,mean,variance,n", "a,1.5,4.0,8", "b,2.5,4.0,2"])
    >>> table.clients, table.estimates.tolist(), table.variances.tolist()
    (('a', 'b'), [1.5, 2.5], [0.5, 2.0])
    >>> columns = {"client": "ward", "successes": "deaths", "trials": "ops"}
    >>> table = read_client_table(["ward,deaths,ops", "a,1,50", "b,7,80"], columns)
    >>> table.successes.tolist(), table.trials.tolist()
    ([1, 7], [50, 80])
    """
    if not isinstance(columns, (dict, type(None))):
        raise ValueError(f"columns must be a dict from roles to names of columns, got a {type(columns).__name__}")
    table = open_table(source)
    if not table.header:
        raise ValueError(f"{table.name} is empty; its first line must name the columns, {expected()}")
    columns = columns or {}
    if not all(isinstance(column, str) for column in columns.values()):
        raise ValueError("columns must hold names of columns; give strings")
    named = {role: column.strip().lower() for role, column in columns.items()}
    for role in named:
        if role not in ROLES:
            raise ValueError(f"columns has the role {role!r}; known are {', '.join(ROLES)}")
    if target is not None or features is not None:
        if covariates:
            raise ValueError("covariates are for one number per client; a regression has --features, which serve for them")
        return regression(table, named, target, features, intercept, progress, group)
    if group is not None:
        raise ValueError("groups of clients are for regressions; give --target and --features too")
    for role, column in named.items():
        require(table, column, f"for {role}")
        other = next(first for first, same in named.items() if same == column)
        if other != role:
            raise ValueError(f"column {column!r} is named for both {other} and {role}; name another one for one of them")
    form, found = choose(table, named)
    client = found.get("client")
    numbers = [c for r, c in found.items() if r != "client"]
    extra = covariate_columns(table, covariates or (), found)
    words = {column: levels for column in extra if (levels := levels_of(table, column)) is not None}
    read = Reader(table, found, *table.read([*numbers, *(c for c in extra if c not in words)], client, progress))
    if FORMS[form].one_row_each:
        read.one_row_each()
    read.ordinary()
    made = MAKERS[form](read)
    return replace(made, covariates=read.covariates(extra, words)) if extra else made


def covariate_columns(table: Table, covariates: Sequence[str], found: Mapping[str, str]) -> list[str]:
    """Return the names of the columns of covariates, checked."""
    columns = [column.strip().lower() for column in texts("covariates", list(covariates))] if len(covariates) else []
    for column in columns:
        require(table, column, "a covariate")
        if columns.count(column) > 1 or column in found.values():
            raise ValueError(f"column {column!r} is named twice among covariates and the other columns; name it once")
    return columns


def levels_of(table: Table, column: str) -> Names | None:
    """Return the words in a column that holds no number at all, or None."""
    try:
        table.read([column])
    except ValueError as error:
        try:
            names, _ = table.read([], column)
        except ValueError:
            raise error from None
        if names is None or any(number_problem(label) is None for label in names.labels):
            raise
        return names
    return None


def expected() -> str:
    """Return what a header may look like, for messages."""
    return f"either {' or '.join(map(str, FORMS.values()))}"


def require(table: Table, column: str, why: str) -> None:
    """Raise ValueError unless the table has `column`."""
    if column not in table.header:
        missing = f"{table.head}: no column {column!r} ({why})"
        raise Untold(f"{missing}; the columns are {table.shown()}", missing)


def choose(table: Table, named: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name of the table's form and a dict from roles to columns."""
    fitting = {}
    for name, form in FORMS.items():
        roles = {role: named.get(role, role) for role in (*form.roles, *form.optional)}
        taken = {column: role for role, column in named.items()}  # and so not there for the role of its own name
        found = {
            role: column for role, column in roles.items() if column in table.header and taken.get(column, role) == role
        }
        missing = set(form.roles) - found.keys()
        nameless = missing == {"client"} and form.one_row_each and named
        if named.keys() <= found.keys() and (not missing or nameless):
            fitting[name] = found
    if len(fitting) > 1:
        two = " and of ".join(str(FORMS[name]) for name in list(fitting)[:2])
        raise ValueError(
            f"{table.head}: the columns of {two} in {table.shown()}; leave out one set, or name those to be used, "
            "as in --mean COLUMN"
        )
    if not fitting:
        give = f"give {expected()}, or say which play these roles, as in --client COLUMN"
        raise Untold(f"{table.head}: missing columns in {table.shown()}; {give}", f"{table.head}: missing columns; {give}")
    return next(iter(fitting.items()))


def too_large(table: Table, column: str, values: Floats) -> None:
    """Raise ValueError for the first of `values` that is too large to calculate with."""
    bad = np.abs(values) > LARGEST
    table.first_bad(column, bad, lambda row: f"{values[row]:g} is beyond {LARGEST:g}; change the units")


class Reader:
    """Columns of a form, with checks that name the place of what fails them."""

    def __init__(self, table: Table, found: dict[str, str], names: Names, columns: dict[str, Floats]) -> None:
        self.table, self.found, self.names, self.columns = table, found, names, columns

    def __contains__(self, role):
        return role in self.found

    def __getitem__(self, role):
        return self.columns[self.found[role]]

    def get(self, role: str) -> Floats | None:
        """Return the column of a role that may be left out, or None."""
        return self.columns.get(self.found.get(role, ""))

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients."""
        if self.names is None:
            return tuple(str(i + 1) for i in range(next(iter(self.columns.values())).size))
        return self.names.labels

    def covariates(self, columns: Sequence[str], words: Mapping[str, Names]) -> Covariates:
        """Return the covariates of every client, columns of words as one of 0 and 1 for each but the first."""
        names, values = [], []
        for column in columns:
            if column in words:
                codes = self.of_clients(column, words[column].codes)
                for label in sorted(words[column].labels)[1:]:
                    names.append(f"{column}={label}")
                    values.append((codes == words[column].labels.index(label)).astype(float))
            else:
                names.append(column)
                values.append(self.of_clients(column, self.columns[column]))
        if not values:
            raise ValueError(
                f"{self.table.name}, column {columns[0]!r}: the same word for every client says nothing; leave it out"
            )
        return Covariates(tuple(names), np.column_stack(values))

    def of_clients(self, column: str, values: np.ndarray) -> np.ndarray:
        """Return the value of each client, which must be the same in all of its rows."""
        if self.names is None or len(self.names.labels) == values.size:
            return values
        codes = self.names.codes
        first = values[np.unique(codes, return_index=True)[1]]

        def problem(row: int) -> str:
            return f"differs from an earlier row of {self.names.labels[codes[row]]!r}; a covariate is one value per client"

        self.table.first_bad(column, values != first[codes], problem)
        return first

    def one_row_each(self) -> None:
        """Raise ValueError if a client has two rows."""
        where = self.names and self.names.repeated()
        if where:
            first, row = where
            label, before = self.names.labels[self.names.codes[row]], self.table.place(first)
            raise self.table.error(self.found["client"], row, f"{label!r} is already in {before}; give one row each")

    def check(self, role: str, bad: Bools, problem: str) -> None:
        """Raise ValueError with `problem`, in which {} is the number, at the first row where `bad` is true."""
        self.table.first_bad(self.found[role], bad, lambda row: problem.format(f"{self[role][row]:g}"))

    def ordinary(self) -> None:
        """Raise ValueError for numbers too large to square and to add up."""
        for column, values in self.columns.items():
            too_large(self.table, column, values)

    def positive(self, role: str, what: str) -> Floats:
        """Return the column after checking that it is > 0, by more than models can tell from 0."""
        self.check(role, self[role] <= 0, f"{{}} is not > 0; {what}")
        self.check(role, self[role] < 1 / LARGEST, f"{{}} is less than {1 / LARGEST:g}; change the units")
        return self[role]

    def whole(self, role: str, minimum: int, what: str) -> Ints:
        """Return the column as integers after checking that they are whole and at least `minimum`."""
        values = self[role]
        bad = (values < minimum) | (values != np.floor(values)) | (values > 2**53)
        self.check(role, bad, f"{{}} is not a whole number >= {minimum} of {what}")
        return values.astype(np.int64)


def read_samples(read: Reader) -> ClientTable:
    """Return the table of rows client,value."""
    codes, values, name, column = read.names.codes, read["value"], read.table.name, read.found["value"]
    counts = np.bincount(codes)
    if counts.max() == 1:
        raise ValueError(
            f"{name}: no client has two rows, so the variance within clients is unknown; "
            "add observations, or give client,mean,variance"
        )
    first = values[np.unique(codes, return_index=True)[1]]  # differences to it lose nothing to a large common part
    means = np.bincount(codes, values - first[codes]) / counts
    squares = np.bincount(codes, (values - first[codes] - means[codes]) ** 2)
    pooled = squares.sum() / (counts - 1).sum()
    if pooled < 1 / LARGEST**2:
        differ = (values != first[codes]).any()
        problem = f"differences have the variance {pooled:g}" if differ else "no client's values differ"
        way_out = "change the units" if differ else "so their variance would be 0; give client,mean,variance"
        raise ValueError(f"{name}, column {column!r}: {problem}, {way_out}")
    own = squares / np.maximum(counts - 1, 1)
    return ClientTable(read.clients, first + means, pooled / counts, counts, (codes, values), own)


def read_means(read: Reader) -> ClientTable:
    """Return the table of rows client,mean,variance[,n]."""
    variances = read.positive("variance", "a variance must be positive")
    counts = read.whole("n", 1, "observations") if "n" in read else None
    if counts is None:
        return ClientTable(read.clients, read["mean"], variances, counts)
    return ClientTable(read.clients, read["mean"], variances / counts, counts, row_variances=variances)


def read_estimates(read: Reader) -> ClientTable:
    """Return the table of rows client,estimate,se[,n]."""
    variances = read.positive("se", "a standard error must be positive; pool it if it is 0 by chance") ** 2
    counts = read.get("n")
    if counts is not None and (counts == np.floor(counts)).all():
        counts = counts.astype(np.int64)
    return ClientTable(read.clients, read["estimate"], variances, counts)


def read_binomial(read: Reader) -> BinomialTable:
    """Return the table of rows client,successes,trials."""
    successes, trials = read.whole("successes", 0, "successes"), read.whole("trials", 0, "trials")
    above = successes > trials
    if above.any():
        read.check(
            "successes", above, f"{{}} exceeds the trials, {trials[np.argmax(above)]}; swap the columns or mend the row"
        )
    return BinomialTable(read.clients, successes, trials)


def read_outcomes(read: Reader) -> BinomialTable:
    """Return the table of rows client,outcome."""
    outcomes = read["outcome"]
    read.check("outcome", (outcomes != 0) & (outcomes != 1), "{} is neither 0 nor 1; use the column value for measurements")
    codes = read.names.codes
    return BinomialTable(read.clients, np.bincount(codes, outcomes).astype(np.int64), np.bincount(codes))


def read_poisson(read: Reader) -> PoissonTable:
    """Return the table of rows client,count[,exposure]."""
    counts = read.whole("count", 0, "events")
    if "exposure" not in read:
        warn_of_frequencies(read)
    if "exposure" in read:
        read.positive("exposure", "an exposure must be positive; drop clients without")
    return PoissonTable(read.clients, counts, read.get("exposure"))


def warn_of_frequencies(read: Reader) -> None:
    """Warn where rows could be numbers of events, 0, 1, 2 and so on, and `count` how many clients had so many."""
    unused = ",".join(column for column in read.table.header if column and column not in read.found.values())
    client, labels = read.found.get("client"), read.clients
    rising = all(label.isdecimal() for label in labels) and (np.diff([int(label) for label in labels]) > 0).all()
    if client == "client" or not (client or unused) or not rising or int(labels[0]) > 1:
        return
    count, name = read.found["count"], f"its {client}" if client else f"the number of its row, with {unused} not used"
    warnings.warn(
        f"every row is one client here, called by {name}; if {count!r} tells instead how many clients had so many events, "
        "the table is one of frequencies: give every client a row of its own",
        stacklevel=4,
    )


MAKERS = {
    "samples": read_samples,
    "means": read_means,
    "estimates": read_estimates,
    "binomial": read_binomial,
    "outcomes": read_outcomes,
    "poisson": read_poisson,
}


def regression(
    table: Table,
    named: Mapping[str, str],
    target: str | None,
    features: Sequence[str] | None,
    intercept: bool,
    progress: Callable[[int], None] | None,
    group: str | None,
) -> RegressionTable:
    """Return the table of the regressions of `target` on `features`."""
    if target is None or not features:
        needed = "a regression needs both a target and features: give --target COLUMN --features COLUMN,COLUMN"
        raise Untold(needed, needed)
    extra = sorted(named.keys() - {"client"})
    if extra:
        raise ValueError(f"a regression has the columns client, target and features; leave out the role {extra[0]!r}")
    client, target = named.get("client", "client"), target.strip().lower()
    features = [column.strip().lower() for column in features]
    group = None if group is None else group.strip().lower()
    wanted = [(client, "the client"), (target, "the target"), *((f, "a feature") for f in features)]
    for column, why in [*wanted, *([] if group is None else [(group, "the group")])]:
        require(table, column, why)
    used = [target, *features]
    named_all = [client, *([] if group is None else [group]), *used]
    for column in named_all:
        if named_all.count(column) > 1:
            raise ValueError(f"column {column!r} is named twice among client, group, target and features; name it once")
    names, columns = table.read(used, client, progress)
    for column, values in columns.items():
        too_large(table, column, values)
    X = np.column_stack([*([np.ones(names.codes.size)] if intercept else []), *(columns[f] for f in features)])
    labels, codes, groups = names.labels, names.codes, None
    if group is not None:
        whole = table.read([], group)[0]
        assert whole is not None  # a column that is there
        pairs, first, codes = np.unique(whole.codes * len(labels) + codes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # clients keep the order of their first row
        codes = np.argsort(order)[codes]
        outer, inner = np.divmod(pairs[order], len(labels))
        groups = tuple(whole.labels[g] for g in outer)
        labels = tuple(f"{g}/{labels[i]}" for g, i in zip(groups, inner, strict=True))
    m = len(labels)
    designs, targets = by_client(codes, X, m), by_client(codes, columns[target], m)
    return RegressionTable(labels, designs, targets, (*(["intercept"] if intercept else []), *features), groups)
