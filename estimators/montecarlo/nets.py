"""Randomised nets: points that fill the unit cube more evenly than independent ones, each of them uniform.

Belongs here: Sobol' points, their scrambling, what a kernel needs to walk through them, and a stand-in for a NumPy
``Generator`` that hands out their coordinates.  Does not belong here: compiled loops (``kernels``, where a net and a
generator are two sources of the same normals), running replications (``runner``), deciding (``randomisations``).

The points: Sobol' with the direction numbers of Joe and Kuo (2008, 21,201 dimensions), as SciPy ships them, in 32 bits.

The randomisation: a random lower triangular matrix over the bits of every coordinate (Matousek 1998, "On the L2-discrepancy
for anchored boxes") and then a random digital shift.  Every single point is uniform, so means over a randomised net are
unbiased for *any* integrand; two randomisations are independent, so their spread gives a standard error.  Scrambling the
direction numbers costs nothing per point: a coordinate is one exclusive or.  Owen's nested scrambling, by hashing, costs
some ten operations per coordinate and gave no smaller error: for two statistics of 15 draws, the ratio of its standard
deviation to ours was 0.99 and 1.03 with 2^12 points, 1.05 and 1.03 with 2^15 (200 randomisations or more each).

The order: points come in blocks of `LANES` consecutive ones; blocks follow a Gray code, so that the next block differs from
this one by one direction number.  The first 2^m points, m >= log2(LANES), are the first 2^m Sobol' points in another order.

A coordinate is the centre of a cell, (x + 1/2) / 2^32 with a 32-bit integer x: never 0 or 1, so normals are finite (at most
6.34), and the variance of a normal made so is too small by 1.2e-9, which no statistic here can see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from estimators.numerics.arrays import Floats

from .smoothness import NoNet, Smooth, bare
from .streams import DEFAULT_ROOT, stream

LANES = 64
"""Points of a block, as in ``kernels``."""

BITS = 32
"""Bits of a coordinate; a net has at most 2^32 points."""

MAX_DIMENSIONS = 21_201
"""Dimensions for which there are direction numbers."""

PARTS = 32  # of every octave of the quantile's table
ODD = 1_987  # replicates of a trial, a number that is nothing else's length
DEGREE = 6  # of its polynomials; this and PARTS keep every normal within 8 ulp of scipy.special.ndtri
LOWEST = -33  # half a cell is 2**LOWEST


class Net(NamedTuple):
    """A place in one randomised net, from which a kernel draws normals as from a generator.

    Parameters
    ----------
    block : int array, shape (2,)
        Number of the next block, changed by drawing, and how many blocks the net has.
    base : uint32 array, shape (D,)
        First point of the next block, changed by drawing.
    within : uint32 array, shape (D, LANES)
        What tells the points of a block from its first one.
    steps : uint32 array, shape (D, BITS)
        Scrambled direction numbers.
    quantile : float array
        `quantile_table`.
    """

    block: np.ndarray
    base: np.ndarray
    within: np.ndarray
    steps: np.ndarray
    quantile: np.ndarray


def net(key: str, replication: int, log2_points: int, order: np.ndarray, root: int = DEFAULT_ROOT) -> Net:
    """Start of one randomised net.

    Parameters
    ----------
    key : str
    replication : int, >= 0
        Each has its own stream (see `streams.stream`), hence its own scrambling and shift.
    log2_points : int, from log2(LANES) = 6 to BITS
    order : int array, shape (D,)
        The Sobol' coordinate that serves each draw, a permutation of 0 .. D - 1.
    root : int
        Root seed.

    Raises
    ------
    ValueError
        If there are more dimensions than `MAX_DIMENSIONS`, or too few or too many points.

    Examples
    --------
    >>> from estimators.montecarlo.nets import Drawn
    >>> points = Drawn(net("doctest", 0, 8, np.arange(2)), 256).random((256, 2))
    >>> counts, *_ = np.histogram2d(*points.T, bins=[4, 64], range=[[0, 1], [0, 1]])
    >>> bool(np.all(counts == 1))  # one point in each of 256 boxes
    True
    """
    order = np.asarray(order)
    dimensions = len(order)
    if not np.array_equal(np.sort(order), np.arange(dimensions)):
        raise ValueError(f"order must be a permutation of 0 .. {dimensions - 1}, got {order}")
    if not LANES.bit_length() - 1 <= index(log2_points) <= BITS:
        raise ValueError(f"log2_points must be in {LANES.bit_length() - 1} .. {BITS}, got {log2_points}")
    from .kernels import scramble

    plain = directions(dimensions)
    gen = stream(f"{key}#net", replication, root)
    # One row of random numbers per Sobol' coordinate: the columns of its matrix below the diagonal, then its shift.
    random = gen.integers(0, 2**BITS, (dimensions, BITS + 1), dtype=np.uint32)
    steps, within = scramble(plain[order], random[order])
    return Net(np.array([0, 2**log2_points // LANES]), random[order, BITS], within, steps, quantile_table())


def at(start: Net, block: int) -> Net:
    """The same net, at a block that may be anywhere in it: workers begin there without drawing what comes before."""
    if not 0 <= block < start.block[1]:
        raise ValueError(f"block must be in 0 .. {start.block[1] - 1}, got {block}")
    if start.block[0] != 0:
        raise ValueError(f"start must be the start of a net, got its block {start.block[0]}")
    base, gray = start.base.copy(), block ^ block >> 1
    for bit in range(gray.bit_length()):
        if gray >> bit & 1:
            base ^= start.steps[:, LANES.bit_length() - 1 + bit]
    return start._replace(block=np.array([block, start.block[1]]), base=base)


@cache
def directions(dimensions: int) -> np.ndarray:
    """Direction numbers of the Sobol' points, left-aligned in 32 bits, shape (dimensions, BITS)."""
    from scipy.stats import qmc

    if not 1 <= dimensions <= MAX_DIMENSIONS:
        raise ValueError(
            f"a net needs 1 .. {MAX_DIMENSIONS} dimensions, got {dimensions}: there are no direction numbers for more "
            "draws per replicate; use plain draws"
        )
    # SciPy keeps them in an attribute of its engine; a test compares our points with those that the engine draws.
    numbers = np.array(qmc.Sobol(dimensions, scramble=False, bits=BITS)._sv, dtype=np.uint32)
    numbers.setflags(write=False)
    return numbers


