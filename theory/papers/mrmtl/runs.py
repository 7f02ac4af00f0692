"""Appendix F.1: how many runs a private tuning procedure makes, and what a fixed number costs.

Belongs here: Proposition F.1, the truncated negative binomial (TNB), and what Figure 7 says about its shape. Does not
belong here: Theorem F.2 and costs that follow from it (tuning.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import privacy, tuning
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

ONE, ZERO = sp.Integer(1), sp.Integer(0)
DIGITS = 65
ETA = Variable("eta", "real", "shape of the truncated negative binomial, > -1", within=("-19/20", 10), why="floats")
NONZERO = Variable(
    "eta", "positive", "shape of the truncated negative binomial, here > 0", within=("1/20", 10), why="floats"
)
GAMMA = Variable("gamma", "fraction", "success probability of the truncated negative binomial")
H = Variable("h", "size", "number of runs", extreme=False)
RUNS = Variable("h", "choice", "number of runs", choices=(1, 2, 3, 5))
ORDER = Variable("order", "choice", "Renyi order", choices=(2, 3, 4))
BUDGET = Variable("E1", "positive", "e^eps - 1, eps the pure budget of one run", extreme=False)


def mpf(value: Any) -> Any:
    """An exact number as a long float (inside a `workdps` block)."""
    value = sp.sympify(value)
    return mpmath.mpf(int(value.p)) / int(value.q)


def exact_digits(value: Any) -> Any:
    """A long float as a SymPy number."""
    return sp.Float(mpmath.nstr(value, DIGITS), DIGITS)


# --- Proposition F.1 -------------------------------------------------------------------------------------------------


def _fixed_derive(h: int, order: int, E1: Any) -> Derivation:
    d = Derivation()
    e = 1 + E1
    d.say("Let M answer bad or good by randomised response: bad has probability e^eps/(1+e^eps) on D, 1/(1+e^eps) on D'.")
    bad, bad_too = d.say(
        "The best of h runs is bad only if all are; on D and on D':", ((e / (1 + e)) ** h, (1 / (1 + e)) ** h)
    )
    d.say("Good changes by less than bad, so that e^x needs x at least, for pure privacy, log of", sp.factor(bad / bad_too))
    terms = [p**order * q ** (1 - order) for p, q in ((bad, bad_too), (1 - bad, 1 - bad_too))]
    d.say("The Renyi sum has two terms, of which the first gives (49):", tuple(terms))
    return d.conclude("e^(pure cost), and exp((order-1) D):", (sp.factor(bad / bad_too), sum(terms)))


def _fixed_oracle(h: int, order: int, E1: Any) -> tuple[Any, Any]:
    """Count the good runs (binomial) on both data sets; the best run is bad where there is none."""
    e, laws = 1 + E1, []
    for good in (1 / (1 + e), e / (1 + e)):
        law = [sp.binomial(h, k) * good**k * (1 - good) ** (h - k) for k in range(h + 1)]
        laws.append((law[0], sum(law[1:])))
    pure = max(p / q for x, y in (laws, laws[::-1]) for p, q in zip(x, y, strict=True))
    return pure, sum(p * (p / q) ** (order - 1) for p, q in zip(*laws, strict=True))


def _fixed_computed(h: int, order: int, E1: float) -> tuple[float, float]:
    good = 1 / (2 + E1)
    runs = tuning.FixedRuns(h)
    here, there = runs.best_of([1 - good, good]), runs.best_of([good, 1 - good])
    moment = float(np.exp((order - 1) * privacy.renyi_divergence(here, there, order=order)))
    return float(here[0] / there[0]), moment


register(
    Claim(
        id="mrmtl:propF.1",
        title="Cost of a fixed number of tuning runs",
        place="Appendix F.1, Proposition F.1, (49)",
        statement="""For every eps > 0 and order > 1 there is an (eps, 0)-DP algorithm whose best of h runs is not (x, 0)-DP
            for any x < h eps, and has at least the Renyi divergence (49). Judged on randomised response, as e^(pure
            cost) and exp((order-1) D).""",
        latex=r"\hat{\varepsilon}(\alpha)=h\varepsilon-\frac{h\log(1+\exp(-\varepsilon))}{\alpha-1}",
        kind="lower bound",
        variables=(RUNS, ORDER, BUDGET),
        examples=({"h": 3, "order": 4, "E1": 1}, {"h": 5, "order": 2, "E1": "1/2"}),
        printed=lambda h, order, E1: ((1 + E1) ** h, (1 + E1) ** (h * (order - 1)) / (1 + 1 / (1 + E1)) ** h),
        relation=">=",
        derive=_fixed_derive,
        oracle=_fixed_oracle,
        computed=_fixed_computed,
        not_simulated=Exempt(kind="divergence"),
        entries=("e^(pure cost)", "exp((order-1) D)"),
        assumes={"noise": "fresh"},
        tight=Tight(at={"h": 3, "order": 4, "E1": 1}),
        unit="dimensionless",
        remark="""The pure cost is reached exactly, and h eps also suffices (basic composition). (49) keeps one of two
            positive terms; it says nothing (is negative) for orders below 1 + log(1 + e^-eps)/eps, and tends to h eps as
            the order grows. Publishing only the best run then costs as much as publishing all h.""",
    )
)


# --- the truncated negative binomial ----------------------------------------------------------------------------------


def _weights(d: Derivation, eta: Any, gamma: Any, h: Any) -> tuple[Any, Any]:
    """Probability and mean for eta other than 0, from the generating function."""
    d.say("A negative binomial count has probabilities proportional to w_h = (1-gamma)^h eta (eta+1)...(eta+h-1)/h!:")
    w = d.say("that is,", (1 - gamma) ** h * sp.rf(eta, h) / sp.factorial(h))
    d.say("By the binomial series sum_h w_h x^h = (1 - (1-gamma) x)^(-eta), h from 0; leaving out h = 0 takes off 1.")
    total = d.say("All probabilities, h from 1, at x = 1:", gamma ** (-eta) - 1)
    d.say("For -1 < eta < 0 all w_h, h >= 1, and the total are negative, so their ratios are positive all the same.")
    slope = d.say("Derivative by x at 1:", eta * (1 - gamma) * gamma ** (-eta - 1))
    return w / total, slope / total


def _log_weights(d: Derivation, gamma: Any, h: Any) -> tuple[Any, Any]:
    d.say("At eta = 0 the limit of w_h/eta is (1-gamma)^h / h, and sum_h (1-gamma)^h x^h / h = -log(1 - (1-gamma) x).")
    total = d.say("All of it, at x = 1:", sp.log(1 / gamma))
    slope = d.say("Derivative by x at 1:", 1 / gamma - 1)
    return (1 - gamma) ** h / (h * total), slope / total


def _pmf_derive(eta: Any, gamma: Any, h: Any) -> Derivation:
    d = Derivation()
    otherwise, _ = _weights(d, eta, gamma, h)
    if eta.is_positive:
        return d.conclude("Probability of h runs:", otherwise)
    at_zero, _ = _log_weights(d, gamma, h)
    return d.conclude("Probability of h runs:", sp.Piecewise((at_zero, sp.Eq(eta, 0)), (otherwise, True)))


def _mean_derive(eta: Any, gamma: Any) -> Derivation:
    d = Derivation()
    h = sp.Symbol("h", positive=True, integer=True)
    _, otherwise = _weights(d, eta, gamma, h)
    otherwise = d.say("Divide both by gamma^-eta:", eta * (1 - gamma) / (gamma * (1 - gamma**eta)))
    if eta.is_positive:
        return d.conclude("Mean number of runs:", otherwise)
    _, at_zero = _log_weights(d, gamma, h)
    return d.conclude("Mean number of runs:", sp.Piecewise((at_zero, sp.Eq(eta, 0)), (otherwise, True)))


def _summed(eta: Any, gamma: Any, h: Any = None) -> Any:
    """Probability of h (or the mean) by summing the weights from one to the next until nothing is added at 65 digits."""
    with mpmath.workdps(DIGITS + 10):
        e, step = mpf(eta), 1 - mpf(gamma)
        weight, total, moment, wanted, k = step, mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0), 1
        smallest = mpmath.mpf(10) ** -(DIGITS + 5)
        while k * weight > smallest * moment or k < 3:
            total += weight
            moment += k * weight
            if h is not None and k == h:
                wanted = weight
            weight *= step * (k + e) / (k + 1)
            k += 1
        if h is not None and k <= h:
            raise ValueError("the sum ended before h")
        return exact_digits(moment / total if h is None else wanted / total)


def over_runs(
    eta: float, gamma: float, statistic: Callable[[np.random.Generator, np.ndarray], np.ndarray], label: str, **of: Any
) -> simulation.Simulation:
    """Mean of a statistic of the runs, drawn raw: by the logarithmic law, or as negative binomial counts without zeros.

    The mean without zeros is a ratio of means with them, so that every replicate takes the same draws.
    """

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        runs = gen.negative_binomial(eta, gamma, reps) if eta else gen.logseries(1 - gamma, reps)
        some = runs > 0
        return np.stack([some * statistic(gen, runs), some], axis=1).astype(float)

    ratio = simulation.Ratio(label, [1.0, 0.0], [0.0, 1.0], 1 - gamma**eta if eta else 1.0, **of)
    return simulation.Simulation(simulation.sample_means(draw, count=2).experiment, (ratio,))


def _pmf_simulate(eta: float, gamma: float, h: int) -> simulation.Simulation:
    return over_runs(eta, gamma, lambda gen, runs: runs == h, "share with h runs")


def _mean_simulate(eta: float, gamma: float) -> simulation.Simulation:
    return over_runs(eta, gamma, lambda gen, runs: runs, "runs")


def _pmf_printed(eta: Any, gamma: Any, h: Any) -> Any:
    if eta == 0:
        return (1 - gamma) ** h / (h * sp.log(1 / gamma))
    otherwise = (1 - gamma) ** h / (gamma ** (-eta) - 1) * sp.rf(eta, h) / sp.factorial(h)
    if eta.is_positive or eta.is_number:
        return otherwise
    return sp.Piecewise(((1 - gamma) ** h / (h * sp.log(1 / gamma)), sp.Eq(eta, 0)), (otherwise, True))


def mean_printed(eta: Any, gamma: Any) -> Any:
    """The mean number of runs as the paper prints it."""
    if eta == 0:
        return (1 / gamma - 1) / sp.log(1 / gamma)
    otherwise = eta * (1 - gamma) / (gamma * (1 - gamma**eta))
    if eta.is_positive or eta.is_number:
        return otherwise
    return sp.Piecewise(((1 / gamma - 1) / sp.log(1 / gamma), sp.Eq(eta, 0)), (otherwise, True))


def _law(eta: float, gamma: float) -> tuning.TruncatedNegativeBinomial:
    return tuning.TruncatedNegativeBinomial(eta=eta, gamma=gamma)


_F1 = "Appendix F.1, after Proposition F.1"
_PMF: dict[str, Any] = {
    "latex": r"""f(h)=\begin{cases}\frac{(1-\gamma)^{h}}{\gamma^{-\eta}-1}\prod_{\ell=0}^{h-1}\left(\frac{\ell+\eta}{\ell+1}%
        \right)&\text{for }\eta\neq 0,\\ \frac{(1-\gamma)^{h}}{h\log(1/\gamma)}&\text{for }\eta=0\end{cases}""",
    "printed": _pmf_printed,
    "derive": _pmf_derive,
    "oracle": _summed,
    "computed": lambda eta, gamma, h: float(_law(eta, gamma).pmf(h)),
    "simulate": _pmf_simulate,
    "remark": """The text gives no range for eta; below -1 the probabilities of h = 1 and 2 have opposite signs, and at eta =
        -1 only h = 1 is left.""",
}
_MEAN: dict[str, Any] = {
    "latex": r"""\mathbf{E}[h]=\begin{cases}\frac{\eta(1-\gamma)}{\gamma(1-\gamma^{\eta})}&\text{for }\eta\neq
        0,\\ \frac{1/\gamma-1}{\log(1/\gamma)}&\text{for }\eta=0\end{cases}""",
    "printed": mean_printed,
    "derive": _mean_derive,
    "oracle": _summed,
    "computed": lambda eta, gamma: _law(eta, gamma).mean,
    "simulate": _mean_simulate,
}

register(
    Claim(
        id="mrmtl:tnb:pmf",
        title="Truncated negative binomial number of runs",
        place=_F1,
        statement="Probability of h = 1, 2, ... runs, for every eta > -1 (eta = 0: logarithmic, eta = 1: geometric).",
        kind="probability",
        variables=(ETA, GAMMA, H),
        examples=(
            {"eta": "1/2", "gamma": "1/4", "h": 2},
            {"eta": 0, "gamma": "1/5", "h": 1},
            {"eta": 1, "gamma": "1/10", "h": 3},
            {"eta": "-1/2", "gamma": "1/4", "h": 2},
        ),
        unit="probability",
        **_PMF,
    )
)
register(
    Claim(
        id="mrmtl:tnb:pmf:positive",
        title="Truncated negative binomial number of runs",
        place=_F1,
        statement="Probability of h = 1, 2, ... runs, for eta > 0, where it is a negative binomial law without its zero.",
        kind="probability",
        variables=(NONZERO, GAMMA, H),
        examples=({"eta": "1/2", "gamma": "1/4", "h": 2}, {"eta": 1, "gamma": "1/10", "h": 3}),
        unit="probability",
        **_PMF,
    )
)
register(
    Claim(
        id="mrmtl:tnb:mean",
        title="Mean of the truncated negative binomial",
        place=_F1,
        statement="Expected number of runs, for every eta > -1.",
        kind="identity",
        variables=(ETA, GAMMA),
        examples=(
            {"eta": "1/2", "gamma": "1/4"},
            {"eta": 0, "gamma": "1/5"},
            {"eta": 1, "gamma": "1/10"},
            {"eta": "-1/2", "gamma": "1/4"},
        ),
        unit="runs",
        related=("mrmtl:tnb:pmf",),
        **_MEAN,
    )
)
register(
    Claim(
        id="mrmtl:tnb:mean:positive",
        title="Mean of the truncated negative binomial",
        place=_F1,
        statement="Expected number of runs, for eta > 0.",
        kind="identity",
        variables=(NONZERO, GAMMA),
        examples=({"eta": "1/2", "gamma": "1/4"}, {"eta": 1, "gamma": "1/10"}),
        unit="runs",
        related=("mrmtl:tnb:pmf",),
        **_MEAN,
    )
)


def _one_derive(eta: Any, gamma: Any) -> Derivation:
    d = Derivation()
    _, mean = _weights(d, eta, gamma, ONE)
    single = d.say("P(h = 1) =", (1 - gamma) * eta / (gamma ** (-eta) - 1))
    d.say("E[h] =", mean)
    return d.conclude("P(h = 1)/E[h], without what both have as a factor:", sp.powsimp(single / mean, force=True))


def _one_oracle(eta: Any, gamma: Any) -> Any:
    return _summed(eta, gamma, 1) / _summed(eta, gamma)


def _one_simulate(eta: float, gamma: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        runs = gen.negative_binomial(eta, gamma, reps) if eta else gen.logseries(1 - gamma, reps)  # no runs count as none
        return np.stack([runs == 1, runs], axis=1).astype(float)

    mean = float(draw(np.random.default_rng(0), 10_000)[:, 1].mean())  # a scale only
    ratio = simulation.Ratio("single runs over runs", [1.0, 0.0], [0.0, 1.0], mean)
    return simulation.Simulation(simulation.sample_means(draw, count=2).experiment, (ratio,))


register(
    Claim(
        id="mrmtl:tnb:one",
        title="Chance of a single run",
        place="Appendix F.2 (concentration around h = 1)",
        statement="""P(h = 1) = E[h] gamma^(1+eta). So the term of (50) that the law of h adds, (1+eta) log(1/gamma), is
            log(E[h]/P(h = 1)): for a given mean, cheaper and more often a single run are the same thing. Judged: the
            ratio.""",
        latex=r"\frac{f(1)}{\mathbf{E}[h]}=\gamma^{1+\eta}",
        kind="identity",
        variables=(ETA, GAMMA),
        examples=({"eta": "1/2", "gamma": "1/4"}, {"eta": 1, "gamma": "1/10"}),
        printed=lambda eta, gamma: gamma ** (1 + eta),
        derive=_one_derive,
        oracle=_one_oracle,
        computed=lambda eta, gamma: float(_law(eta, gamma).pmf(1) / _law(eta, gamma).mean),
        simulate=_one_simulate,
        ours=True,
        unit="dimensionless",
        related=("mrmtl:tnb:pmf", "mrmtl:tnb:mean"),
    )
)  # fmt: skip


# --- Figure 7: the pairs (eta, gamma) ---------------------------------------------------------------------------------

SHAPES = ("-1/2", "0", "1/2", "1", "2")
SHAPE = Variable("eta", "choice", "shape of the truncated negative binomial", choices=tuple(map(sp.Rational, SHAPES)))
MEAN = Variable("mean", "positive", "mean number of runs, > 1", within=("3/2", 100), why="digits")


def gamma_of_mean(eta: Any, mean: Any) -> Any:
    """The gamma with E[h] = mean, in closed form for the shapes of SHAPES."""
    if eta == 0:
        return 1 / (-mean * sp.LambertW(-sp.exp(-1 / mean) / mean, -1))
    if eta == 1:
        return 1 / mean
    if eta == 2:
        return (sp.sqrt(1 + 8 / mean) - 1) / 2
    if eta == sp.Rational(1, 2):
        return ((1 + sp.sqrt(1 + 8 * mean)) / (4 * mean)) ** 2
    return 1 / (2 * mean - 1) ** 2


def _pairs_derive(eta: Any, mean: Any) -> Derivation:
    d = Derivation()
    g = sp.Symbol("gamma", positive=True)
    d.say("E[h] as a function of gamma:", mean_printed(eta, g))
    d.say("It falls from infinity to 1 on (0, 1), so that exactly one gamma gives a mean above 1.")
    if eta == 0:
        d.say(
            "With v = 1/gamma: v - 1 = mean log v, so -(v/mean) e^(-v/mean) = -e^(-1/mean)/mean; v > mean: the lower branch."
        )
    elif eta != 1:
        d.say("In gamma (eta = 2), or in its square root (eta = 1/2, -1/2), that is a linear or a quadratic equation.")
    gamma = d.say("gamma =", gamma_of_mean(eta, mean))
    return d.conclude("gamma, and the chance of a single run, mean gamma^(1+eta):", (gamma, mean * gamma ** (1 + eta)))


def _pairs_oracle(eta: Any, mean: Any) -> tuple[Any, Any]:
    """Newton's method on the mean as a function of log(1/gamma), from below; P(h = 1) from the weights."""
    with mpmath.workdps(DIGITS + 10):
        e, m = mpf(eta), mpf(mean)

        def log_mean(x: Any) -> Any:
            return mpmath.log(mpmath.expm1(x)) - mpmath.log(-mpmath.expm1(-e * x) / e if e else x) - mpmath.log(m)

        x = mpmath.findroot(log_mean, (mpmath.log(m) / (1 + e), m / (1 + e)), solver="anderson", tol=mpmath.mpf(10) ** -130)
        gamma = mpmath.exp(-x)
        first = (1 - gamma) / ((mpmath.expm1(e * x) / e) if e else x)
        return exact_digits(gamma), exact_digits(first)


