"""Privacy of rows and clients in a task: which noise, which adjacency, what was run, who is promised what."""

from typing import Any

import numpy as np
import pytest

from estimators.accounting.budget import guarantee
from estimators.accounting.events import Event
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.federated.algorithms import Local
from estimators.federated.data import Federation, synthetic_federation
from estimators.federated.models import linear_regression, logistic_regression
from estimators.federated.privacy import (
    RowPrivacy,
    client_guarantee,
    client_multiplier,
    ledger,
    ledger_lines,
    row_steps,
    spent,
    update_multiplier,
)
from estimators.federated.task import Task
from estimators.federated.training import train

SEEDED = "simulated, no guarantee; the system's entropy would give"


def task(sizes=(8, 20, 20, 50), groups=None, **work):
    ends = np.cumsum(sizes)
    rng = np.random.default_rng(0)
    rows = [np.arange(e - n, e) for e, n in zip(ends, sizes, strict=True)]
    federation = Federation(rng.normal(size=(ends[-1], 2)), rng.normal(size=ends[-1]), rows)
    return Task(federation, linear_regression(2), work=work, seed=0, groups=groups)


RULES = {
    "poisson": {"rule": "poisson", "batch_size": 10, "n_steps": 3},
    "fixed": {"rule": "fixed", "batch_size": 10, "n_steps": 3},
    "epochs": {"rule": "epochs", "batch_size": 10, "n_epochs": 3},
}


@pytest.mark.parametrize("rule", RULES)
def test_promises_are_kept_by_what_was_run_under_the_rule_s_adjacency(rule):
    made, asked = task(**RULES[rule]), RowPrivacy(eps=[1.0, 2.0, np.inf, 4.0], delta=1e-3, clip=0.5)
    state = train(Local(learning_rate=0.1, privacy=asked), made, rounds=5).state
    promised: Any = asked.guarantees(made, rounds=5)
    kept: Any = spent(made, state["multiplier"], trainings=5, delta=1e-3)
    assert promised[2] is kept[2] is None
    for k, eps in ((0, 1.0), (1, 2.0), (3, 4.0)):
        assert eps * (1 - 2e-3) < kept[k].eps <= eps * (1 + 1e-9)
        assert kept[k].accountant.split()[0] in ("pld", "exact")
        assert promised[k] == kept[k]
        assert kept[k].adjacency == ("row add-remove" if rule == "poisson" else "row")
        assert kept[k].trusted == "client"
    half: Any = spent(made, state["multiplier"], trainings=[2, 0, 5, 5], delta=1e-3)
    assert half[0].eps < 1.0
    assert half[1].eps < 1e-300
    assert half[3] == kept[3]


def test_steps_of_rows_are_those_of_the_schedule():
    for rule, work in RULES.items():
        made = task(**work)
        schedule, planned = made.schedule(0), row_steps(made, 4)
        uses = schedule.weights.sum(axis=(1, 2)) / made.sizes  # of a row, on average
        for k, plan in enumerate(planned):
            assert plan.sampling == ("poisson" if rule == "poisson" else "fixed")
            if rule != "poisson":
                assert plan.rate * plan.number / 4 == pytest.approx(uses[k])
            if rule != "epochs":
                assert (plan.number, plan.rate) == (4 * schedule.steps[k], schedule.divisors[k, 0] / made.sizes[k])


def test_passes_cost_what_as_many_full_releases_cost_whatever_the_batches():
    made = task(**RULES["epochs"])
    found: Any = spent(made, 7.0, trainings=2, delta=1e-5)
    for g in found:
        assert g.eps == pytest.approx(float(gaussian_epsilon(delta=1e-5, sensitivity=2 * np.sqrt(6), sigma=7.0)))
        assert g.mechanism == "gaussian"


def test_a_client_with_fewer_rows_than_a_batch_is_not_amplified():
    small = RowPrivacy(eps=1.0, delta=1e-5, clip=1.0).multipliers(task(**RULES["poisson"]), rounds=2)
    assert gaussian_epsilon(delta=1e-5, sensitivity=np.sqrt(6), sigma=small[0]) == pytest.approx(1.0)


