"""The command `borrow figures`, and the names of those that have their own packages.

Belongs here: arguments, text output and exit status.  Does not belong here: computing, drawing.  Imports that
cost time happen inside the functions, because the console script loads this module for every command.

A `run` function returns the exit status, or raises ValueError or OSError with a message for the user.
"""

import json
import sys

__all__ = ["COMMANDS", "add_figures"]


COMMANDS = {
    "figures": ("compute, check and draw the theory figures", "figures.commands:add_figures"),
    "report": ("write a browsable site of all claims", "figures.report.command:add_report"),
    "fit": ("improve every client's estimate by borrowing from the others", "figures.fit.command:add_arguments"),
    "budget": ("show what was spent on a data set, or set a limit", "figures.fit.budget:add_arguments"),
    "learn": ("run the learning experiments of the papers", "figures.learn.command:add_learn"),
    "audit": ("prove lower bounds on the eps of mechanisms beside their claims", "figures.audit.command:add_audit"),
}
"""Each command's help, and the function that adds its arguments."""


def add_figures(parser):
    """Add the arguments of `borrow figures`."""
    from figures import FIGURES

    parser.description = (
        "Compute, check and draw figures. Exit status 1: a simulation contradicts a closed form; "
        "2: a figure could not be built; the others are."
    )
    parser.epilog = f"figures: {', '.join(FIGURES)}"
    parser.add_argument("names", nargs="*", metavar="NAME", help="a figure (default: all)")
    parser.add_argument("--out", default="build/figures", metavar="DIR", help="output folder (default: %(default)s)")
    parser.add_argument("--format", default="svg,png", help="of svg, png, pdf, separated by commas (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="ten times fewer replicates")
    parser.add_argument("--dpi", type=int, default=300, metavar="N", help="resolution of png, below 300 with 256 colours")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the list of files as JSON")
    parser.set_defaults(run=run_figures)


def run_figures(args):
    """Build the figures and list their files."""
    from tqdm import tqdm

    from figures import load
    from figures.build import build_all
    from figures.points import FigureContradiction

    for option, low, high in (("dpi", 20, 2400), ("jobs", 1, 256)):
        if not low <= getattr(args, option) <= high:
            raise ValueError(f"--{option} must lie in {low}..{high}, got {getattr(args, option)}")
    formats = tuple(dict.fromkeys(filter(None, args.format.split(","))))
    # `disable=None` keeps tqdm quiet unless stderr is a terminal.
    files, failures = build_all(
        args.names,
        args.out,
        formats,
        args.quick,
        progress=lambda names: tqdm(names, unit="figure", disable=None),
        jobs=args.jobs,
        dpi=args.dpi,
    )
    contradictions = {name: error for name, error in failures.items() if isinstance(error, FigureContradiction)}
    errors = {name: error for name, error in failures.items() if name not in contradictions}
    if args.json:
        built = [
            {"figure": name, "claims": list(load(name).CLAIMS), "files": [str(path) for path in paths]}
            for name, paths in files.items()
        ]
        kinds = {
            kind: [{"figure": name, "message": str(error)} for name, error in found.items()]
            for kind, found in (("contradictions", contradictions), ("errors", errors))
        }
        print(json.dumps({"figures": built, **kinds}, indent=1))
    else:
        for paths in files.values():
            print(*paths, sep="\n")
    for error in contradictions.values():
        print(f"borrow: contradiction: {error}", file=sys.stderr)
    for name, error in errors.items():
        print(f"borrow: {name} is not built: {error}", file=sys.stderr)
    return 1 if contradictions else 2 if errors else 0
