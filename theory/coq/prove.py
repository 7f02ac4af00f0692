"""Proofs: one generated Coq file per claim, checked by coqc, with nothing assumed beyond Coq's real numbers.

A file is generated from its claim (coq.py) and is never edited: its first line carries a hash of the rest, and a
check generates the text anew, so that a statement cannot drift from its claim. The theorem states what the
derivation gives before simplification ("model"); where that is too large, its simplified result ("simplified").

A file is replaced or removed only by a decision: coqc accepts the new text, or the claim cannot be stated, or coqc says
no. Running out of processor time, or being killed, decides nothing.

Belongs here: files, worker processes, running coqc, what is proved. Does not belong here: statements (coq.py).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from estimators.system import files
from estimators.system.processes import program, worker_pool, workers_for
from theory.coq import boxes, defined, functions, libraries, terms
from theory.coq import generator as coq
from theory.coq.generator import SHOW
from theory.coq.objects import OBJECTS
from theory.coq.terms import SAME_TEXT
from theory.engine import reach
from theory.engine.algebra import TimeLimit, leave_unsimplified, time_limit
from theory.engine.claim import Claim
from theory.engine.evidence import with_lemmas
from theory.engine.paper import papers
from theory.engine.registry import find

FOLDER = libraries.PROOFS
UNPROVED = FOLDER / "unproved.json"
WORK = Path("build") / "proofs"
STATUS = WORK / "status.json"
# Limits are seconds of processor time.
MODES = {
    "defined": 60.0,  # of claims about an object, and of no others
    "model": 40.0,
    "simplified": 90.0,
    "functions": 60.0,
    "boxes": 60.0,
}  # for a file that is new; checking it gets more
LIBRARIES = {"model": "Positive", "simplified": "Positive", "functions": functions.LIBRARY}
ENCLOSING = (*boxes.LIBRARIES, *defined.LIBRARIES)  # what needs coq-interval
CHECK_SECONDS = 600.0
COQC_SECONDS = 60.0  # for one claim, twice as much for a whole batch: what takes longer is halved
RECHECK = 4.0  # times coqc's limit, for coqchk
PATIENCE = 10.0  # times its processor time, by the clock: then coqc waits for something that does not come
# Claims per run of coqc, which takes seconds to load files and to say what all rest on: with coq-interval 1 and 6. A run's
# limit is that of one claim, and again for every eight.
BATCH, SHARE = 24, 8
NOT_ALGEBRAIC = "not algebra over the reals"
NO_INTERVAL = "coq-interval is not installed"
NOT_DECIDED = "not decided"
BEYOND = "beyond the generated scripts"
# Why a claim has no proof: the reason that is noted begins with one of the first three, or is the generator's or coqc's own.
WITHOUT = {
    SAME_TEXT: "the derivation ends in the printed formula itself and leaves Coq nothing to show; not counted as proved",
    NOT_ALGEBRAIC: "functions that Coq does not have, or that neither its lemmas nor coq-interval's enclosures settle here",
    NOT_DECIDED: "within the processor time given",
    BEYOND: "no certificate was found, or coqc did not accept it",
}
EXHAUSTED = re.compile(r"Error: (Out of memory|Stack overflow|Timeout)|exception (Out_of_memory|Stack_overflow)")
INSTALL = "install Debian's package coq (8.16): apt-get install coq"
INSTALL_INTERVAL = "apt-get install libcoq-interval"
# What of a claim neither a statement nor a script depends on.
UNSTATED = ("oracle", "computed", "simulate", "not_computed", "not_simulated", "remark", "related", "assumptions", "unit",
            "slip", "corrected_text", "edits", "assumes", "although", "tight", "finding", "shares",
            "model")  # fmt: skip
# What Coq's standard real numbers rest on (Reals, version 8.16).
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
}
# Its analysis (logarithms, roots, pi) also takes that everything is true or false; coq-interval computes with the
# processor's whole numbers, whose rules Coq assumes.
CLASSIC = {"Classical_Prop.classic"}
WHOLE_NUMBERS = re.compile(r"(PrimInt63|Uint63)\.\w+")


GRADES = {"boxes": "interval", "defined": "definition"}  # of what needs coq-interval
WHAT = {
    "defined": "what the formula is of, by its definition",
    "model": "the model's own expression",
    "simplified": "the derivation's simplified result",
    "functions": "the derivation's result, with exponentials, logarithms, roots or functions left open",
    "boxes": "the derivation's result; inequalities by coq-interval's enclosures",
}

Compiled = Callable[[str, Mapping[str, str]], "tuple[bool | None, str]"]


class ProofError(RuntimeError, ValueError):
    """Proofs cannot be checked at all; the message says what is missing and how to get it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a claim's proof: "proved", or "unproved", "edited", "stale", "failed", "undecided" with the reason."""

    claim: str
    state: str
    detail: str = ""
    theorems: int = 0
    grade: str = "algebra"

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong: a proof is checked, or the claim is known to have none."""
        return self.state in ("proved", "unproved")


def folder_of(paper: str) -> Path:
    """Where the proofs of a paper are: a claim pack carries its own."""
    found = papers().get(paper)
    return FOLDER / paper if found is None or found.own else found.folder / "proofs"


def _unproved_of(paper: str) -> Path:
    """The file of reasons why claims of a paper have no proof."""
    found = papers().get(paper)
    return UNPROVED if found is None or found.own else folder_of(paper) / UNPROVED.name


def path_of(claim_id: str) -> Path:
    """Where a claim's Coq file is, or would be."""
    paper, rest = claim_id.split(":", 1)
    return folder_of(paper) / (re.sub(r"[^A-Za-z0-9]+", "_", rest) + ".v")