def test_eps_out_of_reach_names_the_client():
    asked = RowPrivacy(eps=[1.0, 1e-3, 1.0, 1.0], delta=[1e-5, 1e-300, 1e-5, 1e-5], clip=1.0)
    with pytest.raises(ValueError, match=r"client 1: eps=0\.001 is out of reach"):
        asked.multipliers(task(**RULES["poisson"]), rounds=1)
    with pytest.raises(ValueError, match="one entry for each of 4 clients"):
        RowPrivacy(eps=[1.0, 2.0], delta=1e-5, clip=1.0).multipliers(task(**RULES["fixed"]), rounds=1)
    with pytest.raises(ValueError, match="accountant"):
        RowPrivacy(eps=1.0, delta=1e-5, clip=1.0, accountant="gdp")


def test_counts_and_updates_together_are_one_gaussian():
    z = client_multiplier(eps=2.0, delta=1e-5, rate=1.0, rounds=10)
    updates = update_multiplier(z, 3 * z)
    assert updates > z
    # two releases of a client, shifts 1 and 1/2
    ratio = np.sqrt(10 * (updates**-2 + (0.5 / (3 * z)) ** 2))
    assert gaussian_epsilon(delta=1e-5, sensitivity=ratio, sigma=1.0) == pytest.approx(2.0)
    said = client_guarantee(updates, 3 * z, rate=1.0, rounds=10, delta=1e-5)
    assert said.eps == pytest.approx(2.0)
    assert (said.adjacency, said.trusted) == ("client add-remove", "server")
    assert update_multiplier(z, np.inf) == z
    with pytest.raises(ValueError, match="count_noise must be above"):
        update_multiplier(z, z / 2)


def test_client_noise_is_that_of_dp_accounting(dp_accounting):
    dp = dp_accounting
    event = dp.ComposedDpEvent([dp.GaussianDpEvent(1.5), dp.GaussianDpEvent(2 * 4.0)])  # a count moves by a half
    other = dp.rdp.RdpAccountant().compose(event, 20).get_epsilon(1e-5)
    ours = client_guarantee(1.5, 4.0, rate=1.0, rounds=20, delta=1e-5).eps
    assert 0.9 * other < ours <= other  # exact, against Renyi divergences


def test_ledger_has_every_client_once_in_each_of_its_groups():
    made = task(groups={"small": [0], "middle": [1, 2]}, **RULES["poisson"])
    private = Local(learning_rate=0.1, privacy=RowPrivacy(eps=[1.0, 2.0, 2.0, np.inf], delta=1e-3, clip=1.0))
    entries = ledger(private, made, rounds=2)
    assert [(e["group"], e["clients"], e["rows"], e["batch"]) for e in entries] == [
        ("small", 1, 8, 8),
        ("middle", 2, 20, 10),
        ("others", 1, 50, 10),
    ]
    assert [e["eps"] and round(e["eps"], 2) for e in entries] == [1.0, 2.0, None]
    assert all(e["eps"] <= asked for e, asked in zip(entries, (1.0 + 1e-11, 2.0), strict=False))
    promised = [{**entry, "eps": entry["eps"] and round(entry["eps"], 2)} for entry in entries]
    assert ledger_lines(promised) == [
        f"small, 1 clients: {SEEDED} eps 1 at delta 0.001 (gaussian; row add-remove; raw data seen by the client)",
        f"middle, 2 clients: {SEEDED} eps 2 at delta 0.001 (sampled gaussian; row add-remove; raw data seen by the client)",
        "others, 1 clients: no privacy",
    ]
    real = [entry | {"simulated": False} for entry in promised[:1]]
    assert ledger_lines(real) == [
        "small, 1 clients: eps 1 at delta 0.001 (gaussian; row add-remove; raw data seen by the client)"
    ]


def test_nothing_is_promised_without_privacy():
    federation = synthetic_federation(clients=2, rows=10, seed=0)
    made = Task(federation, logistic_regression(10, federation.classes), work=RULES["epochs"], seed=0)
    assert ledger_lines(ledger(Local(learning_rate=0.1), made, rounds=1)) == ["all, 2 clients: no privacy"]


def test_sampling_rates_of_the_server_speak_of_clients():
    g = guarantee(Event(noise=1.0, sampling="poisson", rate=0.1, number=3), delta=1e-5, trusted="server")
    assert g.adjacency == "client add-remove"


def test_work_without_batches_has_no_size_of_them_in_the_ledger():
    made = task(**RULES["poisson"])
    del made.work["batch_size"]
    entries = ledger(Local(learning_rate=0.1), made, rounds=1)
    assert sum(entry["clients"] for entry in entries) == made.n_clients
    assert {(entry["batch"], entry["eps"]) for entry in entries} == {(None, None)}
