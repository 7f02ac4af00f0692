"""Arrays of which one thing alone is wrong: each clause of a check refuses by itself, and what all of them allow passes.

Belongs here: shapes, ends and sums that a check joins with "or", across all rooms.  Does not belong here: kinds of arguments
(numerics/test_strict_input.py), what a model needs to be fitted (the tests of its room).
"""

import numpy as np
import pytest

from estimators.accounting import budget, mechanisms, privacy, shuffling, tuning
from estimators.accounting.budget import Guarantee
from estimators.closed_forms import bernoulli, distillation, gaussian, intervals, mean_regularized, mixture, priors
from estimators.closed_forms import regression as known_regression
from estimators.counts import beta_binomial, gamma_poisson, tallies
from estimators.decisions import extremes, ranking
from estimators.federated import audit, one_run, task
from estimators.federated.data import choices, federation
from estimators.federated.experiments import experiment
from estimators.federated.models import Convolution, Model
from estimators.federated.plans import PrivacyPlan, Release
from estimators.federated.predictions import Mixture
from estimators.federated.schedule import Schedule
from estimators.montecarlo import streams
from estimators.montecarlo.checks import DECLARED, Check
from estimators.montecarlo.moments import Moments
from estimators.normal_means import gaussian_means, sample_means, streaming, variances
from estimators.npmle import clients as npmle_clients
from estimators.npmle import solver
from estimators.numerics import exact, rows
from estimators.private import distributed, rates, raw_rows, reports, secure_sum
from estimators.private import regression as private_regression
from estimators.regression import covariances, gradient_personalization
from estimators.regression.client_rows import Groups
from estimators.server import robust_pca, server_weights, strengths, variance_components

NONE, ROW, TABLE, CUBE = np.zeros(0), np.array([0.5, 0.25, 0.25]), np.full((2, 3), 0.5), np.full((2, 2, 2), 0.5)
WIDE = np.zeros((0, 3))
CURVE = [(1.0, 0.0)]


def generator():
    return np.random.default_rng(1)


def guess(**changed):
    return one_run.guess_chance(1, **{"guesses": 2, "canaries": 3, "curve": CURVE} | changed)


def judged(scores, coins, shares=(1.0,)):
    return one_run.judged_guesses(scores, coins, curve=CURVE, delta=0.0, claimed=1.0, shares=shares)


def clipped_mean(values):
    return mechanisms.private_mean(values, c=1.0, eps=1.0, delta=0.0, adjacency="replace", rng=generator())


def together(values):
    return distributed.distributed_mean(values, bounds=(0.0, 1.0), eps=1.0, delta=1e-6, threshold=2, generator=generator())


def discrete(mus, p):
    Xs, Ys = [np.ones((3, 2)), np.eye(2)], [np.ones(3), np.ones(2)]
    return gradient_personalization.discrete_prior(Xs, Ys, mus=mus, p=p, sigma2_x=1.0, T=2)


def means_of(y, s2, n):
    return sample_means.SampleMeans().fit(y, s2, n)


def on_grid(grid):
    return solver.read_grid(npmle_clients.binomial_clients([1, 2], [3, 4]), grid)


def gap_of(support, masses):
    return solver.optimality_gap(npmle_clients.gaussian_clients([0.0, 1.0], [1.0, 1.0]), support, masses)


def examples(x, y):
    return federation.Examples(x, y, classes=2, name="pool")


def schedule(changed=None):
    parts = {"clients": [0], "indices": np.zeros((1, 1, 2)), "weights": np.ones((1, 1, 2)), "divisors": np.ones((1, 1))}
    return Schedule(**parts | {"steps": [1]} | (changed or {}))


def pairs(clients):
    model = gaussian_means.GaussianMeans("fixed", mu=0.0, tau2=1.0).fit([2.0, 0.0], 1.0)
    return ranking.pairwise(model, clients)


LAYERS = (Convolution(2, 3),)
SAID = {"client": "a", "n": 3, "guarantee": Guarantee(1.0, 0.0, "row", "client", "laplace"), "noise_variance": 0.5}
TRAINING = Release(what="training", rounds=range(5), times=2)
RENYI = {"orders": np.array([2.0, 3.0]), "rdp": np.array([0.1, 0.2])}

