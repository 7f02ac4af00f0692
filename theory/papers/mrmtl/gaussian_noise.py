"""Section 6 and Assumption E.2: what Gaussian noise and clipping do, exactly.

Belongs here: the delta curve of Gaussian noise in any dimension, where the classical calibration is valid and where it
fails, a clipping bound that clips nothing. Does not belong here: the adjacency of the paper's noise (privacy.py).
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, arb

from estimators.accounting import mechanisms, privacy
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.intervals import number
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.mrmtl.privacy import bits, decimal, hockey_stick

HALF = sp.Rational(1, 2)
SENSITIVITY = Variable(
    "sensitivity", "positive", "Euclidean distance of the releases of two neighbours", within=(HALF, 2), why="digits"
)
SIGMA = Variable("sigma", "positive", "deviation of the noise per coordinate", within=(HALF, 2), why="digits")


def tail(x: Any) -> Any:
    """Probability that a standard normal exceeds x."""
    return sp.erfc(x / sp.sqrt(2)) / 2


def curve(eps: Any, step: Any) -> Any:
    """Smallest delta at eps of Gaussian noise with sensitivity/sigma = step."""
    return tail(eps / step - step / 2) - sp.exp(eps) * tail(eps / step + step / 2)


def _say_curve(d: Derivation, eps: Any, step: Any) -> Any:
    d.say("""Along the direction in which the releases differ the outputs are N(mu, 1) against N(0, 1) in units of sigma, in
        all others alike, with mu =""", step)  # fmt: skip
    d.say("""The smallest delta is the largest P(S) - e^eps Q(S), reached where the likelihood ratio exp(mu x - mu^2/2)
        exceeds e^eps, that is for x >""", eps / step + step / 2)  # fmt: skip
    near, far = (sp.erfc(x / sp.sqrt(2)) / 2 for x in (eps / step - step / 2, eps / step + step / 2))
    d.say("Under N(mu, 1) and N(0, 1) this has the probabilities", (near, far))
    return d.say("whose difference, the second times e^eps, is", near - sp.exp(eps) * far)


def _exact_derive(eps: Any, sensitivity: Any, sigma: Any) -> Derivation:
    d = Derivation()
    found = _say_curve(d, eps, sensitivity / sigma)
    return d.conclude("By symmetry the other order of the two neighbours gives the same:", found)


@cache
def quadrature(eps: Any, step: Any) -> sp.Float:
    """Return the delta of the curve as an integral of the hockey stick."""
    with bits(320):
        return sp.Float(decimal(hockey_stick(number(eps), number(step))), 60)


def _exact_simulate(eps: float, sensitivity: float, sigma: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = sensitivity + sigma * gen.standard_normal(reps)
        loss = (x**2 - (x - sensitivity) ** 2) / (2 * sigma**2)
        return -np.expm1(np.minimum(eps - loss, 0.0))[:, None]

    return simulation.sample_means(draw, labels=["mean of (1 - e^(eps - privacy loss))_+"])


register(
    Claim(
        id="mrmtl:sigma-dp:exact",
        title="Exact curve of Gaussian noise",
        place="Section 2 and Section 6 use the Gaussian mechanism; the curve is Balle and Wang (2018), theorem 8",
        statement="""Smallest delta at which Gaussian noise on a release of this sensitivity is (eps, delta)-private, in any
            dimension and for every eps.""",
        latex=r"""\delta(\varepsilon)=\Phi\left(\frac{\Delta}{2\sigma}-\frac{\varepsilon\sigma}{\Delta}\right)%
            -e^{\varepsilon}\Phi\left(-\frac{\Delta}{2\sigma}-\frac{\varepsilon\sigma}{\Delta}\right)""",
        kind="probability",
        variables=(
            Variable("eps", "positive", "privacy budget eps", within=(sp.Rational(1, 100), 8), why="digits"),
            SENSITIVITY,
            SIGMA,
        ),
        examples=({"eps": "1/2", "sensitivity": 1, "sigma": 1}, {"eps": 1, "sensitivity": 2, "sigma": "3/4"}),
        printed=lambda eps, sensitivity, sigma: curve(eps, sensitivity / sigma),
        derive=_exact_derive,
        oracle=lambda eps, sensitivity, sigma: quadrature(eps, sensitivity / sigma),
        computed=lambda eps, sensitivity, sigma: privacy.gaussian_delta(eps=eps, sensitivity=sensitivity, sigma=sigma),
        simulate=_exact_simulate,
        ours=True,
        assumes={"law": "gaussian"},
        unit="probability",
        related=("mrmtl:sigma-dp:vector",),
        assumptions=("the adjacency is the one that the sensitivity belongs to",),
    )
)

CHANGES = Variable("changes", "real", "change of each coordinate of the release between neighbours", lengths=(1, 2, 3))


def _vector_derive(changes: list[Any], sigma: Any) -> Derivation:
    d = Derivation()
    d.say("""A coordinate is v N(0,1) sigma away from its value; its log likelihood ratio against the neighbour's value, at
        output x, is a x/sigma^2 - a^2/(2 sigma^2), x counted from the neighbour's value, a the change.""")  # fmt: skip
    each = [(a * a / sigma**2 - a**2 / (2 * sigma**2), (a / sigma) ** 2) for a in changes]
    d.say("Under the first value x is N(a, sigma^2), so mean and variance of the ratio are", each[0])
    d.say("""Coordinates carry independent noise, so the ratios add up, with their means and variances; a sum of normal
        variables is normal, and so two numbers say all.""")  # fmt: skip
    return d.conclude("Mean and variance of the privacy loss:", (sum(m for m, _ in each), sum(v for _, v in each)))


