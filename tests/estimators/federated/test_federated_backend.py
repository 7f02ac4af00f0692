"""Backends of federated learning: gradients against differences, training against a plain twin, laws of clipping, noise."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from estimators.federated import backend as contract
from estimators.federated import numpy_backend
from estimators.federated.algorithms.adaped import DPAdaPeD
from estimators.federated.algorithms.fedhdp import DPFedAvg
from estimators.federated.models import (
    Convolution,
    Model,
    adaped_network,
    convolutional_network,
    fedhdp_network,
    linear_regression,
    linear_svm,
    logistic_regression,
    mrmtl_network,
    neural_network,
)
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.pairs import PairStep
from estimators.federated.privacy import RowPrivacy
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.schedule import GaussianNoise, Schedule, epochs, fixed_batches, poisson_batches, stream

MODELS = {
    "linear": linear_regression(9),
    "logistic": logistic_regression(9),
    "svm": linear_svm(9),
    "multinomial": logistic_regression(9, 4),
    "network": neural_network(9, 15, 4),  # hidden units and their ones fill a vector
    "wide": neural_network(9, 16, 3),  # and here need one more
}
SIZES = (23, 1, 10, 4)
RATES = {"learning_rate": 0.1, "common_rate": 0.1, "psi_rate": 0.1}
REFERENCE = ReferenceBackend()
EXACT = NumpyBackend(dtype="float64", workers=1)


def examples(model, n, rng):
    x = rng.standard_normal((n, model.n_features))
    return x, rng.integers(0, model.n_classes, n) if model.n_classes else rng.standard_normal(n)


def federation(model, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [examples(model, n, rng) for n in sizes]


def start(model, seed=1):
    return 0.3 * np.random.default_rng(seed).standard_normal(model.n_parameters)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


SCHEDULES = {
    "epochs": lambda sizes: epochs(sizes, n_epochs=2, batch_size=4, seed=3, round=5),
    "fixed": lambda sizes: fixed_batches(sizes, n_steps=4, batch_size=12, seed=3, round=5, clients=[2, 0, 2]),
    "poisson": lambda sizes: poisson_batches(sizes, n_steps=7, batch_size=1.0, seed=3, round=5),
}
WAYS = {
    "plain": {},
    "pulled": {"pull": (np.float64(0.4), 1.0)},
    "clipped": {"clip": 0.6},
    "private": {"clip": 0.6, "noise": GaussianNoise(0.8, seed=7, round=5), "pull": (0.2, -0.5)},
}


def settings(model, way):
    how = dict(WAYS[way])
    if "pull" in how:
        how["pull"] = (how["pull"][0], how["pull"][1] * start(model, 2))
    return how


# Gradients.


def test_gradients_are_the_slopes_of_the_loss(model):
    x, y = examples(model, 6, np.random.default_rng(4))
    w, h = start(model), 1e-5
    found = REFERENCE.example_gradients(model, w, x, y)
    for i in range(6):
        one = x[i : i + 1], y[i : i + 1]
        steps = h * np.eye(model.n_parameters)
        slopes = [(REFERENCE.loss(model, w + s, *one) - REFERENCE.loss(model, w - s, *one)) / (2 * h) for s in steps]
        np.testing.assert_allclose(found[i], slopes, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        convolutional_network(49, 3, channels=(2, 3), size=2, same=True, hidden=(4,)),
        Model((60, 3), "softmax", (5, 4, 3), (Convolution(2, 3, pool=1), Convolution(3, 2, same=True))),
        Model((36, 5, 1), "hinge", (6, 6, 1), (Convolution(2, 4, same=True, pool=3),)),
        convolutional_network(27, 0, channels=(2,), size=2),
    ],
)
def test_gradients_of_convolutions_are_the_slopes_of_the_loss(model):
    test_gradients_are_the_slopes_of_the_loss(model)


def test_a_convolution_is_a_sum_over_each_patch():
    """Written out: channels first to last, zeros around, pixels row by row."""
    model = Model((12, 8), "softmax", (3, 2, 2), (Convolution(4, 3, same=True, pool=1),))
    w, x = start(model), np.random.default_rng(0).standard_normal((1, 12))
    kernel, after = model.layers(w)
    image, values = x.reshape(3, 2, 2), np.zeros((3, 2, 4))
    for r, c, o in np.ndindex(values.shape):
        values[r, c, o] = kernel[18, o] + sum(
            kernel[(i * 3 + j) * 2 + channel, o] * image[r + i - 1, c + j - 1, channel]
            for i, j, channel in np.ndindex(3, 3, 2)
            if 0 <= r + i - 1 < 3 and 0 <= c + j - 1 < 2
        )
    scores = np.append(np.maximum(values, 0).ravel(), 1) @ after
    expected = special.logsumexp(scores) - scores[5]
    assert REFERENCE.loss(model, w, x, [5]) == pytest.approx(expected, rel=1e-13)


def test_networks_of_the_papers():
    """Shapes as printed: FedHDP Table 6, MR-MTL Appendix C, AdaPeD Section 4.1."""
    assert fedhdp_network().images == ((28, 28, 1), (14, 14, 16), (7, 7, 32))
    assert fedhdp_network().shapes[2:] == ((1568 + 1, 128), (129, 62))
    assert mrmtl_network(3072).images == ((32, 32, 3), (15, 15, 32), (6, 6, 64))
    assert mrmtl_network(1024, 0, 5).loss == "square"
    assert adaped_network().shapes[2:] == ((256 + 1, 120), (121, 84), (85, 10))
    for layer in fedhdp_network().layers(fedhdp_network().initialise(np.random.default_rng(0))):
        assert 0.9 < abs(layer).max() * (len(layer) - 1) ** 0.5 <= 1


def test_gradient_of_a_line_is_residual_times_features():
    found = REFERENCE.example_gradients(linear_regression(2), [1.0, 2.0, 3.0], [[1.0, 1.0]], [10.0])
    assert found.tolist() == [[-4.0, -4.0, -4.0]]


@pytest.mark.parametrize(("score", "slope"), [(0.75, -1.0), (1.0, 0.0), (1.25, 0.0)])
def test_an_example_on_the_margin_pulls_no_more_than_one_beyond_it(score, slope):
    """The hinge's slopes by weight and intercept at x = 1, and a step by them in the compiled loops and the plain twin."""
    w = np.array([score, 0.0])
    assert REFERENCE.example_gradients(linear_svm(1), w, [[1.0]], [1]).tolist() == [[slope, slope]]
    assert REFERENCE.example_gradients(linear_svm(1), -w, [[1.0]], [0]).tolist() == [[-slope, -slope]]
    step = epochs([1], n_epochs=1, batch_size=1, seed=0, round=0)
    for backend in (REFERENCE, EXACT):
        data = EXACT.prepare(linear_svm(1), [(np.array([[1.0]]), np.array([1]))])
        found = backend.local_sgd(linear_svm(1), w[None], data, step, learning_rate=0.5)
        np.testing.assert_allclose(found, [w - 0.5 * slope], rtol=1e-15)


