"""Audits of one training: bounds that are the published ones, that hold exactly, and that catch what is broken."""

import json
from fractions import Fraction
from math import comb, exp
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import binom, norm

from borrow import main
from estimators.accounting.accountants import epsilon
from estimators.accounting.budget import Guarantee
from estimators.accounting.events import Event
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.federated import one_run, one_run_cases
from estimators.federated.algorithms import DPFedAvg, FedAvg, Local
from estimators.federated.audit import one_run_bound
from estimators.federated.data import Federation
from estimators.federated.models import linear_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.one_run import (
    DELTAS,
    SHARES,
    Coins,
    OneRun,
    audit_training,
    claimed_curve,
    guess_chance,
    judged_guesses,
    least_elsewhere,
    loss_falls,
)
from estimators.federated.one_run_cases import BROKEN, CASES, LessNoise, clients, rows, wrong_labels
from estimators.federated.privacy import RowPrivacy, client_multiplier
from estimators.federated.schedule import GaussianNoise
from estimators.federated.task import Task

RNG = np.random.default_rng


# --- the published bound ------------------------------------------------------------------------------------------------


def published(right, guesses, canaries, eps, delta):
    """Chance of so many right guesses at most, as Theorem 5.2 of Steinke, Nasr and Jagielski writes it; whole fractions."""
    q = Fraction(exp(eps) / (1 + exp(eps)))
    p = [comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    alpha = max((sum(p[right - i : right]) / i for i in range(1, right + 1)), default=0)
    return float(sum(p[right:]) + 2 * canaries * Fraction(delta) * alpha)


@pytest.mark.parametrize(
    ("right", "guesses", "canaries", "delta", "beta"),
    [(9, 10, 10, 0.0, 0.05), (38, 40, 100, 1e-4, 0.05), (50, 50, 50, 1e-6, 0.01), (31, 40, 40, 1e-3, 0.2)],
)
def test_the_bound_is_where_the_published_chance_is_beta(right, guesses, canaries, delta, beta):
    eps = one_run_bound(right, guesses=guesses, canaries=canaries, delta=delta, beta=beta)
    assert eps > 0
    assert published(right, guesses, canaries, eps, delta) == pytest.approx(beta, rel=1e-6)


@pytest.mark.parametrize("canaries", [1, 7])
def test_of_one_guess_the_odds_are_the_bound(canaries):
    """Without delta one right guess has the chance e^eps / (1 + e^eps) at most, which is beta where its odds are e^eps."""
    assert one_run_bound(1, guesses=1, canaries=canaries, delta=0.0, beta=0.6) == pytest.approx(np.log(1.5), abs=1e-8)
    assert one_run_bound(1, guesses=1, canaries=canaries, delta=0.0, beta=0.05) == 0.0  # a coin is right half the time
    assert one_run_bound(0, guesses=1, canaries=canaries, delta=0.0, beta=0.6) == 0.0


def laws(m, eps, delta):
    """Laws of the number of right guesses of mechanisms that are (eps, delta)-private, all m coins guessed.

    Each coin is told truly with chance delta, and else through randomised response; or all are told with chance delta, and
    else each is randomised; or one of them, whichever, with chance m delta (each coin is told with chance delta).
    """
    q = exp(eps) / (1 + exp(eps))
    plain = binom.pmf(np.arange(m + 1), m, q)
    everything = (1 - delta) * plain + delta * (np.arange(m + 1) == m)
    one = (1 - m * delta) * plain + m * delta * np.append(0.0, binom.pmf(np.arange(m), m - 1, q))
    return [binom.pmf(np.arange(m + 1), m, delta + (1 - delta) * q), everything, one]


@pytest.mark.parametrize(("m", "eps", "delta"), [(50, 0.5, 0.0), (50, 2.0, 1e-3), (120, 1.0, 1e-2), (20, 4.0, 1e-2)])
def test_true_claims_are_refuted_exactly_as_rarely_as_is_said(m, eps, delta):
    """No simulation: the chance of a wrong bound is summed over the exact laws of private mechanisms."""
    wrong = {}
    for beta in (0.05, 0.3):
        bounds = [one_run_bound(v, guesses=m, canaries=m, delta=delta, beta=beta) for v in range(m + 1)]
        wrong[beta] = np.array(bounds) > eps
    chances = np.array([guess_chance(v, guesses=m, canaries=m, curve=[(eps, delta)]) for v in range(m + 1)])
    assert (np.diff(chances) <= 1e-12).all()
    for law in laws(m, eps, delta):
        for beta, those in wrong.items():
            assert law[those].sum() <= beta
        for v in range(m + 1):
            assert law[v:].sum() <= chances[v] * (1 + 1e-9)
    if delta == 0:  # randomised response attains what is published
        tail = binom.sf(np.arange(m + 1) - 1, m, exp(eps) / (1 + exp(eps)))
        assert [t <= 0.05 for t in tail] == wrong[0.05].tolist()


@pytest.mark.parametrize(("r", "m", "curve"), [
    (8, 8, [(1.0, 0.0)]), (8, 20, [(1.0, 0.01)]), (12, 12, [(0.5, 0.05), (1.5, 0.001)]), (6, 6, [(0.1, 0.2), (3.0, 1e-4)]),
])  # fmt: skip
def test_the_chance_is_the_largest_that_a_program_finds(r, m, curve):
    """A linear program over all laws of the number of right guesses that keep to the claim."""
    i, bounds, ends = np.arange(r + 1), [], []
    for k in range(1, r + 1):
        here = np.where(i >= k, i / m, 0.0)
        other = np.where(i >= k - 1, (r - i) / m, 0.0)
        for eps, delta in curve:
            bounds += [here - np.exp(eps) * other, np.exp(eps) * here - other]
            ends += [delta, np.exp(eps) + delta - 1]
    for right in range(1, r + 1):
        most = linprog(-(i >= right).astype(float), A_ub=bounds, b_ub=ends, A_eq=[np.ones(r + 1)], b_eq=[1.0])
        found = guess_chance(right, guesses=r, canaries=m, curve=curve)
        assert found == pytest.approx(-most.fun, rel=2e-3) or (found == 1e-12 and -most.fun <= 1e-12)


def at(curve, delta):
    return next(eps for eps, d in curve if d == delta)


def gaussian_curve(mu):
    return [(float(gaussian_epsilon(delta=d, sensitivity=mu, sigma=1.0)), d) for d in DELTAS]


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_gaussian_noise_is_refuted_where_half_of_it_is_there_and_not_where_all_is(mu):
    curve, rng = gaussian_curve(mu), RNG(1)
    coins = rng.random(40_000) < 0.5
    for part, refuted in ((1.0, False), (0.5, True)):
        shift = mu / part
        scores = rng.normal(size=coins.size) + shift * coins - shift / 2
        found = judged_guesses(scores, coins, curve=curve, delta=1e-5, claimed=at(curve, 1e-5))
        assert found.refuted is refuted
        assert 0 < found.proved < found.claimed
        assert found.right / found.guesses > 0.6


def test_true_claims_of_gaussian_noise_are_refuted_no_more_often_than_beta_says():
    curve, rng = gaussian_curve(1.0), RNG(2)
    refuted = 0
    for _ in range(100):
        coins = rng.random(300) < 0.5
        scores = rng.normal(size=300) + coins - 0.5
        refuted += judged_guesses(scores, coins, curve=curve, delta=1e-2, claimed=at(curve, 1e-2), beta=0.3).refuted
    assert refuted <= 48  # 30 + 4 deviations


def settings(name):
    case: Any = BROKEN[name]
    return case.keywords


def power(mu, m, share, part, beta=0.01):
    """Chance that a Gaussian mechanism of ratio mu is refuted at all of whose noise a part is there; no simulation."""
    curve, shift, r = gaussian_curve(mu), mu / part, round(share * m)
    low, high = 0, r + 1  # the least number of right guesses that refutes
    while high - low > 1:
        middle = (low + high) // 2
        refuted = guess_chance(middle, guesses=r, canaries=m, curve=curve) <= beta / 2
        low, high = (low, middle) if refuted else (middle, high)
    beyond = brentq(lambda t: norm.sf(t - shift / 2) + norm.sf(t + shift / 2) - share, 0, 20 + shift)
    return binom.sf(high - 1, r, norm.sf(beyond - shift / 2) / share)


def test_half_the_noise_is_seen_by_as_many_canaries_as_the_broken_server_has():
    how = settings("one run, half the noise at the server")
    assert (how["rounds"], how["rate"]) == (1, 1.0)
    mu = 1 / client_multiplier(eps=4.0, delta=1e-5, rate=1.0, rounds=1)
    (share,) = how["shares"]
    assert power(mu, how["canaries"], share, 1.0) < 1e-6
    said = {5000: 0.996, 2000: 0.82, 1000: 0.43}  # in the docstring of the module
    assert how["canaries"] in said
    for canaries, chance in said.items():
        assert power(mu, canaries, share, 0.5) == pytest.approx(chance, abs=0.005)


@pytest.mark.parametrize(("eps", "canaries", "part", "chance"), [(1.0, 20_000, 0.5, 0.99), (8.0, 15_000, 0.5, 0.99),
                                                                 (4.0, 50_000, 0.7, 0.2)])  # fmt: skip
def test_what_can_be_seen_at_other_claims(eps, canaries, part, chance):
    mu = 1 / client_multiplier(eps=eps, delta=1e-5, rate=1.0, rounds=1)
    best = max(power(mu, canaries, share, part) for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3))
    assert best == pytest.approx(chance, abs=0.012)


