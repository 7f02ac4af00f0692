"""The population behind knowledge distillation, its normaliser, and what AdaPeD puts in its place: Section 6.2.1.

Belongs here: (65), c(psi), what log(2 psi)/2 stands for. Does not belong here: the objective (adaped_objective.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from estimators.closed_forms import distillation
from theory.engine import simulation
from theory.engine.bruteforce import fraction, rational
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.edit import Edit
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.papers.generative.dual import Dual, gradient
from theory.papers.generative.priors import number, precise

PSI = Variable("psi", "positive", "inverse variance of (65)", extreme=False)
P_MU = Variable("p_mu", "fraction", "the global model's probability of label 1", extreme=False)
WORKING = 48  # digits


def _mass(psi: Any, p: Any, power: int = 0) -> Any:
    """Integral over q of KL^power exp(-psi KL(p || q)), by quadrature."""
    p, psi = number(p), number(psi)
    rest = p * mp.log(p) + (1 - p) * mp.log(1 - p)

    def integrand(q: Any) -> Any:
        if q <= 0 or q >= 1:
            return mp.mpf(0)
        divergence = rest - p * mp.log(q) - (1 - p) * mp.log(1 - q)
        return divergence**power * mp.exp(-psi * divergence)

    return mp.quad(integrand, [0, p, 1])


# --- the normaliser --------------------------------------------------------------------------------------------------


def _density_derive(psi: Any, p_mu: Any) -> Derivation:
    d, q = Derivation(), sp.Symbol("q", positive=True)
    divergence = d.say("One input with p(x) = 1. The divergence of the global from the client's label:",
                       p_mu * (sp.log(p_mu) - sp.log(q)) + (1 - p_mu) * (sp.log(1 - p_mu) - sp.log(1 - q)))  # fmt: skip
    exponent = sp.expand(-psi * divergence)
    powers = d.say("exp(-psi KL) has these powers of q and 1 - q:",
                   tuple(sp.factor(exponent.coeff(sp.log(z))) for z in (q, 1 - q)))  # fmt: skip
    rest = d.say("times the exponential of", -psi * divergence.subs({sp.log(q): 0, sp.log(1 - q): 0}))
    integral = d.say("Euler's integral gives for the powers", sp.beta(1 + powers[0], 1 + powers[1]))
    return d.conclude("log c is minus the logarithm of their product:", -rest - sp.log(integral))


def _density_printed(psi: Any, p_mu: Any) -> Any:
    H = -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu)
    return -psi * H - sp.log(sp.beta(1 + p_mu / psi, 1 + (1 - p_mu) / psi))


def _density_corrected(psi: Any, p_mu: Any) -> Any:
    H = -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu)
    return -psi * H - sp.log(sp.beta(1 + p_mu * psi, 1 + (1 - p_mu) * psi))


def _density_oracle(psi: Any, p_mu: Any) -> Any:
    with mp.workdps(WORKING):
        return precise(-mp.log(_mass(psi, p_mu)))


def _density_simulate(psi: float, p_mu: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        q = gen.random(reps)
        divergence = p_mu * np.log(p_mu / q) + (1 - p_mu) * np.log((1 - p_mu) / (1 - q))
        return np.exp(-psi * divergence)[:, None]

    # uniform q: the mean of exp(-psi KL) is the mass, 1/c
    return simulation.sample_means(
        draw, labels=("mass",), of=[lambda log_c: np.exp(-log_c)], back=[lambda mass: -np.log(mass)]
    )


register(
    Claim(
        id="generative:kd:density",
        title="Normaliser of the distillation density",
        place="Section 6.2.1, (65) and the text after it",
        statement="""The density c(psi) exp(-psi KL(p_mu || p_theta)) of a client's label probabilities is normalised by this
            c(psi). Judged for one input, as log c.""",
        latex=r"""c(\psi)=\frac{e^{-\psi\sum_{x}p(x)H(p_{\bm{\mu}}(x))}}%
            {\prod_{x}B\left(1+\frac{p_{\bm{\mu}}(x)}{\psi p(x)},1+\frac{1-p_{\bm{\mu}}(x)}{\psi p(x)}\right)}""",
        kind="identity",
        variables=(PSI, P_MU),
        examples=({"psi": 2, "p_mu": "1/2"},),
        printed=_density_printed,
        derive=_density_derive,
        oracle=_density_oracle,
        corrected=_density_corrected,
        corrected_text="B(1 + psi p(x) p_mu(x), 1 + psi p(x) (1 - p_mu(x)))",
        slip="psi p(x) stands in the exponent as a factor and is printed as a divisor",
        counterexample={"psi": 2, "p_mu": "1/2"},
        computed=lambda psi, p_mu: distillation.log_normalizer(psi, p_mu),
        simulate=_density_simulate,
        finding="The strength multiplies the probabilities in the exponent; in the normaliser it divides them.",
        unit="nats",
        remark="""Equal only where psi p(x) = 1. So each q(x) is Beta(1 + psi p(x) p_mu, 1 + psi p(x)(1 - p_mu)), with its
            mode at p_mu. The psi of (65) is an inverse variance; that of (23) is a variance: psi_(65) = 1/(2 psi_(23)).""",
    )
)

POWER_SHARE = Variable("p_x", "fraction", "p(x), the probability of the input", extreme=False)
Q = Variable("q", "fraction", "the client's probability of label 1", extreme=False)


def _expanded_printed(psi: Any, p_x: Any, p_mu: Any, q: Any) -> Any:
    H = -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu)
    return psi * p_x * H + psi * p_x * (p_mu * sp.log(q) + (1 - p_mu) * sp.log(1 - q))


def _expanded_derive(psi: Any, p_x: Any, p_mu: Any, q: Any) -> Derivation:
    d = Derivation()
    divergence = d.say("Divergence of the labels of one input, sum of p_mu(y) log(p_mu(y)/p_theta(y)):",
                       p_mu * sp.log(p_mu / q) + (1 - p_mu) * sp.log((1 - p_mu) / (1 - q)))  # fmt: skip
    return d.conclude("The logarithm of (65) but for log c:", sp.expand_log(-psi * p_x * divergence, force=True))


def _expanded_oracle(psi: Any, p_x: Any, p_mu: Any, q: Any) -> Any:
    """The integral over the client's log-odds from the global model's to its own: the slope there is the difference."""
    with mp.workdps(WORKING + 20):
        p, c = number(p_mu), number(q)
        start, end = mp.log(p / (1 - p)), mp.log(c / (1 - c))
        divergence = mp.quad(lambda z: 1 / (1 + mp.exp(-z)) - p, [start, end])
        return precise(-number(psi) * number(p_x) * divergence)


register(
    Claim(
        id="generative:kd:expanded",
        title="The distillation density with its divergence written out",
        place="Section 6.2.1, displays between (65) and the normaliser",
        statement="""exp(-psi KL) is exp(psi sum p(x) H) times the exponential of psi times the mean log-probability of the
            global model's labels under the client's. Judged for one input of probability p(x), as a logarithm.""",
        latex=r"""p_{p_{\bm{\mu}}}(p_{\bm{\theta}_{i}})=c(\psi)e^{\psi\sum_{x}p(x)H(p_{\bm{\mu}}(x))}%
            e^{\psi\sum_{x}p(x)(p_{\bm{\mu}}(x)\log(q_{i}(x))+(1-p_{\bm{\mu}}(x))\log(1-q_{i}(x))))}""",
        edits=(
            Edit(
                printed=r"\log(1-q_{i}(x))))}",
                read=r"\log(1-q_{i}(x)))}",
                reason="the display has a closing bracket too many",
            ),
        ),
        kind="identity",
        variables=(PSI, POWER_SHARE, P_MU, Q),
        examples=({"psi": 2, "p_x": "1/2", "p_mu": "1/2", "q": "1/4"},),
        printed=_expanded_printed,
        derive=_expanded_derive,
        oracle=_expanded_oracle,
        not_computed=Exempt(kind="part", of=("generative:kd:density",)),
        not_simulated=Exempt(kind="deterministic"),
        unit="nats",
        related=("generative:kd:density",),
    )
)

STRENGTH = Variable("strength", "positive", "psi p(x)", extreme=False)


def _integral_printed(strength: Any, p_mu: Any) -> Any:
    return sp.beta(1 + p_mu / strength, 1 + (1 - p_mu) / strength)


def _integral_corrected(strength: Any, p_mu: Any) -> Any:
    return sp.beta(1 + p_mu * strength, 1 + (1 - p_mu) * strength)


def _integral_derive(strength: Any, p_mu: Any) -> Derivation:
    d, q = Derivation(), sp.Symbol("q", positive=True)
    exponent = d.say("Exponent:", sp.expand(strength * (p_mu * sp.log(q) + (1 - p_mu) * sp.log(1 - q))))
    powers = d.say("So the integrand has these powers of q and 1 - q:",
                   tuple(sp.factor(exponent.coeff(sp.log(z))) for z in (q, 1 - q)))  # fmt: skip
    return d.conclude("By Euler's integral:", sp.beta(powers[0] + 1, powers[1] + 1))


def _integral_oracle(strength: Any, p_mu: Any) -> Any:
    """Quadrature of the integrand as it stands."""
    with mp.workdps(WORKING):
        s, p = number(strength), number(p_mu)

        def integrand(q: Any) -> Any:
            return mp.exp(s * (p * mp.log(q) + (1 - p) * mp.log(1 - q))) if 0 < q < 1 else mp.mpf(0)

        return precise(mp.quad(integrand, [0, p, 1]))


def _integral_simulate(strength: float, p_mu: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        q = gen.random(reps)
        return np.exp(strength * (p_mu * np.log(q) + (1 - p_mu) * np.log(1 - q)))[:, None]

    return simulation.sample_means(draw, labels=("integral",))


def _integral_computed(strength: float, p_mu: float) -> float:
    """From the normaliser, whose logarithm is that of the integral less the entropy's part."""
    return float(np.exp(-distillation.log_normalizer(strength, p_mu) - strength * distillation.entropy(np.array(p_mu))))


