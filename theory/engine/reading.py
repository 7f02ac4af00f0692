"""Reading modules of claims so that a malformed statement is noted and the next ones are read.

A module is imported as usual.  Only where that fails is it read again, one statement after the other.

Belongs here: what happens when a module of a paper does not import.  Does not belong here: what a claim must have
(claim.py), which modules there are (paper.py).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from theory.engine.paper import HOME, OWN, Paper
from theory.engine.problem import Problem, problem


class Reader(SourceFileLoader):
    """Loads a module and goes on behind each statement that fails."""

    def __init__(self, name: str, path: str, folder: Path, paper: str, front: Finder):
        super().__init__(name, path)
        self.folder, self.paper, self.note, self.forget = folder, paper, front.note, front.forget

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        head = dict(vars(module))
        self.forget(module.__name__)
        try:
            super().exec_module(module)
        except Exception:
            vars(module).clear()
            vars(module).update(head)
            self.forget(module.__name__)
            self.read_on(module)

    def read_on(self, module: ModuleType) -> None:
        """Run the module's statements one by one."""
        lost: dict[str, int] = {}

        def failed(error: Exception) -> None:
            self.note(problem(self.paper, error, self.path, self.folder, lost))

        try:
            statements = ast.parse(self.get_data(self.path), self.path).body
        except (SyntaxError, ValueError) as error:
            failed(error)
            return
        future = [s for s in statements if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
        for statement in statements:
            try:
                exec(compile(ast.Module([*future, statement], []), self.path, "exec", dont_inherit=True), vars(module))
            except Exception as error:  # the next ones are read all the same
                failed(error)
                lost |= dict.fromkeys(_made_by(statement), statement.lineno)


def _made_by(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement gives a meaning."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((a.asname or a.name).split(".")[0] for a in statement.names)
    elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


class Finder:
    """Finds modules of papers for `Reader`; the rest is left to Python's own finders."""

    def __init__(self, papers: Sequence[Paper], note: Callable[[Problem], None], forget: Callable[[str], None]):
        self.homes = [(p.package + ".", p.folder, p.key) for p in papers] + [(OWN + ".", HOME, "papers")]
        self.note, self.forget = note, forget

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As finders of ``sys.meta_path`` do."""
        home = next((h for h in self.homes if name.startswith(h[0])), None)
        spec = PathFinder.find_spec(name, path, target) if home else None
        if home and spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Reader(name, spec.loader.path, home[1], home[2], self)
        return spec


@contextmanager
def tolerant(papers: Sequence[Paper], note: Callable[[Problem], None], forget: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, modules of papers are read by `Reader`.

    `note` is told of each problem; `forget` is told the name of a module before that is read from its beginning.
    """
    finder = Finder(papers, note, forget)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


__all__ = ["tolerant"]
