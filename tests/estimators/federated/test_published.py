"""Published claims: comparisons that can fail, verdicts that follow from result lines, and a page that is what code says."""

from collections import Counter
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import figures.learn
from estimators.federated.experiments.comparing import (
    ERROR,
    FACTOR,
    Compared,
    failing,
    fall,
    gap,
    level,
    log_error,
    printed_unit,
    tie,
)
from estimators.federated.experiments.experiment import experiments, read
from estimators.federated.experiments.plan import label
from estimators.federated.experiments.published import VERDICTS, entries, judge, outcomes
from estimators.federated.experiments.results import Row, read_lines, slim
from figures.learn.tables import FOLDER, PAGE, PUBLISHED, claims, page

SMALL = """
title = "Small"
paper = "none"
place = "a test"
rounds = 6
seeds = [0, 1, 2]
data = { loader = "synthetic_federation" }
model = { kind = "logistic_regression" }
work = { rule = "poisson", n_steps = 2, batch_size = 4 }
methods = [
  { name = "A", algorithm = "Local", settings = { learning_rate = 0.3 } },
  { name = "B", algorithm = "Local", settings = { learning_rate = 0.1 } },
]
printed = [
  { method = "A", measure = "clients.accuracy", value = 0.95 },
  { method = "B", measure = "clients.accuracy", value = 0.90 },
]
"""
ENTRY = """
[[entry]]
paper = "none"
place = "a test"
says = "A is ahead of B."
experiments = ["small"]
gaps = [{ first = "A", others = ["B"], measure = "clients.accuracy" }]
settings = [{ name = "rounds", paper = 6, key = "rounds" }, { name = "rate", paper = 0.3, key = "A/settings/learning_rate" }]
"""


@pytest.fixture
def ask(tmp_path):
    """A function from values of A and B by seed, and replacements in the entry, to the judged entry."""
    (tmp_path / "small.toml").write_text(SMALL)
    known = {"small": read("small", tmp_path)}

    def judged(a, b, *changes):
        text = ENTRY
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "published.toml").write_text(text)
        values = [("A", a), ("B", b)]
        lines = [{"method": m, "point": {}, "seed": seed, "final": {"personal.clients.accuracy": value}}
                 for m, found in values for seed, value in enumerate(found)]  # fmt: skip
        return judge(entries(tmp_path / "published.toml")[0], known, {"small": lines} if lines else {})

    return judged


A, B = np.array([0.950, 0.951, 0.949]), np.array([0.900, 0.902, 0.899])


def test_a_verdict_follows_from_lines(ask):
    found = ask(A, B)
    assert (found.verdict, found.count("holds")) == ("reproduced", 3)
    assert found.reason == "all 3 comparisons hold"


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (A - 0.08, B, "1 of 1 gaps and 1 of 2 printed numbers fail"),  # the other way round
        (A + 0.03, B, "0 of 1 gaps and 1 of 2 printed numbers fail"),  # 98 for 95: three fifths of the errors
        (A, B - 0.1, "0 of 1 gaps and 1 of 2 printed numbers fail"),
    ],
)
def test_a_shifted_result_flips_the_verdict(ask, a, b, reason):
    found = ask(a, b)
    assert found.verdict == "contradicted"
    assert reason in found.reason


def test_what_does_not_decide_is_not_comparable(ask):
    assert ask(A[:1], B[:1]).reason == "one seed has no standard error"
    noisy = ask(A + np.array([-0.04, 0, 0.04]), B)
    assert (noisy.verdict, noisy.count("fails")) == ("not comparable", 0)
    assert "undecided" in noisy.reason
    partly = ask(A, [])
    assert (partly.verdict, partly.count("not run")) == ("not comparable", 2)
    nothing = ask([], [])
    assert (nothing.verdict, nothing.reason) == ("not run", "there are no result lines of it")
    assert ask([], [], ("says", 'reason = "no data"\nsays')).reason == "no data"


