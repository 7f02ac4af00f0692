"""Published claims as a benchmark: every table and figure of the papers with learning results, and what became of it.

An entry of ``published.toml`` says what the paper claims (which method is ahead of which, which are level), with which
settings, and which experiments ask the same; a `Judged` entry has a verdict in one word and its reason in one sentence, both
computed from result lines:

- "not run": no result line answers it;
- "not comparable": a setting that the paper states is another here, seeds are too few to tell, or a comparison fails
  (``comparing``) while the paper leaves a setting open that may be why;
- "contradicted": no stated setting is another, but for minor ones, none is left open, and a comparison fails;
- "reproduced": no setting is another than stated, and every comparison holds.

Settings are as stated, another or not stated (with a measured reason why it matters little: minor), or fitted: chosen so
that our numbers meet the printed ones.  Where any is fitted, printed numbers are not counted as reached; they can fail.

Belongs here: reading entries, their comparisons, the verdict.  Does not belong here: the statistics (``comparing``), result
lines (``results``), text for pages (``figures.learn``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estimators.federated.experiments.comparing import Compared, failing, fall, gap, level, log_error, tie
from estimators.federated.experiments.plan import label, plain
from estimators.federated.experiments.results import Row, key, measured, rows, selected
from estimators.federated.kinds import typed

if TYPE_CHECKING:
    from estimators.federated.experiments.plan import Experiment, Printed

__all__ = [
    "FILE",
    "VERDICTS",
    "Check",
    "Entry",
    "Judged",
    "Setting",
    "beside",
    "entries",
    "judge",
    "orders",
    "outcomes",
    "said",
]

FILE = Path(__file__).with_name("published.toml")
KINDS = {"gap": "gaps", "tie": "ties", "fall": "falls of a gain", "level": "printed numbers"}
VERDICTS = ("reproduced", "contradicted", "not comparable", "not run")


@dataclass(frozen=True)
class Setting:
    """A setting as the paper states it (None: not at all) and as it is here; `because` says why a difference is minor."""

    name: str
    paper: Any
    ours: Any
    because: str = ""
    fitted: bool = False

    @property
    def state(self) -> str:
        """As stated, fitted, not stated, minor or differs."""
        if self.fitted:
            return "fitted"
        if self.paper is not None and plain(self.paper) == plain(self.ours):
            return "as stated"
        if self.because:
            return "minor"
        return "not stated" if self.paper is None else "differs"


@dataclass(frozen=True)
class Entry:
    """A table or figure of a paper: what it says, with which settings, what answers it, or why nothing does, what would."""

    paper: str
    place: str
    says: str
    experiments: tuple = ()
    methods: tuple = ()
    settings: tuple = ()
    gaps: tuple = ()
    ties: tuple = ()
    falls: tuple = ()
    reason: str = ""
    needs: str = ""
    tuned: str = ""


@dataclass(frozen=True)
class Check:
    """A comparison of an entry: which, where, and what came of it (None: not run)."""

    kind: str
    experiment: str
    text: str
    measure: str
    at: Mapping[str, Any]
    found: Compared | None
    outcome: str = ""


@dataclass(frozen=True)
class Judged:
    """An entry with its comparisons, its verdict and the reason."""

    entry: Entry
    verdict: str
    reason: str
    checks: tuple = field(default=())
    settings: tuple = field(default=())

    def count(self, outcome: str) -> int:
        """How many comparisons came out so: holds, fails, open, fitted, not run."""
        return sum(check.outcome == outcome for check in self.checks)


@typed
def entries(path: str | Path = FILE) -> list[Entry]:
    """The entries, in the file's order.

    Raises ValueError naming the entry and the key of a mistake.
    """
    found = []
    for table in tomllib.loads(Path(path).read_text(encoding="utf-8"))["entry"]:
        where = f"{table.get('paper')}, {table.get('place')}"
        unknown = table.keys() - Entry.__dataclass_fields__.keys()
        missing = {"paper", "place", "says"} - table.keys()
        if unknown or missing:
            raise ValueError(f"{path}: {where}: unknown {sorted(unknown)}, missing {sorted(missing)}")
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in table.items()}
        entry = Entry(**values)
        if not (entry.reason or entry.experiments):
            raise ValueError(f"{path}: {where}: give experiments, or the reason why there are none")
        for claim in (*entry.gaps, *entry.ties):
            if {"first", "others", "measure"} - claim.keys() or claim.keys() - {*CLAIM}:
                raise ValueError(f"{path}: {where}: a gap or tie has the keys {', '.join(CLAIM)}, got {', '.join(claim)}")
        if any(claim.keys() != {*FALL} or not {*claim["along"]} <= {*entry.experiments} for claim in entry.falls):
            raise ValueError(f"{path}: {where}: a fall has the keys {', '.join(FALL)}, the last of its experiments")
        found.append(entry)
    return found


CLAIM = ("first", "others", "measure", "at", "best", "experiment")
FALL = ("first", "others", "measure", "along")


@typed
def judge(entry: Entry, known: Mapping[str, Experiment], results: Mapping[str, Sequence[Any]]) -> Judged:
    """The verdict of an entry.

    Parameters
    ----------
    entry : Entry; known : experiments by name; results : result lines of those that have any, by name, none embedded.
    """
    settings = tuple(setting(entry, known, table) for table in entry.settings)
    checks = outcomes(list(comparisons(entry, known, results)), any(s.fitted for s in settings))
    if all(check.outcome == "not run" for check in checks):
        return Judged(entry, "not run", entry.reason or "there are no result lines of it", tuple(checks), settings)
    verdict, reason = verdict_of(checks, settings)
    return Judged(entry, verdict, reason, tuple(checks), settings)


def setting(entry: Entry, known: Mapping[str, Experiment], table: dict[str, Any]) -> Setting:
    """A setting, with ours from the entry's first experiment where the file names its key."""
    rest = dict(table)
    if "key" in rest:
        if "ours" in rest:
            raise ValueError(f"{entry.paper}, {entry.place}: {rest['name']}: give key or ours, not both")
        rest["ours"] = ours(known[entry.experiments[0]], rest.pop("key"))
    return Setting(**{"paper": None, **rest})


