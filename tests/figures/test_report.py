"""`borrow report`: the pages hold what is known of a claim, every link leads somewhere, and a browser finds them usable."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from figures import report
from figures.report import arcs, formula, plot, site
from theory.api import quick_record
from theory.describe import describe
from theory.engine.registry import find

# Every verdict, a bound, an unproved claim, a claim of several cases, and lemmas with those that take them.
SHOWN = [
    "fedhdp:eq41", "fedhdp:lemma2:rstar", "fedhdp:table4:c", "fedhdp:eq10", "feo2:gamma-prop", "mrmtl:eq5", "mrmtl:thm6.3",
    "mrmtl:lem6.7", "generative:thm2:tail", "generative:lemma2:eps",
]  # fmt: skip


@pytest.fixture(scope="module")
def pages():
    found = {i: describe(find(i), quick_record(i)) for i in SHOWN}
    wanted = list(found)
    while wanted:  # the set must be closed under taking results
        for i in [*found[wanted.pop()]["lemmas"]]:
            if i not in found:
                found[i] = describe(find(i), quick_record(i))
                wanted.append(i)
    for page in found.values():
        page["related"] = [i for i in page["related"] if i in found]
    return list(found.values())


@pytest.fixture(scope="module")
def folder(pages, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert report.write(out, pages) == out / "index.html"
    return out


class Page(HTMLParser):
    """The links, ids and unclosed elements of a page."""

    EMPTY = ("meta", "link", "input", "img", "br", "hr", "circle", "line", "path", "mspace")

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.open, self.path = [], [], [], path
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[k] for k in ("href", "src") if k in attributes]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag, f"{self.path.name}: </{tag}> closes nothing"


def test_pages_are_well_formed_and_every_link_leads_somewhere(folder):
    files = sorted(folder.rglob("*.html"))
    assert len(files) > len(SHOWN)
    for path in files:
        page = Page(path)
        assert page.open == []
        assert len(page.ids) == len(set(page.ids))
        for link in page.links:
            assert not re.match(r"[a-z]+:|//", link), f"{path.name} leads outside: {link}"
            target = link.split("#")[0].split("?")[0]
            assert not target or (path.parent / target).resolve().is_file(), f"{path.name}: {link} is not there"


def test_a_claim_page_shows_all_that_is_known(folder, pages):
    for page in pages:
        text = (folder / site.address(page["id"])).read_text(encoding="utf-8")
        assert page["id"] in text
        assert f">{page['verdict']}</span>" in text
        assert text.count("<li>") >= len(page["steps"])
        for e in page["evidence"]:
            assert f"{e['level']}<small>" in text
        assert ("in Coq, checked" in text) == bool(page["proof"]["text"])
        assert ("<h2>The right formula</h2>" in text) == bool(page["corrected"])
        assert r"\frac" not in re.sub(r'alttext="[^"]*"', "", re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL))


def test_the_first_page_counts_what_stands_behind_verdicts(pages, tmp_path):
    """No more claims are said to be simulated than are."""

    def standing(passed):
        return [
            {"level": level, "meaning": "", "detail": "", "status": "pass" if level in passed else "not applicable"}
            for level in ("derived", "computed", "simulated", "attacked")
        ]

    changed = [{**page, "lemmas": [], "related": [], "evidence": standing(["derived"])} for page in pages]
    changed[0]["evidence"] = standing(["derived", "computed", "simulated", "attacked"])
    site.write(tmp_path, changed)
    text = " ".join((tmp_path / "index.html").read_text(encoding="utf-8").split())
    proved = sum(bool(page["proof"]["text"]) for page in changed)
    says = "derived from the model, 1 computed by another route, 1 simulated, 1 attacked"
    assert f"Each of their {len(pages)} claims has a verdict that follows from evidence: {len(pages)} are {says}" in text
    assert f"attacked and {proved} proved in Coq" in text


def test_nothing_in_a_claim_can_break_out_of_its_place(pages, tmp_path):
    """A hostile title is text."""
    hostile = {**pages[0], "title": "<script>alert(1)</script>", "lemmas": [], "related": []}
    site.write(tmp_path, [hostile])
    assert "<script>alert" not in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_two_builds_are_the_same_bytes(folder, pages, tmp_path):
    site.write(tmp_path, pages)
    first = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert first == {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_stale_or_missing_evidence_is_refused(tmp_path):
    with pytest.raises(report.ReportError, match="run `borrow verify` first"):
        report.build(tmp_path / "out", ledger=tmp_path / "none.json", jobs=1)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="choose another one with --out"):
        report.build(tmp_path / "file" / "out", jobs=1)


def test_a_curve_shows_where_the_printed_formula_leaves_the_right_one(pages):
    by_id = {p["id"]: p for p in pages}
    wrong, right = by_id["fedhdp:table4:c"]["curve"], by_id["mrmtl:thm6.3"]["curve"]
    assert wrong["differs"]
    assert not right["differs"]
    assert 'class="printed"' in plot.chart(wrong)
    assert "differs" in plot.summary(wrong)


def test_a_curve_with_gaps_and_one_value():
    curve = {"x": [1.0, 2.0, 3.0], "right": [1.0, None, 1.0], "printed": None, "logarithmic": False, "example": 9.0,
             "name": "x", "meaning": "a number", "differs": False}  # fmt: skip
    drawn = plot.chart(curve)
    assert drawn.count("M") == 2
    assert "nan" not in drawn


def test_long_formulas_stay_text():
    assert formula.math("x" * 20000).startswith("<code>")
    assert formula.math("") == ""


def test_arcs_join_takers_to_givers(pages):
    graph = arcs.arc_diagram(pages)
    assert {(a["taker"], a["giver"]) for a in graph["arcs"]} == {(p["id"], i) for p in pages for i in p["lemmas"]}
    assert arcs.arc_diagram([{**p, "lemmas": []} for p in pages])["rows"] == []


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install -e '.[browser]'")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("needs Debian's packages chromium and chromium-driver (apt-get install, or `make browser`)")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield made
    made.quit()


def rows(browser):
    return [r for r in browser.find_elements("css selector", "table.claims tbody tr") if r.is_displayed()]


def test_search_filter_open_and_follow(browser, folder, pages):
    from selenium.webdriver.support.ui import Select

    browser.get((folder / "index.html").as_uri())
    assert len(rows(browser)) == len(pages)
    browser.find_element("id", "q").send_keys("mrmtl lam")
    assert {r.get_attribute("data-paper") for r in rows(browser)} == {"mrmtl"}
    browser.find_element("id", "q").clear()
    browser.find_element("id", "q").send_keys("no such words anywhere")
    assert rows(browser) == []
    assert browser.find_element("id", "count").text == f"0 of {len(pages)} claims"
    browser.find_element("id", "clear").click()
    assert len(rows(browser)) == len(pages)
    Select(browser.find_element("id", "verdict")).select_by_visible_text("misprint")
    assert {r.get_attribute("data-verdict") for r in rows(browser)} == {"misprint"}
    browser.get((folder / "index.html").as_uri() + "?q=thm6.3")
    assert len(rows(browser)) == 1
    rows(browser)[0].find_element("css selector", "a").click()
    assert "mrmtl:thm6.3" in browser.title
    browser.find_element("css selector", "section.links a").click()
    assert browser.title.split(" ")[0] in {p["id"] for p in pages} - {"mrmtl:thm6.3"}
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [360, 1200])
def test_no_page_scrolls_sideways(browser, folder, width):
    browser.set_window_size(width, 900)
    names = ["index.html", "errata.html", "assumptions.html", "map.html", site.address("mrmtl:thm6.3")]
    for name in names:
        browser.get((folder / name).as_uri())
        inner, full = browser.execute_script(
            "return [document.documentElement.clientWidth, document.documentElement.scrollWidth]"
        )
        assert full <= inner, f"{name} is {full} wide in a window of {inner}"
    assert browser.get_log("browser") == []


def test_the_keyboard_reaches_the_content(browser, folder):
    browser.get((folder / "index.html").as_uri())
    browser.switch_to.active_element.send_keys("\ue004")  # tab
    assert browser.switch_to.active_element.get_attribute("class") == "skip"


def test_the_map_highlights_what_is_focused(browser, folder):
    browser.get((folder / "map.html").as_uri())
    link = browser.find_element("css selector", "svg.arcs a")
    browser.execute_script("arguments[0].focus()", link)
    assert browser.find_elements("css selector", "path.arc.on")


def test_formulas_are_typeset(browser, folder):
    browser.get((folder / site.address("mrmtl:thm6.3")).as_uri())
    fraction = browser.find_element("css selector", "mfrac")
    top, bottom = fraction.find_elements("xpath", "./*")
    assert top.rect["y"] < bottom.rect["y"]
    assert Path(folder / "assets" / "style.css").is_file()
