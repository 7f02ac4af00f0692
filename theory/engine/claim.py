"""A claim: a formula with its source, domain, assumptions, and the functions that judge it.

Belongs here: the record and what can be read off it (cases, arguments, values at a point). Does not belong here:
judging (engine.levels), storage (evidence.py), any concrete claim (one module per paper).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sympy as sp

from theory.engine import domain
from theory.engine.algebra import TimeLimit, entrywise, simplest, time_limit
from theory.engine.domain import Case, Point, Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.lines import join_texts
from theory.engine.paper import papers
from theory.engine.problem import Malformed
from theory.engine.steps import Steps
from theory.engine.switches import unknown
from theory.engine.tight import Tight
from theory.engine.values import Values

DERIVATION_SECONDS = 60.0
RELATIONS = ("=", "<=", ">=")
DECISIONS = ("nonnegative", "real")
KINDS = (
    "identity",
    "optimum",
    "upper bound",
    "lower bound",
    "limit",
    "order",
    "probability",
    "algorithm line",
    "number",
)


EQUALITIES = ("identity", "optimum", "limit", "algorithm line")  # kinds that no bound is of


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper and the independent functions that judge it.

    Every function takes (a subset of) the claim's variables by name; on symbols it returns SymPy
    expressions, on numbers exact numbers. Several values are a tuple, named by `entries`.

    Attributes
    ----------
    id, title, place, statement, latex, kind, unit
        What is claimed and where: `place` is section, theorem and equation numbers; `latex` is the printed
        formula as the paper's LaTeX has it. Texts may stand on several lines (`theory.engine.lines`).
    variables, examples
        The domain, and a few readable points of it (the first is used for plots and simulation).
    printed
        The formula exactly as printed, or None where the paper gives none.
    derive
        Derivation of the right formula from the model; never looks at `printed`.
    oracle
        The same value by another route: exact rational brute force, exact enumeration, or 50 digits.
    computed
        The float64 function of `estimators`.
    simulate
        `simulate(**point) -> Simulation` of the model's raw noise, which is read without knowing the claim's value;
        or None, with the reason in `not_simulated`: an `Exempt` of a kind that code checks; so with `not_computed`.
    relation
        "=": printed equals derived; ">=": derived is at least printed (printed is a lower bound); "<=".
    condition
        The hidden assumption under which the printed formula holds, as a function of the variables.
    counterexample
        A readable point where the printed formula fails (verified, never trusted).
    corrected, slip
        The right formula in readable form (verified against `derive`); `slip` says which slip of the pen
        explains a misprint: the paper itself shows what was meant (by another place, by the sentence, by units) and
        concludes nothing from the slip. That it changes a letter or two at most is checked; what else fails is wrong.
    shifts
        For sign certificates: function from the symbols to substitutions by non-negative new symbols, or to a list of
        such that together cover the domain (orders of the entries of a list, say); that they cover it is checked.
    objective, decision
        For optima: `objective(x, **variables)` is the model's risk as a function of the decision x (a tuple where
        the claimed optimum is one), which the right formula minimises over all x >= 0 ("nonnegative") or over all
        real x ("real"). `theory.coq.prove` states and proves exactly that.
    approach
        For limits: `approach(t, **variables)` is the quantity whose limit for t to infinity is claimed.
    related
        Ids of claims worth reading with this one. What a derivation rests on is not typed: it is recorded where
        `Derivation.lemma` takes another claim's result.
    model
        The decisions of `theory.coq.model` that Coq proves of the claim from the model, by name, such as "BestWeights" or
        "Value(Server)"; `theory.coq.models` says for which clients, and is held to this.
    edits
        Where `printed` departs from the paper's text, and why; one that changes the value excludes the verdict `holds`.
    assumes, although
        Answers to the switches of `theory.engine.switches` that the judges depend on; what lemmas assume is inherited.
        `although` names a lemma whose answers do not matter here, with the reason.
    tight
        Of a bound: where it is attained, or a witness of its slack.
    finding
        Of a formula that fails: one plain sentence for readers, without which it is refused.
    shares
        What two judges share beside machinery and packing ("module.function"), with a reason that readers see.
    ours
        The formula is this toolkit's own (a correction, a working replacement), not printed in the paper.
    """

    id: str
    title: str
    place: str
    statement: str
    latex: str
    kind: str
    variables: tuple[Variable, ...]
    examples: tuple[Mapping[str, Any], ...]
    derive: Callable[..., Steps]
    oracle: Callable[..., Any]
    printed: Callable[..., Any] | None = None
    computed: Callable[..., Any] | None = None
    simulate: Callable[..., Any] | None = None
    not_simulated: Exempt | None = None
    not_computed: Exempt | None = None
    relation: str = "="
    condition: Callable[..., Any] | None = None
    condition_text: str = ""
    counterexample: Mapping[str, Any] | None = None
    corrected: Callable[..., Any] | None = None
    corrected_text: str = ""
    slip: str = ""
    shifts: Callable[..., Mapping[Any, Any] | Sequence[Mapping[Any, Any]]] | None = None
    objective: Callable[..., Any] | None = None
    decision: str = "nonnegative"
    approach: Callable[..., Any] | None = None
    model: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    assumes: Mapping[str, str] = field(default_factory=dict)
    although: Mapping[str, str] = field(default_factory=dict)
    tight: Tight | None = None
    finding: str = ""
    shares: Mapping[str, str] = field(default_factory=dict)
    ours: bool = False
    entries: tuple[str, ...] = ()
    unit: str = ""
    related: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    remark: str = ""

    def __post_init__(self) -> None:
        """Join the lines of texts; raise `Malformed`, naming all house rules that are broken, with their mends."""
        join_texts(self, latex=("latex",))
        known, asked = ", ".join(papers()), self._beyond_the_point()
        prose = ", ".join(n for n in ("not_simulated", "not_computed") if isinstance(getattr(self, n), str))
        answers, edited = unknown(self.assumes), [e.printed for e in self.edits if e.printed not in self.latex]
        broken = [
            (self.paper not in papers(), f"no paper {self.paper!r} is known", f"the id must start with one of {known}"),
            (self.kind not in KINDS, f"kind {self.kind!r} is none", f"take one of {', '.join(KINDS)}"),
            (self.relation not in RELATIONS, f"relation {self.relation!r} is none", f"take one of {', '.join(RELATIONS)}"),
            (
                self.relation != "=" and self.kind in EQUALITIES,
                f"relation {self.relation!r} makes a bound of a claim of kind {self.kind!r}",
                "give the kind of a bound, or the relation '='",
            ),
            (not self.place, "a claim needs its source", "give place: section, theorem and equation numbers"),
            (not self.statement, "a claim needs its statement", "say in statement what is claimed"),
            (not self.variables, "a claim needs a domain", "give variables"),
            (not self.examples, "a claim needs an example point", "give at least one in examples"),
            (bool(asked), f"simulate asks for {asked}", "simulate gets the point only, never the claim's value"),
            (self.simulate is None and not self.not_simulated, "no check", "give simulate, or the reason in not_simulated"),
            (self.computed is None and not self.not_computed, "no float64", "give computed, or the reason in not_computed"),
            (bool(prose), f"the reason in {prose} is text, which no code can check", "give an Exempt of a kind"),
            (self.decision not in DECISIONS, f"decision {self.decision!r} is none", f"take one of {', '.join(DECISIONS)}"),
            (self.condition is not None and not self.condition_text, "a condition needs its text", "give condition_text"),
            (
                self._fails and not self.finding.endswith("."),
                "the printed formula is corrected, and no finding says what is wrong with it",
                "say it to readers in finding, in one plain sentence",
            ),
            (bool(answers), "; ".join(answers), "see theory.engine.switches"),
            (bool(edited), f"edits of {edited}, which latex does not hold", "give pieces of latex as they stand there"),
            (bool(self.tight) and self.relation == "=", "tight is given of what is no bound", "leave it out"),
            (bool(self.tight) and self.printed is None, "tight is given where nothing is printed", "leave it out"),
        ]
        found = [(what, mend) for is_broken, what, mend in broken if is_broken]
        if found:
            raise Malformed("; ".join(what for what, _ in found), "; ".join(mend for _, mend in found), self.id)

    @property
    def _fails(self) -> bool:
        """Whether the claim can come out as a misprint or wrong: that needs a corrected formula and no condition."""
        return self.printed is not None and self.corrected is not None and self.condition is None

    def _beyond_the_point(self) -> str:
        """What `simulate` needs that is no variable of the claim."""
        parameters = inspect.signature(self.simulate).parameters.values() if self.simulate is not None else ()
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.default is p.empty]
        return ", ".join(p.name for p in named if p.name not in {v.name for v in self.variables})

    @property
    def paper(self) -> str:
        """Key of the paper."""
        return self.id.split(":", 1)[0]

    @property
    def sentence(self) -> str:
        """What is wrong with a formula that fails, for readers: the finding, or what comes nearest to one."""
        return self.finding or f"{self.title}: {self.corrected_text or self.slip or self.statement}"

    @property
    def switches(self) -> tuple[Variable, ...]:
        """Variables that choose a variant of the model: choices with a default."""
        return tuple(v for v in self.variables if v.kind == "choice" and v.default is not None)

    def cases(self) -> list[Case]:
        """All combinations of discrete variables and list lengths."""
        return list(domain.cases(self.variables))

    def point(self, values: Mapping[str, Any]) -> Point:
        """A complete, validated, exact point. Raises DomainError naming the variable."""
        return domain.complete(values, self.variables)

    def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call one of the claim's functions with those of the arguments that it names."""
        names = _names(function)
        return function(**(arguments if names is None else {k: v for k, v in arguments.items() if k in names}))

    def symbolic(self, function: Callable[..., Any], case: Case) -> Any:
        """Value of a function of the claim on the symbols of a case."""
        return self.call(function, domain.symbols_of(self.variables, case))

    def derivation(self, case: Case) -> Steps:
        """The derivation for a case (cached). Raises TimeLimit when it takes too long."""
        return _derivation(self, _frozen(case))

    def derived(self, case: Case) -> Any:
        """The derived formula for a case."""
        return self.derivation(case).result

    def at(self, function: Callable[..., Any], point: Point) -> Any:
        """Exact value of `printed`, `oracle`, ... at a complete point."""
        return entrywise(self.call(function, point), tidy)

    def printed_at(self, point: Point) -> Any:
        """Exact value of the printed formula; at an infinite coordinate, its limit. None where nothing is printed."""
        if self.printed is None:
            return None
        coordinates = [x for v in point.values() for x in (v if isinstance(v, list) else [v])]
        if sp.oo not in coordinates:
            return self.at(self.printed, point)
        case = domain.case_of(self.variables, point)
        rules = domain.substitution(self.variables, case, point)
        return entrywise(self.symbolic(self.printed, case), lambda e: tidy(evaluate_exactly(e, rules)))

    def derived_at(self, point: Point) -> Any:
        """Exact value of the derived formula at a complete point."""
        case = domain.case_of(self.variables, point)
        at = Values(domain.substitution(self.variables, case, point))
        return entrywise(self.derived(case), lambda e: tidy(at.exact(e)))

    def derived_digits(self, point: Point) -> Any:
        """As `derived_at`, for comparisons: values that are not rational in 50 digits."""
        case = domain.case_of(self.variables, point)
        at = Values(domain.substitution(self.variables, case, point))
        return entrywise(self.derived(case), lambda e: tidy(at.digits(e)))

    def shifted(self, case: Case) -> list[Mapping[Any, Any]]:
        """The substitutions for sign certificates of a case, which together cover the domain; one empty one without any."""
        found = {} if self.shifts is None else self.symbolic(self.shifts, case)
        return [found] if isinstance(found, Mapping) else list(found)

    def holds_at(self, point: Point) -> bool:
        """Whether the condition of the claim holds at a point (True without a condition)."""
        if self.condition is None:
            return True
        return bool(self.call(self.condition, point))


