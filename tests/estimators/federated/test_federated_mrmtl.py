"""Cross-silo algorithms of MR-MTL: limits, independent twins in plain NumPy, accounting of choices and of tuning."""

import numpy as np
import pytest

from estimators.accounting import privacy, tuning
from estimators.accounting.privacy import ORDERS
from estimators.federated.algorithms import (
    IFCA,
    MRMTL,
    ClusteredMRMTL,
    Ditto,
    FedAvg,
    FineTuning,
    Local,
    Mocha,
    Tuned,
    mean_regularised,
)
from estimators.federated.algorithms.clustered import badness, centres
from estimators.federated.algorithms.tuned import inner, part, split_of
from estimators.federated.data import synthetic_federation
from estimators.federated.data.federation import Federation
from estimators.federated.models import linear_regression, logistic_regression, neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.privacy import RowPrivacy
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.task import Task
from estimators.federated.training import train

WORK = {"rule": "poisson", "n_steps": 3, "batch_size": 4}
PRIVATE = RowPrivacy(eps=3.0, delta=1e-3, clip=1.0)
CLIPPED = RowPrivacy(eps=np.inf, delta=1e-3, clip=1.0)
RATE = {"learning_rate": 0.1}


def task(workers=1, seed=0, work=WORK, clients=5, kind=logistic_regression, backend=None, model="logistic"):
    federation = synthetic_federation(model=model, clients=clients, rows=25, seed=1)
    sizes = {} if kind is linear_regression else {"n_classes": federation.classes}
    backend = NumpyBackend(workers=workers, dtype="float64") if backend is None else backend
    return Task(federation, kind(10, **sizes), work=work, seed=seed, backend=backend)


def tuned(**changes):
    settings = {"grid": {"lam": [0.0, 0.3, 1.0]}, "mean": 3.0, "privacy": PRIVATE, **changes}
    return Tuned(algorithm="MRMTL", settings=RATE, **settings)


ALGORITHMS = [
    MRMTL(lam=0.5, **RATE),
    MRMTL(lam=0.5, privacy=PRIVATE, weights="uniform", **RATE),
    Ditto(lam=0.5, privacy=PRIVATE, **RATE),
    FineTuning(privacy=PRIVATE, **RATE),
    Mocha(lam=0.01, privacy=PRIVATE, **RATE),
    IFCA(clusters=2, privacy=PRIVATE, choosing=0.4, **RATE),
    ClusteredMRMTL(clusters=2, privacy=PRIVATE, choosing=0.4, lam=0.5, **RATE),
    tuned(),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_same_bits_for_any_workers_and_after_a_resume(algorithm, same_bits):
    same_bits(algorithm, task)


# --- runs of tuning -------------------------------------------------------------------------------------------------------


def test_every_run_of_tuning_has_a_seed_of_its_own_of_63_bits_and_the_same_rows():
    t = task()
    seeds = [part(t, 0.3, i).seed for i in range(64)]
    assert len({*seeds, *(part(task(seed=1), 0.3, i).seed for i in range(64))}) == 128
    assert 2**62 < max(seeds) < 2**63
    assert part(t, 0.3, 5).data is part(t, 0.3, 6).data
    split, held = split_of(t, 0.3), 0
    for place, k in enumerate(split.checked.tolist()):
        left, checked = split.training.whole.client(k), split.validation.client(place)[0]
        rows = np.concatenate([left.x, checked])
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(t.whole.client(k).x, axis=0))
        held += len(checked)
    assert split.training.sizes.sum() + held == t.sizes.sum() == 100
    assert abs(held / 100 - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 100)
    clients = set()
    for share in (0.008, 0.012, 0.02, 0.04):  # few clients have any row that is held
        few = split_of(t, share)
        assert few.checked.tolist() == np.flatnonzero(few.training.sizes < t.sizes).tolist()
        clients.add(len(few.checked))
    assert 1 in clients
    assert max(clients) < 5


# --- limits ------------------------------------------------------------------------------------------------------------


def same(a, b, rounds=4, **options):
    """Personal models of two algorithms on one task."""
    t = task(**options)
    one, other = (x.models(t, train(x, t, rounds=rounds).state) for x in (a, b))
    return one, other


@pytest.mark.parametrize("private", [None, PRIVATE])
def test_without_a_pull_it_is_local_training_bit_for_bit(private):
    local = Local(privacy=private, **RATE)
    for algorithm in (MRMTL(lam=0.0, privacy=private, **RATE), FineTuning(share=0.0, privacy=private, **RATE)):
        one, other = same(algorithm, local)
        assert (one["personal"] == other["personal"]).all()