register(
    Claim(
        id="generative:kd:integral",
        title="The integral in the distillation normaliser",
        place="Section 6.2.1, display after 'Note that'",
        statement="""The integral over a client's label probability q of q and 1 - q to the powers that psi p(x) and p_mu set
            is this Beta function.""",
        latex=r"""\int_{0}^{1}e^{\psi p(x)(p_{\bm{\mu}}(x)\log(q_{i}(x))+(1-p_{\bm{\mu}}(x))\log(1-q_{i}(x))))}dq_{i}(x)=B%
            \left(1+\frac{p_{\bm{\mu}}(x)}{\psi p(x)},1+\frac{1-p_{\bm{\mu}}(x)}{\psi p(x)}\right)""",
        edits=(
            Edit(
                printed=r"\log(1-q_{i}(x))))}",
                read=r"\log(1-q_{i}(x)))}",
                reason="the display has a closing bracket too many",
            ),
        ),
        kind="identity",
        variables=(STRENGTH, P_MU),
        examples=({"strength": 2, "p_mu": "1/2"},),
        printed=_integral_printed,
        derive=_integral_derive,
        oracle=_integral_oracle,
        corrected=_integral_corrected,
        corrected_text="B(1 + psi p(x) p_mu(x), 1 + psi p(x) (1 - p_mu(x)))",
        slip="psi p(x) stands in the exponent as a factor and is printed as a divisor",
        counterexample={"strength": 2, "p_mu": "1/2"},
        computed=_integral_computed,
        simulate=_integral_simulate,
        finding="The strength multiplies the probabilities in the exponent; in the Beta function it divides them.",
        unit="dimensionless",
        related=("generative:kd:density",),
    )
)

