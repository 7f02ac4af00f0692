"""Secure aggregation, simulated: a server learns the sum of clients' whole numbers and, of each, nothing.

The protocol of Bonawitz et al. (2017) with honest parties.  Every two parties agree on a seed (Diffie and Hellman); a party
adds the mask of each seed that it shares with a later party and subtracts that of an earlier one, so that masks go away in
the sum, and adds one more mask of its own.  Its key and the seed of its own mask it hands out in shares (Shamir), any
`threshold` of which give them back.  Of a party that falls silent before it has sent, the others reveal their shares of the
key, whose masks are taken off; of one that was heard, those of its own mask; never both of one party.  All numbers are
modulo 2^bits, where a masked one is uniform.

The server may read everything, share it with clients, and lie.  Told different stories of who was heard, parties would help
it to the sum of fewer than `threshold` of them (``lying_server``).  So each signs the list that it was told, and reveals
nothing until `threshold` parties have signed the very same one, with the same keys for masks; those are signed too, or the
server could hand out its own.
Two lists would need two signatures of more parties than there are if twice the threshold is more than all parties and the
colluding ones together.

Taken for granted: every party knows everybody's key for signatures before the round, from somebody else than the server, and
that key is of this round alone, so that nothing signed in another one counts; shares travel unread from party to party.  The
server can still leave parties out, end the round and choose who is heard among any `threshold` of them.  Timing is not
simulated.

Belongs here: the protocol, one class for a party, one function for the server and one for a server that lies.  Does not
belong here: what is summed, noise and guarantees (``distributed``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from estimators.numerics.arrays import Ints
from estimators.numerics.validation import count, listing, paired, single
from estimators.private.exact_noise import below, check_generator

__all__ = ["MOST_BITS", "Party", "RoundEnded", "SecureSum", "Share", "lies_for_few", "lying_server", "secure_sum", "unmask"]

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
NONCE = 2 * SECRET + 128  # of what hides the key in a signature, whose product with a digest has 512 bits


class RoundEnded(ValueError):
    """Parties reveal nothing more: too few of them are left, or what the server told them does not fit together."""


class Signature(NamedTuple):
    """Schnorr's signature in the group of masks, its response a whole number that nothing is reduced by (Girault)."""

    commitment: int
    response: int


def digest(text: str, commitment: int, public: int) -> int:
    """Return the challenge of a signature."""
    return int.from_bytes(hashlib.sha256(f"{commitment}|{public}|{text}".encode()).digest())


def signature_of(text: str, key: int, generator: np.random.Generator | None) -> Signature:
    """Return the signature of a text by the owner of a key."""
    nonce = below(1 << NONCE, generator)
    commitment = pow(2, nonce, PRIME)
    return Signature(commitment, nonce + key * digest(text, commitment, pow(2, key, PRIME)))


@lru_cache(maxsize=4096)  # all parties of a simulation look at the same signatures
def is_signed(text: str, signature: Signature, public: int) -> bool:
    """Return whether the owner of a public number has signed a text."""
    if not 0 <= signature.response < 1 << (NONCE + 1):
        return False
    right = signature.commitment * pow(public, digest(text, signature.commitment, public), PRIME) % PRIME
    return pow(2, signature.response, PRIME) == right


def key_text(place: int, public: int) -> str:
    """Return what a party signs of its key for masks."""
    return f"key of {place}: {public}"