def _vector_oracle(changes: list[Any], sigma: Any) -> tuple[Any, Any]:
    """Three-point Gauss-Hermite rule in every coordinate: exact for polynomials of degree 5; in numbers a + b sqrt(3)."""
    nodes = [(-1, sp.Rational(1, 6)), (0, sp.Rational(2, 3)), (1, sp.Rational(1, 6))]  # times sqrt(3)
    mean = square = sp.Integer(0)
    for point in product(nodes, repeat=len(changes)):
        weight = sp.prod([w for _, w in point])
        # loss = plain + slope sqrt(3): log density at the value minus log density at the neighbour's value
        plain = sum((a**2 for a in changes), sp.Integer(0)) / (2 * sigma**2)
        slope = sum(k * a for (k, _), a in zip(point, changes, strict=True)) / sigma
        mean += weight * plain  # odd powers of sqrt(3) cancel between mirrored points
        square += weight * (plain**2 + 3 * slope**2)
    return mean, square - mean**2


def _vector_simulate(changes: list[float], sigma: float) -> simulation.Simulation:
    a = np.asarray(changes)
    centre = float(np.sum(a**2)) / (2 * sigma**2)  # any number near the mean will do

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = a + sigma * gen.standard_normal((reps, len(a)))
        loss = np.sum(x**2 - (x - a) ** 2, axis=1) / (2 * sigma**2)
        return np.stack([loss, (loss - centre) ** 2], axis=1)

    return simulation.sample_means(
        draw, labels=["mean of the loss", "spread of the loss"], draws=len(a), of=[0, lambda v: v[1] + (v[0] - centre) ** 2]
    )


register(
    Claim(
        id="mrmtl:sigma-dp:vector",
        title="The Gaussian mechanism in d dimensions",
        place="Section 2 (Gaussian mechanism with l2-bounded contributions), Section 5 (noise covariance sigma^2 I)",
        statement="""With noise N(0, sigma^2 I) the privacy loss between neighbours is normal, and its mean and variance
            depend on the Euclidean distance of the two releases only; so d dimensions are as private as one of that
            distance.""",
        latex=r"L\sim\mathcal{N}\left(\frac{\|\Delta\|_2^2}{2\sigma^2},\ \frac{\|\Delta\|_2^2}{\sigma^2}\right)",
        kind="identity",
        variables=(CHANGES, Variable("sigma", "positive", "deviation of the noise per coordinate")),
        examples=({"changes": ["1", "-1/2"], "sigma": 1}, {"changes": ["1", "1", "2"], "sigma": 2}),
        printed=lambda changes, sigma: (
            sum(a**2 for a in changes) / (2 * sigma**2),
            sum(a**2 for a in changes) / sigma**2,
        ),
        derive=_vector_derive,
        oracle=_vector_oracle,
        computed=lambda changes, sigma: tuple(
            k * privacy.gaussian_zcdp(sensitivity=np.linalg.norm(changes), sigma=sigma) for k in (1, 2)
        ),
        simulate=_vector_simulate,
        ours=True,
        entries=("mean of the privacy loss", "its variance"),
        assumes={"law": "gaussian"},
        unit="nats",
    )
)

# --- where the classical calibration is valid -------------------------------------------------------------------

CLASSICAL_DELTA = Variable("delta", "fraction", "privacy budget delta", within=("1e-30", "999999/1000000"), why="certified")
_DELTAS = tuple(sp.Rational(1, 10**k) for k in (3, 5, 7, 9))
FIXED_DELTA = Variable("delta", "choice", "privacy budget delta", choices=_DELTAS)
MODERATE = Variable("eps", "positive", "privacy budget eps", within=("1/1000000", "7/2"), why="certified")
LARGE = Variable("eps", "positive", "privacy budget eps", within=(10, 40), why="certified")
ANY_SENSITIVITY = Variable("sensitivity", "positive", "Euclidean distance of the releases of two neighbours")


