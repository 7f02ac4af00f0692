"""Federated learning under privacy: data sets, models, and backends that train many clients at once.

Belongs here: the names of the parts, imported on first use.  Does not belong here: code; closed forms and estimators of
many means are in ``estimators``.  A map:

- ``data`` and ``models`` are what is trained; a ``task`` joins them with a ``schedule`` of batches; ``dropout`` is what a
  step leaves out of a network;
- backends compute local steps: ``backend`` says what each offers, ``reference_backend`` is the plain twin, ``numpy_backend``
  the fast one on the CPU, ``jax_backend`` (with ``jax_pairs``) for accelerators; ``pairs`` trains two models at once;
- ``algorithms`` are rounds of it, run by ``training``; ``predictions`` measure what came out;
- ``own_rows`` are what clients keep, of many clients those alone that took part;
- ``runtime`` is a server and nodes apart from each other; ``processes`` and ``flower`` carry messages between them, on one
  machine and between machines;
- ``plans`` say what an algorithm releases and count what it does, ``asked`` how often a node answers, ``privacy`` and
  ``row_accounting`` what was promised,
  ``audit`` with ``audit_cases`` what an adversary can prove by many runs, ``one_run`` with ``one_run_cases`` by one;
- ``experiments`` are runs described by small files; ``kinds`` refuses arguments of a wrong class everywhere here.
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import (
        algorithms,
        audit,
        backend,
        data,
        jax_backend,
        models,
        numpy_backend,
        one_run,
        pairs,
        plans,
        predictions,
        privacy,
        reference_backend,
        runtime,
        schedule,
        task,
        training,
    )

__all__ = [
    "algorithms",
    "audit",
    "backend",
    "data",
    "jax_backend",
    "models",
    "numpy_backend",
    "one_run",
    "pairs",
    "plans",
    "predictions",
    "privacy",
    "reference_backend",
    "runtime",
    "schedule",
    "task",
    "training",
]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
