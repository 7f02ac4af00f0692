"""What is simulated: the model's numbers, checked and frozen, and how its replicates are drawn.

An experiment is any immutable object with ``n_statistics``, ``draws_per_replicate``, ``net_order()``,
``kernel_call(gen, reps) -> Moments`` and ``reference_call(gen, reps) -> Moments``.

Belongs here: the description and validation of each experiment.  Does not belong here: drawing (``kernels``), chunks and
threads (``runner``), what a result should be (``checks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, dataclass, fields, replace
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import finite

from .moments import Moments, batch_means
from .nets import LANES, Drawn, Net, coordinates_of, dimensions_of, draw_on

Source = np.random.Generator | Net
"""What normals are drawn from."""


class Experiment(Protocol):
    """What the runner needs to know about an experiment."""

    @property
    def n_statistics(self) -> int:
        """Number M of statistics."""
        ...

    @property
    def draws_per_replicate(self) -> int:
        """Standard normals drawn for one replicate."""
        ...

    def net_order(self) -> np.ndarray:
        """For each draw of a replicate the coordinate of the net that serves it; raises NoNet where none can."""
        ...

    def kernel_call(self, gen: Source, reps: int) -> Moments:
        """Moments of `reps` replicates, by the compiled kernel."""
        ...

    def reference_call(self, gen: Source, reps: int) -> Moments:
        """Moments of the same replicates, by plain NumPy."""
        ...


class _Arrays:
    """Pickle through the constructor, which validates again and makes the arrays read-only again.

    Unpickled arrays would be writeable, an argument type that numba would compile the kernel for anew.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __reduce__(self):
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, eq=False)
class ClientsExperiment(_Arrays):
    """Products of linear forms in the noise of hierarchical Gaussian clients.

    Model, with the centre at 0 (flat prior: errors do not depend on the centre when the weights of an
    estimate sum to one): phi_i = p_i ~ N(0, tau2), local estimate y_i = phi_i + e_i, e_i ~ N(0, alpha2),
    message psi_i = y_i + l_i, l_i ~ N(0, nu2). Aggregates A_a = sum_i weights[a, i] psi_i. With
    j = client and z = (p_j, e_j, l_j, A_0, A_1, ...), statistic m is (left[m] . z)(right[m] . z).

    For the mean squared error of an estimate of phi_j = p_j that is linear in these quantities, left and
    right are both the coefficients of its error in z; for half the derivative of that error along a
    direction, left is the error and right the direction.

    Parameters
    ----------
    tau2, alpha2, nu2 : float or array, shape (N,), >= 0
        Variances; N is the number of columns of `weights`.
    client : int, 0 <= client < N
    weights : array, shape (A, N) or (N,)
    left, right : array, shape (M, 3 + A) or (3 + A,)

    Raises
    ------
    ValueError
        Naming the argument outside its domain.

    Examples
    --------
    The error of the plain mean of 4 messages as an estimate of client 0 is A_0 - p_0; its MSE is
    3 tau2 / 4 + (alpha2 + nu2) / 4 = 1.25 here.

    >>> from estimators.montecarlo import run
    >>> error = [-1, 0, 0, 1]
    >>> mean = ClientsExperiment(1.0, 1.0, 1.0, 0, np.full(4, 0.25), error, error)
    >>> estimate, standard_error = run(mean, 100_000, "doctest").linear([1])
    >>> abs(estimate - 1.25) < 5 * standard_error < 0.05
    True
    """

    tau2: np.ndarray
    alpha2: np.ndarray
    nu2: np.ndarray
    client: int
    weights: np.ndarray
    left: np.ndarray
    right: np.ndarray

    if TYPE_CHECKING:  # numbers and lists become arrays

        def __init__(
            self, tau2: ArrayLike, alpha2: ArrayLike, nu2: ArrayLike, client: int, weights: ArrayLike, left: ArrayLike,
            right: ArrayLike,
        ) -> None: ...  # fmt: skip

    def __post_init__(self):
        weights = _matrix("weights", self.weights)
        n = weights.shape[1]
        if n == 0:
            raise ValueError("weights must have one column per client, at least one")
        client = integer("client", self.client)
        if not 0 <= client < n:
            raise ValueError(f"client must be in 0 .. {n - 1}, got {client}")
        left = _matrix("left", self.left)
        if len(left) == 0 or left.shape[1] != 3 + len(weights):
            raise ValueError(f"left must have shape (M >= 1, {3 + len(weights)}), got {left.shape}")
        right = _matrix("right", self.right)
        if right.shape != left.shape:
            raise ValueError(f"right must have the shape of left, {left.shape}, got {right.shape}")
        for name in ("tau2", "alpha2", "nu2"):
            _freeze(self, name, _variances(name, getattr(self, name), n))
        _freeze(self, "client", client)
        _freeze(self, "weights", weights)
        _freeze(self, "left", left)
        _freeze(self, "right", right)

    @property
    def n_clients(self) -> int:
        """Number N of clients."""
        return self.weights.shape[1]

    @property
    def n_statistics(self) -> int:
        """Number M of products."""
        return len(self.left)

    @property
    def draws_per_replicate(self) -> int:
        """Noises of positive variance that are the client's own or in some aggregate."""
        seen = (self.weights != 0).any(axis=0)
        seen[self.client] = True
        return int(np.count_nonzero((np.stack([self.tau2, self.alpha2, self.nu2]) > 0) & seen))

    def net_order(self) -> np.ndarray:
        """The draws in their own order."""
        return np.arange(self.draws_per_replicate)

    def _arguments(self):
        scales = np.sqrt(self.tau2), np.sqrt(self.alpha2), np.sqrt(self.nu2)
        return *scales, self.client, self.weights, self.left, self.right

    def kernel_call(self, gen: Source, reps: int) -> Moments:
        """Moments of `reps` replicates, by the compiled kernel."""
        from .kernels import called, clients_kernel

        return Moments(reps, *called(clients_kernel, gen, reps, *self._arguments()))

    def reference_call(self, gen: Source, reps: int) -> Moments:
        """Moments of the same replicates, by plain NumPy."""
        from .reference import clients_reference

        return Moments(reps, *clients_reference(plain(gen, reps), reps, *self._arguments()))