def test_other_settings_are_not_comparable_and_fitted_ones_not_reached(ask):
    found = ask(A, B, ("paper = 6", "paper = 60"))
    assert (found.verdict, found.reason) == ("not comparable", "stated otherwise: rounds")
    minor = ask(A, B, ("paper = 6,", 'paper = 60, because = "tried",'))
    assert (minor.verdict, minor.reason) == ("reproduced", "all 3 comparisons hold (minor differences: rounds)")
    fitted = ask(A, B, ("paper = 0.3,", "fitted = true,"))
    assert (fitted.verdict, fitted.count("holds"), fitted.count("fitted")) == ("reproduced", 1, 2)
    assert "2 printed numbers are met by fitted settings (fitted: rate)" in fitted.reason
    assert ask(A, B - 0.1, ("paper = 0.3,", "fitted = true,")).verdict == "contradicted"
    alone = ask(A, B, ("paper = 0.3,", "fitted = true,"), (ENTRY[ENTRY.index("gaps") : ENTRY.index("settings")], ""))
    assert (alone.verdict, alone.count("holds")) == ("not comparable", 0)  # nothing but what was fitted
    silent = ask(A, B, ("paper = 0.3, ", ""))
    assert silent.reason == "all 3 comparisons hold (not stated: rate)"
    open_one = ask(A, B - 0.1, ("paper = 0.3, ", ""))  # another rate may be all that it takes
    assert (open_one.verdict, open_one.count("fails")) == ("not comparable", 1)
    assert "1 of 2 printed numbers fail" in open_one.reason
    assert "not stated: rate" in open_one.reason
    measured = ask(A, B - 0.1, ("paper = 0.3, ", 'because = "tried", '))
    assert measured.verdict == "contradicted"


def test_mistakes_in_an_entry_are_named(ask):
    for change, says in [
        (("says =", "sais ="), r"none, a test: unknown \['sais'\], missing \['says'\]"),
        (('experiments = ["small"]', ""), "give experiments, or the reason"),
        (("others", "other"), "a gap or tie has the keys first, others"),
        (('others = ["B"]', 'others = ["C"]'), "small has no methods 'A' and 'C'"),
        (('key = "rounds"', 'key = "rounds", ours = 6'), "rounds: give key or ours, not both"),
    ]:
        with pytest.raises(ValueError, match=says):
            ask(A, B, change)


def test_a_gain_that_falls_from_one_experiment_to_the_next(tmp_path):
    """The gain is a log ratio of errors, paired by seed; where a method is missing nothing was run; names are checked."""
    known, values = {}, {"first": (A, B), "then": (A - 0.03, B), "grown": (A, B - 0.05)}
    for name in values:
        (tmp_path / f"{name}.toml").write_text(SMALL.replace("a test", f"panel {name}"))
        known[name] = read(name, tmp_path)
    lines = {name: [{"method": method, "point": {}, "seed": seed, "final": {"personal.clients.accuracy": value}}
                    for method, found in zip("AB", pair, strict=True) for seed, value in enumerate(found)]
             for name, pair in values.items()}  # fmt: skip
    text = """
[[entry]]
paper = "none"
place = "a test"
says = "The gain falls."
experiments = ["first", "then", "grown"]
falls = [{ first = "A", others = ["B"], measure = "clients.accuracy", along = ["first", "then", "grown"] }]
"""

    def judged(lines, text=text):
        (tmp_path / "published.toml").write_text(text)
        found = judge(entries(tmp_path / "published.toml")[0], known, lines)
        return found, [check for check in found.checks if check.kind == "fall"]

    found, (down, up) = judged(lines)
    errors = [np.log((1 - b + 5e-5) / (1 - a + 5e-5)) for a, b in (values["first"], values["then"])]
    assert down.found.value == pytest.approx(np.mean(errors[0] - errors[1]), rel=1e-12)
    assert (down.outcome, down.experiment, up.outcome, up.experiment) == ("holds", "then", "fails", "grown")
    assert down.text == "the gain of A on B is less than in panel first"
    assert "1 of 2 falls of a gain" in found.reason
    without = {**lines, "then": [line for line in lines["then"] if line["method"] == "A"]}
    assert [check.outcome for check in judged(without)[1]] == ["not run", "not run"]
    for wrong in ('along = ["first", "other"]', "at = {}"):
        with pytest.raises(ValueError, match="a fall has the keys first, others, measure, along"):
            judged(lines, text.replace('along = ["first", "then", "grown"]', wrong))
    with pytest.raises(ValueError, match="first has no methods 'A' and 'C'"):
        judged(lines, text.replace('others = ["B"]', 'others = ["C"]'))
    grid = SMALL[: SMALL.index("printed")].replace("settings = { learning_rate = 0.3", "grid = { learning_rate = [0.3, 0.1]")
    (tmp_path / "then.toml").write_text(grid)
    known["then"] = read("then", tmp_path)
    several = [{**line, "point": {"learning_rate": rate}} for rate in (0.3, 0.1) for line in lines["then"]]
    with pytest.raises(ValueError, match="then: a fall is of one grid point, let 'A' select"):
        judged({**lines, "then": several})


