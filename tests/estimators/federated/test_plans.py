"""Releases counted against a plan, one by one and by hand: what is allowed to the last, and what one more is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from estimators.federated.plans import Meter, PlanBroken, PrivacyPlan, Release
from estimators.federated.row_accounting import choices_rho

ALL = np.arange(3)
NEAR, FAR = 1 + 0.9e-9, 1 + 2e-9  # within a rounding of a limit, and beyond it


def release(what="sum", rounds=1, **how):
    return Release(what=what, rounds=range(rounds), **how)


def meter(*releases, noise=None, clip=2.0):
    privacy = SimpleNamespace(multipliers=None, clip=clip) if noise is not None else None
    made = Meter(PrivacyPlan(releases=releases, privacy=privacy), 3, None if noise is None else np.array(noise))
    made.begin(0)
    return made


def test_releases_are_made_in_their_rounds_about_their_clients():
    some = Release(what="sum", rounds=range(1, 4, 2), times=2, clients=[True, False, True])
    assert [some.at(t, 3).tolist() for t in range(5)] == [[0, 0, 0], [2, 0, 2], [0, 0, 0], [2, 0, 2], [0, 0, 0]]
    assert some.number == 4
    assert release().at(0, 2).tolist() == [1, 1]
    for times in (0, 1, 91, 10**9):
        assert release(times=times).number == times
    for bad in ({"times": -1}, {"times": 10**9 + 1}, {"what": "nothing"}):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            release(**bad)
    with pytest.raises(ValueError, match="rounds must be a range"):
        Release(what="sum", rounds=3)


@pytest.mark.parametrize(("given", "said"), [
    ({"releases": 3}, "releases must be a list of Release"), ({"releases": "ab"}, "releases must be a list of Release"),
    ({"releases": [3]}, "releases must be a list of Release"), ({"releases": [release(), None]}, "list of Release"),
    ({"releases": [release("choice")] * 2}, "each kind of release about rows once"),
    ({"releases": [release("training"), release("sum")]}, "must all protect rows, or all whole clients"),
    ({"privacy": 3}, "privacy must be a RowPrivacy"), ({"uncovered": "text"}, "uncovered must be a list of texts"),
    ({"uncovered": [""]}, "list of texts"), ({"uncovered": [3]}, "list of texts"), ({"uncovered": ["a", ""]}, "of texts"),
])  # fmt: skip
def test_what_is_no_plan(given, said):
    with pytest.raises(ValueError, match=said):
        PrivacyPlan(**given)


def test_a_plan_says_whom_it_protects_and_how_often_it_releases():
    assert PrivacyPlan().protects == "nothing"
    assert PrivacyPlan(releases=[release("training"), release("choice")]).protects == "row"
    plan = PrivacyPlan(releases=[release(rounds=5), release(rounds=2, times=3, clients=[True, False]), release("count")])
    assert (plan.protects, plan.count("sum"), plan.count("count"), plan.count("step")) == ("client", 11, 1, 0)
    lines = plan.text().splitlines()
    assert lines[0].startswith("released: sum, 5 times (1 in each of 5 rounds), about all clients' whole data; moved by")
    assert lines[1].startswith("released: sum, 6 times (3 in each of 2 rounds), about 1 clients' whole data; moved by")
    everyone = PrivacyPlan(releases=[release("training", clients=[True, True])], uncovered=["names"]).text()
    assert "about all clients' rows" in everyone
    assert "\nnot covered: names\n" in everyone


def test_training_has_its_noise_its_clip_and_its_own_stage():
    limit = {"clip": 2.0, "stage": 0, "own_batches": False}
    enough = np.array([3.0, 0.0, 1.5])
    wanted = [3.0, 0.0, 1.5]
    for given in (enough, enough / NEAR, enough * 2):
        made = meter(release("training"), noise=wanted)
        made.training(ALL, multiplier=given, **limit)
        assert made.made["training"].tolist() == [1, 0, 1]  # without noise nothing is promised
        made.close()
    meter(release("training"), noise=wanted).training(np.array([2]), multiplier=1.5, **limit)
    meter(release("training"), noise=wanted).training(np.array([1]), multiplier=None, **(limit | {"clip": None}))
    meter(release("training"), noise=wanted).training(ALL, multiplier=enough, **(limit | {"clip": [2 * NEAR, 9.0, 1.0]}))
    for given in (enough / FAR, None, np.array([3.0, 0.0, 1.4])):
        with pytest.raises(PlanBroken, match=r"client [02] trains with noise .* for 1 trainings"):
            meter(release("training"), noise=wanted).training(ALL, multiplier=given, **limit)
    for bad, said in (({"clip": 2 * FAR}, "clip must be at most"), ({"clip": [1.0, 1.0, 2.1]}, "clip must be at most"),
                      ({"clip": None}, "clip must be at most"), ({"own_batches": True}, "draws its batches")):  # fmt: skip
        with pytest.raises(PlanBroken, match=said):
            meter(release("training"), noise=wanted).training(ALL, multiplier=enough, **(limit | bad))
    twice = meter(release("training", times=2), noise=wanted)
    twice.training(ALL, multiplier=enough, **limit)
    with pytest.raises(PlanBroken, match="client 0 trains twice in stage 0 of round 1"):
        twice.again().training(np.array([0, 0]), multiplier=enough[[0, 0]], **limit)
    twice.training(ALL, multiplier=enough, **(limit | {"stage": 1}))
    with pytest.raises(PlanBroken, match="client 0 makes 3 releases"):
        twice.training(ALL, multiplier=enough, **(limit | {"stage": 2}))


def test_rows_are_read_by_releases_alone_where_they_are_protected():
    with pytest.raises(PlanBroken, match="outside of every release"):
        meter(release("training"), noise=[1.0] * 3).raw()
    meter(release("sum", noise=1.0)).raw()


def test_choices_and_scores_have_the_plan_s_privacy():
    made = meter(release("choice", noise=[0.5, 1.0, 2.0], times=2))
    made.choice(ALL, np.array([0.5 * NEAR, 1.0, 0.1]))
    with pytest.raises(PlanBroken, match=r"client 1 chooses with eps 1\.1; the privacy plan has 1"):
        made.choice(np.array([1]), np.array([1.1]))
    with pytest.raises(PlanBroken, match=r"makes 3 releases \(choice\)"):
        made.choice(np.array([1]), np.array([0.1]))
    with pytest.raises(PlanBroken, match="client 2 chooses with eps"):
        meter(release("choice", noise=1.0)).choice(np.array([0, 2]), np.array([1.0, FAR]))
    meter(release("score", noise=3.0)).score(ALL, multiplier=3.0 / NEAR)
    with pytest.raises(PlanBroken, match="scored with noise"):
        meter(release("score", noise=3.0)).score(ALL, multiplier=3.0 / FAR)


def test_sums_are_clipped_noisy_and_planned_for_those_who_are_in_them():
    how = {"parts": np.array([1.0, 0.0, 1.0]), "sensitivity": 1.0, "stage": 0}
    planned = release("sum", noise=2.0), release("sum", noise=np.array([1.0, 4.0, 4.0]), clients=[True, True, False])
    for clients, least in ((ALL, 2.0), (np.array([0]), 1.0), (np.array([1, 2]), 2.0)):
        made = meter(*planned)
        made.noisy("sum", clients, multiplier=least / NEAR, **how)
        assert made.made["sum"].sum() == len(clients)
        with pytest.raises(PlanBroken, match="a sum is released in round 1 with noise"):
            meter(*planned).noisy("sum", clients, multiplier=least / FAR, **how)
        with pytest.raises(PlanBroken, match="the server draws noise twice in stage 0"):
            made.noisy("sum", clients, multiplier=9.0, **how)
    with pytest.raises(PlanBroken, match="has no such release of client 2"):
        meter(planned[1]).noisy("sum", ALL, multiplier=99.0, **how)
    meter(*planned).noisy("sum", ALL, multiplier=2.0, **(how | {"parts": np.array([NEAR])}))
    for part in (FAR, np.nan, np.inf):
        with pytest.raises(PlanBroken, match="adds more to the sum of round 1 than the sensitivity"):
            meter(*planned).noisy("sum", ALL, multiplier=2.0, **(how | {"parts": np.array([0.5, part])}))
    meter(release("choice", noise=1.0)).noisy("sum", ALL, multiplier=0.0, **how)  # of rows alone something is promised


def test_steps_have_their_noise_and_their_number():
    made = meter(release("step", noise=2.0, times=3))
    made.steps(ALL, np.array([3, 0, 2]), multiplier=[2.0 / NEAR, 5.0])
    with pytest.raises(PlanBroken, match=r"client 2 makes 4 releases \(step\)"):
        made.steps(np.array([2]), np.array([2]), multiplier=2.0)
    with pytest.raises(PlanBroken, match="steps are released with noise"):
        meter(release("step", noise=2.0)).steps(ALL, np.ones(3, int), multiplier=[9.0, 2.0 / FAR])
    meter(release("sum", noise=1.0)).steps(ALL, np.full(3, 9), multiplier=0.0)


def test_who_releases_anything_releases_all_that_is_planned():
    made = meter(release("training"), release("choice", noise=1.0), noise=[1.0, 1.0, 0.0])
    made.close()  # nobody did anything
    made.choice(np.array([1, 2]), np.array([1.0, 1.0]))
    with pytest.raises(PlanBroken, match=r"client 1 is in 0 noisy releases \(training\) in round 1; its privacy plan has 1"):
        made.close()
    made.training(np.array([1]), clip=1.0, multiplier=1.0, stage=0, own_batches=False)
    made.close()
    sums = meter(release("sum", noise=1.0))
    sums.close()
    with pytest.raises(PlanBroken, match=r"client 2 is in 0 noisy releases \(sum\)"):
        sums.close(np.array([2]))
    sums.noisy("sum", np.array([2]), parts=np.ones(1), sensitivity=1.0, multiplier=1.0, stage=0)
    sums.close(np.array([2]))
    sums.begin(1)
    assert sums.planned["sum"].tolist() == sums.made["sum"].tolist() == [0, 0, 0]
    assert sums.again().t == 1


def test_what_is_promised_nowhere_is_not_counted():
    assert PrivacyPlan().text().splitlines()[0] == "released: nothing is declared, and nothing is promised"
    assert "nothing is declared" not in PrivacyPlan(releases=[release()]).text()
    rows = PrivacyPlan(releases=[release("training")])
    made = Meter(rows, 3)
    assert made.t == 0
    made.training(ALL, clip=None, multiplier=None, stage=0, own_batches=True)  # no noise is calibrated
    assert not made.made["training"].any()


def test_little_noise_is_noise_too():
    little, how = [0.5] * 3, {"stage": 0, "own_batches": False}
    with pytest.raises(PlanBroken, match="client 0 trains with noise 0 in round 1"):
        meter(release("training"), noise=little).training(ALL, multiplier=None, clip=1.0, **how)
    with pytest.raises(PlanBroken, match="clip must be at most"):
        meter(release("training"), noise=little).training(ALL, multiplier=0.5, clip=[1.0, 1.0, 3.0], **how)


class Terms:
    """What a plan asks of a task."""

    n_clients = 3


def test_a_plan_s_own_numbers():
    """Noise is asked for with the number of trainings, and with the rate of choices where there are any."""
    asked = []
    noise = np.array([0.0, 1.0, 0.0])

    def multipliers(terms, **how):
        asked.append(how)
        return noise

    privacy = SimpleNamespace(multipliers=multipliers, clip=1.0)
    plain = PrivacyPlan(releases=[release("training", rounds=4)], privacy=privacy)
    choosing = PrivacyPlan(
        releases=[release("training", rounds=4), release("choice", rounds=2, noise=[0.5, np.inf, 1.0])], privacy=privacy
    )
    assert (plain.chooses, choosing.chooses) == (False, True)
    assert plain.rho(Terms()).tolist() == [0.0, 0.0, 0.0]
    rho = choosing.rho(Terms())
    assert rho.tolist() == [choices_rho(0.5, 2), 0.0, choices_rho(1.0, 2)]
    assert 0 < rho[0] < rho[2]
    for plan in (plain, choosing):
        made = plan.meter(Terms())
        assert made is not None
        assert (made.K, made.noise is noise) == (3, True)
    assert asked[0] == {"rounds": 4}
    assert asked[1].pop("rho").tolist() == rho.tolist()
    assert asked[1] == {"rounds": 4}
    noise = np.zeros(3)
    assert plain.meter(Terms()) is None
    assert PrivacyPlan().meter(Terms()) is None
    assert PrivacyPlan(releases=[release("sum", noise=1.0)]).meter(Terms()) is not None
    assert PrivacyPlan(releases=[release("sum", noise=1.0)]).guarantees(Terms()) == [None] * 3
