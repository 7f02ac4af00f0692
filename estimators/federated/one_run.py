"""Audits of one training: canaries that were in or out by coins, guesses of the coins, and what those prove.

Who trains once cannot compare two worlds many times.  But one training has room for many canaries: each is a row (or a
client) that took part or not by a coin of its own.  An auditor who sees what is released says of some of them whether they
were in; eps bounds how often that can be right (Steinke, Nasr and Jagielski 2023), whatever else is trained on.

What is proved.  `OneRun.proved` is their bound (``audit.one_run_bound``): it holds for any mechanism, and reaches a half of
the truth or less.  `chance` uses more of the claim, its eps at every delta: how likely guesses as good as these are at most
if all of that is true.  It is the argument of Mahloujifar, Melis and Chaudhuri (2025) for trade-off functions.  Let p_i be
the chance of i right guesses of r, among m canaries.  Turn one canary's coin over, whichever: where it was guessed right
and i were right in all, it is now guessed wrong, and i - 1 are right.  Both sides of a fair coin are as likely, so that for
every k

    sum_(i >= k) i p_i / m  <=  F(sum_(i >= k) (r - i + 1) p_(i-1) / m),

F(x) the most that the claim allows an event that has chance x in a neighbouring world (concave, so that it may be averaged
over canaries).  Going down from k = v these say how much chance must lie on fewer right guesses if at least v have chance
beta; where that comes to more than one, it is less than beta.

What can be seen.  The bound allows all that canaries share, so that few of them see little: of a Gaussian mechanism at eps 4
with half of its noise 5,000 canaries refute the claim with probability .996, 2,000 with .82, 1,000 with .43, if the surest
15 % are guessed; at eps 1 it takes 20,000, at eps 8 15,000; of 70 % of the noise 50,000 say so one time in five.  These are
exact (tests/estimators/federated/test_one_run.py computes them), and the canaries are the best that there are.

Canaries that are out have no weight in any batch, or are never called: divisors, rates and numbers of rows stay, as the
guarantees say.  So what is asked is add-or-remove, which a guarantee for replaced rows covers, too.

Belongs here: coins, guesses, that bound, and the audit of a training of one's own.  Does not belong here: ready cases and
broken ones (``one_run_cases``), audits by many runs (``audit``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.accounting.budget import guarantee
from estimators.federated.audit import one_run_bound
from estimators.federated.kinds import several, typed
from estimators.federated.privacy import row_steps
from estimators.federated.schedule import Schedule, stream
from estimators.federated.task import Task
from estimators.federated.training import training
from estimators.numerics.arrays import ArrayLike
from estimators.numerics.validation import finite, fraction, index, number, single

if TYPE_CHECKING:
    from estimators.federated.backend import Backend
    from estimators.federated.data import Federation
    from estimators.federated.models import Model
    from estimators.federated.training import Algorithm

__all__ = ["SHARES", "OneRun", "audit_training", "claimed_curve", "guess_chance", "judged_guesses", "loss_falls"]

SHARES = (0.01, 0.05, 0.2, 1.0)  # of the canaries, whom to guess: the surest; each has its part of beta
DELTAS = (*(float(f"{c}e-{k}") for k in range(12, 2, -1) for c in (1, 3)), 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
COINS = 57  # purpose of the stream of coins
LEAST = 1e-12  # chance below which none is said

Score = Callable[[Task, list[dict[str, Any]]], ArrayLike]


@dataclass(frozen=True)
class OneRun:
    """A claim and what one training's guesses prove against it.

    mechanism, adjacency : what was trained; claimed : eps at `delta`, of the canary who is promised most.
    proved : lower bound on eps at delta for any mechanism, too high with probability at most beta / 2.
    chance : of guesses as good as these, at most, if eps at every delta is as claimed; corrected for several tries.
    canaries, guesses, right : how many there were, were guessed, and were guessed right.
    """

    mechanism: str
    adjacency: str
    claimed: float
    delta: float
    proved: float
    chance: float
    beta: float
    canaries: int
    guesses: int
    right: int

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted; a true one is with probability at most beta."""
        return self.proved > self.claimed or self.chance <= self.beta / 2

    def row(self) -> dict[str, Any]:
        """Values for a table."""
        return {
            "mechanism": self.mechanism, "adjacency": self.adjacency, "delta": self.delta, "claimed": self.claimed,
            "proved": self.proved, "runs": 1, "canaries": self.canaries, "guesses": self.guesses, "right": self.right,
            "chance": self.chance,
        }  # fmt: skip


# --- from guesses to bounds ---------------------------------------------------------------------------------------------


