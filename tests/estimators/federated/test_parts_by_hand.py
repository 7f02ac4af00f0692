"""Schedules, noise multipliers, guarantees and statistics of audits by hand, of clients that are not alike."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.federated import audit, audit_cases
from estimators.federated.privacy import (
    RowPrivacy,
    client_guarantee,
    ledger,
    ledger_lines,
    row_steps,
    spent,
    update_multiplier,
)
from estimators.federated.schedule import Schedule, epochs, fixed_batches, poisson_batches
from estimators.federated.task import Task

# --- schedules -------------------------------------------------------------------------------------------------------------


def batches(found, row):
    """The batches of a client, by its weights."""
    return [
        found.indices[row, s][found.weights[row, s] > 0].tolist() for s in range(found.steps[row])
    ]  # fmt: skip


def test_passes_have_every_row_once_in_batches_of_each_client():
    found = epochs([5, 3, 4], n_epochs=[2, 1, 0], batch_size=[2, 5, 1], seed=3, round=7)
    assert found.steps.tolist() == [6, 1, 0]
    assert found.weights.shape == (3, 6, 3)
    assert found.divisors.tolist() == [[2, 2, 1, 2, 2, 1], [3, 1, 1, 1, 1, 1], [1] * 6]
    first = batches(found, 0)
    assert [len(batch) for batch in first] == [2, 2, 1, 2, 2, 1]
    for half in (first[:3], first[3:]):
        assert sorted(itertools.chain(*half)) == [0, 1, 2, 3, 4]
    assert sorted(batches(found, 1)[0]) == [0, 1, 2]
    later = epochs([5, 3, 4], n_epochs=[2, 1, 0], batch_size=[2, 5, 1], seed=3, round=7, clients=[0])
    assert batches(later, 0) == first  # whoever else takes part
    other = epochs([5, 3, 4], n_epochs=[2, 1, 0], batch_size=[2, 5, 1], seed=3, round=8, clients=[0])
    assert batches(other, 0) != first
    long = epochs([50], n_epochs=2, batch_size=50, seed=3, round=7).indices[0]
    assert (long[0] != long[1]).any()  # shuffled anew


def test_batches_of_fixed_size_are_drawn_evenly_without_replacement():
    found = fixed_batches([4, 2], n_steps=[6000, 3], batch_size=[2, 5], seed=1, round=0)
    assert found.steps.tolist() == [6000, 3]
    assert found.divisors[0].tolist() == [2.0] * 6000
    assert found.divisors[1, :4].tolist() == [2.0, 2.0, 2.0, 1.0]
    chosen = np.sort(found.indices[0, :, :2], axis=1)
    pairs, number = np.unique(chosen, axis=0, return_counts=True)
    assert pairs.tolist() == [list(pair) for pair in itertools.combinations(range(4), 2)]
    assert stats.chisquare(number).pvalue > 1e-6
    assert all(sorted(batch) == [0, 1] for batch in batches(found, 1))
    assert fixed_batches([3], n_steps=0, batch_size=1, seed=0, round=0).indices.shape == (1, 0, 0)


def test_poisson_batches_have_each_row_with_its_chance():
    found = poisson_batches([10, 4], n_steps=4000, batch_size=[2.5, 4.0], seed=1, round=0)
    assert found.divisors.tolist() == [[2.5] * 4000, [4.0] * 4000]
    joined = np.zeros((4000, 10))
    for s, batch in enumerate(batches(found, 0)):
        joined[s, batch] = 1
    assert np.abs(joined.mean(axis=0) - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)
    assert joined.sum(axis=1).var() == pytest.approx(10 * 0.25 * 0.75, rel=0.12)
    assert all(batch == [0, 1, 2, 3] for batch in batches(found, 1)[:20])
    with pytest.raises(ValueError, match=r"client 1 has 4, not 4\.01"):
        poisson_batches([10, 4], n_steps=1, batch_size=[2.5, 4.01], seed=1, round=0)


def test_parts_of_schedules_are_their_rows_and_steps():
    indices = np.arange(12).reshape(2, 3, 2)
    weights, divisors = indices / 10, np.arange(1.0, 7.0).reshape(2, 3)
    whole = Schedule([4, 7], indices, weights, divisors, [3, 1])
    for chosen in ([1], slice(1, 2), np.array([False, True])):
        part = whole.rows(chosen)
        assert (part.clients.tolist(), part.steps.tolist()) == ([7], [1])
        np.testing.assert_array_equal(part.weights, weights[1:])
        np.testing.assert_array_equal(part.divisors, divisors[1:])
    one = whole.step(1, times=2)
    assert one.steps.tolist() == [2, 0]
    np.testing.assert_array_equal(one.indices, np.repeat(indices[:, [1]], 2, axis=1))
    np.testing.assert_array_equal(one.divisors, [[2.0, 2.0], [5.0, 5.0]])
    assert whole.step(0).steps.tolist() == [1, 1]
    for more, why in (
        ({"divisors": divisors * [[0.0], [1.0]]}, "divisors must be > 0"), ({"steps": [4, 1]}, "steps must be at most 3"),
        ({"clients": [1]}, "one entry for each of the 2 rows"), ({"weights": weights[..., :1]}, "must have shape"),
        ({"steps": [3, 1, 1]}, "one entry for each of the 2 rows"), ({"divisors": divisors[:1]}, "must have shape"),
    ):  # fmt: skip
        given = {"clients": [4, 7], "indices": indices, "weights": weights, "divisors": divisors, "steps": [3, 1], **more}
        with pytest.raises(ValueError, match=why):
            Schedule(**given)
    for wrong, why in (
        ({"clients": [2]}, "positions below 2"),
        ({"sizes": [[1]]}, "a list with the rows"),
        ({"sizes": [1, 0]}, "client 1 has no data"),
        ({"n_epochs": [1, 1, 1]}, "each of the 2 clients"),
    ):
        with pytest.raises(ValueError, match=why):
            epochs(**{"sizes": [3, 3], "n_epochs": 1, "batch_size": 1, "seed": 0, "round": 0, **wrong})


# --- privacy ---------------------------------------------------------------------------------------------------------------


class Said(Task):
    """What is asked of a task here: rows of clients, work, groups."""

    def __init__(self, sizes, work, groups=()):
        self.sizes, self.work, self.groups = np.array(sizes), work, dict(groups)


def terms(work, sizes=(10, 4)):
    return Said(sizes, work)


def test_steps_of_rows_are_counted_with_their_shares():
    fixed = terms({"rule": "fixed", "n_steps": [3, 5], "batch_size": 5})
    assert [(e.sampling, e.rate, e.number) for e in row_steps(fixed, [2, 0])] == [("fixed", 0.5, 6), ("fixed", 1.0, 0)]
    passes = terms({"rule": "epochs", "n_epochs": 3, "batch_size": [1, 4]})
    assert [(e.sampling, e.rate, e.number) for e in row_steps(passes, 4)] == [("fixed", 1.0, 12)] * 2
    poisson = terms({"rule": "poisson", "n_steps": 2, "batch_size": [2, 1]})
    assert [(e.sampling, e.rate, e.number) for e in row_steps(poisson, 4)] == [("poisson", 0.2, 8), ("poisson", 0.25, 8)]


def test_guarantees_of_passes_are_those_of_gaussian_noise():
    """Twelve passes over rows of which one is replaced: sensitivity two clipping norms, noise z root 12 smaller."""
    passes = terms({"rule": "epochs", "n_epochs": 3, "batch_size": 2})
    found = spent(passes, [6.0, 0.0], trainings=4, delta=[1e-5, 1e-3])
    assert found[1] is None
    exact = float(gaussian_epsilon(delta=1e-5, sensitivity=2 * np.sqrt(12), sigma=6.0))
    assert found[0].eps == pytest.approx(exact, rel=1e-6)
    assert (found[0].delta, found[0].simulated) == (1e-5, True)
    privacy = RowPrivacy(eps=[2.0, np.inf], delta=[1e-5, 1e-3], clip=1.0)
    assert privacy.budgets(passes) == [(2.0, 1e-5), (float("inf"), 1e-3)]
    z = privacy.multipliers(passes, rounds=4)
    assert z[1] == 0.0
    assert gaussian_epsilon(delta=1e-5, sensitivity=2 * np.sqrt(12), sigma=z[0]) == pytest.approx(2.0, rel=1e-6)
    first, none = privacy.guarantees(passes, rounds=4)
    assert first.eps == pytest.approx(2.0, rel=1e-6)
    assert none is None
    assert privacy.multipliers(passes, rounds=4, rho=[0.01, 0.0])[0] > z[0]
    with pytest.raises(ValueError, match="client 0: "):
        privacy.multipliers(passes, rounds=4, rho=[50.0, 0.0])
    with pytest.raises(ValueError, match="one entry for each of 2 clients"):
        RowPrivacy(eps=[1.0, 2.0, 3.0], delta=1e-5, clip=1.0).budgets(passes)
    for more, why in (({"eps": 0.0}, "eps must be > 0"), ({"delta": 1.0}, "delta"), ({"clip": 0.0}, "clip"),
                      ({"accountant": "guess"}, "accountant")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            RowPrivacy(**{"eps": 1.0, "delta": 1e-5, "clip": 1.0, **more})


def test_updates_and_counts_share_one_multiplier():
    z = update_multiplier(1.5, 2.0)
    assert z**-2 + 4.0**-2 == pytest.approx(1.5**-2)
    assert update_multiplier(1.5, np.inf) == pytest.approx(1.5)
    assert update_multiplier(0.0, 1.0) == 0.0
    assert np.isfinite(update_multiplier(1.5, 0.7501))
    with pytest.raises(ValueError, match=r"count_noise must be above half the multiplier 1\.5"):
        update_multiplier(1.5, 0.75)
    for sampling, sensitivity in (("poisson", 1.0), ("fixed", 2.0)):
        found = client_guarantee(z, 2.0, rate=1.0, rounds=9, delta=1e-4, sampling=sampling)
        exact = float(gaussian_epsilon(delta=1e-4, sensitivity=sensitivity * 3, sigma=1.5))
        assert found.eps == pytest.approx(exact, rel=1e-6)
        assert (found.trusted, found.simulated, found.delta) == ("server", True, 1e-4)
    assert client_guarantee(1.5, np.inf, rate=1.0, rounds=1, delta=1e-4).adjacency == "client add-remove"


def test_ledgers_group_clients_that_are_alike():
    promise = spent(terms({"rule": "epochs", "n_epochs": 1, "batch_size": 2}), 3.0, trainings=1, delta=1e-5)[0]
    algorithm = SimpleNamespace(guarantees=lambda task, rounds: [promise, promise, None, promise, None])
    groups = {"a": np.array([0, 1, 3]), "b": np.array([2])}
    task = Said([9, 9, 9, 4, 4], {"batch_size": [3, 3, 3, 3, 0]}, groups)
    found = [(e["group"], e["clients"], e["rows"], e["batch"], e["eps"]) for e in ledger(algorithm, task, rounds=3)]
    eps = promise.eps
    assert found == [("a", 2, 9, 3, eps), ("a", 1, 4, 3, eps), ("b", 1, 9, 3, None), ("others", 1, 4, None, None)]
    lines = ledger_lines(ledger(algorithm, task, rounds=3))
    assert len(lines) == 3
    assert lines[0].startswith("a, 3 clients: ")
    assert f"eps {promise.eps:.6g} at delta 1e-05" in lines[0]
    assert lines[1:] == ["b, 1 clients: no privacy", "others, 1 clients: no privacy"]
    task.groups = {}
    assert {entry["group"] for entry in ledger(algorithm, task, rounds=3)} == {"all"}
    with pytest.raises(ValueError, match=r"entries\[1\] must be a line"):
        ledger_lines([ledger(algorithm, task, rounds=3)[0], 7])


# --- audits ----------------------------------------------------------------------------------------------------------------


def test_statistics_of_rows_by_their_densities():
    releases = np.array([[0.3, -1.2, 2.0], [1.0, 1.0, 1.0]])
    for rate, shift, base, z in ((0.3, 1.0, 0.0, 0.7), (1.0, 2.0, -1.0, 1.5)):
        found = audit.row_statistics(releases, multiplier=z, rate=rate, shift=shift, base=base)
        without, present = (stats.norm.pdf(releases, base + move, z) for move in (0.0, shift))
        exact = np.log((1 - rate) + rate * present / without).sum(axis=1)
        away = (releases - base) / z
        np.testing.assert_allclose(found[:, 0], exact, rtol=1e-12)
        np.testing.assert_allclose(found[:, 1:], np.column_stack([away.sum(1), np.ptp(away, axis=1), np.abs(away).max(1)]))
    default = audit.row_statistics(releases, multiplier=0.7, rate=0.3)
    np.testing.assert_array_equal(default, audit.row_statistics(releases, multiplier=0.7, rate=0.3, shift=1.0, base=0.0))


@pytest.mark.parametrize(("right", "guesses", "canaries", "delta", "beta"),
                         [(70, 100, 100, 0.0, 0.05), (90, 100, 300, 1e-4, 0.01), (60, 60, 60, 1e-3, 0.2)])  # fmt: skip
def test_one_run_bounds_solve_their_inequality(right, guesses, canaries, delta, beta):
    eps = audit.one_run_bound(right, guesses=guesses, canaries=canaries, delta=delta, beta=beta)
    law = stats.binom(guesses, np.exp(eps) / (1 + np.exp(eps)))
    worst = max(sum(law.pmf(k) for k in range(right - i, right)) / i for i in range(1, right + 1))
    assert law.sf(right - 1) + 2 * canaries * delta * worst == pytest.approx(beta, rel=1e-5)
    said = audit.one_run_bound(right, guesses=guesses, canaries=canaries, delta=delta)
    assert said == audit.one_run_bound(right, guesses=guesses, canaries=canaries, delta=delta, beta=0.05)


def test_bounds_are_those_of_clopper_and_pearson_at_their_event():
    rng = np.random.default_rng(0)
    without, present = rng.normal(size=4000), rng.normal(size=4000) + 1.5
    for delta in (0.0, 0.05):
        found = audit.epsilon_bound(without, present, delta=delta, beta=0.02)
        seen = [int(((world[1000:] >= found.threshold) == found.above).sum()) for world in (without, present)]
        assert (found.counts, found.runs) == (tuple(seen), 3000)
        more, less = seen if found.likely == "without" else seen[::-1]
        low, high = stats.beta.ppf(0.01, more, 3000 - more + 1), stats.beta.ppf(0.99, less + 1, 3000 - less)
        assert found.eps == pytest.approx(np.log((low - delta) / high), rel=1e-9)
        assert (found.refutes(found.eps), found.refutes(found.eps * (1 - 1e-9))) == (False, True)
    found = audit.gaussian_bound(without, present, delta=1e-4, beta=0.02)
    more, less = found.counts if found.likely == "without" else found.counts[::-1]
    low, high = stats.beta.ppf(0.01, more, 3000 - more + 1), stats.beta.ppf(0.99, less + 1, 3000 - less)
    mu = stats.norm.ppf(low) - stats.norm.ppf(high)
    assert found.eps == pytest.approx(float(gaussian_epsilon(delta=1e-4, sensitivity=mu, sigma=1.0)), rel=1e-9)
    assert audit.epsilon_bound(without, present, delta=0.05) == audit.epsilon_bound(without, present, delta=0.05, beta=0.01)
    assert audit.gaussian_bound(without, without, delta=1e-4).eps == 0.0


def test_silos_of_canaries_row_by_row():
    own = audit.silos(3, 4, -1.0, None)
    np.testing.assert_array_equal(own.x, 1e3 * np.eye(4))
    np.testing.assert_array_equal(own.y, np.full(4, -1e9))
    shared = audit.silos(2, 3, 1.0, -1)
    np.testing.assert_array_equal(shared.x, [[1e3], [1e3], [1e3]])
    np.testing.assert_array_equal(shared.y, [1e9, -1e9, -1e9])
    absent = audit.silos(1, 3, 0.0, -1)
    np.testing.assert_array_equal(absent.x, [[0.0], [1e3], [1e3]])
    assert audit.Fixed(1.5, 0.5).multipliers(terms({}, (1, 2, 3)), rounds=9).tolist() == [1.5] * 3


def test_cases_of_choices_and_of_tuning_claim_what_they_run():
    told = []

    def choose(scores, *, eps, sensitivity, rng, size):
        told.append((scores.tolist(), eps, sensitivity, size))
        return (rng.random(size) < 0.5).astype(int)

    found = audit_cases.exponential(eps=0.7, candidates=3, runs=500, choose=choose)
    assert told == [([1.0, 0.0, 0.0], 0.7, 1.0, 500), ([0.0, 1.0, 1.0], 0.7, 1.0, 500)]
    assert (found.claimed, found.adjacency, found.refuted) == (0.7, "row", False)
    assert "among 3" in found.mechanism
    told.clear()
    audit_cases.exponential(runs=40, choose=choose)
    assert (len(told[0][0]), told[0][1]) == (100, 1.0)
    tuned = audit_cases.tuned(runs=4000)
    assert tuned.mechanism == "best of about 5 Gaussian runs (eta = 1)"
    assert (tuned.adjacency, tuned.refuted, tuned.bound.delta, tuned.bound.beta) == ("row add-remove", False, 0.01, 0.01)
    one = float(gaussian_epsilon(delta=0.01, sensitivity=1, sigma=2.0))
    assert one < tuned.claimed < 4 * one
    assert tuned.bound.eps < tuned.claimed
