"""What a population distribution puts into the objective (12): Section 3, cases 1 to 3.

Belongs here: negative logarithms of prior densities. Does not belong here: response models (responses.py), minimising
(objectives.py), gradient steps (steps.py), the distillation prior (distillation.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp

from estimators.closed_forms import priors
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register

DIGITS = 50
SPAN = (-3, 3)


def free(name: str, meaning: str, lengths: tuple[int, ...] | None = None) -> Variable:
    """A real number."""
    return Variable(name, "real", meaning, lengths=lengths, extreme=False)


def bounded(name: str, meaning: str, lengths: tuple[int, ...] | None = None) -> Variable:
    """A real number of moderate size, so that exponentials stay printable."""
    return Variable(name, "real", meaning, lengths=lengths, within=SPAN, why="floats")


THETAS = free("thetas", "parameters of all clients, client after client, d numbers each", (2, 4))
D12 = Variable(
    "d", "choice", "dimension of a client's parameter; the number of clients is len(thetas)/d", choices=(1, 2), default=1
)
MU1 = free("mu1", "population centre, first coordinate")
MU2 = free("mu2", "population centre, second coordinate (unused for d = 1)")
V_THETA = Variable("sigma2_theta", "positive", "variance of a parameter around its centre", extreme=False)
V_X = Variable("sigma2_x", "positive", "variance of a response", extreme=False)
SCALE = Variable("b", "positive", "scale of the Laplace prior", extreme=False)
DETERMINISTIC = Exempt(kind="deterministic", note="an identity of functions of the parameters")


def clients(thetas: list[Any], d: int) -> list[list[Any]]:
    """The parameters of one client after the other."""
    return [list(thetas[i : i + d]) for i in range(0, len(thetas), d)]


def number(value: Any) -> Any:
    """An exact number at the working precision."""
    value = sp.Rational(value)
    return mp.mpf(int(value.p)) / int(value.q)


def precise(value: Any) -> sp.Float:
    """An mpmath number as a SymPy number."""
    return sp.Float(str(value), DIGITS)


@cache
def _unit_mass(shape: str) -> Any:
    """The integral of an unnormalised density of scale one over the line, by quadrature."""
    if shape == "gauss":
        return mp.quad(lambda t: mp.exp(-t * t / 2), [-18, 0, 18])
    return mp.quad(lambda t: mp.exp(-abs(t)), [-140, 0, 140])


def _mass(shape: str, scale: Any) -> Any:
    """The same for a scale: a variance, or the scale of a Laplace density."""
    return _unit_mass(shape) * (mp.sqrt(number(scale)) if shape == "gauss" else number(scale))


def _minus_log(densities: list[Any], mass: Any) -> Any:
    """Minus the logarithm of a product of one-dimensional densities of this mass."""
    product = mp.mpf(1)
    for density in densities:
        product *= density / mass
    return precise(-mp.log(product))


# --- case 1: a Gaussian population -----------------------------------------------------------------------------------


def squares(thetas: list[Any], d: int, mu1: Any, mu2: Any) -> Any:
    """Squared distances to the centre, summed over all clients."""
    return sum((mu - t) ** 2 for theta in clients(thetas, d) for mu, t in zip((mu1, mu2), theta, strict=False))


def _gauss_printed(thetas: list[Any], d: int, mu1: Any, mu2: Any, sigma2_theta: Any) -> Any:
    m = sp.Rational(len(thetas), d)
    return m * d / 2 * sp.log(2 * sp.pi * sigma2_theta) + squares(thetas, d, mu1, mu2) / (2 * sigma2_theta)


def gauss_derive(thetas: list[Any], d: int, mu1: Any, mu2: Any, sigma2_theta: Any) -> Derivation:
    """Minus the logarithm of the Gaussian density of all clients' parameters."""
    proof, t = Derivation(), sp.Symbol("t", real=True)
    mass = proof.say(
        "The mass of exp(-t^2/(2 sigma2_theta)) on the line:",
        sp.integrate(sp.exp(-(t**2) / (2 * sigma2_theta)), (t, -sp.oo, sp.oo)),
    )
    total = sp.Integer(0)
    for theta in clients(thetas, d):
        for mu, x in zip((mu1, mu2), theta, strict=False):
            total += sp.log(mass**2) / 2 + (x - mu) ** 2 / (2 * sigma2_theta)
    return proof.conclude("Coordinates are independent, so minus the logarithms of their densities add up:", total)


