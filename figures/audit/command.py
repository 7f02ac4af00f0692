"""The command `borrow audit`: its options, table, exit status.

Belongs here: arguments, progress, what is said.  Does not belong here: audits, which are in ``estimators``.

Exit status 0: no claim is refuted, and every broken mechanism was caught; 1: otherwise; 2: bad input.
"""

import json
import sys

__all__ = ["add_audit"]

RUNS, OWN_RUNS = 20_000, 5_000
FOOT = "each bound is too high with probability at most 1 %; a bound below the claim proves no privacy"


def add_audit(parser):
    """Add the arguments of `borrow audit`."""
    parser.description = (
        "Run mechanisms in neighbouring worlds and prove a lower bound on their eps, beside what they claim: a line for "
        "each as soon as it is done. Without NAME: all releases, then broken ones that must be caught. A bound below the "
        "claim proves no privacy. Exit status 1: a claim is refuted, or a broken mechanism passes."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a case of --list; or your own mechanism, module:function")
    parser.add_argument("--list", action="store_true", help="list the cases and run nothing")
    parser.add_argument("--training", action="store_true", help="audit training too, by many runs and by one; minutes")
    parser.add_argument("--eps", type=float, metavar="EPS", help="what your own mechanism claims")
    parser.add_argument("--delta", type=float, default=0.0, metavar="DELTA", help="(default: %(default)s)")
    parser.add_argument("--adjacency", choices=("row", "client"), default="row", help="(default: %(default)s)")
    parser.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), default=(0.0, 1.0), help="of its rows")
    parser.add_argument("--rows", type=int, default=3, metavar="N", help="that it is given (default: %(default)s)")
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help=f"for each data set (default: {RUNS:,}, drawn together; {OWN_RUNS:,} of your own mechanism)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, and the table to stderr")
    parser.set_defaults(run=run_audit)


def run_audit(args):
    """Run the audits and print a table."""
    from tqdm import tqdm

    if args.seed < 0:
        raise ValueError(f"--seed must be at least 0, got {args.seed}")
    known = cases(args)
    if args.list:
        print(*known, sep="\n")
        return 0
    own = [name for name in args.names if ":" in name and name not in known]
    unknown = [name for name in args.names if name not in known and name not in own]
    if unknown:
        raise ValueError(f"NAME must be a case of `borrow audit --list` or module:function, got {unknown[0]!r}")
    if own and args.eps is None:
        raise ValueError("--eps must say what your own mechanism claims")
    asked = args.names or [name for name, (kind, _) in known.items() if "training" not in kind or args.training]
    rows, width, said = [], max(map(len, asked)), sys.stderr if args.json else sys.stdout
    print(head(width), file=said, flush=True)
    with tqdm(total=len(asked), unit="audit", disable=None) as bar:
        for name in asked:
            bar.set_description(name)
            kind, run = ("own", lambda name=name: own_case(name, args)) if name in own else known[name]
            case = run()
            rows.append({"case": name, "kind": kind, "refuted": case.refuted, **case.row()})
            bar.write(line(rows[-1], width), file=said)  # at once: whoever waits sees how far it is
            said.flush()
            bar.update()
    failed = [row for row in rows if row["refuted"] != row["kind"].startswith("broken")]
    print(json.dumps({"audits": rows, "failed": [row["case"] for row in failed]}, indent=1) if args.json else FOOT)
    for row in failed:
        what = "its claim is refuted" if row["refuted"] else "broken on purpose, and not caught; more --runs see more"
        print(f"borrow: {row['case']}: {what}", file=sys.stderr)
    return 1 if failed else 0


def cases(args):
    """Return every case as name: (kind, function without arguments)."""
    from functools import partial

    from estimators.federated import audit_cases as training
    from estimators.federated import one_run_cases as one_run
    from estimators.private import audit_cases as releases

    size = {"runs": RUNS if args.runs is None else args.runs, "seed": args.seed}
    found = {name: ("release", partial(case, **size)) for name, case in releases.CASES.items()}
    found |= {f"broken: {name}": ("broken", partial(case, **size)) for name, case in releases.BROKEN.items()}
    for kind, group in (("training", training.CASES), ("training", one_run.CASES), ("broken training", one_run.BROKEN)):
        said = "broken: " if kind.startswith("broken") else ""
        found |= {said + name: (kind, partial(case, seed=args.seed)) for name, case in group.items()}
    return found


def own_case(place, args):
    """Audit a function (rows, generator) of the user's."""
    from estimators.private.audit_cases import audit_release, neighbours
    from estimators.system.outside import imported

    release = imported("NAME", place)
    return audit_release(
        release,
        neighbours(tuple(args.bounds), args.rows, args.adjacency),
        eps=args.eps,
        delta=args.delta,
        adjacency=args.adjacency,
        name=place,
        runs=OWN_RUNS if args.runs is None else args.runs,
        seed=args.seed,
    )


def head(width):
    """Return the head of the table."""
    return f"{'mechanism':{width}}  {'delta':>6}  {'claimed':>7}  {'proved':>6}"


def line(row, width):
    """Return an audit as a line of the table: claimed eps, what is proved, and what follows."""
    said = "refuted" if row["refuted"] else ""
    if row["kind"].startswith("broken"):
        said = "caught" if row["refuted"] else "NOT CAUGHT"
    if "chance" in row:
        said = f"{said:8}{row['right']} of {row['guesses']} guesses right"
        said += f", chance {row['chance']:.0e} under the claim" if row["chance"] < 1 else ""
    return f"{row['case']:{width}}  {row['delta']:6g}  {row['claimed']:7.3f}  {row['proved']:6.3f}  {said}".rstrip()
