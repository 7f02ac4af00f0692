"""How the packages hang together: who imports whom, what is documented, which claims must exist."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

import estimators
from estimators.system.moved import MOVED
from theory import claims
from theory.engine.paper import papers

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("estimators", "theory", "figures")
FORBIDDEN = {
    "estimators": {"theory", "figures", "tests", "sympy", "matplotlib"},
    "theory": {"figures", "tests", "matplotlib"},
    "figures": {"tests", "sympy"},
}
MODULES = [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]

# Ids are permanent: a claim may be added, never renamed or dropped. From the project's list of claims.
REQUIRED = {
    "fedhdp": """
        eq1-3 dp-noise lemma1 lemma2:weights lemma2:rstar lemma2:cov eq10 eq37 eq41 eq42 eq44
        lemma3:lambda lemma3:bayes eq49 eq50 eq51 eq52
        lemma3:limit-r1 lemma3:limit-N2 lemma3:limit-alpha0 lemma3:limit-tau0 lemma4 thm5
        eq61 eq64 eq68 eq74 eq75 eq77 levels:lambda lemma6:rstar lemma6:var
        lemma7:eq79 lemma7:eq80 lemma7:eq81 lemma7:limits thm8:np thm8:p
        table1 table4:a table4:b table4:c table4:d lambda-order optout-helps beats-hdp r-le-1
        alg1 alg2 alg3 tables:delta
    """,
    "feo2": "theta-np theta-p lemma1:rstar lemma1:var lemma2 gamma-prop alg1",
    "mrmtl": """
        eq2 lem6.1 eq5 eq39 lem6.2:var lem6.2:mu thm6.3 cor6.4 prop6.5 prop6.6 lem6.7 thm6.8
        best-advantage train-lambda sigma-dp no-clip lemE.3 lemE.4:var lemE.4:mu thmE.5 negative
        eq12 eq13 appA:composition appA:zcdp eq14 appA:em-zcdp appA:gumbel eq15 appA:batch appA:amplification
        propF.1 tnb:pmf tnb:mean thmF.2 fig7 algA1 algA2
    """,
    "robusthdp": """
        gauss eq3 eq5 eq7 batch-power3 z-sublinear small-q-noisier eq8:weights eq8:minvar eq8:eps-weights
        lem1:mean lem1:tail small-alpha thm1 thm2 eq12 tab2 alg1
    """,
    "generative": """
        thm1:estimator thm1:mse thm1:unbiased thm1:james-stein claim1 remark1 eq45 eq46 eq47
        remark2 fact1 thm2:mse thm2:a thm2:quantiser thm2:tail thm2:event thm2:ldp
        bern:posterior bern:known-mse bern:moments bern:variance-estimate bern:variance-event thm3 remark3
        qpriv thm4:variance-estimate thm4:hoeffding thm4:bound thm5 thm5:mse alg1 lemma1 clip-radius
        eq12:gauss eq12:laplace eq12:mixture eq12:linear eq12:logistic thm6 eq18 limit eq19
        alg2 alg3 alg4 eq20 eq21 kd:density kd:regulariser alg5 alg6 thm7:sensitivity thm7:rdp thm7:conditions
        lemma2:eps lemma2:delta lemma3 def3 alg7 exp:bernoulli exp:linreg exp:fig4 exp:elections
    """,
}
REGISTERED = {c.id: c for c in claims()}


def name_of(path):
    return str(path.relative_to(ROOT))


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path):
    return path.relative_to(ROOT).parts[0]


def imports(path):
    """(imported module, imported names) of every absolute import anywhere in a file, lazy ones too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module, tuple(alias.name for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES)
def test_dependencies_point_one_way(package):
    found = {
        f"{name_of(path)} imports {module}"
        for path in MODULES
        if package_of(path) == package
        for module, _ in imports(path)
        if (module or "").split(".")[0] in FORBIDDEN[package]
    }
    assert not found


