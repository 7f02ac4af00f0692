"""How many slips of code in `estimators` the tests notice: a fresh sample of mutants, each against the tests that reach it.

    python tests/mutants.py --seed 7 --count 300 [--jobs 2] [--under estimators/private ...]

A mutant is one changed operator, comparison, number or sign in the body of one function, or in a default of its arguments.
It is killed when one of the tests that enter the function, or a function that calls it, fails, or spins far beyond its usual
processor time, and does neither without the mutant.  One that has passed those of its tests for which there was time, while
others were left, is cut short and not decided: it has not survived what it was not asked.  Mutants that compute the same
stand in `equivalent_mutants.txt`, with the reason why.  Fates are kept in build/mutants, so that a run that was stopped goes
on, one after new tests tries the survivors only; tests that killed in a file come first.

Most run in forks of one session (swaps.py); what runs at import or in other processes gets a tree of its own.

With --nearest, nobody notes first what each test enters, which takes an hour for all of `estimators`: each mutant is asked
its doctests and the few files of tests that speak most of it, within --wide seconds; the share killed is a lower bound.

With --under, only that room or file is sampled, and only its room's tests and all doctests are asked, whatever earlier runs
have noted of others: a count of a room is a lower bound, and the same for everybody.  With a large --count it is each mutant
of a file, by --nearest files of tests: so a module is gone through.

Belongs here: sampling, choosing tests, counting.  Does not belong here: processes (warm.py), mutants of formulas
(theory.engine.mutants).
"""

import argparse
import ast
import hashlib
import json
import math
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate, count
from pathlib import Path

import pytest
import swaps
import warm
from scipy.stats import binomtest

ROOT = warm.ROOT
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
FATES = ROOT / "build" / "mutants"
DEAD = ("killed", "timeout")
UNDECIDED = ("stuck", "partly", "cut short", "not run")
LEVELS = 5  # of callers that are asked for tests where none is known to enter a function
QUICK, QUICK_FILES, WIDE = 10.0, 8, 90.0  # processor seconds of the first tests of a mutant, their files, and the rest
SLACK, SPARE, KERNEL = 3, 10, 180  # a hang: so many times the usual seconds, and these besides; with kernels to compile
DEAR = 90.0  # processor seconds of a test that is not asked at all: mutants that pass all others are not decided
SECONDS = 900  # of one mutant, all told
GUESS = 3.0  # processor seconds that a test is taken to need of which they are not known
SHORT, ROOM = 3, 5  # letters of names that say too little to look for; how much more a file of the same room says
NOTHING = {"entered": (), "tests": {}}  # noted of a file of tests
AWAY = re.compile(r"subprocess|multiprocessing|get_context|workers|same_bits")  # words of tests that may see other processes
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
         ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
         ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the function, the text before and after, and the whole file with it.

    Where functions of this name hold the text in several places, those after the first have the place's number.
    """

    file: str
    function: str
    before: str
    after: str
    source: str
    line: int = 0
    number: int = 1

    @property
    def key(self):
        """What the change makes of the file, and the file as it was, for what is kept between runs."""
        return hashlib.sha256(f"{self.file}\0{self.source}".encode()).hexdigest()[:16]

    def __str__(self):
        place = f" #{self.number}" if self.number > 1 else ""
        return f"{self.file}::{self.function}: {self.before} -> {self.after}{place}"


def _changes(node):
    """What a node may become."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield type(node)(**{**_fields(node), "op": SWAPS[type(node.op)]()})
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value + 1 != node.value:
        yield ast.Constant(node.value + 1)


def _fields(node):
    return dict(ast.iter_fields(node))


def _body(function):
    """The nodes that run when a function does, and its defaults: no docstring, decorators, or annotations."""
    waiting = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    waiting += [d for d in (*function.args.defaults, *function.args.kw_defaults) if d is not None]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Raise | ast.JoinedStr):  # what an error says
            continue
        yield node
        waiting += [c for name, x in ast.iter_fields(node) if name not in ("annotation", "returns", "decorator_list")
                    for c in (x if isinstance(x, list) else [x]) if isinstance(c, ast.AST)]  # fmt: skip


def _functions(tree):
    """Functions with the names that tests know them by: what a class does by itself is known by the class's name."""
    special = {f: c.name for c in ast.walk(tree) if isinstance(c, ast.ClassDef)
               for f in c.body if isinstance(f, ast.FunctionDef) and f.name.startswith("__")}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield special.get(node, node.name), node


