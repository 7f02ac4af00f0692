"""Tallies: exact whatever the batches, equal to the one-shot fit, and damaged states are refused."""

import json
import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimators import GaussianMeans
from estimators.closed_forms.gaussian import from_samples
from estimators.normal_means.streaming import GaussianTally, RowTally, SampleTally
from estimators.normal_means.streaming_passes import fit_passes
from estimators.numerics import exact_kernels as kernels
from estimators.numerics import tally_state
from estimators.numerics.exact import UNIT, exact_sum, group_by, mean_and_scatter, power_sums

doubles = st.floats(allow_nan=False, allow_infinity=False)
PRIORS = ("marginal-likelihood", "reml", "moments")


def clients(m=3000, seed=0, centre=5.0):
    rng = np.random.default_rng(seed)
    variances = 2.0 / rng.integers(1, 30, m)
    return centre + rng.normal(0, np.sqrt(0.4 + variances)), variances


# --- exact sums, against Python's fractions ---------------------------------------------------------------------------


@given(st.lists(st.tuples(doubles, st.integers(0, 3)), max_size=40))
def test_power_sums_are_the_fractions(rows):
    values, group = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], int)
    counts, sums, squares = power_sums(values, group, 4)
    for g in range(4):
        exact = [Fraction(v) for v in values[group == g].tolist()]
        assert counts[g] == len(exact)
        assert Fraction(sums[g], UNIT) == sum(exact)
        assert Fraction(squares[g], UNIT**2) == sum(v * v for v in exact)
        if exact:
            mean, scatter = mean_and_scatter(counts[g], sums[g], squares[g])
            centre = sum(exact) / len(exact)
            assert mean == float(centre)
            assert scatter == as_float(sum((v - centre) ** 2 for v in exact))


def as_float(fraction):
    try:
        return float(fraction)
    except OverflowError:
        return np.inf


@given(st.lists(doubles, max_size=40))
def test_exact_sum_is_the_fraction(values):
    assert Fraction(exact_sum(values), UNIT) == sum(map(Fraction, values))


def test_many_groups_and_the_extremes():
    values = np.array([5e-324, -5e-324, sys.float_info.max, sys.float_info.max, sys.float_info.min, 0.0, -0.0, 1.0])
    group = np.array([0, 1, 2, 2, 1500, 7, 7, 1999])
    counts, sums, squares = power_sums(values, group, 2000)
    assert len(counts) == len(sums) == len(squares) == 2000
    assert sums[0] == 1
    assert sums[1] == -1
    assert squares[2] == 2 * int(sys.float_info.max) ** 2 * UNIT**2
    assert sums[1999] == UNIT


def test_slices_of_a_long_batch_add_up(monkeypatch):
    values, group = np.random.default_rng(1).standard_normal(100), np.arange(100) % 3
    whole = power_sums(values, group, 3), exact_sum(values)
    monkeypatch.setattr(kernels, "MOST", 7)
    assert (power_sums(values, group, 3), exact_sum(values)) == whole


# --- the same bits for any batches -----------------------------------------------------------------------------------


def test_any_batches_and_any_tree_of_merges_give_the_same_fit():
    y, v = clients()
    once = GaussianTally.of(y, v)
    rng = np.random.default_rng(2)
    for cuts in (1, 5, 60):
        order = rng.permutation(y.size)
        parts = np.array_split(order, np.sort(rng.integers(0, y.size, cuts)))
        with ThreadPoolExecutor(4) as pool:
            tallies = list(pool.map(lambda part: GaussianTally.of(y[part], v[part]), parts))
        assert len(tallies) == cuts + 1
        left = reduce(add, tallies)
        while len(tallies) > 1:  # a random binary tree
            a, b = (tallies.pop(rng.integers(len(tallies))) for _ in range(2))
            tallies.append(a + b)
        fed = GaussianTally()
        for part in parts:
            fed.add(y[part], v[part])
        for tally in (left, tallies[0], fed):
            assert tally == once
            assert tally.to_dict() == once.to_dict()
            for prior in PRIORS:
                assert tally.fit(prior) == once.fit(prior)


