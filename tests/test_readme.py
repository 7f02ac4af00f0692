"""README.md says what is so: its numbers are recomputed, its commands and programs run, its links lead somewhere.

`sentences` computes every statement of README.md with a number in it; each must stand there once, and a number that stands
in none of them fails, so that nobody can type one. A `text` block holds what the command or program above it prints.
"""

import contextlib
import io
import json
import re
import shlex
import tomllib
from collections import defaultdict
from fractions import Fraction
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

from estimators import BetaBinomial
from estimators.accounting.budget_file import BudgetFile
from estimators.tables.datasets import efron_morris, surgical_mortality

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/**/*.md")} - {*ROOT.glob("build/**/*.md")})

NUMBERS = "half two three four five six seven eight nine ten twelve eighteen twenty thirty fifty hundred thousand twice"
NUMBER = re.compile(rf"(?<![\w.^])(?:\d+(?:[.,/]\d+)*%?|{NUMBERS.replace(' ', '|')})(?!\w)", re.IGNORECASE)
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_PROSE = re.compile(r"```.*?^```$|^#+ .*?$|(?<=\])\([^)]*\)|<[^>]*>|`[^`]*`", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"\b(?:Figures?|Section|Algorithm|Theorem|after) \(?\d+(?:\.\d+)*\w?\)?(?: and \d+)?")
"""Places in a paper are the paper's, not ours."""

SLOW = {
    "verify": "a claim of this page is judged by the Python program above; all of them by `make verify`, which CI runs",
    "prove": "CI runs `make prove`; tests/theory/coq has the quick ones",
    "demo": "tests/figures/test_learn.py runs experiments as small",
    "fedhdp-table2": "needs MNIST",
    "figures": "tests/figures/test_figures.py draws every figure",
    "audit": "tests/estimators/private/test_audit_releases.py and federated/test_one_run.py run every case, smaller",
}


def prose(text):
    """Return Markdown in one line, without code, headings, targets of links and numbers of places."""
    return " ".join(PLACE.sub(" ", NOT_PROSE.sub(" ", text)).replace("*", "").split())


def ledger():
    """Return the table of verdicts of the ledger, {paper: {column: text}}, and the text of the page."""
    text = (ROOT / "theory" / "LEDGER.md").read_text(encoding="utf-8")
    lines = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    head = next(line for line in lines if line[0].strip() == "paper")
    names = [name.strip() for name in head]
    rows = [dict(zip(names, row, strict=True)) for row in lines[lines.index(head) + 2 :][:6]]
    return {row["paper"]: row for row in rows}, text