def _pairs_computed(eta: Any, mean: float) -> tuple[float, float]:
    law = tuning.TruncatedNegativeBinomial.with_mean(eta=float(eta), mean=mean)
    return law.gamma, float(law.pmf(1))


register(
    Claim(
        id="mrmtl:fig7",
        title="The pairs (eta, gamma) with a given mean number of runs",
        place="Appendix F.2; Figure 7",
        statement="""For every eta > -1 one gamma gives E[h] = 10 (or any mean above 1). Judged: that gamma in closed form,
            and the chance of a single run, for five eta.""",
        latex=r"\mathbf{E}[h]=10",
        kind="number",
        variables=(SHAPE, MEAN),
        examples=tuple({"eta": e, "mean": 10} for e in SHAPES),
        derive=_pairs_derive,
        oracle=_pairs_oracle,
        computed=_pairs_computed,
        not_simulated=Exempt(kind="deterministic"),
        entries=("gamma", "P(h = 1)"),
        unit="dimensionless",
        related=("mrmtl:tnb:mean", "mrmtl:tnb:one"),
        remark="""With E[h] = 10: (eta, gamma, P(h = 1)) = (-1/2, 1/361, 0.526), (0, 0.0269, 0.269), (1/2, 1/16, 0.156), (1,
            1/10, 0.1), (2, 0.171, 0.0498). The paper's six pairs are in the figure only.""",
    )
)

