"""A private protocol from which the variance of Bernoulli clients' prior can be learnt (not in the paper).

Every client sends one two-point report (7) with the whole budget: half of them of their share of ones, half of the share
of their pairs of samples that are both ones, whose mean given p is p^2. The alternative, two reports per client of half the
budget each, is judged beside it.

Belongs here: claims on these protocols. Does not belong here: the paper's own private estimates (bernoulli_private.py).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from estimators.closed_forms import bernoulli
from theory.engine import simulation
from theory.engine.algebra import nonnegative, simplest
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.bernoulli_private import chance_of_high, reports
from theory.papers.generative.beta_binomial import N2, PRIOR, RISE, between, centre, counts, draw_clients, prior_moment

M1 = Variable("m1", "size", "clients who report their share of ones", low=2)
M2 = Variable("m2", "size", "clients who report their share of pairs that are both ones")
GROUPS = (*PRIOR, N2, RISE, M1, M2)
POINTS = ({"alpha": "1/20", "beta": "1/20", "n": 2, "E0": 99, "m1": 5, "m2": 5},)


def _report_law(alpha: Any, beta: Any, n: Any, E0: Any, pairs: bool) -> dict[Fraction, Fraction]:
    """Law of one client's report, over its enumerated count."""
    t, n = fraction(1 + E0), int(n)
    high = Fraction(0)
    for z, q in enumerate(counts(alpha, beta, n)):
        x = Fraction(z * (z - 1), n * (n - 1)) if pairs else Fraction(z, n)
        high += q * (1 + x * (t - 1)) / (t + 1)
    return {t / (t - 1): high, -1 / (t - 1): 1 - high}


def _outcomes(alpha: Any, beta: Any, n: Any, E0: Any, m1: Any, m2: Any) -> Any:
    """Every outcome up to order: probability, the reports of shares, the reports of pairs."""
    groups = []
    for clients, kind in ((int(m1), False), (int(m2), True)):
        (high, p), (low, q) = _report_law(alpha, beta, n, E0, kind).items()
        groups.append([
            (comb(clients, k) * p**k * q ** (clients - k), [high] * k + [low] * (clients - k)) for k in range(clients + 1)
        ])  # fmt: skip
    for (a, means), (b, pairs) in product(*groups):
        yield a * b, means, pairs


def _estimate(means: list[Fraction], pairs: list[Fraction]) -> Fraction:
    """The protocol's estimate, with the mean product of two different reports written out."""
    products = [x * y for x, y in combinations(means, 2)]
    return sum(pairs, Fraction(0)) / len(pairs) - sum(products, Fraction(0)) / len(products)


def _draw_estimates(
    gen: np.random.Generator, reps: int, alpha: float, beta: float, n: int, E0: float, m1: int, m2: int
) -> tuple[np.ndarray, np.ndarray]:
    """The protocol's estimates of mean and variance."""
    z = draw_clients(gen, reps, alpha, beta, n, m1 + m2)[1]
    eps = float(np.log1p(E0))
    means = bernoulli.randomize(z[:, :m1] / n, eps=eps, rng=gen)
    pairs = bernoulli.randomize(z[:, m1:] * (z[:, m1:] - 1) / (n * (n - 1)), eps=eps, rng=gen)
    mean = means.mean(axis=1)
    return mean, pairs.mean(axis=1) - mean**2 + means.var(axis=1, ddof=1) / m1


# --- unbiased ----------------------------------------------------------------------------------------------------------


def _mean_derive(alpha: Any, beta: Any) -> Derivation:
    d = Derivation()
    d.say("""A report has the mean of what is reported (generative:qpriv): p for a share of ones; for the share of pairs, of
        which each is both ones with probability p^2, it is p^2.""")  # fmt: skip
    mu = d.say("Reports of different clients are independent, so the mean product of two is the square of",
               prior_moment(alpha, beta, 1))  # fmt: skip
    second = d.say("and the mean report of the pairs is", prior_moment(alpha, beta, 2))
    return d.conclude("Means of the two estimates:", (mu, simplest(second - mu**2)))


def _mean_oracle(alpha: Any, beta: Any, n: Any, E0: Any, m1: Any, m2: Any) -> tuple[Any, Any]:
    first = second = Fraction(0)
    for weight, means, pairs in _outcomes(alpha, beta, n, E0, m1, m2):
        first += weight * sum(means, Fraction(0)) / len(means)
        second += weight * _estimate(means, pairs)
    return rational(first), rational(second)


