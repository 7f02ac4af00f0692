"""What definitions can reach: functions, classes, constants and data files, found in the sources.

A name that stands in the text of a function, with everything that its definition names in turn, is what the function can
reach: callees (compiled ones too), constants, base classes, and files that lie beside a module and are named in it.  Nothing
is run, so the answer is the same for any order of running and any worker.  A docstring, a comment, a blank line, or a
definition that nobody names changes nothing; any other edit of what is reached does.  Methods of objects count with their
class; objects reach a function as an argument only if somebody names their class.

Belongs here: the index of sources, closures, fingerprints.  Does not belong here: what one file says (``outlines``), what is
done with closures (results of experiments in ``federated.experiments.provenance``; evidence on claims in theory).
"""

from __future__ import annotations

import ast
import functools
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from estimators.system.outlines import (
    FUNCTIONS,
    Definition,
    Lambda,
    Named,
    Node,
    Outline,
    Outlines,
    Piece,
    defined,
    inner_functions,
    key_of,
    lambdas_in,
    walk,
    without_docstrings,
)

__all__ = ["DATA", "FUNCTIONS", "Module", "Node", "Sources", "digest", "versions_text"]

DATA = (".csv", ".json", ".txt", ".npz")


def is_front(path: Path) -> bool:
    """Whether a file is a package's own, whose relative imports begin inside of it."""
    return path.name == "__init__.py"


class Module:
    """One source file, of which only what is asked for is read: its outline, or its syntax."""

    def __init__(self, name: str, path: Path, text: bytes, outlines: Outlines):
        self.name, self.path, self.is_package = name, path, is_front(path)
        self._text, self._outlines = text, outlines

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The syntax of the file."""
        try:
            return ast.parse(self._text)
        except SyntaxError:  # it defines nothing; the registry says what is malformed
            return ast.Module([], [])

    @functools.cached_property
    def outline(self) -> Outline:
        """What the file says."""
        return self._outlines.of(self.name, self._text, lambda: self.tree, self.is_package)

    @functools.cached_property
    def homes(self) -> dict[str, str]:
        """Where the names stand that a front loads at first use: the table may be in another file, so no outline has it."""
        return dict(_homes(self)) if self.is_package and b"attach(" in self._text else {}

    @functools.cached_property
    def definitions(self) -> dict[str, list[ast.stmt]]:
        """The statements of the file by the names that they define."""
        return defined(self.tree)

    @functools.cached_property
    def lambdas(self) -> list[ast.Lambda]:
        """All lambdas of the file."""
        return lambdas_in(self.tree)

    @functools.cached_property
    def inner(self) -> dict[tuple[int, str], ast.AST]:
        """The functions of the file that others hold, by first line and name."""
        return inner_functions(self.tree)


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
    statements = front.definitions.get(name)
    if statements is None:
        home = str(front.outline.imports[name][0]).rpartition(".")[2]
        statements = defined(ast.parse((front.path.parent / f"{home}.py").read_bytes()))[name]
    return next(s.value for s in statements if isinstance(s, ast.Assign))


class Modules(dict[str, Module]):
    """Modules by name, each read when it is first asked for."""

    def __init__(self, paths: Mapping[str, Path], outlines: Outlines):
        super().__init__()
        self._outlines = outlines
        # All texts at once and before anything is judged: what changes on the disk later is not what runs here.
        self.texts = {name: (path, path.read_bytes()) for name, path in paths.items()}

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __missing__(self, name: str) -> Module:
        path, text = self.texts[name]
        self[name] = Module(name, path, text, self._outlines)
        return self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The module, or `default` where it is none of ours."""
        return self[name] if name in self.texts else default