def grade_of(claim_id: str) -> str:
    """What a claim's proof on file rests on: "algebra", "interval" (coq-interval's enclosures), "definition" (of the object
    that the formula is of), or "" without one.
    """
    path = path_of(claim_id)
    return "" if not path.exists() else GRADES.get(read(path)[0], "algebra")


def with_header(text: str, mode: str) -> str:
    """A file's content: a line with mode and hash, then the text."""
    digest = libraries.digest(text)[:16]
    return f"(* Generated by `borrow prove --write`; do not edit. {mode} {digest} *)\n{text}"


def read(path: Path) -> tuple[str, str, bool]:
    """Mode and text of a proof file, and whether it is as it was generated."""
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    found = re.fullmatch(rf"\(\* Generated by .* ({'|'.join(MODES)}) ([0-9a-f]{{16}}) \*\)", head)
    mode = found[1] if found else "model"
    return mode, text, bool(found) and with_header(text, mode).split("\n", 1)[0] == head


def unproved() -> dict[str, str]:
    """Claims without a proof file, and why."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(map(_unproved_of, papers())):
        found |= json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found


def category(reason: str) -> str:
    """Which of `WITHOUT` a noted reason belongs to.

    >>> category("not decided: no answer within 90 s of processor time")
    'not decided'
    """
    return next((c for c in WITHOUT if reason.startswith(c)), BEYOND)


def count_theorems(text: str) -> int:
    """How many theorems a proof file states."""
    return len(re.findall(r"^Theorem ", text, re.MULTILINE))


def summary(claim_id: str) -> str:
    """What is proved of a claim and in which file, or why there is no proof; empty where neither is known."""
    path = path_of(claim_id)
    if not path.exists():
        reason = unproved().get(claim_id)
        return f"none: {reason}" if reason else ""
    mode, text, intact = read(path)
    names = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
    what = WHAT[mode]
    note = "" if intact else "; EDITED BY HAND"
    home = FOLDER.parent.parent
    where = path.relative_to(home) if path.is_relative_to(home) else path
    return f"{where}: {', '.join(names)} (about {what}){note}; `borrow prove {claim_id}` checks it"


# --- generating, in worker processes that leave formulas as they are derived ------------------------------------------


def _start(mode: str) -> None:
    if mode == "model":
        leave_unsimplified()


class Generated(NamedTuple):
    """The Coq text of a claim, or the reason why there is none, and the claims whose results its derivation took."""

    claim: str
    text: str
    reason: str
    lemmas: tuple[str, ...] = ()


def _theorems(claim: Claim, mode: str) -> list[terms.Theorem]:
    if mode == "defined":
        return defined.theorems(claim)
    if mode in ("functions", "boxes"):
        return boxes.theorems(claim, mode == "boxes")
    return coq.theorems(claim, mode == "simplified")


def _library(claim: Claim, mode: str, proved: Sequence[terms.Theorem]) -> str:
    """The file of lemmas that a claim's theorems use."""
    if mode == "defined":
        return OBJECTS[claim.id].library
    return boxes.library_of(proved) if mode == "boxes" else LIBRARIES[mode]


