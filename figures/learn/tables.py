"""Tables in Markdown: what came out, beside what was printed.

Belongs here: text, the same for the same results, so that a test can tell whether a committed page is current.  Does not
belong here: numbers (``results``), pictures (``plots``).
"""

import sys
from itertools import zip_longest
from math import exp, isnan
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

from estimators.accounting.budget import SIMULATED
from estimators.federated.experiments.comparing import ERROR, FACTOR, failing
from estimators.federated.experiments.experiment import experiments, read
from estimators.federated.experiments.plan import label
from estimators.federated.experiments.published import VERDICTS, beside, entries, judge, orders, said
from estimators.federated.experiments.results import current, read_lines, rows, selected

__all__ = [
    "FOLDER",
    "claims",
    "committed",
    "comparison",
    "experiment_text",
    "grid",
    "order_text",
    "page",
    "screen",
    "summary",
    "texts",
]

FOLDER = Path(__file__).parent / "results"
"""Committed result lines, and the page and plots made of them."""

PAGE = "RESULTS.md"
PUBLISHED = "PUBLISHED.md"


def number(measure, value, error=None):
    """A measure as text: accuracies in per cent, the rest with four digits.

    >>> number("clients.accuracy", 0.91234, 0.001), number("clients.mse", 0.02391, 0.0001)
    ('91.23 ± 0.10', '0.02391 ± 0.00010')
    """
    percent = measure.endswith("accuracy") and "spread." not in measure
    scale, form = (100, ".2f") if percent else (1, ".5f" if abs(value) < 1 else ".3f")
    text = f"{scale * value:{form}}"
    return text if error is None or isnan(error) else f"{text} ± {scale * error:{form}}"


def grid(head, body, optional=(), width=None):
    """Markdown table with columns as wide as they need be; columns that are optional and empty are left out.

    With a `width` it is text for a screen of as many columns, and cells too wide for it go on in the lines below.

    >>> print(grid(["name", "what it is"], [["a", "one two three"]], width=20), end="")
    | name | what it   |
    |      | is        |
    | ---- | --------- |
    | a    | one two   |
    |      | three     |
    """
    keep = [i for i in range(len(head)) if i not in optional or any(line[i] for line in body)]
    cells = [[str(line[i]).replace("|", "\\|") for i in keep] for line in [head, *body]]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    if width is not None:
        words = [max(len(word) for cell in column for word in [*cell.split(), ""]) for column in zip(*cells, strict=True)]
        widths = narrowed(widths, words, width - 3 * len(widths) - 1)
    rows = [fold(line, widths) for line in cells]
    rows.insert(1, [tuple("-" * width for width in widths)])
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for row in rows for line in row]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def narrowed(widths, words, total):
    """Widths of columns that add up to `total`, by cutting the widest; words stay whole unless even they are too wide.

    >>> narrowed([5, 40, 30], [5, 22, 4], 45), narrowed([5, 40, 30], [5, 40, 4], 45)
    ([5, 22, 18], [5, 32, 8])
    """
    for least in (words, [8] * len(widths)):
        for cap in range(max(widths), 7, -1):
            if sum(widths) <= total:
                return widths
            widths = [min(width, max(word, cap)) for width, word in zip(widths, least, strict=True)]
    return widths


def fold(line, widths):
    """The lines of text, each with one part of every cell, that show cells in columns of these widths."""
    parts = [wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(line, widths, strict=True)]
    return list(zip_longest(*parts, fillvalue=""))


def screen():
    """Columns to print in: those of the terminal, or 120 for files and pipes."""
    return get_terminal_size().columns if sys.stdout.isatty() else 120


def where(point):
    """A grid point as text, each key by its last part."""
    return ", ".join(f"{name.rsplit('.', 1)[-1]} = {label(value)}" for name, value in point.items())


