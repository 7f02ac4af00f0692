"""Code put in the place of code: what runs is what the changed text says, and what cannot be swapped is left alone."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mutants
import swaps

sys.path.pop(0)

TEXT = """import functools
from dataclasses import dataclass

from numba import njit

LIMIT = max(1, 3)


def double(x):
    return 2 * x


@functools.lru_cache
def outer(x):
    def inner(y):
        return (
            x
            + y
        )

    return inner(10)


@dataclass
class Box:
    width: float

    @property
    def area(self):
        return self.width ** 2


@njit
def twice(x):
    return 2 * x


@njit
def fourfold(x):
    return 2 * twice(x)


def start():
    return 5


START = start()
"""


@pytest.fixture
def toy(tmp_path):
    """A module of TEXT, and a function that swaps one piece of its text for another."""
    path = tmp_path / "toy.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("toy_of_swaps", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)

    def swap(one, two):
        assert TEXT.count(one) == 1
        return swaps.swapped(path, TEXT, TEXT.replace(one, two), swaps.Live())

    yield module, swap
    del sys.modules[spec.name]


@pytest.mark.parametrize(
    ("one", "two", "call", "before", "after"),
    [
        ("def double(x):\n    return 2 * x", "def double(x):\n    return 3 * x", lambda m: m.double(7), 14, 21),
        ("x\n            + y", "(x - y)", lambda m: m.outer(1), 11, -9),
        ("self.width ** 2", "self.width * 2", lambda m: m.Box(3.0).area, 9.0, 6.0),
    ],
)
def test_functions_properties_and_what_stands_in_them_are_swapped(toy, one, two, call, before, after):
    module, swap = toy
    assert call(module) == before
    if hasattr(module.outer, "cache_clear"):
        module.outer.cache_clear()
    assert swap(one, two)
    assert call(module) == after


def test_a_kernel_and_what_calls_it_are_compiled_anew(toy):
    module, swap = toy
    assert swap("def twice(x):\n    return 2 * x", "def twice(x):\n    return 5 * x")
    assert module.fourfold(1) == 10


def test_what_has_run_already_cannot_be_swapped(toy):
    module, swap = toy
    assert not swap("max(1, 3)", "max(1, 4)")  # at import
    assert module.LIMIT == 3
    assert module.twice(1) == 2
    assert not swap("def twice(x):\n    return 2 * x", "def twice(x):\n    return 5 * x")  # compiled


DOUBLE = (
    "estimators/room/x.py",
    "from numba import njit\n\n\ndef double(x):\n    return 2 * x\n\n\n@njit(cache=True)\ndef half(x):\n    return x / 2\n",
)
TESTS = """import time

from estimators.room.x import double, half


def test_of_zero():
    assert double(0) == 0


def test_of_seven():
    assert double(7) == 14


def test_of_the_kernel():
    assert half(double(7)) == 7


def test_that_fails_by_itself():
    assert double(1) == 3


def test_that_takes_long_by_itself():
    while True:
        pass
"""


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_session_tells_killed_from_survived_and_by_which_test(tmp_path, monkeypatch):
    root = tmp_path / "root"
    for name, text in {DOUBLE[0]: DOUBLE[1], "estimators/__init__.py": "", "estimators/room/__init__.py": "",
                       "tests/test_x.py": TESTS, "pyproject.toml": "[tool.pytest.ini_options]\n"}.items():  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(swaps.warm, "ROOT", root)
    monkeypatch.setattr(swaps.warm, "LINKED", ("pyproject.toml",))
    for name in [n for n in sys.modules if n.split(".")[0] == "estimators"]:
        monkeypatch.delitem(sys.modules, name)
    names = [f"tests/test_x.py::test_{n}" for n in ("of_zero", "of_seven", "of_the_kernel")]
    mutants_of = {
        "none": DOUBLE[1],
        "third": DOUBLE[1].replace("2 *", "3 *"),
        "power": DOUBLE[1].replace("2 * x", "x * 2"),
        "never": DOUBLE[1].replace("return", "while x: pass\n    return"),
        "text": "LIMIT = 3\n" + DOUBLE[1],
        "kernel": DOUBLE[1].replace("/ 2", "/ 3"),
    }
    tests = dict.fromkeys(names, 1.0)
    trials = [swaps.Trial(n, *DOUBLE, text, tests) for n, text in mutants_of.items()]
    trials += [swaps.Trial(n, *DOUBLE, mutants_of["power"], {f"tests/test_x.py::test_that_{n}_by_itself": 1.0})
               for n in ("fails", "takes_long")]  # fmt: skip
    trials.append(swaps.Trial("cut", *DOUBLE, mutants_of["power"], tests, budget=-1.0))
    subprocess.run([sys.executable, "-c", "from estimators.room.x import half; half(4)"], cwd=root, check=True)  # kept
    ends = tmp_path / "ends"

    def told(name, status, seconds, by):
        with ends.open("a") as out:
            out.write(f"{name} {status} {by.rpartition('::')[2]}\n")

    [(_, status, _)] = swaps.warm.run([("session", lambda home: swaps.tried(trials, 2, told, home), 60.0)], 1)
    assert status == 0
    found = {name: (int(end), by) for name, end, by in (line.split(" ") for line in ends.read_text().splitlines())}
    spun = found.pop("never")
    assert spun[1] == "test_of_seven"  # zero does not enter the loop
    assert mutants.ended(spun[0]) in ("timeout", "stuck")
    assert mutants.ended(found.pop("takes_long")[0]) == "stuck"
    assert found == {
        "none": (0, ""),
        "third": (1, "test_of_seven"),
        "power": (0, ""),
        "text": (swaps.UNFIT, ""),
        "cut": (swaps.CUT, ""),
        "fails": (swaps.HOLLOW, "test_that_fails_by_itself"),
        "kernel": (1, "test_of_the_kernel"),
    }