def test_errors_are_on_a_log_scale():
    """99.88 for 99.98 is five times what is wrong; the same tenth of a point at 90 is nothing."""
    assert not level("clients.accuracy", [0.9988, 0.9988, 0.9987], 0.9998).holds
    assert failing([level("clients.accuracy", [0.9988, 0.9988, 0.9987], 0.9998)]) == [0]
    assert level("clients.accuracy", [0.8990, 0.8991, 0.8989], 0.9).holds


def test_a_number_nearer_to_another_method_is_not_reached():
    """The School table: methods 2.5 % apart, which a margin of 3 % does not tell apart."""
    ours = [0.0262, 0.0263, 0.0263, 0.0262, 0.0263]
    assert level("rows.mse", ours, 0.02564).holds
    assert not level("rows.mse", ours, 0.02564, others=[0.02628]).holds
    assert level("rows.mse", ours, 0.02628, others=[0.02564]).holds


def test_differences_are_paired():
    """Seeds that move both methods alike cost no power, and do where the pairs are broken."""
    split = np.array([0.02, -0.03, 0.01, 0.04, -0.02])
    ahead, behind = 0.8 + split, 0.79 + split
    assert gap("clients.accuracy", ahead, behind).holds
    assert not gap("clients.accuracy", ahead, behind[::-1]).holds
    assert failing([gap("clients.accuracy", behind, ahead)]) == [0]
    assert tie("clients.accuracy", ahead, behind).holds


def test_false_statements_are_as_rare_as_said():
    """3,000 tables of seven comparisons of three seeds at the edge: 5 % of tables with any that fails, 5 % of holds."""
    rng = np.random.default_rng(7)
    any_fails = holds = 0
    for _ in range(3000):
        found = []
        for _ in range(7):
            values = rng.normal(0, 1, 3)
            mean, error = values.mean(), values.std(ddof=1) / np.sqrt(3)
            losses = np.exp(-1 + 0.01 * values)
            compared = gap("rows.mse", losses, np.full(3, np.exp(-1)))
            assert compared.value / compared.error == pytest.approx(-mean / error)
            found.append(compared)
        any_fails += bool(failing(found))
        holds += sum(compared.holds for compared in found)
    assert any_fails / 3000 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 3000)
    assert abs(holds / 21000 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 21000)


def test_what_is_wrong_has_a_logarithm_of_accuracies_from_0_to_1_and_of_losses_above_0():
    assert log_error("accuracy", 0.0, 0.5) == pytest.approx(np.log(1.25))  # with or without the name of what is measured
    assert log_error("rows.accuracy", 1.0, 0.5) == pytest.approx(np.log(0.25))
    for measure, value in (("rows.accuracy", -0.01), ("rows.accuracy", 1.01), ("rows.accuracy", 1.9)):
        with pytest.raises(ValueError, match=rf"^{measure} must be in \[0, 1\], got {value}$"):
            log_error(measure, value)
    for value in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"^mse must be > 0, got {value}$"):
            log_error("mse", value)
    assert [printed_unit("mse", value) for value in (0.5, np.inf)] == [0.1, 1.0]  # infinity has no digits


