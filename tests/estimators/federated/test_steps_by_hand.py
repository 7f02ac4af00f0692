"""Steps of training, of pairs too, against their formulas with slopes by complex steps; convolutions pixel by pixel."""

import math

import numpy as np
import pytest

from estimators.federated import kernels
from estimators.federated.backend import Diverged
from estimators.federated.models import Convolution, Model, linear_regression, linear_svm, logistic_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.pairs import PairStep
from estimators.federated.reference_backend import ReferenceBackend
from estimators.federated.schedule import GaussianNoise, Schedule

REFERENCE, EXACT = ReferenceBackend(), NumpyBackend(dtype="float64", workers=1)
BACKENDS = {"reference": REFERENCE, "numpy": EXACT}
MODELS = {
    "square": linear_regression(2),
    "logistic": logistic_regression(2),
    "hinge": linear_svm(2),
    "softmax": logistic_regression(2, 3),
    "two scores": Model((2, 2), "softmax"),
    "hidden logistic": Model((2, 3, 1), "logistic"),
    "hidden softmax": Model((2, 4, 3), "softmax"),
}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


# --- networks of complex numbers -------------------------------------------------------------------------------------------


def rectified(z):
    return np.where(z.real > 0, z, 0)


def convolved(layer, matrix, image):
    """Largest rectified values of blocks, each a sum over a patch; ties are left to others."""
    rows, columns = layer.positions(image.shape)
    above = (layer.size - 1) // 2 if layer.same else 0
    values = np.zeros((rows, columns, layer.channels), matrix.dtype)
    for r, c in np.ndindex(rows, columns):
        total = matrix[-1].copy()
        for i, j, k in np.ndindex(layer.size, layer.size, image.shape[2]):
            at = r + i - above, c + j - above
            if 0 <= at[0] < image.shape[0] and 0 <= at[1] < image.shape[1]:
                total += matrix[(i * layer.size + j) * image.shape[2] + k] * image[at][k]
        values[r, c] = rectified(total)
    out = np.zeros(layer.output(image.shape), matrix.dtype)
    for r, c, o in np.ndindex(out.shape):
        block = values[r * layer.pool : (r + 1) * layer.pool, c * layer.pool : (c + 1) * layer.pool, o].ravel()
        out[r, c, o] = block[np.argmax(block.real)]
    return out


def network(model, w, row):
    """Scores of one example."""
    layers, image = model.layers(w), np.reshape(row, model.image or -1)
    for layer, matrix in zip(model.convolutions, layers, strict=False):
        image = convolved(layer, matrix, image)
    z = image.ravel()
    for i, matrix in enumerate(layers[len(model.convolutions) :]):
        z = np.append(rectified(z) if i else z, 1) @ matrix
    return z


def log_classes(model, z):
    z = z if model.loss == "softmax" else np.array([0, z[0]])
    return z - np.log(np.exp(z).sum())


def loss(model, w, row, answer):
    z = network(model, w, row)
    if model.loss == "square":
        return (z[0] - answer) ** 2 / 2
    if model.loss == "hinge":
        return rectified(1 - (2 * answer - 1) * z[0])
    return -log_classes(model, z)[int(answer)]


def divergence(model, w, v, row):
    """KL of the network w from the network v at one example."""
    a, b = log_classes(model, network(model, w, row)), log_classes(model, network(model, v, row))
    return (np.exp(a) * (a - b)).sum()


def slopes(function, w):
    """All slopes of a function of parameters: imaginary part at a tiny imaginary step, exact to the last digits."""
    return np.array([function(w + 1e-40j * e).imag for e in np.eye(len(w))]) / 1e-40


def start(model, seed):
    return 0.8 * np.random.default_rng(seed).standard_normal(model.n_parameters)


def data_of(model, sizes=(4, 3)):
    rng = np.random.default_rng(8)
    pairs = []
    for n in sizes:
        y = rng.integers(0, model.n_classes, n) if model.n_classes else rng.standard_normal(n)
        pairs.append((rng.standard_normal((n, model.n_features)), y.astype(float)))
    return pairs


