"""The command `borrow report`.

Belongs here: arguments, messages, exit status.  Does not belong here: the pages (``site``).
"""

__all__ = ["add_report"]


def add_report(parser):
    """Add the arguments of `borrow report`."""
    parser.description = (
        "Write a static site of all claims: it opens from disk and needs no network. "
        "It shows the evidence of `borrow verify`, which must be up to date."
    )
    parser.add_argument("--out", default="build/report", metavar="DIR", help="output folder (default: %(default)s)")
    parser.add_argument("--ledger", metavar="FILE", help="evidence (default: that of `borrow verify`)")
    parser.add_argument("--figures", default="build/figures", metavar="DIR",
                        help="figures to show, if there are any (default: %(default)s)")  # fmt: skip
    parser.add_argument("--jobs", type=int, metavar="N", help="worker processes (default: one per core)")
    parser.set_defaults(run=run_report)


def run_report(args):
    """Write the site and say where it is."""
    from tqdm import tqdm

    from figures.report.site import build

    if args.jobs is not None and args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {args.jobs}")

    def progress(items):
        return tqdm(items, total=getattr(items, "__len__", lambda: None)(), unit="claim", disable=None)

    print(build(args.out, ledger=args.ledger, figures=args.figures, jobs=args.jobs, progress=progress))
    return 0
