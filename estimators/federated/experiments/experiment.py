"""Experiments as files: one TOML file per table or figure of a paper, read and checked into the dataclasses of ``plan``.

Every mistake in a file is a ValueError that names the file, the key and what would be right, before anything is loaded.

Belongs here: the schema.  Does not belong here: what an experiment is (``plan``), what files may name (``vocabulary``),
making tasks from runs (``building``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from copy import deepcopy
from math import inf
from pathlib import Path
from typing import Any

from estimators.federated.experiments import vocabulary
from estimators.federated.experiments.plan import (
    Experiment,
    Method,
    Plot,
    Printed,
    Run,
    Setup,
    Source,
    label,
    plain,
    put,
    slug,
)
from estimators.system.console import hint

__all__ = ["FOLDER", "Experiment", "Run", "experiments", "label", "plain", "read"]

FOLDER = Path(__file__).parent / "files"


def experiments(folder: str | Path = FOLDER) -> list[str]:
    """Names of the experiments, in order."""
    return sorted(path.stem for path in Path(folder).glob("*.toml"))


def read(name: str | Path, folder: str | Path = FOLDER) -> Experiment:
    """Read an experiment by its name, or from the path of a file that ends in .toml.

    A file with ``base = "other"`` says only where it differs from the file other.toml beside it: each of its top-level keys
    and tables replaces that one there.

    Raises ValueError naming file and key of a mistake, or the experiments there are.
    """
    path = Path(name) if str(name).endswith(".toml") else Path(folder) / f"{name}.toml"
    if not path.is_file():
        raise ValueError(f"no experiment is called {name!r}; {hint(str(name), experiments(folder))}")
    data = tables(path)
    try:
        if "base" in data:
            data = on_base(data.pop("base"), path.parent) | data
        return checked(path.stem, data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def tables(path: Path) -> dict[str, Any]:
    """The tables of a file; ValueError naming it where it has none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None


def on_base(base: Any, folder: Path) -> dict[str, Any]:
    """The tables that another file is the base of."""
    if base not in experiments(folder):
        raise ValueError(f"base must be the name of an experiment beside this file; {hint(str(base), experiments(folder))}")
    data = tables(folder / f"{base}.toml")
    if "base" in data:
        raise ValueError(f"base {base!r} has a base itself; name that one, {data['base']!r}, and all differences from it")
    return data


def keys(where: str, table: Any, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
    """Check that `table` is one, has the required keys and no unknown ones."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table, got {table!r}")
    dot = f"{where}." if where else ""
    for key in table:
        if key not in required and key not in optional:
            raise ValueError(f"{dot}{key} is unknown; known are {', '.join((*required, *optional))}")
    for key in required:
        if key not in table:
            raise ValueError(f"{dot}{key} is missing")
    return table


def text(where: str, value: Any) -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where} must be a text, got {value!r}")
    return value


def whole(where: str, value: Any, least: int) -> int:
    """Return a whole number >= least."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{where} must be a whole number >= {least}, got {value!r}")
    return value


