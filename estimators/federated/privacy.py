"""Noise that a federated training needs for its promised privacy, and the guarantee of what was run.

Belongs here: privacy of rows (DP-SGD at each client) and of clients (noise on sums of clipped updates), from the task's own
sampling to `Guarantee`, and the ledger of who is promised what.  Does not belong here: accountants, which are in
``estimators.accounting``; empirical audits (``audit``).

What is promised.  Everything that leaves a client over the whole training, all its models after every step even, is
(eps, delta)-private under the named adjacency, against everybody including the other clients and the server.  Number of
rows, batch sizes, rates, steps, participants, clipping norms and noise multipliers are public and must not be chosen by
looking at the data; learning rates and models that were, cost privacy which no number here counts (``tuning`` does).

- "poisson": every row is in a step's batch by itself with probability batch / n; one row added or removed, so the clipped
  sum moves by clip (rate and divisor stay).
- "fixed": batches without replacement; one row replaced, so the sum moves by 2 clip.
- "epochs": shuffled passes; one row replaced.  Given the shuffles a row is in one batch of each pass, whose sum moves by
  2 clip: as many Gaussian releases as passes, composed exactly, without any amplification by shuffling.  Adding or
  removing a row is not covered: it moves all later rows to other batches and changes the last divisor.

What is not.  Measures on a client's own rows and test rows (history, tables) are not private.  The noise is a float32
number from a generator for simulation, its seed part of the configuration: whoever knows the seed knows the noise, so every
guarantee of a training says "simulated, no guarantee" (``accounting.budget.SIMULATED``).  Nor are floats the reals: sums of
rounded numbers have gaps through which, as Mironov (2012) showed for Laplace noise, low bits may tell neighbours apart, and
noise beyond 6.8 deviations (probability 1e-11) never comes.  The guarantees are those of real-valued Gaussian noise; a
deployment needs secret seeds, a secure generator and a discrete Gaussian (Canonne, Kamath and Steinke 2020) on integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.accountants import ACCOUNTANTS, noise_for
from estimators.accounting.budget import guarantee, would_be
from estimators.accounting.events import Event
from estimators.federated.backend import clipping_norm
from estimators.federated.kinds import typed
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import choice, count, fraction, nonnegative, number, positive, probability, shown, single

if TYPE_CHECKING:
    from estimators.accounting.budget import Guarantee
    from estimators.federated.task import Task, Terms

__all__ = [
    "RowPrivacy",
    "client_guarantee",
    "client_multiplier",
    "ledger",
    "ledger_lines",
    "row_steps",
    "spent",
    "update_multiplier",
]

PROMISE = ("eps", "delta", "adjacency", "trusted", "mechanism", "simulated")  # what a line of the ledger says of a guarantee


@typed
def row_steps(task: Terms, trainings: ArrayLike) -> list[Event]:
    """`Event` of each client's rows over so many local trainings, a number or (K,), under the task's work.

    With the rule "epochs" a step is a pass, which has every row once.

    Raises ValueError where a trained client's batch is not a share of its rows.
    """
    K, work = task.n_clients, task.work
    sampling = "fixed" if work["rule"] == "epochs" else str(work["rule"])
    each = np.broadcast_to(work["n_epochs" if work["rule"] == "epochs" else "n_steps"], K)
    rates = np.ones(K) if work["rule"] == "epochs" else np.minimum(np.broadcast_to(work["batch_size"], K) / task.sizes, 1.0)
    total = each * np.broadcast_to(count("trainings", trainings, 0).astype(np.int64), K)
    return [Event(sampling=sampling, rate=float(q), number=int(s)) for q, s in zip(rates, total, strict=True)]


@typed
def spent(
    task: Terms, multiplier: Any, *, trainings: ArrayLike, delta: Any, accountant: str = "pld"
) -> list[Guarantee | None]:
    """Guarantee of each client's rows for what was run, computed from the noise, whatever eps it was calibrated for.

    Parameters
    ----------
    multiplier : number >= 0 or (K,), noise multipliers used (a state's ``multiplier``).
    trainings : whole number or (K,), how often each client has trained so far; participants are drawn without looking at
        data, so the actual number counts.
    delta : number in (0, 1) or (K,); accountant : "rdp" or "pld", see ``estimators.accounting.accountants``.

    Returns
    -------
    list of Guarantee, None for a client without noise.
    """
    K = task.n_clients
    z, delta = np.broadcast_to(nonnegative("multiplier", multiplier), K), np.broadcast_to(number("delta", delta), K)
    return [
        guarantee(steps.at(float(z[k])), delta=float(delta[k]), accountant=accountant, simulated=True) if z[k] > 0 else None
        for k, steps in enumerate(row_steps(task, trainings))
    ]


@dataclass(frozen=True, kw_only=True)
class RowPrivacy:
    """Privacy of single rows against everyone but their client: DP-SGD with the client's own (eps, delta).

    The adjacency follows from the task's work: "poisson" one row added or removed, "fixed" and "epochs" one row replaced;
    see the module.

    Parameters
    ----------
    eps : number > 0 (inf: clipping without noise), or (K,); delta : number in (0, 1), or (K,).
    clip : number >= 1e-15, largest norm of an example's gradient.
    accountant : "rdp" or "pld", see ``estimators.accounting.accountants``; passes and batches of all rows are exact anyway.
    """

    eps: Any
    delta: Any
    clip: float
    accountant: str = "pld"

    def __post_init__(self):
        eps = number("eps", self.eps)
        if not (eps > 0).all():
            raise ValueError(f"eps must be > 0 (inf: no privacy), got {eps.min()}")
        fraction("delta", self.delta)
        clipping_norm("clip", self.clip)
        choice("accountant", self.accountant, ACCOUNTANTS)

    @typed
    def budgets(self, task: Terms) -> list[tuple[float, float]]:
        """Pairs (eps, delta) of each client."""
        try:
            eps, delta = (np.broadcast_to(value, task.n_clients) for value in (self.eps, self.delta))
        except ValueError:
            raise ValueError(
                f"eps and delta must be numbers or have one entry for each of {task.n_clients} clients"
            ) from None
        return [(float(e), float(d)) for e, d in zip(eps, delta, strict=True)]

    @typed
    def multiplier(self, eps: Any, delta: Any, steps: Any, rho: Any) -> float:
        """Noise multiplier with which one client's `Event`, beside what has zero-concentrated rate `rho`, meet eps."""
        return noise_for(steps, eps=eps, delta=delta, accountant=self.accountant, rho=rho)

    @typed
    def multipliers(self, task: Terms, *, rounds: int, rho: Any = 0.0) -> np.ndarray:
        """Noise multiplier (K,) of each client that trains in each of `rounds` rounds, 0 where eps is inf.

        Parameters
        ----------
        rho : number >= 0, or (K,), zero-concentrated rate of what else is published about a client's rows.

        Raises ValueError naming a client whose eps no noise can meet, or for whose training `rho` leaves nothing.
        """
        found, rho = [], np.broadcast_to(nonnegative("rho", rho), task.n_clients).tolist()
        for k, ((eps, delta), steps) in enumerate(zip(self.budgets(task), row_steps(task, rounds), strict=True)):
            try:
                found.append(0.0 if np.isinf(eps) else self.multiplier(eps, delta, steps, rho[k]))
            except ValueError as error:
                raise ValueError(f"client {k}: {error}") from None
        return np.array(found)

    @typed
    def guarantees(self, task: Terms, *, rounds: int) -> list[Guarantee | None]:
        """Guarantee of each client's rows after training in each of `rounds` rounds, None where eps is inf."""
        z = self.multipliers(task, rounds=rounds)
        delta = [delta for _, delta in self.budgets(task)]
        return spent(task, z, trainings=rounds, delta=delta, accountant=self.accountant)


# --- clients -----------------------------------------------------------------------------------------------------------


@typed
def update_multiplier(multiplier: Any, count_noise: float) -> float:
    """Noise multiplier of clients' updates, when noisy counts of unclipped updates are published beside them.

    Updates have sensitivity S and noise z S, counts sensitivity 1/2 (each client gives +1/2 or -1/2) and noise count_noise;
    together they are one Gaussian of multiplier (z^-2 + (2 count_noise)^-2)^(-1/2), which is to be `multiplier` (Andrew et
    al. 2021, Theorem 1).

    Parameters
    ----------
    multiplier : number >= 0, 0 gives 0; count_noise : number > multiplier / 2, inf: no counts.

    >>> round(update_multiplier(1.5, 5.0), 4)
    1.5172
    """
    z, counts = single(nonnegative, "multiplier", multiplier), single(number, "count_noise", count_noise)
    if z == 0:
        return 0.0
    if not 2 * counts > z:
        raise ValueError(
            f"count_noise must be above half the multiplier {z:g}, or nothing is left for updates, got {counts:g}"
        )
    return float((z**-2 - (2 * counts) ** -2) ** -0.5)


@typed
def client_guarantee(
    updates: float,
    count_noise: float,
    *,
    rate: float,
    rounds: int,
    delta: float,
    sampling: str = "poisson",
    accountant: str = "pld",
) -> Guarantee:
    """Guarantee of a client: clipped updates with noise, and counts of unclipped ones, in rounds that it joins by chance.

    What was run, from the noise as used; exact for rate 1.

    Parameters
    ----------
    updates : number > 0, noise multiplier of updates; count_noise : as in `update_multiplier`.
    rate : number in (0, 1], probability to take part in a round, independent of everything; rounds : whole number >= 1;
        delta : number in (0, 1); accountant : "rdp" or "pld".
    sampling : "poisson", each client by itself: adjacency "client add-remove", with the divisors of the averages public and
        the same whoever takes part.  "fixed", so many of all clients: adjacency "client", other data of one client, which
        move a sum by twice the clipping norm; numbers of participants of a level are public.

    >>> z = update_multiplier(1.5, 5.0)
    >>> round(client_guarantee(z, 5.0, rate=0.05, rounds=500, delta=1e-4, accountant="rdp").eps, 2)
    3.61
    """
    updates, count_noise = single(positive, "updates", updates), single(number, "count_noise", count_noise)
    with np.errstate(divide="ignore"):
        together = float((np.power(updates, -2.0) + np.power(2 * count_noise, -2.0)) ** -0.5)
    choice("sampling", sampling, ("poisson", "fixed"))
    event = Event(noise=together, sampling=sampling, rate=rate, number=int(single(count, "rounds", rounds)))
    return guarantee(event, delta=delta, accountant=accountant, trusted="server", simulated=True)


@typed
def client_multiplier(*, eps: float, delta: float, rate: float, rounds: int, accountant: str = "pld") -> float:
    """Noise multiplier, of updates and counts together, with which so many rounds are (eps, delta)-private for a client.

    Parameters as in `client_guarantee`; `update_multiplier` then says how much of it the updates need.

    >>> round(client_multiplier(eps=2.0, delta=1e-5, rate=0.05, rounds=100, accountant="rdp"), 4)
    1.4445
    """
    rate, rounds = single(positive, "rate", probability("rate", rate)), int(single(count, "rounds", rounds))
    return noise_for(Event(sampling="poisson", rate=rate, number=rounds), eps=eps, delta=delta, accountant=accountant)


# --- ledger -------------------------------------------------------------------------------------------------------------


@typed
def ledger(algorithm: Any, task: Task, *, rounds: int) -> list[Any]:
    """Who is promised what after so many rounds: a list of dicts, one for each group and each kind of client in it.

    Groups are those of the task, with "others" for clients in none of them, "all" where the task has no groups.  Clients of
    a group with equal rows, batch size and guarantee are one entry.

    Returns
    -------
    list of dicts with keys group, clients (how many), rows, batch (None under no batch size), eps (None where nothing is
    promised), delta, adjacency, trusted, mechanism, simulated (whether the noise is seeded, so that nothing is protected).
    """
    promised = algorithm.guarantees(task, rounds=rounds)
    batch = np.broadcast_to(task.work.get("batch_size", 0), task.n_clients)
    grouped = np.unique(np.concatenate([np.empty(0, np.int64), *task.groups.values()]))
    rest = np.setdiff1d(np.arange(task.n_clients), grouped)
    groups = {**task.groups, **({("others" if task.groups else "all"): rest} if len(rest) else {})}
    entries = []
    for group, members in groups.items():
        kinds = Counter()
        for k in members:
            promise = promised[k]
            said = (None,) * len(PROMISE)
            if promise is not None:
                said = tuple(getattr(promise, name) for name in PROMISE)
            kinds[(int(task.sizes[k]), int(batch[k]) or None, *said)] += 1
        names = ("rows", "batch", *PROMISE)
        entries += [{"group": group, "clients": n, **dict(zip(names, kind, strict=True))} for kind, n in kinds.items()]
    return entries


@typed
def ledger_lines(entries: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Lines to print of a `ledger`: entries that differ only in rows, batch and eps are one line with the range of eps.

    >>> one = {"group": "all", "clients": 2, "rows": 9, "batch": 3, "delta": 1e-5, "adjacency": "row", "trusted": "client"}
    >>> one |= {"mechanism": "gaussian", "simulated": True}
    >>> print(*ledger_lines([{**one, "eps": e} for e in (1.0, 2.0)]), sep="\\n")  # doctest: +NORMALIZE_WHITESPACE
    all, 4 clients: simulated, no guarantee; the system's entropy would give eps 1 to 2 at delta 1e-05 (gaussian; row;
    raw data seen by the client)
    """
    lines = {}
    for i, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            raise ValueError(f"entries[{i}] must be a line of `ledger`, got {shown(entry)}")
        lines.setdefault(tuple(entry[name] for name in ("group", *PROMISE[1:])), []).append(entry)
    said = []
    for (group, delta, adjacency, trusted, mechanism, simulated), same in lines.items():
        who = f"{group}, {sum(entry['clients'] for entry in same)} clients"
        if adjacency is None:
            said.append(f"{who}: no privacy")
            continue
        low, high = (f"{pick(entry['eps'] for entry in same):.6g}" for pick in (min, max))
        eps = low if low == high else f"{low} to {high}"
        text = f"eps {eps} at delta {delta:g} ({mechanism}; {adjacency}; raw data seen by the {trusted})"
        said.append(f"{who}: {would_be(text) if simulated else text}")
    return said