class Sources:
    """The modules of packages below some folders, and what their definitions reach; `tree` is a hash of all of it.

    `libraries` are the versions of what they rest on, as text; `outlines` is a file of outlines that are known already.
    """

    def __init__(self, folders: Mapping[str, Path], libraries: str = "", outlines: Path | None = None):
        paths, data = {}, {}
        for package, folder in folders.items():
            for path in sorted(folder.rglob("*.py")):
                parts = path.relative_to(folder).with_suffix("").parts
                paths[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
            data |= {path: path.read_bytes() for end in DATA for path in sorted(folder.rglob(f"*{end}"))}
        self._outlines = Outlines(outlines)
        self.modules = Modules(paths, self._outlines)
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

    def save_outlines(self) -> None:
        """Keep what was read of files for the next time."""
        self._outlines.save(key_of(name, text, is_front(path)) for name, (path, text) in self.modules.texts.items())

    # --- names

    def resolve(self, module: str, name: str) -> set[Node]:
        """Definitions that a name of a module stands for; none for names of libraries and builtins."""
        home = self.modules.get(module)
        if home is None:
            return set()
        if name in home.outline.definitions:
            return {(module, name)}
        if name in home.homes:
            return self.resolve(f"{module}.{home.homes[name]}", name)
        if name in home.outline.imports:
            target = home.outline.imports[name]
            return self.resolve(*target) if isinstance(target, tuple) else set()
        return set()

    def module_of(self, module: str, name: str, local: Mapping[str, Node | str]) -> str | None:
        """The module that a name stands for, if it is one of ours."""
        target = local.get(name) or (self.modules[module].outline.imports.get(name) if module in self.modules else None)
        if isinstance(target, tuple):
            source, part = target
            if f"{source}.{part}" in self.modules:
                return f"{source}.{part}"
            return self.module_of(source, part, {}) if source in self.modules and source != module else None
        return target if target in self.modules else None

    def named(self, module: str, piece: Named) -> set[Node]:
        """Definitions that a piece of a module's text names."""
        found: set[Node] = set()
        names = set(piece.names)
        for head, *chain in piece.chains:
            if (current := self.module_of(module, head, piece.local)) is not None:
                found |= self.follow(current, chain)
            else:
                names.add(head)
        for name in names:
            if (used := self.module_of(module, name, piece.local)) is not None:
                found |= {(used, n) for n in self.modules[used].outline.definitions}  # a module as a value
            elif name in piece.local:
                target = piece.local[name]
                found |= self.resolve(*target) if isinstance(target, tuple) else set()
            else:
                found |= self.resolve(module, name)
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
            for piece in self._definition(node).named:
                found |= self.named(node[0], piece)
            self._uses[node] = frozenset(found - {node})
        return self._uses[node]

    def strings(self, node: Node) -> frozenset[str]:
        """Texts of one line that stand in a definition."""
        if node not in self._strings:
            self._strings[node] = frozenset(self._definition(node).strings)
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
            self._prints[node] = bytes.fromhex(self._definition(node).digest)
        return self._prints[node]

    def _definition(self, node: Node) -> Definition:
        found = self.modules[node[0]].outline.definitions.get(node[1])
        return found or Definition(hashlib.sha256(f"{node[0]}:{node[1]}\0".encode()).hexdigest(), (), (), ())

    def at(self, module: str, code: types.CodeType) -> tuple[list[ast.AST], set[Node]]:
        """A compiled function of a module: the own text of a lambda or of one that another holds, or its definition."""
        home, (inner, lambdas, holders) = self.modules[module], self._place(module, code)
        return [*(home.inner[place] for place in inner), *(home.lambdas[n.number] for n in lambdas)], holders

    def pieces(self, module: str, code: types.CodeType) -> tuple[list[Piece], set[Node]]:
        """As `at`, in outline."""
        home, (inner, lambdas, holders) = self.modules[module].outline, self._place(module, code)
        return [*(home.inner[place] for place in inner), *(n.piece for n in lambdas)], holders

    def _place(self, module: str, code: types.CodeType) -> tuple[list[tuple[int, str]], list[Lambda], set[Node]]:
        """Where a compiled function stands: as a function that another holds, as a lambda, or in a definition."""
        home, line, name = self.modules[module].outline, code.co_firstlineno, code.co_name
        if (line, name) in home.inner:  # what it takes from the function around it are values, which its closure has
            return [(line, name)], [], set()
        if name == "<lambda>":
            found = [n for n in home.lambdas if n.first <= line <= n.last]
            places = {(first, column) for first, _, column, _ in code.co_positions()}
            exact = [n for n in found if n.body in places]
            # Of lambdas in each other the places of the outer one's code may hold the inner one's start: the widest is it.
            widest = sorted(exact, key=lambda n: (n.first, n.column))[:1]
            return [], widest or [n for n in found if n.first == line] or found, set()
        spans = ((key, span) for key, d in home.definitions.items() for span in d.lines)
        return [], [], {(module, key) for key, (first, last) in spans if first <= line <= last}


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