def test_the_import_scanner_sees_lazy_imports(tmp_path):
    """Negative control: a forbidden import hidden in a function is found."""
    file = tmp_path / "m.py"
    file.write_text("def f():\n    from sympy.core import Add\n    import matplotlib.pyplot as p\n")
    assert [m for m, _ in imports(file)] == ["sympy.core", "matplotlib.pyplot"]


# --- no circles ------------------------------------------------------------------------------------------------------


def module_name(path, root=ROOT):
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(paths, root=ROOT):
    """Which module imports which of the others, anywhere in its text: in functions and for type checkers too.

    But for fronts, which import nothing of what they show to type checkers.
    """
    known = {module_name(path, root): path for path in paths}
    graph = {}
    for name, path in known.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = set()
        shown = [n for n in tree(path).body if isinstance(n, ast.If) and getattr(n.test, "id", "") == "TYPE_CHECKING"]
        apart = {ast.dump(n, include_attributes=True) for block in shown for n in block.body if path.name == "__init__.py"}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and ast.dump(node, include_attributes=True) in apart:
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *([node.module] if node.module else [])])
                base = base if node.level else node.module
                found |= {sub if (sub := f"{base}.{alias.name}") in known else base for alias in node.names}
        graph[name] = found & known.keys()
    return graph


def circles(graph):
    """The sets of two or more nodes of which each leads to each other one, and the nodes that lead to themselves."""
    reached = {}
    for start in graph:
        seen, waiting = set(), list(graph[start])
        while waiting:
            if (node := waiting.pop()) not in seen:
                seen.add(node)
                waiting += graph.get(node, ())
        reached[start] = seen
    return {frozenset(m for m in graph if m in reached[n] and n in reached[m]) for n in graph if n in reached[n]}


def test_no_module_imports_itself_by_way_of_others():
    assert {tuple(sorted(circle)) for circle in circles(import_graph([*MODULES, ROOT / "borrow.py"]))} == set()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("import p.b\n", "def f():\n    from p.a import f\n"),
        ("from p import b\n", "from .a import f\n"),
        ("from .b import f\n", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import a\n"),
        ("import p.b\n", "from p import f\n"),
    ],
)
def test_a_circle_of_imports_is_seen(tmp_path, a, b):
    """Negative control: two modules that import each other, one of them in a function, for types, or by the package."""
    package = tmp_path / "p"
    package.mkdir()
    files = {"__init__.py": "from p.a import f\n" if b == "from p import f\n" else "", "a.py": a, "b.py": b}
    for name, text in files.items():
        (package / name).write_text(text)
    found = circles(import_graph(sorted(package.iterdir()), tmp_path))
    assert [circle >= {"p.a", "p.b"} for circle in found] == [True]
    (package / "b.py").write_text("import ast\n")
    assert circles(import_graph(sorted(package.iterdir()), tmp_path)) == set()


def test_rooms_of_estimators_have_no_circles():
    """A room is a folder, or a module beside the folders; the front of all of them is none."""
    between = {}
    for name, imported in import_graph([p for p in MODULES if package_of(p) == "estimators"]).items():
        room = name.split(".")[1:2]
        for other in (m.split(".")[1:2] for m in imported):
            if room and other and room != other:
                between.setdefault(room[0], set()).add(other[0])
    assert len(between) > 8
    assert {tuple(sorted(circle)) for circle in circles(between)} == set()


def private_uses(path, own):
    """Private names that a file takes from another of our packages, by import or as an attribute."""

    def private(name):
        return name.startswith("_") and not name.endswith("__")

    foreign = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            head = (node.module or "").split(".")
            if head[0] in PACKAGES and head[0] != own:
                foreign |= {alias.asname or alias.name for alias in node.names}
                yield from (n for n in (*head, *(a.name for a in node.names)) if private(n))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                head = alias.name.split(".")
                if head[0] in PACKAGES and head[0] != own:
                    foreign.add(alias.asname or head[0])
                    yield from (n for n in head if private(n))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and private(node.attr):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in foreign:
                yield node.attr


