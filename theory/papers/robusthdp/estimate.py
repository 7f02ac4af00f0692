"""How well the noise of a client is estimated: Robust-HDP, Lemma 1, (9).

Belongs here: the mean and the tail of sigma_hat^2 = ||S'_j||^2 / p under the lemma's assumptions. Does not belong here:
whether robust PCA meets those assumptions (table.py), what the weights lose by errors (small_error.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.server import robust_pca
from theory.engine import simulation
from theory.engine.algebra import simplest, stationary_point
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

ONE = sp.Integer(1)
SIGMA2S = Variable("sigma2s", "positive", "noise variance of each client's update, per element", lengths=(2, 3))
R = Variable("r", "positive", "common factor of the estimated noise")
ALPHA2 = Variable("alpha2", "nonnegative", "mean squared error of an estimated noise element")
P = Variable("p", "size", "elements of an update (model parameters)")
U = Variable("U", "positive", "bound on the absolute value of an estimated noise element", extreme=False)

# --- Lemma 1, the mean ------------------------------------------------------------------------------------------------

TOTAL = Variable(
    "total",
    "choice",
    "0: sigma2s is the noise power per element, which sigma_hat^2 estimates; 1: of the whole update, as in (7)",
    choices=(0, 1),
    default=0,
)
ATTAINED = Variable(
    "attained",
    "choice",
    "1: the elements' mean squared error is alpha2; 0: it is alpha2/2, which the lemma's inequality allows too",
    choices=(1, 0),
    default=1,
)
ANY_U = Variable("U", "positive", U.meaning + "; the mean does not depend on it", default=ONE)


def _mean_derive(sigma2s: Sequence[Any], r: Any, alpha2: Any, p: Any, total: int, attained: int) -> Derivation:
    d = Derivation()
    s, error = sp.Symbol("s", real=True), alpha2 * (1 + attained) / 2
    d.say("An element of S' is s' = r s + e with E[e] = 0, so, as the cross term vanishes, E[s'^2] is", r**2 * s**2 + error)
    d.say("sigma_hat^2 averages p of them. The average of s^2 over the p elements is the noise power per element.")
    power = [x / p if total else x for x in sigma2s]
    if total:
        d.say("sigma_j^2 of (7) is the power of all p elements together, p times as much:", tuple(power))
    return d.conclude("So E[sigma_hat_j^2], client by client:", tuple(r**2 * x + error for x in power))


def _mean_oracle(sigma2s: Sequence[Any], r: Any, alpha2: Any, p: Any, total: int, attained: int) -> tuple[Any, ...]:
    """Elements whose squares have the right average, with errors +-e: all sign patterns enumerated."""
    count, e2 = int(p), alpha2 if attained else sp.Rational(1, 2) * alpha2
    signs = list(itertools.product((1, -1), repeat=count))
    values = []
    for power in sigma2s:
        squares = [(power / p if total else power) * 2 * (i + 1) / (count + 1) for i in range(count)]
        noise = [(sp.sqrt(x), sp.sqrt(e2)) for x in squares]
        sums = [sp.expand(sum((r * s + g * e) ** 2 for g, (s, e) in zip(pattern, noise, strict=True))) for pattern in signs]
        values.append(sp.expand(sum(sums) / len(signs) / count))
    return tuple(values)


def _mean_simulate(
    sigma2s: Sequence[float], r: float, alpha2: float, p: int, total: int, attained: int
) -> simulation.Simulation:
    power = np.asarray(sigma2s) / (p if total else 1)
    error = alpha2 if attained else alpha2 - alpha2 / 2

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise = np.sqrt(power)[:, None] * gen.standard_normal((reps, len(power), p))
        estimated = r * noise + np.sqrt(error) * gen.standard_normal(noise.shape)
        return np.mean(estimated**2, axis=2)

    return simulation.sample_means(draw, labels=[f"client {i + 1}" for i in range(len(power))])


register(
    Claim(
        id="robusthdp:lem1:mean",
        title="What the noise estimate estimates",
        place="Section 3.4, Lemma 1, (9)",
        statement="""With E[s'] = r s and E|s' - r s|^2 <= alpha_j^2 for every element, sigma_hat_j^2 = ||S'_j||^2 / p is
            centred at r^2 sigma_j^2 + alpha_j^2.""",
        latex=r"\Pr(|\hat{\sigma}_j^2 - (r^2 \sigma_j^2 + \alpha_j^2)| > \epsilon)",
        kind="identity",
        variables=(SIGMA2S, R, ALPHA2, P, ANY_U, TOTAL, ATTAINED),
        examples=(
            {"sigma2s": [1, 4], "r": "1/2", "alpha2": "1/4", "p": 4},
            {"sigma2s": [1, 2, 5], "r": 1, "alpha2": 1, "p": 3},
        ),
        printed=lambda sigma2s, r, alpha2: tuple(r**2 * x + alpha2 for x in sigma2s),
        derive=_mean_derive,
        oracle=_mean_oracle,
        not_computed=Exempt(kind="elsewhere", function="estimators.server.robust_pca.noise_variances"),
        simulate=_mean_simulate,
        condition=lambda total, attained: sp.And(sp.Eq(total, 0), sp.Eq(attained, 1)),
        condition_text="""total == 0 (sigma_j^2 is the noise power per element, not that of the whole update in (7)) and
            attained == 1 (the mean squared error of every element equals alpha_j^2)""",
        counterexample={"sigma2s": [1, 1], "r": 1, "alpha2": 0, "p": 2, "total": 1},
        entries=("E[sigma_hat_j^2], client by client",),
        assumes={"law": "moments"},
        unit="variance",
        assumptions=("E[s'] = r s holds for the noise as it was drawn, element by element",),
        remark="""(7) defines sigma_j^2 as the variance of the whole update, and the text after the lemma repeats it, while
            sigma_hat_j^2 = ||S||^2/p is per element: p times less. The weights do not notice a common factor, the lemma
            does. With E|s' - r s|^2 below alpha_j^2 the mean is below r^2 sigma_j^2 + alpha_j^2, and (9) fails for many
            parameters. A bound |s'| <= U and E[s'] = r s cannot both hold for Gaussian noise, which exceeds U/r.""",
    )
)

# --- Lemma 1, the tail --------------------------------------------------------------------------------------------------

EPS = Variable("eps", "positive", "deviation of the noise estimate", extreme=False)


def _tail_derive(p: Any, eps: Any, U: Any) -> Derivation:
    d = Derivation()
    t, width = sp.Symbol("t", positive=True), sp.Symbol("w", positive=True)
    d.say("p sigma_hat^2 is a sum of p independent terms s'^2. From |s'| <= U they lie in an interval of length w:",
          sp.Eq(width, U**2))  # fmt: skip
    d.say("""Such a term has a variance of at most w^2/4 under every exponential tilting, so its centred logarithmic moment
        generating function is at most""", t**2 * width**2 / 8)  # fmt: skip
    exponent = d.say("Chernoff: an excess of p eps has a probability of at most exp of", p * (t**2 * width**2 / 8 - t * eps))
    best = d.say("least at t =", stationary_point(exponent, t))
    least = d.say("where the exponent is", simplest(exponent.subs(t, best)))
    d.say("The same bound holds for falling short by eps; the two sides give the factor 2.")
    d.say("""That U^2 in place of U^4 is no bound shows one element (p = 1) with s' = 0 or U, each with probability 1/2:
        sigma_hat^2 is off its mean by U^2/2 with certainty, so
        a bound at eps < U^2/2 must be at least 1, while at U =
        10, eps = 49 the printed one is""", 2 * sp.exp(-2 * sp.Rational(49**2, 10**2)))  # fmt: skip
    return d.conclude("With w = U^2:", 2 * sp.exp(least.subs(width, U**2)))


def _tail_oracle(p: Any, eps: Any, U: Any) -> Any:
    """The exact large-deviation rate of two-point terms, at its flattest: no constant above it can hold for all."""
    # KL(q + x || q) = x^2/(2 q (1-q)) + ..., and Pinsker's inequality says that the least of these is a bound for all x.
    rate = min(ONE / (2 * q * (1 - q)) for q in (sp.Rational(k, 64) for k in range(1, 64)))
    return 2 / sp.exp(p * rate * (eps / (U * U)) ** 2)


register(
    Claim(
        id="robusthdp:lem1:tail",
        title="Concentration of the noise estimate",
        place="Section 3.4, Lemma 1, (9)",
        statement="""With elements bounded by U, sigma_hat_j^2 is further than eps from its mean with at most this
            probability.""",
        latex=r"\Pr(|\hat{\sigma}_j^2 - (r^2 \sigma_j^2 + \alpha_j^2)| > \epsilon) \leq 2e^{-\frac{2p\epsilon^2}{U^2}}",
        kind="upper bound",
        variables=(P, EPS, U),
        examples=({"p": 100, "eps": "1/2", "U": 2}, {"p": 1, "eps": 49, "U": 10}),
        printed=lambda p, eps, U: 2 * sp.exp(-2 * p * eps**2 / U**2),
        relation="<=",
        derive=_tail_derive,
        oracle=_tail_oracle,
        corrected=lambda p, eps, U: 2 * sp.exp(-2 * p * eps**2 / U**4),
        corrected_text="2 exp(-2 p eps^2 / U^4), for |s'| <= U",
        slip="""U^2 for U^4: Hoeffding's inequality divides by the squared range of the terms, and s'^2 ranges over [0, U^2]
            (eps has the unit of a variance, so that the printed exponent is not even free of units)""",
        counterexample={"p": 1, "eps": 49, "U": 10},
        not_computed=Exempt(kind="refuted"),
        not_simulated=Exempt(kind="part", of=("robusthdp:lem1:tail:two-point",)),
        assumes={"law": "bounded", "independence": "all"},
        finding="""The tail bound takes the bound on an element where the bound on its square is needed, and so promises far
            too much for large elements.""",
        unit="probability",
        assumptions=("|s'| <= U, not only s' <= U", "the elements of S' are independent"),
        related=("robusthdp:lem1:mean",),
        remark="""At p = 1, U = 10, eps = 49 and s' = 0 or 10 with equal odds the probability is 1, the printed bound 3e-21.
            The printed bound is true, and weaker than the right one, only for U <= 1. The lemma's one-sided s' <= U
            bounds nothing, since s'^2 is what is averaged; and elements that come out of one decomposition are not
            independent.""",
    )
)  # fmt: skip


def _more_derive(p: Any, eps: Any, U: Any) -> Derivation:
    d = Derivation()
    here = d.lemma("robusthdp:lem1:tail", "with p elements", p=p, eps=eps, U=U)
    more = d.lemma("robusthdp:lem1:tail", "with p + 1", p=p + 1, eps=eps, U=U)
    return d.conclude("Logarithm of their ratio:", simplest(sp.expand_log(sp.log(more / here), force=True)))


def _more_oracle(p: Any, eps: Any, U: Any) -> Any:
    """Log-moments of a centred two-point term of width U^2 to second order: the exponent per element at its best tilt."""
    t = sp.Symbol("t", real=True)
    width = U * U
    mean_exp = (sp.exp(t * width / 2) + sp.exp(-t * width / 2)) / 2
    curvature = sp.diff(sp.log(mean_exp), t, 2).subs(t, 0)  # twice the coefficient of t^2
    return -(eps**2) / (2 * curvature)


register(
    Claim(
        id="robusthdp:lem1:tail:p",
        title="More parameters make the estimate more certain, exponentially",
        place="Section 3.4, text after Lemma 1",
        statement="""The probability of a close estimate increases with the number p of parameters exponentially. Judged on
            the right bound: one more element multiplies the probability of failure by a factor below 1, the same for
            every p (its logarithm is at most 0).""",
        latex=r"\text{This probability increases with the number of model parameters }p\text{ exponentially}",
        kind="order",
        variables=(P, EPS, U),
        examples=({"p": 100, "eps": "1/2", "U": 2}, {"p": 1, "eps": 1, "U": 3}),
        printed=lambda: sp.Integer(0),
        relation="<=",
        derive=_more_derive,
        oracle=_more_oracle,
        not_computed=Exempt(kind="part", of=("robusthdp:lem1:tail:chi2",), note="a bound's exponent"),
        not_simulated=Exempt(kind="part", of=("robusthdp:lem1:tail:two-point",), note="a bound's exponent"),
        tight=Tight(at={"p": 100, "eps": "1/2", "U": 2}, ratio="0"),
        unit="logarithm of a probability",
        related=(
            "robusthdp:lem1:tail",
            "robusthdp:lem1:tail:two-point",
            "robusthdp:lem1:tail:chi2",
            "robusthdp:precision",
        ),
        remark="""It is the probability of being near r^2 sigma_j^2 + alpha_j^2. Near r^2 sigma_j^2 alone, 'up to a
            multiplicative factor', it goes to 0 instead as p grows, unless alpha_j^2 is the same fraction for all
            clients.""",
    )
)

ELEMENTS = Variable("p", "choice", "elements of the update", choices=(1, 4, 9))
EXCESS = Variable("k", "choice", "twice the number of elements by which the count is off p/2", choices=(1, 2, 3))


def _two_point_derive(p: int, k: int) -> Derivation:
    d = Derivation()
    d.say("""Let s' be 0 or U with equal odds (r s = U/2, alpha^2 = U^2/4). With B elements at U, sigma_hat^2 = U^2 B/p, so
        that it is off its mean U^2/2 by at least eps = k U^2/(2p) if |2B - p| >= k.""")  # fmt: skip
    hits = [b for b in range(p + 1) if abs(2 * b - p) >= k]
    d.say("Counts B that are so far off:", tuple(hits))
    return d.conclude("Binomial probability:", sum((sp.binomial(p, b) for b in hits), sp.Integer(0)) / sp.Integer(2) ** p)


def _two_point_oracle(p: int, k: int) -> Any:
    outcomes = list(itertools.product((0, 1), repeat=p))
    return sp.Rational(sum(abs(2 * sum(x) - p) >= k for x in outcomes), len(outcomes))


def _two_point_simulate(p: int, k: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        estimate = np.mean(np.where(gen.random((reps, p)) < 0.5, 0.0, 2.0) ** 2, axis=1)  # U = 2, mean 2
        return (np.abs(estimate - 2.0) >= 4.0 * k / (2 * p) - 1e-9).astype(float)[:, None]

    return simulation.sample_means(draw)


register(
    Claim(
        id="robusthdp:lem1:tail:two-point",
        title="The corrected tail bound against exact probabilities of its extreme case",
        place="Section 3.4, Lemma 1, corrected; not in the paper",
        statement="""Elements that are 0 or U with equal odds: the probability of a deviation of at least k U^2/(2p) is at
            most 2 exp(-2 p eps^2/U^4) = 2 exp(-k^2/(2p)), whatever U. The printed 2 exp(-k^2 U^2/(2p)) goes to 0 as U
            grows.""",
        latex=r"\Pr\left(|\hat\sigma^2-U^2/2|\geq\frac{kU^2}{2p}\right)\leq 2e^{-k^2/(2p)}",
        kind="upper bound",
        variables=(ELEMENTS, EXCESS),
        examples=({"p": 9, "k": 3}, {"p": 4, "k": 2}),
        printed=lambda p, k: 2 * sp.exp(-sp.Rational(k**2, 2 * p)),
        relation="<=",
        derive=_two_point_derive,
        oracle=_two_point_oracle,
        not_computed=Exempt(kind="enumerated"),
        simulate=_two_point_simulate,
        ours=True,
        assumes={"law": "bounded", "independence": "all"},
        tight=Tight(at={"p": 1, "k": 1}, ratio="1.213061319"),
        unit="probability",
        related=("robusthdp:lem1:tail",),
    )
)

X = Variable("x", "positive", "relative deviation of the noise estimate", within=("1/10", "9/10"), why="certified")
EVEN = Variable("p", "choice", "elements of the update (even, so that the law is a finite sum)", choices=(2, 4, 8))


def _chi2_derive(p: int, x: Any) -> Derivation:
    d = Derivation()
    d.say("""Gaussian noise, s' = r s + e with s ~ N(0, sigma2), e ~ N(0, alpha2) independent: s' ~ N(0, m) with m = r^2
        sigma2 + alpha2, so sigma_hat^2 = (m/p) chi^2_p exactly; no U, r, alpha2 or sigma2 is left.""")  # fmt: skip
    y = sp.Symbol("y", positive=True)
    above = d.say("For even p, P(chi^2_p > 2y) is the probability of fewer than p/2 points of a Poisson of mean y:",
                  sp.exp(-y) * sum((y**i / sp.factorial(i) for i in range(p // 2)), sp.Integer(0)))  # fmt: skip
    half = sp.Rational(p, 2)
    return d.conclude(
        "Above m (1 + x), or below m (1 - x):", above.subs(y, half * (1 + x)) + 1 - above.subs(y, half * (1 - x))
    )


def _chi2_oracle(p: int, x: Any) -> Any:
    with mpmath.workdps(60):
        h, q = mpmath.mpf(p) / 2, mpmath.mpf(x.p) / x.q
        value = mpmath.gammainc(h, h * (1 + q), regularized=True) + mpmath.gammainc(h, 0, h * (1 - q), regularized=True)
        return sp.Float(str(value), 60)


def _chi2_simulate(p: int, x: float) -> simulation.Simulation:
    """Given the direction of all 2p normals, the square of their length has a chi-square law, of 2p degrees of freedom."""
    from scipy import special

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        noise, error = simulation.turned(gen, reps, 2, p)
        squares = (noise**2 + error**2).sum(axis=0)
        estimate = ((0.5 * noise + np.sqrt(0.75) * error) ** 2).sum(axis=0) / p / squares  # of a length of one
        return (special.gammaincc(p, (1 + x) / 2 / estimate) + special.gammainc(p, (1 - x) / 2 / estimate))[:, None]

    return simulation.sample_means(draw, draws=3)


register(
    Claim(
        id="robusthdp:lem1:tail:chi2",
        title="A tail bound that Gaussian noise does satisfy",
        place="Section 3.4, Lemma 1, replaced; not in the paper",
        statement="""With Gaussian noise and estimation error, sigma_hat_j^2 is off r^2 sigma_j^2 + alpha_j^2 by more than
            the fraction x of it with at most this probability, for 1/10 <= x <= 9/10; judged against the exact law.""",
        latex=r"\Pr\left(\Big|\frac{\hat\sigma_j^2}{r^2\sigma_j^2+\alpha_j^2}-1\Big|>x\right)\leq2e^{-\frac p2(x-\ln(1+x))}",
        kind="upper bound",
        variables=(EVEN, X),
        examples=({"p": 8, "x": "1/4"}, {"p": 4, "x": "1/8"}),
        printed=lambda p, x: 2 * sp.exp(-sp.Rational(p, 2) * (x - sp.log(1 + x))),
        relation="<=",
        derive=_chi2_derive,
        oracle=_chi2_oracle,
        computed=robust_pca.estimate_tail,
        simulate=_chi2_simulate,
        ours=True,
        assumes={"law": "gaussian", "independence": "all"},
        tight=Tight(at={"p": 8, "x": "1/4"}, ratio="2.907581260"),
        unit="probability",
        related=("robusthdp:lem1:mean",),
        remark="""No bound U is needed and the scale drops out. To use (9) with Gaussian noise U must be about sqrt(2 ln(2p))
            standard deviations, which makes the corrected exponent p x^2/(2 ln(2p)^2) where the truth has p x^2/4: at
            the paper's p = 28939 a factor of 60 is lost. Exactly, p = 28939 elements put the estimate within 3 % of its
            mean except with probability 3e-4.""",
    )
)

__all__ = ["ALPHA2", "SIGMA2S", "P", "R"]
