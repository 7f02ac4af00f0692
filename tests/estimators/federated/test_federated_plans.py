"""Privacy plans: noise and guarantees follow what is declared, and a round that releases something else is refused."""

import copy
from dataclasses import dataclass, replace

import numpy as np
import pytest

from estimators.federated.algorithms import IFCA, MRMTL, Ditto, DPAdaPeD, DPFedAvg, FedAvg, FeO2, Local, Tuned
from estimators.federated.data import synthetic_federation
from estimators.federated.models import logistic_regression
from estimators.federated.plans import ALWAYS_UNCOVERED, Meter, PlanBroken, PrivacyPlan, Release
from estimators.federated.privacy import RowPrivacy
from estimators.federated.task import Task, Terms
from estimators.federated.training import train, training

PRIVATE = RowPrivacy(eps=3.0, delta=1e-3, clip=1.0, accountant="rdp")
RATE = {"learning_rate": 0.1}
CENTRAL = {"learning_rate": 0.1, "delta": 1e-3, "accountant": "rdp"}


def task(seed=0):
    federation = synthetic_federation(clients=6, rows=25, seed=1)
    work = {"rule": "poisson", "n_steps": 3, "batch_size": 4}
    groups = {"public": [0, 1], "private": [2, 3, 4, 5]}
    return Task(federation, logistic_regression(10, federation.classes), work=work, seed=seed, groups=groups)


@dataclass(frozen=True, kw_only=True)
class Twice(Local):
    """A user's own algorithm that trains twice in a round, and forgot to say so."""

    first_stage: int = 0

    def client_update(self, task, clients, message, own, t):
        once = self.train(task, clients, own, own["personal"], t, stage=self.first_stage)
        return {}, {"personal": self.train(task, clients, own, once, t, stage=1)}


@dataclass(frozen=True, kw_only=True)
class SaysSo(Twice):
    times: int = 2

    def privacy_plan(self, task, *, rounds):
        return self.row_plan(Release(what="training", rounds=range(rounds), times=self.times))


def test_a_forgotten_training_is_refused_before_it_is_made():
    """What `trainings = 2` was for: without it this ran, with noise for half of what it released."""
    with pytest.raises(PlanBroken, match=r"client 0 makes 2 releases \(training\) in round 1; its privacy plan counts 1"):
        train(Twice(privacy=PRIVATE, **RATE), task(), rounds=3)
    train(Twice(**RATE), task(), rounds=3)  # without privacy nothing is promised


def test_noise_is_calibrated_for_what_the_plan_counts():
    t, said = task(), SaysSo(privacy=PRIVATE, **RATE)
    z = said.start(t, rounds=4)["multiplier"]
    assert (z == Local(privacy=PRIVATE, **RATE).start(t, rounds=8)["multiplier"]).all()
    assert (z > Local(privacy=PRIVATE, **RATE).start(t, rounds=4)["multiplier"]).all()
    assert max(g.eps for g in said.guarantees(t, rounds=4)) <= 3.0
    train(said, t, rounds=4)


def test_a_plan_of_more_than_is_made_is_refused_too():
    with pytest.raises(PlanBroken, match=r"in 2 noisy releases .* privacy plan\s+has 3"):
        train(SaysSo(privacy=PRIVATE, times=3, **RATE), task(), rounds=2)


def test_the_same_noise_twice_is_refused():
    """Two trainings of one stage have the same numbers as noise: their difference has none."""
    with pytest.raises(PlanBroken, match="client 0 trains twice in stage 1 of round 1, with the same noise"):
        train(SaysSo(privacy=PRIVATE, first_stage=1, **RATE), task(), rounds=2)


