"""Doubt at its limits: how many reports may lie at a distance and how many may not, by quantiles and binomial limits."""

import warnings

import numpy as np
import pytest
from scipy import stats

from estimators.accounting import Guarantee
from estimators.private import Heard, MeanReport, Rejection, doubt
from estimators.private.outlying import FALSE_ALARM, Noise, limits, pull

PROMISE = Guarantee(1.0, 1e-6, "row", "client", "gaussian")
NOISE, ROUNDING, N = 0.5, 0.14, 4


def reports(values, promise=PROMISE, noise=NOISE):
    made = [MeanReport(f"c{i}", N, promise, float(v), noise, ROUNDING, (-1e4, 1e4)) for i, v in enumerate(values)]
    return Heard(made, [3 * i for i in range(len(made))], [Rejection(1, "x", "why")])


def at_distance(m, k, distance, centre=7.0):
    """Nearly all at the centre, so that no spread is found, and k at a distance, half of them on either side."""
    values = np.full(m, centre)
    values[:k] += np.where(np.arange(k) % 2, distance, -distance)
    return values


@pytest.mark.parametrize("m", [40, 300])
@pytest.mark.parametrize("sigma2", [None, 1.44])
def test_at_each_level_as_many_are_taken_as_chance_may_put_there(m, sigma2):
    sd = np.sqrt(NOISE + ROUNDING + (sigma2 or 0.0) / N)
    levels, most = limits(m)
    for j in (2, 5, len(levels) - 1):
        limit = int(most[j])
        assert stats.binom.sf(limit, m, levels[j]) <= FALSE_ALARM / levels.size < stats.binom.sf(limit - 1, m, levels[j])
        further = float(stats.norm.isf(levels[j] / 2)) * sd * (1 + 1e-9)
        for k, taken in ((limit, True), (limit + 1, False)):
            if k == 0:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                heard = doubt(reports(at_distance(m, k, further)), hostile=0.1, sigma2=sigma2)
            assert len(heard.rejected) == 1 + (0 if taken else k)
            assert len(heard.reports) == m - (0 if taken else k)
        if j and most[j - 1] > most[j]:  # a little nearer the next level counts, which bears one more
            nearer = float(stats.norm.isf(levels[j] / 2)) * sd * (1 - 1e-6)
            assert len(doubt(reports(at_distance(m, limit + 1, nearer)), hostile=0.49, sigma2=sigma2).rejected) == 1


def test_rejections_say_who_how_far_and_how_unlikely():
    with pytest.warns(UserWarning, match=r"2 of 40 reports are rejected, more than the share 0\.04 that may lie"):
        heard = doubt(reports(at_distance(40, 2, 9.0)), hostile=0.04)
    assert [(each.place, each.client) for each in heard.rejected] == [(0, "c0"), (1, "x"), (3, "c1")]
    chance = 2 * stats.norm.sf(9 / np.sqrt(NOISE + ROUNDING))
    assert heard.rejected[0].why == (
        f"estimate lies 9 from the centre 7 of all, where an honest client is with a probability of {chance:.2g}; "
        "so far out there are 2 of 40"
    )
    assert heard.places == [3 * i for i in range(2, 40)]
    assert [each.client for each in heard.reports] == [f"c{i}" for i in range(2, 40)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as many as may lie are no surprise
        doubt(reports(at_distance(40, 2, 9.0)), hostile=0.05)


def test_the_farthest_are_taken_off_before_the_others_are_counted():
    """Three very far out are rejected alone; with them counted again, the nearer ones would have been too many."""
    m, sd = 200, np.sqrt(NOISE + ROUNDING)
    levels, most = limits(m)
    j = 3
    near = float(stats.norm.isf(levels[j] / 2)) * sd * (1 + 1e-9)
    k = int(most[j])
    values = at_distance(m, k + 3, near)
    values[:3] = 7.0 + 50.0
    heard = doubt(reports(values), hostile=0.1)
    assert [each.client for each in heard.rejected] == ["c0", "x", "c1", "c2"]
    assert "so far out there are 3 of 200" in heard.rejected[0].why
    values[3 + k] = 7.0 + near
    assert len(doubt(reports(values), hostile=0.2).rejected) == 1 + 3 + k + 1


def test_influence_is_the_pull_of_the_stated_share():
    m = 45
    levels, most = limits(m)
    variances = np.full(m, NOISE + ROUNDING)
    noise = Noise(np.zeros(m), np.empty(0, int), None)
    for hostile, liars in ((0.0, 0), (0.1, 4), (0.49, 22)):
        found = doubt(reports(np.full(m, 7.0)), hostile=hostile).influence
        assert found == pytest.approx(pull(liars, variances, noise, levels, most), rel=1e-12)
    laplace = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")
    found = doubt(reports(np.full(m, 7.0), laplace), hostile=0.1).influence
    noise = Noise(np.full(m, np.sqrt(NOISE / 2)), np.empty(0, int), None)
    assert found == pytest.approx(pull(4, np.full(m, ROUNDING), noise, levels, most), rel=1e-12)
    assert reports([1.0]).influence is None


def test_laplace_noise_may_lie_farther_out():
    """Laplace noise alone at 8 deviations has the chance of exp(-11), which normal noise has at 4.4."""
    m, scale = 40, np.sqrt(NOISE / 2)
    laplace = Guarantee(1.0, 0.0, "row", "client", "discrete-laplace")

    def heard(distance, promise):
        made = [MeanReport(f"c{i}", N, promise, float(v), NOISE, 0.0, (-1e4, 1e4))
                for i, v in enumerate(at_distance(m, 1, distance))]  # fmt: skip
        return doubt(Heard(made, list(range(m)), []), hostile=0.1)

    levels, most = limits(m)
    last = float(levels[most == 0].max())  # from here on one is too many
    for promise, ends in ((laplace, -np.log(last) * scale), (PROMISE, stats.norm.isf(last / 2) * np.sqrt(NOISE))):
        assert heard(ends * (1 - 1e-6), promise).rejected == []
        assert len(heard(ends * (1 + 1e-6), promise).rejected) == 1


def test_doubt_takes_ten_clients_and_a_minority_of_liars():
    doubt(reports(np.full(10, 7.0)), hostile=0.4999)
    with pytest.raises(ValueError, match="at least 10 clients, got 9 reports"):
        doubt(reports(np.full(9, 7.0)), hostile=0.1)
    with pytest.raises(ValueError, match=r"hostile must be below 0\.5, got 0\.5"):
        doubt(reports(np.full(10, 7.0)), hostile=0.5)
    two_point = Guarantee(1.0, 0.0, "client", "client", "two-point")
    mixed = reports(np.full(10, 7.0))
    mixed.reports[0] = MeanReport("c0", N, two_point, 7.0, NOISE, ROUNDING, (-1e4, 1e4))
    with pytest.raises(ValueError, match="or only finite-output and two-point, got two-point"):
        doubt(mixed, hostile=0.1)
    none = Guarantee(np.inf, 0.0, "row", "client", "none")
    assert doubt(reports(np.full(10, 7.0), none, 0.0), hostile=0.1).rejected == [Rejection(1, "x", "why")]