def test_shares_are_of_the_canaries_and_each_has_its_part_of_beta():
    rng = RNG(7)
    coins = rng.random(1000) < 0.5
    scores = rng.normal(size=1000) + 2.5 * (coins - 0.5)
    how = {"curve": [(0.5, 0.0)], "delta": 0.0, "claimed": 0.5}
    one = judged_guesses(scores, coins, shares=[0.1], **how)
    assert one.guesses == 100
    several = judged_guesses(scores, coins, shares=[0.1, 0.1001, 1.0], **how)  # two of one size are one try
    assert one.chance < several.chance
    assert one.proved == one_run_bound(one.right, guesses=100, canaries=1000, delta=0.0, beta=0.005)
    for wrong in ([], [0.0], [1.1], [[0.1]], [-0.1]):
        with pytest.raises(ValueError, match="shares must be a list of numbers in"):
            judged_guesses(scores, coins, shares=wrong, **how)


def test_the_least_likely_guesses_are_told_where_they_refute_and_else_those_that_prove_most(monkeypatch):
    """Of 8 and of 24 guesses, the first less likely, the others proving more; a chance counts twice for two tries."""
    chances, proved = {8: 0.01, 24: 0.5}, {8: 0.3, 24: 0.9}
    monkeypatch.setattr(one_run, "guess_chance", lambda right, *, guesses, **more: chances[guesses])
    monkeypatch.setattr(one_run, "one_run_bound", lambda right, *, guesses, **more: proved[guesses])
    how = {"curve": [(1.0, 0.0)], "delta": 0.0, "claimed": 1.0, "shares": [0.1, 0.3]}
    for beta, told in ((0.03, 24), (0.0399, 24), (0.04, 8), (0.05, 8), (0.3, 8)):
        found = judged_guesses(np.arange(80.0), np.arange(80) < 40, beta=beta, **how)
        assert (found.guesses, found.proved, found.chance) == (told, 0.9, 0.02)
        assert found.refuted == (told == 8)


