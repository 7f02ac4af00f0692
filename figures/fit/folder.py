"""The folder of a fit: where it is, whose it is, and what an earlier fit left there.

Belongs here: names and files.  Does not belong here: what is written into them (``command``).
"""

import hashlib
import os
from pathlib import Path

__all__ = ["PICTURES", "PRIOR", "RANKS", "ready", "write_outputs"]


PICTURES = {form: f"shrinkage.{form}" for form in ("svg", "png")}


RANKS = {form: f"ranks.{form}" for form in ("svg", "png")}


PRIOR = "prior.json"


OUTPUTS = {"estimates.csv", PRIOR, *PICTURES.values(), *RANKS.values()}
"""All that this command writes into a folder for readers."""


MARK = ".fit"
"""Beside them: which file they are of."""


def write_outputs(args, contents):
    """Write files into the folder of the fit, remove what an earlier fit left there, and return the paths of both."""
    from figures.saving import write_all

    folder, mark = ready(args)
    files = write_all(folder, {**contents, MARK: mark.encode()})[:-1]
    return {"files": files, "removed": remove(folder / name for name in OUTPUTS - contents.keys())}


def ready(args):
    """Make the folder of the fit, and return it with its mark; an error if it cannot be written, or is of another file."""
    from figures.saving import prepare

    folder = prepare(args.out or default_folder(args.file))
    return folder, own_folder(folder, args.file, chosen=args.out is not None)


def default_folder(file):
    """Return the output folder for `file`, or for the example (None): never that of another file.

    A CSV file in the working folder or below has its place there, all others a folder with a hash of where they are.
    """
    if file is None:
        return Path("build", "fit", "example", "efron_morris")
    path = Path(os.path.abspath(file))
    if path.suffix == ".csv" and path.is_relative_to(Path.cwd()):
        return Path("build", "fit", path.relative_to(Path.cwd()).with_suffix(""))
    return Path("build", "fit", f"{path.stem}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}")


def own_folder(folder, file, chosen=True):
    """Return what tells the outputs of `file` from others: its name, and a hash of where it is, seen from the folder.

    A folder that nobody chose is this file's by its name: what lies there without a mark is of an earlier version.

    Raises
    ------
    ValueError
        If there are outputs of another file, which would be lost, or some that no fit has marked.
    """
    name, place = ("the example", "") if file is None else (Path(file).name, os.path.relpath(file, folder))
    mark = f"{name}\n{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}\n"
    there = sorted(path for path in OUTPUTS if (folder / path).exists())
    if there:
        try:
            before = (folder / MARK).read_text(encoding="utf-8")
        except FileNotFoundError:
            if not chosen:
                return mark
            raise ValueError(
                f"{folder} holds {there[0]}, which is of no fit that is known; move it, or give another --out"
            ) from None
        if before != mark:
            whose = before.partition("\n")[0]
            where = " elsewhere" if whose == name else ""
            raise ValueError(f"{folder} holds the fit of {whose}{where}; give another --out, or remove that folder")
    return mark


def remove(paths):
    """Remove those of `paths` that exist and return them: files of an earlier fit, perhaps of raw data, are not of this."""
    removed = []
    for path in sorted(paths):
        if path.is_file():
            path.unlink()
            removed.append(path)
    return removed
