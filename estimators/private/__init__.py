"""Private and communication-limited estimation: what clients run, what the server runs, and what is guaranteed.

A client turns its raw rows (``raw_rows``) into a small report (``client``, ``regression``), which is all that leaves it; its
own posterior stays with it (``at_home``).  The server turns reports into a prior and estimates (``server``, ``rates``,
``regression``); if it is trusted with raw means, it releases a prior once (``central``); or it sees no more than a sum
(``distributed``, over ``secure_sum``).  Each report carries its guarantee, with the adjacency that it holds for.

Underneath: ``reports`` is what is sent, ``noise`` with ``exact_noise`` (single draws) and ``exact_batches`` (arrays) what is
added, ``staircase`` and ``finite_output`` (designed in ``window_designs``) the purely private laws with the least variance,
``mechanisms`` which one to choose; ``noise_laws`` the laws of noised numbers, ``mean_posterior`` and ``rate_posterior`` what
reports say of truths, ``posterior`` the integrals over them; ``prior`` what the server broadcasts, ``audit_cases`` what an
adversary proves against each release, ``provenance`` what guarantees rest on.  Before a fit, ``agreement`` and ``outlying``
are the doubts of a server whose clients may lie.

Belongs here: the public names, imported on first use.  Does not belong here: code.  Guarantees and budgets are in
``accounting``.
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .agreement import Agreement, Heard, Rejection
    from .at_home import AtHome
    from .central import CentralPrior, release_prior
    from .client import MeanClient, RateClient, a_priori_bounds
    from .distributed import DistributedMean, distributed_mean
    from .finite_output import FiniteOutput
    from .outlying import doubt
    from .prior import BetaPrior, Prior
    from .provenance import provenance_of
    from .rates import PrivateRates, noisy_rate_moments
    from .regression import PrivateRegressionMeans, RegressionClient, RegressionPrior
    from .reports import MeanReport, RateReport, RegressionReport, read_report, read_reports
    from .server import PrivateGaussianMeans, guarantee_lines
    from .staircase import Staircase

__all__ = [
    "Agreement", "AtHome", "BetaPrior", "CentralPrior", "DistributedMean", "FiniteOutput", "Heard", "MeanClient",
    "MeanReport", "Prior", "PrivateGaussianMeans", "PrivateRates", "PrivateRegressionMeans", "RateClient", "RateReport",
    "RegressionClient", "RegressionPrior", "RegressionReport", "Rejection", "Staircase", "a_priori_bounds",
    "distributed_mean", "doubt", "guarantee_lines", "noisy_rate_moments", "provenance_of", "read_report", "read_reports",
    "release_prior",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "agreement": "Agreement Heard Rejection",
        "central": "CentralPrior release_prior",
        "at_home": "AtHome",
        "client": "MeanClient RateClient a_priori_bounds",
        "distributed": "DistributedMean distributed_mean",
        "finite_output": "FiniteOutput",
        "outlying": "doubt",
        "prior": "BetaPrior Prior",
        "provenance": "provenance_of",
        "rates": "PrivateRates noisy_rate_moments",
        "regression": "PrivateRegressionMeans RegressionClient RegressionPrior",
        "reports": "MeanReport RateReport RegressionReport read_report read_reports",
        "server": "PrivateGaussianMeans guarantee_lines",
        "staircase": "Staircase",
    },
)
