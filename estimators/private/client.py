"""What a client runs on its raw rows; the report that comes out is all that leaves it.

The steps are: clip to bounds fixed in advance (never read off the data), reduce to whole numbers by unbiased rounding,
add noise.  Rounding decides only which whole number is protected, so that rounding errors of floats cost no privacy;
sums and noise are integers (``exact_noise``), unless mechanism="gaussian" is asked for.

Clients who keep to the same settings can report at once (``reports``), with noise drawn for all of them together; as
nobody's rows are in two samples, a batch costs each what one report costs.

Belongs here: clients with a mean or a rate.  Clients with a regression are in ``regression``, what the server makes of
reports in ``server``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from estimators.accounting.budget import Budget, Guarantee, budget_numbers, in_parallel
from estimators.numerics.arrays import ArrayLike, Floats
from estimators.numerics.limits import quiet
from estimators.numerics.validation import (
    choice,
    count,
    finite,
    instance,
    nonnegative,
    paired,
    positive,
    probability,
    single,
)
from estimators.private.at_home import AtHome, AtHomeRate
from estimators.private.exact_noise import check_generator
from estimators.private.finite_output import FiniteOutput
from estimators.private.noise import (
    MECHANISMS,
    SMALLEST_EPS,
    Noisy,
    add_noise,
    choose_mechanism,
    flip_probability,
    quantised_integers,
    wrong_answers,
)
from estimators.private.prior import BetaPrior, Prior
from estimators.private.raw_rows import exact_sums, mean_of, read_answers, read_names, read_rows, read_samples
from estimators.private.reports import MeanReport, RateReport, low_high
from estimators.private.server import report_variance

__all__ = ["MeanClient", "RateClient", "a_priori_bounds"]

MAX_BITS = 20
DEFAULT_BITS = 12  # of the levels to which values are rounded: what that adds is far below any noise
MOST_TRIALS = 2.0**50
BOUNDED = ("two-point", "finite-output")  # mechanisms for one number between bounds


def a_priori_bounds(*, centre: float, radius: float, tau2: float, sigma2: float, n: int, m: int) -> tuple[float, float]:
    """Bounds (low, high) that clip none of m clients' means with probability at least 1 - 1/(m n), without their data.

    centre +- b with the corrected b of Theorem 2, radius + sqrt(2 (tau2 + sigma2 / n) log(m^2 n)) (the printed one is
    too small).  For bounds on rows give n = 1 and for m the number of all rows.  Claim: generative:thm2:event:range.

    Parameters
    ----------
    centre, radius : the prior's mean lies in centre +- radius, from general knowledge.
    tau2, sigma2 : upper bounds on the variance between clients and of one row; n : smallest number of rows of a client.
    m : whole number >= 1 of clients.

    >>> [round(float(end), 3) for end in a_priori_bounds(centre=10.0, radius=1.0, tau2=0.01, sigma2=0.25, n=10, m=100)]
    [8.102, 11.898]
    """
    from estimators.closed_forms.quantization import message_range

    tau2, sigma2, radius = (
        single(nonnegative, name, x) for name, x in (("tau2", tau2), ("sigma2", sigma2), ("radius", radius))
    )
    half = float(message_range(m, n, tau2, sigma2, radius))
    middle = single(finite, "centre", centre)
    return low_high("bounds", (middle - half, middle + half))


class OwnNoise:
    """What clients share that add noise to whole numbers of theirs: the settings, and the noise."""

    eps: float
    delta: float
    adjacency: Literal["row", "client"]
    mechanism: str

    def randomise(
        self,
        totals: list[list[int]],
        sensitivities: list[list[int]],
        generator: np.random.Generator | None,
        shares: Sequence[int | Fraction] = (1,),
    ) -> Noisy:
        """Return numbers with noise, its variances, and guarantees; arguments as of ``noise.add_noise``."""
        if self.mechanism == "two-point":
            return two_point(totals[0], self.eps, generator)
        return add_noise(
            totals,
            sensitivities=sensitivities,
            eps=self.eps,
            delta=self.delta,
            mechanism=self.mechanism,
            adjacency=self.adjacency,
            trusted="client",
            generator=generator,
            shares=shares,
        )


class MeanClient(OwnNoise):
    """Client side of private Gaussian means: rows in, a `MeanReport` out.

    Parameters
    ----------
    bounds : pair (low, high) fixed without looking at the data (see `a_priori_bounds`), in the units of the rows.  With
        adjacency="row" every row is clipped to them, with "client" the client's mean is.
    eps : number > 0, or inf for a quantised report without noise; delta : number in [0, 1).
    adjacency : "row" protects one row of the client, whose own computer is trusted with all of them (n public);
        "client" protects all rows together: local differential privacy (n public).
    mechanism : "discrete-laplace" (purely eps-private, whatever delta) or "discrete-gaussian" (delta > 0); by default the
        one with the smaller noise variance, which for single numbers mostly is Laplace.  Or "staircase" (purely private, the
        least noise that can be added to a sum); "gaussian" (real-valued; exact accounting of several reports, but open to
        attacks on the last bits of floats, Mironov 2012); with adjacency="client" "finite-output" (purely private, least
        noise on a bounded mean, see ``FiniteOutput``) or "two-point" (one bit on the wire; generative:qpriv).  "best" is the
        one of all these but "gaussian" with the least noise.
    bits : whole number in 1..20; rows or means are rounded at random to 2^bits levels, without bias.
    variance_share : number in [0, 1), the share of the budget for the variance among the client's rows (of eps for
        Laplace noise, else of the squared ratio of sensitivity to noise); with 0 it is not reported.
    variance_bound : number > 0, only with adjacency="client" and variance_share > 0: the reported variance is clipped
        to [0, variance_bound].
    name : str, the client's public name.
    budget : accounting.Budget that every report is taken from, or None: one of eps and delta, which is spent by one
        report, so that a second call raises instead of doubling the cost.

    Raises
    ------
    ValueError
        Naming the argument that is out of its domain.

    >>> import numpy as np
    >>> client = MeanClient(bounds=(0.0, 10.0), eps=1.0, delta=1e-5, name="ward 7")
    >>> report = client.report(np.linspace(2.0, 4.0, 200), np.random.default_rng(1))
    >>> round(report.estimate, 2), round(report.noise_variance, 4), report.guarantee.adjacency
    (2.98, 0.005, 'row')
    """

    def __init__(
        self,
        *,
        bounds: tuple[float, float],
        eps: float,
        delta: float = 0.0,
        adjacency: Literal["row", "client"] = "row",
        mechanism: str | None = None,
        bits: int = DEFAULT_BITS,
        variance_share: float = 0.0,
        variance_bound: float | None = None,
        name: str = "",
        budget: Budget | None = None,
    ) -> None:
        self.bounds = low_high("bounds", bounds)
        self.eps, self.delta = budget_numbers(eps, delta)
        self.adjacency = choice("adjacency", adjacency, ("row", "client"))
        self.variance_share = single(probability, "variance_share", variance_share)
        if self.variance_share == 1 or (self.variance_share > 0 and mechanism in BOUNDED):
            raise ValueError("variance_share must be below 1, and 0 for mechanism='two-point' or 'finite-output'")
        bounded = BOUNDED if adjacency == "client" and self.variance_share == 0 else ()
        self.mechanism = choose_mechanism(mechanism, self.eps, self.delta, (*MECHANISMS, *bounded))
        if 0 < self.variance_share * self.eps < SMALLEST_EPS:
            raise ValueError(
                f"variance_share must be 0, or leave an eps of {SMALLEST_EPS:g} for the variance; raise it or eps"
            )
        self.law = finite_law(self.mechanism, self.bounds, self.eps)
        if mechanism == "two-point":
            flip_probability(self.eps)
            bits = 1
        self.bits = int(single(count, "bits", bits))
        if self.bits > MAX_BITS:
            raise ValueError(f"bits must be at most {MAX_BITS}, got {self.bits}")
        needed = self.variance_share > 0 and adjacency == "client"
        if needed != (variance_bound is not None):
            raise ValueError("variance_bound must be given exactly if adjacency='client' and variance_share > 0")
        self.variance_bound = None if variance_bound is None else single(positive, "variance_bound", variance_bound)
        self.name = name
        self.budget = own_budget(budget, self.eps, self.delta, adjacency)

    @paired
    def report(self, rows: ArrayLike, generator: np.random.Generator | None = None) -> MeanReport:
        """Return the client's report, if its budget still allows it.

        Parameters
        ----------
        rows : array (n,) of finite numbers, n >= 1.
        generator : numpy.random.Generator, or None for fresh entropy of the operating system.  Whoever knows
            a generator's seed can subtract the noise, so a report made with one says "simulated, no guarantee".

        Raises
        ------
        ValueError
            For rows that are empty or not finite, and when the budget is exceeded.
        """
        return self.answer([read_rows(rows)], [self.name], generator)[0]

    @paired
    def reports(
        self, samples: Sequence[ArrayLike], names: Sequence[str], generator: np.random.Generator | None = None
    ) -> list[MeanReport]:
        """Return the reports of many clients who keep to these settings, at once; the budget is charged once for all.

        Parameters
        ----------
        samples : list of m arrays (n_i,) of finite numbers, each of one client, so that nobody's rows are in two of them.
        names : list of m different strings, the clients' public names.
        generator : as for `report`.

        >>> client = MeanClient(bounds=(0.0, 10.0), eps=1.0)
        >>> made = client.reports([[2.0, 4.0], [5.0]], ["a", "b"], np.random.default_rng(0))
        >>> [(report.client, report.n) for report in made]
        [('a', 2), ('b', 1)]
        """
        read = read_samples(samples)
        return self.answer(read, read_names(names, len(read)), generator)

    def answer(self, samples: list[Floats], names: list[str], generator: np.random.Generator | None) -> list[MeanReport]:
        """Return the reports of checked samples; those of one row have no variance, and so a smaller noise."""
        check_generator(generator)
        found: dict[int, MeanReport] = {}
        spent: list[Guarantee] = []
        for two in (False, True):
            places = [i for i, rows in enumerate(samples) if two == (self.variance_share > 0 and len(rows) >= 2)]
            if places:
                mine = [samples[i] for i in places]
                columns, guarantees = self.noisy_columns(mine, two, generator)
                spent += guarantees
                for i, guarantee, numbers in zip(places, guarantees, zip(*columns, strict=True), strict=True):
                    estimate, noise, rounding, *more = numbers
                    n = len(samples[i])
                    found[i] = MeanReport(names[i], n, guarantee, estimate, noise, rounding, self.bounds, *more)
        self.budget.spend(in_parallel(spent))
        return [found[i] for i in range(len(samples))]

    def noisy_columns(
        self, samples: list[Floats], two: bool, generator: np.random.Generator | None
    ) -> tuple[list[list[float]], list[Guarantee]]:
        """Return the numbers of reports, a list of each kind, and the guarantees; `two` with variances."""
        low, high = self.bounds
        levels, m = 2**self.bits - 1, len(samples)
        step = (high - low) / levels
        sizes = np.array([len(rows) for rows in samples])
        if self.adjacency == "row":
            whole = quantised_integers((np.clip(np.concatenate(samples), low, high) - low) / step, levels, generator)
            totals = [exact_sums(whole, sizes)]
            sensitivities, units, rounding = [[levels] * m], [step / sizes], step**2 / (4 * sizes)
            if two:  # n (n - 1) times the sample variance; replacing a row moves it by at most (n - 1) levels^2
                squares = zip(sizes.tolist(), exact_sums(whole**2, sizes), totals[0], strict=True)
                totals.append([n * square - total * total for n, square, total in squares])
                sensitivities.append([(n - 1) * levels**2 for n in sizes.tolist()])
                units.append(step**2 / (sizes * (sizes - 1.0)))
        else:
            means = np.array([mean_of(rows) for rows in samples])
            truth = np.clip(means, low, high)
            if self.law is not None:
                said = self.law.release(truth, generator).tolist()
                columns = [said, [self.law.worst_variance] * m, [0.0] * m]
                return columns, [one_output(self.law, generator)] * m
            position = np.minimum((truth - low) / step, levels)
            totals = [quantised_integers(position, levels, generator).tolist()]
            sensitivities, units, rounding = [[levels] * m], [np.full(m, step)], np.full(m, step**2 / 4)
            if two:
                assert self.variance_bound is not None
                unit = self.variance_bound / levels
                with quiet():
                    sums = np.array([np.sum((rows - mean) ** 2) for rows, mean in zip(samples, means, strict=True)])
                    spread = np.clip(sums / (sizes - 1) / unit, 0.0, levels)
                totals.append(quantised_integers(spread, levels, generator).tolist())
                sensitivities.append([levels] * m)
                units.append(np.full(m, unit))
        part = Fraction(self.variance_share)  # so that the shares add to one without rounding
        shares = [1 - part, part] if two else [1]
        values, variances, guarantees = self.randomise(totals, sensitivities, generator, shares)
        numbers = [unit * np.array(column, float) for unit, column in zip(units, values, strict=True)]
        noise = [unit**2 * np.array(column) for unit, column in zip(units, variances, strict=True)]
        columns = [low + numbers[0], noise[0], rounding, *([numbers[1], noise[1]] if two else [])]
        return [column.tolist() for column in columns], guarantees

    @paired
    def share_clipped(self, rows: ArrayLike) -> float:
        """Share of the rows (adjacency "row") or of the one mean ("client") outside the bounds.

        Raw data: it must stay with the client, to see what bias clipping causes there.
        """
        values = read_rows(rows) if self.adjacency == "row" else np.atleast_1d(mean_of(read_rows(rows)))
        return float(np.mean((values < self.bounds[0]) | (values > self.bounds[1])))

    @paired
    def at_home(self, rows: ArrayLike, prior: Prior, report: MeanReport | None = None) -> AtHome:
        """Posterior law of the client's own mean from its exact rows and the prior that the server broadcast.

        Given tau and mu: weight tau^2 / (tau^2 + sigma2 / n) on the own mean (generative:thm1:estimator), averaged over what
        the prior leaves open; an uncertain sigma2 is moderated by the client's own rows.  No noise is added and nothing is
        spent: the result must stay with the client.

        Parameters
        ----------
        rows : array (n,); prior : `Prior` with sigma2, such as ``PrivateGaussianMeans.prior_``.
        report : the client's own report that went into the prior, whose noisy value the exact rows replace; None if it
            sent none.

        Returns
        -------
        AtHome, with mean, sd and interval(level).

        >>> from estimators.private import Prior
        >>> client = MeanClient(bounds=(0.0, 10.0), eps=1.0)
        >>> client.at_home([1.0, 3.0], Prior.known(mu=4.0, tau2=1.0, sigma2=2.0))
        AtHome(mean=3.0, sd=0.7071067811865476)
        """
        rows = read_rows(rows)
        instance("prior", prior, Prior)
        instance("report", report, MeanReport, none=True)
        within = prior.row_variance(rows)
        assert prior.sigma2 is not None  # or `row_variance` would have refused
        told = None if report is None else (report.estimate, report_variance(report, prior.sigma2))
        return AtHome(prior.at_home(float(mean_of(rows)), within / len(rows), told))


class RateClient(OwnNoise):
    """Client side of private rates: answers 0 or 1 in, a `RateReport` out.

    Parameters
    ----------
    eps : number > 0, or inf; delta : number in [0, 1).
    adjacency : "row" protects one answer, "client" all answers of the client together; n is public in both.
    mechanism : "discrete-laplace", "discrete-gaussian" (by default the one with the smaller variance) or "gaussian" noise
        on the number of ones, or "staircase"; "answers" randomises every answer on its own (adjacency="row"; those who
        answer need not even trust the client); with adjacency="client" "finite-output" releases the rate with the least
        noise that a purely private report can have, "two-point" sends one random bit.  "best": as for `MeanClient`.
    statistic : "ones"; or "pairs" with mechanism="two-point": the share of pairs of answers that are both ones, from
        which the server learns the prior's variance (generative:thm4:protocol).  Which clients report what must not
        depend on their data.
    name, budget : as for `MeanClient`.

    >>> import numpy as np
    >>> report = RateClient(eps=1.0).report([1] * 30 + [0] * 70, np.random.default_rng(2))
    >>> report.value, round(report.noise_variance, 3)
    (30.0, 1.841)
    """

    def __init__(
        self,
        *,
        eps: float,
        delta: float = 0.0,
        adjacency: Literal["row", "client"] = "row",
        mechanism: str | None = None,
        statistic: str = "ones",
        name: str = "",
        budget: Budget | None = None,
    ) -> None:
        self.eps, self.delta = budget_numbers(eps, delta)
        self.adjacency = choice("adjacency", adjacency, ("row", "client"))
        options = (*MECHANISMS, *(("answers",) if adjacency == "row" else BOUNDED))
        self.mechanism = choose_mechanism(mechanism, self.eps, self.delta, options)
        self.statistic = choice("statistic", statistic, ("ones", "pairs") if mechanism == "two-point" else ("ones",))
        if self.mechanism in ("answers", "two-point"):
            flip_probability(self.eps)
        self.law = finite_law(self.mechanism, (0.0, 1.0), self.eps)
        self.name = name
        self.budget = own_budget(budget, self.eps, self.delta, adjacency)

    @paired
    def report(self, answers: ArrayLike, generator: np.random.Generator | None = None) -> RateReport:
        """Return the client's report, if its budget still allows it.

        Parameters
        ----------
        answers : array (n,) of 0 and 1 (or booleans), n >= 1; generator : see ``MeanClient.report``.
        """
        answers = read_answers(answers)
        return self.answer([int(answers.sum())], [len(answers)], [self.name], generator)[0]

    @paired
    def reports(
        self, ones: ArrayLike, trials: ArrayLike, names: Sequence[str], generator: np.random.Generator | None = None
    ) -> list[RateReport]:
        """Return the reports of many clients who keep to these settings, at once; the budget is charged once for all.

        Parameters
        ----------
        ones, trials : arrays (m,) of whole numbers, 0 <= ones <= trials and trials >= 1: answers that are 1, and all, of
            each client; nobody's answers are with two clients.
        names : list of m different strings, the clients' public names; generator : see ``MeanClient.report``.

        >>> client = RateClient(eps=1.0)
        >>> [r.value for r in client.reports([30, 1], [100, 4], ["a", "b"], np.random.default_rng(2))]
        [30.0, 1.0]
        """
        x, n = read_rows(ones, "ones"), read_rows(trials, "trials")
        if x.shape != n.shape:
            raise ValueError(f"ones and trials must be as many, got {len(x)} and {len(n)}")
        wrong = (x != np.rint(x)) | (n != np.rint(n)) | (x < 0) | (x > n) | (n < 1) | (n > MOST_TRIALS)
        if wrong.any():
            raise ValueError(
                f"ones and trials must be whole numbers with 0 <= ones <= trials and trials in 1..2^50; those at position "
                f"{int(np.argmax(wrong))} are not"
            )
        return self.answer(x.astype(int).tolist(), n.astype(int).tolist(), read_names(names, len(x)), generator)

    def answer(
        self, ones: list[int], trials: list[int], names: list[str], generator: np.random.Generator | None
    ) -> list[RateReport]:
        """Return the reports of checked counts."""
        check_generator(generator)
        if self.mechanism == "two-point":
            if self.statistic == "pairs" and min(trials) < 2:
                raise ValueError("answers must be at least two for statistic='pairs'; report 'ones' instead")
            pairs = self.statistic == "pairs"
            parts = [
                x * (x - 1) / (n * (n - 1)) if pairs else x / n for x, n in zip(ones, trials, strict=True)
            ]  # fmt: skip
            bits = quantised_integers(np.array(parts), 1, generator).tolist()
            (values,), (variances,), guarantees = self.randomise([bits], [[1] * len(bits)], generator)
            kind, sizes = self.statistic, [1] * len(trials)
        else:
            kind, sizes = "ones", trials
            values, variances, guarantees = self.noisy_counts(ones, trials, generator)
        self.budget.spend(in_parallel(guarantees))
        return [
            RateReport(name, n, guarantee, kind, size, float(value), variance)
            for name, n, guarantee, size, value, variance in zip(
                names, trials, guarantees, sizes, values, variances, strict=True
            )
        ]

    def noisy_counts(
        self, ones: list[int], trials: list[int], generator: np.random.Generator | None
    ) -> tuple[list[float], list[float], list[Guarantee]]:
        """Return noisy numbers of ones, the variances of their noise, and guarantees."""
        n = np.array(trials, float)
        if self.law is not None:
            said = self.law.release(np.array(ones) / n, generator)
            guarantees = [one_output(self.law, generator)] * len(ones)
            return (n * said).tolist(), (n**2 * self.law.worst_variance).tolist(), guarantees
        if self.mechanism == "answers":
            flip = flip_probability(self.eps)
            wrong = flip[0] / flip[1]
            guarantee = Guarantee(
                self.eps, 0.0, "row", "client", "answers", claims=("generative:qpriv",), simulated=generator is not None
            )
            answers = np.concatenate([np.arange(size) < x for x, size in zip(ones, trials, strict=True)])
            answers = answers ^ wrong_answers(flip, answers.size, generator)
            said = np.array(exact_sums(answers, np.array(trials)))
            variances = n * wrong * (1 - wrong) / (1 - 2 * wrong) ** 2
            return ((said - n * wrong) / (1 - 2 * wrong)).tolist(), variances.tolist(), [guarantee] * len(ones)
        most = [1] * len(ones) if self.adjacency == "row" else trials
        (values,), (variances,), guarantees = self.randomise([ones], [most], generator)
        return values, variances, guarantees

    @paired
    def at_home(self, answers: ArrayLike, prior: BetaPrior) -> AtHomeRate:
        """Posterior of the client's own rate from its exact answers: Beta(alpha + ones, beta + n - ones).

        Nothing is spent; the result must stay with the client.  Claim: generative:bern:posterior.

        Parameters
        ----------
        answers : array (n,) of 0 and 1; prior : `BetaPrior` that the server broadcast, with 0 < mu < 1.

        Returns
        -------
        AtHomeRate, with mean, sd and interval(level).

        >>> from estimators.private import BetaPrior
        >>> RateClient(eps=1.0).at_home([1, 1, 0, 0], BetaPrior(0.25, 0.0375))
        AtHomeRate(mean=0.375, sd=0.1613743060919757)
        """
        answers = read_answers(answers)
        instance("prior", prior, BetaPrior)
        if not 0 < prior.mu < 1 or prior.size == 0:
            raise ValueError(f"prior must have 0 < mu < 1 and sigma2 < mu (1 - mu), got {prior}")
        return AtHomeRate(int(answers.sum()), len(answers), prior)


def two_point(bits: list[int], eps: float, generator: np.random.Generator | None) -> Noisy:
    """Return unbiased reports of bits, their variances given the bits, and guarantees."""
    flip = flip_probability(eps)
    claims = "generative:qpriv", "generative:qpriv:ldp"
    guarantee = Guarantee(eps, 0.0, "client", "client", "two-point", claims=claims, simulated=generator is not None)
    wrong = flip[0] / flip[1]
    said = np.array(bits) ^ wrong_answers(flip, len(bits), generator)
    variance = wrong * (1 - wrong) / (1 - 2 * wrong) ** 2
    return Noisy([((said - wrong) / (1 - 2 * wrong)).tolist()], [[variance] * len(bits)], [guarantee] * len(bits))


@lru_cache(maxsize=1024)
def finite_law(mechanism: str, bounds: tuple[float, float], eps: float) -> FiniteOutput | None:
    """Return what clients of equal bounds and eps agree on, made once; None for other mechanisms and without privacy."""
    return FiniteOutput(bounds=bounds, eps=eps) if mechanism == "finite-output" and np.isfinite(eps) else None


def one_output(law: FiniteOutput, generator: np.random.Generator | None) -> Guarantee:
    """Return the guarantee of one output of a law."""
    return Guarantee(law.eps, 0.0, "client", "client", "finite-output", simulated=generator is not None)


def own_budget(budget: Budget | None, eps: float, delta: float, adjacency: str) -> Budget:
    """Return the budget given, or one that a single report spends."""
    if budget is None:
        return Budget(eps=eps, delta=delta, adjacency=adjacency)
    if not isinstance(budget, Budget):
        raise ValueError(f"budget must be an accounting.Budget or None, got {type(budget).__name__}")
    return budget
