"""Real processes: two commands at once share their work, and a kill leaves neither workers nor damage behind."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from estimators.system import files
from estimators.system.processes import ONE_THREAD, Terminated, program, terminable, worker_pool, workers_for
from theory import find
from theory.api import DEFAULT_ROOT
from theory.engine import reach
from theory.engine.evidence import Ledger, Record, source_hash

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")

ROOT = Path(__file__).resolve().parents[3]
CHEAP = ["feo2:theta-np", "feo2:theta-p"]
PATIENCE = 60.0  # seconds for what takes two or three on a free machine

LEARN = """
title = "Small"
paper = "none"
place = "a test"
rounds = 400
every = 200
seeds = [0, 1, 2]
[data]
loader = "synthetic_federation"
options = { clients = 6, rows = 20 }
[model]
kind = "logistic_regression"
[work]
rule = "poisson"
n_steps = 2
batch_size = 4
[[methods]]
name = "FedAvg"
algorithm = "FedAvg"
settings = { learning_rate = 0.3, rate = 0.5 }
[[methods]]
name = "Local"
algorithm = "Local"
settings = { learning_rate = 0.3 }
"""


STARTED = []


@pytest.fixture(autouse=True)
def leave_nothing():
    """Whatever a failed test has started ends with it."""
    yield
    for process in STARTED:
        if process.returncode is None:
            process.kill()
            process.communicate()
    STARTED.clear()


def python(*arguments):
    command = [sys.executable, *map(str, arguments)]
    STARTED.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return STARTED[-1]


def borrow(*arguments):
    return python("-m", "borrow", *arguments)


def ended(process):
    """Exit status, standard output and standard error of a process, once it has ended."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def state(pid):
    """State and parent of a process, None if there is none (a zombie has ended)."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if found[0] in "ZX" else int(found[1])


def descendants(pid):
    """Processes below a process."""
    parents = {int(path.name): state(path.name) for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def until(condition, process=None, seconds=PATIENCE):
    """Wait for a condition, which must come true, before the process ends if one is given."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        assert process is None or process.poll() is None, ended(process)
        time.sleep(0.02)
    return found


def soon():
    """Seconds within which workers are gone: 2 on a free core, more where others wait for one now."""
    return 2.0 * max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def at_work(process, number):
    """The processes below one, once there are so many and all of them leave Ctrl-C to it, which is what workers do first."""

    def ready():
        found = descendants(process.pid)
        masks = [line.split()[1] for pid in found for line in lines(pid) if line.startswith("SigIgn")]
        return len(masks) >= number and all(int(mask, 16) & 1 << signal.SIGINT - 1 for mask in masks) and found

    return until(ready, process)


def lines(pid):
    try:
        return Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return []


def gone(pids):
    """Whether the processes have all ended."""
    return all(state(pid) is None for pid in pids)


def records(ledger):
    return Ledger.load(ledger).records


# --- one ledger ------------------------------------------------------------------------------------------------------


def test_two_verifies_at_once_keep_all_evidence(tmp_path):
    ledger = tmp_path / "ledger.json"
    claims = [CHEAP, ["mrmtl:eq5", "fedhdp:eq10"]]
    for status, _, err in map(ended, [borrow("verify", *ids, "--quick", "--ledger", ledger) for ids in claims]):
        assert (status, err) == (0, "")
    assert set(records(ledger)) == {*claims[0], *claims[1]}
    assert os.listdir(tmp_path) == ["ledger.json"]


PUT = """
import sys
from theory.engine import reach
from theory.engine.evidence import Ledger, Record
ledger = Ledger.load(sys.argv[1])
for number in range(10_000):
    ledger.put(Record(f"feo2:{sys.argv[2]}-{number}", "source", 1, True, {}, {}))
    print(number, flush=True)
"""


