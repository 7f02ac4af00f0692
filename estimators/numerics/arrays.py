"""Names of types for annotations: what users may hand in, and the arrays that come out.

Belongs here: the few types that all rooms share. Does not belong here: checks of what was handed in (``validation``).

A formula of numbers is annotated `Floats` although plain numbers give it a NumPy scalar: to a type checker that is an array
without axes, which does all that the scalar does.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "Bools", "Floats", "Ints", "Numbers"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Numbers: TypeAlias = float | Floats
