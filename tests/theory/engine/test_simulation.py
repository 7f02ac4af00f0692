"""What is read off a simulation, and that a wrong value of a claim cannot pass its simulation."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from estimators.montecarlo import Moments, perform, run
from theory import claims, find
from theory.engine import simulation
from theory.engine.levels.simulated import SIMULATED_EXAMPLES, derived_floats, simulate_at
from theory.engine.paper import papers
from theory.engine.simulation import Mean, Ratio, compared

DETECTABLE = 0.01  # what every check of `perform` is asked to see, in units of its scale
OFF = 1.03
TOO_SMALL_TO_SEE: set[str] = set()  # claims whose value is a difference too small to be seen; none may be added
SIMULATED = [claim for claim in claims() if claim.simulate is not None]


def times(value, factor):
    return tuple(v * factor for v in value) if isinstance(value, tuple | list) else value * factor


def simulations(claim):
    """Point and simulation of every example that is judged by one."""
    points = [claim.point(e) for e in claim.examples[:SIMULATED_EXAMPLES]]
    return [(p, s) for p in points if (s := simulate_at(claim, p)) is not None]


# --- readings ----------------------------------------------------------------------------------------------------------


def test_a_mean_is_compared_with_the_value_and_relative_to_it():
    check = Mean("risk", [1.0, -1.0]).check(-4.0)
    assert (check.expected, check.scale, check.coefficients) == (-4.0, 4.0, (1.0, -1.0))
    assert Mean("risk", [1.0], of=2).check((1.0, 2.0, 3.0)).expected == 3.0


def test_errors_of_a_function_of_the_value_are_relative_to_the_value():
    """1 % of a divergence of 0.1 moves exp(0.1) by 0.11 %: that is what the check must see."""
    check = Mean("moment", [1.0], of=np.exp).check(0.1)
    assert check.expected == pytest.approx(np.exp(0.1))
    assert check.scale == pytest.approx(0.1 * np.exp(0.1), rel=1e-8)


def test_a_ratio_is_compared_without_dividing():
    check = Ratio("strength", [-1.0, 0.0], [1.0, 1.0], size=5.0).check(0.5)
    assert (check.coefficients, check.expected, check.scale) == ((-1.5, -0.5), 0.0, 2.5)


@pytest.mark.parametrize("reading", [Mean("gap", [1.0]), Ratio("strength", [1.0], [2.0], 1.0)])
def test_a_value_of_zero_needs_a_scale(reading):
    with pytest.raises(ValueError, match="zero are relative to nothing"):
        reading.check(0.0)
    assert Mean("gap", [1.0], zero=3.0).check(0.0).scale == 3.0
    assert Mean("gap", [1.0], zero=3.0).check(2.0).scale == 2.0
    assert Mean("gap", [1.0], scale=3.0).check(2.0).scale == 3.0


def test_a_reading_of_nothing_is_refused():
    with pytest.raises(ValueError, match="does not depend on the claim's value"):
        Mean("known", [1.0], of=lambda value: 2.0, scale=1.0).check(3.0)


def test_what_is_reported_is_on_the_scale_of_the_claim():
    moments = Moments.of(np.exp([[0.1], [0.2], [0.3]]))
    (value, error), (mean, raw) = (Mean("", [1.0], back=back).read(moments) for back in (np.log, None))
    assert value == pytest.approx(np.log(mean))
    assert error == pytest.approx(raw / mean, rel=1e-6)


def blend(tau2=1.0, alpha2=2.0):
    """Client 0 of four alike, whose best strength is alpha2 over tau2."""
    found = simulation.optimal_blend(simulation.federation([4], tau2, alpha2, 0.0), 0, np.full(4, 0.25))
    assert found is not None
    return found


def test_the_best_strength_of_alike_clients_is_the_known_one():
    """Stein's shrinkage, known since 1956: lam = alpha2/tau2."""
    found = blend()
    (value, error), *_ = found.read(run(found.experiment, 1_000_000, "strength"))
    assert abs(value - 2.0) < 5 * error < 0.1
    right, wrong = (perform(found.experiment, compared(found, v), "strength")[0] for v in (2.0, 2.0 * OFF))
    assert right.passed
    assert right.reached
    assert not wrong.passed


