"""What all tests share: how hard Hypothesis searches.

Runs are derandomised, here and in CI, so that a failure is a change of the code and not of luck. `--deep` searches at
random and ten times as far. A test that must be frugal takes a fraction of `settings().max_examples`, never a number.
"""

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
