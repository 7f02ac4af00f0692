"""What a backend is: the protocol, the checked data of all clients, the checked settings of local training, its errors.

A step of local SGD of client k from its parameters w is

    w <- w - eta_k ((sum_j a_j clip(g_j(w)) + z_k c_k N) / b + lam_k (w - anchor_k)),   clip(g) = g min(1, c_k / |g|),

with the rows j, weights a_j and divisor b of a ``schedule.Schedule`` and standard normal N of a ``schedule.GaussianNoise``.
The pull towards the anchor uses no data, hence is neither clipped nor noisy.  Of a model with dropout g_j is the gradient
with the inputs that the schedule's keys leave out; what they leave out is drawn without the data, so that clipping bounds an
example's share as it does without.  Losses, gradients of examples, scores and evaluations leave nothing out.

Belongs here: what all backends share before arithmetic.  Does not belong here: arithmetic, which is in ``numpy_backend``
and, slowly and plainly, in ``reference_backend``; models are in ``models``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from estimators.federated.kinds import several, typed
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import nonnegative, positive, shown

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from estimators.federated.models import Model
    from estimators.federated.schedule import GaussianNoise, Schedule

__all__ = [
    "Backend",
    "ClientArrays",
    "Diverged",
    "Evaluation",
    "LocalTraining",
    "client_arrays",
    "clipping_norm",
    "local_training",
]

SMALLEST_CLIP = 1e-15  # squares of single precision vanish from 1e-19 on, and a gradient whose norm is 0 would stay as it is


class Diverged(ArithmeticError):
    """Parameters of a client ceased to be finite; `client` and `step` say where."""

    @typed
    def __init__(self, client: int, step: int) -> None:
        super().__init__(f"training of client {client} diverged in step {step}; lower learning_rate or lam, or set clip")
        self.client, self.step = client, step

    def __reduce__(self):
        return type(self), (self.client, self.step)


class Evaluation(NamedTuple):
    """Mean loss (K,) of each client, and share (K,) of examples whose class is predicted, None for regression."""

    loss: np.ndarray
    accuracy: np.ndarray | None


@dataclass(frozen=True, eq=False)
class ClientArrays:
    """Checked data of K clients, stacked: client k has the rows first[k] : first[k] + sizes[k].

    Parameters
    ----------
    x : array (N, features); y : array (N,), classes as numbers; first, sizes : arrays (K,) of whole numbers.
    """

    x: np.ndarray
    y: np.ndarray
    first: np.ndarray
    sizes: np.ndarray

    @typed
    def client(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Features (n_k, features) and responses (n_k,) of client k, views."""
        rows = slice(self.first[k], self.first[k] + self.sizes[k])
        return self.x[rows], self.y[rows]

    @typed
    def take(self, positions: np.ndarray) -> ClientArrays:
        """Some of the clients, in this order, sharing memory."""
        return ClientArrays(self.x, self.y, self.first[positions], self.sizes[positions])


@typed
def client_arrays(model: Model, clients: Sequence[tuple[Any, Any]], *, dtype: DTypeLike = np.float64) -> ClientArrays:
    """Data of all clients, checked against the model once and stacked.

    Parameters
    ----------
    model : Model.
    clients : list of pairs (x, y) of arrays (n_k, features) and (n_k,), classes as whole numbers from 0.
    dtype : float64 or float32, what the backend computes in.

    Raises
    ------
    ValueError
        Naming the client without data, with NaN, with the wrong width or with classes that the model does not have.

    >>> from estimators.federated.models import linear_svm
    >>> client_arrays(linear_svm(2), [([[1, 2]], [0]), ([[3, 4], [5, 6]], [1, 0])]).sizes.tolist()
    [1, 2]
    """
    if len(clients) == 0:
        raise ValueError("clients is empty; give at least one pair (x, y)")
    pairs = []
    for k, pair in enumerate(clients):
        if not several(pair) or len(pair) != 2:
            raise ValueError(f"clients: client {k} must be a pair (x, y), got {shown(pair)}")
        if len(pair[0]) == 0:
            raise ValueError(f"client {k} has no data; leave it out")
        x, y = model.check_data(f"client {k}", *pair)
        pairs.append((x.astype(dtype), y.astype(dtype)))
    sizes = np.array([len(y) for _, y in pairs])
    x, y = np.concatenate([x for x, _ in pairs]), np.concatenate([y for _, y in pairs])
    if not np.isfinite(x).all():
        raise ValueError(f"clients hold numbers beyond the range of {np.dtype(dtype)}; scale the features")
    return ClientArrays(x, y, np.cumsum(sizes) - sizes, sizes)