def _gauss_oracle(thetas: list[Any], d: int, mu1: Any, mu2: Any, sigma2_theta: Any) -> Any:
    with mp.workdps(DIGITS + 10):
        centre, v = (number(mu1), number(mu2)), number(sigma2_theta)
        gaps = [number(theta) - centre[i % d] for i, theta in enumerate(thetas)]
        return _minus_log([mp.exp(-r * r / (2 * v)) for r in gaps], _mass("gauss", sigma2_theta))


register(
    Claim(
        id="generative:eq12:gauss",
        title="Regulariser of a Gaussian population",
        place="Section 3, case 1 of (12)",
        statement="For a N(mu, sigma2_theta I_d) population, minus the logarithm of the clients' prior density is this.",
        latex=r"""R(\{\bm{\theta}_{i}\})=\frac{md}{2}\log(2\pi\sigma_{\theta}^{2})+\sum_{i=1}^{m}%
            \frac{\|\bm{\mu}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\theta}^{2}}""",
        kind="identity",
        variables=(THETAS, D12, MU1, MU2, V_THETA),
        examples=(
            {"thetas": [1, 2], "d": 1, "mu1": 0, "mu2": 0, "sigma2_theta": 1},
            {"thetas": [1, 2, 0, 1], "d": 2, "mu1": 1, "mu2": "1/2", "sigma2_theta": 2},
        ),
        printed=_gauss_printed,
        derive=gauss_derive,
        oracle=_gauss_oracle,
        computed=lambda thetas, d, mu1, mu2, sigma2_theta: priors.gaussian_penalty(
            np.reshape(thetas, (-1, d)), [mu1, mu2][:d], sigma2_theta
        )[0],
        not_simulated=DETERMINISTIC,
        assumes={"law": "gaussian"},
        unit="nats",
    )
)


# --- case 2: a Laplace population ------------------------------------------------------------------------------------


def _distances(thetas: list[Any], d: int, mu1: Any, mu2: Any) -> Any:
    return sum(sp.Abs(t - mu) for theta in clients(thetas, d) for mu, t in zip((mu1, mu2), theta, strict=False))


def _laplace_derive(thetas: list[Any], d: int, mu1: Any, mu2: Any, b: Any) -> Derivation:
    proof, t = Derivation(), sp.Symbol("t", positive=True)
    mass = proof.say("The mass of exp(-|t|/b) on the line:", 2 * sp.integrate(sp.exp(-t / b), (t, 0, sp.oo)))
    total = sum(
        sp.log(mass) + sp.Abs(x - mu) / b for theta in clients(thetas, d) for mu, x in zip((mu1, mu2), theta, strict=False)
    )
    return proof.conclude("Each of the m d coordinates brings one normaliser:", total)


def _laplace_oracle(thetas: list[Any], d: int, mu1: Any, mu2: Any, b: Any) -> Any:
    with mp.workdps(DIGITS + 10):
        centre, scale = (number(mu1), number(mu2)), number(b)
        gaps = [number(theta) - centre[i % d] for i, theta in enumerate(thetas)]
        return _minus_log([mp.exp(-abs(r) / scale) for r in gaps], _mass("laplace", b))


register(
    Claim(
        id="generative:eq12:laplace",
        title="Regulariser of a Laplace population",
        place="Section 3, case 2 of (12)",
        statement="""For clients whose d coordinates are Laplace with centre mu and scale b, minus the logarithm of the prior
            density is this.""",
        latex=r"R(\{\bm{\theta}_{i}\})=m\log(2b)+\sum_{i=1}^{m}\frac{\|\bm{\theta}_{i}-\bm{\mu}\|_{1}}{b}",
        kind="identity",
        variables=(THETAS, D12, MU1, MU2, SCALE),
        examples=(
            {"thetas": [1, 2, 0, 1], "d": 2, "mu1": 1, "mu2": "1/2", "b": 2},
            {"thetas": [1, 2], "d": 1, "mu1": 0, "mu2": 0, "b": 1},
        ),
        printed=lambda thetas, d, mu1, mu2, b: (
            sp.Rational(len(thetas), d) * sp.log(2 * b) + _distances(thetas, d, mu1, mu2) / b
        ),
        derive=_laplace_derive,
        oracle=_laplace_oracle,
        corrected=lambda thetas, d, mu1, mu2, b: (
            len(thetas) * sp.log(2 * b) + sum(sp.Abs(t - (mu1, mu2)[i % d]) for i, t in enumerate(thetas)) / b
        ),
        corrected_text="m d log(2b) + sum_i ||theta_i - mu||_1/b",
        slip="the dimension d is missing from the normaliser (case 1 has it)",
        finding="The normaliser of the Laplace prior counts each client once, and not each coordinate.",
        counterexample={"thetas": [0, 0], "d": 2, "mu1": 0, "mu2": 0, "b": 1},
        computed=lambda thetas, d, mu1, mu2, b: priors.laplace_penalty(np.reshape(thetas, (-1, d)), [mu1, mu2][:d], b)[0],
        not_simulated=DETERMINISTIC,
        assumes={"law": "laplace"},
        unit="nats",
        remark="""Right for d = 1. Where b is learned too, the printed form makes it d times too large: its minimum over b is
            at sum ||theta_i - mu||_1/m instead of /(m d) (generative:eq12:laplace:scale).""",
    )
)


