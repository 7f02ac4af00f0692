"""Appendix A: Renyi divergence, its composition and conversion, zero-concentrated privacy, subsampling.

Belongs here: claims on how guarantees are measured, added up and amplified. Does not belong here: particular noise
(privacy.py, gaussian_noise.py), the exponential mechanism (selection.py), tuning.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from estimators.accounting import privacy
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl import model
from theory.papers.mrmtl.gaussian_noise import curve, quadrature

ONE = sp.Integer(1)
FIRST = Variable("p", "fraction", "probability of the first of two outputs on x", extreme=False)
SECOND = Variable("q", "fraction", "its probability on x'", extreme=False)
ORDER = Variable("order", "choice", "Renyi order alpha", choices=(2, 3, 5))
WHOLE = Variable("order", "choice", "Renyi order alpha", choices=(2, 3))


def mp(value: Any) -> Any:
    """An exact rational as an mpmath number at the current precision."""
    value = sp.Rational(value)
    return mpmath.mpf(int(value.p)) / int(value.q)


def to_float(value: Any) -> sp.Float:
    """An mpmath number as a SymPy number."""
    return sp.Float(mpmath.nstr(value, 60), 60)


def moment(p: Any, q: Any, order: Any) -> Any:
    """E_P[(P/Q)^(order - 1)] for two outputs of probabilities p, 1 - p and q, 1 - q."""
    return p * (p / q) ** (order - 1) + (1 - p) * ((1 - p) / (1 - q)) ** (order - 1)


# --- (12) -------------------------------------------------------------------------------------------------------


def _renyi_derive(p: Any, q: Any, order: Any) -> Derivation:
    d = Derivation()
    d.say(
        """Renyi's divergence is log of the sum over outputs of P^a Q^(1-a), over a - 1 (Renyi 1961). For two outputs the sum
        is"""
    )
    total = d.say("P^a Q^(1-a) = P (P/Q)^(a-1), an expectation under P:", p**order * q ** (1 - order))
    total = total + (1 - p) ** order * (1 - q) ** (1 - order)
    return d.conclude("so the divergence is", sp.log(total) / (order - 1))


@cache
def _renyi_oracle(p: Any, q: Any, order: Any) -> sp.Float:
    """(a-1) D_a grows with a by the mean log ratio under the law between: integrate that from 1 to a."""
    with mpmath.workdps(65):
        x, y = mp(p), mp(q)

        def slope(s: Any) -> Any:
            a, b = x**s * y ** (1 - s), (1 - x) ** s * (1 - y) ** (1 - s)
            return (a * mpmath.log(x / y) + b * mpmath.log((1 - x) / (1 - y))) / (a + b)

        a = mp(order)
        return to_float(mpmath.quad(slope, mpmath.linspace(1, a, 3)) / (a - 1))


def _renyi_simulate(p: float, q: float, order: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        first = gen.random(reps) < p
        return np.where(first, p / q, (1 - p) / (1 - q))[:, None] ** (order - 1)

    return model.divergence_moment(draw, order, labels=["moment of the likelihood ratio under P"])


register(
    Claim(
        id="mrmtl:eq12",
        title="Renyi divergence",
        place="Appendix A, (11)-(12)",
        statement="The Renyi divergence of order alpha as an expectation under P. Judged on laws with two outputs.",
        latex=r"""D_{\alpha}(P\|Q)\triangleq\frac{1}{\alpha-1}\log\underset{x\sim P}{\mathbb{E}}\left[\left(\frac{P(x)}%
            {Q(x)}\right)^{\alpha-1}\right]""",
        kind="identity",
        variables=(FIRST, SECOND, ORDER),
        examples=({"p": "3/4", "q": "1/2", "order": 2}, {"p": "1/3", "q": "1/2", "order": 3}),
        printed=lambda p, q, order: sp.log(moment(p, q, order)) / (order - 1),
        derive=_renyi_derive,
        oracle=_renyi_oracle,
        computed=lambda p, q, order: privacy.renyi_divergence([p, 1 - p], [q, 1 - q], order=order),
        simulate=_renyi_simulate,
        unit="nats",
        assumptions=("adjacency enters only through which pairs P, Q are compared; both orders of a pair must be",),
    )
)


def _kl_derive(p: Any, q: Any) -> Derivation:
    d = Derivation()
    t = sp.Symbol("t", positive=True)
    log_p, log_q = sp.log(p / q), sp.log((1 - p) / (1 - q))
    value = p * sp.exp(t * log_p) + (1 - p) * sp.exp(t * log_q)
    d.say("With t = alpha - 1 the divergence is log(E_P[exp(t log(P/Q))])/t. At t = 0 the logarithm is 0.")
    slope = (sp.diff(value, t) / value).subs(t, 0)
    return d.conclude("So the limit is the derivative of the logarithm at t = 0:", slope)


@cache
def _kl_oracle(p: Any, q: Any) -> sp.Float:
    with mpmath.workdps(200):
        x, y, t = mp(p), mp(q), mpmath.mpf(10) ** -90
        total = x * (x / y) ** t + (1 - x) * ((1 - x) / (1 - y)) ** t
        return to_float(mpmath.log(total) / t)


def _kl_simulate(p: float, q: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        return np.log(np.where(gen.random(reps) < p, p / q, (1 - p) / (1 - q)))[:, None]

    return simulation.sample_means(draw, labels=["log likelihood ratio under P"])


register(
    Claim(
        id="mrmtl:eq12:kl",
        title="Renyi divergence of order 1",
        place="Appendix A, footnote 6",
        statement="As alpha tends to 1 the Renyi divergence tends to the Kullback-Leibler divergence E_P[log(P/Q)].",
        latex=r"""D_{1}(P\|Q)\triangleq\underset{x\sim P}{\mathbb{E}}\left[\log\left(\frac{P(x)}{Q(x)}\right)\right]=%
            \lim_{\alpha\rightarrow 1}D_{\alpha}(P\|Q)""",
        kind="limit",
        variables=(FIRST, SECOND),
        examples=({"p": "3/4", "q": "1/2"},),
        printed=lambda p, q: p * sp.log(p / q) + (1 - p) * sp.log((1 - p) / (1 - q)),
        derive=_kl_derive,
        oracle=_kl_oracle,
        computed=lambda p, q: privacy.renyi_divergence([p, 1 - p], [q, 1 - q], order=1),
        simulate=_kl_simulate,
        unit="nats",
    )
)

# --- composition --------------------------------------------------------------------------------------------------

ROUNDS = Variable("T", "choice", "steps", choices=(1, 2, 4))


def _steps_derive(p: Any, q: Any, order: int, T: int) -> Derivation:
    d = Derivation()
    one = d.say("""The likelihood ratio of T independent answers is the product of theirs, and the answers are independent
        under P, so the moment of the product is the product of the moments. One step has E_P[(P/Q)^(a-1)] =""",
                p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order))  # fmt: skip
    return d.conclude("T steps: exp((a-1) D_a) =", one**T)


def _steps_oracle(p: Any, q: Any, order: int, T: int) -> Any:
    """All 2^T answers one by one."""
    total = sp.Integer(0)
    for answer in product((0, 1), repeat=T):
        ones = sum(answer)
        left, right = p**ones * (1 - p) ** (T - ones), q**ones * (1 - q) ** (T - ones)
        total += left**order / right ** (order - 1)
    return total


def _steps_simulate(p: float, q: float, order: int, T: int) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        ones = (gen.random((reps, T)) < p).sum(axis=1)
        return ((p / q) ** ones * ((1 - p) / (1 - q)) ** (T - ones))[:, None] ** (order - 1)

    return simulation.sample_means(draw, labels=["moment of the likelihood ratio"], draws=T)


register(
    Claim(
        id="mrmtl:appA:composition",
        title="Composition of Renyi guarantees",
        place="Appendix A, after (12)",
        statement="""If every step satisfies (alpha, eps)-RDP, T steps satisfy (alpha, T eps)-RDP. Judged as exp((alpha - 1)
            D_alpha), on independent steps with two outputs and divergence exactly eps each.""",
        latex=r"\text{over }T\text{ steps the algorithm satisfies }(\alpha,T\varepsilon)\text{-RDP}",
        kind="identity",
        variables=(FIRST, SECOND, WHOLE, ROUNDS),
        examples=({"p": "3/5", "q": "1/2", "order": 2, "T": 4}, {"p": "1/3", "q": "1/2", "order": 3, "T": 2}),
        printed=lambda p, q, order, T: moment(p, q, order) ** T,
        derive=_steps_derive,
        oracle=_steps_oracle,
        computed=lambda p, q, order, T: np.exp(
            (order - 1) * privacy.compose(privacy.renyi_divergence([p, 1 - p], [q, 1 - q], order=order), T)
        ),
        simulate=_steps_simulate,
        assumes={"noise": "fresh"},
        unit="moment, dimensionless",
        related=("mrmtl:eq12",),
        remark="""For independent steps the bound is an equality; steps that depend on earlier answers:
            mrmtl:appA:composition:adaptive. The adjacency must be the same in every step.""",
    )
)

LOW = Variable("G0", "nonnegative", "e^eps - 1 of the step that follows the first output")
MORE = Variable("G_more", "nonnegative", "how much larger e^eps is for the step that follows the other output")


def _adaptive_derive(p: Any, q: Any, G0: Any, G_more: Any, order: int) -> Derivation:
    d = Derivation()
    low, high = 1 + G0, 1 + G0 + G_more
    d.say("""After the first answer a second mechanism is chosen, with divergence log(1 + G0) or log(1 + G0 + G_more). E_P of
        (P/Q)^(a-1) over both answers is the mean, over the first
        answer, of its ratio^(a-1) times the second step's
        moment, e^((a-1) eps):""", (low ** (order - 1), high ** (order - 1)))  # fmt: skip
    first = p * (p / q) ** (order - 1) * low ** (order - 1)
    second = (1 - p) * ((1 - p) / (1 - q)) ** (order - 1) * high ** (order - 1)
    return d.conclude("Together exp((a-1) D_a) =", first + second)


def _adaptive_oracle(p: Any, q: Any, G0: Any, G_more: Any, order: int) -> Any:
    """Enumerate both answers; a step of divergence log E: one output sure on x, of probability 1/E on x'."""
    total = sp.Integer(0)
    for left, right, factor in ((p, q, 1 + G0), (1 - p, 1 - q, 1 + G0 + G_more)):
        for second_left, second_right in ((ONE, 1 / factor), (sp.Integer(0), 1 - 1 / factor)):
            if second_left != 0:
                total += (left * second_left) ** order * (right * second_right) ** (1 - order)
    return total


