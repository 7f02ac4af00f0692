"""What is more than numbers is refused by every public function: with the argument's name, the fix and no value.

No list of functions is kept here: the calls are those of the doctests, which every public function has, so that a new one
cannot forget to check its arguments.
"""

import importlib
import inspect
import pkgutil
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

import estimators
from estimators.accounting.tuning import FixedRuns, tuned_epsilon
from estimators.closed_forms.aggregation import aggregate_variance, precision_weights
from estimators.closed_forms.gaussian import from_samples
from estimators.closed_forms.mean_regularized import mse
from estimators.counts.beta_binomial import BetaBinomial, BetaBinomialTally
from estimators.counts.gamma_poisson import GammaPoisson, GammaPoissonTally
from estimators.coverage import coverage
from estimators.federated.data import Examples
from estimators.normal_means.gaussian_means import GaussianMeans
from estimators.normal_means.mixture_means import MixtureMeans
from estimators.normal_means.point_normal import PointNormalMeans
from estimators.normal_means.streaming import GaussianTally, RowTally, SampleTally
from estimators.npmle.nonparametric import NonparametricCounts, NonparametricMeans, NonparametricRates
from estimators.numerics import validation
from estimators.numerics.validation import count, nonnegative, number, paired, positive, probability, same_labels
from estimators.private import MeanClient, RateClient
from estimators.regression.client_rows import RegressionTally
from estimators.regression.linear_clients import LinearClients

# Machinery, whose arguments others have checked; protocols of the simulated training, which talk to each other.
WITHIN = (
    "exact",
    "limits",
    "processes",
    "units",
    "wide",
    "inversion",
    "mixture_draws",
    "quadrature",
    "surfaces",
    "tallies",
    "normal_mixture",
    "npmle",
    "conjugate",
    "coefficient_model",
    "covariances",
    "validation",
    "noise_laws",
    "mean_posterior",
)
APART = ("kernels", "jax", "reference_backend", "numpy_backend", "federated", "exact_noise", "exact_batches", "montecarlo")
OUTCOMES = {"Ys", "Y", "answers"}  # may be True and False
SAMPLING = {"self", "cls", "generator", "rng"}
DATA = {("audit_release", "pairs"), ("audit_draws", "pairs")}  # data sets of any kind, for a user's own mechanism


def public_modules():
    for found in pkgutil.walk_packages(estimators.__path__, "estimators."):
        last = found.name.split(".")[-1]
        if (
            not any(part in found.name for part in APART)
            and last not in WITHIN
            and (".npmle." not in found.name or last == "nonparametric")
        ):
            yield importlib.import_module(found.name)


def numeric(value):
    if isinstance(value, (bool, str)) or value is None:
        return False
    if isinstance(value, (list, tuple, np.ndarray)):
        try:
            array = np.asarray(value)
        except ValueError:
            return False
        return array.dtype.kind in "iuf" and array.size > 0
    return isinstance(value, (int, float, np.number)) and (abs(value) == np.inf or abs(value) < 1e200)


def more_than_numbers(value, outcomes):
    """Variants of `value` that must be refused, by kind."""
    array = np.asarray(value, float)
    where = np.arange(array.size).reshape(array.shape) == 0
    objects = array.astype(object)
    objects[where] = None
    kinds = {
        "masked": np.ma.array(array, mask=where) if array.ndim else np.ma.masked,
        "NaN": np.where(where, np.nan, array)[()],
        "missing": objects if array.ndim else [None],
        "date": np.full(array.shape, "2020-01-01", "M8[D]")[()],
        "NaT": np.full(array.shape, "NaT", "M8[D]")[()],
        "duration": np.ones(array.shape, "m8[D]")[()],
        "complex": (array + 0j)[()],
        "text": array.astype(str)[()],
        "list of text": array.astype(str).tolist(),
    }
    if not outcomes:
        kinds["boolean"] = (array != 0)[()]
    if array.ndim:
        kinds["records"] = np.zeros(array.shape, [("a", float)])
    return kinds