def test_two_classes_by_one_score_or_by_two_are_one_model():
    x, y = examples(MODELS["logistic"], 8, np.random.default_rng(5))
    w = start(MODELS["logistic"])
    both = np.column_stack([np.zeros_like(w), w]).ravel()
    one = REFERENCE.loss(MODELS["logistic"], w, x, y)
    assert REFERENCE.loss(Model((9, 2), "softmax"), both, x, y) == pytest.approx(one, rel=1e-13)


@pytest.mark.parametrize("name", ["logistic", "multinomial"])
def test_huge_scores_have_exact_losses(name):
    model = MODELS[name]
    w, x = np.zeros(model.n_parameters), np.zeros((1, 9))
    w.reshape(10, -1)[9, -1] = 1e4  # only the last class
    for found in (REFERENCE, EXACT):
        data = found.prepare(model, [(x, [0]), (x, [model.n_classes - 1])])
        assert found.evaluate(model, w, data).loss.tolist() == [1e4, 0.0]
        assert list(found.evaluate(model, w, data).accuracy) == [0.0, 1.0]


def test_parameters_are_layers_of_rows_with_intercepts_last():
    model = neural_network(2, 3, 2)
    first, second = model.layers(np.arange(17.0))
    assert first.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert second.shape == (4, 2)
    assert (model.n_parameters, neural_network().n_parameters) == (17, 39760)


def test_first_parameters():
    assert not linear_svm(5).initialise(np.random.default_rng(0)).any()
    first, second = neural_network().layers(neural_network().initialise(np.random.default_rng(0)))
    assert 0.999 / 28 < abs(first).max() <= 1 / 28
    assert 0.95 / 50**0.5 < abs(second).max() <= 1 / 50**0.5