def comparison(experiment, found, width=None):
    """Table of the paper's numbers beside ours; empty if the paper prints none.  `width` as for `grid`."""
    triples, body = beside(experiment, found), []
    ran = [compared for *_, compared in triples if compared is not None]
    lost = [ran[i] for i in failing(ran)]
    for printed, row, compared in triples:
        says = [printed.method, where(printed.at), printed.measure]
        says.append(number(printed.measure, printed.value, printed.error or None))
        value = None if row is None else row.value(printed.measure)
        if row is None or value is None:
            body.append([*says, "not run" if row is None else "failed", "", "", printed.note])
            continue
        picked = f"best of {row.best_of}: {where(row.point)}" if row.best_of > 1 else ""
        note = "; ".join(filter(None, [picked, printed.note]))
        ours = f"{number(printed.measure, *value[:2])} ({value[2]})"
        ratio = "" if compared is None else f"{exp(compared.value):.2f}"
        word = (
            ""
            if compared is None
            else "**fails**"
            if any(compared is other for other in lost)
            else "holds"
            if compared.holds
            else "open"
        )
        body.append([*says, ours, ratio, word, note])
    head = ["method", "at", "measure", "printed", "ours (seeds)", "errors, ours / printed", "outcome", "note"]
    return grid(head, body, (1, 5, 6, 7), width) if body else ""


def order_text(experiment, found):
    """One sentence on the orders of two methods that the paper prints, with those that fail, in standard errors."""
    checks = orders(experiment, found)
    if not checks:
        return ""
    counts = [(word, sum(check.outcome == outcome for check in checks)) for outcome, word in
              (("holds", "hold"), ("fails", "fail"), ("open", "are open"))]  # fmt: skip
    words = ", ".join(f"{n} {word}" for word, n in counts)
    text = f"Of {len(checks)} printed orders of two methods {words}.\n"
    return text + "".join(f"Fails: {said(check)}.\n" for check in checks if check.outcome == "fails")


def summary(experiment, chosen, width=None):
    """Table of all methods: one line per method, grid point and kind of model, one column per group of clients."""
    wheres, body = [], []
    named = [item.measure for item in (*experiment.printed, *experiment.plots)]
    named += [method.select["measure"] for method in experiment.methods if method.select]
    rows_matter = any("rows" in measure.split(".") for measure in named)
    for row in chosen:
        for name in row.measures():
            part = ".".join(name.split(".")[1:])
            if part not in wheres and (rows_matter or not part.startswith("rows.")):
                wheres.append(part)
    for row in chosen:
        picked = f" (best of {row.best_of})" if row.best_of > 1 else ""
        failed = f"{len(row.results) - len(row.whole)} of {len(row.results)} failed"
        kinds = list(dict.fromkeys(name.split(".")[0] for name in row.measures())) or [""]
        for kind in kinds:
            values = [row.value(f"{kind}.{part}") if f"{kind}.{part}" in row.measures() else None for part in wheres]
            cells = ["" if v is None else number(part, *v[:2]) for part, v in zip(wheres, values, strict=True)]
            state = failed if len(row.whole) < len(row.results) else str(len(row.results))
            body.append([row.method, where(row.point) + picked, kind, *cells, promised(row), state])
    head = ["method", "at", "model", *wheres, "privacy", "seeds"]
    return grid(head, body, (1, len(head) - 2), width) if body else ""


def promised(row):
    """The guarantees of a row's first result as text, groups with the same ones together; that they are none is said first.

    Lines from before entries said whether noise was seeded are of trainings too, where it always is.
    """
    entries = row.whole[0]["guarantees"] if row.whole else None
    alike = {}
    for entry in entries or ():
        eps, delta = (span(entry[name]) for name in ("eps", "delta"))
        text = f"ε {eps}, δ {delta}, {entry['adjacency']}"
        alike.setdefault((text, entry.get("simulated", True)), []).append(entry)
    texts = {True: [], False: []}
    for (text, simulated), members in alike.items():
        part, total = sum(entry["clients"] for entry in members), sum({e["group"]: e["of"] for e in members}.values())
        groups = "all" if total == row.whole[0]["clients"] else " and ".join(dict.fromkeys(e["group"] for e in members))
        texts[simulated].append(f"{groups if part == total else f'{part} of {total} {groups}'}: {text}")
    seeded = f"{SIMULATED} ({'; '.join(texts[True])})" if texts[True] else ""
    return "; ".join(filter(None, [seeded, *texts[False]]))


def span(value):
    """A number, or its least and greatest, with three digits; infinity is a text already."""
    if isinstance(value, list):
        return " to ".join(dict.fromkeys(map(span, value)))
    return value if isinstance(value, str) else f"{value:.3g}"


