"""Training of pairs: gradients against differences, the compiled loops against the plain twin, laws of the coupling."""

import copy
import itertools
import pickle
from math import inf

import numpy as np
import pytest

from estimators.federated.backend import Diverged
from estimators.federated.jax_backend import JaxBackend
from estimators.federated.models import convolutional_network, linear_svm, logistic_regression, neural_network
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.pairs import PairStep
from estimators.federated.reference_backend import ReferenceBackend, activations, log_shares, losses
from estimators.federated.schedule import GaussianNoise, Schedule, epochs, fixed_batches, poisson_batches

MODELS = {
    "logistic": logistic_regression(9),
    "multinomial": logistic_regression(9, 4),
    "network": neural_network(9, 15, 4),
    "wide": neural_network(9, 16, 3),
}
SIZES = (23, 1, 10, 4)
REFERENCE, EXACT = ReferenceBackend(), NumpyBackend(dtype="float64", workers=1)
STEPS = {
    "adaped": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.5),
    "distilled": PairStep(rates=(0.1, 0.2, 0), own=(0.75, 0.25), common=(0, 0.25)),
    "mutual": PairStep(rates=(0.1, 0.2, 0), own=(0.25, 0.75), common=(0.25, 0.75), mutual=True),
    "one sided": PairStep(rates=(0.1, 0, 0), own=(1, 1), common=(0, 1)),
    "clipped": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.01, clips=(0.01, 0.05)),
    "joint": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.01, clips=(0.05, inf), joint=True),
    "joint, not clipped": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(1, 1), floor=0.3, joint=True),
    "decaying": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.5, weight_decay=0.7),
    "clipped, decaying": PairStep(
        rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.01, clips=(0.01, 0.05), weight_decay=0.7
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def start(model, seed, scale=0.5):
    return scale * np.random.default_rng(seed).standard_normal(model.n_parameters)


def prepared(model, sizes=SIZES, backend=EXACT):
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((n, model.n_features)), rng.integers(0, model.n_classes, n)) for n in sizes]
    return backend.prepare(model, pairs)


def schedule(data):
    return poisson_batches(data.sizes, n_steps=11, batch_size=1.0, seed=3, round=5)


# Gradients: a step with one rate > 0 gives the slope of that line's objective.


def mean_divergence(model, p, q, x):
    """KL(p || q) of two networks by the definition."""
    a, b = (log_shares(model, activations(model, w, x)[-1]) for w in (p, q))
    return (np.exp(a) * (a - b)).sum(axis=1).mean()


def slope(function, w, h=1e-5):
    return np.array([(function(w + s) - function(w - s)) / (2 * h) for s in h * np.eye(len(w))])


def test_gradients_are_the_slopes_of_what_each_line_descends(model):
    """Claims generative:alg5, generative:alg6: and which way each divergence goes."""
    data, psi = prepared(model, (6,)), 0.7
    x, y = data.client(0)
    theta, mu = start(model, 1), start(model, 2)
    whole = Schedule([0], [[list(range(6))]], np.ones((1, 1, 6)), [[6.0]], [1])

    def entropy(w):
        return losses(model, activations(model, w, x)[-1], y)[0].mean()

    for mutual, joint in itertools.product((False, True), (False, True)):
        step = PairStep(rates=(1e-9, 1.0, 1e-3), own=(0.3, 0.8), common=(0.4, 0.9), floor=1e-6, mutual=mutual, joint=joint)
        for backend in (REFERENCE, EXACT):
            found = backend.local_pairs(model, theta, mu, psi, data, whole, step=step)

            def of_mu(w, mutual=mutual):
                pair = (theta, w) if mutual else (w, theta)
                return 0.4 * entropy(w) + 0.9 / (2 * psi) * mean_divergence(model, *pair, x)

            np.testing.assert_allclose(mu - found.common[0], slope(of_mu, mu), atol=1e-7)
            before_or_after = mu if joint else found.common[0]
            k = 1 / (2 * psi) - mean_divergence(model, before_or_after, theta, x) / (2 * psi**2)
            assert (psi - found.psi[0]) / 1e-3 == pytest.approx(k, abs=1e-6)
            alone = PairStep(rates=(1.0, 0, 0), own=(0.3, 0.8), common=(0, 0))
            moved = backend.local_pairs(model, theta, mu, psi, data, whole, step=alone)

            def of_theta(w):
                return 0.3 * entropy(w) + 0.8 / (2 * psi) * mean_divergence(model, mu, w, x)

            np.testing.assert_allclose(theta - moved.own[0], slope(of_theta, theta), atol=1e-7)
            assert (moved.common[0] == mu).all()
            assert moved.psi[0] == psi


