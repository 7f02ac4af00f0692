"""What a type checker can tell a user: annotations on the public face, and fronts that it sees through."""

import ast
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import estimators

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    *("closed_forms", "counts", "coverage.py", "fit", "model.py", "montecarlo", "normal_means", "npmle", "numerics"),
    *("private", "regression", "server", "tables", "accounting", "federated"),
)
LAZY = (
    "closed_forms",
    "counts",
    "federated",
    "fit",
    "montecarlo",
    "normal_means",
    "private",
    "regression",
    "server",
    "tables",
)
COMPILED = ("njit", "numba.njit", "intrinsic", "part")  # the last is how `kernels` marks what is inlined
FRONTS = ("estimators", "estimators.accounting", *(f"estimators.{room}" for room in LAZY), "theory")


def public(body, prefix=""):
    """Yield names and functions of a module that are public; loops that Numba compiles infer their types."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (node.name == "__init__" or not node.name.startswith("_")):
            compiled = any(ast.unparse(one).startswith(COMPILED) for one in node.decorator_list)
            yield from [] if compiled else [(prefix + node.name, node)]


def bare(source):
    """Return names of public functions without a type for what they return or for an argument."""
    found = []
    for name, node in public(ast.parse(source).body):
        rest = [a for a in (node.args.vararg, node.args.kwarg) if a]
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *rest]
        typed = [a.annotation for a in arguments if a.arg not in ("self", "cls")]
        if node.returns is None or None in typed:
            found.append(name)
    return found


def test_what_has_no_types_is_found():
    source = (
        "class A:\n    def f(self, x: int): ...\n    def g(self, x) -> int: ...\n    def h(self, *, x: int) -> int: ...\n"
    )
    assert bare(source) == ["A.f", "A.g"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_function_says_what_it_takes_and_returns(room):
    place = ROOT / "estimators" / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    assert {str(file): names for file in files if (names := bare(file.read_text()))} == {}


ROWS = [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("BetaBinomial", ([1, 2, 3], 5)),
        ("GammaPoisson", ([1, 2, 3], 2.0)),
        ("GaussianMeans", ([1.0, 2.0, 3.0], 1.0)),
        ("LinearClients", ([ROWS, ROWS], [[1.0, 2.0, 4.0], [0.0, 1.0, 1.0]])),
        ("LogisticClients", ([ROWS, ROWS], [[0, 1, 1], [0, 1, 0]])),
    ],
)
def test_choices_in_annotations_are_those_that_are_accepted(model, data):
    """A refusal lists them."""
    kind = getattr(estimators, model)
    choices = get_args(get_type_hints(kind.__init__)["prior"])
    with pytest.raises(ValueError, match=re.escape(f"one of {', '.join(map(repr, choices))}, got 'other'")):
        kind(prior="other").fit(*data)


@pytest.mark.parametrize("front", FRONTS)
def test_a_type_checker_sees_the_names_of_a_front(front):
    """All of `__all__` is written out, and imported or defined where a type checker looks."""
    module = import_module(front)
    tree = ast.parse(Path(module.__file__).read_text())
    seen = {
        alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    ]
    assert len(lists) == 1
    assert set(ast.literal_eval(lists[0])) == set(module.__all__) <= seen


def test_rooms_open_at_first_use():
    """In a process that has imported nothing else."""
    lines = [
        "import estimators",
        "mse = estimators.closed_forms.mean_regularized.mse(1.0, 1.0, 1.0, K=10)",
        "print(mse, estimators.normal_means.streaming.__name__)",
    ]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout == "0.55 estimators.normal_means.streaming\n"


def test_the_example_of_a_user_runs():
    subprocess.run([sys.executable, "-m", "tests.typed_user"], cwd=ROOT, check=True)


def pyright():
    """Return where pyright is: beside Python, or on the path."""
    beside = Path(sys.executable).parent / "pyright"
    return str(beside) if beside.exists() else shutil.which("pyright")


@pytest.mark.skipif(pyright() is None, reason="pyright is not installed: pip install -e '.[lint]'")
@pytest.mark.parametrize("wrong", [False, True])
def test_a_type_checker_reads_the_types_of_a_user(tmp_path, wrong):
    text = (ROOT / "tests" / "typed_user.py").read_text()
    if wrong:  # the check can fail
        text += "assert_type(model.tau2_, str)\nGaussianMeans('bayess')\n"
    (tmp_path / "user.py").write_text(text)
    (tmp_path / "pyrightconfig.json").write_text(f'{{"extraPaths": [{str(ROOT)!r}]}}'.replace("'", '"'))
    ran = subprocess.run(
        [pyright(), "-p", str(tmp_path), "--pythonpath", sys.executable], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, "2 errors" in ran.stdout) == ((1, True) if wrong else (0, False)), ran.stdout + ran.stderr