@dataclass(frozen=True, kw_only=True)
class Careless(Local):
    """Ways to get at private rows without a release that the plan has."""

    how: str

    def client_update(self, task, clients, message, own, t):
        options = {"learning_rate": 0.1, "clients": clients, "clip": 1.0, "multiplier": own["multiplier"]}
        starts = own["personal"]
        if self.how == "no noise":
            options |= {"multiplier": None}
        elif self.how == "less noise":
            options |= {"multiplier": 0.99 * own["multiplier"]}
        elif self.how == "larger clip":
            options |= {"clip": 1.5}
        elif self.how == "more steps":
            options |= {"batches": {"n_steps": 30}}
        elif self.how == "own steps":
            options |= {"steps": task.schedule(t, clients)}
        elif self.how == "data":
            starts = starts + task.data.x.mean()
        elif self.how == "federation":
            starts = starts + task.federation.x.mean()
        elif self.how == "choice":
            task.choose(t, lambda rows: np.zeros((6, 2)), clients, eps=np.full(6, 0.1), sensitivity=1.0)
        return {}, {"personal": task.train(starts, t, **options)}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no noise", "client 0 trains with noise 0 in round 1, and the privacy plan needs"),
        ("less noise", "client 0 trains with noise .* and the privacy plan needs"),
        ("larger clip", "clip must be at most that of the privacy plan, 1, got 1.5"),
        ("more steps", "leave out steps and batches"),
        ("own steps", "leave out steps and batches"),
        ("data", "reads rows that its privacy plan protects"),
        ("federation", "reads rows that its privacy plan protects"),
        ("choice", r"client 0 makes 1 releases \(choice\) in round 1; its privacy plan counts 0"),
    ],
)
def test_rows_are_read_by_releases_of_the_plan_only(how, says):
    with pytest.raises(PlanBroken, match=says):
        train(Careless(how=how, privacy=PRIVATE, **RATE), task(), rounds=2)
    train(Careless(how="", privacy=PRIVATE, **RATE), task(), rounds=2)


def test_rounds_before_a_broken_one_are_kept():
    @dataclass(frozen=True, kw_only=True)
    class Later(Local):
        def client_update(self, task, clients, message, own, t):
            if t == 2:
                return Twice.client_update(Twice(privacy=self.privacy, **RATE), task, clients, message, own, t)
            return super().client_update(task, clients, message, own, t)

    seen, steps = [], training(Later(privacy=PRIVATE, **RATE), task(), rounds=5)
    for step in (next(steps), next(steps)):
        seen.append((step.finished, step.state, copy.deepcopy(step.state)))
    with pytest.raises(PlanBroken, match="in round 3"):
        next(steps)
    assert [finished for finished, *_ in seen] == [1, 2]
    _, now, then = seen[-1]
    assert all((now[name] == value).all() for name, value in then.items())
    same = train(Local(privacy=PRIVATE, **RATE), task(), rounds=5)
    early = next(s for s in training(Local(privacy=PRIVATE, **RATE), task(), rounds=5) if s.finished == 2).state
    assert (early["personal"] == then["personal"]).all()
    assert same.state.keys() == then.keys()


def test_noise_of_another_plan_is_not_gone_on_with():
    """A state of five rounds' noise does not serve fifty: changed code or rounds begin anew."""
    stored = next(copy.deepcopy(s.state) for s in training(Local(privacy=PRIVATE, **RATE), task(), rounds=5))
    with pytest.raises(PlanBroken, match="begin anew where the plan was changed since"):
        list(training(Local(privacy=PRIVATE, **RATE), task(), rounds=50, state=stored, finished=1))


@dataclass(frozen=True, kw_only=True)
class Leaky(DPFedAvg):
    """Servers that do not do what DP-FedAvg's plan says."""

    how: str = ""

    def aggregate(self, task, state, t, clients, levels, updates, norms):
        if self.how == "no noise":
            if len(clients):
                state["shared"] = state["shared"] + updates.mean(axis=0)
            return {}
        notes = super().aggregate(task, state, t, clients, levels, updates, norms)
        if self.how == "again":
            about = {"what": "sum", "clients": np.arange(6), "sensitivity": 0.5, "multiplier": 2.0}
            task.noisy(0 * updates, t, stage=7, **about)
        elif self.how == "same noise":
            about = {"what": "sum", "clients": np.arange(6), "sensitivity": 0.5, "multiplier": 2.0}
            task.noisy(0 * updates, t, stage=0, **about)
        elif self.how == "less noise":
            about = {"what": "sum", "clients": np.arange(6), "sensitivity": 0.5, "multiplier": 0.2}
            task.noisy(0 * updates, t, stage=7, **about)
        elif self.how == "unclipped":
            about = {"what": "sum", "clients": np.arange(6), "sensitivity": 1e-3, "multiplier": 2.0}
            task.noisy(updates, t, stage=7, **about)
        return notes


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("no noise", r"in 0 noisy releases \(sum\) in round 1; its privacy plan has 1: either its data are used without"),
        ("again", r"client 0 makes 2 releases \(sum\)"),
        ("same noise", "the server draws noise twice in stage 0 of round 1"),
        ("unclipped", "a client adds more to the sum of round 1 than the sensitivity 0.001 that its noise is for"),
        ("less noise", "a sum is released in round 1 with noise 0.2; the privacy plan has"),
    ],
)
def test_the_server_releases_what_the_plan_has(how, says):
    settings = {"rate": 0.9, "multiplier": 1.0, **CENTRAL}
    with pytest.raises(PlanBroken, match=says):
        train(Leaky(how=how, **settings), task(), rounds=2)
    train(Leaky(**settings), task(), rounds=2)