# The compiled loops against the plain twin.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_training_equals_the_plain_twin(model, schedule, way):
    data = EXACT.prepare(model, federation(model))
    steps, how = SCHEDULES[schedule](data.sizes), settings(model, way)
    starts = np.stack([start(model, k) for k in range(len(steps.clients))])
    expected = REFERENCE.local_sgd(model, starts, data, steps, learning_rate=0.1, **how)
    found = EXACT.local_sgd(model, starts, data, steps, learning_rate=0.1, **how)
    assert abs(expected - starts).max() > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
    single = NumpyBackend(workers=1)
    found = single.local_sgd(model, starts, single.prepare(model, federation(model)), steps, learning_rate=0.1, **how)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("n_hidden", [0, 50])
def test_training_equals_the_plain_twin_at_full_size(n_hidden):
    model = neural_network(784, 50, 10) if n_hidden else logistic_regression(784, 10)
    data = EXACT.prepare(model, federation(model, (40, 17)))
    steps = fixed_batches(data.sizes, n_steps=3, batch_size=13, seed=0, round=0)
    how = {"learning_rate": [0.05, 0.1], "clip": [1.0, 30.0], "pull": ([0.0, 0.5], start(model))}
    w = 0.1 * start(model)
    expected = REFERENCE.local_sgd(model, w, data, steps, **how)
    np.testing.assert_allclose(EXACT.local_sgd(model, w, data, steps, **how), expected, rtol=1e-10, atol=1e-12)


def test_evaluation_equals_the_plain_twin(model):
    clients = federation(model, (300, 1, 128))
    data = EXACT.prepare(model, clients)
    for w in (start(model), np.stack([start(model, k) for k in range(3)])):
        expected, found = REFERENCE.evaluate(model, w, data), EXACT.evaluate(model, w, data)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-12)
        assert found.loss[2] == pytest.approx(REFERENCE.loss(model, w if w.ndim == 1 else w[2], *clients[2]))
        if model.n_classes:
            assert list(found.accuracy) == list(expected.accuracy)
        else:
            assert found.accuracy is None


def test_full_batches_descend_to_least_squares():
    model = linear_regression(3)
    x, y = examples(model, 20, np.random.default_rng(8))
    data = EXACT.prepare(model, [(x, y)])
    steps = fixed_batches([20], n_steps=2000, batch_size=20, seed=0, round=0)
    found = EXACT.local_sgd(model, np.zeros(4), data, steps, learning_rate=0.3)
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(20)]), y, rcond=None)[0]
    np.testing.assert_allclose(found[0], expected, atol=1e-12)


def test_pull_alone_shrinks_towards_the_anchor(model):
    """A step without examples multiplies the distance by 1 - eta lam, exactly what is documented."""
    data = EXACT.prepare(model, federation(model))
    empty = Schedule([1], np.zeros((1, 5, 0)), np.zeros((1, 5, 0)), np.ones((1, 5)), [5])
    w, anchor = start(model), start(model, 2)
    found = EXACT.local_sgd(model, w, data, empty, learning_rate=0.5, pull=(0.4, anchor))
    np.testing.assert_allclose(found[0], anchor + 0.8**5 * (w - anchor), rtol=1e-12)


# Clipping and noise.


@pytest.mark.parametrize("backend", [REFERENCE, EXACT], ids=["reference", "numpy"])
def test_clipping_bounds_each_example_and_spares_small_ones(model, backend):
    data = EXACT.prepare(model, federation(model, (40,)))
    w, c = start(model), 1.0
    norms = np.linalg.norm(REFERENCE.example_gradients(model, w, *data.client(0)), axis=1)
    assert (norms > c).any()
    for j, norm in enumerate(norms):
        step = Schedule([0], [[[j]]], [[[1.0]]], [[1.0]], [1])
        moved = w - backend.local_sgd(model, w, data, step, learning_rate=1.0, clip=c)[0]
        assert np.linalg.norm(moved) == pytest.approx(min(norm, c), rel=1e-12)
        np.testing.assert_allclose(
            w - moved,
            backend.local_sgd(model, w, data, step, learning_rate=min(1.0, c / norm) if norm else 1.0)[0],
            atol=1e-13,
        )