def ours(experiment: Experiment, path: str) -> Any:
    """The value of an experiment at a path such as work/batch_size or FedHDP/settings/clip."""
    first, *rest = path.split("/")
    methods = {method.name: method for method in experiment.methods}
    value: Any = methods[first] if first in methods else getattr(experiment.setup, first)
    for name in rest:
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


def comparisons(entry: Entry, known: Mapping[str, Experiment], results: Mapping[str, Sequence[Any]]) -> Any:
    """The comparisons of an entry, yet without outcomes: its gaps, ties and falls, then printed numbers."""
    for kind, claims in (("gap", entry.gaps), ("tie", entry.ties)):
        for claim in claims:
            for name in [claim["experiment"]] if "experiment" in claim else entry.experiments:
                yield from pairs(kind, known[name], results.get(name, ()), claim)
    for claim in entry.falls:
        for before, after in pairwise(claim["along"]):
            yield from falls(known[before], known[after], results, claim)
    for name in entry.experiments:
        for printed, _, compared in beside(known[name], rows(known[name], results.get(name, ()))):
            if "spread" not in printed.measure and (not entry.methods or printed.method in entry.methods):
                text = f"{printed.method} has {printed.value}"
                yield Check("level", name, text, printed.measure, printed.at, compared)


@typed
def beside(experiment: Experiment, found: Sequence[Row]) -> list[tuple[Printed, Row | None, Compared | None]]:
    """Each printed number of an experiment, the row that answers it, and how they compare; None where there is none.

    The row is that of the grid point that is printed; where the paper prints the best of a grid, our best.  Spreads over
    clients are not compared: they depend on how many test rows a client has, which the texts do not give.
    """
    chosen, triples = selected(experiment, found), []
    for printed in experiment.printed:
        own = (row for row in [*chosen, *found] if row.method == printed.method and {*key(printed.at)} <= {*key(row.point)})
        row, compared = next(own, None), None
        values = [] if row is None or "spread" in printed.measure else [*by_seed(row, printed.measure).values()]
        if values:
            others = [other.value for other in experiment.printed if rivals(printed, other)]
            compared = level(printed.measure, values, printed.value, printed.error, others)
        triples.append((printed, row, compared))
    return triples


