"""A warm process that forks once per set of tests: the imports are paid once, and a changed tree is seen by its fork alone.

    tree(home, ...)   a copy of the repository, files of `estimators` and all compiled code included, with changed texts
    run(jobs, ...)    every job in a fork of its own, within its processor time; yields how each ended
    reach(...)        which functions of `estimators` each test enters and how long it takes, kept in build/reach.json

Belongs here: trees, forks, time, the map from tests to functions.  Does not belong here: what a mutant is (mutants.py).
"""

import ast
import builtins
import compileall
import contextlib
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
REACH = ROOT / "build" / "reach.json"
LINKED = ("theory", "figures", "notebooks", "borrow.py", "pyproject.toml", "README.md", "Makefile", "constraints.txt")
# What takes long to import and never changes; no jax, whose threads do not survive a fork.
PRELOADED = ("numpy", "scipy.integrate", "scipy.linalg", "scipy.optimize", "scipy.special", "scipy.stats", "scipy.stats.qmc",
             "numba", "sympy", "hypothesis.strategies", "hypothesis.extra.numpy", "tqdm", "jinja2")  # fmt: skip
COMPILED = ("jit", "vectorize", "overload", "register_jitable", "intrinsic", "cfunc")  # decorators of numba and jax
QUIET = ("-q", "-m", "not slow and not nightly", "--benchmark-disable", "-p", "no:cacheprovider", "-p", "no:xdist",
         "-W", "ignore::pytest.PytestAssertRewriteWarning")  # fmt: skip
MEMORY = 12 << 30  # bytes of address space: a mutant that asks for everything must not stop the machine
PATIENCE = 60  # times its processor time that a job may last, on a machine that others use too
IDLE = 60  # seconds in which a job and its processes may use no processor at all
TOGETHER = 2  # times the processor time of a job that all its processes may use
FAREWELL = 10.0  # seconds in which a job that is stopped may stop those of its own
NEVER = 1e9  # processor seconds of a test that was stopped
BROKEN = 99  # exit status of a job that ended by an error of its own


# --- trees ----------------------------------------------------------------------------------------------------------------


def tree(home: Path, changes: Mapping[str, str], stale: Iterable[str] = ()) -> None:
    """The repository in `home` with the files of `changes` changed; kernels of the files `stale` are compiled anew."""
    for name in LINKED:
        (home / name).symlink_to(ROOT / name)
    for name in ("estimators", "tests"):  # with their times, by which Python and Numba know that what they compiled is good
        shutil.copytree(ROOT / name, home / name)
    for name, text in changes.items():
        (home / name).unlink()
        (home / name).write_text(text, encoding="utf-8")
    for name in stale:
        path = home / name
        for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"):
            kept.unlink()


# --- forks ----------------------------------------------------------------------------------------------------------------


def preload() -> None:
    """Import what every fork needs, and compile what every tree takes along."""
    for name in ("estimators", "tests"):
        compileall.compile_dir(ROOT / name, quiet=1)
    for name in PRELOADED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def enter(home: Path, log: Path) -> None:
    """Make this process one that works in a tree, quietly."""
    os.chdir(home)
    sys.path[:] = [str(home), *(p for p in sys.path if p not in ("", str(ROOT), str(ROOT / "tests")))]
    os.environ |= {"PYTHONPATH": str(home), "MPLBACKEND": "Agg"}
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)


Job = tuple[str, Callable[[Path], int], float]
"""A name, what to do in an empty folder, and the processor seconds that it may use."""


def run(jobs: Iterable[Job], at_once: int, farewell: float = FAREWELL) -> Iterator[tuple[str, int, float]]:
    """Each job in a fork: its name, exit status and processor seconds, in the order in which they end.

    The status is what the job returns, or minus the signal that ended it: SIGXCPU where its processor time was up, SIGKILL
    where it only waited, for what never comes or on a machine too busy for it, or where all that it starts takes too long,
    as its tests may by themselves.  Jobs of a run that is stopped are interrupted, and killed after `farewell` seconds: a
    job's own jobs must have fewer.
    """
    waiting, running, more = iter(jobs), {}, True
    moved: dict[int, tuple[float, float]] = {}  # the processor time of each job, and since when it stands
    look = 0.0
    try:
        while more or running:
            while more and len(running) < at_once:
                job = next(waiting, None)
                if more := job is not None:
                    home = tempfile.TemporaryDirectory()
                    pid = os.fork()
                    if not pid:
                        _work(job, Path(home.name))
                    running[pid] = (job, home, time.monotonic() + PATIENCE * job[2])
                    moved[pid] = (0.0, time.monotonic())
            if time.monotonic() > look:
                look = time.monotonic() + IDLE / 10
                moved = {pid: (now, moved[pid][1] if now == moved[pid][0] else time.monotonic())
                         for pid in running for now in [together(pid)]}  # fmt: skip
            for pid, ((name, _, seconds), home, until) in list(running.items()):
                if moved[pid][0] > TOGETHER * seconds or time.monotonic() > min(until, moved[pid][1] + IDLE):
                    os.kill(pid, signal.SIGKILL)
                done, status, used = os.wait4(pid, os.WNOHANG)
                if done:
                    del running[pid]
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)  # processes that a test has left
                    home.cleanup()
                    yield name, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
            time.sleep(0.05)
    finally:
        for pid in running:  # of a run that is stopped; those that have jobs of their own stop these
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGINT)
        last = time.monotonic() + farewell
        for pid, (_, home, _) in running.items():
            while not (ended := os.waitpid(pid, os.WNOHANG)[0]) and time.monotonic() < last:
                time.sleep(0.05)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if not ended:
                os.waitpid(pid, 0)
            home.cleanup()