def _generate(claim_id: str, mode: str, seconds: float) -> Generated:
    claim = find(claim_id)
    try:
        with time_limit(seconds):
            proved = _theorems(claim, mode)
            text = coq.source(claim, proved, _library(claim, mode, proved))
            return Generated(claim_id, text, "", tuple({x for case in claim.cases() for x in claim.derivation(case).lemmas}))
    except terms.Unprovable as error:
        reason = str(error)
    except TimeLimit as error:
        reason = f"{NOT_DECIDED}: {error}"
    except Exception as error:  # a formula that one route cannot handle must not stop the others
        reason = f"{type(error).__name__}: {error}"[:300]
    later = mode not in ("defined", "model")
    if later and not reason.startswith((SAME_TEXT, NOT_DECIDED)) and not coq.is_algebraic(claim):
        reason = f"{NOT_ALGEBRAIC}: {reason}"
    return Generated(claim_id, "", reason)


def _why_not(claim_id: str, mode: str, seconds: float) -> Generated:
    """Why a claim has no statement in a mode, nor in those that are tried after it; its text where it has one."""
    # A process that leaves formulas unsimplified cannot go on to the other modes.
    of = "defined" if claim_id in OBJECTS else mode
    later = [of] if of in ("defined", "model") else list(MODES)[list(MODES).index(mode) :]
    for k, one in enumerate(later, 1):
        found = _generate(claim_id, one, seconds)
        if found.text or k == len(later) or _adds_nothing(one, found.reason):
            return found
    raise AssertionError(later)


def wrong_reasons(reasons: Mapping[str, str], jobs: int) -> dict[str, str]:
    """Claims that are noted as without a proof for a reason that is none, and what is wrong with it.

    That both sides are one text, that a function is none of Coq's, that no certificate is found: each is found out again.
    What was not decided, and what coqc has refused, is taken as noted.
    """
    wrong = {}
    open_ = {i: r for i, r in reasons.items() if not r.startswith((NOT_DECIDED, "coqc: "))}
    for mode, chosen in (("model", [i for i, r in open_.items() if r == SAME_TEXT]), ("simplified", [*open_])):
        for found in _each(_why_not, [i for i in chosen if i in open_], mode, CHECK_SECONDS, jobs):
            noted = open_[found.claim]
            if found.reason.startswith(NOT_DECIDED) or (not found.text and category(found.reason) == category(noted)):
                del open_[found.claim]
            elif mode == "simplified":
                seen = found.reason or "it can be stated"
                wrong[found.claim] = f"noted as without a proof ({category(noted)}), but {seen}"
    return wrong


def generate(ids: Sequence[str], mode: str, seconds: float, jobs: int) -> Iterable[Generated]:
    """Coq texts of claims, or why there is none, as they are finished."""
    return _each(_generate, ids, mode, seconds, jobs)


def _each(
    function: Callable[..., Generated], ids: Sequence[str], mode: str, seconds: float, jobs: int
) -> Iterable[Generated]:
    if not ids:
        return
    with fixed_order():
        yield from _generate_all(function, ids, mode, seconds, jobs)


@contextmanager
def fixed_order() -> Iterator[None]:
    """Worker processes that start in here order terms alike: SymPy's order, and so a text, depends on the seed of hashes."""
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0"
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED")
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


def _generate_all(
    function: Callable[..., Generated], ids: Sequence[str], mode: str, seconds: float, jobs: int
) -> Iterable[Generated]:
    with worker_pool(jobs, _start, mode) as pool:
        running = {pool.submit(function, i, mode, seconds): i for i in ids}
        for future in as_completed(running):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield Generated(running[future], "", f"{NOT_DECIDED}: a worker process was killed")


def basis(claim: Claim, lemmas: Iterable[str] = (), sources: reach.Sources | None = None) -> str:
    """Fingerprint of all that a claim's Coq text follows from: the claim, what its functions and the generator reach, and
    the derivations of its lemmas. While it stays the same, so does the text.
    """
    sources = sources or reach.sources()
    reached = reach.Reached(nodes={(__name__, "_generate"), (__name__, "_start")})
    for name in (f.name for f in fields(claim) if f.name not in UNSTATED):
        reached.texts.add(f"{name} is None: {getattr(claim, name) is None}")
        reach.collect(sources, getattr(claim, name), reached)
    return reach.digest(sources, with_lemmas(claim, reached, lemmas, sources), reached.texts)