def test_passes_give_the_same_bits_for_any_batches():
    y, v = clients(500)
    v = v * np.random.default_rng(3).uniform(0.5, 2, v.size)

    def fit(parts, **options):
        return fit_passes(lambda: ((y[part], v[part]) for part in parts), **options)

    order = np.random.default_rng(4).permutation(y.size)
    for prior in PRIORS:
        once = fit([slice(None)], prior=prior)
        assert once == fit(np.array_split(order, 9), prior=prior)
        assert once == fit([slice(300, None), slice(0, 300)], prior=prior)
        assert once.converged


# --- equal to the fit of clients in memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [*PRIORS, "fixed"])
@pytest.mark.parametrize("mu", [None, 4.5])
@pytest.mark.parametrize("centre", [0.0, 1e5])
def test_equal_to_the_one_shot_fit(prior, mu, centre):
    y, v = clients(2000, centre=centre)
    mu = None if mu is None else mu + centre
    options = {"prior": prior, "mu": mu, "tau2": 0.3 if prior == "fixed" else None}
    model = GaussianMeans(**options).fit(y, v)
    for fit in (GaussianTally.of(y, v).fit(**options), fit_passes(lambda: iter([(y, v)]), **options)):
        assert fit.n_clients == y.size
        assert fit.tau2 == pytest.approx(model.tau2_, rel=1e-10 if centre or mu else 1e-12)
        assert fit.mu == pytest.approx(model.mu_, rel=1e-12, abs=1e-13)
        assert fit.mu_sd == pytest.approx(model.mu_sd_, rel=1e-12)
        assert fit.log_likelihood == pytest.approx(model.log_likelihood_, rel=1e-12)
        mean, sd = fit.posterior(y[:50], v[:50])
        np.testing.assert_allclose(mean, model.posterior_mean_[:50], rtol=1e-11)
        np.testing.assert_allclose(sd, model.posterior_sd_[:50], rtol=1e-11)
        halves = list(fit.posteriors([(y[:20], v[:20]), (y[20:50], v[20:50])]))
        np.testing.assert_array_equal(np.concatenate([half[0] for half in halves]), mean)


