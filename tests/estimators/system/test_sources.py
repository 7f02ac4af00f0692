"""What definitions can reach: beside Python's own tables of symbols, its compiler, its imports."""

import ast
import importlib
import pkgutil
import re
import symtable
import sys
import types
from importlib.metadata import version
from pathlib import Path

import pytest

import estimators
from estimators.system.outlines import without_docstrings
from estimators.system.sources import Sources, digest, versions_text

PLACES = ("estimators.system", "estimators.montecarlo.checks", "estimators.federated.algorithms.fedhdp")
TANGLED = """
first = second = third = 1
def used(x): ...
pick = lambda used, *first: used(second) + first
one, two = (lambda x: used(x)), (lambda x: (lambda y, used=third: used(y))(x))
def outer(x, y=first, *rest, key, **more):
    "What it does."
    if (found := x) and rest:
        for second in more:
            found += second
    kept = [third for third in x if third(y)] + [used(z) for z in first]
    def inner(used):
        nonlocal kept
        def deeper():
            return used, third, kept
        return deeper
    global late
    late = key
    return inner, found
class Held:
    "What it is."
    own = used(1)
    def method(self, first=third):
        return self.second, [first for _ in used], lambda: self
late = 2
"""


@pytest.fixture(scope="module")
def sources():
    return Sources({"estimators": Path(estimators.__file__).parent})


@pytest.fixture
def tangled(tmp_path):
    (tmp_path / "knot.py").write_text(TANGLED)
    return Sources({"pack": tmp_path})


def looked_up(statement):
    """The names that a statement of a module looks up there, by Python's own tables of symbols."""
    found, waiting = set(), [symtable.symtable(ast.unparse(statement), "", "exec")]
    while waiting:
        table = waiting.pop()
        outermost = table.get_type() == "module"
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced() and (outermost or s.is_global())}
        waiting += table.get_children()
    return found


def assert_named_as_python_looks_up(sources, modules):
    for module in modules:
        definitions = sources.modules[module].definitions
        for name, statements in definitions.items():
            expected = set().union(*map(looked_up, statements)) & definitions.keys() - {name}
            assert {used for home, used in sources.uses((module, name)) if home == module} == expected, (module, name)


def test_a_definition_names_what_python_looks_up_in_its_module(sources, tangled):
    assert_named_as_python_looks_up(sources, [m for m in sources.modules.texts if m.startswith(PLACES[:1])])
    assert_named_as_python_looks_up(tangled, ["pack.knot"])


def test_functions_and_classes_of_other_modules_are_named_as_they_are_imported(sources):
    for module in (m for m in sources.modules.texts if m.startswith(PLACES[1:])):
        space = vars(importlib.import_module(module))
        for name, statements in sources.modules[module].definitions.items():
            values = [space.get(used) for used in set().union(*map(looked_up, statements))]
            values = [v.py_func if hasattr(v, "py_func") else v for v in values]  # of what Numba compiles
            kinds = [v for v in values if isinstance(v, (types.FunctionType, type)) and v.__module__ in sources.modules]
            expected = {(v.__module__, v.__name__) for v in kinds if v.__module__ != module}
            assert expected <= sources.uses((module, name)), (module, name)


def test_statements_are_those_of_the_text(tangled):
    tree = ast.parse(TANGLED)
    for statement, name in zip(tree.body[4:6], ("outer", "Held"), strict=True):
        (found,) = tangled.statements(("pack.knot", name))
        assert ast.dump(found, include_attributes=True) == ast.dump(statement, include_attributes=True)
        statement.body = statement.body[1:]
        assert tangled.text(("pack.knot", name)) == ast.dump(statement)
    assert tangled.statements(("pack.knot", "nobody")) == []
    tangled.save_outlines()  # nowhere, where no file is given


def codes_of(code):
    """A compiled text and all that is compiled in it."""
    return [code, *(inner for c in code.co_consts if isinstance(c, types.CodeType) for inner in codes_of(c))]


def assert_found_where_they_stand(sources, modules):
    """Of every function of a text its definition, or its own text, which compiles to the same."""
    for module in modules:
        text = sources.modules.texts[module][1]
        for code in codes_of(compile(text, module, "exec")):
            around, name = code.co_qualname.split(".")[0], code.co_name
            if (name.startswith("<") and name != "<lambda>") or not code.co_flags & 2:  # a class, or all of the module
                continue
            parts, holders = sources.at(module, code)
            pieces, same = sources.pieces(module, code)
            assert same == holders
            assert [piece.text for piece in pieces] == [without_docstrings(part) for part in parts]
            if name != "<lambda>" and "<locals>" not in code.co_qualname:
                assert (parts, holders) == ([], {(module, around)})
                continue
            (part,) = parts
            assert not holders
            if name == "<lambda>":  # compiled alone it has the same places, but for what it takes from around it
                again = codes_of(compile(ast.Expression(part), module, "eval"))[1]
                assert again.co_varnames == code.co_varnames
                assert list(again.co_positions())[-1] == list(code.co_positions())[-1]
            else:
                assert (part.name, part.body[-1].end_lineno) == (name, max(c[1] for c in code.co_positions() if c[1]))