def real(where: str, value: Any) -> float:
    """Return a finite number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not -inf < value < inf:
        raise ValueError(f"{where} must be a number, got {value!r}")
    return float(value)


def checked(name: str, data: Any) -> Experiment:
    """Experiment from the tables of a file."""
    keys(
        "",
        data,
        ("title", "paper", "place", "rounds", "seeds", "data", "model", "work", "methods"),
        ("notes", "every", "backend", "embedded", "groups", "printed", "plots"),
    )
    setup = setup_of("", data, source("data", data["data"]))
    methods = tuple(method_of(f"methods[{i}]", table) for i, table in enumerate(listed("methods", data["methods"])))
    names = [method.name for method in methods]
    if not names or len(set(map(slug, names))) < len(names):
        raise ValueError(f"methods must be at least one, each with another name; got {', '.join(names) or 'none'}")
    printed = tuple(
        printed_of(f"printed[{i}]", table, methods) for i, table in enumerate(listed("printed", data.get("printed", [])))
    )
    plots = tuple(plot_of(f"plots[{i}]", table, methods) for i, table in enumerate(listed("plots", data.get("plots", []))))
    words = {key: text(key, data[key]) for key in ("title", "paper", "place")}
    return Experiment(
        name=name, notes=data.get("notes", "").strip(), setup=setup, embedded=embedded_of(data, setup), methods=methods,
        printed=printed, plots=plots, **words,
    )  # fmt: skip


def listed(where: str, value: Any) -> list[Any]:
    """Return a list of tables."""
    if not isinstance(value, list):
        raise ValueError(f"{where} must be a list of tables [[{where}]]")
    return value


SOURCE = ("loader", "folder", "options", "steps")


def source(where: str, table: Any) -> Source:
    """Checked Source."""
    keys(where, table, ("loader",), SOURCE[1:])
    loader = vocabulary.loader(f"{where}.loader", table["loader"])
    folder, options = table.get("folder"), table.get("options", {})
    takes_path = vocabulary.takes(loader, "path")
    if takes_path != (folder is not None):
        raise ValueError(f"{where}.folder is {'needed' if takes_path else 'not for'} the loader {table['loader']!r}")
    vocabulary.fits(f"{where}.options", loader, options, *([folder] if takes_path else []))
    steps = []
    for i, step in enumerate(table.get("steps", [])):
        here = f"{where}.steps[{i}]"
        name, arguments = pair(here, step)
        vocabulary.fits(here, vocabulary.named(here, name, vocabulary.steps()), arguments, None)
        steps.append((name, arguments))
    return Source(table["loader"], folder, options, tuple(steps))


def pair(where: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return a name and its arguments from [name] or [name, {arguments}]."""
    if isinstance(value, list) and 1 <= len(value) <= 2 and isinstance(value[0], str):
        arguments = value[1] if len(value) == 2 else {}
        if isinstance(arguments, dict):
            return value[0], arguments
    raise ValueError(f"{where} must be [name, {{arguments}}], got {value!r}")


def setup_of(where: str, table: Any, data: Any) -> Setup:
    """Checked Setup from the keys of the file's top or of [embedded]."""
    at = f"{where}." if where else ""
    rounds = whole(f"{at}rounds", table["rounds"], 1)
    every = whole(f"{at}every", table.get("every", rounds), 1)
    seeds = table["seeds"]
    if not isinstance(seeds, list) or not seeds or len(set(map(repr, seeds))) < len(seeds):
        raise ValueError(f"{at}seeds must be a list of different whole numbers, got {seeds!r}")
    seeds = tuple(whole(f"{at}seeds", seed, 0) for seed in seeds)
    groups = keys(f"{at}groups", table.get("groups", {}), (), tuple(table.get("groups", {})))
    for group, how in groups.items():
        if how != "rest":
            name, arguments = pair(f"{at}groups.{group}", how)
            choice = vocabulary.named(f"{at}groups.{group}", name, vocabulary.choices())
            vocabulary.fits(f"{at}groups.{group}", choice, arguments, filled=vocabulary.FROM_FEDERATION)
    if list(groups.values()).count("rest") > 1:
        raise ValueError(f"{at}groups: only one group can be the rest")
    model = table["model"]
    if not isinstance(model, dict) or "kind" not in model:
        raise ValueError(f"{at}model.kind is missing")
    vocabulary.fits(
        f"{at}model",
        vocabulary.model(f"{at}model.kind", model["kind"]),
        {key: value for key, value in model.items() if key != "kind"},
        filled=vocabulary.FROM_DATA,
    )
    work = table["work"]
    if not isinstance(work, dict) or "rule" not in work:
        raise ValueError(f"{at}work.rule is missing")
    vocabulary.check_work(f"{at}work", work)
    backend = table.get("backend", "numpy")
    vocabulary.known(f"{at}backend", backend, vocabulary.BACKENDS)
    return Setup(data, model, work, rounds, min(every, rounds), seeds, groups, backend)