def test_steps_of_dp_adaped_are_counted():
    class More(DPAdaPeD):
        def taken(self, task):
            return 2

    settings = {**RATE, "psi_rate": 0.05, "eps": 5.0, "delta": 1e-3, "clip": 1.0}
    with pytest.raises(PlanBroken, match=r"client 0 makes 3 releases \(step\) in round 1; its privacy plan counts 2"):
        train(More(**settings), task(), rounds=2)
    train(DPAdaPeD(**settings), task(), rounds=2)


def test_steps_of_dp_adaped_without_their_noise_are_refused_however_little_it_is():
    class Silent(DPAdaPeD):
        def noise(self, task, message, t):
            return None

    algorithm = Silent(psi_rate=0.05, eps=200.0, delta=1e-3, clip=1.0, **RATE)
    assert 0 < algorithm.start(task(), rounds=2)["multiplier"] < 0.9
    with pytest.raises(PlanBroken, match="steps are released with noise 0"):
        train(algorithm, task(), rounds=2)


@pytest.mark.parametrize(
    ("algorithm", "counted"),
    [
        (Local(privacy=PRIVATE, **RATE), {"training": 10}),
        (FedAvg(privacy=PRIVATE, rate=0.5, **RATE), {"training": 10}),
        (MRMTL(lam=0.5, privacy=PRIVATE, **RATE), {"training": 10}),
        (Ditto(lam=0.5, privacy=PRIVATE, **RATE), {"training": 20}),
        (IFCA(clusters=2, choosing=0.4, privacy=PRIVATE, **RATE), {"training": 10, "choice": 4}),
        (DPFedAvg(rate=0.5, multiplier=1.0, **CENTRAL), {"sum": 10, "count": 10}),
        (FeO2(rate=0.5, multiplier=1.0, ratio=0.3, clip_rate=0.0, **CENTRAL), {"sum": 10}),
        (DPAdaPeD(psi_rate=0.05, eps=5.0, delta=1e-3, clip=1.0, **RATE), {"step": 30}),
        (MRMTL(lam=0.5, **RATE), {}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_the_plans_of_our_algorithms(algorithm, counted):
    plan = algorithm.privacy_plan(task(), rounds=10)
    assert {release.what: plan.count(release.what) for release in plan.releases} == counted


TUNED = {"algorithm": "MRMTL", "settings": {**RATE}, "grid": {"lam": [0.0, 0.3]}, "mean": 3.0, "privacy": PRIVATE}


def test_tuning_of_one_setting_has_the_plan_of_its_runs():
    one = Tuned(**{**TUNED, "grid": {"lam": [0.3]}}).privacy_plan(task(), rounds=4)
    assert one.text() == Tuned(**TUNED).privacy_plan(task(), rounds=4).text()


def test_every_run_of_private_tuning_keeps_the_plan():
    train(Tuned(**TUNED), task(), rounds=2)
    plan = Tuned(**TUNED).privacy_plan(task(), rounds=2).plan
    assert (plan.count("training"), plan.count("score")) == (2, 1)


def test_scores_of_tuning_are_releases_of_the_plan():
    """A run is scored once, after the last round, with the noise that its guarantee counts."""
    steps = list(training(Tuned(**TUNED), task(), rounds=3))
    # The state is one dict that rounds change; what the first evaluation chose is that of no score.
    assert np.isfinite(steps[-1].state["scores"]).all()

    @dataclass(frozen=True, kw_only=True)
    class Twice(Tuned):
        def score(self, task, i, point, own, meter):
            super().score(task, i, point, own, meter)
            return super().score(task, i, point, own, meter)

    with pytest.raises(PlanBroken, match=r"makes 2 releases \(score\) in round 2; its privacy plan counts 1"):
        train(Twice(**TUNED), task(), rounds=2)

    @dataclass(frozen=True, kw_only=True)
    class Early(Tuned):
        def round(self, task, state, t):
            return super().round(task, {**state, "rounds": np.array(1)}, t)

    with pytest.raises(PlanBroken, match=r"makes 1 releases \(score\) in round 1; its privacy plan counts 0"):
        train(Early(**TUNED), task(), rounds=2)

    @dataclass(frozen=True, kw_only=True)
    class Quiet(Tuned):
        def score(self, task, i, point, own, meter):
            return super(Quiet, Quiet(**{**TUNED, "score_noise": 1.0})).score(task, i, point, own, meter)

    with pytest.raises(PlanBroken, match="a run is scored with noise 1; the privacy plan has 10"):
        train(Quiet(**TUNED), task(), rounds=2)


def test_what_no_plan_counts_is_said():
    central = DPFedAvg(rate=0.5, multiplier=1.0, lam=0.5, **CENTRAL).privacy_plan(task(), rounds=4).text()
    assert "released: sum, 4 times (1 in each of 4 rounds), about all clients' whole data" in central
    assert "not covered: personal models" in central
    tuned = Tuned(**TUNED).privacy_plan(task(), rounds=4).text()
    assert "not covered: models and scores of runs that are not published" in tuned
    for plan in (central, tuned, PrivacyPlan().text()):
        assert all(f"not covered: {text}" in plan for text in ALWAYS_UNCOVERED)
    with pytest.raises(ValueError, match="uncovered must be a list of texts"):
        PrivacyPlan(uncovered="everything")


def test_a_promise_without_a_plan_is_refused():
    class Own:
        def start(self, task, *, rounds):
            return {"shared": task.initial()}

        def round(self, task, state, t):
            return {}

        def models(self, task, state):
            return {"shared": state["shared"]}

        def guarantees(self, task, *, rounds):
            return Local(privacy=PRIVATE, **RATE).guarantees(task, rounds=rounds)

    with pytest.raises(PlanBroken, match="Own promises privacy and has no privacy_plan"):
        train(Own(), task(), rounds=1)


@pytest.mark.parametrize(
    "algorithm", [Local(privacy=PRIVATE, **RATE), FedAvg(number=3, **RATE), DPFedAvg(rate=0.5, multiplier=1.0, **CENTRAL)]
)
def test_the_server_gets_no_rows(algorithm, monkeypatch):
    seen, aggregate = [], type(algorithm).server_aggregate

    def watched(self, task, *rest):
        seen.append(task)
        return aggregate(self, task, *rest)

    monkeypatch.setattr(type(algorithm), "server_aggregate", watched)
    train(algorithm, task(), rounds=1)
    assert [type(terms) for terms in seen] == [Terms]
    assert not {"rows", "whole", "federation", "data", "test"} & {*vars(seen[0]), *dir(seen[0])}


def test_parts_change_none_of_their_arguments():
    t = task()
    for algorithm in (MRMTL(lam=0.5, **RATE), Ditto(lam=0.5, **RATE), FedAvg(number=3, **RATE), IFCA(clusters=2, **RATE)):
        state = algorithm.start(t, rounds=2)
        clients, server = algorithm.called(t, 0), algorithm.server_part(state)
        message, own = algorithm.message(t, server, clients), algorithm.client_part(state, clients)
        before = copy.deepcopy((server, message, own))
        reply, _ = algorithm.client_update(t, clients, message, own, 0)
        sent = copy.deepcopy(reply)
        algorithm.server_aggregate(t, server, 0, clients, reply)
        algorithm.personalise(t, clients, message, own)
        for now, then in zip((server, message, own, reply), (*before, sent), strict=True):
            assert all((now[name] == value).all() for name, value in then.items())


def test_replies_must_be_whole():
    @dataclass(frozen=True, kw_only=True)
    class Broken(FedAvg):
        how: str

        def client_update(self, task, clients, message, own, t):
            ends = np.zeros((len(clients), task.model.n_parameters))
            if self.how == "nan":
                ends[2, 5] = np.nan
            return {"ends": ends[1:] if self.how == "few" else ends}, {}

    for how, says in (
        ("nan", r"client 2 sends numbers that are not finite \(ends\) in round 1"),
        ("few", "a row of ends for each of 6"),
    ):
        with pytest.raises(ValueError, match=says):
            train(Broken(how=how, **RATE), task(), rounds=1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Release(what="gradient", rounds=range(3)), "what must be one of"),
        (lambda: Release(what="sum", rounds=3), "rounds must be a range of rounds"),
        (lambda: Release(what="sum", rounds=range(3), times=-1), "times"),
        (lambda: PrivacyPlan(releases=[Release(what=w, rounds=range(1)) for w in ("sum", "training")]), "all protect rows"),
        (
            lambda: PrivacyPlan(releases=[Release(what="training", rounds=range(1))] * 2),
            "each kind of release about rows once",
        ),
        (lambda: PrivacyPlan(privacy=3.0), "privacy must be a RowPrivacy"),
    ],
)
def test_bad_plans_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- a meter by itself ---------------------------------------------------------------------------------------------------

ROWS = RowPrivacy(eps=[3.0, 3.0, np.inf, 3.0], delta=1e-3, clip=2.0, accountant="rdp")
NOISE = np.array([1.0, 0.5, 0.0, 2.0])  # of four clients, the third has no privacy
SLACK = 1 + 1e-9
FIRST, LAST = np.array([True, True, False, False]), np.array([False, False, True, True])


def of_rows(**release):
    """A meter of a plan about rows: two trainings a round, and more releases."""
    training_ = Release(what="training", rounds=range(5), times=2)
    more = [Release(**{"rounds": range(5), **release})] if release else []
    return Meter(PrivacyPlan(releases=[training_, *more], privacy=ROWS), 4, NOISE)


def of_clients():
    """A meter of two levels with noise 1 and 3, the second in rounds 2 and 3 only, and of counts of the first."""
    found = Meter(PrivacyPlan(releases=[
        Release(what="sum", rounds=range(4), noise=SLACK, clients=FIRST),
        Release(what="sum", rounds=range(2, 4), times=2, noise=3.0, clients=LAST),
        Release(what="count", rounds=range(4), noise=4.0, clients=FIRST),
    ]), 4)  # fmt: skip
    found.begin(2)
    return found


def of_choices():
    """A meter of trainings and of a choice with an eps of each client's own."""
    return of_rows(what="choice", noise=[0.1, 0.2, 0.3, 0.4])


def of_scores():
    """A meter of trainings and of a score."""
    return of_rows(what="score", noise=3.0 * SLACK)


def of_steps():
    """A meter of three noisy steps a round."""
    return Meter(PrivacyPlan(releases=[Release(what="step", rounds=range(2), times=3, noise=1.5 * SLACK)]), 4)


def trains(meter, clients=(0, 1, 3), factor=1.0, **changes):
    who = np.array(clients)
    meter.training(who, **{"clip": 2.0, "multiplier": factor * NOISE[who], "stage": 0, "own_batches": False, **changes})


def sums(meter, what, clients, multiplier, sensitivity=0.5, parts=(0.5, 0.1), stage=0):
    about = {"parts": np.array(parts), "sensitivity": sensitivity, "multiplier": multiplier, "stage": stage}
    meter.noisy(what, np.array(clients), **about)


ALLOWED = [
    (of_rows, trains),
    (of_rows, lambda m: trains(m, factor=1 - 1e-9)),
    (of_rows, lambda m: trains(m, multiplier=np.array([1.0, 7.0, 2.0]))),
    (of_rows, lambda m: trains(m, clip=2.0 * SLACK)),
    (of_rows, lambda m: trains(m, (0, 2), clip=np.array([1.0, 9.0]))),
    (of_rows, lambda m: trains(m, (2,), clip=None, multiplier=None, own_batches=True)),
    (of_rows, lambda m: (trains(m), trains(m, stage=1))),
    (of_rows, lambda m: (trains(m, (0, 1)), trains(m, (3,)))),
    (of_choices, lambda m: m.choice(np.array([3, 0]), np.array([0.4, 0.1]) * SLACK)),
    (of_scores, lambda m: m.score(np.array([0, 3]), multiplier=3.0)),
    (of_clients, lambda m: sums(m, "sum", [0, 1], 1.0)),
    (of_clients, lambda m: sums(m, "sum", [0, 1], 1.0, parts=[0.5 * SLACK])),
    (of_clients, lambda m: [sums(m, "sum", who, z, stage=k) for who, z, k in (([2, 3], 3, 0), ([2, 3], 3, 1), ([1], 1, 2))]),
    (of_clients, lambda m: sums(m, "count", [0, 1], 4.0)),
    (of_steps, lambda m: (m.steps(np.array([1, 2]), np.array([2, 3]), multiplier=1.5),
                m.steps(np.array([1]), np.array([1]), multiplier=[2.0, 1.5]))),
]  # fmt: skip
REFUSED = [
    (of_rows, lambda m: trains(m, factor=1 - 1.1e-9), r"client 0 trains with noise 1 .* for 10 trainings"),
    (of_rows, lambda m: trains(m, multiplier=np.array([1.0, 0.5, 1.9])), r"client 3 trains with noise 1.9 .* needs 2 "),
    (of_rows, lambda m: trains(m, multiplier=None), "client 0 trains with noise 0 "),
    (of_rows, lambda m: trains(m, clip=2.0 * (1 + 1.1e-9)), "clip must be at most that of the privacy plan, 2,"),
    (of_rows, lambda m: trains(m, (0, 2), clip=np.array([9.0, 1.0])), "clip must be at most"),
    (of_rows, lambda m: trains(m, clip=None), "clip must be at most"),
    (of_rows, lambda m: trains(m, (2, 3), own_batches=True), "leave out steps and batches"),
    (of_rows, lambda m: (trains(m, (0, 1)), trains(m, (1,))), "client 1 trains twice in stage 0 of round 1"),
    (of_rows, lambda m: [trains(m, (1,), stage=stage) for stage in range(3)], r"client 1 makes 3 .* counts 2"),
    (of_rows, lambda m: m.choice(np.array([2]), np.array([0.1])), "client 2 makes 1 .*choice"),
    (of_rows, lambda m: m.raw(), "reads rows that its privacy plan protects"),
    (of_choices, lambda m: m.choice(np.array([3, 0]), np.array([0.4, 0.1 * (1 + 1.1e-9)])), "client 0 chooses with"),
    (of_scores, lambda m: m.score(np.array([0]), multiplier=3.0 * (1 - 1e-10)), "a run is scored"),
    (of_clients, lambda m: sums(m, "sum", [0, 1], 1 - 1e-10), "with noise 1; the privacy plan has 1 for client 0"),
    (of_clients, lambda m: sums(m, "sum", [1, 3], 2.0), "with noise 2; the privacy plan has 3 for client 3"),
    (of_clients, lambda m: sums(m, "count", [0, 3], 9.0), "has no such release of client 3"),
    (of_clients, lambda m: (m.begin(1), sums(m, "sum", [2], 3.0)), "in round 2 .* has no such release of client 2"),
    (of_clients, lambda m: sums(m, "sum", [0, 1], 1.0, parts=[0.5 * (1 + 1.1e-9)]), "adds more to the sum of round 3"),
    (of_clients, lambda m: sums(m, "sum", [0, 1], 1.0, parts=[np.nan]), "a client adds more"),
    (of_clients, lambda m: (sums(m, "sum", [0], 1.0), sums(m, "count", [0], 4.0)), "twice in stage 0 of round 3"),
    (of_clients, lambda m: (sums(m, "sum", [0], 1.0), sums(m, "sum", [0, 1], 1.0, stage=1)), "client 0 makes 2 releases"),
    (of_clients, lambda m: [sums(m, "sum", [2], 3.0, stage=k) for k in range(3)], "client 2 makes 3 .* counts 2"),
    (of_steps, lambda m: (m.steps(np.array([1, 2]), np.array([2, 3]), multiplier=1.5),
                          m.steps(np.array([1]), np.array([2]), multiplier=2.0)),
     r"client 1 makes 4 releases \(step\) in round 1; its privacy plan counts 3"),
    (of_steps, lambda m: m.steps(np.array([1]), np.array([1]), multiplier=[2.0, 1.5 * (1 - 1e-10)]), "steps are released"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ALLOWED)))
