"""From a run to the task and the algorithm that do it.

Belongs here: calling what an experiment names, with data kept between runs.  Does not belong here: the files' schema
(``experiment``), doing rounds (``runs``).
"""

import json
import os
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from figures.learn import vocabulary

__all__ = ["Built", "build", "forget"]

LOCK, KEPT = Lock(), []


class Built(NamedTuple):
    """What a run trains: the task, the algorithm, the number of rounds."""

    task: Any
    algorithm: Any
    rounds: int


def build(run, data_dir=None, backend=None, workers=None):
    """Task, algorithm and rounds of a run.

    The data of the last run are kept in this process, so that the runs of a sweep load them once.

    Parameters
    ----------
    run : Run; data_dir : folder of the user's data, needed unless the run is embedded.
    backend : None for the run's, "numpy" or "jax"; workers : threads of the NumPy backend, None for one per core.

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
    from estimators.federated.algorithms import make

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
    folder = None if setup.data.folder is None else str(Path(data_dir, setup.data.folder))
    try:
        with LOCK:  # threads wait for each other's data instead of loading them too
            task = _task(recipe, folder, run.seed, backend or setup.backend, workers)
        settings = {key: resolve(value, task, run.seed) for key, value in run.settings.items()}
    except ImportError as error:
        raise ValueError(f"{error}") from error
    return Built(task, make(run.algorithm, settings), run.rounds)


def newest(function):
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


def forget():
    """Let go of the data that are kept."""
    for kept in KEPT:
        kept.clear()


# Recipes are JSON, because what is kept needs a key that can be hashed.


@newest
def _task(recipe, folder, seed, backend, workers):
    from estimators.federated.task import Task

    plan = json.loads(recipe)
    kind = vocabulary.models()[plan["model"].pop("kind")]
    images = vocabulary.takes(kind, "shape")
    federation = _federation(json.dumps(plan["data"]), folder, seed, not images)
    sizes = {"n_features": federation.x[0].size, "n_classes": federation.classes, "shape": federation.x.shape[1:]}
    arguments = {key: value for key, value in sizes.items() if vocabulary.takes(kind, key)}
    model = kind(**arguments | {key: tuple_of(value) for key, value in plan["model"].items()})
    groups = members(plan["groups"], federation, seed)
    work = {key: resolved(value, federation, seed) for key, value in plan["work"].items()}
    return Task(federation, model, work=work, seed=seed, backend=backend_of(backend, workers), groups=groups)


@newest
def _federation(source, folder, seed, flat):
    source = json.loads(source)
    pool = _pool(source["loader"], folder, json.dumps(source["options"]), None if not seeded(source) else seed)
    for name, arguments in source["steps"]:
        step = vocabulary.steps()[name]
        pool = step(pool, **with_seed(step, arguments, seed))
    from estimators.federated.data import Federation

    if not isinstance(pool, Federation):
        raise ValueError(f"data.steps must end with a partition: {pool.name} has no clients yet")
    return pool.scaled(flat=flat)


def seeded(source):
    """Whether a loader's result depends on the run's seed."""
    return "seed" in with_seed(vocabulary.loaders()[source["loader"]], source["options"], 0)


@newest
def _pool(loader, folder, options, seed):
    load = vocabulary.loaders()[loader]
    arguments = with_seed(load, json.loads(options), seed)
    return load(**arguments) if folder is None else load(folder, **arguments)


def with_seed(function, arguments, seed):
    """The arguments, with the run's seed if the function takes one and the file gives none."""
    return {"seed": seed, **arguments} if vocabulary.takes(function, "seed") else arguments


def tuple_of(value):
    """Lists as tuples, at every depth."""
    return tuple(map(tuple_of, value)) if isinstance(value, list) else value


def members(groups, federation, seed):
    """Positions of the clients of each group."""
    chosen = {}
    for name, how in groups.items():
        if how != "rest":
            mask = np.asarray(chosen_by(how[0], how[1] if len(how) == 2 else {}, federation, seed))
            if mask.dtype != bool:
                raise ValueError(f"groups.{name}: {how[0]} does not say yes or no for every client; opt_out does")
            chosen[name] = np.flatnonzero(mask)
    rest = np.setdiff1d(np.arange(len(federation)), np.concatenate([*chosen.values(), np.empty(0, int)]))
    return {name: chosen.get(name, rest) for name in groups}


def chosen_by(name, arguments, federation, seed):
    """What a choice assigns to the clients of a federation."""
    choice = vocabulary.choices()[name]
    given = {"federation": federation, "clients": len(federation)}
    given = {key: value for key, value in given.items() if vocabulary.takes(choice, key)}
    return choice(**with_seed(choice, {**given, **{key: tuple_of(value) for key, value in arguments.items()}}, seed))


def resolve(value, task, seed):
    """A setting as the algorithm takes it."""
    return resolved(value, task.federation, seed)


def resolved(value, federation, seed):
    """A value of a file: tables {choice = ...} as arrays, {kind = ...} as objects, lists as tuples."""
    if isinstance(value, list):
        return tuple(resolved(entry, federation, seed) for entry in value)
    if not isinstance(value, dict):
        return value
    rest = {key: resolved(entry, federation, seed) for key, entry in value.items() if key not in ("kind", "choice")}
    if "choice" in value:
        return chosen_by(value["choice"], rest, federation, seed)
    return vocabulary.objects()[value["kind"]](**rest) if "kind" in value else rest


@newest
def backend_of(name, workers):
    """Backend of this name, kept with the programs that it has compiled."""
    if name == "jax":
        from estimators.federated.jax_backend import JaxBackend

        return JaxBackend()
    from estimators.federated.numpy_backend import NumpyBackend

    return NumpyBackend(workers=workers or os.cpu_count())
