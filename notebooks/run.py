"""Execute notebooks from clean and rewrite them without the noise of the run, or check that they still say the same.

    python notebooks/run.py [NAME...]          execute and rewrite
    python notebooks/run.py --check [NAME...]  execute with the solutions and checks that a reader does not see, compare the
                                               text of all outputs, change nothing

Belongs here: execution, normal form, comparison.  Does not belong here: what the notebooks teach, and whether their words
fit their numbers (`words.py`).

The normal form keeps what a reader sees: sources, outputs, cell ids by position.  Times, versions of the kernel, streams
cut at odd places and bytes that differ from run to run go.
"""

import argparse
import asyncio
import difflib
import os
import re
import signal
import sys
import time
from pathlib import Path

import words

from estimators.system import files
from estimators.system.processes import Terminated

HERE = Path(__file__).resolve().parent
SECONDS = 600  # a hung cell; how long a notebook may take is a matter of the tests
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
ROUNDING = re.compile(r"\b\d\.\d+e-1[0-9]\b")  # a rounding error, which differs between processors


def find(names):
    """Return the paths of the notebooks called `names` (a number, a stem or a path), or of all."""
    known = sorted(HERE.glob("[0-9][0-9]_*.ipynb"))
    if not names:
        return known
    chosen = []
    for name in names:
        fitting = [p for p in known if Path(name).stem in (p.stem, p.stem[:2])]
        if not fitting:
            raise ValueError(f"no notebook is called {name!r}; there are {', '.join(p.stem for p in known)}")
        chosen += fitting
    return chosen


def execute(notebook):
    """Execute `notebook` in a fresh kernel, in place, and return it."""
    from nbclient import NotebookClient

    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    # Interactive figures and a user's settings must not leak in; threads must not change bits.
    os.environ.update(MPLBACKEND="module://matplotlib_inline.backend_inline", OPENBLAS_NUM_THREADS="1")
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(HERE)}})
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    client.shutdown_kernel = "immediate"
    with asyncio.Runner(loop_factory=Loop) as runner:
        try:
            return runner.run(client.async_execute())
        except (Exception, asyncio.CancelledError):
            stopped_by = runner.get_loop().stopped_by
            if stopped_by:
                raise (Terminated if stopped_by == signal.SIGTERM else KeyboardInterrupt) from None
            raise


class Loop(asyncio.SelectorEventLoop):
    """An event loop that remembers the signal that stopped it: nbclient ends the kernel then and says no more."""

    stopped_by = None

    def add_signal_handler(self, sig, callback, *args):
        """Have `callback` called when a signal comes, and note that it came."""

        def noted():
            self.stopped_by = sig
            callback(*args)

        super().add_signal_handler(sig, noted)

    def call_exception_handler(self, context):
        """Leave out what goes wrong in nbclient's tasks because they were stopped, some before their kernel was there."""
        if self.stopped_by is None:
            super().call_exception_handler(context)


def with_hidden(notebook):
    """Return `notebook` with its hidden code, solutions and checks, as tagged cells after the text in which it stands."""
    from nbformat.v4 import new_code_cell

    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cells += [new_code_cell(code, metadata={"tags": [f"hidden-{kind}"]}) for kind, code in words.hidden(cell.source)]
    notebook.cells = cells
    return notebook


def without_hidden(notebook):
    """Return `notebook` without the cells that `with_hidden` has put in."""
    tags = {"hidden-solution", "hidden-check"}
    notebook.cells = [cell for cell in notebook.cells if not tags & set(cell.metadata.get("tags", ()))]
    return notebook


def normal(notebook):
    """Return `notebook` with nothing in it that depends on when and where it ran."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    number = 0
    for position, cell in enumerate(notebook.cells, 1):
        cell["id"] = f"cell-{position:02d}"
        cell.metadata = {k: v for k, v in cell.metadata.items() if k in ("tags", "jupyter")}
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.outputs = joined(cell.outputs)
        for output in cell.outputs:
            output.pop("metadata", None) if output.output_type == "stream" else output.update(metadata={})
            if output.output_type == "execute_result":
                output.execution_count = number
            if "text" in output:
                output.text = ADDRESS.sub("", output.text)
            if "text/plain" in output.get("data", {}):
                output.data["text/plain"] = ADDRESS.sub("", output.data["text/plain"])
    return notebook


def joined(outputs):
    """Return the outputs with neighbouring pieces of one stream put together."""
    whole = []
    for output in outputs:
        last = whole[-1] if whole else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            whole.append(output)
    return whole


def text_of(notebook):
    """Return the sources and the text of all outputs as lines; pictures count by being there, rounding errors alike."""
    lines = []
    for cell in notebook.cells:
        lines += [f"[{cell.id}]", *cell.source.splitlines()]
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            shown = output.get("text") or data.get("text/plain", "")
            lines += [f"-> {kind}" for kind in sorted(data) if kind.startswith("image/")]
            lines += ROUNDING.sub("(rounding)", ADDRESS.sub("", shown)).splitlines()
    return lines


def write(notebook, path):
    """Write a notebook whole or not at all."""
    import nbformat

    files.write(path, nbformat.writes(notebook, indent=1).rstrip() + "\n")


def main(arguments=None):
    """Run the command line and return its exit status: 1 if a notebook fails or says something else than before."""
    parser = argparse.ArgumentParser(description="Execute notebooks from clean.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a number, a stem or a path (default: all)")
    parser.add_argument("--check", action="store_true", help="compare with the outputs that are there; change nothing")
    options = parser.parse_args(arguments)
    try:
        paths = find(options.names)
    except ValueError as error:
        parser.error(str(error))
    import nbformat

    bad = 0
    for path in paths:
        start = time.perf_counter()
        try:
            notebook = nbformat.read(path, as_version=4)
            made = normal(without_hidden(execute(with_hidden(notebook) if options.check else notebook)))
        except KeyboardInterrupt as stop:
            print(f"stopped in {path.name}; notebooks before it are done", file=sys.stderr)
            return 143 if isinstance(stop, Terminated) else 130
        except Exception as error:  # the message of nbclient names the cell; go on with the others
            print(f"{path.name}: {error}", file=sys.stderr)
            bad += 1
            continue
        took = f"{path.name}: {time.perf_counter() - start:.0f} s"
        if options.check:
            before = text_of(nbformat.read(path, as_version=4))
            apart = list(difflib.unified_diff(before, text_of(made), "committed", "executed", lineterm="", n=1))
            print(took + (", differs from what is committed:" if apart else ""))
            wrong = words.unsupported(made)
            print(*apart[:40], *wrong, sep="\n", end="\n" if apart or wrong else "")
            bad += bool(apart or wrong)
        else:
            write(made, path)
            print(took)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
