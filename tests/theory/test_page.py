"""The page of verdicts follows the evidence: what it says, and that it says nothing that differs between machines."""

from copy import deepcopy
from functools import cache

import pytest

import borrow
from theory import api, find, page
from theory.engine.evidence import Ledger
from theory.engine.judging import judge

IDS = ("fedhdp:table4:c", "fedhdp:thm8:p", "mrmtl:eq5", "mrmtl:thm6.8:factor", "feo2:gamma-prop")


@cache
def records():
    return {i: judge(find(i), api.DEFAULT_ROOT, True) for i in IDS}


@pytest.fixture(scope="module")
def text():
    return page.render([find(i) for i in IDS], records())


def section(text, title):
    return text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_claim_has_a_row_with_its_verdict(text):
    for i in IDS:
        row = next(line for line in text.splitlines() if line.startswith("| <a id=") and f"`{i}`" in line)
        assert f"**{records()[i].verdict()}**" in row


def test_an_erratum_says_where_what_and_what_instead(text):
    errata = section(text, "Errata")
    assert "fedhdp:table4:c" in errata
    for part in (
        r"printed: $`\frac{1}{\gamma^{2}}`$",
        r"correct: $`\frac{\alpha^{2}}{\gamma^{2}}`$",
        "printed 1, right 2",
        "derivation in",
    ):
        assert part in errata
    assert "mrmtl:eq5" not in errata


def test_a_hidden_assumption_is_listed_with_a_point_outside_it(text):
    assumptions = section(text, "Hidden assumptions")
    assert r"own\_noise == 0" in assumptions
    assert "printed" in assumptions


def test_tables_keep_their_columns(text):
    for line in text.splitlines():
        if line.startswith("| <a id="):
            assert line.replace("\\|", "").count("|") == 8, line


def test_nothing_on_the_page_depends_on_the_machine(text):
    assert not [line for line in text.splitlines() if "z|" in line or " seconds" in line or "e-1" in line]


def test_a_machine_that_decides_less_in_its_time_has_the_same_page():
    pages = []
    for state in ("undecided", "time"):
        found = deepcopy(records())
        assert found["fedhdp:thm8:p"].levels["computed"]["code"]["state"] == "equal"
        found["fedhdp:thm8:p"].levels["computed"]["code"]["state"] = state
        pages.append(page.render([find(i) for i in IDS], found))
    assert pages[0] == pages[1]
    assert "1 because its formula is not decided to be the claim's" in pages[0]


def test_a_reason_that_nothing_has_is_not_on_the_page(text):
    assert "compared at points" in text
    assert "0 because" not in text


def test_a_page_needs_all_the_evidence(tmp_path, capsys):
    store = Ledger(tmp_path / "ledger.json")
    store.put(records()[IDS[0]])
    assert borrow.main(["ledger", "--ledger", str(store.path)]) == 2
    assert "run `borrow verify` first" in capsys.readouterr().err


def test_the_committed_page_knows_every_claim():
    from theory import claims

    committed = page.PAGE.read_text(encoding="utf-8")
    missing = [c.id for c in claims() if f'<a id="{c.id.replace(":", "-").lower()}"></a>`{c.id}`' not in committed]
    assert not missing, "run `make ledger`"


def test_words_are_safe_from_markdown():
    assert page._words("a*b and n_k in `a*b`, $`x_1`$") == r"a\*b and n\_k in `a*b`, $`x_1`$"


def test_each_erratum_is_one_sentence_that_opens(text):
    errata = section(text, "Errata")
    assert errata.count("<details>") == errata.count("</details>") == errata.count("\n- **") > 0