class LocalTraining(NamedTuple):
    """Checked settings of local SGD, one row or entry for each of the C clients of a schedule.

    clip is inf where gradients are not clipped, lam 0 where nothing pulls; noise is None or a GaussianNoise.
    """

    starts: np.ndarray
    rate: np.ndarray
    lam: np.ndarray
    anchors: np.ndarray
    clip: np.ndarray
    multiplier: np.ndarray
    noise: object


@typed
def clipping_norm(name: str, value: ArrayLike) -> np.ndarray:
    """Return norms to clip at, of at least 1e-15: below, a backend of single precision would not clip.

    Raises ValueError.

    >>> float(clipping_norm("value", 0.5))
    0.5
    """
    norms = positive(name, value)
    if (norms < SMALLEST_CLIP).any():
        raise ValueError(
            f"{name} must be at least {SMALLEST_CLIP:g}, got {norms.min():g}: squares of such norms vanish in single "
            "precision, and nothing would be clipped; change the units of the loss"
        )
    return norms


@typed
def local_training(
    model: Model,
    starts: np.ndarray,
    data: ClientArrays,
    schedule: Schedule,
    *,
    learning_rate: ArrayLike,
    pull: tuple[Any, Any] | None = None,
    clip: Any = None,
    noise: GaussianNoise | None = None,
) -> LocalTraining:
    """Check the arguments of `Backend.local_sgd` and spread them over clients."""
    C = len(schedule.clients)

    def spread(name, value):
        try:
            return np.broadcast_to(value, C)
        except ValueError:
            raise ValueError(
                f"{name} must be a number or have one entry for each of the {C} clients, has {value.shape}"
            ) from None

    def vectors(name, value):
        value = model.check_parameters(name, value)
        if value.shape not in ((model.n_parameters,), (C, model.n_parameters)):
            raise ValueError(
                f"{name} must have shape ({model.n_parameters},) or ({C}, {model.n_parameters}), has {value.shape}"
            )
        return np.broadcast_to(value, (C, model.n_parameters))

    if (schedule.clients >= len(data.sizes)).any():
        raise ValueError(f"schedule names client {schedule.clients.max()}, but there are {len(data.sizes)} clients")
    beyond = ((schedule.weights > 0) & (schedule.indices >= data.sizes[schedule.clients][:, None, None])).any(axis=(1, 2))
    if beyond.any():
        k = schedule.clients[beyond][0]
        raise ValueError(f"schedule asks client {k} for rows beyond its {data.sizes[k]} examples")
    if model.dropout and schedule.keys is None:
        raise ValueError("schedule has no keys for the dropout of model; take schedule.keyed(seed, round)")
    if clip is not None and (schedule.weights > 1).any():
        raise ValueError("schedule has weights above 1, which would let one example move the sum by more than clip")
    if noise is not None and clip is None:
        raise ValueError("noise is a multiple of the clipping norm; give clip")
    lam, anchors = (0.0, np.zeros(model.n_parameters)) if pull is None else pull
    return LocalTraining(
        starts=vectors("starts", starts),
        rate=spread("learning_rate", positive("learning_rate", learning_rate)),
        lam=spread("lam", nonnegative("lam", lam)),
        anchors=vectors("anchors", anchors),
        clip=spread("clip", np.asarray(np.inf) if clip is None else clipping_norm("clip", clip)),
        multiplier=spread("multiplier", np.asarray(0.0) if noise is None else noise.multiplier),
        noise=noise,
    )