@typed
def orders(experiment: Experiment, found: Sequence[Row]) -> list[Check]:
    """Every two methods that the paper orders in a measure at a place, paired by seed, with outcomes."""
    checks, seen = [], beside(experiment, found)
    for one, first, _ in seen:
        for other, second, _ in seen:
            if not rivals(one, other) or first is None or second is None or "spread" in one.measure:
                continue
            if log_error(one.measure, one.value) < log_error(other.measure, other.value):
                a, b = common(by_seed(first, one.measure), by_seed(second, other.measure))
                if a:
                    compared = gap(one.measure, a, b)
                    text = f"{one.method} is ahead of {other.method}"
                    checks.append(Check("gap", experiment.name, text, one.measure, one.at, compared))
    return outcomes(checks, fitted=False)


def rivals(one: Printed, other: Printed) -> bool:
    """Whether two printed numbers are of different methods in the same measure and place, of whatever kind of model."""
    places = [{name: label(plain(value)) for name, value in printed.at.items()} for printed in (one, other)]
    alike = all(places[0][name] == places[1][name] for name in places[0].keys() & places[1].keys())
    measures = [printed.measure.removeprefix("shared.").removeprefix("personal.") for printed in (one, other)]
    return one.method != other.method and alike and measures[0] == measures[1]


def pairs(kind: str, experiment: Experiment, results: Sequence[Any], claim: Mapping[str, Any]) -> list[Check]:
    """Gaps or ties of one method to others, at every grid point that they share, each with its best over claim["best"]."""
    chosen = selected(experiment, rows(experiment, results))
    words, checks = {"gap": "is ahead of", "tie": "is level with"}[kind], []
    for other in claim["others"]:
        known_methods(experiment, claim["first"], other)
        text = f"{claim['first']} {words} {other}"
        one, two = (best_of(chosen, name, claim) for name in (claim["first"], other))
        shared = [(a, b) for a in one for b in two if agree(a.point, b.point, claim.get("best", ()))]
        found = []
        for a, b in shared:
            first, second = common(by_seed(a, claim["measure"]), by_seed(b, claim["measure"]))
            if first:
                compared = (gap if kind == "gap" else tie)(claim["measure"], first, second)
                at = {name: value for name, value in a.point.items() if b.point.get(name) == value}
                found.append(Check(kind, experiment.name, text, claim["measure"], at, compared))
        checks += found or [Check(kind, experiment.name, text, claim["measure"], claim.get("at", {}), None)]
    return checks


def falls(
    before: Experiment, after: Experiment, results: Mapping[str, Sequence[Any]], claim: Mapping[str, Any]
) -> list[Check]:
    """Whether a method's gain on others is less in one experiment than in the one before, each at its best."""
    first, measure, checks = claim["first"], claim["measure"], []
    for other in claim["others"]:
        sides = []
        for experiment in (before, after):
            known_methods(experiment, first, other)
            chosen = selected(experiment, rows(experiment, results.get(experiment.name, ())))
            for name in (first, other):
                found = best_of(chosen, name, claim)
                if len(found) > 1:
                    raise ValueError(f"{experiment.name}: a fall is of one grid point, let {name!r} select among its own")
                sides.append(by_seed(found[0], measure) if found else {})
        values = common(*sides)
        compared = fall(measure, *values) if values[0] else None
        text = f"the gain of {first} on {other} is less than in {before.place}"
        checks.append(Check("fall", after.name, text, measure, {}, compared))
    return checks


def known_methods(experiment: Experiment, first: str, other: str) -> None:
    """Refuse names that an experiment has no methods of."""
    if not {first, other} <= {method.name for method in experiment.methods}:
        raise ValueError(f"{experiment.name} has no methods {first!r} and {other!r}")


def best_of(chosen: Sequence[Row], name: str, claim: Mapping[str, Any]) -> list[Row]:
    """The rows of a method where the claim is made, the best ones over the keys that it may choose."""
    measure, over, families = claim["measure"], claim.get("best", ()), {}
    for row in chosen:
        wanted = {n: v for n, v in claim.get("at", {}).items() if n in row.point}
        if row.method == name and {*key(wanted)} <= {*key(row.point)} and by_seed(row, measure):
            families.setdefault(key({n: v for n, v in row.point.items() if n not in over}), []).append(row)
    sign = 1 if measure.endswith("accuracy") else -1
    return [max(family, key=lambda row: sign * mean_of(row, measure)) for family in families.values()]


def mean_of(row: Row, measure: str) -> float:
    """A row's mean over seeds; -inf where it has none."""
    value = row.value(measure)
    return float("-inf") if value is None else value[0]


