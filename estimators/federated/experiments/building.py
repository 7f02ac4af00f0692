"""From a run to the task and the algorithm that do it.

Belongs here: calling what an experiment names, with data kept between runs.  Does not belong here: the files' schema
(``experiment``), doing rounds (``runs``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from estimators.federated.algorithms.catalogue import made
from estimators.federated.experiments import vocabulary
from estimators.numerics.validation import shown

if TYPE_CHECKING:
    from estimators.federated.data.federation import Federation
    from estimators.federated.experiments.plan import Run

__all__ = ["Built", "build", "forget"]

LOCK, KEPT = Lock(), []


class Built(NamedTuple):
    """What a run trains: the task, the algorithm, the number of rounds."""

    task: Any
    algorithm: Any
    rounds: int


def build(run: Run, data_dir: str | Path | None = None, workers: int | None = None) -> Any:
    """Task, algorithm and rounds of a run.

    The data of the last run are kept in this process, so that the runs of a sweep load them once.

    Parameters
    ----------
    run : Run; data_dir : folder of the user's data, needed unless the run is embedded.
    workers : threads of the NumPy backend, None for one per core.

    Returns
    -------
    Built

    Raises
    ------
    ValueError
        If the data are damaged or do not fit, or an extra is missing (named).
    FileNotFoundError
        If the data are not there.
    """
    setup = run.setup
    if setup.data.folder is not None and data_dir is None:
        raise ValueError(f"{run.experiment} needs your data: --data DIR, where DIR/{setup.data.folder} holds the files")
    recipe = json.dumps(
        {
            "data": {"loader": setup.data.loader, "options": setup.data.options, "steps": setup.data.steps},
            "groups": setup.groups,
            "model": setup.model,
            "work": setup.work,
        }
    )
    folder = None if setup.data.folder is None else str(Path(data_dir or ".", setup.data.folder))
    try:
        with LOCK:  # threads wait for each other's data instead of loading them too
            task = _task(recipe, folder, run.seed, setup.backend, workers)
        settings = {key: resolved(value, task.federation, run.seed) for key, value in run.settings.items()}
    except ImportError as error:
        raise ValueError(f"{error}") from error
    return Built(task, made(vocabulary.algorithm("algorithm", run.algorithm), settings), run.rounds)


def newest(function: Callable[..., Any]) -> Any:
    """Keep the newest result of a function; it is let go before another one is made, as both may not fit in memory."""
    kept = {}
    KEPT.append(kept)

    @wraps(function)
    def wrapper(*arguments):
        if arguments not in kept:
            kept.clear()
            kept[arguments] = function(*arguments)
        return kept[arguments]

    return wrapper


def forget() -> None:
    """Let go of the data that are kept."""
    for kept in KEPT:
        kept.clear()


# Recipes are JSON, because what is kept needs a key that can be hashed.


@newest
def _task(recipe, folder, seed, backend, workers):
    from estimators.federated.task import Task

    plan = json.loads(recipe)
    kind = vocabulary.model("model.kind", plan["model"].pop("kind"))
    federation = _federation(json.dumps(plan["data"]), folder, seed)
    sizes = {"n_features": federation.x.shape[1], "n_classes": federation.classes}
    model = kind(**filled(kind, resolved(plan["model"], federation, seed), **sizes))
    groups = members(plan["groups"], federation, seed)
    work = resolved(plan["work"], federation, seed)
    return Task(federation, model, work=work, seed=seed, backend=backend_of(backend, workers), groups=groups)


@newest
def _federation(source, folder, seed):
    source = json.loads(source)
    pool = _pool(source["loader"], folder, json.dumps(source["options"]), seed if seeded(source) else None)
    from estimators.federated.data import Examples, Federation

    if not isinstance(pool, (Examples, Federation)):
        raise ValueError(f"data.loader {source['loader']!r} must return a Federation or Examples, got {shown(pool)}")
    for name, arguments in source["steps"]:
        step = vocabulary.steps()[name]
        pool = step(pool, **filled(step, arguments, seed=seed))
    if not isinstance(pool, Federation):
        raise ValueError(f"data.steps must end with a partition: {pool.name} has no clients yet")
    return pool.scaled(flat=True)


def seeded(source: Any) -> bool:
    """Whether a loader's result depends on the run's seed."""
    return "seed" in filled(vocabulary.loader("data.loader", source["loader"]), source["options"], seed=0)


@newest
def _pool(loader, folder, options, seed):
    load = vocabulary.loader("data.loader", loader)
    arguments = filled(load, json.loads(options), seed=seed)
    return load(**arguments) if folder is None else load(folder, **arguments)


def filled(function: Callable[..., Any], arguments: dict[str, Any], **given: Any) -> Any:
    """The arguments of a file, with what is given of those that the function takes and the file leaves out."""
    return {key: value for key, value in given.items() if vocabulary.takes(function, key)} | arguments


def members(groups: Any, federation: Federation, seed: int) -> dict[str, Any]:
    """Positions of the clients of each group."""
    chosen = {}
    for name, how in groups.items():
        if how != "rest":
            choice, arguments = how[0], how[1] if len(how) == 2 else {}
            mask = np.asarray(resolved({"choice": choice, **arguments}, federation, seed))
            if mask.dtype != bool:
                raise ValueError(f"groups.{name}: {choice} does not say yes or no for every client; opt_out does")
            chosen[name] = np.flatnonzero(mask)
    rest = np.setdiff1d(np.arange(len(federation)), np.concatenate([*chosen.values(), np.empty(0, int)]))
    return {name: chosen.get(name, rest) for name in groups}


def resolved(value: Any, federation: Federation, seed: int) -> Any:
    """A value of a file: tables {choice = ...} as arrays, {kind = ...} as objects, lists as tuples."""
    if isinstance(value, list):
        return tuple(resolved(entry, federation, seed) for entry in value)
    if not isinstance(value, dict):
        return value
    rest = {key: resolved(entry, federation, seed) for key, entry in value.items() if key not in ("kind", "choice")}
    if "choice" in value:
        choice = vocabulary.choices()[value["choice"]]
        return choice(**filled(choice, rest, federation=federation, clients=len(federation), seed=seed))
    return vocabulary.objects()[value["kind"]](**rest) if "kind" in value else rest


@newest
def backend_of(name: str, workers: int | None) -> Any:
    """Backend of this name, kept with the programs that it has compiled."""
    if name == "jax":
        from estimators.federated.jax_backend import JaxBackend

        return JaxBackend()
    from estimators.federated.numpy_backend import NumpyBackend

    return NumpyBackend(workers=workers or os.cpu_count())