def every_place(root=ROOT):
    """Every change that can be made: (path, name of the function, node, what it becomes, whether it is compiled, number)."""
    for path in sorted((root / "estimators").rglob("*.py")):
        text, found = path.read_bytes(), {}
        for name, function in _functions(ast.parse(text)):
            for node in _body(function):
                if hasattr(node, "end_col_offset"):  # of a function in a function, which comes by itself, the first counts
                    found.setdefault(_place(node), (name, node, warm.compiled(function)))
        numbers = _numbered(text, {place: name for place, (name, _, _) in found.items()})
        for place, (name, node, kernel) in found.items():
            yield from ((path, name, node, new, kernel, numbers[place]) for new in _changes(node))


def _place(node):
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, type(node).__name__


def _numbered(text, names):
    """For every place, the how-manieth it is of those that hold its text in functions of its name."""
    starts, count, numbers = _starts(text), Counter(), {}
    for place in sorted(names):
        one = (names[place], " ".join(text[_span(starts, place)].decode().split()))
        count[one] += 1
        numbers[place] = count[one]
    return numbers


def _starts(text):
    return list(accumulate(map(len, text.splitlines(keepends=True)), initial=0))


def _span(starts, place):
    """A place in the bytes of its file."""
    line, column, last, end, _ = place
    return slice(starts[line - 1] + column, starts[last - 1] + end)


def mutated(path, function, node, new, kernel=False, number=1, root=ROOT):
    """The mutant that a change makes."""
    file, text = path.relative_to(root).as_posix(), path.read_bytes()
    at = _span(_starts(text), _place(node))
    before, after = " ".join(text[at].decode().split()), f"({ast.unparse(ast.fix_missing_locations(new))})"
    changed = (text[: at.start] + after.encode() + text[at.stop :]).decode()
    return Mutant(file, function, before, after, changed, node.lineno, number)


def texts_of():
    """The text of every file of `estimators`."""
    paths = sorted((ROOT / "estimators").rglob("*.py"))
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in paths}


def callers(texts):
    """For every file::name of a function, those that may call it: they use the name and import from its file, or its room.

    A name alone is not enough: `direct` and `crossing` are several functions, whose tests know nothing of each other.
    """
    users, called_by = {}, {}
    functions = {file: list(_functions(ast.parse(text))) for file, text in texts.items()}
    for file, inside in functions.items():
        for caller, function in inside:
            for node in ast.walk(function):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
                if name:
                    users.setdefault(name, set()).add((file, caller))
    sees = {file: {g for g, text in texts.items() if g == file or imports(text, file)} for file in texts}
    for file, inside in functions.items():
        for name, _ in inside:
            called_by[f"{file}::{name}"] = {f"{g}::{c}" for g, c in users.get(name, ()) if g in sees[file]}
    blind = unwatched(texts)
    for key in [key for key in called_by if _file(key) in blind]:  # callers of callers, up to those that are seen
        edge = called_by[key]
        while edge := {c for k in edge if _file(k) in blind for c in called_by.get(k, ())} - called_by[key]:
            called_by[key] = called_by[key] | edge
    return called_by


def unwatched(texts):
    """The files with compiled functions, of which nobody sees what is entered."""
    return {file for file, text in texts.items() for _, f in _functions(ast.parse(text)) if warm.compiled(f)}


def imports(text, file):
    """Whether a text imports from a file, by its own name or by that of a room around it."""
    module = file.removesuffix(".py").replace("/", ".")
    rooms = [module.rsplit(".", k)[0] for k in range(1, module.count(".") + 1)]
    return module in text or any(f"from {room} import" in text for room in rooms)


def mapped():
    """The files of tests whose reach is noted: doctests of `estimators`, and the tests that are about what it computes."""
    files = [p.relative_to(ROOT).as_posix() for p in sorted(ROOT.glob("tests/**/test_*.py"))]
    about = ("tests/estimators/", "tests/theory/test_testing.py", "tests/figures/test_fit.py")
    files = [f for f in files if f.startswith(about)]
    return files + [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "estimators").rglob("*.py"))
                    if ">>> " in p.read_text(encoding="utf-8")]  # fmt: skip