def test_of_several_values_without_spread_the_sign_decides_and_of_one_nothing():
    for ahead, behind, holds, p in ((0.25, 0.5, True, 1.0), (0.5, 0.25, False, 0.0), (0.5, 0.5, False, 1.0)):
        found = gap("mse", [ahead] * 3, [behind] * 3)
        assert (found.value, found.error) == (pytest.approx(np.log(behind / ahead)), 0.0)
        assert (found.holds, found.p) == (holds, p)
    for found in (gap("mse", [0.25], [0.5]), gap("mse", [0.5], [0.25]), tie("mse", [0.5], [0.5])):
        assert (found.n, found.holds, found.p) == (1, False, 1.0)  # one seed decides nothing
        assert np.isnan(found.error)
    assert tie("mse", [1.0, 1.0], [FACTOR, FACTOR]).holds  # no more than a quarter above
    assert not tie("mse", [1.0, 1.0], [1.0001 * FACTOR] * 2).holds


def test_failures_are_those_of_holm():
    for p, lost in (([0.03, 0.001, 0.02], [0, 1, 2]), ([0.5, 0.02], [1]), ([0.03, 0.5], []), ([0.001, 0.03, 0.03], [0])):
        assert failing([Compared(0.0, 0.1, 3, False, each) for each in p]) == lost
    with pytest.raises(ValueError, match="found must be a list of Compared"):
        failing([0.5])


def errors_of(measure, values, unit):
    """Logs of what is wrong, by the definition."""
    values = np.asarray(values)
    return np.log(1 - values + unit / 2 if measure.endswith("accuracy") else values)


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("apart", [-0.5, -0.2, 0.0, 0.15, 0.21, 0.6])
@pytest.mark.parametrize("measure", ["rows.mse", "clients.accuracy"])
def test_gaps_ties_and_falls_are_students_tests_of_paired_log_errors(measure, apart, n):
    """As SciPy has them: paired, one-sided; a tie by both tests against the margin, its p twice the nearer one's."""
    rng = np.random.default_rng(n)
    for scale in (0.01, 0.05, 0.3):
        errors = 0.2 * np.exp(rng.normal(0, scale, (4, n)) + np.array([[0.0], [apart], [0.0], [0.1]]))
        values = 1 - errors if measure.endswith("accuracy") else errors
        a, b, now_a, now_b = errors_of(measure, values, 1e-4)
        for found, d in ((gap(measure, *values[:2]), b - a), (fall(measure, *values), (b - a) - (now_b - now_a))):
            assert (found.value, found.error, found.n) == pytest.approx((d.mean(), stats.sem(d), n), rel=1e-10)
            assert found.p == pytest.approx(stats.ttest_1samp(d, 0, alternative="less").pvalue, rel=1e-8)
            assert found.holds == (stats.ttest_1samp(d, 0, alternative="greater").pvalue <= ERROR)
        found, d, margin = tie(measure, *values[:2]), b - a, np.log(FACTOR)
        below, above = (stats.ttest_1samp(d, end, alternative=side).pvalue
                        for end, side in ((-margin, "greater"), (margin, "less")))  # fmt: skip
        assert found.holds == (max(below, above) <= ERROR)
        assert found.p == pytest.approx(min(1, 2 * min(1 - below, 1 - above)), rel=1e-7)