def test_a_score_of_nothing_says_out():
    found = judged_guesses([2.0, -1.0, 0.0], [True, False, False], curve=[(1.0, 0.0)], delta=0.0, claimed=1.0, shares=[1.0])
    assert (found.guesses, found.right) == (3, 3)


def test_a_coin_that_the_scores_do_not_know_proves_nothing():
    rng = RNG(3)
    found = judged_guesses(rng.normal(size=1000), rng.random(1000) < 0.5, curve=[(1.0, 0.0)], delta=0.0, claimed=1.0)
    assert found.proved == 0
    assert not found.refuted


# --- coins ---------------------------------------------------------------------------------------------------------------


def pool(rows=12, silos=2, features=3):
    rng = RNG(4)
    x = rng.normal(size=(rows * silos, features))
    return Federation(x, x.sum(axis=1), list(np.arange(rows * silos).reshape(silos, rows)))


def test_rows_that_are_out_add_nothing_and_leave_divisors_alone():
    work = {"rule": "poisson", "n_steps": 1, "batch_size": 12}
    task = Coins(pool(), linear_regression(3), work=work, seed=0)
    task.rows_out = RNG(5).random((2, 12)) < 0.5
    found = task.train(np.zeros(4), 0, learning_rate=0.1)
    for k in range(2):
        own = pool().client(k)
        inside = ~task.rows_out[k]
        residual = -own.y[inside]
        gradient = np.append(residual @ own.x[inside], residual.sum()) / 12
        np.testing.assert_allclose(found[k], -0.1 * gradient, rtol=1e-5, atol=1e-7)
    task.rows_out[:] = True
    np.testing.assert_array_equal(task.train(np.zeros(4), 0, learning_rate=0.1), 0)


def test_a_task_of_which_nothing_is_out_draws_as_any_other():
    work = {"rule": "poisson", "n_steps": 2, "batch_size": 3}
    plain, task = (kind(pool(), linear_regression(3), work=work, seed=0) for kind in (Task, Coins))
    for stage in ({}, {"stage": 1}):
        one, other = (kind.schedule(1, **stage) for kind in (plain, task))
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.weights, other.weights)


