"""Displays against transcriptions: what is judged is what the paper prints, and a wrong transcription is noticed."""

from collections import Counter
from dataclasses import replace
from zlib import crc32

import pytest

from theory.engine import registry
from theory.engine.algebra import entries, is_zero
from theory.engine.edit import Edit
from theory.engine.literal import literal, main, not_in_text, table
from theory.engine.mutants import mutants
from theory.engine.paper import papers

OUTCOMES = {c.id: literal(c) for c in registry.claims()}
READ = [c for c in registry.claims() if OUTCOMES[c.id].verdict in ("same", "edited")]


def test_no_transcription_differs_from_its_display():
    wrong = {i: o.detail for i, o in OUTCOMES.items() if o.verdict in ("differs", "refused")}
    # (52) takes (49) as corrected: an edit that its claim has yet to declare.
    assert set(wrong) <= {"fedhdp:eq52"}, wrong


def test_more_than_half_of_all_displays_are_read():
    counts = Counter(o.verdict for o in OUTCOMES.values())
    assert counts["same"] + counts["edited"] >= 210
    broken = [o for o in OUTCOMES.values() if "the reading breaks" in o.detail]
    assert not broken, broken


def test_what_is_unread_says_why():
    assert all(o.detail for o in OUTCOMES.values())


def _mutated(claim, k):
    """The claim with a slip in the k-th of its values."""

    def printed(**v):
        right = claim.call(claim.printed, v)
        values = list(entries(right))
        if k < len(values) and values[k] is not None:
            slips = [m.formula for m in mutants(values[k])]
            start = crc32(claim.id.encode()) % len(slips)
            values[k] = next(x for x in slips[start:] + slips[:start] if not is_zero(x - values[k]))
        return tuple(values) if isinstance(right, tuple) else values[0]

    return replace(claim, printed=printed)


@pytest.mark.parametrize("paper", list(papers()))
def test_a_slip_in_any_value_that_is_read_is_noticed(paper):
    """Negative control: whichever value is wrong, the comparison says so."""
    missed = [
        f"{claim.id}: value {k}"
        for claim in READ
        if claim.paper == paper
        for k in OUTCOMES[claim.id].read
        if literal(_mutated(claim, k)).verdict != "differs"
    ]
    assert not missed, missed


SLIPS = [
    ("fedhdp:thm8:p", r"(N-N_{\mathrm p}+1)", r"(N-N_{\mathrm p}-1)"),
    ("fedhdp:eq61", r"\sum_{i\in[l]}", r"\prod_{i\in[l]}"),
    ("fedhdp:eq75", r"\prod_{k_1\in[l]\setminus i}", r"\prod_{k_1\in[l]}"),
    ("mrmtl:thmE.5", r"\sum_{j\neq k}", r"\sum_{j}"),
    ("mrmtl:tnb:pmf", r"\ell+1", r"\ell+2"),
    ("robusthdp:eq8:loss", "i<j", "i"),
    ("fedhdp:eq1-3", r"\max_i\epsilon_i", r"\min_i\epsilon_i"),
    ("robusthdp:thm1:parallel", r"\max(\{\delta_i\}", r"\min(\{\delta_i\}"),
    ("generative:bern:evidence", r"\binom{n}{z_{i}}", r"\binom{n}{n}"),
    ("feo2:gains", "3.57", "3.75"),
    ("generative:thm6", r"X_{i}^{T}X_{i}", r"X_{i}X_{i}^{T}"),
    ("generative:eq12:gauss", r"\frac{md}{2}", r"\frac{m}{2}"),
    ("generative:thm2:event:range", r"\frac{1}{mn}", r"\frac{2}{mn}"),
]


@pytest.mark.parametrize(("claim_id", "right", "wrong"), SLIPS)
def test_a_slip_in_the_display_is_noticed(claim_id, right, wrong):
    claim = registry.find(claim_id)
    assert right in claim.latex
    assert literal(replace(claim, latex=claim.latex.replace(right, wrong))).verdict in ("differs", "unread")


def test_a_slip_in_the_letters_is_noticed():
    """A letter read as another variable gives another value."""
    here = table("fedhdp")
    swapped = dict(here.letters) | {"N_1": "N2"}
    claims = [c for c in READ if c.paper == "fedhdp" and r"N_1" in c.latex]
    assert len(claims) > 5
    before = here.letters
    object.__setattr__(here, "letters", swapped)
    try:
        noticed = [c.id for c in claims if literal(c).verdict != "same"]
    finally:
        object.__setattr__(here, "letters", before)
    assert len(noticed) >= len(claims) - 1  # but for what is symmetric


RSTAR = "fedhdp:lemma2:rstar"


def _edited(read, printed=r"N_1\gamma_1^2", latex=None, **options):
    claim = registry.find(RSTAR)
    edit = Edit(printed=printed, read=read, reason="a test", **options)
    return literal(replace(claim, latex=latex or claim.latex, edits=(edit,)))


def test_an_edit_is_applied_and_must_be_needed():
    right = registry.find(RSTAR).latex
    undefined = right.replace(r"N_1\gamma_1^2", r"N_1\gamma_q^2")
    wrong = right.replace(r"N_1\gamma_1^2", r"N_2\gamma_1^2")
    needed = _edited(r"N_1\gamma_1^2", r"N_1\gamma_q^2", undefined)
    assert (needed.verdict, needed.read) == ("edited", (0,))
    assert _edited(r"N_1\gamma_1^2", r"N_2\gamma_1^2", wrong, changes_value=True).verdict == "edited"
    unneeded = _edited(r"\gamma_1^2N_1")
    assert unneeded.verdict == "refused"
    assert "not needed" in unneeded.detail
    denied = _edited(r"N_1\gamma_1^2", r"N_2\gamma_1^2", wrong)
    assert denied.verdict == "refused"
    assert "denies" in denied.detail
    assert _edited(r"N_2\gamma_1^2", changes_value=True).verdict == "differs"


def test_displays_are_looked_for_in_the_papers_text(tmp_path):
    claim = registry.find(RSTAR)
    (tmp_path / "fedhdp.txt").write_text(f"Words, 𝛾 and $\\displaystyle {claim.latex}$.\n", encoding="utf-8")
    assert not_in_text(claim, tmp_path) == []
    assert not_in_text(replace(claim, latex=claim.latex.replace("N_1", "N_2")), tmp_path)


def test_the_command_lists_and_fails_where_something_differs(capsys):
    assert main([RSTAR, "feo2"]) == 0
    out = capsys.readouterr().out
    assert f"same     {RSTAR}" in out
    assert "0 differs, 0 refused" in out
    with pytest.raises(SystemExit):
        main(["fedhdp:no-such-claim"])
