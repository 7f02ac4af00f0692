"""Averaging with privacy of clients: DP-FedAvg, FeO2, FedHDP, and personal models beside them."""

import numpy as np
import pytest

from estimators.accounting.accountants import epsilon
from estimators.accounting.events import Event
from estimators.federated.algorithms import DPFedAvg, FedAvg, FedHDP, FeO2, Local
from estimators.federated.data import opt_out, synthetic_federation
from estimators.federated.models import logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.privacy import client_guarantee, update_multiplier
from estimators.federated.task import Task
from estimators.federated.training import train

WORK = {"rule": "epochs", "n_epochs": 2, "batch_size": 6}
GROUPS = {"public": [0, 3], "private": [1, 2, 4, 5, 6, 7]}
PRIVATE = {"multiplier": 0.5, "delta": 1e-3}


def task(workers=1, seed=0, clients=8, groups=GROUPS, dtype="float32"):
    federation = synthetic_federation(clients=clients, rows=25, seed=1)
    model = logistic_regression(10, federation.classes)
    backend = NumpyBackend(workers=workers, dtype=dtype)
    return Task(federation, model, work=WORK, seed=seed, backend=backend, groups=groups)


# --- same bits ---------------------------------------------------------------------------------------------------------

ALGORITHMS = [
    DPFedAvg(learning_rate=0.1, rate=0.5, clip=np.inf),
    DPFedAvg(learning_rate=0.1, rate=0.5, lam=0.1, **PRIVATE),
    FeO2(learning_rate=0.1, rate=0.5, ratio=0.2, lam=(0.1, 0.3), decay=(0.9, 2), **PRIVATE),
    FeO2(learning_rate=0.1, number=4, ratio=0.2, **PRIVATE),
    FedHDP(learning_rate=0.1, rate=0.4, multipliers=(0.3, 0.6), ratios=(1.0, 0.5), delta=1e-3),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_same_bits_for_any_workers_and_after_a_resume(algorithm, same_bits):
    same_bits(algorithm, task)


@pytest.mark.parametrize(
    ("settings", "clients", "noise"),
    [
        ({"rate": 0.5}, 400, 10.0),
        ({"number": 60}, 400, 3.0),
        ({"rate": 0.5}, 8, 0.5),  # a twentieth would be less than the multiplier
        ({"rate": 0.5, "count_noise": 7.0}, 400, 7.0),
        ({"rate": 0.5, "clip_rate": 0.0}, 400, np.inf),  # nothing is counted where S stays
    ],
)
def test_counts_get_a_twentieth_of_the_expected_participants_as_noise(settings, clients, noise):
    assert DPFedAvg(learning_rate=0.1, **PRIVATE, **settings).counts(task(clients=clients, groups=None)) == noise


# --- the printed lines, plainly ----------------------------------------------------------------------------------------


def gradient(theta, x, y):
    """Of the logistic loss, mean over rows; the last parameter is the intercept."""
    x = np.hstack([x, np.ones((len(x), 1))])
    return x.T @ (1 / (1 + np.exp(-x @ theta)) - y) / len(y)


def client_update(t, client, round, theta0, theta_j, lam, eta):
    """Lines of ClientUpdate: both models on the same batches."""
    theta, x, y = theta0.copy(), *t.data.client(client)
    steps = t.schedule(round, [client])
    for s in range(steps.steps[0]):
        rows = steps.indices[0, s][steps.weights[0, s] > 0]
        theta = theta - eta * gradient(theta, x[rows], y[rows])
        theta_j = theta_j - eta * (gradient(theta_j, x[rows], y[rows]) + lam * (theta_j - theta0))
    return theta - theta0, theta_j


def algorithm2(t, rounds, *, sample, levels, z, ratios, lam, eta=0.1, S=0.5, kappa=0.4, eta_b=0.3, z_b=2.0, fixed=None):
    """Algorithm 2 for levels given as lists of clients; `fixed` gives divisors that replace the printed N_j^t."""
    theta, personal = t.initial(), {}
    for r in range(rounds):
        updates, inside = {}, {}
        for c in sample(r):
            j = next(j for j in range(len(levels)) if c in levels[j])
            update, personal[c] = client_update(t, c, r, theta, personal.get(c, theta), lam[j], eta)
            norm = np.linalg.norm(update)
            updates[c], inside[c] = update * S / max(norm, S), norm <= S
        averages, N = [], []
        for j, members in enumerate(levels):
            found = [updates[c] for c in members if c in updates]
            N.append(len(found) if fixed is None or fixed[j] is None else fixed[j])
            z_j = 0.0 if z[j] == 0 else (z[j] ** -2 - (2 * z_b) ** -2) ** -0.5
            noise = z_j * S / N[j] * t.server_noise(r, len(theta), stage=j) if N[j] else 0.0
            averages.append(sum(found, np.zeros(len(theta))) / max(N[j], 1e-9) + noise)
        w = np.array(ratios) * N / np.dot(ratios, N)
        theta = theta + w @ averages
        noise = z_b * t.server_noise(r, 1, stage=len(levels))[0]
        if fixed is None:
            b = (sum(inside.values()) + noise) / sum(N)
        else:
            b = 0.5 + (sum(v - 0.5 for v in inside.values()) + noise) / sum(N)
        S = S * np.exp(-eta_b * (b - kappa))
    return theta, personal, S


SETTINGS = {"learning_rate": 0.1, "clip": 0.5, "quantile": 0.4, "clip_rate": 0.3, "count_noise": 2.0, "delta": 1e-3}


def test_feo2_does_the_printed_lines():
    t = task(dtype="float64")
    got = train(FeO2(number=5, ratio=0.2, multiplier=0.5, lam=(0.1, 0.3), **SETTINGS), t, rounds=4).state
    theta, personal, S = algorithm2(
        t, 4, sample=lambda r: t.participants(r, number=5), levels=[GROUPS["public"], GROUPS["private"]], z=(0, 0.5),
        ratios=(1.0, 0.2), lam=(0.1, 0.3),
    )  # fmt: skip
    np.testing.assert_allclose(got["shared"], theta, rtol=1e-10)
    np.testing.assert_allclose(got["clip"], S, rtol=1e-10)
    for c, own in personal.items():
        np.testing.assert_allclose(got["personal"][c], own, rtol=1e-4, atol=1e-6)  # kept in float32
    assert got["begun"].tolist() == [c in personal for c in range(8)]


def test_three_levels_with_divisors_that_do_not_depend_on_the_draw():
    groups = {"a": [0, 3], "b": [1, 2], "c": [4, 5, 6, 7]}
    t = task(dtype="float64", groups=groups)
    algorithm = FedHDP(
        rate=0.7, groups=tuple(groups), multipliers=(0.0, 0.4, 0.8), ratios=(1.0, 0.5, 0.25), lam=0.2, **SETTINGS
    )
    got = train(algorithm, t, rounds=4).state
    sample = lambda r: t.participants(r, rate=0.7)  # noqa: E731
    assert all(np.isin(sample(r), groups["a"]).any() for r in range(4))

    def run(fixed):
        return algorithm2(t, 4, sample=sample, levels=list(groups.values()), z=(0, 0.4, 0.8), ratios=(1, 0.5, 0.25),
                          lam=(0.2,) * 3, fixed=fixed)  # fmt: skip

    theta, _, S = run((None, 0.7 * 2, 0.7 * 4))
    np.testing.assert_allclose(got["shared"], theta, rtol=1e-10)
    np.testing.assert_allclose(got["clip"], S, rtol=1e-10)
    assert np.abs(got["shared"] - run(None)[0]).max() > 1e-3


# --- limits ------------------------------------------------------------------------------------------------------------


def shared(algorithm, rounds=3, **options):
    return train(algorithm, task(**options), rounds=rounds).state["shared"]


def test_without_noise_and_clipping_it_is_averaging():
    half = {"learning_rate": 0.1, "rate": 0.5}
    mean = shared(FedAvg(**half, weights="uniform"))
    np.testing.assert_allclose(shared(DPFedAvg(**half, clip=np.inf)), mean, atol=1e-7)
    np.testing.assert_allclose(shared(FeO2(**half, clip=np.inf, ratio=1.0, multiplier=0.0)), mean, atol=1e-7)
    assert np.abs(shared(DPFedAvg(**half, clip=0.1, clip_rate=0.0)) - mean).max() > 1e-2


def test_special_cases_agree():
    common = {"learning_rate": 0.1, "rate": 0.5, "delta": 1e-3, "lam": 0.1}
    everyone = {"all": list(range(8))}
    one = FedHDP(**common, groups=("all",), multipliers=(0.5,), ratios=(3.0,))
    assert (shared(one, groups=everyone) == shared(DPFedAvg(**common, multiplier=0.5))).all()
    two = FedHDP(**common, multipliers=(0.0, 0.5), ratios=(2.0, 0.4))
    np.testing.assert_allclose(shared(two), shared(FeO2(**common, multiplier=0.5, ratio=0.2)), rtol=1e-12)


def test_a_level_of_ratio_0_takes_no_part():
    algorithm = FeO2(learning_rate=0.1, rate=0.9, ratio=0.0, lam=0.1, **PRIVATE)
    t = task()
    trained = train(algorithm, t, rounds=3)
    assert trained.state["begun"].nonzero()[0].tolist() == GROUPS["public"]
    models = algorithm.models(t, trained.state)
    assert (models["personal"][GROUPS["private"]] == models["shared"].astype(np.float32)).all()
    assert algorithm.guarantees(t, rounds=3) == [None] * 8


def test_personal_models_lie_between_local_ones_and_the_shared_one():
    def personal(lam):
        t = task()
        algorithm = DPFedAvg(learning_rate=0.1, rate=1.0, lam=lam, clip=np.inf)
        return algorithm, train(algorithm, t, rounds=3).state, t

    _, free, t = personal(0.0)
    np.testing.assert_allclose(free["personal"], train(Local(learning_rate=0.1), t, rounds=3).state["personal"], atol=1e-6)
    algorithm, tied, t = personal(9.9)  # eta lam = 0.99: a step leaves 1 % of the way to the shared model
    before = train(algorithm, t, rounds=2).state["shared"]
    gaps = [np.linalg.norm(state["personal"] - before, axis=1) for state in (tied, personal(1.0)[1], free)]
    assert (gaps[0] < gaps[1]).all()
    assert (gaps[1] < gaps[2]).all()
    assert gaps[0].max() < 0.2
    assert (tied["shared"] == free["shared"]).all()


def test_one_level_takes_the_strength_of_its_pull_as_a_number_or_as_a_list_of_one():
    one, other = (
        train(DPFedAvg(learning_rate=0.1, rate=0.9, lam=lam, **PRIVATE), task(), rounds=2).state for lam in (0.3, [0.3])
    )
    assert (one["personal"] == other["personal"]).all()
    assert one["begun"].any()


@pytest.mark.parametrize(("lam", "pulls"), [(None, [0, 0]), (0.3, [0.3, 0.3]), ((0.1, 0.3), [0.1, 0.3])])
def test_levels_pull_as_is_said_and_not_where_nothing_is_personal(lam, pulls):
    levels = FeO2(learning_rate=0.1, rate=0.5, ratio=0.2, lam=lam, **PRIVATE).levels(task())
    assert [level.lam for level in levels] == pulls
    assert [np.flatnonzero(level.mask).tolist() for level in levels] == list(GROUPS.values())


# --- privacy -----------------------------------------------------------------------------------------------------------


def test_noise_has_the_promised_size_and_is_added_to_empty_rounds_too():
    t = task()
    still = {"learning_rate": 1e-12, "rate": 1e-9, "clip": 2.0, "clip_rate": 0.0, "delta": 1e-3}
    algorithm = FedHDP(**still, multipliers=(0.0, 0.5), ratios=(1.0, 0.3))
    state, steps = algorithm.start(t, rounds=1), []
    for r in range(400):
        before = state["shared"]
        assert algorithm.round(t, state, r)["participants"] == 0
        steps.append(state["shared"] - before)
    found = np.array(steps) / (0.5 * 2.0 / (1e-9 * 6))  # z S / n_j; the empty level without noise has weight 0
    assert abs(np.mean(found**2) - 1) < 5 * np.sqrt(2 / found.size)
    assert abs(np.mean(found)) < 5 / np.sqrt(found.size)


def step_of(algorithm, t, clients, updates):
    state = algorithm.start(t, rounds=1)
    before = state["shared"]
    algorithm.aggregate(t, state, 0, clients, algorithm.levels(t), updates, np.linalg.norm(updates, axis=1))
    return state["shared"] - before, float(np.log(state["clip"] / algorithm.clip))


@pytest.mark.parametrize("rule", [{"rate": 0.5}, {"number": 4}])
def test_one_client_moves_a_round_by_no_more_than_the_noise_is_made_for(rule):
    algorithm, t = FeO2(learning_rate=0.1, ratio=0.5, clip=0.7, count_noise=3.0, **PRIVATE, **rule), task()
    n = (0 + 0.5 * 0.5 * 6, 0.5 * 6)  # weights and expected number; the public clients 0 and 3 stay away
    rng, clients, worst = np.random.default_rng(0), np.array([1, 2, 4, 5]), [0.0, 0.0]
    for _ in range(50):
        updates = rng.normal(size=(4, t.model.n_parameters)) * rng.uniform(0.01, 1, (4, 1)) + rng.choice([-3, 3], (4, 1))
        whole, less = (step_of(algorithm, t, clients[keep], updates[keep]) for keep in (slice(None), slice(1, None)))
        worst = np.maximum(worst, [np.linalg.norm(whole[0] - less[0]) * n[0] / 0.5, abs(whole[1] - less[1]) * n[1] / 0.2])
    if "rate" in rule:
        np.testing.assert_allclose(worst, (0.7, 0.5), rtol=1e-6)
    else:
        assert worst[0] > 0.8  # the divisor, the number found, gives the client away


def test_the_clipping_norm_finds_its_quantile():
    t, found = task(), []
    for quantile in (0.2, 0.8):
        algorithm = DPFedAvg(learning_rate=0.1, rate=1.0, clip=0.5, quantile=quantile)
        state, clipped = algorithm.start(t, rounds=1), []
        for r in range(80):
            state["shared"] = np.asarray(t.initial(), dtype=float)
            clipped.append(algorithm.round(t, state, r)["clipped"])
        found.append(1 - np.mean(clipped[40:]))
    np.testing.assert_allclose(found, (0.2, 0.8), atol=0.05)


def test_updates_and_counts_together_cost_what_the_multiplier_says():
    z = update_multiplier(1.5, 5.0)
    assert z > 1.5
    run, how = Event(noise=1.5, sampling="poisson", rate=0.05, number=500), {"delta": 1e-4, "accountant": "rdp"}
    both = client_guarantee(z, 5.0, rate=0.05, rounds=500, **how)
    assert both.eps == pytest.approx(epsilon(run, **how), rel=1e-9)
    assert round(both.eps, 1) == 3.6  # Tables 2, 8 and 9
    assert both.adjacency == "client add-remove"
    assert update_multiplier(1.5, np.inf) == pytest.approx(1.5)
    assert client_guarantee(1.5, 5.0, rate=0.05, rounds=500, **how).eps > both.eps


def test_levels_promise_what_their_own_noise_gives():
    algorithm = FedHDP(learning_rate=0.1, rate=0.4, multipliers=(0.0, 0.6), ratios=(1.0, 0.5), delta=1e-3)
    promised = algorithm.guarantees(task(), rounds=7)
    assert [k for k, promise in enumerate(promised) if promise is None] == GROUPS["public"]
    eps = epsilon(Event(noise=0.6, sampling="poisson", rate=0.4, number=7), delta=1e-3)
    assert all(promised[k].eps == pytest.approx(eps) for k in GROUPS["private"])
    assert all(promised[k].simulated for k in GROUPS["private"])
    two = FedHDP(learning_rate=0.1, rate=0.4, multipliers=(0.6, 1.2), ratios=(1.0, 0.5), delta=1e-3)
    assert two.guarantees(task(), rounds=7)[0].eps > 2 * two.guarantees(task(), rounds=7)[1].eps


def test_a_fixed_number_of_participants_promises_less():
    settings = {"learning_rate": 0.1, "ratio": 0.5, "multiplier": 2.0, "delta": 1e-3}
    by_chance, fixed = (FeO2(**settings, **rule).guarantees(task(), rounds=3) for rule in ({"rate": 0.5}, {"number": 4}))
    assert fixed[0] is None
    assert fixed[1].adjacency == "client"
    assert fixed[1].eps > 2 * by_chance[1].eps


# --- rounds without a level, bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [{"rate": 0.05}, {"number": 1}])
def test_levels_without_participants_do_no_harm(rule):
    t = task()
    trained = train(FeO2(learning_rate=0.1, ratio=0.5, lam=0.1, **PRIVATE, **rule), t, rounds=12, every=1)
    assert all(np.isfinite(list(record.values())).all() for record in trained.history)


def test_an_empty_round_without_noise_changes_nothing(idle_round):
    idle_round(DPFedAvg(learning_rate=0.1, rate=1e-9), task())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: DPFedAvg(learning_rate=0.1), "give rate"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, number=2), "give rate"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.0), "rate must be > 0"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, multiplier=1.0), "delta must be given"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, multiplier=1.0, delta=0.0), "delta must be given"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, multiplier=1.0, delta=1.0), "delta must be given"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, clip=np.inf, **PRIVATE), "clip must be finite"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, clip=0.0), "clip must be > 0"),
        (lambda: DPFedAvg(learning_rate=0.1, rate=0.5, lam=-1.0), "lam"),
        (
            lambda: FeO2(learning_rate=0.1, rate=0.5, ratio=1.0, multiplier=0.0, lam=(1, 2, 3)),
            "lam must be a number or a",
        ),
        (lambda: FedHDP(learning_rate=0.1, rate=0.5, multipliers=(0.0,), ratios=(1.0, 1.0)), "one entry for each level"),
        (lambda: FedHDP(learning_rate=0.1, rate=0.5, multipliers=(0.0, 0.0), ratios=(0.0, 0.0)), "ratios must be > 0"),
        (lambda: ALGORITHMS[2].start(task(groups={"public": [0]}), rounds=1), "no group 'private'"),
        (lambda: ALGORITHMS[2].start(task(groups={"public": [0], "private": [0, 1]}), rounds=1), "every client once"),
        (
            lambda: ALGORITHMS[2].start(task(groups={"public": [0, 3], "private": [1, 2, 4, 6, 7]}), rounds=1),
            "every client once; client 5 is in 0",
        ),
        (
            lambda: ALGORITHMS[2].start(task(groups={"public": [0, 3, 4], "private": [1, 2, 4, 5, 6]}), rounds=1),
            "every client once; client 4 is in 2",
        ),
        (
            lambda: shared(DPFedAvg(learning_rate=0.1, rate=0.5, count_noise=0.2, **PRIVATE)),
            "count_noise must be above",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_those_who_opt_out_and_the_others_are_everyone():
    federation = synthetic_federation(clients=20, rows=10, seed=0)
    out, stay = (opt_out(federation, share=0.25, others=others, seed=3) for others in (False, True))
    assert out.sum() == 5
    assert (out == ~stay).all()


def test_spread_over_a_group_is_a_variance():
    t = task()
    personal = np.random.default_rng(0).normal(size=(8, t.model.n_parameters))
    spread = t.measure({"personal": personal})["personal.public-spread.loss"]
    assert spread == t.evaluate(personal).loss[GROUPS["public"]].var()
