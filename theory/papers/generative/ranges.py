"""Theorem 2, the range [-b, b] of the messages: tails of a sample mean, and the event that all lie inside.

Belongs here: tail and event probabilities of Section 5.1.2. Does not belong here: what is sent (quantiser.py,
local_privacy.py), norms in d dimensions (norms.py).
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import sympy as sp
from scipy import special

from estimators.closed_forms import quantization
from theory.engine import simulation
from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight
from theory.papers.generative.model import M2, SIGMA2_THETA, SIGMA2_X, N
from theory.papers.generative.normal import DIGITS, exported, mass_beyond, number, upper_tail

# --- tails -------------------------------------------------------------------------------------------------------------

C1 = Variable("c1", "positive", "distance of a sample mean from its parameter", within=("1/10", 3), why="digits")
C2 = Variable("c2", "positive", "distance of a parameter from the centre", within=("1/10", 3), why="digits")
TAIL_X = Variable("sigma2_x", "positive", SIGMA2_X.meaning, within=("1/2", 4), why="digits")
TAIL_THETA = Variable("sigma2_theta", "positive", SIGMA2_THETA.meaning, within=("1/2", 4), why="digits")
TAIL_N = Variable("n", "size", N.meaning, within=(1, 20), why="digits")
TAILS = (TAIL_N, TAIL_X, TAIL_THETA, C1, C2)
TAIL_EXAMPLES = (
    {"n": 2, "sigma2_x": 2, "sigma2_theta": 1, "c1": 1, "c2": 1},
    {"n": 4, "sigma2_x": 4, "sigma2_theta": 1, "c1": 1, "c2": "3/2"},
)


def _both_tails(z: Any) -> Any:
    """Probability of more than z standard deviations, by integrating the density."""
    x, low = sp.Symbol("x", real=True), sp.Symbol("low", positive=True)
    above = sp.integrate(sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi), (x, low, sp.oo))
    return sp.expand(2 * above.rewrite(sp.erfc)).subs(low, z)


def _tail_derive(n: Any, sigma2_x: Any, sigma2_theta: Any, c1: Any, c2: Any) -> Derivation:
    d = Derivation()
    d.say("A sample mean is normal around its parameter with variance sigma2_x/n, a parameter around mu with sigma2_theta.")
    apart = d.say("In standard deviations c1 and c2 are", (c1 * sp.sqrt(n / sigma2_x), c2 * sp.sqrt(1 / sigma2_theta)))
    return d.conclude("The density integrated beyond them, on both sides:", tuple(_both_tails(z) for z in apart))


def _tail_oracle(n: Any, sigma2_x: Any, sigma2_theta: Any, c1: Any, c2: Any) -> tuple[Any, Any]:
    with mpmath.workdps(DIGITS + 5):
        z = (number(c1) / mpmath.sqrt(number(sigma2_x / n)), number(c2) / mpmath.sqrt(number(sigma2_theta)))
        return exported(2 * mass_beyond(z[0])), exported(2 * mass_beyond(z[1]))


def _tail_simulate(n: int, sigma2_x: float, sigma2_theta: float, c1: float, c2: float) -> simulation.Simulation:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        mean = gen.normal(0, np.sqrt(sigma2_x), (reps, n)).mean(axis=1)
        return np.column_stack([abs(mean) > c1, abs(gen.normal(0, np.sqrt(sigma2_theta), reps)) > c2]).astype(float)

    return simulation.sample_means(draw, draws=n + 1, count=2)


register(
    Claim(
        id="generative:thm2:tail",
        title="The Gaussian tail bounds behind the range",
        place="Section 5.1.2, proof of Theorem 2 part 1",
        statement="""A sample mean is farther than c1 from its parameter, and a parameter farther than c2 from the centre,
            with probability at most these exponentials.""",
        latex=r"""\Pr[|\overline{X}_i-\theta_i|>c_1]\leq\exp\left(-\frac{nc_1^2}{\sigma_x^2}\right),\quad
            \Pr[|\theta_i-\mu|>c_2]\leq\exp\left(-\frac{c_2^2}{\sigma_\theta^2}\right)""",
        printed=lambda n, sigma2_x, sigma2_theta, c1, c2: (sp.exp(-n * c1**2 / sigma2_x), sp.exp(-(c2**2) / sigma2_theta)),
        corrected=lambda n, sigma2_x, sigma2_theta, c1, c2: (
            sp.erfc(c1 * sp.sqrt(n / (2 * sigma2_x))),
            sp.erfc(c2 * sp.sqrt(1 / (2 * sigma2_theta))),
        ),
        corrected_text="erfc(sqrt(n c1^2/(2 sigma2_x))) <= exp(-n c1^2/(2 sigma2_x)); likewise for c2",
        counterexample={"n": 1, "sigma2_x": 1, "sigma2_theta": 1, "c1": 2, "c2": 2},
        remark="""The exponent lacks its factor 1/2: a Gaussian tail falls like exp(-c^2/(2 variance)). At two standard
            deviations the probability is 0.0455 and the printed bound 0.0183; it fails for all c beyond 1.27 standard
            deviations. The bound with the factor is generative:thm2:tail:bound.""",
        kind="probability",
        variables=TAILS,
        examples=TAIL_EXAMPLES,
        relation="<=",
        derive=_tail_derive,
        oracle=_tail_oracle,
        not_computed=Exempt(kind="refuted"),
        finding="The exponent of the Gaussian tail lacks its factor one half, so the probability is larger than the bound.",
        simulate=_tail_simulate,
        entries=("Pr(|xbar - theta| > c1)", "Pr(|theta - mu| > c2)"),
        assumes={"law": "gaussian"},
        unit="probability",
    )
)
Z = Variable("z", "positive", "distance from the mean in standard deviations", within=("1/1000", 35), why="certified")


def _bound_derive(z: Any) -> Derivation:
    d = Derivation()
    x = sp.Symbol("x", positive=True)
    d.say("The density of a standard normal, beyond x = z + u:", sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi))
    d.say(
        """At z = 0 its two tails have the mass 1, as exp(-z^2/2) has, and the ratio falls from there: the tail beyond z is
        exp(-z^2/2) times the mean of exp(-z u - u^2/2) over u > 0."""
    )
    return d.conclude("Integrated beyond z, on both sides:", _both_tails(z))


def _bound_oracle(z: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        return exported(2 * mass_beyond(number(z)))


def _bound_simulate(z: float) -> simulation.Simulation:
    return simulation.sample_means(lambda gen, reps: (abs(gen.standard_normal((reps, 1))) > z).astype(float))


register(
    Claim(
        id="generative:thm2:tail:bound",
        title="Gaussian tail bounds with the right exponent",
        place="Section 5.1.2, proof of Theorem 2 part 1 (corrected)",
        statement="""A Gaussian variable is farther than c from its mean with probability at most exp(-c^2/(2 variance)).
            Judged in standard deviations, c = z sd: z = c1 sqrt(n)/sigma_x for a sample mean, c2/sigma_theta for a
            parameter.""",
        latex=r"""\Pr[|\overline{X}_i-\theta_i|>c_1]\leq\exp\left(-\frac{nc_1^2}{2\sigma_x^2}\right),\quad
            \Pr[|\theta_i-\mu|>c_2]\leq\exp\left(-\frac{c_2^2}{2\sigma_\theta^2}\right)""",
        kind="probability",
        variables=(Z,),
        examples=({"z": 1}, {"z": "3/2"}),
        printed=lambda z: sp.exp(-(z**2) / 2),
        relation="<=",
        derive=_bound_derive,
        oracle=_bound_oracle,
        not_computed=Exempt(
            kind="elsewhere",
            function="estimators.closed_forms.quantization.probability_all_inside",
            note="the probability of staying inside, for m means",
        ),
        tight=Tight(at={"z": 1}, ratio="1.91147360293"),
        simulate=_bound_simulate,
        ours=True,
        assumes={"law": "gaussian"},
        unit="probability",
        remark="Certified for z from 0.001 to 35.",
    )
)


# --- the event ---------------------------------------------------------------------------------------------------------

R = Variable("r", "nonnegative", "bound on the absolute value of the centre mu", extreme=False)
EVENT_THETA = Variable("sigma2_theta", "nonnegative", SIGMA2_THETA.meaning, extreme=False)
EVENT_X = Variable("sigma2_x", "positive", SIGMA2_X.meaning, extreme=False)
EVENT_N = Variable("n", "size", N.meaning, extreme=False)
EVENT_M = Variable("m", "size", M2.meaning, low=2, extreme=False)


def _event_corrected(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, r: Any) -> Any:
    """Probability that m means around r all lie within the printed [-b, b]."""
    s = sp.sqrt(sigma2_x / n)
    margin, twice = (sp.sqrt(sigma2_theta) + s) * sp.sqrt(sp.log(m**2 * n)), sp.sqrt(2 * (sigma2_theta + sigma2_x / n))
    return (1 - sp.erfc(margin / twice) / 2 - sp.erfc((margin + 2 * r) / twice) / 2) ** m


def _say_means(d: Derivation, variance: Any) -> None:
    d.say(
        "Averaged over parameters and samples the m sample means are independent normals around mu with variance", variance
    )
    d.say("The probability that all of them lie in [-b, b] is smallest at the ends mu = +-r of the centre's range.")


def _event_derive(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, r: Any) -> Derivation:
    d = Derivation()
    _say_means(d, sigma2_theta + sigma2_x / n)
    variance = sigma2_theta + sigma2_x / n
    margin = d.say(
        "The stated b exceeds r by", (sp.sqrt(sigma2_theta) + sp.sqrt(sigma2_x) / sp.sqrt(n)) * sp.sqrt(sp.log(m**2 * n))
    )
    tails = d.say(
        "With mu = r one end is that far away, the other 2 r more. Masses beyond them:",
        tuple(_both_tails(z / sp.sqrt(variance)) / 2 for z in (margin, margin + 2 * r)),
    )
    return d.conclude("So all are inside with probability (one minus the two tails) to the power m:", (1 - sum(tails)) ** m)


def _event_oracle(m: Any, n: Any, sigma2_theta: Any, sigma2_x: Any, r: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        spread, noise = number(sigma2_theta), number(sigma2_x) / int(n)
        scale = mpmath.sqrt(spread + noise)
        z = (mpmath.sqrt(spread) + mpmath.sqrt(noise)) / scale * mpmath.sqrt(mpmath.log(int(m) ** 2 * int(n)))
        outside = mass_beyond(z) + mass_beyond(z + 2 * number(r) / scale)
        return exported((1 - outside) ** int(m))


def _event_computed(m: int, n: int, sigma2_theta: float, sigma2_x: float, r: float) -> float:
    margin = (np.sqrt(sigma2_theta) + np.sqrt(sigma2_x / n)) * np.sqrt(np.log(m**2 * n))
    return float(quantization.probability_all_inside(margin, r, sigma2_theta + sigma2_x / n, m))


def _count_inside(m: int, n: int, sigma2_theta: float, sigma2_x: float, r: float, half: float) -> Any:
    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        theta = r + gen.normal(0, np.sqrt(sigma2_theta), (reps, m))
        means = theta + gen.normal(0, np.sqrt(sigma2_x), (reps, m, n)).mean(axis=2)
        return (abs(means) <= half).all(axis=1, keepdims=True).astype(float)

    return simulation.sample_means(draw, draws=m * (n + 1))


register(
    Claim(
        id="generative:thm2:event",
        title="Probability that all sample means lie in the range",
        place="Theorem 2, items 1 and 2; proof in Section 5.1.2",
        statement="""With this b all m sample means lie in [-b, b] with probability at least 1 - 2/(mn), for any centre in
            [-r, r]. Judged at mu = r, which the theorem allows.""",
        latex=r"""b=r+\sigma_\theta\sqrt{\log(m^2n)}+\frac{\sigma_x}{\sqrt{n}}\sqrt{\log(m^2n)},\qquad\Pr[\mathcal{E}]=1-%
            \frac{2}{mn}""",
        kind="probability",
        variables=(EVENT_M, EVENT_N, EVENT_THETA, EVENT_X, R),
        examples=(
            {"m": 3, "n": 2, "sigma2_theta": 1, "sigma2_x": 2, "r": 1},
            {"m": 5, "n": 3, "sigma2_theta": 0, "sigma2_x": 1, "r": 2},
        ),
        printed=lambda m, n: 1 - 2 / (m * n),
        relation=">=",
        derive=_event_derive,
        oracle=_event_oracle,
        computed=_event_computed,
        simulate=lambda m, n, sigma2_theta, sigma2_x, r: _count_inside(
            m,
            n,
            sigma2_theta,
            sigma2_x,
            r,
            r + (np.sqrt(sigma2_theta) + np.sqrt(sigma2_x / n)) * np.sqrt(np.log(m**2 * n)),
        ),
        corrected=_event_corrected,
        finding="The range that should hold all messages is too narrow, so it fails more often than claimed.",
        corrected_text="the exact probability; b = r + sqrt(2 (sigma2_theta + sigma2_x/n) log(m^2 n)) gives 1 - 1/(mn)",
        counterexample={"m": 10, "n": 10, "sigma2_theta": 0, "sigma2_x": 1, "r": 10},
        assumes={"law": "gaussian"},
        unit="probability",
        related=("generative:thm2:tail",),
        remark="""Follows from the wrong tail bound. The stated b is rho sqrt(log(m^2 n)) standard deviations of a sample
            mean beyond r with rho = (sigma_theta + s)/sqrt(sigma2_theta + s^2), s = sigma_x/sqrt(n), between 1 and
            sqrt(2). Only for sigma_theta = s is rho = sqrt(2), and then the claim is true for all m and n. For any other
            pair it fails once mn is large: the failure probability falls like m^(1 - rho^2) n^(-rho^2/2), slower than
            1/(mn). generative:thm2:event:range gives a b that works.""",
    )
)


# --- a range that works ------------------------------------------------------------------------------------------------

RANGE_M = Variable("m", "size", M2.meaning, low=2, within=(2, 1000), why="certified")
RANGE_N = Variable("n", "size", N.meaning, within=(1, 1000), why="certified")


def _range_derive(m: Any, n: Any) -> Derivation:
    d = Derivation()
    _say_means(d, sp.Symbol("sd") ** 2)
    margin = d.say("In units of the standard deviation sd of a mean, b exceeds r by", sp.sqrt(2 * sp.log(m**2 * n)))
    r = sp.Symbol("r", nonnegative=True)
    outside = upper_tail(margin) + upper_tail(margin + 2 * r)
    d.say("With mu at the end r of the centre's range (in units of sd) a mean is outside with probability", outside)
    d.say("which falls as r grows, so r = 0 is the least favourable bound.")
    d.say("""Each tail beyond x is at most exp(-x^2/2)/2, so one mean is outside with probability at most 1/(m^2 n), and any
        of the m with probability at most 1/(mn).""")  # fmt: skip
    return d.conclude("Expected number of means outside, which bounds the probability that any is:", m * outside.subs(r, 0))


def _range_oracle(m: Any, n: Any) -> Any:
    with mpmath.workdps(DIGITS + 5):
        return exported(2 * int(m) * mass_beyond(mpmath.sqrt(2 * mpmath.log(int(m) ** 2 * int(n)))))


def _range_computed(m: int, n: int) -> float:
    from scipy.special import erfc

    return float(m * erfc(quantization.message_range(m, n, 1.0, 0.0, 0.0) / np.sqrt(2)))


def _range_simulate(m: int, n: int) -> simulation.Simulation:
    half = np.sqrt(2 * np.log(m**2 * n))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        means = gen.normal(0, np.sqrt(0.5), (reps, m)) + gen.normal(0, np.sqrt(0.5), (reps, m))
        return (abs(means) > half).sum(axis=1, keepdims=True).astype(float)

    return simulation.sample_means(draw, draws=2 * m)


register(
    Claim(
        id="generative:thm2:event:range",
        title="A range that holds all sample means with probability 1 - 1/(mn)",
        place="Theorem 2, items 1 and 2 (corrected)",
        statement="""With b = r + sqrt(2 (sigma2_theta + sigma2_x/n) log(m^2 n)) all m sample means lie in [-b, b] with
            probability at least 1 - 1/(mn), for any centre in [-r, r]. Judged: the expected number outside, in the least
            favourable case, is at most 1/(mn).""",
        latex=r"b=r+\sqrt{2\left(\sigma_\theta^2+\tfrac{\sigma_x^2}{n}\right)\log(m^2n)}:\quad\Pr[\mathcal{E}]\geq1-\frac{1}{mn}",
        kind="probability",
        variables=(RANGE_M, RANGE_N),
        examples=({"m": 2, "n": 1}, {"m": 3, "n": 1}),
        printed=lambda m, n: 1 / (m * n),
        relation="<=",
        derive=_range_derive,
        oracle=_range_oracle,
        computed=_range_computed,
        simulate=_range_simulate,
        ours=True,
        tight=Tight(at={"m": 2, "n": 1}, ratio="2.60712773528"),
        assumes={"law": "gaussian"},
        unit="expected number of means outside",
        related=("generative:thm2:tail:bound",),
        remark="""At least as large as the printed b, equal to it when sigma2_theta = sigma2_x/n, and beyond r at most
            sqrt(2) times as far. Certified for m and n up to 1000.""",
    )
)


# --- the error given the event -----------------------------------------------------------------------------------------

NARROW = Variable("r", "nonnegative", "bound on the absolute value of the centre, in standard deviations of a mean",
                  within=(0, 10), why="certified")  # fmt: skip


def _given_derive(m: Any, r: Any) -> Derivation:
    d = Derivation()
    up = sp.sqrt(sp.log(m**2))
    d.say(
        """Given the sample means, theta_i is normal around w xbar_i + (1-w) mu, whatever the event. The estimate's distance
        from there is sum c_k z_k, z_k = xbar_k - mu, c_k >= 0 with sum C = 1-w, plus the messages' noise, of which the
        event says nothing."""
    )
    d.say(
        """With T_1 and T_2 the first two moments of z_k given the event and A = sum c_k^2 >= C^2/m, the mean square A T_2 +
        (C^2 - A) T_1^2 exceeds its value without the event by at most C^2/m times T_2 - V + (m-1) T_1^2."""
    )
    d.say(
        """A wider range cuts off less. In standard deviations of a mean it is narrowest with one sample each and one of the
        deviations zero; there, with mu = r, z lies between -low and""",
        up,
    )
    low = d.say("with low =", up + 2 * r)
    mass = d.say("which has the probability", 1 - upper_tail(up) - upper_tail(low))

    def density(x: Any) -> Any:
        return sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)

    first = d.say("First moment there, by parts:", (density(low) - density(up)) / mass)
    second = d.say("Second moment:", 1 - (up * density(up) + low * density(low)) / mass)
    return d.conclude("m times the mean square of the mean of all z_k, V = 1:", second + (m - 1) * first**2)


def _given_oracle(m: Any, r: Any) -> Any:
    """Both moments by quadrature of the truncated density."""
    with mpmath.workdps(DIGITS + 5):
        up = mpmath.sqrt(mpmath.log(int(m) ** 2))
        ends = sorted({-min(up + 2 * number(r), mpmath.mpf(16)), mpmath.mpf(-4), mpmath.mpf(0), min(up, mpmath.mpf(16))})
        ends = [e for e in ends if e >= -up - 2 * number(r)]
        mass, first, second = (mpmath.quad(lambda x, k=k: x**k * mpmath.exp(-x * x / 2), ends) for k in range(3))
        return exported(second / mass + (int(m) - 1) * (first / mass) ** 2)


def _given_simulate(m: int, r: float) -> simulation.Simulation:
    up = np.sqrt(np.log(m**2))

    def draw(gen: np.random.Generator, reps: int) -> np.ndarray:
        z = gen.standard_normal((reps, m))
        inside = ((z <= up) & (z >= -up - 2 * r)).all(axis=1)
        return np.stack([inside * m * z.mean(axis=1) ** 2, inside], axis=1)

    chance = (special.ndtr(up) - special.ndtr(-up - 2 * r)) ** m
    ratio = simulation.Ratio("m times the mean square, given the event", [1.0, 0.0], [0.0, 1.0], float(chance))
    return simulation.Simulation(simulation.sample_means(draw, draws=m, count=2).experiment, (ratio,))


register(
    Claim(
        id="generative:thm2:event:mse",
        title="Does the error bound hold given the event?",
        place="Section 5.1.2, (40) and (44)",
        statement="""Given that all sample means lie in the range, the error is at most that of (36). Judged: given the
            event, the mean of the sample means has at most the mean square around mu that it has without it; centre at
            the end of its range.""",
        latex=r"""\text{Conditioned on the event }\mathcal{E}\text{, and using (36), we get that }MSE=%
            \mathbb{E}_{\theta,\mathbf{X}}\left[\left(\hat{\theta}_{i}-\theta_{i}\right)^{2}\right]\leq%
            \frac{\sigma_{x}^{2}}{n}\left(\frac{1-\alpha}{m}+\alpha\right)""",
        kind="upper bound",
        relation="<=",
        variables=(RANGE_M, NARROW),
        examples=({"m": 2, "r": 0}, {"m": 3, "r": 1}),
        printed=lambda: sp.Integer(1),
        derive=_given_derive,
        oracle=_given_oracle,
        not_computed=Exempt(
            kind="elsewhere",
            function="estimators.closed_forms.quantization.projection_bias",
            note="the bias of a projected mean, the same integrals",
        ),
        tight=Tight(at={"m": 2, "r": 0}, ratio="2.61277079968"),
        simulate=_given_simulate,
        assumes={"law": "gaussian", "clipping": "none"},
        unit="multiples of the variance of the mean of all sample means",
        related=("generative:thm2:mse", "generative:thm2:event", "generative:thm2:quantiser:projection"),
        remark="""(36) does not give it: its expectations are not those given the event. It holds all the same, because
            cutting the tails off lowers the second moment by more than the shift of the mean adds. Certified for m and n
            up to 1000 and r up to ten standard deviations.""",
    )
)
