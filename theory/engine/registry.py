"""The list of all claims, and finding one by its permanent id.

Belongs here: registration and look-up. Does not belong here: claims themselves (one module per paper).
"""

from __future__ import annotations

import difflib
import importlib

from theory.engine import reach
from theory.engine.claim import PAPERS, Claim

PAPER_MODULES = ("fedhdp", "feo2", "mrmtl", "robusthdp", "generative")
_claims: dict[str, Claim] = {}
_loaded = False


class UnknownClaim(KeyError, ValueError):
    """No claim has this id; the message suggests near ones."""

    def __str__(self) -> str:
        return str(self.args[0])


def register(claim: Claim) -> Claim:
    """Add a claim; its id must be new. A claim missing its source, domain or judge cannot be built at all."""
    if claim.id in _claims:
        raise ValueError(f"claim {claim.id} is registered twice")
    _claims[claim.id] = claim
    return claim


def _load() -> None:
    global _loaded
    if not _loaded:
        _loaded = True
        reach.sources()  # before the papers are imported, so that what is hashed is never newer than what runs
        for name in PAPER_MODULES:
            importlib.import_module(f"theory.papers.{name}")


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """All claims in the papers' order, or those of one paper."""
    _load()
    if paper is not None and paper not in PAPERS:
        raise UnknownClaim(f"unknown paper {paper!r}; known are {', '.join(PAPERS)}")
    return tuple(c for c in _claims.values() if paper in (None, c.paper))


def known(claim_id: str) -> bool:
    """Whether a claim has this id."""
    _load()
    return claim_id in _claims


def find(claim_id: str) -> Claim:
    """The claim with this id. Raises UnknownClaim with near ids."""
    _load()
    if claim_id in _claims:
        return _claims[claim_id]
    near = difflib.get_close_matches(claim_id, _claims, n=4, cutoff=0.45)
    tail = claim_id.rsplit(":", 1)[-1]
    near += [k for k in _claims if tail and tail in k and k not in near][: 4 - len(near)]
    hint = f"; did you mean {', '.join(near)}?" if near else "; `borrow claims` lists all ids"
    raise UnknownClaim(f"unknown claim id {claim_id!r}{hint}")