def sentences():
    """Return what README.md must say, each with its numbers computed."""
    papers, page = ledger()
    every = papers["all"]
    fail = {paper: int(row["misprint"]) + int(row["wrong"]) for paper, row in papers.items()}
    errata = page.split("\n## Errata\n")[1].split("\n## ")[0]
    assert errata.count("counterexample at ") == fail["all"], "each has a counterexample"
    proved = errata.count("proof of the right formula and that the printed one fails")
    failing = proved + errata.count("proof that the printed one fails")
    said = " ".join(page.split())
    ((files, theorems),) = re.findall(r"(\d+) claims have a Coq file beside their derivation, (\d+) theorems", said)
    ((of_model, from_model),) = re.findall(r"(\d+) are proved from the model, [^;]*?, (\d+) theorems", said)
    ((proved_at_all, none),) = re.findall(r"so that (\d+) claims are proved in one way at least and (\d+) in none", said)
    assert int(proved_at_all) + int(none) == int(every["claims"])
    words = {5: "five", 12: "Twelve", 18: "eighteen"}
    yield f"Of {every['claims']} claims in {words[len(papers) - 1]} papers"
    yield f"federated estimation, {fail['all']} fail as printed, each with an exact counterexample"
    yield f"{failing} failures are proved in Coq, {proved} of them together with the right formula"
    yield f"{every['holds under']} more hold only under an assumption"
    yield f"does not state; {every['holds']} hold."
    assert every["proved in Coq beside the derivation, of the algebraic ones"].split()[0] == files
    yield f"{proved_at_all} claims have a machine-checked proof: {files} beside their derivation ({theorems} theorems)"
    yield f"and {of_model} from the model, for every number of clients ({from_model} theorems)"
    yield f"{int(files) + int(of_model) - int(proved_at_all)} of them in both ways"
    for paper, row in papers.items():
        if paper != "all":
            yield f"| {row['claims']} | {fail[paper]} | {row['holds under']} |"

    yield from erratum()

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield f"Python {project['requires-python'].removeprefix('>=')} or newer"
    yield from ("Times are for two cores", "BSD 3-Clause")  # what was measured, and a name
    yield from ("Fay and Herriot 1979", "Plagborg-Møller 2022", "Hoff and Yu 2018")

    hospitals = surgical_mortality()
    model = BetaBinomial().fit(hospitals.deaths, hospitals.operations)
    low, high = model.interval(level=0.95)
    at, mean = hospitals.clients.index, model.posterior_mean_
    assert hospitals.deaths[at("A")] == 0
    assert np.argmax(abs(mean - hospitals.deaths / hospitals.operations)) == np.argmin(hospitals.operations) == at("A")
    assert high[at("A")] > high[at("D")], "A is not clearly safer than D"
    assert low[at("H")] > np.median(mean), "H is high"
    yield f"{words[len(hospitals.clients)]} hospitals operate"
    yield f"lost none of {hospitals.operations[at('A')]}. Is it"
    yield f"A risk of 0 was mostly luck: A borrows most, because {hospitals.operations[at('A')]} operations say little"
    yield f"ends at {mean[at('A')]:.1%} with an interval from {low[at('A')]:.1%} to {high[at('A')]:.1%}"
    yield f"D with its {hospitals.operations[at('D')]} operations"
    yield f"{hospitals.deaths[at('H')]} of {hospitals.operations[at('H')]} is hardly luck alone"

    batters = efron_morris()
    found = json.loads(borrow("fit", "--example", "--no-plot", "--json"))["clients"]
    own, new = (np.array([row[name] for row in found]) for name in ("estimate", "shrunken"))
    rest = batters.average_rest
    before, after = ((own - rest) ** 2).sum(), ((new - rest) ** 2).sum()
    inside = sum(row["low"] <= value <= row["high"] for row, value in zip(found, rest, strict=True))
    players = len(found)
    assert set(batters.at_bats) == {45}
    yield f"Of {words[players]} batters in 1970 we do (Efron and Morris 1975): their first 45 at-bats were"
    yield f"blue points than to the open ones for {(abs(new - rest) < abs(own - rest)).sum()} of {players} players"
    yield f"players: {before / after:.1f} times less squared error"
    yield f"{inside} of {players} intervals hold the mark"
    yield "for all three priors"  # a figure, which checks itself
    yield "if half of the clients report on pairs"
    yield from ("spread, the same for three priors, and a repair", "Two maps with the border", "Two more:")

    yield from school()
    lines = (ROOT / "figures/learn/results/robusthdp-mnist.jsonl").read_text(encoding="utf-8").splitlines()
    (clients,) = {json.loads(line)["clients"] for line in lines}
    yield f"networks on MNIST, {clients} clients with their own eps"
    yield "Accuracy of six ways to weight clients under nine distributions"
    assert len({json.loads(line)["method"] for line in lines}) == 6
    assert len({json.dumps(json.loads(line)["point"], sort_keys=True) for line in lines}) == 9
    yield "where targets are 0 or 1"
    yield "`client,outcome` (0 or 1)".replace("`client,outcome`", "").strip()
    yield "A theorem whose two sides are the same text"
    yield "Two commands in one folder share the runs"
    yield "the two ends, and between"
    yield "has the thirty-minute paths"

    page = (ROOT / "tests/bench/ARENA.md").read_text(encoding="utf-8")
    (within, cells) = re.search(r"Default best, or within 2 % of the best peer: (\d+) of (\d+) cells", page).groups()
    yield f"it is best or within 2 % of the best peer in {within} of {cells}, and the page says of the others why"