# Three steps, the second without examples, and two with weights that are no wholes; filling may name rows of nobody.
BATCHES = Schedule(
    [1, 0],
    [[[2, 0, 99], [99, 99, 99], [1, 2, 0]], [[3, 1, 0], [99, 3, 99], [0, 0, 0]]],
    [[[1.0, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [[0.25, 1.0, 0.75], [0.0, 0.5, 0.0], [1.0, 1.0, 1.0]]],
    [[2.0, 1.0, 4.0], [3.0, 0.5, 1.0]],
    [3, 2],
)

# --- losses, gradients, training -------------------------------------------------------------------------------------------


CONVOLUTIONS = [
    Model((12, 3), "softmax", (4, 3, 1), (Convolution(2, 1),)),
    Model((24, 1), "square", (4, 3, 2), (Convolution(2, 2, pool=1), Convolution(1, 2, same=True, pool=2))),
    Model((20, 2, 1), "logistic", (5, 4, 1), (Convolution(1, 3, same=True, pool=1), Convolution(2, 2, pool=2))),
    Model((36, 1), "hinge", (6, 6, 1), (Convolution(2, 4, same=True, pool=3),)),
]


@pytest.mark.parametrize("model", [*MODELS.values(), *CONVOLUTIONS], ids=lambda m: f"{m.loss} {m.sizes}")
def test_losses_and_gradients_are_those_of_the_network_written_out(model):
    w = start(model, 3)
    for x, y in data_of(model, (2,)):
        exact = [loss(model, w, *one) for one in zip(x, y, strict=True)]
        assert REFERENCE.loss(model, w, x, y) == pytest.approx(np.mean(exact), rel=1e-12)
        found = REFERENCE.example_gradients(model, w, x, y)
        for g, *one in zip(found, x, y, strict=True):
            np.testing.assert_allclose(g, slopes(lambda v, one=one: loss(model, v, *one), w), rtol=1e-10, atol=1e-12)


def test_equal_largest_values_of_a_block_share_the_slope_and_zeros_have_none():
    model = Model((8, 1), "square", (2, 2, 2), (Convolution(1, 1),))
    # Sums of the two channels: three pixels of 3, on average (1, 2); the score is twice their largest, 5 from its response.
    found = REFERENCE.example_gradients(model, [1.0, 1.0, 0.0, 2.0, 0.0], [[1.0, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 3.0]], [1.0])
    np.testing.assert_allclose(found, [[10.0, 20.0, 10.0, 15.0, 5.0]], rtol=1e-15)
    at_zero = [[0.0, 0.0, -1.0, 1.0, -2.0, 1.0, -1.0, 0.0]]
    assert REFERENCE.example_gradients(model, [1.0, 1.0, 0.0, 2.0, 1.0], at_zero, [0.0]).tolist() == [[0.0] * 4 + [1.0]]
    hidden = Model((1, 2, 1), "square")  # one unit at the kink, one above it
    found = REFERENCE.example_gradients(hidden, [1.0, 1.0, -2.0, 0.0, 3.0, 1.0, 0.0], [[2.0]], [1.0])
    assert found.tolist() == [[0.0, 2.0, 0.0, 1.0, 0.0, 2.0, 1.0]]


@pytest.mark.parametrize("name", MODELS)
def test_evaluations_are_means_over_rows_of_losses_and_hits(backend, name):
    model = MODELS[name]
    pairs, ws = data_of(model, (12, 5)), np.stack([start(model, 1), start(model, 2)])
    data = backend.prepare(model, pairs)
    exact = [[network(model, w, x) for x in rows] for w, (rows, _) in zip(ws, pairs, strict=True)]
    np.testing.assert_allclose(backend.scores(model, ws, data), np.concatenate(exact), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(backend.scores(model, ws[0], backend.prepare(model, pairs[:1])), exact[0], rtol=1e-12)
    found = backend.evaluate(model, ws, data)
    for i, (x, y) in enumerate(pairs):
        assert found.loss[i] == pytest.approx(
            np.mean([loss(model, ws[i], *one) for one in zip(x, y, strict=True)]), rel=1e-12
        )
        if model.n_classes:
            classes = [int(z[0] > 0) if len(z) == 1 else int(np.argmax(z)) for z in exact[i]]
            assert found.accuracy[i] == pytest.approx(np.mean(classes == y))
    assert (found.accuracy is None) == (model.n_classes == 0)


def test_a_score_of_zero_is_of_class_zero(backend):
    for model in (MODELS["logistic"], MODELS["hinge"], MODELS["softmax"]):
        data = backend.prepare(model, [(np.zeros((2, 2)), [0, 1]), (np.zeros((1, 2)), [0])])
        found = backend.evaluate(model, np.zeros(model.n_parameters), data)
        assert found.accuracy.tolist() == [0.5, 1.0]
        nats = {"logistic": math.log(2), "hinge": 1.0, "softmax": math.log(3)}[model.loss]
        np.testing.assert_allclose(found.loss, nats, rtol=1e-15)
    # At score 0 the slope is that of either side's formula: p - y, hence a step of a quarter.
    data = backend.prepare(MODELS["logistic"], [(np.array([[1.0, 0.0]]), [1])])
    one = Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1])
    found = backend.local_sgd(MODELS["logistic"], np.zeros(3), data, one, learning_rate=0.5)
    assert found.tolist() == [[0.25, 0.0, 0.25]]


WAYS = {
    "plain": {},
    "pulled": {"pull": (np.array([0.3, 0.6]), 1.5)},
    "clipped": {"clip": np.array([0.2, 0.9])},
    "noisy": {"clip": np.array([0.2, 0.9]), "pull": (0.2, -0.5), "noise": GaussianNoise(0.8, seed=7, round=5)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_formula(backend, name, way):
    model, how = MODELS[name], dict(WAYS[way])
    pairs, rates = data_of(model), (0.3, 0.4)
    starts, anchor = np.stack([start(model, 1), start(model, 2)]), start(model, 4)
    if "pull" in how:
        how["pull"] = (how["pull"][0], how["pull"][1] * anchor)
    found = backend.local_sgd(model, starts, backend.prepare(model, pairs), BATCHES, learning_rate=np.array(rates), **how)
    lam, anchors = how.get("pull", (0.0, anchor))
    lam, clip = np.broadcast_to(lam, 2), np.broadcast_to(how.get("clip", math.inf), 2)
    for i, k in enumerate(BATCHES.clients):
        w, (x, y) = starts[i], pairs[k]
        for s in range(BATCHES.steps[i]):
            total = np.zeros_like(w)
            for j, a in zip(BATCHES.indices[i, s], BATCHES.weights[i, s], strict=True):
                if a > 0:
                    g = slopes(lambda v, j=j, x=x, y=y: loss(model, v, x[j], y[j]), w)
                    norm = math.sqrt((g**2).sum())
                    total += a * g * (min(1, clip[i] / norm) if norm else 1)
            if "noise" in how:
                total += 0.8 * clip[i] * how["noise"].draw(int(k), [s], len(w))[0]
            w = w - rates[i] * (total / BATCHES.divisors[i, s] + lam[i] * (w - anchors))
        np.testing.assert_allclose(found[i], w, rtol=1e-11, atol=1e-13)


# --- pairs -----------------------------------------------------------------------------------------------------------------

PAIRED = {name: MODELS[name] for name in ("logistic", "softmax", "hidden logistic")}
STEPS = {
    "plain": PairStep(rates=(0.1, 0.2, 0.3), own=(0.7, 0.8), common=(0.4, 0.9), floor=0.05, weight_decay=0.3),
    "mutual": PairStep(rates=(0.1, 0.2, 0.3), own=(0.7, 0.8), common=(0.4, 0.9), floor=0.05, mutual=True),
    "clipped": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.01, clips=(0.03, 0.06), weight_decay=0.2),
    "joint": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(1, 1), floor=0.01, clips=(0.3, math.inf), joint=True),
    "loose": PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(1, 1), floor=0.01, clips=(300.0, math.inf), joint=True),
    "floored": PairStep(rates=(0.1, 0.2, 9.0), own=(1, 0.5), common=(0, 1), floor=0.55),
    "psi alone": PairStep(rates=(0.1, 0, 0.3), own=(1, 0.5), common=(0, 1), floor=0.05),
    "theta alone": PairStep(rates=(0.1, 0, 0), own=(1, 0.5), common=(0, 1)),
    "psi alone, by one": PairStep(rates=(0.1, 0, 1), own=(1, 0.5), common=(0, 1), floor=0.05),
    "mu by one, apart": PairStep(rates=(0.1, 1, 0), own=(1, 0), common=(1, 0)),
    "psi as it is": PairStep(rates=(0.1, 0.2, 0), own=(1, 0.5), common=(0, 1), floor=2.0),
}


