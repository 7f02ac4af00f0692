"""pFedMe, Per-FedAvg and FedEM against independent twins, in their limits and under resumes; mixtures of models."""

import numpy as np
import pytest

from estimators.federated.algorithms import FedAvg, FedEM, Local, PerFedAvg, PFedMe, make
from estimators.federated.data import Federation, synthetic_federation
from estimators.federated.models import linear_regression, linear_svm, logistic_regression, neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.predictions import Mixture, evaluate_mixture, example_losses, posterior
from estimators.federated.reference_backend import ReferenceBackend, activations
from estimators.federated.schedule import Schedule, epochs
from estimators.federated.task import Task
from estimators.federated.training import train, training

FIXED = {"rule": "fixed", "n_steps": 3, "batch_size": 4}
WHOLE = {"rule": "epochs", "n_epochs": 1, "batch_size": 1000}
PFEDME = {"learning_rate": 0.2, "personal_rate": 0.1, "lam": 2.0, "inner_steps": 3}


def task(work=FIXED, *, workers=1, dtype="float64", model=None, **options):
    federation = synthetic_federation("mixture", **({"clients": 5, "rows": 20, "features": 6, "unequal": 0.5} | options))
    model = logistic_regression(6, 4) if model is None else model
    return Task(federation, model, work=work, seed=3, backend=NumpyBackend(dtype=dtype, workers=workers))


def lines(work=WHOLE, clients=4, **options):
    """A task of linear regressions: quadratic, so that everything has a closed form."""
    federation = synthetic_federation("linear", clients=clients, rows=30, features=3, seed=2, **options)
    return Task(federation, linear_regression(3), work=work, seed=3, backend=NumpyBackend(dtype="float64", workers=1))


def quadratic(t, k):
    """Curvature A and slope b at 0 of a client's loss w A w / 2 - b w + ..."""
    x, y = t.data.client(k)
    rows = np.column_stack([x, np.ones(len(x))])
    return rows.T @ rows / len(y), rows.T @ y / len(y)


def gradient(t, k, w, rows):
    """Mean gradient of softmax regression on some rows, from its formula."""
    x, y = (part[rows] for part in t.data.client(k))
    a = np.column_stack([x, np.ones(len(x))])
    scores = a @ w.reshape(7, 4)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return (a.T @ (p - np.eye(4)[y.astype(int)])).ravel() / len(y)


def after(algorithm, t, rounds=2):
    return train(algorithm, t, rounds=rounds).state


# Twins.


def test_pfedme_equals_a_plain_twin():
    t = task()
    algorithm = PFedMe(**PFEDME, beta=0.7, number=3, decay=(0.5, 1))
    w, own = np.zeros(28), np.zeros((5, 28))
    for r in range(2):
        ends = []
        for k in t.participants(r, number=3):
            steps = t.schedule(r, [k])
            local = theta = w
            for rows in steps.indices[0]:
                for _ in range(3):
                    theta = theta - 0.1 * (gradient(t, k, theta, rows) + 2.0 * (theta - local))
                local = local - 0.2 * 0.5**r * 2.0 * (local - theta)
            own[k] = theta
            ends.append(local)
        w = 0.3 * w + 0.7 * np.mean(ends, axis=0)
    state = after(algorithm, t)
    np.testing.assert_allclose(state["shared"], w, atol=1e-12)
    np.testing.assert_allclose(state["personal"], own, atol=1e-12)