POWER = Variable("a", "size", "psi p(x) p_mu(x) of each input", lengths=(1, 2), extreme=False)
REST = Variable("b", "size", "psi p(x) (1 - p_mu(x)) of each input", lengths=(1, 2), extreme=False)


def _inputs_derive(a: list[Any], b: list[Any]) -> Derivation:
    d, value = Derivation(), sp.Integer(1)
    for i, (s, t) in enumerate(zip(a, b, strict=True), 1):
        likely = s / (s + t)
        peak = likely**s * (1 - likely) ** t
        d.say(f"Input {i}: exp(-psi p(x) KL) is (q/p_mu)^a ((1-q)/(1-p_mu))^b, with p_mu = a/(a + b).")
        value *= d.say("Its integral's inverse:", peak * sp.gamma(s + t + 2) / (sp.gamma(s + 1) * sp.gamma(t + 1)))
    return d.conclude("The inputs are independent:", value)


def _inputs_oracle(a: list[Any], b: list[Any]) -> Any:
    """Whole powers: expand (1 - q)^b and integrate term by term, in fractions."""
    value = Fraction(1)
    for s, t in zip(map(int, a), map(int, b), strict=True):
        integral = sum(Fraction((-1) ** k * int(sp.binomial(t, k)), s + k + 1) for k in range(t + 1))
        value *= Fraction(s, s + t) ** s * Fraction(t, s + t) ** t / integral
    return rational(value)


