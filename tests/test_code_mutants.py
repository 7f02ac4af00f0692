"""The program that mutates code: it changes one place, the same for the same seed, and tells killed from survived."""

import ast
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mutants
import swaps
import warm

sys.path.pop(0)

TOY = '''"""Doubles."""


def double(x: int) -> int:
    """Twice x.

    >>> double(3)
    6
    """
    if x == 10**9:
        raise ValueError(f"{x + 1} is too large")
    return 2 * x if x > 0 else x + x


class Pair:
    def __init__(self, x):
        self.x = -x
'''


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "estimators").mkdir()
    (tmp_path / "estimators" / "toy.py").write_text(TOY)
    return [mutants.mutated(*place, root=tmp_path) for place in mutants.every_place(tmp_path)]


def test_every_mutant_is_one_change_that_runs(toy):
    assert len({m.source for m in toy}) == len(toy)
    changes = {(m.function, m.before, m.after) for m in toy}
    assert ("double", "2 * x", "(2 / x)") in changes
    assert ("double", "x > 0", "(x >= 0)") in changes
    assert ("double", "x == 10**9", "(x != 10 ** 9)") in changes
    assert ("Pair", "-x", "(x)") in changes
    for m in toy:
        ast.parse(m.source)
        assert "is too large" in m.source
        assert m.source.count(">>> double(3)") == 1


def test_the_sample_is_fixed_by_the_seed():
    places = list(mutants.every_place())
    one, two = (random.Random(5).sample(places, 3) for _ in range(2))
    assert [str(mutants.mutated(*p)) for p in one] == [str(mutants.mutated(*p)) for p in two]


ROOM = "tests/estimators/room/test_x.py"
REACH = {
    ROOM: {"entered": [], "tests": {f"{ROOM}::a": [0.5, ["estimators/room/x.py::double"]], f"{ROOM}::b": [0.1, []]}},
    "tests/estimators/other/test_y.py": {
        "entered": ["estimators/room/x.py::table"],
        "tests": {"tests/estimators/other/test_y.py::c": [0.1, ["estimators/room/x.py::double", "estimators/y.py::four"]]},
    },
    "estimators/room/x.py": {"entered": [], "tests": {"estimators/room/x.py::d": [9.0, ["estimators/room/x.py::double"]]}},
}


def test_tests_that_enter_the_function_are_taken_those_of_its_module_first():
    def chosen(function, called_by, kernel=False):
        m = mutants.Mutant("estimators/room/x.py", function, "", "", "")
        return [name.rpartition("::")[2] for name, _ in mutants.tests_of(m, REACH, called_by, kernel, {})]

    assert chosen("double", {}) == ["d", "a", "c"]
    assert chosen("table", {}) == ["c"]  # entered by an import: by all its tests
    x, y = "estimators/room/x.py", "estimators/y.py"
    # By its callers, where it is compiled; of a function of that name elsewhere the tests say nothing.
    assert chosen("kernel", {f"{x}::kernel": {f"{x}::inner"}, f"{x}::inner": {f"{y}::four"}}) == ["c"]
    assert chosen("four", {}) == []
    assert chosen("nowhere", {}) == []


def test_callers_are_those_who_use_the_name_where_the_file_is_imported():
    texts = {
        "estimators/room/x.py": "def four(): pass\ndef inner(): return four()\n",
        "estimators/y.py": "from estimators.room.x import four\ndef outer(): return four()\n",
        "estimators/z.py": "def four(): pass\ndef other(): return four()\n",
        "estimators/w.py": "from estimators.room import x\ndef last(): return x.four()\n",
    }
    found = mutants.callers(texts)
    near = {"estimators/room/x.py::inner", "estimators/y.py::outer", "estimators/w.py::last"}
    assert found["estimators/room/x.py::four"] == near
    assert found["estimators/z.py::four"] == {"estimators/z.py::other"}
    compiled = "from numba import njit\n@njit\ndef low(): pass\n@njit\ndef middle(): low()\ndef high(): middle()\n"
    texts = {"estimators/k.py": compiled, "estimators/v.py": "from estimators.k import high\ndef seen(): high()\n", **texts}
    assert "estimators/v.py::seen" in mutants.callers(texts)["estimators/k.py::low"]
    assert mutants.unwatched(texts) == {"estimators/k.py"}
    assert mutants.importers(texts)["estimators/room/x.py"] == {"estimators/room/x.py", "estimators/y.py", "estimators/w.py"}


