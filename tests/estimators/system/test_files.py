"""Files are whole whoever writes them at once, and a lock has one holder, who loses it by dying."""

import ast
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from estimators.system import files

ROOT = Path(__file__).resolve().parents[3]
COUNT = """
import sys, time
from pathlib import Path
from estimators.system import files
path = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with files.locked(path):
        number = int(path.read_text())
        time.sleep(0.001)
        files.write(path, str(number + 1))
"""
HOLD = """
import sys, time
from estimators.system import files
with files.locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_under_a_lock_nothing_is_lost(tmp_path):
    """Processes and threads that read, add one and write: each addition counts."""
    path = tmp_path / "count"
    path.write_text("0")
    processes = [start(COUNT, path, 25) for _ in range(3)]

    def add(_):
        for _ in range(5):
            with files.locked(path):
                files.write(path, str(int(path.read_text()) + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert path.read_text() == str(3 * 25 + 4 * 5)
    assert names(tmp_path) == ["count"]


def test_without_a_lock_additions_are_lost(tmp_path):
    """Negative control: two that have read before either writes."""
    path = tmp_path / "count"
    path.write_text("0")
    for number in [int(path.read_text()) for _ in range(2)]:
        files.write(path, str(number + 1))
    assert path.read_text() == "1"


def test_the_holder_is_named_and_loses_the_lock_by_dying(tmp_path):
    path = tmp_path / "ledger.json"
    with start(HOLD, path) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        says = rf"process {holder.pid} on .* is using .*ledger\.json; run again"
        with pytest.raises(files.Held, match=says), files.locked(path, seconds=0.1):
            raise AssertionError("two holders")
        holder.send_signal(signal.SIGKILL)
    with files.locked(path, seconds=0):
        assert names(tmp_path) == [".ledger.json.lock"]
    assert names(tmp_path) == []


def test_what_killed_writers_left_goes_under_the_next_lock(tmp_path):
    for name in (".ledger.json.0a1b2c3d.part", ".other.json.0a1b2c3d.part", "ledger.json"):
        (tmp_path / name).write_text("x")
    with files.locked(tmp_path / "ledger.json"):
        pass
    assert names(tmp_path) == [".other.json.0a1b2c3d.part", "ledger.json"]
    with files.locked(tmp_path):
        pass
    assert names(tmp_path) == ["ledger.json"]


def test_writers_at_once_never_mix(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([letter]) * 300_000 for letter in b"abcd"]
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(files.write, path, content) for content in contents * 10]
        while not all(future.done() for future in writing):
            assert not path.exists() or path.read_bytes() in contents
        assert [future.result() for future in writing] == [None] * 40
    assert names(tmp_path) == ["file"]


def test_several_files_appear_together_or_not_at_all(tmp_path):
    (tmp_path / "a").write_text("before")
    with pytest.raises(OSError, match="no file"):
        files.write_all({tmp_path / "a": "after", tmp_path: "a folder"})
    assert (names(tmp_path), (tmp_path / "a").read_text()) == (["a"], "before")
    files.write(tmp_path / "a", b"after", keep=tmp_path / "kept")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "after", "kept": "before"}


def test_links_and_permissions_stay(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    mask = os.umask(0o027)
    try:
        files.write(tmp_path / "link", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "x"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no file"):
        files.write(tmp_path / "pipe", "x")


# --- no other way --------------------------------------------------------------------------------------------------

ONLY_IN = {
    "estimators/system/files.py": {"replace", "write to disk"},
    "estimators/system/processes.py": {"ProcessPoolExecutor", "get_context"},
    "estimators/federated/experiments/runs.py": {"append"},  # a line of a run's history, under the run's lock
    "estimators/federated/own_rows.py": {
        "TemporaryFile"
    },  # rows beyond memory, in a file without a name that ends with them
    "figures/saving.py": {"TemporaryFile"},  # asks whether the folder can be written
}


def uses(source):
    """Ways to write files or to start workers that a module uses itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in ("ProcessPoolExecutor", "get_context", "mkstemp", "NamedTemporaryFile", "TemporaryFile"):
                yield name
            elif name in ("write_text", "write_bytes"):
                yield "write to disk"
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "os" and node.attr in ("replace", "rename"):
            yield "replace"
        if isinstance(node, ast.Call) and "open" in (getattr(node.func, "id", ""), getattr(node.func, "attr", "")):
            modes = [a.value for a in (*node.args, *(k.value for k in node.keywords)) if isinstance(a, ast.Constant)]
            if any(mode in ("w", "wb", "x", "xb", "w+", "wb+") for mode in modes):
                yield "write to disk"
            if any(mode in ("a", "ab") for mode in modes):
                yield "append"


def test_nobody_writes_files_or_starts_workers_in_another_way():
    modules = [p for package in ("estimators", "theory", "figures", "notebooks") for p in (ROOT / package).rglob("*.py")]
    found = {str(p.relative_to(ROOT)): set(uses(p.read_text(encoding="utf-8"))) for p in modules}
    assert {name: ways for name, ways in found.items() if ways} == ONLY_IN


@pytest.mark.parametrize(
    "source",
    [
        "Path('a').write_text('x')",
        "open('a', 'w')",
        "os.replace(a, b)",
        "tempfile.mkstemp()",
        "pool = ProcessPoolExecutor(2)",
    ],
)
def test_another_way_is_seen(source):
    assert list(uses(source))