# The compiled loops against the plain twin.


@pytest.mark.parametrize(
    ("name", "noisy"),
    [*((name, False) for name in STEPS), *((way, True) for way in ("clipped", "joint", "clipped, decaying"))],
)
def test_training_equals_the_plain_twin(model, name, noisy):
    step = STEPS[name]
    data = prepared(model)
    batches = schedule(data)
    own, common = (np.stack([start(model, 10 * j + k) for k in range(4)]) for j in (0, 1))
    noise = GaussianNoise(0.7, seed=7, round=5) if noisy else None
    arguments = (model, own, common, [0.5, 0.6, 0.7, 2.0])
    expected = REFERENCE.local_pairs(*arguments, data, batches, step=step, noise=noise)
    found = EXACT.local_pairs(*arguments, data, batches, step=step, noise=noise)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    single = NumpyBackend(workers=2)
    found = single.local_pairs(*arguments, prepared(model, backend=single), batches, step=step, noise=noise)
    assert found.own.dtype == np.float32
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_training_equals_the_plain_twin_at_full_size():
    model = neural_network(784, 50, 10)
    data = prepared(model, (40, 17))
    batches = fixed_batches(data.sizes, n_steps=3, batch_size=13, seed=0, round=0)
    own, common = start(model, 1, 0.05), start(model, 2, 0.05)
    expected = REFERENCE.local_pairs(model, own, common, 1.0, data, batches, step=STEPS["adaped"])
    found = EXACT.local_pairs(model, own, common, 1.0, data, batches, step=STEPS["adaped"])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


# JAX against the plain twin.  Compiling is what these tests wait for, so that not every model meets every step.

POISSON = poisson_batches(SIZES, n_steps=11, batch_size=1, seed=3, round=5)
IMAGES = convolutional_network(49, 3, channels=(2, 3), size=2, same=True, hidden=(4,))


def jax_backend(dtype="float64", memory=None):
    pytest.importorskip("jax", reason="the extra learn is not installed")
    return JaxBackend(dtype=dtype, memory=memory)


def both(backend, model, batches, step, *, noise=None, psi=(0.5, 0.6, 0.7, 2.0)):
    """Pairs trained by the plain twin and by a backend from the same start."""
    own, common = (np.stack([start(model, 10 * j + int(k)) for k in batches.clients]) for j in (0, 1))
    psi = np.array(psi)[batches.clients]
    return [
        b.local_pairs(model, own, common, psi, prepared(model, backend=b), batches, step=step, noise=noise)
        for b in (REFERENCE, backend)
    ]


