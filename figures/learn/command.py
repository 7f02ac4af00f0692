"""The command `borrow learn`: its options, messages, files of a whole experiment, exit status.

Belongs here: arguments, progress, what is said and written.  Does not belong here: experiments as data (``experiment``),
doing runs (``runs``, ``sweep``), tables and plots.

Exit status 0: all runs are done; 1: a run diverged, or a kept one has other bits; 2: a run could not be done.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

__all__ = ["add_learn"]


def add_learn(parser):
    """Add the arguments of `borrow learn`."""
    from estimators.federated.experiments import sweep, vocabulary

    parser.description = (
        "Run a learning experiment of the papers and compare it with what they print. Without EXPERIMENT: list "
        "them. Run again to go on after a stop: finished runs are kept, half ones go on with the same bits."
    )
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT", help="name, or path of your own .toml file")
    parser.add_argument("--data", metavar="DIR", help="folder of your data sets; without it embedded data are taken")
    parser.add_argument("--out", default="build/learn", metavar="DIR", help="output folder (default: %(default)s)")
    parser.add_argument("--backend", choices=vocabulary.BACKENDS, help="(default: the experiment's)")
    parser.add_argument("--seed", type=int, action="append", metavar="N", help="instead of the experiment's; repeatable")
    parser.add_argument("--rounds", type=int, metavar="N", help="instead of the experiment's")
    parser.add_argument("--methods", metavar="A;B", help="only these methods, separated by semicolons")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once (default: %(default)s)")
    parser.add_argument(
        "--joblib-backend", choices=sweep.BACKENDS, default="loky", help="for several jobs (default: %(default)s)"
    )
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="of each run, which share its clients (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="threads of each (default: the cores shared by all)")
    parser.add_argument("--shard", metavar="I/N", help="only every N-th run, from the I-th: for several machines")
    parser.add_argument("--fresh", action="store_true", help="begin anew, whatever is in the output folder")
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    parser.add_argument("--parquet", action="store_true", help="write the histories as Parquet too (needs pyarrow)")
    parser.add_argument("--json", action="store_true", help="print the result lines as JSON")
    parser.add_argument("--table", action="store_true", help="run nothing: write the pages of results and claims anew")
    parser.add_argument(
        "--replay", action="store_true", help="do the kept short run of EXPERIMENT, or of all, again and compare its bits"
    )
    parser.set_defaults(run=run_learn)


def run_learn(args):
    """List the experiments, write the page, or do the runs of one experiment."""
    from estimators.federated.experiments.experiment import read

    for option in ("jobs", "processes", "workers", "rounds"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise ValueError(f"--{option} must be at least 1, got {value}")
    if args.table:
        return write_page(args.experiment)
    if args.replay:
        return replayed(args)
    if args.experiment is None:
        return list_experiments(args.json)
    return do(args, read(args.experiment))


def replayed(args):
    """Do the kept short runs again and say whether they have the same bits; with --fresh write them anew."""
    from estimators.federated.experiments import replay
    from estimators.federated.experiments.experiment import experiments, read
    from estimators.system import files

    names = experiments() if args.experiment is None else [read(args.experiment).name]
    if args.fresh:
        lines = (replay.kept() if replay.LINES.exists() else {}) | {name: replay.short(name) for name in names}
        files.write(replay.LINES, replay.text_of(lines))
        print(replay.LINES)
        return 0
    kept, status = replay.kept(), 0
    for name in names:
        if name not in kept:
            raise ValueError(f"{name} has no kept run; --replay --fresh makes one")
        found = replay.replay(name, kept[name])
        same = "the same bits" if found.difference == 0 else f"within {found.difference:.2g}"
        print(found.problem or f"{name}: {same}")
        status = max(status, int(bool(found.problem)))
    return status


def list_experiments(as_json):
    """Say which experiments there are, what they need and how long they took."""
    from estimators.federated.experiments.experiment import experiments, read
    from figures.learn.tables import committed, grid, screen

    took = {experiment.name: sum(r["seconds"] for r in results) / 3600 for experiment, results in committed()}
    table = []
    for name in experiments():
        experiment = read(name)
        runs = experiment.runs()
        cost = f"{len(runs)} x {experiment.setup.rounds}"
        data = experiment.setup.data.folder
        table.append((name, experiment.paper, experiment.place, experiment.title, data, cost, took.get(name)))
    if as_json:
        names = ("experiment", "paper", "place", "title", "data", "runs_x_rounds", "hours")
        print(json.dumps([dict(zip(names, line, strict=True)) for line in table], indent=1))
        return 0
    body = []
    for name, paper, place, title, data, cost, hours in table:
        took = "" if hours is None else f"; took us {hours:.1f} h"
        body.append((name, f"{paper}, {place}: {title}. Data {f'DIR/{data}' if data else 'none'}; {cost} rounds{took}."))
    print(grid(["experiment", "what it is"], body, width=screen()), end="")
    print(
        "\nborrow learn EXPERIMENT --data DIR; without --data it runs on embedded data, which show the way, not the numbers"
    )
    return 0


def do(args, experiment):
    """Do the runs of an experiment and write what came out."""
    from estimators.federated.experiments.sweep import shard, sweep
    from estimators.system.files import locked
    from figures.saving import prepare

    embedded = args.data is None and experiment.needs_data
    methods = None if args.methods is None else [name.strip() for name in args.methods.split(";")]
    runs = experiment.runs(args.seed, args.rounds, methods, embedded=embedded, backend=args.backend)
    runs = runs if args.shard is None else shard(runs, args.shard)
    out = prepare(Path(args.out, f"{experiment.name}-embedded" if embedded else experiment.name))
    if args.parquet:
        arrow()
    if args.data is not None and not experiment.needs_data:
        print(f"borrow: {experiment.name} makes its own data: --data is not used", file=sys.stderr)
    if embedded:
        print(
            f"borrow: no --data, so {experiment.name} runs on embedded data ({experiment.embedded.data.loader}): "
            "its numbers are not the paper's",
            file=sys.stderr,
        )
    with Progress(runs) as progress:
        options = {"jobs": args.jobs, "backend": args.joblib_backend, "processes": args.processes}
        options |= {"workers": args.workers, "fresh": args.fresh}
        outcomes = []
        for outcome in sweep(runs, out, args.data, watch=progress.watch, **options):
            progress.done(outcome)
            outcomes.append(outcome)
    with locked(out / "results"):  # of two commands the last one to finish writes what both have done
        lines, files = write(args, experiment, out, embedded)
    report(args, experiment, lines, files)
    failed = [outcome for outcome in outcomes if outcome.result is not None and "failed" in outcome.result]
    missing = [outcome for outcome in outcomes if outcome.result is None]
    for outcome in failed:
        print(f"borrow: {outcome.run.name} failed: {outcome.result['failed']}", file=sys.stderr)
    for reason in dict.fromkeys(outcome.error for outcome in missing):
        names = [outcome.run.name for outcome in missing if outcome.error == reason]
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        print(f"borrow: {names[0]}{more} is not done: {reason}", file=sys.stderr)
    return 2 if missing else 1 if failed else 0


class Progress:
    """A bar over all rounds of all runs, quiet unless stderr is a terminal."""

    def __init__(self, runs):
        from tqdm import tqdm

        self.bar = tqdm(total=sum(run.rounds for run in runs), unit="round", disable=None, leave=False)
        self.begun = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()

    def watch(self, run):
        """Function that is told the rounds of a run."""
        before = self.bar.n
        self.bar.set_description_str(run.name)

        def progress(finished, rounds, record):
            self.bar.update(before + finished - self.bar.n)
            values = [f"{v:.4f}" for name, v in (record or {}).items() if name.endswith(("accuracy", "mse"))]
            if values:
                self.bar.set_postfix_str(values[0])

        return progress

    def done(self, outcome):
        """Count a run whole, however many of its rounds were seen, and pass on its messages."""
        self.begun += outcome.run.rounds
        self.bar.update(self.begun - self.bar.n)
        for message in outcome.messages:
            self.bar.write(f"borrow: {message}", file=sys.stderr)


def write(args, experiment, out, embedded):
    """Write results.jsonl, the table and the plot of all finished runs in the folder; return the lines and the paths."""
    from estimators.federated.experiments.results import collect, lines_of
    from figures.learn.tables import experiment_text
    from figures.saving import write_all

    content = lines_of(experiment, [result for result in collect(out) if result["embedded"] == embedded])
    lines = [json.loads(line) for line in content.splitlines()]
    if not lines:
        return [], []
    contents = {"results.jsonl": content.encode()}
    if not args.no_plot:
        contents |= picture(experiment, lines)
    plot = "results.png" if "results.png" in contents else None
    contents["results.md"] = experiment_text(experiment, lines, plot).encode()
    if args.parquet:
        contents["results.parquet"] = parquet(collect(out))
    return lines, write_all(out, contents)


def picture(experiment, lines, name="results.png"):
    """The plot as PNG, by its name, with what guarantees in it are worth; nothing if there is nothing to draw."""
    from estimators.accounting.budget import SIMULATED
    from figures import style
    from figures.learn.plots import draw

    figure = draw(experiment, lines)
    if figure is None:
        return {}
    seeded = any(entry.get("simulated", True) for line in lines for entry in line["guarantees"])
    footed = style.footed(figure, f"privacy: {SIMULATED}" if seeded else "")
    return {name: style.render(footed, "png", experiment.title, 200)}


def arrow():
    """The module pyarrow."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError:
        raise ValueError("--parquet needs pyarrow: pip install 'borrowed-strength[parquet]'") from None