def test_clients_that_are_out_are_never_called_and_the_others_as_ever():
    federation = pool(rows=2, silos=10)
    work = {"rule": "epochs", "n_epochs": 1, "batch_size": 2}
    plain, task = (kind(federation, linear_regression(3), work=work, seed=0) for kind in (Task, Coins))
    task.clients_out = np.arange(10) % 2 == 0
    for t in range(5):
        called = plain.participants(t, rate=0.7)
        assert task.participants(t, rate=0.7).tolist() == [k for k in called if k % 2]


def test_the_curve_is_of_the_training_and_has_the_claim_in_it():
    work = {"rule": "poisson", "n_steps": 1, "batch_size": 6}
    task = Task(pool(), linear_regression(3), work=work, seed=0)
    promise, curve = claimed_curve(
        Local(learning_rate=0.1, privacy=RowPrivacy(eps=[1.0, 3.0], delta=1e-5, clip=1.0)), task, rounds=3, clients=[1]
    )
    assert promise.eps == pytest.approx(3.0, rel=0.01)
    at = {d: e for e, d in curve}
    assert at[1e-5] == pytest.approx(promise.eps)
    assert (np.diff([at[d] for d in DELTAS]) <= 0).all()
    sure = {"learning_rate": 0.1, "rate": 0.5, "multiplier": 1.0, "delta": 1e-5}
    for more in ({"clip_rate": 0.0}, {"clip_rate": 0.1, "count_noise": 3.0, "accountant": "rdp"}):
        promise, curve = claimed_curve(DPFedAvg(**sure, **more), task, rounds=2, clients=[0])
        at = {d: e for e, d in curve}
        assert at[1e-5] == pytest.approx(promise.eps)
        assert set(at) == {*DELTAS, 1e-5}
        event = Event(noise=1.0, sampling="poisson", rate=0.5, number=2)
        assert at[0.1] == pytest.approx(epsilon(event, delta=0.1, accountant=more.get("accountant", "pld")), rel=1e-6)
    assert promise.adjacency == "client add-remove"


@pytest.mark.parametrize(
    ("release", "more"), [("sum", {}), ("count", {}), ("sum", {"delta": None}), ("choice", {"delta": 1e-5})]
)
def test_a_claim_that_is_known_at_one_delta_alone_is_that_pair(release, more):
    task = Task(pool(), linear_regression(3), work={"rule": "poisson", "n_steps": 1, "batch_size": 6}, seed=0)
    promises = [Guarantee(eps, 1e-5, "client", "server", "gaussian") for eps in (2.0, 1.0)]
    plan = SimpleNamespace(releases=[SimpleNamespace(what=release)])
    told = SimpleNamespace(guarantees=lambda task, rounds: promises, privacy_plan=lambda task, rounds: plan, **more)
    assert claimed_curve(told, task, rounds=1, clients=[1, 0]) == (promises[0], [(2.0, 1e-5)])


def test_falls_of_losses_are_those_of_single_rows():
    federation = pool()
    task = Task(federation, linear_regression(3), work={"rule": "poisson", "n_steps": 1, "batch_size": 12}, seed=0)
    canaries = [(0, 1), (1, 4), (1, 0)]
    last = RNG(6).normal(size=(2, 4))
    between = {"personal": RNG(7).normal(size=(2, 4))}
    falls = loss_falls(task, [{"personal": np.zeros((2, 4))}, between, {"personal": last}], canaries)
    wanted = []
    for k, i in canaries:
        x, y = federation.client(k).x[i], federation.client(k).y[i]
        wanted.append(y**2 / 2 - (x @ last[k, :3] + last[k, 3] - y) ** 2 / 2)
    np.testing.assert_allclose(falls, wanted - np.median(wanted), rtol=1e-4, atol=1e-5)


def test_one_run_refutes_a_claim_that_is_proved_too_small_or_guesses_that_are_too_unlikely():
    for proved, chance, refuted in ((2.0, 0.5, False), (2.1, 0.5, True), (0.0, 0.01, True), (0.0, 0.0101, False)):
        found = OneRun("a way", "row", 2.0, 1e-5, proved, chance, 0.02, 100, 20, 15)
        assert found.refuted == refuted
        assert found.row() == {
            "mechanism": "a way", "adjacency": "row", "delta": 1e-5, "claimed": 2.0, "proved": proved, "runs": 1,
            "canaries": 100, "guesses": 20, "right": 15, "chance": chance,
        }  # fmt: skip


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_the_least_chance_elsewhere_is_the_trade_off_of_gaussian_noise(mu):
    eps = np.arange(0, 15, 2e-3)
    delta = norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
    for y in (0.0, 1e-3, 0.05, 0.3, 0.5, 0.69, 0.9, 0.999, 1.0):
        assert least_elsewhere(y, eps, delta) == pytest.approx(norm.cdf(norm.ppf(y) - mu), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("eps", "delta"), [(0.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 0.1), (0.0, 0.4)])
