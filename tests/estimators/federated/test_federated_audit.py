"""Audits: bounds that hold, that are tight where they can be, and that catch every mechanism broken on purpose."""

# pyright: reportOptionalMemberAccess=false, reportIncompatibleMethodOverride=false

import dataclasses
from functools import partial

import numpy as np
import pytest
from scipy import stats

from estimators.accounting.accountants import epsilon
from estimators.accounting.adaped import adaped_epsilon
from estimators.accounting.events import Event
from estimators.accounting.mechanisms import exponential_choice, gaussian_epsilon
from estimators.accounting.privacy import epsilon_from_rdp
from estimators.accounting.tuning import TruncatedNegativeBinomial, tuned_epsilon
from estimators.federated import audit_cases
from estimators.federated.algorithms.fedhdp import DPFedAvg
from estimators.federated.audit import (
    Bound,
    client_releases,
    epsilon_bound,
    events,
    gaussian_bound,
    intervals,
    one_run_bound,
    row_releases,
    row_statistics,
    wilson,
)
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.schedule import GaussianNoise, Schedule
from estimators.federated.task import Task

RNG = np.random.default_rng
POISSON = {"rule": "poisson", "n_steps": 1}


# --- bounds from samples -----------------------------------------------------------------------------------------------


def test_intervals_are_those_of_clopper_and_pearson():
    low, high = intervals([0, 3, 10], 10, 0.025)
    assert low == pytest.approx([0.0, 0.066739, 0.691503], abs=1e-6)
    assert high == pytest.approx([0.308497, 0.652453, 1.0], abs=1e-6)


@pytest.mark.parametrize("beta", [0.3, 0.01, 1e-6])
def test_bounds_to_choose_by_are_wilsons(beta):
    counts = np.array([0, 3, 17, 40])
    for k, low, high in zip(counts, *wilson(counts, 40, beta), strict=True):
        ends = stats.binomtest(int(k), 40).proportion_ci(1 - 2 * beta, method="wilson")
        assert (low, high) == pytest.approx((ends.low, ends.high), abs=1e-9)


@pytest.mark.parametrize("size", [30, 5000])
def test_events_are_counted_as_one_counts(size):
    """Ties count as not below; of many thresholds the outermost twenty on each side are kept."""
    pair = [RNG(i).normal(i, 1, (size, 2)).round(4 if size > 100 else 1) for i in (0, 1)]
    thresholds, counts = events(pair, 1)
    assert counts.tolist() == [[int((x[:, 1] >= t).sum()) for t in thresholds] for x in pair]
    pooled = np.unique(np.concatenate([x[:, 1] for x in pair]))
    assert set(thresholds) <= set(pooled)
    np.testing.assert_array_equal(thresholds[:20], pooled[:20])
    np.testing.assert_array_equal(thresholds[-20:], pooled[-20:])
    assert thresholds.size == pooled.size if size == 30 else thresholds.size < 410
    assert np.max(np.diff(np.searchsorted(pooled, thresholds))) <= pooled.size / 350 + 1


def test_of_many_thresholds_a_360th_is_kept_and_twenty_at_either_end():
    values = np.arange(9730.0)[:, None]  # 27 times 360, and a few
    thresholds, counts = events((values[::2], values[1::2]), 0)
    kept = {*range(20), *range(0, 9730, 27), *range(9710, 9730)}
    assert thresholds.tolist() == sorted(kept)
    assert counts.sum(axis=0).tolist() == [9730 - t for t in sorted(kept)]


def test_four_runs_are_enough_and_three_of_them_count():
    assert epsilon_bound(np.zeros(4), np.ones(4), delta=0.1).runs == 3


def test_worlds_in_which_no_event_tells_anything_prove_nothing():
    said = {"delta": 0.9, "beta": 0.01, "statistic": 0, "threshold": 0.0, "above": True, "likely": "with", "counts": (3, 3)}
    assert epsilon_bound(np.zeros(4), np.zeros(4), delta=0.9) == Bound(eps=0.0, runs=3, **said)
    assert gaussian_bound(np.zeros(400), np.zeros(400), delta=0.1).eps == 0.0


def test_of_equal_statistics_the_first_is_told_and_bounds_are_of_one_percent_unless_they_are_told_otherwise():
    pair = [RNG(k).normal(3.0 * k, 1.0, 400)[:, None] * [1.0, 1.0] for k in (0, 1)]
    for bound in (epsilon_bound, gaussian_bound):
        found = bound(*pair, delta=0.05)
        assert found.statistic == 0
        assert found == bound(*pair, delta=0.05, beta=0.01) != bound(*pair, delta=0.05, beta=0.02)
    how = {"guesses": 50, "canaries": 50, "delta": 1e-5}
    assert one_run_bound(45, **how) == one_run_bound(45, **how, beta=0.05) < one_run_bound(45, **how, beta=0.06)