@dataclass(frozen=True, eq=False)
class RegressionExperiment(_Arrays):
    """Squared errors of a linear rule in Gaussian linear regression.

    Model: theta ~ N(centre, prior_variance I_d), y = design theta + w, w ~ N(0, noise_variance I_n), design
    fixed; estimate gain y + offset. Statistics: |estimate - theta|^2, then its d coordinates
    (M = 1 + d). Several clients are the rows of one design, with their own noise variances.

    Parameters
    ----------
    design : array, shape (n, d)
    centre : float or array, shape (d,)
    prior_variance : float or array, shape (d,), >= 0
    noise_variance : float or array, shape (n,), >= 0
    gain : array, shape (d, n)
    offset : float or array, shape (d,)

    Raises
    ------
    ValueError
        Naming the argument outside its domain.

    Examples
    --------
    Ordinary least squares has risk noise_variance * trace((X'X)^-1) = 2 here.

    >>> from estimators.montecarlo import run
    >>> design = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> least_squares = RegressionExperiment(design, 3.0, 1.0, 2.0, np.linalg.pinv(design), 0.0)
    >>> estimate, standard_error = run(least_squares, 100_000, "doctest").linear([1, 0, 0])
    >>> abs(estimate - 2) < 5 * standard_error < 0.05
    True
    """

    design: np.ndarray
    centre: np.ndarray
    prior_variance: np.ndarray
    noise_variance: np.ndarray
    gain: np.ndarray
    offset: np.ndarray

    def __post_init__(self):
        design = _array("design", self.design)
        if design.ndim != 2 or design.size == 0:
            raise ValueError(f"design must have shape (n >= 1, d >= 1), got {design.shape}")
        n, d = design.shape
        gain = _array("gain", self.gain)
        if gain.shape != (d, n):
            raise ValueError(f"gain must have shape {(d, n)}, got {gain.shape}")
        _freeze(self, "design", design)
        _freeze(self, "centre", _vector("centre", self.centre, d))
        _freeze(self, "prior_variance", _variances("prior_variance", self.prior_variance, d))
        _freeze(self, "noise_variance", _variances("noise_variance", self.noise_variance, n))
        _freeze(self, "gain", gain)
        _freeze(self, "offset", _vector("offset", self.offset, d))

    @property
    def n_statistics(self) -> int:
        """The squared error and its d coordinates."""
        return 1 + self.design.shape[1]

    @property
    def draws_per_replicate(self) -> int:
        """The d deviations of theta and the n noise terms."""
        return sum(self.design.shape)

    def net_order(self) -> np.ndarray:
        """The draws in their own order: theta's deviations, which all rows share, first."""
        return np.arange(self.draws_per_replicate)

    def _arguments(self):
        scales = np.sqrt(self.prior_variance), np.sqrt(self.noise_variance)
        return self.design, self.centre, *scales, self.gain, self.offset

    def kernel_call(self, gen: Source, reps: int) -> Moments:
        """Moments of `reps` replicates, by the compiled kernel."""
        from .kernels import called, regression_kernel

        return Moments(reps, *called(regression_kernel, gen, reps, *self._arguments()))

    def reference_call(self, gen: Source, reps: int) -> Moments:
        """Moments of the same replicates, by plain NumPy."""
        from .reference import regression_reference

        return Moments(reps, *regression_reference(plain(gen, reps), reps, *self._arguments()))