@pytest.mark.parametrize("variant", ["first-order", "hessian-free"])
def test_per_fedavg_equals_a_plain_twin(variant):
    t = task()
    algorithm = PerFedAvg(learning_rate=0.2, alpha=0.3, variant=variant, adaptations=2, decay=(0.5, 1))
    w, delta = np.zeros(28), 1e-3
    for r in range(2):
        ends = []
        for k in range(5):
            local = w
            batches = [t.schedule(r, [k], stage=stage).indices[0] for stage in range(3)]
            for outer, inner, third in zip(*batches, strict=True):
                v = gradient(t, k, local - 0.3 * gradient(t, k, local, inner), outer)
                if variant == "hessian-free":
                    slopes = [gradient(t, k, local + sign * delta * v, third) for sign in (1, -1)]
                    v = v - 0.3 * (slopes[0] - slopes[1]) / (2 * delta)
                local = local - 0.2 * 0.5**r * v
            ends.append(local)
        w = np.mean(ends, axis=0)
    state = after(algorithm, t)
    np.testing.assert_allclose(state["shared"], w, atol=1e-11)
    for k, row in enumerate(algorithm.models(t, state)["personal"]):
        own = w
        for _ in range(2):
            own = own - 0.3 * gradient(t, k, own, slice(None))
        np.testing.assert_allclose(row, own, atol=1e-11)


def test_fedem_equals_a_plain_twin():
    t = task({"rule": "epochs", "n_epochs": 2, "batch_size": 5}, model=logistic_regression(6, 4))
    algorithm = FedEM(learning_rate=0.3, components=3, rate=0.7, decay=(0.5, 1))
    start = algorithm.start(t, rounds=2)
    components, weights = start["components"].copy(), np.full((5, 3), 1 / 3)
    for r in range(2):
        clients, ends = t.participants(r, rate=0.7), []
        for k in clients:
            x, y = t.data.client(k)
            scores = np.einsum("ij,mjk->mik", np.column_stack([x, np.ones(len(x))]), components.reshape(3, 7, 4))
            p = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
            q = weights[k][:, None] * p[:, np.arange(len(y)), y.astype(int)]
            q /= q.sum(axis=0)
            weights[k] = q.mean(axis=1)
            steps, trained = t.schedule(r, [k]), []
            for m in range(3):
                w = components[m]
                for s in range(steps.steps[0]):
                    rows = steps.indices[0, s, steps.weights[0, s] > 0]
                    g = sum(q[m, j] * gradient(t, k, w, [j]) for j in rows)
                    w = w - 0.3 * 0.5**r * g / len(rows)
                trained.append(w)
            ends.append(trained)
        components = np.einsum("c,cmp->mp", t.sizes[clients] / t.sizes[clients].sum(), np.array(ends))
    state = after(algorithm, t)
    np.testing.assert_allclose(state["weights"], weights, atol=1e-12)
    np.testing.assert_allclose(state["components"], components, atol=1e-12)


# Limits.


def test_pfedme_with_lam_zero_trains_alone():
    t = task()
    state = after(PFedMe(**PFEDME | {"lam": 0.0, "inner_steps": 1}), t, rounds=1)
    assert not state["shared"].any()
    assert (state["personal"] == after(Local(learning_rate=0.1), t, rounds=1)["personal"]).all()


def test_pfedme_with_exact_minima_and_a_large_lam_is_averaging():
    """The envelope's gradient tends to the loss's: lam (w - v) = g + O(1 / lam)."""
    t, gaps = task(), []
    expected = after(FedAvg(learning_rate=0.2, weights="uniform"), t)["shared"]
    for lam in (1e3, 1e4):
        how = {"learning_rate": 0.2, "personal_rate": 1 / lam, "lam": lam, "inner_steps": 4}
        state = after(PFedMe(**how), t)
        gaps.append(abs(state["shared"] - expected).max())
        assert abs(state["personal"] - state["shared"]).max() < 1
    assert gaps[0] < 2e-2
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.1)


def test_pfedme_jumping_to_one_inner_step_is_averaging():
    t = task()
    state = after(PFedMe(learning_rate=0.5, personal_rate=0.1, lam=2.0, inner_steps=1), t)
    expected = after(FedAvg(learning_rate=0.1, weights="uniform"), t)["shared"]
    np.testing.assert_allclose(state["shared"], expected, atol=1e-13)


