"""What judges can reach: any edit of it makes evidence stale, any other leaves it, and nothing that runs lies outside."""

import ast
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sympy as sp

from theory import claims, find
from theory.engine import judging, reach
from theory.engine.evidence import reached_by, source_hash

ROOT = Path(__file__).resolve().parents[3]
IDS = [c.id for c in claims()]
SAMPLE = random.Random(4).sample(IDS, 8)
# Fronts that load modules at first use, look-up, and what hashes: they hold no mathematics.
IDLE = {
    "estimators.system.lazy",
    "estimators.system.moved",
    "estimators.system.outlines",
    "estimators.system.sources",
    "theory.engine.reach",
    "theory.engine.evidence",
    "theory.engine.registry",
    "theory.engine.paper",
}


def digest_of(claim_id, sources):
    return reach.digest(sources, *reached_by(find(claim_id), (), sources))


def beside(fresh, *changed):
    """The sources anew, with the outlines of `fresh` but for modules that are to be changed: the same text says the same."""
    sources = reach.on_disk()
    for name in set(fresh.modules) - set(changed):
        sources.modules[name].outline = fresh.modules[name].outline
    return sources


def change(sources, node):
    """Change a definition without moving any line."""
    for statement in sources.statements(node):
        if hasattr(statement, "body") and not isinstance(statement, ast.For):
            statement.body.append(ast.parse("changed = 1").body[0])
        else:
            statement.type_comment = None
            for name, value in ast.iter_fields(statement):
                if name in ("value", "iter"):
                    setattr(statement, name, ast.Tuple([value, ast.Constant(0)], ast.Load()))


@pytest.mark.parametrize("claim_id", SAMPLE)
def test_a_change_of_what_is_reached_is_seen_and_of_nothing_else(claim_id):
    fresh = reach.on_disk()
    before = digest_of(claim_id, fresh)
    assert before == source_hash(find(claim_id))
    reached = sorted(reached_by(find(claim_id), (), fresh)[0])
    generator = random.Random(claim_id)
    for node in generator.sample(reached, min(5, len(reached))):
        changed = beside(fresh, node[0])
        change(changed, node)
        assert digest_of(claim_id, changed) != before, node
    others = reach.on_disk()
    held = {(module, s.lineno) for module, name in reached for s in others.statements((module, name))}  # A, B = 1, 2
    every = [(module, name) for module in fresh.modules for name in fresh.modules[module].definitions]
    apart = [n for n in every if not {(n[0], s.lineno) for s in others.statements(n)} & held]
    for node in generator.sample(apart, min(60, len(apart))):
        change(others, node)
    for module in fresh.modules:
        for statement in others.modules[module].tree.body:
            if isinstance(statement, ast.FunctionDef) and ast.get_docstring(statement) is not None:
                statement.body[0] = ast.Expr(ast.Constant("another text"))
    assert digest_of(claim_id, others) == before


def test_kernels_constants_and_data_are_reached():
    def nodes(claim_id):
        return reached_by(find(claim_id), (), reach.sources())[0]

    simulated = nodes("mrmtl:lem6.2:var")
    assert any(module == "estimators.montecarlo.kernels" for module, _ in simulated)
    assert ("estimators.montecarlo.checks", "DECLARED") in simulated
    assert ("theory.engine.levels.mutated", "MUTANT_POINTS") in simulated
    silent = next(c for c in claims() if c.simulate is None)
    assert not any(module.startswith("estimators.montecarlo") for module, _ in nodes(silent.id))
    tables = [c.id for c in claims() if {p.name for p in reach.sources().files(nodes(c.id))}]
    assert "generative:exp:elections" in tables
    changed = reach.on_disk()
    path = next(iter(changed.files(nodes("generative:exp:elections"))))
    changed.data[path] += b"\n"
    assert digest_of("generative:exp:elections", changed) != source_hash(find("generative:exp:elections"))


def test_a_lemma_counts_for_who_takes_it():
    taker = find("fedhdp:thm8:p")
    lemmas = taker.derivation(taker.cases()[0]).lemmas
    assert lemmas
    own, taken = reached_by(find(lemmas[0]), (), reach.sources())[0], reached_by(taker, lemmas, reach.sources())[0]
    holder = (find(lemmas[0]).derive.__module__, find(lemmas[0]).derive.__name__)
    assert holder in own
    assert holder in taken