L = Variable("log_inverse_gamma", "positive", "log(1/gamma)", within=("1/5", 8), why="certified")


def _slopes_derive(eta: Any, log_inverse_gamma: Any) -> Derivation:
    d, x = Derivation(), log_inverse_gamma
    d.say("With x = log(1/gamma), log E[h] = log(e^x - 1) - log((1 - e^(-eta x))/eta); keep it fixed while eta grows.")
    if eta == 0:
        by_eta, by_x = x / 2, sp.exp(x) / (sp.exp(x) - 1) - 1 / x
    else:
        y = eta * x
        by_eta = 1 / eta - x / (sp.exp(y) - 1)
        by_x = sp.exp(x) / (sp.exp(x) - 1) - eta / (sp.exp(y) - 1)
    d.say("Partial derivatives by eta and by x:", (by_eta, by_x))
    rate = d.say("So x changes at the rate", -by_eta / by_x)
    d.say("""Both claims follow for every eta > -1 from one decreasing function, g(t) = 1/t - 1/(e^t - 1), g(-t) = 1 - g(t):
        (1+eta) x grows where g(-x) >= g(eta x), that is eta >= -1.""")  # fmt: skip
    return d.conclude("-dx/d eta (so gamma grows with eta), and the derivative of the cost (1+eta) x:",
                      (-rate, x + (1 + eta) * rate))  # fmt: skip