def test_the_scale_of_a_ratio_is_the_mean_of_its_denominator():
    (reading,) = blend().readings
    moments = run(blend().experiment, 1_000_000, "denominator")
    mean, error = moments.linear(reading.denominator)
    assert abs(mean - reading.size) < 5 * error


def test_an_infinite_strength_is_not_simulated():
    assert simulation.optimal_blend(simulation.federation([4], 0.0, 2.0, 0.0), 0, np.full(4, 0.25)) is None


@pytest.mark.parametrize("variances", [[1.0, 2.0, 4.0], [0.5, 3.0]])
def test_the_best_combination_has_precision_weights(variances):
    fed = simulation.federation([1] * len(variances), variances, 0.0, 0.0)
    precision = 1 / np.array(variances)
    value = (1 / precision.sum(), *precision / precision.sum())
    found = simulation.best_combination(fed, "variance")
    assert all(r.passed for r in perform(found.experiment, compared(found, value), "combination"))
    for i in range(len(value)):
        wrong = tuple(v * (OFF if k == i else 1) for k, v in enumerate(value))
        assert not all(r.passed for r in perform(found.experiment, compared(found, wrong), "combination")), i


# --- every claim -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paper", sorted(papers()))
def test_no_simulation_needs_the_claim(paper):
    """With the derivation, the oracle and the printed formula gone, every simulation is built just the same."""

    def gone(**v):
        raise AssertionError("a simulation looked at the claim")

    for claim in (c for c in SIMULATED if c.paper == paper):
        blind = replace(claim, derive=gone, oracle=gone, printed=gone, finding=claim.finding or "Nothing is left of it.")
        built = simulations(blind)
        assert built, claim.id
        assert [len(s.readings) for _, s in built] == [len(s.readings) for _, s in simulations(claim)]


@pytest.mark.parametrize("paper", sorted(papers()))
def test_a_value_three_percent_off_lies_outside_what_the_simulation_lets_pass(paper):
    """Measured without random numbers: how far the check of a wrong value is off, against what `perform` must see."""
    blind = set()
    for claim in (c for c in SIMULATED if c.paper == paper):
        for point, simulated in simulations(claim):
            value = derived_floats(claim, point)
            if not np.any(value):
                continue  # 3 % of zero is zero
            worst = max(reading.misfit(value, times(value, OFF)) for reading in simulated.readings)
            if worst < DETECTABLE:
                blind.add(claim.id)
    assert blind == {i for i in TOO_SMALL_TO_SEE if i.startswith(f"{paper}:")}


@pytest.mark.parametrize(
    "claim_id",
    [
        "feo2:lemma2",  # excess over the Bayes risk
        "fedhdp:lemma2:weights",  # ratios of moments
        "mrmtl:eq12",  # logarithm of a mean
        "mrmtl:thmE.5",  # best strength, unequal silos
        "robusthdp:eq8:eps-loss",  # excess over the least noise
        "robusthdp:lem1:mean",  # sampled, several entries
        "generative:thm6",  # regression
        "generative:thm2:a",  # a function of a ratio
    ],
)
def test_changing_the_value_cannot_pass_a_simulation(claim_id):
    """The experiment does not follow the claim: of the derived value and one 3 % off, only the first passes."""
    claim = find(claim_id)
    for i, (point, simulated) in enumerate(simulations(claim)):
        value = derived_floats(claim, point)
        for factor in (1.0, OFF, 1 / OFF):
            results = perform(simulated.experiment, compared(simulated, times(value, factor)), f"{claim_id}#{i}", threads=1)
            assert all(r.passed for r in results) == (factor == 1.0 or not np.any(value)), (factor, list(map(str, results)))


