"""What made a result: fingerprints of the code and of the data, versions, the machine.

The fingerprint of code is of all that the run's algorithm, model, loader, choices and backend can reach
(``estimators.system.sources``), so that an edit elsewhere leaves it.  It is of the code itself; a commit is a name that a
rewritten history forgets.

Belongs here: these facts.  Does not belong here: result lines (``runs``, ``results``), doing a line again (``replay``).
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from inspect import getsource
from pathlib import Path
from sys import modules
from typing import TYPE_CHECKING, Any

import numpy as np

import estimators
from estimators.federated.experiments import vocabulary
from estimators.system.sources import Sources, digest, versions_text

if TYPE_CHECKING:
    from estimators.federated.data.federation import Federation
    from estimators.federated.experiments.plan import Run

__all__ = ["code", "data", "machine", "versions"]

HOME = "estimators.federated"
ALWAYS = (
    (f"{HOME}.training", "training"),
    (f"{HOME}.task", "Task"),
    (f"{HOME}.experiments.building", "build"),
    (f"{HOME}.experiments.building", "_task"),
    (f"{HOME}.experiments.building", "_federation"),
)
BACKENDS = {"numpy": (f"{HOME}.numpy_backend", "NumpyBackend"), "jax": (f"{HOME}.jax_backend", "JaxBackend")}


@cache
def sources() -> Sources:
    """The sources of this installation, read once."""
    return Sources({"estimators": Path(estimators.__file__ or ".").parent}, versions_text(()))


def named(value: Any) -> Iterator[Any]:
    """Functions and classes that settings name: {kind = ...}, {choice = ...}, the algorithm that another one tunes."""
    if isinstance(value, Mapping):
        if "choice" in value:
            yield vocabulary.choices()[value["choice"]]
        if value.get("kind") in vocabulary.objects():
            yield vocabulary.objects()[value["kind"]]
        if isinstance(value.get("algorithm"), str):
            yield vocabulary.algorithm("settings.algorithm", value["algorithm"])
        for entry in value.values():
            yield from named(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from named(entry)


def parts(run: Run) -> Iterator[Any]:
    """Functions and classes that a run names."""
    setup = run.setup
    yield vocabulary.algorithm("algorithm", run.algorithm)
    yield vocabulary.model("model.kind", setup.model["kind"])
    yield vocabulary.loader("data.loader", setup.data.loader)
    yield from (vocabulary.steps()[name] for name, _ in setup.data.steps)
    yield from (vocabulary.choices()[how[0]] for how in setup.groups.values() if how != "rest")
    for settings in (run.settings, setup.work, setup.data.options, setup.model, setup.groups, dict(setup.data.steps)):
        yield from named(settings)


def code(run: Run) -> str:
    """Fingerprint of the code that a run can reach, 16 hexadecimal digits; modules of the user count as a whole."""
    nodes, texts = {*ALWAYS, BACKENDS[run.setup.backend]}, set()
    for part in parts(run):
        home, name = part.__module__, part.__qualname__.split(".")[0]
        if home in sources().modules:
            nodes.add((home, name))
        else:
            texts.add(getsource(modules[home]))
    return fingerprint(frozenset(nodes), frozenset(texts))


@lru_cache(maxsize=256)
def fingerprint(nodes: frozenset[Any], texts: frozenset[str]) -> str:
    """Fingerprint of what these definitions reach."""
    return digest(sources(), sources().closure(nodes), texts)


def data(federation: Federation) -> str:
    """Fingerprint of a federation's rows and of whose they are, 16 hexadecimal digits: of what is trained on and tested."""
    found = blake2b(digest_size=8)
    for name in ("x", "y", "train", "test", "server_test"):
        value = getattr(federation, name)
        for array in value if isinstance(value, (list, tuple)) else [value]:
            array = np.ascontiguousarray(array)
            found.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
            found.update(array.data if array.size else b"")
    return found.hexdigest()


def versions(backend: str) -> dict[str, str]:
    """Versions of what computes with this backend."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "numba", "borrowed-strength", *(["jax"] if backend == "jax" else [])):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def machine() -> str:
    """Fingerprint of the kind of processor, 8 hexadecimal digits: with the same one, versions and code, the same bits."""
    said = [platform.machine(), platform.system()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        said += sorted({line for line in lines if line.partition(":")[0].strip() in ("model name", "flags", "Features")})
    except OSError:
        said.append(platform.processor())
    return blake2b("\n".join(said).encode(), digest_size=4).hexdigest()