GAPS = Variable("gaps", "nonnegative", "distances |theta_ic - mu_c| of all coordinates of all clients", lengths=(2, 4))


def _scale_derive(gaps: list[Any]) -> Derivation:
    d, b = Derivation(), sp.Symbol("b", positive=True)
    penalty = d.say("The penalty of generative:eq12:laplace:", len(gaps) * sp.log(2 * b) + sum(gaps) / b)
    slope = d.say("Its slope, which is negative below its only zero and positive above:", sp.factor(sp.diff(penalty, b)))
    return d.conclude("so the penalty is least at", sp.solve(sp.numer(sp.together(slope)), b)[0])


def _scale_oracle(gaps: list[Any]) -> Any:
    """The mean distance of a coordinate, one coordinate after the other."""
    mean = sp.Integer(0)
    for i, gap in enumerate(gaps, 1):
        mean += (gap - mean) / i
    return mean


register(
    Claim(
        id="generative:eq12:laplace:scale",
        title="Most likely scale of a Laplace population",
        place="Section 3, case 2 of (12); not in the paper",
        statement="""Given the clients' parameters and the centre, the regulariser of case 2 with all m d normalisers is
            least at the mean absolute deviation of a coordinate.""",
        latex=r"\widehat b=\frac{1}{md}\sum_{i=1}^{m}\|\bm{\theta}_{i}-\bm{\mu}\|_{1}",
        kind="identity",
        variables=(GAPS,),
        examples=({"gaps": [1, 3]},),
        printed=lambda gaps: sum(gaps) / sp.Integer(len(gaps)),
        derive=_scale_derive,
        oracle=_scale_oracle,
        ours=True,
        computed=lambda gaps: priors.laplace_scale(np.reshape(gaps, (-1, 1)), 0.0),
        not_simulated=DETERMINISTIC,
        unit="units of theta",
        related=("generative:eq12:laplace",),
    )
)


# --- case 3: a mixture of Gaussians ----------------------------------------------------------------------------------

PAIR = bounded("thetas", "parameters of all clients, client after client, d numbers each", (2,))
P1 = Variable("p", "fraction", "weight of the first component (the second has 1 - p)", within=("1/10", "9/10"), why="floats")
S1 = Variable("s1", "positive", "standard deviation sigma_theta,1 of the first component", within=("1/2", 2), why="floats")
S2 = Variable("s2", "positive", "standard deviation sigma_theta,2 of the second component", within=("1/2", 2), why="floats")
MU11, MU12 = bounded("mu11", "first component's centre"), bounded("mu12", "its second coordinate (unused for d = 1)")
MU21, MU22 = bounded("mu21", "second component's centre"), bounded("mu22", "its second coordinate (unused for d = 1)")
MIXTURE = (PAIR, D12, P1, MU11, MU12, MU21, MU22, S1, S2)
MIXTURE_EXAMPLES = (
    {"thetas": [0, 1], "d": 1, "p": "1/2", "mu11": 0, "mu12": 0, "mu21": 1, "mu22": 0, "s1": 1, "s2": 1},
    {"thetas": [0, 1], "d": 2, "p": "1/3", "mu11": 1, "mu12": 0, "mu21": 1, "mu22": 2, "s1": 1, "s2": "1/2"},
)


def _square(theta: list[Any], mu: tuple[Any, Any]) -> Any:
    return sum((m - t) ** 2 for m, t in zip(mu, theta, strict=False))


def mixture_printed(thetas: list[Any], d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any) -> Any:
    """exp(-R) with the regulariser of case 3 as printed (the same in (21) and (22))."""
    m, total = len(thetas) // d, sp.Integer(1)
    for theta in clients(thetas, d):
        inner = sum(
            sp.exp(_square(theta, mu) / (2 * s**2)) / (2 * sp.pi * s) ** sp.Rational(m * d, 2)
            for mu, s in (((mu11, mu12), s1), ((mu21, mu22), s2))
        )
        total /= inner
    return total