@pytest.mark.parametrize("name", ["reference", "numpy", "numpy single", "jax", "jax single"])
def test_the_smallest_clipping_norm_that_is_taken_still_clips(name):
    """Squares of gradients vanish somewhere below it: such a backend leaves them as they are, beside too little noise."""
    dtype = "float32" if "single" in name else "float64"
    if "jax" in name:
        jax_backend = pytest.importorskip("estimators.federated.jax_backend", reason="JAX is not installed")
        backend = jax_backend.JaxBackend(dtype=dtype)
    else:
        backend = REFERENCE if name == "reference" else NumpyBackend(dtype=dtype, workers=1)
    model, least = linear_regression(1), contract.SMALLEST_CLIP
    step = Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1])
    for times in (0.5, 2.0, 1e9):  # the slope of the intercept is -y
        data = (EXACT if name == "reference" else backend).prepare(model, [(np.zeros((1, 1)), np.array([times * least]))])
        moved = backend.local_sgd(model, np.zeros(2), data, step, learning_rate=1.0, clip=least)[0]
        np.testing.assert_allclose(np.asarray(moved, float) / least, [0.0, min(times, 1.0)], rtol=1e-6)
    for less in (np.nextafter(least, 0), 1e-20, 1e-300):
        with pytest.raises(ValueError, match=r"^clip must be at least 1e-15, got .*; change the units of the loss"):
            backend.local_sgd(model, np.zeros(2), data, step, learning_rate=1.0, clip=less)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("clip", lambda c: RowPrivacy(eps=1.0, delta=1e-5, clip=c)),
        ("clip", lambda c: DPFedAvg(multiplier=1.0, learning_rate=0.1, delta=1e-5, clip=c, rate=0.5)),
        (r"clips\[0\]", lambda c: PairStep(rates=(0.1, 0.1, 0.0), own=(1, 0), common=(0, 1), clips=(c, 1.0))),
        (r"clips\[1\]", lambda c: PairStep(rates=(0.1, 0.1, 0.0), own=(1, 0), common=(0, 1), clips=(1.0, c))),
        ("clip", lambda c: DPAdaPeD(**RATES, eps=1.0, delta=1e-5, clip=c, psi_clip=1.0)),
        ("psi_clip", lambda c: DPAdaPeD(**RATES, eps=1.0, delta=1e-5, clip=1.0, psi_clip=c)),
    ],
)
def test_a_clipping_norm_below_the_smallest_is_refused_where_it_is_given(name, make):
    make(1e-15)
    with pytest.raises(ValueError, match=f"^{name} must be at least 1e-15, got 1e-16"):
        make(1e-16)


def test_one_more_example_moves_the_sum_by_at_most_the_clipping_norm(model):
    data = EXACT.prepare(model, federation(model, (30,)))
    w, c = start(model), 0.7
    ends = []
    for n in (29, 30):
        step = Schedule([0], [[np.arange(30)]], [[(np.arange(30) < n) * 1.0]], [[8.0]], [1])
        ends.append(8 * EXACT.local_sgd(model, w, data, step, learning_rate=1.0, clip=c)[0])
    assert np.linalg.norm(ends[1] - ends[0]) <= c * (1 + 1e-12)


def test_an_infinitely_generous_clipping_norm_changes_nothing(model):
    data = EXACT.prepare(model, federation(model))
    steps = SCHEDULES["epochs"](data.sizes)
    same = [EXACT.local_sgd(model, start(model), data, steps, learning_rate=0.1, clip=c) for c in (None, 1e9)]
    assert same[0].tobytes() == same[1].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_noise_has_the_declared_deviation(dtype):
    """Steps without examples leave noise of standard deviation eta z c / b times the root of their number."""
    model = neural_network(40, 30, 10)
    backend = NumpyBackend(dtype=dtype)
    data = backend.prepare(model, federation(model, (3, 3)))
    empty = Schedule([0, 1], np.zeros((2, 8, 0)), np.zeros((2, 8, 0)), np.full((2, 8), 4.0), [8, 8])
    noise = GaussianNoise([1.5, 3.0], seed=0, round=0)
    ends = backend.local_sgd(model, np.zeros(model.n_parameters), data, empty, learning_rate=0.5, clip=2.0, noise=noise)
    n = model.n_parameters
    for row, z in zip(ends.astype(float), (1.5, 3.0), strict=True):
        expected = 0.5 * z * 2.0 / 4.0 * 8**0.5
        assert abs(row.mean()) < 5 * expected / n**0.5
        assert abs(row.std() / expected - 1) < 5 / (2 * n) ** 0.5
    assert abs(np.corrcoef(ends)[0, 1]) < 5 / n**0.5