def test_the_largest_pull_stays_with_the_mean():
    """With learning_rate lam = 1 and one step a round, a model is the mean before less a step."""
    t, algorithm = task(work={"rule": "poisson", "n_steps": 1, "batch_size": 25}), MRMTL(lam=10.0, privacy=CLIPPED, **RATE)
    first, averaged = (train(a, t, rounds=1).state for a in (algorithm, FedAvg(privacy=CLIPPED, **RATE)))
    np.testing.assert_allclose(algorithm.models(t, first)["shared"], averaged["shared"], rtol=1e-6, atol=1e-7)
    state = algorithm.start(t, rounds=6)
    for i in range(6):
        mean = algorithm.models(t, state)["shared"]
        algorithm.round(t, state, i)
        assert (np.linalg.norm(state["personal"] - mean, axis=1) <= 0.1 + 1e-6).all()  # learning_rate times clip


def test_a_large_pull_keeps_the_models_together():
    spread = [np.ptp(same(MRMTL(lam=lam, **RATE), Local(**RATE))[0]["personal"], axis=0).max() for lam in (0.0, 1.0, 9.0)]
    assert spread[0] > 1.3 * spread[1] > 1.6 * spread[2] > 0
    flat = {"learning_rate": 1e-3}
    near, far = same(MRMTL(lam=900.0, **flat), MRMTL(lam=0.0, **flat), rounds=30)
    assert np.ptp(near["personal"], axis=0).max() < 0.1 * np.ptp(far["personal"], axis=0).max()


def test_equal_silos_stay_equal_to_averaging():
    rows = synthetic_federation(clients=1, rows=20, seed=3)
    twins = Federation(rows.x, rows.y, train=[rows.train[0]] * 3, test=[rows.test[0]] * 3, classes=rows.classes)
    work = {"rule": "poisson", "n_steps": 2, "batch_size": 20}  # all rows in every step
    t = Task(twins, logistic_regression(10), work=work, seed=0, backend=NumpyBackend(dtype="float64", workers=1))
    shared = FedAvg(**RATE).models(t, train(FedAvg(**RATE), t, rounds=4).state)["shared"]
    for algorithm in (
        MRMTL(lam=1.0, **RATE), Ditto(lam=1.0, **RATE), FineTuning(**RATE), IFCA(clusters=1, **RATE), Local(**RATE),
    ):  # fmt: skip
        personal = algorithm.models(t, train(algorithm, t, rounds=4).state)["personal"]
        pulled = isinstance(algorithm, (MRMTL, Ditto))  # the pull to the model before slows all of them alike
        assert (personal == personal[0]).all()
        if not pulled:
            np.testing.assert_allclose(personal[0], shared, rtol=1e-5, atol=1e-7)


def test_one_client_is_alone():
    one, other = same(FineTuning(**RATE), Local(**RATE), clients=1)
    assert np.allclose(one["personal"], other["personal"], rtol=1e-6)
    mocha, alone = same(Mocha(lam=0.0, **RATE), Local(**RATE), clients=1)
    assert (mocha["personal"] == alone["personal"]).all()


def test_fine_tuning_averages_first():
    t = task()
    algorithm = FineTuning(share=0.5, **RATE)
    state, spread = algorithm.start(t, rounds=4), []
    for i in range(4):
        algorithm.round(t, state, i)
        spread.append(np.ptp(algorithm.models(t, state)["personal"], axis=0).max())
    assert spread[0] == spread[1] == 0 < spread[2] < spread[3]


@pytest.mark.parametrize("private", [None, PRIVATE])
def test_one_cluster_is_averaging_bit_for_bit(private):
    one, other = same(IFCA(clusters=1, privacy=private, **RATE), FedAvg(privacy=private, **RATE))
    assert (one["personal"] == other["shared"]).all()


def test_clusters_without_members_stay():
    t, algorithm = task(kind=neural_network_of), IFCA(clusters=4, **RATE)
    state = algorithm.start(t, rounds=1)
    state["centres"][1:] = 50.0  # nobody's choice
    before = state["centres"].copy()
    algorithm.round(t, state, 0)
    empty = np.setdiff1d(np.arange(4), state["chosen"])
    assert len(empty)
    assert (state["centres"][empty] == before[empty]).all()


def neural_network_of(n_features, n_classes):
    return neural_network(n_features, 5, n_classes)