def _classical_derive(eps: Any, delta: Any, sensitivity: Any) -> Derivation:
    d = Derivation()
    sigma = d.say("The noise has deviation", sensitivity * sp.sqrt(2 * sp.log(sp.Rational(5, 4) / delta)) / eps)
    found = _say_curve(d, eps, sensitivity / sigma)
    return d.conclude("This is the delta that it really gives (mrmtl:sigma-dp:exact):", found)


@cache
def _classical_oracle(eps: Any, delta: Any) -> sp.Float:
    with bits(320):
        step = number(eps) / (2 * (number(sp.Rational(5, 4)) / number(delta)).log()).sqrt()
        return sp.Float(decimal(hockey_stick(number(eps), step)), 60)


def _classical_computed(eps: float, delta: float, sensitivity: float) -> float:
    sigma = sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / eps  # beyond 3.5 the estimator refuses
    if eps <= mechanisms.CLASSICAL_EPS:
        sigma = mechanisms.classical_gaussian_sigma(eps=eps, delta=delta, sensitivity=sensitivity)
    return privacy.gaussian_delta(eps=eps, sensitivity=sensitivity, sigma=sigma)


_CLASSICAL = {
    "place": "Section 6, Setup: the formula of sigma_DP, with the sensitivity in the place of c",
    "latex": r"\sigma=\Delta\sqrt{2\ln(1.25/\delta)}/\varepsilon",
    "printed": lambda delta: delta,
    "derive": _classical_derive,
    "oracle": lambda eps, delta, sensitivity: _classical_oracle(eps, delta),
    "computed": _classical_computed,
    "unit": "probability",
    "ours": True,
    "related": ("mrmtl:sigma-dp:exact",),
    "assumptions": ("the adjacency is the one that the sensitivity belongs to",),
}

register(
    Claim(
        id="mrmtl:sigma-dp:classical",
        title="Where the classical noise is enough",
        statement="""The classical noise with the right sensitivity gives (eps, delta) for every eps up to 7/2 and every
            delta. Judged: the delta that it really gives is at most delta.""",
        kind="upper bound",
        variables=(MODERATE, CLASSICAL_DELTA, ANY_SENSITIVITY),
        examples=({"eps": 1, "delta": "1/100000", "sensitivity": 1}, {"eps": "7/2", "delta": "9/10", "sensitivity": 2}),
        relation="<=",
        not_simulated=Exempt(kind="part", of=("mrmtl:sigma-dp:exact",)),
        assumes={"law": "gaussian"},
        tight=Tight(at={"eps": "7/2", "delta": "9/10", "sensitivity": 2}, ratio="1.04425062812542"),
        remark="""Certified on 1e-6 <= eps <= 7/2, 1e-30 <= delta <= 1 - 1e-6. The textbook proof asks eps < 1. With h =
            eps/(2s), s = sqrt(2 ln(1.25/delta)), the claim reads e^(eps/2 - h^2/2) (R(s-h) - R(s+h)) <= 1.25 sqrt(2 pi)
            for the Mills ratio R, whose left side is below e^(eps/2) sqrt(pi/2) where s >= h; so it holds for every eps
            <= 2 ln(5/2) = 1.83 there without any computation. The limit depends on delta: 3.79 at delta = 0.9, 8.42 at
            1e-5, 10.25 at 1e-12.""",
        **_CLASSICAL,
    )
)
register(
    Claim(
        id="mrmtl:sigma-dp:large-eps",
        title="Where the classical noise is too small",
        statement="""For eps from 10 on the classical noise, even with the right sensitivity, is not (eps, delta)-private.
            Judged: the delta that it really gives is at least delta.""",
        kind="lower bound",
        variables=(LARGE, FIXED_DELTA, ANY_SENSITIVITY),
        examples=({"eps": 12, "delta": "1/100000", "sensitivity": 1}, {"eps": 20, "delta": "1/1000", "sensitivity": 2}),
        relation=">=",
        not_simulated=Exempt(kind="part", of=("mrmtl:sigma-dp:exact",)),
        assumes={"law": "gaussian"},
        tight=Tight(at={"eps": 12, "delta": "1/100000", "sensitivity": 1}, ratio="0.168303593262466"),
        remark="""Certified on 10 <= eps <= 40 for delta = 1e-3, 1e-5, 1e-7 and 1e-9. The classical sigma falls like 1/eps,
            but sensitivity/sqrt(2 eps) is needed: at that sigma delta is 1/2 - e^eps Phi(-sqrt(2 eps)), close to 1/2.
            Use estimators.accounting.mechanisms.gaussian_sigma, which is exact for every eps.""",
        **_CLASSICAL,
    )
)

