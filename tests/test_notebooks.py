"""Notebooks run from clean, say what is committed, check the claims they show, and their hidden solutions run too."""

import importlib.util
import re
import time
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra 'notebooks': pip install -e '.[notebooks]'")
pytest.importorskip("ipykernel", reason="needs the extra 'notebooks': pip install -e '.[notebooks]'")

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("notebooks_run", ROOT / "notebooks" / "run.py")
assert SPEC is not None
assert SPEC.loader is not None
run = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run)

NOTEBOOKS = run.find([])
DETAILS = re.compile(r"<details>.*?</details>", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
LARGEST = 700_000  # bytes


def names(paths):
    return [p.stem for p in paths]


@pytest.fixture(params=NOTEBOOKS, ids=names(NOTEBOOKS))
def path(request):
    return request.param


def with_solutions(notebook):
    """The notebook with the code of its hidden solutions as tagged cells where they stand."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            code = BLOCK.findall("\n".join(DETAILS.findall(cell.source)))
            cells += [nbformat.v4.new_code_cell(text, metadata={"tags": ["solution"]}) for text in code]
    notebook.cells = cells
    return notebook


@pytest.mark.filterwarnings("ignore")  # of the kernel's libraries; a warning in a notebook shows in its outputs
def test_it_and_its_solutions_run_and_say_what_is_committed(path):
    committed = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    made = run.execute(with_solutions(nbformat.read(path, as_version=4)))
    took = time.perf_counter() - start
    solutions = [c for c in made.cells if "solution" in c.metadata.get("tags", ())]
    assert len(solutions) >= 3, "three exercises or more, each with a solution that runs"
    made.cells = [c for c in made.cells if c not in solutions]
    assert run.text_of(run.normal(made)) == run.text_of(committed)
    assert took < 300, "a notebook is meant for 60 s on two free cores; these may be busy"


def test_it_is_built_as_the_others(path):
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    code = "\n".join(c.source for c in notebook.cells if c.cell_type == "code")
    assert notebook.cells[0].source.startswith("# ")
    assert "## Exercises" in text
    assert len(DETAILS.findall(text)) >= 3
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
