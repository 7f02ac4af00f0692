"""Whether the judges of a claim are independent: what each of them reaches, and what two of them share.

Two judges may share the engine's machinery, the estimators' readers of arguments, and *packing*: functions and constants
that put arguments in order and compute nothing, which is read off their text.  Anything else that two of them reach is named
by the claim in `shares`, with a reason that readers see; or the claim is not verified.

Belongs here: closures per judge, the rules.  Does not belong here: closures themselves (reach.py), verdicts (evidence.py).
"""

from __future__ import annotations

import argparse
import ast
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from theory.engine import reach, registry
from theory.engine.claim import Claim
from theory.engine.evidence import claims_named
from theory.engine.reach import Node

JUDGES = ("printed", "corrected", "derive", "oracle", "computed", "simulate")
# The engine's routes: what derives and what checks it share nothing.
ROUTES = ("theory.engine.hierarchy", "theory.engine.bruteforce")
MACHINERY = ("theory.engine.", "estimators.numerics.", "estimators.system.", "estimators.montecarlo.")
SHARES_AT_MOST = 20  # functions that claims name in `shares`, in the whole toolkit

NUMBERS = frozenset(("Integer", "Rational", "Symbol", "symbols", "S", "sympify", "Tuple", "Dummy"))
METHODS = frozenset(("items", "values", "keys", "get", "append", "extend", "index", "copy", "setdefault", "update", "join"))
OPERATIONS = frozenset(
    ("subs", "diff", "integrate", "limit", "doit", "simplify", "expand", "det", "inv", "LUsolve", "solve")
)
LIBRARIES = frozenset(("sp", "sympy", "np", "math", "mp", "mpmath", "special"))
ELEMENTARY = NUMBERS | {
    "sqrt",
    "exp",
    "log",
    "erf",
    "erfc",
    "say",
    "Eq",
    "Min",
    "Max",
    "Abs",
    "gamma",
    "beta",
    "binomial",
    "factorial",
}


@dataclass(frozen=True)
class Shared:
    """A definition that two judges reach, and that is neither machinery nor packing."""

    first: str
    second: str
    node: Node

    def __str__(self) -> str:
        return f"{self.first} and {self.second} share {self.node[0].removeprefix('theory.papers.')}.{self.node[1]}"


def reached(claim: Claim, judge: str) -> set[Node]:
    """All definitions that a judge of a claim reaches; a derivation reaches those of the claims that it takes."""
    sources = reach.sources()
    found = reach.collect(sources, getattr(claim, judge), reach.Reached())
    nodes = sources.closure(found.nodes)
    if judge != "derive":
        return nodes
    waiting, taken = claims_named(sources, found, nodes), {claim.id}
    while waiting:
        other = waiting.pop()
        if other not in taken and registry.known(other):
            taken.add(other)
            more = reach.collect(sources, registry.find(other).derive, reach.Reached())
            further = sources.closure(more.nodes)
            waiting += claims_named(sources, more, further)
            nodes |= further
    return nodes


def shared(claim: Claim) -> tuple[Shared, ...]:
    """What two judges of the claim share and should not, named in `shares` or not."""
    return _between(_reached_by_each(claim))


def _reached_by_each(claim: Claim) -> dict[str, set[Node]]:
    return {judge: reached(claim, judge) for judge in JUDGES if getattr(claim, judge) is not None}


def _between(nodes: Mapping[str, set[Node]]) -> tuple[Shared, ...]:
    pairs = [(a, b, nodes[a] & nodes[b]) for a, b in itertools.combinations(nodes, 2)]
    refused = {node for node in set().union(*(common for *_, common in pairs)) if not _allowed(node)}
    return tuple(Shared(a, b, node) for a, b, common in pairs for node in sorted(common & refused))


def _allowed(node: Node) -> bool:
    module, name = node
    if module.startswith(ROUTES):
        return packs(node)
    if module.startswith(MACHINERY) or (module.startswith("estimators.") and name.lstrip("_").startswith("read_")):
        return True
    return packs(node)


def packs(node: Node) -> bool:
    """Whether a definition only packs arguments: no arithmetic, and no call of what might do some."""
    return not any(_computes(statement) for statement in reach.sources().statements(node))


def _computes(statement: ast.AST) -> bool:
    if isinstance(statement, ast.ClassDef):
        return any(_computes(s) for s in statement.body if isinstance(s, reach.FUNCTIONS))
    indices = {id(n) for s in ast.walk(statement) if isinstance(s, ast.Subscript) for n in ast.walk(s.slice)}
    return any(_acts(n) for n in ast.walk(statement) if id(n) not in indices)


