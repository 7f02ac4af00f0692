"""From a table of clients to an outcome: which model, its fit, and one row of results per client.

Belongs here: what `borrow fit` computes: ``models``, ``outcome``, ``private`` (every client runs its own side),
``released`` (a private prior alone) and ``regressions`` (what a client knows by itself). Does not belong here: pictures,
tables of text and options (``figures.fit``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import models, outcome, private, regressions, released

__all__ = ["models", "outcome", "private", "regressions", "released"]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