@pytest.mark.parametrize(("shift", "above"), [(5.0, True), (-5.0, False)])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_event_is_the_statistic_and_the_side_that_tell_most(shift, above, swapped):
    """Chosen in the first quarter of the runs, counted in the others, by Clopper and Pearson's ends for beta / 2."""
    rng = RNG(8)
    pair = rng.normal(size=(400, 3)), rng.normal([0.0, shift, 0.5], 1.0, (400, 3))
    worlds = pair[::-1] if swapped else pair
    found = epsilon_bound(*worlds, delta=0.05, beta=0.02)
    assert (found.statistic, found.runs, found.delta, found.beta) == (1, 300, 0.05, 0.02)
    assert found.counts == tuple(((x[100:, 1] >= found.threshold) == found.above).sum() for x in worlds)
    likely = ("without", "with").index(found.likely)
    few, many = found.counts[1 - likely], found.counts[likely]
    assert few < 30 < 270 < many
    assert found.above == (above if likely != swapped else not above)
    low, high = (stats.binomtest(int(k), 300).proportion_ci(0.98, method="exact") for k in (many, few))
    assert found.eps == pytest.approx(np.log((low.low - 0.05) / high.high), rel=1e-9)
    mu = gaussian_bound(*worlds, delta=0.05, beta=0.02)
    low, high = (stats.binomtest(int(k), 300).proportion_ci(0.98, method="exact") for k in sorted(mu.counts, reverse=True))
    shift_of_ends = stats.norm.ppf(low.low) - stats.norm.ppf(high.high)
    assert gaussian_epsilon(delta=0.05, sensitivity=shift_of_ends, sigma=1.0) == pytest.approx(mu.eps, rel=1e-9)


def test_a_bound_exceeds_the_true_eps_no_more_often_than_it_says():
    rng = np.random.default_rng(0)
    delta, true = 0.05, float(gaussian_epsilon(delta=0.05, sensitivity=1.0, sigma=1.0))
    pairs = [(rng.normal(0, 1, 400), rng.normal(1, 1, 400)) for _ in range(200)]
    assert sum(epsilon_bound(*pair, delta=delta, beta=0.2).refutes(true) for pair in pairs) <= 54  # 40 + 2.5 deviations
    assert sum(gaussian_bound(*pair, delta=delta, beta=0.2).refutes(true) for pair in pairs) <= 54


def test_equal_worlds_bound_nothing_and_separate_worlds_bound_by_their_number():
    rng = np.random.default_rng(1)
    same = epsilon_bound(rng.normal(size=2000), rng.normal(size=2000), delta=0.0, beta=0.01)
    assert same.eps < 0.15
    apart = epsilon_bound(np.zeros(2000), np.ones(2000), delta=0.0, beta=0.01)
    edge = 0.005 ** (1 / 1500)  # all of the 1500 runs that count against none of them, beta / 2 on each side
    assert apart.eps == pytest.approx(np.log(edge / (1 - edge)))
    assert apart.counts in ((0, 1500), (1500, 0))