@pytest.mark.parametrize(
    ("name", "way", "noisy", "dtype"),
    [
        *(("network", way, False, "float64") for way in STEPS),
        ("network", "clipped", True, "float64"),
        ("logistic", "clipped", True, "float64"),
        ("multinomial", "joint", True, "float64"),
        ("images", "joint", True, "float64"),
        ("network", "clipped", True, "float32"),
    ],
)
def test_jax_equals_the_plain_twin(name, way, noisy, dtype):
    backend, model = jax_backend(dtype), {**MODELS, "images": IMAGES}[name]
    noise = GaussianNoise(0.7, seed=7, round=5) if noisy else None
    expected, found = both(backend, model, POISSON, STEPS[way], noise=noise)
    assert abs(expected.own - start(model, 0)).max() > 1e-3
    assert found.own.dtype == found.common.dtype == backend.dtype
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize(("memory", "noise"), [(None, None), (1, GaussianNoise(0.7, seed=7, round=5))])
def test_jax_cuts_clients_of_unequal_work_and_leaves_those_without_any(memory, noise):
    """All at once and one client at a time, in another order than that of their steps."""
    model = MODELS["network"]
    batches = epochs(SIZES, n_epochs=[2, 0, 4, 11], batch_size=4, seed=1, round=2, clients=[3, 2, 1, 0])
    assert batches.steps.tolist() == [11, 12, 0, 12]
    expected, found = both(jax_backend(memory=memory), model, batches, STEPS["clipped"], noise=noise)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    assert (found.own[2] == start(model, 1)).all()
    assert (found.common[2] == start(model, 11)).all()
    assert found.psi[2] == 0.6


