"""The list of all claims, and finding one by its permanent id.

Belongs here: registration and look-up. Does not belong here: claims themselves, which papers there are (paper.py),
going on behind a malformed claim (reading.py).
"""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from importlib import import_module

from theory.engine import paper as library
from theory.engine import reach
from theory.engine.claim import Claim
from theory.engine.paper import Paper, papers
from theory.engine.problem import Malformed, Problem, problem
from theory.engine.reading import tolerant

BESIDE_CLAIMS = ("inventory", "letters")  # modules of a paper that hold none

_claims: dict[str, Claim] = {}
_origins: dict[str, Origin] = {}
_problems: list[Problem] = []
_loaded = False


class UnknownClaim(KeyError, ValueError):
    """No claim has this id; the message suggests near ones."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Origin:
    """The statement of a module that registered a claim."""

    module: str
    file: str
    line: int


def _origin() -> Origin:
    """The innermost statement of a module that is being run: a claim made by a function belongs to who calls it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return Origin(str(frame.f_globals.get("__name__")), frame.f_code.co_filename, frame.f_lineno)


def register(claim: Claim) -> Claim:
    """Add a claim; its id must be new. A claim missing its source, domain or judge cannot be built at all."""
    if claim.id in _claims:
        first = _origins[claim.id]
        raise Malformed(
            f"claim {claim.id} is registered twice, first in {first.file}:{first.line}", "give one of the two another id",
            claim.id,
        )  # fmt: skip
    _claims[claim.id], _origins[claim.id] = claim, _origin()
    return claim


def _forget(module: str) -> None:
    """Drop a module's claims: it is read from its beginning."""
    for claim_id in [i for i, origin in _origins.items() if origin.module == module]:
        del _claims[claim_id], _origins[claim_id]


def _load() -> None:
    global _loaded
    if _loaded:
        return
    _loaded = True
    found = list(papers().values())
    reach.sources()  # before the papers are imported, so that what is hashed is never newer than what runs
    try:
        with tolerant(found, _note, _forget):
            for paper in found:
                for name in paper.modules:
                    try:
                        import_module(f"{paper.package}.{name}")
                    except ModuleNotFoundError as error:
                        _note(problem(paper.key, error, str(paper.folder / "__init__.py"), paper.folder))
        for paper in found:
            _note_unread(paper)
    except BaseException:  # Ctrl-C: what is not read now is read at the next question
        _loaded = False
        raise


def _note(found: Problem) -> None:
    if found not in _problems:
        _problems.append(found)


def _note_unread(paper: Paper) -> None:
    """Modules that lie in a paper's package and that nobody has read: their claims would be missing silently."""
    for file in sorted(paper.folder.glob("*.py")):
        beside = file.stem.partition("_")[0] in BESIDE_CLAIMS  # inventory, and inventory_appendix
        read = beside or file.stem in ("__init__", *paper.modules) or f"{paper.package}.{file.stem}" in sys.modules
        if not read:
            mend = "name it in the PAPER record's modules, or delete it"
            _note(Problem(paper.key, "", str(file), 0, "nobody reads this module", mend))


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """All claims in the papers' order, or those of one paper. What could not be read is in `malformed`."""
    _load()
    if paper is not None and paper not in papers():
        known = f"unknown paper {paper!r}; known are {', '.join(papers())}"
        raise UnknownClaim("; ".join([known, *(str(p) for p in library.problems() if p.paper == paper)]))
    return tuple(sorted((c for c in _claims.values() if paper in (None, c.paper)), key=_place))


def _place(claim: Claim) -> tuple[int, int]:
    """Place of a claim's module among all: modules may have been imported in another order."""
    listed = list(papers())
    modules = papers()[claim.paper].modules
    module = _origins[claim.id].module.rpartition(".")[2] if claim.id in _origins else ""
    return listed.index(claim.paper), modules.index(module) if module in modules else len(modules)


def malformed(paper: str | None = None) -> tuple[Problem, ...]:
    """What could not be read, of all papers or of one: claims that are missing from `claims`."""
    _load()
    return tuple(p for p in (*library.problems(), *_problems) if paper in (None, p.paper))


def known(claim_id: str) -> bool:
    """Whether a claim has this id."""
    _load()
    return claim_id in _claims


def find(claim_id: str) -> Claim:
    """The claim with this id. Raises UnknownClaim with near ids, and with what of it or of its paper could not be read."""
    _load()
    if claim_id in _claims:
        return _claims[claim_id]
    broken = [str(p) for p in malformed() if p.claim == claim_id]
    if broken:
        raise UnknownClaim("malformed claim " + "; ".join(broken))
    near = difflib.get_close_matches(claim_id, _claims, n=4, cutoff=0.45)
    tail = claim_id.rsplit(":", 1)[-1]
    near += [k for k in _claims if tail and tail in k and k not in near][: 4 - len(near)]
    hint = f"; did you mean {', '.join(near)}?" if near else "; `borrow claims` lists all ids"
    unread = [str(p) for p in malformed() if p.paper == claim_id.partition(":")[0] and not p.claim]  # where it may stand
    raise UnknownClaim("; ".join([f"unknown claim id {claim_id!r}{hint}", *unread]))


__all__ = ["UnknownClaim", "claims", "find", "malformed", "register"]
