"""What an annotation asks for, of values on both sides of it."""

import numpy as np
import pytest

from estimators.federated import kinds
from estimators.federated.numpy_backend import NumpyBackend


@pytest.mark.parametrize("value", [2, -0.5, np.float32(1), np.int8(3), np.array(2), np.array(0.5), np.nan])
def test_one_number_is_a_number(value):
    assert kinds.number(value)


@pytest.mark.parametrize(
    "value",
    [True, np.True_, np.array(True), np.array([2.0]), np.array([1, 2]), np.array("a"), "1", None, [1], 1j],
)
def test_lists_text_and_booleans_are_no_number(value):
    assert not kinds.number(value)
    assert not kinds.whole(value)


def test_whole_numbers_are_those_that_arrays_hold():
    for value in (5, 5.0, -3, np.array(4.0), 2**63 - 1, np.uint8(7)):
        assert kinds.whole(value)
    for value in (5.5, np.nan, np.inf, 2**64, 1e300):
        assert not kinds.whole(value)


def test_lists_are_what_has_a_length_and_is_no_text():
    for value in ([], (1,), np.zeros(2), {1, 2}, range(3)):
        assert kinds.several(value)
    for value in ("ab", b"ab", {"a": 1}, np.array(2.0), np.float64(1), 3, None):
        assert not kinds.several(value)


def test_classes_have_their_article():
    assert [kinds.one(kind) for kind in ("Event", "Algorithm", "Mixture", "Task", "Examples")] == [
        "an Event", "an Algorithm", "a Mixture", "a Task", "Examples",
    ]  # fmt: skip


@pytest.mark.parametrize("annotation", ["", "Any", "int | Any", "ArrayLike | None", "np.ndarray", "Literal['a']"])
def test_of_some_annotations_nothing_is_asked(annotation):
    assert kinds.test_of(annotation) is None


def test_unions_ask_for_one_of_their_kinds():
    words, fits = kinds.test_of("tuple[int, int] | str | None")
    assert words == "2 entries or text"
    for value, fine in (
        ((1, 2), True),
        ([1, 2], True),
        ("ab", True),
        (None, True),
        ((1,), False),
        ((1, 2, 3), False),
        (2, False),
    ):
        assert fits(value) is fine
    words, fits = kinds.test_of("Sequence[str]")
    assert words == "a list"
    assert not fits(None)


def test_a_backend_is_one_that_was_made():
    fits = kinds.named("Backend")
    assert fits(NumpyBackend())
    assert not fits(NumpyBackend)
    assert not fits(object())
    assert kinds.named("Reader")(type("Mine", (type("Reader", (), {}),), {})())
    assert not kinds.named("Reader")(3)
