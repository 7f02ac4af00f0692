"""What a derivation leaves: a list of steps, each a sentence with a formula, and a result.

Belongs here: the record and its rendering. Does not belong here: taking other claims' results (derivation.py), any
mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import sympy as sp

from theory.engine.lines import joined


@dataclass(frozen=True)
class Step:
    """One line of a proof: a sentence, and the formula that it states (an equation or a value)."""

    text: str
    formula: Any = None

    def render(self) -> str:
        """Plain text of the step."""
        if self.formula is None:
            return self.text
        return f"{self.text}\n        {sp.sstr(self.formula)}"


@dataclass
class Steps:
    """A proof under construction: `say` adds a step and hands the formula on; `result` is what was shown."""

    steps: list[Step] = field(default_factory=list)
    result: Any = None
    lemmas: list[str] = field(default_factory=list)

    def say(self, text: str, formula: Any = None) -> Any:
        """Add a step; returns the formula, so that a derivation reads as code and as prose."""
        self.steps.append(Step(joined(text), formula))
        return formula

    def conclude(self, text: str, result: Any) -> Self:
        """Add the last step and fix the result."""
        self.say(text, result)
        self.result = result
        return self

    def render(self) -> str:
        """Plain text of the whole derivation, numbered."""
        return "\n".join(f"  {i}. {step.render()}" for i, step in enumerate(self.steps, 1))