def cases(doctest_calls):
    for label, (function, args, kwargs) in doctest_calls(public_modules()).items():
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if (label, name) in DATA:
                continue
            if name not in SAMPLING and kind not in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL) and numeric(value):
                yield label, function, bound, name, value


def test_every_public_function_refuses_what_is_more_than_numbers(doctest_calls, copied):
    """More than 300 functions and arguments, a dozen kinds each."""
    seen, wrong = set(), []
    for label, function, bound, name, value in cases(doctest_calls):
        seen.add((label, name))
        for kind, bad in more_than_numbers(value, name in OUTCOMES).items():
            changed = copied(bound)
            changed.arguments[name] = bad
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", np.exceptions.ComplexWarning)
                    function(*changed.args, **changed.kwargs)
            except ValueError as error:
                if name not in str(error):
                    wrong.append(f"{label}({name}={kind}) names no argument: {error}")
            except Exception as error:
                wrong.append(f"{label}({name}={kind}): {error!r}")
            else:
                wrong.append(f"{label}({name}={kind}) is taken")
    assert len(seen) > 300
    assert not wrong, "\n".join(wrong)


class Column:
    """What pandas, which need not be installed, has in common with other labelled columns."""

    def __init__(self, values, index):
        self.values, self.index = np.asarray(values), np.asarray(index)
        self.shape = self.values.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)


def test_every_public_function_refuses_labels_that_differ(doctest_calls, copied):
    seen, wrong = 0, []
    for label, function, bound, name, value in cases(doctest_calls):
        others = [
            k for k, v in bound.arguments.items() if k != name and numeric(v) and np.ndim(v) and len(np.atleast_1d(v)) > 1
        ]
        if np.ndim(value) == 0 or not others:
            continue
        changed = copied(bound)
        for key, shift in ((name, 0), (others[0], 1)):
            array = np.asarray(bound.arguments[key])
            changed.arguments[key] = Column(array, np.arange(len(array)) + 7 + shift)
        seen += 1
        try:
            function(*changed.args, **changed.kwargs)
        except ValueError as error:
            if "have different labels" in str(error):
                continue
        wrong.append(f"{label}({name}, {others[0]})")
    assert not wrong
    assert seen > 50


Y, V = [1.0, 2.0, 3.0, 6.0], [1.0, 1.0, 2.0, 1.0]
X, N = [1, 0, 3, 4], [5, 5, 6, 8]
ROWS = [[[1.0], [1.0], [2.0]], [[1.0], [2.0], [2.0]]]
TARGETS = [[1.0, 2.0, 3.5], [0.0, 2.0, 1.0]]
PAIRS = {
    "GaussianMeans": (lambda a, b: GaussianMeans("moments").fit(a, b), Y, V),
    "PointNormalMeans": (lambda a, b: PointNormalMeans().fit(a, b), Y, V),
    "MixtureMeans": (lambda a, b: MixtureMeans(k=1).fit(a, b), Y, V),
    "NonparametricMeans": (lambda a, b: NonparametricMeans().fit(a, b), Y, V),
    "NonparametricCounts": (lambda a, b: NonparametricCounts().fit(a, b), X, N),
    "NonparametricRates": (lambda a, b: NonparametricRates().fit(a, b), X, N),
    "BetaBinomial": (lambda a, b: BetaBinomial("moments").fit(a, b), X, N),
    "BetaBinomialTally": (BetaBinomialTally.of, X, N),
    "GammaPoisson": (lambda a, b: GammaPoisson("moments").fit(a, b), X, N),
    "GammaPoissonTally": (GammaPoissonTally.of, X, N),
    "GaussianTally": (GaussianTally.of, Y, V),
    "GaussianTally.add": (lambda a, b: GaussianTally().add(a, b), Y, V),
    "SampleTally": (lambda a, b: SampleTally.of(N, a, b), Y, V),
    "RowTally": (lambda a, b: RowTally.of(a, b), list("aabb"), Y),
    "RegressionTally": (lambda a, b: RegressionTally.of(Frame(a), b), Y, V),
    "LinearClients": (lambda a, b: LinearClients(sigma2=1.0).fit([Frame(a)] * 3, [b] * 3), Y, V),
    "closed form": (lambda a, b: mse(0.5, a, b, 4), Y, V),
    "aggregation": (aggregate_variance, Y, V),
}