def test_limits():
    same = GaussianTally.of([1.0, 3.0], [2.0, 2.0])
    assert same.fit().tau2 == 0.0  # 1 - 2 < 0
    assert same.fit("reml").tau2 == 0.0
    assert GaussianTally.of([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]).fit().tau2 == 0.0  # all values equal
    far = GaussianTally.of([0.0, 10.0], [1.0, 1.0])
    assert far.fit().tau2 == pytest.approx(24.0)
    assert far.fit("reml").tau2 == pytest.approx(49.0)
    wide = GaussianTally.of([1e9, -1e9, 3e8], [1e-6, 1.0, 1e3])
    reference = GaussianMeans("marginal-likelihood").fit([1e9, -1e9, 3e8], [1e-6, 1.0, 1e3])
    assert wide.fit().tau2 == pytest.approx(reference.tau2_, rel=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_clients_far_from_a_centre_that_is_given(side):
    """Some of them lie at the centre, and those that do not are all on one side of it."""
    y, v = side * np.array([-10.0, 10.0, -8.0, 10.0, 9.9]), np.array([0.01, 0.02, 0.01, 0.02, 0.03])
    found, model = GaussianTally.of(y, v).fit(mu=10.0 * side), GaussianMeans("marginal-likelihood", mu=10.0 * side).fit(y, v)
    assert found.tau2 == pytest.approx(model.tau2_, rel=1e-9)
    assert found.tau2 > 100


def test_priors_have_no_unit():
    y, v = clients(50)
    for prior in PRIORS:
        one = GaussianTally.of(y, v).fit(prior)
        for unit in (2.0**-40, 2.0**40):
            other = GaussianTally.of(unit * y, unit**2 * v).fit(prior)
            assert (other.mu / unit, other.tau2 / unit**2) == pytest.approx((one.mu, one.tau2), rel=1e-11)


def test_clients_who_differ_just_as_much_as_their_noise_have_no_spread():
    assert GaussianTally.of([1.0, 2.0], [1.0, 4.0]).fit(mu=0.0).tau2 == 0.0


def test_every_pass_is_counted_but_the_first():
    y, v = clients(60)
    v = v * np.linspace(0.5, 2, v.size)
    for options in ({"prior": "fixed", "tau2": 1.0}, *({"prior": prior} for prior in PRIORS)):
        calls = []
        found = fit_passes(lambda calls=calls: (calls.append(1), iter([(y, v)]))[1], **options)
        assert found.converged is True
        assert found.n_iter == len(calls) - 1
        assert (found.n_iter == 1) == (options["prior"] == "fixed")
    assert GaussianTally.of([0.0, 10.0], [1.0, 1.0]).fit().converged is True  # a closed form


def log_likelihood(y, v, tau2, mu, restricted):
    p = 1 / (v + tau2)
    at = (p * y).sum() / p.sum() if mu is None else mu
    return 0.5 * (np.log(p).sum() - (p * (y - at) ** 2).sum() - (np.log(p.sum()) if restricted else 0.0))


@pytest.mark.parametrize(
    ("imprecise", "prior", "mu", "spread"),
    [(10, "marginal-likelihood", None, False), (10, "reml", None, True), (10, "reml", 0.0, False),
     (20, "marginal-likelihood", None, True), (20, "reml", 0.0, True), (4, "reml", None, False)],
)  # fmt: skip
def test_of_two_maxima_the_higher_is_found(imprecise, prior, mu, spread):
    """Two precise clients agree, as many imprecise ones as make up for it differ: at 0 and near 3, by brute force."""
    y = np.concatenate([[0.0, 0.01], np.tile([-2.0, 2.0], imprecise // 2)])
    v = np.concatenate([[1e-4, 1.1e-4], np.ones(imprecise)])
    places = np.concatenate([[0.0], np.geomspace(1e-6, 30, 4000)])
    heights = [log_likelihood(y, v, tau2, mu, prior == "reml" and mu is None) for tau2 in places]
    best = places[np.argmax(heights)]
    assert (best > 1) == spread
    assert GaussianTally.of(y, v).fit(prior, mu=mu).tau2 == pytest.approx(best, rel=1e-2, abs=1e-12)


@pytest.mark.parametrize("excess", [0.01, 0.3, 0.9])
def test_the_moment_condition_holds_though_no_spread_were_likelier(excess):
    y, v = np.array([-1.0, 1.0, 0.2, -0.3, 0.1]), np.array([0.5, 0.7, 1.0, 2.0, 0.1])

    def condition(y, tau2):
        p = 1 / (v + tau2)
        return (p * (y - (p * y).sum() / p.sum()) ** 2).sum()

    y *= np.sqrt((4 + excess) / condition(y, 0.0))
    found = GaussianTally.of(y, v).fit("moments").tau2
    assert found > 0
    assert condition(y, found) == pytest.approx(4, rel=1e-12)


def test_two_maxima_are_compared():
    y, v = [-3.0, 3.0, 0.0, 0.0, 0.0, 0.0], [1e-4, 1e-4, 40.0, 40.0, 40.0, 40.0]
    for prior in PRIORS:
        assert GaussianTally.of(y, v).fit(prior).tau2 == pytest.approx(GaussianMeans(prior).fit(y, v).tau2_, rel=1e-9)


# --- raw rows --------------------------------------------------------------------------------------------------------


def test_rows_in_any_pieces_give_the_fit_of_the_samples():
    rng = np.random.default_rng(6)
    samples = {f"c{i:03}": rng.normal(rng.normal(3, 1), 1.5, rng.integers(1, 9)) for i in range(150)}
    names = np.repeat(list(samples), [s.size for s in samples.values()])
    values = np.concatenate(list(samples.values()))
    once = RowTally.of(names, values)
    order = rng.permutation(values.size)
    pieces = [RowTally.of(names[part], values[part]) for part in np.array_split(order, 7)]
    assert reduce(add, pieces) == once
    found, counts, means, scatters = once.clients()
    assert found == sorted(samples)
    estimates, variances = from_samples(list(samples.values()))
    np.testing.assert_allclose(means, estimates, rtol=1e-14)
    tally = once.samples()
    halves = SampleTally.of(counts[:70], means[:70], scatters[:70]) + SampleTally.of(counts[70:], means[70:], scatters[70:])
    assert halves == tally
    model, prior = GaussianMeans("reml").fit(estimates, variances), halves.gaussian().fit("reml")
    assert tally.pooled_variance() == pytest.approx(variances[0] * samples["c000"].size, rel=1e-13)
    assert prior.tau2 == pytest.approx(model.tau2_, rel=1e-11)
    assert prior.mu == pytest.approx(model.mu_, rel=1e-13)


# --- states ----------------------------------------------------------------------------------------------------------

TALLIES = [
    GaussianTally.of([1.0, 2.0, -3e-310], [1.0, 0.25, 1.0]),
    SampleTally.of([2, 1], [2.0, 5.0], [2.0, 0.0]),
    SampleTally.of([1, 1], [1.0, 2.0], [0.0, 0.0]),
    RowTally.of(["a", "é,b"], [1.0, -5e300]),
    GaussianTally.of([3.0], 0.5),
    GaussianTally(),
]


@pytest.mark.parametrize("tally", TALLIES, ids=repr)
def test_states_round_trip(tally, tmp_path):
    kind = type(tally)
    assert pickle.loads(pickle.dumps(tally)) == tally
    assert kind.from_dict(json.loads(json.dumps(tally.to_dict()))) == tally
    tally_state.save(tally, tmp_path / "state.json")
    again = tally_state.load(kind, tmp_path / "state.json")
    assert again == tally
    assert again + kind() == tally
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_damaged_states_are_refused(tmp_path):
    tally = GaussianTally.of([1.0, 2.0], [1.0, 0.25])
    path = tmp_path / "state.json"
    tally_state.save(tally, path)
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(ValueError, match=r"state\.json is cut off or no JSON"):
        tally_state.load(GaussianTally, path)
    path.write_text(text.replace('"0x1.0000000000000p-2", 1', '"0x1.0000000000000p-2", 2'))
    with pytest.raises(ValueError, match=r"state\.json: .*is damaged"):
        tally_state.load(GaussianTally, path)
    path.write_text(text)
    with pytest.raises(ValueError, match="this is a saved GaussianTally, not a RowTally"):
        tally_state.load(RowTally, path)
    with pytest.raises(ValueError, match="this is no saved GaussianTally"):
        GaussianTally.from_dict({"content": {}})
    with pytest.raises(ValueError, match="this is no saved GaussianTally"):
        GaussianTally.from_dict(None)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["groups"][0].__setitem__(1, 0),
        lambda c: c["groups"][0].__setitem__(1, "two"),
        lambda c: c["groups"][0].__setitem__(3, "0x1"),
        lambda c: c["groups"][0].__setitem__(0, "-0x1p0"),
        lambda c: c["groups"][0].__setitem__(0, "0x0p0"),
        lambda c: c["groups"][0].__setitem__(0, "inf"),
        lambda c: c["groups"][0].__setitem__(1, 2**63 + 1),
        lambda c: c["groups"].append(c["groups"][0]),
        lambda c: c.__setitem__("ends", []),
        lambda c: c.pop("groups"),
        lambda c: c.__setitem__("max_variances", 1),
    ],
)
def test_impossible_content_is_refused_even_with_a_valid_checksum(change):
    content = GaussianTally.of([1.0, 2.0], [1.0, 0.25]).content()
    change(content)
    with pytest.raises(ValueError, match="makes no sense"):
        GaussianTally.from_dict(tally_state.seal("GaussianTally", content))


@pytest.mark.parametrize("change", [{"scatter": "-0x1"}, {"freedom": 2}, {"freedom": -1}, {"freedom": 2**63 + 1}], ids=str)
def test_samples_that_cannot_be_are_refused(change):
    content = SampleTally.of([2, 1], [2.0, 5.0], [2.0, 0.0]).content()
    assert SampleTally.from_dict(tally_state.seal("SampleTally", content)).freedom == 1
    with pytest.raises(ValueError, match="makes no sense"):
        SampleTally.from_dict(tally_state.seal("SampleTally", content | change))


def test_as_many_clients_as_can_be_counted():
    most = 2**63
    content = {"max_variances": 1, "ends": ["0x0.0p+0"] * 2, "groups": [["0x1.0p+0", most, "0x0", "0x0"]]}
    assert GaussianTally.from_dict(tally_state.seal("GaussianTally", content)).n_clients == most
    content["groups"][0][0] = "0x1.0p+1"  # clients of two rows each, so that there are as many degrees of freedom
    samples = {"means": content, "scatter": "0x0", "freedom": most}
    assert SampleTally.from_dict(tally_state.seal("SampleTally", samples)).freedom == most
    content["groups"][0][0] = "0x1.8p+1"  # of three rows, which is more than can be counted
    with pytest.raises(ValueError, match="makes no sense"):
        SampleTally.from_dict(tally_state.seal("SampleTally", {"means": content, "scatter": "0x0", "freedom": 2 * most}))


def test_an_interrupted_save_leaves_the_old_state(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    tally_state.save(TALLIES[0], path)

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(KeyboardInterrupt):
        tally_state.save(TALLIES[3], path)
    assert tally_state.load(GaussianTally, path) == TALLIES[0]
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "v", "message"),
    [
        ([1.0, np.nan], [1.0, 1.0], "estimates holds NaN"),
        ([1.0, np.inf], [1.0, 1.0], "estimates must be finite"),
        ([1.0, 2.0], [1.0, 0.0], "variances must be > 0"),
        ([1.0, 2.0], [1.0, np.inf], "variances must be finite"),
        ([1.0, 2.0], [1.0], "variances must be one number or match"),
        ([[1.0, 2.0]], [[1.0, 1.0]], "estimates must be 1-d"),
        (["x"], [1.0], "estimates[0] must be a number"),
    ],
)
def test_a_bad_batch_is_refused_and_changes_nothing(y, v, message):
    tally = GaussianTally.of([1.0], [1.0])
    before = tally.to_dict()
    with pytest.raises(ValueError, match=re.escape(message)):
        tally.add(y, v)
    assert tally.to_dict() == before
    with pytest.raises(ValueError, match=re.escape(message)):
        fit_passes(lambda: iter([(y, v)]))


def test_too_many_variances_are_refused_with_advice():
    tally = GaussianTally(max_variances=3).add([1.0, 2.0], [1.0, 2.0])
    before = tally.to_dict()
    with pytest.raises(ValueError, match=r"more than max_variances=3 distinct values; round them"):
        tally.add([1.0, 2.0], [3.0, 4.0])
    assert tally.to_dict() == before
    with pytest.raises(ValueError, match="max_variances=3"):
        tally.add(np.ones(9), np.arange(1.0, 10.0))
    with pytest.raises(ValueError, match="max_variances=3"):
        _ = tally + GaussianTally(2).add([0.0, 0.0], [8.0, 9.0])


def test_tallies_hold_as_many_distinct_values_as_they_say():
    for kind, name in ((GaussianTally, "max_variances"), (SampleTally, "max_counts")):
        assert [getattr(kind(*most), name) for most in ((), (1,), (2**31,))] == [4096, 1, 2**31]
        for wrong in (0, 2**31 + 1):
            with pytest.raises(ValueError, match=f"{name} must be in"):
                kind(wrong)
        assert [getattr(kind(a) + kind(b), name) for a, b in ((2, 3), (3, 2))] == [3, 3]
    one, two = GaussianTally(1).add([1.0], 2.0), GaussianTally(2).add([1.0, 2.0, 3.0], [2.0, 1.0, 2.0])
    assert (one.n_clients, two.n_clients, (one + two).n_clients) == (1, 3, 4)
    with pytest.raises(ValueError, match="max_variances=1 distinct"):
        one.add([1.0], 3.0)
    full = SampleTally.of(np.arange(4096) + 1, np.zeros(4096), np.zeros(4096))
    assert full.n_clients == 4096
    with pytest.raises(ValueError, match="max_variances=4096 distinct"):
        full.add([5000], [0.0], [0.0])
    assert full.gaussian(2.0).n_clients == 4096
    assert list(SampleTally.of([2, 1], [2.0, 5.0], [2.0, 0.0]).gaussian(0.5).sums.groups) == [0.5, 0.25]
    rows = RowTally.of(["a", "a", "b"], [1.0, 2.0, 5.0])
    assert [rows.samples(*most).max_counts for most in ((), (2,))] == [4096, 2]


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="the tally holds 0 clients"):
        GaussianTally().fit()
    with pytest.raises(ValueError, match="the tally holds 1 clients; add at least two"):
        GaussianTally.of([1.0], [1.0]).fit()
    assert GaussianTally.of([1.0], [1.0]).fit("fixed", tau2=1.0).mu == 1.0
    with pytest.raises(ValueError, match="tau2 must be given"):
        GaussianTally.of([1.0, 2.0], 1.0).fit("fixed")
    with pytest.raises(ValueError, match="squares overflow; change their units"):
        GaussianTally.of([1e200, 2.0], 1.0).fit()
    with pytest.raises(ValueError, match="squares overflow"):
        GaussianTally.of([1.0, 2.0], 1e-200).fit()
    with pytest.raises(ValueError, match="all clients have one observation"):
        SampleTally.of([1, 1], [1.0, 2.0], [0.0, 0.0]).gaussian()
    with pytest.raises(ValueError, match="the variance within clients must be > 0"):
        SampleTally.of([2, 2], [1.0, 2.0], [0.0, 0.0]).gaussian()
    with pytest.raises(ValueError, match="scatters must be 0 where counts are 1"):
        SampleTally.of([1, 2], [1.0, 2.0], [0.5, 0.0])
    with pytest.raises(ValueError, match="one entry per client"):
        SampleTally.of([1, 2], [1.0, 2.0], [0.5])
    with pytest.raises(ValueError, match="clients and values must have one entry per row"):
        RowTally.of(["a"], [1.0, 2.0])
    with pytest.raises(TypeError):
        _ = GaussianTally() + RowTally()