def least_elsewhere(y: float, eps: np.ndarray, delta: np.ndarray) -> float:
    """Least chance of an event of chance y in a neighbouring world, by P <= e^eps Q + delta of it and of its opposite."""
    with np.errstate(over="ignore"):
        return max(0.0, float(((y - delta) * np.exp(-eps)).max()), float((1 - delta - np.exp(eps) * (1 - y)).max()))


def too_likely(beta: float, right: int, guesses: int, canaries: int, eps: np.ndarray, delta: np.ndarray) -> bool:
    """Whether a chance beta of so many right guesses or more leaves more than one in all, which no mechanism has."""
    here, other = beta * right / canaries, beta * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        more = least_elsewhere(here, eps, delta)
        if more <= other:
            break
        here, other = here + i / (guesses - i) * (more - other), more
        if here + other > guesses / canaries:
            return True
    return False


@typed
def guess_chance(right: int, *, guesses: int, canaries: int, curve: Sequence[Any]) -> float:
    """Upper bound on the chance of so many right guesses or more, for a mechanism that is (eps, delta)-private at each pair.

    Parameters
    ----------
    right : whole number of right guesses; guesses : whole number >= right of them; canaries : whole number >= guesses, each
        in or out by a fair coin.
    curve : list of pairs (eps, delta), all of one mechanism, for both ways between neighbours.

    Returns
    -------
    number in [1e-12, 1].

    >>> round(guess_chance(600, guesses=1000, canaries=1000, curve=[(0.3, 0.0)]), 4)
    0.0663
    >>> guess_chance(600, guesses=1000, canaries=1000, curve=[(1.0, 0.0)])
    1.0
    """
    canaries = index("canaries", canaries, 1)
    guesses = index("guesses", guesses, 1, canaries)
    right = index("right", right, 0, guesses)
    if not several(curve) or not len(curve) or any(np.shape(pair) != (2,) for pair in curve):
        raise ValueError("curve must be a list of pairs (eps, delta), at least one")
    eps, delta = (np.array([float(pair[k]) for pair in curve]) for k in (0, 1))
    if (eps < 0).any() or (delta < 0).any() or np.isnan(eps + delta).any():
        raise ValueError("curve must have eps >= 0 and delta >= 0 in each pair")
    if right == 0 or not too_likely(1.0, right, guesses, canaries, eps, delta):
        return 1.0
    low, high = np.log(LEAST), 0.0
    if too_likely(LEAST, right, guesses, canaries, eps, delta):
        return LEAST
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if too_likely(np.exp(middle), right, guesses, canaries, eps, delta) else (middle, high)
    return float(np.exp(high))


@typed
def judged_guesses(
    scores: ArrayLike,
    coins: ArrayLike,
    *,
    curve: Sequence[Any],
    delta: float,
    claimed: float,
    beta: float = 0.01,
    mechanism: str = "training",
    adjacency: str = "row add-remove",
    shares: ArrayLike = SHARES,
) -> OneRun:
    """`OneRun` of scores: a canary is said to be in where its score is positive, out where it is negative.

    The canaries of the largest scores, up or down, are guessed, so many of them as each of `shares` says; each has an equal
    part of beta, and what proves most is told.

    Parameters
    ----------
    scores : array (m,), computed without the coins; coins : array (m,) of booleans, who was in.
    curve : as in `guess_chance`; claimed : eps at `delta`, as the claim says; beta : number in (0, 1).
    shares : list of numbers in (0, 1], of the canaries, chosen before anything is seen.  One alone, that suits the noise
        which is feared, sees most: of half the noise of a Gaussian mechanism some .1 (at eps 1) to .2 (at eps 6).
    """
    scores, coins = number("scores", scores), np.asarray(coins, bool)
    if scores.ndim != 1 or scores.shape != coins.shape or not len(scores):
        raise ValueError(f"scores and coins must have one entry for each canary, got {scores.shape} and {coins.shape}")
    delta, beta, m = single(number, "delta", delta), single(fraction, "beta", beta), len(scores)
    order = np.argsort(-np.abs(scores), kind="stable")
    right = np.cumsum(((scores > 0) == coins)[order])
    shares = np.atleast_1d(number("shares", shares))
    if shares.ndim != 1 or not len(shares) or not ((shares > 0) & (shares <= 1)).all():
        raise ValueError("shares must be a list of numbers in (0, 1], at least one")
    sizes = sorted({max(1, round(share * m)) for share in shares.tolist()})
    tries = [(int(right[r - 1]), {"guesses": r, "canaries": m}) for r in sizes]
    each = beta / 2 / len(tries)
    proved = [one_run_bound(v, delta=delta, beta=each, **how) for v, how in tries]
    chances = [guess_chance(v, curve=curve, **how) for v, how in tries]
    best = int(np.argmin(chances) if min(chances) * len(tries) <= beta / 2 else np.argmax(proved))
    v, how = tries[best]
    chance = min(1.0, min(chances) * len(tries))
    return OneRun(mechanism, adjacency, float(claimed), delta, max(proved), chance, beta, m, how["guesses"], v)