@pytest.mark.parametrize(
    ("measure", "printed", "unit"),
    [
        ("rows.mse", 0.0256, 1e-4),
        ("rows.mse", 1.2, 0.1),
        ("clients.accuracy", 0.9, 1e-4),
        ("clients.accuracy", 0.98765, 1e-5),
    ],
)
def test_levels_are_students_tests_against_what_is_printed(measure, printed, unit):
    """The margin is a quarter, or half the way to the next number, but not less than rounding leaves open."""
    assert printed_unit(measure, printed) == pytest.approx(unit)
    target = errors_of(measure, printed, unit)
    error = np.exp(target)
    rng = np.random.default_rng(3)
    for n, shift, scale in ((1, 0.0, 0.1), (3, 0.02, 0.01), (5, 0.2, 0.02), (5, -0.3, 0.05), (4, 0.0, 0.2)):
        wrongs = error * np.exp(shift + rng.normal(0, scale, n))
        values = 1 + unit / 2 - wrongs if measure.endswith("accuracy") else wrongs
        for printed_error, others in (
            (0.0, ()),
            (0.03 * error, ()),
            (0.0, (0.97 * printed, 0.5 * printed)),
            (0.0, (printed,)),
        ):
            found = level(measure, values, printed, printed_error, others)
            logs = errors_of(measure, values, unit) - target
            assert (found.value, found.n) == pytest.approx((logs.mean(), n))
            if n == 1:
                assert (found.holds, found.p) == (False, 1.0)
                continue
            spread = np.sqrt(stats.sem(logs) ** 2 + (printed_error / error) ** 2)
            rounding = unit / 2 / error
            halves = [max(abs(errors_of(measure, other, unit) - target) / 2, rounding) for other in others]
            margin = min([np.log(1.25), *halves])
            low, high = stats.t.interval(0.9, n - 1, logs.mean(), spread)
            assert found.error == pytest.approx(spread)
            assert found.holds == (-margin <= low and high <= margin)
            beyond = stats.t.sf((abs(logs.mean()) - margin - rounding) / spread, n - 1)
            assert found.p == pytest.approx(min(1, 2 * beyond))


def test_values_without_any_spread_decide_by_themselves():
    same, less = [0.2, 0.2], [0.1, 0.1]
    assert gap("rows.mse", less, same)[3:] == (True, 1.0)
    assert gap("rows.mse", same, less)[3:] == (False, 0.0)
    assert gap("rows.mse", same, same)[3:] == (False, 1.0)
    assert tie("rows.mse", same, same)[3:] == (True, 1.0)
    assert tie("rows.mse", same, less)[3:] == (False, 0.0)
    for accuracy in (0.0, 1.0):
        assert log_error("a.accuracy", accuracy, 1e-2) == pytest.approx(np.log(1.005 - accuracy))
    for measure, value in (("a.accuracy", -1e-9), ("a.accuracy", 1 + 1e-9), ("a.mse", 0.0), ("a.loss", -1.0)):
        with pytest.raises(ValueError, match="must be"):
            log_error(measure, value)
    assert log_error("a.loss", 3.0) == np.log(3.0)
    assert log_error("accuracy", 0.5) == log_error("a.accuracy", 0.5)
    assert level("rows.mse", same, 0.2) == level("rows.mse", same, 0.2, 0.0, [])
    assert gap("rows.mse", less[:1], same[:1])[2:] == (1, False, 1.0)  # one seed decides nothing
    for call in (lambda: gap("rows.mse", same, [0.1]), lambda: fall("rows.mse", same, less, [0.2], [0.1])):
        with pytest.raises(ValueError, match="shorter"):
            call()
    for bad in ([3], "text"):
        with pytest.raises(ValueError, match="found must be a list"):
            failing(bad)


def test_those_that_fail_are_those_of_the_closed_test():
    """Holm's rule: one fails if of every set of comparisons that has it the least p is at most ERROR over their number."""
    rng = np.random.default_rng(5)
    for _ in range(300):
        p = rng.choice([0.001, 0.0125, 0.05 / 3, 0.017, 0.025, 0.03, 0.05, 0.051, 0.5], rng.integers(1, 5))
        sets = [*chain.from_iterable(combinations(range(len(p)), k) for k in range(1, len(p) + 1))]
        wanted = [i for i in range(len(p)) if all(p[list(s)].min() <= ERROR / len(s) for s in sets if i in s)]
        assert failing([Compared(0.0, 0.1, 3, False, float(x)) for x in p]) == wanted