def parquet(results):
    """Histories as Parquet: one row per run, round and measure."""
    import io

    pyarrow = arrow()
    columns = {name: [] for name in ("method", "point", "seed", "round", "measure", "value")}
    for result in results:
        for record in result["history"]:
            for measure, value in record.items():
                if measure != "round":
                    point = json.dumps(result["point"], sort_keys=True)
                    entry = (result["method"], point, result["seed"], record["round"], measure, float(value))
                    for column, cell in zip(columns.values(), entry, strict=True):
                        column.append(cell)
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), stream)
    return stream.getvalue()


def report(args, experiment, lines, files):
    """Print the tables, or the lines as JSON."""
    from figures.learn.tables import screen, texts

    if args.json:
        print(json.dumps(lines, indent=1))
        return
    print(*texts(experiment, lines, screen()), sep="\n", end="\n" if lines else "")
    if files:
        print("written:", *files)


def write_page(only):
    """Write the pages of committed results and of published claims, and the plots (of one experiment, or of all)."""
    from figures.learn.tables import FOLDER, PAGE, PUBLISHED, claims, committed, page
    from figures.saving import write_all

    found = committed()
    if only is not None and only not in [experiment.name for experiment, _ in found]:
        raise ValueError(f"{only} has no committed results; copy its results.jsonl to {FOLDER / f'{only}.jsonl'}")
    contents = {}
    for experiment, results in found:
        if only in (None, experiment.name):
            contents |= picture(experiment, results, f"{experiment.name}.png")
    files = write_all(FOLDER, contents) if contents else []
    print(*files, *write_all(FOLDER, {PAGE: page().encode(), PUBLISHED: claims().encode()}), sep="\n")
    return 0
