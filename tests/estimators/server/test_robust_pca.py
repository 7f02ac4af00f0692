"""Robust PCA: exact recovery, the Gram form against the direct one, certified optimality, weights, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators.closed_forms.aggregation import precision_weights
from estimators.server import robust_pca


def low_rank_and_sparse(p, n, rank, spikes, seed):
    gen = np.random.default_rng(seed)
    low = gen.normal(size=(p, rank)) @ gen.normal(size=(rank, n))
    sparse = np.zeros((p, n))
    where = gen.choice(p * n, spikes, replace=False)
    sparse.flat[where] = gen.choice([-5.0, 5.0], spikes)
    return low, sparse


def noisy_updates(p, n, strength, seed, rank=1):
    """Shared updates of per-element variance `strength` plus noise whose variance varies as with batch sizes 16..128."""
    gen = np.random.default_rng(seed)
    variances = gen.choice([1.0, 8.0, 64.0, 512.0], n) * gen.uniform(1, 4, n)
    variances[0] = 1.0
    loads = np.vstack([np.ones(n), gen.normal(size=(rank - 1, n))])
    shared = np.sqrt(strength) * gen.normal(size=(p, rank)) @ loads
    return shared + np.sqrt(variances) * gen.normal(size=(p, n)), variances


def loss(weights, variances):
    """Noise of the aggregate over the least possible."""
    return float(np.sum(weights**2 * variances) * np.sum(1 / variances))


@pytest.mark.parametrize("variant", ["published", "reference", "dense"])
def test_low_rank_plus_sparse_is_recovered(variant):
    low, sparse = low_rank_and_sparse(200, 40, 2, 160, seed=3)
    split = robust_pca.robust_pca(low + sparse, variant=variant)
    assert split.converged
    assert split.rank == 2
    np.testing.assert_allclose(split.low_rank, low, atol=1e-4)
    np.testing.assert_allclose(split.sparse, sparse, atol=1e-4)


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_gram_form_is_the_direct_form(p, n, seed):
    matrix = np.random.default_rng(seed).normal(size=(p, n))
    gram, direct = (robust_pca.robust_pca(matrix, method=m, tol=1e-6, max_iter=50) for m in ("gram", "svd"))
    np.testing.assert_allclose(gram.sparse, direct.sparse, atol=1e-10 * np.abs(matrix).max())
    assert gram.iterations == direct.iterations


def test_the_gram_form_on_many_parameters():
    updates, _ = noisy_updates(5_000, 20, 0.1, seed=1)
    gram, direct = (robust_pca.robust_pca(updates, method=m, max_iter=20) for m in ("gram", "svd"))
    assert np.abs(gram.sparse - direct.sparse).max() <= 1e-10 * np.abs(updates).max()
    fused = robust_pca.robust_pca(updates, max_iter=20)
    assert np.abs(fused.sparse - direct.sparse).max() <= 1e-10 * np.abs(updates).max()
    assert ((fused.sparse == 0) == (direct.sparse == 0)).all()
    assert 0 < np.mean(fused.sparse == 0) < 1


def test_tiny_thresholds_do_not_lose_digits_in_the_gram_matrix():
    low, sparse = low_rank_and_sparse(60, 6, 1, 3, seed=5)
    gram, direct = (robust_pca.robust_pca(low + sparse, mu=1e9, method=m, max_iter=3) for m in ("gram", "svd"))
    np.testing.assert_allclose(gram.low_rank, direct.low_rank, atol=1e-9)


@settings(max_examples=20)
@given(st.floats(-9, 9).map(lambda x: 10.0**x), st.permutations(range(5)))
def test_scale_and_order_of_clients(scale, order):
    updates, _ = noisy_updates(60, 5, 1.0, seed=2)
    base = robust_pca.noise_variances(updates)
    np.testing.assert_allclose(robust_pca.noise_variances(scale * updates).variances, scale**2 * base.variances, rtol=1e-3)
    np.testing.assert_allclose(robust_pca.noise_variances(updates[:, order]).variances, base.variances[order], rtol=1e-3)


def test_the_gap_bounds_the_distance_from_the_optimum():
    updates, _ = noisy_updates(400, 8, 1.0, seed=4)
    lam = 1 / np.sqrt(400)

    def objective(split):
        return np.linalg.svd(split.low_rank, compute_uv=False).sum() + lam * np.abs(updates - split.low_rank).sum()

    best = robust_pca.robust_pca(updates, tol=1e-9, variant="dense", max_iter=20_000)
    assert best.gap < 1e-6
    rough = robust_pca.robust_pca(updates, tol=1e-3, variant="reference")
    assert objective(rough) * (1 - rough.gap) <= objective(best) * (1 + 1e-3)


def test_the_residual_alone_stops_too_early_with_dense_noise():
    """The reference code's penalty meets its stopping rule far from the optimum; the gap shows it."""
    updates, variances = noisy_updates(5_000, 20, 0.1, seed=6)
    early = robust_pca.robust_pca(updates, variant="reference", tol=1e-5)
    assert early.residual <= 1e-5
    assert early.gap > 0.01
    assert not early.converged
    fine = robust_pca.noise_variances(updates)
    assert fine.converged
    assert loss(precision_weights(fine.variances), variances) < 1.01
    assert loss(precision_weights(np.mean(early.sparse**2, axis=0)), variances) > 1.01


