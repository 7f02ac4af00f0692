"""What experiment files may name (loaders, steps, choices, models, algorithms, privacy), and whether arguments fit.

Loaders, models and algorithms may be the user's own: "module:name", or what an installed package registers as an entry point
of the group borrow.loaders, borrow.models or borrow.algorithms.  So a file may run any code that can be imported: trust it
as you would trust a program.

Belongs here: tables from names to functions, checks of arguments against signatures.  Does not belong here: the files'
schema (``experiment``), calling anything (``building``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

from estimators.system.console import hint
from estimators.system.outside import imported, installed

__all__ = [
    "BACKENDS", "FROM_DATA", "FROM_FEDERATION", "algorithm", "check_values", "check_work", "choices", "fits", "known",
    "loader", "loaders", "model", "models", "named", "objects", "steps", "takes",
]  # fmt: skip

BACKENDS = ("numpy", "jax")
FROM_DATA = ("n_features", "n_classes")
"""Arguments of models that come from the data, where the file does not give them."""
FROM_FEDERATION = ("federation", "clients")
"""Arguments of choices that come from the federation, where the file does not give them."""


def functions(*modules: Any) -> dict[str, Any]:
    """Public functions of modules of ``estimators.federated``, by name."""
    found = {}
    for module in map(import_module, (f"estimators.federated.{module}" for module in modules)):
        found |= {name: getattr(module, name) for name in module.__all__ if inspect.isfunction(getattr(module, name))}
    return found


def loaders() -> dict[str, Any]:
    """Loaders of data, by name."""
    return functions("data.loaders", "data.tables", "data.generated")


def own(where: str, name: Any, group: str) -> Any:
    """The user's own object of this name, a class or a function; None for a name of no such form."""
    place = name if isinstance(name, str) and ":" in name else installed(f"borrow.{group}").get(str(name))
    if place is None:
        return None
    found = imported(where, place)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        raise ValueError(f"{where} must name a class or a function, and {place!r} is a {type(found).__name__}")
    return found


def loader(where: str, name: str) -> Any:
    """The loader of this name, ours or the user's own."""
    return of_anybody(where, name, loaders(), "loaders")


def model(where: str, name: str) -> Any:
    """The function from settings to a model of this name, ours or the user's own."""
    return of_anybody(where, name, models(), "models")


def of_anybody(where: str, name: Any, table: Mapping[str, Any], group: str) -> Any:
    """What a name stands for: ours in the table, or else the user's own of the group."""
    found = None if isinstance(name, str) and name in table else own(where, name, group)
    return named(where, name, table) if found is None else found


def steps() -> dict[str, Any]:
    """What may follow a loader, by name: each takes the data first."""
    from estimators.federated.data import Examples

    return {**functions("data.partitions", "data.silos"), "split_test": Examples.split_test}


def choices() -> dict[str, Any]:
    """Who asks for what, by name."""
    return functions("data.choices")


def models() -> dict[str, Any]:
    """Models, by name."""
    return functions("models")


def algorithm(where: str, name: str) -> Any:
    """The algorithm of this name, ours, of which only its own module is loaded, or the user's own."""
    from estimators.federated import algorithms

    found = None if name in algorithms.NAMES else own(where, name, "algorithms")
    return getattr(algorithms, known(where, name, algorithms.NAMES)) if found is None else dataclass_of(where, found)


def dataclass_of(where: str, kind: Any) -> Any:
    """The class, if it is an algorithm as ours are."""
    if not (is_dataclass(kind) and inspect.isclass(kind)):
        raise ValueError(f"{where} must be a dataclass of its settings, as those of estimators.federated.algorithms are")
    for part in ("start", "round", "models", "guarantees"):
        if not callable(getattr(kind, part, None)):
            raise ValueError(f"{where}: {kind.__name__} has no {part}; derive it from algorithms.parts.Parts")
    return kind


def objects() -> dict[str, Any]:
    """Classes of ``estimators.federated.privacy`` that settings may hold, by name."""
    module = import_module("estimators.federated.privacy")
    return {name: getattr(module, name) for name in module.__all__ if inspect.isclass(getattr(module, name))}


def named(where: str, name: str, table: Mapping[str, Any]) -> Any:
    """Return table[name], or raise a ValueError with the names nearest to it."""
    return table[known(where, name, table)]


def known(where: str, name: str, names: Iterable[str]) -> str:
    """Return a name if it is among the names, or raise a ValueError with those nearest to it."""
    if isinstance(name, str) and name in names:
        return name
    raise ValueError(f"{where}: {name!r} is unknown; {hint(str(name), sorted(names))}")


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name."""
    return name in inspect.signature(function).parameters


def fits(
    where: str, function: Callable[..., Any], options: Mapping[str, Any], *given: Any, filled: Iterable[str] = ()
) -> None:
    """Check that a function takes these options after the arguments `given`; its seed and those in `filled` may lack."""
    if not isinstance(options, dict):
        raise ValueError(f"{where} must be a table, got {options!r}")
    parameters = inspect.signature(function).parameters
    for key in options:
        if key not in parameters:
            raise ValueError(f"{where}.{key} is unknown; {function.__name__} takes {', '.join(parameters)}")
    try:
        inspect.signature(function).bind(*given, **{key: None for key in ("seed", *filled) if key in parameters} | options)
    except TypeError as error:
        raise ValueError(f"{where}: {function.__name__}: {error}") from None


def check_values(where: str, value: object) -> None:
    """Check the tables {kind = ...} and {choice = ...} anywhere in settings."""
    if isinstance(value, dict):
        rest = {key: entry for key, entry in value.items() if key not in ("kind", "choice")}
        if "kind" in value:  # what the grid fills in may lack
            kind = named(f"{where}.kind", value["kind"], objects())
            fits(where, kind, rest, filled=tuple(inspect.signature(kind).parameters))
        elif "choice" in value:
            fits(where, named(f"{where}.choice", value["choice"], choices()), rest, filled=FROM_FEDERATION)
        for key, entry in rest.items():
            check_values(f"{where}.{key}", entry)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            check_values(f"{where}[{i}]", entry)


def check_work(where: str, work: Mapping[str, Any]) -> None:
    """Check the rule and the names of its arguments."""
    from estimators.federated.task import RULES

    rule = named(f"{where}.rule", work["rule"], RULES)
    known = [p for p in inspect.signature(rule).parameters if p not in ("sizes", "seed", "round", "clients")]
    known = list(dict.fromkeys([*known, "n_epochs", "weight_decay"]))
    for key in work:
        if key != "rule" and key not in known:
            raise ValueError(f"{where}.{key} is unknown; {work['rule']} takes {', '.join(known)}")
    check_values(where, work)