def Frame(column):
    """The data frame of one column."""
    return Column(np.asarray(column)[:, None], column.index) if isinstance(column, Column) else np.asarray(column)[:, None]


@pytest.mark.parametrize("family", PAIRS)
def test_pairs_of_columns(family):
    """Equal labels are paired, whatever they are; one labelled argument is taken by position; others are refused."""
    make, first, second = PAIRS[family]
    labels = ["d", "a", "c", "b"]
    expected = outcome(make(first, second))
    assert outcome(make(Column(first, labels), Column(second, labels))) == expected
    assert outcome(make(Column(first, labels), second)) == expected
    with pytest.raises(ValueError, match=r"have different labels \(index\)"):
        make(Column(first, labels), Column(second, labels[::-1]))


def outcome(found):
    """What a fit, tally or closed form found, to compare bit for bit."""
    if hasattr(found, "to_dict"):
        return found.to_dict()
    if isinstance(found, RegressionTally):
        return found.factor.tolist()
    return np.asarray(getattr(found, "posterior_mean_", found)).tolist()


def test_positions_are_named_and_values_are_not():
    masked = np.ma.masked_equal([1.0, 99999.0, 3.0], 99999.0)
    with pytest.raises(ValueError, match=r"^estimates is masked at position 1; drop or fill the masked entries first$"):
        GaussianMeans().fit(masked, 1.0)
    secret = [31337.5, -31337.5, 31337.5]
    checks = (nonnegative, positive, probability, count)
    for check in checks:
        with pytest.raises(ValueError, match="and is not at position") as caught:
            check("rows", secret)
        assert "31337" not in str(caught.value)
    for bad in ([31337.5, "31337"], [31337.5, None], np.array([31337.5, np.nan]), [31337.5, True], [31337.5, [31337.5]]):
        with pytest.raises(ValueError, match="x") as caught:
            number("x", bad)
        assert "31337" not in str(caught.value)


@pytest.mark.parametrize(
    "bad",
    [
        np.ma.masked_greater([31337.5, 1.0], 2.0),
        [31337.5, np.nan],
        [31337.5, np.inf],
        [31337.5, None],
        ["31337.5", "1"],
        [[31337.5, 1.0], [1.0]],
        [31337.5 + 0j],
        {"a": 31337.5},
        "31337.5",
        31337.5,
        np.array([(31337.5,)], [("a", float)]),
    ],
    ids=str,
)
def test_a_clients_error_holds_no_value_of_its_rows(bad):
    with pytest.raises(ValueError, match="rows") as caught:
        MeanClient(bounds=(0.0, 1.0), eps=1.0).report(bad)
    assert "31337" not in str(caught.value)
    with pytest.raises(ValueError, match="answers") as caught:
        RateClient(eps=1.0).report(bad)
    assert "31337" not in str(caught.value)


def test_arrays_without_anything_masked_and_columns_counted_from_0_are_numbers():
    assert number("x", np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert type(number("x", np.ma.array([1.0, 2.0]))) is np.ndarray
    assert number("x", Column([1.0, 2.0], [0, 1])).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"x has labels, which say nothing here; give x.to_numpy\(\)"):
        number("x", Column([1.0, 2.0], [1, 0]))
    assert precision_weights(Column([1.0, 1.0], ["a", "b"])).tolist() == [0.5, 0.5]
    assert same_labels(a=Column([1.0], ["x"]), b=2.0)["b"] == 2.0
    estimates, _ = from_samples([Column([1.0, 3.0], [4, 2]), Column([5.0], [9])])
    assert estimates.tolist() == [2.0, 5.0]


