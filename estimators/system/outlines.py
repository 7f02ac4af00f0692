"""What one source file says: its definitions, what each names, and its text, as plain data that a file can keep.

To look for changes takes the time of reading and walking syntax trees, and for a file that has not changed the answer is
the same.  So outlines of files are kept, each under the hash of the file's whole content; a change of this module, or
another Python, begins anew.

Belongs here: what can be said of one file alone.  Does not belong here: what its names mean in other files, and what can be
reached through them (``sources``).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from platform import python_version
from typing import Any

from estimators.system import files

__all__ = [
    "FUNCTIONS", "Definition", "Lambda", "Named", "Node", "Outline", "Outlines", "Piece", "defined", "from_plain",
    "inner_functions", "key_of", "lambdas_in", "named_in", "outline", "recipe", "texts_in", "to_plain", "walk",
    "without_docstrings",
]  # fmt: skip

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, ast.Lambda, *COMPREHENSIONS)

PLAIN = ("ctx", "op", "ops", "id", "attr", "arg", "kind", "module", "level", "conversion", "type_comment")

Node = tuple[str, str]
"""A definition: the module, and the name that it defines there."""


@dataclass(frozen=True)
class Named:
    """What a piece of text names, other than what it binds itself: what its own imports bind, names, and names with
    attributes, such as ("np", "linalg", "solve").
    """  # fmt: skip

    local: Mapping[str, Node | str]
    chains: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """A function inside of a definition, or a lambda: its text, the strings of one line in it, what it names."""

    text: str
    strings: tuple[str, ...]
    named: Named


@dataclass(frozen=True)
class Lambda:
    """A lambda: its number in the file, first and last line, first column, where its body begins, and what it says."""

    number: int
    first: int
    last: int
    column: int
    body: tuple[int, int]
    piece: Piece


@dataclass(frozen=True)
class Definition:
    """The statements that define a name: a fingerprint of their text, the strings of one line in them, and of each
    statement what it names and its first and last line.
    """

    digest: str
    strings: tuple[str, ...]
    named: tuple[Named, ...]
    lines: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Outline:
    """A source file: what its imports bind, its definitions, functions that others hold by first line and name, lambdas."""

    imports: Mapping[str, Node | str]
    definitions: Mapping[str, Definition]
    inner: Mapping[tuple[int, str], Piece]
    lambdas: tuple[Lambda, ...]


def outline(module: str, tree: ast.Module, is_package: bool) -> Outline:
    """The outline of a file, from its syntax."""
    imports: dict[str, Node | str] = {}
    for statement in flat(tree.body):
        imports |= imported(statement, module, is_package)

    @functools.cache  # a statement may define several names
    def names(statement: ast.AST) -> Named:
        return named_in(statement, module, is_package)

    definitions = {}
    for name, statements in defined(tree).items():
        text = "\n".join(map(without_docstrings, statements))
        definitions[name] = Definition(
            hashlib.sha256(f"{module}:{name}\0{text}".encode()).hexdigest(),
            _of_one_line(statements),
            tuple(map(names, statements)),
            tuple((_first_line(s), s.end_lineno or 0) for s in statements),
        )

    def piece(node: ast.AST) -> Piece:
        return Piece(without_docstrings(node), _of_one_line([node]), names(node))

    lambdas = tuple(
        Lambda(k, n.lineno, n.end_lineno or 0, n.col_offset, (n.body.lineno, n.body.col_offset), piece(n))
        for k, n in enumerate(lambdas_in(tree))
    )
    return Outline(imports, definitions, {at: piece(n) for at, n in inner_functions(tree).items()}, lambdas)


def defined(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """The statements of a module by the names that they define."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in flat(tree.body):
        for name in _defines(statement):
            found.setdefault(name, []).append(statement)
    return found


def lambdas_in(tree: ast.Module) -> list[ast.Lambda]:
    """All lambdas of a file."""
    return [n for n in walk(tree) if isinstance(n, ast.Lambda)]


def inner_functions(tree: ast.Module) -> dict[tuple[int, str], ast.AST]:
    """The functions of a file that others hold, by first line and name."""
    outermost, waiting = [], list(tree.body)
    while waiting:
        node: Any = waiting.pop()
        if isinstance(node, FUNCTIONS):
            outermost.append(node)
        else:
            waiting += _children(node)
    held = [n for f in outermost for n in walk(f)[1:] if isinstance(n, FUNCTIONS)]
    return {(_first_line(n), n.name): n for n in held}