def tests_of(mutant, reach, called_by, kernel, killers):
    """The tests that enter the mutated function, or use its name where a cache or a compiler hides that they do.

    `called_by` is what `callers` found; `kernel` says that nobody sees whether the function is entered.

    As (name, seconds): of its own module, its room, the quick ones first.

    Where none is known to, as of what Numba compiles or an import runs, those that enter its callers.  Before all come those
    that have killed mutants of the file, `killers`.
    """
    killed = killers.get(mutant.file, {})
    keys, found = {f"{mutant.file}::{mutant.function}"}, {}
    for level in range(LEVELS):
        names = {key.rpartition("::")[2] for key in keys}
        for known in reach.values():
            whole = not keys.isdisjoint(known["entered"])  # at import
            for test, (seconds, entered) in known["tests"].items():
                if whole or not keys.isdisjoint(entered):
                    found.setdefault(test, seconds)
        for file, known in reach.items() if kernel or not found or not level else ():
            said = naming(file, Path(mutant.file).stem)
            for test, (seconds, _) in known["tests"].items():
                if not names.isdisjoint(said.get(_name(test), ())):
                    found.setdefault(test, seconds)
        if found and not (kernel and not level):
            break
        keys = keys | {c for key in keys for c in called_by.get(key, ())}
    own = "/test_".join(mutant.file.replace("estimators/", "tests/estimators/", 1).rsplit("/", 1))
    room = f"tests/{mutant.file.rpartition('/')[0]}/"

    def near(test):
        file = _file(test)
        return (-killed.get(test, 0), file != mutant.file, file != own, not file.startswith(room), found[test], test)

    return [(t, found[t]) for t in spread(sorted(found, key=near), killed)]


def spread(tests, first):
    """Tests in their order, but of each function one case, and all of `first`, before others, which mostly ask the same."""
    turns, rank = Counter(), {}
    for test in tests:
        function = test.split("[")[0]
        rank[test] = 0 if test in first else turns[function]
        turns[function] += 1
    return sorted(tests, key=rank.__getitem__)


def names_near(mutant, called_by):
    """The names that a test of a mutant may speak: of its function, its class, and callers up to two levels away."""
    keys = [f"{mutant.file}::{mutant.function}"]
    for _ in range(2):
        keys += [c for key in keys for c in sorted(called_by.get(key, ())) if c not in keys]
    classes = (n for n in ast.walk(ast.parse(mutant.source)) if isinstance(n, ast.ClassDef))
    around = {c.name for c in classes if c.lineno <= mutant.line <= c.end_lineno}
    return around | {name for key in keys if len(name := key.rpartition("::")[2]) > SHORT}


def nearest(mutant, names, most):
    """The files whose tests are asked where nobody has noted what tests enter: those that speak most of a mutant.

    Its own doctests, and `most` files of tests by how often they use the names near it, or that of its module; those of its
    room first.
    """
    stem, room = Path(mutant.file).stem, f"/{mutant.file.split('/')[1]}/"
    votes = {}
    for file, words in spoken().items():
        count = 1000 * file.endswith(f"/test_{stem}.py") + 10 * words[stem] + sum(words[name] for name in names)
        votes[file] = count * (ROOM if room in file else 1)
    best = sorted((f for f in votes if votes[f]), key=lambda f: (-votes[f], f))[:most]
    return [mutant.file] * (">>> " in mutant.source) + best


def guessed(sample, called_by, most):
    """The plans of mutants for which nobody has noted what tests enter: by functions of tests, with all their cases."""
    plans = {}
    for k, m in sample.items():
        names = names_near(m, called_by)
        tests = [t for f in nearest(m, names, most) for t in near_first(f, names)]
        tests.sort(key=lambda x: x[0])
        plans[k] = [([t for _, t in tests], GUESS * len(tests))] if tests else []
    return plans


def near_first(file, names):
    """The tests of a file, without their cases, each with its turn: 0 if it uses a name, else one after the other.

    Of a module the file itself, for all its doctests.
    """
    if not file.startswith("tests/"):
        return [(0, file)]
    turns = count(1)
    return [(0 if words & names else next(turns), f"{file}::{test}") for test, words in words_of(file).items()]


@cache
def words_of(file):
    """The words in each test of a file, those in classes too."""
    text = (ROOT / file).read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        inside, start = (node.body, f"{node.name}::") if isinstance(node, ast.ClassDef) else ([node], "")
        for f in inside:
            if isinstance(f, ast.FunctionDef) and f.name.startswith("test"):
                found[start + f.name] = set(re.findall(r"\w+", "\n".join(lines[f.lineno - 1 : f.end_lineno])))
    return found


@cache
def spoken():
    """How often each word stands in each file of tests of `estimators`."""
    paths = sorted(ROOT.glob("tests/estimators/**/test_*.py"))
    return {p.relative_to(ROOT).as_posix(): Counter(re.findall(r"\w+", p.read_text(encoding="utf-8"))) for p in paths}


