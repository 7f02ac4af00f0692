"""AdaPeD and its kin: limits, a plain twin of whole trainings, noise for whole clients, guarantees."""

import copy
from math import inf

import numpy as np
import pytest

from estimators.accounting.adaped import adaped_epsilon, adaped_rdp
from estimators.accounting.privacy import ORDERS
from estimators.federated.algorithms import (
    AdaPeD,
    DPAdaPeD,
    FedAvg,
    FedAvgPlus,
    FederatedMutualLearning,
    Local,
    QuPeD,
    make,
)
from estimators.federated.algorithms.adaped import adaped_multiplier
from estimators.federated.data import synthetic_federation
from estimators.federated.models import logistic_regression, neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.reference_backend import activations, backwards, log_shares, losses
from estimators.federated.schedule import Schedule
from estimators.federated.task import Task
from estimators.federated.training import train

WORK = {"rule": "fixed", "n_steps": 3, "batch_size": 4}
RATES = {"learning_rate": 0.1, "common_rate": 0.2}
ADAPTIVE = {**RATES, "psi_rate": 0.3, "psi": 0.7, "floor": 0.4}
PRIVATE = {**ADAPTIVE, "eps": 8.0, "delta": 1e-3, "clip": 0.1, "number": 4}


def task(workers=1, seed=0, work=WORK, clients=6, dtype="float32", hidden=5):
    federation = synthetic_federation(clients=clients, rows=25, seed=1)
    model = neural_network(10, hidden, federation.classes) if hidden else logistic_regression(10, federation.classes)
    return Task(federation, model, work=work, seed=seed, backend=NumpyBackend(workers=workers, dtype=dtype))