def erratum():
    """Return the numbers of the erratum on the page: the counterexample, exactly, and the general formula at it."""
    from theory import evaluate

    m, e = 4, 2  # clients, and the exponential of eps
    found = evaluate("generative:thm4:variance-estimate", alpha=1, beta=1, n=1, m=m, E0=e - 1)
    printed, right = (Fraction(found[name]).limit_denominator(1000) for name in ("printed", "derived"))
    mu = Fraction(1, 2)  # of the uniform prior
    assert right == Fraction(m, m - 2) * (mu * (1 - mu) + Fraction(e, (e - 1) ** 2))
    for alpha in (1, 2, 20):
        other = evaluate("generative:thm4:variance-estimate", alpha=alpha, beta=alpha, n=1, m=m, E0=e - 1)
        assert Fraction(other["derived"]).limit_denominator(1000) == right, "of the prior it knows the mean alone"
    yield "Σ (q(x̄) − μ̂)² / (m − 2) estimates σ²"
    yield "its mean is m/(m − 2) · (μ(1 − μ) + e^ε/(e^ε − 1)²): of the prior it knows"
    yield f"uniform prior, one sample each, m = {m} clients, e^ε = {e}: σ² = {printed},"
    yield f"the mean of the estimate is {right}"


def school():
    """Return what the committed results say of the schools: where the best strength beats local training and FedAvg."""
    lines = (ROOT / "figures/learn/results/mrmtl-figure3b.jsonl").read_text(encoding="utf-8").splitlines()
    results = [json.loads(line) for line in lines]
    (clients,) = {result["clients"] for result in results}
    seeds = defaultdict(list)
    for result in results:
        model = "shared" if result["method"] == "FedAvg" else "personal"
        place = (result["method"], result["point"]["privacy.eps"], json.dumps(result["point"], sort_keys=True))
        seeds[place].append(result["final"][f"{model}.clients.mse"])
    best = {}  # mean error and its standard error at the best point of each grid
    for (method, eps, _), errors in seeds.items():
        found = float(np.mean(errors)), float(np.std(errors, ddof=1) / len(errors) ** 0.5)
        best[method, eps] = min(found, best.get((method, eps), found))

    def clearly(eps, other):
        (own, own_error), (its, its_error) = best["MR-MTL", eps], best[other, eps]
        return its - own > 3 * np.hypot(own_error, its_error)

    wins = [eps for eps in sorted({eps for _, eps in best}) if clearly(eps, "FedAvg") and clearly(eps, "Local")]
    at = " and ".join(f"{eps:g}" for eps in wins)
    yield f"{clients} schools under row-level privacy: at eps {at} the mean-regularised"


def borrow(*arguments):
    """Run the console script in this process; return what it prints, and expect exit status 0."""
    (script,) = entry_points(group="console_scripts", name="borrow")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert script.load()(list(arguments)) == 0
    return said.getvalue()


def test_every_number_is_computed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = prose(README)
    covered = []
    for sentence in sentences():
        said = prose(sentence)
        places = [match.span() for match in re.finditer(re.escape(said), text)]
        assert places, f"README.md does not say, or no longer: {said}"
        covered += places
    typed = [m for m in NUMBER.finditer(text) if not any(a <= m.start() and m.end() <= b for a, b in covered)]
    assert not typed, [text[max(0, m.start() - 40) : m.end() + 40] for m in typed]


def test_a_typed_number_is_found():
    assert [m[0] for m in NUMBER.finditer(prose("Saves 12 lives, `not 13` (Figure 4), twice [as](17.md) 5%."))] == [
        "12",
        "twice",
        "5%",
    ]


# --- commands and programs -------------------------------------------------------------------------------------------


def blocks():
    """Return the pairs (block, what it prints or None) of README.md."""
    found = list(BLOCK.finditer(README))
    pairs = []
    for block, after in zip(found, [*found[1:], None], strict=True):
        between = "" if after is None else README[block.end() : after.start()].strip()
        told = after is not None and after["kind"] == "text" and (not between or "prints" in between)
        pairs.append((block, after["text"] if after is not None and told else None))
    return pairs