class Backend(Protocol):
    """What an algorithm may ask of a backend; every backend gives the same numbers up to rounding.

    `data` is what the backend's `prepare` made of the clients' pairs (x, y), `dtype` the precision of parameters it returns.
    """

    dtype: np.dtype

    def prepare(self, model: Model, clients: Sequence[tuple[Any, Any]]) -> Any:
        """Checked data of all clients, in the backend's precision."""
        ...

    def initialise(self, model: Model, generator: np.random.Generator) -> np.ndarray:
        """First parameters (P,)."""
        ...

    def loss(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
        """Mean loss of the examples x (n, features), y (n,) at parameters (P,)."""
        ...

    def example_gradients(self, model: Model, parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Gradient (n, P) of each example's loss."""
        ...

    def local_sgd(
        self,
        model: Model,
        starts: np.ndarray,
        data: ClientArrays,
        schedule: Schedule,
        *,
        learning_rate: ArrayLike,
        pull: tuple[Any, Any] | None = None,
        clip: Any = None,
        noise: GaussianNoise | None = None,
    ) -> np.ndarray:
        """Parameters (C, P) of each client of the schedule after its steps.

        Parameters
        ----------
        model : Model.
        starts : array (P,) or (C, P).
        data : from `prepare`.
        schedule : Schedule of C clients.
        learning_rate : number > 0 or array (C,).
        pull : pair of lam, number >= 0 or array (C,), and anchors, array (P,) or (C, P); None for no pull.
        clip : number >= 1e-15 or array (C,), the largest norm of an example's gradient; None for no clipping.
        noise : GaussianNoise; None for no noise.

        Raises
        ------
        ValueError
            Naming the argument out of its domain.
        Diverged
            Naming the first client, in the schedule's order, whose parameters or scores ceased to be finite, and its step
            (which backends may notice one step apart).
        """
        ...

    def local_pairs(
        self,
        model: Model,
        own: np.ndarray,
        common: np.ndarray,
        psi: np.ndarray,
        data: ClientArrays,
        schedule: Schedule,
        *,
        step: Any,
        noise: GaussianNoise | None = None,
    ) -> Any:
        """``pairs.Pairs`` of each client of the schedule after its steps.

        Parameters
        ----------
        own, common : arrays (P,) or (C, P), theta and mu; psi : number > 0 or array (C,).
        step : ``pairs.PairStep``; noise : GaussianNoise with one multiplier z; None for no noise.  The others as in
            `local_sgd`.

        Raises
        ------
        ValueError
            Naming the argument out of its domain, a loss without probabilities among them.
        Diverged
            As in `local_sgd`.
        """
        ...

    def scores(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> np.ndarray:
        """Scores (rows, n_scores) of parameters (P,) or (K, P) on the data of K clients, client after client."""
        ...

    def evaluate(self, model: Model, parameters: np.ndarray, data: ClientArrays) -> Evaluation:
        """`Evaluation` of parameters (P,), or (K, P) with a row for each client, on the data of K clients."""
        ...


def check_evaluated(model: Model, parameters: np.ndarray, data: ClientArrays) -> np.ndarray:
    """Return finite parameters (K, P) of an evaluation."""
    parameters, K = model.check_parameters("parameters", parameters), len(data.sizes)
    if parameters.shape not in ((model.n_parameters,), (K, model.n_parameters)):
        raise ValueError(
            f"parameters must have shape ({model.n_parameters},) or ({K}, {model.n_parameters}), have {parameters.shape}"
        )
    return np.broadcast_to(parameters, (K, model.n_parameters))
