"""Refusals that no other test hears: what is wrong, and the nearest thing that is not.

Belongs here: messages of single conditions, across all rooms.  Does not belong here: conditions joined with "or"
(test_each_clause.py), ends of domains (the tests of the rooms).
"""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from estimators.accounting import dpsgd
from estimators.closed_forms import aggregation, mean_regularized
from estimators.federated.data.federation import Examples, Federation
from estimators.federated.data.partitions import dirichlet, random_classes
from estimators.federated.data.silos import masked
from estimators.federated.models import linear_regression
from estimators.federated.numpy_backend import NumpyBackend
from estimators.federated.predictions import Mixture, evaluate_mixture
from estimators.montecarlo import nets, runner
from estimators.montecarlo.moments import Moments
from estimators.montecarlo.randomisations import merge_replications
from estimators.normal_means.streaming import GaussianTally, PowerSums
from estimators.private import MeanClient
from estimators.private.agreement import Agreement
from estimators.private.reports import MeanReport
from estimators.system.untrusted import read_arrays

SAMPLE = np.arange(6.0).reshape(3, 2)


def images(train, shape=(2, 4, 4)):
    return Federation(np.zeros(shape, np.uint8), [0, 1], train=train, classes=2, top=255)


def test_partitions_by_class_need_classes():
    pool = Examples(np.eye(8), np.arange(8) / 8, name="heights")
    with pytest.raises(ValueError, match="heights has no classes to part by; use iid"):
        dirichlet(pool, clients=2, alpha=1.0, seed=0)
    one = dirichlet(Examples(np.eye(8), np.zeros(8, int), classes=1), clients=2, alpha=100.0, seed=0)
    assert sum(len(client.y) for client in one) == 8


def test_shares_of_classes_lie_between_two_ordered_numbers():
    pool = Examples(np.eye(40), [0, 1, 2, 3] * 10, classes=4)
    for spread in ((2.0, 1.0), 1.0, (1.0, 2.0, 3.0)):
        with pytest.raises(ValueError, match=r"spread must be (two numbers 0 < low <= high|2 entries)"):
            random_classes(pool, clients=4, classes=2, spread=spread, seed=0)
    assert len(random_classes(pool, clients=4, classes=2, spread=(1.0, 1.0), seed=0)) == 4


def test_masks_are_of_images_of_clients_that_share_no_row():
    with pytest.raises(ValueError, match=r"masks need images \(n, side, side\), got rows of \(16,\)"):
        masked(images([[0], [1]], (2, 16)), ratio=1.0, seed=0)
    with pytest.raises(ValueError, match="clients share rows, which cannot be changed for one of them"):
        masked(images([[0, 1], [1]]), ratio=1.0, seed=0)
    assert masked(images([[0], [1]], (2, 4, 4, 1)), ratio=1.0, seed=0).x.min() == 255


def test_a_mixture_is_of_as_many_clients_as_the_data():
    backend, model = NumpyBackend(), linear_regression(1)
    data = backend.prepare(model, [([[1.0]], [1.0])])
    mixture = Mixture([[0.25, 0.75], [0.5, 0.5]], [[0.0, 0.0], [4.0, 0.0]])
    with pytest.raises(ValueError, match="mixture has weights of 2 clients, data are of 1"):
        evaluate_mixture(backend, model, mixture, data)


def test_saved_sums_that_no_numbers_have():
    good = PowerSums.of_content([["a", 2, hex(4), hex(8)]])  # 2 and 2: as small as squares can be
    assert good.rows() == [("a", 2, 4, 8)]
    for bad in ([["a", 2, hex(4), hex(7)]], [["a", 2, hex(4), hex(8)]] * 2):
        with pytest.raises(ValueError, match="impossible sums under 'a'"):
            PowerSums.of_content(bad)
    content = GaussianTally().add([1.0, 2.0], [0.5, 0.5]).content()
    assert GaussianTally.of_content(content).content() == content
    ((_, *sums),) = content["groups"]
    for change in ({"ends": content["ends"][::-1]}, {"groups": [[(0.0).hex(), *sums]]}, {"groups": [["inf", *sums]]}):
        with pytest.raises(ValueError, match="impossible variances or ends"):
            GaussianTally.of_content(content | change)


def test_clients_that_nobody_agreed_sizes_with_claim_a_million_rows_at_most():
    settings = {"bounds": (0.0, 1.0), "eps": 1.0}
    agreement = Agreement(MeanClient, settings)
    report = MeanClient(**settings, name="a").report(np.full(5, 0.5), generator=np.random.default_rng(0))
    assert isinstance(report, MeanReport)
    agreement.check(report)
    with pytest.raises(ValueError, match="n is 1000001, more than the 1000000 that a client may claim by itself"):
        agreement.check(replace(report, n=1_000_001))


def test_parts_of_a_run_are_all_of_it_and_nothing_else():
    whole, half = Moments.of(SAMPLE), Moments.of(SAMPLE[:2])
    for parts in ({}, {1: whole}, {0: whole, 1: half}):
        with pytest.raises(ValueError, match=r"parts must hold the chunks 0 \.\. 0 exactly"):
            runner.merge_chunks(parts, 3)
        with pytest.raises(ValueError, match=r"parts must hold the replications 0 \.\. 2 exactly"):
            merge_replications(parts, 3)
    with pytest.raises(ValueError, match="parts hold 2 replicates, expected reps = 3"):
        runner.merge_chunks({0: half}, 3)


def test_nets_have_as_many_dimensions_as_there_are_direction_numbers():
    assert nets.directions(1).shape == (1, nets.BITS)
    for dimensions in (0, nets.MAX_DIMENSIONS + 1):
        with pytest.raises(ValueError, match="there are no direction numbers for more draws per replicate"):
            nets.directions(dimensions)


def test_weights_that_cancel_and_silos_that_are_exact():
    with pytest.raises(ValueError, match="weights add to zero; give weights with a sum that can be scaled to one"):
        aggregation.read_weighted([1.0, -1.0], [1.0, 1.0], -1)
    found, _ = aggregation.read_weighted([1.0, -0.5], [1.0, 1.0], -1)
    assert found.tolist() == [2.0, -1.0]
    with pytest.raises(ValueError, match="another silo is exact and tau2 is 0"):
        mean_regularized.averaging_loss(0, [2.0, 0.0, 1.0], tau2=0.0)
    for sigma2, tau2 in (([0.0, 2.0, 1.0], 0.0), ([2.0, 0.0, 1.0], 1e-3)):
        assert np.isfinite(mean_regularized.averaging_loss(0, sigma2, tau2=tau2))


def test_contractions_that_diverge():
    ways = {"K": 2, "N": 8, "b": 2, "eta": 0.1, "c": 1.0, "z": 1.0, "p": 3, "path": "curved"}
    for good in (0.0, 0.5, np.nextafter(2.0, 0.0)):
        assert np.isfinite(dpsgd.model_update_variance(**ways, contraction=good))
    for bad in (-5e-324, 2.0):
        with pytest.raises(ValueError, match=r"contraction must lie in \[0, 2\)"):
            dpsgd.model_update_variance(**ways, contraction=bad)


def test_an_archive_has_one_array_of_a_name():
    stream = io.BytesIO()
    np.savez(stream, y=np.arange(3))
    once = stream.getvalue()
    assert read_arrays(once, what="a.npz")["y"].tolist() == [0, 1, 2]
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("y.npy", zipfile.ZipFile(io.BytesIO(once)).read("y.npy"))
    with pytest.raises(ValueError, match=r"a\.npz holds two arrays of one name"):
        read_arrays(stream.getvalue(), what="a.npz")
