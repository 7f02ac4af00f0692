"""Secure sums agree with plain ones and tell no more; noise of many clients costs what its exact law costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import isprime

from estimators.accounting import Budget
from estimators.accounting.privacy import ORDERS, renyi_divergence
from estimators.private import distributed_mean
from estimators.private.distributed import noisy_parts, sigma2_each, sum_gap, summed_delta, summed_divergences
from estimators.private.secure_sum import (
    FIELD,
    PRIME,
    Party,
    RoundEnded,
    Signature,
    first_rounds,
    is_signed,
    joined,
    lies_for_few,
    lying_server,
    polynomial,
    secure_sum,
    signature_of,
    unmask,
    value,
)

few = settings(max_examples=max(1, settings().max_examples // 20))
SEVERAL = [(1, 2), (1, 7), (2, 5), (3, 3), (20, 4)]


def law_of_the_sum(sigma2, clients):
    """Exact probabilities of the sum by convolution, and its values."""
    reach = int(14 * np.sqrt(sigma2)) + 14
    y = np.arange(-reach, reach + 1)
    one = np.exp(-(y**2) / (2 * sigma2))
    one /= one.sum()
    total = one
    for _ in range(clients - 1):
        total = np.convolve(total, one)
    return np.arange(total.size) - total.size // 2, total


# --- the protocol ------------------------------------------------------------------------------------------------------


@few
@given(st.data())
def test_the_unmasked_sum_is_the_plain_one_whoever_falls_silent(data):
    m, d = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    threshold = data.draw(st.integers(m // 2 + 1, m))
    places = data.draw(st.permutations(range(m)))
    gone = data.draw(st.integers(0, m - threshold))
    silent = places[: data.draw(st.integers(0, gone))]
    late = places[len(silent) : gone]
    bits = data.draw(st.integers(8, 62))
    most = (1 << (bits - 1)) // m - 1
    values = np.array(data.draw(st.lists(st.integers(-most, most), min_size=m * d, max_size=m * d))).reshape(m, d)
    found = secure_sum(values, threshold=threshold, bits=bits, silent=silent, late=late)
    heard = sorted(set(range(m)) - set(silent))
    assert found.heard == tuple(heard)
    np.testing.assert_array_equal(found.total, values[heard].sum(axis=0))


def test_a_sum_beyond_the_modulus_is_right_modulo_it():
    found = secure_sum(np.array([[100], [100], [-7]]), threshold=2, bits=8)
    assert found.total.tolist() == [193 - 256]


def test_what_one_party_sends_is_uniform_whatever_it_holds():
    """4,000 bytes of each of three parties in 16 cells: chi-squared below its 1 - 1e-6 quantile."""
    values = np.array([[0] * 4000, [1] * 4000, [5] * 4000])
    found = secure_sum(values, threshold=2, bits=8, generator=np.random.default_rng(3))
    for sent in found.messages.values():
        cells = np.bincount(sent >> np.uint64(4), minlength=16)
        assert sent.max() < 256
        assert ((cells - 250) ** 2 / 250).sum() < 56.5
    some = (found.messages[0] + found.messages[1]) & np.uint64(255)  # without the third, masks stay
    assert (some != 1).mean() > 0.9


def test_messages_change_with_every_round_and_repeat_with_a_seed():
    values = np.array([[1], [2], [3]])
    once, again = (secure_sum(values, threshold=2, bits=60) for _ in range(2))
    assert all(once.messages[i] != again.messages[i] for i in range(3))
    same = [secure_sum(values, threshold=2, bits=60, generator=np.random.default_rng(4)).messages[2] for _ in range(2)]
    assert same[0] == same[1]


def test_shares_give_a_secret_back_and_one_fewer_does_not():
    assert isprime(PRIME)
    assert isprime(PRIME // 2)
    assert isprime(FIELD)
    secret, places = 1 << 255, [2, 5, 9]
    parts = polynomial(secret, 3, np.random.default_rng(0))
    assert joined({x: value(parts, x) for x in places}) == secret
    # two shares fit every secret: there is a polynomial of degree 2 through them and any value at 0
    for other in (0, 17):
        through = {0: other, **{x: value(parts, x) for x in places[:2]}}
        basis = {x: np.prod([1, *[(9 - o) for o in through if o != x]], dtype=object) for x in through}
        under = {x: np.prod([1, *[(x - o) for o in through if o != x]], dtype=object) for x in through}
        ninth = sum(y * basis[x] * pow(int(under[x]) % FIELD, -1, FIELD) for x, y in through.items()) % FIELD
        assert joined({2: through[2], 5: through[5], 9: int(ninth)}) == other


def round_of(m, threshold):
    return first_rounds(np.arange(1, m + 1)[:, None], (), threshold=threshold, bits=16, generator=None)


def test_parties_reveal_once_and_not_for_few():
    parties, public, messages = round_of(3, 2)
    with pytest.raises(ValueError, match="the round ends: 1 parties heard"):
        parties[1].reveal({1})
    signatures = {i: parties[i].sign({1, 2}) for i in (1, 2)}
    revealed = {i: parties[i].reveal({1, 2}, signatures) for i in (1, 2)}
    with pytest.raises(ValueError, match="a second story"):
        parties[1].reveal({1, 2, 3})
    with pytest.raises(ValueError, match="a second story"):
        parties[1].sign({1, 2, 3})
    heard = {i: messages[i] for i in (1, 2)}
    assert unmask(heard, public, revealed, threshold=2, bits=16).tolist() == [3]
    with pytest.raises(ValueError, match="nothing is unmasked"):
        unmask(heard, public, {1: revealed[1]}, threshold=2, bits=16)
    wrong = {**heard, 3: messages[3]}  # shares of the key of the one that was called silent do not unmask its message
    assert unmask(wrong, public, revealed, threshold=2, bits=16).tolist() != [6]


# --- a server that lies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "threshold", "few"), [(5, 3, 2), (9, 5, 2), (6, 4, 3)])
def test_a_server_that_lies_learns_the_sum_of_few_unless_lists_are_signed(m, threshold, few):
    """Without signatures the sum of `few` parties, less than the threshold that noise is counted of, is told exactly."""
    values = 1 << np.arange(m)[:, None]
    found = lying_server(values, threshold=threshold, bits=m + 1, careless=True)
    assert found.total.tolist() == [values[:few].sum()]
    assert len(found.heard) == few == max(1, -(-m * (2 * threshold - m) // threshold))
    with pytest.raises(RoundEnded, match="have signed the list of who was heard, the threshold is"):
        lying_server(values, threshold=threshold, bits=m + 1, careless=False)


@given(st.integers(1, 40), st.data())
def test_lies_single_out_as_few_as_counting_allows(m, data):
    """Lists hold m t places; each victim takes m, each other party at most m - t: so m (2 t - m) / t victims or more."""
    threshold = data.draw(st.integers(m // 2 + 1, m))
    few, lists = lies_for_few(m, threshold)
    assert few == max(1, -(-m * (2 * threshold - m) // threshold))
    missing = {about: sum(about not in told for told in lists.values()) for about in range(1, m + 1)}
    assert all(len(set(told)) == threshold and set(told) <= set(missing) for told in lists.values())
    assert all(count == 0 if about <= few else count >= threshold for about, count in missing.items())


def test_what_a_lying_server_cannot_forge():
    """Signatures of another list, of nobody, or of too few; a list that is not the signed one; a key of the server's own."""
    parties, _, _ = round_of(5, 3)
    for place in (1, 2):
        parties[place].sign({1, 2, 3})
    other = {place: parties[place].sign({3, 4, 5}) for place in (3, 4, 5)}
    for signatures in ({}, None, other, {**other, 9: other[3]}):
        with pytest.raises(ValueError, match="have signed the list"):
            parties[1].reveal({1, 2, 3}, signatures)
    with pytest.raises(ValueError, match="another list"):
        parties[1].reveal({3, 4, 5}, other)
    assert set(parties[3].reveal({3, 4, 5}, other)) == {1, 2, 3, 4, 5}  # which three have signed: a list that is true
    one, two = Party(1, np.array([1]), threshold=2, bits=8), Party(2, np.array([1]), threshold=2, bits=8)
    signers = {1: one.signer, 2: two.signer}
    number, signature = two.advertise()
    for wrong in ((pow(2, 77, PRIME), signature), (number, Signature(signature.commitment, signature.response + 1)),
                  (number, one.advertise()[1])):  # fmt: skip
        with pytest.raises(ValueError, match="the key of party 2 is not signed by it"):
            one.share({1: one.advertise(), 2: wrong}, signers)
    with pytest.raises(ValueError, match="threshold must be more than half"):
        Party(1, np.array([1]), threshold=1, bits=8).share({1: one.advertise()}, signers)


