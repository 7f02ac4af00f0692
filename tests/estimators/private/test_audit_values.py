"""Audits piece by piece: canaries, what several numbers are read as, how many runs go where, what each case releases."""

import numpy as np
import pytest

from estimators.accounting import Budget
from estimators.federated.audit import epsilon_bound
from estimators.private import FiniteOutput, MeanClient, RateClient, audit_cases
from estimators.private.audit_cases import BROKEN, CASES, audit_draws, audit_release, neighbours, readings
from estimators.private.distributed import sigma2_each

RNG = np.random.default_rng


def test_neighbours_of_rows_and_of_clients_entry_by_entry():
    row = [[side.tolist() for side in pair] for pair in neighbours((-1.0, 3.0), 3, "row")]
    assert row == [
        [[-1.0, -1.0, -1.0], [3.0, -1.0, -1.0]],
        [[3.0, 3.0, 3.0], [-1.0, 3.0, 3.0]],
        [[-1.0, -1.0, -1.0], [4003.0, -1.0, -1.0]],  # a thousand widths above
    ]
    client = [[side.tolist() for side in pair] for pair in neighbours((-1.0, 3.0), 3, "client")]
    assert client == [[[-1.0] * 3, [3.0] * 3], [[-1.0] * 3, [8003.0, 4003.0, 4003.0]]]
    assert len(neighbours((0.0, 1.0), 1, "row")) == 3


def test_one_number_is_read_as_it_is():
    values = np.array([[3.0], [1.0]])
    assert readings(values, values + 1)(values) is values


def test_several_numbers_are_read_as_fishers_direction_and_as_clipped_ones():
    """By hand: covariances [[1, 0.5], [0.5, 1]] on average, and a distance of (2, 0)."""
    rng = RNG(0)
    root = np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]])
    z = rng.normal(size=(4000, 2))
    z = (z - z.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(z, rowvar=False))).T @ root.T  # exactly so
    one, other = z, z + np.array([2.0, 0.0])
    read = readings(one, other)
    at = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    found = read(at)
    assert found.shape == (4, 4)
    np.testing.assert_array_equal(found[:, :2], at)
    direction = np.linalg.solve([[1.0, 0.5], [0.5, 1.0]], [2.0, 0.0])
    np.testing.assert_allclose(found[:, 2], at @ direction, rtol=1e-6)
    low = np.median(one, axis=0)
    np.testing.assert_allclose(found[:, 3], np.clip((at[:, 0] - low[0]) / 2.0, 0.0, 1.0))  # the other tells nothing


def test_copies_of_a_number_that_differ_by_rounding_are_read_as_their_mean():
    """By hand: the best direction of two copies of one number, 2 apart, is that to their mean, over a variance."""
    z, blur = RNG(2).normal(size=4000), 3e-7 * RNG(3).normal(size=(2, 4000, 2))
    one, other = (np.column_stack([z + shift, z + shift]) + blur[k] for k, shift in ((0, 0.0), (1, 2.0)))
    found = readings(one, other)(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]))[:, 2]
    np.testing.assert_allclose(found, np.array([0.0, 1.0, 0.5]) * 2 / z.var(ddof=1), rtol=1e-4, atol=1e-12)


def test_readings_have_no_units_and_bear_numbers_that_never_change():
    rng = RNG(1)
    one, other = rng.normal(size=(500, 3)), rng.normal(size=(500, 3)) + np.array([1.0, 0.0, -0.5])
    one[:, 1] = other[:, 1] = 7.0
    unit = np.array([1e6, 1.0, 1e-6])
    found, scaled = readings(one, other)(one), readings(one * unit, other * unit)(one * unit)
    assert np.isfinite(found).all()
    for k in (3, 4):
        np.testing.assert_allclose(scaled[:, k], found[:, k], rtol=1e-6, atol=1e-9)
    # each of the clipped numbers counts the same, from 0 at the one median to 1 at the other
    a, b = np.median(one, axis=0), np.median(other, axis=0)
    np.testing.assert_allclose(readings(one, other)(np.array([a, b, (a + b) / 2]))[:, 4], [0.0, 2.0, 1.0], atol=1e-12)


def spied(runs, delta, seed=0, pairs=3):
    """How many runs an audit asks for, of which data, and the first uniform number of each generator."""
    asked = []

    def draws(data, size, generator):
        asked.append((data, size, float(generator.random())))
        return data + generator.laplace(size=size)

    found = audit_draws(draws, [(0.0, float(k)) for k in range(pairs)], eps=9.0, delta=delta, runs=runs, seed=seed)
    return asked, found