@pytest.mark.parametrize("strength", [0.0, 0.1, 0.5])
def test_weights_are_within_one_percent_of_the_oracle_for_many_clients_and_parameters(strength):
    updates, variances = noisy_updates(5_000, 20, strength, seed=7)
    assert 1 <= loss(robust_pca.aggregation_weights(updates), variances) < 1.01


@pytest.mark.parametrize(
    ("p", "n", "strength", "rank"), [(50, 20, 1.0, 1), (2000, 3, 10.0, 1), (2000, 20, 10.0, 3), (2000, 20, 100.0, 1)]
)
def test_weights_are_not_within_one_percent_everywhere(p, n, strength, rank):
    updates, variances = noisy_updates(p, n, strength, seed=8, rank=rank)
    assert loss(robust_pca.aggregation_weights(updates), variances) > 1.01


def test_blocks_of_rows():
    updates, variances = noisy_updates(10_500, 10, 0.1, seed=9)
    whole = robust_pca.noise_variances(updates)
    split = robust_pca.noise_variances(updates, block_rows=3000)
    assert (whole.blocks, split.blocks) == (1, 4)
    by_hand = [robust_pca.noise_variances(updates[i : i + 3000]).variances * len(updates[i : i + 3000])
               for i in range(0, 10_500, 3000)]  # fmt: skip
    np.testing.assert_allclose(split.variances, np.sum(by_hand, axis=0) / 10_500)
    assert loss(precision_weights(split.variances), variances) < 1.01


def test_one_client_keeps_its_whole_update_in_the_noise():
    """lam ||m||_1 <= ||m||_2 for lam = 1/sqrt(p); only a multiple t sign(m), t <= min |m|, costs the same in L."""
    column = np.random.default_rng(0).normal(size=(50, 1))
    moved = np.sign(column) * robust_pca.robust_pca(column, variant="dense").low_rank
    np.testing.assert_allclose(moved, moved[0, 0], atol=1e-4)
    assert 0 <= moved[0, 0] <= np.abs(column).min() + 1e-4
    assert robust_pca.aggregation_weights(column).tolist() == [1.0]


def test_zero_updates_and_limits():
    split = robust_pca.robust_pca(np.zeros((4, 3)))
    assert split.converged
    assert not split.sparse.any()
    assert (split.rank, split.iterations, split.residual, split.gap) == (0, 0, 0.0, 0.0)
    assert robust_pca.aggregation_weights(np.zeros((4, 3))).tolist() == [1 / 3] * 3
    stopped = robust_pca.robust_pca(np.random.default_rng(1).normal(size=(30, 4)), max_iter=2)
    assert (stopped.converged, stopped.iterations) == (False, 2)
    assert robust_pca.robust_pca(np.ones((3, 2)), mu=10.0, max_iter=1).iterations == 1
    nothing = robust_pca.robust_pca(np.ones((3, 2)), max_iter=1)  # neither part has anything yet
    assert (nothing.rank, nothing.sparse.any(), nothing.residual, nothing.converged) == (0, False, 1.0, False)
    assert robust_pca.noise_variances(np.ones((3, 2)), block_rows=1, workers=1).blocks == 3


