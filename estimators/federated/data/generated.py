"""Data that need no file: generated clients, and the digits that scikit-learn ships.

Belongs here: what `borrow learn` runs on without a folder of data.  The user's files are read in ``loaders``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from estimators.federated.data.federation import Examples, Federation, apportion, generator, held_share
from estimators.federated.kinds import typed
from estimators.numerics.validation import choice, index, nonnegative, single

__all__ = ["digits", "synthetic_federation"]

MODELS = ("linear", "logistic", "mixture")


@typed
def synthetic_federation(
    model: str = "logistic", *, clients: int = 100, rows: int = 50, features: int = 10, classes: int = 4, tau2: float = 0.5,
    shift2: float = 0.0, sigma2: float = 1.0, groups: int = 1, apart2: float = 4.0, unequal: float = 0.0,
    test_fraction: float = 0.2, seed: int = 0,
) -> Federation:  # fmt: skip
    """Clients whose parameters scatter around their group's: how much sharing helps is set by `tau2`.

    Group g has the centre c_g ~ N(0, I) (all groups alike but for N(0, apart2 I)), client k of it theta_k ~ N(c_g, tau2 I)
    and features x ~ N(v_k, I) with v_k ~ N(0, shift2 I).

    - "linear": y = x . theta_k + N(0, sigma2), the federated linear regression of FedHDP, Section 3.
    - "logistic": y = 1 with probability 1 / (1 + exp(-x . theta_k)).
    - "mixture": y is uniform over classes, and x ~ N(theta_k[y] + v_k, sigma2 I), one centre per class.

    Parameters
    ----------
    model : "linear", "logistic" or "mixture".
    clients, rows (on average per client), features, groups : whole numbers >= 1; classes : whole number >= 2 ("mixture").
    tau2 : variance of clients' parameters within a group; shift2 : variance of clients' feature means; sigma2 : variance
        of noise; apart2 : variance between groups; numbers >= 0.
    unequal : number >= 0, standard deviation of the logarithm of clients' sizes.
    test_fraction : number in [0, 1), share of each client's rows to test on, rounded down; seed : whole number >= 0.

    Returns
    -------
    Federation, with `truth` "theta" (K, features) or (K, classes, features), and the groups as `group`.

    >>> a, b = (synthetic_federation("linear", clients=3, tau2=t, seed=5) for t in (0.0, 1.0))
    >>> bool(np.ptp(a.truth["theta"], axis=0).max() == 0), a.sizes.tolist(), b.client(0).test_x.shape
    (True, [40, 40, 40], (10, 10))
    """
    choice("model", model, MODELS)
    clients, rows, features = (
        index(n, v, 1, 10**9) for n, v in (("clients", clients), ("rows", rows), ("features", features))
    )
    groups, classes = index("groups", groups, 1, clients), index("classes", classes, 2, 10**6)
    scales = {"tau2": tau2, "shift2": shift2, "sigma2": sigma2, "apart2": apart2}
    tau, shift, sigma, apart = (float(np.sqrt(nonnegative(name, value))) for name, value in scales.items())
    spread, share = single(nonnegative, "unequal", unequal), held_share("test_fraction", test_fraction)
    rng = generator(seed, "synthetic_federation")
    shape = (classes, features) if model == "mixture" else (features,)
    centre = rng.standard_normal(shape) + (
        apart * rng.standard_normal((groups, *shape)) if groups > 1 else np.zeros((1, *shape))
    )
    group = rng.permutation(np.arange(clients) % groups)
    theta = centre[group] + tau * rng.standard_normal((clients, *shape))
    means = shift * rng.standard_normal((clients, features))
    sizes = 1 + apportion(clients * (rows - 1), np.exp(spread * rng.standard_normal(clients)))
    owner = np.repeat(np.arange(clients), sizes)
    noise = rng.standard_normal((len(owner), features))
    if model == "mixture":
        y = rng.integers(classes, size=len(owner))
        x = theta[owner, y] + means[owner] + sigma * noise
    else:
        x = means[owner] + noise
        score = np.einsum("ij,ij->i", x, theta[owner])
        y = score + sigma * rng.standard_normal(len(owner)) if model == "linear" else rng.random(len(owner)) < expit(score)
    ends = np.cumsum(sizes)
    held = np.floor(share * sizes).astype(np.int64)
    arguments = {
        "model": model, "clients": clients, "rows": rows, "features": features, "classes": classes, **scales,
        "groups": groups, "unequal": spread, "test_fraction": share, "seed": int(seed),
    }  # fmt: skip
    return Federation(
        x, y, [np.arange(e - n, e - h) for e, n, h in zip(ends, sizes, held, strict=True)],
        [np.arange(e - h, e) for e, h in zip(ends, held, strict=True)], group=group,
        classes={"linear": 0, "logistic": 2, "mixture": classes}[model], name="synthetic",
        provenance={"dataset": "synthetic", "generated": arguments}, truth={"theta": theta},
    )  # fmt: skip


def expit(score: np.ndarray) -> Any:
    """1 / (1 + exp(-score)) without overflow."""
    small = np.exp(-np.abs(score))
    return np.where(score >= 0, 1.0, small) / (1.0 + small)


@typed
def digits(*, test_fraction: float = 0.2, seed: int = 0) -> Examples:
    """Handwritten digits: 1,797 grey images of 8 x 8, 10 classes, as in scikit-learn (Alpaydin and Kaynak 1998, UCI).

    Parameters
    ----------
    test_fraction : number in (0, 1), share of each digit's images to test on; seed : whole number >= 0.

    Returns
    -------
    Examples with x (1797, 8, 8) uint8, of which 16 is white.

    Raises
    ------
    ImportError
        If scikit-learn is not installed: it comes with the extra ``learn``.
    """
    try:
        bundle = import_module("sklearn.datasets").load_digits()
    except ImportError as error:
        raise ImportError(
            "the digits come with scikit-learn: pip install 'borrowed-strength[learn]', "
            "or use synthetic_federation, which needs nothing"
        ) from error
    provenance = {"dataset": "digits", "generated": {"source": "scikit-learn load_digits"}}
    pool = Examples(
        bundle.images.astype(np.uint8), bundle.target, classes=10, top=16.0, name="digits", provenance=provenance
    )
    return pool.split_test(test_fraction, seed=seed)
