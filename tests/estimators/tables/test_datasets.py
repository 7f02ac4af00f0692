"""Shipped data say what their sources print."""

import csv

import numpy as np

from estimators.counts.beta_binomial import BetaBinomial
from estimators.tables.datasets import surgical_mortality


def test_surgical_mortality_is_what_the_examples_of_openbugs_list():
    data = surgical_mortality()
    assert data.clients == tuple("ABCDEFGHIJKL")
    assert data.operations.tolist() == [47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360]
    assert data.deaths.tolist() == [0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24]
    assert np.issubdtype(data.deaths.dtype, np.integer)


def test_surgical_mortality_agrees_with_another_copy(shared_data):
    with open(shared_data("efron_eb/surgical-mortality.csv"), newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    data = surgical_mortality()
    assert data.deaths.tolist() == [int(row["y"]) for row in rows]
    assert data.operations.tolist() == [int(row["K"]) for row in rows]


def test_a_hospital_without_a_death_is_not_without_risk():
    data = surgical_mortality()
    model = BetaBinomial().fit(data.deaths, data.operations)
    raw = data.deaths / data.operations
    assert raw[0] == 0
    assert 0.03 < model.posterior_mean_[0] < data.deaths.sum() / data.operations.sum()
    # Everyone is pulled to the middle, and the fewer the operations the more.
    middle = model.mean_
    assert np.all(abs(model.posterior_mean_ - middle) < abs(raw - middle))
    order = np.argsort(data.operations, kind="stable")
    assert np.all(np.diff(model.weights_[order]) >= 0)
