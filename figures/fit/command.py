"""The command `borrow fit`: its options, the order of its steps, the files it writes.

Belongs here: arguments, progress, files, exit status (0 success, 1 the fit did not converge; bad input is a ValueError).
Does not belong here: reading, fitting, wording, drawing.
"""

import argparse
import hashlib
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

__all__ = ["add_arguments", "run"]

EPILOG = """columns, told apart by their names (any case; a file of yours with other names needs no editing, see below):
  client,value                 raw measurements, one row each
  client,mean,variance,n       variance of one observation; without n, of the mean itself
  client,estimate,se           estimates with their standard errors
  client,successes,trials      counts out of trials; or raw rows client,outcome with 0 and 1
  client,count,exposure        numbers of events; without exposure, all 1
  --covariates A,B             besides: numbers or words known of each client, towards whose average it is shrunk
  --target Y --features A,B    one regression per client, with --model linear or logistic
  --shared A,B --group G       besides: features that mean the same for all clients; the group that each client is in
decisions, from the posteriors of any model (also of private reports, at no cost):
  --rank                       expected ranks with intervals, and chances to be first; the table is in their order
  --discoveries [ALPHA]        clients surely above or below the centre (or --at X), at most ALPHA of them wrongly
  --check                      whether the clients' estimates go with the prior that was learnt
privacy, of raw rows and of counts out of trials:
  --eps 1 --bounds 0 30        each client sends a noisy report; one row is protected, with --local all rows of a client
  --eps budget --bounds 0 30   each client has its own budget, in the column `budget` of your file
  --eps 1 --bounds 0 30 --central                     you see all rows and release the centre and the spread alone
  --eps 4 --delta 1e-6 --norm 5 --target Y --features A,B    what regressions have in common, from noisy sums
models: normal (the default for measurements; for raw ones sample-means, with a variance for each client), point-normal,
  mixture, points, npmle; beta-binomial, npmle for counts out of trials; gamma-poisson, npmle for events; with --covariates
  beta-binomial-regression and gamma-poisson-regression; linear, logistic.
"""

SHARED = ("prior", "mu", "tau2")
"""Arguments of several models that have an option of their own."""

METHODS = ("posterior", "integrated", "bootstrap", "robust", "every-client")
"""Ways to an interval, those of ``estimators.model``, which is not loaded for a look at the options."""

PRIVATE = ("eps", "delta", "bounds", "sigma2", "budget", "data", "norm")
"""Options of private fits by their names in ``estimators.private``."""

PICTURES = {form: f"shrinkage.{form}" for form in ("svg", "png")}
RANKS = {form: f"ranks.{form}" for form in ("svg", "png")}
PRIOR = "prior.json"
OUTPUTS = {"estimates.csv", PRIOR, *PICTURES.values(), *RANKS.values()}
"""All that this command writes into a folder for readers."""

MEASURED = ("value", "mean", "estimate", "successes", "outcome", "count", "target")
"""Columns that name what is measured."""

MARK = ".fit"
"""Beside them: which file they are of."""


