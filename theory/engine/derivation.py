"""Derivations as readable texts: a list of steps, each a sentence with a formula, and a result.

Belongs here: the record that a derivation leaves and its rendering. Does not belong here: any mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import sympy as sp


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
class Derivation:
    """A proof under construction: `say` adds a step and hands the formula on; `result` is what was shown."""

    steps: list[Step] = field(default_factory=list)
    result: Any = None
    lemmas: list[str] = field(default_factory=list)

    def say(self, text: str, formula: Any = None) -> Any:
        """Add a step; returns the formula, so that a derivation reads as code and as prose."""
        self.steps.append(Step(text, formula))
        return formula

    def lemma(self, claim_id: str, text: str = "", **values: Any) -> Any:
        """Add a step that takes another claim's derived result, at these values of its variables; returns the result.

        This is how claims come to depend on each other: the dependency is recorded here, where the result is used.
        A claim in several cases is taken in the case that `values` (and defaults of its choices) name.
        """
        from theory.engine.domain import Case, symbols_of
        from theory.engine.registry import find

        claim = find(claim_id)
        known = {v.name: values.get(v.name, v.default) for v in claim.variables}
        missing = [k for k, v in known.items() if v is None]
        if missing:
            raise ValueError(f"lemma {claim_id}: give {', '.join(missing)}")
        choices = {v.name: known[v.name] for v in claim.variables if v.kind == "choice"}
        lists = [known[v.name] for v in claim.variables if v.lengths is not None]
        case = Case(choices, len(lists[0]) if lists else None)
        rules: dict[Any, Any] = {}
        for name, symbol in symbols_of(claim.variables, case).items():
            if isinstance(symbol, list):
                rules.update(zip(symbol, known[name], strict=True))
            elif name not in choices:
                rules[symbol] = sp.sympify(known[name])
        derived = claim.derived(case)
        if isinstance(derived, tuple):
            result: Any = tuple(sp.sympify(e).subs(rules, simultaneous=True) for e in derived)
        else:
            result = sp.sympify(derived).subs(rules, simultaneous=True)
        if claim_id not in self.lemmas:
            self.lemmas.append(claim_id)
        return self.say(f"By {claim_id}" + (f", {text}" if text else ""), result)

    def conclude(self, text: str, result: Any) -> Derivation:
        """Add the last step and fix the result."""
        self.say(text, result)
        self.result = result
        return self

    def render(self) -> str:
        """Plain text of the whole derivation, numbered."""
        return "\n".join(f"  {i}. {step.render()}" for i, step in enumerate(self.steps, 1))
