"""The two questions users ask: what is a formula's value at a point, and is it right.

Belongs here: `evaluate`, `verify`, and the report that `verify` returns. Does not belong here: how evidence is made
(judging.py), printing (cli.py).
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import as_completed
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import sympy as sp

from estimators.system.processes import worker_pool, workers_for
from theory.engine import domain, reach
from theory.engine.claim import Claim
from theory.engine.domain import DomainError
from theory.engine.evidence import DEFAULT_LEDGER, Ledger, LedgerError, Record
from theory.engine.exemption import SIMULATED, text_of
from theory.engine.problem import Problem
from theory.engine.registry import claims, find, malformed

DEFAULT_ROOT = 20_261_120
# Workers keep more of SymPy's answers than its 1,000 of a kind, and seldom look for dead circles among its many objects.
REMEMBERED = {"SYMPY_CACHE_SIZE": "50000"}
OBJECTS = 50_000  # new ones between two looks


@dataclass(frozen=True)
class Report:
    """Outcome of a verification run: a record per claim, in the papers' order; what could not be read, so not judged; and
    that the ledger was of an earlier version, so not used, where it was.
    """

    records: tuple[Record, ...]
    reused: int
    ledger: Path | None
    malformed: tuple[Problem, ...] = ()
    outdated: str = ""

    def problems(self) -> dict[str, list[str]]:
        """Claims without a verdict or with evidence against it; empty when the run is a success."""
        found = {r.claim: r.contradictions() for r in self.records}
        for r in self.records:
            if r.verdict() == "open" and not found[r.claim]:
                found[r.claim] = ["no verdict"]
        return {k: v for k, v in found.items() if v}

    @property
    def ok(self) -> bool:
        """Whether every claim could be read, has a verdict, and nothing is unknown or contradicts it."""
        return not self.problems() and not self.malformed

    def counts(self) -> Counter[str]:
        """Number of claims per verdict."""
        return Counter(r.verdict() for r in self.records)


def select(ids: Iterable[str] = (), paper: str | None = None) -> list[Claim]:
    """Claims by id, of one paper, or all. Raises UnknownClaim."""
    ids = list(ids)
    return [find(i) for i in dict.fromkeys(ids)] if ids else list(claims(paper))


def verify(
    ids: Iterable[str] | str = (),
    *,
    paper: str | None = None,
    quick: bool = False,
    deep: bool = False,
    fresh: bool = False,
    root: int = DEFAULT_ROOT,
    jobs: int | None = None,
    ledger: Path | str | None = DEFAULT_LEDGER,
    progress: Callable[[Record, bool], None] | None = None,
) -> Report:
    """Judge claims at all levels and keep the evidence in a ledger.

    Evidence that was made from the present sources and seed is taken from the ledger; `fresh` makes it anew. A ledger of an
    earlier version counts as empty, which the report's `outdated` says.

    Parameters
    ----------
    ids : claim id or iterable of claim ids; all claims when empty.
    paper : key of a paper, to verify its claims only.
        What of them could not be read is in the report's `malformed`.
    quick : leave out the simulated and the integrated level.
    deep : simulations on nets see ten times smaller errors (1e-5); always made anew.
    fresh : ignore evidence in the ledger.
    root : root of all random streams; the same root gives the same bits for any number of jobs.
    jobs : worker processes (default: one per core, 1 for a handful of claims).
    ledger : path of the evidence file, or None to keep none.
    progress : called with (record, reused) as each claim is finished.

    Raises
    ------
    UnknownClaim : an id that no claim has. LedgerError : a ledger file that is damaged, or of a later version.
    ChildProcessError : a worker process died; what is finished is in the ledger.

    Examples
    --------
    >>> verify("feo2:gamma-prop", quick=True, ledger=None).counts()
    Counter({'holds': 1})
    """
    chosen = select([ids] if isinstance(ids, str) else ids, paper)
    store = Ledger.load(ledger) if ledger is not None else None
    done: dict[str, Record] = {}
    if store is not None and not fresh and not deep:
        for claim in chosen:
            record = store.fresh(claim, root, quick)
            if record is not None:
                done[claim.id] = record
                if progress:
                    progress(record, True)
        with suppress(OSError):  # these only make the next look shorter
            store.confirm(done.values())
        reach.sources().save_outlines()
    reused = len(done)
    # Those with a simulation first: where no ledger says how long claims take, these take longest (`longest_first`).
    todo = [c.id for c in sorted(chosen, key=lambda c: c.simulate is None) if c.id not in done]
    seconds = {k: r.seconds for k, r in store.records.items()} if store is not None else {}
    with closing(_judge_all(todo, root, (quick, deep), jobs, seconds)) as judged:
        for record in judged:
            done[record.claim] = record
            if store is not None:
                store.put(record)
            if progress:
                progress(record, False)
    broken = () if ids else malformed(paper)
    path, outdated = (store.path, store.outdated) if store is not None else (None, "")
    return Report(tuple(done[c.id] for c in chosen), reused, path, broken, outdated)


def _judge_one(claim_id: str, root: int, depth: tuple[bool, bool]) -> Record:
    from theory.engine.judging import judge

    return judge(find(claim_id), root, *depth)


def _begin() -> None:
    """In a worker: what lives as long as it is never looked at again."""
    claims()
    gc.freeze()
    gc.set_threshold(OBJECTS)
    Finalize(None, reach.sources().save_outlines, exitpriority=0)  # what it has read of files


def longest_first(ids: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Claims in the order in which workers get them: those that took long last time first, so that no worker is left with
    a long one at the end; new ones before all. The order changes when an answer comes, never what it is.

    >>> longest_first(["a", "b", "c"], {"a": 1.0, "c": 2.0})
    ['b', 'c', 'a']
    """  # fmt: skip
    return sorted(ids, key=lambda i: -seconds.get(i, math.inf))