def _file(test):
    return test.split("::")[0]


def _name(test):
    return test.split("::")[-1].split("[")[0]


@cache
def naming(file, module):
    """The names that the tests of a file use, if it speaks of a module: a kernel that a test calls is entered unseen."""
    source = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
    if not file.startswith("tests/") or not re.search(rf"\b{module}\b", source):
        return {}
    tests = [f for f in ast.walk(ast.parse(source)) if isinstance(f, ast.FunctionDef)]
    return {f.name: {getattr(n, "id", getattr(n, "attr", None)) for n in ast.walk(f)} for f in tests}


def parted(plan, wide):
    """The quick tests of a plan, in few files, and the wider ones, within what a mutant may cost; how many are left out."""
    parts, spent, files, left_out = ([], []), [0.0, 0.0], set(), 0
    for test, seconds in plan:
        file = _file(test)
        quick = spent[0] + seconds <= QUICK and (file in files or len(files) < QUICK_FILES)
        if quick:
            files.add(file)
        if quick or spent[1] + seconds <= wide:
            parts[not quick].append(test)
            spent[not quick] += seconds
        else:
            left_out += 1
    return [(part, cost) for part, cost in zip(parts, spent, strict=True) if part], left_out


def importers(texts):
    """For every file of `estimators`, those that import it, directly or not."""
    direct = {}
    for f in texts:
        room, _, stem = f.removesuffix(".py").replace("/", ".").rpartition(".")
        named = re.compile(rf"\b{room}\.{stem}\b|from {room} import [^\n]*\b{stem}\b")
        direct[f] = {g for g, t in texts.items() if stem in t and room.rpartition(".")[2] in t and named.search(t)}
    found = {}
    for f in texts:
        edge = found[f] = {f}
        while edge := {h for g in edge for h in direct[g]} - found[f]:
            found[f] = found[f] | edge
    return found


class Budget:
    """A plugin of pytest that begins no test once so many processor seconds are used."""

    def __init__(self, seconds):
        self.until, self.cut = time.process_time() + seconds, False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if time.process_time() > self.until:
            self.cut = True
        return True if self.cut else None


def fate(mutant, parts, kernel, stale, budget, home):
    """pytest's status of the tests of a mutant, in a tree that holds it: the quick ones, then the wider ones."""
    warm.tree(home, {mutant.file: mutant.source} if mutant.source else {}, stale)
    warm.enter(home, home / "log.txt")
    status, limit = 0, Budget(budget + (KERNEL if kernel else SPARE))
    for part, seconds in parts:
        warm.allow(SLACK * seconds + (KERNEL if kernel else SPARE))
        status = warm.run_tests(home, list(dict.fromkeys(map(_file, part))), part, limit)
        if status:
            break
    return status or (swaps.CUT if limit.cut else 0)


def allowed(kernel, budget):
    """The processor seconds of a mutant, all told, one test after its budget included."""
    return min(SECONDS, budget + DEAR + (KERNEL if kernel else SPARE))


def ended(status):
    """What a status says of a mutant; a test that spins, and one that ends the process, are noticed, too.

    One that the clock has stopped may have waited for ever, or for a busy machine: it is tried again, and not dead.
    """
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "timeout" if status == -signal.SIGXCPU else "stuck"
    known = {0: "survived", 1: "killed", 2: "killed", 5: "survived", swaps.CUT: "cut short"}
    return "killed" if status < 0 else known.get(status, "broken")


def so_far(status, cut, more):
    """What a status says of a mutant of whose tests some are left out, `cut`, or to come, `more`; and whether it was cut.

    The tests that are still to come do not make up for those that were left out.
    """
    fate = ended(status)
    fate = "cut short" if fate == "survived" and cut else fate
    return "partly" if more and fate not in DEAD else fate, fate == "cut short"