def test_kills_at_any_moment_leave_a_whole_ledger_with_all_that_was_saved(tmp_path):
    """Ten writers at once, each killed after a random time: what one of them has reported is there."""
    ledger, moment = tmp_path / "ledger.json", random.Random(1)
    writers = [python("-c", PUT, ledger, name) for name in range(10)]
    said = [writer.stdout.readline() for writer in writers]  # each has begun
    for writer in writers:
        time.sleep(moment.uniform(0, 0.1))
        writer.kill()
    for name, writer in enumerate(writers):
        numbers = (said[name] + writer.communicate()[0]).split()
        assert numbers
        assert {f"feo2:{name}-{number}" for number in numbers} <= set(records(ledger))
    assert ended(borrow("verify", CHEAP[0], "--quick", "--ledger", ledger))[0] == 0
    assert CHEAP[0] in records(ledger)
    assert os.listdir(tmp_path) == ["ledger.json"]


def record(quick=False, source=None, seconds=1.0):
    claim = find(CHEAP[0])
    tree = "another" if source else reach.sources().tree
    return Record(claim.id, source or source_hash(claim), 1, quick, {}, {}, seconds, tree)


@pytest.mark.parametrize(
    ("theirs", "ours", "stays"),
    [
        (record(), record(seconds=2.0), "theirs"),
        (record(), record(quick=True), "theirs"),
        (record(quick=True), record(), "ours"),
        (record(source="old"), record(), "ours"),
        (record(), record(source="old"), "theirs"),
    ],
)
def test_of_two_records_of_one_claim_made_at_once_the_better_stays(tmp_path, theirs, ours, stays):
    path = tmp_path / "ledger.json"
    mine, other = Ledger.load(path), Ledger.load(path)
    other.put(theirs)
    mine.put(ours)
    kept = {"theirs": theirs, "ours": ours}[stays]
    assert records(path)[kept.claim] == mine.records[kept.claim] == kept
    mine.put(anew := record(seconds=3.0))  # what was there before is not in the way
    assert records(path)[kept.claim] == anew


def test_a_ledger_damaged_meanwhile_is_named_and_left_alone(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger.load(path)
    ledger.put(record())
    path.write_bytes(path.read_bytes()[:-20])
    damaged = path.read_bytes()
    with pytest.raises(ValueError, match=r"ledger\.json: not a complete ledger .* move or delete"):
        ledger.put(record(quick=True))
    assert path.read_bytes() == damaged


# --- stopping --------------------------------------------------------------------------------------------------------

STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}


@pytest.mark.parametrize("number", STATUS, ids=lambda number: number.name)
def test_a_stopped_verify_keeps_what_is_judged_and_leaves_no_worker(tmp_path, number):
    ledger = tmp_path / "ledger.json"
    command = ("verify", "--paper", "mrmtl", "--quick", "--jobs", 2, "--json", "--ledger", ledger)
    process = borrow(*command)
    until(ledger.exists, process)
    below = at_work(process, 2)
    process.send_signal(number)
    until(lambda: gone(below), seconds=soon())
    status, _, err = ended(process)
    assert status == STATUS[number]
    assert number == signal.SIGKILL or "what is finished is kept" in err
    kept = records(ledger)
    assert kept
    assert all(Ledger.load(ledger).fresh(find(i), DEFAULT_ROOT, True) for i in kept)  # the next one takes them as they are


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["figures", "learn"])
def test_other_commands_leave_no_worker(tmp_path, command, number):
    (tmp_path / "long.toml").write_text(LEARN.replace("400", "4000000"))
    arguments = {"figures": ("figures",), "learn": ("learn", tmp_path / "long.toml")}[command]
    process = borrow(*arguments, "--jobs", 2, "--out", tmp_path / "out")
    below = at_work(process, 3)
    process.send_signal(number)
    until(lambda: gone(below), seconds=soon())
    assert ended(process)[0] == STATUS[number]