register(
    Claim(
        id="generative:thm4:protocol",
        title="A private protocol that learns the prior's mean and variance",
        place="Section 2.2, private estimates (not in the paper)",
        statement="""m1 clients send q(z/n), m2 others q(z(z-1)/(n(n-1))), one report each with the whole budget. The mean of
            the first reports is unbiased for mu; the mean of the second minus the mean product of two different first
            reports is unbiased for sigma^2, for any prior on [0, 1], any n >= 2 (also unequal), and any m1 >= 2, m2 >=
            1.""",
        latex=r"""\widehat\sigma^2=\frac{1}{m_2}\sum_{l}q\Big(\frac{z_l(z_l-1)}{n(n-1)}\Big)-\frac{1}{m_1(m_1-1)}%
            \sum_{i\neq j}q(\overline X_i)q(\overline X_j)""",
        kind="identity",
        variables=GROUPS,
        examples=POINTS,
        printed=lambda alpha, beta: (centre(alpha, beta), between(alpha, beta)),
        derive=_mean_derive,
        oracle=_mean_oracle,
        computed=lambda alpha, beta: (alpha / (alpha + beta), float(bernoulli.prior_variance(alpha, beta))),
        simulate=lambda alpha, beta, n, E0, m1, m2: simulation.sample_means(
            lambda gen, reps: np.stack(_draw_estimates(gen, reps, alpha, beta, n, E0, m1, m2), axis=1), count=2
        ),
        entries=("mean of mu_hat", "mean of sigma_hat^2"),
        ours=True,
        assumes={"law": "bernoulli"},
        unit="dimensionless",
        related=("generative:qpriv", "generative:bern:moments:unbiased", "generative:thm4:identifiable"),
        remark="estimators.closed_forms.bernoulli.private_reports and moments_from_reports.",
    )
)


# --- private -----------------------------------------------------------------------------------------------------------


def _ldp_derive(n: Any, E0: Any) -> Derivation:
    d = Derivation()
    d.say("""Which kind of report a client sends does not depend on its data, and it sends one. Both kinds report a number in
        [0, 1], which is 0 when all n samples are 0 and 1 when all are 1.""")  # fmt: skip
    ratios = []
    for one, another in ((0, 1), (1, 0)):
        for k in (0, 1):
            ratios.append(simplest(reports(sp.Integer(one), E0)[k][1] / reports(sp.Integer(another), E0)[k][1]))
    d.say("Ratios of probabilities for these extreme data, over both outputs:", tuple(ratios))
    largest = next(r for r in ratios if all(nonnegative(r - other) is True for other in ratios))
    return d.conclude("Largest ratio, for either kind:", (largest, largest))


def _ldp_oracle(n: Any, E0: Any) -> tuple[Any, Any]:
    """All pairs of data sets of one client (by their counts), both outputs."""
    t, n = fraction(1 + E0), int(n)
    found = []
    for inputs in ([Fraction(z, n) for z in range(n + 1)], [Fraction(z * (z - 1), n * (n - 1)) for z in range(n + 1)]):
        laws = [(1 + x * (t - 1)) / (t + 1) for x in inputs]
        found.append(rational(max(max(a / b, (1 - a) / (1 - b)) for a in laws for b in laws)))
    return found[0], found[1]


