"""A budget that remembers: what was spent on a data set, in a file that outlives processes and that all of them share.

Every release is entered, and is on the disk, before it leaves.  So a process killed at any moment can have entered a release
that never left, but none can have left that was not entered.  The file is whole or not there, one process changes it at a
time, and a file that is damaged, of another data set or older than this object has seen allows nothing.

What a file cannot do: whoever may write it may also replace it by an older copy between two runs, or start a second one for
the same people.  It belongs where the data are, under the same permissions.

Belongs here: `BudgetFile` and what is in the file.  Does not belong here: how guarantees add up (``budget``), atomic writing
and locks (``system.files``).
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

import numpy as np

from estimators.accounting.budget import SIMULATED, Budget, Guarantee, running_epsilon, total_epsilon
from estimators.system import files
from estimators.system.untrusted import TEXT, read_bytes, read_json, shown

__all__ = ["BudgetError", "BudgetFile", "Entry"]

VERSIONS = (1, 2)  # a file of the first has no order
NAME = 200  # letters that a data set's name may have
ENTRIES = 10_000  # which keep a file far below what is read
KEYS = {"kind", "version", "id", "data", "eps", "delta", "adjacency", "order", "releases", "checksum"}


class BudgetError(ValueError):
    """A budget refuses: it is spent, damaged, of another data set or another adjacency, and nothing may be released."""


class Entry(NamedTuple):
    """One release: when it was entered (UTC, to the second), what released it, and its guarantee."""

    time: str
    what: str
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as the file has them."""
        return {"time": self.time, "what": self.what, "guarantee": self.guarantee.to_dict()}


class State(NamedTuple):
    """What is in a file."""

    identity: str
    data: str
    eps: float
    delta: float
    adjacency: str
    order: float | None
    entries: tuple[Entry, ...]


