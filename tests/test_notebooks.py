"""Notebooks run from clean, say what is committed, check the claims they show; their hidden solutions run too, and a
check answers for every size, order and count in their words."""

import importlib
import importlib.util
import re
import sys
import time
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra 'notebooks': pip install -e '.[notebooks]'")
pytest.importorskip("ipykernel", reason="needs the extra 'notebooks': pip install -e '.[notebooks]'")

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("notebooks_run", ROOT / "notebooks" / "run.py")
sys.path.insert(0, str(ROOT / "notebooks"))  # where run.py finds its neighbour
words = importlib.import_module("words")
assert SPEC is not None
assert SPEC.loader is not None
run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run)

NOTEBOOKS = run.find([])
LARGEST = 700_000  # bytes


def names(paths):
    return [p.stem for p in paths]


@pytest.fixture(params=NOTEBOOKS, ids=names(NOTEBOOKS))
def path(request):
    return request.param


@pytest.mark.filterwarnings("ignore")  # of the kernel's libraries; a warning in a notebook shows in its outputs
def test_it_its_solutions_and_its_checks_run_and_say_what_is_committed(path):
    committed = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    made = run.execute(run.with_hidden(nbformat.read(path, as_version=4)))
    took = time.perf_counter() - start
    tags = [tag for cell in made.cells for tag in cell.metadata.get("tags", ())]
    assert tags.count("hidden-solution") >= 3, "three exercises or more, each with a solution that runs"
    assert tags.count("hidden-check") >= 3
    assert run.text_of(run.normal(run.without_hidden(made))) == run.text_of(committed)
    assert took < 300, "a notebook is meant for 60 s on two free cores; these may be busy, and the checks come on top"


def test_a_check_answers_for_every_size_order_and_count(path):
    assert not words.unsupported(nbformat.read(path, as_version=4))


def test_excuses_are_the_exception():
    sources = [c.source for p in NOTEBOOKS for c in nbformat.read(p, as_version=4).cells if c.cell_type == "markdown"]
    quotes = [pair for source in sources for pair in words.quoted(source)]
    assert sum(why is not None for _, why in quotes) < len(quotes) / 3


def test_it_is_built_as_the_others(path):
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    code = "\n".join(c.source for c in notebook.cells if c.cell_type == "code")
    assert notebook.cells[0].source.startswith("# ")
    assert "## Exercises" in text
    assert len(words.DETAILS.findall(text)) >= 3
    assert re.search(r"\bbox\(", code), "a notebook shows the claims it teaches, judged on the spot"
    assert [c.id for c in notebook.cells] == [f"cell-{i:02d}" for i in range(1, len(notebook.cells) + 1)]
    assert path.stat().st_size < LARGEST


def test_an_unknown_name_is_refused():
    with pytest.raises(SystemExit):
        run.main(["99"])


def test_a_changed_output_is_seen(tmp_path, monkeypatch, capsys):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print(6 * 7)")])
    path = tmp_path / "01_test.ipynb"
    nbformat.write(notebook, path)
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.main([]) == 0
    assert run.main(["--check"]) == 0
    path.write_text(path.read_text().replace("42", "43"))
    assert run.main(["--check"]) == 1
    assert "-43" in capsys.readouterr().out


def test_a_failing_notebook_leaves_the_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "01_test.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.main([]) == 1
    assert path.read_bytes() == before


def notebook_of(*texts, code="error, other = 4.0, 2.0"):
    cells = [nbformat.v4.new_code_cell(code), *map(nbformat.v4.new_markdown_cell, texts)]
    return nbformat.v4.new_notebook(cells=cells)


HALF = "It is half of the other."


@pytest.mark.parametrize(
    "text",
    [
        HALF,
        "It is 3.5 % of the other.",
        "The number is 12.",
        "Ours is closer than theirs.",
        "It always wins.",
        r"The bound is $e^{-4}=0.018$ here.",
        "What is it? Nearly nothing.",
        "<details><summary>Solution</summary>\n\nThe first is larger.\n\n</details>",
        "- a list, and *twice* the noise",
    ],
)
def test_a_statement_without_a_check_is_found(text):
    assert words.unsupported(notebook_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "You need notebook 02 and Theorem 6.3.",
        "**1.** Which of the three is largest? Try 50 of them.",
        "How much larger is it than 3?",
        "Take `x[:12]` and\n\n$$y = 2 x.$$",
        "Its variance is $\\sigma^2/n$.",
        "## Two headings",
        "```python\nx = 5\n```",
    ],
)
def test_what_states_nothing_needs_no_check(text):
    assert not words.unsupported(notebook_of(text))


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        ('says("It is half of the other", other == error / 2)', None),
        ('beyond("It is half of the other", "by definition")', None),
        ('says("It is", other == error / 2)', "no check answers for 'half'"),
        ('says("It is a third of the other", other == error / 2)', "stands in the text 0 times"),
        ('says("o", other == error / 2)', "stands in the text 2 times"),
        ('says("It is half of the other", True)', "typed, not computed"),
        ('says("It is half of the other", 2 == 4 / 2)', "typed, not computed"),
        ('beyond("It is half of the other", "I say so")', "no excuse"),
    ],
)
def test_a_check_answers_for_words_that_stand_in_the_text_once(check, complaint):
    wrong = words.unsupported(notebook_of(f"{HALF}\n\n<!-- check\n{check}\n-->"))
    assert (not wrong) if complaint is None else any(complaint in line for line in wrong)


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ('says("It is half of the other", other == error / 2)', 0),
        ('says("It is half of the other", other == error / 3)', 1),
        ('says("It is half of the other", other)', 1),
        ('for x in []:\n    says("It is half of the other", x == other)', 1),
    ],
)
def test_words_that_the_numbers_contradict_are_seen(check, status, tmp_path, monkeypatch, capsys):
    path = tmp_path / "01_test.ipynb"
    nbformat.write(notebook_of(f"{HALF}\n\n<!-- check\nerror = error * 1.0\n{check}\n-->"), path)
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.main([]) == 0
    assert run.main(["--check"]) == status
    assert ("It is half of the other" in capsys.readouterr().err) == (status == 1)


def test_a_check_leaves_names_and_generators_as_they_were(tmp_path, monkeypatch):
    check = '<!-- check\nx = rng.random()\nsays("It is half", 0 < x < 1)\n-->'
    notebook = notebook_of(f"It is half.\n\n{check}", code="import numpy as np\nrng = np.random.default_rng(0)\nx = 3")
    notebook.cells.append(nbformat.v4.new_code_cell("print(x, rng.random())"))
    path = tmp_path / "01_test.ipynb"
    nbformat.write(notebook, path)
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.main([]) == 0
    assert run.main(["--check"]) == 0
