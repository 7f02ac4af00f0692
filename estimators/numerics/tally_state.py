"""Tallies as dictionaries and files that tell when they are damaged, cut off or of another kind.

Belongs here: the envelope around a tally's content.  What the content means, and whether it makes sense, is in the
tallies (``streaming``).

Every tally that can be merged speaks one protocol: ``Tally.of(batch)``, ``tally.add(batch)``, ``a + b``,
``tally.to_dict()`` and ``Tally.from_dict(data)``; `save` and `load` work for all of them.
"""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from typing import Any, Self, TypeVar

from estimators.system import files
from estimators.system.untrusted import read_bytes, read_json

__all__ = ["Stored", "load", "save", "seal", "unseal"]

SomeTally = TypeVar("SomeTally", bound="Stored")
LARGEST_FILE = 1 << 29  # bytes, for some ten million clients in a tally that keeps each of them


def digest(kind: str, content: Any) -> str:
    """Return the SHA-256 of a tally's content."""
    text = json.dumps([kind, content], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def seal(kind: str, content: Any) -> dict[str, Any]:
    """Return `content`, plain JSON values, in an envelope with its kind and its digest.

    >>> unseal("Count", seal("Count", {"n": 3}))
    {'n': 3}
    """
    return {"tally": kind, "content": content, "sha256": digest(kind, content)}


def unseal(kind: str, data: Any) -> Any:
    """Return the content of the envelope `data`, or raise ValueError saying what is wrong with it."""
    if not isinstance(data, dict) or not {"tally", "content", "sha256"} <= data.keys():
        raise ValueError(f"this is no saved {kind}; give what its to_dict() returned")
    if data["tally"] != kind:
        found = data["tally"] if isinstance(data["tally"], str) else "tally of no name"
        raise ValueError(f"this is a saved {found[:40]}, not a {kind}; load it with {found[:40]}.from_dict")
    try:
        intact = digest(kind, data["content"]) == data["sha256"]
    except (TypeError, ValueError, RecursionError):
        intact = False
    if not intact:
        raise ValueError(f"the saved {kind} is damaged: its content does not fit its SHA-256; tally those clients again")
    return data["content"]


class Stored:
    """What every tally shares: equality of content, and the dictionary that `save` writes.

    A subclass has ``content()``, plain JSON values, and ``of_content``, a class method that turns them back into a tally and
    raises ValueError where they contradict each other.
    """

    def content(self) -> Any:
        """Return the tally as plain JSON values."""
        raise NotImplementedError

    @classmethod
    def of_content(cls, content: Any) -> Self:
        """Return the tally with this content."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and type(self) is type(other) and self.content() == other.content()

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain JSON values with a checksum."""
        return seal(type(self).__name__, self.content())

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the tally that `to_dict` described; ValueError if it is damaged or of another kind."""
        content = unseal(cls.__name__, data)
        try:
            return cls.of_content(content)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"the saved {cls.__name__} makes no sense ({error}); tally those clients again") from None


def save(tally: Stored, path: str | PathLike[str]) -> None:
    """Write `tally` to the file `path` as JSON: the file appears whole or not at all.

    Parameters
    ----------
    tally : anything with ``to_dict``.
    path : file; one that exists is replaced.
    """
    files.write(path, json.dumps(tally.to_dict(), allow_nan=False))


def load(kind: type[SomeTally], path: str | PathLike[str]) -> SomeTally:
    """Return the tally of class `kind` that `save` wrote to the file `path`.

    Raises
    ------
    ValueError
        If the file is cut off, damaged, holds another kind of tally, or is larger than `LARGEST_FILE`.
    """
    content = read_bytes(path, largest=LARGEST_FILE)
    try:
        data = read_json(content, what="it", largest=LARGEST_FILE)
    except ValueError as error:
        raise ValueError(f"{path} is cut off or no JSON of a tally ({error}); tally those clients again") from None
    try:
        return kind.from_dict(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