def test_fast_normal_numbers_are_normal():
    """Kolmogorov-Smirnov, moments, neighbours, lanes and halves; thresholds of 5 standard errors."""
    n = 2_000_000
    z = GaussianNoise(1.0, seed=3, round=0).draw(1, [2], n)[0].astype(float)
    assert special.kolmogorov(stats.kstest(z, "norm").statistic * n**0.5) > 1e-6
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10395 - 225)):
        assert abs((z**power).mean() - mean) < 5 * (variance / n) ** 0.5
    for lag in (1, 2, 15, 16, 32, 511, 512, 1023, 1024):  # of the numbers, their squares, and one with the other
        u, v = z[:-lag], z[lag:]
        for a, b, deviation in ((u, v, 1), (u**2 - 1, v**2 - 1, 2), (u, v**2 - 1, 2**0.5)):
            assert abs((a * b).mean()) < 5 * deviation / (n - lag) ** 0.5
    assert 4.5 < abs(z).max() < 6.8


def test_fast_normal_numbers_equal_the_formula():
    from estimators.federated import noise_kernels as kernels

    rng = np.random.default_rng(0)
    radius, angle = rng.integers(0, 2**32, (2, kernels.HALF), dtype=np.uint32)
    radius[:4], angle[:9] = (0, 2**32 - 1, 2**31, 3037000499), np.arange(9) * 2.0**29 - (np.arange(9) == 8)
    values, room, cosines, sines = np.empty((4, kernels.HALF), np.float32)
    kernels.radii(radius, values, room)
    kernels.turn(angle, values, cosines, sines)
    expected = np.sqrt(-2 * np.log((radius + 0.5) / 2**32)) * np.exp(2j * np.pi * angle / 2**32)
    np.testing.assert_allclose(cosines + 1j * sines, expected, rtol=0, atol=4e-4)  # u next to 1 is rounded
    far = abs(expected) > 0.05
    np.testing.assert_allclose((cosines + 1j * sines)[far], expected[far], rtol=0, atol=2e-6)


def test_fast_bits_are_those_of_xoshiro256plusplus():
    from estimators.federated import noise_kernels as kernels

    a, b, c, d = 1, 2, 3, 4
    expected, mask = [], 2**64 - 1
    for _ in range(10):
        total = (a + d) & mask
        expected.append((((total << 23) | (total >> 41)) + a) & mask)
        t = (b << 17) & mask
        c, d = c ^ a, d ^ b
        b, a = b ^ c, a ^ d
        c ^= t
        d = ((d << 45) | (d >> 19)) & mask
    bits = np.empty(10 * kernels.LANES, np.uint64)
    kernels.fill(np.repeat(np.arange(1, 5, dtype=np.uint64), kernels.LANES).reshape(4, -1), bits)
    assert expected[:2] == [41943041, 58720359]  # first outputs for the state 1, 2, 3, 4 in Rust's rand_xoshiro
    assert (bits.reshape(10, -1) == np.array(expected, np.uint64)[:, None]).all()


def test_fast_states_are_those_of_splitmix64():
    from estimators.federated import noise_kernels as kernels

    def numbers(state, n):
        found = []
        for _ in range(n):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            found.append(z ^ (z >> 31))
        return found

    assert numbers(1234567, 2) == [6457827717110365317, 3203168211198807973]  # as in the generator's published examples
    key, states = [0, 1234567, 2**63, 2**64 - 1], np.empty((4, kernels.LANES), np.uint64)
    kernels.seed(np.array(key, np.uint64), 3, states)
    assert states.tolist() == [numbers(word, 4 * kernels.LANES)[-kernels.LANES :] for word in key]


def test_noise_does_not_depend_on_how_many_steps_are_drawn_ahead(monkeypatch):
    model = MODELS["network"]
    data = EXACT.prepare(model, federation(model))
    steps, ends = fixed_batches(data.sizes, n_steps=11, batch_size=2, seed=0, round=0), []
    for ahead in (1, 3, 100):
        monkeypatch.setattr(numpy_backend, "AHEAD", ahead)
        ends.append(EXACT.local_sgd(model, start(model), data, steps, learning_rate=0.1, **settings(model, "private")))
    assert ends[0].tobytes() == ends[1].tobytes() == ends[2].tobytes()


