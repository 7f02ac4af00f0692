"""Appendix F, Theorem F.2 and Figure 7: what a random number of tuning runs costs.

Belongs here: (50), its Poisson sibling, what they need, and whether tuning pays. Does not belong here: the law of the
number of runs (runs.py), errors of mean regularisation as such (spectrum.py).
"""

from __future__ import annotations

from itertools import product
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
from theory.papers.mrmtl.runs import ETA, GAMMA, exact_digits, mean_printed, mpf, over_runs

ONE, ZERO = sp.Integer(1), sp.Integer(0)
ORDER = Variable("order", "positive", "Renyi order alpha_1", within=("11/10", 64), why="floats")
EPS = Variable(
    "eps", "nonnegative", "eps(alpha_1), the base algorithm's Renyi divergence at `order`", within=(0, 10), why="floats"
)
ORDER2 = Variable("order2", "positive", "second Renyi order alpha_2, >= 1", within=(1, 64), why="floats")
EPS2 = Variable(
    "eps2", "nonnegative", "eps(alpha_2), the base algorithm's Renyi divergence at `order2`", within=(0, 10), why="floats"
)


class MeanRuns(sp.Function):
    """E[h] of the truncated negative binomial; arguments eta and gamma."""

    nargs = 2
    formula = staticmethod(mean_printed)

    @classmethod
    def eval(cls, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The value for numbers; None, which leaves it as it is, for symbols."""
        eta, gamma = arguments
        if eta.free_symbols or gamma.free_symbols:
            return None
        return cls.formula(eta, gamma)


# --- Theorem F.2 -----------------------------------------------------------------------------------------------------


def _tnb_printed(eta: Any, gamma: Any, order: Any, eps: Any, order2: Any = None, eps2: Any = None) -> Any:
    second, at_second = (order, eps) if order2 is None else (order2, eps2)
    return (
        eps
        + (1 + eta) * (1 - 1 / second) * at_second
        + (1 + eta) * sp.log(1 / gamma) / second
        + sp.log(MeanRuns(eta, gamma)) / (order - 1)
    )


def _tnb_derive(eta: Any, gamma: Any, order: Any, eps: Any, order2: Any = None, eps2: Any = None) -> Derivation:
    d = Derivation()
    second, at_second = (order, eps) if order2 is None else (order2, eps2)
    log_mean, inverse, log_u = sp.symbols("log_mean log_inverse_gamma log_u", real=True)
    d.say("""With f(x) = E[x^h], the best run is at most as good as y with probability f(Q(<= y)). So A(y) is Q(y) times a
        mean of f' over q between Q(< y) and Q(<= y), and the Renyi sum of A is at most that of Q times the
        largest f'(q)^order f'(q')^(1-order), q and q' being what one event has on D and on D'.""")  # fmt: skip
    d.say("""For the TNB law f'(x) = E[h] (gamma/u)^(1+eta), where u = 1 - (1-gamma) x is itself the probability of an event
        (a better answer, or else a coin of probability gamma) and at least gamma.""")  # fmt: skip
    log_u2 = d.say("""Renyi divergence at the second order gives u'^order2 u^(1-order2) <= exp((order2-1) eps2), so log u' is
        at most""",
                   (1 - 1 / second) * (at_second + log_u))  # fmt: skip
    factor = d.say("The logarithm of the factor is then at most",
                   log_mean + (1 + eta) * (-inverse - order * log_u + (order - 1) * log_u2))  # fmt: skip
    d.say("Its slope in log u is negative:", sp.factor(sp.diff(factor, log_u)))
    worst = d.say("so u = gamma is the worst case:", sp.expand(factor.subs(log_u, -inverse)))
    gain = sp.expand((worst - log_mean) / (1 + eta))
    gain = sp.collect(sp.expand(sp.cancel(gain / (order - 1))), (at_second, inverse))
    d.say("Over (order - 1), the part with (1+eta) is", gain)
    parts = {x: sp.factor(gain.coeff(x)) for x in (at_second, inverse)}
    total = eps + (1 + eta) * (parts[at_second] * at_second + parts[inverse] * inverse) + log_mean / (order - 1)
    rules = {inverse: sp.log(1 / gamma), log_mean: sp.log(MeanRuns(eta, gamma))}
    return d.conclude("All together:", total.xreplace(rules))


def _tnb_oracle(eta: Any, gamma: Any, order: Any, eps: Any, order2: Any = None, eps2: Any = None) -> Any:
    """Numerical derivatives of the generating function; the largest factor over a grid of events, its worst end included."""
    second, at_second = (order, eps) if order2 is None else (order2, eps2)
    with mpmath.workdps(160):  # f(x) + 1 can be as small as 1e-50
        e, g, a, a2, r2 = (mpf(x) for x in (eta, gamma, order, second, at_second))

        def generating(x: Any) -> Any:
            u = -mpmath.log(1 - (1 - g) * x)
            return u / -mpmath.log(g) if e == 0 else mpmath.expm1(e * u) / mpmath.expm1(-e * mpmath.log(g))

        def log_slope(u: Any) -> Any:
            x, step = (1 - u) / (1 - g), u * mpmath.mpf(10) ** -25
            four = [generating(x + j * step) for j in (-2, -1, 1, 2)]
            return mpmath.log((four[0] - 8 * four[1] + 8 * four[2] - four[3]) / (12 * step))

        factors = []
        for share in (0, mpmath.mpf(1) / 3, 1):
            u = g ** (1 - share)
            u_too = (mpmath.exp(r2) * u) ** (1 - 1 / a2)
            factors.append(a * log_slope(u) + (1 - a) * log_slope(u_too))
        return exact_digits(mpf(eps) + max(factors) / (a - 1))


def _tnb_computed(eta: float, gamma: float, order: float, eps: float, order2: float | None = None,
                  eps2: float | None = None) -> float:  # fmt: skip
    second, at_second = (order, eps) if order2 is None or eps2 is None else (order2, eps2)
    law = tuning.TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    extra = (1 + eta) * ((1 - 1 / second) * at_second + law.log_inverse_gamma / second)
    return eps + extra + float(np.log(law.mean)) / (order - 1)


_F2_LATEX = r"""\tilde{\varepsilon}=\varepsilon(\alpha_{1})+(1+\eta)\left(1-\frac{1}{\alpha_{2}}\right)\varepsilon(%
    \alpha_{2})+\frac{(1+\eta)\log(1/\gamma)}{\alpha_{2}}+\frac{\log\mathbf{E}[h]}{\alpha_{1}-1}"""
_F2_PLACE = "Appendix F.1, Theorem F.2, (50)"
F2_ASSUMPTIONS = (
    "both orders of neighbours meet the base algorithm's bounds",
    "runs are independent draws of one algorithm (mrmtl:thmF.2:grid); ties are broken by a fixed order",
    "h and the other runs stay secret",
)

_F2: dict[str, Any] = {
    "place": _F2_PLACE,
    "latex": _F2_LATEX,
    "kind": "upper bound",
    "printed": _tnb_printed,
    "relation": "<=",
    "derive": _tnb_derive,
    "oracle": _tnb_oracle,
    "computed": _tnb_computed,
    "unit": "nats",
    "assumptions": F2_ASSUMPTIONS,
    "shares": {"theory.papers.mrmtl.runs.mean_printed": "E[h], which the theorem takes as given; judged in mrmtl:tnb:mean"},
    "related": ("mrmtl:tnb:mean",),
    "remark": """As in Papernot and Steinke (2022), Theorem 2; valid for every eta > -1, gamma in (0, 1), alpha_1 > 1 and
        alpha_2 >= 1. The best alpha_2 balances its two terms; estimators.accounting.tuning takes it from the orders
        given. Exact divergences of explicit algorithms are below it: mrmtl:thmF.2:exact.""",
}

register(
    Claim(
        id="mrmtl:thmF.2",
        title="Renyi cost of a TNB number of tuning runs, with alpha_2 = alpha_1",
        statement="""The best of h runs, h truncated negative binomial, has at most this Renyi divergence at order alpha_1,
            with alpha_2 = alpha_1. Judged: the largest value that the generating function of h and the divergence allow.""",
        variables=(ETA, GAMMA, ORDER, EPS),
        examples=(
            {"eta": 1, "gamma": "1/10", "order": 8, "eps": "1/2"},
            {"eta": "-1/2", "gamma": "1/361", "order": 16, "eps": 1},
            {"eta": 0, "gamma": "1/36", "order": 4, "eps": "1/4"},
        ),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh"},
        tight=Tight(at={"eta": 1, "gamma": "1/10", "order": 8, "eps": "1/2"}),
        **_F2,
    )
)
register(
    Claim(
        id="mrmtl:thmF.2:orders",
        title="Renyi cost of a TNB number of tuning runs, with two orders",
        statement="""The best of h runs, h truncated negative binomial, has at most this Renyi divergence at order alpha_1,
            with two orders. Judged: the largest value that the generating function of h and the two divergences allow.""",
        variables=(ETA, GAMMA, ORDER, EPS, ORDER2, EPS2),
        examples=(
            {"eta": 1, "gamma": "1/10", "order": 8, "eps": "1/2", "order2": 10, "eps2": "3/5"},
            {"eta": "-1/2", "gamma": "1/361", "order": 16, "eps": 1, "order2": 10, "eps2": "3/5"},
            {"eta": 0, "gamma": "1/36", "order": 4, "eps": "1/4", "order2": 10, "eps2": "3/5"},
        ),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh"},
        tight=Tight(at={"eta": 1, "gamma": "1/10", "order": 8, "eps": "1/2", "order2": 10, "eps2": "3/5"}),
        **_F2,
    )
)


# --- exact divergences of explicit algorithms -------------------------------------------------------------------------

SHAPE = Variable("eta", "choice", "shape of the truncated negative binomial; 1 is the geometric law", choices=(1, 2))
FREE_GAMMA = Variable("gamma", "fraction", "success probability of the truncated negative binomial", extreme=False)
E1 = Variable("E1", "positive", "e^eps - 1 of one run", extreme=False)
FIRST = Variable("first", "choice", "the data set whose answers are more often good", choices=("D", "D'"))


def _response(E1: Any, first: str) -> tuple[Any, Any]:
    """Probabilities of the bad answer on D and on D'."""
    rare, often = 1 / (2 + E1), (1 + E1) / (2 + E1)
    return (rare, often) if first == "D" else (often, rare)


def _moment(p: Any, q: Any, order: int) -> Any:
    return p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)


def _exact_derive(eta: int, gamma: Any, E1: Any, first: str) -> Derivation:
    d = Derivation()
    rare = 1 / (2 + E1)
    often = 1 - rare
    p, q = d.say("One run answers bad on D and on D' with probability", (rare, often) if first == "D" else (often, rare))
    f, g = (((1 - (1 - gamma) * x) ** (-eta) - 1) / (gamma ** (-eta) - 1) for x in (p, q))
    d.say("The best of h runs is bad if all are: with probability E[x^h] = ((1-(1-gamma) x)^-eta - 1)/(gamma^-eta - 1):",
          (sp.factor(f), sp.factor(g)))  # fmt: skip
    f, g = sp.factor(f), sp.factor(g)
    return d.conclude("exp(D) at order 2 is", f**2 / g + (1 - f) ** 2 / (1 - g))


def _exact_printed(eta: int, gamma: Any, E1: Any, first: str) -> Any:
    """exp of (50) at alpha_1 = 2 and alpha_2 = 1 + eta: exp((1+eta)(1-1/alpha_2) D) is the moment of order 1 + eta."""
    one, second = (_moment(*_response(E1, first), order) for order in (2, 1 + eta))
    return one * second * sp.factor(mean_printed(sp.Integer(eta), gamma)) / gamma


def _exact_oracle(eta: int, gamma: Any, E1: Any, first: str) -> Any:
    """Sum over the number of runs: probabilities of h from one to the next, times the chance that all h are bad."""
    with mpmath.workdps(90):
        step, z = 1 - mpf(gamma), 1 + mpf(E1)
        bad = (1 / (1 + z), z / (1 + z)) if first == "D" else (z / (1 + z), 1 / (1 + z))
        weight, k, total, none = step, 1, mpmath.mpf(0), [mpmath.mpf(0), mpmath.mpf(0)]
        powers = list(bad)
        while weight > mpmath.mpf(10) ** -75 * total or k < 3:
            total += weight
            for i in (0, 1):
                none[i] += weight * powers[i]
                powers[i] *= bad[i]
            weight *= step * (k + eta) / (k + 1)
            k += 1
        x, y = (n / total for n in none)
        return exact_digits(x**2 / y + (1 - x) ** 2 / (1 - y))


def _exact_computed(eta: int, gamma: float, E1: float, first: str) -> float:
    law = tuning.TruncatedNegativeBinomial(eta=eta, gamma=gamma)
    rare, often = 1 / (2 + E1), (1 + E1) / (2 + E1)
    here, there = ([rare, often], [often, rare]) if first == "D" else ([often, rare], [rare, often])
    return float(np.exp(privacy.renyi_divergence(law.best_of(here), law.best_of(there), order=2)))


def _exact_simulate(eta: int, gamma: float, E1: float, first: str) -> simulation.Simulation:
    """Tune on both data sets, run by run; the best is bad where all are."""
    bad_here, bad_there = (1 / (2 + E1), (1 + E1) / (2 + E1))[:: 1 if first == "D" else -1]

    def all_bad(gen: np.random.Generator, runs: np.ndarray) -> np.ndarray:
        return gen.random(len(runs)) < bad_here**runs

    def bad(q: float) -> float:  # that all runs are bad, to turn the claimed moment into a probability
        return ((1 - (1 - gamma) * q) ** -eta - 1) / (gamma**-eta - 1)

    chance = bad(bad_there)
    # x^2/y + (1-x)^2/(1-y) for the chance x on D; its root on x's side of y
    sign = -1 if bad_here < bad_there else 1
    return over_runs(
        eta, gamma, all_bad, "best run is bad on D",
        of=lambda moment: chance + sign * np.sqrt((moment - 1) * chance * (1 - chance)),
        back=lambda x: x**2 / chance + (1 - x) ** 2 / (1 - chance),
    )  # fmt: skip


def _gamma_shift(gamma: Any) -> dict[Any, Any]:
    g = sp.Symbol("g", nonnegative=True)
    return {gamma: g / (1 + g)}


register(
    Claim(
        id="mrmtl:thmF.2:exact",
        title="(50) against the exact divergence of tuned randomised response",
        place=_F2_PLACE,
        statement="""For randomised response tuned with a TNB number of runs, eta 1 or 2, the exact Renyi divergence at order
            2 is at most (50) with alpha_1 = 2, alpha_2 = 1 + eta and the exact divergences of one run. Judged: exp of
            both.""",
        latex=_F2_LATEX,
        kind="upper bound",
        variables=(SHAPE, FREE_GAMMA, E1, FIRST),
        examples=({"eta": 1, "gamma": "1/10", "E1": 1, "first": "D"}, {"eta": 2, "gamma": "1/6", "E1": 2, "first": "D'"}),
        printed=_exact_printed,
        relation="<=",
        derive=_exact_derive,
        oracle=_exact_oracle,
        shifts=_gamma_shift,
        computed=_exact_computed,
        simulate=_exact_simulate,
        assumes={"noise": "fresh"},
        tight=Tight(at={"eta": 1, "gamma": "1/10", "E1": 1, "first": "D"}, ratio="1225/6"),
        unit="e^nats",
        related=("mrmtl:thmF.2",),
        remark="""The bound holds with slack (tests/estimators/accounting/test_tuning.py: so it does for random algorithms
            and five eta); as a bound on the pure cost it cannot be improved (mrmtl:thmF.2:pure).""",
    )
)

WHOLE = Variable("eta", "choice", "shape of the truncated negative binomial", choices=(ZERO, ONE, sp.Integer(2)))
BEST = Variable("best", "fraction", "probability of the best answer on D'", extreme=False)


def _pure_derive(eta: Any, gamma: Any, E1: Any, best: Any) -> Derivation:
    d = Derivation()
    e = 1 + E1
    d.say("""One run gives the best answer with probability t on D', t/e^eps on D; a rare middle answer with probability s on
        D', s e^eps on D; else the worst.""")  # fmt: skip
    d.say("""The middle answer is published with probability f(1 - t) - f(1 - t - s), about s f'(1 - t), where f'(x) is
        proportional to (1 - (1-gamma) x)^(-1-eta).""")  # fmt: skip
    u, u_too = d.say("1 - (1-gamma) x on D and on D':", (gamma + (1 - gamma) * best / e, gamma + (1 - gamma) * best))
    return d.conclude("Ratio of the two probabilities as s tends to 0:", e * (u_too / u) ** (1 + eta))


def _pure_oracle(eta: Any, gamma: Any, E1: Any, best: Any) -> Any:
    """Publish the best of h runs of a mechanism with a middle answer of mass 1e-45; mix over h by the generating "
    "function."""
    with mpmath.workdps(130):
        g, e, t, s = mpf(gamma), 1 + mpf(E1), mpf(best), mpmath.mpf(10) ** -45

        def upto(x: Any) -> Any:
            u = 1 - (1 - g) * x
            return mpmath.log(u) / mpmath.log(g) if eta == 0 else (u ** -int(eta) - 1) / (g ** -int(eta) - 1)

        here = upto(1 - t / e) - upto(1 - t / e - s * e)
        there = upto(1 - t) - upto(1 - t - s)
        return sp.Float(mpmath.nstr(here / there, 40), 40)


register(
    Claim(
        id="mrmtl:thmF.2:pure",
        title="The constant factor for pure privacy",
        place="Appendix F.1, after Theorem F.2",
        statement="""For pure privacy, tuning with a TNB number of runs costs a constant factor: (50) with both orders to
            infinity is (2 + eta) eps. Judged: e^eps of a three-answer algorithm after tuning.""",
        latex=r"""\text{the privacy cost of the HPO procedure is a constant factor of the original cost of }M%
            \text{ for pure DP (when }\alpha_{1},\alpha_{2}\to\infty\text{)}""",
        kind="upper bound",
        variables=(WHOLE, FREE_GAMMA, E1, BEST),
        examples=({"eta": 1, "gamma": "1/10", "E1": 1, "best": "1/2"}, {"eta": 0, "gamma": "1/100", "E1": 2, "best": "1/3"}),
        printed=lambda eta, E1: (1 + E1) ** (2 + eta),
        relation="<=",
        derive=_pure_derive,
        oracle=_pure_oracle,
        shifts=lambda gamma, best: {
            gamma: (g := sp.Symbol("g", nonnegative=True)) / (1 + g),
            best: (b := sp.Symbol("b", nonnegative=True)) / (1 + b),
        },
        not_computed=Exempt(kind="part", of=("mrmtl:thmF.2:exact",)),
        not_simulated=Exempt(kind="divergence"),
        assumes={"noise": "fresh"},
        tight=Tight(at={"eta": 0, "gamma": "1/100", "E1": 2, "best": "1/3"}, ratio="18/17"),
        unit="e^eps",
        related=("mrmtl:thmF.2",),
        remark="""The factor 2 + eta cannot be lowered: as gamma tends to 0 the ratio tends to e^((2+eta) eps). For Gaussian
            noise, eps(alpha) = rho alpha, the best orders give rho + 2 sqrt(rho (log E[h] + log 1/delta)) + (1+eta)(2
            sqrt(rho log 1/gamma) - rho), so tuning adds terms in sqrt(log E[h]), not a factor log E[h].""",
    )
)  # fmt: skip


# --- what Theorem F.2 needs: runs that are draws of one algorithm ------------------------------------------------------

TRIED = Variable("runs", "choice", "length of the list of hyperparameters", choices=(1, 2, 3, 4, 5))


def _grid_derive(eta: Any, runs: int, E1: Any) -> Derivation:
    d = Derivation()
    e = 1 + E1
    d.say("""Try the hyperparameters of a list in its order, as far as h reaches. The last one yields the answer top with
        probability e^eps/(1+e^eps) on D, all others an answer below it, bad, with the same probability.""")  # fmt: skip
    d.say("""If not bad, the others give an answer above top. Then top is published only if h reaches the end of the list,
        all the others were bad and the last was top.""")  # fmt: skip
    here = d.say("On D, given h:", (e / (1 + e)) ** runs)
    there = d.say("On D', given h:", (1 / (1 + e)) ** runs)
    return d.conclude("The law of h cancels in the ratio:", sp.factor(here / there))


def _grid_oracle(eta: Any, runs: int, E1: Any) -> Any:
    """Enumerate the answers of all runs on both data sets, for every h up to the list's end; largest ratio of outcomes."""
    e, laws = 1 + E1, []
    for often in (e / (1 + e), 1 / (1 + e)):
        law: dict[Any, Any] = {}
        for h in range(1, runs + 1):
            weight = sp.Rational(1, 2**h)  # any law of h with support 1..runs
            for answers in product((True, False), repeat=h):
                ranks = [(0 if bad else 2, j) if j < runs - 1 else ((1 if bad else -1), j) for j, bad in enumerate(answers)]
                chance = weight
                for bad in answers:
                    chance *= often if bad else 1 - often
                law[max(ranks)] = law.get(max(ranks), 0) + chance
        laws.append(law)
    here, there = laws
    return max(max(here[k] / there[k], there[k] / here[k]) for k in here)


def _grid_simulate(eta: float, runs: int, E1: float) -> simulation.Simulation:
    """Try the list on both data sets, h by a geometric law; how often the last one's top answer is published."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        reached = gen.geometric(0.2, reps) >= runs
        answers = gen.random((2, reps, runs))
        likely = (1 + E1) / (2 + E1)
        here, there = (answers[i] < chance for i, chance in enumerate((likely, 1 - likely)))
        return np.stack([reached & here.all(axis=1), reached & there.all(axis=1)], axis=1).astype(float)

    seldom = 0.8 ** (runs - 1) / (2 + E1) ** runs
    ratio = simulation.Ratio("top published on D over on D'", [1.0, 0.0], [0.0, 1.0], seldom)
    return simulation.Simulation(simulation.sample_means(draw, count=2).experiment, (ratio,))


register(
    Claim(
        id="mrmtl:thmF.2:grid",
        title="Theorem F.2 for a list of different hyperparameters",
        place="Appendix F.1, first paragraph and Theorem F.2; Section 7",
        statement="""'A base algorithm M is executed h times with different hyperparameters and the best result is recorded';
            with a TNB h the pure cost is (2 + eta) eps. Judged on a list that is tried in its order: the exact e^eps.""",
        latex=r"\text{executed }h\text{ times with different hyperparameters and the best result is recorded}",
        kind="upper bound",
        variables=(WHOLE, TRIED, E1),
        examples=({"eta": 1, "runs": 2, "E1": 1}, {"eta": 0, "runs": 2, "E1": 1}),
        printed=lambda eta, E1: (1 + E1) ** (2 + eta),
        relation="<=",
        derive=_grid_derive,
        oracle=_grid_oracle,
        condition=lambda eta, runs: sp.true if runs <= 2 + eta else sp.false,
        condition_text="runs <= 2 + eta (otherwise every run must draw its hyperparameters afresh from one fixed law)",
        counterexample={"eta": 0, "runs": 3, "E1": 1},
        not_computed=Exempt(kind="enumerated"),
        simulate=_grid_simulate,
        assumes={"noise": "fresh"},
        tight=Tight(at={"eta": 0, "runs": 2, "E1": 1}),
        unit="e^eps",
        related=("mrmtl:thmF.2:pure", "mrmtl:propF.1"),
        remark="""The published result shows which hyperparameters won, hence that all earlier ones did worse: e^(runs eps),
            as bad as publishing all runs, although h is random. Papernot and Steinke (2022) draw hyperparameters
            independently for every run, so that all runs are one algorithm M, as Theorem F.2 says; the text around it
            does not.""",
    )
)  # fmt: skip

__all__ = ["MeanRuns"]