def add_arguments(parser):
    """Add the options of `borrow fit` to `parser`."""
    from estimators.tables.client_table import ROLES

    parser.description = "Fit empirical Bayes to the clients in a CSV or Parquet file, and say what was borrowed from whom."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("file", nargs="?", metavar="FILE", help="CSV file, or Parquet (.parquet, needs pyarrow)")
    parser.add_argument("--example", action="store_true", help="fit the batting averages of Efron and Morris instead")
    parser.add_argument("--model", default="auto", metavar="NAME", help="see below (default: by the columns)")
    parser.add_argument("--prior", metavar="HOW", help="how the prior is learnt, as the model's `prior` (default: its own)")
    parser.add_argument("--mu", type=float, metavar="X", help="centre of the clients, if known")
    parser.add_argument("--tau2", type=float, metavar="Y", help="variance between clients, for --prior fixed")
    parser.add_argument(
        "--with", dest="options", action="append", default=[], metavar="NAME=VALUE", help="any other option of the model"
    )
    parser.add_argument("--level", type=float, default=0.95, metavar="P", help="probability of intervals (default: 0.95)")
    parser.add_argument(
        "--interval",
        metavar="METHOD",
        choices=METHODS,
        help="posterior, integrated or bootstrap (mixtures), robust (holds on average whatever law the values have) or "
        "every-client (holds for each client by itself; both for measurements); default: the model's own",
    )
    parser.add_argument("--rank", action="store_true", help="rank the clients, 1 for the largest true value")
    parser.add_argument("--smallest-first", action="store_true", help="with --rank: 1 for the smallest true value")
    parser.add_argument(
        "--discoveries",
        nargs="?",
        type=share,
        const=0.05,
        metavar="ALPHA",
        help="name the clients that are above or below the centre, of whom a share ALPHA may be wrong (default: 0.05)",
    )
    parser.add_argument("--at", type=float, metavar="X", help="with --discoveries: compare with X instead of the centre")
    parser.add_argument("--check", action="store_true", help="check the learnt prior against the clients' estimates")
    parser.add_argument("--seed", type=int, metavar="N", help="for models that draw; with --eps for experiments only")
    parser.add_argument("--out", metavar="DIR", help="output folder (default: in build/fit, one for every FILE)")
    parser.add_argument("--json", action="store_true", help="print the fit as JSON")
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    columns = parser.add_argument_group(
        "columns of your file, where they have other names", ", ".join(f"--{role} COL" for role in ROLES)
    )
    for role in ROLES:
        columns.add_argument(f"--{role}", metavar="COL", help=argparse.SUPPRESS)
    columns.add_argument("--covariates", metavar="COL,COL", help="what is known of clients beforehand, by which they differ")
    columns.add_argument("--target", metavar="COL", help="what a regression predicts")
    columns.add_argument("--features", metavar="COL,COL", help="what it predicts from")
    columns.add_argument("--shared", metavar="COL,COL", help="features whose coefficients are the same for all clients")
    columns.add_argument("--group", metavar="COL", help="groups of clients, as schools of classes, which differ, too")
    columns.add_argument("--no-intercept", action="store_true", help="leave out the column of ones")
    private = parser.add_argument_group("privacy: each client turns raw rows into a noisy report, and only reports are used")
    private.add_argument(
        "--eps", metavar="E", help="budget of each client: a number, or a column with one for each client, which is public"
    )
    private.add_argument("--delta", type=float, metavar="D", help="(default: 0)")
    private.add_argument("--bounds", type=float, nargs=2, metavar=("LOW", "HIGH"), help="to which values are clipped")
    private.add_argument("--local", action="store_true", help="protect all rows of a client together, not one of them")
    private.add_argument(
        "--central",
        action="store_true",
        help="you are trusted with all rows: only the centre and the spread of the clients are released, with noise added "
        "once, and a whole client is protected",
    )
    private.add_argument(
        "--norm", type=float, metavar="R", help="for regressions: longest that a row (features and target) may be"
    )
    private.add_argument("--sigma2", type=float, metavar="V", help="variance of one row, if known (else it is reported too)")
    private.add_argument(
        "--budget", metavar="BUDGET", help="file that counts what is spent (default: FILE.budget, made if need be)"
    )
    private.add_argument("--data", metavar="NAME", help="name of the data set in it (default: that of FILE)")
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


def eps_or_column(text):
    """Return (number, None), or (inf, the name of a column) of what --eps says; (None, None) without it."""
    if text is None:
        return None, None
    try:
        return float(text), None
    except ValueError:
        return float("inf"), text


def own_budgets(table, column):
    """Return the table without the column of budgets, and these by clients; a cell is never told."""
    from dataclasses import replace

    names, values = table.covariates.names, table.covariates.values
    if len(names) != 1 or names[0] != column.strip().lower():
        raise ValueError(f"--eps {column}: the column must hold numbers > 0")
    return replace(table, covariates=None), dict(zip(table.clients, values[:, 0].tolist(), strict=True))


def released(args, made, warned):
    """Print a prior that was released, and write it."""
    from figures.fit.report import prior_report
    from figures.saving import to_json

    made.notes.extend(dict.fromkeys(warned))
    paths = write_outputs(args, {PRIOR: to_json(made.summary()).encode()})
    show(args, made.summary(), prior_report(made), paths)
    return 0 if made.converged else 1