def test_ordinary_arrays_are_not_copied():
    x = np.random.default_rng(0).random((3, 4))
    assert number("x", x) is x
    assert np.shares_memory(number("x", x[::2]), x)


def test_masks_and_labels_of_what_is_no_array_say_nothing():
    class Reading:
        mask, index = np.array(True), np.array([5])

        def __float__(self):
            return 2.5

    assert number("x", Reading()) == 2.5
    assert validation.labels_of(Reading()) is None


def test_single_numbers_are_paired_with_anything_whatever_their_labels():
    class Cell:
        def __init__(self, label):
            self.index = np.array([label])

        def __array__(self, dtype=None, copy=None):
            return np.array(2.5)

    assert same_labels(a=Cell(1), b=Cell(2)) == {"a": 2.5, "b": 2.5}


def test_true_and_false_are_told_from_numbers():
    assert validation.flags("keep", [True, False, True]).tolist() == [True, False, True]
    assert [validation.switch("deep", value) for value in (True, np.False_)] == [True, False]
    for call in (lambda: validation.flags("keep", [1, 0]), lambda: validation.switch("keep", 1)):
        with pytest.raises(ValueError, match=r"keep must .*True or False"):
            call()


def test_five_positions_are_named_and_how_many_there_are():
    assert validation.places(np.ones(5, bool)) == " at positions 0, 1, 2, 3, 4"
    assert validation.places(np.ones(6, bool)) == " at positions 0, 1, 2, 3, 4, ... (6 in all)"
    assert validation.places(np.eye(2, dtype=bool)[:1]) == " at position (0, 0)"


@pytest.mark.parametrize(
    ("check", "held", "refused"),
    [
        (validation.finite, [-1e308, 1e308], [np.inf, -np.inf, True]),
        (validation.nonnegative, [0.0, 5e-324], [-5e-324, np.inf]),
        (lambda name, value: validation.nonnegative(name, value, infinite=True), [0.0, np.inf], [-5e-324]),
        (validation.positive, [5e-324], [0.0, np.inf]),
        (validation.count, [1, 2.0**60], [0, 1.5, np.inf]),
        (lambda name, value: validation.count(name, value, 0), [0, 1], [-1]),
        (validation.probability, [0.0, 1.0], [-5e-324, np.nextafter(1, 2)]),
        (validation.fraction, [5e-324, np.nextafter(1, 0)], [0.0, 1.0]),
        (lambda name, value: np.array(validation.index(name, value, 1, 3)), [1, 3], [0, 4, True, 2.0]),
    ],
)
def test_checks_hold_up_to_the_last_number_of_their_domain(check, held, refused):
    for value in held:
        assert check("x", value) == value
    for value in refused:
        with pytest.raises(ValueError, match=r"^x "):
            check("x", value)


@pytest.mark.parametrize(("check", "value"), [(count, 0), (probability, 2), (validation.fraction, 1)])
def test_a_single_number_is_shown_as_it_was_given(check, value):
    with pytest.raises(ValueError, match=f"^x must .*, got {value}$"):
        check("x", value)


def test_axes_choices_classes_and_levels_are_checked():
    assert validation.axis_of("x", np.ones((0, 1)), 1) == 1
    assert validation.choice("x", "a", ("a", True)) == "a"
    assert validation.instance("x", None, str, none=True) is None
    assert validation.by_level("x", [0.5]).tolist() == validation.by_level("x", np.array([0.5])).tolist() == [0.5]
    for call in (
        lambda: validation.axis_of("x", np.ones((0, 1)), 0),
        lambda: validation.axis_of("x", np.array(1.0), 0),
        lambda: validation.choice("x", "b", ("a", True)),
        lambda: validation.choice("x", 1, ("a", True)),
        lambda: validation.instance("x", None, str),
        lambda: validation.instance("x", 8, str, none=True),
        lambda: validation.by_level("x", []),
        lambda: validation.by_level("x", np.empty(0)),
        lambda: validation.by_level("x", 0.5),
    ):
        with pytest.raises(ValueError, match=r"^x "):
            call()


