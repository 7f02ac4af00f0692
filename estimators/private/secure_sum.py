"""Secure aggregation, simulated: a server learns the sum of clients' whole numbers and, of each, nothing.

The protocol of Bonawitz et al. (2017) with honest parties.  Every two parties agree on a seed (Diffie and Hellman); a party
adds the mask of each seed that it shares with a later party and subtracts that of an earlier one, so that masks go away in
the sum, and adds one more mask of its own.  Its key and the seed of its own mask it hands out in shares (Shamir), any
`threshold` of which give them back.  Of a party that falls silent before it has sent, the others reveal their shares of the
key, whose masks are taken off; of one that was heard, those of its own mask; never both of one party.  All numbers are
modulo 2^bits, where a masked one is uniform.

The server may read everything and share it with clients; it is taken to follow the protocol (a consistency round against
servers that tell parties different stories is not simulated), and shares are taken to travel unread from party to party.
Timing is not simulated either.

Belongs here: the protocol, one class for a party and one function for the server.  Does not belong here: what is summed,
noise and guarantees (``distributed``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimators.numerics.arrays import Ints
from estimators.numerics.validation import count, listing, paired, single
from estimators.private.exact_noise import below, check_generator

__all__ = ["MOST_BITS", "Party", "SecureSum", "Share", "secure_sum", "unmask"]

MOST_BITS = 62
PRIME = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6D"
    "F25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7EDEE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3D"
    "C2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08"
    "CA18217C32905E462E36CE3BE39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
    "15728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
"""Safe prime of group 14 of RFC 3526, whose generator is 2."""
FIELD = (1 << 521) - 1
"""Prime above every secret, modulo which secrets are shared."""
SECRET = 256  # bits of a secret


class Share(NamedTuple):
    """What one party holds of another's two secrets: values of two polynomials at the holder's place, counted from 1."""

    key: int
    mask: int


def polynomial(secret: int, threshold: int, generator: np.random.Generator | None) -> list[int]:
    """Return coefficients of a random polynomial whose value at 0 is the secret and of which `threshold` values tell it."""
    return [secret, *(below(FIELD, generator) for _ in range(threshold - 1))]


def value(coefficients: Sequence[int], x: int) -> int:
    """Return the value of a polynomial."""
    total = 0
    for each in reversed(coefficients):
        total = (total * x + each) % FIELD
    return total


def joined(shares: Mapping[int, int]) -> int:
    """Return the secret of shares by their holders' places: the polynomial through them, at 0."""
    total = 0
    for x, y in shares.items():
        over, under = 1, 1
        for other in shares:
            if other != x:
                over, under = over * other % FIELD, under * (other - x) % FIELD
        total += y * over * pow(under, -1, FIELD)
    return total % FIELD


def agreed(key: int, public: int) -> bytes:
    """Return the seed that a party with a key shares with the one of a public number."""
    return hashlib.sha256(pow(public, key, PRIME).to_bytes(256)).digest()


def stretched(seed: bytes, size: int) -> np.ndarray:
    """Return as many 64-bit words out of a seed."""
    return np.frombuffer(hashlib.shake_256(seed).digest(8 * size), "<u8")


