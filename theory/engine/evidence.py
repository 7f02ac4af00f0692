"""The ledger: evidence on claims, stored with what it judged, and the verdict that follows from it.

Belongs here: the shape of evidence, when it is stale, verdicts as a function of evidence, the file that several
processes share.
Does not belong here: producing evidence (theory.engine.levels). A verdict is always computed here, never read from a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from estimators.system import files
from estimators.system.untrusted import EXPANDED, read_bytes
from theory.engine import reach
from theory.engine.claim import Claim
from theory.engine.literal import table
from theory.engine.paper import papers
from theory.engine.registry import find, known

SCHEMA = 3
VERDICTS = ("holds", "holds under", "misprint", "wrong", "open")
LEVELS = ("derived", "computed", "simulated", "integrated", "attacked", "independent", "literal")
DEFAULT_LEDGER = Path("build") / "ledger.json"
# What a judge takes from a claim, besides text for readers.
JUDGED = (
    "variables", "examples", "printed", "derive", "oracle", "computed", "simulate", "relation", "condition",
    "counterexample", "corrected", "shifts", "entries", "edits", "assumes", "although", "tight", "not_simulated",
    "not_computed", "shares", "latex", "kind", "objective",
)  # fmt: skip
TAKEN = ("variables", "derive", "assumes", "although")  # what a derivation takes from a claim that it uses as a lemma
DRAWN = ("simulated", "integrated")  # the levels that ask a claim's simulation, which `quick` leaves out
LEVEL_CODE = (*LEVELS, "mutated")  # of theory.engine.levels


class LedgerError(ValueError):
    """The ledger file cannot be read; the message names the file and the way out."""


def source_hash(claim: Claim, lemmas: Iterable[str] = ()) -> str:
    """Fingerprint of all that the judges of a claim can reach: its own functions and values, the engine, what they call in
    `estimators`, data files, the results of other claims that its derivation takes (`lemmas`), versions of libraries.
    """
    key = id(claim), tuple(sorted(lemmas))
    if key not in _hashes:
        _hashes[key] = claim, reach.digest(reach.sources(), *reached_by(claim, lemmas, reach.sources()))
    return _hashes[key][1]


_hashes: dict[tuple[Any, ...], tuple[Claim, str]] = {}  # with the claim, so that its number is given to no other


def reached_by(claim: Claim, lemmas: Iterable[str], sources: reach.Sources) -> tuple[set[reach.Node], set[str]]:
    """The definitions that the judges of a claim can reach, and the values that it gives them, as text."""
    levels = [name for name in LEVEL_CODE if name not in DRAWN or claim.simulate is not None]
    level_code = {(f"theory.engine.levels.{name}", "level") for name in levels}
    reached = reach.Reached(nodes=level_code, texts={str(bool(claim.slip))})
    for name in JUDGED:
        reached.texts.add(f"{name} is None: {getattr(claim, name) is None}")
        reached.texts.add(f"{name}: {reach.shape(getattr(claim, name))}")
        reach.collect(sources, getattr(claim, name), reached)
    letters = table(claim.paper)  # of the paper's displays, which are looked up and not named
    for value in (letters.letters, letters.indices, letters.readings.get(claim.id)):
        reach.collect(sources, value, reached)
    return with_lemmas(claim, reached, lemmas, sources), reached.texts


def with_lemmas(
    claim: Claim, reached: reach.Reached, lemmas: Iterable[str], sources: reach.Sources
) -> set[reach.Node]:  # fmt: skip
    """All definitions behind what a claim reaches, and behind the derivations that it takes; their values join `reached`.

    A derivation names its lemmas by their ids; those that it names otherwise are in `lemmas`, recorded when it ran.
    """
    nodes = sources.closure(reached.nodes)
    waiting, taken = [*lemmas, *claims_named(sources, reached, nodes)], {claim.id}
    while waiting:
        other = waiting.pop()
        if other not in taken and known(other):
            taken.add(other)
            more = reach.Reached()
            for name in TAKEN:
                more.texts.add(f"{other}, {name}: {reach.shape(getattr(find(other), name))}")
                reach.collect(sources, getattr(find(other), name), more)
            further = sources.closure(more.nodes)
            waiting += claims_named(sources, more, further)
            nodes |= further
            reached.texts |= more.texts
    return nodes


def claims_named(sources: reach.Sources, reached: reach.Reached, nodes: Iterable[reach.Node]) -> list[str]:
    """Ids of claims that stand as text in what is reached: a derivation names its lemmas so."""
    homes = ("theory.papers.", *(f"{p.package}." for p in papers().values()))
    texts = reached.strings.union(*(sources.strings(n) for n in nodes if n[0].startswith(homes)))
    return [text for text in texts if text.partition(":")[0] in papers() and known(text)]


@dataclass
class Record:
    """What is known of one claim: evidence per level, with the fingerprint of what the judges reach, the hash of the whole
    tree then (while that is the same, nothing else needs looking at), and the random root it was made with.
    """

    claim: str
    source: str
    root: int
    quick: bool
    levels: dict[str, dict[str, Any]] = field(default_factory=dict)
    mutants: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    tree: str = ""

    @property
    def lemmas(self) -> tuple[str, ...]:
        """Ids of the claims whose results the derivation took."""
        return tuple(self.levels.get("derived", {}).get("lemmas", ()))

    def current(self, claim: Claim) -> bool:
        """Whether nothing that the judges can reach has changed since this was recorded."""
        return self.tree == reach.sources().tree or self.source == source_hash(claim, self.lemmas)

    def verdict(self) -> str:
        """The verdict that this evidence supports."""
        return verdict(self.levels)

    def contradictions(self) -> list[str]:
        """Evidence that does not fit the verdict, in words; empty when all is well."""
        found = []
        for name in LEVELS:
            level = self.levels.get(name)
            if level is None:
                if not (self.quick and name in DRAWN):
                    found.append(f"level '{name}' is missing")
            elif level["status"] == "fail":
                found.append(f"{name}: {level['detail']}")
            elif level["status"] == "unknown":
                found.append(f"{name} is unknown: {level['detail']}")
        if self.mutants.get("status") in ("fail", "unknown") and not self.mutants.get("survived"):
            found.append(f"mutants could not be judged: {self.mutants['detail']}")
        if self.mutants.get("survived"):
            found.append(f"{self.mutants['survived']} mutants survived: {self.mutants['survivors'][0]}")
        return found

    def to_json(self) -> dict[str, Any]:
        """JSON form; the verdict is included for readers and ignored when loading."""
        return {
            "verdict": self.verdict(),
            "source": self.source,
            "tree": self.tree,
            "root": self.root,
            "quick": self.quick,
            "seconds": round(self.seconds, 3),
            "levels": self.levels,
            "mutants": self.mutants,
        }


def verdict(levels: Mapping[str, Mapping[str, Any]]) -> str:
    """holds, holds under, misprint, wrong or open, from the evidence alone.

    Two independent routes must agree: the derivation judges the printed formula on the whole domain, and the
    oracle confirms it (or the counterexample) in exact numbers.
    """
    derived, computed = levels.get("derived", {}), levels.get("computed", {})
    if derived.get("status") != "pass" or computed.get("status") != "pass":
        return "open"
    if any(level["status"] in ("fail", "unknown") for level in levels.values()):
        return "open"  # evidence against a verdict leaves none
    judgement = derived["judgement"]
    if judgement == "agrees":
        return "holds"
    confirmed = computed.get("counterexample_confirmed", False)
    if judgement == "agrees under the condition" and confirmed:
        return "holds under"
    if judgement == "differs" and confirmed:
        return "misprint" if derived.get("slip") else "wrong"
    return "open"


class Ledger:
    """The evidence file. `put` saves atomically and merges: neither a killed run nor two at once lose finished work."""

    def __init__(self, path: Path | str = DEFAULT_LEDGER):
        self.path = Path(path)
        self.records: dict[str, Record] = {}
        self.seen: tuple[int, ...] | None = None
        self._texts: dict[str, tuple[Record, str]] = {}  # of records in the file: each is put into words once
        self.outdated = ""  # why what is in the file counts as nothing, for readers

    @classmethod
    def load(cls, path: Path | str = DEFAULT_LEDGER) -> Ledger:
        """Read a ledger; an absent file is an empty ledger, and so is one of an earlier schema, which the first record
        replaces. Raises LedgerError for a damaged one, and for one of a later schema.
        """
        ledger = cls(path)
        ledger.seen = ledger._stamp()
        if ledger.seen is None:
            return ledger
        way_out = f"move or delete {ledger.path} and run `borrow verify` again"
        try:
            data = json.loads(read_bytes(ledger.path, largest=EXPANDED).decode())
            schema, claims = data["schema"], data["claims"].items()
            if type(schema) is int and 0 < schema < SCHEMA:
                ledger.outdated = f"{ledger.path}: evidence of an earlier version (schema {schema}) counts as none"
                return ledger
            if schema != SCHEMA:
                raise LedgerError(f"{ledger.path}: schema {schema} is not {SCHEMA}; {way_out}")
            for claim_id, r in claims:
                ledger.records[claim_id] = Record(
                    claim_id, r["source"], r["root"], r["quick"], r["levels"], r["mutants"], r["seconds"], r["tree"]
                )
            for record in ledger.records.values():  # one that cannot be read out is damaged
                _ = record.verdict(), record.contradictions(), record.to_json()
        except json.JSONDecodeError as error:
            where = f"line {error.lineno} column {error.colno}"
            raise LedgerError(
                f"{ledger.path}: not a complete ledger (JSON breaks off or is corrupt at {where}); {way_out}"
            ) from None
        except (KeyError, IndexError, TypeError, AttributeError, UnicodeDecodeError, RecursionError) as error:
            raise LedgerError(f"{ledger.path}: not a ledger ({error!r}); {way_out}") from None
        return ledger

    def fresh(self, claim: Claim, root: int, quick: bool) -> Record | None:
        """The record of a claim if it was made from the present sources, seed and depth; else None."""
        record = self.records.get(claim.id)
        if record is None or record.root != root or (record.quick and not quick):
            return None
        return record if record.current(claim) else None

    def put(self, record: Record) -> None:
        """Add a record to the file, and take over what other processes have added meanwhile.

        Where another one has judged this very claim meanwhile, its record stays if it is as good as this one.
        Raises LedgerError for a file damaged meanwhile.
        """
        with files.locked(self.path):
            if self._stamp() != self.seen:
                there = Ledger.load(self.path).records
                other = there.get(record.claim)
                if other is not None and other != self.records.get(record.claim) and serves_instead(other, record):
                    record = other
                self.records |= there
            self.records[record.claim] = record
            self._texts.pop(record.claim, None)
            self._write()

    def confirm(self, records: Iterable[Record]) -> None:
        """Note that these records are of the sources as they are now, so that the next look at them is short."""
        tree = reach.sources().tree
        older = [record for record in records if record.tree != tree]
        if not older:
            return
        with files.locked(self.path):
            if self._stamp() != self.seen:
                self.records |= Ledger.load(self.path).records
            for record in older:
                known = self.records[record.claim]
                if known.source == record.source:
                    known.tree = record.tree = tree
                self._texts.pop(record.claim, None)
            self._write()

    def save(self) -> None:
        """Write these records, whatever is in the file."""
        self._texts = {}
        with files.locked(self.path):
            self._write()

    def _write(self) -> None:
        for name, record in self.records.items():
            if self._texts.get(name, (None,))[0] is not record:
                self._texts[name] = record, json.dumps(record.to_json(), indent=1).replace("\n", "\n  ")
        claims = ",\n".join(f"  {json.dumps(name)}: {self._texts[name][1]}" for name in sorted(self.records))
        files.write(self.path, f'{{\n "schema": {SCHEMA},\n "claims": {{\n{claims}\n }}\n}}\n')
        self.seen = self._stamp()

    def _stamp(self) -> tuple[int, ...] | None:
        """What tells the file as it is now from every other one: each writer makes a new file."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def serves_instead(other: Record, record: Record) -> bool:
    """Whether another process's record of the same claim is to be kept: it has as much, and judged the present sources."""
    if other.root != record.root or (other.quick and not record.quick):
        return False
    return other.source == record.source or other.tree == reach.on_disk().tree