def test_a_search_without_end_takes_the_steps_it_is_given_and_else_three_thousand():
    updates = np.random.default_rng(1).normal(size=(5, 2)) * [1.0, 1e-9]
    assert robust_pca.robust_pca(updates, tol=1e-300).iterations == 3000
    assert robust_pca.noise_variances(updates, tol=1e-300).iterations == 3000


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("method", ["fused", "gram", "svd"])
def test_gaps_and_whether_they_are_small_enough_have_no_unit(unit, method):
    updates, _ = noisy_updates(60, 5, 1.0, seed=2)
    for way in ({"tol": 1e-3}, {"max_iter": 4}):
        one, other = (robust_pca.robust_pca(u * updates, method=method, **way) for u in (1.0, unit))
        assert (other.converged, other.iterations, other.rank) == (one.converged, one.iterations, one.rank)
        np.testing.assert_allclose([other.gap, other.residual], [one.gap, one.residual], rtol=1e-6)


@pytest.mark.parametrize("method", ["gram", "svd"])
def test_a_singular_value_that_is_the_threshold_is_none(method):
    found, singular = robust_pca.shrink_singular_values(np.diag([2.0, 1.0]), 1.0, method)
    assert (found.tolist(), singular.tolist()) == ([[1.0, 0.0], [0.0, 0.0]], [1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"updates": [[1.0, np.nan]]}, "updates"),
        ({"updates": [[1.0, np.inf]]}, "updates"),
        ({"updates": [1.0, 2.0]}, "one row per parameter"),
        ({"updates": np.empty((0, 3))}, "one row per parameter"),
        ({"updates": np.eye(2), "lam": 0.0}, "lam must be > 0"),
        ({"updates": np.eye(2), "lam": [1.0, 2.0]}, "lam must be one number"),
        ({"updates": np.eye(2), "mu": -1.0}, "mu must be > 0"),
        ({"updates": np.eye(2), "tol": 0.0}, "tol must be > 0"),
        ({"updates": np.eye(2), "max_iter": 0}, "max_iter must be in"),
        ({"updates": np.eye(2), "max_iter": 1.5}, "max_iter must be an integer"),
        ({"updates": np.eye(2), "variant": "fast"}, "variant must be one of"),
        ({"updates": np.eye(2), "method": "fast"}, "method must be one of"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        robust_pca.robust_pca(**arguments)


def test_bad_blocks_are_named():
    with pytest.raises(ValueError, match="block_rows must be in"):
        robust_pca.noise_variances(np.eye(3), block_rows=0)


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6), st.floats(0.0, 1e6), st.floats(0.1, 10.0))
def test_excess_noise_is_the_loss_of_the_weights(variances, alpha2, r):
    variances = np.array(variances)
    direct = loss(precision_weights(r**2 * variances + alpha2), variances) - 1
    value = robust_pca.excess_noise(variances, alpha2, r)
    np.testing.assert_allclose(value, direct, rtol=1e-9, atol=1e-12)
    rho = alpha2 / (r**2 * variances.min())
    assert 0 <= value <= rho**2 / (4 * (1 + rho)) * (1 + 1e-9) + 1e-15


