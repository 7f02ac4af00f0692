"""What definitions can reach: functions, classes, constants and data files, found in the sources.

A name that stands in the text of a function, with everything that its definition names in turn, is what the function can
reach: callees (compiled ones too), constants, base classes, and files that lie beside a module and are named in it.  Nothing
is run, so the answer is the same for any order of running and any worker.  A docstring, a comment, a blank line, or a
definition that nobody names changes nothing; any other edit of what is reached does.  Methods of objects count with their
class; objects reach a function as an argument only if somebody names their class.

Belongs here: the index of sources, closures, fingerprints.  Does not belong here: what is done with them (results of
experiments in ``federated.experiments.provenance``; evidence on claims in theory).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

__all__ = ["DATA", "FUNCTIONS", "Module", "Node", "Sources", "digest", "texts_in", "versions_text", "without_docstrings"]

DATA = (".csv", ".json", ".txt", ".npz")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, ast.Lambda, *COMPREHENSIONS)

PLAIN = ("ctx", "op", "ops", "id", "attr", "arg", "kind", "module", "level", "conversion", "type_comment")

Node = tuple[str, str]
"""A definition: the module, and the name that it defines there."""


@dataclass
class Module:
    """One source file: definitions by name, what names are imported, and the folder of its data."""

    name: str
    path: Path
    tree: ast.Module
    is_package: bool
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Node | str] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for statement in _flat(self.tree.body):
            self.imports |= imported(statement, self.name, self.is_package)
            for name in _defines(statement):
                self.definitions.setdefault(name, []).append(statement)
        if self.is_package:
            self.homes = dict(_homes(self))

    @functools.cached_property
    def lambdas(self) -> list[ast.Lambda]:
        """All lambdas of the file."""
        return [n for n in walk(self.tree) if isinstance(n, ast.Lambda)]

    @functools.cached_property
    def inner(self) -> dict[tuple[int, str], ast.AST]:
        """The functions of the file that others hold, by first line and name."""
        outermost, waiting = [], list(self.tree.body)
        while waiting:
            node: Any = waiting.pop()
            if isinstance(node, FUNCTIONS):
                outermost.append(node)
            else:
                waiting += _children(node)
        held = [n for f in outermost for n in walk(f)[1:] if isinstance(n, FUNCTIONS)]
        return {(min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.name): n for n in held}


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


def _homes(front: Module) -> Iterator[tuple[str, str]]:
    """The names that a front loads at first use (``lazy.attach``), and their modules."""
    for call in (n for n in walk(front.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "attach"):
        table = call.args[1]
        if isinstance(table, ast.Name):
            table = _table(front, table.id)
        for home, names in ast.literal_eval(table).items():
            yield from ((name, home) for name in names.split())


def _table(front: Module, name: str) -> ast.expr:
    """The table of a front, which may stand in a module beside it."""
    body = front.tree.body
    if name not in front.definitions:
        home = str(front.imports[name][0]).rpartition(".")[2]
        body = ast.parse((front.path.parent / f"{home}.py").read_bytes()).body
    return next(s.value for s in body if isinstance(s, ast.Assign) and name in _defines(s))


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those under `if` and `try` too."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try)):
            parts = [statement.body, statement.orelse]
            if isinstance(statement, ast.Try):
                parts += [statement.finalbody, *(h.body for h in statement.handlers)]
            for part in parts:
                yield from _flat(part)
        else:
            yield statement


def _defines(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module gives a meaning, or changes: ``X = ``, ``X[...] = ``, ``X.update(...)``."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    found: set[str] = set()
    for node in walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            found.add(_head(node))
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute):
            found.add(_head(function))
    return found - {""}


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


class Modules(dict[str, Module]):
    """Modules by name, each read when it is first asked for."""

    def __init__(self, paths: Mapping[str, Path]):
        super().__init__()
        # All texts at once and before anything is judged: what changes on the disk later is not what runs here.
        self.texts = {name: (path, path.read_bytes()) for name, path in paths.items()}

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __missing__(self, name: str) -> Module:
        path, text = self.texts[name]
        try:
            tree = ast.parse(text)
        except SyntaxError:  # it defines nothing; the registry says what is malformed
            tree = ast.Module([], [])
        self[name] = Module(name, path, tree, path.name == "__init__.py")
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The module, or `default` where it is none of ours."""
        return self[name] if name in self.texts else default