def mixture_corrected(
    thetas: list[Any], d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any
) -> Any:
    """The mixture's density of all clients."""
    parts = ((p, (mu11, mu12)[:d], s1), (1 - p, (mu21, mu22)[:d], s2))
    total = sp.Integer(1)
    for theta in clients(thetas, d):
        density = sp.Integer(0)
        for weight, centre, s in parts:
            distance = sum((x - c) ** 2 for x, c in zip(theta, centre, strict=True))
            density += weight * sp.exp(-distance / (2 * s**2)) / (2 * sp.pi * s**2) ** sp.Rational(d, 2)
        total *= density
    return total


def _mixture_derive(
    thetas: list[Any], d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any
) -> Derivation:
    proof, t, s = Derivation(), sp.Symbol("t", real=True), sp.Symbol("s", positive=True)
    mass = proof.say("The mass of exp(-t^2/(2 s^2)):", sp.integrate(sp.exp(-(t**2) / (2 * s**2)), (t, -sp.oo, sp.oo)))
    density = sp.exp(-(t**2) / (2 * s**2)) / mass
    total = sp.Integer(1)
    for i, theta in enumerate(clients(thetas, d), 1):
        likelihoods = []
        for mu, scale in (((mu11, mu12), s1), ((mu21, mu22), s2)):
            product = sp.Integer(1)
            for centre, x in zip(mu, theta, strict=False):
                product *= density.subs(s, scale).subs(t, centre - x)
            likelihoods.append(product)
        mixed = p * likelihoods[0] + (1 - p) * likelihoods[1]
        total *= proof.say(f"Density of client {i} by total probability:", mixed)
    return proof.conclude("R is minus the logarithm of their product, so exp(-R) is", total)


def mixture_oracle(thetas: list[Any], d: int, p: Any, mu11: Any, mu12: Any, mu21: Any, mu22: Any, s1: Any, s2: Any) -> Any:
    """The density of all clients, with components normalised by quadrature, at 50 digits."""
    with mp.workdps(DIGITS + 10):
        total, w = mp.mpf(1), number(p)
        for i in range(0, len(thetas), d):
            value = mp.mpf(0)
            for weight, mu, s in ((w, (mu11, mu12), s1), (1 - w, (mu21, mu22), s2)):
                part = weight
                for c in range(d):
                    r = number(thetas[i + c]) - number(mu[c])
                    part *= mp.exp(-((r / number(s)) ** 2) / 2) / _mass("gauss", s * s)
                value += part
            total *= value
        return precise(total)


register(
    Claim(
        id="generative:eq12:mixture",
        title="Regulariser of a mixture of Gaussians",
        place="Section 3, case 3 of (12)",
        statement="""For a Gaussian-mixture population, minus the logarithm of the clients' prior density is this. Judged for
            two components, as exp(-R).""",
        latex=r"""R(\{\bm{\theta}_{i}\})=\sum_{i=1}^{m}\log(\sum_{l=1}^{k}\exp(%
            \frac{\|\bm{\mu}_{l}-\bm{\theta}_{i}\|_{2}^{2}}{2\sigma_{\theta,l}^{2}})/((2\pi\sigma_{\theta,l})^{md/2}))""",
        kind="identity",
        variables=MIXTURE,
        examples=MIXTURE_EXAMPLES,
        printed=mixture_printed,
        derive=_mixture_derive,
        oracle=mixture_oracle,
        corrected=mixture_corrected,
        finding="The regulariser of a mixture has two wrong signs, no weights and wrong normalisers.",
        corrected_text="-sum_i log(sum_l p_l exp(-||mu_l - theta_i||^2/(2 sigma_theta,l^2))/(2 pi sigma_theta,l^2)^(d/2))",
        counterexample={"thetas": [0, 0], "d": 1, "p": "1/2", "mu11": 0, "mu12": 0, "mu21": 0, "mu22": 0, "s1": 1, "s2": 1},
        computed=lambda thetas, d, p, mu11, mu12, mu21, mu22, s1, s2: np.exp(
            -priors.mixture_penalty(
                np.reshape(thetas, (-1, d)), [p, 1 - p], [[mu11, mu12][:d], [mu21, mu22][:d]], [s1**2, s2**2]
            )[0]
        ),
        not_simulated=DETERMINISTIC,
        assumes={"law": "gaussian"},
        unit="density",
        remark="""Five letters differ: the sign before the logarithm, the sign in the exponent, the weights p_l, the square
            of sigma_theta,l and the exponent d/2. With one component the two signs cancel in the distance, but not in
            the normaliser, which then falls as sigma grows; with several, the farthest component gets the largest
            weight.""",
    )
)


__all__ = [
    "DETERMINISTIC",
    "bounded",
    "clients",
    "free",
    "gauss_derive",
    "mixture_corrected",
    "mixture_oracle",
    "mixture_printed",
    "number",
    "precise",
]
