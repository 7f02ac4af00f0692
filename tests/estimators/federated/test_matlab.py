"""MATLAB files written byte by byte: what each part may hold, and that every single thing wrong with it is said."""

import struct

import pytest

from estimators.federated.data.matlab import array, cell_arrays, elements, matrix

HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x100) + b"IM"
CELL, SPARSE, DOUBLES = 1, 5, 6


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def ints(*values):
    return struct.pack(f"<{len(values)}i", *values)


def doubles(*values):
    return element(9, struct.pack(f"<{len(values)}d", *values))


def inside(kind, shape, *inner, name=b"", flags=b"\0\0\0\0"):
    """What stands in a matrix of such a kind and shape."""
    parts = element(6, struct.pack("<I", kind) + flags) + element(5, ints(*shape)) + element(1, name)
    return parts + b"".join(inner)


def sparse(shape, rows, begins, values):
    return inside(SPARSE, shape, element(5, ints(*rows)), element(5, ints(*begins)), doubles(*values))


def variable(*cells, shape, kind=14):
    return HEAD + element(14, inside(CELL, shape, *(element(kind, each) for each in cells), name=b"X"))


def test_cells_are_listed_row_by_row_and_their_numbers_stand_where_matlab_has_them():
    one, two = inside(DOUBLES, (2, 2), doubles(1.0, 2.0, 3.0, 4.0)), inside(DOUBLES, (1, 1), doubles(5.0))
    (first, empty, last, text) = cell_arrays(variable(one, two, b"", inside(4, (1, 1), element(2, b"a")), shape=(2, 2)))["X"]
    assert first.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert empty.shape == (0, 0)
    assert last.tolist() == [[5.0]]
    assert text is None
    assert array(inside(DOUBLES | 0x800, (1, 1), doubles(1.0), doubles(2.0)), "<") is None  # complex


@pytest.mark.parametrize("made", [
    variable(b"", b"", b"", shape=(2, 2)),
    variable(inside(DOUBLES, (1, 1), doubles(1.0)), shape=(1, 1), kind=15),
])  # fmt: skip
def test_as_many_cells_as_the_shape_says_are_matrices_each(made):
    with pytest.raises(ValueError, match=r"it has \d cells in place of \d"):
        cell_arrays(made)


@pytest.mark.parametrize("cut", [1, 4, 7])
def test_an_element_without_its_whole_head_is_cut_off(cut):
    with pytest.raises(ValueError, match="it is cut off"):
        list(elements(element(9, b"")[:cut], "<"))


def test_a_small_element_has_four_bytes_at_most():
    """Whatever follows: the fifth would be one of the next element's."""
    for size in (5, 8, 9):
        with pytest.raises(ValueError, match="it is cut off"):
            list(elements(struct.pack("<HH", 1, size) + bytes(28), "<"))


@pytest.mark.parametrize("part", [
    element(6, bytes(4)) + element(5, ints(1, 1)) + element(1, b""),
    element(6, bytes(8)) + element(5, bytes(6)) + element(1, b""),
    element(5, bytes(8)) + element(5, ints(1, 1)) + element(1, b""),
    element(6, bytes(8)) + element(5, ints(1, 1)),
])  # fmt: skip
def test_a_matrix_has_flags_a_shape_and_a_name(part):
    with pytest.raises(ValueError, match="without flags, shape and name"):
        matrix(part, "<")


@pytest.mark.parametrize(
    ("shape", "fine"),
    [
        ((3, 2), True), ((1, 2, 3), True), ((2,) + 31 * (1,), True), (33 * (1,), False), ((4,), False), ((-1, -1), False),
        ((1, 0), True), ((1 << 14, 1 << 14), True), ((1 << 14, (1 << 14) + 1), False),
    ],
)  # fmt: skip
def test_shapes_have_2_to_32_axes_and_no_more_numbers_than_2_gigabytes(shape, fine):
    part = inside(DOUBLES, shape)
    if fine:
        assert matrix(part, "<") == (DOUBLES, shape, "", [])
    else:
        with pytest.raises(ValueError, match="it has a matrix of shape"):
            matrix(part, "<")


def test_a_matrix_has_the_numbers_that_its_shape_says_in_one_element():
    cube = array(inside(DOUBLES, (1, 2, 3), doubles(*range(6))), "<")
    assert cube.tolist() == [[[0, 2, 4], [1, 3, 5]]]
    for inner in ([doubles(*range(5))], [doubles(*range(7))], [doubles(*range(6)), doubles(*range(6))], []):
        with pytest.raises(ValueError, match=r"of shape \(1, 2, 3\) without as many numbers"):
            array(inside(DOUBLES, (1, 2, 3), *inner), "<")
    for kind, size in ((9, 12), (5, 6), (8, 8), (10, 0)):  # 8 and 10 are no types of numbers
        with pytest.raises(ValueError, match=f"it has {size} bytes of type {kind} in place of numbers"):
            array(inside(DOUBLES, (1, 1), element(kind, bytes(size))), "<")


def test_sparse_numbers_stand_in_their_rows_and_columns():
    """Columns may be empty, and there may be room for more numbers than there are."""
    full = [[1.5, 0, 0], [0, 0, 3.5], [2.5, 0, 0], [0, 0, 4.5]]
    for rows, values in (([0, 2, 1, 3], [1.5, 2.5, 3.5, 4.5]), ([0, 2, 1, 3, 9, -1], [1.5, 2.5, 3.5, 4.5, 7.0])):
        found = array(sparse((4, 3), rows, [0, 2, 2, 4], values), "<")
        assert found.tolist() == full
    assert array(sparse((2, 0), [], [0], []), "<").shape == (2, 0)


@pytest.mark.parametrize(
    ("begins", "rows", "values"),
    [
        ([0, 2], [0, 2], [1.0, 2.0]),
        ([0, 1, 2, 2], [0, 2], [1.0, 2.0]),
        ([1, 1, 2], [0, 2], [1.0, 2.0]),
        ([0, 2, 1], [0, 2], [1.0, 2.0]),
        ([0, 1, 3], [0, 2, 1], [1.0, 2.0]),
        ([0, 1, 3], [0, 2], [1.0, 2.0, 3.0]),
    ],
)
def test_columns_of_sparse_numbers_fit(begins, rows, values):
    with pytest.raises(ValueError, match="whose columns do not fit"):
        array(sparse((3, 2), rows, begins, values), "<")


@pytest.mark.parametrize("row", [-1, 3])
def test_rows_of_sparse_numbers_fit(row):
    for rows in ([0, row], [row, 1]):
        with pytest.raises(ValueError, match="whose rows do not fit"):
            array(sparse((3, 2), rows, [0, 1, 2], [1.0, 2.0]), "<")


def test_a_sparse_matrix_has_two_axes_and_three_elements():
    parts = [element(5, ints(0)), element(5, ints(0, 1)), doubles(1.0)]
    assert array(inside(SPARSE, (1, 1), *parts), "<").tolist() == [[1.0]]
    for shape, inner in (((1, 1, 1), parts), ((1, 1), parts[:2]), ((1, 1), [*parts, doubles(1.0)])):
        with pytest.raises(ValueError, match="without rows, columns and numbers"):
            array(inside(SPARSE, shape, *inner), "<")