def test_noise_of_multiplier_zero_is_no_noise(model):
    data = EXACT.prepare(model, federation(model))
    steps = SCHEDULES["fixed"](data.sizes)
    ends = [
        EXACT.local_sgd(model, start(model), data, steps, learning_rate=0.1, clip=0.5, noise=noise)
        for noise in (None, GaussianNoise(0.0, 1, 1))
    ]
    assert ends[0].tobytes() == ends[1].tobytes()


def test_noise_differs_between_seeds_rounds_clients_and_steps():
    draws = {
        GaussianNoise(1.0, seed, round).draw(client, [step], 4).tobytes()
        for seed in (0, 1) for round in (0, 1) for client in (0, 1) for step in (0, 1)
    }  # fmt: skip
    assert len(draws) == 16


# The same bits however the work is cut.


@pytest.mark.parametrize("way", ["plain", "private"])
def test_bits_do_not_depend_on_workers_or_chunks(model, way):
    sizes = np.tile(SIZES, 6)
    clients, how = federation(model, sizes), settings(model, way)
    steps = poisson_batches(sizes, n_steps=5, batch_size=1.0, seed=1, round=2)
    ends = []
    for workers in (1, 2, 5):
        backend = NumpyBackend(workers=workers)
        data = backend.prepare(model, clients)
        ends.append(backend.local_sgd(model, start(model), data, steps, learning_rate=0.1, **how))
        assert (
            backend.evaluate(model, ends[-1], data).loss.tobytes() == backend.evaluate(model, ends[0], data).loss.tobytes()
        )
    cut = [
        backend.local_sgd(model, start(model), data, steps.rows(r), learning_rate=0.1, **how)
        for r in ([0, 1, 2], range(3, 24))
    ]
    assert ends[0].tobytes() == ends[1].tobytes() == ends[2].tobytes() == np.concatenate(cut).tobytes()


def test_a_client_alone_gets_the_batches_it_gets_among_others():
    for make in (
        lambda **k: epochs([9, 5, 7], n_epochs=1, batch_size=4, seed=1, round=2, **k),
        lambda **k: fixed_batches([9, 5, 7], n_steps=3, batch_size=4, seed=1, round=2, **k),
        lambda **k: poisson_batches([9, 5, 7], n_steps=3, batch_size=4, seed=1, round=2, **k),
    ):
        everyone, alone = make(), make(clients=[2])
        used = everyone.weights[2] > 0
        assert (everyone.indices[2][used] == alone.indices[0][alone.weights[0] > 0]).all()


# Batches.


def test_epochs_use_every_example_once_per_pass():
    schedule = epochs([7, 3], n_epochs=2, batch_size=3, seed=0, round=0)
    assert schedule.steps.tolist() == [6, 2]
    used = schedule.indices[0][schedule.weights[0] > 0]
    assert sorted(used[:7]) == sorted(used[7:]) == list(range(7))
    assert used[:7].tolist() != used[7:].tolist()


def test_fixed_batches_have_distinct_examples_all_equally_often():
    schedule = fixed_batches([6], n_steps=6000, batch_size=2, seed=0, round=0)
    assert (schedule.indices[0, :, 0] != schedule.indices[0, :, 1]).all()
    pairs = np.bincount(6 * schedule.indices[0].min(axis=1) + schedule.indices[0].max(axis=1), minlength=36)
    pairs = pairs[pairs > 0]
    assert len(pairs) == 15
    assert abs(pairs - 400).max() < 5 * 400**0.5


def test_poisson_batches_have_the_declared_mean_and_variance():
    schedule = poisson_batches([40], n_steps=4000, batch_size=8, seed=0, round=0)
    sizes = schedule.weights[0].sum(axis=1)
    assert (schedule.divisors == 8).all()
    assert abs(sizes.mean() - 8) < 5 * (6.4 / 4000) ** 0.5
    assert abs(sizes.var() / 6.4 - 1) < 5 * (2 / 4000) ** 0.5


def test_a_batch_of_no_steps_is_a_schedule(model):
    data = EXACT.prepare(model, federation(model))
    steps = epochs(data.sizes, n_epochs=0, batch_size=3, seed=0, round=0)
    w = start(model)
    assert (EXACT.local_sgd(model, w, data, steps, learning_rate=0.1) == w).all()