def evaluate_exactly(expression: Any, rules: Mapping[Any, Any]) -> Any:
    """Substitute numbers; infinite ones through a limit along their symbols."""
    return Values(rules).exact(expression)


def tidy(value: Any) -> Any:
    """Numbers as they are; a pole of a non-negative quantity as +infinity."""
    value = sp.sympify(value)
    if value is sp.zoo:
        return sp.oo
    return value


@cache
def _names(function: Callable[..., Any]) -> frozenset[str] | None:
    """The arguments that a function names; None where it takes any."""
    parameters = inspect.signature(function).parameters
    return None if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) else frozenset(parameters)


def _frozen(case: Case) -> tuple[Any, ...]:
    return (tuple(sorted(case.choices.items(), key=str)), case.length)


@cache
def _derivation_cached(claim_id: int, frozen: tuple[Any, ...]) -> Steps:
    claim = _LIVE[claim_id]
    case = Case(dict(frozen[0]), frozen[1])
    if (claim.id, frozen) in _UNDER_WAY:
        raise ValueError(f"the derivation of {claim.id} takes the result of {claim.id} itself, if by way of others")
    _UNDER_WAY.append((claim.id, frozen))
    try:
        with time_limit(DERIVATION_SECONDS):
            found = claim.symbolic(claim.derive, case)
    finally:
        _UNDER_WAY.pop()
    found.result = entrywise(found.result, lambda e: tidy(e) if _is_number(e) else simplest(e))
    return found


_LIVE: dict[int, Claim] = {}
_UNDER_WAY: list[tuple[str, Any]] = []


def _derivation(claim: Claim, frozen: tuple[Any, ...]) -> Steps:
    _LIVE[id(claim)] = claim
    return _derivation_cached(id(claim), frozen)


def _is_number(expression: Any) -> bool:
    return not getattr(expression, "free_symbols", set()) or not sp.sympify(expression).is_rational_function()


__all__ = ["KINDS", "Claim", "TimeLimit"]