def _slopes_oracle(eta: Any, log_inverse_gamma: Any) -> tuple[Any, Any]:
    """Difference quotients of the root x(eta) at 150 digits."""
    with mpmath.workdps(150):
        e, x0, step = mpf(eta), mpf(log_inverse_gamma), mpmath.mpf(10) ** -30

        def mean(a: Any, x: Any) -> Any:
            return mpmath.expm1(x) / (-mpmath.expm1(-a * x) / a if a else x)

        target, roots = mean(e, x0), []
        for a in (e - step, e + step):
            low, high = x0 - 10 * step, x0 + 10 * step
            for _ in range(8):  # secant steps; the root is within 10 steps and the function nearly linear there
                values = mean(a, low) - target, mean(a, high) - target
                if values[0] == values[1]:
                    break
                low, high = high, high - values[1] * (high - low) / (values[1] - values[0])
            roots.append(high)
        rate = (roots[1] - roots[0]) / (2 * step)
        cost = ((1 + e + step) * roots[1] - (1 + e - step) * roots[0]) / (2 * step)
        return exact_digits(-rate), exact_digits(cost)


register(
    Claim(
        id="mrmtl:fig7:order",
        title="A smaller eta is cheaper and more often a single run",
        place="Appendix F.2, first paragraph",
        statement="""For a fixed E[h], a smaller eta goes with a smaller gamma, a smaller privacy cost by Theorem F.2, and
            more weight on h = 1. Judged: -d log(1/gamma)/d eta >= 0 and d (1+eta) log(1/gamma)/d eta >= 0 along a fixed
            mean; the second is also -d log P(h = 1)/d eta (mrmtl:tnb:one).""",
        latex=r"""\text{for a fixed }\mathbf{E}[h]\text{, a smaller }\eta\text{ (and consequently a smaller }\gamma%
            \text{) \dots}""",
        kind="order",
        variables=(SHAPE, L),
        examples=({"eta": "1/2", "log_inverse_gamma": 2}, {"eta": 0, "log_inverse_gamma": 3}),
        printed=lambda: (ZERO, ZERO),
        relation=">=",
        derive=_slopes_derive,
        oracle=_slopes_oracle,
        not_computed=Exempt(kind="part", of=("mrmtl:fig7",)),
        not_simulated=Exempt(kind="deterministic"),
        entries=("-d log(1/gamma)/d eta", "d (1+eta) log(1/gamma)/d eta"),
        tight=Tight(at={"eta": "1/2", "log_inverse_gamma": 2}, ratio="0"),
        unit="nats",
        related=("mrmtl:tnb:one",),
        remark="""Certified for five eta and gamma from 0.0003 to 0.8; the derivation's last step covers every eta > -1. At
            E[h] = 10 the cost (1+eta) log(1/gamma) runs from log 10 = 2.30 (eta to -1, always one run) over 3.61 (eta =
            0) and 4.61 (eta = 1) up to 10 (the Poisson law). The other terms of (50) grow with eta as well.""",
    )
)

__all__ = ["SHAPES", "exact_digits", "gamma_of_mean", "mean_printed", "mpf"]
