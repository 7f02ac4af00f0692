"""Closed forms and estimators for clients who borrow strength from each other.

What computes lives here (NumPy, SciPy, Numba); what is *true* lives in ``theory``.  Importing the package
costs next to nothing: its modules and the few names below are loaded at first use, so that SciPy and Numba
are paid for only by those who need them.

>>> import estimators
>>> round(float(estimators.mean_regularized.mse(1.0, sigma2_loc=1.0, tau2=1.0, K=10)), 12)
0.55
"""

from importlib import import_module

MODULES = (
    "adaped",
    "aggregation",
    "bernoulli",
    "client_rows",
    "client_table",
    "coefficient_model",
    "datasets",
    "distillation",
    "dpsgd",
    "gaussian",
    "gradient_personalization",
    "linear_clients",
    "logistic_clients",
    "logistic_normal",
    "mean_regularized",
    "mechanisms",
    "mixture",
    "model",
    "montecarlo",
    "personalization",
    "priors",
    "privacy",
    "quantization",
    "regression",
    "robust_pca",
    "tuning",
)
NAMES = {
    "ClientTable": "client_table",
    "GaussianMeans": "gaussian",
    "LinearClients": "linear_clients",
    "LogisticClients": "logistic_clients",
    "RegressionTally": "client_rows",
    "efron_morris": "datasets",
    "from_samples": "gaussian",
    "james_stein": "gaussian",
    "precision_weights": "aggregation",
    "read_client_table": "client_table",
}

__all__ = [*MODULES, *NAMES]


def __getattr__(name):
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    if name in NAMES:
        return getattr(import_module(f"{__name__}.{NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