@pytest.mark.parametrize("rounds", [0, 1, 2, 10, 11, 12, 21, 22, 23, 100])
def test_a_committed_history_has_its_last_round_and_even_steps_of_eleven_at_most(rounds):
    history = [
        {"round": t, "shared.rows.mse": 1 / t, "shared.spread.mse": 0.1, "shared.rows.loss": 2.0}
        for t in range(1, rounds + 1)
    ]
    kept = slim({"final": {}, "history": history, "provenance": {}})["history"]
    if not rounds:
        assert kept == {}
        return
    assert kept.keys() == {"round", "shared.rows.mse"}
    assert kept["round"][-1] == rounds
    steps = set(np.diff(kept["round"]).tolist())
    step = min(s for s in range(1, 101) if len(range(rounds, 0, -s)) <= 11)
    assert steps <= {step}
    assert len(kept["round"]) == len(range(rounds, 0, -step))
    np.testing.assert_allclose(kept["shared.rows.mse"], 1 / np.array(kept["round"]), rtol=5e-6)


def test_a_row_has_the_mean_of_its_seeds_and_its_standard_error():
    def of(*values):
        lines = [{"seed": s, "history": {"round": [1], "shared.rows.mse": [v]}, "final": {"shared.rows.mse": v}}
                 for s, v in enumerate(values)]  # fmt: skip
        return Row("A", {}, (*lines, {"seed": 9, "failed": "diverged"}))

    values = [0.3, 0.5, 0.1, 0.4]
    assert of(*values).value("rows.mse") == pytest.approx((np.mean(values), stats.sem(values), 4))
    assert of(*values[:2]).value("rows.mse") == pytest.approx((0.4, 0.1, 2))
    assert of(0.3).value("rows.mse") == pytest.approx((0.3, np.nan, 1), nan_ok=True)
    assert of().value("rows.mse") is of(0.3).value("rows.accuracy") is None
    assert [part.tolist() for part in of(0.3).history("rows.mse")] == [[1], [0.3], [0.0]]
    assert [part.tolist() for part in of().history("rows.mse")] == [[], [], []]
    assert (of(0.3).measures(), of().measures()) == (["shared.rows.mse"], [])


def test_outcomes_count_every_comparison_once(ask):
    found = ask(A, B - 0.1)
    assert sum(map(found.count, ("holds", "fails", "open", "fitted", "not run"))) == len(found.checks) == 3
    again = outcomes([replace(check, outcome="") for check in found.checks], fitted=False)
    assert [check.outcome for check in again] == [check.outcome for check in found.checks]
    assert failing([Compared(0.0, 0.1, 1, False, 1.0)]) == []


def committed_lines():
    folder = Path(figures.learn.__file__).with_name("results")
    return {name: read_lines(folder / f"{name}.jsonl") for name in experiments() if (folder / f"{name}.jsonl").is_file()}


def test_committed_lines_give_the_verdicts_that_the_page_shows():
    known, results = {name: read(name) for name in experiments()}, committed_lines()
    judged = [judge(entry, known, results) for entry in entries()]
    counts = Counter(found.verdict for found in judged)
    shown = (FOLDER / PUBLISHED).read_text(encoding="utf-8")
    assert f"{len(judged)}: {', '.join(f'{counts[word]} {word}' for word in VERDICTS)}." in shown
    assert shown == claims()
    assert (FOLDER / PAGE).read_text(encoding="utf-8") == page()
    places = [(found.entry.paper, found.entry.place) for found in judged]
    assert len(set(places)) == len(places)
    for found in judged:
        assert (found.verdict == "not run") == (not any(check.found for check in found.checks)), found.entry.place
        assert not (found.entry.reason and found.verdict != "not run"), f"{found.entry.place} was run: its reason is stale"
    named = {name for entry in entries() for name in entry.experiments}
    beside = {"adaped-table1", "robusthdp-mnist-cnn", "robusthdp-rates", "feo2-table1", "mrmtl-figure5-landmine", "demo"}
    beside |= {"mrmtl-figure5-school", "mrmtl-figure3b-screen", "adaped-table1-cnn"}
    assert named | beside == set(known), "every experiment answers an entry, or is known to answer none"