class Sources:
    """The modules of packages below some folders, and what their definitions reach; `tree` is a hash of all of it.

    `libraries` are the versions of what they rest on, as text.
    """

    def __init__(self, folders: Mapping[str, Path], libraries: str = ""):
        paths, data = {}, {}
        for package, folder in folders.items():
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                paths[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
            data |= {path: path.read_bytes() for end in DATA for path in sorted(folder.rglob(f"*{end}"))}
        self.modules = Modules(paths)
        self.data = data
        self.libraries = libraries
        whole = hashlib.sha256(libraries.encode())
        for name, content in sorted(
            [(n, text) for n, (_, text) in self.modules.texts.items()] + [(p.name, c) for p, c in data.items()]
        ):
            whole.update(b"\0" + name.encode() + b"\0" + content)
        self.tree = whole.hexdigest()[:16]
        self._texts: dict[Node, str] = {}
        self._uses: dict[Node, frozenset[Node]] = {}
        self._strings: dict[Node, frozenset[str]] = {}
        self._files: dict[Node, frozenset[Path]] = {}
        self._prints: dict[Node, bytes] = {}

    # --- names

    def resolve(self, module: str, name: str) -> set[Node]:
        """Definitions that a name of a module stands for; none for names of libraries and builtins."""
        home = self.modules.get(module)
        if home is None:
            return set()
        if name in home.definitions:
            return {(module, name)}
        if name in home.homes:
            return self.resolve(f"{module}.{home.homes[name]}", name)
        if name in home.imports:
            target = home.imports[name]
            return self.resolve(*target) if isinstance(target, tuple) else set()
        return set()

    def module_of(self, module: str, name: str, local: dict[str, Node | str]) -> str | None:
        """The module that a name stands for, if it is one of ours."""
        target = local.get(name) or (self.modules[module].imports.get(name) if module in self.modules else None)
        if isinstance(target, tuple):
            source, part = target
            if f"{source}.{part}" in self.modules:
                return f"{source}.{part}"
            return self.module_of(source, part, {}) if source in self.modules and source != module else None
        return target if target in self.modules else None

    def named(self, module: str, tree: ast.AST) -> set[Node]:
        """Definitions that a piece of a module's text names."""
        local: dict[str, Node | str] = {}
        home = self.modules[module]
        nodes = list(walk(tree))
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                local |= imported(node, module, home.is_package)
        found: set[Node] = set()
        inside = _bound(tree)  # names that are followed already, or that stand for no definition
        for node in nodes:
            if isinstance(node, ast.Attribute) and id(node) not in inside:
                chain, head = [], node
                while isinstance(head, ast.Attribute):
                    inside.add(id(head))
                    chain.append(head.attr)
                    head = head.value
                if isinstance(head, ast.Name) and id(head) not in inside:
                    current = self.module_of(module, head.id, local)
                    if current is not None:
                        inside.add(id(head))
                        found |= self.follow(current, chain[::-1])
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inside:
                if (used := self.module_of(module, node.id, local)) is not None:
                    found |= {(used, name) for name in self.modules[used].definitions}  # a module as a value
                elif node.id in local:
                    target = local[node.id]
                    found |= self.resolve(*target) if isinstance(target, tuple) else set()
                else:
                    found |= self.resolve(module, node.id)
        return found

    def follow(self, module: str, chain: list[str]) -> set[Node]:
        """What ``module.a.b`` names."""
        first, rest = chain[0], chain[1:]
        if f"{module}.{first}" in self.modules and first not in self.modules[module].homes:
            return self.follow(f"{module}.{first}", rest) if rest else set()
        if (other := self.module_of(module, first, {})) is not None:
            return self.follow(other, rest) if rest else set()
        return self.resolve(module, first)

    # --- definitions

    def statements(self, node: Node) -> list[ast.stmt]:
        """The statements that define a node."""
        return self.modules[node[0]].definitions.get(node[1], [])

    def text(self, node: Node) -> str:
        """Text of a definition: what a change of it changes."""
        if node not in self._texts:
            self._texts[node] = "\n".join(without_docstrings(s) for s in self.statements(node))
        return self._texts[node]

    def uses(self, node: Node) -> frozenset[Node]:
        """Definitions that a definition names."""
        if node not in self._uses:
            found: set[Node] = set()
            for statement in self.statements(node):
                found |= self.named(node[0], statement)
            self._uses[node] = frozenset(found - {node})
        return self._uses[node]

    def strings(self, node: Node) -> frozenset[str]:
        """Texts that stand in a definition."""
        if node not in self._strings:
            self._strings[node] = frozenset(texts_in(self.statements(node)))
        return self._strings[node]

    def closure(self, roots: Iterable[Node], stop: Iterable[Node] = ()) -> set[Node]:
        """All definitions that the roots reach, themselves included, but nothing behind `stop`."""
        stop = set(stop)
        seen: set[Node] = set()
        waiting = [r for r in roots if r not in stop]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += [n for n in self.uses(node) if n not in seen and n not in stop]
        return seen

    def files(self, nodes: Iterable[Node]) -> set[Path]:
        """Data files beside a module that its reached definitions name."""
        return set().union(*map(self._files_of, nodes))

    def _files_of(self, node: Node) -> frozenset[Path]:
        if node not in self._files:
            folder = self.modules[node[0]].path.parent
            named = [folder / text for text in self.strings(node) if text.endswith(DATA)]
            self._files[node] = frozenset(path for path in named if path in self.data)
        return self._files[node]

    def print_of(self, node: Node) -> bytes:
        """Fingerprint of one definition."""
        if node not in self._prints:
            self._prints[node] = hashlib.sha256(f"{node[0]}:{node[1]}\0{self.text(node)}".encode()).digest()
        return self._prints[node]

    def at(self, module: str, code: types.CodeType) -> tuple[list[ast.AST], set[Node]]:
        """A compiled function of a module: the own text of a lambda or of one that another holds, or its definition."""
        home, line, name = self.modules[module], code.co_firstlineno, code.co_name
        if (line, name) in home.inner:  # what it takes from the function around it are values, which its closure has
            return [home.inner[line, name]], set()
        if name == "<lambda>":
            found = [n for n in home.lambdas if n.lineno <= line <= (n.end_lineno or 0)]
            places = {(first, column) for first, _, column, _ in code.co_positions()}
            exact = [n for n in found if (n.body.lineno, n.body.col_offset) in places]
            # Of lambdas in each other the places of the outer one's code may hold the inner one's start: the widest is it.
            widest = sorted(exact, key=lambda n: (n.lineno, n.col_offset))[:1]
            return list(widest or [n for n in found if n.lineno == line] or found), set()
        holders = {
            (module, key)
            for key, statements in home.definitions.items()
            for s in statements
            if min([s.lineno, *(d.lineno for d in getattr(s, "decorator_list", ()))]) <= line <= (s.end_lineno or 0)
        }
        return [], holders


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


def versions_text(libraries: Iterable[str]) -> str:
    """Versions of Python and of libraries, as text."""
    return ", ".join(
        [f"python {'.'.join(python_version().split('.')[:2])}", *(f"{name} {version(name)}" for name in libraries)]
    )


def digest(sources: Sources, nodes: Iterable[Node], texts: Iterable[str] = ()) -> str:
    """Fingerprint of definitions, the data files that they name, further texts, and the versions of libraries."""
    nodes = list(nodes)
    total = hashlib.sha256(sources.libraries.encode())
    total.update(b"".join(sorted(map(sources.print_of, nodes))))
    for text in sorted(texts):
        total.update(b"\0" + text.encode())
    for path in sorted(sources.files(nodes)):
        total.update(b"\0" + path.name.encode() + b"\0" + sources.data[path])
    return total.hexdigest()[:16]
