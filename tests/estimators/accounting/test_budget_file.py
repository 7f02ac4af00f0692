"""A budget in a file: it counts what left, whatever is killed, copied, raced, damaged or put back."""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators.accounting import Budget, BudgetFile, Event, Guarantee, budget_file, guarantee, in_parallel, total_epsilon
from estimators.accounting.budget_file import digest
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.private import MeanClient, RateClient
from estimators.system import files

ONE = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.budget"


def test_three_releases_of_one_are_three(path):
    BudgetFile.create(path, data="wards", eps=3.0)
    for left in (2.0, 1.0, 0.0):
        BudgetFile(path, "wards").spend(ONE, "borrow fit")  # opened anew each time, as by another process
        assert BudgetFile(path).left() == left
    budget = BudgetFile(path)
    assert budget.spent() == 3.0
    assert str(budget).startswith("data set 'wards': eps=3 at delta=0 spent in 3 releases; of eps=3, eps=0 is left")
    assert [entry.what for entry in budget.entries] == ["borrow fit"] * 3
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"would bring the total to eps=4 at delta=0; the budget is eps=3 \(.*'wards'\)"):
        budget.spend(ONE)
    assert path.read_bytes() == before


def test_gaussian_and_sampled_releases_go_through_the_accountant(path):
    """Exact for Gaussian noise, and the events of training survive the file."""
    gauss = Guarantee(1.0, 1e-6, "row add-remove", "client", "gaussian", rho=0.02)
    budget = BudgetFile.create(path, data="a", eps=9.0, delta=1e-5, adjacency="row add-remove")
    for _ in range(4):
        budget.spend(gauss)
    exact = float(gaussian_epsilon(delta=1e-5, sensitivity=np.sqrt(2 * 4 * 0.02), sigma=1.0))
    assert BudgetFile(path).spent() == pytest.approx(exact, rel=1e-12)
    training = guarantee(Event(noise=1.0, sampling="poisson", rate=0.01, number=100), delta=1e-5)
    budget.spend(training)
    assert BudgetFile(path).releases == [*[gauss] * 4, training]
    assert budget.spent() == total_epsilon((*[gauss] * 4, training), 1e-5) < exact + training.eps


@given(st.lists(st.floats(0.01, 3.0), min_size=1, max_size=6), st.floats(0.05, 6.0))
def test_the_limit_is_never_passed(tmp_path_factory, costs, limit):
    budget = BudgetFile.create(tmp_path_factory.mktemp("b") / "a", data="a", eps=limit)
    accepted = 0.0
    for cost in costs:
        try:
            budget.spend(Guarantee(cost, 0.0, "row", "client", "answers"))
        except ValueError:
            assert accepted + cost > limit
        else:
            accepted += cost
    assert budget.spent() == pytest.approx(accepted, rel=1e-12)
    assert accepted <= limit * (1 + 1e-8)


def test_clients_charge_the_file_and_copies_charge_the_same_one(path):
    budget = BudgetFile.create(path, data="ward", eps=2.0)
    client = MeanClient(bounds=(0.0, 1.0), eps=1.0, budget=budget)
    twin, third = pickle.loads(pickle.dumps(client)), copy.deepcopy(client)
    client.report([0.1, 0.2])
    twin.report([0.1, 0.2])
    for each in (client, twin, third):
        with pytest.raises(ValueError, match="would bring the total to eps=3"):
            each.report([0.1, 0.2])
    assert budget.spent() == 2.0


def test_a_budget_in_memory_has_no_copies():
    client = RateClient(eps=1.0)
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot be copied or pickled: .*BudgetFile"):
            make(client.budget)
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(client)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_cannot_spend_the_parents_budget():
    client = RateClient(eps=1.0)
    child = os.fork()
    if child == 0:
        try:
            client.report([0, 1])
        except ValueError as error:
            os._exit(3 if "another process" in str(error) else 4)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    client.report([0, 1])


def test_a_pickle_without_its_file_releases_nothing(path):
    client = RateClient(eps=1.0, budget=BudgetFile.create(path, data="a", eps=1.0))
    text = pickle.dumps(client)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no budget is here"):
        pickle.loads(text)
    with pytest.raises(FileNotFoundError, match="no budget is here"):
        client.report([0, 1])
    BudgetFile.create(path, data="a", eps=1.0)
    for spend in (lambda: pickle.loads(text), lambda: client.report([0, 1])):
        with pytest.raises(ValueError, match="is another budget than the one that was opened"):
            spend()