def test_values_are_sent_once_and_not_before_shares():
    """Sent twice, with a key left out the second time, they would tell that key's mask, and all of them the values."""
    parties = {i: Party(i, np.array([i]), threshold=2, bits=16) for i in (1, 2, 3)}
    with pytest.raises(ValueError, match="sent once, after shares"):
        parties[1].masked({})
    signers, public = ({i: f(party) for i, party in parties.items()} for f in (lambda p: p.signer, Party.advertise))
    shares = {i: party.share(public, signers) for i, party in parties.items()}
    with pytest.raises(ValueError, match="handed out already"):
        parties[1].share({i: public[i] for i in (1, 2)}, signers)
    parties[1].masked({i: shares[i][1] for i in parties})
    with pytest.raises(ValueError, match="sent once, after shares"):
        parties[1].masked({i: shares[i][1] for i in parties})


def test_a_list_that_was_signed_with_other_keys_for_masks_counts_for_nothing():
    """The same parties, the same list, another round; and a list is the same whatever kind its whole numbers are of."""
    parties, _, _ = round_of(3, 2)
    later, _, _ = round_of(3, 2)
    for place, party in later.items():
        party.signing, party.signer = parties[place].signing, parties[place].signer
        party.signers = {i: each.signer for i, each in parties.items()}
    old = {place: party.sign({1, 2, 3}) for place, party in parties.items()}
    new = {place: party.sign(np.array([3, 2, 1])) for place, party in later.items()}
    with pytest.raises(ValueError, match="0 parties have signed the list"):
        later[1].reveal({1, 2, 3}, old)
    assert set(later[1].reveal([1, 2, 3], new)) == {1, 2, 3}