class BudgetFile(Budget):
    """A `Budget` in a file: of one data set, for all processes, whatever ends them.

    Clients take it as ``budget``, and copies and pickled clients all charge the one file.  A data set is known by the name
    that its owner gives it, which says who is in it; nothing is computed from its rows, so they may grow or be corrected
    and the budget stays the same people's.

    Parameters
    ----------
    path : file that `create` made; it is never made anew, for a lost budget is not an unspent one.
    data : str, the name of the data set, or None for whatever the file is of.

    Attributes
    ----------
    eps, delta, adjacency, data : the limit, what it protects, and the data set's name; releases : the guarantees so far.
    order : of the filter that the file keeps to, or None where releases are planned; see ``Budget``.

    Raises
    ------
    BudgetError
        A ValueError, for a file that is damaged, or of another data set.
    OSError
        For one that is not there or cannot be written.

    >>> import tempfile
    >>> from estimators.private import RateClient
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     budget = BudgetFile.create(Path(folder, "a.budget"), data="ward 7", eps=2.0)
    ...     for _ in range(2):
    ...         report = RateClient(eps=1.0, budget=BudgetFile(budget.path)).report([0, 1, 1])
    ...     print(budget.spent(), budget.left(), len(budget.entries))
    2.0 0.0 2
    """

    def __init__(self, path: str | os.PathLike[str], data: str | None = None) -> None:
        self.path = Path(os.path.abspath(path))
        self.identity, self.seen = "", (0, digest([]))
        self.guard = RLock()  # of threads: what one has read is not what another has just entered
        self.data = "" if data is None else named(data)
        self.load()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        data: str,
        eps: float = np.inf,
        delta: float = 0.0,
        adjacency: str = "row",
        order: float | None = None,
    ) -> Self:
        """Make a new file; FileExistsError if there is one.

        Parameters
        ----------
        path : its place, in a folder that exists.
        data : str, the name of the data set, which is written into the file.
        eps : number > 0, the limit; inf counts what is spent and refuses nothing.
        delta : number in [0, 1); adjacency : key of ``ADJACENCIES``.
        order : as of ``Budget``, for adaptive spending; it stays the file's for ever.
        """
        path, limit = Path(os.path.abspath(path)), Budget(eps=eps, delta=delta, adjacency=adjacency, order=order)
        state = State(secrets.token_hex(16), named(data), limit.eps, limit.delta, adjacency, limit.order, ())
        if not path.parent.is_dir():
            raise FileNotFoundError(2, "No such file or directory", str(path.parent))
        with files.locked(path):
            if os.path.lexists(path):
                raise FileExistsError(17, "there is a file already, which may hold a budget", str(path))
            store(path, state)
        return cls(path, data)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reopen, (str(self.path), self.data, self.identity, self.seen)

    def load(self) -> State:
        """Return what is in the file now, checked against what this object knows of it."""
        with self.guard:
            return self.checked(read(self.path))

    def checked(self, state: State) -> State:
        """Return what was read, checked against what this object knows, which it is then."""
        if self.identity and state.identity != self.identity:
            raise BudgetError(f"{self.path} is another budget than the one that was opened; put that one back")
        if self.data and state.data != self.data:
            raise BudgetError(
                f"{self.path} is the budget of the data set {state.data!r}, not of {self.data!r}; give the right file, or, "
                f"if it holds the same people, the name {state.data!r}"
            )
        number, before = self.seen
        if len(state.entries) < number or digest(state.entries[:number]) != before:
            raise BudgetError(f"{self.path} has lost releases that were in it: it is an older copy; put the newest one back")
        self.know(state)
        return state

    def know(self, state: State) -> None:
        """Keep what is in the file."""
        self.identity, self.seen = state.identity, (len(state.entries), digest(state.entries))
        self.data, self.eps, self.delta, self.adjacency = state.data, state.eps, state.delta, state.adjacency
        self.order = state.order
        self.releases = [entry.guarantee for entry in state.entries]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All releases, the first one first."""
        return self.load().entries

    @property
    def limited(self) -> bool:
        """Whether anything is ever refused for its eps."""
        return bool(np.isfinite(self.eps))

    def stated_delta(self) -> float:
        """Return the delta that totals are stated at: the limit's; without a limit at least what the releases have."""
        spent = sum(each.delta for each in self.releases)
        return self.delta if self.limited else min(max(self.delta, spent), np.nextafter(1.0, 0.0))

    def check(self, guarantee: Guarantee) -> None:
        """Raise ValueError if the release is simulated, has another adjacency, or would exceed what is left in the file."""
        with self.guard:
            self.load()
            self.admit(guarantee)

    def admit(self, guarantee: Guarantee) -> None:
        """Do what `check` does with what was in the file when it was last read."""
        if isinstance(guarantee, Guarantee) and guarantee.simulated:
            raise BudgetError(
                f"this release is {SIMULATED}, so no budget can account for it; leave out the generator (or the seed)"
            )
        try:
            super().check(guarantee)
        except ValueError as error:
            raise BudgetError(f"{error} ({self.path}, data set {self.data!r})") from None

    def spend(self, guarantee: Guarantee, what: str = "report") -> None:
        """Enter a release on the disk, or raise and enter nothing.  Call it before the release leaves.

        Parameters
        ----------
        guarantee : of the release; what : str, a word for the list of releases.
        """
        with files.locked(self.path), self.guard:
            state = self.load()
            self.admit(guarantee)
            if len(state.entries) >= ENTRIES:
                raise BudgetError(f"{self.path} holds {ENTRIES} releases, as many as it can; close it and make one anew")
            entry = Entry(datetime.now(UTC).isoformat(timespec="seconds"), named(what), guarantee)
            state = state._replace(entries=(*state.entries, entry))
            store(self.path, state)
            self.know(state)

    def lower(self, *, eps: float, delta: float = 0.0) -> None:
        """Set a lower limit; what was spent stays.  A limit that was promised is never raised.

        That of a file with an order is fixed by its first release, unless delta is 0: a filter promises the limit that it
        had before it saw answers, and one that is chosen after them may be chosen by them.

        Parameters
        ----------
        eps : number > 0, at most the limit's; delta : number in [0, 1), at most the limit's unless it has no eps yet.
        """
        limit = Budget(eps=eps, delta=delta, adjacency=self.adjacency, order=self.order)
        with files.locked(self.path), self.guard:
            state = self.load()
            if limit.eps > state.eps or (limit.delta > state.delta and self.limited):
                raise BudgetError(
                    f"the limit of {self.path}, eps={state.eps:g} at delta={state.delta:g}, can be lowered but not raised"
                )
            if state.order is not None and state.entries and max(limit.delta, state.delta) > 0:
                raise BudgetError(
                    f"the limit of {self.path} is that of adaptive releases, and there are some already; set it before the "
                    "first one, or stop early"
                )
            state = state._replace(eps=limit.eps, delta=limit.delta)
            store(self.path, state)
            self.know(state)

    def spent(self) -> float:
        """Upper bound on eps at `stated_delta` of all releases in the file together; 0 before the first."""
        self.load()
        return total_epsilon(tuple(self.releases), self.stated_delta(), self.order)

    def odometer(self) -> float:
        """Upper bound on eps at `stated_delta` now, whatever was chosen by earlier answers; see ``Budget.odometer``.

        In a file without a limit that delta grows with those of releases, which must then have been planned.
        """
        self.load()
        return running_epsilon(tuple(self.releases), self.stated_delta())

    def left(self) -> float:
        """What is missing to the limit's eps, never below 0."""
        spent = self.spent()  # which reads the limit too
        return max(0.0, self.eps - spent) if self.limited else np.inf

    def summary(self) -> dict[str, Any]:
        """Return what was spent and what is left as plain values, an eps that is infinite as None."""
        spent = self.spent()
        return {
            "file": str(self.path), "data": self.data, "adjacency": self.adjacency, "releases": len(self.releases),
            "spent": finite(spent), "delta": self.stated_delta(), "limit": finite(self.eps), "left": finite(self.left()),
            "adaptive": self.order is not None, "odometer": finite(self.odometer()),
        }  # fmt: skip

    def __str__(self):
        facts = self.summary()
        number = facts["releases"]
        spent = np.inf if facts["spent"] is None else facts["spent"]
        limit = f"of eps={self.eps:g}, eps={facts['left']:g} is left" if self.limited else "no limit is set"
        now = np.inf if facts["odometer"] is None else facts["odometer"]
        running = f"; whatever was chosen by earlier answers, eps={now:g} holds now" if self.order is not None else ""
        return (
            f"data set {self.data!r}: eps={spent:g} at delta={facts['delta']:g} spent in {number} "
            f"release{'s' if number != 1 else ''}; {limit}{running}"
        )