def test_one_case_of_each_test_comes_before_the_others_but_for_those_that_have_killed():
    plan = ["f.py::a[1]", "f.py::a[2]", "f.py::a[3]", "f.py::b", "f.py::c[1]"]
    assert mutants.spread(plan, ()) == ["f.py::a[1]", "f.py::b", "f.py::c[1]", "f.py::a[2]", "f.py::a[3]"]
    assert mutants.spread(plan, {"f.py::a[2]": 1})[:2] == ["f.py::a[1]", "f.py::a[2]"]


def test_without_a_map_the_files_that_speak_most_of_a_mutant_are_asked(monkeypatch):
    said = {
        "tests/estimators/room/test_x.py": mutants.Counter({"x": 1}),
        "tests/estimators/room/test_z.py": mutants.Counter({"double": 2}),
        "tests/estimators/other/test_y.py": mutants.Counter({"double": 9, "outer": 9}),
        "tests/estimators/other/test_w.py": mutants.Counter({"nothing": 9}),
    }
    monkeypatch.setattr(mutants, "spoken", lambda: said)
    text = "class Pair:\n    def double(self):\n        '>>> double(3)'\n"
    m = mutants.Mutant("estimators/room/x.py", "double", "", "", text, 2)
    called_by = {"estimators/room/x.py::double": {"estimators/y.py::outer"}}
    assert mutants.names_near(m, called_by) == {"Pair", "double", "outer"}
    own, others = ["estimators/room/x.py", "tests/estimators/room/test_x.py"], ["tests/estimators/other/test_y.py"]
    assert mutants.nearest(m, {"double", "outer"}, 2) == own + others
    assert mutants.nearest(m, {"double"}, 9) == [*own, "tests/estimators/room/test_z.py", *others]


def test_of_a_file_the_tests_that_name_what_is_changed_are_asked_first():
    here = Path(__file__).relative_to(mutants.ROOT).as_posix()
    found = {test.rpartition("::")[2]: turn for turn, test in mutants.near_first(here, {"every_place"})}
    assert found["test_the_sample_is_fixed_by_the_seed"] == 0
    assert found["test_every_mutant_is_one_change_that_runs"] == 1
    assert mutants.near_first("estimators/room/x.py", set()) == [(0, "estimators/room/x.py")]


def test_words_of_tests_in_classes_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "t.py").write_text("class TestA:\n    def test_b(self):\n        one(2)\n\ndef test_c():\n    two()\n")
    found = mutants.words_of.__wrapped__("t.py")
    assert found == {"TestA::test_b": {"def", "test_b", "self", "one", "2"}, "test_c": {"def", "test_c", "two"}}


def test_names_of_functions_stand_for_their_cases_one_of_each_first():
    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

    items = [Item(n) for n in ("t.py::a[1]", "t.py::a[2]", "t.py::b", "m.py::m", "m.py::m.f", "t.py::c[1]", "t.py::c[2]")]
    found = [item.nodeid for item, _ in warm.cases(items, ["m.py", "t.py::b", "t.py::a", "t.py::c[2]", "t.py::none"])]
    assert found == ["m.py::m", "m.py::m.f", "t.py::b", "t.py::a[1]", "t.py::c[2]", "t.py::a[2]"]