def pair_twin(model, step, theta, mu, psi, batch, weights, divisor, normals):
    """One step by the formulas of ``pairs``."""
    examples = list(zip(weights, *batch, strict=True))

    def total(one):
        return sum(a * one(x, y) for a, x, y in examples) / divisor + 0j

    def apart(w, v):
        return total(lambda x, y: divergence(model, w, v, x))

    def k(mu, theta):
        return 1 / (2 * psi) - apart(mu, theta).real / (2 * psi**2)

    def own(w):
        return step.own[0] * total(lambda x, y: loss(model, w, x, y)) + step.own[1] * apart(mu, w) / (2 * psi)

    theta = theta - step.rates[0] * (slopes(own, theta) + step.weight_decay * theta)

    def common(w):
        way = (theta, w) if step.mutual else (w, theta)
        return step.common[0] * total(lambda x, y: loss(model, w, x, y)) + step.common[1] * apart(*way) / (2 * psi)

    h, early = slopes(common, mu), k(mu, theta)
    norm = math.sqrt((h**2).sum() + (early**2 if step.joint else 0))
    kept = min(1, step.clips[0] / norm) if norm else 1
    moved = mu - step.rates[1] * (kept * h + step.weight_decay * mu)
    if normals is not None:
        moved = moved - step.rates[1] * step.clips[0] * normals[:-1]
    if step.rates[2] == 0:
        return theta, moved, psi
    late = early * kept if step.joint else max(-step.clips[1], min(step.clips[1], k(moved, theta)))
    if normals is not None:
        late += step.clips[0 if step.joint else 1] * normals[-1]
    return theta, moved, max(step.floor, psi - step.rates[2] * late)