def test_a_single_guess_is_right_as_often_as_randomised_response_lets_it(eps, delta):
    found = guess_chance(1, guesses=1, canaries=1, curve=[(eps, delta)])
    assert found == pytest.approx((np.exp(eps) + delta) / (1 + np.exp(eps)), rel=2e-3)
    assert guess_chance(0, guesses=1, canaries=1, curve=[(eps, delta)]) == 1.0


@pytest.mark.parametrize("eps", [6.5, 7.0, 7.5, 8.0, 8.5, 9.0])
def test_a_chance_next_to_one_is_bounded_from_above_and_never_more_than_one(eps):
    assert 1 / (1 + np.exp(-eps)) <= guess_chance(1, guesses=1, canaries=1, curve=[(eps, 0.0)]) <= 1.0


@pytest.mark.parametrize(
    ("signal", "eps", "refuted"), [(0.0, 1.0, False), (1.2, 0.2, True), (2.5, 0.3, True), (0.4, 3.0, False)]
)
def test_of_several_shares_the_one_that_proves_most_is_told_and_all_are_paid_for(signal, eps, refuted):
    m, shares, curve = 101, (1.0, 0.004, 0.3, 0.05), [(eps, 0.0), (eps / 2, 0.1)]
    coins = RNG(1).random(m) < 0.5
    scores = np.where(coins, signal, -signal) + RNG(2).normal(size=m)
    found = judged_guesses(scores, coins, curve=curve, delta=1e-3, claimed=eps, beta=0.04, shares=shares)
    tries = []
    for share in shares:
        guesses = max(round(share * m), 1)
        surest = sorted(range(m), key=lambda i: -abs(scores[i]))[:guesses]
        right = sum((scores[i] > 0) == coins[i] for i in surest)
        how = {"guesses": guesses, "canaries": m}
        proved = one_run_bound(right, delta=1e-3, beta=0.005, **how)
        tries.append((proved, guess_chance(right, curve=curve, **how), guesses, right))
    least = 4 * min(chance for _, chance, _, _ in tries)
    which, most = (1, least / 4) if least <= 0.02 else (0, max(tries)[0])
    assert (found.guesses, found.right) in [one[2:] for one in tries if one[which] == most]
    assert found.proved == max(tries)[0]
    assert found.chance == min(1.0, least)
    assert (found.claimed, found.delta, found.beta, found.canaries, found.refuted) == (eps, 1e-3, 0.04, m, refuted)


# --- trainings -----------------------------------------------------------------------------------------------------------

SOUND = {
    "one run: central, all rows": {"canaries": 800},
    "one run: central, Poisson": {"canaries": 800},
    "one run: silos": {"silos": 20},
    "one run: silos, Poisson": {"silos": 20},
    "one run: FedAvg": {"canaries": 100},
    "one run: DP-FedAvg": {"canaries": 600},
    "one run: wrong labels": {"canaries": 400, "ordinary": 200, "features": 1200},
}


@pytest.mark.parametrize("name", CASES)
def test_no_audit_refutes_a_sound_training(name):
    found = CASES[name](**SOUND[name])
    assert not found.refuted
    assert found.row()["runs"] == 1
    assert found.right > 0.5 * found.guesses
    if name in ("one run: central, all rows", "one run: silos"):
        assert found.proved > 0.2 * found.claimed  # and they are not blind


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_training_is_caught(name):
    assert BROKEN[name]().refuted


def test_what_is_caught_is_what_is_broken():
    """The same trainings with all of their noise pass."""
    assert not rows(silos=200, canaries=200, backend=LessNoise(1.0)).refuted
    assert not clients(canaries=1000, rate=1.0).refuted
    assert not clients(**{**settings("one run, half the noise at the server"), "algorithm": DPFedAvg}).refuted
    assert not wrong_labels(backend=LessNoise(1.0)).refuted


def test_audits_are_functions_of_their_seed():
    one, two, other = (rows(silos=5, canaries=40, seed=s) for s in (1, 1, 2))
    assert one == two != other


def audited(**changes):
    how = {
        "algorithm": Local(learning_rate=0.1, privacy=RowPrivacy(eps=1.0, delta=1e-5, clip=1.0)), "federation": pool(),
        "model": linear_regression(3), "work": {"rule": "poisson", "n_steps": 1, "batch_size": 6}, "rounds": 1,
        "canaries": [(0, 0)], **changes,
    }  # fmt: skip
    return audit_training(how.pop("algorithm"), how.pop("federation"), how.pop("model"), **how)