@dataclass(frozen=True)
class JamesSteinExperiment:
    """Mean squared errors of shrinkage toward the grand mean.

    Model: theta_i ~ N(mu, theta_variance), x_i ~ N(theta_i, noise_variance), i < m. Each statistic is
    the mean over i of (xbar + f (x_i - xbar) - theta_i)^2: (0) classical James-Stein,
    f = 1 - (m - 3) noise_variance / sum_i (x_i - xbar)^2; (1) the fixed factor f = shrink; (2)
    positive-part James-Stein, f = max(0, classical f).

    Parameters
    ----------
    m : int, >= 4
    mu : float
    theta_variance : float, >= 0
    noise_variance : float, > 0
    shrink : float
        For the oracle rule: theta_variance / (theta_variance + noise_variance).

    Raises
    ------
    ValueError
        Naming the argument outside its domain.

    Examples
    --------
    With f = 1 the estimate is x itself, with risk noise_variance.

    >>> from estimators.montecarlo import run
    >>> shrinkage = JamesSteinExperiment(10, 0.0, 1.0, 1.0, shrink=1.0)
    >>> estimate, standard_error = run(shrinkage, 100_000, "doctest").linear([0, 1, 0])
    >>> abs(estimate - 1) < 5 * standard_error < 0.01
    True
    """

    m: int
    mu: float
    theta_variance: float
    noise_variance: float
    shrink: float

    def __post_init__(self):
        m = integer("m", self.m)
        if m < 4:
            raise ValueError(f"m must be >= 4 (the grand mean costs one dimension), got {m}")
        _freeze(self, "m", m)
        for name in ("mu", "shrink"):
            _freeze(self, name, float(_vector(name, getattr(self, name), 1)[0]))
        for name in ("theta_variance", "noise_variance"):
            _freeze(self, name, float(_variances(name, getattr(self, name), 1)[0]))
        if self.noise_variance == 0:
            raise ValueError("noise_variance must be > 0")

    @property
    def n_statistics(self) -> int:
        """Three rules."""
        return 3

    @property
    def draws_per_replicate(self) -> int:
        """Deviation and noise of each coordinate."""
        return 2 * self.m

    def net_order(self) -> np.ndarray:
        """The draws in their own order."""
        return np.arange(self.draws_per_replicate)

    def _arguments(self):
        return self.m, self.mu, self.theta_variance**0.5, self.noise_variance**0.5, self.shrink

    def kernel_call(self, gen: Source, reps: int) -> Moments:
        """Moments of `reps` replicates, by the compiled kernel."""
        from .kernels import called, james_stein_kernel

        return Moments(reps, *called(james_stein_kernel, gen, reps, *self._arguments()))

    def reference_call(self, gen: Source, reps: int) -> Moments:
        """Moments of the same replicates, by plain NumPy."""
        from .reference import james_stein_reference

        return Moments(reps, *james_stein_reference(plain(gen, reps), reps, *self._arguments()))


