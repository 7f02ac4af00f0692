"""From the name of a figure to its files: compute, which checks, then draw, then write.

Belongs here: the order of these steps.  Does not belong here: data and looks of a figure (its module).
"""

from figures import FIGURES, check_names, load
from figures.points import FigureContradiction
from figures.saving import prepare, to_json, write_all

__all__ = ["build", "build_all"]


def build(name, out, formats=("svg", "png"), quick=False):
    """Build the figure `name` into the folder `out` and return the paths, NAME.json with its data last.

    Nothing is written, and files from before stay, unless everything went well.

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
    if not formats:
        raise ValueError(f"no format is given; choose among {','.join(style.FORMATS)}")
    for form in formats:
        if form not in style.FORMATS:
            raise ValueError(f"format {form!r} is not known; choose among {','.join(style.FORMATS)}")
    prepare(out)
    data = module.compute(quick)
    # Saving moves the layout a little: with a fresh figure for each, no format depends on the others.
    contents = {f"{name}.{form}": style.render(module.draw(data), form, name) for form in formats}
    contents[f"{name}.json"] = to_json({"figure": name, **data}).encode()
    return write_all(out, contents)


def build_all(names=(), out="build/figures", formats=("svg", "png"), quick=False, progress=iter):
    """Build several figures, all if `names` is empty; one that contradicts itself does not stop the others.

    `progress` wraps the sequence of names, for instance tqdm.

    Returns
    -------
    files : dict from name to list of paths.
    contradictions : dict from name to FigureContradiction.
    """
    check_names(names)
    files, contradictions = {}, {}
    for name in progress(list(dict.fromkeys(names)) or list(FIGURES)):
        try:
            files[name] = build(name, out, formats, quick)
        except FigureContradiction as contradiction:
            contradictions[name] = contradiction
    return files, contradictions