def agree(one: Mapping[str, Any], other: Mapping[str, Any], best: Sequence[str]) -> bool:
    """Whether two grid points are the same where both have a value that was not chosen: of data, privacy, work."""
    keys = [name for name in one if name in other and name not in best and name.startswith(("privacy.", "work.", "eps"))]
    return all(label(plain(one[name])) == label(plain(other[name])) for name in keys)


def by_seed(row: Row, measure: str) -> dict[int, float]:
    """A row's values by seed."""
    found = {result["seed"]: measured(result["final"], measure) for result in row.whole}
    return {seed: value for seed, value in found.items() if value is not None}


def common(*sides: Mapping[int, float]) -> list[list[float]]:
    """The values of the seeds that all sides have, side by side in the order of the seeds."""
    seeds = sorted(set.intersection(*(set(side) for side in sides)))
    return [[side[seed] for seed in seeds] for side in sides]


def outcomes(checks: list[Check], fitted: bool) -> list[Check]:
    """The comparisons with what came of them: holds, fails, open, not run; or fitted, for a printed number that holds."""
    lost = failing([check.found for check in checks if check.found is not None])
    ran = [i for i, check in enumerate(checks) if check.found is not None]
    failed = {ran[i] for i in lost}
    words = []
    for i, check in enumerate(checks):
        if check.found is None:
            words.append("not run")
        elif i in failed:
            words.append("fails")
        elif check.found.holds:
            words.append("fitted" if fitted and check.kind == "level" else "holds")
        else:
            words.append("open")
    return [replace(check, outcome=word) for check, word in zip(checks, words, strict=True)]


def verdict_of(checks: Sequence[Check], settings: Sequence[Setting]) -> tuple[str, str]:
    """The word and the sentence, for an entry of which something was run."""
    count = {word: [c for c in checks if c.outcome == word] for word in ("holds", "fails", "open", "fitted", "not run")}
    others = [setting.name for setting in settings if setting.state == "differs"]
    judged = len(checks)
    seeds = max(check.found.n for check in checks if check.found is not None)
    if others:
        return "not comparable", f"stated otherwise: {', '.join(others)}"
    if seeds == 1:
        return "not comparable", "one seed has no standard error"
    tail = unsaid(settings)
    if count["fails"]:
        worst = min(count["fails"], key=lambda check: 1.0 if check.found is None else check.found.p)
        kinds = [f"{sum(c.kind == kind for c in count['fails'])} of {sum(c.kind == kind for c in checks)} {words}"
                 for kind, words in KINDS.items() if any(c.kind == kind for c in checks)]  # fmt: skip
        # Another value of what is left open may be all that it takes.
        word = "not comparable" if any(setting.state == "not stated" for setting in settings) else "contradicted"
        return word, f"{' and '.join(kinds)} fail, most clearly: {said(worst)}{tail}"
    undecided = count["open"] + count["not run"]
    if undecided or not count["holds"]:
        what = said(undecided[0]) if undecided else "all that holds was fitted"
        return "not comparable", f"{len(undecided)} of {judged} comparisons are undecided, as: {what}{tail}"
    fitted = f"; {len(count['fitted'])} printed numbers are met by fitted settings" if count["fitted"] else ""
    return "reproduced", f"all {len(count['holds'])} comparisons hold{fitted}{tail}"


def unsaid(settings: Sequence[Setting]) -> str:
    """What the sentence adds of settings that are not as stated."""
    parts = []
    for state, word in (("fitted", "fitted"), ("minor", "minor differences"), ("not stated", "not stated")):
        names = [setting.name for setting in settings if setting.state == state]
        parts += [f"{word}: {', '.join(names)}"] if names else []
    return f" ({'; '.join(parts)})" if parts else ""


def said(check: Check) -> str:
    """A comparison in words, with its size."""
    place = ", ".join(f"{name.rsplit('.', 1)[-1]} = {label(value)}" for name, value in check.at.items())
    where = f" in {check.measure}{f' at {place}' if place else ''}"
    if check.found is None:
        return f"{check.text}{where}, not run"
    value, error, n = check.found[:3]
    if check.kind == "level":
        size = f"ours has {exp(value):.2f} times its error"
    else:
        size = f"{value / error:+.1f} standard errors" if n > 1 and error > 0 else f"log ratio of errors {value:+.2f}"
    return f"{check.text}{where}: {size}"