def list_text(heard: Collection[int], public: Mapping[int, int]) -> str:
    """Return what a party signs of those it was told were heard, in the round of these keys for masks."""
    keys = hashlib.sha256("; ".join(key_text(place, public[place]) for place in sorted(public)).encode()).hexdigest()
    return f"heard: {sorted({int(place) for place in heard})} among keys {keys}"


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
    careless : True for a party that asks for no signatures, as in the protocol for servers that keep to it.
    """

    def __init__(
        self,
        place: int,
        values: Ints,
        *,
        threshold: int,
        bits: int,
        generator: np.random.Generator | None = None,
        careless: bool = False,
    ) -> None:
        self.place, self.values, self.threshold, self.bits = place, values, threshold, bits
        self.generator, self.careless = generator, careless
        self.key, self.own = 1 + below((1 << SECRET) - 1, generator), below(1 << SECRET, generator)
        self.signing = 1 + below((1 << SECRET) - 1, generator)
        self.signer = pow(2, self.signing, PRIME)  # which everybody knows before the round
        self.signers: dict[int, int] = {}
        self.told: frozenset[int] | None = None
        self.public: dict[int, int] = {}
        self.held: dict[int, Share] = {}
        self.sent = self.asked = False

    def __repr__(self):
        return f"Party({self.place})"

    def advertise(self) -> tuple[int, Signature]:
        """Return the public number of the party's key, and its signature."""
        public = pow(2, self.key, PRIME)
        return public, signature_of(key_text(self.place, public), self.signing, self.generator)

    def share(self, public: Mapping[int, tuple[int, Signature]], signers: Mapping[int, int]) -> dict[int, Share]:
        """Return the share of each party, this one included, of this party's secrets.  Once.

        Parameters
        ----------
        public : what each party advertised, by its place; signers : public numbers of the keys for signatures, by place, not
            from the server.
        """
        if self.public:
            raise ValueError("shares were handed out already; with masks for other parties the same values would be bare")
        if len(public) < self.threshold:
            raise RoundEnded(f"the round ends: {len(public)} parties are fewer than the threshold {self.threshold}")
        if 2 * self.threshold <= len(signers):
            raise ValueError(f"threshold must be more than half of the {len(signers)} parties, got {self.threshold}")
        if not self.careless:
            for place, (number, signature) in public.items():
                if place not in signers or not is_signed(key_text(place, number), signature, signers[place]):
                    raise RoundEnded(f"the round ends: the key of party {place} is not signed by it")
        self.signers, self.public = dict(signers), {place: number for place, (number, _) in public.items()}
        key, mask = (polynomial(secret, self.threshold, self.generator) for secret in (self.key, self.own))
        return {place: Share(value(key, place), value(mask, place)) for place in public}

    def masked(self, held: Mapping[int, Share]) -> np.ndarray:
        """Return the party's values behind its masks, array (d,) of words, given the shares that others gave it.  Once."""
        if self.sent or not self.public:
            raise ValueError("values are sent once, after shares were handed out; otherwise masks would be missing")
        self.held, self.sent = dict(held), True
        total = self.values.astype(np.int64).view(np.uint64) + stretched(own_seed(self.own), self.values.size)
        for place, public in self.public.items():
            if place != self.place:
                mask = stretched(agreed(self.key, public), self.values.size)
                total = total + mask if place > self.place else total - mask
        return total & modulus_mask(self.bits)

    def sign(self, heard: Collection[int]) -> Signature:
        """Return the party's signature of the list of those who were heard, as it was told it.  Once."""
        if self.told is not None:
            raise ValueError("a list was signed already; a second story of who was heard would unmask somebody")
        self.told = frozenset(heard)
        return signature_of(list_text(heard, self.public), self.signing, self.generator)

    def reveal(self, heard: Collection[int], signatures: Mapping[int, Signature] | None = None) -> dict[int, int]:
        """Return one share for each party: of its own mask if it was heard, of its key if not.  Once, and not for few.

        Parameters
        ----------
        heard : places of those who were heard; signatures : of that list, by place, `threshold` or more.
        """
        if self.asked:
            raise ValueError("shares were revealed already; a second story of who was heard would unmask somebody")
        if len(set(heard) & self.held.keys()) < self.threshold:
            raise RoundEnded(f"the round ends: {len(heard)} parties heard are fewer than the threshold {self.threshold}")
        if not self.careless:
            if self.told != frozenset(heard):
                raise RoundEnded("the round ends: this is another list of who was heard than the one that was signed")
            text = list_text(heard, self.public)
            agree = sum(
                place in self.signers and is_signed(text, each, self.signers[place])
                for place, each in (signatures or {}).items()
            )
            if agree < self.threshold:
                raise RoundEnded(
                    f"the round ends: {agree} parties have signed the list of who was heard, the threshold is "
                    f"{self.threshold}; the server may have told others another story"
                )
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
    RoundEnded
        A ValueError, where fewer parties than the threshold were heard or have revealed; then the masks stay.
    """
    if min(len(messages), len(revealed)) < threshold:
        raise RoundEnded(
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
        total = total - masks_of(place, secret, messages, public, size)
    return centred(total, bits)


def masks_of(place: int, secret: int, heard: Collection[int], public: Mapping[int, int], size: int) -> np.ndarray:
    """Return what a party's secret accounts for in the sum of those heard.

    Its own mask; or, of one that is not in the sum, the others' halves of its masks.
    """
    if place in heard:
        return stretched(own_seed(secret), size)
    total = np.zeros(size, np.uint64)
    for other in heard:
        mask = stretched(agreed(secret, public[other]), size)
        total = total + mask if other < place else total - mask
    return total


def centred(words: np.ndarray, bits: int) -> Ints:
    """Return words as numbers around 0: the sign is that of the highest of the bits."""
    shift = np.uint64(64 - bits)
    return (words << shift).view(np.int64) >> np.int64(shift)


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

    Nearly all of its time goes into seeds and signatures, two modular powers for each pair of parties and some for each one.

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
    values, threshold, bits = checked_round(values, threshold, bits)
    m = len(values)
    gone, later = places_of("silent", silent, m), places_of("late", late, m)
    if gone & later:
        raise ValueError("silent and late must be different parties")
    parties, public, messages = first_rounds(values, gone, threshold=threshold, bits=bits, generator=generator)
    left = [place for place in messages if place - 1 not in later]
    if len(left) < threshold:
        raise RoundEnded(f"the round ends: {len(left)} parties are left, the threshold is {threshold}; nothing is unmasked")
    signatures = {place: parties[place].sign(messages.keys()) for place in left}
    revealed = {place: parties[place].reveal(messages.keys(), signatures) for place in left}
    total = unmask(messages, public, revealed, threshold=threshold, bits=bits)
    return SecureSum(total, tuple(place - 1 for place in messages), {place - 1: sent for place, sent in messages.items()})


def checked_round(values: Any, threshold: Any, bits: Any) -> tuple[Ints, int, int]:
    """Return what a round is run on, or raise ValueError by the argument's name."""
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
    return values, threshold, bits