def _inputs_printed(a: list[Any], b: list[Any]) -> Any:
    value = sp.Integer(1)
    for s, t in zip(a, b, strict=True):
        value *= (s / (s + t)) ** s * (t / (s + t)) ** t * sp.gamma(s + t + 2) / (sp.gamma(s + 1) * sp.gamma(t + 1))
    return value


def _inputs_computed(a: list[float], b: list[float]) -> float:
    both = np.add(a, b)
    return np.exp(distillation.log_normalizer(both.sum(), a / both, both / both.sum()))


def _inputs_simulate(a: list[float], b: list[float]) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        mass = np.ones(reps)
        for s, t in zip(a, b, strict=True):
            likely, q = s / (s + t), gen.random(reps)
            mass *= np.exp(s * np.log(q / likely) + t * np.log((1 - q) / (1 - likely)))
        return mass[:, None]

    # uniform label probabilities: the mean of exp(-psi KL) is 1/c
    return simulation.sample_means(draw, labels=("mass",), of=[lambda c: 1 / c], back=[lambda mass: 1 / mass])


register(
    Claim(
        id="generative:kd:density:inputs",
        title="Normaliser of the distillation density, several inputs",
        place="Section 6.2.1; corrects the text after (65)",
        statement="""With a = psi p(x) p_mu(x) and b = psi p(x) (1 - p_mu(x)) for every input, c(psi) is the product of
            p_mu^a (1 - p_mu)^b/B(1 + a, 1 + b). Judged at whole a and b, exactly.""",
        latex=r"""c(\psi)=\prod_x\frac{p_\mu(x)^{a_x}(1-p_\mu(x))^{b_x}}{B(1+a_x,1+b_x)},\quad a_x=\psi
            p(x)p_\mu(x),\ b_x=\psi p(x)(1-p_\mu(x))""",
        kind="identity",
        variables=(POWER, REST),
        examples=({"a": [1, 2], "b": [1, 3]},),
        printed=_inputs_printed,
        derive=_inputs_derive,
        oracle=_inputs_oracle,
        ours=True,
        computed=_inputs_computed,
        simulate=_inputs_simulate,
        unit="dimensionless",
        related=("generative:kd:density",),
    )
)  # fmt: skip