def own_seed(secret: int) -> bytes:
    """Return the seed of a party's own mask."""
    return secret.to_bytes(SECRET // 8)


class Party:
    """One client in one round: what its methods return is all that leaves it, and they refuse what would tell more.

    Parameters
    ----------
    place : whole number >= 1, different for each party.
    values : array (d,) of whole numbers, which this party puts into the sum.
    threshold : whole number >= 1, the parties that are needed to unmask; bits : whole number in 1..62, of the modulus.
    generator : numpy.random.Generator for a simulation that can be repeated, or None for the system's entropy.
    """

    def __init__(
        self, place: int, values: Ints, *, threshold: int, bits: int, generator: np.random.Generator | None = None
    ) -> None:
        self.place, self.values, self.threshold, self.bits = place, values, threshold, bits
        self.generator = generator
        self.key, self.own = 1 + below((1 << SECRET) - 1, generator), below(1 << SECRET, generator)
        self.public: dict[int, int] = {}
        self.held: dict[int, Share] = {}
        self.asked = False

    def __repr__(self):
        return f"Party({self.place})"

    def advertise(self) -> int:
        """Return the public number of the party's key."""
        return pow(2, self.key, PRIME)

    def share(self, public: Mapping[int, int]) -> dict[int, Share]:
        """Return the share of each party, this one included, of this party's secrets, given everybody's public numbers."""
        if len(public) < self.threshold:
            raise ValueError(f"the round ends: {len(public)} parties are fewer than the threshold {self.threshold}")
        self.public = dict(public)
        key, mask = (polynomial(secret, self.threshold, self.generator) for secret in (self.key, self.own))
        return {place: Share(value(key, place), value(mask, place)) for place in public}

    def masked(self, held: Mapping[int, Share]) -> np.ndarray:
        """Return the party's values behind its masks, array (d,) of words, given the shares that others handed to it."""
        self.held = dict(held)
        total = self.values.astype(np.int64).view(np.uint64) + stretched(own_seed(self.own), self.values.size)
        for place, public in self.public.items():
            if place != self.place:
                mask = stretched(agreed(self.key, public), self.values.size)
                total = total + mask if place > self.place else total - mask
        return total & modulus_mask(self.bits)

    def reveal(self, heard: Collection[int]) -> dict[int, int]:
        """Return one share for each party: of its own mask if it was heard, of its key if not.  Once, and not for few."""
        if self.asked:
            raise ValueError("shares were revealed already; a second story of who was heard would unmask somebody")
        if len(set(heard) & self.held.keys()) < self.threshold:
            raise ValueError(f"the round ends: {len(heard)} parties heard are fewer than the threshold {self.threshold}")
        self.asked = True
        return {place: share.mask if place in heard else share.key for place, share in self.held.items()}


def modulus_mask(bits: int) -> np.uint64:
    """Return the word whose last `bits` bits are set."""
    return np.uint64((1 << bits) - 1)


def unmask(
    messages: Mapping[int, np.ndarray],
    public: Mapping[int, int],
    revealed: Mapping[int, Mapping[int, int]],
    *,
    threshold: int,
    bits: int,
) -> Ints:
    """Return the sum of the values of all parties that were heard, array (d,) in -2^(bits-1)..2^(bits-1)-1: the server.

    Parameters
    ----------
    messages : masked words by place, of those heard; public : everybody's public numbers by place.
    revealed : what each remaining party revealed, by its place, then by the place of whom it is about.
    threshold, bits : as for `Party`.

    Raises
    ------
    ValueError
        Where fewer parties than the threshold were heard or have revealed; then the masks stay.
    """
    if min(len(messages), len(revealed)) < threshold:
        raise ValueError(
            f"the round ends: {len(messages)} parties were heard and {len(revealed)} revealed shares, the threshold is "
            f"{threshold}; nothing is unmasked"
        )
    holders = list(revealed)[:threshold]
    size = len(next(iter(messages.values())))
    total = np.zeros(size, np.uint64)
    for message in messages.values():
        total = total + message
    for place in public:
        secret = joined({holder: revealed[holder][place] for holder in holders})
        if place in messages:
            total = total - stretched(own_seed(secret), size)
            continue
        for other in messages:  # the silent one's masks, of which only the others' halves are in the sum
            mask = stretched(agreed(secret, public[other]), size)
            total = total - mask if other < place else total + mask
    shift = np.uint64(64 - bits)
    return (total << shift).view(np.int64) >> np.int64(shift)  # the sign is that of the highest of the bits


class SecureSum(NamedTuple):
    """What the server has after a round.

    total : array (d,) of ints, the sum of those heard, modulo 2^bits around 0; heard : places of those in it, from 0;
    messages : masked words of each of them, array (d,) by place.
    """

    total: Ints
    heard: tuple[int, ...]
    messages: dict[int, np.ndarray]


@paired
def secure_sum(
    values: Ints,
    *,
    threshold: int,
    bits: int,
    silent: Collection[int] = (),
    late: Collection[int] = (),
    generator: np.random.Generator | None = None,
) -> SecureSum:
    """One round of secure aggregation, all parties and the server, in this process.

    Nearly all of its time goes into seeds, two modular powers for each pair of parties.

    Parameters
    ----------
    values : array (m, d) of whole numbers below 2^62 in size, a row for each party.
    threshold : whole number in m/2 < threshold <= m, parties needed; above half, so that no party's two secrets can both
        be told.
    bits : whole number in 1..62; sums are right as long as they stay in -2^(bits-1)..2^(bits-1)-1.
    silent : places, from 0, of parties that are gone before they send their masked values, and so are not in the sum.
    late : places of parties that are gone after that, and are.
    generator : numpy.random.Generator for a simulation that can be repeated, or None for the system's entropy.

    Returns
    -------
    SecureSum

    >>> found = secure_sum(np.array([[1], [20], [300]]), threshold=2, bits=16, silent=[1])
    >>> found.total.tolist(), found.heard
    ([301], (0, 2))
    """
    check_generator(generator)
    values = np.asarray(values)
    if values.dtype.kind not in "iu" or values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"values must be an array (m, d) of whole numbers, got {values.dtype} of shape {values.shape}")
    if not ((values > -(1 << MOST_BITS)) & (values < 1 << MOST_BITS)).all():
        raise ValueError("values must be below 2^62 in size; one or more are not")
    m, threshold, bits = len(values), int(single(count, "threshold", threshold)), int(single(count, "bits", bits))
    if not m < 2 * threshold <= 2 * m:
        raise ValueError(f"threshold must be more than half of the {m} parties and at most all of them, got {threshold}")
    if bits > MOST_BITS:
        raise ValueError(f"bits must be at most {MOST_BITS}, got {bits}")
    gone, later = places_of("silent", silent, m), places_of("late", late, m)
    if gone & later:
        raise ValueError("silent and late must be different parties")
    parties = {
        i + 1: Party(i + 1, values[i], threshold=threshold, bits=bits, generator=generator) for i in range(m)
    }  # fmt: skip
    public = {place: party.advertise() for place, party in parties.items()}
    shares = {place: party.share(public) for place, party in parties.items()}
    messages = {
        place: party.masked({other: shares[other][place] for other in parties})
        for place, party in parties.items()
        if place - 1 not in gone
    }
    left = [place for place in messages if place - 1 not in later]
    if len(left) < threshold:
        raise ValueError(f"the round ends: {len(left)} parties are left, the threshold is {threshold}; nothing is unmasked")
    revealed = {place: parties[place].reveal(messages.keys()) for place in left}
    total = unmask(messages, public, revealed, threshold=threshold, bits=bits)
    return SecureSum(total, tuple(place - 1 for place in messages), {place - 1: sent for place, sent in messages.items()})


def places_of(name: str, places: Collection[int], m: int) -> set[int]:
    """Return places in 0..m-1 as a set."""
    found = [int(single(count, f"{name}[{i}]", place, 0)) for i, place in enumerate(listing(name, places))]
    if any(place >= m for place in found):
        raise ValueError(f"{name} must be places in 0..{m - 1}, got {max(found)}")
    return set(found)