def embedded_of(data: Any, setup: Any) -> Setup | None:
    """Setup that needs no file: the paper's with what [embedded] changes; None where nothing runs without data."""
    table = data.get("embedded")
    if table is None:
        return setup if setup.data.folder is None else None
    whole_setup = ("rounds", "every", "seeds", "groups", "model", "work", "backend")
    keys("embedded", table, ("loader",), (*SOURCE[1:], *whole_setup))
    own = source("embedded", {key: value for key, value in table.items() if key in SOURCE})
    if own.folder is not None:
        raise ValueError("embedded.loader must need no file: digits or synthetic_federation")
    merged = {key: table.get(key, data.get(key)) for key in whole_setup if key in table or key in data}
    return setup_of("embedded", merged, own)


def method_of(where: str, table: Any) -> Method:
    """Checked Method."""
    keys(where, table, ("name", "algorithm"), ("settings", "grid", "work", "select"))
    where = f"methods.{text(f'{where}.name', table['name'])}"
    kind = vocabulary.algorithm(f"{where}.algorithm", table["algorithm"])
    settings, grid, work = (table.get(key, {}) for key in ("settings", "grid", "work"))
    for key, values in keys(f"{where}.grid", grid, (), tuple(grid)).items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{where}.grid.{key} must be a list of values")
        if len({label(value) for value in values}) < len(values):
            raise ValueError(f"{where}.grid.{key} has a value twice")
    first = deepcopy(settings)
    for key, values in grid.items():
        if not key.startswith("work."):
            put(first, key.split("."), values[0])
    vocabulary.fits(f"{where}.settings", kind, first)
    vocabulary.check_values(f"{where}.settings", settings)
    vocabulary.check_values(f"{where}.grid", grid)
    select = table.get("select")
    if select is not None:
        keys(f"{where}.select", select, ("measure", "best"), ("over",))
        vocabulary.known(f"{where}.select.best", select["best"], ("min", "max"))
        for key in select.get("over", ()):
            vocabulary.known(f"{where}.select.over", key, grid)
    return Method(table["name"], table["algorithm"], settings, grid, work, select)


def printed_of(where: str, table: Any, methods: Any) -> Printed:
    """Checked Printed."""
    keys(where, table, ("method", "measure", "value"), ("error", "at", "note"))
    by_name = {method.name: method for method in methods}
    method = vocabulary.named(f"{where}.method", table["method"], by_name)
    at = table.get("at", {})
    for key, value in at.items():
        values = vocabulary.named(f"{where}.at", key, method.grid)
        if label(value) not in {label(entry) for entry in values}:
            raise ValueError(f"{where}.at.{key} is {value!r}; the grid has {', '.join(map(label, values))}")
    free = [key for key in method.grid if key not in at and key not in method.over]
    if free:
        raise ValueError(f"{where}.at must give {', '.join(free)}, over which {method.name} does not select")
    value, error = real(f"{where}.value", table["value"]), real(f"{where}.error", table.get("error", 0.0))
    return Printed(method.name, text(f"{where}.measure", table["measure"]), value, error, at, table.get("note", ""))


def plot_of(where: str, table: Any, methods: Any) -> Plot:
    """Checked Plot."""
    keys(where, table, ("x", "measure"), ("at", "methods"))
    grids = {key for method in methods for key in method.grid}
    vocabulary.known(f"{where}.x", table["x"], {"round", *grids})
    for key in table.get("at", {}):
        vocabulary.known(f"{where}.at", key, grids)
    chosen = table.get("methods")
    for name in chosen or ():
        vocabulary.known(f"{where}.methods", name, [method.name for method in methods])
    chosen = None if chosen is None else tuple(chosen)
    return Plot(table["x"], text(f"{where}.measure", table["measure"]), table.get("at", {}), chosen)
