"""Closed forms and estimators for clients who borrow strength from each other.

What computes lives here (NumPy, SciPy, Numba); what is *true* lives in ``theory``.  Importing the package
costs next to nothing: its rooms and the few names below are loaded at first use, so that SciPy and Numba
are paid for only by those who need them.

Belongs here: the names that most users import.  Does not belong here: code.  The rooms:

- *Fitted models* (``model`` says what all of them offer, ``coverage`` measures their intervals): ``normal_means``,
  ``counts``, ``npmle`` (a prior of any shape), ``regression``; ``server`` for updates of a federation.
- *What to do with them*: ``decisions`` (ranks, discoveries, checks of the prior).
- *Their data*: ``tables`` (files, shipped data); ``fit`` goes from a table to an outcome.
- *Privacy*: ``accounting`` (what releases cost, the noise a budget allows), ``private`` (clients' noisy reports and what a
  server makes of them).
- *Formulas of the papers*: ``closed_forms``.
- *Learning*: ``federated`` (data, models, backends, algorithms, privacy, audits, experiments).
- *Simulation*: ``montecarlo``.
- What all of them use: ``numerics``, ``system``.

>>> import estimators
>>> round(float(estimators.closed_forms.mean_regularized.mse(1.0, sigma2_loc=1.0, tau2=1.0, K=10)), 12)
0.55
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach
from estimators.system.moved import redirect

if TYPE_CHECKING:
    from . import (
        accounting,
        closed_forms,
        counts,
        coverage,
        decisions,
        federated,
        fit,
        model,
        montecarlo,
        normal_means,
        npmle,
        numerics,
        private,
        regression,
        server,
        system,
        tables,
    )
    from .closed_forms.aggregation import precision_weights
    from .closed_forms.gaussian import from_samples, james_stein
    from .counts.beta_binomial import BetaBinomial
    from .counts.count_regression import BetaBinomialRegression, GammaPoissonRegression
    from .counts.gamma_poisson import GammaPoisson
    from .normal_means.gaussian_means import GaussianMeans
    from .normal_means.mixture_means import MixtureMeans
    from .normal_means.point_normal import PointNormalMeans
    from .normal_means.sample_means import SampleMeans
    from .normal_means.streaming import GaussianTally, RowTally, SampleTally
    from .normal_means.streaming_passes import fit_passes
    from .npmle.nonparametric import NonparametricCounts, NonparametricMeans, NonparametricRates
    from .regression.client_rows import RegressionTally
    from .regression.linear_clients import LinearClients
    from .regression.logistic_clients import LogisticClients
    from .server.federated_means import FederatedMeans
    from .tables.client_table import ClientTable, read_client_table
    from .tables.datasets import efron_morris

HOMES = {
    "closed_forms.aggregation": "precision_weights",
    "closed_forms.gaussian": "from_samples james_stein",
    "counts.beta_binomial": "BetaBinomial",
    "counts.count_regression": "BetaBinomialRegression GammaPoissonRegression",
    "counts.gamma_poisson": "GammaPoisson",
    "normal_means.gaussian_means": "GaussianMeans",
    "normal_means.mixture_means": "MixtureMeans",
    "normal_means.point_normal": "PointNormalMeans",
    "normal_means.sample_means": "SampleMeans",
    "normal_means.streaming": "GaussianTally RowTally SampleTally",
    "normal_means.streaming_passes": "fit_passes",
    "npmle.nonparametric": "NonparametricCounts NonparametricMeans NonparametricRates",
    "regression.client_rows": "RegressionTally",
    "regression.linear_clients": "LinearClients",
    "regression.logistic_clients": "LogisticClients",
    "server.federated_means": "FederatedMeans",
    "tables.client_table": "ClientTable read_client_table",
    "tables.datasets": "efron_morris",
}

__all__ = [
    "BetaBinomial",
    "BetaBinomialRegression",
    "ClientTable",
    "FederatedMeans",
    "GammaPoisson",
    "GammaPoissonRegression",
    "GaussianMeans",
    "GaussianTally",
    "LinearClients",
    "LogisticClients",
    "MixtureMeans",
    "NonparametricCounts",
    "NonparametricMeans",
    "NonparametricRates",
    "PointNormalMeans",
    "RegressionTally",
    "RowTally",
    "SampleMeans",
    "SampleTally",
    "accounting",
    "closed_forms",
    "counts",
    "coverage",
    "decisions",
    "efron_morris",
    "federated",
    "fit",
    "fit_passes",
    "from_samples",
    "james_stein",
    "model",
    "montecarlo",
    "normal_means",
    "npmle",
    "numerics",
    "precision_weights",
    "private",
    "read_client_table",
    "regression",
    "server",
    "system",
    "tables",
]
__getattr__, __dir__ = attach(__name__, HOMES, __all__)
redirect()