def together(group: int) -> float:
    """The processor seconds that the processes of a group, and those they have waited for, have used."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            found += sum(map(int, fields[11:15])) if int(fields[2]) == group else 0
    return found / os.sysconf("SC_CLK_TCK")


def _work(job: Job, home: Path) -> NoReturn:
    status = BROKEN
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        allow(job[2])
        status = job[1](home)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def allow(seconds: float) -> None:
    """Let this process use so much processor time from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


def cases(items: Iterable[pytest.Item], names: Iterable[str]) -> list[tuple[pytest.Item, str]]:
    """The tests of names, each with its name: a test, a function with all its cases, or a file, as of doctests.

    In the order of the names, but of each function one case before the others, which mostly ask the same.
    """
    by_name: dict[str, list[pytest.Item]] = {}
    for item in items:
        for name in {item.nodeid, item.nodeid.split("[")[0], item.nodeid.split("::")[0]}:
            by_name.setdefault(name, []).append(item)
    found = [(k * ("::" in name), item, name) for name in names for k, item in enumerate(by_name.get(name, ()))]
    return [(item, name) for _, item, name in sorted(found, key=lambda x: x[0])]


def run_tests(home: Path, files: Iterable[str], chosen: Sequence[str] | None, *plugins: Any, only: bool = False) -> int:
    """pytest's status for files of the tree; with `chosen`, for these tests in this order, up to the first that fails.

    With `only`, they are collected and not run.
    """

    class Choice:
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            if chosen is not None:
                items[:] = [item for item, _ in cases(items, chosen)]

    stop = [] if chosen is None else ["-x"]
    quiet = [*QUIET, *stop, "--continue-on-collection-errors", f"--rootdir={home}"]
    return int(pytest.main([*quiet, *files], plugins=[Choice(), *plugins]))


# --- what each test reaches -----------------------------------------------------------------------------------------------


def watched(path: str, source: str) -> str:
    """The source with a line at the start of every function that notes that it was entered; of no file with kernels."""
    parsed, places = ast.parse(source), []
    if any(isinstance(node, ast.FunctionDef) and compiled(node) for node in ast.walk(parsed)):
        return source  # as it is, so that what Numba has compiled stays good

    def visit(node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                name = owner if owner and child.name.startswith("__") else child.name
                first = child.body[1 if ast.get_docstring(child, clean=False) is not None and len(child.body) > 1 else 0]
                places.append((first, f"{path}::{name}"))
                visit(child, "")
            else:
                visit(child, child.name if isinstance(child, ast.ClassDef) else owner)

    visit(parsed, "")
    lines = source.encode().splitlines(keepends=True)
    for first, name in sorted(places, key=lambda p: (p[0].lineno, p[0].col_offset), reverse=True):
        row, column = min((d.lineno, d.col_offset - 1) for d in first.decorator_list) if getattr(
            first, "decorator_list", None) else (first.lineno, first.col_offset)  # fmt: skip
        line, note = lines[row - 1], f"__entered__.add({name!r})".encode()
        one_line = bool(line[:column].strip())  # a body behind its colon
        lines[row - 1] = line[:column] + note + (b"; " if one_line else b"\n" + b" " * column) + line[column:]
    return b"".join(lines).decode()


def compiled(function: ast.FunctionDef) -> bool:
    """Whether a function is compiled, so that what it enters cannot be noted."""
    return any(word in ast.unparse(d) for d in function.decorator_list for word in COMPILED)


def digest(*paths: Path, text: str = "") -> str:
    """Of the contents of files, and a text."""
    found = hashlib.sha256(text.encode())
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


class TooDearError(BaseException):
    """A test has used its seconds; nothing that a test or Hypothesis catches."""


def reach(files: Iterable[str], needed: tuple[str, ...], at_once: int, dear: float, seconds: float = 900) -> dict[str, dict]:
    """For each file: what importing it enters, and what each test that passes enters, with its processor seconds.

    A test that uses more than `dear` seconds, or waits for ten times as long, is stopped there: its seconds are NEVER.

    Kept, test by test, until its text changes: what it reaches is a guess at what is worth running, and no evidence. Files
    that are not kept are run if their names begin as one of `needed`, and else left out.
    """
    kept = _noted_before()
    keys = {f: digest(ROOT / f) for f in files}
    missing = [f for f in keys if kept.get(f, {}).get("key") != keys[f] and f.startswith(needed)]
    if missing:
        REACH.parent.mkdir(exist_ok=True)
        texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "estimators").rglob("*.py")}
        changes = {name: new for name, text in texts.items() if (new := watched(name, text)) != text}
        with tempfile.TemporaryDirectory() as folder:
            whole, found = Path(folder) / "tree", Path(folder) / "found"
            whole.mkdir()
            found.mkdir()
            tree(whole, changes)
            (whole / "sitecustomize.py").write_text("import builtins\n\nbuiltins.__entered__ = set()\n")  # of new processes
            jobs, groups = [], {}
            for files_of_one in grouped(missing):
                out = found / str(len(jobs))
                groups[str(out)] = files_of_one
                known = {f: still(kept.get(f, {}), f) for f in files_of_one}
                jobs.append((str(out), lambda _, known=known, out=out: _noted(whole, known, out, dear), seconds))
            for n, (out, status, used) in enumerate(run(jobs, at_once), 1):
                noted = json.loads(Path(out).read_text()) if Path(out).is_file() else {}
                kept |= _noted_before()  # by another run, of another room
                for f in groups[out]:
                    empty = {"entered": [], "tests": {}}
                    kept[f] = {"key": keys[f], "status": status, "sources": sources(f), **noted.get(f, empty)}
                half = REACH.with_suffix(f".{os.getpid()}")
                half.write_text(json.dumps({k: v for k, v in sorted(kept.items()) if (ROOT / k).is_file()}))
                half.replace(REACH)
                count = sum(len(kept[f]["tests"]) for f in groups[out])
                print(f"reach {n}/{len(jobs)}: {groups[out][0]}, {count} tests, {used:.0f} s, status {status}", flush=True)
            for path in (whole / "estimators").rglob("*.nb[ic]"):  # compiled once, for all that follows
                (ROOT / path.relative_to(whole)).parent.mkdir(exist_ok=True)
                shutil.copy2(path, ROOT / path.relative_to(whole))
    return {f: kept[f] for f in keys if kept.get(f, {}).get("key") == keys[f]}