def test_lists_of_plain_numbers_are_read_at_once(monkeypatch):
    """Entries are looked at one by one only where one of them is no plain number."""
    asked, real = [], validation.real
    monkeypatch.setattr(validation, "real", lambda name, *rest: (asked.append(name), real(name, *rest))[1])
    for values in ([1.0, 2, np.float32(3)], (1.0, 2.0), [[1.0, 2], (3, 4.0)], []):
        np.testing.assert_array_equal(number("x", values), np.array(values, float))
        assert asked == ["x"]
        asked.clear()
    assert number("x", [[Fraction(1, 2), 2.0], [3.0, 4.0]]).tolist() == [[0.5, 2.0], [3.0, 4.0]]
    assert asked == ["x", "x[0]", "x[0][0]", "x[0][1]", "x[1]"]


def test_numbers_of_other_kinds_are_taken_for_what_they_are():
    """Exact fractions and decimals, alone and in arrays; what has no number of its own is refused by its type."""
    assert number("x", Decimal("1.5")) == 1.5
    assert number("x", [[Fraction(1, 3), 2], [Decimal("0.25"), 4.0]]).tolist() == [[1 / 3, 2.0], [0.25, 4.0]]
    assert precision_weights([Fraction(1, 3), Decimal(1)]).tolist() == pytest.approx([0.75, 0.25])
    for thing in (object(), {1.0}, {"a": 1.0}, len):
        with pytest.raises(ValueError, match=f"^x must be a number or .* of type {type(thing).__name__}$"):
            number("x", thing)


def test_masks_in_lists_of_arrays_are_seen():
    with pytest.raises(ValueError, match=r"samples\[1\] is masked at position 0"):
        from_samples([[1.0, 2.0], np.ma.array([1.0, 2.0], mask=[True, False])])
    with pytest.raises(ValueError, match=r"x\[1\] is masked at position 0"):
        number("x", [[1.0, 2.0], np.ma.array([1.0, 2.0], mask=[True, False])])
    with pytest.raises(ValueError, match=r"Ys\[0\] is masked"):
        LinearClients().fit(ROWS, [np.ma.masked_less(TARGETS[0], 2.0), TARGETS[1]])


def test_sparse_matrices_are_refused_with_the_fix():
    matrix = csr_array(np.eye(3))
    with pytest.raises(ValueError, match=r"^Xs\[0\] is sparse; give Xs\[0\].toarray\(\)$"):
        RegressionTally.of(matrix, [1.0, 2.0, 3.0])


def test_yes_and_no_may_be_responses():
    rows, answers = np.ones((4, 1)), np.array([True, False, True, True])
    assert outcome(RegressionTally.of(rows, answers)) == outcome(RegressionTally.of(rows, answers.astype(float)))
    assert RateClient(eps=np.inf).report([True, False]).value == 1.0
    with pytest.raises(ValueError, match=r"Xs\[0\] must be a number or an array of numbers, not booleans"):
        RegressionTally.of(rows == 1, answers)


