"""Pairs of networks trained together: a client's own theta and its copy mu of the common one, coupled by their divergence.

With p_theta(x), p_mu(x) the probabilities of the classes, CE the mean cross-entropy of a batch and KL a mean divergence over
its rows, a step is

    theta <- theta - eta_1 (grad_theta [a CE(theta) + b KL(p_mu || p_theta) / (2 psi)] + d theta),
    mu    <- mu    - eta_2 (clip(h, C_1) + z C_1 N + d mu),  h = grad_mu [a' CE(mu) + b' D / (2 psi)],
    psi   <- max(floor, psi - eta_3 (clip(k, C_2) + z C_2 N)),  k = 1 / (2 psi) - KL(p_mu || p_theta) / (2 psi^2),

each line with what the lines above it have just made; D = KL(p_mu || p_theta), or KL(p_theta || p_mu) where mutual;
clip(v, C) = v min(1, C / |v|) of the whole batch's gradient, for the privacy of whole clients; N standard normal.  The
weight decay d uses no data, hence is neither clipped nor noisy.

Belongs here: the checked settings of such steps.  Does not belong here: arithmetic (``pair_kernels``, ``jax_pairs``,
``reference_backend``), the algorithms made of them (``algorithms.adaped``, ``algorithms.distillation``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from estimators.federated.backend import clipping_norm, local_training
from estimators.federated.kinds import typed
from estimators.numerics.validation import nonnegative, positive, single

if TYPE_CHECKING:
    from estimators.federated.backend import ClientArrays
    from estimators.federated.models import Model

__all__ = ["PairStep", "Pairs", "checked_pairs"]


class Pairs(NamedTuple):
    """Own parameters (C, P), copies of the common ones (C, P), and psi (C,)."""

    own: np.ndarray
    common: np.ndarray
    psi: np.ndarray


@typed
@dataclass(frozen=True, kw_only=True)
class PairStep:
    """How a pair is trained; the module's docstring has the formulas.

    Parameters
    ----------
    rates : three numbers >= 0: eta_1, eta_2, eta_3; 0 keeps mu or psi as it is.
    own, common : pairs of numbers >= 0: (a, b), the weights of cross-entropy and divergence for theta, and (a', b') for mu.
    mutual : whether D is KL(p_theta || p_mu).
    floor : number >= 0, psi never falls below it; must be > 0 where eta_3 is.
    clips : two numbers >= 1e-15, C_1 and C_2; inf does not clip.
    joint : clip (h, k) as one vector at C_1, with k taken before mu moves, and noise z C_1 N for both.
    weight_decay : number >= 0, d; a `Task` whose work has a weight decay puts it here.

    >>> PairStep(rates=(0.1, 0.1, 0.0), own=(1, 0), common=(0, 1)).mutual
    False
    """

    rates: Sequence[float]
    own: Sequence[float]
    common: Sequence[float]
    mutual: bool = False
    floor: float = 0.0
    clips: Sequence[float] = (inf, inf)
    joint: bool = False
    weight_decay: float = 0.0

    def __post_init__(self):
        def numbers(name, count, *, domain=nonnegative):
            value = tuple(float(domain(f"{name}[{i}]", v)) for i, v in enumerate(getattr(self, name)))
            if len(value) != count:
                raise ValueError(f"{name} must have {count} numbers, has {len(value)}")
            object.__setattr__(self, name, value)

        numbers("rates", 3)
        numbers("own", 2)
        numbers("common", 2)
        numbers("clips", 2, domain=lambda name, v: inf if v == inf else clipping_norm(name, v))
        for name in ("floor", "weight_decay"):
            object.__setattr__(self, name, single(nonnegative, name, getattr(self, name)))
        if self.rates[2] > 0 and self.floor == 0:
            raise ValueError("floor must be > 0 where psi is learned: nothing else keeps psi from 0")


def checked_pairs(
    model: Model, own: Any, common: Any, psi: Any, data: ClientArrays, schedule: Any, *, step: Any, noise: Any
) -> tuple[Pairs, float]:
    """Check the arguments of `Backend.local_pairs`; return `Pairs`, a row for each client, and the noise's multiplier."""
    if model.loss not in ("softmax", "logistic"):
        raise ValueError(f'model has the loss "{model.loss}"; pairs are coupled by probabilities: "softmax" or "logistic"')
    if model.dropout:
        raise ValueError("model has dropout, which pairs of networks are not trained with; leave dropout out")
    spread = [local_training(model, start, data, schedule, learning_rate=1.0).starts for start in (own, common)]
    psi = positive("psi", psi)
    if psi.shape not in ((), (len(schedule.clients),)):
        raise ValueError(f"psi must be a number or have one entry for each of the {len(schedule.clients)} clients")
    multiplier = 0.0
    if noise is not None:
        multiplier = float(noise.multiplier)
        if not np.isfinite(step.clips[0]) or (step.rates[2] > 0 and not step.joint and not np.isfinite(step.clips[1])):
            raise ValueError("noise is a multiple of the clips; give finite clips in step")
    own, common = spread
    return Pairs(own, common, np.broadcast_to(psi, len(schedule.clients)).astype(float)), multiplier
