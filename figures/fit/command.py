"""The command `borrow fit`: the order of its steps.

Belongs here: progress, what is shown, exit status (0 success, 1 the fit did not converge; bad input is a ValueError).
Does not belong here: arguments (``options``), the fit (``fitting``), where files go (``folder``), reading, wording, drawing.
"""

import warnings
from math import isfinite
from pathlib import Path

from figures.fit.fitting import fit, own_budgets, wording
from figures.fit.folder import PICTURES, PRIOR, RANKS, write_outputs
from figures.fit.options import add_options, eps_or_column

__all__ = ["add_arguments", "run"]


MEASURED = ("value", "mean", "estimate", "successes", "outcome", "count", "target")
"""Columns that name what is measured."""


def add_arguments(parser):
    """Add the options of `borrow fit` to `parser`."""
    add_options(parser)
    parser.set_defaults(run=run)


def run(args):
    """Read, fit, print, and write estimates.csv and the pictures."""
    from estimators.fit.outcome import to_csv
    from estimators.fit.released import Released
    from estimators.tables.client_table import ROLES, read_client_table
    from figures.fit.report import report

    if args.example == (args.file is not None):
        raise ValueError("give one table: a FILE, or --example for the batting averages of Efron and Morris")
    if not 0 < args.level < 1:
        raise ValueError(f"--level must lie strictly between 0 and 1, got {args.level:g}")
    name = "efron_morris" if args.example else Path(args.file).stem
    columns = {role: getattr(args, role) for role in ROLES if getattr(args, role) is not None}
    features = None if args.features is None else [feature for feature in args.features.split(",") if feature.strip()]
    covariates = None if args.covariates is None else [name for name in args.covariates.split(",") if name.strip()]
    if covariates == []:
        raise ValueError("--covariates must name columns, as in --covariates COLUMN,COLUMN")
    if args.smallest_first and not args.rank:
        raise ValueError("--smallest-first is for ranks; give --rank too")
    if args.at is not None and args.discoveries is None:
        raise ValueError("--at is for discoveries; give --discoveries too")
    if args.at is not None and not isfinite(args.at):
        raise ValueError(f"--at must be a finite number, got {args.at}")
    if args.seed is not None and args.seed < 0:
        raise ValueError(f"--seed must be a whole number >= 0, got {args.seed}")
    args.eps, eps_column = eps_or_column(args.eps)
    if eps_column is not None:
        if covariates is not None:
            raise ValueError("--covariates has no private version here; leave it out")
        if args.target is not None or args.central:
            raise ValueError("--eps COLUMN is for reports of means and counts; give one number")
        covariates = [eps_column]
    for flag in ("no_intercept", "shared", "group"):
        if getattr(args, flag) and args.target is None:
            raise ValueError(f"--{flag.replace('_', '-')} is for regressions; give --target and --features too")
    with steps() as step:
        with warnings.catch_warnings(record=True) as caught:  # said in the report, as notes
            warnings.simplefilter("always")

            def read():
                return read_client_table(
                    example_lines() if args.example else args.file,
                    columns,
                    args.target,
                    features,
                    not args.no_intercept,
                    lambda rows: step(f"reading, {rows} rows"),
                    covariates,
                    args.group,
                )

            try:
                table = read() if args.eps is None else read_untold(read, args.file)
            except ValueError as error:
                if eps_column is None:
                    raise
                wanted = f"--eps {eps_column} must name a column with one number for each client, the same in all its rows"
                raise ValueError(f"{error}; {wanted}") from None
            if eps_column is not None:
                table, args.eps = own_budgets(table, eps_column)
            step("fitting")
            made = fit(args, table)
            if isinstance(made, Released):
                return released(args, made, [str(warning.message) for warning in caught])
            outcome = decided(args, made, step)
        words = wording(args, table, outcome.model)
        outcome.notes.extend(dict.fromkeys(words(warning.message) for warning in caught))
        step("writing")
        contents = {"estimates.csv": to_csv(outcome)}
        if not args.no_plot:
            step("drawing")
            contents |= pictures(outcome, name, example_truth() if args.example and args.eps is None else None)
        paths = write_outputs(args, contents)
    shown = [report(outcome), example_outcome(outcome)] if args.example and args.eps is None else [report(outcome)]
    show(args, {**outcome.summary(), "clients": outcome.rows()}, "\n".join(shown), paths)
    return 0 if outcome.model.converged_ else 1