# --- twins -------------------------------------------------------------------------------------------------------------


def plain_steps(t, w, k, round, *, lam, anchor, rate=0.1, clip=1.0, multiplier=0.0, stage=0):
    """Local DP-SGD of one client in plain NumPy; linear regression."""
    steps, client = t.schedule(round, stage=stage), t.federation.client(k)
    x = np.column_stack([np.asarray(client.x, dtype=float), np.ones(len(client.y))])
    for s in range(steps.steps[k]):
        rows = steps.indices[k, s][steps.weights[k, s] > 0]
        gradients = (x[rows] @ w - client.y[rows])[:, None] * x[rows]
        norms = np.linalg.norm(gradients, axis=1)
        total = (gradients / np.maximum(1, norms / clip)[:, None]).sum(axis=0)
        if multiplier:
            total = total + multiplier * clip * t.noise(round, 1.0, stage=stage).draw(k, [s], len(w))[0]
        w = w - rate * (total / steps.divisors[k, s] + lam * (w - anchor))
    return w


def linear_task():
    return task(kind=linear_regression, model="linear", backend=ReferenceBackend())


def models_of(algorithm, t, rounds=3):
    return algorithm.models(t, train(algorithm, t, rounds=rounds).state)


@pytest.mark.parametrize("lam", [0.7, np.array([0.0, 0.5, 1.0, 2.0, 3.0])], ids=["one", "each its own"])
def test_mrmtl_is_algorithm_a1(lam):
    t, algorithm = linear_task(), MRMTL(lam=lam, privacy=PRIVATE, **RATE)
    z = algorithm.start(t, rounds=3)["multiplier"]
    models, mean, own = np.zeros((5, 11)), np.zeros(11), np.broadcast_to(lam, 5)
    for i in range(3):
        new = np.array([
            plain_steps(t, models[k], k, i, lam=own[k], anchor=mean, multiplier=z[k]) for k in range(5)
        ])  # fmt: skip
        mean = mean + t.sizes / t.sizes.sum() @ (new - models)
        models = new
    found = models_of(algorithm, t)
    np.testing.assert_allclose(found["personal"], models, atol=2e-6)
    np.testing.assert_allclose(found["shared"], mean, atol=2e-6)


def test_ditto_trains_twice():
    t, algorithm = linear_task(), Ditto(lam=0.7, privacy=PRIVATE, weights="uniform", **RATE)
    z = algorithm.start(t, rounds=3)["multiplier"]
    models, shared = np.zeros((5, 11)), np.zeros(11)
    for i in range(3):
        ends = [plain_steps(t, shared, k, i, lam=0.0, anchor=shared, multiplier=z[k]) for k in range(5)]
        models = [
            plain_steps(t, models[k], k, i, lam=0.7, anchor=shared, multiplier=z[k], stage=1) for k in range(5)
        ]  # fmt: skip
        shared = np.mean(ends, axis=0)
    found = models_of(algorithm, t)
    np.testing.assert_allclose(found["personal"], models, atol=2e-6)
    np.testing.assert_allclose(found["shared"], shared, atol=2e-6)


@pytest.mark.parametrize("penalty", ["inverse", "relation"])
def test_mocha_follows_its_penalty(penalty):
    """Against the gradient of trace(W' M W) itself, with M from the square root of a matrix by another route."""
    from scipy.linalg import sqrtm

    t, algorithm = linear_task(), Mocha(lam=0.02, penalty=penalty, floor=1e-6, privacy=None, **RATE)
    t = Task(t.federation, t.model, work={"rule": "poisson", "n_steps": 1, "batch_size": 4}, seed=0, backend=t.backend)
    models, M = np.zeros((5, 11)), np.eye(5) * (5 if penalty == "inverse" else 0.2)
    for i in range(3):
        pull = 0.02 * M @ models
        models = np.array([plain_steps(t, models[k], k, i, lam=0.0, anchor=0, clip=np.inf) for k in range(5)]) - 0.1 * pull
        root = np.real(sqrtm(models @ models.T))
        relation = root / np.trace(root)
        M = np.linalg.inv(relation) if penalty == "inverse" else relation
    np.testing.assert_allclose(models_of(algorithm, t)["personal"], models, atol=1e-5)


@pytest.mark.parametrize(
    "public", [MRMTL(lam=0.5, **RATE), IFCA(clusters=2, **RATE), ClusteredMRMTL(clusters=2, lam=0.5, **RATE)]
)
def test_without_privacy_nothing_is_promised(public):
    assert public.guarantees(linear_task(), rounds=3) == [None] * 5