def test_pfedme_finds_the_minimum_of_the_envelopes():
    """With whole batches v_k = (A_k + lam)^-1 (b_k + lam w) and the mean of w - v_k is 0."""
    t, lam = lines(), 1.5
    inverses, slopes = [], []
    for k in range(4):
        A, b = quadratic(t, k)
        inverses.append(np.linalg.inv(A + lam * np.eye(4)))
        slopes.append(b)
    left = np.eye(4) - lam * np.mean(inverses, axis=0)
    w = np.linalg.solve(left, np.mean([h @ b for h, b in zip(inverses, slopes, strict=True)], axis=0))
    state = after(PFedMe(learning_rate=0.5, personal_rate=0.2, lam=lam, inner_steps=60), t, rounds=150)
    np.testing.assert_allclose(state["shared"], w, atol=1e-8)
    for row, inverse, slope in zip(state["personal"], inverses, slopes, strict=True):
        np.testing.assert_allclose(row, inverse @ (slope + lam * w), atol=1e-8)


def test_pfedme_moves_idle_personal_models_only_if_asked():
    t, moved = task(), {}
    for everyone in (False, True):
        state = after(PFedMe(**PFEDME, number=2, everyone=everyone), t, rounds=1)
        moved[everyone] = (state["personal"] != 0).any(axis=1), state["shared"]
    assert np.flatnonzero(moved[False][0]).tolist() == t.participants(0, number=2).tolist()
    assert moved[True][0].all()
    assert (moved[False][1] == moved[True][1]).all()


def test_per_fedavg_without_adaptation_is_averaging():
    t = task()
    algorithm = PerFedAvg(learning_rate=0.2, alpha=0.0, weights="rows", rate=0.6)
    state = after(algorithm, t)
    assert (state["shared"] == after(FedAvg(learning_rate=0.2, rate=0.6), t)["shared"]).all()
    assert (algorithm.models(t, state)["personal"] == state["shared"]).all()
    little = after(PerFedAvg(learning_rate=0.2, alpha=1e-9, weights="rows", rate=0.6), t)["shared"]
    np.testing.assert_allclose(little, state["shared"], atol=1e-8)


def test_hessian_free_per_fedavg_finds_the_minimum_of_adapted_losses_and_first_order_does_not():
    """Whole batches of quadratics: the mean of (I - alpha A) A (I - alpha A) w = (I - alpha A)^2 b."""
    t, alpha = lines(tau2=4.0), 0.3
    left, right, left1, right1 = (0.0,) * 4
    for k in range(4):
        A, b = quadratic(t, k)
        shrink = np.eye(4) - alpha * A
        left, right = left + shrink @ A @ shrink, right + shrink @ (b - alpha * A @ b)
        left1, right1 = left1 + A @ shrink, right1 + b - alpha * A @ b
    exact, first = np.linalg.solve(left, right), np.linalg.solve(left1, right1)
    how = {"learning_rate": 0.5, "alpha": alpha}
    found = {v: after(PerFedAvg(**how, variant=v), t, rounds=150)["shared"] for v in ("first-order", "hessian-free")}
    np.testing.assert_allclose(found["hessian-free"], exact, atol=1e-6)
    np.testing.assert_allclose(found["first-order"], first, atol=1e-6)
    assert abs(exact - first).max() > 0.1


def test_fedem_with_one_component_is_averaging():
    t = task(dtype="float32", model=neural_network(6, 5, 4))
    state = after(FedEM(learning_rate=0.2, components=1, number=3), t)
    averaged = FedAvg(learning_rate=0.2, number=3)
    assert (state["components"][0] == after(averaged, t)["shared"]).all()
    assert (state["weights"] == 1).all()
    shared = t.measure({"personal": state["components"][0]})
    for name, value in t.measure({"personal": Mixture(state["weights"], state["components"])}).items():
        assert value == pytest.approx(shared[name], rel=1e-5), name


