"""The derivation engine against brute force: groups of symbolic size against clients one by one.

The two share no code: the engine solves small systems in symbols, the oracle conditions concrete clients in exact
rationals. With a finite prior variance of the centre the second opinion is a plain conditional Gaussian in NumPy.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from theory import find
from theory.engine.algebra import is_zero, limit, stationary_point
from theory.engine.bruteforce import Clients, Combination, fraction, rational, solve
from theory.engine.derivation import Derivation
from theory.engine.hierarchy import CENTRE, Form, Group, best_blend, covariance, mse, posterior, strength

SOME = settings(max_examples=settings().max_examples // 5)
ONE = sp.Integer(1)
SIZES = sp.symbols("n1 n2", positive=True, integer=True)

positive = st.fractions(min_value=Fraction(1, 9), max_value=9, max_denominator=9)
variance = positive | st.just(Fraction(0))


@st.composite
def federations(draw):
    """Client 0 alone, then two groups: (tau2, alpha2, nu2) of each, and the sizes of the two groups."""
    groups = [(draw(variance), draw(positive), draw(variance)) for _ in range(3)]
    return groups, [draw(st.integers(1, 3)) for _ in range(2)]


def symbolic(federation):
    """The engine's view: group sizes are letters."""
    groups, sizes = federation
    own, *others = (
        Group(name, size, *(rational(v) for v in g))
        for name, size, g in zip(("own", "first", "second"), (ONE, *SIZES), groups, strict=True)
    )
    return own, others, dict(zip(SIZES, map(sp.Integer, sizes), strict=True))


def concrete(federation):
    """The oracle's view: one object per client, and who is in which group."""
    groups, sizes = federation
    members = [0] + [1] * sizes[0] + [2] * sizes[1]
    return Clients(*([groups[i][j] for i in members] for j in range(3))), members


def numbers(expression, sizes):
    return fraction(sp.sympify(expression).subs(sizes))


TARGETS = {
    "centre": (lambda own: CENTRE, lambda clients: clients.centre),
    "parameter": (lambda own: own.parameters(), lambda clients: clients.parameter[0]),
}


@pytest.mark.parametrize("target", TARGETS)
@SOME
@given(federations())
def test_posterior_with_a_flat_centre(target, federation):
    own, others, sizes = symbolic(federation)
    clients, members = concrete(federation)
    of_form, of_clients = TARGETS[target]
    best = posterior(of_form(own), [own.estimates(), *(g.messages() for g in others)])
    weights, uncertainty = clients.posterior(of_clients(clients), [clients.estimate[0], *clients.message[1:]])
    assert numbers(best.variance, sizes) == uncertainty
    # Everyone of a group gets the weight of the group's sum.
    assert [numbers(best.weights[i], sizes) for i in members] == weights
    assert sum(weights) == 1


def conditional(federation, v0, target):
    """Weights and variance of the best linear estimate under a proper prior, by the joint covariance in NumPy."""
    groups, sizes = federation
    members = [0] + [1] * sizes[0] + [2] * sizes[1]
    count = len(members)
    # Basic variables: phi, then p, e, l of every client.
    basic = np.array([v0, *(float(groups[i][j]) for j in range(3) for i in members)], float)
    rows = np.zeros((count, 1 + 3 * count))
    rows[:, 0] = 1
    for j in range(3):
        rows[np.arange(count), 1 + j * count + np.arange(count)] = 1
    rows[0, 1 + 2 * count] = 0  # client 0 shows its estimate, not its message
    aim = np.zeros(1 + 3 * count)
    aim[0] = 1
    if target == "parameter":
        aim[1] = 1
    gram, cross = rows * basic @ rows.T, rows * basic @ aim
    weights = np.linalg.solve(gram, cross)
    return weights, aim * basic @ aim - cross @ weights, members


@pytest.mark.parametrize("target", TARGETS)
@SOME
@given(federations(), positive)
def test_posterior_with_a_finite_prior(target, federation, v0):
    own, others, sizes = symbolic(federation)
    best = posterior(TARGETS[target][0](own), [own.estimates(), *(g.messages() for g in others)], rational(v0))
    weights, uncertainty, members = conditional(federation, float(v0), target)
    np.testing.assert_allclose(float(numbers(best.variance, sizes)), uncertainty, rtol=1e-9)
    got = [float(numbers(best.weights[i], sizes)) for i in members]
    np.testing.assert_allclose(got, weights, rtol=1e-9, atol=1e-12)


