"""Many mutants in forks of one session: imports and the collection of tests are paid once, a mutant costs its tests alone.

    tried(trials, ...)          each mutant's tests, up to the first that fails, its code in the place of the function's
    swapped(file, texts, ...)   the functions of an imported file get the code and defaults that a changed text has for them

Belongs here: changing code of a process that runs.  Does not belong here: trees and forks (warm.py), what a mutant is and
which tests it gets (mutants.py).  What code has done before the swap, as at import, and other processes stay as they were:
tests of such, and mutants that cannot be swapped, need a tree of their own.
"""

import ast
import gc
import inspect
import math
import signal
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import warm
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

UNFIT = 98  # exit status: this change needs a tree of its own
CUT = 96  # tests were left when the budget was spent
HOLLOW = 97  # the test that failed fails without the mutant, too


@dataclass(frozen=True)
class Trial:
    """A mutant's name, its file, the text of the file before and after, its tests in order, each with processor seconds.

    They are those after which a test is taken to spin; a mutant that hangs costs those of one test, not of all.  Once all
    tests have used `budget`, no other begins.
    """

    name: str
    file: str
    before: str
    after: str
    tests: Mapping[str, float]
    stale: Iterable[str] = ()
    budget: float = math.inf


# --- code in the place of code --------------------------------------------------------------------------------------------


class Live:
    """The functions of this process by file, name and line, and its kernels; looked for once, before the collector rests."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str, int], list[types.FunctionType]] = defaultdict(list)
        self.kernels: list[Dispatcher] = []
        for found in gc.get_objects():
            if type(found) is types.FunctionType:
                code = found.__code__
                self.functions[code.co_filename, code.co_qualname, code.co_firstlineno].append(found)
            elif isinstance(found, Dispatcher):
                self.kernels.append(found)


def swapped(path: Path, before: str, after: str, live: Live, stale: Iterable[str | Path] = ()) -> bool:
    """Whether all functions of `path` whose code or defaults differ between two texts now have those of the second.

    Kernels of it and of the files `stale` are compiled anew, if none is compiled yet.
    """
    if changed := _changed_defaults(before, after):
        return _with_defaults(path, changed, live)
    one, two = (compile(text, str(path), "exec", dont_inherit=True) for text in (before, after))
    pairs = list(_changed(one, two))
    found = [(f, new) for old, new in pairs
             for f in live.functions.get((str(path), old.co_qualname, old.co_firstlineno), ())]  # fmt: skip
    outermost = {old.co_qualname for old, _ in pairs if "<locals>" not in old.co_qualname}
    if not pairs or {f.__code__.co_qualname for f, _ in found} < outermost:
        return False
    files = {str(path), *map(str, stale)}
    kernels = [k for k in live.kernels if k.py_func.__code__.co_filename in files]
    if any(f is k.py_func for f, _ in found for k in kernels):
        if any(k.overloads for k in kernels):
            return False
        for k in kernels:
            k._cache = NullCache()
    for f, new in found:
        if len(f.__code__.co_freevars) != len(new.co_freevars):
            return False
        f.__code__ = new
    return True


Function = tuple[str, int]
"""The qualified name of a function and its first line, a decorator's where it has one, as its code object knows them."""


def _defaults(text: str) -> dict[Function, ast.arguments]:
    """The arguments of the functions of a text."""
    found: dict[Function, ast.arguments] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{prefix}{child.name}."
            if isinstance(child, ast.FunctionDef):
                found[prefix + child.name, min([child, *child.decorator_list], key=lambda n: n.lineno).lineno] = child.args
                inside += "<locals>."
            visit(child, inside)

    visit(ast.parse(text), "")
    return found


def _changed_defaults(before: str, after: str) -> list[tuple[Function, ast.arguments]]:
    """The functions of which the second text has other defaults, and its arguments of them."""
    one, two = _defaults(before), _defaults(after)

    def given(a: ast.arguments) -> list[str]:
        return [ast.dump(d) for d in (*a.defaults, *filter(None, a.kw_defaults))]

    return [(f, two[f]) for f in one if f in two and given(one[f]) != given(two[f])]


def _with_defaults(path: Path, changed: list[tuple[Function, ast.arguments]], live: Live) -> bool:
    """Whether the functions of `path` now have these defaults; never of a kernel or of a function made when another runs."""
    kernels = [k.py_func for k in live.kernels]
    for (name, line), arguments in changed:
        found = [f for f in live.functions.get((str(path), name, line), ()) if all(f is not k for k in kernels)]
        if not found or "<locals>" in name:
            return False
        for f in found:

            def value(node: ast.expr, f: types.FunctionType = f) -> Any:
                return eval(compile(ast.fix_missing_locations(ast.Expression(node)), str(path), "eval"), f.__globals__)

            pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            try:
                given = tuple(map(value, arguments.defaults)), {a.arg: value(d) for a, d in pairs if d is not None}
            except NameError:  # of the class around a method
                return False
            f.__defaults__, f.__kwdefaults__ = given[0] or None, given[1] or None
    return True