def test_the_quick_tests_come_first_and_the_rest_is_bounded():
    plan = [("f.py::a", 6.0), ("f.py::b", 6.0), ("g.py::c", 1.0), ("g.py::d", 80.0), ("g.py::e", 20.0)]
    ((quick, first), (wide, second)), left_out = mutants.parted(plan, 90.0)
    assert (quick, first) == (["f.py::a", "g.py::c"], 7.0)
    assert (wide, second) == (["f.py::b", "g.py::d"], 86.0)
    assert left_out == 1
    assert mutants.parted(plan, 0.0) == ([(quick, first)], 3)
    assert mutants.parted(plan, 200.0)[1] == 0


@pytest.mark.parametrize(
    ("status", "fate"),
    [(0, "survived"), (1, "killed"), (2, "killed"), (3, "broken"), (5, "survived"), (warm.BROKEN, "broken"),
     (-signal.SIGXCPU, "timeout"), (-signal.SIGKILL, "stuck"), (-signal.SIGSEGV, "killed")],
)  # fmt: skip
def test_how_tests_end_says_what_became_of_a_mutant(status, fate):
    assert mutants.ended(status) == fate


@pytest.mark.filterwarnings("ignore:os.fork")  # other tests of this process may have started threads of JAX
def test_jobs_run_in_forks_and_are_stopped_by_their_processor_time():
    def spins(home):
        while True:
            pass

    def dies(home):
        os.kill(os.getpid(), signal.SIGTERM)

    jobs = [("fine", lambda home: 7, 5.0), ("spins", spins, 0.5), ("dies", dies, 5.0), ("raises", lambda home: 1 / 0, 5.0)]
    ends = {name: status for name, status, _ in warm.run(jobs, 2)}
    assert mutants.ended(ends.pop("spins")) in ("timeout", "stuck")  # by its processor time, or the clock of a busy machine
    assert ends == {"fine": 7, "dies": -signal.SIGTERM, "raises": warm.BROKEN}


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_job_that_waits_for_what_never_comes_is_stopped_and_one_that_works_is_not(monkeypatch):
    monkeypatch.setattr(warm, "IDLE", 3)

    def waits(home):
        signal.pause()

    def works(home):
        return subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 4: pass"]).returncode

    ends = {name: status for name, status, _ in warm.run([("waits", waits, 900.0), ("works", works, 900.0)], 2)}
    assert ends == {"waits": -signal.SIGKILL, "works": 0}


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_job_that_starts_processes_for_ever_is_stopped_by_what_they_use_together(monkeypatch):
    monkeypatch.setattr(warm, "IDLE", 5)  # looked at twice a second

    def starts(home):
        while True:
            subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < .3: pass"])

    [(_, status, used)] = warm.run([("starts", starts, 1.0)], 1)
    assert mutants.ended(status) == "stuck"  # and not dead: nobody has asked what the tests take without the mutant
    assert used < 10


@pytest.mark.filterwarnings("ignore:os.fork")
def test_jobs_of_a_job_that_is_stopped_are_stopped_too(tmp_path):
    def inner(home):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a mutant may
        (tmp_path / "pid").write_text(str(os.getpid()))
        while True:
            signal.pause()

    def outer(home):
        return len(list(warm.run([("inner", inner, 900.0)], 1, 0.5)))

    def first(home):
        while not (tmp_path / "pid").is_file():
            signal.sigtimedwait([], 0.1)
        return 0

    both = warm.run([("outer", outer, 900.0), ("first", first, 900.0)], 2)
    assert next(both)[:2] == ("first", 0)
    both.close()  # as where an interrupt ends who asks for them
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_watched_source_does_what_it_did_and_says_what_was_entered():
    entered = set()
    watched = {"__entered__": entered}
    exec(warm.watched("toy.py", TOY), watched)
    assert watched["double"](3) == 6
    assert watched["double"].__doc__ == "Twice x.\n\n    >>> double(3)\n    6\n    "
    assert entered == {"toy.py::double"}
    assert watched["Pair"](2).x == -2
    assert entered == {"toy.py::double", "toy.py::Pair"}
    behind = "def f(\n    x,\n): return x\n"
    exec(warm.watched("behind.py", behind), watched)
    assert watched["f"](7) == 7
    assert "behind.py::f" in entered
    kernel = "@njit\ndef f(x):\n    return x\n"
    assert warm.watched("toy.py", kernel) == kernel


