"""Outlines of source files: what is kept says the same as the syntax, and a file that does not serve counts as empty."""

import ast
import importlib
import json
from pathlib import Path

import pytest

import estimators
from estimators.system import outlines
from estimators.system.sources import Sources, digest

ROOM = Path(estimators.__file__).parent / "system"
TEXT = """
import math
from . import other as near

CONSTANT = math.pi

@property
def holder(x, y=lambda z: near.value + CONSTANT):
    "What it does."
    from .other import value as mine
    def inner(x):
        return mine, {"table.csv": lambda: near}
    return inner(x).held, undefined

class Held:
    many, names = CONSTANT, lambda: holder
"""


def package(folder):
    (folder / "one.py").write_text(TEXT)
    (folder / "other.py").write_text("value = 1\n")
    (folder / "table.csv").write_text("1,2\n")
    return {"pack": folder}


def fingerprints(sources):
    nodes = [
        (module, name) for module in sorted(sources.modules.texts) for name in sources.modules[module].outline.definitions
    ]
    return {node: (digest(sources, sources.closure([node])), sources.uses(node), sources.strings(node)) for node in nodes}


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda p: p.stem)
def test_an_outline_is_the_same_after_json(path):
    made = outlines.outline(f"estimators.system.{path.stem}", ast.parse(path.read_bytes()), path.stem == "__init__")
    assert made.definitions or path.stem == "__init__"
    assert outlines.from_plain(json.loads(json.dumps(outlines.to_plain(made)))) == made


def test_what_is_known_is_not_read_again_and_says_the_same(tmp_path, monkeypatch):
    folder, kept = tmp_path / "pack", tmp_path / "build" / "cache" / "outlines.json"  # folders that are not there yet
    folder.mkdir()
    plain = fingerprints(Sources(package(folder)))
    first = Sources(package(folder), outlines=kept)
    assert fingerprints(first) == plain
    assert {n for _, n in first.uses(("pack.one", "holder"))} == {"value", "CONSTANT"}
    first.save_outlines()
    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", lambda *_: pytest.fail("a file was read again"))
        assert fingerprints(Sources(package(folder), outlines=kept)) == plain
    (folder / "other.py").write_text("value = 2\n")
    changed = fingerprints(Sources({"pack": folder}, outlines=kept))
    assert changed[("pack.other", "value")] != plain[("pack.other", "value")]
    assert changed[("pack.one", "holder")] != plain[("pack.one", "holder")]
    assert changed[("pack.one", "CONSTANT")] == plain[("pack.one", "CONSTANT")]


def test_a_module_that_becomes_a_package_is_read_again(tmp_path):
    """The same text: what it imports relatively is another module's now."""
    folder, kept = tmp_path / "pack", tmp_path / "outlines.json"
    (folder / "one").mkdir(parents=True)
    for place, number in ((folder, 1), (folder / "one", 2)):
        (place / "other.py").write_text(f"value = {number}\n")
        (place / "__init__.py").write_text("")
    text = "from .other import value\n\n\ndef holder():\n    return value\n"
    (folder / "one" / "__init__.py").unlink()
    (folder / "one.py").write_text(text)
    first = Sources({"pack": folder}, outlines=kept)
    assert first.uses(("pack.one", "holder")) == {("pack.other", "value")}
    first.save_outlines()
    (folder / "one.py").rename(folder / "one" / "__init__.py")
    again = Sources({"pack": folder}, outlines=kept)
    assert again.uses(("pack.one", "holder")) == {("pack.one.other", "value")}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"recipe": 1, "outlines": {}}', "another recipe", "another shape"])
def test_a_file_that_does_not_serve_counts_as_empty(tmp_path, damage):
    folder, kept = tmp_path / "pack", tmp_path / "outlines.json"
    folder.mkdir()
    first = Sources(package(folder), outlines=kept)
    plain = fingerprints(first)
    first.save_outlines()
    content = json.loads(kept.read_text())
    if damage == "another recipe":
        wrong = {key: [{}, {}, [], []] for key in content["outlines"]}
        damage = json.dumps({"recipe": "0" * 64, "outlines": wrong})
    elif damage == "another shape":
        damage = json.dumps(content | {"outlines": {key: [1] for key in content["outlines"]}})
    kept.write_text(damage)
    again = Sources(package(folder), outlines=kept)
    assert fingerprints(again) == plain
    again.save_outlines()
    assert json.loads(kept.read_text()) == content


def test_two_processes_keep_what_each_has_read_and_no_file_that_is_gone(tmp_path):
    folder, kept = tmp_path / "pack", tmp_path / "outlines.json"
    folder.mkdir()
    one, other = (Sources(package(folder), outlines=kept) for _ in range(2))
    one.uses(("pack.one", "CONSTANT"))
    other.uses(("pack.other", "value"))
    one.save_outlines()
    other.save_outlines()
    assert sorted(key.split()[0] for key in json.loads(kept.read_text())["outlines"]) == ["pack.one", "pack.other"]
    (folder / "one.py").unlink()
    (folder / "third.py").write_text("x = 1\n")
    last = Sources({"pack": folder}, outlines=kept)
    last.uses(("pack.third", "x"))
    last.save_outlines()
    assert sorted(key.split()[0] for key in json.loads(kept.read_text())["outlines"]) == ["pack.other", "pack.third"]


def test_what_is_compiled_in_the_place_of_a_function_is_reached_with_it(tmp_path):
    def print_of(compiled):
        text = "@njit\ndef kernel(x):\n    return draw(x)\n\ndef draw(x):\n    return 1\n\n"
        (tmp_path / "one.py").write_text(
            f"{text}@overload(draw)\ndef compiled(x):\n    return lambda x: {compiled}\n\nheld = 3\n"
        )
        sources = Sources({"pack": tmp_path})
        nodes = sources.closure([("pack.one", "kernel")])
        return nodes, digest(sources, nodes)

    nodes, one = print_of("1")
    assert nodes == {("pack.one", "kernel"), ("pack.one", "draw")}
    assert print_of("2") != (nodes, one)
    assert print_of("held")[0] == nodes | {("pack.one", "held")}


def test_what_a_front_loads_at_first_use_is_found_wherever_its_table_stands(tmp_path):
    """In the call, in the front, or in a module beside it; and as Python finds the algorithms, whose table is in one."""
    (tmp_path / "inner.py").write_text("thing = 1\n")
    (tmp_path / "table.py").write_text('HOMES = {"inner": "thing"}\n')
    for above, table in (
        ("", '{"inner": "thing"}'),
        ('HOMES = {"inner": "thing"}', "HOMES"),
        ("from .table import HOMES", "HOMES"),
    ):
        (tmp_path / "__init__.py").write_text(f"{above}\n__getattr__, __dir__ = attach(__name__, {table})\n")
        assert Sources({"pack": tmp_path}).resolve("pack", "thing") == {("pack.inner", "thing")}
    sources, front = Sources({"estimators": ROOM.parent}), "estimators.federated.algorithms"
    for name in ("FedAvg", "MRMTL", "DPAdaPeD"):
        assert sources.resolve(front, name) == {(getattr(importlib.import_module(front), name).__module__, name)}
