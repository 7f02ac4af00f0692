"""Who asks for how much privacy: clients who opt out, levels of epsilon, the published lists; batch sizes.

An epsilon of infinity is no privacy.  A choice is made before training and must not depend on what is learned.

Belongs here: assignments of choices to clients, the sizes of their batches among them.  What an epsilon costs in noise is
in ``dpsgd`` and ``privacy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from estimators.federated.data.federation import apportion, fixed, generator
from estimators.federated.kinds import several_of, typed
from estimators.numerics.validation import choice, index, nonnegative, positive, probability, single

if TYPE_CHECKING:
    from estimators.federated.data.federation import Federation

__all__ = [
    "DISTRIBUTIONS", "draw_eps", "eps_levels", "opt_out", "robusthdp_batch_sizes", "robusthdp_eps", "share_batch_sizes",
]  # fmt: skip

# Epsilons of the 20 clients of each distribution and their batch sizes, as the authors' code lists them (github
# Saber-mm/HDPFL, utils/privacy_params.py at 821c94b5); the paper's Table 4, which names the distributions, is in the
# appendix that the text of ``robusthdp`` lacks.
DISTRIBUTIONS = {
    "Dist1": "2.81 1.69 1.74 1.46 2.43 0.85 2.87 1.62 2.16 1.88 2.73 0.97 1.84 1.81 2.57 1.45 1.91 1.56 2.02 2.29",
    "Dist2": "5.45 1.0 1.15 0.2 4.52 4.88 0.98 0.2 1.05 0.93 1.0 0.21 0.21 1.27 0.89 1.17 0.96 0.89 1.04 0.84",
    "Dist3": "2.2 3.66 0.2 1.65 0.9 0.64 1.09 1.86 2.1 2.79 2.21 3.49 1.18 4.41 0.33 3.42 2.2 2.88 0.87 1.15",
    "Dist4": "0.57 0.66 0.42 3.97 3.27 0.45 0.55 2.58 1.82 0.64 0.19 2.38 0.34 0.44 0.47 0.5 0.56 0.51 0.68 0.19",
    "Dist5": "0.95 1.5 0.2 0.74 0.46 0.37 0.54 0.82 0.91 1.17 0.95 1.43 0.57 1.78 0.25 1.41 0.95 1.21 0.45 0.56",
    "Dist6": "0.5 0.46 0.39 0.44 0.21 0.36 0.19 0.51 1.12 0.2 0.49 0.19 0.19 0.2 0.2 0.18 0.61 0.15 0.38 0.53",
    "Dist7": "0.26 0.82 0.55 0.78 0.98 0.63 0.6 0.26 0.41 0.6 0.74 0.84 0.5 0.25 0.43 0.93 0.37 0.56 0.94 0.22",
    "Dist8": "0.2 0.2 0.19 0.44 0.21 0.19 0.19 0.51 0.62 0.2 0.2 0.19 0.19 0.2 0.2 0.18 0.61 0.17 0.38 0.53",
    "Dist9": "0.45 0.25 0.22 0.31 0.28 0.36 0.29 0.29 0.23 0.27 0.48 0.28 0.42 0.46 0.44 0.26 0.25 0.21 0.21 0.26",
}
BATCH_SIZES = "32 64 16 32 16 16 16 32 32 64 32 64 16 128 16 64 32 64 16 16"
# Clients 21 to 60 in Dist6, for Figure 5 (right): lists for 40 and 60 clients continue those for 20.
MORE_EPS = (
    "1.1 0.5 0.33 0.31 0.51 0.21 0.47 0.21 0.21 0.21 0.18 0.2 1.02 0.21 0.21 0.46 0.56 0.18 0.49 0.26 "
    "0.54 0.2 0.39 0.56 0.4 1.05 0.58 0.56 0.2 0.58 0.2 0.58 0.54 0.21 0.8 0.43 0.2 0.2 0.19 0.21"
)
MORE_BATCH_SIZES = (
    "128 128 32 64 128 128 16 16 16 128 16 32 128 64 64 32 64 128 16 128 "
    "128 64 32 128 16 32 128 32 32 16 16 64 16 32 32 16 64 16 64 64"
)


@typed
def opt_out(
    federation: Federation, *, share: float = 0.05, label: int | None = None, others: bool = False, seed: int
) -> np.ndarray:
    """Clients who opt out of privacy: a random share of all clients, taken among those who hold a label if one is given.

    FedHDP, Sections 5.1 and 5.2 (FeO2, Section 5): 5 % of the clients, fixed for all runs that are compared; in the skewed
    data set they are "sampled from the clients who have the digit 7": ``label=7``.

    Parameters
    ----------
    federation : Federation; share : number in [0, 1] of all clients; label : None or a label; seed : whole number >= 0.
    others : False, or True for the clients who keep their privacy instead.

    Returns
    -------
    array (K,) of bool, True for clients without privacy; round(share K) of them.  With `others`, the opposite.

    Raises ValueError if fewer clients hold the label.

    >>> from estimators.federated.data.federation import Federation
    >>> pool = Federation(np.eye(4), [7, 7, 1, 2], train=[[0], [1], [2], [3]], classes=10)
    >>> opt_out(pool, share=0.5, label=7, seed=0).tolist()
    [True, True, False, False]
    """
    number = round(single(probability, "share", share) * len(federation))
    able = np.arange(len(federation)) if label is None else np.flatnonzero(federation.holds(label))
    if number > len(able):
        raise ValueError(
            f"share {share} of {len(federation)} clients is {number}, but {len(able)} hold label {label}; take a smaller one"
        )
    chosen = np.full(len(federation), bool(others))
    chosen[generator(seed, "opt_out").permutation(able)[:number]] = not others
    return fixed(chosen)


@typed
def eps_levels(clients: int, levels: Sequence[tuple[float, float]], *, seed: int) -> np.ndarray:
    """An epsilon per client from a few levels in given shares, in random order (FedHDP's l levels, Section 2).

    Parameters
    ----------
    clients : whole number >= 1; levels : pairs (share, eps) with shares that add up to 1 and eps > 0 or infinite.
    seed : whole number >= 0.

    Returns
    -------
    array (clients,)

    >>> sorted(eps_levels(4, [(0.75, 1.0), (0.25, np.inf)], seed=0).tolist())
    [1.0, 1.0, 1.0, inf]
    """
    clients = index("clients", clients, 1, 10**9)
    several_of("levels", levels, 2)
    shares = probability("shares of levels", [share for share, _ in levels])
    eps = np.asarray([level for _, level in levels], dtype=float)
    if len(eps) == 0 or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"shares of levels must add up to 1, they add up to {shares.sum():g}")
    if not (eps > 0).all():
        raise ValueError(f"eps must be > 0 (infinity: no privacy), got {eps.tolist()}")
    return fixed(generator(seed, "eps_levels").permutation(np.repeat(eps, apportion(clients, shares))))


@typed
def robusthdp_eps(name: str, *, clients: int = 20, eps_min: float = 0.0) -> np.ndarray:
    """Epsilons of Robust-HDP's clients in one of its privacy distributions, Dist1 to Dist9 (Section 4.1).

    Parameters
    ----------
    name : "Dist1" .. "Dist9"; clients : 20, or for Dist6 up to 60.
    eps_min : number >= 0, smaller values are raised to it.

    Returns
    -------
    array (clients,)

    >>> robusthdp_eps("Dist9").max(), robusthdp_eps("Dist6", clients=40)[20]
    (np.float64(0.48), np.float64(1.1))
    """
    values = DISTRIBUTIONS[choice("name", name, DISTRIBUTIONS)]
    values = listed(f"{values} {MORE_EPS}" if name == "Dist6" else values, clients, f"clients of {name}")
    return fixed(np.maximum(values, single(nonnegative, "eps_min", eps_min)))


@typed
def robusthdp_batch_sizes(*, clients: int = 20) -> np.ndarray:
    """Batch sizes of Robust-HDP's clients, 60 at most, drawn by its authors from 16, 32, 64, 128 (Section 4.1).

    >>> int(robusthdp_batch_sizes()[13])
    128
    """
    return fixed(listed(f"{BATCH_SIZES} {MORE_BATCH_SIZES}", clients, "clients").astype(np.int64))


@typed
def share_batch_sizes(federation: Federation, *, number: int = 60) -> np.ndarray:
    """Batch sizes with which so many batches are one pass over a client's rows: n_k / number, halves up, at least 1.

    Generative framework, Section 4: "vary the batch size so that each epoch consists of 60 iterations".  Rounded to the
    nearest whole number, since rounding up would make every client's passes longer than its rows.

    Parameters
    ----------
    federation : Federation; number : whole number >= 1.

    Returns
    -------
    array (K,) of whole numbers

    >>> from estimators.federated.data.federation import Federation
    >>> train = [range(9), range(9, 19), [19]]
    >>> share_batch_sizes(Federation(np.zeros((20, 1)), np.zeros(20), train=train, classes=2), number=4).tolist()
    [2, 3, 1]
    """
    return fixed(np.maximum(1, np.floor(federation.sizes / index("number", number, 1, 10**9) + 0.5)).astype(np.int64))


def listed(text: str, clients: int, name: str) -> np.ndarray:
    """The first `clients` numbers of a text."""
    values = np.array(text.split(), dtype=float)
    return values[: index(name, clients, 1, len(values))]


@typed
def draw_eps(
    clients: int, components: Sequence[tuple[float, str, float, float]], *, eps_min: float = 0.1, seed: int
) -> np.ndarray:
    """Epsilons drawn from a mixture, for other numbers of clients than were published.

    Parameters
    ----------
    clients : whole number >= 1.
    components : list of (weight, "normal", mean, standard deviation) or (weight, "uniform", low, high); weights add up to 1.
    eps_min : number > 0, smaller draws are raised to it; seed : whole number >= 0.

    Returns
    -------
    array (clients,)

    >>> draw_eps(3, [(1.0, "uniform", 0.2, 0.5)], seed=0).round(3).max() <= 0.5
    np.True_
    """
    clients, eps_min = index("clients", clients, 1, 10**9), single(positive, "eps_min", eps_min)
    several_of("components", components, 4)
    weights = probability("weights of components", [weight for weight, *_ in components])
    if len(weights) == 0 or abs(weights.sum() - 1) > 1e-9:
        raise ValueError(f"weights of components must add up to 1, they add up to {weights.sum():g}")
    rng = generator(seed, "draw_eps")
    which = np.searchsorted(np.cumsum(weights), rng.random(clients), side="right").clip(max=len(weights) - 1)
    draws = []
    for _, kind, a, b in components:
        if choice("kind of component", kind, ("normal", "uniform")) == "normal":
            draws.append(rng.normal(a, positive("standard deviation", b), clients))
        elif not a < b:
            raise ValueError(f"uniform components need low < high, got {a} and {b}")
        else:
            draws.append(rng.uniform(a, b, clients))
    return fixed(np.maximum(np.stack(draws)[which, np.arange(clients)], eps_min))