def test_an_exception_ends_workers_at_work():
    start = time.monotonic()

    def fail():
        with worker_pool(1) as pool:
            until(pool.submit(time.sleep, PATIENCE).running)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert time.monotonic() - start < PATIENCE / 2


def test_a_worker_that_is_killed_is_said():
    with pytest.raises(ChildProcessError, match="killed or ran out of memory"), worker_pool(1) as pool:
        pool.submit(os.kill, pool.submit(os.getpid).result(), signal.SIGKILL).result()


FAMILY = """
import subprocess, sys
child = "import os, sys, time; sys.platform = 'other'\\n"
child += "from estimators.system.processes import end_with_parent; end_with_parent(os.getppid())\\n"
child += "print(os.getpid(), flush=True); time.sleep(600)"
subprocess.run([sys.executable, "-c", child])
"""


def test_where_the_system_does_not_help_workers_look_after_their_parent_themselves():
    with python("-c", FAMILY) as parent:
        child = int(parent.stdout.readline())
        assert state(child) == parent.pid
        parent.kill()
        until(lambda: gone([child]), seconds=soon())


PROVE = """
import sys
from pathlib import Path
from theory.coq import checker
checker.WORK = Path(sys.argv[1])
checker.prepare(sys.argv[2])
"""


@pytest.mark.parametrize("wrapped", ["exec sleep 600", "sleep 600"])
def test_coqc_ends_with_the_prover_however_that_ends(tmp_path, wrapped):
    """Also what a wrapper of coqc has started."""
    coqc = tmp_path / "coqc"
    coqc.write_text(f"#!/bin/sh\n{wrapped}\n")
    coqc.chmod(0o755)
    process = python("-c", PROVE, tmp_path / "work", coqc)
    number = 2 if "exec" in wrapped else 3  # with the shell that watches
    below = until(lambda: len(found := descendants(process.pid)) == number and asleep(found) and found, process)
    process.kill()
    until(lambda: gone(below), seconds=soon())


JUDGE = """
import sys
from pathlib import Path
from theory.coq import checker
checker.WORK = Path(sys.argv[1])
checker.WORK.mkdir()
checker.coqc = lambda: (sys.argv[2], "8.16")
if sys.argv[3] == "libraries":
    checker.compile_libraries(sys.argv[2], ["Sums"])
else:
    text = "Theorem a : True.\\nDefinition all_theorems := (a).\\n" + checker.SHOW
    list(checker.judge_texts(sys.argv[2], {"a:b": text, "a:c": text}, 1, batch=1))
"""


@pytest.mark.parametrize("what", ["libraries", "texts"])
def test_an_interrupt_ends_coqc_at_once_and_no_other_begins(tmp_path, what):
    coqc = tmp_path / "coqc"
    coqc.write_text("#!/bin/sh\necho >>begun\nexec sleep 600\n")
    coqc.chmod(0o755)
    process = python("-c", JUDGE, tmp_path / "work", coqc, what)
    below = until(lambda: len(found := descendants(process.pid)) == 2 and asleep(found) and found, process)
    process.send_signal(signal.SIGINT)
    until(lambda: gone(below), seconds=soon())
    assert "KeyboardInterrupt" in ended(process)[2]
    if what == "texts":
        assert (tmp_path / "work" / "begun").read_text() == "\n"


def asleep(pids):
    """Whether `sleep` runs in one of the processes."""
    return any(line == "Name:\tsleep" for pid in pids for line in lines(pid))


def test_a_program_leaves_nothing_behind_when_it_ends():
    with program(["sh", "-c", "sleep 600 & echo $!; exit 3"], seconds=1, folder=ROOT) as process:
        child = int(process.stdout.readline())
        assert process.wait(PATIENCE) == 3
        assert state(child) is not None
    until(lambda: gone([child]), seconds=soon())
    with program([sys.executable, "-c", "while True: pass"], seconds=1, folder=ROOT) as process:
        assert process.wait(PATIENCE) in (-signal.SIGKILL, -signal.SIGXCPU)


