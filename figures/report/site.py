"""From the ledger to the folder of pages.

Belongs here: what pages there are and what each gets.  Does not belong here: looks (``templates``, ``assets``), judging.
"""

import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path

from estimators.system.processes import worker_pool, workers_for
from figures.saving import prepare, write_all

__all__ = ["ReportError", "build", "write"]

VERDICTS = {
    "holds": "the printed formula is what the model gives",
    "holds under": "it holds under an assumption that the paper does not state",
    "misprint": "a slip of the pen; the right formula is given",
    "wrong": "it fails, and the right formula is given",
    "open": "not decided",
}


class ReportError(ValueError):
    """The report cannot be built; the message says what to do."""


def build(out="build/report", *, ledger=None, figures="build/figures", jobs=None, progress=iter):
    """Write the site of all claims and return the path of its first page.

    Parameters
    ----------
    out : folder; files of an earlier report are replaced.
    ledger : path of the evidence, by default that of `borrow verify`.
    figures : folder with figures of `borrow figures`, shown on the pages of their claims where it exists.
    jobs : worker processes, by default one per core.
    progress : wraps the sequence of claims, for instance tqdm.

    Raises
    ------
    ReportError
        If claims lack up-to-date evidence.
    OSError
        If the folder cannot be written.
    """
    from theory.engine.evidence import DEFAULT_LEDGER
    from theory.engine.registry import claims

    prepare(out)
    pages = gather([c.id for c in claims()], Path(ledger or DEFAULT_LEDGER), jobs, progress)
    return write(out, pages, pictures(Path(figures)))


def write(out, pages, shown=()):
    """Write the site of the described claims, which must include all that they take results of; return its first page."""
    for folder, files in render(pages, shown).items():
        write_all(Path(out) / folder, files)
    return Path(out) / "index.html"


def gather(ids, ledger, jobs, progress):
    """Return the descriptions of all claims, made by several processes because derivations take a while."""
    from theory.engine.evidence import Ledger
    from theory.engine.registry import find

    store = Ledger.load(ledger)
    missing = [i for i in ids if i not in store.records or not store.records[i].current(find(i))]
    if missing:
        raise ReportError(f"{len(missing)} claims have no up-to-date evidence in {ledger}; run `borrow verify` first")
    jobs = min(workers_for(jobs), 8) if jobs is None else workers_for(jobs)
    if jobs == 1:
        return [describe_one(i, str(ledger)) for i in progress(ids)]
    with worker_pool(jobs) as pool:
        return list(progress(pool.map(describe_one, ids, [str(ledger)] * len(ids), chunksize=8)))


STORES = {}


def describe_one(claim_id, ledger):
    """Return the description of one claim, in a worker process."""
    from theory.describe import describe
    from theory.engine.evidence import Ledger
    from theory.engine.registry import find

    if ledger not in STORES:
        STORES[ledger] = Ledger.load(ledger)
    return describe(find(claim_id), STORES[ledger].records[claim_id])


def pictures(folder):
    """Return the figures of `borrow figures` in `folder`: file names and bytes, and which claims each shows."""
    from figures import FIGURES, load

    found = []
    for name in FIGURES:
        svg = folder / f"{name}.svg"
        if svg.is_file():
            found.append({"name": name, "file": svg.name, "content": svg.read_bytes(), "claims": set(load(name).CLAIMS)})
    return found


def address(claim_id):
    """Return the path of a claim's page from the site's root.

    >>> address("fedhdp:lemma2:rstar")
    'claims/fedhdp/lemma2_rstar.html'
    """
    paper, tail = claim_id.split(":", 1)
    return f"claims/{paper}/{tail.replace(':', '_')}.html"


def environment():
    """Return the Jinja environment, in which everything is escaped unless it says that it is markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from figures.report.formula import math
    from figures.report.plot import chart

    made = Environment(
        loader=PackageLoader("figures.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"math": math, "chart": chart, "address": address, "verdicts": VERDICTS}
    made.filters["slug"] = lambda verdict: verdict.replace(" ", "-")
    made.filters["linked"] = linked
    return made


def linked(text, ids, root):
    """Return `text` with the claims `ids` that it names as links.

    >>> linked("By mrmtl:eq5, 1 < 2", ["mrmtl:eq5"], "../../")
    Markup('By <a class="id" href="../../claims/mrmtl/eq5.html">mrmtl:eq5</a>, 1 &lt; 2')
    """
    from markupsafe import Markup, escape

    safe = str(escape(text))
    for i in ids:
        safe = re.sub(rf"{re.escape(i)}(?![\w:-])", f'<a class="id" href="{root}{address(i)}">{i}</a>', safe, count=1)
    return Markup(safe)


def render(pages, shown):
    """Return the files of the site as {folder: {name: bytes}}."""
    from theory.engine.claim import KINDS
    from theory.engine.paper import papers

    made = environment()
    by_id = {page["id"]: page for page in pages}
    used_by = {i: [] for i in by_id}
    for page in pages:
        for lemma in page["lemmas"]:
            used_by[lemma].append(page["id"])
    counts = {paper: Counter(p["verdict"] for p in pages if p["paper"] == paper) for paper in papers()}
    common = {
        "pages": pages,
        "papers": {key: paper.citation for key, paper in papers().items()},
        "kinds": [k for k in KINDS if any(p["kind"] == k for p in pages)],
        "counts": counts,
        "total": sum(counts.values(), Counter()),
        "proved": sum(bool(p["proof"]["text"]) for p in pages),
        "passed": Counter(e["level"] for p in pages for e in p["evidence"] if e["status"] == "pass"),
        "pictures": shown,
    }
    files = {"": {}, "assets": {}, "figures": {p["file"]: p["content"] for p in shown}}
    from figures.report.arcs import arc_diagram

    for name, extra in (("index", {}), ("errata", {}), ("assumptions", {}), ("map", {"graph": arc_diagram(pages)})):
        text = made.get_template(f"{name}.html").render(root="", here=name, **common, **extra)
        files[""][f"{name}.html"] = text.encode()
    template = made.get_template("claim.html")
    for page, before, after in zip(pages, [None, *pages], [*pages[1:], None], strict=False):
        folder, name = address(page["id"]).rsplit("/", 1)
        text = template.render(
            root="../../", here="claim", page=page, by_id=by_id, used_by=used_by[page["id"]], before=before, after=after,
            pictures=[p for p in shown if page["id"] in p["claims"]],
        )  # fmt: skip
        files.setdefault(folder, {})[name] = text.encode()
    for asset in resources.files("figures.report").joinpath("assets").iterdir():
        files["assets"][asset.name] = asset.read_bytes()
    files[""]["claims.json"] = (json.dumps([facts(p) for p in pages], indent=1, ensure_ascii=False) + "\n").encode()
    return {folder: content for folder, content in files.items() if content}


def facts(page):
    """Return what `claims.json`, for other programs, holds of a claim."""
    kept = (
        "id", "title", "paper", "place", "kind", "statement", "latex", "verdict", "condition", "corrected_text", "lemmas",
        "related",
    )  # fmt: skip
    return {k: page[k] for k in kept} | {
        "proved": bool(page["proof"]["text"]),
        "derived": [e["text"] for e in page["derived"]],
        "page": address(page["id"]),
    }