def texts(experiment, results, width=None):
    """What there is to say of results: the comparison and the order, unless the data were embedded, and all methods."""
    found = rows(experiment, results)
    chosen = selected(experiment, found)
    embedded = any(result["embedded"] for result in results)
    parts = [] if embedded else [comparison(experiment, found, width), order_text(experiment, found)]
    return [part for part in [*parts, summary(experiment, chosen, width)] if part]


def experiment_text(experiment, results, picture=None):
    """Section of one experiment: what it is, the comparison, the order, all methods, where the data come from."""
    text = f"## {experiment.name}: {experiment.title}\n\n{experiment.paper}, {experiment.place}. {facts(results)}\n\n"
    if any(result["embedded"] for result in results):
        text += "**Embedded data: these numbers are not comparable with the paper's.**\n\n"
    if experiment.notes:
        text += f"{experiment.notes}\n\n"
    text += "".join(f"{part}\n" for part in texts(experiment, results))
    if picture:
        text += f"![{experiment.title}]({picture})\n\n"
    return text + f"{origin(results)}\n"


def facts(results):
    """Rounds, seeds, clients and time of results."""
    rounds, clients, seeds = ({result[name] for result in results} for name in ("rounds", "clients", "seed"))

    def extent(values):
        return f"{min(values):,}" if len(values) == 1 else f"{min(values):,} to {max(values):,}"

    hours = sum(result["seconds"] for result in results) / 3600
    return (
        f"{extent(rounds)} rounds, {extent(clients)} clients, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}, "
        f"{len(results)} runs, {hours:.1f} hours of runs."
    )


def origin(results):
    """Data, versions, code and backends of results; what is not known of them is said."""
    files = {}
    for result in results:
        files |= result["provenance"].get("files") or {}
    data = ", ".join(sorted({result["provenance"].get("dataset", "") for result in results}))
    hashes = ", ".join(f"{name} `{digest[:12]}`" for name, digest in sorted(files.items()))
    versions = sorted({f"{name} {number}" for result in results for name, number in result["versions"].items()})
    made = ""
    for kind, word in (("code", "Code"), ("commit", "Commits")):
        names = sorted({result[kind][:12] for result in results if result.get(kind)})
        made += f" {word}: {', '.join(f'`{name}`' for name in names)}." if names else ""
    before = [result["made"] for result in results if "made" in result]
    if before:
        made += f" {len(before)} of {len(results)} runs were made {before[0]}: the code that made them is not recorded."
    backends = ", ".join(sorted({result["backend"] for result in results}))
    return f"Data: {data}{f' ({hashes})' if hashes else ''}. Backend: {backends}; {', '.join(versions)}.{made}\n"


def committed(folder=FOLDER):
    """Pairs of an experiment and its committed results, for those that have any."""
    found = []
    for name in experiments():
        path = folder / f"{name}.jsonl"
        if path.is_file() and (results := read_lines(path)):
            found.append((read(name), results))
    return found


def page(folder=FOLDER):
    """The page of all committed results."""
    text = (
        "# Results of the learning experiments\n\n"
        "Made by `borrow learn --table` from the result lines beside it; [what the papers claim, and what became of it]"
        f'({PUBLISHED}). Means over seeds ± their standard errors; accuracies in per cent. "Best of n": the best of n grid '
        "points, chosen by the measure that is shown, as the papers do.\n\n"
        f"{rules()}\n"
    )
    body, sections = [], []
    for experiment, results in committed(folder):
        triples = [compared for *_, compared in beside(experiment, rows(experiment, results)) if compared is not None]
        holds, fails = sum(compared.holds for compared in triples), len(failing(triples))
        stale = sum(not current(experiment, result) for result in results)
        state = f"{stale} of {len(results)} lines are of an earlier configuration" if stale else ""
        reached = f"{holds} hold, {fails} fail, {len(triples) - holds - fails} open" if triples else ""
        body.append([f"[{experiment.name}](#{anchor(experiment)})", experiment.paper, experiment.place, reached, state])
        picture = f"{experiment.name}.png"
        sections.append(experiment_text(experiment, results, picture if (folder / picture).is_file() else None))
    if not body:
        return text + "No experiment has committed results yet.\n"
    head = ["experiment", "paper", "place", "printed numbers", "state"]
    return text + grid(head, body, optional=(4,)) + "\n" + "\n".join(sections)