# --- Assumption E.2 ----------------------------------------------------------------------------------------------

N = Variable("n", "choice", "records of the silo", choices=(1, 2, 10, 100))
BETA = Variable(
    "beta", "fraction", "allowed probability of a clipped record", within=(sp.Rational(1, 10**6), HALF), why="certified"
)
BOUND = Variable(
    "bound", "positive", "bound on |w_k| known in advance, over sigma", within=(sp.Rational(1, 100), 10), why="certified"
)
BEYOND = Variable(
    "beyond", "nonnegative", "excess of |w_k| over it, over sigma", within=(0, 8), why="certified", default=sp.Integer(0)
)


def _clip_derive(n: int, beta: Any, bound: Any, beyond: Any) -> Derivation:
    d = Derivation()
    t = sp.sqrt(2 * sp.log(n / beta))
    d.say("In units of sigma the clipping bound is c = bound + sqrt(2 ln(n/beta)) =", bound + t)
    d.say("A record N(w, 1) leaves [-c, c] most easily at the largest |w|,", bound + beyond)
    high, low = t - beyond, t + 2 * bound + beyond
    d.say("where the ends lie this far from it:", (high, low))
    once = d.say("A record is changed with probability", tail(high) + tail(low))
    d.say("If beyond = 0 this is at most 2 P(X > t) <= exp(-t^2/2) = beta/n, so that a union bound gives beta.")
    return d.conclude("Records are independent given w; one of n is changed with probability", 1 - (1 - once) ** n)


@cache
def _clip_oracle(n: int, beta: Any, bound: Any, beyond: Any) -> sp.Float:
    """The density of one record integrated from -c to c."""
    with bits(300):
        c = number(bound) + (2 * (n / number(beta)).log()).sqrt()
        w = number(bound) + number(beyond)

        def density(x: acb, _: bool) -> acb:
            return (-(x - w) * (x - w) / 2).exp()

        inside = acb.integral(density, acb(-c), acb(c)).real / (2 * arb.pi()).sqrt()
        return sp.Float(decimal(1 - inside**n), 60)


def _clip_simulate(n: int, beta: float, bound: float, beyond: float) -> simulation.Simulation:
    c = bound + np.sqrt(2 * np.log(n / beta))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        x = bound + beyond + gen.standard_normal((reps, n))
        return (np.abs(x) > c).any(axis=1)[:, None].astype(float)

    return simulation.sample_means(draw, labels=["a record is clipped"], draws=n)


register(
    Claim(
        id="mrmtl:no-clip",
        title="A clipping bound without clipping error",
        place="Section 6, Setup; Appendix E.3, Assumption E.2",
        statement="""As the records are Gaussian, one can choose c such that with high probability no record is clipped.
            Judged with c = bound + sigma sqrt(2 ln(n/beta)), for centres |w_k| up to a bound known in advance: the
            probability that one of the silo's n records is clipped is at most beta.""",
        latex=r"""\text{A sufficiently large clipping }c\text{ can be selected such that }\|x_{k,i}\|_{2}\leq
            c\text{ with high probability.}""",
        kind="upper bound",
        variables=(N, BETA, BOUND, BEYOND),
        examples=(
            {"n": 2, "beta": "1/2", "bound": "1/10"},
            {"n": 10, "beta": "1/2", "bound": "1/10"},
        ),
        printed=lambda beta: beta,
        relation="<=",
        derive=_clip_derive,
        oracle=_clip_oracle,
        computed=lambda n, beta, bound, beyond: mechanisms.clipping_probability(
            c=mechanisms.clipping_bound(bound=bound, sigma2=1.0, n=n, beta=beta), centre=bound + beyond, sigma2=1.0, n=n
        ),
        simulate=_clip_simulate,
        condition=lambda beyond: sp.Eq(beyond, 0),
        condition_text="beyond == 0 (a bound on |w_k| is known before the data are seen)",
        counterexample={"n": 2, "beta": "1/100", "bound": 1, "beyond": 5},
        assumes={"law": "gaussian", "clipping": "none"},
        tight=Tight(at={"n": 2, "beta": "1/2", "bound": "1/10"}, ratio="3.29355694783424"),
        unit="probability",
        remark="""theta is unknown in the paper's model and w_k spreads around it, so no c is large enough for all of them,
            and reading c off the data would cost privacy. For K silos put n K for n. The noise grows with c: no clipping
            is bought with a sigma_DP proportional to bound + sigma sqrt(2 ln(n/beta)). The bound is generous by a factor
            of 2 about.""",
    )
)