@pytest.mark.parametrize(("runs", "delta", "pilot", "rest"), [(400, 0.0, 100, 400), (400, 1e-3, 400, 1600), (5, 0.0, 4, 5)])
def test_a_quarter_of_the_runs_chooses_the_pair_and_new_ones_judge_it(runs, delta, pilot, rest):
    asked, found = spied(runs, delta)
    assert [(data, size) for data, size, _ in asked[:6]] == [(float(x), pilot) for x in (0, 0, 0, 1, 0, 2)]
    assert [size for _, size, _ in asked[6:]] == [rest, rest]
    assert asked[6][0] == 0.0
    assert len({uniform for *_, uniform in asked}) == 8  # streams of their own
    again, same = spied(runs, delta)
    assert again == asked
    assert same == found
    assert spied(runs, delta, seed=1)[0] != asked


def test_the_bound_is_that_of_the_new_runs_of_the_best_pair():
    def draws(shift, size, generator):
        return shift + generator.laplace(size=size)

    found = audit_draws(draws, [(0.0, 0.2), (0.0, 1.0)], eps=1.5, runs=2000, beta=0.05, seed=4, name="laplace")
    worlds = [draws(shift, 2000, RNG([4, 1, 1, world]))[:, None] for world, shift in enumerate((0.0, 1.0))]
    assert found.bound == epsilon_bound(*worlds, delta=0.0, beta=0.05)
    assert (found.mechanism, found.adjacency, found.claimed) == ("laplace", "row", 1.5)
    default = audit_draws(draws, [(0.0, 1.0)], eps=1.5)
    worlds = [draws(shift, 5000, RNG([0, 0, 1, world]))[:, None] for world, shift in enumerate((0.0, 1.0))]
    assert default.bound == epsilon_bound(*worlds, delta=0.0, beta=0.01)
    assert default.mechanism == "release"
    one_by_one = audit_release(lambda x, g: x + g.laplace(), [(0.0, 1.0)], eps=1.5)
    assert (one_by_one.mechanism, one_by_one.adjacency) == ("release", "row")
    assert one_by_one.bound.eps == pytest.approx(default.bound.eps, abs=0.2)


