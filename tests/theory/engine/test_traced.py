"""The code that runs, on letters: it computes the formula, a changed operator is seen, and users see nothing of it."""

import ast
import importlib
import inspect
import textwrap
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp

from estimators.closed_forms import aggregation, mean_regularized
from estimators.numerics import validation
from theory.engine import reach
from theory.engine.ratios import REASONS
from theory.engine.reals import FORMULAS
from theory.engine.registry import claims, find
from theory.engine.relinked import World
from theory.engine.traced import traced
from theory.engine.tracing import symbols

SWAP = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
# Functions in which a changed operator changes no claim's value, and why.
UNSEEN = {
    "closed_forms.aggregation.eps_weights": "a scale of all weights cancels",
    "closed_forms.aggregation.opt_out_gain": "the claim has tau2 = 0",
    "closed_forms.aggregation.relative_excess": "an origin and thresholds of digits change nothing",
    "closed_forms.mean_regularized.iterated_weights": "a scale of all weights cancels",
    "closed_forms.aggregation.server_mse": "claims with other than the best ratios",
    "closed_forms.convergence.gradient_bound": "the claim has beta = 1",
    "closed_forms.convergence.printed_step_limit": "the claim has beta = 1",
    "closed_forms.convergence.step_limit": "the claim has beta = 1",
    "closed_forms.convergence.weights_term": "a term that the claim has not",
    "closed_forms.priors.gaussian_penalty": "claims on the gradient do not read the value",
    "closed_forms.priors.laplace_scale": "the claim has its centre at 0",
    "closed_forms.quantization.message_range": "the claim reads a share in which the spread cancels",
}


def text(i):
    return traced(find(i)).text


@pytest.mark.parametrize(
    "i",
    ["fedhdp:lemma2:rstar", "fedhdp:thm8:np", "mrmtl:lem6.7", "mrmtl:thm6.3", "robusthdp:eq8:minvar", "generative:thm1:mse"],
)
def test_the_code_computes_the_formula(i):
    run = traced(find(i))
    assert run.state == "equal"
    assert run.ways
    for way in run.ways:
        for value, formula in zip(way.computed, way.formula, strict=True):
            symbols_ = sorted((value - formula).free_symbols, key=str)
            at = {s: sp.Rational(7 + 3 * k, 2 + k) + 3 for k, s in enumerate(symbols_)}
            if not way.narrow:
                assert (value - formula).subs(at) == 0, "an identity holds at any point, whatever branch it came from"


def test_what_is_read_off_is_what_the_code_writes():
    (first, *_) = traced(find("mrmtl:cor6.4")).ways
    K, s, t = (sp.Symbol(n, positive=True) for n in ("K", "s", "t"))
    value = first.computed[0].subs({x: y for x in first.computed[0].free_symbols for y in (K, s, t)
                                    if {"K": K, "sigma2_loc": s, "tau2": t}[str(x)] is y})  # fmt: skip
    assert value == s / K + t * (1 - 1 / K) / (1 + t / s), (
        "unsimplified: the harmonic mean through a ratio, as `harmonic` has it"
    )


@pytest.mark.parametrize(
    ("i", "kind"),
    [
        ("generative:eq18", "library"),
        ("generative:remark2", "iterates"),
        ("robusthdp:eq7", "digits"),
        ("fedhdp:dp-noise", "numbers"),
        ("generative:kd:density", "library"),
    ],
)
def test_what_is_not_traced_says_what_stopped_it(i, kind):
    run = traced(find(i))
    assert run.state == kind
    assert run.text.startswith(f"not traced: {REASONS[kind]}")
    assert not run.ways


def test_a_wrong_formula_is_told_apart_at_a_point():
    def twice(sigma2_loc, tau2, K):
        return 2 * mean_regularized.optimal_mse(sigma2_loc, tau2, K)

    run = traced(replace(find("mrmtl:cor6.4"), computed=twice))
    assert run.state == "differs"
    assert "tau2 = " in run.text