# --- checking ----------------------------------------------------------------------------------------------------------


def coqc() -> tuple[str, str]:
    """Path and version of coqc. Raises ProofError with the way to get it."""
    path = shutil.which("coqc")
    if path is None:
        raise ProofError(f"coqc is not on the PATH; {INSTALL}, then run `borrow prove` again")
    version = _version(path)
    if version is None:
        raise ProofError(f"{path} --version does not say its version; {INSTALL}, then run `borrow prove` again")
    return path, version


@cache
def _version(path: str) -> str | None:
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\S+)", answer)
    return found and found[1]


def _run(path: str, file: Path, seconds: float) -> tuple[bool | None, str, str]:
    """Run coqc in the file's folder within so many seconds of processor time: (accepted, output, why not).

    None where that decides nothing: it ran out of time or memory, or was killed.
    """
    command = [path, "-q", "-w", "-all", "-Q", ".", "Borrow", file.name]
    with program(command, seconds=math.ceil(seconds), folder=file.parent) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            return None, "", f"coqc gave no answer within {PATIENCE * seconds:g} s"
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        return None, "", f"coqc was ended by {name}, or took more than {seconds:g} s of processor time"
    why = re.sub(r'File "[^"]*", ', "", " ".join(errors.split()))[-300:]
    if process.returncode == 0:
        return True, output, ""
    return (False if "Error:" in errors and not EXHAUSTED.search(errors) else None), output, why or "coqc says nothing"


def compile_texts(path: str, texts: Mapping[str, str], again: bool = False) -> tuple[bool | None, str]:
    """Run coqc once on the texts of several claims; returns whether all are proved without further axioms (None where
    that was not decided), or why not.

    Each text becomes a module. What the theorems rest on is asked once, for all of them, because Coq takes more than a
    second to answer.
    """
    modules = [
        f"Require Borrow.{name}.\n" for name in sorted({x for text in texts.values() for x in libraries.required(text)})
    ]
    ends = []
    for claim_id, text in texts.items():
        names = re.findall(r"^Theorem (\w+)", text, re.MULTILINE)
        if not names or f"Definition all_theorems := ({', '.join(names)}).\n{SHOW}" not in text:
            return False, "the text does not list its theorems"
        modules.append(f"Module {_module(claim_id)}.\n{text.replace(SHOW, '')}\nEnd {_module(claim_id)}.\n")
        ends.append(f"{_module(claim_id)}.all_theorems")
    ends = f"Definition everything := ({', '.join(ends)}).\nPrint Assumptions everything.\n"
    return run_text(path, "\n".join([*modules, ends]), COQC_SECONDS * (1 + (len(texts) - 1) / SHARE), again)


def _may_assume(text: str) -> tuple[bool, bool]:
    """Whether a text requires Coq's analysis, or coq-interval, and so may assume what these do."""
    required = {*libraries.required(text)}
    whole = bool(required & {*ENCLOSING})
    return whole or functions.LIBRARY in required, whole


def strange(axioms: Iterable[str], text: str) -> list[str]:
    """What a text assumes beyond Coq's real numbers, its analysis and coq-interval's arithmetic where it requires these."""
    classic, whole = _may_assume(text)
    allowed = AXIOMS | (CLASSIC if classic else set())
    return sorted(a for a in axioms if a not in allowed and not (whole and WHOLE_NUMBERS.fullmatch(a)))


# What coqchk lists beside axioms: the library's sealed definitions, which have a body that a signature hides.
SEALED = re.compile(r"Coq\.Reals\.Rdefinitions\.R\w+Impl\.\w+|Coq\.ssr\.ssrunder\.Under_rel\.\w+")
NONE = ("type-in-type", "unsafe (co)fixpoints", "positivity is assumed")


