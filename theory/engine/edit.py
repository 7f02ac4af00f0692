"""An edit: where `printed` departs from the paper's text, and why.

Belongs here: the record.  Does not belong here: comparing the text with the formula (literal.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.engine.lines import join_texts
from theory.engine.problem import Malformed


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One departure from the text: an index mended, an undefined symbol read as another, a line taken out of context.

    Attributes
    ----------
    printed, read : a piece of the claim's `latex`, and what is read for it, as LaTeX.
    reason : why it is read so, for readers.
    changes_value : whether the formula has another value as read; then the verdict cannot be `holds`.
    """

    printed: str
    read: str
    reason: str
    changes_value: bool = False

    def __post_init__(self) -> None:
        join_texts(self, latex=("printed", "read"))
        if not self.printed or self.printed == self.read:
            raise Malformed(f"the edit of {self.printed!r} edits nothing", "give the printed piece, and what is read for it")
        if not self.reason:
            raise Malformed(f"the edit of {self.printed!r} has no reason", "say in reason why it is read so")


__all__ = ["Edit"]