def equivalents():
    """The mutants that compute the same, as they are printed."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.split("  # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def kept(path, tests, wide, fates=("survived", "broken", "cut short")):
    """The fates that earlier runs of the sample have written; of those alive only where none of its `tests` has changed."""
    lines = map(json.loads, path.read_text().splitlines()) if path.is_file() else ()
    same = (x for x in lines if x["fate"] in DEAD or (x["tests"] == tests.get(x["key"]) and x["wide"] >= wide))
    return {x["key"]: x for x in same if x["fate"] in (*DEAD, *fates)}


def asked(parts):
    """What tells that the tests of a mutant are the same: their names, and their files."""
    names = [t for part, _ in parts for t in part]
    return warm.digest(*(ROOT / f for f in sorted(set(map(_file, names)))), text="\n".join(names))


def afar(mutant, parts, reach):
    """The parts of a plan that must run in a tree of the mutant: tests that see other processes, or code run at import."""
    key = f"{mutant.file}::{mutant.function}"
    early = {t for part, _ in parts for t in part if _is_away(t) or key in reach.get(_file(t), NOTHING)["entered"]}
    return [(some, cost) for part, cost in parts if (some := [t for t in part if t in early])]


def trial(mutant, parts, elsewhere, imported_by, costs, budget):
    """The other tests, for one session, and the processor seconds after which each is taken to spin."""
    others = {t for part, _ in elsewhere for t in part if _is_away(t)}
    spare = KERNEL if imported_by else SPARE
    tests = {t: SLACK * costs[t] + spare for part, _ in parts for t in part if t not in others}
    before = (ROOT / mutant.file).read_text(encoding="utf-8")
    return swaps.Trial(mutant.key, mutant.file, before, mutant.source, tests, imported_by.get(mutant.file, ()), budget)


def killers_of(folder):
    """For every file of `estimators`, how many of its mutants each test has killed in earlier runs."""
    found = {}
    for path in folder.glob("*.jsonl"):
        for x in map(json.loads, path.read_text().splitlines()):
            if x.get("by"):
                found.setdefault(x["mutant"].split("::")[0], Counter())[x["by"]] += 1
    return found


@cache
def away(file):
    """The tests of a file that may look at what another process computes, where a swap of code is not seen."""
    source = (ROOT / file).read_text(encoding="utf-8")
    tests = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    return {n.name for n in tests if AWAY.search(ast.get_source_segment(source, n))}


def _is_away(test):
    return _name(test) in away(_file(test))


def main(arguments=None):
    """Sample, run, and print the fates and the share killed, with its exact 95 % interval."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--under", action="append", help="a folder or file that is sampled; else all of them")
    parser.add_argument("--wide", type=float, default=WIDE, help="seconds of wider tests that a survivor gets")
    parser.add_argument("--nearest", type=int, default=0, help="so many files of tests for each mutant, chosen "
                        "by what they speak of, where noting first what every test enters takes too long")  # fmt: skip
    parser.add_argument("--dear", type=float, default=DEAR, help="seconds of a test beyond which no mutant gets it")
    parser.add_argument("--controls", type=int, default=3, help="places left as they are, whose tests must pass")
    parser.add_argument("--list", action="store_true", help="the sample and its tests, without running them")
    a = parser.parse_args(arguments)
    rooms = [room if room.endswith(".py") else f"{room.rstrip('/')}/" for room in a.under or ("estimators",)]
    everyone = [place for place in every_place() if place[0].relative_to(ROOT).as_posix().startswith(tuple(rooms))]
    places = random.Random(a.seed).sample(everyone, min(a.count, len(everyone)))
    sample = {m.key: m for m in (mutated(*place) for place in places)}
    kernels = {m.key for m, (_, _, _, _, kernel, _) in zip(sample.values(), places, strict=True) if kernel}
    warm.preload()
    needed = ("", "estimators/", *(f"tests/{room[: room.rindex('/') + 1]}" for room in rooms))[bool(a.under) :]
    files = [f for f in mapped() if f.startswith(needed)]
    texts = texts_of()
    called_by, imported_by = callers(texts), importers(texts)
    if a.nearest:
        reach, left_out, plans = {}, dict.fromkeys(sample, 0), guessed(sample, called_by, a.nearest)
    else:
        reach = warm.reach(files, needed, a.jobs, a.dear)
        killers, blind = killers_of(FATES), unwatched(texts)
        planned = {k: parted(tests_of(m, reach, called_by, m.file in blind, killers), a.wide) for k, m in sample.items()}
        plans, left_out = ({k: x[i] for k, x in planned.items()} for i in (0, 1))
    print(f"{len(sample)} of {len(everyone)} mutants, seed {a.seed}", flush=True)
    if a.list:
        print("\n".join(f"{m}  [{', '.join(f'{len(t)} tests, {s:.0f} s' for t, s in plans[k])}]" for k, m in sample.items()))
        return 0
    path, tests = FATES / f"{a.seed}.jsonl", {k: asked(parts) for k, parts in plans.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    screen = os.dup(1)  # where a session can say something; its own output is its log

    def keep(name, status, seconds, by="", more=False, cut=False):
        """Write how a mutant ended; with `more`, unless it is dead, it has tests left; with `cut` some were left before."""
        fate, cut = so_far(status, bool(left_out[name]) or cut, more)
        known = {"key": name, "mutant": str(sample[name]), "fate": fate, "seconds": round(seconds, 1), "by": by, "cut": cut}
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(known | {"tests": tests[name], "wide": a.wide}) + "\n")
        if fate not in (*DEAD, "partly"):
            print(f"{fate:10} {sample[name]}", flush=True)

    same, budget = equivalents(), a.wide if a.nearest else math.inf  # those that compute the same are not run
    known = kept(path, tests, a.wide)
    left = {k: parts for k, parts in plans.items() if k not in known and parts and str(sample[k]) not in same}
    elsewhere = {k: afar(sample[k], parts, reach) for k, parts in left.items()}
    costs = {t: GUESS for parts in plans.values() for part, _ in parts for t in part}
    costs |= {t: seconds for known in reach.values() for t, (seconds, _) in known["tests"].items()}
    try:
        if trials := [
            trial(sample[k], parts, elsewhere[k], imported_by if k in kernels else {}, costs, budget)
            for k, parts in left.items()
        ]:
            trials = [t for t in trials if t.tests]
            controls = [replace(t, name=f"control {t.name}", after=t.before, tests=dict(list(t.tests.items())[:20]))
                        for t in trials[: a.controls]]  # fmt: skip

            def tell(name, status, seconds, by):
                if name.startswith("control "):
                    # One that has only been given too little time would kill no mutant: the session asks it again without.
                    if status not in (0, swaps.CUT, -signal.SIGXCPU):
                        os.write(screen, f"without a mutant {by} ends with {status}\n".encode())
                        os._exit(1)
                elif status not in (swaps.UNFIT, swaps.HOLLOW):  # which are asked again, in trees of their own
                    keep(name, status, seconds, by, bool(elsewhere[name]))

            # At the end too: what a session has gathered, as a warning of its own, must not be what fails a mutant's tests.
            session = partial(swaps.tried, [*controls, *trials, *controls], a.jobs, tell)
            told_before = path.read_text() if path.is_file() else ""
            for _, status, _ in warm.run([("session", session, SECONDS * len(trials))], 1):
                if status:
                    print(f"the session ended with {status}: what it told is not kept", flush=True)
                    path.write_text(told_before)
                    return 1
        known = kept(path, tests, a.wide)
        halfway = kept(path, tests, a.wide, ("partly",))
        left = {k: elsewhere[k] if k in halfway else parts for k, parts in left.items() if k not in known}
        stale = {k: imported_by[sample[k].file] if k in kernels else () for k in left}
        jobs = [(k, partial(fate, sample[k], parts, k in kernels, stale[k], budget), allowed(k in kernels, budget))
                for k, parts in left.items()]  # fmt: skip
        for name, status, seconds in warm.run(jobs, a.jobs):
            keep(name, status, seconds, cut=name in halfway and halfway[name].get("cut", True))
    except KeyboardInterrupt:
        print("stopped; what was tried is kept, and this command goes on", flush=True)
    known = kept(path, tests, a.wide, ("survived", "broken", *UNDECIDED))
    return told(sample, known, {k for k, parts in plans.items() if parts})


def told(sample, known, reached):
    """Print those that are not dead, and the share killed; the exit status.

    Undecided ones, of whose tests some have not ended or not begun, are counted in the one share as alive, and left out of
    the other; no test enters those that are not `reached`.
    """
    same, fates = equivalents(), Counter()
    for key, m in sample.items():
        end = known[key]["fate"] if key in known else "not run" if key in reached else "unreached"
        end = "equivalent" if end not in (*DEAD, "broken") and str(m) in same else end
        fates[end] += 1
        if end not in DEAD:
            print(f"{end:10} {m}  (line {m.line})")
    killed = sum(fates[end] for end in DEAD)
    decided = killed + fates["survived"] + fates["unreached"]
    judged = decided + sum(fates[end] for end in UNDECIDED)
    for whole, what in ((judged, "undecided ones count as alive"), (decided, "of those decided")):
        if whole:
            low, high = binomtest(killed, whole).proportion_ci(method="exact")
            print(f"{killed} of {whole} killed: {killed / whole:.1%}, 95 % interval {low:.1%} to {high:.1%}; {what}")
    print(dict(fates))
    return int(bool(fates["broken"]))


if __name__ == "__main__":
    sys.exit(main())