def test_a_meter_lets_through_what_its_plan_has_up_to_a_billionth(case):
    make, call = ALLOWED[case]
    call(make())


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_a_meter_refuses_whatever_its_plan_does_not_have(case):
    make, call, says = REFUSED[case]
    with pytest.raises(PlanBroken, match=says):
        call(make())


def test_a_round_is_closed_where_all_that_was_begun_is_made():
    """Of rows by those who released anything, of clients by those who were called; the others owe nothing."""
    rows = of_rows()
    rows.close()
    trains(rows)
    with pytest.raises(PlanBroken, match=r"client 0 is in 1 noisy releases \(training\) in round 1; .* has 2"):
        rows.close()
    trains(rows, (0, 1), stage=1)
    with pytest.raises(PlanBroken, match="client 3 is in 1 noisy releases"):
        rows.close()
    trains(rows, (3,), stage=1)
    rows.close()
    other = rows.again()
    other.close()
    trains(other)  # which counts by itself
    rows.begin(1)
    rows.close()
    chosen = of_choices()
    chosen.choice(np.array([2]), np.array([0.3]))
    chosen.close()  # who has no privacy in training may train or not
    central = of_clients()
    central.close()
    central.close(np.array([], int))
    sums(central, "sum", [0, 1], 1.0)
    with pytest.raises(PlanBroken, match=r"client 1 is in 0 noisy releases \(count\) in round 3; .* has 1"):
        central.close(np.array([1]))
    sums(central, "count", [0, 1], 4.0, stage=1)
    central.close(np.array([0, 1]))
    sums(central, "sum", [2, 3], 3.0, stage=2)
    with pytest.raises(PlanBroken, match=r"client 3 is in 1 noisy releases \(sum\) in round 3; .* has 2"):
        central.close(np.array([1, 3]))
    central.begin(3)
    with pytest.raises(PlanBroken, match=r"client 2 is in 0 noisy releases \(sum\) in round 4"):
        central.close(np.array([2]))