@settings(max_examples=settings().max_examples // 10)
@given(federations())
def test_a_flat_centre_is_the_limit_of_wide_priors(federation):
    own, others, sizes = symbolic(federation)
    # Concrete sizes: the letter here is v0.
    seen = [own.estimates(), replace(others[0], size=sizes[others[0].size]).messages()]
    v0 = sp.Symbol("v0", positive=True)
    wide, flat = posterior(own.parameters(), seen, v0), posterior(own.parameters(), seen)
    for a, b in zip((wide.variance, *wide.weights), (flat.variance, *flat.weights), strict=True):
        assert limit(a, v0, sp.oo) == b


@SOME
@given(federations(), st.lists(positive, min_size=3, max_size=3))
def test_best_blend(federation, raw):
    own, others, sizes = symbolic(federation)
    clients, members = concrete(federation)
    total = sum(raw[i] for i in members)
    w = [r / total for r in raw]
    shared = rational(w[0]) * own.messages()
    for g, x in zip(others, w[1:], strict=True):
        shared = shared + rational(x) * g.messages()
    u, risk = best_blend(own.parameters(), own.estimates(), shared)
    theta = clients.weighted([w[i] for i in members], clients.message)
    expected = clients.best_blend(clients.parameter[0], clients.estimate[0], theta)
    # The weights add to one for these sizes only, so the forms are compared after putting the sizes in.
    assert (numbers(u, sizes), numbers(risk, sizes)) == expected


@SOME
@given(federations(), st.lists(positive, min_size=3, max_size=3))
def test_risk_of_a_weighted_average(federation, raw):
    own, others, sizes = symbolic(federation)
    clients, members = concrete(federation)
    letters = (ONE, *SIZES)
    total = sum(n * rational(r) for n, r in zip(letters, raw, strict=True))
    error = Form(sp.Integer(0))
    for g, r in zip((own, *others), raw, strict=True):
        error = error + (rational(r) / total) * g.messages()
    scale = sum(raw[i] for i in members)
    average = clients.weighted([raw[i] / scale for i in members], clients.message)
    assert numbers(mse(error - CENTRE), sizes) == clients.mse(average, clients.centre)


# --- laws ----------------------------------------------------------------------------------------------------------


@SOME
@given(federations(), st.lists(st.fractions(-3, 3, max_denominator=5), min_size=6, max_size=6))
def test_no_linear_estimate_beats_the_posterior(federation, raw):
    clients, _ = concrete(federation)
    seen = [clients.estimate[0], *clients.message[1:]]
    best = clients.posterior(clients.parameter[0], seen)[1]
    rest = raw[: len(seen) - 1]
    any_weights = [1 - sum(rest), *rest]  # unbiased under a flat centre
    assert clients.mse(clients.weighted(any_weights, seen), clients.parameter[0]) >= best
    # Nor does less data help, and a proper prior only adds information.
    assert clients.posterior(clients.parameter[0], seen[:-1])[1] >= best
    own, others, sizes = symbolic(federation)
    proper = posterior(own.parameters(), [own.estimates(), *(g.messages() for g in others)], ONE)
    assert numbers(proper.variance, sizes) <= best


@SOME
@given(federations(), st.fractions(-2, 3, max_denominator=7))
def test_no_blend_beats_the_best_and_the_best_does_not_beat_bayes(federation, u):
    clients, _ = concrete(federation)
    seen = [clients.estimate[0], *clients.message[1:]]
    target, local = clients.parameter[0], clients.estimate[0]
    weights, _ = clients.posterior(clients.centre, clients.message)
    theta = clients.weighted(weights, clients.message)
    best, risk = clients.best_blend(target, local, theta)
    assert clients.mse(local + (theta - local).times(u), target) - risk == (u - best) ** 2 * clients.mse(theta, local)
    assert risk >= clients.posterior(target, [*seen, clients.message[0]])[1]


@SOME
@given(federations())
def test_the_vertex_of_the_risk_is_the_best_blend(federation):
    """Two routes inside the engine: covariances of errors, and completing the square."""
    own, others, _ = symbolic(federation)
    shared = (1 / SIZES[0]) * others[0].messages()
    u = sp.Symbol("u", real=True)
    local = own.estimates()
    risk = mse((1 - u) * local + u * shared - own.parameters())
    best, least = best_blend(own.parameters(), local, shared)
    assert is_zero(stationary_point(risk, u) - best)
    assert is_zero(risk.subs(u, best) - least)


def test_strength_is_the_odds_of_the_weight():
    assert strength(sp.Rational(1, 3)) == sp.Rational(1, 2)
    assert strength(sp.Integer(0)) == 0
    assert strength(sp.Integer(1)) is sp.oo


# --- exact linear algebra ----------------------------------------------------------------------------------------

entry = st.fractions(-5, 5, max_denominator=4)


@given(st.data(), st.integers(1, 4))
def test_solve_solves(data, n):
    """Any consistent symmetric system, singular ones too (as Gram matrices of dependent observations are)."""
    rank = data.draw(st.integers(1, n), label="rank at most")
    rows = [[data.draw(entry) for _ in range(rank)] for _ in range(n)]
    gram = [[sum((a * b for a, b in zip(r, s, strict=True)), Fraction(0)) for s in rows] for r in rows]
    x = [data.draw(entry) for _ in range(n)]

    def times(vector):
        return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in gram]

    assert times(solve(gram, times(x))) == times(x)