def _noted_before() -> dict[str, dict]:
    return json.loads(REACH.read_text()) if REACH.is_file() else {}


def sources(file: str) -> dict[str, str]:
    """The digest of each function of a file of tests."""
    text = (ROOT / file).read_text(encoding="utf-8") if file.startswith("tests/") else ""
    return {f.name: digest(text=ast.dump(f)) for f in ast.walk(ast.parse(text)) if isinstance(f, ast.FunctionDef)}


def still(noted: dict[str, Any], file: str) -> dict[str, list]:
    """What is noted of the tests of a file that have the same text as then."""
    now, then = sources(file), noted.get("sources", {})
    same = {name for name in now if then.get(name) == now[name]}
    return {t: what for t, what in noted.get("tests", {}).items() if t.split("::")[-1].split("[")[0] in same}


def grouped(files: Iterable[str]) -> list[list[str]]:
    """Files whose tests are noted in one process: those of a test file alone, all doctests, which are small, together."""
    alone, together = [], []
    for f in files:
        (alone if f.startswith("tests/") else together).append(f)
    return [together] * bool(together) + [[f] for f in alone]


def _noted(home: Path, known: Mapping[str, dict[str, list]], out: Path, dear: float) -> int:
    """Run the tests of files in the watched tree, but for those known, and write, for each file, what they enter."""
    files = list(known)
    builtins.__entered__ = entered = set()
    enter(home, out.with_suffix(".log"))
    first: list[str] = []
    found: dict[str, list] = {}
    clocks = {signal.ITIMER_PROF: dear, signal.ITIMER_REAL: 10 * dear}

    def stop(*_: object) -> NoReturn:
        raise TooDearError

    for ring in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(ring, stop)

    class Notes:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            first[:] = sorted(entered)
            items[:] = [item for item in items if item.nodeid not in known[item.nodeid.split("::")[0]]]

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            entered.clear()
            start = sum(os.times()[:4])  # of its processes, too
            found[item.nodeid] = []
            result = yield
            found[item.nodeid] = [
                NEVER if item.nodeid in stopped else round(sum(os.times()[:4]) - start, 2),
                sorted(entered),
            ]
            return result

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
            for clock, limit in clocks.items():
                signal.setitimer(clock, limit)
            try:
                return (yield)
            except TooDearError:
                stopped.add(item.nodeid)
                raise
            finally:
                for clock in clocks:
                    signal.setitimer(clock, 0)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.outcome != "passed" and report.nodeid not in stopped:
                bad.add(report.nodeid)

    bad: set[str] = set()
    stopped: set[str] = set()
    status = run_tests(home, files, None, Notes())
    noted: dict[str, dict] = {f: {"entered": first, "tests": dict(known[f])} for f in files}
    for f in files[1:] and files:  # of several, what each runs of its own
        noted[f]["entered"] = [e for e in first if e.startswith(f"{f}::")]
    for name, what in found.items():
        if name not in bad:
            noted[name.split("::")[0]]["tests"][name] = what
    out.write_text(json.dumps(noted))
    return status


__all__ = ["ROOT", "allow", "cases", "compiled", "digest", "enter", "preload", "reach", "run", "run_tests", "tree"]
