"""The command `borrow budget`: what was spent on a data set, and a limit for it.

Belongs here: arguments and words.  Does not belong here: the file and what adds up in it
(``estimators.accounting.budget_file``).
"""

import argparse
import os

__all__ = ["add_arguments", "run"]

EPILOG = """borrow fit --eps enters every run into FILE.budget beside its table, or into its --budget, before anything is
released. Without a limit everything is counted and nothing refused. A limit can be lowered later but not raised.
  borrow budget wards.csv.budget                       shows what was spent
  borrow budget wards.csv.budget --eps 3 --delta 1e-6  sets a limit; makes the file where there is none
A new limit with --adaptive holds too when what is asked next, at which eps, and when to stop depend on answers so far;
one with --delta is lowered before the first release only.
"""


def add_arguments(parser):
    """Add the options of `borrow budget` to `parser`."""
    parser.description = "Show what private runs have spent on a data set, or set a limit, which later runs refuse to pass."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="BUDGET", help="file that counts what is spent")
    parser.add_argument("--eps", type=float, metavar="E", help="limit of all releases together")
    parser.add_argument("--delta", type=float, metavar="D", help="delta that the limit is for (default: 0)")
    parser.add_argument("--local", action="store_true", help="of a new file: for all rows of a client, not one of them")
    parser.add_argument(
        "--adaptive", action="store_true", help="of a new file: what is released next may depend on answers so far"
    )
    parser.add_argument(
        "--data", metavar="NAME", help="the data set's name, which a new file is for (default: that of BUDGET)"
    )
    parser.add_argument("--json", action="store_true", help="print what is in the file as JSON")
    parser.set_defaults(run=run)


def run(args):
    """Make or change the file if asked to, and show it."""
    from estimators.accounting import BudgetFile
    from estimators.accounting.adaptive import best_order
    from estimators.accounting.budget import ADJACENCIES
    from figures.saving import to_json

    made = not os.path.lexists(args.file) and args.eps is not None
    if args.eps is None and args.delta is not None:
        raise ValueError("--delta is for a limit; give --eps too")
    for name in ("local", "adaptive"):
        if getattr(args, name) and not made:
            raise ValueError(f"--{name} is for a new file; give --eps too, and a BUDGET that is not there yet")
    delta = args.delta or 0.0
    if made:
        assert args.eps is not None
        name = args.data or os.path.basename(args.file).removesuffix(".budget")
        adjacency = "client" if args.local else "row"
        order = None
        if args.adaptive:
            order = best_order(eps=args.eps, delta=delta) if delta > 0 else float("inf")
        budget = BudgetFile.create(args.file, data=name, eps=args.eps, delta=delta, adjacency=adjacency, order=order)
    else:
        budget = BudgetFile(args.file, args.data)
        if args.eps is not None:
            budget.lower(eps=args.eps, delta=delta)
    entries = budget.entries
    if args.json:
        print(to_json({**budget.summary(), "entries": [entry.to_dict() for entry in entries]}, ascii_only=True), end="")
        return 0
    print(f"Budget of {budget}.", f"Protected: {ADJACENCIES[budget.adjacency]}.", sep="\n")
    for number, entry in enumerate(entries, 1):
        g = entry.guarantee
        print(f"{number:>4}  {entry.time}  {entry.what}: eps={g.eps:g}, delta={g.delta:g}, {g.mechanism}, {g.accountant}")
    return 0