# --- the stand-in ----------------------------------------------------------------------------------------------------

VARIANCE = Variable("psi", "positive", "variance of (23), 1/(2 psi) in (65)", extreme=False)


def _slope(psi: Any, p_mu: Any) -> Any:
    """Slope in the variance of minus the logarithm of the normaliser."""
    w = 1 / (2 * psi)
    H = -p_mu * sp.log(p_mu) - (1 - p_mu) * sp.log(1 - p_mu)
    mean = sp.digamma(2 + w) - p_mu * sp.digamma(1 + w * p_mu) - (1 - p_mu) * sp.digamma(1 + w * (1 - p_mu)) - H
    return mean / (2 * psi**2)


def _slope_derive(psi: Any, p_mu: Any) -> Derivation:
    d, w = Derivation(), sp.Symbol("w", positive=True)
    log_c = d.lemma("generative:kd:density", "log c at the inverse variance w, one input:", psi=w, p_mu=p_mu)
    slope = d.say("Slope of minus it in w:", -sp.diff(log_c, w))
    return d.conclude("With w = 1/(2 psi), dw/dpsi = -1/(2 psi^2):", -slope.subs(w, 1 / (2 * psi)) / (2 * psi**2))


def _slope_oracle(psi: Any, p_mu: Any) -> Any:
    """The mean divergence under the density, by two quadratures: d log(mass)/dw = -E[KL]."""
    with mp.workdps(WORKING):
        w = 1 / (2 * psi)
        mean = _mass(w, p_mu, 1) / _mass(w, p_mu)
        return precise(mean / (2 * number(psi) ** 2))


def _slope_simulate(psi: float, p_mu: float) -> simulation.Simulation:
    w = 1 / (2 * psi)

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        q = gen.beta(1 + w * p_mu, 1 + w * (1 - p_mu), reps)
        divergence = p_mu * np.log(p_mu / q) + (1 - p_mu) * np.log((1 - p_mu) / (1 - q))
        return (divergence / (2 * psi**2))[:, None]

    return simulation.sample_means(draw, labels=("slope",))


register(
    Claim(
        id="generative:kd:regulariser:slope",
        title="Slope of the term that log(2 psi)/2 replaces",
        place="Section 6.2.1, last paragraph; (23); line 14 of Algorithm 5",
        statement="""The term -log c(psi) may be taken to be log(2 psi)/2, whose slope in psi is 1/(2 psi). Judged against
            the slope of -log c for one input, in the variance psi of (23).""",
        latex=r"""\text{For numerical purpose, we take the additional term }-\log\left(%
            \frac{e^{-\psi\sum_{x}p(x)H(p_{\bm{\mu}}(x))}}{\prod_{x}B(1+\frac{p_{\bm{\mu}}(x)}{\psi p(x)},1+%
            \frac{1-p_{\bm{\mu}}(x)}{\psi p(x)})}\right)\text{ to be simple }\frac{1}{2}\log(2\psi)""",
        kind="identity",
        variables=(VARIANCE, P_MU),
        examples=({"psi": 1, "p_mu": "1/2"},),
        printed=lambda psi: 1 / (2 * psi),
        derive=_slope_derive,
        oracle=_slope_oracle,
        corrected=_slope,
        corrected_text="""E[KL]/(2 psi^2), with E[KL] = digamma(2 + w) - p digamma(1 + w p) - (1 - p) digamma(1 + w (1 - p))
            - H(p) and w = 1/(2 psi)""",
        counterexample={"psi": 1, "p_mu": "1/2"},
        computed=lambda psi, p_mu: distillation.variance_penalty(psi, p_mu)[1],
        simulate=_slope_simulate,
        finding="The simple stand-in for the normaliser has another slope, which matters most where models differ much.",
        unit="1/variance",
        related=("generative:kd:density",),
        remark="""The paper calls it a simplification. It is right to leading order as psi vanishes
            (generative:kd:regulariser); as psi grows the true term rises to 0 and its slope falls like 1/psi^2, so
            nothing but the data bounds psi, while log(2 psi)/2 grows without end.""",
    )
)

