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

from . import laws
from .laws import tabled
from .smoothness import NoNet, Smooth, bare
from .streams import DEFAULT_ROOT, stream

LANES = 64
"""Points of a block, as in ``kernels``."""

BITS = 32
"""Bits of a coordinate; a net has at most 2^32 points."""

MAX_DIMENSIONS = 21_201
"""Dimensions for which there are direction numbers."""


ODD = 1_987  # replicates of a trial, a number that is nothing else's length


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
    """`tabled` polynomials that give a standard normal from a uniform.

    With p <= 1/2 the probability beyond, the normal is (1/2 - p) T(p), where T = -ndtri(p) / (1/2 - p) is smooth up to 1/2.
    """
    from scipy.special import ndtri

    return tabled(lambda p: -ndtri(p) / (0.5 - p))


class _Served(np.random.Generator):
    """A generator with the methods that a net can serve; a subclass, so that functions that ask for one take it."""

    def __init__(self, bits: Any) -> None:
        super().__init__(bits)

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name not in SERVED and hasattr(np.random.Generator, name):
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

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Beta's law."""
        return laws.beta(self._uniforms(_size(size, a, b)), a, b)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """Chi-square's law."""
        return 2 * laws.gamma(self._uniforms(_size(size, df)), np.asarray(df) / 2)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Binomial counts."""
        return laws.binomial(self._uniforms(_size(size, n, p)), n, p)

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Trials up to the first success."""
        return laws.geometric(self._uniforms(_size(size, p)), p)

    def logseries(self, p: Any, size: Any = None) -> Any:
        """The logarithmic law."""
        return laws.logarithmic(self._uniforms(_size(size, p)), p)

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Failures before so many successes."""
        return laws.failures(self._uniforms(_size(size, n, p)), n, p)

    def integers(self, low: Any, high: Any = None, size: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Integers from `low`, or 0, to below `high`, or `low`."""
        low, high = (0, low) if high is None else (low, high)
        return low + laws.floor((high - low) * self._uniforms(size))

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One of `a`, each with its probability."""
        if not replace:
            raise NoNet("it draws without replacement, which is not a quantile of a uniform here")
        values = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        share = np.full(len(values), 1 / len(values)) if p is None else np.asarray(p, float)
        return values[laws.counted(self._uniforms(size), share)]


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
        return self._coordinates(size, False)

    def _normals(self, size: Any) -> np.ndarray:
        return self._coordinates(size, True)

    def _coordinates(self, size: Any, normal: bool) -> np.ndarray:
        from .kernels import net_coordinates

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
        blocks = np.empty((count, -(-self._rows // LANES), LANES))
        place = Net(block.copy(), base[some].copy(), within[some], steps[some], quantile)
        net_coordinates(place, blocks, 0, blocks.shape[1], normal)
        return _placed(blocks, shape, axis)


def draw_on(draw: Callable[[np.random.Generator, int], Any], source: Net, rows: int) -> Any:
    """``draw(generator, rows)`` on the next `rows` points of a net, which are used up then."""
    from .kernels import skip_blocks

    found = draw(Drawn(source, rows), rows)
    skip_blocks(source, -(-rows // LANES))
    return found


class Strata(_Served):
    """A generator whose uniforms and normals are the coordinates of the points of many small nets, one after another.

    Parameters
    ----------
    random : uint32 array, shape (nets, D, BITS + 1)
        The scrambling of each net.
    log2_points : int
    """

    def __init__(self, random: np.ndarray, log2_points: int) -> None:
        super().__init__(np.random.SFC64(0))  # never drawn from
        self._random, self._size, self._taken = random, index(log2_points), 0

    def _uniforms(self, size: Any) -> np.ndarray:
        return self._coordinates(size, False)

    def _normals(self, size: Any) -> np.ndarray:
        return self._coordinates(size, True)

    def _coordinates(self, size: Any, normal: bool) -> np.ndarray:
        from .kernels import strata

        nets, dimensions, _ = self._random.shape
        shape, axis = _axis(size, nets << self._size)
        count = prod(shape) // (nets << self._size)
        some = slice(self._taken, self._taken + count)
        self._taken += count
        if self._taken > dimensions:
            raise ValueError("a replicate must always take as many draws, or use plain draws")
        blocks = np.empty((count, (nets << self._size) // LANES, LANES))
        steps, within = np.empty((count, BITS), np.uint32), np.empty((count, LANES), np.uint32)
        place = Net(np.array([0, (1 << self._size) // LANES]), np.empty(count, np.uint32), within, steps, quantile_table())
        strata(place, directions(dimensions)[some], np.ascontiguousarray(self._random[:, some]), blocks, normal)
        return _placed(blocks, shape, axis)


class _Counted(_Served):
    """A generator that counts the coordinates that a net would have to hand out, given as arrays that `wrap` makes."""

    def __init__(self, rows: int, seed: int, wrap: Callable[[np.ndarray], Any]) -> None:
        super().__init__(np.random.SFC64(0))
        self._rows, self._taken, self._wrap = rows, 0, wrap
        self._plain = np.random.Generator(np.random.SFC64(seed))

    def _uniforms(self, size: Any) -> Any:
        self._taken += prod(_axis(size, self._rows)[0]) // self._rows
        return self._wrap(self._plain.random(size))

    def _normals(self, size: Any) -> Any:
        self._taken += prod(_axis(size, self._rows)[0]) // self._rows
        return self._wrap(self._plain.standard_normal(size))


def _plainly(dtype: Any, out: Any) -> None:
    if np.dtype(dtype) != np.float64 or out is not None:
        raise NoNet("it draws numbers of another kind than float64, or into an array of its own")


def _size(size: Any, *parameters: Any) -> Any:
    """The shape of the draws, which without a size is that of their parameters."""
    return np.broadcast_shapes(*map(np.shape, parameters)) if size is None else size


def _placed(blocks: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """Blocks[coordinate, K, LANES] in the shape that was asked for, with the points along `axis`.

    In memory the points of one coordinate stay beside each other: arithmetic on all points of a few coordinates is fast so.
    """
    rows = blocks.reshape(len(blocks), -1)[:, : shape[axis]]
    others = [n for k, n in enumerate(shape) if k != axis]
    return np.moveaxis(rows.reshape(*others, shape[axis]), -1, axis)


def _axis(size: Any, rows: int) -> tuple[tuple[int, ...], int]:
    """Shape that is asked for, and the axis of the replicates."""
    shape = () if size is None else (size,) if np.ndim(size) == 0 else tuple(size)
    axes = [k for k, n in enumerate(shape) if n == rows]
    if len(axes) != 1:
        raise NoNet(f"it asks for draws of shape {shape}, where no axis, or more than one, counts {rows} replicates")
    return shape, axes[0]


def dimensions_of(draw: Callable[[np.random.Generator, int], Any]) -> int:
    """How many coordinates ``draw(gen, reps)`` takes for one replicate, of a large net, which wants a smooth statistic.

    Raises
    ------
    NoNet
        If it draws what a net does not have, not the same number for every replicate, or uses its draws otherwise than by
        smooth functions (``smoothness``).
    ValueError
        If what it returns does not follow from what it draws from the generator that is passed in.
    """

    def followed(sample: Any) -> np.ndarray:
        if not isinstance(sample, Smooth):
            raise NoNet("it returns numbers that do not come from its draws by smooth functions")
        return bare(sample)

    return _count(draw, Smooth, followed)


def coordinates_of(draw: Callable[[np.random.Generator, int], Any]) -> int:
    """The same for small nets, which serve any statistic."""
    return _count(draw, np.asarray, np.asarray)


def _count(draw: Callable[..., Any], wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]) -> int:
    def counted(rows: int, seed: int) -> tuple[np.ndarray, int]:
        gen = _Counted(rows, seed, wrap)
        sample = np.asarray(unwrap(draw(gen, rows)), float)
        return sample, gen._taken

    (first, count), (again, _), (other, _), (_, of_more) = (
        counted(rows, seed) for rows, seed in ((ODD, 0), (ODD, 0), (ODD, 1), (2 * ODD + 1, 2))
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