def recheck(path: str, modules: Sequence[str], seconds: float, whole_numbers: bool = False) -> tuple[bool | None, str]:
    """Have coqchk, a program with a kernel of its own, check compiled files again; what they require is taken as it is.

    Accepted only where it lists no axiom but those that `strange` lets pass, and nothing unsafe.
    """
    program_ = str(Path(path).with_name("coqchk"))
    if not Path(program_).exists():
        return None, f"coqchk is not beside {path}; {INSTALL}"
    chosen = [x for module in modules for x in ("-norec", f"Borrow.{module}")]
    command = [program_, "-silent", "-o", "-Q", ".", "Borrow", *chosen]
    with program(command, seconds=math.ceil(seconds), folder=WORK) as process:
        try:
            output, errors = process.communicate(timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            return None, f"coqchk gave no answer within {PATIENCE * seconds:g} s"
    if process.returncode < 0:
        return None, f"coqchk was ended, or took more than {seconds:g} s of processor time"
    if process.returncode != 0:
        return False, "coqchk: " + " ".join((errors or output).split())[-300:]
    return judged_context(output + errors, whole_numbers)


def judged_context(summary_: str, whole_numbers: bool) -> tuple[bool | None, str]:
    """What coqchk's summary of the context says: (accepted, why not)."""
    listed = summary_.partition("* Axioms:")[2].partition("\n* ")[0]
    if "* Axioms:" not in summary_ or any(not re.search(re.escape(x) + r": <none>", summary_) for x in NONE):
        return False, "coqchk: something is assumed that it does not show, or is unsafe"
    allowed = AXIOMS | CLASSIC
    others = []
    for name in listed.replace("<none>", "").split():
        short = ".".join(name.split(".")[-2:])
        if not (short in allowed or SEALED.fullmatch(name) or (whole_numbers and WHOLE_NUMBERS.fullmatch(short))):
            others.append(name)
    return (False, f"coqchk: rests on {', '.join(sorted(others))}") if others else (True, "")


def run_text(path: str, whole: str, seconds: float, again: bool = False) -> tuple[bool | None, str]:
    """Run coqc on a text that ends in one `Print Assumptions`; accepted only where nothing `strange` is assumed.

    With `again`, coqchk checks what coqc has made.
    """
    file = WORK / f"check_{libraries.digest(whole)[:12]}.v"
    files.write(file, whole)
    try:
        accepted, output, why = _run(path, file, seconds)
        if not accepted:
            return accepted, why
        lines = output.splitlines()
        answers = [x for x in lines if x in ("Axioms:", "Closed under the global context")]
        others = strange({x.split()[0] for x in lines if x and not x[0].isspace() and x not in answers}, whole)
        if others or len(answers) != 1:
            return False, f"rests on {', '.join(others) or 'something that Print Assumptions does not show'}"
        return (
            recheck(path, [file.stem], RECHECK * seconds, any(f"Borrow.{x}." in whole for x in ENCLOSING))
            if again
            else (True, "")
        )
    finally:
        for leftover in WORK.glob(f"{file.stem}.*"):
            leftover.unlink()
        (WORK / f".{file.stem}.aux").unlink(missing_ok=True)


def judge_texts(
    path: str, texts: Mapping[str, str], jobs: int, compiled: Compiled | None = None, batch: int = BATCH
) -> Iterable[tuple[str, bool | None, str]]:
    """(id, accepted, why not) for every text: in batches that may assume the same, halved where one is not accepted."""
    compiled = compiled or compile_texts
    groups: dict[tuple[bool, bool], list[str]] = {}
    for i, text in sorted(texts.items(), key=lambda item: len(item[1])):
        groups.setdefault(_may_assume(text), []).append(i)
    counts = {what: math.ceil(len(ids) / batch) for what, ids in groups.items()}
    # Of long and short texts as many in each, so that none takes long; first those that may assume most, which take longest.
    batches = [groups[what][k :: counts[what]] for what in sorted(groups, reverse=True) for k in range(counts[what])]
    with ThreadPoolExecutor(jobs) as pool:
        running: dict[Any, list[str]] = {}

        def start(ids: list[str]) -> None:
            running[pool.submit(compiled, path, {i: texts[i] for i in ids})] = ids

        for ids in batches:
            start(ids)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                ids = running.pop(future)
                accepted, why = future.result()
                if accepted or len(ids) == 1:
                    yield from ((i, accepted, why) for i in ids)
                else:
                    start(ids[: len(ids) // 2])
                    start(ids[len(ids) // 2 :])


def prepare(path: str, enclosures: bool = False) -> None:
    """Compile what all proofs share, and what needs coq-interval where told. Raises ProofError where coqc does not."""
    compile_libraries(path, (functions.LIBRARY, *(boxes.LIBRARIES if enclosures else ())))


def prepare_objects(path: str) -> None:
    """Compile definitions and lemmas about objects, and what they require. Raises ProofError where coqc does not, or where
    the definitions are not as pinned.
    """
    if defined.tampered():
        raise ProofError(
            f"{defined.LIBRARIES[0]}.v is not the file that statements were read against; restore it, or change it "
            f"knowingly as theory/coq/{Path(defined.__file__).name} says at PINNED"
        )
    compile_libraries(path, defined.LIBRARIES)


def has_interval(path: str) -> bool:
    """Whether coqc finds coq-interval."""
    where = subprocess.run([path, "-where"], capture_output=True, text=True, check=False).stdout.strip()
    return (Path(where) / "user-contrib" / "Interval" / "Tactic.vo").exists()


def compile_libraries(path: str, names: Iterable[str], jobs: int | None = None) -> None:
    """Compile files that others require, and what they require, once for each content and as many at once as may be. Raises
    ProofError where coqc does not.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    prints = libraries.fingerprints(names)
    compiled: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(workers_for(jobs)) as pool:
        for name in prints:  # what it waits for has begun before it
            waits = [compiled[x] for x in libraries.required(libraries.text_of(name))]
            compiled[name] = pool.submit(_compile_library, path, name, prints[name], waits)
    for one in compiled.values():
        one.result()


def _compile_library(path: str, name: str, print_: str, waits: Iterable[Future[None]]) -> None:
    for one in waits:
        one.result()
    done, stamp = WORK / f"{name}.vo", WORK / f"{name}.stamp"
    if done.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == print_ + coqc()[1]:
        return
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        *required, _ = libraries.behind([name])
        for other in required:
            shutil.copy(WORK / f"{other}.vo", folder)
        file = Path(shutil.copy(libraries.path_of(name), folder))
        accepted, _, why = _run(path, file, COQC_SECONDS)
        if not accepted:
            raise ProofError(f"coqc does not compile {file.name}: {why}")
        files.write(done, file.with_suffix(".vo").read_bytes())  # at once, for another run may be reading it
        files.write(stamp, print_ + coqc()[1])


class _Known:
    """Texts that coqc has accepted, and what texts followed from, so that neither has to be found out twice."""

    def __init__(self, version: str):
        self.key = version
        self.libraries = libraries.fingerprints((functions.LIBRARY, *ENCLOSING))
        self.texts: dict[str, str] = {}
        self.stated: dict[str, list[Any]] = {}
        try:
            data = json.loads(STATUS.read_text(encoding="utf-8"))
            if data["key"] == self.key:
                self.texts, self.stated = dict(data["texts"]), dict(data["stated"])
        except (OSError, ValueError, KeyError, TypeError):  # a lost or damaged status only costs time
            pass

    def has(self, claim_id: str, text: str) -> bool:
        """Whether coqc has accepted the text."""
        return self.texts.get(claim_id) == libraries.resting_on(text, self.libraries)

    def follows(self, claim: Claim, mode: str, text: str) -> bool:
        """Whether the text is what the generator gave, and nothing has changed since that it follows from."""
        match self.stated.get(claim.id):
            case [str(was), str(before), list(lemmas)]:
                return was == libraries.digest(mode + text) and before == basis(claim, lemmas)
        return False

    def reason(self, claim: Claim, reason: str) -> bool:
        """Whether the reason why a claim has no proof was checked, and nothing has changed since that it follows from."""
        return self.stated.get(claim.id) == [libraries.digest(reason), basis(claim), []]

    def checked(self, claim: Claim, reason: str) -> None:
        """Note that the reason why a claim has no proof was checked."""
        self.stated[claim.id] = [libraries.digest(reason), basis(claim), []]
        self._write()

    def add(self, claim_id: str, text: str) -> None:
        """Note that coqc has accepted a text."""
        self.texts[claim_id] = libraries.resting_on(text, self.libraries)
        self._write()

    def state(self, mode: str, found: Generated) -> None:
        """Note what a text followed from."""
        self.stated[found.claim] = [
            libraries.digest(mode + found.text),
            basis(find(found.claim), found.lemmas),
            sorted(found.lemmas),
        ]
        self._write()

    def _write(self) -> None:
        data = {"key": self.key, "texts": self.texts, "stated": self.stated}
        files.write(STATUS, json.dumps(data, indent=1, sort_keys=True) + "\n")


def _module(claim_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", claim_id)


def check(
    chosen: Sequence[Claim], jobs: int | None = None, fresh: bool = False, progress: Callable[[Outcome], None] | None = None,
    again: bool = False,
) -> list[Outcome]:  # fmt: skip
    """Check the proof files of claims: as generated, up to date with the claim, and accepted by coqc.

    What coqc has accepted before, in the same version, is not run again unless `fresh`; nor is a text generated again while
    nothing has changed that it follows from. With `again`, coqchk checks what coqc has accepted.
    Raises ProofError when coqc is missing.
    """
    jobs = workers_for(jobs)
    path, version = coqc()
    enclosures = has_interval(path)
    prepare(path, enclosures)
    if enclosures and any(c.id in OBJECTS for c in chosen):
        prepare_objects(path)
    noted = _Known(version)
    reasons = unproved()
    outcomes: dict[str, Outcome] = {}
    texts: dict[str, tuple[str, str]] = {}
    without: dict[str, str] = {}

    def settle(outcome: Outcome) -> None:
        outcomes[outcome.claim] = outcome
        if progress:
            progress(outcome)

    for claim in chosen:
        file = path_of(claim.id)
        if not file.exists():
            reason = reasons.get(claim.id)
            lost = Outcome(claim.id, "stale", "no proof file and no reason; run `borrow prove --write`")
            if reason is None:
                settle(lost)
            else:
                without[claim.id] = reason
            continue
        mode, text, intact = read(file)
        if intact and (enclosures or mode not in GRADES):
            texts[claim.id] = (mode, text)
        elif intact:
            missing = f"{NO_INTERVAL}: {INSTALL_INTERVAL}"
            settle(Outcome(claim.id, "undecided", missing, count_theorems(text), GRADES[mode]))
        else:
            settle(
                Outcome(claim.id, "edited", f"{file.name} was edited by hand; `borrow prove --write {claim.id}` restores it")
            )
    doubted = {i: r for i, r in without.items() if fresh or not noted.reason(find(i), r)}
    wrong = wrong_reasons(doubted, jobs)
    for claim_id, reason in without.items():
        if claim_id in wrong:
            settle(Outcome(claim_id, "stale", f"{wrong[claim_id]}; run `borrow prove --write {claim_id}`"))
            continue
        if claim_id in doubted:
            noted.checked(find(claim_id), reason)
        settle(Outcome(claim_id, "unproved", reason))
    unsure = {i: mode for i, (mode, text) in texts.items() if fresh or not noted.follows(find(i), mode, text)}
    for mode in MODES:
        for found in generate([i for i, m in unsure.items() if m == mode], mode, CHECK_SECONDS, jobs):
            claim_id = found.claim
            if found.text == texts[claim_id][1]:
                noted.state(mode, found)
            else:
                why = found.reason or "the claim has changed since its proof was generated"
                lost = Outcome(claim_id, "stale", f"{why}; run `borrow prove --write {claim_id}`")
                settle(Outcome(claim_id, "undecided", why) if why.startswith(NOT_DECIDED) else lost)
                del texts[claim_id]
    counts = {i: count_theorems(text) for i, (_, text) in texts.items()}
    grades = {i: GRADES.get(mode, "algebra") for i, (mode, _) in texts.items()}
    todo = {i: text for i, (_, text) in texts.items() if fresh or not noted.has(i, text)}
    for claim_id in texts.keys() - todo.keys():
        settle(Outcome(claim_id, "proved", theorems=counts[claim_id], grade=grades[claim_id]))
    for claim_id, accepted, why in judge_texts(path, todo, jobs, partial(compile_texts, again=again)):
        if accepted:
            noted.add(claim_id, todo[claim_id])
        state = {True: "proved", False: "failed", None: "undecided"}[accepted]
        settle(Outcome(claim_id, state, why, counts[claim_id], grades[claim_id]))
    return [outcomes[c.id] for c in chosen]


def write(
    chosen: Sequence[Claim], jobs: int | None = None, progress: Callable[[Outcome], None] | None = None
) -> list[Outcome]:
    """Generate proof files anew, keep those that coqc accepts, and note why the others have none.

    Where that is not decided in time, what is there stays as it is; a claim of which nothing is known is noted as such.
    """
    jobs = workers_for(jobs)
    path, version = coqc()
    enclosures = has_interval(path)
    prepare(path, enclosures)
    if enclosures and any(c.id in OBJECTS for c in chosen):
        prepare_objects(path)
    noted = _Known(version)
    outcomes: dict[str, Outcome] = {}
    why: dict[str, str] = {}
    todo = [c.id for c in chosen]

    def settle(outcome: Outcome) -> None:
        outcomes[outcome.claim] = outcome
        if progress:
            progress(outcome)

    for mode, seconds in MODES.items():
        mine = [i for i in todo if (i in OBJECTS) == (mode == "defined")]
        if mode in GRADES and not enclosures:
            why |= dict.fromkeys(mine, f"{NOT_DECIDED}: {NO_INTERVAL}: {INSTALL_INTERVAL}")
            continue
        texts = {}
        generated = {found.claim: found for found in generate(mine, mode, seconds, jobs)}
        for claim_id, found in generated.items():
            if found.text:
                texts[claim_id] = found.text
            else:
                why[claim_id] = found.reason
        for claim_id, accepted, reason in judge_texts(path, texts, jobs):
            if not accepted:
                why[claim_id] = f"{NOT_DECIDED if accepted is None else 'coqc'}: {reason}"
                continue
            text = texts[claim_id]
            noted.add(claim_id, text)
            noted.state(mode, generated[claim_id])
            path_of(claim_id).parent.mkdir(parents=True, exist_ok=True)
            files.write(path_of(claim_id), with_header(text, mode))
            _note({claim_id: None})
            settle(Outcome(claim_id, "proved", mode, count_theorems(text), GRADES.get(mode, "algebra")))
        todo = [i for i in todo if i not in outcomes and not (i in mine and _final(i, mode, why[i]))]
    before = unproved()
    for claim_id, reason in why.items():
        if claim_id in outcomes:
            continue
        decided = not reason.startswith(NOT_DECIDED)
        if decided:
            path_of(claim_id).unlink(missing_ok=True)
        if decided or not (claim_id in before or path_of(claim_id).exists()):
            _note({claim_id: reason})
        as_before = before.get(claim_id, "").startswith(NOT_DECIDED)
        settle(Outcome(claim_id, "unproved" if decided or as_before else "undecided", reason))
    return [outcomes[c.id] for c in chosen]


def _final(claim_id: str, mode: str, reason: str) -> bool:
    """Whether later modes are not tried after a failure in this one: there is nothing to prove, they add nothing, or a proof
    in this mode exists, which running out of time does not call in question.
    """
    path = path_of(claim_id)
    return _adds_nothing(mode, reason) or (reason.startswith(NOT_DECIDED) and path.exists() and read(path)[0] == mode)


def _adds_nothing(mode: str, reason: str) -> bool:
    """Whether the modes after this one have nothing to say where it fails for this reason."""
    if reason == SAME_TEXT or mode == "defined":
        return True
    if mode == "simplified":
        return terms.NOT_RATIONAL not in reason
    return mode == "functions" and boxes.NEEDED not in reason


def _note(reasons: Mapping[str, str | None]) -> None:
    """Note why claims have no proof (None: they have one), next to what is noted of the others."""
    now = unproved()
    after = {i: r for i, r in {**now, **reasons}.items() if r is not None}
    for file in dict.fromkeys(map(_unproved_of, papers())):
        mine = [{i: r for i, r in sorted(x.items()) if _unproved_of(i.split(":")[0]) == file} for x in (now, after)]
        if mine[0] != mine[1]:
            files.write(file, json.dumps(mine[1], indent=1) + "\n")


__all__ = [
    "FOLDER",
    "INSTALL",
    "INSTALL_INTERVAL",
    "LIBRARIES",
    "MODES",
    "NOT_ALGEBRAIC",
    "NOT_DECIDED",
    "SAME_TEXT",
    "WITHOUT",
    "Compiled",
    "Outcome",
    "ProofError",
    "category",
    "check",
    "compile_libraries",
    "compile_texts",
    "coqc",
    "count_theorems",
    "fixed_order",
    "folder_of",
    "generate",
    "grade_of",
    "has_interval",
    "judge_texts",
    "judged_context",
    "path_of",
    "prepare",
    "read",
    "recheck",
    "run_text",
    "strange",
    "summary",
    "unproved",
    "with_header",
    "write",
    "wrong_reasons",
]