P_MUS = Variable(
    "p_mus", "fraction", "the global model's probability of label 1 for each input", lengths=(1, 2, 3), extreme=False
)


def _count_derive(p_mus: list[Any]) -> Derivation:
    d, w = Derivation(), sp.Symbol("w", positive=True)
    d.say("Large w: digamma(1 + z) = log z + 1/(2z) and digamma(2 + z) = log z + 3/(2z), up to terms in 1/z^2.")
    total = sp.Integer(0)
    for i, p in enumerate(p_mus, 1):
        parts = [(p, sp.log(w) + sp.log(p), p), (1 - p, sp.log(w) + sp.log(1 - p), 1 - p)]
        H = -p * sp.log(p) - (1 - p) * sp.log(1 - p)
        mean = sp.log(w) + 3 / (2 * w) - H - sum(s * (log + 1 / (2 * w * z)) for s, log, z in parts)
        total += d.say(f"Input {i}: w times the mean divergence (generative:kd:regulariser:slope) tends to",
                       sp.simplify(sp.expand(mean)) * w)  # fmt: skip
    d.say("With w = p(x)/(2 psi), p(x) times the mean divergence over 2 psi^2 is that over psi.")
    return d.conclude("2 psi times the slope therefore tends to", 2 * total)


def _count_oracle(p_mus: list[Any]) -> Any:
    """The slope itself at psi = 10^-45, where what is left out is of order psi."""
    with mp.workdps(150):
        psi, total = mp.mpf(10) ** -45, mp.mpf(0)
        for p in map(number, p_mus):
            share = mp.mpf(1) / len(p_mus)

            def log_mass(w: Any, p: Any = p) -> Any:
                rest = p * mp.log(p) + (1 - p) * mp.log(1 - p)
                return mp.log(mp.beta(1 + w * p, 1 + w * (1 - p))) - w * rest

            low, high = share / (2 * psi * (1 + mp.mpf(10) ** -50)), share / (2 * psi)
            total += 2 * (log_mass(low) - log_mass(high)) / mp.log(1 + mp.mpf(10) ** -50)
        return precise(mp.nstr(total, 40))


register(
    Claim(
        id="generative:kd:regulariser",
        title="log(2 psi)/2 in place of the distillation normaliser",
        place="Section 6.2.1, last paragraph; (23)",
        statement="""As psi vanishes, log(2 psi)/2 has the slope of -log c: 2 psi times the slope tends to 1. Judged for
            inputs of equal probability with binary labels.""",
        latex=r"""\text{For numerical purpose, we take the additional term }-\log\left(%
            \frac{e^{-\psi\sum_{x}p(x)H(p_{\bm{\mu}}(x))}}{\prod_{x}B(1+\frac{p_{\bm{\mu}}(x)}{\psi p(x)},1+%
            \frac{1-p_{\bm{\mu}}(x)}{\psi p(x)})}\right)\text{ to be simple }\frac{1}{2}\log(2\psi)%
            \text{. As mentioned in Section 3.4, this serves the purpose of regularizing }\psi""",
        kind="limit",
        variables=(P_MUS,),
        examples=({"p_mus": ["1/2"]}, {"p_mus": ["1/2", "1/3"]}),
        printed=lambda: sp.Integer(1),
        derive=_count_derive,
        oracle=_count_oracle,
        condition=lambda p_mus: sp.true if len(p_mus) == 1 else sp.false,
        condition_text="len(p_mus) == 1 (one input)",
        counterexample={"p_mus": ["1/2", "1/2"]},
        not_computed=Exempt(kind="limit", of=("generative:kd:regulariser:slope",)),
        not_simulated=Exempt(kind="limit", of=("generative:kd:regulariser:slope",)),
        finding="The stand-in is half a logarithm whatever the number of inputs, where each input brings another half.",
        unit="dimensionless",
        related=("generative:kd:regulariser:slope",),
        remark="""In general the limit is the number of free probabilities, here one per input: (|X|/2) log(2 psi), as case 1
            has d/2 for d coordinates. MNIST's many inputs make the stand-in far too weak. A global model that is certain
            changes the limit (generative:kd:regulariser:certain).""",
    )
)

