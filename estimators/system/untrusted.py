"""Reading what others wrote (JSON, gzip, npz): a file can be wrong, but it neither runs code nor takes the machine.

Whatever the bytes are, a reader here returns plain values or arrays, or raises a ValueError that begins with `what`.
Sizes are checked before memory is taken: of the text, of its nesting, of what an archive and each array in it promise.

Belongs here: limits and containers.  What the values mean is checked by who reads them (``private.reports``,
``tally_state``, ``federated.data.files``).
"""

import io
import json
import math
import os
import re
import reprlib
import stat
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

__all__ = [
    "DEEPEST",
    "EXPANDED",
    "gunzip",
    "may_have_no_end",
    "names_of_arrays",
    "read_arrays",
    "read_bytes",
    "read_json",
    "shown",
]

DEEPEST = 32  # nested lists and objects
TEXT = 1 << 24  # bytes of one message
EXPANDED = 1 << 31  # bytes that an archive may hold once it is unpacked
DIGITS = 19  # of a whole number, which then hardly exceeds 64 bits
HEADER = 1 << 16  # bytes of the description of an array
SIMPLE = "biuf"  # kinds of arrays that are read: truth values, whole numbers, numbers
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
STEP = np.zeros(256, np.int8)  # in nesting, of each byte
STEP[list(b"[{")], STEP[list(b"]}")] = 1, -1
CHUNK = 1 << 22
HEADLESS = (TypeError, SyntaxError, RecursionError, MemoryError, OverflowError, tokenize.TokenError)  # of npy's parser
BROKEN = (ValueError, EOFError, OSError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)


def shown(value):
    """Return a value as text of at most some 40 characters, for messages."""
    return reprlib.repr(value)