def test_randomised_response_is_bounded_near_its_eps_from_either_side():
    rng = np.random.default_rng(2)
    p = 1 / (1 + np.exp(-1.0))
    a, b = rng.random(40_000) < 1 - p, rng.random(40_000) < p
    for pair in ((a, b), (b, a)):
        assert 0.9 < epsilon_bound(*(x.astype(float) for x in pair), delta=0.0).eps < 1.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: epsilon_bound([1.0], [1.0], delta=0.1), "at least 4 runs"),
        (lambda: epsilon_bound(np.zeros((8, 2)), np.zeros(8), delta=0.1), "same statistics"),
        (lambda: epsilon_bound(np.zeros(8), np.full(8, np.nan), delta=0.1), "with_canary holds NaN"),
        (lambda: epsilon_bound(np.zeros(8), np.zeros(8), delta=1.5), "delta"),
        (lambda: audit_cases.rows("shuffled", batch=2), "rule"),
        (lambda: client_releases(DPFedAvg(learning_rate=1.0, rate=1.0), canary=2, rounds=1), "canary"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- what is seen is what the theory says -------------------------------------------------------------------------------


def test_without_noise_a_canary_is_seen_as_its_clipped_gradient_in_the_batches_it_is_in():
    seen = row_releases(
        multiplier=0.0, clip=0.3, work={**POISSON, "batch_size": 5}, rows=20, rounds=4, silo_count=50, canary=1
    )
    assert seen.shape == (1000, 4)
    assert np.minimum(abs(seen), abs(seen - 1)).max() < 1e-4
    assert abs(seen.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / seen.size)
    absent = row_releases(
        multiplier=0.0, clip=0.3, work={**POISSON, "batch_size": 5}, rows=20, rounds=4, silo_count=5, canary=0
    )
    assert (absent == 0).all()


def test_releases_of_one_silo_have_seed_0_unless_they_are_told_otherwise_and_a_million_rows_at_most():
    how = {"multiplier": 1.0, "clip": 0.3, "work": {**POISSON, "batch_size": 2}, "rounds": 2, "silo_count": 1, "canary": 1}
    one, same, other = (row_releases(rows=4, **how, **seed) for seed in ({}, {"seed": 0}, {"seed": 1}))
    assert one.tolist() == same.tolist() != other.tolist()
    with pytest.raises(ValueError, match="rows"):
        row_releases(rows=10**6 + 1, others=1, **how)


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_releases_are_read_as_a_likelihood_ratio_a_sum_a_range_and_a_distance(rate):
    seen, z = RNG(5).normal(0.5, 2.0, (30, 4)), 1.3
    for shift, base, more in ((1.0, 0.0, {}), (2.0, -3.0, {"shift": 2.0, "base": -3.0})):
        absent, there = (stats.norm.pdf(seen, base + move, z) for move in (0.0, shift))
        ratio = np.log((1 - rate) + rate * there / absent).sum(axis=1)
        away = (seen - base) / z
        exact = ratio, away.sum(axis=1), (seen.max(axis=1) - seen.min(axis=1)) / z, np.abs(away).max(axis=1)
        found = row_statistics(seen, multiplier=z, rate=rate, **more)
        np.testing.assert_allclose(found, np.transpose(exact), rtol=1e-9, atol=1e-12)


def test_fixed_batches_have_one_row_more_or_less_of_the_canary():
    work = {"rule": "fixed", "n_steps": 1, "batch_size": 2}
    seen = row_releases(multiplier=0.0, clip=1.0, work=work, rows=6, rounds=2, silo_count=300, canary=1, others=-1)
    assert np.minimum(abs(seen + 2), abs(seen)).max() < 1e-4
    assert abs((seen > -1).mean() - 1 / 3) < 4 * np.sqrt(2 / 9 / seen.size)


def test_a_server_adds_the_promised_noise_to_updates_and_counts():
    made = DPFedAvg(learning_rate=1e-3, rate=1.0, clip=1.0, clip_rate=1e-4, multiplier=1.0, count_noise=2.0, delta=0.01)
    updates, counts = client_releases(made, canary=True, rounds=400)
    z = (1 - 1 / 16) ** -0.5
    assert abs(updates.mean() - 1) < 4 * z / 20
    assert abs(updates.std() / z - 1) < 4 / np.sqrt(800)
    assert abs(counts.mean() + 0.5) < 4 * 2 / 20
    assert abs(counts.std() / 2 - 1) < 4 / np.sqrt(800)


def test_what_a_server_of_three_clients_releases_is_about_each_of_them_and_has_seed_0():
    made = DPFedAvg(learning_rate=1e-3, rate=1.0, clip=2.0, clip_rate=1e-4, multiplier=0.2, count_noise=0.5, delta=0.01)
    for canary, told in ((True, 1.0), (False, 0.0)):
        updates, counts = client_releases(made, canary=canary, rounds=36, clients=3)
        assert updates.shape == (36, 3)
        assert (abs(updates.mean(axis=0) - told) < 5 * updates.std(axis=0) / 6).all()
        assert abs(updates.std() / 0.2 - 1) < 0.2
        assert abs(counts.mean() + 1.5 * told) < 5 * counts.std() / 6  # halves of three who are clipped
    same, other = (client_releases(made, canary=False, rounds=36, clients=3, seed=seed)[1].tolist() for seed in (0, 1))
    assert counts.tolist() == same != other


def test_the_claim_for_one_client_is_of_updates_and_counts_together():
    """Both have the noise that one Gaussian of `multiplier` has, for any share of the counts; alone, updates have less."""
    whole = epsilon(Event(mechanism="gaussian", noise=1.5, rate=0.5, sampling="poisson"), delta=0.01)
    for count_noise in (1.6, 3.0):
        one, many = (audit_cases.clients(clients=k, multiplier=1.5, count_noise=count_noise, rounds=40) for k in (1, 3))
        assert one.claimed == pytest.approx(whole, rel=0.02)
        assert many.claimed < one.claimed
        assert ("counts" in one.mechanism, "counts" in many.mechanism) == (True, False)


@pytest.mark.parametrize(("rate", "count_noise"), [(0.4, 2.5), (1.0, 1.6)])
def test_one_client_is_judged_by_the_likelihood_ratios_of_updates_alone_and_of_both(monkeypatch, rate, count_noise):
    """By SciPy's densities: updates move by 1, counts by -1/2, together and with a chance of `rate`."""
    monkeypatch.setattr(audit_cases, "judged", lambda name, claim, worlds, **how: worlds)
    how = {"rate": rate, "multiplier": 1.5, "count_noise": count_noise}
    worlds = audit_cases.clients(**how, rounds=20, seed=3)
    made = DPFedAvg(learning_rate=1e-3, clip=1.0, clip_rate=1e-4, delta=0.01, **how)
    z = (1.5**-2 - (2 * count_noise) ** -2) ** -0.5  # so that both together have the noise of `multiplier`
    for canary, seen in enumerate(worlds):
        updates, counts = client_releases(made, canary=bool(canary), rounds=20, seed=6 + canary)
        normal = [stats.norm(m, z).logpdf(updates[:, 0]) for m in (0.0, 1.0)]
        for column, added in ((0, (0.0, 0.0)), (4, [stats.norm(m, count_noise).logpdf(counts) for m in (0.0, -0.5)])):
            absent, there = (one + more for one, more in zip(normal, added, strict=True))
            ratio = np.logaddexp(np.log1p(-rate) if rate < 1 else -np.inf, np.log(rate) + there - absent)
            np.testing.assert_allclose(seen[:, column], ratio, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(seen[:, 8], counts)


@pytest.mark.parametrize(
    ("rule", "batch", "rounds"), [("poisson", 3, 2), ("poisson", 8, 1), ("fixed", 3, 2), ("fixed", 8, 3), ("epochs", 8, 3)]
)
def test_rows_are_judged_by_likelihood_ratios_of_what_is_released_against_what_is_claimed(monkeypatch, rule, batch, rounds):
    """A row that is added moves a sum by 1 and comes with chance batch / n; one that is replaced moves it by 2."""
    asked, z = [], 1.3

    def releases(**how):
        asked.append(how)
        return RNG(len(asked)).normal(-1, 2, (50, how["rounds"]))

    monkeypatch.setattr(audit_cases, "row_releases", releases)
    monkeypatch.setattr(audit_cases, "judged", lambda *said, **how: (*said, how))
    sizes = {"batch": batch, "n": 8, "rounds": rounds, "multiplier": z, "silo_count": 50}
    name, claim, worlds, how = audit_cases.rows(rule, **sizes, delta=0.02, beta=0.03, seed=4)
    replaced, all_rows, steps = rule != "poisson", batch == 8, "1 step" if rounds == 1 else f"{rounds} steps"
    assert name == f"DP-SGD of rows, {rule}, batch {batch} of 8, {steps}, z = 1.3"
    same = {"multiplier": z, "clip": 0.5, "rows": 8, "rounds": rounds, "silo_count": 50}
    same["work"] = {"rule": rule, "batch_size": batch, "n_epochs" if rule == "epochs" else "n_steps": 1}
    same["others"] = None if all_rows or not replaced else -1  # whose sum hides nothing of the canary
    canaries = (-1, 1) if replaced else (0, 1)
    assert asked == [{**same, "canary": canary, "seed": 8 + i} for i, canary in enumerate(canaries)]
    base = 0 if not replaced else -1 if all_rows else -batch
    shift, q = (2.0, batch / 8) if replaced else (1.0, batch / 8)
    for i, found in enumerate(worlds):
        seen = RNG(i + 1).normal(-1, 2, (50, rounds))
        without, there = (stats.norm.pdf(seen, base + move, z) for move in (0.0, shift))
        np.testing.assert_allclose(found[:, 0], np.log(1 - q + q * there / without).sum(axis=1), rtol=1e-9, atol=1e-12)
    event = Event(noise=z, sampling="fixed" if replaced else "poisson", rate=q, number=rounds)
    assert claim.eps == pytest.approx(epsilon(event, delta=0.02), rel=1e-9)
    assert (how.pop("delta"), how.pop("beta")) == (0.02, 0.03)
    exact = how.pop("exact")
    assert (exact is None) == (not all_rows)
    for one, delta in ((claim, 0.02), (exact, 1e-5)) if all_rows else ():
        true = float(gaussian_epsilon(delta=delta, sensitivity=shift * np.sqrt(rounds), sigma=z))
        assert one.eps == pytest.approx(true, rel=1e-6)


@pytest.mark.parametrize(("number", "rate"), [(1, 1.0), (1, 0.3), (6, 1.0), (6, 0.5)])
def test_clients_are_judged_with_the_guarantee_of_what_is_seen(monkeypatch, number, rate):
    asked = []

    def releases(made, **how):
        asked.append((made.rate, made.multiplier, made.count_noise, made.clip, made.delta, how))
        return RNG(0).normal(size=(20, number)), RNG(1).normal(size=20)

    monkeypatch.setattr(audit_cases, "client_releases", releases)
    monkeypatch.setattr(audit_cases, "judged", lambda *said, **how: (*said, how))
    name, claim, worlds, how = audit_cases.clients(clients=number, rate=rate, rounds=20, delta=0.02, beta=0.03, seed=4)
    assert name == f"DP-FedAvg of {number} clients, rate {rate:g}, 1 round, z = 1" + ", counts 1" * (number == 1)
    assert asked == [
        (rate, 1.0, 1.0, 1.0, 0.02, {"canary": canary, "rounds": 20, "clients": number, "seed": 8 + canary})
        for canary in (False, True)
    ]
    alone = 1.0 if number == 1 else (1 - 1 / 4) ** -0.5  # noise of the updates, where nobody sees the counts
    event = Event(noise=alone, sampling="poisson", rate=rate, number=1)
    assert claim.eps == pytest.approx(epsilon(event, delta=0.02), rel=1e-6)
    assert (how["delta"], how["beta"], how["exact"] is None) == (0.02, 0.03, rate < 1)
    if rate == 1:
        assert how["exact"].eps == pytest.approx(float(gaussian_epsilon(delta=1e-5, sensitivity=1.0, sigma=alone)), rel=1e-6)
    assert [world.shape for world in worlds] == [(20, 9) if number == 1 else (20 * number, 4)] * 2


def test_choices_and_the_best_of_several_runs_are_drawn_as_they_are_said_to_be(monkeypatch):
    """Of a geometric number of runs, five on average, the best is below x with chance p F / (1 - (1 - p) F), p = 1/5."""
    seen, asked = [], []
    monkeypatch.setattr(audit_cases, "epsilon_bound", lambda *worlds, **how: seen.append((worlds, how)))
    audit_cases.tuned(runs=20_000, multiplier=1.6, delta=0.02, beta=0.03, seed=4)
    (worlds, how) = seen.pop()
    assert how == {"delta": 0.02, "beta": 0.03}
    for world, found in enumerate(worlds):
        law = stats.norm(world / 1.6)
        assert stats.kstest(found, lambda x, law=law: law.cdf(x) / 5 / (1 - 0.8 * law.cdf(x))).pvalue > 1e-6
    assert stats.pearsonr(*worlds)[1] > 1e-6
    law, orders = TruncatedNegativeBinomial.with_mean(eta=1.0, mean=5.0), np.arange(1.01, 200, 0.01)
    for z in (0.7, 1.6, 5.0):
        least = tuned_epsilon(law, orders, orders / (2 * z**2), delta=0.01)
        assert least * (1 - 1e-9) < audit_cases.tuned(runs=10, multiplier=z).claimed < least * 1.01
    seen.clear()

    def choose(scores, *, rng, size, **how):
        asked.append(rng.bit_generator.state)
        return np.arange(size) % (3 if scores[0] else 4)

    audit_cases.exponential(candidates=5, runs=24, beta=0.03, seed=4, choose=choose)
    (worlds, how) = seen.pop()
    assert how == {"delta": 0.0, "beta": 0.03}
    assert [world.tolist() for world in worlds] == [[1.0, 0.0, 0.0] * 8, [1.0, 0.0, 0.0, 0.0] * 6]
    assert asked == [RNG([4, world]).bit_generator.state for world in (0, 1)]


@pytest.mark.parametrize("multiplier", [4.0, 20.0, 60.0])
def test_averaged_clients_claim_no_more_than_any_order_allows(multiplier, monkeypatch):
    """Tenths up to 10.9 and whole numbers from 11 to 128, of which 11 is the best at z = 20."""
    for bound in ("epsilon_bound", "gaussian_bound"):
        monkeypatch.setattr(audit_cases, bound, lambda *worlds, **how: None)
    claimed = audit_cases.averaged_clients(multiplier=multiplier, runs=40).claimed
    said = {"tau": 4, "T": 4, "K": 1, "m": 1, "C1": 1.0, "sigma2_q1": multiplier**2, "adjacency": "replace"}
    each = [adaped_epsilon(delta=0.01, orders=[order], **said) for order in (*np.arange(11, 110) / 10, *range(11, 129))]
    assert claimed == min(each)


@pytest.mark.parametrize("tau", [1, 3])
def test_averaged_clients_are_judged_by_the_likelihood_ratio_of_a_sum_of_steps(monkeypatch, tau):
    """Each of tau steps moves by the clip, up or down, and has noise z: the sums are normal, 2 tau apart."""
    asked, seen, z = [], [], 3.0

    def releases(**how):
        asked.append(how)
        return RNG(len(asked)).normal(0, 5, (40, 1))

    monkeypatch.setattr(audit_cases, "row_releases", releases)
    for bound in ("epsilon_bound", "gaussian_bound"):
        monkeypatch.setattr(audit_cases, bound, lambda *worlds, **how: seen.append((worlds, how)))
    case = audit_cases.averaged_clients(tau=tau, multiplier=z, runs=40, delta=0.02, beta=0.03, seed=4)
    same = {"multiplier": z, "clip": 0.5, "rows": 1, "rounds": 1, "silo_count": 40}
    same["work"] = {"rule": "fixed", "n_steps": tau, "batch_size": 1}
    assert asked == [{**same, "canary": -1, "seed": 8}, {**same, "canary": 1, "seed": 9}]
    assert [how for _, how in seen] == [{"delta": 1e-5, "beta": 0.03}, {"delta": 0.02, "beta": 0.03}]
    for worlds, _ in seen:
        for i, found in enumerate(worlds):
            sums = RNG(i + 1).normal(0, 5, (40, 1))[:, 0]
            down, up = (stats.norm.logpdf(sums, move * tau, z * np.sqrt(tau)) for move in (-1, 1))
            np.testing.assert_allclose(found[:, 0], up - down, rtol=1e-9, atol=1e-12)
    assert (case.mechanism, case.adjacency) == (f"DP-AdaPeD, message after {tau} noisy steps, z = 3", "client")
    assert audit_cases.averaged_clients(runs=40).mechanism == "DP-AdaPeD, message after 4 noisy steps, z = 4"
    assert [how for _, how in seen[2:]] == [{"delta": 1e-5, "beta": 0.01}, {"delta": 0.01, "beta": 0.01}]
    orders, exact = np.arange(1.001, 129, 0.001), case.gaussian
    assert exact is not None
    for claimed, delta in ((case.claimed, 0.02), (exact[0], 1e-5)):
        least = epsilon_from_rdp(orders, orders * (2 / z) ** 2 * tau / 2, delta=delta)
        assert least <= claimed * (1 + 1e-9)
        assert claimed < least * 1.01
        assert claimed > gaussian_epsilon(delta=delta, sensitivity=2 * np.sqrt(tau), sigma=z)


def test_a_case_is_refuted_by_either_bound_and_a_row_tells_both():
    bound = Bound(1.5, 0.01, 0.05, 0, 0.3, True, "with", (3, 9), 40)
    other = dataclasses.replace(bound, eps=2.5, delta=1e-5)
    for claimed, gaussian, refuted in ((1.5, None, False), (1.4, None, True), (2.0, (2.5, other), False),
                                       (2.0, (2.4, other), True), (1.4, (3.0, other), True)):  # fmt: skip
        case = audit_cases.Case("a way", "row", claimed, bound, gaussian)
        assert case.refuted == refuted
        exact = (None, None) if gaussian is None else (gaussian[0], 2.5)
        assert list(case.row().items()) == [
            ("mechanism", "a way"), ("adjacency", "row"), ("delta", 0.01), ("claimed", claimed), ("proved", 1.5),
            ("runs", 40), ("claimed_gaussian", exact[0]), ("proved_gaussian", exact[1]),
        ]  # fmt: skip


def test_the_table_has_a_row_for_every_case_at_one_seed(monkeypatch):
    bound = Bound(1.5, 0.01, 0.05, 0, 0.3, True, "with", (3, 9), 40)
    cases = {name: lambda seed, name=name: audit_cases.Case(name, "row", float(seed), bound) for name in ("one", "two")}
    monkeypatch.setattr(audit_cases, "CASES", cases)
    for given, seed in (({}, 0.0), ({"seed": 7}, 7.0)):
        found = [(row["case"], row["mechanism"], row["claimed"]) for row in audit_cases.table(**given)]
        assert found == [("one", "one", seed), ("two", "two", seed)]


def test_audits_have_seed_0_unless_they_are_told_otherwise():
    for case in (
        partial(audit_cases.rows, batch=100, silo_count=20),
        partial(audit_cases.clients, rate=1.0, rounds=40),
        partial(audit_cases.exponential, runs=1000),
        partial(audit_cases.tuned, runs=1000),
        partial(audit_cases.averaged_clients, runs=40),
    ):
        assert case() == case(seed=0) != case(seed=1)


def test_cases_are_of_the_size_they_say_unless_they_are_told_otherwise(monkeypatch):
    asked, worlds = [], []

    def releases(*made, **how):
        asked.append(how | ({"canary": 0} if made else {}))
        number = how.get("silo_count", how["rounds"])
        return (np.zeros((number, how.get("clients", 1))), np.zeros(number)) if made else np.zeros((number, 1))

    def drawn(scores, *, size, **how):
        asked.append({"runs": size, "candidates": len(scores)})
        return np.zeros(size)

    for name in ("row_releases", "client_releases"):
        monkeypatch.setattr(audit_cases, name, releases)
    for name in ("epsilon_bound", "gaussian_bound"):
        monkeypatch.setattr(audit_cases, name, lambda *seen, **how: worlds.append([len(w) for w in seen]))
    audit_cases.rows(batch=7)
    assert [asked[0][name] for name in ("multiplier", "rounds", "silo_count", "rows")] == [1.0, 1, 200, 100]
    asked.clear()
    audit_cases.clients()
    assert [(how["rounds"], how["clients"]) for how in asked] == [(4000, 1)] * 2
    asked.clear()
    audit_cases.averaged_clients()
    assert [(how["silo_count"], how["work"]["n_steps"]) for how in asked] == [(2000, 4)] * 2
    asked.clear()
    audit_cases.exponential(choose=drawn)
    assert asked == [{"runs": 100_000, "candidates": 100}] * 2
    worlds.clear()
    assert audit_cases.tuned().claimed == audit_cases.tuned(multiplier=2.0, runs=100_000).claimed
    assert worlds == [[100_000] * 2] * 2


# --- sound mechanisms pass ----------------------------------------------------------------------------------------------

SOUND = {
    "all rows": lambda: audit_cases.rows(batch=100, silo_count=200),
    "all rows, rounds": lambda: audit_cases.rows(batch=100, rounds=4, multiplier=2.0, silo_count=200),
    "passes": lambda: audit_cases.rows("epochs", batch=100, rounds=2, multiplier=3.0, silo_count=200),
    "poisson": lambda: audit_cases.rows(batch=25, rounds=3, multiplier=0.8, silo_count=200),
    "fixed": lambda: audit_cases.rows("fixed", batch=2, n=4, multiplier=1.6, silo_count=1500),
    "clients": lambda: audit_cases.clients(clients=100, rate=1.0, rounds=100),
    "clients, poisson": lambda: audit_cases.clients(clients=100, rounds=100),
    "clients and counts": lambda: audit_cases.clients(rate=1.0, rounds=500),
    "choice": lambda: audit_cases.exponential(candidates=20, runs=40_000),
    "tuning": audit_cases.tuned,
    "adaped": lambda: audit_cases.averaged_clients(runs=1500),
}
GAUSSIAN = {"all rows", "all rows, rounds", "passes", "clients", "adaped"}


@pytest.mark.parametrize("name", SOUND)
def test_no_audit_refutes_a_sound_mechanism(name):
    case = SOUND[name]()
    assert not case.refuted
    assert case.bound.eps > 0.1 * case.claimed  # and none is blind
    if name in GAUSSIAN:
        assert case.gaussian is not None
        claimed, bound = case.gaussian
        assert 0.6 * claimed < bound.eps < claimed


def test_a_bound_for_gaussian_noise_reaches_nine_tenths_of_the_claim():
    case = audit_cases.rows(batch=100, silo_count=600)
    assert case.gaussian is not None
    claimed, bound = case.gaussian
    assert 0.9 * claimed < bound.eps < claimed


def test_audits_are_functions_of_their_seed():
    one, two, other = (audit_cases.rows(batch=100, silo_count=20, seed=s).bound for s in (3, 3, 4))
    assert isinstance(one, Bound)
    assert one == two != other


# --- broken mechanisms are caught ---------------------------------------------------------------------------------------


class Noiseless(NumpyBackend):
    """The noise is forgotten."""

    def local_sgd(self, *args, noise=None, **how):
        return super().local_sgd(*args, **how)


class DividedTwice(NumpyBackend):
    """The noise is divided by the batch size once more."""

    def local_sgd(self, model, starts, data, schedule, *, noise=None, **how):
        noise = dataclasses.replace(noise, multiplier=noise.multiplier / schedule.divisors[0, 0])
        return super().local_sgd(model, starts, data, schedule, noise=noise, **how)


class Unclipped(NumpyBackend):
    """Gradients are not clipped, the noise has its size."""

    def local_sgd(self, *args, clip=None, noise=None, **how):
        noise = dataclasses.replace(noise, multiplier=noise.multiplier / 1e6)
        return super().local_sgd(*args, clip=1e6 * clip, noise=noise, **how)


class BatchClipped(NumpyBackend):
    """The batch's mean gradient is clipped instead of each example's."""

    def local_sgd(self, model, starts, data, schedule, *, learning_rate, clip, noise, **how):
        starts = np.broadcast_to(starts, (len(schedule.clients), model.n_parameters)).astype(float)
        step = super().local_sgd(model, starts, data, schedule, learning_rate=learning_rate, **how) - starts
        norms = np.linalg.norm(step, axis=1, keepdims=True)
        step *= np.minimum(1, learning_rate * clip / np.maximum(norms, 1e-30))
        still = Schedule(schedule.clients, schedule.indices, 0 * schedule.weights, schedule.divisors, schedule.steps)
        return step + super().local_sgd(model, starts, data, still, learning_rate=learning_rate, clip=clip, noise=noise)


class SameNoise(NumpyBackend):
    """Every round has the first round's noise."""

    def local_sgd(self, *args, noise, **how):
        return super().local_sgd(*args, noise=GaussianNoise(noise.multiplier, noise.seed, 0), **how)


class AllRows(Task):
    """All rows are used in every step, where Poisson batches are claimed."""

    def schedule(self, t, clients=None, *, stage=0, **changes):
        drawn = super().schedule(t, clients, stage=stage, **changes)
        C, S = drawn.divisors.shape
        indices = np.broadcast_to(np.arange(self.sizes[0]), (C, S, self.sizes[0]))
        return Schedule(drawn.clients, indices, np.ones(indices.shape), drawn.divisors, drawn.steps)


class SameBatch(Task):
    """Every round has the first round's batches, the noise is fresh: no amplification adds up over rounds."""

    def schedule(self, t, clients=None, **how):
        return super().schedule(0, clients, **how)


MUTANTS = {
    "noise forgotten": ({"batch": 100}, {"backend": Noiseless()}),
    "noise divided by the batch size twice": ({"batch": 100}, {"backend": DividedTwice()}),
    "clipping omitted": ({"batch": 100}, {"backend": Unclipped()}),
    "batches clipped instead of rows": ({"batch": 100, "multiplier": 4.0}, {"backend": BatchClipped()}),
    "same noise in every round": ({"batch": 50, "rounds": 4}, {"backend": SameNoise()}),
    "all rows where few are claimed": ({"batch": 10, "rounds": 4}, {"task": AllRows}),
    "same batch in every round": ({"batch": 10, "rounds": 20, "multiplier": 1.0}, {"task": SameBatch}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_training_are_refuted(name):
    how, mutant = MUTANTS[name]
    assert not audit_cases.rows(silo_count=40, **how).refuted
    assert audit_cases.rows(silo_count=40, **how, **mutant).bound.refutes(audit_cases.rows(silo_count=2, **how).claimed)


class ClippedTooLate(DPFedAvg):
    """Updates are clipped to more than the noise is for."""

    def aggregate(self, task, state, t, clients, levels, updates, norms):
        return super().aggregate(task, state, t, clients, levels, updates, norms / 3)


class AveragedNoise(DPFedAvg):
    """The noise is for an average over all clients, not over those who take part: too small by the rate."""

    def levels(self, task):
        return [level._replace(multiplier=level.multiplier * self.rate) for level in super().levels(task)]


class NoiselessCounts(DPFedAvg):
    """The count of clipped updates is released without noise."""

    def aggregate(self, task, state, t, clients, levels, updates, norms):
        clip = float(state["clip"])
        notes = super().aggregate(task, state, t, clients, levels, updates, norms)
        fraction = 0.5 + ((norms <= clip) - 0.5).sum() / (self.rate * task.n_clients)
        state["clip"] = np.array(clip * np.exp(-self.clip_rate * (fraction - self.quantile)))
        return notes


@pytest.mark.parametrize(
    ("mutant", "how"),
    [
        (ClippedTooLate, {"clients": 50, "rounds": 60}),
        (AveragedNoise, {"clients": 100, "rounds": 100, "rate": 0.2}),
        (NoiselessCounts, {"rounds": 300, "rate": 1.0}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mutants_of_the_server_are_refuted(mutant, how):
    assert audit_cases.clients(algorithm=mutant, **how).refuted


def test_a_choice_without_the_factor_two_is_refuted():
    def bold(scores, *, eps, **how):
        return exponential_choice(scores, eps=2 * eps, **how)

    assert audit_cases.exponential(choose=bold, candidates=20, runs=40_000).refuted


def test_noise_of_single_messages_claimed_for_replaced_clients_is_refuted():
    assert audit_cases.averaged_clients(runs=600, backend=DividedTwiceByTwo()).refuted


class DividedTwiceByTwo(NumpyBackend):
    """The noise is calibrated as if replacing moved a gradient by one clipping norm."""

    def local_sgd(self, *args, noise, **how):
        return super().local_sgd(*args, noise=dataclasses.replace(noise, multiplier=noise.multiplier / 2), **how)


# --- one run with many canaries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "guesses", "canaries", "delta", "eps"),
    [(600, 1000, 1000, 0.0, 0.297468), (99, 100, 1000, 1e-5, 3.002832), (1429, 1500, 10000, 1e-5, 2.7914)],
)
def test_one_run_bounds_are_those_of_another_implementation(right, guesses, canaries, delta, eps):
    """Steinke, Nasr and Jagielski's bound as JAX Privacy's auditing module computes it, beta = 0.05."""
    assert one_run_bound(right, guesses=guesses, canaries=canaries, delta=delta) == pytest.approx(eps, abs=1e-5)


def test_one_run_bounds_are_above_the_truth_with_probability_beta():
    """Randomised response of each coin at eps = 1 is the mechanism for which the bound without delta is exact."""
    rng, chance = np.random.default_rng(3), np.e / (1 + np.e)
    bounds = [one_run_bound(int(v), guesses=200, canaries=200, delta=0.0) for v in rng.binomial(200, chance, 400)]
    wrong = sum(bound > 1 for bound in bounds)
    assert 5 <= wrong <= 34  # 5 % of 400, four standard deviations
    assert np.median(bounds) > 0.6


def test_one_run_bounds_prove_nothing_by_luck():
    assert one_run_bound(50, guesses=100, canaries=100, delta=0.0) == 0
    assert one_run_bound(0, guesses=10, canaries=10, delta=0.0) == 0
    assert one_run_bound(90, guesses=100, canaries=1000, delta=1e-2) < one_run_bound(
        90, guesses=100, canaries=1000, delta=0.0
    )
    with pytest.raises(ValueError, match="right must be"):
        one_run_bound(11, guesses=10, canaries=10, delta=0.0)
    with pytest.raises(ValueError, match="guesses must be"):
        one_run_bound(5, guesses=11, canaries=10, delta=0.0)
