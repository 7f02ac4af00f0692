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
    "estimators.closed_forms": "aggregation bernoulli distillation gaussian mean_regularized mixture personalization priors "
    "quantization",
    "estimators.normal_means": "gaussian_means mixture_means point_normal streaming streaming_passes",
    "estimators.counts": "beta_binomial gamma_poisson",
    "estimators.npmle": "nonparametric",
    "estimators.regression": "client_rows gradient_personalization linear_clients logistic_clients",
    "estimators.accounting": "adaped dpsgd mechanisms privacy tuning",
    "estimators.server": "federated_means robust_pca server_weights strengths variance_components",
    "estimators.tables": "client_table datasets",
    "estimators.numerics": "tally_state",
    "theory.engine": "algebra bruteforce claim condition derivation domain evidence hierarchy intervals judging mutants "
    "notation registry simulation",
    "theory.coq": "prove",
    "theory.papers": "fedhdp feo2 generative mrmtl robusthdp shared",
}
MOVED = {f"{room.partition('.')[0]}.{name}": f"{room}.{name}" for room, names in ROOMS.items() for name in names.split()}
"""Old place of a public module or package and its new one."""


def new_place(old):
    """Return where a module is now that was at `old`, itself or in a package that moved; None for all others.

    >>> new_place("estimators.gaussian"), new_place("theory.fedhdp.tables"), new_place("theory.engine")
    ('estimators.closed_forms.gaussian', 'theory.papers.fedhdp.tables', None)
    """
    package, name, *inner = [*old.split(".", 2), ""]
    new = MOVED.get(f"{package}.{name}")
    return ".".join([new, *filter(None, inner)]) if new else None


class Forward(MetaPathFinder, Loader):
    """Import an old place as the module at its new place."""

    def find_spec(self, fullname, path=None, target=None):
        """Return a spec for old places, None for all others."""
        return ModuleSpec(fullname, self) if new_place(fullname) else None

    def create_module(self, spec):
        """Return the module at the new place; the warning points at the importing line."""
        new = new_place(spec.name) or spec.name
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
        sys.meta_path.insert(0, Forward())  # before those that would find the modules of a moved package a second time