@pytest.mark.parametrize(("way", "noisy"), [*((way, False) for way in STEPS), ("clipped", True), ("joint", True)])
@pytest.mark.parametrize("name", PAIRED)
def test_steps_of_pairs_are_those_of_the_formulas(backend, name, way, noisy):
    model, step = PAIRED[name], STEPS[way]
    pairs, psi = data_of(model), [0.6, 1.1]
    own, common = (np.stack([start(model, 10 * j + i) for i in range(2)]) for j in (1, 2))
    noise = GaussianNoise(0.7, seed=7, round=5) if noisy else None
    data = backend.prepare(model, pairs)
    found = backend.local_pairs(model, own, common, psi, data, BATCHES, step=step, noise=noise)
    for i, c in enumerate(BATCHES.clients):
        state = own[i], common[i], psi[i]
        for s in range(BATCHES.steps[i]):
            normals = None if noise is None else 0.7 * noise.draw(int(c), [s], len(own[i]) + 1)[0].astype(float)
            used = BATCHES.weights[i, s] > 0
            batch = [part[BATCHES.indices[i, s, used]] for part in pairs[c]]
            state = pair_twin(model, step, *state, batch, BATCHES.weights[i, s, used], BATCHES.divisors[i, s], normals)
        for part, exact in zip(found, state, strict=True):
            np.testing.assert_allclose(part[i], exact, rtol=1e-10, atol=1e-13)