def test_an_older_copy_put_back_is_noticed(path):
    budget = BudgetFile.create(path, data="a", eps=2.0)
    old = path.read_bytes()
    budget.spend(ONE)
    pickled = pickle.dumps(budget)
    path.write_bytes(old)
    for spend in (lambda: budget.spend(ONE), lambda: pickle.loads(pickled), budget.spent):
        with pytest.raises(ValueError, match="has lost releases that were in it: it is an older copy"):
            spend()


def spend_one(path, times):
    done = 0
    for _ in range(times):
        try:
            BudgetFile(path).spend(ONE)
            done += 1
        except ValueError:
            pass
    return done


def test_processes_together_spend_no_more_than_one(path):
    BudgetFile.create(path, data="a", eps=20.0)
    with get_context("spawn").Pool(2) as pool:
        done = pool.starmap(spend_one, [(path, 15)] * 2)
    assert sum(done) == 20
    assert BudgetFile(path).spent() == 20.0
    assert [each.name for each in path.parent.iterdir()] == [path.name]


RELEASING = """
import os, signal, sys
from estimators.accounting import BudgetFile
from estimators.private import RateClient

budget = BudgetFile(sys.argv[1])

def release():
    report = RateClient(eps=1.0, budget=budget).report([0, 1, 1])
    print(report.value, flush=True)
"""