@pytest.mark.parametrize("claim_id", SAMPLE[:4])
def test_nothing_runs_that_is_not_reached(claim_id):
    """The judges are watched: every function of ours that they call is among those found in the text."""
    claim, seen = find(claim_id), {}

    def note(frame, event, arg):
        if event == "call":
            seen.setdefault(frame.f_code, frame.f_globals.get("__name__"))

    sys.setprofile(note)
    try:
        record = judging.judge(claim, 7)
    finally:
        sys.setprofile(None)
    sources = reach.sources()
    reached = reached_by(claim, record.lemmas, sources)[0] | {
        ("theory.engine.judging", "judge"), ("theory.engine.judging", "_guard"),
        ("theory.engine.levels.oracle", "asked_once"), ("theory.engine.levels.simulated", "level"),
    }  # fmt: skip
    called = {
        holder
        for code, module in seen.items()
        if module in sources.modules and module not in IDLE and not code.co_name.startswith("<")
        for holder in sources.at(module, code)[1]
    }
    assert len(called) > 20
    assert called - reached == set()


def test_an_edit_judges_again_what_it_touches_and_nothing_else(tmp_path):
    for package in ("estimators", "theory"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "proofs"))
    shutil.copytree(ROOT / "figures", tmp_path / "figures", ignore=shutil.ignore_patterns("__pycache__", "results"))
    shutil.copy(ROOT / "borrow.py", tmp_path)
    ids = ["feo2:gamma-prop", "mrmtl:eq5"]

    def judged():
        ran = subprocess.run(
            [sys.executable, "-m", "borrow", "verify", "--quick", *ids],
            cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        again = [line for line in ran.stdout.splitlines() if "up to date" in line]
        return 2 - int(again[0].split()[0]) if again else 2

    def edit(path, old, new):
        file = tmp_path / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    assert judged() == 2
    assert judged() == 0
    edit("theory/engine/derivation.py", '"""', '"""Other words. ')
    edit("estimators/federated/training.py", "import", "# a comment\nimport")
    assert judged() == 0
    edit("theory/papers/feo2/point_estimation.py", "oracle=lambda z, S, N_p: sum(", "oracle=lambda z, S, N_p: 1 * sum(")
    assert judged() == 1


def test_where_a_number_of_a_claim_stands_is_told():
    """A domain that has the same numbers, elsewhere or once more, is another domain; so is an example."""
    base = find("generative:thm3:own-data")
    *others, clients, samples = base.variables
    wider = replace(base, variables=(*others, clients, replace(samples, choices=(2, 3, 4))))
    swapped = replace(base, variables=(*others, replace(clients, choices=samples.choices), replace(samples, choices=(3, 4))))
    example = {**base.examples[0], "alpha": base.examples[0]["beta"], "beta": base.examples[0]["alpha"]}
    exchanged = replace(base, examples=(example, *base.examples[1:]))
    assert len({source_hash(c) for c in (base, wider, swapped, exchanged)}) == 4


# What compares equal, or says the same, and judges divide otherwise.
EQUAL = (1, sp.Integer(1), 1.0, sp.Float(1), sp.Float(1, 40), True, sp.true)


def _held(one):
    return lambda **v: one


@pytest.mark.parametrize(
    "changed",
    [
        lambda claim, one: {"variables": (*claim.variables[:-1], replace(claim.variables[-1], choices=(one, 2)))},
        lambda claim, one: {"examples": ({**claim.examples[0], "n": one},)},
        lambda claim, one: {"oracle": _held(one)},
        lambda claim, one: {"oracle": lambda v, one=one: one},
        lambda claim, one: {"oracle": partial(claim.oracle, n=one)},
    ],
    ids=["choice", "example", "closure", "default", "partial"],
)
def test_numbers_that_are_equal_and_of_other_types_are_told_apart(changed, monkeypatch):
    base = find("generative:thm3:own-data")
    monkeypatch.setattr(type(base), "__post_init__", lambda self: None)  # which need not like such a claim
    hashes = [source_hash(replace(base, **changed(base, one))) for one in EQUAL]
    assert len(set(hashes)) == len(EQUAL)
    assert hashes == [source_hash(replace(base, **changed(base, one))) for one in EQUAL]


def test_the_type_of_a_reached_constant_is_told_and_words_about_it_are_not(tmp_path):
    source = '"""Words."""\nONE = {}\n\n\ndef judge():\n    {}\n    return ONE / 3, {}\n'

    def digest(*parts):
        (tmp_path / "names.py").write_text(source.format(*parts))
        sources = reach.Sources({"names": tmp_path})
        return reach.digest(sources, sources.closure({("names.names", "judge")}))

    ones = ("1", "1.0", "True", "sp.Integer(1)")
    assert (
        len({digest(one, '"""Says."""', 2) for one in ones} | {digest(1, '"""Says."""', f"2 * {one}") for one in ones}) == 8
    )
    assert digest(1, '"""Says."""', 2) == digest("1  # one", '"""Says more."""', "(2)")


def test_where_held_values_stand_is_told():
    def of(*values):
        return reach.collect(reach.sources(), values, reach.Reached()).texts

    def held(a, b):
        return lambda: (a, b)

    assert of(held(1, 2)) != of(held(2, 1))
    assert of(lambda a=1, b=2: a) != of(lambda a=2, b=1: a)
    assert of(partial(held, 1, 2)) != of(partial(held, 2, 1))
    assert of({"a", "b", "c"}) == of({"c", "b", "a"})


def test_no_value_is_taken_for_one_that_is_gone():
    """What is read of an object is made for it, and the next one gets its place in memory."""
    texts = reach.collect(reach.sources(), [partial(max, key=k) for k in range(50)], reach.Reached()).texts
    assert {repr(k) for k in range(50)} <= texts


def test_a_claim_of_a_notebook_has_a_fingerprint_of_its_own_code():
    base, scope = find("mrmtl:eq5"), {}
    exec("def helper(x):\n    return 1 * x\n\ndef derive(**v):\n    return helper(v)\n", scope)
    mine = replace(base, id="mrmtl:mine", derive=scope["derive"])
    other = {}
    exec("def helper(x):\n    return 2 * x\n\ndef derive(**v):\n    return helper(v)\n", other)
    theirs = replace(base, id="mrmtl:mine", derive=other["derive"])
    assert source_hash(mine) == source_hash(replace(mine))
    assert source_hash(mine) != source_hash(theirs)
    assert source_hash(mine) != source_hash(base)


NAMES = """
def used(): ...
def other(): ...
class Held: ...

def outer(x):
    used_here = [other for other in x]
    def inner(used, *Held):
        return used + sum(Held)
    return inner, used

def reads():
    def writes():
        other = 1
        return other
    return other, writes

pick = lambda used: used(other)
one, two = (lambda x: used(x)), (lambda x: other(x))
held = {"a": lambda x: (lambda y: Held(y))(x)}
"""


def test_names_that_a_function_binds_itself_are_no_definitions(tmp_path):
    (tmp_path / "names.py").write_text(NAMES)
    sources = reach.Sources({"names": tmp_path})
    module = "names.names"

    def uses(name):
        return {n for _, n in sources.uses((module, name))}

    assert uses("outer") == {"used"}
    assert uses("reads") == {"other"}
    assert uses("pick") == {"other"}


def test_functions_in_others_and_several_lambdas_of_a_line_are_told_apart(tmp_path):
    (tmp_path / "names.py").write_text(NAMES)
    sources = reach.Sources({"names": tmp_path})
    space = {"__name__": "names.names"}
    exec(compile(NAMES, str(tmp_path / "names.py"), "exec"), space)

    def reached(function):
        return {n for _, n in reach.collect(sources, function, reach.Reached()).nodes}

    assert reached(space["one"]) == {"used"}
    assert reached(space["two"]) == {"other"}
    assert reached(space["held"]["a"]) == {"Held"}
    assert reached(space["outer"]([])[0]) == set()
    assert reached(space["outer"]) == {"outer"}


def test_a_function_of_a_notebook_reaches_what_it_names():
    """By the module or by the name: what is called is ours wherever the call stands."""
    from estimators.closed_forms import gaussian
    from estimators.closed_forms.gaussian import shrinkage_factor

    space = {"__name__": "notebook", "gaussian": gaussian, "shrinkage_factor": shrinkage_factor}
    exec("by_module = lambda a: gaussian.shrinkage_factor(a, 1, 1)\nby_name = lambda a: shrinkage_factor(a, 1, 1)", space)
    for function in (space["by_module"], space["by_name"]):
        nodes = reach.collect(reach.sources(), function, reach.Reached()).nodes
        assert ("estimators.closed_forms.gaussian", "shrinkage_factor") in nodes