def test_the_tail_of_the_estimate_is_that_of_normal_squares():
    squares = np.random.default_rng(3).normal(size=(20_000, 50)) ** 2
    share = np.mean(np.abs(squares.mean(axis=1) - 1) > 0.3)
    assert abs(share - robust_pca.estimate_tail(50, 0.3)) < 6 * np.sqrt(0.25 / 20_000)
    assert robust_pca.estimate_tail(10, 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("sigma2s", "alpha2", "r", "message"),
    [([], 1.0, 1.0, "sigma2s"), ([1.0, 0.0], 1.0, 1.0, "sigma2s must be > 0"), ([1.0], -1.0, 1.0, "alpha2 must be >= 0"),
     ([1.0], 1.0, 0.0, "r must be > 0")],
)  # fmt: skip
def test_bad_variances_are_named(sigma2s, alpha2, r, message):
    with pytest.raises(ValueError, match=message):
        robust_pca.excess_noise(sigma2s, alpha2, r)


@given(st.integers(1, 300), st.integers(1, 7), st.sampled_from(["published", "dense"]), st.integers(0, 2**32 - 1))
def test_compiled_passes_are_their_numpy_twin(p, n, variant, seed):
    """p goes over the tile of 128 rows and n over the blocks of two and four rows of the kernels."""
    matrix = np.random.default_rng(seed).normal(size=(p, n))
    fused, gram = (robust_pca.robust_pca(matrix, method=m, variant=variant, max_iter=40) for m in ("fused", "gram"))
    for name in ("low_rank", "sparse"):
        np.testing.assert_allclose(getattr(fused, name), getattr(gram, name), atol=1e-10 * np.abs(matrix).max())
    assert (fused.rank, fused.iterations) == (gram.rank, gram.iterations)
    np.testing.assert_allclose([fused.residual, fused.gap], [gram.residual, gram.gap], rtol=1e-6, atol=1e-9)


def test_compiled_passes_step_aside_where_a_gram_matrix_loses_digits():
    low, sparse = low_rank_and_sparse(60, 6, 1, 3, seed=5)
    fused, direct = (robust_pca.robust_pca(low + sparse, mu=1e9, method=m, max_iter=3) for m in ("fused", "svd"))
    np.testing.assert_allclose(fused.low_rank, direct.low_rank, atol=1e-9)


def test_the_number_of_workers_changes_no_bit():
    updates, _ = noisy_updates(4_000, 8, 0.1, seed=9)
    found = [robust_pca.noise_variances(updates, block_rows=700, workers=w) for w in (1, 2, 5, None)]
    assert all(f.variances.tolist() == found[0].variances.tolist() for f in found)
    assert {f.blocks for f in found} == {6}
    with pytest.raises(ValueError, match="workers must be in"):
        robust_pca.noise_variances(updates, workers=0)


@pytest.mark.parametrize(("processors", "threads"), [(3, 3), (64, 6), (None, 1)])
def test_there_are_as_many_threads_as_processors_and_no_more_than_blocks(processors, threads, monkeypatch):
    """Where nobody knows how many processors there are, one thread does all."""
    pools = []

    class Pool(robust_pca.ThreadPoolExecutor):
        def __init__(self, size):
            pools.append(size)
            super().__init__(size)

    monkeypatch.setattr(robust_pca, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(robust_pca.os, "cpu_count", lambda: processors)
    updates, _ = noisy_updates(600, 5, 0.1, seed=9)
    assert robust_pca.noise_variances(updates, block_rows=100).blocks == 6
    assert pools == [threads]


def test_a_client_with_missing_values_is_named():
    with pytest.raises(ValueError, match="column 1 of 3; leave"):
        robust_pca.robust_pca([[1.0, np.nan, 0.0], [1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="updates has entries of different shapes"):
        robust_pca.robust_pca([[1.0, 2.0], [1.0]])


@pytest.mark.parametrize(("missing", "named"), [(10, "8, 9 of 12"), (11, r"8, 9, \.\.\. of 12")])
def test_of_many_clients_with_missing_values_ten_are_named(missing, named):
    updates = np.ones((3, 12))
    updates[1, :missing] = np.nan
    with pytest.raises(ValueError, match=f"column 0, 1, .*, {named}; leave these clients out"):
        robust_pca.robust_pca(updates)


def test_identical_updates_share_the_weight():
    updates = np.outer(np.random.default_rng(6).normal(size=300), np.ones(5))
    assert np.ptp(robust_pca.aggregation_weights(updates)) < 1e-6