def first_rounds(
    values: Ints,
    gone: Collection[int],
    *,
    threshold: int,
    bits: int,
    generator: np.random.Generator | None,
    careless: bool = False,
) -> tuple[dict[int, Party], dict[int, int], dict[int, np.ndarray]]:
    """Return all parties, their public numbers, and the masked values of those who are not `gone`, all by place from 1."""
    parties = {
        i + 1: Party(i + 1, row, threshold=threshold, bits=bits, generator=generator, careless=careless)
        for i, row in enumerate(values)
    }
    signers = {place: party.signer for place, party in parties.items()}
    advertised = {place: party.advertise() for place, party in parties.items()}
    shares = {place: party.share(advertised, signers) for place, party in parties.items()}
    messages = {
        place: party.masked({other: shares[other][place] for other in parties})
        for place, party in parties.items()
        if place - 1 not in gone
    }
    return parties, {place: number for place, (number, _) in advertised.items()}, messages


def lies_for_few(m: int, threshold: int) -> tuple[int, dict[int, list[int]]]:
    """Return how few of m careless parties a server can single out by lies, and the list that it tells each to do so.

    Victims are on every list, so that all reveal shares of their own masks.  Lists hold `threshold` parties, for which
    parties look, but each of the others is missing on as many of them, so that its key can be put together.

    >>> few, lists = lies_for_few(9, 5)
    >>> few, lists[1], lists[2]
    (2, [1, 2, 3, 4, 5], [1, 2, 6, 7, 8])
    """
    m, threshold = int(single(count, "m", m)), int(single(count, "threshold", threshold))
    if threshold > m:
        raise ValueError(f"threshold must be at most the {m} parties, got {threshold}")
    # As many victims as the threshold always do; with fewer, the others have m (threshold - few) places on lists.
    few = next(n for n in range(1, threshold + 1) if m * (threshold - n) <= (m - n) * (m - threshold))
    others, each = list(range(few + 1, m + 1)), threshold - few
    turns = [others[i % len(others)] for i in range(m * each)]  # who goes on the lists, round and round
    return few, {place: [*range(1, few + 1), *sorted(turns[(place - 1) * each : place * each])] for place in range(1, m + 1)}


@paired
def lying_server(
    values: Ints, *, threshold: int, bits: int, careless: bool, generator: np.random.Generator | None = None
) -> SecureSum:
    """Try to learn the sum of fewer parties than `threshold` by telling each another story of who was heard.

    Parameters
    ----------
    values, threshold, bits, generator : as for `secure_sum`; careless : whether parties ask for no signatures.

    Returns
    -------
    SecureSum of the victims alone.

    Raises
    ------
    RoundEnded
        A ValueError, where parties see through it.

    >>> lying_server(np.arange(9)[:, None] ** 2, threshold=5, bits=16, careless=True).total.tolist()
    [1]
    >>> lying_server(np.arange(9)[:, None] ** 2, threshold=5, bits=16, careless=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    estimators.private.secure_sum.RoundEnded: the round ends: 2 parties have signed the list of who was heard, ...
    """
    check_generator(generator)
    values, threshold, bits = checked_round(values, threshold, bits)
    few, stories = lies_for_few(len(values), threshold)
    parties, public, messages = first_rounds(
        values, (), threshold=threshold, bits=bits, generator=generator, careless=careless
    )
    signatures = {place: party.sign(stories[place]) for place, party in parties.items()}
    told = {place: party.reveal(stories[place], signatures) for place, party in parties.items()}
    victims = {place: messages[place] for place in range(1, few + 1)}
    total = np.zeros(values.shape[1], np.uint64)
    for about in public:
        holders = [place for place in parties if (about in stories[place]) == (about in victims)][:threshold]
        secret = joined({holder: told[holder][about] for holder in holders})
        total = total + masks_of(about, secret, victims, public, values.shape[1])
    found = centred(sum(victims.values(), np.zeros(values.shape[1], np.uint64)) - total, bits)
    return SecureSum(found, tuple(place - 1 for place in victims), {place - 1: sent for place, sent in messages.items()})


def places_of(name: str, places: Collection[int], m: int) -> set[int]:
    """Return places in 0..m-1 as a set."""
    found = [int(single(count, f"{name}[{i}]", place, 0)) for i, place in enumerate(listing(name, places))]
    if any(place >= m for place in found):
        raise ValueError(f"{name} must be places in 0..{m - 1}, got {max(found)}")
    return set(found)
