"""Secure sums piece by piece: signatures, shares, masks and words by their definitions, and both sides of every limit."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from estimators.private.secure_sum import (
    FIELD,
    PRIME,
    Party,
    RoundEnded,
    Share,
    Signature,
    agreed,
    centred,
    digest,
    first_rounds,
    is_signed,
    joined,
    lies_for_few,
    list_text,
    lying_server,
    masks_of,
    modulus_mask,
    own_seed,
    places_of,
    polynomial,
    secure_sum,
    signature_of,
    stretched,
    unmask,
    value,
)

RNG = np.random.default_rng


def test_a_signature_is_schnorrs():
    """2^response = commitment * public^challenge, the challenge the hash of commitment, public number and text."""
    key = 123456789
    public = pow(2, key, PRIME)
    found = signature_of("some text", key, RNG(1))
    challenge = int(hashlib.sha256(f"{found.commitment}|{public}|some text".encode()).hexdigest(), 16)
    assert digest("some text", found.commitment, public) == challenge
    assert pow(2, found.response, PRIME) == found.commitment * pow(public, challenge, PRIME) % PRIME
    assert is_signed("some text", found, public)
    assert not is_signed("some test", found, public)
    assert not is_signed("some text", found._replace(commitment=found.commitment + 1), public)
    assert not is_signed("some text", found, pow(2, key + 1, PRIME))
    assert 2**600 < found.response < 2**641  # a nonce that hides the product of a key and a challenge, of 512 bits


def test_nonces_have_640_bits_so_that_every_signature_is_short_enough_to_be_taken():
    responses = [signature_of("text", 2**256 - 1, RNG(seed)).response for seed in range(12)]
    assert all(0 <= response < 2**640 + 2**512 for response in responses)
    assert max(responses) > 2**639


def test_secrets_of_a_party_are_positive_and_of_256_bits():
    """Nonces of signatures are made to hide the product of a challenge and a key of so many bits."""
    for seed in range(12):
        party = Party(1, np.zeros(1, int), threshold=1, bits=8, generator=RNG(seed))
        for secret in (party.key, party.signing):
            assert 0 < secret < 2**256
        assert 0 <= party.own < 2**256


def test_of_responses_that_are_equal_in_the_group_one_is_taken():
    """Another one would be another signature of the same text, and a long one costs the reader's time."""
    found = signature_of("text", 77, RNG(2))
    public = pow(2, 77, PRIME)
    for other in (found.response + PRIME - 1, found.response - (PRIME - 1)):
        assert pow(2, other, PRIME) == pow(2, found.response, PRIME)
        assert not is_signed("text", found._replace(response=other), public)
    for response, taken in ((0, True), (2**641 - 1, True), (2**641, False), (-1, False)):  # of the key 0
        assert is_signed("text", Signature(pow(2, response, PRIME), response), 1) is taken


def test_lists_are_signed_in_any_order_with_the_keys_of_the_round():
    assert list_text({3, 1}, {1: 10, 3: 30}) == list_text((np.int64(1), np.int64(3), 3), {3: 30, 1: 10})
    assert list_text({3, 1}, {1: 10, 3: 30}) != list_text({1}, {1: 10, 3: 30})
    assert list_text({3, 1}, {1: 10, 3: 30}) != list_text({3, 1}, {1: 10, 3: 31})
    keys = hashlib.sha256(b"key of 1: 10; key of 3: 30").hexdigest()
    assert list_text({3, 1}, {1: 10, 3: 30}) == f"heard: [1, 3] among keys {keys}"


def test_shares_are_values_of_a_polynomial_and_join_to_its_value_at_zero():
    assert [value([5, 3, 2], x) for x in (0, 1, 2, 10)] == [5, 10, 19, 235]
    assert value([1, FIELD - 1], 1) == 0
    found = polynomial(99, 4, RNG(3))
    assert (found[0], len(found)) == (99, 4)
    assert all(0 <= each < FIELD for each in found)
    assert max(found[1:]) > FIELD >> 64
    for shares in ({1: 7, 2: 5}, {2: 1, 3: 8, 7: 4}, {1: 3, 4: 0, 5: 9, 11: 2}):  # by Lagrange, in rational numbers
        at_zero = Fraction(0)
        for x, y in shares.items():
            part = Fraction(y)
            for other in shares:
                part *= Fraction(-other, x - other) if other != x else 1
            at_zero += part
        assert joined(shares) == at_zero.numerator * pow(at_zero.denominator, -1, FIELD) % FIELD


