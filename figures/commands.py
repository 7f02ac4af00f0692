"""The commands `borrow figures` and `borrow fit`.

Belongs here: arguments, text output and exit status.  Does not belong here: fitting, drawing.  Imports that
cost time happen inside the functions, because the console script loads this module for every command.

A `run` function returns the exit status, or raises ValueError or OSError with a message for the user.
"""

import csv
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["add_figures", "add_fit"]

SHOWN = 40
"""Most clients printed; the file has all of them."""


def add_figures(commands):
    """Add the parser of `borrow figures` to the sub-parsers `commands`."""
    from figures import FIGURES

    parser = commands.add_parser(
        "figures",
        help="compute, check and draw the theory figures",
        description="Compute, check and draw figures. Exit status 1: a simulation contradicts a closed form; "
        "2: a figure could not be built; the others are.",
        epilog=f"figures: {', '.join(FIGURES)}",
    )
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


def add_fit(commands):
    """Add the parser of `borrow fit` to the sub-parsers `commands`."""
    parser = commands.add_parser(
        "fit",
        help="improve every client's estimate by borrowing from the others",
        description="Fit empirical Bayes to a CSV file with columns client,value (one row per observation) "
        "or client,mean,variance[,n] (variance of one observation; without n, of the mean).",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="CSV file")
    parser.add_argument("--example", action="store_true", help="fit the batting averages of Efron and Morris instead")
    parser.add_argument("--out", metavar="DIR", help="output folder (default: build/fit/NAME of the file)")
    parser.add_argument(
        "--prior",
        default="marginal-likelihood",
        choices=("marginal-likelihood", "moments", "reml", "fixed"),
        help="how the spread of the clients is found (default: %(default)s)",
    )
    parser.add_argument("--mu", type=float, metavar="X", help="centre of the clients, if known")
    parser.add_argument("--tau2", type=float, metavar="Y", help="variance between clients, for --prior fixed")
    parser.add_argument("--json", action="store_true", help="print the fit as JSON")
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    parser.set_defaults(run=run_fit)


def run_fit(args):
    """Fit, print and write estimates.csv and the pictures."""
    from estimators.client_table import read_client_table
    from figures.saving import prepare, to_json, write_all

    if args.example == (args.file is not None):
        raise ValueError("give one table: a FILE, or --example for the batting averages of Efron and Morris")
    name = "efron_morris" if args.example else Path(args.file).stem
    table = read_client_table(example_lines() if args.example else args.file)
    fit = Fit.of(table, args.prior, args.mu, args.tau2)
    folder = prepare(args.out or Path("build", "fit", name))
    contents = {"estimates.csv": to_csv(fit)}
    if not args.no_plot:
        from figures import shrinkage, style

        for form in ("svg", "png"):
            figure = shrinkage.draw(fit.clients, fit.estimate, fit.model.posterior_mean_, fit.low, fit.high, fit.model.mu_)
            contents[f"shrinkage.{form}"] = style.render(figure, form, f"shrinkage of {name}")
    files = write_all(folder, contents)
    if args.json:
        print(to_json({**fit.summary(), "clients": fit.rows(), "files": [str(path) for path in files]}), end="")
    else:
        print(report(fit))
        if args.example:
            print(example_outcome(fit))
        print("written:", *files)
    return 0 if fit.model.converged_ else 1


def example_lines():
    """Return the table of Efron and Morris as the lines of a CSV file.

    The variance of one at-bat is binomial at the mean of all players.
    """
    from estimators.datasets import efron_morris

    data = efron_morris()
    average = float(data.hits.sum() / data.at_bats.sum())
    means = (data.hits / data.at_bats).tolist()
    rows = zip(data.clients, means, data.at_bats.tolist(), strict=True)
    return [
        "client,mean,variance,n",
        *(f"{client},{mean},{average * (1 - average)},{at_bats}" for client, mean, at_bats in rows),
    ]


def example_outcome(fit):
    """Return how far both estimates were from what the players did in the rest of the season."""
    from estimators.datasets import efron_morris

    truth = efron_morris().average_rest
    before = ((fit.estimate - truth) ** 2).sum()
    after = ((fit.model.posterior_mean_ - truth) ** 2).sum()
    return f"Against the rest of the season the total squared error was {before:.4f} before, {after:.4f} after."