def test_names_of_clients_that_are_missing_are_refused():
    for names in (["a", None], np.array(["a", None], object), [1.0, np.nan], np.ma.array(["a", "b"], mask=[0, 1])):
        with pytest.raises(ValueError, match=r"clients is (missing|masked) at position 1"):
            RowTally.of(names, [1.0, 2.0])


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"sigma2_loc of shape \(2,\) and tau2 of shape \(3,\) do not fit together"):
        mse(1.0, [1.0, 2.0], [1.0, 2.0, 3.0], 10)
    with pytest.raises(ValueError, match=r"weights of shape \(2,\) and variances of shape \(3,\) do not fit together"):
        aggregate_variance([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"axis must be in -1\.\.0, got 3"):
        precision_weights([1.0, 2.0], axis=3)
    with pytest.raises(ValueError, match=r"axis must be an integer in -1\.\.0, got 0\.5"):
        precision_weights([1.0, 2.0], axis=0.5)


def test_an_error_within_is_not_taken_for_one_of_shapes():
    @paired
    def broken(x):
        raise ValueError("x is wrong")

    with pytest.raises(ValueError, match=r"^x is wrong$"):
        broken([1.0])


def test_what_is_no_model_and_no_law_of_runs_is_named():
    with pytest.raises(ValueError, match=r"^runs must be .* got 8; give FixedRuns\(8\) for so many every time$"):
        tuned_epsilon(8, [2.0, 3.0], [0.1, 0.2], delta=1e-5)
    assert tuned_epsilon(FixedRuns(8), [2.0, 3.0], [0.1, 0.2], delta=1e-5) > 0
    with pytest.raises(ValueError, match=r"^model must be a fitted ClientModel, got 8$"):
        coverage(8)


FRAMES = {
    "pandas": lambda m: (
        m.Series([1.0, None], dtype="Float64"),
        m.Series(["1", "2"]),
        m.Series(m.to_datetime(["2020", "2021"])),
    ),
    "polars": lambda m: (m.Series([1.0, None]), m.Series(["1", "2"]), m.Series([True, False])),
    "pyarrow": lambda m: (m.array([1.0, None]), m.array(["1", "2"]), m.array([True, False])),
}


@pytest.mark.parametrize("package", FRAMES)
def test_columns_of_data_frames(package):
    module = pytest.importorskip(package, reason=f"needs {package}, which the toolkit does not")
    for column in FRAMES[package](module):
        with pytest.raises(ValueError, match=r"^x"):
            number("x", column)
    column = {"pandas": lambda: module.Series([1, 2]), "polars": lambda: module.Series([1, 2])}.get(
        package, lambda: module.array([1, 2])
    )()
    assert number("x", column).tolist() == [1.0, 2.0]


def test_pandas_labels():
    pandas = pytest.importorskip("pandas", reason="needs pandas, which the toolkit does not")
    frame = pandas.DataFrame({"y": Y, "v": V}, index=list("dacb"))
    expected = GaussianMeans("moments").fit(Y, V).posterior_mean_
    assert (GaussianMeans("moments").fit(frame.y, frame.v).posterior_mean_ == expected).all()
    with pytest.raises(ValueError, match="estimates and variances have different labels"):
        GaussianMeans("moments").fit(frame.y, frame.v.sort_index())


def test_a_pool_of_examples_is_read_strictly_and_keeps_its_type():
    images = np.arange(8, dtype=np.uint8).reshape(4, 2)
    assert Examples(images, [0, 1, 0, 1], classes=2).x.dtype == np.uint8
    for bad in (np.ma.masked_less(images, 1), images.astype(str), images + 0j, np.zeros((4, 2), "M8[D]")):
        with pytest.raises(ValueError, match=r"x (is masked|must)"):
            Examples(bad, [0, 1, 0, 1], classes=2)
    for bad in (np.ma.masked_less([0.0, 1.0, 0.0, 1.0], 1), ["0", "1", "0", "1"]):
        with pytest.raises(ValueError, match=r"y(\[0\])? (is masked|must)"):
            Examples(images, bad)
    with pytest.raises(ValueError, match="test must hold True or False only"):
        Examples(images, [0, 1, 0, 1], classes=2, test=[0, 0, 1, 2])
    with pytest.raises(ValueError, match="x and y have different labels"):
        Examples(Column(images, [1, 2, 3, 4]), Column([0, 1, 0, 1], [4, 3, 2, 1]), classes=2)