def test_sigterm_is_an_interrupt_only_while_asked_for():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), terminable():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before
    assert issubclass(Terminated, KeyboardInterrupt)


@pytest.mark.parametrize("seconds", [0, 2])
def test_a_stopped_notebook_stops_the_others_and_its_kernel(seconds):
    """As its kernel starts, and when it works."""
    pytest.importorskip("nbclient")
    process = python("notebooks/run.py", "--check", "01", "02")
    below = until(lambda: descendants(process.pid), process)
    time.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    until(lambda: gone(below), seconds=soon())
    status, out, err = ended(process)
    assert (status, out) == (143, "")
    assert err.startswith("stopped in 01_")


# --- one folder of experiments -----------------------------------------------------------------------------------------


def results(folder):
    """The lines of a folder without what depends on the moment."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "commit")} for line in lines]


def test_two_learns_at_once_share_the_work(tmp_path):
    (tmp_path / "small.toml").write_text(LEARN)
    command = ("learn", tmp_path / "small.toml", "--no-plot")
    ways = [ended(process) for process in [borrow(*command, "--out", tmp_path / "both") for _ in range(2)]]
    assert {status for status, _, _ in ways} <= {0, 2}
    for status, _, err in ways:
        assert ("is using" in err) == (status == 2)
    assert ended(borrow(*command, "--out", tmp_path / "one"))[0] == 0
    assert results(tmp_path / "both" / "small") == results(tmp_path / "one" / "small")
    assert len(results(tmp_path / "both" / "small")) == 6
    assert not list(tmp_path.rglob(".*"))


def test_a_run_that_another_process_holds_is_named_and_the_others_are_done(tmp_path):
    (tmp_path / "small.toml").write_text(LEARN)
    command = ("learn", tmp_path / "small.toml", "--no-plot", "--rounds", 2, "--seed", 0, "--out", tmp_path)
    with files.locked(tmp_path / "small" / "FedAvg-seed0"):
        status, _, err = ended(borrow(*command))
    assert status == 2
    assert f"FedAvg-seed0 is not done: process {os.getpid()} on" in err
    assert [line["method"] for line in results(tmp_path / "small")] == ["Local"]
    assert ended(borrow(*command))[0] == 0
    assert len(results(tmp_path / "small")) == 2


def blas_threads(size):
    """Threads of the linear algebra that NumPy has loaded in this process."""
    import numpy as np
    import threadpoolctl

    np.linalg.norm(np.ones((size, size)), 2)
    return [x["num_threads"] for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]


def test_linear_algebra_has_one_thread_in_each_worker(monkeypatch):
    pytest.importorskip("threadpoolctl")
    for name in ONE_THREAD:
        monkeypatch.delenv(name, raising=False)
    with worker_pool(1) as pool:
        found = pool.submit(blas_threads, 20).result()
    assert found
    assert set(found) == {1}
    assert not ONE_THREAD.keys() & os.environ.keys()  # what follows in this process is as before
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    with worker_pool(1) as pool:
        assert pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "3"
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"


def test_workers_are_born_with_the_environment_asked_for(monkeypatch):
    monkeypatch.delenv("OF_A_WORKER", raising=False)
    with worker_pool(1, environment={"OF_A_WORKER": "7"}) as pool:
        assert pool.submit(os.getenv, "OF_A_WORKER").result() == "7"
    assert "OF_A_WORKER" not in os.environ
    monkeypatch.setenv("OF_A_WORKER", "8")
    with worker_pool(1, environment={"OF_A_WORKER": "7"}) as pool:
        assert pool.submit(os.getenv, "OF_A_WORKER").result() == "8"


def test_there_is_a_process_for_each_core_if_nothing_else_is_asked(monkeypatch):
    for cores, said in ((3, 3), (None, 1)):  # where the system does not tell, one
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert (workers_for(None), workers_for(2)) == (said, 2)