# --- divergence ------------------------------------------------------------------------------------------------------------


def test_training_that_diverges_names_the_client_and_its_step(backend):
    model = linear_regression(1)
    data = backend.prepare(model, [(np.ones((1, 1)), [1.0]), (np.full((1, 1), 1e120), [1.0])])
    steps = Schedule([0, 1], np.zeros((2, 4, 1)), np.ones((2, 4, 1)), np.ones((2, 4)), [4, 4])
    assert np.isfinite(backend.local_sgd(model, np.zeros(2), data, steps.rows([0]), learning_rate=0.1)).all()
    # From 0 the slope is -1e120, then 1e360: beyond all numbers in the second step, which the third may be the first to see.
    with pytest.raises(Diverged, match=r"training of client 1 diverged in step [12];"):
        backend.local_sgd(model, np.zeros(2), data, steps, learning_rate=0.1)
    assert np.isfinite(backend.local_sgd(model, np.zeros(2), data, steps.step(0), learning_rate=0.1)).all()


def test_the_last_step_and_the_first_are_named_when_they_diverge(backend):
    """Parameters that cease to be finite in a client's last step, and scores that are not from the start."""
    model = linear_regression(1)
    data = backend.prepare(model, [(np.array([[0.0], [1e200]]), np.array([0.0, 1e300]))])
    for batches in ([1], [0, 1], [0, 0, 0, 1]):
        n = len(batches)
        steps = Schedule([0], np.reshape(batches, (1, n, 1)), np.ones((1, n, 1)), np.ones((1, n)), [n])
        with pytest.raises(Diverged, match=f"client 0 diverged in step {n - 1};"):
            backend.local_sgd(model, np.zeros(2), data, steps, learning_rate=0.1)
    with pytest.raises(Diverged, match="client 0 diverged in step 0;"):
        backend.local_sgd(model, [1e300, 0.0], data, Schedule([0], [[[1], [0], [0]]], np.ones((1, 3, 1)), [[1.0] * 3], [3]),
                          learning_rate=0.1)  # fmt: skip
    many = Schedule([0], np.ones((1, 20, 1)), np.ones((1, 20, 1)), np.ones((1, 20)), [20])
    with pytest.raises(Diverged, match="client 0 diverged in step 0;"):
        backend.local_sgd(
            model, [1e300, 0.0], data, many, learning_rate=0.1, clip=1.0, noise=GaussianNoise(1.0, seed=0, round=0)
        )
    none = Schedule([0, 0], np.zeros((2, 1, 1)), np.ones((2, 1, 1)), np.ones((2, 1)), [0, 0])
    starts = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert backend.local_sgd(model, starts, data, none, learning_rate=0.1).tolist() == starts.tolist()


def test_starts_beyond_single_precision_diverge_in_the_first_step():
    single, model = NumpyBackend(workers=1), linear_regression(1)
    data = single.prepare(model, [(np.ones((1, 1)), [1.0])])
    steps = Schedule([0], np.zeros((1, 4, 1)), np.ones((1, 4, 1)), np.ones((1, 4)), [4])
    with np.errstate(over="ignore"), pytest.raises(Diverged, match="client 0 diverged in step 0;"):
        single.local_sgd(model, [1e39, 0.0], data, steps, learning_rate=0.1)


def test_more_layers_than_the_compiled_loops_have_are_refused():
    for model, says in (
        (Model((2, 3, 3, 1), "square"), "model has 2 hidden layers; "),
        (Model((4, 1), "square", (2, 2, 1), (Convolution(1, 1),)), "model has 1 convolutions; "),
        (Model((4, 3, 3, 1), "square", (2, 2, 1), (Convolution(1, 1),)), "model has 1 convolutions and 2 hidden layers; "),
    ):
        with pytest.raises(ValueError, match=says):
            EXACT.prepare(model, [(np.zeros((1, model.n_features)), [0.0])])


