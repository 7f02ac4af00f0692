"""What one looks at: each figure is a module with `compute(quick) -> dict` apart from `draw(data) -> Figure`.

Belongs here: the names of the figures, loaded on first use, and what is said of unknown names.  Does not belong here:
matplotlib, numba or any work at import, because the console script imports this package for every command.

Lines are closed forms from ``estimators``; points are Monte Carlo of the raw model.  `compute` raises
``points.FigureContradiction`` when the two disagree, so a figure cannot contradict what it shows.
"""

from importlib import import_module

from estimators.system.console import hint

__all__ = ["FIGURES", "check_names", "load"]

FIGURES = {
    "opt_out_regression": "figures.opt_out_regression",
    "opt_out_point": "figures.opt_out_point",
    "server_variance_ratio": "figures.server_variance_ratio",
    "server_variance_fraction": "figures.server_variance_fraction",
    "mr_mtl_risk": "figures.mr_mtl_risk",
    "mr_mtl_gaps": "figures.mr_mtl_gaps",
    "mr_mtl_tuning": "figures.mr_mtl_tuning",
    "silo_strength": "figures.silo_strength",
    "dpsgd_noise": "figures.dpsgd_noise",
    "noise_estimates": "figures.noise_estimates",
    "aggregate_noise": "figures.aggregate_noise",
    "gaussian_risk": "figures.gaussian_risk",
    "bernoulli_moments": "figures.bernoulli_moments",
    "bernoulli_private": "figures.bernoulli_private",
    "mixture_learning": "figures.mixture_learning",
    "private_messages": "figures.private_messages",
    "adaped_bound": "figures.adaped_bound",
    "collaboration_region": "figures.collaboration_region",
    "privacy_audit": "figures.privacy_audit",
    "simulation_error": "figures.simulation_error",
}
"""Name of each figure and the module that computes and draws it."""


def check_names(names):
    """Raise ValueError for the first name that is no figure, with the names nearest to it.

    >>> check_names(["mr_mtl_risk", "opt_out_points"])
    Traceback (most recent call last):
    ...
    ValueError: no figure is called 'opt_out_points'; did you mean opt_out_point or opt_out_regression?
    """
    for name in names:
        if name not in FIGURES:
            raise ValueError(f"no figure is called {name!r}; {hint(name, FIGURES)}")


def load(name):
    """Return the module of the figure `name`, which has CLAIMS, compute and draw."""
    check_names([name])
    return import_module(FIGURES[name])