def _changed(one: types.CodeType, two: types.CodeType) -> Iterator[tuple[types.CodeType, types.CodeType]]:
    """Functions, inner ones too, whose code differs; ValueError where what is around them does."""
    inner = [[c for c in code.co_consts if isinstance(c, types.CodeType)] for code in (one, two)]
    if len(inner[0]) != len(inner[1]) or [c.co_qualname for c in inner[0]] != [c.co_qualname for c in inner[1]]:
        return
    is_function = bool(one.co_flags & inspect.CO_OPTIMIZED)
    if is_function and not _same(one, two):
        yield one, two
    for pair in zip(*inner, strict=True):
        yield from _changed(*pair)


def _same(one: types.CodeType, two: types.CodeType) -> bool:
    """Whether code does the same, wherever its lines are."""
    if len(one.co_consts) != len(two.co_consts):
        return False
    for a, b in zip(one.co_consts, two.co_consts, strict=True):
        if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
            if not _same(a, b):
                return False
        elif type(a) is not type(b) or repr(a) != repr(b):
            return False
    return (one.co_code, one.co_names, one.co_varnames) == (two.co_code, two.co_names, two.co_varnames)


# --- one session ----------------------------------------------------------------------------------------------------------


Told = Callable[[str, int, float, str], None]
"""What is done with the end of a trial: its name, status, processor seconds, and the test that failed."""


class Session:
    """A plugin of pytest that, once the tests are collected, runs every trial in a fork.

    The test that ends a mutant is run once without it: what fails then, too, is HOLLOW and kills nothing, and one that then
    spins as well has only been given too little time.
    """

    def __init__(self, home: Path, trials: Sequence[Trial], at_once: int, told: Told):
        self.home, self.trials, self.at_once, self.told = home, trials, at_once, told
        self.failed = ""
        self.without: dict[tuple[str, float], int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The first test that fails ends the fork."""
        if report.failed:
            self.failed = self.failed or report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's loop over tests."""
        self.items = session.items
        self.live = Live()
        gc.freeze()
        killers = self.home / "killers"
        killers.mkdir()
        jobs = [(str(i), partial(self.one, t, killers / str(i)), sum(t.tests.values())) for i, t in enumerate(self.trials)]
        for i, status, used in warm.run(jobs, self.at_once, warm.FAREWELL / 4):
            by = (killers / i).read_text() if (killers / i).is_file() else ""
            trial = self.trials[int(i)]
            self.told(trial.name, self.checked(trial, by, status) if by else status, used, by)
        return True

    def checked(self, trial: Trial, test: str, status: int) -> int:
        """The status of a trial that a test has ended, if the test passes where nothing is mutated."""
        names = test, test.split("[")[0], test.split("::")[0]
        allowed = max(trial.tests.get(name, 0.0) for name in names)
        if trial.after == trial.before or not allowed:
            return status
        if (test, allowed) not in self.without:
            control = replace(trial, after=trial.before, tests={test: allowed})
            job = partial(self.one, control, self.home / "killers" / "control")
            [(_, self.without[test, allowed], _)] = warm.run([("control", job, allowed)], 1)
        alone = self.without[test, allowed]
        return status if not alone else -signal.SIGKILL if alone == -signal.SIGXCPU else HOLLOW

    def one(self, trial: Trial, killer: Path, _: Path) -> int:
        """The status of the tests of a mutant, in this process."""
        stale = [self.home / f for f in trial.stale]
        if trial.after != trial.before and not swapped(self.home / trial.file, trial.before, trial.after, self.live, stale):
            return UNFIT
        chosen: list[Any] = warm.cases(self.items, trial.tests)
        until = time.process_time() + trial.budget
        for (item, name), (following, _name) in pairwise([*chosen, (None, "")]):
            if time.process_time() > until:
                killer.unlink(missing_ok=True)
                return CUT
            killer.write_text(item.nodeid)  # where a signal ends it
            warm.allow(trial.tests[name])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                killer.write_text(self.failed)
                return 1
        killer.unlink(missing_ok=True)
        return 0


def tried(trials: Sequence[Trial], at_once: int, told: Told, home: Path) -> int:
    """pytest's status of a session that tries mutants in a tree that holds none, and tells how each ended."""
    warm.tree(home, {})
    warm.enter(home, home / "log.txt")
    files = sorted({test.split("::")[0] for t in trials for test in t.tests})
    return warm.run_tests(home, files, None, Session(home, trials, at_once, told))


__all__ = ["CUT", "HOLLOW", "UNFIT", "Live", "Session", "Trial", "swapped", "tried"]
