"""What decisions need to know of a fitted model: its posteriors one by one, and draws of all clients together.

Belongs here: the protocol, which every ``ClientModel`` follows, and draws by the block.  Does not belong here: the models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from estimators.numerics.arrays import Floats

__all__ = ["Posterior", "blocks", "several"]

CELLS = 2_000_000  # numbers drawn at a time


class Posterior(Protocol):
    """Posteriors of m clients.  Arrays have clients on their first axis, and perhaps coefficients on the second."""

    posterior_mean_: Floats
    posterior_sd_: Floats

    @property
    def independent(self) -> bool:
        """Whether clients are taken for independent given the data: as good as one prior for all."""
        ...

    def averaged(self, seed: int = 0) -> Any:
        """Return the model with the posteriors that decisions use."""
        ...

    def require_fit(self) -> None:
        """Raise ValueError unless fitted."""
        ...

    def posterior_cdf(self, t: Any, strict: bool = False) -> Floats:
        """Return P(theta_i <= t), or < t if `strict`."""
        ...

    def sample_posterior(self, generator: np.random.Generator, size: int) -> Floats:
        """Return joint draws (size, m[, d])."""
        ...

    def exceedances(self, rows: slice) -> Floats | None:
        """Return P(theta_i > theta_j) of clients i in `rows` and all j, ties by half, or None."""
        ...

    def atoms(self) -> Floats:
        """Return the places that several clients may share exactly."""
        ...


def several(model: Posterior, what: str) -> int:
    """Return the number of clients of a fitted model, at least two."""
    model.require_fit()
    m = len(model.posterior_mean_)
    if m < 2:
        raise ValueError(f"{what} needs at least two clients, and the model was fitted to {m}; there is nothing to compare")
    return m


def blocks(model: Posterior, draws: int, seed: int) -> Iterator[Floats]:
    """Yield `draws` joint draws of all clients, by blocks (size, m[, d]) that have a stream of their own each."""
    size = max(1, CELLS // max(1, model.posterior_mean_.size))
    streams = np.random.SeedSequence(seed).spawn(-(-draws // size))
    for i, stream in enumerate(streams):
        yield model.sample_posterior(np.random.Generator(np.random.PCG64(stream)), min(size, draws - i * size))
