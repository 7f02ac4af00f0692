"""Who holds which rows of a pool: the partitions of the papers.

Training rows are given out without repetition: no two clients share one.  Test rows of the pool are given out by the same
rule, so that a client is tested on the classes that it learns; all of them together are also the server's test set.  A
partition depends on labels, its arguments and the seed only; the same seed gives the same clients on any machine.

Belongs here: rules that give rows to clients.  What changes the rows themselves is in ``silos``; choices of privacy are
in ``choices``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from estimators.federated.data.federation import Examples, Federation, apportion, generator
from estimators.federated.kinds import typed
from estimators.numerics.validation import count, index, positive, single

__all__ = ["dirichlet", "five_random_classes", "iid", "one_class", "random_classes", "three_classes"]


@typed
def iid(examples: Examples, *, clients: int, size: int | None = None, seed: int) -> Federation:
    """Equal random parts of all rows: sizes differ by one at most.

    Parameters
    ----------
    examples : Examples; clients : whole number >= 1; seed : whole number >= 0.
    size : None, or the most training rows that a client keeps.

    Returns
    -------
    Federation

    Raises ValueError if there are fewer training rows than clients.

    >>> pool = Examples(np.eye(7), [0, 1, 0, 1, 0, 1, 0], classes=2)
    >>> iid(pool, clients=3, seed=0).sizes.tolist(), iid(pool, clients=3, size=2, seed=0).sizes.tolist()
    ([3, 2, 2], [2, 2, 2])
    """
    clients, rng = number_of(clients), generator(seed, "iid")
    step: dict[str, int] = {"clients": clients, "seed": int(seed)}
    if size is not None:
        step["size"] = index("size", size, 1, 10**9)
    train, test = (np.array_split(rng.permutation(rows), clients) for rows in rows_by_part(examples))
    return federation(examples, [own[: step.get("size")] for own in train], test, {"iid": step})


@typed
def one_class(
    examples: Examples, *, clients: int, size: int | None = None, test_size: int | None = None, seed: int
) -> Federation:
    """One class per client, equally many rows each; `group` is the class.

    FedHDP, Section 5.1 (and FeO2, Section 5.1): "each client is assigned samples randomly from the subsets of samples
    each with a single digit", 2,000 clients of MNIST.  The text gives neither the size nor the clients of each digit.  By
    default the size is the largest with which all clients can be served (29 for 2,000 clients of MNIST: 30 rows serve
    1,995), and classes have clients in proportion to their rows.

    Parameters
    ----------
    examples : Examples with classes; clients : whole number >= 1.
    size : None, or the training rows of each client.
    test_size : None (test rows of a class are given out among its clients), or the test rows of each client, drawn from
        those of its class, which clients then share.
    seed : whole number >= 0.

    Returns
    -------
    Federation

    Raises ValueError if the rows do not suffice (with the largest size that does).

    >>> pool = Examples(np.eye(12), [0, 1] * 6, classes=2)
    >>> federation = one_class(pool, clients=4, seed=0)
    >>> federation.group.tolist(), federation.sizes.tolist()
    ([0, 0, 1, 1], [3, 3, 3, 3])
    """
    clients, rng = number_of(clients), generator(seed, "one_class")
    train, test = (by_class(examples, rows) for rows in rows_by_part(examples))
    rows = np.array([len(part) for part in train])
    largest = largest_size(rows, clients)
    size = largest if size is None else int(single(count, "size", size))
    if size < 1 or size > largest:
        raise ValueError(
            f"size {size} needs {clients} x {size} rows of single classes; {examples.name} serves {clients} clients with "
            f"{largest} at most; take a smaller size or fewer clients"
        )
    spare = rows // size
    wanted = apportion(clients, rows)
    while (wanted > spare).any():  # move clients from classes that are full to the one with the most room
        wanted[np.argmax(wanted - spare)] -= 1
        wanted[np.argmax(spare - wanted)] += 1
    owned, held, group = [], [], []
    for label, number in enumerate(wanted.tolist()):
        own = rng.permutation(train[label])[: number * size].reshape(number, size)
        if test_size is None:
            each = len(test[label]) // max(number, 1)
            parts = rng.permutation(test[label])[: number * each].reshape(number, each)
        elif count("test_size", test_size) > len(test[label]):
            raise ValueError(f"test_size is {test_size}, but class {label} has {len(test[label])} test rows")
        else:
            parts = [rng.choice(test[label], int(test_size), replace=False) for _ in range(number)]
        owned += list(own)
        held += list(parts)
        group += [label] * number
    step = {"clients": clients, "size": size, "test_size": None if test_size is None else int(test_size), "seed": int(seed)}
    return federation(examples, owned, held, {"one_class": step}, group)


def largest_size(rows: np.ndarray, clients: int) -> int:
    """Largest whole number of rows that `clients` clients, each of one class, can all have."""
    low, high = 0, int(rows.sum()) // clients
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (rows // middle).sum() >= clients else (low, middle - 1)
    return low


@typed
def random_classes(
    examples: Examples,
    *,
    clients: int,
    classes: int,
    spread: tuple[float, float] = (1.0, 1.0),
    balanced: bool = False,
    seed: int,
) -> Any:
    """Some random classes per client; a class' rows are divided among its clients in random proportions.

    Parameters
    ----------
    examples : Examples with classes; clients : whole number >= 1; classes : whole number of classes per client.
    spread : two numbers 0 < low <= high; proportions are uniform between them ((1, 1): equal parts).
    balanced : True: every class has as many clients as any other, give or take one.  False: every client draws its
        classes anew, so that some class may have no client and its rows no owner.
    seed : whole number >= 0.

    Returns
    -------
    Federation

    Raises ValueError if a client would be without training rows (take fewer clients).

    >>> pool = Examples(np.eye(40), [0, 1, 2, 3] * 10, classes=4)
    >>> federation = random_classes(pool, clients=4, classes=2, balanced=True, seed=0)
    >>> [len(set(client.y.tolist())) for client in federation]
    [2, 2, 2, 2]
    """
    step = {"clients": number_of(clients), "classes": index("classes", classes, 1, max(examples.classes, 1))}
    low, high = ends = positive("spread", spread).tolist() if np.shape(spread) == (2,) else (np.inf, 0.0)
    if low > high:
        raise ValueError(f"spread must be two numbers 0 < low <= high, got {spread!r}")
    rng, clients = generator(seed, "random_classes"), step["clients"]
    has = np.zeros((clients, examples.classes), dtype=bool)
    for k in range(clients):
        # A class' clients so far, then chance, decide who is next; without balance only chance does.
        load = has.sum(axis=0) if balanced else np.zeros(examples.classes)
        has[k, np.lexsort((rng.random(examples.classes), load))[:classes]] = True
    shares = np.where(has, low + (high - low) * rng.random(has.shape), 0.0)
    step |= {"spread": ends, "balanced": bool(balanced), "seed": int(seed)}
    return by_shares(examples, shares, rng, {"random_classes": step})


@typed
def three_classes(examples: Examples, *, clients: int = 50, seed: int) -> Any:
    """Three random classes per client, each class in equal parts; 50 clients (AdaPeD on MNIST).

    Generative framework, Section 4, experiment setting: "letting each client sample data from 3 randomly selected classes
    only", m = 50.  Sizes are not given there.  Arguments and result as in `random_classes`.
    """
    return random_classes(examples, clients=clients, classes=3, seed=seed)


@typed
def five_random_classes(examples: Examples, *, clients: int = 30, seed: int) -> Any:
    """Five random classes per client with random sizes; 30 clients (MR-MTL's heterogeneous CIFAR-10).

    MR-MTL, Appendix C.1: 30 silos, 5 of 10 classes each, 1,515 to 1,839 training rows, after the code of pFedHN (Shamsian
    et al. 2021).  Every class has equally many silos, with proportions uniform in (0.4, 0.6), which gives that range.
    Arguments and result as in `random_classes`.
    """
    return random_classes(examples, clients=clients, classes=5, spread=(0.4, 0.6), balanced=True, seed=seed)


@typed
def dirichlet(examples: Examples, *, clients: int, alpha: float, seed: int) -> Any:
    """Label skew: each class is divided among all clients by a Dirichlet(alpha, ..., alpha) draw.

    Yurochkin et al. (2019).  Small `alpha`: few clients per class; large: nearly equal parts.

    Parameters
    ----------
    examples : Examples with classes; clients : whole number >= 1; alpha : number > 0; seed : whole number >= 0.

    Returns
    -------
    Federation

    Raises ValueError if a client would be without training rows (take a larger alpha, fewer clients or another seed).

    >>> pool = Examples(np.eye(40), [0, 1, 2, 3] * 10, classes=4)
    >>> dirichlet(pool, clients=3, alpha=1.0, seed=0).sizes.sum()
    np.int64(40)
    """
    clients, alpha = number_of(clients), single(positive, "alpha", alpha)
    rng = generator(seed, "dirichlet")
    # Proportions are cut to 2^-40, so that the last bit of a machine's logarithms does not decide who gets a row.
    draws = rng.dirichlet(np.full(clients, alpha), size=max(examples.classes, 1)).T
    step = {"clients": clients, "alpha": alpha, "seed": int(seed)}
    return by_shares(examples, np.round(draws * 2.0**40) / 2.0**40, rng, {"dirichlet": step})


def by_shares(examples: Examples, shares: np.ndarray, rng: np.random.Generator, step: dict[str, Any]) -> Any:
    """Federation in which client k has a part of class c in proportion to shares[k, c], in training and in test rows."""
    train, test = [[] for _ in shares], [[] for _ in shares]
    for owners, rows in zip((train, test), rows_by_part(examples), strict=True):
        for label, part in enumerate(by_class(examples, rows)):
            if not shares[:, label].sum() > 0:
                continue
            ends = np.cumsum(apportion(len(part), shares[:, label]))
            for owner, own in zip(owners, np.split(rng.permutation(part), ends[:-1]), strict=True):
                owner.append(own)
    empty = np.flatnonzero([sum(map(len, own)) == 0 for own in train])
    if len(empty):
        raise ValueError(
            f"{len(empty)} of {len(shares)} clients (the first is {empty[0]}) have no training row of {examples.name}; "
            "take fewer clients, a larger alpha, or another seed"
        )
    return federation(examples, *([np.concatenate(own) for own in part] for part in (train, test)), step)  # pyright: ignore[reportCallIssue]


def federation(examples: Examples, train: Any, test: Any, step: dict[str, Any], group: Any = None) -> Federation:
    """Federation over a pool, with the step that made it."""
    return Federation(
        examples.x, examples.y, tuple(train), tuple(test), np.flatnonzero(examples.test), group, classes=examples.classes,
        top=examples.top, name=examples.name, provenance={**examples.provenance, **step},
    )  # fmt: skip


def rows_by_part(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and for testing."""
    if not isinstance(examples, Examples):
        raise ValueError(f"examples must be Examples (pooled rows), got {type(examples).__name__}")
    return np.flatnonzero(~examples.test), np.flatnonzero(examples.test)


def by_class(examples: Examples, rows: Any) -> list[Any]:
    """Row numbers of each class."""
    if examples.classes == 0:
        raise ValueError(f"{examples.name} has no classes to part by; use iid")
    return [rows[examples.y[rows] == label] for label in range(examples.classes)]


def number_of(clients: int) -> int:
    """Return `clients` as a whole number >= 1."""
    return index("clients", clients, 1, 10**9)