def commands():
    """Return the command lines of README.md with what they print, or None where it is not told."""
    for block, prints in blocks():
        if block["kind"] == "sh":
            for line in block["text"].replace("\\\n", "").splitlines():
                yield pytest.param(line.split(" #")[0].strip(), prints, id=line.split(" #")[0].strip())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the repository's data and the reader's own files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "estimators").symlink_to(ROOT / "estimators")
    rng = np.random.default_rng(3)
    rows = ["hospital,deaths,operations", *(f"{i},{rng.binomial(50, 0.1)},50" for i in range(9))]
    (tmp_path / "surgery.csv").write_text("\n".join(rows))
    rows = ["ward,stay,age,severity,beds,hospital"]
    for ward in range(8):
        for age, severity in rng.uniform(0, 5, (30, 2)):
            stay = 5 + ward / 4 + severity + rng.normal()
            rows.append(f"{ward},{stay:.3f},{40 + 8 * age:.1f},{severity:.2f},{12 + ward},{ward % 3}")
    (tmp_path / "visits.csv").write_text("\n".join(rows))
    BudgetFile.create(tmp_path / "visits.csv.budget", data="visits.csv")
    return tmp_path


def agree(expected, got):
    """Whether a text block is what was printed; a line of dots stands for any lines, dots in a line for any text."""
    parts = [re.escape(part) for part in expected.replace("...\n", "\0").rstrip("\n").split("\0")]
    pattern = r"(?s:.*?)".join(part.replace(r"\.\.\.", r".*?") for part in parts)
    return re.fullmatch(pattern + r"\n?", got, re.MULTILINE) is not None


@pytest.mark.parametrize(("line", "prints"), list(commands()))
def test_commands_run_and_print_what_is_told(line, prints, folder):
    words = shlex.split(line)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return
    assert words[0] == ".venv/bin/borrow"
    if SLOW.keys() & set(words[1:3]):
        pytest.skip(next(why for word, why in SLOW.items() if word in words[1:3]))
    said = borrow(*words[1:])
    assert prints is None or agree(prints, said), said


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("block", "prints"), [pytest.param(b["text"], p) for b, p in blocks() if b["kind"] == "python"])
def test_programs_run_and_print_what_is_told(block, prints, folder):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(block, {"__name__": "readme"})
    assert prints is None or said.getvalue() == prints


def test_a_wrong_output_is_found():
    assert agree("...\nb 2\n...\nd 4...\n", "a 1\nb 2\nc 3\nd 45\n")
    assert not agree("...\nb 3\n...\n", "a 1\nb 2\nc 3\n")
    assert not agree("a 1\n", "a 1\nb 2\n")


def test_targets_of_make_that_are_told_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = [path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")]
    assert {name for text in pages for name in re.findall(r"\bmake (\w+)`", text)} <= targets


# --- links and names -------------------------------------------------------------------------------------------------


def anchors(text):
    """Return the anchors of a page: GitHub's of its headings, and those in HTML."""
    heads = re.findall(r"^#+ (.*)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads} | set(
        re.findall(r'<a id="([^"]+)"', text)
    )


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_links_lead_somewhere(page):
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    broken = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    assert not broken


def test_paths_and_modules_that_are_told_exist():
    """A name with a dot or a slash in code marks is a file of the repository, or what comes of one."""
    missing = []
    for page in PAGES:
        names = re.findall(
            r"`((?:estimators|theory|figures|tests|notebooks)(?:[./][\w*]+)+/?)`", page.read_text(encoding="utf-8")
        )
        for name in names:
            path = name if "/" in name else name.replace(".", "/")
            stem = path.rsplit("/", 1)[0]
            if not any([*ROOT.glob(path), *ROOT.glob(f"{path}.py"), *ROOT.glob(f"{stem}.py")]):
                missing.append((page.name, name))
    assert not missing


def test_rooms_hold_what_the_table_says():
    (table,) = re.findall(r"\| data \| models \| room of `estimators` \|\n(.*?)\n\n", README, re.DOTALL)
    missing = []
    for _, models, rooms in (row.strip("| ").split(" | ") for row in table.splitlines()[1:]):
        files = [path for room in re.findall(r"`(\w+)`", rooms) for path in (ROOT / "estimators" / room).rglob("*.py")]
        text = "\n".join(path.read_text(encoding="utf-8") + path.stem for path in files)
        missing += [name for name in re.findall(r"`([A-Za-z_]{6,})`", models) if not re.search(rf"\b{name}\b", text)]
    assert not missing
