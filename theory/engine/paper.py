"""A paper's record, and how papers are found: packages of ``theory.papers``, and claim packs that are installed.

A claim pack is a package with a record ``PAPER`` in its ``__init__``; its distribution names it in the entry point group
``borrow.papers``.  An ``__init__`` holds the record and no claims, so that papers are known without reading any claim.

Belongs here: the record and the search.  Does not belong here: reading claims (registry.py), any paper.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from theory.engine.lines import join_texts
from theory.engine.problem import Malformed, Problem, problem

GROUP = "borrow.papers"
HOME = Path(__file__).resolve().parents[1] / "papers"
OWN = "theory.papers"


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper whose claims are judged.

    Attributes
    ----------
    key : what the ids of its claims begin with: small letters and digits.
    citation : authors, title, and where it appeared.
    package : the package that holds it, ``__name__`` in its ``__init__``.
    modules : the modules of claims in the paper's order.
    order : place among the papers; papers of equal place come by key.
    """

    key: str
    citation: str
    package: str
    modules: tuple[str, ...]
    order: int = 100

    def __post_init__(self) -> None:
        join_texts(self)
        if not re.fullmatch("[a-z0-9]+", self.key):
            raise Malformed(f"paper key {self.key!r} is not of small letters and digits", "give another key")
        if not self.citation:
            raise Malformed(f"paper {self.key} has no citation", "give authors, title and year in citation")
        if isinstance(self.modules, str) or not self.modules or len(set(self.modules)) < len(self.modules):
            raise Malformed(
                f"paper {self.key} has the modules {self.modules!r}", "give the names of its modules of claims, each once"
            )

    @property
    def folder(self) -> Path:
        """Where the package lies."""
        return Path(str(sys.modules[self.package].__file__)).resolve().parent

    @property
    def own(self) -> bool:
        """Whether it belongs to this toolkit, and not to a claim pack."""
        return self.package.startswith(OWN + ".")


@cache
def _found() -> tuple[dict[str, Paper], tuple[Problem, ...]]:
    own = [f"{OWN}.{f.parent.name}" for f in sorted(HOME.glob("*/__init__.py"))]
    packs = sorted(e.value.partition(":")[0] for e in entry_points(group=GROUP))
    papers: dict[str, Paper] = {}
    problems: list[Problem] = []
    for package in dict.fromkeys([*own, *packs]):
        try:
            paper = _paper_of(package)
            if paper.key in papers:
                raise Malformed(
                    f"the key {paper.key} is that of {papers[paper.key].package} too",
                    "uninstall one of them, or rename its key",
                )
            papers[paper.key] = paper
        except Exception as error:  # one paper must not stop the others
            file = str(getattr(sys.modules.get(package), "__file__", None) or package)
            folder = Path(file).parent if package in sys.modules else HOME / package.removeprefix(f"{OWN}.")
            problems.append(problem(package.rpartition(".")[2], error, file, folder))
    return dict(sorted(papers.items(), key=lambda item: (item[1].order, item[0]))), tuple(problems)


def _paper_of(package: str) -> Paper:
    paper = getattr(import_module(package), "PAPER", None)
    if not isinstance(paper, Paper):
        raise Malformed(f"{package} has no PAPER record", f"write PAPER = Paper(...) in {package}/__init__.py")
    if paper.package != package:
        raise Malformed(f"PAPER names the package {paper.package!r}, not {package!r}", "write package=__name__")
    return paper


def papers() -> dict[str, Paper]:
    """All papers by key, in order."""
    return _found()[0]


def problems() -> tuple[Problem, ...]:
    """Packages that should be papers and could not be read."""
    return _found()[1]


__all__ = ["GROUP", "Paper", "papers", "problems"]
