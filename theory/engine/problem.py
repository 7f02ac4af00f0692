"""What is malformed in a paper, where it stands, and how to mend it.

Belongs here: the record, and reading it off an exception.  Does not belong here: the rules (paper.py, claim.py,
registry.py), catching exceptions (reading.py).
"""

from __future__ import annotations

import ast
import traceback
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One thing that could not be read: of which paper and claim (empty where unknown), where, what, and the mend."""

    paper: str
    claim: str
    file: str
    line: int
    what: str
    mend: str

    @property
    def where(self) -> str:
        """``file:line``, the file as seen from the working folder where it lies below it."""
        path = Path(self.file)
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        return f"{path}:{self.line}" if self.line else str(path)

    def __str__(self) -> str:
        return f"{self.claim or self.paper}: {self.where}: {self.what}; {self.mend}"

    def to_json(self) -> dict[str, str]:
        """Plain data."""
        return {"paper": self.paper, "claim": self.claim, "where": self.where, "what": self.what, "mend": self.mend}


class Malformed(ValueError):
    """A house rule is broken: which, of which claim, and the mend."""

    def __init__(self, what: str, mend: str, claim: str = ""):
        super().__init__((f"claim {claim}: " if claim else "") + f"{what}; {mend}")
        self.what, self.mend, self.claim = what, mend, claim


def problem(paper: str, error: BaseException, file: str, folder: Path, lost: dict[str, int] | None = None) -> Problem:
    """The problem that an exception tells of.

    Parameters
    ----------
    error : raised while `file` was read.
    folder : of the paper; the innermost of its lines on the way to the error is where it stands.
    lost : names that lines of the file should have made, but failed.
    """
    if isinstance(error, SyntaxError) and error.filename:
        what = f"{type(error).__name__}: {error.msg}"
        return Problem(paper, "", error.filename, error.lineno or 0, what, "mend it; the claims of this file are not read")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(folder)]
    file, line = (frames[-1].filename, frames[-1].lineno or 0) if frames else (file, 0)
    if isinstance(error, Malformed):
        return Problem(paper, error.claim or claim_at(file, line), file, line, error.what, error.mend)
    what, mend = f"{type(error).__name__}: {error}", "mend this line"
    if isinstance(error, NameError) and lost and error.name in lost:
        what, mend = f"needs {error.name}, which line {lost[error.name]} failed to make", "mend that line"
    elif isinstance(error, ImportError):
        mend = "install what is missing, or mend the import"
    elif isinstance(error, TypeError) and "Claim.__init__()" in what:
        what, mend = str(error).removeprefix("Claim.__init__() "), "see the fields of theory.engine.claim.Claim"
    return Problem(paper, claim_at(file, line), file, line, what, mend)


def claim_at(file: str, line: int) -> str:
    """The id in the innermost call ``f(id=...)`` around a line; empty where there is none."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return ""
    ids = [
        (k.value.lineno, k.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0)
        for k in node.keywords
        if k.arg == "id"
    ]
    if not ids:
        return ""
    value = max(ids, key=lambda found: found[0])[1]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ast.unparse(value)


__all__ = ["Malformed", "Problem", "claim_at", "problem"]