def released(args, made, warned):
    """Print a prior that was released, and write it."""
    from figures.fit.report import prior_report
    from figures.saving import to_json

    made.notes.extend(dict.fromkeys(warned))
    paths = write_outputs(args, {PRIOR: to_json(made.summary()).encode()})
    show(args, made.summary(), prior_report(made), paths)
    return 0 if made.converged else 1


def show(args, summary, text, paths):
    """Print what was found, as JSON or as text, and where it was written."""
    from figures.saving import to_json

    if args.json:
        named = {what: [str(path) for path in found] for what, found in paths.items()}
        print(to_json({**summary, **named}, ascii_only=True), end="")
        return
    print(text)
    print("written:", *paths["files"])
    if paths["removed"]:
        print("removed, because an earlier fit made them:", *paths["removed"])


def decided(args, outcome, step):
    """Return the outcome with the decisions that were asked for."""
    if not (args.rank or args.check or args.discoveries is not None):
        return outcome
    named = next((getattr(args, role) for role in MEASURED if getattr(args, role) is not None), "")
    from dataclasses import replace

    step("deciding")
    if args.rank and len(outcome.clients) < 2:
        raise ValueError("--rank needs at least two clients, and there is one")
    if args.check and outcome.coefficients:
        raise ValueError("--check needs one number per client, which regressions have not; leave it out")
    return replace(outcome, measured=named).decided(
        rank=args.rank, largest_first=not args.smallest_first, alpha=args.discoveries, at=args.at, check=args.check,
        seed=args.seed if args.seed is not None and args.eps is None else 0,
    )  # fmt: skip


def steps():
    """Return a progress line on stderr, quiet unless that is a terminal: a function that is told the current step."""
    from contextlib import contextmanager

    from tqdm import tqdm

    @contextmanager
    def line():
        with tqdm(bar_format="{desc} ({elapsed})", disable=None, leave=False) as bar:
            yield bar.set_description_str

    return line()


def pictures(outcome, name, truth=None):
    """Return the pictures of the outcome as {file name: bytes}, with the guarantee of private ones in each."""
    from figures import league, shrinkage, style

    promises = dict.fromkeys(outcome.promises()) if outcome.privacy else {}
    promise = "; ".join(promises) if len(promises) <= 2 else f"{len(promises)} different guarantees"

    def rendered(picture, title, kinds):
        return {
            file: style.render(style.footed(picture(), promise), form, f"{title}: {promise}" if promise else title)
            for form, file in kinds.items()
        }

    found = rendered(lambda: shrinkage.picture(outcome, truth), f"shrinkage of {name}", PICTURES)
    if outcome.ranks is not None and not outcome.coefficients:
        found |= rendered(lambda: league.picture(outcome), f"ranks of {name}", RANKS)
    return found


def read_untold(read, source):
    """Return the table of a private run, whose errors show no cell."""
    from estimators.fit.private import untold

    return untold(read, source or "the example")


def example_lines():
    """Return the table of Efron and Morris as the lines of a CSV file.

    The variance of one at-bat is binomial at the mean of all players.
    """
    from estimators.tables.datasets import efron_morris

    data = efron_morris()
    average = float(data.hits.sum() / data.at_bats.sum())
    means = (data.hits / data.at_bats).tolist()
    rows = zip(data.clients, means, data.at_bats.tolist(), strict=True)
    return [
        "client,mean,variance,n",
        *(f"{client},{mean},{average * (1 - average)},{at_bats}" for client, mean, at_bats in rows),
    ]


def example_truth():
    """Return what the players did in the rest of the season, with its name."""
    from estimators.tables.datasets import efron_morris

    return "rest of the season", efron_morris().average_rest


def example_outcome(outcome):
    """Return how far both estimates were from what the players did in the rest of the season."""
    _, truth = example_truth()
    before, after = ((outcome.own - truth) ** 2).sum(), ((outcome.mean - truth) ** 2).sum()
    nearer = int((abs(outcome.mean - truth) < abs(outcome.own - truth)).sum())
    return (
        f"Against the rest of the season the total squared error was {before:.4f} before, {after:.4f} after; "
        f"{nearer} of {len(truth)} estimates came nearer."
    )