V = Variable("psi", "positive", "variance of (23)", extreme=False)
INPUTS = Variable("inputs", "size", "number of inputs, equally probable", extreme=False)


def _certain_derive(psi: Any, inputs: Any) -> Derivation:
    d, q, v = Derivation(), sp.Symbol("q", positive=True), sp.Symbol("v", positive=True)
    w = sp.Symbol("w", positive=True)
    d.say("For p_mu = 1 the divergence is -log q, so exp(-w KL) = q^w.")
    mass = d.say("Its integral over q in (0, 1), for each input:", sp.integrate(q**w, (q, 0, 1)))
    term = d.say("Minus log c with w = 1/(2 psi inputs):", inputs * sp.log(mass.subs(w, 1 / (2 * v * inputs))))
    return d.conclude("2 psi times its slope:", sp.cancel(sp.together(2 * psi * sp.diff(term, v).subs(v, psi))))


def _certain_oracle(psi: Any, inputs: Any) -> Any:
    def log_mass(v: Dual) -> Dual:
        return (1 / (1 / (v * (2 * fraction(inputs))) + 1)).log() * fraction(inputs)

    return 2 * psi * gradient(log_mass, [psi])[0]


def _certain_simulate(psi: float, inputs: int) -> simulation.Simulation:
    """Mean divergence -log q of label probabilities from the density, which is in proportion to q^w, over psi."""

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        q = gen.beta(1 + 1 / (2 * psi * inputs), 1.0, (reps, int(inputs)))
        return np.mean(-np.log(q), axis=1, keepdims=True) / psi

    return simulation.sample_means(draw, labels=("slope",))


register(
    Claim(
        id="generative:kd:regulariser:certain",
        title="The stand-in where the global model is certain",
        place="Section 6.2.1, last paragraph; (23)",
        statement="""2 psi times the slope of -log c is 1, as for log(2 psi)/2. Judged for a global model with p_mu = 1 on
            every input.""",
        latex=r"""\text{For numerical purpose, we take the additional term }-\log\left(%
            \frac{e^{-\psi\sum_{x}p(x)H(p_{\bm{\mu}}(x))}}{\prod_{x}B(1+\frac{p_{\bm{\mu}}(x)}{\psi p(x)},1+%
            \frac{1-p_{\bm{\mu}}(x)}{\psi p(x)})}\right)\text{ to be simple }\frac{1}{2}\log(2\psi)""",
        kind="identity",
        variables=(V, INPUTS),
        examples=({"psi": 1, "inputs": 1},),
        printed=lambda: sp.Integer(1),
        derive=_certain_derive,
        oracle=_certain_oracle,
        corrected=lambda psi, inputs: 2 * inputs / (1 + 2 * psi * inputs),
        corrected_text="2 |X|/(1 + 2 psi |X|)",
        counterexample={"psi": 1, "inputs": 1},
        computed=lambda psi, inputs: 2 * psi * distillation.variance_penalty(psi, np.ones(int(inputs)))[1],
        simulate=_certain_simulate,
        finding="Where the global model is certain, the stand-in has another slope than the term that it replaces.",
        unit="dimensionless",
        related=("generative:kd:regulariser:slope",),
        remark="It tends to 2|X| as psi vanishes, twice the value of an uncertain model, and to 0 as psi grows.",
    )
)
