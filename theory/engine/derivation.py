"""Derivations as readable texts: steps (steps.py) that may take the results of other claims.

Belongs here: taking another claim's result. Does not belong here: any mathematics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from theory.engine.domain import Case, symbols_of
from theory.engine.registry import find
from theory.engine.steps import Steps


@dataclass
class Derivation(Steps):
    """A proof under construction: `say` adds a step, `lemma` another claim's result; `result` is what was shown."""

    def lemma(self, claim_id: str, text: str = "", **values: Any) -> Any:
        """Add a step that takes another claim's derived result, at these values of its variables; returns the result.

        This is how claims come to depend on each other: the dependency is recorded here, where the result is used.
        A claim in several cases is taken in the case that `values` (and defaults of its choices) name.
        """
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
