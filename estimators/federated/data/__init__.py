"""Data of the learning experiments: files that the user has, generated data, partitions among clients, privacy choices.

Pooled data are `Examples`; clients who hold rows of one pool are a `Federation`.  Loaders (``loaders``, ``tables`` for
one's own table) turn files into either, partitions (``partitions``) and silos (``silos``) the first into the second,
``generated`` needs no file, and ``choices`` says who asks for how much privacy.

Belongs here: the public names, imported on first use.  Does not belong here: code; nothing downloads, and models and
algorithms are in ``estimators.federated``.

>>> from estimators.federated import data
>>> clients = data.synthetic_federation(clients=20, rows=30, seed=1)
>>> len(clients), clients.client(3).x.shape
(20, (24, 10))
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from .choices import draw_eps, eps_levels, opt_out, robusthdp_batch_sizes, robusthdp_eps, share_batch_sizes
    from .federation import Client, Examples, Federation
    from .generated import digits, synthetic_federation
    from .loaders import cifar10, emnist, fashion_mnist, femnist, gleam, landmine, mnist, school, vehicle
    from .partitions import dirichlet, five_random_classes, iid, one_class, random_classes, three_classes
    from .silos import masked, merged, rotated_silos, standardised
    from .tables import table

__all__ = [
    "Client", "Examples", "Federation", "cifar10", "digits", "dirichlet", "draw_eps", "emnist", "eps_levels",
    "fashion_mnist", "femnist", "five_random_classes", "gleam", "iid", "landmine", "masked", "merged", "mnist", "one_class",
    "opt_out", "random_classes", "robusthdp_batch_sizes", "robusthdp_eps", "rotated_silos", "school",
    "share_batch_sizes", "standardised", "synthetic_federation", "table", "three_classes", "vehicle",
]  # fmt: skip

__getattr__, __dir__ = attach(
    __name__,
    {
        "choices": "draw_eps eps_levels opt_out robusthdp_batch_sizes robusthdp_eps share_batch_sizes",
        "federation": "Client Examples Federation",
        "generated": "digits synthetic_federation",
        "loaders": "cifar10 emnist fashion_mnist femnist gleam landmine mnist school vehicle",
        "partitions": "dirichlet five_random_classes iid one_class random_classes three_classes",
        "silos": "masked merged rotated_silos standardised",
        "tables": "table",
    },
)
