"""How many slips of code in `estimators` the tests notice: a fresh sample of mutants, each against the tests that reach it.

    python tests/mutants.py --seed 7 --count 300 [--jobs 2]

A mutant is one changed operator, comparison, number or sign in the body of one function.  It is killed when one of the
tests that name the function, or a function that calls it, fails, or does not end.  Mutants that compute the same value
stand in `equivalent_mutants.txt`, with the reason why.

Belongs here: sampling, running, counting.  Does not belong here: mutants of formulas (theory.engine.mutants).
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
SECONDS = 300  # of the tests of one mutant; what runs longer is killed, as a test that hangs is noticed
MOST_FILES = 6  # of tests per mutant, those that name the function most often
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
         ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
         ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the file, the function, the text before and after, and the whole file with it."""

    file: str
    function: str
    before: str
    after: str
    source: str

    def __str__(self):
        return f"{self.file}::{self.function}: {self.before} -> {self.after}"


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
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)


def _fields(node):
    return dict(ast.iter_fields(node))


def _body(function):
    """The nodes that run when a function does: no docstring, decorators, annotations, or defaults."""
    waiting = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
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
    """Every change that can be made, file by file: (path, name of the function, node, what it becomes)."""
    for path in sorted((root / "estimators").rglob("*.py")):
        seen = set()
        for name, function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            for node in _body(function):
                if not hasattr(node, "end_col_offset") or (place := _place(node)) in seen:
                    continue  # of a function in a function, which comes by itself
                seen.add(place)
                yield from ((path, name, node, new) for new in _changes(node))


def _place(node):
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, type(node).__name__


def mutated(path, function, node, new, root=ROOT):
    """The mutant that a change makes."""
    file, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    before = ast.get_source_segment(source, node)
    after = f"({ast.unparse(ast.fix_missing_locations(new))})"
    lines = source.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text = source.encode()
    return Mutant(file, function, " ".join(before.split()), after, (text[:start] + after.encode() + text[end:]).decode())


def callers():
    """For every name of a function in `estimators`, the names that call it, directly or not, itself included."""
    called_by = {}
    for path in (ROOT / "estimators").rglob("*.py"):
        for caller, function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            for node in ast.walk(function):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
                if name:
                    called_by.setdefault(name, set()).add(caller)
    return called_by


def reaching(name, called_by, depth=3):
    """A function's name, and those of what calls it up to a depth."""
    found, edge = [name], {name}
    for _ in range(depth):
        edge = {c for n in edge for c in called_by.get(n, ())} - set(found)
        found += sorted(edge)
    return found


def tests_of(mutant, called_by, texts):
    """The module's doctests and its own test file, then the files that name the function or its callers, those of the same
    room and those that name them most often first."""
    own = mutant.file.replace("estimators/", "tests/estimators/", 1).replace(".py", "")
    own = "/test_".join(own.rsplit("/", 1)) + ".py"
    chosen = [own] if own in texts else []
    for name in reaching(mutant.function, called_by):
        counts = {f: len(re.findall(rf"\b{re.escape(name)}\b", text)) for f, text in texts.items()}
        chosen += [f for f in sorted(counts, key=lambda f: (-counts[f], f)) if counts[f] and f not in chosen]
    room = f"tests/{mutant.file.rpartition('/')[0]}/"
    chosen.sort(key=lambda f: not f.startswith(room))  # tests of the same room know the function best
    return [mutant.file, *chosen[:MOST_FILES]]


def fate(mutant, tests, python=sys.executable):
    """killed, survived (also where no test reaches it) or timeout; tests run in a copy of the tree that holds the mutant."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name in ("theory", "figures", "notebooks", "tests", "borrow.py", "pyproject.toml", "README.md"):
            (home / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "estimators", home / "estimators", ignore=shutil.ignore_patterns("__pycache__"))
        (home / mutant.file).write_text(mutant.source, encoding="utf-8")
        command = [python, "-m", "pytest", "-q", "-x", "-m", "not slow", "--benchmark-disable", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": folder, "NUMBA_CACHE_DIR": str(home / "cache")}
        try:
            done = subprocess.run([*command, *tests], cwd=home, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "timeout"
        return {0: "survived", 1: "killed", 2: "killed", 5: "survived"}.get(done.returncode, "broken")


def equivalents():
    """The mutants that compute the same, as they are printed."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.split("  # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def main(arguments=None):
    """Sample, run, and print the fates and the share killed, with its exact 95 % interval."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="the sample and its tests, without running them")
    a = parser.parse_args(arguments)
    everyone = list(every_place())
    sample = [mutated(*change) for change in random.Random(a.seed).sample(everyone, min(a.count, len(everyone)))]
    called_by = callers()
    files = [p for p in (ROOT / "tests").rglob("test_*.py") if "bench" not in p.parts]
    texts = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in files}
    plans = [(m, tests_of(m, called_by, texts)) for m in sample]
    print(f"{len(sample)} of {len(everyone)} mutants, seed {a.seed}")
    if a.list:
        print("\n".join(f"{m}  [{', '.join(t[1:])}]" for m, t in plans))
        return 0
    same, fates = equivalents(), Counter()
    with ThreadPoolExecutor(a.jobs) as pool:
        for (m, _), end in zip(plans, pool.map(lambda plan: fate(*plan), plans), strict=True):
            end = "equivalent" if end == "survived" and str(m) in same else end
            fates[end] += 1
            if end not in ("killed", "timeout"):
                print(f"{end:10} {m}", flush=True)
    killed = fates["killed"] + fates["timeout"]
    judged = killed + fates["survived"]
    if judged:
        low, high = binomtest(killed, judged).proportion_ci(method="exact")
        print(f"{killed} of {judged} killed: {killed / judged:.1%}, 95 % interval {low:.1%} to {high:.1%};", dict(fates))
    return int(bool(fates["broken"]))


if __name__ == "__main__":
    sys.exit(main())