def test_two_parties_agree_on_a_seed_that_is_a_hash_of_their_common_number():
    a, b, c = 1234567, 7654321, 999
    seed = agreed(a, pow(2, b, PRIME))
    assert seed == agreed(b, pow(2, a, PRIME)) == hashlib.sha256(pow(2, a * b, PRIME).to_bytes(256)).digest()
    assert seed != agreed(a, pow(2, c, PRIME))
    words = stretched(seed, 5)
    assert words.tolist() == [
        int.from_bytes(hashlib.shake_256(seed).digest(40)[8 * i : 8 * i + 8], "little") for i in range(5)
    ]
    assert own_seed(258) == bytes(30) + b"\x01\x02"


def test_words_around_zero():
    for bits in (1, 2, 8, 61, 62):
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        assert int(modulus_mask(bits)) == (1 << bits) - 1
        for number in {low, -1, 0, high}:
            for laps in (0, 1, 5):  # what is above the bits does not count
                word = np.array([(number + (laps << bits)) % (1 << 64)], np.uint64)
                assert centred(word, bits).tolist() == [number]


def test_a_message_is_the_values_behind_the_masks_of_pairs_and_its_own():
    """Of three parties by hand: masks of later ones are added, of earlier ones taken off, one's own is added."""
    values = np.array([[5, -7], [11, 2], [-3, 4]])
    parties, public, messages = first_rounds(values, (1,), threshold=2, bits=20, generator=RNG(5))
    assert set(messages) == {1, 3}
    assert {place: pow(2, party.key, PRIME) for place, party in parties.items()} == public

    def mask(i, j):
        return [int(w) for w in stretched(agreed(parties[i].key, public[j]), 2)]

    for place in messages:
        own = [int(w) for w in stretched(own_seed(parties[place].own), 2)]
        expected = []
        for k in range(2):
            total = int(values[place - 1, k]) + own[k]
            for other in parties:
                total += 0 if other == place else mask(place, other)[k] * (1 if other > place else -1)
            expected.append(total % 2**20)
        assert messages[place].tolist() == expected
    lost = masks_of(2, parties[2].key, messages, public, 2)
    assert [int(w) for w in lost] == [(mask(1, 2)[k] - mask(3, 2)[k]) % 2**64 for k in range(2)]
    assert masks_of(1, parties[1].own, messages, public, 2).tolist() == stretched(own_seed(parties[1].own), 2).tolist()


def heard_all(m, threshold, **more):
    return first_rounds(np.arange(1, m + 1)[:, None], (), threshold=threshold, bits=16, generator=RNG(6), **more)


def test_as_many_parties_as_the_threshold_suffice_everywhere():
    parties, public, messages = heard_all(5, 3)
    heard = {1, 3, 4}
    signed = {i: parties[i].sign(heard) for i in (1, 3, 4)}
    with pytest.raises(RoundEnded, match="2 parties have signed the list of who was heard, the threshold is 3"):
        parties[1].reveal(heard, {i: signed[i] for i in (1, 3)})
    with pytest.raises(RoundEnded, match="2 parties have signed"):
        parties[1].reveal(heard, {**{i: signed[i] for i in (1, 3)}, 6: signed[4]})  # of nobody that is known
    told = {i: parties[i].reveal(heard, signed) for i in heard}
    sent = {i: messages[i] for i in heard}
    assert unmask(sent, public, told, threshold=3, bits=16).tolist() == [1 + 3 + 4]
    with pytest.raises(RoundEnded, match="3 parties were heard and 2 revealed"):
        unmask(sent, public, {i: told[i] for i in (1, 3)}, threshold=3, bits=16)
    with pytest.raises(RoundEnded, match="2 parties were heard and 3 revealed"):
        unmask({i: sent[i] for i in (1, 3)}, public, told, threshold=3, bits=16)


def test_shares_are_handed_out_to_as_many_as_the_threshold_and_not_to_fewer():
    def party(place, threshold, **more):
        return Party(place, np.array([1]), threshold=threshold, bits=8, generator=RNG(place), **more)

    three = {i: party(i, 2) for i in (1, 2, 3)}
    signers, public = {i: p.signer for i, p in three.items()}, {i: p.advertise() for i, p in three.items()}
    some = {i: public[i] for i in (1, 2)}
    assert set(three[1].share(some, signers)) == {1, 2}
    with pytest.raises(RoundEnded, match="1 parties are fewer than the threshold 2"):
        three[2].share({1: public[1]}, signers)
    four = {**signers, 4: 1}
    with pytest.raises(ValueError, match="more than half of the 4 parties, got 2"):
        three[3].share(public, four)
    forged = {**public, 2: public[1]}
    with pytest.raises(RoundEnded, match="the key of party 2 is not signed by it"):
        three[3].share(forged, signers)
    careless = party(3, 2, careless=True)
    assert all(isinstance(each, Share) for each in careless.share(forged, signers).values())
    assert repr(careless) == "Party(3)"