def test_clients_that_say_nothing_count_up_to_the_largest_variance_that_is_permitted():
    """WIDEST^2 = 1e140: a variance just below leaves the others' fit as it is, one above is refused."""
    y, v = np.array([1.0, -2.0, 4.0, 0.5]), np.array([1.0, 0.5, 2.0, 0.25])
    alone = GaussianTally.of(y, v).fit("fixed", tau2=1.5)
    more = GaussianTally.of(np.append(y, 3.0), np.append(v, 0.99e140)).fit("fixed", tau2=1.5)
    assert (more.mu, more.mu_sd) == pytest.approx((alone.mu, alone.mu_sd), rel=1e-14)
    w = 1 / (v + 1.5)
    assert (more.mu, more.mu_sd) == pytest.approx(((w * y).sum() / w.sum(), w.sum() ** -0.5), rel=1e-14)
    close = GaussianTally.of([0.0, 1.0], [1.5e-150, 1.0]).fit("fixed", tau2=1.5)  # precisions below 1e150
    assert close.mu == pytest.approx(1 / 2.5 / (1 / 1.5 + 1 / 2.5))
    for largest in (1e140, 1e200):
        with pytest.raises(ValueError, match="squares overflow; change their units"):
            GaussianTally.of(np.append(y, 3.0), np.append(v, largest)).fit("fixed", tau2=1.5)