KILLED = """
name, after = sys.argv[2], sys.argv[3] == "after"
call = getattr(os, name)

def killed(*arguments, **options):
    if after:
        call(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

release()
setattr(os, name, killed)
release()
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize(
    ("name", "when", "entered"), [("fsync", "before", 1), ("replace", "before", 1), ("replace", "after", 2)]
)
def test_a_kill_at_each_step_never_counts_too_little(name, when, entered, path):
    BudgetFile.create(path, data="a")
    command = [sys.executable, "-c", RELEASING + KILLED, path, name, when]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout.count("\n")) == (-signal.SIGKILL, 1)
    assert BudgetFile(path).spent() == entered
    BudgetFile(path).spend(ONE)  # no lock stays, and no part of a file
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_at_any_moment_never_counts_too_little(path):
    """What came out was entered before; at most one release was entered that did not come out."""
    BudgetFile.create(path, data="a")
    rng = np.random.default_rng(1)
    for _ in range(3):
        before = len(BudgetFile(path).entries)
        command = [sys.executable, "-c", f"{RELEASING}\nwhile True:\n    release()", path]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            time.sleep(rng.uniform(0.02, 0.1))
            process.send_signal(signal.SIGKILL)
            released = 1 + sum(line.endswith("\n") for line in process.stdout)
        entered = len(BudgetFile(path).entries) - before
        assert released <= entered <= released + 1


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_disk_that_fails_releases_nothing(step, path, monkeypatch):
    client = RateClient(eps=1.0, budget=BudgetFile.create(path, data="a", eps=5.0))
    written = files.os if step != "open" else None

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    if written is None:
        monkeypatch.setattr(
            "builtins.open", lambda file, mode="r", *a, **k: fail() if "x" in mode else OPEN(file, mode, *a, **k)
        )
    else:
        monkeypatch.setattr(written, step, fail)
    with pytest.raises(OSError, match="No space left"):
        client.report([0, 1])
    monkeypatch.undo()
    assert BudgetFile(path).spent() in (0.0, 1.0)  # never a file that cannot be read


OPEN = open


def changed(content, **new):
    """A file that somebody has changed and given a checksum that fits."""
    content = {key: value for key, value in {**content, **new}.items() if key != "checksum"}
    return json.dumps({**content, "checksum": digest(content)})


def release(**new):
    return {"time": "2026-01-01T00:00:00+00:00", "what": "a", "guarantee": {**ONE.to_dict(), **new}}


HOSTILE = {
    "nothing": lambda content: "",
    "half": lambda content: json.dumps(content)[:200],
    "no object": lambda content: "[1]",
    "deep": lambda content: "[" * 10_000,
    "changed": lambda content: json.dumps({**content, "eps": 1e9}),
    "one entry less": lambda content: changed({k: v for k, v in content.items() if k != "delta"}),
    "one entry more": lambda content: changed(content, owner="me"),
    "version": lambda content: changed(content, version=3),
    "version before orders": lambda content: changed(content, version=1),
    "order": lambda content: changed(content, order=2.05),
    "order a list": lambda content: changed(content, order=[2]),
    "order 0": lambda content: changed(content, order=0.0),
    "order of a limit without delta": lambda content: changed(content, order=2.0),
    "version as truth": lambda content: changed(content, version=True),
    "kind": lambda content: changed(content, kind="report"),
    "eps negative": lambda content: changed(content, eps=-1.0),
    "eps no number": lambda content: changed(content, eps="nan"),
    "eps a list": lambda content: changed(content, eps=[1]),
    "delta 1": lambda content: changed(content, delta=1.0),
    "adjacency": lambda content: changed(content, adjacency="nobody"),
    "adjacency a list": lambda content: changed(content, adjacency=["row"]),
    "data": lambda content: changed(content, data="a\x1b[2J"),
    "id": lambda content: changed(content, id=7),
    "releases a number": lambda content: changed(content, releases=3),
    "releases of numbers": lambda content: changed(content, releases=[3]),
    "a negative spend": lambda content: changed(content, releases=[release(eps=-10.0)]),
    "a spend of NaN": lambda content: changed(content, releases=[release(eps="nan")]),
    "a negative rate": lambda content: changed(content, releases=[release(rho=-1.0)]),
    "negative divergences": lambda content: changed(content, releases=[release(renyi=[-1.0] * 100)]),
    "an event of nothing": lambda content: changed(content, releases=[release(events=[{}])]),
    "an event of noise -1": lambda content: changed(
        content, releases=[release(events=[{"mechanism": "pure", "noise": -1, "sampling": "all", "rate": 1, "number": 1}])]
    ),
    "adjacency of a release": lambda content: changed(content, adjacency="client", releases=[release()]),
    "simulated": lambda content: changed(content, releases=[release(simulated=True)]),
    "simulated, perhaps": lambda content: changed(content, releases=[release(simulated="no")]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_or_hostile_file_allows_nothing(name, path):
    budget = BudgetFile.create(path, data="a", eps=5.0)
    text = HOSTILE[name](json.loads(path.read_text()))
    path.write_text(text)
    for spend in (lambda: BudgetFile(path), lambda: RateClient(eps=1.0, budget=budget).report([0, 1])):
        with pytest.raises(ValueError, match=r"the budget .*a\.budget") as caught:
            spend()
        assert len(str(caught.value)) < 600
    assert path.read_text() == text


def test_as_many_releases_but_others_are_noticed(path):
    budget = BudgetFile.create(path, data="a", eps=2.0)
    budget.spend(ONE)
    path.write_text(changed(json.loads(path.read_text()), releases=[release(eps=0.5)]))
    assert BudgetFile(path).spent() == 0.5  # whoever sees it first cannot know
    with pytest.raises(ValueError, match="has lost releases that were in it"):
        budget.spent()


def test_a_file_takes_as_many_releases_and_letters_as_it_can_hold(path, monkeypatch):
    budget = BudgetFile.create(path, data="n" * 200)
    assert budget.data == "n" * 200
    with pytest.raises(ValueError, match="names of 1 to 200"):
        BudgetFile(path, "n" * 201)
    monkeypatch.setattr(budget_file, "ENTRIES", 2)
    budget.spend(ONE)
    budget.spend(ONE)
    with pytest.raises(ValueError, match="holds 2 releases, as many as it can"):
        budget.spend(ONE)
    assert len(budget.entries) == 2


def test_a_file_grows_to_the_largest_that_is_read(path, tmp_path, monkeypatch):
    twin, budget = (BudgetFile.create(each, data="a") for each in (tmp_path / "b.budget", path))
    twin.spend(ONE)
    size = twin.path.stat().st_size
    monkeypatch.setattr(budget_file, "TEXT", size - 1)
    with pytest.raises(ValueError, match=f"would have more than {size - 1} bytes"):
        budget.spend(ONE)
    monkeypatch.setattr(budget_file, "TEXT", size)
    budget.spend(ONE)
    assert budget.spent() == 1.0


def test_a_checksum_is_of_what_is_said_in_any_order():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 2, "b": [1]})
    with pytest.raises(ValueError, match="JSON"):
        digest({"eps": float("nan")})  # which no file can hold


def test_a_delta_of_releases_without_limit_stays_below_one(path):
    budget = BudgetFile.create(path, data="a")
    for _ in range(2):
        budget.spend(Guarantee(1.0, 0.6, "row", "client", "other"))
    assert budget.stated_delta() == np.nextafter(1.0, 0.0)
    assert budget.spent() == np.inf


def test_a_changed_file_of_the_same_kind_is_read(path):
    """The forger of these tests is right but for what he forges."""
    BudgetFile.create(path, data="a", eps=5.0)
    path.write_text(changed(json.loads(path.read_text()), releases=[release()]))
    assert BudgetFile(path).spent() == 1.0


def test_a_budget_of_another_data_set_is_refused(path):
    BudgetFile.create(path, data="wards", eps=5.0)
    with pytest.raises(ValueError, match=r"is the budget of the data set 'wards', not of 'schools'"):
        BudgetFile(path, "schools")


def test_links(path, tmp_path):
    budget = BudgetFile.create(path, data="a", eps=2.0)
    (tmp_path / "soft").symlink_to(path)
    BudgetFile(tmp_path / "soft").spend(ONE)
    assert budget.spent() == 1.0
    assert (tmp_path / "soft").is_symlink()
    os.link(path, tmp_path / "hard")
    with pytest.raises(ValueError, match="has a second name"):
        budget.spend(ONE)


def test_a_file_is_made_once(path, tmp_path):
    BudgetFile.create(path, data="a", eps=1.0).spend(ONE)
    with pytest.raises(FileExistsError, match="may hold a budget"):
        BudgetFile.create(path, data="a", eps=1.0)
    with pytest.raises(FileNotFoundError):
        BudgetFile.create(tmp_path / "none" / "a", data="a")
    with pytest.raises(ValueError, match="no regular file"):
        BudgetFile(tmp_path)


def test_a_limit_is_lowered_but_never_raised(path):
    budget = BudgetFile.create(path, data="a")
    budget.spend(ONE)
    assert not budget.limited
    assert "no limit is set" in str(budget)
    assert budget.summary()["limit"] is None
    budget.lower(eps=3.0, delta=1e-6)
    budget.lower(eps=3.0, delta=1e-9)
    budget.lower(eps=2.0)
    budget.lower(eps=2.0)  # the same is not higher
    for more in ({"eps": 2.5}, {"eps": 1.0, "delta": 1e-9}, {"eps": np.inf}):
        with pytest.raises(ValueError, match="can be lowered but not raised"):
            budget.lower(**more)
    BudgetFile(path).lower(eps=0.5)
    assert budget.left() == 0.0  # of less than was spent before
    with pytest.raises(ValueError, match=r"the budget is eps=0\.5"):
        budget.spend(Guarantee(1e-3, 0.0, "row", "client", "answers"))


@pytest.mark.parametrize("order", [24.0, float("inf")])
def test_the_limit_of_a_filter_is_not_chosen_after_answers(path, order):
    budget = BudgetFile.create(path, data="a", eps=3.0, delta=1e-6, order=order)
    budget.lower(eps=2.0, delta=1e-6)
    budget.spend(ONE)
    with pytest.raises(ValueError, match=r"set it before the\s+first one"):
        budget.lower(eps=1.5, delta=1e-6)
    assert BudgetFile(path).eps == 2.0


def test_the_limit_of_pure_releases_is_lowered_at_any_time(path):
    budget = BudgetFile.create(path, data="a", eps=3.0, order=float("inf"))
    budget.spend(ONE)
    budget.lower(eps=2.0)
    assert BudgetFile(path).eps == 2.0


def test_a_file_without_limit_is_stated_at_the_deltas_of_its_releases(path):
    budget = BudgetFile.create(path, data="a")
    for delta in (1e-6, 0.0, 3e-6):
        budget.spend(Guarantee(1.0, delta, "row", "client", "other"))
    assert budget.summary()["delta"] == pytest.approx(4e-6)
    assert budget.spent() == pytest.approx(3.0)


@pytest.mark.parametrize("eps", [1e-300, 1e300])
def test_extreme_costs(eps, path):
    budget = BudgetFile.create(path, data="a", eps=eps)
    budget.spend(Guarantee(eps, 0.0, "row", "client", "answers"))
    assert (budget.spent(), budget.left()) == (eps, 0.0)
    with pytest.raises(ValueError, match="would bring the total"):
        budget.spend(Guarantee(eps, 0.0, "row", "client", "answers"))


def test_what_cannot_be_read_again_is_not_written(path):
    budget = BudgetFile.create(path, data="a", adjacency="row add-remove")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="more than 19 digits"):
        budget.spend(guarantee(Event(noise=1e9, sampling="poisson", rate=1e-3, number=10**25), delta=1e-6))
    assert path.read_bytes() == before


def test_a_seeded_release_is_not_accounted_for(path):
    client = RateClient(eps=1.0, budget=BudgetFile.create(path, data="a", eps=5.0))
    with pytest.raises(
        ValueError, match="simulated, no guarantee, so no budget can account for it; leave out the generator"
    ):
        client.report([0, 1], np.random.default_rng(0))
    assert BudgetFile(path).spent() == 0.0


def test_names_are_names(path):
    for name in ("", "  ", "a\nb", "x" * 300, 7, None):
        with pytest.raises(ValueError, match="must be names of 1 to 200 printable letters"):
            BudgetFile.create(path, data=name)
    assert not path.exists()


def test_parallel_releases_cost_as_much_as_the_worst():
    small, large = (Guarantee(e, 1e-6, "row", "client", "gaussian", rho=e**2 / 40) for e in (0.5, 1.0))
    both = in_parallel([small, large, small])
    assert (both.eps, both.delta, both.rho, both.mechanism) == (1.0, 1e-6, 1.0 / 40, "gaussian")
    assert total_epsilon((both, both), 1e-6) == total_epsilon((large, large), 1e-6)
    mixed = in_parallel([small, ONE])
    assert (mixed.eps, mixed.delta, mixed.rho) == (1.0, 1e-6, None)
    for other in (small, ONE):  # worse than each at every order
        assert np.all(mixed.divergences() >= other.divergences())
    assert in_parallel([ONE, Guarantee(1.0, 0.0, "row", "client", "answers", simulated=True)]).simulated
    for wrong in ([], [1], [ONE, Guarantee(1.0, 0.0, "client", "client", "two-point")]):
        with pytest.raises(ValueError, match="guarantees must"):
            in_parallel(wrong)


def test_budget_of_another_kind(path):
    with pytest.raises(ValueError, match="adjacency 'row', the budget for 'client'"):
        BudgetFile.create(path, data="a", adjacency="client").spend(ONE)
    assert isinstance(BudgetFile(Path(path)), Budget)


def test_a_file_from_before_orders_is_read_and_goes_on(path):
    budget = BudgetFile.create(path, data="a", eps=5.0)
    content = {key: value for key, value in json.loads(path.read_text()).items() if key != "order"}
    path.write_text(changed(content, version=1, releases=[release()]))
    budget = BudgetFile(path)
    assert budget.order is None
    budget.spend(ONE)
    assert BudgetFile(path).spent() == 2.0


@pytest.mark.parametrize("order", [24.0, float("inf")])
def test_a_filter_is_the_files_and_refuses_for_every_process(path, order):
    say = {"eps": 1.0, "delta": 1e-6, "adjacency": "row", "order": order}
    budget, twin = BudgetFile.create(path, data="a", **say), Budget(**say)
    small = Guarantee(0.09, 0.0, "row", "client", "discrete-laplace")
    taken = 11 if order == float("inf") else 9  # 9.3 parts by the bound at that order
    for _ in range(taken):
        twin.spend(small)
        pickle.loads(pickle.dumps(budget)).spend(small)
    for each, message in ((twin, "would bring the total"), (budget, r"would bring the total.*a\.budget")):
        with pytest.raises(ValueError, match=message):
            each.spend(small)
    assert len(BudgetFile(path).entries) == taken
    assert budget.order == order
    assert budget.spent() == twin.spent() <= 1.0
    assert budget.odometer() == twin.odometer() == pytest.approx(0.09 * taken)
    assert "whatever was chosen by earlier answers" in str(budget)