def test_ifca_and_mrmtl_within_clusters_are_algorithm_a2():
    t = linear_task()
    algorithm = ClusteredMRMTL(clusters=2, choosing=0.5, lam=0.7, cap=0.5, **RATE)
    middles, models, chosen = centres(t, 2), np.zeros((5, 11)), np.zeros(5, int)
    for i in range(4):
        if i < 2:
            fit = np.array([[plain_badness(t, k, w, 0.5) for w in middles] for k in range(5)])
            chosen = fit.argmin(axis=1)
            models = middles[chosen]
        lam = 0.0 if i < 2 else 0.7
        models = np.array([
            plain_steps(t, models[k], k, i, lam=lam, anchor=middles[chosen[k]], clip=np.inf) for k in range(5)
        ])  # fmt: skip
        middles = np.array([
            np.average(models[chosen == g], axis=0, weights=t.sizes[chosen == g]) if (chosen == g).any() else middles[g]
            for g in range(2)
        ])  # fmt: skip
    state = train(algorithm, t, rounds=4).state
    assert (state["chosen"] == chosen).all()
    np.testing.assert_allclose(state["personal"], models, atol=2e-6)
    np.testing.assert_allclose(state["centres"], middles, atol=2e-6)


def plain_badness(t, k, w, cap):
    client = t.federation.client(k)
    return np.minimum((client.x @ w[:-1] + w[-1] - client.y) ** 2 / 2, cap).sum()


# --- choices -----------------------------------------------------------------------------------------------------------


def test_badness_counts():
    t = task()
    w = np.random.default_rng(0).normal(size=t.model.n_parameters)
    client = t.federation.client(3)
    wrong = ((client.x @ w[:-1] + w[-1] > 0) != client.y).sum()
    assert badness(t, t.data, w)[3] == wrong
    linear = linear_task()
    np.testing.assert_allclose(badness(linear, linear.data, w, 0.5)[3], plain_badness(linear, 3, w, 0.5))
    with pytest.raises(ValueError, match="cap must be given"):
        badness(linear, linear.data, w)


def test_one_row_moves_badness_by_at_most_the_sensitivity():
    t, generator = linear_task(), np.random.default_rng(5)
    x, y = t.data.client(0)
    for _ in range(50):
        w = generator.normal(size=11) * 3
        full = t.backend.prepare(t.model, [(x, y)])
        less = t.backend.prepare(t.model, [(x[1:], y[1:])])
        change = badness(t, full, w, 0.3) - badness(t, less, w, 0.3)
        assert 0 <= change[0] <= 0.3 + 1e-12


def test_choices_are_those_of_the_exponential_mechanism():
    t, algorithm = task(seed=3), IFCA(clusters=2, eps_share=0.2, privacy=PRIVATE, **RATE)
    state = algorithm.start(t, rounds=2)
    scores = np.stack([badness(t, t.data, w) for w in state["centres"]], axis=1)
    chosen = np.array([algorithm.choose(t, state, i) for i in range(1000)])
    odds = 1 / (1 + np.exp(0.2 * 3.0 / 2 * (scores[:, 1] - scores[:, 0])))
    standard = np.sqrt(odds * (1 - odds) / len(chosen))
    assert (abs(chosen.mean(axis=0) - odds) < 5 * standard + 1e-3).all()
    assert (IFCA(clusters=2, **RATE).choose(t, state, 0) == scores.argmin(axis=1)).all()


def test_choices_cost_what_they_should():
    t, rounds = task(), 10
    algorithm = IFCA(clusters=2, choosing=0.5, eps_share=0.1, privacy=PRIVATE, **RATE)
    z = algorithm.start(t, rounds=rounds)["multiplier"]
    plain = Local(privacy=PRIVATE, **RATE).start(t, rounds=rounds)["multiplier"]
    assert (z > plain).all()
    orders = np.array(ORDERS)
    steps = privacy.rdp_sampled_gaussian(noise_multiplier=z[0], sampling_rate=4 / t.sizes[0], order=orders)
    spent = privacy.epsilon_from_rdp(orders, 3 * rounds * steps + 5 * orders * 0.3**2 / 8, delta=1e-3)
    assert spent == pytest.approx(3.0, rel=1e-9)
    assert spent <= 3.0
    promised = next(g for g in algorithm.guarantees(t, rounds=rounds) if g is not None)
    assert promised.eps == pytest.approx(spent, rel=1e-12)
    assert promised.adjacency == "row add-remove"
    assert promised.simulated
    one = IFCA(clusters=1, privacy=PRIVATE, **RATE)
    np.testing.assert_allclose(one.start(t, rounds=rounds)["multiplier"], plain, rtol=1e-9)
    with pytest.raises(ValueError, match="client 0: eps=3 at delta"):
        IFCA(clusters=2, eps_share=0.9, privacy=PRIVATE, **RATE).start(t, rounds=500)