def test_careful_is_what_parties_are():
    parties, _, _ = heard_all(3, 2)
    assert not any(party.careless for party in parties.values())
    with pytest.raises(RoundEnded, match="another list"):
        parties[1].reveal({1, 2})
    careless, _, _ = heard_all(3, 2, careless=True)
    assert set(careless[1].reveal({1, 2})) == {1, 2, 3}


def test_rounds_end_where_they_are_said_to():
    most = 2**62 - 1
    assert secure_sum(np.array([[most], [-most], [5]]), threshold=2, bits=62).total.tolist() == [5]
    for wrong in (2**62, -(2**62)):
        with pytest.raises(ValueError, match=r"below 2\^62 in size"):
            secure_sum(np.array([[wrong], [1]]), threshold=2, bits=8)
    one = np.array([[1], [0], [1], [0]])
    assert secure_sum(one, threshold=3, bits=3).total.tolist() == [2]
    assert secure_sum(one, threshold=4, bits=3).total.tolist() == [2]
    assert secure_sum(one, threshold=3, bits=1).total.tolist() == [0]
    assert secure_sum(np.array([[3]]), threshold=1, bits=3).total.tolist() == [3]
    for threshold in (2, 5):
        with pytest.raises(ValueError, match="more than half of the 4 parties and at most all of them"):
            secure_sum(one, threshold=threshold, bits=3)
    for bits, why in ((0, "bits"), (63, "bits must be at most 62, got 63")):
        with pytest.raises(ValueError, match=why):
            secure_sum(one, threshold=3, bits=bits)
    for wrong in (np.array([1, 2]), np.ones((2, 1)), np.ones((2, 0), int), np.ones((0, 2), int)):
        with pytest.raises(ValueError, match=r"values must be an array \(m, d\) of whole numbers"):
            secure_sum(wrong, threshold=2, bits=8)
    assert secure_sum(one, threshold=3, bits=8, late=[3]).heard == (0, 1, 2, 3)
    assert secure_sum(one, threshold=3, bits=8, silent=[0]).heard == (1, 2, 3)
    for gone in ({"late": [0, 3]}, {"silent": [0], "late": [3]}, {"silent": [1, 2]}):
        with pytest.raises(RoundEnded, match="2 parties are left, the threshold is 3"):
            secure_sum(one, threshold=3, bits=8, **gone)
    with pytest.raises(ValueError, match="silent and late must be different parties"):
        secure_sum(one, threshold=3, bits=8, silent=[1], late=[1])


def test_places_are_counted_from_nought():
    assert places_of("silent", [0, 2, 2], 3) == {0, 2}
    assert places_of("silent", [], 3) == set()
    with pytest.raises(ValueError, match=r"silent must be places in 0..2, got 3"):
        places_of("silent", [1, 3], 3)
    with pytest.raises(ValueError, match=r"silent\[1\]"):
        places_of("silent", [1, -1], 3)


def test_lists_of_a_lying_server_by_hand():
    """Of five parties with a threshold of three: 5 x 1 places for the others fit on 3 x 2, 5 x 2 would not on 4 x 2."""
    few, lists = lies_for_few(5, 3)
    assert (few, lists) == (2, {1: [1, 2, 3], 2: [1, 2, 4], 3: [1, 2, 5], 4: [1, 2, 3], 5: [1, 2, 4]})
    assert lies_for_few(3, 3) == (3, {i: [1, 2, 3] for i in (1, 2, 3)})  # a threshold of all leaves no room for lies
    assert lies_for_few(1, 1) == (1, {1: [1]})
    with pytest.raises(ValueError, match="threshold must be at most the 3 parties, got 4"):
        lies_for_few(3, 4)
    values = np.array([[1, 10], [2, 20], [4, 40], [8, 80], [16, 160]])
    found = lying_server(values, threshold=3, bits=10, careless=True, generator=RNG(1))
    assert found.total.tolist() == [3, 30]
    assert found.heard == (0, 1)
    assert sorted(found.messages) == [0, 1, 2, 3, 4]