def test_a_wrong_branch_is_seen_although_most_points_miss_it():
    def branching(sigma2_loc, tau2, K):
        right = mean_regularized.optimal_mse(sigma2_loc, tau2, K)
        return np.where(np.asarray(sigma2_loc) > 1e9 * np.asarray(tau2), 1.001 * right, right)

    run = traced(replace(find("mrmtl:cor6.4"), computed=branching))
    assert run.state == "differs", "a point that takes the branch is found, or none is and it is not decided"


def test_code_that_refuses_everything_computes_nothing():
    def refusing(sigma2_loc, tau2, K):
        return validation.positive("sigma2_loc", -mean_regularized.optimal_mse(sigma2_loc, tau2, K))

    assert traced(replace(find("mrmtl:cor6.4"), computed=refusing)).state == "refuses"


def test_users_see_nothing_of_it():
    before = dict(vars(aggregation))
    assert traced(find("fedhdp:lemma2:rstar")).state == "equal"
    assert vars(aggregation) == before
    assert aggregation.np is np
    with pytest.raises(ValueError, match="must be a number"):
        validation.nonnegative("tau2", symbols(sp.Symbol("x")))
    with pytest.raises(ValueError, match="must be a number"):
        aggregation.optimal_ratio(2, 3, np.array(sp.Symbol("x"), object), 1.0, 1.0, 1.0)


@pytest.mark.parametrize("name", sorted(set(FORMULAS) & {n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)}))
def test_a_function_of_numpy_stands_for_its_formula(name):
    x = 0.375
    expected = getattr(np, name)(x)
    np.testing.assert_allclose(float(FORMULAS[name](sp.Rational(3, 8))), expected, rtol=1e-14)


def mutants(function):
    """The function with one operator changed, one after the other, each with what was there."""
    plain = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(plain))

    def operators(tree):
        return [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and type(n.op) in SWAP]

    for k in range(len(operators(ast.parse(source).body[0]))):
        tree = ast.parse(source)
        tree.body[0].decorator_list = []
        found = operators(tree)
        if k == len(found):  # those in decorators are not the function's
            return
        before = ast.unparse(found[k])
        found[k].op = SWAP[type(found[k].op)]()
        space = dict(plain.__globals__)
        exec(compile(ast.fix_missing_locations(tree), inspect.getfile(plain), "exec"), space)
        yield before, plain, space[plain.__name__]


def called(claim):
    """The functions of estimators that a claim's `computed` names, itself or by its helpers."""
    sources = reach.sources()
    nodes = reach.collect(sources, claim.computed, reach.Reached()).nodes
    nodes |= {used for node in nodes if node[0].startswith("theory.") for used in sources.uses(node)}
    return [n for n in nodes if n[0].startswith("estimators.closed_forms.") and n[1].islower()]


@pytest.mark.slow
def test_a_changed_operator_of_any_traced_closed_form_is_seen():
    agrees = cache(lambda i: traced(find(i)).state == "equal")
    using = defaultdict(list)
    for claim in claims():
        if claim.computed is not None and len(claim.cases()) <= 12:
            for module, name in called(claim):
                function = getattr(importlib.import_module(module), name)
                if inspect.isfunction(function) and len(using[function]) < 6 and agrees(claim.id):
                    using[function].append(claim)
    fate = Counter()
    unseen = []
    with np.errstate(all="ignore"):
        for function, users in using.items():
            for before, plain, changed in mutants(function) if users else ():
                world = World(instead={plain: changed})
                seen = any(traced(claim, world).state != "equal" for claim in users)
                fate[seen] += 1
                if not seen:
                    unseen.append(f"{plain.__module__}.{plain.__name__}".removeprefix("estimators.") + f": {before}")
    assert {u.partition(":")[0] for u in unseen} <= set(UNSEEN), unseen
    assert fate[True] > 200
    assert fate[False] <= 40
