"""From the options of `borrow fit` and a table to what came out: the model they ask for, fitted, in private too.

Belongs here: which options go together, the budget that is charged, and errors in the words of who typed them.  Does not
belong here: the models (``estimators.fit``), reading, files and pictures (``command``).
"""

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path

__all__ = ["fit", "own_budgets", "wording"]


SHARED = ("prior", "mu", "tau2")
"""Arguments of several models that have an option of their own."""


PRIVATE = ("eps", "delta", "bounds", "sigma2", "budget", "data", "norm")
"""Options of private fits by their names in ``estimators.private``."""


def own_budgets(table, column):
    """Return the table without the column of budgets, and these by clients; a cell is never told."""
    from dataclasses import replace

    names, values = table.covariates.names, table.covariates.values
    if len(names) != 1 or names[0] != column.strip().lower():
        raise ValueError(f"--eps {column}: the column must hold numbers > 0")
    return replace(table, covariates=None), dict(zip(table.clients, values[:, 0].tolist(), strict=True))


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
    """Enter what all reports cost together into the budget of the data set, and return that budget.

    Before that it sees to the folder of the fit: what cannot be written would be paid for and lost.
    """
    from estimators.accounting import BudgetFile
    from figures.fit.folder import ready

    ready(args)
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
