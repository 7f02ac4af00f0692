"""Dropout: which inputs of a layer are left out in a step of training, and how much the others count.

In training each input of a layer is set to 0 with the layer's probability p (to 32 bits), apart from all others, and divided
by 1 - p otherwise, so that its mean stays (Srivastava et al. 2014, JMLR 15, 1929); elsewhere nothing is left out.  What is
left out is a function of the key of the step (``schedule.Schedule.keyed``), the place of the example in its batch and the
place of the input: bits of Threefry-2x32 with 20 rounds (Salmon et al. 2011, SC '11, doi:10.1145/2063384.2063405), which
NumPy and accelerators compute alike, without a state and in any order.  Networks that are trained by one schedule leave out
the same.

Belongs here: these bits and what is made of them.  Does not belong here: which layers have dropout (``models``), keys
(``schedule``), layers (backends).
"""

from __future__ import annotations

from typing import Any

import numpy as np

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def threefry(key: tuple[Any, Any], counter: tuple[Any, Any]) -> tuple[Any, Any]:
    """Two arrays of 32 random bits of a key and a counter, two arrays of uint32 each, of NumPy or of JAX.

    >>> zero = np.zeros(1, np.uint32)
    >>> [hex(bits[0]) for bits in threefry((zero, zero), (zero, zero))]
    ['0x6b200159', '0x99ba4efe']
    """
    keys = (*key, key[0] ^ key[1] ^ np.uint32(PARITY))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(1, 6):
        for left in ROTATIONS[(group - 1) % 2]:
            a = a + b
            b = (b << np.uint32(left) | b >> np.uint32(32 - left)) ^ a
        a, b = a + keys[group % 3], b + keys[(group + 1) % 3] + np.uint32(group)
    return a, b


def dropped(model: Any) -> list[int]:
    """Number of inputs of each layer after the convolutions that dropout may leave out; empty for a model without it."""
    layers = model.shapes[len(model.convolutions) :] if model.dropout else []
    return [rows - 1 if p else 0 for p, (rows, _) in zip(model.dropout, layers, strict=True)]


def factors(model: Any, key: Any, n: int) -> list[Any]:
    """What the inputs of each layer after the convolutions are multiplied by in a step: 0 or 1 / (1 - p), or 1 for all.

    Parameters
    ----------
    model : ``models.Model`` with dropout; n : places of examples in the batch.
    key : array (2,) of uint32, of the step, of NumPy or of JAX.

    Returns
    -------
    arrays (n, inputs), or the number 1 for a layer without dropout.

    >>> from estimators.federated.models import Model
    >>> model = Model((3, 2, 2), "softmax", dropout=(0.5, 0))
    >>> first, second = factors(model, np.zeros(2, np.uint32), 2)
    >>> first.tolist(), second
    ([[0.0, 0.0, 2.0], [0.0, 2.0, 2.0]], 1)
    """
    inputs, numbers = dropped(model), key.__array_namespace__()
    places = numbers.arange(n, dtype=np.uint32)[:, None], numbers.arange(-(-sum(inputs) // 2), dtype=np.uint32)[None, :]
    bits = numbers.concatenate(threefry((key[0], key[1]), numbers.broadcast_arrays(*places)), axis=1)
    found, first = [], 0
    for p, count in zip(model.dropout, inputs, strict=True):
        limit = min(round(p * 2**32), 2**32 - 1)
        found.append((bits[:, first : first + count] >= np.uint32(limit)) / (1 - limit / 2**32) if p else 1)
        first += count
    return found
