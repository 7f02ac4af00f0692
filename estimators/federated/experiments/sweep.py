"""All runs of an experiment: one after the other, or several at once through joblib, with the same results.

Belongs here: order, parallelism, what happens to the others when one run fails.  Does not belong here: one run (``runs``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from estimators.federated.experiments.runs import execute
from estimators.federated.kinds import typed
from estimators.system.files import Held
from estimators.system.processes import end_with_parent

if TYPE_CHECKING:
    from estimators.federated.experiments.plan import Run

__all__ = ["BACKENDS", "Outcome", "shard", "sweep"]

BACKENDS = ("loky", "threading", "multiprocessing", "dask", "ray")
NEEDS = {"dask": "distributed", "ray": "ray"}
OWN = ("loky", "multiprocessing")  # these start processes themselves
WHOLE = ("multiprocessing", "ray")  # these hand over no results one by one


class Outcome(NamedTuple):
    """What became of a run: its result, or the reason why it was not done; messages for the user; whether others do it."""

    run: object
    result: dict | None
    error: str = ""
    messages: tuple = ()
    held: bool = False


@typed
def shard(runs: Sequence[Run], text: str) -> Any:
    """The runs of part i of n, for the text "i/n": every n-th one.

    >>> shard(list("abcde"), "2/3")
    ['b', 'e']
    """
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"--shard must be I/N with 1 <= I <= N, got {text!r}")
    return runs[int(part) - 1 :: int(parts)]


@typed
def sweep(
    runs: Sequence[Run],
    directory: str | Path,
    data_dir: str | Path | None = None,
    *,
    jobs: int = 1,
    backend: str = "loky",
    workers: int | None = None,
    processes: int = 1,
    fresh: bool = False,
    watch: Callable[..., Any] | None = None,
) -> Generator[Outcome | Any, Any, None]:
    """Do all runs and yield an Outcome after each, in any order.

    A run that diverges, or that cannot be done (an epsilon that cannot be met, an error in one's own algorithm), leaves the
    others alone.  Runs that another process is doing come last, with its result if it has finished them by then.

    Parameters
    ----------
    runs, directory, data_dir, fresh : as in `execute`.
    jobs : whole number >= 1 of runs at once; backend : how joblib does more than one, one of BACKENDS.
    workers : threads of each process, None: the cores divided among them.
    processes : whole number >= 1 of processes of each run, among which its clients are divided; above 1 only for jobs = 1.
    watch : None, or a function from a run to the `progress` of `execute` (for jobs = 1).

    Raises
    ------
    ValueError
        If joblib or what its backend needs is missing, or both jobs and processes are above 1.
    OSError
        If the disk is full or the data are not there; other runs keep their finished rounds.
    """
    if jobs > 1 and processes > 1:
        raise ValueError("jobs or processes must be 1: several runs at once, or one run in several processes")
    workers = workers or max((os.cpu_count() or 1) // max(jobs, processes), 1)
    options = {"workers": workers, "processes": processes, "fresh": fresh}
    held = []
    for outcome in outcomes(runs, directory, data_dir, jobs, backend, watch, options):
        if outcome.held:
            held.append(outcome.run)
        else:
            yield outcome
    for run in held:
        yield attempt(run, directory, data_dir, progress=watch and watch(run), **options)


def outcomes(
    runs: Sequence[Run],
    directory: str | Path,
    data_dir: str | Path | None,
    jobs: int,
    backend: str,
    watch: Callable[..., Any] | None,
    options: dict[str, Any],
) -> Generator[Outcome | Any, Any, None]:
    """The outcomes of all runs, each tried once."""
    if jobs == 1:
        for run in runs:
            yield attempt(run, directory, data_dir, progress=watch and watch(run), **options)
        return
    # Workers of this process end with it, also while they wait for their first run.
    own = {"initializer": end_with_parent, "initargs": (os.getpid(),)} if backend in OWN else {}
    with prepared(backend) as joblib, joblib.parallel_config(backend=backend, n_jobs=jobs, **own):
        # Results are handed over one by one, where the backend can.
        parallel = joblib.Parallel(return_as="list" if backend in WHOLE else "generator_unordered")
        yield from parallel(joblib.delayed(attempt)(run, directory, data_dir, **options) for run in runs)


def attempt(run: Run, directory: str | Path, data_dir: str | Path | None, **options: Any) -> Outcome:
    """Outcome of one run."""
    messages = []
    try:
        return Outcome(run, execute(run, directory, data_dir, say=messages.append, **options), "", tuple(messages))
    except (ValueError, Held) as error:
        said = "; ".join([str(error), *getattr(error, "__notes__", ())])
        return Outcome(run, None, said, tuple(messages), isinstance(error, Held))


@contextmanager
def prepared(backend: str) -> Generator[ModuleType, Any, None]:
    """The module joblib, with its backend ready."""
    try:
        joblib = import_module("joblib")
    except ImportError:
        raise ValueError("several jobs need joblib: pip install 'borrowed-strength[learn]', or leave out --jobs") from None
    if backend not in NEEDS:
        yield joblib
        return
    try:
        module = import_module(NEEDS[backend])
    except ImportError:
        raise ValueError(f"--joblib-backend {backend} needs {NEEDS[backend]}: pip install {NEEDS[backend]}") from None
    if backend == "ray":
        import_module("ray.util.joblib").register_ray()
        yield joblib
    else:
        with module.Client():  # of the scheduler in DASK_SCHEDULER_ADDRESS, else of one of its own
            yield joblib