def test_of_a_changed_file_the_tests_that_are_as_they_were_are_not_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(warm, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    file, path = "tests/test_x.py", tmp_path / "tests" / "test_x.py"
    path.write_text("@mark\ndef test_a(): pass\n\ndef test_b(): pass\n")
    tests = {f"{file}::test_a[1]": [1, []], f"{file}::test_b": [2, []], f"{file}::test_gone": [3, []]}
    noted = {"sources": warm.sources(file), "tests": tests}
    path.write_text("\n\n@mark\ndef test_a(): pass\n\ndef test_b(): ...\n\ndef test_c(): pass\n")
    assert warm.still(noted, file) == {f"{file}::test_a[1]": [1, []]}
    path.write_text("@other\ndef test_a(): pass\n")
    assert warm.still(noted, file) == {}


def test_survivors_are_tried_again_after_new_tests(tmp_path):
    path = tmp_path / "fates.jsonl"
    path.write_text(
        '{"key": "a", "fate": "killed", "tests": "old", "wide": 0}\n'
        '{"key": "b", "fate": "survived", "tests": "old", "wide": 9}\n'
    )
    assert set(mutants.kept(path, {"b": "old"}, 9)) == {"a", "b"}
    assert set(mutants.kept(path, {"b": "old"}, 10)) == {"a"}
    assert set(mutants.kept(path, {"b": "new"}, 0)) == {"a"}


def test_what_only_the_clock_has_stopped_is_not_dead_and_tried_again(tmp_path):
    path = tmp_path / "fates.jsonl"
    path.write_text(
        '{"key": "a", "fate": "timeout", "tests": "t", "wide": 0}\n{"key": "b", "fate": "stuck", "tests": "t", "wide": 0}\n'
    )
    assert set(mutants.kept(path, {"b": "t"}, 0)) == {"a"}
    assert set(mutants.kept(path, {"b": "t"}, 0, mutants.UNDECIDED)) == {"a", "b"}


def test_those_that_are_not_decided_are_told_apart(capsys):
    sample = {k: mutants.Mutant(f"{k}.py", "f", "x", "y", "") for k in "abcdef"}
    fates = {"a": "timeout", "b": "stuck", "c": "partly", "d": "survived"}  # e was not run, and no test enters f
    mutants.told(sample, {k: {"fate": fate} for k, fate in fates.items()}, set("abcde"))
    said = capsys.readouterr().out
    assert "1 of 6 killed: 16.7%" in said
    assert "1 of 3 killed: 33.3%" in said
    for word, name in (("stuck", "b"), ("partly", "c"), ("survived", "d"), ("not run", "e"), ("unreached", "f")):
        assert f"{word:10} {name}.py" in said


def test_what_was_not_asked_of_all_its_tests_has_not_survived(tmp_path, capsys):
    sample = {k: mutants.Mutant(f"{k}.py", "f", "x", "y", "") for k in "ab"}
    mutants.told(sample, {"a": {"fate": "killed"}, "b": {"fate": "cut short"}}, set("ab"))
    said = capsys.readouterr().out
    assert "1 of 2 killed: 50.0%" in said
    assert "1 of 1 killed: 100.0%" in said
    path = tmp_path / "fates.jsonl"
    path.write_text('{"key": "a", "fate": "cut short", "tests": "t", "wide": 9}\n')
    assert set(mutants.kept(path, {"a": "t"}, 9)) == {"a"}
    assert set(mutants.kept(path, {"a": "t"}, 90)) == set()  # there is time for more of them


def test_tests_that_come_later_do_not_make_up_for_those_that_were_left_out():
    fate, cut = mutants.so_far(swaps.CUT, False, True)
    assert (fate, cut) == ("partly", True)
    assert mutants.so_far(0, cut, False) == ("cut short", True)
    assert mutants.so_far(1, cut, False) == ("killed", False)
    assert mutants.so_far(0, False, True) == ("partly", False)
    assert mutants.so_far(0, False, False) == ("survived", False)


PLAIN = """
import functools

TEN = 10

def outer(x, y=2, *, z=TEN + 1, w=None, **more):
    def inner(x=3):
        return x
    return x + y + z + inner()

class Kept:
    @functools.cache
    def of(self, x, scale=-1.5):
        return x * scale
"""


def test_defaults_are_mutated_and_swapped(tmp_path):
    (tmp_path / "estimators").mkdir()
    path = tmp_path / "estimators" / "plain.py"
    path.write_text(PLAIN)
    all_of_it = [mutants.mutated(*place, root=tmp_path) for place in mutants.every_place(tmp_path)]
    made = {str(m).partition("::")[2]: m for m in all_of_it}
    plain = {}
    exec(compile(PLAIN, str(path), "exec"), plain)
    outer, kept, live = plain["outer"], plain["Kept"](), swaps.Live()
    assert outer(1) == 1 + 2 + 11 + 3
    changes = {"2 -> (3)": 18, "TEN + 1 -> (TEN - 1)": 15, "1 -> (2)": 18, "x + y -> (x - y)": 13}
    for change, value in changes.items():
        assert swaps.swapped(path, PLAIN, made[f"outer: {change}"].source, live)
        assert outer(1) == value
        assert swaps.swapped(path, made[f"outer: {change}"].source, PLAIN, live)
        assert outer(1) == 17
    assert not swaps.swapped(path, PLAIN, made["outer: 3 -> (4)"].source, live)  # made when another runs
    assert swaps.swapped(path, PLAIN, made["of: -1.5 -> (1.5)"].source, live)
    assert kept.of(2) == 3.0


TWICE = """
class One:
    def far(self, x):
        return [y for y in x if  y >
            1] or x > 1 or y > 1

class Two:
    def near(self):
        return y > 1
    def far(self):
        def far(é, y): return "é", y > 1
"""


def test_places_of_one_text_in_functions_of_one_name_are_numbered_from_the_top(tmp_path):
    (tmp_path / "estimators").mkdir()
    (tmp_path / "estimators" / "twice.py").write_text(TWICE, encoding="utf-8")
    made = {str(m): m for m in (mutants.mutated(*place, root=tmp_path) for place in mutants.every_place(tmp_path))}
    far = "estimators/twice.py::far: y > 1 -> (y >= 1)"
    assert [made[f"{far}{n}"].line for n in ("", " #2", " #3")] == [4, 5, 11]
    assert f"{far} #4" not in made
    assert "estimators/twice.py::near: y > 1 -> (y >= 1)" in made
    for m in made.values():
        assert ast.dump(ast.parse(m.source)) != ast.dump(ast.parse(TWICE))
    lines = made[f"{far} #3"].source.splitlines()
    assert lines[10].endswith('"é", (y >= 1)')
    assert lines[:10] == TWICE.splitlines()[:10]


def test_an_equivalent_mutant_excuses_its_own_place_only(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path / "equivalent.txt")
    mutants.EQUIVALENT.write_text("x.py::f: a -> (b) #2  # why\n")
    sample = {str(k): mutants.Mutant("x.py", "f", "a", "(b)", "", number=k) for k in (1, 2)}
    mutants.told(sample, {k: {"fate": "survived"} for k in sample}, set(sample))
    assert "0 of 1 killed" in capsys.readouterr().out


def test_equivalent_mutants_are_of_the_code_as_it_is():
    named = {name.split("::")[0] for name in mutants.equivalents()}
    places = (p for p in mutants.every_place() if p[0].relative_to(mutants.ROOT).as_posix() in named)
    assert mutants.equivalents() - {str(mutants.mutated(*p)) for p in places} == set()


def test_equivalent_mutants_have_a_reason():
    lines = [x for x in mutants.EQUIVALENT.read_text().splitlines() if x and not x.startswith("#")]
    assert all("  # " in line for line in lines)