def test_compiled_functions_are_found_where_they_stand(sources, tangled):
    assert_found_where_they_stand(tangled, ["pack.knot"])
    assert_found_where_they_stand(sources, [m for m in sources.modules.texts if m.startswith(PLACES)])


def test_modules_are_those_that_python_finds(sources):
    found = {m.name for m in pkgutil.walk_packages(estimators.__path__, "estimators.")} | {"estimators"}
    assert set(sources.modules.texts) == found
    packages = {m.name for m in pkgutil.walk_packages(estimators.__path__, "estimators.") if m.ispkg} | {"estimators"}
    assert {name for name, (path, _) in sources.modules.texts.items() if path.name == "__init__.py"} == packages


def test_names_are_followed_through_packages_and_other_names(tmp_path):
    """A module by its path, by another name, through a package that imports it; names of libraries stand for nothing."""
    room = tmp_path / "room"
    room.mkdir()
    (room / "deep.py").write_text("value = 1\nother = 2\n")
    (room / "__init__.py").write_text("from . import deep\nfrom .deep import other as another\n")
    (tmp_path / "__init__.py").write_text("from pack.room import deep as shallow\n")
    (tmp_path / "use.py").write_text(
        "import math\nimport pack\nimport pack.room.deep\nimport pack.room.deep as short\nfrom pack import shallow\n"
        "from . import room\nfrom .room import another, deep\n"
        "by_path = pack.room.deep.value.real\nby_short = short.value\nby_shallow = shallow.value\n"
        "by_front = pack.shallow.value\nby_room = room.deep.value\nby_room_too = room.another + room.nothing\n"
        "by_name = another + math.pi + math.value + nothing\nwhole = [deep]\n"
        "def inside():\n    from .room.deep import value as own\n    import pack.room as here\n"
        "    return own, here.deep.other\n"
    )
    sources = Sources({"pack": tmp_path})
    value, other = ("pack.room.deep", "value"), ("pack.room.deep", "other")
    expected = {name: {value} for name in ("by_path", "by_short", "by_shallow", "by_front", "by_room")}
    expected |= {"by_room_too": {other}, "by_name": {other}, "whole": {value, other}, "inside": {value, other}}
    for name, reached in expected.items():
        assert sources.uses(("pack.use", name)) == reached, name
    everything = [("pack.use", name) for name in expected]
    assert sources.closure(everything) == {*everything, value, other}
    assert sources.closure(everything, stop=[other]) == {*everything, value}
    assert sources.closure(everything, stop=everything) == set()


def test_a_fingerprint_is_of_what_is_named_and_that_of_the_tree_of_everything(tmp_path):
    (tmp_path / "inner").mkdir()
    one = 'def reader():\n    "It reads."\n    first = 1\n    return "table.csv", first, held\nheld = 1\nother = 2\n'
    held = {"one.py": one, "table.csv": "1\n", "free.json": "[]\n", "inner/table.csv": "3\n"}

    def prints(libraries="", texts=(), **changes):
        for name, text in {**held, **changes}.items():
            (tmp_path / name).write_text(text)
        sources = Sources({"pack": tmp_path}, libraries)
        nodes = sources.closure([("pack.one", "reader")])
        assert sources.files(nodes) == {tmp_path / "table.csv"}
        return digest(sources, nodes, texts), sources.tree

    before = prints()
    assert prints() == before
    assert all(re.fullmatch("[0-9a-f]{16}", each) for each in before)
    for changes, reached in (
        ({"table.csv": "2\n"}, True), ({"free.json": "[1]\n"}, False), ({"inner/table.csv": "4\n"}, False),
        ({"one.py": one.replace("held = 1", "held = 2")}, True), ({"libraries": "numpy 3"}, True),
        ({"one.py": one.replace("first = 1", "first = 2")}, True), ({"one.py": one.replace("It reads", "Reads")}, False),
        ({"one.py": one.replace("other = 2", "other = 3")}, False),
    ):  # fmt: skip
        after = prints(**changes)
        assert (after[0] != before[0]) is reached, changes
        assert after[1] != before[1], changes
    assert len({prints(texts=t)[0] for t in ((), ("a",), ("a", "b"), ("ab",))}) == 4
    assert prints(texts=("a", "b")) == prints(texts=("b", "a"))


def test_versions_are_said_as_text():
    said = f"python {sys.version_info.major}.{sys.version_info.minor}"
    assert versions_text(()) == said
    assert versions_text(["numpy", "scipy"]) == f"{said}, numpy {version('numpy')}, scipy {version('scipy')}"