def write_outputs(args, contents):
    """Write files into the folder of the fit, remove what an earlier fit left there, and return the paths of both."""
    from figures.saving import prepare, write_all

    folder = prepare(args.out or default_folder(args.file))
    mark = own_folder(folder, args.file, chosen=args.out is not None)
    files = write_all(folder, {**contents, MARK: mark.encode()})[:-1]
    return {"files": files, "removed": remove(folder / name for name in OUTPUTS - contents.keys())}


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


def share(text):
    """Return ALPHA as a number strictly between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"ALPHA must lie strictly between 0 and 1, got {text!r}; a FILE goes before it")
    return value


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


def steps():
    """Return a progress line on stderr, quiet unless that is a terminal: a function that is told the current step."""
    from contextlib import contextmanager

    from tqdm import tqdm

    @contextmanager
    def line():
        with tqdm(bar_format="{desc} ({elapsed})", disable=None, leave=False) as bar:
            yield bar.set_description_str

    return line()


def fit(args, table):
    """Return the `Outcome` for `table`."""
    from numpy.linalg import LinAlgError

    from estimators.fit.models import arguments, build, choose
    from estimators.fit.outcome import Outcome, own_estimates

    options = model_options(args)
    if args.eps is not None:
        return private_fit(args, table, options)
    for flag in ("delta", "bounds", "local", "sigma2", "budget", "data", "central", "norm"):
        given = getattr(args, flag)
        if given is not None and given is not False:  # 0 is given
            raise ValueError(f"--{flag} is for private fits; give --eps too")
    kind = choose(args.model, table)
    if args.shared is not None:
        if "shared" in options:
            raise ValueError("shared is given twice, by --shared and by --with; give it once")
        options["shared"] = places(args.shared, table.features)
    model = build(kind, options, args.seed)
    if args.seed is not None and "seed" not in model.get_params() and not (args.rank or args.check):
        warnings.warn(f"--seed changes nothing: the model {kind.name} draws no random numbers", stacklevel=1)
    try:
        model.fit(*arguments(kind, table))
    except (ArithmeticError, LinAlgError) as error:
        raise ValueError(
            f"the model {kind.name} breaks down on these numbers ({error}); change the units or take another --model"
        ) from None
    except ValueError as error:
        raise ValueError(wording(args, table, model)(error)) from None
    except TypeError as error:
        if not args.options:
            raise
        raise ValueError(f"--with {' '.join(args.options)}: not values for the model {kind.name} ({error})") from None
    own, error, n = own_estimates(table, model, kind)
    coefficients = table.features if table.data == "regression" else ()
    covariates = getattr(table, "covariates", None)
    names = () if covariates is None else covariates.names
    try:
        return Outcome.of(
            kind, model, table.clients, own, error, n, args.level, coefficients, args.interval, covariates=names,
            grouped=args.group or "",
        )  # fmt: skip
    except ValueError as error:
        if args.interval is None:
            raise
        why = str(error).replace("; leave out method", "; leave it out")
        raise ValueError(f"--interval {args.interval}: {why}") from None


def places(names, features):
    """Return the positions of the features called `names`, which commas part."""
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in features:
            raise ValueError(f"--shared names {name!r}, which is no feature; those are {', '.join(features)}")
    return [features.index(name) for name in wanted]


def model_options(args):
    """Return the arguments of the model that were given, each once."""
    from estimators.fit.models import parse_options

    names = [*SHARED, *(["sigma2"] if args.eps is not None else [])]
    options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    for text in args.options:
        for name, value in parse_options([text]).items():
            if name in options or (name == "seed" and args.seed is not None):
                raise ValueError(f"{name} is given twice, the second time by --with {text}; give it once")
            options[name] = value
    return options


def wording(args, table, model):
    """Return a function from what `model` says to what to tell who typed the command."""
    from figures.fit.wording import in_flags

    private = () if args.eps is None else PRIVATE
    known, covariates = list(model.get_params()), getattr(table, "covariates", None)
    flags = [*private, *(name for name in known if name in (*SHARED, "seed") and name not in private)]
    names = getattr(table, "features", ()) if covariates is None else covariates.names
    return lambda message: in_flags(str(message), flags, [name for name in known if name not in flags], table.data, names)


def private_fit(args, table, options):
    """Return the `Outcome` of the private way."""
    import numpy as np

    from estimators.accounting import BudgetError
    from estimators.fit.private import model_for, private_outcome

    if args.covariates is not None:
        raise ValueError("--covariates has no private version here; leave it out")
    if args.model != "auto":
        raise ValueError(f"--model {args.model} has no private version here; leave out --model")
    if args.interval not in (None, "posterior"):
        raise ValueError(f"--interval {args.interval} has no private version here; leave it out")
    if args.seed is not None:
        if args.budget is not None:
            raise ValueError("--seed makes the noise predictable, so no --budget can account for it; leave out one of them")
        print("borrow: --seed makes the noise predictable: for experiments only, it is no privacy", file=sys.stderr)
    if args.bounds is not None and not args.bounds[0] < args.bounds[1]:
        raise ValueError(f"--bounds must be two numbers, the smaller one first, got {args.bounds[0]:g} {args.bounds[1]:g}")
    generator = None if args.seed is None else np.random.default_rng(args.seed)
    charging = None if args.seed is not None else lambda guarantee: charge(args, guarantee)
    if args.central or table.data == "regression":
        return private_prior(args, table, options, generator, charging)
    if args.norm is not None:
        raise ValueError("--norm is for private regressions; give --target and --features too")
    kind, model = model_for(table, options, args.bounds)
    try:
        return private_outcome(
            table,
            kind,
            model,
            eps=args.eps,
            delta=args.delta or 0.0,
            bounds=args.bounds and tuple(args.bounds),
            local=args.local,
            level=args.level,
            generator=generator,
            charge=charging,
        )
    except BudgetError:
        raise
    except ValueError as error:
        raise ValueError(wording(args, table, model)(error)) from None


def private_prior(args, table, options, generator, charging):
    """Return the `Released` prior of a trusted curator, or of private regressions."""
    from estimators.accounting import BudgetError
    from estimators.fit.released import central, regression
    from figures.fit.wording import in_flags

    if args.rank or args.check or args.discoveries is not None:
        raise ValueError("--rank, --discoveries and --check need a number about each client, and none is released here")
    if args.local:
        why = "--central trusts you with all rows" if args.central else "a regression protects one row of a client"
        raise ValueError(f"{why}; leave out --local")
    unknown = [name for name in options if name != "sigma2"]
    if unknown:
        raise ValueError(f"--with {unknown[0]} (or --{unknown[0]}) has no private version here; leave it out")
    common = {"eps": args.eps, "delta": args.delta or 0.0, "sigma2": args.sigma2, "generator": generator, "charge": charging}
    try:
        if args.central:
            if table.data == "regression" or args.norm is not None:
                raise ValueError("--central is for measurements and counts; regressions send reports, leave it out")
            return central(table, bounds=args.bounds and tuple(args.bounds), **common)
        if args.group is not None or args.shared is not None:
            raise ValueError("--group and --shared have no private version here; leave them out")
        if args.bounds is not None or args.norm is None:
            raise ValueError("--norm R must be given for a private regression instead of --bounds: the longest that a row "
                             "of features and target may be, known without the data")  # fmt: skip
        if not common["delta"] > 0:
            raise ValueError("--delta must be given for a private regression, whose noise is Gaussian; 1e-6 is common")
        return regression(table, norm=args.norm, **common)
    except BudgetError:
        raise
    except ValueError as error:
        raise ValueError(in_flags(str(error), PRIVATE, [], table.data)) from None


def charge(args, guarantee):
    """Enter what all reports cost together into the budget of the data set, and return that budget."""
    from estimators.accounting import BudgetFile

    path = args.budget
    if path is None:
        if not Path(args.file).is_file():
            raise ValueError(f"{args.file} is read only once, so its budget has no place; give --budget")
        path = f"{args.file}.budget"
    name = args.data or Path(args.file).name
    try:
        if args.budget is None and not os.path.lexists(path):
            with suppress(FileExistsError):  # of another run, which is as early
                BudgetFile.create(path, data=name, delta=guarantee.delta, adjacency=guarantee.adjacency)
        budget = BudgetFile(path, name)
        budget.spend(guarantee, "borrow fit")
    except PermissionError:
        raise ValueError(f"{path} cannot be written; give --budget, a file that is kept as safe as the data") from None
    return budget


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