def test_audits_take_four_runs_or_more_and_beta_inside():
    def draws(x, size, generator):
        return x + generator.laplace(size=size)

    for more, why in (({"runs": 3}, "runs"), ({"beta": 0.0}, "beta"), ({"delta": 1.0}, "delta"),
                      ({"adjacency": "house"}, "adjacency"), ({"eps": -1.0}, "eps")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            audit_draws(draws, [(0.0, 1.0)], **{"eps": 1.0, **more})
    assert audit_draws(draws, [(0.0, 1.0)], eps=1.0, runs=4).bound.eps == 0.0
    with pytest.raises(ValueError, match="what the mechanism returned"):
        audit_draws(lambda x, size, g: np.full(size, np.inf), [(0.0, 1.0)], eps=1.0, runs=4)


@pytest.fixture
def told(monkeypatch):
    """What a case hands to `audit_draws`: its draws, its pairs, and what it claims."""

    def found(name, cases=CASES, **more):
        kept = {}

        def keep(draws, pairs, **said):
            kept.update(said, draws=draws, pairs=pairs)

        monkeypatch.setattr(audit_cases, "audit_draws", keep)
        cases[name](**more)
        return kept

    return found


@pytest.mark.parametrize("name", [name for name in CASES if name.split(",")[0] in ("mean", "rate", "mean and variance")])
def test_cases_of_clients_claim_what_their_clients_do(name, told):
    case = told(name)
    adjacency = "client" if ", client" in name else "row"
    gaussian = name.endswith("gaussian")
    assert (case["eps"], case["adjacency"], case["delta"]) == (1.0, adjacency, 0.01 if gaussian else 0.0)
    rate = name.startswith("rate")
    assert len(case["pairs"]) == (2 if adjacency == "client" else 3) - rate  # answers do not lie outside
    assert all(len(side) == 3 for pair in case["pairs"] for side in pair)
    assert not rate or {float(answer) for pair in case["pairs"] for side in pair for answer in side} == {0.0, 1.0}
    assert case["name"].split(",")[0] == ("rate" if rate else "mean")
    assert ("variance" in case["name"]) == name.startswith("mean and variance")
    values = np.array(case["draws"](case["pairs"][0][0], 600, RNG(1)))
    both = name.startswith("mean and variance")
    assert values.shape == ((600, 2) if both else (600, 1) if not rate else (600,))
    first = values if rate else values[:, 0]
    assert abs(first.mean() - np.mean(case["pairs"][0][0])) < 5 * first.std() / np.sqrt(600)  # the lower bound, 0, unbiased


def test_the_variances_of_cases_are_those_of_their_clients(told):
    rows = np.array([10.0, 0.0, 0.0])
    for mechanism, more in (("discrete-laplace", {}), ("staircase", {}), ("discrete-gaussian", {"delta": 0.01})):
        client = MeanClient(bounds=(0.0, 10.0), eps=1.0, mechanism=mechanism, **more)
        noise = client.report(rows, RNG(0)).noise_variance
        values = told(f"mean, row, {mechanism}")["draws"](rows, 3000, RNG(2))[:, 0]
        assert values.var() == pytest.approx(noise, rel=0.25)
        assert abs(values.mean() - 10 / 3) < 5 * np.sqrt(noise / 3000)


def test_other_cases_release_what_their_names_say(told):
    case = told("central prior")
    assert (case["eps"], case["adjacency"], len(case["pairs"]), len(case["pairs"][0][0])) == (1.0, "client", 3, 4)
    values = case["draws"](np.array([0.0, 10.0, 0.0, 10.0]), 4000, RNG(0))
    assert values.shape == (4000, 2)
    for k, truth in enumerate((5.0, 100 / 3)):
        assert abs(values[:, k].mean() - truth) < 5 * values[:, k].std() / np.sqrt(4000)

    case = told("regression")
    assert case["pairs"] == [((1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, 1000.0))]
    assert (case["eps"], case["delta"]) == (1.0, 0.01)
    for row, products in (((1.0, 0.0), (1.0, 0.0, 0.0)), ((0.0, 1.0), (0.0, 0.0, 1.0)), ((0.6, 0.8), (0.36, 0.48, 0.64)),
                          ((0.0, 1000.0), (0.0, 0.0, 1.0))):  # fmt: skip
        values = case["draws"](row, 3000, RNG(3))
        assert values.shape == (3000, 3)
        assert (np.abs(values.mean(axis=0) - products) < 5 * values.std(axis=0) / np.sqrt(3000) + 0.01).all()  # 8 bits

    case = told("distributed mean")
    assert (case["pairs"], case["delta"], case["adjacency"]) == ([(0.0, 15.0)], 0.01, "client")
    values = case["draws"](15.0, 4000, RNG(4))
    each = sigma2_each(eps=1.0, delta=0.01, sensitivity=15, clients=3)
    assert abs(values.mean() - 15) < 5 * values.std() / np.sqrt(4000)
    assert values.var() == pytest.approx(3 * each, rel=0.12)
    lost = told("noise of the lost", BROKEN)
    less = sigma2_each(eps=1.0, delta=0.01, sensitivity=15, clients=12)
    assert lost["draws"](0.0, 4000, RNG(4)).var() == pytest.approx(3 * less, rel=0.12)

    case = told("shuffled bits")
    assert (case["name"], case["pairs"]) == ("10 shuffled bits", [(0.0, 1.0)])
    assert case["delta"] == 0.01
    wrong = 1 / (1 + np.e)
    for bit in (0, 1):
        said = case["draws"](float(bit), 4000, RNG(5)) * (1 - 2 * wrong) + 10 * wrong  # how many ones are seen
        np.testing.assert_allclose(said, np.rint(said), atol=1e-9)
        assert abs(said.mean() - (bit + (10 - 2 * bit) * wrong)) < 5 * said.std() / np.sqrt(4000)
        assert said.std() == pytest.approx(np.sqrt(10 * wrong * (1 - wrong)), rel=0.1)


def test_a_lying_server_learns_a_sum_of_few_or_nothing(told):
    nothing = told("distributed mean, lying server")
    assert nothing["name"] == "distributed mean, lying server"
    assert (nothing["pairs"], nothing["delta"], nothing["eps"], nothing["adjacency"]) == ([(0.0, 1.0)], 0.01, 1.0, "client")
    assert nothing["draws"](1.0, 7, RNG(0)).tolist() == [0.0] * 7
    caught = told("lying server, unchecked lists", BROKEN)
    assert caught["name"] == "distributed mean"
    each = sigma2_each(eps=1.0, delta=0.01, sensitivity=15, clients=5)  # noise of five was counted
    assert caught["draws"](0.0, 4000, RNG(1)).var() == pytest.approx(2 * each, rel=0.12)  # and of two was there
    every = told("lying server, unchecked lists", BROKEN, clients=3, threshold=3)
    assert every["name"] == "distributed mean"  # no fewer than all, whose numbers it learns to the last bit


def test_settings_of_cases_reach_their_mechanisms(told):
    case = told("mean, client, finite-output", eps=2.0, n=5, runs=77)
    assert (case["eps"], case["runs"], len(case["pairs"][0][0])) == (2.0, 77, 5)
    law = FiniteOutput(bounds=(0.0, 10.0), eps=2.0)
    assert set(case["draws"](np.full(5, 4.0), 300, RNG(0)).ravel()) <= set(law.values.tolist())
    case = told("rate, row, answers", eps=2.0, n=4)
    wrong = 1 / (1 + np.exp(2.0))
    values = case["draws"](np.array([1.0, 1.0, 0.0, 1.0]), 3000, RNG(1))
    assert values.var() == pytest.approx(4 * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2, rel=0.12)
    assert abs(values.mean() - 3) < 5 * values.std() / np.sqrt(3000)
    assert told("distributed mean", levels=3)["pairs"] == [(0.0, 3.0)]
    assert told("shuffled bits", n=4)["name"] == "4 shuffled bits"
    assert told("central prior", m=6)["pairs"][0][0].size == 6


def test_each_broken_mechanism_is_broken_in_its_own_way():
    def made(client, mechanism="discrete-laplace", adjacency="row", eps=1.0, delta=0.0):
        return client(bounds=(0.0, 10.0), eps=eps, delta=delta, adjacency=adjacency, mechanism=mechanism)

    rows, size = np.array([30.0, 0.0, 0.0]), 2000
    names = [str(i) for i in range(size)]
    sound = made(MeanClient).reports([rows] * size, names, RNG(0))
    noise = sound[0].noise_variance
    unclipped = [r.estimate for r in made(audit_cases.Unclipped).reports([rows] * size, names, RNG(0))]
    np.testing.assert_allclose(np.array(unclipped) - [r.estimate for r in sound], 20 / 3)
    halves = made(audit_cases.HalfNoise).reports([rows] * size, names, RNG(1))
    half = np.array([r.estimate for r in halves])
    step, change = 10 / 4095 / 3, 4095 // 2  # of which the log probability falls by eps
    assert halves[0].noise_variance == pytest.approx(step**2 / (2 * np.sinh(1 / change / 2) ** 2), rel=1e-6)
    assert half.var() == pytest.approx(noise / 4, rel=0.25)
    own = made(audit_cases.OwnBounds).report(rows, RNG(2))
    assert own.bounds == (-0.5, 30.5)
    known = made(audit_cases.KnownNoise).reports([rows, rows, rows / 2], ["a", "b", "c"], RNG(3))
    assert known[0].estimate == known[1].estimate
    twice = made(audit_cases.SpentTwice).reports([rows] * size, names, RNG(4))
    assert np.var([r.estimate for r in twice]) == pytest.approx(noise / 2, rel=0.25)
    assert abs(np.mean([r.estimate for r in twice]) - 10 / 3) < 5 * np.sqrt(noise / 2 / size)
    assert isinstance(made(audit_cases.SpentTwice).budget, Budget)
    assert RateClient(eps=1.0).eps == 1.0


def test_one_run_releases_its_numbers():
    release = lambda data, rng: [data.sum(), rng.random()]  # noqa: E731
    found = audit_cases.released(release, np.ones(3), 1, RNG(0))
    assert found.shape == (1, 2)
    assert found[0, 0] == 3
    with pytest.raises(ValueError, match="at least one"):
        audit_cases.released(lambda data, rng: [], np.ones(3), 1, RNG(0))
    with pytest.raises(ValueError, match="the same number of numbers"):
        audit_cases.released(lambda data, rng: [1.0] * rng.integers(1, 3), np.ones(3), 20, RNG(0))


def test_an_audit_of_a_function_has_5000_runs_of_the_first_seed():
    runs = []

    def noisy(bit, generator):
        runs.append(bit)
        return bit + generator.laplace()

    found = audit_release(noisy, [(0.0, 1.0)], eps=1.0)
    assert len(runs) == 2 * (1250 + 5000)
    assert found == audit_release(noisy, [(0.0, 1.0)], eps=1.0, runs=5000, seed=0, beta=0.01)


@pytest.mark.parametrize(
    ("pairs", "best"), [([(0.0, 3.0), (0.0, 1.0), (0.0, 0.5)], 0), ([(0.0, 1.0), (0.0, 3.0), (0.0, 1.0)], 1),
                        ([(5.0, 5.0), (7.0, 7.0)], 0)]
)  # fmt: skip
def test_the_pair_that_tells_the_most_is_audited(pairs, best):
    """Of those that tell as much the first one."""
    asked = []

    def draws(x, runs, generator):
        asked.append((x, runs))
        return x + generator.laplace(size=runs) if x < 5 else np.zeros(runs)

    audit_draws(draws, pairs, eps=1.0, runs=2000)
    assert [x for x, runs in asked if runs == 2000] == list(pairs[best])
