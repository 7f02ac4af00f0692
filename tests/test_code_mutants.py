"""The program that mutates code: it changes one place, the same for the same seed, and tells killed from survived."""

import ast
import importlib.util
import random
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("code_mutants", Path(__file__).with_name("mutants.py"))
mutants = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(mutants)

TOY = '''"""Doubles."""


def double(x: int) -> int:
    """Twice x.

    >>> double(3)
    6
    """
    if x == 10**9:
        raise ValueError(f"{x + 1} is too large")
    return 2 * x if x > 0 else x + x


class Pair:
    def __init__(self, x):
        self.x = -x
'''


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "estimators").mkdir()
    (tmp_path / "estimators" / "toy.py").write_text(TOY)
    return [mutants.mutated(*place, root=tmp_path) for place in mutants.every_place(tmp_path)]


def test_every_mutant_is_one_change_that_runs(toy):
    assert len({m.source for m in toy}) == len(toy)
    changes = {(m.function, m.before, m.after) for m in toy}
    assert ("double", "2 * x", "(2 / x)") in changes
    assert ("double", "x > 0", "(x >= 0)") in changes
    assert ("double", "x == 10**9", "(x != 10 ** 9)") in changes
    assert ("Pair", "-x", "(x)") in changes
    for m in toy:
        ast.parse(m.source)
        assert "is too large" in m.source
        assert m.source.count(">>> double(3)") == 1


def test_the_sample_is_fixed_by_the_seed():
    places = list(mutants.every_place())
    one, two = (random.Random(5).sample(places, 3) for _ in range(2))
    assert [str(mutants.mutated(*p)) for p in one] == [str(mutants.mutated(*p)) for p in two]


def test_tests_that_name_the_function_or_its_callers_are_taken():
    texts = {"tests/a.py": "double(double(1))", "tests/b.py": "four()", "tests/c.py": "other"}
    m = mutants.Mutant("estimators/room/x.py", "double", "", "", "")
    assert mutants.tests_of(m, {"double": {"four"}}, texts) == [m.file, "tests/a.py", "tests/b.py"]


def test_equivalent_mutants_have_a_reason():
    lines = [x for x in mutants.EQUIVALENT.read_text().splitlines() if x and not x.startswith("#")]
    assert all("  # " in line for line in lines)
