"""One run: a folder with its configuration, its history as it grows, checkpoints, and in the end its result.

    config.json      all that decides the result, with its SHA-256, and the data it was begun with
    history.jsonl    one line per evaluation
    checkpoint.npz   from where it goes on; gone when it is done
    result.json      one line: what ``figures/learn/results`` collects

Belongs here: doing a run, going on with it, refusing another one's folder, the result line.  Does not belong here: many runs
(``sweep``), the format of checkpoints (``checkpoints``).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.experiments import checkpoints, provenance
from estimators.federated.experiments.building import Built, build
from estimators.federated.experiments.plan import plain
from estimators.system.files import locked
from estimators.system.untrusted import EXPANDED, read_json

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.experiments.plan import Run

__all__ = ["configuration_hash", "execute", "finished", "same_result"]

CONFIG, HISTORY, RESULT = "config.json", "history.jsonl", "result.json"
VARIES = ("seconds", "versions", "machine", "code")
"""Keys of a result line that depend on the machine and the moment, not on the run."""


def execute(
    run: Run, directory: str | Path, data_dir: str | Path | None = None, *, workers: int | None = None,
    processes: int = 1, every_rounds: int | None = None, every_seconds: float = 30.0, fresh: bool = False,
    progress: Callable[..., Any] | None = None, say: Callable[[str], None] | None = None,
) -> Any:  # fmt: skip
    """Do a run in a folder of its own below `directory`, or go on with it, and return its result.

    A finished run is not done again.  A half one goes on from its last checkpoint, with the bits of an unbroken run.

    Parameters
    ----------
    run : Run; directory : path, whose folder ``run.name`` is used; data_dir : folder of the user's data.
    workers : threads of each process, see `build`.
    processes : whole number >= 1 of processes that the clients are spread over, see ``processes``.
    every_rounds, every_seconds : how often to store a checkpoint: after so many rounds (None: no rule) or so much time,
        more for a large state, see ``checkpoints.rest``.
    fresh : begin anew, whatever is in the folder.
    progress : None or a function told (finished rounds, all rounds, newest record or None) after every round.
    say : None or a function told messages for the user.

    Returns
    -------
    dict, one line of results.  A diverged run's has "failed" with the reason and no "final".

    Raises
    ------
    ValueError
        If a round releases what the algorithm's privacy plan does not have, or raises any error, with the rounds before it
        kept; or if the folder holds another configuration, other data or only damaged checkpoints, each with what to do.
    OSError
        If the disk is full or one of several processes was killed, with finished rounds kept.
    Held
        If another process is doing this run.
    """
    folder, say = Path(directory, run.name), say or (lambda message: None)
    with locked(folder, seconds=0):
        return execute_alone(
            run, directory, folder, data_dir, workers, processes, every_rounds, every_seconds, fresh, progress, say
        )


def execute_alone(
    run: Run,
    directory: str | Path,
    folder: Path,
    data_dir: str | Path | None,
    workers: int | None,
    processes: int,
    every_rounds: int | None,
    every_seconds: float,
    fresh: bool,
    progress: Callable[..., Any] | None,
    say: Callable[[str], None],
) -> Any:
    """Do a run, or go on with it, in a folder that is this process's for as long."""
    if fresh:
        clear(folder)
    done = finished(run, directory)
    if done is not None:
        return done
    stored, used = configuration(run, folder), provenance.versions(run.setup.backend)
    with told():
        built = build(run, data_dir, workers=workers)
    origin, made_by = portable(built.task.federation.provenance), provenance.code(run)
    if stored is not None and stored["provenance"] != origin:
        raise ValueError(f"{folder} was begun with other data; give those, another --out, or --fresh to begin anew")
    if stored is not None and stored.get("code") != made_by:
        raise ValueError(
            f"{folder} was begun by other code, whose finished rounds are kept there; go on with that code, or give another "
            "--out, or --fresh to begin anew"
        )
    found = None
    if stored is None:
        folder.mkdir(exist_ok=True)
        content = {"hash": configuration_hash(run), **run.configuration(), "provenance": origin, "versions": used}
        content["code"] = made_by
        checkpoints.write(folder / CONFIG, line(content))
    elif found := checkpoints.load(folder):
        if found[2]:
            say(f"{run.name}: {found[2]}")
        if stored["versions"] != used:
            say(f"{run.name}: begun with other versions ({differing(stored['versions'], used)}); bits may differ")
    steps = steps_of(run, built, data_dir, workers, processes)
    return rounds_of(run, folder, built, steps, found, origin, used, every_rounds, every_seconds, progress)