ALGORITHMS = {
    "adaped": AdaPeD(**ADAPTIVE, number=3, decay=(0.9, 2)),
    "fine-tuned": AdaPeD(**ADAPTIVE, number=3, fine_tuning=True),
    "as printed": AdaPeD(**ADAPTIVE, rate=0.5, as_printed=True),
    "private": DPAdaPeD(**PRIVATE, psi_clip=0.2),
    "private, joint, fine-tuned": DPAdaPeD(**PRIVATE, fine_tuning=True),
    "private, as printed": DPAdaPeD(**PRIVATE, as_printed=True),
    "quped": QuPeD(**RATES, lam=0.25, number=3),
    "averaged, then tuned": FedAvgPlus(learning_rate=0.1, number=3, tuning_steps=2),
    "mutual": FederatedMutualLearning(**RATES, alpha=0.25, beta=0.5, rate=0.5),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_same_bits_for_any_workers_and_after_a_resume(name, same_bits):
    algorithm = ALGORITHMS[name]
    whole = same_bits(algorithm, task)
    assert train(algorithm, task(seed=1), rounds=5, every=1).history != whole.history


# A twin that is nothing but the printed lines, for one round after the other.


def gradient(t, scores_slopes, parameters, x):
    *below, scores = activations(t.model, parameters, x)
    return backwards(t.model, parameters, *below, scores_slopes(scores)).mean(axis=0)


def twin(t, a, rounds):
    """AdaPeD line by line (Algorithms 5 and 6)."""
    m, first = t.n_clients, t.initial()
    theta, mu, psi = np.tile(first, (m, 1)), first.copy(), a.psi
    received = [(mu, psi)] * m

    def shares(w, x):
        return np.exp(log_shares(t.model, activations(t.model, w, x)[-1]))

    def own_step(w, other, psi, x, y):
        q = shares(other, x)

        def slopes(scores):
            return losses(t.model, scores, y)[1] + (np.exp(log_shares(t.model, scores)) - q) / (2 * psi)

        return w - a.learning_rate * gradient(t, slopes, w, x)

    for r in range(rounds):
        chosen = t.participants(r, rate=a.rate, number=a.number)
        sent = []
        for i in range(m):
            steps = t.schedule(r, [i])
            rows = [steps.indices[0, s] for s in range(steps.steps[0])]
            x, y = t.data.client(i)
            if i not in chosen:
                for batch in rows if a.fine_tuning else []:
                    theta[i] = own_step(theta[i], *received[i], x[batch], y[batch])
                continue
            own_mu, own_psi = received[i] = (mu, psi)
            for s, batch in enumerate(rows):
                bx, by = x[batch], y[batch]
                theta[i] = own_step(theta[i], own_mu, own_psi, bx, by)
                if a.as_printed and s == len(rows) - 1:
                    break
                log_p = log_shares(t.model, activations(t.model, theta[i], bx)[-1])

                def slopes(scores, log_p=log_p, own_psi=own_psi):
                    log_q = log_shares(t.model, scores)
                    each = (np.exp(log_q) * (log_q - log_p)).sum(axis=1, keepdims=True)
                    return np.exp(log_q) * (log_q - log_p - each) / (2 * own_psi)

                own_mu = own_mu - a.common_rate * gradient(t, slopes, own_mu, bx)
                q = shares(own_mu, bx)
                kd = (q * (np.log(q) - log_p)).sum(axis=1).mean()
                own_psi = max(a.floor, own_psi - a.psi_rate * (1 / (2 * own_psi) - kd / (2 * own_psi**2)))
            sent.append((own_mu, own_psi))
        if sent:
            mu, psi = np.mean([x for x, _ in sent], axis=0), np.mean([x for _, x in sent])
    return theta, mu, psi


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize("fine_tuning", [False, True])
def test_adaped_is_its_lines(fine_tuning, printed):
    algorithm = AdaPeD(**ADAPTIVE, number=3, fine_tuning=fine_tuning, as_printed=printed)
    t = task(dtype="float64")
    found = train(algorithm, t, rounds=4).state
    theta, mu, psi = twin(t, algorithm, 4)
    np.testing.assert_allclose(found["personal"], theta, atol=1e-6)  # parameters are stored in single precision
    np.testing.assert_allclose(found["shared"], mu, atol=1e-6)
    assert float(found["psi"]) == pytest.approx(psi, abs=1e-6)
    other = twin(t, AdaPeD(**ADAPTIVE, number=3, fine_tuning=fine_tuning, as_printed=not printed), 4)
    assert abs(found["shared"] - other[1]).max() > 1e-4


def test_adaped_asks_for_noise_only_where_its_message_says_how_much():
    private, t = DPAdaPeD(**PRIVATE), task()
    assert private.noise(t, {"multiplier": np.float32(0.0)}, 2) is None
    found, expected = private.noise(t, {"multiplier": np.float32(1.5)}, 2), t.noise(2, 1.5)
    assert (found.multiplier, found.seed, found.round) == (expected.multiplier, expected.seed, expected.round)


def descended(t, weights, towards_other, x, y, w, other, rate):
    """w after a step down its weighted sum of cross-entropy and divergence, by differences of the sum itself.

    The divergence is KL(p_other || p_w), or `towards_other` KL(p_w || p_other).
    """

    def value(w):
        own, log_q = (log_shares(t.model, activations(t.model, u, x)[-1]) for u in (w, other))
        log_p, log_q = (own, log_q) if towards_other else (log_q, own)
        return np.mean(
            weights[1] * (np.exp(log_p) * (log_p - log_q)).sum(axis=1) - weights[0] * own[np.arange(len(y)), labels]
        )

    labels, steps = y.astype(int), 1e-5 * np.eye(w.size)
    return w - rate * np.array([(value(w + step) - value(w - step)) / 2e-5 for step in steps])


@pytest.mark.parametrize(
    ("algorithm", "own", "common", "towards_other"),
    [
        (QuPeD(**RATES, lam=0.6), (0.4, 0.6), (0.0, 0.6), True),
        (FederatedMutualLearning(**RATES, alpha=0.25, beta=0.5), (0.25, 0.75), (0.5, 0.5), False),
    ],
)
def test_networks_that_learn_from_each_other_descend_what_they_are_said_to(algorithm, own, common, towards_other):
    """Own networks towards KL(p_mu || p_theta); copies along the same in QuPeD, else along KL(p_theta || p_mu)."""
    t = task(dtype="float64", clients=3, hidden=0)
    theta, mu = np.tile(t.initial(), (3, 1)), t.initial()
    for r in range(2):
        sent = []
        for i in range(3):
            steps, (x, y), received = t.schedule(r, [i]), t.data.client(i), mu
            for batch in steps.indices[0, : steps.steps[0]]:
                rows = x[batch], y[batch]
                theta[i] = descended(t, own, False, *rows, theta[i], received, RATES["learning_rate"])
                received = descended(t, common, towards_other, *rows, received, theta[i], RATES["common_rate"])
            sent.append(received)
        mu = np.mean(sent, axis=0)
    found = train(algorithm, t, rounds=2).state
    np.testing.assert_allclose(found["personal"], theta, atol=1e-6)
    np.testing.assert_allclose(found["shared"], mu, atol=1e-6)


def test_sent_before_the_last_step_nothing_is_learned_in_rounds_of_one_step():
    """Claim generative:alg5:server."""
    one = task(work={**WORK, "n_steps": 1})
    printed = train(AdaPeD(**ADAPTIVE, as_printed=True), one, rounds=3).state
    np.testing.assert_allclose(printed["shared"], np.float32(one.initial()), rtol=1e-12)
    assert float(printed["psi"]) == pytest.approx(ADAPTIVE["psi"], rel=1e-12)
    assert abs(train(AdaPeD(**ADAPTIVE), one, rounds=3).state["shared"] - one.initial()).max() > 1e-3


# Limits.


def test_one_learning_rate_is_for_both_networks():
    both = QuPeD(learning_rate=0.1, lam=0.5, decay=(0.5, 1))
    assert both.step(1) == QuPeD(learning_rate=0.1, common_rate=0.1, lam=0.5, decay=(0.5, 1)).step(1)
    assert both.step(1).rates == (0.05, 0.05, 0.0)


@pytest.mark.parametrize("hidden", [0, 5])
def test_uncoupled_networks_are_local_training_bit_for_bit(hidden):
    t = task(hidden=hidden)
    own = train(Local(learning_rate=0.1), t, rounds=4).state["personal"]
    for algorithm in (
        AdaPeD(**ADAPTIVE | {"psi": inf}),
        AdaPeD(**ADAPTIVE | {"psi": inf}, number=2, fine_tuning=True),
        QuPeD(**RATES, lam=0.0),
        FederatedMutualLearning(**RATES, alpha=1.0, beta=0.3),
    ):
        assert (train(algorithm, t, rounds=4).state["personal"] == own).all()
    assert not (train(AdaPeD(**ADAPTIVE), t, rounds=4).state["personal"] == own).all()


def test_mutual_learning_without_coupling_averages_as_federated_averaging_does():
    t = task()
    shared = train(FederatedMutualLearning(**RATES, alpha=0.5, beta=1.0, number=3), t, rounds=4).state["shared"]
    expected = train(FedAvg(learning_rate=0.2, weights="uniform", number=3), t, rounds=4).state["shared"]
    np.testing.assert_allclose(shared, expected, atol=1e-6)


def test_fine_tuning_after_averaging_leaves_averaging_alone():
    t, settings = task(), {"learning_rate": 0.1, "number": 3}
    shared = train(FedAvg(**settings), t, rounds=3).state["shared"]
    for steps in (0, 2):
        algorithm = FedAvgPlus(**settings, tuning_steps=steps)
        models = algorithm.models(t, train(algorithm, t, rounds=3, every=1).state)
        assert (models["shared"] == shared).all()
        batches = t.schedule(0, stage=15, n_steps=steps)
        assert (models["personal"] == t.train(shared, 0, learning_rate=0.1, steps=batches)).all()
    assert not (models["personal"] == np.float32(shared)).all(axis=1).any()


def test_a_common_network_that_only_distils_knows_no_labels_before_its_clients_do():
    """In QuPeD with lam = 1 no label is ever used: both networks stay where they started, equal."""
    state = train(QuPeD(**RATES, lam=1.0), task(), rounds=3).state
    np.testing.assert_allclose(state["personal"], np.tile(task().initial(), (6, 1)), atol=1e-6)


def test_psi_tends_to_the_mean_divergence():
    """Fixed networks: psi descends log(2 psi)/2 + KL/(2 psi), whose minimum is at psi = KL."""
    t = task(work={"rule": "fixed", "n_steps": 50, "batch_size": 25}, clients=1)
    algorithm = AdaPeD(learning_rate=1e-12, common_rate=1e-12, psi_rate=0.05, psi=1.0, floor=1e-3)
    state = algorithm.start(t, rounds=60)
    state["personal"] = np.random.default_rng(0).normal(size=state["personal"].shape).astype(np.float32)
    for r in range(60):
        algorithm.round(t, state, r)
    x, _ = t.data.client(0)
    log_p, log_q = (log_shares(t.model, activations(t.model, w, x)[-1]) for w in (state["personal"][0], state["shared"]))
    kd = (np.exp(log_q) * (log_q - log_p)).sum(axis=1).mean()
    assert kd > 0.01
    assert float(state["psi"]) == pytest.approx(kd, rel=1e-3)


@pytest.mark.parametrize("algorithm", [AdaPeD(**ADAPTIVE, rate=0.0), QuPeD(**RATES, lam=0.5, rate=0.0)])
def test_a_round_without_participants_changes_nothing(algorithm, idle_round):
    assert idle_round(algorithm, task())["participants"] == 0


def test_without_participants_fine_tuning_goes_on_alone():
    t, algorithm = task(), AdaPeD(**ADAPTIVE, rate=0.0, fine_tuning=True)
    state = algorithm.start(t, rounds=1)
    before = copy.deepcopy(state)
    algorithm.round(t, state, 0)
    assert (state["shared"] == before["shared"]).all()
    assert not (state["personal"] == before["personal"]).any(axis=1).all()


def test_the_others_networks_are_left_alone_without_fine_tuning():
    t, algorithm = task(), AdaPeD(**ADAPTIVE, number=2)
    state = algorithm.start(t, rounds=1)
    algorithm.round(t, state, 0)
    moved = (state["personal"] != np.float32(t.initial())).any(axis=1)
    assert np.flatnonzero(moved).tolist() == t.participants(0, number=2).tolist()


# Privacy of whole clients.


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("participants", [4, None])
def test_the_guarantee_is_the_accountants(joint, participants):
    settings = PRIVATE | {"number": participants, "psi_clip": None if joint else 0.2}
    algorithm, t, rounds = DPAdaPeD(**settings), task(), 7
    z = float(algorithm.start(t, rounds=rounds)["multiplier"])
    promised = algorithm.guarantees(t, rounds=rounds)
    promise = promised[0]
    assert promise is not None
    assert promised == [promise] * 6
    assert promise.simulated
    clips = {"C1": 0.1, "C2": 0.0 if joint else 0.2}
    noise = {"sigma2_q1": (z * 0.1) ** 2, "sigma2_q2": (z * 0.2) ** 2}
    spent = {"tau": 3, "T": 21, "K": participants or 6, "m": 6, **noise, **clips}
    assert promise.eps == pytest.approx(adaped_epsilon(delta=1e-3, orders=ORDERS, **spent), rel=1e-12)
    assert 8.0 * (1 - 1e-5) < promise.eps <= 8.0
    np.testing.assert_allclose(promise.renyi, adaped_rdp(order=np.array(ORDERS), **spent), rtol=1e-12)
    assert promise.adjacency == "client"
    assert promise.trusted == ("server" if participants else "client")


def test_noise_rises_with_steps_rounds_and_share_and_falls_with_eps():
    plan = {"eps": 4.0, "delta": 1e-4, "tau": 5, "rounds": 20, "K": 5, "m": 50, "vectors": 1}
    base = adaped_multiplier(**plan)
    for change, factor in (({"tau": 10}, 1), ({"rounds": 40}, 1), ({"K": 50}, 1), ({"vectors": 2}, 1), ({"eps": 8.0}, -1)):
        assert factor * (adaped_multiplier(**plan | change) - base) > 0.01 * base
    everyone = plan | {"K": 50}
    doubled = adaped_multiplier(**everyone | {"tau": 20})
    assert doubled == pytest.approx(2 * adaped_multiplier(**everyone), rel=1e-5)


@pytest.mark.parametrize("psi_clip", [None, 0.2])
def test_where_psi_is_infinite_nothing_of_it_is_learned_and_no_noise_pays_for_it(psi_clip):
    t, local = task(), PRIVATE | {"psi": inf, "psi_clip": psi_clip}
    algorithm, still = DPAdaPeD(**local), DPAdaPeD(**local | {"psi_rate": 0.0})
    plan = {"eps": 8.0, "delta": 1e-3, "tau": 3, "rounds": 2, "K": 4, "m": 6}
    assert algorithm.multiplier(t, rounds=2) == adaped_multiplier(**plan, vectors=1)
    assert DPAdaPeD(**local | {"psi": 0.7}).multiplier(t, rounds=2) == adaped_multiplier(**plan, vectors=1 + bool(psi_clip))
    one, other = (train(a, t, rounds=2).state for a in (algorithm, still))
    for name in ("shared", "personal", "psi"):
        np.testing.assert_array_equal(one[name], other[name])


def neighbours(t, client):
    """The same task with other rows at one client."""
    other = copy.copy(t)
    x, y = t.data.client(client)
    changed = copy.deepcopy(t.data)
    rows = slice(changed.first[client], changed.first[client] + changed.sizes[client])
    changed.x[rows], changed.y[rows] = -5 * x, t.model.n_classes - 1 - y
    other.data = changed
    return other


@pytest.mark.parametrize("joint", [False, True])
def test_a_client_moves_its_message_by_what_the_accountant_assumes(joint):
    """With equal noise, one step's messages of neighbours differ by at most twice the clips, whatever the client's rows."""
    one = task(work={**WORK, "n_steps": 1}, clients=1)
    algorithm = DPAdaPeD(
        **PRIVATE | {"number": None, "clip": 0.01, "psi_clip": None if joint else 0.02, "floor": 1e-9, "common_rate": 1.0},
    )
    ends = []
    for t in (one, neighbours(one, 0)):
        state = algorithm.start(t, rounds=1) | {"multiplier": np.array(0.5)}
        state["personal"] = np.random.default_rng(0).normal(size=state["personal"].shape).astype(np.float32)
        algorithm.round(t, state, 0)
        ends.append((state["shared"], float(state["psi"])))
    mu, psi = np.linalg.norm(ends[0][0] - ends[1][0]), abs(ends[0][1] - ends[1][1]) / PRIVATE["psi_rate"]
    assert 0.001 < mu < 2 * 0.01 * (1 + 1e-4)
    assert psi < 2 * 0.02 * (1 + 1e-9)
    if joint:
        assert np.hypot(mu, psi) < 2 * 0.01 * (1 + 1e-4)


def test_the_gradient_of_mu_has_the_clip_for_itself_where_psi_is_kept():
    """A step of one client moves mu by the clip, not by what a slope in psi that nobody takes would leave of it."""
    one = task(work={**WORK, "n_steps": 1}, clients=1)
    kept = {"eps": inf, "psi_rate": 0.0, "psi": 0.05, "floor": 1e-9, "clip": 0.01, "number": None, "common_rate": 1.0}
    algorithm = DPAdaPeD(**PRIVATE | kept)
    state = algorithm.start(one, rounds=1)
    state["personal"] = np.random.default_rng(0).normal(size=state["personal"].shape).astype(np.float32)
    before = np.float64(state["shared"])
    algorithm.round(one, state, 0)
    assert np.linalg.norm(state["shared"] - before) == pytest.approx(0.01, rel=1e-4)
    assert state["psi"] == 0.05


def test_noise_reaches_every_client_in_every_step():
    """The server's average has noise of variance eta_2^2 z^2 C_1^2 tau / K, within statistics."""
    t = task(hidden=100)
    algorithm = DPAdaPeD(**PRIVATE | {"learning_rate": 1e-9, "psi_rate": 0.0, "number": 4, "eps": 1.0})
    state = algorithm.start(t, rounds=1) | {"psi": np.array(1e200)}  # no gradient in mu
    algorithm.round(t, state, 0)
    moved = state["shared"] - np.float32(t.initial())
    expected = 0.2 * float(state["multiplier"]) * 0.1 * np.sqrt(3 / 4)
    assert moved.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * moved.size))