def test_rows_are_out_by_their_coins_and_the_claim_is_that_of_their_clients():
    seen = []

    def told(task, models):
        seen.append(task.rows_out.copy())
        return [-1.0 if task.rows_out[k, i] else 1.0 for k, i in places]

    places = [(1, i) for i in range(12)]
    either = Local(learning_rate=0.1, privacy=RowPrivacy(eps=[1.0, 3.0], delta=1e-5, clip=1.0))
    found = audited(algorithm=either, canaries=places, score=told, shares=[1.0])
    assert (found.guesses, found.right, found.beta) == (12, 12, 0.01)
    assert found.claimed == pytest.approx(3.0, rel=0.01)
    for seed in (0, 1):
        audited(algorithm=either, canaries=places, score=told, shares=[1.0], seed=seed)
    out, same, other = seen
    assert out.tolist() == same.tolist() != other.tolist()
    assert not out[0].any()
    assert 2 < out[1].sum() < 10


@pytest.mark.parametrize(("rounds", "says"), [(71, "canaries"), (10**7, "canaries"), (10**7 + 1, "rounds"), (0, "rounds")])
def test_an_audit_of_one_run_has_ten_million_rounds_at_most(rounds, says):
    with pytest.raises(ValueError, match=f"^{says} must"):
        audited(rounds=rounds, canaries=[])


AVERAGE = DPFedAvg(learning_rate=0.1, rate=0.5, multiplier=1.0, delta=1e-5, clip_rate=0.0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: audited(canaries=[]), "canaries must be a list"),
        (lambda: audited(canaries=[(0, 12)]), "client 0 has no row 12"),
        (lambda: audited(canaries=[(2, 0)]), "client 2 has no row 0"),
        (lambda: audited(canaries=[(0, 1), (0, 1)]), "different pairs"),
        (lambda: audited(canaries=[0, 1]), "different pairs"),
        (lambda: audited(algorithm=Local(learning_rate=0.1)), "no claim to audit"),
        (lambda: audited(algorithm=AVERAGE, canaries=[0, 2]), "different clients below 2"),
        (lambda: audited(algorithm=AVERAGE, canaries=[0, 1]), "score must be given"),
        (lambda: audited(score=lambda task, seen: [1.0, 2.0]), "one entry for each canary"),
        (lambda: audited(score=lambda task, seen: [np.nan]), "scores"),
        (lambda: audited(score=lambda task: [1.0]), "score must be a function of two arguments"),
        (lambda: audited(beta=1.0), "beta"),
        (lambda: guess_chance(3, guesses=2, canaries=2, curve=[(1.0, 0.0)]), "right"),
        (lambda: guess_chance(1, guesses=2, canaries=2, curve=[]), "curve"),
        (lambda: guess_chance(1, guesses=2, canaries=2, curve=[(-1.0, 0.0)]), "curve"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- cases by themselves ---------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """What a case would train and audit."""
    found = []
    monkeypatch.setattr(one_run_cases, "audit_training", lambda *parts, **how: found.append((*parts, how)))
    return found


def ratios(moved, noise, rate):
    """Log likelihood ratios of canaries that add 1 with chance `rate` in each round, from densities; one row a canary."""
    there, away = norm.pdf(moved, 1.0, noise), norm.pdf(moved, 0.0, noise)
    return np.log(1 - rate + rate * there / away).sum(axis=1)


@pytest.mark.parametrize("shared", [False, True])
def test_canaries_of_rows_have_features_of_their_own_and_are_scored_by_how_far_these_moved(asked, shared):
    rows(silos=2, canaries=3, ordinary=5, rate=0.5, rounds=4, eps=3.0, shared=shared, seed=7)
    [(algorithm, federation, model, how)] = asked
    x, y, own = federation.x, federation.y, 5 + (6 if shared else 3)
    assert x.shape == (16, own)
    assert [list(rows) for rows in federation.train] == [[0, 1, 2, 6, 7, 8, 9, 10], [3, 4, 5, 11, 12, 13, 14, 15]]
    feature = np.eye(6) if shared else np.tile(np.eye(3), (2, 1))
    np.testing.assert_array_equal(x[:6], np.hstack([np.zeros((6, 5)), 1e3 * feature]))
    np.testing.assert_array_equal(y[:6], 1e9)
    assert not x[6:, 5:].any()
    assert (type(algorithm), model) == (FedAvg if shared else Local, linear_regression(own))
    assert algorithm.privacy == RowPrivacy(eps=3.0, delta=1e-5, clip=0.5)
    assert how["work"] == {"rule": "poisson", "n_steps": 1, "batch_size": 4.0}
    assert (how["rounds"], how["seed"], how["backend"]) == (4, 7, None)
    assert how["canaries"] == [(k, i) for k in range(2) for i in range(3)]
    task = Task(federation, model, work=how["work"], seed=0)
    z = float(algorithm.privacy_plan(task, rounds=4).multipliers(task)[0])
    moved = RNG(1).normal(0.5, 1, (4, 6))  # in units of the clipped gradient, of all silos together
    steps = algorithm.learning_rate / 4.0 * 0.5 * moved / (2 if shared else 1)
    seen = [np.zeros(own + 1) if shared else np.zeros((2, own + 1))]
    for step in steps:
        seen.append(seen[-1] + RNG(2).normal())  # what other features do says nothing
        seen[-1][..., 5:-1] = seen[-2][..., 5:-1] + (step if shared else step.reshape(2, 3))
    scores = how["score"](task, [{"shared" if shared else "personal": value} for value in seen])
    np.testing.assert_allclose(scores, ratios(moved.T, z * (2**0.5 if shared else 1.0), 0.5), rtol=1e-9)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (
            rows,
            {
                "silos": 1,
                "canaries": 4000,
                "ordinary": 200,
                "rate": 1.0,
                "rounds": 5,
                "eps": 4.0,
                "shared": False,
                "seed": 0,
            },
        ),
        (clients, {"canaries": 2000, "ordinary": 200, "rate": 0.5, "rounds": 4, "eps": 4.0, "seed": 0, "shares": SHARES}),
        (wrong_labels, {"canaries": 1000, "ordinary": 1000, "features": 3000, "rounds": 40, "eps": 2.0, "seed": 0}),
    ],
)
def test_cases_have_these_sizes_and_this_eps_unless_they_are_told_otherwise(asked, monkeypatch, case, said):
    made = []

    def planted(m, each, ordinary, **how):
        made.append((m, each, ordinary, how))
        return Federation(np.zeros((m * (each + ordinary), 6)), np.zeros(m * (each + ordinary)), [[0]])

    monkeypatch.setattr(one_run_cases, "planted", planted)
    case()
    case(**said)
    assert made[::2] == made[1::2]
    (one, first, model, how), (other, second, same, told) = asked
    assert (one, model, first.x.shape) == (other, same, second.x.shape)
    assert {**how, "score": None} == {**told, "score": None}


