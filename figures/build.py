"""From the name of a figure to its files: compute, which checks, then draw, then write.

Belongs here: the order of these steps.  Does not belong here: data and looks of a figure (its module).
"""

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

from estimators.system.processes import worker_pool
from figures import FIGURES, check_names, load
from figures.points import FigureContradiction
from figures.saving import prepare, to_json, write_all

__all__ = ["build", "build_all"]


def check_formats(formats):
    """Raise ValueError unless every one of `formats` is known and there is one at least."""
    from figures import style

    if not formats:
        raise ValueError(f"no format is given; choose among {','.join(style.FORMATS)}")
    for form in formats:
        if form not in style.FORMATS:
            raise ValueError(f"format {form!r} is not known; choose among {','.join(style.FORMATS)}")


def build(name, out, formats=("svg", "png"), quick=False, dpi=None):
    """Build the figure `name` into the folder `out` and return the paths, NAME.json with its data last.

    `dpi` is the resolution of PNG, by default that of print.  Nothing is written, and files from before stay, unless
    everything went well.

    Raises
    ------
    ValueError
        If there is no such figure or format.
    FigureContradiction
        If a simulated point contradicts a closed form.
    OSError
        If the folder cannot be written.
    """
    from figures import style

    module = load(name)
    check_formats(formats)
    prepare(out)
    data = module.compute(quick)
    # Saving moves the layout a little: with a fresh figure for each, no format depends on the others.
    contents = {f"{name}.{form}": style.render(module.draw(data), form, name, dpi or style.DPI) for form in formats}
    contents[f"{name}.json"] = to_json({"figure": name, **data}).encode()
    return write_all(out, contents)


def build_all(names=(), out="build/figures", formats=("svg", "png"), quick=False, progress=iter, jobs=1, dpi=None):
    """Build several figures, all if `names` is empty; one that fails does not stop the others.

    Parameters
    ----------
    names : names of figures; one that does not exist is a failure of its own, unless there is no other.
    out, formats, quick, dpi : as in `build`.
    progress : wraps the sequence of names, for instance tqdm.
    jobs : how many processes build at once.  The bytes do not depend on it.

    Returns
    -------
    files : dict from name to list of paths.
    failures : dict from name to FigureContradiction, OSError (such as a missing data file) or ValueError (no such name).
    """
    wanted, failures = list(dict.fromkeys(names)) or list(FIGURES), {}
    known = [name for name in wanted if name in FIGURES]
    for name in wanted:
        if name not in FIGURES:
            try:
                check_names([name])
            except ValueError as error:
                failures[name] = error
    if not known:
        raise next(iter(failures.values()))
    check_formats(formats)
    prepare(out)  # a folder that cannot be written stops everything at once
    files = {}
    with submitter(min(jobs, len(known))) as submit:
        waiting = {name: submit(build, name, out, formats, quick, dpi) for name in known}
        for name in progress(known):
            try:
                files[name] = waiting[name].result()
            except (FigureContradiction, OSError) as error:
                failures[name] = error
    return files, failures


@contextmanager
def submitter(jobs):
    """A function that submits a call to `jobs` processes, or to this one if one is enough, where it runs when asked for.

    It returns an object whose method `result` returns what the call returns, or raises what it raises.
    """
    if jobs > 1:
        with worker_pool(jobs) as pool:
            yield pool.submit
    else:
        yield lambda function, *arguments: SimpleNamespace(result=partial(function, *arguments))