@dataclass(frozen=True, eq=False)
class SampledExperiment:
    """Statistics of any model, drawn by a vectorised NumPy function.

    For models without a compiled kernel: coins, quantisers, mechanisms, algorithms.

    Parameters
    ----------
    draw : callable (numpy.random.Generator, int) -> array, shape (replicates, M)
        One row of statistics per replicate. It must use no other source of randomness.
    n_statistics : int, >= 1
    draws_per_replicate : int, >= 1
        Random numbers drawn for one replicate, as a measure of cost.
    batch : int, >= 1
        Replicates drawn in one call, which bounds memory. A part of the experiment: it changes the bits.

    Examples
    --------
    >>> from estimators.montecarlo import run
    >>> coin = SampledExperiment(lambda gen, reps: gen.binomial(10, 0.3, (reps, 1)) / 10, 1)
    >>> estimate, standard_error = run(coin, 100_000, "doctest").linear([1])
    >>> abs(estimate - 0.3) < 5 * standard_error < 0.01
    True
    """

    draw: Callable[[np.random.Generator, int], np.ndarray]
    n_statistics: int
    draws_per_replicate: int = 1
    batch: int = 4096

    def __post_init__(self):
        for name in ("n_statistics", "draws_per_replicate", "batch"):
            if integer(name, getattr(self, name)) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")

    def kernel_call(self, gen: Source, reps: int) -> Moments:
        """Moments of `reps` replicates."""
        batch = max(self.batch // LANES, 1) * LANES if isinstance(gen, Net) else self.batch  # a net's blocks stay whole
        sizes = [batch] * (reps // batch) + [reps % batch] * (reps % batch > 0)
        rows = np.empty((self.n_statistics, reps))  # one row per statistic: sums over columns of a few are slow
        done = 0
        for size in sizes:
            rows[:, done : done + size] = self._sample(gen, size).T
            done += size
        return replace(Moments.of(rows.T), batches=batch_means(rows.T))

    reference_call = kernel_call

    def net_order(self) -> np.ndarray:
        """The draws in the order in which they are asked for; raises NoNet where a net cannot serve them."""
        return np.arange(self._dimensions)

    @cached_property
    def _dimensions(self):
        return dimensions_of(self.draw)  # asked for by every pilot and stage, and found by drawing

    @cached_property
    def coordinates(self) -> int:
        """How many uniforms and normals a replicate takes on small nets, which serve any statistic; raises NoNet."""
        return coordinates_of(self.draw)

    def _sample(self, gen, size):
        sample = np.asarray(draw_on(self.draw, gen, size) if isinstance(gen, Net) else self.draw(gen, size), float)
        if sample.shape != (size, self.n_statistics):
            raise ValueError(f"draw must return an array of shape {(size, self.n_statistics)}, got {sample.shape}")
        return sample


def plain(source: Source, reps: int) -> np.random.Generator:
    """The source as a generator, for functions that draw all of `reps` replicates in one call."""
    return Drawn(source, reps) if isinstance(source, Net) else source


def _freeze(instance, name, value):
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    object.__setattr__(instance, name, value)


def _array(name, value):
    """Own, C-contiguous float copy of `value`, all finite."""
    return np.array(finite(name, value), order="C")


def _matrix(name, value):
    array = _array(name, value)
    if array.ndim == 1:
        array = array[np.newaxis].copy()
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix or one row, got shape {array.shape}")
    return array


def _vector(name, value, size):
    array = _array(name, value)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} must be a number or have shape {(size,)}, got {array.shape}")
    return np.broadcast_to(array, (size,)).copy()


def _variances(name, value, size):
    array = _vector(name, value, size)
    if (array < 0).any():
        raise ValueError(f"{name} is a variance and must be >= 0, got {array.min()}")
    return array


def integer(name: str, value: Any) -> int:
    """The value, if it is a whole number."""
    try:
        return index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, got {value!r}") from None