def test_other_committed_lines_give_other_verdicts():
    """Table 2 of FedHDP fails in personal accuracies, whose test rows are left open; a gap is lost with the method."""
    known, results = {name: read(name) for name in experiments()}, committed_lines()
    entry = next(entry for entry in entries() if (entry.paper, entry.place) == ("fedhdp", "Table 2"))
    found = judge(entry, known, results)
    assert (found.verdict, found.count("fails") > 0) == ("not comparable", True)
    assert "test rows of a client" in found.reason.split("not stated: ")[1]
    worse = [{**line, "final": {name: value - 0.4 if "shared" in name else value for name, value in line["final"].items()}}
             if line["method"] == "FedHDP" else line for line in results["fedhdp-table2"]]  # fmt: skip
    found = judge(entry, known, {"fedhdp-table2": worse})
    assert any(check.outcome == "fails" for check in found.checks if check.kind == "gap")
    seed = [line for line in results["fedhdp-table2"] if line["seed"] == 0]
    assert judge(entry, known, {"fedhdp-table2": seed}).reason == "one seed has no standard error"


def test_what_was_not_run_says_what_it_would_take():
    known = {name: read(name) for name in experiments()}
    results = {name: read_lines(path) for name in known if (path := FOLDER / f"{name}.jsonl").is_file()}
    for entry in entries():
        assert bool(entry.needs) == (judge(entry, known, results).verdict == "not run"), f"{entry.paper}, {entry.place}"


def test_what_figure_3b_leaves_out_is_behind_by_more_than_seeds_differ():
    """Of Ditto and Mocha all sixty pairs ran on one seed, and on five all that come within 7 % of the best there."""
    lines = {name: committed_lines()[f"mrmtl-figure3b-{name}"] for name in ("screen", "grid")}
    for method in ("Ditto", "Mocha"):
        errors = {
            name: {
                (r["point"]["learning_rate"], r["point"]["lam"], r["seed"]): r["final"]["personal.rows.mse"]
                for r in found
                if r["method"] == method and "final" in r
            }
            for name, found in lines.items()
        }
        tried = {(r["point"]["learning_rate"], r["point"]["lam"]) for r in lines["screen"] if r["method"] == method}
        assert len(tried) == 60
        rate, lam, _ = min(errors["screen"], key=errors["screen"].get)
        near = {(r, s) for r, s, _ in errors["screen"] if errors["screen"][r, s, 0] < 1.07 * errors["screen"][rate, lam, 0]}
        ran = {(r, s) for r, s, _ in errors["grid"]}
        assert near <= ran
        for r, s in ran:
            behind = [np.log(errors["grid"][r, s, seed] / errors["grid"][rate, lam, seed]) for seed in range(5)]
            assert abs(np.array(behind[1:]) - behind[0]).max() < np.log(1.07)


def test_rounds_are_at_least_one(tmp_path):
    (tmp_path / "one.toml").write_text(SMALL.replace("rounds = 6", "rounds = 1"))
    assert [run.rounds for run in read("one", tmp_path).runs(seeds=[0])] == [1, 1]
    (tmp_path / "none.toml").write_text(SMALL.replace("rounds = 6", "rounds = 0"))
    with pytest.raises(ValueError, match="rounds must be a whole number >= 1"):
        read("none", tmp_path)


def test_a_table_is_one_value_in_whatever_order_its_keys_are():
    assert label({"b": 1, "a": {"d": 2, "c": 3}}) == label({"a": {"c": 3, "d": 2}, "b": 1})
    assert label({"choice": "a"}) != label({"choice": "b"})


def test_a_history_is_of_rounds_that_all_seeds_have_and_broken_lines_are_refused():
    def line(seed, rounds, values):
        return {"seed": seed, "history": {"round": rounds, "personal.clients.accuracy": values}, "final": {}}

    row = Row("A", {}, (line(0, [2, 4, 6], [0.1, 0.2, 0.3]), line(1, [4, 6, 8], [0.4, 0.5, 0.6])))
    rounds, means, errors = row.history("clients.accuracy")
    np.testing.assert_allclose([rounds, means, errors], [[4, 6], [0.3, 0.4], [0.1, 0.1]])
    with pytest.raises(ValueError, match="shorter"):
        Row("A", {}, (line(0, [2, 4, 6], [0.1, 0.2]),)).history("clients.accuracy")
