"""Workers and other programs that end when their parent does, however it ends, and a SIGTERM that is obeyed like Ctrl-C.

Belongs here: starting and ending processes, for every package.  Does not belong here: what they do.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TextIO

__all__ = [
    "ONE_THREAD", "Stopped", "Terminated", "end_with_parent", "finished", "program", "program_threads", "terminable",
    "worker_pool", "workers_for",
]  # fmt: skip

# Workers share the cores already: with threads of its own in each, linear algebra waits for itself most of the time.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
PAUSE = 0.25  # seconds between two looks at the parent
# A shell that watches a pipe whose other end only this process has, and ends its group when that end is closed, be it by the
# system; then it becomes the program.  `ulimit` stands here because a limit set between fork and exec is not safe beside
# threads.
WATCHED = """exec 3<&0 </dev/null
(read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 &
ulimit -t "$0" && exec "$@" 3<&-"""


class Terminated(KeyboardInterrupt):
    """SIGTERM has come: what stops for Ctrl-C stops for it too, with exit status 143 instead of 130."""


class Stopped(RuntimeError):
    """What a thread waits for is no longer wanted, because the main one has ended early."""


@contextmanager
def terminable() -> Iterator[None]:
    """While the block runs, SIGTERM raises Terminated instead of killing at once, so that things end in order.

    Outside the main thread, where Python handles no signals, it changes nothing.
    """

    def stop(number, frame):
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_with_parent(parent: int) -> None:
    """In a worker process: leave Ctrl-C to the process `parent` that started it, and end at once when that one ends.

    A process that `parent` did not start itself (one of a cluster, say) ends at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked one would have its parent's
    if sys.platform == "linux":  # ends it even while C code runs that lets no other thread run
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG
    threading.Thread(target=watch, args=(parent,), daemon=True).start()


def watch(parent):
    """End this process once its parent has."""
    if sys.platform == "win32":  # there a process keeps the number of a dead parent
        parent_process().join()
    else:
        while os.getppid() == parent:
            time.sleep(PAUSE)
    os._exit(1)


def begin(parent, initializer, arguments):
    """What each worker of a pool does first."""
    end_with_parent(parent)
    if initializer is not None:
        initializer(*arguments)


def workers_for(jobs: int | None) -> int:
    """Number of processes: `jobs`, or one for each core if it is None.

    Raises
    ------
    ValueError
        For less than 1.
    """
    if jobs is None:
        return os.cpu_count() or 1
    if jobs < 1:
        raise ValueError(f"jobs: must be at least 1, got {jobs}")
    return jobs


@contextmanager
def worker_pool(
    jobs: int,
    initializer: Callable[..., None] | None = None,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes, none of which outlives the block or this process.

    An exception in the block, Ctrl-C too, ends them at once, whatever they are at. Linear algebra has one thread in each,
    unless the environment says otherwise.

    Parameters
    ----------
    jobs : whole number >= 1 of processes.
    initializer, arguments : called in each process first.
    environment : variables that each process is born with, unless this one has them.

    Raises
    ------
    ChildProcessError
        If a worker died.

    >>> with worker_pool(2) as pool:
    ...     list(pool.map(abs, [-1, -2]))
    [1, 2]
    """
    # Fresh processes: forked ones would inherit locks of the threads that NumPy and numba run.
    pool = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=begin, initargs=(os.getpid(), initializer, arguments)
    )
    wanted = {**ONE_THREAD, **(environment or {})}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)  # read when NumPy is imported, so a process must be born with it
    try:
        yield pool
    except BaseException as error:
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a worker process was killed or ran out of memory; what is finished is kept; run again with fewer jobs"
            ) from None
        raise
    else:
        pool.shutdown()
    finally:
        for name in added:
            os.environ.pop(name, None)


def finished(futures: Iterable[Future], stop: threading.Event | None = None) -> Iterator[Future]:
    """Futures as they are finished, until `stop` is set: Ctrl-C comes to the main thread only, others are told by this.

    Raises
    ------
    Stopped
        Soon after `stop` is set.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool:
    ...     [future.result() for future in finished([pool.submit(abs, -1)])]
    [1]
    """
    left = set(futures)
    while left:
        done, left = wait(left, None if stop is None else PAUSE, FIRST_COMPLETED)
        if stop is not None and stop.is_set():
            raise Stopped
        yield from done


class _Running:
    """Programs that run, each by the end of the pipe that it watches; they can be ended at once, and then none begins."""

    def __init__(self) -> None:
        self.ends: set[TextIO] = set()
        self.stopped = False
        self.lock = threading.Lock()

    def add(self, end: TextIO) -> None:
        with self.lock:
            if self.stopped:
                raise Stopped
            self.ends.add(end)

    def remove(self, end: TextIO) -> None:
        with self.lock:
            self.ends.discard(end)

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for end in self.ends:
                end.close()


_thread = threading.local()  # what its `program_threads` run


@contextmanager
def program_threads(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that start and await programs (see `program`), which an exception in the block, Ctrl-C too, ends at once.

    Parameters
    ----------
    jobs : whole number >= 1 of threads.

    >>> with program_threads(2) as pool:
    ...     list(pool.map(abs, [-1, -2]))
    [1, 2]
    """
    running = _Running()

    def begin() -> None:
        _thread.running = running

    with ThreadPoolExecutor(jobs, initializer=begin) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.stop()
            raise


@contextmanager
def program(command: Sequence[str], *, seconds: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start another program, which ends with the block, its `program_threads` or this process, and so does all that it has
    started.

    Its standard output and error are pipes of text, to be read with ``communicate``.  POSIX only.

    Parameters
    ----------
    command : path of the program and its arguments.
    seconds : whole number >= 1; after so much processor time the system ends it.
    folder : where it works.

    Raises
    ------
    Stopped
        If its `program_threads` have been told to end.

    >>> with program(["echo", "done"], seconds=1, folder=Path(".")) as process:
    ...     process.communicate(timeout=60)
    ('done\\n', '')
    """
    running = getattr(_thread, "running", None) or _Running()
    watched, kept = os.pipe()
    with open(watched), os.fdopen(kept, "w") as end, subprocess.Popen(
        ["sh", "-c", WATCHED, str(seconds), *command], cwd=folder, stdin=watched, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            running.add(end)
            yield process
        finally:
            running.remove(end)
            end.close()