@pytest.mark.parametrize("seed", [0, 1])
def test_fedem_separates_two_clusters_of_clients(seed):
    clients = synthetic_federation("logistic", clients=10, rows=80, features=5, tau2=0.0, groups=2, apart2=16.0, seed=1)
    work, backend = {"rule": "epochs", "n_epochs": 1, "batch_size": 10}, NumpyBackend(workers=1)
    t = Task(clients, logistic_regression(5), work=work, seed=seed, backend=backend)
    accuracy = {}
    for M in (1, 2):
        algorithm = FedEM(learning_rate=0.5, components=M)
        state = after(algorithm, t, rounds=40)
        accuracy[M] = t.measure(algorithm.models(t, state))["personal.clients.accuracy"]
    groups = clients.group.tolist()
    assert state["weights"].argmax(axis=1).tolist() in (groups, [1 - g for g in groups])
    assert (state["weights"].max(axis=1) > 0.8).all()
    assert accuracy[2] > accuracy[1] + 0.1


def test_em_steps_on_whole_batches_raise_the_likelihood():
    t = task({"rule": "epochs", "n_epochs": 3, "batch_size": 1000}, model=neural_network(6, 5, 4))
    algorithm, found = FedEM(learning_rate=0.05, components=2), []
    for step in training(algorithm, t, rounds=15):
        mixture = algorithm.models(t, step.state)["personal"]
        found.append((evaluate_mixture(t.backend, t.model, mixture, t.data).loss * t.sizes).sum())
    assert (np.diff(found) < 0).all()


def test_equal_components_of_a_linear_model_start_apart():
    t = task()
    start = FedEM(learning_rate=0.1, components=2).start(t, rounds=1)["components"]
    assert 0.5 < np.linalg.norm(start[0] - start[1]) / 2**0.5 < 1.5
    network = task(model=neural_network(6, 5, 4))
    start = FedEM(learning_rate=0.1, components=2).start(network, rounds=1)["components"]
    assert (start == [network.initial(0), network.initial(1)]).all()


# The same bits.

ALGORITHMS = [
    PFedMe(**PFEDME, rate=0.6, beta=0.5, weights="rows", decay=(0.9, 2)),
    PFedMe(**PFEDME, number=2, everyone=True),
    PerFedAvg(learning_rate=0.2, alpha=0.1, number=3),
    PerFedAvg(learning_rate=0.2, alpha=0.1, variant="hessian-free", rate=0.6),
    FedEM(learning_rate=0.2, components=2, rate=0.6),
]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("work", [FIXED, {"rule": "poisson", "n_epochs": 1, "batch_size": 4}], ids=["fixed", "poisson"])
def test_same_bits_for_any_workers_and_after_a_resume(algorithm, work, same_bits):
    def one(workers=1):
        return task(work, workers=workers, dtype="float32", model=neural_network(6, 5, 4))

    same_bits(algorithm, one, rounds=4)
    assert algorithm.guarantees(one(), rounds=4) == [None] * 5


@pytest.mark.parametrize("algorithm", [ALGORITHMS[0], ALGORITHMS[2], ALGORITHMS[4]], ids=lambda a: type(a).__name__)
def test_a_round_without_participants_changes_nothing(algorithm, idle_round):
    empty = make(type(algorithm).__name__, {**vars(algorithm), "rate": 0.0, "number": None})
    assert idle_round(empty, task()) == {"participants": 0}


@pytest.mark.parametrize("algorithm", [ALGORITHMS[0], ALGORITHMS[3]], ids=lambda a: type(a).__name__)
def test_clients_with_fewer_steps_rest(algorithm):
    """A client whose own steps have ended ends where it would if it were alone."""
    t = task({"rule": "epochs", "n_epochs": 1, "batch_size": 4}, unequal=1.0)
    assert len(set(t.schedule(0).steps.tolist())) > 2
    everyone, alone = (np.stack([algorithm.work(t, np.zeros(28), 0, c)]) for c in (np.arange(5), t.sizes.argmin()[None]))
    assert (everyone[..., t.sizes.argmin(), :] == alone[..., 0, :]).all()


# Scores, losses and mixtures.