@given(st.lists(st.lists(entry, min_size=3, max_size=3), min_size=3, max_size=3), st.lists(entry, min_size=3, max_size=3))
def test_solve_finds_the_only_solution(matrix, x):
    assume(sp.Matrix([[rational(v) for v in row] for row in matrix]).det() != 0)
    right = [sum((a * b for a, b in zip(row, x, strict=True)), Fraction(0)) for row in matrix]
    assert solve(matrix, right) == x


# --- refusals ------------------------------------------------------------------------------------------------------


def test_forms_are_multiplied_from_both_sides_and_divided():
    clients, n, x = Group("clients", sp.Symbol("N", positive=True), 1, 2, 3), sp.Symbol("N", positive=True), sp.Symbol("x")
    total = clients.messages()
    assert total / n == (1 / n) * total == total * (1 / n)
    assert total / 2 == sp.Rational(1, 2) * total
    assert x * total == total * x


def test_a_form_that_depends_on_a_flat_centre_has_no_risk():
    group = Group("g", ONE, ONE, ONE, ONE)
    with pytest.raises(ValueError, match="depends on the centre"):
        mse(group.messages())
    assert mse(group.messages(), sp.Integer(2)) == 5
    assert covariance(group.messages(), group.estimates(), sp.Integer(2)) == 4
    clients = Clients([1], [1], [1])
    with pytest.raises(ValueError, match="flat centre"):
        clients.covariance(clients.centre, clients.centre)


def test_estimates_that_coincide_have_no_best_blend():
    clients = Clients([1, 1], [1, 1], [0, 0])
    with pytest.raises(ZeroDivisionError, match="every weight is optimal"):
        clients.best_blend(clients.parameter[0], clients.estimate[0], clients.message[0])


def test_lists_of_variances_must_fit():
    with pytest.raises(ValueError, match="zip"):
        Clients([1, 1], [1], [1, 1])


def test_one_observation_is_its_own_posterior():
    clients = Clients([1], [2], [3])
    assert clients.posterior(clients.centre, clients.message) == ([1], 6)
    assert (Combination({"p0": Fraction(2)}).times(sp.Rational(1, 3))).terms == {"p0": Fraction(2, 3)}


# --- lemmas --------------------------------------------------------------------------------------------------------


def test_a_lemma_is_another_claims_result_and_is_recorded():
    d = Derivation()
    a = sp.Symbol("a", positive=True)
    value = d.lemma("mrmtl:thm6.3", sigma2=a, n=10, sigma2_dp=4, tau2=sp.Rational(1, 10), K=5)
    assert sp.simplify(value - (a + sp.Rational(2, 5))) == 0
    assert d.lemmas == ["mrmtl:thm6.3"]
    assert "By mrmtl:thm6.3" in d.render()


def test_a_lemma_needs_its_arguments():
    with pytest.raises(ValueError, match=r"mrmtl:thm6\.3: give n"):
        Derivation().lemma("mrmtl:thm6.3", K=5, sigma2=1, sigma2_dp=4, tau2=1)


def test_lemmas_are_part_of_the_evidence():
    from theory.engine.judging import judge_exactly

    assert judge_exactly(find("mrmtl:thm6.8"), 1).levels["derived"]["lemmas"] == ["mrmtl:lem6.7"]