def _ldp_simulate(n: int, E0: float) -> simulation.Simulation:
    """Both kinds of report from all ones and from all zeros: probabilities over that of a high report of zeros."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        columns = []
        for z in (n, 0):
            x = np.stack([np.full(reps, z / n), np.full(reps, z * (z - 1) / (n * (n - 1)))], axis=1)
            columns.append((bernoulli.randomize(x, eps=float(np.log1p(E0)), rng=gen) > 0) * (2 + E0))
        return np.column_stack([columns[0], columns[1] * (1 + E0)])

    return simulation.sample_means(draw, draws=4, of=[0, 1, 0, 1], labels=["ones", "pairs", "ones, from 0", "pairs, from 0"])


register(
    Claim(
        id="generative:thm4:protocol:ldp",
        title="The protocol is exactly eps0-LDP",
        place="Section 2.2, private estimates (not in the paper)",
        statement="For either kind of report the largest ratio of probabilities over all data of one client is e^eps0.",
        latex=r"\max_{D,D',y}\frac{\Pr[y\mid D]}{\Pr[y\mid D']}=e^{\epsilon_0}",
        kind="probability",
        variables=(N2, RISE),
        examples=({"n": 3, "E0": 2},),
        printed=lambda E0: (1 + E0, 1 + E0),
        derive=_ldp_derive,
        oracle=_ldp_oracle,
        not_computed=Exempt(kind="few"),
        simulate=_ldp_simulate,
        entries=("report of the share of ones", "report of the share of pairs"),
        ours=True,
        unit="e^eps",
        related=("generative:qpriv",),
        assumes={"adjacency": "replace", "noise": "fresh"},
        remark="Nothing is composed, because no client sends two reports.",
    )
)


# --- variance ----------------------------------------------------------------------------------------------------------


def _report_variance(x: Any, E0: Any) -> Any:
    two = reports(x, E0)
    return sum(v**2 * q for v, q in two) - sum(v * q for v, q in two) ** 2


def _variance_derive(alpha: Any, beta: Any, E0: Any, m1: Any, m2: Any) -> Derivation:
    d = Derivation()
    mu, second = prior_moment(alpha, beta, 1), prior_moment(alpha, beta, 2)
    d.say("""A two-point report's law depends on its mean only, so its variance over data and randomiser is that of a report
        of the mean.""")  # fmt: skip
    x = sp.Symbol("x")
    law = d.say("A report of x has variance", sp.expand(simplest(_report_variance(x, E0))))
    v1, v2 = (law.subs(x, at) for at in (mu, second))
    d.say("at the means of both kinds, call them v1, v2:", (mu, second))
    d.say("""With r_i = mu + u_i the mean product of two first reports is mu^2 + 2 mu mean(u) + mean of u_i u_j over pairs;
        the last two are uncorrelated, with variances 4 mu^2 v1/m1 and 2 v1^2/(m1 (m1-1)).""")  # fmt: skip
    total = v2 / m2 + 4 * mu**2 * v1 / m1 + 2 * v1**2 / (m1 * (m1 - 1))
    return d.conclude("The groups are independent:", total)


def _variance_oracle(alpha: Any, beta: Any, n: Any, E0: Any, m1: Any, m2: Any) -> Any:
    first = second = Fraction(0)
    for weight, means, pairs in _outcomes(alpha, beta, n, E0, m1, m2):
        value = _estimate(means, pairs)
        first += weight * value
        second += weight * value**2
    return rational(second - first**2)


def _variance_printed(alpha: Any, beta: Any, E0: Any, m1: Any, m2: Any) -> Any:
    mu = centre(alpha, beta)
    second = mu * (alpha + 1) / (alpha + beta + 1)
    noise = (1 + E0) / E0**2
    v1, v2 = noise + mu * (1 - mu), noise + second * (1 - second)
    return v2 / m2 + 4 * mu**2 * v1 / m1 + 2 * v1**2 / (m1 * (m1 - 1))


def _variance_simulate(alpha: float, beta: float, n: int, E0: float, m1: int, m2: int) -> simulation.Simulation:
    """Given the clients' probabilities, their data and reports are enumerated."""
    truth, low, high = float(bernoulli.prior_variance(alpha, beta)), -1 / E0, 1 + 1 / E0
    shares = [z / n for z in range(n + 1)]
    pairs = [z * (z - 1) / (n * (n - 1)) for z in range(n + 1)]

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p = gen.beta(alpha, beta, (reps, m1 + m2)).T
        data = [comb(n, z) * p**z * (1 - p) ** (n - z) for z in range(n + 1)]
        of_shares, of_pairs = (
            simulation.count_law(sum(q * chance_of_high(x, E0) for q, x in zip(data, kind, strict=True))[some])
            for kind, some in ((shares, slice(m1)), (pairs, slice(m1, None)))
        )
        square = 0.0
        for (i, a), (j, b) in product(enumerate(of_shares), enumerate(of_pairs)):
            reports = np.repeat([high, low], [i, m1 - i])
            estimate = (j * high + (m2 - j) * low) / m2 - reports.mean() ** 2 + reports.var(ddof=1) / m1
            square = square + (estimate - truth) ** 2 * a * b
        return square[:, None]

    return simulation.sample_means(draw, draws=m1 + m2)