def test_pairs_that_diverge_name_the_client_and_its_step(backend):
    data = backend.prepare(MODELS["logistic"], [(np.array([[1e200, 0.0]]), [1])])
    steps, step = Schedule([0], np.zeros((1, 4, 1)), np.ones((1, 4, 1)), np.ones((1, 4)), [4]), STEPS["mutual"]
    with pytest.raises(Diverged, match=r"training of client 0 diverged in step [01];"):
        backend.local_pairs(MODELS["logistic"], np.zeros(3), np.zeros(3), 1.0, data, steps, step=step)


@pytest.mark.parametrize("sign", [1, -1])
def test_pairs_take_scores_whose_exponentials_are_beyond_all_numbers(backend, sign):
    """The class of the largest score has all the probability, so that slopes are differences of indicators."""
    one, step = Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1]), PairStep(rates=(0.5, 0.25, 0), own=(1, 0), common=(1, 0))
    model = MODELS["softmax"]
    w = np.zeros((3, 3))
    w[2] = [sign * 900.0, sign * 2000.0, 0.0]
    largest = 1 if sign > 0 else 2
    move = np.zeros((3, 3))
    move[[0, 2], 0], move[[0, 2], largest] = 1.0, -1.0
    data = backend.prepare(model, [(np.array([[1.0, 0.0]]), [0])])
    found = backend.local_pairs(model, w.ravel(), w.ravel(), 1.0, data, one, step=step)
    np.testing.assert_allclose(found.own[0].reshape(3, 3), w + 0.5 * move, rtol=1e-15)
    np.testing.assert_allclose(found.common[0].reshape(3, 3), w + 0.25 * move, rtol=1e-15)


def test_slopes_whose_squares_overflow_are_not_clipped_where_nothing_clips(backend):
    data = backend.prepare(MODELS["logistic"], [(np.array([[1e160, 0.0]]), [1])])
    one, step = Schedule([0], [[[0]]], [[[1.0]]], [[1.0]], [1]), PairStep(rates=(0, 0.5, 0), own=(1, 0), common=(1, 0))
    found = backend.local_pairs(MODELS["logistic"], np.zeros(3), np.zeros(3), 1.0, data, one, step=step)
    np.testing.assert_allclose(found.common, [[0.25e160, 0.0, 0.25]], rtol=1e-15)


# --- products of the compiled loops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 10, 17])
def test_products_are_added_to_the_rows_asked_for_and_no_others(rows):
    rng, inner = np.random.default_rng(rows), 5
    for width in (kernels.LANES, 2 * kernels.LANES):
        left, b, before = (rng.integers(-9, 9, shape).astype(float) for shape in ((24, 11), (11, width), (24, width)))
        for a in (left, np.ascontiguousarray(left.T).T):
            chosen, columns = np.sort(rng.choice(24, rows, replace=False)), np.array([0, 3, 4, 10])
            found, expected = before.copy(), before.copy()
            kernels.add_product(a, b, found, rows, inner)
            expected[:rows] += a[:rows, :inner] @ b[:inner]
            assert found.tolist() == expected.tolist()
            kernels.add_rows_product(a, b, found, chosen, inner)
            expected[chosen] += a[chosen, :inner] @ b[:inner]
            assert found.tolist() == expected.tolist()
        for some in (columns, columns[:1], columns[:0]):
            kernels.add_columns_product(left, b, found, rows, some)
            expected[:rows] += left[:rows, some] @ b[some]
            assert found.tolist() == expected.tolist()
        kernels.add_product(left, b, found, rows, 0)
        kernels.add_rows_product(left, b, found, chosen, 0)
        assert found.tolist() == expected.tolist()


LARGE = [
    Model((10, 15, 3), "softmax"),
    Model((10, 3, 18), "softmax"),
    Model((10, 17, 18), "softmax"),
    Model((10, 18), "softmax"),
    Model((10, 3, 1), "square"),
]