def test_no_private_name_crosses_a_package():
    assert {name_of(p): found for p in MODULES if (found := list(private_uses(p, package_of(p))))} == {}


def test_private_names_are_seen(tmp_path):
    file = tmp_path / "m.py"
    file.write_text("from estimators import aggregation as a\nfrom estimators.numerics.limits import _x\na._y(a.__doc__)\n")
    assert sorted(private_uses(file, "theory")) == ["_x", "_y"]


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import estimators", "sympy matplotlib numba scipy theory figures"),
        ("from estimators import aggregation, mean_regularized, personalization, privacy", "sympy matplotlib numba"),
        ("import estimators.montecarlo", "sympy matplotlib numba"),
        ("import theory; theory.claims()", "matplotlib numba figures"),
        ("import borrow; borrow.main(['--help'])", "numpy sympy matplotlib numba scipy"),
        (
            "import borrow; borrow.main(['fit', '--example', '--no-plot', '--json', '--out', OUT])",
            "sympy matplotlib theory.api",
        ),
        ("import estimators; estimators.NonparametricMeans().fit([0.0, 1.0, 5.0], 1.0)", "sympy matplotlib numba"),
    ],
)
def test_a_fresh_import_loads_nothing_heavy(statement, absent, tmp_path):
    code = f"OUT = {str(tmp_path)!r}\ntry:\n    {statement}\nexcept SystemExit:\n    pass\n"
    code += f"import sys\nprint('LOADED', *(m for m in {absent.split()!r} if m in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "LOADED"


FRONTS = [p for p in MODULES if "estimators.system.lazy" in {module for module, _ in imports(p)}]


@pytest.mark.parametrize("path", FRONTS, ids=name_of)
def test_a_lazy_front_offers_what_it_shows_to_type_checkers(path):
    front = import_module(".".join(path.parent.relative_to(ROOT).parts))
    lines = [
        node
        for block in tree(path).body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
    ]
    shown = {a.name: import_module(f"{front.__name__}.{node.module}") for node in lines if node.module for a in node.names}
    modules = {a.name for node in lines if not node.module for a in node.names}
    assert all(getattr(front, name) is getattr(module, name) for name, module in shown.items())
    assert all(getattr(front, name) is import_module(f"{front.__name__}.{name}") for name in modules)
    assert not lines or {name for name in front.__all__ if name not in vars(front)} - modules == shown.keys()
    assert modules <= set(front.__all__)
    assert all(hasattr(front, name) for name in front.__all__)
    assert set(front.__all__) <= set(dir(front))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        front.nonsense  # noqa: B018


def rooms(package):
    """Folders and public modules directly in a package."""
    parts = (ROOT / package).iterdir()
    return sorted(p.stem for p in parts if (p / "__init__.py").is_file() or (p.suffix == ".py" and p.stem[0] != "_"))


def test_the_map_of_estimators_names_every_room():
    mapped = re.findall(r"``(\w+)``", estimators.__doc__ or "")
    assert sorted(set(rooms("estimators")) - set(mapped)) == []
    assert set(rooms("estimators")) <= set(estimators.__all__)


@pytest.mark.parametrize("room", [p for p in rooms("estimators") if (ROOT / "estimators" / p).is_dir()])
def test_the_map_of_a_room_names_every_module(room):
    mapped = re.findall(r"``(?:\w+\.)*(\w+)``", (import_module(f"estimators.{room}").__doc__ or ""))
    modules = [p.stem for p in (ROOT / "estimators" / room).glob("*.py") if p.stem != "__init__" and "kernels" not in p.stem]
    assert sorted(set(modules) - set(mapped)) == []


