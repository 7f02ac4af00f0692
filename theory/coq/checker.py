"""Coq's own programs: coqc on a text, what its theorems rest on, and coqchk on what coqc has made.

Running out of processor time or memory, or being killed, decides nothing: the answer is yes, no or None, with the reason.

Belongs here: running coqc and coqchk, the files that proofs share, what may be assumed.  Does not belong here: texts
(texts.py), what becomes of a claim's file (prove.py).
"""

from __future__ import annotations

import math
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import Any

from estimators.system import files
from estimators.system.processes import program, program_threads, workers_for
from theory.coq import boxes, defined, functions, libraries
from theory.coq.generator import SHOW

WORK = Path("build") / "proofs"
ENCLOSING = (*boxes.LIBRARIES, *defined.LIBRARIES)  # what needs coq-interval
COQC_SECONDS = 60.0  # for one claim, twice as much for a whole batch: what takes longer is halved
RECHECK = 4.0  # times coqc's limit, for coqchk
PATIENCE = 10.0  # times its processor time, by the clock: then coqc waits for something that does not come
# Claims per run of coqc, which takes seconds to load files and to say what all rest on: with coq-interval 1 and 6. A run's
# limit is that of one claim, and again for every eight.
BATCH, SHARE = 40, 8
NO_INTERVAL = "coq-interval is not installed"
EXHAUSTED = re.compile(r"Error: (Out of memory|Stack overflow|Timeout)|exception (Out_of_memory|Stack_overflow)")
INSTALL = "install Debian's package coq (8.16): apt-get install coq"
INSTALL_INTERVAL = "apt-get install libcoq-interval"
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
# What coqchk lists beside axioms: the library's sealed definitions, which have a body that a signature hides.
SEALED = re.compile(r"Coq\.Reals\.Rdefinitions\.R\w+Impl\.\w+|Coq\.ssr\.ssrunder\.Under_rel\.\w+")
# And what coq-interval loads beside what we use: coqchk lists the axioms of all loaded files, whether anything of ours rests
# on them or not. That nothing does is what `strange` sees to: it asks coqc what each theorem rests on.
LOADED = re.compile(
    r"Coq\.Floats\.(FloatAxioms|PrimFloat)\.(Leibniz\.)?\w+|Coq\.Numbers\.Cyclic\.Int63\.(PrimInt63|Uint63)\.\w+"
    r"|mathcomp\.ssreflect\.(bigop\.BigOp|finfun\.FinfunDef|fintype\.(CardDef|SubsetDef|Finite\.EnumDef)|tuple\.FinTuple)\.\w+"
)
NONE = ("type-in-type", "unsafe (co)fixpoints", "positivity is assumed")

Compiled = Callable[[str, Mapping[str, str]], "tuple[bool | None, str]"]


class ProofError(RuntimeError, ValueError):
    """Proofs cannot be checked at all; the message says what is missing and how to get it."""


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


def recheck(path: str, modules: Sequence[str], seconds: float, whole_numbers: bool = False) -> tuple[bool | None, str]:
    """Have coqchk, a program with a kernel of its own, check compiled files again; what they require is taken as it is.

    Accepted only where it lists no axiom but those that `strange` lets pass and those of coq-interval's own libraries, and
    nothing unsafe.
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
    allowed = {f"Coq.{folder}.{axiom}" for folder in ("Reals", "Logic") for axiom in AXIOMS | CLASSIC}
    others = []
    for name in listed.replace("<none>", "").split():  # whole names: a file of ours may hold modules of any name
        if not (name in allowed or SEALED.fullmatch(name) or (whole_numbers and LOADED.fullmatch(name))):
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
    with program_threads(jobs) as pool:
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


@contextmanager
def beside(work: Callable[[Event], None]) -> Iterator[Future[None]]:
    """Do something in a thread beside the block, as generating texts beside coqc on those that are on file.

    One core is idle at the end of either, and the two are of one length. An exception in the block, Ctrl-C too, sets the
    event that `work` is given, and the thread has ended when the block has: workers that it waits for do not go on.
    """
    done, stop = Future[None](), Event()

    def run() -> None:
        try:
            work(stop)
        except BaseException as error:  # whoever waits for it is told
            done.set_exception(error)
        else:
            done.set_result(None)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield done
    except BaseException:
        stop.set()
        raise
    finally:
        thread.join()


def prepare(path: str, enclosures: bool = False, again: bool = False) -> None:
    """Compile what all proofs share, and what needs coq-interval where told. Raises ProofError where coqc does not."""
    compile_libraries(path, (functions.LIBRARY, *(boxes.LIBRARIES if enclosures else ())), again=again)


def prepare_objects(path: str, again: bool = False) -> None:
    """Compile definitions and lemmas about objects, and what they require. Raises ProofError where coqc does not, or where
    the definitions are not as pinned.
    """
    if defined.tampered():
        raise ProofError(
            f"{defined.LIBRARIES[0]}.v is not the file that statements were read against; restore it, or change it "
            f"knowingly as theory/coq/{Path(defined.__file__).name} says at PINNED"
        )
    compile_libraries(path, defined.LIBRARIES, again=again)


def has_interval(path: str) -> bool:
    """Whether coqc finds coq-interval."""
    where = subprocess.run([path, "-where"], capture_output=True, text=True, check=False).stdout.strip()
    return (Path(where) / "user-contrib" / "Interval" / "Tactic.vo").exists()


def compile_libraries(path: str, names: Iterable[str], jobs: int | None = None, again: bool = False) -> None:
    """Compile files that others require, and what they require, once for each content and as many at once as may be. Raises
    ProofError where coqc does not, or with `again` coqchk, which checks what coqc has made.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    prints = libraries.fingerprints(names)
    compiled: dict[str, Future[None]] = {}
    with program_threads(workers_for(jobs)) as pool:
        for name in prints:  # what it waits for has begun before it
            waits = [compiled[x] for x in libraries.required(libraries.text_of(name))]
            compiled[name] = pool.submit(_compile_library, path, name, prints[name], waits)
        for one in compiled.values():
            one.result()
    if again:
        accepted, why = recheck(path, [*prints], RECHECK * COQC_SECONDS, not prints.keys().isdisjoint(ENCLOSING))
        if not accepted:
            raise ProofError(f"{', '.join(f'{name}.v' for name in prints)}: {why}")


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


def _module(claim_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", claim_id)


__all__ = [
    "COQC_SECONDS",
    "ENCLOSING",
    "INSTALL",
    "INSTALL_INTERVAL",
    "NO_INTERVAL",
    "WORK",
    "Compiled",
    "ProofError",
    "beside",
    "compile_libraries",
    "compile_texts",
    "coqc",
    "has_interval",
    "judge_texts",
    "judged_context",
    "prepare",
    "prepare_objects",
    "recheck",
    "run_text",
    "strange",
]