def _acts(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):  # lists are put together, dictionaries merged, and repeated
        parts = (node.left, node.right)
        held = (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.Set, ast.JoinedStr)
        joins = isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)) and any(isinstance(p, held) for p in parts)
        types = isinstance(node.op, ast.BitOr) and all(isinstance(p, (ast.Name, ast.Constant, ast.BinOp)) for p in parts)
        return not (joins or types or all(isinstance(p, ast.Constant) for p in parts))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _is_formula(node.value)
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            # A name of ours is a definition of its own and is judged itself; others must be harmless.
            return called.id in {"sum", "pow", "abs", "round", "divmod", "max", "min", "eval", "exec"}
        if isinstance(called, ast.Attribute):
            library = isinstance(called.value, ast.Name) and called.value.id in {
                "sp",
                "sympy",
                "np",
                "math",
                "mp",
                "mpmath",
                "special",
            }
            if library:
                return called.attr not in NUMBERS
            return called.attr in OPERATIONS or (called.attr not in METHODS and not isinstance(called.value, ast.Name))
    return False


def _is_formula(text: str) -> bool:
    """Whether a text could be evaluated to a formula."""
    try:
        parsed = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    names = {n.id for n in ast.walk(parsed) if isinstance(n, ast.Name)}
    return len(names) > 1 and any(isinstance(n, (ast.Mult, ast.Div, ast.Pow)) for n in ast.walk(parsed))


def same_text(claim: Claim) -> list[tuple[str, str]]:
    """Pairs of judges whose own texts are one formula typed twice."""
    texts: dict[str, set[str]] = {}
    for judge in JUDGES:
        function = getattr(claim, judge)
        if function is not None and judge != "corrected":
            texts[judge] = set(_formulas(function))
    return [(a, b) for a, b in itertools.combinations(texts, 2) if texts[a] & texts[b]]


def _formulas(function: Any) -> Iterator[str]:
    """What a function returns, as text, where it is a formula of two operations; of what it concludes, the typed parts."""
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    sources = reach.sources()
    if code is None or function.__module__ not in sources.modules:
        return
    pieces, holders = sources.at(function.__module__, code)
    for piece in [*pieces, *(s for n in holders if n[1] == code.co_name for s in sources.statements(n))]:
        values = (
            [piece.body]
            if isinstance(piece, ast.Lambda)
            else [n.value for n in ast.walk(piece) if isinstance(n, ast.Return)]
        )
        arguments = {n.arg for n in ast.walk(piece) if isinstance(n, ast.arg)}
        concluded = [
            part
            for n in ast.walk(piece)
            if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "conclude" and n.args
            for part in ast.walk(n.args[-1])
            if {m.id for m in ast.walk(part) if isinstance(m, ast.Name)} <= arguments and _operations(part) > 2
        ]
        for value in [*values, *concluded]:
            if isinstance(value, ast.BinOp) and _operations(value) >= 2:
                yield ast.dump(value)


def _operations(node: ast.AST) -> int:
    return sum(isinstance(n, ast.BinOp) for n in ast.walk(node))


def types_its_conclusion(claim: Claim) -> bool:
    """Whether a conclusion of the derivation is typed: it names no step before it, and calls nothing that computes."""
    sources = reach.sources()
    code = getattr(claim.derive, "__code__", None)
    if code is None or claim.derive.__module__ not in sources.modules:
        return False
    found = reach.collect(sources, claim.derive, reach.Reached())
    pieces, _ = sources.at(claim.derive.__module__, code)
    nodes = [n for n in sources.closure(found.nodes) if not n[0].startswith(("theory.engine.", "estimators."))]
    texts = [*pieces, *(s for n in nodes for s in sources.statements(n))]
    functions = {id(f): f for text in texts for f in ast.walk(text) if isinstance(f, (*reach.FUNCTIONS, ast.Lambda))}
    return any(_typed(f) for f in functions.values())


