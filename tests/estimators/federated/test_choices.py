"""Choices of privacy and generated clients at the ends of what they take."""

from types import SimpleNamespace

import numpy as np
import pytest

from estimators.federated import data
from estimators.federated.data import choices, synthetic_federation
from estimators.federated.data.federation import Federation

BILLION = 10**9


def test_levels_of_one_client_and_of_one_level():
    assert data.eps_levels(1, [(1.0, 2.0)], seed=0).tolist() == [2.0]
    assert data.eps_levels(91, [(1.0, 2.0)], seed=0).tolist() == [2.0] * 91
    for clients in (0, BILLION + 1):
        with pytest.raises(ValueError, match=r"clients must be in 1\.\.1000000000"):
            data.eps_levels(clients, [(0.5, 2.0)], seed=0)
    for levels in ([(0.5, 2.0)], [(0.5, 1.0), (0.6, 2.0)], []):
        with pytest.raises(ValueError, match="shares of levels must"):
            data.eps_levels(2, levels, seed=0)
    for eps in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="eps must be > 0"):
            data.eps_levels(2, [(0.5, 1.0), (0.5, eps)], seed=0)


def test_one_in_twenty_opts_out_unless_it_is_said_how_many():
    pool = Federation(np.zeros((40, 1)), np.zeros(40), [[k] for k in range(40)])
    assert data.opt_out(pool, seed=0).sum() == 2
    assert data.opt_out(pool, others=True, seed=0).sum() == 38


def test_published_lists_begin_with_their_first_client():
    assert len(data.robusthdp_batch_sizes()) == len(data.robusthdp_eps("Dist1")) == 20
    assert data.robusthdp_batch_sizes(clients=1).tolist() == [32]
    assert data.robusthdp_eps("Dist6", clients=1).tolist() == [0.5]
    assert len(data.robusthdp_batch_sizes(clients=60)) == len(data.robusthdp_eps("Dist6", clients=60)) == 60
    for clients in (0, 61):
        with pytest.raises(ValueError, match=r"clients must be in 1\.\.60"):
            data.robusthdp_batch_sizes(clients=clients)


def test_a_pass_may_be_a_billion_batches():
    one = Federation(np.zeros((200, 1)), np.zeros(200), [range(200)])
    assert [int(data.share_batch_sizes(one, number=k)[0]) for k in (1, 91, BILLION)] == [200, 2, 1]
    two = Federation(np.zeros((179, 1)), np.zeros(179), [range(90), range(90, 179)])
    assert data.share_batch_sizes(two).tolist() == [2, 1]  # 60 of them: 1.5 and a bit less
    for number in (0, BILLION + 1):
        with pytest.raises(ValueError, match=r"number must be in 1\.\.1000000000"):
            data.share_batch_sizes(one, number=number)


def test_drawn_eps_at_the_ends_of_chance(monkeypatch):
    """Ten tenths add up to less than the largest number below 1; a component that is none has no draws."""
    last = SimpleNamespace(random=lambda n: np.full(n, 1 - 2.0**-53), uniform=lambda a, b, n: np.full(n, b))
    assert np.cumsum([0.1] * 10)[-1] <= 1 - 2.0**-53
    monkeypatch.setattr(choices, "generator", lambda *_: last)
    tenths = [(0.1, "uniform", 0.5, 1.0 + k) for k in range(10)]
    assert data.draw_eps(91, tenths, seed=0).tolist() == [10.0] * 91
    assert data.draw_eps(1, [(1.0, "uniform", 0.01, 0.02)], seed=0).tolist() == [0.1]
    for clients in (0, BILLION + 1):
        with pytest.raises(ValueError, match=r"clients must be in 1\.\.1000000000"):
            data.draw_eps(clients, [], seed=0)
    for low, high in ((0.5, 0.5), (0.6, 0.5)):
        with pytest.raises(ValueError, match=f"need low < high, got {low} and {high}"):
            data.draw_eps(2, [(1.0, "uniform", low, high)], seed=0)
    for weights in ([0.5], [0.5, 0.6], []):
        with pytest.raises(ValueError, match="weights of components must"):
            data.draw_eps(2, [(weight, "uniform", 0.5, 1.0) for weight in weights], seed=0)


def test_generated_clients_may_be_a_billion_with_a_billion_rows_of_a_million_classes():
    for name, last in (("clients", BILLION), ("rows", BILLION), ("features", BILLION), ("classes", 10**6)):
        with pytest.raises(ValueError, match=f"{name} must be in [12]..{last}, got {last + 1}"):
            synthetic_federation(**({"tau2": -1.0} | {name: last + 1}))
        with pytest.raises(ValueError, match="tau2 must be"):  # which is looked at later
            synthetic_federation(**({"tau2": -1.0} | {name: last}))
    two = synthetic_federation("mixture", clients=1, rows=1, features=1, classes=2, test_fraction=0.0)
    assert (two.classes, two.x.shape) == (2, (1, 1))
    for name, number in (("clients", 0), ("rows", 0), ("features", 0), ("classes", 1), ("groups", 0), ("groups", 101)):
        with pytest.raises(ValueError, match=f"{name} must be in"):
            synthetic_federation(**{name: number})


def test_two_groups_have_two_centres():
    found = synthetic_federation("linear", clients=8, groups=2, tau2=0.0, apart2=9.0)
    assert np.bincount(found.group).tolist() == [4, 4]
    assert len(np.unique(found.truth["theta"], axis=0)) == 2
    for group in range(2):
        assert np.ptp(found.truth["theta"][found.group == group], axis=0).max() == 0
    assert len(np.unique(synthetic_federation("linear", clients=8, tau2=0.0).truth["theta"], axis=0)) == 1


def test_each_deviation_is_added_in_its_own_scale(monkeypatch):
    """Where all normal numbers are 1, everything is a sum of standard deviations: 1 + 4 of the centre, 2 of the client."""
    ones = SimpleNamespace(
        standard_normal=np.ones, permutation=np.asarray, random=np.zeros, integers=lambda top, size: np.zeros(size, int)
    )
    monkeypatch.setattr("estimators.federated.data.generated.generator", lambda *_: ones)
    how = {"clients": 4, "rows": 2, "features": 3, "groups": 2, "apart2": 16.0, "tau2": 4.0, "shift2": 9.0, "sigma2": 25.0}
    line = synthetic_federation("linear", **how)
    assert (line.truth["theta"] == 7).all()
    assert (line.x == 3 + 1).all()
    assert (line.y == 3 * 4 * 7 + 5).all()
    assert (synthetic_federation("mixture", **how).x == 7 + 3 + 5).all()