def steps_of(run: Run, built: Built, data_dir: str | Path | None, workers: int | None, processes: int) -> Any:
    """Function from a state and the number of finished rounds to the rounds that are left, in so many processes."""
    if processes == 1:
        from estimators.federated.training import training

        return partial(training, built.algorithm, built.task, rounds=built.rounds, every=run.setup.every)
    from estimators.federated.processes import training_in_processes

    again = partial(build, run, data_dir, workers=workers)
    return partial(training_in_processes, again, processes=processes, every=run.setup.every)


def rounds_of(
    run: Run,
    folder: Path,
    built: Built,
    steps: Callable[..., Any],
    found: Any,
    origin: Mapping[str, Any],
    used: Any,
    every_rounds: int | None,
    every_seconds: float,
    progress: Callable[..., Any] | None,
) -> Any:
    """Do the rounds that are left, storing checkpoints, and write the result."""
    from estimators.federated.backend import Diverged

    task, algorithm, rounds = built
    state, record, _ = found or (None, {"finished": 0, "history": [], "seconds": 0.0}, "")
    history, begun = list(record["history"]), time.monotonic() - record["seconds"]
    checkpoints.write(folder / HISTORY, b"".join(map(line, history)))
    with told():
        promises = summarised(algorithm.guarantees(task, rounds=rounds), task.groups)  # what cannot be promised is not run
    stored, failed, last = time.monotonic(), None, None
    try:
        for step in stepping(steps(state=state, finished=record["finished"])):
            last = step
            if step.record is not None:
                history.append(step.record)
                append(folder / HISTORY, line(step.record))
            due = every_rounds is not None and step.finished % every_rounds == 0
            pause = max(every_seconds, checkpoints.rest(step.state))
            if step.finished < rounds and (due or time.monotonic() - stored >= pause):
                so_far = {"finished": step.finished, "history": history, "seconds": time.monotonic() - begun}
                checkpoints.save(folder, step.state, so_far)
                stored = time.monotonic()
            if progress is not None:
                progress(step.finished, rounds, step.record)
    except (ValueError, ChildProcessError) as error:  # a plan not kept, a reply not finite, a dead process
        if last is not None:
            so_far = {"finished": last.finished, "history": history, "seconds": time.monotonic() - begun}
            checkpoints.save(folder, last.state, so_far)
        done = last.finished if last is not None else record["finished"]
        error.add_note(f"round {done + 1} of {rounds} is not done" + (", those before it are kept" if done else ""))
        raise
    except Diverged as error:
        failed = ", ".join([str(error), *getattr(error, "__notes__", ())])
    result = {
        "experiment": run.experiment,
        "method": run.method,
        "algorithm": run.algorithm,
        "settings": plain(run.settings),
        "point": plain(run.point),
        "seed": run.seed,
        "rounds": run.rounds,
        "embedded": run.embedded,
        "backend": run.setup.backend,
        "hash": configuration_hash(run),
        "provenance": origin,
        "clients": task.n_clients,
        **({"failed": failed} if failed else {"final": {k: v for k, v in history[-1].items() if k != "round"}}),
        "history": history,
        "guarantees": promises,
        "seconds": round(time.monotonic() - begun, 3),
        "versions": used,
        "machine": provenance.machine(),
        "code": provenance.code(run),
        "data": provenance.data(task.federation),
    }
    checkpoints.write(folder / RESULT, line(result))
    checkpoints.remove(folder)
    return json.loads(line(result))


def stepping(steps: Iterator[Any]) -> Iterator[Any]:
    """The rounds, whose errors say where they were raised."""
    with told():
        yield from steps


@contextmanager
def told() -> Iterator[None]:
    """Make any error of a loader, a model or an algorithm a ValueError that says which it was and where it was raised.

    ValueErrors are left as they are, as are those of the system (a full disk, a killed process) but for lost connections.

    >>> with told():
    ...     {}["ends"]
    Traceback (most recent call last):
    ...
    ValueError: KeyError: 'ends' (<doctest ...>, line 2, in <module>)
    """
    from estimators.federated.backend import Diverged

    try:
        yield
    except (ValueError, Diverged, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)):
            raise
        raise ValueError(f"{type(error).__name__}: {error} ({place(error)})") from error


def place(error: Exception) -> str:
    """The last line that is the user's own, or else the last one, in words."""
    frames = extract_tb(error.__traceback__)
    ours = (str(Path(__file__).parents[2]), sys.prefix, sys.base_prefix)
    frame = next((frame for frame in reversed(frames) if not frame.filename.startswith(ours)), frames[-1])
    return f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"


