"""Privacy plans: noise and guarantees follow what is declared, and a round that releases something else is refused."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest

from estimators.federated.algorithms import IFCA, MRMTL, Ditto, DPAdaPeD, DPFedAvg, FedAvg, FeO2, Local, Tuned
from estimators.federated.data import synthetic_federation
from estimators.federated.models import logistic_regression
from estimators.federated.plans import ALWAYS_UNCOVERED, PlanBroken, PrivacyPlan, Release
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
