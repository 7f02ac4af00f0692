"""Lists with one design and one response vector per client, checked.

Belongs here: reading such lists.  Does not belong here: what a model makes of them (``regression``, ``closed_forms``).
"""

from collections.abc import Sequence

from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.validation import finite, listing, real, same_labels

__all__ = ["all_finite", "read_rows"]


def read_rows(Xs: Sequence[ArrayLike], Ys: Sequence[ArrayLike] | None) -> tuple[list[Floats], list[Floats]]:
    """Return the lists of designs (n_i, d) and responses (n_i,), of equal d, in which NaN is left to the caller.

    Responses may be True and False, for yes and no.
    """
    Xs = listing("Xs", Xs)
    Ys = None if Ys is None else listing("Ys", Ys)
    if Ys is None or len(Xs) != len(Ys) or len(Xs) == 0:
        got = "none" if Ys is None else len(Ys)
        raise ValueError(f"Xs and Ys need one entry per client each, got {len(Xs)} and {got}")
    designs, responses = [], []
    for i, (X, Y) in enumerate(zip(Xs, Ys, strict=True)):
        X, Y = same_labels(**{f"Xs[{i}]": X, f"Ys[{i}]": Y}).values()
        X, Y = real(f"Xs[{i}]", X), real(f"Ys[{i}]", Y, booleans=True)
        if X.ndim != 2 or X.shape[1] == 0 or Y.shape != X.shape[:1]:
            raise ValueError(f"Xs[{i}] must be (samples, coefficients) and Ys[{i}] (samples,), got {X.shape} and {Y.shape}")
        designs.append(X)
        responses.append(Y)
    widths = {X.shape[1] for X in designs}
    if len(widths) > 1:
        raise ValueError(f"Xs must agree in their number of columns, got {sorted(widths)}")
    return designs, responses


def all_finite(designs: Sequence[Floats], responses: Sequence[Floats]) -> None:
    """Raise ValueError naming the client whose numbers are not finite."""
    for i, (X, Y) in enumerate(zip(designs, responses, strict=True)):
        finite(f"Xs[{i}]", X)
        finite(f"Ys[{i}]", Y)