MODELS = {
    "linear": linear_regression(6),
    "logistic": logistic_regression(6),
    "svm": linear_svm(6),
    "multinomial": logistic_regression(6, 3),
    "network": neural_network(6, 5, 3),
}
SIZES = (130, 1, 9)


def clients_of(model):
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((n, 6)), rng.integers(0, model.n_classes, n) if model.n_classes else rng.standard_normal(n))
        for n in SIZES
    ]


def backends():
    return [ReferenceBackend(), NumpyBackend(dtype="float64", workers=2), NumpyBackend(workers=1)]


def jax_backends():
    pytest.importorskip("jax", reason="the extra learn is not installed")
    from estimators.federated.jax_backend import JaxBackend

    return [JaxBackend(dtype="float64"), JaxBackend()]


@pytest.mark.parametrize(
    ("kinds", "name"), [*((backends, name) for name in MODELS), (jax_backends, "linear"), (jax_backends, "network")]
)
def test_scores_and_losses_of_every_backend(kinds, name):
    model, rng = MODELS[name], np.random.default_rng(1)
    clients, rows = clients_of(model), rng.standard_normal((3, model.n_parameters))
    for backend in kinds():
        data = backend.prepare(model, clients)
        atol = 1e-12 if np.dtype(backend.dtype) == np.float64 else 2e-5
        for some in (data, data.take([2, 0])):
            own = rows[: len(some.sizes)]
            for w in (own, rows[0]):
                expected = [
                    activations(model, v, some.client(k)[0])[-1] for k, v in enumerate(np.broadcast_to(w, own.shape))
                ]
                found = backend.scores(model, w, some)
                assert found.dtype == backend.dtype
                np.testing.assert_allclose(found, np.concatenate(expected), atol=atol)
        losses = example_losses(backend, model, rows, data)
        means = [part.mean() for part in np.split(losses, np.cumsum(SIZES)[:-1])]
        np.testing.assert_allclose(means, backend.evaluate(model, rows, data).loss, atol=atol)


@pytest.mark.parametrize("name", MODELS)
def test_a_mixture_of_one_or_of_equals_is_the_model(name):
    model, backend = MODELS[name], NumpyBackend(dtype="float64", workers=1)
    data = backend.prepare(model, clients_of(model))
    w = np.random.default_rng(1).standard_normal(model.n_parameters)
    expected = backend.evaluate(model, w, data)
    for weights, components in ((np.ones((3, 1)), [w]), (np.full((3, 2), 0.5), [w, w]), ([[1.0, 0.0]] * 3, [w, 9 * w])):
        found = evaluate_mixture(backend, model, Mixture(weights, components), data)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-12)
        if model.n_classes:
            np.testing.assert_allclose(found.accuracy, expected.accuracy, rtol=1e-14)
        else:
            assert found.accuracy is None


def test_a_mixture_averages_probabilities():
    """Two classes by one score and by two scores are one model, and the average is of probabilities."""
    rng = np.random.default_rng(1)
    one, two = logistic_regression(6), logistic_regression(6, 3)
    w = rng.standard_normal((2, 7))
    padded = np.stack([np.zeros_like(w), w, np.full_like(w, 0) - [[0] * 6 + [1e3]]], axis=-1).reshape(2, 21)
    weights = rng.dirichlet([1, 1], 3)
    clients = clients_of(one)
    results = []
    for model, rows in ((one, w), (two, padded)):
        backend = NumpyBackend(dtype="float64", workers=1)
        results.append(evaluate_mixture(backend, model, Mixture(weights, rows), backend.prepare(model, clients)))
    np.testing.assert_allclose(results[0].loss, results[1].loss, rtol=1e-12)
    assert results[0].accuracy.tolist() == results[1].accuracy.tolist()
    for k, (x, y) in enumerate(clients):
        p = weights[k] @ (1 / (1 + np.exp(-(w[:, :6] @ x.T + w[:, 6:]))))
        assert results[0].loss[k] == pytest.approx(-np.log(np.where(y == 1, p, 1 - p)).mean(), rel=1e-12)
        assert results[0].accuracy[k] == ((p > 0.5) == y).mean()