def test_ordinary_rows_are_a_linear_model_with_noise():
    federation = one_run_cases.planted(3, 2, 4000, apart=True, seed=1)
    x, y = federation.x[6:, :5], federation.y[6:]
    rest = y - x.sum(axis=1)
    for part in (x, rest):
        assert abs(part.mean()) < 5 / np.sqrt(part.size)
        assert abs(part.var() - 1) < 5 * np.sqrt(2 / part.size)
    assert np.abs(np.corrcoef(np.column_stack([x, rest]).T) - np.eye(6)).max() < 5 / np.sqrt(len(rest))
    drawn = RNG([1, 1]).standard_normal(6 * 3 * 4000)[-3 * 4000 :]  # after the features, from the same generator
    np.testing.assert_allclose(rest, drawn, rtol=0, atol=1e-12)
    assert (one_run_cases.planted(3, 2, 4000, apart=True, seed=2).x != federation.x).any()


def test_canaries_of_clients_are_scored_by_how_far_the_shared_model_moved(asked):
    clients(canaries=3, ordinary=2, rate=0.5, rounds=2, eps=3.0, seed=7)
    [(algorithm, federation, model, how)] = asked
    noise = client_multiplier(eps=3.0, delta=1e-5, rate=0.5, rounds=2)
    assert [list(rows) for rows in federation.train] == [[0], [1], [2], [*range(3, 13)], [*range(13, 23)]]
    np.testing.assert_array_equal(federation.x[:3, 5:], 1e3 * np.eye(3))
    assert len(federation.x) == 23  # every row is somebody's
    steady = {"clip": 1.0, "clip_rate": 0.0, "multiplier": noise, "delta": 1e-5}
    assert algorithm == how["claim"] == DPFedAvg(learning_rate=1e-3, rate=0.5, **steady)
    assert how["work"] == {"rule": "epochs", "n_epochs": 1, "batch_size": 10}
    assert (how["canaries"], how["rounds"], how["seed"], how["shares"]) == ([0, 1, 2], 2, 7, SHARES)
    moved = RNG(1).normal(0.5, 1, (2, 3))
    seen = [
        np.concatenate([RNG(t).normal(size=5), moved[:t].sum(axis=0) / (0.5 * 5) * algorithm.clip, [t]]) for t in range(3)
    ]
    task = Task(federation, model, work=how["work"], seed=0)
    np.testing.assert_allclose(
        how["score"](task, [{"shared": value} for value in seen]), ratios(moved.T, noise, 0.5), rtol=1e-9
    )