# What is called, what it takes, and what it refuses one by one, with a word of the message.
CLAUSES = [
    (lambda a, s: budget.composed_gaussian_epsilon(sensitivities=a, sigmas=s, delta=1e-5), [(ROW, ROW)],
     [(ROW, ROW[:2]), (TABLE, TABLE)], "sensitivities"),
    (lambda a, s: budget.composed_gaussian_sigma(sensitivities=a, shares=s, eps=1.0, delta=1e-5), [(ROW, ROW)],
     [(ROW, np.array([0.5, 0.5])), (ROW, 2 * ROW), (ROW, ROW / 2)], "shares"),
    (lambda s: mechanisms.exponential_logits(s, 1.0, 1.0), [(ROW,), (ROW[:1],)], [(NONE,), (TABLE,)], "scores"),
    (lambda o, r: privacy.epsilon_from_rdp(o, r, delta=1e-5), [tuple(RENYI.values())],
     [(RENYI["orders"], RENYI["rdp"][:1]), (np.full((1, 2), 2.0), np.full((1, 2), 0.1)), (NONE, NONE)], "orders"),
    (lambda p, q: privacy.renyi_divergence(p, q, order=2.0), [(ROW, ROW), (np.ones(1), np.ones(1))],
     [(ROW, np.array([0.5, 0.5])), (TABLE / 1.5, TABLE / 1.5), (NONE, NONE)], "p"),
    (tuning._law, [(ROW,), (np.array([0.5, 0.5 + 5e-10]),)], [(TABLE / 3,), (2 * ROW,), (ROW / 2,)], "masses"),
    (lambda x: bernoulli.moments(x, 4), [([1, 2],)], [([1],), ([[1, 2], [2, 3]],)], "x"),
    (lambda m, p: bernoulli.moments_from_reports(m, p), [([0.2, 0.4], [0.1])],
     [([0.2], [0.1]), ([[0.2, 0.4]] * 2, [0.1]), ([0.2, 0.4], []), ([0.2, 0.4], [[0.1]])], "means|pairs"),
    (distillation.read_inputs, [(ROW, ROW), (ROW[:1] * 2, None)],
     [(TABLE / 3, None), (NONE, None), (ROW, np.array([0.5, 0.5])), (ROW, 2 * ROW), (ROW, ROW / 2)], "p_"),
    (distillation.best_psi, [(ROW,), (ROW[:1],)], [(NONE,), (TABLE,)], "kd"),
    (lambda t: gaussian.james_stein_conditional_risk(t, 1.0, 2), [(ROW,), (ROW[:2],)], [(ROW[:1],), (TABLE,)], "theta"),
    (lambda x, toward: gaussian.james_stein(x, 1.0, toward), [(np.arange(4.0), "mean"), (ROW, 0.0)],
     [(np.arange(3.0), "mean"), (np.arange(2.0), 0.0), (1.0, 0.0)], "x"),
    (gaussian.from_samples, [([ROW, ROW[:2]],)], [([ROW, NONE],), ([ROW, TABLE],)], "samples"),
    (lambda e: intervals.second_moments(e, 1.0), [(ROW - 3,)], [(NONE,), (TABLE,)], "residuals"),
    (intervals.linear_shrinkage, [(ROW, 1.0), (ROW, ROW)], [(TABLE, 1.0), (ROW, ROW[:2]), (TABLE, TABLE)], "y"),
    (intervals.worst_noncoverage, [(0.5,), (NONE,), (1.0,)], [(0.0,), (np.array([0.5, 0.0]),)], "w"),
    (mean_regularized.read_strengths, [(ROW[:2],)], [(ROW[:1],), (TABLE,)], "lam"),
    (lambda x: mixture.points("x", x), [(ROW,), (TABLE,)], [(NONE,), (CUBE,), (1.0,)], "x"),
    (priors.read_parameters, [(TABLE,)], [(ROW,), (WIDE,)], "thetas"),
    (lambda X: priors.read_sample(X, np.ones(len(X)), np.ones((1, 3))), [], [(WIDE,), (CUBE,)], "X"),
    (lambda p, mus, v: priors.mixture_penalty(np.ones((4, 3)), p, mus, v), [([0.5, 0.5], TABLE, [1.0, 2.0])],
     [([[0.5], [0.5]], TABLE, [1.0, 2.0]), ([0.5, 0.5], TABLE[:, :2], [1.0, 2.0]), ([0.5, 0.5], TABLE, [1.0])], "p"),
    (known_regression.read_design, [(TABLE,)], [(ROW,), (np.zeros((2, 0)),)], "X"),
    (beta_binomial.read_counts, [([1], [2])], [([], []), ([[1, 2]], 3)], "x"),
    (gamma_poisson.read_counts, [([1], [2.0])], [([], []), ([[1, 2]], 3.0)], "x"),
    (lambda k: tallies.ascending("keys", np.array(k)), [([0, 1, 3],), ([2],)],
     [([1, 1],), ([2, 1],), ([-1, 1],), ([[0, 1]],)], "keys"),
    (extremes.normal_r_values, [(ROW, 1.0), (ROW[:1], [1.0])], [(NONE, 1.0), (TABLE, 1.0), (ROW, ROW[:2])], "estimates"),
    (ranking.simultaneous_ranks, [(ROW[:2], 1.0)], [(ROW[:1], 1.0), (TABLE, 1.0), (ROW, ROW[:2])], "estimates"),
    (gaussian_means.read_estimates, [(ROW[:1], 1.0)], [(NONE, 1.0), (TABLE, 1.0)], "estimates"),
    (means_of, [(ROW, ROW, 4), (ROW, ROW, [4, 5, 6])],
     [(TABLE, TABLE, 4), (NONE, NONE, 4), (ROW, ROW[:2], 4), (ROW, ROW, [4, 5])], "means"),
    (variances.moderated_variances, [(ROW, 4), (ROW, [4, 5, 6])],
     [(TABLE, 4), (ROW, [4, 5]), (TABLE, np.full((2, 3), 4))], "variances"),
    (on_grid, [([0.5, 0.7],), ([0.0, 1.0],)], [([],), ([[0.5]],), ([0.5, 1.1],)], "grid"),
    (gap_of, [([0.5], [1.0])], [([[0.5]], [[1.0]]), ([0.5], [0.5, 0.5]), ([0.5], [0.0])], "support|masses"),
    (exact.power_sums, [(ROW, np.array([0, 1, 1]), 2), (NONE, np.zeros(0), 2)],
     [(TABLE, np.zeros((2, 3), int), 2), (ROW, np.array([0, 1]), 2), (ROW, np.array([0.0, 1.0, 1.0]), 2),
      (ROW, np.array([0, 1, 2]), 2), (ROW, np.array([0, -1, 1]), 2)], "group"),
    (lambda X, y: rows.read_rows([X], [y]), [(TABLE, ROW[:2])],
     [(CUBE, ROW[:2]), (np.zeros((2, 0)), ROW[:2]), (TABLE, ROW)], "Xs|Ys"),
    (lambda v: rates.noisy_rate_moments(v, 5, 0.1), [([0.2, 0.6],)], [([0.2],), ([[0.2, 0.6]],)], "values"),
    (lambda v: secure_sum.checked_round(v, 2, 16), [(np.ones((3, 2), int),)],
     [(np.ones((3, 2)),), (np.ones(3, int),), (np.ones((3, 0), int),)], "values"),
    (raw_rows.read_rows, [(ROW[:1],)], [(NONE,), (TABLE,)], "rows"),
    (raw_rows.read_names, [(["a", "b"], 2)], [(["a"], 2), (["a", 3], 2)], "names"),
    (lambda X: private_regression.read_design(X, np.ones(len(X))), [(TABLE,)], [(WIDE,), (CUBE,), (np.zeros((2, 0)),)], "X"),
    (lambda b: reports.read_bounds("bounds", b), [((0.0, 1.0),)],
     [((0.0, 1.0, 2.0),), ((1.0, 1.0),), ((1.0, 0.0),)], "bounds"),
    (together, [], [(CUBE,), (np.zeros((3, 0)),), (np.zeros((0, 2)),)], "values"),
    (lambda c: covariances.read_prior(None, c, 2), [(np.eye(2),), ([[1.0, 1.0], [1.0, 1.0]],), (np.zeros((2, 2)),)],
     [([[1.0, 0.5], [0.4, 1.0]],), ([[1.0, 2.0], [2.0, 1.0]],)], "covariance"),
    (lambda s: covariances.read_shared(s, 3, "full"), [([0, 2],), ([],)], [([3],), ([1, 1],), ([[0, 1]],)], "shared"),
    (lambda s: covariances.read_shared(s, 3, np.eye(3)), [([],)], [([0],)], "shared"),
    (discrete, [(TABLE[:, :2], None), (TABLE[:, :2], [0.5, 0.5])],
     [(TABLE, None), (ROW[:2], None), (TABLE[:, :2], ROW), (TABLE[:, :2], [0.5, 0.6]), (TABLE[:, :2], [0.5, 0.4])], "mus|p"),
    (robust_pca.read_updates, [(TABLE,)], [(ROW,), (WIDE,), (np.zeros((2, 0)),), (CUBE,)], "updates"),
    (lambda s: robust_pca.excess_noise(s, 0.1), [(ROW,)], [(NONE,), (TABLE,)], "sigma2s"),
    (lambda v: server_weights.per_client("n_samples", v), [(ROW[:1],)], [(NONE,), (TABLE,)], "n_samples"),
    (server_weights.stack_updates, [([ROW, ROW],)], [([ROW, ROW[:2]],), ([TABLE, TABLE],), ([NONE, NONE],)], "vectors"),
    (lambda v: strengths.read_clients(v, 1.0, 0.0, "uniform"), [(ROW,)], [(NONE,), (TABLE,)], "own_variances"),
    (variance_components.read_messages, [(ROW,), (TABLE,)], [(NONE,), (CUBE,), (np.zeros((2, 0)),), (1.0,)], "messages"),
    (variance_components.round_variances, [(np.arange(6.0).reshape(2, 3) ** 2,)],
     [(ROW,), (np.zeros((2, 0)),), (np.arange(3.0)[None] ** 2,), (np.arange(4.0).reshape(2, 2) ** 2,), (CUBE[None],)],
     "rounds"),
    (lambda s: choices.eps_levels(4, s, seed=0), [([(0.5, 1.0), (0.5, 2.0)],)],
     [([],), ([(0.5, 1.0), (0.6, 2.0)],), ([(0.4, 1.0)],)], "shares"),
    (task.weighted_sum, [(ROW, np.ones((3, 2)))], [(TABLE, TABLE), (ROW, np.ones((2, 2)))], "weights|rows"),
    (lambda y: federation.labels("y", y), [([0, 1],), ([0.0, 2.0],), ([True, False],)],
     [([[0, 1]],), (["a"],), ([0.5, 1.0],), ([-1, 0],)], "y"),
    (lambda r: federation.rows_of("rows", np.array(r), 3), [([0, 2],)],
     [([[0, 2]],), ([0.0, 2.0],), ([-1, 2],), ([0, 3],)], "rows"),
    (lambda v: federation.held_share("share", v), [(0,), (0.5,)], [(1,), (-0.1,), ("0.5",)], "share"),
    (lambda v: audit.samples("left", v), [(np.ones((4, 1)),), (np.ones(4),)], [(CUBE,), (np.ones(3),)], "left"),
    (lambda c: guess(curve=c), [(CURVE,), ([(0.0, 0.5)],)],
     [(3.0,), ([],), ([(1.0,)],), ([(-0.1, 0.0)],), ([(1.0, -0.1)],)], "curve"),
    (judged, [(ROW, [1, -1, 1])],
     [(TABLE, [[1, -1, 1]] * 2), (ROW, [1, -1]), (NONE, []), (ROW, [1, -1, 1], ()), (ROW, [1, -1, 1], (0.0, 1.0)),
      (ROW, [1, -1, 1], (0.5, 1.1)), (ROW, [1, -1, 1], [[1.0]])], "scores|coins|shares"),
    (lambda sizes, loss="softmax": Model(sizes, loss), [((3, 2),), ((3, 1), "square")],
     [([3, 2],), ((3,),), ((3, 1),), ((3, 2), "square"), ((3, 2), "logistic")], "sizes"),
    (lambda image, layers=LAYERS: Model((16, 2), "softmax", image, layers), [((4, 4, 1),), ((), ())],
     [((4, 4),), ((4, 3, 1),), ((4, 4, 1), ()), ((),), ((2, 8, 1),)], "image"),
    (examples, [(TABLE, [0, 1]), (TABLE.astype(int), [0, 1]), (np.ones((1, 2)), [1])],
     [(ROW, [0, 1, 1]), (TABLE, [[0, 1]]), (WIDE, []), (TABLE, [0, 1, 1]), (TABLE, [0, 2]),
      (TABLE * np.nan, [0, 1])], "pool|y"),
    (lambda x, y: federation.Examples(x, y, name="pool"), [(TABLE, [0.5, 2.5])],
     [(TABLE, [0.5, np.inf]), (TABLE.astype(str), [0, 1]), (TABLE, 0.5)], "pool|x|y"),
    (Mixture, [([[0.25, 0.75]], np.ones((2, 1)))],
     [([0.25, 0.75], np.ones((2, 1))), ([[0.25, 0.75]], np.ones(2)), ([[0.25, 0.75]], np.ones((3, 1))),
      ([[0.25, 0.7]], np.ones((2, 1)))], "weights"),
    (lambda releases: PrivacyPlan(releases=releases), [([],), ([TRAINING],)],
     [(TRAINING,), (["training"],), ([TRAINING, TRAINING],)], "releases"),
    (lambda texts: PrivacyPlan(uncovered=texts), [(["sizes"],)], [("sizes",), ([""],), ([3],)], "uncovered"),
    (Moments, [(0, [1.0], [[0.0]]), (3, ROW, np.eye(3))],
     [(-1, [1.0], [[0.0]]), (3, [], np.zeros((0, 0))), (3, TABLE, np.eye(6)), (3, ROW, np.eye(2)), (3, ROW, ROW)],
     "count|mean|scatter"),
    (Moments.of, [(np.ones((1, 2)),)], [(ROW,), (WIDE,)], "sample"),
    (lambda a, b: Moments(3, ROW, np.eye(3)).ratio(a, b), [(ROW, ROW)],
     [(ROW[:2], ROW), (ROW, [1.0, np.nan, 0.0]), (ROW, np.zeros(3))], "coefficients|denominator"),
    (DECLARED.required_reps, [(0.0,), (1.0, 0.5)], [(-1e-9,), (np.inf,), (np.nan,), (1.0, 0.0)], "relative_sd|detectable"),
    (lambda c, e=1.0, s=1.0: Check("label", c, e, s), [((0.0, 1.0),)],
     [((),), ((0.0, 0.0),), ((1.0, np.inf),), ((1.0,), np.nan), ((1.0,), 1.0, 0.0), ((1.0,), 1.0, np.inf)],
     "coefficients|expected|scale"),
    (lambda eta: tuning.TruncatedNegativeBinomial(eta=eta, gamma=0.5), [(-0.999,), (0.0,)], [(-1.0,), ([1.0],)], "eta"),
    (tuning.PoissonRuns, [(1.0,)], [(0.999,), ([2.0],)], "mean"),
    (lambda g: shuffling.shuffled(g, delta=1e-6, n=1000), [(Guarantee(0.5, 0.0, "client", "client", "laplace"),)],
     [(Guarantee(0.5, 1e-9, "client", "client", "laplace"),), (Guarantee(0.5, 0.0, "row", "client", "laplace"),),
      (Guarantee(0.5, 0.0, "client", "server", "laplace"),)], "guarantee"),
    (lambda v: reports.one("value", v), [(3,), (np.float32(0.5),), (0.5,)],
     [(True,), ("3",), (None,), (10**400,), (np.inf,)], "value"),
    (lambda p: reports.RegressionReport(products=p, norm=1.0, **SAID), [(((1.0, 0.5), (0.5, 2.0)),)],
     [(((1.0,),),), (((1.0, 0.5),),), ((1.0, 0.5),), (((1.0, 0.5), (0.4, 2.0)),)], "products"),
    (lambda v: experiment.text("title", v), [("a",)], [("",), (" ",), (3,)], "title"),
    (lambda v: experiment.whole("rounds", v, 1), [(1,)], [(0,), (True,), (1.0,)], "rounds"),
    (lambda v: experiment.real("rate", v), [(1,), (0.5,)], [(True,), ("1",), (float("inf"),), (float("nan"),)], "rate"),
    (lambda v: experiment.keys("data", v, ("kind",), ("seed",)), [({"kind": 1, "seed": 2},), ({"kind": 1},)],
     [({"seed": 2},), ({"kind": 1, "more": 2},), ([],)], "data"),
    (schedule, [()], [({"indices": [[0]]},), ({"weights": np.ones((1, 2, 2))},), ({"divisors": np.ones((1, 2))},),
     ({"clients": [0, 1]},), ({"steps": [1, 1]},), ({"divisors": np.zeros((1, 1))},), ({"steps": [2]},)],
     "indices|clients|divisors|steps"),
    (lambda c: schedule().rows(np.array(c)), [([0],), ([True],)], [([0.0],), ([[0]],)], "chosen"),
    (lambda c, v: streaming.RowTally().add(c, v), [(["a", "b"], [1.0, 2.0])],
     [(["a"], [1.0, 2.0]), ([["a", "b"]], [[1.0, 2.0]])], "clients"),
    (lambda g: Groups.read(g, 3, True), [(None,), (["a", "a", "b"],)],
     [(["a", "b"],), (["a", None, "b"],), ([1.0, np.nan, 1.0],), (["a"] * 3,), (["a", "b", "c"],)], "groups"),
    (lambda g: Groups.read(g, 3, False), [(None,)], [(["a", "a", "b"],)], "groups"),
    (pairs, [([0, 1],), (None,)], [([],), ([[0, 1]],), ([2],)], "clients"),
    (lambda k: streams.stream(k, 0), [("a",)], [("",), (3,)], "key"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "taken", "refused", "names"), CLAUSES)
def test_each_clause_of_a_check_refuses_by_itself(call, taken, refused, names):
    for good in taken:
        call(*good)
    for bad in refused:
        with pytest.raises(ValueError, match=rf"\b(?:{names})"):
            call(*bad)