def test_noise_is_for_all_passes_over_the_rows():
    t = task()
    once, twice = (a.start(t, rounds=4)["multiplier"] for a in (MRMTL(lam=1.0, privacy=PRIVATE, **RATE), ALGORITHMS[2]))
    assert (twice > once).all()
    assert (twice == Local(privacy=PRIVATE, **RATE).start(t, rounds=8)["multiplier"]).all()
    for algorithm in ALGORITHMS[1:]:
        assert max(g.eps for g in algorithm.guarantees(t, rounds=4)) <= 3.0
    eps = np.array([1.0, np.inf, 2.0, np.inf, 4.0])
    mixed = IFCA(clusters=2, privacy=RowPrivacy(eps=eps, delta=1e-3, clip=1.0), **RATE)
    assert (mixed.start(t, rounds=4)["multiplier"] > 0).tolist() == [True, False, True, False, True]
    assert [g is None for g in mixed.guarantees(t, rounds=4)] == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("work", "adjacency"),
    [
        ({"rule": "epochs", "n_epochs": 1, "batch_size": 4}, "row"),
        ({"rule": "fixed", "n_steps": 2, "batch_size": 4}, "row"),
        ({"rule": "poisson", "n_steps": 2, "batch_size": 100}, "row add-remove"),
    ],
    ids=["passes", "fixed batches", "all rows"],
)
def test_choices_beside_other_batches(work, adjacency):
    """eps is met and nearly spent, whatever the sampling; where every batch is all rows, rates of divergence add up."""
    t, algorithm = task(work=work), IFCA(clusters=2, choosing=0.5, eps_share=0.1, privacy=PRIVATE, **RATE)
    z = algorithm.start(t, rounds=10)["multiplier"][0]
    promised = next(g for g in algorithm.guarantees(t, rounds=10) if g is not None)
    assert promised.adjacency == adjacency
    assert promised.simulated
    assert 3.0 * (1 - 1e-6) < promised.eps <= 3.0 * (1 + 1e-9)
    if work["rule"] != "fixed":
        shift, steps = (2, 10) if work["rule"] == "epochs" else (1, 20)
        rho = steps * (shift / z) ** 2 / 2 + 5 * 0.3**2 / 8
        assert privacy.epsilon_from_zcdp(rho=rho, delta=1e-3) == pytest.approx(3.0, rel=1e-6)


# --- tuning ------------------------------------------------------------------------------------------------------------


def test_tuning_is_paid_for():
    t, algorithm = task(), tuned()
    sub = part(t, 0.2, 0)
    z = algorithm.start(t, rounds=6)["0.multiplier"]
    orders = np.array(ORDERS)
    steps = privacy.rdp_sampled_gaussian(noise_multiplier=z[0], sampling_rate=4 / sub.sizes[0], order=orders)
    one = np.maximum(18 * steps, orders / (2 * 10.0**2))
    runs = tuning.TruncatedNegativeBinomial.with_mean(eta=0.0, mean=3.0)
    spent = tuning.tuned_epsilon(runs, orders, one, delta=1e-3)
    assert spent == pytest.approx(3.0, rel=1e-9)
    promised = next(g for g in algorithm.guarantees(t, rounds=6) if g is not None)
    assert promised.eps == pytest.approx(spent, rel=1e-12)
    assert promised.trusted == "server"
    assert promised.simulated
    alone = Local(privacy=PRIVATE, **RATE).start(sub, rounds=6)["multiplier"]
    assert (z > alone).all()


def test_tuning_publishes_the_best_run():
    t, algorithm = task(seed=3), tuned(privacy=None, mean=8.0, eta=1.0)
    state = train(algorithm, t, rounds=3).state
    scores, points = state["scores"], state["points"]
    assert len(points) > 2
    best, chosen = algorithm.best(t, state)
    assert scores[best] == scores.min()
    assert chosen == {"lam": [0.0, 0.3, 1.0][points[best, 0]]}
    alone = MRMTL(**chosen, **RATE)
    sub = part(t, 0.2, best)
    own = train(alone, sub, rounds=3).state["personal"]
    assert (algorithm.models(t, state)["personal"] == own).all()


