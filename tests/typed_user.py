"""What a user's file looks like to a type checker: ``test_types`` runs pyright on it, and Python."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

from estimators import BetaBinomial, GaussianMeans, GaussianTally, closed_forms, montecarlo, private
from estimators.decisions import Discoveries, Ranks, Summary, discoveries
from estimators.private import MeanClient

Floats = NDArray[np.float64]

model = GaussianMeans("marginal-likelihood").fit([1.0, 2.0, 3.0, 6.0], variances=1.0)
assert_type(model, GaussianMeans)
assert_type(model.interval(0.9), tuple[Floats, Floats])
assert_type(model.posterior_mean_, Floats)
assert_type(model.rank(), Ranks)
assert_type(model.summary(), Summary)
assert_type(discoveries(model, 0.1), Discoveries)
assert_type(model.tau2_, float)
assert_type(model.converged_, bool)
assert_type(BetaBinomial().fit([1, 2, 3], 10), BetaBinomial)
assert_type(GaussianTally.of([1.0, 2.0], 1.0).add([3.0], 1.0), GaussianTally)
assert_type(closed_forms.aggregation.server_mse([5, 5], [0.0, 1.0], 1.0, 0.5), Floats)
assert_type(closed_forms.mean_regularized.mse(1.0, 1.0, 1.0, K=10), Floats)
report = MeanClient(bounds=(0.0, 10.0), eps=1.0, name="a").report([1.0, 2.0, 3.0])
assert_type(report, private.MeanReport)
assert_type(montecarlo.stream("user", 0), np.random.Generator)