@cache
def quantile_table() -> np.ndarray:
    """Polynomials that give a standard normal from a uniform, shape (-LOWEST * PARTS, 1 + DEGREE).

    With p <= 1/2 the probability beyond, the normal is (1/2 - p) T(p), where T = -ndtri(p) / (1/2 - p) is smooth up to 1/2.
    Every octave of p is parted in `PARTS`; row by row stand the coefficients of the polynomial through
    ``scipy.special.ndtri`` at Chebyshev points, in t from -1 to 1 along the part.
    """
    from numpy.polynomial import chebyshev
    from scipy.special import ndtri

    octave, part = np.divmod(np.arange(-LOWEST * PARTS), PARTS)
    nodes = chebyshev.chebpts1(1 + DEGREE)
    p = 2.0 ** (octave[:, None] + LOWEST) * (1 + (part[:, None] + (nodes + 1) / 2) / PARTS)
    values = -ndtri(p) / (0.5 - p)
    to_powers = np.zeros((1 + DEGREE, 1 + DEGREE))
    for k in range(1 + DEGREE):
        to_powers[: k + 1, k] = chebyshev.cheb2poly(np.eye(1 + DEGREE)[k])[: k + 1]
    rows = np.linalg.solve(chebyshev.chebvander(nodes, DEGREE), values.T)
    table = np.ascontiguousarray((to_powers @ rows).T)
    table.setflags(write=False)
    return table