def test_wrong_labels_say_nothing_of_their_rows_and_others_do(asked):
    """The means of classes differ by 0.3 sqrt(2) of a deviation in ordinary rows, by nothing but noise in canaries."""
    wrong_labels(canaries=400, ordinary=400, features=4000, rounds=3, eps=2.0, seed=1)
    [(algorithm, federation, model, how)] = asked
    assert algorithm == Local(learning_rate=4.0, privacy=RowPrivacy(eps=2.0, delta=1e-5, clip=1.0))
    assert (how["rounds"], how["work"]) == (3, {"rule": "poisson", "n_steps": 1, "batch_size": 800})
    assert how["canaries"] == [(0, i) for i in range(400)]
    assert (federation.classes, model.sizes, model.loss) == (4, (4000, 4), "softmax")
    drawn = RNG([1, 2])
    centres, labels = drawn.standard_normal((4, 4000)), drawn.integers(0, 4, 800)
    np.testing.assert_array_equal(federation.y, labels)
    rows = drawn.standard_normal((800, 4000)) + 0.3 * centres[labels] * (np.arange(800) >= 400)[:, None]
    np.testing.assert_allclose(federation.x, rows, rtol=0, atol=1e-12)
    for part, apart in ((slice(400), 0.0), (slice(400, None), 0.3)):
        x, y = federation.x[part], federation.y[part]
        means, n = np.stack([x[y == c].mean(axis=0) for c in range(4)]), np.bincount(y)
        for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
            expected = 2 * apart**2 + 1 / n[a] + 1 / n[b]
            assert ((means[a] - means[b]) ** 2).mean() == pytest.approx(expected, abs=5 * expected * np.sqrt(2 / 4000))


def test_less_noise_is_a_part_of_it_and_a_bound_that_is_not_there_clips_nothing():
    federation = pool(rows=4, silos=2)
    made = Task(federation, linear_regression(3), work={"rule": "poisson", "n_steps": 1, "batch_size": 4}, seed=0)
    how = {"model": made.model, "starts": np.zeros(4), "data": made.data, "schedule": made.schedule(0), "learning_rate": 0.1}
    plain = NumpyBackend().local_sgd(**how)
    np.testing.assert_allclose(one_run_cases.NotClipped().local_sgd(**how, clip=1e-9), plain, rtol=1e-6)
    np.testing.assert_array_equal(one_run_cases.NotClipped().local_sgd(**how), plain)
    whole, half, none = (
        LessNoise(part).local_sgd(**how, clip=1e-3, noise=GaussianNoise(5.0, 0, 0)) for part in (1.0, 0.5, 0.0)
    )
    np.testing.assert_allclose(half - none, (whole - none) / 2, rtol=1e-3, atol=1e-7)
    assert (whole != none).all()
    server = one_run_cases.QuietServer(learning_rate=0.1, rate=0.5, multiplier=3.0, delta=1e-5, part=0.25)
    assert server.noise() == [0.75]
    noisy = one_run_cases.NotClipped().local_sgd(**how, clip=1e-3, noise=GaussianNoise(5.0, 0, 0))
    np.testing.assert_allclose(noisy - plain, whole - none, rtol=1e-2, atol=1e-6)  # the noise that was asked for


def test_the_command_audits_trainings(capsys):
    assert main(["audit", "--list"]) == 0
    listed = set(capsys.readouterr().out.splitlines())
    assert {*CASES, *(f"broken: {name}" for name in BROKEN)} <= listed
    assert main(["audit", "one run: FedAvg", "broken: one run, no noise", "--json"]) == 0
    sound, broken = json.loads(capsys.readouterr().out)["audits"]
    assert (sound["kind"], sound["refuted"], broken["kind"], broken["refuted"]) == (
        "training", False, "broken training", True,
    )  # fmt: skip
    assert main(["audit", "broken: one run, no noise"]) == 0
    said = capsys.readouterr().out
    assert "caught" in said
    assert "guesses right, chance" in said


def test_audits_of_one_run_have_seed_0_unless_they_are_told_otherwise():
    small = {"canaries": 1000, "ordinary": 10, "rounds": 1, "rate": 1.0}
    assert clients(**small) == clients(**small, seed=0) != clients(**small, seed=1)
