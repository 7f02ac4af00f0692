"""Objects of the user's own modules, by name: module:name, or the name of an entry point.

Belongs here: finding and importing them.  Does not belong here: what they must be, which whoever asks checks.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

__all__ = ["imported", "installed"]


def imported(where: str, place: str) -> Any:
    """The object at a place such as "my_module:MyClass"; modules beside the user are found, as `python -m` finds them.

    Raises ValueError naming `where` and why it is not found.

    >>> imported("data.loader", "collections:Counter").__name__
    'Counter'
    """
    module, _, name = place.partition(":")
    sys.path.insert(0, "")
    try:
        found = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"{where} must be module:name, and {place!r} is not found: {error}") from None
    except Exception as error:  # of the module as it is read: a slip in its syntax, say
        raise ValueError(f"{where} is {place!r}, and importing it ends in {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove("")
    return found


def installed(group: str) -> dict[str, str]:
    """Places by the names that installed packages register in a group of entry points."""
    return {entry.name: entry.value for entry in sorted(entry_points(group=group), key=lambda entry: entry.name)}