@pytest.mark.parametrize("model", LARGE, ids=lambda m: f"{m.sizes}")
def test_steps_of_many_units_and_rows_whose_features_are_seldom_there(backend, model):
    rng, n = np.random.default_rng(5), 19
    x = rng.standard_normal((n, 10)) * (rng.random((n, 10)) < 0.7)
    x[:3] = 0.0
    x[1, 4], x[2, 4], x[2, 7] = 1.0, -0.5, 1.0
    y = rng.integers(0, model.n_classes, n).astype(float) if model.n_classes else rng.standard_normal(n)
    batches = [[0], [0, 1], [0, 1, 2], list(range(3, 19)), [12]]
    rows, weights = np.full((1, 5, 16), 99), np.zeros((1, 5, 16))
    for s, batch in enumerate(batches):
        rows[0, s, : len(batch)], weights[0, s, : len(batch)] = batch, 1.0
    w, data = start(model, 1), backend.prepare(model, [(x, y)])
    for s, batch in enumerate(batches):
        gradients = [slopes(lambda v, j=j: loss(model, v, x[j], y[j]), w) for j in batch]
        one = Schedule([0], rows[:, [s]], weights[:, [s]], [[2.0]], [1])
        for clip in (None, 1.5):
            kept = [min(1, (clip or math.inf) / np.linalg.norm(g)) * g for g in gradients]
            found = backend.local_sgd(model, w, data, one, learning_rate=0.5, clip=clip)[0]
            np.testing.assert_allclose(found, w - 0.25 * np.sum(kept, axis=0), rtol=1e-11, atol=1e-13)


def test_rows_are_evaluated_in_blocks_of_any_number(backend):
    model, rng = MODELS["hidden softmax"], np.random.default_rng(6)
    x, y, w = rng.standard_normal((261, 2)), rng.integers(0, 3, 261).astype(float), start(MODELS["hidden softmax"], 2)
    exact = np.array([loss(model, w, *one) for one in zip(x, y, strict=True)])
    for n in (1, 128, 129, 261):
        found = backend.evaluate(model, w, backend.prepare(model, [(x[:n], y[:n]), (x[-n:], y[-n:])]))
        np.testing.assert_allclose(found.loss, [exact[:n].mean(), exact[-n:].mean()], rtol=1e-12)


def test_noise_of_many_steps_is_that_of_each(backend):
    """Batches without rows leave the noise alone; a backend may draw that of some steps at a time."""
    model, noise, n = MODELS["hidden softmax"], GaussianNoise(0.7, seed=7, round=5), 19
    empty = Schedule([0], np.zeros((1, n, 1)), np.zeros((1, n, 1)), [np.arange(1.0, n + 1)], [n])
    data, w, size = backend.prepare(model, data_of(model)), start(model, 1), model.n_parameters
    drawn = [noise.draw(0, [s], size)[0].astype(float) / (s + 1) for s in range(n)]
    found = backend.local_sgd(model, w, data, empty, learning_rate=0.3, clip=0.9, noise=noise)[0]
    np.testing.assert_allclose(found, w - 0.3 * 0.7 * 0.9 * np.sum(drawn, axis=0), rtol=1e-11, atol=1e-13)
    for joint in (False, True):
        step = PairStep(rates=(0.1, 0.2, 0.3), own=(1, 1), common=(0, 1), floor=0.01, clips=(0.3, 0.4), joint=joint)
        found = backend.local_pairs(model, w, -w, 2.0, data, empty, step=step, noise=noise)
        mu, psi = -w, 2.0  # divisors divide the rows, which are none, not the noise of pairs
        for s in range(n):
            numbers, k = 0.7 * noise.draw(0, [s], size + 1)[0].astype(float), 1 / (2 * psi)
            mu = mu - 0.2 * 0.3 * numbers[:-1]
            psi = max(0.01, psi - 0.3 * (min(k, 0.3 if joint else 0.4) + (0.3 if joint else 0.4) * numbers[-1]))
        np.testing.assert_allclose(found.own[0], w, rtol=1e-15)
        np.testing.assert_allclose(found.common[0], mu, rtol=1e-11, atol=1e-13)
        assert found.psi[0] == pytest.approx(psi, rel=1e-11)
