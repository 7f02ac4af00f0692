"""Reports and raw rows at the ends of what is taken, and what is said of the rest: positions, never values."""

import dataclasses
import hashlib
import json
import sys

import numpy as np
import pytest

from estimators.accounting import Guarantee
from estimators.private import MeanReport, RateReport, RegressionReport, read_report, read_reports
from estimators.private.raw_rows import (
    complaint,
    exact_sums,
    mean_of,
    raw,
    read_answers,
    read_names,
    read_rows,
    read_samples,
)
from estimators.private.reports import checksum, low_high

PROMISE = Guarantee(1.0, 1e-6, "row", "client", "gaussian")
MEAN = MeanReport("a", 5, PROMISE, 1.5, 0.5, 0.1, (0.0, 4.0))
RATE = RateReport("b", 5, PROMISE, "ones", 5, 2.5, 0.5)
PRODUCTS = RegressionReport("c", 5, PROMISE, ((1.0, 2.0), (2.0, 5.0)), 0.5, 1.5)


@pytest.mark.parametrize("form", [tuple, list, np.array])
def test_bounds_may_be_as_near_and_as_far_as_fourth_powers_bear(form):
    for low, high in ((0.0, 1e-70), (-0.5e70, 0.5e70), (0.0, 1.0)):
        assert low_high("bounds", form([low, high])) == (low, high)
    for low, high in ((0.0, 0.99e-70), (-0.51e70, 0.5e70)):
        with pytest.raises(ValueError, match="bounds must be 1e-70 to 1e\\+70 apart"):
            low_high("bounds", form([low, high]))
    for wrong in ([1.0, 1.0], [2.0, 1.0], [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="must be a pair"):
            low_high("bounds", form(wrong))


def test_numbers_of_reports_are_taken_beyond_the_ordinary_ones():
    """Numbers up to 1e15 are looked at quickly, others slowly, with the same answer."""
    for value in (0.0, -1e15, 1e15, 1.1e15, -3e200):
        assert dataclasses.replace(MEAN, estimate=value).estimate == value
    for name in ("noise_variance", "rounding_variance"):
        for value in (0.0, 1e15, 2e15):
            assert getattr(dataclasses.replace(MEAN, **{name: value}), name) == value
        with pytest.raises(ValueError, match=f"{name} must be >= 0"):
            dataclasses.replace(MEAN, **{name: -1e-300})
    for n in (1, 10**15, 10**15 + 1):
        assert dataclasses.replace(MEAN, n=n).n == n
    for n in (0, -1, 1.5, 10**400, -(10**400), np.inf, np.nan):
        with pytest.raises(ValueError, match=r"n (must|holds NaN)"):
            dataclasses.replace(MEAN, n=n)
    assert dataclasses.replace(MEAN, estimate=int(sys.float_info.max)).estimate == sys.float_info.max
    for wrong in (True, "1", None, np.nan, np.inf, [1.0], 10**400, -(10**400)):
        with pytest.raises(ValueError, match="estimate"):
            dataclasses.replace(MEAN, estimate=wrong)
    for wrong, why in (({"variance": 1.0}, "both be given"), ({"variance_noise": 1.0}, "both be given"),
                       ({"variance": 1.0, "variance_noise": -1.0}, "variance_noise must be >= 0"),
                       ({"client": 7}, "client must be a string"),
                       ({"guarantee": None}, "must be a Guarantee")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            dataclasses.replace(MEAN, **wrong)
    assert dataclasses.replace(MEAN, variance=-1.0, variance_noise=0.0).variance == -1.0
    for wrong, why in (({"trials": 0}, "trials"), ({"statistic": "twos"}, "statistic"), ({"noise_variance": -1.0}, "noise")):
        with pytest.raises(ValueError, match=why):
            dataclasses.replace(RATE, **wrong)
    for wrong, why in (({"products": ((1.0,),)}, "at least two rows"), ({"products": ((1.0, 2.0), (2.1, 1.0))}, "symmetric"),
                       ({"products": ((1.0, 2.0, 3.0), (2.0, 1.0, 3.0))}, "square"), ({"norm": 0.0}, "norm must be > 0"),
                       ({"noise_variance": -1.0}, "noise_variance")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            dataclasses.replace(PRODUCTS, **wrong)


def test_products_are_tuples_of_floats_whatever_they_come_in_and_none_but_symmetric_numbers_pass():
    for form in (np.array, list, lambda m: [list(row) for row in m], lambda m: tuple(map(list, m))):
        made = dataclasses.replace(PRODUCTS, products=form(((1, 2.0), (2.0, 5))))
        assert made == PRODUCTS
        assert type(made.products) is tuple
        assert {type(value) for row in made.products for value in row} == {float}
    far = ((1e300, 2.0), (2.0, 5.0))
    assert dataclasses.replace(PRODUCTS, products=far).products == far
    for wrong, why in ((((np.nan, 2.0), (2.0, 5.0)), "NaN"), (((np.inf, 2.0), (2.0, 5.0)), "infinity"),
                       (((1e300, 2.0), (2.1, 5.0)), "symmetric"), (((1.0,), (1.0, 2.0, 3.0)), "products"),
                       (((1.0, 2.0), (2.0,)), "products"), (((1.0, True), (True, 1.0)), "products"), ((), "square matrix"),
                       (((1.0, "2"), ("2", 5.0)), "products"), ("12", "products"), (None, "products")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            dataclasses.replace(PRODUCTS, products=wrong)


@pytest.mark.parametrize("report", [MEAN, RATE, PRODUCTS, dataclasses.replace(MEAN, variance=2.0, variance_noise=0.1)])
def test_reports_come_back_from_their_text_and_no_other_text(report):
    text = report.to_json()
    assert read_report(text) == report
    content = json.loads(text)
    told = content.pop("checksum")
    assert told == checksum(content) == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    assert content["version"] == 1
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            checksum({**content, "n": wrong})
    for change, why in (({"n": 6}, "does not fit its checksum"), ({"version": 2}, "version 2; this program reads version 1"),
                        ({"version": True}, "version"), ({"kind": "Other"}, "kind 'Other'"),
                        ({"more": 1}, "unknown entries")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            read_report(json.dumps({**content, **change, "checksum": told}))
    lacking = {name: value for name, value in content.items() if name != "n"}
    with pytest.raises(ValueError, match=r"report lacks n$"):
        read_report(json.dumps({**lacking, "checksum": told}))
    huge = json.loads(json.dumps(content))
    huge["n"] = 10**400  # which no float holds
    with pytest.raises(ValueError, match="more than 19 digits"):
        read_report(json.dumps({**huge, "checksum": checksum(huge)}))
    for wrong in ("[]", "7", "null"):
        with pytest.raises(ValueError, match="must be a JSON object"):
            read_report(wrong)


def test_lines_of_reports_are_counted_from_one():
    one, two = MEAN.to_json(), RATE.to_json()
    assert read_reports(f"{one}\n\n{two}\n") == [MEAN, RATE] == read_reports([one, "  ", two])
    with pytest.raises(ValueError, match="line 4: client 'a' has reported in line 1 already"):
        read_reports(f"{one}\n\n{two}\n{one}")
    with pytest.raises(ValueError, match="line 2: "):
        read_reports([one, "{"])


def test_raw_rows_are_refused_by_position_and_never_by_value():
    secret = 1234.5
    masked = np.ma.masked_array([1.0, secret], [False, True])
    for values, why in (
        ([1.0, np.nan, secret], "position 1 is NaN"), ([secret, 2.0, -np.inf], "position 2 is an infinity"),
        ([secret, "x"], "position 1 is no number"), (masked, "position 1 is masked"), (np.nan, "what was given is NaN"),
        ([[secret, 1.0], [2.0]], "position 1 has another length"), ([[1.0, secret], [1.0, np.nan]], "position 1, 1 is NaN"),
        ([1 + 2j], "position 0 is no number"), ([[1.0], 2.0, [3.0, secret]], "position 1 has another length"),
        ([True, False], "of a kind that is not taken for numbers"),
    ):  # fmt: skip
        assert why in complaint(values)
        with pytest.raises(ValueError, match="rows must be an array of finite numbers") as caught:
            read_rows(values)
        assert "1234" not in str(caught.value)
        assert caught.value.__context__ is None
    for empty in ([], [[1.0]], 3.0):
        with pytest.raises(ValueError, match="1-d array with at least one value"):
            read_rows(empty)
    assert read_answers([True, False, 1.0]).tolist() == [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="the entry at position 2 is neither"):
        read_answers([1, 0, 0.5])


def test_samples_and_names_are_one_for_each_client():
    plain = [np.array([1.0, 2.0]), np.array([3.0])]
    for samples in (plain, [[1.0, 2.0], [3.0]], [np.array([1, 2]), np.array([3])]):
        assert [rows.tolist() for rows in read_samples(samples)] == [[1.0, 2.0], [3.0]]
        assert {rows.dtype for rows in read_samples(samples)} == {np.dtype(float)}
    for table in ([np.ones((2, 2)), np.ones((3, 2))], [np.ones((2, 1))], [np.array([True, False])]):
        with pytest.raises(ValueError, match=r"samples\[0\] must be"):
            read_samples(table)
    with pytest.raises(ValueError, match="of a kind that is not taken for numbers"):
        raw("rows", [True, False])
    assert raw("rows", [True, False], booleans=True).tolist() == [1.0, 0.0]
    for wrong, why in (([], "at least one client"), ([plain[0], np.array([])], r"samples\[1\] must be a 1-d"),
                       (7, "list with the rows"),
                       ([plain[0], np.array([1.0, np.inf])], r"samples\[1\].*position 1 is an infinity")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            read_samples(wrong)
    assert read_names(("a", "b"), 2) == ["a", "b"]
    for wrong, m, why in ((["a"], 2, "must be 2 strings"), (["a", 1], 2, "must be 2 strings"),
                          (["a", "b", "a"], 3, "names hold 'a' twice")):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            read_names(wrong, m)


def test_sums_are_exact_beyond_words_and_means_beyond_floats():
    values = np.array([2**62, 2**62, 2**62, 2**62 - 1, 2**33 + 5, 7])
    assert exact_sums(values, np.array([4, 2])) == [4 * 2**62 - 1, 2**33 + 12]
    assert mean_of(np.array([1.0, 2.0, 6.0])) == 3.0
    assert mean_of(np.array([1.5e308, 1.5e308, 0.0])) == pytest.approx(1e308)
