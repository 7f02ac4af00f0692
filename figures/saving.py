"""Writing a command's files all or none.

Belongs here: an output folder, and JSON with arrays.  Does not belong here: what is written, and how
(``estimators.system.files``).
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from estimators.system import files

__all__ = ["prepare", "to_json", "write_all"]


def prepare(folder):
    """Make `folder` if need be and check that files can be written into it.

    Raises
    ------
    OSError
        Saying that the folder cannot be written and what to do.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Asking for permissions tells nothing on read-only mounts; a file that goes away at once does.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            f"cannot write into the folder {folder} ({error.strerror}); choose another one with --out"
        ) from None
    return folder


def write_all(folder, contents):
    """Write the files {name: bytes} into `folder`: each appears whole, and none before all are written.

    Returns the paths.

    Raises
    ------
    OSError
        Naming the file that could not be written.
    """
    folder = prepare(folder)
    files.write_all({folder / name: content for name, content in contents.items()})
    return [folder / name for name in contents]


def to_json(data, ascii_only=False):
    """Return `data`, with arrays and NumPy scalars anywhere in it, as JSON text, for any terminal if `ascii_only`.

    >>> to_json({"x": np.array([1.0, 0.5])})
    '{\\n "x": [\\n  1.0,\\n  0.5\\n ]\\n}\\n'
    """

    def convert(value):
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")

    return json.dumps(data, default=convert, indent=1, allow_nan=False, ensure_ascii=ascii_only) + "\n"