def _first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def named_in(tree: ast.AST, module: str, is_package: bool) -> Named:
    """What a piece of a module's text names."""
    local: dict[str, Node | str] = {}
    nodes = walk(tree)
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            local |= imported(node, module, is_package)
    inside = _bound(tree)  # names that are followed already, or that stand for no definition
    chains, names = set(), set()
    for node in nodes:
        if isinstance(node, ast.Attribute) and id(node) not in inside:
            chain, head = [], node
            while isinstance(head, ast.Attribute):
                inside.add(id(head))
                chain.append(head.attr)
                head = head.value
            if isinstance(head, ast.Name) and id(head) not in inside:
                inside.add(id(head))
                chains.add((head.id, *chain[::-1]))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inside:
            names.add(node.id)
    return Named(local, tuple(sorted(chains)), tuple(sorted(names)))


def walk(tree: ast.AST) -> list[ast.AST]:
    """The nodes of a tree, each before what it holds, but for operators and contexts: what takes most of the time of
    `ast.walk`, and nobody asks for here.
    """  # fmt: skip
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(_children(node))
    return found


def _children(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for name in _fields(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [part for part in value if isinstance(part, ast.AST)]
    return found


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields that may hold nodes: no names, and neither operators nor contexts."""
    return tuple(name for name in kind._fields if name not in PLAIN)


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under `if` and `try` too."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            parts = [statement.body, statement.orelse]
            if isinstance(statement, ast.Try):
                parts += [statement.finalbody, *(h.body for h in statement.handlers)]
            for part in parts:
                yield from flat(part)
        else:
            yield statement


def _defines(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module gives a meaning, or changes: ``X = ``, ``X[...] = ``, ``X.update(...)``.
    What Numba compiles in the place of X, ``@overload(X)``, goes by that name.
    """  # fmt: skip
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        calls = [d for d in statement.decorator_list if isinstance(d, ast.Call) and d.args]
        return {_head(d.args[0]) for d in calls if _called(d) == "overload"} or {statement.name}
    found: set[str] = set()
    for node in walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            found.add(_head(node))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute):
            found.add(_head(function))
    return found - {""}


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _head(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def imported(statement: ast.AST, module: str, is_package: bool) -> dict[str, Node | str]:
    """What an import statement binds: a module's name, or (module, name)."""
    found: dict[str, Node | str] = {}
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            found[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
    elif isinstance(statement, ast.ImportFrom):
        source = statement.module or ""
        if statement.level:
            base = module.split(".")
            base = base[: len(base) - statement.level + is_package]
            source = ".".join([*base, source] if source else base)
        for alias in statement.names:
            found[alias.asname or alias.name] = (source, alias.name)
    return found


def without_docstrings(node: ast.AST) -> str:
    """Text of a definition without its docstrings and positions."""
    held = []
    for part in walk(node):
        body = getattr(part, "body", None)
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(part) is not None:
            held.append((part, body))
            part.body = body[1:]  # type: ignore[index]
    text = ast.dump(node)
    for part, body in held:
        part.body = body  # type: ignore[attr-defined]
    return text


def _bound(tree: ast.AST) -> set[int]:
    """The names in a piece of text that functions, lambdas and comprehensions bind themselves."""
    found: set[int] = set()

    def scope(node: ast.AST, outer: frozenset[str]) -> None:
        names, inner = outer, []
        if isinstance(node, SCOPES):
            own, parts = _binds(node)
            names = outer | own
        else:
            parts = list(_children(node))
        waiting = parts
        while waiting:
            part = waiting.pop()
            if isinstance(part, SCOPES):
                inner.append(part)
            else:
                if isinstance(part, ast.Name) and part.id in names:
                    found.add(id(part))
                waiting.extend(_children(part))
        for part in inner:
            scope(part, names)

    inside: Any = [tree]  # a lambda or a comprehension is no statement
    scope(ast.Module(inside, []) if isinstance(tree, SCOPES) else tree, frozenset())
    return found


def _binds(node: Any) -> tuple[frozenset[str], list[ast.AST]]:
    """The names that a scope binds, and its parts."""
    names: set[str] = set()
    if isinstance(node, COMPREHENSIONS):
        names = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        return frozenset(names), list(_children(node))
    a = node.args
    names = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if x is not None}
    waiting = list(node.body) if isinstance(node.body, list) else [node.body]
    said_global: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (*FUNCTIONS, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            names.add(part.id)
        elif isinstance(part, (ast.Global, ast.Nonlocal)):
            said_global |= set(part.names)
        elif isinstance(part, ast.NamedExpr):
            names.add(part.target.id)
        if not isinstance(part, SCOPES) or isinstance(part, COMPREHENSIONS):
            targets = {id(n) for g in getattr(part, "generators", ()) for n in walk(g.target)}
            waiting.extend(n for n in _children(part) if id(n) not in targets and not isinstance(n, ast.comprehension))
            waiting.extend(x for g in getattr(part, "generators", ()) for x in (g.iter, *g.ifs))
    return frozenset(names - said_global), list(_children(node))


def texts_in(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The strings that stand in statements."""
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _of_one_line(statements: Iterable[ast.AST]) -> tuple[str, ...]:
    """The strings in statements that may be names of something; longer ones are text for readers."""
    return tuple(sorted({text for text in texts_in(statements) if "\n" not in text}))


class Outlines:
    """Outlines of files, those known from before in a file; one that is damaged, or of another recipe, counts as empty.

    Parameters
    ----------
    path : file, or None to keep nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._made: dict[str, Outline] = {}

    @functools.cached_property
    def _known(self) -> dict[str, Any]:
        return self._in_file()

    def _in_file(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            found = json.loads(self.path.read_bytes()) if self.path is not None else {}
            if found["recipe"] == recipe() and isinstance(found["outlines"], dict):
                return found["outlines"]
        return {}

    def of(self, module: str, text: bytes, tree: Callable[[], ast.Module], is_package: bool) -> Outline:
        """The outline of a file that has this text; its syntax is only asked for if the outline is not known."""
        key = key_of(module, text, is_package)
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            return from_plain(self._known[key])
        self._made[key] = outline(module, tree(), is_package)
        return self._made[key]

    def save(self, keys: Iterable[str]) -> None:
        """Keep the outlines of the files with these keys, if new ones were made here; those that other processes have kept
        meanwhile too. Where it cannot be written, nothing is kept.
        """  # fmt: skip
        if self.path is None or not self._made:
            return
        known = self._in_file() | {key: to_plain(made) for key, made in self._made.items()}
        kept = {key: known[key] for key in keys if key in known}
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.write(self.path, json.dumps({"recipe": recipe(), "outlines": kept}))
            self._made = {}


def key_of(module: str, text: bytes, is_package: bool) -> str:
    """What tells a file with its content from all others; the same text imports others as a package than as a module."""
    return f"{module}{'/' if is_package else ''} {hashlib.sha256(text).hexdigest()}"


def to_plain(o: Outline) -> Any:
    """An outline as JSON has it."""
    definitions = {
        name: [d.digest, d.strings, [_plain_names(n) for n in d.named], d.lines] for name, d in o.definitions.items()
    }
    inner = [[*at, p.text, p.strings, _plain_names(p.named)] for at, p in o.inner.items()]
    lambdas = [
        [n.first, n.last, n.column, n.body, n.piece.text, n.piece.strings, _plain_names(n.piece.named)] for n in o.lambdas
    ]
    return [o.imports, definitions, inner, lambdas]


def from_plain(plain: Any) -> Outline:
    """The outline that `to_plain` made this of."""
    imports, definitions, inner, lambdas = plain
    return Outline(
        _read_imports(imports),
        {
            name: Definition(digest, tuple(strings), tuple(map(_read_names, named)), tuple((a, b) for a, b in lines))
            for name, (digest, strings, named, lines) in definitions.items()
        },
        {(line, name): Piece(text, tuple(strings), _read_names(named)) for line, name, text, strings, named in inner},
        tuple(
            Lambda(k, first, last, column, (body[0], body[1]), Piece(text, tuple(strings), _read_names(named)))
            for k, (first, last, column, body, text, strings, named) in enumerate(lambdas)
        ),
    )


def _plain_names(n: Named) -> Any:
    return [n.local, n.chains, n.names]


def _read_names(plain: Any) -> Named:
    local, chains, names = plain
    return Named(_read_imports(local), tuple(map(tuple, chains)), tuple(names))


def _read_imports(plain: Mapping[str, Any]) -> dict[str, Node | str]:
    return {name: to if isinstance(to, str) else (to[0], to[1]) for name, to in plain.items()}


def recipe() -> str:
    """Fingerprint of how outlines are made."""
    return hashlib.sha256(Path(__file__).read_bytes() + python_version().encode()).hexdigest()