def test_before_the_last_round_tuning_has_the_models_of_its_first_run():
    t, algorithm = task(seed=3), tuned(privacy=None, mean=8.0, eta=1.0)
    state = algorithm.start(t, rounds=3)
    algorithm.round(t, state, 0)
    assert state["points"][0, 0] != state["points"][1, 0]
    assert algorithm.best(t, state) == (0, {"lam": [0.0, 0.3, 1.0][state["points"][0, 0]]})
    assert (algorithm.models(t, state)["personal"] == state["0.personal"]).all()


def test_validation_rows_are_not_trained_on():
    t = task()
    split = split_of(t, 0.3)
    for k, client in enumerate(split.checked):
        whole = {row.tobytes() for row in t.data.client(client)[0]}
        kept = {row.tobytes() for row in split.training.data.client(client)[0]}
        held = {row.tobytes() for row in split.validation.client(k)[0]}
        assert whole == kept | held
        assert not kept & held
    assert split_of(t, 0.3) is split
    assert part(t, 0.3, 0).seed != part(t, 0.3, 1).seed


def test_scores_have_the_noise_they_paid_for():
    """Each of five clients adds normal noise of 100 units of its score's sensitivity, which is 1, or the cap."""
    t = task(seed=3)
    for cap in (None, 0.25):
        far = tuned(eta=1.0, privacy=RowPrivacy(eps=30.0, delta=1e-3, clip=1.0), score_noise=100.0, cap=cap)
        state, free = far.start(t, rounds=1), tuned(privacy=None, eta=1.0, cap=cap)
        own, point = inner(state, 0), state["points"][0]
        noise = np.array([far.score(t, i, point, own, None) - free.score(t, i, point, own, None) for i in range(300)])
        deviation = 100 * (cap or 1.0) * np.sqrt(5)
        assert abs(np.sqrt((noise**2).mean()) / deviation - 1) < 5 / np.sqrt(600)
        assert abs(noise.mean()) < 5 * deviation / np.sqrt(300)


# --- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: MRMTL(lam=-1.0, **RATE), "lam"),
        (lambda: MRMTL(lam=1.0, weights="size", **RATE), "weights"),
        (lambda: Ditto(lam=np.nan, **RATE), "lam"),
        (lambda: FineTuning(share=1.5, **RATE), "share"),
        (lambda: Mocha(lam=1.0, floor=0.0, **RATE), "floor"),
        (lambda: Mocha(lam=1.0, penalty="none", **RATE), "penalty"),
        (lambda: IFCA(clusters=0, **RATE), "clusters"),
        (lambda: IFCA(clusters=2, choosing=0.0, **RATE), "choosing"),
        (lambda: IFCA(clusters=2, eps_share=1.0, **RATE), "eps_share"),
        (lambda: IFCA(clusters=2, cap=0.0, **RATE), "cap"),
        (lambda: ClusteredMRMTL(clusters=2, lam=-1.0, **RATE), "lam"),
        (lambda: tuned(validation=1.0), "validation"),
        (lambda: tuned(grid={}), "grid"),
        (lambda: tuned(grid={"lamb": [1.0]}), "no setting 'lamb'"),
        (lambda: tuned(mean=1.0), "mean"),
        (lambda: tuned(score_noise=0.0), "score_noise"),
        (lambda: tuned(validation=0.999).start(task(), rounds=1), "without training rows"),
        (lambda: tuned(validation=1e-9).start(task(), rounds=1), "no client has validation rows"),
        (lambda: PRIVATE.multipliers(task(), rounds=1, rho=-1.0), "rho"),
        (
            lambda: Tuned(
                algorithm="IFCA", settings=RATE | {"clusters": 2}, grid={"eps_share": [0.1, 0.2]}, privacy=PRIVATE, mean=2.0
            ).start(task(clients=1), rounds=4),
            "change what a run costs",
        ),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_relations_of_models():
    assert mean_regularised.related(np.zeros((3, 2)), "relation", 0.1).tolist() == (np.eye(3) / 3).tolist()
    rows = np.random.default_rng(1).normal(size=(4, 6))
    both = [mean_regularised.related(rows, penalty, 1e-9) for penalty in ("relation", "inverse")]
    np.testing.assert_allclose(both[0] @ both[1], np.eye(4), atol=1e-9)
    assert np.trace(both[0]) == pytest.approx(1)
