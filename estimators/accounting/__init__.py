"""Differential privacy in numbers: what a release costs, what several cost together, and the noise that a budget allows.

An *event* says what was released, an *accountant* what that costs:

>>> from estimators.accounting import Event, guarantee, noise_for
>>> training = Event(sampling="poisson", rate=0.02, number=1000)
>>> z = noise_for(training, eps=2.0, delta=1e-4)
>>> bool(guarantee(training.at(z), delta=1e-4).eps <= 2.0)
True

Belongs here: ``events`` (what was released), ``accountants`` (eps, and the noise that a promise needs), ``losses`` (privacy
loss distributions), ``budget`` (guarantees that add up), ``adaptive`` (spending that depends on answers), ``budget_file`` (a
budget that remembers), ``privacy`` (divergences, conversions, curves of one mechanism), ``mechanisms`` (sensitivities, exact
Gaussian noise and releases of real numbers), ``tuning`` (the best of several runs), ``shuffling`` (reports whose senders are
hidden), ``dpsgd`` and ``adaped`` (the papers' algorithms). Does not belong here: a client's reports (``private``), training
(``federated.privacy``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .accountants import calibrate_noise, epsilon, noise_for
    from .budget import (
        Budget,
        Guarantee,
        composed_gaussian_epsilon,
        composed_gaussian_sigma,
        guarantee,
        in_parallel,
        total_epsilon,
    )
    from .budget_file import BudgetError, BudgetFile
    from .events import Event

HOMES = {
    "accountants": "calibrate_noise epsilon noise_for",
    "budget": "Budget Guarantee composed_gaussian_epsilon composed_gaussian_sigma guarantee in_parallel total_epsilon",
    "budget_file": "BudgetError BudgetFile",
    "events": "Event",
}

__all__ = [
    "Budget",
    "BudgetError",
    "BudgetFile",
    "Event",
    "Guarantee",
    "calibrate_noise",
    "composed_gaussian_epsilon",
    "composed_gaussian_sigma",
    "epsilon",
    "guarantee",
    "in_parallel",
    "noise_for",
    "total_epsilon",
]
__getattr__, __dir__ = attach(__name__, HOMES)
