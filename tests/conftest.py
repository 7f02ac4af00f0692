"""What all tests share: how hard Hypothesis searches, data and packages that may lack, checks of any federated algorithm.

Runs are derandomised, here and in CI, so that a failure is a change of the code and not of luck. `--deep` searches at
random and ten times as far. A test that must be frugal takes a fraction of `settings().max_examples`, never a number.
"""

import copy
import importlib
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

collect_ignore = ["bench/pfl_rounds.py"]  # a program of the benchmark, which needs torch and pfl

# Speed of the machine is not what a property test is about: no deadlines, and no complaint about slow examples.
COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("fixed", derandomize=True, max_examples=100, **COMMON)
settings.register_profile("deep", derandomize=False, max_examples=1000, **COMMON)
settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption("--deep", action="store_true", help="property tests at random and ten times as deep")


def pytest_configure(config):
    # Before test modules are imported: they read the number of examples at import.
    settings.load_profile("deep" if config.getoption("--deep") else "fixed")


@pytest.fixture
def shared_data():
    """A function from a path inside the project's real data sets to the file; the test skips where it is absent."""

    def find(name):
        path = Path(__file__).resolve().parents[2] / "shared" / "data" / name
        if not path.is_file():
            pytest.skip(f"needs ../shared/data/{name}, which is not part of the repository")
        return path

    return find


@pytest.fixture
def dp_accounting():
    """The package dp-accounting with its modules ``pld`` and ``rdp``; the test skips where it is absent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies, at import
        for name in ("pld", "rdp"):
            pytest.importorskip(f"dp_accounting.{name}", reason="dp-accounting is not installed")
        return importlib.import_module("dp_accounting")


@pytest.fixture
def same_bits():
    """A function that checks that 1 or 2 workers and a stop after round 2 give the same bits; returns the whole training.

    Its `task` is a function that makes the same task anew, for a number of `workers` if it is told one.
    """
    from estimators.federated.training import train, training

    def check(algorithm, task, rounds=5):
        whole = train(algorithm, task(), rounds=rounds, every=1)
        assert train(algorithm, task(workers=2), rounds=rounds, every=1).history == whole.history
        stored = next(copy.deepcopy(s) for s in training(algorithm, task(), rounds=rounds, every=1) if s.finished == 2)
        steps = list(training(algorithm, task(), rounds=rounds, every=1, state=stored.state, finished=2))
        assert [step.record for step in steps] == whole.history[2:]
        assert all((steps[-1].state[name] == value).all() for name, value in whole.state.items())
        return whole

    return check


@pytest.fixture
def idle_round():
    """A function that checks that an algorithm's first round on a task leaves its state alone; returns the record."""

    def check(algorithm, task):
        state = algorithm.start(task, rounds=1)
        before = copy.deepcopy(state)
        record = algorithm.round(task, state, 0)
        assert state.keys() == before.keys()
        assert all((state[name] == value).all() for name, value in before.items())
        return record

    return check
