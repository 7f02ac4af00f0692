"""What can be asked of `borrow fit`: its options, and the words of its help.

Belongs here: arguments, and what one of them says by itself.  Does not belong here: which go together, and what is done
(``command``, ``fitting``).
"""

import argparse

__all__ = ["METHODS", "add_options", "eps_or_column"]


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


METHODS = ("posterior", "integrated", "bootstrap", "robust", "every-client")
"""Ways to an interval, those of ``estimators.model``, which is not loaded for a look at the options."""


def add_options(parser):
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


def eps_or_column(text):
    """Return (number, None), or (inf, the name of a column) of what --eps says; (None, None) without it."""
    if text is None:
        return None, None
    try:
        return float(text), None
    except ValueError:
        return float("inf"), text


def share(text):
    """Return ALPHA as a number strictly between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"ALPHA must lie strictly between 0 and 1, got {text!r}; a FILE goes before it")
    return value