# Bad input.


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ([], "clients is empty"),
        ([(np.ones((2, 9)), [0, 1]), (np.ones((0, 9)), [])], "client 1 has no data"),
        ([(np.full((1, 9), np.nan), [0])], "client 0 x holds NaN"),
        ([(np.full((1, 9), np.inf), [0])], "client 0 x must be finite"),
        ([(np.full((1, 9), 1e200), [0])], "beyond the range of float32"),
        ([(np.ones((1, 8)), [0])], "client 0 x must have shape"),
        ([(np.ones((2, 9)), [0])], "client 0 y must have one entry"),
        ([(np.ones((1, 9)), [2])], "client 0 y must hold classes 0..1"),
        ([(np.ones((1, 9)), [0.5])], "client 0 y must hold classes 0..1"),
        ([(np.ones((1, 9)),)], "clients: client 0 must be a pair"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_bad_clients_are_named(clients, said):
    with pytest.raises(ValueError, match=said):
        NumpyBackend().prepare(MODELS["logistic"], clients)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"starts": np.zeros(9)}, "starts must have 10 entries"),
        ({"starts": np.zeros((3, 10))}, r"starts must have shape \(10,\) or \(4, 10\)"),
        ({"starts": np.full(10, np.nan)}, "starts holds NaN"),
        ({"learning_rate": 0}, "learning_rate must be > 0"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate must be a number or have one entry for each of the 4 clients"),
        ({"pull": (-1.0, np.zeros(10))}, "lam must be >= 0"),
        ({"pull": (1.0, np.zeros(3))}, "anchors must have 10 entries"),
        ({"clip": 0.0}, "clip must be > 0"),
        ({"noise": GaussianNoise(1.0, 0, 0)}, "give clip"),
        ({"schedule": epochs([99] * 4, n_epochs=1, batch_size=9, seed=0, round=0)}, "asks client 0 for rows beyond its 23"),
        ({"schedule": epochs([1] * 9, n_epochs=1, batch_size=9, seed=0, round=0)}, "schedule names client 8"),
        ({"schedule": epochs([1] * 5, n_epochs=1, batch_size=9, seed=0, round=0)}, "schedule names client 4"),
    ],
)
def test_bad_settings_are_named(change, said):
    model = MODELS["linear"]
    data = EXACT.prepare(model, federation(model))
    arguments = {"starts": np.zeros(10), "schedule": SCHEDULES["epochs"](data.sizes), "learning_rate": 0.1} | change
    starts, schedule = arguments.pop("starts"), arguments.pop("schedule")
    for backend in (EXACT, REFERENCE):
        with pytest.raises(ValueError, match=said):
            backend.local_sgd(model, starts, data, schedule, **arguments)