def test_posterior_is_exact_where_densities_underflow():
    q, total = posterior(np.array([[0.2], [0.8], [0.0]]), np.array([[2000.0], [2001.0], [0.0]]))
    share = 0.2 / (0.2 + 0.8 * np.exp(-1))
    np.testing.assert_allclose(q[:, 0], [share, 1 - share, 0], atol=1e-12)
    assert total[0] == pytest.approx(np.log(0.2) - np.log(share) - 2000, rel=1e-12)


def test_measures_of_a_mixture_are_of_the_tested_clients():
    federation = synthetic_federation("mixture", clients=4, rows=20, features=6, seed=1)
    test = (*federation.test[:3], np.empty(0, int))
    without = Federation(federation.x, federation.y, federation.train, test, classes=4, name="one untested")
    t = Task(without, logistic_regression(6, 4), work=FIXED, seed=0, groups={"first": [0]})
    mixture = Mixture(np.eye(4)[:, :2] + np.eye(4)[:, 2:], np.random.default_rng(0).standard_normal((2, 28)))
    rows = mixture.components[[0, 1, 0]]
    found, expected = t.measure({"personal": mixture}), t.measure({"personal": rows})
    assert found.keys() == expected.keys()
    assert found["personal.first.accuracy"] == expected["personal.first.accuracy"]
    np.testing.assert_allclose(found["personal.clients.loss"], expected["personal.clients.loss"], rtol=1e-5)
    assert len(t.evaluate(mixture, "data").loss) == 4


def test_one_step_of_a_schedule():
    steps = epochs([5, 2], n_epochs=1, batch_size=2, seed=0, round=0)
    alone = steps.step(1, times=2)
    assert isinstance(alone, Schedule)
    assert (alone.indices == steps.indices[:, [1, 1]]).all()
    assert alone.steps.tolist() == [2, 0]


# Bad input.


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: PFedMe(**PFEDME | {"lam": -1.0}), "lam"),
        (lambda: PFedMe(**PFEDME | {"inner_steps": 0}), "inner_steps"),
        (lambda: PFedMe(**PFEDME | {"beta": 0.0}), "beta"),
        (lambda: PFedMe(**PFEDME, weights="equal"), "weights"),
        (lambda: PerFedAvg(learning_rate=0.1, alpha=-0.1), "alpha"),
        (lambda: PerFedAvg(learning_rate=0.1, alpha=0.1, variant="second-order"), "variant"),
        (lambda: PerFedAvg(learning_rate=0.1, alpha=0.1, delta=0.0), "delta"),
        (lambda: PerFedAvg(learning_rate=0.1, alpha=0.1, adaptations=-1), "adaptations"),
        (lambda: FedEM(learning_rate=0.0, components=2), "learning_rate"),
        (lambda: FedEM(learning_rate=0.1, components=0), "components"),
        (lambda: FedEM(learning_rate=0.1, components=1001), r"components must be in 1\.\.1000, got 1001"),
        (lambda: make("FedEM", {"learning_rate": 0.1}), "components"),
        (lambda: Mixture([[0.5, 0.6]], np.zeros((2, 3))), "sum to 1"),
        (lambda: Mixture([[0.5, 0.5]], np.zeros((3, 3))), r"weights must have shape \(K, M\)"),
        (lambda: task().evaluate(Mixture(np.ones((4, 1)), np.zeros((1, 28))), "data"), "4 clients, data are of 5"),
        (lambda: task().backend.scores(task().model, np.zeros((2, 28)), task().data), "parameters must have shape"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_divergence_names_client_and_round():
    from estimators.federated.backend import Diverged

    with pytest.raises(Diverged, match="client") as caught:
        after(FedEM(learning_rate=1e200, components=2), lines(FIXED), rounds=3)
    assert "round" in caught.value.__notes__[0]
