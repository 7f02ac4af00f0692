"""Why a claim is not simulated, or has no float64 function: one of a short list of reasons, each of which code checks.

Belongs here: the record, the kinds in words.  Does not belong here: their checks (exemption_checks.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from theory.engine.lines import join_texts
from theory.engine.problem import Malformed

FEW = 4  # operations of a formula that needs no function
SIMULATED = {
    "deterministic": "nothing in it is random",
    "divergence": "a divergence or a privacy cost of known laws, judged exactly",
    "enumerated": "all outcomes are enumerated exactly",
    "limit": "a limit of what is simulated",
    "part": "made of quantities that are simulated",
    "rare": "too rare to be seen",
    "arithmetic": "arithmetic on printed numbers",
    "simulation": "the claim is itself a simulation",
}
COMPUTED = {
    "line": "lines of an algorithm, which estimators runs as a whole",
    "difference": "a difference that vanishes or loses digits; its parts are computed",
    "part": "made of quantities that are computed",
    "limit": "a limit of what is computed",
    "enumerated": "all outcomes are enumerated exactly",
    "arithmetic": "arithmetic on printed numbers",
    "few": f"at most {FEW} operations",
    "constant": "numbers without a variable",
    "elsewhere": "estimators does it in another shape",
    "refuted": "estimators does not compute what is wrong",
    "divergence": "a divergence of small laws, judged exactly",
    "outside": "a statement that no estimator uses",
}


@dataclass(frozen=True, kw_only=True)
class Exempt:
    """The kind of reason, the claims that stand in (`of`), the function that does it elsewhere, and a note for readers."""

    kind: str
    of: tuple[str, ...] = ()
    function: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        join_texts(self)
        known = {**SIMULATED, **COMPUTED}
        if self.kind not in known:
            raise Malformed(f"exemption {self.kind!r} is of no known kind", f"take one of {', '.join(known)}")

    def text(self, what: dict[str, str]) -> str:
        """For readers: the kind's sentence, the claims it leans on, the note."""
        said = what[self.kind]
        more = [*(["see " + ", ".join(self.of)] if self.of else []), *([self.function] if self.function else [])]
        return "; ".join([said, *more, *([self.note] if self.note else [])])


def text_of(exempt: Exempt | None, kinds: dict[str, str]) -> str:
    """An exemption for readers; nothing where none is needed."""
    return "" if exempt is None else exempt.text(kinds)


__all__ = ["COMPUTED", "FEW", "SIMULATED", "Exempt", "text_of"]