def test_a_weight_above_one_does_not_go_with_clipping():
    model = MODELS["linear"]
    data = EXACT.prepare(model, federation(model))
    step = Schedule([0], [[[0]]], [[[2.0]]], [[1.0]], [1])
    EXACT.local_sgd(model, np.zeros(10), data, step, learning_rate=0.1)
    with pytest.raises(ValueError, match="weights above 1"):
        EXACT.local_sgd(model, np.zeros(10), data, step, learning_rate=0.1, clip=1.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Model((3, 1), "cubic"), "loss must be one of"),
        (lambda: Model([3, 1], "square"), "sizes must be a tuple"),
        (lambda: Model((0, 1), "square"), r"sizes\[0\]"),
        (lambda: Model((3, 2), "hinge"), "sizes must end in 1 score"),
        (lambda: Model((3, 1), "softmax"), "at least 2 scores"),
        (lambda: logistic_regression(3, 1), "n_classes"),
        (lambda: Model((4, 2), "softmax", (2, 2, 1)), "image and convolutions belong together"),
        (lambda: Model((5, 2), "softmax", (2, 2, 1), (Convolution(1, 1),)), "of 5 features, got"),
        (lambda: Model((4, 2), "softmax", (2, 2, 1), (Convolution(1, 3),)), "too small for its convolutions"),
        (lambda: Model((4, 2), "softmax", (2, 2, 1), ((1, 1),)), r"convolutions\[0\] must be a Convolution"),
        (lambda: Model((4, 2), "softmax", (2, 2, 1), (Convolution(0, 1),)), r"channels of convolutions\[0\]"),
        (lambda: convolutional_network(50, channels=(1,), size=1), "n_features = 50 is no square image"),
        (lambda: linear_svm(3).initialise(0), "generator must be"),
        (lambda: epochs([3, 0], n_epochs=1, batch_size=1, seed=0, round=0), "client 1 has no data; leave it out"),
        (lambda: epochs([3], n_epochs=1, batch_size=0, seed=0, round=0), "batch_size"),
        (lambda: epochs([3], n_epochs=1, batch_size=1, seed=-1, round=0), "seed"),
        (lambda: epochs([3], n_epochs=1, batch_size=1, seed=0, round=0, clients=[1]), "clients must be positions below 1"),
        (lambda: poisson_batches([3, 9], n_steps=1, batch_size=4, seed=0, round=0), "client 0 has 3, not 4"),
        (lambda: poisson_batches([3], n_steps=1, batch_size=0, seed=0, round=0), "batch_size must be > 0"),
        (lambda: Schedule([0], [[0]], [[1.0]], [[1.0]], [1]), "indices and weights must have shape"),
        (lambda: Schedule([0], [[[0]]], [[[1.0]]], [[0.0]], [1]), "divisors must be > 0"),
        (lambda: Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [2]), "steps must be at most 1"),
        (lambda: Schedule([0, 1], [[[0]]], [[[1.0]]], [[1.0]], [1]), "clients and steps"),
        (lambda: GaussianNoise(-1.0, 0, 0), "multiplier must be >= 0"),
        (lambda: NumpyBackend(dtype="float16"), "dtype must be one of"),
        (lambda: NumpyBackend(workers=0), "workers"),
        (lambda: stream(0, 0, 2**32), "position"),
    ],
)
def test_bad_arguments_are_named(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_data_prepared_in_another_precision_is_refused():
    model = MODELS["linear"]
    data = NumpyBackend().prepare(model, federation(model))
    with pytest.raises(ValueError, match="data is of float32, the backend of float64"):
        EXACT.evaluate(model, start(model), data)
    with pytest.raises(ValueError, match="use this backend's prepare"):
        EXACT.local_sgd(model, start(model), data, SCHEDULES["epochs"](data.sizes), learning_rate=0.1)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Model((4, 3, 3, 2), "softmax"), "model has 2 hidden layers"),
        (convolutional_network(16, 2, channels=(2,), size=3), "model has 1 convolutions"),
        (adaped_network(), "model has 2 convolutions and 2 hidden layers"),
    ],
)
def test_other_layers_are_for_other_backends(model, said):
    w, data = start(model), REFERENCE.prepare(model, federation(model))
    assert np.isfinite(REFERENCE.evaluate(model, w, data).loss).all()
    said += r"; .* pip install 'borrowed-strength\[learn\]' and use JaxBackend \(--backend jax\)"
    for call in (
        lambda: EXACT.prepare(model, federation(model)),
        lambda: EXACT.evaluate(model, w, data),
        lambda: EXACT.local_sgd(model, w, data, SCHEDULES["epochs"](data.sizes), learning_rate=0.1),
    ):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize("backend", [REFERENCE, EXACT, NumpyBackend(workers=2)], ids=["reference", "numpy", "float32"])
@pytest.mark.parametrize("name", ["linear", "network"])
def test_diverging_training_names_client_and_step(name, backend):
    model = MODELS[name]
    data = backend.prepare(model, federation(model))
    steps = fixed_batches(data.sizes, n_steps=400, batch_size=8, seed=0, round=0, clients=[3, 2])
    with pytest.raises(contract.Diverged, match=r"training of client 2 diverged in step \d+; lower learning_rate") as caught:
        backend.local_sgd(
            model, start(model), data, steps, learning_rate=[1e-3, 1e5], pull=([0.0, 1.0], np.zeros(model.n_parameters))
        )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.client, again.step) == (2, caught.value.step)
    assert 0 < again.step < 400


@pytest.mark.parametrize("backend", [REFERENCE, EXACT, NumpyBackend(workers=2)], ids=["reference", "numpy", "float32"])
def test_training_that_diverges_in_its_only_step_says_so(backend):
    model = MODELS["linear"]
    data = backend.prepare(model, federation(model))
    steps = fixed_batches(data.sizes, n_steps=1, batch_size=8, seed=0, round=0, clients=[2])
    with pytest.raises(contract.Diverged, match="training of client 2 diverged in step 0") as caught:
        backend.local_sgd(model, 1e30 * start(model), data, steps, learning_rate=1e300)
    assert (caught.value.client, caught.value.step) == (2, 0)


def test_imports_load_neither_numba_nor_scipy():
    code = "import estimators.federated.numpy_backend, sys; print({'numba', 'scipy', 'llvmlite'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