def test_a_plan_says_of_whom_how_often_and_what_it_costs():
    choices = [Release(what="choice", rounds=range(3), times=2, noise=[0.1, np.inf, 0.3, 0.0], clients=FIRST)]
    trainings = Release(what="training", rounds=range(2, 6))
    plan = PrivacyPlan(releases=[trainings, *choices], privacy=ROWS, uncovered=["a thing"])
    t = type("Four", (Terms,), {"n_clients": 4, "__init__": lambda self: None})()
    np.testing.assert_allclose(plan.rho(t), 6 * np.array([0.1, 0.0, 0.3, 0.0]) ** 2 / 8)
    assert (plan.count("training"), plan.count("choice"), plan.count("sum"), plan.protects) == (4, 6, 0, "row")
    assert [choices[0].at(r, 4).tolist() for r in (2, 3)] == [[2, 2, 0, 0], [0, 0, 0, 0]]
    assert trainings.at(2, 3).tolist() == [1, 1, 1]
    lines = plan.text().split("\n")
    assert lines[0].startswith("released: training, 4 times (1 in each of 4 rounds), about all clients' rows; moved by clip")
    assert lines[1].startswith("released: choice, 6 times (2 in each of 3 rounds), about 2 clients' rows; moved by one")
    assert lines[2:4] == ["not covered: a thing", f"not covered: {ALWAYS_UNCOVERED[0]}"]
    assert PrivacyPlan().meter(t) is None
    for eps, counted in ((np.inf, False), (3.0, True)):
        made = replace(plan, releases=[trainings], privacy=replace(ROWS, eps=eps)).meter(task())
        assert (made is not None) is counted
    given = Meter(PrivacyPlan(releases=[trainings]), 4)  # without a privacy whose noise training needs
    trains(given, clip=None, multiplier=None, own_batches=True)
    for bad in ("text", [3], 3):
        with pytest.raises(ValueError, match="releases must be a list of Release"):
            PrivacyPlan(releases=bad)
    for bad in ("text", [""], [3]):
        with pytest.raises(ValueError, match="uncovered must be a list of texts"):
            PrivacyPlan(uncovered=bad)
    assert PrivacyPlan().guarantees(t) == [None] * 4
    assert Release(what="sum", rounds=range(0), times=10**9).number == 0
    with pytest.raises(ValueError, match=r"times must be in 0\.\.1000000000, got"):
        Release(what="sum", rounds=range(1), times=10**9 + 1)
    several = PrivacyPlan(releases=[Release(what="sum", rounds=range(2), noise=1.0)] * 2)
    assert (several.count("sum"), several.protects, several.chooses, plan.chooses) == (4, "client", False, True)