def read_bytes(path, *, largest, what=None):
    """Return a file's bytes; ValueError if it has more than `largest`, or is a folder, a pipe or a device.

    FileNotFoundError and other errors of the system pass.
    """
    path = Path(path)
    what = what or str(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{what} is no regular file; give the path of one")
    with open(path, "rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{what} has more than {largest} bytes, the largest that is read")
    return content


def may_have_no_end(path):
    """Return whether a path is a device, such as /dev/zero, other than a terminal.

    >>> may_have_no_end("/dev/zero"), may_have_no_end(__file__)
    (True, False)
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:  # whoever opens it says why
        return False
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return False
    with open(path, "rb", buffering=0) as file:
        return not file.isatty()


def read_json(text, *, what, largest=TEXT, deepest=DEEPEST):
    """Return the value of JSON text.

    Parameters
    ----------
    text : str or bytes (UTF-8); what : str, what it is, for messages; largest : bytes that it may have; deepest : how far
        lists and objects may be nested.

    Raises
    ------
    ValueError
        For anything but one JSON value in these limits; also for a key that occurs twice, NaN and infinities (which JSON
        does not have, but Python reads), and whole numbers of more than 19 digits.

    >>> read_json('{"n": [1, 2.5]}', what="report")
    {'n': [1, 2.5]}
    >>> read_json("[" * 100_000, what="report")
    Traceback (most recent call last):
    ...
    ValueError: report is nested deeper than 32 lists and objects
    """
    if not isinstance(text, (str, bytes, bytearray)):
        raise ValueError(f"{what} must be JSON as str or bytes, got {type(text).__name__}")
    if len(text) > largest:
        raise ValueError(f"{what} has {len(text)} characters; at most {largest} are read")
    if not isinstance(text, str):
        try:
            text = bytes(text).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{what} is no UTF-8 text (byte {error.start})") from None
    if depth(text) > deepest:
        raise ValueError(f"{what} is nested deeper than {deepest} lists and objects")
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_int=whole, parse_float=decimal, object_pairs_hook=once)
    except Refused as error:
        raise ValueError(f"{what} {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not complete JSON ({error})") from None


class Refused(ValueError):
    """JSON that Python reads, but not we."""


def depth(text):
    """Return how deep brackets outside of strings are nested.

    >>> depth('{"a": [1, "[[[\\\\"[["]}')
    2
    """
    marks = np.frombuffer(STRING.sub("", text).encode("utf-8", "replace"), np.uint8)
    level = most = 0
    for start in range(0, len(marks), CHUNK):
        part = marks[start : start + CHUNK]
        levels = level + np.cumsum(STEP[part], dtype=np.int64)
        level, most = int(levels[-1]), max(most, int(levels.max()))
    return most


def refuse_constant(name):
    """Refuse NaN and infinities."""
    raise Refused(f"holds {name}, a number that is not finite")


def whole(digits):
    """Return a whole number of bounded length."""
    if len(digits.lstrip("-")) > DIGITS:
        raise Refused(f"holds a whole number of more than {DIGITS} digits")
    return int(digits)


def decimal(text):
    """Return a finite number."""
    value = float(text)
    if math.isinf(value):
        raise Refused("holds a number that is not finite")
    return value


def once(pairs):
    """Return an object whose keys differ."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise Refused(f"holds the key {shown(next(k for i, k in enumerate(keys) if k in keys[:i]))} twice")
    return found


def gunzip(content, *, what, largest=EXPANDED):
    """Return the unpacked bytes of a gzip file, at most `largest`.

    >>> import gzip
    >>> gunzip(gzip.compress(b"ab"), what="images.gz")
    b'ab'
    """
    import gzip

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(largest + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{what} is a damaged or half gzip file ({error})") from None
    if len(found) > largest:
        raise ValueError(f"{what} unpacks to more than {largest} bytes, the largest that is read")
    return found


def archive_of(content, what):
    """Return the open zip archive in `content`."""
    cut = "is cut off or damaged" if content[:2] == b"PK" else "is not an npz file"
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except BROKEN:
        raise ValueError(f"{what} {cut} (no zip directory at its end)") from None


def names_of_arrays(content, *, what):
    """Return the names of the arrays in an npz file."""
    with archive_of(content, what) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def read_arrays(content, *, what, names=None, largest=EXPANDED):
    """Return arrays of numbers out of an npz file as a dict; all of them, or those in `names`, which must be there.

    Before any array is allocated, the archive's own sizes must add to at most `largest`, and each array's header must
    promise exactly the bytes that are there.  Arrays of Python objects, records and text are refused.

    >>> stream = io.BytesIO()
    >>> np.savez(stream, y=np.arange(3))
    >>> read_arrays(stream.getvalue(), what="a.npz")["y"].tolist()
    [0, 1, 2]
    """
    with archive_of(content, what) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if len(members) != len(archive.infolist()):
            raise ValueError(f"{what} holds two arrays of one name")
        wanted = list(members) if names is None else list(names)
        missing = [name for name in wanted if name not in members]
        if missing:
            raise ValueError(f"{what} has no array {missing[0]!r} (it has {', '.join(members)[:200]})")
        total = sum(members[name].file_size for name in wanted)
        if total > largest:
            raise ValueError(f"{what} unpacks to {total} bytes; at most {largest} are read")
        return {name: read_array(archive, members[name], f"{what}: {shown(name)}") for name in wanted}


def read_array(archive, member, what):
    """Return one array of an archive."""
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused("is packed by another method than npz has; save it with numpy.savez_compressed")
        with archive.open(member) as stream:
            start = io.BytesIO(stream.read(min(member.file_size, HEADER)))
            version = np.lib.format.read_magic(start)
            if version not in read_header:
                raise ValueError(f"version {version} of the npy format is not read")
            shape, fortran, dtype = read_header[version](start)
            if dtype.hasobject:
                raise Refused("is kept as pickled Python objects, which could run any code; save it as a plain array")
            if dtype.kind not in SIMPLE:
                raise Refused(f"is an array of {shown(str(dtype))}; save it as an array of numbers")
            needed = math.prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or needed != member.file_size - start.tell():
                raise ValueError(f"its header promises {needed} bytes, there are {member.file_size - start.tell()}")
            data = start.read()
            data += stream.read(needed - len(data))  # without a number it would unpack more than the archive promises
            if len(data) != needed:
                raise ValueError(f"{len(data)} of {needed} bytes are there")
    except Refused as error:
        raise ValueError(f"{what} {error}") from None
    except (*BROKEN, *HEADLESS) as error:
        raise ValueError(f"{what} is damaged ({str(error)[:200]})") from None
    return np.frombuffer(bytearray(data), dtype=dtype).reshape(shape, order="F" if fortran else "C")
