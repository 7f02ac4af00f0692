"""Transformations of a federation's rows by silo: rotation, masks, standardisation, joining of clients.

Every function returns a new federation; the pool is copied once.  Rows that two clients share cannot be changed for one of
them only, so such a federation is refused.

Belongs here: what changes rows or joins clients.  Who holds which rows of a pool is in ``partitions``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.federated.data.federation import fixed, generator
from estimators.federated.data.partitions import iid
from estimators.federated.kinds import typed
from estimators.numerics.validation import choice, index, probability, single

if TYPE_CHECKING:
    from estimators.federated.data.federation import Examples, Federation

__all__ = ["masked", "merged", "rotated_silos", "standardised"]


@typed
def rotated_silos(examples: Examples, *, clients: int = 40, rotations: int = 4, seed: int) -> Federation:
    """Equal silos of images in equal random groups, one rotation per group; `group` is its number of quarter turns.

    MR-MTL, Section 5 and Appendix C.1 (Figure 6): MNIST is shuffled and parted evenly among 40 silos (1,500 training and 250
    test images each), which are randomly put in 4 groups of 10, rotated by 0, 90, 180 and 270 degrees.

    Parameters
    ----------
    examples : Examples of images (n, side, side) or (n, side, side, channels).
    clients : whole number >= rotations; rotations : whole number 1..4; seed : whole number >= 0.

    Returns
    -------
    Federation, without test rows of the server's own (its images would have no rotation).

    Raises ValueError if images are not square or there are fewer training rows than clients.
    """
    if examples.x.ndim not in (3, 4) or examples.x.shape[1] != examples.x.shape[2]:
        raise ValueError(
            f"{examples.name}: rotation needs square images (n, side, side), got rows of {examples.x.shape[1:]}"
        )
    rotations = index("rotations", rotations, 1, 4)
    clients = index("clients", clients, rotations, 10**9)
    pool = iid(examples, clients=clients, seed=seed)
    group = generator(seed, "rotated_silos").permutation(np.arange(clients) % rotations)
    x = np.array(pool.x)
    for k, turns in enumerate(group.tolist()):
        rows = own_rows(pool, k)
        x[rows] = np.rot90(x[rows], turns, axes=(1, 2))
    step = {"rotated_silos": {"rotations": rotations, "seed": int(seed)}}
    return replace(pool, x=x, group=group, server_test=None, provenance={**pool.provenance, **step})


@typed
def masked(federation: Federation, *, ratio: float, patch: int = 2, seed: int) -> Any:
    """Each silo's images under a mask of its own: every patch of the grid is white with probability `ratio`.

    MR-MTL, Section 5 and Appendix C.1 (Figure 6): "silo-specific random masks of 2 x 2 white patches", which do not
    overlap; the mask ratio is the probability of a patch being applied.  With `rotated_silos` it is Rotated & Masked MNIST.

    Parameters
    ----------
    federation : Federation of images whose clients share no row; ratio : number in [0, 1]; patch : whole number >= 1 of
        pixels; seed : whole number >= 0.

    Returns
    -------
    Federation, with the masks (K, side, side) of bool as ``truth["mask"]``.

    >>> from estimators.federated.data.federation import Federation
    >>> blank = Federation(np.zeros((2, 4, 4), np.uint8), [0, 1], train=[[0], [1]], classes=2, top=255)
    >>> masked(blank, ratio=1.0, seed=0).x.min()
    np.uint8(255)
    """
    if federation.x.ndim not in (3, 4):
        raise ValueError(f"{federation.name}: masks need images (n, side, side), got rows of {federation.x.shape[1:]}")
    ratio = single(probability, "ratio", ratio)
    height, width = federation.x.shape[1:3]
    patch = index("patch", patch, 1, max(height, width))
    grid = generator(seed, "masked").random((len(federation), -(-height // patch), -(-width // patch))) < ratio
    mask = grid.repeat(patch, axis=1).repeat(patch, axis=2)[:, :height, :width]
    x, white = np.array(federation.x), np.asarray(federation.top, dtype=federation.x.dtype)
    check_disjoint(federation)
    for k in range(len(federation)):
        rows = own_rows(federation, k)
        images = x[rows]
        images[:, mask[k]] = white
        x[rows] = images
    step = {"masked": {"ratio": ratio, "patch": patch, "seed": int(seed)}}
    return replace(
        federation, x=x, server_test=None, provenance={**federation.provenance, **step},
        truth={**federation.truth, "mask": fixed(mask)},
    )  # fmt: skip


@typed
def standardised(federation: Federation, *, by: str = "client") -> Any:
    """Features with mean 0 and variance 1 over training rows; a feature that does not vary becomes 0.

    MR-MTL's code standardises within each silo (the paper does not say so); means and variances leave no silo then.

    Parameters
    ----------
    federation : Federation whose clients share no row (if by client).
    by : "client", or "all": over all clients' training rows, which no privacy guarantee covers.

    Returns
    -------
    Federation with x of float64.

    >>> from estimators.federated.data.federation import Federation
    >>> two = Federation([[1.0, 5.0], [3.0, 5.0], [9.0, 5.0]], [0.0, 1.0, 2.0], train=[[0, 1]], test=[[2]])
    >>> standardised(two).x.tolist()
    [[-1.0, 0.0], [1.0, 0.0], [7.0, 0.0]]
    """
    x = np.array(federation.x, dtype=float)
    if choice("by", by, ("client", "all")) == "all":
        x = (x - center(x[np.concatenate(federation.train)])[0]) / center(x[np.concatenate(federation.train)])[1]
    else:
        check_disjoint(federation)
        for k, train in enumerate(federation.train):
            mean, scale = center(x[train])
            rows = own_rows(federation, k)
            x[rows] = (x[rows] - mean) / scale
    return replace(federation, x=x, top=1.0, provenance={**federation.provenance, "standardised": {"by": by}})


def center(x: np.ndarray) -> tuple[Any, np.ndarray]:
    """Means and standard deviations of columns, 1 where a column does not vary."""
    scale = x.std(axis=0)
    constant = x.max(axis=0) == x.min(axis=0)
    return np.where(constant, x[0], x.mean(axis=0)), np.where(constant, 1.0, scale)


@typed
def merged(federation: Federation, *, size: int, clients: int | None = None, seed: int) -> Any:
    """Clients joined at random, `size` by `size`; those left over, and beyond `clients`, are left out.

    Generative framework, Section 4: FEMNIST with "a subset of 198 writers so that each client has access to data from 3
    authors", m = 66: ``merged(femnist(path), size=3, clients=66, seed=0)``.

    Parameters
    ----------
    federation : Federation; size : whole number >= 1 of clients to join; clients : None, or how many to make.
    seed : whole number >= 0.

    Returns
    -------
    Federation over the same pool.

    Raises ValueError if there are fewer than size x clients clients.
    """
    size = index("size", size, 1, len(federation))
    clients = len(federation) // size if clients is None else index("clients", clients, 1, 10**9)
    if size * clients > len(federation):
        raise ValueError(
            f"{clients} clients of {size} need {size * clients}, {federation.name} has {len(federation)}; take fewer"
        )
    order = generator(seed, "merged").permutation(len(federation))[: size * clients].reshape(clients, size)
    train, test = (
        tuple(np.unique(np.concatenate([part[k] for k in members])) for members in order)
        for part in (federation.train, federation.test)
    )
    names = tuple("+".join(federation.names[k] for k in members) for members in order)
    step = {"merged": {"size": size, "clients": clients, "seed": int(seed)}}
    return replace(
        federation, train=train, test=test, names=names, group=None, truth={}, provenance={**federation.provenance, **step}
    )


def own_rows(federation: Federation, k: int) -> np.ndarray:
    """Training and test rows of client k."""
    return np.concatenate([federation.train[k], federation.test[k]])


def check_disjoint(federation: Federation) -> None:
    """Raise a ValueError if two clients share a row."""
    rows = np.concatenate([own_rows(federation, k) for k in range(len(federation))])
    if len(np.unique(rows)) != len(rows):
        raise ValueError(f"{federation.name}: clients share rows, which cannot be changed for one of them; part them first")