class _Served(np.random.Generator):
    """A generator with the few methods that a net can serve; a subclass, so that functions that ask for one take it."""

    def __init__(self, bits: Any) -> None:
        super().__init__(bits)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in SERVED:
            raise NoNet(f"it draws by {name}, which is not a quantile of a uniform here")
        return super().__getattribute__(name)

    def _uniforms(self, size: Any) -> Any:
        raise NotImplementedError

    def _normals(self, size: Any) -> Any:
        raise NotImplementedError

    def random(self, size: Any = None, dtype: Any = float, out: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Uniforms on (0, 1)."""
        _plainly(dtype, out)
        return self._uniforms(size)

    def standard_normal(self, size: Any = None, dtype: Any = float, out: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Standard normals."""
        _plainly(dtype, out)
        return self._normals(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normals with mean `loc` and standard deviation `scale`."""
        return loc + scale * self._normals(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniforms on (low, high)."""
        return low + (high - low) * self._uniforms(size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponentials with mean `scale`."""
        return -scale * np.log1p(-self._uniforms(size))

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Gumbel's law."""
        return loc - scale * np.log(-np.log(self._uniforms(size)))


SERVED = {name for name in vars(_Served) if not name.startswith("_")}
"""Methods of a generator that a net serves, each by the quantile of its law."""


class Drawn(_Served):
    """A NumPy generator whose uniforms and normals are the coordinates of the next points of a net.

    Every call takes the next coordinates of the `rows` points: one axis of what is asked for must have the length `rows`,
    the others are coordinates, in the order in which they lie in memory.  The net itself does not move on (`draw_on`).

    Parameters
    ----------
    source : Net
    rows : int
        Points; where they are no whole number of blocks, the rest of the last block is left out.
    """

    def __init__(self, source: Net, rows: int) -> None:
        super().__init__(np.random.SFC64(0))  # never drawn from
        self._source, self._rows, self._taken = source, index(rows), 0

    def _uniforms(self, size: Any) -> np.ndarray:
        from .kernels import net_uniforms

        return self._coordinates(size, net_uniforms)

    def _normals(self, size: Any) -> np.ndarray:
        from .kernels import net_normals

        return self._coordinates(size, net_normals)

    def _coordinates(self, size: Any, fill: Any) -> np.ndarray:
        shape, axis = _axis(size, self._rows)
        count = prod(shape) // self._rows
        block, base, within, steps, quantile = self._source
        some = slice(self._taken, self._taken + count)
        self._taken += count
        if self._taken > len(base):
            raise ValueError(
                f"a replicate takes coordinate {self._taken} of a net that has {len(base)}: a replicate must always take "
                "as many draws as the experiment says, or use plain draws"
            )
        blocks = np.empty((-(-self._rows // LANES), count, LANES))
        fill(Net(block.copy(), base[some].copy(), within[some], steps[some], quantile), blocks)
        rows = blocks.transpose(1, 0, 2).reshape(count, -1)[:, : self._rows]
        others = [n for k, n in enumerate(shape) if k != axis]
        return np.ascontiguousarray(np.moveaxis(rows.reshape(*others, self._rows), -1, axis))


def draw_on(draw: Callable[[np.random.Generator, int], Any], source: Net, rows: int) -> Any:
    """``draw(generator, rows)`` on the next `rows` points of a net, which are used up then."""
    from .kernels import skip_blocks

    found = draw(Drawn(source, rows), rows)
    skip_blocks(source, -(-rows // LANES))
    return found


class _Counted(_Served):
    """A generator that counts the coordinates that a net would have to hand out; its draws allow smooth functions only."""

    def __init__(self, rows: int, seed: int) -> None:
        super().__init__(np.random.SFC64(0))
        self._rows, self._taken = rows, 0
        self._plain = np.random.Generator(np.random.SFC64(seed))

    def _uniforms(self, size: Any) -> Any:
        self._taken += prod(_axis(size, self._rows)[0]) // self._rows
        return Smooth(self._plain.random(size))

    def _normals(self, size: Any) -> Any:
        self._taken += prod(_axis(size, self._rows)[0]) // self._rows
        return Smooth(self._plain.standard_normal(size))


def _plainly(dtype: Any, out: Any) -> None:
    if np.dtype(dtype) != np.float64 or out is not None:
        raise NoNet("it draws numbers of another kind than float64, or into an array of its own")


def _axis(size: Any, rows: int) -> tuple[tuple[int, ...], int]:
    """Shape that is asked for, and the axis of the replicates."""
    shape = () if size is None else (size,) if np.ndim(size) == 0 else tuple(size)
    axes = [k for k, n in enumerate(shape) if n == rows]
    if len(axes) != 1:
        raise NoNet(f"it asks for draws of shape {shape}, where no axis, or more than one, counts {rows} replicates")
    return shape, axes[0]


def dimensions_of(draw: Callable[[np.random.Generator, int], Any]) -> int:
    """How many coordinates ``draw(gen, reps)`` takes for one replicate.

    Raises
    ------
    NoNet
        If it draws what a net does not have, not the same number for every replicate, or uses its draws otherwise than by
        smooth functions (``smoothness``).
    ValueError
        If what it returns does not follow from what it draws from the generator that is passed in.
    """
    (first, count), (again, _), (other, _), (_, of_more) = (
        _counted(draw, rows, seed) for rows, seed in ((ODD, 0), (ODD, 0), (ODD, 1), (2 * ODD + 1, 2))
    )
    if count != of_more:
        raise NoNet("the number of draws per replicate is random")
    if not count or not np.array_equal(first, again, equal_nan=True):
        raise ValueError("experiment: its randomness comes from elsewhere; draw from the generator that is passed in")
    if np.array_equal(first, other, equal_nan=True) and np.any(np.ptp(first, axis=0) > 0):
        raise ValueError(
            "experiment: its randomness comes from elsewhere and repeats; draw from the generator that is passed in"
        )
    return count


def _counted(draw: Callable[[np.random.Generator, int], Any], rows: int, seed: int) -> tuple[np.ndarray, int]:
    """A sample of so many replicates, and the coordinates taken for each."""
    gen = _Counted(rows, seed)
    sample = draw(gen, rows)
    if not isinstance(sample, Smooth):
        raise NoNet("it returns numbers that do not come from its draws by smooth functions")
    return np.asarray(bare(sample), float), gen._taken


def uniforms(source: Net, rows: int) -> Floats:
    """The next `rows` points of a net, shape (rows, D): the plain twin of what kernels compute, for tests."""
    lanes = source.within.T[:, None, :].astype(np.int64)
    blocks = np.arange(source.block[0], source.block[0] + rows // LANES)
    gray = blocks ^ blocks >> 1 ^ int(source.block[0]) ^ int(source.block[0]) >> 1
    first = np.tile(source.base.astype(np.int64), (len(blocks), 1))
    for bit in range(BITS - LANES.bit_length() + 1):
        first ^= np.where((gray >> bit & 1)[:, None], source.steps[:, LANES.bit_length() - 1 + bit].astype(np.int64), 0)
    points = (lanes ^ first).transpose(1, 0, 2).reshape(-1, len(source.base))
    return np.asarray((points + 0.5) / 2.0**BITS, dtype=np.float64)
