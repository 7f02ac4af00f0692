"""Where modules were before they had rooms: old import paths keep working for one release, with a warning.

Belongs here: one table, old place to new place, and the finder that reads it.  Does not belong here: names inside modules.
Delete this module, and the call in ``estimators``, with the release after 0.2.
"""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

__all__ = ["MOVED", "redirect"]

ROOMS = {
    "closed_forms": "aggregation bernoulli distillation gaussian mean_regularized mixture personalization priors "
    "quantization",
    "normal_means": "gaussian_means mixture_means point_normal streaming streaming_passes",
    "counts": "beta_binomial gamma_poisson",
    "npmle": "nonparametric",
    "regression": "client_rows gradient_personalization linear_clients logistic_clients",
    "accounting": "adaped dpsgd mechanisms privacy tuning",
    "server": "federated_means robust_pca server_weights strengths variance_components",
    "tables": "client_table datasets",
    "numerics": "tally_state",
}
MOVED = {f"estimators.{name}": f"estimators.{room}.{name}" for room, names in ROOMS.items() for name in names.split()}
"""Old place of a public module and its new one."""


class Forward(MetaPathFinder, Loader):
    """Import an old place as the module at its new place."""

    def find_spec(self, fullname, path=None, target=None):
        """Return a spec for places of `MOVED`, None for all others."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec):
        """Return the module at the new place; the warning points at the importing line."""
        new = MOVED[spec.name]
        warnings.warn(f"{spec.name} is now {new}; the old place works for one release", DeprecationWarning, 2)
        module = import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module):
        """Give the module, which is loaded already, its own spec back."""
        module.__spec__ = getattr(module.__spec__, "loader_state", None)


def redirect():
    """Let imports of old places find the new ones."""
    if not any(isinstance(finder, Forward) for finder in sys.meta_path):
        sys.meta_path.append(Forward())
