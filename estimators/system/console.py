"""What the command line does for any terminal: characters that it lacks, options typed wrongly, messages.

Belongs here: the console as such.  Does not belong here: what is printed, which is with the commands of each package.
"""

from __future__ import annotations

import argparse
import codecs
import difflib
import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["discard", "explain", "hint", "parse", "printable", "read_numbers"]

WORDS = {"±": "+/-", "…": "...", "∞": "inf", "—": "-", "–": "-", "−": "-", "·": "*", "×": "x", "≤": "<=", "≥": ">="}
"""What stands for a character where the terminal has none; Greek letters have their names, all others a code."""


def substitute(error: UnicodeError) -> tuple[str, int]:
    """Return what to print instead of characters that the encoding lacks, as ``codecs.register_error`` asks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(map(plain, lost)), error.end


def plain(character: str) -> str:
    r"""Return ASCII text for one character.

    >>> [plain(c) for c in "±εΔé"]
    ['+/-', 'epsilon', 'Delta', '\\xe9']
    """
    if character in WORDS:
        return WORDS[character]
    words = unicodedata.name(character, "").split()
    if words[:1] == ["GREEK"] and words[2:3] == ["LETTER"] and len(words) == 4:
        return words[3].lower() if words[1] == "SMALL" else words[3].capitalize()
    return character.encode("ascii", "backslashreplace").decode()


codecs.register_error("borrow", substitute)


def printable() -> None:
    """Make standard output print every text, whatever its encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every replacement of it can
        sys.stdout.reconfigure(errors="borrow")


def read_numbers(parser: argparse.ArgumentParser) -> None:
    """Let values of options be numbers such as -1e-3, which argparse before Python 3.14 takes for an option."""
    parser._negative_number_matcher = re.compile(r"-(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$|-inf$")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; what no option takes ends with the usage of the command that was meant."""
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        command = getattr(arguments, "parser", parser)
        known = [option for action in command._actions for option in action.option_strings]  # argparse has no public list
        near = [difflib.get_close_matches(word.partition("=")[0], known, 1) for word in unknown if word.startswith("-")]
        options = [match[0] for match in near if match]
        command.error(
            f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {' '.join(options)}?" if options else "")
        )
    return arguments


def explain(error: Exception) -> str:
    """Return the message of an error without Python's marks.

    An error of the system that names no file is taken for one of standard output: all other writers name theirs.

    >>> explain(FileNotFoundError(2, "No such file or directory", "a.csv")), explain(ValueError("--eps must be > 0"))
    ('a.csv: No such file or directory', '--eps must be > 0')
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    return str(error)


def discard() -> None:
    """Throw away what standard output still holds, which would be tried again as the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def hint(name: str, known: Iterable[str]) -> str:
    """The known names nearest to `name`, or all of them, as the end of a message.

    >>> hint("fedavgg", ["FedAvg", "Local"])
    'did you mean FedAvg?'
    """
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known) or 'none'}"