register(
    Claim(
        id="generative:thm4:protocol:variance",
        title="Variance of the private estimate of the prior's variance",
        place="Section 2.2, private estimates (not in the paper)",
        statement="""With v(x) = e^eps0/(e^eps0-1)^2 + x(1-x), the variance of a report of mean x, the protocol's estimate of
            sigma^2 has exactly this variance. It does not depend on n.""",
        latex=r"\frac{v(\mathbb{E}[p^2])}{m_2}+\frac{4\mu^2v(\mu)}{m_1}+\frac{2v(\mu)^2}{m_1(m_1-1)}",
        kind="identity",
        variables=GROUPS,
        examples=POINTS,
        printed=_variance_printed,
        derive=_variance_derive,
        oracle=_variance_oracle,
        computed=lambda alpha, beta, E0, m1, m2: float(bernoulli.private_variance(alpha, beta, m1, m2, eps=np.log1p(E0))),
        simulate=_variance_simulate,
        ours=True,
        assumes={"law": "bernoulli"},
        unit="probability to the fourth power",
        related=("generative:thm4:protocol", "generative:qpriv:variance"),
        remark="""Of order 1/(eps0^2 m) for small eps0 and m eps0^2 large; two reports per client of half the budget each
            need 1/(eps0^4 m) (generative:thm4:protocol:two-reports).""",
    )
)


# --- the alternative: two reports per client ---------------------------------------------------------------------------

HALF = Variable("E_half", "positive", "e^(eps0/2) - 1, for each of a client's two reports")


def _two_derive(alpha: Any, beta: Any, E_half: Any) -> Derivation:
    d = Derivation()
    c = simplest(_report_variance(sp.Integer(0), E_half))
    d.say("""Two different samples x, y of one client are reported independently. Given them the product has mean x y, and
        averaged over them p^2.""")  # fmt: skip
    mean = d.say("Mean of the product of the two reports:", prior_moment(alpha, beta, 2))
    d.say("A report of a sample x in {0, 1} has mean square c + x, c the variance:", c)
    square = c**2 + 2 * c * prior_moment(alpha, beta, 1) + prior_moment(alpha, beta, 2)
    ends = [simplest(reports(sp.Integer(1), E_half)[k][1] / reports(sp.Integer(0), E_half)[k][1]) for k in (0, 1)]
    largest = max(ends, key=lambda r: nonnegative(r - 1 / r) is True)
    d.say("Both samples belong to the client, so the ratios of the two reports multiply; largest for one report:", largest)
    return d.conclude("Mean, variance, and the largest ratio for both:",
                      (mean, simplest(square - mean**2), largest**2))  # fmt: skip


def _two_oracle(alpha: Any, beta: Any, E_half: Any) -> tuple[Any, Any, Any]:
    """Two samples, two reports: all sixteen outcomes; all pairs of data for the ratio."""
    t = fraction(1 + E_half)
    law = counts(alpha, beta, 2)
    data = {(0, 0): law[0], (0, 1): law[1] / 2, (1, 0): law[1] / 2, (1, 1): law[2]}
    value = {0: -1 / (t - 1), 1: t / (t - 1)}

    def chance(output: int, x: int) -> Fraction:
        return (t if output == x else 1) / (t + 1)

    mean = square = Fraction(0)
    for (x, y), q in data.items():
        for a, b in product((0, 1), repeat=2):
            weight, found = q * chance(a, x) * chance(b, y), value[a] * value[b]
            mean += weight * found
            square += weight * found**2
    ratio = max(
        chance(a, x) * chance(b, y) / (chance(a, u) * chance(b, v)) for a, b, x, y, u, v in product((0, 1), repeat=6)
    )
    return rational(mean), rational(square - mean**2), rational(ratio)


def _two_simulate(alpha: float, beta: float, E_half: float) -> simulation.Simulation:
    eps = float(np.log1p(E_half))
    centre = (alpha / (alpha + beta)) ** 2  # any number near the mean will do

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        p = gen.beta(alpha, beta, (reps, 1))
        samples = (gen.random((reps, 2)) < p).astype(float)
        found = bernoulli.randomize(samples, eps=eps, rng=gen).prod(axis=1)
        return np.stack([found, (found - centre) ** 2], axis=1)

    return simulation.sample_means(
        draw,
        labels=("mean of the product", "spread of the product"),
        of=[0, lambda v: v[1] + (v[0] - centre) ** 2],
    )


def _two_computed(alpha: float, beta: float, E_half: float) -> tuple[float, float, float]:
    s = alpha + beta
    mu, c = alpha / s, float(bernoulli.report_variance(0.0, eps=np.log1p(E_half)))
    second, rest = mu * (alpha + 1) / (s + 1), beta / s * (s + alpha + 1) / (s + 1)  # E[p^2] and 1 - E[p^2]
    return second, c**2 + 2 * c * mu + second * rest, (1 + E_half) ** 2


