"""Attacks on budgets by whole clients: forks, clocks, folders that cannot be written, batches that are killed, numbers in
errors.  What was released was charged before, and an error says what to do."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Thread

import pytest

from estimators.accounting import Budget, BudgetFile, Guarantee, budget_file
from estimators.private import MeanClient, RateClient, RegressionClient, read_reports

ONE = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
SECRET = 8675309.25


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.budget"


def reported(client, times):
    """How many reports a copy of a client makes before it is refused."""
    done = 0
    for _ in range(times):
        try:
            client.report([0.1, 0.2])
            done += 1
        except ValueError:
            pass
    return done


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_copies_of_a_client_in_other_processes_share_its_file(start, path):
    """Spawned processes get pickled clients, forked ones the object itself with what it had seen."""
    if start == "fork" and not hasattr(os, "fork"):
        pytest.skip("no fork")
    budget = BudgetFile.create(path, data="ward", eps=5.0)
    client = MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=budget)
    client.report([0.1, 0.2])
    if start == "spawn":
        with get_context("spawn").Pool(2) as pool:
            done = sum(pool.starmap(reported, [(client, 4)] * 2))
    else:
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                os._exit(reported(client, 4))
            children.append(child)
        done = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert done == 4
    assert budget.spent() == 5.0
    with pytest.raises(ValueError, match="would bring the total to eps=6"):
        client.report([0.1, 0.2])


def test_a_clock_that_is_set_back_loses_nothing(path, monkeypatch):
    """Entries stand in the order in which they came, whatever the time says; times are for people."""
    budget = BudgetFile.create(path, data="a", eps=2.0)
    budget.spend(ONE)

    class Past(budget_file.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(1970, 1, 1, tzinfo=tz)

    monkeypatch.setattr(budget_file, "datetime", Past)
    BudgetFile(path).spend(ONE)
    monkeypatch.undo()
    times = [entry.time for entry in BudgetFile(path).entries]
    assert times[1] == "1970-01-01T00:00:00+00:00" < times[0]
    for each in (budget, BudgetFile(path), pickle.loads(pickle.dumps(budget))):
        with pytest.raises(ValueError, match="would bring the total to eps=3"):
            each.spend(ONE)


NOBODY = 65534


@pytest.fixture
def ordinary(tmp_path_factory):
    """A folder of an ordinary user, whom a superuser, who may write everywhere, becomes for the test."""
    if os.geteuid() != 0:
        yield tmp_path_factory.mktemp("ordinary")
        return
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are shut to others
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="folders elsewhere have no such modes")
def test_a_folder_that_cannot_be_written_releases_nothing(ordinary):
    path = ordinary / "a.budget"
    client = RateClient(eps=1.0, budget=BudgetFile.create(path, data="a", eps=5.0))
    ordinary.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            client.report([0, 1])
    finally:
        ordinary.chmod(0o700)
    assert BudgetFile(path).spent() == 0.0
    assert client.report([0, 1]).trials == 2


BATCH = """
import os, signal, sys
import estimators.private.client as made
from estimators.accounting import BudgetFile
from estimators.private import MeanClient

client = MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=BudgetFile(sys.argv[1]))
spend = BudgetFile.spend

def killed(self, guarantee, *more):
    spend(self, guarantee, *more)
    os.kill(os.getpid(), signal.SIGKILL)

BudgetFile.spend = killed
print(client.report([0.1, 0.9]).to_json(), flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_client_that_is_killed_after_it_paid_has_released_nothing(path):
    BudgetFile.create(path, data="a", eps=5.0)
    found = subprocess.run([sys.executable, "-c", BATCH, path], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (-signal.SIGKILL, "")
    assert BudgetFile(path).spent() == 1.0


CLIENTS = {
    "mean": (lambda **more: MeanClient(bounds=(0.0, 1.0), **more), [0.5, SECRET]),
    "rate": (lambda **more: RateClient(**more), [0, 1, SECRET]),
    "regression": (lambda **more: RegressionClient(norm=1.0, delta=1e-6, **more), ([[SECRET]], [SECRET, 1.0])),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_no_error_quotes_a_row(name, path):
    """A spent budget, a lost file, rows of a wrong kind or shape: what is said names no value."""
    make, rows = CLIENTS[name]
    budget = BudgetFile.create(path, data="a", eps=0.5, delta=1e-5)
    client = make(eps=1.0, budget=budget)
    rows = rows if isinstance(rows, tuple) else (rows,)
    wrong = (
        [*rows[:-1], [*rows[-1], str(SECRET)]],
        [*rows[:-1], [*rows[-1], float("nan")]],
        [*rows[:-1], [rows[-1], [SECRET]]],
    )
    said = []
    for data in (rows, *wrong):
        with pytest.raises((ValueError, TypeError)) as caught:
            client.report(*data)
        said.append(str(caught.value))
    path.unlink()
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        client.report(*rows)
    said.append(str(caught.value))
    assert not [each for each in said if "8675309" in each or "8.675" in each]
    assert all(len(each) > 10 for each in said)


@pytest.mark.parametrize("text", ['{"eps": 1e400}', "[" * 9000, '{"a": 1, "a": 2}', "NaN", '[{"kind": "mean"}]', "\x00"])
def test_hostile_reports_are_refused_by_name(text):
    with pytest.raises(ValueError, match="report") as caught:
        read_reports(text)
    assert len(str(caught.value)) < 600


def test_a_forged_report_cannot_claim_a_free_release(path):
    """A file that says its releases cost nothing is refused: eps must be above 0, whatever the checksum is."""
    BudgetFile.create(path, data="a", eps=1.0).spend(ONE)
    content = json.loads(path.read_text())
    content["releases"][0]["guarantee"]["eps"] = 0.0
    content.pop("checksum")
    path.write_text(json.dumps({**content, "checksum": budget_file.digest(content)}))
    with pytest.raises(ValueError, match=r"damaged or no budget \(eps must be > 0.*put a whole copy back"):
        BudgetFile(path)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_threads_that_share_a_budget_spend_no_more_than_one(kind, path):
    """Threads change places between what is looked at and what is entered, as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        for number in range(60 if kind == "memory" else 3):
            budget = Budget(eps=10.0, delta=0.0, adjacency="row")
            if kind == "file":
                budget = BudgetFile.create(path.with_name(f"{number}.budget"), data="a", eps=10.0)
            done = []

            def spend(budget=budget, done=done):
                for _ in range(6):
                    with suppress(ValueError):
                        budget.spend(ONE)
                        done.append(1)

            threads = [Thread(target=spend) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert (len(done), budget.spent()) == (10, 10.0)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_lock_that_is_a_link_empties_no_file(path):
    """Whoever may write into the folder could have the client overwrite any file of its user."""
    budget = BudgetFile.create(path, data="a", eps=2.0)
    victim = path.with_name("precious")
    victim.write_text("kept")
    lock = path.with_name(f".{path.name}.lock")
    lock.symlink_to(victim)
    with pytest.raises(OSError, match="must not be a symbolic link"):
        MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=budget).report([0.1, 0.2])
    assert victim.read_text() == "kept"
    assert budget.spent() == 0.0
    lock.unlink()
    assert MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=budget).report([0.1, 0.2]).n == 2