def test_without_noise_and_with_wide_clips_privacy_changes_nothing():
    free = DPAdaPeD(**PRIVATE | {"eps": inf, "clip": 1e6, "psi_clip": 1e6})
    state = train(free, task(), rounds=3).state
    expected = train(AdaPeD(**ADAPTIVE, number=4), task(), rounds=3).state
    np.testing.assert_allclose(state["shared"], expected["shared"], atol=1e-6)
    assert free.guarantees(task(), rounds=3) == [None] * 6


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: AdaPeD(**ADAPTIVE | {"psi": 0.0}), "psi must be"),
        (lambda: AdaPeD(**ADAPTIVE | {"floor": 0.0}), "floor must be > 0"),
        (lambda: AdaPeD(**ADAPTIVE | {"psi_rate": -1.0}), r"rates\[2\]"),
        (lambda: AdaPeD(**ADAPTIVE | {"learning_rate": 0.0}), "learning_rate"),
        (lambda: QuPeD(**RATES, lam=1.5), "lam"),
        (lambda: FederatedMutualLearning(**RATES, alpha=0.5, beta=-0.1), "beta"),
        (lambda: DPAdaPeD(**PRIVATE | {"eps": 0.0}), "eps must be > 0"),
        (lambda: DPAdaPeD(**PRIVATE | {"delta": 1.0}), "delta must lie"),
        (lambda: DPAdaPeD(**PRIVATE | {"clip": 0.0}), "clip"),
        (lambda: DPAdaPeD(**PRIVATE | {"number": None, "rate": 0.5}), "give number"),
        (lambda: adaped_multiplier(eps=1e-12, delta=1e-300, tau=5, rounds=5, K=5, m=5, vectors=1), "out of reach"),
        (lambda: make("QuPeD", {"lam": 0.5}), "learning_rate"),
        (lambda: FedAvgPlus(learning_rate=0.1, tuning_steps=-1), "tuning_steps"),
        (
            lambda: train(
                FedAvgPlus(learning_rate=0.1, tuning_steps=1),
                task(work={"rule": "epochs", "n_epochs": 1, "batch_size": 4}),
                rounds=1,
            ),
            'rule "fixed" or "poisson"',
        ),
        (
            lambda: train(
                AdaPeD(**ADAPTIVE, as_printed=True), task(work={"rule": "epochs", "n_epochs": 0, "batch_size": 4}), rounds=1
            ),
            "same number >= 1",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_a_schedule_without_its_last_step():
    from estimators.federated.algorithms.adaped import part

    steps = task().schedule(0)
    assert isinstance(part(steps, 0, -1), Schedule)
    assert part(steps, 0, -1).steps.tolist() == [2] * 6
    assert (part(steps, -1, None).indices[:, 0] == steps.indices[:, 2]).all()