@few
@given(st.integers(0, 2**64), st.integers(1, 2**64), st.text(max_size=20))
def test_signatures_are_of_one_text_and_one_key(seed, other, text):
    key = 1 + seed
    rng = np.random.default_rng(seed)
    found = signature_of(text, key, rng)
    assert is_signed(text, found, pow(2, key, PRIME))
    assert not is_signed(text + "x", found, pow(2, key, PRIME))
    assert not is_signed(text, found, pow(2, key + other, PRIME))
    assert not is_signed(text, Signature(found.commitment, -1), pow(2, key, PRIME))


# --- the law of the noise ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma2", "clients"), SEVERAL)
def test_the_sum_is_nearly_a_discrete_gaussian_as_far_as_the_gap_says(sigma2, clients):
    y, exact = law_of_the_sum(sigma2, clients)
    near = np.exp(-(y**2) / (2 * sigma2 * clients))
    near /= near.sum()
    seen = near > 1e-9
    moved = np.ptp(np.log(exact[seen] / near[seen]))
    gap = sum_gap(sigma2=sigma2, clients=clients)
    assert moved <= gap + 1e-12
    if clients == 2 and sigma2 == 1:  # the one convolution whose multiples of 1/2 reach both ends of theta
        assert moved > 0.999 * gap


@pytest.mark.parametrize(("sigma2", "clients"), SEVERAL)
@pytest.mark.parametrize("change", [1, 3])
def test_delta_and_divergences_are_above_those_of_the_exact_law_and_near(sigma2, clients, change):
    _, exact = law_of_the_sum(sigma2, clients)
    one, other = (np.concatenate(parts) for parts in ((exact, np.zeros(change)), (np.zeros(change), exact)))
    for eps in (0.0, 1e-5, 0.2, 1.0, 2.0):
        bound = summed_delta(eps=eps, sensitivity=change, sigma2=sigma2, clients=clients)
        truths = []
        for less in range(1, change + 1):
            p, q = (np.concatenate(x) for x in ((exact, np.zeros(less)), (np.zeros(less), exact)))
            truths.append(np.maximum(p - np.exp(eps) * q, 0.0).sum())
        truth = truths[-1]
        assert max(truths) <= bound * (1 + 1e-9) + 1e-15
        if truth > 1e-9:
            assert bound <= truth * (1 + 12 * sum_gap(sigma2=sigma2, clients=clients)) + 1e-13
    curve = summed_divergences(sensitivity=change, dimension=1, sigma2=sigma2, clients=clients)
    seen = (one > 1e-280) & (other > 1e-280)
    for order in (2, 4):
        truth = renyi_divergence(one[seen] / one[seen].sum(), other[seen] / other[seen].sum(), order=order)
        assert truth <= curve[ORDERS.index(order)] * (1 + 1e-9)


def test_calibrated_noise_is_enough_by_the_exact_law_and_hardly_more():
    for clients, change in ((3, 1), (6, 4)):
        found = sigma2_each(eps=1.0, delta=1e-3, sensitivity=change, clients=clients)
        deltas = []
        for sigma2 in (found, found - 1):
            _, exact = law_of_the_sum(max(sigma2, 1), clients)
            p, q = np.concatenate([exact, np.zeros(change)]), np.concatenate([np.zeros(change), exact])
            deltas.append(np.maximum(p - np.e * q, 0.0).sum())
        assert deltas[0] <= 1e-3
        assert found == 1 or deltas[1] > 0.999e-3


def test_more_numbers_and_fewer_clients_need_more_noise_of_each():
    say = {"eps": 1.0, "delta": 1e-6, "sensitivity": 4095}
    one = sigma2_each(**say, clients=10)
    assert sigma2_each(**say, clients=5) == pytest.approx(2 * one, rel=1e-5)
    assert 3 * one < sigma2_each(**say, clients=10, dimension=3) < 4 * one


