"""Audits of releases: sound mechanisms pass, broken ones are caught, and a bound is what the law allows."""

import json

import numpy as np
import pytest

from borrow import main
from estimators.accounting.mechanisms import gaussian_epsilon
from estimators.accounting.shuffling import shuffled_epsilon
from estimators.private import FiniteOutput
from estimators.private.audit_cases import BROKEN, CASES, audit_draws, audit_release, lied_to, neighbours

MANY = {"half the noise, Gaussian", "budget spent twice", "lying server, unchecked lists"}  # eps below twice the claim


@pytest.mark.parametrize("name", CASES)
def test_sound_mechanisms_are_not_refuted(name):
    case = CASES[name](runs=120)
    assert not case.refuted
    assert case.claimed == (shuffled_epsilon(delta=0.01, eps0=1.0, n=10) if name == "shuffled bits" else 1.0)


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in MANY])
def test_broken_mechanisms_are_caught(name):
    assert BROKEN[name](runs=800).refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MANY))
def test_mechanisms_that_are_hardly_broken_are_caught(name):
    assert BROKEN[name](runs=4000).refuted


def test_a_window_of_another_eps_is_caught_and_the_true_eps_nearly_reached():
    """The finite output itself, in a batch: its likely outputs attain eps, so that the bound comes near."""
    law = FiniteOutput(bounds=(0.0, 10.0), eps=2.0)
    pairs = [(np.array([0.0]), np.array([10.0]))]
    sound = audit_release(law.release, pairs, eps=2.0, runs=4000)
    assert 1.7 < sound.bound.eps < 2.0
    assert audit_release(law.release, pairs, eps=1.5, runs=4000).refuted


def test_several_numbers_are_read_as_one_that_nearly_attains_the_claim():
    """Half of eps is in each of two numbers: neither alone can prove more than half, both together do."""

    def draws(shift, runs, generator):
        return np.array([0.0, 5.0]) + shift * np.array([1.0, -7.0]) + generator.laplace(scale=[2.0, 14.0], size=(runs, 2))

    found = audit_draws(draws, [(0.0, 1.0)], eps=1.0, runs=20_000)
    assert 0.8 < found.bound.eps < 1.0

    def normal(shift, runs, generator):
        mixed = np.array([[1.0, 0.9], [0.0, 0.3]])  # of covariance [[1, 0.9], [0.9, 0.9]]
        return shift * np.array([0.0, 0.3]) + generator.normal(size=(runs, 2)) @ mixed

    far = float(np.sqrt(np.array([0.0, 0.3]) @ np.linalg.inv([[1.0, 0.9], [0.9, 0.9]]) @ [0.0, 0.3]))
    claim = float(gaussian_epsilon(delta=0.01, sensitivity=far, sigma=1.0))
    found = audit_draws(normal, [(0.0, 1.0)], eps=claim, delta=0.01, runs=20_000)
    assert 0.75 * claim < found.bound.eps < claim


def test_the_best_pair_is_found_and_costs_nothing():
    def draws(shift, runs, generator):
        return shift + generator.laplace(size=runs)

    pairs = [(0.0, 0.1), (0.0, 1.0), (0.0, 0.2)]
    assert 0.8 < audit_draws(draws, pairs, eps=1.0, runs=8000).bound.eps < 1.0


def test_canaries_move_a_mean_as_far_as_they_can():
    row = neighbours((-1.0, 3.0), 4, "row")
    assert [np.sum(before != after) for before, after in row] == [1, 1, 1]
    assert {(before[-1], after[0]) for before, after in row} == {(-1.0, 3.0), (3.0, -1.0), (-1.0, 4003.0)}
    client = neighbours((-1.0, 3.0), 4, "client")
    assert all((before != after).all() for before, after in client)


def test_pairs_share_the_error():
    """Ten equal pairs of a true claim: refuted no more often than beta says, though each could be by luck."""
    true = np.log(3.0)

    def answer(bit, generator):
        return float(bit != (generator.random() < 0.25))

    refuted = [audit_release(answer, [(0, 1)] * 10, eps=true, runs=200, beta=0.2, seed=s).refuted for s in range(40)]
    assert sum(refuted) <= 16  # 8 + 3 deviations


def test_an_attack_that_was_never_made_is_no_attack_that_failed():
    with pytest.raises(ValueError, match="threshold must be more than half of the 9 parties"):
        lied_to(threshold=4, runs=8)
    with pytest.raises(ValueError, match="bits must be at most 62"):
        lied_to(clients=62, threshold=40, runs=8)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: audit_release(lambda d, g: [], [(0, 1)], eps=1.0, runs=4), "at least one"),
        (lambda: audit_release(lambda d, g: np.zeros(int(g.integers(1, 5))), [(0, 1)], eps=1.0, runs=50), "same number"),
        (lambda: audit_release(lambda d, g: np.nan, [(0, 1)], eps=1.0), "what the mechanism returned"),
        (lambda: audit_release(lambda d, g: 0.0, [], eps=1.0), "at least one pair"),
        (lambda: audit_release(lambda d, g: 0.0, [(0, 1)], eps=1.0, beta=1.0), "beta"),
        (lambda: audit_release(lambda d, g: 0.0, [(0, 1)], eps=0.0), "eps"),
        (lambda: neighbours((0.0, 1.0), 0, "row"), "n must"),
        (lambda: neighbours((0.0, 1.0), 1, "house"), "adjacency"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- the command -------------------------------------------------------------------------------------------------------


def test_the_command_audits_a_function_of_the_users(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_release.py").write_text(
        "def leaky(rows, generator):\n    return float(sum(rows) + generator.laplace(0.0, 0.2))\n\n\n"
        "def sound(rows, generator):\n    return float(sum(min(max(r, 0), 1) for r in rows) + generator.laplace())\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "own_release:leaky", "--eps", "1", "--runs", "400", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == ["own_release:leaky"]
    assert found["audits"][0]["proved"] > 1
    assert main(["audit", "own_release:sound", "--eps", "1", "--runs", "400"]) == 0
    assert "refuted" not in capsys.readouterr().out


def test_the_command_lists_runs_and_fails_where_a_broken_one_passes(capsys):
    assert main(["audit", "--list"]) == 0
    assert {*CASES, "broken: not clipped", "choice"} <= set(capsys.readouterr().out.splitlines())
    assert main(["audit", "rate, client, two-point", "broken: not clipped", "--runs", "200"]) == 0
    assert "caught" in capsys.readouterr().out
    assert main(["audit", "broken: half the noise", "--runs", "8"]) == 1  # too few to see it
    assert "not caught" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "NAME must be a case"),
        (["json:dumps"], "--eps must say"),
        (["no_such_module:f", "--eps", "1"], "is not found"),
        (["json:nothing", "--eps", "1"], "is not found"),
        (["rate, client, two-point", "--seed", "-1"], "--seed"),
        (["rate, client, two-point", "--runs", "2"], "runs"),
    ],
)
def test_bad_arguments_are_named(arguments, says, capsys):
    assert main(["audit", *arguments]) == 2
    assert says in capsys.readouterr().err