def reopen(path: str, data: str, identity: str, seen: tuple[int, str]) -> BudgetFile:
    """Return a pickled budget: the same file, with what had been seen in it."""
    budget = BudgetFile(path, data)
    budget.identity, budget.seen = identity, (seen[0], seen[1])
    budget.load()
    return budget


def named(name: object) -> str:
    """Return a name that a person can read and a file can hold."""
    if not isinstance(name, str) or not name.strip() or len(name) > NAME or not name.isprintable():
        raise ValueError(f"data and what must be names of 1 to {NAME} printable letters, got {shown(name)}")
    return name.strip()


def finite(value: float) -> float | None:
    """Return a number that JSON has, or None."""
    return float(value) if np.isfinite(value) else None


def plain(entries: tuple[Entry, ...] | list[Entry]) -> list[dict[str, Any]]:
    """Return entries as plain values."""
    return [entry.to_dict() for entry in entries]


def digest(value: Any) -> str:
    """Return SHA-256 of entries, or of plain values, as sorted JSON text."""
    value = plain(value) if isinstance(value, (list, tuple)) else value
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def store(path: Path, state: State) -> None:
    """Write a file whole, and its name too, onto the disk."""
    content = {
        "kind": "budget", "version": VERSIONS[-1], "id": state.identity, "data": state.data,
        "eps": "inf" if np.isinf(state.eps) else state.eps, "delta": state.delta, "adjacency": state.adjacency,
        "order": "inf" if state.order == np.inf else state.order, "releases": plain(state.entries),
    }  # fmt: skip
    text = json.dumps({**content, "checksum": digest(content)}, indent=1, allow_nan=False) + "\n"
    if len(text) > TEXT:
        raise BudgetError(f"{path} would have more than {TEXT} bytes; close it and make one anew")
    parse(text, f"what was to be written to {path}")  # what could not be read again would block the budget for ever
    files.write(path, text)
    files.settle(path.parent)


def read(path: Path) -> State:
    """Return what is in a file; ValueError for all that `store` does not write."""
    what = f"the budget {path}"
    if not os.path.lexists(path):
        raise FileNotFoundError(2, "no budget is here; make one (borrow budget), or put the lost one back", str(path))
    content = read_bytes(path, largest=TEXT, what=what)
    if path.stat().st_nlink > 1:
        raise BudgetError(f"{what} has a second name (a hard link), which would go on with an old copy; remove one of them")
    return parse(content, what)


def parse(text: str | bytes, what: str) -> State:
    """Return the state in the text of a file."""
    try:
        content = read_json(text, what=what)
    except ValueError as error:
        raise BudgetError(f"{error}; put a whole copy back that holds every release") from None
    try:
        if not isinstance(content, dict) or content.keys() | {"order"} != KEYS:
            raise ValueError("its entries are not those of a budget")
        version = content["version"]
        if content["kind"] != "budget" or type(version) is not int or version != VERSIONS["order" in content]:
            raise ValueError(f"it is of another kind or version than {VERSIONS}")
        if content.pop("checksum") != digest(content):
            raise ValueError("it does not fit its checksum: somebody or something has changed it")
        order = content.get("order")
        limit = Budget(
            eps=float(content["eps"]), delta=float(content["delta"]), adjacency=content["adjacency"],
            order=None if order is None else float(order),
        )  # fmt: skip
        if not isinstance(content["id"], str) or not isinstance(content["releases"], list):
            raise ValueError("its entries have wrong types")
        entries = tuple(entry_of(release) for release in content["releases"])
        for entry in entries:
            if not entry.guarantee.covers(limit.adjacency) or entry.guarantee.simulated:
                raise ValueError("it holds releases of another adjacency, or simulated ones")
        return State(content["id"], named(content["data"]), limit.eps, limit.delta, limit.adjacency, limit.order, entries)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BudgetError(
            f"{what} is damaged or no budget ({str(error)[:200]}); put a whole copy back that holds every release"
        ) from None


def entry_of(release: dict[str, Any]) -> Entry:
    """Return one release out of a file."""
    if release.keys() != {"time", "what", "guarantee"}:
        raise ValueError("a release is incomplete")
    datetime.fromisoformat(release["time"])
    return Entry(release["time"], named(release["what"]), Guarantee.from_dict(release["guarantee"]))