# --- one training --------------------------------------------------------------------------------------------------------


class Coins(Task):
    """A task some of whose rows or clients are out.

    rows_out : array (K, most rows) of booleans, of rows that are drawn into batches and have no weight there, or None.
    clients_out : array (K,), of clients who are never called, and keep their places in every divisor, or None.
    """

    rows_out: np.ndarray | None = None
    clients_out: np.ndarray | None = None

    @typed
    def schedule(self, t: int, clients: ArrayLike | None = None, *, stage: int = 0, **changes: Any) -> Schedule:
        """The schedule without the rows that are out; divisors are those with them."""
        drawn = super().schedule(t, clients, stage=stage, **changes)
        if self.rows_out is None:
            return drawn
        weights = drawn.weights * ~self.rows_out[drawn.clients[:, None, None], drawn.indices]
        return Schedule(drawn.clients, drawn.indices, weights, drawn.divisors, drawn.steps)

    @typed
    def participants(self, t: int, *, rate: float | None = None, number: int | None = None) -> np.ndarray:
        """The participants who are not out."""
        found = super().participants(t, rate=rate, number=number)
        return found if self.clients_out is None else found[~self.clients_out[found]]


@typed
def claimed_curve(algorithm: Any, task: Task, *, rounds: int, clients: Sequence[int]) -> tuple[Any, list[Any]]:
    """`Guarantee` of that client who is promised most eps, after so many rounds, and pairs (eps, delta) at other deltas.

    Of trainings, and of sums and counts by an algorithm that has a `delta`; all others have the one pair.
    """
    promises = algorithm.guarantees(task, rounds=rounds)
    who = max(set(clients), key=lambda k: np.inf if promises[k] is None else promises[k].eps)
    promise = promises[who]
    if promise is None:
        raise ValueError(f"algorithm must promise something to client {who}, or there is no claim to audit")
    plan, curve = algorithm.privacy_plan(task, rounds=rounds), [(promise.eps, promise.delta)]
    kinds = {release.what for release in plan.releases}
    if kinds == {"training"}:
        event = row_steps(task, plan.count("training"))[who].at(float(plan.multipliers(task)[who]))
        accountant = getattr(plan.privacy, "accountant", "pld")
        return promise, curve + [(guarantee(event, delta=d, accountant=accountant).eps, d) for d in DELTAS]
    if kinds <= {"sum", "count"} and getattr(algorithm, "delta", None) is not None:
        others = (replace(algorithm, delta=d).guarantees(task, rounds=rounds)[who] for d in DELTAS)
        return promise, curve + [(other.eps, d) for other, d in zip(others, DELTAS, strict=True)]
    return promise, curve


@typed
def loss_falls(task: Task, seen: list[Any], rows: Sequence[Any]) -> np.ndarray:
    """How much each canary's loss fell over the training, over the median: what the last models alone say of it.

    Parameters
    ----------
    task : Task; seen : the first and the last models, dicts of "shared" (P,) or "personal" (K, P); rows : list of pairs
        (client, position of its row).
    """
    pool = task.bare.whole
    examples = [pool.client(k) for k, _ in rows]
    alone = task.backend.prepare(task.model, [(c.x[[i]], c.y[[i]]) for c, (_, i) in zip(examples, rows, strict=True)])
    mine = np.array([k for k, _ in rows])
    before, after = (
        task.backend.evaluate(task.model, models["shared"] if "shared" in models else models["personal"][mine], alone).loss
        for models in (seen[0], seen[-1])
    )
    return before - after - np.median(before - after)