def _judge_all(
    ids: list[str], root: int, depth: tuple[bool, bool], jobs: int | None, seconds: Mapping[str, float]
) -> Generator[Record, None, None]:
    if jobs is None:
        jobs = min(workers_for(None), 8) if len(ids) > 4 else 1
    jobs = workers_for(jobs)
    if jobs == 1:
        for claim_id in ids:
            yield _judge_one(claim_id, root, depth)
        return
    with worker_pool(jobs, _begin, environment=REMEMBERED) as pool:
        for future in as_completed([pool.submit(_judge_one, i, root, depth) for i in longest_first(ids, seconds)]):
            yield future.result()


@lru_cache(maxsize=256)
def quick_record(claim_id: str) -> Record:
    """The levels of evidence that a verdict follows from, made now in this process."""
    from theory.engine.judging import judge_exactly

    return judge_exactly(find(claim_id), DEFAULT_ROOT)


def verdict_of(claim_id: str) -> str:
    """The verdict on a claim: from up-to-date evidence in the default ledger, or judged now."""
    try:
        record = Ledger.load(DEFAULT_LEDGER).fresh(find(claim_id), DEFAULT_ROOT, True)
    except LedgerError:  # a damaged ledger is no evidence; `borrow verify` reports it
        record = None
    return (record or quick_record(claim_id)).verdict()


