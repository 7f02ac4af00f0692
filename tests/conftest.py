"""What all tests share: how hard Hypothesis searches, data and packages that may lack, checks of any federated algorithm.

Runs are derandomised, here and in CI, so that a failure is a change of the code and not of luck. `--deep` searches at
random and ten times as far. A test that must be frugal takes a fraction of `settings().max_examples`, never a number.
"""

import copy
import copyreg
import doctest
import functools
import importlib
import inspect
import io
import os
import signal
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from estimators.system.processes import ONE_THREAD

# Programs: one of the benchmark, which needs torch and pfl, and one that stands beside its module.
collect_ignore = ["bench/pfl_rounds.py", "mutants.py", "swaps.py"]

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
    # Workers share the cores, and threads of their BLAS would spend most of the time waiting for each other.
    if config.getoption("numprocesses", None):
        os.environ.update({name: os.environ.get(name, one) for name, one in ONE_THREAD.items()})
    # A script's job in the background ignores Ctrl-C, and so would the programs that tests stop with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


# --- calls that doctests show ---------------------------------------------------------------------------------------------


def copy_of(value):
    """A deep copy, also of clients, whose budgets refuse users a copy in memory; budgets in files stay the same ones."""
    from estimators.accounting import Budget, BudgetFile

    def twin(budget):
        made = Budget(eps=budget.eps, delta=budget.delta, adjacency=budget.adjacency)
        made.releases = list(budget.releases)
        return made

    table = {Budget: lambda budget: (lambda: twin(budget), ()), BudgetFile: lambda budget: (lambda: budget, ())}
    added = {
        kind: way for kind, way in table.items() if kind not in copyreg.dispatch_table
    }  # all, unless a copy makes copies
    copyreg.dispatch_table.update(added)
    try:
        return copy.deepcopy(value)
    finally:
        for kind in added:
            del copyreg.dispatch_table[kind]


@pytest.fixture(scope="session")
def copied():
    """The function `copy_of`."""
    return copy_of


PACKAGES = ("estimators", "theory", "figures")


class Recorder:
    """Keeps the arguments of the outermost calls of what it wraps, and the last object of each class that had one."""

    def __init__(self):
        self.calls, self.inside, self.objects = {}, False, {}

    def wrap(self, label, function, kind=None):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            if self.inside:
                return function(*args, **kwargs)
            kept = copy_of((args[1:] if kind else args, kwargs))
            if args:
                self.objects[type(args[0])] = args[0]
            self.inside = True
            try:
                result = function(*args, **kwargs)
            finally:
                self.inside = False
            self.calls.setdefault(label, (kind or function, *kept))
            return result

        return wrapped


@pytest.fixture(scope="session")
def doctest_calls():
    """A function from modules to a valid call of each of their public functions and methods whose doctest has one.

    It returns a dict from labels to (function, args, kwargs); with `made`, also of classes, as they are called.
    """
    return lambda modules, made=False: recorded(tuple(modules), made)


@functools.cache
def recorded(modules, made):
    recorder, patched, wrapped = Recorder(), [], {}
    for module in modules:
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(thing):
                wrapped[thing] = recorder.wrap(name, thing)
            elif inspect.isclass(thing):
                for key, method in list(vars(thing).items()):
                    if made and key == "__init__" and inspect.isfunction(method):
                        patched.append((thing, key, method, recorder.wrap(name, method, thing)))
                    elif not key.startswith("_") and inspect.isfunction(method):
                        patched.append((thing, key, method, recorder.wrap(f"{name}.{key}", method)))
                    elif not key.startswith("_") and isinstance(method, classmethod):
                        replaced = classmethod(recorder.wrap(f"{name}.{key}", method.__func__))
                        patched.append((thing, key, method, replaced))
    for owner, key, _, replaced in patched:
        setattr(owner, key, replaced)
    try:
        for module in modules:
            for test in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
                scope = dict(vars(module))
                for example in test.examples:
                    scope |= {k: wrapped[v] for k, v in scope.items() if inspect.isfunction(v) and v in wrapped}
                    if example.exc_msg is None:
                        with redirect_stdout(io.StringIO()), warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            exec(compile(example.source, test.name, "single"), scope)
    finally:
        for owner, key, method, _ in patched:
            setattr(owner, key, method)
    return recorder.calls | of_heirs(recorder)


def of_heirs(recorder):
    """Return calls of methods that classes inherit, with the arguments that a doctest gave the method elsewhere.

    Each is of the last object that the doctests made of the class, as they left it; what is no call of it is left out.
    """
    given, found = {call[0]: call[1:] for call in recorder.calls.values()}, {}
    for cls, thing in recorder.objects.items():
        for key, method in own_and_inherited(cls):
            label = f"{cls.__name__}.{key}"
            if key.startswith("_") or not inspect.isfunction(method) or method not in given or label in recorder.calls:
                continue
            (_, *rest), kwargs = given[method]
            call = copy_of((thing, *rest)), copy_of(kwargs)
            try:
                with redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    method(*copy_of(call[0]), **copy_of(kwargs))
            except Exception:  # nothing that the class can be asked
                continue
            found[label] = (method, *call)
    return found


def own_and_inherited(cls):
    """Return (name, attribute) of what a class defines or inherits from classes of our packages, as the class has it."""
    found = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in PACKAGES:
            for key, attribute in vars(base).items():
                found.setdefault(key, attribute)
    return list(found.items())
