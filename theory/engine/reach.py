"""What the judges of a claim can reach: what its functions and values are made of, in the index of ``system.sources``.

Belongs here: values of claims as definitions and texts, the sources of this installation.  Does not belong here: the index
of sources and closures (``estimators.system.sources``), what is done with them (evidence.py).
"""

from __future__ import annotations

import functools
import sysconfig
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import sympy as sp

from estimators.system.sources import FUNCTIONS, Node, Sources, digest, versions_text
from theory.engine.paper import papers

__all__ = ["FUNCTIONS", "Node", "Reached", "Sources", "collect", "digest", "libraries", "on_disk", "shape", "sources"]

PACKAGES = ("estimators", "theory")
LIBRARIES = ("numpy", "scipy", "sympy", "mpmath", "numba", "python-flint", "gmpy2")
ROOT = Path(__file__).resolve().parents[2]
OUTLINES = Path("build") / "outlines.json"  # beside the ledger; what is not in it is read from the sources


@dataclass
class Reached:
    """What values reach: definitions, pieces of text of their own (lambdas), and plain values in words."""

    nodes: set[Node] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)


def collect(sources: Sources, value: Any, into: Reached, seen: dict[int, Any] | None = None) -> Reached:
    """Add what a value of a claim is made of: functions with what they close over, classes, containers, plain values."""
    seen = {} if seen is None else seen  # by number, and held: the number of one that is gone is given to another
    if isinstance(value, (str, int, float, complex, bytes, type(None))):
        into.texts.add(repr(value))
        if isinstance(value, str):
            into.strings.add(value)
        return into
    if id(value) in seen:
        return into
    seen[id(value)] = value
    value = getattr(value, "py_func", value)  # a compiled kernel
    if isinstance(value, functools.partial):
        into.texts.add(shape((value.args, value.keywords)))
        parts: list[Any] = [value.func, *value.args, *value.keywords.items()]
    elif isinstance(value, types.MethodType):
        parts = [value.__func__, value.__self__]
    elif hasattr(value, "__wrapped__"):
        parts = [value.__wrapped__]
    elif isinstance(value, types.FunctionType):
        parts = _function(sources, value, into)
    elif isinstance(value, type):
        if value.__module__ in sources.modules:
            into.nodes.add((value.__module__, value.__qualname__.split(".")[0]))
        else:
            into.texts.add(f"{value.__module__}.{value.__qualname__}")
        parts = []
    elif isinstance(value, dict):
        parts = [x for item in value.items() for x in item]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    elif is_dataclass(value):
        parts = [type(value), *(getattr(value, f.name) for f in fields(value))]
    elif type(value).__module__ in sources.modules:
        parts = [type(value), *vars(value).items()]
    else:  # of a library: its text, unless that holds an address
        text = _text(value)
        into.texts.add(f"{type(value).__module__}.{type(value).__qualname__}" if " at 0x" in text else text)
        parts = []
    for part in parts:
        collect(sources, part, into, seen)
    return into


def shape(value: Any) -> str:
    """Plain values with their places, as text: a set of what a value is made of does not tell (1, 2) from (2, 1), and not
    (2,) from (2, 3) where a 3 stands elsewhere. Equal numbers of other types are told apart: judges divide 2 and Integer(2)
    otherwise. Functions are told by what they reach.

    >>> shape({"m": (2, 3)}) == shape({"m": (3, 2)})
    False
    >>> shape((1, sp.Integer(1), 1.0, True))
    '(1, Integer(1), 1.0, True)'
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shape(k)}: {shape(v)}' for k, v in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(shape, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(shape, value)))}}}"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(shape(getattr(value, f.name)) for f in fields(value))})"
    text = _text(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _text(value: Any) -> str:
    """A value's text; SymPy's `repr` says 2 for Integer(2), x for every symbol of that name, and leaves out digits."""
    return sp.srepr(value) if isinstance(value, (sp.Basic, sp.MatrixBase)) else repr(value)


def _function(sources: Sources, function: types.FunctionType, into: Reached) -> list[Any]:
    code, module = function.__code__, function.__module__
    cells = {name: c.cell_contents for name, c in zip(code.co_freevars, function.__closure__ or (), strict=True)}
    if any(held := [cells, function.__defaults__, function.__kwdefaults__]):
        into.texts.add(shape(held))
    if module not in sources.modules:  # of a library, a notebook, a test
        into.texts.add(f"{module}.{function.__qualname__}")
        if "site-packages" in code.co_filename or code.co_filename.startswith(sysconfig.get_path("stdlib")):
            return list(cells.values())
        into.texts |= set(_code_text(code))
        known = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
        ours = [v.__name__ for v in known if isinstance(v, types.ModuleType) and v.__name__ in sources.modules]
        into.nodes |= {node for home in ours for name in code.co_names for node in sources.resolve(home, name)}
        homes = {module, *sources.modules.texts}
        own = [v for v in known if getattr(v, "__module__", module) in homes and not isinstance(v, types.ModuleType)]
        return [*own, *held]
    pieces, holders = sources.pieces(module, code)
    for piece in pieces:
        into.texts.add(piece.text)
        into.strings |= set(piece.strings)
        into.nodes |= sources.named(module, piece.named)
    into.nodes |= holders
    return held


def on_disk(outlines: Path | None = None) -> Sources:
    """The sources of this installation as they are now; with what a file knows of them, if that is named."""
    packs = {p.package: p.folder for p in papers().values() if not p.own}
    return Sources({package: ROOT / package for package in PACKAGES} | packs, libraries(), outlines)


@functools.cache
def sources() -> Sources:
    """The sources of this installation, read once: as this process runs them, if it asks before it imports them."""
    return on_disk(OUTLINES)


def _code_text(code: types.CodeType) -> Iterator[str]:
    """What a compiled function does, as text, without where it stands."""
    yield f"{code.co_code.hex()} {code.co_names} {shape([c for c in code.co_consts if not isinstance(c, types.CodeType)])}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_text(constant)


@functools.cache
def libraries() -> str:
    """Versions of what every judge rests on."""
    return versions_text(LIBRARIES)