def _typed(function: Any) -> bool:
    """Whether a function concludes with something typed."""
    body = function.body if isinstance(function.body, list) else [function.body]
    own = [n for statement in body for n in _within(statement)]
    steps: dict[str, list[ast.expr]] = {}
    loops: set[str] = set()
    for node in own:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        steps.setdefault(name.id, []).append(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("append", "extend") and node.args:
            if isinstance(holder := node.func.value, ast.Name):  # type: ignore[attr-defined]
                steps.setdefault(holder.id, []).append(node.args[0])
        elif isinstance(node, ast.For):
            loops |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    concluded = [n.args[-1] for n in own if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "conclude" and n.args]
    return any(not _computed(value, steps, loops, set()) for value in concluded)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body, without those of functions in it."""
    yield node
    if not isinstance(node, (*reach.FUNCTIONS, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _within(child)


def _computed(value: ast.expr, steps: dict[str, list[ast.expr]], loops: set[str], seen: set[str]) -> bool:
    """Whether an expression computes: it calls more than elementary functions, or is made of steps."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            attribute = getattr(node.func, "attr", "")
            if isinstance(node.func, ast.Name) and node.func.id not in {"tuple", "list", "int", "dict"}:
                return True
            if attribute and attribute not in ELEMENTARY:
                return True
    while isinstance(value, ast.Call) and value.args:  # say(text, formula): the formula
        value = value.args[-1]
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    if names & loops:
        return True
    made = names & steps.keys()
    if made and not isinstance(value, ast.Name):
        return True
    return any(_computed(v, steps, loops, seen | {name}) for name in made - seen for v in steps[name])


def problems(claim: Claim) -> list[str]:
    """What makes the judges of a claim dependent, in words; empty where they are independent."""
    nodes = _reached_by_each(claim)
    between = _between(nodes)
    found = [str(s) for s in between if ".".join(s.node) not in claim.shares]
    found += [f"{a} and {b} are one formula typed twice" for a, b in same_text(claim)]
    unused = set(claim.shares) - {".".join(s.node) for s in between}
    found += [f"shares names {name}, which no two judges share" for name in sorted(unused)]
    if claim.computed is not None and not any(n[0].startswith("estimators.") for n in nodes["computed"]):
        found.append("computed calls nothing of estimators")
    found += [f"{judge} reads claims, and could read this one's value" for judge in _reads_claims(nodes)]
    found += _said_by_judges(claim)
    if claim.objective is not None and not _objective_is_of_the_model(claim, nodes["derive"]):
        found.append(
            "the objective is not the model's risk: it reaches neither route of the engine, nor does the derivation take it"
        )
    if types_its_conclusion(claim):
        found.append("the derivation types its conclusion: no step before it leads there")
    return found


def _reads_claims(nodes: Mapping[str, set[Node]]) -> list[str]:
    """Judges that look claims up: only a derivation takes another's result, by `lemma`."""
    home = ("theory.engine.registry", "find")
    return [judge for judge, held in nodes.items() if judge != "derive" and home in held]


def _said_by_judges(claim: Claim) -> list[str]:
    """Judges of exact values that draw, where the claim is not itself a simulation, or that evaluate text."""
    sources = reach.sources()
    by_chance = claim.not_simulated is not None and claim.not_simulated.kind == "simulation"
    found = []
    for judge in ("printed", "corrected", "derive", "oracle"):
        if getattr(claim, judge) is not None:
            texts = _own_texts(claim, judge, sources)
            if not by_chance and _say(texts, "'random'", "'default_rng'"):
                found.append(f"{judge} draws random numbers")
            if _say(texts, "id='eval'", "id='exec'", "'parse_expr'"):
                found.append(f"{judge} evaluates text, in which nobody sees what is shared")
    return found


def _own_texts(claim: Claim, judge: str, sources: reach.Sources) -> list[str]:
    """The syntax of what a judge reaches outside the engine and the estimators."""
    found = reach.collect(sources, getattr(claim, judge), reach.Reached())
    nodes = [n for n in sources.closure(found.nodes) if not n[0].startswith(("theory.engine.", "estimators."))]
    return [*found.texts, *map(sources.text, nodes)]


def _say(texts: Iterable[str], *pieces: str) -> bool:
    return any(piece in text for text in texts for piece in pieces)


def _objective_is_of_the_model(claim: Claim, derivation: set[Node]) -> bool:
    """Whether the objective is made by the engine from the model, or is what the derivation minimises."""
    sources = reach.sources()
    own = reach.collect(sources, claim.objective, reach.Reached()).nodes
    if any(module.startswith(ROUTES) for module, _ in sources.closure(own)):
        return True
    return any(not _allowed(node) for node in sources.closure(own) & derivation)


def declared() -> dict[str, list[str]]:
    """All functions that claims name in `shares`, with the claims."""
    found: dict[str, list[str]] = {}
    for claim in registry.claims():
        for name in claim.shares:
            found.setdefault(name, []).append(claim.id)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what makes judges dependent, per claim, and a summary; exit status 1 where there is anything."""
    parser = argparse.ArgumentParser(prog="python -m theory.engine.independence", description=main.__doc__)
    parser.add_argument("ids", nargs="*", help="ids of claims or keys of papers (default: all)")
    a = parser.parse_args(arguments)
    chosen = [c for c in registry.claims() if not a.ids or c.id in a.ids or c.paper in a.ids]
    pairs: Counter[str] = Counter()
    bad = 0
    for claim in chosen:
        found = problems(claim)
        bad += bool(found)
        pairs.update({f"{s.first}/{s.second}" for s in shared(claim) if ".".join(s.node) not in claim.shares})
        if found:
            print(f"{claim.id}\n" + "".join(f"    {line}\n" for line in found), end="")
    print(f"{len(chosen)} claims, {bad} with dependent judges; " + ", ".join(f"{k} {n}" for k, n in pairs.most_common()))
    print(f"{len(declared())} functions are declared as shared (at most {SHARES_AT_MOST})")
    return bool(bad)


__all__ = ["JUDGES", "SHARES_AT_MOST", "Shared", "declared", "packs", "problems", "reached", "same_text", "shared"]

if __name__ == "__main__":
    sys.exit(main())