def test_parts_have_the_noise_of_each():
    parts = noisy_parts(np.zeros((4000, 3), int), 50, np.random.default_rng(0))
    assert np.var(parts.sum(axis=1)) == pytest.approx(150, rel=5 * np.sqrt(2 / 4000))


# --- the release -------------------------------------------------------------------------------------------------------


def test_means_are_unbiased_with_the_stated_variance_over_those_heard():
    values = np.array([0.0, 2.0, 9.0, 4.0])
    say = {"bounds": (0.0, 10.0), "eps": 3.0, "delta": 1e-3, "threshold": 3, "silent": [2]}
    made = [distributed_mean(values, **say, generator=np.random.default_rng(seed)) for seed in range(24)]
    found = [float(each.mean[0]) for each in made]
    assert {each.heard for each in made} == {(0, 1, 3)}
    assert all(each.guarantee.simulated for each in made)
    sd = np.sqrt(made[0].noise_variance)
    assert np.mean(found) == pytest.approx(2.0, abs=5 * sd / np.sqrt(24))
    assert np.std(found) == pytest.approx(sd, rel=0.5)


def test_means_are_between_any_bounds():
    values = np.array([[-2.0, 5.0], [-6.0, 7.0], [-1.0, 3.0]])
    made = distributed_mean(
        values, bounds=(-10.0, 10.0), eps=1e4, delta=1e-3, threshold=3, generator=np.random.default_rng(0)
    )
    sd = np.sqrt(made.noise_variance + made.rounding_variance)
    assert sd < 0.1
    np.testing.assert_allclose(made.mean, [-3.0, 5.0], atol=5 * sd)


def test_noise_counts_only_of_those_who_surely_are_in_it_and_do_not_tell():
    say = {"bounds": (0.0, 1.0), "eps": 1.0, "delta": 1e-5}
    values = np.full(5, 0.5)
    sure, fewer, told = (
        distributed_mean(values, **say, threshold=t, colluding=c, silent=s).noise_variance
        for t, c, s in ((5, 0, []), (4, 0, [1]), (4, 2, []))
    )
    # each one's part grows as 1/5 -> 1/4 -> 1/2 of what is needed; the mean divides by those heard
    assert fewer / sure == pytest.approx(5 / 4 * 5 / 4, rel=1e-4)
    assert told / sure == pytest.approx(5 / 2, rel=1e-4)


def test_vectors_are_summed_number_by_number_and_the_budget_is_charged_once():
    budget = Budget(eps=1.0, delta=1e-5, adjacency="client")
    say = {"bounds": (0.0, 1.0), "eps": 1.0, "delta": 1e-5, "threshold": 2, "budget": budget}
    with pytest.raises(ValueError, match="2 parties are left, the threshold is 3"):
        distributed_mean(np.full((3, 2), 0.25), **{**say, "threshold": 3}, silent=[0])
    assert budget.spent() == 0  # nothing was released
    made = distributed_mean(np.full((3, 2), 0.25), **say)
    assert made.mean.shape == (2,)
    assert 0.99 < budget.spent() <= 1.0
    with pytest.raises(ValueError, match="would bring the total"):
        distributed_mean(np.full((3, 2), 0.25), **say)


SECRET = 123456.789


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [SECRET, np.nan, 1.0]}, "values must be an array of finite numbers"),
        ({"values": [[SECRET]] * 2 + [[]]}, "values"),
        ({"values": []}, "values must be an array"),
        ({"bounds": (1.0, 0.0)}, "low < high"),
        ({"threshold": 1}, "more than half"),
        ({"threshold": 4}, "threshold must be at most"),
        ({"threshold": 2, "colluding": 1}, "more than half of clients and colluding"),
        ({"delta": 0.0}, "delta"),
        ({"eps": 0.0}, "eps"),
        ({"eps": np.inf}, "eps"),
        ({"eps": 1e-300}, "eps"),
        ({"silent": [3]}, "silent must be places"),
        ({"silent": [0], "late": [0]}, "different parties"),
        ({"silent": [0, 1]}, "1 parties are left"),
        ({"bits": 21}, "bits must be at most 20"),
        ({"generator": 7}, "generator must be a numpy.random.Generator"),
        ({"budget": 1.0}, "budget must be"),
    ],
)
def test_bad_input_is_refused_and_no_value_is_told(change, message):
    say = {"values": [SECRET, 1.0, 2.0], "bounds": (0.0, 1.0), "eps": 1.0, "delta": 1e-6, "threshold": 2, **change}
    with pytest.raises(ValueError, match=message) as caught:
        distributed_mean(say.pop("values"), **say)
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [([[0.5]], "whole numbers"), ([1, 2], "whole numbers"), ([[1 << 62]], "below 2\\^62"), ([[-(1 << 63)]], "below 2\\^62")],
)
def test_bad_parts_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        secure_sum(np.array(values), threshold=1, bits=8)