def test_estimates_lie_as_far_apart_as_their_squares_permit_and_no_farther():
    """WIDEST = 1e70: two clients, d apart and of variance 1, are likeliest at tau2 = d^2 / 4 - 1."""
    assert GaussianTally.of([0.0, 0.99e70], 1.0).fit().tau2 == pytest.approx(0.99e70**2 / 4, rel=1e-9)
    with pytest.raises(ValueError, match="squares overflow; change their units"):
        GaussianTally.of([0.0, 1e70], 1.0).fit()


def test_clients_who_agree_to_the_last_bit_have_no_spread():
    v = np.array([10.0, 20.0, 30.0])
    found = fit_passes(lambda: iter([(np.full(3, 2.0), v)]))
    assert (found.mu, found.tau2) == (2.0, 0.0)
    assert found.log_likelihood == pytest.approx(-0.5 * np.log(2 * np.pi * v).sum(), rel=1e-13)


def test_batches_must_come_again():
    batches = iter([([1.0, 2.0], [1.0, 2.0])])
    with pytest.raises(ValueError, match="must be a function"):
        fit_passes(batches)
    with pytest.raises(ValueError, match="other clients than in the first pass"):
        fit_passes(lambda: batches)


# --- memory and kernels ----------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_clients():
    """Peak memory of 40 batches is that of 2, within 2 MB (a batch of 10^5 clients takes 1.6 MB)."""
    code = """if True:
        import resource, sys
        import numpy as np
        from estimators.normal_means.streaming import GaussianTally
        def feed(batches):
            tally, rng = GaussianTally(), np.random.default_rng(0)
            for _ in range(batches):
                v = 1.0 / rng.integers(1, 50, 100_000)
                tally.add(rng.normal(0, np.sqrt(1 + v)), v)
            assert tally.fit().converged
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        few = feed(2)
        print(feed(40) - few)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 2048  # kilobytes


def test_kernels_are_what_they_are_without_compilation():
    rng = np.random.default_rng(9)
    values = rng.standard_normal(20) * 10.0 ** rng.integers(-300, 150, 20)
    bits, group = values.view(np.int64), np.arange(20) % 2
    compiled, plain = np.zeros((2, 2, 2, kernels.LIMBS), np.int64)
    counts = np.zeros(2, np.int64)
    kernels.add_powers(bits, group, compiled[0], compiled[1], counts)
    for i, value in enumerate(values.tolist()):
        plain_put(plain[0, group[i]], abs(int(Fraction(value) * UNIT)), np.sign(value))
        plain_put(plain[1, group[i]], int((Fraction(value) * UNIT) ** 2), 1)
    for rows in (*compiled, *plain):
        assert (kernels.carry(rows) <= 0).all()
    np.testing.assert_array_equal(compiled, plain)
    tau2s, v = np.array([0.0, 2.0]), rng.uniform(0.1, 3, 20)
    limbs = np.zeros((2, kernels.TERMS, kernels.LIMBS), np.int64)
    y = rng.standard_normal(20)
    kernels.add_moments(y, v, tau2s, limbs)
    for t, tau2 in enumerate(tau2s):
        p = 1 / (tau2 + v)
        terms = [p, p * p, p * y, p * (p * y), p * y * y, (p * y) ** 2, np.log(tau2 + v)]
        found = [total / UNIT for total in whole_of(limbs[t])]
        np.testing.assert_allclose(found, [term.sum() for term in terms], rtol=1e-13)


def plain_put(limbs, number, sign):
    """Add sign * number to limbs of 32 bits."""
    i = 0
    while number:
        limbs[i] += int(sign) * (number & 0xFFFFFFFF)
        number >>= 32
        i += 1


def whole_of(limbs):
    return [sum(int(limb) << (32 * i) for i, limb in enumerate(row)) for row in limbs]


@given(st.lists(st.floats(min_value=5e-324, allow_infinity=False) | st.sampled_from([1.0, 0.5, 0.25]), min_size=1))
def test_groups_are_the_distinct_values(keys):
    found, place = group_by(np.array(keys), len(set(keys)))
    assert found.tolist() == list(dict.fromkeys(keys))
    assert found[place].tolist() == keys
    assert group_by(np.array(keys), len(set(keys)) - 1) is None


def test_crowded_groups_are_told_apart():
    keys = 1.0 / np.random.default_rng(8).permutation(np.arange(1, 4001))
    found, place = group_by(np.tile(keys, 2), 4000)
    np.testing.assert_array_equal(found, keys)
    np.testing.assert_array_equal(place, np.tile(np.arange(4000), 2))