# --- importance sampling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [1.0, 1.5, 3.0])
def test_wider_draws_weigh_what_the_models_density_says(by):
    """Sets of three normals along two axes: weights are ratios of densities, and means are those of the model."""
    noise, weights = simulation.widened(np.random.default_rng(2), 2.0, by, (3, 200_000, 1), over=(0, 2))
    models, drawn = (-0.5 * (noise / sd) ** 2 - np.log(sd) for sd in (2.0, 2.0 * by))
    np.testing.assert_allclose(weights, np.exp((models - drawn).sum(axis=(0, 2))), rtol=1e-12)
    for statistic, mean in ((np.ones(200_000), 1.0), ((noise**2).sum(axis=(0, 2)), 12.0)):
        sample = weights * statistic
        assert abs(sample.mean() - mean) <= 5 * sample.std() / 200_000**0.5 + 1e-12


@pytest.mark.parametrize("by", [0.99, 0.0, float("nan")])
def test_narrower_draws_are_refused(by):
    with pytest.raises(ValueError, match="by must be at least 1"):
        simulation.widened(np.random.default_rng(0), 1.0, by, (1, 1), over=(0,))


@pytest.mark.parametrize("by", [0.0, 0.7, -1.5])
def test_shifted_draws_weigh_what_the_models_density_says(by):
    noise, weights = simulation.shifted(np.random.default_rng(3), 2.0, by, (200_000,))
    np.testing.assert_allclose(weights, np.exp(-0.5 * (noise / 2) ** 2 + 0.5 * (noise / 2 - by) ** 2), rtol=1e-12)
    for statistic, mean in ((1.0, 1.0), (noise, 0.0), (noise**2, 4.0)):
        sample = weights * statistic
        assert abs(sample.mean() - mean) <= 5 * sample.std() / 200_000**0.5 + 1e-12


def test_many_samples_are_not_drawn_narrower():
    lemma = find("generative:lemma1:sharp")
    assert lemma.simulate is not None
    assert lemma.computed is not None
    means = lemma.simulate(m=2, n=100, d=1).experiment.draw(np.random.default_rng(1), 20_000)
    expected = lemma.computed(m=2, n=100, d=1)
    assert abs(means.mean() - expected) < 5 * means.std() / 20_000**0.5 + 3 / 20_000


# --- fewer draws of the same law ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vectors", "dimension"), [(1, 1), (2, 2), (3, 7)])
def test_turned_vectors_have_the_lengths_and_products_of_normal_ones(vectors, dimension):
    """Means, mean squares and mean products of all entries of the Gram matrix are those of Wishart's law."""
    reps = 200_000
    found = np.stack(simulation.turned(np.random.default_rng(4), reps, vectors, dimension))
    assert found.shape == (vectors, vectors, reps)
    gram, unit = np.einsum("ikr,jkr->ijr", found, found), np.eye(vectors)
    for i, j, k, m in np.ndindex(*(vectors,) * 4):
        product = gram[i, j] * gram[k, m]
        mean = dimension**2 * unit[i, j] * unit[k, m] + dimension * (unit[i, k] * unit[j, m] + unit[i, m] * unit[j, k])
        assert abs(product.mean() - mean) < 5 * product.std() / reps**0.5
        assert abs(gram[i, j].mean() - dimension * unit[i, j]) < 5 * gram[i, j].std() / reps**0.5


def test_more_vectors_than_dimensions_are_refused():
    with pytest.raises(ValueError, match="dimension must be at least vectors = 3, got 2"):
        simulation.turned(np.random.default_rng(0), 1, 3, 2)


@pytest.mark.parametrize("chances", [[], [0.3], [0.2, 0.9, 0.5, 1.0]])
def test_the_law_of_a_count_is_that_of_all_outcomes(chances):
    law = np.zeros(len(chances) + 1)
    for outcome in product((0, 1), repeat=len(chances)):
        law[sum(outcome)] += np.prod([q if happens else 1 - q for q, happens in zip(chances, outcome, strict=True)])
    np.testing.assert_allclose(simulation.count_law(chances), law, rtol=1e-14)
    for row, p in zip(simulation.count_law(np.full(3, q) for q in chances), law, strict=True):
        np.testing.assert_allclose(row, p, rtol=1e-14)