def append(path: Path, content: bytes) -> None:
    """Add a line to a file of lines."""
    try:
        with open(path, "ab") as file:
            file.write(content)
    except OSError as error:
        raise checkpoints.explained(error, path) from None


def line(value: Any) -> bytes:
    """One line of JSON; infinities as the string "inf", NaN as null."""
    return (json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n").encode()


def configuration_hash(run: Run) -> str:
    """SHA-256 of a run's configuration."""
    return sha256(json.dumps(run.configuration(), sort_keys=True).encode()).hexdigest()


def finished(run: Run, directory: str | Path) -> Any:
    """Result of a run that is done, None if it is not.

    Raises ValueError if it is another configuration's or damaged.
    """
    folder = Path(directory, run.name)
    if configuration(run, folder) is None or not (folder / RESULT).exists():
        return None
    try:
        return read_json((folder / RESULT).read_bytes(), what=RESULT, largest=EXPANDED)
    except ValueError:
        raise ValueError(f"{folder / RESULT} is damaged; --fresh begins this run anew") from None


def configuration(run: Run, folder: Path) -> Any:
    """What a folder was begun with, None if it is empty.

    Raises ValueError if that is another configuration (naming what differs), or damaged.
    """
    path = folder / CONFIG
    if not path.exists():
        if (folder / RESULT).exists() or (folder / checkpoints.CHECKPOINT).exists():
            raise ValueError(f"{path} is missing, so nobody knows what was run there; --fresh begins this run anew")
        return None
    try:
        stored = read_json(path.read_bytes(), what=CONFIG)
        whole = isinstance(stored, dict) and {"hash", "provenance", "versions"} <= stored.keys()
    except (ValueError, TypeError):
        stored, whole = {}, False
    if not whole:
        raise ValueError(f"{path} is damaged; --fresh begins this run anew")
    if stored["hash"] != configuration_hash(run):
        own = json.loads(line(run.configuration()))
        raise ValueError(
            f"{folder} holds a run with another configuration ({differing(stored, own)}); "
            "give another --out, or --fresh to begin anew"
        )
    return stored


def differing(stored: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    """Text of the keys in which two dicts differ."""
    changes = []
    for key, new in own.items():
        old = stored.get(key)
        if isinstance(old, dict) and isinstance(new, dict) and old != new:
            changes += [f"{key}.{name}: {old.get(name)} there, {new.get(name)} now"
                        for name in sorted({*old, *new}) if old.get(name) != new.get(name)]  # fmt: skip
        elif old != new:
            changes.append(f"{key}: {old} there, {new} now")
    return "; ".join(changes)


def clear(folder: Path) -> None:
    """Remove the files of a run."""
    checkpoints.remove(folder)
    for name in (RESULT, HISTORY, CONFIG):
        (folder / name).unlink(missing_ok=True)


def portable(provenance: Mapping[str, Any]) -> Any:
    """Provenance with names of files instead of paths, so that it does not depend on where they lie."""
    files = [{**file, "path": Path(file["path"]).name} for file in provenance.get("files", ())]
    return json.loads(line({**provenance, **({"files": files} if files else {})}))


def summarised(guarantees: Sequence[Guarantee | None], groups: Any) -> list[Any]:
    """Promises, by group, that are alike but for their numbers: how many clients, and the range of eps and delta."""
    if not any(guarantees):
        return []
    found = []
    for group, members in (groups or {"all": np.arange(len(guarantees))}).items():
        kinds = {}
        for promise in (guarantees[k] for k in members.tolist()):
            if promise is not None:
                kinds.setdefault((promise.mechanism, promise.adjacency, promise.trusted), []).append(promise)
        for (mechanism, adjacency, trusted), promises in kinds.items():
            entry = {"group": group, "clients": len(promises), "of": len(members)}
            entry |= {key: span([getattr(promise, key) for promise in promises]) for key in ("eps", "delta")}
            entry |= {"adjacency": adjacency, "trusted": trusted, "mechanism": mechanism}
            found.append({**entry, "simulated": True})  # whatever an algorithm says: the noise of a run is its seed's
    return found


def span(values: Sequence[Any]) -> float | list[float]:
    """A number if all are the same, else [least, greatest]."""
    low, high = float(min(values)), float(max(values))
    return low if low == high else [low, high]


def same_result(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two results are of the same bits, whatever machine and moment made them."""
    return {**a, **dict.fromkeys(VARIES)} == {**b, **dict.fromkeys(VARIES)}