@dataclass(frozen=True, eq=False)
class Fit:
    """A table of clients with its fitted model, and the 95% interval of each client's true value."""

    clients: tuple
    counts: object
    estimate: object
    error: object
    model: object
    low: object
    high: object

    @classmethod
    def of(cls, table, prior, mu, tau2):
        """Fit the clients of `table`."""
        import numpy as np

        from estimators.gaussian import GaussianMeans

        model = GaussianMeans(prior, mu=mu, tau2=tau2).fit(table.estimates, table.variances)
        half = 1.959963984540054 * model.posterior_sd_
        mean = model.posterior_mean_
        errors = np.sqrt(table.variances)
        return cls(table.clients, table.counts, table.estimates, errors, model, mean - half, mean + half)

    def rows(self):
        """Return one dict per client."""
        model = self.model
        columns = {
            "client": self.clients,
            "n": [None] * len(self.clients) if self.counts is None else self.counts.tolist(),
            "estimate": self.estimate.tolist(),
            "standard_error": self.error.tolist(),
            "shrunken": model.posterior_mean_.tolist(),
            "posterior_sd": model.posterior_sd_.tolist(),
            "weight_on_own": model.weights_.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def summary(self):
        """Return what was borrowed, as numbers."""
        model = self.model
        moved = abs(model.posterior_mean_ - self.estimate)
        return {
            "prior": model.prior,
            "centre": float(model.mu_),
            "centre_standard_error": float(model.mu_sd_),
            "tau2": float(model.tau2_),
            "log_likelihood": model.log_likelihood_,
            "converged": bool(model.converged_),
            "smallest_weight_on_own": float(model.weights_.min()),
            "largest_weight_on_own": float(model.weights_.max()),
            "moved_most": self.clients[int(moved.argmax())],
            "expected_squared_error_before": float((self.error**2).sum()),
            "expected_squared_error_after": float((model.posterior_sd_**2).sum()),
        }


def to_csv(fit):
    """Return the content of estimates.csv, numbers with all their digits."""
    text = io.StringIO()
    rows = fit.rows()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def report(fit):
    """Return the table and the explanation as text."""
    rows, facts = fit.rows(), fit.summary()
    width = max(len("client"), *(min(len(client), 18) for client in fit.clients))
    titles = " ".join(f"{title:>10}" for title in ("estimate", "std error", "shrunken", "post. sd"))
    head = f"{'client':{width}} {'n':>6} {titles} {'own':>5}  95% interval"
    lines = [head]
    for i, row in enumerate(rows):
        if len(rows) > SHOWN and SHOWN // 2 <= i < len(rows) - SHOWN // 2:
            if i == SHOWN // 2:
                lines.append(f"... {len(rows) - SHOWN} more in estimates.csv")
            continue
        client = row["client"] if len(row["client"]) <= 18 else f"{row['client'][:17]}…"
        n = "-" if row["n"] is None else row["n"]
        numbers = " ".join(f"{row[key]:10.4g}" for key in ("estimate", "standard_error", "shrunken", "posterior_sd"))
        interval = f"[{row['low']:.4g}, {row['high']:.4g}]"
        lines.append(f"{client:{width}} {n:>6} {numbers} {row['weight_on_own']:5.0%}  {interval}")
    most = rows[fit.clients.index(facts["moved_most"])]
    before, after = facts["expected_squared_error_before"], facts["expected_squared_error_after"]
    found = "given" if facts["prior"] == "fixed" else f"found by {facts['prior']}"
    lines += [
        "",
        f"Clients lie around {facts['centre']:.4g} (standard error {facts['centre_standard_error']:.2g}) "
        f"with a standard deviation of {facts['tau2'] ** 0.5:.4g} ({found}).",
    ]
    if facts["tau2"] == 0:
        lines.append("The data show no difference between clients beyond their noise: everyone gets the centre.")
    else:
        least, highest = f"{facts['smallest_weight_on_own']:.0%}", f"{facts['largest_weight_on_own']:.0%}"
        keeps = least if least == highest else f"{least} to {highest}"
        lines.append(f"An estimate keeps {keeps} of its distance to the centre; the noisier it is, the less.")
    lines += [
        f"{facts['moved_most']} moved most, from {most['estimate']:.4g} to {most['shrunken']:.4g}.",
        f"Expected squared error, all clients together: {before:.4g} before, {after:.4g} after, if the model is right.",
        "Standard deviations and intervals count the uncertainty of the centre, not that of the spread.",
    ]
    if not facts["converged"]:
        lines.append("The search for the spread did NOT converge; do not use these numbers.")
    return "\n".join(lines)