def evaluate(
    claim_id: str, *, simulate: bool = False, digits: int | None = None, seconds: float = 10, **point: Any
) -> Mapping[str, Any]:
    """Printed, derived and (on request) simulated value of a claim's formula at a point of its domain.

    Parameters
    ----------
    claim_id : permanent id such as "mrmtl:thm6.3".
    simulate : also simulate the model at this point (value and standard error).
    digits : how many significant digits the simulated value should have, on randomised nets; implies `simulate`.
    seconds : about how long that may take on two cores; what is reached by then is told.
    **point : the claim's variables by name. Numbers, fractions, or text such as "1/3"; lists where the claim
        has lists. Letters that follow from others may be left out (sigma2_c from alpha2 and tau2, ...).

    Returns
    -------
    dict with keys claim, at, printed, derived, unit, verdict; several values are lists named by `entries`.
    With a hidden assumption: condition, condition_holds; where the claim distinguishes variants of the model:
    variants, the derived value under each.

    Raises
    ------
    UnknownClaim, DomainError (naming the variable).

    Examples
    --------
    >>> evaluate("fedhdp:lemma6:rstar", alpha2=1, tau2=1, N_np=10, N_p=90, gamma2=0.1)["derived"]
    0.18181818181818182
    """
    claim = find(claim_id)
    exact_point = claim.point(point)
    verdict = verdict_of(claim_id)
    result: dict[str, Any] = {
        "claim": claim_id,
        "at": {k: number(v) for k, v in exact_point.items()},
        "printed": number(_printed(claim, exact_point)),
        "derived": number(claim.derived_at(exact_point)),
        "unit": claim.unit,
        "verdict": verdict,
    }
    if claim.relation != "=":
        result["relation"] = f"derived {claim.relation} printed"
    if claim.entries:
        result["entries"] = list(claim.entries)
    if claim.condition is not None:
        result["condition"] = claim.condition_text
        result["condition_holds"] = claim.holds_at(exact_point)
    variants = _variants(claim, exact_point)
    if variants:
        result["variants"] = variants
    if simulate or digits is not None:
        result["simulated"] = _simulated_value(claim, exact_point, digits, seconds)
    return result


def _printed(claim: Claim, point: domain.Point) -> Any:
    try:
        return claim.printed_at(point)
    except ZeroDivisionError:
        return sp.oo


def _variants(claim: Claim, point: domain.Point) -> list[dict[str, Any]]:
    """Derived value under every value of the model switches (choices with a default)."""
    found = []
    for v in claim.switches:
        for option in v.choices:
            value = claim.derived_at({**point, v.name: option})
            found.append({v.name: option, "meaning": v.meaning, "derived": number(value)})
    return found


def _simulated_value(claim: Claim, point: domain.Point, digits: int | None, seconds: float) -> dict[str, Any]:
    from estimators.montecarlo import run
    from theory.engine.digits import to_digits
    from theory.engine.levels.simulated import simulate_at

    if claim.simulate is None:
        return {"value": None, "why": text_of(claim.not_simulated, SIMULATED)}
    simulation = simulate_at(claim, point)
    if simulation is None:
        return {"value": None, "why": "this point cannot be simulated (a limit or an empty group)"}
    key = f"{claim.id}#evaluate"
    found = {}
    if digits is None:
        moments = run(simulation.experiment, 2_000_000, key=key, root=DEFAULT_ROOT)
        replicates = moments.count
    else:
        digital = to_digits(simulation, key, DEFAULT_ROOT, digits, seconds)
        moments, replicates, found = digital.moments, digital.replicates, digital.to_json()
    values, labels = simulation.read(moments), [reading.label for reading in simulation.readings]
    single = len(values) == 1
    return {
        "value": number(values[0][0]) if single else [number(v) for v, _ in values],
        "standard_error": number(values[0][1]) if single else [number(s) for _, s in values],
        "replicates": replicates,
        "what": labels[0] if single else labels,
        **found,
    }


def number(value: Any) -> Any:
    """A JSON-ready float, int, list, or text ("inf" for infinity; choices as they are)."""
    if isinstance(value, list | tuple):
        return [number(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "undefined" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, sp.Integer):
        return int(value)
    if value in (sp.oo, -sp.oo, sp.nan, sp.zoo):
        return {sp.oo: "inf", -sp.oo: "-inf"}.get(value, "undefined")
    return float(value)


__all__ = [
    "DEFAULT_ROOT",
    "DomainError",
    "Report",
    "evaluate",
    "longest_first",
    "number",
    "quick_record",
    "select",
    "verdict_of",
    "verify",
]