def rules():
    """How numbers are compared, for a reader of a page."""
    return (
        "A printed number *holds* if the 90 % interval of the ratio of errors (1 - accuracy, or the loss), ours to the "
        f"printed one, lies within a factor of {FACTOR:g}, and within half the distance to what is printed of another "
        "method; it *fails* if it lies outside; else it is *open*, as with one seed. A method is ahead of another, or not, "
        "in standard errors of differences paired by seed. "
        f"Rate of error: {ERROR:.0%} for each that holds, and for any of a table that fails (Holm).\n"
    )


def claims(folder=FOLDER):
    """The page of published claims: every entry with its verdict, its settings and its comparisons."""
    known = {name: read(name) for name in experiments()}
    results = {experiment.name: [r for r in found if not r["embedded"]] for experiment, found in committed(folder)}
    judged = [judge(entry, known, results) for entry in entries()]
    counts = ", ".join(f"{sum(j.verdict == word for j in judged)} {word}" for word in VERDICTS)
    text = (
        "# What the papers claim of learning, and what became of it\n\n"
        "Made by `borrow learn --table` from `published.toml` and the result lines beside it. Tables and figures with "
        f"learning results, {len(judged)}: {counts}.\n\n{rules()}\n"
        "*Contradicted*: the paper states all settings, they are ours but for minor differences, and a comparison fails. "
        "*Reproduced*: all hold. *Not comparable*: a stated setting is another here, seeds do not decide, or comparisons "
        "fail where the paper leaves a setting open. Where settings were chosen so that our numbers meet the printed ones "
        "(*fitted*), a printed number that holds is not counted as reached.\n\n"
    )
    body = [[j.entry.paper, j.entry.place, f"**{j.verdict}**", f"{j.reason}.", tally(j)] for j in judged]
    text += grid(["paper", "place", "verdict", "because", "comparisons"], body, (4,))
    body = [[j.entry.paper, j.entry.place, j.entry.needs] for j in judged if j.verdict == "not run"]
    text += "\n## What those that were not run would take\n\n" + grid(["paper", "place", "data, and hours on what"], body)
    for j in judged:
        if any(check.found is not None for check in j.checks):
            text += f"\n## {j.entry.paper}, {j.entry.place}: {j.verdict}\n\n{j.entry.says} Experiments: "
            # only what has lines has a section to link to
            links = [f"[{name}]({PAGE}#{anchor(known[name])})" if name in results else f"{name} (no lines)"
                     for name in j.entry.experiments]  # fmt: skip
            text += f"{', '.join(links)}.\n"
            text += f"Tuned: {j.entry.tuned}.\n" if j.entry.tuned else ""
            rows_ = [[s.name, "" if s.paper is None else value_text(s.paper), value_text(s.ours), s.state, s.because]
                     for s in j.settings]  # fmt: skip
            text += "\n" + grid(["setting", "the paper", "here", "state", "why"], rows_, (4,))
            gaps = [[c.text, c.measure, where(c.at), size(c), c.outcome] for c in j.checks if c.kind != "level"]
            if gaps:
                text += "\n" + grid(
                    ["claim", "measure", "at", "standard errors (log ratio of errors)", "outcome"], gaps, (2,)
                )
    return text


def tally(judged):
    """Outcomes of an entry's comparisons as text."""
    words = ("holds", "fails", "open", "fitted", "not run")
    return ", ".join(f"{judged.count(word)} {word}" for word in words if judged.count(word))


def size(check):
    """A gap in standard errors with its log ratio."""
    if check.found is None:
        return ""
    value, error, n = check.found[:3]
    return f"{value / error:+.1f} ({value:+.3f})" if n > 1 and error > 0 else f"one seed ({value:+.3f})"


def value_text(value):
    """A setting's value as text: of tables and lists, what stands in them."""
    if isinstance(value, dict):
        return ", ".join(f"{name} = {value_text(entry)}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(value_text, value))
    return label(value)


def anchor(experiment):
    """Name of a heading as web pages make it."""
    heading = f"{experiment.name}: {experiment.title}".lower()
    return "".join(c for c in heading if c.isalnum() or c in "-_ ").replace(" ", "-")
