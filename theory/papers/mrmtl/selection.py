"""Appendix A and C.3: the exponential mechanism, its implementation by Gumbel noise, the sensitivity of accuracy.

Belongs here: private selection. Does not belong here: accounting of other mechanisms (accounting.py), tuning.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from flint import acb

from estimators.accounting import mechanisms, privacy
from theory.engine import simulation
from theory.engine.algebra import simplest
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.intervals import number
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl import model
from theory.papers.mrmtl.accounting import mp, to_float
from theory.papers.mrmtl.privacy import bits, decimal

ONE = sp.Integer(1)
GROWTH = Variable("h", "positive", "e^(eps/2) - 1")
ODDS = Variable("w", "positive", "weight of all other candidates over that of the one looked at, on x")

# --- (14) -------------------------------------------------------------------------------------------------------


def _pure_derive(h: Any, w: Any) -> Derivation:
    d = Derivation()
    root = 1 + h
    d.say("""A score that changes by at most the sensitivity changes its weight exp(eps s/(2 sensitivity)) by a factor within
        [1/H, H] with H = e^(eps/2) =""", root)  # fmt: skip
    before, after = 1 / (1 + w), root / (root + w / root)
    d.say("""The probability of a candidate rises with its own weight and falls with every other, so it grows most if its own
        is multiplied by H and all others by 1/H. It is, before and after:""", (before, simplest(after)))  # fmt: skip
    return d.conclude("The largest ratio of its probabilities on two neighbours:", simplest(after / before))


def _pure_oracle(h: Any, w: Any) -> Any:
    """Three candidates, every change of each score by minus, zero or plus the sensitivity, every output, both orders."""
    root, weights = 1 + h, (ONE, w / 3, 2 * w / 3)
    largest = sp.Integer(0)
    for change in product((-1, 0, 1), repeat=3):
        moved = [x * root**k for x, k in zip(weights, change, strict=True)]
        largest = max(largest, moved[0] / sum(moved) * sum(weights) / weights[0])
    return largest


def _pure_computed(h: float, w: float) -> float:
    # With two candidates the odds w are those of a score range 2 log(w)/eps in units of the sensitivity.
    eps = 2 * np.log1p(h)
    spread = 2 * np.log(w) / eps
    if spread < 1:
        return (1 + h) ** 2 * (1 + w) / ((1 + h) ** 2 + w)
    return float(np.exp(mechanisms.exponential_epsilon(eps=eps, n_candidates=2, score_range=spread)))


_PURE = {
    "latex": r"""\Pr[M(x)=g]=\frac{\exp\left(\frac{\varepsilon}{2\Delta}\cdot s(x,g)\right)}%
        {\sum_{g^{\prime}\in[G]}\exp\left(\frac{\varepsilon}{2\Delta}\cdot s(x,g^{\prime})\right)}""",
    "unit": "ratio of probabilities, dimensionless",
}

register(
    Claim(
        id="mrmtl:eq14",
        title="The exponential mechanism is purely private",
        place="Appendix A, (14)",
        statement="""The exponential mechanism satisfies (eps, 0)-DP. Judged: the largest ratio of an output's probabilities
            on two neighbours is at most e^eps.""",
        kind="upper bound",
        variables=(GROWTH, ODDS),
        examples=({"h": "1/2", "w": 3}, {"h": 1, "w": 10}),
        printed=lambda h: (1 + h) ** 2,
        relation="<=",
        derive=_pure_derive,
        oracle=_pure_oracle,
        not_computed=Exempt(kind="part", of=("mrmtl:eq14:range",)),
        not_simulated=Exempt(kind="divergence"),
        tight=Tight(at={"h": 1, "w": 10}, ratio="14/11"),
        assumptions=("the adjacency is the one that the sensitivity of the score belongs to",),
        remark="""The ratio is E (1 + w)/(E + w) < E = e^eps and tends to E for an improbable output (w to infinity), so eps
            is exact over all scores. Scores that all move the same way between neighbours move it by half as much.""",
        **_PURE,
    )
)

EPS = Variable("eps", "positive", "parameter eps of the mechanism", within=(sp.Rational(1, 10), 10), why="digits")
CANDIDATES = Variable("G", "size", "candidates", low=2)
RANGE = Variable(
    "score_range", "positive", "largest minus smallest score, over the sensitivity", within=(1, 1000), why="formula"
)


def _range_derive(eps: Any, G: Any, score_range: Any) -> Derivation:
    d = Derivation()
    w = d.say("The others weigh most against the candidate looked at if all lie a whole range above it: w =",
              (G - 1) * sp.exp(eps * score_range / 2))  # fmt: skip
    d.say("""The largest ratio E (1 + w)/(E + w) rises with w (mrmtl:eq14), and with a range of at least the sensitivity both
        neighbours fit into the range.""")  # fmt: skip
    return d.conclude("So exactly eps =", sp.log(sp.exp(eps) * (1 + w) / (sp.exp(eps) + w)))


@cache
def _range_oracle(eps: Any, G: Any, score_range: Any) -> sp.Float:
    """Softmax of scores at the ends of the range and one sensitivity away from them, all placements, as numbers."""
    with mpmath.workdps(60):
        half, top = mp(eps) / 2, mp(score_range)
        largest = mpmath.mpf(0)
        for own, others in product(((0, 1), (0, 0), (top, top - 1)), repeat=2):
            a = mpmath.exp(half * own[0]), mpmath.exp(half * own[1])
            b = (int(G) - 1) * mpmath.exp(half * others[0]), (int(G) - 1) * mpmath.exp(half * others[1])
            ratio = a[1] / (a[1] + b[1]) / (a[0] / (a[0] + b[0]))
            largest = max(largest, abs(mpmath.log(ratio)))
        return to_float(largest)


register(
    Claim(
        id="mrmtl:eq14:range",
        title="Exact eps of the exponential mechanism on a known range of scores",
        place="Appendix A, (14), for scores such as accuracies, which lie in [0, 1]",
        statement="""With G candidates and scores within a range of at least their sensitivity, the exponential mechanism is
            exactly (log(E (1 + w)/(E + w)), 0)-DP, with E = e^eps and w = (G - 1) e^(eps range/(2 sensitivity)).""",
        kind="identity",
        variables=(EPS, CANDIDATES, RANGE),
        examples=({"eps": 1, "G": 2, "score_range": 1}, {"eps": 1, "G": 4, "score_range": 5}),
        printed=lambda eps, G, score_range: sp.log(
            sp.exp(eps) * (1 + (w := (G - 1) * sp.exp(eps * score_range / 2))) / (sp.exp(eps) + w)
        ),
        derive=_range_derive,
        oracle=_range_oracle,
        computed=lambda eps, G, score_range: mechanisms.exponential_epsilon(
            eps=eps, n_candidates=G, score_range=score_range
        ),
        not_simulated=Exempt(kind="divergence"),
        ours=True,
        related=("mrmtl:eq14",),
        **{**_PURE, "unit": "nats", "latex": r"\varepsilon^{\prime}=\log\frac{E(1+w)}{E+w}"},
    )
)

# --- eps^2/8-zCDP -------------------------------------------------------------------------------------------------

ORDER = Variable("order", "choice", "Renyi order alpha", choices=(sp.Integer(2), sp.Integer(6)))
ZCDP_EPS = Variable("eps", "positive", "parameter eps of the mechanism", within=(sp.Rational(1, 2), 8), why="certified")
ZCDP_ODDS = Variable("w", "positive", "odds of a candidate on x'", within=(sp.Rational(1, 1000), 1000), why="certified")


def _bernoulli_divergence(eps: Any, w: Any, order: Any) -> Any:
    grown = sp.exp(eps) * w
    total = (sp.exp(order * eps) * w + 1) * (1 + w) ** (order - 1) / (1 + grown) ** order
    return sp.log(total) / (order - 1)


def _zcdp_derive(eps: Any, w: Any, order: Any) -> Derivation:
    d = Derivation()
    d.say("""Log weights change by at most eps/2 each, so log ratios of probabilities lie in an interval of length eps. With
        two candidates, one up and one down, the odds w of the first become e^eps w: the extreme pair.""")  # fmt: skip
    d.say("""With K(u) = log((1 + w e^u)/(1 + w)), the cumulant function of a coin of odds w, the Renyi divergence is (K(a
        eps) - a K(eps))/(a - 1), an integral of K'' against a weight of total a eps^2/2; and K'', the
        variance of a coin, is at most 1/4 (mrmtl:appA:em-zcdp:curvature). Hence a eps^2/8.""")  # fmt: skip
    return d.conclude("The divergence itself:", _bernoulli_divergence(eps, w, order))


@cache
def _zcdp_oracle(eps: Any, w: Any, order: Any) -> sp.Float:
    """The variance of a coin integrated against the triangle with its tip at eps."""
    with mpmath.workdps(60):
        e, odds, a = mp(eps), mp(w), mp(order)

        def variance(u: Any) -> Any:
            x = odds * mpmath.exp(u)
            return x / (1 + x) ** 2

        rising = mpmath.quad(lambda u: u * variance(u), [0, e / 2, e])
        falling = mpmath.quad(lambda u: (a * e - u) / (a - 1) * variance(u), mpmath.linspace(e, a * e, 5))
        return to_float(rising + falling)


def _zcdp_computed(eps: float, w: float, order: float) -> float:
    grown = np.exp(eps) * w
    return privacy.renyi_divergence([grown / (1 + grown), 1 / (1 + grown)], [w / (1 + w), 1 / (1 + w)], order=order)


def _zcdp_simulate(eps: float, w: float, order: float) -> simulation.Simulation:
    scores = {"x": np.array([1.0, 0.0]), "x'": np.array([0.0, 1.0])}  # sensitivity 1, odds 1 to e^eps and back
    shift = np.array([np.log(w) / eps * 2 + 1, 0.0])
    law = {k: mechanisms.exponential_probabilities(v + shift, eps=eps, sensitivity=1.0) for k, v in scores.items()}

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noisy = (scores["x"] + shift) * eps / 2 + gen.gumbel(size=(reps, 2))
        chosen = noisy.argmax(axis=1)
        return ((law["x"] / law["x'"])[chosen] ** (order - 1))[:, None]

    return model.divergence_moment(draw, order, labels=["moment of the likelihood ratio"], draws=2)


register(
    Claim(
        id="mrmtl:appA:em-zcdp",
        title="The exponential mechanism is eps^2/8-zCDP",
        place="Appendix A, after (14)",
        statement="""The exponential mechanism satisfies eps^2/8-zCDP, hence (alpha, alpha eps^2/8)-RDP for all alpha. Judged
            on its extreme pair, two candidates whose odds change by e^eps.""",
        latex=r"""\text{EM also satisfies }\frac{1}{8}\varepsilon^{2}\text{-zCDP and thus }(\alpha,\frac{\alpha}{8}%
            \varepsilon^{2})\text{-RDP for all }\alpha""",
        kind="upper bound",
        variables=(ZCDP_EPS, ZCDP_ODDS, ORDER),
        examples=({"eps": 1, "w": 1, "order": 2}, {"eps": 1, "w": "1/2", "order": 6}),
        printed=lambda eps, order: order * eps**2 / 8,
        relation="<=",
        derive=_zcdp_derive,
        oracle=_zcdp_oracle,
        computed=_zcdp_computed,
        simulate=_zcdp_simulate,
        tight=Tight(at={"eps": 1, "w": 1, "order": 2}, ratio="1.29164378012511"),
        unit="nats",
        related=("mrmtl:appA:em-zcdp:curvature", "mrmtl:eq12"),
        assumptions=("the adjacency is the one that the sensitivity of the score belongs to",),
        remark="""Tight as eps tends to 0 (at w = e^(-eps/2) about). For large orders pure privacy, D <= eps, is the better
            bound: from alpha = 8/eps on. Certified in ball arithmetic for 1/2 <= eps <= 8, 1/1000 <= w <= 1000 at orders 2
            and 6; the curvature lemma proves it for all.""",
    )
)

register(
    Claim(
        id="mrmtl:appA:em-zcdp:curvature",
        title="Variance of a coin, 1/4 less a square",
        place="Appendix A, after (14): the step on which eps^2/8 rests",
        statement="""The second derivative of the cumulant function of a coin of odds x, its variance x/(1+x)^2, is 1/4 less
            a square, hence at most 1/4.""",
        latex=r"\frac{x}{(1+x)^2}=\frac{1}{4}-\left(\frac{1-x}{2(1+x)}\right)^2",
        kind="identity",
        variables=(Variable("x", "positive", "odds of the coin"),),
        examples=({"x": 1}, {"x": 3}),
        printed=lambda x: sp.Rational(1, 4) - ((1 - x) / (2 * (1 + x))) ** 2,
        derive=lambda x: _curvature(x),
        oracle=lambda x: sum((k - x / (1 + x)) ** 2 * law for k, law in ((1, x / (1 + x)), (0, 1 / (1 + x)))),
        not_computed=Exempt(kind="part", of=("mrmtl:appA:em-zcdp",)),
        not_simulated=Exempt(kind="deterministic"),
        ours=True,
        unit="dimensionless",
    )
)


def _curvature(x: Any) -> Derivation:
    d = Derivation()
    u = sp.Symbol("u", real=True)
    d.say("K(u) = log(1 + x e^u) up to a constant; its second derivative at u = 0:")
    return d.conclude("which is", simplest(sp.diff(sp.log(1 + x * sp.exp(u)), u, 2).subs(u, 0)))


# --- Gumbel noise --------------------------------------------------------------------------------------------------

SCORES = Variable(
    "scores",
    "real",
    "scores of the candidates; the first is the one looked at",
    lengths=(2, 3),
    within=(-3, 3),
    why="digits",
)
PARAMETER = Variable("eps", "positive", "privacy parameter", within=(sp.Rational(1, 4), 4), why="digits")
SENSITIVITY = Variable("sensitivity", "positive", "sensitivity of the score", within=(sp.Rational(1, 4), 4), why="digits")
REPORT = Variable(
    "report",
    "choice",
    "max: the largest score plus noise; min: the smallest loss minus noise",
    choices=("max", "min"),
    default="max",
)


def _gumbel_derive(scores: list[Any], eps: Any, sensitivity: Any, report: str) -> Derivation:
    d = Derivation()
    sign = 1 if report == "max" else -1
    if report == "min":
        d.say("The smallest loss minus noise is the largest of minus the loss plus noise.")
    scale = d.say("The noise has the scale", 2 * sensitivity / eps)
    logits = [sign * s / scale for s in scores]
    d.say("""If G is standard Gumbel, e^-G is standard exponential. So candidate g wins if T_g = e^(-G_g)/W_g is the
        smallest, with W_g the exponential of its score over the scale; T_g is exponential of rate W_g:""")  # fmt: skip
    t = sp.Symbol("t", positive=True)
    rates = sp.symbols(f"W_1:{len(scores) + 1}", positive=True)
    survival = d.say("The first rings at t while the others have not: density", rates[0] * sp.exp(-sum(rates) * t))
    won = d.say("Integrated over t:", sp.integrate(survival, (t, 0, sp.oo)))
    return d.conclude("With the weights:", won.subs({r: sp.exp(v) for r, v in zip(rates, logits, strict=True)}))


@cache
def _gumbel_quadrature(gaps: tuple[Any, ...]) -> sp.Float:
    """Density of the first candidate's Gumbel noise times the distribution functions of the others', integrated."""
    with bits(260):
        offsets = [number(g) for g in gaps]

        def integrand(x: acb, _: bool) -> acb:
            exponent = -x - (-x).exp()
            for g in offsets:
                exponent -= (g - x).exp()
            return exponent.exp()

        parts = [acb.integral(integrand, acb(a), acb(b)).real for a, b in ((-6, 4), (4, 30), (30, 160))]
        return sp.Float(decimal(parts[0] + parts[1] + parts[2]), 60)


def _gumbel_oracle(scores: list[Any], eps: Any, sensitivity: Any, report: str) -> Any:
    sign = 1 if report == "max" else -1
    return _gumbel_quadrature(tuple(sign * (s - scores[0]) * eps / (2 * sensitivity) for s in scores[1:]))


def _gumbel_simulate(scores: list[float], eps: float, sensitivity: float, report: str) -> simulation.Simulation:
    s = np.asarray(scores, float)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = gen.gumbel(scale=2 * sensitivity / eps, size=(reps, len(s)))
        chosen = (s + noise).argmax(axis=1) if report == "max" else (s - noise).argmin(axis=1)
        return (chosen == 0)[:, None].astype(float)

    return simulation.sample_means(draw, labels=["the first candidate is reported"], draws=len(s))


def _weights(scores: list[Any], eps: Any, sensitivity: Any, report: str) -> list[Any]:
    sign = 1 if report == "max" else -1
    return [sp.exp(sign * eps / (2 * sensitivity) * s) for s in scores]


register(
    Claim(
        id="mrmtl:appA:gumbel",
        title="Report noisy max with Gumbel noise",
        place="Appendix A, after (14); used in Appendix C.3",
        statement="""Adding independent Gumbel noise of scale 2 sensitivity/eps to the scores and reporting the largest is
            the exponential mechanism (14); so is, for losses, subtracting the noise and reporting the smallest.""",
        latex=r"\text{noises drawn from the Gumbel distribution with scale }\frac{2\Delta}{\varepsilon}",
        kind="probability",
        variables=(SCORES, PARAMETER, SENSITIVITY, REPORT),
        examples=(
            {"scores": ["1", "0", "1/2"], "eps": 2, "sensitivity": 1},
            {"scores": ["0", "1"], "eps": 1, "sensitivity": 1, "report": "min"},
        ),
        printed=lambda scores, eps, sensitivity, report: (w := _weights(scores, eps, sensitivity, report))[0] / sum(w),
        derive=_gumbel_derive,
        oracle=_gumbel_oracle,
        computed=lambda scores, eps, sensitivity, report: mechanisms.exponential_probabilities(
            np.array(scores) * (1 if report == "max" else -1), eps=eps, sensitivity=sensitivity
        )[0],
        simulate=_gumbel_simulate,
        unit="probability",
        related=("mrmtl:eq14",),
    )
)

# --- (15) -------------------------------------------------------------------------------------------------------

N = Variable("n", "size", "records of the local dataset", low=2)
CHANGE = Variable(
    "adjacency",
    "choice",
    "the neighbour has one record replaced, one more, or one less",
    choices=("replace", "add", "remove"),
)


def _accuracy_derive(n: Any, adjacency: str) -> Derivation:
    d = Derivation()
    k = sp.Symbol("k", nonnegative=True)
    d.say("Of n records k are classified correctly; the accuracy is", k / n)
    if adjacency == "replace":
        return d.conclude("A replaced record moves k by at most one, and n stays:", simplest((k + 1) / n - k / n))
    if adjacency == "add":
        right, wrong = simplest((k + 1) / (n + 1) - k / n), simplest(k / n - k / (n + 1))
        d.say("A record more, right or wrong, moves it by", (right, wrong))
        d.say("These are largest at k = 0 and at k = n, where both are", (right.subs(k, 0), simplest(wrong.subs(k, n))))
        return d.conclude("The largest:", simplest(right.subs(k, 0)))
    right, wrong = simplest(k / n - (k - 1) / (n - 1)), simplest(k / (n - 1) - k / n)
    d.say("A record less, right (k >= 1) or wrong (k <= n - 1), moves it by", (right, wrong))
    return d.conclude("At k = 1 and at k = n - 1 both are largest:", simplest(right.subs(k, 1)))


def _accuracy_oracle(n: Any, adjacency: str) -> Any:
    """All datasets of n records, each right or wrong, and all their neighbours."""
    size, largest = int(n), sp.Integer(0)
    for x in product((0, 1), repeat=size):
        if adjacency == "replace":
            neighbours = [(*x[:i], 1 - x[i], *x[i + 1 :]) for i in range(size)]
        elif adjacency == "add":
            neighbours = [(*x, 0), (*x, 1)]
        else:
            neighbours = [(*x[:i], *x[i + 1 :]) for i in range(size)]
        for y in neighbours:
            largest = max(largest, abs(sp.Rational(sum(x), size) - sp.Rational(sum(y), len(y))))
    return largest


register(
    Claim(
        id="mrmtl:eq15",
        title="Sensitivity of the accuracy",
        place="Appendix C.3, (15)",
        statement="""A dataset's accuracy on a fixed classifier moves by at most 1/(n - 1) when one record is added, removed
            or replaced.""",
        latex=r"\Delta_{\mathrm{acc}}=\max_{g}\max_{x,x^{\prime}}\left|s(x,g)-s(x,g^{\prime})\right|\leq\frac{1}{n-1}",
        kind="upper bound",
        variables=(N, CHANGE),
        examples=({"n": 5, "adjacency": "replace"}, {"n": 4, "adjacency": "add"}, {"n": 4, "adjacency": "remove"}),
        printed=lambda n: 1 / (n - 1),
        relation="<=",
        derive=_accuracy_derive,
        oracle=_accuracy_oracle,
        computed=lambda n, adjacency: mechanisms.accuracy_sensitivity(n=n, adjacency=adjacency),
        shifts=lambda n, **_: {n: 2 + sp.Symbol("more", nonnegative=True)},
        not_simulated=Exempt(kind="enumerated"),
        tight=Tight(at={"n": 4, "adjacency": "remove"}, ratio="4/3"),
        unit="accuracy",
        remark="""Never attained: exactly 1/n for a replaced or removed record, 1/(n + 1) for an added one, n counted before
            the change. So 1/n is enough under every adjacency, and 1/(n - 1) spends a little more privacy than needed.""",
    )
)


def _middle_oracle(n: Any) -> Any:
    """The expression as corrected, over all datasets and their replacements."""
    return _accuracy_oracle(n, "replace")


register(
    Claim(
        id="mrmtl:eq15:middle",
        title="The expression in the middle of (15)",
        place="Appendix C.3, (15)",
        statement="""The sensitivity is max_g max_{x,x'} |s(x,g) - s(x,g')|. Judged as printed, one dataset and two
            candidates: its value, with one record replaced.""",
        latex=r"\max_{g}\max_{x,x^{\prime}}\left|s(x,g)-s(x,g^{\prime})\right|",
        kind="identity",
        variables=(N,),
        examples=({"n": 5}, {"n": 2}),
        printed=lambda: ONE,
        derive=lambda n: _accuracy_derive(n, "replace"),
        oracle=_middle_oracle,
        computed=lambda n: mechanisms.accuracy_sensitivity(n=n, adjacency="replace"),
        counterexample={"n": 2},
        corrected=lambda n: 1 / n,
        corrected_text="max_g max_{x,x'} |s(x,g) - s(x',g)|, which is 1/n for a replaced record",
        slip="the prime is on g instead of x: with g right on all records and g' on none, the printed difference is 1",
        not_simulated=Exempt(kind="enumerated"),
        assumes={"adjacency": "replace"},
        finding="""The prime stands on the cluster instead of the data set, so that the expression is 1 and not the
            sensitivity.""",
        unit="accuracy",
        related=("mrmtl:eq15",),
    )
)