register(
    Claim(
        id="generative:thm4:protocol:two-reports",
        title="Two reports per client of half the budget each",
        place="Section 2.2, private estimates (not in the paper)",
        statement="""A client that reports two different samples with budget eps0/2 each is eps0-LDP in all (exactly), and
            the product of its reports is unbiased for E[p^2]. With c = e^(eps0/2)/(e^(eps0/2)-1)^2 the product's
            variance is c^2 + 2 c mu + E[p^2] - E[p^2]^2.""",
        latex=r"\mathbb{E}[q_1q_2]=\mathbb{E}[p^2],\quad c^2+2c\mu+\mathbb{E}[p^2](1-\mathbb{E}[p^2]),\quad e^{\epsilon_0}",
        kind="probability",
        variables=(*PRIOR, HALF),
        examples=({"alpha": 2, "beta": 1, "E_half": 9},),
        printed=lambda alpha, beta, E_half: (
            alpha * (alpha + 1) / ((alpha + beta) * (alpha + beta + 1)),
            ((c := (1 + E_half) / E_half**2) ** 2 + 2 * c * alpha / (alpha + beta))
            + (second := alpha * (alpha + 1) / ((alpha + beta) * (alpha + beta + 1))) * (1 - second),
            (1 + E_half) ** 2,
        ),
        derive=_two_derive,
        oracle=_two_oracle,
        computed=_two_computed,
        simulate=_two_simulate,
        entries=("mean of the product", "variance of the product", "largest ratio of probabilities"),
        ours=True,
        unit="dimensionless",
        related=("generative:qpriv",),
        assumes={"adjacency": "replace", "noise": "fresh"},
        remark="Better than splitting the clients only for large budgets: c^2 grows like 16/eps0^4 for small eps0.",
    )
)


def _compare_derive(E_half: Any) -> Derivation:
    d = Derivation()
    whole = simplest(_report_variance(sp.Integer(0), (1 + E_half) ** 2 - 1))
    half = simplest(_report_variance(sp.Integer(0), E_half))
    d.say("""Privacy noise in an estimate of E[p^2]: twice the variance of a report with the whole budget, as half of the
        clients send it; or the product of two variances with half the budget:""", (2 * whole, half**2))  # fmt: skip
    return d.conclude("Ratio of the latter to the former:", simplest(half**2 / (2 * whole)))


def _compare_oracle(E_half: Any) -> Any:
    t = fraction(1 + E_half)
    spread = {}
    for name, e in (("half", t), ("whole", t * t)):
        high = Fraction(1) / (e + 1)
        spread[name] = ((e + 1) / (e - 1)) ** 2 * high * (1 - high)
    return rational(spread["half"] ** 2 / (2 * spread["whole"]))


def _compare_computed(E_half: float) -> float:
    half, whole = (float(bernoulli.report_variance(0.0, eps=k * np.log1p(E_half))) for k in (1, 2))
    return half**2 / (2 * whole)


register(
    Claim(
        id="generative:thm4:protocol:split",
        title="Splitting the clients or splitting the budget",
        place="Section 2.2, private estimates (not in the paper)",
        statement="""For a prior concentrated at 0, where only privacy noise is left, two reports of half the budget per
            client have this multiple of the variance of one report of the whole budget by half of the clients.""",
        latex=r"\frac{(e^{\epsilon_0/2}+1)^2}{2(e^{\epsilon_0/2}-1)^2}",
        kind="identity",
        variables=(HALF,),
        examples=({"E_half": 1}, {"E_half": "1/10"}),
        printed=lambda E_half: (2 + E_half) ** 2 / (2 * E_half**2),
        derive=_compare_derive,
        oracle=_compare_oracle,
        computed=_compare_computed,
        not_simulated=Exempt(kind="part", of=("generative:thm4:protocol:two-reports",)),
        ours=True,
        unit="dimensionless",
        related=("generative:thm4:protocol:variance", "generative:thm4:protocol:two-reports"),
        remark="""Above 1, so the protocol with one report per client is better, as long as e^(eps0/2) < 3 + 2 sqrt(2), that
            is eps0 < 3.52; beyond that the privacy noise is small either way.""",
    )
)

__all__ = ["GROUPS"]