def test_jax_keeps_what_does_not_move():
    """No steps, no copy and a psi beyond single precision, as ``AdaPeD(psi=inf)`` has it, where theta trains alone."""
    backend, model = jax_backend("float32"), MODELS["logistic"]
    alone = PairStep(rates=(0.1, 0, 0), own=(1, 1), common=(0, 1))
    _, found = both(backend, model, POISSON, alone, psi=[1e300] * 4)
    own = np.stack([start(model, k) for k in range(4)])
    expected = REFERENCE.local_sgd(model, own, prepared(model), POISSON, learning_rate=0.1)
    np.testing.assert_allclose(found.own, expected, atol=1e-6)
    assert (found.common == np.stack([start(model, 10 + k) for k in range(4)]).astype(np.float32)).all()
    assert found.psi.tolist() == [1e300] * 4
    none = fixed_batches(SIZES, n_steps=0, batch_size=2, seed=0, round=0, clients=[2])
    for a, b in zip(*both(backend, model, none, STEPS["adaped"]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


def test_a_single_step_of_jax_moves_psi():
    one = fixed_batches(SIZES, n_steps=1, batch_size=2, seed=0, round=0, clients=[2, 0])
    expected, found = both(jax_backend(), MODELS["logistic"], one, STEPS["adaped"])
    np.testing.assert_allclose(found.psi, expected.psi, rtol=1e-11)
    assert (np.abs(found.psi - 0.6) > 1e-3).all()


@pytest.mark.parametrize("way", ["one sided", "adaped"])
def test_divergence_names_the_same_client_and_step_everywhere(way):
    model, rng = MODELS["network"], np.random.default_rng(0)
    scales = (1, 1e200, 1e200, 1)  # the second client's training diverges too
    clients = [(s * rng.standard_normal((n, 9)), rng.integers(0, 4, n)) for s, n in zip(scales, SIZES, strict=True)]
    batches, found = POISSON.rows([3, 0, 2, 1]), []
    for backend in (REFERENCE, EXACT, jax_backend()):
        data = backend.prepare(model, clients)
        with pytest.raises(Diverged, match="client 2 diverged in step") as failure:
            backend.local_pairs(model, start(model, 1), start(model, 2), 1.0, data, batches, step=STEPS[way])
        found.append(failure.value.step)
    assert max(found) - min(found) <= 1


# Laws.


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_coupling_theta_trains_alone_bit_for_bit(model, dtype):
    backend = NumpyBackend(dtype=dtype, workers=1)
    data = prepared(model, backend=backend)
    batches, own, common = schedule(data), start(model, 1), start(model, 2)
    expected = backend.local_sgd(model, own, data, batches, learning_rate=0.1)
    for psi, weight in ((1e300, 1.0), (1.0, 0.0)):
        step = PairStep(rates=(0.1, 0.1, 0), own=(1, weight), common=(0, 1))
        found = backend.local_pairs(model, own, common, psi, data, batches, step=step)
        assert (found.own == expected).all()
    coupled = PairStep(rates=(0.1, 0.1, 0), own=(1, 1), common=(0, 1))
    assert not (backend.local_pairs(model, own, common, 1.0, data, batches, step=coupled).own == expected).all()


def test_the_copy_trains_alone_where_only_it_sees_labels(model):
    data = prepared(model)
    batches, own, common = schedule(data), start(model, 1), start(model, 2)
    step = PairStep(rates=(0, 0.1, 0), own=(1, 1), common=(1, 0))
    found = EXACT.local_pairs(model, own, common, 1.0, data, batches, step=step)
    expected = EXACT.local_sgd(model, common, data, batches, learning_rate=0.1)
    np.testing.assert_allclose(found.common, expected, rtol=1e-12, atol=1e-14)
    assert (found.own == own).all()


def test_equal_networks_do_not_pull_and_psi_falls_to_its_floor(model):
    data = prepared(model)
    step = PairStep(rates=(0.1, 0.1, 0.3), own=(0, 1), common=(0, 1), floor=0.25)
    for backend in (REFERENCE, EXACT):
        found = backend.local_pairs(model, start(model, 1), start(model, 1), 0.9, data, schedule(data), step=step)
        np.testing.assert_allclose(found.own, np.tile(start(model, 1), (4, 1)), atol=1e-12)
        np.testing.assert_allclose(found.common, found.own, atol=1e-12)
        assert found.psi.tolist() == [0.25] * 4


@pytest.mark.parametrize(("rates", "moved"), [((0.5, 0.25, 0.1), (True, True)), ((0.5, 0, 0), (True, False))])
def test_a_decay_alone_shrinks_both_networks_and_leaves_psi(model, rates, moved):
    """A step without examples multiplies theta by 1 - eta_1 d and mu by 1 - eta_2 d; psi moves as without a decay."""
    empty = Schedule([1], np.zeros((1, 5, 0)), np.zeros((1, 5, 0)), np.ones((1, 5)), [5])
    steps = [PairStep(rates=rates, own=(1, 1), common=(0, 1), floor=1e-6, weight_decay=d) for d in (0.4, 0.0)]
    for backend in (REFERENCE, EXACT):
        data = prepared(model, backend=backend)
        found, kept = (backend.local_pairs(model, start(model, 1), start(model, 2), 0.7, data, empty, step=s) for s in steps)
        for part, seed, rate, moves in zip(found[:2], (1, 2), rates, moved, strict=False):
            left = (1 - rate * 0.4) ** 5 if moves else 1.0
            np.testing.assert_allclose(part[0], left * start(model, seed), rtol=1e-12)
        assert found.psi[0] == kept.psi[0]


@pytest.mark.parametrize("joint", [False, True])
def test_clipping_bounds_what_a_client_can_move(model, joint):
    """Each step moves mu by at most eta_2 C_1 and psi by eta_3 C_2 (jointly: the vector by C_1), whatever the data."""
    data, psi, clips = prepared(model), 0.1, (0.02, 0.03)
    step = PairStep(rates=(0.1, 1, 1), own=(1, 1), common=(0, 1), floor=1e-9, clips=clips, joint=joint)
    batches = fixed_batches(data.sizes, n_steps=1, batch_size=20, seed=0, round=0)
    for backend in (REFERENCE, EXACT):
        found = backend.local_pairs(model, start(model, 1, 3), start(model, 2, 3), psi, data, batches, step=step)
        mu, k = np.linalg.norm(found.common - start(model, 2, 3), axis=1), abs(found.psi - psi)
        for moved, c in [(np.hypot(mu, k), clips[0])] if joint else zip((mu, k), clips, strict=True):
            assert (moved <= c * (1 + 1e-9)).all()
            assert moved.max() == pytest.approx(c, rel=1e-9)


def test_noise_has_the_size_that_the_accountant_assumes():
    """One step from equal networks has gradient 0 in mu: what is left is eta_2 z C_1 N, and eta_3 z C_2 N in psi."""
    model, z, c = MODELS["wide"], 2.0, (0.5, 0.25)
    data = prepared(model, (5,) * 400)
    batches = fixed_batches(data.sizes, n_steps=1, batch_size=5, seed=0, round=0)
    step = PairStep(rates=(0, 0.1, 0.01), own=(1, 1), common=(0, 1), floor=1e-9, clips=c)
    noise, w = GaussianNoise(z, seed=1, round=0), start(model, 1)
    found = EXACT.local_pairs(model, w, w, 1.0, data, batches, step=step, noise=noise)
    moved = (found.common - w) / 0.1
    assert moved.std() == pytest.approx(z * c[0], rel=4 / np.sqrt(2 * moved.size))
    assert ((found.psi - 1) / 0.01).std() == pytest.approx(z * c[1], rel=4 / np.sqrt(800))
    assert abs(moved.mean()) < 4 * z * c[0] / np.sqrt(moved.size)


def test_same_bits_for_any_workers_chunks_and_cut_of_the_steps(model):
    step, own, common = STEPS["clipped"], start(model, 1), start(model, 2)
    results = []
    for workers in (1, 3):
        backend = NumpyBackend(workers=workers)
        data = prepared(model, SIZES * 5, backend)
        batches, noise = schedule(data), GaussianNoise(0.5, seed=2, round=5)
        results.append(backend.local_pairs(model, own, common, 1.0, data, batches, step=step, noise=noise))
    some = backend.local_pairs(model, own, common, 1.0, data, batches.rows([7, 3]), step=step, noise=noise)
    for a, b, c in zip(*results, some, strict=True):
        assert (a == b).all()
        assert (c == a[[7, 3]]).all()


def test_no_clients_and_no_steps(model):
    data = prepared(model)
    none = fixed_batches(data.sizes, n_steps=0, batch_size=2, seed=0, round=0, clients=[2])
    w = start(model, 1)
    for backend in (REFERENCE, EXACT):
        found = backend.local_pairs(model, w, 2 * w, 1.0, data, none, step=STEPS["adaped"])
        assert (found.own == w).all()
        assert (found.common == 2 * w).all()
        assert found.psi.tolist() == [1.0]


def test_divergence_names_the_client():
    model = MODELS["network"]
    data = prepared(model)
    wild = PairStep(rates=(1e200, 1e200, 0), own=(1, 1), common=(1, 1))
    for backend in (REFERENCE, EXACT):
        with pytest.raises(Diverged, match="client"):
            backend.local_pairs(model, start(model, 1), start(model, 2), 1.0, data, schedule(data), step=wild)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: PairStep(rates=(1, 1), own=(1, 1), common=(1, 1)), "rates must have 3"),
        (lambda: PairStep(rates=(1, 1, -1), own=(1, 1), common=(1, 1)), r"rates\[2\]"),
        (lambda: PairStep(rates=(1, 1, 1), own=(1, 1), common=(1, 1)), "floor must be > 0"),
        (lambda: PairStep(rates=(1, 1, 0), own=(1, 1), common=(1, 1), clips=(0, 1)), r"clips\[0\]"),
        (lambda: PairStep(rates=(1, 1, 0), own=(1, 1), common=(1, 1), weight_decay=-1), "weight_decay must be >= 0"),
        (lambda: train(psi=0.0), "psi must be"),
        (lambda: train(psi=[1.0, 1.0]), "psi must be a number or have one entry"),
        (lambda: train(noise=GaussianNoise(1.0, seed=0, round=0)), "finite clips"),
        (lambda: train(model=linear_svm(9)), "coupled by probabilities"),
        (lambda: train(common=np.zeros(3)), "entries along its last axis"),
    ],
)
def test_bad_arguments_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def train(model=MODELS["multinomial"], psi=1.0, noise=None, common=None):
    data, w = prepared(MODELS["multinomial"]), np.zeros(model.n_parameters)
    common = w if common is None else common
    return EXACT.local_pairs(model, w, common, psi, data, schedule(data), step=STEPS["adaped"], noise=noise)


def test_steps_are_plain_values():
    step = STEPS["joint"]
    assert pickle.loads(pickle.dumps(step)) == copy.deepcopy(step) == step