def takes_two(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with two arguments, as far as it says."""
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # written in C, and does not say
        pass
    return True


@typed
def audit_training(
    algorithm: Algorithm,
    federation: Federation,
    model: Model,
    *,
    work: Mapping[str, Any],
    rounds: int,
    canaries: Sequence[Any],
    score: Callable[..., Any] | None = None,
    claim: Algorithm | None = None,
    seed: int = 0,
    beta: float = 0.01,
    backend: Backend | None = None,
    name: str = "training",
    shares: ArrayLike = SHARES,
) -> OneRun:
    """Audit one training of yours: canaries are in or out by coins, and the models that come out say who was in.

    Parameters
    ----------
    algorithm : an algorithm that promises privacy of rows or of clients; federation, model, work, rounds, backend : what it
        trains, as for ``Task`` and ``training``.
    canaries : list of pairs (client, position of its training row) whose guarantee is of rows, or of positions of clients.
        The more they stand out the more is proved: rows with wrong labels, or far from all others.
    score : function (task, models) to scores (m,), positive for who seems to be in; `models` has the first model and the one
        after each round, as dicts.  None: how far the loss of each canary fell (`loss_falls`), for rows.
    claim : algorithm whose promise is audited, None: the one that trains.  For broken ones.
    seed : whole number, of the coins and of the training; beta : number in (0, 1); name : what the training is called.
    shares : of the canaries, whom to guess, as in `judged_guesses`.

    Returns
    -------
    OneRun

    >>> from estimators.federated.algorithms import Local
    >>> from estimators.federated.data import Federation
    >>> from estimators.federated.models import logistic_regression
    >>> from estimators.federated.privacy import RowPrivacy
    >>> rng = np.random.default_rng(0)
    >>> pool = Federation(rng.normal(size=(300, 60)), rng.integers(0, 2, 300), [np.arange(300)])
    >>> work = {"rule": "poisson", "n_steps": 20, "batch_size": 300}
    >>> found = audit_training(
    ...     Local(learning_rate=1.0, privacy=RowPrivacy(eps=8.0, delta=1e-5, clip=1.0)), pool, logistic_regression(60),
    ...     work=work, rounds=1, canaries=[(0, i) for i in range(200)],
    ... )
    >>> found.refuted, found.proved < found.claimed, round(found.claimed, 3)
    (False, True, 8.0)
    """
    rounds = index("rounds", rounds, 1, 10**7)
    if not several(canaries) or not len(canaries):
        raise ValueError("canaries must be a list of pairs (client, row), or of clients, at least one")
    promising = algorithm if claim is None else claim
    if not hasattr(promising, "privacy_plan"):
        raise ValueError(f"algorithm must say what it releases, by a privacy_plan; {type(promising).__name__} has none")
    if score is not None and not takes_two(score):
        raise ValueError("score must be a function of two arguments, the task and the list of models, to scores")
    task = Coins(federation, model, work=work, seed=seed, backend=backend)
    protects = promising.privacy_plan(task, rounds=rounds).protects
    if protects == "nothing":
        raise ValueError("algorithm must promise privacy of rows or of clients; there is no claim to audit")
    coins = stream(seed, COINS, 0).random(len(canaries)) < 0.5
    if protects == "row":
        places = pairs_of(canaries, task)
        clients = places[:, 0]
        task.rows_out = np.zeros((task.n_clients, int(task.sizes.max())), bool)
        task.rows_out[tuple(places[~coins].T)] = True
    else:
        clients = finite("canaries", canaries).astype(int)
        if clients.ndim != 1 or len(set(clients.tolist())) < len(clients) or not set(clients) <= set(range(task.n_clients)):
            raise ValueError(f"canaries must be different clients below {task.n_clients}, whose guarantee is of clients")
        task.clients_out = np.isin(np.arange(task.n_clients), clients[~coins])
    if score is None and protects == "client":
        raise ValueError("score must be given where clients are the canaries: a function (task, models) to scores")
    promise, curve = claimed_curve(promising, task, rounds=rounds, clients=clients.tolist())
    seen = [kept(algorithm.models(task, algorithm.start(task, rounds=rounds)))]
    seen += [kept(algorithm.models(task, step.state)) for step in training(algorithm, task, rounds=rounds)]
    scores = loss_falls(task, seen, canaries) if score is None else score(task, seen)
    return judged_guesses(
        scores, coins, curve=curve, delta=promise.delta, claimed=promise.eps, beta=beta, mechanism=name,
        adjacency=promise.adjacency, shares=shares,
    )  # fmt: skip


def pairs_of(canaries: Sequence[Any], task: Task) -> np.ndarray:
    """Pairs (client, row) as an array (m, 2), checked."""
    places = finite("canaries", canaries)
    if places.ndim != 2 or places.shape[1] != 2 or len({tuple(pair) for pair in places.tolist()}) < len(places):
        raise ValueError("canaries must be different pairs (client, position of its row), whose guarantee is of rows")
    places = places.astype(int)
    inside = (places >= 0).all(axis=1) & (places[:, 0] < task.n_clients)
    inside[inside] = places[inside, 1] < task.sizes[places[inside, 0]]
    if not inside.all():
        k, i = places[int(np.argmin(inside))].tolist()
        raise ValueError(f"canaries must be training rows of the federation, and client {k} has no row {i}")
    return places


def kept(models: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of models that later rounds do not change."""
    return {name: np.array(value, float) for name, value in models.items() if isinstance(value, np.ndarray)}
