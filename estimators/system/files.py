"""Files that appear whole or not at all, and locks that one process holds at a time and a dead one never.

Belongs here: how every package writes files that others may read, or that a kill must not damage.  Does not belong here:
what is in them.
"""

import glob
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Held", "locked", "settle", "write", "write_all"]

PART = ".part"
PAUSE = 0.02  # seconds between two attempts to take a lock


class Held(OSError):
    """Another process holds a lock; the message names it."""


def write(path: str | os.PathLike[str], content: bytes | str, keep: Path | None = None) -> None:
    """Write one file so that readers see the old or the new content, never a part, whatever happens meanwhile.

    The content is on the disk before the file takes its name, and several processes may write the same file at once: the
    last one wins.  What a symbolic link points to is replaced, not the link.

    Parameters
    ----------
    path : file; its folder exists.
    content : bytes, or text, which is written as UTF-8.
    keep : where the file that was there is kept, if anywhere.

    Raises
    ------
    OSError
        If it cannot be written; what was there is then as it was.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder, "a"), "whole")
    ...     [path.name for path in Path(folder).iterdir()]
    ['a']
    """
    write_all({Path(path): content}, keep)


def write_all(contents: Mapping[Path, bytes | str], keep: Path | None = None) -> None:
    """Write several files as `write` does, none of them before the content of all is on the disk."""
    waiting: dict[Path, Path] = {}
    path = None
    try:
        for path, content in contents.items():
            target = Path(os.path.realpath(path))
            if target.exists() and not target.is_file():
                raise OSError(f"{path} is no file; give another name")
            part = target.with_name(f".{target.name}.{os.urandom(4).hex()}{PART}")
            waiting[part] = target
            with open(part, "xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
        for part, target in waiting.items():
            path = target
            if keep is not None and target.exists():
                os.replace(target, keep)
            os.replace(part, target)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None  # and not the name of its part
    finally:
        for part in waiting:
            with suppress(OSError):
                part.unlink()


def settle(folder: Path) -> None:
    """Put the names of files in a folder on the disk, so that the newest content survives a loss of power too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sweep(path: Path) -> None:
    """Remove what killed processes left beside a file or in a folder; only its lock's holder may ask."""
    parts = path.glob(f".*{PART}") if path.is_dir() else path.parent.glob(f".{glob.escape(path.name)}.*{PART}")
    for part in parts:
        with suppress(OSError):
            part.unlink()


@contextmanager
def locked(path: Path | str, *, seconds: float = 60.0) -> Iterator[None]:
    """Hold the lock on `path`, a file or a folder that need not be there yet, while the block runs.

    The lock is a hidden file beside it, which the operating system frees when its holder ends, however it ends.  Whoever
    else asks waits; threads exclude each other too.

    Parameters
    ----------
    path : what is locked; its folder is made if need be.
    seconds : how long to wait for another holder.

    Raises
    ------
    Held
        If another process still has it then, with the process and its machine.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder, "a")):
    ...     try:
    ...         with locked(Path(folder, "a"), seconds=0):
    ...             print("never")
    ...     except Held as error:
    ...         print(f"process {os.getpid()}" in str(error))
    True
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + seconds
    while (handle := take(lock)) is None:
        if time.monotonic() >= deadline:
            raise Held(f"{holder(lock)} is using {path}; run again when it has ended")
        time.sleep(PAUSE)
    try:
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
        sweep(path)
        yield
    finally:
        release(lock, handle)


def holder(lock):
    """Who holds a lock, in words."""
    with suppress(OSError, UnicodeDecodeError):
        return lock.read_text(encoding="utf-8") or "another process"
    return "another process"


try:
    import fcntl
except ImportError:  # Windows
    msvcrt: Any = import_module("msvcrt")  # which annotations know on Windows only

    def take(lock):
        """Handle of the lock, or None if another process holds it."""
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            return None
        try:
            os.lseek(handle, 1 << 20, os.SEEK_SET)  # beyond the holder's name, which others may then read
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            os.close(handle)
            return None
        return handle

    def release(lock, handle):
        """Give the lock back; its file goes unless another process has opened it."""
        os.close(handle)
        with suppress(OSError):
            lock.unlink()

else:

    def take(lock):
        """Handle of the lock, or None if another process holds it."""
        while True:
            try:  # what somebody else's link points to would be emptied
                handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            except OSError as error:
                if not lock.is_symlink():
                    raise
                raise OSError(error.errno, "a lock must not be a symbolic link; remove it", str(lock)) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.stat(lock).st_ino == os.fstat(handle).st_ino:
                    return handle
            except BlockingIOError:
                os.close(handle)
                return None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its holder has just removed this file: another one counts

    def release(lock, handle):
        """Give the lock back; its file goes first, while nobody else can have it."""
        with suppress(OSError):
            lock.unlink()
        os.close(handle)
