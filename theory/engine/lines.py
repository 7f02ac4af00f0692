"""Texts that stand on several lines of a source file and are read as one.

A record's text may be a triple-quoted string: its line breaks, with the spaces around them, are single spaces.  In LaTeX
a ``%`` before a break takes the break away, as in LaTeX.

Belongs here: joining lines.  Does not belong here: LaTeX of letters (notation.py), what is shown of a claim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def joined(text: str, latex: bool = False) -> str:
    r"""The text on one line; a text without a line break stays as it is.

    >>> joined('''Two lines,
    ...     read as one.''')
    'Two lines, read as one.'
    >>> joined("x+%\n    y", latex=True)
    'x+y'
    """
    if "\n" not in text:
        return text
    whole = re.sub(r"(?<!\\)%\n\s*", "", text) if latex else text
    return re.sub(r"\s*\n\s*", " ", whole).strip()


def join_texts(record: Any, latex: tuple[str, ...] = ()) -> None:
    """Join the lines of a record's texts, also in its tuples and mappings; `latex` names the fields that hold LaTeX."""
    for f in fields(record):
        found = getattr(record, f.name)
        object.__setattr__(record, f.name, _joined(found, f.name in latex))


def _joined(value: Any, latex: bool) -> Any:
    if isinstance(value, str):
        return joined(value, latex)
    if isinstance(value, tuple) and any(isinstance(v, str) and "\n" in v for v in value):
        return tuple(_joined(v, latex) for v in value)
    if isinstance(value, Mapping) and any(isinstance(v, str) and "\n" in v for v in value.values()):
        return {k: _joined(v, latex) for k, v in value.items()}
    return value


__all__ = ["join_texts", "joined"]