def _adaptive_simulate(p: float, q: float, G0: float, G_more: float, order: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        # on x' a step of divergence log E gives an answer that x never gives, with probability 1 - 1/E; the moment under x'
        first = gen.random(reps) < q
        ratio = np.where(first, p / q, (1 - p) / (1 - q))
        second = np.where(first, 1 + G0, 1 + G0 + G_more)
        return ((ratio * second * (gen.random(reps) < 1 / second)) ** order)[:, None]

    return simulation.sample_means(draw, labels=["moment of the likelihood ratio under x'"], draws=2)


register(
    Claim(
        id="mrmtl:appA:composition:adaptive",
        title="Composition when a step depends on the answer before",
        place="Appendix A, after (12): every step of an algorithm, such as DP-SGD",
        statement="""If the second step is chosen by the first answer, the divergences still add up to at most the sum of the
            bounds. Judged as exp((alpha - 1) D_alpha).""",
        latex=r"\text{if every step of an algorithm satisfies }(\alpha,\varepsilon)\text{-RDP}",
        kind="upper bound",
        variables=(FIRST, SECOND, LOW, MORE, WHOLE),
        examples=({"p": "3/5", "q": "1/2", "G0": "1/4", "G_more": "1/2", "order": 2},),
        printed=lambda p, q, G0, G_more, order: moment(p, q, order) * (1 + G0 + G_more) ** (order - 1),
        relation="<=",
        derive=_adaptive_derive,
        oracle=_adaptive_oracle,
        shifts=lambda p, q, **_: {x: (t := sp.Symbol(f"t_{x}", nonnegative=True)) / (1 + t) for x in (p, q)},
        not_computed=Exempt(kind="divergence"),
        simulate=_adaptive_simulate,
        assumes={"noise": "fresh"},
        tight=Tight(at={"p": "3/5", "q": "1/2", "G0": "1/4", "G_more": 0, "order": 2}),
        unit="moment, dimensionless",
        related=("mrmtl:appA:composition",),
    )
)

# --- (13) ---------------------------------------------------------------------------------------------------------

REAL_ORDER = Variable("order", "positive", "Renyi order alpha > 1", within=(sp.Rational(1001, 1000), 1000), why="formula")
RDP = Variable("rdp", "positive", "Renyi divergence eps(alpha) at that order", extreme=False)
TARGET = Variable("delta", "fraction", "target delta", extreme=False)


def converted(order: Any, rdp: Any, delta: Any) -> Any:
    """(13) at one order."""
    return rdp + sp.log(1 / (order * delta)) / (order - 1) + sp.log(1 - 1 / order)


def _conversion_derive(order: Any, rdp: Any, delta: Any) -> Derivation:
    d = Derivation()
    x, ratio, a = sp.symbols("x E a", positive=True)
    d.say("""The smallest delta at eps is E_Q[(X - E)_+] with X = P/Q, E = e^eps; it is at most E_Q[X^a] times the largest (x
        - E)/x^a over x > E.""", (x - ratio) / x**a)  # fmt: skip
    slope = sp.simplify(sp.diff(x ** (-a) * (x - ratio), x) * x ** (a + 1))
    d.say("Its derivative, times x^(a+1), vanishes once, at x = E a/(a-1):", sp.factor(slope))
    eps = sp.Symbol("eps", real=True)
    log_delta = d.say("where it is E^(1-a) (1/a) (1 - 1/a)^(a-1). With E_Q[X^a] = exp((a-1) rdp), E = e^eps, log delta is",
                      (order - 1) * (rdp - eps) + sp.log(1 / order) + (order - 1) * sp.log(1 - 1 / order))  # fmt: skip
    (found,) = sp.solve(sp.Eq(log_delta, sp.log(delta)), eps)
    return d.conclude("Solved for eps:", found)


@cache
def _conversion_oracle(order: Any, rdp: Any, delta: Any) -> sp.Float:
    """Search the largest (x - E)/x^a numerically, and the E at which it equals delta/E_Q[X^a]."""
    with mpmath.workdps(60):
        a = mp(order)
        level = mpmath.log(mp(delta)) - (a - 1) * mp(rdp)  # wanted log of the maximum
        # In u = log(x - E) - log E the maximum over x is concave and does not depend on E.
        value = lambda u: u - a * mpmath.log1p(mpmath.exp(u))  # noqa: E731
        best = mpmath.findroot(lambda u: 1 - a / (1 + mpmath.exp(-u)), -mpmath.log(a))
        return to_float((value(best) - level) / (a - 1))


register(
    Claim(
        id="mrmtl:eq13",
        title="From Renyi to approximate differential privacy",
        place="Appendix A, Lemma A.2, (13)",
        statement="""(alpha, eps(alpha))-RDP gives (eps, delta)-DP with this eps. Judged order by order: the formula under
            the infimum is the eps that the pointwise bound on the hockey-stick integrand gives.""",
        latex=r"""\varepsilon(\delta)=\inf_{\alpha>1}\varepsilon(\alpha)+\frac{1}{\alpha-1}\log\left(\frac{1}{\alpha\delta}%
            \right)+\log\left(1-\frac{1}{\alpha}\right)""",
        kind="identity",
        variables=(REAL_ORDER, RDP, TARGET),
        examples=({"order": 8, "rdp": "2/5", "delta": "1/100000"}, {"order": 2, "rdp": 1, "delta": "1/1000"}),
        printed=converted,
        derive=_conversion_derive,
        oracle=_conversion_oracle,
        computed=lambda order, rdp, delta: privacy.epsilon_at_order(order=order, rdp=rdp, delta=delta),
        not_simulated=Exempt(kind="divergence"),
        unit="nats",
        remark="""Canonne, Kamath and Steinke (2020), proposition 12. The infimum over orders is then a choice of the best of
            valid bounds. A negative value is still true as a bound on the hockey-stick divergence. The adjacency is that
            of the Renyi guarantee. Against the exact curve of Gaussian noise: mrmtl:eq13:gaussian.""",
    )
)


def _against_derive(order: Any, step: Any, delta: Any) -> Derivation:
    d = Derivation()
    eps = d.say("Gaussian noise has the divergence order step^2/2 at every order; (13) gives eps =",
                converted(order, order * step**2 / 2, delta))  # fmt: skip
    return d.conclude("The smallest delta at that eps is, exactly (mrmtl:sigma-dp:exact),", curve(eps, step))


def _against_oracle(order: Any, step: Any, delta: Any) -> Any:
    with mpmath.workdps(100):
        a = mp(order)
        eps = a * mp(step) ** 2 / 2 - mpmath.log(a * mp(delta)) / (a - 1) + mpmath.log1p(-1 / a)
        digits = mpmath.nstr(eps, 90)
    return quadrature(sp.Rational(digits), step)


register(
    Claim(
        id="mrmtl:eq13:gaussian",
        title="The conversion against the exact curve of Gaussian noise",
        place="Appendix A, Lemma A.2, (13), for the Gaussian mechanism",
        statement="At the eps of (13), at any order, Gaussian noise really is (eps, delta)-private.",
        latex=r"""\delta\left(\varepsilon(\alpha)+\frac{1}{\alpha-1}\log\left(\frac{1}{\alpha\delta}\right)+\log\left(1-%
            \frac{1}{\alpha}\right)\right)\leq\delta""",
        kind="upper bound",
        variables=(
            Variable("order", "choice", "Renyi order alpha", choices=(sp.Integer(2), sp.Integer(8))),
            Variable("step", "choice", "sensitivity over sigma", choices=(sp.Rational(1, 2), sp.Integer(2))),
            Variable(
                "delta", "fraction", "target delta", within=(sp.Rational(1, 10**6), sp.Rational(1, 2)), why="certified"
            ),
        ),
        examples=({"order": 2, "step": 2, "delta": "1/1000"}, {"order": 8, "step": "1/2", "delta": "1/100000"}),
        printed=lambda delta: delta,
        relation="<=",
        derive=_against_derive,
        oracle=_against_oracle,
        not_computed=Exempt(kind="part", of=("mrmtl:eq13", "mrmtl:sigma-dp:exact")),
        not_simulated=Exempt(kind="divergence"),
        assumes={"law": "gaussian"},
        tight=Tight(at={"order": 8, "step": "1/2", "delta": "1/100000"}, ratio="6.91412553906451"),
        unit="probability",
        related=("mrmtl:eq13", "mrmtl:sigma-dp:exact", "mrmtl:appA:zcdp"),
    )
)

# --- zero-concentrated privacy -----------------------------------------------------------------------------------

SENSITIVITY = Variable("sensitivity", "positive", "Euclidean distance of the releases of two neighbours")
SIGMA = Variable("sigma", "positive", "deviation of the noise per coordinate")
EVERY_ORDER = Variable("order", "positive", "Renyi order alpha > 1", within=(sp.Rational(1001, 1000), 1000), why="formula")


def _zcdp_derive(sensitivity: Any, sigma: Any, order: Any) -> Derivation:
    d = Derivation()
    mu2 = d.say("The log likelihood ratio under P is N(m/2, m) with m =", (sensitivity / sigma) ** 2)
    t = order - 1
    log_moment = d.say("A normal variable has log E[exp(t L)] = t mean + t^2 variance/2, here, with t = a - 1,",
                       t * mu2 / 2 + t**2 * mu2 / 2)  # fmt: skip
    return d.conclude("Over a - 1:", sp.cancel(log_moment / t))


@cache
def _zcdp_oracle(sensitivity: Any, sigma: Any, order: Any) -> sp.Float:
    """The Renyi integral of the two densities, split where its integrand peaks; a = order."""
    with mpmath.workdps(60):
        step, a = mp(sensitivity) / mp(sigma), mp(order)
        peak = a * step  # P^a Q^(1-a) is a normal density around a step, up to a factor
        top = a * (peak - step) ** 2 + (1 - a) * peak**2

        def integrand(x: Any) -> Any:
            return mpmath.exp(-(a * (x - step) ** 2 + (1 - a) * x**2 - top) / 2)

        ends = [peak + k for k in (-18, -8, -3, 0, 3, 8, 18)]
        total = mpmath.quad(integrand, ends, method="gauss-legendre") / mpmath.sqrt(2 * mpmath.pi)
        return to_float((mpmath.log(total) - top / 2) / (a - 1))


def _zcdp_simulate(sensitivity: float, sigma: float, order: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = sensitivity + sigma * gen.standard_normal(reps)
        loss = (x**2 - (x - sensitivity) ** 2) / (2 * sigma**2)
        return np.exp((order - 1) * loss)[:, None]

    return model.divergence_moment(draw, order, labels=["moment of the likelihood ratio"])


register(
    Claim(
        id="mrmtl:appA:zcdp",
        title="Zero-concentrated privacy as Renyi privacy at all orders",
        place="Appendix A, zCDP",
        statement="""rho-zCDP is (alpha, rho alpha)-RDP for all orders alpha > 1. That is Bun and Steinke's definition;
            judged on Gaussian noise, whose divergence is rho alpha exactly, with rho = sensitivity^2/(2 sigma^2).""",
        latex=r"""\rho\text{-zCDP is equivalent to satisfying }(\alpha,\rho\alpha)%
            \text{-Rényi DP simultaneously for all orders }\alpha""",
        kind="identity",
        variables=(SENSITIVITY, SIGMA, EVERY_ORDER),
        examples=({"sensitivity": 1, "sigma": 3, "order": 2}, {"sensitivity": 1, "sigma": 4, "order": 4}),
        printed=lambda sensitivity, sigma, order: sensitivity**2 / (2 * sigma**2) * order,
        derive=_zcdp_derive,
        oracle=_zcdp_oracle,
        computed=lambda sensitivity, sigma, order: privacy.rdp_from_zcdp(
            privacy.gaussian_zcdp(sensitivity=sensitivity, sigma=sigma), order
        ),
        simulate=_zcdp_simulate,
        assumes={"law": "gaussian"},
        unit="nats",
        related=("mrmtl:eq12", "mrmtl:sigma-dp:vector"),
        assumptions=("the adjacency is the one that the sensitivity belongs to",),
        remark="The definition of 2016 has rho-zCDP at orders in (1, oo), so the equivalence is one of words.",
    )
)