def test_old_places_lead_to_new_ones():
    for old, new in MOVED.items():
        place = ROOT / Path(*new.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
        assert not (ROOT / Path(*old.split("."))).with_suffix(".py").exists()
    # As README and notebooks of the release before had them.
    code = """
import estimators.gaussian as a, estimators.closed_forms.gaussian as b
assert a is b and b.__spec__.name == b.__name__
from theory import simulation
from theory.claim import Claim
from theory.evidence import LEVELS
from theory.mutants import mutants
from theory.prove import path_of
from theory.fedhdp.tables import accuracy_gaps
import theory.fedhdp.server, theory.papers.fedhdp.server
assert theory.fedhdp.server is theory.papers.fedhdp.server
from theory.engine import claim, registry
assert Claim is claim.Claim and len(list(registry.claims("fedhdp"))) == len({c.id for c in registry.claims("fedhdp")})
assert not registry.malformed("fedhdp")
"""
    ran = subprocess.run([sys.executable, "-W", "always", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "DeprecationWarning: estimators.gaussian is now estimators.closed_forms.gaussian" in ran.stderr
    assert "<string>:8: DeprecationWarning: theory.prove is now theory.coq.prove" in ran.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package):
    assert (ROOT / package / "py.typed").is_file()


# A module says what belongs in it and what does not; where the rest lives counts as the latter.
SCOPE = re.compile(r"[Bb]elongs?\b|oes not belong|not here|(is|are|lives) in ``")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_belongs_in_it(path):
    text = " ".join((ast.get_docstring(tree(path)) or "").split())
    assert text
    assert SCOPE.search(text), f"{name_of(path)}: the docstring does not say what belongs here and what does not"


# Possessive, so that the start of an f-string such as "fedhdp:eq{n}" is no citation.
CITATION = re.compile(rf"\b(?:{'|'.join(papers())}):[A-Za-z0-9][\w.-]*+(?::[A-Za-z0-9][\w.-]*+)*+(?!\{{)")


def citations(text):
    return {c.rstrip(".-") for c in CITATION.findall(text)}


def is_place(citation):
    """Whether it is the id of a claim or a whole-segment prefix of one (a lemma with several claims)."""
    return any(c == citation or c.startswith(citation + ":") for c in REGISTERED)


def test_citations_are_read_as_meant():
    text = "Claims: fedhdp:lemma2:rstar, mrmtl:thm6.3. See (fedhdp:table4:a) and generative:thm1:james-stein."
    assert citations(text) == {
        "fedhdp:lemma2:rstar", "mrmtl:thm6.3", "fedhdp:table4:a", "generative:thm1:james-stein",
    }  # fmt: skip
    assert is_place("fedhdp:thm8")
    assert not is_place("fedhdp:thm")
    assert not is_place("fedhdp:lemma99")


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_cited_claims_exist(path):
    unknown = {c for c in citations(path.read_text(encoding="utf-8")) if not is_place(c)}
    assert not unknown


def test_figures_name_registered_claims():
    listed = {}
    for path in MODULES:
        for node in tree(path).body if package_of(path) == "figures" else ():
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "CLAIMS":
                listed[name_of(path)] = set(ast.literal_eval(node.value))
    assert listed
    assert {name: ids - REGISTERED.keys() for name, ids in listed.items() if ids - REGISTERED.keys()} == {}


@pytest.mark.parametrize("paper", REQUIRED)
def test_required_claims_exist(paper):
    required = [f"{paper}:{tail}" for tail in REQUIRED[paper].split()]
    assert len(required) == len(set(required))
    assert [i for i in required if i not in REGISTERED] == []


def test_related_claims_exist():
    assert {
        c.id: set(c.related) - REGISTERED.keys() for c in REGISTERED.values() if set(c.related) - REGISTERED.keys()
    } == {}


def test_claims_come_in_the_papers_order():
    order = [list(papers()).index(c.paper) for c in REGISTERED.values()]
    assert all(a <= b for a, b in pairwise(order))
