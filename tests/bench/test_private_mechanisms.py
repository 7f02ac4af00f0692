"""The variances of PRIVATE.md, calculated again: what the page says, and nothing known is more than 2 % better."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import private_mechanisms as mechanisms
import private_rows

PAGE = Path(__file__).with_name("PRIVATE.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", mechanisms.rows(bound=False), ids=lambda row: f"{row.adjacency}-{row.eps:g}")
def test_the_page_has_the_variances_and_none_that_is_known_is_two_percent_better(row):
    assert row.variance <= 1.02 * row.known
    (told,) = [
        line
        for line in PAGE.splitlines()
        if line.startswith(mechanisms.line(row).rsplit("|", 3)[0])  # all but what is known, and the ratio to it
    ]
    if row.adjacency == "row":
        assert told == mechanisms.line(row)
    else:  # the page has the bound, which `test_finite_output` finds again where that is quick
        assert told.split("|")[-3].strip().endswith(f"({mechanisms.NO_MECHANISM})")
        assert 0.9999 < float(told.split("|")[-2]) <= 1.02


@pytest.mark.parametrize("case", [(1, 0.1), (2, 0.1), (2, 1.0), (2, 2.0)])
def test_the_page_has_what_few_rows_tell(case):
    assert private_rows.line(*case) in PAGE.splitlines()


@pytest.mark.parametrize(("n", "eps"), [(1, 0.1), (3, 0.5), (7, 1.0)])
def test_laplace_noise_on_whole_sums_is_read_by_cutting_it_off(n, eps):
    """The reading is then the only one: the value, and at the ends farther out by a / (1 - a), a = e^-eps."""
    a, x = np.exp(-eps), np.arange(n + 1)
    cut = (1 - a) / (1 + a) * a ** np.abs(x[:, None] - x)
    cut[:, 0], cut[:, -1] = a**x / (1 + a), a ** (n - x) / (1 + a)
    said = x - n / 2 + a / (1 - a) * ((x == n) * 1.0 - (x == 0))
    assert np.abs(cut @ said - (x - n / 2)).max() < 1e-9
    least = private_rows.worst_between(cut @ said**2, x - n / 2)
    assert private_rows.read(n, eps, steps=1, rounds=2) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_the_program_for_one_row_finds_randomised_response(eps):
    """Of one bit nothing is better than the coin of Duchi, Jordan and Wainwright; the grid misses its outputs by little."""
    least = np.exp(eps) / np.expm1(eps) ** 2
    assert least * (1 - 1e-6) <= private_rows.program(1, eps, 1, 1.2 * np.sqrt(least)).variance <= 1.02 * least
