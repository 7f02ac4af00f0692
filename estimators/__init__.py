"""Closed forms and estimators for clients who borrow strength from each other.

What computes lives here (NumPy, SciPy, Numba); what is *true* lives in ``theory``.  Importing the package
costs next to nothing: its modules and the few names below are loaded at first use, so that SciPy and Numba
are paid for only by those who need them.

A map:

- *Fitted models* of many clients (``model`` says what all of them offer, ``coverage`` measures their intervals).
  Means: ``gaussian_means``, ``point_normal``, ``mixture_means``, ``nonparametric``.  Counts: ``beta_binomial``,
  ``gamma_poisson``, ``nonparametric``.  Regressions: ``linear_clients``, ``logistic_clients``.  Private messages:
  ``federated_means``, ``private``.
- *Their data*: ``client_table`` (files), ``client_rows`` (regressions), ``streaming`` and ``streaming_passes`` (more
  clients than memory), ``tally_state``, ``datasets``.
- *Closed forms* of the papers: ``gaussian``, ``bernoulli``, ``mixture``, ``regression``, ``aggregation``,
  ``personalization``, ``mean_regularized``.
- *The server's side*: ``server_weights``, ``robust_pca``, ``variance_components``, ``strengths``.
- *Privacy*: ``mechanisms``, ``quantization``, ``privacy`` and ``accounting``, ``tuning``, ``dpsgd``.
- *Learning*: ``priors``, ``gradient_personalization``, ``distillation``, ``adaped``; ``federated`` (data,
  models, backends, algorithms, accounting and audits).
- *Simulation*: ``montecarlo``.

What is not in the map is machinery of those modules.

Numbers, arrays, and columns of data frames are read strictly: what is masked, missing, complex, a date, a boolean or text is
refused with its position and the fix.  Columns with labels (a pandas index) are paired by position if their labels are equal
and refused if not; True and False are taken for the responses of a regression and for answers of yes and no only.

>>> import estimators
>>> round(float(estimators.mean_regularized.mse(1.0, sigma2_loc=1.0, tau2=1.0, K=10)), 12)
0.55
"""

from estimators.lazy import attach

MODULES = (
    "accounting",
    "adaped",
    "aggregation",
    "bernoulli",
    "beta_binomial",
    "client_rows",
    "client_table",
    "coverage",
    "datasets",
    "distillation",
    "dpsgd",
    "federated",
    "federated_means",
    "gamma_poisson",
    "gaussian",
    "gaussian_means",
    "gradient_personalization",
    "linear_clients",
    "logistic_clients",
    "mean_regularized",
    "mechanisms",
    "mixture",
    "mixture_means",
    "model",
    "montecarlo",
    "nonparametric",
    "personalization",
    "point_normal",
    "priors",
    "privacy",
    "private",
    "quantization",
    "regression",
    "robust_pca",
    "server_weights",
    "streaming",
    "streaming_passes",
    "strengths",
    "tally_state",
    "tuning",
    "variance_components",
)
HOMES = {
    "aggregation": "precision_weights",
    "beta_binomial": "BetaBinomial",
    "client_rows": "RegressionTally",
    "client_table": "ClientTable read_client_table",
    "datasets": "efron_morris",
    "federated_means": "FederatedMeans",
    "gamma_poisson": "GammaPoisson",
    "gaussian": "from_samples james_stein",
    "gaussian_means": "GaussianMeans",
    "linear_clients": "LinearClients",
    "logistic_clients": "LogisticClients",
    "mixture_means": "MixtureMeans",
    "nonparametric": "NonparametricCounts NonparametricMeans NonparametricRates",
    "point_normal": "PointNormalMeans",
    "streaming": "GaussianTally RowTally SampleTally",
    "streaming_passes": "fit_passes",
}

__all__ = [*MODULES, *" ".join(HOMES.values()).split()]
__getattr__, __dir__ = attach(__name__, HOMES, MODULES)
