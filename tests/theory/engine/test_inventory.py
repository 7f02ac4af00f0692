"""The inventory of what a paper states: the check sees each kind of gap, and the papers' own inventories have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from theory.engine import inventory, registry
from theory.engine.inventory import Item
from theory.engine.paper import papers
from theory.engine.problem import Malformed

TEXTS = Path(__file__).resolve().parents[4] / "shared" / "papers"
LINES = [
    "A title",
    "",
    "Theorem 2. The risk is smaller, and better by far than it was.",
    r"$$r = \\frac{a}{b}, \\quad (7)$$",
    "We gain 3.5% and 2 times as much.",
    "The estimator always wins.",
]
GOOD = (
    Item(lines="1", place="Title", what="title", reason="furniture"),
    Item(lines="3", place="Theorem 2", what="risk", claims=("feo2:lemma1",)),
    Item(lines="4", place="Section 1, (7)", what="ratio", claims=("feo2:lemma1",)),
    Item(lines="5", place="Section 1", what="gains", reason="training", quotes=("3.5%", "2 times")),
    Item(lines="6", place="Section 1", what="praise", reason="unquantified"),
)


def gaps(items: tuple[Item, ...]) -> list[str]:
    return list(inventory._gaps("feo2", items, LINES))


def test_a_whole_inventory_has_no_gap() -> None:
    assert gaps(GOOD) == []


@pytest.mark.parametrize("left_out", range(len(GOOD)))
def test_each_item_is_missed(left_out: int) -> None:
    found = gaps(GOOD[:left_out] + GOOD[left_out + 1 :])
    assert found
    assert all("no item covers it" in gap for gap in found)


@pytest.mark.parametrize(
    ("number", "instead", "said"),
    [
        (1, Item(lines="3", place="Theorem 2", what="x", reason="prose"), "passed over"),
        (1, Item(lines="3", place="a theorem", what="x", claims=("feo2:lemma1",)), "names Theorem 2"),
        (2, Item(lines="4", place="Section 1", what="x", claims=("feo2:lemma1",)), "(7)"),
        (3, Item(lines="5", place="Section 1", what="x", reason="training", quotes=("3.5%",)), "2 times"),
        (4, Item(lines="6", place="Section 1", what="x", reason="prose"), "'always' is passed over"),
        (4, Item(lines="6-9", place="Section 1", what="x", reason="unquantified"), "beyond the end"),
    ],
)
def test_each_slip_is_seen(number: int, instead: Item, said: str) -> None:
    found = gaps((*GOOD[:number], instead, *GOOD[number + 1 :]))
    assert any(said in gap for gap in found), found


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lines": "9-3", "reason": "prose"}, "lines"),
        ({"lines": "3"}, "neither"),
        ({"lines": "3", "reason": "prose", "claims": ("feo2:lemma1",)}, "both"),
        ({"lines": "3", "reason": "boring"}, "take one of"),
    ],
)
def test_items_keep_the_house_rules(fields: dict, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        Item(place="Section 1", what="x", **fields)


@pytest.mark.parametrize("paper", [key for key, paper in papers().items() if paper.own])
def test_the_inventory_of_a_paper_has_no_gap(paper: str) -> None:
    if not inventory.items(paper):
        pytest.skip(f"no inventory of {paper} yet")
    file = TEXTS / f"{paper}.txt"
    text = file.read_text(encoding="utf-8") if file.exists() else None
    assert inventory.gaps(paper, text) == []
    if text is None:
        pytest.skip(f"the text of {paper} is not at hand: only the ids were checked")
    assert inventory.gaps(paper, text + "\nmore")[0].startswith(f"{paper}: the text is not the one")


def test_every_own_claim_is_reached_from_the_text_or_is_ours() -> None:
    for key, paper in papers().items():
        if paper.own and inventory.items(key):
            assert inventory.unmapped(key) == []
            assert all(registry.known(c) for i in inventory.items(key) for c in i.claims)
